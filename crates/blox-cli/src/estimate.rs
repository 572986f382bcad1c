//! `blox estimate`: models of durations and load, trained from logs.

use super::args::Defaults;
use super::files::{not_taken, write_whole};
use super::output::{prepare, pretty};
use super::value::Share;
use super::{Failure, OK, Terminal};
use blox_learn::{Additive, AdditiveParams, BoostedParams, Loss, Model, TreeParams};
use blox_plot::{Axis, BarChart, Chart, Outline, Series};
use blox_schedulers::estimate::{Log, Recipe, Saved, Split, Training};
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
    /// Write the predictions of a trained model for each row of a log
    Tell(TellArgs),
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

#[derive(Args)]
pub(super) struct Rows {
    /// Hold out the rows from this date on, such as 2020-09-01 (needs --date)
    #[arg(long, value_name = "DATE", conflicts_with = "test_share")]
    pub test_from: Option<String>,
    /// Hold out this fraction of the rows, from the end
    #[arg(long, value_name = "SHARE")]
    pub test_share: Option<Share>,
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
    /// Column with dates: month, day, hour and day of the week become features
    #[arg(long, value_name = "COLUMN")]
    pub date: Option<String>,
    /// Columns with a value every 10 minutes whose past becomes features (needs --date)
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS", requires = "date")]
    pub series: Vec<String>,
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
    /// Count errors beyond this many units linearly instead of squared (additive)
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
pub(super) struct TellArgs {
    /// Model that `train` saved
    pub model: PathBuf,
    /// Log to read
    pub log: PathBuf,
    /// Column that identifies the rows
    #[arg(long, value_name = "COLUMN", default_value = "job_id")]
    pub key: String,
}

/// Returns the defaults of `train`.
pub(super) fn defaults() -> Defaults {
    let additive = AdditiveParams::default();
    let (boosted, tree) = (BoostedParams::default(), TreeParams::default());
    vec![
        ("learning_rate", additive.learning_rate.to_string()),
        ("learning_rate", boosted.learning_rate.to_string()),
        ("pairs", additive.pairs.to_string()),
        ("trees", boosted.trees.to_string()),
        ("depth", tree.depth.to_string()),
        ("least_rows", additive.least_rows.to_string()),
        ("least_rows", boosted.least_rows.to_string()),
        ("least_rows", tree.least_rows.to_string()),
        ("seed", additive.seed.to_string()),
    ]
}

pub(super) fn run(command: EstimateCommand, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    match command {
        EstimateCommand::Train(a) => train(&a, terminal),
        EstimateCommand::Eval(a) => eval(&a, terminal),
        EstimateCommand::Plot(a) => draw(&a, terminal),
        EstimateCommand::Tell(a) => tell(&a, terminal),
    }
}

fn split(rows: &Rows, date: Option<&str>) -> Result<Split, Failure> {
    match (&rows.test_from, rows.test_share, date) {
        (Some(from), _, Some(date)) => Ok(Split::Date(date.to_owned(), from.clone())),
        (Some(_), _, None) => Err(Failure::new(
            "--test-from needs a column with dates, expected --date COLUMN".to_owned(),
        )),
        (None, Some(share), _) => Ok(Split::Share(share.0)),
        (None, None, _) => Ok(Split::All),
    }
}

/// Rejects options of another kind of model.
fn refuse(args: &TrainArgs) -> Result<(), Failure> {
    use Kind::{Additive, Boosted, Tree};
    let options: [(&str, bool, &[Kind]); 6] = [
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
    let split = split(&args.rows, args.date.as_deref())?;
    let (learnt, kept) = log.split(&split)?;
    let saved = Saved::train(&log, &args.target, recipe, &training, &learnt)?;
    told(&saved, &log, &learnt, "learnt from", terminal)?;
    if !kept.is_empty() {
        told(&saved, &log, &kept, "kept back", terminal)?;
    }
    if let Some(path) = &args.output {
        write_whole(path, |out| pretty(out, &saved))?;
    }
    Ok(OK)
}

fn told(
    saved: &Saved,
    log: &Log,
    rows: &[usize],
    which: &str,
    terminal: &mut Terminal<'_>,
) -> Result<(), Failure> {
    let e = saved.errors(log, rows)?;
    write!(terminal.out, "{:<12} {:>7} rows  ", which, e.rows)?;
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
    let split = split(&args.rows, saved.recipe.date.as_deref())?;
    let (all, kept) = log.split(&split)?;
    let rows = if split == Split::All { &all } else { &kept };
    told(&saved, &log, rows, "asked", terminal)?;
    Ok(OK)
}

fn tell(args: &TellArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let saved = Saved::load(&args.model)?;
    let log = Log::read(&args.log)?;
    let keys = log.texts(&args.key)?;
    let said = saved.predict(&log)?;
    let mut out = csv::Writer::from_writer(&mut *terminal.out);
    let wrong = |e: csv::Error| Failure::from(std::io::Error::from(e));
    out.write_record([&*args.key, "priority"]).map_err(wrong)?;
    for (key, value) in keys.iter().zip(said) {
        out.write_record([&**key, &value.to_string()])
            .map_err(wrong)?;
    }
    out.flush()?;
    Ok(OK)
}

fn draw(args: &DrawArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let saved = Saved::load(&args.model)?;
    write!(terminal.out, "{}: {}", saved.target, saved.model)?;
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
        Model::Additive(model) => shapes(model, &saved.target),
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
