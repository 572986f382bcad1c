//! A scripted cluster on virtual time: the backend of the conformance suite. It keeps its own
//! accounts and compares them with the state after every step.

use super::listed;
use super::problem::{Place, Problem, Property, near};
use super::script::{Fault, Outside, Script};
use super::verify::verify;
use blox_core::assignment::GpuList;
use blox_core::cluster::spec::NodeSpec;
use blox_core::decision::{Action, Command, NodeAction, Plan};
use blox_core::drive::Backend;
use blox_core::event::{Event, Outcome};
use blox_core::ids::{ActionId, GpuId, JobId, Name, NodeId};
use blox_core::input::{Input, Instant};
use blox_core::job::training::{SpeedReport, TrainingReport};
use blox_core::job::{JobRef, Phase};
use blox_core::pipeline::DecisionError;
use blox_core::reason::Reason;
use blox_core::state::EventError;
use blox_core::units::{GpuCount, Seconds, Time};
use blox_core::view::View;
use blox_core::{Config, GradientNoise, Share, ThroughputParams};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Maximum number of steps of a small case, and for each job of a large one. A scheduler that makes
/// progress needs fewer.
const MOST_STEPS: u64 = 100_000;
const STEPS_OF_A_JOB: u64 = 5_000;

/// Nodes that a cluster manager may request beyond one for each GPU that the jobs request.
const SPARE_NODES: usize = 32;

/// Reason of a cordon by an operator.
const OPERATOR: &str = "scripted";

// Purposes of random numbers.
const LAUNCH: u64 = 1;
const STOP: u64 = 2;
const RUN: u64 = 3;
const REPORT: u64 = 4;
const LAG: u64 = 5;
const CURVE: u64 = 6;
const KNOBS: u64 = 7;

/// Losses of a job that converges before its work is done.
const CONVERGING: [f64; 7] = [4.0, 2.0, 1.2, 1.0, 1.0, 1.0, 1.0];

/// Counters of the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub completed: u64,
    pub failed_launches: u64,
    pub crashes: u64,
    pub nodes_lost: u64,
    pub late_ends: u64,
    pub executed: f64,
    pub lost: f64,
}

#[derive(Clone, Debug)]
enum What {
    Outside(Outside),
    Release(JobId),
    Started(JobId, u64),
    LaunchFails(JobId, u64),
    Stopped(JobId, u64),
    /// A crash. The number is the share of the work since the launch that a checkpoint kept.
    Crashes(JobId, u64, f64, Reason),
    Completes(JobId, u64),
    /// The end of a service.
    Retires(JobId),
    /// The launch has ended, but its end is not reported yet.
    Over(JobId, u64),
    Progress(JobId, u64),
    /// A report of the running job. It may arrive after the job has stopped running.
    Report(JobId, Event),
    Finishes(JobId),
    Joins(NodeSpec),
    PowersOn(NodeId),
    Leaves(NodeId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Absent,
    Idle,
    Launching,
    Running,
    Stopping,
    Ended(Outcome),
}

/// A launch that has ended but is not reported yet. Holds the values at its end.
#[derive(Clone, Copy, Debug)]
struct Over {
    attempt: u32,
    ran: f64,
    attained: f64,
    attained_gpu: f64,
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Truth::Absent => "not there",
            Truth::Idle => "idle",
            Truth::Launching => "launching",
            Truth::Running => "running",
            Truth::Stopping => "stopping",
            Truth::Ended(outcome) => outcome.as_str(),
        })
    }
}

/// The true state of a job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    truth: Truth,
    /// Version of the job's launch. Queue entries with an older token are void.
    token: u64,
    attempt: u32,
    gpus: GpuList,
    /// The part of each of these GPUs.
    share: Share,
    /// GPUs that the job still occupies from before an allocation change that is in progress.
    leaving: GpuList,
    held_back: bool,
    over: Option<Over>,
    began: Time,
    /// Work done as of `since`.
    pub work: f64,
    /// Work that the state counts.
    counted: f64,
    launched_with: f64,
    rate: f64,
    since: Time,
    pub attained: f64,
    attained_gpu: f64,
    /// True for a service whose GPUs change: its copies may run on where it keeps GPUs.
    changes: bool,
    /// The most that these copies attained so far, in seconds and in GPU-seconds.
    kept: [f64; 2],
    crashes: u32,
    /// True if the job continues to work during its checkpoint.
    diligent: bool,
    // Progress, attained service and crashes in the state at the last comparison.
    seen: (f64, f64, u32),
}

/// Returns whether a value is `least`, or above it by at most `more`.
fn is_within(value: f64, least: f64, more: f64) -> bool {
    near(value, least) || value > least && value <= (least + more) * (1.0 + 1e-9)
}

impl Job {
    /// Returns whether the job can have attained these seconds when it ended.
    pub fn can_have_attained(&self, secs: f64) -> bool {
        is_within(secs, self.attained, self.kept[0])
    }

    /// Number of its GPUs, times the part of each.
    fn width(&self) -> f64 {
        self.gpus.len() as f64 * self.share.fraction()
    }

