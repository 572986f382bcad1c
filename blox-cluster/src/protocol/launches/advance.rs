//! Transitions of launches, caused by commands, reports and timeouts.

use super::due::Item;
use super::training::{batch, modelled_rate};
use super::{Attempt, End, Goal, Launch, Launches};
use crate::protocol::ids::{AttemptId, Fence, Millis, PartId};
use crate::protocol::message::{Exit, NO_PROGRAM, Progress, Status, Task};
use crate::protocol::record::Record;
use blox_core::{
    Assignment, Command, Event, GpuCount, JobId, JobRef, Name, Node, NodeId, Outcome as How, Phase,
    Reason, Seconds, View,
};
use blox_perf::goodput::BatchConfig;
use std::sync::Arc;

/// Default limit on the failures of a job. The job attribute `max_retries` overrides it.
pub const MAX_RETRIES: u32 = 3;

impl Launches {
    /// Executes a command of the scheduler core.
    pub fn command(&mut self, now: Millis, view: View<'_>, command: &Command) {
        match command {
            Command::Start { job, attempt } => self.grant(now, view, *job, *attempt, None),
            Command::Change { job, attempt, .. } => {
                let last = self.durable.of_job(*job).last().map(|(id, _)| id);
                if let Some(old) = last {
                    self.want(old, Goal::Stop);
                }
                self.grant(now, view, *job, *attempt, last);
            }
            Command::Stop { job, attempt, .. } => {
                let id = AttemptId {
                    job: *job,
                    attempt: *attempt,
                };
                self.want(id, Goal::Stop);
            }
            Command::Notify { job, attempt, .. } => {
                let (job, attempt) = (*job, *attempt);
                self.note_notice(view, AttemptId { job, attempt });
            }
            Command::Finish { job } => self.end_job(view, *job, Goal::Finish),
            Command::Node { id, action } => self.note_request(view, *id, action),
            _ => {}
        }
    }

    /// Ends a job: immediately if no launch is open, otherwise after its launches have ended. The
    /// result is an `Ended` event.
    pub fn end_job(&mut self, view: View<'_>, job: JobId, goal: Goal) {
        let ids: Vec<AttemptId> = self.durable.of_job(job).map(|(id, _)| id).collect();
        for id in &ids {
            self.want(*id, goal.clone());
        }
        let live = view.job(job).is_some_and(|j| j.phase() != Phase::Ended);
        if ids.is_empty() && live {
            let outcome = match goal {
                Goal::Cancel => How::Cancelled,
                _ => How::Terminated,
            };
            self.out.events.push(Event::Ended { job, outcome });
        }
    }

    /// Makes a running job release its GPUs and wait again. Returns `false` if no launch is open.
    pub fn requeue(&mut self, job: JobId) -> bool {
        let id = self.durable.of_job(job).last().map(|(id, _)| id);
        if let Some(id) = id {
            self.want(id, Goal::Requeue);
        }
        id.is_some()
    }

    /// Handles timeouts.
    pub fn tick(&mut self, now: Millis, view: View<'_>) {
        if now - self.last_tick > self.timers.heartbeat + self.timers.heartbeat {
            // The scheduler was suspended, and may not have read the reports that arrived
            // meanwhile.
            self.awake_since = now;
        }
        self.last_tick = now;
        self.tick_requests(now, view);
        if !std::mem::replace(&mut self.has_ticked, true) {
            // After a restart of the scheduler, the core still has the notices.
            let all: Vec<AttemptId> = self.durable.attempts.keys().copied().collect();
            all.into_iter().for_each(|id| self.note_notice(view, id));
            let nodes = view.cluster().nodes().iter();
            self.due.sick = nodes.map(Node::id).collect();
        }
        for item in self.due.take(now) {
            match item {
                Item::Node(node) => {
                    if let Some(next) = self.examine_node(now, view, node) {
                        self.due.watch(node, next);
                    }
                }
                Item::Doubt(part) => {
                    let doubt = self.doubted.get(&part);
                    if let Some((_, end)) = doubt.filter(|(until, _)| now > *until) {
                        let end = end.clone();
                        self.end_part(part, end);
                    }
                }
                Item::Launch(id) => {
                    self.out.moved.insert(id);
                }
            }
        }
        self.tick_sick(now, view);
    }

