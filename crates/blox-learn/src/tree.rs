//! Decision trees for classes (CART, Breiman and others 1984).

use crate::bins::levels;
use crate::frame::{Cell, Column, Frame, LearnError};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Training parameters of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeParams {
    /// Maximum number of splits from the root to a leaf.
    pub depth: usize,
    /// Minimum number of rows in a leaf.
    pub least_rows: usize,
    /// Minimum gain per leaf. A branch is cut if it lowers the fraction of impure rows by less for
    /// each leaf (minimal cost-complexity pruning).
    pub prune: f64,
}

impl Default for TreeParams {
    fn default() -> Self {
        TreeParams {
            depth: 8,
            least_rows: 1,
            prune: 0.0001,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Node {
    Leaf {
        class: f64,
        /// Number of training rows of each class.
        rows: Vec<u32>,
    },
    Split {
        feature: usize,
        /// Goes left if the number is at most this.
        at: f64,
        left: Box<Node>,
        right: Box<Node>,
        rows: Vec<u32>,
    },
}

/// A decision tree for classes. Each split uses one feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    names: Vec<String>,
    /// Order of the categories of each feature, by which they become numbers.
    levels: Vec<Vec<String>>,
    classes: Vec<f64>,
    root: Node,
}

struct Training<'a> {
    columns: Vec<Vec<f64>>,
    class: Vec<usize>,
    classes: &'a [f64],
    params: TreeParams,
}

impl Tree {
    /// Trains on a frame whose target has the numbers of classes.
    ///
    /// # Errors
    /// Fails if there are no rows.
    pub fn fit(frame: &Frame, params: &TreeParams) -> Result<Self, LearnError> {
        frame.need(1)?;
        let mut classes = frame.target().to_vec();
        classes.sort_by(f64::total_cmp);
        classes.dedup();
        let levels: Vec<Vec<String>> = frame
            .columns()
            .iter()
            .map(|c| match c {
                Column::Categories(values) => levels(values, frame.target()),
                Column::Numbers(_) => Vec::new(),
            })
            .collect();
        let columns = frame
            .columns()
            .iter()
            .zip(&levels)
            .map(|(c, l)| numbers(c, l));
        let class = |y: &f64| classes.iter().position(|c| c == y).unwrap_or(0);
        let training = Training {
            columns: columns.collect(),
            class: frame.target().iter().map(class).collect(),
            classes: &classes,
            params: *params,
        };
        let rows: Vec<usize> = (0..frame.rows()).collect();
        let mut root = training.grow(&rows, 0);
        prune(&mut root, &classes, params.prune, frame.rows() as f64);
        Ok(Tree {
            names: frame.names().to_vec(),
            levels,
            classes,
            root,
        })
    }

    /// Returns the class of every row.
    ///
    /// # Errors
    /// Fails if the frame lacks a feature or has it as another kind.
    pub fn predict(&self, frame: &Frame) -> Result<Vec<f64>, LearnError> {
        let mut columns = Vec::new();
        for (name, levels) in self.names.iter().zip(&self.levels) {
            let column = frame.column(name)?;
            let kind = match column {
                Column::Numbers(_) if !levels.is_empty() => Some(("numbers", "categories")),
                Column::Categories(_) if levels.is_empty() => Some(("categories", "numbers")),
                _ => None,
            };
            if let Some((found, expected)) = kind {
                return Err(LearnError::Kind {
                    feature: name.clone(),
                    found,
                    expected,
                });
            }
            columns.push(numbers(column, levels));
        }
        let class = |row: usize| {
            let mut node = &self.root;
            loop {
                match node {
                    Node::Leaf { class, .. } => return *class,
                    Node::Split {
                        feature,
                        at,
                        left,
                        right,
                        ..
                    } => {
                        node = if columns[*feature][row] <= *at {
                            left
                        } else {
                            right
                        }
                    }
                }
            }
        };
        Ok((0..frame.rows()).map(class).collect())
    }

