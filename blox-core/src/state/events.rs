//! Applying events.

use super::{EventError, State};
use crate::cluster::{Drain, Node, NodeStatus, Wanted};
use crate::decision::{AdmissionDecision, AfterDrain, Command, NodeAction};
use crate::event::{Event, Outcome};
use crate::ids::{GpuId, JobId, Name, NameId, NodeId, OfferId};
use crate::job::spec::{Class, JobSpec};
use crate::job::{Before, Bound, JobRef, Phase, Record, Wants};
use crate::model::share::Share;
use crate::reason::Reason;
use crate::units::{AMOUNT, Time, is_amount};
use std::sync::Arc;

impl State {
    pub(super) fn apply_now(&mut self, event: &Event) -> Result<(), EventError> {
        match event {
            Event::Submitted { job, spec } => self.submitted(*job, spec)?,
            Event::Started { job, attempt, rate } => {
                let s = self.current("a start", *job, *attempt, &[Phase::Starting])?;
                number("a start", *job, *rate)?;
                if !self.kept.is_empty() {
                    self.end_kept(s);
                }
                let rec = &mut self.records[s];
                rec.rate = *rate;
                rec.since = self.now;
                rec.first_start.get_or_insert(self.now);
                rec.last_start = Some(self.now);
                rec.began();
                self.set_phase(s, Phase::Running);
                self.count_busy(s, true);
                // The change is complete, so the previous GPUs are unbound.
                let left = std::mem::take(&mut self.records[s].leaving);
                self.unbind(*job, &left);
            }
            Event::LaunchFailed { job, attempt, why } => {
                // A stop may have been ordered before the failure was reported.
                let starting = [Phase::Starting, Phase::Stopping];
                let s = self.current("a failed launch", *job, *attempt, &starting)?;
                self.records[s].failed_launches += 1;
                self.fall_back(s, Reason::LaunchFailed(why.clone()));
            }
            Event::Ran { job, attempt, secs } => {
                let s = self.known("a length", *job)?;
                number("a length", *job, *secs)?;
                let rec = &mut self.records[s];
                if rec.before.attempt != *attempt {
                    return Err(stale("a length", rec, *attempt));
                }
                rec.ran_for(self.now, *secs);
                self.touch_slot(s);
            }
            Event::Stopped { job, attempt, work } => {
                let s = self.current("a stop", *job, *attempt, &[Phase::Stopping])?;
                if let Some(work) = work {
                    number("a stop", *job, *work)?;
                    self.records[s].work = *work;
                }
                self.leave(s);
                if self.records[s].allocated.is_some() {
                    self.set_phase(s, Phase::Starting);
                    self.dispatch_if_clear(s);
                } else {
                    self.let_wait(s);
                }
            }
            Event::Crashed {
                job,
                attempt,
                work,
                why,
            } => {
                let running = [Phase::Starting, Phase::Running, Phase::Stopping];
                let s = self.current("a crash", *job, *attempt, &running)?;
                number("a crash", *job, *work)?;
                let rec = &mut self.records[s];
                rec.settle(self.now);
                rec.work = *work;
                rec.crashes += 1;
                self.fall_back(s, why.clone());
            }
            Event::Ended { job, outcome } => {
                let s = self.known("an end", *job)?;
                self.ended(s, *outcome);
            }
            Event::Progress {
                job,
                attempt,
                work,
                rate,
            } => {
                let s = self.current("progress", *job, *attempt, &[Phase::Running])?;
                number("progress", *job, *work)?;
                number("progress", *job, *rate)?;
                let rec = &mut self.records[s];
                rec.settle(self.now);
                rec.progressed(*work, *rate);
                self.touch_slot(s);
            }
            Event::BatchChanged { job, config } => {
                let s = self.known("a batch change", *job)?;
                self.records[s].config = config.clone();
                self.touch_slot(s);
            }
            Event::Metric { job, name, value } => {
                let s = self.known("a metric", *job)?;
                // A loss can become NaN. JSON, and thus the journal, cannot represent it.
                if !value.is_finite() {
                    return Err(EventError::NotFinite {
                        job: *job,
                        name: name.clone(),
                        value: *value,
                    });
                }
                let metrics = self.records[s].metrics.get_or_insert_default();
                let series = metrics.entry(name.clone()).or_default();
                series.push((self.now, *value));
                self.touch_slot(s);
            }
            Event::Reported { job, report } => {
                let s = self.known("a report", *job)?;
                if let Some(value) = report.unsound() {
                    let (event, job) = ("a report", *job);
                    return Err(EventError::BadNumber { event, job, value });
                }
                self.records[s].report = Some(Arc::clone(report));
                self.touch_slot(s);
            }
            Event::Hold { job } => {
                let s = self.known("a hold", *job)?;
                let rec = &mut self.records[s];
                use Phase::{Deferred, Submitted, Waiting};
                if !matches!(rec.phase, Submitted | Deferred | Waiting) {
                    return Err(stale("a hold", rec, rec.attempt));
                }
                rec.held_by_user = true;
                rec.reason = Reason::HeldByUser;
                self.set_phase(s, Phase::Deferred);
            }
            Event::Release { job } => {
                let s = self.known("a release", *job)?;
                let rec = &mut self.records[s];
                if !rec.held_by_user {
                    return Err(stale("a release", rec, rec.attempt));
                }
                rec.held_by_user = false;
                rec.reason = Reason::NotYetDecided;
                if rec.accepted_at.is_some() {
                    self.let_wait(s);
                } else {
                    self.set_phase(s, Phase::Submitted);
                    // If the job was held and released before a decision, it is already listed.
                    if !self.asking.contains(job) {
                        self.asking.push(*job);
                    }
                }
            }
            Event::Prioritized { job, priority } => {
                let s = self.known("a priority", *job)?;
                Arc::make_mut(&mut self.records[s].spec).priority = *priority;
                self.touch_slot(s);
            }
            Event::NodeJoined { spec } => {
                let checked = spec.check();
                checked.map_err(|e| EventError::BadSpec(e.to_string()))?;
                let mut spec = (**spec).clone();
                let partition = spec.partition.as_ref().map(|p| self.names.intern(p));
                self.cluster.now = self.now;
                let offer = self.cluster.fulfil(&mut spec);
                self.cluster.join(spec, partition, offer, self.version);
            }
            Event::NodeLost { node } => {
                self.node_status("a lost node", *node, &[NodeStatus::Up], NodeStatus::Lost)?;
            }
            Event::NodeReturned { node } => {
                self.node_status(
                    "a returning node",
                    *node,
                    &[NodeStatus::Lost, NodeStatus::Off],
                    NodeStatus::Up,
                )?;
                self.cluster.came_back(*node);
            }
            Event::Offered { offer } => {
                let checked = offer.check();
                checked.map_err(|e| EventError::BadSpec(e.to_string()))?;
                self.cluster.now = self.now;
                self.cluster.add_offer(self.version, offer);
            }
            Event::Priced { offer, price } => {
                if !is_amount(*price) {
                    let what = format!("the price of offer {offer} is {price}, expected {AMOUNT}");
                    return Err(EventError::BadSpec(what));
                }
                self.cluster.now = self.now;
                if !self.cluster.set_price(self.version, *offer, *price) {
                    return unknown("a price", format!("offer {offer}"));
                }
            }
            Event::Reclaimed { offer, count } => self.reclaimed(*offer, *count)?,
            Event::NodeActionFailed { id, node, why } => {
                self.cluster.now = self.now;
                if !self.cluster.fail(self.version, *id, *node, why) {
                    return unknown("a failed action", format!("action {id}"));
                }
            }
            Event::NodeLeft { node } => self.node_status(
                "a leaving node",
                *node,
                &[NodeStatus::Up, NodeStatus::Lost, NodeStatus::Off],
                NodeStatus::Left,
            )?,
            Event::GpuFailed { gpu } => self.gpu_health("a failed GPU", *gpu, false)?,
            Event::GpuRepaired { gpu } => self.gpu_health("a repaired GPU", *gpu, true)?,
            Event::AdmissionDecided { job, admission } => {
                let (now, moment) = (self.now, self.next_moment.max(self.now));
                self.admission_decided(*job, admission, now, moment)?;
            }
            Event::NodeManaged { action } => self.managed(action)?,
        }
        Ok(())
    }

