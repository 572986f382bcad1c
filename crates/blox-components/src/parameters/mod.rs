//! Imports for the file of a scheduler: descriptions of parameters that several schedulers have, and
//! readers of their values.
//!
//! A description is a [`ParamDoc`]: name, default and meaning. A reader takes the [`Params`] of a
//! command line, in which a parameter that is not set has its default. It fails with a message if
//! the value does not have the described form.

mod job_data;
mod queues;
mod shares;

pub use blox_registry::{ParamDoc, Params, Registry, RegistryError, numeric, param};
pub use job_data::*;
pub use queues::*;
pub use shares::*;

use crate::estimate::{Learned, Saved};
use blox_core::estimate::{Estimator, Oracle, UserEstimate};
use blox_core::{AnyPlacement, Gpus, Pipeline, Scheduler};
use blox_policies::admission::LoadThreshold;
use blox_policies::estimate::{Brought, NoisyOracle};
use blox_policies::placement::{Allocation, Blocked, EasyBackfill, InOrder, NodeSelector, Split};
use blox_policies::scheduling::{LeaseChoice, Service};
use std::path::Path;
use std::sync::Arc;

/// The parameter of [`backfilled`].
pub const BACKFILL: ParamDoc = param(
    "backfill",
    "none",
    "jobs that may pass a blocked job: none, skip (all), easy (those that do not delay it)",
);
/// The parameter of [`skipping`].
pub const NO_EASY: ParamDoc = param(
    "backfill",
    "none",
    "jobs that may pass a blocked job: none, skip (all)",
);
/// The parameter of [`belief`]. [`SIGMA`], [`MODEL`] and [`ORIGIN`] belong to it.
pub const ESTIMATOR: ParamDoc = param(
    "estimator",
    "oracle",
    "source of believed durations: oracle, user, noisy, brought (attribute estimate_s), learned",
);
/// Error of estimates that are noisy.
pub const SIGMA: ParamDoc = param(
    "sigma",
    "0.5",
    "for noisy: standard deviation of the logarithm of the error",
);
/// File of a trained model.
pub const MODEL: ParamDoc = param(
    "model",
    "none",
    "for learned: model file of `blox estimate train`",
);
/// Date at which the clock of the workload shows 0.
pub const ORIGIN: ParamDoc = param(
    "origin",
    "1970-01-01",
    "for learned: date of time 0 of the workload",
);
/// The parameter of [`service`].
pub const GPU_TIME: ParamDoc = param("gpu_time", "false", "count GPU-seconds instead of seconds");
/// Limit of a starvation guard.
pub const GUARD: ParamDoc = param(
    "guard_h",
    "1000",
    "hours of waiting after which a job gets the highest priority",
);
/// The parameter of [`at_load`].
pub const THRESHOLD: ParamDoc = param("threshold", "1.2", "multiple of the cluster's GPUs");
/// The first parameter of [`flat`].
pub const TOLERANCE: ParamDoc = param(
    "tolerance",
    "0.001",
    "a loss is flat if it changes by less than this fraction of the largest loss",
);
/// The second parameter of [`flat`].
pub const REPORTS: ParamDoc = param("reports", "3", "consecutive flat losses that end a job");
/// Length of a slot of planners by deadline.
pub const SLOT: ParamDoc = param("slot_s", "60", "seconds of a slot and round");
/// The parameter of [`lease_choice`]. [`SEARCH_NODES`] belongs to it.
pub const CHOICE: ParamDoc = param(
    "choice",
    "greedy",
    "choice among jobs submitted together: greedy, or optimal in builds with the feature microlp",
);
/// Limit of the search of [`lease_choice`].
pub const SEARCH_NODES: ParamDoc = param(
    "nodes",
    "10000",
    "for optimal: most nodes of the search tree",
);
/// The parameter of [`allocation`].
pub const ALLOCATION: ParamDoc = param(
    "allocation",
    "tune",
    "CPUs and memory: tune (by need), proportional, greedy (all or nothing)",
);
/// The parameter of [`split`].
pub const SPLIT: ParamDoc = param(
    "split",
    "span",
    "placement of a job larger than a node: span, whole-nodes, never",
);

