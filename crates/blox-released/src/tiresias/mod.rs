//! Tiresias' released simulator (SymbioticLab/Tiresias, Python 2): its schedules
//! over its placement schemes, decided at events, in whole seconds.
//!
//! Quirks are parts: [`crate::tiresias::quirks`] says which. Jobs
//! progress by a second a second wherever they are, and changes cost nothing, as
//! in a [`Simulation`](blox_sim::Simulation) as it comes, without completion rule.
//! Jobs that ask for more than the cluster has wait for ever, as they do there; the command line's
//! `tiresias-dlas-gpu` turns them away.
//!
//! **Verified.** All golden runs of the released simulator are equal, per job:
//! start, end, waiting time, and how often a job was stopped, started and promoted;
//! and after each pass, how many jobs wait, run and have ended. That covers all
//! its schedules, over `count`, `yarn`, `cbalance`, `greedy` and `balance`. Where it
//! crashes it writes no row (`random` and `crandom` at the first end; `gittins` as it
//! ships), and there is nothing to compare; here these cases run to their end.
//!
//! **Left out.** Utilisation of nodes, CPUs, memory and network, which it prints
//! beside; sharing of GPUs by `dlas-gpu-pack`, which never happens there, as
//! every model fills a GPU. A job that ends while it waits for its GPUs (see the
//! parts) ends as [terminated](blox_core::Outcome::Terminated) here.

pub(crate) mod figures;
pub mod quirks;
mod steps;
pub(crate) mod verify;

pub use steps::Steps;

use crate::tiresias::quirks::{
    AsNamed, Count, EveryOther, InPlace, Nowhere, Pending, Repack, ShortestBy, Yarn,
};
use blox_core::{
    AnyPlacement, Assignment, ClusterSpec, Composition, JobRef, NodeSpec, OnEvent, Part, Pipeline,
    SchedulingPolicy, View,
};
use blox_policies::placement::{Blocked, FirstFree, Walk};
use blox_sim::execution::ExecutionModel;
use std::sync::Arc;

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
    fn placement(self, blocked: Blocked) -> Arc<dyn AnyPlacement> {
        match self {
            Scheme::Count => Arc::new(Repack::by(Count::default()).when_blocked(blocked)),
            Scheme::Yarn => Arc::new(Repack::by(Yarn::default()).when_blocked(blocked)),
            Scheme::Balance => Arc::new(Repack::by(Nowhere).when_blocked(blocked)),
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
/// [`DlasQueues`](crate::tiresias::quirks::DlasQueues), `gittins` by
/// [`LowestRank`](crate::tiresias::quirks::LowestRank), `multi-dlas-gpu` by
/// [`ClassQueues`](crate::tiresias::quirks::ClassQueues).
pub fn counted(name: &str, policy: impl SchedulingPolicy + 'static) -> Pipeline {
    let placement = Walk::new(FirstFree).when_blocked(Blocked::Skip);
    over(name, policy, Arc::new(placement))
}

/// `gandiva`: time slices on sets of nodes, by
/// [`NodeSets`](crate::tiresias::quirks::NodeSets). Simulate it with the same steps as
/// [completion rule](blox_sim::Simulation::completion).
pub fn gandiva(policy: impl SchedulingPolicy + 'static, steps: Steps) -> Pipeline {
    let placement = Arc::new(Repack::by(AsNamed));
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

/// How jobs run under `fifo`, `fjf`, `lpjf` and `gpu-demands`: as they should, but
/// a job without duration never ends. Its end is put down for the moment that
/// is being dealt with, and forgotten with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct InstantEndsAreLost;

impl Part for InstantEndsAreLost {}

impl ExecutionModel for InstantEndsAreLost {
    fn rate(&mut self, _: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
        if job.spec().work.iterations > 0.0 {
            job.spec().work.rate
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
        .cadence(OnEvent::default())
        .scheduling(policy)
        .placement(placement)
        .build()
        .expect(crate::ONCE)
        .awaiting_growth(true)
}
