//! State machine of a scheduler, shared by the simulator and real clusters. It performs no input or
//! output and reads no clock.

use crate::decide_error::DecisionError;
use crate::decision::{
    AdmissionDecision, AfterDrain, Command, Decision, NodeAction, NodeActionKind, Plan, Validity,
};
use crate::event::Event;
use crate::ids::{JobId, Name};
use crate::input::{Input, Instant, Refused};
use crate::job::{JobRef, Phase, Witness};
use crate::lens::Lens;
use crate::pipeline::Scheduler;
use crate::reason::Reason;
use crate::state::State;
use crate::trigger::DecisionTrigger;
use crate::units::{GpuCount, Seconds, Time};
use crate::view::View;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of skipped moments that are counted one by one.
const MOST_COUNTED: usize = 1000;

/// Counters of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counters {
    /// Number of applied events, with the stops and launches that took no time.
    pub events: u64,
    /// Number of events refused because they contradicted the state (late or repeated messages).
    pub refused_events: u64,
    /// Number of decisions requested from the scheduler.
    pub decisions: u64,
    /// Number of plans refused because they contradicted the state that they were made from.
    pub refused_plans: u64,
    /// Number of failed decisions: the scheduler panicked, returned an error, took too long, or was
    /// stopped.
    pub failed_decisions: u64,
    /// Number of steps left out because later events had made them impossible.
    pub stale_steps: u64,
    /// Number of node actions among these steps: the node was unknown, or in no state for the
    /// action.
    #[serde(default)]
    pub stale_actions: u64,
    /// Number of decision moments that passed without a question because the last answer was late.
    #[serde(default)]
    pub skipped_rounds: u64,
    /// Number of stops that were applied from plans.
    pub preemptions: u64,
    /// Number of placements that were applied from plans.
    pub placements: u64,
}

/// Receives the actions of a core in order. `()` ignores them.
///
/// ```
/// use blox_core::core::{Core, Observer};
/// use blox_core::{ClusterSpec, Event, GpuCount, Input, JobId, JobSpec, Rounds, Seconds, State};
/// use blox_core::{Time, View};
///
/// /// Number of requested GPUs of all submitted jobs.
/// #[derive(Default)]
/// struct Requested(u32);
///
/// impl Observer for Requested {
///     fn on_event(&mut self, _: View<'_>, event: &Event, _own: bool) {
///         if let Event::Submitted { spec, .. } = event {
///             self.0 += spec.gpus.get();
///         }
///     }
/// }
///
/// let mut requested = Requested::default();
/// let state = State::new(&ClusterSpec::uniform(1, 4))?;
/// let mut core = Core::new(state, Box::new(Rounds::default()));
/// let spec = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0)).into();
/// let event = Event::Submitted { job: JobId(0), spec };
/// core.handle(&Input::Event { at: Time::ZERO, event }, &mut requested, &mut Vec::new())?;
/// assert_eq!(requested.0, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer {
    /// Called after an event was applied; the view shows its effect. `own` is true for the events
    /// of a decision: admission decisions and node actions.
    fn on_event(&mut self, view: View<'_>, event: &Event, own: bool) {
        let _ = (view, event, own);
    }

    /// Called for each decision before its plan is applied. The view shows its node actions and
    /// admission decisions.
    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        let _ = (view, plan);
    }

    /// Called after each plan that has steps. The view shows the plan's allocations. If launches
    /// take no time, the launched jobs are already running.
    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        let _ = (view, plan);
    }
}

impl Observer for () {}

/// A request for a decision that the scheduler has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// Number of the question, from 1.
    pub number: u64,
    /// The decision moment.
    pub at: Time,
}

/// Contents of a [`Core`] without its trigger.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    state: State,
    /// Version of the state at the last event that can change a decision.
    news: u64,
    questions: u64,
    open: Option<Question>,
    last_decision: Option<Time>,
    due: Option<Time>,
    counters: Counters,
    /// Validity of the last decision.
    validity: Option<Validity>,
    /// Reasons why jobs wait, from the last decision.
    waits: Vec<(JobId, Reason)>,
    #[serde(default)]
    waits_by_gpus: Vec<(GpuCount, Reason)>,
    otherwise: Reason,
}

