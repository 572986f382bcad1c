//! The results as a table for people.

use super::output::reasons;
use super::resolve::Experiment;
use super::run::Run;
use blox_core::JobId;
use blox_sim::{Ended, Measure};
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: u16 = 100;

/// The table, what it is about, and the story of an explained job.
pub(super) fn render(
    experiment: &Experiment<'_>,
    runs: &[&Run],
    explained: Option<JobId>,
) -> String {
    let mut text = figures(experiment, runs);
    if !experiment.options.quiet {
        text.push('\n');
        for (what, line) in about(experiment, runs) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{what:<10} {line}");
        }
    }
    if let Some(id) = explained {
        for run in runs {
            story(&mut text, id, run);
        }
    }
    text
}

fn figures(experiment: &Experiment<'_>, runs: &[&Run]) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH);
    let mut head = vec!["scheduler", "avg\nJCT s"];
    if experiment.compares {
        head.push("relative");
    }
    head.extend([
        "median\nJCT s",
        "p99\nJCT s",
        "avg\nresp. s",
        "makespan\ns",
        "GPU\nutil.",
        "pre-\nempted",
    ]);
    table.set_header(head);
    let base = runs.first().map_or(0.0, |r| r.report.summary.avg_jct_s);
    for run in runs {
        let s = &run.report.summary;
        let mut row = vec![s.scheduler.clone(), decimal(s.avg_jct_s, 1)];
        if experiment.compares {
            row.push(ratio(s.avg_jct_s, base));
        }
        row.extend([
            decimal(s.median_jct_s, 0),
            decimal(s.p99_jct_s, 0),
            decimal(s.avg_responsiveness_s, 1),
            decimal(s.makespan_s, 0),
            format!("{:.1} %", 100.0 * s.utilisation),
            whole(s.preemptions),
        ]);
        table.add_row(row.into_iter().map(Cell::new));
    }
    let columns = table.column_count();
    for i in 0..columns {
        if let Some(column) = table.column_mut(i) {
            column.set_padding((0, if i + 1 == columns { 0 } else { 2 }));
            if i == 0 {
                // Long names may wrap, the heading may not.
                let heading = "scheduler  ".len() as u16;
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(heading)));
            } else {
                column.set_constraint(ColumnConstraint::ContentWidth);
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// What the figures are about, a line each.
fn about(experiment: &Experiment<'_>, runs: &[&Run]) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut say = |what: &str, line: String| lines.push((what.to_owned(), line));
    let c = &experiment.cluster;
    say(
        "cluster",
        format!(
            "{}: {} nodes, {} GPUs",
            experiment.cluster_text,
            whole(c.nodes.len() as u64),
            whole(c.total_gpus())
        ),
    );
    let Some(first) = runs.first() else {
        return lines;
    };
    say("workload", first.workload.clone());
    say("measured", measured(experiment, first));
    let rounds = match first.period_s {
        Some(s) => format!("{} s", decimal(s, 0)),
        None => "none: decisions follow events".to_owned(),
    };
    say("rounds", rounds);
    if experiment.compares && runs.len() > 1 {
        let base = &first.report.summary;
        let others: Vec<String> = runs[1..]
            .iter()
            .map(|r| {
                let s = &r.report.summary;
                format!("{} {}", s.scheduler, ratio(s.avg_jct_s, base.avg_jct_s))
            })
            .collect();
        say(
            "relative",
            format!(
                "avg JCT to that of {}: {}",
                base.scheduler,
                others.join(", ")
            ),
        );
    }
    for run in runs {
        if let Some(line) = leftovers(run) {
            say(&run.report.summary.scheduler, line);
        }
    }
    for notice in notices(experiment, runs) {
        say("notice", notice);
    }
    lines
}

fn measured(experiment: &Experiment<'_>, run: &Run) -> String {
    let n = whole(run.report.summary.measured);
    match experiment.measure {
        Measure::All => format!("all {n} jobs"),
        Measure::Ids(a, b) => format!("{n} jobs, numbers {a} to {b}"),
        Measure::Submitted(a, b) => format!(
            "{n} jobs, submitted from {} s to {} s",
            decimal(a.secs(), 0),
            decimal(b.secs(), 0)
        ),
    }
}

/// Measured jobs that did not complete.
fn leftovers(run: &Run) -> Option<String> {
    let s = &run.report.summary;
    let mut parts = Vec::new();
    if s.rejected > 0 {
        parts.push(format!(
            "{} rejected ({})",
            whole(s.rejected),
            counted(&reasons(&run.report, true))
        ));
    }
    if s.failed > 0 {
        parts.push(format!("{} failed", whole(s.failed)));
    }
    if s.unfinished > 0 {
        parts.push(format!(
            "{} unfinished ({})",
            whole(s.unfinished),
            counted(&reasons(&run.report, false))
        ));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn counted(reasons: &BTreeMap<&'static str, u64>) -> String {
    let list: Vec<String> = reasons
        .iter()
        .map(|(kind, n)| format!("{kind}: {}", whole(*n)))
        .collect();
    list.join(", ")
}

/// What the reader must know before trusting the figures.
pub(super) fn notices(experiment: &Experiment<'_>, runs: &[&Run]) -> Vec<String> {
    let mut list = Vec::new();
    let Some(first) = runs.first() else {
        return list;
    };
    list.extend(first.notices.iter().cloned());
    let s = &first.report.summary;
    if s.jobs == 0 {
        list.push("the workload has no jobs".to_owned());
    } else if s.measured == 0 {
        list.push(format!(
            "no job is measured: --measure names none of the {} jobs that came",
            whole(s.jobs)
        ));
    } else if let Measure::Ids(a, b) = experiment.measure {
        let wanted = u64::from(b - a) + 1;
        if s.measured < wanted && first.report.ended != Ended::Interrupted {
            list.push(format!(
                "only {} of the {} jobs that --measure names came",
                whole(s.measured),
                whole(wanted)
            ));
        }
    }
    for run in runs {
        let s = &run.report.summary;
        if let Some(n) = experiment.arrivals_end
            && s.jobs >= n
        {
            list.push(format!(
                "{}: arrivals ended after {} jobs, lest measured jobs wait for ever (see --jobs)",
                s.scheduler,
                whole(n)
            ));
        }
        let at = decimal(run.report.end.secs(), 0);
        match run.report.ended {
            Ended::Finished => {}
            Ended::Standstill => list.push(format!(
                "{}: at a standstill from {at} s on: jobs wait that nothing will ever start",
                s.scheduler
            )),
            Ended::Interrupted => list.push(format!("{}: interrupted at {at} s", s.scheduler)),
        }
    }
    let completed = |r: &&&Run| r.report.summary.completed;
    if runs
        .iter()
        .map(|r| completed(&r))
        .any(|n| n != completed(&first))
    {
        let each: Vec<String> = runs
            .iter()
            .map(|r| {
                format!(
                    "{} {}",
                    r.report.summary.scheduler,
                    whole(r.report.summary.completed)
                )
            })
            .collect();
        list.push(format!(
            "averages are over different jobs: completed {}",
            each.join(", ")
        ));
    }
    list
}

fn story(text: &mut String, id: JobId, run: &Run) {
    let _ = writeln!(text, "\njob {id} under {}", run.report.summary.scheduler);
    if run.report.story.is_empty() {
        text.push_str("  never came\n");
        return;
    }
    let times: Vec<String> = run
        .report
        .story
        .iter()
        .map(|m| decimal(m.at.secs(), 1))
        .collect();
    let width = times.iter().map(String::len).max().unwrap_or(0);
    for (time, moment) in times.iter().zip(&run.report.story) {
        let _ = writeln!(text, "  {time:>width$} s  {}", moment.what);
    }
}

fn ratio(value: f64, base: f64) -> String {
    if base > 0.0 {
        format!("{:.3}", value / base)
    } else {
        "-".to_owned()
    }
}

/// With a comma between thousands.
fn whole(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}

/// Rounded to some places, with a comma between thousands.
pub(super) fn decimal(value: f64, places: usize) -> String {
    let text = format!("{:.places$}", value.abs());
    let (int, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let int = int.parse().map_or_else(|_| int.to_owned(), whole);
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{int}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        assert_eq!(whole(0), "0");
        assert_eq!(whole(999), "999");
        assert_eq!(whole(1_000), "1,000");
        assert_eq!(whole(1_234_567), "1,234,567");
        assert_eq!(decimal(188_995.176_8, 1), "188,995.2");
        assert_eq!(decimal(-1_234.5, 0), "-1,234");
        assert_eq!(decimal(0.04, 1), "0.0");
        assert_eq!(ratio(3.0, 0.0), "-");
    }
}
