//! Which jobs should run, in what order.

mod drf;
mod fifo;
mod ftf;
mod gittins;
mod guard;
mod las;
mod listed;
mod loss_termination;
mod optimus;
mod sjf;
mod srsf;
mod srtf;
mod synthesizer;
mod tetris;
mod two_das;

pub use drf::Drf;
pub use fifo::{Fifo, fifo};
pub use ftf::FinishTimeFairness;
pub use gittins::ServiceHistory;
pub use guard::StarvationGuard;
pub use las::{Las, Service};
pub use loss_termination::LossTermination;
pub use optimus::Optimus;
pub use sjf::Sjf;
pub use srsf::Srsf;
pub use srtf::Srtf;
pub use synthesizer::Synthesizer;
pub use tetris::Tetris;
pub use two_das::TwoDas;