    /// Processes changed launches until an event for the core results. The core must handle the
    /// event before other launches are processed.
    pub fn advance(&mut self, now: Millis, view: View<'_>) {
        while self.out.events.is_empty()
            && let Some(id) = self.out.moved.pop_first()
        {
            self.look_at(now, view, id);
        }
    }

    fn look_at(&mut self, now: Millis, view: View<'_>, id: AttemptId) {
        let Some(a) = self.durable.attempts.get(&id) else {
            return;
        };
        if let Some(old) = a.launch.after {
            if self.durable.attempts.contains_key(&old) {
                return;
            }
            self.note(Record::Released { id });
            self.start_by(id, now + self.timers.launch);
            self.dirty_all(id);
            let goal = self.durable.attempts.get(&id).map(|a| a.goal.clone());
            if goal.is_some_and(|g| g != Goal::Run) {
                // No node has received orders for this launch, so no report is needed.
                let open: Vec<NodeId> = match self.durable.attempts.get(&id) {
                    Some(a) => a.open().collect(),
                    None => Vec::new(),
                };
                for node in open {
                    let part = PartId { id, node };
                    let why = "called off before it was started";
                    let mut end = self.estimate(view, part, None, why);
                    (end.exit, end.estimated) = (Exit::NeverRan, false);
                    self.end_part(part, end);
                }
            }
            self.out.moved.insert(id);
            return;
        }
        if a.is_over() {
            self.close(now, view, id);
        } else if a.goal == Goal::Run {
            self.follow_run(now, view, id);
        }
    }

    fn follow_run(&mut self, now: Millis, view: View<'_>, id: AttemptId) {
        let Some(a) = self.durable.attempts.get(&id) else {
            return;
        };
        let bad = a.ends.values().find(|e| e.exit != Exit::Completed);
        if let Some(end) = bad {
            let why = if end.why.is_empty() {
                "a part of it ended".to_owned()
            } else {
                end.why.clone()
            };
            return self.want(id, Goal::Abort(why));
        }
        // Parts that have completed wait for the other parts without a limit.
        if a.started {
            return;
        }
        let running = |node: NodeId| {
            let seen = self.seen.get(&PartId { id, node });
            matches!(seen.map(|s| &s.status), Some(Status::Running))
        };
        if a.open().all(running) {
            let rate = rate(view, id, a);
            if let Some(by) = self.launch_by.remove(&id) {
                self.due.cancel(by, Item::Launch(id));
            }
            self.note(Record::Started { id });
            self.out.events.push(Event::Started {
                job: id.job,
                attempt: id.attempt,
                rate,
            });
        } else if self.launch_by.get(&id).is_some_and(|by| now >= *by) {
            let why = "it did not start in time on all of its nodes";
            self.want(id, Goal::Abort(why.to_owned()));
        }
    }

    fn close(&mut self, now: Millis, view: View<'_>, id: AttemptId) {
        let Some(a) = self.durable.attempts.get(&id) else {
            return;
        };
        let others = self.durable.of_job(id.job).any(|(other, _)| other != id);
        let job = view.job(id.job).filter(|j| j.phase() != Phase::Ended);
        let ran = job.and_then(|job| self.length(&job, id, a));
        let (event, failed) = match &job {
            Some(job) => self.end_event(now, job, id, a, others, ran),
            None => (None, false),
        };
        let is_again = matches!(
            event,
            Some(Event::Crashed { .. } | Event::LaunchFailed { .. })
        );
        let why = (is_again && !failed && a.goal != Goal::Requeue)
            .then(|| self.how_lost(view, a))
            .flatten();
        let useful = self.was_useful(id, a);
        let nodes: Vec<NodeId> = a.launch.parts.iter().map(|(node, _)| *node).collect();
        let ended_shims = super::lost::ended_shims(a);
        let next = self
            .durable
            .of_job(id.job)
            .find(|(o, _)| o.attempt > id.attempt);
        self.out.moved.extend(next.map(|(id, _)| id));
        if matches!(event, Some(Event::Ended { .. })) {
            // If a change was in progress, its new launch is cancelled.
            let later: Vec<AttemptId> = self
                .durable
                .of_job(id.job)
                .map(|(o, _)| o)
                .filter(|o| *o != id)
                .collect();
            for other in later {
                self.want(other, Goal::Cancel);
            }
        }
        let again = !matches!(
            event,
            None | Some(Event::Ended { .. } | Event::Stopped { .. })
        );
        // Nodes may have been unable to report the end when it happened.
        self.out.events.extend(ran.map(|ran| Event::Ran {
            job: id.job,
            attempt: id.attempt,
            secs: ran.secs(),
        }));
        let done = match event {
            Some(Event::Ended {
                outcome: How::Completed,
                ..
            }) => self.job_report(id).progress.map(|p| p.done),
            _ => None,
        };
        self.out.events.extend(event);
        self.note(Record::Closed { id, failed, done });
        for node in ended_shims {
            self.note_shim(now, node, id.job);
        }
        if useful && self.durable.wasted.contains_key(&id.job) {
            let (job, why, held) = (id.job, None, false);
            self.note(Record::Wasted { job, why, held });
        }
        if let Some(why) = why.filter(|_| !useful) {
            self.out.lost.push((id.job, why));
        }
        if failed && again {
            let times = self.durable.failures.get(&id.job).copied();
            self.out.failed.push((id.job, times.unwrap_or(1)));
        }
        self.launch_by.remove(&id);
        self.going.remove(&id);
        self.notices.remove(&id);
        for node in nodes {
            let part = PartId { id, node };
            self.seen.remove(&part);
            self.ordered.remove(&part);
            self.began.remove(&part);
        }
        self.forwarded.remove(&id);
    }

