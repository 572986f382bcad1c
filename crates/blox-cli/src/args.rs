//! Arguments of commands.

use super::value::FileFormats;
use crate::shard::GivenShard;
use blox_experiment::Experiment;
use blox_experiment::value::{Axis, By, Loads, Period, Seeds, Written, parser};
use blox_registry::ComponentSpec;
use blox_results::grid::Form;
use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct SimulateArgs {
    /// Scheduler, as NAME or 'NAME{PARAMETER=VALUE,...}'
    #[arg(value_name = "SCHEDULER")]
    pub positional: Option<String>,
    /// Scheduler, same as the positional argument
    #[arg(long, short, value_name = "NAME", conflicts_with = "positional")]
    pub scheduler: Option<String>,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Args)]
#[command(mut_args(hide_results))]
pub(super) struct StepArgs {
    #[command(flatten)]
    pub simulate: SimulateArgs,
}

#[derive(Args)]
#[command(mut_args(hide_all_but_policies))]
pub(super) struct ReplayArgs {
    /// Journal to replay
    #[arg(value_name = "JOURNAL")]
    pub file: Option<String>,
    /// The journal is of `blox cluster up`: too large jobs wait for a larger allocation
    #[arg(long)]
    pub of_allocation: bool,
    #[command(flatten)]
    pub simulate: SimulateArgs,
}

#[derive(Args)]
pub(super) struct CompareArgs {
    /// Schedulers, as NAME or 'NAME{PARAMETER=VALUE,...}'; the first is the baseline
    #[arg(value_name = "SCHEDULER")]
    pub schedulers: Vec<String>,
    /// Repeat with each of these seeds, such as 0..9 or 1,2,5, and print confidence intervals
    #[arg(long, value_name = "SEEDS")]
    pub seeds: Option<Written<Seeds>>,
    /// Scheduler with which the others are compared, job by job [default: the first]
    #[arg(long, value_name = "SCHEDULER")]
    pub baseline: Option<String>,
    /// Number of simultaneous simulations [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = parser::<NonZeroUsize>("a whole number, at least 1"))]
    pub threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub parts: PartArgs,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Args)]
#[command(mut_args(hide_plot), args_conflicts_with_subcommands = true)]
pub(super) struct SweepArgs {
    #[command(subcommand)]
    pub command: Option<SweepCommand>,
    /// Schedulers, as NAME or 'NAME{PARAMETER=VALUE|VALUE,...}', or a TOML file
    ///
    /// The keys of the file are the long names of these options, `schedulers = [...]` and a table
    /// `[vary]`. The command line takes precedence.
    #[arg(value_name = "SCHEDULER|FILE.toml")]
    pub schedulers: Vec<String>,
    /// Jobs per hour, such as 1..9, 4..8:0.5 (in steps) or 2,4,8
    #[arg(long, value_name = "LOADS")]
    pub loads: Option<Written<Loads>>,
    /// Seeds, such as 0..9 or 1,2,5
    #[arg(long, value_name = "SEEDS")]
    pub seeds: Option<Written<Seeds>>,
    /// Any other option, by its long name; may be given more than once
    #[arg(long, value_name = "OPTION=VALUE|VALUE")]
    pub vary: Vec<Axis>,
    /// Number of simultaneous simulations [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = parser::<NonZeroUsize>("a whole number, at least 1"))]
    pub threads: Option<NonZeroUsize>,
    /// Only the runs of shard K of N, into DIR/shard-K-of-N; `blox sweep merge` joins all shards
    ///
    /// slurm and k8s read the number from the environment of a task of a job array, and env:NAME/N
    /// from a variable.
    #[arg(long, value_name = "K/N", value_parser = parser::<GivenShard>("K/N, slurm, slurm/N, k8s/N or env:NAME/N"))]
    pub shard: Option<GivenShard>,
    #[command(flatten, next_help_heading = "Job array")]
    pub array: ArrayArgs,
    #[command(flatten)]
    pub options: Options,
}

