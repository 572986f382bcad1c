//! The table of figures: a row for each scheduler, and for each setting or group of jobs.

use super::fields::Fields;
use super::figures::{PARTIAL, estimate, of_measured, partial, total};
use super::grid::{Grid, decimal, percent, range, ratio};
use super::run::value_or_none;
use super::statistics::{LEAST_SEEDS, RECOMMENDED_SEEDS};
use super::text::whole;
use serde_json::Value;

/// A row of a [table of figures](table_of).
#[derive(Clone, Debug)]
pub struct FigureRow<'a> {
    /// The scheduler, then the values of its setting or group.
    pub keys: Vec<String>,
    /// The [flat](super::flattened) figures of each of its runs.
    pub runs: Vec<&'a Fields>,
}

/// The rows of a table of figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rows {
    /// One run each.
    Runs {
        /// True if the runs are compared with a baseline.
        compared: bool,
    },
    /// Several seeds each, compared with a baseline at the same seed.
    Seeds,
    /// One or several seeds each, with different settings.
    Settings,
}

/// The form of a figure. A partial average is marked.
#[derive(Clone, Copy)]
enum Form {
    /// The table lacks the column.
    None,
    /// A number with decimal places.
    Number(usize),
    Percent,
    /// An average over completed jobs.
    Average(usize),
    /// A multiple of an average of the baseline.
    Ratio,
    /// Finish-time fairness.
    Rho(usize),
    PartOfRhos,
}

use Form::{Average, Number, PartOfRhos, Percent, Ratio, Rho};
const NONE: Form = Form::None;

/// Combination of the values of several runs.
#[derive(Clone, Copy, PartialEq)]
enum Over {
    Median,
    Sum,
    /// The sum as a part of all pairs of jobs.
    PartOfPairs,
}

/// When a table has a column.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Always,
    /// If a run has the figure.
    Known,
    /// If the figure of a run is above 0.
    AboveZero,
}

/// A column of figures.
struct Column {
    heading: &'static str,
    /// The name of the figure.
    figure: &'static str,
    /// The forms in tables of runs, of seeds and of settings.
    forms: [Form; 3],
    shown: Shown,
    over: Over,
    /// The form of the ends of the interval that follows.
    interval: Form,
}

const fn column(heading: &'static str, figure: &'static str, forms: [Form; 3]) -> Column {
    Column {
        heading,
        figure,
        forms,
        shown: Shown::Always,
        over: Over::Median,
        interval: NONE,
    }
}

/// Returns a column that a table has if a run has the figure.
const fn known(heading: &'static str, figure: &'static str, form: Form) -> Column {
    Column {
        shown: Shown::Known,
        ..column(heading, figure, [form; 3])
    }
}

/// Returns a column of a count of jobs.
const fn count(heading: &'static str, figure: &'static str, shown: Shown) -> Column {
    Column {
        shown,
        over: Over::Sum,
        ..column(heading, figure, [Number(0); 3])
    }
}

/// Returns a column of a part of the jobs that are compared with the baseline.
const fn pairs(heading: &'static str, figure: &'static str) -> Column {
    Column {
        over: Over::PartOfPairs,
        ..column(heading, figure, [NONE, Percent, NONE])
    }
}

impl Column {
    const fn with_interval(self, interval: Form) -> Self {
        Column { interval, ..self }
    }
}

/// The average as a multiple of the baseline's.
const RELATIVE: &str = "relative_avg_jct";

