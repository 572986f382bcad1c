//! A scheduler that stops, moves and places jobs at random, which tests the protocol harder than
//! any real scheduler. Its decisions depend only on its seed and on the state. Its memory shows
//! whether it has missed an event or a decision.

use blox_core::{
    Action, AdmissionDecisions, AfterDrain, Assignment, DecisionError, Event, GpuId, JobId,
    MemoryError, Node, NodeAction, NodeActionKinds, NodeActions, NodeStatus, Plan, Reason,
    Scheduler, Share, Used, Validity, View, Wanted,
};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Clone, Debug)]
pub struct Churn {
    pub seed: u64,
    /// Time in seconds after which it only places jobs.
    pub calm_after: f64,
    /// There is a provider of nodes.
    pub provided: bool,
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

    /// Switches nodes on and off, requests and returns nodes. When calm, it has all nodes on, and
    /// as many that the widest job fits.
    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Validity {
        if !self.provided {
            return Validity::UntilEvent;
        }
        let mut rng = ChaCha8Rng::seed_from_u64(!self.seed ^ (view.version() << 20));
        let calm = view.now().secs() > self.calm_after;
        let cluster = view.cluster();
        let there = || view.nodes().filter(|n| n.status() != NodeStatus::Left);
        let mut usable = there().filter(|n| n.is_usable()).count();
        let settled = |n: &&Node| matches!(n.wanted(), None | Some(Wanted::Off(_)));
        for n in there().filter(settled) {
            let node = n.id();
            let unused = |g: GpuId| {
                cluster.bound_to(g).next().is_none() && cluster.allocated_to(g).next().is_none()
            };
            let idle = usable > 1 && n.is_usable() && n.gpus().all(unused);
            let dice = rng.random_range(0..100);
            match n.status() {
                NodeStatus::Up if idle && !calm && dice < 6 => {
                    usable -= 1;
                    out.push(match dice {
                        0..4 => NodeAction::Power { node, on: false },
                        _ => NodeAction::Drain {
                            node,
                            by: view.now(),
                            then: AfterDrain::Leave,
                            why: "idle".into(),
                        },
                    });
                }
                // A node with another inventory stays cordoned until it joins anew.
                NodeStatus::Up
                    if (calm || dice < 10)
                        && n.cordoned().is_some_and(|w| !w.starts_with("it came back")) =>
                {
                    out.push(NodeAction::Uncordon { node });
                }
                NodeStatus::Off | NodeStatus::Lost if calm || dice < 15 => {
                    out.push(NodeAction::Power { node, on: true });
                }
                _ => {}
            }
        }
        let gpus = there().map(Node::gpu_count).sum::<u32>() + 2 * cluster.coming() as u32;
        let widest = view.waiting().map(|j| j.gpus().get()).max().unwrap_or(0);
        let few = there().count() + cluster.coming() < 6;
        let count = match calm {
            true => widest.saturating_sub(gpus).div_ceil(2),
            false if few && rng.random_bool(0.04) => rng.random_range(1..=2),
            false => 0,
        };
        if count > 0 {
            let offers = cluster.offers().map(|(offer, _)| offer);
            out.extend(offers.map(|offer| NodeAction::Grow { offer, count }));
        }
        Validity::NextRound
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::ALL
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
        let held_by_user = |r: &Reason| *r == Reason::HeldByUser;
        for job in view.deferred().filter(|j| !held_by_user(j.reason())) {
            out.accept(job.id());
        }
        Validity::UntilEvent
    }

    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed ^ (view.version() << 20));
        self.memory.1 = digest(self.memory.1, view.version());
        let calm = view.now().secs() > self.calm_after;
        let usable = view.nodes().filter(|n| n.is_usable());
        let mut used: Vec<(GpuId, Used)> = usable
            .flat_map(|n| n.gpus().filter(|g| n.works(*g)))
            .map(|g| (g, view.cluster().used(g)))
            .collect();
        // Takes a part of each of some GPUs that have room for it, from the `start`th on.
        let mut take = |needed: usize, share: Share, start: &mut dyn FnMut(usize) -> usize| {
            let with_room = used.iter_mut().filter(|(_, used)| used.has_room(share));
            let mut with_room: Vec<_> = with_room.collect();
            let spare = with_room.len().checked_sub(needed)?;
            let from = start(spare);
            let taken = with_room[from..from + needed]
                .iter_mut()
                .map(|(gpu, used)| {
                    used.add(share);
                    *gpu
                });
            Some(Assignment {
                share,
                ..Assignment::of(taken.collect::<Vec<GpuId>>())
            })
        };
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
            } else if rng.random_bool(0.04)
                && let Some(assignment) = take(
                    job.gpus().get() as usize,
                    job.spec().extras().share,
                    &mut |_| 0,
                )
            {
                out.actions.push(Action::Place {
                    job: job.id(),
                    assignment,
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
            let mut start = |spare: usize| match calm {
                true => 0,
                false => rng.random_range(0..=spare),
            };
            let assignment = take(needed, job.spec().extras().share, &mut start);
            out.actions
                .extend(assignment.map(|assignment| Action::Place {
                    job: job.id(),
                    assignment,
                }));
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
