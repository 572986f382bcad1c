//! The writer of tables: for terminals and other readers, Markdown, LaTeX and CSV.
//!
//! ```
//! use blox_results::grid::{Form, Grid, decimal};
//!
//! let runs = [("fifo", 9000.25), ("las", 1234.5)];
//! let grid = Grid::of(
//!     runs,
//!     1,
//!     &[("scheduler", &|(name, _)| (*name).to_owned()), ("avg\nJCT s", &|(_, s)| decimal(*s, 1))],
//! );
//! let text = "| scheduler | avg JCT s |\n| --- | ---: |\n| fifo | 9,000.2 |\n| las | 1,234.5 |\n";
//! assert_eq!(grid.text(Form::Markdown), text);
//! ```

use blox_table::{CsvTable, TableSink};
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Write;

/// The most columns of a table on a terminal.
pub const WIDTH: u16 = 100;
/// Spaces between two columns.
const GAP: u16 = 2;

/// Format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For a terminal with this number of columns.
    Wrapped(u16),
    /// One line for each row, for other readers.
    Lines,
    /// A table in GitHub's Markdown.
    Markdown,
    /// A `tabular` of LaTeX, which needs no package.
    Latex,
}

/// A heading, and the text of an item.
pub type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

/// Headings, which may contain line breaks, and rows.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Headings.
    pub head: Vec<String>,
    /// The text of each cell, by row.
    pub rows: Vec<Vec<String>>,
    /// Number of leading columns that hold text instead of numbers.
    pub words: usize,
}

