//! What trains.

use super::agent::{Agent, PassLimit, Profiles};
use super::curves::Curves;
use super::table::StepTable;
use crate::workload::{NoticeKind, Notices, Workload, WorkloadError};
use blox_core::perf::TypeSpeeds;
use blox_core::perf::goodput::{GradientNoise, KnownBatches, ThroughputParams};
use blox_core::{Adapts, Extras, JobSpec, Name, Seconds, TrainingSpec, TypeLimits, Work};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long steps take on one type of GPU.
#[derive(Clone, Debug, PartialEq)]
pub enum StepTimes {
    /// As measured.
    Measured(Box<StepTable>),
    /// As fitted parameters say.
    Fitted(ThroughputParams),
}

impl StepTimes {
    /// Seconds of a step of one pass and of its exchange of gradients; `None` where
    /// nothing is known.
    pub fn step(&self, placement: &[u32], per_gpu: u32) -> Option<(f64, f64)> {
        match self {
            StepTimes::Measured(table) => table.step(placement, per_gpu),
            StepTimes::Fitted(p) => {
                let (nodes, gpus) = (placement.len() as u32, placement.iter().sum());
                let step = p.step(nodes, gpus, f64::from(per_gpu), 0);
                Some((step, step - p.pass(f64::from(per_gpu))))
            }
        }
    }
}

/// An application on one type of GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct OnType {
    /// Its limits there.
    pub limits: TypeLimits,
    /// Its step times there.
    pub steps: StepTimes,
}

impl OnType {
    /// Replicas on so many GPUs.
    pub(super) fn replicas(&self, gpus: u32) -> u32 {
        gpus / self.limits.stages.max(1)
    }

    /// Seconds of a step of one pass, `per_replica` samples on each replica, and of its exchange of
    /// gradients; `None` where nothing is known, or where no replica fits.
    ///
    /// A pipeline's pass is that of `per_replica` micro-batches of one sample through all of its
    /// stages, forth and back: as measured of one stage, forth, times `3 (stages - 1 +
    /// per_replica)`; its exchange is not hidden.
    pub fn step(&self, placement: &[u32], per_replica: u32) -> Option<(f64, f64)> {
        let stages = self.limits.stages;
        if stages <= 1 {
            return self.steps.step(placement, per_replica);
        }
        let gpus = placement.iter().sum();
        let replicas = self.replicas(gpus);
        if replicas == 0 || !gpus.is_multiple_of(stages) {
            return None;
        }
        match &self.steps {
            StepTimes::Measured(table) => {
                let (forth, sync) = table.step(placement, 1)?;
                let turns = 3.0 * f64::from(stages - 1 + per_replica);
                Some((turns * forth + sync, sync))
            }
            StepTimes::Fitted(p) => {
                let nodes = (placement.len() as u32).min(replicas);
                let per_replica = f64::from(per_replica);
                let step = p.step(nodes, replicas, per_replica, 0);
                Some((step, step - p.pass(per_replica)))
            }
        }
    }

    /// The greatest pass on a placement.
    pub fn most_per_gpu(&self, placement: &[u32]) -> u32 {
        match &self.steps {
            StepTimes::Measured(table) if self.limits.stages <= 1 => table.most_per_gpu(placement),
            _ => None,
        }
        .unwrap_or(self.limits.per_gpu.1)
    }
}

/// An application: a model with its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// The batch that it was written for.
    pub initial_batch: u32,
    /// The greatest batch.
    pub max_batch: u32,
    /// How it trains.
    pub curves: Curves,
    /// From a checkpoint until it trains again.
    pub restart: Seconds,
    /// What a step takes beyond what was measured, as a factor: input, validation,
    /// checkpoints.
    pub slowdown: f64,
    /// By type of GPU.
    pub types: BTreeMap<Name, OnType>,
}

impl Application {
    /// Returns what its jobs say of themselves.
    pub fn spec(&self, adapts: Adapts) -> TrainingSpec {
        TrainingSpec {
            initial_batch: self.initial_batch,
            max_batch: self.max_batch,
            adapts,
            restart: self.restart,
            types: self
                .types
                .iter()
                .map(|(name, on)| (name.clone(), on.limits))
                .collect(),
        }
    }

