//! Arguments of commands.

use super::plan::values::{Axis, Loads, Seeds};
use super::value::{
    By, Duration, FileFormats, Group, Hours, Limit, Load, MeanTime, Measured, Number, Period, Risk,
    RoundLength, Written, parser,
};
use blox_registry::ComponentSpec;
use blox_results::grid::Form;
use blox_traces::{ColumnMap, Format};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

/// The workload if no option names one.
pub(crate) const WORKLOAD: &str = "blox";

/// Cluster of a simulation without `--cluster`.
pub(super) const CLUSTER: &str = "32x4";
/// Seed of a simulation without `--seed`.
pub(super) const SEED: u64 = 1;
/// Wall-clock seconds of a decision without `--answer-within-s`.
pub(super) const ANSWER_WITHIN_S: f64 = 300.0;
/// Mean hours until a failed node returns.
pub(super) const NODE_MTTR_H: f64 = 1.0;

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
    pub options: Options,
}

#[derive(Args)]
#[command(mut_args(hide_plot))]
pub(super) struct SweepArgs {
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
    #[command(flatten)]
    pub options: Options,
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
    /// Write its numbers as CSV and its pictures as SVG into this folder
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
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
#[command(next_line_help = false, allow_negative_numbers = true)]
pub(super) struct Options {
    /// Scheduler in a configuration file.
    #[arg(skip)]
    pub scheduler: Option<String>,
    /// Schedulers in a configuration file; exactly one for `simulate`.
    #[arg(skip)]
    pub schedulers: Option<Vec<String>>,

    /// Seeds of `compare` and `sweep`.
    #[arg(skip)]
    pub seeds: Option<Written<Seeds>>,
    /// Loads of `sweep`.
    #[arg(skip)]
    pub loads: Option<Written<Loads>>,
    /// Other options that `sweep` varies.
    #[arg(skip)]
    pub vary: BTreeMap<String, Vec<Value>>,
    /// Baseline of `compare`.
    #[arg(skip)]
    pub baseline: Option<String>,

