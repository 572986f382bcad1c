//! Common parameters of registry entries, and their parsers.

use crate::DEFAULTS;
use crate::estimate::{Belief, Learned, Saved};
use blox_core::estimate::{Estimator, Oracle, UserEstimate};
pub(crate) use blox_core::registry::numeric;
pub use blox_core::registry::param;
use blox_core::registry::{ParamDoc, Params, RegistryError};
use blox_core::{AnyPlacement, Pipeline, Seconds};
use blox_policies::estimate::{Brought, NoisyOracle};
use blox_policies::placement::{
    Allocation, Blocked, Consolidated, EasyBackfill, InOrder, NodeSelector, Split,
};
use blox_policies::scheduling::Service;
use std::path::Path;
use std::sync::Arc;

pub(crate) const BACKFILL: ParamDoc = param(
    "backfill",
    "none",
    "jobs that may pass a blocked job: none, skip (all), easy (those that do not delay it)",
);
pub(crate) const NO_EASY: ParamDoc = param(
    "backfill",
    "none",
    "jobs that may pass a blocked job: none, skip (all)",
);
pub(crate) const ESTIMATOR: ParamDoc = param(
    "estimator",
    "oracle",
    "source of believed durations: oracle, user, noisy, brought (attribute estimate_s), learned",
);
pub(crate) const SIGMA: ParamDoc = param(
    "sigma",
    "0.5",
    "for noisy: standard deviation of the logarithm of the error",
);
pub(crate) const MODEL: ParamDoc = param(
    "model",
    "none",
    "for learned: model file of `blox estimate train`",
);
pub(crate) const ORIGIN: ParamDoc = param(
    "origin",
    "1970-01-01",
    "for learned: date of time 0 of the workload",
);

pub(crate) const GPU_TIME: ParamDoc =
    param("gpu_time", "false", "count GPU-seconds instead of seconds");
pub(crate) const GUARD: ParamDoc = param(
    "guard_h",
    "1000",
    "hours of waiting after which a job gets the highest priority",
);
pub(crate) const ALLOCATION: ParamDoc = param(
    "allocation",
    "tune",
    "CPUs and memory: tune (by need), proportional, greedy (all or nothing)",
);
pub(crate) const SPLIT: ParamDoc = param(
    "split",
    "span",
    "placement of a job larger than a node: span, whole-nodes, never",
);

pub(crate) fn backfilled(
    base: Pipeline,
    p: &Params,
    estimator: impl Estimator + 'static,
    easy: bool,
) -> Result<Pipeline, RegistryError> {
    let placement = walk(Consolidated::default(), p, estimator, easy)?;
    Ok(base.with_placement(placement)?)
}

pub(crate) fn walk(
    rule: impl NodeSelector + Send + Sync + 'static,
    p: &Params,
    estimator: impl Estimator + 'static,
    easy: bool,
) -> Result<Arc<dyn AnyPlacement>, RegistryError> {
    let words: &[&'static str] = match easy {
        true => &["none", "skip", "easy"],
        false => &["none", "skip"],
    };
    Ok(match p.choice(BACKFILL.name, words)? {
        "easy" => Arc::new(EasyBackfill::with(rule, estimator)),
        "skip" => Arc::new(InOrder::new(rule).when_blocked(Blocked::Skip)),
        _ => Arc::new(InOrder::new(rule)),
    })
}

/// Returns the estimator that the parameters select.
pub(crate) fn belief(p: &Params, seed: u64) -> Result<Belief, RegistryError> {
    let words = ["oracle", "user", "noisy", "brought", "learned"];
    let word = p.choice(ESTIMATOR.name, &words)?;
    only_with(p, &[SIGMA.name], word == "noisy", "estimator=noisy")?;
    only_with(
        p,
        &[MODEL.name, ORIGIN.name],
        word == "learned",
        "estimator=learned",
    )?;
    Ok(match word {
        "user" => Belief::User(UserEstimate),
        "noisy" => {
            let sigma = at_least(p, &SIGMA, 0.0)?;
            Belief::Noisy(NoisyOracle::new(sigma, seed))
        }
        "brought" => Belief::Brought(Brought::default()),
        "learned" => {
            let path = p.text(MODEL.name);
            if path == MODEL.default {
                return Err(p.wrong(MODEL.name, "a file that `blox estimate train` saved"));
            }
            let saved = Saved::load(Path::new(path))
                .map_err(|e| p.wrong(MODEL.name, format!("a trained model ({e})")))?;
            let since = blox_traces::parse_date(p.text(ORIGIN.name))
                .ok_or_else(|| p.wrong(ORIGIN.name, "a date such as 2020-09-01"))?;
            let learned = Learned::new(saved, since)
                .map_err(|e| p.wrong(MODEL.name, format!("a model of single jobs ({e})")))?;
            Belief::Learned(learned)
        }
        _ => Belief::Oracle(Oracle),
    })
}

