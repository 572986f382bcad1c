//! `blox claims`: what the schedulers' papers claim, beside what simulations show.

use super::args::{ClaimsArgs, OutputFormat};
use super::output::pretty_text;
use super::progress::{Progress, Shows};
use crate::failure::{Code, Coded, Failure};
use crate::parts::{self, Source};
use crate::terminal::{DIFFERS, INTERRUPTED, OK, Terminal};
use blox_claims::{
    Checked, Claim, ClaimsError, Plan, Recorded, RunResult, Verdict, papers, records, selected,
};
use blox_registry::Registry;
use blox_results::grid::{self, Form, Grid};
use blox_results::number_of;
use blox_sim::Watch;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl Coded for ClaimsError {
    fn code(&self) -> Code {
        Code::Name
    }
}

pub(super) fn run(
    registry: &Registry,
    args: &ClaimsArgs,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    // Baselines that the registry of other commands does not have.
    #[cfg(feature = "released")]
    let registry = &blox_released::register_baselines(registry.clone());
    let plan = Plan::new(registry, selected(&args.names, args.fast)?);
    let is_data = args.json || args.output_format.is_some_and(OutputFormat::is_data);
    let (one, other) = match (args.json, args.output_format) {
        (true, Some(format)) if format != OutputFormat::Json => ("json", "output-format"),
        (true, _) => ("json", "table"),
        (false, _) => ("output-format", "table"),
    };
    if other == "output-format" || args.table.is_some() && is_data {
        return Err(Failure::new(format!(
            "--{one} and --{other} are both given, expected one of them"
        )));
    }
    let format = match args.json {
        true => OutputFormat::Json,
        false => args.output_format.unwrap_or_default(),
    };
    let form = args.table.unwrap_or_default().form(terminal.form);
    if args.list {
        let text = list(&plan, format, form)?;
        terminal.print(&text)?;
        return Ok(OK);
    }
    let source = Source::of(&args.parts, "claims", args.output_dir.as_deref(), false)?;
    let labels: Vec<String> = plan.labels().map(str::to_owned).collect();
    let runs: Vec<Value> = labels.iter().map(|label| json!(label)).collect();
    let results = match &source {
        Source::Merged(dirs) => {
            let results = parts::merged(dirs, "claims", &labels, &runs)?;
            results.into_iter().map(Some).collect()
        }
        Source::Part(part) => {
            let todo = part.todo(&runs);
            let results = simulate(&plan, args, &todo, terminal, |i, result: &RunResult| {
                part.keep(&runs[i], result)
            })?;
            let ended = results.iter().flatten().count();
            return Ok(part.finish(&runs, todo.len(), ended, args.quiet, terminal));
        }
        Source::Here => {
            let all: Vec<usize> = (0..plan.runs()).collect();
            simulate(&plan, args, &all, terminal, |_, _| Ok(()))?
        }
    };
    let checked = plan.judge(&results);
    let known: Vec<&Checked> = checked.iter().filter(|c| c.verdict.is_some()).collect();
    let missing = |c: &&Checked| c.verdict.is_none() && c.note.is_some();
    let interrupted = known.len() + checked.iter().filter(missing).count() < checked.len();
    let rows = || known.iter().map(|c| fields(c)).collect::<Vec<_>>();
    let text = match format {
        OutputFormat::Table => table(&known, form, args.quiet),
        OutputFormat::Csv => grid::csv(&COLUMNS.map(str::to_owned), &rows()),
        OutputFormat::Json => pretty_text(&rows())?,
    };
    terminal.print(&text)?;
    for claim in checked.iter().filter(missing) {
        let note = claim.note.as_deref().unwrap_or_default();
        let _ = writeln!(terminal.err, "notice: {}: {note}", claim.name());
    }
    if interrupted {
        let all = number_of(checked.len() as u64, "claim");
        let _ = writeln!(terminal.err, "interrupted: {} of {all}", known.len());
        return Ok(INTERRUPTED);
    }
    Ok(match known.iter().any(|c| c.differs()) {
        true => DIFFERS,
        false => OK,
    })
}

/// Runs some simulations, and passes each result to `keep`.
fn simulate(
    plan: &Plan<'_>,
    args: &ClaimsArgs,
    todo: &[usize],
    terminal: &Terminal<'_>,
    keep: impl Fn(usize, &RunResult) -> Result<(), Failure> + Sync,
) -> Result<Vec<Option<RunResult>>, Failure> {
    let watches: Vec<Arc<Watch>> = todo.iter().map(|_| Arc::default()).collect();
    let done = Arc::new(AtomicU64::new(0));
    let shows = (!args.quiet).then(|| Shows::runs(&done, todo.len()));
    let progress = Progress::start(shows, &watches, terminal.interactive);
    let results = plan.run(todo, &watches, args.threads, |i, result| {
        done.fetch_add(1, Ordering::Relaxed);
        result.map_or(Ok(()), |result| keep(i, result))
    });
    progress.finish();
    results
}

