use super::Consolidated;
use super::walk::{Rule, has_resources, suits};
use blox_core::{Assignment, Draft, GpuCount, JobRef, Node, Shape, View};

/// Jobs of one size together (Gandiva, OSDI 2018, section 4.1: node affinity): a node on which
/// only jobs of this size run; else an empty one; else one with jobs of
/// this size among others; else any. Of equally good nodes the one with fewest free GPUs,
/// then that which registered first. A job that fits on no single node is placed as
/// [`Consolidated`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeSets;

impl Rule for NodeSets {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let view = draft.view();
        let needed = shape.gpus.get();
        let fits = |node: &&Node| {
            draft.free_on(node.id()) >= needed
                && suits(node, job, shape, view)
                && has_resources(draft, node, shape, needed)
        };
        let nodes = draft.nodes_with_free().filter(fits);
        let best = nodes.min_by_key(|n| {
            (
                standing(draft, n, job.gpus()),
                draft.free_on(n.id()),
                n.id(),
            )
        });
        match best {
            Some(node) => {
                let gpus = draft.take_from(node.id(), needed)?;
                Some(shape.on(gpus))
            }
            None => Consolidated::default().find(draft, job, shape),
        }
    }

    fn most_gpus(&self, view: View<'_>, job: &JobRef<'_>) -> GpuCount {
        Consolidated::default().most_gpus(view, job)
    }
}

/// How well jobs of this size go with those that ran on the node, best first.
fn standing(draft: &Draft<'_>, node: &Node, size: GpuCount) -> u8 {
    let view = draft.view();
    let (mut same, mut other) = (false, false);
    for gpu in node.gpus() {
        for id in view.cluster().promised_to(gpu) {
            let stays = draft.current(id).is_some_and(|a| a.gpus.contains(&gpu));
            if let Some(job) = view.job(id).filter(|_| stays) {
                same |= job.gpus() == size;
                other |= job.gpus() != size;
            }
        }
    }
    match (same, other) {
        (true, false) => 0,
        (false, false) => 1,
        (true, true) => 2,
        (false, true) => 3,
    }
}
