//! A core with its scheduler and its observers.

use crate::cadence::Cadence;
use crate::core::{Core, Observer, guarded};
use crate::decision::{Action, Command, Decision, NodeActions, Outlook, Plan, Verdicts};
use crate::event::Event;
use crate::ids::{JobId, Name};
use crate::input::{Input, Refused};
use crate::journal::{Journal, Start};
use crate::lens::Lens;
use crate::pipeline::{Decide, DecideError};
use crate::policy::{Launches, MemoryError, MetricCollector};
use crate::request::Request;
use crate::state::{EventError, State};
use crate::units::Time;
use crate::view::View;
use serde_json::Value;
use std::ops::Deref;

/// Collectors and a journal. They hear the same on every backend, in the same order.
#[derive(Default)]
pub struct Observers {
    collectors: Vec<Box<dyn MetricCollector>>,
    journal: Option<Box<dyn Journal>>,
    /// True if some of the collectors hear of each launch and stop.
    each: bool,
    /// The launches that the last plan stopped, if they do.
    stops: Vec<(JobId, u32)>,
    missed: Option<Box<DecideError>>,
    failed: u64,
}

impl Observers {
    /// Adds a collector.
    pub fn add(&mut self, collector: Box<dyn MetricCollector>) {
        self.each |= collector.hears_launches() == Launches::Each;
        self.collectors.push(collector);
    }

    /// Tells the journal, if there is one, how core and scheduler are, before the first input.
    ///
    /// # Errors
    /// The scheduler's memory cannot be saved.
    pub fn start(&mut self, core: &Core, scheduler: &dyn Decide) -> Result<(), MemoryError> {
        if let Some(journal) = &mut self.journal {
            journal.start(&Start {
                scheduler: scheduler.name().into(),
                core: core.save(),
                policy: scheduler.save()?,
            });
        }
        Ok(())
    }

    /// Returns whether nothing watches.
    pub fn is_empty(&self) -> bool {
        self.collectors.is_empty() && self.journal.is_none()
    }

    /// Sets the journal of all inputs.
    pub fn set_journal(&mut self, journal: Box<dyn Journal>) {
        self.journal = Some(journal);
    }

    /// Returns whether launches and stops are to be reported one by one.
    pub fn hear_each_launch(&self) -> bool {
        self.each
    }

    /// The collectors.
    pub fn collectors(&self) -> &[Box<dyn MetricCollector>] {
        &self.collectors
    }

    /// Returns how often the scheduler panicked in [`Decide::on_event`] or
    /// [`Decide::on_launches`].
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Hands an input to a core, and to the journal if the core takes it. `scheduler`, if there is
    /// one, hears of everything but its own answers.
    ///
    /// # Errors
    /// See [`Core::handle`].
    #[inline]
    pub fn handle(
        &mut self,
        core: &mut Core,
        scheduler: Option<&mut dyn Decide>,
        input: &Input,
        out: &mut Vec<Command>,
    ) -> Result<(), Refused> {
        let mut all = Hearing {
            scheduler,
            observers: self,
        };
        let result = core.handle(input, &mut all, out);
        if let Some(journal) = &mut self.journal
            // A turn that is lost by a wrong plan is lost again when the journal is replayed.
            && matches!(result, Ok(()) | Err(Refused::Plan(_)))
        {
            journal.record(input);
        }
        if self.each && matches!((input, &result), (Input::Launched { .. }, Ok(()))) {
            self.tell_launches(core);
        }
        result
    }

    /// A plan was carried out in one step: collectors that hear of each launch and stop hear of
    /// them now, as they would if each had been reported.
    fn tell_launches(&mut self, core: &Core) {
        let stops = self.stops.iter().map(|&(job, attempt)| Event::Stopped {
            job,
            attempt,
            work: None,
        });
        let starts = core.launched().map(|job| Event::Started {
            job: job.id(),
            attempt: job.attempt(),
            rate: job.rate(),
        });
        for event in stops.chain(starts) {
            for c in &mut self.collectors {
                if c.hears_launches() == Launches::Each {
                    c.on_event(core.view(), &event);
                }
            }
        }
    }
}

/// All that hear what a core does.
struct Hearing<'a, 's> {
    scheduler: Option<&'a mut (dyn Decide + 's)>,
    observers: &'a mut Observers,
}

impl Hearing<'_, '_> {
    /// Counts a panic of the scheduler. The state has taken the event all the same.
    fn tell(&mut self, call: impl FnOnce(&mut dyn Decide)) {
        if let Some(scheduler) = &mut self.scheduler
            && let Err(error) = guarded(&mut **scheduler, call)
        {
            self.observers.failed += 1;
            self.observers.missed = Some(Box::new(error));
        }
    }
}

