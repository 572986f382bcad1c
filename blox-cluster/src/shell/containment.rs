//! Tracking of all processes of a launch, including detached ones, and the limits of a launch. The
//! processes are in cgroups if the kernel permits it. They are also recognized by a variable in
//! their environment, and as descendants of their shim.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::{BTreeMap, BTreeSet};
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

/// Limits of a launch on one node. Absent ones are not limited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// CPU cores.
    pub cpus: Option<f64>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Device files that the launch may not open.
    pub denied: Vec<PathBuf>,
}

/// Something that a cgroup can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limited {
    /// CPU cores.
    Cpus,
    /// Memory.
    Memory,
    /// Processes and threads.
    Processes,
    /// Access to the device files of other GPUs.
    Devices,
}

impl Limited {
    const ALL: [Limited; 4] = [
        Limited::Cpus,
        Limited::Memory,
        Limited::Processes,
        Limited::Devices,
    ];

    /// Returns the words for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Limited::Cpus => "CPU cores",
            Limited::Memory => "memory",
            Limited::Processes => "processes",
            Limited::Devices => "devices",
        }
    }

    /// Returns the kernel's name of the controller.
    fn controller(self) -> &'static str {
        match self {
            Limited::Cpus => "cpu",
            Limited::Memory => "memory",
            Limited::Processes => "pids",
            Limited::Devices => "devices",
        }
    }
}

/// Maximum number of lists of processes until a list has no new one.
const ROUNDS: usize = 8;
/// Period of the CPU quota in microseconds.
const PERIOD: f64 = 100_000.0;

/// Returns what this machine cannot limit for a launch.
pub fn unlimited() -> Vec<Limited> {
    let mark = format!("probe-{}", std::process::id());
    let mut probe = Containment::of(&mark, true);
    let limits = Limits {
        cpus: Some(1.0),
        memory: Some(1 << 30),
        processes: Some(64),
        denied: vec!["/dev/full".into()],
    };
    let missing = probe.create(&limits);
    probe.remove();
    missing
}

/// Hierarchies of the machine.
#[derive(Debug, Default)]
struct Hierarchies {
    /// Mount point of version 2, and the controllers that it has.
    two: Option<(PathBuf, Vec<String>)>,
    /// Mount point of each controller of version 1.
    one: BTreeMap<String, PathBuf>,
}

impl Hierarchies {
    fn read() -> Self {
        let mut all = Hierarchies::default();
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        for line in mounts.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(path), Some(kind), Some(options)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let path = PathBuf::from(path);
            match kind {
                "cgroup2" => {
                    let text = fs::read_to_string(path.join("cgroup.controllers"));
                    let text = text.unwrap_or_default();
                    let controllers = text.split_whitespace().map(str::to_owned).collect();
                    all.two = Some((path, controllers));
                }
                "cgroup" => {
                    for option in options.split(',') {
                        all.one.insert(option.to_owned(), path.clone());
                    }
                }
                _ => {}
            }
        }
        all
    }

    /// Returns the mount point of a controller, and whether it is of version 2.
    fn of(&self, limited: Limited) -> Option<(&Path, bool)> {
        let name = limited.controller();
        let two = self.two.as_ref();
        let two = two.filter(|(_, controllers)| controllers.iter().any(|c| c == name));
        let one = self.one.get(name).map(|path| (path.as_path(), false));
        two.map(|(path, _)| (path.as_path(), true)).or(one)
    }
}

/// The processes of one launch on this node.
#[derive(Debug)]
pub struct Containment {
    mark: String,
    group: Option<Group>,
    /// Groups of the limits, besides the group that holds all processes.
    limits: BTreeMap<Limited, PathBuf>,
    /// For each group that was created, the cgroup in which this process was before.
    homes: Vec<(PathBuf, PathBuf)>,
    /// Process whose descendants belong to the launch, except one.
    shim: Option<(Pid, Option<Pid>)>,
}

impl Containment {
    /// Creates the containment of the launch with this unique mark. Without own cgroups, the
    /// launch stays in the cgroups of the node manager.
    pub fn of(mark: &str, own_cgroup: bool) -> Self {
        let mut containment = Self::within(mark, own_cgroup.then(root).flatten());
        if own_cgroup {
            let (all, name) = (Hierarchies::read(), name_of(mark));
            let dir = |limited| Some((limited, all.of(limited)?.0.join(&name)));
            containment.limits = Limited::ALL.into_iter().filter_map(dir).collect();
        }
        containment
    }

    fn within(mark: &str, root: Option<Group>) -> Self {
        let name = name_of(mark);
        Containment {
            mark: mark.to_owned(),
            group: root.map(|root| match root {
                Group::One(dir) => Group::One(dir.join(name)),
                Group::Two(dir) => Group::Two(dir.join(name)),
            }),
            limits: BTreeMap::new(),
            homes: Vec::new(),
            shim: None,
        }
    }

    /// Counts the descendants of a process as processes of the launch, except one child and its
    /// descendants.
    pub fn include_children_of(&mut self, shim: Pid, except: Option<Pid>) {
        self.shim = Some((shim, except));
    }

