//! Simulations, from components to results.

use crate::backend::{Completion, SimulatedWorld, Simulator};
use crate::completion::{AtRoundEnd, CompletionRule, Exact};
use crate::execution::{AnyExecution, ExecutionModel, as_specified};
use crate::faults::Faults;
use crate::overheads::{AnyOverheads, FixedOverheads, Overheads};
use crate::results::{
    Bills, JobResult, Moment, Occupancy, Recorder, Rent, RoundRow, SharedSink, SharedWaitSink,
    TimelineRow, Usage, WaitRow, Waits,
};
use crate::workload::Workload;
use crate::{Ended, Measure, SimError, Until, Watch, WorkloadInfo};
use blox_core::core::Counters;
use blox_core::drive::drive;
use blox_core::journal::Journal;
use blox_core::runtime::Runtime;
use blox_core::trigger::DecisionTrigger;
use blox_core::{
    ClusterSpec, Event, JobId, MetricCollector, NodeAction, Outcome, Phase, Pipeline, Scheduler,
    Seconds, State, Time, View,
};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A simulation: a cluster, and the components of the simulated world.
///
/// ```
/// use blox_testing::FirstFit;
/// use blox_core::{order::SortKey, policy::by_key, ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time};
/// use blox_sim::{workload::Jobs, Simulation};
///
/// let fifo = Composition::new("fifo")
///     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
///     .placement(FirstFit)
///     .build()?;
/// let mut jobs = Jobs::new(vec![
///     JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(400.0)),
///     JobSpec::new(Time::new(10.0), GpuCount(1), Seconds::new(100.0)),
/// ]);
/// let report = Simulation::new(ClusterSpec::uniform(1, 1)).run(fifo, &mut jobs)?;
/// let finish: Vec<f64> = report.jobs.iter().filter_map(|j| j.finish).map(|t| t.secs()).collect();
/// assert_eq!(finish, [600.0, 900.0]); // seen at the ends of 300 s rounds
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Simulation {
    cluster: ClusterSpec,
    execution: Arc<dyn AnyExecution>,
    overheads: Arc<dyn AnyOverheads>,
    completion: Option<Arc<dyn CompletionRule>>,
    seed: u64,
    faults: Faults,
    script: Vec<(Time, Event)>,
    measure: Measure,
    until: Until,
    keep_rounds: bool,
    keep_timeline: bool,
    assignments: Option<SharedSink>,
    keep_waits: bool,
    waits_to: Option<SharedWaitSink>,
    explain: Option<JobId>,
    visit_every_round: bool,
    forbid_truth: bool,
    collectors: Vec<Box<dyn MetricCollector>>,
    watch: Arc<Watch>,
}

/// Results of a simulation. A file can keep all but the collectors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Report {
    /// Name of the scheduler.
    pub scheduler: String,
    /// One row for each job, in order of job.
    pub jobs: Vec<JobResult>,
    /// Use of the cluster over the whole simulation.
    pub usage: Usage,
    /// Number of measured jobs that were not submitted before the simulation ended early. They have
    /// no row.
    pub unsubmitted: u64,
    /// One row for each visited decision, if requested.
    pub rounds: Vec<RoundRow>,
    /// Usage of the cluster over time, if requested.
    pub timeline: Vec<TimelineRow>,
    /// Reasons why measured jobs waited, if requested; the longest wait first.
    pub waits: Vec<WaitRow>,
    /// History of the explained job, if requested.
    pub story: Vec<Moment>,
    /// Number of measured rigid jobs that ran on another number of GPUs than requested. Their speed
    /// there is not specified.
    pub resized: u64,
    /// Numbers of measured jobs with the data that some policies need.
    pub workload_info: WorkloadInfo,
    /// Counters of the core.
    pub counters: Counters,
    /// True if the scheduler read true durations of jobs ([`JobRef::truth`](blox_core::JobRef::truth)).
    pub knew_truth: bool,
    /// First node action of the cluster manager without effect.
    pub stale_action: Option<NodeAction>,
    /// Kind of the end of the simulation.
    pub ended: Ended,
    /// Time of the end.
    pub end: Time,
    /// Collectors of [`Simulation::collector`], with their data.
    #[serde(skip)]
    pub collected: Collected,
}

