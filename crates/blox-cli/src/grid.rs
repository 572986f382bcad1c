//! Tables of text for terminals, Markdown and CSV.

use super::Failure;
pub(crate) use blox_results::{number_of, whole};
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use serde_json::{Map, Value};
use std::fmt::Write;

const WIDTH: u16 = 100;

/// Format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// For a terminal: at most 100 columns wide if the text can be wrapped.
    Wrapped,
    /// One line for each row, for other readers.
    Lines,
    /// A table in GitHub's Markdown.
    Markdown,
}

/// Headings, which may contain line breaks, and rows.
pub(super) struct Grid {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Number of leading columns that hold text instead of numbers.
    pub words: usize,
}

impl Grid {
    pub fn text(&self, form: Form) -> String {
        let width = match form {
            Form::Wrapped => WIDTH,
            Form::Lines => u16::MAX,
            Form::Markdown => return self.markdown(),
        };
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
        table.set_header(&self.head);
        for row in &self.rows {
            table.add_row(row.iter().map(Cell::new));
        }
        let columns = table.column_count();
        for i in 0..columns {
            let heading = self.head[i].lines().map(str::len).max().unwrap_or(0);
            if let Some(column) = table.column_mut(i) {
                let padding = if i + 1 == columns { 0 } else { 2 };
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

    fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.collect();
            format!("| {} |\n", cells.join(" | "))
        };
        // A heading that is broken inside a word has a hyphen at the break.
        let plain = |t: &String| t.replace("-\n", "").replace('\n', " ").replace('|', "\\|");
        let mut text = line(&mut self.head.iter().map(plain));
        let rule = |i| if i < self.words { "---" } else { "---:" };
        text.push_str(&line(&mut (0..self.head.len()).map(|i| rule(i).to_owned())));
        for row in &self.rows {
            text.push_str(&line(&mut row.iter().map(plain)));
        }
        text
    }
}

/// Formats rows of values as CSV. Numbers read back to the same bits; missing values are empty.
pub(super) fn csv(head: &[String], rows: &[Map<String, Value>]) -> Result<String, Failure> {
    let mut out = csv::Writer::from_writer(Vec::new());
    let wrong = |e: &dyn std::fmt::Display| Failure::new(format!("no CSV can be made: {e}"));
    out.write_record(head).map_err(|e| wrong(&e))?;
    for row in rows {
        let fields = head.iter().map(|key| field(row.get(key)));
        out.write_record(fields).map_err(|e| wrong(&e))?;
    }
    let bytes = out.into_inner().map_err(|e| wrong(&e))?;
    String::from_utf8(bytes).map_err(|e| wrong(&e))
}

fn field(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(n)) => match n.as_f64() {
            // Whole numbers are written without a decimal point.
            Some(v) if n.is_f64() && v.fract() == 0.0 && v.abs() < 9e15 => (v as i64).to_string(),
            _ => n.to_string(),
        },
        Some(other) => other.to_string(),
    }
}

/// Formats a number with a number of decimal places and a comma between thousands; NaN becomes a
/// dash.
pub(super) fn decimal(value: f64, places: usize) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    blox_plot::grouped(value, places)
}

/// Formats a value as a multiple of another.
pub(super) fn ratio(value: f64, base: f64) -> String {
    if base > 0.0 && !value.is_nan() {
        format!("{:.3}", value / base)
    } else {
        "-".to_owned()
    }
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
        assert_eq!(decimal(-0.04, 1), "0.0");
        assert_eq!(number_of(1_u64, "node"), "1 node");
        assert_eq!(number_of(2_000_u64, "node"), "2,000 nodes");
        assert_eq!(ratio(3.0, 0.0), "-");
        assert_eq!(ratio(f64::NAN, 3.0), "-");
        assert_eq!(decimal(f64::NAN, 1), "-");
    }

    #[test]
    fn a_grid_is_text_or_markdown() {
        let grid = Grid {
            head: vec!["scheduler".into(), "pre-\nempted".into()],
            rows: vec![vec!["a|b".into(), "7".into()]],
            words: 1,
        };
        assert_eq!(
            grid.text(Form::Wrapped),
            "scheduler    pre-\n           empted\na|b             7\n"
        );
        assert_eq!(
            grid.text(Form::Markdown),
            "| scheduler | preempted |\n| --- | ---: |\n| a\\|b | 7 |\n"
        );
    }

    #[test]
    fn only_a_terminal_wraps_words() {
        let name = "a long name".repeat(20);
        let grid = Grid {
            head: vec!["scheduler".into(), "jobs".into()],
            rows: vec![vec![name.clone(), "7".into()]],
            words: 1,
        };
        let wrapped = grid.text(Form::Wrapped);
        assert!(wrapped.lines().all(|l| l.len() <= WIDTH.into()) && wrapped.lines().count() > 2);
        let row = format!("{name}     7");
        assert_eq!(grid.text(Form::Lines).lines().nth(1), Some(&*row));
    }

    #[test]
    fn csv_keeps_every_bit_and_quotes_commas() {
        let row = serde_json::json!({ "a": 0.1, "b": 3.0, "c": "x,y", "d": null, "e": 7 });
        let head = ["a", "b", "c", "d", "e", "f"].map(str::to_owned);
        let text = csv(&head, &[row.as_object().unwrap().clone()]).unwrap();
        assert_eq!(text, "a,b,c,d,e,f\n0.1,3,\"x,y\",,7,\n");
    }
}
