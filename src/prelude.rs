//! Imports for authors of policies: `use blox::prelude::*;`.
//!
//! Start with [`SchedulingPolicy`], [`View`], [`JobRef`], [`JobQueue`] and [`Composition`]. Most
//! policies need only these and [`Validity`]. A placement works on a [`Draft`]; a [`NodeSelector`] selects
//! nodes for [`InOrder`].

// A scheduler and its components.
pub use crate::core::{
    AdmissionPolicy, ClusterManager, Composition, Memory, MetricCollector, Pipeline,
    PlacementPolicy, Policy, SchedulingPolicy, Stateless, With, forward_policy,
};
// Input of policies.
pub use crate::core::{
    Event, Extras, GpuId, JobId, JobRef, JobSpec, Name, Node, NodeId, Outcome, Phase, View,
};
// Output of policies.
pub use crate::core::{
    AdmissionDecisions, AfterDrain, Answer, Assignment, Config, Draft, JobQueue, NodeAction,
    NodeActionKind, NodeActionKinds, NodeActions, Place, Plan, PolicyError, Reason, Request, Room,
    Shape, Shapes, Validity,
};
// Quantities, orders and decision times.
pub use crate::core::order::SortKey;
pub use crate::core::policy::by_key;
pub use crate::core::{GpuCount, Gpus, Rounds, Seconds, Share, Time};
// Components for compositions.
pub use crate::policies::placement::{Consolidated, InOrder, NodeSelector, Profiled, suits};
pub use crate::policies::scheduling::{Fifo, Srtf};
pub use crate::schedulers;
// Registration for the command line.
pub use crate::registry::{Params, Registry, param};
// Simulation.
pub use crate::core::ClusterSpec;
pub use crate::sim::execution::{ExecutionModel, Reach, on_nodes_of};
pub use crate::sim::{Report, Simulation, workload::Jobs};

#[cfg(test)]
mod tests {
    #[test]
    fn prelude_has_seventy_names_at_most() {
        let code = include_str!("prelude.rs").split("#[cfg(test)]").next();
        let exports = code.unwrap_or_default().split("pub use ").skip(1);
        let names = exports.flat_map(|export| {
            let export = export.split(';').next().unwrap_or_default();
            let list = export.split_once('{').map_or(export, |(_, list)| list);
            list.split(',')
                .filter(|name| !name.trim_matches(['}', ' ', '\n']).is_empty())
        });
        assert_eq!(names.count(), 70);
    }
}
