//! Parquet tables: reads a trace as the cells of a table, and writes tables of results.
//!
//! | Task | Start with |
//! |---|---|
//! | Write results | [`ParquetTable`] |
//! | Read a file | [`read`] |
//! | Recognise a file | [`MAGIC`] |
//! | Write the same table as CSV | [`CsvTable`](blox_table::CsvTable) |

#![forbid(unsafe_code)]

mod read;
mod write;

pub use read::read;
pub use write::ParquetTable;

/// The first bytes of each file.
pub const MAGIC: &[u8; 4] = b"PAR1";

#[cfg(test)]
mod tests {
    use super::*;
    use blox_table::{CsvTable, TableSink};
    use std::fs::File;

    /// Writes a table, reads it and returns it as CSV.
    fn there_and_back(columns: &[&str], fill: impl Fn(&mut dyn TableSink)) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut table = ParquetTable::new(file.reopen().unwrap());
        table.begin(columns);
        fill(&mut table);
        table.finish().unwrap();
        let mut text = Vec::new();
        let file = File::open(file.path()).unwrap();
        read(file, &mut CsvTable::new(&mut text)).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_table_reads_back_to_the_same_cells() {
        let text = there_and_back(&["job_id", "gpus", "jct_s"], |table| {
            for (id, gpus, jct) in [
                (Some("a, b"), 4, Some(0.1 + 0.2)),
                (None, 1, None),
                (Some("c"), 2, Some(3600.0)),
            ] {
                table.text(id);
                table.whole(gpus);
                table.number(jct);
                table.end_row().unwrap();
            }
        });
        let expected = "job_id,gpus,jct_s\n\"a, b\",4,0.30000000000000004\n,1,\nc,2,3600\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn many_rows_are_several_groups() {
        let text = there_and_back(&["n"], |table| {
            for n in 0..150_000 {
                table.whole(n);
                table.end_row().unwrap();
            }
        });
        assert_eq!(text.lines().count(), 150_001);
        assert!(text.ends_with("\n149999\n"));
    }

    #[test]
    fn a_table_without_rows_has_its_columns() {
        assert_eq!(there_and_back(&["a", "b"], |_| {}), "a,b\n");
    }

    #[test]
    fn durations_are_read_in_seconds() {
        use parquet::data_type::{Int32Type, Int64Type};
        use parquet::file::metadata::KeyValue;
        use parquet::file::properties::WriterProperties;
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::parser::parse_message_type;
        use std::sync::Arc;

        // As pandas writes a column of `timedelta64[us]`, beside plain integers and times of day.
        let schema = "message schema { optional int64 runtime; required int64 memory;
            required int32 at (TIME_MILLIS); required int64 nanos (TIME(NANOS,true));
            required int64 submit (TIMESTAMP(NANOS,false)); }";
        let pandas = r#"{"columns": [
            {"name": "runtime", "field_name": "runtime", "numpy_type": "timedelta64[us]"},
            {"name": "memory", "field_name": "memory", "numpy_type": "int64"}]}"#;
        let pandas = KeyValue::new("pandas".to_owned(), pandas.to_owned());
        let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![pandas]));
        let file = tempfile::NamedTempFile::new().unwrap();
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let out = file.reopen().unwrap();
        let mut writer =
            SerializedFileWriter::new(out, schema, Arc::new(properties.build())).unwrap();
        let mut rows = writer.next_row_group().unwrap();
        let longs: [(&[i64], Option<&[i16]>); 5] = [
            (&[400_500_000], Some(&[1, 0])),
            (&[7, 8], None),
            (&[], None),
            (&[1_500_000_000, 0], None),
            (&[1_600_000_000_000_000_000, 0], None),
        ];
        for (values, levels) in longs {
            let mut column = rows.next_column().unwrap().unwrap();
            match values {
                [] => column
                    .typed::<Int32Type>()
                    .write_batch(&[1500, 60_000], None, None),
                longs => column.typed::<Int64Type>().write_batch(longs, levels, None),
            }
            .unwrap();
            column.close().unwrap();
        }
        rows.close().unwrap();
        writer.close().unwrap();
        let mut text = Vec::new();
        read(
            File::open(file.path()).unwrap(),
            &mut CsvTable::new(&mut text),
        )
        .unwrap();
        let expected = "runtime,memory,at,nanos,submit\n\
            400.5,7,1.5,1.5,2020-09-13 12:26:40.000000\n\
            ,8,60,0,1970-01-01 00:00:00.000000\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn other_bytes_are_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"PAR1 and no more").unwrap();
        let file = File::open(file.path()).unwrap();
        let error = read(file, &mut CsvTable::new(Vec::new())).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
}
