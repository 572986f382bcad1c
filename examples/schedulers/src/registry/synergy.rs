//! Registry entry of Synergy.

use super::params::{ALLOCATION, GUARD, allocation, param};
use crate::schedulers::{self, JobOrder};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};

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

pub(super) fn add(r: &mut Registry) {
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
