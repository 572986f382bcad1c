//! The automatic synthesizer: chooses among compositions by looking ahead.

use blox_core::forecast::{Forecast, Forecaster, Horizon};
use blox_core::{
    AdmissionDecisions, AdmissionPolicy, Answer, ClusterManager, Composition, Draft, Event, JobId,
    JobQueue, JobRef, Memory, MemoryError, NodeActionKinds, NodeActions, Phase, Pipeline,
    PlacementPolicy, Plan, Policy, Reason, Room, Scheduler, SchedulingPolicy, Seconds, Shape,
    Shapes, Time, Validity, View,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Periodically simulates several compositions from the present state, and decides as the best of
/// them (Blox, EuroSys 2024: "automatic scheduler synthesizer").
///
/// The best candidate is the one under which the currently known jobs spend the least time in the
/// system. Time counts until all have ended, or within the horizon. Ties go to the candidate that
/// was added first. Jobs, promotions and deferrals carry over from one candidate to the next, and
/// every candidate observes every event. While no job waits, no choice is made.
///
/// It takes all four roles: compose it with [`Synthesizer::compose`].
#[derive(Clone)]
pub struct Synthesizer {
    candidates: Vec<Pipeline>,
    forecaster: Arc<dyn Forecaster>,
    every: Seconds,
    horizon: Horizon,
}

/// The choice, and the candidates with their state.
#[derive(Clone)]
pub struct Candidates {
    all: Vec<Pipeline>,
    chosen: usize,
    /// Earliest time of the next choice.
    next: Time,
}

impl Synthesizer {
    /// Creates a synthesizer with one composition; add others with [`Synthesizer::or`].
    ///
    /// It chooses every 3000 s (ten rounds of 300 s), and looks ahead until all known jobs have
    /// ended.
    pub fn new(first: Pipeline, forecaster: Arc<dyn Forecaster>) -> Self {
        Synthesizer {
            candidates: vec![first],
            forecaster,
            every: Seconds::new(3000.0),
            horizon: Horizon::UntilDrained,
        }
    }

    /// Adds a candidate. The trigger of the candidate is ignored.
    #[must_use]
    pub fn or(mut self, candidate: Pipeline) -> Self {
        self.candidates.push(candidate);
        self
    }

    /// Sets the minimum time between choices; with 0 it chooses at every decision.
    #[must_use]
    pub fn every(mut self, span: Seconds) -> Self {
        self.every = span;
        self
    }

    /// Sets the horizon.
    #[must_use]
    pub fn looking(mut self, horizon: Horizon) -> Self {
        self.horizon = horizon;
        self
    }

    /// Adds the synthesizer to a composition, in all four roles.
    #[must_use]
    pub fn compose(self, composition: Composition) -> Composition {
        composition.joint(self, |roles| {
            roles.cluster().admission().scheduling().placement()
        })
    }

    fn choose(&self, memory: &mut Candidates, view: View<'_>) -> Validity {
        let idle = view.waiting_count() == 0
            && view.deferred_count() == 0
            && view.count(Phase::Submitted) == 0;
        if idle || memory.all.len() == 1 {
            return Validity::UntilEvent;
        }
        let now = view.now();
        if now >= memory.next {
            let mut best: Option<(u32, f64)> = None;
            let state = view.to_state();
            for (i, candidate) in memory.all.iter().enumerate() {
                let ahead = self.forecaster.forecast(&state, candidate, self.horizon);
                let score = score(&ahead, now, self.horizon);
                if best.is_none_or(|b| score < b) {
                    best = Some(score);
                    memory.chosen = i;
                }
            }
            memory.next = now + self.every;
        }
        Validity::Until(memory.next)
    }
}

impl Candidates {
    /// Returns the name of the composition that decides now.
    pub fn chosen(&self) -> &str {
        self.all[self.chosen].name()
    }

    fn current(&mut self) -> &mut Pipeline {
        &mut self.all[self.chosen]
    }
}

/// Returns the number of jobs that never end, then the time in the system; less is better.
fn score(ahead: &Forecast, now: Time, horizon: Horizon) -> (u32, f64) {
    let ended: f64 = ahead.ends.iter().map(|(_, at)| (*at - now).secs()).sum();
    match horizon {
        Horizon::UntilDrained => (ahead.unfinished, ended),
        // All candidates have the same jobs. A job that is unfinished at the horizon was in the
        // system for all of it.
        Horizon::For(span) => (0, ended + f64::from(ahead.unfinished) * span.secs()),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    chosen: usize,
    next: Time,
    candidates: Vec<Option<Value>>,
}

impl Memory for Candidates {
    fn save(&self) -> Result<Value, MemoryError> {
        let candidates: Result<Vec<_>, _> = self.all.iter().map(Scheduler::save).collect();
        let saved = Saved {
            chosen: self.chosen,
            next: self.next,
            candidates: candidates?,
        };
        serde_json::to_value(saved).map_err(|e| MemoryError::Save(e.to_string()))
    }

    fn restore(&mut self, saved: Value) -> Result<(), MemoryError> {
        let wrong = |e: serde_json::Error| MemoryError::Restore(e.to_string());
        let saved: Saved = serde_json::from_value(saved).map_err(wrong)?;
        let (known, found) = (self.all.len(), saved.candidates.len());
        if found != known || saved.chosen >= known {
            return Err(MemoryError::Restore(format!(
                "found a choice of candidate {} of {found}, expected one of {known}",
                saved.chosen
            )));
        }
        for (candidate, memory) in self.all.iter_mut().zip(saved.candidates) {
            if let Some(memory) = memory {
                candidate.restore(memory)?;
            }
        }
        (self.chosen, self.next) = (saved.chosen, saved.next);
        Ok(())
    }
}

impl Policy for Synthesizer {
    type Memory = Candidates;

    fn initial(&self, seed: u64) -> Candidates {
        let seeded = |c: &Pipeline| c.clone().with_seed(seed);
        Candidates {
            all: self.candidates.iter().map(seeded).collect(),
            chosen: 0,
            next: Time::ZERO,
        }
    }

    fn on_event(&self, memory: &mut Candidates, view: View<'_>, event: &Event) {
        for candidate in &mut memory.all {
            candidate.on_event(view, event);
        }
    }

    fn on_launches(&self, memory: &mut Candidates, view: View<'_>, plan: &Plan) {
        for candidate in &mut memory.all {
            candidate.on_launches(view, plan);
        }
    }
}

impl SchedulingPolicy for Synthesizer {
    fn schedule(&self, memory: &mut Candidates, view: View<'_>, out: &mut JobQueue) -> Answer {
        memory.current().schedule(view, out)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        // Each candidate may decide, so each must be able to run the job.
        for candidate in &self.candidates {
            candidate.can_ever_place(view, job)?;
        }
        Ok(Shapes::from_elem(Shape::gang(job), 1))
    }
}

impl ClusterManager for Synthesizer {
    // Cluster management is the first step of a decision.
    fn manage(&self, memory: &mut Candidates, view: View<'_>, out: &mut NodeActions) -> Validity {
        let validity = self.choose(memory, view);
        memory.current().manage(view, out).and(validity)
    }

    fn actions(&self) -> NodeActionKinds {
        let all = self.candidates.iter().map(|c| c.actions());
        all.fold(NodeActionKinds::NONE, NodeActionKinds::and)
    }
}

impl AdmissionPolicy for Synthesizer {
    fn admit(
        &self,
        memory: &mut Candidates,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        memory.current().admit(view, asking, out)
    }
}

impl PlacementPolicy for Synthesizer {
    fn place(
        &self,
        memory: &mut Candidates,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Answer {
        memory.current().place(requests, draft)
    }

    /// [`Synthesizer::could_request`] asks the candidates.
    fn can_ever_place(&self, _: &Room<'_>, _: &JobRef<'_>, _: &Shape) -> Result<(), Reason> {
        Ok(())
    }

    // Each candidate may decide.
    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.candidates.iter().all(|c| c.keeps_nodes(nodes))
    }
}
