//! Lucid in a virtual cluster. Two jobs share GPUs if their scores allow it.

use super::job::{Job, Record};
use super::nodes::{Nodes, Part};
use super::profiler::Scaling;
use super::{Forecast, Placer, Program};
use blox_core::sort;
use blox_perf::PairTable;
use std::sync::Arc;

/// GPU memory in MiB (RTX 3090).
const MEMORY: f64 = 24_576.0;
/// Maximum number of GPUs of packed jobs.
const MOST: u32 = 8;
/// Maximum sum of two sharing scores.
const SCORES: f64 = 2.0;
/// Packing pauses if at most this many jobs are expected within 10 minutes.
const FEW: f64 = 2.0;
/// Packing is switched on or off at multiples of this period, in seconds.
const PERIOD: i64 = 100;

/// Method that finds the partner of a job that ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// Quirk: the program takes the first job on the GPUs, which is the ending job itself if it
    /// started first.
    #[default]
    First,
    /// Takes the other job.
    Other,
}

/// The inputs of `lucid` besides jobs.
#[derive(Clone, Debug)]
pub struct PackedSettings {
    /// Nodes of the virtual cluster.
    pub nodes: u32,
    /// The rule that chooses free GPUs.
    pub placer: Placer,
    /// The speeds of pairs.
    pub pairs: Arc<PairTable>,
    /// The forecast of the jobs that arrive within 10 minutes. Packing pauses while it is low;
    /// without a forecast it never pauses.
    pub forecast: Option<Forecast>,
    /// The nodes that the profiler took from this virtual cluster and gave back.
    pub scaling: Vec<Scaling>,
    /// The lookup of the partner of a job that ends.
    pub lookup: Lookup,
    /// True if an end is found in the second after the job's last, as released.
    pub found_late: bool,
}

#[derive(Debug)]
struct Live {
    job: Job,
    priority: f64,
    exclusive: bool,
    rate: f64,
    /// Remaining work in seconds after the second `at`.
    remain: f64,
    at: i64,
    /// Second in which the end is found.
    end: i64,
    parts: Vec<Part>,
    record: Record,
}

impl Live {
    /// Subtracts the work done up to and including the second `now`.
    fn settle(&mut self, now: i64) {
        let seconds = (now - self.at).max(0);
        if self.rate == 1.0 {
            // At speed 1 one subtraction gives the same number as repeated subtraction.
            self.remain -= seconds as f64;
        } else {
            for _ in 0..seconds {
                self.remain -= self.rate;
            }
        }
        self.at = self.at.max(now);
    }

    fn set_rate(&mut self, rate: f64, found_late: bool) {
        self.rate = rate;
        let steps = if rate == 1.0 {
            self.remain.ceil().max(0.0) as i64
        } else {
            let (mut left, mut steps) = (self.remain, 0);
            while left > 0.0 {
                left -= rate;
                steps += 1;
            }
            steps
        };
        self.end = self.at + (steps + i64::from(found_late)).max(1);
    }
}

/// The program of Lucid.
#[derive(Debug)]
pub(super) struct Packed {
    nodes: Nodes,
    settings: PackedSettings,
    /// Number of replayed entries of the profiler's log.
    replayed: usize,
    queue: Vec<Live>,
    running: Vec<Live>,
    again: Option<i64>,
    pub records: Vec<Record>,
}

impl Packed {
    pub fn new(settings: PackedSettings) -> Self {
        Packed {
            nodes: Nodes::new(settings.nodes, settings.placer),
            settings,
            replayed: 0,
            queue: Vec::new(),
            running: Vec::new(),
            again: None,
            records: Vec::new(),
        }
    }

    fn end(&mut self, now: i64) {
        if self.running.iter().all(|l| l.end > now) {
            return;
        }
        let late = self.settings.found_late;
        let walk: Vec<u32> = self.running.iter().map(|l| l.job.id).collect();
        let find = |running: &[Live], id: u32| running.iter().position(|l| l.job.id == id);
        for (place, id) in walk.iter().enumerate() {
            let Some(i) = find(&self.running, *id).filter(|i| self.running[*i].end <= now) else {
                continue;
            };
            self.running[i].settle(now - i64::from(late));
            if !self.running[i].exclusive {
                let found = self.partner(i).and_then(|p| {
                    let turn = walk.iter().position(|w| *w == p)?;
                    Some((find(&self.running, p)?, turn))
                });
                if let Some((p, turn)) = found {
                    // Partners earlier in the walk have already done the work of this second.
                    let done = if turn < place { now } else { now - 1 };
                    let l = &mut self.running[p];
                    l.settle(done);
                    l.exclusive = true;
                    l.record.separated = now;
                    l.set_rate(1.0, late);
                }
            }
            let mut l = self.running.remove(i);
            let record = &mut l.record;
            record.end = now;
            (record.exclusive, record.rate, record.remain) = (l.exclusive, l.rate, l.remain);
            self.nodes.release(*id, &l.parts);
            self.records.push(l.record);
        }
    }

    fn partner(&self, i: usize) -> Option<u32> {
        let l = &self.running[i];
        match self.settings.lookup {
            Lookup::First => self.nodes.first_on(&l.parts),
            Lookup::Other => {
                let (at, mask) = *l.parts.first()?;
                let mut jobs = self.nodes.list[at].jobs.iter();
                let other = jobs.find(|(j, m)| *m == mask && *j != l.job.id);
                other.map(|(j, _)| *j)
            }
        }
    }

