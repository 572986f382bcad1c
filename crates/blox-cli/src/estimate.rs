//! `blox estimate`: models of durations and load, trained from logs.

use super::files::{check_writable, not_taken, write_whole};
use super::output::{prepare, pretty};
use super::value::number;
use crate::failure::Failure;
use crate::terminal::{OK, Terminal};
use blox_components::estimate::{ByKey, Errors, Log, Recipe, Saved, Scale, Split, Training};
use blox_learn::{Additive, AdditiveParams, BoostedParams, Loss, Model, TreeParams};
use blox_plot::{Axis, BarChart, Chart, Outline, Series};
use clap::{Args, Subcommand, ValueEnum};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one a process")]
pub(super) enum EstimateCommand {
    /// Train a model from a log, and report its errors on the held-out rows
    Train(TrainArgs),
    /// Report the errors of a trained model on a log
    Eval(EvalArgs),
    /// Print a trained model, and draw the effect of each feature or the tree
    Plot(DrawArgs),
    /// Write a log with a column of the predictions of a trained model
    #[command(name = "tell")]
    Predict(PredictArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A sum of functions of one feature and of pairs (GA2M)
    Additive,
    /// Gradient-boosted trees
    Boosted,
    /// A decision tree that names a class
    Tree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnScale {
    /// Logarithms of the target: predictions are above 0, and errors are relative
    Log,
    /// The target itself: predictions may be negative
    Linear,
}

#[derive(Args)]
pub(super) struct Rows {
    /// Hold out the rows from this date or number of seconds on, such as 2020-09-01 (needs --date)
    #[arg(long, value_name = "DATE", conflicts_with = "test_share")]
    pub test_from: Option<String>,
    /// Hold out this fraction of the rows: the latest by --date, else the last ones [default of
    /// train: 0.2]
    #[arg(
        long,
        value_name = "SHARE",
        value_parser = number("a part of at least 0 and below 1", |v| (0.0..1.0).contains(&v))
    )]
    pub test_share: Option<f64>,
}

#[derive(Args)]
pub(super) struct TrainArgs {
    /// Log to read, a CSV file with a header
    pub log: PathBuf,
    /// Column to predict
    #[arg(long, value_name = "COLUMN")]
    pub target: String,
    /// Kind of model
    #[arg(long, value_enum, default_value_t = Kind::Additive)]
    pub model: Kind,
    /// Columns that are features, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    pub features: Vec<String>,
    /// Column with dates, or with seconds: month, day, hour and day of the week become features
    #[arg(long, value_name = "COLUMN")]
    pub date: Option<String>,
    /// Columns with a value every 10 minutes whose past becomes features (needs --date)
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS", requires = "date")]
    pub series: Vec<String>,
    /// Scale on which the model predicts [default: log; with --series and for trees: linear]
    #[arg(long, value_enum)]
    pub scale: Option<OnScale>,
    #[command(flatten)]
    pub rows: Rows,
    /// File in which to save the model
    #[arg(long, short, value_name = "FILE.json")]
    pub output: Option<PathBuf>,
    /// Learning rate: fraction of each step that is applied (additive, boosted) [default: {};
    /// boosted: {}]
    #[arg(long)]
    pub learning_rate: Option<f64>,
    /// Number of feature pairs with a term of their own (additive) [default: {}]
    #[arg(long)]
    pub pairs: Option<usize>,
    /// Count errors beyond this many units of the scale linearly instead of squared (additive)
    #[arg(long, value_name = "UNITS")]
    pub huber: Option<f64>,
    /// Number of trees (boosted) [default: {}]
    #[arg(long)]
    pub trees: Option<usize>,
    /// Maximum number of splits from the root to a leaf (tree) [default: {}]
    #[arg(long)]
    pub depth: Option<usize>,
    /// Minimum number of rows in a leaf [default: {}; boosted: {}; tree: {}]
    #[arg(long)]
    pub least_rows: Option<usize>,
    /// Seed of random numbers (additive) [default: {}]
    #[arg(long)]
    pub seed: Option<u64>,
}

