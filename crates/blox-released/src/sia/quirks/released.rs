use super::single::Tried;
use crate::sia::world::lies;
use blox_core::{Adapts, Name, NameId, Seconds, Stateless, TrainingSpec, View};
use blox_perf::applications::{Application, Applications};
use blox_perf::goodput::{BatchLimits, GoodputModel, KnownBatches, split};
use blox_policies::scheduling::sia::{Applicant, Config, Scores, restart_factor};
use std::sync::Arc;

/// Goodput of a configuration that cannot be used.
const UNUSABLE: f32 = 1e-4;

/// Fairness power, the authors' setting.
const POWER: f64 = -0.5;

/// Cost of leaving a job without GPUs, the authors' setting.
pub(crate) const LEAVING_OUT: f64 = 1.1;

/// Returns the coefficients of the released integer program from a row of normalised goodputs, the
/// restart factor, and the index of the job's current configuration.
///
/// Quirk: the program computes them in single precision and rounds them to hundredths.
pub(crate) fn coefficients(goodputs: &[f32], factor: f64, previous: Option<usize>) -> Vec<f32> {
    let one = |(i, g): (usize, &f32)| {
        let moves = previous.is_some_and(|p| p != i);
        let value = if moves { *g * factor as f32 } else { *g };
        let powered = libm::pow(f64::from(value), POWER) as f32;
        let rounded = (powered * 100.0).round_ties_even() / 100.0;
        rounded.min(3000.0)
    };
    goodputs.iter().enumerate().map(one).collect()
}

/// Returns the coefficients of a job with a fixed number of GPUs. The program computes these in
/// double precision.
fn coefficients_of_fixed(values: &[f64], factor: f64, previous: Option<usize>) -> Vec<f64> {
    let one = |(i, v): (usize, &f64)| {
        let moves = previous.is_some_and(|p| p != i);
        let value = if moves { *v * factor } else { *v };
        let rounded = (libm::pow(value, POWER) * 100.0).round_ties_even() / 100.0;
        rounded.min(3000.0)
    };
    values.iter().enumerate().map(one).collect()
}

/// Values of configurations as the released simulator computes them (`sia.py`).
///
/// Quirks of the program:
///
/// - A job that has not run has the same value on one GPU of every type.
/// - Goodputs use at most the batch that the user would request.
/// - Coefficients are rounded.
/// - Restart delays come from a table in the program instead of the job.
/// - A job with a fixed number of GPUs has the true step times of its batch, on as few nodes of each
///   type as hold it. Without an application, it scales linearly from its one-GPU profile.
#[derive(Clone, Debug)]
pub struct ReleasedScores {
    applications: Arc<Applications>,
}

impl ReleasedScores {
    /// Creates the values for jobs of these applications.
    pub fn for_applications(applications: Applications) -> Self {
        ReleasedScores {
            applications: Arc::new(applications),
        }
    }

    /// Returns the values of a job with a fixed number of GPUs, from its rate on each type of the
    /// cluster.
    ///
    /// Each GPU counts one on the slowest type, whether or not the job fits there.
    pub fn of_rates(asked: u32, rates: &[Option<f64>], configs: &[Config]) -> Vec<Option<f64>> {
        let slowest = rates.iter().flatten().copied().reduce(f64::min);
        let scale = f64::from(asked) / slowest.unwrap_or(1.0);
        let rate = |c: &Config| rates.get(c.gpu_type.index()).copied().flatten();
        configs.iter().map(|c| Some(rate(c)? * scale)).collect()
    }

    /// Returns the restart factor with the program's own delays.
    pub fn factor(applicant: &Applicant<'_>) -> f64 {
        let model = applicant.job.spec().extras().model.as_ref();
        let takes = Seconds::new(match model.map_or("", |m| m.as_str()) {
            "deepspeech2" => 25.0,
            "imagenet" => 250.0,
            "bert" => 120.0,
            "yolov3" => 45.0,
            _ => 30.0,
        });
        // Quirk: a job younger than one restart moves freely.
        let waits = applicant.adapts == Adapts::Nothing && applicant.previous.is_none();
        if waits || applicant.age < takes {
            return 1.0;
        }
        restart_factor(applicant.age, applicant.restarts.unwrap_or(0), takes)
    }
}

