//! `compare --seeds`: repeats a comparison with several seeds and computes confidence intervals.
//!
//! Schedulers are compared within a seed, on the same jobs and faults. Each seed gives one mean
//! difference over jobs and one ratio of averages. The table shows medians over seeds with their
//! intervals. Differences between seeds alone, such as a heavier load, do not widen them.

use super::args::OutputFormat;
use super::assumptions::Assumptions;
use super::config::Given;
use super::execute::{now, print_time, run_several};
use super::grid::{self, Form, Grid, decimal, number_of, percent, range, ratio};
use super::losses::{self, Lost};
use super::output;
use super::plan::Plan;
use super::plot::Drawing;
use super::resolve::Experiment;
use super::result::Run;
use super::table::{self, About, Failed};
use crate::failure::Failure;
use crate::terminal::{BAD_INPUT, INTERRUPTED, OK, Terminal};
use blox_registry::Registry;
use blox_results::statistics::{CONFIDENCE, Estimate};
use blox_results::{
    Fields, Group, Picture, Repeated, SeedRun, compare_values, jct_over_seeds, of_measured, total,
    value_or_none,
};
use serde_json::{Value, json};

/// Data of a run that is kept for the comparison.
struct Kept {
    seed: u64,
    run: SeedRun,
    /// Results of each group, with its value in the column of `--by`.
    groups: Vec<(String, SeedRun)>,
    notices: Vec<String>,
    lost: Lost,
    workload: String,
    /// Reason if no job was measured.
    nothing_measured: Option<String>,
}

impl Kept {
    fn of(run: Run, experiment: &Experiment<'_>) -> Self {
        let of_group = |group: &Group| (group.value.clone(), SeedRun::of_group(group));
        Kept {
            seed: experiment.seed,
            groups: run
                .groups
                .iter()
                .flat_map(|groups| &groups.list)
                .map(of_group)
                .collect(),
            run: SeedRun::of(&run.figures(experiment)),
            notices: table::about_runs(experiment, &[&run]),
            nothing_measured: run.measured(experiment).err(),
            lost: run.lost,
            workload: run.workload,
        }
    }
}

/// Results of a scheduler over all seeds.
struct Entry<'a> {
    label: &'a str,
    kept: Vec<&'a Kept>,
    results: Repeated<'a>,
    /// Results of each group, with its value.
    groups: Vec<(&'a str, Repeated<'a>)>,
}

pub(super) fn compare(
    registry: &Registry,
    given: Given,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let start = now();
    let format = given.options.output();
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
    let entries = entries(&plan, &sound, &measured);
    let text = match format {
        OutputFormat::Table => {
            let form = plan.base.form(terminal.form);
            render(&plan, &entries, &failed, &left_out, form)
        }
        OutputFormat::Csv => csv(&entries, plan.base.by.as_deref().map(|by| &*by.0))?,
        OutputFormat::Json => output::pretty_text(&json(&plan, &entries, &left_out))?,
    };
    terminal.print(&text)?;
    if !drawings.is_empty() {
        let picture = picture(&entries).ok_or_else(|| {
            Failure::new("--plot: there are no data for a picture, expected jobs that ended")
        })?;
        drawings.iter().try_for_each(|d| d.write(&picture))?;
    }
    let notices = match (plan.base.quiet, format.is_data()) {
        (true, _) => lost(&plan, &entries),
        (false, true) => notices(&plan, &entries, &left_out),
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
fn picture(entries: &[Entry<'_>]) -> Option<Picture> {
    let jobs =
        |e: &Entry<'_>| -> Vec<f64> { e.results.runs.iter().flat_map(|r| r.times()).collect() };
    let times: Vec<(String, Vec<f64>)> = entries
        .iter()
        .map(|e| (e.label.to_owned(), jobs(e)))
        .collect();
    let seeds = entries.iter().map(|e| e.kept.len()).max()?;
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
fn entries<'a>(plan: &'a Plan<'_>, places: &[usize], seeds: &[Vec<&'a Kept>]) -> Vec<Entry<'a>> {
    let of = |k: usize| -> Vec<&'a SeedRun> { seeds.iter().map(|seed| &seed[k].run).collect() };
    let baseline = baseline(plan);
    let base_at = places.iter().position(|i| *i == baseline);
    let base = base_at.map_or_else(Vec::new, of);
    let one = |(k, &i): (usize, &usize)| Entry {
        label: &plan.schedulers[i],
        groups: groups(seeds, k, base_at),
        kept: seeds.iter().map(|seed| seed[k]).collect(),
        results: Repeated::of(of(k), (i != baseline).then_some(&base[..])),
    };
    places.iter().enumerate().map(one).collect()
}

/// Returns the results of each group of a scheduler, over the seeds under which the group has jobs,
/// also under the baseline at place `base`. If there is none, they are compared with nothing.
fn groups<'a>(
    seeds: &[Vec<&'a Kept>],
    i: usize,
    base: Option<usize>,
) -> Vec<(&'a str, Repeated<'a>)> {
    fn find<'a>(kept: &'a Kept, value: &str) -> Option<&'a SeedRun> {
        let (_, run) = kept.groups.iter().find(|(own, _)| own == value)?;
        Some(run)
    }
    let of_all = seeds.iter().flat_map(|seed| &seed[i].groups);
    let mut values: Vec<&str> = of_all.map(|(value, _)| value.as_str()).collect();
    values.sort_by(|a, b| compare_values(a, b));
    values.dedup();
    let one = |value: &'a str| {
        let Some(at) = base else {
            let own = seeds.iter().filter_map(|seed| find(seed[i], value));
            return (value, Repeated::of(own.collect(), Some(&[])));
        };
        let both = seeds
            .iter()
            .filter_map(|seed| Some((find(seed[i], value)?, find(seed[at], value)?)));
        let (own, base): (Vec<_>, Vec<_>) = both.unzip();
        let base = Some(base.as_slice()).filter(|_| i != at);
        (value, Repeated::of(own, base))
    };
    values.into_iter().map(one).collect()
}

