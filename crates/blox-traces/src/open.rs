//! Opens workload files.

use super::file::FileWorkload;
use super::format::ReadOptions;
use super::formats::Format;
use super::trace::Trace;
use blox_workloads::WorkloadError;
use std::path::Path;

/// Opens a workload file, plain or gzip. If no format is given, it is detected from the first line.
/// If the first line is neither a header nor JSON, the file name decides.
///
/// # Errors
/// If the file cannot be read, its format is unknown, or a line is not a valid job.
pub fn open_file(
    path: impl AsRef<Path>,
    format: Option<Format>,
) -> Result<FileWorkload, WorkloadError> {
    let columns = None;
    Trace::open(path, &ReadOptions { format, columns })?.jobs()
}

#[cfg(test)]
pub(crate) fn read_bytes(
    name: &str,
    bytes: &[u8],
    format: Format,
) -> Result<FileWorkload, WorkloadError> {
    let options = ReadOptions {
        format: Some(format),
        columns: None,
    };
    Trace::of_bytes(name, bytes, &options)?.jobs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_workloads::Workload as _;
    use std::io::Write;

    fn open_text(name: &str, text: &[u8]) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let place = format!("{}/", dir.path().display());
        match open_file(&path, None) {
            Ok(workload) => Ok(workload.describe().replace(&place, "")),
            Err(e) => Err(e.to_string().replace(&place, "")),
        }
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn a_damaged_parquet_table_is_an_error() {
        let error = open_text("jobs.parquet", b"PAR1\x15\x04 and no more").unwrap_err();
        let start = "jobs.parquet: cannot be read: the Parquet table is damaged: ";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn other_encodings_are_named() {
        let utf16: Vec<u8> = "submit_s,gpus\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        for (bytes, found) in [
            (&[&[0xff, 0xfe][..], &utf16].concat()[..], "text in UTF-16"),
            #[cfg(not(feature = "parquet"))]
            (b"PAR1\x15\x04", "a Parquet table"),
            (b"PK\x03\x04\x14", "a zip archive or a spreadsheet"),
            (b"BZh91AY", "compressed by bzip2"),
            (b"\xfd7zXZ\x00\x00", "compressed by xz"),
            (b"\x28\xb5\x2f\xfd\x24", "compressed by zstd"),
            (b" <!DOCTYPE html>\n", "a page in HTML or XML"),
            (b"\x7fELF\x02\x01\x01\x00 and much more text", "binary data"),
            (b"\x9e\xc3\x17\xfe\x88ab\xf1", "binary data"),
        ] {
            let error = open_text("jobs.csv", bytes).unwrap_err();
            let start = format!("jobs.csv: the file is {found}, expected ");
            assert!(error.starts_with(&start), "{error}");
        }
        let archive = [
            b"data/jobs.csv",
            &[0; 244][..],
            b"ustar  ",
            &[0; 248],
            b"submit_s",
        ]
        .concat();
        let error = open_text("jobs.tar.gz", &archive).unwrap_err();
        let expected = "a tar archive, expected a file of the archive; `tar -xf FILE` unpacks it";
        assert_eq!(error, format!("jobs.tar.gz: the file is {expected}"));
        let latin = b"submit_s,gpus,duration_s,user\n0,1,60,J\xfcrgen\n";
        assert_eq!(
            open_text("jobs.csv", latin).unwrap_err(),
            "jobs.csv:2: user is `J\\u{fffd}rgen`, expected text in UTF-8; `iconv -f LATIN1 -t UTF-8 \
             FILE` converts other text"
        );
    }

    #[test]
    fn seconds_since_1970_are_noticed_once() {
        let notices = |first: &str| {
            let text = format!("submit_s,gpus,duration_s\n{first},1,60\n1700000100,1,60\n");
            let options = ReadOptions::default();
            let trace = Trace::of_bytes("t.csv", text.as_bytes(), &options).unwrap();
            let mut jobs = trace.jobs().unwrap();
            while jobs.next_job().unwrap().is_some() {}
            Vec::from_iter(jobs.notices().iter().map(ToString::to_string))
        };
        let late = "the first submission is at 1700000000 s, decades after the start: seconds since \
            1970 are read by --map, as in submit=COLUMN:epoch (once, on line 2)";
        assert_eq!(notices("1700000000"), [late]);
        assert_eq!(notices("0"), [""; 0]);
    }

    #[test]
    fn written_durations_have_hints() {
        let expected = |cell: &str| {
            let text = format!("submit_s,gpus,duration_s\n0,1,\"{cell}\"\n");
            let error = open_text("jobs.csv", text.as_bytes()).unwrap_err();
            let (_, expected) = error.split_once("seconds, at least 0").unwrap();
            expected.to_owned()
        };
        let clock = "; --map reads a clock, as in duration=COLUMN:clock";
        let grouped = ", without a separator of thousands";
        for (cell, hint) in [
            ("01:30:00", clock),
            ("1-02:30:00", clock),
            ("90:00", clock),
            ("1,200", grouped),
            ("1,200,000.5", grouped),
            ("1,20", ""),
            ("a:b:c", ""),
            ("-5", ""),
            ("100 s", ""),
        ] {
            assert_eq!(expected(cell), hint, "{cell}");
        }
    }

    #[test]
    fn date_in_a_column_of_seconds_leads_to_the_map() {
        let dates = b"submit_s,gpus,duration_s\n2024-01-02 10:00:00,1,60\n";
        assert_eq!(
            open_text("jobs.csv", dates).unwrap_err(),
            "jobs.csv:2: submit_s is `2024-01-02 10:00:00`, expected a number of seconds, at least 0; \
             --map reads dates, as in submit=COLUMN:date"
        );
    }

    #[test]
    fn list_of_types_with_commas_is_refused() {
        let types = b"submit_s,gpus,duration_s,gpu_types\n0,1,60,\"v100,a100\"\n";
        assert_eq!(
            open_text("jobs.csv", types).unwrap_err(),
            "jobs.csv:2: gpu_types is `v100,a100`, expected names joined by `;`, or a JSON array"
        );
    }

    #[test]
    fn first_line_determines_the_format() {
        for (name, text, expected) in [
            ("a", "submit_s,gpus,duration_s\n0,1,1\n", "a (csv, 1 job)"),
            ("a", "gpus,\"submit_s\",duration_s", "a (csv, 0 jobs)"),
            (
                "a",
                "\u{feff}{\"submit\":0,\"gpus\":1,\"work\":{\"iterations\":1,\"rate\":1}}",
                "a (jsonl, 1 job)",
            ),
            (
                "a.csv",
                "timestamp,duration,num_gpus,gpu_time,cluster\r\n",
                "a.csv (philly, 0 jobs)",
            ),
            (
                "jobs.csv",
                "job_id,arrival_s,total_iteration,iteration_time_s,num_gpus,model_class_id\n",
                "jobs.csv (blox-jobs, 0 jobs)",
            ),
            ("a.jsonl", "\n", "a.jsonl (jsonl, 0 jobs)"),
            ("a", "\n[\n]\n", "a (philly-log, 0 jobs)"),
            (
                "a",
                "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration",
                "a (itp, 0 jobs)",
            ),
            (
                "jobs.txt",
                "job_id num_gpu submit_time iterations model_name duration interval",
                "jobs.txt (tiresias, 0 jobs)",
            ),
            (
                "a",
                "job_id,gpu_num,submit_time,duration,state",
                "a (helios, 0 jobs)",
            ),
            (
                "pai_task_table.csv",
                "j,worker,1.0,Terminated,5.0,6.0,100.0,1.0,100.0,T4",
                "pai_task_table.csv (pai, 1 job)",
            ),
            (
                "a",
                "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time",
                "a (openb, 0 jobs)",
            ),
            (
                "a",
                "job_name,gpu_request,worker_num,submit_time,duration,job_type",
                "a (spot, 0 jobs)",
            ),
            (
                "a",
                "gmt_create,predict_status,exec_time_seconds",
                "a (genai, 0 jobs)",
            ),
            (
                "a",
                "JobID|Submit|Elapsed|State|AllocTRES",
                "a (slurm, 0 jobs)",
            ),
        ] {
            assert_eq!(open_text(name, text.as_bytes()), Ok(expected.to_owned()));
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), Default::default());
            gz.write_all(text.as_bytes()).unwrap();
            let gz = gz.finish().unwrap();
            assert_eq!(open_text(name, &gz), Ok(expected.to_owned()));
        }
    }

    #[test]
    fn a_file_of_no_format_is_one_sentence() {
        assert_eq!(
            open_text("notes.txt", b"hello\nworld\n").unwrap_err(),
            "notes.txt: the format is unknown, the first line is `hello`, expected --format \
             NAME, --map for a table of other columns, or a header with submit_s and gpus (csv), a JSON object (jsonl), a header with timestamp and \
             num_gpus (philly), a JSON array (philly-log), a header with submission_time and \
             num_iteration (itp), a header with gpu_num and submit_time and type (acme), a header with gpu_num and submit_time (helios), a header with \
             job_name and plan_gpu (pai), a header with gpu_milli and creation_time (openb), a \
             header with gpu_request and worker_num and job_type (spot), a header with gmt_create and exec_time_seconds (genai), a header with JobID and Submit (slurm), a header with id_job and time_submit (supercloud), \
             comments that begin with ; (swf), a header with arrival_s and total_iteration \
             (blox-jobs), a header with num_gpu and submit_time and duration (tiresias), a header with application \
             and num_replicas (sia)"
        );
        assert_eq!(
            open_text("a.csv", b"").unwrap_err(),
            "a.csv: the file is empty, expected a header or a job"
        );
    }

    #[test]
    fn a_truncated_gzip_is_found_when_it_is_opened() {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        gz.write_all(b"submit_s,gpus,duration_s\n").unwrap();
        for i in 0..20_000 {
            writeln!(gz, "{i},1,{}.5", (i * 7919) % 1000).unwrap();
        }
        let whole = gz.finish().unwrap();
        assert_eq!(
            open_text("a.csv.gz", &whole[..whole.len() / 2]).unwrap_err(),
            "a.csv.gz: the gzip data ends too early, the file is truncated"
        );
        assert_eq!(
            open_text("a.csv.gz", &whole).unwrap(),
            "a.csv.gz (csv, 20000 jobs)"
        );
    }

    #[test]
    fn formats_have_names() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!(
            "parquet".parse::<Format>().unwrap_err().to_string(),
            "`parquet` is no workload format, expected one of csv, jsonl, philly, philly-log, itp, acme, helios, \
             pai, openb, spot, genai, slurm, supercloud, swf, blox-jobs, tiresias, synergy, gavel, sia"
        );
        let slip = "phily".parse::<Format>().unwrap_err().to_string();
        assert!(slip.ends_with("; did you mean `philly`?"), "{slip}");
    }
}