impl Stateless for ReleasedScores {}

impl Scores for ReleasedScores {
    fn values(
        &self,
        view: View<'_>,
        applicant: &Applicant<'_>,
        configs: &[Config],
        batches: &mut KnownBatches,
    ) -> Vec<Option<f64>> {
        let extras = applicant.job.spec().extras();
        let app = extras.model.as_ref();
        let app = app.and_then(|model| self.applications.get(model));
        let asked = applicant.job.gpus().get();
        let rate = |(t, name): (NameId, &Name)| match (app, applicant.training) {
            (Some(app), _) => {
                let nodes = view.nodes().filter(|n| n.gpu_type().0 == t.0);
                let size = nodes.map(|n| n.gpu_count()).max()?;
                let batch = extras.batch_size.unwrap_or(app.initial_batch);
                rate_of(app, name, batch, asked, size)
            }
            (None, training) => Some(training?.on(name)?.one_gpu_rate),
        };
        if applicant.adapts == Adapts::Nothing && (app.is_some() || applicant.training.is_some()) {
            let rates: Vec<_> = view.cluster().gpu_types().iter().map(rate).collect();
            return ReleasedScores::of_rates(asked, &rates, configs);
        }
        let mut goodputs = raw(view, applicant, configs, batches);
        normalise(&mut goodputs);
        goodputs.into_iter().map(|g| Some(f64::from(g))).collect()
    }

    fn costs(
        &self,
        applicant: &Applicant<'_>,
        configs: &[Config],
        values: &[Option<f64>],
    ) -> Vec<Option<f64>> {
        let has = |c: &Config| applicant.previous == Some((c.gpu_type.0, c.gpus));
        let previous = configs.iter().position(has);
        let factor = ReleasedScores::factor(applicant);
        let unusable = f64::from(UNUSABLE);
        let row: Vec<f64> = if applicant.adapts == Adapts::Nothing {
            let values: Vec<f64> = values.iter().map(|v| v.unwrap_or(unusable)).collect();
            coefficients_of_fixed(&values, factor, previous)
        } else {
            let single = |v: &Option<f64>| v.unwrap_or(unusable) as f32;
            let values: Vec<f32> = values.iter().map(single).collect();
            let row = coefficients(&values, factor, previous);
            row.into_iter().map(f64::from).collect()
        };
        row.iter().map(|a| Some(a - LEAVING_OUT)).collect()
    }

    fn lies(&self, gpu_type: &str, placement: Vec<u32>) -> Vec<u32> {
        lies(gpu_type, placement)
    }
}

/// Throughput of a fixed batch in samples per second (`get_throughput_with_accum`), on nodes of
/// `size` GPUs.
///
/// Unlike at run time, the pass size is not limited by other placements of the same number of GPUs.
fn rate_of(app: &Application, gpu_type: &str, batch: u32, gpus: u32, size: u32) -> Option<f64> {
    let on = app.types.get(gpu_type)?;
    let mut placement = vec![size; (gpus / size.max(1)) as usize];
    placement.extend((!gpus.is_multiple_of(size)).then_some(gpus % size));
    let limits = BatchLimits {
        max_batch: app.max_batch,
        per_gpu: (on.limits.per_gpu.0, on.most_per_gpu(&placement)),
        accumulate: true,
    };
    let split = split(f64::from(batch), gpus, app.initial_batch, &limits);
    let within = app.max_batch / (gpus * (split.accumulation + 1)).max(1);
    let (step, sync) = on.step(&placement, split.per_gpu.min(within))?;
    let total = step + (step - sync) * f64::from(split.accumulation);
    Some(f64::from(batch) / total * (1.0 / app.slowdown))
}