impl Saved {
    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }
}

/// State machine of a scheduler: determines when decisions are due, checks and applies them, and
/// issues commands.
///
/// Only [`Core::handle`] changes the core. A backend passes it each event, and [`Input::Due`] at
/// the time that [`Core::due`] returns. The core then has an open question ([`Core::open`]). The
/// caller obtains a decision from [`Core::decide`] and passes it back as [`Input::Decided`].
///
/// ```
/// use blox_core::core::Core;
/// use blox_core::input::{Input, Instant};
/// use blox_core::{Command, Decision, Event, JobId, JobSpec, Rounds, State};
/// use blox_core::{ClusterSpec, Composition, GpuCount, Seconds, Time};
/// # use blox_core::{order::SortKey, policy::by_key};
/// # use blox_testing::FirstFit;
/// # let mut fifo = Composition::new("fifo")
/// #     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
/// #     .placement(FirstFit).build()?;
///
/// let state = State::new(&ClusterSpec::uniform(1, 4))?;
/// let mut core = Core::new(state, Box::new(Rounds::default()));
/// let mut commands = Vec::new();
/// let spec = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0));
/// let event = Event::Submitted { job: JobId(0), spec: spec.into() };
/// core.handle(&Input::Event { at: Time::ZERO, event }, &mut (), &mut commands)?;
/// core.handle(&Input::Due { at: Time::ZERO }, &mut (), &mut commands)?;
/// assert_eq!(core.open().map(|open| open.number), Some(1));
/// // The state does not change while the scheduler decides.
/// let mut decision = Box::new(Decision::default());
/// core.decide(&mut fifo, &mut Default::default(), &mut decision)?;
/// let answer =
///     Input::Decided { at: Time::ZERO, question: 1, decision, instant: Instant::Nothing };
/// core.handle(&answer, &mut (), &mut commands)?;
/// assert_eq!(commands, [Command::Start { job: JobId(0), attempt: 1 }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Core {
    saved: Saved,
    trigger: Box<dyn DecisionTrigger>,
    /// Arguments and result of the last call of the trigger.
    moment: ((Time, Option<Time>), Time),
    visit_every_round: bool,
    /// True if stops or launches of the last decision took no time.
    instant: bool,
    /// First node action without effect.
    stale_action: Option<NodeAction>,
}

impl Core {
    /// Creates a core with a state. `trigger` determines when decisions are due.
    ///
    /// If the state already contains live jobs, as in a forecast, a decision is due at the first
    /// decision moment.
    pub fn new(state: State, trigger: Box<dyn DecisionTrigger>) -> Self {
        let live = state.count(Phase::Waiting) + state.count(Phase::Deferred) > 0
            || !state.placed.is_empty()
            || state.count(Phase::Submitted) > 0;
        let due = live.then(|| trigger.first_from(state.now, None));
        let saved = Saved {
            state,
            due,
            ..Saved::default()
        };
        Core::restore(saved, trigger)
    }

    /// Restores a core that [`Core::save`] saved. `trigger` determines when decisions are due.
    pub fn restore(mut saved: Saved, trigger: Box<dyn DecisionTrigger>) -> Self {
        saved.state.share_witness();
        saved.validity.get_or_insert_default();
        let moment = trigger.first_from(Time::ZERO, None);
        Core {
            saved,
            trigger,
            moment: ((Time::ZERO, None), moment),
            visit_every_round: false,
            instant: false,
            stale_action: None,
        }
    }

    /// Returns the contents of the core without its trigger.
    pub fn save(&self) -> Saved {
        let mut saved = self.saved.clone();
        // Another core notes what its own scheduler reads.
        saved.state.witness = Witness::default();
        saved
    }

    /// Requests a decision at every decision moment, even if the last decision is still valid. The
    /// results are the same; tests compare both.
    #[must_use]
    pub fn visiting_every_round(mut self, yes: bool) -> Self {
        self.visit_every_round = yes;
        self
    }

