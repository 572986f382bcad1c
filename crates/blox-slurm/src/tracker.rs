//! The machine between a scheduler's state and Slurm: what Slurm shows becomes events, and what the
//! state wants becomes orders. It performs no input or output.
//!
//! Slurm is right: where both differ, the state follows. Orders are derived anew from each snapshot,
//! so an order that was lost is repeated, and a restart of either side needs no protocol.
//!
//! | phase in the state | Slurm shows | effect |
//! |---|---|---|
//! | submitted, deferred, waiting | held | none |
//! | | queued, running | released by hand: the job leaves the scheduler |
//! | starting | held | order: start on the bound nodes |
//! | | held again and again | after the launch limit the launch failed |
//! | | queued | after the launch limit, or if others have the GPUs: order: hold; then the launch failed |
//! | | running on the bound nodes | started; GPUs beyond the plan count as taken by others |
//! | | running elsewhere | order: requeue; then the launch failed |
//! | running | suspended | progress at rate 0 |
//! | | restarted by Slurm | order: hold or requeue; then crashed |
//! | stopping | running | order: requeue |
//! | | held | stopped |
//! | any | over | ended |
//! | any | gone for several snapshots | ended |

use crate::job::{JobInfo, JobState};
use crate::node::{Health, NodeInfo};
use crate::order::Order;
use crate::spec::{MARK, is_marked, number_of, spec_of};
use blox_core::{
    Event, GpuId, JobId, JobRef, Name, Node, NodeAction, NodeId, NodeStatus, Outcome, Phase,
    Reason, Seconds, Time, View,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The jobs and nodes of a tracker, and its limits of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    /// Only nodes and jobs of this partition; `None` for all.
    pub partition: Option<String>,
    /// Only jobs of this user; `None` for all.
    pub user: Option<String>,
    /// Longest time from an order to start until the job runs.
    pub launch: Seconds,
    /// Time after which an order without effect is repeated.
    pub repeat: Seconds,
}

impl Default for Scope {
    fn default() -> Self {
        Scope {
            partition: None,
            user: None,
            launch: Seconds::new(30.0),
            repeat: Seconds::new(5.0),
        }
    }
}

/// Jobs and nodes of a Slurm at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The jobs, also those that have ended a short time ago.
    pub jobs: Vec<JobInfo>,
    /// The nodes.
    pub nodes: Vec<NodeInfo>,
}

/// Snapshots without a job after which the job counts as ended.
const GONE: u32 = 3;

/// Failed launches in a row after which a job waits before the next.
const FAILED: u32 = 3;

/// Wait after [`FAILED`] launches; each further failure doubles it.
const BACK_OFF: f64 = 10.0;

/// Longest wait after failed launches.
const LONGEST: f64 = 600.0;

/// Start of the reasons of cordons that follow drains in Slurm.
const DRAINED: &str = "Slurm: ";

/// A launch that Slurm was ordered to make.
#[derive(Clone, Debug)]
struct Launch {
    attempt: u32,
    /// Slurm's count of restarts at the order.
    restarts: u64,
    /// Time of the first order.
    since: Time,
    /// Time of the last order.
    at: Time,
    failed: Option<String>,
}

/// A job of the scheduler in Slurm.
#[derive(Clone, Debug)]
struct Tracked {
    job: JobId,
    /// True after an order to start, until Slurm shows the job held again.
    released: bool,
    launch: Option<Launch>,
    /// Iterations at the start of the launch, which a crash returns to.
    before: f64,
    /// Number of snapshots in a row without the job.
    gone: u32,
    suspended: bool,
    failures: u32,
    /// Time at which a job with failed launches may be launched again.
    rests_until: Option<Time>,
    /// Time at which Slurm was seen to hold the job again.
    left: Option<Time>,
    /// The last order and its time.
    ordered: Option<(Order, Time)>,
}

/// Follows the jobs of a scheduler in Slurm.
///
/// ```
/// use blox_core::{State, Time, View};
/// use blox_slurm::{Scope, Snapshot, Tracker};
///
/// let state = State::default();
/// let mut tracker = Tracker::new(Scope::default(), View::of(&state));
/// let seen = Snapshot::default();
/// let news = tracker.observe(Time::ZERO, View::of(&state), &seen);
/// assert!(news.events.is_empty() && news.notices.is_empty());
/// assert!(tracker.orders(Time::ZERO, View::of(&state), &seen).is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Tracker {
    scope: Scope,
    jobs: BTreeMap<u32, Tracked>,
    /// Held jobs of Slurm that are left alone, with a notice for the operator.
    noticed: BTreeSet<u32>,
    /// Held jobs of Slurm that the scheduler has rejected.
    rejected: BTreeSet<u32>,
    /// Jobs that the scheduler ends because their goal is reached.
    finishing: BTreeSet<JobId>,
}

/// Differences between a state and a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// Events that make the state follow Slurm, in order.
    pub events: Vec<Event>,
    /// Sentences for the operator.
    pub notices: Vec<String>,
}