impl Report {
    /// Returns the number of measured jobs that the scheduler ended before all work was done. They
    /// count as completed.
    pub fn ended_early(&self) -> u64 {
        let early = |j: &&JobResult| j.measured && j.outcome == Some(Outcome::Terminated);
        self.jobs.iter().filter(early).count() as u64
    }

    /// Counts the reasons of measured jobs that were rejected, or had not ended. For reasons of the
    /// kind `other`, the text of the policy is used. A job that was not submitted has not ended.
    pub fn reasons(&self, rejected: bool) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        if !rejected && self.unsubmitted > 0 {
            counts.insert("not submitted", self.unsubmitted);
        }
        for job in self.jobs.iter().filter(|j| j.measured) {
            if job.outcome.is_some() == rejected
                && let Some(kind) = &job.reason_kind
            {
                let kind = kind.as_str();
                let own = job.reason.as_deref().filter(|_| kind == "other");
                *counts.entry(own.unwrap_or(kind)).or_insert(0) += 1;
            }
        }
        counts
    }
}

/// Collectors of a simulation after its run.
#[derive(Clone, Default)]
pub struct Collected(Vec<Box<dyn MetricCollector>>);

impl Collected {
    /// Returns the first collector of a type; `None` if there is none.
    pub fn get<C: MetricCollector>(&self) -> Option<&C> {
        self.0.iter().find_map(|collector| {
            let any: &dyn std::any::Any = &**collector;
            any.downcast_ref()
        })
    }

    /// Returns the metrics of each collector, in the order in which the collectors were added.
    pub fn figures(&self) -> Vec<Vec<(String, f64)>> {
        self.0.iter().map(|collector| collector.figures()).collect()
    }
}

impl std::fmt::Debug for Collected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} collectors", self.0.len())
    }
}

/// A run before, during or after its turns.
pub(crate) struct Parts<'w> {
    pub core: Runtime,
    pub backend: Simulator<'w>,
    /// Length of a round, if there are rounds.
    pub period: Option<f64>,
}

impl Simulation {
    /// Creates a simulation of a cluster. Jobs run at their specified speed (see [`as_specified`]),
    /// changes cost nothing, and there are no faults. The end of a job is seen at the end of the
    /// round if the scheduler has rounds, otherwise at once.
    pub fn new(cluster: ClusterSpec) -> Self {
        Simulation {
            cluster,
            execution: Arc::new(as_specified()),
            overheads: Arc::new(FixedOverheads::default()),
            completion: None,
            seed: 0,
            faults: Faults::default(),
            script: Vec::new(),
            measure: Measure::All,
            until: Until::default(),
            keep_rounds: false,
            keep_timeline: false,
            assignments: None,
            keep_waits: false,
            waits_to: None,
            explain: None,
            visit_every_round: false,
            forbid_truth: false,
            collectors: Vec::new(),
            watch: Arc::default(),
        }
    }

    /// Sets the execution model.
    #[must_use]
    pub fn execution(mut self, model: impl ExecutionModel) -> Self {
        self.execution = Arc::new(model);
        self
    }

    /// Returns whether a completion rule is set.
    pub(crate) fn has_completion(&self) -> bool {
        self.completion.is_some()
    }

    /// Replaces the execution model by one that wraps it.
    pub(crate) fn wrapped<M: ExecutionModel>(
        mut self,
        wrap: impl FnOnce(Arc<dyn AnyExecution>) -> M,
    ) -> Self {
        self.execution = Arc::new(wrap(self.execution));
        self
    }

    /// Sets the costs of launching, stopping and changing jobs.
    #[must_use]
    pub fn overheads(mut self, overheads: impl Overheads) -> Self {
        self.overheads = Arc::new(overheads);
        self
    }

