//! Placement that starts from an empty cluster at every decision.

use super::News;
use blox_core::{
    Assignment, Draft, DraftError, Event, GpuCount, GpuList, JobQueue, JobRef, Node, NodeId,
    PlacementPolicy, Policy, Reason, Request, Validity, View,
};
use blox_policies::placement::Blocked;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Room that a scheme grants a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    /// Any free GPUs.
    Anywhere,
    /// A number of GPUs on each of these nodes.
    On(Vec<(NodeId, u32)>),
}

/// A placement scheme of the released program.
///
/// A scheme is its own memory: each placement starts with a copy of it.
///
/// ```
/// use blox_core::{Draft, JobRef, Request};
/// use blox_released::tiresias::quirks::{Grant, Scheme};
/// use serde::{Deserialize, Serialize};
///
/// /// Gives GPUs to as many jobs as the cluster has nodes.
/// #[derive(Clone, Default, Serialize, Deserialize)]
/// struct AJobPerNode(usize);
///
/// impl Scheme for AJobPerNode {
///     fn empty(&mut self, draft: &Draft<'_>, _listed: &[Request]) {
///         self.0 = draft.view().nodes().count();
///     }
///
///     fn grant(&mut self, _job: &JobRef<'_>, _request: &Request) -> Option<Grant> {
///         self.0 = self.0.checked_sub(1)?;
///         Some(Grant::Anywhere)
///     }
/// }
/// ```
pub trait Scheme: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// Handles an end or another event.
    fn on_event(&mut self, event: &Event) {
        let _ = event;
    }

    /// Begins a pass, in which the listed jobs occupy nothing.
    fn empty(&mut self, draft: &Draft<'_>, listed: &[Request]);

    /// Returns true if passes run only after events.
    fn follows_events(&self) -> bool {
        true
    }

    /// Takes room for the next job of the pass. Returns `None` if there is none.
    fn grant(&mut self, job: &JobRef<'_>, request: &Request) -> Option<Grant>;
}

/// Places an explicit list of requests from an empty cluster.
///
/// Each job gets the room that the scheme finds if only earlier jobs in the list and jobs outside
/// the list occupy GPUs. A running job without room stops. A job that gets room on its current
/// nodes stays there. A job that gets room elsewhere stops and starts there.
#[derive(Clone, Debug, Default)]
pub struct Repack<S> {
    scheme: S,
    blocked: Blocked,
}

/// The scheme with its state, and whether an event happened since the last pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RepackState<S> {
    scheme: S,
    news: News,
}

impl<S: Scheme> Repack<S> {
    /// Creates a placement with this scheme and backfill.
    pub fn by(scheme: S) -> Self {
        Repack {
            scheme,
            blocked: Blocked::Skip,
        }
    }

    /// Sets what happens after a job without room.
    #[must_use]
    pub fn when_blocked(mut self, blocked: Blocked) -> Self {
        self.blocked = blocked;
        self
    }
}

impl<S: Scheme> Policy for Repack<S> {
    type Memory = RepackState<S>;

    fn initial(&self, _: u64) -> RepackState<S> {
        RepackState {
            scheme: self.scheme.clone(),
            news: News::default(),
        }
    }

    fn on_event(&self, memory: &mut RepackState<S>, _: View<'_>, event: &Event) {
        memory.news.hear(event);
        memory.scheme.on_event(event);
    }
}

