//! The schedulers that ship: a file each, with the paper, the rule, its
//! parameters and what was verified.

mod bandwidth_placement;
mod chronus;
mod edf;
mod edf_admission;
mod ef;
mod elasticflow;
mod fifo;
mod gandiva;
mod gavel;
mod helios_ces;
mod las;
mod load_admission;
mod loss_termination;
mod lucid;
mod optimus;
mod pollux;
mod qssf;
mod shockwave;
mod sia;
mod sjf;
mod srtf;
mod synergy;
mod synthesizer;
mod themis;
mod tiresias;
mod tiresias_plus;

/// Why the compositions of this module build: a panic here is a mistake in one of them.
const ONCE: &str = "each role is taken once";

pub use bandwidth_placement::bandwidth_placement;
pub use chronus::{chronus, chronus_with};
pub use edf::{edf, edf_with};
pub use edf_admission::{edf_admission, edf_admission_with};
pub use ef::{ef, ef_with};
pub use elasticflow::{ElasticFlowParams, elasticflow, elasticflow_with};
pub use fifo::fifo;
pub use gandiva::{GandivaParams, gandiva, gandiva_with};
pub use gavel::{
    GavelParams, GavelPolicy, allox, allox_with, finish_time_fairness, gavel, gavel_with,
};
pub use helios_ces::{HeliosCesParams, helios_ces, helios_ces_with};
pub use las::{LasParams, las, las_with};
pub use load_admission::{load_admission, load_admission_with};
pub use loss_termination::{LossTerminationParams, loss_termination, loss_termination_with};
pub use lucid::{LucidParams, lucid, lucid_with};
pub use optimus::{OptimusParams, optimus, optimus_with};
pub use pollux::{PolluxParams, pollux, pollux_with};
pub use qssf::{qssf, qssf_with};
pub use shockwave::{shockwave, shockwave_with};
pub use sia::{SiaParams, sia, sia_with};
pub use sjf::sjf;
pub use srtf::{srtf, srtf_with};
pub use synergy::{JobOrder, SynergyParams, Where, synergy, synergy_with};
pub use synthesizer::{
    SynthesizerParams, candidates as synthesizer_candidates, synthesizer, synthesizer_over,
    synthesizer_with,
};
pub use themis::{ThemisParams, themis, themis_with};
pub use tiresias::{TiresiasParams, tiresias, tiresias_with};
pub use tiresias_plus::{tiresias_plus, tiresias_plus_with};
