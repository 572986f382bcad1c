//! Deadlines, leases and slices, with rounds of their own.

use super::params::{only_with, param, share};
use crate::schedulers::{self, ElasticFlowParams, GandivaParams, ThemisParams};
use blox_core::registry::{ParamDoc, Registry};
use blox_policies::scheduling::LeaseChoice;

const SLOT: ParamDoc = param("slot_s", "60", "seconds of a slot and round");

pub(super) fn add(r: &mut Registry) {
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
            param("nodes", "10000", "for optimal: nodes that may be searched"),
        ],
        |p, _| {
            let word = p.choice("choice", "greedy", &["greedy", "optimal"])?;
            only_with(p, &["nodes"], word == "optimal", "choice=optimal")?;
            let choice = match word {
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
        "time slices in turn, packing, migration, growing and shrinking",
        &[
            param("slice_s", "60", "seconds of a slice and round"),
            param("packing", "true", "two jobs may run on the same GPUs"),
            param("growing", "true", "jobs grow onto idle GPUs"),
        ],
        |p, _| {
            Ok(schedulers::gandiva_with(GandivaParams {
                slice: p.seconds("slice_s", 60.0)?,
                packing: p.bool("packing", true)?,
                growing: p.bool("growing", true)?,
            }))
        },
    );
    s.add(
        "themis",
        "finish-time fairness by auction, with leases",
        &[
            param("lease_s", "240", "seconds of a lease and round"),
            param("fairness", "0.8", "1 less the part of jobs that bid"),
        ],
        |p, _| {
            let lease = p.seconds("lease_s", 240.0)?;
            let fairness = share(p, "fairness", 0.8)?;
            Ok(schedulers::themis_with(ThemisParams { lease, fairness }))
        },
    );
}
