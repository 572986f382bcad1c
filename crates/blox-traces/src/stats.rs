//! Statistics of a workload.

use blox_core::SortedMap;
use blox_core::{Gpus, JobSpec, Name};
use blox_workloads::{Workload, WorkloadError};
use serde::Serialize;
use std::collections::BTreeSet;

/// Statistics of a workload. Times are in seconds, work is in GPU-hours.
///
/// Computing them takes 8 bytes of memory for each job, for the percentiles.
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// use blox_workloads::Jobs;
/// use blox_traces::stats::Statistics;
/// let job = |s, gpus| JobSpec::new(Time::new(s), GpuCount(gpus), Seconds::from_hours(2.0));
/// let mut jobs = Jobs::new(vec![job(0.0, 1), job(3600.0, 4)]);
/// let statistics = Statistics::of(&mut jobs, None)?;
/// assert_eq!(statistics.gpu_hours, 10.0);
/// assert_eq!(statistics.load_gpus, Some(10.0));
/// assert_eq!(statistics.duration_s.unwrap().median, 7200.0);
/// # Ok::<(), blox_workloads::WorkloadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Number of jobs.
    pub jobs: u64,
    /// Time of the first submission.
    pub first_submit_s: f64,
    /// Time of the last submission.
    pub last_submit_s: f64,
    /// Number of users that own jobs.
    pub users: u64,
    /// Number of virtual clusters to which jobs are submitted.
    pub virtual_clusters: u64,
    /// Number of models that jobs train.
    pub models: u64,
    /// Number of jobs that may run only on some GPU types.
    pub jobs_with_gpu_types: u64,
    /// Number of jobs with a deadline.
    pub jobs_with_deadline: u64,
    /// Number of elastic jobs.
    pub elastic_jobs: u64,
    /// Number of jobs that need a part of each GPU.
    #[serde(skip_serializing_if = "is_zero")]
    pub jobs_with_share: u64,
    /// Number of services.
    #[serde(skip_serializing_if = "is_zero")]
    pub services: u64,
    /// Number of spot jobs.
    #[serde(skip_serializing_if = "is_zero")]
    pub spot_jobs: u64,
    /// Duration times GPUs, over all jobs. A part of a GPU counts as its part.
    pub gpu_hours: f64,
    /// Average number of GPUs that the jobs keep busy between the first and the last submission. On
    /// a cluster with fewer GPUs the queue grows without bound. `None` if all jobs arrive at the
    /// same time.
    pub load_gpus: Option<f64>,
    /// GPU-hours submitted on the busiest day.
    pub busiest_day_gpu_hours: f64,
    /// Largest GPU request of a job.
    pub widest_job_gpus: u32,
    /// Jobs and work by requested GPUs.
    pub by_gpus: SortedMap<u32, Part>,
    /// Durations of jobs on the GPUs that they request; `None` without jobs.
    pub duration_s: Option<Percentiles>,
    /// Jobs by duration: one bucket below each of [`DURATION_BOUNDS_S`], and one for the rest.
    pub by_duration: Vec<Part>,
    /// Mean time between two submissions, in seconds.
    pub gap_mean_s: Option<f64>,
    /// Standard deviation of the time between two submissions, divided by its mean. 1 for a Poisson
    /// process, higher if jobs come in bursts.
    pub gap_variation: Option<f64>,
    /// Jobs by hour: hour of the day, or hours since the first submission modulo 24; see
    /// `wall_clock`.
    pub by_hour: [u64; 24],
    /// Jobs by day: day of the week from Monday on, or days since the first submission modulo 7.
    pub by_day: [u64; 7],
    /// True if hours and days are in local time.
    pub wall_clock: bool,
    /// Time origin in seconds since 1970, if known.
    pub origin_epoch_s: Option<f64>,
    /// Submissions over time, in at most 64 slices of equal length.
    pub over_time: Slices,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Upper bounds of the buckets of [`Statistics::by_duration`], in seconds.
pub const DURATION_BOUNDS_S: [f64; 8] = [
    60.0, 600.0, 3600.0, 10_800.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0,
];

/// Number and work of a part of the jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Part {
    /// Number of jobs.
    pub jobs: u64,
    /// Sum of duration times GPUs.
    pub gpu_hours: f64,
}

impl Part {
    fn add(&mut self, gpu_hours: f64) {
        self.jobs += 1;
        self.gpu_hours += gpu_hours;
    }
}

/// Percentiles by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The mean.
    pub mean: f64,
    /// The smallest.
    pub min: f64,
    /// 25th percentile.
    pub p25: f64,
    /// 50th percentile.
    pub median: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Percentiles {
    fn of(values: &mut [f64]) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let rank = |p: usize| {
            let rank = (values.len() * p).div_ceil(100).max(1);
            values.get(rank - 1).copied()
        };
        Some(Percentiles {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: *values.first()?,
            p25: rank(25)?,
            median: rank(50)?,
            p75: rank(75)?,
            p90: rank(90)?,
            p99: rank(99)?,
            max: *values.last()?,
        })
    }
}

