//! Sia: joint choice of GPU types and numbers.

mod config;
mod configs;
mod kept;
mod scores;
mod ties;
mod turns;

pub use config::Config;
pub use configs::{Kinds, configs_of};
pub use scores::{Applicant, Goodputs, Scores, restart_factor};
pub use ties::{Keeping, Tie, Ties};
pub use turns::{Turns, turns};

use super::listed::{adapts, on_trained_types};
use crate::unit::Unit;
use blox_core::{
    Adapts, Answer, Event, GpuCount, GpuTypeId, JobId, JobQueue, JobRef, NameId, NodeStatus, Phase,
    Policy, Reason, Request, SchedulingPolicy, Seconds, Shape, Shapes, SortedMap, Validity, View,
};
use blox_solve::{Alternative, Choices};
use configs::node_gpus;
use kept::{Kept, Row, Solved};
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
/// type (equation 1). If choices are equally good, jobs keep their configurations, and earlier jobs
/// come first.
///
/// A job starts on one GPU and at most doubles its GPUs from round to round. A restarting job keeps
/// its configuration. A rigid job has one configuration per type; a job without training
/// information counts as rigid, and so does a job with a part of each GPU. A job with levels has one
/// for each type and level, and starts on the first. Configurations that the placement could never
/// place are left out.
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
            ties: Arc::new(Keeping),
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

    /// Records the current assignment of a job. Returns its updated state.
    fn note<'m>(
        &self,
        known: &'m mut SortedMap<JobId, Known>,
        view: View<'_>,
        job: &JobRef<'_>,
    ) -> &'m Known {
        let known = known.entry(job.id()).or_default();
        if job.assignment().is_none() && known.last.is_none() {
            return known;
        }
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
        let changed = has != known.last || lies != known.lies;
        if has.is_some() && changed {
            known.restarts = Some(known.restarts.map_or(0, |n| n + 1));
        }
        known.last = has;
        known.lies = lies;
        known
    }

    /// Returns the row of a job, from the cache if still valid, with its present costs.
    fn row<'k>(
        &self,
        kept: &'k mut Kept,
        view: View<'_>,
        job: &JobRef<'_>,
        known: &Known,
        out: &JobQueue,
    ) -> &'k Row {
        let (row, up) = kept.rows.with_up(job.id(), |_| Row::default());
        let valid = row.suits(job, known);
        if valid && row.lasting {
            return row;
        }
        let applicant = applicant(view, job, known);
        let falls = self.scores.falls_with_age();
        if !valid {
            let mut configs = kept.kinds.of(&applicant);
            configs.retain(|config| {
                let shape = shape(job, (config.gpu_type.0, config.gpus));
                up.could_place(out, view, job, &shape)
            });
            let batches = &mut kept.batches;
            let values = self.scores.values(view, &applicant, &configs, batches);
            *row = Row::new(job, known, configs, values);
        }
        row.costs = self.scores.costs(&applicant, &row.configs, &row.values);
        if falls && !valid {
            let late = Applicant {
                age: LATE,
                ..applicant
            };
            row.late = self.scores.costs(&late, &row.configs, &row.values);
        }
        row.lasting = falls && row.late == row.costs;
        row
    }

    /// Returns the alternatives of a row at some costs. The job has `each` units of each GPU.
    fn group(
        &self,
        row: &Row,
        costs: &[Option<f64>],
        tie: Tie,
        (kinds, each): (&Kinds, u32),
    ) -> Vec<Alternative> {
        let all = row.configs.iter().zip(costs);
        let alternatives = all.map(|(config, cost)| {
            // A rigid job has one configuration per type.
            let (column, columns) = match config.column {
                Some(column) => (column, kinds.configs.len()),
                None => (config.gpu_type.index(), kinds.capacities.len()),
            };
            let tie = Tie {
                column,
                columns,
                previous: row.previous == Some((config.gpu_type.0, config.gpus)),
                ..tie
            };
            Alternative {
                // No job takes a configuration of infinite cost.
                cost: cost.map_or(f64::INFINITY, |cost| self.ties.settle(cost, &tie)),
                resource: config.gpu_type.index(),
                amount: config.gpus.saturating_mul(each),
            }
        });
        alternatives.collect()
    }
}

/// Age at which restarts no longer count.
const LATE: Seconds = Seconds::new(1e15);

fn applicant<'a>(view: View<'a>, job: &JobRef<'a>, known: &Known) -> Applicant<'a> {
    let extras = job.spec().extras();
    let training = extras.training.as_deref();
    let replica = |t: u32| {
        let name = view.cluster().gpu_types().get(NameId(t))?;
        let name = Some(name).filter(|name| extras.runs_on(name))?;
        training.map_or(Some(1), |training| Some(training.on(name)?.stages))
    };
    let types = view.cluster().gpu_types().len() as u32;
    Applicant {
        job: *job,
        training,
        adapts: adapts(job),
        types: (0..types).map(replica).collect(),
        age: job.age().max(Seconds::ZERO),
        restarts: known.restarts,
        previous: known.last,
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
            memory.kept.rows.remove(*job);
        }
    }
}

