//! Interface between a program and a share policy.

use blox_core::AnyMemory;
use blox_policies::scheduling::gavel::{Allocation, AnyShares, Instance, SharePolicy, Usage};
use blox_solve::SolveError;
use std::sync::Arc;

/// Calls that a program makes when it needs shares.
///
/// ```
/// use blox_policies::scheduling::gavel::{Allocation, Instance};
/// use blox_released::gavel::{Asked, Shares};
/// use blox_solve::SolveError;
///
/// /// A share policy, and the number of its answers.
/// struct Counted(Asked, u32);
///
/// impl Shares for Counted {
///     fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError> {
///         self.1 += 1;
///         self.0.allocate(instance)
///     }
///
///     fn asked(&self) -> &Asked {
///         &self.0
///     }
/// }
/// ```
pub trait Shares {
    /// Returns an allocation, see [`SharePolicy::allocate`].
    ///
    /// # Errors
    /// Fails if the solver finds no solution.
    fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError>;

    /// Returns the policy.
    fn asked(&self) -> &Asked;
}

/// A share policy with its memory.
#[derive(Clone)]
pub struct Asked {
    policy: Arc<dyn AnyShares>,
    memory: AnyMemory,
}

impl Asked {
    /// Creates the memory of a policy with the seed of the program.
    pub fn new(policy: impl SharePolicy, seed: u64) -> Self {
        Asked {
            memory: AnyMemory::of(policy.initial(seed)),
            policy: Arc::new(policy),
        }
    }

    /// Returns the value of [`SharePolicy::objective`].
    pub fn objective(&self, instance: &Instance, allocation: &Allocation) -> Option<f64> {
        self.policy
            .any_objective(&self.memory, instance, allocation)
    }

    /// Returns the value of [`SharePolicy::usage`].
    pub fn usage(&self) -> Usage {
        self.policy.any_usage()
    }
}

impl Shares for Asked {
    fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError> {
        self.policy.any_allocate(&mut self.memory, instance)
    }

    fn asked(&self) -> &Asked {
        self
    }
}
