//! Processes beside a shim that end a launch if the shim cannot: the guard of the launch, and the
//! death signal of its ranks.
//!
//! The guard waits on a pipe. It ends the launch once the shim has exited without releasing it, and
//! once the lease is over by more than a shim needs to end the launch. The program is started again
//! for the guard and for each rank, since only a process itself can ask for its death signal.

use super::clock::now;
use super::containment::Containment;
use crate::protocol::Millis;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// This program, also after it was replaced on disk.
const SELF: &str = "/proc/self/exe";
/// Argument that starts a rank.
const RANK: &str = "--rank";
/// Argument that starts a guard.
const GUARD: &str = "--guard";
/// Name of the guard in lists of processes. A signal to all processes with the name of the program
/// does not reach it.
const NAME: &str = "launch-guard";
/// Polling interval while the guard ends a launch.
const LOOK: Duration = Duration::from_millis(50);

/// The guard of a launch, seen from its shim.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: io::PipeWriter,
}

impl Guard {
    /// Starts the guard of a launch. `shim` has the arguments with which this program runs a shim.
    /// The guard acts `after` the end of the lease.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        shim: &[String],
        mark: &str,
        no_cgroup: bool,
        after: Millis,
        lease: Millis,
    ) -> io::Result<Self> {
        let (theirs, pipe) = io::pipe()?;
        // A guard that is stopped must not stop the shim.
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK)?;
        let number = |n: u64| n.to_string();
        let child = Command::new(SELF)
            .arg0(NAME)
            .args(shim)
            .args([GUARD, mark])
            .arg(number(no_cgroup.into()))
            .arg(number(after.0))
            .arg(number(lease.0))
            .arg(number(std::process::id().into()))
            .env_clear()
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Guard { child, pipe })
    }

    /// Returns its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Passes the end of a renewed lease on.
    pub fn renew(&mut self, lease: Millis) {
        // A full pipe means a guard that is stopped, and a closed one a guard that was killed.
        let _ = self.pipe.write_all(&lease.0.to_le_bytes());
    }

    /// Ends the guard, because the launch is over. It must not have been reaped.
    pub fn release(mut self) {
        // It might be stopped. The pipe stays open until the guard has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the role of a process that a shim started, if the arguments name one. `None` means the
/// arguments of a shim.
///
/// # Errors
/// The role cannot be carried out.
pub fn run(args: &[OsString]) -> Option<io::Result<()>> {
    let (first, rest) = args.split_first()?;
    match first.to_str()? {
        RANK => Some(Err(become_rank(rest))),
        GUARD => Some(watch(rest)),
        _ => None,
    }
}

/// Returns a command that starts a program as a rank of this shim.
pub fn rank(shim: &[String], program: &str) -> Command {
    let mut command = Command::new(SELF);
    let own = std::process::id().to_string();
    command.args(shim).args([RANK, &own, program]);
    command
}

/// Starts a rank. Returns the error of its program if that cannot be started.
pub fn start_rank(mut command: Command) -> Result<Child, String> {
    let text = |e: io::Error| e.to_string();
    let (mut failure, theirs) = io::pipe().map_err(text)?;
    let child = command.stdin(theirs).spawn();
    // The end of the pipe in this process, which would keep it open.
    drop(command);
    let mut child = child.map_err(text)?;
    let mut why = String::new();
    let read = failure.read_to_string(&mut why);
    if read.is_ok() && why.is_empty() {
        return Ok(child);
    }
    let _ = child.wait();
    Err(why)
}

/// Becomes the program of a rank, which dies with its shim. Returns only after an error.
fn become_rank(args: &[OsString]) -> io::Error {
    let invalid = || io::Error::other("the arguments of a rank are a process and a program");
    let [shim, program, args @ ..] = args else {
        return invalid();
    };
    let Some(shim) = shim.to_str().and_then(|s| s.parse::<i32>().ok()) else {
        return invalid();
    };
    if let Err(e) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return e.into();
    }
    // The shim may have died before.
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if parent != Some(shim) {
        return io::Error::other("the shim of this rank has ended");
    }
    // The pipe closes when the program starts.
    let pipe = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3);
    close_others(pipe.as_ref().ok().map(AsFd::as_fd));
    let error = Command::new(program).args(args).stdin(Stdio::null()).exec();
    if let Ok(pipe) = pipe {
        let _ = File::from(pipe).write_all(error.to_string().as_bytes());
    }
    error
}

/// Ends a launch once its shim cannot.
fn watch(args: &[OsString]) -> io::Result<()> {
    let invalid = || io::Error::other("the arguments of a guard are wrong");
    let words: Vec<&str> = args.iter().filter_map(|a| OsStr::to_str(a)).collect();
    let [mark, no_cgroup, after, lease, shim] = words[..] else {
        return Err(invalid());
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| invalid());
    let (after, mut lease) = (Millis(number(after)?), Millis(number(lease)?));
    let shim = shim.parse().ok().and_then(Pid::from_raw);
    let _ = rustix::process::setsid();
    let mut containment = Containment::of(mark, no_cgroup == "0");
    if let Some(shim) = shim {
        let own = rustix::process::getpid();
        containment.include_children_of(shim, Some(own));
    }
    // Without a buffer, in which a message could be overlooked, and without the lock of the program.
    let mut input = File::from(rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?);
    let mut number = [0; 8];
    loop {
        let left = (lease + after) - now();
        let mut fds = [PollFd::new(&input, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: (left.0 / 1_000) as i64,
            tv_nsec: (left.0 % 1_000 * 1_000_000) as _,
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => continue,
        }
        if input.read_exact(&mut number).is_err() {
            break;
        }
        lease = Millis(u64::from_le_bytes(number));
        if now() >= lease + after {
            break;
        }
    }
    while !containment.is_empty() {
        containment.kill();
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Children of this process that have ended.
#[derive(Debug, Default)]
pub struct Reaped {
    /// Their numbers with their exit codes; 128 plus the signal number if a signal ended one.
    pub ended: Vec<(u32, i32)>,
    /// True if this process has no child any more. The processes of a launch are descendants of its
    /// shim, so none of them is left then.
    pub is_last: bool,
}

/// Reaps all children that have ended.
pub fn reap() -> Reaped {
    let mut reaped = Reaped::default();
    loop {
        let (pid, status) = match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(ended)) => ended,
            Ok(None) => return reaped,
            Err(e) => {
                reaped.is_last = e == rustix::io::Errno::CHILD;
                return reaped;
            }
        };
        let signal = status.terminating_signal();
        let code = status.exit_status();
        if let Some(code) = code.or(signal.map(|signal| 128 + signal)) {
            let pid = pid.as_raw_nonzero().get() as u32;
            reaped.ended.push((pid, code));
        }
    }
}

/// Closes all file descriptors but the standard ones and `kept`. They were inherited, and programs
/// that this process becomes or starts would have them, too.
pub fn close_others(kept: Option<BorrowedFd<'_>>) {
    let kept = kept.map(|fd| fd.as_raw_fd());
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let number = |entry: io::Result<std::fs::DirEntry>| {
        entry.ok()?.file_name().to_str()?.parse::<i32>().ok()
    };
    let open: Vec<i32> = open.filter_map(number).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2 && Some(*fd) != kept) {
        // The list itself had a descriptor, too.
        let _ = nix::unistd::close(fd);
    }
}
