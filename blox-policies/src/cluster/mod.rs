//! Which nodes may be used.

mod maintenance;
mod quarantine;

pub use blox_core::policy::StaticCluster;
pub use maintenance::{Maintenance, Window};
pub use quarantine::Quarantine;
