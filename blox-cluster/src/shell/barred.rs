//! Nodes and GPUs that would give a waiting job its GPUs, but are out of use.

use crate::protocol::Millis;
use crate::protocol::scheduler::Controller;
use blox_core::{GpuId, JobRef, Node, NodeStatus, Phase, Reason};

/// Most nodes that are named.
const MOST: usize = 3;

/// Names the nodes and GPUs that are out of use, and why, if a waiting job could have its GPUs with
/// them. Returns `None` otherwise, and for a job that does not wait for GPUs.
pub(super) fn barred(s: &Controller, now: Millis, job: &JobRef<'_>) -> Option<String> {
    let (core, durable) = (s.core(), s.launches().durable());
    let is_decided = core.last_decision() >= Some(job.eligible_since());
    if job.phase() != Phase::Waiting || !is_decided || durable.backing_off.contains_key(&job.id()) {
        return None;
    }
    // Nodes with as many GPUs each; 0 for any nodes.
    let (cluster, wanted) = (s.view().cluster(), job.gpus().get());
    let limit = job.node_limit();
    let (nodes_wanted, on_each) = match (core.reason_for(job.id()), limit) {
        (Reason::TooFewGpus { .. } | Reason::NoFreeGpus | Reason::NotChosen, None) => (0, 0),
        (Reason::Fragmented { .. }, None) => (1, wanted),
        (
            Reason::TooFewGpus { .. }
            | Reason::NoFreeGpus
            | Reason::NotChosen
            | Reason::Fragmented { .. }
            | Reason::TooFewNodes { .. },
            Some(limit),
        ) => (limit.nodes, limit.gpus),
        _ => return None,
    };
    let there = |n: &&Node| n.status() != NodeStatus::Left && n.wanted().is_none();
    let nodes = cluster.nodes().iter().filter(there);
    let nodes = nodes.filter(|n| job.accepts(cluster, n.gpu_type()));
    let (mut gpus, mut suited, mut open, mut all) = (0, 0, 0, Vec::new());
    for n in nodes {
        let idle = |g: GpuId| {
            cluster.bound_to(g).next().is_none() && cluster.allocated_to(g).next().is_none()
        };
        // Of a node in use, only failed GPUs are out of use.
        let is_out = |g: &GpuId| n.works(*g) != n.is_usable() && idle(*g);
        let out = n.gpus().filter(is_out).count() as u32;
        if n.free_count() + out < on_each {
            continue;
        }
        suited += 1;
        open += u32::from(on_each > 0 && n.free_count() >= on_each);
        if let Some(why) = why(s, now, n).filter(|_| out > 0) {
            all.push(format!("{} ({why})", s.node_name(n.id())));
            gpus += out;
        }
        gpus += n.free_count();
    }
    // Enough nodes are free: the job lacks something else.
    let is_enough = nodes_wanted > 0 && open >= nodes_wanted;
    if all.is_empty() || gpus < wanted || suited < nodes_wanted || is_enough {
        return None;
    }
    let more = match all.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    all.truncate(MOST);
    Some(format!("out of use: {}{more}", all.join(", ")))
}

/// Returns why a node or its GPUs are out of use; `None` for a node that is off or has left.
fn why(s: &Controller, now: Millis, n: &Node) -> Option<String> {
    if let Some(why) = n.cordoned() {
        return Some(format!("drained: {why}"));
    }
    match n.status() {
        NodeStatus::Up => {
            let (gpu, _) = (0..).zip(n.gpus()).find(|(_, g)| !n.works(*g))?;
            let why = s.launches().failure_of_gpu(n.id(), gpu);
            let why = why.map_or("failed", |why| why.as_str());
            Some(format!("GPU {gpu} {why}"))
        }
        NodeStatus::Lost if s.launches().quarantined(n.id(), now) > Millis(0) => {
            Some("quarantined".to_owned())
        }
        NodeStatus::Lost => Some("lost".to_owned()),
        NodeStatus::Off => n.failure().map(ToString::to_string),
        _ => None,
    }
}