    fn submitted(&mut self, job: JobId, spec: &Arc<JobSpec>) -> Result<(), EventError> {
        if job != self.next_job_id() {
            return Err(EventError::JobNumber {
                found: job,
                expected: self.next_job_id(),
            });
        }
        spec.check()
            .map_err(|e| EventError::BadSpec(format!("job {job}: {e}")))?;
        let user = spec.user.as_ref().map(|n| self.names.intern(n));
        let virtual_cluster = spec.virtual_cluster.as_ref().map(|n| self.names.intern(n));
        let record = self.fresh(job, spec, user, virtual_cluster);
        self.counts[Phase::Submitted as usize] += 1;
        let slot = match self.vacant.pop() {
            Some(s) => {
                self.records[s as usize] = record;
                s
            }
            None => {
                self.records.push(record);
                (self.records.len() - 1) as u32
            }
        };
        self.slots.push(slot);
        if let Some(base) = self.slots.shift() {
            for set in [&mut self.deferred, &mut self.waiting, &mut self.placed] {
                set.shift(base);
            }
        }
        self.asking.push(job);
        self.touch_slot(slot as usize);
        if spec.extras.as_ref().is_some_and(|e| e.need.is_some()) {
            self.watch_time(job);
        }
        Ok(())
    }

    /// Shows a job as it would be if it were submitted now. The state does not take it.
    ///
    /// A name that the state does not know is shown as none.
    pub(crate) fn with_candidate<T>(
        &self,
        spec: &Arc<JobSpec>,
        look: impl FnOnce(JobRef<'_>) -> T,
    ) -> T {
        let known = |name: &Option<Name>| self.names.find(name.as_ref()?);
        let (user, virtual_cluster) = (known(&spec.user), known(&spec.virtual_cluster));
        let record = self.fresh(self.next_job_id(), spec, user, virtual_cluster);
        let (rec, now) = (&record, self.now);
        look(JobRef { rec, now })
    }

    /// A job that has just been submitted.
    fn fresh(
        &self,
        job: JobId,
        spec: &Arc<JobSpec>,
        user: Option<NameId>,
        virtual_cluster: Option<NameId>,
    ) -> Record {
        let extras = spec.extras.as_deref();
        let mut record = Record {
            id: job,
            phase: Phase::Submitted,
            promoted: false,
            held_by_user: false,
            extras: Wants::Bare,
            iterations: 0.0,
            own_rate: 0.0,
            witness: self.witness.clone(),
            pending: false,
            touched: false,
            gpus: spec.gpus.get(),
            blockers: 0,
            attempt: 0,
            leaving: Vec::new(),
            since: self.now,
            work: 0.0,
            rate: 0.0,
            service: 0.0,
            gpu_service: 0.0,
            eligible_since: self.now,
            first_start: None,
            last_start: None,
            before: Before::default(),
            share_before: Share::WHOLE,
            allocated: None,
            on: None,
            bound: Bound::Nothing,
            spec: Arc::clone(spec),
            preemptions: 0,
            crashes: 0,
            failed_launches: 0,
            user,
            virtual_cluster,
            class: extras.map_or_else(Class::default, |e| e.class).into(),
            deadline: extras.and_then(|e| e.deadlines.first()).map(|d| d.at),
            accepted_at: None,
            config: crate::config::Config::NONE,
            reason: Reason::NotYetDecided,
            metrics: None,
            report: None,
            notice: None,
            changed: self.version,
        };
        record.note_spec();
        record
    }

    /// Applies an event that a decision produced before its plan, at the decision's `moment`. The
    /// change counts as made at version `seen`, from which the decision was made.
    pub(crate) fn apply_own(
        &mut self,
        event: &Event,
        seen: u64,
        moment: Time,
    ) -> Result<(), EventError> {
        self.version += 1;
        let result = match event {
            Event::AdmissionDecided { job, admission } => {
                let before = self.record(*job).map_or(0, |r| r.changed);
                let result = self.admission_decided(*job, admission, moment, moment);
                if let Some(s) = self.slot(*job) {
                    self.records[s].changed = before.max(seen);
                }
                result
            }
            Event::NodeManaged { action } => {
                let node = action.node();
                let known = node.and_then(|id| self.cluster.node(id));
                let before = known.map_or(0, |n| n.changed);
                let result = self.managed(action);
                if let Some(node) = node {
                    self.cluster.mark_changed(node, before.max(seen));
                }
                result
            }
            other => self.apply_now(other),
        };
        if result.is_err() {
            self.version -= 1;
        }
        result
    }

    fn admission_decided(
        &mut self,
        job: JobId,
        admission: &AdmissionDecision,
        now: Time,
        moment: Time,
    ) -> Result<(), EventError> {
        let s = self.known("an admission decision", job)?;
        match self.records[s].apply_admission(admission, now, moment) {
            None => {
                let rec = &self.records[s];
                return Err(stale("an admission decision", rec, rec.attempt));
            }
            Some(Phase::Ended) => self.ended(s, Outcome::Rejected),
            Some(phase) => self.set_phase(s, phase),
        }
        Ok(())
    }

    fn managed(&mut self, action: &NodeAction) -> Result<(), EventError> {
        self.cluster.now = self.now;
        let last = self.cluster.last_action();
        if !self.cluster.manage(&mut self.names, self.version, action) {
            let node = action.node().map(|id| format!("node {id}"));
            let what = node.unwrap_or_else(|| "no node".to_owned());
            return unknown("a cluster manager's action", what);
        }
        if let Some(id) = self.cluster.last_action().filter(|id| Some(*id) != last) {
            let action = action.clone();
            self.commands.push(Command::Node { id, action });
        }
        Ok(())
    }

    fn reclaimed(&mut self, offer: OfferId, count: u32) -> Result<(), EventError> {
        let Some(notice) = self.cluster.offer(offer).map(|offer| offer.notice) else {
            return unknown("a notice", format!("offer {offer}"));
        };
        let drain = Drain {
            by: self.now + notice.unwrap_or_default(),
            then: AfterDrain::Leave,
        };
        let leaves = |node: &Node| {
            let drains = node
                .drain
                .is_some_and(|drain| drain.then == AfterDrain::Leave);
            drains || matches!(node.wanted, Some(Wanted::Leave(_)))
        };
        let its = self.cluster.nodes_of(offer).filter(|node| !leaves(node));
        let its: Vec<NodeId> = its.take(count as usize).map(Node::id).collect();
        self.cluster.now = self.now;
        for node in its {
            self.cluster
                .change_node(node, self.version, |n| match n.status {
                    NodeStatus::Up => {
                        (n.cordon, n.drain) = (Some(Name::from("reclaimed")), Some(drain));
                    }
                    _ => (n.status, n.wanted) = (NodeStatus::Left, None),
                });
        }
        Ok(())
    }

    fn node_status(
        &mut self,
        event: &'static str,
        node: NodeId,
        from: &[NodeStatus],
        to: NodeStatus,
    ) -> Result<(), EventError> {
        match self.cluster.node(node) {
            Some(n) if from.contains(&n.status()) => {
                self.cluster.now = self.now;
                self.cluster.change_node(node, self.version, |n| {
                    n.status = to;
                    if to == NodeStatus::Left {
                        n.wanted = None;
                    }
                });
                Ok(())
            }
            _ => unknown(event, format!("node {node}")),
        }
    }

    fn gpu_health(
        &mut self,
        event: &'static str,
        gpu: GpuId,
        healthy: bool,
    ) -> Result<(), EventError> {
        let Some(node) = self.cluster.node_of(gpu) else {
            return unknown(event, format!("GPU {gpu}"));
        };
        self.cluster.now = self.now;
        self.cluster.change_node(node, self.version, |n| {
            let bit = 1u64 << (gpu.0 - n.first_gpu);
            if healthy {
                n.failed &= !bit;
            } else {
                n.failed |= bit;
            }
        });
        Ok(())
    }

    /// Releases the GPUs of a failed or crashed launch. The job waits again.
    fn fall_back(&mut self, s: usize, why: Reason) {
        self.count_busy(s, false);
        self.leave(s);
        self.deallocate(s);
        self.records[s].reason = why;
        self.let_wait(s);
    }

    fn ended(&mut self, s: usize, outcome: Outcome) {
        let rec = &mut self.records[s];
        if !self.timed.is_empty() {
            self.timed.retain(|job| *job != rec.id);
        }
        let worked_until = rec.worked_until(self.now);
        rec.settle(self.now);
        rec.since = worked_until;
        if outcome == Outcome::Completed {
            // Work computed from the rate may miss the total by a rounding error.
            rec.work = rec.iterations.max(rec.work);
        }
        self.count_busy(s, false);
        self.leave(s);
        self.deallocate(s);
        self.set_phase(s, Phase::Ended);
    }

    /// Unbinds all GPUs of a job, and dispatches the launches that waited for them.
    fn leave(&mut self, s: usize) {
        let rec = &mut self.records[s];
        let id = rec.id;
        let leaving = std::mem::take(&mut rec.leaving);
        let bound = rec.take_bound();
        self.unbind(id, &leaving);
        if let Some(bound) = bound {
            self.unbind(id, &bound.gpus);
        }
    }

    fn unbind(&mut self, id: JobId, gpus: &[GpuId]) {
        for &gpu in gpus {
            let was = self.cluster.bound_share(gpu, id);
            let several = was != Some(Share::WHOLE) || self.cluster.has_several(gpu);
            if several && !self.cluster.is_left(gpu) {
                // No launch waits on this GPU.
                self.cluster.unbind(id, gpu);
                continue;
            }
            self.cluster.unbind(id, gpu);
            for owner in self.cluster.allocated_to(gpu).filter(|owner| *owner != id) {
                let Some(o) = self.slot(owner).filter(|o| self.records[*o].pending) else {
                    continue;
                };
                // The only job of a whole GPU waits for each job that leaves it: see `blockers_on`.
                if several {
                    self.recount(o);
                } else {
                    self.records[o].blockers = self.records[o].blockers.saturating_sub(1);
                }
                self.dispatch_if_clear(o);
            }
        }
    }

    fn deallocate(&mut self, s: usize) {
        self.records[s].pending = false;
        if let Some(a) = self.records[s].allocated_mut().take() {
            self.cluster.deallocate(self.records[s].id, &a);
        }
    }

    fn known(&self, event: &'static str, job: JobId) -> Result<usize, EventError> {
        self.slot(job)
            .filter(|&s| self.records[s].phase != Phase::Ended)
            .ok_or(EventError::UnknownJob { event, job })
    }

    fn current(
        &self,
        event: &'static str,
        job: JobId,
        attempt: u32,
        phases: &[Phase],
    ) -> Result<usize, EventError> {
        let s = self.known(event, job)?;
        let rec = &self.records[s];
        // A pending launch has no number yet, so no report can be about it.
        let silent = rec.bound().is_none();
        if rec.attempt != attempt || !phases.contains(&rec.phase) || silent {
            return Err(stale(event, rec, attempt));
        }
        Ok(s)
    }
}

/// Largest number that is valid in an event. Sums and products of such numbers stay finite.
pub(super) const MOST: f64 = 1e30;

fn number(event: &'static str, job: JobId, value: f64) -> Result<(), EventError> {
    if (0.0..=MOST).contains(&value) {
        Ok(())
    } else {
        Err(EventError::BadNumber { event, job, value })
    }
}

fn unknown(event: &'static str, what: String) -> Result<(), EventError> {
    Err(EventError::UnknownNode { event, what })
}

fn stale(event: &'static str, rec: &Record, attempt: u32) -> EventError {
    EventError::Stale {
        event,
        job: rec.id,
        attempt,
        phase: rec.phase,
        current: rec.attempt,
    }
}
