//! Summary metrics of a simulation.

use super::statistics;
use blox_core::{Class, Outcome, Seconds, sort};
use blox_sim::Report;
use blox_sim::results::{Contention, DeadlineFate, Given, JobResult, MissCause, Rent, Service};
use serde::Serialize;

/// Metrics of one simulation. Averages and percentiles are over measured jobs that did all their
/// work, or that the scheduler ended at their goal; services are left out. Without such jobs they are NaN (null in JSON).
/// [`COLUMNS`] has the formulas as text for tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Name of the composition.
    pub scheduler: String,
    /// Number of jobs submitted before the simulation ended, measured or not. Includes rejected and
    /// unfinished jobs.
    pub jobs: u64,
    /// Number of jobs that [`Measure`](blox_sim::Measure) selects, submitted or not. It is the sum of
    /// `completed`, `rejected`, `failed` and `unfinished`. A simulation of an endless workload that
    /// measures all jobs measures those that were submitted.
    pub measured: u64,
    /// Number of measured jobs that did all their work, or that the scheduler ended at their goal.
    /// The averages and percentiles of this struct are over these jobs.
    pub completed: u64,
    /// Number of measured jobs that admission rejected.
    pub rejected: u64,
    /// Number of measured jobs that failed or were cancelled.
    pub failed: u64,
    /// Number of measured jobs that had not ended at the end of the simulation, or that had not been
    /// submitted ([`Report::unsubmitted`](blox_sim::Report::unsubmitted)). It is 0 if
    /// [`Report::ended`](blox_sim::Report::ended) is [`Finished`](blox_sim::Ended::Finished).
    pub unfinished: u64,
    /// Mean job completion time in seconds: `finish - submit` over the `completed` jobs. At least 0;
    /// NaN without such jobs. Rejected, failed and unfinished jobs are excluded.
    pub avg_jct_s: f64,
    /// Median of `finish - submit` in seconds over the `completed` jobs, by nearest rank: it is the
    /// time of one of these jobs. NaN without such jobs.
    pub median_jct_s: f64,
    /// 99th percentile of `finish - submit` in seconds over the `completed` jobs, by nearest rank.
    /// With fewer than 100 jobs it is the maximum. NaN without such jobs.
    pub p99_jct_s: f64,
    /// Mean of `first start - submit` in seconds over the `completed` jobs that started. At least 0;
    /// NaN without such jobs. Jobs that started but did not complete are excluded.
    pub avg_responsiveness_s: f64,
    /// Mean of `finish - submit - running time` in seconds over the `completed` jobs; a negative
    /// difference counts as 0. It contains waiting before and after preemptions, launches, stops,
    /// and the delay until the end is seen. NaN without such jobs.
    pub avg_queueing_s: f64,
    /// Makespan in seconds: last end - first submission, over all jobs that were not rejected,
    /// measured or not. Failed jobs count. If the simulation ended early
    /// ([`Report::ended`](blox_sim::Report::ended)), its end replaces the last end. 0 without such
    /// jobs.
    pub makespan_s: f64,
    /// GPU utilisation: GPU-seconds of running jobs / GPU-seconds of nodes that were up, over the
    /// makespan. A job with a part of a GPU counts by this part. A GPU with packed jobs counts once. A
    /// node counts from when it joins until it leaves, except while it is lost or powered off. A
    /// fraction from 0 to 1. 0 without a makespan.
    pub utilisation: f64,
    /// Cost of the nodes; `None` unless the cluster has prices or offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rent: Option<Rent>,
    /// Number of stops of running or starting jobs by decisions, over all jobs, measured or not.
    /// A move counts if the plan stops the job. Changes in place, crashes, lost nodes and requests
    /// of users do not count.
    pub preemptions: u64,
    /// Number of rounds: time of the last end of any job / round length, rounded up. If the
    /// simulation ended early, its end replaces the last end. Skipped rounds count. If rounds have
    /// no fixed length, it equals `decisions`.
    pub rounds: u64,
    /// Number of decisions that were requested from the scheduler. Decision moments that were
    /// skipped, because nothing could change, are excluded.
    pub decisions: u64,
    /// Results for deadlines, over the measured jobs with one; `None` if no measured job had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<Deadlines>,
    /// Metrics of training jobs; `None` if no measured training job has a completion time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training: Option<TrainingFigures>,
    /// Figures of the services, measured or not; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<Services>,
    /// Stops of running jobs by class; `None` if no spot job has guaranteed time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evictions: Option<Evictions>,
    /// Finish-time fairness over the jobs with a known [`JobResult::rho`], if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<Fairness>,
}

