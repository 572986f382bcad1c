//! Finish-time fairness as the released programs compute it.

use blox_core::Policy;
use blox_policies::scheduling::gavel::shares::FinishTimeShares;
use blox_policies::scheduling::gavel::{Allocation, Instance, SharePolicy, Usage};
use blox_solve::SolveError;

/// [`FinishTimeShares`] by programs on one GPU type, too. A job that could have a smaller rho than
/// the largest gets a share near the centre of all optima.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReleasedFinishTime(pub FinishTimeShares);

impl Policy for ReleasedFinishTime {
    type Memory = <FinishTimeShares as Policy>::Memory;

    fn initial(&self, seed: u64) -> Self::Memory {
        self.0.initial(seed)
    }
}

impl SharePolicy for ReleasedFinishTime {
    fn allocate(
        &self,
        memory: &mut Self::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        self.0.by_programs(memory, instance)
    }

    fn usage(&self) -> Usage {
        self.0.usage()
    }

    fn objective(
        &self,
        memory: &Self::Memory,
        instance: &Instance,
        allocation: &Allocation,
    ) -> Option<f64> {
        self.0.objective(memory, instance, allocation)
    }
}