/// Divides a row by its smallest usable goodput, as one multiplication with a rounded factor.
fn normalise(row: &mut [f32]) {
    let worst = row.iter().copied().filter(|g| *g > UNUSABLE);
    let worst = worst.fold(f32::INFINITY, f32::min);
    if worst.is_finite() {
        let scale = (1.0 / f64::from(worst)) as f32;
        for g in row.iter_mut() {
            *g *= scale;
        }
    }
    // The multiplication scaled the unusable entries as well. Reset them.
    for g in row {
        if *g <= UNUSABLE {
            *g = UNUSABLE;
        }
    }
}

fn raw(
    view: View<'_>,
    applicant: &Applicant<'_>,
    configs: &[Config],
    batches: &mut KnownBatches,
) -> Vec<f32> {
    let Some(training) = applicant.training else {
        return vec![1.0; configs.len()];
    };
    let types = view.cluster().gpu_types();
    let name = |c: &Config| types.get(NameId(c.gpu_type.0));
    let Some(report) = applicant.job.report().filter(|r| !r.speed.is_empty()) else {
        let first = |c: &Config| if c.gpus == 1 { 1.0 } else { UNUSABLE };
        return configs.iter().map(first).collect();
    };
    let most = match applicant.adapts {
        Adapts::Gpus => applicant.job.gpus().get(),
        _ => most_gpus(training, report),
    };
    let batch = applicant.job.spec().extras().batch_size;
    let batch = batch.unwrap_or(training.max_batch);
    let donor = types.iter().find(|(_, n)| report.speed.contains_key(*n));
    let node_gpus = |of: u32| {
        let nodes = view.nodes().filter(|n| n.gpu_type().0 == of);
        nodes.map(|n| n.gpu_count()).max().unwrap_or(1).max(1)
    };
    let mut values = Vec::with_capacity(configs.len());
    for on in configs.chunk_by(|a, b| a.gpu_type == b.gpu_type) {
        let gpus = on.iter().map(|c| c.gpus).filter(|gpus| *gpus <= most);
        let known = name(&on[0]).and_then(|own| {
            let seen = report.speed.contains_key(own);
            let from = if seen { own } else { donor?.1 };
            let speed = report.speed.get(from)?;
            let (own, limits) = (training.on(own)?, training.on(from)?);
            let within = BatchLimits {
                max_batch: batch.max(training.initial_batch),
                per_gpu: limits.per_gpu,
                accumulate: true,
            };
            let tried = Tried::of(training.initial_batch, within, gpus);
            let share = (own.one_gpu_rate / limits.one_gpu_rate) as f32;
            let donor = donor.filter(|_| !seen).map(|d| (node_gpus(d.0.0), share));
            Some((speed.params, tried, within, donor))
        });
        for c in on {
            let Some((speed, tried, within, donor)) = known.filter(|_| c.gpus <= most) else {
                values.push(UNUSABLE);
                continue;
            };
            let model = GoodputModel {
                speed,
                noise: report.noise,
                initial_batch: training.initial_batch,
            };
            let nodes = donor.map_or(c.nodes, |(size, _)| c.gpus.div_ceil(size));
            let best = match applicant.adapts {
                Adapts::Gpus => model.at_batch(nodes, c.gpus, batch, &within),
                _ => model.best_of(nodes, &tried.on(c.gpus, batches)),
            };
            let goodput = best.goodput as f32;
            values.push(donor.map_or(goodput, |(_, share)| goodput * share));
        }
    }
    values
}