impl Observer for Hearing<'_, '_> {
    #[inline]
    fn on_event(&mut self, view: View<'_>, event: &Event, own: bool) {
        // Schedulers hear of launches and stops once a plan.
        let launch = matches!(event, Event::Started { .. } | Event::Stopped { .. });
        if !launch && !own {
            self.tell(|s| s.on_event(view, event));
        }
        for c in &mut self.observers.collectors {
            if !launch || c.hears_launches() != Launches::None {
                c.on_event(view, event);
            }
        }
    }

    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        if self.observers.each {
            self.observers.stops.clear();
            for action in &plan.actions {
                if let Action::Stop { job, .. } = action {
                    let attempt = view.job(*job).map_or(0, |j| j.attempt());
                    self.observers.stops.push((*job, attempt));
                }
            }
        }
        for c in &mut self.observers.collectors {
            c.on_decision(view, plan);
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        self.tell(|s| s.on_launches(view, plan));
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
    pub fn new(state: State, cadence: Box<dyn Cadence>) -> Self {
        Runtime {
            core: Core::new(state, cadence),
            observers: Observers::default(),
            decision: None,
            lens: Lens::default(),
            commands: Vec::new(),
        }
    }

    /// Returns it with a collector.
    #[must_use]
    pub fn with_collector(mut self, collector: Box<dyn MetricCollector>) -> Self {
        self.observers.add(collector);
        self
    }

    /// Returns it with a journal of all inputs.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal>) -> Self {
        self.observers.set_journal(journal);
        self
    }

    /// See [`Observers::start`].
    ///
    /// # Errors
    /// The scheduler's memory cannot be saved.
    pub fn start(&mut self, scheduler: &dyn Decide) -> Result<(), MemoryError> {
        self.observers.start(&self.core, scheduler)
    }

    /// See [`Core::visiting_every_round`].
    #[must_use]
    pub fn visiting_every_round(mut self, yes: bool) -> Self {
        self.core = self.core.visiting_every_round(yes);
        self
    }

    /// The core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Returns what watches it.
    pub fn observers(&self) -> &Observers {
        &self.observers
    }

    /// The plan of the last decision, applied or refused; empty if the last turn was lost.
    pub fn plan(&self) -> &Plan {
        static NONE: Plan = Plan::NONE;
        self.decision.as_ref().map_or(&NONE, |d| &d.plan)
    }

    /// Hands an event over.
    ///
    /// # Errors
    /// The event contradicts the state, which is unchanged.
    pub fn event(
        &mut self,
        at: Time,
        event: &Event,
        scheduler: &mut dyn Decide,
    ) -> Result<(), EventError> {
        let event = event.clone();
        match self.take(&Input::Event { at, event }, scheduler) {
            Ok(()) => Ok(()),
            Err(Refused::Event(error)) => Err(error),
            // Nothing else is said of an event.
            Err(_) => Ok(()),
        }
    }

    /// Has a decision made now and applies it.
    ///
    /// # Errors
    /// The scheduler lost its turn; nothing of the decision is applied.
    pub fn decide(&mut self, at: Time, scheduler: &mut dyn Decide) -> Result<(), DecideError> {
        // While a question is open, it is that which is answered.
        let _ = self.take(&Input::Due { at }, scheduler);
        self.answer(at, false, scheduler)
    }

    /// Takes an input. What it leads to is left to the caller: see [`Runtime::answer`] and
    /// [`Runtime::take_commands`].
    ///
    /// # Errors
    /// See [`Core::handle`].
    #[inline]
    pub fn take(&mut self, input: &Input, scheduler: &mut dyn Decide) -> Result<(), Refused> {
        let (core, commands) = (&mut self.core, &mut self.commands);
        self.observers
            .handle(core, Some(scheduler), input, commands)
    }

    /// Has the open question answered, if one is, and applies the answer.
    ///
    /// # Errors
    /// The scheduler lost its turn.
    pub fn answer(
        &mut self,
        at: Time,
        instant: bool,
        scheduler: &mut dyn Decide,
    ) -> Result<(), DecideError> {
        let Some(open) = self.core.open() else {
            return Ok(());
        };
        self.commands.retain(|c| !matches!(c, Command::Ask { .. }));
        let question = open.number;
        let mut decision = self.decision.take().unwrap_or_default();
        let made = self.core.decide(scheduler, &mut self.lens, &mut decision);
        if let Err(error) = made {
            decision.clear();
            self.decision = Some(decision);
            let why = error.clone();
            // The question is open.
            let _ = self.take(&Input::Lost { at, question, why }, scheduler);
            return Err(error);
        }
        self.apply_to(question, at, decision, instant, scheduler)
    }

    /// Has the scheduler decide at `at` and leaves its answer to the caller. The question is open
    /// until [`Runtime::apply`] or [`Input::Lost`].
    ///
    /// # Errors
    /// The scheduler panicked, or a part of it misused what it was given.
    pub fn consult(
        &mut self,
        at: Time,
        scheduler: &mut dyn Decide,
    ) -> Result<Decision, DecideError> {
        let _ = self.take(&Input::Due { at }, scheduler);
        self.commands.retain(|c| !matches!(c, Command::Ask { .. }));
        let mut decision = Decision::default();
        self.core
            .decide(scheduler, &mut self.lens, &mut decision)
            .map(|()| decision)
    }