#[derive(Args)]
pub(super) struct EvalArgs {
    /// Model that `train` saved
    pub model: PathBuf,
    /// Log to read
    pub log: PathBuf,
    #[command(flatten)]
    pub rows: Rows,
}

#[derive(Args)]
pub(super) struct DrawArgs {
    /// Model that `train` saved
    pub model: PathBuf,
    /// Output folder
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Write into a folder that is not empty
    #[arg(long)]
    pub force: bool,
}

#[derive(Args)]
pub(super) struct PredictArgs {
    /// Model that `train` saved
    pub model: PathBuf,
    /// Log to read
    pub log: PathBuf,
    /// Write only this column, which identifies the rows, and the predictions
    #[arg(long, value_name = "COLUMN")]
    pub key: Option<String>,
    /// Name of the column of predictions
    #[arg(long, value_name = "COLUMN", default_value = "attributes.estimate_s")]
    pub column: String,
    /// File to write instead of standard output
    #[arg(long, short, value_name = "FILE.csv")]
    pub output: Option<PathBuf>,
}

pub(super) fn run(command: EstimateCommand, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    match command {
        EstimateCommand::Train(a) => train(&a, terminal),
        EstimateCommand::Eval(a) => eval(&a, terminal),
        EstimateCommand::Plot(a) => draw(&a, terminal),
        EstimateCommand::Predict(a) => predict(&a, terminal),
    }
}

fn split(rows: &Rows, date: Option<&str>, default: f64) -> Result<Split, Failure> {
    match (&rows.test_from, rows.test_share, date) {
        (Some(from), _, Some(date)) => Ok(Split::Date(date.to_owned(), from.clone())),
        (Some(_), _, None) => Err(Failure::new(
            "--test-from needs a column with dates, expected --date COLUMN".to_owned(),
        )),
        (None, share, date) => match share.unwrap_or(default) {
            0.0 => Ok(Split::All),
            share => Ok(Split::Share(share, date.map(str::to_owned))),
        },
    }
}

/// Rejects options of another kind of model.
fn refuse(args: &TrainArgs) -> Result<(), Failure> {
    use Kind::{Additive, Boosted, Tree};
    let options: [(&str, bool, &[Kind]); 7] = [
        (
            "scale",
            args.scale == Some(OnScale::Log),
            &[Additive, Boosted],
        ),
        (
            "learning-rate",
            args.learning_rate.is_some(),
            &[Additive, Boosted],
        ),
        ("pairs", args.pairs.is_some(), &[Additive]),
        ("huber", args.huber.is_some(), &[Additive]),
        ("seed", args.seed.is_some(), &[Additive]),
        ("trees", args.trees.is_some(), &[Boosted]),
        ("depth", args.depth.is_some(), &[Tree]),
    ];
    for (option, is_given, kinds) in options {
        if is_given && !kinds.contains(&args.model) {
            let name = |kind: &Kind| format!("{kind:?}").to_lowercase();
            let kinds: Vec<String> = kinds.iter().map(name).collect();
            return Err(Failure::new(format!(
                "--{option} has no meaning with --model {}, only with {}",
                name(&args.model),
                kinds.join(" or ")
            )));
        }
    }
    Ok(())
}

