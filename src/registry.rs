//! Everything that ships, by name.

mod compositions;

use crate::schedulers::{ElasticFlowParams, JobOrder, PolluxParams, SiaParams};
use crate::{compat, schedulers};
use blox_core::estimate::{Estimator, Oracle, UserEstimate};
use blox_core::perf::SkewTable;
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Pipeline, PlacementPolicy, SchedulingPolicy, Seconds};
use blox_policies::admission::{AcceptAll, LoadThreshold, Quota, QuotaBy};
use blox_policies::cluster::{Quarantine, StaticCluster};
use blox_policies::compat::blox::Scattered;
use blox_policies::compat::tiresias::DlasQueues;
use blox_policies::placement::{
    Allocation, Balanced, Bandwidth, Blocked, Buddy, Consolidated, EasyBackfill, FirstFree,
    Profiled, Random, Rule, Split, Synergy, TensorSkew, Walk,
};
use blox_policies::scheduling::{
    Drf, Fifo, FinishTimeFairness, Las, LeaseChoice, PolluxSettings, Service, ServiceHistory, Sjf,
    Srsf, Srtf, StarvationGuard, Tetris, TwoDas,
};
use blox_sim::compat::tiresias::read_samples;

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
const ALLOCATION: ParamDoc = param(
    "allocation",
    "tune",
    "CPUs and memory: tune (by need), proportional, greedy (all or nothing)",
);
const ORDER: ParamDoc = param(
    "order",
    "fifo",
    "which jobs first: fifo, srtf, las, ftf, drf, tetris, srsf",
);
const WHERE: ParamDoc = param(
    "placement",
    "consolidated",
    "on which GPUs: consolidated, first-free",
);
const SPLIT: ParamDoc = param(
    "split",
    "span",
    "a job that fits on no single node: span, whole-nodes, never",
);

const SLOT: ParamDoc = param("slot_s", "60", "seconds of a slot and round");

/// All schedulers, policies and placements that ship. Add your own to it and
/// hand it to the command line.
pub fn registry() -> Registry {
    let mut r = Registry::new();
    schedulers(&mut r);
    compositions::add(&mut r);
    parts(&mut r);
    r
}

