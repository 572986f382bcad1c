//! What an author of a placement imports beyond the [prelude](crate::prelude): selectors and
//! walks that ship, savepoints of a draft, and the cluster with its links.

pub use crate::core::{Cluster, GpuList, GpuTypeId, Link, LinkKind, NameId, NodeSpec, Savepoint};
pub use crate::policies::placement::*;