    /// Returns the names of the features that the model may use.
    pub fn features(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// Returns true if the model uses this feature as categories instead of numbers.
    pub fn is_category(&self, feature: &str) -> bool {
        let mut features = self.names.iter().zip(&self.levels);
        features.any(|(name, levels)| name == feature && !levels.is_empty())
    }

    /// Returns the number of leaves.
    pub fn leaves(&self) -> usize {
        leaves(&self.root)
    }

    /// Returns the tree as lines with their depth and text, for pictures.
    pub fn lines(&self) -> Vec<(usize, String)> {
        let mut lines = Vec::new();
        self.add_lines(&self.root, 0, &mut lines);
        lines
    }

    fn add_lines(&self, node: &Node, depth: usize, lines: &mut Vec<(usize, String)>) {
        let counted = |rows: &[u32]| {
            let counts: Vec<String> = self
                .classes
                .iter()
                .zip(rows)
                .map(|(c, n)| format!("{n} of {c}"))
                .collect();
            counts.join(", ")
        };
        match node {
            Node::Leaf { class, rows } => {
                lines.push((depth, format!("class {class}  ({})", counted(rows))));
            }
            Node::Split {
                feature,
                at,
                left,
                right,
                ..
            } => {
                let (name, levels) = (&self.names[*feature], &self.levels[*feature]);
                let conditions = match levels.is_empty() {
                    true => [format!("{name} <= {at}"), format!("{name} > {at}")],
                    false => {
                        let first = (at + 1.0).floor().max(0.0) as usize;
                        let first = first.min(levels.len());
                        [&levels[..first], &levels[first..]]
                            .map(|l| format!("{name} is {}", l.join(" or ")))
                    }
                };
                for (condition, node) in conditions.into_iter().zip([left, right]) {
                    lines.push((depth, condition));
                    self.add_lines(node, depth + 1, lines);
                }
            }
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines()
            .iter()
            .try_for_each(|(depth, line)| writeln!(f, "{}{line}", "|   ".repeat(*depth)))
    }
}

/// Returns a column as numbers. A missing value comes before all others.
fn numbers(column: &Column, levels: &[String]) -> Vec<f64> {
    let number = |row| match column.cell(row) {
        Cell::Number(x) if x.is_nan() => f64::NEG_INFINITY,
        Cell::Number(x) => x,
        Cell::Category(v) => levels
            .iter()
            .position(|l| l == v)
            .map_or(-1.0, |i| i as f64),
    };
    (0..column.len()).map(number).collect()
}

/// Returns the impurity: the sum over classes of p (1 - p), times the number of rows.
fn impurity(counts: &[u32]) -> f64 {
    let all: f64 = counts.iter().map(|c| f64::from(*c)).sum();
    if all == 0.0 {
        return 0.0;
    }
    all - counts.iter().map(|c| f64::from(*c).powi(2)).sum::<f64>() / all
}

impl Training<'_> {
    fn count(&self, rows: &[usize]) -> Vec<u32> {
        let mut counts = vec![0; self.classes.len()];
        rows.iter().for_each(|r| counts[self.class[*r]] += 1);
        counts
    }

    fn grow(&self, rows: &[usize], depth: usize) -> Node {
        let counts = self.count(rows);
        let split = match depth < self.params.depth && impurity(&counts) > 0.0 {
            true => self.best(rows, &counts),
            false => None,
        };
        let Some((feature, at)) = split else {
            return leaf(self.classes, counts);
        };
        let (left, right): (Vec<usize>, Vec<usize>) =
            rows.iter().partition(|r| self.columns[feature][**r] <= at);
        Node::Split {
            feature,
            at,
            left: Box::new(self.grow(&left, depth + 1)),
            right: Box::new(self.grow(&right, depth + 1)),
            rows: counts,
        }
    }

    /// Returns the split after which rows have the least impurity. Takes the first of equal splits.
    fn best(&self, rows: &[usize], counts: &[u32]) -> Option<(usize, f64)> {
        let (mut best, least) = (None, self.params.least_rows.max(1));
        let mut least_mixed = impurity(counts) - 1e-9;
        for (feature, column) in self.columns.iter().enumerate() {
            let mut order = rows.to_vec();
            order.sort_by(|a, b| column[*a].total_cmp(&column[*b]));
            let (mut left, mut right) = (vec![0; counts.len()], counts.to_vec());
            for (i, w) in order.windows(2).enumerate() {
                left[self.class[w[0]]] += 1;
                right[self.class[w[0]]] -= 1;
                let (a, b) = (column[w[0]], column[w[1]]);
                if a == b || i + 1 < least || order.len() - i - 1 < least {
                    continue;
                }
                let mixed = impurity(&left) + impurity(&right);
                if mixed < least_mixed - 1e-9 {
                    let middle = if a.is_finite() {
                        a / 2.0 + b / 2.0
                    } else {
                        b - 1.0
                    };
                    (least_mixed, best) = (mixed, Some((feature, middle)));
                }
            }
        }
        best
    }
}

fn leaf(classes: &[f64], rows: Vec<u32>) -> Node {
    // Takes the first of equally frequent classes.
    let most = rows.iter().copied().max().unwrap_or(0);
    let at = rows.iter().position(|r| *r == most).unwrap_or(0);
    Node::Leaf {
        class: classes.get(at).copied().unwrap_or(0.0),
        rows,
    }
}

fn leaves(node: &Node) -> usize {
    match node {
        Node::Leaf { .. } => 1,
        Node::Split { left, right, .. } => leaves(left) + leaves(right),
    }
}

/// Returns the impurity of all leaves below a node.
fn mixed(node: &Node) -> f64 {
    match node {
        Node::Leaf { rows, .. } => impurity(rows),
        Node::Split { left, right, .. } => mixed(left) + mixed(right),
    }
}

/// Cuts branches whose gain per leaf is at most `alpha`, weakest first.
fn prune(root: &mut Node, classes: &[f64], alpha: f64, all: f64) {
    fn weakest(node: &Node, all: f64) -> f64 {
        match node {
            Node::Leaf { .. } => f64::INFINITY,
            Node::Split {
                left, right, rows, ..
            } => {
                let own = (impurity(rows) - mixed(node)) / all / (leaves(node) as f64 - 1.0);
                own.min(weakest(left, all)).min(weakest(right, all))
            }
        }
    }
    fn cut(node: &mut Node, classes: &[f64], limit: f64, all: f64) {
        let own = match &*node {
            Node::Leaf { .. } => return,
            Node::Split { rows, .. } => {
                (impurity(rows) - mixed(node)) / all / (leaves(node) as f64 - 1.0)
            }
        };
        if let Node::Split {
            left, right, rows, ..
        } = node
        {
            if own <= limit {
                *node = leaf(classes, std::mem::take(rows));
                return;
            }
            cut(left, classes, limit, all);
            cut(right, classes, limit, all);
        }
    }
    loop {
        let next = weakest(root, all);
        if next > alpha {
            return;
        }
        cut(root, classes, next, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::accuracy;

    fn frame() -> Frame {
        let x: Vec<f64> = (0..60).map(f64::from).collect();
        let kind: Vec<String> = (0..60).map(|i| ["a", "b"][i % 2].to_owned()).collect();
        let y = (0..60).map(|i| if i < 20 { 0.0 } else { 1.0 + (i % 2) as f64 });
        let y = y.collect();
        let columns = vec![
            ("x".to_owned(), Column::Numbers(x)),
            ("kind".to_owned(), Column::Categories(kind)),
        ];
        Frame::new(columns).unwrap().with_target(y).unwrap()
    }

    #[test]
    fn splits_are_found_and_shown() {
        let tree = Tree::fit(&frame(), &TreeParams::default()).unwrap();
        assert_eq!(tree.leaves(), 3);
        assert_eq!(
            accuracy(&tree.predict(&frame()).unwrap(), frame().target()),
            1.0
        );
        assert_eq!(
            tree.to_string(),
            "x <= 19.5\n|   class 0  (20 of 0, 0 of 1, 0 of 2)\nx > 19.5\n|   kind is a\n\
             |   |   class 1  (0 of 0, 20 of 1, 0 of 2)\n|   kind is b\n\
             |   |   class 2  (0 of 0, 0 of 1, 20 of 2)\n"
        );
    }

    #[test]
    fn branches_that_are_worth_little_are_cut() {
        let params = TreeParams {
            prune: 0.35,
            ..TreeParams::default()
        };
        let tree = Tree::fit(&frame(), &params).unwrap();
        assert_eq!(tree.leaves(), 1);
        assert_eq!(tree.predict(&frame()).unwrap()[59], 0.0);
    }

    #[test]
    fn a_cut_branch_is_of_the_class_of_most_of_its_rows() {
        let x = (0..10).map(|i| f64::from(i / 5)).collect();
        let y = [0, 0, 1, 1, 1, 0, 0, 2, 2, 2].map(f64::from).to_vec();
        let frame = Frame::new(vec![("x".to_owned(), Column::Numbers(x))]).unwrap();
        let frame = frame.with_target(y).unwrap();
        let class = |prune| {
            let params = TreeParams {
                prune,
                ..TreeParams::default()
            };
            Tree::fit(&frame, &params).unwrap().predict(&frame).unwrap()[0]
        };
        assert_eq!(class(0.0), 1.0);
        // Class 0 wins no leaf, but has the most rows: four of ten.
        assert_eq!(class(1.0), 0.0);
    }
}