impl Tracker {
    /// Creates a tracker for the jobs of a state, which may come from before a restart.
    pub fn new(scope: Scope, view: View<'_>) -> Self {
        let live = view.active().chain(view.submitted()).chain(view.deferred());
        let tracked = |job: JobRef<'_>| {
            let rest = view.now() + Seconds::new(BACK_OFF);
            let tracked = Tracked {
                released: job.bound().is_some(),
                before: job.work_done(),
                // Only failed launches hold a job in the state.
                rests_until: job.held_by_user().then_some(rest),
                ..Tracked::of(job.id())
            };
            Some((number_of(&job)?, tracked))
        };
        Tracker {
            scope,
            jobs: live.filter_map(tracked).collect(),
            noticed: BTreeSet::new(),
            rejected: BTreeSet::new(),
            finishing: BTreeSet::new(),
        }
    }

    /// Returns whether orders are in progress, so that a snapshot is due soon.
    pub fn is_busy(&self, view: View<'_>) -> bool {
        let mut placed = view.placed();
        placed.any(|job| matches!(job.phase(), Phase::Starting | Phase::Stopping))
    }

    /// Returns Slurm's number of a job.
    pub fn slurm_job(&self, job: JobId) -> Option<u32> {
        let mut all = self.jobs.iter();
        all.find(|(_, t)| t.job == job).map(|(id, _)| *id)
    }

    /// Notes that the scheduler ends a job whose goal is reached.
    pub fn finish(&mut self, job: JobId) {
        self.finishing.insert(job);
    }

    /// Notes that Slurm refused an order.
    pub fn refused(&mut self, order: &Order, why: &str) {
        if let (Order::Start { .. }, Some(tracked)) = (order, self.jobs.get_mut(&order.job()))
            && let Some(launch) = &mut tracked.launch
        {
            launch.failed = Some(why.to_owned());
        }
    }

    /// Compares a state with a snapshot that is later than all orders.
    pub fn observe(&mut self, now: Time, view: View<'_>, seen: &Snapshot) -> News {
        let mut news = News::default();
        self.observe_nodes(view, seen, &mut news);
        let free = free(seen);
        let ids: Vec<u32> = self.jobs.keys().copied().collect();
        for id in ids {
            let info = seen.jobs.iter().find(|job| job.id == id);
            self.follow(now, view, id, info, &free, &mut news);
        }
        self.fail_taken(view, seen, &mut news);
        self.adopt(now, view, seen, &mut news);
        news
    }

    /// Returns the orders that the state wants, from the last snapshot.
    pub fn orders(&mut self, now: Time, view: View<'_>, seen: &Snapshot) -> Vec<Order> {
        let mut orders = Vec::new();
        let infos: BTreeMap<u32, &JobInfo> = seen.jobs.iter().map(|job| (job.id, job)).collect();
        for (id, tracked) in &mut self.jobs {
            let (Some(info), Some(job)) = (infos.get(id), view.job(tracked.job)) else {
                continue;
            };
            let ends = self.finishing.contains(&tracked.job);
            let Some(order) = tracked.wants(now, view, &job, info, ends, &self.scope) else {
                continue;
            };
            let repeated =
                |(last, at): &(Order, Time)| *last == order && now < *at + self.scope.repeat;
            let starts = matches!(order, Order::Start { .. });
            if !starts && tracked.ordered.as_ref().is_some_and(repeated) {
                continue;
            }
            if starts {
                tracked.released = true;
                let since = tracked.current(&job).map_or(now, |launch| launch.since);
                tracked.launch = Some(Launch {
                    attempt: job.attempt(),
                    restarts: info.restarts,
                    since,
                    at: now,
                    failed: None,
                });
            }
            tracked.ordered = Some((order.clone(), now));
            orders.push(order);
        }
        orders
    }

    /// Follows nodes, and counts GPUs that Slurm gave to other jobs as failed.
    fn observe_nodes(&self, view: View<'_>, seen: &Snapshot, news: &mut News) {
        let known: BTreeMap<&Name, &Node> = (view.nodes())
            .filter_map(|node| Some((node.spec().name.as_ref()?, node)))
            .collect();
        let taken = self.taken_by_others(view, seen);
        for info in &seen.nodes {
            let in_partition = |p: &String| info.partitions.iter().any(|name| **name == **p);
            if info.gpus == 0 || !self.scope.partition.as_ref().is_none_or(in_partition) {
                continue;
            }
            let Some(node) = known.get(&info.name) else {
                if info.health == Health::Up {
                    let spec = Box::new(info.spec());
                    news.events.push(Event::NodeJoined { spec });
                }
                continue;
            };
            let id = node.id();
            match (info.health, node.status()) {
                (Health::Up, NodeStatus::Lost) => {
                    news.events.push(Event::NodeReturned { node: id });
                    news.notices.push(format!("node {} is up again", info.name));
                }
                (Health::Down, NodeStatus::Up) => {
                    news.events.push(Event::NodeLost { node: id });
                    news.notices.push(format!("Slurm lost node {}", info.name));
                }
                _ => {}
            }
            follow_drain(node, info, news);
            let others = taken.get(&info.name).copied().unwrap_or(0);
            follow_others(view, node, others.min(node.gpu_count()), news);
        }
        let names: BTreeSet<&Name> = seen.nodes.iter().map(|node| &node.name).collect();
        for (name, node) in known {
            // An answer without nodes is no answer.
            if !names.is_empty() && !names.contains(name) && node.status() == NodeStatus::Up {
                news.events.push(Event::NodeLost { node: node.id() });
                news.notices
                    .push(format!("Slurm no longer has node {name}"));
            }
        }
    }

    /// Counts GPUs of failed launches that jobs of others have as failed, so that the next decision
    /// does not place the job there again.
    fn fail_taken(&self, view: View<'_>, seen: &Snapshot, news: &mut News) {
        let failed = |event: &Event| match event {
            Event::LaunchFailed { job, .. } => Some(*job),
            _ => None,
        };
        let launches: Vec<JobId> = news.events.iter().filter_map(failed).collect();
        if launches.is_empty() {
            return;
        }
        let mut missing = self.taken_by_others(view, seen);
        for node in view.nodes() {
            let Some(left) = (node.spec().name.as_ref()).and_then(|name| missing.get_mut(name))
            else {
                continue;
            };
            let is_new = |gpu: &GpuId| news.events.contains(&Event::GpuFailed { gpu: *gpu });
            let counted = node.gpus().filter(|gpu| !node.works(*gpu) || is_new(gpu));
            *left = left.saturating_sub(counted.count() as u32);
        }
        for job in launches {
            let bound = view.job(job).and_then(|job| job.bound().cloned());
            for gpu in bound.into_iter().flat_map(|bound| bound.gpus) {
                let node = view.cluster().node_of(gpu).and_then(|id| view.node(id));
                let name = node.and_then(|node| node.spec().name.as_ref());
                if let Some(left) = name.and_then(|name| missing.get_mut(name))
                    && *left > 0
                {
                    *left -= 1;
                    news.events.push(Event::GpuFailed { gpu });
                }
            }
        }
    }

    /// Returns the GPUs of each node that jobs of others have. GPUs of own jobs beyond the plan
    /// count, too: Slurm distributes unequal numbers over nodes by a rule of its own.
    fn taken_by_others(&self, view: View<'_>, seen: &Snapshot) -> BTreeMap<Name, u32> {
        let mut taken = BTreeMap::new();
        for job in seen.jobs.iter().filter(|job| job.has_gpus()) {
            let tracked = self.jobs.get(&job.id).and_then(|t| view.job(t.job));
            let planned = match tracked.filter(|job| job.phase() != Phase::Ended) {
                // A job that leaves GPUs which the state does not count will soon be gone.
                Some(job) if job.bound().is_none() => continue,
                Some(job) => job
                    .bound()
                    .map_or_else(Vec::new, |bound| nodes_of(view, &bound.gpus)),
                None => Vec::new(),
            };
            for (node, gpus) in &job.on {
                let own = planned.iter().find(|(name, _)| name == node);
                let beyond = gpus.saturating_sub(own.map_or(0, |(_, gpus)| *gpus));
                *taken.entry(node.clone()).or_default() += beyond;
            }
        }
        taken
    }

    /// Submits held jobs that are new.
    fn adopt(&mut self, now: Time, view: View<'_>, seen: &Snapshot, news: &mut News) {
        let mut next = view.next_job_id();
        let mut new: Vec<&JobInfo> = (seen.jobs.iter())
            .filter(|job| job.state == JobState::Held && is_marked(&job.comment))
            .filter(|job| !self.jobs.contains_key(&job.id) && !self.rejected.contains(&job.id))
            .filter(|job| self.scope.has(job))
            .collect();
        // Slurm numbers jobs in order of submission.
        new.sort_by_key(|job| job.id);
        for info in new {
            // The order to start would replace both.
            if !info.dependency.is_empty() || info.begin as f64 > now.secs() {
                continue;
            }
            let usable = if info.is_array() {
                Err("it is an array, expected single jobs".to_owned())
            } else if !info.requeues {
                Err("it has --no-requeue, expected --requeue".to_owned())
            } else if info.per_task {
                Err("it has --gpus-per-task, expected --gpus or --gpus-per-node".to_owned())
            } else if info.exclusive {
                Err("it has --exclusive, expected a number of GPUs alone".to_owned())
            } else {
                spec_of(info)
            };
            match usable {
                Ok(spec) => {
                    let (job, spec) = (next, Arc::new(spec));
                    news.events.push(Event::Submitted { job, spec });
                    self.jobs.insert(info.id, Tracked::of(job));
                    next = JobId(next.0 + 1);
                }
                Err(why) => {
                    if self.noticed.insert(info.id) {
                        let text = format!("Slurm job {} ({MARK}) is left alone: {why}", info.id);
                        news.notices.push(text);
                    }
                }
            }
        }
        // A job that was refused may be corrected, and its number is never used again.
        let held = |id: &u32| {
            let job = seen.jobs.iter().find(|job| job.id == *id);
            job.is_some_and(|job| job.state == JobState::Held)
        };
        self.noticed.retain(held);
        self.rejected.retain(held);
    }

    /// Follows one job.
    fn follow(
        &mut self,
        now: Time,
        view: View<'_>,
        id: u32,
        info: Option<&JobInfo>,
        free: &BTreeMap<&Name, u32>,
        news: &mut News,
    ) {
        let Some(tracked) = self.jobs.get_mut(&id) else {
            return;
        };
        let Some(job) = view.job(tracked.job).filter(|j| j.phase() != Phase::Ended) else {
            let text = format!(
                "job {} (Slurm job {id}) was rejected, and stays held",
                tracked.job
            );
            news.notices.push(text);
            self.jobs.remove(&id);
            self.rejected.insert(id);
            return;
        };
        let Some(info) = info else {
            tracked.gone += 1;
            if tracked.gone >= GONE {
                let outcome = match job.bound() {
                    Some(_) => Outcome::Completed,
                    None => Outcome::Cancelled,
                };
                let what = outcome.as_str();
                let text = format!(
                    "job {} (Slurm job {id}) is gone: Slurm has no record of its end, which counts as {what}",
                    job.id()
                );
                news.notices.push(text);
                self.end(id, outcome, news);
            }
            return;
        };
        tracked.gone = 0;
        if let JobState::Over(outcome, why) = &info.state {
            let outcome = match self.finishing.remove(&job.id()) {
                true => Outcome::Terminated,
                false => *outcome,
            };
            tracked.report_end(now, &job, info, news);
            if outcome == Outcome::Failed || outcome == Outcome::Cancelled {
                news.notices
                    .push(format!("job {} (Slurm job {id}) {why}", job.id()));
            }
            self.end(id, outcome, news);
            return;
        }
        let by_hand = match job.phase() {
            Phase::Submitted | Phase::Deferred | Phase::Waiting => {
                tracked.follow_waiting(now, &job, info, news)
            }
            Phase::Starting => {
                tracked.follow_starting(now, view, &job, info, free, &self.scope, news);
                false
            }
            Phase::Running => {
                tracked.follow_running(now, view, &job, info, news);
                false
            }
            Phase::Stopping => {
                if info.state == JobState::Held {
                    news.events.push(Event::Stopped {
                        job: job.id(),
                        attempt: job.attempt(),
                        work: None,
                    });
                    tracked.rest(now);
                }
                false
            }
            Phase::Ended => false,
        };
        if by_hand {
            let text = format!(
                "job {} (Slurm job {id}) was released by hand: Slurm runs it, and the scheduler no longer counts it",
                job.id()
            );
            news.notices.push(text);
            self.end(id, Outcome::Cancelled, news);
        }
    }

    fn end(&mut self, id: u32, outcome: Outcome, news: &mut News) {
        if let Some(tracked) = self.jobs.remove(&id) {
            let job = tracked.job;
            news.events.push(Event::Ended { job, outcome });
        }
    }
}

