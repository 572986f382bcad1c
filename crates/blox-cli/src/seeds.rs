//! `compare --seeds`: repeats a comparison with several seeds and computes confidence intervals.
//!
//! Schedulers are compared within a seed, on the same jobs and faults. Each seed gives one mean
//! difference over jobs and one ratio of averages. The intervals are over these values (Student's t
//! over seeds). Differences between seeds alone, such as a heavier load, do not widen them.

use super::config::Given;
use super::execute::{now, tell_time};
use super::grid::{self, Form, Grid, decimal, number_of};
use super::losses::{self, IdleActions, Lost};
use super::output::{self, OutputFormat};
use super::resolve::Experiment;
use super::result::Run;
use super::sweep::plan::Plan;
use super::sweep::{self, CONFIDENCE};
use super::table;
use super::{Failure, INTERRUPTED, OK, Terminal};
use blox_core::registry::Registry;
use blox_sim::results::COLUMNS;
use blox_sim::results::statistics::{Estimate, Paired};
use serde_json::{Map, Value, json};

/// Data of a run that is kept for the comparison.
struct Kept {
    seed: u64,
    figures: Map<String, Value>,
    /// Job completion times of measured jobs, with job numbers.
    times: Vec<(u32, f64)>,
    notices: Vec<String>,
    lost: Lost,
    /// Number of measured jobs that the scheduler ended.
    ended_early: u64,
    /// Number of measured rigid jobs that ran on other numbers of GPUs than requested.
    resized: u64,
    workload: String,
    /// Reason if no job was measured.
    nothing_measured: Option<String>,
}

impl Kept {
    fn of(run: Run, experiment: &Experiment<'_>) -> Result<Self, Failure> {
        let measured = run.report.jobs.iter().filter(|j| j.measured);
        Ok(Kept {
            seed: experiment.seed,
            figures: output::figures(&run, experiment)?,
            times: measured
                .filter_map(|j| Some((j.job.0, j.jct()?.secs())))
                .collect(),
            notices: table::about_runs(experiment, &[&run]),
            ended_early: table::ended_by_scheduler(&run),
            resized: run.report.resized,
            nothing_measured: run.nothing_measured(experiment),
            lost: run.lost,
            workload: run.workload,
        })
    }
}

/// Results of a scheduler over all seeds.
struct Entry<'a> {
    label: &'a str,
    runs: Vec<&'a Kept>,
    /// Comparison with the baseline at the same seed; empty for the baseline itself.
    pairs: Vec<Paired>,
    /// Average job completion times as multiples of the baseline's.
    ratios: Vec<f64>,
}

impl Entry<'_> {
    fn estimate(&self, key: &str) -> Estimate {
        let rows: Vec<&Map<String, Value>> = self.runs.iter().map(|k| &k.figures).collect();
        sweep::estimate(&rows, key)
    }

    fn difference(&self) -> Option<Estimate> {
        let means: Vec<f64> = self.pairs.iter().map(|p| p.mean_s).collect();
        Estimate::of(&means, CONFIDENCE)
    }

    /// Returns a count as a fraction of all pairs of jobs.
    fn share(&self, of: fn(&Paired) -> u64) -> Option<f64> {
        let pairs: u64 = self.pairs.iter().map(|p| p.pairs).sum();
        let counted: u64 = self.pairs.iter().map(of).sum();
        (pairs > 0).then(|| counted as f64 / pairs as f64)
    }
}

