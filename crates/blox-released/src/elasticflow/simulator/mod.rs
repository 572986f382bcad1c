//! ElasticFlow's released scheduler (pkusys/ElasticFlow, commit 04a0109) and
//! the baselines that it ships.
//!
//! The original is a scheduler and its own simulator in one loop: it plans when
//! each job will end, lets jobs end when it planned, charges overheads to its
//! own estimates, and merges what happens within a slot. Such a program is kept
//! here as a `Program` that is run a step at a time, and [`Original`] makes an
//! admission and scheduling policy of it: jobs are turned away, placed node by
//! node and ended as the program says. In a simulation of it jobs end only
//! through the scheduler (`blox_sim`'s completion rule `ByScheduler`); speeds
//! and overheads are the program's own.
//!
//! The program reads its whole trace before it begins, and what it does near a
//! step depends on whether more is to come: it is given the moments of all
//! submissions, by number of job, and nothing else about jobs that have not
//! come in.

mod buddy;
mod chronus;
mod edf;
mod elastic;
mod events;
mod gandiva;
mod job;
mod shares;
mod standing;
mod themis;
mod timeline;
mod tiresias;
mod trial;

pub use buddy::Shape;
pub use chronus::{Chronus, ChronusRow, Times};
pub use edf::{Edf, EdfAdmission};
pub use elastic::{Elastic, WithAdmission, WithoutAdmission};
pub use gandiva::Gandiva;
pub use themis::Themis;
pub use tiresias::Tiresias;

use blox_core::{
    AdmissionPolicy, Draft, DraftError, GpuCount, JobId, JobRef, NodeId, Outlook, Part, Place,
    PlacementPolicy, Reason, Request, Requests, RestoreError, SchedulingPolicy, Time, Verdicts,
    View,
};
use buddy::Spread;
use job::Job;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a program's steps gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    admitted: Vec<u32>,
    rejected: Vec<u32>,
    started: Vec<u32>,
    ended: Vec<PlannedEnd>,
    /// Who holds what from now on.
    runs: Vec<(u32, Spread)>,
}

/// An end as the program had planned it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedEnd {
    /// The job.
    pub job: u32,
    /// The end that counts, in seconds.
    pub at: f64,
    /// The end of its work by the plan: before `at` where plans are made in slots.
    pub exact: f64,
    /// Whether the program counts it as late.
    pub late: bool,
}

impl Step {
    fn end(&mut self, job: u32, at: f64, exact: f64, late: bool) {
        self.ended.push(PlannedEnd {
            job,
            at,
            exact,
            late,
        });
    }

    fn clear(&mut self) {
        self.admitted.clear();
        self.rejected.clear();
        self.started.clear();
        self.ended.clear();
        self.runs.clear();
    }
}

mod sealed {
    use super::{Job, Step};
    use serde::{Deserialize, Serialize};

    /// One of the original's schedulers, run a step at a time.
    pub trait Program: Clone + Send + Serialize + for<'a> Deserialize<'a> {
        /// When it wants to be run next.
        fn due(&self) -> Option<f64>;

        /// A step of its loop at `now`, which is `due`.
        fn step(&mut self, now: f64, jobs: &mut [Job], out: &mut Step);
    }
}
use sealed::Program;

/// A program of the original as an admission and scheduling policy. Its
/// placement is [`AsPlanned`].
#[derive(Clone)]
pub struct Original<P> {
    program: P,
    jobs: Vec<Job>,
    step: Step,
    /// The decision in which it was run last.
    decision: Option<u64>,
    /// All ends so far.
    ends: Vec<PlannedEnd>,
}

/// `ef-accessctrl`: ElasticFlow. `submits` holds the moments of all submissions
/// in seconds, by number of job; `slot` is its least time between steps.
pub fn elasticflow(shape: Shape, slot: f64, submits: &[f64]) -> Original<Elastic<WithAdmission>> {
    Original::of(Elastic::new(shape, slot, submits))
}

/// `ef`: ElasticFlow without admission control.
pub fn ef(shape: Shape, slot: f64, submits: &[f64]) -> Original<Elastic<WithoutAdmission>> {
    Original::of(Elastic::new(shape, slot, submits))
}

/// `edf`: earliest deadline first, each job on as many GPUs as it can use.
pub fn edf(shape: Shape, slot: f64, submits: &[f64]) -> Original<Edf> {
    Original::of(Edf::new(shape, slot, submits))
}

/// `edf-accessctrl`: the same with admission control.
pub fn edf_admission(shape: Shape, slot: f64, submits: &[f64]) -> Original<EdfAdmission> {
    Original::of(EdfAdmission::new(shape, slot, submits))
}

/// `dlas-gpu`: Tiresias with queues at 3250 and 7200 GPU-seconds.
pub fn tiresias(shape: Shape, slot: f64, submits: &[f64]) -> Original<Tiresias> {
    Original::of(Tiresias::new(shape, slot, submits))
}

/// `gandiva`: time slicing in node sets.
pub fn gandiva(shape: Shape, slot: f64, submits: &[f64]) -> Original<Gandiva> {
    Original::of(Gandiva::new(shape, slot, submits))
}

/// `time-aware-with-lease`: Chronus without its solver.
pub fn chronus(shape: Shape, times: Times, submits: &[f64]) -> Original<Chronus> {
    Original::of(Chronus::new(shape, times, submits))
}

/// `themis`: finish-time fairness in leases of a slot.
pub fn themis(shape: Shape, slot: f64, submits: &[f64]) -> Original<Themis> {
    Original::of(Themis::new(shape, slot, submits))
}

