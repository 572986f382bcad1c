//! The node manager process: connects to the scheduler, starts and supervises shims, and adopts the
//! shims of earlier sessions.

use super::address;
use super::clock;
use super::containment::{self, Containment, Limited, MARK};
use super::dial::{Credentials, UnusableCredentials, dial};
use super::files::{self, BadFile, LARGEST_LAUNCH, LARGEST_STATUS, ReadError};
use super::gpus::{Health, HealthSource};
use super::room::Ended;
pub use super::room::LogRoom;
use super::shim::{Beat, LaunchFile, StatusFile};
use super::slots::{Slots, keep, kept, session};
use crate::client::root;
use crate::identity::IdentityFile;
use crate::identity::tls::explain;
use crate::private;
use crate::protocol::message::{SHIM_ENDED, Task};
use crate::protocol::node::{Found, GpuNews, Identity, Node, NodeEffect, NodeInput, ShimMessage};
use crate::protocol::shim::{Control, ShimWish};
use crate::protocol::{
    AttemptId, ClusterId, Epoch, Exit, Final, Incarnation, Millis, Orders, Report, Session, Timers,
};
use crate::wire::{WireError, pb};
use blox_core::{Name, NodeSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_stream::wrappers::ReceiverStream;

/// Settings of a node manager.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// URL of the scheduler, as `http://host:port`.
    pub scheduler: String,
    /// State directory of the node manager.
    pub dir: PathBuf,
    /// Hardware that the node offers.
    pub offer: NodeSpec,
    /// Address at which other nodes reach this node; `None` for the local address of the connection
    /// to the scheduler.
    pub address: Option<String>,
    /// Time for which launches continue after an order to stop the node manager; 0 if they keep their
    /// leases.
    pub absence: Millis,
    /// Program and arguments that run a shim. The launch's folder is appended.
    pub shim: Vec<String>,
    /// Device name of each GPU, by index; empty to use the indices.
    pub devices: Vec<String>,
    /// Device file of each GPU, by index; empty if launches may open all device files.
    pub device_files: Vec<PathBuf>,
    /// Source of the health of the GPUs.
    pub health: HealthSource,
    /// Limit on the processes and threads of a launch, for each of its GPUs.
    pub processes: u64,
    /// True if launches stay in the cgroup of the node manager.
    pub no_cgroup: bool,
    /// Secret or certificate for the scheduler. A certificate is renewed in time.
    pub credentials: Credentials,
    /// Disk quotas of logs.
    pub logs: LogRoom,
}

impl NodeSettings {
    /// Returns true if each job runs with the account of its user: the node manager is root, and the
    /// scheduler vouches for names.
    pub fn as_users(&self) -> bool {
        self.vouched() && is_root()
    }

    /// Returns true if all jobs run as root: the node manager is root, and nothing vouches for names.
    pub fn as_root(&self) -> bool {
        !self.vouched() && is_root()
    }

    fn vouched(&self) -> bool {
        matches!(self.credentials, Credentials::Identity(_))
    }
}

fn is_root() -> bool {
    private::user().is_ok_and(|user| user == 0)
}

/// Polling interval of launches.
const LOOK: Duration = Duration::from_millis(100);
/// Time in which a shim that an earlier session started must lock its folder.
const SETTLE: Millis = Millis(2_000);
/// Environment variables of a node manager with a secret, or with the file of one. Shims get none.
const SECRETS: [&str; 4] = [
    "BLOX_IDENTITY",
    "BLOX_JOIN",
    "BLOX_TOKEN",
    "BLOX_TOKEN_FILE",
];

/// Interval of attempts to write to a disk in trouble.
const AGAIN: Millis = Millis(1_000);
/// Size of the file that an attempt writes.
const PROBE: usize = 64 << 10;
/// Longest time for which a node manager waits for long leases before it stops.
const LEAVE: Millis = Millis(5_000);
/// Interval of the checks of the connection to the scheduler.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Time without orders after which a connection is replaced. The scheduler answers each report.
const SILENCE: Duration = Duration::from_secs(10);

/// Runs a node manager until the future `stop` is ready. Launches continue without it while their
/// leases last. Before it stops, it asks the scheduler for leases that cover its planned absence.
///
/// Running launches need no room on the disk and no new file descriptors. After an error of either,
/// the node manager calls `trouble` and reports it to the scheduler; new launches do not start until
/// a write succeeds again. It also calls `trouble` once when the scheduler does not answer or refuses
/// it, and once when the scheduler answers again.
///
/// # Errors
/// The directory cannot be used at the start, or the scheduler does not admit the node. The address
/// of the node is a loopback address, and the scheduler runs on another machine.
pub async fn run(
    mut settings: NodeSettings,
    stop: impl Future<Output = ()>,
    mut trouble: impl FnMut(&str),
) -> io::Result<()> {
    // Jobs receive paths in this directory, and run in other directories.
    settings.dir = std::path::absolute(&settings.dir)?;
    let dir = settings.dir.display().to_string();
    let named = |e: &io::Error| match e.to_string() {
        // The message already names a file in the directory.
        text if text.starts_with(&dir) => text,
        text => format!("{dir}: {text}"),
    };
    if let Some(text) = unlimited(&settings) {
        trouble(&text);
    }
    match (
        &settings.address,
        address::toward(&settings.scheduler).await,
    ) {
        (Some(given), Ok(route)) => address::check(given, route).map_err(io::Error::other)?,
        (None, Ok(route)) => {
            address::check(&route.local.to_string(), route).map_err(io::Error::other)?;
        }
        // The scheduler's name may be known later.
        (_, Err(_)) => {}
    }
    let shell = Shell::open(settings).map_err(|e| io::Error::new(e.kind(), named(&e)))?;
    let stop = std::pin::pin!(stop);
    let end = live(shell, stop, &mut trouble).await;
    end.map_err(io::Error::other)
}

/// Describes which limits of launches this node cannot enforce.
fn unlimited(settings: &NodeSettings) -> Option<String> {
    if settings.no_cgroup {
        return None;
    }
    let needs_devices = !settings.device_files.is_empty();
    let missing = containment::unlimited().into_iter();
    let missing: Vec<&str> = missing
        .filter(|limited| *limited != Limited::Devices || needs_devices)
        .map(Limited::as_str)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "this node does not enforce limits of jobs on {}: it cannot create the cgroups",
            missing.join(", ")
        )
    })
}

/// Messages of the stream other than orders.
pub(super) enum News {
    Notice(String),
    /// The local address of the connection to the scheduler.
    Address(String),
    Refused(String),
}

