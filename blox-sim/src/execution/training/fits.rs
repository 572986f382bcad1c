//! Fits of the parameters of a job's speed.

use blox_core::SortedMap;
use blox_core::ThroughputParams;
use blox_perf::goodput::{StepTime, fit};

/// Fits the parameters of a job's speed.
///
/// ```
/// use blox_core::ThroughputParams;
/// use blox_perf::goodput::{StepTime, fit};
/// use blox_sim::execution::training::Fitter;
///
/// /// Fits the latest ten steps only.
/// struct Latest;
///
/// impl Fitter for Latest {
///     fn fit(&self, observed: &[StepTime]) -> Option<ThroughputParams> {
///         fit(&observed[observed.len().saturating_sub(10)..])
///     }
/// }
///
/// let step = StepTime { nodes: 1, gpus: 1, per_gpu: 32, compute: 0.1, step: 0.1 };
/// assert!(Latest.fit(&[step]).is_some());
/// ```
pub trait Fitter: Send + Sync {
    /// Fits the steps observed on one GPU type, in the order of their first measurement. Equal
    /// steps must give equal parameters.
    fn fit(&self, observed: &[StepTime]) -> Option<ThroughputParams>;
}

/// Fits by [`fit`](blox_perf::goodput::fit()).
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastSquares;

impl Fitter for LeastSquares {
    fn fit(&self, observed: &[StepTime]) -> Option<ThroughputParams> {
        fit(observed)
    }
}

/// A cache of fits. About half of all profiles equal a profile of an earlier job, since jobs of an
/// application begin alike. No decision depends on this cache.
#[derive(Clone, Default)]
pub(super) struct KnownFits {
    /// Paths of profiles, starting at 0: maps a number and a step to the next number.
    paths: SortedMap<(usize, [u64; 5]), usize>,
    /// Results by number; `None` if not computed yet.
    found: Vec<Option<Option<ThroughputParams>>>,
}

impl KnownFits {
    /// Returns the result of `fitter`, which must be the same in every call.
    pub fn fit(&mut self, fitter: &dyn Fitter, observed: &[StepTime]) -> Option<ThroughputParams> {
        if self.found.is_empty() {
            self.found.push(None);
        }
        let mut at = 0;
        for o in observed {
            let counts = [o.nodes, o.gpus, o.per_gpu].map(u64::from);
            let [nodes, gpus, per_gpu] = counts;
            let step = [nodes, gpus, per_gpu, o.compute.to_bits(), o.step.to_bits()];
            let next = self.found.len();
            at = *self.paths.entry((at, step)).or_insert(next);
            if at == next {
                self.found.push(None);
            }
        }
        *self.found[at].get_or_insert_with(|| fitter.fit(observed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Counts its calls.
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicU32>);

    impl Fitter for Counting {
        fn fit(&self, observed: &[StepTime]) -> Option<ThroughputParams> {
            self.0.fetch_add(1, Ordering::Relaxed);
            LeastSquares.fit(observed)
        }
    }

    #[test]
    fn equal_profiles_are_fitted_once() {
        let step = |gpus, step| StepTime {
            nodes: 1,
            gpus,
            per_gpu: 32,
            compute: 0.2,
            step,
        };
        let counting = Counting::default();
        let mut known = KnownFits::default();
        let profiles = [
            vec![step(1, 0.2)],
            vec![step(1, 0.2), step(2, 0.25)],
            vec![step(2, 0.25), step(1, 0.2)],
            vec![step(1, 0.2), step(2, 0.26)],
            Vec::new(),
        ];
        for _ in 0..2 {
            for profile in &profiles {
                assert_eq!(known.fit(&counting, profile), fit(profile));
            }
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), 5);
    }
}
