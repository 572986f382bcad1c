//! The part of the page about a sweep.

use super::super::sweep::{Group, Sweep};
use super::{command_line, figure, grouped, heading, list, notice, told};
use blox_plot::Escaped;
use blox_sim::results::COLUMNS;
use serde_json::Value;
use std::fmt::Write;

/// The figures of the table of means, by their names in [`COLUMNS`].
const MEANS: [&str; 6] = [
    "median_jct_s",
    "p99_jct_s",
    "avg_responsiveness_s",
    "avg_queueing_s",
    "utilisation",
    "preemptions",
];

/// Returns the origin of the runs, and notices.
pub(super) fn about(sweeps: &[&Sweep]) -> String {
    let mut html = String::new();
    for sweep in sweeps {
        let index = &sweep.index;
        let words = |list: &Value, between: &str| -> String {
            let list = list.as_array().into_iter().flatten();
            let word = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            list.map(word).collect::<Vec<_>>().join(between)
        };
        let settings = &index["settings"];
        let mut lines = vec![
            ("folder".to_owned(), sweep.path.display().to_string()),
            ("command".to_owned(), command_line(&index["command_line"])),
            ("runs".to_owned(), sweep.runs.len().to_string()),
            (
                "schedulers".to_owned(),
                words(&settings["schedulers"], ", "),
            ),
        ];
        for (key, values) in settings["varied"].as_object().into_iter().flatten() {
            lines.push((key.clone(), words(values, ", ")));
        }
        if let Some(version) = settings["blox_version"].as_str() {
            lines.push(("version".to_owned(), format!("blox {version}")));
        }
        // Writing to a string cannot fail.
        lines.retain(|(_, line)| !line.is_empty());
        list(&mut html, &lines);
        let runs = || index["runs"].as_array().into_iter().flatten();
        let missing = runs().filter(|r| r["status"] == "missing").count();
        if missing > 0 {
            let all = runs().count();
            let text = format!("Interrupted: {missing} of {all} runs are missing.");
            notice(&mut html, &text);
        }
        for run in runs().filter(|r| r["status"] == "failed") {
            let of = |key: &str| run[key].as_str().unwrap_or("");
            notice(
                &mut html,
                &format!("Run {} failed: {}", of("run"), of("error")),
            );
        }
    }
    html
}

/// Returns the rule that chose the runs with jobs and GPUs over time.
pub(super) fn rule(sweep: &Sweep, shown: usize) -> String {
    let (runs, are) = match shown {
        1 => ("run".to_owned(), "is"),
        n => (format!("{n} runs"), "are"),
    };
    match (sweep.runs.len() > shown, sweep.runs.first()) {
        (true, Some(first)) if !first.seed.is_empty() => format!(
            "Of a sweep, the first {runs} with the seed {} {are} here. ",
            Escaped(&first.seed)
        ),
        (true, _) => format!("Of a sweep, the first {runs} {are} here. "),
        (false, _) => String::new(),
    }
}

/// Returns the table of means over seeds, and below it the table of runs.
pub(super) fn tables(sweep: &Sweep) -> String {
    let groups = sweep.groups();
    let mut html = means(sweep, &groups);
    if groups.len() < sweep.runs.len() {
        let count = sweep.runs.len();
        let _ = write!(html, "<details><summary>Each of the {count} runs</summary>");
        html.push_str(&each(sweep));
        html.push_str("</details>\n");
    }
    html
}

fn begin(html: &mut String, sweep: &Sweep) {
    html.push_str("<div class=\"card\"><table class=\"sorts\"><thead><tr>");
    heading(html, "scheduler", "with its parameters", "text");
    for name in &sweep.varied {
        heading(html, name, "a setting that was varied", "");
    }
}

fn cell(html: &mut String, exact: &str, shown: &str) {
    let (exact, shown) = (Escaped(exact), Escaped(shown));
    let _ = write!(html, "<td data-v=\"{exact}\">{shown}</td>");
}

pub(super) fn name(html: &mut String, name: &str) {
    let name = Escaped(name);
    let _ = write!(html, "<tr><td class=\"text\" data-v=\"{name}\">{name}</td>");
}

pub(super) fn number(html: &mut String, column: &str, value: Option<f64>, none: &str) {
    match value {
        Some(v) => cell(html, &v.to_string(), &figure(column, v)),
        None => cell(html, "", none),
    }
}

fn means(sweep: &Sweep, groups: &[Group<'_>]) -> String {
    let mut html = String::new();
    begin(&mut html, sweep);
    heading(
        &mut html,
        "seeds",
        "runs that differ in their seeds alone",
        "",
    );
    let of = |name: &str| COLUMNS.iter().find(|c| c.name == name);
    let mean = |html: &mut String, column: &str| {
        if let Some(c) = of(column) {
            heading(
                html,
                c.heading,
                &format!("mean over seeds: {}", c.formula),
                "",
            );
        }
    };
    mean(&mut html, "avg_jct_s");
    let half = "half of the 95 % confidence interval of the mean (Student's t)";
    heading(&mut html, "± 95 %", half, "");
    MEANS.iter().for_each(|c| mean(&mut html, c));
    html.push_str("</tr></thead>\n<tbody>\n");
    for group in groups {
        name(&mut html, group.scheduler);
        for value in group.settings {
            cell(&mut html, value, value);
        }
        let seeds = group.runs.len();
        cell(&mut html, &seeds.to_string(), &grouped(seeds as f64, 0));
        let jct = group.estimate("avg_jct_s");
        number(&mut html, "avg_jct_s", jct.map(|e| e.mean), "");
        number(&mut html, "avg_jct_s", jct.and_then(|e| e.half_width), "");
        for column in MEANS {
            let mean = group.estimate(column).map(|e| e.mean);
            number(&mut html, column, mean, "");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

fn each(sweep: &Sweep) -> String {
    let mut html = String::new();
    begin(&mut html, sweep);
    heading(&mut html, "seed", "of workload, faults and policies", "");
    let zero = |name: &str| sweep.runs.iter().all(|r| r.figure(name) == Some(0.0));
    let (columns, note) = told(zero);
    for c in &columns[1..] {
        heading(&mut html, c.heading, c.formula, "");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for run in &sweep.runs {
        name(&mut html, &run.scheduler);
        for value in run.settings.iter().chain([&run.seed]) {
            cell(&mut html, value, value);
        }
        for c in &columns[1..] {
            number(&mut html, c.name, run.figure(c.name), "");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html + &note
}
