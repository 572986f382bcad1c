//! The schemes `yarn` and `balance`.

use super::News;
use blox_core::{
    Answer, Assignment, Draft, Event, GpuCount, JobId, JobQueue, JobRef, NodeId, PlacementPolicy,
    Policy, Reason, Request, Shape, SortedMap, Stateless, Validity, View,
};
use blox_policies::placement::Blocked;
use serde::{Deserialize, Serialize};

/// The scheme `yarn` (and `cbalance`, which falls through to it).
///
/// A job gets the first node that fits it. A job that is larger than a node gets enough fully free
/// nodes under one switch, plus one node there for the rest. The first such switch is taken. Nodes
/// of the same location share a switch.
///
/// A job with one GPU takes 2 CPUs. Other jobs take 6 CPUs per GPU. A job on one node takes 5 GB of
/// memory. On several nodes it takes 11 GB plus a tenth of its GPU count, for each GPU. A node
/// without a number of CPUs or size of memory always has enough.
///
/// Quirk: the program leaks the memory of a job in each pass that the job survives. A pass frees
/// GPUs and CPUs but not memory. It drops the record of a running job's location before it places
/// the job again, and an end returns only the last record. At some point no node has enough memory,
/// and jobs wait forever.
///
/// Each pass places an explicit list of requests from an empty cluster, after an event. A job gets
/// the room that is there if only earlier jobs in the list and jobs outside the list occupy GPUs. A
/// running job without room stops. A job that gets room on its current nodes stays there. A job
/// that gets room elsewhere stops and starts there.
#[derive(Clone, Copy, Debug)]
pub struct Yarn {
    blocked: Blocked,
}

/// Memory of the nodes, and locations of jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct YarnState {
    /// Free memory on each node, without leaked memory.
    free: SortedMap<NodeId, f64>,
    /// Location of each job.
    records: SortedMap<JobId, Vec<Share>>,
    /// Rebuilt in each pass.
    #[serde(skip)]
    switches: Vec<Vec<Room>>,
    news: News,
}

/// Resources of a job on one node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Share {
    node: NodeId,
    gpus: u32,
    cpus: f64,
    memory: f64,
}

/// Free resources of a node in this pass, except memory.
#[derive(Clone, Copy, Debug)]
struct Room {
    node: NodeId,
    all_gpus: u32,
    gpus: u32,
    cpus: f64,
}

impl YarnState {
    fn find(&self, rooms: &[Room], needed: u32) -> Option<Vec<Share>> {
        let free = |room: &Room| self.free.get(&room.node).copied().unwrap_or(0.0);
        let a_node = rooms.iter().map(|r| r.all_gpus).max().unwrap_or(0);
        let part = |room: &Room, gpus: u32, cpus: f64, memory: f64| Share {
            node: room.node,
            gpus,
            cpus,
            memory,
        };
        if needed <= a_node {
            let cpus = if needed == 1 {
                2.0
            } else {
                6.0 * f64::from(needed)
            };
            let fits = |r: &&Room| r.gpus >= needed && r.cpus >= cpus && free(r) >= 5.0;
            let room = rooms.iter().find(fits)?;
            return Some(vec![part(room, needed, cpus, 5.0)]);
        }
        if a_node == 0 {
            return None;
        }
        // Parameter servers: 6 GB and a tenth per worker. Workers: 5 GB each.
        let a_gpu = 6.0 + f64::from(needed) * 0.1 + 5.0;
        let fits = |r: &&Room, gpus: u32| {
            let (cpus, memory) = (6.0 * f64::from(gpus), a_gpu * f64::from(gpus));
            r.gpus >= gpus && r.cpus >= cpus && free(r) >= memory
        };
        let whole =
            |r: &Room, gpus: u32| part(r, gpus, 6.0 * f64::from(gpus), a_gpu * f64::from(gpus));
        let full_nodes = (needed / a_node) as usize;
        let mut found: Vec<Share> = rooms
            .iter()
            .filter(|r| r.gpus == r.all_gpus && fits(r, r.all_gpus))
            .take(full_nodes)
            .map(|r| whole(r, r.all_gpus))
            .collect();
        if found.len() < full_nodes {
            return None;
        }
        let rest = needed % a_node;
        if rest > 0 {
            let taken = |r: &&Room| found.iter().all(|p| p.node != r.node);
            let last = rooms.iter().filter(taken).find(|r| fits(r, rest))?;
            found.push(whole(last, rest));
        }
        Some(found)
    }

