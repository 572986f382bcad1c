//! `blox trace convert`, `sample` and `generate`: write jobs into files.

use super::{ConvertArgs, GenerateArgs, OutArgs, SampleArgs, To};
use crate::config;
use crate::failure::{Code, Failure};
use crate::files::{check_writable, write_whole};
use crate::help::Late;
use crate::terminal::{OK, Terminal};
use blox_experiment::Prepared;
use blox_registry::Registry;
use blox_results::{losses, number_of};
use blox_sim::workload::{Jobs, Limited, Workload, WorkloadError};
use blox_traces::formats::csv::{Columns, CsvWriter};
use blox_traces::formats::jsonl::write_jsonl;
use blox_traces::sample::{choose, thinned, window};
use std::io::{BufWriter, Write};

pub(super) fn convert(args: &ConvertArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let to = args.out.check()?;
    let trace = args.file.open()?;
    let make = || -> Result<Box<dyn Workload>, Failure> { Ok(Box::new(trace.jobs()?)) };
    args.out.write(to, &make, terminal)
}

pub(super) fn sample(args: &SampleArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let to = args.out.check()?;
    let trace = args.file.open()?;
    let make = || -> Result<Box<dyn Workload>, Failure> {
        let jobs = trace.jobs()?;
        let mut jobs: Box<dyn Workload> = match args.window {
            Some(range) => Box::new(window(jobs, range.0, range.1)),
            None => Box::new(jobs),
        };
        if let Some(p) = args.fraction {
            jobs = Box::new(thinned(jobs, p, args.seed));
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
    args.out.write(to, &make, terminal)
}

pub(super) fn generate(
    registry: &Registry,
    late: Late<GenerateArgs>,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let args = *late.args;
    let (force, quiet) = (args.options.output.force, args.options.output.quiet);
    let out = OutArgs {
        output: args.output,
        to: args.to,
        force,
        quiet,
    };
    let to = out.check()?;
    let given = config::generate(args.options, &late.matches)?;
    if given.experiment.jobs.is_none() {
        return Err(Failure::new(
            "--jobs is missing, expected how many jobs to generate",
        ));
    }
    let experiment = Prepared::of(given.experiment, registry)?;
    out.write(to, &|| Ok(experiment.workload()?), terminal)
}

impl OutArgs {
    /// Returns the format to write. Fails early if the destination cannot be written.
    fn check(&self) -> Result<To, Failure> {
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
        Ok(self.to.unwrap_or(by_name))
    }

    /// Writes the jobs of `make`, which must return the same jobs at each call.
    fn write(
        &self,
        to: To,
        make: &dyn Fn() -> Result<Box<dyn Workload>, Failure>,
        terminal: &mut Terminal<'_>,
    ) -> Result<i32, Failure> {
        self.output.as_deref().map_or(Ok(()), check_writable)?;
        let mut jobs = make()?;
        // An empty file would be an error for the command that reads it.
        if make()?.next_job()?.is_none() {
            return Err(Failure::of(
                Code::Workload,
                "no job is left, expected at least one: a wider --window, or a larger --fraction, --count or --first",
            ));
        }
        let columns = match to {
            To::Jsonl => None,
            To::Csv => {
                // The columns precede the jobs that need them.
                let mut columns = Columns::default();
                while let Some(job) = jobs.next_job()? {
                    columns.include(&job);
                }
                jobs = make()?;
                Some(columns)
            }
        };
        let (count, into) = match &self.output {
            Some(path) => {
                let mut count = 0;
                write_whole(path, |out| {
                    copy(&mut *jobs, columns, out).map(|written| count = written)
                })?;
                (count, format!(" to {}", path.display()))
            }
            None => {
                let mut out = BufWriter::new(&mut *terminal.out);
                let count = copy(&mut *jobs, columns, &mut out).map_err(|e| match e {
                    WorkloadError::Write { source } => source.into(),
                    e => Failure::new(e),
                })?;
                out.flush()?;
                (count, String::new())
            }
        };
        // Some notices are known only after the last job.
        terminal.notices(&losses::shown(jobs.notices(), self.quiet));
        if !self.quiet {
            let _ = writeln!(terminal.err, "{} written{into}", number_of(count, "job"));
        }
        Ok(OK)
    }
}

/// Writes jobs, as CSV if there are columns, and returns their number.
fn copy(
    jobs: &mut dyn Workload,
    columns: Option<Columns>,
    out: &mut dyn Write,
) -> Result<u64, WorkloadError> {
    let mut count = 0;
    match columns {
        None => {
            while let Some(job) = jobs.next_job()? {
                write_jsonl(&mut *out, [&job])?;
                count += 1;
            }
        }
        Some(columns) => {
            let mut writer = CsvWriter::new(out, columns)?;
            while let Some(job) = jobs.next_job()? {
                writer.write(&job)?;
                count += 1;
            }
            writer.finish()?;
        }
    }
    Ok(count)
}
