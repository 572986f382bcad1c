//! Column maps: the meaning of the columns of a table of no known format.
//!
//! A [`ColumnMap`] is written as `FIELD=COLUMN` or `FIELD=COLUMN:UNIT`, separated by commas:
//!
//! ```text
//! submit=timestamp:date,gpus=num_gpu,duration=run_time:min,user=owner,job_id=id
//! ```
//!
//! | field | units, the first is the default | meaning |
//! |---|---|---|
//! | `submit` | `s` `ms` `us` `ns` `min` `h` `d`, `epoch` `epoch-ms` `epoch-us` `epoch-ns`, `date` | submission (needed) |
//! | `gpus` | `count` `percent` `milli` | requested GPUs (needed) |
//! | `duration` | `s` `ms` `us` `ns` `min` `h` `d`, `clock` | how long it ran (needed, or `start` and `end`) |
//! | `start`, `end` | as `submit` | when it ran, if there is no duration |
//! | `job_id` | | the job's name; must be unique |
//! | `user`, `virtual_cluster`, `group`, `model` | | names |
//! | `priority`, `batch_size` | | whole numbers |
//! | `cpus` | `count` `percent` `milli` | CPU cores, for all GPUs together |
//! | `memory` | `gib` `mib` `kib` `bytes` `gb` `mb` | memory, for all GPUs together |
//! | `deadline` | as `submit`, with the same time origin | a time |
//! | `user_estimate` | as `duration` | the user's estimate of the duration |
//! | `attributes.NAME` | | an attribute of this name, for policies; may be repeated with other names |
//!
//! Numbers in `s` to `d` count from the trace's own start and are not shifted. `epoch` counts
//! seconds since 1970; `date` has the form `2017-10-09 07:01:55` or `2017-10-09T07:01:55.25+08:00`.
//! With `epoch` and `date`, the earliest job is submitted at 0. `clock` is
//! `[DAYS-]HOURS:MINUTES:SECONDS`. `percent` and `milli` are hundredths and thousandths of a GPU.
//! Less than one GPU is a part of it. More than one GPU becomes whole GPUs, with a notice.
//!
//! A column with a comma, a colon or a quote in its name is written in double quotes. A quote
//! inside is doubled: `gpus="GPUs, all":count`.
//!
//! The table has a header. Its cells are separated by the comma, semicolon, tab or bar that is most
//! common in the header. Columns that are not mapped are left out, with a notice. A cell has no
//! value if it is empty or one of `nan`, `none`, `null`, `nil`, `na`, `n/a`, `unknown` and `\n`.
//!
//! Dropped, with a notice: jobs without GPUs; jobs without a value for `start`
//! (never started), `end` (still running) or `duration`.

use blox_core::Name;
use blox_core::suggest::did_you_mean;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

use super::file::Clock;

/// Meaning of the columns of a table, see the [module](self).
///
/// ```
/// use blox_traces::ColumnMap;
/// let map: ColumnMap = "submit=time:date,gpus=n,duration=minutes:min".parse()?;
/// assert_eq!(map.to_string(), "submit=time:date,gpus=n,duration=minutes:min");
/// let error = "submit=time,gpus=n".parse::<ColumnMap>().unwrap_err();
/// assert_eq!(error.to_string(), "duration is not mapped, expected duration=COLUMN, or start and end");
/// # Ok::<(), blox_traces::MapError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnMap {
    pub(super) columns: Vec<Mapping>,
}

/// One field of a column map.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mapping {
    pub field: Field,
    /// The attribute's name, if the field is one.
    pub attribute: Option<Name>,
    pub column: String,
    pub unit: &'static Unit,
}

/// Defines the fields. Each has a name, units of which the first is the default, and the names that
/// its column has in logs, without units.
macro_rules! fields {
    ($($field:ident $name:literal $units:ident [$($column:literal)*])*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Field {
            $($field,)*
            /// An attribute. Not among [`FIELDS`], since its name is free.
            Attribute,
        }

        pub(super) const FIELDS: [(Field, &str, &[Unit], &[&str]); [$($name),*].len()] =
            [$((Field::$field, $name, $units, &[$($column),*])),*];
    };
}

