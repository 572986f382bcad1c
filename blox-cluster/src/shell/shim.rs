//! The shim process: starts the ranks of one launch on one node, enforces the lease, ends the
//! launch and records its result. It works without the node manager and the network.
//!
//! Each launch has a folder. `launch.json` describes the launch, `control` has the order of the node
//! manager, `beat` the current state, and `status.json` what the job reported. `final.json` has the
//! result; it is on disk before any other process can read it. `lock` is held while the shim runs.
//! `rank-N.out` and `rank-N.err` are the logs. Lease, state and result need no room on the disk
//! once the shim has started.

use super::account::Account;
use super::clock::now;
use super::containment::{Containment, Limited, Limits, MARK};
use super::files::{self, BadFile, ReadError};
use super::guard::{self, Guard};
use super::progress;
use super::room::Shares;
use super::slots::Slots;
use crate::private;
use crate::protocol::message::{Meeting, NO_PROGRAM, Task};
use crate::protocol::shim::{Control, Shim, ShimEffect, ShimInput, ShimWish, grace_of, stall_of};
use crate::protocol::{AttemptId, Exit, Fence, Final, InArray, JobReport, Millis, Timers};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Polling interval of the shim.
const LOOK: Duration = Duration::from_millis(50);
/// Time for which a progress file must be invalid before it ends the launch, because the job may be
/// writing it.
const WRONG_FOR: Millis = Millis(1_000);
/// Number of attempts to write the result, which take one minute.
const FINISH_TRIES: u32 = 1_200;

/// Description of a launch, written by the node manager before it starts the shim.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchFile {
    /// The launch.
    pub id: AttemptId,
    /// Its fencing number.
    pub fence: Fence,
    /// Its task.
    pub task: Task,
    /// Rendezvous of the ranks.
    pub meeting: Meeting,
    /// Its reserved port.
    pub port: u16,
    /// Boot in which it was started.
    pub boot: String,
    /// Mark that identifies its processes.
    pub mark: String,
    /// The timers.
    pub timers: Timers,
    /// Device names of its GPUs; empty to use their indices.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Quota of its logs in bytes.
    #[serde(default)]
    pub log_bytes: Option<u64>,
    /// True if the launch stays in the cgroup of the node manager.
    #[serde(default)]
    pub no_cgroup: bool,
    /// Arguments with which this program runs a shim; empty if it cannot be started again.
    #[serde(default)]
    pub shim: Vec<String>,
    /// Limit on its processes and threads.
    #[serde(default)]
    pub processes: Option<u64>,
    /// Device files of GPUs that the launch may not open.
    #[serde(default)]
    pub denied: Vec<PathBuf>,
    /// Its GPUs, as slots of the machine.
    #[serde(default)]
    pub slots: Vec<u32>,
    /// Running time that the time limit of the job leaves.
    #[serde(default)]
    pub time_left: Option<Millis>,
    /// Number of its folder in the file system; 0 in files of earlier versions. A copy of the folder
    /// has another number.
    #[serde(default)]
    pub folder: u64,
    /// True if the ranks run with the account of the job's user.
    #[serde(default)]
    pub as_user: bool,
}

impl LaunchFile {
    /// Returns the account of the ranks; `None` for that of the node manager.
    fn account(&self) -> Result<Option<Account>, String> {
        if !self.as_user {
            return Ok(None);
        }
        let user = self.task.spec.user.as_deref();
        let user = user.ok_or("the job has no user, and jobs of this node run as their users")?;
        Account::of(user).map(Some)
    }

    /// Returns the folder in which the ranks may write.
    fn folder_of_job(&self, dir: &Path) -> PathBuf {
        match self.as_user {
            true => dir.join("job"),
            false => dir.to_owned(),
        }
    }

    fn limits(&self) -> Limits {
        let t = &self.task;
        let above_zero = |x: f64| (x > 0.0).then_some(x);
        Limits {
            cpus: above_zero(t.cpus),
            memory: above_zero(t.memory_gib).map(|gib| (gib * f64::from(1 << 30)) as u64),
            processes: self.processes,
            denied: self.denied.clone(),
        }
    }
}

/// Current state of a launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusFile {
    /// True if all ranks were started.
    pub running: bool,
    /// True if the launch is ending.
    pub stopping: bool,
    /// Running time.
    pub ran: Millis,
    /// End of the lease that the shim follows. A shim of an earlier version does not state it, and
    /// follows no shorter lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Millis>,
    /// Last reported progress and metrics.
    #[serde(flatten)]
    pub reported: JobReport,
}