fn render(
    plan: &Plan<'_>,
    entries: &[Entry<'_>],
    failed: &[Failed],
    left_out: &[u64],
    form: Form,
) -> String {
    let all = entries.iter().map(|e| (e.label, "", &e.results));
    let mut text = table_of(all.collect(), None).text(form);
    if let Some(by) = plan.base.by.as_deref() {
        let rows = entries.iter().flat_map(|e| {
            let groups = e.groups.iter();
            groups.map(|(value, results)| (e.label, *value, results))
        });
        text.push('\n');
        text.push_str(&table_of(rows.collect(), Some(&by.0)).text(form));
    }
    let about = match (plan.base.quiet, plan.cells.first()) {
        (true, Some(cell)) => About::of(
            &Assumptions::of(&cell.experiment, of_runs(entries)),
            has_marks(entries),
        ),
        _ => about(plan, entries, failed, left_out),
    };
    text.push('\n');
    text.push_str(&about.text(form));
    text
}

/// Returns the table of results: a scheduler, a group and its results in each row.
fn table_of(rows: Vec<(&str, &str, &Repeated<'_>)>, by: Option<&str>) -> Grid {
    let middle = |e: Option<Estimate>| e.map_or(f64::NAN, |e| e.median);
    let ends = |e: Option<Estimate>| e.and_then(|e| e.interval);
    let seeds = rows.iter().map(|(.., r)| r.runs.len());
    let interval = table::interval_heading(seeds.max().unwrap_or(0));
    let figure = |r: &Repeated<'_>, name: &str| middle(r.estimate(name));
    let rated = rows
        .iter()
        .any(|(.., r)| r.estimate("fairness_mean").is_some());
    let priced = rows.iter().any(|(.., r)| r.estimate("rent_cost").is_some());
    let only = |shown: bool, head| if shown { head } else { "" };
    let rho = |r: &Repeated<'_>, text| table::marked(text, partly_rated(r));
    let partial = rows.iter().any(|(.., r)| r.partial().is_some());
    let mark = |r: &Repeated<'_>, text| table::marked(text, r.partial().is_some());
    let share = |share: Option<f64>| percent(share.unwrap_or(f64::NAN));
    let words = 1 + usize::from(by.is_some());
    let grid = Grid::of(
        &rows,
        words,
        &[
            ("scheduler", &|(label, ..)| (*label).to_owned()),
            (by.unwrap_or_default(), &|(_, value, _)| {
                value_or_none(value).to_owned()
            }),
            (if partial { "completed" } else { "" }, &|(.., r)| {
                r.partial().map_or("all".to_owned(), of_measured)
            }),
            ("avg\nJCT s", &|(.., r)| {
                mark(r, decimal(figure(r, "avg_jct_s"), 0))
            }),
            (interval, &|(.., r)| {
                range(ends(r.estimate("avg_jct_s")), |end| decimal(end, 0))
            }),
            ("relative", &|(.., r)| {
                mark(r, ratio(middle(r.relative()), 1.0))
            }),
            (interval, &|(.., r)| {
                // The baseline has no pairs: its ratio is always 1.
                let other = r.relative().filter(|_| !r.pairs.is_empty());
                range(ends(other), |end| ratio(end, 1.0))
            }),
            ("diff. a\njob s", &|(.., r)| {
                decimal(middle(r.difference()), 0)
            }),
            (interval, &|(.., r)| {
                range(ends(r.difference()), |end| decimal(end, 0))
            }),
            ("faster", &|(.., r)| share(r.share(|p| p.faster))),
            ("slower", &|(.., r)| share(r.share(|p| p.slower))),
            ("first\nwait s", &|(.., r)| {
                mark(r, decimal(figure(r, "avg_responsiveness_s"), 0))
            }),
            ("GPUs\nbusy", &|(.., r)| percent(figure(r, "utilisation"))),
            (only(priced, "node\nhours"), &|(.., r)| {
                decimal(figure(r, "rent_node_hours"), 1)
            }),
            (only(priced, "cost"), &|(.., r)| {
                decimal(figure(r, "rent_cost"), 2)
            }),
            (only(rated, "mean\nrho"), &|(.., r)| {
                rho(r, decimal(figure(r, "fairness_mean"), 2))
            }),
            (only(rated, interval), &|(.., r)| {
                range(ends(r.estimate("fairness_mean")), |end| decimal(end, 2))
            }),
            (only(rated, "worst\nrho"), &|(.., r)| {
                rho(r, decimal(figure(r, "fairness_worst"), 2))
            }),
            (only(rated, "unfair"), &|(.., r)| {
                rho(r, percent(figure(r, "fairness_unfair")))
            }),
        ],
    );
    let before = grid.words + usize::from(partial);
    let grid = table::with_counts(grid, before, &rows, |(.., r), name| {
        total(r.runs.iter().map(|run| &run.figures), name)
    });
    table::with_parts(grid, &rows, |(.., r), name| figure(r, name))
}

/// Returns whether the fairness is over fewer jobs than were measured.
fn partly_rated(r: &Repeated<'_>) -> bool {
    let count = |run: &SeedRun, name: &str| run.figures.get(name).and_then(Value::as_u64);
    let of = |run: &&SeedRun| count(run, "fairness_jobs") < count(run, "measured");
    r.runs.iter().any(of)
}

/// Returns whether an average is marked.
fn has_marks(entries: &[Entry<'_>]) -> bool {
    let marked = |r: &Repeated<'_>| r.partial().is_some() && r.estimate("avg_jct_s").is_some();
    entries.iter().any(|e| marked(&e.results))
}

fn about(plan: &Plan<'_>, entries: &[Entry<'_>], failed: &[Failed], left_out: &[u64]) -> About {
    let mut about = About::default();
    let Some(cell) = plan.cells.first() else {
        return about;
    };
    about.add("cluster", cell.experiment.cluster_line());
    if let Some(first) = entries.first().and_then(|e| e.kept.first()) {
        let seed = format!(", seed {}", first.seed);
        let workload = first.workload.trim_end_matches(&seed);
        about.add("workload", workload);
    }
    let given = cell.experiment.options.measure.as_deref();
    let figures = entries.iter().flat_map(|e| &e.results.runs);
    let figures = figures.map(|run| &run.figures);
    about.add("measured", table::measured_in_each(given, figures));
    about.0.extend(has_marks(entries).then(table::marks));
    about.assume(&Assumptions::of(&cell.experiment, of_runs(entries)));
    let seeds: Vec<String> = seeds(entries).iter().map(u64::to_string).collect();
    about.add("seeds", seeds.join(", "));
    about.add("figures", table::MEDIANS);
    let base = plan.schedulers.get(baseline(plan));
    if let Some(base) = entries
        .iter()
        .find(|e| base.is_some_and(|base| base == e.label))
    {
        about.add(
            "compared",
            format!("with {} at the same seed, job by job", base.label),
        );
        about.add("relative", format!("avg JCT / avg JCT of {}", base.label));
        about.add(
            "diff.",
            format!("mean over jobs of JCT - JCT under {}", base.label),
        );
    }
    about.0.push(table::intervals(seeds.len()));
    about
        .0
        .extend(cell.experiment.options.fairness.then(table::of_rho));
    let failures = table::of_failed(&cell.experiment, failed);
    let all = notices(plan, entries, left_out);
    for notice in failures.into_iter().chain(all) {
        about.add("notice", notice);
    }
    about
}

/// Returns the seeds with which all schedulers were simulated.
fn seeds(entries: &[Entry<'_>]) -> Vec<u64> {
    let first = entries.iter().take(1);
    first.flat_map(|e| &e.kept).map(|kept| kept.seed).collect()
}

/// Notice for seeds that do not change the results.
pub(super) const ALIKE: &str =
    "every seed gives the same results: nothing depends on the seed, and intervals have no meaning";

/// Returns counted lines that `--quiet` does not hide: of the input, each scheduler and options.
fn lost(plan: &Plan<'_>, entries: &[Entry<'_>]) -> Vec<String> {
    let first = entries.first().and_then(|e| e.kept.first());
    let mut lines = first.map_or_else(Vec::new, |kept| kept.lost.input.clone());
    lines.extend(incomplete(entries));
    lines.extend(of_settings(plan));
    lines.extend(losses::of_runs(of_runs(entries), true));
    lines
}

fn of_runs<'a>(entries: &'a [Entry<'_>]) -> impl Iterator<Item = (&'a str, &'a Lost)> {
    let of = |e: &'a Entry<'_>| e.kept.iter().map(|kept| (e.label, &kept.lost));
    entries.iter().flat_map(of)
}

fn of_settings(plan: &Plan<'_>) -> Vec<String> {
    losses::of_all_settings(plan.cells.iter().map(|cell| &cell.experiment))
}

/// Returns one line for each scheduler with measured jobs that did not complete.
fn incomplete(entries: &[Entry<'_>]) -> impl Iterator<Item = String> {
    entries.iter().filter_map(|e| {
        let line = losses::of_figures(e.results.runs.iter().map(|run| &run.figures))?;
        Some(format!("{}: {line}", e.label))
    })
}

/// Returns the notices of all runs without repetitions; most are the same for every seed.
fn notices(plan: &Plan<'_>, entries: &[Entry<'_>], left_out: &[u64]) -> Vec<String> {
    let kept = entries.iter().flat_map(|e| &e.kept);
    let mut lines = losses::distinct(kept.map(|kept| kept.notices.as_slice()));
    let pairs = entries.iter().flat_map(|e| &e.results.pairs);
    let unpaired: u64 = pairs.map(|p| p.unpaired).sum();
    lines.extend(incomplete(entries));
    lines.extend(of_settings(plan));
    lines.extend(losses::of_runs(of_runs(entries), false));
    let alike = |e: &Entry<'_>| e.results.runs.windows(2).all(|pair| pair[0] == pair[1]);
    let several = entries.first().is_some_and(|e| e.kept.len() > 1);
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
fn fields(e: &Entry<'_>) -> Vec<(String, Value)> {
    let mut fields = vec![("scheduler".to_owned(), json!(e.label))];
    fields.extend(e.results.fields());
    fields
}

/// Returns the figures of each group, with its value under the name of the column.
fn group_fields(e: &Entry<'_>, by: &str) -> Vec<Vec<(String, Value)>> {
    let one = |(value, results): &(&str, Repeated<'_>)| {
        let mut fields = vec![
            ("scheduler".to_owned(), json!(e.label)),
            (by.to_owned(), json!(Some(value).filter(|v| !v.is_empty()))),
        ];
        fields.extend(results.fields());
        fields
    };
    e.groups.iter().map(one).collect()
}

fn csv(entries: &[Entry<'_>], by: Option<&str>) -> Result<String, Failure> {
    let rows: Vec<_> = match by {
        Some(by) => entries.iter().flat_map(|e| group_fields(e, by)).collect(),
        None => entries.iter().map(fields).collect(),
    };
    let mut head: Vec<String> = Vec::new();
    for (name, _) in rows.iter().flatten().cloned() {
        if !head.contains(&name) {
            head.push(name);
        }
    }
    let rows = rows.into_iter().map(|row| row.into_iter().collect());
    grid::csv(&head, &rows.collect::<Vec<_>>())
}

fn json(plan: &Plan<'_>, entries: &[Entry<'_>], left_out: &[u64]) -> Value {
    let with_groups = |e: &Entry<'_>| {
        let mut all: Fields = fields(e).into_iter().collect();
        if let Some(by) = plan.base.by.as_deref() {
            let groups = group_fields(e, &by.0).into_iter();
            let groups: Vec<Fields> = groups.map(|g| g.into_iter().collect()).collect();
            all.insert("groups".to_owned(), json!(groups));
        }
        let knew = e.kept.iter().any(|kept| kept.lost.knew_truth);
        all.insert("knew_true_durations".to_owned(), json!(knew));
        all
    };
    let experiment = plan.cells.first().map(|cell| &cell.experiment);
    json!({
        "assumptions": experiment.map(|e| Assumptions::of(e, of_runs(entries)).fields()),
        "seeds": seeds(entries),
        "seeds_left_out": left_out,
        "baseline": plan.schedulers.get(baseline(plan)),
        "confidence": CONFIDENCE,
        "schedulers": entries.iter().map(with_groups).collect::<Vec<_>>(),
    })
}
