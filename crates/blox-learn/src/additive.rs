//! Generalised additive models with pairwise terms.
//!
//! GA2M (Lou, Caruana, Gehrke and Hooker, KDD 2013), trained like explainable boosting machines
//! (Nori, Jenkins, Koch and Caruana 2019). Tiny trees of one feature at a time are added in turn,
//! with a small step. Several samples of the rows are trained, and each stops by the error of its
//! held-out rows. Then the pairs of features that explain most of the rest are added.

use crate::bins::{Binned, Feature, bin_frame};
use crate::frame::{Frame, LearnError};
use crate::number_of;
use crate::random::Random;
#[cfg(feature = "parallel")]
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Loss that training minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Squared error: the model predicts means.
    #[default]
    Squared,
    /// Pseudo-Huber loss, which is squared for errors that are small compared with `width`, and
    /// absolute beyond. The model tends to predict medians, and rare large values have less weight.
    Huber {
        /// Width in units of the target, above 0.
        width: f64,
    },
}

impl Loss {
    fn of(self, residual: f64) -> f64 {
        match self {
            Loss::Squared => residual * residual,
            Loss::Huber { width } => {
                let x = residual / width;
                width * width * ((1.0 + x * x).sqrt() - 1.0)
            }
        }
    }

    /// Returns the weight of a row in the mean of residuals.
    fn weight(self, residual: f64) -> f64 {
        match self {
            Loss::Squared => 1.0,
            Loss::Huber { width } => {
                let x = residual / width;
                1.0 / (1.0 + x * x).sqrt()
            }
        }
    }
}

/// Training parameters of an [`Additive`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdditiveParams {
    /// Fraction of each step that is applied, above 0 and at most 1.
    pub learning_rate: f64,
    /// Number of feature pairs with a term.
    pub pairs: usize,
    /// Number of row samples whose models are averaged, at least 1.
    pub bags: usize,
    /// Fraction of rows that each sample holds out for early stopping, at least 0 and below 1.
    pub held_out: f64,
    /// Maximum number of rounds over all terms.
    pub rounds: usize,
    /// Number of rounds without improvement after which training stops.
    pub patience: usize,
    /// Maximum number of bins of a feature.
    pub bins: usize,
    /// Maximum number of bins of a feature in a pair.
    pub pair_bins: usize,
    /// Minimum number of rows in a leaf.
    pub least_rows: usize,
    /// Loss to minimise.
    pub loss: Loss,
    /// Random seed.
    pub seed: u64,
}

impl Default for AdditiveParams {
    fn default() -> Self {
        AdditiveParams {
            learning_rate: 0.05,
            pairs: 10,
            bags: 8,
            held_out: 0.15,
            rounds: 2000,
            patience: 50,
            bins: 256,
            pair_bins: 32,
            least_rows: 5,
            loss: Loss::Squared,
            seed: 42,
        }
    }
}

impl AdditiveParams {
    fn check(&self) -> Result<(), LearnError> {
        let wrong = |setting, found: String, expected| {
            Err(LearnError::Setting {
                setting,
                found,
                expected,
            })
        };
        if !(self.learning_rate > 0.0 && self.learning_rate <= 1.0) {
            let found = self.learning_rate.to_string();
            return wrong("learning_rate", found, "above 0 and at most 1");
        }
        if !(0.0..1.0).contains(&self.held_out) {
            return wrong(
                "held_out",
                self.held_out.to_string(),
                "at least 0 and below 1",
            );
        }
        for (setting, found) in [("bins", self.bins), ("pair_bins", self.pair_bins)] {
            if !(2..=10_000).contains(&found) {
                return wrong(setting, found.to_string(), "from 2 to 10000");
            }
        }
        if let Loss::Huber { width } = self.loss
            && !(width > 0.0 && width.is_finite())
        {
            return wrong("width", width.to_string(), "a finite number above 0");
        }
        Ok(())
    }
}

/// Term of one feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    feature: Feature,
    /// Score that each bin adds.
    scores: Vec<f64>,
    /// Number of training rows in each bin.
    rows: Vec<u32>,
}

impl Shape {
    /// Returns the feature's name.
    pub fn feature(&self) -> &str {
        &self.feature.name
    }

