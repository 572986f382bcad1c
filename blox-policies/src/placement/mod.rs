//! Placement policies: which GPUs each job gets.
//!
//! Most placements consist of a [`NodeSelector`], which finds GPUs for one job, and of
//! [`InOrder`]. In-order placement applies the rule to the jobs in order and decides what happens if a job does not fit.

mod anew;
mod balanced;
mod bandwidth;
mod buddy;
mod by_class;
mod compatible;
mod consolidated;
mod easy;
mod even;
mod fgd;
mod first_free;
mod in_order;
mod keep_nodes;
mod leases;
mod local_search;
mod migrating;
mod moving;
mod near;
mod node_sets;
mod non_sticky;
mod on_nodes;
mod packing;
mod pal;
mod profiled;
mod random;
mod resizing;
mod resuming;
mod selector;
mod share;
mod synergy;
mod types;

pub use anew::{release_all, settle};
pub use balanced::Balanced;
pub use bandwidth::Bandwidth;
pub use buddy::Buddy;
pub use by_class::ByClass;
pub use compatible::Compatible;
pub use consolidated::{Consolidated, Split};
pub use easy::EasyBackfill;
pub use even::Even;
pub use fgd::Fgd;
pub use first_free::FirstFree;
pub(crate) use in_order::place_in_free;
pub use in_order::shortage as shortage_of;
pub use in_order::{Blocked, InOrder};
pub use keep_nodes::KeepNodes;
pub use leases::Leases;
pub use local_search::LocalSearch;
pub use migrating::Migrating;
pub use node_sets::NodeSets;
pub use non_sticky::NonSticky;
pub use on_nodes::OnNodes;
pub(crate) use packing::estimated_service;
pub use packing::{Packing, PackingLimits};
pub use pal::Pal;
pub use profiled::{Profiled, Sensitivity, TensorSkew};
pub use random::Random;
pub use resizing::Resizing;
pub use resuming::Resuming;
pub(crate) use selector::has_resources;
pub use selector::{NodeSelector, Parts, most_with_resources, suits};
pub use synergy::{Allocation, Synergy};
pub(crate) use types::{could_find, find as find_alike};