/// Results for the measured jobs with an effective deadline: jobs of the guaranteed class at
/// submission, with their first deadline. A job that admission accepts as a best-effort job was not
/// rejected, so its deadline is met or missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deadlines {
    /// Number of jobs that did all their work before their deadline, or that the scheduler had
    /// ended at their goal.
    pub met: u64,
    /// Number of jobs that ended later, failed, were cancelled, or had not ended. It is the sum of
    /// `causes`.
    pub missed: u64,
    /// Number of jobs that admission rejected.
    pub declined: u64,
    /// Number of missed deadlines by cause.
    pub causes: MissCauses,
}

/// Number of missed deadlines by cause; see [`MissCause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MissCauses {
    /// The job failed, or was cancelled.
    pub failed: u64,
    /// The job had not ended.
    pub unfinished: u64,
    /// Even an immediate start would have missed it.
    pub impossible: u64,
    /// The job crashed, or lost a node.
    pub crashes: u64,
    /// Without the job's own overheads, its work would have been done in time.
    pub overheads: u64,
    /// Without waiting, or with more GPUs, its work would have been done in time.
    pub waiting: u64,
    /// All work was done in time, but the end was seen only at the end of a round.
    pub round: u64,
}

impl MissCauses {
    fn add(&mut self, cause: MissCause) {
        *match cause {
            MissCause::Failed => &mut self.failed,
            MissCause::Unfinished => &mut self.unfinished,
            MissCause::Impossible => &mut self.impossible,
            MissCause::Crashes => &mut self.crashes,
            MissCause::Overheads => &mut self.overheads,
            MissCause::Waiting => &mut self.waiting,
            MissCause::Round => &mut self.round,
        } += 1;
    }
}

impl Deadlines {
    fn of<'a>(jobs: impl Iterator<Item = &'a JobResult>) -> Option<Self> {
        let mut count = Deadlines::default();
        for job in jobs {
            match job.deadline_fate() {
                Some(DeadlineFate::Met) => count.met += 1,
                Some(DeadlineFate::Missed) => count.missed += 1,
                Some(DeadlineFate::Declined) => count.declined += 1,
                None => {}
            }
            if let Some(cause) = job.miss_cause() {
                count.causes.add(cause);
            }
        }
        (count != Deadlines::default()).then_some(count)
    }
}

/// Means over the measured training jobs with a completion time (Sia, SOSP 2023, tables 3 and 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrainingFigures {
    /// Number of these jobs. Rejected, failed and unfinished jobs are excluded.
    pub jobs: u64,
    /// Mean number of [`Given::restarts`] of a job.
    pub restarts: f64,
    /// Mean GPU-hours allocated to a job ([`Given::gpu`] / 3600), restarts included. A GPU counts in
    /// full, even if the job has only a part of it.
    pub gpu_hours: f64,
    /// Mean number of jobs in the system over time, from the first submission to the last submission
    /// or end. Counts jobs of all kinds, running and waiting, measured or not; rejected jobs count
    /// until their rejection.
    pub contention: f64,
    /// Maximum number of these jobs at one time.
    pub most_contention: u64,
}

impl TrainingFigures {
    /// Returns the figures of jobs that ended, among all jobs of a simulation.
    fn of<'a>(done: impl Iterator<Item = &'a JobResult>, all: &[JobResult]) -> Option<Self> {
        let given: Vec<Given> = done.filter_map(|j| j.given.as_deref().copied()).collect();
        if given.is_empty() {
            return None;
        }
        let levels = Contention::of(all);
        Some(TrainingFigures {
            jobs: given.len() as u64,
            restarts: mean(given.iter().map(|g| f64::from(g.restarts))),
            gpu_hours: mean(given.iter().map(|g| g.gpu.hours())),
            contention: levels.mean(),
            most_contention: levels.most(),
        })
    }
}

/// Figures of the services, measured or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Services {
    /// GPU-hours that the services needed.
    pub needed_gpu_h: f64,
    /// GPU-hours that the services needed while they ran on fewer GPUs.
    pub lacking_gpu_h: f64,
    /// Part of the time in which a service ran on as many GPUs as it needed, over the time of all
    /// services. A fraction from 0 to 1; NaN (null in JSON) if no service has lived.
    pub full: f64,
}