/// Runs a session until an order to stop, or until the scheduler refuses the node. After an order to
/// stop, it waits for long leases for a while.
///
/// # Errors
/// The reason of the refusal.
async fn live(
    mut shell: Shell,
    mut stop: Pin<&mut impl Future<Output = ()>>,
    trouble: &mut impl FnMut(&str),
) -> Result<(), String> {
    let mut leaving = None;
    let (reports, from_us) = mpsc::channel::<pb::Report>(16);
    let (to_us, mut orders) = mpsc::channel::<Orders>(16);
    let mut tasks = tokio::task::JoinSet::new();
    let (notify, mut news) = mpsc::unbounded_channel();
    let spread = Spread::of(shell.machine.key());
    tasks.spawn(link(shell.settings.clone(), spread, from_us, to_us, notify));
    shell.notes.drain(..).for_each(|note| trouble(&note));
    let mut health = probe(&shell.settings, shell.timers().heartbeat);
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let new_reports = tokio::select! {
            Some(orders) = orders.recv() => {
                let port = free_port();
                shell.input(NodeInput::Orders(orders, port))
            }
            Some(news) = news.recv() => match news {
                News::Notice(text) => {
                    trouble(&text);
                    continue;
                }
                News::Address(address) => {
                    shell.machine.set_address(address.into());
                    continue;
                }
                News::Refused(why) => return Err(why),
            },
            () = &mut stop, if leaving.is_none() => {
                if shell.settings.absence == Millis(0) {
                    return Ok(());
                }
                leaving = Some(clock::now() + LEAVE);
                shell.input(NodeInput::Leave(shell.settings.absence))
            }
            _ = look.tick() => shell.look(),
            Some(health) = health.recv() => shell.gpus(health),
        };
        shell.notes.drain(..).for_each(|note| trouble(&note));
        // Other nodes could not reach a node without an address.
        let has_address = !shell.machine.address().is_empty();
        for report in new_reports.iter().filter(|_| has_address) {
            // The next report replaces a report that does not fit into the channel.
            let _ = reports.try_send(report.into());
        }
        if let Some(until) = leaving
            && (shell.machine.can_leave() || clock::now() >= until)
        {
            shell.farewell(trouble);
            return Ok(());
        }
    }
}

/// Asks for the health of the GPUs again and again, in a thread of its own, because a driver may
/// hang. The thread ends after the receiver.
fn probe(
    settings: &NodeSettings,
    interval: Millis,
) -> mpsc::UnboundedReceiver<Result<Vec<Health>, String>> {
    let (found, health) = mpsc::unbounded_channel();
    let wait = Duration::from_millis(interval.0);
    if let Some(mut probe) = settings.health.probe() {
        std::thread::spawn(move || {
            while found.send(probe.probe()).is_ok() {
                std::thread::sleep(wait);
            }
        });
    }
    health
}

/// Delays of the connections of a node. They differ from node to node, so that not all nodes come at
/// once to a restarted scheduler.
pub(super) struct Spread {
    node: u32,
    attempt: u32,
}

impl Spread {
    /// Returns the delays of the node with this persistent name.
    pub(super) fn of(node: &Name) -> Self {
        let (node, attempt) = (crc32c::crc32c(node.as_bytes()), 0);
        Spread { node, attempt }
    }

    /// Returns the next delay: between a half of `most` and all of it.
    fn next(&mut self, most: Duration) -> Duration {
        self.attempt = self.attempt.wrapping_add(1);
        let bytes = (u64::from(self.node) << 32 | u64::from(self.attempt)).to_le_bytes();
        let part = f64::from(crc32c::crc32c(&bytes)) / f64::from(u32::MAX);
        most.mul_f64(0.5 + part / 2.0)
    }
}

/// Keeps a stream to the scheduler open.
pub(super) async fn link(
    settings: NodeSettings,
    mut spread: Spread,
    mut reports: mpsc::Receiver<pb::Report>,
    orders: mpsc::Sender<Orders>,
    news: mpsc::UnboundedSender<News>,
) {
    let at = settings.scheduler.trim_start_matches("http://");
    let mut wait = Duration::from_millis(100);
    let mut out = false;
    loop {
        let on_message = || {
            if std::mem::take(&mut out) {
                let text = format!("the scheduler at {at} answers again");
                let _ = news.send(News::Notice(text));
            }
        };
        if settings.address.is_none()
            && let Ok(route) = address::toward(&settings.scheduler).await
        {
            let _ = news.send(News::Address(route.local.to_string()));
        }
        match connected(&settings, SILENCE, &mut reports, &orders, on_message).await {
            Ok(()) => wait = Duration::from_millis(100),
            Err(e) => {
                let status = e.downcast_ref::<tonic::Status>();
                let text = match status.map(|s| (s.code(), s.message())) {
                    Some((tonic::Code::FailedPrecondition, why)) => {
                        let _ = news.send(News::Refused(why.to_owned()));
                        return;
                    }
                    // The scheduler may be restarted with the right token or another version.
                    Some((
                        tonic::Code::Unauthenticated
                        | tonic::Code::PermissionDenied
                        | tonic::Code::InvalidArgument,
                        why,
                    )) => {
                        format!("the scheduler at {at} turns this node away: {why}")
                    }
                    _ if e.downcast_ref::<UnusableCredentials>().is_some() => {
                        format!("this node cannot identify itself to the scheduler at {at}: {e}")
                    }
                    _ if e.downcast_ref::<WireError>().is_some() => {
                        format!("this node cannot follow the scheduler at {at}: {e}")
                    }
                    _ => format!(
                        "the scheduler at {at} does not answer: {}",
                        explain(&root(&*e))
                    ),
                };
                if !std::mem::replace(&mut out, true) {
                    let _ = news.send(News::Notice(text));
                }
            }
        }
        // Discard outdated reports.
        while reports.try_recv().is_ok() {}
        tokio::time::sleep(spread.next(wait)).await;
        wait = (wait * 2).min(Duration::from_secs(2));
    }
}

/// Serves one connection until it ends. It ends with an error after `silence` without orders: a
/// connection that broke while it was opened can leave a stream without an end.
async fn connected(
    settings: &NodeSettings,
    silence: Duration,
    reports: &mut mpsc::Receiver<pb::Report>,
    orders: &mpsc::Sender<Orders>,
    mut on_message: impl FnMut(),
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let beat = KEEP_ALIVE;
    let credentials = settings.credentials.read()?;
    let channel = dial(&settings.scheduler, &credentials, (beat, beat), true);
    let late = || {
        let text = format!("no answer for {} s", silence.as_secs_f64());
        io::Error::new(io::ErrorKind::TimedOut, text)
    };
    let channel = tokio::time::timeout(silence, channel).await;
    let channel = channel.map_err(|_| late())??;
    let renewal = renewed(credentials.clone(), channel.clone());
    let mut renewal = std::pin::pin!(renewal);
    let mut client = pb::node_link_client::NodeLinkClient::with_interceptor(channel, credentials)
        .max_decoding_message_size(crate::wire::LARGEST);
    let (tx, rx) = mpsc::channel(16);
    let stream = client.link(ReceiverStream::new(rx));
    let stream = tokio::time::timeout(silence, stream).await;
    let mut stream = stream.map_err(|_| late())??.into_inner();
    // Ends with the stream.
    let mut tasks = tokio::task::JoinSet::new();
    let dir = settings.dir.clone();
    tasks.spawn(async move { super::logs::answer(client, &dir).await });
    let mut until = tokio::time::Instant::now() + silence;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(until) => return Err(late().into()),
            // The next connection shows the new certificate. The launches keep their leases.
            () = &mut renewal => return Ok(()),
            report = reports.recv() => match report {
                Some(report) => match tx.try_send(report) {
                    // The next report replaces a report that does not fit into the stream.
                    Ok(()) | Err(TrySendError::Full(_)) => {}
                    Err(closed) => return Err(closed.into()),
                },
                None => return Ok(()),
            },
            message = stream.message() => match message? {
                // An invalid message is dropped; the next one replaces it.
                Some(message) => {
                    until = tokio::time::Instant::now() + silence;
                    match Orders::try_from(message) {
                        Ok(o) => {
                            on_message();
                            orders.send(o).await?;
                        }
                        Err(e) if e.is_of_version() => return Err(e.into()),
                        Err(_) => on_message(),
                    }
                }
                None => return Ok(()),
            },
        }
    }
}

/// Interval of the checks of the node's certificate.
const KEEP: Duration = Duration::from_secs(1);

