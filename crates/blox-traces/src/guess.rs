//! A [`ColumnMap`] for a table of no known format, from the names of its columns.

use super::map::{ColumnMap, FIELDS, Field, How, Mapping, Unit};
use super::moment::{parse_date, parse_elapsed};
use blox_core::suggest::nearest;

use Field::*;

/// Stands for a column that was not recognised.
pub(crate) const PLACE: &str = "COLUMN";

/// Ends of names, and the units that they say.
const ENDS: [(&str, &[&str]); 13] = [
    ("s", &["_seconds", "_secs", "_sec", "_s"]),
    ("ms", &["_ms"]),
    ("us", &["_us"]),
    ("ns", &["_ns"]),
    ("min", &["_minutes", "_mins", "_min"]),
    ("h", &["_hours", "_h"]),
    ("d", &["_days", "_d"]),
    ("gib", &["_gib"]),
    ("mib", &["_mib"]),
    ("gb", &["_gb"]),
    ("mb", &["_mb"]),
    ("bytes", &["_bytes"]),
    ("milli", &["_milli"]),
];

/// Returns the value of `--map` for a table with this header and first row. [`PLACE`] stands for
/// each needed column that is not recognised.
///
/// `None` if neither submission, GPUs nor duration is recognised.
pub(crate) fn map_text(header: &[&str], row: &[&str]) -> Option<String> {
    let mut columns = exact(header, row);
    for field in [Submit, Gpus, Duration] {
        if !has(&columns, field) {
            columns.extend(similar(header, row, field, &columns));
        }
    }
    if ![Submit, Gpus, Duration].iter().any(|f| has(&columns, *f)) {
        return None;
    }
    if !has(&columns, Submit) {
        columns.extend(only_date(header, row, &columns));
    }
    let spans = has(&columns, Start) && has(&columns, End);
    if has(&columns, Duration) || !spans {
        columns.retain(|m| m.field != Start && m.field != End);
    }
    for field in [Submit, Gpus, Duration] {
        let is_told = has(&columns, field) || (field == Duration && has(&columns, Start));
        if !is_told {
            columns.extend(mapping(field, PLACE, ""));
        }
    }
    columns.sort_by_key(|m| FIELDS.iter().position(|(field, ..)| *field == m.field));
    Some(ColumnMap { columns }.to_string())
}

fn has(columns: &[Mapping], field: Field) -> bool {
    columns.iter().any(|m| m.field == field)
}

/// The columns whose names are known.
fn exact(header: &[&str], row: &[&str]) -> Vec<Mapping> {
    let mut columns: Vec<Mapping> = Vec::new();
    for (at, column) in header.iter().enumerate() {
        let name = plain(column);
        let of = |known: &str| known == name || known == stem(&name).0;
        let known = FIELDS
            .iter()
            .find(|(.., names)| names.iter().any(|n| of(n)));
        if let Some((field, ..)) = known.filter(|(field, ..)| !has(&columns, *field)) {
            columns.extend(mapping(*field, column, row.get(at).unwrap_or(&"")));
        }
    }
    columns
}

/// Returns the free column whose name is most like the names of a field.
fn similar(header: &[&str], row: &[&str], field: Field, taken: &[Mapping]) -> Option<Mapping> {
    let (.., names) = FIELDS.iter().find(|(known, ..)| *known == field)?;
    let is_free = |column: &str| taken.iter().all(|m| m.column != column);
    let mut header = header.iter().enumerate();
    let (at, column) = header.find(|(_, column)| {
        let name = plain(column);
        let name = stem(&name).0;
        // A last word in common says nothing: a time of deletion is no time of execution.
        let of_time = name.strip_suffix("_time");
        let names = names.iter().filter_map(|known| match of_time {
            Some(_) => known.strip_suffix("_time"),
            None => Some(*known),
        });
        is_free(column) && nearest(of_time.unwrap_or(name), names).is_some()
    })?;
    mapping(field, column, row.get(at).unwrap_or(&""))
}

/// The submission, if one free column holds a date and no other does.
fn only_date(header: &[&str], row: &[&str], taken: &[Mapping]) -> Option<Mapping> {
    let is_free = |column: &str| taken.iter().all(|m| m.column != column);
    let cells = header.iter().zip(row);
    let mut dates = cells.filter(|(column, cell)| is_free(column) && parse_date(cell).is_some());
    match (dates.next(), dates.next()) {
        (Some((column, cell)), None) => mapping(Submit, column, cell),
        _ => None,
    }
}

