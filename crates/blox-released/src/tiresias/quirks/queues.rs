//! The schedules `dlas`, `dlas-gpu`, `dlas-gpu-N` and `dlas-gpu-gittins`.

use super::{Passes, Samples, active, allow};
use blox_core::{
    Answer, Event, JobId, JobQueue, JobRef, Policy, SchedulingPolicy, SortedMap, Time, Validity,
    View, sort,
};
use serde::{Deserialize, Serialize};

/// Discretised LAS as in the released program. Decisions follow events.
///
/// A new job joins the end of the first queue. Each pass visits running jobs in order of arrival. A
/// job whose service has reached the limit of its queue moves to the end of the next queue, one
/// queue per pass. GPUs are granted by count, queue by queue, with backfill. Then each queue is
/// partitioned: running jobs first, then the others. A granted job always fits by count on GPUs of
/// types on which it runs, so placement is free.
///
/// Differences from the paper:
///
/// - The order in a queue depends on its history instead of the first start.
/// - The pass for a demotion runs at `(limit - seconds) / GPUs`, after the limit is reached.
/// - A job can end with work left (see the module page).
#[derive(Clone)]
pub struct DlasQueues {
    limits: Vec<f64>,
    by_gpus: bool,
    knob: Option<f64>,
    ranks: Option<Samples>,
}

/// Queues and accounts of the program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DlasState {
    /// All jobs in order of arrival.
    runnable: Vec<JobId>,
    queues: Vec<Vec<JobId>>,
    jobs: SortedMap<JobId, Account>,
    passes: Passes,
    last_pass: Time,
    next_jump: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Account {
    queue: usize,
    /// Attained time at the last promotion, in seconds.
    forgiven: f64,
    /// Waiting time since the last promotion after the job has run.
    waited: f64,
    rank: f64,
    promotions: u32,
}

impl DlasState {
    /// Returns the number of promotions of each live job.
    pub fn promotions(&self) -> impl Iterator<Item = (JobId, u32)> + '_ {
        self.jobs.iter().map(|(id, a)| (*id, a.promotions))
    }
}

impl DlasQueues {
    /// The limits of the released program, in GPU-seconds or seconds.
    pub const LIMITS: [f64; 2] = [3250.0, 7200.0];

    /// Creates `dlas-gpu` (service in GPU-seconds) or `dlas` (service in seconds). There is one
    /// more queue than limits.
    pub fn new(limits: impl Into<Vec<f64>>, by_gpus: bool) -> Self {
        let limits = limits.into();
        DlasQueues {
            limits,
            by_gpus,
            knob: None,
            ranks: None,
        }
    }

    /// Sets the starvation knob of `dlas-gpu-N`.
    #[must_use]
    pub fn promoting(mut self, knob: f64) -> Self {
        self.knob = Some(knob);
        self
    }

    /// Orders queues by descending Gittins index, then by submission.
    #[must_use]
    pub fn ranked_by(mut self, samples: Samples) -> Self {
        self.ranks = Some(samples);
        self
    }

    fn width(&self, job: &JobRef<'_>) -> f64 {
        if self.by_gpus {
            f64::from(job.gpus().get())
        } else {
            1.0
        }
    }

    /// Updates the account and queue of one job.
    fn update(&self, memory: &mut DlasState, job: &JobRef<'_>, elapsed: f64) {
        let (id, width) = (job.id(), self.width(job));
        let m = &mut *memory;
        let Some(account) = m.jobs.get_mut(&id) else {
            return;
        };
        let attained = job.attained_time().secs();
        let mut executed = attained - account.forgiven;
        let from = account.queue;
        if job.is_placed() {
            let limit = self.limits.get(from);
            if limit.is_some_and(|limit| executed * width >= *limit) {
                account.queue += 1;
            }
        } else if executed > 0.0 {
            account.waited += elapsed;
            let due = |knob: f64| account.waited >= (executed * knob).trunc();
            if from > 0 && self.knob.is_some_and(due) {
                account.queue = 0;
                account.promotions += 1;
                (account.forgiven, account.waited) = (attained, 0.0);
                executed = 0.0;
            }
        }
        if let Some(samples) = &self.ranks {
            account.rank = samples.rank(executed * width);
        }
        let to = account.queue;
        if to != from {
            m.queues[from].retain(|j| *j != id);
            m.queues[to].push(id);
        }
    }

