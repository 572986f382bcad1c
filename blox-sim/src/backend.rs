//! The simulated cluster in virtual time.

use crate::clock::{Kind, Timer, Timers};
use crate::completion::{AtRoundEnd, CompletionRule};
use crate::execution::{AnyExecution, LinkJobs, Reach, beside, on_nodes_of};
use crate::faults::Faults;
use crate::overheads::{AnyOverheads, is_free_for};
use crate::sealed::Sealed;
use crate::stall::Stall;
use crate::workload::Workload;
use crate::{Ended, Measure, SimError, Until, Watch};
use blox_core::SortedMap;
use blox_core::decision::{Action, Command, Plan};
use blox_core::drive::Backend;
use blox_core::input::{Input, Instant};
use blox_core::{
    ActionId, AnyMemory, Assignment, DecisionError, Event, EventError, GpuId, JobId, JobRef,
    JobSpec, LOSS, NameId, Node, NodeAction, NodeId, NodeSpec, NodeStatus, Outcome, Phase, Reason,
    Seconds, Submission, Time, View, Wanted, sort,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Seconds of work that may be left by rounding at the end of a job.
const SPENT_S: f64 = 1e-6;

/// The most jobs that are drawn after the end of a simulation: of a workload with an end, and of one
/// that may be endless.
const MOST_DRAWN: [u32; 2] = [10_000_000, 100_000];

/// Returns whether an event no longer applies. A plan may change or stop a job and end it at once.
/// Two jobs may crash with one node. A node that is leaving may be ordered to leave again.
fn is_over(event: &Event, view: View<'_>) -> bool {
    let status = |node: &NodeId| view.cluster().node(*node).map(|n| n.status());
    let (job, attempt, phase) = match event {
        Event::Started { job, attempt, .. } => (job, attempt, Phase::Starting),
        Event::Stopped { job, attempt, .. } => (job, attempt, Phase::Stopping),
        Event::Progress { job, attempt, .. } => (job, attempt, Phase::Running),
        Event::Crashed { job, attempt, .. } => {
            let other = |j: JobRef<'_>| j.attempt() != *attempt || j.phase() == Phase::Waiting;
            return view.job(*job).is_none_or(other);
        }
        Event::LaunchFailed { job, attempt, .. } => {
            let begins = |j: &JobRef<'_>| matches!(j.phase(), Phase::Starting | Phase::Stopping);
            let other = |j: JobRef<'_>| j.attempt() != *attempt || !begins(&j);
            return view.job(*job).is_none_or(other);
        }
        Event::BatchChanged { job, .. } | Event::Ended { job, .. } => {
            return view.job(*job).is_none_or(|j| j.phase() == Phase::Ended);
        }
        Event::NodeReturned { node } => return status(node) == Some(NodeStatus::Up),
        Event::NodeLeft { node } => return status(node) == Some(NodeStatus::Left),
        _ => return false,
    };
    let current = view.job(*job);
    current.is_none_or(|j| j.attempt() != *attempt || j.phase() != phase)
}

/// Returns the number of whole epochs in an amount of work, which may be slightly too small by
/// rounding.
fn epochs(work: f64, epoch: f64) -> f64 {
    (work / epoch + 1e-9).floor()
}

/// Returns whether a number is finite and not negative.
fn is_amount(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

/// Returns whether a job is a service. It ends after its duration, with GPUs or without.
#[inline]
fn is_service(job: &Submission) -> bool {
    job.extras
        .as_ref()
        .is_some_and(|extras| extras.need.is_some())
}

/// Returns whether a job has no work left, up to rounding.
fn is_spent(job: &JobRef<'_>) -> bool {
    job.truth().work_left() <= SPENT_S * job.rate()
}

/// Describes where a job is: its GPU types, and the jobs beside it.
fn whereabouts(view: View<'_>, job: &JobRef<'_>) -> String {
    let cluster = view.cluster();
    let model = |job: &JobRef<'_>| match &job.spec().extras().model {
        Some(model) => format!("job {} ({model})", job.id()),
        None => format!("job {}", job.id()),
    };
    let gpus = job.bound().map_or(&[][..], |bound| &bound.gpus);
    let mut types: Vec<&str> = gpus
        .iter()
        .filter_map(|gpu| {
            cluster
                .gpu_types()
                .get(NameId(cluster.node_with(*gpu)?.gpu_type().0))
        })
        .map(|name| &**name)
        .collect();
    types.sort_unstable();
    types.dedup();
    let types = match types.join(", ") {
        none if none.is_empty() => "GPUs without a type".to_owned(),
        types => format!("GPU type {types}"),
    };
    let own = job.spec().extras().model.as_ref();
    let own = own.map_or(String::new(), |own| format!("as {own} "));
    let others = beside(view, job.id(), gpus);
    let others: Vec<String> = others
        .into_iter()
        .filter_map(|other| view.job(other))
        .map(|other| model(&other))
        .collect();
    match others.is_empty() {
        true => format!("{own}on {types}"),
        false => format!("{own}on {types} beside {}", others.join(", ")),
    }
}

/// Completion rule of a simulation. The default rule is called for every launch, so its call is
/// static.
#[derive(Clone)]
pub(crate) enum Completion {
    AtRoundEnd(AtRoundEnd),
    Other(Arc<dyn CompletionRule>),
}

impl Completion {
    #[inline]
    fn seen(&self, start: Time, left: f64, rate: f64) -> Time {
        match self {
            Completion::AtRoundEnd(rule) => rule.seen(start, left, rate),
            Completion::Other(rule) => rule.seen(start, left, rate),
        }
    }
}

/// Components of the simulated world.
#[derive(Clone)]
pub(crate) struct SimulatedWorld {
    pub execution: Arc<dyn AnyExecution>,
    pub overheads: Arc<dyn AnyOverheads>,
    pub completion: Completion,
    /// Seed of the components' memories.
    pub seed: u64,
}

/// The simulated cluster.
pub(crate) struct Simulator<'w> {
    workload: &'w mut dyn Workload,
    next_job: Option<Arc<JobSpec>>,
    next_id: u32,
    exhausted: bool,
    timers: Timers,
    /// Injected events, the next one last.
    script: Vec<(Time, Event)>,
    now_events: VecDeque<Event>,
    /// Nodes that are not up yet, by number of boot, with the action that requested each.
    booting: SortedMap<u32, (ActionId, Event)>,
    /// Number of boots.
    boots: u32,
    execution: Arc<dyn AnyExecution>,
    execution_memory: AnyMemory,
    overheads: Arc<dyn AnyOverheads>,
    overheads_memory: AnyMemory,
    completion: Completion,
    pub(crate) faults: Faults,
    measure: Measure,
    watch: Arc<Watch>,
    history: SortedMap<JobId, Assignment>,
    /// True if jobs without extras, alone on their GPUs, run at their specified rate.
    plain_rates: bool,
    /// Jobs that a change of one job affects.
    reach: Reach,
    /// The jobs of each link, kept for a reach over links.
    linked: LinkJobs,
    /// True if there was a job with nonzero costs of launches or stops.
    charges: bool,
    /// True if each launch and stop is an event, even if it takes no time.
    pub(crate) each: bool,
    /// End times of jobs whose rate changed since their launch; their other timers are void.
    moved_ends: SortedMap<JobId, Time>,
    /// The next loss reports, or the last ones until the next are scheduled; other timers are void.
    reports: SortedMap<JobId, LossReport>,
    /// Times at which jobs next change their own rate; other timers are void.
    turns: SortedMap<JobId, Time>,
    /// Work that a crash preserves, for jobs whose rate changed since their launch.
    kept: SortedMap<JobId, Kept>,
    after: After,
    /// Measured jobs that were submitted and may not have ended, in order of submission.
    open: VecDeque<JobId>,
    stall: Stall,
    /// Time at which the simulation ends.
    horizon: Time,
    /// Number of completed jobs at which it ends.
    enough: u64,
    /// Number of completed jobs.
    completed: u64,
    /// True if measured jobs may starve.
    may_starve: bool,
    /// Number of decisions.
    decisions: u64,
    pub(crate) now: Time,
    /// Error of a launch.
    failed: Option<SimError>,
    /// True if the last event was injected.
    scripted: bool,
    pub(crate) ended: Ended,
}