    /// Iterations of the initial batch a second, and the noise of gradients, in an epoch, with
    /// steps of so many seconds.
    pub(super) fn rate(
        &self,
        replicas: u32,
        config: blox_core::BatchConfig,
        (step, sync): (f64, f64),
        epoch: usize,
    ) -> (f64, GradientNoise) {
        let passes = f64::from(config.accumulation) + 1.0;
        let batch = f64::from(replicas) * f64::from(config.per_gpu) * passes;
        let scale = batch / f64::from(self.initial_batch);
        let noise = self.curves.noise(epoch, batch);
        let total = step + (step - sync) * f64::from(config.accumulation);
        let rate = noise.gain(scale) / total * (1.0 / self.slowdown);
        (rate, noise)
    }
}

/// Applications by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applications(BTreeMap<Name, Arc<Application>>);

impl Applications {
    /// Adds one.
    pub fn insert(&mut self, name: impl Into<Name>, application: Application) {
        self.0.insert(name.into(), Arc::new(application));
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Arc<Application>> {
        self.0.get(name)
    }

    /// All of them in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Application)> {
        self.0.iter().map(|(name, a)| (name, &**a))
    }

    /// The same applications, each changed.
    #[must_use]
    pub fn map(self, mut change: impl FnMut(&Name, &mut Application)) -> Self {
        let changed = self.0.into_iter().map(|(name, a)| {
            let mut a = Arc::unwrap_or_clone(a);
            change(&name, &mut a);
            (name, Arc::new(a))
        });
        Applications(changed.collect())
    }

    /// Lets a job train the application that it names as its model: its work becomes that of the
    /// application, its rate that on what it asks for; where it changes nothing about itself, it
    /// says that of each type of GPU. `false`, and nothing changed, where there is none of that
    /// name.
    pub fn describe(&self, job: &mut JobSpec, adapts: Adapts) -> bool {
        let named = job.extras().model.as_ref().and_then(|m| self.0.get(m));
        let Some(app) = named else { return false };
        let asked = job.extras().batch_size.unwrap_or(app.initial_batch);
        // Nobody has more: a job that asks for more never runs.
        let gpus = job.gpus.get().min(1 << 20);
        let mut batches = KnownBatches::default();
        let mut on_each = |name: &Name| {
            let mut rate = |size: u32| {
                let mut placement = vec![size; (gpus / size) as usize];
                placement.extend((!gpus.is_multiple_of(size)).then_some(gpus % size));
                let mut agent = Agent::default();
                agent.start(name.clone(), placement, Profiles::ByType);
                agent.tune(app, Some(asked), PassLimit::Placement, None, &mut batches);
                Some(agent.rate(app, 0)).filter(|r| *r > 0.0)
            };
            // On nodes of four GPUs, or of eight.
            rate(4).or_else(|| rate(8))
        };
        let rate = app.types.keys().find_map(&mut on_each);
        job.work = Work {
            iterations: app.curves.total(),
            rate: rate.unwrap_or(1.0),
        };
        let extras = job
            .extras
            .get_or_insert_with(|| Box::new(Extras::default()));
        extras.training = Some(Arc::new(app.spec(adapts)));
        if adapts == Adapts::Nothing {
            let mut speeds = TypeSpeeds::default();
            for name in app.types.keys() {
                if let Some(rate) = on_each(name) {
                    speeds.set(name.clone(), rate);
                }
            }
            extras.speeds = Some(Arc::new(speeds));
        }
        true
    }
}

/// Jobs that train applications of a set, as [`Applications::describe`] says of each that
/// names one; others stay as they are, and are counted.
#[derive(Clone, Debug)]
pub struct WithApplications<W> {
    jobs: W,
    applications: Applications,
    notices: Notices,
    handed_out: u64,
}

impl<W: Workload> WithApplications<W> {
    /// These jobs, by these applications.
    pub fn new(jobs: W, applications: Applications) -> Self {
        WithApplications {
            notices: jobs.notices().clone(),
            jobs,
            applications,
            handed_out: 0,
        }
    }
}

impl<W: Workload> Workload for WithApplications<W> {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        let Some(mut job) = self.jobs.next_job()? else {
            return Ok(None);
        };
        self.handed_out += 1;
        let training = job.extras().training.as_ref();
        let adapts = training.map_or(Adapts::All, |t| t.adapts);
        if !self.applications.describe(&mut job, adapts) {
            self.notices.add(NoticeKind::NoProfile, self.handed_out);
        }
        Ok(Some(job))
    }

    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn describe(&self) -> String {
        format!("{}, with tables of applications", self.jobs.describe())
    }
}
