//! Values of options that are checked when they are parsed, on the command line and in files.

use blox_core::suggest::{nearest, one_of};
use blox_core::{Seconds, Time};
use blox_sim::overheads::GroupOverheads;
use blox_sim::{Measure, Until};
use blox_traces::formats::csv::{input_column_names, is_input_column};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt::{self, Display};
use std::ops::Deref;
use std::str::FromStr;

/// A wrong value. The message continues a sentence that names the option and the value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("expected {0}")]
pub(super) struct Expected(pub &'static str);

/// Returns a parser of values for an option, with what it expects.
pub(super) fn parser<T: FromStr>(
    expected: &'static str,
) -> impl Fn(&str) -> Result<T, Expected> + Clone {
    move |text| text.parse().map_err(|_| Expected(expected))
}

/// A value with its text, by which it is compared and written.
#[derive(Clone, Debug)]
pub(super) struct Written<T> {
    text: String,
    value: T,
}

impl<T> Written<T> {
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<T> Deref for Written<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: FromStr> FromStr for Written<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Written {
            value: text.parse()?,
            text: text.to_owned(),
        })
    }
}

impl<T> Display for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.text)
    }
}

/// Accepts `seeds = [1, 2]` for `seeds = "1,2"`, and `explain = 42` for `explain = "42"`.
impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(d)? {
            Value::String(text) => text,
            Value::Array(list) => {
                let list: Vec<String> = list.iter().map(Value::to_string).collect();
                list.join(",")
            }
            value => value.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

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

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $expected:literal, $fits:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(try_from = "f64")]
        pub(super) struct $name(pub f64);

        impl TryFrom<f64> for $name {
            type Error = Expected;

            fn try_from(value: f64) -> Result<Self, Expected> {
                let fits: fn(f64) -> bool = $fits;
                match value.is_finite() && fits(value) {
                    true => Ok($name(value)),
                    false => Err(Expected($expected)),
                }
            }
        }

        impl FromStr for $name {
            type Err = Expected;

            fn from_str(text: &str) -> Result<Self, Expected> {
                let value: Result<f64, _> = text.parse();
                value.map_err(|_| Expected($expected))?.try_into()
            }
        }
    )*};
}

numbers! {
    /// A finite number.
    Number: "a finite number", |_| true;
    NotNegative: "a finite number that is not negative", |v| v >= 0.0;
    AboveZero: "a finite number above 0", |v| v > 0.0;
    /// Jobs per hour. The workload checks the range, which the text repeats.
    Load: "a number of jobs an hour, from 1e-6 to 1e9", |_| true;
    /// Seconds that may be 0.
    Duration: "a number of seconds from 0 to 1e9", |v| (0.0..=1e9).contains(&v);
    /// Seconds of a round. Shorter ones would decide for hours about a day of jobs.
    RoundLength: "a number of seconds from 0.001 to 1e9", |v| (0.001..=1e9).contains(&v);
    /// Seconds above 0.
    Period: "a number of seconds above 0, at most 1e9", |v| v > 0.0 && v <= 1e9;
    /// Hours above 0.
    Hours: "a number of hours above 0, at most 1e9", |v| v > 0.0 && v <= 1e9;
    /// Mean hours between failures. With shorter ones, no launch lasts.
    MeanTime: "a number of hours from 0.0001 to 1e9", |v| (0.0001..=1e9).contains(&v);
    /// Probability below 1.
    Risk: "a probability, at least 0 and below 1", |v| (0.0..1.0).contains(&v);
    Probability: "a probability, from 0 to 1", |v| (0.0..=1.0).contains(&v);
    /// Fraction above 0 and below 1.
    TestShare: "a part of at least 0 and below 1", |v| (0.0..1.0).contains(&v);
}

/// Measured jobs: a range of job numbers or of times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured(pub Measure);

