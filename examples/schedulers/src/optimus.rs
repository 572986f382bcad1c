use crate::loss_termination::{REPORTS, TOLERANCE};
use crate::registry::params::{count, param, part};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, GpuCount, Pipeline, Rounds, Seconds};
use blox_policies::{
    placement::{Consolidated, Resizing},
    scheduling::{LossTermination, Optimus},
};

const MOST_GPUS: ParamDoc = param(
    "most_gpus",
    "16",
    "most GPUs of a job without a list of GPU counts",
);
const PARAMETERS: [ParamDoc; 3] = [MOST_GPUS, TOLERANCE, REPORTS];

/// Configuration of [`optimus`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimusParams {
    /// Time between two divisions of the cluster.
    pub every: Rounds,
    /// Maximum number of GPUs of a job without `levels`, at least 1.
    pub most: GpuCount,
    /// A step of the loss is flat if it falls by less than this fraction of the largest reported
    /// loss; above 0.
    pub tolerance: f64,
    /// Number of consecutive flat steps after which a job ends, at least 1.
    pub reports: usize,
}

impl Default for OptimusParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

/// Optimus (Peng et al., EuroSys 2018).
///
/// **Rule.** Every 10 minutes, GPUs go to the jobs whose training they shorten most. Each job gets
/// its smallest number of GPUs. Then the job whose remaining time shrinks most per GPU repeatedly
/// gets its next number. The remaining work follows from a curve fitted to the reported losses. The
/// speed on more GPUs follows from a model fitted to the measured speeds; see [`Optimus`]. A job
/// ends when its loss has converged. Jobs are placed smallest first on as few nodes as possible,
/// and change size while they run.
///
/// Here a worker is a GPU, and gradients are exchanged among workers or with as many parameter
/// servers. Jobs that report no loss are assumed to run to their declared end. Before a job has
/// run, its speed is assumed to be in proportion to its GPUs.
///
/// **Parameters** (command line): `most_gpus`, for a job without `levels`; `tolerance`, the
/// fraction of the largest loss below which a step is flat; `reports`, the number of flat steps
/// that end a job.
///
/// **Verified.** Only by its own tests: no released program has the paper's rule.
///
/// The released program of Blox has another rule under this name: `blox_released::blox::optimus`.
pub fn optimus() -> Pipeline {
    optimus_with(OptimusParams::default())
}

/// Returns [`optimus`] with other parameters.
pub fn optimus_with(params: OptimusParams) -> Pipeline {
    let policy = Optimus::new(params.most, params.tolerance);
    let policy = LossTermination::new(policy, params.tolerance, params.reports);
    Composition::new("optimus")
        .trigger(params.every)
        .scheduling(policy)
        .placement(Resizing::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<OptimusParams, RegistryError> {
    Ok(OptimusParams {
        every: Rounds::every(Seconds::new(600.0)).unwrap_or_default(),
        most: GpuCount(count(p, &MOST_GPUS)? as u32),
        tolerance: part(p, &TOLERANCE)?,
        reports: count(p, &REPORTS)? as usize,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "optimus",
        "GPUs to the jobs with the largest gain in training time, from fitted losses and speeds",
        &PARAMETERS,
        |p, _| Ok(optimus_with(read(p)?)),
    );
}
