//! The shim: starts the ranks of one launch on one node, keeps its lease, ends
//! what has to end, writes down what came of it. It needs nobody: node manager
//! and network may be gone.
//!
//! A launch has a folder: `launch.json` (what it is), `control.json` (what the
//! node manager wants), `status.json` (where it stands), `final.json` (how it
//! ended, on the disk before anybody is told), `lock` (held while the shim
//! lives), `rank-N.out` and `rank-N.err`.

use super::clock::now;
use super::containment::{Containment, MARK};
use super::files::{self, BadFile, ReadError};
use super::progress;
use super::room::Shares;
use crate::protocol::message::{Meeting, Task};
use crate::protocol::shim::{Control, Shim, ShimEffect, ShimInput};
use crate::protocol::{AttemptId, Exit, Fence, Final, Millis, Said, Timers};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often the shim looks around.
const LOOK: Duration = Duration::from_millis(50);
/// For so long a progress file has to be wrong before it ends the launch: the job may be writing it.
const WRONG_FOR: Millis = Millis(1_000);
/// How often the end is tried to be written down: for a minute.
const FINISH_TRIES: u32 = 1_200;

/// What a launch is: written by the node manager before the shim is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchFile {
    /// The launch.
    pub id: AttemptId,
    /// Its grant.
    pub fence: Fence,
    /// What to run.
    pub task: Task,
    /// Where the ranks meet.
    pub meeting: Meeting,
    /// The port that was kept.
    pub port: u16,
    /// The boot in which it began.
    pub boot: String,
    /// What its processes are known by.
    pub mark: String,
    /// The timers.
    pub timers: Timers,
    /// What the node calls its GPUs, if not by their numbers.
    #[serde(default)]
    pub devices: Vec<String>,
    /// How many bytes its logs may have.
    #[serde(default)]
    pub log_bytes: Option<u64>,
}

/// Where a launch stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusFile {
    /// All ranks were started.
    pub running: bool,
    /// It was told to end, or ends.
    pub stopping: bool,
    /// For how long it has run.
    pub ran: Millis,
    /// What the job says of itself.
    #[serde(flatten)]
    pub said: Said,
}

/// Runs the shim of the launch in `dir`, to the end of the launch.
///
/// # Errors
/// The folder cannot be used.
pub fn run(dir: &Path) -> io::Result<()> {
    // A session of its own: what ends the node manager does not end this.
    let _ = rustix::process::setsid();
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let lock = Lock::take(dir)?;
    if dir.join("final.json").exists() {
        return Ok(());
    }
    let missing = || io::Error::other("launch.json and control.json are needed");
    let launch: LaunchFile = files::read(&dir.join("launch.json"))?.ok_or_else(missing)?;
    let control: Control = files::read(&dir.join("control.json"))?.ok_or_else(missing)?;
    let mut held = Containment::of(&launch.mark);
    held.create();
    let began = now();
    if began >= control.lease {
        // It was told too late: nothing was started, and nothing will be.
        return finish(&lock, &held, cut_before_start());
    }
    let ranks = launch.task.ranks.iter();
    let logs: Vec<PathBuf> = ranks
        .flat_map(|rank| ["out", "err"].map(|kind| log(dir, *rank, kind)))
        .collect();
    let logs = Shares::of(&logs, launch.log_bytes);
    held.enter(true);
    let started = start_all(dir, &launch);
    held.enter(false);
    let children = match started {
        Ok(children) => children,
        Err((mut children, why)) => {
            end_all(&held, children.iter_mut());
            let done = Final {
                exit: Exit::Failed { code: 127 },
                ran: now() - began,
                estimated: false,
                why,
                exited_zero: false,
            };
            return finish(&lock, &held, done);
        }
    };
    Watch {
        dir: dir.to_owned(),
        lock,
        machine: Shim::new(launch.timers, control.lease, children.len(), began),
        children: children.into_iter().map(Some).collect(),
        held,
        logs,
        began,
        killing: false,
        last_control: Some(control),
        last_status: None,
        said: Said::default(),
        wrong_since: None,
        bad_file: None,
    }
    .run_out()
}

fn cut_before_start() -> Final {
    Final {
        exit: Exit::NeverRan,
        ran: Millis(0),
        estimated: false,
        why: "its lease ran out before it was started".to_owned(),
        exited_zero: false,
    }
}

/// Ends all processes, until none is left.
fn end_all<'a>(held: &Containment, children: impl Iterator<Item = &'a mut Child>) {
    let mut children: Vec<&mut Child> = children.collect();
    while !held.is_empty() {
        held.kill();
        children.iter_mut().for_each(|c| drop(c.try_wait()));
        std::thread::sleep(LOOK);
    }
}

/// The launch's folder, as long as it is the one that the shim began in.
struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    fn take(dir: &Path) -> io::Result<Self> {
        let path = dir.join("lock");
        let file = File::create(&path)?;
        file.try_lock().map_err(io::Error::other)?;
        Ok(Lock { file, path })
    }

    /// Returns whether what is at its path is what it holds: a folder that was removed or put in
    /// its place says nothing to this launch. What cannot be looked at may still be there.
    fn holds(&self) -> bool {
        let there = std::fs::metadata(&self.path);
        match (self.file.metadata(), there) {
            (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
            (_, Err(e)) => e.kind() != io::ErrorKind::NotFound,
            (Err(_), _) => true,
        }
    }
}

