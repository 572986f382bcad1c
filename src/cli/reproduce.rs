//! `blox reproduce`: published figures beside ours.

use super::args::ReproduceArgs;
use super::files::write_whole;
use super::grid::decimal;
use super::output::prepare;
use super::{DIFFERS, Failure, OK, Terminal};
use crate::reproduce::{self, Cited, Findings, Row};
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::Path;

pub(super) fn run(args: &ReproduceArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let Some(name) = args.figure.as_deref().filter(|_| !args.list) else {
        return list(terminal);
    };
    let figure = reproduce::figure(name).map_err(Failure::new)?;
    if let Some(dir) = &args.output_dir {
        prepare(dir, args.force)?;
    }
    let shows = terminal.interactive && !args.quiet && std::io::stderr().is_terminal();
    let bar = shows.then(|| {
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos} of {len} simulations")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ");
        ProgressBar::new(1)
            .with_style(style)
            .with_prefix(name.to_owned())
    });
    let done = |ended: usize, all: usize| {
        if let Some(bar) = &bar {
            bar.set_length(all as u64);
            bar.set_position(ended as u64);
        }
    };
    let findings = reproduce::reproduce(&*figure, args.data.as_deref(), &done);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let findings = findings.map_err(Failure::new)?;
    if let Some(dir) = &args.output_dir {
        write_files(dir, name, &findings)?;
    }
    let mut text = format!("{}\n\n", figure.title());
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
    for figure in reproduce::figures() {
        writeln!(terminal.out, "{:<17} {}", figure.name(), figure.title())?;
        for file in figure.data() {
            writeln!(
                terminal.out,
                "{:<17} needs {} from {}",
                "", file.path, file.from
            )?;
        }
    }
    Ok(OK)
}

/// The numbers, and below them where those that are not ours come from.
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
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["", "published", "artifact", "ours"]);
    for row in rows {
        table.add_row([
            Cell::new(&row.what),
            Cell::new(cited(row.published, row.decimals)),
            Cell::new(cited(row.artifact, row.decimals)),
            Cell::new(decimal(row.ours, row.decimals)),
        ]);
    }
    for i in 0..table.column_count() {
        if let Some(column) = table.column_mut(i) {
            column.set_padding((0, 2));
            if i > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
    for (i, source) in sources.iter().enumerate() {
        let _ = writeln!(text, "[{}] {source}", i + 1);
    }
    if !sources.is_empty() {
        text.push('\n');
    }
    text
}

fn write_files(dir: &Path, name: &str, findings: &Findings) -> Result<(), Failure> {
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