fields! {
    Submit "submit" MOMENTS [
        "submit" "submit_time" "submitted" "submitted_at" "submission" "submission_time" "arrival"
        "arrival_time" "arrived" "timestamp" "time" "when" "queued" "queued_at" "created"
        "created_at" "creation_time"
    ]
    Gpus "gpus" PARTS [
        "gpus" "gpu" "num_gpus" "num_gpu" "gpu_num" "n_gpus" "ngpus" "gpu_count" "gpus_requested"
        "requested_gpus" "req_gpus" "plan_gpu" "num_replicas" "cards" "num_cards" "accelerators"
        "devices"
    ]
    Duration "duration" LENGTHS [
        "duration" "runtime" "run_time" "elapsed" "elapsed_time" "execution_time" "service_time"
        "length" "walltime" "wall_time" "seconds" "minutes" "hours"
    ]
    Start "start" MOMENTS ["start" "start_time" "started" "started_at" "scheduled_time" "scheduled_at"]
    End "end" MOMENTS [
        "end" "end_time" "ended" "ended_at" "finish" "finish_time" "finished" "completion_time" "deletion_time" "deleted_at"
    ]
    JobId "job_id" NONE ["job_id" "jobid" "id" "job" "job_name" "name"]
    User "user" NONE ["user" "owner" "user_id" "username" "user_name"]
    VirtualCluster "virtual_cluster" NONE ["virtual_cluster" "vc" "partition" "queue"]
    Group "group" NONE ["group" "team"]
    Model "model" NONE ["model" "model_name" "network" "net" "application"]
    Priority "priority" NONE ["priority" "prio"]
    BatchSize "batch_size" NONE ["batch_size" "batch"]
    Cpus "cpus" PARTS ["cpus" "cpu" "num_cpus" "cpu_num" "cpu_count"]
    Memory "memory" MEMORY ["memory" "mem"]
    Deadline "deadline" MOMENTS ["deadline" "due"]
    UserEstimate "user_estimate" LENGTHS ["user_estimate" "estimate" "time_limit" "timelimit"]
}

use Field::*;

/// Attributes, as a row of [`FIELDS`].
const NAMED: (Field, &str, &[Unit], &[&str]) = (Attribute, "attributes.NAME", NONE, &[]);

/// Prefix of the fields and columns of attributes.
pub(crate) const ATTRIBUTE: &str = "attributes.";

/// Returns the value of an attribute's cell: a number, `true`, `false` or a JSON list if it parses
/// as one, otherwise the text. An integer that needs more than 64 bits stays a text.
pub(crate) fn attribute(text: &str) -> Value {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = digits.bytes().all(|b| b.is_ascii_digit());
    match serde_json::from_str(text) {
        Ok(Value::Number(n)) if is_integer && n.is_f64() => text.into(),
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Array(_))) => value,
        _ => text.into(),
    }
}

/// Interpretation of a cell.
#[derive(Debug, PartialEq)]
pub(super) struct Unit {
    pub name: &'static str,
    pub how: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum How {
    /// A number, multiplied by the first factor and divided by the second.
    Number(f64, f64),
    /// A number since 1970, divided by this factor.
    Epoch(f64),
    Date,
    Clock,
}

const fn times(name: &'static str, factor: f64) -> Unit {
    let how = How::Number(factor, 1.0);
    Unit { name, how }
}

// Dividing by a whole number is exact; multiplying by its inverse is not.
const fn parts(name: &'static str, of: f64) -> Unit {
    let how = How::Number(1.0, of);
    Unit { name, how }
}

const fn epoch(name: &'static str, of: f64) -> Unit {
    let how = How::Epoch(of);
    Unit { name, how }
}

const NONE: &[Unit] = &[times("", 1.0)];
const PARTS: &[Unit] = &[
    times("count", 1.0),
    parts("percent", 100.0),
    parts("milli", 1000.0),
];
const LENGTHS: &[Unit] = &[
    times("s", 1.0),
    parts("ms", 1e3),
    parts("us", 1e6),
    parts("ns", 1e9),
    times("min", 60.0),
    times("h", 3600.0),
    times("d", 86_400.0),
    Unit {
        name: "clock",
        how: How::Clock,
    },
];
const MOMENTS: &[Unit] = &[
    times("s", 1.0),
    parts("ms", 1e3),
    parts("us", 1e6),
    parts("ns", 1e9),
    times("min", 60.0),
    times("h", 3600.0),
    times("d", 86_400.0),
    epoch("epoch", 1.0),
    epoch("epoch-ms", 1e3),
    epoch("epoch-us", 1e6),
    epoch("epoch-ns", 1e9),
    Unit {
        name: "date",
        how: How::Date,
    },
];
const MEMORY: &[Unit] = &[
    times("gib", 1.0),
    parts("mib", 1024.0),
    parts("kib", 1_048_576.0),
    parts("bytes", 1_073_741_824.0),
    parts("gb", 1.073_741_824),
    parts("mb", 1_073.741_824),
];

impl ColumnMap {
    pub(super) fn get(&self, field: Field) -> Option<&Mapping> {
        self.columns.iter().find(|m| m.field == field)
    }

