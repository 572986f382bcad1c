//! Detection of simulations that get no further.

use blox_core::{Event, JobId, SortedMap, Time, View};

/// Simulated seconds after the last arrival without a bound GPU and without a launch that count as
/// a deadlock. Longer than the 1000 hours of a starvation guard, whatever the length of a round.
const STANDSTILL_S: f64 = 6e6;

/// Number of consecutive decisions without progress that count as a deadlock even if no time
/// passes.
const STILL: u32 = 10_000_000;

/// Number of consecutive crashes and failed launches without progress that count as a livelock. If
/// jobs run ten times as long as their nodes last, one of 22,026 tries succeeds: such jobs still
/// end.
const IN_VAIN: u32 = 1_000_000;

/// Turns, crashes and failed launches without progress.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    /// Start of the period without progress, and number of turns in it.
    idle: Option<(Time, u32)>,
    /// The most iterations that each job preserved at a crash or failed launch.
    most: SortedMap<JobId, f64>,
    /// Number of crashes and failed launches in a row that preserved no more work.
    in_vain: u32,
}

impl Stall {
    /// Ends the period without progress.
    pub fn moves(&mut self) {
        self.idle = None;
    }

    /// Records a turn at `at` without progress. Returns whether the simulation is in a deadlock.
    pub fn stands_still(&mut self, at: Time) -> bool {
        let (since, turns) = self.idle.unwrap_or((at, 0));
        self.idle = Some((since, turns + 1));
        (at - since).secs() >= STANDSTILL_S || turns >= STILL
    }

    /// Returns whether the simulation is in a livelock.
    #[inline]
    pub fn is_in_vain(&self) -> bool {
        self.in_vain >= IN_VAIN
    }

    /// Records an event that the state accepted.
    #[inline]
    pub fn applied(&mut self, view: View<'_>, event: &Event) {
        match event {
            Event::Crashed { job, .. } | Event::LaunchFailed { job, .. } => {
                let Some(job) = view.job(*job) else { return };
                let most = self.most.entry(job.id()).or_insert(0.0);
                if job.work_done() > *most {
                    (*most, self.in_vain) = (job.work_done(), 0);
                } else {
                    self.in_vain += 1;
                }
            }
            Event::Ended { job, .. } => {
                self.most.remove(job);
                self.in_vain = 0;
            }
            _ => {}
        }
    }
}
