//! `simulate` and `compare`: runs all schedulers on the same jobs.

use super::args::OutputFormat;
use super::config::Given;
use super::execute::{Records, execute, now, print_time};
use super::output;
use super::plot::Drawing;
use super::recording::Recording;
use super::result::{Run, check_measured};
use super::table::Failed;
use crate::experiment::Plan;
use crate::failure::{Code, Failure};
use crate::terminal::{INTERRUPTED, OK, Terminal};
use crate::{plot, table};
use blox_core::JobId;
use blox_experiment::value::Limit;
use blox_registry::Registry;
use blox_results::{Summary, called};
use blox_sim::Ended;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

pub(super) fn simulate(
    registry: &Registry,
    given: Given,
    args: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let mut plan = Plan::of(given, registry)?;
    let experiment = &mut plan.cells[0].experiment;
    let explained = experiment.explained()?.map(JobId);
    let drawings = output::drawings(experiment)?;
    output::folder(&experiment.options)?;
    let o = &mut experiment.options;
    // Pictures are drawn from result files, which a temporary folder holds if no other does.
    let only_drawn = o.output_dir.is_none() && !drawings.is_empty();
    let scratch = only_drawn.then(output::scratch).transpose()?;
    if let Some(scratch) = &scratch {
        o.output_dir = Some(scratch.path().to_owned());
    }
    o.assignments |= drawings.iter().any(Drawing::needs_assignments);
    experiment.given.records.timeline |= only_drawn;
    let experiment = &plan.cells[0].experiment;
    let o = &experiment.options;
    let journals = output::journals(experiment)?;
    let lock = |dir: &PathBuf| {
        output::spare(plan.files(), dir, plan.folders(), o.force)?;
        output::prepare(dir, o.force)
    };
    let _lock = o.output_dir.as_ref().map(lock).transpose()?;
    let records = Records {
        journals: output::open_journals(journals)?,
        explained,
    };
    let start = now();
    let (mut runs, mut failures) = (Vec::new(), Vec::new());
    let mut failed = Vec::new();
    let planned = plan.runs.len();
    let results = run_all(&plan, &records, terminal.interactive)?;
    for (run, result) in plan.runs.iter().zip(results) {
        match result {
            Some(Ok(written)) => runs.push(written),
            Some(Err(failure)) => {
                failed.push(Failed::of(plan.label(run), &failure.to_string()));
                failures.push(failure);
            }
            // An interruption came before its start.
            None => {}
        }
    }
    if runs.is_empty() && !failures.is_empty() {
        return terminal.failed(failures);
    }
    let done: Vec<&Run> = runs.iter().map(|(run, _)| run).collect();
    let interrupted = done.len() + failures.len() < planned
        || done.iter().any(|r| r.report.ended == Ended::Interrupted);
    let status = match (interrupted, failures.is_empty()) {
        (true, _) => "interrupted",
        (false, true) => "complete",
        (false, false) => "failed",
    };
    let keep = || {
        for journal in &records.journals {
            journal.close()?;
        }
        if let Some(dir) = &o.output_dir {
            output::write_manifest(dir, experiment, &done, &failed, args, status)?;
            // Plots are not drawn after an interruption, so that the command returns at once. They
            // can be drawn later.
            if !interrupted {
                output::draw(dir, o.plots, o.report)?;
                plot::draw_each(dir, &drawings)?;
            }
        }
        Ok(())
    };
    // Results are printed before the error of a full disk is reported.
    let mut written = runs.iter().map(|(_, written)| written.clone());
    let kept = written.find(Result::is_err).unwrap_or_else(keep);
    let format = o.format();
    let text = match format {
        OutputFormat::Json => output::json(experiment, &done, explained)?,
        OutputFormat::Csv => output::csv(experiment, &done),
        OutputFormat::Table => {
            let form = o.form(terminal.form);
            table::render(experiment, &done, &failed, explained, form)
        }
    };
    terminal.print(&text)?;
    if let (OutputFormat::Csv, Some(id)) = (format, explained) {
        // A table has no place for it; JSON has a field.
        let _ = terminal.err.write_all(table::stories(id, &done).as_bytes());
    }
    let notices = match (o.quiet, format.is_data()) {
        (true, _) => table::losses(experiment, &done),
        (false, true) => table::notices(experiment, &done),
        (false, false) => Vec::new(),
    };
    terminal.notices(&notices);
    if let Err(failure) = kept {
        failures.push(failure);
        return terminal.failed(failures);
    }
    if !o.quiet {
        let mut places = match &o.output_dir {
            Some(dir) if scratch.is_none() => format!(", results in {}", dir.display()),
            _ => String::new(),
        };
        if !interrupted {
            for drawing in &drawings {
                let _ = write!(places, ", picture in {}", drawing.path().display());
            }
        }
        print_time(start, &places, terminal);
    }
    if interrupted {
        let _ = writeln!(
            terminal.err,
            "interrupted: results so far of {} of {} schedulers{}",
            done.len(),
            planned,
            match scratch {
                Some(_) => "; no picture is drawn",
                None => output::drawn_later(o.plots || o.report || o.plot.is_some()),
            }
        );
    }
    if !failures.is_empty() {
        return terminal.failed(failures);
    }
    if interrupted {
        return Ok(INTERRUPTED);
    }
    if let Some(id) = explained {
        for run in &done {
            never_came(id, run)?;
        }
    }
    nothing_ran(&done, experiment.given.until.as_deref())?;
    if terminal.interactive {
        // The process ends: freeing the rows of all jobs one by one would delay it.
        std::mem::forget(runs);
    }
    Ok(OK)
}

