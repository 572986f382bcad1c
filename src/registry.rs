//! Everything that ships, by name.

use crate::{compat, schedulers};
use blox_core::estimate::{Estimator, Oracle, UserEstimate};
use blox_core::forecast::Horizon;
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{GpuCount, Pipeline, PlacementPolicy, Rounds, SchedulingPolicy, Seconds};
use blox_policies::admission::{AcceptAll, LoadThreshold, Quota, QuotaBy};
use blox_policies::cluster::{Quarantine, StaticCluster};
use blox_policies::compat::blox::Scattered;
use blox_policies::placement::{
    Bandwidth, Blocked, Consolidated, EasyBackfill, FirstFree, Rule, Split, Walk,
};
use blox_policies::scheduling::{Fifo, Las, Service, Sjf, Srtf, StarvationGuard};

const fn param(name: &'static str, default: &'static str, about: &'static str) -> ParamDoc {
    ParamDoc {
        name,
        default,
        about,
    }
}

const BACKFILL: ParamDoc = param(
    "backfill",
    "none",
    "what passes a job that does not fit: none, skip, easy",
);
const NO_EASY: ParamDoc = param(
    "backfill",
    "none",
    "what passes a job that does not fit: none, skip",
);
const ESTIMATOR: ParamDoc = param("estimator", "oracle", "durations: oracle, user");
const GPU_TIME: ParamDoc = param("gpu_time", "false", "count GPU-seconds instead of seconds");
const GUARD: ParamDoc = param(
    "guard_h",
    "1000",
    "hours of waiting after which a job comes before all others",
);
const SPLIT: ParamDoc = param(
    "split",
    "span",
    "a job that fits on no single node: span, whole-nodes, never",
);

const TOLERANCE: ParamDoc = param(
    "tolerance",
    "0.001",
    "share of the largest loss below which a step of the loss is flat",
);
const REPORTS: ParamDoc = param("reports", "3", "flat steps in a row that end a job");

/// All schedulers, policies and placements that ship. Add your own to it and
/// hand it to the command line.
pub fn registry() -> Registry {
    let mut r = Registry::new();
    schedulers(&mut r);
    blox_compositions(&mut r);
    parts(&mut r);
    r
}

/// The compositions of Blox's paper.
fn blox_compositions(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add(
        "loss-termination",
        "first in, first out; jobs end when their loss has converged",
        &[TOLERANCE, REPORTS],
        |p, _| {
            Ok(schedulers::loss_termination_with(
                schedulers::LossTerminationParams {
                    tolerance: above_zero(p, "tolerance", 0.001)?,
                    reports: p.u64("reports", 3)?.max(1) as usize,
                },
            ))
        },
    );
    s.add(
        "bandwidth-placement",
        "first in, first out on the GPUs that are linked best",
        &[],
        |_, _| Ok(schedulers::bandwidth_placement()),
    );
    s.add(
        "optimus",
        "GPUs where they shorten training most, from fitted losses and speeds",
        &[
            param(
                "most_gpus",
                "16",
                "most GPUs of a job that does not say at which numbers it may run",
            ),
            TOLERANCE,
            REPORTS,
        ],
        |p, _| {
            Ok(schedulers::optimus_with(schedulers::OptimusParams {
                most: GpuCount(p.u64("most_gpus", 16)?.clamp(1, 1 << 20) as u32),
                tolerance: above_zero(p, "tolerance", 0.001)?,
                reports: p.u64("reports", 3)?.max(1) as usize,
                ..schedulers::OptimusParams::default()
            }))
        },
    );
    s.add(
        "load-admission",
        "Las behind admission by load (Blox: Accept-1.2x)",
        &[
            param("threshold", "1.2", "multiple of the cluster's GPUs"),
            GUARD,
        ],
        |p, _| {
            schedulers::load_admission_with(p.f64("threshold", 1.2)?, p.hours("guard_h", 1000.0)?)
        },
    );
    s.add(
        "synthesizer",
        "the best of Las, Fifo and Srtf with and without admission by load, by looking ahead",
        &[
            param("every_rounds", "10", "rounds from one choice to the next"),
            param(
                "horizon_h",
                "4",
                "hours to look ahead; 0 until all jobs have ended",
            ),
            param("round_s", "300", "rounds in seconds, of the look-ahead too"),
            param("srtf", "true", "whether Srtf is among the candidates"),
        ],
        |p, _| {
            let round_s = above_zero(p, "round_s", 300.0)?;
            let round = Rounds::every(Seconds::new(round_s)).unwrap_or_default();
            let hours = p.f64("horizon_h", 4.0)?;
            if hours < 0.0 {
                return Err(RegistryError::BadValue {
                    param: "horizon_h".to_owned(),
                    found: hours.to_string(),
                    expected: "a number of hours, at least 0".to_owned(),
                });
            }
            Ok(schedulers::synthesizer_with(
                schedulers::SynthesizerParams {
                    every: Seconds::new(round_s) * p.u64("every_rounds", 10)? as f64,
                    horizon: match hours {
                        0.0 => Horizon::UntilDrained,
                        h => Horizon::For(Seconds::from_hours(h)),
                    },
                    round,
                    srtf: p.bool("srtf", true)?,
                },
            ))
        },
    );
}