fn train(args: &TrainArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    args.output.as_deref().map_or(Ok(()), check_writable)?;
    refuse(args)?;
    let log = Log::read(&args.log)?;
    if args.features.is_empty() && args.date.is_none() {
        return Err(Failure::new(format!(
            "no features, expected --features with some of {}, or --date",
            log.header().join(", ")
        )));
    }
    let recipe = Recipe {
        columns: args.features.clone(),
        date: args.date.clone(),
        series: args.series.clone(),
    };
    let training = match args.model {
        Kind::Additive => {
            let default = AdditiveParams::default();
            Training::Additive(AdditiveParams {
                learning_rate: args.learning_rate.unwrap_or(default.learning_rate),
                pairs: args.pairs.unwrap_or(default.pairs),
                least_rows: args.least_rows.unwrap_or(default.least_rows),
                loss: args
                    .huber
                    .map_or(Loss::Squared, |width| Loss::Huber { width }),
                seed: args.seed.unwrap_or(default.seed),
                ..default
            })
        }
        Kind::Boosted => {
            let default = BoostedParams::default();
            Training::Boosted(BoostedParams {
                trees: args.trees.unwrap_or(default.trees),
                learning_rate: args.learning_rate.unwrap_or(default.learning_rate),
                least_rows: args.least_rows.unwrap_or(default.least_rows),
                ..default
            })
        }
        Kind::Tree => {
            let default = TreeParams::default();
            Training::Tree(TreeParams {
                depth: args.depth.unwrap_or(default.depth),
                least_rows: args.least_rows.unwrap_or(default.least_rows),
                ..default
            })
        }
    };
    let split = split(&args.rows, args.date.as_deref(), HELD_OUT)?;
    let (learnt, kept) = log.split(&split)?;
    let on_log = match args.scale {
        None => args.series.is_empty(),
        Some(scale) => scale == OnScale::Log,
    };
    let saved = Saved::train(&log, &args.target, recipe, &training, on_log, &learnt)?;
    print("training", &saved.errors(&log, &learnt)?, terminal)?;
    let mut notices = Vec::new();
    if kept.is_empty() {
        notices.push("no row is held out: the error on other rows is unknown".to_owned());
    } else {
        let errors = saved.errors(&log, &kept)?;
        let by_key = saved.by_key(&log, &learnt, &kept)?;
        print("held out", &errors, terminal)?;
        print(&name_of(&saved, &by_key), &by_key.errors, terminal)?;
        if by_key.beats(&errors) {
            notices.push(format!(
                "on held-out rows the model is worse than the {}: use other features, or another --model",
                name_of(&saved, &by_key)
            ));
        }
    }
    for feature in &saved.optional {
        notices.push(format!(
            "some rows have no value of {feature}: the model also accepts jobs without it"
        ));
    }
    terminal.notices(&notices);
    if let Some(path) = &args.output {
        write_whole(path, |out| pretty(out, &saved))?;
    }
    Ok(OK)
}

/// Fraction of the rows that `train` holds out by default.
const HELD_OUT: f64 = 0.2;

/// Returns the name of a prediction by a key.
fn name_of(saved: &Saved, by_key: &ByKey) -> String {
    let mean = match (&saved.model, saved.scale) {
        (Model::Tree(_), _) => "most frequent class",
        (_, Scale::Log { .. }) => "geometric mean",
        (_, Scale::Linear) => "mean",
    };
    match &by_key.key {
        Some(key) => format!("{mean} by {key}"),
        None => format!("{mean} of all"),
    }
}

fn print(which: &str, e: &Errors, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    write!(terminal.out, "{:<26} {:>7} rows  ", which, e.rows)?;
    match e.accuracy {
        Some(right) => writeln!(terminal.out, "accuracy {right:.4}")?,
        None => writeln!(
            terminal.out,
            "MAE {:.4}  RMSE {:.4}  R2 {:.4}  SMAPE {:.2} %",
            e.mae, e.rmse, e.r2, e.smape
        )?,
    }
    Ok(())
}

fn eval(args: &EvalArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let saved = Saved::load(&args.model)?;
    let log = Log::read(&args.log)?;
    let split = split(&args.rows, saved.recipe.date.as_deref(), 0.0)?;
    let (all, kept) = log.split(&split)?;
    let rows = if split == Split::All { &all } else { &kept };
    print("evaluated", &saved.errors(&log, rows)?, terminal)?;
    Ok(OK)
}