impl FromStr for Measured {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let numbers = || {
            let (a, b) = ends(text)?;
            let (a, b) = (a.parse().ok()?, b.parse().ok()?);
            (a <= b).then_some(Measure::Ids(a, b))
        };
        let times = || text.parse().map(|Window(a, b)| Measure::Submitted(a, b));
        numbers().or_else(|| times().ok()).map(Measured).ok_or(Expected(
            "A..B with A <= B: numbers of jobs such as 3000..4000, or times such as 10h..2d (s, m, h, d)",
        ))
    }
}

/// A range of times with units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window(pub Time, pub Time);

impl FromStr for Window {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        // A number without a unit is a job number.
        let time = |t: &str| parse_time(t).filter(|_| t.ends_with(char::is_alphabetic));
        let both = ends(text).and_then(|(a, b)| Some((time(a)?, time(b)?)));
        let both = both.filter(|(a, b)| a <= b).map(|(a, b)| Window(a, b));
        both.ok_or(Expected(
            "A..B with A <= B: times such as 10h..2d (s, m, h, d)",
        ))
    }
}

/// The latest end of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limit(pub Until);

impl FromStr for Limit {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let jobs = || {
            let number = text.strip_suffix("jobs")?.trim_end().parse().ok()?;
            (number > 0).then_some(Until::Completed(number))
        };
        let time = || parse_time(text).filter(|t| *t > Time::ZERO);
        let limit = match text {
            "finished" => Some(Until::Finished),
            _ => jobs().or_else(|| time().map(Until::Time)),
        };
        limit.map(Limit).ok_or(Expected(
            "a time above 0 such as 2000000 or 30d (s, m, h, d), a number of completed jobs such as 5000jobs, or finished",
        ))
    }
}

fn ends(text: &str) -> Option<(&str, &str)> {
    let (a, b) = text.split_once("..")?;
    Some((a.trim(), b.trim()))
}

/// Parses a time in seconds, or with a unit: `90m`, `10h`, `2d`.
pub(super) fn parse_time(text: &str) -> Option<Time> {
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0), ('d', 86_400.0)];
    let mut found = units
        .iter()
        .filter_map(|(unit, s)| Some((text.strip_suffix(*unit)?, *s)));
    let (number, unit) = found.next().unwrap_or((text, 1.0));
    let value: f64 = number.parse().ok()?;
    (value >= 0.0)
        .then(|| Time::try_new(value * unit))
        .flatten()
}

/// Overheads as `SWITCH,DOUBLING` in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group(pub GroupOverheads);

impl FromStr for Group {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let seconds = |text: &str| text.trim().parse().ok().map(|Duration(s)| Seconds::new(s));
        let both = text.split_once(',');
        let both = both.and_then(|(a, b)| Some(GroupOverheads::new(seconds(a)?, seconds(b)?)));
        both.map(Group)
            .ok_or(Expected("two numbers of seconds, at least 0, as 2,2"))
    }
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

    #[test]
    fn windows_are_numbers_or_times() {
        let t = Time::new;
        let parsed = |text: &str| text.parse().ok().map(|Measured(measure)| measure);
        assert_eq!(parsed("3000..4000"), Some(Measure::Ids(3000, 4000)));
        assert_eq!(
            parsed("10h..2d"),
            Some(Measure::Submitted(t(36_000.0), t(172_800.0)))
        );
        assert_eq!(
            parsed("0.5m..90s"),
            Some(Measure::Submitted(t(30.0), t(90.0)))
        );
        for text in [
            "", "5", "5..3", "1h..2", "2..1h", "-1..4", "1x..2x", "..", "2d..1d", "é..é",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn limits_are_times_or_numbers_of_jobs() {
        let parsed = |text: &str| text.parse().ok().map(|Limit(until)| until);
        let seconds = |s| Some(Until::Time(Time::new(s)));
        assert_eq!(parsed("30d"), seconds(2_592_000.0));
        assert_eq!(parsed("2000000"), seconds(2e6));
        assert_eq!(parsed("5000jobs"), Some(Until::Completed(5000)));
        assert_eq!(parsed("finished"), Some(Until::Finished));
        for text in [
            "", "0", "-1d", "0jobs", "jobs", "1.5jobs", "5 weeks", "never",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
