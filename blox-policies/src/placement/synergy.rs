//! Synergy: CPUs and memory allocated by demand, together with GPUs.

use super::anew::{release_all, settle};
use super::in_order::{shortage_among, shortage_of_gpus};
use super::laid_out::find_laid_out;
use super::resizing::parts;
use super::selector::NodeSelector;
use super::share::{Amounts, Shares};
use super::types::could_find;
use crate::unit::Unit;
use blox_core::{
    Answer, Assignment, Draft, DraftError, GpuCount, JobId, JobQueue, JobRef, NodeId,
    PlacementPolicy, Reason, Room, Shape, SortedMap, Stateless, Validity, sort,
};

/// Allocation of CPUs and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// Each job gets a fair share for each GPU, even if it cannot use it.
    Proportional,
    /// Each job gets its best-case demand. A job whose demand fits on no node is skipped, even if
    /// GPUs are free (Synergy-Greedy).
    Greedy,
    /// Each job gets its best-case demand if possible, otherwise at least the part of its fair
    /// share that it can use (Synergy-Tune).
    #[default]
    Tune,
}

/// Synergy's allocation of GPUs, CPUs and memory (OSDI 2022, section 4).
///
/// Each round starts from an empty cluster, and a rule finds the GPUs.
///
/// The best-case demand of a job is the CPUs and memory that it requests, or its fair share if it
/// requests none. It is at most what a node has. The fair share of a GPU is what the least equipped
/// node has per GPU.
///
/// [`Allocation::Greedy`] tries all jobs in order. The other two first select jobs in order, as
/// long as the total number of free GPUs suffices. They then place the selected jobs from the
/// largest demand to the smallest, by GPUs, then CPUs, then memory.
///
/// Under [`Allocation::Tune`], a job whose demand does not fit gets at most its fair share of each
/// resource. If the share does not fit either, the job goes to any node with free GPUs. Jobs on
/// that node then give up what exceeds their share, the job with the most first. So every job is at
/// least as fast as with a fair share, and no GPU idles for lack of CPUs or memory.
///
/// Jobs run in the first shape of their requests. Other shapes, locations and guests of a request
/// are ignored. The released program raises demands below the share up to the share; here they stay unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Synergy<R> {
    rule: R,
    allocation: Allocation,
}

impl<R: NodeSelector> Synergy<R> {
    /// Creates the placement with a rule and [`Allocation::Tune`].
    pub fn new(rule: R) -> Self {
        Synergy {
            rule,
            allocation: Allocation::Tune,
        }
    }

    /// Returns the placement with another allocation.
    #[must_use]
    pub fn with(mut self, allocation: Allocation) -> Self {
        self.allocation = allocation;
        self
    }
}

impl<R: NodeSelector + Send + Sync + 'static> Stateless for Synergy<R> {}

impl<R: NodeSelector + Send + Sync + 'static> PlacementPolicy for Synergy<R> {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let view = draft.view();
        let list = requests.all(view).into_owned();
        let jobs = release_all(requests, draft)?;
        // The first requests of the jobs, in the same order.
        let mut list = list.into_iter();
        let mut pass = Pass {
            rule: &self.rule,
            shares: Shares::in_view(view),
            on: SortedMap::new(),
        };
        let greedy = self.allocation == Allocation::Greedy;
        let unit = Unit::of(jobs.iter().filter_map(|id| view.job(*id)));
        let mut left = unit.all(GpuCount(draft.free_gpus()));
        let mut runnable: Vec<(JobRef<'_>, Shape, Amounts)> = Vec::new();
        for id in jobs {
            let request = list.find(|request| request.job == id);
            let shape = request.and_then(|request| request.shapes.into_iter().next());
            let (Some(job), Some(shape)) = (view.job(id), shape) else {
                continue;
            };
            let needed = shape.gpus.get() * unit.each(&job);
            if needed <= left {
                left -= if greedy { 0 } else { needed };
                let demand = pass.shares.demand(&job);
                let demand = match shape.gpus == job.gpus() {
                    true => demand,
                    false => demand.times(f64::from(needed) / f64::from(unit.gang(&job))),
                };
                runnable.push((job, shape, demand));
            } else {
                let free = GpuCount(left / unit.per_gpu());
                draft.explain(id, shortage_among(shape.amount(), free.into()));
            }
        }
        if !greedy {
            // The outcome then depends on the set of runnable jobs. It does not depend on their
            // order, which changes while they run.
            sort::by(
                &mut runnable,
                |(a, a_shape, a_demand), (b, b_shape, b_demand)| {
                    let amounts = b_demand.cpus.total_cmp(&a_demand.cpus);
                    let amounts = amounts.then(b_demand.memory_gib.total_cmp(&a_demand.memory_gib));
                    let gpus = b_shape.gpus.cmp(&a_shape.gpus);
                    gpus.then(amounts).then(a.id().cmp(&b.id()))
                },
            );
        }
        for (job, shape, demand) in runnable {
            draft.narrow_to(&job, &shape);
            let placed = match self.allocation {
                Allocation::Proportional => {
                    let share = pass.shares.fair(shape.amount());
                    pass.give(draft, &job, &shape, share)?
                }
                Allocation::Greedy => pass.give(draft, &job, &shape, demand)?,
                Allocation::Tune => pass.tune(draft, &job, &shape, demand)?,
            };
            draft.widen();
            if !placed {
                draft.explain(job.id(), shortage_of_gpus(shape.amount(), draft));
            }
        }
        Ok(match self.allocation {
            // The order of running jobs decides which resources each of them finds.
            Allocation::Greedy => Validity::NextRound,
            Allocation::Proportional | Allocation::Tune => Validity::UntilEvent,
        })
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        // Demands are at most what a node has.
        let gpus = Shape {
            cpus: 0.0,
            memory_gib: 0.0,
            ..shape.clone()
        };
        could_find(&self.rule, room, job, &gpus)
    }

    fn keeps_nodes(&self, _: u32) -> bool {
        true
    }
}

