//! Interpretable models that are trained from history.
//!
//! | model | description | used for |
//! |---|---|---|
//! | [`Additive`] | a sum of functions of one feature and of pairs (GA2M, explainable boosting) | durations, throughput |
//! | [`Tree`] | a decision tree for classes | deciding which jobs may share a GPU |
//! | [`Boosted`] | gradient-boosted regression trees | durations, as QSSF's estimator |
//!
//! Models are trained on a [`Frame`]: columns of numbers or categories with a target. Training is
//! deterministic: the same frame, settings and seed give the same model on any number of threads.
//! All models are plain data that `serde` can save and load.
//!
//! ```
//! use blox_learn::{Additive, AdditiveParams, Column, Frame, metrics};
//!
//! let x: Vec<f64> = (0..200).map(f64::from).collect();
//! let y: Vec<f64> = x.iter().map(|x| if *x < 100.0 { 1.0 } else { 3.0 }).collect();
//! let frame = Frame::new(vec![("x".into(), Column::Numbers(x))])?.with_target(y)?;
//! let model = Additive::fit(&frame, &AdditiveParams::default())?;
//! let error = metrics::mae(&model.predict(&frame)?, frame.target());
//! assert!(error < 0.1, "{error}");
//! # Ok::<(), blox_learn::LearnError>(())
//! ```
//!
//! | Task | Start with |
//! |---|---|
//! | Prepare training data | [`Frame`], [`Column`] |
//! | Train a model that shows the effect of each feature | [`Additive`] |
//! | Train a decision tree for classes | [`Tree`] |
//! | Train boosted regression trees | [`Boosted`] |
//! | Make features of a time series | [`series::features`] |
//! | Measure the error of predictions | [`metrics`] |
//! | Save and load any of the models | [`Model`] |

#![warn(missing_docs)]

mod additive;
mod bins;
mod boosted;
mod encoding;
mod frame;
pub mod metrics;
mod random;
pub mod series;
mod tree;

pub use additive::{Additive, AdditiveParams, Loss, Pair, Shape};
pub use boosted::{Boosted, BoostedParams};
pub use frame::{Cell, Column, Frame, LearnError};
pub use tree::{Tree, TreeParams};

use serde::{Deserialize, Serialize};

/// Returns a count with its noun, such as `1 row` or `2 rows`.
fn number_of(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// A trained model of any kind, in its saved form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Model {
    /// A sum of functions.
    Additive(Additive),
    /// A decision tree.
    Tree(Tree),
    /// Gradient-boosted trees.
    Boosted(Boosted),
}

impl Model {
    /// Returns the prediction for every row of a frame: a number, or the number of a class.
    ///
    /// # Errors
    /// Fails if the frame lacks a feature of the model or has it as another kind.
    pub fn predict(&self, frame: &Frame) -> Result<Vec<f64>, LearnError> {
        match self {
            Model::Additive(m) => m.predict(frame),
            Model::Tree(m) => m.predict(frame),
            Model::Boosted(m) => m.predict(frame),
        }
    }

    /// Returns the names of the features that the model uses, in its order.
    pub fn features(&self) -> Vec<&str> {
        match self {
            Model::Additive(m) => m.features(),
            Model::Tree(m) => m.features(),
            Model::Boosted(m) => m.features(),
        }
    }

    /// Returns true if the model uses this feature as categories instead of numbers.
    pub fn is_category(&self, feature: &str) -> bool {
        match self {
            Model::Additive(m) => m.is_category(feature),
            Model::Tree(m) => m.is_category(feature),
            Model::Boosted(m) => m.is_category(feature),
        }
    }
}

impl std::fmt::Display for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Model::Additive(m) => m.fmt(f),
            Model::Tree(m) => m.fmt(f),
            Model::Boosted(m) => m.fmt(f),
        }
    }
}
