//! Jobs that train, tune their batch, and measure their own speed (Pollux, OSDI 2021; Sia, SOSP
//! 2023).

mod agent;
mod fits;

pub use agent::{Agent, EpochEnds, PassLimit, Profiles};
pub use fits::{Fitter, LeastSquares};

use fits::KnownFits;

use super::{AnyExecution, ExecutionModel, Stretch, Turn, untrained};
use crate::sealed::Sealed;
use blox_core::SortedMap;
use blox_core::{
    Adapts, AnyMemory, Assignment, Event, JobId, JobRef, Name, Policy, Seconds, Time, View, With,
};
use blox_perf::applications::{Application, Applications};
use blox_perf::goodput::{BatchConfig, KnownBatches};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Jobs that train an [`Application`] perform its iterations. Their rate follows from their
/// placement, batch and epoch. Other jobs run as in another model.
///
/// A job's [`Agent`] keeps a profile of its observed steps by GPU type and fits the
/// [parameters](blox_core::ThroughputParams) of the job's speed to it. It chooses
/// the batch with the best goodput when the job starts, at the end of each epoch, and at the end of
/// each of its own rounds (60 s). It reports its results
/// ([`Event::Reported`]) at the end of each measurement.
#[derive(Clone)]
pub struct Training {
    applications: Arc<Applications>,
    others: Arc<dyn AnyExecution>,
    round: Seconds,
    ends: EpochEnds,
    limit: PassLimit,
    most_nodes: MostNodes,
    profiles: Profiles,
    fitter: Arc<dyn Fitter>,
}

/// Memory of [`Training`] for its own jobs.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Agents {
    /// Agents of live training jobs.
    by_job: SortedMap<JobId, Agent>,
    #[serde(skip)]
    fits: KnownFits,
    #[serde(skip)]
    batches: KnownBatches,
}

impl Training {
    /// Creates a model of these applications. Other jobs run at their specified speed.
    pub fn of(applications: Applications) -> Self {
        Training {
            applications: Arc::new(applications),
            others: Arc::new(untrained()),
            round: Seconds::new(60.0),
            ends: EpochEnds::Exact,
            limit: PassLimit::Placement,
            most_nodes: |_| None,
            profiles: Profiles::ByType,
            fitter: Arc::new(LeastSquares),
        }
    }

    /// Sets the length of the rounds in which batches are tuned, above 0.
    #[must_use]
    pub fn round(mut self, round: Seconds) -> Self {
        if round > Seconds::ZERO {
            self.round = round;
        }
        self
    }

    /// Sets the rule for the end of an epoch.
    #[must_use]
    pub fn epoch_ends(mut self, ends: EpochEnds) -> Self {
        self.ends = ends;
        self
    }

    /// Sets the limit on the size of a pass.
    #[must_use]
    pub fn pass_limit(mut self, limit: PassLimit) -> Self {
        self.limit = limit;
        self
    }

    /// Limits the number of nodes of a type. On more nodes, a job runs as fast as on that many
    /// nodes with its GPUs divided evenly among them ([`gathered`]).
    #[must_use]
    pub fn most_nodes(mut self, most: MostNodes) -> Self {
        self.most_nodes = most;
        self
    }

    /// Sets the scope of profiles.
    #[must_use]
    pub fn profiles(mut self, profiles: Profiles) -> Self {
        self.profiles = profiles;
        self
    }

    /// Sets the fitter.
    #[must_use]
    pub fn fitter(mut self, fitter: impl Fitter + 'static) -> Self {
        self.fitter = Arc::new(fitter);
        self
    }

    fn application(&self, job: &JobRef<'_>) -> Option<Arc<Application>> {
        let extras = job.spec().extras.as_ref()?;
        extras.training.as_ref()?;
        self.applications.get(extras.model.as_ref()?).cloned()
    }
}

/// Maximum number of nodes of a GPU type that affects the speed; `None` for no limit.
pub type MostNodes = fn(&str) -> Option<u32>;

/// Returns the GPUs on each of at most `most` nodes. A placement on no more nodes stays unchanged.
/// Otherwise the GPUs are divided evenly, and the last node has the remainder.
pub fn gathered(placement: Vec<u32>, most: Option<u32>) -> Vec<u32> {
    let most = most.filter(|most| placement.len() > *most as usize);
    let Some(most) = most.filter(|most| *most > 0) else {
        return placement;
    };
    let gpus: u32 = placement.iter().sum();
    let each = gpus.div_ceil(most);
    let mut evenly = vec![each; (gpus / each) as usize];
    evenly.extend((!gpus.is_multiple_of(each)).then_some(gpus % each));
    evenly
}

