//! Reads a table.

use blox_sim::results::TableSink;
use parquet::basic::{LogicalType, TimeUnit};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::fs::File;
use std::io;

/// Reads the rows of a file into a table of texts. A missing value and a NaN are missing cells. The
/// values of a list are joined by `;`. A time is `YYYY-MM-DD hh:mm:ss`, in UTC if the file has a time
/// zone.
///
/// # Errors
/// If the file cannot be read or is damaged, or the table cannot be written.
pub fn read(file: File, sink: &mut dyn TableSink) -> io::Result<()> {
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let fields = schema.root_schema().get_fields();
    let nanos: Vec<bool> = fields
        .iter()
        .map(|field| {
            let logical = field.get_basic_info().logical_type_ref();
            matches!(
                logical,
                Some(LogicalType::Timestamp(time)) if matches!(time.unit, TimeUnit::NANOS)
            )
        })
        .collect();
    let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
    sink.begin(&names);
    for row in reader.get_row_iter(None).map_err(damaged)? {
        let row = row.map_err(damaged)?;
        for ((_, field), nanos) in row.get_column_iter().zip(&nanos) {
            let text = match field {
                Field::Long(time) if *nanos => cell(&Field::TimestampMicros(time / 1000)),
                field => cell(field),
            };
            sink.text(text.as_deref());
        }
        sink.end_row().map_err(io::Error::other)?;
    }
    sink.finish().map_err(io::Error::other)
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
        Field::ListInternal(list) => {
            let cells = list.elements().iter().filter_map(cell);
            cells.collect::<Vec<_>>().join(";")
        }
        other => other.to_string(),
    })
}
