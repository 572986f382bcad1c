//! Power saving: switches nodes off while few are needed.

use blox_core::{
    ClusterManager, Node, NodeAction, NodeActionKind, NodeActionKinds, NodeActions, NodeStatus,
    Policy, Seconds, Time, Validity, View,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Constants of Helios' energy service (SC 2021, section 4.3.2, and its artifact).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerRule {
    /// Number of past checks over which demand must have fallen.
    pub history: usize,
    /// Number of future checks whose mean is compared with the current demand.
    pub future: usize,
    /// Distance by which demand must be below the mean of the past, in nodes.
    pub fallen: f64,
    /// Distance by which demand must be above the mean of the future, in nodes.
    pub falls: f64,
    /// Nodes kept on in addition to those in use.
    pub buffer: i64,
    /// Number of checks after a switch-on in which no node is switched off.
    pub keep: usize,
    /// Smallest number of nodes worth switching off.
    pub least: i64,
    /// Number of initial checks without a decision.
    pub warm_up: usize,
}

impl PowerRule {
    /// Constants for checks that are 10 minutes apart.
    pub const DEFAULT: Self = PowerRule {
        history: 2,
        future: 30,
        fallen: 0.1,
        falls: 0.0,
        buffer: 20,
        keep: 10,
        least: 1,
        warm_up: 6,
    };
}

impl Default for PowerRule {
    fn default() -> Self {
        PowerRule::DEFAULT
    }
}

/// Result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerLook {
    /// Nodes that should be on from now on.
    pub on: i64,
    /// Change of that number, before it is limited by the number of nodes.
    pub change: i64,
    /// Nodes in use beyond those that were on.
    pub lack: i64,
}

/// Helios' energy service: number of nodes that should be on, check by check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PowerPlan {
    rule: PowerRule,
    /// Nodes in use at every check so far.
    active: Vec<i64>,
    on: i64,
    stable_until: usize,
}

impl PowerPlan {
    /// Creates a plan with a rule.
    pub fn new(rule: PowerRule) -> Self {
        PowerPlan {
            rule,
            ..PowerPlan::default()
        }
    }

    /// Returns the nodes that should be on when jobs arrive that need more than are on.
    fn wake(&mut self, active: i64) -> i64 {
        self.on = active + self.rule.buffer;
        self.stable_until = self.active.len() + self.rule.keep;
        self.on
    }

    /// Performs a check: `active` of `total` nodes are in use. `coming` is the forecast of nodes in
    /// use from this check on; it may be shorter than the look-ahead of the rule.
    pub fn look(&mut self, active: i64, total: i64, coming: &[f64]) -> PowerLook {
        let (rule, i) = (self.rule, self.active.len());
        self.active.push(active);
        if i < rule.warm_up {
            self.on = active + rule.buffer;
            return PowerLook {
                on: self.on,
                ..PowerLook::default()
            };
        }
        let before = self.on;
        let (mut change, mut lack) = (0, 0);
        if self.on < active {
            lack = active - self.on;
            self.on = active + rule.buffer;
            change = self.on - before;
            self.stable_until = i + rule.keep;
        }
        self.on = self.on.min(total);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let near = &coming[..coming.len().min(rule.future)];
        let far = &coming[..coming.len().min(2 * rule.future)];
        let past: Vec<f64> = self.active[i.saturating_sub(rule.history)..i]
            .iter()
            .map(|a| *a as f64)
            .collect();
        let now = active as f64;
        let quiet = mean(&past) - now >= rule.fallen && now - mean(near) >= rule.falls;
        if quiet && i >= self.stable_until {
            self.stable_until = i;
            let target = self.on.min(active + rule.buffer);
            if mean(near) >= mean(far) && self.on - target >= rule.least {
                self.on = target;
                change = self.on - before;
            }
        }
        PowerLook {
            on: self.on,
            change,
            lack,
        }
    }
}

/// Switches idle nodes off and on (Helios, SC 2021, section 4.3: the cluster energy saving
/// service).
///
/// Each check counts the nodes in use, reads a forecast of that number, and keeps the number of
/// nodes on that its [`PowerPlan`] returns. Idle nodes of the highest numbers are switched off
/// first. Nodes that waiting jobs need count as in use. If jobs arrive that need more nodes than are
/// on, nodes are switched on at once. All nodes are switched on while a job has
/// waited for longer than one check interval. Without a forecast, or past its end, demand is
/// expected to stay constant.
#[derive(Clone, Debug)]
pub struct PowerSaving {
    rule: PowerRule,
    /// Nodes in use: one value per check from 0 s on.
    forecast: Arc<Vec<f64>>,
    every: Seconds,
}

/// The plan so far, and the next check.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Power {
    plan: PowerPlan,
    next: u64,
}

impl PowerSaving {
    /// Creates the manager with a check every `every`, at least 1 s.
    ///
    /// `forecast` is the number of nodes in use at each check from 0 s on; it is empty without a
    /// forecast.
    pub fn new(rule: PowerRule, every: Seconds, forecast: Vec<f64>) -> Self {
        PowerSaving {
            rule,
            forecast: Arc::new(forecast),
            every: every.max(Seconds::new(1.0)),
        }
    }
}

impl Policy for PowerSaving {
    type Memory = Power;