fn finish(lock: &Lock, held: &Containment, done: Final) -> io::Result<()> {
    held.remove();
    let path = lock.path.with_file_name("final.json");
    // A full disk may have room again, and nobody waits but the node manager.
    for _ in 0..FINISH_TRIES {
        // In another's folder it would be another's end.
        if !lock.holds() || files::write(&path, &done, true).is_ok() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    files::write(&path, &done, true)
}

struct Watch {
    dir: PathBuf,
    lock: Lock,
    machine: Shim,
    children: Vec<Option<Child>>,
    held: Containment,
    logs: Shares,
    began: Millis,
    killing: bool,
    last_control: Option<Control>,
    last_status: Option<StatusFile>,
    /// What the job reported last.
    said: Said,
    /// Since when its progress file is wrong.
    wrong_since: Option<Millis>,
    /// Why the progress file ends the launch at the next look.
    bad_file: Option<BadFile>,
}

impl Watch {
    fn run_out(mut self) -> io::Result<()> {
        loop {
            if !self.lock.holds() {
                // Whoever has the folder now knows nothing of this launch, and nobody renews
                // its lease.
                end_all(&self.held, self.children.iter_mut().flatten());
                self.held.remove();
                return Ok(());
            }
            let done = self.look()?;
            self.logs.cut();
            if let Some(done) = done {
                return finish(&self.lock, &self.held, done);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn look(&mut self) -> io::Result<Option<Final>> {
        // First those that ended: they did before anything that this look tells them.
        let mut inputs = Vec::new();
        for (rank, slot) in self.children.iter_mut().enumerate() {
            if let Some(child) = slot
                && let Some(status) = child.try_wait()?
            {
                let code = status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                *slot = None;
                inputs.push(ShimInput::RankExit { rank, code });
            }
        }
        inputs.push(ShimInput::Tick);
        let bad = self.bad_file.take();
        inputs.extend(bad.map(|bad| ShimInput::BadFile(bad.to_string())));
        // A file that cannot be read now will be read the next time; the lease goes on.
        let control: Option<Control> =
            files::read(&self.dir.join("control.json")).unwrap_or(self.last_control);
        if control != self.last_control {
            self.last_control = control;
            inputs.extend(control.map(ShimInput::Control));
        }
        if self.killing {
            if self.held.is_empty() && self.children.iter().all(Option::is_none) {
                inputs.push(ShimInput::Empty);
            } else {
                self.held.kill();
            }
        }
        for input in inputs {
            for effect in self.machine.step(now(), input) {
                match effect {
                    ShimEffect::Term => self.held.terminate(),
                    ShimEffect::KillAll => {
                        self.killing = true;
                        self.held.kill();
                    }
                    ShimEffect::Finish(done) => return Ok(Some(done)),
                }
            }
        }
        // After the exits: what a rank reports as it leaves counts.
        self.bad_file = self.read_progress();
        self.tell();
        Ok(None)
    }

    /// Reads what the job reports. Returns the error once the file has been wrong for long enough.
    fn read_progress(&mut self) -> Option<BadFile> {
        match progress::read(&self.dir.join("progress")) {
            Ok(said) => (self.said, self.wrong_since) = (said, None),
            // The next look may find the machine in order.
            Err(ReadError::Io(_)) => {}
            Err(ReadError::Bad(bad)) => {
                let since = *self.wrong_since.get_or_insert_with(now);
                return (now() - since >= WRONG_FOR).then_some(bad);
            }
        }
        None
    }

    fn tell(&mut self) {
        let status = StatusFile {
            running: true,
            stopping: self.machine.is_stopping(),
            // Whole seconds: the file is written when it changes.
            ran: Millis((now() - self.began).0 / 1000 * 1000),
            said: self.said.clone(),
        };
        // A disk that is full now takes it the next time; the launch goes on.
        if self.last_status.as_ref() != Some(&status)
            && files::write(&self.dir.join("status.json"), &status, false).is_ok()
        {
            self.last_status = Some(status);
        }
    }
}

type Started = Result<Vec<Child>, (Vec<Child>, String)>;

fn start_all(dir: &Path, launch: &LaunchFile) -> Started {
    let mut children = Vec::new();
    for (local, rank) in launch.task.ranks.iter().enumerate() {
        match start(dir, launch, local, *rank) {
            Ok(child) => children.push(child),
            Err(why) => return Err((children, why)),
        }
    }
    Ok(children)
}

/// Returns where a rank's output or errors go.
fn log(dir: &Path, rank: u32, kind: &str) -> PathBuf {
    dir.join(format!("rank-{rank}.{kind}"))
}

fn start(dir: &Path, launch: &LaunchFile, local: usize, rank: u32) -> Result<Child, String> {
    let extras = launch.task.spec.extras();
    let (program, arguments) = extras
        .command
        .split_first()
        .ok_or("the job has no command")?;
    let log = |kind: &str| {
        let path = log(dir, rank, kind);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(|e| format!("{}: {e}", path.display()))
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment(dir, launch, local, rank))
        .stdin(Stdio::null())
        .stdout(log("out")?)
        .stderr(log("err")?)
        .process_group(0);
    let attribute = |key: &str| extras.attributes.get(key);
    if let Some(cwd) = attribute("working_directory").and_then(|v| v.as_str()) {
        // The program would be blamed for it.
        rustix::fs::access(Path::new(cwd).join("."), rustix::fs::Access::EXEC_OK)
            .map_err(|e| format!("the working directory {cwd} cannot be used on this node: {e}"))?;
        command.current_dir(cwd);
    }
    command
        .spawn()
        .map_err(|e| format!("`{program}` cannot be started: {e}"))
}

/// A clean base, then what launchers and trainers expect, then the user's own;
/// never what the protocol itself stands on.
fn environment(dir: &Path, launch: &LaunchFile, local: usize, rank: u32) -> Vec<(String, String)> {
    let t = &launch.task;
    let mut env: Vec<(String, String)> = ["PATH", "HOME", "USER", "SHELL", "LANG", "TMPDIR"]
        .into_iter()
        .filter_map(|k| Some((k.to_owned(), std::env::var(k).ok()?)))
        .collect();
    if let Some(own) = t
        .spec
        .extras()
        .attributes
        .get("env")
        .and_then(|v| v.as_object())
    {
        let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
        env.extend(own.iter().map(|(k, v)| (k.clone(), text(v))));
    }
    let gpus: Vec<String> = t.gpus.iter().map(u32::to_string).collect();
    let gpus = gpus.join(",");
    let mine = t.gpus.get(local).copied().unwrap_or(0).to_string();
    let (job, attempt) = (launch.id.job.to_string(), launch.id.attempt.to_string());
    let (world, here) = (t.world.to_string(), t.ranks.len().to_string());
    let (address, port) = (
        launch.meeting.address.to_string(),
        launch.meeting.port.to_string(),
    );
    let nodes: Vec<&str> = t.nodes.iter().map(|n| n.as_str()).collect();
    let threads = env.iter().any(|(key, _)| key == "OMP_NUM_THREADS");
    let mut set = |key: &str, value: &str| env.push((key.to_owned(), value.to_owned()));
    if !threads && t.ranks.len() > 1 {
        // As torchrun does: each would use all processors.
        set("OMP_NUM_THREADS", "1");
    }
    // Blox's.
    set("local_gpu_id", &mine);
    set("master_ip_address", &address);
    set("world_size", &world);
    set("dist_rank", &rank.to_string());
    set("job_id", &job);
    set("local_accessible_gpu", &gpus);
    set("local_accessible_gpus", &gpus);
    // torchrun's.
    set("MASTER_ADDR", &address);
    set("MASTER_PORT", &port);
    set("RANK", &rank.to_string());
    set("LOCAL_RANK", &local.to_string());
    set("WORLD_SIZE", &world);
    set("LOCAL_WORLD_SIZE", &here);
    set("GROUP_RANK", &t.node_rank.to_string());
    set("ROLE_RANK", &rank.to_string());
    set("ROLE_WORLD_SIZE", &world);
    let restarts = launch.id.attempt.saturating_sub(1);
    set("TORCHELASTIC_RESTART_COUNT", &restarts.to_string());
    set("TORCHELASTIC_RUN_ID", &launch.id.to_string());
    // Retries are the scheduler's.
    set("TORCHELASTIC_MAX_RESTARTS", "0");
    // Devices.
    let visible = match launch.devices.is_empty() {
        true => gpus.clone(),
        false => launch.devices.join(","),
    };
    set("CUDA_VISIBLE_DEVICES", &visible);
    set("NVIDIA_VISIBLE_DEVICES", &visible);
    set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    // Ours.
    set("BLOX_JOB_ID", &job);
    set("BLOX_ATTEMPT", &attempt);
    set("BLOX_FENCE", &launch.fence.0.to_string());
    set("BLOX_NNODES", &t.nodes.len().to_string());
    set("BLOX_NODE_RANK", &t.node_rank.to_string());
    set("BLOX_NODELIST", &nodes.join(","));
    set(
        "BLOX_PROGRESS_FILE",
        &dir.join("progress").to_string_lossy(),
    );
    if let Some(batch) = t.batch {
        set("BLOX_BATCH_PER_GPU", &batch.per_gpu.to_string());
        set("BLOX_ACCUMULATION", &batch.accumulation.to_string());
    }
    set(MARK, &launch.mark);
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_from_before_there_were_numbers_is_read() {
        let old =
            r#"{"running":true,"stopping":false,"ran":7,"progress":{"done":2.0,"saved":1.0}}"#;
        let status: StatusFile = serde_json::from_str(old).unwrap();
        assert_eq!(
            status.said.progress.map(|p| (p.done, p.saved)),
            Some((2.0, 1.0))
        );
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<StatusFile>(&text).unwrap(), status);
    }
}
