//! Estimators of durations and load: models trained from logs, and their users.
//!
//! A [`Saved`] model knows the columns of the log on which it was trained ([`Recipe`]). It can
//! therefore be applied to other logs, or to jobs by [`Learned`].

mod learned;
mod log;

pub use blox_learn as learn;
pub use learned::Learned;
pub use log::{EstimateError, Log, Recipe, Split};

use blox_learn::{
    Additive, AdditiveParams, Boosted, BoostedParams, Model, Tree, TreeParams, metrics,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Kind of model to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Training {
    /// Sum of functions of one feature and of pairs of features.
    Additive(AdditiveParams),
    /// Gradient-boosted trees.
    Boosted(BoostedParams),
    /// Decision tree for classes.
    Tree(TreeParams),
}

/// Trained model with its recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// Column that it predicts.
    pub target: String,
    /// Recipe for its features.
    pub recipe: Recipe,
    /// The model.
    pub model: Model,
}

/// Errors of a model on rows of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Number of rows.
    pub rows: usize,
    /// Mean absolute error, in units of the target.
    pub mae: f64,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Fraction of the variance that is explained.
    pub r2: f64,
    /// Symmetric mean absolute percentage error.
    pub smape: f64,
    /// Fraction of correct rows, for classes.
    pub accuracy: Option<f64>,
}

impl Saved {
    /// Trains a model to predict the column `target` of a log.
    ///
    /// # Errors
    /// A column is missing, or there are too few rows.
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

    /// Returns the prediction for every row of a log.
    ///
    /// # Errors
    /// The log lacks a column.
    pub fn predict(&self, log: &Log) -> Result<Vec<f64>, EstimateError> {
        // In this log, a category column may contain only numbers.
        let is_category = |name: &str| self.model.is_category(name);
        let frame = self.recipe.frame_with(log, is_category)?;
        self.model.predict(&frame).map_err(|e| log.wrong(e))
    }

    /// Returns the errors on some rows of a log.
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
    /// The file cannot be read, or contains no model.
    pub fn load(path: &Path) -> Result<Self, EstimateError> {
        let bad = |what: String| EstimateError::Model {
            path: path.to_owned(),
            what,
        };
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        serde_json::from_str(&text).map_err(|e| bad(format!("expected a model, {e}")))
    }
}
