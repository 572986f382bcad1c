//! Jobs of the figures of Gavel's paper.

pub(crate) mod hierarchy;
pub(crate) mod scale;

use crate::figure::{Figure, Plan, ReproduceError};
use crate::gavel::GavelWorkload;
use blox_core::{JobSpec, Seconds};
use blox_results::statistics::mean;
use blox_sim::Report;
use blox_sim::results::JobResult;
use blox_sim::workload::{Jobs, Limited, Workload, collect};
use blox_traces::formats::gavel::{Oracle, read_jobs};
use std::path::Path;
use std::sync::Arc;

/// The types of the simulated cluster, and the number of GPUs of each.
const TYPES: ([&str; 3], f64) = (["k80", "p100", "v100"], 36.0);

/// Returns endless arrivals at the load of a group, in jobs an hour.
fn arrivals(
    figure: &Figure,
    oracle: &Arc<Oracle>,
    multi_gpu: bool,
    (group, seed): (usize, u64),
) -> GavelWorkload {
    let load: f64 = figure.groups()[group].parse().unwrap_or(1.0);
    let mean = Seconds::new(3600.0 / load);
    GavelWorkload::new(Arc::clone(oracle), mean, seed, multi_gpu)
}

/// Plans endless arrivals of one-GPU jobs.
pub(crate) fn fig9(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let oracle = Arc::new(Oracle::read(figure.file(data, &figure.data[0].path)?)?);
    figure.simulated(|g, seed| Box::new(arrivals(figure, &oracle, false, (g, seed))))
}

/// Plans endless arrivals of jobs of one to eight GPUs.
pub(crate) fn fig10(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let oracle = Arc::new(Oracle::read(figure.file(data, &figure.data[0].path)?)?);
    figure.simulated(|g, seed| Box::new(arrivals(figure, &oracle, true, (g, seed))))
}

/// Plans the same arrivals, with the fairness of each job.
pub(crate) fn fig11(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let oracle = Arc::new(Oracle::read(figure.file(data, &figure.data[0].path)?)?);
    let again = Arc::clone(&oracle);
    let jobs = move |g, seed| arrivals(figure, &again, true, (g, seed));
    let unfairness = move |report: &Report, g: usize, seed: u64| {
        let count = report.jobs.len() as u64;
        let specs = collect(&mut Limited::new(Box::new(jobs(g, seed)), count));
        vec![specs.map_or(f64::NAN, |specs| average_rho(&report.jobs, &specs))]
    };
    let jobs =
        |g, seed| -> Box<dyn Workload> { Box::new(arrivals(figure, &oracle, true, (g, seed))) };
    figure.simulated_with(jobs, unfairness)
}

/// Returns the average finish-time fairness of the measured jobs.
///
/// It is a job's completion time over its time alone on an equal part of the cluster. The number of
/// parts is the number of jobs, on average over the job's life.
fn average_rho(jobs: &[JobResult], specs: &[JobSpec]) -> f64 {
    // Jobs in the cluster from each event on, and their integral up to it.
    let mut events: Vec<(f64, f64)> = Vec::new();
    for job in jobs {
        events.push((job.submit.secs(), 1.0));
        events.extend(job.finish.map(|end| (end.secs(), -1.0)));
    }
    blox_core::sort::by(&mut events, |a, b| a.0.total_cmp(&b.0));
    let mut sums: Vec<(f64, f64, f64)> = Vec::new();
    let (mut at, mut present, mut sum) = (0.0, 0.0, 0.0);
    for (time, change) in events {
        sum += present * (time - at);
        present += change;
        at = time;
        sums.push((at, present, sum));
    }
    let until = |time: f64| {
        let after = sums.partition_point(|(at, ..)| *at <= time);
        let known = after.checked_sub(1).and_then(|i| sums.get(i));
        known.map_or(0.0, |(at, present, sum)| sum + present * (time - at))
    };
    let rho = |(job, spec): (&JobResult, &JobSpec)| {
        let (from, to) = (job.submit.secs(), job.finish?.secs());
        let others = (until(to) - until(from)) / (to - from);
        Some((to - from) / isolated_s(spec, others)?)
    };
    let measured = jobs.iter().zip(specs).filter(|(job, _)| job.measured);
    let all: Vec<f64> = measured.filter_map(rho).collect();
    mean(&all).unwrap_or(f64::NAN)
}

/// Returns the seconds that a job takes on its part of each type, if `jobs` divide the cluster.
fn isolated_s(job: &JobSpec, jobs: f64) -> Option<f64> {
    let (types, gpus) = TYPES;
    let speeds = job.extras().speeds.as_ref()?;
    let rates: Option<Vec<f64>> = types.iter().map(|t| speeds.alone(t)).collect();
    let needed = jobs.max(1.0) * f64::from(job.gpus.get());
    let all = gpus * types.len() as f64;
    let speed: f64 = rates?
        .iter()
        .map(|rate| rate * gpus / needed.max(all))
        .sum();
    Some(job.work.iterations / speed)
}

/// Plans the jobs of a trace, on the physical cluster.
pub(crate) fn physical(
    figure: &'static Figure,
    data: Option<&Path>,
) -> Result<Plan, ReproduceError> {
    let oracle = Oracle::read(figure.file(data, &figure.data[1].path)?)?;
    let jobs = read_jobs(figure.file(data, &figure.data[0].path)?, &oracle)?;
    figure.simulated(|_, _| Box::new(Jobs::new(jobs.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, GpuCount, Time, TypeSpeeds};

    #[test]
    fn fairness_counts_the_jobs_of_a_life() {
        // Two jobs, the second of them alone for its second half: one and a half jobs on average.
        let job = |submit, finish| {
            let mut job = JobResult::default();
            job.submit = Time::new(submit);
            job.finish = Some(Time::new(finish));
            job.measured = submit > 0.0;
            job
        };
        let mut speeds = TypeSpeeds::default();
        for (gpu_type, rate) in [("k80", 1.0), ("p100", 2.0), ("v100", 3.0)] {
            speeds.set(gpu_type, rate);
        }
        let mut spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
        spec.work.iterations = 200.0;
        let spec = spec.with_extras(Extras {
            speeds: Some(Arc::new(speeds)),
            ..Extras::default()
        });
        // A third of the time on each type, since there are more GPUs than jobs.
        assert_eq!(isolated_s(&spec, 1.5), Some(100.0));
        // 216 jobs on 108 GPUs run half of the time.
        assert_eq!(isolated_s(&spec, 216.0), Some(200.0));
        let jobs = [job(0.0, 200.0), job(100.0, 300.0)];
        let rho = average_rho(&jobs, &[spec.clone(), spec]);
        assert_eq!(rho, 2.0);
    }
}
