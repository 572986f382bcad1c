//! A manually driven cluster, scripted policies and a simple placement.

use blox_core::runtime::Runtime;
use blox_core::*;
use std::collections::BTreeMap;
use std::sync::Arc;

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

pub fn beside(job: u32, gpus: &[u32], partner: u32) -> Action {
    let mut assignment = on(gpus);
    assignment.partners.insert(JobId(partner));
    Action::Place {
        job: JobId(job),
        assignment,
    }
}

pub fn stop(job: u32) -> Action {
    Action::Stop {
        job: JobId(job),
        why: Reason::NotChosen,
    }
}

/// Formats actions, for instance `stop 0; place 1 on 2 3 beside 4 with 8 cpus`.
pub fn text(actions: &[Action]) -> String {
    let step = |a: &Action| match a {
        Action::Stop { job, .. } => format!("stop {job}"),
        Action::Place { job, assignment: a } => {
            let mut s = format!("place {job} on");
            for g in &a.gpus {
                s += &format!(" {g}");
            }
            for (i, p) in a.partners.iter().enumerate() {
                s += &format!("{} {p}", [" beside", " and"][i.min(1)]);
            }
            if a.cpus != 0.0 {
                s += &format!(" with {} cpus", a.cpus);
            }
            s
        }
        Action::Finish { job, .. } => format!("finish {job}"),
        Action::Promote { job } => format!("promote {job}"),
        other => format!("{other:?}"),
    };
    actions.iter().map(step).collect::<Vec<_>>().join("; ")
}

pub fn command_text(c: &Command) -> String {
    match c {
        Command::Stop { job, attempt, .. } => format!("stop {job}.{attempt}"),
        Command::Start { job, attempt } => format!("start {job}.{attempt}"),
        Command::Change { job, attempt, .. } => format!("change {job}.{attempt}"),
        other => format!("{other:?}"),
    }
}

pub struct Bench {
    pub core: Runtime,
    pub policy: Box<dyn Scheduler>,
    pub commands: Vec<Command>,
    /// Iterations a second by number of GPUs.
    pub rate: fn(usize) -> f64,
}

impl Bench {
    pub fn new(
        cluster: &str,
        trigger: impl DecisionTrigger + 'static,
        policy: impl Scheduler + 'static,
    ) -> Self {
        Bench::of(cluster.parse().unwrap(), trigger, policy)
    }

    pub fn of(
        cluster: ClusterSpec,
        trigger: impl DecisionTrigger + 'static,
        policy: impl Scheduler + 'static,
    ) -> Self {
        Bench {
            core: Runtime::new(State::new(&cluster).unwrap(), Box::new(trigger)),
            policy: Box::new(policy),
            commands: Vec::new(),
            rate: |_| 1.0,
        }
    }

    pub fn submit(&mut self, at: f64, mut spec: JobSpec) -> JobId {
        spec.submit = t(at);
        let job = self.core.state().next_job_id();
        self.event(
            at,
            Event::Submitted {
                job,
                spec: Arc::new(spec),
            },
        );
        job
    }

    pub fn event(&mut self, at: f64, event: Event) {
        self.try_event(at, event).unwrap();
    }

    pub fn try_event(&mut self, at: f64, event: Event) -> Result<(), EventError> {
        let result = self.core.event(t(at), &event, &mut *self.policy);
        self.core.take_commands(&mut self.commands);
        result
    }

    pub fn started(&mut self, at: f64, job: u32, attempt: u32) {
        let job = JobId(job);
        let gpus = self
            .core
            .state()
            .job(job)
            .unwrap()
            .bound()
            .map_or(0, |a| a.gpus.len());
        let rate = (self.rate)(gpus);
        self.event(at, Event::Started { job, attempt, rate });
    }

    pub fn stopped(&mut self, at: f64, job: u32, attempt: u32) {
        let (job, work) = (JobId(job), None);
        self.event(at, Event::Stopped { job, attempt, work });
    }

    pub fn ended(&mut self, at: f64, job: u32) {
        let (job, outcome) = (JobId(job), Outcome::Completed);
        self.event(at, Event::Ended { job, outcome });
    }

    /// Returns the steps of a decision made now.
    pub fn decide(&mut self, at: f64) -> String {
        match self.try_decide(at) {
            Ok(steps) => steps,
            Err(e) => panic!("{e}"),
        }
    }