    fn all_gpus(&self) -> impl Iterator<Item = GpuId> + '_ {
        self.gpus.iter().chain(&self.leaving).copied()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Up,
    Lost,
    Off,
    Left,
}

pub(crate) struct ScriptedCluster {
    script: Arc<Script>,
    queue: BTreeMap<(Time, u64), What>,
    /// The next entry to process, after the `Ran` event of the launch that it refers to.
    held_up: Option<What>,
    entries: u64,
    pub jobs: Vec<Job>,
    nodes: Vec<(Node, NodeSpec)>,
    broken: Vec<bool>,
    now: Time,
    steps: u64,
    pub tally: Tally,
    /// True if the cluster checks the state. If false, the cluster only executes.
    checks: bool,
    /// True if stops and launches take no time and are not reported.
    pub instant: bool,
    place: Place,
}

impl ScriptedCluster {
    pub fn new(script: &Arc<Script>, checks: bool, place: &Place) -> Self {
        let idle = Job {
            truth: Truth::Absent,
            token: 0,
            attempt: 0,
            gpus: GpuList::new(),
            share: Share::WHOLE,
            leaving: GpuList::new(),
            held_back: false,
            over: None,
            began: Time::ZERO,
            work: 0.0,
            counted: 0.0,
            launched_with: 0.0,
            rate: 0.0,
            since: Time::ZERO,
            attained: 0.0,
            attained_gpu: 0.0,
            changes: false,
            kept: [0.0; 2],
            crashes: 0,
            diligent: false,
            seen: (0.0, 0.0, 0),
        };
        let mut cluster = ScriptedCluster {
            queue: BTreeMap::new(),
            held_up: None,
            entries: 0,
            jobs: vec![idle; script.jobs.len()],
            nodes: script
                .cluster
                .nodes
                .iter()
                .map(|n| (Node::Up, n.clone()))
                .collect(),
            broken: vec![false; script.cluster.total_gpus() as usize],
            now: Time::ZERO,
            steps: 0,
            tally: Tally::default(),
            checks,
            instant: false,
            place: place.clone(),
            script: Arc::clone(script),
        };
        for (at, what) in &script.outside {
            cluster.at(*at, What::Outside(what.clone()));
        }
        cluster
    }

    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the outcome of a job if it has ended.
    pub fn outcome(&self, job: usize) -> Option<Outcome> {
        match self.jobs[job].truth {
            Truth::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    fn at(&mut self, at: Time, what: What) {
        self.queue.insert((at, self.entries), what);
        self.entries += 1;
    }

    fn after(&mut self, wait: f64, what: What) {
        self.at(self.now + Seconds::new(wait), what);
    }

    /// Voids all queue entries of the job's current launch.
    fn new_token(&mut self, job: JobId) -> u64 {
        let j = &mut self.jobs[job.index()];
        j.token += 1;
        j.token
    }

    fn is_current(&self, job: JobId, token: u64) -> bool {
        self.jobs[job.index()].token == token
    }

    /// Seconds between the end of the job's launch and its report; 0 for most launches.
    fn lag(&self, job: JobId) -> f64 {
        let attempt = self.jobs[job.index()].attempt;
        let mut dice = self.script.dice(job, attempt, LAG);
        let late = self.script.faults.has(Fault::LateEnds) && attempt <= 4 && dice.chance(0.5);
        if late {
            dice.between(0.0, 2.0) * self.script.round
        } else {
            0.0
        }
    }

    /// Ends the job's launch now, without a report.
    fn is_over(&mut self, job: JobId) {
        self.settle(job);
        let now = self.now;
        let j = &mut self.jobs[job.index()];
        if j.truth == Truth::Running && j.over.is_none() {
            j.over = Some(Over {
                attempt: j.attempt,
                ran: now.secs() - j.began.secs(),
                attained: j.attained,
                attained_gpu: j.attained_gpu,
            });
        }
    }

    /// Withdraws what was counted for a launch after its end.
    fn take_back(&mut self, job: JobId) -> Option<Event> {
        self.settle(job);
        let j = &mut self.jobs[job.index()];
        let over = j.over.take()?;
        (j.attained, j.attained_gpu) = (over.attained, over.attained_gpu);
        j.counted = j.work;
        j.seen.0 = j.seen.0.min(j.counted);
        j.seen.1 = j.seen.1.min(j.attained);
        self.tally.late_ends += 1;
        Some(Event::Ran {
            job,
            attempt: over.attempt,
            secs: over.ran,
        })
    }

    /// Returns the job of the entry if its launch must get its `Ran` event first.
    fn needs_ran(&self, what: &What, view: View<'_>) -> Option<JobId> {
        match what {
            What::Started(job, token)
            | What::LaunchFails(job, token)
            | What::Stopped(job, token)
            | What::Crashes(job, token, ..)
            | What::Completes(job, token) => self.is_current(*job, *token).then_some(*job),
            What::Finishes(job) | What::Retires(job) | What::Outside(Outside::Cancel(job)) => {
                view.job(*job).map(|j| j.id())
            }
            _ => None,
        }
    }

    /// Brings a job's accounts up to the current time.
    fn settle(&mut self, job: JobId) {
        let now = self.now;
        let most = self.script.jobs[job.index()].work.iterations;
        let j = &mut self.jobs[job.index()];
        let dt = now.secs() - j.since.secs();
        let runs = j.truth == Truth::Running;
        let works = runs || (j.truth == Truth::Stopping && j.diligent);
        if works && j.over.is_none() {
            let done = (j.work + j.rate * dt).min(most.max(j.work));
            self.tally.executed += done - j.work;
            j.work = done;
        }
        if runs {
            j.attained += dt;
            j.attained_gpu += dt * j.width();
            j.counted = (j.counted + j.rate * dt).min(most.max(j.counted));
        } else if j.changes {
            j.kept[0] += dt;
            j.kept[1] += dt * j.width();
        }
        j.since = now;
    }

    fn leave(&mut self, job: JobId, truth: Truth) {
        let j = &mut self.jobs[job.index()];
        j.truth = truth;
        j.changes = false;
        j.counted = j.work;
        j.gpus.clear();
        j.leaving.clear();
    }

    fn node_of(&self, gpu: GpuId) -> usize {
        let mut first = 0;
        for (i, (_, spec)) in self.nodes.iter().enumerate() {
            first += spec.gpus;
            if gpu.0 < first {
                return i;
            }
        }
        self.nodes.len()
    }

    fn works(&self, gpu: GpuId) -> bool {
        let up = self
            .nodes
            .get(self.node_of(gpu))
            .is_some_and(|(n, _)| *n == Node::Up);
        up && !self.broken[gpu.index()]
    }

    /// Crashes the jobs on GPUs that have just gone, one by one.
    fn crash_those_on(&mut self, gone: impl Fn(&Self, GpuId) -> bool, why: &Reason) {
        for i in 0..self.jobs.len() {
            if self.jobs[i].all_gpus().any(|g| gone(self, g)) {
                let job = JobId(i as u32);
                let token = self.new_token(job);
                let kept = self.script.dice(job, self.jobs[i].attempt, RUN).pick(&KEPT);
                self.after(0.0, What::Crashes(job, token, kept, why.clone()));
            }
        }
    }

    /// Returns the event of a queue entry if the entry is still valid.
    fn happen(&mut self, what: What, view: View<'_>) -> Option<Event> {
        match what {
            What::Outside(outside) => self.outside(outside, view),
            What::Release(job) => {
                let held_back = std::mem::take(&mut self.jobs[job.index()].held_back);
                (held_back && view.job(job).is_some()).then_some(Event::Release { job })
            }
            What::Started(job, token) => {
                self.is_current(job, token).then_some(())?;
                let attempt = self.jobs[job.index()].attempt;
                let rate = self.rate_of(job, view);
                self.settle(job);
                let j = &mut self.jobs[job.index()];
                j.truth = Truth::Running;
                j.changes = false;
                j.since = self.now;
                j.began = self.now;
                j.rate = rate;
                j.leaving.clear();
                self.schedule_run(job, true);
                Some(Event::Started { job, attempt, rate })
            }
            What::LaunchFails(job, token) => {
                self.is_current(job, token).then_some(())?;
                let attempt = self.jobs[job.index()].attempt;
                self.leave(job, Truth::Idle);
                self.tally.failed_launches += 1;
                let why = Name::from("scripted");
                Some(Event::LaunchFailed { job, attempt, why })
            }
            What::Stopped(job, token) => {
                self.is_current(job, token).then_some(())?;
                self.settle(job);
                let j = &self.jobs[job.index()];
                let (attempt, work) = (j.attempt, j.diligent.then_some(j.work));
                self.leave(job, Truth::Idle);
                Some(Event::Stopped { job, attempt, work })
            }
            What::Crashes(job, token, kept, why) => {
                self.is_current(job, token).then_some(())?;
                self.settle(job);
                self.new_token(job);
                let j = &mut self.jobs[job.index()];
                let attempt = j.attempt;
                let work = j.launched_with + (j.work - j.launched_with) * kept;
                self.tally.lost += j.work - work;
                self.tally.crashes += 1;
                j.work = work;
                j.crashes += 1;
                self.leave(job, Truth::Idle);
                Some(Event::Crashed {
                    job,
                    attempt,
                    work,
                    why,
                })
            }
            What::Completes(job, token) => {
                self.is_current(job, token).then_some(())?;
                self.happen(What::Retires(job), view)
            }
            What::Retires(job) => {
                // Admission may have rejected it.
                view.job(job)?;
                self.settle(job);
                self.new_token(job);
                // All work is done, up to rounding errors.
                let all = self.script.jobs[job.index()].work.iterations;
                let j = &mut self.jobs[job.index()];
                self.tally.executed += all - j.work;
                j.work = all;
                self.tally.completed += 1;
                self.end(job, Outcome::Completed)
            }
            What::Progress(job, token) => {
                self.is_current(job, token).then_some(())?;
                let j = &self.jobs[job.index()];
                if j.truth != Truth::Running || j.over.is_some() {
                    return None;
                }
                self.settle(job);
                let attempt = self.jobs[job.index()].attempt;
                let factor = self.script.dice(job, attempt, RUN).between(0.5, 2.0);
                self.jobs[job.index()].rate *= factor;
                self.schedule_run(job, false);
                let j = &self.jobs[job.index()];
                Some(Event::Progress {
                    job,
                    attempt,
                    work: j.work,
                    rate: j.rate,
                })
            }
            What::Over(job, token) => {
                if self.is_current(job, token) {
                    self.is_over(job);
                }
                None
            }
            What::Report(job, event) => view.job(job).map(|_| event),
            What::Finishes(job) => {
                if self.outcome(job.index()).is_some() {
                    return None;
                }
                self.settle(job);
                self.end(job, Outcome::Terminated)
            }
            What::Joins(spec) => {
                self.broken
                    .resize(self.broken.len() + spec.gpus as usize, false);
                self.nodes.push((Node::Up, spec.clone()));
                Some(Event::NodeJoined {
                    spec: Box::new(spec),
                })
            }
            What::PowersOn(node) => {
                let n = self.nodes.get_mut(node.index())?;
                (n.0 == Node::Off).then(|| n.0 = Node::Up)?;
                Some(Event::NodeReturned { node })
            }
            What::Leaves(node) => {
                let n = self.nodes.get_mut(node.index())?;
                (n.0 != Node::Left).then(|| n.0 = Node::Left)?;
                self.crash_those_on(|c, g| c.node_of(g) == node.index(), &Reason::NodeLost);
                Some(Event::NodeLeft { node })
            }
        }
    }

    fn outside(&mut self, outside: Outside, view: View<'_>) -> Option<Event> {
        match outside {
            Outside::Submit(job) => {
                self.jobs[job.index()].truth = Truth::Idle;
                let spec = Arc::clone(&self.script.jobs[job.index()]);
                if spec.extras().need.is_some() {
                    self.after(spec.duration().secs(), What::Retires(job));
                }
                Some(Event::Submitted { job, spec })
            }
            Outside::Cancel(job) => {
                view.job(job)?;
                self.settle(job);
                self.end(job, Outcome::Cancelled)
            }
            Outside::Hold(job, length) => {
                let waits = view.job(job).is_some_and(|j| {
                    use Phase::{Deferred, Submitted, Waiting};
                    matches!(j.phase(), Submitted | Deferred | Waiting)
                });
                if !waits || self.jobs[job.index()].held_back {
                    return None;
                }
                self.jobs[job.index()].held_back = true;
                self.after(length.secs(), What::Release(job));
                Some(Event::Hold { job })
            }
            Outside::Lose(node) => {
                (self.nodes[node.index()].0 == Node::Up).then_some(())?;
                self.nodes[node.index()].0 = Node::Lost;
                self.tally.nodes_lost += 1;
                self.crash_those_on(|c, g| c.node_of(g) == node.index(), &Reason::NodeLost);
                Some(Event::NodeLost { node })
            }
            Outside::Silences(node) => {
                for i in 0..self.jobs.len() {
                    let on_it = |g: GpuId| self.node_of(g) == node.index();
                    let job = JobId(i as u32);
                    if self.jobs[i].truth == Truth::Running && self.jobs[i].all_gpus().any(on_it) {
                        self.new_token(job);
                        self.is_over(job);
                    }
                }
                None
            }
            Outside::Return(node) => {
                (self.nodes[node.index()].0 == Node::Lost).then_some(())?;
                self.nodes[node.index()].0 = Node::Up;
                Some(Event::NodeReturned { node })
            }
            Outside::Join(spec) => self.happen(What::Joins(spec), view),
            Outside::Leave(node) => self.happen(What::Leaves(node), view),
            Outside::GpuFails(gpu) => {
                (!std::mem::replace(&mut self.broken[gpu.index()], true)).then_some(())?;
                self.crash_those_on(|_, g| g == gpu, &Reason::Crashed);
                Some(Event::GpuFailed { gpu })
            }
            Outside::GpuRepaired(gpu) => {
                std::mem::take(&mut self.broken[gpu.index()]).then_some(())?;
                Some(Event::GpuRepaired { gpu })
            }
            Outside::Cordon(node) => {
                let there = self.nodes[node.index()].0 != Node::Left;
                let cordoned = view.node(node).is_none_or(|n| n.cordoned().is_some());
                let why = Name::from(OPERATOR);
                let action = NodeAction::Cordon { node, why };
                (there && !cordoned).then_some(Event::NodeManaged { action })
            }
            Outside::Uncordon(node) => {
                let there = self.nodes[node.index()].0 != Node::Left;
                let cordoned = view.node(node).and_then(|n| n.cordoned());
                let own = there && cordoned.is_some_and(|why| why.as_str() == OPERATOR);
                let action = NodeAction::Uncordon { node };
                own.then_some(Event::NodeManaged { action })
            }
        }
    }

    fn end(&mut self, job: JobId, outcome: Outcome) -> Option<Event> {
        self.new_token(job);
        // Progress after the start of the checkpoint is not reported.
        let j = &mut self.jobs[job.index()];
        if outcome != Outcome::Completed {
            self.tally.lost += j.work - j.counted;
            j.work = j.counted;
        }
        self.leave(job, Truth::Ended(outcome));
        Some(Event::Ended { job, outcome })
    }

    /// Work rate of a job. Depends on its number of GPUs and other jobs on them, and on their type
    /// if the job has extras.
    fn rate_of(&self, job: JobId, view: View<'_>) -> f64 {
        let spec = &self.script.jobs[job.index()];
        let gpus = &self.jobs[job.index()].gpus;
        let share = gpus.len() as f64 / f64::from(spec.gpus.get());
        let shared = gpus.iter().any(|g| view.cluster().bound_to(*g).count() > 1);
        let typed = gpus.iter().filter(|_| spec.extras.is_some());
        let slowest = typed
            .filter_map(|g| self.nodes.get(self.node_of(*g)))
            .map(|(_, n)| match n.gpu_type.as_deref() {
                Some("a100") => 1.5,
                Some("t4") => 0.75,
                _ => 1.0,
            })
            .reduce(f64::min)
            .unwrap_or(1.0);
        spec.work.rate * share * slowest * if shared { 0.6 } else { 1.0 }
    }

    /// Schedules the completion of a running job, or its earlier crash.
    fn schedule_run(&mut self, job: JobId, first: bool) {
        let token = self.new_token(job);
        let all = self.script.jobs[job.index()].work.iterations;
        let j = &self.jobs[job.index()];
        let left = ((all - j.work) / j.rate).max(0.0);
        let mut dice = self.script.dice(job, j.attempt, RUN);
        let kept = dice.pick(&KEPT);
        let (crash, part) = (dice.chance(0.3), dice.unit());
        let (report, when) = (dice.chance(0.4), dice.unit());
        let may_crash = self.script.faults.has(Fault::Crashes) && j.attempt <= 4;
        let may_report = first && self.script.faults.has(Fault::Progress);
        let lag = self.lag(job);
        if may_crash && crash {
            let what = What::Crashes(job, token, kept, Reason::Crashed);
            self.ends(left * part, lag, what, What::Over(job, token));
        }
        if may_report && report {
            self.after(left * when, What::Progress(job, token));
        }
        if !self.serves(job) {
            let over = What::Over(job, token);
            self.ends(left, lag, What::Completes(job, token), over);
        }
        // A report may lead to a launch. Without a limit, both could continue forever.
        let talks = self.jobs[job.index()].attempt <= 4;
        if first && talks && self.script.faults.has(Fault::Reports) {
            self.schedule_reports(job, left);
        }
    }

    /// Returns whether a job is a service, which ends at a time and not by its work.
    fn serves(&self, job: JobId) -> bool {
        self.script.jobs[job.index()].extras().need.is_some()
    }

    /// Schedules the end of a launch after `wait` seconds and its report `lag` seconds later.
    fn ends(&mut self, wait: f64, lag: f64, what: What, over: What) {
        if lag > 0.0 {
            self.after(wait, over);
        }
        self.after(wait + lag, what);
    }

    /// Schedules the reports that a job sends within the next `within` seconds.
    fn schedule_reports(&mut self, job: JobId, within: f64) {
        let attempt = self.jobs[job.index()].attempt;
        if self.script.dice(job, attempt, CURVE).chance(0.3) {
            for (i, value) in CONVERGING.into_iter().enumerate() {
                let at = within * (i + 1) as f64 / (CONVERGING.len() + 2) as f64;
                let name = Name::from("loss");
                self.after(at, What::Report(job, Event::Metric { job, name, value }));
            }
        }
        let j = &self.jobs[job.index()];
        let mut dice = self.script.dice(job, j.attempt, REPORT);
        for _ in 0..dice.below(3) {
            let event = Event::Metric {
                job,
                name: Name::from(dice.pick(&["loss", "accuracy"])),
                value: dice.between(0.0, 4.0),
            };
            self.after(within * dice.unit(), What::Report(job, event));
        }
        let trains = self.script.jobs[job.index()].extras().training.is_some();
        let mut knobs = self.script.dice(job, attempt, KNOBS);
        if !trains && self.script.faults.has(Fault::Knobs) && knobs.chance(0.3) {
            let config = Config::of([("tp", knobs.pick(&[1.0, 2.0])), ("shift", knobs.unit())]);
            let event = Event::BatchChanged { job, config };
            self.after(within * knobs.unit(), What::Report(job, event));
        }
        if !trains || dice.chance(0.3) {
            return;
        }
        let gpus = &self.jobs[job.index()].gpus;
        let most_gpus = GpuCount(gpus.len() as u32);
        let types = gpus.iter().filter_map(|g| self.nodes.get(self.node_of(*g)));
        let speed = types
            .map(|(_, n)| n.gpu_type.clone().unwrap_or_else(|| Name::from("")))
            .map(|name| {
                let mut time = || dice.between(0.001, 0.1);
                let times = [time(), time(), time(), time(), time(), time()];
                let [a, b, c, d, e, f] = times;
                let params = ThroughputParams::from_array([a, b, c, d, e, f, 2.0]);
                (name, SpeedReport { params, most_gpus })
            })
            .collect();
        let report = TrainingReport {
            noise: GradientNoise {
                sqr: dice.between(0.0, 0.1),
                var: dice.between(0.0, 1.0),
            },
            speed,
        };
        let report = Arc::new(report);
        let event = Event::Reported { job, report };
        self.after(within * dice.unit(), What::Report(job, event));
    }

    fn launch(&mut self, view: View<'_>, job: JobId, attempt: u32) -> Result<(), Problem> {
        let bound = view.job(job).and_then(|j| j.bound());
        let gpus = bound.map(|a| a.gpus.clone()).unwrap_or_default();
        let share = bound.map_or(Share::WHOLE, |a| a.share);
        for (i, other) in self.jobs.iter().enumerate() {
            let id = JobId(i as u32);
            // A part that overlaps waits for jobs that leave.
            let theirs = view.job(id).and_then(|j| j.bound()).map(|a| a.share);
            let apart = |gpu: GpuId| {
                let stays = view.cluster().allocated_to(gpu).any(|owner| owner == id);
                theirs.is_some_and(|theirs| {
                    let overlap = stays && (theirs.overlaps() || share.overlaps());
                    overlap || theirs.fraction() + share.fraction() <= 1.0 + 1e-9
                })
            };
            let on = |g: &&GpuId| other.all_gpus().any(|o| o == **g) && !apart(**g);
            if id != job
                && let Some(gpu) = gpus.iter().find(on)
            {
                return Err(Problem::new(
                    Property::Ledgers,
                    format!("job {job} to be launched on GPUs that all others have left"),
                    format!("GPU {gpu}, on which job {id} still is"),
                ));
            }
        }
        self.settle(job);
        let serves = self.script.jobs[job.index()].extras().need.is_some();
        let j = &mut self.jobs[job.index()];
        j.changes = serves && !j.gpus.is_empty();
        j.truth = Truth::Launching;
        j.attempt = attempt;
        // Until a change is done, the job occupies its old and new GPUs.
        let old = std::mem::replace(&mut j.gpus, gpus);
        j.share = share;
        j.leaving.extend(old);
        j.leaving.retain(|g| !j.gpus.contains(g));
        // A change passes through a checkpoint, so it loses no work.
        j.launched_with = j.work;
        j.since = self.now;
        let token = self.new_token(job);
        let mut dice = self.script.dice(job, attempt, LAUNCH);
        let (low, high) = self.script.delays.launch;
        let wait = dice.between(low, high) * self.script.round;
        let fails =
            self.script.faults.has(Fault::FailedLaunches) && attempt <= 4 && dice.chance(0.25);
        let dead = self.jobs[job.index()].gpus.iter().any(|g| !self.works(*g));
        if fails || dead {
            self.after(wait, What::LaunchFails(job, token));
        } else {
            self.after(wait, What::Started(job, token));
        }
        Ok(())
    }

    fn stop(&mut self, job: JobId, attempt: u32) -> Result<(), Problem> {
        self.settle(job);
        let j = &mut self.jobs[job.index()];
        if !matches!(j.truth, Truth::Launching | Truth::Running) || j.attempt != attempt {
            return Err(Problem::new(
                Property::Commands,
                format!("a stop of a launch that is under way ({})", j.attempt),
                format!("a stop of launch {attempt} of job {job}"),
            ));
        }
        let mut dice = self.script.dice(job, attempt, STOP);
        let running = j.truth == Truth::Running;
        let over = running && j.over.is_some();
        j.diligent = running && dice.chance(0.5) && !over;
        j.truth = Truth::Stopping;
        let (low, high) = self.script.delays.stop;
        let wait = dice.between(low, high) * self.script.round;
        let (kept, part) = (dice.pick(&KEPT), dice.unit());
        let crashes = self.script.faults.has(Fault::Crashes) && attempt <= 4 && dice.chance(0.1);
        let (diligent, work, rate) = (j.diligent, j.work, j.rate);
        let all = self.script.jobs[job.index()].work.iterations;
        if over && (near(work, all) || dice.chance(0.5)) {
            // The launch has already ended: its end will be reported, and no stop is needed.
            return Ok(());
        }
        let token = self.new_token(job);
        let left = (all - work) / rate;
        if crashes {
            let what = What::Crashes(job, token, kept, Reason::Crashed);
            self.after(wait * part, what);
        } else if diligent && left <= wait && !self.serves(job) {
            self.after(left.max(0.0), What::Completes(job, token));
        } else {
            self.after(wait, What::Stopped(job, token));
        }
        Ok(())
    }

    fn command(&mut self, view: View<'_>, command: &Command) -> Result<(), Problem> {
        match command {
            Command::Start { job, attempt } => {
                if self.jobs[job.index()].truth != Truth::Idle {
                    return Err(Problem::new(
                        Property::Commands,
                        "a start of a job that holds nothing".to_owned(),
                        format!(
                            "a start of job {job}, which is {}",
                            self.jobs[job.index()].truth
                        ),
                    ));
                }
                self.launch(view, *job, *attempt)
            }
            Command::Change { job, attempt, .. } => {
                self.settle(*job);
                self.launch(view, *job, *attempt)
            }
            Command::Stop { job, attempt, .. } => self.stop(*job, *attempt),
            Command::Finish { job } => {
                self.after(0.0, What::Finishes(*job));
                Ok(())
            }
            Command::Node { id, action } => self.node_action(view, *id, action),
            Command::Notify { job, attempt, by } => {
                let noticed = view.job(*job).filter(|j| j.attempt() == *attempt);
                match noticed.is_some_and(|j| j.leaves_at() == Some(*by)) {
                    true => Ok(()),
                    false => Err(Problem::new(
                        Property::Commands,
                        format!("a notice that job {job} has in the state"),
                        format!("a notice of launch {attempt} of job {job} until {by} s"),
                    )),
                }
            }
            // The loop runs the scheduler.
            other => Err(Problem::new(
                Property::Commands,
                "a command that the scripted cluster knows".to_owned(),
                format!("{other:?}"),
            )),
        }
    }

    fn node_action(
        &mut self,
        view: View<'_>,
        id: ActionId,
        action: &NodeAction,
    ) -> Result<(), Problem> {
        match action {
            NodeAction::Power { node, on: true } => {
                self.after(0.5 * self.script.round, What::PowersOn(*node));
            }
            NodeAction::Power { node, on: false } => {
                if let Some(n) = self.nodes.get_mut(node.index()) {
                    n.0 = Node::Off;
                }
            }
            NodeAction::Grow { offer, .. } => {
                let spec = view.cluster().offer(*offer).map(|offer| &offer.spec);
                let names = view.cluster().growth(id).map(|growth| &growth.names);
                let names = names.into_iter().flatten();
                let left = self.nodes.iter().filter(|(n, _)| *n == Node::Left).count();
                let nodes = self.nodes.len() - left + names.clone().count();
                let most = self.most_nodes();
                if nodes > most {
                    return Err(Problem::new(
                        Property::Growth,
                        format!(
                            "at most {most} nodes, one for each GPU of the jobs and {SPARE_NODES}"
                        ),
                        format!("{nodes} nodes, the requested ones included"),
                    ));
                }
                for (name, spec) in names.zip(spec.into_iter().cycle()) {
                    let (name, spec) = (Some(name.clone()), spec.clone());
                    self.after(
                        0.5 * self.script.round,
                        What::Joins(NodeSpec { name, ..spec }),
                    );
                }
            }
            NodeAction::Drain { node, .. } => self.after(0.0, What::Leaves(*node)),
            _ => {}
        }
        Ok(())
    }

    /// Returns the most nodes that the jobs of the case could use, and some more.
    fn most_nodes(&self) -> usize {
        let gpus = self.script.jobs.iter().map(|job| job.gpus.get() as usize);
        self.script.cluster.nodes.len() + gpus.sum::<usize>() + SPARE_NODES
    }

    /// Checks the state for consistency and compares it with the true state.
    fn compare(&mut self, view: View<'_>) -> Result<(), Problem> {
        verify(view)?;
        if view.now() < self.now {
            return Err(Problem::new(
                Property::Time,
                format!("a moment that is not before {}", self.now),
                view.now().to_string(),
            ));
        }
        let now = view.now();
        for (i, truth) in self.jobs.iter_mut().enumerate() {
            let id = JobId(i as u32);
            let Some(job) = view.job(id) else {
                // Admission also ends jobs; the accounts of the observed events cover this.
                if !matches!(truth.truth, Truth::Ended(_) | Truth::Absent) {
                    truth.truth = Truth::Ended(Outcome::Rejected);
                }
                continue;
            };
            let phase = match truth.truth {
                Truth::Launching => job.phase() == Phase::Starting,
                Truth::Running => job.phase() == Phase::Running,
                Truth::Stopping => job.phase() == Phase::Stopping,
                _ => job.bound().is_none(),
            };
            let holds = job.bound().map_or(&[][..], |a| &a.gpus[..]);
            let leaves = job.leaving();
            if !phase || holds != &truth.gpus[..] || leaves != &truth.leaving[..] {
                return Err(Problem::new(
                    Property::Commands,
                    format!(
                        "job {id} {} on GPUs {}, leaving {}",
                        truth.truth,
                        listed(&truth.gpus),
                        listed(&truth.leaving)
                    ),
                    format!(
                        "{} on GPUs {}, leaving {}",
                        job.phase(),
                        listed(holds),
                        listed(leaves)
                    ),
                ));
            }
            let runs = truth.truth == Truth::Running;
            let dt = if runs {
                now.secs() - truth.since.secs()
            } else {
                0.0
            };
            let most = job.truth().work().iterations;
            let work = (truth.counted + truth.rate * dt).min(most.max(truth.counted));
            let attained = truth.attained + dt;
            let gpu_time = truth.attained_gpu + dt * truth.width();
            let changes = match truth.changes {
                true => now.secs() - truth.since.secs(),
                false => 0.0,
            };
            let kept = [
                truth.kept[0] + changes,
                truth.kept[1] + changes * truth.width(),
            ];
            if !near(job.work_done(), work)
                || !is_within(job.attained_time().secs(), attained, kept[0])
                || !is_within(job.attained_gpu_time().secs(), gpu_time, kept[1])
            {
                return Err(Problem::new(
                    Property::Work,
                    format!(
                        "job {id} with {work} iterations done in {attained} s and {gpu_time} GPU-s"
                    ),
                    format!(
                        "{} iterations in {} s and {} GPU-s",
                        job.work_done(),
                        job.attained_time().secs(),
                        job.attained_gpu_time().secs()
                    ),
                ));
            }
            let (last_work, last_attained, last_crashes) = truth.seen;
            let fell = job.work_done() < last_work && !near(job.work_done(), last_work);
            let younger = job.attained_time().secs() < last_attained - 1e-6;
            if (fell && job.crashes() == last_crashes) || younger {
                return Err(Problem::new(
                    Property::Work,
                    format!("job {id} to keep its {last_work} iterations and {last_attained} s"),
                    format!(
                        "{} iterations and {} s",
                        job.work_done(),
                        job.attained_time().secs()
                    ),
                ));
            }
            truth.seen = (job.work_done(), job.attained_time().secs(), job.crashes());
        }
        Ok(())
    }
}

/// Shares of the work since the launch that a checkpoint may have kept.
const KEPT: [f64; 3] = [0.0, 0.5, 1.0];

impl Backend for ScriptedCluster {
    type Error = Problem;

    fn next(&mut self, due: Option<Time>, view: View<'_>) -> Result<Option<Input>, Problem> {
        self.steps += 1;
        self.place.at_step(self.steps);
        if self.checks {
            self.compare(view)?;
        }
        let most = MOST_STEPS.max(STEPS_OF_A_JOB * self.jobs.len() as u64);
        if self.steps > most {
            return Err(Problem::new(
                Property::Liveness,
                format!("an end within {most} steps"),
                "none".to_owned(),
            ));
        }
        if let Some(what) = self.held_up.take()
            && let Some(event) = self.happen(what, view)
        {
            return Ok(Some(Input::Event {
                at: self.now,
                event,
            }));
        }
        loop {
            let head = self.queue.first_key_value().map(|((at, _), _)| *at);
            match (head, due) {
                (Some(at), _) if due.is_none_or(|d| at <= d) => {
                    let Some((_, what)) = self.queue.pop_first() else {
                        return Ok(None);
                    };
                    self.now = at;
                    let of = self.needs_ran(&what, view);
                    if let Some(ran) = of.and_then(|job| self.take_back(job)) {
                        self.held_up = Some(what);
                        return Ok(Some(Input::Event { at, event: ran }));
                    }
                    if let Some(event) = self.happen(what, view) {
                        return Ok(Some(Input::Event { at, event }));
                    }
                }
                (head, Some(at)) => {
                    let live = view.next_job_id().index() > 0
                        && (0..self.jobs.len()).any(|i| view.job(JobId(i as u32)).is_some());
                    if (head.is_none() && !live) || at > self.script.horizon {
                        return Ok(None);
                    }
                    if at < self.now {
                        return Err(Problem::new(
                            Property::Time,
                            format!("a decision that is not due before {}", self.now),
                            at.to_string(),
                        ));
                    }
                    self.now = at;
                    return Ok(Some(Input::Due { at }));
                }
                _ => return Ok(None),
            }
        }
    }

    fn instant(&self) -> Instant {
        match self.instant {
            true => Instant::Own,
            false => Instant::Nothing,
        }
    }

    fn applied_at_once(&mut self, view: View<'_>, plan: &Plan) {
        // The jobs that the plan stopped leave first.
        for i in 0..self.jobs.len() {
            let id = JobId(i as u32);
            let current = view.job(id);
            let stays =
                |j: &JobRef<'_>| j.phase() == Phase::Running && j.attempt() == self.jobs[i].attempt;
            if self.jobs[i].truth == Truth::Running && !current.as_ref().is_some_and(stays) {
                self.settle(id);
                self.new_token(id);
                self.leave(id, Truth::Idle);
            }
        }
        for action in &plan.actions {
            let Action::Place { job, .. } = action else {
                continue;
            };
            let Some(job) = view.job(*job).filter(|j| j.phase() == Phase::Running) else {
                continue;
            };
            let (id, now) = (job.id(), self.now);
            let gpus = job.bound().map(|a| a.gpus.clone()).unwrap_or_default();
            let its = &mut self.jobs[id.index()];
            its.truth = Truth::Running;
            its.attempt = job.attempt();
            its.gpus = gpus;
            its.launched_with = its.work;
            (its.since, its.began) = (now, now);
            self.jobs[id.index()].rate = job.rate();
            self.schedule_run(id, true);
        }
    }

    fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), Problem> {
        for command in commands {
            self.command(view, command)?;
        }
        Ok(())
    }

    fn refused(&mut self, _: Time, event: &Event, error: EventError) -> Result<(), Problem> {
        Err(Problem::new(
            Property::Commands,
            format!("{event:?} to fit the state"),
            error.to_string(),
        ))
    }

    fn lost_turn(&mut self, _: Time, error: DecisionError) -> Result<(), Problem> {
        let (property, expected) = match &error {
            DecisionError::Panicked { .. } => (Property::Panic, "an answer"),
            DecisionError::False { .. } => {
                (Property::Statement, "true statements about keys and jobs")
            }
            DecisionError::NoNumber { .. } => (Property::Key, "a number as each sort key"),
            _ => (Property::Plan, "a plan that fits the state"),
        };
        Err(Problem::new(
            property,
            expected.to_owned(),
            error.to_string(),
        ))
    }
}
