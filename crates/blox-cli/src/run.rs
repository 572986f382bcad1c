//! `simulate` and `compare`: runs all schedulers on the same jobs, in parallel on the available
//! cores.

use super::config::Given;
use super::failure::Coded;
use super::grid::Form;
use super::losses::{self, IdleActions, Lost};
use super::output::{self, OutputFormat, SharedJournal};
use super::plot::Drawing;
use super::progress::{Progress, Shows};
use super::recording::Assignments;
use super::resolve::Experiment;
use super::result::Run;
use super::{Failure, INTERRUPTED, OK, Terminal, plot, pool, table};
use blox_core::JobId;
use blox_core::journal::Journal;
use blox_core::registry::{ComponentSpec, Registry};
use blox_sim::fairness::FairTimes;
use blox_sim::results::{Fairness, SharedSink};
use blox_sim::workload::{Limited, Workload};
use blox_sim::{Ended, SimError, Watch};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
    #[allow(
        clippy::disallowed_methods,
        reason = "wall time for the user, never for a decision"
    )]
    let start = std::time::Instant::now();
    let runs = run_all(&experiment, &journals, explained, terminal.interactive)?;
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
    terminal.out.write_all(text.as_bytes())?;
    terminal.out.flush()?;
    if let (OutputFormat::Csv, Some(id)) = (format, explained) {
        // A table has no place for it; JSON has a field.
        let _ = terminal.err.write_all(table::stories(id, &done).as_bytes());
    }
    let notices = match (o.quiet, format.is_data()) {
        (true, _) => table::losses(&experiment, &done),
        (false, true) => table::notices(&experiment, &done),
        (false, false) => Vec::new(),
    };
    for notice in notices {
        let _ = writeln!(terminal.err, "notice: {notice}");
    }
    kept?;
    if !o.quiet {
        let took = human_duration(start.elapsed());
        let mut places = match &o.output_dir {
            Some(dir) if scratch.is_none() => format!(", results in {}", dir.display()),
            _ => String::new(),
        };
        if !interrupted {
            for drawing in &drawings {
                let _ = write!(places, ", picture in {}", drawing.path().display());
            }
        }
        let _ = writeln!(terminal.err, "wall time {took}{places}");
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

pub(super) fn human_duration(d: Duration) -> String {
    let s = d.as_secs_f64();
    // Times that round to a minute are shown in minutes.
    match s.round() as u64 {
        whole if s >= 59.995 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{s:.2} s"),
    }
}

/// A run, and the result of writing its files.
type Written = (Run, Result<(), Failure>);

/// Runs all schedulers, and writes the files of each. Returns `None` for runs that an interruption
/// prevented.
fn run_all(
    experiment: &Experiment<'_>,
    journals: &[Option<SharedJournal>],
    explained: Option<JobId>,
    interactive: bool,
) -> Result<Vec<Option<Written>>, Failure> {
    let watches: Vec<Arc<Watch>> = experiment
        .contestants
        .iter()
        .map(|_| Arc::default())
        .collect();
    let shows = match experiment.options.quiet {
        true => Shows::Nothing,
        false => Shows::Jobs {
            labels: experiment
                .contestants
                .iter()
                .map(|c| c.label.clone())
                .collect(),
            total: experiment.expected_jobs,
        },
    };
    let progress = Progress::start(shows, &watches, interactive);
    let results = pool::each(&watches, experiment.threads, |i, watch| {
        let o = &experiment.options;
        let assignments = match &o.output_dir {
            Some(dir) if o.assignments || o.plots => Some(Assignments::create(
                &dir.join(&experiment.contestants[i].folder),
            )?),
            _ => None,
        };
        let sink = assignments.as_ref().map(Assignments::sink);
        let run = run_one(experiment, i, &journals[i], explained, watch, sink)?;
        if let Some(why) = run.nothing_measured(experiment) {
            return Err(Failure::new(why));
        }
        let write = |dir: &PathBuf| {
            // Written immediately, because a long comparison may be interrupted.
            output::write_run(dir, &experiment.contestants[i].folder, &run, experiment)?;
            assignments.map_or(Ok(()), Assignments::close)
        };
        let written = o.output_dir.as_ref().map_or(Ok(()), write);
        Ok((run, written))
    });
    progress.finish();
    results
}

/// Runs one scheduler.
pub(super) fn run_one(
    experiment: &Experiment<'_>,
    i: usize,
    journal: &Option<SharedJournal>,
    explained: Option<JobId>,
    watch: &Arc<Watch>,
    assignments: Option<SharedSink>,
) -> Result<Run, Failure> {
    let scheduler = experiment.pipeline(i)?;
    let period_s = scheduler.trigger().period().map(|p| p.secs());
    let workload = experiment.workload()?;
    let label = workload.describe();
    let mut workload = Limited::new(workload, experiment.arrivals_end.unwrap_or(u64::MAX));
    let journal = journal
        .as_ref()
        .map(|j| Box::new(j.clone()) as Box<dyn Journal>);
    let fair = experiment.options.fairness.then(|| {
        let simulation = experiment.simulation(i)?;
        Ok::<_, Failure>(FairTimes::of(&simulation, &scheduler).watched_by(Arc::clone(watch)))
    });
    let fair = fair.transpose()?;
    let failed = |e: SimError| {
        let label = &experiment.contestants[i].label;
        Failure::of(e.code(), format!("{label}: {e}"))
    };
    let mut report = experiment
        .simulation(i)?
        .assignments_to(assignments)
        .explain(explained)
        .watched_by(Arc::clone(watch))
        .run_journaled(scheduler, &mut workload, journal)
        .map_err(failed)?;
    if let Some(mut fair) = fair {
        let mut jobs = experiment.workload()?;
        fair.judge(&mut *jobs, &mut report.jobs).map_err(failed)?;
        report.summary.fairness = Fairness::of(&report.jobs);
        if watch.stop.load(Ordering::Relaxed) {
            report.ended = Ended::Interrupted;
        }
    }
    let names = experiment.collectors.iter().map(ComponentSpec::to_string);
    Ok(Run {
        collected: names.zip(report.collected.figures()).collect(),
        notices: workload.notices().iter().map(|n| n.to_string()).collect(),
        lost: Lost {
            input: losses::of_input(workload.notices()),
            idle_actions: IdleActions::of(&report),
        },
        report,
        workload: label,
        period_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_has_sixty_seconds() {
        let text = |s| human_duration(Duration::from_secs_f64(s));
        assert_eq!(text(59.5), "59.50 s");
        assert_eq!(text(59.996), "1 min 0 s");
        assert_eq!(text(60.2), "1 min 0 s");
        assert_eq!(text(119.7), "2 min 0 s");
    }
}
