//! Simulations, from components to results.

use crate::backend::{Completion, SimulatedWorld, Simulator};
use crate::completion::{AtRoundEnd, CompletionRule, Exact};
use crate::execution::{AnyExecution, ExecutionModel, as_specified};
use crate::faults::Faults;
use crate::overheads::{AnyOverheads, FixedOverheads, Overheads};
use crate::results::{
    JobResult, Moment, Occupancy, Recorder, RoundRow, SharedSink, Summary, TimelineRow, WaitRow,
    Waits,
};
use crate::workload::Workload;
use crate::{Ended, Measure, SimError, Watch, WorkloadInfo};
use blox_core::core::Counters;
use blox_core::drive::{drive, run_ready};
use blox_core::journal::Journal;
use blox_core::runtime::Runtime;
use blox_core::trigger::DecisionTrigger;
use blox_core::{
    ClusterSpec, Event, JobId, MetricCollector, NodeAction, Outcome, Phase, Pipeline, Scheduler,
    Seconds, State, Time,
};
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
    keep_rounds: bool,
    keep_timeline: bool,
    assignments: Option<SharedSink>,
    keep_waits: bool,
    explain: Option<JobId>,
    visit_every_round: bool,
    collectors: Vec<Box<dyn MetricCollector>>,
    watch: Arc<Watch>,
}

/// Results of a simulation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// One row for each job, in order of job.
    pub jobs: Vec<JobResult>,
    /// Summary metrics.
    pub summary: Summary,
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
    /// First node action of the cluster manager without effect.
    pub stale_action: Option<NodeAction>,
    /// How the simulation ended.
    pub ended: Ended,
    /// Time of the end.
    pub end: Time,
    /// Collectors of [`Simulation::collector`], with their data.
    pub collected: Collected,
}

impl Report {
    /// Creates a report of results that another program computed, without records on request.
    pub fn new(
        jobs: Vec<JobResult>,
        summary: Summary,
        counters: Counters,
        ended: Ended,
        end: Time,
    ) -> Self {
        Report {
            jobs,
            summary,
            rounds: Vec::new(),
            timeline: Vec::new(),
            waits: Vec::new(),
            story: Vec::new(),
            resized: 0,
            workload_info: WorkloadInfo::default(),
            counters,
            stale_action: None,
            ended,
            end,
            collected: Collected::default(),
        }
    }

    /// Returns the number of measured jobs that the scheduler ended before all work was done. They
    /// count as completed.
    pub fn ended_early(&self) -> u64 {
        let early = |j: &&JobResult| j.measured && j.outcome == Some(Outcome::Terminated);
        self.jobs.iter().filter(early).count() as u64
    }

