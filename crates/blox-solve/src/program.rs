//! Programs: an objective, variables with bounds, and rows.

/// A variable of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Var(pub(crate) usize);

impl Var {
    /// Returns the index of the variable.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Relation between a row's sum and its right-hand side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// At most.
    AtMost,
    /// Equal.
    Equal,
    /// At least.
    AtLeast,
}

/// A variable in the form for solvers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Weight in the objective.
    pub cost: f64,
    /// Least value, possibly infinite.
    pub low: f64,
    /// Largest value, possibly infinite.
    pub high: f64,
    /// True for whole numbers.
    pub integer: bool,
}

/// A row in the form for solvers.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Variables with their factors, each variable once.
    pub terms: Vec<(Var, f64)>,
    /// Relation between the sum and the bound.
    pub relation: Relation,
    /// The right-hand side.
    pub bound: f64,
}

/// A linear program, optionally with integer variables.
///
/// Its objective can also have [logarithms](Program::log), which [`Interior`](crate::Interior)
/// supports.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(crate) maximises: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    /// Variables with the weights of their logarithms.
    pub(crate) logs: Vec<(Var, f64)>,
}

impl Program {
    /// Creates a program that maximises.
    pub fn maximise() -> Self {
        Program {
            maximises: true,
            columns: Vec::new(),
            rows: Vec::new(),
            logs: Vec::new(),
        }
    }

    /// Creates a program that minimises.
    pub fn minimise() -> Self {
        Program {
            maximises: false,
            ..Program::maximise()
        }
    }

    /// Adds a real variable with its weight in the objective and its bounds, which may be infinite.
    pub fn real(&mut self, weight: f64, low: f64, high: f64) -> Var {
        self.column(Column {
            cost: weight,
            low,
            high,
            integer: false,
        })
    }

    /// Adds a whole number with its weight in the objective and its bounds.
    pub fn integer(&mut self, weight: f64, low: i32, high: i32) -> Var {
        self.column(Column {
            cost: weight,
            low: low.into(),
            high: high.into(),
            integer: true,
        })
    }

    /// Adds a variable that is 0 or 1, with its weight in the objective.
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

    /// Adds a row. Terms with the same variable add up.
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

    /// Adds the constraint that the sum is at most `bound`.
    pub fn at_most(&mut self, terms: &[(Var, f64)], bound: f64) {
        self.row(terms, Relation::AtMost, bound);
    }

    /// Adds the constraint that the sum is at least `bound`.
    pub fn at_least(&mut self, terms: &[(Var, f64)], bound: f64) {
        self.row(terms, Relation::AtLeast, bound);
    }

    /// Adds the constraint that the sum equals `bound`.
    pub fn equal(&mut self, terms: &[(Var, f64)], bound: f64) {
        self.row(terms, Relation::Equal, bound);
    }

    /// Adds `weight` times the natural logarithm of a variable to a maximised objective, or
    /// subtracts it from a minimised one. The weight is above 0.
    pub fn log(&mut self, var: Var, weight: f64) {
        self.logs.push((var, weight));
    }

    /// Returns true if the objective has logarithms.
    pub fn is_curved(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Returns true if the objective is maximised.
    pub fn maximises(&self) -> bool {
        self.maximises
    }

    /// Returns the variables in order. A custom solver needs these and [`Program::rows`].
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the rows in order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the number of variables.
    pub fn variables(&self) -> usize {
        self.columns.len()
    }

    /// Returns true if the program has integers.
    pub fn has_integers(&self) -> bool {
        self.columns.iter().any(|c| c.integer)
    }

    /// Returns the objective at the given values.
    pub fn objective_at(&self, values: &[f64]) -> f64 {
        let each = self.columns.iter().zip(values).map(|(c, v)| c.cost * v);
        let sign = if self.maximises { 1.0 } else { -1.0 };
        let log = |(var, weight): &(Var, f64)| {
            let value = values.get(var.0);
            value.map_or(0.0, |v| sign * weight * v.ln())
        };
        each.sum::<f64>() + self.logs.iter().map(log).sum::<f64>()
    }

    /// Returns the program that chooses among solutions with an objective of `best`: it minimises
    /// the weighted sum of values.
    pub(crate) fn among_optimal(&self, best: f64) -> Program {
        let mut tied = self.clone();
        tied.maximises = false;
        let slack = 1e-9 * best.abs().max(1.0);
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
        let count = tied.columns.len().max(1) as f64;
        for (i, column) in tied.columns.iter_mut().enumerate() {
            // Weights 1, 2, 3, ..., scaled to at most 1.
            column.cost = (i + 1) as f64 / count;
        }
        tied
    }
}