pub(crate) fn service(p: &Params) -> Result<Service, RegistryError> {
    Ok(if flag(p, &GPU_TIME)? {
        Service::GpuTime
    } else {
        Service::Time
    })
}

pub(crate) fn allocation(p: &Params) -> Result<Allocation, RegistryError> {
    let words = [
        ("tune", Allocation::Tune),
        ("proportional", Allocation::Proportional),
        ("greedy", Allocation::Greedy),
    ];
    chosen(p, &ALLOCATION, &words)
}

pub(crate) fn split(p: &Params) -> Result<Split, RegistryError> {
    let words = [
        ("span", Split::Span),
        ("whole-nodes", Split::WholeNodes),
        ("never", Split::Never),
    ];
    chosen(p, &SPLIT, &words)
}

/// Reads one of several words, and returns its value.
pub(crate) fn chosen<T: Copy>(
    p: &Params,
    doc: &ParamDoc,
    words: &[(&'static str, T)],
) -> Result<T, RegistryError> {
    let names: Vec<&'static str> = words.iter().map(|(word, _)| *word).collect();
    let word = p.choice(doc.name, &names)?;
    let found = words.iter().find(|(name, _)| *name == word);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| p.wrong(doc.name, names.join(", ")))
}

/// Returns the default of a numeric parameter.
///
/// # Panics
/// The default is not a number: a mistake in the description.
pub(crate) fn default(doc: &ParamDoc) -> f64 {
    Params::of(&[*doc]).f64(doc.name).expect(DEFAULTS)
}

/// Reads a number of hours above 0.
pub(crate) fn hours(p: &Params, doc: &ParamDoc) -> Result<Seconds, RegistryError> {
    p.hours(doc.name)
}

/// Reads a number of seconds above 0.
pub(crate) fn seconds(p: &Params, doc: &ParamDoc) -> Result<Seconds, RegistryError> {
    p.seconds(doc.name)
}

/// Reads `true` or `false`.
pub(crate) fn flag(p: &Params, doc: &ParamDoc) -> Result<bool, RegistryError> {
    p.bool(doc.name)
}

/// Reads a whole number from 1 to 2 to the power 20.
pub(crate) fn count(p: &Params, doc: &ParamDoc) -> Result<u64, RegistryError> {
    p.whole(doc.name, 1..=1 << 20)
}

/// Reads a whole number from 0 to 2 to the power 20.
pub(crate) fn from_zero(p: &Params, doc: &ParamDoc) -> Result<u64, RegistryError> {
    p.whole(doc.name, 0..=1 << 20)
}

pub(crate) fn above_zero(p: &Params, doc: &ParamDoc) -> Result<f64, RegistryError> {
    p.number(doc.name, "a number above 0", |x| x > 0.0)
}

/// Reads a number of at least `least`.
pub(crate) fn at_least(p: &Params, doc: &ParamDoc, least: f64) -> Result<f64, RegistryError> {
    let expected = format!("a number of at least {least}");
    p.number(doc.name, &expected, |x| x >= least)
}

/// Reads a fraction above 0 and at most 1.
pub(crate) fn part(p: &Params, doc: &ParamDoc) -> Result<f64, RegistryError> {
    let fits = |x| x > 0.0 && x <= 1.0;
    p.number(doc.name, "a part above 0 and at most 1", fits)
}

/// Reads a fraction from 0 to 1.
pub(crate) fn share(p: &Params, doc: &ParamDoc) -> Result<f64, RegistryError> {
    let fits = |x| (0.0..=1.0).contains(&x);
    p.number(doc.name, "a share from 0 to 1", fits)
}

/// Reads a number other than 0.
pub(crate) fn not_zero(p: &Params, doc: &ParamDoc) -> Result<f64, RegistryError> {
    p.number(doc.name, "a number other than 0", |x| x != 0.0)
}

/// Rejects parameters without effect: if `given` is false, none of `names` may be set, since they
/// require `what`.
pub(crate) fn only_with(
    p: &Params,
    names: &[&str],
    given: bool,
    what: &str,
) -> Result<(), RegistryError> {
    let Some(name) = p.names().find(|n| !given && names.contains(n)) else {
        return Ok(());
    };
    Err(p.wrong(name, format!("{what} with it")))
}
