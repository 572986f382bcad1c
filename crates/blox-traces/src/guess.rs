//! A [`ColumnMap`] for a table of no known format, from the names of its columns.

use super::cell::is_null;
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

/// Returns the value of `--map` for a table with this header and these first rows. [`PLACE`] stands
/// for each needed column that is not recognised.
///
/// `None` if neither submission, GPUs nor duration is recognised.
///
/// # Errors
/// The recognised columns contradict each other: says how, and on which line.
pub(crate) fn map_text(header: &[&str], rows: &[Vec<&str>]) -> Result<Option<String>, String> {
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    let rows = rows.as_slice();
    let first = rows.first().copied().unwrap_or_default();
    let fits = |m: &Mapping| holds(m, header, rows);
    let mut columns = exact(header, first, &fits);
    for field in [Submit, Gpus, Duration] {
        if !has(&columns, field) {
            columns.extend(similar(header, first, field, &columns).filter(fits));
        }
    }
    if ![Submit, Gpus, Duration].iter().any(|f| has(&columns, *f)) {
        return Ok(None);
    }
    if !has(&columns, Submit) {
        columns.extend(only_date(header, first, &columns));
    }
    agree(&mut columns, header, rows)?;
    let spans = has(&columns, Start) && has(&columns, End);
    if has(&columns, Duration) || !spans {
        columns.retain(|m| m.field != Start && m.field != End);
    }
    for field in [Submit, Gpus, Duration] {
        let is_mapped = has(&columns, field) || (field == Duration && has(&columns, Start));
        if !is_mapped {
            columns.extend(mapping(field, PLACE, ""));
        }
    }
    columns.sort_by_key(|m| FIELDS.iter().position(|(field, ..)| *field == m.field));
    Ok(Some(ColumnMap { columns }.to_string()))
}

/// Returns the cell of a mapped column.
fn cell<'a>(m: &Mapping, header: &[&str], row: &[&'a str]) -> Option<&'a str> {
    let at = header.iter().position(|name| *name == m.column)?;
    row.get(at).copied().filter(|cell| !is_null(cell))
}

/// Returns whether the cells of a column have values of its field: a type of GPU is no number of GPUs.
fn holds(m: &Mapping, header: &[&str], rows: &[&[&str]]) -> bool {
    let needed = [Submit, Gpus, Duration, Start, End].contains(&m.field);
    let mut cells = rows.iter().filter_map(|row| cell(m, header, row));
    !needed || cells.all(|text| value(m.unit, text).is_some())
}

/// Returns the number that a cell stands for in a unit.
fn value(unit: &Unit, text: &str) -> Option<f64> {
    let number = || text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    match unit.how {
        How::Number(factor, divisor) => Some(number()? * factor / divisor),
        How::Epoch(divisor) => Some(number()? / divisor),
        How::Date => parse_date(text),
        How::Clock => parse_elapsed(text),
    }
}

/// Checks that times do not contradict each other. Chooses the unit in which a duration is the time
/// from start to end.
fn agree(columns: &mut [Mapping], header: &[&str], rows: &[&[&str]]) -> Result<(), String> {
    let found = |field| columns.iter().find(|m| m.field == field);
    let at = |field, row: &[&str]| {
        let m = found(field)?;
        value(m.unit, cell(m, header, row)?)
    };
    let dated = |field| found(field).map(|m| matches!(m.unit.how, How::Date | How::Epoch(_)));
    let name = |field| found(field).map_or("", |m| m.column.as_str());
    // Times with different origins cannot be compared.
    let order = [(Submit, Start), (Start, End), (Submit, End)];
    let order = order.into_iter().filter(|(a, b)| dated(*a) == dated(*b));
    for (before, after) in order {
        for (line, row) in (2..).zip(rows) {
            if let (Some(a), Some(b)) = (at(before, row), at(after, row))
                && b < a
            {
                let [before, after] = [before, after].map(name);
                return Err(format!("`{after}` is before `{before}` on line {line}"));
            }
        }
    }
    let spans = || {
        let lines = (2..).zip(rows);
        let span = |row: &[&str]| Some(at(End, row)? - at(Start, row)?);
        lines.filter_map(move |(line, row)| Some((line, row, span(row)?)))
    };
    let (Some(duration), true) = (found(Duration), dated(Start) == dated(End)) else {
        return Ok(());
    };
    let differs = |unit: &Unit| {
        let of_one = value(unit, "1").unwrap_or(0.0);
        spans().find_map(|(line, row, span)| {
            let text = cell(duration, header, row)?;
            let seconds = value(unit, text)?;
            // A cell may be rounded to its unit, and times to seconds.
            let allowed = 1.0 + if text.contains('.') { 0.1 } else { 0.5 } * of_one.max(1.0);
            ((seconds - span).abs() > allowed).then_some((line, seconds, span))
        })
    };
    let Some((line, seconds, span)) = differs(duration.unit) else {
        return Ok(());
    };
    let (_, _, units, _) = FIELDS
        .iter()
        .find(|(f, ..)| *f == Duration)
        .unwrap_or(&FIELDS[0]);
    let is_number = |unit: &&Unit| matches!(unit.how, How::Number(..));
    let long = spans().any(|(.., span)| span > 60.0);
    let mut units = units.iter().filter(is_number);
    let Some(unit) = units.find(|unit| long && differs(unit).is_none()) else {
        let [duration, start, end] = [Duration, Start, End].map(name);
        return Err(format!(
            "`{duration}` is {seconds} s on line {line}, `{end}` - `{start}` is {span} s"
        ));
    };
    for m in columns.iter_mut().filter(|m| m.field == Duration) {
        m.unit = unit;
    }
    Ok(())
}