/// Waits until the certificate has lived for two thirds of its life, and renews it. After an error,
/// it tries again. The file is replaced as a whole.
async fn renewed(credentials: Credentials, channel: tonic::transport::Channel) {
    let Credentials::Identity(path) = credentials else {
        return std::future::pending().await;
    };
    let mut client = pb::access_client::AccessClient::new(channel);
    loop {
        tokio::time::sleep(KEEP).await;
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let due = IdentityFile::read(&path).map(|file| file.renew_at_s());
        if due.is_ok_and(|at| now.as_secs() < at) {
            continue;
        }
        let Ok((key, request)) = crate::identity::request() else {
            continue;
        };
        let reply = client.renew(pb::RenewRequest { request }).await;
        if let Ok(reply) = reply
            && IdentityFile::write(&path, &key, &reply.into_inner().chain).is_ok()
        {
            return;
        }
        tokio::time::sleep(KEEP * 10).await;
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("0.0.0.0", 0));
    listener
        .and_then(|l| l.local_addr())
        .map_or(0, |a| a.port())
}

/// Number of low bits of a session that hold its start in milliseconds since 1970.
const MOMENT: u32 = 42;

/// Returns the next session of a node manager, and writes it to disk. The high bits count sessions,
/// the low bits are the start time. If two copies of a state folder have the same count, the one
/// that starts later has the higher session.
fn next_session(dir: &Path) -> io::Result<Session> {
    let last = session(dir)?.unwrap_or(0);
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let moment = wall.as_millis() as u64 % (1 << MOMENT);
    let session = (((last >> MOMENT) + 1) << MOMENT) + moment;
    keep(&dir.join("session"), &session)?;
    Ok(Session(session))
}

/// Last cluster, epoch and incarnation from a scheduler. Older files have only epoch and
/// incarnation, as a list, and can still be read.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    epoch: Epoch,
    incarnation: Incarnation,
    #[serde(default)]
    cluster: Option<ClusterId>,
    /// Its timers, which apply until the next orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timers: Option<Timers>,
}

/// A launch with a shim.
struct Watched {
    mark: String,
    child: Option<Child>,
    status: Option<StatusFile>,
    /// Time of the last change of its status, which changes every second.
    moved: Millis,
    done: bool,
    /// Error of a file in its folder, because of which the launch must end.
    bad_file: Option<String>,
    /// Its GPUs, as slots of the machine.
    slots: Vec<u32>,
    /// Failure of a GPU, because of which the launch must end.
    bad_gpu: Option<String>,
    /// Running time after the last sign of a shim that the node manager ended.
    unseen: Millis,
    /// Orders to the shim; `None` for a shim of an earlier version.
    control: Option<Slots>,
    /// State of the shim; `None` for a shim of an earlier version.
    beat: Option<Slots>,
    last_beat: Option<Beat>,
    /// Its result, if it could not be written.
    unwritten: Option<Final>,
}

impl Watched {
    fn new(dir: &Path, mark: String, slots: Vec<u32>, child: Option<Child>, done: bool) -> Self {
        Watched {
            control: Slots::open(&dir.join("control")).ok(),
            beat: Slots::open(&dir.join("beat")).ok(),
            last_beat: None,
            unwritten: None,
            mark,
            child,
            status: None,
            moved: clock::now(),
            done,
            bad_file: None,
            slots,
            bad_gpu: None,
            unseen: Millis(0),
        }
    }

    /// Returns the running time of a launch that ended unobserved, from its files and what was read
    /// of them before. Without room, the shim writes its beat alone.
    fn reconstructed(&self, status: Option<&StatusFile>) -> Millis {
        let beat = self.beat.as_ref().and_then(Slots::read::<Beat>);
        let known = [
            status.map(|s| s.ran),
            self.status.as_ref().map(|s| s.ran),
            beat.map(|beat| beat.ran),
        ];
        let last = known.into_iter().flatten().max();
        last.map_or(Millis(0), |last| last + self.unseen)
    }
}

struct Shell {
    settings: NodeSettings,
    machine: Node,
    boot: String,
    began: Millis,
    watched: BTreeMap<AttemptId, Watched>,
    /// Shims that need no further supervision but have not exited.
    leaving: Vec<Child>,
    ended: Ended,
    /// Processes on GPUs that belong to no launch, and the time since which they are known.
    foreign: BTreeMap<(u32, u32), Millis>,
    /// Failure of the source of the health of the GPUs.
    health_failure: Option<String>,
    /// Folders of ended launches that could not be moved.
    unmoved: Vec<PathBuf>,
    /// Files that are not yet written.
    unsaved: Option<Seen>,
    /// Why the disk cannot be written; `None` if it can.
    trouble: Option<String>,
    /// Time of the next attempt to write.
    probe_at: Millis,
    /// Messages for the operator.
    notes: Vec<String>,
    // Bound for the lifetime of the shell.
    _lock: File,
}

impl Shell {
    fn open(settings: NodeSettings) -> io::Result<Self> {
        let dir = &settings.dir;
        let folder = match settings.as_users() {
            true => private::passage,
            false => private::folder,
        };
        folder(dir)?;
        folder(&dir.join("attempts"))?;
        let lock = private::create(&dir.join("lock"))?;
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
        let seen: Option<Seen> = match kept(&dir.join("seen"))? {
            None => files::read(&dir.join("seen.json"))?,
            seen => seen,
        };
        let seen = seen.unwrap_or_default();
        let who = Identity {
            node: Name::from(key),
            boot: Name::from(boot.clone()),
            session,
            cluster: seen.cluster,
            epoch: seen.epoch,
            incarnation: seen.incarnation,
            offer: Arc::new(settings.offer.clone()),
            address: Name::from(settings.address.clone().unwrap_or_default()),
        };
        let Left {
            found,
            watched,
            notes,
        } = found(&dir.join("attempts"), &boot)?;
        let now = clock::now();
        let ended = Ended::open(dir.join("logs"), settings.logs.ended)?;
        Ok(Shell {
            machine: Node::new(seen.timers.unwrap_or_default(), who, found, now),
            foreign: BTreeMap::new(),
            health_failure: None,
            settings,
            boot,
            began: now,
            watched,
            leaving: Vec::new(),
            ended,
            unmoved: Vec::new(),
            unsaved: None,
            trouble: None,
            probe_at: Millis(0),
            notes,
            _lock: lock,
        })
    }

    fn folder(&self, id: AttemptId) -> PathBuf {
        self.settings.dir.join("attempts").join(id.to_string())
    }

    /// Records an error of the disk or of file descriptors, which ends no launch.
    fn in_trouble(&mut self, error: &io::Error) {
        let text = error.to_string();
        if self.trouble.is_none() {
            let dir = self.settings.dir.display();
            self.notes.push(format!(
                "no room on this node ({dir}: {text}): running launches continue, and no launch starts"
            ));
        }
        self.machine
            .set_no_room(Some(format!("no room: {text}").into()));
        self.trouble = Some(text);
        self.probe_at = clock::now() + AGAIN;
    }

    /// Checks whether a disk in trouble can be written again.
    fn probe(&mut self) {
        if self.trouble.is_none() || clock::now() < self.probe_at {
            return;
        }
        match self.catch_up() {
            Ok(()) => {
                self.trouble = None;
                self.machine.set_no_room(None);
                self.notes.push("this node has room again".to_owned());
            }
            Err(e) => self.in_trouble(&e),
        }
    }

    /// Writes what could not be written, and a probe.
    fn catch_up(&mut self) -> io::Result<()> {
        let path = self.settings.dir.join("probe");
        let written = crate::private::create(&path).and_then(|mut file| {
            io::Write::write_all(&mut file, &[0; PROBE])?;
            file.sync_all()
        });
        let removed = fs::remove_file(&path);
        if written
            .as_ref()
            .is_err_and(|e| e.kind() == io::ErrorKind::StorageFull)
        {
            self.ended.give_room();
        }
        written.and(removed)?;
        if let Some(seen) = &self.unsaved {
            keep(&self.settings.dir.join("seen"), seen)?;
            self.unsaved = None;
        }
        while let Some(folder) = self.unmoved.pop() {
            if let Err(e) = self.ended.take(&folder) {
                self.unmoved.push(folder);
                return Err(e);
            }
        }
        Ok(())
    }