fn schedulers(r: &mut Registry) {
    tiresias(r);
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
    elastic(r);
    let s = &mut r.schedulers;
    s.add(
        "synergy",
        "CPUs and memory by what they are worth to each job, GPUs in an order of choice",
        &[ALLOCATION, ORDER, WHERE, GUARD],
        |p, _| {
            Ok(schedulers::synergy_with(schedulers::SynergyParams {
                allocation: allocation(p)?,
                order: job_order(p)?,
                placement: match p.choice(
                    "placement",
                    "consolidated",
                    &["consolidated", "first-free"],
                )? {
                    "first-free" => schedulers::Where::FirstFree,
                    _ => schedulers::Where::Consolidated,
                },
                guard: p.hours("guard_h", 1000.0)?,
            }))
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

const THRESHOLDS: ParamDoc = param(
    "thresholds",
    "3250",
    "GPU-seconds between the queues, such as 3250/7200",
);
const PROMOTE: ParamDoc = param(
    "promote",
    "none",
    "a job that waited so many times as long as it ran returns to the first queue",
);
const HISTORY: ParamDoc = param(
    "history",
    "none",
    "a file of past GPU-seconds, column `duration`: 2D-Gittins instead of 2D-LAS",
);
const PACK_LIMIT: ParamDoc = param(
    "pack_limit",
    "0.3",
    "share of a model's largest tensor above which its jobs are consolidated",
);

fn tiresias(r: &mut Registry) {
    r.schedulers.add(
        "tiresias",
        "queues by attained GPU-seconds, preemptive; skewed models are consolidated",
        &[THRESHOLDS, PROMOTE, HISTORY, PACK_LIMIT],
        |p, _| {
            schedulers::tiresias_with(schedulers::TiresiasParams {
                thresholds: thresholds(p)?,
                promote: promote(p)?,
                history: history(p)?,
                skew: skew(p)?,
            })
        },
    );
    r.schedulers.add(
        "tiresias-dlas-gpu",
        "dlas-gpu as Tiresias' released simulator has it, decided at events",
        &[
            param("thresholds", "3250/7200", "GPU-seconds between the queues"),
            PROMOTE,
        ],
        |p, _| {
            let limits = match p.names().any(|n| n == "thresholds") {
                true => thresholds(p)?.iter().map(|t| t.secs()).collect(),
                false => DlasQueues::LIMITS.to_vec(),
            };
            let mut policy = DlasQueues::new(limits, true);
            if let Some(knob) = promote(p)? {
                policy = policy.promoting(knob);
            }
            Ok(compat::tiresias::counted("dlas-gpu", policy))
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
            Ok(Box::new(policy.promoting(promote(p)?)?))
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

/// Deadlines, leases and slices, with rounds of their own.
fn elastic(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add(
        "elasticflow",
        "deadlines guaranteed at admission, GPU counts that follow",
        &[
            SLOT,
            param(
                "expand",
                "true",
                "left-over GPUs go to jobs that need no more",
            ),
        ],
        |p, _| {
            Ok(schedulers::elasticflow_with(ElasticFlowParams {
                slot: p.seconds("slot_s", 60.0)?,
                expand: p.bool("expand", true)?,
            }))
        },
    );
    s.add(
        "ef",
        "elasticflow without admission control",
        &[SLOT],
        |p, _| Ok(schedulers::ef_with(p.seconds("slot_s", 60.0)?)),
    );
    s.add(
        "edf",
        "earliest deadline first, on all GPUs that a job can use",
        &[SLOT],
        |p, _| Ok(schedulers::edf_with(p.seconds("slot_s", 60.0)?)),
    );
    s.add(
        "edf-admission",
        "earliest deadline first, only jobs that can end in time",
        &[SLOT],
        |p, _| Ok(schedulers::edf_admission_with(p.seconds("slot_s", 60.0)?)),
    );
    s.add(
        "chronus",
        "leases for jobs with deadlines, the rest for best-effort jobs",
        &[
            param("lease_s", "240", "seconds of a lease and round"),
            param(
                "choice",
                "greedy",
                "among jobs that come in together: greedy, optimal",
            ),
            param("nodes", "10000", "nodes that an optimal choice may search"),
        ],
        |p, _| {
            let choice = match p.choice("choice", "greedy", &["greedy", "optimal"])? {
                "optimal" => LeaseChoice::Optimal {
                    nodes: p.u64("nodes", 10_000)?,
                },
                _ => LeaseChoice::Greedy,
            };
            Ok(schedulers::chronus_with(
                p.seconds("lease_s", 240.0)?,
                choice,
            ))
        },
    );
    s.add(
        "gandiva",
        "time slices in turn",
        &[param("slice_s", "60", "seconds of a slice and round")],
        |p, _| Ok(schedulers::gandiva_with(p.seconds("slice_s", 60.0)?)),
    );
    s.add(
        "themis",
        "finish-time fairness with leases",
        &[param("lease_s", "240", "seconds of a lease and round")],
        |p, _| Ok(schedulers::themis_with(p.seconds("lease_s", 240.0)?)),
    );
    s.add(
        "sia",
        "the best assignment of training jobs to types and numbers of GPUs",
        &[
            param("power", "-0.5", "the fairness power, not 0"),
            param("leaving_out", "1.1", "what leaving a job out costs"),
            param("round_s", "60", "seconds of a round"),
        ],
        |p, _| {
            Ok(schedulers::sia_with(SiaParams {
                power: p.f64("power", -0.5)?,
                leaving_out: p.f64("leaving_out", 1.1)?,
                round: p.seconds("round_s", 60.0)?,
            }))
        },
    );
    s.add(
        "pollux",
        "a genetic search for the allocation of the best mean speedup",
        &[
            param("power", "-1", "the fairness power, not 0"),
            param("population", "100", "allocations kept"),
            param("generations", "100", "generations in a round, at most"),
            param("patience", "20", "generations without a better one"),
            param("round_s", "60", "seconds of a round"),
        ],
        |p, seed| {
            Ok(schedulers::pollux_with(PolluxParams {
                search: PolluxSettings {
                    power: p.f64("power", -1.0)?,
                    population: p.u64("population", 100)?.clamp(2, 10_000) as usize,
                    generations: p.u64("generations", 100)? as usize,
                    patience: p.u64("patience", 20)? as usize,
                    seed,
                },
                round: p.seconds("round_s", 60.0)?,
                autoscale: None,
            }))
        },
    );
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
    s.add(
        "srsf",
        "in order of remaining GPU time, preemptive",
        &[ESTIMATOR],
        |p, _| match estimator(p)? {
            "user" => Ok(Box::new(Srsf::with(UserEstimate)) as Box<dyn SchedulingPolicy>),
            _ => Ok(Box::new(Srsf::default())),
        },
    );
    s.add(
        "ftf",
        "in order of finish-time fairness, the most slowed down first, preemptive",
        &[ESTIMATOR],
        |p, _| match estimator(p)? {
            "user" => {
                Ok(Box::new(FinishTimeFairness::with(UserEstimate)) as Box<dyn SchedulingPolicy>)
            }
            _ => Ok(Box::new(FinishTimeFairness::default())),
        },
    );
    s.add(
        "drf",
        "in order of the dominant share of what jobs ask for, preemptive",
        &[],
        |_, _| Ok(Box::new(Drf)),
    );
    s.add(
        "tetris",
        "in order of remaining time on all resources, preemptive",
        &[ESTIMATOR],
        |p, _| match estimator(p)? {
            "user" => Ok(Box::new(Tetris::with(UserEstimate)) as Box<dyn SchedulingPolicy>),
            _ => Ok(Box::new(Tetris::default())),
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
        "synergy",
        "GPUs, CPUs and memory together, each round from an empty cluster; consolidated",
        &[ALLOCATION, SPLIT],
        |p, _| {
            let rule = Synergy::new(Consolidated::new(split(p)?));
            Ok(Box::new(rule.with(allocation(p)?)))
        },
    );
    s.add(
        "buddy",
        "powers of two on a node or whole nodes, with migration",
        &[],
        |_, _| Ok(Box::new(Buddy)),
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

fn allocation(p: &Params) -> Result<Allocation, RegistryError> {
    let words = ["tune", "proportional", "greedy"];
    Ok(match p.choice("allocation", "tune", &words)? {
        "proportional" => Allocation::Proportional,
        "greedy" => Allocation::Greedy,
        _ => Allocation::Tune,
    })
}

fn job_order(p: &Params) -> Result<JobOrder, RegistryError> {
    let words = ["fifo", "srtf", "las", "ftf", "drf", "tetris", "srsf"];
    Ok(match p.choice("order", "fifo", &words)? {
        "srtf" => JobOrder::Srtf,
        "las" => JobOrder::Las,
        "ftf" => JobOrder::Ftf,
        "drf" => JobOrder::Drf,
        "tetris" => JobOrder::Tetris,
        "srsf" => JobOrder::Srsf,
        _ => JobOrder::Fifo,
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

fn thresholds(p: &Params) -> Result<Vec<Seconds>, RegistryError> {
    // One is a number, several are a text.
    if let Ok(one) = p.f64("thresholds", 3250.0) {
        return Ok(vec![Seconds::new(one)]);
    }
    let text = p.text("thresholds", "")?;
    let numbers = text.split('/').map(|t| t.trim().parse::<f64>());
    let numbers: Result<Vec<f64>, _> = numbers.collect();
    let numbers = numbers.ok().filter(|n| n.iter().all(|t| t.is_finite()));
    let numbers = numbers.ok_or_else(|| RegistryError::BadValue {
        param: "thresholds".into(),
        found: text,
        expected: "ascending numbers of GPU-seconds with / between them".into(),
    })?;
    Ok(numbers.into_iter().map(Seconds::new).collect())
}

fn promote(p: &Params) -> Result<Option<f64>, RegistryError> {
    match p.text("promote", "none") {
        Ok(word) if word == "none" => Ok(None),
        Ok(found) => Err(RegistryError::BadValue {
            param: "promote".into(),
            found,
            expected: "a number above 0, or none".into(),
        }),
        Err(_) => p.f64("promote", 0.0).map(Some),
    }
}

fn history(p: &Params) -> Result<Option<ServiceHistory>, RegistryError> {
    let path = p.text("history", "none")?;
    if path == "none" {
        return Ok(None);
    }
    let wrong = |why: String| RegistryError::BadValue {
        param: "history".into(),
        found: path.clone(),
        expected: format!("a file of past GPU-seconds ({why})"),
    };
    let samples = read_samples(&path).map_err(|e| wrong(e.to_string()))?;
    let samples = samples.into_iter().map(|s| Seconds::new(f64::from(s)));
    let history = ServiceHistory::of(samples);
    history.map(Some).ok_or_else(|| wrong("no samples".into()))
}

fn skew(p: &Params) -> Result<TensorSkew, RegistryError> {
    let limit = p.f64("pack_limit", TensorSkew::LIMIT)?;
    if !(0.0..=1.0).contains(&limit) {
        return Err(RegistryError::BadValue {
            param: "pack_limit".into(),
            found: limit.to_string(),
            expected: "a number from 0 to 1".into(),
        });
    }
    Ok(TensorSkew::new(SkewTable::image_models(), limit))
}
