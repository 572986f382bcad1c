//! Schedulers of training jobs that say how fast they learn.

use super::params::{at_least, not_zero, param};
use crate::schedulers::{self, PolluxParams, SiaParams};
use blox_core::registry::Registry;
use blox_policies::scheduling::PolluxSettings;

pub(super) fn add(r: &mut Registry) {
    let s = &mut r.schedulers;
    s.add(
        "sia",
        "the best assignment of training jobs to types and numbers of GPUs",
        &[
            param("power", "-0.5", "the fairness power, not 0"),
            param(
                "leaving_out",
                "1.1",
                "what leaving a job out costs, at least 0",
            ),
            param("round_s", "60", "seconds of a round"),
        ],
        |p, _| {
            Ok(schedulers::sia_with(SiaParams {
                power: not_zero(p, "power", -0.5)?,
                leaving_out: at_least(p, "leaving_out", 1.1, 0.0)?,
                round: p.seconds("round_s", 60.0)?,
            }))
        },
    );
    s.add(
        "pollux",
        "a genetic search for the allocation of the best mean speedup",
        &[
            param("power", "-1", "the fairness power, not 0"),
            param("population", "100", "allocations kept, from 2 to 10000"),
            param("generations", "100", "generations in a round, at most"),
            param("patience", "20", "generations without a better one"),
            param("round_s", "60", "seconds of a round"),
        ],
        |p, _| {
            Ok(schedulers::pollux_with(PolluxParams {
                search: PolluxSettings {
                    power: not_zero(p, "power", -1.0)?,
                    population: p.whole("population", 100, 2..=10_000)? as usize,
                    generations: p.u64("generations", 100)? as usize,
                    patience: p.u64("patience", 20)? as usize,
                },
                round: p.seconds("round_s", 60.0)?,
                autoscale: None,
            }))
        },
    );
}
