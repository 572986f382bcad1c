//! Choice between two rules, for compositions that take the rule as a parameter.

use super::selector::{NodeSelector, Parts};
use super::{Consolidated, FirstFree};
use blox_core::{Assignment, Draft, GpuCount, JobRef, Shape, View};

/// Choice of GPUs, as a parameter of a composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// The node with the best fit, otherwise few nodes: [`Consolidated`].
    Consolidated,
    /// The first free GPUs, on any nodes: [`FirstFree`].
    FirstFree,
}

impl NodeSelector for Where {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        match self {
            Where::Consolidated => Consolidated::default().find(draft, job, shape),
            Where::FirstFree => FirstFree.find(draft, job, shape),
        }
    }

    fn nodes(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Parts> {
        match self {
            Where::Consolidated => Consolidated::default().nodes(draft, job, shape),
            Where::FirstFree => FirstFree.nodes(draft, job, shape),
        }
    }

    fn takes_any(&self) -> bool {
        match self {
            Where::Consolidated => Consolidated::default().takes_any(),
            Where::FirstFree => FirstFree.takes_any(),
        }
    }

    fn most_gpus(&self, view: View<'_>, job: &JobRef<'_>) -> GpuCount {
        match self {
            Where::Consolidated => Consolidated::default().most_gpus(view, job),
            Where::FirstFree => FirstFree.most_gpus(view, job),
        }
    }
}