/// Current state of a launch, renewed without room on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Beat {
    /// True if all ranks were started.
    pub running: bool,
    /// True if the launch is ending.
    pub stopping: bool,
    /// Running time.
    pub ran: Millis,
}

/// Size of the reserve for the result in bytes.
const RESERVE: usize = 4096;

/// Reserves room for the result.
fn reserve(lock: &Lock) {
    // Without the reserve, the result is written if there is room.
    let reserved = crate::private::create(&lock.path.with_file_name("final.tmp"));
    let _ = reserved.and_then(|mut file| io::Write::write_all(&mut file, &[b' '; RESERVE]));
}

/// Writes the result into its reserve. Blanks follow the JSON value.
fn write_reserved(path: &Path, done: &Final) -> io::Result<()> {
    let mut json = serde_json::to_vec(done)?;
    if json.len() > RESERVE {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    json.resize(RESERVE, b' ');
    let tmp = path.with_extension("tmp");
    let file = private::options().write(true).open(&tmp)?;
    std::os::unix::fs::FileExt::write_all_at(&file, &json, 0)?;
    file.sync_all()?;
    std::fs::rename(&tmp, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// Runs the shim of the launch in `dir` until the launch has ended. Once `stop` is true, the ranks
/// save their work and end, as on an order to stop.
///
/// # Errors
/// The folder cannot be used.
pub fn run(dir: &Path, stop: &AtomicBool) -> io::Result<()> {
    match begin(dir, stop)? {
        Some(watch) => watch.run_out(),
        None => Ok(()),
    }
}

/// Starts the ranks of a launch. Returns `None` if the launch has ended.
fn begin<'a>(dir: &Path, stop: &'a AtomicBool) -> io::Result<Option<Watch<'a>>> {
    // A session of its own, so that signals to the node manager's session do not reach the shim.
    let _ = rustix::process::setsid();
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let lock = Lock::take(dir)?;
    if dir.join("final.json").exists() {
        return Ok(None);
    }
    let missing = || io::Error::other("launch.json and control are needed");
    let launch: LaunchFile = files::read(&dir.join("launch.json"))?.ok_or_else(missing)?;
    let orders = Slots::open(&dir.join("control")).ok();
    let control = match orders.as_ref().and_then(Slots::read::<Control>) {
        // A node manager of an earlier version replaces a file.
        None => files::read(&dir.join("control.json"))?,
        control => control,
    };
    let control = control.ok_or_else(missing)?;
    reserve(&lock);
    let mut containment = Containment::of(&launch.mark, !launch.no_cgroup);
    // The node manager reports at its start what is not limited.
    let _: Vec<Limited> = containment.create(&launch.limits());
    let began = now();
    if began >= control.lease {
        // The order arrived too late: no rank was started, and none will be.
        let why = "its lease ran out before it was started";
        return finish(&lock, &containment, Final::never(why)).map(|()| None);
    }
    let ranks = launch.task.ranks.iter();
    let logs: Vec<PathBuf> = ranks
        .flat_map(|rank| ["out", "err"].map(|kind| log(dir, *rank, kind)))
        .collect();
    let logs = Shares::of(&logs, launch.log_bytes);
    let mut processes = Processes {
        containment,
        guard: None,
        launch,
    };
    if let Err(e) = processes.start_guard(control.lease) {
        let why = format!("its guard could not be started: {e}");
        return finish(&lock, &processes.containment, Final::never(why)).map(|()| None);
    }
    processes.containment.enter(true);
    let started = start_all(dir, &processes.launch);
    processes.containment.enter(false);
    let children = match started {
        Ok(children) => children,
        Err(why) => {
            processes.end_all(control.lease);
            let done = Final::new(Exit::Failed { code: 127 }, now() - began, why);
            return finish(&lock, &processes.containment, done).map(|()| None);
        }
    };
    let launch = &processes.launch;
    let grace = grace_of(&launch.task.spec, &launch.timers);
    let machine = Shim::new(launch.timers, control.lease, children.len(), began);
    let machine = match launch.time_left {
        Some(left) => machine.with_limit(began + left, grace),
        None => machine,
    };
    Ok(Some(Watch {
        progress: launch.folder_of_job(dir).join("progress"),
        dir: dir.to_owned(),
        orders,
        beat: Slots::open(&dir.join("beat")).ok(),
        lock,
        machine,
        limits: launch.limits(),
        children: children.iter().map(Child::id).map(Some).collect(),
        logs,
        began,
        killing: false,
        last_control: Some(control),
        last_status: None,
        reported: JobReport::default(),
        wrong_since: None,
        bad_file: None,
        stall: Stall::of(&launch.task, began),
        stop,
        grace: launch.timers.grace,
        processes,
    }))
}

/// The processes of a launch, and the guard that ends them without the shim.
struct Processes {
    containment: Containment,
    guard: Option<Guard>,
    launch: LaunchFile,
}

impl Processes {
    /// Starts the guard of the launch, if this program can be started again.
    fn start_guard(&mut self, lease: Millis) -> io::Result<()> {
        let LaunchFile {
            shim,
            mark,
            no_cgroup,
            timers,
            ..
        } = &self.launch;
        let after = Millis(timers.kill.0 / 2);
        let start = || Guard::start(shim, mark, *no_cgroup, after, lease);
        let started = (!shim.is_empty()).then(start).transpose();
        let (guard, result) = match started {
            Ok(guard) => (guard, Ok(())),
            Err(e) => (None, Err(e)),
        };
        self.guard = guard;
        let (own, guard) = (rustix::process::getpid(), self.guard.as_ref());
        self.containment
            .include_children_of(own, guard.map(Guard::pid));
        result
    }

    /// Reaps the children of the shim that have ended. A job can kill the guard, which is then
    /// started again.
    fn reap(&mut self, lease: Millis) -> Vec<(u32, i32)> {
        let ended = guard::reap().ended;
        let guard = self.guard.as_ref().map(Guard::pid);
        let guard = guard.map(|pid| pid.as_raw_nonzero().get() as u32);
        if ended.iter().any(|(pid, _)| Some(*pid) == guard) {
            // Without a guard, the shim still ends the launch.
            let _ = self.start_guard(lease);
        }
        ended
    }

    /// Returns true once no process of the launch is left. The shim's list is no snapshot of the
    /// processes, so the kernel decides: the shim has no child any more.
    fn have_ended(&mut self, lease: Millis) -> bool {
        if !self.containment.is_empty() {
            return false;
        }
        if let Some(guard) = self.guard.take() {
            guard.release();
        }
        let is_last = guard::reap().is_last;
        if !is_last {
            let _ = self.start_guard(lease);
        }
        is_last
    }

    /// Kills all processes until none is left.
    fn end_all(&mut self, lease: Millis) {
        while !self.have_ended(lease) {
            self.containment.kill();
            self.reap(lease);
            std::thread::sleep(LOOK);
        }
    }
}

/// The launch's folder in which the shim started, identified by its lock file.
struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    fn take(dir: &Path) -> io::Result<Self> {
        let path = dir.join("lock");
        let file = private::create(&path)?;
        file.try_lock().map_err(io::Error::other)?;
        Ok(Lock { file, path })
    }

    /// Returns true if the path still has the shim's own lock file. A folder that was removed or
    /// replaced has no valid orders for this launch. If the path cannot be examined, the file may
    /// still be there.
    fn holds(&self) -> bool {
        let there = std::fs::metadata(&self.path);
        match (self.file.metadata(), there) {
            (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
            (_, Err(e)) => e.kind() != io::ErrorKind::NotFound,
            (Err(_), _) => true,
        }
    }
}

fn finish(lock: &Lock, containment: &Containment, done: Final) -> io::Result<()> {
    containment.remove();
    let path = lock.path.with_file_name("final.json");
    if lock.holds() && write_reserved(&path, &done).is_ok() {
        return Ok(());
    }
    // A full disk may have space again, and only the node manager waits for the result.
    for _ in 0..FINISH_TRIES {
        // In a replaced folder, the result would belong to another launch.
        if !lock.holds() || files::write(&path, &done, true).is_ok() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    files::write(&path, &done, true)
}

/// Longest time between two polls that counts as time without an iteration. In a longer one, shim or
/// machine were paused.
const LONGEST_LOOK: Millis = Millis(1_000);

/// Time without an iteration of the job. Only the first node of a launch expects reports from the
/// start, since other ranks usually report none.
struct Stall {
    /// Time after which the launch fails, if it is limited.
    limit: Option<Millis>,
    /// Iterations that the job has reported.
    done: Option<f64>,
    is_first: bool,
    last_look: Millis,
    time: Millis,
}

impl Stall {
    fn of(task: &Task, now: Millis) -> Self {
        Stall {
            limit: stall_of(&task.spec),
            done: None,
            is_first: task.node_rank == 0,
            last_look: now,
            time: Millis(0),
        }
    }

    fn look(&mut self, now: Millis, reported: &JobReport) {
        let done = reported.progress.map(|progress| progress.done);
        let passed = (now - self.last_look).min(LONGEST_LOOK);
        self.last_look = now;
        self.time = match done == self.done && (self.is_first || done.is_some()) {
            true => self.time + passed,
            false => Millis(0),
        };
        self.done = done;
    }

    /// Returns the limit once the time exceeds it.
    fn is_over(&self) -> Option<Millis> {
        self.limit.filter(|limit| self.time >= *limit)
    }
}

struct Watch<'a> {
    dir: PathBuf,
    /// Orders of the node manager; `None` for a node manager of an earlier version.
    orders: Option<Slots>,
    beat: Option<Slots>,
    /// The progress file.
    progress: PathBuf,
    lock: Lock,
    machine: Shim,
    limits: Limits,
    /// Process of each rank, until it has ended.
    children: Vec<Option<u32>>,
    processes: Processes,
    logs: Shares,
    began: Millis,
    killing: bool,
    last_control: Option<Control>,
    last_status: Option<StatusFile>,
    /// Last reported progress and metrics.
    reported: JobReport,
    /// Time since which the progress file is invalid.
    wrong_since: Option<Millis>,
    /// Error of the progress file that ends the launch at the next poll.
    bad_file: Option<BadFile>,
    stall: Stall,
    /// True once something other than the node manager asks the launch to end.
    stop: &'a AtomicBool,
    /// Time to save work after that.
    grace: Millis,
}

impl Watch<'_> {
    fn run_out(mut self) -> io::Result<()> {
        loop {
            if !self.lock.holds() {
                // The new content of the folder does not belong to this launch, so its lease cannot
                // be renewed.
                self.processes.end_all(self.machine.lease());
                self.processes.containment.remove();
                return Ok(());
            }
            let done = self.look()?;
            self.logs.cut();
            if let Some(done) = done {
                let done = self.explained(done);
                return finish(&self.lock, &self.processes.containment, done);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Adds to a failure that the launch reached one of its limits.
    fn explained(&self, mut done: Final) -> Final {
        let is_failure = matches!(done.exit, Exit::Failed { .. });
        let containment = &self.processes.containment;
        if is_failure && containment.memory_kills() > 0 {
            let gib = self.limits.memory.map_or(0.0, in_gib);
            done.why = format!("killed for memory, limit {gib} GiB: {}", done.why);
        } else if is_failure && containment.refused_processes() > 0 {
            let most = self.limits.processes.unwrap_or(0);
            done.why = format!("it reached its limit of {most} processes: {}", done.why);
        }
        done
    }

    fn look(&mut self) -> io::Result<Option<Final>> {
        let mut inputs = Vec::new();
        // Whatever stops the shim may have signaled the ranks, too: their exits are no failures.
        if self.stop.load(Ordering::Relaxed) {
            inputs.push(ShimInput::Control(Control {
                lease: self.machine.lease(),
                wish: ShimWish::Yield(self.grace),
            }));
        }
        // Then exits: these ranks ended before this poll could signal them. Orphans are reaped, too.
        let ended = self.processes.reap(self.machine.lease());
        for (rank, slot) in self.children.iter_mut().enumerate() {
            let mut of_it = ended.iter().filter(|(pid, _)| Some(*pid) == *slot);
            let code = of_it.next().map(|(_, code)| *code);
            if let Some(code) = code {
                *slot = None;
                inputs.push(ShimInput::RankExit { rank, code });
            }
        }
        inputs.push(ShimInput::Tick);
        let bad = self.bad_file.take();
        inputs.extend(bad.map(|bad| ShimInput::BadFile(bad.to_string())));
        inputs.extend(self.stall.is_over().map(ShimInput::Stalled));
        // If the file cannot be read now, the next poll reads it; the lease continues.
        let control: Option<Control> = match &self.orders {
            Some(orders) => orders.read().or(self.last_control),
            None => files::read(&self.dir.join("control.json")).unwrap_or(self.last_control),
        };
        if control != self.last_control {
            self.last_control = control;
            if let (Some(guard), Some(control)) = (&mut self.processes.guard, control) {
                guard.renew(control.lease);
            }
            inputs.extend(control.map(ShimInput::Control));
        }
        if self.killing {
            let have_exited = self.children.iter().all(Option::is_none);
            if have_exited && self.processes.have_ended(self.machine.lease()) {
                inputs.push(ShimInput::Empty);
            } else {
                self.processes.containment.kill();
            }
        }
        for input in inputs {
            for effect in self.machine.step(now(), input) {
                match effect {
                    ShimEffect::Term => self.processes.containment.terminate(),
                    ShimEffect::KillAll => {
                        self.killing = true;
                        self.processes.containment.kill();
                    }
                    ShimEffect::Finish(done) => return Ok(Some(done)),
                }
            }
        }
        // After the exits, so that a last report of a rank counts.
        self.bad_file = self.read_progress();
        self.stall.look(now(), &self.reported);
        self.write_status();
        Ok(None)
    }

    /// Reads the progress file. Returns the error once the file has been invalid for long enough.
    fn read_progress(&mut self) -> Option<BadFile> {
        match progress::read(&self.progress) {
            Ok(report) => (self.reported, self.wrong_since) = (report, None),
            // The next poll may succeed.
            Err(ReadError::Io(_)) => {}
            Err(ReadError::Bad(bad)) => {
                let since = *self.wrong_since.get_or_insert_with(now);
                return (now() - since >= WRONG_FOR).then_some(bad);
            }
        }
        None
    }

    fn write_status(&mut self) {
        let status = StatusFile {
            running: true,
            stopping: self.machine.is_stopping(),
            lease: Some(self.machine.lease()),
            // Whole seconds, because the file is rewritten when it changes.
            ran: Millis((now() - self.began).0 / 1000 * 1000),
            reported: self.reported.clone(),
        };
        let beat = Beat {
            running: status.running,
            stopping: status.stopping,
            ran: status.ran,
        };
        if let Some(slots) = &mut self.beat
            && slots.read() != Some(beat)
        {
            // After an error the next poll writes it again.
            let _ = slots.write(&beat);
        }
        // After an error the next poll writes the file again; the launch continues.
        if self.last_status.as_ref() != Some(&status)
            && files::write(&self.dir.join("status.json"), &status, false).is_ok()
        {
            self.last_status = Some(status);
        }
    }
}

/// Starts all ranks. After an error, those before it run.
fn start_all(dir: &Path, launch: &LaunchFile) -> Result<Vec<Child>, String> {
    let account = prepared(dir, launch)?;
    let account = account.as_ref();
    let ranks = launch.task.ranks.iter().enumerate();
    let start = |(local, rank): (usize, &u32)| start(dir, launch, account, local, *rank);
    ranks.map(start).collect()
}

/// Returns the path of a rank's stdout or stderr log.
fn log(dir: &Path, rank: u32, kind: &str) -> PathBuf {
    dir.join(format!("rank-{rank}.{kind}"))
}

/// Returns the account of the ranks, with a folder in which it may write.
fn prepared(dir: &Path, launch: &LaunchFile) -> Result<Option<Account>, String> {
    let account = launch.account()?;
    if let Some(account) = &account {
        let folder = launch.folder_of_job(dir);
        private::folder(&folder)
            .and_then(|()| account.own(&folder))
            .map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    Ok(account)
}

fn start(
    dir: &Path,
    launch: &LaunchFile,
    account: Option<&Account>,
    local: usize,
    rank: u32,
) -> Result<Child, String> {
    let extras = launch.task.spec.extras();
    let (program, arguments) = extras
        .command
        .split_first()
        .ok_or("the job has no command")?;
    let log = |kind: &str| {
        let path = log(dir, rank, kind);
        let file = private::options().create(true).append(true).open(&path);
        // A rank may open its outputs again by their names in /dev.
        let owned = file.and_then(|file| match account {
            Some(account) => account.own(&path).map(|()| file),
            None => Ok(file),
        });
        owned.map_err(|e| format!("{}: {e}", path.display()))
    };
    // A process of root takes the account of the user, and becomes the program.
    let mut words: Vec<&str> = vec![program];
    words.extend(arguments.iter().map(String::as_str));
    let starter = account.map(Account::starter);
    let starter = starter.iter().flatten().map(String::as_str);
    let words: Vec<&str> = starter.chain(words).collect();
    let (first, rest) = words.split_first().ok_or("the job has no command")?;
    // The program is started by this program, which ends with the shim.
    let mut command = match launch.shim.is_empty() {
        true => Command::new(first),
        false => guard::rank(&launch.shim, first),
    };
    command
        .args(rest)
        .env_clear()
        .envs(environment(dir, launch, account, local, rank))
        .stdout(log("out")?)
        .stderr(log("err")?)
        .process_group(0);
    let attribute = |key: &str| extras.attributes.get(key);
    if let Some(cwd) = attribute("working_directory").and_then(|v| v.as_str()) {
        // Otherwise the error of the directory would be attributed to the program.
        rustix::fs::access(Path::new(cwd).join("."), rustix::fs::Access::EXEC_OK)
            .map_err(|e| format!("the working directory {cwd} cannot be used on this node: {e}"))?;
        command.current_dir(cwd);
    }
    let started = match launch.shim.is_empty() {
        true => command
            .stdin(Stdio::null())
            .spawn()
            .map_err(|e| e.to_string()),
        false => guard::start_rank(command),
    };
    started.map_err(|e| match is_no_program(&e) {
        true => format!("`{program}` {NO_PROGRAM}: {e}"),
        false => format!("`{program}` cannot be started: {e}"),
    })
}

/// Returns whether an error states that a file does not exist or cannot be executed.
fn is_no_program(error: &str) -> bool {
    // ENOENT, ENOEXEC, EACCES, ENOTDIR and EISDIR, as the standard library ends its texts.
    let codes = [2, 8, 13, 20, 21].map(|code| format!("(os error {code})"));
    codes.iter().any(|code| error.ends_with(code))
}

/// Converts bytes to GiB, with two digits.
fn in_gib(bytes: u64) -> f64 {
    (bytes as f64 / f64::from(1 << 30) * 100.0).round() / 100.0
}

/// Returns the environment of a rank: a minimal base, then the variables of the job, then the
/// variables for launchers and trainers. The job cannot override the variables of the protocol.
fn environment(
    dir: &Path,
    launch: &LaunchFile,
    account: Option<&Account>,
    local: usize,
    rank: u32,
) -> Vec<(String, String)> {
    let t = &launch.task;
    let mut env: Vec<(String, String)> = ["PATH", "HOME", "USER", "SHELL", "LANG", "TMPDIR"]
        .into_iter()
        .filter_map(|k| Some((k.to_owned(), std::env::var(k).ok()?)))
        .collect();
    env.extend(account.iter().flat_map(|account| account.environment()));
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
        // As torchrun does; otherwise each rank would use all processors.
        set("OMP_NUM_THREADS", "1");
    }
    // The variables of Blox.
    set("local_gpu_id", &mine);
    set("master_ip_address", &address);
    set("world_size", &world);
    set("dist_rank", &rank.to_string());
    set("job_id", &job);
    set("local_accessible_gpu", &gpus);
    set("local_accessible_gpus", &gpus);
    // The variables of torchrun.
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
    // The scheduler handles retries.
    set("TORCHELASTIC_MAX_RESTARTS", "0");
    // Devices.
    let visible = match launch.devices.is_empty() {
        true => gpus.clone(),
        false => launch.devices.join(","),
    };
    set("CUDA_VISIBLE_DEVICES", &visible);
    set("NVIDIA_VISIBLE_DEVICES", &visible);
    set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    // Knobs come first, so that none replaces a variable of this project.
    for (knob, value) in t.config.knobs() {
        set(&variable_of(knob), &value.to_string());
    }
    // Limits that NVIDIA's MPS keeps where it runs. Elsewhere they have no effect.
    if !t.share.is_whole() {
        let part = t.share.fraction();
        set("BLOX_SHARE", &part.to_string());
        set(
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
            &(part * 100.0).to_string(),
        );
        if let Some(memory) = t.share.memory_fraction() {
            set("BLOX_MEMORY_SHARE", &memory.to_string());
        }
    }
    if t.gpu_memory_gib > 0.0 {
        let mib = (t.gpu_memory_gib * 1024.0).floor();
        let limits: Vec<String> = (0..t.gpus.len()).map(|i| format!("{i}={mib}M")).collect();
        set("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", &limits.join(","));
    }
    if let Some(array) = InArray::of(&t.spec) {
        for prefix in ["BLOX", "SLURM"] {
            set(&format!("{prefix}_ARRAY_JOB_ID"), &array.id.to_string());
            set(&format!("{prefix}_ARRAY_TASK_ID"), &array.index.to_string());
            set(
                &format!("{prefix}_ARRAY_TASK_COUNT"),
                &array.count.to_string(),
            );
            set(&format!("{prefix}_ARRAY_TASK_MIN"), &array.min.to_string());
            set(&format!("{prefix}_ARRAY_TASK_MAX"), &array.max.to_string());
        }
    }
    // The variables of this project.
    set("BLOX_JOB_ID", &job);
    set("BLOX_ATTEMPT", &attempt);
    set("BLOX_FENCE", &launch.fence.0.to_string());
    set("BLOX_NNODES", &t.nodes.len().to_string());
    set("BLOX_NODE_RANK", &t.node_rank.to_string());
    set("BLOX_NODELIST", &nodes.join(","));
    set(
        "BLOX_PROGRESS_FILE",
        &launch.folder_of_job(dir).join("progress").to_string_lossy(),
    );
    set("BLOX_NOTICE_FILE", &dir.join("notice").to_string_lossy());
    set(MARK, &launch.mark);
    env
}

/// Returns the environment variable of a knob, such as `BLOX_TP` for `tp`.
fn variable_of(knob: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_uppercase(),
        false => '_',
    };
    let name: String = knob.chars().map(plain).collect();
    format!("BLOX_{name}")
}

#[cfg(test)]
mod tests {
    use super::super::node::tests::{attempt, launch};
    use super::*;
    use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
    use std::sync::atomic::Ordering;

    /// Variable with the folder of a launch.
    const FOLDER: &str = "BLOX_TEST_OF_A_SHIM";

    #[test]
    #[ignore = "the process of a shim, which other tests start"]
    fn process_of_a_shim() {
        let dir = std::env::var_os(FOLDER).unwrap();
        run(Path::new(&dir), &AtomicBool::new(false)).unwrap();
    }

    #[test]
    #[ignore = "the process of a shim, which another test starts"]
    fn process_of_a_shim_that_is_polled_once() {
        let dir = PathBuf::from(std::env::var_os(FOLDER).unwrap());
        let (stop, kill) = (
            AtomicBool::new(false),
            crate::protocol::shim::ShimWish::Kill,
        );
        let mut watch = begin(&dir, &stop).unwrap().unwrap();
        let lease = watch.machine.lease();
        let mut orders = Slots::open(&dir.join("control")).unwrap();
        orders.write(&Control { lease, wish: kill }).unwrap();
        watch.killing = true;
        assert_eq!(watch.look().unwrap(), None);
        watch.run_out().unwrap();
    }

    /// A launch of a shell script.
    struct OfScript {
        dir: tempfile::TempDir,
        child: Option<std::process::Child>,
    }

    impl OfScript {
        fn new(script: &str, lease_s: i64) -> Self {
            static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let dir = tempfile::tempdir().unwrap();
            let script = script.replace("DIR", dir.path().to_str().unwrap());
            let extras = Extras {
                command: ["sh", "-c", &script].map(str::to_owned).into(),
                ..Extras::default()
            };
            let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
            let mut file = launch(attempt(&format!("{number}.7")), "now");
            file.task = crate::protocol::message::Task::of_one_rank(spec.with_extras(extras), &[0]);
            file.no_cgroup = true;
            let folder = dir.path().join("launch");
            std::fs::create_dir(&folder).unwrap();
            files::write(&folder.join("launch.json"), &file, true).unwrap();
            let lease = Millis((now().0 as i64 + lease_s * 1_000) as u64);
            let wish = crate::protocol::shim::ShimWish::Run;
            Slots::create(&folder.join("control"), &Control { lease, wish }).unwrap();
            OfScript { dir, child: None }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn start(&mut self) {
            self.start_as("process_of_a_shim");
        }

        fn start_as(&mut self, test: &str) {
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact"])
                .arg(format!("shell::shim::tests::{test}"))
                .env(FOLDER, self.path("launch"))
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            self.child = Some(child);
        }

        /// Waits until something holds, for at most 20 s.
        fn until(&mut self, what: &str, holds: impl Fn(&mut Self) -> bool) {
            for _ in 0..400 {
                if holds(self) {
                    return;
                }
                std::thread::sleep(LOOK);
            }
            panic!("{what}");
        }

        fn has_ended(&mut self) -> bool {
            let child = self.child.as_mut().unwrap();
            child.try_wait().unwrap().is_some()
        }

        fn result(&self) -> Option<Final> {
            files::read(&self.path("launch/final.json")).unwrap()
        }
    }

    impl Drop for OfScript {
        fn drop(&mut self) {
            if let Some(child) = &mut self.child {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }

    #[test]
    fn shim_without_a_lease_starts_no_rank() {
        let mut late = OfScript::new("touch DIR/ran; sleep 5", -1);
        late.start();
        late.until("it ends", OfScript::has_ended);
        assert_eq!(
            late.result().map(|done| done.exit),
            Some(crate::protocol::Exit::NeverRan)
        );
        assert!(!late.path("ran").exists());
    }

    #[test]
    fn second_shim_of_an_ended_launch_starts_no_rank() {
        let mut over = OfScript::new("touch DIR/ran", 60);
        let done = Final::never("it was called off".to_owned());
        files::write(&over.path("launch/final.json"), &done, true).unwrap();
        over.start();
        over.until("it ends", OfScript::has_ended);
        assert!(!over.path("ran").exists());
        assert_eq!(over.result(), Some(done));
    }

    #[test]
    fn shim_whose_folder_was_replaced_ends_its_ranks() {
        let mut moved = OfScript::new("echo $$ > DIR/pid; exec sleep 60", 60);
        moved.start();
        moved.until("it runs", |m| m.path("pid").exists());
        std::fs::rename(moved.path("launch"), moved.path("old")).unwrap();
        std::fs::create_dir(moved.path("launch")).unwrap();
        moved.until("it ends", OfScript::has_ended);
        // A process that has ended, and but was not waited for, has no command line.
        moved.until("its rank ends", |m| {
            let pid = std::fs::read_to_string(m.path("pid")).unwrap();
            let command = std::fs::read(Path::new("/proc").join(pid.trim()).join("cmdline"));
            command.map_or(true, |command| command.is_empty())
        });
    }

    /// Returns the processes with a text in their arguments.
    fn with_argument(text: &str) -> Vec<String> {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let line = |entry: std::fs::DirEntry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(text).then_some(line)
        };
        all.filter_map(line).collect()
    }

    #[test]
    fn shim_reports_no_end_while_a_process_runs() {
        let mut killed = OfScript::new("exec sleep 60", 60);
        killed.start_as("process_of_a_shim_that_is_polled_once");
        killed.until("it ends", OfScript::has_ended);
        let status = killed.child.as_mut().unwrap().wait().unwrap();
        assert!(status.success());
        assert!(killed.result().unwrap().why.contains("ended by order"));
    }

    /// Each process starts its successor and exits, so that a list of processes is outdated at once.
    #[test]
    fn processes_that_fork_and_exit_end_with_their_launch() {
        for start in ["env -i sh", "env -i setsid sh"] {
            let mut chain = OfScript::new("sh DIR/chain & sleep 0.3", 60);
            let path = chain.path("chain");
            let name = path.to_str().unwrap().to_owned();
            std::fs::write(&path, format!("{start} {name} &\n")).unwrap();
            chain.start();
            chain.until("the chain runs", |_| !with_argument(&name).is_empty());
            chain.until("it ends", OfScript::has_ended);
            let left = with_argument(&name);
            // Without its script, a chain that is left ends.
            std::fs::remove_file(&path).unwrap();
            assert_eq!(left, Vec::<String>::new());
            let exit = chain.result().map(|done| done.exit);
            assert_eq!(exit, Some(crate::protocol::Exit::Completed));
        }
    }

    #[test]
    fn stalled_time_starts_anew_with_each_iteration() {
        let mut task = crate::protocol::message::Task::of_one_rank(
            JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)),
            &[0],
        );
        let report = |done: f64| JobReport {
            progress: Some(crate::protocol::Progress { done, saved: 0.0 }),
            ..JobReport::default()
        };
        let none = JobReport::default();
        let stall = |task: &Task| Stall {
            limit: Some(Millis(2_000)),
            ..Stall::of(task, Millis(0))
        };
        let mut first = stall(&task);
        first.look(Millis(900), &none);
        first.look(Millis(1_800), &none);
        assert_eq!(first.is_over(), None);
        first.look(Millis(2_000), &none);
        assert_eq!(first.is_over(), Some(Millis(2_000)));
        first.look(Millis(2_100), &report(1.0));
        // A pause of the machine counts for one second.
        first.look(Millis(900_000), &report(1.0));
        assert_eq!(first.is_over(), None);
        first.look(Millis(901_000), &report(1.0));
        assert_eq!(first.is_over(), Some(Millis(2_000)));
        task.node_rank = 1;
        let mut second = stall(&task);
        for at in 0..9 {
            second.look(Millis(at * 1_000), &none);
        }
        assert_eq!((second.is_over(), second.time), (None, Millis(0)));
    }

    #[test]
    fn a_knob_is_a_variable_of_the_environment() {
        let names = ["tp", "batch_per_gpu", "zero-stage 2"].map(variable_of);
        assert_eq!(
            names,
            ["BLOX_TP", "BLOX_BATCH_PER_GPU", "BLOX_ZERO_STAGE_2"]
        );
        assert_eq!(4.0_f64.to_string(), "4");
    }

    #[test]
    fn a_status_from_before_there_were_numbers_is_read() {
        let old =
            r#"{"running":true,"stopping":false,"ran":7,"progress":{"done":2.0,"saved":1.0}}"#;
        let status: StatusFile = serde_json::from_str(old).unwrap();
        assert_eq!(
            status.reported.progress.map(|p| (p.done, p.saved)),
            Some((2.0, 1.0))
        );
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<StatusFile>(&text).unwrap(), status);
    }
}