/// Counts of submissions over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slices {
    /// Length of a slice, in seconds.
    pub width_s: f64,
    /// Jobs in each slice, from the first submission on.
    pub jobs: Vec<u64>,
}

impl Default for Slices {
    fn default() -> Self {
        Slices {
            width_s: 1.0,
            jobs: Vec::new(),
        }
    }
}

impl Slices {
    const MOST: usize = 64;
    /// Round lengths of slices; above a day the length doubles.
    const WIDTHS_S: [f64; 12] = [
        1.0, 10.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0,
        172_800.0,
    ];

    /// Counts a submission. If there are too many slices, they are merged to longer ones.
    fn add(&mut self, since_first_s: f64) {
        while since_first_s / self.width_s >= Self::MOST as f64 {
            let longer = Self::WIDTHS_S.into_iter().find(|w| *w > self.width_s);
            let longer = longer.unwrap_or(self.width_s * 2.0);
            let merged = (longer / self.width_s) as usize;
            self.jobs = self.jobs.chunks(merged).map(|c| c.iter().sum()).collect();
            self.width_s = longer;
        }
        let at = (since_first_s / self.width_s) as usize;
        if self.jobs.len() <= at {
            self.jobs.resize(at + 1, 0);
        }
        self.jobs[at] += 1;
    }
}

impl Statistics {
    /// Computes the statistics of all jobs of a workload that ends. `origin` is its time origin in
    /// local time, in seconds since 1970, if known; see
    /// [`Trace::wall_clock_origin`](super::Trace::wall_clock_origin).
    ///
    /// # Errors
    /// Any error of the workload.
    pub fn of(
        workload: &mut (impl Workload + ?Sized),
        origin: Option<f64>,
    ) -> Result<Self, WorkloadError> {
        let mut all = Statistics {
            by_duration: vec![Part::default(); DURATION_BOUNDS_S.len() + 1],
            wall_clock: origin.is_some(),
            origin_epoch_s: origin,
            ..Statistics::default()
        };
        let mut names = [const { BTreeSet::<Name>::new() }; 3];
        let mut durations = Vec::new();
        let mut days: SortedMap<i64, f64> = SortedMap::new();
        let (mut last, mut gaps, mut squares) = (None, 0.0, 0.0);
        while let Some(job) = workload.next_job()? {
            let at = job.submit.secs();
            let gpus = Gpus::of(job.gpus, job.extras().share);
            let gpu_hours = job.duration().hours() * gpus.number();
            if all.jobs == 0 {
                all.first_submit_s = at;
            }
            if let Some(last) = last {
                let gap: f64 = at - last;
                gaps += gap;
                squares += gap * gap;
            }
            last = Some(at);
            all.last_submit_s = at;
            all.add(&job, gpu_hours);
            durations.push(job.duration().secs());
            let model = job.extras.as_ref().and_then(|e| e.model.as_ref());
            let here = [job.user.as_ref(), job.virtual_cluster.as_ref(), model];
            for (seen, name) in names.iter_mut().zip(here) {
                if let Some(name) = name
                    && !seen.contains(name)
                {
                    seen.insert(name.clone());
                }
            }
            let wall = at + origin.unwrap_or(-all.first_submit_s);
            let day = (wall / 86_400.0).floor();
            let hour = (wall - day * 86_400.0) / 3600.0;
            all.by_hour[(hour as usize).min(23)] += 1;
            // 1970 began on a Thursday; a workload without dates begins on day 0.
            let first = if origin.is_some() { 3.0 } else { 0.0 };
            all.by_day[((day + first).rem_euclid(7.0) as usize).min(6)] += 1;
            *days.entry(day as i64).or_default() += gpu_hours;
            all.over_time.add(at - all.first_submit_s);
        }
        [all.users, all.virtual_clusters, all.models] = names.map(|seen| seen.len() as u64);
        all.busiest_day_gpu_hours = days.values().copied().fold(0.0, f64::max);
        let span = all.last_submit_s - all.first_submit_s;
        if span > 0.0 {
            all.load_gpus = Some(all.gpu_hours * 3600.0 / span);
            let n = (all.jobs - 1) as f64;
            let mean = gaps / n;
            all.gap_mean_s = Some(mean);
            all.gap_variation = Some((squares / n - mean * mean).max(0.0).sqrt() / mean);
        }
        all.duration_s = Percentiles::of(&mut durations);
        Ok(all)
    }