    fn input(&mut self, input: NodeInput) -> Vec<Report> {
        let mut reports = Vec::new();
        for effect in self.machine.step(clock::now(), input) {
            match effect {
                NodeEffect::Remember(cluster, epoch, incarnation, timers) => {
                    let seen = Seen {
                        epoch,
                        incarnation,
                        cluster: Some(cluster),
                        timers: Some(timers),
                    };
                    if let Err(e) = keep(&self.settings.dir.join("seen"), &seen) {
                        self.unsaved = Some(seen);
                        self.in_trouble(&e);
                    }
                }
                NodeEffect::Send(report) => reports.push(report),
                NodeEffect::Spawn {
                    id,
                    fence,
                    task,
                    meeting,
                    port,
                    lease,
                    time_left,
                } => {
                    let slots = task.gpus.clone();
                    let launch = LaunchFile {
                        devices: self.devices_of(&slots),
                        id,
                        fence,
                        task: (*task).clone(),
                        meeting,
                        port,
                        boot: self.boot.clone(),
                        mark: format!("{}-{id}-{}", std::process::id(), fence.0),
                        timers: *self.machine.timers(),
                        log_bytes: Some(self.settings.logs.launch),
                        no_cgroup: self.settings.no_cgroup,
                        shim: self.settings.shim.get(1..).unwrap_or_default().to_vec(),
                        processes: Some(self.processes_of(&task)),
                        denied: self.denied_to(&slots),
                        slots,
                        time_left,
                        folder: 0,
                        as_user: self.settings.as_users(),
                    };
                    self.spawn(&launch, lease);
                }
                NodeEffect::Control(id, control) => self.control(id, control),
                NodeEffect::Warn(id, left) => {
                    if self.watched.get(&id).is_none_or(|w| w.unwritten.is_some()) {
                        continue;
                    }
                    // The time by the clock that the job reads.
                    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
                    let by = now.as_secs() + left.0 / 1000;
                    let path = self.folder(id).join("notice");
                    match files::replace(&path, &by, false) {
                        // The job reads it with its own account.
                        Ok(()) => {
                            // After an error, the job only misses the notice.
                            let _ = private::show(&path);
                        }
                        Err(ReadError::Bad(bad)) => self.end_for(id, &bad),
                        Err(ReadError::Io(e)) => self.in_trouble(&e),
                    }
                }
                NodeEffect::Destroy(id) => self.destroy(id),
                NodeEffect::Forget(id) => {
                    let watched = self.watched.remove(&id);
                    self.leaving.extend(watched.and_then(|w| w.child));
                    let folder = self.folder(id);
                    if let Err(e) = self.ended.take(&folder) {
                        // A later session removes the folder of a launch that has ended.
                        self.unmoved.push(folder);
                        self.in_trouble(&e);
                    }
                }
            }
        }
        reports
    }

    /// Returns the limit on the processes of a launch: the job's own, or the node's.
    fn processes_of(&self, task: &Task) -> u64 {
        let own = task.spec.extras().attributes.get("processes");
        let own = own.and_then(serde_json::Value::as_u64);
        own.unwrap_or_else(|| {
            self.settings
                .processes
                .saturating_mul(task.gpus.len() as u64)
        })
    }

    /// Returns the device names of GPUs; none if they have no other names than their indices.
    fn devices_of(&self, slots: &[u32]) -> Vec<String> {
        let name = |slot: &u32| self.settings.devices.get(*slot as usize).cloned();
        slots.iter().filter_map(name).collect()
    }

    /// Returns the device files of the slots that a launch does not have.
    fn denied_to(&self, slots: &[u32]) -> Vec<PathBuf> {
        let files = self.settings.device_files.iter().enumerate();
        let others = files.filter(|(slot, _)| !slots.contains(&(*slot as u32)));
        others.map(|(_, file)| file.clone()).collect()
    }

    /// Processes the health of the GPUs: ends launches on failed ones, and starts nothing beside
    /// foreign processes.
    fn gpus(&mut self, probed: Result<Vec<Health>, String>) -> Vec<Report> {
        let gpus = self.settings.offer.gpus;
        let complete = |all: Vec<Health>| match all.len() {
            found if found == gpus as usize => Ok(all),
            found => Err(format!(
                "found {found} entries, expected {gpus}, one for each GPU"
            )),
        };
        let all = match probed.and_then(complete) {
            Ok(all) => {
                self.health_failure = None;
                self.machine.set_unknown_health(None);
                all
            }
            Err(why) => {
                // The last known health counts.
                if self.health_failure.as_ref() != Some(&why) {
                    self.notes
                        .push(format!("the health of the GPUs is unknown: {why}"));
                    self.machine.set_unknown_health(Some(why.as_str().into()));
                    self.health_failure = Some(why);
                }
                return self.input(NodeInput::Tick);
            }
        };
        let now = clock::now();
        let mut failed: BTreeMap<u32, String> = BTreeMap::new();
        let mut foreign = BTreeMap::new();
        for (slot, health) in (0..self.settings.offer.gpus).zip(all) {
            if let Some(why) = health.trouble {
                let why = if why.is_empty() {
                    "no reason is given"
                } else {
                    &why
                };
                failed.insert(slot, format!("failed: {why}"));
            }
            for pid in health
                .processes
                .into_iter()
                .filter(|pid| !self.is_own(*pid))
            {
                let since = self.foreign.get(&(slot, pid)).copied().unwrap_or(now);
                foreign.insert((slot, pid), since);
            }
        }
        self.foreign = foreign;
        let ids: Vec<AttemptId> = self.watched.keys().copied().collect();
        for id in ids {
            let Some(w) = self.watched.get_mut(&id).filter(|w| !w.done) else {
                continue;
            };
            let mut bad = w
                .slots
                .iter()
                .filter_map(|slot| Some((slot, failed.get(slot)?)));
            let why = bad.next().map(|(slot, why)| format!("GPU {slot} {why}"));
            if let (Some(why), None) = (why, &w.bad_gpu) {
                self.notes.push(format!("launch {id} is ended: {why}"));
                w.bad_gpu = Some(why);
                self.destroy(id);
            }
        }
        // A launch that runs beside a foreign process continues.
        let in_use = |slot: u32| {
            let mut live = self.watched.values().filter(|w| !w.done);
            live.any(|w| w.slots.contains(&slot))
        };
        // A process that is found once may be ending.
        for ((slot, pid), since) in &self.foreign {
            if now > *since && !in_use(*slot) {
                let why = format!("held by process {pid}, which belongs to no job");
                failed.entry(*slot).or_insert(why);
            }
        }
        let held = self.foreign.keys().map(|(slot, _)| *slot);
        let news = GpuNews {
            blocked: failed.keys().copied().chain(held).collect(),
            failed: failed
                .into_iter()
                .map(|(slot, why)| (slot, Name::from(why)))
                .collect(),
        };
        self.input(NodeInput::Gpus(news))
    }

    fn timers(&self) -> Timers {
        *self.machine.timers()
    }