impl Scope {
    fn has(&self, job: &JobInfo) -> bool {
        let partition = |p: &String| job.partition.split(',').any(|own| own == p);
        self.partition.as_ref().is_none_or(partition)
            && self.user.as_ref().is_none_or(|user| *user == job.user)
    }
}

impl Tracked {
    fn of(job: JobId) -> Self {
        Tracked {
            job,
            released: false,
            launch: None,
            before: 0.0,
            gone: 0,
            suspended: false,
            failures: 0,
            rests_until: None,
            left: None,
            ordered: None,
        }
    }

    /// Slurm holds the job again.
    fn rest(&mut self, now: Time) {
        (self.released, self.launch, self.suspended) = (false, None, false);
        self.left = Some(now);
    }

    /// Returns whether Slurm lets a job start again on its last nodes: not in the second in which it
    /// left them, since credentials of launches have whole seconds.
    fn may_start(&self, now: Time) -> bool {
        self.left
            .is_none_or(|left| now.secs().floor() > left.secs().floor())
    }

    /// Returns the launch of the job's present attempt.
    fn current(&self, job: &JobRef<'_>) -> Option<&Launch> {
        self.launch.as_ref().filter(|l| l.attempt == job.attempt())
    }

    /// Returns the order that a job needs.
    fn wants(
        &self,
        now: Time,
        view: View<'_>,
        job: &JobRef<'_>,
        info: &JobInfo,
        ends: bool,
        scope: &Scope,
    ) -> Option<Order> {
        use JobState::{Completing, Configuring, Held, Over, Queued, Running, Suspended};
        let id = info.id;
        let runs = matches!(info.state, Running | Suspended | Configuring);
        if matches!(info.state, Over(..)) {
            return None;
        }
        if ends {
            return Some(Order::Cancel { job: id });
        }
        if info.state == Completing {
            return None;
        }
        let back = match info.state {
            Queued { .. } => Some(Order::Hold { job: id }),
            Held => None,
            _ => Some(Order::Requeue { job: id }),
        };
        let current = self.current(job);
        match job.phase() {
            Phase::Submitted | Phase::Deferred | Phase::Waiting => back.filter(|_| self.released),
            Phase::Starting => {
                let bound = job.bound()?;
                let on = nodes_of(view, &bound.gpus);
                match current {
                    // The old launch of a job that changes its GPUs.
                    None if runs && self.launch.is_none() && is_on(&on, info) => None,
                    None if info.state == Held => {
                        self.may_start(now).then_some(Order::Start { job: id, on })
                    }
                    None => back,
                    Some(launch) if launch.failed.is_some() => back,
                    // Somebody has held it, or the order was lost.
                    Some(launch) if info.state == Held => {
                        let late = now >= launch.at + scope.repeat;
                        late.then_some(Order::Start { job: id, on })
                    }
                    Some(_) => None,
                }
            }
            Phase::Running => {
                let restarted = self
                    .launch
                    .as_ref()
                    .is_some_and(|l| info.restarts > l.restarts);
                back.filter(|_| restarted || !runs)
            }
            Phase::Stopping => back,
            Phase::Ended => None,
        }
    }

