//! Deadlines for elastic jobs: ElasticFlow (ASPLOS 2023) and its ablations.

mod expand;
mod free;
mod plan;

use super::listed::{Placeable, on_each};
use crate::type_sets::{GpusByType, TypeSets};
use blox_core::{
    AdmissionDecisions, AdmissionPolicy, Answer, Class, Event, GpuCount, JobId, JobQueue, JobRef,
    Policy, Reason, Request, Room, SchedulingPolicy, Seconds, Shape, Shapes, SortedMap, Time,
    Validity, View, sort,
};
use expand::{Window, expand};
use free::Free;
use plan::{Begun, Grid, Plan, Task, fits, greedy, levels_of, minimum, work_of};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Number of GPUs that a job with a deadline gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// The smallest number with which the job ends in time (ElasticFlow, section 4.1: minimum
    /// satisfactory share, found by progressive filling).
    #[default]
    Minimum,
    /// As many GPUs as the job can use: earliest deadline first.
    Greedy,
}

/// Deadlines for elastic jobs (ElasticFlow, ASPLOS 2023, section 4).
///
/// Time is divided into slots. Jobs are planned in order of deadline, each on the GPUs that earlier
/// plans leave, in the latest slots (section 4.1: progressive filling). A job uses the GPU counts
/// of its profile ([`Extras::levels`](blox_core::Extras::levels),
/// [`rates`](blox_core::Extras::rates)); a job without a profile is rigid. A job is admitted only
/// if a plan exists in which it and all jobs admitted before end in time.
///
/// The remaining GPUs go to jobs level by level until the next plan change. The first is the job
/// whose GPU time rises least per GPU (section 4.2: marginal return). Jobs without GPUs come
/// before equal ones. Best-effort jobs and jobs without deadline run on the remaining GPUs.
///
/// A job that accepts only some GPU types is planned on these. The plans of all jobs together never
/// exceed the GPUs of any set of types that a job accepts. If two sets overlap and none contains the
/// other, a job counts in both, so some GPUs may idle. If a job needs more CPUs or memory than the
/// share of its GPUs, it counts as the GPUs whose share it takes.
///
/// **Guarantee.** No admitted job misses its deadline under three conditions: jobs run as profiled,
/// changes cost nothing, and a decision falls on every multiple of the slot. On several nodes, no
/// job may need more CPUs or memory than the share of its GPUs, since free CPUs may be scattered.
///
/// If a new plan would be worse than the plan with which a job was admitted, the old plan is kept.
/// If changes cost time, a deadline can be missed. Such a job is then planned after all jobs that
/// are on time.
#[derive(Clone, Debug)]
pub struct ElasticFlow {
    grid: Grid,
    share: Share,
    expands: bool,
    admits_all: bool,
}

/// Plan of each admitted job, and the last answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Allocated {
    plans: SortedMap<JobId, Plan>,
    /// Decision in which `plans` and `free` were computed.
    #[serde(skip)]
    decision: Option<u64>,
    #[serde(skip)]
    free: Free,
    #[serde(skip)]
    levels: SortedMap<JobId, Arc<[(u32, f64)]>>,
    /// Numbers of GPUs on which a job could not be placed, if it could be on others.
    #[serde(default)]
    never: SortedMap<JobId, Vec<u32>>,
    /// Jobs whose shapes the placement has judged, on these nodes.
    #[serde(skip)]
    asked: Placeable<()>,
    answer: Shared,
}

/// The last answer, and how long it is valid without events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Shared {
    /// Jobs with their GPUs, large jobs first.
    list: Vec<(JobId, u32)>,
    until: Option<Time>,
    /// True after an unexpected event.
    stale: bool,
}

impl ElasticFlow {
    /// Creates the policy with slots of this length, above 0 (else 300 s).
    pub fn new(slot: Seconds) -> Self {
        let slot = slot.secs();
        ElasticFlow {
            grid: Grid {
                slot: if slot > 0.0 { slot } else { 300.0 },
            },
            share: Share::Minimum,
            expands: true,
            admits_all: false,
        }
    }

