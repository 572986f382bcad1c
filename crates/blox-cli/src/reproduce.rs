//! `blox reproduce`: published figures compared with ours.

use super::args::ReproduceArgs;
use super::files::write_whole;
use super::output::{MANIFEST, command_line, prepare, pretty};
use super::progress::{Progress, Shows};
use crate::failure::{Code, Failure};
use crate::parts::{self, Source};
use crate::terminal::{DIFFERS, INTERRUPTED, OK, Terminal};
use blox_released::figure::{Cited, Figure, Findings, Plan, Read, Reproduced, Row};
use blox_released::figures::{figure, figures};
use blox_results::grid::{Form, Grid, decimal, range};
use blox_results::statistics::LEAST_SEEDS;
use blox_results::{COLUMNS, Summary, grid};
use blox_sim::{Report, Watch};
use blox_traces::fingerprint;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn run(
    args: &ReproduceArgs,
    line: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let Some(name) = args.figure.as_deref().filter(|_| !args.list) else {
        return list(terminal);
    };
    let figure = figure(name)?;
    if let Some(data) = args.data.as_deref().filter(|data| !data.is_dir()) {
        let what = match data.exists() {
            true => "is a file",
            false => "no such folder",
        };
        return Err(Failure::of(
            Code::Released,
            format!(
                "{}: {what}, expected the folder of the data",
                data.display()
            ),
        ));
    }
    let plan = figure.plan(args.data.as_deref())?;
    if plan.runs() == 0 && (args.parts.shard.is_some() || !args.parts.merge.is_empty()) {
        return Err(Failure::of(
            Code::Released,
            format!("`{name}` has no separate simulations, expected it without shards"),
        ));
    }
    let dir = args.output_dir.as_deref();
    let source = Source::of(&args.parts, "reproduce", dir, args.force)?;
    let labels: Vec<String> = plan.labels().map(str::to_owned).collect();
    let reproduced = match &source {
        Source::Part(part) => {
            let runs = identities(figure, args.data.as_deref(), &labels)?;
            let todo = part.todo(&runs);
            let reports = simulate(&plan, args, &todo, terminal, |i, report| {
                part.keep(&runs[i], &Ok::<_, String>(report))
            })?;
            let ended = reports.iter().flatten().count();
            return Ok(part.finish(&runs, todo.len(), ended, args.quiet, terminal));
        }
        Source::Merged(dirs) => {
            let runs = identities(figure, args.data.as_deref(), &labels)?;
            let kept = parts::merged(dirs, "reproduce", &labels, &runs)?;
            let reports: Result<Vec<Report>, String> = kept.into_iter().collect();
            let reports = reports.map_err(|e| Failure::of(Code::Released, e))?;
            let _lock = dir.map(|dir| prepare(dir, args.force)).transpose()?;
            let reports = reports.into_iter().map(Some).collect();
            write(args, figure, plan.finish(&Arc::default(), reports)?, line)?
        }
        Source::Here => {
            let _lock = dir.map(|dir| prepare(dir, args.force)).transpose()?;
            write(args, figure, here(plan, args, terminal)?, line)?
        }
    };
    let Some(findings) = &reproduced.findings else {
        return interrupted(args, &reproduced, terminal);
    };
    let mut text = format!("{}\n\n", figure.title);
    text += &table(&findings.rows);
    let mut holds = true;
    for claim in &findings.claims {
        holds &= claim.holds;
        let word = if claim.holds {
            "holds"
        } else {
            "does not hold"
        };
        let _ = writeln!(text, "{word}: {}", claim.text);
    }
    if !args.quiet {
        for note in &findings.notes {
            let _ = writeln!(text, "note: {note}");
        }
    }
    terminal.out.write_all(text.as_bytes())?;
    if let Some(dir) = args.output_dir.as_ref().filter(|_| !args.quiet) {
        let _ = writeln!(terminal.err, "numbers and pictures in {}", dir.display());
    }
    Ok(if holds { OK } else { DIFFERS })
}

/// Returns what identifies each simulation of a figure: its place and the input files.
fn identities(
    figure: &'static Figure,
    data: Option<&Path>,
    labels: &[String],
) -> Result<Vec<Value>, Failure> {
    let mut inputs = Vec::new();
    for path in figure.inputs(data)? {
        inputs.push(fingerprint(&path)?);
    }
    let of = |(number, label)| {
        json!({
            "figure": figure.name, "number": number, "simulation": label, "inputs": inputs,
        })
    };
    Ok(labels.iter().enumerate().map(of).collect())
}

