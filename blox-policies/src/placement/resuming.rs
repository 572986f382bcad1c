//! Placement that starts jobs again where they ran last.

use super::selector::{Parts, on_nodes, suits};
use blox_core::{
    Answer, Assignment, Draft, Event, GpuList, JobId, JobQueue, JobRef, Place, PlacementPolicy,
    Reason, Request, Room, Shape, SortedMap, View, forward_policy,
};

/// Starts jobs again on the GPUs that they had last, and places all others by an inner placement.
///
/// If some of these GPUs are taken, a job gets others of the same nodes. Only then does the inner
/// placement choose. Jobs on their own GPUs come first, in any order of the queue. So use it for
/// schedulers that list only jobs that fit together, such as time slicing.
#[derive(Clone)]
pub struct Resuming<P> {
    inner: P,
}

impl<P: PlacementPolicy> Resuming<P> {
    /// Creates the placement with an inner placement.
    pub fn new(inner: P) -> Self {
        Resuming { inner }
    }
}

forward_policy!(
    Resuming<P: PlacementPolicy>, inner, SortedMap<JobId, GpuList>,
    |last: &mut SortedMap<JobId, GpuList>, _: View<'_>, event: &Event| {
        if let Event::Ended { job, .. } = event {
            last.remove(job);
        }
    }
);

impl<P: PlacementPolicy> PlacementPolicy for Resuming<P> {
    fn place(
        &self,
        memory: &mut Self::Memory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Answer {
        let last = &mut memory.own;
        note(last, draft.view());
        let mut moved: Vec<(JobRef<'_>, Shape, &GpuList)> = Vec::new();
        for request in requests.all(draft.view()).iter() {
            let Some((job, shape)) = returns(draft, request) else {
                continue;
            };
            let Some(gpus) = last.get(&request.job) else {
                continue;
            };
            let same = shape.gpus.get() as usize == gpus.len()
                && draft.are_free(gpus)
                && suited(draft, &job, shape, gpus);
            let there = shape.on(gpus.clone());
            match same && draft.fits(&job, &there) {
                true => draft.assign(request.job, there)?,
                false => moved.push((job, shape.clone(), gpus)),
            }
        }
        for (job, shape, gpus) in moved {
            if let Some(there) = on_same_nodes(draft, &job, &shape, gpus) {
                draft.assign(job.id(), there)?;
            }
        }
        self.inner.place(&mut memory.inner, requests, draft)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        self.inner.can_ever_place(room, job, shape)
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.inner.keeps_nodes(nodes)
    }
}

/// Notes the GPUs that jobs have.
fn note(last: &mut SortedMap<JobId, GpuList>, view: View<'_>) {
    for job in view.placed() {
        if let Some(has) = job.assignment() {
            let gpus = last.entry(job.id()).or_default();
            if *gpus != has.gpus {
                gpus.clone_from(&has.gpus);
            }
        }
    }
}

/// Returns the job and the shape of a request for a job without GPUs that may run anywhere, alone.
fn returns<'a, 'r>(draft: &Draft<'a>, request: &'r Request) -> Option<(JobRef<'a>, &'r Shape)> {
    let [shape] = &request.shapes[..] else {
        return None;
    };
    let free = matches!(shape.place, Place::Any | Place::Consolidated);
    let waits = draft.current(request.job).is_none() && draft.may_place(request.job);
    let job = draft.view().job(request.job)?;
    (free && waits && request.guests().is_empty()).then_some((job, shape))
}

/// Returns whether the job may have these GPUs in the shape.
fn suited(draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape, gpus: &GpuList) -> bool {
    let view = draft.view();
    gpus.iter().all(|gpu| {
        let node = view.cluster().node_of(*gpu).and_then(|id| view.node(id));
        node.is_some_and(|node| suits(node, job, shape, view))
    })
}

/// Returns free GPUs on the nodes of earlier GPUs, as many on each.
fn on_same_nodes(
    draft: &Draft<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
    gpus: &GpuList,
) -> Option<Assignment> {
    if gpus.len() != shape.gpus.get() as usize || !suited(draft, job, shape, gpus) {
        return None;
    }
    let mut nodes = Parts::new();
    for gpu in gpus {
        let node = draft.view().cluster().node_of(*gpu)?;
        match nodes.iter_mut().find(|(id, _)| *id == node) {
            Some((_, count)) => *count += 1,
            None => nodes.push((node, 1)),
        }
    }
    on_nodes(draft, &nodes, shape)
}
