//! The scheduler core: state, decisions and when they are due. No input or
//! output, no clock, no threads.

use crate::cadence::Cadence;
use crate::decision::{Command, NodeActions, Outlook, Plan, Verdict, Verdicts};
use crate::drive::AtOnce;
use crate::event::Event;
use crate::ids::{JobId, Name};
use crate::job::Phase;
use crate::journal::{Entry, Journal};
use crate::pipeline::{Decide, DecideError};
use crate::policy::MetricCollector;
use crate::reason::Reason;
use crate::state::{Applied, EventError, State};
use crate::units::Time;
use crate::view::View;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Everything that a scheduler answered in one decision, with the version of
/// the state that it was answered from. Made elsewhere (beside the loop), it is
/// handed to [`Core::answer`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What to do with nodes.
    pub actions: NodeActions,
    /// Which jobs may enter.
    pub verdicts: Verdicts,
    /// Who runs where.
    pub plan: Plan,
}

/// What the core counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Events taken.
    pub events: u64,
    /// Events refused because they contradicted the state (late or repeated messages).
    pub refused_events: u64,
    /// Decisions made.
    pub decisions: u64,
    /// Plans refused because they contradicted the state that they were made from.
    pub refused_plans: u64,
    /// Decisions in which the policy panicked or gave no answer.
    pub failed_decisions: u64,
    /// Events at which the policy panicked.
    #[serde(default)]
    pub failed_observations: u64,
    /// Steps left out because later events had made them impossible.
    pub stale_steps: u64,
    /// Stops that plans ordered and that were carried out.
    pub preemptions: u64,
    /// Placements that plans ordered and that were carried out.
    pub placements: u64,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// The plan (see [`Core::plan`]) was applied.
    Applied,
    /// Nothing was applied: the policy erred, and lost its turn.
    Failed(DecideError),
}

/// Knows the state, tells when decisions are due, has them made, checks them,
/// turns them into commands.
///
/// The life of a round: [`Core::event`] for all that happened, then
/// [`Core::decide`] at the moment that [`Core::due`] names, then
/// [`Core::take_commands`] for the backend.
pub struct Core {
    state: State,
    cadence: Box<dyn Cadence>,
    collectors: Vec<Box<dyn MetricCollector>>,
    journal: Option<Box<dyn Journal>>,
    asking: Vec<JobId>,
    /// Version of the state at the last event that can change a decision.
    news: u64,
    /// A question is with a policy that runs beside the loop.
    asked: bool,
    last_decision: Option<Time>,
    /// The last question to the cadence, and its answer.
    moment: ((Time, Option<Time>), Time),
    due: Option<Time>,
    visit_every_round: bool,
    counters: Counters,
    /// Why the policy missed an event, if nobody was told yet.
    missed: Option<Box<DecideError>>,
    decision: Decision,
    /// How long the last decision stays right.
    outlook: Outlook,
}

/// The policy of a core whose decisions are made elsewhere: it decides and hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absent;

impl Decide for Absent {
    fn name(&self) -> &str {
        "absent"
    }

    fn manage(&mut self, _: View<'_>, _: &mut NodeActions) -> Outlook {
        Outlook::Stable
    }

    fn admit(&mut self, _: View<'_>, _: &[JobId], _: &mut Verdicts) -> Outlook {
        Outlook::Stable
    }

    fn plan(&mut self, _: View<'_>, _: &mut Plan) -> Result<Outlook, DecideError> {
        Ok(Outlook::Stable)
    }
}

impl Core {
    /// A core over a state, with decisions due by `cadence`.
    ///
    /// A state that was saved, or cloned to look ahead, goes on: its jobs make
    /// a decision due at the first decision moment.
    pub fn new(state: State, cadence: Box<dyn Cadence>) -> Self {
        let asking = state.submitted_jobs();
        let live = state.count(Phase::Waiting) + state.count(Phase::Deferred) > 0
            || state.placed.count_ones(..) > 0
            || !asking.is_empty();
        let due = live.then(|| cadence.first_from(state.now, None));
        let cadence_moment = cadence.first_from(Time::ZERO, None);
        Core {
            state,
            cadence,
            collectors: Vec::new(),
            journal: None,
            asking,
            news: 0,
            asked: false,
            last_decision: None,
            moment: ((Time::ZERO, None), cadence_moment),
            due,
            visit_every_round: false,
            counters: Counters::default(),
            missed: None,
            decision: Decision::default(),
            outlook: Outlook::NextRound,
        }
    }

