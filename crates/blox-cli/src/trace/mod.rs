//! `blox trace`: inspects and converts workload files.

mod check;
pub(super) mod info;
mod plot;
mod write;

use super::args::Options;
use super::config::generates;
use super::help::Late;
use super::value::number;
use crate::failure::Failure;
use crate::terminal::Terminal;
use blox_experiment::value::{Window, format_help};
use blox_registry::Registry;
use blox_traces::{ColumnMap, Format, ReadOptions, Trace};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one a process")]
pub(super) enum TraceCommand {
    /// Show statistics of a workload: sizes, durations, arrivals, the cluster that it needs
    Info(InfoArgs),
    /// Report all problems of files; exit code 2 if there are any
    Check(CheckArgs),
    /// Write a file of any format as the toolkit's own CSV or JSON lines
    Convert(ConvertArgs),
    /// Write a part of a file: a time window, a random sample, the first jobs
    Sample(SampleArgs),
    /// Write a generated workload, with the options of `blox simulate --workload`
    Generate(Late<GenerateArgs>),
}

/// Hides the other options of `simulate`, which have no effect here: see [`write::generate`].
fn show_workload_alone(arg: clap::Arg) -> clap::Arg {
    let own = [
        "output", "to", "force", "quiet", "cluster", "config", "help",
    ];
    let shown = arg.get_long().is_some_and(generates) || own.contains(&arg.get_id().as_str());
    arg.hide(!shown)
}

/// A workload file.
#[derive(Args)]
struct FileArgs {
    /// Workload file, plain or gzip
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format [default: detected from the file; synergy and gavel must be given]
    #[arg(long, long_help = format_help(), value_name = "FORMAT")]
    format: Option<Format>,
    /// Its columns, for a table of another format; see `blox simulate --help`
    #[arg(long, value_name = "MAP")]
    map: Option<ColumnMap>,
}

impl FileArgs {
    fn options(&self) -> Result<ReadOptions, Failure> {
        match (self.format, &self.map) {
            (Some(_), Some(_)) => Err(Failure::new(
                "--format and --map are both given, expected one of them",
            )),
            (format, map) => Ok(ReadOptions {
                format,
                columns: map.clone(),
            }),
        }
    }

    fn open(&self) -> Result<Trace, Failure> {
        Trace::open(&self.file, &self.options()?).map_err(Failure::new)
    }
}

/// Output of jobs.
#[derive(Args)]
struct OutArgs {
    /// File to write, completely or not at all [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// csv or jsonl [default: from the file name, else csv]
    #[arg(long, value_name = "FORMAT")]
    to: Option<To>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    /// Print no notes
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum To {
    Csv,
    Jsonl,
}

#[derive(Args)]
pub(super) struct InfoArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Also report the utilization of this cluster
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    file: FileArgs,
    /// More files, with the same options
    #[arg(value_name = "FILE")]
    others: Vec<PathBuf>,
    /// Also report jobs that could never run on this cluster
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Maximum number of problems to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

#[derive(Args)]
pub(super) struct ConvertArgs {
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    out: OutArgs,
}

#[derive(Args)]
#[command(allow_negative_numbers = true)]
pub(super) struct SampleArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Only jobs submitted from A to B, with times relative to A: 10h..2d (s, m, h, d)
    #[arg(long, value_name = "A..B")]
    window: Option<Window>,
    /// Select each job with this probability, which also scales the load
    #[arg(
        long,
        value_name = "P",
        conflicts_with = "count",
        value_parser = number("a probability, from 0 to 1", |v| (0.0..=1.0).contains(&v))
    )]
    fraction: Option<f64>,
    /// Select N jobs at random; all subsets are equally likely
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Only the first N of the remaining jobs
    #[arg(long, value_name = "N")]
    first: Option<u64>,
    /// Seed of the random selection
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    out: OutArgs,
}

#[derive(Args)]
#[command(mut_args(show_workload_alone))]
pub(super) struct GenerateArgs {
    /// File to write, completely or not at all [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// csv or jsonl [default: from the file name, else csv]
    #[arg(long, value_name = "FORMAT")]
    to: Option<To>,
    #[command(flatten)]
    options: Options,
}

pub(super) fn run(
    registry: &Registry,
    command: TraceCommand,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    match command {
        TraceCommand::Info(a) => info::run(&a, terminal),
        TraceCommand::Check(a) => check::run(&a, terminal),
        TraceCommand::Convert(a) => write::convert(&a, terminal),
        TraceCommand::Sample(a) => write::sample(&a, terminal),
        TraceCommand::Generate(a) => write::generate(registry, a, terminal),
    }
}
