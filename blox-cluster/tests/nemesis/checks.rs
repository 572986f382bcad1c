//! Invariants of the cluster.
//!
//! - I1: no acknowledged job is lost, and none is invented.
//! - I2: no two launches of a job run at the same time.
//! - I3: no GPU has processes of launches whose shares are more than the GPU.
//! - I4: no process is left at the end.
//! - I5: every launch is accounted for once, with its running time. Work that is known to be
//!   complete is not repeated.
//! - I6: once fault injection ends, all jobs end within a time limit.
//! - I7: no number is assigned twice.
//! - I8: at the end, no launch is open, every job has an expected outcome, and every node is up and
//!   free. A replay of the log gives the same state.
//! - I9: a job's metrics come from its last launch.
//! - I10: the policy has one question at a time.
//! - I11: a process starts with the address and port of the launch's first node.
//! - I12: no launch is ordered onto GPUs that another launch holds.
//! - I13: after each start and at the end, the scheduler, the policy's copy and its memory have the
//!   state of all records on the disk.
//! - I14: the operator receives one notice of each node that joins, leaves, is lost, returns or is drained.
//! - I16: a request to the provider of nodes is made once it is on disk. The same number is the
//!   same request. A node has one request at a time. The core waits only for open requests.
//! - I17: a request ends within a time limit, also across restarts.
//! - I18: a growth ends once all its nodes have joined, or with an event that states its failure.
//! - I19: no launch that got a long lease notices the planned absence of the scheduler or of its node
//!   manager.
//! - I20: a tick completes every transition that a visit of all launches, nodes and retries finds.
//! - I21: a job that fits into the free GPUs is placed within a time limit, once fault injection has
//!   ended.
//! - I22: a process starts once all nodes of its launch have reserved their GPUs.
//! - I23: a node counts as lost only after silence, in which the scheduler was awake and had room.
//! - I24: the times of events on disk do not fall, whatever the wall clock does.
//! - I25: a scheduler with an old copy of the log orders nothing on nodes that have followed a
//!   later start.
//! - I15: the policy and the observers receive each input once, in order, and after it is on disk.

use blox_cluster::protocol::message::{Meeting, Status, Task};
use blox_cluster::protocol::scheduler::Controller;
use blox_cluster::protocol::{AttemptId, Exit, NodeRequest, PartId, Record, Report};
use blox_core::{
    ActionId, Event, Input, JobId, Name, NodeAction, NodeActionKind, NodeId, NodeStatus, Outcome,
    Share, Time, Used, Wanted,
};
use std::collections::{BTreeMap, BTreeSet};

/// Metric whose value is the launch number.
pub const LAUNCH: &str = "launch";

/// Processes of one launch on one node, in true time.
#[derive(Clone, Debug)]
pub struct Work {
    pub id: AttemptId,
    pub node: usize,
    pub gpus: Vec<u32>,
    pub share: Share,
    pub from: u64,
    pub to: Option<u64>,
}

/// Observations of an external observer.
#[derive(Debug, Default)]
pub struct Checks {
    pub ledger: Vec<Work>,
    /// Jobs acknowledged to clients.
    pub acknowledged: BTreeMap<Name, JobId>,
    /// Number of submissions of each job in the log.
    submitted: BTreeMap<JobId, u64>,
    pub ended: BTreeMap<JobId, Outcome>,
    keys: BTreeMap<Name, JobId>,
    last_fence: u64,
    parts: BTreeSet<PartId>,
    /// Last launch of each job, its number of nodes, and its ends by node.
    last: BTreeMap<JobId, (AttemptId, usize, BTreeMap<NodeId, Exit>)>,
    /// Inputs of the core on disk, oldest first.
    inputs: Vec<Input>,
    /// Numbers of these inputs that the observers and the policy have received.
    received: (usize, usize),
    /// All requests to the provider on disk, and those that have ended.
    requests: BTreeMap<ActionId, NodeRequest>,
    resolved: BTreeSet<ActionId>,
    accepted: BTreeSet<ActionId>,
    /// Time at which each request last left.
    made: BTreeMap<ActionId, u64>,
    /// Names of all nodes that ever joined.
    joined: BTreeSet<Name>,
    /// Time of the last event on disk.
    last_at: Time,
    /// Launches that nodes have reserved GPUs for.
    reserved: BTreeSet<(AttemptId, Name)>,
    /// Number of notices that the operator should have received after each entry of the log.
    notices: Vec<usize>,
}

