//! A core with its scheduler and its observers.

pub mod core;
pub mod drive;
pub mod feasibility;
mod fitting;
pub mod forecast;
pub mod journal;
pub mod pipeline;
pub mod replay;
pub mod trigger;

use crate::core::{Core, Observer, guarded};
use crate::decide_error::DecisionError;
use crate::decision::{Command, Decision, Plan};
use crate::event::Event;
use crate::ids::Name;
use crate::input::{Input, Instant, Refused};
use crate::journal::{Journal, Start};
use crate::lens::Lens;
use crate::pipeline::Scheduler;
use crate::policy::{MemoryError, MetricCollector};
use crate::state::{EventError, State};
use crate::trigger::DecisionTrigger;
use crate::units::Time;
use crate::view::View;
use std::ops::Deref;

/// Metric collectors and a journal. Their calls and the order of the calls are the same on every
/// backend.
#[derive(Default)]
pub struct Observers {
    collectors: Vec<Box<dyn MetricCollector>>,
    journal: Option<Box<dyn Journal>>,
    missed: Option<Box<DecisionError>>,
    failed: u64,
}

impl Observers {
    /// Adds a collector.
    pub fn add(&mut self, collector: Box<dyn MetricCollector>) {
        self.collectors.push(collector);
    }

    /// Records the initial state of core and scheduler in the journal, if there is one. Call it
    /// before the first input.
    ///
    /// # Errors
    /// The scheduler's memory cannot be saved.
    pub fn start(&mut self, core: &Core, scheduler: &dyn Scheduler) -> Result<(), MemoryError> {
        if let Some(journal) = &mut self.journal {
            journal.start(&Start {
                scheduler: scheduler.name().into(),
                core: core.save(),
                policy: scheduler.save()?,
            });
        }
        Ok(())
    }

    /// Returns whether there are no collectors and no journal.
    pub fn is_empty(&self) -> bool {
        self.collectors.is_empty() && self.journal.is_none()
    }

    /// Sets the journal that records all inputs.
    pub fn set_journal(&mut self, journal: Box<dyn Journal>) {
        self.journal = Some(journal);
    }

    /// Returns the collectors.
    pub fn collectors(&self) -> &[Box<dyn MetricCollector>] {
        &self.collectors
    }

    /// Returns the number of panics of the scheduler in [`Scheduler::on_event`] or
    /// [`Scheduler::on_launches`].
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Removes and returns the last of these panics.
    pub fn take_missed(&mut self) -> Option<DecisionError> {
        self.missed.take().map(|why| *why)
    }

    /// Writes all recorded inputs of the journal to its output.
    ///
    /// # Errors
    /// The first error of the journal.
    pub fn flush_journal(&mut self) -> std::io::Result<()> {
        match &mut self.journal {
            Some(journal) => journal.flush(),
            None => Ok(()),
        }
    }

    /// Passes an input to a core, and records it in the journal if the core accepts it. The
    /// `schedulers` are notified of plans and of all events except launches, stops and their own
    /// decisions.
    ///
    /// # Errors
    /// See [`Core::handle`].
    #[inline]
    pub fn handle(
        &mut self,
        core: &mut Core,
        schedulers: &mut [&mut dyn Scheduler],
        input: &Input,
        out: &mut Vec<Command>,
    ) -> Result<(), Refused> {
        let mut all = Listeners {
            schedulers,
            observers: self,
        };
        let result = core.handle(input, &mut all, out);
        if let Some(journal) = &mut self.journal
            // A turn that is lost by an invalid plan must be lost again in a replay.
            && matches!(result, Ok(()) | Err(Refused::Plan(_)))
        {
            journal.record(input);
        }
        result
    }
}

/// The schedulers and the observers of a core.
struct Listeners<'a, 's> {
    schedulers: &'a mut [&'s mut (dyn Scheduler + 's)],
    observers: &'a mut Observers,
}

impl Listeners<'_, '_> {
    /// Calls the schedulers, and counts a panic. The event is applied in any case.
    fn notify(&mut self, view: View<'_>, call: impl Fn(&mut dyn Scheduler)) {
        let mut schedulers = self.schedulers.iter_mut();
        if let Err(error) = schedulers.try_for_each(|s| guarded(view, &mut **s, &call)) {
            self.observers.failed += 1;
            self.observers.missed = Some(Box::new(error));
        }
    }
}

impl Observer for Listeners<'_, '_> {
    #[inline]
    fn on_event(&mut self, view: View<'_>, event: &Event, own: bool) {
        // Schedulers are notified of launches and stops once per plan.
        let launch = matches!(event, Event::Started { .. } | Event::Stopped { .. });
        if !launch && !own {
            self.notify(view, |s| s.on_event(view, event));
        }
        for c in &mut self.observers.collectors {
            c.on_event(view, event);
        }
    }

    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        for c in &mut self.observers.collectors {
            c.on_decision(view, plan);
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        self.notify(view, |s| s.on_launches(view, plan));
        for c in &mut self.observers.collectors {
            c.on_launches(view, plan);
        }
    }
}

/// A [`Core`] that calls its scheduler directly, for simulators and replays.
pub struct Runtime {
    core: Core,
    observers: Observers,
    /// The last decision.
    decision: Option<Box<Decision>>,
    lens: Lens,
    commands: Vec<Command>,
}

impl Deref for Runtime {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Runtime {
    /// Creates a runtime and its core; see [`Core::new`].
    pub fn new(state: State, trigger: Box<dyn DecisionTrigger>) -> Self {
        Runtime::of(Core::new(state, trigger))
    }