    /// With someone who sees every event and decision.
    #[must_use]
    pub fn with_collector(mut self, collector: Box<dyn MetricCollector>) -> Self {
        self.collectors.push(collector);
        self
    }

    /// With a journal of all that policies read and decided.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Makes a decision at every decision moment, whatever the outlook. The
    /// results are the same; tests hold the two together.
    #[must_use]
    pub fn visiting_every_round(mut self, yes: bool) -> Self {
        self.visit_every_round = yes;
        self
    }

    /// Goes on from a state in which decisions were made before: the next one
    /// is due at the first decision moment after `last`.
    #[must_use]
    pub fn going_on(mut self, last: Time) -> Self {
        self.last_decision = Some(last);
        self.due = Some(self.moment_from(last));
        self
    }

    /// The state.
    #[inline]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state as policies see it.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View::of(&self.state)
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The last plan, applied or refused.
    pub fn plan(&self) -> &Plan {
        &self.decision.plan
    }

    /// When the last decision was made.
    pub fn last_decision(&self) -> Option<Time> {
        self.last_decision
    }

    /// When decisions are due.
    pub fn cadence(&self) -> &dyn Cadence {
        &*self.cadence
    }

    /// The moment of the next decision, as far as is known; `None` if only an
    /// event can make one necessary.
    #[inline]
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Takes an event and tells the policy and the collectors.
    ///
    /// # Errors
    /// The event contradicts the state and was refused and counted; the state
    /// is unchanged.
    pub fn event(
        &mut self,
        at: Time,
        event: &Event,
        policy: &mut dyn Decide,
    ) -> Result<(), EventError> {
        self.state.next_moment = self.moment_from(at.max(self.state.now));
        if let Err(e) = self.state.apply(at, event) {
            self.counters.refused_events += 1;
            return Err(e);
        }
        self.counters.events += 1;
        if let Some(journal) = &mut self.journal {
            journal.record(&Entry::Event {
                at,
                event: event.clone(),
                own: false,
            });
        }
        if let Event::Submitted { job, .. } = event {
            self.asking.push(*job);
        }
        if self.is_news(event) {
            self.news = self.state.version;
            // One question at a time: until it is answered, nothing is due.
            if !self.asked {
                let due = self.state.next_moment;
                self.due = Some(self.due.map_or(due, |d| d.min(due)));
            }
        }
        if let Event::Release { job } = event
            && self
                .state
                .job(*job)
                .is_some_and(|j| j.phase() == Phase::Submitted)
            // Held and released since it came in: it asks already.
            && !self.asking.contains(job)
        {
            self.asking.push(*job);
        }
        self.tell(event, policy);
        Ok(())
    }

    /// Has a decision made now and applies it. A policy that panics or errs
    /// loses its turn; what runs goes on.
    pub fn decide(&mut self, at: Time, policy: &mut dyn Decide) -> Decided {
        self.decide_on(at, policy, None)
    }

    /// As [`Core::decide`], where stops and launches take no time: if nobody would see
    /// them, the plan's are carried out at once, and no commands follow from them.
    pub fn decide_at_once(
        &mut self,
        at: Time,
        policy: &mut dyn Decide,
        backend: &mut dyn AtOnce,
    ) -> Decided {
        self.decide_on(at, policy, Some(backend))
    }

    fn decide_on(
        &mut self,
        at: Time,
        policy: &mut dyn Decide,
        at_once: Option<&mut dyn AtOnce>,
    ) -> Decided {
        match self.make(at, policy) {
            Ok(outlook) => self.close_decision(outlook, policy, at_once),
            Err(e) => self.lost_turn(e),
        }
    }

    /// Asks the policy, and applies all but its plan.
    fn make(&mut self, at: Time, policy: &mut dyn Decide) -> Result<Outlook, DecideError> {
        self.open_decision(at);
        let view = View::of(&self.state);
        let mut outlook = Outlook::Stable;

        let mut actions = std::mem::take(&mut self.decision.actions);
        actions.clear();
        let managed = guarded(policy, |p| p.manage(view, &mut actions));
        self.decision.actions = actions;
        outlook = outlook.and(managed?);
        self.apply_actions(policy);

        let mut verdicts = std::mem::take(&mut self.decision.verdicts);
        verdicts.clear();
        let mut asking = std::mem::take(&mut self.asking);
        asking.retain(|id| self.may_be_asked(*id));
        if !asking.is_empty() || self.state.count(Phase::Deferred) > 0 {
            let view = View::of(&self.state);
            match guarded(policy, |p| p.admit(view, &asking, &mut verdicts)) {
                Ok(o) => outlook = outlook.and(o),
                Err(e) => {
                    self.decision.verdicts = verdicts;
                    self.asking = asking;
                    return Err(e);
                }
            }
        }
        self.decision.verdicts = verdicts;
        self.apply_verdicts(&asking, policy);
        self.asking = asking;
        self.asking.clear();

        let mut plan = std::mem::take(&mut self.decision.plan);
        plan.clear();
        plan.version = self.state.version;
        let view = View::of(&self.state);
        let planned = guarded(policy, |p| p.plan(view, &mut plan));
        self.decision.plan = plan;
        Ok(outlook.and(planned??))
    }

