//! State machine of the node manager. It follows orders, reserves GPUs, starts and controls shims,
//! and reports. It never blocks.

use super::ids::{AttemptId, ClusterId, Epoch, Fence, Incarnation, Millis, Session};
use super::message::{
    AttemptReport, Final, JobReport, Order, Orders, PROTOCOL, Report, Status, Task, Wish,
};
use super::shim::{Control, ShimWish, grace_of};
use super::timers::{FIRST_LEASE, Timers};
use blox_core::{Name, NodeSpec, Used};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Number of sent reports whose time is stored. Orders that answer an older report are refused.
const REMEMBERED_REPORTS: usize = 64;

/// Identity and persistent state of a node manager.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Persistent name of the node, from its disk.
    pub node: Name,
    /// Boot id of its kernel.
    pub boot: Name,
    /// Session of this run, from its disk.
    pub session: Session,
    /// Cluster that all launches of the node belong to, from its disk; `None` before the first
    /// orders.
    pub cluster: Option<ClusterId>,
    /// Highest scheduler epoch that the node manager has seen, from its disk.
    pub epoch: Epoch,
    /// Last incarnation of the node, from its disk.
    pub incarnation: Incarnation,
    /// Hardware that the node offers.
    pub offer: Arc<NodeSpec>,
    /// Address at which other nodes reach this node.
    pub address: Name,
}

/// A launch of an earlier session, read from its journal on the node's disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The launch.
    pub id: AttemptId,
    /// Its fencing number.
    pub fence: Fence,
    /// Its task.
    pub task: Arc<Task>,
    /// Its reserved port.
    pub port: u16,
    /// End of its lease according to the journal.
    pub lease: Millis,
    /// End of the lease that its shim follows, if the shim has stated it.
    pub followed: Option<Millis>,
    /// Its result, if it has ended.
    pub done: Option<Final>,
    /// Its last reported progress and metrics.
    pub reported: JobReport,
}

/// Message from a shim or its supervisor.
#[derive(Clone, Debug, PartialEq)]
pub enum ShimMessage {
    /// All processes run.
    Running,
    /// The launch is ending.
    Stopping,
    /// New progress and metrics of the job.
    JobReport(JobReport),
    /// The shim follows a lease with this end.
    Lease(Millis),
    /// The launch is over, and its result is on disk.
    Done(Final),
}

/// State of the GPUs of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuNews {
    /// GPUs on which no launch may start now.
    pub blocked: BTreeSet<u32>,
    /// GPUs that no job may use, and why.
    pub failed: BTreeMap<u32, Name>,
}

/// Input of the state machine.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeInput {
    /// Orders arrived; the port is free for a new launch.
    Orders(Orders, u16),
    /// A message about one launch.
    Shim(AttemptId, ShimMessage),
    /// The state of the node's GPUs.
    Gpus(GpuNews),
    /// The node manager is about to stop for this time, and its launches are to continue.
    Leave(Millis),
    /// A timeout may have passed.
    Tick,
}

/// Actions, to be executed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEffect {
    /// Write this to disk before any later effect.
    Remember(ClusterId, Epoch, Incarnation, Timers),
    /// Send a report.
    Send(Report),
    /// Start a shim. Its journal must be on disk before it starts a process. The shim receives the
    /// order of the launch and the end of its lease.
    Spawn {
        /// The launch.
        id: AttemptId,
        /// Its fencing number.
        fence: Fence,
        /// Its task.
        task: Arc<Task>,
        /// Rendezvous of the ranks.
        meeting: super::message::Meeting,
        /// Its reserved port.
        port: u16,
        /// End of its lease.
        lease: Millis,
        /// Running time that the time limit of its job leaves.
        time_left: Option<Millis>,
    },
    /// Send a control message to the shim.
    Control(AttemptId, Control),
    /// Notify the processes of the launch that they are stopped after this time.
    Warn(AttemptId, Millis),
    /// The shim is unresponsive: end the launch's processes without it, then report its end.
    Destroy(AttemptId),
    /// Delete the journal of a launch that is over and accounted for.
    Forget(AttemptId),
}

/// Reason for refusing orders. Refusals are counted and are not errors, because messages may be
/// delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// The orders are from an earlier epoch of the scheduler.
    OldEpoch,
    /// The orders are for another session of the node manager.
    OtherSession,
    /// The orders are for an earlier incarnation of the node.
    OldIncarnation,
    /// The orders were repeated or reordered.
    Overtaken,
    /// The orders answer an unknown report, or grant a lease that has ended.
    TooLate,
}

#[derive(Clone, Debug, PartialEq)]
enum Standing {
    Prepared,
    /// A shim runs it.
    Live {
        running: bool,
        stopping: bool,
        /// Last control message to the shim.
        control: Control,
        /// Time by which its shim should have ended it, if it is ending.
        over_by: Option<Millis>,
        destroying: bool,
    },
    Done(Final),
}

