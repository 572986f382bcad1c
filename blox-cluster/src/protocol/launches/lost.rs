//! Launches that ended without a failure of their job: how often in a row, and on which nodes.

use super::{Attempt, Launches, Link};
use crate::protocol::ids::{AttemptId, Millis};
use crate::protocol::message::{Exit, NO_SHIM, SHIM_ENDED};
use blox_core::{Event, JobId, Name, NodeAction, NodeId, NodeStatus, View};
use std::collections::BTreeSet;

/// Number of jobs whose shims must end on a node before the node is in quarantine.
const SICK: usize = 3;

/// Beginning of the reason of the cordon on a node on which shims end.
const SHIMS_END: &str = "in quarantine: the shims of";

impl Launches {
    /// Returns how a launch was lost: by a node, by a shim, or before its start. Returns `None` if
    /// every part ended in another way.
    pub(super) fn how_lost(&self, view: View<'_>, a: &Attempt) -> Option<String> {
        let rank = |exit: Exit| match exit {
            Exit::Lost => Some(0),
            Exit::NeverRan => Some(1),
            Exit::Cut => Some(2),
            _ => None,
        };
        let ends = a
            .ends
            .iter()
            .filter_map(|(n, end)| Some((rank(end.exit)?, n, end)));
        let (_, node, end) = ends.min_by_key(|(rank, ..)| *rank)?;
        let name = view.node(*node).and_then(|n| n.spec().name.clone());
        let name = name.unwrap_or_else(|| Name::from(node.to_string()));
        let why = match end.why.as_str() {
            "" => "it ended",
            why => why,
        };
        Some(format!("{why} (node {name})"))
    }

    /// Returns whether a launch ran long enough that its loss is not counted, or saved work after a
    /// shorter time.
    pub(super) fn was_useful(&self, id: AttemptId, a: &Attempt) -> bool {
        let ran = a.ends.values().map(|end| end.ran).max();
        let ran = ran.unwrap_or_default();
        let saved = self.job_report(id).progress.map_or(0.0, |p| p.saved);
        let by = match saved > a.launch.before {
            true => self.timers.short_of_useful(),
            false => self.timers.useful(),
        };
        ran >= by
    }

    /// Counts the end of a shim against its node.
    pub(in crate::protocol) fn note_shim(&mut self, now: Millis, node: NodeId, job: JobId) {
        if let Some(link) = self.links.get_mut(&node) {
            let window = Millis(self.timers.quarantine.0 * 10);
            link.shims.retain(|(at, _)| now - *at <= window);
            link.shims.push((now, job));
            match link.jobs_of_shims() >= SICK {
                true => self.due.shims.insert(node),
                false => self.due.shims.remove(&node),
            };
        }
    }

    /// Cordons nodes on which the shims of several jobs ended, and uses them again later. At most a
    /// quarter of the nodes is in this quarantine, since the jobs may be at fault.
    pub(super) fn tick_sick(&mut self, now: Millis, view: View<'_>) {
        let up = |n: &&blox_core::Node| n.status() == NodeStatus::Up;
        let is_sick = |n: &&blox_core::Node| n.cordoned().is_some_and(is_for_shims);
        let cordoned = |id: &NodeId| view.node(*id).filter(is_sick).is_some();
        self.due.sick.retain(cordoned);
        let mut sick = 0;
        for id in &self.due.sick {
            if view.node(*id).filter(up).is_none() {
                continue;
            }
            let until = self.links.get(id).map_or(now, |link| link.sick.1);
            match now >= until {
                true => self.out.events.push(Event::NodeManaged {
                    action: NodeAction::Uncordon { node: *id },
                }),
                false => sick += 1,
            }
        }
        if self.due.shims.is_empty() {
            return;
        }
        let nodes = view.cluster().nodes();
        let mut usable = nodes
            .iter()
            .filter(up)
            .filter(|n| n.cordoned().is_none())
            .count();
        let most = (nodes.iter().filter(up).count() / 4).max(1);
        let ids: Vec<NodeId> = self.due.shims.iter().copied().collect();
        for id in ids {
            let usable_one = view
                .node(id)
                .is_some_and(|n| up(&n) && n.cordoned().is_none());
            let Some(link) = self.links.get_mut(&id).filter(|_| usable_one) else {
                continue;
            };
            if sick >= most || usable < 2 {
                continue;
            }
            (sick, usable) = (sick + 1, usable - 1);
            let jobs = link.jobs_of_shims();
            link.shims.clear();
            self.due.shims.remove(&id);
            let times = link.sick.0 + 1;
            // The third loss of a node begins its first quarantine.
            link.sick = (times, now + self.timers.quarantine_after(times + 2));
            let why = Name::from(format!("{SHIMS_END} {jobs} jobs ended on it"));
            let action = NodeAction::Cordon { node: id, why };
            self.out.events.push(Event::NodeManaged { action });
        }
    }
}

impl Link {
    /// Returns the number of jobs whose shims recently ended on the node.
    fn jobs_of_shims(&self) -> usize {
        let jobs: BTreeSet<JobId> = self.shims.iter().map(|(_, job)| *job).collect();
        jobs.len()
    }
}

/// Returns whether the reason of a cordon is that the shims of several jobs ended.
pub(super) fn is_for_shims(why: &Name) -> bool {
    why.starts_with(SHIMS_END)
}

/// Returns the nodes on which the shim of a launch ended or could not be started.
pub(super) fn ended_shims(a: &Attempt) -> Vec<NodeId> {
    let by_shim = |why: &str| why == SHIM_ENDED || why == NO_SHIM;
    let ends = a.ends.iter().filter(|(_, end)| {
        matches!(end.exit, Exit::Lost | Exit::NeverRan) && !end.estimated && by_shim(&end.why)
    });
    ends.map(|(node, _)| *node).collect()
}