fn schedulers(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add("fifo", "first in, first out", &[BACKFILL], |p, _| {
        backfilled(schedulers::fifo(), p, Oracle, true)
    });
    s.add(
        "sjf",
        "shortest job first, never stopped",
        &[ESTIMATOR, BACKFILL],
        |p, _| match estimator(p)? {
            "user" => {
                let base = blox_core::Composition::new("sjf")
                    .scheduling(Sjf::with(UserEstimate))
                    .placement(Walk::new(Consolidated::default()))
                    .build();
                backfilled(base, p, UserEstimate, true)
            }
            _ => backfilled(schedulers::sjf(), p, Oracle, true),
        },
    );
    s.add(
        "srtf",
        "shortest remaining time first, preemptive, with a starvation guard",
        &[ESTIMATOR, GUARD, NO_EASY],
        |p, _| {
            let policy = match estimator(p)? {
                "user" => Srtf::with(UserEstimate),
                _ => Srtf::default(),
            };
            let base = schedulers::srtf_with(policy, p.hours("guard_h", 1000.0)?);
            backfilled(base, p, Oracle, false)
        },
    );
    s.add(
        "las",
        "least attained service, preemptive, with a starvation guard",
        &[GPU_TIME, GUARD, NO_EASY],
        |p, _| {
            let params = schedulers::LasParams {
                service: service(p)?,
                guard: p.hours("guard_h", 1000.0)?,
            };
            backfilled(schedulers::las_with(params), p, Oracle, false)
        },
    );
    s.add(
        "blox-fifo",
        "Fifo as Blox's released program has it",
        &[],
        |_, _| Ok(compat::blox::fifo()),
    );
    s.add(
        "blox-las",
        "Las as Blox's released program has it",
        &[],
        |_, _| Ok(compat::blox::las()),
    );
    s.add(
        "blox-srtf",
        "Srtf as Blox's released program has it",
        &[],
        |_, _| Ok(compat::blox::srtf()),
    );
    s.add(
        "blox-tiresias",
        "Tiresias as Blox's released program has it: its Las",
        &[],
        |_, _| Ok(compat::blox::tiresias()),
    );
    s.add(
        "blox-optimus",
        "Optimus as Blox's released program has it: its Srtf on jobs sped up by a table of loads",
        &[],
        |_, _| Ok(compat::blox::optimus()),
    );
}

fn above_zero(p: &Params, name: &str, default: f64) -> Result<f64, RegistryError> {
    let found = p.f64(name, default)?;
    if found > 0.0 {
        return Ok(found);
    }
    Err(RegistryError::BadValue {
        param: name.to_owned(),
        found: found.to_string(),
        expected: "a number above 0".to_owned(),
    })
}

