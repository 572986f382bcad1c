//! Quasi-shortest service first.

use blox_core::{
    Outlook, Part, Requests, SchedulingPolicy, View,
    estimate::{Estimator, Oracle},
    order::SortKey,
    policy::{ByKey, by_key},
};

/// Jobs in ascending order of the GPU time that they are believed to need, duration
/// times GPUs; what runs is never stopped (Helios, SC 2021, section 4.2). Jobs about which
/// nothing is known come last. Ties are broken by the job's number.
#[derive(Clone)]
pub struct Qssf(ByKey);

impl Default for Qssf {
    fn default() -> Self {
        Qssf::with(Oracle)
    }
}

impl Qssf {
    /// With an estimator, taken as it is: it is not told what happens, since
    /// beliefs about a waiting job must not change.
    pub fn with(estimator: impl Estimator + Sync + 'static) -> Self {
        Qssf(
            by_key(move |job| {
                let gpus = f64::from(job.gpus().get());
                SortKey::by(
                    estimator
                        .duration(job)
                        .map_or(f64::MAX, |d| d.secs() * gpus),
                )
            })
            .stable(),
        )
    }
}

impl Part for Qssf {
    fn observes_launches(&self) -> bool {
        false
    }
}

impl SchedulingPolicy for Qssf {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        self.0.schedule(view, out)
    }
}
