//! The node manager's process: dials the scheduler, starts shims, looks after
//! them, adopts those that an earlier life started.

use super::clock;
use super::containment::Containment;
use super::files;
use super::room::Ended;
pub use super::room::LogRoom;
use super::shim::{LaunchFile, StatusFile};
use super::token::Token;
use crate::client::root;
use crate::protocol::node::{Found, Identity, Node, NodeEffect, NodeInput, ShimSays};
use crate::protocol::shim::{Control, ShimWish};
use crate::protocol::{
    AttemptId, ClusterId, Epoch, Exit, Final, Incarnation, Millis, Orders, Report, Session, Timers,
};
use crate::wire::pb;
use blox_core::{JobId, Name, NodeSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

/// How a node manager is started.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Where the scheduler is, as `http://host:port`.
    pub scheduler: String,
    /// Its own directory.
    pub dir: PathBuf,
    /// What the node is made of.
    pub offer: NodeSpec,
    /// Where others reach it.
    pub address: String,
    /// The timers, the same as the scheduler's.
    pub timers: Timers,
    /// The program and arguments that run a shim; the launch's folder is added.
    pub shim: Vec<String>,
    /// What programs have to call each GPU, by number; empty for the numbers.
    pub devices: Vec<String>,
    /// What the scheduler asks for.
    pub token: Token,
    /// How much room logs may take.
    pub logs: LogRoom,
}

/// How often launches are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// A shim that was started by an earlier life may take so long to lock its folder.
const SETTLE: Millis = Millis(2_000);
/// After its disk failed a node manager tries again so often.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs a node manager until the future `stop` is ready. Launches go on
/// without it, as long as their leases last.
///
/// When its disk fails it tells `trouble`, forgets everything, and begins a
/// new life with what it finds there. `trouble` hears as well, once each time,
/// that the scheduler does not answer or turns it away, and that it answers again.
///
/// # Errors
/// Its directory cannot be used when it begins, or the scheduler does not take
/// the node in.
pub async fn run(
    mut settings: NodeSettings,
    stop: impl Future<Output = ()>,
    mut trouble: impl FnMut(&str),
) -> io::Result<()> {
    // Jobs are told paths in it, and run in other folders.
    settings.dir = std::path::absolute(&settings.dir)?;
    let dir = settings.dir.display().to_string();
    let named = |e: &io::Error| match e.to_string() {
        // It names a file in there.
        text if text.starts_with(&dir) => text,
        text => format!("{dir}: {text}"),
    };
    let open = || Shell::open(settings.clone());
    let mut shell = open().map_err(|e| io::Error::new(e.kind(), named(&e)))?;
    let mut stop = std::pin::pin!(stop);
    loop {
        let end = tokio::select! {
            () = &mut stop => return Ok(()),
            end = live(shell, &mut trouble) => end,
        };
        match end {
            End::Disk(e) => trouble(&named(&e)),
            End::Refused(why) => return Err(io::Error::other(why)),
        }
        shell = loop {
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = tokio::time::sleep(AGAIN) => {}
            }
            match open() {
                Ok(shell) => break shell,
                Err(e) => trouble(&named(&e)),
            }
        };
    }
}

/// What ends a life.
enum End {
    Disk(io::Error),
    /// The scheduler does not take the node in.
    Refused(String),
}

/// What comes of the stream, other than orders.
enum News {
    Said(String),
    Refused(String),
}

/// One life, to its end.
async fn live(mut shell: Shell, trouble: &mut impl FnMut(&str)) -> End {
    let (reports, from_us) = mpsc::channel::<pb::Report>(16);
    let (to_us, mut orders) = mpsc::channel::<Orders>(16);
    let mut tasks = tokio::task::JoinSet::new();
    let (tell, mut news) = mpsc::unbounded_channel();
    tasks.spawn(link(shell.settings.clone(), from_us, to_us, tell));
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let said = tokio::select! {
            Some(orders) = orders.recv() => {
                let port = free_port();
                shell.input(NodeInput::Orders(orders, port))
            }
            Some(news) = news.recv() => match news {
                News::Said(text) => {
                    trouble(&text);
                    continue;
                }
                News::Refused(why) => return End::Refused(why),
            },
            _ = look.tick() => shell.look(),
        };
        match said {
            Ok(said) => {
                for report in said {
                    // A report that finds no room is made up for by the next.
                    let _ = reports.try_send((&report).into());
                }
            }
            Err(e) => return End::Disk(e),
        }
    }
}

