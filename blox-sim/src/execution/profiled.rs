//! Speed as profiled for each GPU type or GPU count.

use super::{ExecutionModel, FixedRate, by_type};
use crate::sealed::Sealed;
use blox_core::{Assignment, JobRef, Stateless, View};

/// Every job runs at its profiled rate for its number of GPUs. Between two profiled counts, the
/// rate of the lower count applies. Jobs without a profile run as in [`FixedRate`].
///
/// A job with [speeds by GPU type](blox_core::Extras::speeds) runs at its speed on that type, alone
/// or beside another job on the same GPUs. With several other jobs, the parts of its speed alone
/// that it keeps beside each of them are multiplied. If no speed was measured beside another job,
/// the speed of the job alone is reduced as in [`Shared`](super::Shared). Its slowest GPU counts.
/// It does not run on a type that was not measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profiled;

impl Stateless for Profiled {}

impl ExecutionModel for Profiled {
    #[inline]
    fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let extras = job.spec().extras();
        if let Some(speeds) = &extras.speeds {
            return by_type::rate(view, job, assignment, speeds);
        }
        if extras.rates.is_empty() {
            return FixedRate.rate(&mut (), view, job, assignment);
        }
        let count = assignment.count();
        if let Some(rate) = job.rate_at(count) {
            return rate;
        }
        let below = extras.levels.iter().rposition(|l| *l < count);
        below
            .and_then(|i| extras.rates.get(i))
            .copied()
            .unwrap_or(0.0)
    }

    fn keeps_plain_rates(&self, _: Sealed) -> bool {
        true
    }
}