impl Grid {
    /// Creates a table with a row for each item, from headings and the text of an item in each
    /// column. A column without a heading is left out.
    pub fn of<T>(
        items: impl IntoIterator<Item = T>,
        words: usize,
        columns: &[Column<'_, T>],
    ) -> Self {
        let shown = || columns.iter().filter(|(head, _)| !head.is_empty());
        let row = |item: T| shown().map(|(_, text)| text(&item)).collect();
        Grid {
            head: shown().map(|(head, _)| (*head).to_owned()).collect(),
            rows: items.into_iter().map(row).collect(),
            words,
        }
    }

    /// Formats the table.
    pub fn text(&self, form: Form) -> String {
        match form {
            Form::Wrapped(width) => self.fitted(width),
            Form::Lines => self.spaced(u16::MAX, GAP),
            Form::Markdown => self.markdown(),
            Form::Latex => self.latex(),
        }
    }

    /// Formats the table for a terminal. A table that is too wide gets smaller gaps, then wrapped
    /// names. If it is still too wide, its numbers stand in several tables below each other.
    fn fitted(&self, width: u16) -> String {
        let (natural, least) = self.widths();
        let columns = natural.len() as u16;
        let total =
            |widths: &[u16], gap: u16| widths.iter().sum::<u16>() + gap * columns.saturating_sub(1);
        let gap = if total(&natural, GAP) > width { 1 } else { GAP };
        if total(&least, gap) <= width || self.words >= self.head.len() {
            return self.spaced(width, gap);
        }
        let names: u16 = least.iter().take(self.words).map(|w| w + GAP).sum();
        let mut blocks: Vec<(u16, Vec<usize>)> = Vec::new();
        for (i, needed) in least.iter().enumerate().skip(self.words) {
            match blocks.last_mut() {
                Some((used, list)) if *used + GAP + needed <= width => {
                    *used += GAP + needed;
                    list.push(i);
                }
                _ => blocks.push((names + needed, vec![i])),
            }
        }
        let some = |row: &[String], list: &[usize]| {
            let numbers = list.iter().filter_map(|i| row.get(*i));
            let names = row.iter().take(self.words);
            names.chain(numbers).cloned().collect::<Vec<_>>()
        };
        let tables = blocks.iter().map(|(used, list)| {
            let grid = Grid {
                head: some(&self.head, list),
                rows: self.rows.iter().map(|row| some(row, list)).collect(),
                words: self.words,
            };
            grid.spaced(width.max(*used), GAP)
        });
        tables.collect::<Vec<_>>().join("\n")
    }

    /// Returns the width of each column, and the least width if names are wrapped.
    fn widths(&self) -> (Vec<u16>, Vec<u16>) {
        let longest = |text: &String| text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
        let of = |i: usize, head: &String| {
            let cells = self.rows.iter().filter_map(|row| row.get(i)).map(longest);
            let natural = cells.chain([longest(head)]).max().unwrap_or(0);
            let least = if i < self.words {
                longest(head)
            } else {
                natural
            };
            (natural.min(9999) as u16, least.min(9999) as u16)
        };
        let columns = self.head.iter().enumerate();
        columns.map(|(i, head)| of(i, head)).unzip()
    }

    /// Formats the table at most this wide if its names can be wrapped, with gaps between columns.
    fn spaced(&self, width: u16, gap: u16) -> String {
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
        table.set_header(&self.head);
        for row in &self.rows {
            table.add_row(row.iter().map(|text| Cell::new(shown(text))));
        }
        let columns = table.column_count();
        for i in 0..columns {
            let heading = self.head[i].lines().map(str::len).max().unwrap_or(0);
            if let Some(column) = table.column_mut(i) {
                let padding = if i + 1 == columns { 0 } else { gap };
                column.set_padding((0, padding));
                if i < self.words {
                    // Long names may wrap; the heading may not.
                    let least = heading as u16 + padding;
                    column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
                } else {
                    column.set_constraint(ColumnConstraint::ContentWidth);
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        let mut text = String::new();
        for line in table.lines() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    fn latex(&self) -> String {
        let columns = |i| if i < self.words { 'l' } else { 'r' };
        let columns: String = (0..self.head.len()).map(columns).collect();
        let row = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| latex(cell)).collect();
            format!("{} \\\\\n", cells.join(" & "))
        };
        let rows: String = self.rows.iter().map(|cells| row(cells)).collect();
        format!(
            "\\begin{{tabular}}{{{columns}}}\n\\hline\n{}\\hline\n{rows}\\hline\n\\end{{tabular}}\n",
            row(&self.head)
        )
    }

    fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let plain = |t: &String| in_one_line(t).replace('|', "\\|");
        let mut text = line(&mut self.head.iter().map(plain));
        let rule = |i| if i < self.words { "---" } else { "---:" };
        text.push_str(&line(&mut (0..self.head.len()).map(|i| rule(i).to_owned())));
        for row in &self.rows {
            text.push_str(&line(&mut row.iter().map(plain)));
        }
        text
    }
}

/// Joins the lines of a heading. A heading that is broken inside a word has a hyphen at the break.
fn in_one_line(text: &str) -> String {
    text.replace("-\n", "").replace('\n', " ")
}

/// Escapes a cell for LaTeX.
fn latex(cell: &str) -> String {
    let mut text = String::new();
    let line = in_one_line(cell);
    for (i, c) in line.char_indices() {
        let number = line[i + c.len_utf8()..].starts_with(|next: char| next.is_ascii_digit());
        // A cell is a number, or an interval.
        let begins = i == 0 || line[..i].ends_with("..");
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => text.extend(['\\', c]),
            '\\' => text.push_str("\\textbackslash{}"),
            '~' => text.push_str("\\textasciitilde{}"),
            '^' => text.push_str("\\textasciicircum{}"),
            '<' => text.push_str("\\textless{}"),
            '>' => text.push_str("\\textgreater{}"),
            '|' => text.push_str("\\textbar{}"),
            '±' => text.push_str("$\\pm$"),
            'ρ' => text.push_str("$\\rho$"),
            '×' => text.push_str("$\\times$"),
            // A minus sign instead of a hyphen.
            '-' if begins && number => text.push_str("$-$"),
            c => text.push(c),
        }
    }
    text
}

/// Formats rows of values as CSV. Numbers read back to the same bits; missing values are empty.
pub fn csv(head: &[String], rows: &[Map<String, Value>]) -> String {
    let mut text = Vec::new();
    let mut table = CsvTable::new(&mut text);
    let names: Vec<&str> = head.iter().map(String::as_str).collect();
    table.begin(&names);
    for row in rows {
        for key in head {
            match row.get(key) {
                None | Some(Value::Null) => table.text(None),
                Some(Value::String(text)) => table.text(Some(text)),
                Some(Value::Number(n)) if n.is_f64() => table.number(n.as_f64()),
                Some(other) => table.text(Some(&other.to_string())),
            }
        }
        // Writing to memory cannot fail.
        let _ = table.end_row();
    }
    let _ = table.finish();
    drop(table);
    String::from_utf8_lossy(&text).into_owned()
}

/// Formats a number with a number of decimal places and a comma between thousands; NaN becomes a
/// dash.
pub fn decimal(value: f64, places: usize) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    blox_plot::grouped(value, places)
}

