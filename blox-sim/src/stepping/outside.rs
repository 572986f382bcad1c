//! Answers from outside of the scheduler.

use crate::SimError;
use crate::results::is_rigid;
use blox_core::core::{Core, Question};
use blox_core::input::{Input, Refused};
use blox_core::{
    Action, AdmissionDecisions, Assignment, Decision, DecisionError, Event, GpuCount, JobId,
    JobRef, Lens, NodeActionKinds, NodeActions, Pipeline, Plan, PlanError, Scheduler, Share,
    Validity, View,
};
use std::mem::discriminant;

/// An answer from outside that was not taken; see [`Stepper::answer`](super::Stepper::answer).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No question is open.
    #[error("no question is open; a step leads to the next one")]
    NoQuestion,
    /// The plan contradicts the state.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The scheduler failed at its part of the decision.
    #[error(transparent)]
    Scheduler(#[from] DecisionError),
    /// The plan places a job on a number of GPUs on which it does not run.
    #[error("the plan places job {job} on {found} GPUs, expected {expected}")]
    GpuCount {
        /// The job.
        job: JobId,
        /// Number of GPUs in the plan.
        found: GpuCount,
        /// The numbers of GPUs on which the job runs.
        expected: String,
    },
    /// The plan gives a job other parts of its GPUs than requested.
    #[error("the plan gives job {job} {found} of each GPU, expected {expected} (`share`)")]
    Part {
        /// The job.
        job: JobId,
        /// The part in the plan.
        found: Share,
        /// The requested part.
        expected: Share,
    },
    /// The plan finishes a job that it also finishes, stops or places.
    #[error("the plan wants to finish and to {what} job {job}, expected one of them")]
    Fates {
        /// The job.
        job: JobId,
        /// The other step.
        what: &'static str,
    },
    /// Some node actions or admission decisions have no effect.
    #[error("{0} node actions or admission decisions of the answer have no effect")]
    NoEffect(u64),
    /// The simulation cannot go on.
    #[error(transparent)]
    Simulation(#[from] SimError),
}

/// A scheduler whose plans come from outside.
#[derive(Clone)]
pub(super) struct Outside<'a> {
    pub scheduler: Pipeline,
    pub answer: &'a Decision,
}

impl Scheduler for Outside<'_> {
    fn name(&self) -> &str {
        self.scheduler.name()
    }

    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Validity {
        let validity = self.scheduler.manage(view, out);
        if !self.answer.actions.is_empty() {
            out.clone_from(&self.answer.actions);
        }
        validity
    }

    fn actions(&self) -> NodeActionKinds {
        match self.answer.actions.is_empty() {
            true => self.scheduler.actions(),
            false => NodeActionKinds::ALL,
        }
    }

    fn admit(
        &mut self,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let validity = self.scheduler.admit(view, asking, out);
        if !self.answer.admissions.is_empty() {
            out.clone_from(&self.answer.admissions);
        }
        validity
    }

    fn plan(&mut self, _: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
        let version = out.version;
        out.clone_from(&self.answer.plan);
        out.version = version;
        Ok(self.answer.validity)
    }

    fn on_event(&mut self, view: View<'_>, event: &Event) {
        self.scheduler.on_event(view, event);
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        self.scheduler.on_launches(view, plan);
    }
}

/// Checks that a core takes an answer. A copy of it decides.
pub(super) fn check(
    core: &Core,
    scheduler: &Pipeline,
    open: Question,
    answer: &Decision,
) -> Result<(), AnswerError> {
    let before = core.counters().stale_steps;
    let mut copy = Core::restore(core.save(), scheduler.trigger());
    let mut outside = Outside {
        scheduler: scheduler.clone(),
        answer,
    };
    let mut decision = Box::<Decision>::default();
    copy.decide(&mut outside, &mut Lens::default(), &mut decision)?;
    let input = Input::Decided {
        at: open.at,
        question: open.number,
        decision,
        instant: Default::default(),
    };
    match copy.handle(&input, &mut (), &mut Vec::new()) {
        Err(Refused::Plan(error)) => Err(error.into()),
        Err(_) => Err(AnswerError::NoQuestion),
        Ok(()) => match copy.counters().stale_steps - before {
            0 => check_steps(core.view(), &answer.plan),
            steps => Err(AnswerError::NoEffect(steps)),
        },
    }
}

/// Checks rules that the state does not have: policies may resize rigid jobs, for example.
fn check_steps(view: View<'_>, plan: &Plan) -> Result<(), AnswerError> {
    for (step, action) in plan.actions.iter().enumerate() {
        let job = action.job();
        match action {
            Action::Place { assignment, .. } => {
                view.job(job)
                    .map_or(Ok(()), |job| check_size(&job, assignment))?;
            }
            Action::Finish { .. } => {
                let mut others = plan.actions.iter();
                let other = others.find_map(|other| match other {
                    _ if other.job() != job => None,
                    Action::Stop { .. } => Some("stop"),
                    Action::Place { .. } => Some("place"),
                    _ => None,
                });
                if let Some(what) = other {
                    return Err(AnswerError::Fates { job, what });
                }
            }
            _ => {}
        }
        let what = match action {
            Action::Finish { .. } => "finish",
            Action::Promote { .. } => "promote",
            Action::Notify { .. } => "notify",
            // The state finds these.
            _ => continue,
        };
        let (kind, mut later) = (discriminant(action), plan.actions.iter().skip(step + 1));
        if later.any(|other| other.job() == job && discriminant(other) == kind) {
            let what = what.into();
            return Err(PlanError::Twice { job, what }.into());
        }
    }
    Ok(())
}

/// Checks the number of GPUs of a job, and its parts of them. Services and jobs with training data or
/// execution plans run on any number.
fn check_size(job: &JobRef<'_>, assignment: &Assignment) -> Result<(), AnswerError> {
    let (spec, found) = (job.spec(), assignment.count());
    let levels = &spec.extras().levels;
    let fits = found == job.gpus() || levels.contains(&found);
    let trains = spec.extras().training.is_some();
    let adapts = trains || (levels.is_empty() && !is_rigid(spec));
    if spec.extras().need.is_some() || adapts {
        return Ok(());
    }
    if !fits {
        let mut all: Vec<GpuCount> = levels.iter().copied().chain([job.gpus()]).collect();
        all.sort_unstable();
        all.dedup();
        let all: Vec<String> = all.iter().map(GpuCount::to_string).collect();
        return Err(AnswerError::GpuCount {
            job: job.id(),
            found,
            expected: all.join(" or "),
        });
    }
    // The compute of an overlapping part is an upper limit, too.
    let (found, expected) = (assignment.share, job.share());
    match found.fraction() == expected.fraction() {
        true => Ok(()),
        false => Err(AnswerError::Part {
            job: job.id(),
            found,
            expected,
        }),
    }
}
