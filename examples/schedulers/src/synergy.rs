use crate::ONCE;
use blox_core::{Composition, Pipeline, SchedulingPolicy, Seconds};
use blox_policies::{
    placement::{Allocation, Consolidated, FirstFree, Synergy},
    scheduling::{
        Drf, Fifo, FinishTimeFairness, Las, Service, Srsf, Srtf, StarvationGuard, Tetris,
    },
};

/// The order of jobs under [`synergy`], which leaves it to a policy of choice.
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

/// On which GPUs jobs lie under [`synergy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Where {
    /// On the node that they fit best, else on few: [`Consolidated`].
    #[default]
    Consolidated,
    /// On the first free GPUs, however they are spread: [`FirstFree`].
    FirstFree,
}

/// What can be chosen about [`synergy`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SynergyParams {
    /// How CPUs and memory are given out.
    pub allocation: Allocation,
    /// The order of jobs.
    pub order: JobOrder,
    /// On which GPUs they lie.
    pub placement: Where,
    /// A job that waited this long comes before all others from then on.
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

/// Synergy (OSDI 2022): CPUs and memory by what they are worth to each job.
///
/// **Rule.** Rounds of 300 s, each planned from an empty cluster. The jobs that
/// run are the first ones in an order of choice whose GPUs fit together. They
/// are placed from the largest demand to the smallest, with the CPUs and the
/// memory at which they are as fast as they can be; a job for which that is not
/// left is content with its fair share for each GPU, and jobs that hold more
/// than theirs give it up where that is needed (Synergy-Tune, section 4.3). So
/// every job is at least as fast as with a fair share. See [`Synergy`] for the
/// details, and for the two that it is compared with: `proportional` gives
/// everybody the fair share, `greedy` the full demand or nothing.
///
/// **Jobs** demand the CPUs and the memory that they ask for (`cpus`,
/// `memory_gib`); a `sensitivity` says how fast they are with less, see
/// [`Sensitivity`](blox_core::perf::Sensitivity). Nodes must say how many CPUs
/// and how much memory they have. Traces of the released program are read with
/// `--format synergy` and a `profiles.json` beside them, its clusters as
/// `--cluster FILE.ini`.
///
/// **Parameters** (command line): `allocation` = `tune` (default),
/// `proportional` or `greedy`; `order` = `fifo` (default), `srtf`, `las`, `ftf`,
/// `drf`, `tetris` or `srsf`; `placement` = `consolidated` (default) or
/// `first-free`; `guard_h`, the hours after which a waiting job is promoted
/// (default 1000).
///
/// **Not here.** `opt`, the paper's mixed-integer program, which it uses as a
/// bound; no result of the released program with it is known, since that ends
/// with an error. Storage and network bandwidth are counted by
/// `blox_released::synergy` only. A job that keeps its GPUs goes on; any
/// other is started anew, and nothing tries to avoid that.
///
/// **Verified.** The parts that differ from the released program are in
/// `blox_released::synergy`: with them, every job's first start, end and grants
/// of every round are those of the released program in all its golden runs
/// (`blox verify`: FIFO, LAS, SRTF, FTF, DRF, TETRIS under all three
/// allocations, with and without its placement option).
pub fn synergy() -> Pipeline {
    synergy_with(SynergyParams::default())
}

/// [`synergy`] with other parameters.
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