fn predict(args: &PredictArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    args.output.as_deref().map_or(Ok(()), check_writable)?;
    let saved = Saved::load(&args.model)?;
    let log = Log::read(&args.log)?;
    let others = log.header().iter().filter(|name| **name != args.column);
    let columns: Vec<&str> = match &args.key {
        Some(key) => vec![key],
        None => others.map(String::as_str).collect(),
    };
    let mut table = Vec::new();
    for column in &columns {
        table.push(log.texts(column)?);
    }
    let predictions = saved.predict(&log)?;
    let write = |out: &mut dyn std::io::Write| {
        let mut out = csv::Writer::from_writer(out);
        out.write_record(columns.iter().copied().chain([&*args.column]))?;
        for (i, prediction) in predictions.iter().enumerate() {
            let prediction = prediction.to_string();
            let row = table.iter().map(|column| &*column[i]);
            out.write_record(row.chain([&*prediction]))?;
        }
        out.flush()
    };
    match &args.output {
        Some(path) => write_whole(path, |out| write(out))?,
        None => write(&mut *terminal.out)?,
    }
    Ok(OK)
}

fn draw(args: &DrawArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let saved = Saved::load(&args.model)?;
    write!(terminal.out, "{}: {}", on_scale(&saved), saved.model)?;
    let Some(dir) = &args.output_dir else {
        return Ok(OK);
    };
    let _lock = prepare(dir, args.force)?;
    let mut taken = BTreeSet::new();
    for (name, svg) in pictures(&saved) {
        let file = not_taken(in_path(&name), |name| taken.contains(name));
        taken.insert(file.clone());
        write_whole(&dir.join(file + ".svg"), |out| {
            out.write_all(svg.as_bytes())
        })?;
    }
    Ok(OK)
}

/// Returns the name of the predicted value.
fn on_scale(saved: &Saved) -> String {
    match saved.scale {
        Scale::Log { .. } => format!("ln {}", saved.target),
        Scale::Linear => saved.target.clone(),
    }
}

/// Returns a name that is valid in a path.
fn in_path(name: &str) -> String {
    let fit = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => c,
        _ => '-',
    };
    name.chars().map(fit).collect()
}

/// Draws importances and one picture for each function, or the splits of a tree.
fn pictures(saved: &Saved) -> Vec<(String, String)> {
    match &saved.model {
        Model::Additive(model) => shapes(model, &on_scale(saved)),
        Model::Boosted(model) => {
            let mut bars = BarChart::new("What the questions explain", Axis::fraction("share"));
            for (feature, share) in model.importances().into_iter().take(20) {
                bars = bars.with(feature, [("share", share)]);
            }
            vec![("importance".to_owned(), bars.svg())]
        }
        Model::Tree(tree) => {
            let outline = Outline::new("Decision tree", tree.lines());
            vec![("tree".to_owned(), outline.svg())]
        }
    }
}

fn shapes(model: &Additive, target: &str) -> Vec<(String, String)> {
    let mut terms: Vec<(String, f64)> = model
        .shapes()
        .iter()
        .map(|s| (s.feature().to_owned(), s.importance()))
        .chain(model.pairs().iter().map(|p| {
            let (a, b) = p.features();
            (format!("{a} with {b}"), p.importance())
        }))
        .collect();
    terms.sort_by(|a, b| b.1.total_cmp(&a.1));
    let axis = || Axis::new(format!("adds to {target}"));
    let mut bars = BarChart::new("Importance of terms", axis());
    for (name, importance) in terms.into_iter().take(20) {
        bars = bars.with(name, [("importance", importance)]);
    }
    let mut pictures = vec![("importance".to_owned(), bars.svg())];
    for shape in model.shapes() {
        let name = format!("shape-{}", shape.feature());
        let svg = match shape.steps() {
            Some(steps) => Chart::new(shape.feature(), Axis::new(shape.feature()), axis())
                .with(Series::steps(shape.feature(), steps))
                .svg(),
            None => {
                let mut bars = BarChart::new(shape.feature(), axis());
                // The most common categories.
                let mut bins = shape.bins();
                bins.sort_by_key(|(_, _, rows)| std::cmp::Reverse(*rows));
                for (label, score, _) in bins.into_iter().take(20) {
                    bars = bars.with(label, [("adds", score)]);
                }
                bars.svg()
            }
        };
        pictures.push((name, svg));
    }
    pictures
}