    /// Creates a runtime of a core, such as a restored one.
    pub fn of(core: Core) -> Self {
        Runtime {
            core,
            observers: Observers::default(),
            decision: None,
            lens: Lens::default(),
            commands: Vec::new(),
        }
    }

    /// Sets whether the scheduler may read the truth about jobs; see [`Core::forbid_truth`].
    #[must_use]
    pub fn forbidding_truth(mut self, yes: bool) -> Self {
        if yes {
            self.core.forbid_truth();
        }
        self
    }

    /// Adds a collector.
    #[must_use]
    pub fn with_collector(mut self, collector: Box<dyn MetricCollector>) -> Self {
        self.observers.add(collector);
        self
    }

    /// Sets the journal that records all inputs.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal>) -> Self {
        self.observers.set_journal(journal);
        self
    }

    /// See [`Observers::start`].
    ///
    /// # Errors
    /// The scheduler's memory cannot be saved.
    pub fn start(&mut self, scheduler: &dyn Scheduler) -> Result<(), MemoryError> {
        self.observers.start(&self.core, scheduler)
    }

    /// See [`Core::visiting_every_round`].
    #[must_use]
    pub fn visiting_every_round(mut self, yes: bool) -> Self {
        self.core = self.core.visiting_every_round(yes);
        self
    }

    /// Returns the core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Returns the observers.
    pub fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Returns the last decision, applied or refused. It is empty if the last decision failed.
    pub fn decision(&self) -> &Decision {
        static NONE: Decision = Decision::NONE;
        self.decision.as_ref().map_or(&NONE, |decision| decision)
    }

    /// Passes an event to the core.
    ///
    /// # Errors
    /// The event contradicts the state, which is unchanged.
    pub fn event(
        &mut self,
        at: Time,
        event: &Event,
        scheduler: &mut dyn Scheduler,
    ) -> Result<(), EventError> {
        let event = event.clone();
        match self.take(&Input::Event { at, event }, scheduler) {
            Ok(()) => Ok(()),
            Err(Refused::Event(error)) => Err(error),
            // An event causes no other errors.
            Err(_) => Ok(()),
        }
    }

    /// Makes a decision at `at` and applies it.
    ///
    /// # Errors
    /// The scheduler lost its turn; nothing of the decision is applied.
    pub fn decide(&mut self, at: Time, scheduler: &mut dyn Scheduler) -> Result<(), DecisionError> {
        // If a question is open already, this call is refused and the open question is answered.
        let _ = self.take(&Input::Due { at }, scheduler);
        self.answer(at, Instant::Nothing, scheduler)
    }

    /// Passes an input to the core. The caller then answers an open question with
    /// [`Runtime::answer`], and carries out the commands from [`Runtime::take_commands`].
    ///
    /// # Errors
    /// See [`Core::handle`].
    #[inline]
    pub fn take(&mut self, input: &Input, scheduler: &mut dyn Scheduler) -> Result<(), Refused> {
        let (core, commands) = (&mut self.core, &mut self.commands);
        self.observers
            .handle(core, &mut [scheduler], input, commands)
    }

