//! The truth about jobs, and a note of the policies that read it.

use super::JobRef;
use super::spec::{JobSpec, Work};
use crate::units::Seconds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The part of a job that a real cluster does not know; see [`JobRef::truth`].
#[derive(Clone, Copy)]
pub struct Truth<'a> {
    job: JobRef<'a>,
}

impl<'a> Truth<'a> {
    #[inline]
    pub(super) fn of(job: JobRef<'a>) -> Self {
        Truth { job }
    }

    /// Returns the work of the job. The values are copies in the record: the specification is
    /// elsewhere in memory.
    #[inline]
    pub fn work(&self) -> Work {
        Work {
            iterations: self.job.rec.iterations,
            rate: self.job.rec.own_rate,
        }
    }

    /// Returns the duration of all work on the requested GPUs.
    #[inline]
    pub fn duration(&self) -> Seconds {
        self.work().duration()
    }

    /// Returns the number of iterations left.
    #[inline]
    pub fn work_left(&self) -> f64 {
        (self.job.rec.iterations - self.job.work_done()).max(0.0)
    }

    /// Returns the duration of the work left on the requested GPUs.
    #[inline]
    pub fn remaining(&self) -> Seconds {
        Seconds::new(self.work_left() / self.job.rec.own_rate)
    }

    /// Returns the whole specification.
    #[inline]
    pub fn spec(&self) -> &'a JobSpec {
        &self.job.rec.spec
    }

    /// Returns a shared reference to the whole specification, for collectors that keep it.
    pub fn shared_spec(&self) -> Arc<JobSpec> {
        Arc::clone(&self.job.rec.spec)
    }
}

/// A policy is being asked.
const ASKED: u8 = 1;
/// The policy read the truth about a job.
const SEEN: u8 = 2;
/// No policy may read the truth.
const FORBIDDEN: u8 = 4;

/// Notes whether policies read the truth. A state shares it with its jobs and its copies, so a
/// policy that forecasts with a copy is noted, too.
///
/// It is no part of the state: no decision and no comparison of states depends on it. One thread
/// at a time uses it; it is atomic because states move between threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness(Arc<AtomicU8>);

impl Witness {
    #[inline]
    fn flags(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, flags: u8) {
        self.0.store(flags, Ordering::Relaxed);
    }

    /// Notes that the truth is read.
    #[inline]
    pub fn note(&self) {
        let flags = self.flags();
        if flags & (ASKED | SEEN) == ASKED {
            self.set(flags | SEEN);
        }
    }

    /// Calls a policy. Returns what it returned, and whether it has read the truth although that is
    /// forbidden.
    #[inline]
    pub fn asking<T>(&self, call: impl FnOnce() -> T) -> (T, bool) {
        let before = self.flags();
        self.set(before | ASKED);
        let answer = call();
        let after = self.flags();
        // Questions nest: a forecast asks policies inside a policy.
        self.set(after & !ASKED | before & ASKED);
        (answer, after & (SEEN | FORBIDDEN) == SEEN | FORBIDDEN)
    }

    /// Returns whether a policy has read the truth.
    pub fn seen(&self) -> bool {
        self.flags() & SEEN != 0
    }

    /// Forbids policies to read the truth.
    pub fn forbid(&self) {
        self.set(self.flags() | FORBIDDEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::spec::ClusterSpec;
    use crate::event::Event;
    use crate::ids::JobId;
    use crate::state::State;
    use crate::units::{GpuCount, Time};
    use crate::view::View;

    /// A state with a job of 600 s.
    fn state() -> State {
        let mut state = State::new(&ClusterSpec::uniform(1, 1)).unwrap();
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0)).into();
        let event = Event::Submitted {
            job: JobId(0),
            spec,
        };
        state.apply(Time::ZERO, &event).unwrap();
        state
    }

    fn read(state: &State) -> f64 {
        state.job(JobId(0)).unwrap().truth().duration().secs()
    }

    #[test]
    fn reading_outside_a_call_is_not_noted() {
        let state = state();
        assert_eq!(read(&state), 600.0);
        assert!(!state.witness.seen());
        let (gpus, _) = (state.witness).asking(|| state.job(JobId(0)).unwrap().gpus());
        assert_eq!((gpus, state.witness.seen()), (GpuCount(1), false));
        let (_, forbidden) = state.witness.asking(|| read(&state));
        assert_eq!((state.witness.seen(), forbidden), (true, false));
        state.witness.forbid();
        assert!(state.witness.asking(|| ()).1);
    }

    #[test]
    fn reading_in_a_forecast_is_noted() {
        let state = state();
        let forecast = || {
            let copy = View::of(&state).to_state();
            // The forecast asks a policy that reads nothing, and then simulates the job.
            copy.witness.asking(|| ());
            read(&copy)
        };
        assert_eq!(state.witness.asking(forecast), (600.0, false));
        assert!(state.witness.seen());
        assert!(!state.witness.asking(|| ()).1);
    }

    #[test]
    fn jobs_of_a_restored_state_share_its_witness() {
        let saved = serde_json::to_value(state()).unwrap();
        let mut state: State = serde_json::from_value(saved).unwrap();
        state.share_witness();
        state.witness.asking(|| read(&state));
        assert!(state.witness.seen());
    }
}
