//! Which jobs should run, in what order.

mod drf;
mod elasticflow;
mod fifo;
mod finish_time;
mod ftf;
mod gittins;
mod guard;
mod las;
mod listed;
mod sjf;
mod srsf;
mod srtf;
mod tetris;
mod themis;
mod time_slicing;
mod two_das;

pub use drf::Drf;
pub use elasticflow::{ElasticFlow, Share};
pub use fifo::{Fifo, fifo};
pub use finish_time::{Claim, fair_shares};
pub use ftf::FinishTimeFairness;
pub use gittins::ServiceHistory;
pub use guard::StarvationGuard;
pub use las::{Las, Service};
pub use sjf::Sjf;
pub use srsf::Srsf;
pub use srtf::Srtf;
pub use tetris::Tetris;
pub use themis::Themis;
pub use time_slicing::TimeSlicing;
pub use two_das::TwoDas;