/// Options of a sweep as a job array.
#[derive(Args)]
pub(super) struct ArrayArgs {
    /// Run the shards as the tasks of a job array, and merge them: slurm
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        hide_possible_values = true,
        conflicts_with = "shard"
    )]
    pub on: Option<ArrayCarrier>,
    /// Number of tasks [default: the number of runs, at most 64]
    #[arg(long, value_name = "N", requires = "on", value_parser = parser::<NonZeroU32>("a whole number, at least 1"))]
    pub tasks: Option<NonZeroU32>,
    /// Partition of the tasks
    #[arg(long, value_name = "NAME", requires = "on")]
    pub partition: Option<String>,
    /// Account of the tasks
    #[arg(long, value_name = "NAME", requires = "on")]
    pub account: Option<String>,
    /// Time limit of each task, as sbatch takes it
    #[arg(long, value_name = "TIME", requires = "on")]
    pub time: Option<String>,
    /// Largest number of tasks that run at a time
    #[arg(long, value_name = "N", requires = "on", value_parser = parser::<NonZeroU32>("a whole number, at least 1"))]
    pub max_parallel: Option<NonZeroU32>,
    /// Further option of sbatch, such as --slurm-arg=--mem=2G; may be given more than once
    #[arg(long, value_name = "ARG", requires = "on", allow_hyphen_values = true)]
    pub slurm_arg: Vec<String>,
    /// Number of new tasks for a shard whose task ends without a result
    #[arg(long, value_name = "N", requires = "on", default_value_t = 2)]
    pub retries: u32,
    /// Submit the tasks and return; the same command without it waits and merges
    #[arg(long, requires = "on")]
    pub detach: bool,
    /// Print the batch script instead of submitting it
    #[arg(long, requires = "on", conflicts_with = "detach")]
    pub dry_run: bool,
}

/// Carrier of the tasks of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ArrayCarrier {
    Slurm,
}