    /// Returns the label, score and number of training rows of each bin. Bins without rows are left
    /// out.
    pub fn bins(&self) -> Vec<(String, f64, u32)> {
        (0..self.scores.len())
            .filter(|b| self.rows[*b] > 0)
            .map(|b| (self.feature.bins.label(b), self.scores[b], self.rows[b]))
            .collect()
    }

    /// Returns the function as steps, each with its start and value. `None` for categories.
    ///
    /// The last entry is the end of the training rows' range.
    pub fn steps(&self) -> Option<Vec<(f64, f64)>> {
        let crate::bins::Bins::Cuts { cuts, low, high } = &self.feature.bins else {
            return None;
        };
        let mut steps = vec![(*low, self.scores[1])];
        steps.extend(cuts.iter().zip(&self.scores[2..]).map(|(c, s)| (*c, *s)));
        steps.push((*high, *self.scores.last()?));
        Some(steps)
    }

    /// Returns the mean absolute score over the training rows.
    pub fn importance(&self) -> f64 {
        importance(&self.scores, &self.rows)
    }
}

/// Term of two features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    a: Feature,
    b: Feature,
    /// Score of each pair of bins. Bins of `b` vary fastest.
    scores: Vec<f64>,
    rows: Vec<u32>,
}

impl Pair {
    /// Returns the names of the two features.
    pub fn features(&self) -> (&str, &str) {
        (&self.a.name, &self.b.name)
    }

    /// Returns the mean absolute score over the training rows.
    pub fn importance(&self) -> f64 {
        importance(&self.scores, &self.rows)
    }
}

fn importance(scores: &[f64], rows: &[u32]) -> f64 {
    let all: f64 = rows.iter().map(|r| f64::from(*r)).sum();
    let sum: f64 = scores
        .iter()
        .zip(rows)
        .map(|(s, r)| s.abs() * f64::from(*r))
        .sum();
    sum / all.max(1.0)
}

/// A sum of functions of single features and of pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Additive {
    intercept: f64,
    shapes: Vec<Shape>,
    pairs: Vec<Pair>,
}

/// Bins of all rows in a term. The bins of a pair are combined into one number.
struct Term {
    bins: Vec<u32>,
    count: usize,
    /// Number of bins of the second feature, for a pair.
    width: Option<usize>,
}

/// Training state of one sample.
struct Bag {
    train: Vec<u32>,
    held_out: Vec<u32>,
    /// Residuals of all rows.
    left: Vec<f64>,
}

impl Additive {
    /// Trains on a frame with a target.
    ///
    /// # Errors
    /// Fails if there are fewer than 10 rows, or if a setting is out of range.
    pub fn fit(frame: &Frame, params: &AdditiveParams) -> Result<Self, LearnError> {
        params.check()?;
        frame.need(10)?;
        let target = frame.target();
        let n = target.len();
        let binned = Binned::fit(frame, params.bins)?;
        let terms: Vec<Term> = binned
            .features
            .iter()
            .zip(&binned.rows)
            .map(|(f, rows)| Term {
                bins: rows.iter().map(|b| u32::from(*b)).collect(),
                count: f.bins.count(),
                width: None,
            })
            .collect();
        let mut intercept = target.iter().sum::<f64>() / n as f64;
        let mut bags = bags(target, intercept, params);
        let mains = boost(&mut bags, &terms, params);
        let coarse = Binned::fit(frame, params.pair_bins)?;
        let left: Vec<f64> = (0..n)
            .map(|i| {
                let predicted: f64 = terms
                    .iter()
                    .zip(&mains)
                    .map(|(t, s)| s[t.bins[i] as usize])
                    .sum();
                target[i] - intercept - predicted
            })
            .collect();
        let chosen = best_pairs(&coarse, &left, params);
        let pair_terms: Vec<Term> = chosen
            .iter()
            .map(|&(a, b)| pair_term(&coarse, a, b))
            .collect();
        let pairs = boost(&mut bags, &pair_terms, params);
        let count = |t: &Term| {
            let mut rows = vec![0u32; t.count];
            t.bins.iter().for_each(|b| rows[*b as usize] += 1);
            rows
        };
        // Centres every term: its mean moves to the intercept.
        let mut centred = |mut scores: Vec<f64>, rows: &[u32]| {
            let sum: f64 = scores
                .iter()
                .zip(rows)
                .map(|(s, r)| s * f64::from(*r))
                .sum();
            let mean = sum / n as f64;
            scores.iter_mut().for_each(|s| *s -= mean);
            intercept += mean;
            scores
        };
        let shapes = binned.features.into_iter().zip(&terms).zip(mains);
        let shapes = shapes
            .map(|((feature, term), scores)| {
                let rows = count(term);
                Shape {
                    feature,
                    scores: centred(scores, &rows),
                    rows,
                }
            })
            .collect();
        let pairs = chosen.iter().zip(&pair_terms).zip(pairs);
        let pairs = pairs
            .map(|((&(a, b), term), scores)| {
                let rows = count(term);
                Pair {
                    a: coarse.features[a].clone(),
                    b: coarse.features[b].clone(),
                    scores: centred(scores, &rows),
                    rows,
                }
            })
            .collect();
        Ok(Additive {
            intercept,
            shapes,
            pairs,
        })
    }