    /// Returns the running time of a launch that is over, by the clocks of its nodes. Returns
    /// `None` if the core has not received its start, or if the running time is unknown.
    fn length(&self, job: &JobRef<'_>, id: AttemptId, a: &Attempt) -> Option<Seconds> {
        let is_known = |end: &End| match end.exit {
            Exit::Lost if end.estimated => job.attempt() == id.attempt,
            Exit::Lost => end.ran > Millis(0),
            _ => true,
        };
        let known = a.started && a.ends.values().all(is_known);
        let longest = a.ends.values().map(|end| end.ran).max()?;
        known.then(|| self.clock.length(longest))
    }

    /// Returns whether a job has used its time limit up with this launch.
    fn is_timed_out(&self, id: AttemptId, a: &Attempt) -> bool {
        let by_shim = a.ends.values().any(|end| end.exit == Exit::TimedOut);
        let ran = a.ends.values().map(|end| end.ran).max().unwrap_or_default();
        by_shim || self.time_left(id, a).is_some_and(|left| ran >= left)
    }

    /// Returns the event that the end of a launch causes for its job, and whether it counts as a
    /// failure of the job.
    fn end_event(
        &self,
        now: Millis,
        job: &JobRef<'_>,
        id: AttemptId,
        a: &Attempt,
        others: bool,
        ran: Option<Seconds>,
    ) -> (Option<Event>, bool) {
        let ended = |outcome| {
            Some(Event::Ended {
                job: id.job,
                outcome,
            })
        };
        let progress = self.job_report(id).progress;
        let completed = is_completed(job, a, progress);
        // A launch without a checkpoint of its own resumes from the state before it.
        let saved = progress.map(|p| p.saved).filter(|s| *s > 0.0);
        let mut lost = a.ends.values().filter(|e| e.exit == Exit::Lost);
        let bad_file = a.ends.values().any(|e| e.exit == Exit::BadFile);
        // An unreadable file is a failure of the job without an exit code.
        let no_program = a.ends.values().any(|e| e.why.contains(NO_PROGRAM));
        let default = match no_program {
            true => OnExit::Fail,
            false => OnExit::Retry,
        };
        let rule = a.failed.map(|code| on_exit(job, code, default));
        let rule = rule.or(bad_file.then_some(OnExit::Retry));
        let current = job.attempt() == id.attempt;
        match &a.goal {
            Goal::Cancel if !others => return (ended(How::Cancelled), false),
            Goal::Finish if !others => return (ended(How::Terminated), false),
            Goal::Cancel | Goal::Finish => return (None, false),
            _ if completed => return (ended(How::Completed), false),
            Goal::Run | Goal::Abort(_) if current && rule == Some(OnExit::Complete) => {
                return (ended(How::Completed), false);
            }
            _ if current && self.is_timed_out(id, a) => return (ended(How::TimedOut), false),
            // This launch was replaced in a change; the new launch determines the result.
            _ if !current => return (None, false),
            _ => {}
        }
        // A launch that was killed or failed loses all work since its last checkpoint.
        let kept = a.ends.values().all(|e| {
            matches!(e.exit, Exit::Stopped | Exit::Completed)
                || (e.exit == Exit::NeverRan && !a.started)
        });
        let work = match saved {
            Some(saved) => Some(saved),
            // All work is kept, and the job's own count is more precise than an estimate.
            None if kept => progress.map(|p| p.done),
            None => Some(a.launch.before),
        };
        let failures = self.durable.failures.get(&id.job).copied().unwrap_or(0) + 1;
        let exhausted = failures > max_retries(job);
        let why = match &a.goal {
            Goal::Abort(why) => why.clone(),
            _ => a
                .ends
                .values()
                .map(|e| e.why.clone())
                .find(|w| !w.is_empty())
                .unwrap_or_default(),
        };
        let stopping = job.phase() == Phase::Stopping;
        // Failures of nodes and networks do not count as failures of the job.
        let failed = matches!(rule, Some(OnExit::Retry | OnExit::Fail));
        let hopeless = exhausted || rule == Some(OnExit::Fail);
        if failed && hopeless && !stopping {
            return (ended(How::Failed), true);
        }
        let event = if stopping {
            Event::Stopped {
                job: id.job,
                attempt: id.attempt,
                work,
            }
        } else if !a.started && job.phase() == Phase::Starting {
            Event::LaunchFailed {
                job: id.job,
                attempt: id.attempt,
                why: Name::from(why),
            }
        } else {
            Event::Crashed {
                job: id.job,
                attempt: id.attempt,
                work: work.unwrap_or_else(|| {
                    // The core's time advances only with events.
                    let done = job.work_done_by(self.clock.time(now));
                    let most = ran.map(|ran| a.launch.before + job.rate() * ran.secs());
                    most.map_or(done, |most| done.min(most))
                }),
                why: match &a.goal {
                    Goal::Requeue => Reason::other("put back by a user"),
                    _ => match lost.next() {
                        Some(end) if end.estimated => Reason::NodeLost,
                        // The node is reachable and reported a reason.
                        Some(end) if !end.why.is_empty() => Reason::other(end.why.as_str()),
                        _ => Reason::Crashed,
                    },
                },
            }
        };
        (Some(event), failed)
    }

