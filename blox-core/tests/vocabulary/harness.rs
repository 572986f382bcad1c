//! Shorthands, scripted policies and a simple placement.

pub use crate::functions::{admission_fn, by_submission, composed, list, placement_fn};
pub use blox_core::policy::scheduling_fn;
use blox_core::*;
pub use blox_testing::Scenario;
use std::collections::BTreeMap;

pub fn t(secs: f64) -> Time {
    Time::new(secs)
}

pub fn job(gpus: u32, secs: f64) -> JobSpec {
    JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(secs))
}

pub fn rounds(secs: f64) -> Rounds {
    Rounds::every(Seconds::new(secs)).unwrap()
}

pub fn on(gpus: &[u32]) -> Assignment {
    Assignment::of(gpus.iter().map(|g| GpuId(*g)))
}

pub fn place(job: u32, gpus: &[u32]) -> Action {
    Action::Place {
        job: JobId(job),
        assignment: on(gpus),
    }
}

/// A placement that overlaps others.
pub fn beside(job: u32, gpus: &[u32]) -> Action {
    let mut assignment = on(gpus);
    assignment.share = Share::WHOLE.overlapping();
    Action::Place {
        job: JobId(job),
        assignment,
    }
}

/// Returns the other jobs on the GPUs of a job.
pub fn beside_of(b: &Scenario, job: u32) -> Vec<u32> {
    let (gpus, cluster) = (
        &b.job(job).assignment().unwrap().gpus,
        b.core.state().cluster(),
    );
    let jobs = gpus.iter().flat_map(|gpu| cluster.allocated_to(*gpu));
    let mut others: Vec<u32> = jobs
        .map(|other| other.0)
        .filter(|other| *other != job)
        .collect();
    others.sort_unstable();
    others.dedup();
    others
}

pub fn stop(job: u32) -> Action {
    Action::Stop {
        job: JobId(job),
        why: Reason::NotChosen,
    }
}

pub fn case(
    cluster: &str,
    trigger: impl DecisionTrigger + 'static,
    policy: impl Scheduler + 'static,
) -> Scenario {
    Scenario::deciding(&cluster.parse().unwrap(), trigger, policy)
}

/// Returns prepared plans, by number of the decision from 0.
#[derive(Clone, Default)]
pub struct Scripted {
    pub plans: BTreeMap<u64, Vec<Action>>,
    made: u64,
}

impl Scripted {
    pub fn new(plans: impl IntoIterator<Item = Vec<Action>>) -> Self {
        Scripted {
            plans: (0..).zip(plans).collect(),
            made: 0,
        }
    }
}

impl Scheduler for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }
    fn manage(&mut self, _: View<'_>, _: &mut NodeActions) -> Validity {
        Validity::UntilEvent
    }
    fn admit(&mut self, _: View<'_>, asking: &[JobId], out: &mut AdmissionDecisions) -> Validity {
        asking.iter().for_each(|j| out.accept(*j));
        Validity::UntilEvent
    }
    fn plan(&mut self, _: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
        out.actions
            .extend(self.plans.get(&self.made).into_iter().flatten().cloned());
        self.made += 1;
        Ok(Validity::UntilEvent)
    }
}

/// Assigns one of its shapes to each request of a list. A job whose assignment matches one of its
/// shapes stays; others are moved.
#[derive(Clone, Default)]
pub struct Shapes;

impl Stateless for Shapes {}

impl Shapes {
    fn free(draft: &Draft<'_>, shape: &Shape) -> Option<GpuList> {
        let n = shape.gpus.get() as usize;
        let fits = |node: &&Node| shape.gpu_type.is_none_or(|ty| node.gpu_type() == ty);
        let free: GpuList = draft
            .nodes_with_free()
            .filter(fits)
            .flat_map(|node| draft.free_gpus_on(node.id()))
            .take(n)
            .collect();
        (free.len() == n).then_some(free)
    }

    fn has(draft: &Draft<'_>, job: JobId, shape: &Shape, guests: &[JobId]) -> bool {
        let cluster = draft.view().cluster();
        draft.current(job).is_some_and(|a| {
            let ty = cluster
                .node(cluster.node_of(a.gpus[0]).unwrap())
                .unwrap()
                .gpu_type();
            draft.companions(job) == guests
                && a.count() == shape.gpus
                && shape.gpu_type.is_none_or(|wanted| wanted == ty)
        })
    }
}

impl PlacementPolicy for Shapes {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let list = requests.all(draft.view()).into_owned();
        let stays =
            |draft: &Draft<'_>, r: &Request| Shapes::has(draft, r.job, &r.shapes[0], r.guests());
        for r in &list {
            if !stays(draft, r) {
                for job in r.jobs() {
                    if draft.current(job).is_some() {
                        draft.release(job, Reason::other("moves"))?;
                    }
                }
            }
        }
        for r in &list {
            if !draft.may_place(r.job) || draft.current(r.job).is_some() {
                continue;
            }
            for shape in &r.shapes {
                let Some(gpus) = Shapes::free(draft, shape) else {
                    continue;
                };
                draft.assign(r.job, Assignment::of(gpus.clone()))?;
                for guest in r.guests() {
                    let mut a = Assignment::of(gpus.clone());
                    a.share = a.share.overlapping();
                    draft.assign(*guest, a)?;
                }
                break;
            }
        }
        Ok(Validity::UntilEvent)
    }
}

/// One complete pipeline for each virtual cluster; the first one manages the nodes.
#[derive(Clone)]
pub struct PerVirtualCluster {
    pub pipelines: Vec<(Name, Pipeline)>,
}

impl Scheduler for PerVirtualCluster {
    fn name(&self) -> &str {
        "per-virtual-cluster"
    }
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        for (_, p) in &mut self.pipelines {
            p.on_event(view, event);
        }
    }
    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        for (_, p) in &mut self.pipelines {
            p.on_launches(view, plan);
        }
    }
    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Validity {
        self.pipelines[0].1.manage(view, out)
    }
    fn actions(&self) -> NodeActionKinds {
        self.pipelines[0].1.actions()
    }
    fn admit(
        &mut self,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let mut validity = Validity::UntilEvent;
        for (name, p) in &mut self.pipelines {
            let Some(vc) = view.names().find(name) else {
                continue;
            };
            let lens = view.narrowed(vc);
            let scoped = view.through(&lens);
            let ours: Vec<JobId> = asking
                .iter()
                .copied()
                .filter(|j| scoped.job(*j).is_some())
                .collect();
            validity = validity.and(p.admit(scoped, &ours, out));
        }
        validity
    }
    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
        let mut validity = Validity::UntilEvent;
        for (name, p) in &mut self.pipelines {
            let Some(vc) = view.names().find(name) else {
                continue;
            };
            let lens = view.narrowed(vc);
            validity = validity.and(p.plan(view.through(&lens), out)?);
        }
        Ok(validity)
    }
}
