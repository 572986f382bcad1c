//! `blox trace convert`, `sample` and `generate`: write jobs into files.

use super::super::failure::{Code, Coded};
use super::{ConvertArgs, GenerateArgs, NOT_GENERATED, OutArgs, SampleArgs, To};
use crate::files::write_whole;
use crate::grid::number_of;
use crate::resolve::Experiment;
use crate::value::Probability;
use crate::{Failure, OK, Terminal, config, losses};
use blox_core::registry::Registry;
use blox_sim::workload::{Jobs, Limited, Notices, Workload, WorkloadError};
use blox_traces::csv::{Columns, CsvWriter};
use blox_traces::jsonl::write_jsonl;
use blox_traces::sample::{Thinned, Window, choose};
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub(super) fn convert(args: &ConvertArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let out = args.out.target()?;
    let trace = args.file.open()?;
    let make = || -> Result<Box<dyn Workload>, Failure> { Ok(Box::new(trace.jobs()?)) };
    out.write(&make, terminal)
}

pub(super) fn sample(args: &SampleArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let out = args.out.target()?;
    let trace = args.file.open()?;
    let make = || -> Result<Box<dyn Workload>, Failure> {
        let jobs = trace.jobs()?;
        let mut jobs: Box<dyn Workload> = match args.window {
            Some(window) => Box::new(Window::new(jobs, window.0, window.1)),
            None => Box::new(jobs),
        };
        if let Some(Probability(p)) = args.fraction {
            jobs = Box::new(Thinned::new(jobs, p, args.seed));
        }
        if let Some(count) = args.count {
            let chosen = choose(&mut jobs, count, args.seed)?;
            let notices = jobs.notices().clone();
            jobs = Box::new(Jobs::new(chosen).with_notices(notices));
        }
        if let Some(first) = args.first {
            jobs = Box::new(Limited::new(jobs, first));
        }
        Ok(jobs)
    };
    out.write(&make, terminal)
}

pub(super) fn generate(
    registry: &Registry,
    args: GenerateArgs,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let (force, quiet) = (args.options.force, args.options.quiet);
    let out = OutArgs {
        output: args.output,
        to: args.to,
        force,
        quiet,
    };
    let out = out.target()?;
    let given = config::generate(args.options, &NOT_GENERATED)?;
    if given.options.jobs.is_none() {
        return Err(Failure::new(
            "--jobs is missing, expected how many jobs to generate",
        ));
    }
    let experiment = Experiment::of(given, registry)?;
    out.write(&|| experiment.workload(), terminal)
}

/// Destination and format of jobs.
struct Target<'a> {
    file: Option<&'a Path>,
    to: To,
    quiet: bool,
}

impl OutArgs {
    /// Returns the destination. Fails early if it cannot be written.
    fn target(&self) -> Result<Target<'_>, Failure> {
        let file = self.output.as_deref();
        if let Some(path) = file {
            match std::fs::metadata(path) {
                Ok(meta) if meta.is_dir() => {
                    let text = "is a directory, expected the name of a file";
                    return Err(Failure::at(path, text));
                }
                Ok(meta) if meta.is_file() && !self.force => {
                    let text = "is there already, expected a new file, or --force";
                    return Err(Failure::at(path, text));
                }
                _ => {}
            }
        }
        let name = file.map(|path| path.to_string_lossy().to_ascii_lowercase());
        let named = |ending: &str| name.as_ref().is_some_and(|name| name.ends_with(ending));
        if let Some(path) = file.filter(|_| named(".gz")) {
            return Err(Failure::new(format!(
                "{}: is written as plain text, expected a name without .gz",
                path.display()
            )));
        }
        let by_name = match named(".jsonl") || named(".ndjson") {
            true => To::Jsonl,
            false => To::Csv,
        };
        Ok(Target {
            file,
            to: self.to.unwrap_or(by_name),
            quiet: self.quiet,
        })
    }
}

type Make<'a> = &'a dyn Fn() -> Result<Box<dyn Workload>, Failure>;

impl Target<'_> {
    /// Writes the jobs of `make`, which must return the same jobs at each call.
    fn write(&self, make: Make<'_>, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
        let mut count = 0;
        let mut notices = Notices::default();
        let into = match self.file {
            Some(path) => {
                write_whole(path, |out| {
                    (count, notices) = self.jobs(make, out)?;
                    Ok::<(), Failed>(())
                })?;
                format!(" to {}", path.display())
            }
            None => {
                let mut out = BufWriter::new(&mut *terminal.out);
                (count, notices) = self.jobs(make, &mut out)?;
                out.flush()?;
                String::new()
            }
        };
        terminal.notices(&losses::shown(&notices, self.quiet));
        if !self.quiet {
            let _ = writeln!(terminal.err, "{} written{into}", number_of(count, "job"));
        }
        Ok(OK)
    }

    /// Writes the jobs, and returns their number and notices. Some notices are known only after the
    /// last job.
    fn jobs(&self, make: Make<'_>, out: &mut dyn Write) -> Result<(u64, Notices), Failed> {
        let mut count = 0;
        let mut jobs = make()?;
        match self.to {
            To::Jsonl => {
                while let Some(job) = jobs.next_job()? {
                    write_jsonl(&mut *out, [&job])?;
                    count += 1;
                }
            }
            To::Csv => {
                // The columns precede the jobs that need them.
                let mut columns = Columns::default();
                while let Some(job) = jobs.next_job()? {
                    columns.include(&job);
                }
                let mut writer = CsvWriter::new(out, columns)?;
                let mut jobs = make()?;
                while let Some(job) = jobs.next_job()? {
                    writer.write(&job)?;
                    count += 1;
                }
                writer.finish()?;
            }
        }
        Ok((count, jobs.notices().clone()))
    }
}

/// An error while reading or writing.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{1}")]
    Read(Code, String),
    #[error(transparent)]
    Write(io::Error),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        let code = match &failure {
            Failure::Message { code, .. } => *code,
            _ => Code::Output,
        };
        Failed::Read(code, failure.into_text())
    }
}

impl From<WorkloadError> for Failed {
    fn from(e: WorkloadError) -> Self {
        match e {
            WorkloadError::Write { source } => Failed::Write(source),
            e => Failed::Read(e.code(), e.to_string()),
        }
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Read(code, text) => Failure::of(code, text),
            Failed::Write(e) => e.into(),
        }
    }
}
