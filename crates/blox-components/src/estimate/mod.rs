//! Estimators of durations and load: models trained from logs, and their users.
//!
//! A [`Saved`] model knows the columns of the log on which it was trained ([`Recipe`]). It can
//! therefore be applied to other logs, or to jobs by [`Learned`].

mod job;
mod leaks;
mod learned;
mod log;
mod scale;

pub use blox_learn as learn;
pub use learned::Learned;
pub use log::{EstimateError, Log, Recipe, Split};
pub use scale::Scale;

use blox_learn::{
    Additive, AdditiveParams, Boosted, BoostedParams, Cell, Column, Frame, Model, Tree, TreeParams,
    metrics,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    /// Scale on which the model predicts.
    pub scale: Scale,
    /// Recipe for its features.
    pub recipe: Recipe,
    /// Features of which a training row lacked the value. Jobs may lack them, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<String>,
    /// True if the date column has seconds from time 0 of a workload, not dates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seconds: bool,
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

/// Errors of predicting each row by the mean of the training rows with the same key.
#[derive(Clone, Debug, PartialEq)]
pub struct ByKey {
    /// The feature whose values are the keys, or `None` for one mean of all rows.
    pub key: Option<String>,
    /// The errors.
    pub errors: Errors,
}

impl ByKey {
    /// Returns true if the errors of a model are larger.
    pub fn beats(&self, model: &Errors) -> bool {
        match (self.errors.accuracy, model.accuracy) {
            (Some(right), Some(model)) => model < right,
            _ => model.mae > self.errors.mae,
        }
    }
}

impl Errors {
    fn of(predicted: &[f64], truth: &[f64], classes: bool) -> Self {
        Errors {
            rows: truth.len(),
            mae: metrics::mae(predicted, truth),
            rmse: metrics::rmse(predicted, truth),
            r2: metrics::r2(predicted, truth),
            smape: metrics::smape(predicted, truth),
            accuracy: classes.then(|| metrics::accuracy(predicted, truth)),
        }
    }
}

impl Saved {
    /// Trains a model to predict the column `target` of a log. With `log_scale`, it predicts
    /// logarithms ([`Scale::Log`]); a tree of classes does not.
    ///
    /// # Errors
    /// Fails if a column is missing, if there are too few rows, or if a target is negative on the
    /// scale of logarithms. Also fails if a feature gives the target away: a copy of it, the end of
    /// the job or its GPU time.
    pub fn train(
        log: &Log,
        target: &str,
        recipe: Recipe,
        training: &Training,
        log_scale: bool,
        rows: &[usize],
    ) -> Result<Self, EstimateError> {
        let values = log.numbers(target)?;
        check(log, target, &values, &recipe, rows)?;
        let scale = match training {
            Training::Additive(_) | Training::Boosted(_) if log_scale => {
                scale(log, target, &values, rows)?
            }
            _ => Scale::Linear,
        };
        let values = values.into_iter().map(|y| match scale {
            // Rows that are held out may be negative.
            Scale::Linear => y,
            Scale::Log { .. } => scale.of_target(y),
        });
        let frame = recipe
            .frame(log)?
            .with_target(values.collect())
            .map_err(|e| log.wrong(e))?
            .take(rows);
        let model = match training {
            Training::Additive(p) => Additive::fit(&frame, p).map(Model::Additive),
            Training::Boosted(p) => Boosted::fit(&frame, p).map(Model::Boosted),
            Training::Tree(p) => Tree::fit(&frame, p).map(Model::Tree),
        };
        let seconds = match &recipe.date {
            Some(date) => log.texts(date)?.iter().all(|t| t.parse::<f64>().is_ok()),
            None => false,
        };
        Ok(Saved {
            target: target.to_owned(),
            scale,
            optional: optional(&frame),
            seconds,
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
        let predicted = self.model.predict(&frame).map_err(|e| log.wrong(e))?;
        Ok(predicted
            .into_iter()
            .map(|x| self.scale.to_target(x))
            .collect())
    }

    /// Returns the errors on some rows of a log.
    ///
    /// # Errors
    /// The log lacks a column.
    pub fn errors(&self, log: &Log, rows: &[usize]) -> Result<Errors, EstimateError> {
        let predicted = taken(&self.predict(log)?, rows);
        let truth = taken(&log.numbers(&self.target)?, rows);
        Ok(Errors::of(&predicted, &truth, self.is_of_classes()))
    }

    /// Returns the best prediction of the rows `kept` by the mean of one key. The candidates are
    /// the mean of all rows `learnt`, and the means of the rows with the same value of a feature.
    /// The mean is of the model's scale, or the most frequent class.
    ///
    /// # Errors
    /// The log lacks a column.
    pub fn by_key(
        &self,
        log: &Log,
        learnt: &[usize],
        kept: &[usize],
    ) -> Result<ByKey, EstimateError> {
        let target = log.numbers(&self.target)?;
        let truth = taken(&target, kept);
        let errors = |keys: Option<&[String]>| {
            let predicted = self.means(keys, &target, learnt, kept);
            Errors::of(&predicted, &truth, self.is_of_classes())
        };
        let mut best = ByKey {
            key: None,
            errors: errors(None),
        };
        for column in &self.recipe.columns {
            let by_this = ByKey {
                key: Some(column.clone()),
                errors: errors(Some(&log.texts(column)?)),
            };
            if by_this.beats(&best.errors) {
                best = by_this;
            }
        }
        Ok(best)
    }

    /// Predicts rows by the mean of the training rows with the same key, or by the mean of all.
    fn means(
        &self,
        keys: Option<&[String]>,
        target: &[f64],
        learnt: &[usize],
        kept: &[usize],
    ) -> Vec<f64> {
        let key = |row: usize| keys.map_or("", |keys| &keys[row]);
        let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for &row in learnt {
            groups.entry(key(row)).or_default().push(target[row]);
        }
        let middle = |values: &[f64]| match self.is_of_classes() {
            true => most_frequent(values),
            false => {
                let sum: f64 = values.iter().map(|y| self.scale.of_target(*y)).sum();
                self.scale.to_target(sum / values.len() as f64)
            }
        };
        let of_all = middle(&taken(target, learnt));
        let means: BTreeMap<&str, f64> = groups.iter().map(|(k, v)| (*k, middle(v))).collect();
        let predicted = kept.iter().map(|row| means.get(key(*row)));
        predicted
            .map(|mean| mean.copied().unwrap_or(of_all))
            .collect()
    }

    fn is_of_classes(&self) -> bool {
        matches!(self.model, Model::Tree(_))
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
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => bad("no such file, expected a model".to_owned()),
            _ => bad(e.to_string()),
        })?;
        let wrong = |e: serde_json::Error| bad(format!("expected a model, {e}"));
        let value: serde_json::Value = serde_json::from_str(&text).map_err(wrong)?;
        if value.get("model").is_some() && value.get("scale").is_none() {
            let what = "the model is of an earlier version, without a scale: train it again";
            return Err(bad(what.to_owned()));
        }
        serde_json::from_value(value).map_err(wrong)
    }
}

fn taken(values: &[f64], rows: &[usize]) -> Vec<f64> {
    rows.iter().map(|r| values[*r]).collect()
}

/// Returns the most frequent number, the smallest of equally frequent ones.
fn most_frequent(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let runs = sorted.chunk_by(|a, b| a == b);
    let best = runs.reduce(|best, run| if run.len() > best.len() { run } else { best });
    best.map_or(f64::NAN, |run| run[0])
}

/// Returns the features with a missing value.
fn optional(frame: &Frame) -> Vec<String> {
    let lacks = |column: &Column| {
        (0..column.len()).any(|row| match column.cell(row) {
            Cell::Number(x) => x.is_nan(),
            Cell::Category(name) => name.is_empty(),
        })
    };
    let features = frame.names().iter().zip(frame.columns());
    features
        .filter(|(_, column)| lacks(column))
        .map(|(name, _)| name.clone())
        .collect()
}

fn scale(log: &Log, target: &str, values: &[f64], rows: &[usize]) -> Result<Scale, EstimateError> {
    Scale::log(rows.iter().map(|r| values[*r])).map_err(|found| match found {
        Some(y) => log.wrong(format!(
            "{target} is {y}, expected at least 0 on the scale of logarithms"
        )),
        None => log.wrong(format!(
            "no {target} is above 0, expected one on the scale of logarithms"
        )),
    })
}

/// Refuses features that give the target away.
fn check(
    log: &Log,
    target: &str,
    values: &[f64],
    recipe: &Recipe,
    rows: &[usize],
) -> Result<(), EstimateError> {
    let features = recipe.columns.iter().chain(&recipe.date);
    if features.clone().any(|name| name == target) {
        return Err(log.wrong(format!(
            "the target {target} is also a feature, expected features that are known at submission"
        )));
    }
    let all: BTreeMap<&str, Vec<f64>> = log
        .header()
        .iter()
        .chain(features.clone())
        .filter(|name| *name != target)
        .filter_map(|name| Some((&**name, taken(&log.amounts(name)?, rows))))
        .collect();
    let target = (target, &*taken(values, rows));
    for name in features {
        let Some(column) = all.get(&**name) else {
            continue;
        };
        // A job is submitted with these, even if other columns follow from them and the target.
        let others = all
            .iter()
            .filter(|(other, _)| *other != name && !job::is_known(name));
        let others: Vec<_> = others.map(|(other, column)| (*other, &**column)).collect();
        if let Some(why) = leaks::of_target((name, column), target, &others) {
            return Err(log.wrong(format!(
                "{why}, expected features that are known at submission"
            )));
        }
    }
    Ok(())
}