    /// Makes a decision for the open question and applies it. `instant` states which of its stops and
    /// launches take no time. Without an open question, the call has no effect.
    ///
    /// # Errors
    /// The scheduler lost its turn.
    pub fn answer(
        &mut self,
        at: Time,
        instant: Instant,
        scheduler: &mut dyn Scheduler,
    ) -> Result<(), DecisionError> {
        let Some(open) = self.core.open() else {
            return Ok(());
        };
        let question = open.number;
        let mut decision = self.decision.take().unwrap_or_default();
        let made = self.core.decide(scheduler, &mut self.lens, &mut decision);
        if let Err(error) = made {
            decision.clear();
            self.decision = Some(decision);
            let why = error.clone();
            // This cannot fail, because the question is open.
            let _ = self.take(&Input::Lost { at, question, why }, scheduler);
            return Err(error);
        }
        let input = Input::Decided {
            at,
            question,
            decision,
            instant,
        };
        let result = self.take(&input, scheduler);
        if let Input::Decided { decision, .. } = input {
            self.decision = Some(decision);
        }
        match result {
            Err(Refused::Plan(error)) => Err(DecisionError::Plan {
                policy: Name::from(scheduler.name()),
                error,
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether a question is open.
    #[inline]
    pub fn asks(&self) -> bool {
        self.core.open().is_some()
    }

    /// Returns whether there are commands for the backend.
    #[inline]
    pub fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Appends the commands for the backend since the last call to `into`.
    #[inline]
    pub fn take_commands(&mut self, into: &mut Vec<Command>) {
        into.append(&mut self.commands);
    }

    /// Returns the scheduler's last panic while it was notified, since the last call. After a
    /// panic, the scheduler's memory may be half updated.
    #[inline]
    pub fn take_missed(&mut self) -> Option<DecisionError> {
        self.observers.take_missed()
    }

    /// See [`Observers::flush_journal`].
    ///
    /// # Errors
    /// The first error of the journal.
    pub fn flush_journal(&mut self) -> std::io::Result<()> {
        self.observers.flush_journal()
    }

    /// Returns the state, without the rest of the runtime.
    pub fn into_state(self) -> State {
        self.core.into_state()
    }

    /// Removes and returns the collectors.
    pub fn take_collectors(&mut self) -> Vec<Box<dyn MetricCollector>> {
        std::mem::take(&mut self.observers.collectors)
    }
}

/// A copy of a core with its own scheduler. It takes the inputs that the original core accepted, so
/// both are equal.
///
/// The scheduler can withdraw its last decision. If the turn is lost after the decision, the memory
/// from before the decision is restored.
pub struct Follower {
    core: Core,
    scheduler: Box<dyn Scheduler>,
    /// The scheduler with the memory from before the open question.
    before: Option<Box<dyn Scheduler>>,
    /// The observers of this copy.
    pub observers: Observers,
    lens: Lens,
    commands: Vec<Command>,
}

impl Follower {
    /// Creates a copy that starts from `core`.
    pub fn new(core: Core, scheduler: Box<dyn Scheduler>) -> Self {
        Follower {
            core,
            scheduler,
            before: None,
            observers: Observers::default(),
            lens: Lens::default(),
            commands: Vec::new(),
        }
    }

    /// Applies an input that the original core accepted. Only the original core's commands are
    /// carried out.
    ///
    /// # Errors
    /// The core refuses the input, as the original core did.
    pub fn follow(&mut self, input: &Input) -> Result<(), Refused> {
        match input {
            Input::Decided { .. } => self.before = None,
            Input::Lost { .. } => {
                if let Some(before) = self.before.take() {
                    self.scheduler = before;
                }
            }
            _ => {}
        }
        self.commands.clear();
        let (core, commands) = (&mut self.core, &mut self.commands);
        let before = self
            .before
            .as_mut()
            .map(|before| &mut **before as &mut dyn Scheduler);
        let mut all: Vec<&mut dyn Scheduler> = before.into_iter().collect();
        all.push(&mut *self.scheduler);
        self.observers.handle(core, &mut all, input, commands)
    }

    /// Makes a decision for the open question. The scheduler's new memory is final when the
    /// decision is passed back as [`Input::Decided`].
    ///
    /// # Errors
    /// The scheduler panicked, or its placement policy misused the draft.
    pub fn decide(&mut self, mut into: Box<Decision>) -> Result<Box<Decision>, DecisionError> {
        // A scheduler without memory has nothing to restore.
        self.before = self.scheduler.remembers().then(|| self.scheduler.clone());
        self.core
            .decide(&mut *self.scheduler, &mut self.lens, &mut into)?;
        Ok(into)
    }

    /// Returns the core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Returns the scheduler.
    pub fn scheduler(&self) -> &(dyn Scheduler + 'static) {
        &*self.scheduler
    }

    /// Returns the scheduler with its memory from before the open question, if there is one.
    pub fn settled_scheduler(&self) -> &(dyn Scheduler + 'static) {
        self.before.as_deref().unwrap_or(&*self.scheduler)
    }

    /// Returns a copy of the scheduler, with its memory.
    pub fn copy_of_scheduler(&self) -> Box<dyn Scheduler> {
        self.scheduler.clone()
    }

    /// Returns the core, without the scheduler.
    pub fn into_core(self) -> Core {
        self.core
    }
}
