//! All processes of a launch, those that hide included: in a cgroup where the
//! kernel lets us make one, and known by a mark in their environment otherwise.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::path::PathBuf;

/// The variable that marks a launch's processes.
pub const MARK: &str = "BLOX_LAUNCH";

/// The processes of one launch on this node.
#[derive(Debug)]
pub struct Containment {
    mark: String,
    cgroup: Option<PathBuf>,
}

impl Containment {
    /// Of the launch with this mark, which no other launch has.
    pub fn of(mark: &str) -> Self {
        Containment {
            mark: mark.to_owned(),
            cgroup: root().map(|r| r.join(format!("blox-{mark}"))),
        }
    }

    /// Makes the cgroup, if that is possible here.
    pub fn create(&mut self) {
        if let Some(dir) = &self.cgroup
            && fs::create_dir(dir).is_err()
            && !dir.is_dir()
        {
            self.cgroup = None;
        }
    }

    /// Moves the calling process in, so that children are born there, or out.
    pub fn enter(&self, inside: bool) {
        if let Some(dir) = &self.cgroup {
            let to = match (inside, dir.parent()) {
                (false, Some(parent)) => parent,
                _ => dir,
            };
            // Without it the mark still finds everybody who keeps his environment.
            let _ = fs::write(to.join("cgroup.procs"), "0");
        }
    }

    /// Asks all to end.
    pub fn terminate(&self) {
        for pid in self.processes() {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Ends all that are there now. Call it until [`Containment::is_empty`].
    pub fn kill(&self) {
        if let Some(dir) = &self.cgroup {
            let _ = fs::write(dir.join("cgroup.kill"), "1");
        }
        for pid in self.processes() {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.processes().is_empty()
    }

    /// Removes the cgroup.
    pub fn remove(&self) {
        if let Some(dir) = &self.cgroup {
            let _ = fs::remove_dir(dir);
        }
    }

    /// Its processes that have not ended.
    pub fn processes(&self) -> Vec<Pid> {
        let mut found: Vec<i32> = Vec::new();
        if let Some(dir) = &self.cgroup
            && let Ok(text) = fs::read_to_string(dir.join("cgroup.procs"))
        {
            found.extend(text.lines().filter_map(|l| l.parse::<i32>().ok()));
        }
        let marked = format!("{MARK}={}", self.mark);
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()) else {
                continue;
            };
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environ.split(|b| *b == 0).any(|v| v == marked.as_bytes()) {
                found.push(pid);
            }
        }
        found.sort_unstable();
        found.dedup();
        let own = std::process::id() as i32;
        let pids = found
            .into_iter()
            .filter(|p| *p != own && *p > 1 && !is_zombie(*p));
        pids.filter_map(Pid::from_raw).collect()
    }
}

/// A process that has ended and was not asked about yet holds nothing.
fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_none_or(|rest| rest.trim_start().starts_with('Z'))
}

/// Where version 2 of cgroups can be written.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mut found = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    });
    let root = found.next()?;
    let probe = root.join(format!("blox-probe-{}", std::process::id()));
    fs::create_dir(&probe).ok()?;
    let can_kill = probe.join("cgroup.kill").exists();
    let _ = fs::remove_dir(&probe);
    can_kill.then_some(root)
}