    /// Sets the number of GPUs for jobs with deadlines.
    #[must_use]
    pub fn share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    /// Sets whether jobs may grow on remaining GPUs beyond what they need. Jobs without deadline
    /// use these GPUs in any case.
    #[must_use]
    pub fn expanding(mut self, yes: bool) -> Self {
        self.expands = yes;
        self
    }

    /// Disables admission control: jobs run strictly in order of deadline, late jobs included.
    #[must_use]
    pub fn admitting_all(mut self) -> Self {
        self.admits_all = true;
        self
    }

    fn task(&self, memory: &mut Allocated, view: View<'_>, job: &JobRef<'_>) -> Task {
        let never = memory.never.get(&job.id());
        let levels = memory.levels.entry(job.id()).or_insert_with(|| {
            let all = levels_of(job);
            match never {
                None => all,
                Some(never) => {
                    let possible = all.iter().filter(|(gpus, _)| !never.contains(gpus));
                    possible.copied().collect()
                }
            }
        });
        let deadline = job.deadline().filter(|_| job.class() == Class::Guaranteed);
        let due = deadline.map(|d| self.grid.floor(d.secs()));
        let levels = Arc::clone(levels);
        let seat = memory.free.sets().seat(view, job, &Shape::gang(job));
        Task::of(job, levels, due, seat)
    }

    /// Notes the numbers of GPUs on which a job could not be placed. A job that could be placed on
    /// none waits for nodes, and keeps all.
    fn limit(memory: &mut Allocated, job: &JobRef<'_>, could: impl Fn(&Shape) -> bool) {
        let (id, all) = (job.id(), levels_of(job));
        let gpus = all.iter().map(|(gpus, _)| *gpus);
        let mut never: Vec<u32> = gpus
            .filter(|gpus| !could(&Shape::sized(job, GpuCount(*gpus))))
            .collect();
        if never.len() == all.len() {
            never.clear();
        }
        if memory.never.get(&id).map_or(&[][..], Vec::as_slice) == never {
            return;
        }
        memory.levels.remove(&id);
        memory.plans.remove(&id);
        memory.decision = None;
        match never.is_empty() {
            true => drop(memory.never.remove(&id)),
            false => drop(memory.never.insert(id, never)),
        }
    }

    fn plan(&self, task: &Task, free: &Free, now: f64) -> Option<Plan> {
        let line = free.of(task.seat);
        match self.share {
            Share::Minimum => minimum(task, self.grid, &line, Begun::nothing(task, now)),
            Share::Greedy => {
                let in_time = |p: &Plan| task.due.is_none_or(|due| p.end <= due);
                greedy(task, self.grid, &line, now).filter(in_time)
            }
        }
    }