/// Keeps a stream to the scheduler open.
async fn link(
    settings: NodeSettings,
    mut reports: mpsc::Receiver<pb::Report>,
    orders: mpsc::Sender<Orders>,
    news: mpsc::UnboundedSender<News>,
) {
    let at = settings.scheduler.trim_start_matches("http://");
    let mut wait = Duration::from_millis(100);
    let mut out = false;
    loop {
        let heard = || {
            if std::mem::take(&mut out) {
                let text = format!("the scheduler at {at} answers again");
                let _ = news.send(News::Said(text));
            }
        };
        match connected(&settings, &mut reports, &orders, heard).await {
            Ok(()) => wait = Duration::from_millis(100),
            Err(e) => {
                let status = e.downcast_ref::<tonic::Status>();
                let text = match status.map(|s| (s.code(), s.message())) {
                    Some((tonic::Code::FailedPrecondition, why)) => {
                        let _ = news.send(News::Refused(why.to_owned()));
                        return;
                    }
                    // It may be started again with the right token, or another version.
                    Some((tonic::Code::Unauthenticated | tonic::Code::InvalidArgument, why)) => {
                        format!("the scheduler at {at} turns this node away: {why}")
                    }
                    _ => format!("the scheduler at {at} does not answer: {}", root(&*e)),
                };
                if !std::mem::replace(&mut out, true) {
                    let _ = news.send(News::Said(text));
                }
            }
        }
        // Old reports are no news.
        while reports.try_recv().is_ok() {}
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(2));
    }
}

async fn connected(
    settings: &NodeSettings,
    reports: &mut mpsc::Receiver<pb::Report>,
    orders: &mpsc::Sender<Orders>,
    mut heard: impl FnMut(),
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let beat = Duration::from_millis(settings.timers.heartbeat.0.max(200));
    let channel = Endpoint::from_shared(settings.scheduler.clone())?
        .connect_timeout(Duration::from_secs(5))
        .http2_keep_alive_interval(beat)
        .keep_alive_timeout(beat)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true)
        .connect()
        .await?;
    let token = settings.token.clone();
    let mut client = pb::node_link_client::NodeLinkClient::with_interceptor(channel, token)
        .max_decoding_message_size(crate::wire::LARGEST);
    let (tx, rx) = mpsc::channel(16);
    let mut stream = client.link(ReceiverStream::new(rx)).await?.into_inner();
    // Ends with the stream.
    let mut tasks = tokio::task::JoinSet::new();
    let dir = settings.dir.clone();
    tasks.spawn(async move { super::logs::answer(client, &dir).await });
    loop {
        tokio::select! {
            report = reports.recv() => match report {
                Some(report) => tx.send(report).await?,
                None => return Ok(()),
            },
            message = stream.message() => match message? {
                // What makes no sense is dropped; the next will.
                Some(message) => {
                    heard();
                    if let Ok(o) = Orders::try_from(message) {
                        orders.send(o).await?;
                    }
                }
                None => return Ok(()),
            },
        }
    }
}

fn free_port() -> u16 {
    let bound = std::net::TcpListener::bind(("0.0.0.0", 0));
    bound.and_then(|l| l.local_addr()).map_or(0, |a| a.port())
}

/// Bits of a session that are the milliseconds of a moment since 1970.
const MOMENT: u32 = 42;

/// The next life of a node manager, written down: how many there were, and when this begins. Of
/// copies of a state folder that have counted as far the one that begins last is the later.
fn next_session(dir: &Path) -> io::Result<Session> {
    let path = dir.join("session.json");
    let last: u64 = files::read(&path)?.unwrap_or(0);
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let moment = wall.as_millis() as u64 % (1 << MOMENT);
    let session = (((last >> MOMENT) + 1) << MOMENT) + moment;
    files::write(&path, &session, true)?;
    Ok(Session(session))
}

/// What a scheduler said of itself and of the node. Once this was the first two, as a list, which
/// is read as well.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    epoch: Epoch,
    incarnation: Incarnation,
    #[serde(default)]
    cluster: Option<ClusterId>,
}

/// A launch that has a shim.
struct Watched {
    mark: String,
    child: Option<Child>,
    said: Option<StatusFile>,
    /// When its status changed last: it does every second.
    moved: Millis,
    done: bool,
}