/// A loss report at the end of an epoch.
#[derive(Clone, Copy, Debug)]
struct LossReport {
    at: Time,
    attempt: u32,
    /// Number of finished epochs that it reports.
    epochs: f64,
    /// True once the report was made.
    made: bool,
}

/// Work of a job that a crash preserves until the job's next checkpoint.
#[derive(Clone, Copy, Debug)]
struct Kept {
    attempt: u32,
    /// Time of the last change of its rate.
    until: Time,
    /// Iterations done at the last checkpoint before that time, or at the launch.
    work: f64,
}

/// Follow-up work of the simulator after the state has accepted an event.
#[derive(Clone, Debug, Default)]
enum After {
    #[default]
    Nothing,
    Started(JobId),
    NewRate(JobId),
    Reported(JobId),
    Left(Vec<JobId>),
    NodeLost(NodeId),
    NodeJoined,
}

impl<'w> Simulator<'w> {
    #[allow(clippy::too_many_arguments, reason = "one caller, in this crate")]
    pub(crate) fn new(
        workload: &'w mut dyn Workload,
        world: SimulatedWorld,
        faults: Faults,
        measure: Measure,
        watch: Arc<Watch>,
        nodes: usize,
    ) -> Result<Self, SimError> {
        let reach = world.execution.any_reach();
        let plain_rates = world.execution.any_keeps_plain_rates(Sealed) && reach == Reach::Gpus;
        let next_job = workload.next_job()?.map(Arc::new);
        let mut sim = Simulator {
            exhausted: next_job.is_none(),
            workload,
            next_job,
            next_id: 0,
            timers: Timers::default(),
            script: Vec::new(),
            now_events: VecDeque::new(),
            booting: SortedMap::new(),
            boots: 0,
            execution_memory: world.execution.any_initial(world.seed),
            execution: world.execution,
            overheads_memory: world.overheads.any_initial(world.seed),
            overheads: world.overheads,
            completion: world.completion,
            faults,
            measure,
            watch,
            history: SortedMap::new(),
            plain_rates,
            reach,
            linked: LinkJobs::default(),
            charges: false,
            each: false,
            moved_ends: SortedMap::new(),
            reports: SortedMap::new(),
            turns: SortedMap::new(),
            kept: SortedMap::new(),
            after: After::Nothing,
            open: VecDeque::new(),
            stall: Stall::default(),
            horizon: Time::new(f64::MAX),
            enough: u64::MAX,
            completed: 0,
            may_starve: false,
            decisions: 0,
            now: Time::ZERO,
            failed: None,
            scripted: false,
            ended: Ended::Finished,
        };
        for node in 0..nodes as u32 {
            sim.expect_failure(NodeId(node), 1);
        }
        Ok(sim)
    }