/// Commands about a sweep.
#[derive(Subcommand)]
pub(super) enum SweepCommand {
    /// Join the shards of a sweep
    Merge(MergeArgs),
    /// Count the shards and runs of a sweep on a job array
    Status {
        /// Folder of the sweep
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

#[derive(Args)]
pub(super) struct MergeArgs {
    /// Folders of shards, or folders with shard-K-of-N in them
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Folder of the whole sweep
    #[arg(long, value_name = "DIR")]
    pub output_dir: PathBuf,
    /// Write into a folder that is not empty, replacing earlier results
    #[arg(long)]
    pub force: bool,
    /// Print no notes
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of a command that prints one result of many runs, which several machines may share.
#[derive(Args)]
pub(super) struct PartArgs {
    /// Only the runs of shard K of N, kept in DIR/shard-K-of-N; --merge prints the result of all
    ///
    /// slurm and k8s read the number from the environment of a task of a job array, and env:NAME/N
    /// from a variable.
    #[arg(long, value_name = "K/N", conflicts_with = "merge", value_parser = parser::<GivenShard>("K/N, slurm, slurm/N, k8s/N or env:NAME/N"))]
    pub shard: Option<GivenShard>,
    /// Read the runs from the shards in DIR instead of running them; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub merge: Vec<PathBuf>,
}

#[derive(Args)]
pub(super) struct ClaimsArgs {
    /// Schedulers, or single claims as SCHEDULER/CLAIM [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// List the claims, with their runs and seconds, instead of checking them
    #[arg(long)]
    pub list: bool,
    /// Only the fast set: some claims of every scheduler
    #[arg(long)]
    pub fast: bool,
    /// Number of simultaneous simulations [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = parser::<NonZeroUsize>("a whole number, at least 1"))]
    pub threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub parts: PartArgs,
    /// Folder of the shards
    #[arg(long, value_name = "DIR", requires = "shard")]
    pub output_dir: Option<PathBuf>,
    /// Format of standard output: table, csv or json [default: {}]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub output_format: Option<OutputFormat>,
    /// Form of the table: plain, markdown or latex [default: {}]
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    pub table: Option<TableStyle>,
    /// Same as --output-format json
    #[arg(long)]
    pub json: bool,
    /// Print no progress and no reasons of expected verdicts
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// Folder of one case, or of several case folders [default: the cases in the program]
    pub dir: Option<PathBuf>,
    /// System of all cases; detected from their files if left out
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// Show every difference, not only the first 20 of each case
    #[arg(long)]
    pub all: bool,
    /// Show a hash of the events, state versions and decisions of each case, to compare two builds
    #[arg(long)]
    pub fingerprint: bool,
}

#[derive(Args)]
pub(super) struct NewArgs {
    /// Folder to create
    pub path: PathBuf,
    /// Name of the crate and of its parts [default: the folder's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Write a scheduling policy: the jobs to run and their order [default, if no part is named]
    #[arg(long)]
    pub policy: bool,
    /// Write a placement: the GPUs of each job
    #[arg(long)]
    pub placement: bool,
    /// Write an admission policy: the jobs that enter the queue
    #[arg(long)]
    pub admission: bool,
    /// Write a cluster manager: the nodes that are used
    #[arg(long)]
    pub cluster_manager: bool,
    /// Write a collector: figures of a run
    #[arg(long)]
    pub collector: bool,
    /// Write an execution model: the speed of jobs
    #[arg(long)]
    pub execution: bool,
}

#[derive(Args)]
pub(super) struct PlotArgs {
    /// Result folders that simulate, compare or sweep wrote with --output-dir
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Output folder [default: DIR/plots, if there is one DIR]
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Draw only the picture of this name; may be given several times
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Draw one picture into this file; the extension is svg, png or pdf
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["output_dir", "png", "pdf"])]
    pub output: Option<PathBuf>,
    /// Write PNG in addition to SVG (in builds with the feature `png`)
    #[arg(long)]
    pub png: bool,
    /// Write PDF in addition to SVG (in builds with the feature `png`)
    #[arg(long)]
    pub pdf: bool,
}

#[derive(Args)]
pub(super) struct ReportArgs {
    /// Result folders that simulate, compare or sweep wrote with --output-dir
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// HTML file to write [default: DIR/report.html, if there is one DIR]
    #[arg(long, short, value_name = "FILE.html")]
    pub output: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct ReproduceArgs {
    /// Name of the figure
    #[arg(required_unless_present = "list")]
    pub figure: Option<String>,
    /// List all figures and the data that they need
    #[arg(long, conflicts_with = "figure")]
    pub list: bool,
    /// Folder with the data that does not ship with the toolkit
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub parts: PartArgs,
    /// Write its numbers as CSV and its pictures as SVG into this folder; with --shard, the shard
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Write into a folder that is not empty
    #[arg(long)]
    pub force: bool,
    /// Print no progress and no notes
    #[arg(long, short)]
    pub quiet: bool,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OutputFormat {
    #[default]
    Table,
    Csv,
    Json,
}

/// Form of the tables on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TableStyle {
    #[default]
    Plain,
    Markdown,
    Latex,
}

impl TableStyle {
    /// Returns the form of tables. `plain` is the form for a terminal or a file.
    pub fn form(self, plain: Form) -> Form {
        match self {
            TableStyle::Plain => plain,
            TableStyle::Markdown => Form::Markdown,
            TableStyle::Latex => Form::Latex,
        }
    }
}

impl OutputFormat {
    /// Returns true for machine-readable formats; notices then go to standard error.
    pub fn is_data(self) -> bool {
        matches!(self, OutputFormat::Csv | OutputFormat::Json)
    }
}

/// All options of a simulation. The keys of a configuration file are the long names of these
/// options.
#[derive(Args, Clone, Debug, Default)]
#[command(next_line_help = false, allow_negative_numbers = true)]
pub(super) struct Options {
    /// TOML file with any of these options as keys; the command line takes precedence
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub experiment: Experiment,
    #[command(flatten, next_help_heading = "Results")]
    pub output: Output,
}

/// Options about what is printed and written.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub(crate) struct Output {
    /// Wall-clock seconds within which a scheduler must make each decision [default: {}]
    ///
    /// If it does not, the run ends with an error that names the scheduler and the simulated time.
    /// --until with this time gives the results before it.
    #[arg(long, value_name = "S")]
    pub answer_within_s: Option<Period>,
    /// Write jobs.csv, timeline.csv and summary.json for each scheduler, and manifest.json, below
    /// this folder
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Write into a folder that is not empty, replacing earlier results, or over an existing
    /// journal
    #[arg(long)]
    pub force: bool,
    /// Also write rounds.csv, one row per decision
    #[arg(long)]
    pub rounds: bool,
    /// Also write assignments.csv, the GPUs of each job over time
    #[arg(long)]
    pub assignments: bool,
    /// Formats of the files of each scheduler, joined by commas: csv, parquet, chrome [default: csv]
    ///
    /// Tables always are written as CSV. With parquet, they are written as Parquet, too (in builds
    /// with the feature `parquet`). chrome writes trace.json for Perfetto: at most 500,000 slices of jobs
    /// and waits.
    #[arg(long, value_name = "FORMATS")]
    pub file_format: Option<Written<FileFormats>>,
    /// Draw plots of the results into the output folder
    ///
    /// They include Gantt charts. For a sweep, Gantt charts need --assignments and are in its
    /// report.
    #[arg(long)]
    pub plots: bool,
    /// Draw one picture into a file; its extension selects svg, png or pdf
    ///
    /// The picture is jct-cdf, or another that `blox plot --help` lists: `--plot
    /// utilisation=FILE`. The option may be given more than once and needs no output folder. PNG
    /// and PDF need a build with the feature `png`.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<Vec<String>>,
    /// Make one HTML page of the results, report.html in the output folder
    #[arg(long)]
    pub report: bool,
    /// Show the figures of a collector; may be given more than once
    #[arg(long, value_name = "NAME{..}")]
    pub collect: Option<Vec<Written<ComponentSpec>>>,
    /// Count the reasons for which measured jobs waited, and the waiting time of each
    #[arg(long)]
    pub why: bool,
    /// Compare each job with a run alone on its fair share of the cluster (finish-time fairness)
    ///
    /// Every measured job is also simulated alone, which takes additional time.
    #[arg(long)]
    #[serde(skip)]
    pub fairness: bool,
    /// Also give every figure by group: jobs with the same value in a column of the workload
    ///
    /// The column is gpus, deadline_s (the first deadline), user, gpu_types, virtual_cluster, class, model,
    /// group, priority, attributes.NAME or another.
    #[arg(long, value_name = "COLUMN")]
    pub by: Option<Written<By>>,
    /// Print the history of one job, by its job_id in the trace or its number from 0; with CSV on
    /// standard error
    #[arg(long, value_name = "JOB")]
    pub explain: Option<Written<String>>,
    /// Write every event and decision as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Format of standard output: table, csv or json [default: {}]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub output_format: Option<OutputFormat>,
    /// Form of tables: plain, markdown or latex [default: {}]
    ///
    /// Markdown and LaTeX are for a page or a paper. In LaTeX, the lines below a table are comments.
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    pub table: Option<TableStyle>,
    /// Same as --output-format json
    #[arg(long)]
    pub json: bool,
    /// Print no progress and no notes, only what the figures assume; standard error still counts what
    /// the figures leave out
    #[arg(long, short)]
    pub quiet: bool,
}

impl Output {
    /// Returns the options by their long names.
    pub fn keys() -> Vec<String> {
        let command = Output::augment_args(clap::Command::new(""));
        let keys = command.get_arguments().filter_map(clap::Arg::get_long);
        keys.map(str::to_owned).collect()
    }