    fn grant(
        &mut self,
        now: Millis,
        view: View<'_>,
        job: JobId,
        attempt: u32,
        after: Option<AttemptId>,
    ) {
        let Some(j) = view.job(job) else { return };
        let Some(bound) = j.bound() else { return };
        let id = AttemptId { job, attempt };
        let launch = Launch {
            lease: Some(self.lease_for(&j.truth().shared_spec())),
            parts: parts(view, &j, bound),
            after,
            before: j.work_done(),
        };
        for (node, _) in &launch.parts {
            self.watch_granted(*node);
        }
        let fence = Fence(self.durable.fence.0 + 1);
        let record = Record::Granted {
            id,
            fence,
            launch: Box::new(launch),
        };
        self.note(record);
        self.start_by(id, now + self.timers.launch);
        self.out.moved.insert(id);
        self.dirty_all(id);
    }
}

/// Returns the task of each node, ordered by its lowest rank.
fn parts(view: View<'_>, job: &JobRef<'_>, bound: &Assignment) -> Vec<(NodeId, Arc<Task>)> {
    let mut shares: Vec<(NodeId, Vec<u32>, Vec<u32>)> = Vec::new();
    for (rank, gpu) in bound.gpus.iter().enumerate() {
        let Some(node) = view.cluster().node_of(*gpu) else {
            continue;
        };
        let first = view.node(node).and_then(|n| n.gpu(0)).map_or(0, |g| g.0);
        let at = match shares.iter().position(|(n, ..)| *n == node) {
            Some(at) => at,
            None => {
                shares.push((node, Vec::new(), Vec::new()));
                shares.len() - 1
            }
        };
        shares[at].1.push(gpu.0 - first);
        shares[at].2.push(rank as u32);
    }
    let name = |node: NodeId| {
        let own = view.node(node).and_then(|n| n.spec().name.clone());
        own.unwrap_or_else(|| Name::from(format!("node-{node}")))
    };
    let nodes: Vec<Name> = shares.iter().map(|(n, ..)| name(*n)).collect();
    let world = bound.gpus.len() as u32;
    let config = match BatchConfig::of(&bound.config) {
        Some(_) => bound.config.clone(),
        None => match batch(view, job, bound) {
            Some(batch) => batch.put_into(&bound.config),
            None => bound.config.clone(),
        },
    };
    // A node that states no memory gives no limit.
    let gpu_memory = |node: NodeId| {
        let of_gpu = view
            .cluster()
            .node(node)
            .map_or(0.0, |n| n.spec().gpu_memory_gib);
        bound
            .share
            .memory_fraction()
            .map_or(0.0, |part| part * of_gpu)
    };
    let of_all = |amount: f64, here: usize| amount * here as f64 / f64::from(world.max(1));
    let task = |(i, (node, gpus, ranks)): (usize, (NodeId, Vec<u32>, Vec<u32>))| {
        let task = Task {
            spec: job.truth().shared_spec(),
            cpus: of_all(bound.cpus, gpus.len()),
            memory_gib: of_all(bound.memory_gib, gpus.len()),
            gpus,
            ranks,
            world,
            node_rank: i as u32,
            nodes: nodes.clone(),
            share: bound.share,
            gpu_memory_gib: gpu_memory(node),
            config: config.clone(),
        };
        (node, Arc::new(task))
    };
    shares.into_iter().enumerate().map(task).collect()
}

