//! Guaranteed jobs with GPUs of their own, and opportunistic jobs on what these leave.

use super::selector::{most_if_empty, most_with_resources, suits};
use crate::admission::Quota;
use blox_core::{
    Answer, Assignment, Class, Draft, DraftError, GpuCount, GpuId, GpuTypeId, Gpus, JobQueue,
    JobRef, NameId, Node, NodeId, PlacementPolicy, Reason, Request, Room, Shape, Share, SortedMap,
    Stateless, Validity, sort,
};
use blox_perf::gpu_utilisation;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Gives guaranteed jobs GPUs of their own, and opportunistic jobs an overlapping part of the GPUs
/// with the least load (AntMan, OSDI 2020, algorithm 1).
///
/// **Guaranteed jobs** share GPUs with no other guaranteed job. A job goes to one node if a node
/// could hold it, otherwise to as few nodes as possible of one GPU type. The node with the fewest
/// GPUs left for guaranteed jobs comes first, then the GPUs with the least load. A job that finds too
/// few GPUs reserves those that it finds. Later guaranteed jobs do not get them; opportunistic jobs do.
///
/// **Opportunistic jobs** are jobs of the class spot, and guaranteed jobs beyond the quota of their
/// owner. They get the GPUs with the least load, below a limit. Their [share](Share::overlapping)
/// overlaps, so a guaranteed job may take the GPUs at any time. A guaranteed job beyond the quota is
/// upgraded as soon as the quota suffices and no other guaranteed job has its GPUs.
///
/// The load of a GPU is the sum of the [utilisations](gpu_utilisation) of its jobs. No job is stopped
/// or moved. GPU memory of opportunistic jobs is not counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Opportunistic {
    limit: f64,
    quota: Option<Quota>,
}

impl Opportunistic {
    /// Creates the placement with the load below which a GPU takes an opportunistic job.
    pub fn new(limit: f64) -> Self {
        Opportunistic { limit, quota: None }
    }

    /// Limits the GPUs of the guaranteed jobs of an owner.
    #[must_use]
    pub fn within(self, quota: Quota) -> Self {
        let quota = Some(quota);
        Opportunistic { quota, ..self }
    }
}

/// State of a decision besides the draft.
#[derive(Default)]
struct Books {
    /// Load of the GPUs with jobs.
    load: SortedMap<GpuId, f64>,
    /// GPUs of guaranteed jobs by owner.
    used: SortedMap<Option<NameId>, Gpus>,
    /// GPUs that a guaranteed job waits for.
    reserved: BTreeSet<GpuId>,
}

impl Books {
    fn load(&self, gpu: GpuId) -> f64 {
        self.load.get(&gpu).copied().unwrap_or(0.0)
    }

    fn count(&mut self, job: &JobRef<'_>, gpus: &[GpuId]) {
        for gpu in gpus {
            *self.load.entry(*gpu).or_default() += gpu_utilisation(job.spec());
        }
    }
}

/// GPUs of a node that a job could have, the least loaded first.
struct Open<'a> {
    node: &'a Node,
    gpus: Vec<GpuId>,
}

impl Opportunistic {
    /// Counts a guaranteed job if the quota of its owner suffices.
    fn admits(&self, books: &mut Books, draft: &Draft<'_>, job: &JobRef<'_>) -> bool {
        let Some(quota) = &self.quota else {
            return true;
        };
        let owner = quota.owner(job);
        let used = books.used.entry(owner).or_default();
        let asked = job.amount();
        let enough = *used + asked <= quota.limit(draft.view(), owner);
        if enough {
            *used += asked;
        }
        enough
    }

