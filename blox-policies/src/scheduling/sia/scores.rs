//! Values of configurations for a job.

use super::config::Config;
use crate::scheduling::listed::smallest_count;
use blox_core::{
    Adapts, JobRef, Name, NameId, Seconds, SpeedReport, TrainingSpec, TypeLimits, View,
};
use blox_perf::goodput::{BatchLimits, GoodputModel, KnownBatches};

/// Job for which a configuration is chosen.
pub struct Applicant<'a> {
    /// The job.
    pub job: JobRef<'a>,
    /// Training information of the job, if it trains.
    pub training: Option<&'a TrainingSpec>,
    /// Properties of the job that may be changed.
    pub adapts: Adapts,
    /// GPUs of one replica by GPU type, 1 if it does not train; `None` where it may not run.
    pub types: Vec<Option<u32>>,
    /// Time since submission.
    pub age: Seconds,
    /// Number of restarts; `None` before the first start.
    pub restarts: Option<u32>,
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
/// scheduler.schedule(view, &mut queue)?;
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

    /// Returns whether the costs change with nothing but the job's age, and never rise with it.
    /// The current configuration's cost must not change. Decisions then skip rounds in which no
    /// choice can change.
    fn falls_with_age(&self) -> bool {
        false
    }

    /// Returns the layout of a job's GPUs, given the number on each node in order.
    ///
    /// If the layout changes on the same type, the job restarts.
    fn lies(&self, gpu_type: &str, placement: Vec<u32>) -> Vec<u32> {
        let _ = gpu_type;
        placement
    }
}

/// Factor of a job's value if it must restart (section 3.3, equation 2).
///
/// The factor is the fraction of the job's life that is not spent on restarts, from 0 to 1. Both
/// durations are in seconds; the paper counts the duration of a restart in GPU-seconds.
pub fn restart_factor(age: Seconds, restarts: u32, restart: Seconds) -> f64 {
    let (age, takes) = (age.secs(), restart.secs());
    if age + takes <= 0.0 {
        return 1.0;
    }
    (age - f64::from(restarts) * takes).max(0.0) / (age + takes)
}

/// Scores from reported goodputs, as in the paper.
///
/// Before its first report, a job has a value on one GPU of each type only, or on its first level.
/// This value is the throughput in its profile. On a type on which it has not run on several GPUs,
/// another type on which it has stands in. The value there is multiplied by the ratio of both profiles (section 3.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodputs {
    /// Fairness power. Values are minimized if it is below 0, and maximized if it is above 0.
    pub power: f64,
    /// Cost of leaving a job out, at least 0.
    pub lambda: f64,
    /// Duration of a restart of a job that does not state it.
    pub restart: Seconds,
}

impl Goodputs {
    /// The settings of the paper, with restarts of 30 s.
    pub const DEFAULT: Self = Goodputs {
        power: -0.5,
        lambda: 1.1,
        restart: Seconds::new(30.0),
    };

    /// Cost of a job that waits for a restart and would gain nothing from it: below 0, so that it
    /// waits only if the GPUs are used.
    const LITTLE: f64 = -1e-3;
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
        // The worst value counts as much as the job's smallest number of GPUs.
        let (mut worst, mut least) = (f64::INFINITY, u32::MAX);
        for (value, config) in values.iter().zip(configs) {
            if let Some(value) = value {
                worst = worst.min(*value);
                least = least.min(config.gpus);
            }
        }
        let unit = worst / f64::from(least);
        let restart = applicant.training.map_or(self.restart, |t| t.restart);
        // The first start is no restart.
        let factor = applicant.restarts.map_or(1.0, |restarts| {
            restart_factor(applicant.age, restarts, restart)
        });
        let cost = |value: f64| {
            let powered = libm::pow(value.max(1e-4), self.power);
            let signed = if self.power < 0.0 { powered } else { -powered };
            Some(signed - self.lambda).filter(|c| c.is_finite())
        };
        for (value, config) in values.iter_mut().zip(configs) {
            let has = Some((config.gpu_type.0, config.gpus));
            let stays = factor >= 1.0 || applicant.previous == has;
            *value = value.and_then(|v| {
                let v = v / unit;
                match stays {
                    true => cost(v),
                    false if applicant.previous.is_some() => cost(v * factor),
                    // Waiting does not avoid the restart.
                    false => {
                        let best = cost(v)?;
                        Some(cost(v * factor)?.min(best.max(Self::LITTLE)))
                    }
                }
            });
        }
        values
    }

    fn falls_with_age(&self) -> bool {
        true
    }
}

/// Speed on a type on which a job has run, and the job's limits there.
type Known<'a> = (&'a SpeedReport, &'a TypeLimits);

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
    // One replica on each type, as profiled, or the first level.
    let first = |c: &Config| {
        let l = limits(c)?;
        let replicas = f64::from(c.gpus / l.stages);
        let is_first = smallest_count(&applicant.job, l.stages) == Some(c.gpus);
        is_first.then_some(l.one_gpu_rate * replicas)
    };
    let Some(report) = applicant.job.report().filter(|r| !r.speed.is_empty()) else {
        return configs.iter().map(first).collect();
    };
    let most = most_replicas(view, applicant, training);
    // The first type with several replicas, or else with one.
    let known = |(_, name): (NameId, &Name)| Some((report.speed.get(name)?, training.on(name)?));
    let several = |(speed, on): &Known<'_>| speed.most_gpus.get() > on.stages;
    let scaled = types.iter().filter_map(known).find(several);
    let donor = scaled.or_else(|| types.iter().find_map(known));
    let asked = applicant.job.spec().extras().batch_size;
    let stays = (applicant.adapts == Adapts::Gpus).then(|| asked.unwrap_or(training.initial_batch));
    let widest = training.types.values().map(|t| t.stages).max();
    let largest = match applicant.job.spec().extras().levels.is_empty() {
        true => most.saturating_mul(widest.unwrap_or(1)),
        false => u32::MAX,
    };
    let mut value = |c: &Config| {
        // Most configurations of a large cluster.
        if c.gpus > largest {
            return None;
        }
        let own = limits(c)?;
        let replicas = c.gpus / own.stages;
        let most = match applicant.adapts {
            Adapts::Gpus => most.min(applicant.job.gpus().get() / own.stages),
            _ => most,
        };
        let least = smallest_count(&applicant.job, own.stages)? / own.stages;
        if replicas > most.max(least) || !c.gpus.is_multiple_of(own.stages) {
            return None;
        }
        let ran = report.speed.get(name(c)?).map(|speed| (speed, own));
        let enough = |ran: &Known<'_>| replicas == 1 || scaled.is_none() || several(ran);
        let (speed, from) = ran.filter(enough).or(donor)?;
        let share = own.one_gpu_rate / from.one_gpu_rate;
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

/// Returns the maximum number of replicas: twice the current number, and one for a job that waits.
fn most_replicas(view: View<'_>, applicant: &Applicant<'_>, training: &TrainingSpec) -> u32 {
    let Some((gpu_type, gpus)) = applicant.previous else {
        return 1;
    };
    let name = view.cluster().gpu_types().get(NameId(gpu_type));
    let stages = name.and_then(|n| training.on(n)).map_or(1, |l| l.stages);
    let replicas = gpus / stages;
    let least = training.types.values().map(|t| t.per_gpu.0).min();
    let by_batch = training.max_batch / least.unwrap_or(1).max(1);
    (2 * replicas).min(by_batch).max(replicas).max(1)
}
