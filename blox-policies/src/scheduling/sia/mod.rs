//! Sia: joint choice of GPU types and numbers.

mod config;
mod configs;
mod scores;
mod ties;
mod turns;

pub use config::Config;
pub use configs::{Kinds, configs_of};
pub use scores::{Applicant, Goodputs, Scores, restart_factor};
pub use ties::{Hashed, Tie, Ties};
pub use turns::{Turns, turns};

use super::listed::{on_trained_types, resized};
use blox_core::{
    Adapts, Event, GpuCount, GpuTypeId, JobId, JobQueue, JobRef, NameId, Phase, Policy, Reason,
    Request, SchedulingPolicy, Seconds, Shape, Shapes, SortedMap, TrainingReport, Validity, View,
};
use blox_perf::goodput::KnownBatches;
use blox_solve::{Alternative, Choices};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Sia (SOSP 2023): in each round, the best assignment of jobs to configurations.
///
/// A configuration is a GPU type and a number of GPUs.
///
/// **Rule.** The value of a configuration is the job's goodput on it. The values of a job are scaled
/// so that the worst one equals the number of GPUs of its smallest configuration. A configuration
/// that needs a restart is multiplied by a factor below 1. On a type on which a job has not run on
/// several GPUs, its speed is derived from other types. The objective sums the values to the power
/// `p`. An integer program chooses at most one configuration for each job, within the GPUs of each
/// type (equation 1).
///
/// A job starts on one GPU and at most doubles its GPUs from round to round. A restarting job keeps
/// its configuration. A rigid job has one configuration per type; a job without training
/// information counts as rigid.
///
/// Estimates of values and tie breaking are replaceable: [`Scores`], [`Ties`].
#[derive(Clone)]
pub struct Sia {
    scores: Arc<dyn Scores>,
    ties: Arc<dyn Ties>,
    most_gpus: u32,
    most_nodes: SortedMap<String, u32>,
    work: usize,
}

/// State of `Sia` for each job.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct SiaMemory {
    known: SortedMap<JobId, Known>,
    #[serde(skip)]
    kept: Kept,
}

/// Cached results. Decisions do not depend on the cache.
#[derive(Clone, Default)]
struct Kept {
    kinds: Kinds,
    rows: SortedMap<JobId, Row>,
    batches: KnownBatches,
}

/// Values of a job's configurations, valid until its next report.
#[derive(Clone)]
struct Row {
    report: Option<TrainingReport>,
    previous: Option<(u32, u32)>,
    configs: Vec<Config>,
    values: Vec<Option<f64>>,
}

/// State of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Known {
    /// Type and GPUs at the last decision.
    last: Option<(u32, u32)>,
    /// GPUs on each node at the last decision, in order.
    #[serde(default)]
    lies: Vec<u32>,
    /// Number of restarts; `None` before the first start.
    restarts: Option<u32>,
}

impl Default for Sia {
    fn default() -> Self {
        Sia::new(Goodputs::DEFAULT)
    }
}

impl Sia {
    /// Creates the policy with scores.
    pub fn new(scores: impl Scores + 'static) -> Self {
        Sia {
            scores: Arc::new(scores),
            ties: Arc::new(Hashed),
            most_gpus: u32::MAX,
            most_nodes: SortedMap::new(),
            work: 1 << 14,
        }
    }

    /// Sets the tie breaking.
    #[must_use]
    pub fn settling(mut self, ties: impl Ties + 'static) -> Self {
        self.ties = Arc::new(ties);
        self
    }

    /// Sets the maximum number of GPUs of a job, at least 1.
    #[must_use]
    pub fn up_to(mut self, gpus: GpuCount) -> Self {
        self.most_gpus = gpus.get().max(1);
        self
    }

    /// Limits the number of nodes of a type that a job gets.
    #[must_use]
    pub fn on_nodes(mut self, gpu_type: &str, nodes: u32) -> Self {
        self.most_nodes.insert(gpu_type.to_owned(), nodes);
        self
    }

    /// Sets the bound on the work of the search ([`Choices::with_width`]).
    #[must_use]
    pub fn searching(mut self, work: usize) -> Self {
        self.work = work;
        self
    }

