//! Metrics of claims.

use crate::observe::Observer;
use blox_core::{ClusterSpec, JobId, JobSpec, Time, sort};
use blox_perf::gpu_utilisation;
use blox_results::{Summary, statistics};
use blox_sim::Report;
use blox_sim::results::{Contention, DeadlineFate, JobResult};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Mean completion time in seconds. A job that has not ended counts until the end of the run.
    AvgJct,
    /// Median of the completion times in seconds.
    MedianJct,
    /// 99th percentile of the completion times in seconds.
    P99Jct,
    /// Mean completion time in seconds of the jobs of the class best effort.
    BestEffortJct,
    /// Mean time in seconds in which a job does not run, from submission to end.
    AvgQueueing,
    /// Mean time in seconds in which a spot job does not run, from submission to end.
    SpotQueueing,
    /// Stops of running spot jobs by decisions.
    Evictions,
    /// Mean time in seconds from submission to the first start.
    AvgResponsiveness,
    /// Seconds from the first submission to the last end.
    Makespan,
    /// Fraction of the GPU-seconds until the last end in which a GPU computes: the utilisation of
    /// each job alone times its running time alone.
    BusyGpus,
    /// Largest ratio of the completion time to the isolated time. The isolated time is the running
    /// time alone times the mean number of jobs in the system (Themis, NSDI 2020, equation 1). Alone,
    /// the job runs on its best number of GPUs.
    MaxRho,
    /// Mean of these ratios.
    AvgRho,
    /// Fraction of the jobs with a ratio above 1.
    Unfair,
    /// Preemptions of all jobs.
    Preemptions,
    /// Mean number of restarts of a training job.
    Restarts,
    /// Mean GPU-hours allocated to a training job.
    GpuHours,
    /// Number of jobs that met their deadline.
    DeadlinesMet,
    /// Fraction of the jobs with a deadline that did not meet it, rejected jobs included.
    MissRate,
    /// Number of jobs with an admitted deadline that missed it.
    GuaranteesMissed,
    /// Fraction of the jobs that shared GPUs at any time.
    Packed,
    /// Fraction of the powered node-seconds in which a node had jobs.
    NodeUse,
    /// Moments a day at which nodes were powered on.
    WakeUps,
    /// Cost of the nodes until the last end.
    Cost,
}

/// Every metric.
const ALL: [Metric; 23] = [
    Metric::AvgJct,
    Metric::MedianJct,
    Metric::P99Jct,
    Metric::BestEffortJct,
    Metric::AvgQueueing,
    Metric::SpotQueueing,
    Metric::Evictions,
    Metric::AvgResponsiveness,
    Metric::Makespan,
    Metric::BusyGpus,
    Metric::MaxRho,
    Metric::AvgRho,
    Metric::Unfair,
    Metric::Preemptions,
    Metric::Restarts,
    Metric::GpuHours,
    Metric::DeadlinesMet,
    Metric::MissRate,
    Metric::GuaranteesMissed,
    Metric::Packed,
    Metric::NodeUse,
    Metric::WakeUps,
    Metric::Cost,
];

impl Metric {
    /// Returns whether more is better.
    pub fn rises(self) -> bool {
        matches!(
            self,
            Metric::BusyGpus | Metric::DeadlinesMet | Metric::Packed | Metric::NodeUse
        )
    }

    /// Returns the name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Metric::AvgJct => "average JCT",
            Metric::MedianJct => "median JCT",
            Metric::P99Jct => "p99 JCT",
            Metric::BestEffortJct => "average JCT of best-effort jobs",
            Metric::AvgQueueing => "average queueing time",
            Metric::SpotQueueing => "average queueing time of spot jobs",
            Metric::Evictions => "evictions of spot jobs",
            Metric::AvgResponsiveness => "average time to the first start",
            Metric::Makespan => "makespan",
            Metric::BusyGpus => "GPU utilisation",
            Metric::MaxRho => "largest estimated rho",
            Metric::AvgRho => "average estimated rho",
            Metric::Unfair => "unfair share of jobs",
            Metric::Preemptions => "preemptions",
            Metric::Restarts => "restarts a job",
            Metric::GpuHours => "GPU hours a job",
            Metric::DeadlinesMet => "deadlines met",
            Metric::MissRate => "miss rate of deadlines",
            Metric::GuaranteesMissed => "guaranteed deadlines missed",
            Metric::Packed => "packed share of jobs",
            Metric::NodeUse => "use of powered nodes",
            Metric::WakeUps => "wake-ups a day",
            Metric::Cost => "cost",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Metrics of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    #[serde(with = "as_texts")]
    values: Vec<f64>,
    /// Number of measured jobs that had not ended.
    pub unfinished: u64,
}

