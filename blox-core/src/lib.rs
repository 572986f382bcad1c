//! Vocabulary, traits and the deterministic core of the blox toolkit.
//!
//! A scheduler is a [`Composition`] of four policies. The [`core`] runs it over a [`State`] that
//! changes only by [`Event`]s. A simulated or real [`Backend`](drive::Backend) delivers the events
//! and carries out the commands. Nothing in this crate does input or output, reads a clock, or
//! depends on the order of a hash table.
//!
//! ```
//! use blox_testing::FirstFit;
//! use blox_core::{order::SortKey, policy::by_key, Composition};
//!
//! let shortest_first = Composition::new("sjf")
//!     .scheduling(by_key(|job| SortKey::by(job.truth().duration().secs())).valid_until_event())
//!     .placement(FirstFit)
//!     .build()?;
//! # let _ = shortest_first;
//! # Ok::<(), blox_core::ComposeError>(())
//! ```
//!
//! # Layers
//!
//! A layer imports only from the ones before it.
//!
//! | Layer | Content |
//! |---|---|
//! | `model` | plain data: [`units`], [`ids`], [`curve`], [`job`], [`cluster`], [`assignment`], [`shape`], [`reason`], [`decision`] |
//! | [`state`] | [`event`], [`input`], the ledgers, [`view`] |
//! | [`policy`] | a trait for each role; [`queue`], [`draft`], [`order`], [`estimate`] |
//! | [`runtime`] | [`pipeline`], [`trigger`], [`core`], [`drive`], [`journal`], [`replay`] |
//!
//! # What to read first
//!
//! 1. [`policy`]: the roles of a scheduler, and the memory of a policy.
//! 2. [`SchedulingPolicy`], [`View`] and [`JobQueue`]: enough for a first policy.
//! 3. `conformance` of `blox-testing`: the tests that every scheduler must pass.
//!
//! | Task | Start with |
//! |---|---|
//! | Order jobs by a number | [`policy::by_key`] |
//! | Write a scheduling policy | [`policy::SchedulingPolicy`], [`policy::scheduling_fn`] |
//! | Write a placement policy | [`policy::PlacementPolicy`], [`Draft`] |
//! | Write an admission policy | [`policy::AdmissionPolicy`], [`AdmissionDecisions`] |
//! | Cordon, drain, add or remove nodes | [`policy::ClusterManager`], [`NodeActions`] |
//! | Keep data between decisions | [`policy::Policy`], [`policy::Memory`] |
//! | Implement several roles with one memory | [`Composition::joint`] |
//! | Choose the moments of decisions | [`trigger::DecisionTrigger`], [`Rounds`], [`OnEvent`] |
//! | Estimate running times | [`estimate::Estimator`] |
//! | Model the speed of jobs | crate `blox-perf` |
//! | Measure something during a run | [`policy::MetricCollector`] |
//! | Test a scheduler | crate `blox-testing` |
//! | Record and replay decisions | [`journal::Journal`], [`replay`] |
//! | Simulate the future inside a policy | [`forecast::Forecaster`] |
//! | Write a backend | [`drive::Backend`], [`core::Core`], [`runtime`] |
//!
//! # Types for authors of policies
//!
//! | Type | Meaning |
//! |---|---|
//! | [`View`] | Input of every policy: jobs, nodes and time at one moment. |
//! | [`JobRef`] | A job in the view: specification, phase, progress and GPUs. |
//! | [`JobSpec`] | A job as submitted: GPUs, work, user and optional data. |
//! | [`Phase`] | The state of a job, such as waiting or running. |
//! | [`Node`] | A node in the view: GPUs, status and partition. |
//! | [`JobId`], [`NodeId`], [`GpuId`] | Numbers of jobs, nodes and GPUs. |
//! | [`Seconds`], [`Time`], [`GpuCount`] | A duration, a moment, and a number of GPUs. |
//! | [`SortKey`](order::SortKey) | Position of a job in an order. |
//! | [`Request`] | A job that should run. |
//! | [`Shape`] | A way to run a job: GPUs, type, CPUs, memory and place. |
//! | [`JobQueue`] | Output of scheduling and input of placement: requests in order. |
//! | [`Draft`] | Output of placement: a plan under construction. |
//! | [`Assignment`] | The GPUs, CPUs, memory and config of a job. |
//! | [`Config`] | How a job runs on its GPUs: named numbers. |
//! | [`AdmissionDecisions`] | Output of admission: accept, defer or reject. |
//! | [`NodeActions`] | Output of a cluster manager. |
//! | [`Reason`] | The reason why a job waits, stops or is rejected. |
//! | [`Validity`] | How long an answer stays correct without an event. |
//! | [`Event`] | A change of the state, such as a submission or a crash. |
//! | [`Plan`] | The result of a decision: launches, stops and changes. |
//! | [`Memory`] | Data of a policy between decisions. |
//! | [`Composition`], [`Pipeline`] | A scheduler before and after it is built. |