impl<S: Scheme> PlacementPolicy for Repack<S> {
    fn place(
        &self,
        memory: &mut Self::Memory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<Validity, DraftError> {
        if !memory.news.take() && memory.scheme.follows_events() {
            return Ok(Validity::UntilEvent);
        }
        let view = draft.view();
        let list = &*requests.all(view);
        memory.scheme.empty(draft, list);
        let mut granted = Vec::new();
        let mut blocked = false;
        for request in list {
            let Some(job) = view.job(request.job).filter(|j| draft.may_place(j.id())) else {
                continue;
            };
            let grant = if blocked {
                None
            } else {
                memory.scheme.grant(&job, request)
            };
            blocked |= grant.is_none() && self.blocked == Blocked::Stop;
            let stays = |a: &Assignment| match &grant {
                Some(Grant::Anywhere) => true,
                Some(Grant::On(nodes)) => *nodes == nodes_of(view, a),
                None => false,
            };
            match draft.current(request.job) {
                Some(has) if stays(has) => continue,
                Some(_) => draft.release(request.job, Reason::NotChosen)?,
                None => {}
            }
            granted.push((request.job, job.gpus(), grant));
        }
        for (job, needed, grant) in granted {
            let found = match grant {
                Some(Grant::Anywhere) => first_free(draft, needed),
                Some(Grant::On(nodes)) => on_nodes(draft, &nodes),
                None => None,
            };
            match found {
                Some(gpus) => draft.assign(job, Assignment::of(gpus))?,
                None => {
                    let free = GpuCount(draft.free_gpus());
                    draft.explain(job, Reason::TooFewGpus { needed, free });
                }
            }
        }
        Ok(Validity::UntilEvent)
    }
}

fn first_free(draft: &Draft<'_>, needed: GpuCount) -> Option<GpuList> {
    let needed = needed.get() as usize;
    let free = draft.nodes_with_free().map(Node::id).collect::<Vec<_>>();
    let gpus = free.into_iter().flat_map(|n| draft.free_gpus_on(n));
    let gpus: GpuList = gpus.take(needed).collect();
    (gpus.len() == needed).then_some(gpus)
}

fn on_nodes(draft: &Draft<'_>, nodes: &[(NodeId, u32)]) -> Option<GpuList> {
    let mut gpus = GpuList::new();
    for (node, count) in nodes {
        gpus.extend(draft.take_from(*node, *count)?);
    }
    Some(gpus)
}

/// Returns the GPUs per node, in the order of the assignment.
fn nodes_of(view: View<'_>, a: &Assignment) -> Vec<(NodeId, u32)> {
    let mut nodes: Vec<(NodeId, u32)> = Vec::new();
    for node in a.gpus.iter().filter_map(|g| view.cluster().node_of(*g)) {
        match nodes.iter_mut().find(|(n, _)| *n == node) {
            Some((_, count)) => *count += 1,
            None => nodes.push((node, 1)),
        }
    }
    nodes
}

/// Returns the GPUs of each node that a pass may grant: free ones and GPUs of the listed jobs.
pub(super) fn gpus_of_pass(draft: &Draft<'_>, listed: &[Request]) -> BTreeMap<NodeId, u32> {
    let view = draft.view();
    let mut free: BTreeMap<NodeId, u32> = view
        .nodes()
        .filter(|n| n.is_usable())
        .map(|n| (n.id(), draft.free_on(n.id())))
        .collect();
    for has in listed.iter().filter_map(|r| draft.current(r.job)) {
        for (node, count) in nodes_of(view, has) {
            if let Some(free) = free.get_mut(&node) {
                *free += count;
            }
        }
    }
    free
}

/// The scheme `count`: any free GPUs, if there are enough.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Count {
    free: u32,
}

impl Scheme for Count {
    fn empty(&mut self, draft: &Draft<'_>, listed: &[Request]) {
        self.free = gpus_of_pass(draft, listed).values().sum();
    }

    fn grant(&mut self, job: &JobRef<'_>, _: &Request) -> Option<Grant> {
        self.free = self.free.checked_sub(job.gpus().get())?;
        Some(Grant::Anywhere)
    }
}

/// The scheme `balance`. Quirk: the program never places a job, as the solver is commented out.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Nowhere;

impl Scheme for Nowhere {
    fn empty(&mut self, _: &Draft<'_>, _: &[Request]) {}

    fn grant(&mut self, _: &JobRef<'_>, _: &Request) -> Option<Grant> {
        None
    }
}

/// Places jobs on the nodes that the request names.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct AsNamed;

impl Scheme for AsNamed {
    fn follows_events(&self) -> bool {
        false
    }

    fn empty(&mut self, _: &Draft<'_>, _: &[Request]) {}

    fn grant(&mut self, _: &JobRef<'_>, request: &Request) -> Option<Grant> {
        match &request.shapes.first()?.place {
            blox_core::Place::Nodes(nodes) => Some(Grant::On(nodes.clone())),
            _ => None,
        }
    }
}
