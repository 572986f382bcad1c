//! The profiler: its own small cluster, which grows by a node when its queue does.

use super::blocking::{Blocking, Order};
use super::job::Job;
use super::nodes::{Nodes, TEMPORARY};
use super::{Forecast, Program};

/// A node that the profiler took or gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// When, in seconds of the clock.
    pub at: i64,
    /// 1 or -1.
    pub nodes: i32,
}

/// GPU count that one node holds in the mean of the coming forecasts, times 5.
const QUIET: f64 = 40.0;

/// The program of the profiler: least GPUs first, in order.
#[derive(Debug)]
pub(super) struct LeastGpusFirst {
    pub base: Blocking,
    nodes: usize,
    forecast: Option<Forecast>,
    /// Whether a forecast was asked for after its end.
    asked_beyond: bool,
    pub log: Vec<Scaling>,
}

impl LeastGpusFirst {
    pub fn new(nodes: Nodes, forecast: Option<Forecast>) -> Self {
        LeastGpusFirst {
            nodes: nodes.list.len(),
            base: Blocking::new(nodes, Order::Gpus),
            forecast,
            asked_beyond: false,
            log: Vec::new(),
        }
    }

    fn has_grown(&self) -> bool {
        self.base.nodes.list.len() > self.nodes
    }

    fn may_shrink(&self) -> bool {
        let temporary = self.base.nodes.of_name(TEMPORARY);
        self.base.queue.len() < 5 && self.has_grown() && temporary.is_some_and(|n| n.is_idle())
    }

    fn may_grow(&self) -> bool {
        self.base.queue.len() > 10 && !self.has_grown()
    }

    fn scale(&mut self, now: i64) {
        let Some(forecast) = &self.forecast else {
            return;
        };
        if now % 10 == 0 && self.may_grow() && self.base.nodes.add_temporary() {
            self.log.push(Scaling { at: now, nodes: 1 });
            self.base.visit_again(now + 1);
        }
        if now % 100 == 0 && self.may_shrink() {
            let quiet = match forecast.coming(now) {
                Some(mean) => mean <= QUIET,
                // The mean of nothing is no number at first.
                None => std::mem::replace(&mut self.asked_beyond, true),
            };
            if quiet && self.base.nodes.remove_idle().is_some() {
                self.log.push(Scaling { at: now, nodes: -1 });
            }
        }
        let next = |step: i64| now + step - now.rem_euclid(step);
        if self.may_grow() {
            self.base.visit_again(next(10));
        }
        if self.may_shrink() {
            self.base.visit_again(next(100));
        }
    }
}

impl Program for LeastGpusFirst {
    fn ended(&self) -> usize {
        self.base.ended()
    }

    fn due(&self) -> Option<i64> {
        self.base.due()
    }

    fn step(&mut self, now: i64, arrivals: &[Job]) {
        self.base.step(now, arrivals);
        self.scale(now);
    }
}