#![warn(missing_docs)]

mod model;
pub mod policy;
pub mod runtime;
pub mod state;
pub mod suggest;

#[doc(inline)]
pub use model::{
    assignment, cluster, curve, decision, ids, job, reason, shape, sort, sorted, units,
};
#[doc(inline)]
pub use policy::{draft, estimate, order, queue};
#[doc(inline)]
pub use runtime::{core, drive, feasibility, forecast, journal, pipeline, replay, trigger};
#[doc(inline)]
pub use state::{event, input, room, view};

use model::{bits, config, decide_error, share};
use state::lens;

#[doc(inline)]
pub use self::{
    assignment::{Assignment, GpuList},
    cluster::spec::{
        ClusterSpec, ClusterSpecError, Link, LinkKind, MAX_GPUS_PER_NODE, Network, NodeSpec, Offer,
    },
    cluster::{Accounts, Cluster, Drain, Growth, NetworkLink, Node, NodeKind, NodeStatus, Wanted},
    config::Config,
    curve::Curve,
    decide_error::{Answer, DecisionError, DraftError, MissingData, PolicyError, StatementError},
    decision::{
        Action, AdmissionDecision, AdmissionDecisions, AfterDrain, Command, Decision, NodeAction,
        NodeActionKind, NodeActionKinds, NodeActions, Plan, PlanError, Validity,
    },
    draft::{Candidate, Draft, Savepoint},
    event::{Event, Outcome},
    feasibility::Feasibility,
    ids::{ActionId, GpuId, GpuTypeId, JobId, LinkId, Name, NameId, Names, NodeId, OfferId},
    input::{Input, Instant, Refused},
    job::loss::{LOSS, LossCurve, LossReports},
    job::nodes::NodeLimit,
    job::sensitivity::{Sensitivity, SensitivityError},
    job::spec::{Class, Deadline, Extras, JobSpec, SpecError, Submission, Work},
    job::speeds::TypeSpeeds,
    job::throughput::{GradientNoise, ThroughputParams},
    job::training::{Adapts, SpeedReport, TrainingReport, TrainingSpec, TypeLimits},
    job::{JobRef, Phase},
    lens::Lens,
    pipeline::{ComposeError, Composition, Joint, Pipeline, Role, Scheduler, TakenOver},
    policy::{
        AdmissionPolicy, AnyAdmission, AnyClusterManager, AnyMemory, AnyPlacement, AnyPolicy,
        AnyScheduling, ClusterManager, Memory, MemoryError, MetricCollector, PlacementPolicy,
        Policy, SchedulingPolicy, Stateless, With,
    },
    queue::{JobQueue, Request},
    reason::{Amount, Reason, Resource, Shortfall, Within},
    room::{Alike, Fit, Fits, Room},
    shape::{Place, Shape, Shapes},
    share::{Gpus, Share, Used},
    sorted::SortedMap,
    state::{EventError, State},
    trigger::{DecisionTrigger, OnEvent, Rounds},
    units::{GpuCount, Seconds, Time},
    view::View,
};
