//! `blox import`: turns queues and logs of other systems into workload and cluster files.
#![allow(
    clippy::disallowed_methods,
    reason = "time of a queue that is read now, for the rest of running jobs"
)]

use crate::failure::{Code, Failure};
use crate::files::{check_writable, write_whole};
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use crate::value::number;
use blox_core::{Extras, JobSpec, Seconds};
use blox_results::{losses, number_of, quoted};
use blox_sim::workload::{Workload, WorkloadError};
use blox_slurm::{ImportError, Imported, Programs, SLURM_JOB, Selection, SlurmError};
use blox_traces::cluster_file::write_cluster;
use blox_traces::formats::csv::{Columns, CsvWriter};
use blox_traces::{Format, ReadOptions, Trace};
use clap::{ArgGroup, Args, Subcommand};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Subcommand)]
pub(super) enum ImportCommand {
    /// Write the queue or the accounting of a Slurm as a workload file and a cluster file
    ///
    /// Without files, the command runs `squeue --json` and `sinfo --json`; it changes nothing in
    /// Slurm. All jobs of a queue arrive at time 0, the time of the queue. Their time
    /// limits or comments are their durations. Jobs that run come first, with their rest.
    Slurm(SlurmArgs),
}

#[derive(Args)]
#[command(group = ArgGroup::new("jobs").args(["squeue", "sacct"]))]
pub(super) struct SlurmArgs {
    /// Folder for jobs.csv and cluster.toml
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Output of `squeue --json`, instead of running it
    #[arg(long, value_name = "FILE", requires = "sinfo")]
    squeue: Option<PathBuf>,
    /// Output of `sinfo --json`, instead of running it
    #[arg(long, value_name = "FILE", requires = "jobs")]
    sinfo: Option<PathBuf>,
    /// Output of `sacct --json` or `sacct --parsable2`: jobs that have ended, at their own times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["held", "now", "duration_s"])]
    sacct: Option<PathBuf>,
    /// Only nodes and jobs of this partition
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Also jobs that a user or an administrator holds
    #[arg(long)]
    held: bool,
    /// Duration of jobs without a time limit
    #[arg(
        long,
        value_name = "S",
        default_value_t = 3600.0,
        value_parser = number("seconds above 0", |s| s > 0.0 && s.is_finite())
    )]
    duration_s: f64,
    /// Unix time of the files [default: the time that --squeue states, else the latest in it]
    #[arg(
        long,
        value_name = "S",
        requires = "squeue",
        value_parser = number("seconds of Unix time", |s| s >= 0.0 && s.is_finite())
    )]
    now: Option<f64>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Print no notes
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(command: &ImportCommand, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let ImportCommand::Slurm(args) = command;
    let files = Files::of(&args.output_dir, args.force)?;
    let (mut imported, times) = match &args.sacct {
        Some(path) => (history(args, path, terminal)?, "at its time of submission"),
        None => {
            let which = Selection {
                partition: args.partition.clone(),
                held: args.held,
                without_limit: Seconds::new(args.duration_s),
                whole: false,
            };
            let from = LiveQueue {
                squeue: args.squeue.as_deref(),
                sinfo: args.sinfo.as_deref(),
                now: args.now,
            };
            (queue(&from, &which)?, "at time 0")
        }
    };
    if !args.quiet {
        let notices: Vec<String> = imported.notices.iter().map(|text| plain(text)).collect();
        terminal.notices(&notices);
        let plain = Extras::default().weight;
        let weighted = |job: &&JobSpec| job.extras().weight != plain;
        match imported.jobs.iter().filter(weighted).count() {
            0 => {}
            n => terminal.notices(&[format!("jobs whose weight the file does not keep: {n}")]),
        }
    }
    if imported.jobs.is_empty() {
        return Err(Failure::of(
            Code::Workload,
            "no job is left, expected at least one job with GPUs",
        ));
    }
    for job in &mut imported.jobs {
        // The name of the job has the number.
        if let Some(extras) = &mut job.extras {
            extras.attributes.remove(SLURM_JOB);
        }
    }
    let with_cluster = !imported.cluster.nodes.is_empty();
    files.write(&imported, with_cluster)?;
    let jobs = files.jobs.display().to_string();
    let count = number_of(imported.jobs.len() as u64, "job");
    let running = match args.sacct {
        Some(_) => "ended".to_owned(),
        None => format!("{} running", imported.running),
    };
    let mut text = format!("jobs     {jobs}: {count}, {running}, each {times}\n");
    let mut next = format!("blox simulate las --trace {}", quoted(&jobs));
    if with_cluster {
        let cluster = files.cluster.display().to_string();
        let nodes = number_of(imported.cluster.nodes.len() as u64, "node");
        let gpus = number_of(imported.cluster.total_gpus(), "GPU");
        text += &format!("cluster  {cluster}: {nodes}, {gpus}\n");
        next += &format!(" --cluster {}", quoted(&cluster));
    } else {
        next += " --cluster NODESxGPUS";
    }
    terminal.print(&format!("{text}next     {next}\n"))?;
    Ok(OK)
}

/// Source of a queue: files, or the Slurm of this machine.
pub(crate) struct LiveQueue<'a> {
    /// Output of `squeue --json`.
    pub squeue: Option<&'a Path>,
    /// Output of `sinfo --json`.
    pub sinfo: Option<&'a Path>,
    /// Unix time of the files.
    pub now: Option<f64>,
}