/// The ends that a policy of this module has planned and carried out, in their
/// order, from what it saved.
pub fn planned_ends(saved: &Value) -> Option<Vec<PlannedEnd>> {
    serde_json::from_value(saved.get(4)?.clone()).ok()
}

/// The rows that a [`chronus`] policy has logged, from what it saved.
pub fn chronus_rows(saved: &Value) -> Option<Vec<ChronusRow>> {
    serde_json::from_value(saved.get(0)?.get("rows")?.clone()).ok()
}

impl<P: Program> Original<P> {
    fn of(program: P) -> Self {
        Original {
            program,
            jobs: Vec::new(),
            step: Step::default(),
            decision: None,
            ends: Vec::new(),
        }
    }

    fn take_in(&mut self, job: &JobRef<'_>) {
        let at = job.id().index();
        if self.jobs.len() <= at {
            self.jobs.resize_with(at + 1, Job::default);
        }
        self.jobs[at] = Job::of(job);
    }

    /// Runs the program up to now, once a decision.
    fn catch_up(&mut self, view: View<'_>) {
        if self.decision == Some(view.decision()) {
            return;
        }
        self.step.clear();
        let now = view.now().secs();
        while let Some(at) = self.program.due().filter(|at| *at <= now) {
            self.program.step(at, &mut self.jobs, &mut self.step);
            self.decision = Some(view.decision());
            if self.program.due().is_some_and(|next| next <= at) {
                break;
            }
        }
        self.ends.extend(&self.step.ended);
    }
}

impl<P: Program> Part for Original<P> {
    fn save(&self) -> Option<Value> {
        let memory = (
            &self.program,
            &self.jobs,
            &self.step,
            self.decision,
            &self.ends,
        );
        serde_json::to_value(memory).ok()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        (self.program, self.jobs, self.step, self.decision, self.ends) =
            serde_json::from_value(memory)?;
        Ok(())
    }
}

impl<P: Program> AdmissionPolicy for Original<P> {
    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook {
        for &id in asking {
            if let Some(job) = view.job(id) {
                self.take_in(&job);
            }
        }
        self.catch_up(view);
        for &job in &self.step.admitted {
            out.accept(JobId(job));
        }
        for &job in &self.step.rejected {
            out.reject(JobId(job), Reason::DeadlineUnreachable);
        }
        Outlook::Stable
    }
}

impl<P: Program + 'static> SchedulingPolicy for Original<P> {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        self.catch_up(view);
        if self.decision == Some(view.decision()) {
            for (job, spread) in &self.step.runs {
                let nodes: Vec<_> = spread.iter().map(|(n, c)| (NodeId(*n), *c)).collect();
                let gpus = GpuCount(spread.iter().map(|(_, c)| c).sum());
                out.push(Request::with_shape(
                    JobId(*job),
                    blox_core::Shape {
                        gpus,
                        place: Place::Nodes(nodes),
                        ..Default::default()
                    },
                ));
            }
            out.stop_unlisted();
            for ended in &self.step.ended {
                out.finish(
                    JobId(ended.job),
                    Reason::EndPlanned {
                        at: Time::new(ended.at),
                        exact: Time::new(ended.exact),
                    },
                );
            }
        }
        match self.program.due() {
            Some(at) => Outlook::Until(Time::new(at)),
            None => Outlook::Stable,
        }
    }

    fn admission(&mut self) -> Option<&mut dyn AdmissionPolicy> {
        Some(self)
    }
}

/// Places jobs on the nodes that their requests name: those that have as many
/// GPUs on the same nodes stay, all others are moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsPlanned;

impl Part for AsPlanned {}

impl PlacementPolicy for AsPlanned {
    fn place(&mut self, requests: &mut Requests, draft: &mut Draft<'_>) -> Result<(), DraftError> {
        let list = requests.list();
        for request in list {
            let has = draft.current(request.job);
            let stays = has.is_none_or(|a| {
                request
                    .shapes
                    .iter()
                    .any(|s| matches!(&s.place, Place::Nodes(nodes) if lies_on(draft, a, nodes)))
            });
            if !stays {
                draft.release(request.job, Reason::NotChosen)?;
            }
        }
        for request in list {
            if draft.current(request.job).is_some() || !draft.may_place(request.job) {
                continue;
            }
            for shape in &request.shapes {
                let Place::Nodes(nodes) = &shape.place else {
                    continue;
                };
                let gpus: Option<Vec<_>> = nodes
                    .iter()
                    .map(|(node, count)| draft.take_from(*node, *count))
                    .collect();
                if let Some(gpus) = gpus {
                    let gpus: blox_core::GpuList = gpus.into_iter().flatten().collect();
                    draft.assign(request.job, blox_core::Assignment::of(gpus))?;
                    break;
                }
            }
        }
        Ok(())
    }

    fn can_ever_place(&self, _: View<'_>, _: &JobRef<'_>) -> Result<(), Reason> {
        Ok(())
    }
}

/// Whether an assignment has just so many GPUs on just these nodes.
fn lies_on(draft: &Draft<'_>, a: &blox_core::Assignment, nodes: &[(NodeId, u32)]) -> bool {
    let cluster = draft.view().cluster();
    let on = |node: NodeId| {
        let here = a.gpus.iter().filter(|g| cluster.node_of(**g) == Some(node));
        here.count() as u32
    };
    let wanted: u32 = nodes.iter().map(|(_, c)| c).sum();
    a.count() == GpuCount(wanted) && nodes.iter().all(|(n, c)| on(*n) == *c)
}