    pub(super) fn clock(&self) -> Clock {
        match self.get(Submit).map(|m| m.unit.how) {
            Some(How::Epoch(_) | How::Date) => Clock::Wall(0.0),
            _ => Clock::Kept,
        }
    }

    pub(super) fn name_column(&self) -> Option<&str> {
        self.get(JobId).map(|m| m.column.as_str())
    }

    fn check(self) -> Result<Self, MapError> {
        let missing = |field, expected| Err(MapError::Missing { field, expected });
        let has = |field| self.get(field).is_some();
        if !has(Submit) {
            return missing("submit", "submit=COLUMN");
        }
        if !has(Gpus) {
            return missing("gpus", "gpus=COLUMN");
        }
        match (has(Duration), has(Start), has(End)) {
            (true, false, false) | (false, true, true) => {}
            (true, ..) => return Err(MapError::TooMuch),
            (false, true, false) => return missing("end", "end=COLUMN beside start"),
            (false, false, true) => return missing("start", "start=COLUMN beside end"),
            _ => return missing("duration", "duration=COLUMN, or start and end"),
        }
        let dated = |field| {
            let how = self.get(field).map(|m| m.unit.how)?;
            Some(matches!(how, How::Epoch(_) | How::Date))
        };
        for (a, b, names) in [
            (Start, End, "start and end"),
            (Submit, Deadline, "submit and deadline"),
        ] {
            if let (Some(a), Some(b)) = (dated(a), dated(b))
                && a != b
            {
                return Err(MapError::Clocks { names });
            }
        }
        Ok(self)
    }
}

impl FromStr for ColumnMap {
    type Err = MapError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut columns: Vec<Mapping> = Vec::new();
        for part in split(text) {
            let not_understood = || MapError::Part { found: part.into() };
            let (name, rest) = part.split_once('=').ok_or_else(not_understood)?;
            let name = name.trim();
            let attribute = name.strip_prefix(ATTRIBUTE).filter(|n| !n.is_empty());
            let own = attribute.map(|_| &NAMED);
            let plain = || FIELDS.iter().find(|(_, known, ..)| *known == name);
            let Some((field, known, units, _)) = own.or_else(plain) else {
                return Err(MapError::Field { found: name.into() });
            };
            let attribute = attribute.map(Name::from);
            let same = |m: &Mapping| m.field == *field && m.attribute == attribute;
            if columns.iter().any(same) {
                let field = match attribute {
                    Some(_) => name.to_owned(),
                    None => (*known).to_owned(),
                };
                return Err(MapError::Twice { field });
            }
            let (column, unit) = column_and_unit(rest.trim()).ok_or_else(not_understood)?;
            let unit = match unit {
                None => units.first(),
                Some(name) => units.iter().find(|u| u.name == name && !name.is_empty()),
            };
            let unit = unit.ok_or_else(|| MapError::Unit {
                field: known,
                found: rest.trim().into(),
                units: units.iter().map(|u| u.name).collect(),
            })?;
            columns.push(Mapping {
                field: *field,
                attribute,
                column,
                unit,
            });
        }
        ColumnMap { columns }.check()
    }
}

impl fmt::Display for ColumnMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, m) in self.columns.iter().enumerate() {
            let (name, first) = FIELDS
                .iter()
                .find(|(field, ..)| *field == m.field)
                .map_or(("", ""), |(_, name, units, _)| (*name, units[0].name));
            let comma = if i > 0 { "," } else { "" };
            match &m.attribute {
                Some(name) => write!(f, "{comma}{ATTRIBUTE}{name}=")?,
                None => write!(f, "{comma}{name}=")?,
            }
            if m.column.contains([',', ':', '"']) || m.column.trim() != m.column {
                write!(f, "\"{}\"", m.column.replace('"', "\"\""))?;
            } else {
                f.write_str(&m.column)?;
            }
            if m.unit.name != first {
                write!(f, ":{}", m.unit.name)?;
            }
        }
        Ok(())
    }
}

/// Splits at the commas outside quotes.
fn split(text: &str) -> Vec<&str> {
    let mut quoted = false;
    text.split(|c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })
    .collect()
}

fn column_and_unit(text: &str) -> Option<(String, Option<&str>)> {
    let (column, unit) = if let Some(rest) = text.strip_prefix('"') {
        // Finds the closing quote; a doubled quote is not one.
        let mut chars = rest.char_indices().peekable();
        let end = loop {
            match chars.next()? {
                (_, '"') if chars.peek().is_some_and(|(_, c)| *c == '"') => drop(chars.next()),
                (at, '"') => break at,
                _ => {}
            }
        };
        let after = &rest[end + 1..];
        let unit = match after.strip_prefix(':') {
            Some(unit) => Some(unit),
            None if after.is_empty() => None,
            None => return None,
        };
        (rest[..end].replace("\"\"", "\""), unit)
    } else {
        match text.rsplit_once(':') {
            Some((column, unit)) => (column.trim().to_owned(), Some(unit)),
            None => (text.to_owned(), None),
        }
    };
    (!column.is_empty()).then_some((column, unit.map(str::trim)))
}