impl SchedulingPolicy for Sia {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        out.stop_unlisted();
        let jobs: Vec<_> = view.active().collect();
        if jobs.is_empty() {
            return Ok(Validity::UntilEvent);
        }
        let limit = |name: &str| self.most_nodes.get(name).copied();
        let kinds = configs_of(view, self.most_gpus, limit);
        let kept = &mut memory.kept;
        kept.rows.renew(view);
        if kinds != kept.kinds {
            kept.rows.clear();
            kept.kinds = kinds.clone();
        }
        // The program counts in units, because jobs may request parts of GPUs.
        let unit = Unit::of(jobs.iter().copied());
        let capacities = kinds.capacities.iter();
        let mut left: Vec<u32> = capacities.map(|gpus| unit.all(GpuCount(*gpus))).collect();
        let mut chosen: Vec<Option<(u32, u32)>> = vec![None; jobs.len()];
        // A start is no event that asks for a decision.
        let mut settled = true;
        for (i, job) in jobs.iter().enumerate() {
            let known = self.note(&mut memory.known, view, job);
            let restarting = matches!(job.phase(), Phase::Starting | Phase::Stopping);
            settled &= !restarting;
            if let Some(has) = known.last.filter(|_| restarting) {
                // Its checkpoint is not written yet.
                chosen[i] = Some(has);
                if let Some(rest) = left.get_mut(has.0 as usize) {
                    *rest = rest.saturating_sub(has.1.saturating_mul(unit.each(job)));
                }
            }
        }
        // Jobs of the program, each with its current configuration.
        let mut open: Vec<(usize, Option<usize>)> = Vec::with_capacity(jobs.len());
        let mut program = Choices::within(&left).with_width(self.work);
        // Groups whose costs fall, at their lowest costs.
        let mut late: Vec<(usize, Vec<Alternative>)> = Vec::new();
        for (i, job) in jobs.iter().enumerate() {
            let Some(known) = memory.known.get(&job.id()).filter(|_| chosen[i].is_none()) else {
                continue;
            };
            let row = self.row(kept, view, job, known, out);
            let tie = Tie {
                job: job.id(),
                place: i,
                jobs: jobs.len(),
                column: 0,
                columns: 0,
                previous: false,
            };
            let each = unit.each(job);
            let group = program.group(self.group(row, &row.costs, tie, (&kinds, each)));
            let current = row.current();
            if let Some(current) = current {
                program.suggest(group, current);
            }
            if !row.lasting {
                late.push((group, self.group(row, &row.late, tie, (&kinds, each))));
            }
            open.push((i, current));
        }
        let best = Solved::of(program, &mut kept.now);
        let mut stays = settled;
        for ((i, current), pick) in open.iter().zip(&best.picks) {
            stays &= pick == current;
            let row = kept.rows.by_job().get(&jobs[*i].id());
            chosen[*i] = pick.zip(row).map(|(pick, row)| {
                let config = &row.configs[pick];
                (config.gpu_type.0, config.gpus)
            });
        }
        for (job, has) in jobs.iter().zip(chosen) {
            if let Some(has) = has {
                out.push(Request::with_shape(job.id(), shape(job, has)));
            }
        }
        // The choice remains until an event if nothing changes it: if costs do not change, or if it
        // is the best choice at the lowest costs of all other configurations too.
        let holds = match late.is_empty() {
            true => stays,
            false if !stays || !best.proven || !self.scores.falls_with_age() => false,
            false => {
                let mut program = best.program.clone();
                for (group, alternatives) in late {
                    program.change(group, alternatives);
                }
                let later = Solved::of(program, &mut kept.late);
                later.proven && later.picks == best.picks
            }
        };
        match holds {
            true => Ok(Validity::UntilEvent),
            false => Ok(Validity::NextRound),
        }
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        let training = job.spec().extras().training.as_deref();
        let adapts = adapts(job) != Adapts::Nothing;
        let mut shapes = on_trained_types(view, job, adapts)?;
        if let Some(training) = training {
            // Replicas are whole.
            let types = view.cluster().gpu_types();
            let stages = |t: GpuTypeId| Some(training.on(types.get(NameId(t.0))?)?.stages);
            shapes.retain(|shape| {
                let stages = shape.gpu_type.and_then(stages).unwrap_or(1);
                shape.gpus.get().is_multiple_of(stages)
            });
        }
        if shapes.is_empty() {
            return Err(Reason::other("asks for no whole number of replicas"));
        }
        if adapts {
            let sizes = node_gpus(view, |node| node.status() != NodeStatus::Left);
            shapes.retain(|shape| self.allows(view, shape, &sizes));
        }
        match shapes.is_empty() {
            true => Err(Reason::other(
                "needs more GPUs or nodes than Sia is set to give a job",
            )),
            false => Ok(shapes),
        }
    }
}

impl Sia {
    /// Returns whether the limits of the policy allow a shape on nodes of these sizes by type.
    fn allows(&self, view: View<'_>, shape: &Shape, sizes: &[u32]) -> bool {
        let gpus = shape.gpus.get();
        let of_type = |t: GpuTypeId| {
            let name = view.cluster().gpu_types().get(NameId(t.0))?;
            let limit = *self.most_nodes.get(name.as_str())?;
            let size = *sizes.get(t.index()).filter(|size| **size > 0)?;
            Some(gpus.div_ceil(size) <= limit)
        };
        gpus <= self.most_gpus && shape.gpu_type.and_then(of_type).unwrap_or(true)
    }
}

/// Returns the shape of a job on GPUs of a type.
fn shape(job: &JobRef<'_>, (gpu_type, gpus): (u32, u32)) -> Shape {
    Shape {
        gpu_type: Some(GpuTypeId(gpu_type)),
        ..Shape::sized(job, GpuCount(gpus))
    }
}
