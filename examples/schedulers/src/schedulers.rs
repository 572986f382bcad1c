//! The built-in schedulers: a file for each, with paper, rule, parameters and verification. The
//! command `blox policies NAME` prints the defaults of the parameters.

pub use crate::allox::{allox, allox_with};
pub use crate::bandwidth_placement::bandwidth_placement;
pub use crate::chronus::{chronus, chronus_with};
pub use crate::edf::{edf, edf_with};
pub use crate::edf_admission::{edf_admission, edf_admission_with};
pub use crate::ef::{ef, ef_with};
pub use crate::elasticflow::{ElasticFlowParams, elasticflow, elasticflow_with};
pub use crate::fifo::fifo;
pub use crate::finish_time_fairness::finish_time_fairness;
pub use crate::gandiva::{GandivaParams, gandiva, gandiva_with};
pub use crate::gavel::{GavelParams, gavel, gavel_with};
pub use crate::helios_ces::{HeliosCesParams, helios_ces, helios_ces_with};
pub use crate::las::{LasParams, las, las_with};
pub use crate::load_admission::{load_admission, load_admission_with};
pub use crate::loss_termination::{LossTerminationParams, loss_termination, loss_termination_with};
pub use crate::lucid::{lucid, lucid_with};
pub use crate::muri::{MuriParams, muri, muri_with};
pub use crate::optimus::{OptimusParams, optimus, optimus_with};
pub use crate::pollux::{PolluxParams, pollux, pollux_with};
pub use crate::qssf::{qssf, qssf_with};
pub use crate::shockwave::{shockwave, shockwave_with};
pub use crate::sia::{SiaParams, sia, sia_with};
pub use crate::sjf::sjf;
pub use crate::srtf::{srtf, srtf_with};
pub use crate::synergy::{SynergyParams, synergy, synergy_with};
pub use crate::synthesizer::{
    SynthesizerParams, candidates as synthesizer_candidates, synthesizer, synthesizer_over,
    synthesizer_with,
};
pub use crate::themis::{ThemisParams, themis, themis_with};
pub use crate::tiresias::{TiresiasParams, tiresias, tiresias_with};
pub use crate::tiresias_plus::{tiresias_plus, tiresias_plus_with};
pub use blox_policies::placement::Where;
pub use blox_policies::scheduling::JobOrder;
pub use blox_policies::scheduling::gavel::shares::GavelPolicy;