    /// Applies the answer to the open question.
    ///
    /// # Errors
    /// Its plan contradicts the state that it was made from.
    pub fn apply(
        &mut self,
        at: Time,
        decision: Decision,
        scheduler: &mut dyn Decide,
    ) -> Result<(), DecideError> {
        let question = self.core.open().map_or(0, |open| open.number);
        self.apply_to(question, at, Box::new(decision), false, scheduler)
    }

    fn apply_to(
        &mut self,
        question: u64,
        at: Time,
        decision: Box<Decision>,
        instant: bool,
        scheduler: &mut dyn Decide,
    ) -> Result<(), DecideError> {
        let input = Input::Decided {
            at,
            question,
            decision,
            instant: instant && !self.observers.hear_each_launch(),
        };
        let result = self.take(&input, scheduler);
        if let Input::Decided { decision, .. } = input {
            self.decision = Some(decision);
        }
        match result {
            Err(Refused::Plan(error)) => Err(DecideError::Plan {
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

    /// Returns why the scheduler missed something since the last call: it panicked. What it
    /// remembers may be half of what it should.
    #[inline]
    pub fn take_missed(&mut self) -> Option<DecideError> {
        self.observers.missed.take().map(|why| *why)
    }

    /// Takes the collectors back.
    pub fn take_collectors(&mut self) -> Vec<Box<dyn MetricCollector>> {
        std::mem::take(&mut self.observers.collectors)
    }
}

/// A scheduler whose answer counts only once it is applied: the memory that led to an answer is
/// dropped with it. For daemons and replays, where a turn may be lost after the answer.
#[derive(Clone)]
pub struct Tentative {
    policy: Box<dyn Decide>,
    /// The scheduler without the answer to the open question.
    before: Option<Box<dyn Decide>>,
}

impl Tentative {
    /// Around a scheduler.
    pub fn new(policy: Box<dyn Decide>) -> Self {
        let before = None;
        Tentative { policy, before }
    }

    /// Returns the scheduler, to be asked; what it remembered until now is kept.
    pub fn ask(&mut self) -> &mut dyn Decide {
        // Without a memory there is nothing to drop.
        self.before = self.policy.remembers().then(|| self.policy.clone());
        &mut *self.policy
    }

    /// Keeps or drops the memory of the last answer, where the input says what became of it.
    pub fn settle(&mut self, input: &Input) {
        match input {
            Input::Decided { .. } => self.before = None,
            Input::Lost { .. } => {
                if let Some(before) = self.before.take() {
                    self.policy = before;
                }
            }
            _ => {}
        }
    }
}

impl Decide for Tentative {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Outlook {
        self.policy.manage(view, out)
    }

    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook {
        self.policy.admit(view, asking, out)
    }

    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Outlook, DecideError> {
        self.policy.plan(view, out)
    }

    fn on_event(&mut self, view: View<'_>, event: &Event) {
        if let Some(before) = &mut self.before {
            before.on_event(view, event);
        }
        self.policy.on_event(view, event);
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        if let Some(before) = &mut self.before {
            before.on_launches(view, plan);
        }
        self.policy.on_launches(view, plan);
    }

    fn remembers(&self) -> bool {
        self.policy.remembers()
    }

    fn save(&self) -> Result<Option<Value>, MemoryError> {
        self.policy.save()
    }

    fn restore(&mut self, saved: Value) -> Result<(), MemoryError> {
        self.policy.restore(saved)
    }

    fn requested(&self) -> &[Request] {
        self.policy.requested()
    }
}

/// A copy of a core with its own scheduler. It takes the inputs that the other core took, so both
/// are equal.
pub struct Follower {
    core: Core,
    scheduler: Tentative,
    /// The observers of this copy.
    pub observers: Observers,
    lens: Lens,
    commands: Vec<Command>,
}

impl Follower {
    /// A copy that begins as `core` is.
    pub fn new(core: Core, scheduler: Box<dyn Decide>) -> Self {
        Follower {
            core,
            scheduler: Tentative::new(scheduler),
            observers: Observers::default(),
            lens: Lens::default(),
            commands: Vec::new(),
        }
    }

    /// Takes an input that the other took. Its commands are the other's to carry out.
    ///
    /// # Errors
    /// The other core refused the input, too.
    pub fn follow(&mut self, input: &Input) -> Result<(), Refused> {
        self.scheduler.settle(input);
        self.commands.clear();
        let (core, commands) = (&mut self.core, &mut self.commands);
        let scheduler = Some(&mut self.scheduler as &mut dyn Decide);
        self.observers.handle(core, scheduler, input, commands)
    }

    /// Has the scheduler answer the open question. What it remembers of the answer stands once
    /// the answer is fed back as [`Input::Decided`].
    ///
    /// # Errors
    /// The scheduler panicked, or a part of it misused what it was given.
    pub fn decide(&mut self, mut into: Box<Decision>) -> Result<Box<Decision>, DecideError> {
        self.core
            .decide(self.scheduler.ask(), &mut self.lens, &mut into)?;
        Ok(into)
    }

    /// The core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &dyn Decide {
        &self.scheduler
    }
}