    /// Applies a decision that [`Core::consult`] made from an earlier version of the state. What
    /// later events made impossible is left out and counted. The policy hears of the plan as
    /// applied; it heard its verdicts and node actions when it was consulted.
    pub fn answer(
        &mut self,
        at: Time,
        decision: Decision,
        outlook: Outlook,
        policy: &mut dyn Decide,
    ) -> Decided {
        self.open_decision(at);
        self.decision = decision;
        let absent = &mut Absent;
        self.apply_actions(absent);
        let asking = std::mem::take(&mut self.asking);
        let answered: Vec<JobId> = self.decision.verdicts.iter().map(|(j, _)| *j).collect();
        self.apply_verdicts(&answered, absent);
        // Jobs that came in while the decision was made are asked about next time.
        self.asking = asking
            .into_iter()
            .filter(|j| !answered.contains(j))
            .collect();
        let seen = self.decision.plan.version;
        let decided = self.close_decision(outlook, policy, None);
        if self.news > seen {
            // Nobody was told of what happened while the decision was made.
            let due = self.moment_from(self.state.now);
            self.due = Some(self.due.map_or(due, |d| d.min(due)));
        }
        decided
    }

    /// Returns what `policy` decides at `at`; the state does not change. For a policy that runs
    /// beside the loop and is fed the same inputs as the loop's core: its answer goes to
    /// [`Core::answer`] of both. The policy hears its own verdicts and node actions here, and its
    /// plan when the answer is applied.
    ///
    /// # Errors
    /// The policy panicked, or its plan contradicts the state: for
    /// [`Core::policy_failed`].
    pub fn consult(
        &self,
        at: Time,
        policy: &mut dyn Decide,
    ) -> Result<(Decision, Outlook), DecideError> {
        let mut copy = Core::new(self.state.clone(), dyn_clone::clone_box(&*self.cadence));
        copy.asking = self.asking.clone();
        copy.last_decision = self.last_decision;
        let outlook = copy.make(at, policy)?;
        match copy.close_decision(outlook, &mut Absent, None) {
            Decided::Applied => {
                // What the decision itself changed is later than what it was made from.
                copy.decision.plan.version = self.state.version;
                Ok((copy.decision, copy.outlook))
            }
            Decided::Failed(DecideError::Plan { error, .. }) => Err(DecideError::Plan {
                policy: Name::from(policy.name()),
                error,
            }),
            Decided::Failed(error) => Err(error),
        }
    }

    /// The question that is due was handed to a policy that runs beside the
    /// loop. Until [`Core::answer`] or [`Core::policy_failed`], nothing is due.
    pub fn asked(&mut self) {
        self.asked = true;
        self.due = None;
    }

    /// The policy panicked, or gave no answer within the backend's limit: it
    /// loses its turn, and is asked again at the next decision moment.
    pub fn policy_failed(&mut self, at: Time, error: DecideError) -> Decided {
        self.open_decision(at);
        self.lost_turn_of(error, false)
    }

    /// Why the policy missed an event since the last call: it panicked. The loop could go on, but
    /// what the policy remembers may be half of what it should.
    #[inline]
    pub fn take_missed(&mut self) -> Option<DecideError> {
        self.missed.take().map(|why| *why)
    }

    /// Whether there are commands for the backend.
    #[inline]
    pub(crate) fn has_commands(&self) -> bool {
        self.state.has_commands()
    }

    /// Commands for the backend since the last call, appended to `into`.
    #[inline]
    pub fn take_commands(&mut self, into: &mut Vec<Command>) {
        self.state.take_commands(into);
    }

    /// Takes the collectors back.
    pub fn take_collectors(&mut self) -> Vec<Box<dyn MetricCollector>> {
        std::mem::take(&mut self.collectors)
    }

