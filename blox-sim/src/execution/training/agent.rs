//! Agent of a training job: measures steps, fits the speed model, and tunes the batch.

use super::fits::{Fitter, KnownFits};
use crate::execution::Stretch;
use blox_core::SortedMap;
use blox_core::{
    Config, GpuCount, GradientNoise, Name, Seconds, SpeedReport, ThroughputParams, Time,
    TrainingReport,
};
use blox_perf::applications::{Application, OnType};
use blox_perf::goodput::{BatchConfig, BatchLimits, GoodputModel, KnownBatches, StepTime};
use serde::{Deserialize, Serialize};

/// Rule for the end of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EpochEnds {
    /// The epoch ends when its work is done.
    #[default]
    Exact,
    /// The duration from the start of the epoch, or from the last turn in it, is rounded to whole
    /// seconds.
    WholeSeconds,
}

/// Limit on the size of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassLimit {
    /// The largest pass measured on the placement.
    #[default]
    Placement,
    /// The largest pass measured on any placement.
    Application,
}

/// Scope of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profiles {
    /// One profile for each GPU type.
    #[default]
    ByType,
    /// One profile for all types: a configuration measured on any type is not measured again. The
    /// profile has an empty name.
    OfAll,
}

/// Seconds after the start of a round at which an epoch of zero whole seconds ends: the decision of
/// the round comes first.
const MOMENT: f64 = 1e-6;

/// Returns the whole second that such a moment belongs to.
fn whole(seconds: f64) -> f64 {
    let nearest = seconds.round();
    if (seconds - nearest).abs() < 10.0 * MOMENT {
        nearest
    } else {
        seconds
    }
}

