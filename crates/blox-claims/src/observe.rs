//! Collector of what results do not hold: packing, admission and powered nodes.

use blox_core::{Action, Class, Event, JobId, MetricCollector, NodeStatus, Plan, Time, View};
use std::collections::BTreeSet;

/// Observes packing, admission and powered nodes in a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observer {
    /// Jobs that ever shared a GPU.
    pub packed: BTreeSet<JobId>,
    /// Accepted jobs of the guaranteed class, each with its effective deadline.
    pub guaranteed: Vec<(JobId, Time)>,
    /// Number of moments at which nodes were powered on.
    pub wake_ups: u32,
    /// Node-seconds in use, and powered.
    used: f64,
    powered: f64,
    /// Time and numbers of nodes in use and powered, from the first submission on.
    last: Option<(Time, u32, u32)>,
    /// Sums at the last end of a job.
    until_end: (f64, f64),
}

impl Observer {
    /// Returns the fraction of the powered node-seconds in which a node had jobs.
    pub fn node_use(&self) -> f64 {
        self.until_end.0 / self.until_end.1
    }

    fn advance(&mut self, view: View<'_>) {
        let now = view.now();
        let powered = view.nodes().filter(|n| n.status() == NodeStatus::Up);
        let (mut used, mut on) = (0, 0);
        for node in powered {
            on += 1;
            used += u32::from(node.free_count() < node.gpu_count());
        }
        if let Some((last, used, before)) = self.last {
            let span = (now - last).secs();
            self.used += span * f64::from(used);
            self.powered += span * f64::from(before);
            self.wake_ups += u32::from(on > before);
        }
        self.last = Some((now, used, on));
    }
}

impl MetricCollector for Observer {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        match event {
            Event::Submitted { .. } if self.last.is_none() => self.advance(view),
            Event::NodeManaged { .. } | Event::NodeReturned { .. } if self.last.is_some() => {
                self.advance(view);
            }
            Event::Ended { .. } if self.last.is_some() => {
                self.advance(view);
                self.until_end = (self.used, self.powered);
            }
            Event::AdmissionDecided { job, .. } => {
                let accepted = view.job(*job).filter(|j| j.accepted_at().is_some());
                let guaranteed = accepted.filter(|j| j.class() == Class::Guaranteed);
                if let Some(deadline) = guaranteed.and_then(|j| j.deadline()) {
                    self.guaranteed.push((*job, deadline));
                }
            }
            _ => {}
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        self.advance(view);
        for action in &plan.actions {
            if let Action::Place { job, assignment } = action
                && assignment.share.overlaps()
            {
                let gpus = assignment.gpus.iter();
                self.packed.insert(*job);
                self.packed
                    .extend(gpus.flat_map(|gpu| view.cluster().allocated_to(*gpu)));
            }
        }
    }
}