    /// Returns the prediction for every row.
    ///
    /// # Errors
    /// Fails if the frame lacks a feature or has it as another kind.
    pub fn predict(&self, frame: &Frame) -> Result<Vec<f64>, LearnError> {
        let mut predictions = vec![self.intercept; frame.rows()];
        for shape in &self.shapes {
            let bins = bin_frame([&shape.feature], frame)?;
            for (s, b) in predictions.iter_mut().zip(&bins[0]) {
                *s += shape.scores[usize::from(*b)];
            }
        }
        for pair in &self.pairs {
            let width = pair.b.bins.count();
            let bins = bin_frame([&pair.a, &pair.b], frame)?;
            for (s, (a, b)) in predictions.iter_mut().zip(bins[0].iter().zip(&bins[1])) {
                *s += pair.scores[usize::from(*a) * width + usize::from(*b)];
            }
        }
        Ok(predictions)
    }

    /// Returns the intercept, which is the prediction for average terms.
    pub fn intercept(&self) -> f64 {
        self.intercept
    }

    /// Returns the terms of single features.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Returns the terms of pairs.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Returns the names of the features that the model uses.
    pub fn features(&self) -> Vec<&str> {
        self.shapes.iter().map(Shape::feature).collect()
    }

    /// Returns true if the model uses this feature as categories instead of numbers.
    pub fn is_category(&self, feature: &str) -> bool {
        let mut features = self.shapes.iter().map(|s| &s.feature);
        features.any(|f| f.name == feature && f.bins.is_category())
    }
}

impl fmt::Display for Additive {
    /// Formats the terms in order of importance, each with its function.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:.4} in the mean, to which is added:", self.intercept)?;
        let mut shapes: Vec<&Shape> = self.shapes.iter().collect();
        shapes.sort_by(|a, b| b.importance().total_cmp(&a.importance()));
        for shape in shapes {
            writeln!(
                f,
                "{}  (importance {:.4})",
                shape.feature(),
                shape.importance()
            )?;
            // Adjacent bins with the same score share a line.
            let mut bins = shape.bins().into_iter().peekable();
            while let Some((label, score, mut rows)) = bins.next() {
                let mut last = None;
                while let Some((next, _, more)) = bins.next_if(|(_, s, _)| (s - score).abs() < 1e-9)
                {
                    rows += more;
                    last = Some(next);
                }
                let label = last.map_or(label.clone(), |last| format!("{label} .. {last}"));
                writeln!(
                    f,
                    "  {score:+10.4}  {label}  ({})",
                    number_of(rows as usize, "row")
                )?;
            }
        }
        let mut pairs: Vec<&Pair> = self.pairs.iter().collect();
        pairs.sort_by(|a, b| b.importance().total_cmp(&a.importance()));
        for pair in pairs {
            let (a, b) = pair.features();
            writeln!(f, "{a} with {b}  (importance {:.4})", pair.importance())?;
        }
        Ok(())
    }
}

