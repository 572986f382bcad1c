//! Speed that depends on how the GPUs are linked.

use super::{ExecutionModel, FixedRate, around, passes_on};
use blox_core::{Assignment, JobRef, NodeId, View};

/// Jobs that [exchange gradients](blox_core::Extras::communication) are slower on
/// GPUs that are linked slower.
///
/// Of a step, the share `communication` is spent on exchange where all links are as
/// fast as the best of the cluster; it takes longer in proportion where the
/// [bandwidth](blox_core::NodeSpec::bandwidth_of) of the held GPUs is lower, or the
/// network's where they lie on several nodes. Jobs that do not say, jobs on one GPU,
/// and clusters in which no node says how its GPUs are linked are as fast as the
/// model beneath says.
#[derive(Clone, Debug)]
pub struct LinkBound<M = FixedRate> {
    inner: M,
    network_gb_per_s: f64,
    /// The best link of the first so many nodes.
    best: (usize, f64),
}

impl Default for LinkBound {
    fn default() -> Self {
        LinkBound::over(FixedRate)
    }
}

impl<M> LinkBound<M> {
    /// Over another model, with a network of 1.25 GB/s (10 Gbit/s) between nodes.
    pub fn over(inner: M) -> Self {
        LinkBound {
            inner,
            network_gb_per_s: 1.25,
            best: (0, 0.0),
        }
    }

    /// Returns it with another bandwidth between nodes, above 0.
    #[must_use]
    pub fn network(mut self, gb_per_s: f64) -> Self {
        self.network_gb_per_s = gb_per_s;
        self
    }

    fn best(&mut self, view: View<'_>) -> f64 {
        let nodes = view.cluster().nodes();
        if self.best.0 != nodes.len() {
            let of_new = nodes[self.best.0.min(nodes.len())..]
                .iter()
                .filter_map(|n| n.spec().best_bandwidth());
            self.best = (nodes.len(), of_new.fold(self.best.1, f64::max));
        }
        self.best.1
    }

    /// GB/s of the held GPUs; `None` where it does not matter or nobody knows.
    fn held(&self, view: View<'_>, assignment: &Assignment) -> Option<f64> {
        let mut parts: Vec<(NodeId, Vec<u32>)> = Vec::new();
        for gpu in &assignment.gpus {
            let node = view.cluster().node(view.cluster().node_of(*gpu)?)?;
            let local = node.gpus().position(|g| g == *gpu)? as u32;
            match parts.iter_mut().find(|(id, _)| *id == node.id()) {
                Some((_, list)) => list.push(local),
                None => parts.push((node.id(), vec![local])),
            }
        }
        let within = parts
            .iter()
            .filter_map(|(id, list)| view.cluster().node(*id)?.spec().bandwidth_of(list));
        let between = (parts.len() > 1).then_some(self.network_gb_per_s);
        within.chain(between).reduce(f64::min)
    }
}

around!(LinkBound);

impl<M: ExecutionModel + Clone> ExecutionModel for LinkBound<M> {
    fn rate(&mut self, view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> f64 {
        let rate = self.inner.rate(view, job, assignment);
        let share = job.spec().extras.as_ref().map_or(0.0, |e| e.communication);
        if share == 0.0 {
            return rate;
        }
        let best = self.best(view);
        match self.held(view, assignment) {
            Some(bandwidth) if best > 0.0 => {
                rate / (1.0 - share + share * (best / bandwidth).max(1.0))
            }
            _ => rate,
        }
    }

    passes_on!();
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use crate::execution::LinkBound;
    use crate::workload::Jobs;
    use blox_core::order::SortKey;
    use blox_core::policy::by_key;
    use blox_core::testing::FirstFit;
    use blox_core::{ClusterSpec, Composition, Extras, GpuCount, JobSpec, Seconds, Time};

    fn took(cluster: &str, gpus: u32, communication: f64) -> f64 {
        let job =
            JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1000.0)).with_extras(Extras {
                communication,
                ..Extras::default()
            });
        let fifo = Composition::new("fifo")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
            .placement(FirstFit)
            .build()
            .unwrap();
        let report = Simulation::new(cluster.parse::<ClusterSpec>().unwrap())
            .execution(LinkBound::default())
            .completion(crate::completion::Exact)
            .run(fifo, &mut Jobs::new(vec![job]))
            .unwrap();
        report.end.secs()
    }

    #[test]
    fn slower_links_take_longer_in_proportion_to_what_is_sent() {
        // First fit takes GPUs 0 and 1: one NVLink where the best pair has two.
        assert_eq!(took("1x4@p3.8xlarge", 2, 0.25), 1250.0);
        assert_eq!(took("1x4@p3.8xlarge", 4, 0.25), 1000.0);
        assert_eq!(took("1x4@p3.8xlarge", 2, 0.0), 1000.0);
        assert_eq!(took("1x4@p3.8xlarge", 1, 0.25), 1000.0);
        // Between nodes 1.25 GB/s of 50.
        assert_eq!(
            took("2x4@p3.8xlarge", 8, 0.25),
            1000.0 * (0.75 + 0.25 * 40.0)
        );
        assert_eq!(took("2x4", 8, 0.25), 1000.0);
    }
}