struct Shell {
    settings: NodeSettings,
    machine: Node,
    boot: String,
    began: Millis,
    watched: BTreeMap<AttemptId, Watched>,
    /// Shims that have nothing to say any more.
    leaving: Vec<Child>,
    ended: Ended,
    // Held as long as this lives.
    _lock: File,
}

impl Shell {
    fn open(settings: NodeSettings) -> io::Result<Self> {
        let dir = &settings.dir;
        crate::folder(dir)?;
        fs::create_dir_all(dir.join("attempts"))?;
        let lock = File::create(dir.join("lock"))?;
        lock.try_lock()
            .map_err(|_| io::Error::other("another node manager uses this directory"))?;
        let boot = clock::boot_id()?;
        let key: String = match files::read(&dir.join("node.json"))? {
            Some(key) => key,
            None => {
                let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
                let key = uuid.trim().to_owned();
                files::write(&dir.join("node.json"), &key, true)?;
                key
            }
        };
        let session = next_session(dir)?;
        let seen: Seen = files::read(&dir.join("seen.json"))?.unwrap_or_default();
        let who = Identity {
            node: Name::from(key),
            boot: Name::from(boot.clone()),
            session,
            cluster: seen.cluster,
            epoch: seen.epoch,
            incarnation: seen.incarnation,
            offer: Arc::new(settings.offer.clone()),
            address: Name::from(settings.address.clone()),
        };
        let (found, watched) = found(&dir.join("attempts"), &boot)?;
        let now = clock::now();
        let ended = Ended::open(dir.join("logs"), settings.logs.ended)?;
        Ok(Shell {
            machine: Node::new(settings.timers, who, found, now),
            settings,
            boot,
            began: now,
            watched,
            leaving: Vec::new(),
            ended,
            _lock: lock,
        })
    }

    fn folder(&self, id: AttemptId) -> PathBuf {
        self.settings.dir.join("attempts").join(id.to_string())
    }

    fn input(&mut self, input: NodeInput) -> io::Result<Vec<Report>> {
        let mut reports = Vec::new();
        for effect in self.machine.step(clock::now(), input) {
            match effect {
                NodeEffect::Remember(cluster, epoch, incarnation) => {
                    let seen = Seen {
                        epoch,
                        incarnation,
                        cluster: Some(cluster),
                    };
                    files::write(&self.settings.dir.join("seen.json"), &seen, true)?;
                }
                NodeEffect::Send(report) => reports.push(report),
                NodeEffect::Spawn {
                    id,
                    fence,
                    task,
                    meeting,
                    port,
                    lease,
                } => {
                    let name = |gpu: &u32| self.settings.devices.get(*gpu as usize).cloned();
                    let launch = LaunchFile {
                        devices: task.gpus.iter().filter_map(name).collect(),
                        id,
                        fence,
                        task: (*task).clone(),
                        meeting,
                        port,
                        boot: self.boot.clone(),
                        mark: format!("{}-{id}-{}", std::process::id(), fence.0),
                        timers: self.settings.timers,
                        log_bytes: Some(self.settings.logs.launch),
                    };
                    self.spawn(&launch, lease)?;
                }
                NodeEffect::Tell(id, control) => {
                    let path = self.folder(id).join("control.json");
                    files::write(&path, &control, false)?;
                }
                NodeEffect::Destroy(id) => self.destroy(id),
                NodeEffect::Forget(id) => {
                    let watched = self.watched.remove(&id);
                    self.leaving.extend(watched.and_then(|w| w.child));
                    self.ended.take(&self.folder(id))?;
                }
            }
        }
        Ok(reports)
    }

    fn spawn(&mut self, launch: &LaunchFile, lease: Millis) -> io::Result<()> {
        let dir = self.folder(launch.id);
        fs::create_dir_all(&dir)?;
        let control = Control {
            lease,
            wish: ShimWish::Run,
        };
        files::write(&dir.join("control.json"), &control, false)?;
        // From here on a later life knows of it.
        files::write(&dir.join("launch.json"), launch, true)?;
        let child = self
            .settings
            .shim
            .split_first()
            .and_then(|(program, rest)| {
                Command::new(program)
                    .args(rest)
                    .arg(&dir)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .ok()
            });
        if child.is_none() {
            let done = Final {
                exit: Exit::NeverRan,
                ran: Millis(0),
                estimated: false,
                why: "its shim could not be started".to_owned(),
            };
            files::write(&dir.join("final.json"), &done, true)?;
        }
        let watched = Watched {
            mark: launch.mark.clone(),
            child,
            said: None,
            moved: clock::now(),
            done: false,
        };
        self.watched.insert(launch.id, watched);
        Ok(())
    }