/// Returns the assumed iterations per second of a new launch: from the goodput model, else from the
/// profile, else in proportion to the GPUs.
fn rate(view: View<'_>, id: AttemptId, a: &Attempt) -> f64 {
    let Some(job) = view.job(id.job) else {
        return 0.0;
    };
    let world = a.launch.parts.first().map_or(0, |(_, t)| t.world);
    let modelled = job
        .bound()
        .and_then(|bound| modelled_rate(view, &job, bound));
    modelled
        .or_else(|| job.rate_at(GpuCount(world)))
        .unwrap_or_else(|| job.own_rate() * f64::from(world) / f64::from(job.gpus().get().max(1)))
}

/// Returns whether the work of a job is done when a launch of it is over.
///
/// A rank that exits with 0 after an order to stop may have finished or may have abandoned its
/// work. The launch is then completed only if the job reports all iterations as done, or if the
/// job was submitted with `--on-exit 0=complete`.
fn is_completed(job: &JobRef<'_>, a: &Attempt, progress: Option<Progress>) -> bool {
    let by_itself = |e: &End| e.exit == Exit::Completed;
    if a.ends.values().all(by_itself) {
        return true;
    }
    let with_zero = |e: &End| by_itself(e) || (e.exit == Exit::Stopped && e.exited_zero);
    let all = job.truth().work().iterations;
    let reported = progress.is_some_and(|p| all > 0.0 && p.done >= all * ALL_DONE);
    a.ends.values().all(with_zero)
        && (reported || on_exit(job, 0, OnExit::Retry) == OnExit::Complete)
}

/// Share of all iterations that counts as complete. The number of iterations may be a rounded
/// product of seconds and a rate.
const ALL_DONE: f64 = 1.0 - 1e-9;

/// Effect of an exit code on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnExit {
    /// A failure; the job is retried within its limit.
    Retry,
    /// A failure that is not retried.
    Fail,
    /// The work is done.
    Complete,
    /// Not a failure: the job is requeued and no failure is counted.
    Requeue,
}

/// Returns the rule for an exit code in the job's `on_exit` attribute: `retry`, `fail`, `complete`
/// or `requeue`.
fn on_exit(job: &JobRef<'_>, code: i32, default: OnExit) -> OnExit {
    let rules = job.spec().extras().attributes.get("on_exit");
    let rule = rules.and_then(|r| r.get(code.to_string())?.as_str());
    match rule {
        Some("fail") => OnExit::Fail,
        Some("complete") => OnExit::Complete,
        Some("requeue") => OnExit::Requeue,
        Some("retry") => OnExit::Retry,
        _ => default,
    }
}

/// Returns the limit on the failures of a job.
pub fn max_retries(job: &JobRef<'_>) -> u32 {
    let limit = job.spec().extras().attributes.get("max_retries");
    limit
        .and_then(serde_json::Value::as_u64)
        .map_or(MAX_RETRIES, |n| u32::try_from(n).unwrap_or(u32::MAX))
}