/// Reads the parameter [`BACKFILL`]: returns the placement by a rule. The estimator is for `easy`.
pub fn backfilled(
    rule: impl NodeSelector + Send + Sync + 'static,
    p: &Params,
    estimator: impl Estimator + 'static,
) -> Result<Arc<dyn AnyPlacement>, RegistryError> {
    Ok(match p.choice(BACKFILL.name, &["none", "skip", "easy"])? {
        "easy" => Arc::new(EasyBackfill::with(rule, estimator)),
        "skip" => Arc::new(InOrder::new(rule).when_blocked(Blocked::Skip)),
        _ => Arc::new(InOrder::new(rule)),
    })
}

/// Reads the parameter [`NO_EASY`]: returns the placement by a rule.
pub fn skipping(
    rule: impl NodeSelector + Send + Sync + 'static,
    p: &Params,
) -> Result<Arc<dyn AnyPlacement>, RegistryError> {
    let words = [("none", Blocked::Stop), ("skip", Blocked::Skip)];
    let blocked = chosen(p, NO_EASY.name, &words)?;
    Ok(Arc::new(InOrder::new(rule).when_blocked(blocked)))
}

/// Reads the parameter [`ESTIMATOR`]: returns the estimator of durations.
pub fn belief(p: &Params, seed: u64) -> Result<Arc<dyn Estimator>, RegistryError> {
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
        "user" => Arc::new(UserEstimate),
        "noisy" => Arc::new(NoisyOracle::new(at_least(p, SIGMA.name, 0.0)?, seed)),
        "brought" => Arc::new(Brought::default()),
        "learned" => {
            let path = p.text(MODEL.name);
            if path == MODEL.default {
                return Err(p.wrong(MODEL.name, "a file that `blox estimate train` saved"));
            }
            let saved = Saved::load(Path::new(path))
                .map_err(|e| p.wrong(MODEL.name, format!("a trained model ({e})")))?;
            let dated = saved.recipe.date.is_some() && !saved.seconds;
            if dated && p.names().all(|name| name != ORIGIN.name) {
                let expected = "the date of time 0 of the workload, since the model uses dates";
                return Err(p.wrong(ORIGIN.name, expected));
            }
            let since = blox_traces::parse_date(p.text(ORIGIN.name))
                .ok_or_else(|| p.wrong(ORIGIN.name, "a date such as 2020-09-01"))?;
            let learned = Learned::new(saved, since)
                .map_err(|e| p.wrong(MODEL.name, format!("a model of durations ({e})")))?;
            Arc::new(learned)
        }
        _ => Arc::new(Oracle),
    })
}

/// Reads the parameter [`GPU_TIME`]: returns the measure of service.
pub fn service(p: &Params) -> Result<Service, RegistryError> {
    Ok(match p.bool(GPU_TIME.name)? {
        true => Service::GpuTime,
        false => Service::Time,
    })
}

/// Reads the parameter [`THRESHOLD`]: returns admission by load.
pub fn at_load(p: &Params) -> Result<LoadThreshold, RegistryError> {
    let threshold = p.f64(THRESHOLD.name)?;
    let admission = LoadThreshold::new(threshold);
    admission.ok_or_else(|| p.wrong(THRESHOLD.name, "a number above 0"))
}

/// Returns a composition behind admission by load. Its name has the threshold.
///
/// # Panics
/// The threshold is not above 0, or the admission of the composition also takes other roles.
pub fn behind_load(base: &Pipeline, threshold: f64) -> Pipeline {
    let name = format!("{}+load-{threshold}", base.name());
    let admission = LoadThreshold::new(threshold).expect("a threshold above 0");
    let behind = base.clone().with_admission(admission);
    behind.expect("each role is taken once").renamed(name)
}

/// Reads the parameters [`TOLERANCE`] and [`REPORTS`]: which losses of a job are flat, and how many
/// of them end it.
pub fn flat(p: &Params) -> Result<(f64, usize), RegistryError> {
    Ok((part(p, TOLERANCE.name)?, count(p, REPORTS.name)? as usize))
}

