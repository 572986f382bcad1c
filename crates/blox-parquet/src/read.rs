//! Reads a table.

use blox_table::TableSink;
use parquet::basic::{LogicalType, TimeUnit};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;
use serde_json::Value;
use std::fs::File;
use std::io;

/// Reads the rows of a file into a table of texts. A missing value and a NaN are missing cells. The
/// values of a list are joined by `;`. A date is `YYYY-MM-DD hh:mm:ss`, in UTC if the file has a time
/// zone. A time of day, and a duration of pandas (`timedelta64`), are numbers of seconds.
///
/// # Errors
/// If the file cannot be read or is damaged, or the table cannot be written.
pub fn read(file: File, sink: &mut dyn TableSink) -> io::Result<()> {
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    let metadata = reader.metadata().file_metadata();
    let schema = metadata.schema_descr_ptr();
    let fields = schema.root_schema().get_fields();
    let pandas = metadata.key_value_metadata().into_iter().flatten();
    let pandas = pandas.filter(|pair| pair.key == "pandas");
    let mut pandas = pandas.filter_map(|pair| serde_json::from_str(pair.value.as_ref()?).ok());
    let pandas: Value = pandas.next_back().unwrap_or_default();
    let meanings: Vec<Meaning> = fields.iter().map(|field| meaning(field, &pandas)).collect();
    let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
    sink.begin(&names);
    for row in reader.get_row_iter(None).map_err(damaged)? {
        let row = row.map_err(damaged)?;
        for ((_, field), meaning) in row.get_column_iter().zip(&meanings) {
            let text = match (meaning, integer(field)) {
                (Meaning::NanosecondDate, Some(time)) => {
                    cell(&Field::TimestampMicros(time.div_euclid(1000)))
                }
                (Meaning::Seconds(one), Some(time)) => Some((time as f64 / one).to_string()),
                _ => cell(field),
            };
            sink.text(text.as_deref());
        }
        sink.end_row().map_err(io::Error::other)?;
    }
    sink.finish().map_err(io::Error::other)
}

/// Meaning of the integers of a column.
enum Meaning {
    Number,
    NanosecondDate,
    /// A duration, with the integer that is one second.
    Seconds(f64),
}

/// Returns the meaning of a column. Parquet has no type of durations: only the metadata of pandas
/// tells them from other integers.
fn meaning(field: &Type, pandas: &Value) -> Meaning {
    match field.get_basic_info().logical_type_ref() {
        Some(LogicalType::Timestamp(time)) if matches!(time.unit, TimeUnit::NANOS) => {
            return Meaning::NanosecondDate;
        }
        Some(LogicalType::Time(time)) if matches!(time.unit, TimeUnit::NANOS) => {
            return Meaning::Seconds(1e9);
        }
        Some(_) => return Meaning::Number,
        None => {}
    }
    let mut columns = pandas["columns"].as_array().into_iter().flatten();
    let named = |column: &&Value| {
        let name = column["field_name"].as_str().or(column["name"].as_str());
        name == Some(field.name())
    };
    let numpy = columns.find(named).map(|column| &column["numpy_type"]);
    match numpy.and_then(Value::as_str) {
        Some("timedelta64[s]") => Meaning::Seconds(1.0),
        Some("timedelta64[ms]") => Meaning::Seconds(1e3),
        Some("timedelta64[us]") => Meaning::Seconds(1e6),
        Some("timedelta64[ns]") => Meaning::Seconds(1e9),
        _ => Meaning::Number,
    }
}

fn integer(field: &Field) -> Option<i64> {
    match field {
        Field::Long(value) => Some(*value),
        Field::Int(value) => Some(i64::from(*value)),
        _ => None,
    }
}

fn damaged(e: ParquetError) -> io::Error {
    io::Error::other(format!("the Parquet table is damaged: {e}"))
}

fn cell(field: &Field) -> Option<String> {
    Some(match field {
        Field::Null => return None,
        Field::Str(text) => text.clone(),
        Field::Float(value) if value.is_nan() => return None,
        Field::Double(value) if value.is_nan() => return None,
        Field::Float(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        Field::TimestampMillis(_) | Field::TimestampMicros(_) => {
            let text = field.to_string();
            text.strip_suffix(" +00:00").unwrap_or(&text).to_owned()
        }
        Field::TimeMillis(time) => (f64::from(*time) / 1e3).to_string(),
        Field::TimeMicros(time) => (*time as f64 / 1e6).to_string(),
        Field::ListInternal(list) => {
            let cells = list.elements().iter().filter_map(cell);
            cells.collect::<Vec<_>>().join(";")
        }
        other => other.to_string(),
    })
}
