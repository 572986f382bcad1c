//! Typed columns of a table: structs of the columns of a row, and the values of their cells.

use super::moment::parse_date;
use blox_core::{GpuCount, Seconds, Time};
use serde::de::value::{Error, SeqDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// A value that a cell can have.
pub(crate) trait Value: Sized {
    /// Parses a text. The error is what was expected.
    fn parse(text: &str) -> Result<Self, &'static str>;
}

/// A date, in seconds since 1970.
pub(crate) struct Date(pub f64);

/// A number of seconds since any origin.
pub(crate) struct Moment(pub f64);

/// Defines how values are parsed: the type, what is expected, and a function to an `Option`.
macro_rules! values {
    ($($type:ty: $expected:literal, $parse:expr;)*) => {$(
        impl $crate::cell::Value for $type {
            fn parse(text: &str) -> Result<Self, &'static str> {
                let parse: fn(&str) -> Option<Self> = $parse;
                parse(text).ok_or($expected)
            }
        }
    )*};
}
pub(crate) use values;

values! {
    f64: "a number of at least 0", |t| number(t, |x| x >= 0.0);
    Date: "a date such as 2017-10-09 07:01:55", |t| parse_date(t).map(Date);
    Moment: "a number of seconds", |t| number(t, |_| true).map(Moment);
}

/// A length of time. Only `--map` reads times of a clock.
impl Value for Seconds {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let is_digits = |part: &str| part.chars().all(|c| c.is_ascii_digit() || c == '.');
        let parts: Vec<&str> = text.trim().split(':').collect();
        number(text, |x| x >= 0.0).map(Seconds::new).ok_or(match &parts[..] {
            [hours @ .., minutes, seconds] if hours.len() < 2 && is_digits(minutes) && is_digits(seconds) => {
                "a number of seconds, at least 0; --map reads a clock, as in duration=COLUMN:clock"
            }
            [text] if is_grouped(text) => {
                "a number of seconds, at least 0, without a separator of thousands"
            }
            _ => "a number of seconds, at least 0",
        })
    }
}

/// Returns whether commas separate the thousands of a number.
fn is_grouped(text: &str) -> bool {
    let (whole, _) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.split(',').skip(1).peekable();
    groups.peek().is_some()
        && groups.all(|group| group.len() == 3)
        && number(&text.replace(',', ""), |x| x >= 0.0).is_some()
}

/// A time. Only `--map` reads dates.
impl Value for Time {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let time = number(text, |x| x >= 0.0).map(Time::new);
        time.ok_or_else(|| match parse_date(text) {
            Some(_) => {
                "a number of seconds, at least 0; --map reads dates, as in submit=COLUMN:date"
            }
            None => "a number of seconds, at least 0",
        })
    }
}

/// A whole number, also written as `4.0`.
impl Value for u32 {
    fn parse(text: &str) -> Result<Self, &'static str> {
        whole(text, "a whole number of at least 0")
    }
}

/// A whole number above 0, also written as `4.0`.
impl Value for NonZeroU32 {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let expected = "a whole number of at least 1";
        whole(text, expected).and_then(|n| NonZeroU32::new(n).ok_or(expected))
    }
}

/// A number of GPUs, at least 1.
impl Value for GpuCount {
    fn parse(text: &str) -> Result<Self, &'static str> {
        NonZeroU32::parse(text).map(|n| GpuCount(n.get()))
    }
}

pub(crate) fn number(text: &str, allowed: fn(f64) -> bool) -> Option<f64> {
    let number = text.trim().parse().ok();
    number.filter(|x: &f64| x.is_finite() && allowed(*x))
}

fn whole(text: &str, expected: &'static str) -> Result<u32, &'static str> {
    match text.trim().parse::<f64>() {
        Ok(x) if x > f64::from(u32::MAX) => Err("a whole number of at most 4294967295"),
        Ok(x) if x >= 0.0 && x.fract() == 0.0 => Ok(x as u32),
        _ => Err(expected),
    }
}

/// Returns whether a text stands for a missing value in logs, such as `nan` or an empty cell.
pub fn is_null(text: &str) -> bool {
    const NULLS: [&str; 9] = [
        "", "nan", "none", "null", "nil", "na", "n/a", "unknown", "\\n",
    ];
    NULLS
        .iter()
        .any(|null| text.trim().eq_ignore_ascii_case(null))
}

/// Converts the columns of the fields of a row struct to the struct; `None` for a missing column.
pub(crate) fn row<R: DeserializeOwned>(
    columns: impl Iterator<Item = Option<usize>>,
) -> Result<R, Error> {
    R::deserialize(SeqDeserializer::new(columns.map(Given)))
}

/// Returns the names of the fields of a row struct. Columns have the same names.
pub(crate) fn fields<R: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // The names are known before there is a value.
    let _ = R::deserialize(Names(&mut names));
    names
}

/// Returns whether a row struct needs the field of this index: it is no `Option`.
pub(crate) fn is_needed<R: DeserializeOwned>(field: usize) -> bool {
    row::<R>((0..fields::<R>().len()).map(|at| (at != field).then_some(at))).is_err()
}

impl<'de, T> Deserialize<'de> for Column<T> {
    fn deserialize<D: Deserializer<'de>>(index: D) -> Result<Self, D::Error> {
        usize::deserialize(index).map(Column::at)
    }
}

struct Given(Option<usize>);

impl<'de> IntoDeserializer<'de> for Given {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Given {
    type Error = Error;

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Some(_) => visitor.visit_some(self),
            None => visitor.visit_none(),
        }
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let column = self.0.ok_or_else(|| Error::custom("no column"))?;
        visitor.visit_u64(column as u64)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = names;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no value"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A column of a table, whose cells have values of type `T`.
#[derive(Debug)]
pub struct Column<T = ()> {
    pub(crate) index: usize,
    value: PhantomData<T>,
}

impl<T> Copy for Column<T> {}

impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Column<T> {
    pub(crate) fn at(index: usize) -> Self {
        let value = PhantomData;
        Column { index, value }
    }

    pub(crate) fn of<V>(self) -> Column<V> {
        Column::at(self.index)
    }
}
