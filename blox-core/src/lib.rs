//! Vocabulary, traits and the deterministic core of the blox toolkit.
//!
//! A scheduler is a [`Composition`] of four parts (see [`policy`]); the [`core`]
//! runs it over a [`State`] that changes only by [`Event`]s; a
//! [`Backend`](drive::Backend), simulated or real, brings the events and
//! carries the commands out. Nothing in this crate does input or output, reads
//! a clock, or depends on the order of a hash table.
//!
//! ```
//! use blox_core::testing::FirstFit;
//! use blox_core::{order::SortKey, policy::by_key, Composition};
//!
//! let shortest_first = Composition::new("sjf")
//!     .scheduling(by_key(|job| SortKey::by(job.spec().duration().secs())).valid_until_event())
//!     .placement(FirstFit)
//!     .build()?;
//! # let _ = shortest_first;
//! # Ok::<(), blox_core::ComposeError>(())
//! ```

#![warn(missing_docs)]

pub mod assignment;
pub mod cluster;
pub mod compat;
pub mod core;
pub mod decision;
pub mod draft;
pub mod drive;
pub mod estimate;
pub mod event;
pub mod feasibility;
pub mod forecast;
pub mod ids;
pub mod input;
pub mod job;
pub mod journal;
mod lens;
pub mod order;
pub mod perf;
pub mod pipeline;
pub mod policy;
pub mod reason;
pub mod registry;
pub mod replay;
pub mod request;
pub mod runtime;
pub mod state;
pub mod suggest;
pub mod testing;
pub mod trigger;
pub mod units;
pub mod view;

pub use assignment::{Assignment, BatchConfig, GpuList};
pub use cluster::spec::{
    ClusterSpec, ClusterSpecError, Link, LinkKind, MAX_GPUS_PER_NODE, NodeSpec,
};
pub use cluster::{Cluster, Node, NodeStatus};
pub use decision::{
    Action, Command, Decision, NodeAction, NodeActions, Plan, PlanError, Validity, Verdict,
    Verdicts,
};
pub use draft::{Draft, DraftError, Savepoint};
pub use event::{Event, Outcome};
pub use feasibility::Feasibility;
pub use ids::{GpuId, GpuTypeId, JobId, Name, NameId, Names, NodeId};
pub use input::{Input, Refused};
pub use job::spec::{Deadline, Extras, JobSpec, ServiceClass, SpecError, Work};
pub use job::training::{Adapts, SpeedReport, TrainingReport, TrainingSpec, TypeLimits};
pub use job::{JobRef, Phase};
pub use lens::Lens;
pub use pipeline::{ComposeError, Composition, Decide, DecideError, Joint, Pipeline, Role};
pub use policy::{
    AdmissionPolicy, AnyAdmission, AnyClusterManager, AnyMemory, AnyPlacement, AnyPolicy,
    AnyScheduling, ClusterManager, Launches, Memory, MemoryError, MetricCollector, Part,
    PlacementPolicy, Policy, RestoreError, SchedulingPolicy, Stateless, With,
};
pub use reason::Reason;
pub use request::{Candidate, JobQueue, Place, Request, Shape, Unlisted};
pub use state::{EventError, State};
pub use trigger::{DecisionTrigger, OnEvent, Rounds};
pub use units::{GpuCount, Seconds, Time};
pub use view::View;
