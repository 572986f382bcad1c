//! Lists of values in one text.

use crate::value::Expected;
use serde_json::Value;
use std::str::FromStr;

/// Largest number of values; a larger number is most likely an error.
const MOST: usize = 100_000;

/// Settings of a simulation that have their own list options.
pub(crate) const LISTED: [&str; 2] = ["seed", "load"];

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
pub(crate) struct Loads(pub Vec<f64>);

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
pub(crate) struct Seeds(pub Vec<u64>);

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
pub(crate) struct Axis {
    pub key: String,
    pub values: Vec<Value>,
}

impl FromStr for Axis {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let (key, values) = text.split_once('=').ok_or(Expected("OPTION=VALUE|VALUE"))?;
        let value = |text: &str| {
            let text = text.trim();
            let read: Option<Value> = serde_json::from_str(text).ok();
            let read = read.filter(|v| v.is_number() || v.is_boolean());
            read.unwrap_or_else(|| Value::from(text))
        };
        Ok(Axis {
            key: key.trim().trim_start_matches("--").to_owned(),
            values: values.split('|').map(value).collect(),
        })
    }
}

/// Expands `NAME{A=1|2,B=x|y}` to all combinations of parameters; the last parameter changes
/// fastest.
pub(super) fn alternatives(text: &str) -> Vec<String> {
    let Some((name, inside)) = text
        .trim()
        .strip_suffix('}')
        .and_then(|t| t.split_once('{'))
    else {
        return vec![text.to_owned()];
    };
    let mut list = vec![String::new()];
    for param in inside.split(',').filter(|p| !p.trim().is_empty()) {
        let (key, values) = param.split_once('=').unwrap_or((param, ""));
        let mut longer = Vec::new();
        for before in &list {
            for value in values.split('|') {
                let comma = if before.is_empty() { "" } else { "," };
                let equals = if param.contains('=') { "=" } else { "" };
                longer.push(format!("{before}{comma}{key}{equals}{value}"));
            }
        }
        list = longer;
    }
    list.into_iter()
        .map(|inside| format!("{name}{{{inside}}}"))
        .collect()
}

fn finite(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|v: &f64| v.is_finite())
}

fn round(v: f64) -> f64 {
    (v * 1e9).round() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(alternatives("las{x}"), ["las{x}"]);
        assert_eq!(alternatives("las{x=1"), ["las{x=1"]);
    }
}
