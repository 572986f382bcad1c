//! Detection of simulations that get no further.

use crate::Ended;
use blox_core::{Event, JobId, Phase, Seconds, SortedMap, Time, View};
use std::collections::VecDeque;

/// Simulated seconds without progress that end a simulation. Longer than the 1000 hours of a
/// starvation guard, whatever the length of a round.
pub(crate) const PATIENCE_S: f64 = 6e6;

/// Number of looks without progress that end a simulation.
const LOOKS: u32 = 10;

/// Number of decisions after which the next look is due even if no time passes: a scheduler whose
/// plans alternate may decide for ever at one time.
const TURNS: u64 = 10_000;

/// Seconds since the last look after which that number of decisions is no reason for a look.
const MOMENT: Seconds = Seconds::new(1.0);

/// Part of its remaining work that a measured job must do in the time of patience.
const ENOUGH: f64 = 0.1;

/// Number of consecutive crashes and failed launches without progress that count as a livelock. If
/// jobs run ten times as long as their nodes last, one of 22,026 tries succeeds: such jobs still
/// end.
const MOST_CRASHES: u32 = 1_000_000;

/// Checks the progress of jobs at intervals of time, and counts crashes and failed launches.
#[derive(Debug)]
pub(crate) struct Stall {
    /// Time from which the next look is due.
    due: Time,
    /// Number of decisions at which it is due even before.
    turns: u64,
    /// Time at which these decisions are counted from.
    since: Time,
    /// Progress of all jobs at the last look, and number of submitted jobs.
    seen: (u64, u32),
    /// Number of looks in a row without progress of any job.
    still: u32,
    /// Start of the period in which no measured job did enough, and their work left at that time.
    starving: Option<(Time, Vec<(JobId, f64)>)>,
    /// The most iterations that each job preserved at a crash or failed launch.
    most: SortedMap<JobId, f64>,
    /// Number of crashes and failed launches in a row that preserved no more work.
    crashes: u32,
}

impl Default for Stall {
    fn default() -> Self {
        Stall {
            due: Time::new(PATIENCE_S / f64::from(LOOKS)),
            turns: TURNS,
            since: Time::ZERO,
            seen: (0, 0),
            still: 0,
            starving: None,
            most: SortedMap::new(),
            crashes: 0,
        }
    }
}

/// Returns a number that changes if a job gains or loses work, or ends. Arrivals do not change it.
/// Without live jobs, returns `None`. Moments at which a simulation looks are mostly events, at which
/// a crashed job has no work: crashes are counted apart.
fn progress(view: View<'_>, now: Time) -> Option<u64> {
    let (mut all, mut live) = (0u64, 0);
    for job in view.active() {
        let place = 2 * u64::from(job.id().0) + 1;
        // A service passes its time without GPUs, too.
        let done = match job.need() {
            None => job.work_done_by(now),
            Some(_) => now.secs(),
        };
        all = all.wrapping_add(done.to_bits().wrapping_mul(place));
        live += 1;
    }
    live += view.deferred_count() + view.count(Phase::Submitted);
    let ended = u64::from(view.next_job_id().0) - u64::from(live);
    (live > 0).then_some(all.wrapping_add(ended))
}

impl Stall {
    /// Returns whether a look is due at a time and a number of decisions.
    #[inline]
    pub fn looks(&self, now: Time, turns: u64) -> bool {
        now >= self.due || turns >= self.turns
    }

    /// Checks the progress of all jobs at a time, which may be later than the view, and at a number
    /// of decisions. Returns how the simulation ends if it gets no further. `measured` are the
    /// measured jobs, if they may starve; some may have ended.
    #[cold]
    pub fn look(
        &mut self,
        view: View<'_>,
        (now, turns): (Time, u64),
        arrivals: bool,
        measured: Option<&mut VecDeque<JobId>>,
    ) -> Option<Ended> {
        self.turns = turns + TURNS;
        let passed = now - std::mem::replace(&mut self.since, now);
        if now < self.due && passed >= MOMENT {
            return None;
        }
        self.due = Time::new(now.secs() + PATIENCE_S / f64::from(LOOKS));
        if self.stands_still(view, now, arrivals) {
            return Some(Ended::Standstill);
        }
        let starves = measured.is_some_and(|open| self.starves(view, now, open));
        starves.then_some(Ended::Starved)
    }