/// Fails if no scheduler has run any job, because there is none or all were rejected.
fn nothing_ran(done: &[&Run], until: Option<&Limit>) -> Result<(), Failure> {
    let all = |of: fn(&Summary) -> bool| done.iter().all(|run| of(&run.summary));
    let why = if done.is_empty() || !all(|s| s.jobs == s.rejected) {
        return Ok(());
    } else if all(|s| s.jobs == 0) {
        match until {
            Some(_) => "no job was submitted before the end, expected a later --until".to_owned(),
            None => "the workload has no jobs, expected at least one".to_owned(),
        }
    } else {
        let mut rejected = done.iter().flat_map(|run| &run.report.jobs);
        let first = rejected.find_map(|job| Some((job, job.reason.as_deref()?)));
        let first = first.map(|(job, why)| {
            let called = called(job.name.as_ref(), job.job);
            format!("; job {called}: {why}")
        });
        let first = first.unwrap_or_default();
        format!("all jobs were rejected, expected one that the cluster could run{first}")
    };
    Err(Failure::of(Code::Workload, format!("no job ran: {why}")))
}

fn never_came(id: JobId, run: &Run) -> Result<(), Failure> {
    let jobs = run.report.jobs.len();
    if (id.0 as usize) < jobs {
        return Ok(());
    }
    let came = match jobs {
        0 => "no job was submitted".to_owned(),
        1 => "only job 0 was submitted".to_owned(),
        n => format!("the jobs 0 to {} were submitted", n - 1),
    };
    Err(Failure::new(format!(
        "--explain is `{id}`, a job that was not submitted under {}: {came} before the simulation ended at {} s",
        run.summary.scheduler, run.report.end
    )))
}

/// A run, and the result of writing its files.
type Written = (Run, Result<(), Failure>);

/// Runs all schedulers, and writes the files of each. A scheduler that fails does not stop the
/// others. Returns `None` for runs that an interruption prevented.
fn run_all(
    plan: &Plan<'_>,
    records: &Records,
    interactive: bool,
) -> Result<Vec<Option<Result<Written, Failure>>>, Failure> {
    let all: Vec<usize> = (0..plan.runs.len()).collect();
    execute(plan, &all, records, interactive, |i, done| {
        let planned = &plan.runs[i];
        let experiment = plan.experiment(planned);
        let done = done.and_then(|(run, recording)| {
            check_measured(&run, experiment)?;
            Ok((run, recording))
        });
        let (run, recording) = match done {
            Ok(done) => done,
            Err(failure) => return Ok(Err(failure)),
        };
        let write = |dir: PathBuf| {
            // Written immediately, because a long comparison may be interrupted.
            output::write_run(&dir, &run, experiment)?;
            recording.map_or(Ok(()), Recording::close)
        };
        let written = plan.folder(planned).map_or(Ok(()), write);
        Ok(Ok((run, written)))
    })
}
