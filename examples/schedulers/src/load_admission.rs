use crate::ONCE;
use crate::registry::params::{GUARD, default, hours, param};
use blox_core::registry::ParamDoc;
use blox_core::registry::{Registry, RegistryError};
use blox_core::{Composition, Pipeline, Scheduler, Seconds};
use blox_policies::{
    admission::LoadThreshold,
    placement::{Consolidated, InOrder},
    scheduling::{Las, StarvationGuard},
};

/// The parameter of admission by load.
pub(crate) const THRESHOLD: ParamDoc = param("threshold", "1.2", "multiple of the cluster's GPUs");

/// Least attained service with admission by load (Blox, EuroSys 2024, figures 12 and 13:
/// "Accept-1.2x").
///
/// **Rule.** Jobs wait for admission, oldest first, while the admitted jobs request more than
/// `threshold` times the GPUs of the cluster. Admitted jobs are scheduled as in
/// [`las`](crate::schedulers::las). Under overload, LAS alone serves all jobs a little, and long
/// jobs hardly end. The admission queue limits the number of jobs that share the cluster.
///
/// **Parameters** (command line): `threshold`, the multiple of the cluster's GPUs (in the paper 1.0
/// to 1.5); `guard_h`, the hours after which an admitted waiting job comes first.
///
/// **Verified.** Measured at 8 jobs an hour on 128 GPUs, for jobs 3000 to 4000 of 30,000 of Blox's
/// workload. The average JCT is 188,995 s without admission. It is 148,047, 155,625, 155,495,
/// 141,318 and 131,468 s at 1.5, 1.4, 1.2, 1.1 and 1.0: the values of the released rules. With 1.2
/// that is 18 % less; the paper reports 15 %.
pub fn load_admission() -> Pipeline {
    load_admission_with(default(&THRESHOLD), Seconds::from_hours(default(&GUARD)))
        .expect("a threshold above 0")
}

/// Returns [`load_admission`] with another threshold.
///
/// # Errors
/// The threshold is not above 0.
pub fn load_admission_with(threshold: f64, guard: Seconds) -> Result<Pipeline, RegistryError> {
    let pipeline = Composition::new("load-admission")
        .admission(at_load(threshold)?)
        .scheduling(StarvationGuard::new(Las::default(), guard))
        .placement(InOrder::new(Consolidated::default()))
        .build()
        .expect(ONCE);
    Ok(pipeline)
}

/// Creates admission by load.
///
/// # Errors
/// The threshold is not above 0.
pub(crate) fn at_load(threshold: f64) -> Result<LoadThreshold, RegistryError> {
    LoadThreshold::new(threshold).ok_or_else(|| RegistryError::BadValue {
        param: THRESHOLD.name.to_owned(),
        found: threshold.to_string(),
        expected: "a number above 0".to_owned(),
    })
}

/// Returns a composition behind admission by load. Its name has the threshold.
pub(crate) fn behind_load(base: &Pipeline, threshold: f64) -> Pipeline {
    let name = format!("{}+load-{threshold}", base.name());
    let admission = LoadThreshold::new(threshold).expect("a threshold above 0");
    let behind = base.clone().with_admission(admission).expect(ONCE);
    behind.renamed(name)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "load-admission",
        "LAS behind admission by load (Accept-1.2x of Blox)",
        &[THRESHOLD, GUARD],
        |p, _| load_admission_with(p.f64(THRESHOLD.name)?, hours(p, &GUARD)?),
    );
}
