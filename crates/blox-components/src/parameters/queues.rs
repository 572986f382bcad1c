//! Parameters of queues by attained service, and of consolidation by tensor sizes.

use super::{MODEL, ORIGIN, SIGMA, belief, only_with, share};
use blox_core::Seconds;
use blox_core::estimate::Estimator;
use blox_perf::SkewTable;
use blox_policies::placement::TensorSkew;
use blox_policies::scheduling::{ServiceHistory, TwoDas};
use blox_registry::{ParamDoc, Params, RegistryError, numeric, param};
use blox_traces::formats::tiresias::read_samples;
use std::sync::Arc;

/// The parameter of [`thresholds`].
pub const THRESHOLDS: ParamDoc = param(
    "thresholds",
    "3250",
    "limits of the queues in GPU-seconds, such as 3250/7200",
);
/// The parameter of [`promote`].
pub const PROMOTE: ParamDoc = param(
    "promote",
    "none",
    "a job returns to the first queue when waiting / running time reaches this ratio; none disables it",
);
/// The parameter of [`history`].
pub const HISTORY: ParamDoc = param(
    "history",
    "none",
    "file with a column `duration` of past GPU-seconds; selects 2D-Gittins instead of 2D-LAS",
);
/// The parameter of [`believed`]. [`SIGMA`], [`MODEL`] and [`ORIGIN`] belong to it.
pub const GITTINS: ParamDoc = param(
    "estimator",
    "none",
    "2D-Gittins by believed durations: oracle, user, noisy, brought, learned; `history` then holds true / believed durations",
);
/// The parameter of [`skew`].
pub const PACK_LIMIT: ParamDoc = numeric(
    "pack_limit",
    TensorSkew::LIMIT,
    "jobs of a model are consolidated if its largest tensor exceeds this fraction of the model",
);

/// Reads the parameter `thresholds`: service between the queues, in GPU-seconds.
///
/// # Errors
/// The value contains anything but finite numbers with `/` between them, or they do not ascend from
/// above 0.
pub fn thresholds(p: &Params) -> Result<Vec<Seconds>, RegistryError> {
    let numbers = p.text(THRESHOLDS.name).split('/');
    let numbers = numbers.map(|text| Seconds::try_new(text.trim().parse().ok()?));
    let thresholds: Option<Vec<Seconds>> = numbers.collect();
    let expected = "ascending numbers of GPU-seconds with / between them";
    let thresholds = thresholds.ok_or_else(|| p.wrong(THRESHOLDS.name, expected))?;
    let seconds: Vec<f64> = thresholds.iter().map(|t| t.secs()).collect();
    let ascend = TwoDas::las(&thresholds).map(|_| thresholds);
    ascend.ok_or_else(|| RegistryError::BadValue {
        param: THRESHOLDS.name.to_owned(),
        found: format!("{seconds:?}"),
        expected: "ascending numbers of GPU-seconds above 0".to_owned(),
    })
}

/// Reads the parameter `promote`: a waiting time in multiples of the job's running time.
///
/// # Errors
/// The value is neither a number above 0 nor `none`.
pub fn promote(p: &Params) -> Result<Option<f64>, RegistryError> {
    if p.text(PROMOTE.name) == PROMOTE.default {
        return Ok(None);
    }
    let knob = p.number(PROMOTE.name, "a number above 0, or none", |k| k > 0.0);
    knob.map(Some)
}

/// Reads the parameter `history`: a file of the GPU-seconds of past jobs.
pub fn history(p: &Params) -> Result<Option<ServiceHistory>, RegistryError> {
    let path = p.text(HISTORY.name);
    if path == HISTORY.default {
        return Ok(None);
    }
    let wrong = |why: String| p.wrong(HISTORY.name, format!("a file of past GPU-seconds ({why})"));
    let samples = read_samples(path).map_err(|e| wrong(e.to_string()))?;
    let samples = samples.into_iter().map(|s| Seconds::new(f64::from(s)));
    let history = ServiceHistory::of(samples);
    history.map(Some).ok_or_else(|| wrong("no samples".into()))
}

/// Reads the parameter [`GITTINS`]: the estimator of 2D-Gittins, if any.
pub fn believed(p: &Params, seed: u64) -> Result<Option<Arc<dyn Estimator>>, RegistryError> {
    if p.text(GITTINS.name) != GITTINS.default {
        return belief(p, seed).map(Some);
    }
    let names = [SIGMA, MODEL, ORIGIN].map(|doc| doc.name);
    only_with(p, &names, false, "estimator=noisy or learned")?;
    Ok(None)
}

/// Reads the parameters [`THRESHOLDS`], [`PROMOTE`] and [`HISTORY`]: returns 2D-LAS, or 2D-Gittins
/// with a history or an estimator.
pub fn two_das(p: &Params, belief: Option<Arc<dyn Estimator>>) -> Result<TwoDas, RegistryError> {
    let (thresholds, knob) = (thresholds(p)?, promote(p)?);
    let policy = match (belief, history(p)?) {
        (Some(belief), errors) => {
            let errors = errors.unwrap_or_else(ServiceHistory::exact);
            TwoDas::gittins_by(&thresholds, belief, errors)
        }
        (None, Some(history)) => TwoDas::gittins(&thresholds, history),
        (None, None) => TwoDas::las(&thresholds),
    };
    let policy = policy.and_then(|policy| policy.promoting(knob));
    policy.ok_or_else(|| p.wrong(THRESHOLDS.name, "ascending numbers of GPU-seconds above 0"))
}

/// Reads the parameter `pack_limit`: the limit of [`TensorSkew`].
pub fn skew(p: &Params) -> Result<TensorSkew, RegistryError> {
    let limit = share(p, PACK_LIMIT.name)?;
    Ok(TensorSkew::new(SkewTable::image_models(), limit))
}
