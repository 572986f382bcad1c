//! The Microsoft Philly trace as CSV, one row for each job:
//! `timestamp,duration,num_gpus,gpu_time,cluster`.
//!
//! `timestamp` is `YYYY-MM-DD HH:MM:SS` without a zone, `duration` is in seconds, `cluster` is the
//! virtual cluster. Rows are not sorted; the earliest job is submitted at 0. `gpu_time` may be
//! missing; it is only compared with the product of duration and GPUs.

use crate::cell::Date;
use crate::rows::{NoJob, Opened, jobs, makes_sense};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::{GpuCount, JobSpec, Seconds, Time};
use blox_workloads::{NoticeKind, Notices};
use serde::Deserialize;

/// A row of the trace.
#[derive(Deserialize)]
struct Row {
    timestamp: Column<Date>,
    duration: Column<Seconds>,
    num_gpus: Column<GpuCount>,
    cluster: Column,
    gpu_time: Option<Column>,
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind(&[], notices)?;
    let mut names = SharedNames::default();
    jobs(table, makes_sense, move |t, notices| {
        job(t, &row, &mut names, notices)
    })
}

fn job(
    t: &Table,
    row: &Row,
    names: &mut SharedNames,
    notices: &mut Notices,
) -> Result<JobSpec, NoJob> {
    let submit = Time::new(t.get(row.timestamp)?.0);
    let (duration, gpus) = (t.get(row.duration)?, t.get(row.num_gpus)?);
    if let Some(gpu_time) = row.gpu_time {
        let product = duration.secs() * f64::from(gpus.get());
        let stated = t.number(gpu_time, |_| true, "a number of GPU seconds")?;
        if (stated - product).abs() > 1e-6 * product.max(1.0) {
            notices.add(NoticeKind::GpuTimeDiffers, t.line());
        }
    }
    let mut job = JobSpec::new(submit, gpus, duration);
    job.virtual_cluster = names.at(t, Some(row.cluster));
    Ok(job)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,b
2017-10-09 06:13:03,2951.0,8,23608.0,a
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{FileWorkload, Format};
    use blox_workloads::WorkloadError;
    use blox_workloads::{Workload, collect};

    fn read_text(text: &str) -> Result<FileWorkload, WorkloadError> {
        read_bytes("philly.csv", text.as_bytes(), Format::Philly)
    }

    #[test]
    fn rows_are_sorted_by_time_and_ties_keep_their_order() {
        let mut workload = read_text(
            "timestamp,duration,num_gpus,gpu_time,cluster\n\
             2017-10-09 07:01:55,66.0,1,66.0,b\n\
             2017-10-09 06:13:03,2951.0,8,23608.0,a\n\
             2017-10-09 07:01:55,0,1,7.0,a\n\n",
        )
        .unwrap();
        assert_eq!(workload.describe(), "philly.csv (philly, 3 jobs)");
        let notices: Vec<_> = workload.notices().iter().map(ToString::to_string).collect();
        assert_eq!(
            notices,
            [
                "not in order of submission: sorted (once, on line 3)",
                "GPU time differs from duration times GPUs: ignored (once, on line 4)",
                "no work: kept as a job that ends at once (once, on line 4)",
            ]
        );
        let job = |submit, gpus, duration, vc: &str| {
            JobSpec::new(Time::new(submit), GpuCount(gpus), Seconds::new(duration))
                .in_virtual_cluster(vc)
        };
        assert_eq!(
            collect(&mut workload).unwrap(),
            [
                job(0.0, 8, 2951.0, "a"),
                job(2932.0, 1, 66.0, "b"),
                job(2932.0, 1, 0.0, "a"),
            ]
        );
    }

    #[test]
    fn a_bad_row_names_line_and_field() {
        let message = |row: &str| {
            read_text(&format!(
                "timestamp,duration,num_gpus,gpu_time,cluster\n{row}\n"
            ))
            .unwrap_err()
            .to_string()
        };
        assert_eq!(
            message("2017-02-29 07:01:55,66.0,1,66.0,b"),
            "philly.csv:2: timestamp is `2017-02-29 07:01:55`, expected a date such as 2017-10-09 07:01:55"
        );
        assert_eq!(
            message("2017-02-28 07:01:55,-1,1,66.0,b"),
            "philly.csv:2: duration is `-1`, expected a number of seconds, at least 0"
        );
        assert_eq!(
            message("2017-02-28 07:01:55,1,0,66.0,b"),
            "philly.csv:2: num_gpus is `0`, expected a whole number of at least 1"
        );
        assert_eq!(
            read_text("timestamp,gpus\n").unwrap_err().to_string(),
            "philly.csv:1: the columns duration, num_gpus, cluster are missing, found the columns timestamp, gpus"
        );
    }
}
