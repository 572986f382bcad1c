//! Gavel's released simulator (stanford-futuredata/gavel, commit c4fa400), and that of
//! Shockwave (uw-mad-dash/shockwave), round by round, as pipelines.
//!
//! Each is a program of [`crate::gavel::simulator`] with a share policy; it is due
//! whenever its slowest quantum ends. Simulate it with the completion rule
//! [`ByScheduler`], on nodes in the order of its workers ([`cluster`]).

pub(crate) mod figures;
mod generate;
pub mod simulator;
pub(crate) mod verify;

pub use generate::GavelWorkload;

pub use crate::gavel::simulator::{
    AsGavel, AsMarket, AsShockwave, BatchJob, BisectedDuration, EqualTime, FifoMode, Mode,
    OnEveryType, Pool, Released, ReleasedEnd, ReleasedFifo, ReleasedFilling, RoundRow, Settings,
    released_ends, released_failure, released_rounds, summed_gain,
};
pub use blox_sim::completion::ByScheduler;

use blox_core::{ClusterSpec, Composition, NodeSpec, OnEvent, Pipeline, SchedulingPolicy};
use blox_policies::placement::{FirstFree, Walk};
use blox_policies::scheduling::gavel::SharePolicy;
use blox_policies::scheduling::gavel::shares::Isolated;
use blox_policies::scheduling::shockwave::Market;

/// Gavel's program with a share policy.
pub fn released(settings: &Settings, shares: impl SharePolicy + 'static) -> Pipeline {
    compose("gavel-released", Released::new(settings, shares))
}

/// Shockwave's program with a share policy, and what it knows of the jobs' batches.
pub fn released_shockwave(
    settings: &Settings,
    jobs: Vec<BatchJob>,
    shares: impl SharePolicy + 'static,
) -> Pipeline {
    let dialect = AsShockwave::new(settings.round, jobs);
    let program = Released::speaking(dialect, settings, shares);
    compose("shockwave-released", program)
}

/// Shockwave's program with its own policy.
pub fn released_market(settings: &Settings, jobs: Vec<BatchJob>, market: Market) -> Pipeline {
    let dialect = AsMarket::new(settings.round, jobs, market);
    // Nobody asks for shares.
    let program = Released::speaking(dialect, settings, Isolated);
    compose("shockwave-released", program)
}

/// The nodes of the program's cluster, in the order in which it numbers its workers.
pub fn cluster(settings: &Settings) -> ClusterSpec {
    let mut pools: Vec<&Pool> = settings.pools.iter().collect();
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    let node = |p: &&Pool| NodeSpec::with_gpus(p.per_server.max(1)).of_type(p.name.clone());
    let of_pool = |p: &Pool| std::iter::repeat_n(node(&p), (p.gpus / p.per_server.max(1)) as usize);
    ClusterSpec {
        nodes: pools.into_iter().flat_map(of_pool).collect(),
    }
}

/// The program places its jobs itself.
fn compose(name: &str, program: impl SchedulingPolicy + 'static) -> Pipeline {
    Composition::new(name)
        .cadence(OnEvent::default())
        .scheduling(program)
        .placement(Walk::new(FirstFree))
        .build()
}
