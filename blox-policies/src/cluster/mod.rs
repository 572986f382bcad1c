//! Cluster managers: which nodes may be used.

mod loans;
mod maintenance;
mod power;
mod quarantine;

pub use blox_core::policy::StaticCluster;
pub use loans::Loans;
pub use maintenance::{Maintenance, Window};
pub use power::{PowerLook, PowerPlan, PowerRule, PowerSaving};
pub use quarantine::Quarantine;
