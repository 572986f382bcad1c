//! Speed as a function of the links between GPUs.

use super::{ExecutionModel, FixedRate, passes_on};
use blox_core::{Assignment, JobRef, NodeId, View, forward_policy};
use serde::{Deserialize, Serialize};

/// Slows jobs that [exchange gradients](blox_core::Extras::communication) on GPUs with slower
/// links.
///
/// A job spends the fraction `communication` of a step on the exchange if all links are as fast as
/// the best of the cluster. The exchange takes longer in proportion if the
/// [bandwidth](blox_core::NodeSpec::bandwidth_of) of the job's GPUs is lower, or the slowest
/// [link of the network](blox_core::Cluster::links_of) between them. Three cases keep the speed of the inner model: jobs without this
/// fraction, jobs on one GPU, and clusters without specified links. For a job with
/// [`traffic`](blox_core::Extras::traffic), only links within nodes count, because [`Traffic`](super::Traffic)
/// slows it on the network.
#[derive(Clone, Debug)]
pub struct LinkBound<M = FixedRate> {
    inner: M,
}

/// The best link of the nodes seen so far.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct BestLink {
    /// Number of nodes seen.
    nodes: usize,
    gb_per_s: f64,
}

impl BestLink {
    /// Includes the nodes that joined since the last call. Returns the bandwidth in GB/s.
    fn update(&mut self, view: View<'_>) -> f64 {
        let nodes = view.cluster().nodes();
        if self.nodes != nodes.len() {
            let of_new = nodes[self.nodes.min(nodes.len())..]
                .iter()
                .filter_map(|n| n.spec().best_bandwidth());
            self.gb_per_s = of_new.fold(self.gb_per_s, f64::max);
            self.nodes = nodes.len();
        }
        self.gb_per_s
    }
}

impl Default for LinkBound {
    fn default() -> Self {
        LinkBound::over(FixedRate)
    }
}

impl<M> LinkBound<M> {
    /// Wraps another model.
    pub fn over(inner: M) -> Self {
        LinkBound { inner }
    }

    /// Returns the GB/s between the job's GPUs; `None` if it is irrelevant or unknown.
    fn bandwidth(view: View<'_>, job: &JobRef<'_>, assignment: &Assignment) -> Option<f64> {
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
        let links = match job.spec().extras().traffic {
            None => view.cluster().links_of(&assignment.gpus),
            Some(_) => Default::default(),
        };
        let links = links.iter().filter_map(|l| view.cluster().link(*l));
        within.chain(links.map(|l| l.gbps / 8.0)).reduce(f64::min)
    }
}

forward_policy!(LinkBound<M: ExecutionModel>, inner, BestLink);

impl<M: ExecutionModel> ExecutionModel for LinkBound<M> {
    fn rate(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let rate = self.inner.rate(&mut memory.inner, view, job, assignment);
        let share = job.spec().extras.as_ref().map_or(0.0, |e| e.communication);
        if share == 0.0 {
            return rate;
        }
        let best = memory.own.update(view);
        match Self::bandwidth(view, job, assignment) {
            Some(bandwidth) if best > 0.0 => {
                rate / (1.0 - share + share * (best / bandwidth).max(1.0))
            }
            _ => rate,
        }
    }

    passes_on!();
}