    /// Prepares the state for another scheduler, which makes the next decision at the next decision
    /// moment. Jobs with GPUs keep them until then. All other jobs wait for admission again.
    pub fn change_scheduler(&mut self) {
        self.saved.validity = Some(Validity::NextRound);
        self.saved.state.reopen_admission();
        self.saved.state.break_continuity();
        if self.open().is_none() {
            let moment = self.next_moment();
            self.due_by(moment);
        }
    }

    /// Applies an input, notifies `watch`, and appends the resulting commands to `out`.
    ///
    /// # Errors
    /// The input contradicts the state or the open question; see [`Refused`].
    #[inline]
    pub fn handle(
        &mut self,
        input: &Input,
        watch: &mut dyn Observer,
        out: &mut Vec<Command>,
    ) -> Result<(), Refused> {
        let result = match input {
            Input::Event { at, event } => self.event(*at, event, watch),
            Input::Due { at } => self.ask(*at),
            Input::Decided {
                at,
                question,
                decision,
                instant,
            } => {
                self.close(*at, *question)?;
                self.decided(decision, *instant, watch)
            }
            Input::Lost { at, question, .. } => {
                self.close(*at, *question)?;
                self.saved.counters.failed_decisions += 1;
                self.saved.waits.clear();
                self.saved.waits_by_gpus.clear();
                self.saved.otherwise = Reason::NotChosen;
                // Touched jobs stay marked, because no decision has considered them.
                self.saved.state.close_decision(0, false);
                self.saved.state.next_moment = self.moment_from(self.saved.state.now);
                self.lose_turn();
                Ok(())
            }
        };
        if self.saved.state.has_commands() {
            self.saved.state.take_commands(out);
        }
        result
    }

    /// Makes a decision of `scheduler` from the state, which does not change. A decision is a pure
    /// function of the state and of the scheduler's memory. `lens` is a reusable buffer; `out` is
    /// cleared first.
    ///
    /// The scheduler is notified of its own node actions and admission decisions here, one after
    /// another.
    ///
    /// # Errors
    /// The scheduler panicked, its cluster manager used an action that it does not declare, or its
    /// placement policy misused the draft. The caller passes the error to [`Core::handle`] as [`Input::Lost`].
    pub fn decide(
        &self,
        scheduler: &mut dyn Scheduler,
        lens: &mut Lens,
        out: &mut Decision,
    ) -> Result<(), DecisionError> {
        out.clear();
        lens.clear();
        let state = &self.saved.state;
        out.version = state.version;
        let manage = |s: &mut dyn Scheduler| s.manage(View::of(state), &mut out.actions);
        let mut validity = guarded(View::of(state), scheduler, manage)?;
        let has_rounds = || self.trigger.following(state.now).is_some();
        let undeclared = |action: &NodeAction| {
            let declared = |kind: &NodeActionKind| scheduler.actions().contains(*kind);
            let kind = action.kind().filter(|kind| !declared(kind))?;
            // The operator, or an earlier decision, may have asked for this step after a drain.
            let node = action.node().and_then(|id| state.cluster.node(id));
            let drain = node.and_then(|node| node.drain());
            (drain.and_then(|d| d.then.kind()) != Some(kind)).then_some(kind)
        };
        if let Some(action) = out.actions.iter().find_map(undeclared) {
            let policy = Name::from(scheduler.name());
            return Err(DecisionError::Undeclared { policy, action });
        }
        for action in out.actions.iter() {
            if lens.manage(state, action) {
                notify_last_change(scheduler, state, lens)?;
            }
        }

        let mut asking = std::mem::take(&mut lens.asking);
        asking.clear();
        asking.extend(state.asking.iter().filter(|id| asks(state.job(**id))));
        if !asking.is_empty() || state.count(Phase::Deferred) > 0 {
            let view = View::of_changed(state, lens);
            let admit = |s: &mut dyn Scheduler| s.admit(view, &asking, &mut out.admissions);
            validity = validity.and_if(guarded(view, scheduler, admit)?, has_rounds);
        }
        judge_all(scheduler, state, lens, &asking, out)?;
        lens.asking = asking;

        out.plan.version = lens.version(state);
        let view = View::of_changed(state, lens);
        let planned = guarded(view, scheduler, |s| s.plan(view, &mut out.plan))?;
        out.validity = validity.and_if(planned?, has_rounds);
        if !state.timed.is_empty()
            && let Some(next) = next_of_timed(view)
        {
            out.validity = out.validity.and_if(Validity::Until(next), has_rounds);
        }
        Ok(())
    }