impl Services {
    /// Returns the figures of the services; `None` if there is none.
    fn of(jobs: &[JobResult]) -> Option<Self> {
        let mut sum: Option<Service> = None;
        for service in jobs.iter().filter_map(|job| job.service.as_deref()) {
            let sum = sum.get_or_insert_default();
            sum.needed_gpu += service.needed_gpu;
            sum.lacking_gpu += service.lacking_gpu;
            sum.full += service.full;
            sum.lived += service.lived;
        }
        sum.map(|sum| Services {
            needed_gpu_h: sum.needed_gpu.hours(),
            lacking_gpu_h: sum.lacking_gpu.hours(),
            full: sum.full_part(),
        })
    }
}

/// Stops of running jobs by decisions, if spot jobs have guaranteed time. Over all jobs, measured or
/// not. A move counts if the plan stops the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Evictions {
    /// Number of stops of jobs that were submitted in the guaranteed class.
    pub guaranteed: u64,
    /// Number of stops of jobs that were submitted as spot jobs.
    pub spot: u64,
    /// Number of stops of running spot jobs within their guaranteed time
    /// ([`JobRef::protected_until`](blox_core::JobRef::protected_until)).
    pub broken: u64,
}

/// Returns whether a job was submitted as a spot job with guaranteed time.
fn has_guarantee(class: Class) -> bool {
    matches!(class, Class::Spot { guaranteed } if guaranteed > Seconds::ZERO)
}

impl Evictions {
    /// Returns the counts; `None` if no spot job has guaranteed time.
    pub(crate) fn of(jobs: &[JobResult]) -> Option<Self> {
        let class = |job: &JobResult| {
            job.spec
                .as_ref()
                .map_or(Class::Guaranteed, |s| s.extras().class)
        };
        jobs.iter().any(|job| has_guarantee(class(job))).then(|| {
            let mut count = Evictions::default();
            for job in jobs {
                *match class(job).is_spot() {
                    true => &mut count.spot,
                    false => &mut count.guaranteed,
                } += u64::from(job.preemptions);
                count.broken += u64::from(job.broken);
            }
            count
        })
    }
}

/// Tolerance for rounding of the completion time of a job with its fair share.
const ROUNDING: f64 = 1e-9;

/// [Finish-time fairness](blox_sim::fairness::FairTimes) over the jobs with a known [`JobResult::rho`]:
/// measured jobs with a completion time and a fair time. `rho` has no unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fairness {
    /// Number of these jobs.
    pub jobs: u64,
    /// Mean of `rho`, above 0.
    pub mean: f64,
    /// Largest `rho`.
    pub worst: f64,
    /// Fraction of these jobs with `rho` above 1, from 0 to 1: the jobs that were treated unfairly.
    /// Rounding errors of 1e-9 are tolerated.
    pub unfair: f64,
}

impl Fairness {
    /// Returns the fairness; `None` if `rho` is known for no job.
    pub fn of<'a>(jobs: impl IntoIterator<Item = &'a JobResult>) -> Option<Self> {
        let rho: Vec<f64> = jobs.into_iter().filter_map(|j| j.rho).collect();
        let unfair = rho.iter().filter(|r| **r > 1.0 + ROUNDING).count();
        Some(Fairness {
            jobs: rho.len() as u64,
            mean: statistics::mean(&rho)?,
            worst: rho.iter().copied().fold(0.0, f64::max),
            unfair: unfair as f64 / rho.len() as f64,
        })
    }
}

/// A column of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the column in files.
    pub name: &'static str,
    /// Heading of the column in reports, without its unit. Tables on a terminal have shorter ones.
    pub heading: &'static str,
    /// Formula of the column.
    pub formula: &'static str,
}

