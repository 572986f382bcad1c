//! `compare --seeds`: repeats a comparison with several seeds and computes confidence intervals.
//!
//! Schedulers are compared within a seed, on the same jobs and faults. Each seed gives one mean
//! difference over jobs and one ratio of averages. The table shows medians over seeds with their
//! intervals. Differences between seeds alone, such as a heavier load, do not widen them.

use super::args::OutputFormat;
use super::assumptions::Assumptions;
use super::config::Given;
use super::execute::{now, print_time, run_several};
use super::output;
use super::plot::Drawing;
use super::result::{Run, check_measured};
use super::table::{self, Failed};
use crate::experiment::Experiment;
use crate::experiment::Plan;
use crate::failure::Failure;
use crate::terminal::{BAD_INPUT, INTERRUPTED, OK, Terminal};
use blox_registry::Registry;
use blox_results::grid::{About, Form};
use blox_results::losses::{self, Lost};
use blox_results::statistics::CONFIDENCE;
use blox_results::{
    Entry, Fields, MEDIANS, OverSeeds, Picture, SeedRun, intervals, jct_over_seeds, marks,
    number_of, of_rho,
};
use serde_json::{Value, json};

/// Data of a run that is kept for the comparison.
struct Kept {
    seed: u64,
    run: SeedRun,
    notices: Vec<String>,
    lost: Lost,
    workload: String,
    /// Reason if no job was measured.
    nothing_measured: Option<String>,
}

impl Kept {
    fn of(run: Run, experiment: &Experiment<'_>) -> Self {
        Kept {
            seed: experiment.seed,
            run: SeedRun::of(&run, experiment.options.why),
            notices: table::about_runs(experiment, &[&run]),
            nothing_measured: check_measured(&run, experiment).err(),
            lost: run.lost,
            workload: run.workload,
        }
    }
}

/// Results of schedulers over all seeds.
struct Results<'a> {
    figures: OverSeeds<'a>,
    /// The runs of each scheduler.
    kept: Vec<Vec<&'a Kept>>,
}

pub(super) fn compare(
    registry: &Registry,
    given: Given,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let start = now();
    let format = given.output.format();
    if let Some(name) = given.first_of(&[
        "output-dir",
        "rounds",
        "why",
        "collect",
        "plots",
        "report",
        "assignments",
        "file-format",
    ]) {
        return Err(Failure::new(format!(
            "{name} has no meaning with {}; `blox sweep` writes the results of each seed",
            given.name("seeds")
        )));
    }
    let plan = Plan::of_lists(given, registry)?;
    let drawings = match plan.cells.first() {
        Some(cell) => output::drawings(&cell.experiment)?,
        None => Vec::new(),
    };
    drawings.iter().try_for_each(Drawing::check_seeds)?;
    let todo: Vec<usize> = (0..plan.runs.len()).collect();
    let kept = run_several(&plan, &todo, terminal.interactive, |i, result| {
        let experiment = plan.experiment(&plan.runs[i]);
        Ok(result.map(|run| Kept::of(run, experiment)))
    })?;
    let width = plan.schedulers.len();
    let errors: Vec<Option<String>> = (0..width)
        .map(|i| error_of(kept.iter().skip(i).step_by(width)))
        .collect();
    // Without the schedulers that failed, by their place among all.
    let sound: Vec<usize> = (0..width).filter(|i| errors[*i].is_none()).collect();
    let named = plan.schedulers.iter().zip(&errors);
    let failed: Vec<Failed> = named
        .filter_map(|(label, error)| Some(Failed::of(label, error.as_ref()?)))
        .collect();
    let errors: Vec<String> = errors.into_iter().flatten().collect();
    if sound.is_empty() && !errors.is_empty() {
        return Ok(refused(&errors, terminal));
    }
    // Only seeds with runs of all these; an interruption may leave others incomplete.
    let whole_seeds: Vec<Vec<&Kept>> = kept
        .chunks(width)
        .filter_map(|seed| {
            let runs = sound.iter().map(|i| seed[*i].as_ref()?.as_ref().ok());
            runs.collect()
        })
        .collect();
    let whole = whole_seeds.len();
    let interrupted = whole < plan.cells.len();
    let (measured, left_out): (Vec<_>, Vec<_>) = whole_seeds
        .into_iter()
        .partition(|runs| runs.iter().all(|k| k.nothing_measured.is_none()));
    let mut why = left_out.iter().flatten();
    if let Some(why) = why.find_map(|kept| kept.nothing_measured.as_ref())
        && measured.is_empty()
        && !interrupted
    {
        return Err(Failure::new(why));
    }
    let left_out: Vec<u64> = left_out.iter().map(|runs| runs[0].seed).collect();
    let results = results(&plan, &sound, &measured);
    let text = match format {
        OutputFormat::Table => {
            let form = plan.base.form(terminal.form);
            render(&plan, &results, &failed, &left_out, form)
        }
        OutputFormat::Csv => {
            let by = plan.base.by.as_deref();
            results.figures.csv(by.map(|by| &*by.0))
        }
        OutputFormat::Json => output::pretty_text(&json(&plan, &results, &left_out))?,
    };
    terminal.print(&text)?;
    if !drawings.is_empty() {
        let picture = picture(&results.figures).ok_or_else(|| {
            Failure::new("--plot: there are no data for a picture, expected jobs that ended")
        })?;
        drawings.iter().try_for_each(|d| d.write(&picture))?;
    }
    let notices = match (plan.base.quiet, format.is_data()) {
        (true, _) => lost(&plan, &results),
        (false, true) => notices(&plan, &results, &left_out),
        (false, false) => Vec::new(),
    };
    terminal.notices(&notices);
    if !plan.base.quiet {
        print_time(start, "", terminal);
    }
    if interrupted {
        let _ = writeln!(
            terminal.err,
            "interrupted: results of {} of {} seeds",
            whole,
            plan.cells.len()
        );
    }
    Ok(match (interrupted, errors.is_empty()) {
        (_, false) => refused(&errors, terminal),
        (true, true) => INTERRUPTED,
        (false, true) => OK,
    })
}