/// All columns, in order. The names of parts of figures are [flat](super::flattened).
const COLUMNS: [Column; 28] = [
    count("rejected", "rejected", Shown::AboveZero),
    count("failed", "failed", Shown::AboveZero),
    count("unfinished", "unfinished", Shown::AboveZero),
    count("deadline\nmet", "deadlines_met", Shown::Known),
    count("deadline\nmissed", "deadlines_missed", Shown::Known),
    count("deadline\ndeclined", "deadlines_declined", Shown::Known),
    column(
        "avg\nJCT s",
        "avg_jct_s",
        [Average(1), Average(0), Average(1)],
    )
    .with_interval(Number(0)),
    column("relative", RELATIVE, [Ratio, Ratio, NONE]).with_interval(Ratio),
    column("diff. a\njob s", "paired_mean_s", [NONE, Number(0), NONE]).with_interval(Number(0)),
    pairs("faster", "paired_faster"),
    pairs("slower", "paired_slower"),
    column("median\nJCT s", "median_jct_s", [Average(0), NONE, NONE]),
    column("p99\nJCT s", "p99_jct_s", [Average(0), NONE, Average(0)]),
    column(
        "first\nwait s",
        "avg_responsiveness_s",
        [Average(1), Average(0), Average(1)],
    ),
    column("makespan\ns", "makespan_s", [Number(0), NONE, NONE]),
    column("GPUs\nbusy", "utilisation", [Percent; 3]),
    known("node\nhours", "rent_node_hours", Number(1)),
    known("cost", "rent_cost", Number(2)),
    column("preempted", "preemptions", [Number(0), NONE, Number(0)]),
    Column {
        forms: [Rho(2), Rho(2), Number(2)],
        ..known("mean\nrho", "fairness_mean", NONE)
    }
    .with_interval(Number(2)),
    Column {
        forms: [Rho(2), Rho(2), Number(2)],
        ..known("worst\nrho", "fairness_worst", NONE)
    },
    Column {
        forms: [PartOfRhos, PartOfRhos, Percent],
        ..known("unfair", "fairness_unfair", NONE)
    },
    known("needed\nGPU h", "services_needed_gpu_h", Number(1)),
    known("lacking\nGPU h", "services_lacking_gpu_h", Number(1)),
    known("in\nfull", "services_full", Percent),
    known("guaranteed\nevicted", "evictions_guaranteed", Number(0)),
    known("spot\nevicted", "evictions_spot", Number(0)),
    known("broken", "evictions_broken", Number(0)),
];