    /// Returns whether a user has released a waiting job.
    fn follow_waiting(
        &mut self,
        now: Time,
        job: &JobRef<'_>,
        info: &JobInfo,
        news: &mut News,
    ) -> bool {
        if info.state == JobState::Held && self.released {
            self.rest(now);
        }
        if self.rests_until.is_some_and(|until| now >= until) {
            self.rests_until = None;
            if job.held_by_user() {
                news.events.push(Event::Release { job: job.id() });
            }
        }
        info.state != JobState::Held && info.state != JobState::Completing && !self.released
    }

    #[allow(clippy::too_many_arguments, reason = "a snapshot and its context")]
    fn follow_starting(
        &mut self,
        now: Time,
        view: View<'_>,
        job: &JobRef<'_>,
        info: &JobInfo,
        free: &BTreeMap<&Name, u32>,
        scope: &Scope,
        news: &mut News,
    ) {
        let Some(bound) = job.bound() else { return };
        if info.state == JobState::Held && self.released && self.current(job).is_none() {
            // The launch before a change of GPUs has ended.
            self.rest(now);
        }
        let on = nodes_of(view, &bound.gpus);
        if self.launch.is_none() && info.state == JobState::Running && is_on(&on, info) {
            // The order is from before a restart of the scheduler.
            self.launch = Some(Launch {
                attempt: job.attempt(),
                restarts: info.restarts,
                since: now,
                at: now,
                failed: None,
            });
        }
        let attempt = job.attempt();
        let Some(launch) = self.launch.as_mut().filter(|l| l.attempt == attempt) else {
            return;
        };
        match &info.state {
            JobState::Running if launch.failed.is_none() => {
                if is_on(&on, info) && info.restarts == launch.restarts {
                    self.started(job, news);
                } else {
                    let found: Vec<String> = info
                        .on
                        .iter()
                        .map(|(node, gpus)| format!("{node}:{gpus}"))
                        .collect();
                    launch.failed = Some(format!("Slurm started it on {}", found.join(",")));
                }
            }
            JobState::Queued { why } if now >= launch.since + scope.launch => {
                launch.failed = Some(format!("Slurm does not start it: {why}"));
            }
            JobState::Queued { .. } => {
                // Slurm distributes unequal numbers over nodes by a rule of its own, and starts jobs
                // of others. The GPUs may be taken for long.
                let taken = |(node, gpus): &&(Name, u32)| free.get(node).is_some_and(|n| n < gpus);
                if let Some((node, _)) = on.iter().find(taken) {
                    launch.failed = Some(format!("other jobs have its GPUs on {node}"));
                }
            }
            JobState::Held => {
                // Slurm holds a job itself if its requests cannot be met.
                let why = (launch.failed.take()).or_else(|| {
                    let over = now >= launch.since + scope.launch;
                    over.then(|| format!("Slurm holds it after each order: {}", info.reason))
                });
                let Some(why) = why else { return };
                news.events.push(Event::LaunchFailed {
                    job: job.id(),
                    attempt,
                    why: Name::from(why.as_str()),
                });
                news.notices
                    .push(format!("job {} (Slurm job {}): {why}", job.id(), info.id));
                self.rest(now);
                self.failures += 1;
                if self.failures >= FAILED {
                    let doublings = (self.failures - FAILED).min(10);
                    let rest = (BACK_OFF * f64::from(1u32 << doublings)).min(LONGEST);
                    self.rests_until = Some(now + Seconds::new(rest));
                    news.events.push(Event::Hold { job: job.id() });
                }
            }
            _ => {}
        }
    }

