//! Models of job speed: plain mathematics shared by policies and backends.
//!
//! The data that jobs declare and report (rates, losses and step times) lies in `blox-core`. This
//! crate fits models to such data and evaluates them.
//!
//! | Task | Start with |
//! |---|---|
//! | Fit and use the goodput model of Pollux | [`goodput`], [`goodput::GoodputModel`] |
//! | Describe applications that jobs train | [`applications`] |
//! | Fit losses and predict the end of training | [`fit_loss`], [`without_outliers`], [`converged`], [`flat_from`] |
//! | Fit speed to the number of workers | [`WorkerModel`] |
//! | Model jobs that share GPUs | [`PairTable`], [`Stages`], [`interleaved`], [`sharing_score`] |
//! | Model plans of data, tensor and pipeline parallelism | [`Plans`] |
//! | Model jobs that share a link of the network | [`share_link`] |
//! | Model GPUs of one type that differ in speed | [`gpu_scores`], [`app_class`] |
//! | Check the attributes that these models read | [`check_attributes`], [`check_plans`] |
//! | Look up the skew of tensor sizes | [`SkewTable`] |

#![warn(missing_docs)]

pub mod applications;
mod attributes;
pub mod goodput;
mod loss;
mod pairs;
mod plans;
mod sharing;
mod skew;
mod stages;
mod traffic;
mod utilisation;
mod variability;
mod workers;

pub use attributes::{check_attributes, check_plans};
pub use loss::{converged, fit_loss, flat_from, without_outliers};
pub use pairs::{PairTable, PairTableError};
pub use plans::Plans;
pub use sharing::sharing_score;
pub use skew::SkewTable;
pub use stages::{Stages, interleaved, interleaving_efficiency, stages};
pub use traffic::{LinkShare, link_demand, share_link};
pub use utilisation::gpu_utilisation;
pub use variability::{APP_CLASS, SCORES, app_class, gpu_scores, wrong_scores};
pub use workers::WorkerModel;