/// All columns, in order.
pub const COLUMNS: &[Column] = &[
    column("scheduler", "scheduler", "name of the composition"),
    column("jobs", "jobs", "jobs submitted before the simulation ended"),
    column("measured", "measured", "jobs that --measure names"),
    column(
        "completed",
        "completed",
        "measured jobs that did all their work, or that the scheduler ended at their goal",
    ),
    column(
        "rejected",
        "rejected",
        "measured jobs that admission turned away",
    ),
    column(
        "failed",
        "failed",
        "measured jobs that failed or were cancelled",
    ),
    column(
        "unfinished",
        "unfinished",
        "measured jobs that had not ended",
    ),
    column("avg_jct_s", "average JCT", "mean of finish - submit"),
    column(
        "median_jct_s",
        "median JCT",
        "50th percentile of finish - submit (nearest rank)",
    ),
    column(
        "p99_jct_s",
        "99th percentile of JCT",
        "99th percentile of finish - submit (nearest rank)",
    ),
    column(
        "avg_responsiveness_s",
        "average first wait",
        "mean of first start - submit",
    ),
    column(
        "avg_queueing_s",
        "average queueing time",
        "mean of finish - submit - time running",
    ),
    column(
        "makespan_s",
        "makespan",
        "last end - first submission, over all jobs that were not rejected",
    ),
    column(
        "utilisation",
        "GPUs busy",
        "GPU-seconds of running jobs (a part of a GPU counts as its part) / GPU-seconds of nodes that were up, over the makespan",
    ),
    column(
        "preemptions",
        "preemptions",
        "stops of running or starting jobs by decisions, all jobs; a move counts unless it is a change in place",
    ),
    column(
        "rounds",
        "rounds",
        "last end / round length, rounded up; decisions where rounds have no length",
    ),
    column(
        "decisions",
        "decisions",
        "decision moments that were visited",
    ),
];

/// The columns of parts of figures, in order, by their flat names: `deadlines_met`. Deadlines come
/// first.
pub(crate) const PARTS: [Column; 14] = [
    column(
        "deadlines_met",
        "deadlines met",
        "jobs that ended before their deadline",
    ),
    column(
        "deadlines_missed",
        "deadlines missed",
        "jobs with a deadline that ended later, failed, or had not ended",
    ),
    column(
        "deadlines_declined",
        "deadlines declined",
        "jobs with a deadline that admission rejected",
    ),
    column(
        "rent_node_hours",
        "node-hours",
        "hours of nodes from joining to leaving, without time off",
    ),
    column(
        "rent_cost",
        "cost",
        "node-hours, each at the price of its node at the time",
    ),
    column(
        "services_needed_gpu_h",
        "needed GPU-hours",
        "GPU-hours that services needed",
    ),
    column(
        "services_lacking_gpu_h",
        "lacking GPU-hours",
        "GPU-hours that services needed while they ran on fewer GPUs",
    ),
    column(
        "services_full",
        "in full",
        "time in which a service ran on all GPUs that it needed / time of all services",
    ),
    column(
        "evictions_guaranteed",
        "guaranteed jobs evicted",
        "stops by decisions of jobs of the guaranteed class",
    ),
    column(
        "evictions_spot",
        "spot jobs evicted",
        "stops by decisions of spot jobs",
    ),
    column(
        "evictions_broken",
        "broken guarantees",
        "stops by decisions of spot jobs within their guaranteed time",
    ),
    column(
        "fairness_mean",
        "mean rho",
        "mean of completion time / completion time alone on a fair share of the cluster",
    ),
    column("fairness_worst", "worst rho", "largest rho"),
    column(
        "fairness_unfair",
        "rho above 1",
        "jobs with a rho above 1, as a fraction",
    ),
];

impl Column {
    /// Returns whether the column is of deadlines.
    pub(crate) fn is_of_deadlines(&self) -> bool {
        self.name.starts_with("deadlines_")
    }
}

const fn column(name: &'static str, heading: &'static str, formula: &'static str) -> Column {
    Column {
        name,
        heading,
        formula,
    }
}

impl Summary {
    /// Returns whether the averages are over fewer jobs than were measured. They cannot be ranked
    /// with averages over all measured jobs.
    pub fn is_partial(&self) -> bool {
        self.completed < self.measured
    }

    /// Returns whether the fairness is over fewer jobs than were measured.
    pub fn is_fairness_partial(&self) -> bool {
        self.fairness.is_some_and(|f| f.jobs < self.measured)
    }

