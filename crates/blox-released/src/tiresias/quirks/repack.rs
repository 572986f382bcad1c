//! Placement that starts from an empty cluster at every decision.

use super::News;
use blox_core::{
    Assignment, Draft, DraftError, Event, GpuCount, GpuList, JobRef, Node, NodeId, Outlook,
    PlacementPolicy, Policy, Reason, Request, Requests, View,
};
use blox_policies::placement::Blocked;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a scheme gives a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Grant {
    /// Any free GPUs.
    Anywhere,
    /// So many GPUs on each of these nodes.
    On(Vec<(NodeId, u32)>),
}

/// A placement scheme of the released program.
///
/// It is its own memory: a placement starts with a copy of it.
pub trait Scheme: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// A job ended or something else happened.
    fn on_event(&mut self, event: &Event) {
        let _ = event;
    }

    /// A pass begins: none of the listed jobs has anything.
    fn empty(&mut self, draft: &Draft<'_>, listed: &[Request]);

    /// Returns whether passes come with events alone.
    fn follows_events(&self) -> bool {
        true
    }

    /// Room for the next job of the pass, taken for it; `None` if there is none.
    fn grant(&mut self, job: &JobRef<'_>, request: &Request) -> Option<Grant>;
}

/// Places an explicit list of requests, all anew: each gets what its scheme
/// finds on a cluster on which only the jobs before it in the list, and those
/// that are not in it, have anything. Who runs and gets no room stops; who gets
/// room on the nodes that it is on stays where it is; who gets room elsewhere
/// stops and starts there.
#[derive(Clone, Debug, Default)]
pub struct Repack<S> {
    scheme: S,
    blocked: Blocked,
}

/// The scheme with what it has noted, and whether anything happened since the last pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RepackState<S> {
    scheme: S,
    news: News,
}

impl<S: Scheme> Repack<S> {
    /// By a scheme; a job without room is passed over.
    pub fn by(scheme: S) -> Self {
        Repack {
            scheme,
            blocked: Blocked::Skip,
        }
    }

    /// Returns it with another answer to a job without room.
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
        requests: &mut Requests,
        draft: &mut Draft<'_>,
    ) -> Result<Outlook, DraftError> {
        if !memory.news.take() && memory.scheme.follows_events() {
            return Ok(Outlook::Stable);
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
        Ok(Outlook::Stable)
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

/// GPUs by node, in order of the assignment.
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

/// GPUs of a node that a pass may give away: the free ones and those of the listed jobs.
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

/// The scheme `count`: enough free GPUs, wherever they are.
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

/// The scheme `balance`: its solver is commented out in the released program,
/// so that no job is ever placed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Nowhere;

impl Scheme for Nowhere {
    fn empty(&mut self, _: &Draft<'_>, _: &[Request]) {}

    fn grant(&mut self, _: &JobRef<'_>, _: &Request) -> Option<Grant> {
        None
    }
}

/// The nodes that the request itself names.
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