/// Folds a name: words in lower case, joined by `_`.
fn plain(column: &str) -> String {
    let column = column.to_lowercase();
    let words = column.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("_")
}

/// A name without its unit, and the unit.
fn stem(name: &str) -> (&str, &'static str) {
    match name {
        "minutes" => return (name, "min"),
        "hours" => return (name, "h"),
        _ => {}
    }
    let ends = ENDS.iter().find_map(|(unit, ends)| {
        let stem = ends.iter().find_map(|end| name.strip_suffix(end))?;
        (!stem.is_empty()).then_some((stem, *unit))
    });
    ends.unwrap_or((name, ""))
}

/// A field in a column, in the unit that a cell of the column or the column's name says.
fn mapping(field: Field, column: &str, cell: &str) -> Option<Mapping> {
    let (_, _, units, _) = FIELDS.iter().find(|(known, ..)| *known == field)?;
    let named = |name: &str| units.iter().find(|u| u.name == name && !name.is_empty());
    let unit = of_cell(cell, units).or_else(|| named(stem(&plain(column)).1));
    Some(Mapping {
        field,
        attribute: None,
        column: column.to_owned(),
        unit: unit.or(units.first())?,
    })
}

/// The unit that a cell cannot be without: a date, a clock, or seconds since 1970.
fn of_cell(cell: &str, units: &'static [Unit]) -> Option<&'static Unit> {
    let with = |is: &dyn Fn(How) -> bool| units.iter().find(|u| is(u.how));
    match cell.trim().parse::<f64>() {
        Ok(number) => {
            let of = [(1e18, 1e9), (1e15, 1e6), (1e12, 1e3), (1e9, 1.0)];
            let (_, of) = of.into_iter().find(|(least, _)| number >= *least)?;
            with(&|how| how == How::Epoch(of))
        }
        Err(_) if parse_date(cell).is_some() => with(&|how| how == How::Date),
        Err(_) if parse_elapsed(cell).is_some() => with(&|how| how == How::Clock),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_text_names_recognised_columns_with_units() {
        for (header, row, map) in [
            (
                "id,when,n_gpus,minutes,owner",
                "a,2024-01-01 00:00:00,2,5,ada",
                Some("submit=when:date,gpus=n_gpus,duration=minutes:min,job_id=id,user=owner"),
            ),
            (
                "Submit Time,GPU count,start,end",
                "1700000000,1,1700000001,1700000100",
                Some("submit=Submit Time:epoch,gpus=GPU count,start=start:epoch,end=end:epoch"),
            ),
            (
                "arrival_ms,gpu_nums,run_time_h,start",
                "5,1,2,3",
                Some("submit=arrival_ms:ms,gpus=gpu_nums,duration=run_time_h:h"),
            ),
            (
                "timestmp,elapsed",
                "3,01:02:03",
                Some("submit=timestmp,gpus=COLUMN,duration=elapsed:clock"),
            ),
            (
                "Job Name,Start of queue,Cards,Run time (min)",
                "a,2025-03-03 08:02:41,1,121.6",
                Some(
                    "submit=Start of queue:date,gpus=Cards,duration=Run time (min):min,\
                     job_id=Job Name",
                ),
            ),
            (
                "cards,minutes,picked,left",
                "1,2,2025-03-03 08:02:41,2025-03-03 08:02:41",
                Some("submit=COLUMN,gpus=cards,duration=minutes:min"),
            ),
            (
                "app,gpu_num,creation_time,scheduled_time,deletion_time",
                "a,1,2505615,2505620,2505733",
                Some("submit=creation_time,gpus=gpu_num,start=scheduled_time,end=deletion_time"),
            ),
            (
                "gpu_num,creation_time,deletoin_time",
                "1,2505615,2505733",
                Some("submit=creation_time,gpus=gpu_num,duration=COLUMN"),
            ),
            (
                "gpu_num,creation_time,executon_time",
                "1,2505615,118",
                Some("submit=creation_time,gpus=gpu_num,duration=executon_time"),
            ),
            ("hello,world", "", None),
        ] {
            let split = |text: &'static str| text.split(',').collect::<Vec<_>>();
            let guess = map_text(&split(header), &split(row));
            assert_eq!(guess.as_deref(), map, "{header}");
            if let Some(map) = guess {
                assert!(map.parse::<ColumnMap>().is_ok(), "{map}");
            }
        }
    }
}
