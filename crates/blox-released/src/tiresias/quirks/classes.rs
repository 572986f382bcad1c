//! The schedule `multi-dlas-gpu`: separate queues for each GPU count.

use super::{Passes, active, repeat, samples::round};
use blox_core::{
    Answer, Event, JobId, JobQueue, Policy, SchedulingPolicy, SortedMap, Time, Validity, View, sort,
};
use serde::{Deserialize, Serialize};

/// Separate queues and reserved GPUs for each GPU count.
///
/// The jobs of one GPU count have two queues, divided at 3,600 GPU-seconds of service. The
/// reservations are recomputed every 600 s, from 600 s on, in proportion to demand. A GPU count
/// keeps at least the GPUs that it uses. The remaining GPUs go in turn to the GPU counts with more
/// demand. No job runs before the first reservation.
///
/// Quirk: the program stops if no arrival and no end is left, even if a reservation would let a job
/// run. This policy therefore needs the time of the last arrival.
#[derive(Clone, Debug)]
pub struct ClassQueues {
    classes: Vec<Class>,
    last_arrival: Time,
}

/// Queues and reservations of the program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClassState {
    classes: Vec<Class>,
    demoted: SortedMap<JobId, bool>,
    passes: Passes,
    reserve_at: f64,
    jump_at: Option<Time>,
    /// Jobs that one pass stopped and the next pass at the same time resumed.
    blinks: Vec<JobId>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Class {
    gpus: u32,
    total: u32,
    free: u32,
    runnable: Vec<JobId>,
    queues: [Vec<JobId>; 2],
}

const LIMIT: f64 = 3600.0;
const INTERVAL: f64 = 600.0;

impl ClassQueues {
    /// Creates the schedule. `order` has the GPU counts in the order in which the program visits
    /// them (see [`dict_order`]).
    pub fn new(order: &[u32], last_arrival: Time) -> Self {
        let class = |gpus: &u32| Class {
            gpus: (*gpus).max(1),
            ..Class::default()
        };
        ClassQueues {
            classes: order.iter().map(class).collect(),
            last_arrival,
        }
    }
}

impl ClassState {
    /// Returns the jobs that the last decision stopped and started at the same time, as the program
    /// counts it. In the plan they keep running.
    pub fn blinks(&self) -> &[JobId] {
        &self.blinks
    }

    /// Runs one pass over all GPU counts and returns the jobs that run after it.
    fn pass(&mut self, view: View<'_>, ran: &dyn Fn(JobId) -> bool) -> Vec<JobId> {
        let (now, demoted) = (view.now(), &mut self.demoted);
        let mut granted = Vec::new();
        self.jump_at = None;
        for class in self.classes.iter_mut().filter(|c| !c.runnable.is_empty()) {
            let gpus = f64::from(class.gpus);
            let executed = |id: JobId| view.job(id).map_or(0.0, |j| j.attained_time().secs());
            for &id in class.runnable.iter().filter(|id| ran(**id)) {
                if executed(id) * gpus >= LIMIT && demoted.insert(id, true) != Some(true) {
                    class.queues[0].retain(|j| *j != id);
                    class.queues[1].push(id);
                }
            }
            class.free = class.total;
            let before = granted.len();
            for &id in class.queues.iter().flatten() {
                if let Some(left) = class.free.checked_sub(class.gpus) {
                    class.free = left;
                    granted.push(id);
                }
            }
            let runs = |id: &JobId| granted[before..].contains(id);
            for queue in &mut class.queues {
                sort::by_key(queue, |id| !runs(id));
            }
            for &id in class.queues[0].iter().filter(|id| runs(id)) {
                let wait = ((LIMIT - executed(id)) / gpus).floor();
                let at = Time::new(now.secs() + wait);
                self.jump_at = Some(self.jump_at.map_or(at, |next| next.min(at)));
            }
        }
        granted
    }