pub(super) fn compare(
    registry: &Registry,
    given: Given,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let start = now();
    let format = OutputFormat::of(&given)?;
    if let Some(name) = given.first_of(&[
        "output-dir",
        "rounds",
        "why",
        "collect",
        "fairness",
        "plots",
        "plot",
        "report",
        "assignments",
    ]) {
        return Err(Failure::new(format!(
            "{name} has no meaning with {}; `blox sweep` writes the results of each seed",
            given.name("seeds")
        )));
    }
    let plan = Plan::of(given, registry)?;
    let todo: Vec<usize> = (0..plan.runs.len()).collect();
    let kept = sweep::run_all(&plan, &todo, terminal.interactive, |i, result| {
        let experiment = plan.experiment(&plan.runs[i]);
        Ok(match result {
            Ok(run) => Ok(Kept::of(run, experiment)?),
            Err(why) => Err(why),
        })
    })?;
    if let Some(why) = kept.iter().flatten().find_map(|k| k.as_ref().err()) {
        return Err(Failure::new(why));
    }
    let kept: Vec<Option<&Kept>> = kept
        .iter()
        .map(|k| k.as_ref().and_then(|k| k.as_ref().ok()))
        .collect();
    // Only seeds with runs of all schedulers; an interruption may leave others incomplete.
    let width = plan.schedulers.len();
    let whole_seeds: Vec<Vec<&Kept>> = kept
        .chunks(width)
        .filter_map(|seed| seed.iter().copied().collect())
        .collect();
    let whole = whole_seeds.len();
    let interrupted = whole < plan.cells.len();
    let (measured, left_out): (Vec<_>, Vec<_>) = whole_seeds
        .into_iter()
        .partition(|runs| runs.iter().all(|k| k.nothing_measured.is_none()));
    let mut why = left_out.iter().flatten();
    if measured.is_empty()
        && !interrupted
        && let Some(why) = why.find_map(|k| k.nothing_measured.as_ref())
    {
        return Err(Failure::new(why));
    }
    let left_out: Vec<u64> = left_out.iter().map(|runs| runs[0].seed).collect();
    let entries = entries(&plan, &measured);
    let text = match format {
        OutputFormat::Table => render(&plan, &entries, &left_out, terminal.form),
        OutputFormat::Markdown => render(&plan, &entries, &left_out, Form::Markdown),
        OutputFormat::Csv => csv(&entries)?,
        OutputFormat::Json => output::pretty_text(&json(&plan, &entries, &left_out))?,
    };
    terminal.print(&text)?;
    let notices = match (plan.base.quiet, format.is_data()) {
        (true, _) => lost(&plan, &entries),
        (false, true) => notices(&plan, &entries, &left_out),
        (false, false) => Vec::new(),
    };
    terminal.notices(&notices);
    if !plan.base.quiet {
        tell_time(start, "", terminal);
    }
    if interrupted {
        let _ = writeln!(
            terminal.err,
            "interrupted: results of {} of {} seeds",
            whole,
            plan.cells.len()
        );
        return Ok(INTERRUPTED);
    }
    Ok(OK)
}

fn baseline(plan: &Plan<'_>) -> usize {
    plan.cells.first().map_or(0, |c| c.experiment.baseline)
}

fn entries<'a>(plan: &'a Plan<'_>, seeds: &[Vec<&'a Kept>]) -> Vec<Entry<'a>> {
    let base = baseline(plan);
    let average = |kept: &Kept| kept.figures.get("avg_jct_s").and_then(Value::as_f64);
    let one = |(i, label): (usize, &'a String)| Entry {
        label,
        runs: seeds.iter().map(|s| s[i]).collect(),
        pairs: match i == base {
            true => Vec::new(),
            false => seeds
                .iter()
                .map(|s| Paired::of_times(&s[base].times, &s[i].times))
                .collect(),
        },
        ratios: seeds
            .iter()
            .filter_map(|s| {
                let base = average(s[base]).filter(|b| *b > 0.0)?;
                Some(average(s[i])? / base)
            })
            .collect(),
    };
    plan.schedulers.iter().enumerate().map(one).collect()
}

fn render(plan: &Plan<'_>, entries: &[Entry<'_>], left_out: &[u64], form: Form) -> String {
    let head = [
        "scheduler",
        "avg\nJCT s",
        "±\n95 %",
        "relative",
        "diff. a\njob s",
        "±\n95 %",
        "faster",
        "slower",
        "avg\nresp. s",
        "GPU\nutil.",
    ];
    let missing = || "-".to_owned();
    let half = |e: Option<Estimate>| {
        let half = e.and_then(|e| e.half_width);
        half.map_or_else(missing, |h| decimal(h, 1))
    };
    let percent =
        |share: Option<f64>| share.map_or_else(missing, |s| format!("{:.1} %", 100.0 * s));
    let rows = entries
        .iter()
        .map(|e| {
            let jct = e.estimate("avg_jct_s");
            let ratio = Estimate::of(&e.ratios, CONFIDENCE);
            let diff = e.difference();
            vec![
                e.label.to_owned(),
                decimal(jct.mean, 1),
                half(Some(jct)),
                ratio.map_or_else(missing, |r| format!("{:.3}", r.mean)),
                diff.map_or_else(missing, |d| decimal(d.mean, 1)),
                half(diff),
                percent(e.share(|p| p.faster)),
                percent(e.share(|p| p.slower)),
                decimal(e.estimate("avg_responsiveness_s").mean, 1),
                format!("{:.1} %", 100.0 * e.estimate("utilisation").mean),
            ]
        })
        .collect();
    let mut text = Grid::new(head, 1, rows).text(form);
    if !plan.base.quiet {
        text.push('\n');
        text.push_str(&table::lines(&about(plan, entries, left_out), form));
    }
    text
}