    pub fn try_decide(&mut self, at: f64) -> Result<String, DecisionError> {
        let decided = self.core.decide(t(at), &mut *self.policy);
        self.core.take_commands(&mut self.commands);
        decided.map(|()| text(&self.core.plan().actions))
    }

    pub fn take_commands(&mut self) -> String {
        let all: Vec<String> = self.commands.drain(..).map(|c| command_text(&c)).collect();
        all.join("; ")
    }

    /// Executes all commands at once, and all that follow from them. Skips commands that later
    /// plans made obsolete.
    pub fn settle(&mut self, at: f64) {
        while !self.commands.is_empty() {
            for c in std::mem::take(&mut self.commands) {
                let awaited = |job: JobId, n: u32, phase: Phase| {
                    let job = self.core.state().job(job);
                    job.is_some_and(|j| j.attempt() == n && j.phase() == phase)
                };
                match c {
                    Command::Stop { job, attempt, .. }
                        if !awaited(job, attempt, Phase::Stopping) => {}
                    Command::Start { job, attempt } | Command::Change { job, attempt, .. }
                        if !awaited(job, attempt, Phase::Starting) => {}
                    Command::Stop { job, attempt, .. } => self.stopped(at, job.0, attempt),
                    Command::Start { job, attempt } | Command::Change { job, attempt, .. } => {
                        self.started(at, job.0, attempt);
                    }
                    Command::Finish { job } => self.event(
                        at,
                        Event::Ended {
                            job,
                            outcome: Outcome::Terminated,
                        },
                    ),
                    _ => {}
                }
            }
        }
    }

    /// Decides and executes all commands at once.
    pub fn round(&mut self, at: f64) -> String {
        let steps = self.decide(at);
        self.settle(at);
        steps
    }

    pub fn phase(&self, job: u32) -> &'static str {
        self.core
            .state()
            .job(JobId(job))
            .map_or("gone", |j| j.phase().as_str())
    }

    /// Returns the phases, for instance `0 running, 1 waiting`.
    pub fn phases(&self) -> String {
        let known = (0..self.core.state().next_job_id().0)
            .filter(|j| self.core.state().job(JobId(*j)).is_some());
        let all: Vec<String> = known.map(|j| format!("{j} {}", self.phase(j))).collect();
        all.join(", ")
    }

    pub fn job(&self, job: u32) -> JobRef<'_> {
        self.core.state().job(JobId(job)).unwrap()
    }

    /// Returns the ledgers of a GPU, for instance `allocated to 1, bound to 0`.
    pub fn ledgers(&self, gpu: u32) -> String {
        let list = |ids: &mut dyn Iterator<Item = JobId>| {
            let ids: Vec<String> = ids.map(|j| j.to_string()).collect();
            if ids.is_empty() {
                "nobody".to_owned()
            } else {
                ids.join("+")
            }
        };
        let c = self.core.state().cluster();
        format!(
            "allocated to {}, bound to {}",
            list(&mut c.allocated_to(GpuId(gpu))),
            list(&mut c.bound_to(GpuId(gpu)))
        )
    }
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

    fn has(draft: &Draft<'_>, job: JobId, shape: &Shape, partners: &Partners) -> bool {
        let cluster = draft.view().cluster();
        draft.current(job).is_some_and(|a| {
            let ty = cluster
                .node(cluster.node_of(a.gpus[0]).unwrap())
                .unwrap()
                .gpu_type();
            a.partners == *partners
                && a.count() == shape.gpus
                && shape.gpu_type.is_none_or(|wanted| wanted == ty)
        })
    }
}

impl PlacementPolicy for Shapes {
    fn place(
        &self,
        (): &mut (),
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        let list = requests.all(draft.view()).into_owned();
        let stays =
            |draft: &Draft<'_>, r: &Request| Shapes::has(draft, r.job, &r.shapes[0], &r.partners);
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
                if let Place::ShareWith(host) = shape.place {
                    let Some(theirs) = draft.current(host) else {
                        continue;
                    };
                    let mut a = Assignment::of(theirs.gpus.iter().copied());
                    a.partners.insert(host);
                    draft.assign(r.job, a)?;
                    break;
                }
                let Some(gpus) = Shapes::free(draft, shape) else {
                    continue;
                };
                draft.assign(r.job, Assignment::of(gpus.clone()))?;
                for partner in r.partners.iter() {
                    let mut a = Assignment::of(gpus.clone());
                    a.partners.insert(r.job);
                    draft.assign(partner, a)?;
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