    /// Returns the validity of a decision: until the next demotion or reservation.
    ///
    /// The program waits for neither if no job runs and no arrival is left.
    fn validity(&self, more_to_come: bool) -> Validity {
        if self.demoted.is_empty() || (self.passes.granted.is_empty() && !more_to_come) {
            return Validity::UntilEvent;
        }
        let jump = self.jump_at.map_or(Validity::UntilEvent, Validity::Until);
        jump.and(Validity::Until(Time::new(self.reserve_at)))
    }

    fn reserve(&mut self, cluster: u32) {
        struct Share {
            class: usize,
            gpus: u32,
            used: u32,
            demand: u32,
            reserve: u32,
        }
        let mut shares: Vec<Share> = self
            .classes
            .iter()
            .enumerate()
            .map(|(class, c)| Share {
                class,
                gpus: c.gpus,
                used: c.total.saturating_sub(c.free),
                demand: c.runnable.len() as u32 * c.gpus,
                reserve: 0,
            })
            .collect();
        let all: u32 = shares.iter().map(|s| s.demand).sum();
        if all == 0 {
            return;
        }
        let used: u32 = shares.iter().map(|s| s.used).sum();
        let mut left = cluster.saturating_sub(used);
        sort::by_key(&mut shares, |s| s.demand);
        for s in shares.iter_mut().filter(|s| s.demand > 0) {
            let ratio = round(f64::from(s.demand) / f64::from(all), 2);
            let part = (ratio * f64::from(cluster) / f64::from(s.gpus)).floor();
            let part = (part as u32 * s.gpus).min(s.demand);
            let extra = match part.saturating_sub(s.used) {
                extra if extra > left => left / s.gpus * s.gpus,
                extra => extra,
            };
            s.reserve = s.used + extra;
            left -= extra;
        }
        sort::by_key(&mut shares, |s| s.gpus);
        let mut full = 0;
        while left > 0 && full < shares.len() {
            full = 0;
            for s in &mut shares {
                if s.demand <= s.reserve || s.gpus > left {
                    full += 1;
                    continue;
                }
                left -= s.gpus;
                s.reserve += s.gpus;
                if left == 0 {
                    break;
                }
            }
        }
        for s in shares {
            let class = &mut self.classes[s.class];
            class.free = s.reserve.saturating_sub(s.used);
            class.total = s.reserve;
        }
    }
}

impl Policy for ClassQueues {
    type Memory = ClassState;

    fn initial(&self, _: u64) -> ClassState {
        ClassState {
            classes: self.classes.clone(),
            reserve_at: INTERVAL,
            ..ClassState::default()
        }
    }

    fn on_event(&self, memory: &mut ClassState, _: View<'_>, event: &Event) {
        memory.passes.news.record(event);
    }
}

impl SchedulingPolicy for ClassQueues {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let now = view.now();
        let m = &mut *memory;
        m.blinks.clear();
        let jumps = m.jump_at.is_some_and(|at| at <= now);
        let due = jumps || now.secs() >= m.reserve_at;
        let valid = m.validity(now < self.last_arrival);
        let is_known = |id: JobId| m.demoted.contains_key(&id);
        let arrivals = match m.passes.begin(view, (due, valid), is_known, out) {
            Ok(arrivals) => arrivals,
            Err(valid) => return Ok(valid),
        };
        let idle = m.demoted.is_empty();
        let here = |id: &JobId| active(view, *id).is_some();
        let known = m.demoted.len();
        m.demoted.retain(|id, _| here(id));
        let ended = m.demoted.len() < known;
        for class in &mut m.classes {
            let before = class.runnable.len();
            class.runnable.retain(here);
            class.free += (before - class.runnable.len()) as u32 * class.gpus;
            class.queues.iter_mut().for_each(|q| q.retain(here));
        }
        for job in arrivals.iter().filter_map(|id| view.job(*id)) {
            let (id, gpus) = (job.id(), job.gpus().get());
            m.demoted.insert(id, false);
            let c = m.classes.iter().position(|c| c.gpus == gpus);
            let c = c.unwrap_or_else(|| {
                m.classes.push(Class {
                    gpus,
                    ..Class::default()
                });
                m.classes.len() - 1
            });
            m.classes[c].runnable.push(id);
            m.classes[c].queues[0].push(id);
        }
        // Without jobs, the skipped reservations had no effect.
        while idle && m.reserve_at < now.secs() {
            m.reserve_at += INTERVAL;
        }
        let ran = |id: JobId| view.job(id).is_some_and(|j| j.is_placed());
        let happened = !arrivals.is_empty() || ended || jumps;
        let reserves = m.reserve_at <= now.secs();
        let mut granted = if happened || !reserves {
            m.pass(view, &ran)
        } else {
            Vec::new()
        };
        if reserves && (!granted.is_empty() || now < self.last_arrival || !happened) {
            while m.reserve_at <= now.secs() {
                m.reserve_at += INTERVAL;
            }
            m.reserve(view.usable_gpus().get());
            let first = std::mem::take(&mut granted);
            let runs = |id: JobId| {
                if happened {
                    first.contains(&id)
                } else {
                    ran(id)
                }
            };
            granted = m.pass(view, &runs);
            if happened {
                let again = |id: &&JobId| ran(**id) && !first.contains(*id);
                m.blinks = granted.iter().filter(again).copied().collect();
            }
        }
        repeat(view, &granted, out);
        m.passes.granted = granted;
        // The program searches the first end by GPU count.
        let all = m.classes.iter().flat_map(|c| &c.runnable);
        m.passes.end(view, !arrivals.is_empty(), all);
        Ok(m.validity(now < self.last_arrival))
    }
}