    /// Turns an opportunistic job into a guaranteed one if no other guaranteed job has its GPUs.
    fn upgrade(
        &self,
        books: &mut Books,
        draft: &mut Draft<'_>,
        request: &Request,
    ) -> Result<(), DraftError> {
        let view = draft.view();
        let Some(job) = view.job(request.job).filter(is_entitled) else {
            return Ok(());
        };
        let Some(has) = draft.current(job.id()).filter(|has| has.share.overlaps()) else {
            return Ok(());
        };
        let share = asked(request).map_or(Share::WHOLE, |shape| shape.share);
        let owned = Assignment {
            share,
            ..has.clone()
        };
        let free = owned
            .gpus
            .iter()
            .all(|gpu| draft.used(*gpu).has_room(share));
        if free && draft.may_place(job.id()) && self.admits(books, draft, &job) {
            draft.reassign(job.id(), owned)?;
        }
        Ok(())
    }

    /// Places a guaranteed job, or reserves GPUs for it.
    fn place_guaranteed(
        &self,
        books: &mut Books,
        draft: &mut Draft<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), DraftError> {
        let open = open(books, draft, job, shape);
        let needed = shape.gpus.get();
        let one = |node: &Node| most_if_empty(node, shape) >= needed;
        let mut taken: Vec<GpuId> = Vec::new();
        if open.iter().any(|on| one(on.node)) {
            let enough = |on: &&Open<'_>| on.gpus.len() >= needed as usize;
            let enough = open.iter().filter(enough).filter(|on| {
                let most = most_with_resources(draft, on.node, shape, needed);
                most == needed
            });
            // Without a node that has enough, the one with most is reserved.
            let best = enough.min_by_key(|on| on.gpus.len());
            let most = || {
                let could = open.iter().filter(|on| one(on.node));
                could.min_by_key(|on| Reverse(on.gpus.len()))
            };
            if let Some(on) = best.or_else(most) {
                taken.extend(on.gpus.iter().take(needed as usize));
            }
        } else {
            taken = spread(draft, &open, shape);
        }
        let found = shape.on(taken.iter().copied().collect());
        if taken.len() == needed as usize && draft.fits(job, &found) {
            books.count(job, &taken);
            draft.assign(job.id(), found)
        } else {
            let free = GpuCount(taken.len() as u32);
            let needed = shape.gpus;
            books.reserved.extend(taken);
            draft.explain(
                job.id(),
                Reason::Fragmented {
                    needed: needed.into(),
                    free: free.into(),
                },
            );
            Ok(())
        }
    }

    /// Places an opportunistic job.
    fn place_beside(
        &self,
        books: &mut Books,
        draft: &mut Draft<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), DraftError> {
        let part = Share::of(shape.share.fraction()).unwrap_or_default();
        let shape = Shape {
            share: part.overlapping(),
            ..shape.clone()
        };
        let view = draft.view();
        let mut by_type: SortedMap<GpuTypeId, Vec<(GpuId, &Node)>> = SortedMap::new();
        for node in view.nodes().filter(|node| suits(node, job, &shape, view)) {
            let open = with_room(draft, node, shape.share);
            let idle = open.filter(|gpu| books.load(*gpu) < self.limit);
            let all = by_type.entry(node.gpu_type()).or_default();
            all.extend(idle.map(|gpu| (gpu, node)));
        }
        let count = shape.gpus.get() as usize;
        let mut best: Option<(f64, Vec<GpuId>)> = None;
        for (_, mut gpus) in by_type {
            sort::by(&mut gpus, |a, b| {
                books.load(a.0).total_cmp(&books.load(b.0))
            });
            let mut left: SortedMap<NodeId, u32> = SortedMap::new();
            let mut taken = Vec::new();
            for (gpu, node) in gpus {
                let most = || most_with_resources(draft, node, &shape, shape.gpus.get());
                let left = left.entry(node.id()).or_insert_with(most);
                if *left > 0 && taken.len() < count {
                    *left -= 1;
                    taken.push(gpu);
                }
            }
            let load: f64 = taken.iter().map(|gpu| books.load(*gpu)).sum();
            let better = best.as_ref().is_none_or(|(least, _)| load < *least);
            if taken.len() == count && better {
                taken.sort_unstable();
                best = Some((load, taken));
            }
        }
        match best {
            Some((_, gpus)) => {
                books.count(job, &gpus);
                draft.assign(job.id(), shape.on(gpus.into_iter().collect()))
            }
            None => {
                let why = format!("finds too few GPUs with a load below {}", self.limit);
                draft.explain(job.id(), Reason::other(why));
                Ok(())
            }
        }
    }
}