fn bags(target: &[f64], intercept: f64, params: &AdditiveParams) -> Vec<Bag> {
    let n = target.len();
    let count = (n as f64 * params.held_out) as usize;
    (0..params.bags.max(1) as u64)
        .map(|bag| {
            let mut order: Vec<usize> = (0..n).collect();
            Random::new(
                params
                    .seed
                    .wrapping_add(bag.wrapping_mul(0xA076_1D64_78BD_642F)),
            )
            .shuffle(&mut order);
            let mut parts = [order[..count].to_vec(), order[count..].to_vec()];
            parts.iter_mut().for_each(|p| p.sort_unstable());
            let [held_out, train] = parts.map(|p| p.into_iter().map(|i| i as u32).collect());
            Bag {
                train,
                held_out,
                left: target.iter().map(|y| y - intercept).collect(),
            }
        })
        .collect()
}

/// Trains the terms on every bag and returns their averages.
fn boost(bags: &mut [Bag], terms: &[Term], params: &AdditiveParams) -> Vec<Vec<f64>> {
    #[cfg(feature = "parallel")]
    let bags = bags.par_iter_mut();
    #[cfg(not(feature = "parallel"))]
    let bags = bags.iter_mut();
    let all: Vec<Vec<Vec<f64>>> = bags.map(|bag| boost_one(bag, terms, params)).collect();
    let mut mean: Vec<Vec<f64>> = terms.iter().map(|t| vec![0.0; t.count]).collect();
    for bag in &all {
        for (sum, scores) in mean.iter_mut().zip(bag) {
            for (s, x) in sum.iter_mut().zip(scores) {
                *s += x / all.len() as f64;
            }
        }
    }
    mean
}

fn boost_one(bag: &mut Bag, terms: &[Term], params: &AdditiveParams) -> Vec<Vec<f64>> {
    let mut scores: Vec<Vec<f64>> = terms.iter().map(|t| vec![0.0; t.count]).collect();
    if terms.is_empty() {
        return scores;
    }
    let judged = if bag.held_out.is_empty() {
        &bag.train
    } else {
        &bag.held_out
    };
    let judged = judged.clone();
    let judge = |left: &[f64]| {
        let sum: f64 = judged
            .iter()
            .map(|i| params.loss.of(left[*i as usize]))
            .sum();
        sum / judged.len() as f64
    };
    let mut best = (judge(&bag.left), scores.clone(), 0);
    let mut sums = Sums::default();
    for round in 1..=params.rounds {
        for (term, scores) in terms.iter().zip(&mut scores) {
            sums.collect(term, bag, params.loss);
            let step = match term.width {
                None => sums.line(params.least_rows as f64),
                Some(width) => sums.plane(width, params.least_rows as f64),
            };
            let Some(step) = step else { continue };
            for (score, x) in scores.iter_mut().zip(&step) {
                *score += params.learning_rate * x;
            }
            for (left, b) in bag.left.iter_mut().zip(&term.bins) {
                *left -= params.learning_rate * step[*b as usize];
            }
        }
        let now = judge(&bag.left);
        if now < best.0 * (1.0 - 1e-5) {
            best = (now, scores.clone(), round);
        } else if round - best.2 >= params.patience {
            break;
        }
    }
    // Restores the best scores, and adds the difference back to the residuals.
    for ((term, scores), best) in terms.iter().zip(&scores).zip(&best.1) {
        for (left, b) in bag.left.iter_mut().zip(&term.bins) {
            *left += scores[*b as usize] - best[*b as usize];
        }
    }
    best.1
}

/// Weighted residuals, weights and number of rows in each bin of a term.
#[derive(Default)]
struct Sums {
    bins: Vec<[f64; 3]>,
}

impl Sums {
    fn collect(&mut self, term: &Term, bag: &Bag, loss: Loss) {
        self.bins.clear();
        self.bins.resize(term.count, [0.0; 3]);
        for &i in &bag.train {
            let left = bag.left[i as usize];
            let weight = loss.weight(left);
            let bin = &mut self.bins[term.bins[i as usize] as usize];
            bin[0] += left * weight;
            bin[1] += weight;
            bin[2] += 1.0;
        }
    }

    fn total(&self, from: usize, to: usize) -> [f64; 3] {
        self.bins[from..to].iter().fold([0.0; 3], add)
    }

