//! One self-contained HTML page of results.

mod data;
mod sweep;

use super::error::FolderError;
use super::fields::Fields;
use super::figures::{DEADLINES, OF_COMPLETED, PARTIAL, RHO, flattened, is_over_completed};
use super::folder::Folder;
use super::pictures::{Contestant, Picture, contestants, summaries};
use super::sweep::{Sweep, pictures};
use super::{number_of, quoted};
use blox_plot::{Escaped, grouped};
use blox_sim::results::{COLUMNS, Column};
use serde_json::Value;
use std::fmt::Write;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The most runs of a sweep with jobs and GPUs over time in the page.
const RUNS_OF_A_SWEEP: usize = 24;

/// Returns one HTML page of result folders: figures, pictures, GPUs over time, and jobs.
///
/// The page needs no other file. If the results are large, the page holds a part and states which part.
///
/// # Errors
/// A file cannot be read.
pub fn report(folders: &[Folder]) -> Result<String, FolderError> {
    let sweeps: Vec<&Sweep> = folders.iter().filter_map(|f| f.sweep.as_ref()).collect();
    let compared = contestants(folders);
    let mut tables = String::new();
    if !compared.is_empty() {
        tables.push_str(&summary(&compared));
        tables.push_str(&by_group(&compared));
    }
    let mut drawn = summaries(&compared);
    let mut of_sweeps = Vec::new();
    let mut rule = String::new();
    for sweep in &sweeps {
        tables.push_str(&sweep::tables(sweep)?);
        drawn.extend(pictures(sweep)?);
        let runs = Folder::first_runs(sweep, RUNS_OF_A_SWEEP)?;
        rule.push_str(&sweep::rule(sweep, runs.len()));
        of_sweeps.extend(runs);
    }
    // The page shows runs of a sweep like runs of a comparison.
    let mut all = compared;
    let title = title(&all, &sweeps);
    all.extend(contestants(&of_sweeps));
    let (data, jobs_rule) = data::of(&all)?;
    Ok(filled(&[
        ("TITLE", &Escaped(&title).to_string()),
        ("CSS", STYLE),
        ("ABOUT", &(about(folders) + &sweep::about(&sweeps))),
        ("SUMMARY", &tables),
        ("PICTURES", &figures(&drawn)),
        ("JOBS_RULE", &(rule + &jobs_rule)),
        ("DATA", &data),
        ("JS", SCRIPT),
    ]))
}