/// Returns whether a job may be a guaranteed one.
fn is_entitled(job: &JobRef<'_>) -> bool {
    job.class() == Class::Guaranteed
}

fn asked(request: &Request) -> Option<&Shape> {
    request.shapes.first()
}

/// Returns the GPUs of a node with room for a share.
fn with_room(draft: &Draft<'_>, node: &Node, share: Share) -> impl Iterator<Item = GpuId> {
    let fits = draft
        .used_on(node.id())
        .filter(move |(_, used)| used.has_room(share));
    fits.map(|(gpu, _)| gpu)
}

/// Returns the GPUs that a guaranteed job could have now.
fn open<'a>(books: &Books, draft: &Draft<'a>, job: &JobRef<'_>, shape: &Shape) -> Vec<Open<'a>> {
    let view = draft.view();
    let nodes = view.nodes().filter(|node| suits(node, job, shape, view));
    let on = |node: &'a Node| {
        let room = with_room(draft, node, shape.share);
        let mut gpus: Vec<GpuId> = room.filter(|gpu| !books.reserved.contains(gpu)).collect();
        sort::by(&mut gpus, |a, b| books.load(*a).total_cmp(&books.load(*b)));
        Open { node, gpus }
    };
    nodes.filter(|node| node.is_usable()).map(on).collect()
}

/// Returns GPUs of one type on as few nodes as possible: enough, or the most that there are.
fn spread(draft: &Draft<'_>, open: &[Open<'_>], shape: &Shape) -> Vec<GpuId> {
    let needed = shape.gpus.get();
    let mut by_type: SortedMap<GpuTypeId, Vec<&[GpuId]>> = SortedMap::new();
    let mut could: SortedMap<GpuTypeId, u32> = SortedMap::new();
    for on in open {
        let most = most_with_resources(draft, on.node, shape, on.gpus.len() as u32);
        let gpus = &on.gpus[..most as usize];
        by_type.entry(on.node.gpu_type()).or_default().push(gpus);
        *could.entry(on.node.gpu_type()).or_default() += most_if_empty(on.node, shape);
    }
    let mut best: Vec<GpuId> = Vec::new();
    for (gpu_type, mut parts) in by_type {
        sort::by_key(&mut parts, |gpus| Reverse(gpus.len()));
        let gpus: Vec<GpuId> = parts.into_iter().flatten().copied().collect();
        let enough = could.get(&gpu_type).is_some_and(|most| *most >= needed);
        if enough && gpus.len() > best.len() && best.len() < needed as usize {
            best = gpus;
        }
    }
    best.truncate(needed as usize);
    best
}

impl Stateless for Opportunistic {}

impl PlacementPolicy for Opportunistic {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let view = draft.view();
        let all = requests.all(view);
        let mut books = Books::default();
        for (job, has) in draft.placed() {
            books.count(&job, &has.gpus);
            if let Some(quota) = self.quota.as_ref().filter(|_| !has.share.overlaps()) {
                let used = books.used.entry(quota.owner(&job)).or_default();
                *used += job.amount();
            }
        }
        for request in all.iter() {
            self.upgrade(&mut books, draft, request)?;
        }
        let mut beside = Vec::new();
        for request in all.iter() {
            let waits = draft.current(request.job).is_none() && draft.may_place(request.job);
            let job = view.job(request.job).filter(|_| waits);
            let Some((job, shape)) = job.zip(asked(request)) else {
                continue;
            };
            match is_entitled(&job) && self.admits(&mut books, draft, &job) {
                true => self.place_guaranteed(&mut books, draft, &job, shape)?,
                false => beside.push((job, shape)),
            }
        }
        for (job, shape) in beside {
            self.place_beside(&mut books, draft, &job, shape)?;
        }
        Ok(Validity::UntilEvent)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        room.of_one_type(job, shape, |room| room.anywhere(job, shape))
    }
}
