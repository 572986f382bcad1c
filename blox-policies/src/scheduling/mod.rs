//! Which jobs should run, in what order.

mod fifo;
mod finish_time;
mod guard;
mod las;
mod sjf;
mod srtf;

pub use fifo::{Fifo, fifo};
pub use finish_time::{Claim, fair_shares};
pub use guard::StarvationGuard;
pub use las::{Las, Service};
pub use sjf::Sjf;
pub use srtf::Srtf;
