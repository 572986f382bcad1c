//! One self-contained page of results.

mod data;

use super::folder::{Folder, FolderError};
use super::pictures::{Contestant, Picture, contestants, summaries};
use super::sweep;
use blox_sim::results::COLUMNS;
use std::fmt::Write;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// One HTML page of these folders' schedulers: figures, pictures, GPUs over
/// time, jobs. It needs nothing but itself, and stays small enough to open:
/// what it leaves out of large results, it says.
///
/// # Errors
/// A file cannot be read.
pub fn report(folders: &[Folder]) -> Result<String, FolderError> {
    let all = contestants(folders);
    let (data, jobs_rule) = data::of(&all)?;
    let mut pictures = summaries(&all);
    for folder in folders {
        pictures.extend(sweep::pictures(&folder.path)?);
    }
    let title = match all.as_slice() {
        [] => "Results".to_owned(),
        [one] => format!("{}: results", one.name),
        many => format!("{} schedulers compared", many.len()),
    };
    Ok(filled(&[
        ("TITLE", &Text(&title).to_string()),
        ("CSS", STYLE),
        ("ABOUT", &about(folders)),
        ("SUMMARY", &summary(&all)),
        ("PICTURES", &figures(&pictures)),
        ("JOBS_RULE", &jobs_rule),
        ("DATA", &data),
        ("JS", SCRIPT),
    ]))
}

/// The page with its gaps filled, in one pass: what is filled in may hold anything.
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

/// Text as HTML has it.
struct Text<'a>(&'a str);

impl std::fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Where the results come from, and what the reader must know first.
fn about(folders: &[Folder]) -> String {
    let mut html = String::new();
    for folder in folders.iter().filter(|f| !f.manifest.is_null()) {
        let m = &folder.manifest;
        let text = |key: &str| m[key].as_str().unwrap_or("").to_owned();
        let command: Vec<&str> = m["command_line"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|a| a.as_str())
            .collect();
        let lines = [
            ("folder", folder.path.display().to_string()),
            ("command", command.join(" ")),
            ("workload", text("workload")),
            (
                "cluster",
                format!("{} nodes, {} GPUs", m["nodes"], m["gpus"]),
            ),
            ("seed", m["seed"].to_string()),
            ("version", format!("blox {}", text("blox_version"))),
        ];
        // Writing to a string cannot fail.
        html.push_str("<dl>\n");
        for (what, line) in lines {
            let _ = writeln!(html, "<dt>{what}</dt><dd>{}</dd>", Text(&line));
        }
        html.push_str("</dl>\n");
        if text("status") == "interrupted" {
            html.push_str("<p class=\"notice\">Interrupted: these are results so far.</p>\n");
        }
        for notice in m["notices"].as_array().into_iter().flatten() {
            let notice = notice.as_str().unwrap_or("");
            let _ = writeln!(html, "<p class=\"notice\">{}</p>", Text(notice));
        }
    }
    html
}

/// The table of figures, a row a scheduler.
fn summary(all: &[Contestant<'_>]) -> String {
    let mut html = String::from("<table id=\"summary\"><thead><tr>");
    let heading = |html: &mut String, name: &str, formula: &str, kind: &str| {
        let (name, formula) = (Text(name), Text(formula));
        let _ = write!(
            html,
            "<th class=\"{kind}\"><button title=\"{formula}\">{name}</button></th>"
        );
    };
    for column in COLUMNS {
        let kind = if column.name == "scheduler" {
            "text"
        } else {
            ""
        };
        heading(&mut html, column.heading, column.formula, kind);
        if column.name == "avg_jct_s" {
            let formula = "mean JCT over that of the first scheduler";
            heading(&mut html, "relative", formula, "");
        }
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    let average = |c: &Contestant<'_>| c.run.summary["avg_jct_s"].as_f64().unwrap_or(0.0);
    let base = all.first().map_or(0.0, average);
    for c in all {
        html.push_str("<tr>");
        for column in COLUMNS {
            if column.name == "scheduler" {
                let name = Text(&c.name);
                let _ = write!(html, "<td class=\"text\" data-v=\"{name}\">{name}</td>");
                continue;
            }
            let value = c.run.summary[column.name].as_f64();
            let shown = value.map_or(String::new(), |v| match column.name {
                "utilisation" => format!("{:.1} %", 100.0 * v),
                name if name.ends_with("_s") => grouped(v, 1),
                _ => grouped(v, 0),
            });
            let exact = value.map_or(String::new(), |v| v.to_string());
            let _ = write!(html, "<td data-v=\"{exact}\">{shown}</td>");
            if column.name == "avg_jct_s" {
                let ratio = if base > 0.0 { average(c) / base } else { 0.0 };
                let _ = write!(html, "<td data-v=\"{ratio}\">{ratio:.3}</td>");
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table>");
    html
}

/// With a comma between thousands.
fn grouped(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (i, d) in whole.chars().enumerate() {
        let behind = whole.len() - i;
        if i > 0 && behind.is_multiple_of(3) && !out.ends_with('-') {
            out.push(',');
        }
        out.push(d);
    }
    out + rest
}

fn figures(pictures: &[Picture]) -> String {
    let mut html = String::new();
    for p in pictures {
        // Panels need all the width that there is.
        let wide = if p.svg.contains("<use ") { " wide" } else { "" };
        let _ = writeln!(html, "<div class=\"card{wide}\">{}</div>", p.svg);
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(1_234_567.84, 1), "1,234,567.8");
        assert_eq!(grouped(-123_456.0, 0), "-123,456");
        assert_eq!(grouped(12.0, 0), "12");
    }
}
