//! One self-contained HTML page of results.

mod data;
mod sweep;

use super::error::FolderError;
use super::fields::Fields;
use super::figures::{OF_COMPLETED, PARTIAL, flattened, is_over_completed};
use super::folder::Folder;
use super::pictures::{Contestant, Picture, contestants, summaries, time_unit};
use super::run::{NO_VALUE, Wait};
use super::summary::{COLUMNS, Column, PARTS};
use super::sweep::{Sweep, pictures};
use super::text::{number_of, quoted, whole};
use blox_plot::{Escaped, TimeUnit, grouped};
use serde_json::Value;
use std::fmt::Write;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The most runs of a sweep with jobs and GPUs over time in the page.
const RUNS_OF_A_SWEEP: usize = 24;
/// The most bytes of a page.
const PAGE_BYTES: usize = 1_000_000;
/// The most bytes of the pictures of a page.
const PICTURE_BYTES: usize = 400_000;
/// The least bytes for jobs and GPUs over time.
const DATA_BYTES: usize = 150_000;
/// The most bytes of a table.
const TABLE_BYTES: usize = 100_000;

/// Returns one HTML page of result folders: figures, pictures, GPUs over time, and jobs.
///
/// The page needs no other file, and every time in it has one unit. It is not larger than about 1 MB: if
/// the results are large, the page holds a part and states which part.
///
/// # Errors
/// A file cannot be read.
pub fn report(folders: &[Folder]) -> Result<String, FolderError> {
    let unit = time_unit(folders);
    let sweeps: Vec<&Sweep> = folders.iter().filter_map(|f| f.sweep.as_ref()).collect();
    let compared = contestants(folders);
    let mut tables = String::new();
    if !compared.is_empty() {
        tables.push_str(&summary(&compared, unit));
        tables.push_str(&by_group(&compared, unit));
        tables.push_str(&waits(&compared, unit));
    }
    let mut drawn = summaries(&compared, unit);
    let mut of_sweeps = Vec::new();
    let mut rule = String::new();
    for sweep in &sweeps {
        tables.push_str(&sweep::tables(sweep, unit)?);
        drawn.extend(pictures(sweep, unit)?);
        let runs = Folder::first_runs(sweep, RUNS_OF_A_SWEEP)?;
        rule.push_str(&sweep::rule(sweep, runs.len()));
        of_sweeps.extend(runs);
    }
    // The page shows runs of a sweep like runs of a comparison.
    let mut all = compared;
    let title = title(&all, &sweeps);
    all.extend(contestants(&of_sweeps));
    let about = about(folders, unit) + &sweep::about(&sweeps);
    let drawn = figures(&drawn);
    let others = [PAGE, STYLE, SCRIPT, &about, &tables, &drawn, &rule];
    let used: usize = others.map(str::len).iter().sum();
    let room = PAGE_BYTES.saturating_sub(used).max(DATA_BYTES);
    let (data, jobs_rule) = data::of(&all, unit, room)?;
    Ok(filled(&[
        ("TITLE", &Escaped(&title).to_string()),
        ("CSS", STYLE),
        ("ABOUT", &about),
        ("UNIT", unit.name()),
        ("SUMMARY", &tables),
        ("PICTURES", &drawn),
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

/// Returns a text with its times in seconds, such as `1,800 s`, in the unit of the page.
fn in_unit(text: &str, unit: TimeUnit) -> String {
    let mut words = text.split(' ').peekable();
    let mut out = Vec::new();
    while let Some(word) = words.next() {
        let number = word.trim_start_matches('(');
        let seconds = number.replace(',', "").parse().ok();
        let is_unit = |word: &&str| word.trim_end_matches([',', ')', ';']) == "s";
        match (seconds, words.peek().copied().filter(is_unit)) {
            (Some(seconds), Some(after)) => {
                words.next();
                let before = &word[..word.len() - number.len()];
                out.push(format!("{before}{}{}", unit.text(seconds), &after[1..]));
            }
            _ => out.push(word.to_owned()),
        }
    }
    out.join(" ")
}

/// Returns the origin of the results, and notices.
fn about(folders: &[Folder], unit: TimeUnit) -> String {
    let mut html = String::new();
    for folder in folders.iter().filter(|f| !f.manifest.is_null()) {
        let m = &folder.manifest;
        let text = |key: &str| m[key].as_str().unwrap_or("").to_owned();
        let count = |key: &str, what: &str| number_of(m[key].as_u64().unwrap_or(0), what);
        let lines = [
            ("folder", folder.path.display().to_string()),
            ("command", command_line(&m["command_line"])),
            ("workload", in_unit(&text("workload"), unit)),
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

/// A column of a table: its heading, its formula, and the cell of a row.
pub(super) struct Field<'a, T> {
    heading: String,
    formula: String,
    cell: Cell<'a, T>,
}

/// Returns the number of a row, if it has one.
type NumberOf<'a, T> = Box<dyn Fn(&T) -> Option<f64> + 'a>;

/// The cell of a row.
enum Cell<'a, T> {
    Text(Box<dyn Fn(&T) -> String + 'a>),
    Number {
        value: NumberOf<'a, T>,
        /// The name of the column, which selects the format.
        column: &'a str,
        /// The text without a value.
        none: &'a str,
    },
}

impl<'a, T> Field<'a, T> {
    /// Shows a text.
    fn text(heading: &str, formula: &str, text: impl Fn(&T) -> String + 'a) -> Self {
        Field {
            heading: heading.to_owned(),
            formula: formula.to_owned(),
            cell: Cell::Text(Box::new(text)),
        }
    }

    /// Shows a number in the format of a column, or the text `none`. The name of a column in seconds
    /// ends in `_s`.
    fn number(
        heading: &str,
        formula: impl Into<String>,
        (column, none): (&'a str, &'a str),
        value: impl Fn(&T) -> Option<f64> + 'a,
    ) -> Self {
        Field {
            heading: heading.to_owned(),
            formula: formula.into(),
            cell: Cell::Number {
                value: Box::new(value),
                column,
                none,
            },
        }
    }

    /// Returns the heading with the unit of times.
    fn named(&self, unit: TimeUnit) -> String {
        match &self.cell {
            Cell::Number { column, .. } if column.ends_with("_s") => {
                format!("{} ({})", self.heading, unit.name())
            }
            _ => self.heading.clone(),
        }
    }

    /// Returns the number of decimal places of times: three digits of the smallest one, at most three
    /// places.
    fn places(&self, rows: &[T], unit: TimeUnit) -> usize {
        let Cell::Number { value, .. } = &self.cell else {
            return 0;
        };
        let values = rows
            .iter()
            .filter_map(value)
            .map(|v| (v / unit.secs()).abs());
        let least = values.filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        match least.is_finite() {
            true => (2.0 - least.log10().floor()).clamp(0.0, 3.0) as usize,
            false => 0,
        }
    }

    /// Returns the exact value and the text of a row.
    fn of(&self, row: &T, places: usize, unit: TimeUnit) -> (String, String) {
        match &self.cell {
            Cell::Text(text) => (text(row), text(row)),
            Cell::Number {
                value,
                column,
                none,
            } => match value(row) {
                Some(v) if column.ends_with("_s") => {
                    (v.to_string(), grouped(v / unit.secs(), places))
                }
                Some(v) => (v.to_string(), figure(column, v)),
                None => (String::new(), (*none).to_owned()),
            },
        }
    }

    /// Returns the class of the cells, as an attribute.
    fn class(&self) -> &'static str {
        match self.cell {
            Cell::Text(_) => " class=\"text\"",
            Cell::Number { .. } => "",
        }
    }

    /// Returns whether the value is over completed jobs.
    fn is_of_completed(&self) -> bool {
        matches!(&self.cell, Cell::Number { column, .. } if is_over_completed(column))
    }
}

/// Returns a table whose headings sort their columns. The hint of a heading is the formula. The
/// first column holds names. A row with averages over fewer jobs than were measured (`partial`) is
/// marked, and stays below the others. A long table ends after its first rows, with a note.
fn table<T>(
    attributes: &str,
    fields: &[Field<'_, T>],
    rows: &[T],
    partial: impl Fn(&T) -> bool,
    unit: TimeUnit,
) -> String {
    // Writing to a string cannot fail.
    let mut html =
        format!("<div class=\"card wide\"><table class=\"sorts\"{attributes}><thead><tr>");
    for field in fields {
        let name = field.named(unit);
        let (kind, formula) = (field.class(), Escaped(&field.formula));
        let _ = write!(
            html,
            "<th{kind}><button title=\"{formula}\">{}</button></th>",
            Escaped(&name)
        );
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let places: Vec<usize> = fields
        .iter()
        .map(|field| field.places(rows, unit))
        .collect();
    let mut shown = 0;
    for row in rows {
        if html.len() > TABLE_BYTES {
            break;
        }
        shown += 1;
        let marked = partial(row);
        html.push_str(match marked {
            true => "<tr class=\"partial\">",
            false => "<tr>",
        });
        for (field, places) in fields.iter().zip(&places) {
            let kind = field.class();
            let (exact, mut shown) = field.of(row, *places, unit);
            if marked && field.is_of_completed() && !exact.is_empty() {
                shown.push_str(PARTIAL);
            }
            // The text of most cells is exact.
            let exact = match exact == shown {
                true => String::new(),
                false => format!(" data-v=\"{}\"", Escaped(&exact)),
            };
            let _ = write!(html, "<td{kind}{exact}>{}</td>", Escaped(&shown));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    if shown < rows.len() {
        let (shown, all) = (whole(shown as u64), whole(rows.len() as u64));
        let _ = writeln!(
            html,
            "<p class=\"soft\">The first {shown} of {all} rows, to keep the page small; the files of the \
             results have all.</p>"
        );
    }
    if rows.iter().any(partial) {
        let _ = writeln!(html, "<p class=\"soft\">{PARTIAL} {OF_COMPLETED}</p>");
    }
    html
}

/// Formats a figure that is no time by the name of its column.
fn figure(column: &str, value: f64) -> String {
    match column {
        "relative" => format!("{value:.3}"),
        "fairness_mean" | "fairness_worst" => format!("{value:.2}"),
        "services_needed_gpu_h" | "services_lacking_gpu_h" => grouped(value, 1),
        "utilisation" | "fairness_unfair" | "services_full" | "share" => {
            format!("{:.1} %", 100.0 * value)
        }
        _ => grouped(value, 0),
    }
}

/// Returns the table of figures, with a row for each scheduler.
fn summary(all: &[Contestant<'_>], unit: TimeUnit) -> String {
    let value = |c: &Contestant<'_>, name: &str| c.run.figure(name);
    let average = |c: &Contestant<'_>| value(c, "avg_jct_s");
    let base = all.first().and_then(average).filter(|base| *base > 0.0);
    let (columns, note) = shown_columns(|name, what| all.iter().all(|c| value(c, name) == what));
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
    let partial = |c: &Contestant<'_>| c.run.partial().is_some();
    table(" id=\"summary\"", &fields, all, partial, unit) + &note
}

/// Returns the table of reasons of waiting, if they were recorded.
fn waits(all: &[Contestant<'_>], unit: TimeUnit) -> String {
    struct Row<'a> {
        scheduler: &'a str,
        wait: Wait<'a>,
        /// Waiting time of all measured jobs.
        all_s: f64,
    }
    let mut rows = Vec::new();
    for c in all {
        let all_s = c.run.waits().map(|wait| wait.total_s).sum();
        rows.extend(c.run.waits().map(|wait| Row {
            scheduler: &c.name,
            wait,
            all_s,
        }));
    }
    if rows.is_empty() {
        return String::new();
    }
    let fields = [
        Field::text("scheduler", "name of the composition", |r: &Row<'_>| {
            r.scheduler.to_owned()
        }),
        Field::text("waited because", "reason of the policy", |r: &Row<'_>| {
            r.wait.reason.to_owned()
        }),
        Field::number(
            "jobs",
            "measured jobs that waited for this reason",
            ("jobs", ""),
            |r: &Row<'_>| Some(r.wait.jobs as f64),
        ),
        Field::number(
            "waiting time per measured job",
            "waiting time for this reason / measured jobs",
            ("waiting_s", ""),
            |r: &Row<'_>| Some(r.wait.mean_s),
        ),
        Field::number(
            "share of all waiting",
            "waiting time for this reason / waiting time for all reasons",
            ("share", "-"),
            |r: &Row<'_>| (r.all_s > 0.0).then_some(r.wait.total_s / r.all_s),
        ),
    ];
    let table = table(" id=\"waits\"", &fields, &rows, |_| false, unit);
    format!("<h3>Reasons of waiting</h3>\n{table}")
}

/// Returns the table of figures of groups of jobs, if there are any.
fn by_group(all: &[Contestant<'_>], unit: TimeUnit) -> String {
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
            value: value.unwrap_or(NO_VALUE),
            figures: flattened(figures.as_object().cloned().unwrap_or_default()),
        }));
    }
    let value = |row: &Row<'_>, name: &str| row.figures.get(name).and_then(Value::as_f64);
    let (columns, note) =
        shown_columns(|name, what| rows.iter().all(|row| value(row, name) == what));
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
    let table = table(" id=\"groups\"", &fields, &rows, partial, unit);
    format!("<h3>By {}</h3>\n{table}{note}", Escaped(by))
}

/// Returns the columns to show, and a note about hidden columns with zeros only. `all_are` returns
/// whether a figure has this value in all rows.
fn shown_columns(all_are: impl Fn(&str, Option<f64>) -> bool) -> (Vec<&'static Column>, String) {
    let mut hidden = vec!["rejected", "failed", "unfinished"];
    hidden.retain(|name| all_are(name, Some(0.0)));
    let known = |c: &&Column| !all_are(c.name, None);
    let (deadlines, others): (Vec<_>, Vec<_>) = PARTS
        .iter()
        .filter(known)
        .partition(|c| c.is_of_deadlines());
    // Counts of deadlines stand beside those of jobs.
    let at = COLUMNS
        .iter()
        .take_while(|c| c.name != "unfinished")
        .count()
        + 1;
    let (before, after) = COLUMNS.split_at(at);
    let columns = before.iter().chain(deadlines).chain(after).chain(others);
    let columns = columns.filter(|c| !hidden.contains(&c.name));
    let note = match hidden.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=\"soft\">Not shown, being 0 everywhere: {}.</p>\n",
            hidden.join(", ")
        ),
    };
    (columns.collect(), note)
}

/// Returns the pictures as markup, and the names of pictures that would make the page too large.
fn figures(pictures: &[Picture]) -> String {
    let mut html = String::from("<div class=\"charts\">\n");
    let mut left_out = Vec::new();
    for p in pictures {
        if html.len() + p.svg.len() > PICTURE_BYTES {
            left_out.push(p.name.as_str());
            continue;
        }
        let _ = writeln!(html, "<div class=\"card\">{}</div>", p.svg);
    }
    html.push_str("</div>\n");
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        let _ = writeln!(
            html,
            "<p class=\"soft\">Left out, to keep the page small: {}. <code>blox plot</code> draws them.</p>",
            Escaped(&names)
        );
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_plot::{Axis, BarChart, Chart, Series};
    use std::path::Path;

    #[test]
    fn command_line_quotes_what_a_shell_splits() {
        let words = serde_json::json!(["blox", "las{guard_h=1}", "--map=a b", "it's", "1..9", ""]);
        let typed = r"blox 'las{guard_h=1}' '--map=a b' 'it'\''s' 1..9 ''";
        assert_eq!(command_line(&words), typed);
    }

    #[test]
    fn times_of_a_text_have_the_unit_of_the_page() {
        let text = "5 jobs, bursty (90 s for those of bursts), mean duration 60,362 s, seed 1";
        let hours = "5 jobs, bursty (0.025 h for those of bursts), mean duration 16.8 h, seed 1";
        assert_eq!(in_unit(text, TimeUnit::Hours), hours);
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
        let dash = format!(r#"{{"user":"-",{counts},"avg_jct_s":7200}}"#);
        let summary = format!(r#"{{{counts},"by":"user","groups":[{group},{dash},{none}]}}"#);
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
        assert!(page.contains("deadlines met</button>") && page.contains("<td>7</td>"));
        assert!(
            page.contains("<td class=\"text\">(none)</td>"),
            "a group without a value"
        );
        assert!(page.contains("<td class=\"text\">-</td>"), "a user `-`");
        let pictures = crate::pictures(&[folder]).unwrap();
        let names: Vec<String> = pictures.iter().map(|p| p.name.clone()).collect();
        let averages = pictures.iter().find(|p| p.name == "groups-avg-jct");
        let svg = &averages.unwrap().svg;
        assert!(svg.contains(">-<") && svg.contains(">(none)<"), "{svg}");
        assert!(names.contains(&"groups-avg-jct".to_owned()), "{names:?}");
        assert!(names.contains(&"groups-jct-cdf-a".to_owned()), "{names:?}");
    }

    /// Writes results of two schedulers with deadlines, reasons of waiting, stays on GPUs and `jobs` jobs.
    fn written(dir: &Path, jobs: u32) -> Folder {
        let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
        let cluster =
            r#"[{"gpu_type":"v100","gpus":4,"nodes":2},{"gpu_type":"k80","gpus":4,"nodes":2}]"#;
        let schedulers = r#"[{"name":"fifo","folder":"a"},{"name":"las","folder":"b"}]"#;
        write(
            "manifest.json",
            &format!(r#"{{"gpus":16,"nodes":4,"cluster":{cluster},"schedulers":{schedulers}}}"#),
        );
        for (k, folder) in ["a", "b"].iter().enumerate() {
            std::fs::create_dir_all(dir.join(folder)).unwrap();
            let counts = format!(
                r#""measured":{jobs},"completed":{jobs},"rejected":0,"failed":0,"unfinished":0"#
            );
            let times = r#""avg_jct_s":9000,"median_jct_s":36,"p99_jct_s":1e6,"makespan_s":180000"#;
            let deadlines = r#"{"met":3,"missed":4,"declined":1}"#;
            let waits = r#"[{"reason":"too few GPUs","jobs":4,"total":72000}]"#;
            write(
                &format!("{folder}/summary.json"),
                &format!(r#"{{{counts},{times},"deadlines":{deadlines},"waits":{waits}}}"#),
            );
            let mut rows =
                "job_id,job,submit_s,first_start_s,finish_s,jct_s,attained_s,gpus,duration_s,\
                            preemptions,launches,outcome,reason,measured,deadline_s\n"
                    .to_owned();
            let mut stays = "job_id,job,start_s,end_s,gpus\n".to_owned();
            for i in 0..jobs {
                let (submit, length) = (i * 37, 100 + i * 7919 % 9000);
                let (start, end) = (submit + 60, submit + 60 + length);
                let jct = end - submit;
                rows += &format!(
                    "j{i},{i},{submit},{start},{end},{jct},{length},1,{length},0,1,completed,,1,{}\n",
                    start + 5000
                );
                let gpu = (i + k as u32) % 16;
                stays += &format!("j{i},{i},{start},{end},{gpu}\n");
            }
            write(&format!("{folder}/jobs.csv"), &rows);
            write(&format!("{folder}/assignments.csv"), &stays);
            let columns =
                "time_s,length_s,busy_gpus,usable_gpus,placed_jobs,queued_jobs,deferred_jobs";
            write(
                &format!("{folder}/timeline.csv"),
                &format!("{columns}\n0,90000,8,16,8,3,0\n90000,90000,9,16,9,0,0\n"),
            );
        }
        Folder::open(dir).unwrap()
    }

    /// Returns the units of time that a page names behind a number or in brackets, and not `unit`.
    fn other_units(page: &str, unit: TimeUnit) -> Vec<String> {
        let all = [
            TimeUnit::Seconds,
            TimeUnit::Minutes,
            TimeUnit::Hours,
            TimeUnit::Days,
        ];
        let mut found = Vec::new();
        for other in all.into_iter().filter(|other| *other != unit) {
            let (name, symbol) = (other.name(), other.symbol());
            for text in [format!("({name})"), format!("({name},")] {
                found.extend(page.contains(&text).then_some(text));
            }
            // A number with a symbol, as in the names of ticks and of values.
            for (at, _) in page.match_indices(&format!(" {symbol}<")) {
                let before = page[..at].chars().next_back();
                let text = &page[at.saturating_sub(12)..at + 1 + symbol.len()];
                found.extend(before.filter(char::is_ascii_digit).map(|_| text.to_owned()));
            }
        }
        found
    }

    #[test]
    fn every_time_of_a_page_has_one_unit() {
        let dir = tempfile::tempdir().unwrap();
        let folder = written(dir.path(), 50);
        let page = report(std::slice::from_ref(&folder)).unwrap();
        let markup = page.split("<script").next().unwrap();
        assert_eq!(other_units(markup, TimeUnit::Hours), [""; 0]);
        // Axes, tables and the script, from seconds in the files.
        for text in [
            "JCT: submission until the end (hours, log scale)",
            ">time (hours)<",
            ">end - deadline (hours)<",
            ">2.5 h<",
            "average JCT (hours)</button>",
            "<td data-v=\"9000\">2.50</td>",
            "<td data-v=\"36\">0.010</td>",
            "<td data-v=\"180000\">50.0</td>",
            "waiting time per measured job (hours)",
            "\"unit\":{\"seconds\":3600.0,",
            "Every time in this page is in hours.",
        ] {
            assert!(page.contains(text), "{text}");
        }
        // Pictures in files have the unit of the page.
        for picture in crate::pictures(&[folder]).unwrap() {
            assert_eq!(
                other_units(&picture.svg, TimeUnit::Hours),
                [""; 0],
                "{}",
                picture.name
            );
        }
        // The check sees axes and values in other units.
        let planted = Axis::seconds("JCT").log();
        let planted =
            Chart::distribution("t", planted).with(Series::distribution("a", [60.0, 9e5]));
        assert!(!other_units(&planted.svg(), TimeUnit::Hours).is_empty());
        let planted = BarChart::new("t", Axis::seconds("JCT")).with("a", [("x", 60.0)]);
        assert!(!other_units(&planted.svg(), TimeUnit::Hours).is_empty());
    }

    #[test]
    fn pictures_show_deadlines_waits_and_types() {
        let dir = tempfile::tempdir().unwrap();
        let list = crate::pictures(&[written(dir.path(), 50)]).unwrap();
        let svg = |name: &str| &list.iter().find(|p| p.name == name).unwrap().svg;
        assert!(svg("deadlines").contains("<title>missed 4</title>"));
        assert!(
            svg("deadlines").contains(">8</text>"),
            "all jobs with a deadline"
        );
        // 72,000 s of 50 jobs.
        assert!(svg("waits").contains("<title>too few GPUs 0.4 h</title>"));
        // The longest job ended 9000 + 100 - 5000 s after its deadline at most.
        assert!(svg("lateness-cdf").contains(">1.0</text>"));
        for node in [">node 0 (v100)<", ">node 3 (k80)<"] {
            assert!(svg("gantt-a").contains(node), "{node}");
        }
    }

    #[test]
    fn page_of_many_jobs_is_at_most_one_megabyte() {
        let dir = tempfile::tempdir().unwrap();
        let small = report(&[written(dir.path(), 300)]).unwrap();
        assert!(small.contains("All jobs.") && small.contains("Every stay on GPUs is here."));
        let page = report(&[written(dir.path(), 60_000)]).unwrap();
        assert!(
            (600_000..=1_000_000).contains(&page.len()),
            "{}",
            page.len()
        );
        assert!(page.contains("an even sample by number and the 100 with the longest JCT"));
        assert!(page.contains("Of 60,000 stays on GPUs, the "));
    }

    #[test]
    fn long_tables_and_many_pictures_are_cut_with_a_note() {
        let fields = [Field::text("a", "text", |row: &usize| format!("row {row}"))];
        let rows: Vec<usize> = (0..50_000).collect();
        let html = table("", &fields, &rows, |_| false, TimeUnit::Seconds);
        assert!(html.len() < TABLE_BYTES + 1000, "{}", html.len());
        assert!(html.contains(" of 50,000 rows, to keep the page small"));
        let picture = |i: usize| Picture::new(format!("p{i}"), "t", "<svg>".repeat(20_000));
        let html = figures(&(0..6).map(picture).collect::<Vec<_>>());
        assert!(html.len() <= PICTURE_BYTES + 1000);
        assert!(html.contains("Left out, to keep the page small: p3, p4, p5."));
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
            "UNIT",
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
