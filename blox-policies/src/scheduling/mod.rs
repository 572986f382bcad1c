//! Which jobs should run, in what order.

mod fifo;
mod gittins;
mod guard;
mod las;
mod sjf;
mod srtf;
mod two_das;

pub use fifo::{Fifo, fifo};
pub use gittins::ServiceHistory;
pub use guard::StarvationGuard;
pub use las::{Las, Service};
pub use sjf::Sjf;
pub use srtf::Srtf;
pub use two_das::TwoDas;
