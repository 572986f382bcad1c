//! FIFO, SJF and QSSF: in order, and nobody passes the first that does not fit.

use super::Program;
use super::job::{Job, Record};
use super::nodes::{Nodes, Part};

/// By what the queue is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Submit,
    Duration,
    Service,
    Gpus,
}

#[derive(Debug)]
struct Running {
    job: u32,
    end: i64,
    record: Record,
    parts: Vec<Part>,
}

/// A program that starts jobs in order and stops at the first that does not fit.
#[derive(Debug)]
pub(super) struct Blocking {
    pub nodes: Nodes,
    order: Order,
    /// Who waits, with the key of those that have one.
    pub queue: Vec<(Job, Option<f64>)>,
    running: Vec<Running>,
    again: Option<i64>,
    pub records: Vec<Record>,
}

impl Blocking {
    pub fn new(nodes: Nodes, order: Order) -> Self {
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

    pub fn visit_again(&mut self, at: i64) {
        self.again = Some(self.again.map_or(at, |a| a.min(at)));
    }
}

impl Program for Blocking {
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
            nodes.release(r.job, &r.parts);
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
