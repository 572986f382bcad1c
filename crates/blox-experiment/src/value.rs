//! Values of settings that are checked when they are parsed.

use blox_core::Time;
use blox_core::suggest::{nearest, one_of};
use blox_registry::{parameters_of, split_unquoted};
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
pub struct Expected(pub &'static str);

/// Returns a parser of values for an option, with what it expects.
pub fn parser<T: FromStr>(expected: &'static str) -> impl Fn(&str) -> Result<T, Expected> + Clone {
    move |text| text.parse().map_err(|_| Expected(expected))
}

/// A value with its text, by which it is compared and written.
#[derive(Clone, Debug)]
pub struct Written<T> {
    text: String,
    value: T,
}

impl<T> Written<T> {
    /// Returns the text.
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

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $expected:literal, $fits:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(try_from = "f64")]
        pub struct $name(pub f64);

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
}

/// A column by whose values jobs are grouped.
#[derive(Clone, Debug)]
pub struct By(pub String);

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
pub(crate) const DEADLINE: &str = "deadline_s";

/// The column of requested GPUs.
pub(crate) const GPUS: &str = "gpus";

/// Measured jobs: a range of job numbers or of times.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured(pub Measure);

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
pub struct Window(pub Time, pub Time);

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
pub struct Limit(pub Until);

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
pub fn parse_time(text: &str) -> Option<Time> {
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

/// Largest number of values; a larger number is most likely an error.
const MOST: usize = 100_000;

/// Parses numbers, separated by commas: `1,2,5`, `1..9` with both ends, `4..6:0.5` in steps.
/// Returns `None` for invalid text and for repeated numbers.
fn numbers(text: &str) -> Option<Vec<f64>> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let Some((from, rest)) = part.split_once("..") else {
            list.push(finite(part)?);
            continue;
        };
        let (to, step) = rest.split_once(':').unwrap_or((rest, "1"));
        let (from, to, step) = (finite(from)?, finite(to)?, finite(step)?);
        if !(from <= to && step > 0.0) || (to - from) / step > MOST as f64 {
            return None;
        }
        // With a tolerance, because steps such as 0.1 are not exact.
        let steps = ((to - from) / step + 1e-9).floor() as usize;
        // Rounded, so that three steps of 0.1 are 0.3.
        list.extend((0..=steps).map(|i| round(from + i as f64 * step)));
    }
    let mut sorted = list.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
    (!twice && list.len() <= MOST).then_some(list)
}

/// Loads of a sweep.
#[derive(Clone, Debug)]
pub struct Loads(pub Vec<f64>);

impl FromStr for Loads {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        numbers(text).map(Loads).ok_or(Expected(
            "different numbers such as 2,4,8, 1..9 (from the smaller to the larger) or 4..8:0.5 (in steps above 0), at most 100,000",
        ))
    }
}

/// Seeds of a comparison or sweep, whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Seeds(pub Vec<u64>);

impl FromStr for Seeds {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let whole = |v: f64| (v >= 0.0 && v.fract() == 0.0 && v < 9e15).then_some(v as u64);
        let seeds = numbers(text).and_then(|list| list.into_iter().map(whole).collect());
        seeds.map(Seeds).ok_or(Expected(
            "different whole numbers such as 1,2,5 or 0..9 (from the smaller to the larger), at most 100,000",
        ))
    }
}

/// An option with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The key of the setting.
    pub key: String,
    /// Its values.
    pub values: Vec<Value>,
}

impl FromStr for Axis {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let (key, values) = text.split_once('=').ok_or(Expected("OPTION=VALUE|VALUE"))?;
        let value = |text: &str| {
            let text = unquoted(text.trim());
            let read: Option<Value> = serde_json::from_str(text).ok();
            let read = read.filter(|v| v.is_number() || v.is_boolean());
            read.unwrap_or_else(|| Value::from(text))
        };
        Ok(Axis {
            key: key.trim().trim_start_matches("--").to_owned(),
            values: split_unquoted(values, '|').into_iter().map(value).collect(),
        })
    }
}