    fn add(&mut self, job: &JobSpec, gpu_hours: f64) {
        self.jobs += 1;
        self.gpu_hours += gpu_hours;
        let gpus = job.gpus.get();
        self.widest_job_gpus = self.widest_job_gpus.max(gpus);
        self.by_gpus.entry(gpus).or_default().add(gpu_hours);
        let duration = job.duration().secs();
        let bucket = DURATION_BOUNDS_S.partition_point(|bound| *bound <= duration);
        self.by_duration[bucket].add(gpu_hours);
        if let Some(extras) = &job.extras {
            self.jobs_with_gpu_types += u64::from(!extras.gpu_types.is_empty());
            self.jobs_with_deadline += u64::from(!extras.deadlines.is_empty());
            self.elastic_jobs += u64::from(extras.levels.len() > 1);
            self.jobs_with_share += u64::from(!extras.share.is_whole());
            self.services += u64::from(extras.need.is_some());
            self.spot_jobs += u64::from(extras.class.is_spot());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuCount, Seconds, Time};
    use blox_workloads::Jobs;

    fn job(submit: f64, gpus: u32, duration: f64) -> JobSpec {
        JobSpec::new(Time::new(submit), GpuCount(gpus), Seconds::new(duration))
    }

    #[test]
    fn everything_is_counted() {
        let jobs = vec![
            job(100.0, 1, 30.0).owned_by("ada").in_virtual_cluster("v"),
            job(100.0, 4, 3600.0)
                .owned_by("bob")
                .in_virtual_cluster("v"),
            job(3700.0, 4, 1_000_000.0).owned_by("ada"),
            job(90_100.0, 8, 600.0),
        ];
        let s = Statistics::of(&mut Jobs::new(jobs), None).unwrap();
        assert_eq!(
            (s.jobs, s.users, s.virtual_clusters, s.models),
            (4, 2, 1, 0)
        );
        assert_eq!((s.first_submit_s, s.last_submit_s), (100.0, 90_100.0));
        assert_eq!(s.widest_job_gpus, 8);
        let gpu_s: f64 = 30.0 + 4.0 * 3600.0 + 4e6 + 4800.0;
        assert!((s.gpu_hours * 3600.0 - gpu_s).abs() < 1e-6);
        assert!((s.load_gpus.unwrap() - gpu_s / 90_000.0).abs() < 1e-9);
        assert!((s.busiest_day_gpu_hours * 3600.0 - (gpu_s - 4800.0)).abs() < 1e-6);
        assert_eq!(
            s.by_gpus
                .iter()
                .map(|(g, p)| (*g, p.jobs))
                .collect::<Vec<_>>(),
            [(1, 1), (4, 2), (8, 1)]
        );
        let by_duration: Vec<_> = s.by_duration.iter().map(|p| p.jobs).collect();
        assert_eq!(by_duration, [1, 0, 1, 1, 0, 0, 0, 0, 1]);
        let d = s.duration_s.unwrap();
        assert_eq!(
            (d.min, d.p25, d.median, d.p75, d.max),
            (30.0, 30.0, 600.0, 3600.0, 1e6)
        );
        assert_eq!(
            (s.by_hour[0], s.by_hour[1], s.by_day[0], s.by_day[1]),
            (2, 2, 3, 1)
        );
        assert_eq!(s.gap_mean_s, Some(30_000.0));
        assert_eq!(s.over_time.jobs.iter().sum::<u64>(), 4);
        assert_eq!((s.over_time.width_s, s.over_time.jobs.len()), (1800.0, 51));
        assert_eq!((s.over_time.jobs[0], s.over_time.jobs[2]), (2, 1));
    }

    #[test]
    fn half_a_gpu_is_half_the_work() {
        use blox_core::{Class, Extras, Share};
        let half = job(0.0, 2, 3600.0).with_extras(Extras {
            share: Share::parts(1, 2).unwrap(),
            class: Class::BEST_EFFORT,
            ..Extras::default()
        });
        let s = Statistics::of(&mut Jobs::new(vec![half, job(3600.0, 1, 3600.0)]), None).unwrap();
        assert_eq!((s.gpu_hours, s.load_gpus), (2.0, Some(2.0)));
        assert_eq!((s.jobs_with_share, s.spot_jobs, s.services), (1, 1, 0));
        assert_eq!(s.by_gpus[&2].gpu_hours, 1.0);
    }

    #[test]
    fn dates_give_hours_and_days() {
        // 2017-10-09 was a Monday.
        let origin = 1_507_507_200.0 + 7.0 * 3600.0;
        let s = Statistics::of(
            &mut Jobs::new(vec![job(0.0, 1, 1.0), job(60.0, 1, 1.0)]),
            Some(origin),
        );
        let s = s.unwrap();
        assert!(s.wall_clock);
        assert_eq!((s.by_hour[7], s.by_day[0]), (2, 2));
    }

    #[test]
    fn no_jobs_and_far_moments_do_no_harm() {
        let s = Statistics::of(&mut Jobs::new(Vec::new()), None).unwrap();
        assert_eq!((s.jobs, s.load_gpus, s.duration_s), (0, None, None));
        let far = vec![job(0.0, 1, 1.0), job(f64::MAX, u32::MAX, f64::MAX)];
        let s = Statistics::of(&mut Jobs::new(far), Some(f64::MAX)).unwrap();
        assert_eq!(s.jobs, 2);
    }
}
