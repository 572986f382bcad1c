//! A scheduler that stops, moves and places jobs at random, which tests the protocol harder than
//! any real scheduler. Its decisions depend only on its seed and on the state. Its memory shows
//! whether it has missed an event or a decision.

use blox_core::{
    Action, AdmissionDecisions, Assignment, DecisionError, Event, GpuId, JobId, MemoryError,
    NodeActions, Plan, Reason, Scheduler, Validity, View,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Clone, Debug)]
pub struct Churn {
    pub seed: u64,
    /// Time in seconds after which it only places jobs.
    pub calm_after: f64,
    /// Its memory: digests of all events and of all its decisions that were applied.
    pub memory: (u64, u64),
}

/// Adds a value to a digest.
fn digest(known: u64, value: u64) -> u64 {
    (known ^ value)
        .wrapping_mul(0x0100_0000_01b3)
        .rotate_left(23)
}

impl Scheduler for Churn {
    fn name(&self) -> &str {
        "churn"
    }

    fn manage(&mut self, _: View<'_>, _: &mut NodeActions) -> Validity {
        Validity::UntilEvent
    }

    fn admit(
        &mut self,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        for job in asking {
            out.accept(*job);
        }
        let bound = |r: &Reason| *r == Reason::HeldByUser;
        for job in view.deferred().filter(|j| !bound(j.reason())) {
            out.accept(job.id());
        }
        Validity::UntilEvent
    }

    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ (view.version() << 20));
        self.memory.1 = digest(self.memory.1, view.version());
        let calm = view.now().secs() > self.calm_after;
        let usable = view.nodes().filter(|n| n.is_usable());
        let mut free: Vec<GpuId> = usable
            .flat_map(|n| n.gpus())
            .filter(|g| view.cluster().allocated_to(*g).next().is_none())
            .collect();
        let placed: Vec<_> = view.placed().collect();
        for job in placed {
            // A job that is leaving without a new placement cannot be stopped again.
            if calm || !job.is_placed() {
                continue;
            }
            if rng.random_bool(0.04) {
                out.actions.push(Action::Stop {
                    job: job.id(),
                    why: Reason::Unlisted,
                });
            } else if rng.random_bool(0.04) && free.len() >= job.gpus().get() as usize {
                let gpus: Vec<GpuId> = free.drain(..job.gpus().get() as usize).collect();
                out.actions.push(Action::Place {
                    job: job.id(),
                    assignment: Assignment::of(gpus),
                });
            } else if rng.random_bool(0.01) {
                out.actions.push(Action::Finish {
                    job: job.id(),
                    why: Reason::GoalReached,
                });
            }
        }
        for job in view.waiting() {
            let needed = job.gpus().get() as usize;
            if needed > free.len() {
                continue;
            }
            let start = if calm {
                0
            } else {
                rng.random_range(0..=free.len() - needed)
            };
            let gpus: Vec<GpuId> = free.drain(start..start + needed).collect();
            out.actions.push(Action::Place {
                job: job.id(),
                assignment: Assignment::of(gpus),
            });
        }
        Ok(Validity::NextRound)
    }

    fn on_event(&mut self, view: View<'_>, event: &Event) {
        let mut hash = DefaultHasher::new();
        std::mem::discriminant(event).hash(&mut hash);
        self.memory.0 = digest(self.memory.0, hash.finish() ^ view.version());
    }

    fn save(&self) -> Result<Option<serde_json::Value>, MemoryError> {
        Ok(Some(serde_json::json!(self.memory)))
    }

    fn restore(&mut self, saved: serde_json::Value) -> Result<(), MemoryError> {
        let memory = serde_json::from_value(saved);
        self.memory = memory.map_err(|e| MemoryError::Restore(e.to_string()))?;
        Ok(())
    }
}