    /// Workload file, plain or gzip
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    pub trace: Option<PathBuf>,
    /// Its format [default: detected from the file; synergy and gavel must be given]
    ///
    /// One of csv, jsonl, philly, philly-log, itp, acme, helios, pai, openb, spot, genai, slurm, supercloud, swf,
    /// blox-jobs, tiresias, synergy, gavel and sia.
    #[arg(long, value_name = "FORMAT", help_heading = "Workload")]
    pub format: Option<Written<Format>>,
    /// Its columns, for a table of another format:
    /// submit=COLUMN:date,gpus=COLUMN,duration=COLUMN:min
    ///
    /// FIELD=COLUMN or FIELD=COLUMN:UNIT, separated by commas. Fields: submit, gpus, duration (or
    /// start and end), job_id, user, virtual_cluster, group, model, priority, batch_size, cpus,
    /// memory, deadline, user_estimate, attributes.NAME. Units of submit, start, end and deadline:
    /// s (the default), ms, us, ns, min, h, d, epoch, epoch-ms, epoch-us, epoch-ns, date. Units of
    /// durations: s to d, clock (D-HH:MM:SS). Units of GPUs and CPUs: count, percent, milli; less
    /// than one GPU is a part of it. Units of memory: gib, mib, kib, bytes, gb, mb.
    #[arg(long, value_name = "MAP", help_heading = "Workload")]
    pub map: Option<Written<ColumnMap>>,
    /// Folder of throughput tables MODEL.csv, which make jobs with model and batch size elastic; or
    /// Gavel's JSON file with speeds of models by GPU type
    #[arg(long, value_name = "PATH", help_heading = "Workload")]
    pub throughputs: Option<PathBuf>,
    /// Folder of published application tables, one folder per application with step times and
    /// validation curves; used by jobs of the format `sia`
    #[arg(long, value_name = "DIR", help_heading = "Workload")]
    pub data: Option<PathBuf>,
    /// Workload without a file: blox (Blox's published jobs), poisson, bursty, diurnal or another
    /// registered one [default: {}]
    #[arg(long, value_name = "NAME{..}", help_heading = "Workload")]
    pub workload: Option<Written<ComponentSpec>>,
    /// Jobs per hour; between bursts for bursty [default: {} for blox]
    #[arg(long, value_name = "JOBS", help_heading = "Workload")]
    pub load: Option<Load>,
    /// Average GPU demand of the jobs as a fraction of the cluster's GPUs, instead of --load
    #[arg(long, value_name = "FRACTION", help_heading = "Workload")]
    pub load_of_capacity: Option<Number>,
    /// Durations of generated jobs: blox, exponential:MEAN_S, lognormal:MEDIAN_S,SIGMA,
    /// uniform:LEAST_S,MOST_S, fixed:S, trace:FILE (of its jobs) or file:FILE (one number per line)
    /// [default: {}]
    #[arg(long, value_name = "LAW", help_heading = "Workload")]
    pub durations: Option<String>,
    /// GPUs of generated jobs with weights, such as 0.5:70,2:10,8:20 [default: {}]
    #[arg(long, value_name = "MIX", help_heading = "Workload")]
    pub gpu_mix: Option<String>,
    /// Models of generated jobs with weights, such as resnet50:70,bert:30 [default: none]
    #[arg(long, value_name = "MIX", help_heading = "Workload")]
    pub models: Option<String>,
    /// Users of generated jobs with weights, such as ada:70,bob:30; ada:70x0.5 halves the durations
    /// of ada [default: none]
    #[arg(long, value_name = "MIX", help_heading = "Workload")]
    pub users: Option<String>,
    /// bursty: hours between bursts, and before the first burst [default: {}]
    #[arg(long, value_name = "H", help_heading = "Workload")]
    pub quiet_h: Option<Number>,
    /// bursty: hours of a burst [default: {}]
    #[arg(long, value_name = "H", help_heading = "Workload")]
    pub burst_h: Option<Number>,
    /// bursty: load during a burst as a multiple of the load between bursts [default: {}]
    #[arg(long, value_name = "FACTOR", help_heading = "Workload")]
    pub burst_factor: Option<Number>,
    /// bursty: durations of the jobs that bursts add [default: same as --durations]
    #[arg(long, value_name = "LAW", help_heading = "Workload")]
    pub burst_durations: Option<String>,
    /// diurnal: sine:AMPLITUDE,PEAK_H or hours:W0,...,W23, weights of the hours from midnight
    /// [default: {}]
    #[arg(long, value_name = "SHAPE", help_heading = "Workload")]
    pub diurnal: Option<String>,
    /// Services beside the jobs, such as services{count=2,gpus=4,need=sine:1,6,15}, which need 1 to
    /// 6 copies of 4 GPUs over the day
    ///
    /// `blox policies services` lists the parameters.
    #[arg(long, value_name = "NAME{..}", help_heading = "Workload")]
    pub services: Option<Written<ComponentSpec>>,
    /// Add generated losses to jobs that report none, for schedulers that end jobs by their loss
    #[arg(long, help_heading = "Workload")]
    pub losses: bool,
    /// Only the first N jobs
    #[arg(long, value_name = "N", value_parser = parser::<NonZeroU64>("a whole number, at least 1"), help_heading = "Workload")]
    pub jobs: Option<NonZeroU64>,
    /// Seed of workload, faults and policies
    ///
    /// The default, {}, is the seed of Blox's published workload.
    #[arg(long, value_name = "N", help_heading = "Workload")]
    pub seed: Option<u64>,

    /// NODESxGPUS[:TYPE][@LAYOUT][=PRICE], separated by commas, with + before an offer of nodes, or a
    /// TOML file [default: {}]
    #[arg(long, value_name = "CLUSTER", help_heading = "Cluster and policies")]
    pub cluster: Option<String>,
    /// Use only the nodes of this partition, and only the jobs submitted to it
    #[arg(long, value_name = "NAME", help_heading = "Cluster and policies")]
    pub virtual_cluster: Option<String>,
    /// Admission policy that replaces the scheduler's own
    #[arg(long, value_name = "NAME", help_heading = "Cluster and policies")]
    pub admission: Option<Written<ComponentSpec>>,
    /// Placement policy that replaces the scheduler's own
    #[arg(long, value_name = "NAME", help_heading = "Cluster and policies")]
    pub placement: Option<Written<ComponentSpec>>,
    /// Cluster manager that replaces the scheduler's own
    #[arg(long, value_name = "NAME", help_heading = "Cluster and policies")]
    pub cluster_manager: Option<Written<ComponentSpec>>,
    /// Decide in rounds of S seconds [default: the scheduler's own, mostly 300]
    #[arg(long, value_name = "S", help_heading = "Cluster and policies")]
    pub round: Option<RoundLength>,
    /// Decide after each event, at least GAP_S seconds apart
    #[arg(long, value_name = "GAP_S", help_heading = "Cluster and policies")]
    pub on_event: Option<Duration>,

