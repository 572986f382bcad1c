//! Turns that are long in comparison to the launches that they cost.

use blox_core::{JobId, JobRef, Phase, Seconds, SortedMap, Time, View};
use serde::{Deserialize, Serialize};

/// Number of times for which jobs run as long as the launches of a turn took. So launches take at
/// most about 2 % of the time, as in Gandiva (OSDI 2018, section 4.1).
const WORTH: f64 = 50.0;

/// Observed launches, and whether it is time for other jobs.
///
/// A launch lasts from the decision until the job runs: it includes the checkpoints of the jobs that
/// leave the GPUs. A turn ends when the GPUs in use were in use for 50 times the GPU time of its
/// launches. All turns end together, because a large job would never find enough GPUs otherwise. If
/// launches take no time, each decision starts a turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Settling {
    /// Time of the last decision.
    asked: Time,
    /// Start of the turn.
    turn: Time,
    /// GPU-seconds that the launches of the turn took.
    lost: f64,
    /// Seconds that the last turn had to last.
    length: f64,
    /// True if the last decision did not start a turn.
    lasts: bool,
    launches: SortedMap<JobId, Launch>,
}

/// The last launch of a placed job.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Launch {
    /// Time of the decision.
    asked: Time,
    /// Time at which the job ran; `None` while it starts.
    began: Option<Time>,
}

impl Settling {
    /// Notes the launches since the last decision, and ends the turn if it is time. Called once in
    /// each decision.
    pub fn update(&mut self, view: View<'_>) {
        let now = view.now();
        let asked = std::mem::replace(&mut self.asked, now);
        let placed = |id: &JobId| view.job(*id).is_some_and(|job| job.is_placed());
        self.launches.retain(|id, _| placed(id));
        let (mut used, mut lost) = (0.0, self.lost);
        for job in view.placed() {
            let gpus = job.assignment().map_or(0.0, |a| f64::from(a.count().get()));
            used += gpus;
            let began = match job.phase() {
                Phase::Running => job.last_start(),
                _ => None,
            };
            let fresh = || Launch { asked, began: None };
            let launch = self.launches.entry(job.id()).or_insert_with(fresh);
            if launch.began.is_some() {
                if launch.began == began {
                    continue;
                }
                *launch = fresh();
            }
            launch.began = began;
            let took = (began.unwrap_or(now) - launch.asked).max(Seconds::ZERO);
            lost += gpus * took.secs();
            if began.is_some() {
                self.lost += gpus * took.secs();
            }
        }
        self.lasts = (now - self.turn).secs() * used < WORTH * lost;
        if !self.lasts {
            self.length = if used > 0.0 { WORTH * lost / used } else { 0.0 };
            self.turn = now;
            self.lost = 0.0;
        }
    }

    /// Returns whether a placed job keeps its GPUs: it starts, or the turn lasts.
    pub fn holds(&self, job: &JobRef<'_>) -> bool {
        let launch = self.launches.get(&job.id());
        launch.is_some_and(|launch| self.lasts || launch.began.is_none())
    }

    /// Returns how long the last turn had to last.
    pub fn length(&self) -> Seconds {
        Seconds::new(self.length)
    }
}