    fn started(&mut self, job: &JobRef<'_>, news: &mut News) {
        self.before = job.work_done();
        self.failures = 0;
        news.events.push(Event::Started {
            job: job.id(),
            attempt: job.attempt(),
            rate: rate(job),
        });
    }

    fn follow_running(
        &mut self,
        now: Time,
        view: View<'_>,
        job: &JobRef<'_>,
        info: &JobInfo,
        news: &mut News,
    ) {
        if self.launch.is_none()
            && let Some(bound) = job.bound()
        {
            let on = nodes_of(view, &bound.gpus);
            self.launch = Some(Launch {
                attempt: job.attempt(),
                // A job on other nodes was restarted while the scheduler was away.
                restarts: match info.state == JobState::Running && !is_on(&on, info) {
                    true => info.restarts.saturating_sub(1),
                    false => info.restarts,
                },
                since: now,
                at: now,
                failed: None,
            });
        }
        let restarted = self
            .launch
            .as_ref()
            .is_some_and(|l| info.restarts > l.restarts);
        match &info.state {
            JobState::Held => {
                let bound = job.bound().map(|bound| nodes_of(view, &bound.gpus));
                let up = |(name, _): &(Name, u32)| {
                    let mut nodes = view.nodes();
                    let node = nodes.find(|node| node.spec().name.as_ref() == Some(name));
                    node.is_some_and(|node| node.status() == NodeStatus::Up)
                };
                let lost = !bound.iter().flatten().all(up);
                let (why, text) = match lost {
                    true => (Reason::NodeLost, "lost a node"),
                    false => (Reason::other("requeued in Slurm"), "was requeued in Slurm"),
                };
                news.notices
                    .push(format!("job {} (Slurm job {}) {text}", job.id(), info.id));
                news.events.push(Event::Crashed {
                    job: job.id(),
                    attempt: job.attempt(),
                    work: self.before,
                    why,
                });
                self.rest(now);
            }
            JobState::Suspended if !self.suspended => {
                self.suspended = true;
                news.notices.push(format!(
                    "job {} (Slurm job {}) is suspended",
                    job.id(),
                    info.id
                ));
                news.events.push(self.progress(job, 0.0));
            }
            JobState::Running if self.suspended && !restarted => {
                self.suspended = false;
                news.events.push(self.progress(job, rate(job)));
            }
            _ => {}
        }
    }

    fn progress(&self, job: &JobRef<'_>, rate: f64) -> Event {
        Event::Progress {
            job: job.id(),
            attempt: job.attempt(),
            work: job.work_done(),
            rate,
        }
    }