    /// Counts the reasons of measured jobs that were rejected, or had not ended. For reasons of the
    /// kind `other`, the text of the policy is used.
    pub fn reasons(&self, rejected: bool) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for job in self.jobs.iter().filter(|j| j.measured) {
            if job.outcome.is_some() == rejected
                && let Some(kind) = job.reason_kind
            {
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
            keep_rounds: false,
            keep_timeline: false,
            assignments: None,
            keep_waits: false,
            explain: None,
            visit_every_round: false,
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

    /// Injects an event at a moment: a node joins or leaves, a GPU fails, or a job is cancelled
    /// (`Event::Ended`). A failed GPU is not allocated again, but its running job continues. An
    /// event that the state rejects ends the simulation with an error.
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
        run_ready(drive(&mut parts.core, scheduler, &mut parts.backend))?;
        Ok(self.report(scheduler.name(), parts))
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
        let recorder = Recorder::new(
            self.measure.clone(),
            self.keep_rounds,
            self.explain,
            Arc::clone(&self.watch),
        );
        let mut core = Runtime::new(state, trigger)
            .visiting_every_round(self.visit_every_round)
            .with_collector(Box::new(recorder));
        if self.keep_timeline || self.assignments.is_some() {
            core = core.with_collector(Box::new(Occupancy::new(self.assignments.clone())));
        }
        if self.keep_waits {
            core = core.with_collector(Box::new(Waits::new(self.measure.clone())));
        }
        for theirs in &self.collectors {
            core = core.with_collector(theirs.clone());
        }
        if let Some(journal) = journal {
            core = core.with_journal(journal);
        }
        let backend = self.backend(period, workload)?;
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
        Ok(backend.with_script(self.script.clone()))
    }

    pub(crate) fn report(&self, name: &str, parts: Parts<'_>) -> Report {
        let Parts {
            mut core,
            backend,
            period,
        } = parts;
        let mut ours = core.take_collectors();
        let theirs = ours.split_off(ours.len() - self.collectors.len());
        let mut recorder = taken(&mut ours).unwrap_or_else(|| {
            let measure = self.measure.clone();
            Recorder::new(measure, false, None, Arc::default())
        });
        let waits = taken(&mut ours).unwrap_or_else(|| Waits::new(self.measure.clone()));
        let occupancy: Option<Occupancy> = taken(&mut ours);
        let state = core.state();
        for id in (0..state.next_job_id().0).map(JobId) {
            let Some(job) = state.job(id) else { continue };
            recorder.note(&job, None, state.now());
            let passed_over = core.last_decision() >= Some(job.eligible_since());
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
        let span = recorder
            .first_submit
            .map_or(0.0, |first| (last - first).secs());
        let counters = core.counters();
        let rounds = match period {
            Some(p) => (end.secs() / p).ceil() as u64,
            None => counters.decisions,
        };
        let summary = Summary::of(
            name,
            &jobs,
            counters,
            self.cluster.total_gpus() as u32,
            span,
            rounds,
        );
        Report {
            jobs,
            summary,
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
            stale_action: core.stale_action().cloned(),
            ended: backend.ended,
            end,
            collected: Collected(theirs),
        }
    }
}

/// Removes the collector of a type from a list.
pub(crate) fn taken<C: MetricCollector>(list: &mut Vec<Box<dyn MetricCollector>>) -> Option<C> {
    let mut all = list.iter().map(|c| &**c as &dyn std::any::Any);
    let at = all.position(|c| c.is::<C>())?;
    let collector: Box<dyn std::any::Any> = list.remove(at);
    Some(*collector.downcast().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::{FixedRate, Shared};
    use crate::overheads::CheckpointRestart;
    use crate::results::AssignmentRow;
    use crate::workload::Jobs;
    use blox_core::{
        Adapts, AdmissionDecisions, AdmissionPolicy, Assignment, Composition, Deadline,
        DecisionError, Draft, DraftError, Extras, GpuCount, GpuId, JobQueue, JobSpec, LossCurve,
        LossReports, NodeAction, NodeActions, NodeId, NodeSpec, Outcome, PlacementPolicy, Plan,
        Policy, Reason, Request, Seconds, Stateless, TrainingSpec, Validity, View,
        order::SortKey,
        policy::{by_key, scheduling_fn},
    };
    use blox_perf::PairTable;
    use blox_testing::FirstFit;
    use std::sync::Mutex;

    fn fifo() -> Pipeline {
        Composition::new("fifo")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
            .placement(FirstFit)
            .build()
            .unwrap()
    }

    /// Panics at the first end of a job.
    #[derive(Clone)]
    struct Falls;

    impl Policy for Falls {
        type Memory = bool;

        fn initial(&self, _: u64) -> bool {
            false
        }

        fn on_event(&self, _: &mut bool, _: View<'_>, event: &Event) {
            assert!(!matches!(event, Event::Ended { .. }), "notified of an end");
        }
    }

    impl AdmissionPolicy for Falls {
        fn admit(
            &self,
            _: &mut bool,
            _: View<'_>,
            asking: &[JobId],
            out: &mut AdmissionDecisions,
        ) -> Validity {
            asking.iter().for_each(|job| out.accept(*job));
            Validity::UntilEvent
        }
    }

    #[test]
    fn a_policy_that_panics_when_it_is_told_of_an_event_ends_the_run() {
        let falls = fifo().with_admission(Falls).unwrap();
        let jobs = || Jobs::new(vec![job(0.0, 400.0), job(0.0, 100.0)]);
        let run = Simulation::new(ClusterSpec::uniform(1, 2)).run(falls.clone(), &mut jobs());
        let error = run.unwrap_err().to_string();
        assert!(
            error.contains("policy `fifo` panicked: notified of an end"),
            "{error}"
        );
        // If jobs end one after another, the first end ends the run.
        let run = Simulation::new(ClusterSpec::uniform(1, 1)).run(falls, &mut jobs());
        assert!(run.is_err());
    }

    #[test]
    fn a_rejected_job_stretches_no_makespan() {
        let wide = |submit| JobSpec::new(Time::new(submit), GpuCount(2), Seconds::new(1.0));
        let mut jobs = Jobs::new(vec![wide(0.0), job(100.0, 400.0), wide(1e6)]);
        let watch = Arc::new(Watch::default());
        let report = Simulation::new(ClusterSpec::uniform(1, 1))
            .watched_by(Arc::clone(&watch))
            .run(fifo(), &mut jobs)
            .unwrap();
        assert_eq!(report.summary.rejected, 2);
        assert_eq!(watch.ended.load(std::sync::atomic::Ordering::Relaxed), 3);
        // Accepted at 300 s; the end was seen at 900 s.
        assert_eq!(report.summary.makespan_s, 800.0);
        assert_eq!(report.summary.utilisation, 0.75);
    }

    #[test]
    fn jobs_that_are_measured_one_by_one_end_the_run_among_others() {
        let durations = [300.0, 9e3, 600.0, 300.0, 9e3];
        let mut jobs = Jobs::new(durations.map(|d| job(0.0, d)).to_vec());
        let report = Simulation::new(ClusterSpec::uniform(1, 2))
            .measure(Measure::of_ids(&[4, 9, 5, 8, 7], 3..=5))
            .run(fifo(), &mut jobs)
            .unwrap();
        let measured: Vec<bool> = report.jobs.iter().map(|j| j.measured).collect();
        assert_eq!(measured, [true, false, true, false, false]);
        assert_eq!(report.ended, Ended::Finished);
        assert_eq!(report.summary.avg_jct_s, (300.0 + 900.0) / 2.0);
        assert_eq!(finishes(&report)[3..], [None, None]);
    }

    #[test]
    fn what_runs_at_the_end_is_said_to_run_and_what_waits_not_to_be_chosen() {
        let mut jobs = Jobs::new(vec![
            job(0.0, 300.0),
            job(0.0, 9e3),
            job(0.0, 9e3),
            job(1.0, 9e3),
        ]);
        let report = Simulation::new(ClusterSpec::uniform(1, 2))
            .measure(Measure::Ids(0, 0))
            .run(fifo(), &mut jobs)
            .unwrap();
        let reasons = report.jobs.iter().map(|j| j.reason.as_deref());
        assert_eq!(
            reasons.collect::<Vec<_>>(),
            [None, Some("running"), Some("running"), Some("not chosen")]
        );
    }

    #[test]
    fn what_decides_as_a_whole_runs_as_the_composition_in_it() {
        /// Makes an empty plan in every second decision.
        #[derive(Clone)]
        struct Lazy(Pipeline, u32);

        impl Scheduler for Lazy {
            fn name(&self) -> &'static str {
                "lazy"
            }
            fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Validity {
                self.0.manage(view, out)
            }
            fn admit(
                &mut self,
                view: View<'_>,
                asking: &[JobId],
                out: &mut AdmissionDecisions,
            ) -> Validity {
                self.0.admit(view, asking, out)
            }
            fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
                self.1 += 1;
                match self.1 % 2 {
                    1 => Ok(Validity::NextRound),
                    _ => self.0.plan(view, out),
                }
            }
        }

        let mut lazy = Lazy(fifo(), 0);
        let rounds = fifo().trigger();
        let mut jobs = Jobs::new(vec![job(0.0, 400.0), job(0.0, 300.0)]);
        let report = Simulation::new(ClusterSpec::uniform(1, 1))
            .run_whole(&mut lazy, rounds, &mut jobs, None)
            .unwrap();
        let starts = report.jobs.iter().map(|j| j.first_start.unwrap().secs());
        assert_eq!(starts.collect::<Vec<_>>(), [300.0, 900.0]);
        assert_eq!(report.summary.scheduler, "lazy");
        assert_eq!(lazy.1, 5);
    }

    #[test]
    fn a_job_that_is_ended_twice_by_one_decision_ends_once() {
        let twice = Composition::new("twice")
            .scheduling(scheduling_fn(|view: View<'_>, out: &mut JobQueue| {
                for job in view.placed().chain(view.waiting()) {
                    out.push(Request::gang(&job));
                }
                for job in view.placed() {
                    out.finish(job.id(), Reason::GoalReached);
                    out.finish(job.id(), Reason::GoalReached);
                }
                Validity::NextRound
            }))
            .placement(FirstFit)
            .build()
            .unwrap();
        let report = Simulation::new(ClusterSpec::uniform(1, 1))
            .run(twice, &mut Jobs::new(vec![job(0.0, 9e3), job(0.0, 9e3)]))
            .unwrap();
        assert_eq!(finishes(&report), [Some(300.0), Some(900.0)]);
    }

