//! Blox's own compositions, and Optimus.

use super::params::{GUARD, above_zero, at_least, param, part, share};
use crate::schedulers;
use blox_core::forecast::Horizon;
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{GpuCount, Rounds, Seconds};

const TOLERANCE: ParamDoc = param(
    "tolerance",
    "0.001",
    "share of the largest loss below which a step of the loss is flat",
);
const REPORTS: ParamDoc = param("reports", "3", "flat steps in a row that end a job");

fn reports(p: &Params) -> Result<usize, RegistryError> {
    Ok(p.whole("reports", 3, 1..=1 << 20)? as usize)
}

pub(super) fn add(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add(
        "loss-termination",
        "first in, first out; jobs end when their loss has converged",
        &[TOLERANCE, REPORTS],
        |p, _| {
            Ok(schedulers::loss_termination_with(
                schedulers::LossTerminationParams {
                    tolerance: part(p, "tolerance", 0.001)?,
                    reports: reports(p)?,
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
                most: GpuCount(p.whole("most_gpus", 16, 1..=1 << 20)? as u32),
                tolerance: part(p, "tolerance", 0.001)?,
                reports: reports(p)?,
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
        "tiresias-plus",
        "Tiresias, but each job is consolidated that was measured to need it",
        &[param(
            "limit",
            "0.1",
            "share of a step spent on exchange above which a job is consolidated",
        )],
        |p, _| Ok(schedulers::tiresias_plus_with(share(p, "limit", 0.1)?)),
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
            Ok(schedulers::synthesizer_with(
                schedulers::SynthesizerParams {
                    every: Seconds::new(round_s) * p.whole("every_rounds", 10, 1..=1 << 20)? as f64,
                    horizon: match at_least(p, "horizon_h", 4.0, 0.0)? {
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