/// An error in a [`ColumnMap`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// A part is not a mapping.
    #[error(
        "`{found}` is not understood, expected FIELD=COLUMN or FIELD=COLUMN:UNIT, joined by commas"
    )]
    Part {
        /// The part.
        found: String,
    },
    /// An unknown field.
    #[error(
        "unknown field `{found}`{}known: {}, attributes.NAME",
        did_you_mean(found, FIELDS.map(|(_, name, ..)| name), "; "),
        FIELDS.map(|(_, name, ..)| name).join(", ")
    )]
    Field {
        /// The field.
        found: String,
    },
    /// A field is mapped twice.
    #[error("{field} is mapped twice, expected it once")]
    Twice {
        /// The field.
        field: String,
    },
    /// An unknown unit, or a unit of another field.
    #[error(
        "{field} is `{found}`, expected COLUMN{}; a column with a colon in its name stands in double quotes",
        if units.len() > 1 { format!(" or COLUMN:UNIT with one of the units {}", units.join(", ")) } else { String::new() }
    )]
    Unit {
        /// The field.
        field: &'static str,
        /// Its column and unit.
        found: String,
        /// The units allowed for the field.
        units: Vec<&'static str>,
    },
    /// A required field is missing.
    #[error("{field} is not mapped, expected {expected}")]
    Missing {
        /// The field.
        field: &'static str,
        /// Description of the expected mapping.
        expected: &'static str,
    },
    /// More than one mapping states the duration.
    #[error("duration is mapped and start or end too, expected either")]
    TooMuch,
    /// Times with different origins cannot be compared.
    #[error("{names} are counted differently, expected dates for both or numbers for both")]
    Clocks {
        /// The fields.
        names: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let map: ColumnMap =
            "submit=\"when, exactly\":epoch-ms, gpus = \"a:\"\"b\"\"\",duration=x:y:min"
                .parse()
                .unwrap();
        let columns: Vec<_> = map
            .columns
            .iter()
            .map(|m| (m.column.as_str(), m.unit.name))
            .collect();
        assert_eq!(
            columns,
            [
                ("when, exactly", "epoch-ms"),
                ("a:\"b\"", "count"),
                ("x:y", "min")
            ]
        );
        let again: ColumnMap = map.to_string().parse().unwrap();
        assert_eq!(again, map);
    }

    #[test]
    fn what_is_wrong_is_one_sentence() {
        for (text, message) in [
            (
                "",
                "`` is not understood, expected FIELD=COLUMN or FIELD=COLUMN:UNIT, joined by commas",
            ),
            (
                "submit=\"a",
                "`submit=\"a` is not understood, expected FIELD=COLUMN or FIELD=COLUMN:UNIT, joined by commas",
            ),
            (
                "when=a",
                "unknown field `when`; known: submit, gpus, duration, start, end, job_id, user, virtual_cluster, group, model, priority, batch_size, cpus, memory, deadline, user_estimate, attributes.NAME",
            ),
            (
                "attributes.a=b,attributes.a=c",
                "attributes.a is mapped twice, expected it once",
            ),
            (
                "submit=a,submit=b",
                "submit is mapped twice, expected it once",
            ),
            (
                "gpus=a:min",
                "gpus is `a:min`, expected COLUMN or COLUMN:UNIT with one of the units count, percent, milli; a column with a colon in its name stands in double quotes",
            ),
            (
                "user=a:b",
                "user is `a:b`, expected COLUMN; a column with a colon in its name stands in double quotes",
            ),
            (
                "gpus=a,duration=b",
                "submit is not mapped, expected submit=COLUMN",
            ),
            (
                "submit=a,duration=b",
                "gpus is not mapped, expected gpus=COLUMN",
            ),
            (
                "submit=a,gpus=b,start=c",
                "end is not mapped, expected end=COLUMN beside start",
            ),
            (
                "submit=a,gpus=b,end=c",
                "start is not mapped, expected start=COLUMN beside end",
            ),
            (
                "submit=a,gpus=b,end=c,duration=d",
                "duration is mapped and start or end too, expected either",
            ),
            (
                "submit=a,gpus=b,duration=c,deadline=d:date",
                "submit and deadline are counted differently, expected dates for both or numbers for both",
            ),
        ] {
            assert_eq!(
                text.parse::<ColumnMap>().unwrap_err().to_string(),
                message,
                "{text}"
            );
        }
    }
}