fn has(columns: &[Mapping], field: Field) -> bool {
    columns.iter().any(|m| m.field == field)
}

/// The columns whose names are known, and whose cells fit.
fn exact(header: &[&str], row: &[&str], fits: &dyn Fn(&Mapping) -> bool) -> Vec<Mapping> {
    let mut columns: Vec<Mapping> = Vec::new();
    for (at, column) in header.iter().enumerate() {
        let name = plain(column);
        let of = |known: &str| known == name || known == stem(&name).0;
        let known = FIELDS
            .iter()
            .find(|(.., names)| names.iter().any(|n| of(n)));
        if let Some((field, ..)) = known.filter(|(field, ..)| !has(&columns, *field)) {
            let mapping = mapping(*field, column, row.get(at).unwrap_or(&""));
            columns.extend(mapping.filter(fits));
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
            let rows = Vec::from_iter((!row.is_empty()).then(|| split(row)));
            let guess = map_text(&split(header), &rows).unwrap();
            assert_eq!(guess.as_deref(), map, "{header}");
            if let Some(map) = guess {
                assert!(map.parse::<ColumnMap>().is_ok(), "{map}");
            }
        }
    }

    #[test]
    fn columns_that_contradict_each_other_have_no_map() {
        for (header, rows, expected) in [
            (
                "gpus,queued,start,end,elapsed",
                ["1,100,150,300,150", "1,200,190,500,310"],
                "`start` is before `queued` on line 3",
            ),
            (
                "gpus,submitted,start,end",
                ["1,2024-01-01 00:00:00,2024-01-01 00:01:00,2024-01-01 00:02:00"; 2],
                "submit=submitted:date,gpus=gpus,start=start:date,end=end:date",
            ),
            (
                "gpus,arrival,start,end,length",
                ["1,100,150,300,150", "2,200,250,600,400"],
                "`length` is 400 s on line 3, `end` - `start` is 350 s",
            ),
            // The first row alone could be minutes.
            (
                "gpus,arrival,start,end,duration",
                ["1,100,150,3750,60", "2,200,250,600,400"],
                "`duration` is 60 s on line 2, `end` - `start` is 3600 s",
            ),
            (
                "gpus,arrival,start,end,duration",
                ["1,100,150,3750,60", "2,200,250,850,10"],
                "submit=arrival,gpus=gpus,duration=duration:min",
            ),
            (
                "gpus,arrival,start,end,duration",
                ["1,100,150,3750,60.1", "2,200,250,850,10.04"],
                "submit=arrival,gpus=gpus,duration=duration:min",
            ),
            (
                "gpus,arrival,start,end,duration",
                ["1,100,150,,60", "2,200,None,850,10"],
                "submit=arrival,gpus=gpus,duration=duration",
            ),
            // The column `gpu` has types.
            (
                "gpu,cards,arrival,duration",
                ["v100,1,100,150", "a100,2,200,250"],
                "submit=arrival,gpus=cards,duration=duration",
            ),
            (
                "gpu,arrival,duration",
                ["v100,100,150", "a100,200,250"],
                "submit=arrival,gpus=COLUMN,duration=duration",
            ),
        ] {
            let split = |text: &'static str| text.split(',').collect::<Vec<_>>();
            let found = map_text(&split(header), &rows.map(split));
            let text = found.map_or_else(|why| why, Option::unwrap_or_default);
            assert_eq!(text, expected, "{header} {rows:?}");
        }
    }
}
