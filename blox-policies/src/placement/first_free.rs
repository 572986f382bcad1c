//! The first free GPUs.

use super::selector::{NodeSelector, taken_in_order};
use blox_core::{Assignment, Draft, JobRef, Shape};

/// The first free GPUs, by node and then by GPU number, however they are spread.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstFree;

impl NodeSelector for FirstFree {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let nodes = draft.nodes_with_free();
        let gpus = taken_in_order(draft, nodes, job, shape, shape.gpus.get())?;
        Some(shape.on(gpus))
    }

    fn is_alike(&self) -> bool {
        true
    }
}
