//! The GPUs on which jobs take turns.

use crate::placement::suits;
use crate::unit::Unit;
use blox_core::{GpuCount, GpuId, GpuList, JobId, JobRef, Node, Shape, SortedMap, View, sort};
use serde::{Deserialize, Serialize};

/// The GPUs on which each job ran last, or should run first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Homes(SortedMap<JobId, GpuList>);

impl Homes {
    /// Notes where jobs run, forgets jobs other than `active`, and homes that cannot be used.
    pub fn update(&mut self, view: View<'_>, active: &[JobId]) {
        let usable = |gpu: &GpuId| {
            let node = view.cluster().node_of(*gpu).and_then(|id| view.node(id));
            node.is_some_and(|node| node.is_usable() && node.works(*gpu))
        };
        if self.0.len() > active.len() {
            self.0.retain(|id, _| active.binary_search(id).is_ok());
        }
        for job in view.placed() {
            if let Some(has) = job.assignment() {
                let home = self.0.entry(job.id()).or_default();
                if *home != has.gpus {
                    home.clone_from(&has.gpus);
                }
            }
        }
        self.0.retain(|_, home| home.iter().all(usable));
    }

    /// Returns the home of a job. A job that grew keeps the first of its GPUs.
    #[inline]
    pub fn of(&self, job: &JobRef<'_>) -> Option<&[GpuId]> {
        self.0.get(&job.id())?.get(..job.gpus().get() as usize)
    }

    /// Chooses a home for a job that has none (Gandiva, OSDI 2018, algorithm 1).
    ///
    /// The first preference is a node with room that is the home of jobs of this size only. The
    /// next ones are an empty node, any other node with room, a node of jobs of this size without
    /// room, and any node. Ties go to the node with the least load. A job larger than each node
    /// gets nodes of least load. Loads count in a unit.
    pub fn choose(&mut self, view: View<'_>, job: &JobRef<'_>, unit: Unit) {
        let (wanted, units) = (job.gpus().get(), unit.gang(job));
        let shape = Shape::gang(job);
        let mut loads = vec![0_u32; gpu_numbers(view)];
        let mut sizes: Vec<[bool; 2]> = vec![[false; 2]; view.cluster().nodes().len()];
        for (id, home) in self.0.iter() {
            let its = view.job(*id);
            let other = its.is_none_or(|its| its.amount() != job.amount());
            let each = its.map_or(unit.per_gpu(), |its| unit.each(&its));
            for gpu in home {
                loads[gpu.index()] += each;
                if let Some(node) = view.cluster().node_of(*gpu) {
                    sizes[node.index()][usize::from(other)] = true;
                }
            }
        }
        let load = |node: &Node| node.gpus().map(|gpu| loads[gpu.index()]).sum::<u32>();
        let suited = |node: &&Node| node.is_usable() && suits(node, job, &shape, view);
        let rank = |node: &Node| {
            let (load, all) = (load(node), unit.all(GpuCount(node.usable_count())));
            let class = match (load + units <= all, sizes[node.id().index()]) {
                (true, [true, false]) => 0,
                (true, [false, false]) => 1,
                (true, _) => 2,
                (false, [true, _]) => 3,
                (false, _) => 4,
            };
            (class, f64::from(load) / f64::from(all.max(1)), node.id())
        };
        let mut ranked: Vec<(&Node, (u8, f64, _))> = view
            .nodes()
            .filter(suited)
            .map(|node| (node, rank(node)))
            .collect();
        let holds = |node: &Node| node.usable_count() >= wanted;
        if ranked.iter().any(|(node, _)| holds(node)) {
            ranked.retain(|(node, _)| holds(node));
        }
        sort::by(&mut ranked, |(_, a), (_, b)| {
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        let mut home = GpuList::new();
        for (node, _) in ranked {
            let mut gpus: Vec<GpuId> = node.gpus().filter(|gpu| node.works(*gpu)).collect();
            sort::by_key(&mut gpus, |gpu| loads[gpu.index()]);
            home.extend(gpus.into_iter().take(wanted as usize - home.len()));
            if home.len() == wanted as usize {
                home.sort_unstable();
                self.0.insert(job.id(), home);
                return;
            }
        }
    }
}

/// Units of the GPUs that no job of a round has taken.
pub(super) struct Untaken {
    unit: Unit,
    taken: Vec<u32>,
    /// Number of usable units that are left.
    free: u32,
}

impl Untaken {
    /// Creates the set of all GPUs.
    pub fn new(view: View<'_>, unit: Unit) -> Self {
        let mut taken = vec![0; gpu_numbers(view)];
        // GPUs are looked at one by one only where a part of them may be left.
        if unit != Unit::default() {
            taken.fill(unit.per_gpu());
            for node in view.nodes().filter(|node| node.is_usable()) {
                for gpu in node.gpus().filter(|gpu| node.works(*gpu)) {
                    taken[gpu.index()] = 0;
                }
            }
        }
        Untaken {
            unit,
            taken,
            free: unit.all(view.usable_gpus()),
        }
    }

    /// Takes a job's part of these GPUs. Returns false and takes none if one of them has less left.
    pub fn take(&mut self, job: &JobRef<'_>, home: &[GpuId]) -> bool {
        let each = self.unit.each(job);
        let units = each * home.len() as u32;
        let all = units <= self.free && home.iter().all(|gpu| self.left(*gpu) >= each);
        if all {
            self.free -= units;
            home.iter().for_each(|gpu| self.taken[gpu.index()] += each);
        }
        all
    }

    /// Takes a job's part of any GPUs, the fullest ones first. Returns false and takes none if too
    /// little is left.
    pub fn take_any(&mut self, job: &JobRef<'_>) -> bool {
        let (count, units) = (job.gpus().get() as usize, self.unit.gang(job));
        if units > self.free {
            return false;
        }
        if self.unit != Unit::default() {
            let each = self.unit.each(job);
            let all = (0..self.taken.len() as u32).map(GpuId);
            let mut gpus: Vec<GpuId> = all.filter(|gpu| self.left(*gpu) >= each).collect();
            if gpus.len() < count {
                return false;
            }
            sort::by_key(&mut gpus, |gpu| self.left(*gpu));
            for gpu in &gpus[..count] {
                self.taken[gpu.index()] += each;
            }
        }
        self.free -= units;
        true
    }

    fn left(&self, gpu: GpuId) -> u32 {
        self.unit.per_gpu() - self.taken[gpu.index()]
    }
}

/// Returns the highest number of a GPU plus one.
fn gpu_numbers(view: View<'_>) -> usize {
    let nodes = view.cluster().nodes().iter();
    nodes.map(|node| node.gpu_count() as usize).sum()
}
