//! Applications that jobs train.

use super::agent::{Agent, PassLimit, Profiles};
use super::curves::Curves;
use super::table::StepTable;
use crate::workload::{NoticeKind, Notices, Workload, WorkloadError};
use blox_core::perf::TypeSpeeds;
use blox_core::perf::goodput::{GradientNoise, KnownBatches, ThroughputParams};
use blox_core::{Adapts, Extras, JobSpec, Name, Seconds, TrainingSpec, TypeLimits, Work};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Step times on one GPU type.
#[derive(Clone, Debug, PartialEq)]
pub enum StepTimes {
    /// A table of measured step times.
    Measured(Box<StepTable>),
    /// A model with fitted parameters.
    Fitted(ThroughputParams),
}

impl StepTimes {
    /// Returns the seconds of a step of one pass, and of its gradient exchange; `None` if unknown.
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
    /// Limits on that type.
    pub limits: TypeLimits,
    /// Step times on that type.
    pub steps: StepTimes,
}

impl OnType {
    /// Returns the number of replicas on `gpus` GPUs.
    pub(super) fn replicas(&self, gpus: u32) -> u32 {
        gpus / self.limits.stages.max(1)
    }

    /// Returns the seconds of a step of one pass with `per_replica` samples on each replica, and of
    /// its gradient exchange. Returns `None` if the times are unknown, or if no replica fits.
    ///
    /// A pass of a pipeline runs `per_replica` micro-batches of one sample forward and backward
    /// through all stages. It takes `3 (stages - 1 + per_replica)` times the measured forward pass
    /// of one stage. Its exchange does not overlap with computing.
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

    /// Returns the largest number of samples of a pass on a placement.
    pub fn most_per_gpu(&self, placement: &[u32]) -> u32 {
        match &self.steps {
            StepTimes::Measured(table) if self.limits.stages <= 1 => table.most_per_gpu(placement),
            _ => None,
        }
        .unwrap_or(self.limits.per_gpu.1)
    }
}

/// An application: a model with its data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Batch size that the application was written for.
    pub initial_batch: u32,
    /// Largest batch size.
    pub max_batch: u32,
    /// Training curves.
    pub curves: Curves,
    /// Duration of a restart from a checkpoint.
    pub restart: Seconds,
    /// Factor on measured step times for input, validation and checkpoints.
    pub slowdown: f64,
    /// Limits and step times by GPU type.
    pub types: BTreeMap<Name, OnType>,
}

impl Application {
    /// Returns the training specification of the application's jobs.
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

    /// Returns the iterations of the initial batch a second in an epoch, and the gradient noise.
    /// `step` and `sync` are the seconds of a step and of its exchange.
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
    /// Adds an application.
    pub fn insert(&mut self, name: impl Into<Name>, application: Application) {
        self.0.insert(name.into(), Arc::new(application));
    }

    /// Returns an application.
    pub fn get(&self, name: &str) -> Option<&Arc<Application>> {
        self.0.get(name)
    }

    /// Returns all applications in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Application)> {
        self.0.iter().map(|(name, a)| (name, &**a))
    }

    /// Returns the applications with a change applied to each.
    #[must_use]
    pub fn map(self, mut change: impl FnMut(&Name, &mut Application)) -> Self {
        let changed = self.0.into_iter().map(|(name, a)| {
            let mut a = Arc::unwrap_or_clone(a);
            change(&name, &mut a);
            (name, Arc::new(a))
        });
        Applications(changed.collect())
    }

    /// Makes a job train the application named as its model. The job's work becomes the
    /// application's work, and its rate the rate on the requested GPUs. If the job is rigid, its
    /// speed on each GPU type is set as well. Returns false and changes nothing if there is no
    /// application with this name.
    pub fn describe(&self, job: &mut JobSpec, adapts: Adapts) -> bool {
        let named = job.extras().model.as_ref().and_then(|m| self.0.get(m));
        let Some(app) = named else { return false };
        let asked = job.extras().batch_size.unwrap_or(app.initial_batch);
        // No cluster has more: a job that requests more never runs.
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
            // On nodes of four GPUs, else of eight.
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

/// Jobs that train applications of a set. Jobs that name an application are changed by
/// [`Applications::describe`]; others stay unchanged and are counted.
#[derive(Clone, Debug)]
pub struct WithApplications<W> {
    jobs: W,
    applications: Applications,
    notices: Notices,
    handed_out: u64,
}

impl<W: Workload> WithApplications<W> {
    /// Wraps a workload with a set of applications.
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
