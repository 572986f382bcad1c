//! Registry entries of Tiresias and its components.

use super::params::{MODEL, NO_EASY, ORIGIN, SIGMA, belief, only_with, param, share, walk};
use crate::estimate::Belief;
use crate::schedulers;
use blox_core::Seconds;
use blox_core::estimate::Oracle;
use blox_core::perf::SkewTable;
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_policies::placement::{Balanced, Profiled, Random, TensorSkew};
use blox_policies::scheduling::{ServiceHistory, TwoDas};
use blox_traces::formats::tiresias::read_samples;

const THRESHOLDS: ParamDoc = param(
    "thresholds",
    "3250",
    "GPU-seconds between the queues, such as 3250/7200",
);
/// The parameter of [`promote`].
pub const PROMOTE: ParamDoc = param(
    "promote",
    "none",
    "a job that waited so many times as long as it ran returns to the first queue",
);
const HISTORY: ParamDoc = param(
    "history",
    "none",
    "a file of past GPU-seconds, column `duration`: 2D-Gittins instead of 2D-LAS",
);
const ESTIMATOR: ParamDoc = param(
    "estimator",
    "none",
    "2D-Gittins by believed durations: oracle, user, noisy, brought, learned; `history` then holds true / believed",
);
const PACK_LIMIT: ParamDoc = param(
    "pack_limit",
    "0.3",
    "share of a model's largest tensor above which its jobs are consolidated",
);

pub(super) fn add(r: &mut Registry) {
    r.schedulers.add(
        "tiresias",
        "queues by attained GPU-seconds, preemptive; skewed models are consolidated",
        &[
            THRESHOLDS, PROMOTE, HISTORY, ESTIMATOR, SIGMA, MODEL, ORIGIN, PACK_LIMIT,
        ],
        |p, seed| {
            schedulers::tiresias_with(schedulers::TiresiasParams {
                thresholds: thresholds(p)?,
                promote: promote(p)?,
                history: history(p)?,
                belief: believed(p, seed)?,
                skew: skew(p)?,
            })
        },
    );
    r.scheduling.add(
        "2das",
        "queues by attained GPU-seconds, preemptive: 2D-LAS or 2D-Gittins",
        &[THRESHOLDS, PROMOTE, HISTORY],
        |p, _| {
            let thresholds = thresholds(p)?;
            let policy = match history(p)? {
                Some(history) => TwoDas::gittins(&thresholds, history)?,
                None => TwoDas::las(&thresholds)?,
            };
            Ok(std::sync::Arc::new(policy.promoting(promote(p)?)?))
        },
    );
    r.placement.add(
        "profiled",
        "jobs of skewed models consolidated on whole nodes, others on what is left over",
        &[PACK_LIMIT, NO_EASY],
        |p, _| walk(Profiled::by(skew(p)?), p, Oracle, false),
    );
    r.placement.add(
        "balanced",
        "each GPU where most are free",
        &[NO_EASY],
        |p, _| walk(Balanced, p, Oracle, false),
    );
    r.placement.add(
        "random",
        "any free GPUs, by chance",
        &[NO_EASY],
        |p, seed| walk(Random::new(seed), p, Oracle, false),
    );
}

fn believed(p: &Params, seed: u64) -> Result<Option<Belief>, RegistryError> {
    match p.names().any(|n| n == "estimator") {
        true if p.text("estimator", "none") != "none" => belief(p, seed).map(Some),
        _ => {
            let chosen = "estimator=noisy or learned";
            only_with(p, &["sigma", "model", "origin"], false, chosen)?;
            Ok(None)
        }
    }
}

/// Reads the parameter `thresholds`: service between the queues, in GPU-seconds.
///
/// # Errors
/// The value contains anything but finite numbers with `/` between them.
pub fn thresholds(p: &Params) -> Result<Vec<Seconds>, RegistryError> {
    // A single threshold is a number; several are a text.
    if let Ok(one) = p.f64("thresholds", 3250.0) {
        return Ok(vec![Seconds::new(one)]);
    }
    let numbers = p
        .text("thresholds", "")
        .split('/')
        .map(|t| t.trim().parse::<f64>());
    let numbers: Result<Vec<f64>, _> = numbers.collect();
    let numbers = numbers.ok().filter(|n| n.iter().all(|t| t.is_finite()));
    let expected = "ascending numbers of GPU-seconds with / between them";
    let numbers = numbers.ok_or_else(|| p.wrong("thresholds", expected))?;
    Ok(numbers.into_iter().map(Seconds::new).collect())
}

/// Reads the parameter `promote`: a waiting time in multiples of the job's running time.
///
/// # Errors
/// The value is neither a number above 0 nor `none`.
pub fn promote(p: &Params) -> Result<Option<f64>, RegistryError> {
    if p.text("promote", "none") == "none" {
        return Ok(None);
    }
    let knob = p.number("promote", 0.0, "a number above 0, or none", |k| k > 0.0);
    knob.map(Some)
}

fn history(p: &Params) -> Result<Option<ServiceHistory>, RegistryError> {
    let path = p.text("history", "none");
    if path == "none" {
        return Ok(None);
    }
    let wrong = |why: String| p.wrong("history", format!("a file of past GPU-seconds ({why})"));
    let samples = read_samples(path).map_err(|e| wrong(e.to_string()))?;
    let samples = samples.into_iter().map(|s| Seconds::new(f64::from(s)));
    let history = ServiceHistory::of(samples);
    history.map(Some).ok_or_else(|| wrong("no samples".into()))
}

fn skew(p: &Params) -> Result<TensorSkew, RegistryError> {
    let limit = share(p, "pack_limit", TensorSkew::LIMIT)?;
    Ok(TensorSkew::new(SkewTable::image_models(), limit))
}
