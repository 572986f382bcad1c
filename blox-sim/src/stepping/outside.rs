//! Answers from outside of the scheduler.

use crate::SimError;
use blox_core::core::{Core, Question};
use blox_core::input::{Input, Refused};
use blox_core::{
    AdmissionDecisions, Decision, DecisionError, Event, JobId, Lens, NodeActionKinds, NodeActions,
    Pipeline, Plan, PlanError, Scheduler, Validity, View,
};

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
            0 => Ok(()),
            steps => Err(AnswerError::NoEffect(steps)),
        },
    }
}
