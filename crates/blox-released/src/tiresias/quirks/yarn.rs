//! The scheme `yarn`.

use super::repack::{Grant, Scheme, gpus_of_pass};
use blox_core::{Draft, Event, JobId, JobRef, NodeId, Request};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Yarn {
    memory: YarnMemory,
    /// Rebuilt in each pass.
    #[serde(skip)]
    switches: Vec<Vec<Room>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct YarnMemory {
    /// Free memory on each node, without leaked memory.
    free: BTreeMap<NodeId, f64>,
    /// Location of each job.
    records: BTreeMap<JobId, Vec<Share>>,
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

impl Yarn {
    fn find(&self, rooms: &[Room], needed: u32) -> Option<Vec<Share>> {
        let free = |room: &Room| self.memory.free.get(&room.node).copied().unwrap_or(0.0);
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
}

impl Scheme for Yarn {
    fn on_event(&mut self, event: &Event) {
        if let Event::Ended { job, .. } = event {
            for part in self.memory.records.remove(job).into_iter().flatten() {
                *self.memory.free.entry(part.node).or_default() += part.memory;
            }
        }
    }

    fn empty(&mut self, draft: &Draft<'_>, listed: &[Request]) {
        let view = draft.view();
        let free = gpus_of_pass(draft, listed);
        let mut taken: BTreeMap<NodeId, f64> = BTreeMap::new();
        for (job, parts) in &self.memory.records {
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
            self.memory.free.entry(id).or_insert(all);
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

    fn grant(&mut self, job: &JobRef<'_>, _: &Request) -> Option<Grant> {
        if job.is_placed() {
            self.memory.records.remove(&job.id());
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
            *self.memory.free.entry(part.node).or_default() -= part.memory;
        }
        let nodes = found.iter().map(|p| (p.node, p.gpus)).collect();
        self.memory.records.insert(job.id(), found);
        Some(Grant::On(nodes))
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

    fn nodes(yarn: &Yarn, rooms: &[Room], needed: u32) -> Option<Vec<(u32, u32)>> {
        let found = yarn.find(rooms, needed)?;
        Some(found.iter().map(|s| (s.node.0, s.gpus)).collect())
    }

    fn with_memory(free: f64) -> Yarn {
        let mut yarn = Yarn::default();
        yarn.memory.free = (0..4).map(|n| (NodeId(n), free)).collect();
        yarn
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
