//! Pollux: co-adaptive scheduling by goodput.

mod autoscale;
mod ideal;
mod problem;
mod search;
mod settings;
mod speedup;

pub use autoscale::Autoscale;
pub use settings::PolluxSettings;

use super::listed::{adapts, on_trained_types};
use crate::placement::OnNodes;
use crate::unit::Unit;
use blox_core::{
    Adapts, Answer, ClusterManager, Composition, Event, GpuCount, JobId, JobQueue, JobRef,
    NodeActionKind, NodeActionKinds, NodeActions, NodeId, Place, Policy, Reason, Request, Room,
    SchedulingPolicy, Seconds, Shape, Shapes, SortedMap, TrainingSpec, Validity, View, sort,
};
use ideal::Ideal;
use problem::Problem;
use search::Population;
use serde::{Deserialize, Serialize};
use speedup::{Speedups, Worker};

/// Pollux (OSDI 2021, section 4.2): a genetic search for the allocation with the best fitness.
///
/// **Rule.** An allocation is the number of GPUs of each node for each job. A job's speedup is its
/// goodput in the allocation, divided by its goodput on a fair share of the cluster. With `n` jobs,
/// a fair share is one `n`th of the nodes and of the GPUs. If the job would have to restart, the
/// speedup is reduced by the fraction of its life that restarts take. The first start of a job is no
/// restart. The fitness is the power mean of the speedups with exponent `p`. So that allocations
/// without GPUs for some jobs differ in fitness, 0.001 is added to each speedup.
///
/// Each round crosses, mutates and repairs a population of allocations, which is kept from round to
/// round. The best numbers of GPUs regardless of nodes give an upper bound and one of the allocations.
/// The search ends at this bound, and a round whose present allocation reaches it has none. After the
/// repair, no job has GPUs of two types, or more than twice the GPUs on which it has run. No node has
/// two jobs that also use other nodes, since these would disturb each other, or jobs with more CPUs or
/// memory than it has. The best allocation is applied.
///
/// A job without reports gets one GPU, on which it counts as a job at its fair share. Three kinds of
/// jobs get their requested GPUs or nothing: rigid jobs, jobs whose replicas have several GPUs, and
/// jobs without training information. A job with parts of GPUs is rigid unless it has levels. With
/// their GPUs, these jobs count as jobs at their fair share. The paper has no such jobs. A job with levels gets one of these
/// numbers, at first the smallest.
#[derive(Clone)]
pub struct Pollux {
    settings: PolluxSettings,
    autoscale: Option<Autoscale>,
}

/// State of the search, and of each job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PolluxMemory {
    /// Utility of the last search, until the cluster manager reads it.
    utility: Option<f64>,
    population: Population,
    known: SortedMap<JobId, Known>,
}

/// State of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Known {
    /// GPUs of each node at the last decision.
    last: Vec<(NodeId, u32)>,
    restarts: Option<u32>,
}

impl Default for Pollux {
    fn default() -> Self {
        Pollux::new(PolluxSettings::DEFAULT)
    }
}

impl Pollux {
    /// Creates the policy with settings.
    pub fn new(settings: PolluxSettings) -> Self {
        Pollux {
            settings,
            autoscale: None,
        }
    }

    /// Enables autoscaling of the cluster (section 4.2.2).
    #[must_use]
    pub fn autoscaling(mut self, autoscale: Autoscale) -> Self {
        self.autoscale = Some(autoscale);
        self
    }

    /// Adds Pollux to a composition. It schedules jobs, and manages the cluster if it autoscales.
    /// Its requests name nodes; [`OnNodes`] places them.
    #[must_use]
    pub fn compose(self, composition: Composition) -> Composition {
        let autoscales = self.autoscale.is_some();
        let composition = composition.joint(self, |roles| match autoscales {
            true => roles.scheduling().cluster(),
            false => roles.scheduling(),
        });
        composition.placement(OnNodes)
    }

    fn note(&self, memory: &mut PolluxMemory, view: View<'_>, job: &JobRef<'_>) -> Known {
        let mut counts: SortedMap<NodeId, u32> = SortedMap::new();
        for gpu in job.assignment().into_iter().flat_map(|a| &a.gpus) {
            if let Some(node) = view.cluster().node_of(*gpu) {
                *counts.entry(node).or_default() += 1;
            }
        }
        let has: Vec<(NodeId, u32)> = counts.into_iter().collect();
        let known = memory.known.entry(job.id()).or_default();
        if !has.is_empty() && has != known.last {
            known.restarts = Some(known.restarts.map_or(0, |n| n + 1));
        }
        known.last = has;
        known.clone()
    }
}

impl Policy for Pollux {
    type Memory = PolluxMemory;

    fn initial(&self, seed: u64) -> PolluxMemory {
        PolluxMemory {
            population: Population::seeded(seed),
            known: SortedMap::new(),
            utility: None,
        }
    }

    fn on_event(&self, memory: &mut PolluxMemory, _: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            memory.known.remove(job);
        }
    }
}

impl ClusterManager for Pollux {
    fn manage(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut NodeActions) -> Validity {
        match &self.autoscale {
            Some(autoscale) => autoscale.manage(&mut memory.utility, view, out),
            None => Validity::UntilEvent,
        }
    }

    fn actions(&self) -> NodeActionKinds {
        match self.autoscale {
            Some(_) => NodeActionKinds::of(&[NodeActionKind::Grow, NodeActionKind::Leave]),
            None => NodeActionKinds::NONE,
        }
    }
}

