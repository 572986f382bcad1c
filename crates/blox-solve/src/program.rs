//! A program: an objective, variables with bounds, rows.

/// A variable of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Var(pub(crate) usize);

impl Var {
    /// Its place among the variables, from 0.
    pub fn index(self) -> usize {
        self.0
    }
}

/// How a row's sum relates to its right-hand side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// At most.
    AtMost,
    /// Equal.
    Equal,
    /// At least.
    AtLeast,
}

/// A variable as a solver sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Its weight in the objective.
    pub cost: f64,
    /// Its least value; may be infinite.
    pub low: f64,
    /// Its greatest value; may be infinite.
    pub high: f64,
    /// True if it is a whole number.
    pub integer: bool,
}

/// A row as a solver sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Each variable once, with its factor.
    pub terms: Vec<(Var, f64)>,
    /// How the sum relates to the bound.
    pub relation: Relation,
    /// The right-hand side.
    pub bound: f64,
}

/// Two variables whose geometric mean is at least a third.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    pub of: [Var; 2],
    pub mean: Var,
}

/// A linear program, with integers where variables say so, and two kinds of
/// curved terms that the interior-point method takes as well: geometric means
/// ([`Program::geometric_mean_at_least`]) and squared distances ([`Program::near`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(crate) maximises: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    pub(crate) means: Vec<Mean>,
    /// Weight and target of a squared distance, by variable.
    pub(crate) near: Vec<(Var, f64, f64)>,
}

impl Program {
    /// A program that maximises.
    pub fn maximise() -> Self {
        Program {
            maximises: true,
            columns: Vec::new(),
            rows: Vec::new(),
            means: Vec::new(),
            near: Vec::new(),
        }
    }

    /// A program that minimises.
    pub fn minimise() -> Self {
        Program {
            maximises: false,
            ..Program::maximise()
        }
    }

    /// A real variable with its weight in the objective and its bounds, which
    /// may be infinite.
    pub fn real(&mut self, weight: f64, low: f64, high: f64) -> Var {
        self.column(Column {
            cost: weight,
            low,
            high,
            integer: false,
        })
    }

    /// A whole number.
    pub fn integer(&mut self, weight: f64, low: i32, high: i32) -> Var {
        self.column(Column {
            cost: weight,
            low: low.into(),
            high: high.into(),
            integer: true,
        })
    }

    /// 0 or 1.
    pub fn binary(&mut self, weight: f64) -> Var {
        self.integer(weight, 0, 1)
    }

    fn column(&mut self, column: Column) -> Var {
        self.columns.push(column);
        Var(self.columns.len() - 1)
    }

    /// Adds to a variable's weight in the objective.
    pub fn add_weight(&mut self, var: Var, weight: f64) {
        self.columns[var.0].cost += weight;
    }

    /// A row. Terms of one variable add up.
    pub fn row(&mut self, terms: &[(Var, f64)], relation: Relation, bound: f64) {
        if terms.is_sorted_by(|(a, _), (b, _)| a < b) {
            let terms = terms.to_vec();
            self.rows.push(Row {
                terms,
                relation,
                bound,
            });
            return;
        }
        let mut sums: Vec<(Var, f64)> = Vec::with_capacity(terms.len());
        for &(var, factor) in terms {
            match sums.iter_mut().find(|(v, _)| *v == var) {
                Some((_, sum)) => *sum += factor,
                None => sums.push((var, factor)),
            }
        }
        self.rows.push(Row {
            terms: sums,
            relation,
            bound,
        });
    }

    /// The sum is at most `bound`.
    pub fn at_most(&mut self, terms: &[(Var, f64)], bound: f64) {
        self.row(terms, Relation::AtMost, bound);
    }

    /// The sum is at least `bound`.
    pub fn at_least(&mut self, terms: &[(Var, f64)], bound: f64) {
        self.row(terms, Relation::AtLeast, bound);
    }

    /// The sum is `bound`.
    pub fn equal(&mut self, terms: &[(Var, f64)], bound: f64) {
        self.row(terms, Relation::Equal, bound);
    }

    /// The geometric mean of two variables, neither of them negative, is at least a third.
    pub fn geometric_mean_at_least(&mut self, a: Var, b: Var, mean: Var) {
        self.means.push(Mean { of: [a, b], mean });
    }

    /// Adds `weight`, not negative, times the squared distance of a variable from
    /// `target` to what is minimised (takes it from what is maximised).
    pub fn near(&mut self, var: Var, target: f64, weight: f64) {
        self.near.push((var, target, weight));
    }

    /// Returns whether it has geometric means or squared distances.
    pub fn is_curved(&self) -> bool {
        !(self.means.is_empty() && self.near.is_empty())
    }

    /// Returns whether the objective is maximised; else minimised.
    pub fn maximises(&self) -> bool {
        self.maximises
    }

    /// The variables, in order: what a solver of one's own needs, with [`Program::rows`].
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The rows, in order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns how many variables it has.
    pub fn variables(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether it has integers.
    pub fn has_integers(&self) -> bool {
        self.columns.iter().any(|c| c.integer)
    }

    /// The objective at some values.
    pub fn objective_at(&self, values: &[f64]) -> f64 {
        let each = self.columns.iter().zip(values).map(|(c, v)| c.cost * v);
        let sign = if self.maximises { -1.0 } else { 1.0 };
        let distance = |&(var, target, weight): &(Var, f64, f64)| {
            let off = values.get(var.0).map_or(0.0, |v| v - target);
            sign * weight * off * off
        };
        each.sum::<f64>() + self.near.iter().map(distance).sum::<f64>()
    }

    /// The program that chooses among solutions that are as good as `best`: the
    /// least sum of weighted values.
    pub(crate) fn among_optimal(&self, best: f64) -> Program {
        let mut tied = self.as_good_as(best, 1e-9);
        let count = tied.columns.len().max(1) as f64;
        for (i, column) in tied.columns.iter_mut().enumerate() {
            // 1, 2, 3, ... scaled to stay near 1.
            column.cost = (i + 1) as f64 / count;
        }
        tied
    }

    /// The program of all solutions that are as good as `best` up to a relative
    /// slack, with nothing to choose among them yet; it minimises.
    pub(crate) fn as_good_as(&self, best: f64, slack: f64) -> Program {
        let mut tied = self.clone();
        tied.maximises = false;
        let slack = slack * best.abs().max(1.0);
        let terms: Vec<_> = self
            .columns
            .iter()
            .enumerate()
            .filter(|(_, c)| c.cost != 0.0)
            .map(|(i, c)| (Var(i), c.cost))
            .collect();
        if self.maximises {
            tied.at_least(&terms, best - slack);
        } else {
            tied.at_most(&terms, best + slack);
        }
        tied.columns.iter_mut().for_each(|c| c.cost = 0.0);
        tied
    }
}
