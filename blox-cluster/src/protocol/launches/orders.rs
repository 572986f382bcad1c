//! Orders for nodes.

use super::{Attempt, Goal, Launches};
use crate::protocol::ids::{AttemptId, Millis, PartId};
use crate::protocol::message::{Exit, Meeting, Order, Orders, PROTOCOL, Status, Task, Wish};
use crate::protocol::record::{Absence, Record};
use crate::protocol::shim::grace_of;
use blox_core::{NodeId, Seconds};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Limit on the descriptions of launches in one message, in bytes. It is well below the limit of a
/// message, of which orders without descriptions need little.
const TASKS: usize = 1 << 20;

/// Upper estimate of a description without texts of its user, in bytes.
const PLAIN: usize = 4 << 10;

/// Returns an estimate of the size of a description in a message.
fn size(task: &Task) -> usize {
    fn of(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::String(text) => text.len() + 4,
            serde_json::Value::Array(all) => all.iter().map(of).sum(),
            serde_json::Value::Object(all) => all.iter().map(|(k, v)| k.len() + 4 + of(v)).sum(),
            _ => 24,
        }
    }
    let extras = task.spec.extras();
    let command: usize = extras.command.iter().map(|part| part.len() + 4).sum();
    let attributes = extras.attributes.iter();
    let attributes: usize = attributes.map(|(k, v)| k.len() + 4 + of(v)).sum();
    PLAIN + command + attributes
}

/// Keeps the descriptions of launches that fit into one message, at least one. The node reports each
/// launch that it takes in, and the answer has the next descriptions. An order for a launch that the
/// node has reported stays, since it renews the lease.
fn keep_within(orders: &mut Vec<Order>, bytes: usize, is_seen: impl Fn(AttemptId) -> bool) {
    let mut left = bytes;
    let mut is_first = true;
    orders.retain_mut(|order| {
        let Some(task) = &order.task else {
            return true;
        };
        let size = size(task);
        if size <= left || std::mem::take(&mut is_first) {
            left = left.saturating_sub(size);
            is_first = false;
            return true;
        }
        order.task = None;
        is_seen(order.id)
    });
}

/// Returns whether a launch with this status is on the node's disk, and has not ended.
fn runs(status: &Status) -> bool {
    matches!(
        status,
        Status::Starting | Status::Running | Status::Stopping
    )
}

impl Launches {
    /// Creates the orders for all nodes that need them.
    pub fn orders(&mut self) {
        for node in std::mem::take(&mut self.out.dirty) {
            if let Some(orders) = self.orders_for(node) {
                self.out.orders.push(orders);
            }
        }
    }

    fn orders_for(&mut self, node: NodeId) -> Option<Orders> {
        // Nodes that have not reported in this run receive no orders.
        self.links.get(&node).filter(|link| link.has_reported)?;
        let long = self.grant_long(node);
        let link = self.links.get(&node)?;
        // A node may still hold GPUs for launches that ended by timeout. A new launch waits for the
        // node's report, and for the end of such launches.
        let silent = self.last_tick - link.last_report_at >= self.timers.lost;
        let clear = !silent && link.strays.is_empty();
        let mut orders: Vec<Order> = Vec::new();
        for part in self.open_on(node) {
            let Some(a) = self.durable.attempts.get(&part.id) else {
                continue;
            };
            if !clear && a.goal == Goal::Run && !self.seen.contains_key(&part) {
                continue;
            }
            // If ordered to end an unknown launch, a node would report that it never ran.
            if a.launch.after.is_none() && !self.doubted.contains_key(&part) {
                let covered = |absence: &Absence| absence.covers(part.id);
                let long = long.filter(|_| self.durable.absent.get(&node).is_some_and(covered));
                orders.push(self.order(part, a, long));
            }
        }
        let runs = |o: &&Order| matches!(o.wish, Wish::Run(_));
        let seen = |id: AttemptId| self.seen.contains_key(&PartId { id, node });
        keep_within(&mut orders, TASKS, seen);
        for id in orders.iter().filter(runs).map(|o| o.id) {
            let is_new = |a: &Attempt| !a.may_run;
            if self.ordered.insert(PartId { id, node })
                && self.durable.attempts.get(&id).is_some_and(is_new)
            {
                self.note(Record::Ordered { id });
            }
        }
        let known = self.durable.nodes.get(&node)?;
        let link = self.links.get_mut(&node)?;
        for (id, fence) in &link.strays {
            orders.push(Order {
                lease: None,
                id: *id,
                fence: *fence,
                wish: Wish::Kill,
                task: None,
                leaves_in: None,
                time_left: None,
            });
        }
        link.last_orders += 1;
        Some(Orders {
            protocol: PROTOCOL,
            timers: Some(self.timers),
            node: known.key.clone(),
            cluster: self.durable.cluster.clone()?,
            epoch: self.durable.epoch,
            incarnation: known.incarnation,
            session: link.session,
            seq: link.last_orders,
            reply_to: link.last_report_seq,
            orders,
            forget: link.forget.iter().copied().collect(),
        })
    }