fn most_gpus(training: &TrainingSpec, report: &blox_core::TrainingReport) -> u32 {
    let of = |(name, limits): (&blox_core::Name, &blox_core::TypeLimits)| {
        let seen = report.speed.get(name).map_or(0, |s| s.most_gpus.get());
        let by_batch = training.max_batch / limits.per_gpu.0.max(1);
        (2 * seen).clamp(1, 64).min(by_batch)
    };
    training.types.iter().map(of).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_perf::applications::{Measured, StepTable, StepTimes, built_in};

    #[test]
    fn gpus_of_fixed_jobs_count_by_the_slowest_type() {
        // The job does not fit on the second type.
        let config = |t: u32| Config {
            gpu_type: blox_core::GpuTypeId(t),
            nodes: 1,
            gpus: 4,
            column: None,
        };
        let rates = [Some(3.0), Some(2.0), None, Some(5.0)];
        let values = ReleasedScores::of_rates(4, &rates, &[config(0), config(2), config(3)]);
        assert_eq!(values, [Some(6.0), None, Some(10.0)]);
        assert_eq!(ReleasedScores::of_rates(4, &[], &[config(0)]), [None]);
    }

    #[test]
    fn coefficients_of_fixed_jobs_are_not_rounded_twice() {
        assert_eq!(
            coefficients_of_fixed(&[4.0, 16.0], 0.25, Some(0)),
            [0.5, 0.5]
        );
        // A value between two hundredths, which single precision rounds to exactly 0.125.
        let value = 64.000_001;
        assert_eq!(coefficients_of_fixed(&[value], 1.0, None), [0.12]);
        assert_eq!(coefficients(&[value as f32], 1.0, None), [0.12]);
        let value = 63.999_999_9;
        assert_eq!(coefficients_of_fixed(&[value], 1.0, None), [0.13]);
        assert_eq!(coefficients(&[value as f32], 1.0, None), [0.12]);
    }

    #[test]
    fn goodputs_are_multiplied_with_one_factor() {
        let mut row = [3.0, 7.0, UNUSABLE];
        normalise(&mut row);
        let third = 1.0f32 / 3.0;
        assert_eq!(row, [3.0 * third, 7.0 * third, UNUSABLE]);
        assert_ne!(row[1], 7.0 / 3.0);
        let mut none = [UNUSABLE, 0.0];
        normalise(&mut none);
        assert_eq!(none, [UNUSABLE, UNUSABLE]);
    }

    #[test]
    fn coefficients_are_powers_in_hundredths() {
        assert_eq!(
            coefficients(&[1.0, 4.0, 1e-4], 0.5, None),
            [1.0, 0.5, 100.0]
        );
        // Goodputs of all configurations but the current one are discounted first.
        assert_eq!(
            coefficients(&[1.0, 1.335_249, 1e-4, 6.899_261], 0.708_737_864, Some(3)),
            [1.19, 1.03, 118.78, 0.38]
        );
    }

    #[test]
    fn rigid_jobs_run_at_their_measured_placement_speed() {
        let mut table = StepTable::default();
        let mut add = |placement: &[u32], per_gpu, step, sync| {
            let row = Measured {
                per_gpu,
                step,
                sync,
            };
            table.add_placement(placement, row);
        };
        add(&[8, 4], 10, 1.0, 0.25);
        add(&[8, 4], 12, 1.5, 0.25);
        add(&[4, 4, 4], 10, 2.0, 0.5);
        add(&[4, 4, 4], 20, 3.0, 0.5);
        let mut app = Application::clone(built_in().get("bert").unwrap());
        app.max_batch = 240;
        app.slowdown = 1.25;
        let on = app.types.get_mut("rtx").unwrap();
        on.steps = StepTimes::Measured(Box::new(table));
        let rate = |size| rate_of(&app, "rtx", 240, 12, size).unwrap();
        // Two passes of ten samples. Gradients are not exchanged after the first pass.
        assert_eq!(rate(8), 240.0 / 1.75 * 0.8);
        // The same number of samples per GPU in one pass.
        assert_eq!(rate(4), 240.0 / 3.0 * 0.8);
        assert_eq!(rate_of(&app, "quad", 240, 12, 4), None);
    }
}
