//! Assignments of jobs to GPUs over time.

use super::timeline::Timeline;
use blox_core::SortedMap;
use blox_core::{
    Action, AdmissionDecision, Config, Event, GpuId, GpuList, JobId, JobRef, MetricCollector, Name,
    Phase, Plan, Share, Time, View,
};
use std::sync::{Arc, Mutex, PoisonError};

/// A job on GPUs, from its start until it has left them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AssignmentRow {
    /// Number of the job.
    pub job: JobId,
    /// Identifier of the job in its trace, if it has one.
    pub name: Option<Name>,
    /// Number of the job's launch, from 1. Failed launches count, so that numbers can be left out.
    pub launch: u32,
    /// Time of the plan that allocated the GPUs, in seconds since the start of the simulation. The
    /// overhead of the launch is `start - placed`.
    pub placed: Time,
    /// Time at which the job started to run on the GPUs.
    pub start: Time,
    /// Time at which the job stopped running: the command to stop or change, otherwise `end`. Its
    /// running time here is `stop - start`.
    pub stop: Time,
    /// Time at which the job had left the GPUs, or the end of the simulation.
    pub end: Time,
    /// Its GPUs in order of number.
    pub gpus: Vec<GpuId>,
    /// Its part of each GPU.
    pub share: Share,
    /// Its configuration.
    pub config: Config,
    /// Reason for leaving: `changed`, `stopped`, `crashed`, `launch failed`, `end of simulation`, or
    /// the outcome of the job.
    pub why: &'static str,
}

impl AssignmentRow {
    /// Returns whether the job has whole GPUs without a config.
    pub fn is_plain(&self) -> bool {
        self.share == Share::WHOLE && self.config.is_none()
    }

    /// Returns the GPUs as ranges, both ends included.
    pub fn ranges(&self) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for gpu in &self.gpus {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == gpu.0 => *last = gpu.0,
                _ => ranges.push((gpu.0, gpu.0)),
            }
        }
        ranges
    }
}

/// Receives assignments when they end, in order of their ends.
///
/// ```
/// use blox_core::Seconds;
/// use blox_sim::results::{AssignmentRow, AssignmentSink};
///
/// /// Adds up the running time of all launches.
/// #[derive(Default)]
/// struct RunningTime(Seconds);
///
/// impl AssignmentSink for RunningTime {
///     fn take(&mut self, row: AssignmentRow) {
///         self.0 += row.stop - row.start;
///     }
/// }
/// # use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Time, order::SortKey, policy::by_key};
/// # use blox_sim::{Simulation, workload::Jobs};
/// # use std::sync::{Arc, Mutex};
/// #
/// # let fifo = Composition::new("fifo").scheduling(by_key(|_| SortKey::by(0.0)));
/// # let fifo = fifo.placement(blox_testing::FirstFit).build()?;
/// # let mut jobs = Jobs::new(vec![JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0))]);
///
/// let time = Arc::new(Mutex::new(RunningTime::default()));
/// Simulation::new(ClusterSpec::uniform(1, 4)).assignments_to(Some(time.clone())).run(fifo, &mut jobs)?;
/// assert_eq!(time.lock().unwrap().0, Seconds::new(600.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AssignmentSink: Send {
    /// Receives an assignment.
    fn take(&mut self, row: AssignmentRow);
}

impl AssignmentSink for Vec<AssignmentRow> {
    fn take(&mut self, row: AssignmentRow) {
        self.push(row);
    }
}

/// A sink that can be read after the simulation.
pub type SharedSink = Arc<Mutex<dyn AssignmentSink>>;

/// A running job.
#[derive(Clone, Debug)]
struct Open {
    name: Option<Name>,
    launch: u32,
    placed: Time,
    start: Time,
    stop: Option<Time>,
    gpus: GpuList,
    share: Share,
    config: Config,
}

/// Usage of the cluster over time and, if there is a sink, assignments.
#[derive(Clone)]
pub(crate) struct Occupancy {
    /// Number of jobs in the system.
    live: u32,
    timeline: Timeline,
    followed: Option<Followed>,
}

/// Tracks the assignments of jobs to GPUs.
#[derive(Clone)]
struct Followed {
    open: SortedMap<JobId, Open>,
    placed_at: SortedMap<JobId, Time>,
    /// Running jobs whose change waits for GPUs that other jobs still occupy.
    awaited: Vec<JobId>,
    sink: SharedSink,
}