    /// Returns the state, without the rest of the core.
    pub fn into_state(self) -> State {
        self.saved.state
    }

    /// Returns the state.
    #[inline]
    pub fn state(&self) -> &State {
        &self.saved.state
    }

    /// Returns the state as policies see it.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View::of(&self.saved.state)
    }

    /// Returns whether the scheduler has read the truth about a job ([`JobRef::truth`]) while the
    /// core called it, also in forecasts.
    pub fn knew_truth(&self) -> bool {
        self.saved.state.witness.seen()
    }

    /// Makes each call in which the scheduler has read the truth about a job an error.
    pub fn forbid_truth(&mut self) {
        self.saved.state.witness.forbid();
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.saved.counters
    }

    /// Returns the first of [`Counters::stale_actions`] since this core was created or restored.
    pub fn stale_action(&self) -> Option<&NodeAction> {
        self.stale_action.as_ref()
    }

    /// Returns why a job waits, according to the last decision.
    pub fn reason_for(&self, job: JobId) -> &Reason {
        let saved = &self.saved;
        let its = saved.waits.iter().find(|(j, _)| *j == job);
        let gpus = saved.state.job(job).map(|job| job.gpus());
        let alike = |(count, _): &&(GpuCount, Reason)| Some(*count) == gpus;
        let alike = || saved.waits_by_gpus.iter().find(alike);
        let alike = || alike().map_or(&saved.otherwise, |(_, why)| why);
        its.map_or_else(alike, |(_, why)| why)
    }

    /// Returns the time of the last question.
    pub fn last_decision(&self) -> Option<Time> {
        self.saved.last_decision
    }

    /// Returns the question that the scheduler has not answered.
    pub fn open(&self) -> Option<Question> {
        self.saved.open
    }

    /// Returns the trigger, which determines when decisions are due.
    pub fn trigger(&self) -> &dyn DecisionTrigger {
        &*self.trigger
    }

    /// Returns the time of the next decision, if it is known. Returns `None` if only an event can
    /// make a decision due, or if a question is open.
    #[inline]
    pub fn due(&self) -> Option<Time> {
        self.saved.due
    }

    /// Returns whether stops or launches of the last decision took no time: the core applied them
    /// without commands.
    #[inline]
    pub fn was_instant(&self) -> bool {
        self.instant
    }
}

/// Notifies the scheduler of its admission decisions. Defers each job in `asking` for which there
/// is none.
fn judge_all(
    scheduler: &mut dyn Scheduler,
    state: &State,
    lens: &mut Lens,
    asking: &[JobId],
    out: &mut Decision,
) -> Result<(), DecisionError> {
    let mut admissions = std::mem::take(&mut out.admissions.list);
    let mut result = Ok(());
    admissions.retain(|(job, admission)| {
        if result.is_err() {
            return true;
        }
        // Admission may repeat this decision for each deferred job. It has no effect.
        if repeats_deferral(View::of_changed(state, lens), *job, admission) {
            return false;
        }
        result = decide_admission(scheduler, state, lens, *job, admission);
        true
    });
    out.admissions.list = admissions;
    result?;
    for &job in asking {
        if asks(View::of_changed(state, lens).job(job)) {
            // A job without an admission decision is deferred, for every core that applies this
            // decision.
            let admission = AdmissionDecision::Defer(Reason::NotYetDecided);
            decide_admission(scheduler, state, lens, job, &admission)?;
            out.admissions.list.push((job, admission));
        }
    }
    Ok(())
}

/// Copies a list, which is usually empty, into the memory of another.
#[inline]
fn keep<T: Clone>(into: &mut Vec<T>, list: &Vec<T>) {
    if !(into.is_empty() && list.is_empty()) {
        into.clone_from(list);
    }
}

fn decide_admission(
    scheduler: &mut dyn Scheduler,
    state: &State,
    lens: &mut Lens,
    job: JobId,
    admission: &AdmissionDecision,
) -> Result<(), DecisionError> {
    // An invalid admission decision is left out and counted when the decision is applied.
    if lens.add_admission(state, job, admission) {
        notify_last_change(scheduler, state, lens)?;
        lens.retire();
    }
    Ok(())
}

