//! Values of configurations for a job.

use super::config::Config;
use blox_core::{Adapts, JobRef, Name, NameId, Seconds, TrainingSpec, View};
use blox_perf::goodput::{BatchLimits, GoodputModel, KnownBatches};

/// Job for which a configuration is chosen.
pub struct Applicant<'a> {
    /// The job.
    pub job: JobRef<'a>,
    /// Training information of the job, if it trains.
    pub training: Option<&'a TrainingSpec>,
    /// Properties of the job that may be changed.
    pub adapts: Adapts,
    /// True for each GPU type on which it may run.
    pub types: Vec<bool>,
    /// Time since submission.
    pub age: Seconds,
    /// Number of restarts.
    pub restarts: u32,
    /// Current type and number of GPUs.
    pub previous: Option<(u32, u32)>,
}

/// Computes the values and costs of configurations for a job.
///
/// ```
/// # use blox_core::{ClusterSpec, Composition, Event, GpuCount, GpuTypeId, JobId, JobQueue, JobSpec};
/// # use blox_core::{Seconds, State, Time, AdmissionDecision};
/// # use blox_testing::FirstFit;
/// use blox_core::View;
/// use blox_perf::goodput::KnownBatches;
/// use blox_policies::scheduling::sia::{Applicant, Config, Scores, Sia};
///
/// /// Prefers the GPU types with the highest numbers, whatever the job.
/// struct LastType;
///
/// impl Scores for LastType {
///     fn values(
///         &self,
///         _: View<'_>,
///         _: &Applicant<'_>,
///         configs: &[Config],
///         _: &mut KnownBatches,
///     ) -> Vec<Option<f64>> {
///         let value = |c: &Config| Some(f64::from(c.gpu_type.0 + 1) * f64::from(c.gpus));
///         configs.iter().map(value).collect()
///     }
///
///     fn costs(&self, _: &Applicant<'_>, _: &[Config], values: &[Option<f64>]) -> Vec<Option<f64>> {
///         values.iter().map(|value| value.map(|v| -v)).collect()
///     }
/// }
///
/// # let cluster: ClusterSpec = "1x4:t4,1x4:a100".parse()?;
/// # let mut state = State::new(&cluster)?;
/// # let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0)).into();
/// # let job = JobId(0);
/// # state.apply(Time::ZERO, &Event::Submitted { job, spec })?;
/// # let admission = AdmissionDecision::Accept { class: None, deadline: None };
/// # state.apply(Time::ZERO, &Event::AdmissionDecided { job, admission })?;
/// # let (view, mut queue) = (View::of(&state), JobQueue::default());
/// # let composition = Composition::new("last-type").placement(FirstFit);
/// let mut scheduler = composition.scheduling(Sia::new(LastType)).build()?;
/// // A rigid job waits on a cluster with two types.
/// scheduler.schedule(view, &mut queue);
/// assert_eq!(queue.all(view)[0].shapes[0].gpu_type, Some(GpuTypeId(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Scores: Send + Sync + 'static {
    /// Returns the value of each configuration, in any unit, or `None` if the job cannot use it.
    ///
    /// The values must depend only on the job's description, reports and assignment, and on the
    /// nodes of the cluster. They are recomputed when one of these changes.
    fn values(
        &self,
        view: View<'_>,
        applicant: &Applicant<'_>,
        configs: &[Config],
        batches: &mut KnownBatches,
    ) -> Vec<Option<f64>>;

    /// Returns the current cost of each configuration, given its value. The sum of costs is
    /// minimized, and leaving a job out costs 0. `None` marks a configuration that the job cannot
    /// use.
    fn costs(
        &self,
        applicant: &Applicant<'_>,
        configs: &[Config],
        values: &[Option<f64>],
    ) -> Vec<Option<f64>>;

    /// Returns the layout of a job's GPUs, given the number on each node in order.
    ///
    /// If the layout changes on the same type, the job restarts.
    fn lies(&self, gpu_type: &str, placement: Vec<u32>) -> Vec<u32> {
        let _ = gpu_type;
        placement
    }
}

/// Factor of a job's value if it must restart (section 3.4, equation 2).
///
/// The factor is the fraction of the job's life that is not spent on restarts. It is 1 for a job
/// younger than one restart.
pub fn restart_factor(age: Seconds, restarts: u32, restart: Seconds) -> f64 {
    let (age, takes) = (age.secs(), restart.secs());
    if age < takes || age + takes <= 0.0 {
        return 1.0;
    }
    (age - f64::from(restarts) * takes).max(0.0) / (age + takes)
}

/// Scores from reported goodputs, as in the paper.
///
/// Before its first report, a job has a value on one GPU of each type only: the throughput in its
/// profile of that type. On a type without a report, the value is the one on the first reported
/// type, times the ratio of both profiles (equation 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodputs {
    /// Fairness power. Values are minimized if it is below 0, and maximized if it is above 0.
    pub power: f64,
    /// Cost of leaving a job out, at least 0.
    pub lambda: f64,
}

impl Goodputs {
    /// The settings of the paper.
    pub const DEFAULT: Self = Goodputs {
        power: -0.5,
        lambda: 1.1,
    };
}

impl Scores for Goodputs {
    fn values(
        &self,
        view: View<'_>,
        applicant: &Applicant<'_>,
        configs: &[Config],
        batches: &mut KnownBatches,
    ) -> Vec<Option<f64>> {
        values(view, applicant, configs, batches)
    }