/// Draws the job completion times of the schedulers, with the jobs of all seeds.
fn picture(results: &OverSeeds<'_>) -> Option<Picture> {
    let times = results.times();
    let seeds = results.0.first()?.results.runs.len();
    let most = times.iter().map(|(_, times)| times.len()).max()?;
    let about = format!(
        "{} of {}",
        number_of(most as u64, "job"),
        number_of(seeds as u64, "seed")
    );
    jct_over_seeds(&about, times)
}

/// Prints errors, and returns the exit code.
fn refused(errors: &[String], terminal: &mut Terminal<'_>) -> i32 {
    for error in errors {
        let _ = writeln!(terminal.err, "error: {error}");
    }
    BAD_INPUT
}

/// Returns the first error of a scheduler's runs, with the number of runs that failed.
fn error_of<'a>(runs: impl Iterator<Item = &'a Option<Result<Kept, String>>>) -> Option<String> {
    let errors = runs.filter_map(|run| run.as_ref()?.as_ref().err());
    let errors: Vec<&String> = errors.collect();
    let first = errors.first()?;
    Some(match errors.len() {
        1 => (*first).clone(),
        n => format!(
            "{first} (and with {})",
            number_of(n as u64 - 1, "other seed")
        ),
    })
}

fn baseline(plan: &Plan<'_>) -> usize {
    plan.cells.first().map_or(0, |c| c.experiment.baseline)
}

/// Returns the results of the schedulers at these places. If the baseline is not one of them, they
/// are compared with nothing.
fn results<'a>(plan: &'a Plan<'_>, places: &[usize], seeds: &[Vec<&'a Kept>]) -> Results<'a> {
    let labels: Vec<&str> = places.iter().map(|i| &*plan.schedulers[*i]).collect();
    let runs = |seed: &Vec<&'a Kept>| seed.iter().map(|kept| &kept.run).collect();
    let runs: Vec<Vec<&SeedRun>> = seeds.iter().map(runs).collect();
    let base = places.iter().position(|i| *i == baseline(plan));
    let kept = |k: usize| seeds.iter().map(|seed| seed[k]).collect();
    Results {
        figures: OverSeeds::of(&labels, &runs, base),
        kept: (0..places.len()).map(kept).collect(),
    }
}

fn render(
    plan: &Plan<'_>,
    results: &Results<'_>,
    failed: &[Failed],
    left_out: &[u64],
    form: Form,
) -> String {
    let mut text = results.figures.table(None).text(form);
    if let Some(by) = plan.base.by.as_deref() {
        text.push('\n');
        text.push_str(&results.figures.table(Some(&by.0)).text(form));
    }
    let about = match (plan.base.quiet, plan.cells.first()) {
        (true, Some(cell)) => table::assumed(
            &Assumptions::of(&cell.experiment, of_runs(results)),
            results.figures.has_marks(),
        ),
        _ => about(plan, results, failed, left_out),
    };
    text.push('\n');
    text.push_str(&about.text(form));
    text
}

