//! Claims of the schedulers' papers as data, and their check by simulation.
//!
//! A file `claims/NAME.toml` holds the claims of one scheduler's paper. It describes the worlds in
//! which they are checked, and for each claim the baselines, the metric, the size in the paper with
//! its section, and the tolerance. All workloads are generated from seeds. A claim that does not
//! hold stays in its file, with the expected verdict and the reason.
//!
//! ```
//! let registry = blox_sim::registry::register(blox_schedulers::registry());
//! let names = ["tiresias/avg-jct-fifo".to_owned()];
//! let plan = blox_claims::Plan::new(&registry, blox_claims::selected(&names, false)?);
//! let checked = plan.check(&[], &Default::default(), None);
//! assert!(!checked[0].differs());
//! # Ok::<(), blox_claims::ClaimsError>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Read the claims | [`papers()`], [`Claim`] |
//! | Select and check claims | [`selected()`], [`Plan`], [`Checked`] |
//! | Share the runs between processes | [`Plan::run`], [`RunResult`], [`Plan::judge`] |
//! | Show and update recorded results | [`records()`], [`Records`] |
//! | Describe a world | [`World`], [`JobKind`], [`Law`], [`Arrivals`] |

#![warn(missing_docs)]

mod check;
mod contestant;
mod error;
mod jobs;
mod law;
mod metric;
mod observe;
mod paper;
mod recorded;
mod world;

pub use check::{Checked, Interval, Plan, RunResult};
pub use contestant::Contestant;
pub use error::ClaimsError;
pub use jobs::{JobKind, Speedup};
pub use law::{Drawn, Law};
pub use metric::Metric;
pub use paper::{Claim, Paper, Read, Size, Verdict, papers, selected};
pub use recorded::{Recorded, Records, records};
pub use world::{Arrivals, World};