fn parts(r: &mut Registry) {
    r.admission
        .add("accept-all", "everything may enter", &[], |_, _| {
            Ok(Box::new(AcceptAll))
        });
    r.admission.add(
        "load",
        "while admitted jobs ask for at most threshold x GPUs (Blox: Accept-1.2x)",
        &[param("threshold", "1.2", "multiple of the cluster's GPUs")],
        |p, _| Ok(Box::new(LoadThreshold::new(p.f64("threshold", 1.2)?)?)),
    );
    r.admission.add(
        "quota",
        "while a user or virtual cluster asks for at most so many GPUs",
        &[
            param("gpus", "32", "GPUs for each"),
            param("by", "user", "whose: user, virtual-cluster"),
        ],
        |p, _| {
            let by = match p.choice("by", "user", &["user", "virtual-cluster"])? {
                "user" => QuotaBy::User,
                _ => QuotaBy::VirtualCluster,
            };
            let gpus = u32::try_from(p.u64("gpus", 32)?).unwrap_or(u32::MAX);
            Ok(Box::new(Quota::new(by, gpus)))
        },
    );
    r.cluster
        .add("static", "nodes are as they are", &[], |_, _| {
            Ok(Box::new(StaticCluster))
        });
    r.cluster.add(
        "quarantine",
        "nodes that are lost again and again take nothing new for a time",
        &[
            param(
                "window_h",
                "1",
                "losses within this many hours count together",
            ),
            param(
                "first_s",
                "60",
                "first quarantine in seconds, doubled each time",
            ),
            param("most_s", "1800", "longest quarantine in seconds"),
        ],
        |p, _| {
            Ok(Box::new(Quarantine::new(
                p.hours("window_h", 1.0)?,
                Seconds::new(p.f64("first_s", 60.0)?.max(0.0)),
                Seconds::new(p.f64("most_s", 1800.0)?.max(0.0)),
            )))
        },
    );
    let s = &mut r.scheduling;
    s.add("fifo", "in order of submission", &[], |_, _| {
        Ok(Box::new(Fifo::default()))
    });
    s.add(
        "sjf",
        "in order of duration",
        &[ESTIMATOR],
        |p, _| match estimator(p)? {
            "user" => Ok(Box::new(Sjf::with(UserEstimate)) as Box<dyn SchedulingPolicy>),
            _ => Ok(Box::new(Sjf::default())),
        },
    );
    s.add(
        "srtf",
        "in order of remaining time, preemptive",
        &[ESTIMATOR],
        |p, _| match estimator(p)? {
            "user" => Ok(Box::new(Srtf::with(UserEstimate)) as Box<dyn SchedulingPolicy>),
            _ => Ok(Box::new(Srtf::default())),
        },
    );
    s.add(
        "las",
        "in order of attained service, preemptive, with a starvation guard",
        &[GPU_TIME, GUARD],
        |p, _| {
            Ok(Box::new(StarvationGuard::new(
                Las::by(service(p)?),
                p.hours("guard_h", 1000.0)?,
            )))
        },
    );
    let s = &mut r.placement;
    s.add(
        "first-free",
        "the first free GPUs, however they are spread",
        &[NO_EASY],
        |p, _| walk(FirstFree, p, Oracle, false),
    );
    s.add(
        "consolidated",
        "exact fit, best fit, else as few nodes as possible",
        &[SPLIT, BACKFILL],
        |p, _| walk(Consolidated::new(split(p)?), p, Oracle, true),
    );
    s.add(
        "bandwidth",
        "the GPUs of a node that are linked best (Blox: Bebop), else as few nodes as possible",
        &[BACKFILL],
        |p, _| walk(Bandwidth::default(), p, Oracle, true),
    );
    s.add(
        "blox-scattered",
        "as Blox's released program places, with its exact-count rule",
        &[],
        |_, _| Ok(Box::new(Scattered)),
    );
}

fn backfilled(
    base: Pipeline,
    p: &Params,
    estimator: impl Estimator + 'static,
    easy: bool,
) -> Result<Pipeline, RegistryError> {
    Ok(base.with_placement(walk(Consolidated::default(), p, estimator, easy)?))
}

fn walk(
    rule: impl Rule,
    p: &Params,
    estimator: impl Estimator + 'static,
    easy: bool,
) -> Result<Box<dyn PlacementPolicy>, RegistryError> {
    let words: &[&'static str] = if easy {
        &["none", "skip", "easy"]
    } else {
        &["none", "skip"]
    };
    Ok(match p.choice("backfill", "none", words)? {
        "easy" => Box::new(EasyBackfill::with(rule, estimator)),
        "skip" => Box::new(Walk::new(rule).when_blocked(Blocked::Skip)),
        _ => Box::new(Walk::new(rule)),
    })
}

fn estimator(p: &Params) -> Result<&'static str, RegistryError> {
    p.choice("estimator", "oracle", &["oracle", "user"])
}

fn service(p: &Params) -> Result<Service, RegistryError> {
    Ok(if p.bool("gpu_time", false)? {
        Service::GpuTime
    } else {
        Service::Time
    })
}

fn split(p: &Params) -> Result<Split, RegistryError> {
    Ok(
        match p.choice("split", "span", &["span", "whole-nodes", "never"])? {
            "never" => Split::Never,
            "whole-nodes" => Split::WholeNodes,
            _ => Split::Span,
        },
    )
}