    /// Sets the limit of the simulation.
    pub(crate) fn until(mut self, until: Until) -> Self {
        match until {
            Until::Progress => self.may_starve = !self.workload.is_finite(),
            Until::Finished => {}
            Until::Time(at) => self.horizon = at,
            Until::Completed(jobs) => self.enough = jobs,
        }
        self
    }

    /// Injects events at their moments. Events of one moment keep their order.
    pub(crate) fn with_script(mut self, mut script: Vec<(Time, Event)>) -> Self {
        sort::by_key(&mut script, |(at, _)| *at);
        script.reverse();
        for (at, _) in &script {
            self.timers.add(*at, Kind::Scripted, 0, 0);
        }
        self.script = script;
        self
    }

    /// Starts from a state in which jobs already run.
    pub(crate) fn resume(&mut self, view: View<'_>) {
        self.now = view.now();
        self.next_id = view.next_job_id().0;
        if self.reach == Reach::Links {
            self.linked = LinkJobs::of(view);
        }
        self.open = (0..self.next_id).map(JobId).collect();
        let mut live = (0..self.next_id).filter_map(|id| view.job(JobId(id)));
        self.charges = live.any(|job| !is_free_for(&*self.overheads, job.spec()));
        for id in 0..self.next_id {
            let live = |job: &JobRef<'_>| job.phase() != Phase::Ended;
            if let Some(job) = view.job(JobId(id)).filter(live)
                && is_service(job.spec())
            {
                let end = job.submit() + job.truth().duration();
                self.timers.add(end.max(self.now), Kind::Served, id, 0);
            }
        }
        for job in view.placed() {
            match job.phase() {
                Phase::Running => {
                    self.expect_one_end(view, &job);
                }
                // Pending launches and stops finish at once.
                Phase::Starting if job.bound().is_some() => {
                    self.begin(view, job.id(), job.attempt())
                }
                Phase::Stopping => self.now_events.push_back(Event::Stopped {
                    job: job.id(),
                    attempt: job.attempt(),
                    work: None,
                }),
                _ => {}
            }
        }
    }

    fn expect_failure(&mut self, node: NodeId, nth: u32) {
        if let Some(runs) = self.faults.node_runs(node, nth) {
            self.timers
                .add(self.now + runs, Kind::NodeLost, node.0, nth);
        }
    }

    /// Returns whether a job that is alone on its GPUs runs at its specified rate and keeps it.
    #[inline]
    fn is_plain(&self, job: &JobRef<'_>) -> bool {
        let as_asked = |bound: &Assignment| bound.count() == job.gpus();
        self.plain_rates && !job.has_extras() && job.bound().is_some_and(as_asked)
    }

    /// Schedules the end of a job that runs from now on. `PLAIN` is the result of
    /// [`Simulator::is_plain`]: code for other jobs costs plain ones instructions. Returns the time
    /// at which the end is seen.
    #[inline(always)]
    fn expect_end<const PLAIN: bool>(&mut self, view: View<'_>, job: &JobRef<'_>) -> Option<Time> {
        let (now, rate) = (view.now(), job.rate());
        let mut end = None;
        let stretch = match PLAIN {
            true => None,
            false => self
                .execution
                .any_stretch(&mut self.execution_memory, view, job),
        };
        if let Some(stretch) = stretch {
            let until = stretch.until.max(now);
            if stretch.ends {
                end = Some(until);
                self.turns.remove(&job.id());
            } else {
                self.timers
                    .add(until, Kind::Turn, job.id().0, job.attempt());
                self.turns.insert(job.id(), until);
            }
            let config = stretch.config;
            if !config.is_none() && *job.config() != config {
                let job = job.id();
                self.now_events
                    .push_back(Event::BatchChanged { job, config });
            }
        } else if rate > 0.0 && (PLAIN || !is_service(job.spec())) {
            end = Some(
                self.completion
                    .seen(now, job.truth().work_left(), rate)
                    .max(now),
            );
        }
        if let Some(at) = end {
            self.timers.add(at, Kind::End, job.id().0, job.attempt());
        }
        // Checked here: most jobs report nothing.
        if !PLAIN && job.has_extras() {
            self.expect_report(job, now);
        }
        end
    }

    /// Like [`Simulator::expect_end`], for any job.
    fn expect_one_end(&mut self, view: View<'_>, job: &JobRef<'_>) -> Option<Time> {
        match self.is_plain(job) {
            true => self.expect_end::<true>(view, job),
            false => self.expect_end::<false>(view, job),
        }
    }

    /// Schedules the report at the end of the job's next epoch.
    fn expect_report(&mut self, job: &JobRef<'_>, now: Time) {
        let rate = job.rate();
        let Some(loss) = job.spec().extras().loss.filter(|_| rate > 0.0) else {
            return;
        };
        // In an epoch that is shorter than the clock can resolve, no work is seen to be done.
        let last = self.reports.get(&job.id());
        let last = last.filter(|r| r.attempt == job.attempt());
        let known = last.map_or(0.0, |r| if r.made { r.epochs } else { r.epochs - 1.0 });
        let next = epochs(job.work_done(), loss.epoch).max(known) + 1.0;
        let at_work = next * loss.epoch;
        if at_work > job.truth().work().iterations * (1.0 + 1e-9) {
            return;
        }
        let at = now + Seconds::new((at_work - job.work_done()).max(0.0) / rate);
        let report = LossReport {
            at,
            attempt: job.attempt(),
            epochs: next,
            made: false,
        };
        self.reports.insert(job.id(), report);
        self.timers.add(at, Kind::Report, job.id().0, job.attempt());
    }

