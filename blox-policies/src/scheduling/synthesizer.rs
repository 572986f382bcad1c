//! The automatic synthesizer: the composition itself is chosen by looking ahead.

use blox_core::forecast::{Forecast, Forecaster, Horizon};
use blox_core::{
    AdmissionPolicy, ClusterManager, Decide, Draft, DraftError, Event, JobId, JobRef, NodeActions,
    Outlook, Part, Phase, Pipeline, PlacementPolicy, Reason, Requests, RestoreError,
    SchedulingPolicy, Seconds, Time, Verdicts, View,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Every so often simulates each of several compositions ahead from the present
/// state, and decides as the best of them until the next choice (Blox, EuroSys
/// 2024: "automatic scheduler synthesizer").
///
/// The best is the one under which the jobs known now spend the least time in
/// the system: until all have ended, or within the horizon. Ties go to the
/// candidate that was named first. Jobs, promotions and deferrals carry over
/// from one candidate to the next, and every candidate is told every event. While
/// no job waits there is nothing to choose.
///
/// It brings its own admission, cluster management and placement: those of the
/// chosen candidate.
#[derive(Clone)]
pub struct Synthesizer {
    candidates: Vec<Pipeline>,
    forecaster: Arc<dyn Forecaster>,
    every: Seconds,
    horizon: Horizon,
    chosen: usize,
    /// No choice before this moment.
    next: Time,
    /// What the chosen candidate's placement said of the last decision.
    placed: Outlook,
}

impl Synthesizer {
    /// Over one composition, and those added with [`Synthesizer::or`]; a choice
    /// every 3000 s (ten rounds of 300 s), looking ahead until all jobs known
    /// have ended.
    pub fn new(first: Pipeline, forecaster: Arc<dyn Forecaster>) -> Self {
        Synthesizer {
            candidates: vec![first],
            forecaster,
            every: Seconds::new(3000.0),
            horizon: Horizon::UntilDrained,
            chosen: 0,
            next: Time::ZERO,
            placed: Outlook::Stable,
        }
    }

    /// With one more candidate. Its cadence does not count.
    #[must_use]
    pub fn or(mut self, candidate: Pipeline) -> Self {
        self.candidates.push(candidate);
        self
    }

    /// With a choice at most every `span`; at every decision if it is 0.
    #[must_use]
    pub fn every(mut self, span: Seconds) -> Self {
        self.every = span;
        self
    }

    /// Looking so far ahead.
    #[must_use]
    pub fn looking(mut self, horizon: Horizon) -> Self {
        self.horizon = horizon;
        self
    }

    /// The name of the composition that decides now.
    pub fn chosen(&self) -> &str {
        self.candidates[self.chosen].name()
    }

    fn choose(&mut self, view: View<'_>) -> Outlook {
        let idle = view.waiting_count() == 0
            && view.deferred_count() == 0
            && view.state().count(Phase::Submitted) == 0;
        if idle || self.candidates.len() == 1 {
            return Outlook::Stable;
        }
        let now = view.now();
        if now >= self.next {
            let mut best: Option<(u32, f64)> = None;
            for (i, candidate) in self.candidates.iter().enumerate() {
                let ahead = self
                    .forecaster
                    .forecast(view.state(), candidate, self.horizon);
                let score = score(&ahead, now, self.horizon);
                if best.is_none_or(|b| score < b) {
                    best = Some(score);
                    self.chosen = i;
                }
            }
            self.next = now + self.every;
        }
        Outlook::Until(self.next)
    }

    fn current(&mut self) -> &mut Pipeline {
        &mut self.candidates[self.chosen]
    }
}

/// Jobs that never end, then time in the system: less is better.
fn score(ahead: &Forecast, now: Time, horizon: Horizon) -> (u32, f64) {
    let ended: f64 = ahead.ends.iter().map(|(_, at)| (*at - now).secs()).sum();
    match horizon {
        Horizon::UntilDrained => (ahead.unfinished, ended),
        // All candidates have the same jobs: those that are left at the horizon
        // were there for all of it.
        Horizon::For(span) => (0, ended + f64::from(ahead.unfinished) * span.secs()),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    chosen: usize,
    next: Time,
    candidates: Vec<Option<Value>>,
}

impl Part for Synthesizer {
    fn observe(&mut self, view: View<'_>, event: &Event) {
        for candidate in &mut self.candidates {
            candidate.observe(view, event);
        }
    }

    fn observes_launches(&self) -> bool {
        self.candidates.iter().any(Part::observes_launches)
    }

    fn save(&self) -> Option<Value> {
        let memory = Memory {
            chosen: self.chosen,
            next: self.next,
            candidates: self.candidates.iter().map(Part::save).collect(),
        };
        serde_json::to_value(memory).ok()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        let memory: Memory = serde_json::from_value(memory)?;
        let (known, found) = (self.candidates.len(), memory.candidates.len());
        if found != known || memory.chosen >= known {
            return Err(RestoreError::new(format!(
                "found a choice of candidate {} of {found}, expected one of {known}",
                memory.chosen
            )));
        }
        for (candidate, memory) in self.candidates.iter_mut().zip(memory.candidates) {
            if let Some(memory) = memory {
                candidate.restore(memory)?;
            }
        }
        (self.chosen, self.next) = (memory.chosen, memory.next);
        Ok(())
    }
}

impl SchedulingPolicy for Synthesizer {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        self.current().scheduling().schedule(view, out)
    }

    fn admission(&mut self) -> Option<&mut dyn AdmissionPolicy> {
        Some(self)
    }

    fn cluster(&mut self) -> Option<&mut dyn ClusterManager> {
        Some(self)
    }

    fn placement(&mut self) -> Option<&mut dyn PlacementPolicy> {
        Some(self)
    }
}

impl ClusterManager for Synthesizer {
    // The first question of a decision.
    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Outlook {
        let outlook = self.choose(view);
        self.current().manage(view, out).and(outlook)
    }
}

impl AdmissionPolicy for Synthesizer {
    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook {
        self.current().admit(view, asking, out)
    }
}

impl PlacementPolicy for Synthesizer {
    fn place(&mut self, requests: &mut Requests, draft: &mut Draft<'_>) -> Result<(), DraftError> {
        let placement = self.current().placement();
        placement.place(requests, draft)?;
        self.placed = placement.outlook();
        Ok(())
    }

    fn outlook(&self) -> Outlook {
        self.placed
    }

    /// What one of the candidates can never place is turned away: it would
    /// wait for as long as that candidate decides.
    fn can_ever_place(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        self.candidates
            .iter()
            .try_for_each(|c| c.can_ever_place(view, job))
    }
}
