//! `simulate` and `compare`: runs all schedulers on the same jobs.

use super::args::OutputFormat;
use super::config::Given;
use super::execute::{Records, execute, now, print_time};
use super::output;
use super::plot::Drawing;
use super::recording::Recording;
use crate::failure::{Code, Failure};
use crate::plan::Plan;
use crate::plot;
use crate::terminal::{INTERRUPTED, OK, Terminal};
use blox_core::JobId;
use blox_experiment::Failed;
use blox_experiment::value::Limit;
use blox_registry::Registry;
use blox_results::grid::Form;
use blox_results::{Run, Summary, called};
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
    let explained = plan.explained()?.map(JobId);
    let drawings = output::drawings(&plan)?;
    output::folder(&plan.options)?;
    let o = &mut plan.options;
    // Pictures are drawn from result files, which a temporary folder holds if no other does.
    let only_drawn = o.output_dir.is_none() && !drawings.is_empty();
    let scratch = only_drawn.then(output::scratch).transpose()?;
    if let Some(scratch) = &scratch {
        o.output_dir = Some(scratch.path().to_owned());
    }
    o.assignments |= drawings.iter().any(Drawing::needs_assignments);
    plan.cells[0].experiment.given.records.timeline |= only_drawn;
    let (experiment, o) = (plan.only(), &plan.options);
    let journals = output::journals(&plan)?;
    let lock = |dir: &PathBuf| {
        output::spare(plan.files(), dir, plan.run_folders(), o.force)?;
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
    let results = plan.results(experiment, done.iter().copied(), &failed);
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
            output::write_manifest(dir, &plan, &results, args, status)?;
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
        OutputFormat::Json => output::json(&plan, &results, explained)?,
        OutputFormat::Csv => results.comparison().csv(o.why, plan.by()),
        OutputFormat::Table => {
            let form = o.form(terminal.form);
            let about = match o.quiet {
                true => results.assumed(),
                false => results.about(),
            };
            let history = explained.map(|id| stories(id, &done));
            let history = history.unwrap_or_default();
            let history = match form {
                Form::Latex => commented(&history),
                _ => history,
            };
            results.tables(form) + "\n" + &about.text(form) + &history
        }
    };
    terminal.print(&text)?;
    if let (OutputFormat::Csv, Some(id)) = (format, explained) {
        // A table has no place for it; JSON has a field.
        let _ = terminal.err.write_all(stories(id, &done).as_bytes());
    }
    let notices = match (o.quiet, format.is_data()) {
        (true, _) => results.losses(),
        (false, true) => results.notices(),
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

/// Formats the history of a job under each scheduler.
fn stories(id: JobId, runs: &[&Run]) -> String {
    runs.iter().map(|run| run.story(id)).collect()
}

/// Turns lines into comments of LaTeX.
fn commented(text: &str) -> String {
    let lines = text.lines().map(|line| format!("% {line}"));
    lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Fails if no scheduler has run any job, because there is none or all were rejected.
pub(super) fn nothing_ran(done: &[&Run], until: Option<&Limit>) -> Result<(), Failure> {
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
        let done = done.and_then(|(run, recording)| {
            plan.only().check_measured(&run)?;
            Ok((run, recording))
        });
        let (run, recording) = match done {
            Ok(done) => done,
            Err(failure) => return Ok(Err(failure)),
        };
        let write = |dir: PathBuf| {
            // Written immediately, because a long comparison may be interrupted.
            output::write_run(&dir, &run, &plan.options)?;
            recording.map_or(Ok(()), Recording::close)
        };
        let written = plan.folder(i).map_or(Ok(()), write);
        Ok(Ok((run, written)))
    })
}

#[cfg(test)]
mod tests {
    use crate::run_with;

    /// Runs a command, and returns what it prints.
    fn run(command: &str) -> String {
        let registry = blox_sim::registry::register(blox_schedulers::registry());
        let registry = blox_traces::registry::register(registry);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let args = ["blox"].into_iter().chain(command.split(' '));
        let code = run_with(&registry, args, &mut out, &mut err);
        let err = String::from_utf8_lossy(&err);
        assert_eq!(code, 0, "{command}: {err}");
        String::from_utf8(out).unwrap()
    }

    /// Returns the lines of a text that begin with a word.
    fn lines<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with(word)).collect()
    }

    #[test]
    fn set_parts_of_the_world_have_a_line() {
        let plain = "simulate las --workload poisson --load 4 --jobs 20 --cluster 2x4";
        let text = run(plain);
        for word in ["speeds", "faults", "losses"] {
            assert_eq!(lines(&text, word), [""; 0], "{text}");
        }
        let text = run(&format!(
            "{plain} --execution contention{{slowdown=5}} --node-mtbf-h 200 --losses"
        ));
        let speeds = "speeds     by the model `contention{slowdown=5}`";
        assert_eq!(lines(&text, "speeds"), [speeds]);
        let faults = lines(&text, "faults");
        assert!(faults[0].contains("a node fails after 200 h"), "{text}");
        let losses = "losses     made up for jobs that report none";
        assert_eq!(lines(&text, "losses"), [losses]);
    }

    #[test]
    fn jobs_that_did_not_come_have_no_speeds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.csv");
        let rows = "0,1,60,v100:2\n5,1,60,v100:2\n90000,1,60,v100:2\n";
        std::fs::write(&path, format!("submit_s,gpus,duration_s,speeds\n{rows}")).unwrap();
        let path = path.display();
        let text = run(&format!(
            "simulate fifo --trace {path} --cluster 1x4:v100,1x4:k80 --until 20000"
        ));
        let line = "GPU types  each job has its speeds by type";
        assert_eq!(lines(&text, "GPU types"), [line], "{text}");
    }

    #[test]
    fn seeds_state_measured_jobs_and_assumptions() {
        let text =
            "compare fifo srtf --workload poisson --load 4 --jobs 20 --cluster 2x4 --seeds 1..2";
        let measured = "measured   all 20 jobs of each run";
        assert_eq!(lines(&run(text), "measured"), [measured]);
        let sweep = text.replace("compare", "sweep");
        assert_eq!(lines(&run(&sweep), "measured"), [measured]);
        let json = run(&format!("{text} --output-format json"));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let durations = "the true ones are known to srtf, not to fifo";
        assert_eq!(json["assumptions"]["durations"], durations);
        assert_eq!(json["schedulers"][1]["knew_true_durations"], true);
        assert_eq!(json["schedulers"][0]["knew_true_durations"], false);
    }

    #[test]
    fn jobs_without_a_value_are_a_group_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.csv");
        let rows = "0,1,60,-\n0,1,600,\n";
        std::fs::write(&path, format!("submit_s,gpus,duration_s,user\n{rows}")).unwrap();
        let path = path.display();
        let of = |command: &str| {
            let text = run(&format!(
                "{command} --trace {path} --cluster 1x4 --overheads none --by user --seeds 1..2"
            ));
            let (_, groups) = text.split_once("\n\n").unwrap();
            let rows = groups.lines().filter(|line| line.starts_with("fifo"));
            rows.map(|row| row.split_whitespace().nth(1).unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("sweep fifo"), ["-", "(none)"]);
        assert_eq!(of("compare fifo las"), ["-", "(none)"]);
    }
}
