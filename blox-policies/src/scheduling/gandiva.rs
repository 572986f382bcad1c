//! Time slices with packing, growing and shrinking.

use super::time_slicing::{TimeSlicing, Turns};
use blox_core::{
    Assignment, GpuCount, JobId, JobQueue, JobRef, NameId, NodeId, Phase, Place, Policy, Request,
    SchedulingPolicy, Seconds, Shape, SortedMap, Validity, View, sort,
};
use blox_perf::gpu_utilisation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Time slices, packing, growing and shrinking (Gandiva, OSDI 2018, section 4).
///
/// Jobs take turns ([`TimeSlicing`]). If not all jobs fit, a job without a turn may share the GPUs
/// of a job with a turn. Both must have run alone for a slice, in which they are profiled. They must
/// request the same number of GPUs, their memory must fit a GPU, and their GPU utilisation must add
/// up to at most 1 ([`gpu_utilisation`]). The job with the lowest utilisation goes beside the job
/// with the lowest one. A pair that does less work than one of its jobs alone is separated, and not
/// paired again. This corrects wrong pairings from observations.
///
/// If all jobs fit and GPUs remain, running jobs with levels grow by one level in each slice, up to
/// one node. When other jobs need the GPUs, they shrink to their request.
///
/// Memory is the attribute `gmem` (MiB); a job without it counts as small. Placement handles
/// migration and the choice of nodes: [`Migrating`](crate::placement::Migrating),
/// [`NodeSets`](crate::placement::NodeSets). Jobs that request CPUs or memory do not share GPUs.
#[derive(Clone, Debug)]
pub struct Gandiva {
    turns: TimeSlicing,
    packs: bool,
    grows: bool,
    memory_mib: f64,
}

/// The turns so far, and the separated pairs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GandivaMemory {
    turns: Turns,
    /// Pairs that did too little work together, the smaller number first.
    parted: BTreeSet<(JobId, JobId)>,
}

impl Gandiva {
    /// Creates the policy with slices of this length, above 0 (else 1 s).
    pub fn new(slice: Seconds) -> Self {
        Gandiva {
            turns: TimeSlicing::new(slice),
            packs: true,
            grows: true,
            memory_mib: f64::INFINITY,
        }
    }

    /// Sets the memory of a GPU in MiB. It must hold both jobs of a pair. The default is unlimited.
    #[must_use]
    pub fn memory_mib(mut self, mib: f64) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Sets whether two jobs may run on the same GPUs.
    #[must_use]
    pub fn packing(mut self, yes: bool) -> Self {
        self.packs = yes;
        self
    }

    /// Sets whether jobs grow onto idle GPUs.
    #[must_use]
    pub fn growing(mut self, yes: bool) -> Self {
        self.grows = yes;
        self
    }

    /// Records pairs that do less work than one of the jobs would alone.
    fn look_back(&self, memory: &mut GandivaMemory, view: View<'_>) {
        for job in view.running() {
            // A starting job has done nothing yet.
            let other = beside(view, &job).filter(|o| o.phase() == Phase::Running);
            let Some(other) = other else {
                continue;
            };
            let part = |j: &JobRef<'_>| j.rate() / alone(view, j);
            if job.id() < other.id() && part(&job) + part(&other) < 1.0 - 1e-9 {
                memory.parted.insert((job.id(), other.id()));
            }
        }
        let active = |id: &JobId| view.job(*id).is_some_and(|j| j.first_start().is_some());
        memory.parted.retain(|(a, b)| active(a) && active(b));
    }

    fn may_pair(&self, memory: &GandivaMemory, a: &JobRef<'_>, b: &JobRef<'_>) -> bool {
        let pair = (a.id().min(b.id()), a.id().max(b.id()));
        let counted =
            |j: &JobRef<'_>| j.spec().extras().cpus > 0.0 || j.spec().extras().memory_gib > 0.0;
        let gmem = |j: &JobRef<'_>| j.spec().extras().attributes.get("gmem")?.as_f64();
        let needed = gmem(a).unwrap_or(0.0) + gmem(b).unwrap_or(0.0);
        a.gpus() == b.gpus()
            && self.turns.had(a) > 0
            && self.turns.had(b) > 0
            && needed <= self.memory_mib
            && !counted(a)
            && !counted(b)
            && gpu_utilisation(a.spec()) + gpu_utilisation(b.spec()) <= 1.0
            && !memory.parted.contains(&pair)
    }
}

/// Iterations per second of a job alone on its current GPU type.
fn alone(view: View<'_>, job: &JobRef<'_>) -> f64 {
    let cluster = view.cluster();
    let its = |a: &Assignment| {
        let node = cluster.node(cluster.node_of(*a.gpus.first()?)?)?;
        let gpu_type = cluster.gpu_types().get(NameId(node.gpu_type().0))?;
        job.spec().extras().speeds.as_ref()?.alone(gpu_type)
    };
    job.assignment()
        .and_then(its)
        .unwrap_or(job.spec().work.rate)
}

/// Returns the job that shares these GPUs.
fn beside<'v>(view: View<'v>, job: &JobRef<'_>) -> Option<JobRef<'v>> {
    let gpu = *job.assignment()?.gpus.first()?;
    let mut others = view
        .cluster()
        .allocated_to(gpu)
        .filter(|id| *id != job.id());
    others.find_map(|id| view.job(id))
}

