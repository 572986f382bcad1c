//! Gradient-boosted regression trees (Friedman 2001), grown leaf by leaf on bins as in LightGBM (Ke
//! and others, NeurIPS 2017).

use crate::bins::{Binned, Feature, bin_frame};
use crate::frame::{Frame, LearnError};
use crate::number_of;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Training parameters of a [`Boosted`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoostedParams {
    /// Number of trees.
    pub trees: usize,
    /// Fraction of each step that is applied, above 0 and at most 1.
    pub learning_rate: f64,
    /// Maximum number of leaves of a tree.
    pub leaves: usize,
    /// Minimum number of rows in a leaf.
    pub least_rows: usize,
    /// Maximum number of bins of a feature.
    pub bins: usize,
}

impl Default for BoostedParams {
    /// Returns LightGBM's defaults.
    fn default() -> Self {
        BoostedParams {
            trees: 100,
            learning_rate: 0.1,
            leaves: 31,
            least_rows: 20,
            bins: 255,
        }
    }
}

/// A split, or a leaf with the value that it adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Node {
    Leaf(f64),
    /// Goes left if the feature's bin is below `bin`.
    Split {
        feature: usize,
        bin: u16,
        left: usize,
        right: usize,
    },
}

/// A sum of regression trees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Boosted {
    features: Vec<Feature>,
    /// Total gain of each feature's splits.
    gains: Vec<f64>,
    intercept: f64,
    trees: Vec<Vec<Node>>,
}

struct Leaf {
    node: usize,
    rows: Vec<u32>,
    split: Option<(f64, usize, u16)>,
}

impl Boosted {
    /// Trains on a frame with a target.
    ///
    /// # Errors
    /// Fails if there are too few rows for two leaves, or if a setting is out of range.
    pub fn fit(frame: &Frame, params: &BoostedParams) -> Result<Self, LearnError> {
        if !(params.learning_rate > 0.0 && params.learning_rate <= 1.0) {
            return Err(LearnError::Setting {
                setting: "learning_rate",
                found: params.learning_rate.to_string(),
                expected: "above 0 and at most 1",
            });
        }
        if !(2..=10_000).contains(&params.bins) {
            return Err(LearnError::Setting {
                setting: "bins",
                found: params.bins.to_string(),
                expected: "from 2 to 10000",
            });
        }
        frame.need(2 * params.least_rows.max(1))?;
        let binned = Binned::fit(frame, params.bins)?;
        let target = frame.target();
        let intercept = target.iter().sum::<f64>() / target.len() as f64;
        let mut model = Boosted {
            gains: vec![0.0; binned.features.len()],
            intercept,
            trees: Vec::with_capacity(params.trees),
            features: Vec::new(),
        };
        let mut left: Vec<f64> = target.iter().map(|y| y - intercept).collect();
        for _ in 0..params.trees {
            let tree = grow(&binned, &mut left, params, &mut model.gains);
            model.trees.push(tree);
        }
        model.features = binned.features;
        Ok(model)
    }

    /// Returns the prediction for every row.
    ///
    /// # Errors
    /// Fails if the frame lacks a feature or has it as another kind.
    pub fn predict(&self, frame: &Frame) -> Result<Vec<f64>, LearnError> {
        let bins = bin_frame(&self.features, frame)?;
        let predict_row = |row: usize| {
            let tree = |tree: &Vec<Node>| {
                let mut at = 0;
                loop {
                    match tree[at] {
                        Node::Leaf(value) => return value,
                        Node::Split {
                            feature,
                            bin,
                            left,
                            right,
                        } => {
                            at = if bins[feature][row] < bin {
                                left
                            } else {
                                right
                            }
                        }
                    }
                }
            };
            self.intercept + self.trees.iter().map(tree).sum::<f64>()
        };
        Ok((0..frame.rows()).map(predict_row).collect())
    }

    /// Returns the names of the features that the model uses.
    pub fn features(&self) -> Vec<&str> {
        self.features.iter().map(|f| &*f.name).collect()
    }

    /// Returns true if the model uses this feature as categories instead of numbers.
    pub fn is_category(&self, feature: &str) -> bool {
        let mut features = self.features.iter();
        features.any(|f| f.name == feature && f.bins.is_category())
    }

    /// Returns each feature's fraction of the total gain of all splits, in descending order.
    pub fn importances(&self) -> Vec<(&str, f64)> {
        let all: f64 = self.gains.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut each: Vec<(&str, f64)> = self
            .features
            .iter()
            .zip(&self.gains)
            .map(|(f, g)| (&*f.name, g / all))
            .collect();
        each.sort_by(|a, b| b.1.total_cmp(&a.1));
        each
    }
}

