//! The protocol as functions of state, input and moment: no socket, no clock,
//! no file. [`scheduler`], [`node`] and [`shim`] are the three machines; what
//! they want done comes out as effects, which a shell carries out.

pub mod ids;
pub mod launches;
pub mod message;
pub mod node;
pub mod record;
pub mod scheduler;
pub mod shim;
pub mod timers;

pub use ids::{AttemptId, ClusterId, Epoch, Fence, Incarnation, Millis, PartId, Session};
pub use message::{
    AttemptReport, Exit, Final, Meeting, Order, Orders, Progress, Report, Said, Status, Task, Wish,
};
pub use record::{FORMAT, Record};
pub use timers::Timers;