/// Expands `NAME{A=1|2,B=x|y}` to all combinations of parameters; the last parameter changes
/// fastest.
pub(crate) fn alternatives(text: &str) -> Vec<String> {
    let Some((name, inside)) = text
        .trim()
        .strip_suffix('}')
        .and_then(|t| t.split_once('{'))
    else {
        return vec![text.to_owned()];
    };
    let Some(params) = parameters_of(inside).filter(|params| !params.is_empty()) else {
        return vec![text.to_owned()];
    };
    let mut list = vec![format!("{name}{{")];
    for (i, (key, values)) in params.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let longer = list.iter().flat_map(|before| {
            let values = split_unquoted(values, '|').into_iter();
            values.map(move |value| format!("{before}{comma}{key}={value}"))
        });
        list = longer.collect();
    }
    list.into_iter().map(|text| text + "}").collect()
}

/// Returns a text without the quotes around it.
fn unquoted(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let inside = ['\'', '"']
        .into_iter()
        .find_map(|q| inside(q).filter(|text| !text.contains(q)));
    inside.unwrap_or(text)
}

fn finite(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|v: &f64| v.is_finite())
}

fn round(v: f64) -> f64 {
    (v * 1e9).round() / 1e9
}

/// Returns the help of an option that names a workload format.
#[cfg(feature = "clap")]
pub fn format_help() -> String {
    let formats = blox_traces::Format::list();
    format!(
        "Its format [default: detected from the file; synergy and gavel must be given]\n\nOne of {formats}."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn numbers_are_lists_ranges_and_steps() {
        assert_eq!(numbers("4"), Some(vec![4.0]));
        assert_eq!(numbers("1, 2.5,4..6"), Some(vec![1.0, 2.5, 4.0, 5.0, 6.0]));
        assert_eq!(numbers("0.1..0.4:0.1"), Some(vec![0.1, 0.2, 0.3, 0.4]));
        assert_eq!(numbers("1..2.9"), Some(vec![1.0, 2.0]));
        for text in [
            "", "1,", "a", "3..1", "1..2:0", "1..2:-1", "1,1", "1..3,2", "0..1e9", "nan", "inf..2",
        ] {
            assert_eq!(numbers(text), None, "{text}");
        }
        assert_eq!("0..2,7".parse(), Ok(Seeds(vec![0, 1, 2, 7])));
        assert!("0.5".parse::<Seeds>().is_err());
        assert!("-1".parse::<Seeds>().is_err());
    }

    #[test]
    fn quoted_values_of_an_axis_stay_whole() {
        let axis: Axis = "durations='file:a|b.txt'|fixed:3|4".parse().unwrap();
        assert_eq!(
            axis.values,
            ["file:a|b.txt".into(), "fixed:3".into(), Value::from(4)]
        );
    }

    #[test]
    fn parameters_have_alternatives() {
        assert_eq!(alternatives("las"), ["las"]);
        assert_eq!(alternatives("las{guard_h=5}"), ["las{guard_h=5}"]);
        assert_eq!(
            alternatives("las{guard_h=5|6,gpu_time=true|false}"),
            [
                "las{guard_h=5,gpu_time=true}",
                "las{guard_h=5,gpu_time=false}",
                "las{guard_h=6,gpu_time=true}",
                "las{guard_h=6,gpu_time=false}",
            ]
        );
        // The parser of names reports the error.
        assert_eq!(
            alternatives("order{by=where(user == 'a|b, c', 0, 1), age|age,sigma=1|2}"),
            [
                "order{by=where(user == 'a|b, c', 0, 1), age,sigma=1}",
                "order{by=where(user == 'a|b, c', 0, 1), age,sigma=2}",
                "order{by=age,sigma=1}",
                "order{by=age,sigma=2}",
            ]
        );
        assert_eq!(alternatives("las{a=1,}"), ["las{a=1,}"]);
        assert_eq!(alternatives("las{}"), ["las{}"]);
        assert_eq!(alternatives("las{x}"), ["las{x}"]);
        assert_eq!(alternatives("las{x=1"), ["las{x=1"]);
    }

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