/// State of one decision.
struct Pass<'r, R> {
    rule: &'r R,
    shares: Shares,
    /// Jobs placed on each node in this decision.
    on: SortedMap<NodeId, Vec<JobId>>,
}

impl<R: NodeSelector> Pass<'_, R> {
    fn find(&self, draft: &mut Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        match shape.share.is_whole() && job.node_limit().is_none() {
            true => self.rule.find(draft, job, shape),
            false => find_laid_out(self.rule, draft, job, shape),
        }
    }

    /// Places a job with these amounts if the rule finds room for it.
    fn give(
        &mut self,
        draft: &mut Draft<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
        amounts: Amounts,
    ) -> Result<bool, DraftError> {
        let shape = Shape {
            cpus: amounts.cpus,
            memory_gib: amounts.memory_gib,
            ..shape.clone()
        };
        match self.find(draft, job, &shape) {
            Some(assignment) => self.settle(draft, job.id(), assignment),
            None => Ok(false),
        }
    }

    fn settle(
        &mut self,
        draft: &mut Draft<'_>,
        job: JobId,
        assignment: Assignment,
    ) -> Result<bool, DraftError> {
        for node in nodes_of(draft, &assignment) {
            self.on.entry(node).or_default().push(job);
        }
        settle(draft, job, assignment)?;
        Ok(true)
    }

    fn tune(
        &mut self,
        draft: &mut Draft<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
        demand: Amounts,
    ) -> Result<bool, DraftError> {
        if self.give(draft, job, shape, demand)? {
            return Ok(true);
        }
        let share = demand.at_most(self.shares.fair(shape.amount()));
        if share != demand && self.give(draft, job, shape, share)? {
            return Ok(true);
        }
        let gpus = Shape {
            cpus: 0.0,
            memory_gib: 0.0,
            ..shape.clone()
        };
        let Some(mut assignment) = self.find(draft, job, &gpus) else {
            return Ok(false);
        };
        assignment.cpus = share.cpus;
        assignment.memory_gib = share.memory_gib;
        // The jobs that give up CPUs and memory may have GPUs of types that this job does not accept.
        draft.widen();
        let start = draft.savepoint();
        for node in nodes_of(draft, &assignment) {
            if !self.make_room(draft, node, &assignment)? {
                draft.rollback(start);
                return Ok(false);
            }
        }
        self.settle(draft, job.id(), assignment)
    }

    /// Takes what exceeds the fair share from jobs on a node, until the node's part of an
    /// assignment fits. Returns `false` if it does not fit even then.
    fn make_room(
        &self,
        draft: &mut Draft<'_>,
        node: NodeId,
        wanted: &Assignment,
    ) -> Result<bool, DraftError> {
        let mut peers: Vec<(Amounts, JobId)> = Vec::new();
        for &peer in self.on.get(&node).into_iter().flatten() {
            if let Some(current) = draft.current(peer) {
                let each = 1.0 / f64::from(current.count().get());
                peers.push((Amounts::of(current).times(each), peer));
            }
        }
        // Most CPUs per GPU first, then most memory.
        sort::by(&mut peers, |a, b| {
            let amounts = b.0.cpus.total_cmp(&a.0.cpus);
            let amounts = amounts.then(b.0.memory_gib.total_cmp(&a.0.memory_gib));
            amounts.then(a.1.cmp(&b.1))
        });
        for (_, peer) in peers {
            let Some(short) = shortage(draft, node, wanted) else {
                return Ok(true);
            };
            let Some(current) = draft.current(peer).cloned() else {
                continue;
            };
            let has = Amounts::of(&current);
            let share = has.at_most(self.shares.fair(current.amount()));
            let helps = (short.cpus > 0.0 && share.cpus < has.cpus)
                || (short.memory_gib > 0.0 && share.memory_gib < has.memory_gib);
            if helps {
                let less = Assignment {
                    cpus: share.cpus,
                    memory_gib: share.memory_gib,
                    ..current
                };
                draft.reassign(peer, less)?;
            }
        }
        Ok(shortage(draft, node, wanted).is_none())
    }
}

/// Returns what a node lacks for its part of an assignment, or `None` if it lacks nothing. A node
/// that does not state an amount has enough.
fn shortage(draft: &Draft<'_>, node: NodeId, wanted: &Assignment) -> Option<Amounts> {
    let cluster = draft.view().cluster();
    let spec = cluster.node(node)?.spec();
    let here = wanted
        .gpus
        .iter()
        .filter(|g| cluster.node_of(**g) == Some(node));
    let part = here.count() as f64 / f64::from(wanted.count().get());
    let lacks = |amount: f64, free: f64, has: f64| match has {
        0.0 => 0.0,
        _ if amount * part <= free + 1e-9 => 0.0,
        _ => amount * part - free,
    };
    let short = Amounts {
        cpus: lacks(wanted.cpus, draft.free_cpus_on(node), spec.cpus),
        memory_gib: lacks(
            wanted.memory_gib,
            draft.free_memory_gib_on(node),
            spec.memory_gib,
        ),
    };
    (short != Amounts::default()).then_some(short)
}

fn nodes_of(draft: &Draft<'_>, assignment: &Assignment) -> Vec<NodeId> {
    let parts = parts(draft, &assignment.gpus).into_iter();
    let mut nodes: Vec<NodeId> = parts.map(|(node, _)| node).collect();
    nodes.sort_unstable();
    nodes
}