    fn job(submit: f64, duration: f64) -> JobSpec {
        JobSpec::new(Time::new(submit), GpuCount(1), Seconds::new(duration))
    }

    fn finishes(report: &Report) -> Vec<Option<f64>> {
        report
            .jobs
            .iter()
            .map(|j| j.finish.map(|t| t.secs()))
            .collect()
    }

    #[test]
    fn deadlines_are_counted_by_fate() {
        let due = |gpus, duration, at| {
            let extras = Extras {
                deadlines: vec![Deadline {
                    at: Time::new(at),
                    value: 1.0,
                }],
                ..Extras::default()
            };
            let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(duration));
            job.with_extras(extras)
        };
        // The last job is too wide for the cluster.
        let mut jobs = Jobs::new(vec![
            due(1, 300.0, 300.0),
            due(1, 300.0, 400.0),
            due(1, 600.0, 400.0),
            due(4, 300.0, 400.0),
        ]);
        let simulation = Simulation::new(ClusterSpec::uniform(1, 3));
        let report = simulation.run(fifo(), &mut jobs).unwrap();
        let count = report.summary.deadlines.unwrap();
        assert_eq!((count.met, count.missed, count.declined), (2, 1, 1));
    }

    /// Times and values of the loss reports.
    #[derive(Clone, Default)]
    struct Losses(Vec<(f64, f64)>);

    impl MetricCollector for Losses {
        fn on_event(&mut self, view: View<'_>, event: &Event) {
            if let Event::Metric { value, .. } = event {
                self.0.push((view.now().secs(), *value));
            }
        }
    }

    /// Runs a job of 500 s with epochs of this length in seconds.
    fn run_with_loss(epoch: f64) -> Report {
        let (b0, b1, b2) = (1.0, 1.0, 0.5);
        let curve = LossCurve { b0, b1, b2 };
        let extras = Extras {
            loss: Some(LossReports { curve, epoch }),
            ..Extras::default()
        };
        let mut jobs = Jobs::new(vec![job(0.0, 500.0).with_extras(extras)]);
        let simulation = Simulation::new(ClusterSpec::uniform(1, 1));
        let simulation = simulation.collector(Losses::default());
        simulation.run(fifo(), &mut jobs).unwrap()
    }

    #[test]
    fn loss_is_reported_at_the_end_of_each_epoch() {
        let report = run_with_loss(200.0);
        let losses = &report.collected.get::<Losses>().unwrap().0;
        assert_eq!(*losses, [(200.0, 1.0), (400.0, 1.0 / 3.0 + 0.5)]);
    }

    #[test]
    fn workload_info_counts_losses_before_a_report() {
        let report = run_with_loss(1000.0);
        assert!(report.collected.get::<Losses>().unwrap().0.is_empty());
        assert_eq!(report.workload_info.losses, 1);
    }

    #[test]
    fn a_node_that_joins_is_used_and_one_that_leaves_loses_its_jobs() {
        let mut jobs = Jobs::new(vec![job(0.0, 3000.0), job(0.0, 3000.0)]);
        let report = Simulation::new(ClusterSpec::uniform(1, 1))
            .happening(
                Time::new(500.0),
                Event::NodeJoined {
                    spec: Box::new(NodeSpec::with_gpus(1)),
                },
            )
            .happening(Time::new(1000.0), Event::NodeLeft { node: NodeId(0) })
            .run(fifo(), &mut jobs)
            .unwrap();
        // The second job starts on the new node at 600 s. The first has lost everything at 1000 s
        // and starts there after it.
        assert_eq!(finishes(&report), [Some(6600.0), Some(3600.0)]);
        assert_eq!(report.jobs[0].crashes, 1);
    }

    #[test]
    fn a_cancelled_job_frees_its_gpu() {
        let mut jobs = Jobs::new(vec![job(0.0, 3000.0), job(0.0, 300.0)]);
        let cancel = Event::Ended {
            job: JobId(0),
            outcome: Outcome::Cancelled,
        };
        let report = Simulation::new(ClusterSpec::uniform(1, 1))
            .happening(Time::new(450.0), cancel)
            .run(fifo(), &mut jobs)
            .unwrap();
        assert_eq!(finishes(&report), [Some(450.0), Some(900.0)]);
        assert_eq!(report.jobs[0].outcome, Some(Outcome::Cancelled));
        assert_eq!(report.summary.failed, 1);
    }

    #[test]
    fn all_of_the_time_that_is_not_run_has_a_reason() {
        let specs = vec![job(0.0, 700.0), job(10.0, 400.0), job(310.0, 100.0)];
        let run = |visit| {
            Simulation::new(ClusterSpec::uniform(1, 1))
                .overheads(FixedOverheads {
                    launch: Seconds::new(20.0),
                    ..FixedOverheads::default()
                })
                .keep_waits(true)
                .visiting_every_round(visit)
                .run(fifo(), &mut Jobs::new(specs.clone()))
                .unwrap()
        };
        let report = run(false);
        let waits: Vec<_> = report
            .waits
            .iter()
            .map(|w| (w.reason.as_str(), w.jobs, w.total.secs()))
            .collect();
        let queued: f64 = report
            .jobs
            .iter()
            .map(|j| j.queueing().unwrap().secs())
            .sum();
        assert_eq!(waits.iter().map(|w| w.2).sum::<f64>(), queued);
        // The first runs from 20 to 720 s, seen at 900 s; the second from 920 to 1320 s, seen at
        // 1500 s. The others are undecided until the first round after their submission: 290 s
        // each.
        assert!(waits.contains(&("not yet decided", 2, 580.0)), "{waits:?}");
        assert!(waits.contains(&("launching", 3, 60.0)), "{waits:?}");
        assert_eq!(run(true).waits, report.waits);
    }

    /// A training job with a restart time of 40 s.
    fn training(duration: f64) -> JobSpec {
        let mut trains = job(0.0, duration);
        trains.extras = Some(Box::new(Extras {
            training: Some(Arc::new(TrainingSpec {
                initial_batch: 8,
                max_batch: 8,
                adapts: Adapts::Nothing,
                restart: Seconds::new(40.0),
                types: Default::default(),
            })),
            ..Extras::default()
        }));
        trains
    }

    #[test]
    fn training_jobs_are_charged_their_restarts_beside_jobs_that_start_free() {
        let mut jobs = Jobs::new(vec![training(600.0), job(0.0, 600.0)]);
        let report = Simulation::new(ClusterSpec::uniform(1, 2))
            .overheads(CheckpointRestart::default())
            .completion(Exact)
            .run(fifo(), &mut jobs)
            .unwrap();
        assert_eq!(finishes(&report), [Some(640.0), Some(600.0)]);
    }

    #[test]
    fn jobs_that_nothing_will_start_end_the_simulation() {
        let mut jobs = Jobs::new(vec![job(0.0, 300.0)]);
        let report = Simulation::new(ClusterSpec::uniform(1, 1))
            .happening(Time::ZERO, Event::NodeLeft { node: NodeId(0) })
            .run(fifo().awaiting_growth(true), &mut jobs)
            .unwrap();
        assert_eq!(report.ended, Ended::Standstill);
        assert_eq!(finishes(&report), [None]);
        assert_eq!(report.summary.unfinished, 1);
    }

    #[test]
    fn a_job_that_never_keeps_any_of_its_work_ends_the_simulation() {
        let run = |faults: Faults| {
            let mut jobs = Jobs::new(vec![job(0.0, 60.0), job(0.0, 1e6)]);
            let simulation = Simulation::new(ClusterSpec::uniform(1, 2)).faults(faults);
            simulation.run(fifo(), &mut jobs).unwrap()
        };
        let crashing = Faults {
            job_mtbf: Some(Seconds::from_hours(1.0)),
            ..Faults::default()
        };
        let report = run(crashing);
        assert_eq!(report.ended, Ended::InVain);
        assert_eq!(report.jobs[1].crashes, 1_000_000);
        assert_eq!(
            (report.summary.completed, report.summary.unfinished),
            (1, 1)
        );
        let saving = Faults {
            checkpoint_every: Some(Seconds::new(600.0)),
            ..crashing
        };
        assert_eq!(run(saving).ended, Ended::Finished);
        let unlaunched = Faults {
            launch_failure: 1.0,
            ..Faults::default()
        };
        assert_eq!(run(unlaunched).ended, Ended::InVain);
    }

    #[test]
    fn nodes_that_have_left_or_are_switched_off_do_not_fail_for_ever() {
        let off = Event::NodeManaged {
            action: NodeAction::Power {
                node: NodeId(0),
                on: false,
            },
        };
        for gone in [Event::NodeLeft { node: NodeId(0) }, off] {
            let report = Simulation::new(ClusterSpec::uniform(1, 1))
                .faults(Faults {
                    node_mtbf: Some(Seconds::from_hours(100.0)),
                    ..Faults::default()
                })
                .happening(Time::ZERO, gone)
                .run(
                    fifo().awaiting_growth(true),
                    &mut Jobs::new(vec![job(0.0, 300.0)]),
                )
                .unwrap();
            assert_eq!(report.ended, Ended::Standstill);
        }
    }

    #[test]
    fn a_node_that_joins_can_fail() {
        let report = Simulation::new(ClusterSpec::uniform(1, 1))
            .faults(Faults {
                node_mtbf: Some(Seconds::new(1000.0)),
                checkpoint_every: Some(Seconds::new(100.0)),
                ..Faults::default()
            })
            .happening(
                Time::ZERO,
                Event::NodeJoined {
                    spec: Box::new(NodeSpec::with_gpus(1)),
                },
            )
            .happening(Time::ZERO, Event::NodeLeft { node: NodeId(0) })
            .run(fifo(), &mut Jobs::new(vec![job(0.0, 30_000.0)]))
            .unwrap();
        assert!(report.jobs[0].crashes > 0);
    }

    #[test]
    fn injected_event_that_cannot_happen_is_not_the_simulators_error() {
        let error = Simulation::new(ClusterSpec::uniform(1, 1))
            .happening(Time::new(5.0), Event::NodeReturned { node: NodeId(0) })
            .run(fifo(), &mut Jobs::new(vec![job(0.0, 300.0)]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("injected at this time"), "{error}");
    }

    /// Two jobs, the second on the first one's GPU until a moment. Then the second waits, or moves
    /// to the next GPU.
    #[derive(Clone)]
    struct Pair {
        until: Time,
        next: bool,
    }

    impl Stateless for Pair {}

    impl PlacementPolicy for Pair {
        fn place(
            &self,
            (): &mut (),
            _: &mut JobQueue,
            draft: &mut Draft<'_>,
        ) -> Result<Validity, DraftError> {
            let [first, second] = [JobId(0), JobId(1)];
            let goes =
                |job, draft: &Draft<'_>| draft.may_place(job) && draft.current(job).is_none();
            let beside = Assignment {
                partners: first.into(),
                ..Assignment::of([GpuId(0)])
            };
            if goes(first, draft) && draft.free_on(NodeId(0)) > 0 {
                draft.assign(first, Assignment::of([GpuId(0)]))?;
            }
            let together = draft.view().now() < self.until;
            if together && goes(second, draft) && draft.current(first).is_some() {
                draft.assign(second, beside.clone())?;
            } else if !together && draft.current(second).is_some_and(|a| a.gpus[0] == GpuId(0)) {
                match self.next {
                    true => draft.reassign(second, Assignment::of([GpuId(1)]))?,
                    false => draft.release(second, Reason::NotChosen)?,
                }
            }
            Ok(match self.until < Time::new(f64::MAX) {
                true => Validity::Until(self.until),
                false => Validity::UntilEvent,
            })
        }
    }

    fn pair(until: f64, next: bool) -> Pipeline {
        Composition::new("pair")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
            .placement(Pair {
                until: Time::new(until),
                next,
            })
            .build()
            .unwrap()
    }

    /// A simulation in which each of two jobs on one GPU runs at half its rate.
    fn halved(cluster: ClusterSpec) -> Simulation {
        Simulation::new(cluster)
            .completion(Exact)
            .execution(Shared::over(FixedRate).measured(PairTable::default(), 0.5))
    }

    #[test]
    fn a_job_is_alone_as_soon_as_its_partner_stops_or_moves() {
        for next in [false, true] {
            let report = halved(ClusterSpec::uniform(1, 2))
                .measure(Measure::Ids(0, 0))
                .run(
                    pair(600.0, next),
                    &mut Jobs::new(vec![job(0.0, 1000.0), job(0.0, 5000.0)]),
                )
                .unwrap();
            // Half of 600 s, then 700 s.
            assert_eq!(finishes(&report)[0], Some(1300.0), "{next}");
        }
    }

    /// Two jobs on one GPU and a third on the next. At 600 s the first is assigned the third's GPU,
    /// and one more.
    #[derive(Clone)]
    struct TakesOver;

    impl Stateless for TakesOver {}

    impl PlacementPolicy for TakesOver {
        fn place(
            &self,
            (): &mut (),
            _: &mut JobQueue,
            draft: &mut Draft<'_>,
        ) -> Result<Validity, DraftError> {
            let [first, second, third] = [0, 1, 2].map(JobId);
            let there = |job| draft.current(job).map(|a| a.gpus[0]);
            if draft.view().now() == Time::ZERO {
                draft.assign(first, Assignment::of([GpuId(0)]))?;
                let beside = Assignment {
                    partners: first.into(),
                    ..Assignment::of([GpuId(0)])
                };
                draft.assign(second, beside)?;
                draft.assign(third, Assignment::of([GpuId(1)]))?;
            } else if draft.view().now() >= Time::new(600.0) && there(first) == Some(GpuId(0)) {
                draft.release(third, Reason::NotChosen)?;
                draft.reassign(first, Assignment::of([GpuId(1), GpuId(2)]))?;
            }
            Ok(Validity::NextRound)
        }
    }

    #[test]
    fn a_job_whose_change_waits_is_as_fast_as_what_it_holds_allows() {
        let takes_over = Composition::new("takes-over")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
            .placement(TakesOver)
            .build()
            .unwrap();
        let report = halved(ClusterSpec::uniform(1, 3))
            .overheads(FixedOverheads {
                checkpoint: Seconds::new(100.0),
                ..FixedOverheads::default()
            })
            .measure(Measure::Ids(0, 1))
            .run(
                takes_over,
                &mut Jobs::new(vec![job(0.0, 1000.0), job(0.0, 325.0), job(0.0, 5000.0)]),
            )
            .unwrap();
        // The second leaves the first's GPU at 650 s, the third leaves the allocated GPU at 700 s.
        // In between, the first is alone on its GPU. It has done 375 s of work at that time, and
        // continues twice as fast.
        assert_eq!(finishes(&report)[..2], [Some(1012.5), Some(650.0)]);
    }

    #[test]
    fn a_crash_keeps_what_was_saved_whatever_the_rate_was_since() {
        let finish = |every: Option<f64>| {
            let node = NodeId(0);
            let report = halved(ClusterSpec::uniform(1, 1))
                .measure(Measure::Ids(0, 0))
                .faults(Faults {
                    checkpoint_every: every.map(Seconds::new),
                    ..Faults::default()
                })
                .happening(Time::new(2000.0), Event::NodeLost { node })
                .happening(Time::new(2050.0), Event::NodeReturned { node })
                .run(
                    pair(f64::MAX, false),
                    &mut Jobs::new(vec![job(0.0, 3000.0), job(1000.0, 1e5)]),
                )
                .unwrap();
            assert_eq!(report.jobs[0].crashes, 1);
            finishes(&report)[0]
        };
        // Alone for 1200 s, then at half its rate; both jobs restart at 2100 s.
        assert_eq!(finish(None), Some(2100.0 + 3000.0 * 2.0));
        assert_eq!(finish(Some(1100.0)), Some(2100.0 + 1900.0 * 2.0));
        assert_eq!(finish(Some(700.0)), Some(2100.0 + 1700.0 * 2.0));
    }

    #[test]
    fn a_crash_after_the_work_is_done_takes_nothing_of_what_was_saved() {
        let node = NodeId(0);
        let report = Simulation::new(ClusterSpec::uniform(1, 1))
            .faults(Faults {
                checkpoint_every: Some(Seconds::new(100.0)),
                ..Faults::default()
            })
            .happening(Time::new(550.0), Event::NodeLost { node })
            .happening(Time::new(560.0), Event::NodeReturned { node })
            .explain(Some(JobId(0)))
            .run(fifo(), &mut Jobs::new(vec![job(0.0, 310.0)]))
            .unwrap();
        // Done at 310 s and saved at 400 s, which would be seen at 600 s.
        let crash = report.story.iter().find(|m| m.what.starts_with("crashed"));
        assert_eq!(
            crash.unwrap().what,
            "crashed (node lost); 310 iterations are kept"
        );
    }

    #[test]
    fn two_jobs_on_one_gpu_lose_their_node_together() {
        for seed in 0..8 {
            let report = halved(ClusterSpec::uniform(1, 1))
                .faults(Faults {
                    seed,
                    node_mtbf: Some(Seconds::from_hours(2.0)),
                    node_mttr: Seconds::from_hours(0.2),
                    checkpoint_every: Some(Seconds::new(60.0)),
                    ..Faults::default()
                })
                .run(
                    pair(f64::MAX, false),
                    &mut Jobs::new(vec![job(0.0, 30_000.0), job(500.0, 30_000.0)]),
                )
                .unwrap();
            assert!(report.jobs.iter().all(|j| j.crashes > 0), "{seed}");
        }
    }

    #[test]
    fn a_change_in_place_that_fails_leaves_what_the_job_had() {
        let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
        let why = "no".into();
        let (job_1, attempt) = (JobId(1), 2);
        let report = Simulation::new(ClusterSpec::uniform(1, 2))
            .completion(Exact)
            .overheads(FixedOverheads {
                migration: Seconds::new(100.0),
                ..FixedOverheads::default()
            })
            .assignments_to(Some(rows.clone()))
            .happening(
                Time::new(650.0),
                Event::LaunchFailed {
                    job: job_1,
                    attempt,
                    why,
                },
            )
            .measure(Measure::Ids(0, 0))
            .run(
                pair(600.0, true),
                &mut Jobs::new(vec![job(0.0, 2000.0), training(2000.0)]),
            )
            .unwrap();
        let rows = rows.lock().unwrap();
        let row = rows.iter().find(|r| r.job == job_1).unwrap();
        assert_eq!((row.end.secs(), row.why), (650.0, "launch failed"));
        // On its GPU until 600 s, allocated the other until 650 s, and then without one.
        let given = report.jobs[1].given.as_deref().unwrap();
        assert_eq!(given.gpu, Seconds::new(650.0));
    }

    #[test]
    fn figures_sum_in_order_of_job_whatever_the_order_of_ends() {
        let durations = [0.3, 0.2, 0.1];
        let report = Simulation::new(ClusterSpec::uniform(1, 3))
            .completion(Exact)
            .run(
                fifo(),
                &mut Jobs::new(durations.map(|d| job(0.0, d)).to_vec()),
            )
            .unwrap();
        let sum: f64 = durations.iter().sum();
        // The jobs end in the opposite order, which has a different sum.
        assert_eq!(finishes(&report), durations.map(Some));
        assert_ne!(durations.iter().rev().sum::<f64>(), sum);
        assert_eq!(report.summary.avg_jct_s, sum / 3.0);
        assert_eq!(report.summary.utilisation, sum / (3.0 * 0.3));
    }
}