/// A job's knowledge of its own speed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Agent {
    profiles: SortedMap<Name, Profile>,
    noise: Option<GradientNoise>,
    gpu_type: Option<Name>,
    /// Name of its current profile.
    profile: Option<Name>,
    placement: Vec<u32>,
    config: Option<BatchConfig>,
    /// Number of samples of a pass, and its step times.
    steps: Option<(u32, (f64, f64))>,
    rate: f64,
    /// The current stretch, which is measured at its end.
    now: Option<Doing>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Profile {
    observed: Vec<StepTime>,
    params: Option<ThroughputParams>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Doing {
    epoch: usize,
    /// Work at its end.
    work: f64,
}

impl Agent {
    pub(super) fn start(&mut self, gpu_type: Name, placement: Vec<u32>, profiles: Profiles) {
        self.profile = Some(match profiles {
            Profiles::ByType => gpu_type.clone(),
            Profiles::OfAll => "".into(),
        });
        self.gpu_type = Some(gpu_type);
        self.placement = placement;
        self.steps = None;
        self.now = None;
    }

    /// Returns the numbers of nodes and replicas that the job runs on.
    fn spread(&self, on: &OnType) -> (u32, u32) {
        let replicas = on.replicas(self.placement.iter().sum());
        let nodes = self.placement.len() as u32;
        (nodes.min(replicas), replicas)
    }

    /// Chooses the batch: the scheduler's, else the one that the job requires, else the best.
    pub(super) fn tune(
        &mut self,
        app: &Application,
        insisted: Option<u32>,
        limit: PassLimit,
        given: Option<BatchConfig>,
        batches: &mut KnownBatches,
    ) {
        if given.is_some() {
            self.config = given;
            return;
        }
        let Some(on) = self.gpu_type.as_ref().and_then(|t| app.types.get(t)) else {
            return;
        };
        let (nodes, replicas) = self.spread(on);
        if replicas == 0 {
            self.config = None;
            return;
        }
        let least = on.limits.per_gpu.0;
        let most = match limit {
            PassLimit::Placement => on.most_per_gpu(&self.placement),
            PassLimit::Application => on.limits.per_gpu.1,
        };
        let profile = self.profile.as_ref().and_then(|t| self.profiles.get(t));
        let model = profile.and_then(|p| p.params).zip(self.noise);
        let config = match (insisted, model) {
            (None, Some((speed, noise))) => {
                let model = GoodputModel {
                    speed,
                    noise,
                    initial_batch: app.initial_batch,
                };
                let limits = BatchLimits {
                    max_batch: app.max_batch,
                    per_gpu: (least, most),
                    accumulate: on.limits.stages <= 1,
                };
                let batches = batches.of(app.initial_batch, replicas, &limits);
                model.best_of(nodes, &batches).config
            }
            (batch, _) => app.passes_of(on, replicas, batch, most),
        };
        let measured = match limit {
            PassLimit::Placement => on.most_measured_on(replicas),
            PassLimit::Application => None,
        };
        self.config = Some(app.limited(config, replicas, measured));
    }

    /// Updates and returns the rate in iterations of the initial batch a second.
    pub(super) fn rate(&mut self, app: &Application, epoch: usize) -> f64 {
        let known = self.steps.map(|(per_gpu, _)| per_gpu);
        if let (Some(config), Some(gpu_type)) = (self.config, &self.gpu_type)
            && known != Some(config.per_gpu)
        {
            let on = app.types.get(gpu_type);
            let steps = on.and_then(|on| on.step(&self.placement, config.per_gpu));
            self.steps = steps.map(|s| (config.per_gpu, s));
        }
        self.rate = self.run(app, epoch).map_or(0.0, |(rate, ..)| rate.max(0.0));
        self.rate
    }

    fn run(&self, app: &Application, epoch: usize) -> Option<(f64, GradientNoise, (f64, f64))> {
        let on = app.types.get(self.gpu_type.as_ref()?)?;
        let replicas = on.replicas(self.placement.iter().sum());
        let (config, (per_gpu, steps)) = (self.config?, self.steps?);
        if per_gpu != config.per_gpu {
            return None;
        }
        let (rate, noise) = app.rate(replicas, config, steps, epoch);
        Some((rate, noise, steps))
    }

    /// Returns the stretch until the next round, or until the end of the epoch.
    pub(super) fn stretch(
        &mut self,
        app: &Application,
        done: f64,
        now: Time,
        round: Seconds,
        ends: EpochEnds,
    ) -> Stretch {
        let length = round.secs();
        let clock = match ends {
            EpochEnds::Exact => now.secs(),
            EpochEnds::WholeSeconds => whole(now.secs()),
        };
        let mut boundary = ((clock / length).floor() + 1.0) * length;
        if boundary <= clock {
            boundary += length;
        }
        let left = boundary - clock;
        let epoch = app.curves.epoch_at(done);
        let next = app.curves.end_of(epoch);
        let all = app.curves.epochs();
        let reached = done + self.rate * left;
        let (until, work, last) = if reached < next {
            (boundary, reached, false)
        } else {
            let takes = if next > done {
                (next - done) / self.rate
            } else {
                0.0
            };
            let takes = match ends {
                EpochEnds::Exact => takes,
                EpochEnds::WholeSeconds => takes.round_ties_even(),
            };
            let at_once = ends == EpochEnds::WholeSeconds && takes == 0.0;
            let until = match at_once && boundary - clock == length {
                true => now.secs().max(clock + MOMENT),
                false => now.secs().max(clock + takes),
            };
            (until, next, epoch + 1 >= all)
        };
        self.now = Some(Doing { epoch, work });
        Stretch {
            until: Time::new(until),
            ends: last,
            config: Config::NONE,
        }
    }

    /// Returns the batch in use.
    pub(super) fn batch(&self) -> Option<BatchConfig> {
        self.config
    }

    /// Records the measurements of the last stretch. Returns the work at its end; `None` if there
    /// was none.
    pub(super) fn measure(
        &mut self,
        app: &Application,
        fitter: &dyn Fitter,
        fits: &mut KnownFits,
    ) -> Option<f64> {
        let doing = self.now.take()?;
        let Some((_, noise, (step, sync))) = self.run(app, doing.epoch) else {
            return Some(doing.work);
        };
        self.noise = Some(noise);
        let (name, config) = (self.profile.clone()?, self.config?);
        let on = app.types.get(self.gpu_type.as_ref()?)?;
        let (nodes, replicas) = self.spread(on);
        let seen = StepTime {
            nodes,
            gpus: replicas,
            per_gpu: config.per_gpu,
            compute: step - sync,
            step,
        };
        let profile = self.profiles.entry(name).or_default();
        let same =
            |o: &StepTime| (o.nodes, o.gpus, o.per_gpu) == (seen.nodes, seen.gpus, seen.per_gpu);
        if !profile.observed.iter().any(same) {
            profile.observed.push(seen);
            profile.params = fits.fit(fitter, &profile.observed);
        }
        Some(doing.work)
    }

    pub(super) fn report(&self, app: &Application) -> Option<TrainingReport> {
        let speed = self.profiles.iter().filter_map(|(gpu_type, p)| {
            let most = p.observed.iter().map(|o| o.gpus).max()?;
            let stages = app.types.get(gpu_type).map_or(1, |on| on.limits.stages);
            let speed = SpeedReport {
                params: p.params?,
                most_gpus: GpuCount(most * stages),
            };
            Some((gpu_type.clone(), speed))
        });
        Some(TrainingReport {
            noise: self.noise?,
            speed: speed.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_perf::applications::{Curves, Epoch};

    #[test]
    fn stretch_ends_with_the_round_or_the_epoch() {
        let epoch = |progress| Epoch {
            progress,
            iteration: progress,
            noise: GradientNoise { sqr: 1.0, var: 1.0 },
        };
        let epochs = vec![epoch(100.0), epoch(200.0)];
        let app = Application {
            initial_batch: 1,
            max_batch: 1,
            curves: Curves::new(vec![(1, epochs)], 2).unwrap(),
            restart: Seconds::ZERO,
            slowdown: 1.0,
            types: SortedMap::new(),
        };
        let mut agent = Agent {
            rate: 2.0,
            ..Agent::default()
        };
        let mut until = |done, now| {
            let (now, round) = (Time::new(now), Seconds::new(60.0));
            let stretch = agent.stretch(&app, done, now, round, EpochEnds::Exact);
            (stretch.until.secs(), stretch.ends)
        };
        // 30 s do 60 iterations.
        assert_eq!(until(0.0, 90.0), (120.0, false));
        assert_eq!(until(60.0, 90.0), (110.0, false));
        assert_eq!(until(160.0, 90.0), (110.0, true));
    }
}
