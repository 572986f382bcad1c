//! The built-in schedulers: a file for each, with paper, rule, parameters and verification. The
//! command `blox policies NAME` prints the defaults of the parameters.
//!
//! A function returns a scheduler with these defaults. The registry builds it with other parameters:
//!
//! ```
//! let las = blox_schedulers::registry().schedulers.build(&"las{guard_h=24}".parse()?, 0)?;
//! # let _ = las;
//! # Ok::<(), blox_registry::RegistryError>(())
//! ```
//!
//! To change a rule, copy the file of the scheduler as a module into your crate. It compiles there,
//! since it imports only from `blox`. Call its `add` with your registry, under a name of your own.

pub use crate::allox::allox;
pub use crate::antman::antman;
pub use crate::bandwidth_placement::bandwidth_placement;
pub use crate::cassini::cassini;
pub use crate::chronus::chronus;
pub use crate::edf::edf;
pub use crate::edf_admission::edf_admission;
pub use crate::ef::ef;
pub use crate::elasticflow::elasticflow;
pub use crate::eva::eva;
pub use crate::fifo::fifo;
pub use crate::finish_time_fairness::finish_time_fairness;
pub use crate::gandiva::gandiva;
pub use crate::gandiva_fair::gandiva_fair;
pub use crate::gavel::{gavel, gavel_with};
pub use crate::gfs::gfs;
pub use crate::helios_ces::{helios_ces, helios_ces_with};
pub use crate::hived::hived;
pub use crate::las::las;
pub use crate::load_admission::load_admission;
pub use crate::loss_termination::loss_termination;
pub use crate::lucid::{lucid, lucid_with};
pub use crate::muri::muri;
pub use crate::optimus::optimus;
pub use crate::parameters;
pub use crate::pollux::{pollux, pollux_with};
pub use crate::qssf::{qssf, qssf_with};
pub use crate::rubick::rubick;
pub use crate::serving::serving;
pub use crate::shockwave::shockwave;
pub use crate::sia::sia;
pub use crate::sjf::sjf;
pub use crate::srtf::srtf;
pub use crate::synergy::synergy;
pub use crate::synthesizer::{candidates as synthesizer_candidates, synthesizer};
pub use crate::themis::themis;
pub use crate::tiresias::tiresias;
pub use crate::tiresias_plus::tiresias_plus;
pub use blox_policies::scheduling::gavel::shares::GavelPolicy;
