//! Compositions of released programs, by name.

use crate::blox;
use crate::lucid::{self, Placer};
use crate::tiresias::{self, quirks::DlasQueues};
use blox_core::Pipeline;
use blox_core::registry::{ParamDoc, Registry};
use blox_policies::scheduling::TwoDas;
use blox_schedulers::registry::{PROMOTE, param, promote, thresholds};
use blox_sim::registry::World;

const PLACER: ParamDoc = param(
    "placer",
    "consolidate",
    "how free GPUs are chosen: consolidate, random, consolidateFirst",
);

type Baseline = fn(Placer) -> Pipeline;

/// Adds the compositions and components of released programs to a registry.
#[must_use]
pub fn register(mut r: Registry) -> Registry {
    r.execution_models_mut().add(
        "blox-optimus",
        "jobs sped up by a table of loads, as in Blox's released program under Optimus",
        &[param("load", "--load", "jobs an hour, from 1 to 9")],
        |p, _| {
            let speed = blox::OptimusSpeed::at_load(p.f64("load", f64::NAN).unwrap_or(f64::NAN));
            let expected = "a whole number from 1 to 9: the scheduler `blox-optimus` takes its \
                            speed from a table of loads";
            Ok(Box::new(speed.ok_or_else(|| p.wrong("load", expected))?))
        },
    );
    let s = &mut r.schedulers;
    s.add(
        "blox-fifo",
        "Fifo as Blox's released program has it, which knows no types of GPU",
        &[],
        |_, _| Ok(blox::fifo()),
    );
    s.add(
        "blox-las",
        "Las as Blox's released program has it, which knows no types of GPU",
        &[],
        |_, _| Ok(blox::las()),
    );
    s.add(
        "blox-srtf",
        "Srtf as Blox's released program has it, which knows no types of GPU",
        &[],
        |_, _| Ok(blox::srtf()),
    );
    s.add(
        "blox-tiresias",
        "Tiresias as Blox's released program has it, which knows no types of GPU: its Las",
        &[],
        |_, _| Ok(blox::tiresias()),
    );
    s.add(
        "blox-optimus",
        "Optimus as Blox's released program has it, which knows no types of GPU: its Srtf on jobs sped up by a \
         table of loads",
        &[],
        |_, _| Ok(blox::optimus()),
    )
    .with_execution("blox-optimus");
    s.add(
        "tiresias-dlas-gpu",
        "dlas-gpu as Tiresias' released simulator has it, decided at events",
        &[
            param("thresholds", "3250/7200", "GPU-seconds between the queues"),
            PROMOTE,
        ],
        |p, _| {
            let limits = match p.names().any(|n| n == "thresholds") {
                true => {
                    let thresholds = thresholds(p)?;
                    // The thresholds must ascend here, too.
                    TwoDas::las(&thresholds)?;
                    thresholds.iter().map(|t| t.secs()).collect()
                }
                false => DlasQueues::LIMITS.to_vec(),
            };
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
            "Fifo of Lucid's released simulator",
            lucid::fifo,
        ),
        (
            "lucid-sjf",
            "Shortest job first of Lucid's released simulator",
            lucid::sjf,
        ),
        (
            "lucid-qssf",
            "Qssf of Lucid's released simulator, by the estimates of the jobs",
            lucid::qssf,
        ),
    ];
    for (name, about, compose) in baselines {
        s.add(name, about, &[PLACER], move |p, _| {
            let names = Placer::NAMES.map(|(name, _)| name);
            let chosen = p.choice("placer", names[0], &names)?;
            let placer = Placer::NAMES.iter().find(|(name, _)| *name == chosen);
            Ok(compose(placer.map_or(Placer::default(), |(_, p)| *p)))
        });
    }
    r.placement.add(
        "blox-scattered",
        "as Blox's released program places, with its exact-count rule",
        &[],
        |_, _| Ok(std::sync::Arc::new(blox::quirks::Scattered)),
    );
    r
}
