//! Values of options that are checked when they are parsed.

use blox_experiment::value::Expected;
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

/// Longest time of an option in seconds, about 317 years. Printed times stay short.
const LONGEST: f64 = 1e10;

/// A parser of times in seconds.
pub(super) fn seconds(text: &str) -> Result<f64, Expected> {
    number("0 to 10000000000 seconds", |v| (0.0..=LONGEST).contains(&v))(text)
}

/// A parser of times in seconds above 0.
pub(super) fn seconds_above_zero(text: &str) -> Result<f64, Expected> {
    number("a time above 0, at most 10000000000 seconds", |v| {
        v > 0.0 && v <= LONGEST
    })(text)
}

/// A parser of finite numbers above 0.
pub(super) fn above_zero(text: &str) -> Result<f64, Expected> {
    number("a finite number above 0", |v| v > 0.0)(text)
}
