//! In-order placement: tries jobs one by one with a rule.

use super::laid_out::{find_laid_out, too_few_nodes};
use super::moving::{change, movable};
use super::near::Near;
use super::selector::{NodeSelector, Sealed, on_nodes, shape_of, suits};
use super::types::{could_find, trains};
use blox_core::{
    Answer, Assignment, Candidate, Draft, DraftError, GpuCount, GpuId, Gpus, JobId, JobQueue,
    JobRef, Place, PlacementPolicy, Reason, Request, Room, Shape, Stateless, Validity,
};
use smallvec::SmallVec;

/// Behavior when a job does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blocked {
    /// Placement ends: no job passes the first job that does not fit (head-of-line blocking).
    #[default]
    Stop,
    /// Later jobs are tried (aggressive backfill; large jobs can starve).
    Skip,
}

/// Places jobs in order by a rule.
///
/// If the scheduling policy preempts, a job that does not fit preempts later jobs, the last one
/// first. It does so only if they release enough GPUs. Victims whose GPUs are not needed in the end
/// keep running.
///
/// A request may name a running job. If its GPUs meet no shape of the request, the job moves. Jobs
/// that share its GPUs restart together with it.
///
/// If the rule works with any free GPUs ([`NodeSelector::takes_any`]), gangs without constraints are first
/// decided by count. They are placed once all running jobs are known, among all GPUs that are free
/// after preemption. This places them on fewer nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct InOrder<R> {
    rule: R,
    blocked: Blocked,
}

impl<R: NodeSelector> InOrder<R> {
    /// Creates in-order placement with a rule and head-of-line blocking.
    pub fn new(rule: R) -> Self {
        InOrder {
            rule,
            blocked: Blocked::Stop,
        }
    }

    /// Returns the placement with another behavior for jobs that do not fit.
    #[must_use]
    pub fn when_blocked(mut self, blocked: Blocked) -> Self {
        self.blocked = blocked;
        self
    }

    /// Serves the requests of a queue. The rule may borrow from the memory of a placement, such as
    /// a cache.
    ///
    /// ```
    /// use blox_core::{Answer, Assignment, Draft, GpuCount, JobQueue, JobRef, NodeId};
    /// use blox_core::{PlacementPolicy, Policy, Shape};
    /// use blox_policies::placement::{InOrder, NodeSelector, suits};
    ///
    /// /// Places jobs on the nodes with the least memory first, sorted once per decision.
    /// struct LeastMemory;
    ///
    /// struct Sorted<'c>(&'c [NodeId]);
    ///
    /// impl NodeSelector for Sorted<'_> {
    ///     fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
    ///         let cluster = draft.view().cluster();
    ///         let nodes = self.0.iter().filter_map(|id| cluster.node(*id));
    ///         let mut fitting = nodes.filter(|n| suits(n, job, shape, draft.view()));
    ///         let gpus = fitting.find_map(|n| draft.take_from(n.id(), shape.gpus.get()))?;
    ///         Some(shape.on(gpus)).filter(|found| draft.fits(job, found))
    ///     }
    /// }
    ///
    /// impl Policy for LeastMemory {
    ///     type Memory = Vec<NodeId>; // reused by each decision
    ///
    ///     fn initial(&self, _seed: u64) -> Vec<NodeId> {
    ///         Vec::new()
    ///     }
    /// }
    ///
    /// impl PlacementPolicy for LeastMemory {
    ///     fn place(
    ///         &self,
    ///         cache: &mut Vec<NodeId>,
    ///         queue: &mut JobQueue,
    ///         draft: &mut Draft<'_>,
    ///     ) -> Answer {
    ///         cache.clear();
    ///         cache.extend(draft.view().nodes().map(|n| n.id()));
    ///         let cluster = draft.view().cluster();
    ///         let memory = |id: &NodeId| cluster.node(*id).map_or(0.0, |n| n.spec().memory_gib);
    ///         cache.sort_by(|a, b| memory(a).total_cmp(&memory(b)));
    ///         InOrder::new(Sorted(cache)).serve(queue, draft)
    ///     }
    /// }
    /// # let scheduler = blox_core::Composition::new("least-memory")
    /// #     .scheduling(blox_policies::scheduling::Fifo::default())
    /// #     .placement(LeastMemory)
    /// #     .build();
    /// # assert!(scheduler.is_ok());
    /// ```
    ///
    /// # Errors
    /// The rule returned GPUs that are not free, or none although [`NodeSelector::takes_any`]
    /// promises some.
    pub fn serve(&self, requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let mut line = Line::new(&self.rule);
        let by_count = self.rule.takes_any();
        let mut blocked = None;
        loop {
            // Matched by reference: moving the candidate right after writing it is slow.
            let next = draft.next_in_line(requests);
            let Some(next) = &next else { break };
            let (job, fits) = match next {
                Candidate::Gang(job) if by_count => {
                    (job.id(), line.counts_in(job, requests, draft)?)
                }
                Candidate::Gang(job) => {
                    let request = Request::gang(job);
                    (job.id(), line.serves(&request, requests, draft)?)
                }
                Candidate::Request(request) => {
                    line.place_counted(draft)?;
                    (request.job, line.serves(request, requests, draft)?)
                }
                Candidate::Moving(request) => {
                    moves(&self.rule, request, draft)?;
                    continue;
                }
            };
            if fits {
                draft.candidate_placed(requests);
                continue;
            }
            let free = draft.free_gpus().saturating_sub(line.reserved);
            let why = match next {
                Candidate::Gang(job) => shortage_among(job.amount(), GpuCount(free).into()),
                Candidate::Request(request) | Candidate::Moving(request) => {
                    shortage(request, draft)
                }
            };
            let counted = by_count && matches!(next, Candidate::Gang(_));
            if self.blocked == Blocked::Skip && (counted || self.rule.is_alike()) {
                draft.explain(job, why.clone());
                draft.candidate_blocked_alike(requests, why);
            } else {
                draft.explain(job, why);
                draft.candidate_blocked(requests);
            }
            blocked.get_or_insert(job);
            let hopeless = free == 0
                && !requests.preemption_allowed()
                && draft.free_amount() == Gpus::default();
            if self.blocked == Blocked::Stop || hopeless {
                break;
            }
        }
        line.place_counted(draft)?;
        if let Some(head) = blocked {
            draft.explain_rest(match self.blocked {
                Blocked::Stop => Reason::BehindHead(head),
                Blocked::Skip => Reason::NoFreeGpus,
            });
        }
        Ok(Validity::UntilEvent)
    }
}