    /// Reports what the state has missed of a launch that is over.
    fn report_end(&mut self, now: Time, job: &JobRef<'_>, info: &JobInfo, news: &mut News) {
        let attempt = job.attempt();
        let ran = info.start > 0 && info.end >= info.start;
        let late = now.secs() - info.end as f64 > 3.0;
        match job.phase() {
            // A short job may start and end between two snapshots.
            Phase::Starting if self.current(job).is_some() && ran => self.started(job, news),
            Phase::Running => {}
            _ => return,
        }
        if ran && late {
            news.events.push(Event::Ran {
                job: job.id(),
                attempt,
                secs: (info.end - info.start) as f64,
            });
        }
    }
}

/// Returns the iterations a second of a job on its bound GPUs: as profiled, or else in proportion.
fn rate(job: &JobRef<'_>) -> f64 {
    let count = job.bound().map_or(job.gpus(), |bound| bound.count());
    let share = f64::from(count.get()) / f64::from(job.gpus().get().max(1));
    job.rate_at(count).unwrap_or(job.own_rate() * share)
}

/// Cordons a node that Slurm drains, and uncordons it afterwards.
fn follow_drain(node: &Node, info: &NodeInfo, news: &mut News) {
    let ours = node.cordoned().filter(|why| why.starts_with(DRAINED));
    let action = match (&info.drained, node.cordoned()) {
        (Some(why), None) => {
            news.notices
                .push(format!("Slurm drains node {}: {why}", info.name));
            NodeAction::Cordon {
                node: node.id(),
                why: Name::from(format!("{DRAINED}{why}").as_str()),
            }
        }
        (None, Some(_)) if ours.is_some() => {
            news.notices
                .push(format!("Slurm no longer drains node {}", info.name));
            NodeAction::Uncordon { node: node.id() }
        }
        _ => return,
    };
    news.events.push(Event::NodeManaged { action });
}

/// Counts as many GPUs of a node as failed as jobs of others have.
fn follow_others(view: View<'_>, node: &Node, others: u32, news: &mut News) {
    let cluster = view.cluster();
    let idle = |gpu: &GpuId| {
        cluster.allocated_to(*gpu).next().is_none() && cluster.bound_to(*gpu).next().is_none()
    };
    let failed: Vec<GpuId> = node.gpus().filter(|gpu| !node.works(*gpu)).collect();
    let have = failed.len() as u32;
    if have < others {
        // If all GPUs are in use, the next snapshot tries again.
        let free = node.gpus().filter(|gpu| node.works(*gpu) && idle(gpu));
        let more = free.take((others - have) as usize);
        news.events.extend(more.map(|gpu| Event::GpuFailed { gpu }));
    } else {
        let repaired = failed.into_iter().take((have - others) as usize);
        news.events
            .extend(repaired.map(|gpu| Event::GpuRepaired { gpu }));
    }
}

/// Returns the number of GPUs of each node that no job of Slurm has.
fn free(seen: &Snapshot) -> BTreeMap<&Name, u32> {
    let all = seen.nodes.iter().map(|node| (&node.name, node.gpus));
    let mut free: BTreeMap<&Name, u32> = all.collect();
    for (node, gpus) in (seen.jobs.iter())
        .filter(|job| job.has_gpus())
        .flat_map(|job| &job.on)
    {
        if let Some(left) = free.get_mut(node) {
            *left = left.saturating_sub(*gpus);
        }
    }
    free
}

/// Returns the nodes of GPUs, each with its number of GPUs.
fn nodes_of(view: View<'_>, gpus: &[GpuId]) -> Vec<(Name, u32)> {
    let mut counts: BTreeMap<NodeId, u32> = BTreeMap::new();
    for gpu in gpus {
        if let Some(node) = view.cluster().node_of(*gpu) {
            *counts.entry(node).or_default() += 1;
        }
    }
    let named = |(id, count): (NodeId, u32)| {
        let name = view.node(id)?.spec().name.clone()?;
        Some((name, count))
    };
    counts.into_iter().filter_map(named).collect()
}