/// Notifies the scheduler of the last change of its decision.
fn notify_last_change(
    scheduler: &mut dyn Scheduler,
    state: &State,
    lens: &Lens,
) -> Result<(), DecisionError> {
    let Some(event) = lens.last_change() else {
        return Ok(());
    };
    let view = View::of_changed(state, lens);
    guarded(view, scheduler, |s| s.on_event(view, event))
}

/// Returns whether the job is already deferred for the reason of the admission decision.
fn repeats_deferral(view: View<'_>, job: JobId, admission: &AdmissionDecision) -> bool {
    let AdmissionDecision::Defer(why) = admission else {
        return false;
    };
    let job = view.job(job);
    job.is_some_and(|j| j.phase() == Phase::Deferred && j.reason() == why)
}

/// Returns whether a job still waits for an admission decision.
fn asks(job: Option<JobRef<'_>>) -> bool {
    job.is_some_and(|job| job.phase() == Phase::Submitted)
}

impl Core {
    fn event(&mut self, at: Time, event: &Event, watch: &mut dyn Observer) -> Result<(), Refused> {
        self.saved.state.next_moment = self.moment_from(at.max(self.saved.state.now));
        if let Err(e) = self.saved.state.apply(at, event) {
            self.saved.counters.refused_events += 1;
            return Err(e.into());
        }
        self.saved.counters.events += 1;
        if self.is_news(event) {
            self.saved.news = self.saved.state.version;
            // While a question is open, no other decision is due.
            if self.saved.open.is_none() {
                self.due_by(self.saved.state.next_moment);
            }
        }
        if self.saved.state.cluster.is_draining() && self.saved.open.is_none() {
            self.note_leaving(true);
        }
        watch.on_event(View::of(&self.saved.state), event, false);
        if let Event::Ended { job, .. } = event {
            self.saved.state.retire(*job);
        }
        Ok(())
    }

    /// Opens a question at a decision moment.
    fn ask(&mut self, at: Time) -> Result<(), Refused> {
        if let Some(open) = self.saved.open {
            return Err(Refused::Open { open: open.number });
        }
        self.saved.state.advance(at);
        self.saved.state.next_moment = at;
        self.saved.last_decision = Some(at);
        self.saved.due = None;
        self.saved.counters.decisions += 1;
        self.saved.questions += 1;
        self.saved.open = Some(Question {
            number: self.saved.questions,
            at,
        });
        Ok(())
    }

    /// Closes the open question.
    fn close(&mut self, at: Time, question: u64) -> Result<(), Refused> {
        let Some(open) = self.saved.open.filter(|open| open.number == question) else {
            return Err(Refused::NotAsked { found: question });
        };
        self.saved.open = None;
        if at > open.at {
            self.count_skipped(open.at, at);
        }
        self.saved.state.advance(at);
        Ok(())
    }

    /// Counts the decision moments between a question and its late answer. Without a fixed period,
    /// the count stops at [`MOST_COUNTED`].
    #[cold]
    fn count_skipped(&mut self, asked: Time, at: Time) {
        let following = |t| self.trigger.following(t).filter(|next| *next < at);
        let Some(first) = following(asked) else {
            return;
        };
        let skipped = match self.trigger.period() {
            Some(period) => ((at - first).secs() / period.secs()).ceil() as u64,
            None => {
                let moments = std::iter::successors(Some(first), |t| following(*t));
                moments.take(MOST_COUNTED).count() as u64
            }
        };
        self.saved.counters.skipped_rounds += skipped;
    }