/// Runs some simulations, and passes each report to `keep`.
fn simulate(
    plan: &Plan,
    args: &ReproduceArgs,
    todo: &[usize],
    terminal: &Terminal<'_>,
    keep: impl Fn(usize, &Report) -> Result<(), Failure> + Sync,
) -> Result<Vec<Option<Report>>, Failure> {
    let watches: Vec<Arc<Watch>> = todo.iter().map(|_| Arc::default()).collect();
    let done = Arc::new(AtomicU64::new(0));
    let shows = (!args.quiet).then(|| Shows::runs(&done, todo.len()));
    let progress = Progress::start(shows, &watches, terminal.interactive);
    let reports = plan.run(todo, &watches, |i, report| {
        done.fetch_add(1, Ordering::Relaxed);
        report.map_or(Ok(()), |report| keep(i, report))
    });
    progress.finish();
    reports
}

/// Reproduces a figure in this process.
fn here(plan: Plan, args: &ReproduceArgs, terminal: &Terminal<'_>) -> Result<Reproduced, Failure> {
    // At least one watch, for figures without simulations.
    let all = 0..plan.runs().max(1);
    let watches: Vec<Arc<Watch>> = all.map(|_| Arc::default()).collect();
    let done = Arc::new(AtomicU64::new(0));
    let shows = (!args.quiet).then(|| Shows::runs(&done, plan.runs()));
    let progress = Progress::start(shows, &watches, terminal.interactive);
    let reproduced = plan.reproduce(&watches, &done);
    progress.finish();
    Ok(reproduced?)
}

/// Writes the files of a figure, if there is a folder for them.
fn write(
    args: &ReproduceArgs,
    figure: &'static Figure,
    reproduced: Reproduced,
    line: &[OsString],
) -> Result<Reproduced, Failure> {
    if let Some(dir) = &args.output_dir {
        write_files(dir, &figure.name, &reproduced)?;
        write_manifest(dir, figure, args.data.as_deref(), &reproduced, line)?;
    }
    Ok(reproduced)
}

fn list(terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    for figure in figures() {
        writeln!(terminal.out, "{:<17} {}", figure.name, figure.title)?;
        for (reads, files) in [("needs", &figure.data), ("can read", &figure.optional)] {
            for files in files.chunk_by(|a, b| a.origin == b.origin) {
                let paths: Vec<&str> = files.iter().map(|f| f.path.as_str()).collect();
                let (paths, from) = (paths.join(", "), &files[0].origin.from);
                writeln!(terminal.out, "{:<17} {reads} {paths} from {from}", "")?;
            }
        }
    }
    Ok(OK)
}

/// Formats the numbers beside the numbers of the paper and of the original program, followed by
/// their sources.
fn table(rows: &[Row]) -> String {
    let mut sources: Vec<Cited> = Vec::new();
    let mut cited = |value: Option<Cited>, decimals: usize| match value {
        None => "-".to_owned(),
        Some(c) => {
            let same = |s: &Cited| (s.source, s.read) == (c.source, c.read);
            let n = sources.iter().position(same).unwrap_or_else(|| {
                sources.push(c);
                sources.len() - 1
            });
            // A point of a figure is not as exact as a printed number.
            let about = if c.read == Some(Read::Figure) {
                "~"
            } else {
                ""
            };
            format!("{about}{} [{}]", decimal(c.value, decimals), n + 1)
        }
    };
    let seeds = rows.iter().find_map(|r| r.seeds).map(|e| e.n);
    let median = seeds.map_or(String::new(), |n| format!("median of\n{n} seeds"));
    let interval = match seeds >= Some(LEAST_SEEDS) {
        true => "interval",
        false => "",
    };
    let each = |text: &mut dyn FnMut(&Row) -> String| rows.iter().map(text).collect::<Vec<_>>();
    let columns = [
        ("", each(&mut |r| r.what.clone())),
        ("paper", each(&mut |r| cited(r.published, r.decimals))),
        (
            "original\nprogram",
            each(&mut |r| cited(r.artifact, r.decimals)),
        ),
        ("here", each(&mut |r| decimal(r.ours, r.decimals))),
        (
            &median,
            each(&mut |r| decimal(r.seeds.map_or(f64::NAN, |e| e.median), r.decimals)),
        ),
        (
            interval,
            each(&mut |r| {
                let ends = r.seeds.and_then(|e| e.interval);
                range(ends, |end| decimal(end, r.decimals))
            }),
        ),
        (
            "difference\nfrom paper",
            each(&mut |r| apart(r.compared(), r.published, r.decimals)),
        ),
        (
            "from original\nprogram",
            each(&mut |r| apart(r.ours, r.artifact, r.decimals)),
        ),
    ];
    let mut grid = Grid {
        rows: vec![Vec::new(); rows.len()],
        words: 1,
        ..Grid::default()
    };
    for (head, cells) in columns {
        // A column without a number is left out.
        if grid.head.is_empty() || cells.iter().any(|cell| cell != "-") {
            grid.head.push(head.to_owned());
            let rows = grid.rows.iter_mut().zip(cells);
            rows.for_each(|(row, cell)| row.push(cell));
        }
    }
    let mut text = grid.text(Form::Lines);
    text.push('\n');
    for (i, of) in sources.iter().enumerate() {
        let read = of
            .read
            .map_or(String::new(), |read| format!(", {}", read.phrase()));
        let _ = writeln!(text, "[{}] {}{read}", i + 1, of.source);
    }
    if !sources.is_empty() {
        text.push('\n');
    }
    if seeds.is_some() {
        text += "`here` has the first seed.\n";
        if rows.iter().any(|r| r.artifact.is_some()) {
            text += "The original program had the first seed, too.\n";
        }
        text.push('\n');
    }
    text
}