    /// Returns whether the simulation is in a deadlock. Between rare arrivals, jobs may wait for
    /// company: if `arrivals` are left, only looks after an arrival count.
    fn stands_still(&mut self, view: View<'_>, now: Time, arrivals: bool) -> bool {
        let (before, submitted) = self.seen;
        let Some(progress) = progress(view, now) else {
            self.still = 0;
            return false;
        };
        let progress = progress.wrapping_add(u64::from(self.crashes) << 32);
        if progress != before {
            self.still = 0;
        } else if !arrivals || view.next_job_id().0 > submitted {
            self.still += 1;
        }
        self.seen = (progress, view.next_job_id().0);
        self.still >= LOOKS
    }

    /// Returns whether the measured jobs, all submitted, starve. `open` are these jobs, some of
    /// which may have ended.
    fn starves(&mut self, view: View<'_>, now: Time, open: &mut VecDeque<JobId>) -> bool {
        let left = |id: JobId| {
            let job = view.job(id).filter(|j| j.phase() != Phase::Ended)?;
            let left = match job.need() {
                None => job.truth().work().iterations - job.work_done_by(now),
                Some(_) => (job.submit() + job.truth().duration() - now).secs(),
            };
            Some(left)
        };
        open.retain(|id| left(*id).is_some());
        let moved = |(id, before): &(JobId, f64)| {
            left(*id).is_none_or(|left| left <= before * (1.0 - ENOUGH))
        };
        match &self.starving {
            Some((since, before)) if !before.iter().any(moved) => {
                (now - *since).secs() >= PATIENCE_S
            }
            _ => {
                let lefts = open.iter().filter_map(|id| Some((*id, left(*id)?)));
                self.starving = Some((now, lefts.collect()));
                false
            }
        }
    }

    /// Returns how a simulation in a livelock ends.
    #[inline]
    pub fn crashes(&self) -> Option<Ended> {
        (self.crashes >= MOST_CRASHES).then_some(Ended::NoProgress)
    }

    /// Records an event that the state accepted.
    #[inline]
    pub fn applied(&mut self, view: View<'_>, event: &Event) {
        match event {
            Event::Crashed { job, .. } | Event::LaunchFailed { job, .. } => {
                let Some(job) = view.job(*job) else { return };
                let most = self.most.entry(job.id()).or_insert(0.0);
                if job.work_done() > *most {
                    (*most, self.crashes) = (job.work_done(), 0);
                } else {
                    self.crashes += 1;
                }
            }
            Event::Ended { job, .. } => {
                self.most.remove(job);
                self.crashes = 0;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{ClusterSpec, GpuCount, JobSpec, State};

    /// Looks after each 10,000 decisions, this number of seconds apart. Returns the first look that
    /// ends the simulation.
    fn looks_until_standstill(apart: f64) -> Option<u64> {
        let mut state = State::new(&ClusterSpec::uniform(1, 4)).unwrap();
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0)).into();
        let submitted = Event::Submitted {
            job: JobId(0),
            spec,
        };
        state.apply(Time::ZERO, &submitted).unwrap();
        let mut stall = Stall::default();
        (1..=100).find(|look| {
            let (now, turns) = (Time::new(*look as f64 * apart), look * TURNS);
            assert!(stall.looks(now, turns) && !stall.looks(now, turns - 1));
            stall.look(View::of(&state), (now, turns), false, None) == Some(Ended::Standstill)
        })
    }

    #[test]
    fn decisions_without_time_are_a_standstill() {
        assert_eq!(looks_until_standstill(0.0), Some(10));
        assert_eq!(looks_until_standstill(0.5), Some(10));
        assert_eq!(looks_until_standstill(60.0), None);
    }
}
