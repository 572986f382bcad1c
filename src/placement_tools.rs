//! Further imports for authors of placements, beyond the [prelude](crate::prelude): node selectors,
//! placement walks, savepoints of a draft, and the cluster with its links.

pub use crate::core::{Cluster, GpuList, GpuTypeId, Link, LinkKind, NameId, NodeSpec, Savepoint};
pub use crate::policies::placement::*;