    /// Rule for the time at which ends of jobs are detected: round, exact or a registered NAME{..}
    /// [default: round if there are rounds]
    #[arg(long, value_name = "RULE", help_heading = "World")]
    pub completion: Option<Written<ComponentSpec>>,
    /// Execution model, which defines the speed of jobs [default: the scheduler's own, mostly
    /// as-specified]
    #[arg(long, value_name = "NAME{..}", help_heading = "World")]
    pub execution: Option<Written<ComponentSpec>>,
    /// Overheads of launches, stops and changes: typical (30 s for each launch), none or another
    /// NAME{..} [default: the next five options. Without these, none for the workload blox, otherwise typical]
    #[arg(long, value_name = "NAME{..}", help_heading = "World")]
    pub overheads: Option<Written<ComponentSpec>>,
    /// Seconds of a first launch [default: {} beside another cost]
    #[arg(long, value_name = "S", help_heading = "World")]
    pub launch_s: Option<Duration>,
    /// Seconds of the checkpoint when a job is stopped [default: {} beside another cost]
    #[arg(long, value_name = "S", help_heading = "World")]
    pub checkpoint_s: Option<Duration>,
    /// Seconds of a later launch on the same GPUs [default: {} beside another cost]
    #[arg(long, value_name = "S", help_heading = "World")]
    pub restart_s: Option<Duration>,
    /// Seconds of a later launch on other GPUs [default: {} beside another cost]
    #[arg(long, value_name = "S", help_heading = "World")]
    pub migration_s: Option<Duration>,
    /// Seconds of every launch and change of GPUs, a comma, and seconds for each doubling of a GPU
    /// group that no job used before (ElasticFlow: 2,2) [default: the four above]
    #[arg(long, value_name = "S,S", help_heading = "World")]
    pub group_overheads_s: Option<Written<Group>>,
    /// Prices of the cluster's offers over time, and nodes that their provider takes back: a CSV
    /// table with the columns time_s, offer, price and reclaim
    #[arg(long, value_name = "FILE", help_heading = "World")]
    pub prices: Option<PathBuf>,
    /// Mean hours between failures of a node [default: never]
    #[arg(long, value_name = "H", help_heading = "World")]
    pub node_mtbf_h: Option<MeanTime>,
    /// Mean hours until a failed node returns [default: {}]
    #[arg(long, value_name = "H", help_heading = "World")]
    pub node_mttr_h: Option<Hours>,
    /// Mean running hours between crashes of a job [default: never]
    #[arg(long, value_name = "H", help_heading = "World")]
    pub job_mtbf_h: Option<MeanTime>,
    /// Seconds between checkpoints of a running job [default: none, a crash loses all since its
    /// launch]
    ///
    /// A run ends after 1,000,000 crashes in a row in which no job kept more of its work.
    #[arg(long, value_name = "S", help_heading = "World")]
    pub checkpoint_every_s: Option<Period>,
    /// Probability that a launch fails [default: {}]
    #[arg(long, value_name = "P", help_heading = "World")]
    pub launch_failure: Option<Risk>,
    /// End a run with an error if its scheduler reads true durations of jobs, which no real cluster
    /// knows
    #[arg(long, help_heading = "World")]
    pub forbid_true_durations: bool,
    /// Also visit rounds in which nothing can change; the results are the same
    #[arg(long, help_heading = "World")]
    pub visit_every_round: bool,

