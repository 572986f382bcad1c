//! The protocol as deterministic state machines without sockets, clocks or files. [`scheduler`],
//! [`node`] and [`shim`] each map a state, an input and a time to a new state and effects. The
//! `shell` modules carry out the effects.

pub mod after;
pub mod ids;
pub mod launches;
pub mod message;
pub mod node;
pub mod record;
pub mod scheduler;
pub mod shim;
pub mod timers;

pub use after::{AfterEnd, Dependency, DependencyError, HeldBack, InArray, JobName};
pub use ids::{AttemptId, ClusterId, Epoch, Fence, Incarnation, Millis, PartId, Session};
pub use message::{
    AttemptReport, Exit, Final, JobReport, Meeting, NodeRequest, Order, Orders, PROTOCOL, Progress,
    Report, Status, Task, Wish,
};
pub use record::{FORMAT, Record, SchedulerId};
pub use timers::Timers;
