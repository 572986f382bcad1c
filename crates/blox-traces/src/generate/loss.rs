//! Generated losses for the jobs of any workload.

use crate::draws::Draws;
use crate::edited::{Edit, Edited};
use blox_core::{Extras, LossCurve, LossReports};
use blox_workloads::Workload;

/// Epochs of each job.
const EPOCHS: f64 = 100.0;
/// A curve is flat once the loss falls by less than this in an epoch.
const FLAT: f64 = 0.001;
/// Losses fall from 1 towards this value.
const FLOOR: f64 = 0.1;

/// Adds a loss report after each of 100 epochs to the jobs of another workload.
///
/// Losses fall as in Optimus ([`LossCurve`]) from 1 towards 0.1. A curve is flat once the loss
/// falls by less than a thousandth in an epoch. For three quarters of the jobs it is flat after 40
/// % of their epochs. For the others, the point is uniformly distributed between 40 % and 100 %.
/// (Jeon et al., ATC 2019: three quarters of the jobs on Microsoft's cluster came within 0.1 % of
/// their lowest loss in 40 % of their epochs.) Jobs that already report a loss are unchanged.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_workloads::{Jobs, Workload};
/// use blox_traces::generate::with_losses;
/// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::from_hours(10.0));
/// let mut jobs = with_losses(Jobs::new(vec![job]), 1);
/// let first = jobs.next_job()?.unwrap();
/// assert_eq!(first.extras().loss.map(|l| l.epoch), Some(360.0));
/// # Ok::<(), blox_workloads::WorkloadError>(())
/// ```
pub fn with_losses<W: Workload>(jobs: W, seed: u64) -> Edited<W> {
    let label = format!("{}, with made-up losses", jobs.describe());
    let mut rng = Draws::new(seed, OF_LOSSES);
    Edited::new(jobs, label, move |job| {
        let (early, share) = (rng.unit() < 0.75, rng.unit());
        let epoch = job.work.iterations / EPOCHS;
        if epoch <= 0.0 || job.extras().loss.is_some() {
            return Edit::Keep(job);
        }
        let share = if early { 0.4 } else { 0.4 + 0.6 * share };
        let mut extras: Extras = job.extras().clone();
        extras.loss = Some(LossReports {
            curve: flat_from(share * EPOCHS),
            epoch,
        });
        Edit::Keep(job.with_extras(extras))
    })
}

/// Purpose of the random stream for losses.
const OF_LOSSES: u64 = 0x6c6f_7373;

/// Returns the curve from 1 towards the floor that is flat from epoch `k` on.
fn flat_from(k: f64) -> LossCurve {
    let b1 = 1.0 / (1.0 - FLOOR);
    // b0 / (b0 k + b1)^2 = FLAT has two solutions; the larger falls faster at first and flattens
    // then.
    let p = 1.0 - 2.0 * FLAT * k * b1;
    let root = (p * p - 4.0 * FLAT * FLAT * k * k * b1 * b1)
        .max(0.0)
        .sqrt();
    LossCurve {
        b0: (p + root) / (2.0 * FLAT * k * k),
        b1,
        b2: FLOOR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuCount, JobSpec, Seconds, Time};
    use blox_workloads::{Jobs, collect};

    #[test]
    fn curves_are_flat_from_where_they_should_be() {
        for k in [1.0, 40.0, 70.0, 100.0] {
            let curve = flat_from(k);
            assert!((curve.at(0.0) - 1.0).abs() < 1e-12, "{k}");
            let fall = |k: f64| curve.b0 / (curve.b0 * k + curve.b1).powi(2);
            assert!((fall(k) - FLAT).abs() < 1e-9, "{k}: {}", fall(k));
            assert!(curve.is_sound() && fall(k + 1.0) < FLAT, "{k}");
        }
    }

    #[test]
    fn three_quarters_of_losses_are_flat_after_40_epochs() {
        let job =
            |i: u32| JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(100.0 + f64::from(i)));
        let made = |seed| {
            let jobs = Jobs::new((0..1000).map(job).collect());
            collect(&mut with_losses(jobs, seed)).unwrap()
        };
        let first = made(1);
        assert_eq!(first, made(1));
        assert_ne!(first, made(2));
        let early = flat_from(40.0);
        let curve = |j: &JobSpec| j.extras().loss.map(|l| l.curve);
        let n = first.iter().filter(|j| curve(j) == Some(early)).count();
        assert!((700..800).contains(&n), "{n}");
        assert_eq!(first[7].work, job(7).work);
        assert_eq!(first[7].extras().loss.map(|l| l.epoch), Some(1.07));
    }
}
