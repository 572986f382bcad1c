//! Shares on types on which a job does not run.

use blox_core::forward_policy;
use blox_policies::scheduling::gavel::{Allocation, Instance, SharePolicy, Usage};
use blox_solve::SolveError;

/// Policy that also has shares on types on which a job or pair does not run.
///
/// Quirk: the program has variables for these types. They use time and GPUs without any gain, so
/// they do not change the optimal objective. They move the centre of all solutions, and the rounds
/// skip them.
#[derive(Clone, Debug)]
pub struct OnEveryType<P> {
    policy: P,
}

impl<P: SharePolicy> OnEveryType<P> {
    /// Wraps a policy.
    pub fn new(policy: P) -> Self {
        OnEveryType { policy }
    }
}

forward_policy!(OnEveryType<P: SharePolicy>, policy);

impl<P: SharePolicy> SharePolicy for OnEveryType<P> {
    fn allocate(
        &self,
        memory: &mut P::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        let mut everywhere = instance.clone();
        for rate in everywhere.jobs.iter_mut().flat_map(|j| &mut j.rates) {
            *rate = rate.max(f64::MIN_POSITIVE);
        }
        let pairs = everywhere.pairs.iter_mut().flat_map(|p| &mut p.rates);
        for rates in pairs.filter(|rates| rates.iter().any(|rate| *rate <= 0.0)) {
            *rates = [f64::MIN_POSITIVE; 2];
        }
        self.policy.allocate(memory, &everywhere)
    }

    fn usage(&self) -> Usage {
        Usage {
            least_gain: 0.0,
            ..self.policy.usage()
        }
    }

    fn objective(
        &self,
        memory: &P::Memory,
        instance: &Instance,
        allocation: &Allocation,
    ) -> Option<f64> {
        self.policy.objective(memory, instance, allocation)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, Shares};
    use super::*;
    use blox_core::JobId;
    use blox_policies::scheduling::gavel::shares::{Knowledge, MaxMinFairness};
    use blox_policies::scheduling::gavel::{Combination, Entrant, Pair, PerType, TypePool};

    fn job(id: u32, rates: &[f64]) -> Entrant {
        Entrant {
            id: JobId(id),
            gpus: 1,
            weight: 1.0,
            user: None,
            age: 0.0,
            left: 1.0,
            due: None,
            rates: PerType::from_slice(rates),
        }
    }

    fn pool(name: &str, gpus: u32) -> TypePool {
        TypePool {
            name: name.into(),
            gpus,
            price: 1.0,
        }
    }

    #[test]
    fn measure_is_equal_with_useless_shares_included() {
        let instance = Instance {
            types: vec![pool("k80", 2), pool("v100", 2)],
            jobs: vec![job(0, &[0.0, 1.0]), job(1, &[1.0, 1.0])],
            pairs: Vec::new(),
        };
        let plain = Asked::new(MaxMinFairness::default(), 0);
        let everywhere = Asked::new(OnEveryType::new(MaxMinFairness::default()), 0);
        let [a, b] = [plain, everywhere].map(|mut policy| {
            let allocation = policy.allocate(&instance).unwrap();
            let measure = policy.objective(&instance, &allocation).unwrap();
            let x = allocation.get(Combination::single(JobId(0))).unwrap();
            (measure, x[0])
        });
        assert!((a.0 - b.0).abs() < 1e-7, "{a:?} {b:?}");
        assert_eq!(a.1, 0.0);
        assert!(b.1 >= 0.0);
    }

    #[test]
    fn a_pair_that_cannot_run_has_a_share_as_well() {
        let instance = Instance {
            types: vec![pool("v100", 1)],
            jobs: vec![job(0, &[1.0]), job(1, &[1.0])],
            pairs: vec![Pair {
                jobs: [0, 1],
                rates: vec![[0.0, 0.5]].into(),
            }],
        };
        let policy = || MaxMinFairness::new(Knowledge::Pairs);
        let pair = Combination::pair(JobId(0), JobId(1));
        let plain = Asked::new(policy(), 0).allocate(&instance).unwrap();
        let share = |a: &Allocation| a.get(pair).map_or(0.0, |x| x[0]);
        assert_eq!(share(&plain), 0.0);
        let mut everywhere = Asked::new(OnEveryType::new(policy()), 0);
        let everywhere = everywhere.allocate(&instance).unwrap();
        // The pair's share reduces the shares of single jobs, within the set of optimal solutions.
        assert!(share(&everywhere) > 0.0, "{everywhere:?}");
    }
}