    /// Returns the next time of a demotion or promotion as the program computes it.
    fn next_jump(&self, memory: &DlasState, view: View<'_>) -> Option<Time> {
        let mut next: Option<Time> = None;
        let granted = memory.passes.granted();
        for job in memory.runnable.iter().filter_map(|id| view.job(*id)) {
            let Some(account) = memory.jobs.get(&job.id()) else {
                continue;
            };
            let executed = job.attained_time().secs() - account.forgiven;
            let wait = if granted.binary_search(&job.id()).is_ok() {
                let Some(limit) = self.limits.get(account.queue) else {
                    continue;
                };
                ((limit - executed) / self.width(&job)).floor()
            } else {
                let Some(knob) = self.knob.filter(|_| account.queue > 0 && executed > 0.0) else {
                    continue;
                };
                let wait = (executed * knob - account.waited).trunc();
                if wait <= 0.0 {
                    continue;
                }
                wait
            };
            let at = Time::new(view.now().secs() + wait);
            next = Some(next.map_or(at, |next| next.min(at)));
        }
        next
    }
}

impl Policy for DlasQueues {
    type Memory = DlasState;

    fn initial(&self, _: u64) -> DlasState {
        DlasState {
            queues: vec![Vec::new(); self.limits.len() + 1],
            ..DlasState::default()
        }
    }

    fn on_event(&self, memory: &mut DlasState, _: View<'_>, event: &Event) {
        memory.passes.news.record(event);
    }
}

impl SchedulingPolicy for DlasQueues {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let now = view.now();
        let m = &mut *memory;
        let due = m.next_jump.is_some_and(|at| now >= at);
        let valid = m.next_jump.map_or(Validity::UntilEvent, Validity::Until);
        let is_known = |id: JobId| m.jobs.contains_key(&id);
        let arrivals = match m.passes.begin(view, (due, valid), is_known, out) {
            Ok(arrivals) => arrivals,
            Err(valid) => return Ok(valid),
        };
        let here = |id: &JobId| active(view, *id).is_some();
        m.runnable.retain(here);
        m.queues.iter_mut().for_each(|q| q.retain(here));
        m.jobs.retain(|id, _| here(id));
        for &id in &arrivals {
            m.runnable.push(id);
            m.queues[0].push(id);
            m.jobs.insert(id, Account::default());
        }
        let elapsed = (now - m.last_pass).secs();
        m.last_pass = now;
        for id in m.runnable.clone() {
            if let Some(job) = view.job(id) {
                let arrives = arrivals.binary_search(&id).is_ok();
                let waits_since_pass = if arrives { 0.0 } else { elapsed };
                self.update(memory, &job, waits_since_pass);
            }
        }
        let m = &mut *memory;
        if self.ranks.is_some() {
            let rank = |id: &JobId| m.jobs.get(id).map_or(0.0, |a| a.rank);
            let submit = |id: &JobId| view.job(*id).map_or(Time::ZERO, |j| j.submit());
            for queue in &mut m.queues {
                sort::by(queue, |a, b| {
                    rank(b).total_cmp(&rank(a)).then(submit(a).cmp(&submit(b)))
                });
            }
        }
        let in_order = m.queues.iter().flatten().copied();
        m.passes.granted = allow(view, in_order, out);
        let granted = m.passes.granted();
        let runs = |id: &JobId| granted.binary_search(id).is_ok();
        for queue in &mut m.queues {
            // Stable sort: running jobs first, then the others.
            sort::by_key(queue, |id| !runs(id));
        }
        m.passes.end(view, !arrivals.is_empty(), m.runnable.iter());
        memory.next_jump = self.next_jump(memory, view);
        Ok(memory
            .next_jump
            .map_or(Validity::UntilEvent, Validity::Until))
    }
}