/// Reads the parameters [`CHOICE`] and [`SEARCH_NODES`]: the choice among jobs submitted together.
pub fn lease_choice(p: &Params) -> Result<LeaseChoice, RegistryError> {
    let word = p.choice(CHOICE.name, &["greedy", "optimal"])?;
    let nodes = [SEARCH_NODES.name];
    only_with(p, &nodes, word == "optimal", "choice=optimal")?;
    match word {
        "optimal" => optimal(p),
        _ => Ok(LeaseChoice::Greedy),
    }
}

#[cfg(feature = "microlp")]
fn optimal(p: &Params) -> Result<LeaseChoice, RegistryError> {
    let limit = Some(p.u64(SEARCH_NODES.name)?);
    let solver = blox_microlp::BranchAndBound { limit };
    Ok(LeaseChoice::Optimal(Arc::new(solver)))
}

#[cfg(not(feature = "microlp"))]
fn optimal(p: &Params) -> Result<LeaseChoice, RegistryError> {
    let expected = "greedy, or a build with `--features microlp`";
    Err(p.wrong(CHOICE.name, expected))
}

/// Reads the parameter [`ALLOCATION`] of CPUs and memory.
pub fn allocation(p: &Params) -> Result<Allocation, RegistryError> {
    let words = [
        ("tune", Allocation::Tune),
        ("proportional", Allocation::Proportional),
        ("greedy", Allocation::Greedy),
    ];
    chosen(p, ALLOCATION.name, &words)
}

/// Reads the parameter [`SPLIT`]: the placement of a job larger than a node.
pub fn split(p: &Params) -> Result<Split, RegistryError> {
    let words = [
        ("span", Split::Span),
        ("whole-nodes", Split::WholeNodes),
        ("never", Split::Never),
    ];
    chosen(p, SPLIT.name, &words)
}

/// Reads one of several words, and returns its value.
pub fn chosen<T: Copy>(
    p: &Params,
    name: &str,
    words: &[(&'static str, T)],
) -> Result<T, RegistryError> {
    let names: Vec<&'static str> = words.iter().map(|(word, _)| *word).collect();
    let word = p.choice(name, &names)?;
    let found = words.iter().find(|(known, _)| *known == word);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| p.wrong(name, names.join(", ")))
}

/// Reads a whole number from 1 to 2 to the power 20.
pub fn count(p: &Params, name: &str) -> Result<u64, RegistryError> {
    p.whole(name, 1..=1 << 20)
}

/// Reads a whole number from 0 to 2 to the power 20.
pub fn from_zero(p: &Params, name: &str) -> Result<u64, RegistryError> {
    p.whole(name, 0..=1 << 20)
}

/// Reads a number above 0.
pub fn above_zero(p: &Params, name: &str) -> Result<f64, RegistryError> {
    p.number(name, "a number above 0", |x| x > 0.0)
}

/// Reads a number of at least `least`.
pub fn at_least(p: &Params, name: &str, least: f64) -> Result<f64, RegistryError> {
    let expected = format!("a number of at least {least}");
    p.number(name, &expected, |x| x >= least)
}

/// Reads an amount of GPUs.
pub fn gpus(p: &Params, name: &str) -> Result<Gpus, RegistryError> {
    Gpus::try_from(at_least(p, name, 0.0)?).map_err(|why| p.wrong(name, why))
}

/// Reads a fraction above 0 and at most 1.
pub fn part(p: &Params, name: &str) -> Result<f64, RegistryError> {
    let fits = |x| x > 0.0 && x <= 1.0;
    p.number(name, "a part above 0 and at most 1", fits)
}

/// Reads a fraction from 0 to 1.
pub fn share(p: &Params, name: &str) -> Result<f64, RegistryError> {
    let fits = |x| (0.0..=1.0).contains(&x);
    p.number(name, "a share from 0 to 1", fits)
}

/// Reads a number other than 0.
pub fn not_zero(p: &Params, name: &str) -> Result<f64, RegistryError> {
    p.number(name, "a number other than 0", |x| x != 0.0)
}

/// Rejects parameters without effect: if `given` is false, none of `names` may be set, since they
/// require `what`.
pub fn only_with(p: &Params, names: &[&str], given: bool, what: &str) -> Result<(), RegistryError> {
    let Some(name) = p.names().find(|n| !given && names.contains(n)) else {
        return Ok(());
    };
    Err(p.wrong(name, format!("{what} with it")))
}
