//! Vocabulary, traits and the deterministic core of the blox toolkit.

pub mod cluster;
pub mod ids;
pub mod job;
pub mod units;

pub use cluster::spec::{ClusterSpec, ClusterSpecError, Link, LinkKind, MAX_GPUS_PER_NODE, NodeSpec};
pub use ids::{GpuId, GpuTypeId, JobId, Name, NameId, Names, NodeId};
pub use job::spec::{Deadline, Extras, JobSpec, ServiceClass, SpecError, Work};
pub use units::{GpuCount, Seconds, Time};
