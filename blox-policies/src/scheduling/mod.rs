//! Which jobs should run, in what order.

mod fifo;
mod gittins;
mod guard;
mod las;
mod loss_termination;
mod optimus;
mod sjf;
mod srtf;
mod synthesizer;
mod two_das;

pub use fifo::{Fifo, fifo};
pub use gittins::ServiceHistory;
pub use guard::StarvationGuard;
pub use las::{Las, Service};
pub use loss_termination::LossTermination;
pub use optimus::Optimus;
pub use sjf::Sjf;
pub use srtf::Srtf;
pub use synthesizer::Synthesizer;
pub use two_das::TwoDas;