/// Returns the GPU type of an assignment, and the number of its GPUs on each node, in order of the
/// GPUs.
pub fn lie_of<'a>(view: View<'a>, assignment: &Assignment) -> (Option<&'a Name>, Vec<u32>) {
    let cluster = view.cluster();
    let mut last = None;
    let mut placement = Vec::new();
    for gpu in &assignment.gpus {
        let node = cluster.node_of(*gpu);
        match placement.last_mut() {
            Some(count) if node == last => *count += 1,
            _ => placement.push(1),
        }
        last = node;
    }
    let node = last.and_then(|n| cluster.node(n));
    let types = cluster.gpu_types();
    let name = node.and_then(|n| types.get(blox_core::NameId(n.gpu_type().0)));
    (name, placement)
}

impl Policy for Training {
    type Memory = With<Agents, AnyMemory>;

    fn initial(&self, seed: u64) -> Self::Memory {
        With {
            own: Agents::default(),
            inner: self.others.any_initial(seed),
        }
    }

    fn on_event(&self, memory: &mut Self::Memory, _: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            memory.own.by_job.remove(job);
        }
    }
}

impl ExecutionModel for Training {
    fn rate(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let Some(app) = self.application(job) else {
            let others = &mut memory.inner;
            return self.others.any_rate(others, view, job, assignment);
        };
        let (gpu_type, placement) = lie_of(view, assignment);
        let agent = memory.own.by_job.entry(job.id()).or_default();
        let gpu_type = gpu_type.cloned().unwrap_or_else(|| "".into());
        let placement = gathered(placement, (self.most_nodes)(&gpu_type));
        agent.start(gpu_type, placement, self.profiles);
        let batches = &mut memory.own.batches;
        agent.tune(
            &app,
            wish(job),
            self.limit,
            BatchConfig::of(&assignment.config),
            batches,
        );
        agent.rate(&app, app.curves.epoch_at(job.work_done()))
    }

    fn stretch(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
    ) -> Option<Stretch> {
        let app = self.application(job)?;
        let agent = memory.own.by_job.get_mut(&job.id())?;
        let mut stretch = agent.stretch(&app, job.work_done(), view.now(), self.round, self.ends);
        if let Some(batch) = agent
            .batch()
            .filter(|b| BatchConfig::of(job.config()) != Some(*b))
        {
            stretch.config = batch.put_into(job.config());
        }
        Some(stretch)
    }

    fn turn(
        &self,
        memory: &mut Self::Memory,
        _: View<'_>,
        job: &JobRef<'_>,
        _: Time,
    ) -> Option<Turn> {
        let app = self.application(job)?;
        let Agents {
            by_job,
            fits,
            batches,
        } = &mut memory.own;
        let agent = by_job.get_mut(&job.id())?;
        let work = agent.measure(&app, &*self.fitter, fits)?;
        let given = job.bound().and_then(|a| BatchConfig::of(&a.config));
        agent.tune(&app, wish(job), self.limit, given, batches);
        Some(Turn {
            report: agent.report(&app).map(Arc::new),
            work,
            rate: agent.rate(&app, app.curves.epoch_at(work)),
        })
    }

    fn keeps_plain_rates(&self, sealed: Sealed) -> bool {
        self.others.any_keeps_plain_rates(sealed)
    }
}

/// Returns the batch that a job requires if it does not tune its batch.
fn wish(job: &JobRef<'_>) -> Option<u32> {
    let extras = job.spec().extras();
    let training = extras.training.as_ref()?;
    match training.adapts {
        Adapts::All => None,
        Adapts::Gpus | Adapts::Nothing => extras.batch_size.or(Some(training.initial_batch)),
    }
}

#[cfg(test)]
mod tests {
    use super::gathered;

    #[test]
    fn gpus_on_too_many_nodes_are_divided_evenly() {
        assert_eq!(gathered(vec![1, 4, 6], Some(2)), [6, 5]);
        assert_eq!(gathered(vec![4, 4, 4, 4], Some(3)), [6, 6, 4]);
        assert_eq!(gathered(vec![2, 1], Some(1)), [3]);
        assert_eq!(gathered(vec![8, 4], Some(2)), [8, 4]);
        assert_eq!(gathered(vec![1, 1, 1], None), [1, 1, 1]);
    }
}
