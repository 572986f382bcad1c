//! The processes around the machines: clocks, files, sockets and children.

pub mod clock;
pub mod containment;
pub mod files;
pub mod gpus;
mod listen;
mod logs;
mod metrics;
pub mod node;
mod progress;
mod room;
pub mod scheduler;
pub mod service;
pub mod shim;
mod shown;
pub mod token;