impl Occupancy {
    pub fn new(sink: Option<SharedSink>) -> Self {
        Occupancy {
            live: 0,
            timeline: Timeline::new(),
            followed: sink.map(|sink| Followed {
                open: SortedMap::new(),
                placed_at: SortedMap::new(),
                awaited: Vec::new(),
                sink,
            }),
        }
    }

    /// Reports all open assignments at the end of a simulation.
    pub fn finish(mut self, end: Time) -> Timeline {
        if let Some(followed) = &mut self.followed {
            while let Some((&job, _)) = followed.open.first_key_value() {
                followed.leave(job, end, "end of simulation");
            }
        }
        self.timeline
    }

    #[inline]
    fn note(&mut self, view: View<'_>) {
        let placed_jobs = view.placed_count();
        let used = view.used_gpus().number();
        let [busy, usable, placed, queued, deferred] = [
            view.busy_gpus().get(),
            view.cluster().usable_gpus(),
            placed_jobs,
            self.live.saturating_sub(placed_jobs),
            view.deferred_count(),
        ]
        .map(f64::from);
        let levels = [busy, used, usable, placed, queued, deferred];
        self.timeline.set(view.now().secs(), levels);
    }
}

impl Followed {
    fn enter(&mut self, view: View<'_>, id: JobId) {
        let Some(job) = view.job(id) else { return };
        let Some(bound) = job.bound() else { return };
        let placed = self.placed_at.get(&id).copied();
        let open = Open {
            name: job.spec().name.clone(),
            launch: job.attempt(),
            placed: placed.unwrap_or(view.now()),
            start: view.now(),
            stop: None,
            gpus: GpuList::from_slice(&bound.gpus),
            share: bound.share,
            config: bound.config.clone(),
        };
        self.open.insert(id, open);
    }

    /// Records that the job was ordered to leave: it does not run any more.
    fn stopped(&mut self, id: JobId, at: Time) {
        if let Some(open) = self.open.get_mut(&id) {
            open.stop.get_or_insert(at);
        }
    }

    fn leave(&mut self, id: JobId, at: Time, why: &'static str) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        let mut gpus = open.gpus.to_vec();
        gpus.sort_unstable();
        let row = AssignmentRow {
            job: id,
            name: open.name,
            launch: open.launch,
            placed: open.placed,
            start: open.start,
            stop: open.stop.unwrap_or(at),
            end: at,
            gpus,
            share: open.share,
            config: open.config,
            why,
        };
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.take(row);
    }

    /// Records the stop of a job that changes its assignment, now or when the new GPUs are free.
    fn note_change(&mut self, view: View<'_>, id: JobId) {
        let Some(job) = view.job(id) else { return };
        if job.phase() != Phase::Running {
            self.stopped(id, view.now());
        } else if job.assignment() != job.bound() && !self.awaited.contains(&id) {
            self.awaited.push(id);
        }
    }

    /// Records the stops of jobs whose change no longer waits: an event or a plan freed the GPUs.
    fn begin_changes(&mut self, view: View<'_>) {
        for job in std::mem::take(&mut self.awaited) {
            match view.job(job).map(|j| j.phase()) {
                Some(Phase::Running) => self.awaited.push(job),
                _ => self.stopped(job, view.now()),
            }
        }
    }

    fn observe(&mut self, view: View<'_>, event: &Event) {
        let now = view.now();
        self.begin_changes(view);
        match event {
            Event::Started { job, .. } => {
                // On a change, the job leaves its previous assignment.
                self.leave(*job, now, "changed");
                self.enter(view, *job);
                // A plan may have changed the job again since it was launched.
                self.note_change(view, *job);
            }
            Event::Stopped { job, .. } => self.leave(*job, now, "stopped"),
            Event::Crashed { job, .. } => self.leave(*job, now, "crashed"),
            // If a change in place failed, the job left its old GPUs without getting the new ones.
            Event::LaunchFailed { job, .. } => self.leave(*job, now, "launch failed"),
            Event::Ended { job, outcome } => {
                self.leave(*job, now, outcome.as_str());
                self.placed_at.remove(job);
            }
            _ => {}
        }
    }

