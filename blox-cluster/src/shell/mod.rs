//! The processes around the machines: clocks, files, sockets and children.

pub mod clock;
pub mod containment;
pub mod files;
pub mod node;
pub mod scheduler;
pub mod service;
pub mod shim;