    /// Schedules the events that follow from a launch.
    fn expect_all<const PLAIN: bool>(&mut self, view: View<'_>, job: &JobRef<'_>) {
        if !self.moved_ends.is_empty() {
            self.moved_ends.remove(&job.id());
        }
        self.expect_end::<PLAIN>(view, job);
        if let Some(runs) = self.faults.job_runs(job.id(), job.attempt()) {
            self.timers
                .add(view.now() + runs, Kind::Crash, job.id().0, job.attempt());
        }
    }

    /// Returns the job's loss report that is due at `at`; `None` if there is none.
    fn report(&mut self, job: &JobRef<'_>, at: Time) -> Option<Event> {
        let loss = job.spec().extras().loss?;
        let report = self.reports.get_mut(&job.id())?;
        if report.made || report.at != at {
            return None;
        }
        report.made = true;
        Some(Event::Metric {
            job: job.id(),
            name: LOSS.into(),
            value: loss.curve.at(report.epochs),
        })
    }

    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, bound: &Assignment) -> f64 {
        let memory = &mut self.execution_memory;
        self.execution.any_rate(memory, view, job, bound)
    }

    /// Records an error of the execution model about a job.
    #[cold]
    fn blame(&mut self, view: View<'_>, job: &JobRef<'_>, given: String) {
        let (at, model) = (self.now.max(view.now()), self.execution.any_name());
        let job = job.id();
        self.failed.get_or_insert(SimError::Speed {
            at,
            model,
            job,
            given,
        });
    }

    /// Returns whether a job can be launched at a rate. Otherwise records an error.
    #[inline]
    fn launches(&mut self, view: View<'_>, job: &JobRef<'_>, rate: f64) -> bool {
        let sound = rate.is_finite() && rate > 0.0;
        if !sound {
            let lies = whereabouts(view, job);
            let given = match rate == 0.0 {
                true => format!("no speed {lies}"),
                false => format!("the rate {rate} {lies}, expected a finite number above 0"),
            };
            self.blame(view, job, given);
        }
        sound
    }

    fn begin(&mut self, view: View<'_>, id: JobId, attempt: u32) {
        if let Some(job) = view.job(id) {
            self.begun(view, &job, attempt);
        }
    }

    fn begun(&mut self, view: View<'_>, job: &JobRef<'_>, attempt: u32) {
        let Some(bound) = job.bound() else { return };
        let rate = self.rate(view, job, bound);
        if self.launches(view, job, rate) {
            self.now_events.push_back(Event::Started {
                job: job.id(),
                attempt,
                rate,
            });
        }
    }

    /// Updates a job's rate, which may have changed because another job started or stopped. A job
    /// without work left keeps its end, which the completion rule may show later.
    fn refresh(&mut self, view: View<'_>, job: JobId) {
        let Some(job) = view.job(job) else {
            return;
        };
        if is_spent(&job) && !self.turns.contains_key(&job.id()) {
            return;
        }
        if let (Phase::Running, Some(bound)) = (job.phase(), job.bound()) {
            let rate = self.rate(view, &job, bound);
            if !is_amount(rate) {
                let given = format!("the rate {rate}, expected a finite number, at least 0");
                self.blame(view, &job, given);
            } else if rate != self.coming_rate(view, &job) {
                self.now_events.push_back(Event::Progress {
                    job: job.id(),
                    attempt: job.attempt(),
                    work: job.work_done(),
                    rate,
                });
            }
        }
    }

    /// Returns every running job with its rate, and with the rate that a copy of the model's memory
    /// gives it now.
    pub(crate) fn rates(&self, view: View<'_>) -> Vec<(JobId, f64, Option<f64>)> {
        let running = view.placed().filter(|job| job.phase() == Phase::Running);
        let rate = |job: JobRef<'_>| {
            let bound = job.bound()?;
            let (model, mut memory) = (&self.execution, self.execution_memory.clone());
            let keeps = is_spent(&job) || model.any_stretch(&mut memory, view, &job).is_some();
            let mut memory = self.execution_memory.clone();
            let again = || model.any_rate(&mut memory, view, &job, bound);
            Some((job.id(), job.rate(), (!keeps).then(again)))
        };
        running.filter_map(rate).collect()
    }

    /// Returns the rate of a job after all events of this moment. If several jobs start and stop at
    /// one moment, each requires new rates of the jobs near it.
    fn coming_rate(&self, view: View<'_>, job: &JobRef<'_>) -> f64 {
        let coming = |event: &Event| match event {
            Event::Progress { job: j, rate, .. } if *j == job.id() => Some(*rate),
            _ => None,
        };
        let shares = |bound: &Assignment| {
            let mut gpus = bound.gpus.iter();
            gpus.any(|gpu| view.cluster().is_shared(*gpu))
        };
        let last = match self.reach > Reach::Gpus || job.bound().is_some_and(shares) {
            true => self.now_events.iter().rev().find_map(coming),
            false => None,
        };
        last.unwrap_or(job.rate())
    }

    /// Returns the other jobs whose rate may change with a job on `gpus`.
    fn near(&self, view: View<'_>, job: JobId, gpus: &[GpuId]) -> Vec<JobId> {
        self.reach.of(view, job, gpus, &self.linked)
    }

    fn refresh_all(&mut self, view: View<'_>, jobs: Vec<JobId>) {
        for job in jobs {
            self.refresh(view, job);
        }
    }

    fn submit(&mut self, spec: Arc<JobSpec>) -> Result<Event, SimError> {
        let job = JobId(self.next_id);
        self.next_id += 1;
        self.watch
            .submitted
            .store(u64::from(self.next_id), Ordering::Relaxed);
        self.charges |= !is_free_for(&*self.overheads, &spec);
        if self.measure.includes(job, spec.submit) {
            self.open.push_back(job);
        }
        let last = spec.submit;
        match self.workload.next_job()? {
            Some(next) if next.submit < last => {
                return Err(SimError::Unordered {
                    job: JobId(self.next_id),
                    found: next.submit,
                    last,
                });
            }
            Some(next) => self.next_job = Some(Arc::new(next)),
            None => self.exhausted = true,
        }
        Ok(Event::Submitted { job, spec })
    }

    /// Returns whether every measured job was submitted.
    #[inline]
    fn all_in(&self) -> bool {
        match &self.next_job {
            None => self.exhausted,
            Some(next) => self.measure.is_past(JobId(self.next_id), next.submit),
        }
    }

    /// Counts the measured jobs that were not submitted, by drawing the rest of the workload. If it is
    /// too long, the jobs that are selected by number count as named, and others do not count. If a
    /// workload may be endless, all its jobs are those that were submitted.
    pub(crate) fn count_unsubmitted(&mut self) -> Result<u64, SimError> {
        let finite = self.workload.is_finite();
        if !finite && self.measure == Measure::All {
            return Ok(0);
        }
        let most = self
            .next_id
            .saturating_add(MOST_DRAWN[usize::from(!finite)]);
        let mut count = 0;
        while let Some(next) = self.next_job.take() {
            if self.measure.is_past(JobId(self.next_id), next.submit) {
                break;
            }
            if self.next_id >= most {
                return Ok(count + self.measure.numbers_from(self.next_id));
            }
            count += u64::from(self.measure.includes(JobId(self.next_id), next.submit));
            self.next_id += 1;
            self.next_job = self.workload.next_job()?.map(Arc::new);
        }
        Ok(count)
    }

    /// Returns whether every measured job was submitted and has ended.
    #[inline]
    fn is_done(&mut self, view: View<'_>) -> bool {
        self.all_in() && self.is_empty(view)
    }

    /// Returns whether no measured job is live.
    fn is_empty(&mut self, view: View<'_>) -> bool {
        let is_live = |id: JobId| view.job(id).is_some_and(|j| j.phase() != Phase::Ended);
        while let Some(&first) = self.open.front() {
            if is_live(first) {
                return false;
            }
            self.open.pop_front();
        }
        true
    }

    /// Returns how the simulation ends if it must stop now, before every measured job has ended.
    #[inline]
    fn broken_off(&self) -> Option<Ended> {
        if self.watch.stop.load(Ordering::Relaxed) {
            Some(Ended::Interrupted)
        } else if self.completed >= self.enough {
            Some(Ended::Horizon)
        } else {
            self.stall.crashes()
        }
    }

    /// Checks the progress of jobs by `now`, if a check is due. Returns how the simulation ends if
    /// it gets no further.
    #[inline]
    fn look(&mut self, view: View<'_>, now: Time) -> Option<Ended> {
        if !self.stall.looks(now, self.decisions) {
            return None;
        }
        let arrivals = self.next_job.is_some();
        let starving = self.may_starve && arrivals && self.all_in();
        let measured = starving.then_some(&mut self.open);
        self.stall
            .look(view, (now, self.decisions), arrivals, measured)
    }

    /// Returns the event of a timer; `None` if it belongs to a launch that is over.
    fn fire(&mut self, t: Timer, view: View<'_>) -> Option<Event> {
        let job = JobId(t.who);
        let current = |phase: Phase| {
            view.job(job)
                .filter(|j| j.attempt() == t.nth && j.phase() == phase)
        };
        match t.kind {
            Kind::End => {
                current(Phase::Running)?;
                if self.moved_ends.get(&job).is_some_and(|at| *at != t.at) {
                    return None;
                }
                Some(Event::Ended {
                    job,
                    outcome: Outcome::Completed,
                })
            }
            Kind::Served => {
                view.job(job).filter(|j| j.phase() != Phase::Ended)?;
                Some(Event::Ended {
                    job,
                    outcome: Outcome::Completed,
                })
            }
            Kind::Stopped => {
                current(Phase::Stopping)?;
                Some(Event::Stopped {
                    job,
                    attempt: t.nth,
                    work: None,
                })
            }
            Kind::Started => {
                current(Phase::Starting)?;
                self.begin(view, job, t.nth);
                self.now_events.pop_back()
            }
            Kind::Crash => {
                let j = current(Phase::Running)?;
                Some(self.crash(view, j.id(), t.at, Reason::Crashed))
            }
            Kind::Report => {
                let j = current(Phase::Running)?;
                self.report(&j, t.at)
            }
            Kind::Turn => {
                let j = current(Phase::Running)?;
                if self.turns.get(&job) != Some(&t.at) {
                    return None;
                }
                let turn = self
                    .execution
                    .any_turn(&mut self.execution_memory, view, &j, t.at)?;
                if !is_amount(turn.work) || !is_amount(turn.rate) {
                    let (work, rate) = (turn.work, turn.rate);
                    let given = format!(
                        "the work {work} and the rate {rate} after a stretch, expected finite numbers, at least 0"
                    );
                    self.blame(view, &j, given);
                    return None;
                }
                let progress = Event::Progress {
                    job,
                    attempt: t.nth,
                    work: turn.work,
                    rate: turn.rate,
                };
                match turn.report {
                    Some(report) => {
                        self.now_events.push_back(progress);
                        Some(Event::Reported { job, report })
                    }
                    None => Some(progress),
                }
            }
            Kind::NodeLost => {
                let node = NodeId(t.who);
                let status = view.cluster().node(node)?.status();
                if status == NodeStatus::Left {
                    return None;
                }
                let away = self.faults.node_away(node, t.nth);
                self.timers
                    .add(t.at + away, Kind::NodeReturned, t.who, t.nth);
                (status == NodeStatus::Up).then_some(Event::NodeLost { node })
            }
            Kind::Scripted => self.script.pop().map(|(_, event)| event),
            Kind::Booted => {
                let (action, event) = self.booting.remove(&t.who)?;
                let stands = match &event {
                    // A failure may have ended meanwhile, and a later action may decide.
                    Event::NodeReturned { node } => {
                        let wanted = view.cluster().node(*node)?.wanted();
                        wanted == Some(Wanted::On(action))
                    }
                    _ => true,
                };
                stands.then_some(event)
            }
            Kind::NodeReturned => {
                let node = NodeId(t.who);
                self.expect_failure(node, t.nth + 1);
                view.cluster()
                    .node(node)
                    .filter(|n| n.status() == NodeStatus::Lost)?;
                Some(Event::NodeReturned { node })
            }
        }
    }

    /// Returns the crash of a job at `at`, which may be later than the view.
    fn crash(&self, view: View<'_>, id: JobId, at: Time, why: Reason) -> Event {
        let job = view.job(id);
        Event::Crashed {
            job: id,
            attempt: job.as_ref().map_or(0, |j| j.attempt()),
            work: job.map_or(0.0, |j| self.kept(&j, at)),
            why,
        }
    }

    /// Returns the iterations that a job would keep if it crashed at `at`, which may be later than
    /// the view. These are the iterations at its last checkpoint, or at its launch.
    fn kept(&self, job: &JobRef<'_>, at: Time) -> f64 {
        let (Phase::Running, Some(start)) = (job.phase(), job.last_start()) else {
            return job.work_done();
        };
        let saved = at - self.faults.unsaved(at - start);
        match self.kept.get(&job.id()) {
            Some(k) if k.attempt == job.attempt() && saved < k.until => k.work,
            _ => job.work_done_by(saved.max(start)).max(0.0),
        }
    }

    /// Schedules what follows from the event that the state has just accepted.
    fn follow_up(&mut self, view: View<'_>) {
        match std::mem::take(&mut self.after) {
            After::Nothing => {}
            After::Started(id) => {
                let Some(job) = view.job(id) else { return };
                match self.is_plain(&job) {
                    true => self.expect_all::<true>(view, &job),
                    false => self.expect_all::<false>(view, &job),
                }
                let bound = job.bound().map_or(&[][..], |bound| &bound.gpus);
                let near = self.near(view, id, bound);
                if !near.is_empty() || self.reach > Reach::Gpus {
                    // If jobs start at the same time, none was running when their rates were
                    // computed.
                    self.refresh(view, id);
                    self.refresh_all(view, near);
                }
            }
            After::NewRate(job) => {
                self.moved_ends.remove(&job);
                let its = view.job(job);
                let at = its.and_then(|job| self.expect_one_end(view, &job));
                // The earlier timer for the same launch still exists.
                self.moved_ends
                    .insert(job, at.unwrap_or(Time::new(f64::MAX)));
            }
            After::Reported(job) => {
                if let Some(job) = view.job(job) {
                    self.expect_report(&job, view.now());
                }
            }
            After::Left(near) => self.refresh_all(view, near),
            After::NodeJoined => {
                if let Some(node) = view.cluster().nodes().last() {
                    self.expect_failure(node.id(), 1);
                }
            }
            After::NodeLost(node) => {
                let mut hit: Vec<JobId> = view
                    .cluster()
                    .node(node)
                    .into_iter()
                    .flat_map(|n| n.gpus())
                    .flat_map(|g| view.cluster().bound_to(g))
                    .collect();
                hit.sort_unstable();
                hit.dedup();
                for job in hit {
                    let event = self.crash(view, job, self.now, Reason::NodeLost);
                    self.now_events.push_back(event);
                }
            }
        }
    }

    /// Passes an event to the core, and records the follow-up work.
    fn emit(&mut self, at: Time, event: Event, view: View<'_>) -> Input {
        self.note(at, &event, view);
        Input::Event { at, event }
    }

    fn note(&mut self, at: Time, event: &Event, view: View<'_>) {
        let left = |sim: &Self, job: JobId| {
            let bound = view.job(job).and_then(|j| j.bound());
            let gpus = bound.map_or(&[][..], |bound| &bound.gpus);
            After::Left(sim.near(view, job, gpus))
        };
        self.after = match event {
            Event::Started { job, .. } => After::Started(*job),
            Event::Progress { job, attempt, .. } => {
                if let Some(its) = view.job(*job) {
                    let kept = Kept {
                        attempt: *attempt,
                        until: at,
                        work: self.kept(&its, at),
                    };
                    self.kept.insert(*job, kept);
                }
                After::NewRate(*job)
            }
            Event::NodeJoined { .. } => After::NodeJoined,
            Event::Metric { job, .. } => After::Reported(*job),
            Event::Submitted { job, spec } if is_service(spec) => {
                self.timers
                    .add(at + spec.duration(), Kind::Served, job.0, 0);
                After::Nothing
            }
            Event::NodeLost { node } | Event::NodeLeft { node } => After::NodeLost(*node),
            Event::Ended { job, outcome } => {
                let done = matches!(outcome, Outcome::Completed | Outcome::Terminated);
                self.completed += u64::from(done);
                if self.charges {
                    self.history.remove(job);
                }
                self.moved_ends.remove(job);
                self.reports.remove(job);
                self.turns.remove(job);
                self.kept.remove(job);
                left(self, *job)
            }
            Event::Crashed { job, .. } => left(self, *job),
            _ => After::Nothing,
        };
        self.now = at;
    }
}

