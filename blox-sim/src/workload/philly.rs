//! The Microsoft Philly trace as one CSV row a job:
//! `timestamp,duration,num_gpus,gpu_time,cluster`.
//!
//! `timestamp` is `YYYY-MM-DD HH:MM:SS` without a zone, `duration` is in
//! seconds, `cluster` is the virtual cluster. Rows are in no order; the
//! earliest job is submitted at 0. `gpu_time` is only compared with the
//! product of duration and GPUs; the column may be missing.

use super::file::{FileWorkload, SharedNames};
use super::source::Source;
use super::table::Table;
use super::{NoticeKind, Notices, WorkloadError};
use blox_core::{GpuCount, JobSpec, Seconds, Time};
use std::path::Path;

/// Reads a Philly trace, plain or gzip.
///
/// # Errors
/// If the file cannot be read, lacks a column, or has a row with a timestamp
/// or number that is none.
pub fn read(path: impl AsRef<Path>) -> Result<FileWorkload, WorkloadError> {
    read_source(&Source::at(path.as_ref())?)
}

pub(crate) fn read_source(source: &Source) -> Result<FileWorkload, WorkloadError> {
    let mut notices = Notices::default();
    let mut table = Table::open(source)?;
    let [timestamp, duration, num_gpus, cluster] =
        table.require(["timestamp", "duration", "num_gpus", "cluster"])?;
    let gpu_time = table.find("gpu_time");
    let known = ["timestamp", "duration", "num_gpus", "gpu_time", "cluster"];
    table.note_unknown(&known, &mut notices);

    let mut names = SharedNames::default();
    let mut jobs: Vec<JobSpec> = Vec::new();
    let mut moments: Vec<i64> = Vec::new();
    while table.advance()? {
        let moment = parse_timestamp(table.text(timestamp).trim())
            .ok_or_else(|| table.wrong(timestamp, "a moment such as 2017-10-09 07:01:55"))?;
        if moments.last().is_some_and(|last| moment < *last) {
            notices.add(NoticeKind::OutOfOrder, table.line());
        }
        let seconds = table.number(duration, |x| x >= 0.0, "a number of seconds, at least 0")?;
        let gpus = table.count(num_gpus)?;
        if seconds == 0.0 {
            notices.add(NoticeKind::NoWork, table.line());
        }
        if let Some(gpu_time) = gpu_time {
            let product = seconds * f64::from(gpus);
            let told = table.number(gpu_time, |_| true, "a number of GPU seconds")?;
            if (told - product).abs() > 1e-6 * product.max(1.0) {
                notices.add(NoticeKind::GpuTimeDiffers, table.line());
            }
        }
        let mut job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(seconds));
        let vc = table.text(cluster);
        job.virtual_cluster = (!vc.is_empty()).then(|| names.get(vc));
        jobs.push(job);
        moments.push(moment);
    }
    let first = moments.iter().copied().min().unwrap_or(0);
    for (job, moment) in jobs.iter_mut().zip(moments) {
        job.submit = Time::new((moment - first) as f64);
    }
    Ok(FileWorkload::sorted(source, "philly", jobs, notices))
}

/// Seconds since 1970 of `YYYY-MM-DD HH:MM:SS`.
fn parse_timestamp(text: &str) -> Option<i64> {
    let b = text.as_bytes();
    let shape = b.len() == 19
        && [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':')]
            .iter()
            .all(|&(i, c)| b[i] == c);
    if !shape {
        return None;
    }
    let number = |from: usize, to: usize| {
        b[from..to].iter().try_fold(0i64, |n, c| {
            c.is_ascii_digit().then(|| n * 10 + i64::from(c - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_in_month).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Years begin in March here, so that a leap day is the last day of its year.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days =
        365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day
            - 719_469;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Workload, collect};

    fn read_text(text: &str) -> Result<FileWorkload, WorkloadError> {
        read_source(&Source::of("philly.csv", text.as_bytes()))
    }

    #[test]
    fn rows_are_sorted_from_the_earliest_and_ties_keep_their_order() {
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
                "not in order of submission: sorted (1 times, first on line 3)",
                "no work: kept as a job that ends at once (1 times, first on line 4)",
                "GPU time differs from duration times GPUs: ignored (1 times, first on line 4)",
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
            "philly.csv: line 2: timestamp is `2017-02-29 07:01:55`, expected a moment such as 2017-10-09 07:01:55"
        );
        assert_eq!(
            message("2017-02-28 07:01:55,-1,1,66.0,b"),
            "philly.csv: line 2: duration is `-1`, expected a number of seconds, at least 0"
        );
        assert_eq!(
            message("2017-02-28 07:01:55,1,0,66.0,b"),
            "philly.csv: line 2: num_gpus is `0`, expected a whole number of at least 1"
        );
        assert_eq!(
            read_text("timestamp,gpus\n").unwrap_err().to_string(),
            "philly.csv: line 1: the columns duration, num_gpus, cluster are missing, found the columns timestamp, gpus"
        );
    }

    #[test]
    fn timestamps_are_seconds_since_1970() {
        for (text, seconds) in [
            ("1970-01-01 00:00:00", Some(0)),
            ("2000-02-29 12:00:00", Some(951_825_600)),
            ("2017-10-09 07:01:55", Some(1_507_532_515)),
            ("0001-01-01 00:00:00", Some(-62_135_596_800)),
            ("2100-02-29 00:00:00", None),
            ("2017-10-09 24:00:00", None),
            ("2017-10-09T07:01:55", None),
            ("2017-1-09 07:01:555", None),
            ("２017-10-09 07:01", None),
            ("", None),
        ] {
            assert_eq!(parse_timestamp(text), seconds, "{text}");
        }
    }
}