/// Returns the table of figures. `heads` are the headings of the keys behind the scheduler.
///
/// A row with several runs has medians over them, with an interval if a row has enough runs; counts
/// of jobs are sums. Figures that no run has are left out, and so are counts without a job.
pub fn table_of(rows: &[FigureRow<'_>], heads: &[&str], of: Rows) -> Grid {
    let kind = match of {
        Rows::Runs { .. } => 0,
        Rows::Seeds => 1,
        Rows::Settings => 2,
    };
    let mut grid = Grid::default();
    let mut add = |heading: &str, text: &dyn Fn(&FigureRow<'_>) -> String| {
        grid.head.push(heading.to_owned());
        grid.rows.resize(rows.len(), Vec::new());
        for (cells, row) in grid.rows.iter_mut().zip(rows) {
            cells.push(text(row));
        }
    };
    add("scheduler", &|row| row.keys[0].clone());
    for (i, head) in heads.iter().enumerate() {
        add(head, &|row| value_or_none(&row.keys[i + 1]).to_owned());
    }
    match of {
        Rows::Runs { .. } if !heads.is_empty() => {
            add("jobs", &|row| decimal(row.value("measured", Over::Sum), 0))
        }
        Rows::Settings => add("seeds", &|row| whole(row.runs.len() as u64)),
        _ => {}
    }
    if rows.iter().any(|row| row.partial().is_some()) {
        add("completed", &|row| match (row.partial(), kind) {
            (Some(jobs), _) => of_measured(jobs),
            (None, 0) => {
                let measured = row.value("measured", Over::Sum) as u64;
                of_measured((measured, measured))
            }
            _ => "all".to_owned(),
        });
    }
    let enough = rows.iter().any(|row| row.runs.len() >= LEAST_SEEDS);
    for column in &COLUMNS {
        let form = column.forms[kind];
        let mut values = rows.iter().map(|row| row.value(column.figure, column.over));
        let shown = match (form, column.shown) {
            (Form::None, _) => false,
            _ if column.figure == RELATIVE => of != Rows::Runs { compared: false },
            (_, Shown::Always) => true,
            (_, Shown::Known) => values.any(|value| !value.is_nan()),
            (_, Shown::AboveZero) => values.any(|value| value > 0.0),
        };
        if !shown {
            continue;
        }
        add(column.heading, &|row| row.cell(column, form));
        if enough && !matches!(column.interval, Form::None) {
            add("interval", &|row| row.interval(column));
        }
    }
    grid.words = 1 + heads.len();
    grid
}

impl FigureRow<'_> {
    fn value(&self, figure: &str, over: Over) -> f64 {
        let runs = || self.runs.iter().copied();
        match over {
            Over::Median => estimate(runs(), figure).map_or(f64::NAN, |e| e.median),
            Over::Sum => total(runs(), figure),
            Over::PartOfPairs => total(runs(), figure) / total(runs(), PAIRS),
        }
    }

    /// See [`partial`].
    fn partial(&self) -> Option<(u64, u64)> {
        partial(self.runs.iter().copied())
    }

    /// Returns whether the fairness is over fewer jobs than were measured.
    fn is_partly_rated(&self) -> bool {
        let count = |run: &Fields, name: &str| run.get(name).and_then(Value::as_u64);
        let mut runs = self.runs.iter();
        runs.any(|run| count(run, "fairness_jobs") < count(run, "measured"))
    }

    fn cell(&self, column: &Column, form: Form) -> String {
        let mut text = form.text(self.value(column.figure, column.over));
        let marked = match form {
            Average(_) | Ratio => self.partial().is_some(),
            Rho(_) | PartOfRhos => self.is_partly_rated(),
            Form::None | Number(_) | Percent => false,
        };
        if marked && text != "-" {
            text.push_str(PARTIAL);
        }
        text
    }

    fn interval(&self, column: &Column) -> String {
        // The baseline has no pairs: its ratio is always 1.
        let known = column.figure != RELATIVE || self.runs.iter().any(|r| r.contains_key(PAIRS));
        let estimate = estimate(self.runs.iter().copied(), column.figure).filter(|_| known);
        range(estimate.and_then(|e| e.interval), |end| {
            column.interval.text(end)
        })
    }
}

/// The number of jobs that are compared with the baseline.
const PAIRS: &str = "paired_pairs";

impl Form {
    fn text(self, value: f64) -> String {
        match self {
            Form::None => String::new(),
            Number(places) | Average(places) | Rho(places) => decimal(value, places),
            Percent | PartOfRhos => percent(value),
            Ratio => ratio(value, 1.0),
        }
    }
}

/// Notice for seeds that do not change the results.
pub const ALIKE: &str =
    "every seed gives the same results: nothing depends on the seed, and intervals have no meaning";

/// The values of a table over seeds.
pub const MEDIANS: &str = "medians over seeds; counts of jobs are sums over seeds";

/// Returns the line about the intervals of figures over this number of seeds. The study of coverage
/// measured five and 20 seeds.
pub fn intervals(seeds: usize) -> (String, String) {
    let covers = match seeds {
        LEAST_SEEDS => "measured coverage 93 to 94 %",
        _ => "measured coverage 95 % with 20 seeds",
    };
    let advice = format!("{RECOMMENDED_SEEDS} seeds are recommended");
    let of = format!("of the median over seeds: nominal level 95 %, {covers}");
    let line = match seeds {
        0..LEAST_SEEDS => format!("none for fewer than {LEAST_SEEDS} seeds; {advice}"),
        LEAST_SEEDS..RECOMMENDED_SEEDS => format!("{of}; {advice}"),
        _ => of,
    };
    ("interval".to_owned(), line)
}