    fn round(&mut self, view: View<'_>, plan: &Plan) {
        let now = view.now();
        self.begin_changes(view);
        for action in &plan.actions {
            match action {
                Action::Finish { job, .. } => self.stopped(*job, now),
                Action::Stop { job, .. } => {
                    self.stopped(*job, now);
                    // Otherwise the stop took no time: the job has no GPUs, or was launched again.
                    let leaves = |j: &JobRef<'_>| j.phase() == Phase::Stopping;
                    if !view.job(*job).as_ref().is_some_and(leaves) {
                        self.leave(*job, now, "stopped");
                    }
                }
                Action::Place { job, .. } => {
                    self.placed_at.insert(*job, now);
                    // After a change in place, the phase shows whether the job still runs: it does
                    // until the new GPUs are free. A running job that did not run before was launched
                    // at once.
                    match view.job(*job).map(|j| j.phase()) {
                        Some(Phase::Running) if !self.open.contains_key(job) => {
                            self.enter(view, *job);
                        }
                        _ => self.note_change(view, *job),
                    }
                }
                _ => {}
            }
        }
    }
}

impl MetricCollector for Occupancy {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        match event {
            Event::Submitted { .. } => self.live += 1,
            Event::AdmissionDecided {
                admission: AdmissionDecision::Reject(_),
                ..
            }
            | Event::Ended { .. } => self.live = self.live.saturating_sub(1),
            _ => {}
        }
        if let Some(followed) = &mut self.followed {
            followed.observe(view, event);
        }
        self.note(view);
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        if let Some(followed) = &mut self.followed {
            followed.round(view, plan);
        }
        self.note(view);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;
    use crate::overheads::FixedOverheads;
    use crate::workload::Jobs;
    use blox_core::policy::{by_key, scheduling_fn};
    use blox_core::{
        Answer, Assignment, ClusterSpec, Composition, Draft, GpuCount, JobQueue, JobSpec, Pipeline,
        PlacementPolicy, Reason, Seconds, Stateless, Validity, order::SortKey,
    };
    use blox_testing::FirstFit;

    fn fifo() -> Pipeline {
        Composition::new("fifo")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
            .placement(FirstFit)
            .build()
            .unwrap()
    }

    fn job(submit: f64, gpus: u32, duration: f64) -> JobSpec {
        JobSpec::new(Time::new(submit), GpuCount(gpus), Seconds::new(duration))
    }

    #[test]
    fn assignments_span_from_the_plan_to_the_end() {
        let overheads = FixedOverheads {
            launch: Seconds::new(30.0),
            ..FixedOverheads::default()
        };
        let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
        let mut jobs = Jobs::new(vec![
            job(0.0, 1, 400.0).named("a"),
            job(10.0, 2, 100.0),
            job(20.0, 3, 1e9),
        ]);
        let report = Simulation::new(ClusterSpec::uniform(1, 3))
            .overheads(overheads)
            .assignments_to(Some(rows.clone()))
            .keep_timeline(true)
            .happening(
                Time::new(2000.0),
                Event::Ended {
                    job: JobId(2),
                    outcome: blox_core::Outcome::Cancelled,
                },
            )
            .run(fifo(), &mut jobs)
            .unwrap();
        let rows = rows.lock().unwrap();
        let span = |row: &AssignmentRow| [row.placed, row.start, row.stop, row.end].map(Time::secs);
        let spans: Vec<_> = rows
            .iter()
            .map(|row| (row.job.0, span(row), row.ranges(), row.why))
            .collect();
        assert_eq!(
            spans,
            [
                (0, [0.0, 30.0, 600.0, 600.0], vec![(0, 0)], "completed"),
                (1, [300.0, 330.0, 600.0, 600.0], vec![(1, 2)], "completed"),
                (2, [600.0, 630.0, 2000.0, 2000.0], vec![(0, 2)], "cancelled"),
            ]
        );
        let busy: f64 = report
            .timeline
            .iter()
            .map(|r| r.busy_gpus * r.length_s)
            .sum();
        let ran: f64 = report.jobs.iter().map(|j| j.attained_gpu.secs()).sum();
        assert_eq!((busy, ran), (5220.0, 5220.0));
        let queued: f64 = report
            .timeline
            .iter()
            .map(|r| r.queued_jobs * r.length_s)
            .sum();
        // 290 s of the second job and 580 s of the third.
        assert_eq!(queued, 870.0);
    }

    /// Two jobs on a GPU each. At 300 s the second one stops, and the first one grows onto its GPU.
    #[derive(Clone)]
    struct Grows;

