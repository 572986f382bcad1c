//! The schedulers that ship: a file each, with the paper, the rule, its
//! parameters and what was verified.

mod edf;
mod edf_admission;
mod ef;
mod elasticflow;
mod fifo;
mod gandiva;
mod las;
mod sjf;
mod srtf;
mod synergy;
mod themis;
mod tiresias;

pub use edf::{edf, edf_with};
pub use edf_admission::{edf_admission, edf_admission_with};
pub use ef::{ef, ef_with};
pub use elasticflow::{ElasticFlowParams, elasticflow, elasticflow_with};
pub use fifo::fifo;
pub use gandiva::{gandiva, gandiva_with};
pub use las::{LasParams, las, las_with};
pub use sjf::sjf;
pub use srtf::{srtf, srtf_with};
pub use synergy::{JobOrder, SynergyParams, Where, synergy, synergy_with};
pub use themis::{themis, themis_with};
pub use tiresias::{TiresiasParams, tiresias, tiresias_with};