    /// Returns the best cut of a range of bins: its gain and index.
    fn cut(&self, from: usize, to: usize, least: f64) -> Option<(f64, usize)> {
        let all = self.total(from, to);
        let (mut left, mut best) = ([0.0; 3], None::<(f64, usize)>);
        for at in from + 1..to {
            left = add(left, &self.bins[at - 1]);
            let right = less(all, left);
            if left[2] < least || right[2] < least {
                continue;
            }
            let gain = worth(left) + worth(right) - worth(all);
            if gain > best.map_or(1e-12, |(g, _)| g) {
                best = Some((gain, at));
            }
        }
        best
    }

    /// Returns the best-fitting step function with up to three values.
    fn line(&self, least: f64) -> Option<Vec<f64>> {
        let n = self.bins.len();
        let (_, first) = self.cut(0, n, least)?;
        let second = [self.cut(0, first, least), self.cut(first, n, least)];
        let second = second
            .into_iter()
            .flatten()
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let mut cuts = vec![0, first, n];
        cuts.extend(second.map(|(_, at)| at));
        cuts.sort_unstable();
        let mut step = vec![0.0; n];
        for w in cuts.windows(2) {
            step[w[0]..w[1]].fill(mean(self.total(w[0], w[1])));
        }
        Some(step)
    }

    /// Returns the best-fitting function of two features with one cut of each and four values.
    fn plane(&self, width: usize, least: f64) -> Option<Vec<f64>> {
        let height = self.bins.len() / width;
        // Cumulative sums of all bins above and to the left of a corner.
        let mut corner = vec![[0.0; 3]; (height + 1) * (width + 1)];
        for a in 0..height {
            let mut row = [0.0; 3];
            for b in 0..width {
                row = add(row, &self.bins[a * width + b]);
                corner[(a + 1) * (width + 1) + b + 1] = add(corner[a * (width + 1) + b + 1], &row);
            }
        }
        let at = |a: usize, b: usize| corner[a * (width + 1) + b];
        let all = at(height, width);
        let quarters = |a: usize, b: usize| {
            let (top, left, corner) = (at(a, width), at(height, b), at(a, b));
            let rest = add(less(less(all, top), left), &corner);
            [corner, less(top, corner), less(left, corner), rest]
        };
        let mut best: Option<(f64, usize, usize)> = None;
        for a in 1..height {
            for b in 1..width {
                let parts = quarters(a, b);
                if parts.iter().any(|p| p[2] > 0.0 && p[2] < least) {
                    continue;
                }
                let gain = parts.iter().map(|p| worth(*p)).sum::<f64>() - worth(all);
                if gain > best.map_or(1e-12, |(g, ..)| g) {
                    best = Some((gain, a, b));
                }
            }
        }
        let (_, a, b) = best?;
        let values = quarters(a, b).map(mean);
        let value =
            |i: usize| values[2 * usize::from(i / width >= a) + usize::from(i % width >= b)];
        Some((0..self.bins.len()).map(value).collect())
    }

    /// Returns the gain of the best cut of both features.
    fn plane_gain(&self, width: usize, least: f64) -> f64 {
        let Some(step) = self.plane(width, least) else {
            return 0.0;
        };
        self.bins.iter().zip(&step).map(|(b, s)| b[0] * s).sum()
    }
}

