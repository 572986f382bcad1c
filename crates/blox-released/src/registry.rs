//! Compositions of released programs, by name.

use crate::blox;
use crate::lucid::{self, Placer};
use crate::sia;
use crate::tiresias::{self, quirks::DlasQueues};
use blox_components::parameters::{PROMOTE, param, promote, thresholds};
use blox_core::Pipeline;
use blox_core::estimate::{ESTIMATE, check_estimate};
use blox_perf::applications::built_in;
use blox_registry::{DefaultValue, JobData, ParamDoc, Registry, without_default};
use blox_sim::execution::Training;
use blox_sim::execution::training::Profiles;
use blox_sim::registry::World;

const PLACER: ParamDoc = param(
    "placer",
    "consolidate",
    "selection of free GPUs: consolidate, random, consolidateFirst",
);

/// Estimates, which give the order of jobs.
const ESTIMATES: JobData = JobData {
    name: "an estimate (`attributes.estimate_s`)",
    has: |job| job.extras().attributes.contains_key(ESTIMATE),
    without: "jobs of one GPU come first, then all others in order of submission",
    check: check_estimate,
};

type Baseline = fn(Placer) -> Pipeline;

/// Adds the compositions and components of released programs to a registry.
#[must_use]
pub fn register(mut r: Registry) -> Registry {
    r.execution_models_mut().add(
        "blox-optimus",
        "jobs have a speed-up by load, as in Blox's released program under Optimus",
        &[without_default("load", "jobs per hour, from 1 to 9")],
        |p, _| {
            let speed = blox::OptimusSpeed::at_load(p.f64("load").unwrap_or(f64::NAN));
            let expected = "a whole number from 1 to 9: the execution model `blox-optimus` takes \
                            the speed of jobs from a table of loads";
            Ok(Box::new(speed.ok_or_else(|| p.wrong("load", expected))?))
        },
    );
    let s = &mut r.schedulers;
    let without_types: [(_, _, fn() -> Pipeline); 5] = [
        (
            "blox-fifo",
            "FIFO of Blox's released program, without GPU types",
            blox::fifo,
        ),
        (
            "blox-las",
            "LAS of Blox's released program, without GPU types",
            blox::las,
        ),
        (
            "blox-srtf",
            "SRTF of Blox's released program, without GPU types",
            blox::srtf,
        ),
        (
            "blox-tiresias",
            "Tiresias of Blox's released program, without GPU types: its LAS",
            blox::tiresias,
        ),
        (
            "blox-optimus",
            "Optimus of Blox's released program, without GPU types: its SRTF on jobs with a speed-up by load",
            blox::optimus,
        ),
    ];
    for (name, about, compose) in without_types {
        let added = s.add(name, about, &[], move |_, _| Ok(compose()));
        if name == "blox-optimus" {
            added.with_execution(name);
        }
    }
    s.add(
        "tiresias-dlas-gpu",
        "`dlas-gpu` of Tiresias' released simulator, decided at events",
        &[
            ParamDoc {
                name: "thresholds",
                default: DefaultValue::Numbers(&DlasQueues::LIMITS),
                about: "limits of the queues in GPU-seconds",
            },
            PROMOTE,
        ],
        |p, _| {
            let thresholds = thresholds(p)?;
            let limits: Vec<f64> = thresholds.iter().map(|t| t.secs()).collect();
            let mut policy = DlasQueues::new(limits, true);
            if let Some(knob) = promote(p)? {
                policy = policy.promoting(knob);
            }
            // In the original, a job that can never run waits forever.
            Ok(tiresias::counted("dlas-gpu", policy).awaiting_growth(false))
        },
    );
    let baselines: [(_, _, Baseline); 3] = [
        (
            "lucid-fifo",
            "FIFO of Lucid's released simulator",
            lucid::fifo,
        ),
        ("lucid-sjf", "SJF of Lucid's released simulator", lucid::sjf),
        (
            "lucid-qssf",
            "QSSF of Lucid's released simulator, by the jobs' estimates",
            lucid::qssf,
        ),
    ];
    for (name, about, compose) in baselines {
        let added = s.add(name, about, &[PLACER], move |p, _| {
            let names = Placer::NAMES.map(|(name, _)| name);
            let chosen = p.choice("placer", &names)?;
            let placer = Placer::NAMES.iter().find(|(name, _)| *name == chosen);
            Ok(compose(placer.map_or(Placer::default(), |(_, p)| *p)))
        });
        if name == "lucid-qssf" {
            added.with_job_data(ESTIMATES);
        }
    }
    r.placement.add(
        "blox-scattered",
        "placement of Blox's released program, with its exact-count rule",
        &[],
        |_, _| Ok(std::sync::Arc::new(blox::quirks::Scattered)),
    );
    r
}

/// Adds baselines of publications that run only the workloads of their own program: `sia-pollux` with
/// its execution model `sia-unaware`. The claims of papers compare with them.
#[must_use]
pub fn register_baselines(mut r: Registry) -> Registry {
    r.execution_models_mut().add(
        "sia-unaware",
        "as-specified, but training jobs have one profile for all GPU types",
        &[],
        |_, _| Ok(Box::new(Training::of(built_in()).profiles(Profiles::OfAll))),
    );
    r.schedulers
        .add(
            "sia-pollux",
            "Pollux of Sia's released simulator, which does not distinguish GPU types",
            &[param("round_s", "60", "seconds of a round")],
            |p, _| Ok(sia::blind::pollux(p.seconds("round_s")?)),
        )
        .with_execution("sia-unaware");
    r
}