impl Backend for Simulator<'_> {
    type Error = SimError;

    fn next(&mut self, due: Option<Time>, view: View<'_>) -> Result<Option<Input>, SimError> {
        self.watch.deciding.store(false, Ordering::Relaxed);
        if let Some(input) = self.ready(view) {
            return Ok(Some(input));
        }
        loop {
            if self.failed.is_some() {
                return self.failed.take().map_or(Ok(None), Err);
            }
            if let Some(ended) = self.broken_off() {
                self.ended = ended;
                return Ok(None);
            }
            let timer = self.timers.first();
            // The decision at the moment at which the last measured job ended is still made: it
            // belongs to that round.
            if self.is_done(view) && due != Some(self.now) && timer.is_none_or(|t| t.at > self.now)
            {
                return Ok(None);
            }
            let arrival = self.next_job.as_ref().map(|j| j.submit.max(self.now));
            let until = due.unwrap_or(Time::new(f64::MAX)).min(self.horizon);
            match (timer, arrival) {
                (Some(t), a) if t.at <= until && a.is_none_or(|a| t.at <= a) => {
                    self.timers.pop();
                    self.now = self.now.max(t.at);
                    self.scripted = t.kind == Kind::Scripted;
                    if let Some(event) = self.fire(t, view) {
                        return Ok(Some(self.emit(self.now, event, view)));
                    }
                    // Failures and returns of powered-off nodes have no visible effect and never
                    // end.
                    if let Some(ended) = self.look(view, self.now) {
                        self.ended = ended;
                        return Ok(None);
                    }
                }
                (_, Some(a)) if a <= until => {
                    self.scripted = false;
                    if let Some(spec) = self.next_job.take() {
                        let event = self.submit(spec)?;
                        return Ok(Some(self.emit(a, event, view)));
                    }
                }
                (None, None) if due.is_none() => {
                    self.ended = Ended::Standstill;
                    return Ok(None);
                }
                _ => break,
            }
        }
        let Some(at) = due.filter(|at| *at < self.horizon) else {
            self.ended = Ended::Horizon;
            self.now = self.horizon;
            return Ok(None);
        };
        if let Some(ended) = self.look(view, at) {
            self.ended = ended;
            return Ok(None);
        }
        self.now = at;
        self.decisions += 1;
        self.watch
            .decisions
            .store(self.decisions, Ordering::Relaxed);
        self.watch
            .simulated_s
            .store(at.secs() as u64, Ordering::Relaxed);
        self.watch.deciding.store(true, Ordering::Relaxed);
        Ok(Some(Input::Due { at }))
    }

    fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), SimError> {
        self.watch.deciding.store(false, Ordering::Relaxed);
        self.timers.tidy(view);
        for command in commands {
            match command {
                Command::Stop { job, attempt, .. } => {
                    let Some(j) = view.job(*job) else { continue };
                    if self.charges
                        && let Some(bound) = j.bound()
                    {
                        self.history.insert(*job, bound.clone());
                    }
                    if let Some(bound) = j.bound() {
                        self.refresh_all(view, self.near(view, *job, &bound.gpus));
                    }
                    let takes = self
                        .overheads
                        .any_stop(&mut self.overheads_memory, view, &j);
                    if takes > Seconds::ZERO {
                        self.timers
                            .add(view.now() + takes, Kind::Stopped, job.0, *attempt);
                    } else {
                        self.now_events.push_back(Event::Stopped {
                            job: *job,
                            attempt: *attempt,
                            work: None,
                        });
                    }
                }
                Command::Start { job, attempt } => self.start(view, *job, *attempt, None),
                Command::Change { job, attempt, old } => {
                    self.refresh_all(view, self.near(view, *job, &old.gpus));
                    if old.share.overlaps() {
                        // The jobs there may now use parts of their own.
                        self.refresh_all(view, on_nodes_of(view, &old.gpus));
                    }
                    self.start(view, *job, *attempt, Some(old));
                }
                Command::Finish { job } => self.now_events.push_back(Event::Ended {
                    job: *job,
                    outcome: Outcome::Terminated,
                }),
                Command::Node { id, action } => self.node_action(view, *id, action),
                _ => {}
            }
        }
        self.now = view.now();
        Ok(())
    }

    fn instant(&self) -> Instant {
        let free = !self.charges && self.faults.launch_failure <= 0.0;
        match free && !self.each && self.reach == Reach::Gpus {
            true if self.plain_rates => Instant::Own,
            true => Instant::Stops,
            false => Instant::Nothing,
        }
    }

    fn applied_at_once(&mut self, view: View<'_>, plan: &Plan) {
        self.watch.deciding.store(false, Ordering::Relaxed);
        for action in &plan.actions {
            if let Action::Place { job, .. } = action
                && let Some(job) = view.job(*job)
                && job.phase() == Phase::Running
            {
                self.expect_all::<true>(view, &job);
            }
        }
        self.timers.tidy(view);
    }

    fn applied(&mut self, view: View<'_>, event: &Event) {
        self.stall.applied(view, event);
        if self.reach == Reach::Links {
            self.linked.note(view, event);
        }
        self.execution
            .any_event(&mut self.execution_memory, view, event);
        self.overheads
            .any_event(&mut self.overheads_memory, view, event);
    }

    fn refused(&mut self, at: Time, event: &Event, error: EventError) -> Result<(), SimError> {
        if let Event::Submitted { job, spec } = event
            && let Err(error) = spec.check()
        {
            return Err(SimError::Job { job: *job, error });
        }
        Err(match self.scripted {
            true => SimError::Impossible { at, error },
            false => SimError::Event { at, error },
        })
    }

    fn lost_turn(&mut self, at: Time, error: DecisionError) -> Result<(), SimError> {
        Err(SimError::Policy { at, error })
    }
}