    /// Begins a pass, in which the listed jobs occupy nothing.
    fn empty(&mut self, draft: &Draft<'_>, listed: &[Request]) {
        let view = draft.view();
        let free = gpus_of_pass(draft, listed);
        let mut taken: SortedMap<NodeId, f64> = SortedMap::new();
        for (job, parts) in &self.records {
            if listed.iter().all(|r| r.job != *job) {
                for part in parts {
                    *taken.entry(part.node).or_default() += part.cpus;
                }
            }
        }
        let or_enough = |amount: f64| if amount == 0.0 { f64::INFINITY } else { amount };
        self.switches.clear();
        let mut paths = Vec::new();
        for node in view.nodes() {
            let (id, spec) = (node.id(), node.spec());
            let all = or_enough(spec.memory_gib).min(f64::MAX);
            self.free.entry(id).or_insert(all);
            let room = Room {
                node: id,
                all_gpus: node.gpu_count(),
                gpus: free.get(&id).copied().unwrap_or(0),
                cpus: or_enough(spec.cpus) - taken.get(&id).copied().unwrap_or(0.0),
            };
            match paths.iter().position(|p| *p == &spec.location) {
                Some(s) => self.switches[s].push(room),
                None => {
                    paths.push(&spec.location);
                    self.switches.push(vec![room]);
                }
            }
        }
    }

    /// Takes room for the next job of the pass and returns its GPUs on each node.
    fn grant(&mut self, job: &JobRef<'_>) -> Option<Vec<(NodeId, u32)>> {
        if job.is_placed() {
            self.records.remove(&job.id());
        }
        let needed = job.gpus().get();
        let (s, found) = self
            .switches
            .iter()
            .enumerate()
            .find_map(|(s, rooms)| Some((s, self.find(rooms, needed)?)))?;
        for part in &found {
            for room in self.switches[s].iter_mut().filter(|r| r.node == part.node) {
                room.gpus = room.gpus.saturating_sub(part.gpus);
                room.cpus -= part.cpus;
            }
            *self.free.entry(part.node).or_default() -= part.memory;
        }
        let nodes = found.iter().map(|p| (p.node, p.gpus)).collect();
        self.records.insert(job.id(), found);
        Some(nodes)
    }
}

impl Yarn {
    /// Creates the scheme. `blocked` sets what happens after a job without room.
    pub fn when_blocked(blocked: Blocked) -> Self {
        Yarn { blocked }
    }
}

impl Policy for Yarn {
    type Memory = YarnState;

    fn initial(&self, _: u64) -> YarnState {
        YarnState::default()
    }

    fn on_event(&self, memory: &mut YarnState, _: View<'_>, event: &Event) {
        memory.news.record(event);
        if let Event::Ended { job, .. } = event {
            for part in memory.records.remove(job).into_iter().flatten() {
                *memory.free.entry(part.node).or_default() += part.memory;
            }
        }
    }
}

