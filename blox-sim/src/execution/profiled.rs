//! Speed as profiled for each GPU count.

use super::{ExecutionModel, FixedRate};
use blox_core::{Assignment, JobRef, Stateless, View};

/// Every job runs at its profiled rate for its number of GPUs. Between two profiled counts, the
/// rate of the lower count applies. Jobs without a profile run as in [`FixedRate`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Profiled;

impl Stateless for Profiled {}

impl ExecutionModel for Profiled {
    #[inline]
    fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let extras = job.spec().extras();
        if extras.rates.is_empty() {
            return FixedRate.rate(&mut (), view, job, assignment);
        }
        let count = assignment.count();
        if let Some(rate) = job.spec().rate_at(count) {
            return rate;
        }
        let below = extras.levels.iter().rposition(|l| *l < count);
        below
            .and_then(|i| extras.rates.get(i))
            .copied()
            .unwrap_or(0.0)
    }

    fn keeps_plain_rates(&self) -> bool {
        true
    }
}
