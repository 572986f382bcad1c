//! Jobs that train, tune their batch, and learn how fast they are (Pollux, OSDI 2021;
//! Sia, SOSP 2023).

mod agent;
mod application;
mod constants;
mod curves;
mod fits;
mod fitted;
mod table;
mod triangulated;

pub use agent::{Agent, EpochEnds, PassLimit, Profiles};
pub use application::{Application, Applications, OnType, StepTimes, WithApplications};
pub use constants::{Constants, constants};
pub use curves::{Curves, Epoch};
pub use fits::{Fitter, LeastSquares};
pub use fitted::built_in;
pub use table::{Measured, StepTable};
pub use triangulated::Between;

use fits::KnownFits;

use super::{ExecutionModel, Stretch, Turn, untrained};
use blox_core::perf::goodput::KnownBatches;
use blox_core::{Adapts, Assignment, JobId, JobRef, Name, Part, RestoreError, Seconds, Time, View};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Jobs that train an [`Application`] do its iterations, at a rate that follows from
/// their placement, batch and epoch; others are as fast as another model says.
///
/// A job's [`Agent`] keeps a profile of the steps that it did by type of GPU, fits the
/// [parameters](blox_core::perf::goodput::ThroughputParams) of its speed to it, and
/// chooses the batch of the best goodput when it starts, at the end of each epoch, and
/// at the end of each of its own rounds (60 s). It reports what it learnt
/// ([`Event::Reported`](blox_core::Event::Reported)) at the end of what it measured.
#[derive(Clone)]
pub struct Training {
    applications: Arc<Applications>,
    others: Box<dyn ExecutionModel>,
    round: Seconds,
    ends: EpochEnds,
    limit: PassLimit,
    most_nodes: MostNodes,
    profiles: Profiles,
    fits: KnownFits,
    agents: BTreeMap<JobId, Agent>,
    batches: KnownBatches,
}

impl Training {
    /// Of these applications; other jobs are as fast as they say of themselves.
    pub fn of(applications: Applications) -> Self {
        Training {
            applications: Arc::new(applications),
            others: untrained(),
            round: Seconds::new(60.0),
            ends: EpochEnds::Exact,
            limit: PassLimit::Placement,
            most_nodes: |_| None,
            profiles: Profiles::ByType,
            fits: KnownFits::by(LeastSquares),
            agents: BTreeMap::new(),
            batches: KnownBatches::default(),
        }
    }

    /// Returns it with another length of the rounds in which batches are tuned, above 0.
    #[must_use]
    pub fn round(mut self, round: Seconds) -> Self {
        if round > Seconds::ZERO {
            self.round = round;
        }
        self
    }

    /// Returns it with another rule for when an epoch ends.
    #[must_use]
    pub fn epoch_ends(mut self, ends: EpochEnds) -> Self {
        self.ends = ends;
        self
    }

    /// Returns it with another rule for how large a pass may be.
    #[must_use]
    pub fn pass_limit(mut self, limit: PassLimit) -> Self {
        self.limit = limit;
        self
    }

    /// On more nodes of a type than this a job is as fast as on so many, among which its GPUs
    /// are divided evenly ([`gathered`]).
    #[must_use]
    pub fn most_nodes(mut self, most: MostNodes) -> Self {
        self.most_nodes = most;
        self
    }

    /// Returns it with another way to keep profiles.
    #[must_use]
    pub fn profiles(mut self, profiles: Profiles) -> Self {
        self.profiles = profiles;
        self
    }

    /// Returns it with other fits.
    #[must_use]
    pub fn fitter(mut self, fitter: impl Fitter + 'static) -> Self {
        self.fits = KnownFits::by(fitter);
        self
    }

    /// Returns what its agent knows of a job that trains and has started.
    pub fn agent(&self, job: JobId) -> Option<&Agent> {
        self.agents.get(&job)
    }

    fn application(&self, job: &JobRef<'_>) -> Option<Arc<Application>> {
        let extras = job.spec().extras.as_ref()?;
        extras.training.as_ref()?;
        self.applications.get(extras.model.as_ref()?).cloned()
    }
}

/// How many nodes of a type of GPU are told apart; `None` for all of them.
pub type MostNodes = fn(&str) -> Option<u32>;

/// GPUs on each of at most `most` nodes: as they are where they lie on no more, else as many on
/// each, and on the last what is left.
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

/// The type of the GPUs of an assignment, and how many each node gives, in the order of the GPUs.
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

impl Part for Training {
    fn save(&self) -> Option<serde_json::Value> {
        let agents: Vec<_> = self.agents.iter().collect();
        serde_json::to_value((agents, self.others.save())).ok()
    }

    fn restore(&mut self, memory: serde_json::Value) -> Result<(), RestoreError> {
        let (agents, others): (Vec<(JobId, Agent)>, Option<serde_json::Value>) =
            serde_json::from_value(memory)?;
        self.agents = agents.into_iter().collect();
        others.map_or(Ok(()), |memory| self.others.restore(memory))
    }
}

impl ExecutionModel for Training {
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let Some(app) = self.application(job) else {
            return self.others.rate(view, job, assignment);
        };
        let (gpu_type, placement) = lie_of(view, assignment);
        let agent = self.agents.entry(job.id()).or_default();
        let gpu_type = gpu_type.cloned().unwrap_or_else(|| "".into());
        let placement = gathered(placement, (self.most_nodes)(&gpu_type));
        agent.start(gpu_type, placement, self.profiles);
        let batches = &mut self.batches;
        agent.tune(&app, wish(job), self.limit, assignment.config, batches);
        agent.rate(&app, app.curves.epoch_at(job.work_done()))
    }

    fn stretch(&mut self, view: View<'_>, job: &JobRef<'_>) -> Option<Stretch> {
        let app = self.application(job)?;
        let agent = self.agents.get_mut(&job.id())?;
        Some(agent.stretch(&app, job.work_done(), view.now(), self.round, self.ends))
    }

    fn turn(&mut self, _: View<'_>, job: &JobRef<'_>, _: Time) -> Option<Turn> {
        let app = self.application(job)?;
        let agent = self.agents.get_mut(&job.id())?;
        let work = agent.measure(&app, &mut self.fits)?;
        let given = job.held().and_then(|a| a.config);
        agent.tune(&app, wish(job), self.limit, given, &mut self.batches);
        Some(Turn {
            report: agent.report(&app).map(Arc::new),
            work,
            rate: agent.rate(&app, app.curves.epoch_at(work)),
        })
    }

    fn ended(&mut self, job: JobId) {
        self.agents.remove(&job);
        self.others.ended(job);
    }

    fn keeps_plain_rates(&self) -> bool {
        self.others.keeps_plain_rates()
    }
}

/// The batch that a job insists on, if it does not tune it.
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