    /// Takes the journal back, to flush it.
    pub fn take_journal(&mut self) -> Option<Box<dyn Journal>> {
        self.journal.take()
    }

    /// The collectors.
    pub fn collectors(&self) -> &[Box<dyn MetricCollector>] {
        &self.collectors
    }
}

impl Core {
    /// The first decision moment from `t` on that comes after the last decision.
    #[inline]
    fn moment_from(&mut self, t: Time) -> Time {
        // Most events share their moment with the one before.
        let asked = (t, self.last_decision);
        if self.moment.0 != asked {
            self.moment = (asked, self.cadence.first_from(t, self.last_decision));
        }
        self.moment.1
    }

    /// Whether an event can change a decision. What a decision itself led to,
    /// and knew, is no news.
    fn is_news(&self, event: &Event) -> bool {
        match event {
            Event::Started { .. } => false,
            // Answers that stand until a round may rest on what was taken back. Where decisions
            // follow events, each move of a job would lead to the next.
            Event::Ran { .. } => self.cadence.following(self.state.now).is_some(),
            Event::Stopped { job, .. } => {
                let awaited = self.state.job(*job).is_some_and(|j| j.is_placed());
                !awaited && self.last_decision != Some(self.state.now)
            }
            _ => true,
        }
    }

    fn tell(&mut self, event: &Event, policy: &mut dyn Decide) {
        let view = View::of(&self.state);
        // Whoever panics here has missed the event; the state has not.
        // Policies hear of launches and stops once a plan.
        let launch = matches!(event, Event::Started { .. } | Event::Stopped { .. });
        if !launch && let Err(error) = guarded(policy, |p| p.on_event(view, event)) {
            self.counters.failed_observations += 1;
            self.missed = Some(Box::new(error));
        }
        for c in &mut self.collectors {
            c.observe(view, event);
        }
        if let Event::Ended { job, .. } | Event::Judged { job, .. } = event {
            self.state.retire(*job);
        }
    }

    fn open_decision(&mut self, at: Time) {
        self.state.advance(at);
        self.state.next_moment = at;
        self.last_decision = Some(at);
        self.asked = false;
        self.due = None;
        self.counters.decisions += 1;
    }

    /// Whether admission is asked about a job: it asks, and is still there.
    fn may_be_asked(&self, job: JobId) -> bool {
        let job = self.state.job(job);
        job.is_some_and(|j| j.phase() == Phase::Submitted)
    }

    fn apply_actions(&mut self, policy: &mut dyn Decide) {
        let actions = std::mem::take(&mut self.decision.actions);
        for action in actions.iter() {
            let event = Event::NodeManaged {
                action: action.clone(),
            };
            self.own_event(&event, policy);
        }
        self.decision.actions = actions;
    }

    fn apply_verdicts(&mut self, asking: &[JobId], policy: &mut dyn Decide) {
        let mut verdicts = std::mem::take(&mut self.decision.verdicts);
        verdicts.list.retain(|(job, verdict)| {
            // Said at every decision of every job that waits outside: nothing happens.
            if self.says_so_already(*job, verdict) {
                return false;
            }
            let event = Event::Judged {
                job: *job,
                verdict: verdict.clone(),
            };
            self.own_event(&event, policy);
            true
        });
        for &job in asking {
            if !self.may_be_asked(job) {
                continue;
            }
            // No answer means not yet, wherever the decision is applied.
            let verdict = Verdict::Defer(Reason::NotYetDecided);
            verdicts.list.push((job, verdict.clone()));
            self.own_event(&Event::Judged { job, verdict }, policy);
        }
        self.decision.verdicts = verdicts;
    }

    /// Whether the job is kept back already, for the very reason of the verdict.
    fn says_so_already(&self, job: JobId, verdict: &Verdict) -> bool {
        let Verdict::Defer(why) = verdict else {
            return false;
        };
        let job = self.state.job(job);
        job.is_some_and(|j| j.phase() == Phase::Deferred && j.reason() == why)
    }

    /// An event that a decision makes. A verdict about a job that has gone
    /// meanwhile is stale.
    fn own_event(&mut self, event: &Event, policy: &mut dyn Decide) {
        let now = self.state.now;
        if self.state.apply(now, event).is_err() {
            self.counters.stale_steps += 1;
            return;
        }
        self.counters.events += 1;
        if let Some(journal) = &mut self.journal {
            journal.record(&Entry::Event {
                at: now,
                event: event.clone(),
                own: true,
            });
        }
        self.tell(event, policy);
    }