    /// Looks at every launch and at the clock.
    fn look(&mut self) -> io::Result<Vec<Report>> {
        // Not left as zombies.
        self.leaving
            .retain_mut(|c| matches!(c.try_wait(), Ok(None)));
        let mut reports = Vec::new();
        let ids: Vec<AttemptId> = self.watched.keys().copied().collect();
        for id in ids {
            for says in self.look_at(id)? {
                reports.extend(self.input(NodeInput::Shim(id, says))?);
            }
        }
        reports.extend(self.input(NodeInput::Tick)?);
        Ok(reports)
    }

    fn look_at(&mut self, id: AttemptId) -> io::Result<Vec<ShimSays>> {
        let dir = self.folder(id);
        let settled = clock::now() - self.began > SETTLE;
        let Some(w) = self.watched.get_mut(&id) else {
            return Ok(Vec::new());
        };
        if w.done {
            return Ok(Vec::new());
        }
        // First whether it lives, then what it left: never the other way round.
        let alive = match &mut w.child {
            Some(child) => child.try_wait()?.is_none(),
            None => !settled || is_locked(&dir),
        };
        if let Some(done) = files::read::<Final>(&dir.join("final.json"))? {
            w.done = true;
            // What it saved as it left, nobody has looked at yet.
            let last: Option<StatusFile> = files::said(&dir.join("status.json"));
            let last = last.map(|s| ShimSays::Said(s.said));
            return Ok(last.into_iter().chain([ShimSays::Done(done)]).collect());
        }
        if !alive {
            self.destroy(id);
            return Ok(Vec::new());
        }
        let Some(status) = files::read::<StatusFile>(&dir.join("status.json"))? else {
            return Ok(Vec::new());
        };
        let before = w.said.replace(status.clone());
        if before.as_ref() != Some(&status) {
            w.moved = clock::now();
        } else if clock::now() - w.moved > self.settings.timers.lease.max(SETTLE) {
            // It stands still, and could not end its launch when it has to.
            self.destroy(id);
            return Ok(Vec::new());
        }
        let mut says = Vec::new();
        let before = before.as_ref();
        if status.running && !before.is_some_and(|b| b.running) {
            says.push(ShimSays::Running);
        }
        if status.stopping && !before.is_some_and(|b| b.stopping) {
            says.push(ShimSays::Stopping);
        }
        if before.is_none_or(|b| b.said != status.said) {
            says.push(ShimSays::Said(status.said));
        }
        Ok(says)
    }

    /// Ends a launch without its shim; the next look finds what is written here.
    fn destroy(&mut self, id: AttemptId) {
        let dir = self.folder(id);
        let Some(w) = self.watched.get_mut(&id) else {
            return;
        };
        if let Some(child) = &mut w.child {
            let _ = child.kill();
            let _ = child.wait();
        } else if let Some(pid) = shim_of(&dir) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let held = Containment::of(&w.mark);
        held.kill();
        if !held.is_empty() || is_locked(&dir) {
            // The next look tries again.
            return;
        }
        held.remove();
        let said: Option<StatusFile> = files::said(&dir.join("status.json"));
        let done = Final {
            exit: Exit::Lost,
            ran: said.map_or(Millis(0), |s| s.ran),
            estimated: true,
            why: "its shim died or stood still".to_owned(),
        };
        if !dir.join("final.json").exists() {
            let _ = files::write(&dir.join("final.json"), &done, true);
        }
    }
}

/// Whether a shim lives in this folder.
fn is_locked(dir: &Path) -> bool {
    File::open(dir.join("lock")).is_ok_and(|f| f.try_lock().is_err())
}

/// The process that was started for this folder.
fn shim_of(dir: &Path) -> Option<rustix::process::Pid> {
    let wanted = dir.to_str()?.as_bytes();
    let mut all = fs::read_dir("/proc").ok()?.flatten();
    all.find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let last = line.split(|b| *b == 0).rfind(|part| !part.is_empty())?;
        (last == wanted).then(|| rustix::process::Pid::from_raw(pid))?
    })
}

type Left = (Vec<Found>, BTreeMap<AttemptId, Watched>);