    /// Writes down that the next orders for a node grant the lease of a planned absence, if they do.
    /// Returns its length.
    ///
    /// Launches that run on the node get this lease. One that was only prepared is not on the node's
    /// disk, and has to be given up soon if the node manager starts anew without it.
    fn grant_long(&mut self, node: NodeId) -> Option<Millis> {
        let link = self.links.get(&node)?;
        let lease = self.absence.max(link.absence)?;
        // Managers of version 1 do not read the lease in an order. A lost node keeps its fence.
        let silent = self.last_tick - link.last_report_at >= self.timers.lost;
        if link.protocol < 2 || silent {
            return None;
        }
        let (epoch, session) = (self.durable.epoch, link.session);
        let until = link.last_report_at + self.timers.stretched(lease);
        let before = self.durable.absent.get(&node);
        let open = || self.each_open_on(node);
        let runs = |part: &PartId| self.seen.get(part).is_some_and(|seen| runs(&seen.status));
        let mut launches: BTreeSet<AttemptId> = open().filter(runs).map(|part| part.id).collect();
        // Earlier orders may have granted a lease to more launches, or a longer one.
        let earlier = open().filter(|part| before.is_some_and(|before| before.covers(part.id)));
        launches.extend(earlier.map(|part| part.id));
        let absence = Absence {
            lease: before.map_or(lease, |before| before.lease.max(lease)),
            epoch,
            session,
            launches: Some(launches),
        };
        if before != Some(&absence) {
            self.note(Record::Absent { node, absence });
        }
        let known = self.long_until.entry(node).or_default();
        *known = until.max(*known);
        Some(lease)
    }

    fn order(&self, part: PartId, a: &Attempt, long: Option<Millis>) -> Order {
        let status = self.seen.get(&part).map(|s| &s.status);
        let wish = match &a.goal {
            Goal::Run => match self.meeting(part.id, a) {
                Some(meeting) => Wish::Run(meeting),
                None => Wish::Prepare,
            },
            Goal::Stop | Goal::Requeue | Goal::Finish => Wish::Yield(self.grace(a)),
            Goal::Cancel => Wish::Yield(self.timers.kill),
            Goal::Abort(_) => Wish::Yield(self.grace_of_rest(a)),
        };
        let has_it = status.is_some_and(runs);
        let task = (!has_it && matches!(a.goal, Goal::Run))
            .then(|| a.launch.parts.iter().find(|(n, _)| *n == part.node))
            .flatten()
            .map(|(_, task)| Arc::clone(task));
        let lease = Self::lease_of(a);
        Order {
            lease: Some(long.map_or(lease, |long| long.max(lease))),
            id: part.id,
            fence: a.fence,
            wish,
            task,
            leaves_in: self.leaves_in(part.id),
            time_left: self.time_left(part.id, a),
        }
    }