    /// Returns whether a process belongs to a launch of this node, or has ended.
    fn is_own(&self, pid: u32) -> bool {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let (groups, environ) = (read("cgroup"), read("environ"));
        let groups = String::from_utf8_lossy(&groups).into_owned();
        if groups.is_empty() {
            // The driver reports a process of another container or a process that ends.
            return !Path::new(&format!("/proc/{pid}")).exists();
        }
        let live = self.watched.values().filter(|w| !w.done);
        let mut marks = live.map(|w| w.mark.as_str());
        marks.any(|mark| {
            let variable = format!("{MARK}={mark}");
            groups
                .lines()
                .any(|g| g.ends_with(&format!("/blox-{mark}")))
                || environ.split(|b| *b == 0).any(|v| v == variable.as_bytes())
        })
    }

    /// Passes an order to a shim. If this fails, the shim ends the launch with its last lease.
    fn control(&mut self, id: AttemptId, control: Control) {
        let path = self.folder(id).join("control.json");
        let watched = self.watched.get_mut(&id);
        if watched
            .as_ref()
            .is_none_or(|w| w.done || w.unwritten.is_some())
        {
            return;
        }
        let slots = watched.and_then(|w| w.control.as_mut());
        let result = match slots {
            Some(slots) => slots.write(&control).map_err(ReadError::Io),
            // A shim of an earlier version.
            None => files::replace(&path, &control, false),
        };
        match result {
            Ok(()) => {}
            Err(ReadError::Bad(bad)) => self.end_for(id, &bad),
            Err(ReadError::Io(e)) => self.in_trouble(&e),
        }
    }

    /// Starts a shim. A launch for which the node has no room never runs, which is not its fault.
    fn spawn(&mut self, launch: &LaunchFile, lease: Millis) {
        let dir = self.folder(launch.id);
        let mut watched =
            Watched::new(&dir, launch.mark.clone(), launch.slots.clone(), None, false);
        match self.start_shim(&dir, launch, lease) {
            Ok((child, control, beat)) => {
                watched.child = Some(child);
                (watched.control, watched.beat) = (Some(control), Some(beat));
            }
            Err(e) => {
                let name = self.settings.offer.name.as_deref().unwrap_or_default();
                let why = format!("no room on node {name}: {e}");
                watched.unwritten = Some(Final::never(why));
                // A later session also removes a folder without a result.
                let _ = fs::remove_dir_all(&dir);
                self.in_trouble(&e);
            }
        }
        self.watched.insert(launch.id, watched);
    }

    fn start_shim(
        &self,
        dir: &Path,
        launch: &LaunchFile,
        lease: Millis,
    ) -> io::Result<(Child, Slots, Slots)> {
        match launch.as_user {
            true => private::passage(dir)?,
            false => private::folder(dir)?,
        }
        let wish = ShimWish::Run;
        let control = Slots::create(&dir.join("control"), &Control { lease, wish })?;
        let beat = Slots::create(&dir.join("beat"), &Beat::default())?;
        let launch = LaunchFile {
            folder: fs::metadata(dir)?.ino(),
            ..launch.clone()
        };
        // From here on, later sessions know the launch.
        files::write(&dir.join("launch.json"), &launch, true)?;
        let (program, rest) = self
            .settings
            .shim
            .split_first()
            .ok_or_else(|| io::Error::other("there is no program for shims"))?;
        let mut command = Command::new(program);
        SECRETS.iter().for_each(|name| {
            command.env_remove(name);
        });
        let child = command
            .args(rest)
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok((child, control, beat))
    }

    /// States for how long the launches of a node manager that stops continue.
    fn farewell(&self, trouble: &mut impl FnMut(&str)) {
        let short: Vec<String> = (self.machine.without_long_lease())
            .map(|id| id.to_string())
            .collect();
        let absence = self.settings.absence.as_secs();
        if !short.is_empty() {
            let short = short.join(", ");
            trouble(&format!(
                "the scheduler granted no lease of {absence} s to {short}: without a node manager, these launches end with their leases"
            ));
        } else if self.watched.values().any(|w| !w.done) {
            trouble(&format!(
                "the launches of this node continue for {absence} s without a node manager"
            ));
        }
    }

    /// Polls all launches and timeouts.
    fn look(&mut self) -> Vec<Report> {
        self.probe();
        // Reap exited shims.
        self.leaving
            .retain_mut(|c| matches!(c.try_wait(), Ok(None)));
        let mut reports = Vec::new();
        let ids: Vec<AttemptId> = self.watched.keys().copied().collect();
        for id in ids {
            for message in self.look_at(id) {
                reports.extend(self.input(NodeInput::Shim(id, message)));
            }
        }
        reports.extend(self.input(NodeInput::Tick));
        reports
    }

    /// Polls one launch. An invalid file of the launch ends only this launch.
    fn look_at(&mut self, id: AttemptId) -> Vec<ShimMessage> {
        match self.look_into(id) {
            Ok(messages) => return messages,
            Err(ReadError::Bad(bad)) => self.end_for(id, &bad),
            // The next poll may succeed.
            Err(ReadError::Io(e)) => self.in_trouble(&e),
        }
        Vec::new()
    }

    fn look_into(&mut self, id: AttemptId) -> Result<Vec<ShimMessage>, ReadError> {
        let dir = self.folder(id);
        let settled = clock::now() - self.began > SETTLE;
        let stall = self.machine.timers().stall().max(SETTLE);
        let Some(w) = self.watched.get_mut(&id) else {
            return Ok(Vec::new());
        };
        if w.done {
            return Ok(Vec::new());
        }
        if let Some(done) = w.unwritten.take() {
            w.done = true;
            return Ok(vec![ShimMessage::Done(done)]);
        }
        // Check whether it is alive before reading its files, never the other way round.
        let alive = match &mut w.child {
            Some(child) => child.try_wait()?.is_none(),
            None => !settled || is_locked(&dir),
        };
        let last = files::read_checked::<Final>(&dir.join("final.json"), LARGEST_STATUS)?;
        if let Some(done) = last {
            w.done = true;
            // The last report may not have been read yet.
            let last: Option<StatusFile> = files::read_unsynced(&dir.join("status.json"));
            let last = last.map(|s| ShimMessage::JobReport(s.reported));
            return Ok(last.into_iter().chain([ShimMessage::Done(done)]).collect());
        }
        if !alive {
            self.destroy(id);
            return Ok(Vec::new());
        }
        let beat = w.beat.as_ref().and_then(Slots::read::<Beat>);
        let has_beaten = beat != w.last_beat;
        w.last_beat = beat;
        let status = files::read_checked::<StatusFile>(&dir.join("status.json"), LARGEST_STATUS)?;
        // The file cannot be written without room.
        let status = match (status, beat.filter(|beat| beat.running)) {
            (status, None) => status,
            (status, Some(beat)) => Some(StatusFile {
                running: beat.running,
                stopping: beat.stopping,
                ran: beat.ran,
                lease: status.as_ref().and_then(|s| s.lease),
                reported: status.map(|s| s.reported).unwrap_or_default(),
            }),
        };
        let Some(status) = status else {
            return Ok(Vec::new());
        };
        let before = w.status.replace(status.clone());
        if has_beaten || before.as_ref() != Some(&status) {
            w.moved = clock::now();
        } else if clock::now() - w.moved > stall {
            // The shim hangs, and could not end its launch in time.
            self.destroy(id);
            return Ok(Vec::new());
        }
        let mut messages = Vec::new();
        let before = before.as_ref();
        if status.running && !before.is_some_and(|b| b.running) {
            messages.push(ShimMessage::Running);
        }
        if status.stopping && !before.is_some_and(|b| b.stopping) {
            messages.push(ShimMessage::Stopping);
        }
        if let Some(end) = status.lease
            && before.is_none_or(|b| b.lease != status.lease)
        {
            messages.push(ShimMessage::Lease(end));
        }
        if before.is_none_or(|b| b.reported != status.reported) {
            messages.push(ShimMessage::JobReport(status.reported));
        }
        Ok(messages)
    }

