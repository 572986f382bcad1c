//! Records what the cases of a suite reached: roles, hints of requests, sharing, growth and moves.

use blox_core::decision::{Action, AdmissionDecision, AdmissionDecisions, NodeActions, Plan};
use blox_core::shape::Place;
use blox_core::view::View;
use blox_core::{Class, Request};
use std::fmt;

/// Counts how often a scheduler took part of a role, gave a hint, or shared, changed or moved jobs.
///
/// A zero is no error: a first-in-first-out scheduler never grows a job. But a suite proves nothing
/// about what its cases did not reach, so read the zeros beside the promises of the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Actions on nodes by the cluster manager.
    pub node_actions: u64,
    /// Jobs that admission deferred.
    pub deferrals: u64,
    /// Jobs that admission rejected.
    pub rejections: u64,
    /// Jobs ordered before all others until they end.
    pub promotions: u64,
    /// Jobs that the scheduler ended at their goal.
    pub goals: u64,
    /// Requests in an explicit list. Kept orders are not counted.
    pub requests: u64,
    /// Requests with several shapes.
    pub choices: u64,
    /// Requests with guests on the same GPUs.
    pub guests: u64,
    /// Shapes with a GPU type.
    pub types: u64,
    /// Shapes with CPUs or memory.
    pub resources: u64,
    /// Shapes with a batch.
    pub batches: u64,
    /// Shapes on as few nodes as possible, near a job, or on given nodes.
    pub places: u64,
    /// Placements on GPUs of another job.
    pub shared: u64,
    /// Placements on more GPUs than before; for a job without GPUs, than it requested.
    pub grown: u64,
    /// Placements on fewer GPUs than before; for a job without GPUs, than it requested.
    pub shrunk: u64,
    /// Placements of a job with GPUs on as many other GPUs.
    pub moved: u64,
    /// Placements over several nodes.
    pub spanning: u64,
    /// Placements with CPUs or memory.
    pub granted: u64,
    /// Placements with parts of GPUs.
    pub parts: u64,
    /// Placements of services.
    pub services: u64,
    /// Placements of spot jobs with guaranteed time.
    pub spot: u64,
    /// Placements of jobs that reported their config.
    pub knobs: u64,
    /// Placements of jobs that must run on a number of nodes.
    pub node_counts: u64,
}

impl Coverage {
    /// Returns each counter with its name.
    pub fn counters(&self) -> [(&'static str, u64); 23] {
        [
            ("node actions", self.node_actions),
            ("deferrals", self.deferrals),
            ("rejections", self.rejections),
            ("promotions", self.promotions),
            ("goals", self.goals),
            ("requests", self.requests),
            ("choices of shapes", self.choices),
            ("guests", self.guests),
            ("GPU types", self.types),
            ("CPUs or memory", self.resources),
            ("batches", self.batches),
            ("places", self.places),
            ("shared GPUs", self.shared),
            ("growth", self.grown),
            ("shrinking", self.shrunk),
            ("moves", self.moved),
            ("several nodes", self.spanning),
            ("granted CPUs or memory", self.granted),
            ("parts of GPUs", self.parts),
            ("services", self.services),
            ("spot jobs with guaranteed time", self.spot),
            ("reported configs", self.knobs),
            ("numbers of nodes", self.node_counts),
        ]
    }

    /// Returns the names of the counters at 0.
    pub fn unreached(&self) -> Vec<&'static str> {
        let counters = self.counters();
        let zero = counters.iter().filter(|(_, count)| *count == 0);
        zero.map(|(name, _)| *name).collect()
    }

    pub(crate) fn add(&mut self, other: &Coverage) {
        self.node_actions += other.node_actions;
        self.deferrals += other.deferrals;
        self.rejections += other.rejections;
        self.promotions += other.promotions;
        self.goals += other.goals;
        self.requests += other.requests;
        self.choices += other.choices;
        self.guests += other.guests;
        self.types += other.types;
        self.resources += other.resources;
        self.batches += other.batches;
        self.places += other.places;
        self.shared += other.shared;
        self.grown += other.grown;
        self.shrunk += other.shrunk;
        self.moved += other.moved;
        self.spanning += other.spanning;
        self.granted += other.granted;
        self.parts += other.parts;
        self.services += other.services;
        self.spot += other.spot;
        self.knobs += other.knobs;
        self.node_counts += other.node_counts;
    }

    pub(crate) fn manages(&mut self, actions: &NodeActions) {
        self.node_actions += actions.len() as u64;
    }

    /// Counts the answers of an admission policy. The core's own rejections come first.
    pub(crate) fn admits(&mut self, answers: &AdmissionDecisions, own_of_the_core: usize) {
        for (_, answer) in answers.iter().skip(own_of_the_core) {
            match answer {
                AdmissionDecision::Defer { .. } => self.deferrals += 1,
                AdmissionDecision::Reject(_) => self.rejections += 1,
                _ => {}
            }
        }
    }

    pub(crate) fn plans(&mut self, view: View<'_>, requests: &[Request], plan: &Plan) {
        self.requests += requests.len() as u64;
        for request in requests {
            self.choices += u64::from(request.shapes.len() > 1);
            self.guests += u64::from(!request.guests().is_empty());
            for shape in &request.shapes {
                self.types += u64::from(shape.gpu_type.is_some());
                self.resources += u64::from(shape.has_resources());
                self.batches += u64::from(!shape.config.is_none());
                match shape.place {
                    Place::Any => {}
                    _ => self.places += 1,
                }
            }
        }
        for action in &plan.actions {
            let (job, assignment) = match action {
                Action::Promote { .. } => {
                    self.promotions += 1;
                    continue;
                }
                Action::Finish { .. } => {
                    self.goals += 1;
                    continue;
                }
                Action::Place { job, assignment } => (*job, assignment),
                _ => continue,
            };
            let Some(job) = view.job(job) else { continue };
            let before = job.assignment();
            let usual = before.map_or(job.gpus(), |a| a.count());
            self.shared += u64::from(assignment.share.overlaps());
            self.parts += u64::from(!assignment.share.is_whole());
            self.services += u64::from(job.need().is_some());
            let class = job.class();
            self.spot += u64::from(class.is_spot() && class != Class::BEST_EFFORT);
            self.knobs += u64::from(!job.config().is_none());
            self.node_counts += u64::from(job.node_limit().is_some());
            self.grown += u64::from(assignment.count() > usual);
            self.shrunk += u64::from(assignment.count() < usual);
            self.granted += u64::from(assignment.cpus > 0.0 || assignment.memory_gib > 0.0);
            let elsewhere = before.is_some_and(|a| !a.same_gpus(assignment));
            self.moved += u64::from(elsewhere && assignment.count() == usual);
            let node = |gpu| view.cluster().node_of(gpu);
            let mut nodes = assignment.gpus.iter().map(|gpu| node(*gpu));
            let first = nodes.next();
            self.spanning += u64::from(nodes.any(|node| Some(node) != first));
        }
    }
}

impl fmt::Display for Coverage {
    /// Writes the counters above 0, then the names of the others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reached = self.counters().into_iter().filter(|(_, count)| *count > 0);
        let reached: Vec<String> = reached.map(|(name, n)| format!("{name} {n}")).collect();
        write!(f, "reached: {}", crate::joined(&reached))?;
        write!(f, "; never reached: {}", crate::joined(&self.unreached()))
    }
}