    /// Measured jobs, both ends included: numbers 3000..4000 or times 10h..2d (s, m, h, d)
    ///
    /// The simulation ends when they have ended. Numbers are the trace's own ids if all of these
    /// are whole numbers. Otherwise jobs are numbered from 0 in order of submission. Default: all
    /// jobs; {} for the endless workload of Blox.
    #[arg(long, value_name = "A..B", help_heading = "Results")]
    pub measure: Option<Written<Measured>>,
    /// End earlier: at a time such as 2000000 or 30d (s, m, h, d), or after a number of completed
    /// jobs such as 5000jobs
    ///
    /// Without it, a run ends when the measured jobs have ended. If the workload is endless, it also
    /// ends when they starve: in 6,000,000 s none of them ended, and none did a tenth of its
    /// remaining work. `finished` continues such a run.
    #[arg(long, value_name = "WHEN", help_heading = "Results")]
    pub until: Option<Written<Limit>>,
    /// Wall-clock seconds within which a scheduler must make each decision [default: {}]
    ///
    /// If it does not, the run ends with an error that names the scheduler and the simulated time.
    /// --until with this time gives the results before it.
    #[arg(long, value_name = "S", help_heading = "Results")]
    pub answer_within_s: Option<Period>,
    /// Write jobs.csv, timeline.csv and summary.json for each scheduler, and manifest.json, below
    /// this folder
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub output_dir: Option<PathBuf>,
    /// Write into a folder that is not empty, replacing earlier results, or over an existing
    /// journal
    #[arg(long, help_heading = "Results")]
    pub force: bool,
    /// Also write rounds.csv, one row per decision
    #[arg(long, help_heading = "Results")]
    pub rounds: bool,
    /// Also write assignments.csv, the GPUs of each job over time
    #[arg(long, help_heading = "Results")]
    pub assignments: bool,
    /// Formats of the files of each scheduler, joined by commas: csv, parquet, chrome [default: csv]
    ///
    /// Tables always are written as CSV. With parquet, they are written as Parquet, too (in builds
    /// with the feature `parquet`). chrome writes trace.json for Perfetto: at most 500,000 slices of jobs
    /// and waits.
    #[arg(long, value_name = "FORMATS", help_heading = "Results")]
    pub file_format: Option<Written<FileFormats>>,
    /// Draw plots of the results into the output folder
    ///
    /// They include Gantt charts. For a sweep, Gantt charts need --assignments and are in its
    /// report.
    #[arg(long, help_heading = "Results")]
    pub plots: bool,
    /// Draw one picture into a file; its extension selects svg, png or pdf
    ///
    /// The picture is jct-cdf, or another that `blox plot --help` lists: `--plot
    /// utilisation=FILE`. The option may be given more than once and needs no output folder. PNG
    /// and PDF need a build with the feature `png`.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub plot: Option<Vec<String>>,
    /// Make one HTML page of the results, report.html in the output folder
    #[arg(long, help_heading = "Results")]
    pub report: bool,
    /// Show the figures of a collector; may be given more than once
    #[arg(long, value_name = "NAME{..}", help_heading = "Results")]
    pub collect: Option<Vec<Written<ComponentSpec>>>,
    /// Count the reasons for which measured jobs waited, and the waiting time of each
    #[arg(long, help_heading = "Results")]
    pub why: bool,
    /// Compare each job with a run alone on its fair share of the cluster (finish-time fairness)
    ///
    /// Every measured job is also simulated alone, which takes additional time.
    #[arg(long, help_heading = "Results")]
    pub fairness: bool,
    /// Also give every figure by group: jobs with the same value in a column of the workload
    ///
    /// The column is gpus, deadline_s (the first deadline), user, gpu_types, virtual_cluster, class, model,
    /// group, priority, attributes.NAME or another.
    #[arg(long, value_name = "COLUMN", help_heading = "Results")]
    pub by: Option<Written<By>>,
    /// Print the history of one job, by its job_id in the trace or its number from 0; with CSV on
    /// standard error
    #[arg(long, value_name = "JOB", help_heading = "Results")]
    pub explain: Option<Written<String>>,
    /// Write every event and decision as a line of JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub journal: Option<PathBuf>,
    /// Format of standard output: table, csv or json [default: {}]
    #[arg(
        long,
        value_name = "FORMAT",
        hide_possible_values = true,
        help_heading = "Results"
    )]
    pub output_format: Option<OutputFormat>,
    /// Form of tables: plain, markdown or latex [default: {}]
    ///
    /// Markdown and LaTeX are for a page or a paper. In LaTeX, the lines below a table are comments.
    #[arg(
        long,
        value_name = "FORM",
        hide_possible_values = true,
        help_heading = "Results"
    )]
    pub table: Option<TableStyle>,
    /// Same as --output-format json
    #[arg(long, help_heading = "Results")]
    pub json: bool,
    /// Print no progress and no notes, only what the figures assume; standard error still counts what
    /// the figures leave out
    #[arg(long, short, help_heading = "Results")]
    pub quiet: bool,

    /// TOML file with any of these options as keys; the command line takes precedence
    #[arg(long, value_name = "FILE.toml")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
}
impl Options {
    /// Returns the given options by their long names, without `config`. A value that is not Unicode
    /// leaves none; [`Self::written`] returns the error.
    pub fn given(&self) -> Map<String, Value> {
        self.written().unwrap_or_default()
    }

    /// Returns the given options by their long names, without `config`. A value that is not Unicode
    /// is an error.
    pub fn written(&self) -> Result<Map<String, Value>, serde_json::Error> {
        let mut all = match serde_json::to_value(self)? {
            Value::Object(all) => all,
            _ => Map::new(),
        };
        all.retain(|_, value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Object(vary) => !vary.is_empty(),
            _ => true,
        });
        Ok(all)
    }

    /// Returns the format of standard output.
    pub fn output(&self) -> OutputFormat {
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

    /// Returns the options with these values.
    pub fn of(given: Map<String, Value>) -> Result<Self, serde_json::Error> {
        serde_json::from_value(Value::Object(given))
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
    let shown = |key| decides(key) || ["scheduler", "config", "help"].contains(&key);
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
    let hidden = arg.is_hide_set() || is_result_option(&arg);
    arg.hide(hidden)
}

/// Returns whether an option selects results to keep, or their place.
pub(super) fn is_result_option(arg: &clap::Arg) -> bool {
    arg.get_help_heading() == Some("Results")
        && !["measure", "until", "quiet", "collect"]
            .map(Some)
            .contains(&arg.get_long())
}