fn about(plan: &Plan<'_>, entries: &[Entry<'_>], left_out: &[u64]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut say = |what: &str, line: String| lines.push((what.to_owned(), line));
    let Some(cell) = plan.cells.first() else {
        return lines;
    };
    say("cluster", cell.experiment.cluster_line());
    if let Some(first) = entries.first().and_then(|e| e.runs.first()) {
        let seed = format!(", seed {}", first.seed);
        let workload = first.workload.trim_end_matches(&seed);
        say("workload", workload.to_owned());
    }
    let given = cell.experiment.options.measure.as_deref();
    say("measured", table::measured_in_each(given));
    lines.extend(table::jobs_end(&cell.experiment));
    let mut say = |what: &str, line: String| lines.push((what.to_owned(), line));
    let seeds: Vec<String> = seeds(entries).iter().map(u64::to_string).collect();
    say("seeds", seeds.join(", "));
    if let Some(base) = entries.get(baseline(plan)) {
        say(
            "compared",
            format!("with {} at the same seed, job by job", base.label),
        );
        say(
            "relative",
            format!("mean over seeds of avg JCT / avg JCT of {}", base.label),
        );
        say(
            "diff.",
            format!("mean over jobs of JCT - JCT under {}", base.label),
        );
    }
    say(
        "interval",
        format!(
            "± is half of the 95 % interval over {} (Student's t)",
            number_of(seeds.len() as u64, "seed")
        ),
    );
    for notice in notices(plan, entries, left_out) {
        say("notice", notice);
    }
    lines
}

/// Returns the seeds with which all schedulers were simulated.
fn seeds(entries: &[Entry<'_>]) -> Vec<u64> {
    let first = entries.iter().take(1);
    first.flat_map(|e| &e.runs).map(|kept| kept.seed).collect()
}

/// Notice for seeds that do not change the results.
pub(super) const ALIKE: &str =
    "every seed gives the same results: nothing depends on the seed, and ± has no meaning";

/// Returns counted lines that `--quiet` does not hide: of the input, each scheduler and options.
fn lost(plan: &Plan<'_>, entries: &[Entry<'_>]) -> Vec<String> {
    let first = entries.first().and_then(|e| e.runs.first());
    let mut lines = first.map_or_else(Vec::new, |kept| kept.lost.input.clone());
    lines.extend(incomplete(entries));
    lines.extend(of_settings(plan));
    lines.extend(idle_actions(entries));
    lines
}

fn of_settings(plan: &Plan<'_>) -> Vec<String> {
    losses::of_all_settings(plan.cells.iter().map(|cell| &cell.experiment))
}