impl Standing {
    /// The state of a launch that its shim has the order to run.
    fn live(lease: Millis) -> Self {
        let wish = ShimWish::Run;
        Standing::Live {
            running: false,
            stopping: false,
            control: Control { lease, wish },
            over_by: None,
            destroying: false,
        }
    }
}

#[derive(Clone, Debug)]
struct Local {
    fence: Fence,
    task: Option<Arc<Task>>,
    port: u16,
    lease: Millis,
    /// Length of its lease; `None` before the first order of this session.
    term: Option<Millis>,
    /// Latest end of the lease that its shim may follow.
    held: Millis,
    /// End of the lease that its shim last stated to follow. A shim that states it can follow a
    /// shorter one.
    followed: Option<Millis>,
    standing: Standing,
    reported: JobReport,
    /// True if its processes got a notice in this session.
    warned: bool,
}

impl Local {
    /// Returns false if the shim states another lease than its last control message.
    fn follows(&self, control: &Control) -> bool {
        self.followed.is_none_or(|end| end == control.lease)
    }
}

/// State of the node manager.
#[derive(Clone, Debug)]
pub struct Node {
    timers: Timers,
    who: Identity,
    seq: u64,
    last_orders: u64,
    sent: VecDeque<(u64, Millis)>,
    attempts: BTreeMap<AttemptId, Local>,
    next_report: Millis,
    news: bool,
    /// Length of the planned absence, once the node manager is about to stop.
    absence: Option<Millis>,
    /// First report that announced it; 0 before.
    announced_in: u64,
    /// The scheduler has answered such a report.
    announced: bool,
    refused: BTreeMap<Refused, u64>,
    /// GPUs on which no launch may start now.
    blocked: BTreeSet<u32>,
    /// GPUs that no job may use, and why.
    failed: BTreeMap<u32, Name>,
    /// Why no launch can start.
    no_room: Option<Name>,
    /// Why the health of the GPUs is unknown.
    unknown_health: Option<Name>,
    /// Effects of the current step.
    out: Vec<NodeEffect>,
}

impl Node {
    /// Creates the state at the start of a node manager from the launches of earlier sessions.
    pub fn new(timers: Timers, who: Identity, found: Vec<Found>, now: Millis) -> Self {
        let attempts = found.into_iter().map(|f| {
            let local = Local {
                fence: f.fence,
                task: Some(f.task),
                port: f.port,
                lease: f.lease,
                term: None,
                held: f.lease.max(f.followed.unwrap_or_default()),
                followed: f.followed,
                standing: match f.done {
                    Some(done) => Standing::Done(done),
                    None => Standing::live(f.lease),
                },
                reported: f.reported,
                warned: false,
            };
            (f.id, local)
        });
        Node {
            timers,
            seq: 0,
            last_orders: 0,
            sent: VecDeque::new(),
            attempts: attempts.collect(),
            next_report: now,
            news: true,
            absence: None,
            announced_in: 0,
            announced: false,
            refused: BTreeMap::new(),
            blocked: BTreeSet::new(),
            failed: BTreeMap::new(),
            no_room: None,
            unknown_health: None,
            out: Vec::new(),
            who,
        }
    }

    /// Sets the reason why no launch can start: no room on the disk, or no file descriptor.
    pub fn set_no_room(&mut self, no_room: Option<Name>) {
        self.news |= self.no_room.is_some() != no_room.is_some();
        self.no_room = no_room;
    }

    /// Sets the reason why the health of the GPUs is unknown; `None` if it is known or not checked.
    pub fn set_unknown_health(&mut self, why: Option<Name>) {
        self.news |= self.unknown_health != why;
        self.unknown_health = why;
    }

    /// Returns the timers, which the scheduler determines.
    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Returns the persistent name of the node.
    pub fn key(&self) -> &Name {
        &self.who.node
    }

    /// Returns the address at which other nodes reach this node; empty if it is unknown.
    pub fn address(&self) -> &Name {
        &self.who.address
    }

    /// Changes the address at which other nodes reach this node.
    pub fn set_address(&mut self, address: Name) {
        self.news |= self.who.address != address;
        self.who.address = address;
    }

    /// Returns true if the scheduler knows the planned absence, and all launches have a lease for it.
    pub fn can_leave(&self) -> bool {
        self.announced && self.without_long_lease().next().is_none()
    }