/// Formats an interval, whose ends `end` formats; a missing one becomes a dash.
pub fn range(interval: Option<[f64; 2]>, end: impl Fn(f64) -> String) -> String {
    let text = interval.map(|[low, high]| format!("{}..{}", end(low), end(high)));
    text.unwrap_or_else(|| "-".to_owned())
}

/// Formats a fraction in percent; NaN becomes a dash.
pub fn percent(fraction: f64) -> String {
    match fraction.is_nan() {
        true => "-".to_owned(),
        false => format!("{:.1} %", 100.0 * fraction),
    }
}

/// Formats a value as a multiple of another.
pub fn ratio(value: f64, base: f64) -> String {
    if base > 0.0 && !value.is_nan() {
        format!("{:.3}", value / base)
    } else {
        "-".to_owned()
    }
}

/// Description of a table: lines with labels.
#[derive(Clone, Debug, Default)]
pub struct About(pub Vec<(String, String)>);

impl About {
    /// Adds a line.
    pub fn add(&mut self, label: &str, line: impl Into<String>) {
        self.0.push((label.to_owned(), line.into()));
    }

    /// Formats the lines; in LaTeX as comments.
    pub fn text(&self, form: Form) -> String {
        let line = |(label, line): &(String, String)| match form {
            Form::Markdown => format!("- {label}: {line}\n"),
            Form::Latex => format!("% {label}: {line}\n"),
            _ => format!("{label:<10} {line}\n"),
        };
        self.0.iter().map(line).collect()
    }
}

/// Appends a list of parts in brackets. An empty list adds nothing.
pub fn in_brackets(text: impl Into<String>, parts: &[String]) -> String {
    let text = text.into();
    match parts.is_empty() {
        true => text,
        false => format!("{text} ({})", parts.join(", ")),
    }
}

