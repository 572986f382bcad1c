//! A tree of queues with quotas, borrowing and reclaim.

use blox_core::{
    Answer, Gpus, JobQueue, JobRef, NameId, Reason, Request, SchedulingPolicy, Shape, Shapes,
    SortedMap, Validity, View, forward_policy, sort,
};

/// A queue of a [`QuotaTree`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Name: the virtual cluster of its jobs.
    pub name: String,
    /// Guaranteed GPUs, which it reclaims from borrowers.
    pub quota: Gpus,
    /// Maximum number of GPUs at a time, borrowed GPUs included.
    pub most: Gpus,
    /// Index of its parent queue in the list. The parent must come before it.
    pub parent: Option<usize>,
}

/// Quotas with borrowing and reclaim, around any job order (the capacity scheduler of Hadoop, and
/// Kueue's cohorts).
///
/// A queue may use idle GPUs of others up to its limit. A job within the quota of its own queue
/// comes first, then a job within the quota of the parent queue, and so on. A job that borrows from
/// the whole cluster comes last. A job preempts jobs that come after it. Jobs of one level keep the
/// order of the inner policy. If the inner policy does not preempt, running jobs come first.
///
/// A job's queue is its virtual cluster. A job without a queue borrows. Parts of GPUs count as parts.
#[derive(Clone, Debug)]
pub struct QuotaTree<P> {
    inner: P,
    queues: Vec<Queue>,
}

impl<P> QuotaTree<P> {
    /// Wraps a policy. A parent must come before its queues.
    pub fn new(inner: P, queues: Vec<Queue>) -> Self {
        QuotaTree { inner, queues }
    }

    /// Returns the queue of a job and its ancestors, starting with the job's own queue.
    fn path(&self, view: View<'_>, job: &JobRef<'_>) -> Vec<usize> {
        let name = job.virtual_cluster().and_then(|id| view.names().get(id));
        let own = name.and_then(|n| self.queues.iter().position(|q| q.name == n.as_str()));
        std::iter::successors(own, |at| self.queues[*at].parent.filter(|p| p < at)).collect()
    }

    /// Returns the queue whose limit the job would exceed, if any.
    fn above_limit(&self, path: &[usize], used: &[Gpus], gpus: Gpus) -> Option<usize> {
        let full = |at: &&usize| used[**at] + gpus > self.queues[**at].most;
        path.iter().find(full).copied()
    }
}

/// A request that has no turn yet.
struct Open {
    /// Its index in the answer of the inner policy.
    at: usize,
    /// Index of the path of its job.
    path: usize,
    gpus: Gpus,
}

forward_policy!(QuotaTree<P: SchedulingPolicy>, inner);

impl<P: SchedulingPolicy> SchedulingPolicy for QuotaTree<P> {
    fn schedule(&self, memory: &mut P::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        self.inner.schedule(memory, view, out)?;
        out.stop_unlisted();
        if self.queues.is_empty() {
            return Ok(Validity::NextRound);
        }
        let mut all = out.all(view).into_owned();
        let mut paths: Vec<Vec<usize>> = Vec::new();
        let mut path_of: SortedMap<Option<NameId>, usize> = SortedMap::new();
        let mut open: Vec<Open> = Vec::with_capacity(all.len());
        for (at, request) in all.iter().enumerate() {
            let Some(job) = view.job(request.job) else {
                continue;
            };
            let gpus = request
                .shapes
                .first()
                .map_or(job.amount(), |s| Gpus::of(s.gpus, s.share));
            let path = *path_of.entry(job.virtual_cluster()).or_insert_with(|| {
                paths.push(self.path(view, &job));
                paths.len() - 1
            });
            open.push(Open { at, path, gpus });
        }
        if !out.preemption_allowed() {
            sort::by_key(&mut open, |o| {
                let job = view.job(all[o.at].job);
                job.is_none_or(|job| !job.is_placed())
            });
        }
        let mut order = Vec::new();
        let mut used = vec![Gpus::default(); self.queues.len()];
        let levels = paths.iter().map(Vec::len).max().unwrap_or(0);
        for level in 0..=levels {
            open.retain(|&Open { at, path, gpus }| {
                let path = &paths[path];
                let within = match path.get(level) {
                    Some(queue) => used[*queue] + gpus <= self.queues[*queue].quota,
                    None => level == levels,
                };
                let full = self.above_limit(path, &used, gpus);
                if let (true, Some(queue)) = (level == levels, full) {
                    let Queue { name, most, .. } = &self.queues[queue];
                    let why = format!("queue {name} is at its limit of {most} GPUs");
                    out.explain(all[at].job, Reason::other(why));
                }
                let comes = within && full.is_none();
                if comes {
                    path.iter().for_each(|queue| used[*queue] += gpus);
                    let nothing = Request::with_shape(all[at].job, Shape::default());
                    order.push(std::mem::replace(&mut all[at], nothing));
                }
                !comes
            });
        }
        out.replace(order);
        out.allow_preemption();
        Ok(Validity::NextRound)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        let mut shapes = self.inner.could_request(view, job)?;
        let path = self.path(view, job);
        let Some(tightest) = path
            .iter()
            .map(|at| &self.queues[*at])
            .min_by_key(|q| q.most)
        else {
            return Ok(shapes);
        };
        let amount = |shape: &Shape| Gpus::of(shape.gpus, shape.share);
        let least = shapes.iter().map(amount).min().unwrap_or_default();
        let limit = tightest.most;
        shapes.retain(|shape| amount(shape) <= limit);
        match shapes.is_empty() {
            true => Err(Reason::above_limit(
                least,
                limit,
                format!("queue {}", tightest.name),
            )),
            false => Ok(shapes),
        }
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.inner.keeps_nodes(nodes)
    }
}