    /// Returns the launches that do not yet have the lease of a planned absence.
    pub fn without_long_lease(&self) -> impl Iterator<Item = AttemptId> + '_ {
        let absence = self.absence.unwrap_or_default();
        let short = move |a: &Local| match &a.standing {
            Standing::Prepared => false,
            Standing::Live { control, .. } => {
                let has_it = a.term >= Some(absence) && a.follows(control);
                control.wish == ShimWish::Run && !has_it
            }
            Standing::Done(_) => false,
        };
        let all = self.attempts.iter();
        all.filter(move |(_, a)| short(a)).map(|(id, _)| *id)
    }

    /// Returns the number of refused orders by reason.
    pub fn refused(&self) -> &BTreeMap<Refused, u64> {
        &self.refused
    }

    /// Processes an input.
    pub fn step(&mut self, now: Millis, input: NodeInput) -> Vec<NodeEffect> {
        self.leases(now);
        match input {
            NodeInput::Orders(orders, port) => match self.check(&orders) {
                Ok(sent) => self.obey(now, orders, sent, port),
                Err(why) => *self.refused.entry(why).or_default() += 1,
            },
            NodeInput::Shim(id, message) => self.shim_message(now, id, message),
            NodeInput::Gpus(gpus) => {
                self.news |= self.failed != gpus.failed;
                (self.blocked, self.failed) = (gpus.blocked, gpus.failed);
            }
            NodeInput::Leave(absence) => {
                self.absence = Some(absence);
                self.news = true;
            }
            NodeInput::Tick => {}
        }
        if self.news || now >= self.next_report {
            self.report(now);
        }
        std::mem::take(&mut self.out)
    }

    /// Returns the time at which the launch is destroyed: half the kill timeout after its shim
    /// should have ended it.
    fn deadline(&self, a: &Local) -> Millis {
        let over_by = match &a.standing {
            Standing::Live { over_by, .. } => *over_by,
            _ => None,
        };
        let by = over_by.map_or(a.lease, |by| by.min(a.lease));
        by + Millis(self.timers.kill.0 / 2)
    }

    fn leases(&mut self, now: Millis) {
        let mut late = Vec::new();
        for (id, a) in &self.attempts {
            match &a.standing {
                Standing::Prepared if now >= a.lease => late.push((*id, true)),
                Standing::Live {
                    destroying: false, ..
                } if now >= self.deadline(a) => late.push((*id, false)),
                _ => {}
            }
        }
        for (id, prepared) in late {
            if prepared {
                self.never_ran(id, "its lease ran out before it was started");
            } else if let Some(a) = self.attempts.get_mut(&id)
                && let Standing::Live { destroying, .. } = &mut a.standing
            {
                *destroying = true;
                self.out.push(NodeEffect::Destroy(id));
            }
        }
    }

    /// Returns the time from which the leases in these orders count.
    fn check(&self, o: &Orders) -> Result<Millis, Refused> {
        if o.session != self.who.session || o.node != self.who.node {
            return Err(Refused::OtherSession);
        }
        // Numbers of another cluster are not comparable.
        if !self.is_of_another(o) {
            if o.epoch < self.who.epoch {
                return Err(Refused::OldEpoch);
            }
            if o.incarnation < self.who.incarnation {
                return Err(Refused::OldIncarnation);
            }
            if o.epoch == self.who.epoch && o.seq <= self.last_orders {
                return Err(Refused::Overtaken);
            }
        }
        let sent = self.sent.iter().find(|(seq, _)| *seq == o.reply_to);
        let (_, sent) = sent.ok_or(Refused::TooLate)?;
        Ok(*sent)
    }

    fn is_of_another(&self, o: &Orders) -> bool {
        let known = self.who.cluster.as_ref();
        known.is_some_and(|known| *known != o.cluster)
    }

    fn obey(&mut self, now: Millis, o: Orders, sent: Millis, port: u16) {
        let another = self.is_of_another(&o);
        if !another {
            self.announced |= self.announced_in > 0 && o.reply_to >= self.announced_in;
            let adopted = self.adopt(now, &o);
            self.remember(&o, adopted);
        }
        for order in o.orders.iter().cloned() {
            let term = order.lease.unwrap_or(FIRST_LEASE.min(self.timers.lease));
            match order.wish {
                Wish::Kill => self.follow(now, order, sent, term, port),
                // A scheduler of another cluster can only kill launches.
                _ if another => {}
                _ if now >= sent + term => {
                    *self.refused.entry(Refused::TooLate).or_default() += 1;
                }
                _ => self.follow(now, order, sent, term, port),
            }
        }
        for id in &o.forget {
            let over = |a: &Local| matches!(a.standing, Standing::Done(_));
            if self.attempts.get(id).is_some_and(over) {
                self.attempts.remove(id);
                self.out.push(NodeEffect::Forget(*id));
            }
        }
        // A node changes its cluster only without launches, because launch ids of two clusters may
        // be equal.
        if another && self.attempts.is_empty() {
            self.remember(&o, false);
            // Orders that answer an earlier report may come from the previous cluster.
            self.sent.clear();
            self.news = true;
        }
    }

    /// Adopts the timers of the scheduler. Returns true if they are new.
    fn adopt(&mut self, now: Millis, o: &Orders) -> bool {
        let new = o.timers.filter(|timers| *timers != self.timers);
        if let Some(timers) = new {
            self.timers = timers;
            self.next_report = self.next_report.min(now + timers.heartbeat);
        }
        new.is_some()
    }

    fn remember(&mut self, o: &Orders, adopted: bool) {
        let known = (self.who.epoch, self.who.incarnation) == (o.epoch, o.incarnation);
        if adopted || !known || self.who.cluster.as_ref() != Some(&o.cluster) {
            self.who.cluster = Some(o.cluster.clone());
            (self.who.epoch, self.who.incarnation) = (o.epoch, o.incarnation);
            self.out.push(NodeEffect::Remember(
                o.cluster.clone(),
                o.epoch,
                o.incarnation,
                self.timers,
            ));
        }
        self.last_orders = o.seq;
    }

    fn follow(&mut self, now: Millis, order: Order, sent: Millis, term: Millis, port: u16) {
        let lease = sent + term;
        let Order {
            id,
            fence,
            wish,
            task,
            leaves_in,
            time_left,
            lease: _,
        } = order;
        if !self.attempts.contains_key(&id) && !self.take_in(id, fence, &wish, task, lease, port) {
            return;
        }
        let Some(a) = self.attempts.get_mut(&id) else {
            return;
        };
        if a.fence != fence {
            return;
        }
        if !matches!(wish, Wish::Kill) {
            // Orders of a scheduler or a manager that is back replace the long lease of a planned
            // absence. The shorter lease must leave time for the next renewal, and its shim must be
            // able to follow it.
            let live = matches!(a.standing, Standing::Live { .. });
            let shorter = a.term.is_none_or(|before| before > term);
            let in_time = now + self.timers.margin < lease;
            if lease >= a.lease || (shorter && in_time && (a.followed.is_some() || !live)) {
                (a.lease, a.term) = (lease, Some(term));
            }
            // A shim follows the longer lease until it states otherwise.
            a.held = match live {
                true => a.held.max(a.lease),
                false => a.lease,
            };
        }
        let lease = a.lease;
        match (&mut a.standing, wish) {
            (Standing::Done(_), _) | (Standing::Prepared, Wish::Prepare) => {}
            (Standing::Prepared, Wish::Run(meeting)) => {
                let Some(task) = a.task.clone() else { return };
                // The launch waits until its GPUs are free. The scheduler aborts it after a while.
                if task.gpus.iter().any(|gpu| self.blocked.contains(gpu)) {
                    return;
                }
                a.standing = Standing::live(lease);
                let port = a.port;
                self.news = true;
                self.out.push(NodeEffect::Spawn {
                    id,
                    fence,
                    task,
                    meeting,
                    port,
                    lease,
                    time_left,
                });
            }
            (Standing::Prepared, Wish::Yield(_) | Wish::Kill) => {
                self.never_ran(id, "called off before it was started");
            }
            (
                Standing::Live {
                    control, over_by, ..
                },
                wish,
            ) => {
                let by = match wish {
                    Wish::Yield(grace) => Some(now + grace),
                    Wish::Kill => Some(now),
                    _ => None,
                };
                if let Some(by) = by {
                    // A repeated order does not extend the time.
                    *over_by = Some(over_by.map_or(by, |before| before.min(by)));
                }
                let wish = match wish {
                    Wish::Prepare | Wish::Run(_) => control.wish,
                    Wish::Yield(grace) => match control.wish {
                        ShimWish::Run => ShimWish::Yield(grace),
                        ShimWish::Yield(before) => ShimWish::Yield(before.min(grace)),
                        ShimWish::Kill => ShimWish::Kill,
                    },
                    Wish::Kill => ShimWish::Kill,
                };
                let next = Control { lease, wish };
                if *control != next {
                    *control = next;
                    self.out.push(NodeEffect::Control(id, next));
                }
            }
        }
        if let (Some(left), Some(a)) = (leaves_in, self.attempts.get_mut(&id))
            && matches!(a.standing, Standing::Live { .. })
            && !a.warned
        {
            a.warned = true;
            self.out.push(NodeEffect::Warn(id, left));
        }
    }

    /// Adds a new launch. Returns `false` if the order needs no further action.
    fn take_in(
        &mut self,
        id: AttemptId,
        fence: Fence,
        wish: &Wish,
        task: Option<Arc<Task>>,
        lease: Millis,
        port: u16,
    ) -> bool {
        self.news = true;
        let refusal = match (wish, &task) {
            (Wish::Yield(_) | Wish::Kill, _) => {
                Some("called off before the node received it".to_owned())
            }
            (_, None) => Some("the node does not know what it is".to_owned()),
            (_, Some(task)) => self.in_the_way(id, task),
        };
        let over = refusal.is_some();
        let standing = match refusal {
            Some(why) => Standing::Done(Final::never(why)),
            None => Standing::Prepared,
        };
        let port = match &task {
            Some(task) if task.node_rank == 0 => port,
            _ => 0,
        };
        let local = Local {
            fence,
            task,
            port,
            lease,
            term: None,
            held: lease,
            followed: None,
            standing,
            reported: JobReport::default(),
            warned: false,
        };
        self.attempts.insert(id, local);
        !over
    }

    /// Returns the reason why the GPUs of a launch are not available.
    fn in_the_way(&self, id: AttemptId, task: &Task) -> Option<String> {
        if let Some(gpu) = task.gpus.iter().find(|g| **g >= self.who.offer.gpus) {
            return Some(format!("the node has no GPU {gpu}"));
        }
        let held = |gpu: &u32| {
            let (mut used, mut holder) = (Used::default(), None);
            for (other, a) in &self.attempts {
                let there = |theirs: &&Arc<Task>| {
                    let over = *other == id || matches!(a.standing, Standing::Done(_));
                    !over && theirs.gpus.contains(gpu)
                };
                if let Some(theirs) = a.task.as_ref().filter(there) {
                    used.add(theirs.share);
                    holder.get_or_insert(other);
                }
            }
            holder.filter(|_| !used.has_room(task.share))
        };
        let (gpu, other) = task.gpus.iter().find_map(|gpu| Some((gpu, held(gpu)?)))?;
        Some(match task.share.is_whole() {
            true => format!("GPU {gpu} is held by {other}"),
            false => format!("GPU {gpu} has too little left beside {other}"),
        })
    }

    fn never_ran(&mut self, id: AttemptId, why: &str) {
        if let Some(a) = self.attempts.get_mut(&id) {
            a.standing = Standing::Done(Final::never(why));
            self.news = true;
        }
    }

    fn shim_message(&mut self, now: Millis, id: AttemptId, message: ShimMessage) {
        let Some(a) = self.attempts.get_mut(&id) else {
            return;
        };
        // Longest time that a shim needs to end its launch. At a time limit, that is the grace.
        let limited = |task: &&Arc<Task>| {
            let attributes = &task.spec.extras().attributes;
            attributes.contains_key("time_limit_s")
        };
        let limited = a.task.as_ref().filter(limited);
        let grace = limited.map_or(Millis(0), |task| grace_of(&task.spec, &self.timers));
        let ends_by = now + grace.max(self.timers.margin).max(self.timers.kill);
        let Standing::Live {
            running,
            stopping,
            over_by,
            control,
            ..
        } = &mut a.standing
        else {
            return;
        };
        match message {
            ShimMessage::Lease(end) => {
                a.followed = Some(end);
                // The shim has read the last control message.
                if end == control.lease {
                    a.held = end;
                }
            }
            ShimMessage::Running => self.news |= !std::mem::replace(running, true),
            ShimMessage::Stopping => {
                self.news |= !std::mem::replace(stopping, true);
                over_by.get_or_insert(ends_by);
            }
            // Sent with the next report.
            ShimMessage::JobReport(report) => a.reported = report,
            ShimMessage::Done(done) => {
                a.standing = Standing::Done(done);
                self.news = true;
            }
        }
    }

    fn report(&mut self, now: Millis) {
        self.news = false;
        self.next_report = now + self.timers.heartbeat;
        self.seq += 1;
        if self.absence.is_some() && self.announced_in == 0 {
            self.announced_in = self.seq;
        }
        if self.sent.len() == REMEMBERED_REPORTS {
            self.sent.pop_front();
        }
        self.sent.push_back((self.seq, now));
        let attempts = self.attempts.iter().map(|(id, a)| AttemptReport {
            id: *id,
            fence: a.fence,
            status: match &a.standing {
                Standing::Prepared => Status::Prepared,
                Standing::Live { stopping: true, .. } => Status::Stopping,
                Standing::Live { running: true, .. } => Status::Running,
                Standing::Live { .. } => Status::Starting,
                Standing::Done(done) => Status::Done(done.clone()),
            },
            port: a.port,
            reported: a.reported.clone(),
            lease_left: match &a.standing {
                // Its disk may have refused the control message.
                Standing::Live { control, .. } if !a.follows(control) => None,
                Standing::Prepared | Standing::Live { .. } => Some(a.held - now),
                Standing::Done(_) => None,
            },
        });
        self.out.push(NodeEffect::Send(Report {
            protocol: PROTOCOL,
            absence: self.absence,
            node: self.who.node.clone(),
            boot: self.who.boot.clone(),
            session: self.who.session,
            seq: self.seq,
            cluster: self.who.cluster.clone(),
            epoch: self.who.epoch,
            incarnation: self.who.incarnation,
            offer: Arc::clone(&self.who.offer),
            address: self.who.address.clone(),
            attempts: attempts.collect(),
            trouble: self.no_room.clone(),
            failed_gpus: self.failed.clone(),
            unknown_health: self.unknown_health.clone(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Exit, Meeting};
    use super::*;
    use blox_core::{GpuCount, JobId, JobSpec, Seconds, Share, Time};

    fn node() -> Node {
        let who = Identity {
            node: "n0".into(),
            boot: "b".into(),
            session: Session(1),
            cluster: Some(ClusterId("c".into())),
            epoch: Epoch(1),
            incarnation: Incarnation(1),
            offer: Arc::new(NodeSpec::with_gpus(2)),
            address: "localhost".into(),
        };
        let mut n = Node::new(Timers::default(), who, Vec::new(), Millis(0));
        n.step(Millis(0), NodeInput::Tick);
        n
    }

    fn task(gpus: &[u32]) -> Option<Arc<Task>> {
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
        Some(Arc::new(Task::of_one_rank(spec, gpus)))
    }

    fn id(job: u32) -> AttemptId {
        AttemptId {
            job: JobId(job),
            attempt: 1,
        }
    }

    fn orders(seq: u64, reply_to: u64, list: Vec<(u32, Wish)>) -> NodeInput {
        let order = |(job, wish): (u32, Wish)| Order {
            lease: None,
            id: id(job),
            fence: Fence(1 + u64::from(job)),
            wish,
            task: task(&[0]),
            leaves_in: None,
            time_left: None,
        };
        let orders = Orders {
            protocol: PROTOCOL,
            timers: None,
            node: "n0".into(),
            cluster: ClusterId("c".into()),
            epoch: Epoch(1),
            incarnation: Incarnation(1),
            session: Session(1),
            seq,
            reply_to,
            orders: list.into_iter().map(order).collect(),
            forget: Vec::new(),
        };
        NodeInput::Orders(orders, 29_500)
    }

    fn run() -> Wish {
        Wish::Run(Meeting {
            address: "localhost".into(),
            port: 29_500,
        })
    }

    fn spawned(effects: &[NodeEffect]) -> Vec<(u32, u64)> {
        effects
            .iter()
            .filter_map(|e| match e {
                NodeEffect::Spawn { id, lease, .. } => Some((id.job.0, lease.0)),
                _ => None,
            })
            .collect()
    }

    fn statuses(n: &mut Node, at: u64) -> Vec<(u32, Status)> {
        n.news = true;
        let effects = n.step(Millis(at), NodeInput::Tick);
        match effects.last() {
            Some(NodeEffect::Send(r)) => r
                .attempts
                .iter()
                .map(|a| (a.id.job.0, a.status.clone()))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn running_launch_is_not_forgotten() {
        let mut n = node();
        n.step(Millis(10), orders(1, 1, vec![(0, run())]));
        let NodeInput::Orders(mut early, port) = orders(2, 1, Vec::new()) else {
            panic!("no orders");
        };
        early.forget = vec![id(0)];
        let effects = n.step(Millis(20), NodeInput::Orders(early, port));
        let forgets = |e: &NodeEffect| matches!(e, NodeEffect::Forget(_));
        assert!(!effects.iter().any(forgets), "{effects:?}");
        assert_eq!(statuses(&mut n, 30), [(0, Status::Starting)]);
    }

    #[test]
    fn manager_leaves_once_its_shims_follow_long_leases() {
        let mut n = node();
        n.step(Millis(10), orders(1, 1, vec![(0, run())]));
        let states = |end| NodeInput::Shim(id(0), ShimMessage::Lease(Millis(end)));
        n.step(Millis(20), NodeInput::Shim(id(0), ShimMessage::Running));
        n.step(Millis(30), states(15_000));
        let effects = n.step(Millis(40), NodeInput::Leave(Millis::secs(60)));
        let Some(NodeEffect::Send(report)) = effects.last() else {
            panic!("{effects:?}");
        };
        let NodeInput::Orders(mut long, port) = orders(2, report.seq, vec![(0, run())]) else {
            panic!("no orders");
        };
        long.orders[0].lease = Some(Millis::secs(60));
        n.step(Millis(50), NodeInput::Orders(long, port));
        // The disk may have refused the control message.
        assert!(!n.can_leave());
        let mut left = |at| {
            n.news = true;
            match n.step(Millis(at), NodeInput::Tick).last() {
                Some(NodeEffect::Send(r)) => r.attempts[0].lease_left,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(left(60), None);
        n.step(Millis(70), states(60_040));
        assert!(n.can_leave());
    }

    #[test]
    fn lease_starts_when_the_answered_report_was_sent() {
        let mut n = node(); // sent report 1 at 0
        let e = n.step(Millis(4_000), orders(1, 1, vec![(0, run())]));
        assert_eq!(spawned(&e), [(0, 15_000)]);
        // A repeated order does not start it again.
        let e = n.step(Millis(4_001), orders(2, 1, vec![(0, run())]));
        assert_eq!(spawned(&e), []);
    }

    #[test]
    fn orders_overtaken_late_or_of_other_life_are_refused() {
        let mut n = node();
        n.step(Millis(10), orders(2, 1, vec![(0, Wish::Kill)]));
        let e = n.step(Millis(20), orders(1, 1, vec![(0, run())]));
        assert_eq!(spawned(&e), []);
        assert_eq!(n.refused()[&Refused::Overtaken], 1);
        let e = n.step(Millis(15_000), orders(3, 1, vec![(1, run())]));
        assert_eq!(spawned(&e), []);
        assert_eq!(n.refused()[&Refused::TooLate], 1);
        let NodeInput::Orders(mut o, _) = orders(4, 2, vec![(1, run())]) else {
            unreachable!()
        };
        o.epoch = Epoch(0);
        n.step(Millis(15_001), NodeInput::Orders(o.clone(), 1));
        (o.epoch, o.session) = (Epoch(1), Session(7));
        n.step(Millis(15_001), NodeInput::Orders(o.clone(), 1));
        (o.session, o.incarnation) = (Session(1), Incarnation(0));
        let e = n.step(Millis(15_001), NodeInput::Orders(o, 1));
        assert_eq!(spawned(&e), []);
        assert_eq!(n.refused().values().sum::<u64>(), 5);
    }

    #[test]
    fn order_with_another_fence_is_ignored() {
        let mut n = node();
        n.step(Millis(1_000), orders(1, 1, vec![(0, run())]));
        for (seq, wish) in [(2, run()), (3, Wish::Kill)] {
            // A scheduler with an old copy of the log has granted the launch number again.
            let NodeInput::Orders(mut other, port) = orders(seq, 2, vec![(0, wish)]) else {
                unreachable!()
            };
            other.orders[0].fence = Fence(9);
            let e = n.step(Millis(2_000), NodeInput::Orders(other, port));
            assert!(n.refused().is_empty());
            assert!(
                !e.iter().any(|e| matches!(e, NodeEffect::Control(..))),
                "{e:?}"
            );
        }
    }

    #[test]
    fn node_of_another_cluster_ends_its_launches_first() {
        let mut n = node();
        n.step(Millis(10), orders(1, 1, vec![(0, run())]));
        let of_other = |seq, reply_to, list, forget| {
            let NodeInput::Orders(mut o, port) = orders(seq, reply_to, list) else {
                unreachable!()
            };
            (o.cluster, o.epoch) = (ClusterId("d".into()), Epoch(0));
            (o.incarnation, o.forget) = (Incarnation(0), forget);
            NodeInput::Orders(o, port)
        };
        // The same launch id and fencing number.
        let e = n.step(
            Millis(20),
            of_other(0, 1, vec![(0, run()), (1, run())], vec![]),
        );
        assert_eq!(e, []);
        let e = n.step(Millis(30), of_other(0, 1, vec![(0, Wish::Kill)], vec![]));
        assert!(
            matches!(&e[..], [NodeEffect::Control(_, c)] if c.wish == ShimWish::Kill),
            "{e:?}"
        );
        let over = ShimMessage::Done(Final::never(""));
        n.step(Millis(40), NodeInput::Shim(id(0), over));
        let e = n.step(Millis(50), of_other(0, n.seq, vec![], vec![id(0)]));
        let [
            NodeEffect::Forget(_),
            NodeEffect::Remember(cluster, epoch, _, _),
            NodeEffect::Send(report),
        ] = &e[..]
        else {
            panic!("{e:?}")
        };
        assert_eq!((cluster.0.as_str(), *epoch), ("d", Epoch(0)));
        assert_eq!(report.cluster.as_ref(), Some(cluster));
        // Late orders of the previous cluster are refused.
        let e = n.step(Millis(60), orders(9, 1, vec![(1, run())]));
        assert_eq!(e, []);
        assert_eq!(n.refused()[&Refused::TooLate], 1);
        let e = n.step(Millis(70), of_other(1, n.seq, vec![(0, run())], vec![]));
        assert_eq!(spawned(&e).len(), 1);
    }

    #[test]
    fn gpus_are_given_once() {
        let mut n = node();
        n.step(Millis(10), orders(1, 1, vec![(0, run())]));
        let e = n.step(
            Millis(20),
            orders(2, 1, vec![(0, run()), (1, Wish::Prepare)]),
        );
        assert_eq!(spawned(&e), []);
        let after = statuses(&mut n, 30);
        assert!(
            matches!(&after[1], (1, Status::Done(f)) if f.why == "GPU 0 is held by 0.1"),
            "{after:?}"
        );
    }

    #[test]
    fn gpu_is_shared_only_by_overlapping_jobs() {
        let order = |job: u32, share: Share| {
            let mut task = task(&[0]).unwrap();
            Arc::get_mut(&mut task).unwrap().share = share;
            Order {
                lease: None,
                id: id(job),
                fence: Fence(1 + u64::from(job)),
                wish: run(),
                task: Some(task),
                leaves_in: None,
                time_left: None,
            }
        };
        let mut n = node();
        let NodeInput::Orders(mut orders, lease) = orders(1, 1, Vec::new()) else {
            panic!("orders expected");
        };
        let packed = Share::WHOLE.overlapping();
        orders.orders = vec![order(0, Share::WHOLE), order(1, packed)];
        orders.orders.push(order(2, packed));
        orders.orders.push(order(3, Share::WHOLE));
        let e = n.step(Millis(10), NodeInput::Orders(orders, lease));
        assert_eq!(spawned(&e).len(), 3);
        let after = statuses(&mut n, 20);
        assert!(
            matches!(&after[3], (3, Status::Done(f)) if f.why == "GPU 0 is held by 0.1"),
            "{after:?}"
        );
    }

    #[test]
    fn notice_reaches_the_processes_once() {
        let mut n = node();
        let mut warned = |seq, wish, left: Option<u64>| {
            let NodeInput::Orders(mut orders, port) = orders(seq, 1, vec![(0, wish)]) else {
                panic!("orders expected");
            };
            orders.orders[0].leaves_in = left.map(Millis);
            let effects = n.step(Millis(10 * seq), NodeInput::Orders(orders, port));
            effects.into_iter().find_map(|e| match e {
                NodeEffect::Warn(_, left) => Some(left.0),
                _ => None,
            })
        };
        // A launch that has not started has no processes.
        assert_eq!(warned(1, Wish::Prepare, Some(900)), None);
        assert_eq!(warned(2, run(), None), None);
        assert_eq!(warned(3, run(), Some(700)), Some(700));
        assert_eq!(warned(4, run(), Some(600)), None);
    }

    #[test]
    fn reservation_and_stalled_shim_end_with_the_lease() {
        let mut n = node();
        n.step(Millis(10), orders(1, 1, vec![(0, Wish::Prepare)]));
        assert_eq!(statuses(&mut n, 20), [(0, Status::Prepared)]);
        let after = statuses(&mut n, 15_000);
        assert!(matches!(&after[0].1, Status::Done(f) if f.exit == Exit::NeverRan));
        let mut n = node();
        n.step(Millis(10), orders(1, 1, vec![(0, run())]));
        let e = n.step(Millis(17_500), NodeInput::Tick);
        assert_eq!(e[0], NodeEffect::Destroy(id(0)));
        let gone = ShimMessage::Done(Final::unobserved(Exit::Lost, Millis(5), "gone"));
        n.step(Millis(17_600), NodeInput::Shim(id(0), gone));
        let after = statuses(&mut n, 17_700);
        assert!(matches!(&after[0].1, Status::Done(f) if f.exit == Exit::Lost));
    }

    #[test]
    fn shim_stalled_while_stopping_is_destroyed() {
        let mut n = node();
        n.step(Millis(10), orders(1, 1, vec![(0, run())]));
        n.step(Millis(20), NodeInput::Shim(id(0), ShimMessage::Stopping));
        n.step(Millis(7_000), NodeInput::Tick);
        n.step(Millis(7_010), orders(2, n.seq, vec![(0, run())]));
        n.step(Millis(7_015), NodeInput::Shim(id(0), ShimMessage::Stopping));
        let destroyed = |e: Vec<NodeEffect>| e.contains(&NodeEffect::Destroy(id(0)));
        // Five seconds, plus half the kill timeout.
        assert!(!destroyed(n.step(Millis(7_519), NodeInput::Tick)));
        assert!(destroyed(n.step(Millis(7_520), NodeInput::Tick)));
    }

    #[test]
    fn shim_at_a_time_limit_has_the_grace_of_its_job() {
        let mut n = node();
        let mut extras = blox_core::Extras::default();
        for (name, secs) in [("time_limit_s", 10), ("grace_s", 60)] {
            extras.attributes.insert(name.into(), secs.into());
        }
        let mut limited = (*task(&[0]).unwrap()).clone();
        limited.spec = Arc::new((*limited.spec).clone().with_extras(extras));
        let mut first = orders(1, 1, vec![(0, run())]);
        if let NodeInput::Orders(all, _) = &mut first {
            all.orders[0].task = Some(Arc::new(limited));
        }
        n.step(Millis(10), first);
        n.step(Millis(20), NodeInput::Shim(id(0), ShimMessage::Stopping));
        let destroyed = |e: Vec<NodeEffect>| e.contains(&NodeEffect::Destroy(id(0)));
        for secs in 1..62 {
            let seq = 1 + secs;
            n.step(Millis(secs * 1_000), NodeInput::Tick);
            n.step(
                Millis(secs * 1_000 + 5),
                orders(seq, n.seq, vec![(0, run())]),
            );
            assert!(
                !destroyed(n.step(Millis(secs * 1_000 + 10), NodeInput::Tick)),
                "{secs}"
            );
        }
        assert!(destroyed(n.step(Millis(62_600), NodeInput::Tick)));
    }

    #[test]
    fn a_shorter_grace_reaches_the_shim() {
        let mut n = node();
        n.step(Millis(10), orders(1, 1, vec![(0, run())]));
        let mut wish_sent = |at, seq, grace| {
            let yields = Wish::Yield(Millis(grace));
            let effects = n.step(Millis(at), orders(seq, 1, vec![(0, yields)]));
            effects.iter().find_map(|e| match e {
                NodeEffect::Control(_, control) => Some(control.wish),
                _ => None,
            })
        };
        let yields = |grace| Some(ShimWish::Yield(Millis(grace)));
        assert_eq!(wish_sent(1_000, 2, 9_000), yields(9_000));
        assert_eq!(wish_sent(2_000, 3, 5_000), yields(5_000));
        // A longer grace period has no effect.
        assert_eq!(wish_sent(3_000, 4, 9_000), None);
    }
}