/// Formats what each claim takes.
fn list(plan: &Plan<'_>, format: OutputFormat, form: Form) -> Result<String, Failure> {
    let columns = ["name", "claim", "section", "runs", "seconds", "set"];
    let mut rows = Vec::new();
    for (paper, claim, runs) in plan.claims() {
        let seconds = records().of(paper, claim).map(|record| record.seconds);
        let mut row = Map::new();
        for (column, value) in columns.into_iter().zip([
            json!(format!("{}/{}", paper.name, claim.name)),
            json!(claim.text(paper)),
            json!(claim.section),
            json!(runs),
            json!(seconds),
            json!(if claim.slow { "slow" } else { "fast" }),
        ]) {
            row.insert(column.to_owned(), value);
        }
        rows.push(row);
    }
    let head = columns.map(str::to_owned);
    match format {
        OutputFormat::Csv => Ok(grid::csv(&head, &rows)),
        OutputFormat::Json => pretty_text(&rows),
        _ => {
            let cell = |value: Option<&Value>| match value {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => "-".to_owned(),
                Some(other) => other.to_string(),
            };
            let row =
                |row: &Map<String, Value>| head.iter().map(|key| cell(row.get(key))).collect();
            let grid = Grid {
                rows: rows.iter().map(row).collect(),
                head: head.to_vec(),
                words: 3,
            };
            Ok(grid.text(form))
        }
    }
}

/// Formats the recorded results of the claims of a scheduler, if its paper has any.
pub(super) fn recorded(name: &str, form: Form) -> Option<String> {
    let paper = papers().iter().find(|paper| paper.name == name)?;
    let columns: [grid::Column<'_, (&Claim, &Recorded)>; 5] = [
        ("claim", &|(claim, _)| claim.text(paper)),
        ("section", &|(claim, _)| claim.section.clone()),
        ("paper", &|(claim, _)| claim.paper_text()),
        ("here (interval)", &|(_, record)| record.here.clone()),
        ("verdict", &|(_, record)| record.verdict.to_string()),
    ];
    let mut text = format!(
        "claims of {} (`blox claims {name}` checks them)\n",
        paper.paper
    );
    text += &Grid::of(records().rows(paper), 2, &columns).text(form);
    for line in paper.worlds_text() {
        let _ = writeln!(text, "{}", line.replace('*', ""));
    }
    for claim in &paper.claims {
        if let Some(remark) = claim.remark() {
            let _ = writeln!(text, "{}: {}: {remark}", claim.text(paper), claim.expect);
        }
    }
    text.push('\n');
    Some(text)
}

/// Columns of CSV and JSON.
const COLUMNS: [&str; 16] = [
    "scheduler",
    "claim",
    "text",
    "worlds",
    "paper",
    "section",
    "read",
    "size",
    "here",
    "low",
    "high",
    "ours",
    "baseline",
    "verdict",
    "expected",
    "reason",
];

/// Returns a claim as a row of CSV or JSON. For a trend, the numbers are of its last world.
fn fields(checked: &Checked) -> Map<String, Value> {
    let (paper, claim) = (checked.paper, checked.claim);
    let last = checked.here.last();
    let values = [
        json!(paper.name),
        json!(claim.name),
        json!(claim.text(paper)),
        json!(claim.worlds_text(paper)),
        json!(paper.paper),
        json!(claim.section),
        json!(claim.read.unwrap_or(paper.read).as_str()),
        json!(claim.paper_text()),
        json!(last.map(|i| i.median)),
        json!(last.map(|i| i.low)),
        json!(last.map(|i| i.high)),
        json!(checked.means.0),
        json!(checked.means.1),
        json!(checked.verdict.map(Verdict::as_str)),
        json!(claim.expect.as_str()),
        json!(checked.note.as_ref().or(claim.reason.as_ref())),
    ];
    let named = COLUMNS.map(str::to_owned).into_iter().zip(values);
    named.collect()
}

/// Formats the claims, a table for each paper, and the reasons of those that do not hold.
fn table(checked: &[&Checked], form: Form, quiet: bool) -> String {
    let mut text = String::new();
    let comment = if form == Form::Latex { "% " } else { "" };
    for of_paper in checked.chunk_by(|a, b| a.paper.name == b.paper.name) {
        let paper = of_paper[0].paper;
        // Lines beside tables are comments in LaTeX.
        let _ = writeln!(text, "{comment}{}: {}", paper.name, paper.paper);
        if form == Form::Markdown {
            text.push('\n');
        }
        let columns: [grid::Column<'_, &&Checked>; 7] = [
            ("name", &|c| c.claim.name.clone()),
            ("claim", &|c| c.claim.text(c.paper)),
            ("section", &|c| c.claim.section.clone()),
            ("paper", &|c| c.claim.paper_text()),
            ("here (interval)", &|c| c.here_text()),
            ("verdict", &|c| {
                c.verdict.map_or(String::new(), |v| v.to_string())
            }),
            ("true durations", &|c| c.knowing.join(", ")),
        ];
        text += &Grid::of(of_paper, 3, &columns).text(form);
        for line in paper.worlds_text() {
            let _ = writeln!(text, "{comment}{}", line.replace('*', ""));
        }
        text.push('\n');
    }
    for claim in checked {
        let Some(verdict) = claim.verdict else {
            continue;
        };
        let name = claim.name();
        if let Some(note) = &claim.note {
            let _ = writeln!(text, "{comment}{name}: {note}");
        }
        if claim.differs() {
            let expected = claim.claim.expect;
            let _ = writeln!(text, "{comment}{name}: {verdict}, expected {expected}");
        } else if let Some(remark) = claim.claim.remark().filter(|_| !quiet) {
            let _ = writeln!(text, "{comment}{name}: {verdict}: {remark}");
        }
    }
    let count = |wanted| checked.iter().filter(|c| c.verdict == Some(wanted)).count();
    let differ = checked.iter().filter(|c| c.differs()).count();
    let _ = writeln!(
        text,
        "{comment}{}: {} hold, {} weaker, {} do not hold; {differ} differ from the expected verdict",
        number_of(checked.len() as u64, "claim"),
        count(Verdict::Holds),
        count(Verdict::Weaker),
        count(Verdict::DoesNotHold),
    );
    text
}