    /// Returns the running time that the time limit of a job leaves to a launch.
    pub(super) fn time_left(&self, id: AttemptId, a: &Attempt) -> Option<crate::protocol::Millis> {
        let (_, task) = a.launch.parts.first()?;
        let limit = task
            .spec
            .extras()
            .attributes
            .get("time_limit_s")?
            .as_f64()?;
        Some(self.clock.back(Seconds::new(limit)) - self.ran_before(id))
    }

    /// Returns the running time of the launches of a job before one.
    pub(super) fn ran_before(&self, id: AttemptId) -> crate::protocol::Millis {
        let mut longest = std::collections::BTreeMap::new();
        let all = self.durable.accounts_of(id.job);
        for (part, end) in all.filter(|(part, _)| part.id.attempt < id.attempt) {
            let ran: &mut crate::protocol::Millis = longest.entry(part.id.attempt).or_default();
            *ran = (*ran).max(end.ran);
        }
        let sum = longest.values().map(|ran| ran.0).sum();
        crate::protocol::Millis(sum)
    }

    /// Returns the time until the stop of a launch with a notice.
    fn leaves_in(&self, id: AttemptId) -> Option<Millis> {
        let by = self.notices.get(&id)?;
        Some(self.clock.back(*by - self.clock.time(self.last_tick)))
    }

    /// Returns the job's own `grace_s`, or the cluster's default.
    fn grace(&self, a: &Attempt) -> Millis {
        let first = a.launch.parts.first();
        first.map_or(self.timers.grace, |(_, task)| {
            grace_of(&task.spec, &self.timers)
        })
    }

    /// Returns the grace period of the remaining parts of an aborted launch. If a rank failed or
    /// the launch never fully started, it is the kill timeout, because there is little to save. If
    /// a part was lost, it is the grace period of a normal stop.
    fn grace_of_rest(&self, a: &Attempt) -> Millis {
        let failed = |end: &super::End| matches!(end.exit, Exit::Failed { .. } | Exit::BadFile);
        if !a.started || a.ends.values().any(failed) {
            self.timers.kill
        } else {
            self.grace(a)
        }
    }

    /// Returns the rendezvous address once every node has reserved its GPUs. After a restart of the
    /// scheduler, it is unknown until the first node has reported the launch.
    fn meeting(&self, id: AttemptId, a: &Attempt) -> Option<Meeting> {
        let going = self.going.contains(&id);
        if !going
            && !a
                .open()
                .all(|node| self.seen.contains_key(&PartId { id, node }))
        {
            return None;
        }
        let (first, _) = a.launch.parts.first()?;
        let seen = self.seen.get(&PartId { id, node: *first })?;
        Some(Meeting {
            address: self.links.get(first)?.address.clone(),
            port: seen.port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ids::Fence;
    use blox_core::{Extras, GpuCount, JobId, JobSpec, Seconds, Time};

    fn order(job: u32, name: &str) -> Order {
        let mut spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
        spec = spec.with_extras(Extras {
            command: vec![name.to_owned()],
            ..Extras::default()
        });
        let task = Task::of_one_rank(spec, &[0]);
        Order {
            lease: None,
            id: AttemptId {
                job: JobId(job),
                attempt: 1,
            },
            fence: Fence(1),
            wish: Wish::Prepare,
            task: Some(Arc::new(task)),
            leaves_in: None,
            time_left: None,
        }
    }

    #[test]
    fn large_descriptions_go_in_pieces_with_all_leases() {
        let long = "x".repeat(100_000);
        let mut orders: Vec<Order> = (0..5).map(|job| order(job, &long)).collect();
        orders[0].task = None;
        keep_within(&mut orders, 250_000, |id| id.job == JobId(4));
        let kept: Vec<_> = orders
            .iter()
            .map(|o| (o.id.job.0, o.task.is_some()))
            .collect();
        // Two descriptions fit. Job 3 follows later, and job 4 keeps its lease.
        assert_eq!(kept, [(0, false), (1, true), (2, true), (4, false)]);
        // One larger than all goes alone.
        let mut orders = vec![order(1, &long), order(2, &long)];
        keep_within(&mut orders, 10, |_| false);
        assert_eq!(orders.len(), 1);
    }
}