/// What earlier lives left in the launches' folders.
fn found(attempts: &Path, boot: &str) -> io::Result<Left> {
    let (mut found, mut watched) = (Vec::new(), BTreeMap::new());
    for entry in fs::read_dir(attempts)? {
        let dir = entry?.path();
        let Some(launch) = files::read::<LaunchFile>(&dir.join("launch.json"))? else {
            // It was never started.
            fs::remove_dir_all(&dir)?;
            continue;
        };
        let mut done: Option<Final> = files::read(&dir.join("final.json"))?;
        let said: Option<StatusFile> = files::said(&dir.join("status.json"));
        if done.is_none() && launch.boot != boot {
            let last = Final {
                exit: Exit::Lost,
                ran: said.as_ref().map_or(Millis(0), |s| s.ran),
                estimated: true,
                why: "the node went down".to_owned(),
            };
            files::write(&dir.join("final.json"), &last, true)?;
            done = Some(last);
        }
        let control: Option<Control> = files::said(&dir.join("control.json"));
        watched.insert(
            launch.id,
            Watched {
                mark: launch.mark.clone(),
                child: None,
                said: None,
                moved: clock::now(),
                done: done.is_some(),
            },
        );
        found.push(Found {
            id: launch.id,
            fence: launch.fence,
            task: Arc::new(launch.task),
            port: launch.port,
            lease: control.map_or(Millis(0), |c| c.lease),
            done,
            said: said.map(|s| s.said).unwrap_or_default(),
        });
    }
    Ok((found, watched))
}

/// The launch that a folder is named after.
pub fn parse_attempt(text: &str) -> Option<AttemptId> {
    let (job, attempt) = text.split_once('.')?;
    Some(AttemptId {
        job: JobId(job.parse().ok()?),
        attempt: attempt.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{Meeting, Task};
    use blox_core::{GpuCount, JobSpec, Seconds, Time};

    #[test]
    fn copies_of_a_state_folder_that_counted_as_far_are_different_lives() {
        let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let next = |dir: &tempfile::TempDir| {
            std::thread::sleep(Duration::from_millis(2));
            next_session(dir.path()).unwrap()
        };
        // As counted once, without a moment.
        files::write(&ours.path().join("session.json"), &7_u64, true).unwrap();
        let first = next(&ours);
        assert!(first > Session(7));
        let name = "session.json";
        fs::copy(ours.path().join(name), theirs.path().join(name)).unwrap();
        let (second, copy) = (next(&ours), next(&theirs));
        assert!(
            first < second && second < copy,
            "{first:?} {second:?} {copy:?}"
        );
        // Who has begun more often is the later, whenever that was.
        let third = next(&ours);
        assert!(copy < third, "{copy:?} {third:?}");
    }

    #[test]
    fn what_was_seen_before_clusters_had_names_is_read() {
        let seen: Seen = serde_json::from_str("[3,2]").unwrap();
        let expected = Seen {
            epoch: Epoch(3),
            incarnation: Incarnation(2),
            cluster: None,
        };
        assert_eq!(seen, expected);
        let text = serde_json::to_string(&expected).unwrap();
        assert_eq!(serde_json::from_str::<Seen>(&text).unwrap(), expected);
    }

    #[test]
    fn what_a_power_cut_tore_is_as_if_it_were_not_there() {
        let id = parse_attempt("3.1").unwrap();
        let launch = LaunchFile {
            id,
            fence: crate::protocol::Fence(1),
            task: Task {
                spec: Arc::new(JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0))),
                gpus: vec![0],
                ranks: vec![0],
                world: 1,
                node_rank: 0,
                nodes: vec!["n".into()],
                beside: None,
                cpus: 0.0,
                memory_gib: 0.0,
                batch: None,
            },
            meeting: Meeting {
                address: "localhost".into(),
                port: 1,
            },
            port: 1,
            boot: "before".to_owned(),
            mark: "mark".to_owned(),
            timers: Timers::default(),
            devices: Vec::new(),
            log_bytes: None,
        };
        let attempts = tempfile::tempdir().unwrap();
        let dir = attempts.path().join(id.to_string());
        fs::create_dir(&dir).unwrap();
        files::write(&dir.join("launch.json"), &launch, true).unwrap();
        fs::write(dir.join("status.json"), "").unwrap();
        fs::write(dir.join("control.json"), "{\"lease\":").unwrap();
        let (found, watched) = found(attempts.path(), "now").unwrap();
        let exit = found[0].done.as_ref().map(|d| d.exit);
        assert_eq!(exit, Some(Exit::Lost));
        assert!(watched[&id].done);
    }
}