/// Formats the difference from a known number in percent. If the known number is 0, the difference
/// has no percentage and is printed itself.
fn apart(value: f64, from: Option<Cited>, decimals: usize) -> String {
    let Some(from) = from.filter(|_| !value.is_nan()) else {
        return "-".to_owned();
    };
    match from.value == 0.0 {
        true => format!("{value:+.decimals$}"),
        false => format!("{:+.1} %", 100.0 * (value / from.value - 1.0)),
    }
}

/// Prints the results of an interrupted figure: its finished simulations, one row for each.
fn interrupted(
    args: &ReproduceArgs,
    reproduced: &Reproduced,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let ended = reproduced.reports.iter().flatten().count();
    if ended > 0 {
        terminal
            .out
            .write_all(simulations(reproduced)?.as_bytes())?;
    }
    let kept = args.output_dir.as_ref();
    let kept = kept.map_or_else(String::new, |dir| format!(", kept in {}", dir.display()));
    let what = match reproduced.labels.len() {
        0 => "nothing came of it yet".to_owned(),
        all => format!("figures of {ended} of {all} simulations{kept}"),
    };
    let _ = writeln!(terminal.err, "interrupted: {what}");
    Ok(INTERRUPTED)
}

/// Formats the finished simulations as CSV: `simulation`, and the columns of `summary.json`.
fn simulations(reproduced: &Reproduced) -> Result<String, Failure> {
    let mut head = vec!["simulation".to_owned()];
    head.extend(COLUMNS.iter().map(|c| c.name.to_owned()));
    let mut rows = Vec::new();
    for (label, report) in reproduced.labels.iter().zip(&reproduced.reports) {
        let Some(report) = report else { continue };
        let Value::Object(mut row) = serde_json::to_value(Summary::of(report))? else {
            continue;
        };
        row.insert("simulation".to_owned(), json!(label));
        rows.push(row);
    }
    Ok(grid::csv(&head, &rows))
}

/// Writes the manifest, which marks complete files and names their inputs.
fn write_manifest(
    dir: &Path,
    figure: &'static Figure,
    data: Option<&Path>,
    reproduced: &Reproduced,
    line: &[OsString],
) -> Result<(), Failure> {
    let mut inputs = Vec::new();
    for path in figure.inputs(data)? {
        let sha256 = fingerprint(&path)?;
        // Relative to the data folder, so that the manifest does not depend on its place.
        let name = data.and_then(|data| path.strip_prefix(data).ok());
        inputs.push(json!({ "path": name.unwrap_or(&path), "sha256": sha256 }));
    }
    let of = |(label, report): (&String, &Option<_>)| {
        let status = if report.is_some() {
            "finished"
        } else {
            "missing"
        };
        json!({ "simulation": label, "status": status })
    };
    let runs = reproduced.labels.iter().zip(&reproduced.reports).map(of);
    let claims = reproduced.findings.iter().flat_map(|f| &f.claims);
    let manifest = json!({
        "blox_version": env!("CARGO_PKG_VERSION"),
        "status": if reproduced.findings.is_some() { "complete" } else { "interrupted" },
        "command_line": command_line(line),
        "figure": figure.name,
        "title": figure.title,
        "inputs": inputs,
        "simulations": runs.collect::<Vec<_>>(),
        "claims": claims
            .map(|c| json!({ "claim": c.text, "holds": c.holds }))
            .collect::<Vec<_>>(),
    });
    write_whole(&dir.join(MANIFEST), |out| pretty(out, &manifest))
}