    /// Creates the cgroups if possible, and sets the limits. Returns what is not limited although
    /// the limits ask for it.
    pub fn create(&mut self, limits: &Limits) -> Vec<Limited> {
        let hierarchies = Hierarchies::read();
        if let Some(group) = &self.group {
            match make(group.dir()) {
                true => self.homes.push(home(group.dir(), &hierarchies)),
                false => self.group = None,
            }
        }
        let mut missing = Vec::new();
        for limited in Limited::ALL {
            let is_asked = match limited {
                Limited::Cpus => limits.cpus.is_some(),
                Limited::Memory => limits.memory.is_some(),
                Limited::Processes => limits.processes.is_some(),
                Limited::Devices => !limits.denied.is_empty(),
            };
            if !is_asked {
                continue;
            }
            let dir = self.limits.get(&limited).cloned();
            let done = dir.is_some_and(|dir| {
                let two = hierarchies.of(limited).is_some_and(|(_, two)| two);
                if two && let Some(parent) = dir.parent() {
                    let word = format!("+{}", limited.controller());
                    let _ = fs::write(parent.join("cgroup.subtree_control"), word);
                }
                let known = self.homes.iter().any(|(at, _)| *at == dir);
                if !known && !make(&dir) {
                    return false;
                }
                if !known {
                    self.homes.push(home(&dir, &hierarchies));
                }
                set(&dir, limited, two, limits)
            });
            if !done {
                missing.push(limited);
            }
        }
        missing
    }

    /// Returns the number of processes that the kernel killed because the launch reached its limit
    /// of memory.
    pub fn memory_kills(&self) -> u64 {
        let dir = self.limits.get(&Limited::Memory);
        let count = |file: &str| dir.map_or(0, |dir| counted(&dir.join(file), "oom_kill"));
        count("memory.events").max(count("memory.oom_control"))
    }

    /// Returns how often the launch could not start a process because of its limit.
    pub fn refused_processes(&self) -> u64 {
        let dir = self.limits.get(&Limited::Processes);
        dir.map_or(0, |dir| counted(&dir.join("pids.events"), "max"))
    }