impl Checks {
    /// Records the start of a launch's processes on a node.
    pub fn begin(
        &mut self,
        now: u64,
        id: AttemptId,
        node: usize,
        (gpus, share): (&[u32], Share),
    ) -> Result<usize, String> {
        let mut used: BTreeMap<u32, Used> = BTreeMap::new();
        for w in self.ledger.iter().filter(|w| w.to.is_none()) {
            if w.id.job == id.job && w.id.attempt != id.attempt {
                return Err(format!(
                    "I2: {id} begins on node {node} at {now} while {} works on node {} since {}",
                    w.id, w.node, w.from
                ));
            }
            for gpu in w.gpus.iter().filter(|g| w.node == node && gpus.contains(g)) {
                let used = used.entry(*gpu).or_default();
                used.add(w.share);
                if !used.has_room(share) {
                    return Err(format!(
                        "I3: {id} begins on node {node} at {now} on GPU {gpu} of {}",
                        w.id
                    ));
                }
            }
        }
        if let Some(outcome) = self.ended.get(&id.job) {
            return Err(format!("I1: {id} begins at {now}, its job is {outcome:?}"));
        }
        self.ledger.push(Work {
            id,
            node,
            gpus: gpus.to_vec(),
            share,
            from: now,
            to: None,
        });
        Ok(self.ledger.len() - 1)
    }

