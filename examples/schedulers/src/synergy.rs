use blox::core::{AnyPlacement, AnyScheduling, Composition, Pipeline};
use blox::policies::placement::{Consolidated, FirstFree, Synergy};
use blox::policies::scheduling::{
    Drf, Fifo, FinishTimeFairness, Las, Service, Srsf, Srtf, StarvationGuard, Tetris,
};
use blox::schedulers::parameters::*;
use std::sync::Arc;

const ORDERS: [&str; 7] = ["fifo", "srtf", "las", "ftf", "drf", "tetris", "srsf"];
const PARAMETERS: [ParamDoc; 4] = [
    ALLOCATION,
    param(
        "order",
        "fifo",
        "order of jobs: fifo, srtf, las, ftf, drf, tetris, srsf",
    ),
    param(
        "placement",
        "consolidated",
        "placement on GPUs: consolidated, first-free",
    ),
    GUARD,
];

/// CPUs and memory allocated by their value for each job (Synergy, OSDI 2022).
///
/// **Rule.** Rounds last 300 s, and each is planned from an empty cluster. The first jobs in the
/// chosen order run, as long as their GPUs fit together. They are placed from the largest demand to
/// the smallest, with the CPUs and memory at which they are fastest. If these are not left, a job
/// gets its fair share for each GPU. Jobs with more than their share then give up the excess where
/// needed (Synergy-Tune, section 4.3). So every job is at least as fast as with a fair share. See
/// [`Synergy`] for the details and for the two alternatives: `proportional` gives each job the fair
/// share, `greedy` the full demand or nothing.
///
/// **Jobs** demand the CPUs and memory that they request (`cpus`, `memory_gib`); the paper measures
/// the demand in a profiling run. A `sensitivity` states how fast they are with less, see
/// [`Sensitivity`](blox::core::Sensitivity). Nodes must state their CPUs and memory. Traces of the released program are read with
/// `--format synergy` and a `profiles.json` beside them, its clusters with `--cluster FILE.ini`.
///
/// **Parameters** (command line): `allocation` = `tune`, `proportional` or `greedy`; `order` =
/// `fifo`, `srtf`, `las`, `ftf`, `drf`, `tetris` or `srsf`; `placement` = `consolidated` or
/// `first-free`; `guard_h`, the hours after which a waiting job is promoted.
///
/// **Not here.** `opt`, the paper's mixed-integer program, is a bound in the paper. The released
/// program ends with an error there, so no result is known. Only `blox_released::synergy` counts
/// storage and network bandwidth. A job that keeps its GPUs continues; any other job is restarted,
/// and nothing tries to avoid that.
///
/// **Verified.** Cases. The rules that differ from the released program are in
/// `blox_released::synergy`. With them, every job's first start and end, and the grants of every
/// round, equal the released program in all its golden runs (`blox verify`: FIFO, LAS, SRTF, FTF,
/// DRF, TETRIS under all three allocations, with and without its placement option).
///
/// **Claims.** 4 of 5 claims of the paper hold here, 1 does not hold: `blox policies synergy`.
pub fn synergy() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let allocation = allocation(p)?;
    let order: Arc<dyn AnyScheduling> = match p.choice("order", &ORDERS)? {
        "srtf" => Arc::new(Srtf::default()),
        "las" => Arc::new(Las::by(Service::GpuTime)),
        "ftf" => Arc::new(FinishTimeFairness::default()),
        "drf" => Arc::new(Drf),
        "tetris" => Arc::new(Tetris::default()),
        "srsf" => Arc::new(Srsf::default()),
        _ => Arc::new(Fifo::default()),
    };
    let places = ["consolidated", "first-free"];
    let placement: Arc<dyn AnyPlacement> = match p.choice("placement", &places)? {
        "first-free" => Arc::new(Synergy::new(FirstFree).with(allocation)),
        _ => Arc::new(Synergy::new(Consolidated::default()).with(allocation)),
    };
    let composition = Composition::new("synergy")
        .scheduling(StarvationGuard::new(order, p.hours(GUARD.name)?))
        .placement(placement);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "synergy",
            "CPUs and memory by each job's sensitivity, GPUs in a selectable order",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(SENSITIVITY);
}