impl<R: NodeSelector + Send + Sync + 'static> Stateless for InOrder<R> {}

impl<R: NodeSelector + Send + Sync + 'static> PlacementPolicy for InOrder<R> {
    #[inline]
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        self.serve(requests, draft)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        could_find(&self.rule, room, job, shape)
    }

    fn keeps_nodes(&self, _: u32) -> bool {
        true
    }
}

/// Places a request on free GPUs with its first shape that fits.
#[inline]
pub(crate) fn place_in_free<R: NodeSelector + ?Sized>(
    rule: &R,
    request: &Request,
    draft: &mut Draft<'_>,
) -> Result<bool, DraftError> {
    if draft.free_gpus() < least_free(request) {
        return Ok(false);
    }
    place_by_shapes(rule, request, draft)
}

/// Number of free GPUs below which no shape of the request fits.
#[inline]
fn least_free(request: &Request) -> u32 {
    least_of(request, |s| match s.place {
        Place::Nodes(_) => 0,
        _ if !s.share.is_whole() => 0,
        _ => s.gpus.get(),
    })
    .unwrap_or(u32::MAX)
}

/// Smallest need of the shapes of a request.
#[inline]
fn least_of(request: &Request, needs: impl Fn(&Shape) -> u32) -> Option<u32> {
    match &request.shapes[..] {
        [shape] => Some(needs(shape)),
        shapes => shapes.iter().map(needs).min(),
    }
}

/// Places a request with its first shape that fits.
#[inline]
fn place_by_shapes<R: NodeSelector + ?Sized>(
    rule: &R,
    request: &Request,
    draft: &mut Draft<'_>,
) -> Result<bool, DraftError> {
    let Some(job) = draft.view().job(request.job) else {
        return Ok(false);
    };
    let placed = place_in_view(rule, &job, request, draft);
    draft.widen();
    placed
}