    fn initial(&self, _: u64) -> Power {
        Power {
            plan: PowerPlan::new(self.rule),
            ..Power::default()
        }
    }
}

impl ClusterManager for PowerSaving {
    fn manage(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut NodeActions) -> Validity {
        let at = |look: u64| Time::ZERO + self.every * look as f64;
        let there = || view.nodes().filter(|n| n.status() != NodeStatus::Left);
        let total = there().count() as i64;
        let in_use = there()
            .filter(|n| n.free_count() < n.usable_count())
            .count() as i64;
        let asking = view.waiting().chain(view.submitted());
        let asked: u64 = asking.map(|j| u64::from(j.gpus().get())).sum();
        let width = there().map(Node::gpu_count).min().unwrap_or(1).max(1);
        let active = (in_use + asked.div_ceil(u64::from(width)) as i64).min(total);
        let planned = if view.now() >= at(memory.next) {
            let look = (view.now().secs() / self.every.secs()).floor() as u64;
            memory.next = look + 1;
            let rest = self.forecast.get(look as usize..).unwrap_or_default();
            let stays = [active as f64];
            let coming = if rest.is_empty() { &stays[..] } else { rest };
            memory.plan.look(active, total, coming).on
        } else if active > memory.plan.on {
            memory.plan.wake(active)
        } else {
            return Validity::Until(at(memory.next));
        };
        let stuck = view
            .waiting()
            .any(|j| view.now() - j.eligible_since() > self.every);
        let wanted = if stuck {
            total
        } else {
            planned.clamp(0, total)
        };
        let is_on = |n: &&Node| n.status() != NodeStatus::Off || n.is_waking();
        let mut on = there().filter(is_on).count() as i64;
        let nodes: Vec<&Node> = there().collect();
        for node in nodes.iter().rev() {
            let idle = node.is_usable() && node.free_count() == node.gpu_count();
            if on > wanted && node.status() == NodeStatus::Up && idle {
                out.push(NodeAction::Power {
                    node: node.id(),
                    on: false,
                });
                on -= 1;
            }
        }
        for node in nodes {
            if on < wanted && node.status() == NodeStatus::Off && !node.is_waking() {
                out.push(NodeAction::Power {
                    node: node.id(),
                    on: true,
                });
                on += 1;
            }
        }
        Validity::Until(at(memory.next))
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::of(&[NodeActionKind::PowerOn, NodeActionKind::PowerOff])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::policy::scheduling_fn;
    use blox_core::runtime::Runtime;
    use blox_core::trigger::OnEvent;
    use blox_core::{
        ClusterSpec, Composition, Event, GpuCount, JobId, JobQueue, JobSpec, Request, State,
    };
    use blox_testing::FirstFit;

    #[test]
    fn manage_waiting_jobs_keep_nodes_on() {
        let state = State::new(&ClusterSpec::uniform(5, 2)).unwrap();
        let mut core = Runtime::new(state, Box::new(OnEvent::default()));
        let in_order = scheduling_fn(|view, out: &mut JobQueue| {
            view.active().for_each(|job| out.push(Request::gang(&job)));
            Validity::NextRound
        });
        let composition = Composition::new("toy").scheduling(in_order);
        let mut pipeline = composition.placement(FirstFit).build().unwrap();
        let mut submit = |core: &mut Runtime, job, gpus| {
            let spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(60.0));
            let (job, spec) = (JobId(job), Arc::new(spec));
            let event = Event::Submitted { job, spec };
            core.event(Time::ZERO, &event, &mut pipeline).unwrap();
            core.decide(Time::ZERO, &mut pipeline).unwrap();
        };
        let rule = PowerRule {
            buffer: 0,
            ..PowerRule::DEFAULT
        };
        let power = PowerSaving::new(rule, Seconds::new(600.0), Vec::new());
        let off = |core: &Runtime| {
            let mut actions = NodeActions::default();
            power.manage(&mut power.initial(0), core.view(), &mut actions);
            let nodes = actions.iter().filter_map(NodeAction::node);
            nodes.map(|node| node.0).collect::<Vec<u32>>()
        };
        submit(&mut core, 0, 2);
        assert_eq!(off(&core), [4, 3, 2, 1]);
        // This job waits for all five nodes.
        submit(&mut core, 1, 10);
        assert_eq!(off(&core), [0; 0]);
    }

    #[test]
    fn nodes_come_at_once_and_go_when_demand_falls() {
        let mut plan = PowerPlan::new(PowerRule {
            buffer: 2,
            keep: 1,
            warm_up: 2,
            ..PowerRule::DEFAULT
        });
        let falling = vec![3.0; 60];
        assert_eq!(plan.look(5, 20, &falling).on, 7);
        assert_eq!(plan.look(5, 20, &falling).on, 7);
        // Three more nodes than are on: they are switched on with the buffer.
        let look = plan.look(10, 20, &falling);
        assert_eq!((look.on, look.change, look.lack), (12, 5, 3));
        // Demand falls, now and in the forecast: all but the buffer are switched off.
        let look = plan.look(4, 20, &falling);
        assert_eq!((look.on, look.change, look.lack), (6, -6, 0));
        // Demand rises in the forecast: no node is switched off.
        let look = plan.look(3, 20, &[9.0; 60]);
        assert_eq!((look.on, look.change), (6, 0));
        assert_eq!(plan.look(40, 20, &falling).on, 20);
    }
}