    /// Sets the seed of execution models and overheads with random numbers (0 by default).
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the completion rule.
    #[must_use]
    pub fn completion(mut self, rule: impl CompletionRule) -> Self {
        self.completion = Some(Arc::new(rule));
        self
    }

    /// Sets the random faults.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Injects an event at a moment: a node joins or leaves (`Event::NodeLost`), a GPU fails, or a
    /// job is cancelled (`Event::Ended`). A failed GPU is not allocated again, but its running job
    /// continues. An event that the state rejects ends the simulation with an error.
    #[must_use]
    pub fn happening(mut self, at: Time, event: Event) -> Self {
        self.script.push((at, event));
        self
    }

    /// Measures only some jobs, and ends when all of them have ended.
    #[must_use]
    pub fn measure(mut self, measure: Measure) -> Self {
        self.measure = measure;
        self
    }

    /// Ends the simulation earlier than when all measured jobs have ended. Results so far are
    /// reported. By default, it also ends if the measured jobs starve ([`Until::Progress`]).
    #[must_use]
    pub fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// Records a row for each visited decision.
    #[must_use]
    pub fn keep_rounds(mut self, yes: bool) -> Self {
        self.keep_rounds = yes;
        self
    }

    /// Records usage of the cluster and length of the queue, in at most 2048 rows.
    #[must_use]
    pub fn keep_timeline(mut self, yes: bool) -> Self {
        self.keep_timeline = yes;
        self
    }

