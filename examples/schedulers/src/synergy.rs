use crate::ONCE;
use blox_core::{Composition, Pipeline, SchedulingPolicy, Seconds};
use blox_policies::{
    placement::{Allocation, Consolidated, FirstFree, Synergy},
    scheduling::{
        Drf, Fifo, FinishTimeFairness, Las, Service, Srsf, Srtf, StarvationGuard, Tetris,
    },
};

/// Job order of [`synergy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobOrder {
    /// Submission: [`Fifo`].
    #[default]
    Fifo,
    /// Remaining time: [`Srtf`].
    Srtf,
    /// Attained GPU time: [`Las`].
    Las,
    /// Finish-time fairness, the worst first: [`FinishTimeFairness`].
    Ftf,
    /// Dominant share: [`Drf`].
    Drf,
    /// Remaining time on all resources: [`Tetris`].
    Tetris,
    /// Remaining GPU time: [`Srsf`].
    Srsf,
}

/// Choice of GPUs under [`synergy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Where {
    /// The node with the best fit, otherwise few nodes: [`Consolidated`].
    #[default]
    Consolidated,
    /// The first free GPUs, on any nodes: [`FirstFree`].
    FirstFree,
}

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
        SynergyParams {
            allocation: Allocation::Tune,
            order: JobOrder::Fifo,
            placement: Where::Consolidated,
            guard: Seconds::from_hours(1000.0),
        }
    }
}

/// Synergy (OSDI 2022): CPUs and memory allocated by their value for each job.
///
/// **NodeSelector.** Rounds last 300 s, and each is planned from an empty cluster. The first jobs in the
/// chosen order run, as long as their GPUs fit together. They are placed from the largest demand to
/// the smallest, with the CPUs and memory at which they are fastest. If these are not left, a job
/// gets its fair share for each GPU. Jobs with more than their share then give up the excess where
/// needed (Synergy-Tune, section 4.3). So every job is at least as fast as with a fair share. See
/// [`Synergy`] for the details and for the two alternatives: `proportional` gives each job the fair
/// share, `greedy` the full demand or nothing.
///
/// **Jobs** demand the CPUs and memory that they request (`cpus`, `memory_gib`). A `sensitivity`
/// states how fast they are with less, see [`Sensitivity`](blox_core::perf::Sensitivity). Nodes
/// must state their CPUs and memory. Traces of the released program are read with
/// `--format synergy` and a `profiles.json` beside them, its clusters with `--cluster FILE.ini`.
///
/// **Parameters** (command line): `allocation` = `tune` (default), `proportional` or `greedy`;
/// `order` = `fifo` (default), `srtf`, `las`, `ftf`, `drf`, `tetris` or `srsf`; `placement` =
/// `consolidated` (default) or `first-free`; `guard_h`, the hours after which a waiting job is
/// promoted (default 1000).
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
    match params.order {
        JobOrder::Fifo => compose(Fifo::default(), params),
        JobOrder::Srtf => compose(Srtf::default(), params),
        JobOrder::Las => compose(Las::by(Service::GpuTime), params),
        JobOrder::Ftf => compose(FinishTimeFairness::default(), params),
        JobOrder::Drf => compose(Drf, params),
        JobOrder::Tetris => compose(Tetris::default(), params),
        JobOrder::Srsf => compose(Srsf::default(), params),
    }
}

fn compose(order: impl SchedulingPolicy + Clone + 'static, params: SynergyParams) -> Pipeline {
    let scheduled =
        Composition::new("synergy").scheduling(StarvationGuard::new(order, params.guard));
    match params.placement {
        Where::Consolidated => scheduled
            .placement(Synergy::new(Consolidated::default()).with(params.allocation))
            .build()
            .expect(ONCE),
        Where::FirstFree => scheduled
            .placement(Synergy::new(FirstFree).with(params.allocation))
            .build()
            .expect(ONCE),
    }
}