    /// Records the current assignment of a job, and returns its updated state.
    fn note<'m>(&self, memory: &'m mut SiaMemory, view: View<'_>, job: &JobRef<'_>) -> &'m Known {
        let has = job.assignment().and_then(|a| {
            let node = view.cluster().node_of(*a.gpus.first()?)?;
            let gpu_type = view.cluster().node(node)?.gpu_type();
            Some((gpu_type, a))
        });
        let types = view.cluster().gpu_types();
        let lies = has.map(|(gpu_type, a)| {
            let name = types.get(NameId(gpu_type.0)).map_or("", |n| n.as_str());
            let turns = turns(view, a).into_iter().map(|(_, gpus)| gpus);
            self.scores.lies(name, turns.collect())
        });
        let lies = lies.unwrap_or_default();
        let has = has.map(|(gpu_type, a)| (gpu_type.0, a.count().get()));
        let known = memory.known.entry(job.id()).or_default();
        if has.is_some() && (has != known.last || lies != known.lies) {
            known.restarts = Some(known.restarts.map_or(0, |n| n + 1));
        }
        known.last = has;
        known.lies = lies;
        known
    }

    /// Returns the values of a job's configurations, from the cache if still valid.
    fn row(
        &self,
        memory: &mut SiaMemory,
        view: View<'_>,
        kinds: &Kinds,
        applicant: &Applicant<'_>,
    ) -> Row {
        let report = applicant.job.report();
        if let Some(row) = memory.kept.rows.remove(&applicant.job.id())
            && row.report.as_ref() == report
            && row.previous == applicant.previous
        {
            return row;
        }
        let configs = kinds.of(applicant);
        let batches = &mut memory.kept.batches;
        Row {
            report: report.cloned(),
            previous: applicant.previous,
            values: self.scores.values(view, applicant, &configs, batches),
            configs,
        }
    }

    fn applicant<'a>(
        &self,
        memory: &mut SiaMemory,
        view: View<'a>,
        job: &JobRef<'a>,
    ) -> Applicant<'a> {
        let known = self.note(memory, view, job);
        let (restarts, previous) = (known.restarts.unwrap_or(0), known.last);
        let extras = job.spec().extras();
        let training = extras.training.as_deref();
        let allowed = |t: u32| {
            let name = view.cluster().gpu_types().get(NameId(t));
            name.is_some_and(|name| {
                extras.runs_on(name) && training.is_none_or(|t| t.on(name).is_some())
            })
        };
        let types = view.cluster().gpu_types().len() as u32;
        Applicant {
            job: *job,
            training,
            adapts: training.map_or(Adapts::Nothing, |t| t.adapts),
            types: (0..types).map(allowed).collect(),
            age: job.age().max(Seconds::ZERO),
            restarts,
            previous,
        }
    }
}

impl Policy for Sia {
    type Memory = SiaMemory;

    fn initial(&self, _: u64) -> SiaMemory {
        SiaMemory::default()
    }

    fn on_event(&self, memory: &mut SiaMemory, _: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            memory.known.remove(job);
            memory.kept.rows.remove(job);
        }
    }
}

impl SchedulingPolicy for Sia {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Validity {
        out.stop_unlisted();
        let jobs: Vec<_> = view.active().collect();
        if jobs.is_empty() {
            return Validity::UntilEvent;
        }
        let limit = |name: &str| self.most_nodes.get(name).copied();
        let kinds = configs_of(view, self.most_gpus, limit);
        if kinds != memory.kept.kinds {
            memory.kept.rows.clear();
            memory.kept.kinds = kinds.clone();
        }
        let mut left: Vec<u32> = kinds.capacities.clone();
        let (columns, types) = (kinds.configs.len(), kinds.capacities.len());
        let mut chosen: Vec<Option<(u32, u32)>> = vec![None; jobs.len()];
        let mut open: Vec<usize> = Vec::new();
        let mut groups: Vec<Vec<(Alternative, usize)>> = Vec::new();
        for (i, job) in jobs.iter().enumerate() {
            let applicant = self.applicant(memory, view, job);
            let restarting = matches!(job.phase(), Phase::Starting | Phase::Stopping);
            if let Some(has) = applicant.previous.filter(|_| restarting) {
                // Its checkpoint is not written yet.
                chosen[i] = Some(has);
                if let Some(rest) = left.get_mut(has.0 as usize) {
                    *rest = rest.saturating_sub(has.1);
                }
                continue;
            }
            let row = self.row(memory, view, &kinds, &applicant);
            let costs = self.scores.costs(&applicant, &row.configs, &row.values);
            let mut group = Vec::with_capacity(row.configs.len());
            for (k, (config, cost)) in row.configs.iter().zip(costs).enumerate() {
                let Some(cost) = cost else { continue };
                // A rigid job has one configuration per type.
                let (column, columns) = match config.column {
                    Some(column) => (column, columns),
                    None => (config.gpu_type.index(), types),
                };
                let tie = Tie {
                    job: job.id(),
                    place: i,
                    jobs: jobs.len(),
                    column,
                    columns,
                    previous: applicant.previous == Some((config.gpu_type.0, config.gpus)),
                };
                let alternative = Alternative {
                    cost: self.ties.settle(cost, &tie),
                    resource: config.gpu_type.index(),
                    amount: config.gpus,
                };
                group.push((alternative, k));
            }
            memory.kept.rows.insert(job.id(), row);
            open.push(i);
            groups.push(group);
        }
        let mut program = Choices::within(&left).with_width(self.work);
        for group in &groups {
            program.group(group.iter().map(|(a, _)| *a).collect());
        }
        // Nothing is required, so there is always a choice.
        let picks = program.solve().map(|best| best.of).unwrap_or_default();
        for ((pick, group), i) in picks.iter().zip(&groups).zip(&open) {
            let row = memory.kept.rows.get(&jobs[*i].id());
            chosen[*i] = pick.zip(row).map(|(p, row)| {
                let config = &row.configs[group[p].1];
                (config.gpu_type.0, config.gpus)
            });
        }
        for (job, has) in jobs.iter().zip(chosen) {
            if let Some(has) = has {
                out.push(request(job, has));
            }
        }
        Validity::NextRound
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        let training = job.spec().extras().training.as_deref();
        let adapts = training.is_some_and(|t| t.adapts != Adapts::Nothing);
        on_trained_types(view, job, adapts)
    }
}

fn request(job: &JobRef<'_>, (gpu_type, gpus): (u32, u32)) -> Request {
    let gpu_type = Some(GpuTypeId(gpu_type));
    let shape = Shape {
        gpu_type,
        ..resized(job, gpus)
    };
    Request::with_shape(job.id(), shape)
}