/// Returns whether a job runs on these nodes, with as many GPUs. Slurm may distribute them otherwise.
fn is_on(nodes: &[(Name, u32)], info: &JobInfo) -> bool {
    let has = |(name, _): &(Name, u32)| info.on.iter().any(|(own, _)| own == name);
    let sum = |list: &[(Name, u32)]| -> u32 { list.iter().map(|(_, gpus)| gpus).sum() };
    let count = sum(&info.on);
    // Versions without details of GPUs show none.
    nodes.len() == info.on.len() && nodes.iter().all(has) && (count == sum(nodes) || count == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Action, AdmissionDecision, Assignment, Command, Plan, State};
    use serde_json::{Value, json};

    /// A state, its tracker, and the time.
    struct Setting {
        state: State,
        tracker: Tracker,
        now: f64,
        jobs: Vec<Value>,
        nodes: Vec<Value>,
    }

    impl Setting {
        /// Two nodes of four GPUs, and one held job of six.
        fn new() -> Self {
            let state = State::default();
            let tracker = Tracker::new(Scope::default(), View::of(&state));
            let node = |name| json!({"name": name, "state": "idle", "gres": "gpu:4", "partitions": ["main"]});
            let mut setting = Setting {
                state,
                tracker,
                now: 1000.0,
                jobs: vec![json!({
                    "job_id": 7, "job_state": "PENDING", "priority": 0, "comment": "blox duration=60",
                    "tres_per_job": "gres:gpu:6", "node_count": 2, "user_name": "ada", "requeue": true,
                    "submit_time": 990
                })],
                nodes: vec![node("a"), node("b")],
            };
            assert_eq!(setting.look(), ["node-joined", "node-joined", "submitted"]);
            let accept = AdmissionDecision::Accept {
                class: None,
                deadline: None,
            };
            let event = Event::AdmissionDecided {
                job: JobId(0),
                admission: accept,
            };
            setting.state.apply(Time::new(1000.0), &event).unwrap();
            setting
        }

        fn snapshot(&self) -> Snapshot {
            Snapshot {
                jobs: JobInfo::list(&json!({ "jobs": self.jobs })).unwrap(),
                nodes: NodeInfo::list(&json!({ "nodes": self.nodes })).unwrap(),
            }
        }

        /// Applies what a look shows, and returns the kinds of the events.
        fn look(&mut self) -> Vec<String> {
            let (now, seen) = (Time::new(self.now), self.snapshot());
            let news = self.tracker.observe(now, View::of(&self.state), &seen);
            self.now += 1.0;
            let kind = |event: &Event| {
                let text = serde_json::to_value(event).unwrap();
                text.as_object().unwrap().keys().next().unwrap().clone()
            };
            for event in &news.events {
                self.state.apply(now, event).unwrap();
            }
            news.events.iter().map(kind).collect()
        }

        fn orders(&mut self) -> Vec<String> {
            let seen = self.snapshot();
            let view = View::of(&self.state);
            let orders = self.tracker.orders(Time::new(self.now), view, &seen);
            orders.iter().map(Order::to_string).collect()
        }

        /// Places job 0 on these GPUs.
        fn place(&mut self, gpus: impl IntoIterator<Item = u32>) {
            let assignment = Assignment::of(gpus.into_iter().map(GpuId));
            self.plan(Action::Place {
                job: JobId(0),
                assignment,
            });
        }

        fn plan(&mut self, action: Action) {
            let version = self.state.version();
            let plan = Plan {
                version,
                actions: vec![action],
                ..Plan::default()
            };
            self.state.apply_plan(&plan).unwrap();
            let mut commands: Vec<Command> = Vec::new();
            self.state.take_commands(&mut commands);
        }

        fn slurm(&mut self, changes: Value) {
            let job = self.jobs[0].as_object_mut().unwrap();
            job.extend(changes.as_object().unwrap().clone());
        }

        fn runs(&mut self, nodes: &str, gpus: [&str; 2]) {
            self.slurm(
                json!({"job_state": "RUNNING", "priority": 9, "nodes": nodes, "gres_detail": gpus}),
            );
        }

        fn held(&mut self, restarts: u32) {
            self.slurm(json!({"job_state": "PENDING", "priority": 0, "nodes": "", "restart_cnt": restarts}));
        }

        fn started() -> Self {
            let mut setting = Setting::new();
            setting.place(0..6);
            assert_eq!(setting.orders(), ["start Slurm job 7 on a:4,b:2"]);
            setting.runs("a,b", ["gpu:4(IDX:0-3)", "gpu:2(IDX:0-1)"]);
            assert_eq!(setting.look(), ["started"]);
            assert!(setting.orders().is_empty());
            setting
        }
    }

    #[test]
    fn a_job_is_started_stopped_and_ended() {
        let mut setting = Setting::started();
        setting.plan(Action::Stop {
            job: JobId(0),
            why: Reason::Unlisted,
        });
        assert_eq!(setting.orders(), ["requeue and hold Slurm job 7"]);
        // The order is not repeated at once, and the job may take its time.
        assert!(setting.orders().is_empty());
        setting.slurm(json!({"job_state": "COMPLETING", "priority": 0, "restart_cnt": 1}));
        assert!(setting.look().is_empty() && setting.orders().is_empty());
        setting.held(1);
        assert_eq!(setting.look(), ["stopped"]);
        setting.place(0..6);
        assert_eq!(setting.orders(), ["start Slurm job 7 on a:4,b:2"]);
        setting.slurm(json!({"job_state": "COMPLETED", "start_time": 1001, "end_time": 1002}));
        assert_eq!(setting.look(), ["started", "ended"]);
    }

    #[test]
    fn a_job_changes_its_gpus_in_another_second() {
        let mut setting = Setting::started();
        setting.place(0..4);
        assert_eq!(setting.orders(), ["requeue and hold Slurm job 7"]);
        setting.held(1);
        assert!(setting.look().is_empty());
        setting.now -= 0.5;
        assert!(setting.orders().is_empty());
        setting.now += 0.5;
        assert_eq!(setting.orders(), ["start Slurm job 7 on a:4"]);
    }

    #[test]
    fn a_job_released_by_hand_is_of_others() {
        let mut setting = Setting::new();
        setting.runs("a,b", ["gpu:4", "gpu:2"]);
        assert_eq!(setting.look(), ["ended"]);
        assert_eq!(setting.look(), ["gpu-failed"; 6]);
        // Held again, it is a new job; its GPUs work again.
        setting.held(1);
        assert_eq!(setting.look()[6..], ["submitted"]);
        assert_eq!(setting.state.cluster().usable_gpus(), 8);
    }

    #[test]
    fn another_distribution_is_learned() {
        let mut setting = Setting::new();
        setting.place([0, 1, 2, 4, 5, 6]);
        assert_eq!(setting.orders(), ["start Slurm job 7 on a:3,b:3"]);
        setting.runs("a,b", ["gpu:4", "gpu:2"]);
        assert_eq!(setting.look(), ["gpu-failed", "started"]);
        assert_eq!(setting.state.cluster().free_gpus(), 1);
    }

    #[test]
    fn a_restart_by_slurm_is_a_crash() {
        let mut setting = Setting::started();
        setting.slurm(
            json!({"job_state": "PENDING", "priority": 5, "state_reason": "BeginTime",
            "nodes": "", "restart_cnt": 1}),
        );
        assert!(setting.look().is_empty());
        assert_eq!(setting.orders(), ["hold Slurm job 7"]);
        setting.held(1);
        assert_eq!(setting.look(), ["crashed"]);
    }

    #[test]
    fn failed_launches_wait_longer_and_longer() {
        let mut setting = Setting::new();
        let mut kinds = Vec::new();
        for _ in 0..3 {
            setting.place(0..6);
            let order = Order::Start {
                job: 7,
                on: Vec::new(),
            };
            assert_eq!(setting.orders().len(), 1);
            setting.tracker.refused(&order, "no such node");
            kinds = setting.look();
        }
        assert_eq!(kinds, ["launch-failed", "hold"]);
        assert!(setting.look().is_empty());
        // A restarted scheduler does not hold the job for good.
        let mut restarted = Setting {
            tracker: Tracker::new(Scope::default(), View::of(&setting.state)),
            state: setting.state.clone(),
            jobs: setting.jobs.clone(),
            nodes: setting.nodes.clone(),
            now: setting.now + 10.0,
        };
        assert_eq!(restarted.look(), ["release"]);
        setting.now += 10.0;
        assert_eq!(setting.look(), ["release"]);
    }

    #[test]
    fn a_job_that_slurm_holds_fails_its_launch() {
        let mut setting = Setting::new();
        setting.place(0..6);
        let start = ["start Slurm job 7 on a:4,b:2"];
        assert_eq!(setting.orders(), start);
        // Slurm holds a job of which it says that it can never run.
        setting.slurm(json!({"state_reason": "BadConstraints"}));
        assert!(setting.look().is_empty());
        setting.now += 5.0;
        assert_eq!(setting.orders(), start);
        setting.now += 23.0;
        assert!(setting.look().is_empty());
        assert_eq!(setting.orders(), start);
        setting.now += 1.0;
        assert_eq!(setting.look(), ["launch-failed"]);
    }

    #[test]
    fn a_launch_whose_gpus_are_taken_fails_at_once() {
        let mut setting = Setting::new();
        setting.place(0..6);
        assert_eq!(setting.orders(), ["start Slurm job 7 on a:4,b:2"]);
        setting.slurm(json!({"priority": 5, "state_reason": "Resources"}));
        assert!(setting.look().is_empty() && setting.orders().is_empty());
        // A job of others takes three of the four GPUs of a node, of which two are planned.
        setting
            .jobs
            .push(json!({"job_id": 8, "job_state": "RUNNING", "nodes": "b",
            "tres_per_job": "gres:gpu:3", "gres_detail": ["gpu:3"]}));
        assert_eq!(setting.look(), ["gpu-failed"; 2]);
        assert_eq!(setting.orders(), ["hold Slurm job 7"]);
        setting.held(0);
        assert_eq!(setting.look(), ["launch-failed", "gpu-failed"]);
        assert_eq!(setting.state.cluster().free_gpus(), 5);
        assert!(setting.look().is_empty());
    }

    #[test]
    fn lost_and_drained_nodes_are_followed() {
        let mut setting = Setting::new();
        setting.nodes[0]["state"] = json!("down");
        setting.nodes[1]["state_flags"] = json!(["DRAIN"]);
        assert_eq!(setting.look(), ["node-lost", "node-managed"]);
        assert_eq!(setting.state.cluster().usable_gpus(), 0);
        setting.nodes[0]["state"] = json!(["IDLE"]);
        setting.nodes[1]["state_flags"] = json!([]);
        assert_eq!(setting.look(), ["node-returned", "node-managed"]);
        assert_eq!(setting.state.cluster().usable_gpus(), 8);
    }

    #[test]
    fn a_restarted_tracker_continues() {
        let mut setting = Setting::started();
        setting.tracker = Tracker::new(Scope::default(), View::of(&setting.state));
        assert!(setting.look().is_empty() && setting.orders().is_empty());
        setting.jobs.clear();
        assert!(setting.look().is_empty() && setting.look().is_empty());
        assert_eq!(setting.look(), ["ended"]);
    }

    #[test]
    fn jobs_that_cannot_be_carried_are_left_alone() {
        let mut setting = Setting::new();
        let mut others = Vec::new();
        for (id, change) in [
            (8, json!({"requeue": false})),
            (
                9,
                json!({"tres_per_job": "", "tres_per_task": "gres:gpu:1"}),
            ),
            (10, json!({"array_task_string": "1-4"})),
            (11, json!({"comment": "blox duration=soon"})),
            (12, json!({"comment": "not for blox"})),
        ] {
            let mut job = setting.jobs[0].clone();
            job["job_id"] = json!(id);
            job.as_object_mut()
                .unwrap()
                .extend(change.as_object().unwrap().clone());
            others.push(job);
        }
        setting.jobs.extend(others);
        let seen = setting.snapshot();
        let view = View::of(&setting.state);
        let news = setting.tracker.observe(Time::new(setting.now), view, &seen);
        assert_eq!(
            (news.events.len(), news.notices.len()),
            (0, 4),
            "{:?}",
            news.notices
        );
        let again = setting.tracker.observe(Time::new(setting.now), view, &seen);
        assert_eq!(again, News::default());
    }
}