    /// Ends a launch because of an invalid file in its folder.
    fn end_for(&mut self, id: AttemptId, bad: &BadFile) {
        let Some(w) = self.watched.get_mut(&id) else {
            return;
        };
        if w.bad_file.is_none() {
            self.notes.push(format!("launch {id} is ended: {bad}"));
            w.bad_file = Some(bad.to_string());
        }
        self.destroy(id);
    }

    /// Ends a launch without its shim. The next poll reads the result that is written here.
    fn destroy(&mut self, id: AttemptId) {
        let dir = self.folder(id);
        let Some(w) = self.watched.get_mut(&id) else {
            return;
        };
        let lives = match &mut w.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => shim_of(&dir).is_some(),
        };
        if lives && w.unseen == Millis(0) {
            // The ranks of a shim that stands still run on.
            w.unseen = clock::now() - w.moved;
        }
        if let Some(child) = &mut w.child {
            let _ = child.kill();
            let _ = child.wait();
        } else if let Some(pid) = shim_of(&dir) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let containment = Containment::of(&w.mark, !self.settings.no_cgroup);
        containment.kill();
        if !containment.is_empty() || is_locked(&dir) {
            // The next poll tries again.
            return;
        }
        containment.remove();
        let status: Option<StatusFile> = files::read_unsynced(&dir.join("status.json"));
        let ran = w.reconstructed(status.as_ref());
        let (exit, why) = match (&w.bad_file, &w.bad_gpu) {
            (Some(why), _) => (Exit::BadFile, why.as_str()),
            (None, Some(why)) => (Exit::Lost, why.as_str()),
            (None, None) => (Exit::Lost, SHIM_ENDED),
        };
        let done = Final::unobserved(exit, ran, why);
        if w.bad_file.is_some() || !dir.join("final.json").exists() {
            // The job may have removed the folder.
            let _ = private::folder(&dir);
            if let Err(e) = files::replace(&dir.join("final.json"), &done, true) {
                // No process is left: a later session finds the same.
                w.unwritten = Some(done);
                if let ReadError::Io(e) = e {
                    self.in_trouble(&e);
                }
            }
        }
    }
}

/// Returns true if a shim runs in this folder.
fn is_locked(dir: &Path) -> bool {
    match files::open(&dir.join("lock")) {
        Ok(file) => file.try_lock().is_err(),
        // Without file descriptors, for example, it may run.
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    }
}

/// Returns the process that was started for this folder.
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

/// Launches of earlier sessions, read from their folders.
#[derive(Default)]
struct Left {
    found: Vec<Found>,
    watched: BTreeMap<AttemptId, Watched>,
    /// Messages for the operator.
    notes: Vec<String>,
}