impl SchedulingPolicy for Pollux {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        out.stop_unlisted();
        let mut jobs: Vec<JobRef<'_>> = view.active().collect();
        if jobs.is_empty() {
            return Ok(Validity::UntilEvent);
        }
        sort::by(&mut jobs, |a, b| {
            let service = |j: &JobRef<'_>| j.attained_gpu_time().secs();
            service(a).total_cmp(&service(b)).then(a.id().cmp(&b.id()))
        });
        let workers: Vec<Worker> = view
            .nodes()
            .filter(|n| n.is_usable() && n.usable_count() > 0)
            .map(|n| Worker {
                node: n.id(),
                gpu_type: n.gpu_type().0,
                gpus: n.usable_count(),
                room: [n.spec().cpus, n.spec().memory_gib].map(|amount| match amount > 0.0 {
                    true => amount,
                    false => f64::INFINITY,
                }),
            })
            .collect();
        if workers.is_empty() {
            return Ok(Validity::NextRound);
        }
        let fair = fair_share(&workers, jobs.len());
        let mut problem = Problem::of(&workers, self.settings);
        // The search counts free GPUs in units, because jobs may request parts of GPUs.
        let unit = Unit::of(jobs.iter().copied());
        problem.per_gpu = unit.per_gpu() as u16;
        for job in &jobs {
            let known = self.note(memory, view, job);
            let speedups = Speedups::of(view, job, &workers, fair, known.last.is_empty());
            let restart = job.spec().extras().training.as_ref();
            let restart = restart.map_or(Seconds::ZERO, |t| t.restart);
            let age = job.age().max(Seconds::ZERO);
            // The first start is no restart.
            let penalty = known.restarts.map_or(1.0, |n| penalty(age, n, restart));
            problem.add(job.id(), speedups, &known.last, penalty);
            problem.taking(unit.each(job) as u16);
            let one = Shape::sized(job, GpuCount(1));
            problem.needing([one.cpus, one.memory_gib]);
            let fits = !one.has_resources() || problem.last_fits();
            if !fits
                && self.could_request(view, job).is_ok_and(|shapes| {
                    let mut shapes = shapes.iter();
                    shapes.any(|shape| out.could_place(&Room::of(view), job, shape))
                })
            {
                // The placement grants less than the job requests.
                problem.needing([0.0; 2]);
            }
        }
        let current = problem.current.clone();
        let fitness = match problem.is_feasible(&current) {
            true => problem.fitness(&current),
            false => f64::NEG_INFINITY,
        };
        // Nothing is better, even if restarts were free, as for old jobs.
        let stays = Ideal::of(&mut problem, false).is_reached_by(fitness);
        let best = match stays {
            true => current,
            false => memory.population.search(&mut problem, fitness),
        };
        if self.autoscale.is_some() {
            memory.utility = Some(problem.utility(&best));
        }
        for (job, row) in jobs.iter().zip(problem.rows(&best)) {
            let nodes: Vec<(NodeId, u32)> = row
                .iter()
                .zip(&workers)
                .filter(|(count, _)| **count > 0)
                .map(|(count, w)| (w.node, u32::from(*count)))
                .collect();
            if nodes.is_empty() {
                continue;
            }
            let gpus: u32 = nodes.iter().map(|(_, count)| count).sum();
            let place = Place::Nodes(nodes);
            let shape = Shape {
                place,
                ..Shape::sized(job, GpuCount(gpus))
            };
            out.push(Request::with_shape(job.id(), shape));
        }
        match stays && self.autoscale.is_none() {
            true => Ok(Validity::UntilEvent),
            false => Ok(Validity::NextRound),
        }
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        let whole = |t: &TrainingSpec| t.types.values().all(|limits| limits.stages == 1);
        let training = job.spec().extras().training.as_deref();
        let adapts = adapts(job) != Adapts::Nothing && training.is_some_and(whole);
        on_trained_types(view, job, adapts)
    }

    fn keeps_nodes(&self, _: u32) -> bool {
        false
    }
}

/// Returns the nodes and GPUs of one of `jobs` equal shares of the cluster (equation 15).
fn fair_share(workers: &[Worker], jobs: usize) -> (u32, u32) {
    let total: u32 = workers.iter().map(|w| w.gpus).sum();
    let share = |all: u32| all.div_ceil(jobs.max(1) as u32).max(1);
    (share(workers.len() as u32), share(total))
}

/// Returns the factor of a speedup if the job would have to restart.
fn penalty(age: Seconds, restarts: u32, restart: Seconds) -> f64 {
    let (age, takes) = (age.secs(), restart.secs());
    if takes <= 0.0 {
        return 1.0;
    }
    ((age - f64::from(restarts) * takes) / (age + takes)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_weigh_less_the_older_a_job_is() {
        let s = Seconds::new;
        assert_eq!(penalty(s(0.0), 0, s(30.0)), 0.0);
        assert_eq!(penalty(s(90.0), 0, s(30.0)), 0.75);
        assert_eq!(penalty(s(90.0), 1, s(30.0)), 0.5);
        assert_eq!(penalty(s(90.0), 7, s(30.0)), 0.0);
    }

    #[test]
    fn fair_share_has_nodes_and_gpus() {
        let worker = |node| Worker {
            node: NodeId(node),
            gpu_type: 0,
            gpus: 4,
            room: [f64::INFINITY; 2],
        };
        let workers: Vec<Worker> = (0..16).map(worker).collect();
        for (jobs, share) in [(1, (16, 64)), (8, (2, 8)), (16, (1, 4)), (100, (1, 1))] {
            assert_eq!(fair_share(&workers, jobs), share);
        }
    }
}
