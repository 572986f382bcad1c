//! `simulate` and `compare`: runs all schedulers on the same jobs.

use super::config::Given;
use super::execute::{Task, execute, now, tell_time};
use super::grid::Form;
use super::output::{self, OutputFormat, SharedJournal};
use super::plot::Drawing;
use super::progress::Shows;
use super::recording::Assignments;
use super::resolve::Experiment;
use super::result::Run;
use super::{Failure, INTERRUPTED, OK, Terminal, plot, table};
use blox_core::JobId;
use blox_core::registry::Registry;
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
    let mut experiment = Experiment::of(given, registry)?;
    let explained = experiment.explained()?.map(JobId);
    let drawings = output::drawings(&experiment)?;
    output::folder(&experiment.options)?;
    let kept_nowhere = experiment.options.output_dir.is_none();
    // Pictures are drawn from result files, which a temporary folder holds if no other does.
    let scratch = match kept_nowhere && !drawings.is_empty() {
        true => Some(output::scratch()?),
        false => None,
    };
    let o = &mut experiment.options;
    if let Some(scratch) = &scratch {
        o.output_dir = Some(scratch.path().to_owned());
    }
    o.assignments |= drawings.iter().any(Drawing::needs_assignments);
    let o = &experiment.options;
    let journals = output::journals(&experiment)?;
    let _lock = match output::folder(o)? {
        Some(dir) => {
            let folders = experiment.contestants.iter().map(|c| dir.join(&c.folder));
            output::spare(&experiment.files, dir, folders, o.force)?;
            Some(output::prepare(dir, o.force)?)
        }
        None => None,
    };
    let journals = output::open_journals(journals)?;
    let start = now();
    let runs = run_all(
        &experiment,
        journals.clone(),
        explained,
        terminal.interactive,
    )?;
    // After an interruption, some runs may not have started.
    let done: Vec<&Run> = runs.iter().flatten().map(|(run, _)| run).collect();
    let interrupted =
        done.len() < runs.len() || done.iter().any(|r| r.report.ended == Ended::Interrupted);
    let keep = || {
        for journal in journals.iter().flatten() {
            journal.close()?;
        }
        if let Some(dir) = &o.output_dir {
            output::write_manifest(dir, &experiment, &done, args, interrupted)?;
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
    let mut written = runs.iter().flatten().map(|(_, written)| written.clone());
    let kept = written.find(Result::is_err).unwrap_or_else(keep);
    let format = experiment.format;
    let text = match format {
        OutputFormat::Json => output::json(&experiment, &done, explained)?,
        OutputFormat::Csv => output::csv(&experiment, &done)?,
        OutputFormat::Table => table::render(&experiment, &done, explained, terminal.form),
        OutputFormat::Markdown => table::render(&experiment, &done, explained, Form::Markdown),
    };
    terminal.print(&text)?;
    if let (OutputFormat::Csv, Some(id)) = (format, explained) {
        // A table has no place for it; JSON has a field.
        let _ = terminal.err.write_all(table::stories(id, &done).as_bytes());
    }
    let notices = match (o.quiet, format.is_data()) {
        (true, _) => table::losses(&experiment, &done),
        (false, true) => table::notices(&experiment, &done),
        (false, false) => Vec::new(),
    };
    terminal.notices(&notices);
    kept?;
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
        tell_time(start, &places, terminal);
    }
    if interrupted {
        let _ = writeln!(
            terminal.err,
            "interrupted: results so far of {} of {} schedulers{}",
            done.len(),
            runs.len(),
            match scratch {
                Some(_) => "; no picture is drawn",
                None => output::drawn_later(o.plots || o.report || o.plot.is_some()),
            }
        );
        return Ok(INTERRUPTED);
    }
    if let Some(id) = explained {
        for run in &done {
            never_came(id, run)?;
        }
    }
    if terminal.interactive {
        // The process ends: freeing the rows of all jobs one by one would delay it.
        std::mem::forget(runs);
    }
    Ok(OK)
}

fn never_came(id: JobId, run: &Run) -> Result<(), Failure> {
    let jobs = run.report.jobs.len();
    if (id.0 as usize) < jobs {
        return Ok(());
    }
    let came = match jobs {
        0 => "no job was submitted".to_owned(),
        n => format!("the jobs 0 to {} were submitted", n - 1),
    };
    Err(Failure::new(format!(
        "--explain is `{id}`, a job that was not submitted under {}: {came} before the simulation ended at {} s",
        run.report.summary.scheduler, run.report.end
    )))
}

/// A run, and the result of writing its files.
type Written = (Run, Result<(), Failure>);

/// Runs all schedulers, and writes the files of each. Returns `None` for runs that an interruption
/// prevented.
fn run_all(
    experiment: &Experiment<'_>,
    journals: Vec<Option<SharedJournal>>,
    explained: Option<JobId>,
    interactive: bool,
) -> Result<Vec<Option<Written>>, Failure> {
    let o = &experiment.options;
    let contestants = &experiment.contestants;
    let recorded = o.output_dir.as_ref().filter(|_| o.assignments || o.plots);
    let task = |(contestant, journal): (usize, Option<SharedJournal>)| Task {
        experiment,
        contestant,
        assignments: recorded.map(|dir| dir.join(&contestants[contestant].folder)),
        journal,
        explained,
    };
    let tasks: Vec<Task<'_>> = journals.into_iter().enumerate().map(task).collect();
    let shows = match o.quiet {
        true => Shows::Nothing,
        false => Shows::Jobs {
            labels: contestants.iter().map(|c| c.label.clone()).collect(),
            total: experiment.expected_jobs,
        },
    };
    execute(&tasks, experiment.threads, shows, interactive, |i, done| {
        let (run, assignments) = done?;
        if let Some(why) = run.nothing_measured(experiment) {
            return Err(Failure::new(why));
        }
        let write = |dir: &PathBuf| {
            // Written immediately, because a long comparison may be interrupted.
            output::write_run(dir, &contestants[i].folder, &run, experiment)?;
            assignments.map_or(Ok(()), Assignments::close)
        };
        let written = o.output_dir.as_ref().map_or(Ok(()), write);
        Ok((run, written))
    })
}
