use crate::ONCE;
use crate::loss_termination::{REPORTS, TOLERANCE};
use crate::registry::params::{count, default, param, part};
use blox_core::registry::ParamDoc;
use blox_core::registry::Registry;
use blox_core::{Composition, GpuCount, Pipeline, Rounds, Seconds};
use blox_policies::{
    placement::{Consolidated, Resizing},
    scheduling::{LossTermination, Optimus},
};

const MOST_GPUS: ParamDoc = param(
    "most_gpus",
    "16",
    "most GPUs of a job that does not say at which numbers it may run",
);

/// What can be chosen about [`optimus`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimusParams {
    /// Time from one division of the cluster to the next.
    pub every: Rounds,
    /// GPUs that a job without `levels` gets at most, at least 1.
    pub most: GpuCount,
    /// A step of the loss is flat if it falls by less than this share of the
    /// largest loss reported; above 0.
    pub tolerance: f64,
    /// Flat steps in a row after which a job ends, at least 1.
    pub reports: usize,
}

impl Default for OptimusParams {
    fn default() -> Self {
        OptimusParams {
            every: Rounds::every(Seconds::new(600.0)).unwrap_or_default(),
            most: GpuCount(default(&MOST_GPUS) as u32),
            tolerance: default(&TOLERANCE),
            reports: default(&REPORTS) as usize,
        }
    }
}

/// Optimus (Peng et al., EuroSys 2018).
///
/// **Rule.** Every 10 minutes GPUs go where they shorten training most: each job
/// gets its smallest number, then again and again the job gets more whose time to
/// the end shrinks most a GPU. How much is left follows from a curve fitted to the
/// loss that it reported, how fast it is on more GPUs from a model fitted to the
/// speeds seen; see [`Optimus`]. A job ends when its loss has converged. Jobs are
/// placed smallest first on as few nodes as possible, and change size while they run.
///
/// Here a worker is a GPU, and gradients are exchanged among workers or with as many
/// parameter servers. Jobs that report no loss are taken to run to their declared
/// end; before a job was seen to run, its speed is taken to be in proportion to its
/// GPUs.
///
/// **Parameters** (command line): `most_gpus`, for a job that does not say at which
/// numbers it may run (default 16); `tolerance`, the share of the largest loss below
/// which a step is flat (default 0.001); `reports`, how many flat ones end a job
/// (default 3).
///
/// **Verified.** By tests of its own alone: no released program has the paper's rule.
///
/// The released program of Blox has another rule under this name:
/// `blox_released::blox::optimus`.
pub fn optimus() -> Pipeline {
    optimus_with(OptimusParams::default())
}

/// [`optimus`] with other parameters.
pub fn optimus_with(params: OptimusParams) -> Pipeline {
    let policy = Optimus::default()
        .at_most(params.most)
        .tolerance(params.tolerance);
    Composition::new("optimus")
        .cadence(params.every)
        .scheduling(
            LossTermination::new(policy)
                .tolerance(params.tolerance)
                .reports(params.reports),
        )
        .placement(Resizing::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

/// Its entry in the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "optimus",
        "GPUs where they shorten training most, from fitted losses and speeds",
        &[MOST_GPUS, TOLERANCE, REPORTS],
        |p, _| {
            Ok(optimus_with(OptimusParams {
                most: GpuCount(count(p, &MOST_GPUS)? as u32),
                tolerance: part(p, TOLERANCE.name, default(&TOLERANCE))?,
                reports: count(p, &REPORTS)? as usize,
                ..OptimusParams::default()
            }))
        },
    );
}