/// Writes the simulations, and the numbers and pictures if no simulation is missing.
fn write_files(dir: &Path, name: &str, reproduced: &Reproduced) -> Result<(), Failure> {
    let text = simulations(reproduced)?;
    write_whole(&dir.join(format!("{name}-simulations.csv")), |out| {
        out.write_all(text.as_bytes())
    })?;
    let mut findings = reproduced.findings.iter();
    findings.try_for_each(|findings| write_findings(dir, name, findings))
}

fn write_findings(dir: &Path, name: &str, findings: &Findings) -> Result<(), Failure> {
    write_whole(&dir.join(format!("{name}.csv")), |out| {
        let mut out = csv::Writer::from_writer(out);
        out.write_record([
            "what",
            "paper",
            "paper_source",
            "paper_read",
            "original_program",
            "original_program_source",
            "here",
            "seeds",
            "median",
            "interval_low",
            "interval_high",
            "difference_from_paper",
            "difference_from_original_program",
        ])?;
        let value = |c: Option<Cited>| c.map_or(String::new(), |c| c.value.to_string());
        let source = |c: Option<Cited>| c.map_or("", |c| c.source);
        let number = |n: Option<f64>| n.map_or(String::new(), |n| n.to_string());
        for row in &findings.rows {
            let read = row.published.and_then(|c| c.read);
            let apart = |from: Option<Cited>, value: f64| number(from.map(|c| value - c.value));
            out.write_record([
                row.what.as_str(),
                &value(row.published),
                source(row.published),
                read.map_or("", Read::name),
                &value(row.artifact),
                source(row.artifact),
                &row.ours.to_string(),
                &row.seeds.map_or(1, |e| e.n).to_string(),
                &number(row.seeds.map(|e| e.median)),
                &number(row.seeds.and_then(|e| e.interval).map(|[low, _]| low)),
                &number(row.seeds.and_then(|e| e.interval).map(|[_, high]| high)),
                &apart(row.published, row.compared()),
                &apart(row.artifact, row.ours),
            ])?;
        }
        out.flush().map_err(csv::Error::from)
    })?;
    for picture in &findings.pictures {
        write_whole(&dir.join(format!("{}.svg", picture.name)), |out| {
            out.write_all(picture.svg.as_bytes())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_results::statistics::Estimate;

    fn row(what: &str, published: Option<(f64, Read)>, artifact: Option<f64>) -> Row {
        let cited = |value, source, read| Cited {
            value,
            source,
            read,
        };
        Row {
            what: what.to_owned(),
            published: published.map(|(v, read)| cited(v, "a paper", Some(read))),
            artifact: artifact.map(|v| cited(v, "a program", None)),
            ours: 11.0,
            seeds: None,
            decimals: 1,
        }
    }

    #[test]
    fn table_has_paper_program_and_differences() {
        let rows = [
            row("a", Some((10.0, Read::Text)), Some(11.0)),
            row("b", Some((8.0, Read::Figure)), None),
            row("c", None, None),
        ];
        let seen = table(&rows);
        let expected = [
            "      paper  original  here  difference  from original",
            "              program        from paper        program",
            "a  10.0 [1]  11.0 [3]  11.0     +10.0 %         +0.0 %",
            "b  ~8.0 [2]         -  11.0     +37.5 %              -",
            "c         -         -  11.0           -              -",
            "",
            "[1] a paper, read from the text or a table",
            "[2] a paper, read from the figure",
            "[3] a program",
        ];
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines[..9], expected, "{seen}");
    }

    #[test]
    fn columns_without_a_number_are_left_out() {
        let seen = table(&[row("c", None, None)]);
        assert_eq!(seen, "   here\nc  11.0\n\n");
    }

    #[test]
    fn the_median_over_seeds_is_compared_with_the_paper() {
        let mut row = row("a", Some((10.0, Read::Text)), Some(11.0));
        row.seeds = Estimate::of(&[11.0, 13.0, 12.0, 8.0, 14.0]);
        let seen = table(std::slice::from_ref(&row));
        let line = seen.lines().nth(2).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let expected = "a 10.0 [1] 11.0 [2] 11.0 12.0 8.0..14.0 +20.0 % +0.0 %";
        assert_eq!(words.join(" "), expected, "{seen}");
        // A known number of 0 has no percentage.
        row.published = Some(Cited {
            value: 0.0,
            ..row.published.unwrap()
        });
        assert!(table(&[row]).contains("+12.0"));
    }
}
