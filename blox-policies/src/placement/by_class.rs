//! Placement by one of two rules, chosen by a job's application class.

use super::selector::{NodeSelector, Parts, Sealed};
use blox_core::{Assignment, Draft, JobRef, Reason, Room, Shape};

/// Places jobs of named classes by one rule, and all other jobs by another.
///
/// The class is an attribute of the job, such as `app_class`. Classes that exchange much data use
/// few nodes, others any free GPUs. This follows Tiresias (NSDI 2019, section 3.3), with classes in
/// place of its profiled skew.
#[derive(Clone, Debug)]
pub struct ByClass<A, B> {
    attribute: String,
    classes: Vec<String>,
    named: A,
    others: B,
}

impl<A: NodeSelector, B: NodeSelector> ByClass<A, B> {
    /// Creates a placement that uses `named` for jobs whose `attribute` is one of `classes`.
    pub fn new(attribute: impl Into<String>, classes: Vec<String>, named: A, others: B) -> Self {
        ByClass {
            attribute: attribute.into(),
            classes,
            named,
            others,
        }
    }

    fn rule(&self, job: &JobRef<'_>) -> &dyn NodeSelector {
        let class = job.spec().attribute(&self.attribute);
        let class = class.and_then(|v| v.as_str());
        match class.is_some_and(|class| self.classes.iter().any(|c| c == class)) {
            true => &self.named,
            false => &self.others,
        }
    }
}

impl<A: NodeSelector, B: NodeSelector> NodeSelector for ByClass<A, B> {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        self.rule(job).find(draft, job, shape)
    }

    fn nodes(
        &self,
        draft: &Draft<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
        sealed: Sealed,
    ) -> Option<Parts> {
        self.rule(job).nodes(draft, job, shape, sealed)
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        self.rule(job).could_find(room, job, shape)
    }

    fn is_alike(&self) -> bool {
        self.named.is_alike() && self.others.is_alike()
    }
}
