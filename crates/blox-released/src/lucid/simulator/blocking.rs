//! FIFO, SJF and QSSF: in order, and nobody passes the first that does not fit.

use super::Step;
use super::job::{Job, Record};
use super::nodes::{Nodes, Part};
use super::sealed::Program;
use serde::{Deserialize, Serialize};

/// By what the queue is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    Submit,
    Duration,
    Service,
    Gpus,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Running {
    job: u32,
    end: i64,
    record: Record,
    parts: Vec<Part>,
}

/// A program that starts jobs in order and stops at the first that does not fit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Blocking {
    pub(super) nodes: Nodes,
    order: Order,
    /// Who waits, with the key of those that have one.
    pub(super) queue: Vec<(Job, Option<f64>)>,
    running: Vec<Running>,
    again: Option<i64>,
    records: Vec<Record>,
}

impl Blocking {
    pub(super) fn new(nodes: Nodes, order: Order) -> Self {
        Blocking {
            nodes,
            order,
            queue: Vec::new(),
            running: Vec::new(),
            again: None,
            records: Vec::new(),
        }
    }

    fn sort(&mut self, newcomers: usize) {
        let queue = &mut self.queue;
        match self.order {
            Order::Submit => queue.sort_by_key(|(j, _)| j.submit),
            Order::Duration => queue.sort_by_key(|(j, _)| j.duration),
            Order::Gpus => queue.sort_by_key(|(j, _)| j.gpus),
            Order::Service => {
                queue.sort_by_key(|(j, _)| j.gpus);
                if queue.len() > newcomers {
                    for (job, key) in queue.iter_mut() {
                        key.get_or_insert(job.estimate * f64::from(job.gpus));
                    }
                    let key = |k: &Option<f64>| k.unwrap_or(-1.0);
                    queue.sort_by(|a, b| key(&a.1).total_cmp(&key(&b.1)));
                }
            }
        }
    }

    pub(super) fn visit_again(&mut self, at: i64) {
        self.again = Some(self.again.map_or(at, |a| a.min(at)));
    }
}

impl Program for Blocking {
    type Record = Record;

    fn records(&self) -> &[Record] {
        &self.records
    }

    fn due(&self) -> Option<i64> {
        let ends = self.running.iter().map(|r| r.end);
        ends.chain(self.again).min()
    }

    fn step(&mut self, now: i64, arrivals: &[Job], out: &mut Step) {
        self.again = None;
        let (nodes, records) = (&mut self.nodes, &mut self.records);
        self.running.retain_mut(|r| {
            if r.end > now {
                return true;
            }
            nodes.release(r.job, &r.parts);
            out.ended.push(r.job);
            records.push(std::mem::take(&mut r.record));
            false
        });
        self.queue
            .extend(arrivals.iter().map(|j| (j.clone(), None)));
        self.sort(arrivals.len());
        let mut started = 0;
        for (job, key) in &self.queue {
            let Some(parts) = self.nodes.place(job.id, job.gpus) else {
                break;
            };
            started += 1;
            out.start(job.id, &self.nodes, &parts, None);
            let mut record = Record {
                job: job.id,
                start: now,
                // One of no seconds would never be found ended.
                end: now + job.duration.max(1),
                queue: now - job.submit,
                priority: key.unwrap_or(-1.0),
                exclusive: true,
                rate: 1.0,
                ..Record::default()
            };
            record.name_nodes(&self.nodes, &parts);
            self.running.push(Running {
                job: job.id,
                end: record.end,
                record,
                parts,
            });
        }
        self.queue.drain(..started);
        // Those that just came get their keys in the next second.
        if self.order == Order::Service && !arrivals.is_empty() && !self.queue.is_empty() {
            self.again = Some(now + 1);
        }
    }
}