    fn decided(
        &mut self,
        decision: &Decision,
        instant: Instant,
        watch: &mut dyn Observer,
    ) -> Result<(), Refused> {
        let seen = decision.version;
        // True if the state has not changed since the decision was made.
        let quiet = self.saved.state.version == seen;
        let released = self.own_events(decision, watch);
        watch.on_decision(View::of(&self.saved.state), &decision.plan);
        let now = self.saved.state.now;
        self.saved.validity = Some(decision.validity);
        // Jobs that the plan changes are then marked as touched for the next decision.
        self.saved.state.close_decision(seen, quiet);
        self.saved.state.next_moment = self.moment_from(now);
        keep(&mut self.saved.waits, &decision.plan.waits);
        keep(&mut self.saved.waits_by_gpus, &decision.plan.waits_by_gpus);
        self.saved.otherwise.clone_from(&decision.plan.otherwise);
        let instant = match quiet && !self.saved.state.has_commands() {
            true => instant,
            false => Instant::Nothing,
        };
        self.instant = false;
        let applied = match self.saved.state.commit(&decision.plan, seen, instant) {
            Ok(applied) => applied,
            Err(error) => {
                self.saved.counters.refused_plans += 1;
                self.lose_turn();
                return Err(error.into());
            }
        };
        self.instant = applied.done > 0;
        // Each stop and launch counts as an event.
        self.saved.counters.events += u64::from(applied.done);
        self.saved.counters.stale_steps += u64::from(applied.stale);
        self.saved.counters.preemptions += u64::from(applied.stops);
        self.saved.counters.placements += u64::from(applied.placements);
        if !decision.plan.is_empty() {
            watch.on_launches(View::of(&self.saved.state), &decision.plan);
        }
        self.saved.due = self.due_after(decision.plan.is_empty() && !released);
        if self.saved.state.cluster.is_draining() {
            if self.instant && self.saved.state.has_drained_node() {
                // The stops take no time, so no event follows on which the node takes its next step.
                let due = self.moment_from(now);
                self.due_by(due);
            }
            self.note_leaving(self.instant);
        }
        if released && self.saved.state.cluster.offers().next().is_some() && !self.has_rounds() {
            // The cluster manager may request nodes for them.
            let due = self.moment_from(now);
            self.due_by(due);
        }
        if self.saved.news > seen {
            // The decision did not consider events that arrived while it was made.
            let due = self.moment_from(self.saved.state.now);
            self.due_by(due);
        }
        Ok(())
    }

    /// Applies the node actions and admission decisions of a decision at the time of its question.
    /// Later events may have made them stale. Returns whether deferred jobs were admitted: the cluster
    /// manager has not seen them wait.
    fn own_events(&mut self, decision: &Decision, watch: &mut dyn Observer) -> bool {
        let mut released = false;
        let moment = self.saved.last_decision.unwrap_or(self.saved.state.now);
        for action in decision.actions.iter() {
            let event = Event::NodeManaged {
                action: action.clone(),
            };
            self.own_event(&event, decision.version, moment, watch);
        }
        for (job, admission) in decision.admissions.iter() {
            let admits = matches!(admission, AdmissionDecision::Accept { .. });
            let was = self.saved.state.record(*job).map(|rec| rec.phase);
            released |= admits && was == Some(Phase::Deferred);
            let event = Event::AdmissionDecided {
                job: *job,
                admission: admission.clone(),
            };
            self.own_event(&event, decision.version, moment, watch);
            self.saved.state.retire(*job);
        }
        self.saved.state.forget_askers();
        released
    }

    fn own_event(&mut self, event: &Event, seen: u64, moment: Time, watch: &mut dyn Observer) {
        if self.saved.state.apply_own(event, seen, moment).is_err() {
            self.saved.counters.stale_steps += 1;
            if let Event::NodeManaged { action } = event {
                self.saved.counters.stale_actions += 1;
                self.stale_action.get_or_insert_with(|| action.clone());
            }
            return;
        }
        self.saved.counters.events += 1;
        watch.on_event(View::of(&self.saved.state), event, true);
    }