/// Reads the folders of all launches.
fn found(attempts: &Path, boot: &str) -> io::Result<Left> {
    let mut left = Left::default();
    for entry in fs::read_dir(attempts)? {
        let dir = entry?.path();
        let launch: LaunchFile = match files::read_checked(&dir.join("launch.json"), LARGEST_LAUNCH)
        {
            Ok(Some(launch)) => launch,
            Ok(None) => {
                // The launch was never started.
                fs::remove_dir_all(&dir)?;
                continue;
            }
            Err(ReadError::Bad(bad)) => {
                // The shim ends its launch when its folder is gone.
                let removed = files::remove(&dir);
                left.notes.push(match removed {
                    Ok(()) => format!("{bad}: its folder is removed, its launch ends"),
                    Err(e) => format!("{bad}: its folder cannot be removed: {e}"),
                });
                continue;
            }
            Err(ReadError::Io(e)) => return Err(e),
        };
        let folder = fs::metadata(&dir)?.ino();
        if launch.folder != 0 && launch.folder != folder {
            // Its processes belong to the node manager of the original.
            files::remove(&dir)?;
            let dir = dir.display();
            left.notes.push(format!(
                "{dir} is a copy of the folder of a launch: it is removed"
            ));
            continue;
        }
        let (mut done, bad_file) =
            match files::read_checked::<Final>(&dir.join("final.json"), LARGEST_STATUS) {
                Ok(done) => (done, None),
                Err(ReadError::Bad(bad)) => (None, Some(bad.to_string())),
                Err(ReadError::Io(e)) => return Err(e),
            };
        let status: Option<StatusFile> = files::read_unsynced(&dir.join("status.json"));
        // The first poll finds an unreadable file.
        let mut watched = Watched::new(&dir, launch.mark, launch.slots, None, done.is_some());
        if done.is_none() && launch.boot != boot {
            let (exit, why) = match bad_file {
                Some(why) => (Exit::BadFile, why),
                None => (Exit::Lost, "the node went down".to_owned()),
            };
            let last = Final::unobserved(exit, watched.reconstructed(status.as_ref()), why);
            files::replace(&dir.join("final.json"), &last, true).map_err(io::Error::other)?;
            done = Some(last);
            watched.done = true;
        }
        let control = watched.control.as_ref().and_then(Slots::read::<Control>);
        let control = control.or_else(|| files::read_unsynced(&dir.join("control.json")));
        left.watched.insert(launch.id, watched);
        left.found.push(Found {
            id: launch.id,
            fence: launch.fence,
            task: Arc::new(launch.task),
            port: launch.port,
            lease: control.map_or(Millis(0), |c| c.lease),
            followed: status.as_ref().and_then(|s| s.lease),
            done,
            reported: status.map(|s| s.reported).unwrap_or_default(),
        });
    }
    Ok(left)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::protocol::PROTOCOL;
    use crate::protocol::message::Meeting;
    use blox_core::{GpuCount, JobId, JobSpec, Seconds, Time};

    pub(crate) fn attempt(text: &str) -> AttemptId {
        let (job, attempt) = text.split_once('.').unwrap();
        AttemptId {
            job: JobId(job.parse().unwrap()),
            attempt: attempt.parse().unwrap(),
        }
    }

    #[test]
    fn state_of_a_node_fits_into_its_preallocated_file() {
        let seen = Seen {
            epoch: Epoch(u64::MAX),
            incarnation: Incarnation(u32::MAX.into()),
            cluster: Some(ClusterId("f".repeat(32).as_str().into())),
            timers: Some(Timers::default()),
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seen");
        keep(&path, &seen).unwrap();
        assert_eq!(kept::<Seen>(&path).unwrap(), Some(seen));
    }

    /// A scheduler that accepts connections and answers nothing.
    struct Mute {
        opens: bool,
    }

    type Never<T> = ReceiverStream<Result<T, tonic::Status>>;

    #[tonic::async_trait]
    impl pb::node_link_server::NodeLink for Mute {
        type LinkStream = Never<pb::Orders>;
        type LogsStream = Never<pb::LogWanted>;

        async fn link(
            &self,
            request: tonic::Request<tonic::Streaming<pb::Report>>,
        ) -> Result<tonic::Response<Self::LinkStream>, tonic::Status> {
            let (tx, rx) = mpsc::channel(1);
            // The stream has no end.
            std::mem::forget((tx, request));
            match self.opens {
                true => Ok(tonic::Response::new(ReceiverStream::new(rx))),
                false => std::future::pending().await,
            }
        }

        async fn logs(
            &self,
            _: tonic::Request<tonic::Streaming<pb::LogPart>>,
        ) -> Result<tonic::Response<Self::LogsStream>, tonic::Status> {
            std::future::pending().await
        }
    }

    #[tokio::test]
    async fn connection_without_orders_is_replaced() {
        for opens in [false, true] {
            let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = tcp.local_addr().unwrap();
            let mute = pb::node_link_server::NodeLinkServer::new(Mute { opens });
            let clients = tokio_stream::wrappers::TcpListenerStream::new(tcp);
            let server = tonic::transport::Server::builder().add_service(mute);
            tokio::spawn(server.serve_with_incoming(clients));
            let mut settings = settings(Path::new("unused"));
            settings.scheduler = format!("http://{at}");
            let (to_us, mut reports) = mpsc::channel(4);
            let (orders, _orders) = mpsc::channel(4);
            let silence = Duration::from_millis(300);
            let end = connected(&settings, silence, &mut reports, &orders, || {});
            let end = tokio::time::timeout(30 * silence, end).await;
            let error = end.expect("the connection ends").unwrap_err();
            assert_eq!(error.to_string(), "no answer for 0.3 s", "{opens}");
            drop(to_us);
        }
    }

    #[test]
    fn delays_of_connections_differ_from_node_to_node() {
        let most = Duration::from_secs(2);
        let first = |n: u32| Spread::of(&Name::from(format!("n{n}"))).next(most);
        let all: Vec<Duration> = (0..200).map(first).collect();
        assert!(all.iter().all(|d| (most / 2..=most).contains(d)));
        // No fifth of the range has more than twice its part of the nodes.
        let fifth = |d: &Duration| ((d.as_secs_f64() - 1.0) * 4.999) as usize;
        let mut counts = [0; 5];
        all.iter().for_each(|d| counts[fifth(d)] += 1);
        assert!(counts.iter().all(|n| (20..=80).contains(n)), "{counts:?}");
        let mut one = Spread::of(&"n".into());
        assert_ne!(one.next(most), one.next(most));
    }

    #[test]
    fn copied_state_folders_get_different_sessions() {
        let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let next = |dir: &tempfile::TempDir| {
            std::thread::sleep(Duration::from_millis(2));
            next_session(dir.path()).unwrap()
        };
        // The format of older versions, without a start time.
        files::write(&ours.path().join("session.json"), &7_u64, true).unwrap();
        let first = next(&ours);
        assert!(first > Session(7));
        let name = "session";
        fs::copy(ours.path().join(name), theirs.path().join(name)).unwrap();
        let (second, copy) = (next(&ours), next(&theirs));
        assert!(
            first < second && second < copy,
            "{first:?} {second:?} {copy:?}"
        );
        // The higher count wins, whatever the start time.
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
            timers: None,
        };
        assert_eq!(seen, expected);
        let text = serde_json::to_string(&expected).unwrap();
        assert_eq!(serde_json::from_str::<Seen>(&text).unwrap(), expected);
    }

    pub(crate) fn launch(id: AttemptId, boot: &str) -> LaunchFile {
        LaunchFile {
            id,
            fence: crate::protocol::Fence(1),
            task: Task::of_one_rank(
                JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
                &[0],
            ),
            meeting: Meeting {
                address: "localhost".into(),
                port: 1,
            },
            port: 1,
            boot: boot.to_owned(),
            mark: format!("test-{}-{id}", std::process::id()),
            timers: Timers::default(),
            devices: Vec::new(),
            log_bytes: None,
            no_cgroup: false,
            shim: Vec::new(),
            processes: None,
            denied: Vec::new(),
            slots: vec![0],
            time_left: None,
            folder: 0,
            as_user: false,
        }
    }

    #[test]
    fn what_a_power_cut_tore_is_as_if_it_were_not_there() {
        let id = attempt("3.1");
        let attempts = tempfile::tempdir().unwrap();
        let dir = attempts.path().join(id.to_string());
        fs::create_dir(&dir).unwrap();
        files::write(&dir.join("launch.json"), &launch(id, "before"), true).unwrap();
        fs::write(dir.join("status.json"), "").unwrap();
        fs::write(dir.join("control.json"), "{\"lease\":").unwrap();
        let Left { found, watched, .. } = found(attempts.path(), "now").unwrap();
        let exit = found[0].done.as_ref().map(|d| d.exit);
        assert_eq!(exit, Some(Exit::Lost));
        assert!(watched[&id].done);
    }

    #[test]
    fn found_bad_files_keep_the_other_launches() {
        let attempts = tempfile::tempdir().unwrap();
        let write = |id: &str, boot: &str| {
            let id = attempt(id);
            let dir = attempts.path().join(id.to_string());
            fs::create_dir(&dir).unwrap();
            files::write(&dir.join("launch.json"), &launch(id, boot), true).unwrap();
            (id, dir)
        };
        let (sound, _) = write("1.1", "now");
        // The launch belongs to this boot, so its processes must be ended first.
        let (live, dir) = write("2.1", "now");
        fs::write(dir.join("final.json"), "rubbish").unwrap();
        let (dead, dir) = write("3.1", "before");
        fs::create_dir_all(dir.join("final.json").join("within")).unwrap();
        let (_, nameless) = write("4.1", "now");
        fs::write(nameless.join("launch.json"), "rubbish").unwrap();
        fs::write(attempts.path().join("5.1"), "no folder").unwrap();
        let left = found(attempts.path(), "now").unwrap();
        let ends: Vec<_> = left.found.iter().map(|f| (f.id, f.done.clone())).collect();
        let end = |id| ends.iter().find(|(i, _)| *i == id).map(|(_, e)| e.clone());
        assert_eq!(ends.len(), 3);
        assert_eq!((end(sound), end(live)), (Some(None), Some(None)));
        let done = end(dead).flatten().unwrap();
        assert_eq!(done.exit, Exit::BadFile);
        assert!(
            done.why
                .ends_with("final.json is a folder, expected a regular file")
        );
        assert!(!nameless.exists());
        let notes = left.notes.join("\n");
        for name in [
            "4.1/launch.json cannot be parsed: ",
            "5.1/launch.json cannot be read: ",
        ] {
            assert!(notes.contains(name), "{notes}");
        }
    }

    /// Returns settings of a node manager whose shims only sleep.
    pub(crate) fn settings(dir: &Path) -> NodeSettings {
        NodeSettings {
            scheduler: "http://127.0.0.1:1".to_owned(),
            dir: dir.to_owned(),
            offer: NodeSpec::with_gpus(2),
            address: Some("127.0.0.1".to_owned()),
            absence: Millis(0),
            shim: ["sh", "-c", "exec sleep 60"].map(str::to_owned).into(),
            devices: Vec::new(),
            device_files: Vec::new(),
            health: HealthSource::None,
            processes: 4_096,
            no_cgroup: false,
            credentials: Credentials::default(),
            logs: LogRoom::default(),
        }
    }

    fn shell(dir: &Path) -> Shell {
        Shell::open(settings(dir)).unwrap()
    }

    #[test]
    fn foreign_process_that_is_found_again_blocks_its_gpu() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = shell(dir.path());
        let held = Health {
            trouble: None,
            processes: vec![std::process::id()],
        };
        let probe = || Ok(vec![Health::default(), held.clone()]);
        let failed = |reports: Vec<Report>| reports.last().map(|r| r.failed_gpus.clone());
        assert_eq!(failed(shell.gpus(probe())), Some(BTreeMap::new()));
        std::thread::sleep(Duration::from_millis(2));
        let pid = std::process::id();
        let why = format!("held by process {pid}, which belongs to no job").into();
        assert_eq!(failed(shell.gpus(probe())), Some([(1, why)].into()));
        // A list of another length says nothing, so the last one counts.
        let few = || Ok(vec![Health::default()]);
        let reports = shell.gpus(few());
        let unknown = "found 1 entries, expected 2, one for each GPU";
        let last = reports.last().unwrap();
        assert_eq!(last.unknown_health.as_deref(), Some(unknown));
        assert_eq!(last.failed_gpus.len(), 1);
        assert_eq!(shell.gpus(few()), []);
        assert_eq!(
            shell.notes,
            [format!("the health of the GPUs is unknown: {unknown}")]
        );
        let reports = shell.gpus(Ok(vec![Health::default(); 2]));
        assert_eq!(reports.last().unwrap().unknown_health, None);
        assert_eq!(failed(reports), Some(BTreeMap::new()));
    }

    #[test]
    fn shell_bad_file_ends_its_launch_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = shell(dir.path());
        let later = clock::now() + Millis(60_000);
        let mut spawn = |id: &str| {
            let id = attempt(id);
            shell.spawn(&launch(id, "now"), later);
            id
        };
        let (sound, bad, blocked) = (spawn("1.1"), spawn("2.1"), spawn("3.1"));
        fs::write(shell.folder(bad).join("final.json"), b"\xff\xfe").unwrap();
        fs::create_dir(shell.folder(blocked).join("status.json")).unwrap();
        let mut end = |id| {
            // The first poll ends the launch, and a later one finds the result.
            for _ in 0..100 {
                match shell.look_at(id).pop() {
                    Some(ShimMessage::Done(done)) => return done,
                    _ => std::thread::sleep(Duration::from_millis(10)),
                }
            }
            panic!("{id} does not end")
        };
        for (id, file) in [
            (bad, "final.json cannot be "),
            (blocked, "status.json is a folder"),
        ] {
            let done = end(id);
            assert_eq!(done.exit, Exit::BadFile);
            assert!(done.why.contains(&format!("{id}/{file}")), "{}", done.why);
        }
        assert_eq!(shell.notes.len(), 2, "{:?}", shell.notes);
        assert!(shell.notes[0].starts_with("launch 2.1 is ended: "));
        assert_eq!(shell.look_at(sound), []);
        let child = shell.watched.get_mut(&sound).and_then(|w| w.child.as_mut());
        let child = child.unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn launch_is_over_once_its_shim_has_left_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = shell(dir.path());
        let id = attempt("1.1");
        shell.spawn(&launch(id, "now"), clock::now() + Millis(60_000));
        let folder = shell.folder(id);
        let lock = File::create(folder.join("lock")).unwrap();
        lock.try_lock().unwrap();
        shell.destroy(id);
        // Its GPUs may still be in use.
        assert!(!folder.join("final.json").exists());
        drop(lock);
        shell.destroy(id);
        assert!(folder.join("final.json").exists());
    }

    /// Polls a launch until it ends.
    fn end_of(shell: &mut Shell, id: AttemptId) -> Option<Final> {
        (0..100).find_map(|_| match shell.look_at(id).pop() {
            Some(ShimMessage::Done(done)) => Some(done),
            _ => {
                std::thread::sleep(Duration::from_millis(10));
                None
            }
        })
    }

    #[test]
    fn ended_shim_ends_its_launch() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = shell(dir.path());
        let id = attempt("1.1");
        shell.spawn(&launch(id, "now"), clock::now() + Millis(60_000));
        assert_eq!(shell.look_at(id), []);
        let child = shell.watched.get_mut(&id).and_then(|w| w.child.as_mut());
        let child = child.unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let done = end_of(&mut shell, id).map(|done| (done.exit, done.why));
        assert_eq!(done, Some((Exit::Lost, SHIM_ENDED.to_owned())));
    }

    #[test]
    fn time_after_the_last_sign_of_a_shim_counts() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = shell(dir.path());
        let id = attempt("1.1");
        shell.spawn(&launch(id, "now"), clock::now() + Millis(60_000));
        let status = StatusFile {
            running: true,
            stopping: false,
            ran: Millis(3_000),
            lease: None,
            reported: Default::default(),
        };
        files::write(&shell.folder(id).join("status.json"), &status, true).unwrap();
        shell.look_at(id);
        // Its shim stands still for ten seconds.
        shell.watched.get_mut(&id).unwrap().moved = clock::now() - Millis(10_000);
        shell.destroy(id);
        let ran = end_of(&mut shell, id).map(|done| done.ran.0);
        assert!(
            ran.is_some_and(|ran| (13_000..14_500).contains(&ran)),
            "{ran:?}"
        );
    }

    #[test]
    fn beat_counts_for_a_launch_that_a_reboot_ended() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = dir.path().join("attempts");
        let id = attempt("1.1");
        let folder = attempts.join(id.to_string());
        fs::create_dir_all(&folder).unwrap();
        files::write(&folder.join("launch.json"), &launch(id, "before"), true).unwrap();
        // The disk had no room for `status.json`.
        let beat = Beat {
            running: true,
            stopping: false,
            ran: Millis(7_000),
        };
        Slots::create(&folder.join("beat"), &beat).unwrap();
        let left = found(&attempts, "now").unwrap();
        let done = left.found[0].done.clone();
        let expected = Final::unobserved(Exit::Lost, Millis(7_000), "the node went down");
        assert_eq!(done, Some(expected));
        assert!(left.watched[&id].done);
    }

    #[test]
    fn shim_of_an_earlier_session_has_time_for_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let boot = shell(dir.path()).boot;
        let id = attempt("1.1");
        let folder = dir.path().join("attempts").join(id.to_string());
        fs::create_dir(&folder).unwrap();
        files::write(&folder.join("launch.json"), &launch(id, &boot), true).unwrap();
        let mut shell = shell(dir.path());
        let polls = |shell: &mut Shell| {
            shell.look_at(id);
            folder.join("final.json").exists()
        };
        assert!(!polls(&mut shell));
        shell.began = clock::now() - SETTLE - Millis(1);
        assert!(polls(&mut shell));
    }

    #[test]
    fn node_manager_keeps_the_epoch_that_it_followed() {
        let dir = tempfile::tempdir().unwrap();
        let reported = |shell: &mut Shell| shell.input(NodeInput::Tick).remove(0);
        let mut first = shell(dir.path());
        let report = reported(&mut first);
        let orders = Orders {
            protocol: PROTOCOL,
            timers: None,
            node: report.node,
            cluster: ClusterId("c".into()),
            epoch: Epoch(5),
            incarnation: Incarnation(3),
            session: report.session,
            seq: 1,
            reply_to: report.seq,
            orders: Vec::new(),
            forget: Vec::new(),
        };
        first.input(NodeInput::Orders(orders, 29_500));
        drop(first);
        let again = reported(&mut shell(dir.path()));
        assert_eq!(again.cluster, Some(ClusterId("c".into())));
        assert_eq!((again.epoch, again.incarnation), (Epoch(5), Incarnation(3)));
    }

    #[test]
    fn shell_removed_folder_ends_its_launch_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = shell(dir.path());
        let id = attempt("1.1");
        let lease = clock::now() + Millis(60_000);
        shell.spawn(&launch(id, "now"), lease);
        let folder = shell.folder(id);
        fs::remove_dir_all(&folder).unwrap();
        let wish = ShimWish::Run;
        let bad = files::replace(
            &folder.join("control.json"),
            &Control { lease, wish },
            false,
        );
        let Err(ReadError::Bad(bad)) = bad else {
            panic!("{bad:?}");
        };
        shell.end_for(id, &bad);
        let messages = shell.look_at(id);
        let [ShimMessage::Done(done)] = &messages[..] else {
            panic!("{messages:?}");
        };
        assert_eq!(done.exit, Exit::BadFile);
        assert!(
            done.why.contains("control.json cannot be written: "),
            "{}",
            done.why
        );
    }
}