/// Reads a queue, from files or from the Slurm of this machine.
pub(crate) fn queue(from: &LiveQueue<'_>, which: &Selection) -> Result<Imported, Failure> {
    if let (Some(squeue), Some(sinfo)) = (from.squeue, from.sinfo) {
        let read = Imported::read(&bytes(squeue)?, &bytes(sinfo)?, from.now, which);
        return read.map_err(|error| match &error {
            ImportError::Slurm(SlurmError::Output { program, .. }) if *program == "sinfo" => {
                wrong(sinfo, &error)
            }
            ImportError::Slurm(_) => wrong(squeue, &error),
            _ => wrong(sinfo, &error),
        });
    }
    let ask = |program| {
        let output = Programs::default().run(program, &["--json".to_owned()]);
        output.map_err(|error| live(&error))
    };
    let (jobs, nodes) = (ask("squeue")?, ask("sinfo")?);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let now = now.as_secs() as f64;
    let read = Imported::read(&jobs, &nodes, Some(now), which);
    read.map_err(|error| match &error {
        ImportError::Slurm(error) => live(error),
        _ => Failure::of(Code::Cluster, plain(&error.to_string())),
    })
}

/// Reads a log, and the nodes beside it if there is a file of them.
fn history(
    args: &SlurmArgs,
    path: &Path,
    terminal: &mut Terminal<'_>,
) -> Result<Imported, Failure> {
    let text = bytes(path)?;
    let mut imported = match text.trim_ascii_start().first() {
        Some(b'{') => Imported::history(&text).map_err(|error| wrong(path, &error))?,
        _ => table(args, path, &text, terminal)?,
    };
    if let Some(partition) = &args.partition {
        let all = imported.jobs.len();
        let ours = |job: &JobSpec| job.virtual_cluster.as_deref() == Some(partition.as_str());
        imported.jobs.retain(ours);
        match all - imported.jobs.len() {
            0 => {}
            n => imported.notices.push(format!(
                "left out {}: in another partition",
                number_of(n as u64, "job")
            )),
        }
        for job in &mut imported.jobs {
            job.virtual_cluster = None;
        }
        imported.shift_to_zero();
    }
    if let Some(sinfo) = &args.sinfo {
        let which = Selection {
            partition: args.partition.clone(),
            ..Selection::default()
        };
        let none = br#"{"jobs": []}"#;
        let nodes = Imported::read(none, &bytes(sinfo)?, None, &which);
        let nodes = nodes.map_err(|error| wrong(sinfo, &error))?;
        imported.cluster = nodes.cluster;
        imported.notices.extend(nodes.notices);
    }
    Ok(imported)
}

/// Reads the table of `sacct --parsable2`.
fn table(
    args: &SlurmArgs,
    path: &Path,
    text: &[u8],
    terminal: &mut Terminal<'_>,
) -> Result<Imported, Failure> {
    let options = ReadOptions {
        format: Some(Format::Slurm),
        columns: None,
    };
    // A pipe is read once.
    let mut copy = None;
    if !fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
        let spool = || {
            let mut file = tempfile::NamedTempFile::new()?;
            file.write_all(text)?;
            Ok(file)
        };
        copy = Some(spool().map_err(|error: std::io::Error| unreadable(path, &error))?);
    }
    let source = copy.as_ref().map_or(path, |file| file.path());
    // Messages name the file that was given.
    let named = |error: WorkloadError| match Failure::new(error) {
        Failure::Message { code, text } => {
            let (from, to) = (source.display().to_string(), path.display().to_string());
            let text = text.replace(&from, &to);
            Failure::Message { code, text }
        }
        other => other,
    };
    let trace = Trace::open(source, &options).map_err(named)?;
    let mut rows = trace.jobs().map_err(named)?;
    let mut jobs = Vec::new();
    while let Some(job) = rows.next_job().map_err(named)? {
        jobs.push(job);
    }
    terminal.notices(&losses::shown(rows.notices(), args.quiet));
    Ok(Imported {
        jobs,
        ..Imported::default()
    })
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let text = format!("{}: cannot be read: {error}", path.display());
    Failure::of(Code::WorkloadFile, text)
}

fn wrong(path: &Path, error: &ImportError) -> Failure {
    let code = match error {
        ImportError::Slurm(_) => Code::Format,
        _ => Code::Cluster,
    };
    // An element of a list may be long.
    let text: String = plain(&error.to_string()).chars().take(400).collect();
    Failure::of(code, format!("{}: {text}", path.display()))
}

fn live(error: &SlurmError) -> Failure {
    let code = match error.is_temporary() {
        true => Code::Unreachable,
        false => Code::Daemon,
    };
    Failure::of(code, plain(&error.to_string()))
}

/// The files of a folder.
struct Files {
    jobs: PathBuf,
    cluster: PathBuf,
}

impl Files {
    /// Checks the folder before anything is read.
    fn of(dir: &Path, force: bool) -> Result<Self, Failure> {
        let files = Files {
            jobs: dir.join("jobs.csv"),
            cluster: dir.join("cluster.toml"),
        };
        for path in [&files.jobs, &files.cluster] {
            if path.exists() && !force {
                let text = "is there already, expected a new folder, or --force";
                return Err(Failure::at(path, text));
            }
        }
        fs::create_dir_all(dir).map_err(|error| Failure::unwritable(dir, error))?;
        check_writable(&files.jobs)?;
        check_writable(&files.cluster)?;
        Ok(files)
    }

    fn write(&self, imported: &Imported, with_cluster: bool) -> Result<(), Failure> {
        write_whole(&self.jobs, |out| -> Result<(), WorkloadError> {
            let mut columns = Columns::default();
            imported.jobs.iter().for_each(|job| columns.include(job));
            let mut writer = CsvWriter::new(out, columns)?;
            for job in &imported.jobs {
                writer.write(job)?;
            }
            writer.finish()
        })?;
        match with_cluster {
            true => write_whole(&self.cluster, |out| write_cluster(out, &imported.cluster)),
            false => Ok(()),
        }
    }
}
