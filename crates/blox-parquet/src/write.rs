//! Writes a table.

use blox_table::{TableSink, WriteError};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows of a row group.
const ROWS: usize = 1 << 16;

/// A table as Parquet, compressed with Snappy. A column of texts is a string, of whole numbers a
/// 64-bit integer, and of other numbers a double. Missing cells are null. A whole number above the
/// largest integer is written as that integer.
pub struct ParquetTable<W: Write + Send> {
    /// The output until the first row, then its writer.
    out: Option<W>,
    writer: Option<SerializedFileWriter<W>>,
    columns: Vec<(String, Cells)>,
    at: usize,
    rows: usize,
}

/// The cells of a column that are not written yet. The first cell defines the type of a column.
enum Cells {
    Unknown,
    Text(Vec<ByteArray>, Vec<i16>),
    Whole(Vec<i64>),
    Number(Vec<f64>, Vec<i16>),
}

fn failed(e: ParquetError) -> io::Error {
    match e {
        ParquetError::External(e) => io::Error::other(e),
        other => io::Error::other(other),
    }
}

impl<W: Write + Send> ParquetTable<W> {
    /// Creates a table that is written to `out`.
    pub fn new(out: W) -> Self {
        ParquetTable {
            out: Some(out),
            writer: None,
            columns: Vec::new(),
            at: 0,
            rows: 0,
        }
    }

    /// Returns the cells of the next column.
    fn next(&mut self) -> &mut Cells {
        let at = self.at % self.columns.len().max(1);
        self.at += 1;
        &mut self.columns[at].1
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let fields = self.columns.iter().map(|(name, cells)| {
            let (physical, logical, repetition) = match cells {
                Cells::Unknown | Cells::Text(..) => (
                    Physical::BYTE_ARRAY,
                    Some(LogicalType::String),
                    Repetition::OPTIONAL,
                ),
                Cells::Whole(_) => (Physical::INT64, None, Repetition::REQUIRED),
                Cells::Number(..) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
            };
            let field = Type::primitive_type_builder(name, physical);
            let field = field.with_logical_type(logical).with_repetition(repetition);
            field.build().map(Arc::new)
        });
        let fields: Vec<_> = fields.collect::<Result<_, _>>()?;
        Type::group_type_builder("table")
            .with_fields(fields)
            .build()
    }

    /// Writes the rows so far as a row group.
    fn flush(&mut self) -> Result<(), ParquetError> {
        if let Some(out) = self.out.take() {
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
            let schema = Arc::new(self.schema()?);
            self.writer = Some(SerializedFileWriter::new(
                out,
                schema,
                Arc::new(properties.build()),
            )?);
        }
        let Some(writer) = self.writer.as_mut().filter(|_| self.rows > 0) else {
            return Ok(());
        };
        let mut group = writer.next_row_group()?;
        for (_, cells) in &mut self.columns {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            match cells {
                Cells::Unknown => {}
                Cells::Text(values, known) => {
                    let column = column.typed::<ByteArrayType>();
                    column.write_batch(values, Some(known), None)?;
                    values.clear();
                    known.clear();
                }
                Cells::Whole(values) => {
                    column
                        .typed::<Int64Type>()
                        .write_batch(values, None, None)?;
                    values.clear();
                }
                Cells::Number(values, known) => {
                    let column = column.typed::<DoubleType>();
                    column.write_batch(values, Some(known), None)?;
                    values.clear();
                    known.clear();
                }
            }
            column.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> TableSink for ParquetTable<W> {
    fn begin(&mut self, columns: &[&str]) {
        let column = |name: &&str| ((*name).to_owned(), Cells::Unknown);
        self.columns = columns.iter().map(column).collect();
    }

    fn text(&mut self, value: Option<&str>) {
        let cells = self.next();
        if matches!(cells, Cells::Unknown) {
            *cells = Cells::Text(Vec::new(), Vec::new());
        }
        if let Cells::Text(values, known) = cells {
            known.push(value.is_some().into());
            values.extend(value.map(ByteArray::from));
        }
    }

    fn whole(&mut self, value: u64) {
        let cells = self.next();
        if matches!(cells, Cells::Unknown) {
            *cells = Cells::Whole(Vec::new());
        }
        if let Cells::Whole(values) = cells {
            values.push(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    fn number(&mut self, value: Option<f64>) {
        let cells = self.next();
        if matches!(cells, Cells::Unknown) {
            *cells = Cells::Number(Vec::new(), Vec::new());
        }
        if let Cells::Number(values, known) = cells {
            known.push(value.is_some().into());
            values.extend(value);
        }
    }

    fn end_row(&mut self) -> Result<(), WriteError> {
        self.rows += 1;
        if self.rows >= ROWS {
            self.flush().map_err(failed)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), WriteError> {
        self.flush().map_err(failed)?;
        if let Some(mut writer) = self.writer.take() {
            writer.finish().map_err(failed)?;
        }
        Ok(())
    }
}