    /// Moves the calling process into the cgroups, so that its children start there, or back to the
    /// cgroups in which it was.
    pub fn enter(&self, inside: bool) {
        for (dir, home) in &self.homes {
            let to = match inside {
                true => dir,
                false => home,
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
    ///
    /// A list of processes is no snapshot: it may lack children of processes that fork meanwhile.
    /// Stopped processes fork no more, and a signal to a group also reaches the children that a
    /// member forks at this moment.
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
        let stop = |pid: Pid| {
            let _ = kill_process(pid, Signal::STOP);
        };
        let (mut found, mut known) = (Vec::new(), BTreeSet::new());
        for _ in 0..ROUNDS {
            found = self.list(&stop);
            let new = found.iter();
            let new = new.filter(|pid| known.insert(pid.as_raw_nonzero()));
            if new.map(|pid| stop(*pid)).count() == 0 {
                break;
            }
        }
        let own = group_of(std::process::id() as i32);
        for pid in found {
            let group = group_of(pid.as_raw_nonzero().get()).filter(|group| Some(*group) != own);
            if let Some(group) = group.filter(|group| *group > 1).and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = kill_process(pid, Signal::KILL);
        }
        freeze("THAWED");
    }

    /// Returns true if no process is left.
    pub fn is_empty(&self) -> bool {
        self.processes().is_empty()
    }

    /// Removes the cgroups.
    pub fn remove(&self) {
        let all = self.group.as_ref().map(Group::dir).into_iter();
        for dir in all.chain(self.limits.values().map(PathBuf::as_path)) {
            let _ = fs::remove_dir(dir);
        }
    }

    /// Returns the processes that have not ended.
    pub fn processes(&self) -> Vec<Pid> {
        self.list(&|_| {})
    }

    /// Returns the processes that have not ended. `at_once` receives marked processes and children of
    /// the shim as soon as they are found, in descending order.
    fn list(&self, at_once: &dyn Fn(Pid)) -> Vec<Pid> {
        let own = std::process::id() as i32;
        let is_other = |pid: i32| pid != own && pid > 1;
        let shim = self.shim.map(|(shim, _)| shim.as_raw_nonzero().get());
        let except = self.shim.and_then(|(_, except)| except);
        let except = except.map(|pid| pid.as_raw_nonzero().get());
        let mut found: Vec<i32> = Vec::new();
        if let Some(dir) = self.group.as_ref().map(Group::dir)
            && let Ok(text) = fs::read_to_string(dir.join("cgroup.procs"))
        {
            found.extend(text.lines().filter_map(|l| l.parse::<i32>().ok()));
        }
        let marked = format!("{MARK}={}", self.mark);
        let mut parents: Vec<(i32, i32)> = Vec::new();
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
        let mut all: Vec<i32> = all.filter_map(number).collect();
        all.sort_unstable();
        for pid in all.into_iter().rev().filter(|pid| is_other(*pid)) {
            let parent = shim.and_then(|_| parent_of(pid));
            let is_child = parent.is_some() && parent == shim && Some(pid) != except;
            let is_marked = || {
                let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environ.split(|b| *b == 0).any(|v| v == marked.as_bytes())
            };
            if is_child || is_marked() {
                found.push(pid);
                Pid::from_raw(pid).into_iter().for_each(at_once);
            }
            parents.extend(parent.map(|parent| (parent, pid)));
        }
        if let Some(shim) = shim {
            found.extend(descendants(&parents, shim, except));
        }
        found.sort_unstable();
        found.dedup();
        let pids = found
            .into_iter()
            .filter(|pid| is_other(*pid) && !is_zombie(*pid));
        pids.filter_map(Pid::from_raw).collect()
    }
}

fn name_of(mark: &str) -> String {
    format!("blox-{mark}")
}

/// Creates a cgroup. Returns false if it is not there afterwards.
fn make(dir: &Path) -> bool {
    fs::create_dir(dir).is_ok() || dir.is_dir()
}

/// Returns a new cgroup, and the cgroup of the same hierarchy in which this process is. If that one
/// cannot be seen here, it is the parent of the new one.
fn home(dir: &Path, all: &Hierarchies) -> (PathBuf, PathBuf) {
    let parent = dir.parent().unwrap_or(dir);
    let names: Vec<&String> = all
        .one
        .iter()
        .filter(|(_, at)| at.as_path() == parent)
        .map(|(name, _)| name)
        .collect();
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let here = text.lines().find_map(|line| {
        let mut words = line.splitn(3, ':').skip(1);
        let (controllers, path) = (words.next()?, words.next()?);
        let is_it = match names.is_empty() {
            true => controllers.is_empty(),
            false => controllers
                .split(',')
                .any(|c| names.iter().any(|n| *n == c)),
        };
        is_it.then(|| parent.join(path.trim_start_matches('/')))
    });
    let here = here.filter(|here| here.join("cgroup.procs").exists());
    (dir.to_owned(), here.unwrap_or_else(|| parent.to_owned()))
}

/// Sets a limit of a cgroup. Returns false if the kernel does not accept it.
fn set(dir: &Path, limited: Limited, two: bool, limits: &Limits) -> bool {
    let put = |file: &str, text: String| fs::write(dir.join(file), text).is_ok();
    match limited {
        Limited::Cpus => {
            // The kernel accepts no quota below a millisecond.
            let quota = (limits.cpus.unwrap_or(1.0) * PERIOD).max(1_000.0) as u64;
            match two {
                true => put("cpu.max", format!("{quota} {PERIOD}")),
                false => {
                    put("cpu.cfs_period_us", PERIOD.to_string())
                        && put("cpu.cfs_quota_us", quota.to_string())
                }
            }
        }
        Limited::Memory => {
            let bytes = limits.memory.unwrap_or(u64::MAX).to_string();
            // Swap space would only delay the end. Some kernels do not count it.
            match two {
                true => {
                    let done = put("memory.max", bytes);
                    put("memory.swap.max", "0".to_owned());
                    done
                }
                false => {
                    let done = put("memory.limit_in_bytes", bytes.clone());
                    put("memory.memsw.limit_in_bytes", bytes);
                    done
                }
            }
        }
        Limited::Processes => {
            let most = limits.processes.unwrap_or(u64::MAX);
            put("pids.max", most.to_string())
        }
        // Version 2 has no such file.
        Limited::Devices => limits.denied.iter().all(|path| {
            let device = rustix::fs::stat(path).map(|stat| stat.st_rdev);
            device.is_ok_and(|device| {
                let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
                put("devices.deny", format!("c {major}:{minor} rwm"))
            })
        }),
    }
}

/// Returns the number after a word in a file of the kernel; 0 if it is not there.
fn counted(path: &Path, word: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let number = text.lines().find_map(|line| {
        let (name, number) = line.split_once(' ')?;
        (name == word).then(|| number.trim().parse().ok())?
    });
    number.unwrap_or(0)
}

/// Returns the parent of a process.
fn parent_of(pid: i32) -> Option<i32> {
    number_in_stat(pid, 1)
}

/// Returns the process group of a process.
fn group_of(pid: i32) -> Option<i32> {
    number_in_stat(pid, 2)
}

/// Returns a number that follows the name of a process, from 0.
fn number_in_stat(pid: i32, at: usize) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = stat.rsplit(')').next()?;
    rest.split_whitespace().nth(at)?.parse().ok()
}

/// Returns the descendants of a process, except one child and its descendants. The list has pairs
/// of parent and child.
fn descendants(parents: &[(i32, i32)], of: i32, except: Option<i32>) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut next = vec![of];
    while let Some(parent) = next.pop() {
        for (_, child) in parents.iter().filter(|(p, _)| *p == parent) {
            if Some(*child) != except && *child != of && found.insert(*child) {
                next.push(*child);
            }
        }
    }
    found
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
        assert_eq!(containment.create(&Limits::default()), []);
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