impl PlacementPolicy for Yarn {
    fn place(
        &self,
        memory: &mut YarnState,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Answer {
        if !memory.news.take() {
            return Ok(Validity::UntilEvent);
        }
        let view = draft.view();
        let list = &*requests.all(view);
        memory.empty(draft, list);
        let mut granted = Vec::new();
        let mut blocked = false;
        for request in list {
            let Some(job) = view.job(request.job).filter(|j| draft.may_place(j.id())) else {
                continue;
            };
            let nodes = if blocked { None } else { memory.grant(&job) };
            blocked |= nodes.is_none() && self.blocked == Blocked::Stop;
            match draft.current(request.job) {
                Some(has) if nodes == Some(nodes_of(view, has)) => continue,
                Some(_) => draft.release(request.job, Reason::NotChosen)?,
                None => {}
            }
            granted.push((request.job, job.gpus(), nodes));
        }
        for (job, needed, nodes) in granted {
            let placed = match nodes {
                Some(nodes) => draft.assign_on(job, &nodes, &Shape::gpus(needed))?,
                None => false,
            };
            if !placed {
                let (needed, free) = (needed.into(), GpuCount(draft.free_gpus()).into());
                draft.explain(job, Reason::TooFewGpus { needed, free });
            }
        }
        Ok(Validity::UntilEvent)
    }
}

/// Returns the GPUs per node, in the order of the assignment.
fn nodes_of(view: View<'_>, a: &Assignment) -> Vec<(NodeId, u32)> {
    let mut nodes: Vec<(NodeId, u32)> = Vec::new();
    for node in a.gpus.iter().filter_map(|g| view.cluster().node_of(*g)) {
        match nodes.iter_mut().find(|(n, _)| *n == node) {
            Some((_, count)) => *count += 1,
            None => nodes.push((node, 1)),
        }
    }
    nodes
}

/// Returns the GPUs of each node that a pass may grant: free ones and GPUs of the listed jobs.
fn gpus_of_pass(draft: &Draft<'_>, listed: &[Request]) -> SortedMap<NodeId, u32> {
    let view = draft.view();
    let mut free: SortedMap<NodeId, u32> = view
        .nodes()
        .filter(|n| n.is_usable())
        .map(|n| (n.id(), draft.free_on(n.id())))
        .collect();
    for has in listed.iter().filter_map(|r| draft.current(r.job)) {
        for (node, count) in nodes_of(view, has) {
            if let Some(free) = free.get_mut(&node) {
                *free += count;
            }
        }
    }
    free
}

/// The scheme `balance`. Quirk: the program never places a job, as the solver is commented out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Stateless for Nowhere {}

impl PlacementPolicy for Nowhere {
    fn place(&self, (): &mut (), _: &mut JobQueue, _: &mut Draft<'_>) -> Answer {
        Ok(Validity::UntilEvent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(gpus: &[u32], cpus: f64) -> Vec<Room> {
        let room = |(node, gpus): (usize, &u32)| Room {
            node: NodeId(node as u32),
            all_gpus: 4,
            gpus: *gpus,
            cpus,
        };
        gpus.iter().enumerate().map(room).collect()
    }

    fn nodes(yarn: &YarnState, rooms: &[Room], needed: u32) -> Option<Vec<(u32, u32)>> {
        let found = yarn.find(rooms, needed)?;
        Some(found.iter().map(|s| (s.node.0, s.gpus)).collect())
    }

    fn with_memory(free: f64) -> YarnState {
        YarnState {
            free: (0..4).map(|n| (NodeId(n), free)).collect(),
            ..YarnState::default()
        }
    }

    #[test]
    fn small_jobs_go_to_the_first_node_with_room() {
        let yarn = with_memory(5.0);
        assert_eq!(
            nodes(&yarn, &rooms(&[1, 4, 4], 24.0), 2),
            Some(vec![(1, 2)])
        );
        // Four GPUs need 24 CPUs, one GPU needs two.
        assert_eq!(nodes(&yarn, &rooms(&[4, 4], 23.0), 4), None);
        assert_eq!(nodes(&yarn, &rooms(&[4, 4], 2.0), 1), Some(vec![(0, 1)]));
        assert_eq!(nodes(&with_memory(4.9), &rooms(&[4], 24.0), 1), None);
    }

    #[test]
    fn large_jobs_go_to_idle_nodes_and_one_for_the_rest() {
        // For 9 GPUs, each needs 11.9 GB, so an idle node needs 47.6 GB.
        let yarn = with_memory(48.0);
        let all = rooms(&[4, 3, 4, 4], 24.0);
        assert_eq!(nodes(&yarn, &all, 9), Some(vec![(0, 4), (2, 4), (1, 1)]));
        assert_eq!(nodes(&yarn, &rooms(&[4, 3, 3, 4], 24.0), 12), None);
        assert_eq!(nodes(&with_memory(47.0), &all, 9), None);
    }
}
