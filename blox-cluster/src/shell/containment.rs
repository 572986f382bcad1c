//! Tracking of all processes of a launch, including detached ones. They are in a cgroup if the
//! kernel permits it, and are also recognized by a variable in their environment.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::path::{Path, PathBuf};

/// Environment variable that marks the processes of a launch.
pub const MARK: &str = "BLOX_LAUNCH";

/// A cgroup of one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Group {
    /// Version 2: the kernel can kill the whole group.
    Two(PathBuf),
    /// Version 1, in the freezer hierarchy: frozen processes cannot fork.
    One(PathBuf),
}

impl Group {
    fn dir(&self) -> &Path {
        match self {
            Group::One(dir) | Group::Two(dir) => dir,
        }
    }
}

/// The processes of one launch on this node.
#[derive(Debug)]
pub struct Containment {
    mark: String,
    group: Option<Group>,
}

impl Containment {
    /// Creates the containment of the launch with this unique mark. Without a cgroup of its own,
    /// the launch stays in the cgroup of the node manager.
    pub fn of(mark: &str, own_cgroup: bool) -> Self {
        Self::within(mark, own_cgroup.then(root).flatten())
    }

    fn within(mark: &str, root: Option<Group>) -> Self {
        let name = format!("blox-{mark}");
        Containment {
            mark: mark.to_owned(),
            group: root.map(|root| match root {
                Group::One(dir) => Group::One(dir.join(name)),
                Group::Two(dir) => Group::Two(dir.join(name)),
            }),
        }
    }

    /// Creates the cgroup if possible.
    pub fn create(&mut self) {
        if let Some(group) = &self.group
            && fs::create_dir(group.dir()).is_err()
            && !group.dir().is_dir()
        {
            self.group = None;
        }
    }

    /// Moves the calling process into the cgroup, so that its children start there, or out of it.
    pub fn enter(&self, inside: bool) {
        if let Some(dir) = self.group.as_ref().map(Group::dir) {
            let to = match (inside, dir.parent()) {
                (false, Some(parent)) => parent,
                _ => dir,
            };
            // Without the cgroup, the mark still identifies processes that keep their environment.
            let _ = fs::write(to.join("cgroup.procs"), "0");
        }
    }

    /// Sends SIGTERM to all processes.
    pub fn terminate(&self) {
        for pid in self.processes() {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Kills all current processes. Call it until [`Containment::is_empty`] returns true.
    pub fn kill(&self) {
        let freezer = match &self.group {
            Some(Group::Two(dir)) => {
                let _ = fs::write(dir.join("cgroup.kill"), "1");
                None
            }
            Some(Group::One(dir)) => Some(dir.join("freezer.state")),
            None => None,
        };
        let freeze = |state: &str| {
            if let Some(freezer) = &freezer {
                let _ = fs::write(freezer, state);
            }
        };
        freeze("FROZEN");
        for pid in self.processes() {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
        }
        freeze("THAWED");
    }

    /// Returns true if no process is left.
    pub fn is_empty(&self) -> bool {
        self.processes().is_empty()
    }

    /// Removes the cgroup.
    pub fn remove(&self) {
        if let Some(group) = &self.group {
            let _ = fs::remove_dir(group.dir());
        }
    }

    /// Returns the processes that have not ended.
    pub fn processes(&self) -> Vec<Pid> {
        let mut found: Vec<i32> = Vec::new();
        if let Some(dir) = self.group.as_ref().map(Group::dir)
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

/// Returns true for a process that has ended but has not been reaped. It uses no resources.
fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_none_or(|rest| rest.trim_start().starts_with('Z'))
}

/// Returns the parent of new cgroups; version 2 is preferred.
fn root() -> Option<Group> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let (mut two, mut one) = (None, None);
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(path), Some(kind), Some(options)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        match kind {
            "cgroup2" => two = Some(Group::Two(path.into())),
            "cgroup" if options.split(',').any(|o| o == "freezer") => {
                one = Some(Group::One(path.into()));
            }
            _ => {}
        }
    }
    two.filter(works).or_else(|| one.filter(works))
}

/// Returns true if a cgroup can be created and killed there.
fn works(root: &Group) -> bool {
    let probe = root
        .dir()
        .join(format!("blox-probe-{}", std::process::id()));
    if fs::create_dir(&probe).is_err() {
        return false;
    }
    let needed = match root {
        Group::Two(_) => "cgroup.kill",
        Group::One(_) => "freezer.state",
    };
    let can_end = probe.join(needed).exists();
    let _ = fs::remove_dir(&probe);
    can_end
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    /// Unique duration of a sleep in seconds.
    fn long() -> String {
        format!("600.{}", std::process::id())
    }

    /// Starts a shell with a child that detaches: it shares neither session nor group nor
    /// environment.
    fn hiding(mark: &str, containment: &Containment) -> Child {
        let mut command = Command::new("sh");
        let long = long();
        command
            .args([
                "-c",
                &format!("setsid env -i sleep {long} & exec sleep {long}"),
            ])
            .env(MARK, mark);
        containment.enter(true);
        let child = command.spawn().unwrap();
        containment.enter(false);
        child
    }

    fn ends_all(kind: &str, root: Option<Group>) {
        let mark = format!("test-{kind}-{}", std::process::id());
        let mut containment = Containment::within(&mark, root);
        containment.create();
        let mut child = hiding(&mark, &containment);
        #[allow(clippy::disallowed_methods, reason = "patience has an end")]
        let begin = Instant::now();
        let wait = |what: &str, holds: &mut dyn FnMut() -> bool| {
            while !holds() {
                assert!(begin.elapsed() < Duration::from_secs(20), "{kind}: {what}");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        // Without a cgroup, the detached process is not found.
        let seen = if containment.group.is_some() { 2 } else { 1 };
        wait("they are seen", &mut || {
            containment.processes().len() == seen
        });
        wait("they are ended", &mut || {
            containment.kill();
            let _ = child.try_wait();
            containment.is_empty()
        });
        containment.remove();
        let left = containment.group.as_ref().is_some_and(|g| g.dir().exists());
        assert!(!left, "{kind}: the cgroup is left");
    }

    #[test]
    fn all_processes_of_a_launch_end_under_every_cgroup() {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let at = |kind: &str, option: &str| {
            let line = mounts.lines().find(|l| {
                let w: Vec<&str> = l.split(' ').collect();
                w.get(2) == Some(&kind) && w.get(3).is_some_and(|o| o.contains(option))
            })?;
            Some(PathBuf::from(line.split(' ').nth(1)?))
        };
        for (kind, root) in [
            ("v2", at("cgroup2", "").map(Group::Two)),
            ("v1", at("cgroup", "freezer").map(Group::One)),
        ] {
            match root.filter(works) {
                Some(root) => ends_all(kind, Some(root)),
                None => println!("skipped: no cgroup {kind} can be made here"),
            }
        }
        ends_all("none", None);
        // The test itself must kill the processes that were not found.
        let sleeping = format!("sleep\0{}\0", long());
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry
                .file_name()
                .to_str()
                .and_then(|n| n.parse::<i32>().ok());
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if line == sleeping.as_bytes() {
                pid.and_then(Pid::from_raw)
                    .map(|p| kill_process(p, Signal::KILL));
            }
        }
    }
}