/// Numbers as texts, because JSON has no NaN and no infinity.
mod as_texts {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(f64::to_string))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        let read = |text: &String| text.parse().map_err(D::Error::custom);
        texts.iter().map(read).collect()
    }
}

impl Figures {
    /// Returns the value of a metric.
    pub fn get(&self, metric: Metric) -> f64 {
        let at = ALL.iter().position(|m| *m == metric);
        at.and_then(|at| self.values.get(at))
            .copied()
            .unwrap_or(f64::NAN)
    }

    /// Computes the metrics of a run with an [`Observer`].
    pub fn of(report: &Report, cluster: &ClusterSpec, specs: &[JobSpec]) -> Self {
        let seen = report
            .collected
            .get::<Observer>()
            .cloned()
            .unwrap_or_default();
        let jobs = Jobs {
            report,
            cluster,
            specs,
            contention: Contention::of(&report.jobs),
        };
        Figures {
            values: ALL
                .iter()
                .map(|metric| jobs.value(*metric, &seen))
                .collect(),
            unfinished: Summary::of(report).unfinished,
        }
    }
}

struct Jobs<'a> {
    report: &'a Report,
    cluster: &'a ClusterSpec,
    specs: &'a [JobSpec],
    contention: Contention,
}

impl Jobs<'_> {
    fn measured(&self) -> impl Iterator<Item = &JobResult> {
        let jobs = self.report.jobs.iter();
        jobs.filter(|job| job.measured && (job.jct().is_some() || job.outcome.is_none()))
    }

    fn spec(&self, job: JobId) -> Option<&JobSpec> {
        self.specs.get(job.0 as usize)
    }

    fn end_of(&self, job: &JobResult) -> Time {
        job.finish.unwrap_or(self.report.end)
    }

    fn jct(&self, job: &JobResult) -> f64 {
        (self.end_of(job) - job.submit).secs()
    }

    fn jcts(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.measured().map(|job| self.jct(job)).collect();
        sort::numbers(&mut all);
        all
    }

    /// Returns the running time alone, on the best number of GPUs. Over GPU types, the speed is the
    /// mean over the GPUs of the cluster.
    fn alone(&self, job: &JobResult) -> f64 {
        let Some(spec) = self.spec(job.job) else {
            return job.duration.secs();
        };
        let own = spec.work.rate;
        let best = spec.extras().rates.iter().copied().fold(own, f64::max);
        let rate = match &spec.extras().speeds {
            None => best,
            Some(speeds) => {
                let nodes = self.cluster.nodes.iter();
                let rates = nodes.map(|node| {
                    let name = node.gpu_type.as_deref().unwrap_or_default();
                    f64::from(node.gpus) * speeds.alone(name).unwrap_or(0.0)
                });
                rates.sum::<f64>() / self.cluster.total_gpus() as f64
            }
        };
        spec.work.iterations / rate
    }

    fn rhos(&self) -> Vec<f64> {
        let rho = |job: &JobResult| {
            let (from, to) = (job.submit.secs(), self.end_of(job).secs());
            let jobs = self.contention.between(from, to).max(1.0);
            self.jct(job) / (self.alone(job) * jobs)
        };
        self.measured().map(rho).collect()
    }

    /// Returns the GPU-seconds in which the completed jobs compute.
    fn computed(&self) -> f64 {
        let of = |job: &JobResult| {
            let utilisation = self.spec(job.job).map_or(1.0, |spec| gpu_utilisation(spec));
            utilisation * job.duration.secs() * f64::from(job.gpus)
        };
        let done = self.report.jobs.iter().filter(|job| job.jct().is_some());
        done.map(of).sum()
    }

    fn value(&self, metric: Metric, seen: &Observer) -> f64 {
        let summary = Summary::of(self.report);
        let mean = |values: Vec<f64>| statistics::mean(&values).unwrap_or(f64::NAN);
        let training = summary.training.unwrap_or_default();
        let with_deadline = || {
            self.report
                .jobs
                .iter()
                .filter(|j| j.measured && j.deadline.is_some())
        };
        let met = || {
            let met = with_deadline().filter(|j| j.deadline_fate() == Some(DeadlineFate::Met));
            met.count() as f64
        };
        let spot = || {
            let class = |job: &&JobResult| {
                let spec = self.spec(job.job);
                spec.is_some_and(|spec| spec.extras().class.is_spot())
            };
            self.measured().filter(class)
        };
        let idle = |job: &JobResult| (self.jct(job) - job.attained.secs()).max(0.0);
        match metric {
            Metric::AvgJct => mean(self.jcts()),
            Metric::Cost => summary.rent.map_or(f64::NAN, |rent| rent.cost),
            Metric::MedianJct => statistics::percentile(&self.jcts(), 0.5).unwrap_or(f64::NAN),
            Metric::P99Jct => statistics::percentile(&self.jcts(), 0.99).unwrap_or(f64::NAN),
            Metric::BestEffortJct => mean(spot().map(|job| self.jct(job)).collect()),
            Metric::AvgQueueing => mean(self.measured().map(idle).collect()),
            Metric::SpotQueueing => mean(spot().map(idle).collect()),
            Metric::Evictions => summary.evictions.unwrap_or_default().spot as f64,
            Metric::AvgResponsiveness => {
                let start = |job: &JobResult| {
                    (job.first_start.unwrap_or(self.report.end) - job.submit).secs()
                };
                mean(self.measured().map(start).collect())
            }
            Metric::Makespan => summary.makespan_s,
            Metric::BusyGpus => {
                self.computed() / (self.cluster.total_gpus() as f64 * summary.makespan_s)
            }
            Metric::MaxRho => self.rhos().into_iter().fold(f64::NAN, f64::max),
            Metric::AvgRho => mean(self.rhos()),
            Metric::Unfair => mean(self.rhos().iter().map(|r| f64::from(*r > 1.0)).collect()),
            Metric::Preemptions => summary.preemptions as f64,
            Metric::Restarts => training.restarts,
            Metric::GpuHours => training.gpu_hours,
            Metric::DeadlinesMet => met(),
            Metric::MissRate => 1.0 - met() / with_deadline().count() as f64,
            Metric::GuaranteesMissed => {
                let late = seen.guaranteed.iter().filter(|(id, deadline)| {
                    let job = self.report.jobs.get(id.0 as usize);
                    job.is_some_and(|j| j.jct().is_none() || j.finish > Some(*deadline))
                });
                late.count() as f64
            }
            Metric::Packed => {
                let packed = self.measured().filter(|job| seen.packed.contains(&job.job));
                packed.count() as f64 / self.measured().count() as f64
            }
            Metric::NodeUse => seen.node_use(),
            Metric::WakeUps => f64::from(seen.wake_ups) / (summary.makespan_s / 86_400.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuCount, Seconds};
    use blox_sim::Simulation;
    use blox_sim::workload::Jobs as List;

    fn figures(cluster: &str, jobs: Vec<JobSpec>) -> Figures {
        let cluster: ClusterSpec = cluster.parse().unwrap();
        let simulation = Simulation::new(cluster.clone())
            .completion(blox_sim::completion::Exact)
            .collector(Observer::default());
        let fifo = blox_schedulers::schedulers::fifo();
        let report = simulation.run(fifo, &mut List::new(jobs.clone())).unwrap();
        Figures::of(&report, &cluster, &jobs)
    }

    #[test]
    fn rho_counts_jobs_in_the_system() {
        let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0));
        let found = figures("1x1", vec![job.clone(), job]);
        // The first has two jobs for 600 s: 600 / (600 x 2). The second: 1200 / (600 x 1.5).
        assert_eq!(found.get(Metric::MaxRho), 1200.0 / 900.0);
        assert_eq!(found.get(Metric::AvgRho), (0.5 + 1200.0 / 900.0) / 2.0);
        assert_eq!(found.get(Metric::Unfair), 0.5);
        assert_eq!(found.get(Metric::AvgJct), 900.0);
        assert_eq!(found.get(Metric::AvgQueueing), 300.0);
        assert_eq!(found.get(Metric::Makespan), 1200.0);
        assert_eq!(found.get(Metric::BusyGpus), 1.0);
        assert_eq!(found.get(Metric::NodeUse), 1.0);
        assert_eq!((found.get(Metric::Packed), found.unfinished), (0.0, 0));
    }
}
