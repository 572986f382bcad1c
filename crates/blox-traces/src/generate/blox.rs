//! The workload of the Blox simulator, regenerated from its seed.
//!
//! In the published runs (exponential durations, single-GPU jobs), the trace only states the number
//! of jobs. Durations and arrivals come from CPython's random generator, so no trace is needed to
//! repeat them.

use super::pow10::pow10;
use blox_core::{ClusterSpec, GpuCount, JobSpec, Seconds, Time};
use blox_cpython::Random;
use blox_workloads::Measure;
use blox_workloads::{Workload, WorkloadError, WorkloadSource};

/// The published workload of Blox: endless, streamed in constant memory.
///
/// ```
/// use blox_traces::generate::blox::BloxWorkload;
/// use blox_workloads::Workload;
/// let mut jobs = BloxWorkload::new(7.0)?;
/// let first = jobs.next_job()?.unwrap();
/// assert_eq!(first.submit.secs(), 75.0);
/// assert_eq!(first.duration().secs(), 35424.3471980879);
/// # Ok::<(), blox_workloads::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct BloxWorkload {
    jobs_per_hour: f64,
    seed: u64,
    durations: Random,
    arrivals: Random,
    now: f64,
}

impl BloxWorkload {
    /// Creates the workload with this many jobs per hour and seed 1, as seen by all runs of a sweep
    /// after the first. In these runs the parsed trace was cached on disk, so arrivals begin at the
    /// first draw of the seed.
    ///
    /// # Errors
    /// If the load is not a finite number above 0.
    pub fn new(jobs_per_hour: f64) -> Result<Self, WorkloadError> {
        if !(jobs_per_hour.is_finite() && jobs_per_hour > 0.0) {
            return Err(WorkloadError::Parameter {
                field: "load",
                found: jobs_per_hour.to_string(),
                expected: "a finite number of jobs per hour above 0",
            });
        }
        Ok(BloxWorkload {
            jobs_per_hour,
            seed: 1,
            durations: Random::new(1),
            arrivals: Random::new(1),
            now: 0.0,
        })
    }

    /// Sets the seed and restarts the workload.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self.durations = Random::new(seed);
        self.arrivals = Random::new(seed);
        self.now = 0.0;
        self
    }
}

impl Workload for BloxWorkload {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        // The order of draws and of operations is part of the numbers.
        let exponent = if self.durations.random() >= 0.8 {
            self.durations.uniform(3.0, 4.0)
        } else {
            self.durations.uniform(1.5, 3.0)
        };
        let duration = 60.0 * pow10(exponent);
        let gap = -libm::log(1.0 - self.arrivals.random()) / self.jobs_per_hour * 60.0 * 60.0;
        self.now += gap.ceil();
        // The original draws a model here and never uses it.
        self.arrivals.randint(0, 8);
        Ok(Some(JobSpec::new(
            Time::new(self.now),
            GpuCount(1),
            Seconds::new(duration),
        )))
    }

    fn describe(&self) -> String {
        let jobs = if self.jobs_per_hour == 1.0 {
            "job"
        } else {
            "jobs"
        };
        format!(
            "Blox workload, {} {jobs} per hour, seed {}",
            self.jobs_per_hour, self.seed
        )
    }
}

impl WorkloadSource for BloxWorkload {
    fn open(&self, _: &ClusterSpec) -> Result<Box<dyn Workload>, WorkloadError> {
        Ok(Box::new(self.clone().with_seed(self.seed)))
    }

    fn jobs_per_hour(&self, _: &ClusterSpec) -> Option<f64> {
        Some(self.jobs_per_hour)
    }

    /// The jobs of the published comparison.
    fn measured(&self) -> Measure {
        Measure::Ids(3000, 4000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::Path;

    fn take(mut workload: BloxWorkload, n: usize) -> (Vec<f64>, Vec<f64>) {
        (0..n)
            .map(|_| workload.next_job().unwrap().unwrap())
            .map(|job| (job.submit.secs(), job.duration().secs()))
            .unzip()
    }

    // The expected values are from the published rules, run by CPython 3.11.
    #[test]
    fn first_jobs_follow_the_rules() {
        let (submits, durations) = take(BloxWorkload::new(7.0).unwrap(), 4);
        assert_eq!(submits, [75.0, 227.0, 964.0, 1507.0]);
        assert_eq!(
            durations,
            [
                35424.3471980879,
                4578.832840173429,
                8961.647300188555,
                28922.529791391702
            ]
        );
        let (submits, durations) = take(BloxWorkload::new(0.6).unwrap().with_seed(9), 3);
        assert_eq!(submits, [3731.0, 5596.0, 17681.0]);
        assert_eq!(
            durations,
            [6888.412520938851, 37843.73784767389, 10772.695156941205]
        );
    }

    #[test]
    fn a_load_that_is_no_rate_is_refused() {
        for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(BloxWorkload::new(load).is_err());
        }
        assert_eq!(
            BloxWorkload::new(0.0).unwrap_err().to_string(),
            "load is 0, expected a finite number of jobs per hour above 0"
        );
    }

    /// Compares every job of every published run, bit for bit.
    #[test]
    fn golden_runs_are_regenerated() {
        let Some(golden) = std::env::var_os("BLOX_GOLDEN") else {
            // Past the capture of the test harness, which hides what `println!` writes.
            let _ = writeln!(std::io::stderr(), "skipped: BLOX_GOLDEN is not set");
            return;
        };
        let blox = Path::new(&golden).join("blox");
        let mut rows = check_rows(&blox.join("derived/jobs_L8.csv"), 8.0, true);
        let mut runs = 0;
        for entry in std::fs::read_dir(&blox).unwrap() {
            let run = entry.unwrap().path();
            let jobs = run.join("jobs.csv");
            if !jobs.exists() {
                continue;
            }
            let summary: serde_json::Value =
                serde_json::from_slice(&std::fs::read(run.join("summary.json")).unwrap()).unwrap();
            let load = summary["load_jobs_per_hour"].as_f64().unwrap();
            // The multi-GPU runs took durations from the trace; their arrivals are the same.
            let name = run.file_name().unwrap().to_string_lossy().into_owned();
            rows += check_rows(&jobs, load, !name.starts_with("multi"));
            runs += 1;
        }
        println!("{runs} runs and {rows} rows are bit-equal");
        assert!(runs > 0);
    }

    fn check_rows(path: &Path, load: f64, synthetic: bool) -> usize {
        let mut workload = BloxWorkload::new(load).unwrap();
        if let Ok(mut file) = crate::open_file(path, Some(crate::Format::BloxJobs)) {
            let read = blox_workloads::collect(&mut file).unwrap();
            for job in read.iter().filter(|_| synthetic) {
                let made = workload.next_job().unwrap().unwrap();
                assert_eq!((job.submit, job.gpus), (made.submit, made.gpus));
                assert_eq!(job.work, made.work);
            }
            workload = workload.with_seed(1);
        }
        let mut rows = 0;
        for row in csv::Reader::from_path(path).unwrap().records() {
            let row = row.unwrap();
            let job = workload.next_job().unwrap().unwrap();
            let arrival: f64 = row[1].parse().unwrap();
            let total: f64 = row[2].parse().unwrap();
            assert_eq!(job.submit.secs(), arrival, "{}: {row:?}", path.display());
            if synthetic {
                let duration = job.duration().secs();
                assert_eq!(duration.to_bits(), total.to_bits(), "{row:?}");
            }
            rows += 1;
        }
        rows
    }
}