    /// Passes every assignment to a sink when it ends.
    ///
    /// ```
    /// # use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time};
    /// # use blox_core::{order::SortKey, policy::by_key};
    /// # use blox_testing::FirstFit;
    /// use blox_sim::{Simulation, results::AssignmentRow, workload::Jobs};
    /// use std::sync::{Arc, Mutex};
    ///
    /// # let fifo = Composition::new("fifo")
    /// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
    /// #     .placement(FirstFit).build()?;
    /// let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
    /// let mut jobs = Jobs::new(vec![JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(400.0))]);
    /// Simulation::new(ClusterSpec::uniform(1, 4))
    ///     .assignments_to(Some(rows.clone()))
    ///     .run(fifo, &mut jobs)?;
    /// let rows = rows.lock().unwrap();
    /// assert_eq!((rows[0].ranges(), rows[0].end.secs()), (vec![(0, 1)], 600.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn assignments_to(mut self, sink: Option<SharedSink>) -> Self {
        self.assignments = sink;
        self
    }

    /// Records reasons why measured jobs waited, and for how long.
    #[must_use]
    pub fn keep_waits(mut self, yes: bool) -> Self {
        self.keep_waits = yes;
        self
    }

    /// Reports each wait of a measured job, with its reason, when it ends. `None` by default.
    ///
    /// ```
    /// # use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time, order::SortKey};
    /// # use blox_core::policy::by_key;
    /// # use blox_sim::{Simulation, results::WaitSpan, workload::Jobs};
    /// # use std::sync::{Arc, Mutex};
    /// # let fifo = Composition::new("fifo").scheduling(by_key(|_| SortKey::by(0.0)));
    /// # let fifo = fifo.placement(blox_testing::FirstFit).build()?;
    /// let job = |submit| JobSpec::new(Time::new(submit), GpuCount(4), Seconds::new(600.0));
    /// let waits = Arc::new(Mutex::new(Vec::<WaitSpan>::new()));
    /// Simulation::new(ClusterSpec::uniform(1, 4))
    ///     .waits_to(Some(waits.clone()))
    ///     .run(fifo, &mut Jobs::new(vec![job(0.0), job(0.0)]))?;
    /// // The second job waits for the first one.
    /// let waits = waits.lock().unwrap();
    /// let spans: Vec<_> = waits.iter().map(|w| (w.job.0, w.from.secs(), w.to.secs())).collect();
    /// assert_eq!(spans, [(1, 0.0, 600.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn waits_to(mut self, sink: Option<SharedWaitSink>) -> Self {
        self.waits_to = sink;
        self
    }

    /// Records the history of one job.
    #[must_use]
    pub fn explain(mut self, job: Option<JobId>) -> Self {
        self.explain = job;
        self
    }

    /// Visits every round, including rounds without a possible change.
    #[must_use]
    pub fn visiting_every_round(mut self, yes: bool) -> Self {
        self.visit_every_round = yes;
        self
    }

    /// Sets whether the scheduler may read true durations of jobs
    /// ([`JobRef::truth`](blox_core::JobRef::truth)). If not, reading one ends the run with an error
    /// that names the scheduler.
    ///
    /// ```
    /// # use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time};
    /// # use blox_core::{order::SortKey, policy::by_key};
    /// # use blox_testing::FirstFit;
    /// use blox_sim::{Simulation, workload::Jobs};
    ///
    /// let shortest = by_key(|job| SortKey::by(job.truth().duration().secs()));
    /// let shortest = Composition::new("shortest").scheduling(shortest).placement(FirstFit).build()?;
    /// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(400.0));
    /// let mut jobs = Jobs::new(vec![job.clone(), job]);
    /// let simulation = Simulation::new(ClusterSpec::uniform(1, 1));
    /// assert!(simulation.run(shortest.clone(), &mut jobs.clone())?.knew_truth);
    /// let error = simulation.forbidding_truth(true).run(shortest, &mut jobs).unwrap_err();
    /// assert!(error.to_string().contains(
    ///     "policy `shortest` reads true durations of jobs, which this run forbids"
    /// ));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn forbidding_truth(mut self, yes: bool) -> Self {
        self.forbid_truth = yes;
        self
    }

    /// Adds a collector that observes every event and every plan. Each run has its own copy, which
    /// [`Report::collected`] returns.
    ///
    /// ```
    /// # use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time};
    /// # use blox_core::{order::SortKey, policy::by_key};
    /// # use blox_testing::FirstFit;
    /// use blox_core::{MetricCollector, Plan, View};
    /// use blox_sim::{Simulation, workload::Jobs};
    ///
    /// /// The longest queue that a decision found.
    /// #[derive(Clone, Default)]
    /// struct LongestQueue(u32);
    ///
    /// impl MetricCollector for LongestQueue {
    ///     fn on_decision(&mut self, view: View<'_>, _: &Plan) {
    ///         self.0 = self.0.max(view.waiting_count());
    ///     }
    /// }
    ///
    /// # let fifo = Composition::new("fifo")
    /// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
    /// #     .placement(FirstFit).build()?;
    /// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(400.0));
    /// let report = Simulation::new(ClusterSpec::uniform(1, 1))
    ///     .collector(LongestQueue::default())
    ///     .run(fifo, &mut Jobs::new(vec![job.clone(), job.clone(), job]))?;
    /// assert_eq!(report.collected.get::<LongestQueue>().unwrap().0, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn collector(mut self, collector: impl MetricCollector + 'static) -> Self {
        self.collectors.push(Box::new(collector));
        self
    }

    /// Sets a watch to observe and stop the simulation. Every simulation needs its own watch.
    #[must_use]
    pub fn watched_by(mut self, watch: Arc<Watch>) -> Self {
        self.watch = watch;
        self
    }

    pub(crate) fn cluster(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// Returns the same world on another cluster, without faults. Only results are recorded.
    pub(crate) fn alone_on(&self, cluster: ClusterSpec) -> Simulation {
        Simulation {
            execution: self.execution.clone(),
            overheads: self.overheads.clone(),
            completion: self.completion.clone(),
            seed: self.seed,
            visit_every_round: self.visit_every_round,
            ..Simulation::new(cluster)
        }
    }

    /// Runs a scheduler on a workload.
    ///
    /// # Errors
    /// The workload cannot be read, or the policy fails.
    pub fn run(
        &self,
        scheduler: Pipeline,
        workload: &mut dyn Workload,
    ) -> Result<Report, SimError> {
        self.run_journaled(scheduler, workload, None)
    }

    /// Runs a scheduler on a workload with a journal. The caller flushes the journal.
    ///
    /// # Errors
    /// The workload cannot be read, or the policy fails.
    pub fn run_journaled(
        &self,
        mut scheduler: Pipeline,
        workload: &mut dyn Workload,
        journal: Option<Box<dyn Journal>>,
    ) -> Result<Report, SimError> {
        self.run_by(&mut scheduler, workload, journal)
    }

    /// Runs a scheduler on a workload and keeps the scheduler's final state, including its memory.
    ///
    /// # Errors
    /// The workload cannot be read, or the policy fails.
    pub fn run_by(
        &self,
        scheduler: &mut Pipeline,
        workload: &mut dyn Workload,
        journal: Option<Box<dyn Journal>>,
    ) -> Result<Report, SimError> {
        let trigger = scheduler.trigger();
        self.run_whole(scheduler, trigger, workload, journal)
    }

    /// Runs a scheduler that is not a composition, such as a decorator around several. Its decision
    /// moments come from `trigger`, and its final state is kept.
    ///
    /// # Errors
    /// The workload cannot be read, or the policy fails.
    pub fn run_whole(
        &self,
        scheduler: &mut dyn Scheduler,
        trigger: Box<dyn DecisionTrigger>,
        workload: &mut dyn Workload,
        journal: Option<Box<dyn Journal>>,
    ) -> Result<Report, SimError> {
        let mut parts = self.start(trigger, workload, journal)?;
        parts.core.start(scheduler)?;
        drive(&mut parts.core, scheduler, &mut parts.backend)?;
        let unsubmitted = parts.backend.count_unsubmitted()?;
        Ok(self.report(scheduler.name(), parts, unsubmitted))
    }

    /// Returns the data of a run with decisions at the moments of `trigger`, before its first turn.
    pub(crate) fn start<'w>(
        &self,
        trigger: Box<dyn DecisionTrigger>,
        workload: &'w mut dyn Workload,
        journal: Option<Box<dyn Journal>>,
    ) -> Result<Parts<'w>, SimError> {
        let state = State::new(&self.cluster)?;
        let period = trigger.period();
        let mut recorder = Recorder::new(
            self.measure.clone(),
            self.keep_rounds,
            self.explain,
            Arc::clone(&self.watch),
        );
        recorder.bills = self.cluster.has_prices().then(Bills::default);
        let mut core = Runtime::new(state, trigger)
            .visiting_every_round(self.visit_every_round)
            .forbidding_truth(self.forbid_truth)
            .with_collector(Box::new(recorder));
        if self.keep_timeline || self.assignments.is_some() {
            core = core.with_collector(Box::new(Occupancy::new(self.assignments.clone())));
        }
        if self.keep_waits || self.waits_to.is_some() {
            let waits = Waits::new(self.measure.clone(), self.waits_to.clone());
            core = core.with_collector(Box::new(waits));
        }
        for theirs in &self.collectors {
            core = core.with_collector(theirs.clone());
        }
        if let Some(journal) = journal {
            core = core.with_journal(journal);
        }
        let mut backend = self.backend(period, workload)?;
        // Rounds, waits and the history of a job show the phases between a plan and its reports.
        let waits = self.keep_waits || self.waits_to.is_some();
        backend.each = waits || self.keep_rounds || self.explain.is_some();
        Ok(Parts {
            core,
            backend,
            period: period.map(|p| p.secs()),
        })
    }

    /// Returns the simulated cluster before the first event. `period` is the length of a round.
    pub(crate) fn backend<'w>(
        &self,
        period: Option<Seconds>,
        workload: &'w mut dyn Workload,
    ) -> Result<Simulator<'w>, SimError> {
        let completion = match (&self.completion, period.and_then(AtRoundEnd::every)) {
            (Some(rule), _) => Completion::Other(rule.clone()),
            (None, Some(rule)) => Completion::AtRoundEnd(rule),
            (None, None) => Completion::Other(Arc::new(Exact)),
        };
        let world = SimulatedWorld {
            execution: self.execution.clone(),
            overheads: self.overheads.clone(),
            completion,
            seed: self.seed,
        };
        let (measure, watch) = (self.measure.clone(), Arc::clone(&self.watch));
        let nodes = self.cluster.nodes.len();
        let backend = Simulator::new(workload, world, self.faults, measure, watch, nodes)?;
        Ok(backend.until(self.until).with_script(self.script.clone()))
    }

    /// Returns the results of a run. `unsubmitted` is the number of measured jobs that have not been
    /// submitted.
    pub(crate) fn report(&self, name: &str, parts: Parts<'_>, unsubmitted: u64) -> Report {
        let Parts {
            mut core,
            backend,
            period,
        } = parts;
        let mut ours = core.take_collectors();
        let theirs = ours.split_off(ours.len() - self.collectors.len());
        let mut recorder: Recorder = taken(&mut ours).unwrap_or_default();
        let waits: Waits = taken(&mut ours).unwrap_or_default();
        let occupancy: Option<Occupancy> = taken(&mut ours);
        let (counters, last_decision) = (core.counters(), core.last_decision());
        let stale_action = core.stale_action().cloned();
        let knew_truth = core.knew_truth();
        let mut state = core.into_state();
        if backend.ended == Ended::Horizon {
            state.advance(backend.now);
        }
        if let Some(bills) = &mut recorder.bills {
            bills.settle_all(View::of(&state));
        }
        for id in (0..state.next_job_id().0).map(JobId) {
            let Some(job) = state.job(id) else { continue };
            recorder.note(&job, None, state.now());
            let passed_over = last_decision >= Some(job.eligible_since());
            if job.phase() == Phase::Waiting && passed_over {
                recorder.passed_over(id);
            }
        }
        let jobs = recorder.take_jobs();
        let (end, last) = if backend.ended == Ended::Finished {
            (recorder.last_end, recorder.last_let_in)
        } else {
            (state.now(), state.now())
        };
        let makespan = recorder
            .first_submit
            .map_or(Seconds::ZERO, |first| last - first);
        let rounds = match period {
            Some(p) => (end.secs() / p).ceil() as u64,
            None => counters.decisions,
        };
        let gpus = self.cluster.total_gpus() as u32;
        let mut usage = Usage::of(&jobs, gpus, makespan, rounds);
        let first = recorder.first_submit.unwrap_or_default();
        let (busy, changed) = (state.busy_gpu_time(), recorder.capacity(gpus, first, last));
        usage.occupy(&jobs, busy, changed);
        if self.cluster.has_prices() {
            let accounts = state.cluster().accounts(end);
            usage.rent = Some(Rent {
                node_hours: accounts.node_hours,
                cost: accounts.cost,
                job_cost: jobs.iter().map(|job| job.cost).sum(),
            });
        }
        Report {
            scheduler: name.to_owned(),
            jobs,
            usage,
            unsubmitted,
            rounds: recorder.rounds,
            waits: waits.rows(end),
            timeline: match occupancy.map(|o| o.finish(end)) {
                Some(timeline) if self.keep_timeline => timeline.rows(end.secs()),
                _ => Vec::new(),
            },
            story: recorder.story,
            resized: recorder.resized,
            workload_info: recorder.workload_info,
            counters,
            knew_truth,
            stale_action,
            ended: backend.ended,
            end,
            collected: Collected(theirs),
        }
    }
}

/// Removes the collector of a type from a list.
pub(crate) fn taken<C: MetricCollector>(list: &mut Vec<Box<dyn MetricCollector>>) -> Option<C> {
    let at = list.iter().position(|c| (&**c as &dyn Any).is::<C>())?;
    let collector: Box<dyn Any> = list.remove(at);
    Some(*collector.downcast().ok()?)
}