impl Policy for Gandiva {
    type Memory = GandivaMemory;

    fn initial(&self, seed: u64) -> GandivaMemory {
        GandivaMemory {
            parted: BTreeSet::new(),
            turns: self.turns.initial(seed),
        }
    }
}

impl SchedulingPolicy for Gandiva {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Validity {
        self.look_back(memory, view);
        let order = self.turns.in_turn(&mut memory.turns, view);
        let mut free = view.usable_gpus().get();
        // Running jobs with their hosts, and hosts that have their own GPUs and may share them.
        let mut chosen: Vec<(JobRef<'_>, Option<JobId>)> = Vec::new();
        let mut hosts: Vec<JobRef<'_>> = Vec::new();
        let mut rest: Vec<JobRef<'_>> = Vec::new();
        for job in order {
            if job.gpus().get() > free {
                rest.push(job);
                continue;
            }
            free -= job.gpus().get();
            // Its partner also has a turn: this job starts elsewhere, a slice later.
            let shares = beside(view, &job).is_some_and(|o| hosts.iter().any(|h| h.id() == o.id()));
            if !shares {
                chosen.push((job, None));
                hosts.push(job);
            }
        }
        let all = rest.is_empty() && chosen.len() == hosts.len();
        let mut guests = 0;
        if self.packs {
            let busy = |job: &JobRef<'_>| gpu_utilisation(job.spec());
            sort::by(&mut rest, |a, b| busy(a).total_cmp(&busy(b)));
            sort::by(&mut hosts, |a, b| busy(a).total_cmp(&busy(b)));
            for job in rest {
                // A job that already runs in a pair stays in it. Of two other jobs, at most one runs:
                // it keeps its GPUs, and the other one joins it.
                let now = beside(view, &job).map(|o| o.id());
                let joins = |host: &JobRef<'_>| match job.assignment() {
                    None => true,
                    Some(_) => now == Some(host.id()),
                };
                let place = |host: &JobRef<'_>| {
                    let theirs = beside(view, host).map(|o| o.id());
                    let open = theirs.is_none_or(|id| id == job.id());
                    let receives = now.is_none() && host.assignment().is_none();
                    open && (joins(host) || receives) && self.may_pair(memory, host, &job)
                };
                if let Some(at) = hosts.iter().position(place) {
                    let host = hosts.remove(at);
                    guests += 1;
                    if joins(&host) {
                        chosen.push((job, Some(host.id())));
                    } else {
                        chosen.retain(|(other, _)| other.id() != host.id());
                        chosen.push((job, None));
                        chosen.push((host, Some(job.id())));
                    }
                }
            }
        }
        let mut counts: Vec<u32> = chosen.iter().map(|(job, _)| job.gpus().get()).collect();
        let growing = self.grows && all && grow(view, &chosen, &mut counts, free);
        for ((job, host), gpus) in chosen.iter().zip(counts) {
            out.push(match host {
                Some(host) => Request::with_shape(
                    job.id(),
                    Shape {
                        place: Place::ShareWith(*host),
                        ..Shape::gpus(job.gpus())
                    },
                ),
                None if gpus == job.gpus().get() => Request::gang(job),
                None => Request::with_shape(job.id(), Shape::gpus(GpuCount(gpus))),
            });
        }
        out.stop_unlisted();
        let everybody = chosen.len() == view.active().count();
        if everybody && guests == 0 && all && !growing {
            Validity::UntilEvent
        } else {
            Validity::NextRound
        }
    }
}

/// Lets jobs with levels keep what they grew to, or grow by a level if their node has room, in order
/// of submission. They may have `spare` GPUs more than they request. Returns whether a job grew, or
/// may grow once it runs.
fn grow(
    view: View<'_>,
    chosen: &[(JobRef<'_>, Option<JobId>)],
    counts: &mut [u32],
    mut spare: u32,
) -> bool {
    let mut taken: SortedMap<NodeId, u32> = SortedMap::new();
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    sort::by_key(&mut order, |i| chosen[*i].0.id());
    let mut grown = false;
    for i in order {
        let job = &chosen[i].0;
        let extras = job.spec().extras();
        if extras.levels.is_empty() || extras.cpus > 0.0 || extras.memory_gib > 0.0 {
            continue;
        }
        let Some(has) = job.assignment().filter(|_| job.phase() == Phase::Running) else {
            grown = true;
            continue;
        };
        let extra = has.count().get().saturating_sub(counts[i]);
        if extra > spare {
            continue;
        }
        spare -= extra;
        counts[i] += extra;
        let mut nodes = has.gpus.iter().map(|gpu| view.cluster().node_of(*gpu));
        let Some(Some(node)) = nodes.next() else {
            continue;
        };
        let next = extras
            .levels
            .iter()
            .map(|l| l.get())
            .find(|l| *l > counts[i]);
        let free = view.node(node).map_or(0, |n| n.free_count());
        let used = taken.get(&node).copied().unwrap_or(0);
        let on_one = nodes.all(|other| other == Some(node));
        let more = next.map_or(0, |next| next - counts[i]);
        if more > 0 && on_one && more <= spare && used + more <= free {
            taken.insert(node, used + more);
            spare -= more;
            counts[i] += more;
            grown = true;
        }
    }
    grown
}
