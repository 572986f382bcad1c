//! Accounts of the nodes: time paid, cost, and GPU time of nodes that were up.

use super::{Node, NodeStatus};
use crate::units::{Seconds, Time};
use serde::{Deserialize, Serialize};

/// Accounts of all nodes from the start until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Accounts {
    /// Hours of nodes from joining to leaving. A node that is powered off counts no time.
    pub node_hours: f64,
    /// Sum of these hours, each at the price of its node at the time.
    pub cost: f64,
    /// GPU-seconds of nodes that were up.
    pub up: Seconds,
}

/// Sums of the accounts until the last change of a node.
///
/// Hours are summed for each price, so the cost of nodes at one price has no rounding errors of sums.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Meter {
    since: Time,
    prices: Vec<Priced>,
    /// Cost at prices that no node has now.
    past: f64,
    past_secs: f64,
    up_secs: f64,
    /// GPUs of nodes that are up; derived from the nodes.
    #[serde(skip)]
    up: u32,
}

/// Time of nodes at one price.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Priced {
    price: f64,
    secs: f64,
    /// Nodes that have the price now; derived from the nodes.
    #[serde(skip)]
    nodes: u32,
}

impl Meter {
    /// Returns whether nothing was counted yet.
    pub fn is_fresh(&self) -> bool {
        self.since == Time::ZERO
    }

    /// Counts the time until `now`. An earlier time has no effect.
    pub fn advance(&mut self, now: Time) {
        if now <= self.since {
            return;
        }
        let secs = (now - self.since).secs();
        self.since = now;
        self.up_secs += f64::from(self.up) * secs;
        for at in &mut self.prices {
            at.secs += f64::from(at.nodes) * secs;
        }
        let (mut past, mut past_secs) = (self.past, self.past_secs);
        self.prices.retain(|at| {
            if at.nodes == 0 {
                past += cost(at);
                past_secs += at.secs;
            }
            at.nodes > 0
        });
        (self.past, self.past_secs) = (past, past_secs);
    }

    /// Counts a node from now on.
    pub fn add(&mut self, node: &Node) {
        if node.status == NodeStatus::Up {
            self.up += node.spec.gpus;
        }
        if !is_paid(node) {
            return;
        }
        let price = node.spec.price;
        match self.prices.iter_mut().find(|at| at.price == price) {
            Some(at) => at.nodes += 1,
            None => self.prices.push(Priced {
                price,
                secs: 0.0,
                nodes: 1,
            }),
        }
    }

    /// Counts a node no longer, before it changes.
    pub fn remove(&mut self, node: &Node) {
        if node.status == NodeStatus::Up {
            self.up -= node.spec.gpus;
        }
        if is_paid(node) {
            let price = node.spec.price;
            let at = self.prices.iter_mut().find(|at| at.price == price);
            at.into_iter().for_each(|at| at.nodes -= 1);
        }
    }

    /// Returns the number of GPUs of nodes that are up.
    pub fn up(&self) -> u32 {
        self.up
    }

    /// Returns the accounts until `now`.
    pub fn until(&self, now: Time) -> Accounts {
        let mut sums = self.clone();
        sums.advance(now);
        let secs: f64 = sums.prices.iter().map(|at| at.secs).sum();
        Accounts {
            node_hours: (sums.past_secs + secs) / HOUR,
            cost: sums.past + sums.prices.iter().map(cost).sum::<f64>(),
            up: Seconds::new(sums.up_secs),
        }
    }
}

const HOUR: f64 = 3600.0;

fn cost(at: &Priced) -> f64 {
    at.price * (at.secs / HOUR)
}

/// Returns whether a node costs its price: it is there and not powered off.
fn is_paid(node: &Node) -> bool {
    matches!(node.status, NodeStatus::Up | NodeStatus::Lost)
}
