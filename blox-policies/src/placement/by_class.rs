//! Placement by one of two rules, chosen by a job's application class.

use super::selector::{NodeSelector, Parts};
use blox_core::{Assignment, Draft, GpuCount, JobRef, Shape, View};

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

    fn is_named(&self, job: &JobRef<'_>) -> bool {
        let class = job.spec().attribute(&self.attribute);
        let class = class.and_then(|v| v.as_str());
        class.is_some_and(|class| self.classes.iter().any(|c| c == class))
    }
}

impl<A: NodeSelector, B: NodeSelector> NodeSelector for ByClass<A, B> {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        match self.is_named(job) {
            true => self.named.find(draft, job, shape),
            false => self.others.find(draft, job, shape),
        }
    }

    fn nodes(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Parts> {
        match self.is_named(job) {
            true => self.named.nodes(draft, job, shape),
            false => self.others.nodes(draft, job, shape),
        }
    }

    fn most_gpus(&self, view: View<'_>, job: &JobRef<'_>) -> GpuCount {
        match self.is_named(job) {
            true => self.named.most_gpus(view, job),
            false => self.others.most_gpus(view, job),
        }
    }
}
