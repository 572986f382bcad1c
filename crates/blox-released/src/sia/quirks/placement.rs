//! Placement of the released program.

use blox_core::{
    Adapts, Answer, Assignment, Draft, GpuCount, GpuList, GpuTypeId, JobId, JobQueue, JobRef,
    NodeId, PlacementPolicy, Reason, Room, Shape, SortedMap, Stateless, Validity, sort,
};
use blox_policies::scheduling::sia::{Turns, turns};

/// Quirk: the program places all jobs anew on empty nodes in every round
/// (`alloc_to_placement_fast`).
///
/// Types are placed separately. Jobs with more GPUs come first. Among jobs with the same number,
/// those with a fixed number come first. The search for a job starts at the node after the previous
/// job's last node. The job takes empty nodes as long as it fills them, then free GPUs of any node
/// in cyclic order. A job whose nodes do not change continues to run there.
///
/// If numbers of GPUs are not powers of two, a job may be spread over more nodes than it needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundAndRound;

impl Stateless for RoundAndRound {}

/// The nodes of a type, and the node at which the search for the next job starts.
struct Ring {
    nodes: Vec<NodeId>,
    free: Vec<u32>,
    /// GPUs of an empty node.
    size: u32,
    next: usize,
}

impl Ring {
    fn of(draft: &Draft<'_>, gpu_type: Option<GpuTypeId>) -> Self {
        let of_type = |n: &&blox_core::Node| {
            n.is_usable() && gpu_type.is_none_or(|wanted| n.gpu_type() == wanted)
        };
        let nodes = draft.view().nodes().filter(of_type);
        let nodes: Vec<NodeId> = nodes.map(|n| n.id()).collect();
        let free: Vec<u32> = nodes.iter().map(|n| draft.free_on(*n)).collect();
        Ring {
            size: free.iter().copied().max().unwrap_or(0),
            nodes,
            free,
            next: 0,
        }
    }

    /// Takes GPUs for a job and returns their number on each node. If too few are free, returns
    /// `None` and changes nothing.
    fn take(&mut self, wanted: u32) -> Option<Turns> {
        if wanted == 0 || wanted > self.free.iter().sum() {
            return None;
        }
        let (count, size) = (self.nodes.len(), self.size);
        let mut taken = Turns::new();
        let (mut left, mut at) = (wanted, self.next);
        for _ in 0..count {
            if left < size {
                break;
            }
            if self.free[at] == size {
                self.free[at] = 0;
                taken.push((self.nodes[at], size));
                left -= size;
            }
            at = (at + 1) % count;
        }
        while left > 0 {
            let part = left.min(self.free[at]);
            if part > 0 {
                self.free[at] -= part;
                taken.push((self.nodes[at], part));
                left -= part;
            }
            at = (at + 1) % count;
        }
        self.next = at;
        Some(taken)
    }
}

impl PlacementPolicy for RoundAndRound {
    /// Quirk: the program ignores the GPU count of adaptive jobs in the trace, even if it exceeds
    /// the cluster.
    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        let training = job.spec().extras().training.as_ref();
        let adapts = training.is_some_and(|t| t.adapts != Adapts::Nothing);
        match adapts {
            true => Ok(()),
            false => room.anywhere(job, shape),
        }
    }

    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let view = draft.view();
        let mut todo: Vec<(JobId, bool, &Shape)> = Vec::new();
        let all = requests.all(view);
        for request in all.iter() {
            let (Some(job), Some(shape)) = (view.job(request.job), request.shapes.first()) else {
                continue;
            };
            if draft.current(request.job).is_some() {
                draft.release(request.job, Reason::other("moved"))?;
            }
            let training = job.spec().extras().training.as_ref();
            let fixed = training.is_none_or(|t| t.adapts == Adapts::Nothing);
            if draft.may_place(request.job) {
                todo.push((request.job, fixed, shape));
            }
        }
        sort::by_key(&mut todo, |(_, fixed, shape)| {
            (std::cmp::Reverse(shape.gpus), !fixed)
        });
        let mut rings: SortedMap<Option<GpuTypeId>, Ring> = SortedMap::new();
        let mut found: Vec<(JobId, &Shape, Turns)> = Vec::new();
        for (job, _, shape) in todo {
            let ring = rings
                .entry(shape.gpu_type)
                .or_insert_with(|| Ring::of(draft, shape.gpu_type));
            let Some(nodes) = ring.take(shape.gpus.get()) else {
                let free = GpuCount(ring.free.iter().sum()).into();
                let needed = shape.gpus.into();
                draft.explain(job, Reason::Fragmented { needed, free });
                continue;
            };
            found.push((job, shape, nodes));
        }
        // Jobs that stay are placed first. Other jobs take the remaining GPUs of a node.
        let mut moved = Vec::new();
        for (job, shape, nodes) in found {
            let has = view.job(job).and_then(|j| j.assignment());
            let stays = has
                .filter(|has| turns(view, has) == nodes)
                .is_some_and(|has| {
                    let now = Assignment {
                        gpus: has.gpus.clone(),
                        ..shape.on(GpuList::new())
                    };
                    draft.spare_as(job, now).is_ok()
                });
            if !stays {
                moved.push((job, shape, nodes));
            }
        }
        for (job, shape, nodes) in moved {
            let parts = nodes.iter().map(|(node, n)| draft.take_from(*node, *n));
            let gpus: Option<Vec<GpuList>> = parts.collect();
            let assignment = gpus.map(|gpus| shape.on(gpus.into_iter().flatten().collect()));
            match assignment.filter(|a| view.job(job).is_some_and(|job| draft.fits(&job, a))) {
                Some(assignment) => draft.assign(job, assignment)?,
                None => draft.explain(job, Reason::other("no CPUs or memory left on its nodes")),
            }
        }
        Ok(Validity::UntilEvent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(free: &[u32]) -> Ring {
        Ring {
            nodes: (0..free.len() as u32).map(NodeId).collect(),
            free: free.to_vec(),
            size: 8,
            next: 0,
        }
    }

    fn parts(ring: &mut Ring, wanted: u32) -> Option<Vec<(u32, u32)>> {
        let taken = ring.take(wanted)?;
        Some(taken.into_iter().map(|(node, n)| (node.0, n)).collect())
    }

    #[test]
    fn jobs_start_after_the_nodes_of_the_previous_job() {
        let mut ring = ring(&[8, 8, 8]);
        assert_eq!(parts(&mut ring, 12).unwrap(), [(0, 8), (1, 4)]);
        // The four GPUs left on the second node are not taken.
        assert_eq!(parts(&mut ring, 3).unwrap(), [(2, 3)]);
        assert_eq!(parts(&mut ring, 6).unwrap(), [(1, 4), (2, 2)]);
        assert_eq!(parts(&mut ring, 4), None);
        assert_eq!(parts(&mut ring, 3).unwrap(), [(2, 3)]);
    }

    #[test]
    fn empty_nodes_are_looked_for_all_round() {
        let mut ring = ring(&[8, 8, 8]);
        assert_eq!(parts(&mut ring, 9).unwrap(), [(0, 8), (1, 1)]);
        // Only the third node is empty. The search ends at the node where it began.
        assert_eq!(parts(&mut ring, 15).unwrap(), [(2, 8), (1, 7)]);
        let mut ring = super::tests::ring(&[8, 4, 8]);
        ring.next = 1;
        assert_eq!(parts(&mut ring, 20).unwrap(), [(2, 8), (0, 8), (1, 4)]);
    }
}
