//! Tiresias' released simulator (SymbioticLab/Tiresias, Python 2): its schedules
//! over its placement schemes, decided at events, in whole seconds.
//!
//! Quirks are parts: [`blox_policies::compat::tiresias`] says which. Jobs
//! progress by a second a second wherever they are, and changes cost nothing, as
//! in a [`Simulation`](blox_sim::Simulation) as it comes, without completion rule.
//! Jobs that ask for more than the cluster has wait for ever, as they do there.

use blox_core::{
    ClusterSpec, Composition, NodeSpec, OnEvent, Pipeline, PlacementPolicy, SchedulingPolicy,
};
use blox_policies::compat::tiresias::{
    AsNamed, Count, EveryOther, InPlace, Nowhere, Pending, Repack, ShortestBy, Yarn,
};
use blox_policies::placement::{Blocked, FirstFree, Walk};
use blox_sim::compat::tiresias::Steps;

/// Where jobs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// GPUs are counted, wherever they are: `count`. So it is here with `random`
    /// and `crandom` too, which stop the original at its first completion.
    Count,
    /// Consolidated, with a leak of memory where jobs are stopped: `yarn`,
    /// `cbalance`, and whatever is unknown.
    Yarn,
    /// Nothing is ever placed: `balance`.
    Balance,
}

impl Scheme {
    fn placement(self, blocked: Blocked) -> Box<dyn PlacementPolicy> {
        match self {
            Scheme::Count => Box::new(Repack::by(Count::default()).when_blocked(blocked)),
            Scheme::Yarn => Box::new(Repack::by(Yarn::default()).when_blocked(blocked)),
            Scheme::Balance => Box::new(Repack::by(Nowhere).when_blocked(blocked)),
        }
    }
}

/// `fifo`: by submission, in head-of-line order.
pub fn fifo(scheme: Scheme) -> Pipeline {
    over("fifo", Pending, scheme.placement(Blocked::Stop))
}

/// `fjf`, fit job first: by submission, passing over who does not fit.
pub fn fjf(scheme: Scheme) -> Pipeline {
    over("fjf", Pending, scheme.placement(Blocked::Skip))
}

/// `lpjf`, which its source calls not useful: every other waiting job.
pub fn lpjf(scheme: Scheme) -> Pipeline {
    over("lpjf", EveryOther, scheme.placement(Blocked::Stop))
}

/// `sjf`, `shortest`, `shortest-gpu`, `shortest-expected`.
pub fn shortest(by: ShortestBy, scheme: Scheme) -> Pipeline {
    let placement = scheme.placement(Blocked::Skip);
    over("shortest", InPlace::new(by), placement)
}

/// Those that count GPUs themselves and ignore the scheme: `dlas*` by
/// [`DlasQueues`](blox_policies::compat::tiresias::DlasQueues), `gittins` by
/// [`LowestRank`](blox_policies::compat::tiresias::LowestRank), `multi-dlas-gpu` by
/// [`ClassQueues`](blox_policies::compat::tiresias::ClassQueues).
pub fn counted(name: &str, policy: impl SchedulingPolicy + 'static) -> Pipeline {
    let placement = Walk::new(FirstFree).when_blocked(Blocked::Skip);
    over(name, policy, Box::new(placement))
}

/// `gandiva`: time slices on sets of nodes, by
/// [`NodeSets`](blox_policies::compat::tiresias::NodeSets). Simulate it with the same steps as
/// [completion rule](blox_sim::Simulation::completion).
pub fn gandiva(policy: impl SchedulingPolicy + 'static, steps: Steps) -> Pipeline {
    let placement = Box::new(Repack::by(AsNamed));
    over("gandiva", policy, placement).with_cadence(steps)
}

/// The cluster of the scheme `greedy`, which takes nothing from anybody: GPUs for
/// all that these jobs ask for together.
pub fn unlimited(gpus: impl IntoIterator<Item = u32>) -> ClusterSpec {
    let all: u64 = gpus.into_iter().map(u64::from).sum();
    let nodes = all.div_ceil(64).max(1) as usize;
    ClusterSpec {
        nodes: vec![NodeSpec::with_gpus(64); nodes],
    }
}

fn over(
    name: &str,
    policy: impl SchedulingPolicy + 'static,
    placement: Box<dyn PlacementPolicy>,
) -> Pipeline {
    Composition::new(format!("tiresias-{name}"))
        .cadence(OnEvent::default())
        .scheduling(policy)
        .placement(Walk::new(FirstFree))
        .build()
        .with_placement(placement)
        .awaiting_growth(true)
}
