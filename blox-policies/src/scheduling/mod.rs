//! Which jobs should run, in what order.

mod chronus;
mod elasticflow;
mod fifo;
mod finish_time;
mod gittins;
mod guard;
mod las;
mod sjf;
mod srtf;
mod themis;
mod time_slicing;
mod two_das;

pub use chronus::{Chronus, LeaseChoice};
pub use elasticflow::{ElasticFlow, Share};
pub use fifo::{Fifo, fifo};
pub use finish_time::{Claim, fair_shares};
pub use gittins::ServiceHistory;
pub use guard::StarvationGuard;
pub use las::{Las, Service};
pub use sjf::Sjf;
pub use srtf::Srtf;
pub use themis::Themis;
pub use time_slicing::TimeSlicing;
pub use two_das::TwoDas;