fn title(all: &[Contestant<'_>], sweeps: &[&Sweep]) -> String {
    match (all, sweeps) {
        ([], []) => "Results".to_owned(),
        ([], [one]) => format!("Sweep of {}", number_of(one.runs.len() as u64, "run")),
        ([], many) => format!("{} sweeps", many.len()),
        ([one], []) => format!("{}: results", one.name),
        (many, []) => format!("{} schedulers compared", many.len()),
        (_, _) => "Comparisons and sweeps".to_owned(),
    }
}

/// Fills the gaps of the page in one pass, so that fillings may hold any text.
fn filled(parts: &[(&str, &str)]) -> String {
    let mut page = String::new();
    let mut rest = PAGE;
    while let Some(start) = rest.find('@') {
        page.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let end = rest.find('@').unwrap_or(rest.len());
        let gap = &rest[..end];
        let part = parts.iter().find(|(name, _)| *name == gap);
        page.push_str(part.map_or("", |(_, text)| text));
        rest = rest.get(end + 1..).unwrap_or("");
    }
    page.push_str(rest);
    page
}

/// Returns a recorded command line as a user types it into a shell.
fn command_line(words: &Value) -> String {
    let words = words.as_array().into_iter().flatten();
    let quoted: Vec<String> = words.filter_map(Value::as_str).map(quoted).collect();
    quoted.join(" ")
}

/// Returns the origin of the results, and notices.
fn about(folders: &[Folder]) -> String {
    let mut html = String::new();
    for folder in folders.iter().filter(|f| !f.manifest.is_null()) {
        let m = &folder.manifest;
        let text = |key: &str| m[key].as_str().unwrap_or("").to_owned();
        let count = |key: &str, what: &str| number_of(m[key].as_u64().unwrap_or(0), what);
        let lines = [
            ("folder", folder.path.display().to_string()),
            ("command", command_line(&m["command_line"])),
            ("workload", text("workload")),
            (
                "cluster",
                format!("{}, {}", count("nodes", "node"), count("gpus", "GPU")),
            ),
            ("seed", seeds(&m["seeds"])),
            ("version", version(&m["blox_version"], &m["commit"])),
        ];
        let mut lines = lines.map(|(key, line)| (key.to_owned(), line)).to_vec();
        lines.extend(assumptions(m));
        list(&mut html, &lines);
        if text("status") == "interrupted" {
            notice(&mut html, "Interrupted: these are results so far.");
        }
        for text in m["notices"].as_array().into_iter().flatten() {
            notice(&mut html, text.as_str().unwrap_or(""));
        }
    }
    html
}

/// Returns the assumptions of a manifest, by name.
pub(super) fn assumptions(manifest: &Value) -> Vec<(String, String)> {
    let all = manifest["assumptions"].as_object().into_iter().flatten();
    let of = |(key, line): (&String, &Value)| {
        (
            key.replace('_', " "),
            line.as_str().unwrap_or("").to_owned(),
        )
    };
    all.map(of).collect()
}

/// Formats a list of seeds.
pub(super) fn seeds(list: &Value) -> String {
    let seeds: Vec<String> = list
        .as_array()
        .into_iter()
        .flatten()
        .map(Value::to_string)
        .collect();
    seeds.join(", ")
}

/// Formats the version of the program, with the start of its commit if it is known.
pub(super) fn version(version: &Value, commit: &Value) -> String {
    let version = format!("blox {}", version.as_str().unwrap_or_default());
    match commit.as_str() {
        Some(commit) => format!("{version}, commit {}", commit.get(..12).unwrap_or(commit)),
        None => version,
    }
}

/// Appends lines with what they are about.
fn list(html: &mut String, lines: &[(impl AsRef<str>, String)]) {
    html.push_str("<dl>\n");
    for (what, line) in lines {
        let (what, line) = (Escaped(what.as_ref()), Escaped(line));
        // Writing to a string cannot fail.
        let _ = writeln!(html, "<dt>{what}</dt><dd>{line}</dd>");
    }
    html.push_str("</dl>\n");
}

fn notice(html: &mut String, text: &str) {
    let _ = writeln!(html, "<p class=\"notice\">{}</p>", Escaped(text));
}

/// Returns the exact value and the text of a row.
type Cell<'a, T> = Box<dyn Fn(&T) -> (String, String) + 'a>;

/// A column of a table: its heading, its formula, and the cell of a row.
pub(super) struct Field<'a, T> {
    heading: &'a str,
    formula: String,
    cell: Cell<'a, T>,
    /// True if the value is over completed jobs.
    of_completed: bool,
}

impl<'a, T> Field<'a, T> {
    /// Shows a text.
    fn text(heading: &'a str, formula: &str, text: impl Fn(&T) -> String + 'a) -> Self {
        Field {
            heading,
            formula: formula.to_owned(),
            cell: Box::new(move |row| (text(row), text(row))),
            of_completed: false,
        }
    }

    /// Shows a number in the format of a column, or the text `none`.
    fn number(
        heading: &'a str,
        formula: impl Into<String>,
        (column, none): (&'a str, &'a str),
        value: impl Fn(&T) -> Option<f64> + 'a,
    ) -> Self {
        let cell = move |row: &T| match value(row) {
            Some(v) => (v.to_string(), figure(column, v)),
            None => (String::new(), none.to_owned()),
        };
        Field {
            heading,
            formula: formula.into(),
            cell: Box::new(cell),
            of_completed: is_over_completed(column),
        }
    }
}

