//! Values of options that are checked when they are parsed.

use blox_core::suggest::{nearest, one_of};
use blox_experiment::value::Expected;
use blox_traces::formats::csv::{input_column_names, is_input_column};
use std::str::FromStr;

/// Formats of result files beside CSV.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FileFormats {
    pub parquet: bool,
    pub chrome: bool,
}

impl FromStr for FileFormats {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let mut formats = FileFormats::default();
        for name in text.split(',') {
            match name.trim() {
                "csv" => {}
                "parquet" if cfg!(feature = "parquet") => formats.parquet = true,
                "parquet" => {
                    let text = "a build with the feature `parquet` for Parquet, or csv or chrome";
                    return Err(Expected(text));
                }
                "chrome" => formats.chrome = true,
                _ => return Err(Expected("csv, parquet or chrome, joined by commas")),
            }
        }
        Ok(formats)
    }
}

/// A column by whose values jobs are grouped.
#[derive(Clone, Debug)]
pub(super) struct By(pub String);

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == GPUS || text == DEADLINE || is_input_column(text) {
            return Ok(By(text.to_owned()));
        }
        let own = [GPUS, DEADLINE].into_iter();
        let known: Vec<&str> = own.chain(input_column_names()).collect();
        let hint = match nearest(text, known.iter().copied()) {
            Some(_) => String::new(),
            None => format!(
                "; another column of a trace needs the name `attributes.{text}`, there and here"
            ),
        };
        let list = one_of(text, known);
        Err(format!("expected attributes.NAME or {list}{hint}"))
    }
}

/// The column of first deadlines.
pub(super) const DEADLINE: &str = "deadline_s";

/// The column of requested GPUs.
pub(super) const GPUS: &str = "gpus";

/// Returns a parser of numbers for an option, with what it expects.
pub(super) fn number(
    expected: &'static str,
    fits: fn(f64) -> bool,
) -> impl Fn(&str) -> Result<f64, Expected> + Clone {
    move |text| {
        let value: Option<f64> = text.parse().ok();
        let value = value.filter(|v| v.is_finite() && fits(*v));
        value.ok_or(Expected(expected))
    }
}

/// A parser of finite numbers that are not negative.
pub(super) fn not_negative(text: &str) -> Result<f64, Expected> {
    number("a finite number that is not negative", |v| v >= 0.0)(text)
}

/// A parser of finite numbers above 0.
pub(super) fn above_zero(text: &str) -> Result<f64, Expected> {
    number("a finite number above 0", |v| v > 0.0)(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_groups_is_known_or_explained() {
        for column in ["gpus", "deadline_s", "user", "attributes.team"] {
            assert_eq!(column.parse::<By>().unwrap().0, column);
        }
        let team = "team".parse::<By>().unwrap_err();
        let hint = "; another column of a trace needs the name `attributes.team`, there and here";
        assert!(team.ends_with(hint), "{team}");
        let slip = "usr".parse::<By>().unwrap_err();
        assert!(slip.ends_with("; did you mean `user`?"), "{slip}");
    }
}
