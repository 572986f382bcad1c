//! Time slices with packing, growing and shrinking.

use super::homes::{Homes, Untaken};
use super::settling::Settling;
use super::time_slicing::{TimeSlicing, Turns};
use crate::unit::Unit;
use blox_core::{
    Answer, Assignment, GpuCount, JobId, JobQueue, JobRef, NameId, NodeId, Phase, Policy, Request,
    SchedulingPolicy, Seconds, Shape, SortedMap, Validity, View, sort,
};
use blox_perf::gpu_utilisation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Time slices, packing, growing and shrinking (Gandiva, OSDI 2018, section 4).
///
/// Jobs take turns ([`TimeSlicing`]) on the GPUs that they had last, or, for a new job, on the GPUs
/// of the node with the least load. Only a job that is some slices behind another takes free GPUs
/// elsewhere. If not all jobs fit, a job without a turn may share the GPUs of a job with a turn.
/// Both must have run alone for a slice, in which they are profiled. They must request the same
/// number of GPUs, their memory must fit a GPU, and their GPU utilisation must add up to at most 1
/// ([`gpu_utilisation`]). The job with the lowest utilisation goes beside the job with the lowest
/// one. A pair that does less work than one of its jobs alone is separated, and not paired again.
/// This corrects wrong pairings from observations.
///
/// Turns are longer than a slice if launches take time. A turn then lasts until the GPUs in use were
/// in use for 50 times the GPU time of its launches. Until then, jobs that run keep their GPUs, and
/// other jobs take only free ones. So launches and checkpoints cost at most about 2 % of the time. A launch
/// takes the time from the decision until the job runs.
///
/// If all jobs fit and GPUs remain, running jobs with levels grow by one level in each slice, up to
/// one node. When other jobs need the GPUs, they shrink to their request.
///
/// Memory is the attribute `gmem` (MiB); a job without it counts as small. Placement handles
/// migration and the choice of nodes: [`Migrating`](crate::placement::Migrating),
/// [`Resuming`](crate::placement::Resuming), [`NodeSets`](crate::placement::NodeSets). Jobs that request CPUs or memory do not share GPUs.
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
    homes: Homes,
    settling: Settling,
    /// Pairs that did too little work together, the smaller number first.
    parted: BTreeSet<(JobId, JobId)>,
}

/// Number of turns by which a job may be behind another before it runs on other GPUs. Fewer turns
/// spread the time more evenly, but cost more migrations.
const PATIENCE: u64 = 30;

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
        let whole = |j: &JobRef<'_>| j.spec().extras().share.is_whole();
        a.gpus() == b.gpus()
            && whole(a)
            && whole(b)
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
    job.assignment().and_then(its).unwrap_or(job.own_rate())
}

/// Returns the job with which a job is packed. Jobs with parts of a GPU are not packed.
fn beside<'v>(view: View<'v>, job: &JobRef<'_>) -> Option<JobRef<'v>> {
    let has = job.assignment()?;
    let others = view.cluster().allocated_to(*has.gpus.first()?);
    let mut others = others.filter(|id| *id != job.id());
    let packed = |other: &JobRef<'_>| {
        let its = other.assignment().is_some_and(|its| its.share.overlaps());
        its || has.share.overlaps()
    };
    others.find_map(|id| view.job(id).filter(packed))
}

impl Policy for Gandiva {
    type Memory = GandivaMemory;

    fn initial(&self, seed: u64) -> GandivaMemory {
        GandivaMemory {
            parted: BTreeSet::new(),
            homes: Homes::default(),
            settling: Settling::default(),
            turns: self.turns.initial(seed),
        }
    }
}

