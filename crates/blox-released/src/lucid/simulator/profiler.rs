//! The profiler: a small separate cluster that grows by one node if its queue is long.

use super::job::{Job, Record};
use super::nodes::{Nodes, Part, TEMPORARY};
use super::{Forecast, Program};
use blox_core::sort;

/// A change of the profiler's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaling {
    /// Time in seconds of the clock.
    pub at: i64,
    /// 1 for an added node, -1 for a returned one.
    pub nodes: i32,
}

/// Mean of the coming GPU forecasts at or below which the profiler may shrink: the GPUs of one
/// node, times 5.
const QUIET: f64 = 40.0;

#[derive(Debug)]
struct Running {
    end: i64,
    record: Record,
    parts: Vec<Part>,
}

/// The program of the profiler: the fewest GPUs first, with head-of-line blocking.
#[derive(Debug, Default)]
pub(super) struct LeastGpusFirst {
    nodes: Nodes,
    /// Number of nodes at the start.
    least: usize,
    queue: Vec<Job>,
    running: Vec<Running>,
    forecast: Option<Forecast>,
    /// True if a forecast was read after its last row.
    asked_beyond: bool,
    again: Option<i64>,
    pub records: Vec<Record>,
    pub log: Vec<Scaling>,
}

impl LeastGpusFirst {
    pub fn new(nodes: Nodes, forecast: Option<Forecast>) -> Self {
        LeastGpusFirst {
            least: nodes.list.len(),
            nodes,
            forecast,
            ..LeastGpusFirst::default()
        }
    }

    fn visit_again(&mut self, at: i64) {
        self.again = Some(self.again.map_or(at, |a| a.min(at)));
    }

    fn has_grown(&self) -> bool {
        self.nodes.list.len() > self.least
    }

    fn may_shrink(&self) -> bool {
        let temporary = self.nodes.of_name(TEMPORARY);
        self.queue.len() < 5 && self.has_grown() && temporary.is_some_and(|n| n.is_idle())
    }

    fn may_grow(&self) -> bool {
        self.queue.len() > 10 && !self.has_grown()
    }

    fn scale(&mut self, now: i64) {
        if self.forecast.is_none() {
            return;
        }
        if now % 10 == 0 && self.may_grow() && self.nodes.add_temporary() {
            self.log.push(Scaling { at: now, nodes: 1 });
            self.visit_again(now + 1);
        }
        if now % 100 == 0 && self.may_shrink() {
            let forecast = self.forecast.as_ref();
            let quiet = match forecast.and_then(|f| f.coming(now)) {
                Some(mean) => mean <= QUIET,
                // After the last forecast, the first mean is NaN and prevents a change.
                None => std::mem::replace(&mut self.asked_beyond, true),
            };
            if quiet && self.nodes.remove_idle().is_some() {
                self.log.push(Scaling { at: now, nodes: -1 });
            }
        }
        let next = |step: i64| now + step - now.rem_euclid(step);
        if self.may_grow() {
            self.visit_again(next(10));
        }
        if self.may_shrink() {
            self.visit_again(next(100));
        }
    }
}

impl Program for LeastGpusFirst {
    fn ended(&self) -> usize {
        self.records.len()
    }

    fn due(&self) -> Option<i64> {
        let ends = self.running.iter().map(|r| r.end);
        ends.chain(self.again).min()
    }

    fn step(&mut self, now: i64, arrivals: &[Job]) {
        self.again = None;
        let (nodes, records) = (&mut self.nodes, &mut self.records);
        self.running.retain_mut(|r| {
            if r.end > now {
                return true;
            }
            nodes.release(r.record.job, &r.parts);
            records.push(std::mem::take(&mut r.record));
            false
        });
        self.queue.extend_from_slice(arrivals);
        sort::by_key(&mut self.queue, |job| job.gpus);
        let mut started = 0;
        for job in &self.queue {
            let Some(parts) = self.nodes.place(job.id, job.gpus) else {
                break;
            };
            started += 1;
            let mut record = Record {
                start: now,
                // With zero seconds the end would never be found.
                end: now + job.duration.max(1),
                queue: now - job.submit,
                ..Record::alone(job.id)
            };
            record.name_nodes(&self.nodes, &parts);
            self.running.push(Running {
                end: record.end,
                record,
                parts,
            });
        }
        self.queue.drain(..started);
        self.scale(now);
    }
}
