use crate::registry::params::{ALLOCATION, GUARD, allocation, chosen, hours, param};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::placement::{Allocation, Synergy, Where};
use blox_policies::scheduling::JobOrder;

const ORDER: ParamDoc = param(
    "order",
    "fifo",
    "order of jobs: fifo, srtf, las, ftf, drf, tetris, srsf",
);
const ORDERS: [(&str, JobOrder); 7] = [
    ("fifo", JobOrder::Fifo),
    ("srtf", JobOrder::Srtf),
    ("las", JobOrder::Las),
    ("ftf", JobOrder::Ftf),
    ("drf", JobOrder::Drf),
    ("tetris", JobOrder::Tetris),
    ("srsf", JobOrder::Srsf),
];
const WHERE: ParamDoc = param(
    "placement",
    "consolidated",
    "placement on GPUs: consolidated, first-free",
);
const PLACES: [(&str, Where); 2] = [
    ("consolidated", Where::Consolidated),
    ("first-free", Where::FirstFree),
];
const PARAMETERS: [ParamDoc; 4] = [ALLOCATION, ORDER, WHERE, GUARD];

/// Configuration of [`synergy`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SynergyParams {
    /// Allocation of CPUs and memory.
    pub allocation: Allocation,
    /// Order of jobs.
    pub order: JobOrder,
    /// Choice of GPUs.
    pub placement: Where,
    /// Waiting time after which a job comes before all others from then on.
    pub guard: Seconds,
}

impl Default for SynergyParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

/// Synergy (OSDI 2022): CPUs and memory allocated by their value for each job.
///
/// **Rule.** Rounds last 300 s, and each is planned from an empty cluster. The first jobs in the
/// chosen order run, as long as their GPUs fit together. They are placed from the largest demand to
/// the smallest, with the CPUs and memory at which they are fastest. If these are not left, a job
/// gets its fair share for each GPU. Jobs with more than their share then give up the excess where
/// needed (Synergy-Tune, section 4.3). So every job is at least as fast as with a fair share. See
/// [`Synergy`] for the details and for the two alternatives: `proportional` gives each job the fair
/// share, `greedy` the full demand or nothing.
///
/// **Jobs** demand the CPUs and memory that they request (`cpus`, `memory_gib`). A `sensitivity`
/// states how fast they are with less, see [`Sensitivity`](blox_core::Sensitivity). Nodes
/// must state their CPUs and memory. Traces of the released program are read with
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
/// **Verified.** The rules that differ from the released program are in `blox_released::synergy`.
/// With them, every job's first start and end, and the grants of every round, equal the released
/// program in all its golden runs (`blox verify`: FIFO, LAS, SRTF, FTF, DRF, TETRIS under all three
/// allocations, with and without its placement option).
pub fn synergy() -> Pipeline {
    synergy_with(SynergyParams::default())
}

/// Returns [`synergy`] with other parameters.
pub fn synergy_with(params: SynergyParams) -> Pipeline {
    Composition::new("synergy")
        .scheduling(params.order.guarded(params.guard))
        .placement(Synergy::new(params.placement).with(params.allocation))
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<SynergyParams, RegistryError> {
    Ok(SynergyParams {
        allocation: allocation(p)?,
        order: chosen(p, &ORDER, &ORDERS)?,
        placement: chosen(p, &WHERE, &PLACES)?,
        guard: hours(p, &GUARD)?,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "synergy",
        "CPUs and memory by each job's sensitivity, GPUs in a selectable order",
        &PARAMETERS,
        |p, _| Ok(synergy_with(read(p)?)),
    );
}
