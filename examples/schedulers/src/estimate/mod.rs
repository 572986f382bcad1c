//! Beliefs about durations and load: models trained from logs, and who uses them.
//!
//! A [`Saved`] model knows which columns of a log it was trained on ([`Recipe`]), so that it can
//! be asked about other logs, or about jobs by [`Learned`]. [`Belief`] is whatever estimator a
//! name on the command line stands for.

mod belief;
mod log;

pub use belief::{Belief, Learned};
pub use blox_learn as learn;
pub use log::{EstimateError, Log, Recipe, Split};

use blox_learn::{
    Additive, AdditiveParams, Boosted, BoostedParams, Model, Tree, TreeParams, metrics,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Training {
    /// A sum of functions of one feature and of pairs.
    Additive(AdditiveParams),
    /// Gradient-boosted trees.
    Boosted(BoostedParams),
    /// A decision tree for classes.
    Tree(TreeParams),
}

/// A model with what it was trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// The column that it tells.
    pub target: String,
    /// How its features are made of a log.
    pub recipe: Recipe,
    /// The model.
    pub model: Model,
}

/// How wrong a model is on rows that it was asked about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Rows.
    pub rows: usize,
    /// Mean absolute error, in units of the target.
    pub mae: f64,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// The part of the variance that is explained.
    pub r2: f64,
    /// Symmetric mean absolute percentage error.
    pub smape: f64,
    /// For classes, the share of rows that are right.
    pub accuracy: Option<f64>,
}

impl Saved {
    /// Trains a model to tell the column `target` of a log.
    ///
    /// # Errors
    /// A column is missing, or there is too little to learn from.
    pub fn train(
        log: &Log,
        target: &str,
        recipe: Recipe,
        training: &Training,
        rows: &[usize],
    ) -> Result<Self, EstimateError> {
        let frame = recipe
            .frame(log)?
            .with_target(log.numbers(target)?)
            .map_err(|e| log.wrong(e))?
            .take(rows);
        let model = match training {
            Training::Additive(p) => Additive::fit(&frame, p).map(Model::Additive),
            Training::Boosted(p) => Boosted::fit(&frame, p).map(Model::Boosted),
            Training::Tree(p) => Tree::fit(&frame, p).map(Model::Tree),
        };
        Ok(Saved {
            target: target.to_owned(),
            recipe,
            model: model.map_err(|e| log.wrong(e))?,
        })
    }

    /// Returns what it says about every row of a log.
    ///
    /// # Errors
    /// The log lacks a column.
    pub fn predict(&self, log: &Log) -> Result<Vec<f64>, EstimateError> {
        // This log may hold no more than the numbers among the categories.
        let is_category = |name: &str| self.model.is_category(name);
        let frame = self.recipe.frame_with(log, is_category)?;
        self.model.predict(&frame).map_err(|e| log.wrong(e))
    }

    /// Returns how wrong it is on some rows of a log.
    ///
    /// # Errors
    /// The log lacks a column.
    pub fn errors(&self, log: &Log, rows: &[usize]) -> Result<Errors, EstimateError> {
        let (said, truth) = (self.predict(log)?, log.numbers(&self.target)?);
        let said: Vec<f64> = rows.iter().map(|r| said[*r]).collect();
        let truth: Vec<f64> = rows.iter().map(|r| truth[*r]).collect();
        Ok(Errors {
            rows: rows.len(),
            mae: metrics::mae(&said, &truth),
            rmse: metrics::rmse(&said, &truth),
            r2: metrics::r2(&said, &truth),
            smape: metrics::smape(&said, &truth),
            accuracy: matches!(self.model, Model::Tree(_))
                .then(|| metrics::accuracy(&said, &truth)),
        })
    }

    /// Reads a saved model.
    ///
    /// # Errors
    /// The file cannot be read or holds no model.
    pub fn load(path: &Path) -> Result<Self, EstimateError> {
        let bad = |what: String| EstimateError::Model {
            path: path.to_owned(),
            what,
        };
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        serde_json::from_str(&text).map_err(|e| bad(format!("expected a model, {e}")))
    }
}
