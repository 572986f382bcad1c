//! Tiresias' released simulator (SymbioticLab/Tiresias, Python 2): its schedules over its placement
//! schemes.
//!
//! Decisions follow events, and times are whole seconds.
//!
//! Quirks are components, listed in [`crate::tiresias::quirks`]. Placement does not change the
//! speed of jobs, and changes cost nothing. This is the default of a
//! [`Simulation`](blox_sim::Simulation) without a completion rule. As in the program, jobs that
//! request more GPUs than the cluster has wait forever. The command line's `tiresias-dlas-gpu`
//! rejects them.
//!
//! **Verified.** All golden runs of the released simulator are equal. Start, end, waiting time, and
//! the number of stops, starts and promotions are compared per job. The numbers of waiting, running
//! and ended jobs are compared after each pass. The runs cover all schedules, over `count`, `yarn`,
//! `cbalance`, `greedy` and `balance`. The program crashes with `random` and `crandom` at the first
//! end, and with `gittins` as released. It then writes no row, and there is nothing to compare. The
//! emulation runs these cases to their end.
//!
//! **Left out.** The program also prints the utilisation of nodes, CPUs, memory and network.
//! `dlas-gpu-pack` shares GPUs, but this never happens in the program, as every model fills a GPU.
//! A job that ends while it waits for its GPUs (see the components) ends as
//! [terminated](blox_core::Outcome::Terminated) here.

pub(crate) mod figures;
pub mod quirks;
mod steps;
pub(crate) mod verify;

pub use steps::Steps;

use crate::tiresias::quirks::{EveryOther, InPlace, Nowhere, Pending, ShortestBy, Yarn};
use blox_core::{
    AnyPlacement, Assignment, ClusterSpec, Composition, JobRef, NodeSpec, OnEvent, Pipeline,
    SchedulingPolicy, Stateless, View,
};
use blox_policies::placement::{Blocked, FirstFree, InOrder, OnNodes};
use blox_sim::execution::ExecutionModel;
use std::sync::Arc;

/// Placement scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `count`: counts GPUs and ignores their nodes. Also used for `random` and `crandom`, which
    /// crash the original at its first completion.
    Count,
    /// `yarn`: consolidated placement with a memory leak when jobs are stopped. Also used for
    /// `cbalance` and unknown names.
    Yarn,
    /// `balance`: never places a job.
    Balance,
}

impl Scheme {
    fn placement(self, blocked: Blocked) -> Arc<dyn AnyPlacement> {
        match self {
            Scheme::Count => Arc::new(InOrder::new(FirstFree).when_blocked(blocked)),
            Scheme::Yarn => Arc::new(Yarn::when_blocked(blocked)),
            Scheme::Balance => Arc::new(Nowhere),
        }
    }
}

/// `fifo`: in order of submission, with head-of-line blocking.
pub fn fifo(scheme: Scheme) -> Pipeline {
    over("fifo", Pending, scheme.placement(Blocked::Stop))
}

/// `fjf` (fit job first): in order of submission, with backfill.
pub fn fjf(scheme: Scheme) -> Pipeline {
    over("fjf", Pending, scheme.placement(Blocked::Skip))
}

/// `lpjf`: every other waiting job. The program's source calls this schedule not useful.
pub fn lpjf(scheme: Scheme) -> Pipeline {
    over("lpjf", EveryOther, scheme.placement(Blocked::Stop))
}

/// `sjf`, `shortest`, `shortest-gpu`, `shortest-expected`.
pub fn shortest(by: ShortestBy, scheme: Scheme) -> Pipeline {
    let placement = scheme.placement(Blocked::Skip);
    over("shortest", InPlace::new(by), placement)
}

/// Schedules that count GPUs themselves and ignore the scheme.
///
/// These are `dlas*` by [`DlasQueues`](crate::tiresias::quirks::DlasQueues), `gittins` by
/// [`LowestRank`](crate::tiresias::quirks::LowestRank), and `multi-dlas-gpu` by
/// [`ClassQueues`](crate::tiresias::quirks::ClassQueues).
pub fn counted(name: &str, policy: impl SchedulingPolicy + 'static) -> Pipeline {
    over(name, policy, Scheme::Count.placement(Blocked::Skip))
}

/// `gandiva`: time slices on sets of nodes, by [`NodeSets`](crate::tiresias::quirks::NodeSets).
///
/// Simulate it with the same steps as its [completion rule](blox_sim::Simulation::completion).
pub fn gandiva(policy: impl SchedulingPolicy + 'static, steps: Steps) -> Pipeline {
    over("gandiva", policy, Arc::new(OnNodes)).with_trigger(steps)
}

/// Returns the cluster of the scheme `greedy`, in which jobs never compete: it has GPUs for all
/// these jobs together.
pub fn unlimited(gpus: impl IntoIterator<Item = u32>) -> ClusterSpec {
    let all: u64 = gpus.into_iter().map(u64::from).sum();
    let nodes = all.div_ceil(64).max(1) as usize;
    ClusterSpec {
        nodes: vec![NodeSpec::with_gpus(64); nodes],
        ..ClusterSpec::default()
    }
}

/// Execution model of `fifo`, `fjf`, `lpjf` and `gpu-demands`.
///
/// Quirk: the program never ends a job without duration. It records the job's end in the event that
/// it is processing, and then discards the event.
#[derive(Clone, Copy, Debug, Default)]
pub struct InstantEndsAreLost;

impl Stateless for InstantEndsAreLost {}

impl ExecutionModel for InstantEndsAreLost {
    fn rate(&self, (): &mut (), _: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
        if job.truth().work().iterations > 0.0 {
            job.own_rate()
        } else {
            0.0
        }
    }
}

fn over(
    name: &str,
    policy: impl SchedulingPolicy + 'static,
    placement: Arc<dyn AnyPlacement>,
) -> Pipeline {
    Composition::new(format!("tiresias-{name}"))
        .trigger(OnEvent::default())
        .scheduling(policy)
        .placement(placement)
        .build()
        .expect(crate::ONCE)
        .awaiting_growth(true)
}
