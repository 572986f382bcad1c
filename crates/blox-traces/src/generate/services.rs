//! Services with a daily need, beside the jobs of another workload.

use crate::source::Source;
use crate::table::{Column, Table};
use blox_core::{Curve, Extras, GpuCount, JobSpec, Seconds, Time};
use blox_workloads::{Notices, Workload, WorkloadError};
use serde::Deserialize;
use std::path::Path;

const DAY: Seconds = Seconds::new(86_400.0);

/// Returns a daily need with a step each hour: `least` copies 12 hours from the peak, `most` at the
/// peak, and whole numbers near a cosine between them.
///
/// ```
/// use blox_core::Time;
/// use blox_traces::generate::sine_need;
/// let need = sine_need(1.0, 5.0, 15.0).expect("numbers of copies");
/// let at = |hour: f64| need.at(Time::new(3600.0 * hour));
/// assert_eq!([at(3.0), at(9.0), at(15.0), at(39.9)], [1.0, 3.0, 5.0, 5.0]);
/// ```
///
/// Returns `None` unless `most` is at least `least` and both are finite and not negative.
pub fn sine_need(least: f64, most: f64, peak_h: f64) -> Option<Curve> {
    let hourly: Vec<f64> = (0..24)
        .map(|hour| {
            let angle = std::f64::consts::TAU * (f64::from(hour) - peak_h) / 24.0;
            // Rounded first, so that the half way is the same on both sides of the peak.
            let part = (0.5 + 0.5 * libm::cos(angle)) * 1e9;
            (least + (most - least) * part.round() / 1e9).round()
        })
        .collect();
    hourly_need(&hourly).filter(|_| most >= least && least >= 0.0)
}

/// Returns a daily need of these copies in the hours from midnight; `None` unless they are 24 finite
/// numbers that are not negative.
pub fn hourly_need(copies: &[f64]) -> Option<Curve> {
    let hour = |(hour, copies): (usize, &f64)| (Seconds::from_hours(hour as f64), *copies);
    let steps = copies.iter().enumerate().map(hour);
    Curve::new(DAY, steps).filter(|_| copies.len() == 24)
}

/// Reads a need from a CSV file with the columns `time_s` and `copies`: from each second on, ascending
/// from 0, this number of copies is needed. The steps repeat after `period`.
///
/// # Errors
/// The file cannot be read, or a row is invalid.
pub fn need_of_file(path: impl AsRef<Path>, period: Seconds) -> Result<Curve, WorkloadError> {
    #[derive(Deserialize)]
    struct Row {
        time_s: Column<Seconds>,
        copies: Column<f64>,
    }
    let mut table = Table::open(&Source::at(path.as_ref())?)?;
    let row: Row = table.bind(&[], &mut Notices::default())?;
    let mut steps: Vec<(Seconds, f64)> = Vec::new();
    while table.advance()? {
        let (at, copies) = (table.get(row.time_s)?, table.get(row.copies)?);
        let ascends = match steps.last() {
            None => at == Seconds::ZERO,
            Some((last, _)) => at > *last && at < period,
        };
        if !ascends {
            let expected = format!("seconds ascending from 0 to below the period of {period} s");
            return Err(table.wrong(row.time_s, &expected));
        }
        steps.push((at, copies));
    }
    let end = || table.wrong(row.time_s, "a row for second 0");
    Curve::new(period, steps).ok_or_else(end)
}

/// A number of equal services that are submitted at time 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Services {
    /// Number of services.
    pub count: u64,
    /// Number of GPUs of each copy, at least 1.
    pub gpus: GpuCount,
    /// Number of copies that each service needs.
    pub need: Curve,
    /// Time from the submission to the end.
    pub lives: Seconds,
    left: u64,
}

impl Services {
    /// Creates a number of services.
    pub fn new(count: u64, gpus: GpuCount, need: Curve, lives: Seconds) -> Self {
        Services {
            count,
            gpus,
            need,
            lives,
            left: count,
        }
    }
}

impl Workload for Services {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        let nth = self.count - self.left;
        self.left = left;
        let extras = Extras {
            need: Some(self.need.clone()),
            ..Extras::default()
        };
        let service = JobSpec::new(Time::ZERO, self.gpus, self.lives);
        Ok(Some(
            service.named(format!("service-{nth}")).with_extras(extras),
        ))
    }

    fn is_finite(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        let (gpus, hours) = (self.gpus, self.lives.hours());
        let steps = self.need.steps().iter().map(|(_, copies)| *copies);
        let (least, most) = steps.fold((f64::MAX, 0.0), |(a, b), n| (n.min(a), n.max(b)));
        format!(
            "{} services of {least} to {most} copies of {gpus} GPUs for {hours} h",
            self.count
        )
    }
}

/// The jobs of two workloads, in order of submission. At one time, the jobs of the second come first.
pub struct Beside<A, B> {
    jobs: A,
    others: B,
    next: [Option<JobSpec>; 2],
    begun: bool,
}

impl<A: Workload, B: Workload> Beside<A, B> {
    /// Creates the jobs of both workloads.
    pub fn new(jobs: A, others: B) -> Self {
        Beside {
            jobs,
            others,
            next: [None, None],
            begun: false,
        }
    }
}

impl<A: Workload, B: Workload> Workload for Beside<A, B> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        if !std::mem::replace(&mut self.begun, true) {
            self.next = [self.jobs.next_job()?, self.others.next_job()?];
        }
        let [a, b] = &self.next;
        let first = match (a, b) {
            (Some(a), Some(b)) => a.submit < b.submit,
            (a, _) => a.is_some(),
        };
        match first {
            true => Ok(std::mem::replace(&mut self.next[0], self.jobs.next_job()?)),
            false => match self.next[1].take() {
                None => Ok(None),
                job => {
                    self.next[1] = self.others.next_job()?;
                    Ok(job)
                }
            },
        }
    }

    fn is_finite(&self) -> bool {
        self.jobs.is_finite() && self.others.is_finite()
    }

    fn notices(&self) -> &Notices {
        self.jobs.notices()
    }

    fn describe(&self) -> String {
        format!(
            "{}, beside {}",
            self.jobs.describe(),
            self.others.describe()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_workloads::{Jobs, collect};

    #[test]
    fn jobs_of_both_workloads_are_in_order() {
        let job = |at: f64| JobSpec::new(Time::new(at), GpuCount(1), Seconds::new(60.0));
        let need = hourly_need(&[2.0; 24]).unwrap();
        let services = Services::new(2, GpuCount(4), need, DAY);
        let jobs = Jobs::new(vec![job(0.0), job(5.0)]);
        let all = collect(&mut Beside::new(jobs, services)).unwrap();
        let names: Vec<_> = all.iter().map(|job| job.name.as_deref()).collect();
        assert_eq!(names, [Some("service-0"), Some("service-1"), None, None]);
        assert_eq!(all[0].need_at(Time::ZERO), Some(GpuCount(8)));
    }

    #[test]
    fn the_need_of_a_file_is_checked() {
        let dir = std::env::temp_dir().join(format!("blox-need-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("need.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            need_of_file(&path, Seconds::new(100.0))
        };
        let need = read("time_s,copies\n0,2\n50,3.5\n").unwrap();
        assert_eq!(need.at(Time::new(150.0)), 3.5);
        for (text, expected) in [
            ("time_s,copies\n", "second 0"),
            ("time_s,copies\n1,2\n", "ascending from 0"),
            ("time_s,copies\n0,2\n100,3\n", "below the period of 100 s"),
            ("time_s,copies\n0,-2\n", "copies is `-2`"),
            ("time_s\n0\n", "copies"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