fn about(plan: &Plan<'_>, results: &Results<'_>, failed: &[Failed], left_out: &[u64]) -> About {
    let mut about = About::default();
    let Some(cell) = plan.cells.first() else {
        return about;
    };
    about.add("cluster", cell.experiment.cluster_line());
    if let Some(first) = results.kept.iter().flatten().next() {
        let seed = format!(", seed {}", first.seed);
        let workload = first.workload.trim_end_matches(&seed);
        about.add("workload", workload);
    }
    let given = cell.experiment.given.measure.as_deref();
    let figures = results.kept.iter().flatten().map(|kept| &kept.run.figures);
    about.add("measured", table::measured_in_each(given, figures));
    about.0.extend(results.figures.has_marks().then(marks));
    let assumptions = Assumptions::of(&cell.experiment, of_runs(results));
    about.0.extend(assumptions.lines());
    let seeds: Vec<String> = seeds(results).iter().map(u64::to_string).collect();
    about.add("seeds", seeds.join(", "));
    about.add("figures", MEDIANS);
    let base = plan.schedulers.get(baseline(plan));
    let mut entries = results.figures.0.iter();
    if let Some(base) = base.filter(|base| entries.any(|e| e.scheduler == **base)) {
        let line = format!("with {base} at the same seed, job by job");
        about.add("compared", line);
        about.add("relative", format!("avg JCT / avg JCT of {base}"));
        about.add("diff.", format!("mean over jobs of JCT - JCT under {base}"));
    }
    about.0.push(intervals(seeds.len()));
    about.0.extend(cell.experiment.given.fairness.then(of_rho));
    let failures = table::of_failed(&cell.experiment, failed);
    let all = notices(plan, results, left_out);
    for notice in failures.into_iter().chain(all) {
        about.add("notice", notice);
    }
    about
}

/// Returns the seeds with which all schedulers were simulated.
fn seeds(results: &Results<'_>) -> Vec<u64> {
    let first = results.kept.first().into_iter().flatten();
    first.map(|kept| kept.seed).collect()
}

/// Notice for seeds that do not change the results.
pub(super) const ALIKE: &str =
    "every seed gives the same results: nothing depends on the seed, and intervals have no meaning";

/// Returns counted lines that `--quiet` does not hide: of the input, each scheduler and options.
fn lost(plan: &Plan<'_>, results: &Results<'_>) -> Vec<String> {
    let first = results.kept.iter().flatten().next();
    let mut lines = first.map_or_else(Vec::new, |kept| kept.lost.input.clone());
    lines.extend(incomplete(results));
    lines.extend(of_settings(plan));
    lines.extend(losses::of_runs(of_runs(results), true));
    lines
}

fn of_runs<'a>(results: &'a Results<'_>) -> impl Iterator<Item = (&'a str, &'a Lost)> {
    let each = results.figures.0.iter().zip(&results.kept);
    each.flat_map(|(e, kept)| kept.iter().map(|kept| (e.scheduler, &kept.lost)))
}

fn of_settings(plan: &Plan<'_>) -> Vec<String> {
    losses::each_once(plan.cells.iter().flat_map(|c| &c.experiment.notices))
}

/// Returns one line for each scheduler with measured jobs that did not complete.
fn incomplete(results: &Results<'_>) -> impl Iterator<Item = String> {
    results.figures.0.iter().filter_map(|e| {
        let line = losses::of_figures(e.results.rows.iter())?;
        Some(format!("{}: {line}", e.scheduler))
    })
}

/// Returns the notices of all runs without repetitions; most are the same for every seed.
fn notices(plan: &Plan<'_>, results: &Results<'_>, left_out: &[u64]) -> Vec<String> {
    let kept = results.kept.iter().flatten();
    let mut lines = losses::distinct(kept.map(|kept| kept.notices.as_slice()));
    lines.extend(incomplete(results));
    lines.extend(of_settings(plan));
    lines.extend(losses::of_runs(of_runs(results), false));
    if results.figures.are_alike() {
        lines.push(ALIKE.to_owned());
    }
    if !left_out.is_empty() {
        lines.push(format!(
            "{} of {} left out: --measure selects none of their jobs",
            left_out.len(),
            number_of((left_out.len() + seeds(results).len()) as u64, "seed")
        ));
    }
    let unpaired = results.figures.unpaired();
    if unpaired > 0 {
        lines.push(format!(
            "averages are over different jobs: {} completed under one scheduler but not under the other",
            number_of(unpaired, "job")
        ));
    }
    lines
}

fn json(plan: &Plan<'_>, results: &Results<'_>, left_out: &[u64]) -> Value {
    let with_groups = |(e, kept): (&Entry<'_>, &Vec<&Kept>)| {
        let mut all: Fields = e.fields().into_iter().collect();
        if let Some(by) = plan.base.by.as_deref() {
            let groups = e.group_fields(&by.0).into_iter();
            let groups: Vec<Fields> = groups.map(|g| g.into_iter().collect()).collect();
            all.insert("groups".to_owned(), json!(groups));
        }
        let knew = kept.iter().any(|kept| kept.lost.knew_truth);
        all.insert("knew_true_durations".to_owned(), json!(knew));
        all
    };
    let entries = results.figures.0.iter().zip(&results.kept);
    let experiment = plan.cells.first().map(|cell| &cell.experiment);
    json!({
        "assumptions": experiment.map(|e| Assumptions::of(e, of_runs(results)).fields()),
        "seeds": seeds(results),
        "seeds_left_out": left_out,
        "baseline": plan.schedulers.get(baseline(plan)),
        "confidence": CONFIDENCE,
        "schedulers": entries.map(with_groups).collect::<Vec<_>>(),
    })
}
