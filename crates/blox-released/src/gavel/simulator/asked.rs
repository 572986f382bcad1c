//! A share policy as a program asks it.

use blox_core::AnyMemory;
use blox_policies::scheduling::gavel::{Allocation, AnyShares, Instance, SharePolicy};
use blox_solve::SolveError;
use std::sync::Arc;

/// What a program asks when it needs shares.
pub trait Shares {
    /// See [`SharePolicy::allocate`].
    ///
    /// # Errors
    /// The solver found no solution.
    fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError>;

    /// See [`SharePolicy::wants_pairs`].
    fn wants_pairs(&self) -> bool;

    /// See [`SharePolicy::conserves_work`].
    fn conserves_work(&self) -> bool;
}

/// A share policy with what it remembers.
#[derive(Clone)]
pub struct Asked {
    policy: Arc<dyn AnyShares>,
    memory: AnyMemory,
}

impl Asked {
    /// Starts a policy with the seed of the program.
    pub fn new(policy: impl SharePolicy, seed: u64) -> Self {
        Asked {
            memory: AnyMemory::of(policy.initial(seed)),
            policy: Arc::new(policy),
        }
    }

    /// See [`SharePolicy::objective`].
    pub fn objective(&self, instance: &Instance, allocation: &Allocation) -> Option<f64> {
        self.policy
            .any_objective(&self.memory, instance, allocation)
    }
}

impl Shares for Asked {
    fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError> {
        self.policy.any_allocate(&mut self.memory, instance)
    }

    fn wants_pairs(&self) -> bool {
        self.policy.any_wants_pairs()
    }

    fn conserves_work(&self) -> bool {
        self.policy.any_conserves_work()
    }
}