    /// Plans all jobs with deadlines again, once per decision. Jobs that ask for admission are
    /// `asking`.
    fn refresh(&self, memory: &mut Allocated, view: View<'_>, asking: &[JobId]) {
        if memory.decision == Some(view.decision()) {
            return;
        }
        memory.decision = Some(view.decision());
        let now = view.now().secs();
        let asking = asking.iter().filter_map(|id| view.job(*id));
        let known: Vec<(JobRef<'_>, Shape)> = view
            .active()
            .chain(asking)
            .map(|job| (job, Shape::gang(&job)))
            .collect();
        let known = known.iter().map(|(job, shape)| (*job, shape));
        let sets = TypeSets::safe(view, GpusByType::usable(view), known);
        let whole = Free::whole(Arc::new(sets), now);
        memory.free.clone_from(&whole);
        let mut jobs: Vec<(f64, JobId, Task)> = Vec::new();
        for job in view.active() {
            let task = self.task(memory, view, &job);
            if let Some(due) = task.due {
                jobs.push((due, job.id(), task));
            }
        }
        sort::by(&mut jobs, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let old = std::mem::take(&mut memory.plans);
        if self.admits_all {
            self.in_order(memory, &jobs, whole, now);
            return;
        }
        if self.afresh(memory, &jobs, &whole, now, &old) {
            return;
        }
        memory.plans.clear();
        memory.free = whole;
        let mut open = Vec::new();
        for (due, id, task) in &jobs {
            let kept = old.get(id).filter(|p| {
                let enough = work_of(task, p, now) >= task.left * (1.0 - 1e-9);
                enough && p.end <= *due && fits(&memory.free.of(task.seat), p, now)
            });
            match kept {
                Some(plan) => self.adopt(memory, *id, task, plan.clone(), now),
                None => open.push((*id, task)),
            }
        }
        let mut late = Vec::new();
        for (id, task) in open {
            match self.plan(task, &memory.free, now) {
                Some(plan) => self.adopt(memory, id, task, plan, now),
                None => late.push((id, task)),
            }
        }
        self.plan_late(memory, &late, now);
    }

    /// Plans all jobs in order of deadline, on time or not.
    fn in_order(&self, memory: &mut Allocated, jobs: &[(f64, JobId, Task)], whole: Free, now: f64) {
        memory.free = whole;
        for (_, id, task) in jobs {
            let plan = self.plan(task, &memory.free, now);
            let late = || greedy(task, self.grid, &memory.free.of(task.seat), now);
            if let Some(plan) = plan.or_else(late) {
                self.adopt(memory, *id, task, plan, now);
            }
        }
    }

    /// Creates new plans for all jobs. Returns `false` if a job that was on time would be late.
    fn afresh(
        &self,
        memory: &mut Allocated,
        jobs: &[(f64, JobId, Task)],
        whole: &Free,
        now: f64,
        old: &SortedMap<JobId, Plan>,
    ) -> bool {
        memory.free.clone_from(whole);
        let mut late = Vec::new();
        for (due, id, task) in jobs {
            match self.plan(task, &memory.free, now) {
                Some(plan) => self.adopt(memory, *id, task, plan, now),
                None => {
                    let on_time = old.get(id).is_some_and(|p| {
                        p.end <= *due && work_of(task, p, now) >= task.left * (1.0 - 1e-9)
                    });
                    if on_time {
                        return false;
                    }
                    late.push((*id, task));
                }
            }
        }
        self.plan_late(memory, &late, now);
        true
    }

    /// Plans jobs that can no longer end in time on the remaining GPUs.
    fn plan_late(&self, memory: &mut Allocated, late: &[(JobId, &Task)], now: f64) {
        for (id, task) in late {
            let plan = greedy(task, self.grid, &memory.free.of(task.seat), now);
            if let Some(plan) = plan {
                self.adopt(memory, *id, task, plan, now);
            }
        }
    }

    fn adopt(&self, memory: &mut Allocated, id: JobId, task: &Task, plan: Plan, now: f64) {
        memory.free.commit(task.seat, &plan, now, false);
        memory.plans.insert(id, plan);
    }

    /// Returns whether a plan exists with which the job and all others end in time, and adopts it.
    fn admit_one(&self, memory: &mut Allocated, view: View<'_>, job: &JobRef<'_>) -> bool {
        let now = view.now().secs();
        let task = self.task(memory, view, job);
        let Some(due) = task.due else { return true };
        // On the GPUs that all others leave: the existing plans remain valid.
        if let Some(plan) = self.plan(&task, &memory.free, now) {
            self.adopt(memory, job.id(), &task, plan, now);
            return true;
        }
        // In order of deadline, with new plans for later jobs.
        let mut jobs: Vec<(f64, JobId, Task)> = vec![(due, job.id(), task)];
        let ids: Vec<JobId> = memory.plans.keys().copied().collect();
        for id in ids {
            if let Some(other) = view.job(id) {
                let task = self.task(memory, view, &other);
                jobs.push((task.due.unwrap_or(f64::MAX), id, task));
            }
        }
        sort::by(&mut jobs, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (plans, free) = (memory.plans.clone(), memory.free.clone());
        let whole = Free::whole(Arc::clone(free.sets()), now);
        memory.plans.clear();
        let all = self.afresh(memory, &jobs, &whole, now, &plans);
        let met = memory.plans.get(&job.id()).is_some_and(|p| p.end <= due);
        if !(all && met) {
            (memory.plans, memory.free) = (plans, free);
            return false;
        }
        true
    }
}

impl Policy for ElasticFlow {
    type Memory = Allocated;

    fn initial(&self, _: u64) -> Allocated {
        Allocated {
            answer: Shared {
                stale: true,
                ..Shared::default()
            },
            ..Allocated::default()
        }
    }

    fn on_event(&self, memory: &mut Allocated, _: View<'_>, event: &Event) {
        let expected = matches!(
            event,
            Event::Started { .. }
                | Event::Stopped { .. }
                | Event::Metric { .. }
                | Event::AdmissionDecided { .. }
        );
        memory.answer.stale |= !expected;
    }
}

impl AdmissionPolicy for ElasticFlow {
    fn admit(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        if !self.admits_all && !asking.is_empty() {
            self.refresh(memory, view, asking);
        }
        for &id in asking {
            if let Some(job) = view.job(id) {
                let room = Room::of(view);
                Self::limit(memory, &job, |shape| room.anywhere(&job, shape).is_ok());
            }
            match view.job(id) {
                Some(job) if !self.admits_all && !self.admit_one(memory, view, &job) => {
                    memory.levels.remove(&id);
                    memory.never.remove(&id);
                    out.reject(id, Reason::DeadlineUnreachable);
                }
                _ => out.accept(id),
            }
        }
        Validity::UntilEvent
    }
}

impl SchedulingPolicy for ElasticFlow {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let due = memory.answer.until.is_some_and(|t| t <= view.now());
        if memory.answer.stale || due {
            let mut asked = std::mem::take(&mut memory.asked);
            asked.renew(view);
            for job in view.active() {
                asked.of(job.id(), |up| {
                    let could = |shape: &Shape| up.could_place(out, view, &job, shape);
                    Self::limit(memory, &job, could);
                });
            }
            memory.asked = asked;
            self.refresh(memory, view, &[]);
            memory.answer = self.share_out(memory, view);
        }
        for &(id, gpus) in &memory.answer.list {
            if let Some(job) = view.job(id) {
                out.push(Request::with_shape(id, Shape::sized(&job, GpuCount(gpus))));
            }
        }
        out.stop_unlisted();
        Ok(memory
            .answer
            .until
            .map_or(Validity::UntilEvent, Validity::Until))
    }

    fn could_request(&self, _: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        Ok(on_each(job, levels_of(job).iter().map(|(gpus, _)| *gpus)))
    }
}

impl ElasticFlow {
    /// Returns the number of GPUs of each job until plans change.
    fn share_out(&self, memory: &mut Allocated, view: View<'_>) -> Shared {
        let now = view.now().secs();
        let active: Vec<JobRef<'_>> = view.active().collect();
        let tasks: Vec<(JobId, Task)> = active
            .iter()
            .map(|j| (j.id(), self.task(memory, view, j)))
            .collect();
        let gone = |id: &JobId| tasks.binary_search_by_key(id, |t| t.0).is_err();
        memory.levels.retain(|id, _| !gone(id));
        memory.never.retain(|id, _| !gone(id));
        memory.asked.retain(|id| !gone(id));
        memory.plans.retain(|id, _| !gone(id));
        let changes = memory.plans.values().filter_map(|p| p.next_change(now));
        let until = changes.min_by(f64::total_cmp);
        let window = Window {
            now,
            until,
            grid: self.grid,
        };
        let spare = expand(
            &window,
            &tasks,
            &mut memory.plans,
            &mut memory.free,
            self.expands,
        );
        let gpus = |id: &JobId| match memory.plans.get(id) {
            Some(plan) => plan.at(now),
            None => spare.get(id).copied().unwrap_or(0),
        };
        let mut list: Vec<(JobId, u32)> = tasks.iter().map(|(id, _)| (*id, gpus(id))).collect();
        list.retain(|(_, gpus)| *gpus > 0);
        // Large jobs first: powers of two then always find room.
        sort::by_key(&mut list, |(_, gpus)| std::cmp::Reverse(*gpus));
        Shared {
            list,
            until: until.map(Time::new),
            stale: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::order::SortKey;
    use blox_core::policy::by_key;
    use blox_core::runtime::Runtime;
    use blox_core::trigger::OnEvent;
    use blox_core::{ClusterSpec, Composition, Deadline, Extras, JobSpec, Pipeline, State};
    use blox_testing::FirstFit;

    /// Accepted jobs on a cluster of two GPUs.
    struct Run {
        core: Runtime,
        pipeline: Pipeline,
        elastic: ElasticFlow,
        memory: Allocated,
    }

    impl Run {
        /// Creates jobs of these seconds, with levels, rates and a deadline after 120 s.
        fn of(jobs: &[(f64, &[(u32, f64)])]) -> Self {
            let state = State::new(&ClusterSpec::uniform(1, 2)).unwrap();
            let pipeline = Composition::new("toy")
                .scheduling(by_key(|j| SortKey::by(j.submit().secs())).valid_until_event())
                .placement(FirstFit)
                .build()
                .unwrap();
            let elastic = ElasticFlow::new(Seconds::new(60.0));
            let mut run = Run {
                core: Runtime::new(state, Box::new(OnEvent::default())),
                pipeline,
                memory: elastic.initial(0),
                elastic,
            };
            for (i, (work, levels)) in jobs.iter().enumerate() {
                let extras = Extras {
                    levels: levels.iter().map(|(g, _)| GpuCount(*g)).collect(),
                    rates: levels.iter().map(|(_, rate)| *rate).collect(),
                    deadlines: vec![Deadline {
                        at: Time::new(120.0),
                        value: 1.0,
                    }],
                    class: Class::Guaranteed,
                    ..Extras::default()
                };
                let spec = JobSpec::new(Time::ZERO, GpuCount(levels[0].0), Seconds::new(*work));
                let event = Event::Submitted {
                    job: JobId(i as u32),
                    spec: Arc::new(spec.with_extras(extras)),
                };
                run.core
                    .event(Time::ZERO, &event, &mut run.pipeline)
                    .unwrap();
            }
            run.decide();
            run
        }

        fn decide(&mut self) {
            self.core.decide(Time::ZERO, &mut self.pipeline).unwrap();
        }

        fn refresh(&mut self) {
            self.elastic
                .refresh(&mut self.memory, self.core.view(), &[]);
        }

        /// Returns the plans of both jobs after a refresh of the given plans.
        fn refreshed(&mut self, plans: [Plan; 2]) -> [Plan; 2] {
            self.memory.plans = (0..).map(JobId).zip(plans).collect();
            self.memory.decision = None;
            self.refresh();
            [0, 1].map(|job| self.memory.plans[&JobId(job)].clone())
        }
    }

    fn plan(steps: &[(f64, u32)], end: f64) -> Plan {
        Plan {
            steps: steps.to_vec(),
            end,
        }
    }

    #[test]
    fn refresh_plans_once_a_decision() {
        let mut run = Run::of(&[(60.0, &[(1, 1.0)])]);
        let expected = SortedMap::from([(JobId(0), plan(&[(0.0, 1)], 120.0))]);
        run.refresh();
        assert_eq!(run.memory.plans, expected);
        assert_eq!(*run.memory.free.line(), [(0.0, 1), (120.0, 2)]);
        // A plan that admission adds in the same decision stays.
        let added = plan(&[(60.0, 2)], 120.0);
        run.memory.plans.insert(JobId(7), added.clone());
        run.refresh();
        assert_eq!(run.memory.plans.get(&JobId(7)), Some(&added));
        run.decide();
        run.refresh();
        assert_eq!(run.memory.plans, expected);
    }

    #[test]
    fn refresh_keeps_plans_that_new_ones_would_break() {
        // In order of deadline, the first job would take one GPU for the whole time. The second
        // job, which needs both GPUs for half of the time, would be late.
        let mut run = Run::of(&[(120.0, &[(1, 1.0), (2, 2.0)]), (60.0, &[(2, 1.0)])]);
        let late = || plan(&[(60.0, 2)], 120.0);
        let early = || plan(&[(0.0, 2)], 60.0);
        assert_eq!(run.refreshed([late(), early()]), [late(), early()]);
        assert_eq!(*run.memory.free.line(), [(0.0, 0), (120.0, 2)]);
        assert_eq!(run.refreshed([early(), late()]), [early(), late()]);
        // A plan that does too little, ends too late or overlaps is replaced.
        let anew = || plan(&[(0.0, 0), (60.0, 2)], 120.0);
        let short = plan(&[(60.0, 1)], 120.0);
        assert_eq!(run.refreshed([short, early()]), [anew(), early()]);
        let overdue = plan(&[(60.0, 1)], 180.0);
        assert_eq!(run.refreshed([overdue, early()]), [anew(), early()]);
        assert_eq!(run.refreshed([early(), early()]), [early(), anew()]);
    }
}