    /// Returns the time of the next decision if no event arrives.
    fn due_after(&mut self, nothing_changed: bool) -> Option<Time> {
        let now = self.saved.state.now;
        let validity = self.saved.validity.unwrap_or_default();
        // After a plan with steps, the next decision may place more jobs. After the admission of
        // deferred jobs, the cluster manager may act.
        let each = !nothing_changed || self.visit_every_round || validity == Validity::NextRound;
        let next = each.then(|| self.trigger.following(now)).flatten();
        let timer = match validity {
            // An expired timer must not make decisions due at the same time forever.
            Validity::Until(t) if t <= now => self.trigger.following(now),
            Validity::Until(t) => Some(self.moment_from(t)),
            _ => None,
        };
        match (next, timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Makes a decision due for each node that returns to its provider, also between rounds. It is
    /// due when the drain of the node ends, and once the node is idle. `changed` is false if nothing
    /// has happened since a decision that could have returned an idle node.
    #[cold]
    fn note_leaving(&mut self, changed: bool) {
        let (now, last) = (self.saved.state.now, self.saved.last_decision);
        let cluster = &self.saved.state.cluster;
        let leaving = cluster
            .draining()
            .filter(|(_, d)| d.then == AfterDrain::Leave);
        let due = leaving.filter_map(|(node, drain)| match cluster.is_idle(node) {
            true => changed.then_some(now),
            false if drain.by > now => Some(drain.by),
            false => last.is_none_or(|last| last < drain.by).then_some(now),
        });
        if let Some(due) = due.min() {
            self.due_by(due);
        }
    }

    /// Makes a decision due at a moment, if none is due before.
    fn due_by(&mut self, moment: Time) {
        self.saved.due = Some(self.saved.due.map_or(moment, |due| due.min(moment)));
    }

    /// Makes a decision due at the next decision moment after a lost turn.
    fn lose_turn(&mut self) {
        self.saved.state.break_continuity();
        self.saved.due = Some(self.next_moment());
    }

    /// Returns the next decision moment. Without rounds, it is one second away.
    fn next_moment(&self) -> Time {
        let now = self.saved.state.now;
        let next = self.trigger.following(now);
        next.unwrap_or(now + Seconds::new(1.0))
    }

    /// Returns the first decision moment at or after `t` that comes after the last decision.
    #[inline]
    fn moment_from(&mut self, t: Time) -> Time {
        // Most events have the same time as the event before.
        let asked = (t, self.saved.last_decision);
        if self.moment.0 != asked {
            self.moment = (asked, self.trigger.first_from(t, self.saved.last_decision));
        }
        self.moment.1
    }

    fn has_rounds(&self) -> bool {
        self.trigger.following(self.saved.state.now).is_some()
    }

    /// Returns whether an event can change a decision. Results that the last decision expected
    /// cannot.
    fn is_news(&self, event: &Event) -> bool {
        match event {
            Event::Started { .. } => false,
            // With rounds, a valid decision may be based on running time that this event withdraws.
            // Without rounds, each move of a job would cause the next one.
            Event::Ran { .. } => self.has_rounds(),
            // So would the speeds of the jobs beside it.
            Event::Progress { .. } => {
                self.has_rounds() || self.saved.last_decision != Some(self.saved.state.now)
            }
            Event::Stopped { job, .. } => {
                let awaited = self.saved.state.job(*job).is_some_and(|j| j.is_placed());
                !awaited && self.saved.last_decision != Some(self.saved.state.now)
            }
            _ => true,
        }
    }
}

/// Returns the next time at which the need of a service changes or the time of a notice is over.
#[cold]
fn next_of_timed(view: View<'_>) -> Option<Time> {
    let now = view.now();
    let of = |job: JobRef<'_>| {
        let need = job.spec().extras().need.as_ref();
        let step = need.map(|need| need.next_after(now));
        [step, job.leaves_at().filter(|by| *by > now)]
    };
    view.timed().flat_map(of).flatten().min()
}

/// Calls a scheduler, and returns an error if it panics, or reads the truth about jobs although that
/// is forbidden.
pub(crate) fn guarded<T>(
    view: View<'_>,
    policy: &mut dyn Scheduler,
    call: impl FnOnce(&mut dyn Scheduler) -> T,
) -> Result<T, DecisionError> {
    let ask = || catch_unwind(AssertUnwindSafe(|| call(policy)));
    let (answer, read) = view.witness().asking(ask);
    let answer = answer.map_err(|panic| DecisionError::Panicked {
        policy: Name::from(policy.name()),
        message: panic_message(&*panic),
    })?;
    match read {
        false => Ok(answer),
        true => Err(DecisionError::ReadTruth {
            policy: Name::from(policy.name()),
        }),
    }
}

/// Returns the message of a panic, or `no message` if it has none.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