    /// Returns the given options by their long names. A value that is not Unicode is an error.
    pub fn try_values(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let mut all = match serde_json::to_value(self)? {
            Value::Object(all) => all,
            _ => Map::new(),
        };
        all.retain(|_, value| !matches!(value, Value::Null | Value::Bool(false)));
        Ok(all)
    }

    /// Returns the given options by their long names. A value that is not Unicode leaves none.
    pub fn values(&self) -> Map<String, Value> {
        self.try_values().unwrap_or_default()
    }

    /// Returns the format of standard output.
    pub fn format(&self) -> OutputFormat {
        let json = self.json.then_some(OutputFormat::Json);
        self.output_format.or(json).unwrap_or_default()
    }

    /// Returns the formats of result files.
    pub fn formats(&self) -> FileFormats {
        self.file_format.as_deref().copied().unwrap_or_default()
    }

    /// Returns the form of tables. `plain` is the form for a terminal or a file.
    pub fn form(&self, plain: Form) -> Form {
        self.table.unwrap_or_default().form(plain)
    }
}

/// Returns whether an option of `simulate`, given by its long name, affects decisions. Its other
/// options affect the simulation.
pub(crate) fn decides(key: &str) -> bool {
    [
        "seed",
        "admission",
        "placement",
        "cluster-manager",
        "round",
        "on-event",
    ]
    .contains(&key)
}

/// Hides all options except the options of policies. A journal names the scheduler.
fn hide_all_but_policies(arg: clap::Arg) -> clap::Arg {
    if arg.get_id() == "positional" {
        return arg.help("Scheduler that decides [default: the one that the journal names]");
    }
    let shown =
        |key| decides(key) || ["scheduler", "config", "help", "of-allocation"].contains(&key);
    let positional = arg.get_long().is_none() && arg.get_short().is_none();
    let hidden = !positional && !arg.get_long().is_some_and(shown);
    arg.hide(hidden)
}

/// Hides the option that draws the results of one comparison.
fn hide_plot(arg: clap::Arg) -> clap::Arg {
    let hidden = arg.is_hide_set() || arg.get_long() == Some("plot");
    arg.hide(hidden)
}

fn hide_results(arg: clap::Arg) -> clap::Arg {
    let hidden = arg.is_hide_set() || arg.get_long().is_some_and(|key| !steps(key));
    arg.hide(hidden)
}

/// Returns whether an option, given by its long name, has a meaning with `step`. Its only result is a
/// journal.
pub(super) fn steps(key: &str) -> bool {
    let own = ["quiet", "collect", "journal", "force"].contains(&key);
    own || Output::keys().iter().all(|other| other != key)
}