    /// Computes the summary of a simulation.
    ///
    /// ```
    /// # use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, Seconds, Time, order::SortKey};
    /// # use blox_core::policy::by_key;
    /// # use blox_sim::{Simulation, workload::Jobs};
    /// use blox_results::Summary;
    ///
    /// # let fifo = Composition::new("fifo").scheduling(by_key(|_| SortKey::by(0.0)));
    /// # let fifo = fifo.placement(blox_testing::FirstFit).build()?;
    /// let mut jobs = Jobs::new(vec![JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0))]);
    /// let report = Simulation::new(ClusterSpec::uniform(1, 4)).run(fifo, &mut jobs)?;
    /// assert_eq!(Summary::of(&report).utilisation, 0.5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(report: &Report) -> Self {
        let (all, usage) = (Self::of_jobs(report, &report.jobs), &report.usage);
        Summary {
            measured: all.measured + report.unsubmitted,
            unfinished: all.unfinished + report.unsubmitted,
            makespan_s: usage.makespan.secs(),
            utilisation: usage.utilisation,
            rent: usage.rent,
            rounds: usage.rounds,
            decisions: report.counters.decisions,
            ..all
        }
    }

    /// Computes the figures that follow from some jobs of a simulation alone.
    pub(crate) fn of_jobs(report: &Report, jobs: &[JobResult]) -> Self {
        let measured = || jobs.iter().filter(|j| j.measured);
        let count =
            |wanted: &dyn Fn(&JobResult) -> bool| measured().filter(|j| wanted(j)).count() as u64;
        let mut jct: Vec<f64> = measured()
            .filter_map(|j| j.jct())
            .map(|s| s.secs())
            .collect();
        // In order of job, so that the sum does not depend on the order of ends.
        let avg_jct_s = mean(jct.iter().copied());
        sort::numbers(&mut jct);
        let done = || measured().filter(|j| j.jct().is_some());
        Summary {
            scheduler: report.scheduler.clone(),
            jobs: jobs.len() as u64,
            measured: measured().count() as u64,
            completed: count(&|j| {
                matches!(j.outcome, Some(Outcome::Completed | Outcome::Terminated))
            }),
            rejected: count(&|j| j.outcome == Some(Outcome::Rejected)),
            failed: count(&|j| {
                matches!(
                    j.outcome,
                    Some(Outcome::Failed | Outcome::TimedOut | Outcome::Cancelled)
                )
            }),
            unfinished: count(&|j| j.outcome.is_none()),
            avg_jct_s,
            median_jct_s: percentile(&jct, 0.50),
            p99_jct_s: percentile(&jct, 0.99),
            avg_responsiveness_s: mean(done().filter_map(|j| j.responsiveness()).map(|s| s.secs())),
            avg_queueing_s: mean(done().filter_map(|j| j.queueing()).map(|s| s.secs())),
            preemptions: jobs.iter().map(|j| u64::from(j.preemptions)).sum(),
            deadlines: Deadlines::of(measured()),
            training: TrainingFigures::of(done(), &report.jobs),
            services: Services::of(jobs),
            evictions: Evictions::of(jobs),
            fairness: Fairness::of(jobs),
            ..Summary::default()
        }
    }
}

/// Returns the mean; NaN without values.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    statistics::mean(&values).unwrap_or(f64::NAN)
}

/// Returns a percentile; NaN without values.
fn percentile(sorted: &[f64], p: f64) -> f64 {
    statistics::percentile(sorted, p).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_column() {
        let value = serde_json::to_value(Summary::default()).unwrap();
        let fields = value.as_object().unwrap();
        assert_eq!(fields.len(), COLUMNS.len());
        for c in COLUMNS {
            assert!(fields.contains_key(c.name), "{}", c.name);
        }
    }

    /// A field is read alone, in an editor or in a table of fields.
    #[test]
    fn every_field_is_documented_in_full() {
        let source = include_str!("summary.rs");
        let mut fields = 0;
        for name in ["Summary", "Deadlines", "MissCauses"] {
            let (_, rest) = source
                .split_once(&format!("pub struct {name} {{\n"))
                .unwrap();
            let mut text = String::new();
            for line in rest.lines().map(str::trim).take_while(|line| *line != "}") {
                if let Some(doc) = line.strip_prefix("///") {
                    text.push_str(doc);
                } else if line.starts_with("pub ") {
                    let text = std::mem::take(&mut text);
                    let alone = text
                        .trim()
                        .split_once(". ")
                        .map_or(&*text, |(first, _)| first);
                    assert!(alone.trim().len() > 10, "{name}: {line}");
                    assert!(!alone.trim().starts_with("See "), "{name}: {line}");
                    fields += 1;
                }
            }
        }
        assert!(fields >= COLUMNS.len(), "{fields}");
    }

    #[test]
    fn jobs_are_treated_unfairly_above_one() {
        let job = |rho| {
            let mut job = JobResult::default();
            job.rho = rho;
            job
        };
        let jobs = [Some(0.5), None, Some(1.0 + 1e-12), Some(1.5), Some(3.0)].map(job);
        let found = Fairness::of(&jobs).unwrap();
        assert_eq!((found.jobs, found.worst, found.unfair), (4, 3.0, 0.5));
        assert_eq!(Fairness::of(&jobs[1..2]), None);
    }
}
