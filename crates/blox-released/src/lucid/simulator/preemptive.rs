//! SRTF and Tiresias. Jobs are selected by GPU count, then preemptions and starts follow.

use super::Program;
use super::job::{Job, Record};
use super::nodes::{Nodes, Part};
use blox_core::sort;

/// Sort key of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Remaining,
    Attained,
}

/// Period of Tiresias' decisions in seconds.
const PERIOD: i64 = 60;
/// GPU-seconds above which a job is in Tiresias' lower queue.
const THRESHOLD: i64 = 18_000;

#[derive(Debug)]
struct Live {
    job: Job,
    /// Remaining work in seconds after the second `at`.
    remain: i64,
    attained: i64,
    at: i64,
    waits_since: i64,
    parts: Vec<Part>,
    record: Record,
}

impl Live {
    fn settle(&mut self, now: i64) {
        let ran = now - self.at;
        self.remain -= ran;
        self.attained += ran * i64::from(self.job.gpus);
        self.at = now;
    }

    /// Returns the second in which the end is found: the one after the job's last.
    fn end(&self) -> i64 {
        self.at + self.remain.max(0) + 1
    }
}

/// A preemptive program.
#[derive(Debug)]
pub(super) struct Preemptive {
    nodes: Nodes,
    rule: Order,
    queue: Vec<Live>,
    running: Vec<Live>,
    /// True if the last decision changed nothing and no event followed.
    settled: bool,
    now: i64,
    pub records: Vec<Record>,
}

impl Preemptive {
    pub fn new(nodes: Nodes, rule: Order) -> Self {
        Preemptive {
            nodes,
            rule,
            queue: Vec::new(),
            running: Vec::new(),
            settled: true,
            now: 0,
            records: Vec::new(),
        }
    }

    /// Ends jobs that have no work left.
    fn end(&mut self, now: i64) {
        let (nodes, rule) = (&mut self.nodes, self.rule);
        let (settled, records) = (&mut self.settled, &mut self.records);
        self.running.retain_mut(|l| {
            if l.end() > now {
                return true;
            }
            l.settle(now - 1);
            l.record.end = now;
            if rule == Order::Attained {
                l.record.priority = l.attained as f64;
            }
            l.record.name_nodes(nodes, &l.parts);
            nodes.release(l.job.id, &l.parts);
            records.push(std::mem::take(&mut l.record));
            *settled = false;
            false
        });
    }

    /// Returns the indices of jobs by priority. Waiting jobs are marked true.
    fn in_order(&self) -> Vec<(bool, usize)> {
        let waiting = (0..self.queue.len()).map(|i| (true, i));
        let running = (0..self.running.len()).map(|i| (false, i));
        let live = |(waits, i): &(bool, usize)| match waits {
            true => &self.queue[*i],
            false => &self.running[*i],
        };
        match self.rule {
            Order::Remaining => {
                let mut all: Vec<_> = waiting.chain(running).collect();
                sort::by_key(&mut all, |l| live(l).remain);
                all
            }
            Order::Attained => {
                let mut all: Vec<_> = running.chain(waiting).collect();
                sort::by_key(&mut all, |l| {
                    (live(l).attained > THRESHOLD, live(l).job.submit)
                });
                all
            }
        }
    }

    fn decide(&mut self, now: i64) {
        if self.queue.is_empty() {
            self.settled = true;
            return;
        }
        for l in &mut self.running {
            l.settle(now);
        }
        let (mut quota, mut stop, mut start) = (self.nodes.gpus(), Vec::new(), Vec::new());
        for (waits, i) in self.in_order() {
            let gpus = match waits {
                true => self.queue[i].job.gpus,
                false => self.running[i].job.gpus,
            };
            match (gpus <= quota, waits) {
                (true, _) => {
                    quota -= gpus;
                    if waits {
                        start.push(self.queue[i].job.id);
                    }
                }
                (false, false) => stop.push(self.running[i].job.id),
                (false, true) => {}
            }
        }
        self.settled = stop.is_empty();
        for id in stop {
            let Some(at) = self.running.iter().position(|l| l.job.id == id) else {
                continue;
            };
            let mut l = self.running.remove(at);
            self.nodes.release(id, &l.parts);
            l.parts.clear();
            // Checkpoint and cold start are added to the remaining work.
            l.remain += if l.job.gpus <= 8 { 40 } else { 60 };
            l.record.preemptions += 1;
            l.waits_since = now;
            self.queue.push(l);
        }
        for id in start {
            let Some(at) = self.queue.iter().position(|l| l.job.id == id) else {
                continue;
            };
            let Some(parts) = self.nodes.place(id, self.queue[at].job.gpus) else {
                continue;
            };
            let mut l = self.queue.remove(at);
            l.parts = parts;
            l.at = now;
            l.record.queue += now - l.waits_since;
            if l.record.start < 0 {
                l.record.start = now;
            }
            self.running.push(l);
            self.settled = false;
        }
    }
}

impl Program for Preemptive {
    fn ended(&self) -> usize {
        self.records.len()
    }

    fn due(&self) -> Option<i64> {
        let end = self.running.iter().map(Live::end).min();
        if self.queue.is_empty() {
            return end;
        }
        let on_grid = |t: i64| (t + PERIOD - 1).div_euclid(PERIOD) * PERIOD;
        let decision = match (self.rule, self.settled) {
            // Running jobs only advance further ahead of waiting jobs.
            (Order::Remaining, true) => None,
            (Order::Remaining, false) => Some(self.now + 1),
            (Order::Attained, false) => Some(on_grid(self.now + 1)),
            (Order::Attained, true) => {
                let high = self.running.iter().filter(|l| l.attained <= THRESHOLD);
                // First second in which a job's attained service exceeds the threshold.
                let falls =
                    high.map(|l| l.at + (THRESHOLD - l.attained) / i64::from(l.job.gpus) + 1);
                falls.min().map(|t| on_grid(t.max(self.now + 1)))
            }
        };
        end.into_iter().chain(decision).min()
    }

    fn step(&mut self, now: i64, arrivals: &[Job]) {
        self.now = now;
        self.end(now);
        for job in arrivals {
            self.settled = false;
            self.queue.push(Live {
                remain: job.duration,
                attained: 0,
                at: now,
                waits_since: job.submit,
                parts: Vec::new(),
                record: Record {
                    start: -1,
                    ..Record::alone(job.id)
                },
                job: job.clone(),
            });
        }
        if self.rule == Order::Remaining || now % PERIOD == 0 {
            self.decide(now);
        }
    }
}