    /// Returns the first running job that can be packed with this job.
    fn beside(&self, l: &Live) -> Option<usize> {
        if l.job.gpus > MOST {
            return None;
        }
        self.running.iter().position(|c| {
            c.exclusive
                && c.job.gpus == l.job.gpus
                && c.job.memory < MEMORY - l.job.memory
                && l.job.score + c.job.score <= SCORES
                && l.priority <= c.priority * 2.0
                && self.speeds(l, c).is_some()
        })
    }

    fn speeds(&self, a: &Live, b: &Live) -> Option<(f64, f64)> {
        let (a, b) = (a.job.profile.as_ref()?, b.job.profile.as_ref()?);
        self.settings.pairs.speeds(a, b)
    }

    fn packs(&self, now: i64) -> bool {
        let asked = now - now.rem_euclid(PERIOD);
        let forecast = self.settings.forecast.as_ref();
        forecast.is_none_or(|f| f.coming(asked).is_none_or(|mean| mean > FEW))
    }

    fn start(&mut self, now: i64) {
        let (packs, late) = (self.packs(now), self.settings.found_late);
        let mut waiting = Vec::with_capacity(self.queue.len());
        let mut queue = std::mem::take(&mut self.queue).into_iter();
        for mut l in queue.by_ref() {
            let id = l.job.id;
            let beside = if packs { self.beside(&l) } else { None };
            let speeds = beside.and_then(|c| self.speeds(&l, &self.running[c]));
            l.at = now;
            match (beside, speeds) {
                (Some(c), Some((ours, theirs))) => {
                    l.exclusive = false;
                    l.record.colocated = now;
                    l.set_rate(ours, late);
                    let c = &mut self.running[c];
                    c.exclusive = false;
                    c.settle(now);
                    c.set_rate(theirs, late);
                    l.parts.clone_from(&c.parts);
                    l.record.nodes.clone_from(&c.record.nodes);
                    self.nodes.share(id, &l.parts);
                }
                _ => {
                    let Some(parts) = self.nodes.place(id, l.job.gpus) else {
                        waiting.push(l);
                        if packs {
                            continue;
                        }
                        break;
                    };
                    l.parts = parts;
                    l.record.name_nodes(&self.nodes, &l.parts);
                    l.set_rate(1.0, late);
                }
            }
            l.record.start = now;
            l.record.queue = now - l.job.submit;
            self.running.push(l);
            self.again = Some(now + 1);
        }
        waiting.extend(queue);
        self.queue = waiting;
    }

    /// Applies the profiler's node changes at the end of the second.
    fn replay(&mut self, now: i64) {
        while let Some(Scaling { at, nodes }) = self.settings.scaling.get(self.replayed).copied() {
            if at > now {
                break;
            }
            self.replayed += 1;
            if at < now {
                continue;
            }
            self.again = Some(now + 1);
            if nodes < 0 {
                self.nodes.add_temporary();
            } else {
                self.shrink();
            }
        }
    }

    fn shrink(&mut self) {
        let temporary = super::nodes::TEMPORARY;
        let Some((gone, renamed)) = self.nodes.remove_idle() else {
            return;
        };
        for l in &mut self.running {
            if let Some(busy) = renamed
                && l.parts.iter().any(|p| p.0 == busy)
            {
                // The node's entry moves to the end of the list under the new name.
                let after = if busy > gone { busy - 1 } else { busy };
                let name = self.nodes.list[after].name;
                let nodes = &mut l.record.nodes;
                if let Some(at) = nodes.iter().position(|(n, _)| *n == temporary) {
                    let (_, gpus) = nodes.remove(at);
                    nodes.push((name, gpus));
                }
                if let Some(at) = l.parts.iter().position(|p| p.0 == busy) {
                    let part = l.parts.remove(at);
                    l.parts.push(part);
                }
            }
            for part in &mut l.parts {
                if part.0 > gone {
                    part.0 -= 1;
                }
            }
        }
    }

    /// Returns the next time at which packing is switched on or off.
    fn switch(&self, now: i64) -> Option<i64> {
        let forecast = self.settings.forecast.as_ref()?;
        let packs = self.packs(now);
        let first = forecast.rows.partition_point(|(t, _)| *t <= now);
        let asked = forecast.rows[first..]
            .iter()
            .map(|(t, _)| t + (PERIOD - t.rem_euclid(PERIOD)) % PERIOD);
        asked.into_iter().find(|t| self.packs(*t) != packs)
    }
}

impl Program for Packed {
    fn ended(&self) -> usize {
        self.records.len()
    }

    fn due(&self) -> Option<i64> {
        let ends = self.running.iter().map(|l| l.end);
        let replay = self.settings.scaling.get(self.replayed).map(|s| s.at);
        ends.chain(replay).chain(self.again).min()
    }

    fn step(&mut self, now: i64, arrivals: &[Job]) {
        self.again = None;
        self.end(now);
        for job in arrivals {
            let priority = job.estimate * f64::from(job.gpus);
            self.queue.push(Live {
                priority,
                exclusive: true,
                rate: 1.0,
                remain: job.duration as f64,
                at: now,
                end: i64::MAX,
                parts: Vec::new(),
                record: Record {
                    job: job.id,
                    priority,
                    ..Record::default()
                },
                job: job.clone(),
            });
        }
        sort::by(&mut self.queue, |a, b| a.priority.total_cmp(&b.priority));
        self.start(now);
        self.replay(now);
        if !self.queue.is_empty()
            && self.again.is_none()
            && let Some(at) = self.switch(now)
        {
            self.again = Some(at);
        }
    }
}
