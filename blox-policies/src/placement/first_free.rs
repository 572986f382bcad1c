//! The first free GPUs.

use super::selector::{NodeSelector, has_resources, suits};
use blox_core::{Assignment, Draft, GpuList, JobRef, Shape};

/// The first free GPUs, by node and then by GPU number, however they are spread.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstFree;

impl NodeSelector for FirstFree {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let view = draft.view();
        let needed = shape.gpus.get() as usize;
        let mut gpus = GpuList::new();
        for node in draft.nodes_with_free() {
            if !suits(node, job, shape, view) {
                continue;
            }
            let here = (draft.free_on(node.id()) as usize).min(needed - gpus.len());
            if !has_resources(draft, node, shape, here as u32) {
                continue;
            }
            gpus.extend(draft.free_gpus_on(node.id()).take(here));
            if gpus.len() == needed {
                return Some(shape.on(gpus));
            }
        }
        None
    }
}