    /// Records that log records are on disk.
    pub fn logged(&mut self, records: &[Record]) -> Result<(), String> {
        let mut notices = self.notices.last().copied().unwrap_or(0);
        for record in records {
            if let Record::Core(input) = record {
                self.inputs.push(input.clone());
                if let Input::Event { at, event } = input {
                    if *at < self.last_at {
                        return Err(format!(
                            "I24: {event:?} at {at:?}, after {:?}",
                            self.last_at
                        ));
                    }
                    self.last_at = *at;
                }
                let is_notice = matches!(
                    input,
                    Input::Event {
                        event: Event::NodeJoined { .. }
                            | Event::NodeLost { .. }
                            | Event::NodeReturned { .. }
                            | Event::NodeLeft { .. }
                            | Event::NodeActionFailed { .. }
                            | Event::NodeManaged {
                                action: NodeAction::Cordon { .. },
                            },
                        ..
                    }
                );
                notices += usize::from(is_notice);
            }
        }
        self.notices.push(notices);
        for record in records {
            match record {
                Record::Requested { request, .. } => {
                    let new = self.requests.insert(request.id, (**request).clone());
                    if new.is_some() {
                        return Err(format!("I16: action {} is requested twice", request.id));
                    }
                }
                Record::Accepted { id } => {
                    self.accepted.insert(*id);
                }
                Record::Resolved { id, failed } => self.resolves(*id, *failed, records)?,
                Record::Core(Input::Event { event, .. }) => self.event(event)?,
                Record::Key { key, job } => {
                    if let Some(other) = self.keys.insert(key.clone(), *job) {
                        return Err(format!("I7: key {key} is job {other} and job {job}"));
                    }
                }
                Record::Granted { id, fence, launch } => {
                    if fence.0 <= self.last_fence {
                        return Err(format!("I7: {id} has grant {} again", fence.0));
                    }
                    self.last_fence = fence.0;
                    let new = (*id, launch.parts.len(), BTreeMap::new());
                    if let Some((old, nodes, exits)) = self.last.insert(id.job, new)
                        // A change is called off if the launch that it replaces ends in the same
                        // step.
                        && launch.after != Some(old)
                        && exits.len() == nodes
                        && exits.values().all(|e| *e == Exit::Completed)
                    {
                        return Err(format!("I5: {old} has done the work, {id} does it again"));
                    }
                }
                Record::Part { part, end } => {
                    if !end.estimated && !self.parts.insert(*part) {
                        return Err(format!("I5: {part:?} is accounted for twice"));
                    }
                    if let Some((_, _, exits)) =
                        self.last.get_mut(&part.id.job).filter(|l| l.0 == part.id)
                    {
                        exits.insert(part.node, end.exit);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Records that the scheduler starts. The policy and the observers start from its log.
    pub fn restarts(&mut self) {
        self.received = (self.inputs.len(), self.inputs.len());
    }

    /// Records that the observers receive an input.
    pub fn observes(&mut self, input: &Input) -> Result<(), String> {
        self.received.0 += 1;
        self.receives("the observers", self.received.0, input)
    }

    /// Records that the policy receives an input.
    pub fn policy_receives(&mut self, input: &Input) -> Result<(), String> {
        self.received.1 += 1;
        self.receives("the policy", self.received.1, input)
    }

    fn receives(&self, receiver: &str, number: usize, input: &Input) -> Result<(), String> {
        match self.inputs.get(number - 1) == Some(input) {
            true => Ok(()),
            false => Err(format!(
                "I15: {receiver} receive {input:?} as input {number} of {} on disk",
                self.inputs.len()
            )),
        }
    }

    /// Checks that the policy and the observers have received all inputs on disk.
    pub fn all_received(&self) -> Result<(), String> {
        match self.received == (self.inputs.len(), self.inputs.len()) {
            true => Ok(()),
            false => Err(format!(
                "I15: observers and policy have {:?} of {} inputs",
                self.received,
                self.inputs.len()
            )),
        }
    }

    /// Returns the number of notices about the entries of the log from a number of entries on.
    pub fn notices_since(&self, entries: usize) -> usize {
        let before = entries.checked_sub(1).map_or(0, |i| self.notices[i]);
        self.notices.last().copied().unwrap_or(0) - before
    }

    /// Records that a node manager starts a shim with this rendezvous.
    pub fn meets(&self, id: AttemptId, task: &Task, meeting: &Meeting) -> Result<(), String> {
        if meeting.port == 0 || task.nodes.first() != Some(&meeting.address) {
            return Err(format!("I11: {id} meets at {meeting:?}"));
        }
        let has = |node: &&Name| !self.reserved.contains(&(id, (*node).clone()));
        match task.nodes.iter().find(has) {
            Some(node) => Err(format!(
                "I22: {id} starts, and {node} has not reserved its GPUs"
            )),
            None => Ok(()),
        }
    }

    /// Records that a node manager sends a report.
    pub fn reported(&mut self, report: &Report) -> Result<(), String> {
        for a in &report.attempts {
            self.reserved.insert((a.id, report.node.clone()));
            if let Status::Done(end) = &a.status
                && (end.why.contains("is held by") || end.why.contains("too little left"))
            {
                return Err(format!("I12: {} on {}: {}", a.id, report.node, end.why));
            }
        }
        Ok(())
    }

    /// Records that a request has ended.
    fn resolves(&mut self, id: ActionId, failed: bool, entry: &[Record]) -> Result<(), String> {
        let Some(request) = self.requests.get(&id).filter(|_| self.resolved.insert(id)) else {
            return Err(format!("I16: action {id} ends, but it is not open"));
        };
        let reported = entry.iter().any(|record| {
            matches!(record, Record::Core(Input::Event { event: Event::NodeActionFailed { id: other, .. }, .. }) if *other == id)
        });
        let grows = request.action == NodeActionKind::Grow;
        let missing = request
            .names
            .iter()
            .find(|name| !self.joined.contains(*name));
        match (failed, missing) {
            (true, _) if !reported => Err(format!("I18: action {id} fails without an event")),
            (false, Some(name)) if grows => Err(format!(
                "I18: action {id} is over, but {name} has not joined"
            )),
            _ => Ok(()),
        }
    }

    /// Records that a request leaves for the provider.
    pub fn provides(&mut self, now: u64, request: &NodeRequest) -> Result<(), String> {
        let id = request.id;
        if self.requests.get(&id) != Some(request) {
            return Err(format!(
                "I16: {request} is not on disk, or is another request"
            ));
        }
        let open = |(other, _): &(&ActionId, &NodeRequest)| !self.resolved.contains(*other);
        for (other, before) in self.requests.range(..id).filter(open) {
            // It is not made again.
            let grows = before.action == NodeActionKind::Grow && self.accepted.contains(other);
            if !grows && before.names.iter().any(|name| request.names.contains(name)) {
                return Err(format!("I16: {request}, but action {other} is open"));
            }
        }
        if self.accepted.contains(&id) {
            return Err(format!("I16: {request} was accepted, and is made again"));
        }
        self.made.insert(id, now);
        Ok(())
    }

    /// Checks that what the core waits for was requested, and ends in time. `since` is the start of
    /// this run of the scheduler, and `limit` the longest time of a request.
    pub fn waits_rightly(
        &self,
        s: &Controller,
        now: u64,
        since: u64,
        limit: u64,
    ) -> Result<(), String> {
        let open = &s.launches().durable().requests;
        let cluster = s.view().cluster();
        let wanted = cluster.nodes().iter().filter_map(|n| match n.wanted()? {
            Wanted::On(id) | Wanted::Leave(id) => Some(id),
            _ => None,
        });
        let growing = cluster.growing().iter().map(|growth| growth.id);
        for id in wanted.chain(growing) {
            if !open.contains_key(&id) {
                return Err(format!(
                    "I16: the core waits for action {id}, which is not open"
                ));
            }
        }
        for id in open.keys() {
            let made = self.made.get(id).copied().unwrap_or(0).max(since);
            if now > made + limit {
                return Err(format!("I17: action {id} is open since {made}"));
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::NodeJoined { spec } => self.joined.extend(spec.name.clone()),
            Event::Metric { job, name, value } if name.as_str() == LAUNCH => {
                let last = self.last.get(job).map(|(id, ..)| f64::from(id.attempt));
                if last != Some(*value) {
                    return Err(format!(
                        "I9: launch {value} of job {job} speaks, not {last:?}"
                    ));
                }
            }
            Event::Submitted { job, .. } => {
                *self.submitted.entry(*job).or_default() += 1;
                if self.submitted[job] > 1 {
                    return Err(format!("I7: job {job} came in twice"));
                }
            }
            Event::Ended { job, outcome } if self.ended.insert(*job, *outcome).is_some() => {
                return Err(format!("I1: job {job} ended twice"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Records that a client has received the number of its job.
    pub fn acknowledge(&mut self, key: &Name, job: JobId) -> Result<(), String> {
        if let Some(other) = self.acknowledged.insert(key.clone(), job)
            && other != job
        {
            return Err(format!("I7: {key} was answered with {other}, then {job}"));
        }
        let twice = self.acknowledged.iter().any(|(k, j)| *j == job && k != key);
        if twice {
            return Err(format!("I7: number {job} was given to two submitters"));
        }
        Ok(())
    }

    /// Returns the submission key of a job according to the log.
    pub fn key_of(&self, job: JobId) -> Option<&Name> {
        self.keys.iter().find(|(_, j)| **j == job).map(|(k, _)| k)
    }

    /// Checks the invariants of a running scheduler.
    pub fn alive(&self, s: &Controller) -> Result<(), String> {
        if s.refused_events() > 0 {
            return Err(format!("core: refused: {}", s.last_refused()));
        }
        for (key, job) in &self.acknowledged {
            let known = s.view().job(*job).is_some() || self.ended.contains_key(job);
            if !known || self.keys.get(key) != Some(job) {
                return Err(format!("I1: job {job} was acknowledged and is not there"));
            }
        }
        Ok(())
    }

    /// Checks the invariants at the end.
    pub fn at_rest(
        &self,
        s: &Controller,
        expected: &BTreeMap<Name, Vec<Outcome>>,
        nodes: &[(Name, u64)],
    ) -> Result<(), String> {
        if let Some(w) = self.ledger.iter().find(|w| w.to.is_none()) {
            return Err(format!("I4: {} is left on node {}", w.id, w.node));
        }
        let mut ran: BTreeMap<PartId, u64> = BTreeMap::new();
        for w in &self.ledger {
            // Under any of the ids that the node has had.
            let (key, clock) = &nodes[w.node];
            let ids = ids_of(s, key)?;
            let part = |node: &NodeId| PartId {
                id: w.id,
                node: *node,
            };
            let accounts = &s.launches().durable().accounts;
            let known = ids.iter().map(part).find(|p| accounts.contains_key(p));
            let part = known.unwrap_or(part(&ids[0]));
            let spent = w.to.unwrap_or(w.from) - w.from;
            *ran.entry(part).or_default() += spent * clock / 1_000_000;
        }
        let durable = s.launches().durable();
        for (part, truth) in &ran {
            let Some(end) = durable.accounts.get(part) else {
                return Err(format!(
                    "I5: {part:?} ran for {truth} ms, not accounted for"
                ));
            };
            // The shim counts frozen time, and killing takes a moment.
            let near = end.ran.0 + 1_000 >= *truth;
            if end.exit != Exit::Lost && !near {
                return Err(format!(
                    "I5: {part:?} ran for {truth} ms, accounted {end:?}"
                ));
            }
        }
        for (part, end) in &durable.accounts {
            // A launch may be called off between the start of its shim and of its first process.
            let worked = matches!(
                end.exit,
                Exit::Completed | Exit::Stopped | Exit::Failed { .. }
            );
            if worked && !ran.contains_key(part) {
                return Err(format!("I5: {part:?} never ran, accounted {end:?}"));
            }
        }
        if let Some(id) = durable.attempts.keys().next() {
            return Err(format!("I8: {id} is still open"));
        }
        if let Some(id) = durable.requests.keys().next() {
            return Err(format!("I17: action {id} is still open"));
        }
        for (key, may) in expected {
            let Some(job) = self.keys.get(key) else {
                continue;
            };
            match self.ended.get(job) {
                Some(outcome) if may.contains(outcome) => {}
                other => return Err(format!("I8: job {job} is {other:?}, expected {may:?}")),
            }
        }
        let cluster = s.view().cluster();
        for node in cluster.nodes() {
            if node.status() == NodeStatus::Left {
                continue;
            }
            let bound = node.gpus().any(|g| cluster.bound_to(g).next().is_some());
            if node.status() != NodeStatus::Up || bound || node.free_count() != node.gpu_count() {
                return Err(format!("I8: node {} is not whole again", node.id()));
            }
        }
        Ok(())
    }
}

fn ids_of(s: &Controller, key: &Name) -> Result<Vec<NodeId>, String> {
    let durable = s.launches().durable();
    let all = durable.left.keys().chain(durable.nodes.keys());
    let ids: Vec<NodeId> = all
        .filter(|id| durable.key_of(**id) == Some(key))
        .copied()
        .collect();
    match ids.is_empty() {
        true => Err(format!("I8: node {key} is unknown")),
        false => Ok(ids),
    }
}