impl fmt::Display for Boosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leaf = |n: &&Node| matches!(n, Node::Leaf(_));
        let leaves: usize = self
            .trees
            .iter()
            .map(|t| t.iter().filter(leaf).count())
            .sum();
        let trees = self.trees.len();
        writeln!(
            f,
            "{:.4} in the mean, and {} with {leaves} leaves",
            self.intercept,
            number_of(trees, "tree")
        )?;
        for (feature, share) in self.importances() {
            writeln!(f, "  {:5.1} %  {feature}", 100.0 * share)?;
        }
        Ok(())
    }
}

/// Grows a tree on the residuals and subtracts its predictions from them.
fn grow(binned: &Binned, left: &mut [f64], params: &BoostedParams, gains: &mut [f64]) -> Vec<Node> {
    let least = params.least_rows.max(1);
    let mut nodes = vec![Node::Leaf(0.0)];
    let rows: Vec<u32> = (0..left.len() as u32).collect();
    let mut leaves = vec![Leaf {
        node: 0,
        split: best(binned, left, &rows, least),
        rows,
    }];
    while leaves.len() < params.leaves {
        // Takes the first of equal gains.
        let mut next: Option<(usize, f64)> = None;
        for (i, leaf) in leaves.iter().enumerate() {
            if let Some((gain, ..)) = leaf.split
                && next.is_none_or(|(_, g)| gain > g)
            {
                next = Some((i, gain));
            }
        }
        let Some((at, gain)) = next else { break };
        let Some((_, feature, bin)) = leaves[at].split else {
            break;
        };
        gains[feature] += gain;
        let (below, above): (Vec<u32>, Vec<u32>) = leaves[at]
            .rows
            .iter()
            .partition(|r| binned.rows[feature][**r as usize] < bin);
        let first = nodes.len();
        nodes[leaves[at].node] = Node::Split {
            feature,
            bin,
            left: first,
            right: first + 1,
        };
        nodes.extend([Node::Leaf(0.0), Node::Leaf(0.0)]);
        let new = |node, rows: Vec<u32>| Leaf {
            node,
            split: best(binned, left, &rows, least),
            rows,
        };
        let (below, above) = (new(first, below), new(first + 1, above));
        leaves[at] = below;
        leaves.push(above);
    }
    for leaf in &leaves {
        let sum: f64 = leaf.rows.iter().map(|r| left[*r as usize]).sum();
        let value = params.learning_rate * sum / leaf.rows.len().max(1) as f64;
        nodes[leaf.node] = Node::Leaf(value);
        leaf.rows.iter().for_each(|r| left[*r as usize] -= value);
    }
    nodes
}

/// Returns the best split of some rows: its gain, feature and bin.
fn best(binned: &Binned, left: &[f64], rows: &[u32], least: usize) -> Option<(f64, usize, u16)> {
    if rows.len() < 2 * least {
        return None;
    }
    let all: f64 = rows.iter().map(|r| left[*r as usize]).sum();
    let n = rows.len() as f64;
    let mut found: Option<(f64, usize, u16)> = None;
    let mut sums: Vec<(f64, u32)> = Vec::new();
    for (feature, bins) in binned.rows.iter().enumerate() {
        sums.clear();
        sums.resize(binned.features[feature].bins.count(), (0.0, 0));
        for &r in rows {
            let sum = &mut sums[usize::from(bins[r as usize])];
            sum.0 += left[r as usize];
            sum.1 += 1;
        }
        let (mut sum, mut count) = (0.0, 0);
        for (bin, (s, c)) in sums.iter().enumerate() {
            sum += s;
            count += *c as usize;
            if count < least || rows.len() - count < least || *c == 0 {
                continue;
            }
            let (k, rest) = (count as f64, n - count as f64);
            let gain = sum * sum / k + (all - sum) * (all - sum) / rest - all * all / n;
            if gain > found.map_or(1e-9, |(g, ..)| g) {
                found = Some((gain, feature, bin as u16 + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Column;
    use crate::metrics;

    #[test]
    fn functions_of_two_features_are_found() {
        let a: Vec<f64> = (0..1000).map(|i| f64::from(i % 40)).collect();
        let b: Vec<String> = (0..1000).map(|i| format!("u{}", i % 7)).collect();
        let y: Vec<f64> = (0..1000).map(|i| f64::from((i % 40) * (i % 7))).collect();
        let columns = vec![
            ("a".to_owned(), Column::Numbers(a)),
            ("b".to_owned(), Column::Categories(b)),
        ];
        let frame = Frame::new(columns).unwrap().with_target(y).unwrap();
        let model = Boosted::fit(&frame, &BoostedParams::default()).unwrap();
        let error = metrics::mae(&model.predict(&frame).unwrap(), frame.target());
        assert!(error < 3.0, "{error}");
        assert!(
            model
                .to_string()
                .starts_with("58.4640 in the mean, and 100 trees"),
            "{model}"
        );
        let json = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<Boosted>(&json).unwrap(), model);
    }
}
