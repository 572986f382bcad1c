use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::{Even, Resizing};
use blox::policies::scheduling::{LossTermination, Optimus};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 2] = [
    param(
        "tolerance",
        "0.01",
        "a loss is flat if it changes by less than this fraction of the largest loss",
    ),
    REPORTS,
];

/// GPUs to the jobs with the largest gain in training time (Optimus, EuroSys 2018).
///
/// **Rule.** Every 10 minutes, GPUs go to the jobs whose training they shorten most. Each job gets
/// its smallest number of GPUs. Then the job whose remaining time shrinks most per GPU repeatedly
/// gets its next number. The remaining work follows from a curve fitted to the reported losses. The
/// speed on more GPUs follows from a model fitted to the measured speeds; see [`Optimus`]. A job
/// ends when its loss has converged. Jobs are placed smallest first, in equal parts on as few nodes
/// as possible, and change size while they run.
///
/// Here a worker is a GPU, and gradients are exchanged among workers or with as many parameter
/// servers. Jobs that report no loss are assumed to run to their declared end. Before a job has
/// run, its speed is assumed to be in proportion to its GPUs. If there are fewer GPUs than jobs, the
/// jobs with the shortest remaining time run. A job that grows keeps its GPUs, and takes others on
/// its own nodes first; the paper places it anew.
///
/// **Parameters** (command line): `tolerance`, the fraction of the largest loss below which a step
/// is flat (1 to 5 % in the paper); `reports`, the number of flat steps that end a job.
///
/// **Jobs** with `levels` get one of these numbers of GPUs. All others get their requested number;
/// the paper has no such jobs.
///
/// **Verified.** Only by its own tests: no released program has the paper's rule.
///
/// The released program of Blox has another rule under this name: `blox_released::blox::optimus`.
///
/// **Claims.** All 4 claims of the paper hold here: `blox policies optimus`.
pub fn optimus() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let (tolerance, reports) = flat(p)?;
    let policy = Optimus::new(tolerance);
    let composition = Composition::new("optimus")
        .in_rounds(Seconds::new(600.0))
        .scheduling(LossTermination::new(policy, tolerance, reports))
        .placement(Resizing::new(Even));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "optimus",
        "GPUs to the jobs with the largest gain in training time, from fitted losses and speeds",
        &PARAMETERS,
        |p, _| composed(p),
    ).with_job_data(LEVELS)
        .with_job_data(CURVES);
}