/// The simulator in a loop that reads each input. If `read` returns `None`, the loop ends.
pub(crate) struct Read<'a, 'w, F> {
    pub simulator: &'a mut Simulator<'w>,
    pub read: F,
}

impl<F: FnMut(Input) -> Option<Input>> Backend for Read<'_, '_, F> {
    type Error = SimError;

    fn next(&mut self, due: Option<Time>, view: View<'_>) -> Result<Option<Input>, SimError> {
        let input = self.simulator.next(due, view)?;
        Ok(input.and_then(&mut self.read))
    }

    fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), SimError> {
        self.simulator.carry_out(view, commands)
    }

    fn instant(&self) -> Instant {
        self.simulator.instant()
    }

    fn applied(&mut self, view: View<'_>, event: &Event) {
        self.simulator.applied(view, event);
    }

    fn applied_at_once(&mut self, view: View<'_>, plan: &Plan) {
        self.simulator.applied_at_once(view, plan);
    }

    fn refused(&mut self, at: Time, event: &Event, error: EventError) -> Result<(), SimError> {
        self.simulator.refused(at, event, error)
    }

    fn lost_turn(&mut self, at: Time, error: DecisionError) -> Result<(), SimError> {
        self.simulator.lost_turn(at, error)
    }
}

impl Simulator<'_> {
    /// Returns an event that is already available.
    #[inline]
    fn ready(&mut self, view: View<'_>) -> Option<Input> {
        self.follow_up(view);
        if self.broken_off().is_some() {
            return None;
        }
        let event = loop {
            let event = self.now_events.pop_front()?;
            if !is_over(&event, view) {
                break event;
            }
        };
        self.scripted = false;
        Some(self.emit(self.now, event, view))
    }

    fn start(&mut self, view: View<'_>, id: JobId, attempt: u32, old: Option<&Assignment>) {
        let Some(job) = view.job(id) else { return };
        let Some(bound) = job.bound() else { return };
        let reachable = bound.gpus.iter().all(|g| {
            view.cluster()
                .node_of(*g)
                .and_then(|n| view.cluster().node(n))
                .is_some_and(|n| n.status() == NodeStatus::Up)
        });
        if !reachable || self.faults.launch_fails(id, attempt) {
            let why = if reachable {
                "injected fault"
            } else {
                "node lost"
            };
            self.now_events.push_back(Event::LaunchFailed {
                job: id,
                attempt,
                why: why.into(),
            });
            return;
        }
        let takes = match old {
            Some(old) => {
                self.overheads
                    .any_change(&mut self.overheads_memory, view, &job, old, bound)
            }
            None => {
                let before = if self.charges {
                    self.history.get(&id)
                } else {
                    None
                };
                self.overheads
                    .any_start(&mut self.overheads_memory, view, &job, before, bound)
            }
        };
        if takes > Seconds::ZERO {
            self.timers
                .add(view.now() + takes, Kind::Started, id.0, attempt);
        } else {
            self.begun(view, &job, attempt);
        }
    }

    /// Lets a node come up after the time of its boot.
    fn boot(&mut self, view: View<'_>, action: ActionId, node: &NodeSpec, event: Event) {
        let memory = &mut self.overheads_memory;
        let takes = self.overheads.any_boot(memory, view, node);
        if takes > Seconds::ZERO {
            let boot = self.boots;
            self.boots += 1;
            self.booting.insert(boot, (action, event));
            self.timers.add(view.now() + takes, Kind::Booted, boot, 0);
        } else {
            self.now_events.push_back(event);
        }
    }

    fn node_action(&mut self, view: View<'_>, id: ActionId, action: &NodeAction) {
        match action {
            NodeAction::Power { node, on: true } => {
                if let Some(spec) = view.cluster().node(*node).map(Node::spec) {
                    self.boot(view, id, spec, Event::NodeReturned { node: *node });
                }
            }
            NodeAction::Grow { offer, .. } => {
                let Some(offer) = view.cluster().offer(*offer) else {
                    return;
                };
                let names = view.cluster().growth(id).map(|growth| &growth.names);
                for name in names.into_iter().flatten() {
                    let mut spec = Box::new(offer.spec.clone());
                    spec.name = Some(name.clone());
                    self.boot(view, id, &spec.clone(), Event::NodeJoined { spec });
                }
            }
            NodeAction::Drain { node, .. } => {
                self.now_events.push_back(Event::NodeLeft { node: *node });
            }
            _ => {}
        }
    }
}