fn add(a: [f64; 3], b: &[f64; 3]) -> [f64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn less(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn worth(s: [f64; 3]) -> f64 {
    if s[1] > 1e-9 { s[0] * s[0] / s[1] } else { 0.0 }
}

fn mean(s: [f64; 3]) -> f64 {
    if s[1] > 1e-9 { s[0] / s[1] } else { 0.0 }
}

fn pair_term(coarse: &Binned, a: usize, b: usize) -> Term {
    let width = coarse.features[b].bins.count();
    let rows = coarse.rows[a].iter().zip(&coarse.rows[b]);
    Term {
        bins: rows
            .map(|(x, y)| u32::from(*x) * width as u32 + u32::from(*y))
            .collect(),
        count: coarse.features[a].bins.count() * width,
        width: Some(width),
    }
}

/// Returns the pairs whose best cuts explain most of the residuals of the single features (FAST).
fn best_pairs(coarse: &Binned, left: &[f64], params: &AdditiveParams) -> Vec<(usize, usize)> {
    if params.pairs == 0 {
        return Vec::new();
    }
    let n = coarse.features.len();
    let all: Vec<(usize, usize)> = (0..n)
        .flat_map(|a| (a + 1..n).map(move |b| (a, b)))
        .collect();
    let bag = Bag {
        train: (0..left.len() as u32).collect(),
        held_out: Vec::new(),
        left: left.to_vec(),
    };
    let gain = |&(a, b): &(usize, usize)| {
        let term = pair_term(coarse, a, b);
        let mut sums = Sums::default();
        sums.collect(&term, &bag, params.loss);
        let width = term.width.unwrap_or(1);
        sums.plane_gain(width, params.least_rows as f64)
    };
    #[cfg(feature = "parallel")]
    let pairs = all.par_iter();
    #[cfg(not(feature = "parallel"))]
    let pairs = all.iter();
    let gains: Vec<f64> = pairs.map(gain).collect();
    let mut order: Vec<usize> = (0..all.len()).filter(|i| gains[*i] > 0.0).collect();
    order.sort_by(|a, b| gains[*b].total_cmp(&gains[*a]));
    order.truncate(params.pairs);
    order.into_iter().map(|i| all[i]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Column;
    use crate::metrics;

    fn frame(f: impl Fn(f64, f64) -> f64) -> Frame {
        let (mut x, mut z, mut y) = (Vec::new(), Vec::new(), Vec::new());
        let mut random = Random::new(7);
        for _ in 0..2000 {
            let (a, b) = (random.below(1000) as f64 / 1000.0, random.below(10) as f64);
            x.push(a);
            z.push(format!("c{b}"));
            y.push(f(a, b));
        }
        let columns = vec![
            ("x".to_owned(), Column::Numbers(x)),
            ("z".to_owned(), Column::Categories(z)),
        ];
        Frame::new(columns).unwrap().with_target(y).unwrap()
    }

    #[test]
    fn sums_of_functions_are_found() {
        let frame = frame(|x, z| 10.0 * x * x + z);
        let params = AdditiveParams {
            pairs: 0,
            bags: 2,
            ..AdditiveParams::default()
        };
        let model = Additive::fit(&frame, &params).unwrap();
        let error = metrics::mae(&model.predict(&frame).unwrap(), frame.target());
        assert!(error < 0.15, "{error}");
        let text = model.to_string();
        assert!(text.contains("c9") && text.contains("importance"), "{text}");
    }

    #[test]
    fn pair_fits_what_single_features_cannot() {
        let frame = frame(|x, z| if (x > 0.5) == (z >= 5.0) { 1.0 } else { -1.0 });
        let error = |pairs| {
            let params = AdditiveParams {
                pairs,
                bags: 2,
                ..AdditiveParams::default()
            };
            let model = Additive::fit(&frame, &params).unwrap();
            metrics::mae(&model.predict(&frame).unwrap(), frame.target())
        };
        assert!(error(0) > 0.8);
        assert!(error(1) < 0.5, "{}", error(1));
    }

    #[test]
    fn the_same_seed_gives_the_same_model() {
        let frame = frame(|x, z| x + z);
        let params = AdditiveParams {
            rounds: 20,
            ..AdditiveParams::default()
        };
        let fit = || Additive::fit(&frame, &params).unwrap();
        assert_eq!(fit(), fit());
        let json = serde_json::to_string(&fit()).unwrap();
        let read: Additive = serde_json::from_str(&json).unwrap();
        assert_eq!(
            read.predict(&frame).unwrap(),
            fit().predict(&frame).unwrap()
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let frame = frame(|x, _| x);
        let params = AdditiveParams {
            learning_rate: 0.0,
            ..AdditiveParams::default()
        };
        let e = Additive::fit(&frame, &params).unwrap_err().to_string();
        assert_eq!(e, "learning_rate is 0, expected above 0 and at most 1");
        let few = frame.take(&[0, 1]);
        let e = Additive::fit(&few, &AdditiveParams::default()).unwrap_err();
        assert_eq!(
            e.to_string(),
            "found 2 rows to learn from, expected at least 10"
        );
    }
}