/// Returns a table whose headings sort their columns. The hint of a heading is the formula. The
/// first column holds names. A row with averages over fewer jobs than were measured (`partial`) is
/// marked, and stays below the others.
fn table<T>(
    attributes: &str,
    fields: &[Field<'_, T>],
    rows: &[T],
    partial: impl Fn(&T) -> bool,
) -> String {
    // Writing to a string cannot fail.
    let mut html = format!("<div class=\"card\"><table class=\"sorts\"{attributes}><thead><tr>");
    for (i, field) in fields.iter().enumerate() {
        // The unit stays beside the last word in a narrow column.
        let unit = field.heading.strip_suffix(" s");
        let unit = unit.map(|name| format!("{name}\u{a0}s"));
        let name = Escaped(unit.as_deref().unwrap_or(field.heading));
        let (kind, formula) = (if i == 0 { "text" } else { "" }, Escaped(&field.formula));
        let _ = write!(
            html,
            "<th class=\"{kind}\"><button title=\"{formula}\">{name}</button></th>"
        );
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let marked = partial(row);
        html.push_str(match marked {
            true => "<tr class=\"partial\">",
            false => "<tr>",
        });
        for (i, field) in fields.iter().enumerate() {
            let kind = if i == 0 { " class=\"text\"" } else { "" };
            let (exact, mut shown) = (field.cell)(row);
            if marked && field.of_completed && !exact.is_empty() {
                shown.push_str(PARTIAL);
            }
            let (exact, shown) = (Escaped(&exact), Escaped(&shown));
            let _ = write!(html, "<td{kind} data-v=\"{exact}\">{shown}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    if rows.iter().any(partial) {
        let _ = writeln!(html, "<p class=\"soft\">{PARTIAL} {OF_COMPLETED}</p>");
    }
    html
}

/// Formats a figure by the name of its column.
fn figure(column: &str, value: f64) -> String {
    match column {
        "relative" => format!("{value:.3}"),
        "fairness_mean" | "fairness_worst" => format!("{value:.2}"),
        "utilisation" | "fairness_unfair" => format!("{:.1} %", 100.0 * value),
        "median_jct_s" | "p99_jct_s" | "makespan_s" => grouped(value, 0),
        name if name.ends_with("_s") => grouped(value, 1),
        _ => grouped(value, 0),
    }
}

/// Returns the table of figures, with a row for each scheduler.
fn summary(all: &[Contestant<'_>]) -> String {
    let value = |c: &Contestant<'_>, name: &str| c.run.figure(name);
    let average = |c: &Contestant<'_>| value(c, "avg_jct_s");
    let base = all.first().and_then(average).filter(|base| *base > 0.0);
    let (columns, note) = told(|name, what| all.iter().all(|c| value(c, name) == what));
    let mut fields = vec![Field::text(
        columns[0].heading,
        columns[0].formula,
        |c: &Contestant<'_>| c.name.clone(),
    )];
    for c in &columns[1..] {
        let own = move |of: &Contestant<'_>| value(of, c.name);
        fields.push(Field::number(c.heading, c.formula, (c.name, "-"), own));
        if c.name == "avg_jct_s" {
            let formula = "mean JCT over that of the first scheduler";
            let ratio = move |c: &Contestant<'_>| Some(average(c)? / base?);
            fields.push(Field::number("relative", formula, ("relative", "-"), ratio));
        }
    }
    table(" id=\"summary\"", &fields, all, |c| {
        c.run.partial().is_some()
    }) + &note
}

/// Returns the table of figures of groups of jobs, if there are any.
fn by_group(all: &[Contestant<'_>]) -> String {
    struct Row<'a> {
        scheduler: &'a str,
        value: &'a str,
        figures: Fields,
    }
    let Some(by) = all.iter().find_map(|c| c.run.by()) else {
        return String::new();
    };
    let mut rows = Vec::new();
    for c in all {
        rows.extend(c.run.groups().map(|(value, figures)| Row {
            scheduler: &c.name,
            value,
            figures: flattened(figures.as_object().cloned().unwrap_or_default()),
        }));
    }
    let value = |row: &Row<'_>, name: &str| row.figures.get(name).and_then(Value::as_f64);
    let (columns, note) = told(|name, what| rows.iter().all(|row| value(row, name) == what));
    let mut fields = vec![
        Field::text("scheduler", "name of the composition", |r: &Row<'_>| {
            r.scheduler.to_owned()
        }),
        Field::text(by, "value of the group", |r: &Row<'_>| r.value.to_owned()),
    ];
    for c in &columns[1..] {
        if rows.iter().any(|row| row.figures.contains_key(c.name)) {
            let own = move |row: &Row<'_>| value(row, c.name);
            fields.push(Field::number(c.heading, c.formula, (c.name, "-"), own));
        }
    }
    let partial = |row: &Row<'_>| value(row, "completed") < value(row, "measured");
    let table = table(" id=\"groups\"", &fields, &rows, partial);
    format!("<h3>By {}</h3>\n{table}{note}", Escaped(by))
}

/// Returns the columns to show, and a note about hidden columns with zeros only. `all_are` returns
/// whether a figure has this value in all rows.
fn told(all_are: impl Fn(&str, Option<f64>) -> bool) -> (Vec<&'static Column>, String) {
    let mut hidden = vec!["rejected", "failed", "unfinished"];
    hidden.retain(|name| all_are(name, Some(0.0)));
    let columns = COLUMNS.iter().flat_map(|c| {
        // Counts of deadlines stand beside those of jobs.
        let deadlines = if c.name == "unfinished" {
            &DEADLINES[..]
        } else {
            &[]
        };
        [c].into_iter().chain(deadlines)
    });
    let columns = columns.chain(&RHO).filter(|c| {
        let has_parts = c.name.starts_with("deadlines_") || c.name.starts_with("fairness_");
        let unknown = has_parts && all_are(c.name, None);
        !hidden.contains(&c.name) && !unknown
    });
    let note = match hidden.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=\"soft\">Not shown, being 0 everywhere: {}.</p>\n",
            hidden.join(", ")
        ),
    };
    (columns.collect(), note)
}

fn figures(pictures: &[Picture]) -> String {
    let mut html = String::new();
    for p in pictures {
        let _ = writeln!(html, "<div class=\"card\">{}</div>", p.svg);
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_quotes_what_a_shell_splits() {
        let words = serde_json::json!(["blox", "las{guard_h=1}", "--map=a b", "it's", "1..9", ""]);
        let typed = r"blox 'las{guard_h=1}' '--map=a b' 'it'\''s' 1..9 ''";
        assert_eq!(command_line(&words), typed);
    }

    #[test]
    fn groups_and_deadlines_are_in_the_page() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        write(
            "manifest.json",
            r#"{"gpus":4,"schedulers":[{"name":"fifo","folder":"a"}]}"#,
        );
        let counts = r#""measured":1,"completed":1,"rejected":0,"failed":0,"unfinished":0"#;
        let group = format!(r#"{{"user":"ada",{counts},"avg_jct_s":9,"deadlines":{{"met":7}}}}"#);
        let none = format!(r#"{{"user":null,{counts},"avg_jct_s":8}}"#);
        let summary = format!(r#"{{{counts},"by":"user","groups":[{group},{none}]}}"#);
        write("a/summary.json", &summary);
        write(
            "a/jobs.csv",
            "job_id,job,submit_s,first_start_s,finish_s,jct_s,attained_s,gpus,duration_s,\
             preemptions,launches,outcome,reason,measured,user\n\
             x,0,0,0,9,9,9,1,9,0,1,completed,,1,ada\n",
        );
        let folder = Folder::open(dir.path()).unwrap();
        let page = report(std::slice::from_ref(&folder)).unwrap();
        assert!(page.contains("<h3>By user</h3>"));
        assert!(page.contains("deadlines met</button>") && page.contains("data-v=\"7\">7<"));
        assert!(
            page.contains("<td data-v=\"-\">-</td>"),
            "a group without a value"
        );
        let names: Vec<String> = crate::pictures(&[folder])
            .unwrap()
            .into_iter()
            .map(|p| p.name)
            .collect();
        assert!(names.contains(&"groups-avg-jct".to_owned()), "{names:?}");
        assert!(names.contains(&"groups-jct-cdf-a".to_owned()), "{names:?}");
    }

    #[test]
    fn gaps_are_filled_once() {
        let page = filled(&[("TITLE", "a @CSS@ b"), ("JS", "if (x) @TITLE@")]);
        assert!(page.contains("<title>a @CSS@ b</title>"));
        assert!(page.contains("if (x) @TITLE@"));
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn every_gap_has_a_filling() {
        let gaps = PAGE.split('@').skip(1).step_by(2);
        let known = [
            "TITLE",
            "CSS",
            "ABOUT",
            "SUMMARY",
            "PICTURES",
            "JOBS_RULE",
            "DATA",
            "JS",
        ];
        for gap in gaps {
            assert!(known.contains(&gap), "{gap}");
        }
    }
}
