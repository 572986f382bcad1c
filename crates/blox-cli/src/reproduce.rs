//! `blox reproduce`: published figures compared with ours.

use super::args::ReproduceArgs;
use super::files::write_whole;
use super::grid::{Form, Grid, decimal};
use super::output::{MANIFEST, command_line, prepare, pretty};
use super::progress::{Progress, Shows};
use super::{DIFFERS, Failure, INTERRUPTED, OK, Terminal, grid};
use blox_released::figure::{Cited, Figure, Findings, Reproduced, Row};
use blox_released::figures::{figure, figures};
use blox_sim::Watch;
use blox_sim::results::COLUMNS;
use blox_traces::fingerprint;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(super) fn run(
    args: &ReproduceArgs,
    line: &[OsString],
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let Some(name) = args.figure.as_deref().filter(|_| !args.list) else {
        return list(terminal);
    };
    let figure = figure(name)?;
    let dir = args.output_dir.as_deref();
    let _lock = dir.map(|dir| prepare(dir, args.force)).transpose()?;
    let plan = figure.plan(args.data.as_deref())?;
    // At least one watch, for figures without simulations.
    let all = 0..plan.runs().max(1);
    let watches: Vec<Arc<Watch>> = all.map(|_| Arc::default()).collect();
    let done = Arc::new(AtomicU64::new(0));
    let shows = (!args.quiet).then(|| Shows::runs(&done, plan.runs()));
    let progress = Progress::start(shows, &watches, terminal.interactive);
    let reproduced = plan.reproduce(&watches, &done);
    progress.finish();
    let reproduced = reproduced?;
    if let Some(dir) = &args.output_dir {
        write_files(dir, name, &reproduced)?;
        write_manifest(dir, figure, args.data.as_deref(), &reproduced, line)?;
    }
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

/// Formats the numbers, followed by the sources of the published ones.
fn table(rows: &[Row]) -> String {
    let mut sources: Vec<&str> = Vec::new();
    let mut cited = |value: Option<Cited>, decimals: usize| match value {
        None => "-".to_owned(),
        Some(c) => {
            let known = sources.iter().position(|s| *s == c.source);
            let n = known.unwrap_or_else(|| {
                sources.push(c.source);
                sources.len() - 1
            });
            format!("{} [{}]", decimal(c.value, decimals), n + 1)
        }
    };
    let cells = |row: &Row| {
        vec![
            row.what.clone(),
            cited(row.published, row.decimals),
            cited(row.artifact, row.decimals),
            decimal(row.ours, row.decimals),
        ]
    };
    let grid = Grid {
        head: ["", "published", "artifact", "ours"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.iter().map(cells).collect(),
        words: 1,
    };
    let mut text = grid.text(Form::Lines);
    text.push('\n');
    for (i, source) in sources.iter().enumerate() {
        let _ = writeln!(text, "[{}] {source}", i + 1);
    }
    if !sources.is_empty() {
        text.push('\n');
    }
    text
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
        let Value::Object(mut row) = serde_json::to_value(&report.summary)? else {
            continue;
        };
        row.insert("simulation".to_owned(), json!(label));
        rows.push(row);
    }
    grid::csv(&head, &rows)
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
            "published",
            "published_source",
            "artifact",
            "artifact_source",
            "ours",
        ])?;
        let value = |c: Option<Cited>| c.map_or(String::new(), |c| c.value.to_string());
        let source = |c: Option<Cited>| c.map_or("", |c| c.source);
        for row in &findings.rows {
            out.write_record([
                row.what.as_str(),
                &value(row.published),
                source(row.published),
                &value(row.artifact),
                source(row.artifact),
                &row.ours.to_string(),
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