/// Returns the order in which CPython 2.7 iterates over a dictionary with these keys.
///
/// Keys are inserted in the given order. Repeated keys have no effect.
pub fn dict_order(keys: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut slots: Vec<Option<u32>> = vec![None; 8];
    let mut count = 0;
    for key in keys {
        let slot = slot_of(&slots, key);
        if slots[slot].is_some() {
            continue;
        }
        slots[slot] = Some(key);
        count += 1;
        if count * 3 >= slots.len() * 2 {
            let mut size = 8;
            while size <= count * 4 {
                size *= 2;
            }
            let old = std::mem::replace(&mut slots, vec![None; size]);
            for key in old.into_iter().flatten() {
                let slot = slot_of(&slots, key);
                slots[slot] = Some(key);
            }
        }
    }
    slots.into_iter().flatten().collect()
}

/// Returns the slot of a key, or the slot where it would be inserted. A table always has an empty
/// slot.
fn slot_of(slots: &[Option<u32>], key: u32) -> usize {
    let (mut i, mut perturb) = (u64::from(key), u64::from(key));
    loop {
        let slot = (i % slots.len() as u64) as usize;
        if slots[slot].is_none_or(|k| k == key) {
            return slot;
        }
        i = i.wrapping_mul(5).wrapping_add(perturb).wrapping_add(1);
        perturb >>= 5;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_walked_as_python_2_does() {
        assert_eq!(dict_order([1, 2, 4, 8]), [8, 1, 2, 4]);
        assert_eq!(dict_order([8, 4, 1, 2, 4]), [8, 1, 2, 4]);
        assert_eq!(dict_order([1, 4, 2, 8, 16]), [8, 1, 2, 4, 16]);
        // The sixth key makes the table grow to 32 slots.
        assert_eq!(
            dict_order([16, 1, 2, 4, 24, 32, 8]),
            [32, 1, 2, 4, 8, 16, 24]
        );
    }

    #[test]
    fn reservations_follow_demand() {
        let mut m = ClassQueues::new(&[8, 1, 2], Time::ZERO).initial(0);
        for (class, jobs) in m.classes.iter_mut().zip([2, 4, 1]) {
            class.runnable = (0..jobs).map(JobId).collect();
        }
        // Demands are 16, 4 and 2 on 16 GPUs. The shares 11.68, 2.88 and 1.44 give one job of 8
        // GPUs, two of 1 and none of 2. The remaining 6 GPUs go in turn to the counts 1 and 2 until
        // both have enough. A job of 8 GPUs does not fit.
        m.reserve(16);
        let totals: Vec<u32> = m.classes.iter().map(|c| c.total).collect();
        assert_eq!(totals, [8, 4, 2]);
    }
}