/// Jobs of a round, as chosen one after the other.
#[derive(Default)]
struct Chosen<'v> {
    /// Running jobs with their hosts.
    jobs: Vec<(JobRef<'v>, Option<JobId>)>,
    /// Jobs that have their own GPUs and may share them, each with its utilisation.
    hosts: Vec<(f64, JobRef<'v>)>,
    /// Jobs without a turn.
    rest: Vec<JobRef<'v>>,
    /// True if a job with a turn waits for a slice, because its partner also has one.
    delayed: bool,
}

impl<'v> Chosen<'v> {
    /// Gives a job GPUs of its own.
    fn take(&mut self, job: JobRef<'v>) {
        self.jobs.push((job, None));
        let busy = gpu_utilisation(job.spec());
        if busy < 1.0 {
            self.hosts.push((busy, job));
        }
    }

    /// Returns whether a job shares the GPUs of a job that keeps them.
    fn shares(&self, view: View<'_>, job: &JobRef<'_>) -> bool {
        let partner = beside(view, job).map(|other| other.id());
        partner.is_some_and(|id| self.hosts.iter().any(|(_, host)| host.id() == id))
    }
}

impl Gandiva {
    /// Chooses the jobs that have a turn.
    fn choose<'v>(&self, memory: &mut GandivaMemory, view: View<'v>) -> Chosen<'v> {
        let order = self.turns.in_turn(&mut memory.turns, view);
        let mut chosen = Chosen::default();
        let unit = Unit::of(order.iter().map(|(_, job)| *job));
        let gangs = order.iter().map(|(_, job)| u64::from(unit.gang(job)));
        let fit = gangs.sum::<u64>() <= u64::from(unit.all(view.usable_gpus()));
        // Parts that fit by count may not fit on GPUs.
        let parts_fit = || {
            let mut gpus = Untaken::new(view, unit);
            order.iter().all(|(_, job)| gpus.take_any(job))
        };
        if fit && (unit == Unit::default() || parts_fit()) {
            for (_, job) in order {
                match chosen.shares(view, &job) {
                    true => chosen.delayed = true,
                    false => chosen.take(job),
                }
            }
            return chosen;
        }
        let mut active: Vec<JobId> = order.iter().map(|(_, job)| job.id()).collect();
        active.sort_unstable();
        memory.homes.update(view, &active);
        for (_, job) in &order {
            if memory.homes.of(job).is_none() {
                memory.homes.choose(view, job, unit);
            }
        }
        let homes = &memory.homes;
        let mut gpus = Untaken::new(view, unit);
        let settling = &memory.settling;
        let patience = PATIENCE * self.turns.slices(settling.length()).max(1);
        let most = order.first().map_or(0, |(turns, _)| turns + patience);
        // First, jobs keep their GPUs while a turn lasts.
        let (held, order): (Vec<_>, Vec<_>) =
            order.into_iter().partition(|(_, job)| settling.holds(job));
        let mut later = Vec::new();
        for (_, job) in held {
            if homes.of(&job).is_some_and(|home| gpus.take(&job, home)) {
                chosen.take(job);
            } else if chosen.shares(view, &job) {
                // The job stays beside its partner.
                chosen.rest.push(job);
            } else {
                later.push(job);
            }
        }
        // Then, jobs run where they ran last, unless they are far ahead of another.
        for (turns, job) in order {
            let home = homes.of(&job).filter(|_| turns <= most);
            match home.is_some_and(|home| gpus.take(&job, home)) {
                true => chosen.take(job),
                false => later.push(job),
            }
        }
        // Last, the jobs that come first in turn take what is left, wherever it is.
        for job in later {
            let shares = chosen.shares(view, &job);
            let home = homes.of(&job).filter(|_| !shares);
            let has = home.is_some_and(|home| gpus.take(&job, home)) || gpus.take_any(&job);
            match (has, shares) {
                (false, _) => chosen.rest.push(job),
                (true, true) => chosen.delayed = true,
                (true, false) => chosen.take(job),
            }
        }
        chosen
    }

    /// Packs jobs without a turn beside jobs with a turn. Returns whether there are any.
    fn pack(&self, memory: &GandivaMemory, view: View<'_>, chosen: &mut Chosen<'_>) -> bool {
        let rest = std::mem::take(&mut chosen.rest).into_iter();
        let rest = rest.map(|job| (gpu_utilisation(job.spec()), job));
        let mut rest: Vec<(f64, JobRef<'_>)> = rest.filter(|(busy, _)| *busy < 1.0).collect();
        sort::by(&mut rest, |a, b| a.0.total_cmp(&b.0));
        let hosts = &mut chosen.hosts;
        sort::by(hosts, |a, b| a.0.total_cmp(&b.0));
        let mut guests = false;
        for (busy, job) in rest {
            let fitting = hosts
                .iter()
                .take_while(|(its, _)| its + busy <= 1.0)
                .count();
            if fitting == 0 {
                break;
            }
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
            let home = memory.homes.of(&job);
            let at_home = |host: &JobRef<'_>| home.is_some() && memory.homes.of(host) == home;
            let mut open = hosts[..fitting].iter();
            // A partner on the job's own GPUs saves a migration.
            let at = open.position(|(_, host)| at_home(host) && place(host));
            let at = at.or_else(|| hosts[..fitting].iter().position(|(_, host)| place(host)));
            let Some(at) = at else { continue };
            let (_, host) = hosts.remove(at);
            guests = true;
            if joins(&host) {
                chosen.jobs.push((job, Some(host.id())));
            } else {
                chosen.jobs.retain(|(other, _)| other.id() != host.id());
                chosen.jobs.push((job, None));
                chosen.jobs.push((host, Some(job.id())));
            }
        }
        guests
    }
}