/// Returns the text of a cell. A wide table shortens a longer one, which no terminal shows.
fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Largest number of characters of a cell.
const LONGEST: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{number_of, whole};

    #[test]
    fn numbers_have_separators() {
        assert_eq!(whole(0), "0");
        assert_eq!(whole(999), "999");
        assert_eq!(whole(1_000), "1,000");
        assert_eq!(whole(1_234_567), "1,234,567");
        assert_eq!(decimal(188_995.176_8, 1), "188,995.2");
        assert_eq!(decimal(-1_234.5, 0), "-1,234");
        assert_eq!(decimal(-0.04, 1), "0.0");
        assert_eq!(number_of(1_u64, "node"), "1 node");
        assert_eq!(number_of(2_000_u64, "node"), "2,000 nodes");
        assert_eq!(ratio(3.0, 0.0), "-");
        assert_eq!(ratio(f64::NAN, 3.0), "-");
        assert_eq!(decimal(f64::NAN, 1), "-");
    }

    #[test]
    fn long_names_are_shortened_in_text() {
        let grid = Grid {
            head: vec!["scheduler".into()],
            rows: vec![vec!["x".repeat(70_000)]],
            words: 1,
        };
        let text = grid.text(Form::Wrapped(100));
        assert_eq!(text.matches('x').count(), LONGEST);
        assert!(text.contains('…'));
    }

    #[test]
    fn a_grid_is_text_or_markdown() {
        let grid = Grid {
            head: vec!["scheduler".into(), "pre-\nempted".into()],
            rows: vec![vec!["a|b".into(), "7".into()]],
            words: 1,
        };
        assert_eq!(
            grid.text(Form::Wrapped(WIDTH)),
            "scheduler    pre-\n           empted\na|b             7\n"
        );
        assert_eq!(
            grid.text(Form::Markdown),
            "| scheduler | preempted |\n| --- | ---: |\n| a\\|b | 7 |\n"
        );
    }

    #[test]
    fn a_grid_of_latex_is_escaped() {
        let grid = Grid {
            head: vec!["scheduler".into(), "±\n95 %".into(), "pre-\nempted".into()],
            rows: vec![
                vec!["las{guard_h=500}".into(), "-7.5".into(), "-".into()],
                vec!["a-1".into(), "-1,478..-9".into(), "-2..3".into()],
            ],
            words: 1,
        };
        let text = "\\begin{tabular}{lrr}\n\\hline\n\
            scheduler & $\\pm$ 95 \\% & preempted \\\\\n\\hline\n\
            las\\{guard\\_h=500\\} & $-$7.5 & - \\\\\n\
            a-1 & $-$1,478..$-$9 & $-$2..3 \\\\\n\\hline\n\\end{tabular}\n";
        assert_eq!(grid.text(Form::Latex), text);
    }

    #[test]
    fn only_a_terminal_wraps_words() {
        let name = "a long name".repeat(20);
        let grid = Grid {
            head: vec!["scheduler".into(), "jobs".into()],
            rows: vec![vec![name.clone(), "7".into()]],
            words: 1,
        };
        let wrapped = grid.text(Form::Wrapped(WIDTH));
        assert!(wrapped.lines().all(|l| l.len() <= WIDTH.into()) && wrapped.lines().count() > 2);
        let row = format!("{name}     7");
        assert_eq!(grid.text(Form::Lines).lines().nth(1), Some(&*row));
    }

    #[test]
    fn a_narrow_terminal_splits_columns_between_tables() {
        let texts = |row: [&str; 4]| row.map(str::to_owned).to_vec();
        let grid = Grid {
            head: texts(["name", "one", "two", "three"]),
            rows: vec![texts(["long name", "1,111", "2,222", "3,333"])],
            words: 1,
        };
        for (width, expected) in [
            (
                40,
                "name         one    two  three\nlong name  1,111  2,222  3,333\n",
            ),
            (
                28,
                "name        one   two three\nlong name 1,111 2,222 3,333\n",
            ),
            (
                24,
                "name     one   two three\nlong   1,111 2,222 3,333\nname\n",
            ),
            (
                18,
                "name    one    two\nlong  1,111  2,222\nname\n\n\
                 name       three\nlong name  3,333\n",
            ),
            (
                4,
                "name    one\nlong  1,111\nname\n\nname    two\nlong  2,222\nname\n\n\
                 name  three\nlong  3,333\nname\n",
            ),
        ] {
            assert_eq!(grid.text(Form::Wrapped(width)), expected, "{width}");
        }
    }

    #[test]
    fn csv_keeps_every_bit_and_quotes_commas() {
        let row = serde_json::json!({ "a": 0.1, "b": 3.0, "c": "x,y", "d": null, "e": 7 });
        let head = ["a", "b", "c", "d", "e", "f"].map(str::to_owned);
        let text = csv(&head, &[row.as_object().unwrap().clone()]);
        assert_eq!(text, "a,b,c,d,e,f\n0.1,3,\"x,y\",,7,\n");
    }
}
