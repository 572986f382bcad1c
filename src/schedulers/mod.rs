//! The schedulers that ship: a file each, with the paper, the rule, its
//! parameters and what was verified.

mod fifo;
mod las;
mod sjf;
mod srtf;
mod synergy;
mod tiresias;

pub use fifo::fifo;
pub use las::{LasParams, las, las_with};
pub use sjf::sjf;
pub use srtf::{srtf, srtf_with};
pub use synergy::{JobOrder, SynergyParams, Where, synergy, synergy_with};
pub use tiresias::{TiresiasParams, tiresias, tiresias_with};