impl SchedulingPolicy for Gandiva {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        self.look_back(memory, view);
        memory.settling.update(view);
        let mut chosen = self.choose(memory, view);
        let all = chosen.rest.is_empty() && !chosen.delayed;
        let guests = self.packs && !all && self.pack(memory, view, &mut chosen);
        let chosen = chosen.jobs;
        let mut counts: Vec<u32> = chosen.iter().map(|(job, _)| job.gpus().get()).collect();
        let growing = self.grows && all && grow(view, &memory.settling, &chosen, &mut counts);
        let guest_of = chosen
            .iter()
            .filter_map(|(job, host)| Some(((*host)?, job.id())));
        let guest_of: SortedMap<JobId, JobId> = guest_of.collect();
        for ((job, _), gpus) in chosen
            .iter()
            .zip(counts)
            .filter(|((_, host), _)| host.is_none())
        {
            let guest = guest_of.get(&job.id()).copied();
            let request = match gpus == job.gpus().get() {
                true => Request::gang(job),
                false => Request::with_shape(job.id(), Shape::sized(job, GpuCount(gpus))),
            };
            out.push(guest.into_iter().fold(request, Request::beside));
        }
        out.stop_unlisted();
        if all && !guests && !growing {
            Ok(Validity::UntilEvent)
        } else {
            Ok(Validity::NextRound)
        }
    }
}

/// Lets jobs with levels keep what they grew to, or grow by a level if their node has room, in order
/// of submission. Together they have at most the GPUs that no job takes. Returns whether a job grew,
/// or may grow once it runs.
fn grow(
    view: View<'_>,
    settling: &Settling,
    chosen: &[(JobRef<'_>, Option<JobId>)],
    counts: &mut [u32],
) -> bool {
    let unit = Unit::of(chosen.iter().map(|(job, _)| *job));
    let taken = chosen.iter().map(|(job, _)| unit.gang(job)).sum();
    let mut spare = unit.all(view.usable_gpus()).saturating_sub(taken) / unit.per_gpu();
    let mut taken: SortedMap<NodeId, u32> = SortedMap::new();
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    sort::by_key(&mut order, |i| chosen[*i].0.id());
    let mut grown = false;
    for i in order {
        let job = &chosen[i].0;
        let extras = job.spec().extras();
        let counted = extras.cpus > 0.0 || extras.memory_gib > 0.0 || !extras.share.is_whole();
        if extras.levels.is_empty() || counted {
            continue;
        }
        let Some(has) = job.assignment() else {
            grown = true;
            continue;
        };
        let extra = has.count().get().saturating_sub(counts[i]);
        if extra > spare {
            continue;
        }
        spare -= extra;
        counts[i] += extra;
        if settling.holds(job) {
            grown = true;
            continue;
        }
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