    impl Stateless for Grows {}

    impl PlacementPolicy for Grows {
        fn place(&self, (): &mut (), _: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
            if draft.view().now() == Time::ZERO {
                draft.assign(JobId(0), Assignment::of([GpuId(0)]))?;
                draft.assign(JobId(1), Assignment::of([GpuId(1)]))?;
            } else if draft.current(JobId(1)).is_some() {
                draft.release(JobId(1), Reason::NotChosen)?;
                draft.reassign(JobId(0), Assignment::of([GpuId(0), GpuId(1)]))?;
            }
            Ok(Validity::NextRound)
        }
    }

    /// Returns start, stop and end of each assignment of the first of two jobs, and its service, all in
    /// seconds. A checkpoint and a migration take `[checkpoint, migration]` seconds.
    fn first_of_two(
        placement: impl PlacementPolicy,
        gpus: u32,
        [checkpoint, migration]: [f64; 2],
        until: f64,
    ) -> (Vec<[f64; 3]>, f64) {
        let overheads = FixedOverheads {
            checkpoint: Seconds::new(checkpoint),
            migration: Seconds::new(migration),
            ..FixedOverheads::default()
        };
        let nothing = scheduling_fn(|_, _| Validity::NextRound);
        let policy = Composition::new("moves").scheduling(nothing);
        let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
        let mut jobs = Jobs::new(vec![job(0.0, 1, 1e6), job(0.0, 1, 1e6)]);
        let report = Simulation::new(ClusterSpec::uniform(1, gpus))
            .overheads(overheads)
            .assignments_to(Some(rows.clone()))
            .until(crate::Until::Time(Time::new(until)))
            .run(policy.placement(placement).build().unwrap(), &mut jobs)
            .unwrap();
        let rows = rows.lock().unwrap();
        let first = rows.iter().filter(|row| row.job == JobId(0));
        let spans = first.map(|r| [r.start, r.stop, r.end].map(|t| t.secs()));
        (spans.collect(), report.jobs[0].attained.secs())
    }

    #[test]
    fn job_runs_until_its_change_finds_free_gpus() {
        let (spans, attained) = first_of_two(Grows, 2, [50.0, 20.0], 700.0);
        // The second job leaves its GPU at 350 s.
        assert_eq!(spans, [[0.0, 350.0, 370.0], [370.0, 700.0, 700.0]]);
        assert_eq!(attained, 350.0 + 330.0);
    }

    /// Moves a job at 300 s, and at 600 s onto the GPU of a job that stops then.
    #[derive(Clone)]
    struct Moves;

    impl Stateless for Moves {}

    impl PlacementPolicy for Moves {
        fn place(&self, (): &mut (), _: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
            let to = |gpu| Assignment::of([GpuId(gpu)]);
            match draft.view().now().secs() as u64 {
                0 => {
                    draft.assign(JobId(0), to(0))?;
                    draft.assign(JobId(1), to(2))?;
                }
                300 => draft.reassign(JobId(0), to(1))?,
                600 => {
                    draft.release(JobId(1), Reason::NotChosen)?;
                    draft.reassign(JobId(0), to(2))?;
                }
                _ => {}
            }
            Ok(Validity::NextRound)
        }
    }

    #[test]
    fn change_may_wait_for_gpus_after_an_earlier_change() {
        let (spans, attained) = first_of_two(Moves, 3, [400.0, 500.0], 2000.0);
        // The first change takes until 800 s, and the other job leaves its GPU at 1000 s.
        assert_eq!(spans[..2], [[0.0, 300.0, 800.0], [800.0, 1000.0, 1500.0]]);
        let ran: f64 = spans.iter().map(|[start, stop, _]| stop - start).sum();
        assert_eq!(attained, ran);
    }

    #[test]
    fn ranges_join_neighbours() {
        let row = AssignmentRow {
            job: JobId(0),
            name: None,
            launch: 1,
            placed: Time::ZERO,
            start: Time::ZERO,
            stop: Time::ZERO,
            end: Time::ZERO,
            gpus: [0, 1, 2, 5, 7, 8].map(GpuId).to_vec(),
            share: Share::WHOLE,
            config: Config::NONE,
            why: "stopped",
        };
        assert_eq!(row.ranges(), [(0, 2), (5, 5), (7, 8)]);
    }
}
