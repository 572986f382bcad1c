//! Cost of jobs on nodes with prices.

use blox_core::{
    Action, Assignment, Event, GpuList, JobId, NodeId, Phase, Plan, SortedMap, Time, View,
};

/// Seconds of an hour.
const HOUR: f64 = 3600.0;

/// Costs of the live jobs that ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bills(SortedMap<JobId, Bill>);

#[derive(Clone, Debug, Default)]
struct Bill {
    /// Cost until `since`.
    cost: f64,
    since: Time,
    /// Cost of an hour from then on.
    price: f64,
    gpus: GpuList,
}

impl Bills {
    /// Takes over an event that the view shows.
    pub fn on_event(&mut self, view: View<'_>, event: &Event) {
        match event.job() {
            Some(job) => self.settle(view, job),
            None => self.settle_all(view),
        }
    }

    /// Takes over the launches and stops of a plan that the view shows.
    pub fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        for action in &plan.actions {
            if let Action::Place { job, .. } | Action::Stop { job, .. } = action {
                self.settle(view, *job);
            }
        }
    }

    /// Counts the time until now, at changed prices of nodes or without lost nodes from now on.
    pub fn settle_all(&mut self, view: View<'_>) {
        for (job, bill) in self.0.iter_mut() {
            bill.settle(view, *job);
        }
    }

    /// Removes the bill of a job, and returns its cost.
    pub fn close(&mut self, job: JobId) -> f64 {
        self.0.remove(&job).map_or(0.0, |bill| bill.cost)
    }

    /// Counts the time of a job that may have changed, and of the jobs on its GPUs.
    fn settle(&mut self, view: View<'_>, id: JobId) {
        let runs = view
            .job(id)
            .is_some_and(|job| job.phase() == Phase::Running);
        if !runs && !self.0.contains_key(&id) {
            return;
        }
        let bill = self.0.entry(id).or_default();
        let mut gpus = bill.gpus.clone();
        bill.settle(view, id);
        gpus.extend(bill.gpus.iter().copied());
        for gpu in gpus {
            for other in view.cluster().bound_to(gpu).filter(|other| *other != id) {
                if let Some(bill) = self.0.get_mut(&other) {
                    bill.settle(view, other);
                }
            }
        }
    }
}

impl Bill {
    fn settle(&mut self, view: View<'_>, job: JobId) {
        self.cost += self.price * ((view.now() - self.since).secs() / HOUR);
        self.since = view.now();
        let job = view.job(job).filter(|job| job.phase() == Phase::Running);
        let bound = job.and_then(|job| job.bound());
        self.price = bound.map_or(0.0, |bound| price(view, bound));
        self.gpus = bound.map(|bound| bound.gpus.clone()).unwrap_or_default();
    }
}

/// Returns the price of an hour of an assignment: its part of the GPUs of each node, times the price
/// of the node. Jobs with more than the whole of a GPU divide it in proportion to their parts.
fn price(view: View<'_>, on: &Assignment) -> f64 {
    let cluster = view.cluster();
    let part = |gpu| {
        if !cluster.is_shared(gpu) {
            return on.share.fraction();
        }
        let jobs = cluster
            .bound_to(gpu)
            .filter_map(|job| view.job(job)?.bound());
        let all: f64 = jobs.map(|bound| bound.share.fraction()).sum();
        on.share.fraction() / all.max(1.0)
    };
    let mut parts: Vec<(NodeId, f64)> = Vec::new();
    for gpu in &on.gpus {
        let Some(node) = cluster.node_of(*gpu) else {
            continue;
        };
        match parts.last_mut().filter(|(last, _)| *last == node) {
            Some((_, sum)) => *sum += part(*gpu),
            None => parts.push((node, part(*gpu))),
        }
    }
    let cost = |(node, parts): (NodeId, f64)| {
        let node = cluster.node(node)?;
        Some(node.spec().price * (parts / f64::from(node.gpu_count().max(1))))
    };
    parts.into_iter().filter_map(cost).sum()
}