    fn costs(
        &self,
        applicant: &Applicant<'_>,
        configs: &[Config],
        values: &[Option<f64>],
    ) -> Vec<Option<f64>> {
        let mut values = values.to_vec();
        let worst = values
            .iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min);
        let restart = applicant.training.map_or(Seconds::ZERO, |t| t.restart);
        let since = match applicant.adapts {
            Adapts::Nothing => applicant.job.attained_time(),
            _ => applicant.age,
        };
        let factor = if since < restart {
            1.0
        } else {
            restart_factor(applicant.age, applicant.restarts, restart)
        };
        for (value, config) in values.iter_mut().zip(configs) {
            let stays = applicant
                .previous
                .is_none_or(|has| has == (config.gpu_type.0, config.gpus));
            let factor = if stays { 1.0 } else { factor };
            *value = value.and_then(|v| {
                let v = v / worst * factor;
                let powered = libm::pow(v.max(1e-4), self.power);
                let signed = if self.power < 0.0 { powered } else { -powered };
                Some(signed - self.lambda).filter(|c| c.is_finite())
            });
        }
        values
    }
}

/// Goodput of each configuration, in any unit.
fn values(
    view: View<'_>,
    applicant: &Applicant<'_>,
    configs: &[Config],
    batches: &mut KnownBatches,
) -> Vec<Option<f64>> {
    let types = view.cluster().gpu_types();
    let name = |c: &Config| types.get(NameId(c.gpu_type.0));
    let Some(training) = applicant.training else {
        // Nothing is known: every type is equally good.
        return vec![Some(1.0); configs.len()];
    };
    let limits = |c: &Config| name(c).and_then(|n| training.on(n));
    if applicant.adapts == Adapts::Nothing {
        let rate = |c: &Config| {
            let l = limits(c).filter(|l| c.gpus.is_multiple_of(l.stages))?;
            Some(l.one_gpu_rate * f64::from(c.gpus / l.stages))
        };
        return configs.iter().map(rate).collect();
    }
    // One replica on each type, as profiled.
    let first = |c: &Config| {
        let l = limits(c).filter(|l| c.gpus == l.stages)?;
        Some(l.one_gpu_rate)
    };
    let Some(report) = applicant.job.report().filter(|r| !r.speed.is_empty()) else {
        return configs.iter().map(first).collect();
    };
    let most = most_replicas(view, applicant, training, report);
    let in_order = |name: &Name| report.speed.get(name).map(|s| (name.clone(), *s));
    let donor = types.iter().find_map(|(_, name)| in_order(name));
    let asked = applicant.job.spec().extras().batch_size;
    let stays = (applicant.adapts == Adapts::Gpus).then(|| asked.unwrap_or(training.initial_batch));
    let mut value = |c: &Config| {
        let own = limits(c)?;
        let replicas = c.gpus / own.stages;
        let most = match applicant.adapts {
            Adapts::Gpus => applicant.job.gpus().get() / own.stages,
            _ => most,
        };
        if replicas > most || !c.gpus.is_multiple_of(own.stages) {
            return None;
        }
        let (speed, from, share) = match report.speed.get(name(c)?) {
            Some(speed) => (speed, own, 1.0),
            None => {
                let (from, speed) = donor.as_ref()?;
                let theirs = training.on(from)?;
                (speed, theirs, own.one_gpu_rate / theirs.one_gpu_rate)
            }
        };
        let model = GoodputModel {
            speed: speed.params,
            noise: report.noise,
            initial_batch: training.initial_batch,
        };
        let within = BatchLimits {
            max_batch: training.max_batch,
            per_gpu: from.per_gpu,
            accumulate: own.stages == 1,
        };
        let nodes = c.nodes.min(replicas);
        let best = match stays {
            Some(batch) => model.at_batch(nodes, replicas, batch, &within),
            None => {
                let batches = batches.of(training.initial_batch, replicas, &within);
                model.best_of(nodes, &batches)
            }
        };
        Some(best.goodput * share).filter(|g| *g > 0.0 && g.is_finite())
    };
    let values: Vec<_> = configs.iter().map(&mut value).collect();
    match values.iter().all(Option::is_none) {
        // No configuration within the limits is usable: the job continues with its profile.
        true => configs.iter().map(first).collect(),
        false => values,
    }
}

/// Returns the maximum number of replicas: at most twice the number on which the job has run.
fn most_replicas(
    view: View<'_>,
    applicant: &Applicant<'_>,
    training: &TrainingSpec,
    report: &blox_core::TrainingReport,
) -> u32 {
    let stages = |name: &Name| training.on(name).map_or(1, |l| l.stages);
    let seen = report
        .speed
        .iter()
        .map(|(name, s)| s.most_gpus.get() / stages(name));
    let least = training.types.values().map(|t| t.per_gpu.0).min();
    let by_batch = training.max_batch / least.unwrap_or(1).max(1);
    let doubled = 2 * seen.max().unwrap_or(0).max(1);
    let bound = applicant.previous.map_or(0, |(gpu_type, gpus)| {
        let name = view.cluster().gpu_types().get(NameId(gpu_type));
        gpus / name.map_or(1, stages)
    });
    doubled.min(by_batch).max(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_is_free_for_young_and_dear_for_moved_jobs() {
        let s = Seconds::new;
        assert_eq!(restart_factor(s(20.0), 0, s(30.0)), 1.0);
        assert_eq!(restart_factor(s(90.0), 0, s(30.0)), 0.75);
        assert_eq!(restart_factor(s(90.0), 2, s(30.0)), 0.25);
        assert_eq!(restart_factor(s(90.0), 9, s(30.0)), 0.0);
        assert_eq!(restart_factor(s(90.0), 9, s(0.0)), 1.0);
    }
}