fn place_in_view<R: NodeSelector + ?Sized>(
    rule: &R,
    job: &JobRef<'_>,
    request: &Request,
    draft: &mut Draft<'_>,
) -> Result<bool, DraftError> {
    let free = draft.free_gpus();
    let alone = request.guests().is_empty();
    for shape in &request.shapes {
        // A rule that ignores GPU types must see only types that the job and the shape accept.
        draft.narrow_to(job, shape);
        let found = match &shape.place {
            Place::Nodes(nodes) if nodes.is_empty() => None,
            Place::Nodes(nodes) => on_nodes(draft, nodes, shape).filter(|found| {
                let limit = job.node_limit();
                limit.is_none_or(|limit| draft.view().cluster().meets(limit, &found.gpus))
            }),
            Place::Near(other) if draft.current(*other).is_some() => {
                find_laid_out(&Near(*other), draft, job, shape)
            }
            _ if free < shape.gpus.get() && shape.share.is_whole() => None,
            _ => {
                if alone
                    && shape.share.is_whole()
                    && !trains(job)
                    && job.node_limit().is_none()
                    && let Some(nodes) = rule.nodes(draft, job, shape, Sealed)
                    && draft.assign_on(request.job, &nodes, shape)?
                {
                    return Ok(true);
                }
                find_laid_out(rule, draft, job, shape)
            }
        };
        if let Some(assignment) = found {
            draft.assign(request.job, assignment)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Places a request on free GPUs, or states why it cannot.
pub(super) fn place_or_explain<R: NodeSelector + ?Sized>(
    rule: &R,
    request: &Request,
    draft: &mut Draft<'_>,
) -> Result<bool, DraftError> {
    let placed = place_in_free(rule, request, draft)?;
    if !placed {
        let why = shortage(request, draft);
        draft.explain(request.job, why);
    }
    Ok(placed)
}

/// Returns the reason why a request could not be placed.
pub fn shortage(request: &Request, draft: &Draft<'_>) -> Reason {
    let needed = least_gpus(request);
    let why = match request.shapes.iter().all(|s| s.share.is_whole()) {
        true => shortage_of_gpus(needed, draft),
        false => shortage_among(needed, draft.free_amount()),
    };
    let nodes = || too_few_nodes(&draft.view().job(request.job)?);
    match why {
        Reason::Fragmented { .. } => nodes().unwrap_or(why),
        _ => why,
    }
}

/// The fewest GPUs of a shape of the request.
fn least_gpus(request: &Request) -> Gpus {
    let shapes = request.shapes.iter();
    shapes.map(Shape::amount).min().unwrap_or_default()
}

/// Returns the reason why `needed` GPUs could not be placed.
pub(crate) fn shortage_of_gpus(needed: Gpus, draft: &Draft<'_>) -> Reason {
    shortage_among(needed, GpuCount(draft.free_gpus()).into())
}

/// Returns the reason why `needed` GPUs could not be placed while `free` GPUs are free.
pub(super) fn shortage_among(needed: Gpus, free: Gpus) -> Reason {
    if free < needed {
        Reason::TooFewGpus { needed, free }
    } else {
        Reason::Fragmented { needed, free }
    }
}

/// State of a placement that serves jobs in order.
struct Line<'r, 'a, R> {
    rule: &'r R,
    victims: Victims,
    /// Jobs for which enough GPUs are reserved by count, but that are not placed yet.
    counted: SmallVec<[JobRef<'a>; 32]>,
    /// GPUs reserved for the counted jobs.
    reserved: u32,
}

impl<'r, 'a, R: NodeSelector> Line<'r, 'a, R> {
    fn new(rule: &'r R) -> Self {
        Line {
            rule,
            victims: Victims::default(),
            counted: SmallVec::new(),
            reserved: 0,
        }
    }

    /// Places a request on free GPUs, or on GPUs of later jobs.
    fn serves(
        &mut self,
        request: &Request,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<bool, DraftError> {
        if place_in_free(self.rule, request, draft)? {
            return Ok(true);
        }
        let needed = least_of(request, |s| s.gpus.get()).unwrap_or(0);
        if self.victims.find(needed, requests, draft).is_none() {
            return Ok(false);
        }
        let rule = self.rule;
        let mut fits = |draft: &mut Draft<'_>| place_by_shapes(rule, request, draft);
        let released = self
            .victims
            .release_until(&mut fits, request.job, requests, draft)?;
        if released {
            self.victims.spare_unneeded(draft);
        }
        Ok(released)
    }

    /// Reserves GPUs by count for a job without constraints: free GPUs, or GPUs of later jobs. The
    /// concrete GPUs are chosen later.
    fn counts_in(
        &mut self,
        job: &JobRef<'a>,
        requests: &mut JobQueue,
        draft: &mut Draft<'a>,
    ) -> Result<bool, DraftError> {
        let wanted = self.reserved.saturating_add(job.gpus().get());
        if draft.free_gpus() < wanted
            && !self.victims.make_room(job.id(), wanted, requests, draft)?
        {
            return Ok(false);
        }
        self.counted.push(*job);
        self.reserved = wanted;
        Ok(true)
    }

    /// Places the counted jobs in order.
    fn place_counted(&mut self, draft: &mut Draft<'_>) -> Result<(), DraftError> {
        let mut gang = Shape::default();
        for job in self.counted.drain(..) {
            gang.gpus = job.gpus();
            let nodes = self.rule.nodes(draft, &job, &gang, Sealed);
            if let Some(nodes) = &nodes
                && draft.assign_on(job.id(), nodes, &gang)?
            {
                continue;
            }
            // A rule that finds no GPUs here must not return true from `takes_any`.
            let found = self.rule.find(draft, &job, &gang);
            draft.assign(job.id(), found.ok_or(DraftError::NoGpu(job.id()))?)?;
        }
        self.reserved = 0;
        Ok(())
    }
}

/// Later jobs that are preempted for a job. No rule occurs here, so that the code is compiled once
/// for all rules.
#[derive(Default)]
struct Victims {
    /// Victims of the current job, each with its number of GPUs.
    jobs: SmallVec<[(JobId, u32); 16]>,
}

impl Victims {
    /// Preempts later jobs until `wanted` GPUs are free.
    #[inline]
    fn make_room(
        &mut self,
        job: JobId,
        wanted: u32,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<bool, DraftError> {
        let within_reach = self.find(wanted, requests, draft);
        match within_reach.and_then(|all| all.checked_sub(wanted)) {
            Some(rest) => self.release_all_but(rest, job, wanted, requests, draft),
            None => Ok(false),
        }
    }

    /// Releases the victims until `wanted` GPUs are free. They have `rest` GPUs more than needed.
    fn release_all_but(
        &mut self,
        mut rest: u32,
        job: JobId,
        wanted: u32,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<bool, DraftError> {
        // A job with no more GPUs than the surplus is not a victim. The victim that comes first in
        // the order is spared first.
        let start = draft.savepoint();
        for (_, has) in self.jobs.iter_mut().rev() {
            if (1..=rest).contains(has) {
                rest -= *has;
                *has = 0;
            }
        }
        for &(victim, _) in self.jobs.iter().filter(|(_, has)| *has > 0) {
            draft.release(victim, Reason::PreemptedFor(job))?;
        }
        if draft.free_gpus() >= wanted {
            return Ok(true);
        }
        draft.rollback(start);
        self.make_room_by_trial(job, wanted, requests, draft)
    }

    /// Handles the case that victims release fewer GPUs than they have.
    #[cold]
    fn make_room_by_trial(
        &mut self,
        job: JobId,
        wanted: u32,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<bool, DraftError> {
        let mut enough = |draft: &mut Draft<'_>| Ok(draft.free_gpus() >= wanted);
        if !self.release_until(&mut enough, job, requests, draft)? {
            return Ok(false);
        }
        for &(victim, _) in self.jobs.iter().rev() {
            let before = draft.savepoint();
            let spared = draft.spare(victim).is_ok();
            if spared && draft.free_gpus() < wanted {
                draft.rollback(before);
            }
        }
        Ok(true)
    }

    /// Releases the victims, then further victims one by one, until the job fits. Returns `false`,
    /// without any change, if the job does not fit even then.
    fn release_until(
        &mut self,
        fits: &mut dyn FnMut(&mut Draft<'_>) -> Result<bool, DraftError>,
        by: JobId,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Result<bool, DraftError> {
        let start = draft.savepoint();
        for &(victim, _) in &self.jobs {
            draft.release(victim, Reason::PreemptedFor(by))?;
        }
        while !fits(draft)? {
            let Some((victim, _)) = draft.next_victim(requests) else {
                draft.rollback(start);
                return Ok(false);
            };
            draft.release(victim, Reason::PreemptedFor(by))?;
            self.jobs.push((victim, 0));
        }
        Ok(true)
    }

    /// Finds victims that have enough GPUs together with the free ones, and returns the sum of
    /// both. It only counts: most waiting jobs need more than all victims have.
    fn find(&mut self, needed: u32, requests: &mut JobQueue, draft: &mut Draft<'_>) -> Option<u32> {
        if !requests.preemption_allowed() {
            return None;
        }
        self.jobs.clear();
        let mut within_reach = draft.free_gpus();
        while within_reach < needed {
            let (victim, has) = draft.next_victim(requests)?;
            within_reach += has.get();
            self.jobs.push((victim, has.get()));
        }
        Some(within_reach)
    }

    /// Lets victims keep their GPUs if the job does not need them. The victim that comes first in
    /// the order is spared first.
    fn spare_unneeded(&self, draft: &mut Draft<'_>) {
        for &(victim, _) in self.jobs.iter().rev() {
            if draft.free_gpus() == 0 {
                break;
            }
            let _still_needed = draft.spare(victim);
        }
    }
}

/// Places a running job again with the first shape that fits, on its own and free GPUs. If no shape
/// fits, the job keeps its GPUs. Jobs that share its GPUs move with it.
#[cold]
fn moves(
    rule: &dyn NodeSelector,
    request: &Request,
    draft: &mut Draft<'_>,
) -> Result<(), DraftError> {
    let Some(has) = movable(draft, request.job) else {
        return Ok(());
    };
    let others = draft.companions(request.job);
    let with_config = |shape: &&Shape| !shape.config.is_none() && shape.config != has.config;
    for shape in request.shapes.iter().filter(with_config) {
        // A new batch alone may meet the shape.
        let to = Assignment {
            config: shape.config.clone(),
            ..has.clone()
        };
        if draft.meets(&to, shape) {
            return draft.reassign(request.job, to);
        }
    }
    for shape in &request.shapes {
        let alone = Request::with_shape(request.job, shape.clone());
        let moved = match others.is_empty() {
            true => moves_alone(rule, &alone, draft)?,
            false => moves_with(rule, &alone, &others, draft)?,
        };
        if moved {
            break;
        }
    }
    Ok(())
}

/// Changes the GPUs of a job in place to those that the rule finds for a request. Returns false,
/// without any change, if no GPUs fit.
pub(super) fn moves_alone(
    rule: &dyn NodeSelector,
    request: &Request,
    draft: &mut Draft<'_>,
) -> Result<bool, DraftError> {
    change(draft, request.job, |draft| {
        let placed = place_in_free(rule, request, draft)?;
        Ok(draft.current(request.job).filter(|_| placed).cloned())
    })
}

/// Stops a job and the jobs that share its GPUs, and restarts them together on other GPUs. Returns
/// false, without any change, if one of them does not fit, or shares GPUs with yet another job.
fn moves_with(
    rule: &dyn NodeSelector,
    request: &Request,
    others: &[JobId],
    draft: &mut Draft<'_>,
) -> Result<bool, DraftError> {
    let mut followers = Vec::with_capacity(others.len());
    for &other in others {
        let (Some(its), Some(job)) = (movable(draft, other), draft.view().job(other)) else {
            return Ok(false);
        };
        let in_group = |third: JobId| third == request.job || others.contains(&third);
        if !draft.companions(other).into_iter().all(in_group) {
            return Ok(false);
        }
        let shape = shape_of(&its).with(its.config.clone());
        followers.push((job, shape));
    }
    let start = draft.savepoint();
    let why = || Reason::other("moves together with the jobs on its GPUs");
    draft.release(request.job, why())?;
    for (job, _) in &followers {
        draft.release(job.id(), why())?;
    }
    let mut fits = place_in_free(rule, request, draft)?;
    for (job, shape) in &followers {
        let beside = match fits {
            true => draft.beside(request.job, job, shape),
            false => None,
        };
        let view = draft.view();
        let suited = |gpu: &GpuId| {
            let node = view.cluster().node_of(*gpu).and_then(|id| view.node(id));
            node.is_some_and(|node| suits(node, job, shape, view))
        };
        let beside = beside.filter(|beside| beside.gpus.iter().all(suited));
        fits = beside.is_some();
        if let Some(beside) = beside {
            draft.assign(job.id(), beside)?;
        }
    }
    if !fits {
        draft.rollback(start);
    }
    Ok(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Consolidated;
    use blox_core::NodeId;
    use blox_core::decision::Action;
    use blox_core::order::SortKey;
    use blox_core::policy::{by_key, scheduling_fn};
    use blox_core::runtime::Runtime;
    use blox_core::{
        ClusterSpec, Composition, Event, GpuId, JobSpec, Pipeline, Rounds, Seconds, State, Time,
    };
    use std::sync::Arc;

    /// Run in which short jobs come first and preempt longer ones.
    struct Run {
        core: Runtime,
        policy: Pipeline,
        jobs: u32,
    }

    impl Run {
        fn on(nodes: usize, gpus: u32, blocked: Blocked) -> Self {
            let rounds = Rounds::every(Seconds::new(300.0)).unwrap();
            let state = State::new(&ClusterSpec::uniform(nodes, gpus)).unwrap();
            let by_length = by_key(|job| SortKey::by(job.truth().duration().secs()));
            Run {
                core: Runtime::new(state, Box::new(rounds)),
                policy: Composition::new("shortest")
                    .scheduling(by_length.preemptive())
                    .placement(InOrder::new(Consolidated::default()).when_blocked(blocked))
                    .build()
                    .unwrap(),
                jobs: 0,
            }
        }

        /// Submits jobs of these GPUs and hours, and returns the stopped and the placed jobs.
        fn round(&mut self, at: f64, jobs: &[(u32, f64)]) -> (Vec<u32>, Vec<(u32, Vec<u32>)>) {
            let at = Time::new(at);
            for &(gpus, hours) in jobs {
                let spec = JobSpec::new(at, GpuCount(gpus), Seconds::from_hours(hours));
                let event = Event::Submitted {
                    job: JobId(self.jobs),
                    spec: Arc::new(spec),
                };
                self.jobs += 1;
                self.core.event(at, &event, &mut self.policy).unwrap();
            }
            self.core.decide(at, &mut self.policy).unwrap();
            let (stops, places) = steps(&self.core.decision().plan.actions);
            let alone = |(job, gpus, _)| (job, gpus);
            (stops, places.into_iter().map(alone).collect())
        }
    }

    /// Runs a job of two GPUs on the first node and a job of one GPU on the second node. Then
    /// requests the jobs as `asks` returns, and returns the steps of the second decision.
    fn second_decision(
        asks: impl Fn(&JobRef<'_>) -> Option<Request> + Send + Sync + 'static,
    ) -> Vec<Action> {
        let apart = [on(&[(0, 2)]), on(&[(1, 1)])];
        let apart = apart.into_iter().zip([JobId(0), JobId(1)]);
        let apart = apart.map(|(shape, job)| Request::with_shape(job, shape));
        second_decision_after(apart.collect(), asks)
    }

    /// Like [`second_decision`], with the requests of the first decision.
    fn second_decision_after(
        first: Vec<Request>,
        asks: impl Fn(&JobRef<'_>) -> Option<Request> + Send + Sync + 'static,
    ) -> Vec<Action> {
        let cluster = ClusterSpec::uniform(2, 4);
        let mut core = Runtime::new(
            State::new(&cluster).unwrap(),
            Box::new(Rounds::every(Seconds::new(300.0)).unwrap()),
        );
        let scheduling = scheduling_fn(move |view, out| {
            let requests = match view.now() == Time::ZERO {
                true => first.clone(),
                false => view.active().filter_map(|job| asks(&job)).collect(),
            };
            requests.into_iter().for_each(|request| out.push(request));
            Validity::NextRound
        });
        let mut policy = Composition::new("moving")
            .scheduling(scheduling)
            .placement(InOrder::new(Consolidated::default()))
            .build()
            .unwrap();
        for (id, gpus) in [(0, 2), (1, 1)] {
            let spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::from_hours(9.0));
            let (job, spec) = (JobId(id), Arc::new(spec));
            let event = Event::Submitted { job, spec };
            core.event(Time::ZERO, &event, &mut policy).unwrap();
        }
        core.decide(Time::ZERO, &mut policy).unwrap();
        assert_eq!(core.decision().plan.actions.len(), 2);
        for job in [JobId(0), JobId(1)] {
            let (attempt, rate) = (1, 1.0);
            let event = Event::Started { job, attempt, rate };
            core.event(Time::new(1.0), &event, &mut policy).unwrap();
        }
        core.decide(Time::new(300.0), &mut policy).unwrap();
        core.decision().plan.actions.clone()
    }

    fn place(job: u32, gpus: &[u32]) -> Action {
        Action::Place {
            job: JobId(job),
            assignment: Assignment::of(gpus.iter().map(|g| GpuId(*g)).collect::<Vec<_>>()),
        }
    }

    fn asks_for(job: u32, shape: Shape) -> impl Fn(&JobRef<'_>) -> Option<Request> {
        move |j| (j.id().0 == job).then(|| Request::with_shape(j.id(), shape.clone()))
    }

    #[test]
    fn running_job_whose_shape_is_met_stays() {
        for place in [Place::Any, Place::Consolidated, Place::Near(JobId(1))] {
            let shape = Shape {
                place,
                ..Shape::gpus(GpuCount(2))
            };
            assert_eq!(second_decision(asks_for(0, shape)), []);
        }
        // The first request of a job counts, and one shape is enough.
        let levels = |j: &JobRef<'_>| {
            let mut request = Request::gang(j);
            request.shapes.insert(0, Shape::gpus(GpuCount(3)));
            Some(request)
        };
        assert_eq!(second_decision(levels), []);
    }

    #[test]
    fn running_job_moves_to_the_nodes_of_its_request() {
        let place_on = |nodes: Vec<(NodeId, u32)>| Shape {
            place: Place::Nodes(nodes),
            ..Shape::gpus(GpuCount(2))
        };
        let moved = second_decision(asks_for(0, place_on(vec![(NodeId(1), 2)])));
        assert_eq!(moved, [place(0, &[5, 6])]);
        // The job may keep some of its GPUs.
        let moved = second_decision(asks_for(0, place_on(vec![(NodeId(0), 1), (NodeId(1), 1)])));
        assert_eq!(moved, [place(0, &[0, 5])]);
        // The second node has no four free GPUs, so the job keeps its GPUs.
        let crowded = Shape {
            gpus: GpuCount(4),
            ..place_on(vec![(NodeId(1), 4)])
        };
        assert_eq!(second_decision(asks_for(0, crowded)), []);
    }

    #[test]
    fn running_job_grows_and_shrinks_by_its_request() {
        let grown = second_decision(asks_for(0, Shape::gpus(GpuCount(4))));
        assert_eq!(grown, [place(0, &[0, 1, 2, 3])]);
        let shrunk = second_decision(asks_for(0, Shape::gpus(GpuCount(1))));
        assert!(
            matches!(&shrunk[..], [Action::Place { job: JobId(0), assignment }]
            if assignment.count() == GpuCount(1))
        );
        assert_eq!(second_decision(asks_for(0, Shape::gpus(GpuCount(9)))), []);
    }

    #[test]
    fn running_job_changes_its_batch_where_it_is() {
        let config = blox_core::Config::of([("tp", 2.0)]);
        let shape = Shape::gpus(GpuCount(2)).with(config.clone());
        let changed = second_decision(asks_for(0, shape));
        let [Action::Place { assignment, .. }] = &changed[..] else {
            panic!("{changed:?}");
        };
        assert_eq!(
            (&assignment.config, &assignment.gpus[..]),
            (&config, &[GpuId(0), GpuId(1)][..])
        );
    }

    /// Requests the second job on one of the two GPUs of the first.
    fn packed() -> Vec<Request> {
        vec![Request::with_shape(JobId(0), on(&[(0, 2)])).beside(JobId(1))]
    }

    /// Returns the jobs that a plan stops, and the jobs that it places with their GPUs. True if the
    /// share overlaps.
    type Steps = (Vec<u32>, Vec<(u32, Vec<u32>, bool)>);

    fn steps(plan: &[Action]) -> Steps {
        let (mut stops, mut places) = (Vec::new(), Vec::new());
        for action in plan {
            match action {
                Action::Stop { job, .. } => stops.push(job.0),
                Action::Place { job, assignment } => places.push((
                    job.0,
                    assignment.gpus.iter().map(|g| g.0).collect(),
                    assignment.share.overlaps(),
                )),
                other => panic!("{other:?}"),
            }
        }
        (stops, places)
    }

    fn on(nodes: &[(u32, u32)]) -> Shape {
        let gpus = nodes.iter().map(|(_, gpus)| gpus).sum();
        let nodes = nodes.iter().map(|&(node, gpus)| (NodeId(node), gpus));
        Shape {
            place: Place::Nodes(nodes.collect()),
            ..Shape::gpus(GpuCount(gpus))
        }
    }

    #[test]
    fn running_pair_restarts_together_on_requested_nodes() {
        // The second overlaps the first.
        let moved = second_decision_after(packed(), asks_for(0, on(&[(1, 2)])));
        let first = (0, vec![4, 5], false);
        let second = (1, vec![4], true);
        assert_eq!(steps(&moved), (vec![0, 1], vec![first, second]));
        // The pair may keep some of its GPUs.
        let moved = second_decision_after(packed(), asks_for(0, on(&[(0, 1), (1, 1)])));
        let first = (0, vec![0, 4], false);
        let second = (1, vec![0], true);
        assert_eq!(steps(&moved), (vec![0, 1], vec![first, second]));
    }

    #[test]
    fn running_pair_stays_if_one_of_them_does_not_fit() {
        // The first job has two GPUs, and only one beside the second.
        let stays = second_decision_after(packed(), asks_for(1, on(&[(1, 1)])));
        assert_eq!(stays, []);
        // The second shape has room for both.
        let levels = |job: &JobRef<'_>| {
            let mut request = Request::with_shape(job.id(), on(&[(1, 1)]));
            request.shapes.push(on(&[(1, 2)]));
            (job.id().0 == 1).then_some(request)
        };
        let moved = second_decision_after(packed(), levels);
        let first = (1, vec![4, 5], false);
        let second = (0, vec![4, 5], true);
        assert_eq!(steps(&moved), (vec![1, 0], vec![first, second]));
    }

    #[test]
    fn job_of_a_pair_changes_its_batch_where_it_is() {
        let config = blox_core::Config::of([("tp", 2.0)]);
        let shape = Shape::gpus(GpuCount(1)).with(config.clone());
        let changed = second_decision_after(packed(), asks_for(1, shape));
        assert_eq!(steps(&changed), (vec![], vec![(1, vec![0], true)]));
    }

    #[test]
    fn victims_are_chosen_before_any_job_is_placed() {
        let mut run = Run::on(2, 2, Blocked::Stop);
        let first = run.round(0.0, &[(1, 100.0), (1, 3.0)]);
        assert_eq!(first.1, [(1, vec![0]), (0, vec![1])]);
        let second = run.round(300.0, &[(1, 90.0), (1, 4.0)]);
        assert_eq!(second.1, [(3, vec![2]), (2, vec![3])]);
        // The first two victims use two nodes. The gang gets one: later preemptions free a whole
        // node.
        let (stops, places) = run.round(600.0, &[(2, 0.5), (1, 1.0), (1, 2.0)]);
        assert_eq!(stops, [0, 2, 3, 1]);
        assert_eq!(places, [(4, vec![0, 1]), (5, vec![2]), (6, vec![3])]);
    }

    #[test]
    fn blocked_gang_waits_while_other_jobs_are_skipped() {
        let mut run = Run::on(2, 2, Blocked::Skip);
        run.round(0.0, &[(1, 100.0), (1, 3.0)]);
        run.round(300.0, &[(1, 90.0), (1, 4.0)]);
        // The gang has victims on two nodes, the next job does not fit, the last job frees a node.
        let (stops, places) = run.round(600.0, &[(2, 0.5), (4, 3.5), (1, 3.8)]);
        assert_eq!(stops, [0, 2, 3]);
        assert_eq!(places, [(4, vec![2, 3]), (6, vec![1])]);
        let why = run.core.decision().plan.reason_for(JobId(5), GpuCount(4));
        let (needed, free) = (GpuCount(4).into(), Gpus::default());
        assert_eq!(*why, Reason::TooFewGpus { needed, free });
    }

    #[test]
    fn victim_no_larger_than_the_leftover_keeps_running() {
        let mut run = Run::on(1, 4, Blocked::Stop);
        let first = run.round(0.0, &[(1, 100.0), (3, 90.0)]);
        assert_eq!(first.1, [(1, vec![0, 1, 2]), (0, vec![3])]);
        let (stops, places) = run.round(300.0, &[(2, 1.0)]);
        assert_eq!((stops, places), (vec![1], vec![(2, vec![0, 1])]));
    }

    #[test]
    fn victims_on_a_cordoned_node_make_no_room() {
        let mut run = Run::on(2, 2, Blocked::Stop);
        run.round(0.0, &[(2, 100.0), (1, 90.0), (1, 80.0)]);
        let node = NodeId(1);
        let why = "maintenance".into();
        let event = Event::NodeManaged {
            action: blox_core::NodeAction::Cordon { node, why },
        };
        let at = Time::new(1.0);
        run.core.event(at, &event, &mut run.policy).unwrap();
        // The last job in the order is tried without effect and keeps running; both jobs on the
        // other node stop.
        let (stops, places) = run.round(300.0, &[(2, 1.0)]);
        assert_eq!((stops, places), (vec![1, 2], vec![(3, vec![0, 1])]));
    }
}