    /// Carries the plan out if nobody would see how; `None` where that is not possible.
    fn carry_out(&mut self, backend: &mut dyn AtOnce) -> Option<Applied> {
        let observed =
            self.journal.is_some() || self.collectors.iter().any(|c| c.observes_launches());
        if observed || self.state.has_commands() {
            return None;
        }
        let applied = self.state.carry_out(&self.decision.plan, backend)?;
        // A report each.
        self.counters.events += u64::from(applied.stops + applied.placements);
        if applied.stops + applied.placements > 0 {
            backend.carried_out(View::of(&self.state));
        }
        Some(applied)
    }

    fn close_decision(
        &mut self,
        outlook: Outlook,
        policy: &mut dyn Decide,
        at_once: Option<&mut dyn AtOnce>,
    ) -> Decided {
        let now = self.state.now;
        self.outlook = outlook;
        // What this decision changes is touched for the next one.
        self.state.close_decision(self.decision.plan.version);
        self.state.next_moment = self.moment_from(now);
        let carried_out = at_once.and_then(|backend| self.carry_out(backend));
        let applied = match carried_out {
            Some(applied) => Ok(applied),
            None => self.state.apply_plan(&self.decision.plan),
        };
        match applied {
            Ok(applied) => {
                self.counters.stale_steps += u64::from(applied.stale);
                self.counters.preemptions += u64::from(applied.stops);
                self.counters.placements += u64::from(applied.placements);
            }
            Err(error) => {
                self.counters.refused_plans += 1;
                let error = DecideError::Plan {
                    policy: Name::from(policy.name()),
                    error,
                };
                self.note_failure(&error, true);
                self.state.break_continuity();
                self.ask_again();
                return Decided::Failed(error);
            }
        }
        if let Some(journal) = &mut self.journal {
            journal.record(&Entry::Decision {
                at: now,
                plan: self.decision.plan.clone(),
            });
        }
        let view = View::of(&self.state);
        let plan = &self.decision.plan;
        if !plan.is_empty()
            && let Err(error) = guarded(policy, |p| p.on_launches(view, plan))
        {
            self.counters.failed_observations += 1;
            self.missed = Some(Box::new(error));
        }
        for c in &mut self.collectors {
            c.round(view, plan);
        }
        // A plan that changed something may leave room for the next one.
        let next = if !self.decision.plan.is_empty() || self.visit_every_round {
            self.cadence.following(now)
        } else {
            match outlook {
                Outlook::NextRound => self.cadence.following(now),
                Outlook::Until(_) | Outlook::Stable => None,
            }
        };
        let timer = match outlook {
            // A timer that has rung must not ring for ever at one moment.
            Outlook::Until(t) if t <= now => self.cadence.following(now),
            Outlook::Until(t) => Some(self.moment_from(t)),
            _ => None,
        };
        self.due = match (next, timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Decided::Applied
    }

    fn lost_turn(&mut self, error: DecideError) -> Decided {
        self.lost_turn_of(error, true)
    }

    fn lost_turn_of(&mut self, error: DecideError, in_loop: bool) -> Decided {
        self.counters.failed_decisions += 1;
        self.decision.plan.clear();
        self.note_failure(&error, in_loop);
        // What was touched stays so: no decision came of it.
        self.state.close_decision(0);
        self.state.break_continuity();
        self.state.next_moment = self.moment_from(self.state.now);
        self.ask_again();
        Decided::Failed(error)
    }

    fn ask_again(&mut self) {
        let now = self.state.now;
        self.due = Some(match self.cadence.following(now) {
            Some(t) => t,
            // Without rounds, soon enough and not at once.
            None => now + crate::units::Seconds::new(1.0),
        });
    }

    fn note_failure(&mut self, error: &DecideError, in_loop: bool) {
        if let Some(journal) = &mut self.journal {
            journal.record(&Entry::Failed {
                at: self.state.now,
                in_loop,
                why: error.to_string(),
            });
        }
    }
}

/// Calls a policy; a panic in it is an answer like any other.
fn guarded<T>(
    policy: &mut dyn Decide,
    call: impl FnOnce(&mut dyn Decide) -> T,
) -> Result<T, DecideError> {
    catch_unwind(AssertUnwindSafe(|| call(policy))).map_err(|panic| DecideError::Panicked {
        policy: Name::from(policy.name()),
        message: panic_message(&*panic),
    })
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