/// Returns one line for each scheduler whose cluster manager had node actions without effect.
fn idle_actions(entries: &[Entry<'_>]) -> impl Iterator<Item = String> {
    let of =
        |e: &Entry<'_>| IdleActions::notice(e.label, e.runs.iter().map(|k| &k.lost.idle_actions));
    entries.iter().filter_map(of)
}

/// Returns one line for each scheduler with measured jobs that did not complete.
fn incomplete(entries: &[Entry<'_>]) -> impl Iterator<Item = String> {
    entries.iter().filter_map(|e| {
        let line = losses::of_figures(e.runs.iter().map(|k| &k.figures))?;
        Some(format!("{}: {line}", e.label))
    })
}

/// Returns the notices of all runs without repetitions; most are the same for every seed.
fn notices(plan: &Plan<'_>, entries: &[Entry<'_>], left_out: &[u64]) -> Vec<String> {
    let mut list: Vec<(String, usize)> = Vec::new();
    for kept in entries.iter().flat_map(|e| &e.runs) {
        for notice in &kept.notices {
            match list.iter_mut().find(|(n, _)| n == notice) {
                Some((_, times)) => *times += 1,
                None => list.push((notice.clone(), 1)),
            }
        }
    }
    let runs: usize = entries.iter().map(|e| e.runs.len()).sum();
    let unpaired: u64 = entries
        .iter()
        .flat_map(|e| &e.pairs)
        .map(|p| p.unpaired)
        .sum();
    let mut lines: Vec<String> = list
        .into_iter()
        .map(|(notice, times)| match times {
            1 => notice,
            n => format!("{notice} (in {n} of {runs} runs)"),
        })
        .collect();
    lines.extend(incomplete(entries));
    lines.extend(of_settings(plan));
    lines.extend(entries.iter().filter_map(|e| {
        let of_all_seeds = e.runs.iter().map(|k| k.ended_early).sum();
        table::ended_early(e.label, of_all_seeds)
    }));
    lines.extend(entries.iter().filter_map(|e| {
        let of_all_seeds = e.runs.iter().map(|k| k.resized).sum();
        table::resized(e.label, of_all_seeds)
    }));
    lines.extend(idle_actions(entries));
    let same = |p: &[&Kept]| p[0].figures == p[1].figures && p[0].times == p[1].times;
    let alike = |e: &Entry<'_>| e.runs.windows(2).all(same);
    let several = entries.first().is_some_and(|e| e.runs.len() > 1);
    if several && entries.iter().all(alike) {
        lines.push(ALIKE.to_owned());
    }
    if !left_out.is_empty() {
        lines.push(format!(
            "{} of {} left out: --measure selects none of their jobs",
            left_out.len(),
            number_of((left_out.len() + seeds(entries).len()) as u64, "seed")
        ));
    }
    if unpaired > 0 {
        lines.push(format!(
            "averages are over different jobs: {} completed under one scheduler but not under the other",
            number_of(unpaired, "job")
        ));
    }
    lines
}

/// Returns the figures with intervals, named as in `summary.json`.
fn object(e: &Entry<'_>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("scheduler".to_owned(), json!(e.label));
    fields.insert("seeds".to_owned(), json!(e.runs.len()));
    for column in COLUMNS.iter().filter(|c| c.name != "scheduler") {
        insert(&mut fields, column.name, Some(e.estimate(column.name)));
    }
    insert(
        &mut fields,
        "relative_avg_jct",
        Estimate::of(&e.ratios, CONFIDENCE),
    );
    insert(&mut fields, "paired_difference_s", e.difference());
    for (key, value) in [
        ("paired_faster", e.share(|p| p.faster)),
        ("paired_slower", e.share(|p| p.slower)),
    ] {
        fields.insert(key.to_owned(), json!(value));
    }
    fields
}

/// Inserts the mean as `NAME` and half of the interval as `NAME_ci95`.
fn insert(fields: &mut Map<String, Value>, name: &str, e: Option<Estimate>) {
    fields.insert(name.to_owned(), json!(e.map(|e| e.mean)));
    let half = e.and_then(|e| e.half_width);
    fields.insert(format!("{name}_ci95"), json!(half));
}

fn csv(entries: &[Entry<'_>]) -> Result<String, Failure> {
    let rows: Vec<Map<String, Value>> = entries.iter().map(object).collect();
    let mut head = vec!["scheduler".to_owned(), "seeds".to_owned()];
    let figures = COLUMNS[1..].iter().map(|c| c.name);
    for name in figures.chain(["relative_avg_jct", "paired_difference_s"]) {
        head.extend([name.to_owned(), format!("{name}_ci95")]);
    }
    head.extend(["paired_faster", "paired_slower"].map(str::to_owned));
    grid::csv(&head, &rows)
}

fn json(plan: &Plan<'_>, entries: &[Entry<'_>], left_out: &[u64]) -> Value {
    json!({
        "seeds": seeds(entries),
        "seeds_left_out": left_out,
        "baseline": plan.schedulers.get(baseline(plan)),
        "confidence": CONFIDENCE,
        "schedulers": entries.iter().map(object).collect::<Vec<_>>(),
    })
}
