//! The ended and running jobs, for all futures of a forecast.

use super::known::{Known, worked};
use super::last_day::LastDay;
use super::running_times::{ENOUGH, RunningTimes};
use blox_core::forecast::PastJob;
use blox_core::{JobId, JobRef, Name, Seconds, State, View};
use rand::{Rng, RngExt as _};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Smallest number of jobs of a period from which the running times of a future are drawn.
const PERIOD: usize = 400;
/// The period is at least this part of all jobs.
const PART: usize = 4;

/// Jobs of which the ratios are alike. Without a value, all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    user: Option<Name>,
    gpus: Option<u32>,
    /// Width and number of a range of durations, in powers of 2.
    stated: Option<(u8, i32)>,
}

/// Ratios between running times and stated durations in one future.
#[derive(Debug, Default)]
pub(super) struct Ratios {
    /// Distributions by kind of job, in a period.
    by_kind: BTreeMap<Kind, RunningTimes>,
    as_stated: RunningTimes,
    /// All ratios by kind, in order of submission, each with true if the job has ended. Kinds have
    /// enough of them.
    runs: Arc<BTreeMap<Kind, Vec<(f64, bool)>>>,
    /// Position of the next ratio of each kind.
    next: BTreeMap<Kind, usize>,
}

impl Ratios {
    /// Returns the running time of a job.
    pub fn total(&mut self, job: &Known, rng: &mut impl Rng) -> f64 {
        match job.ended {
            true => job.ran,
            false => {
                let stated = job.stated();
                let drawn = stated * self.draw(job, job.ran / stated, rng);
                drawn.min(job.limit())
            }
        }
    }

    /// Draws the ratio of a job, which is above `than`.
    ///
    /// Jobs that have not run get the ratios of successive jobs of their kind, from one that is drawn.
    /// So jobs that are submitted together are as alike as such jobs were.
    fn draw(&mut self, job: &Known, than: f64, rng: &mut impl Rng) -> f64 {
        let kinds = kinds(job);
        let times = kinds.iter().find_map(|kind| self.by_kind.get(kind));
        let times = times.unwrap_or(&self.as_stated);
        if than > 0.0 {
            return times.draw(rng, than);
        }
        let known = |kind| Some((kind, self.runs.get(kind)?));
        let Some((kind, run)) = kinds.iter().find_map(known) else {
            return times.draw(rng, than);
        };
        let next = match self.next.get_mut(kind) {
            Some(next) => next,
            None => {
                let begin = rng.random_range(0..run.len());
                self.next.entry(kind.clone()).or_insert(begin)
            }
        };
        let (ratio, ended) = run[*next];
        *next = (*next + 1) % run.len();
        match ended {
            true => ratio,
            false => times.draw(rng, ratio),
        }
    }
}

/// Returns the kinds of job that it belongs to, the narrowest first.
fn kinds(job: &Known) -> [Kind; 5] {
    let user = job.spec.user.clone();
    let gpus = Some(job.spec.gpus.get().ilog2());
    // Durations of one kind differ by a factor of less than 2, or 8 if there are few. Users who
    // state the longest durations overestimate more often.
    let log = job.stated().log2().floor() as i32;
    let stated = Some((1, log));
    let about = Some((3, log.div_euclid(3)));
    [
        Kind { user, gpus, stated },
        Kind {
            user: None,
            gpus,
            stated,
        },
        Kind {
            user: None,
            gpus: None,
            stated,
        },
        Kind {
            user: None,
            gpus: None,
            stated: about,
        },
        Kind::default(),
    ]
}

fn by_kind<'a>(jobs: impl Iterator<Item = &'a Known>) -> BTreeMap<Kind, Vec<(f64, bool)>> {
    let mut by_kind: BTreeMap<Kind, Vec<(f64, bool)>> = BTreeMap::new();
    for job in jobs {
        let ratio = (job.ran / job.stated(), job.ended);
        for kind in kinds(job) {
            by_kind.entry(kind).or_default().push(ratio);
        }
    }
    by_kind
}

/// The past, for all futures.
pub(super) struct Experience {
    /// The jobs of which the past shows all: those that it shows from their submission on, in order
    /// of submission.
    jobs: Vec<Known>,
    runs: Arc<BTreeMap<Kind, Vec<(f64, bool)>>>,
    pub day: LastDay,
    /// The live jobs, in order of job.
    pub live: Vec<(JobId, Known)>,
}

impl Experience {
    /// Ends are seen at the ends of rounds of length `round`, or at once if it is 0.
    pub fn of(state: &State, past: &[PastJob], round: Seconds) -> Self {
        let view = View::of(state);
        let live = view.submitted().chain(view.deferred()).chain(view.active());
        let known = |job: JobRef<'_>| (job.id(), Known::live(&job, round));
        let mut live: Vec<(JobId, Known)> = live.map(known).collect();
        live.sort_unstable_by_key(|(id, _)| *id);
        // Of the jobs that were submitted earlier, only those that ran long are still here.
        let first = past.iter().map(|job| job.end).min();
        let ended = past.iter().map(|job| Known {
            spec: job.spec.clone(),
            ran: worked(job.ran, job.spec.duration(), round).secs(),
            ended: true,
        });
        // A job that ended without running may have been cancelled.
        let mut jobs: Vec<Known> = ended.filter(|job| job.ran > 0.0).collect();
        jobs.extend(live.iter().map(|(_, job)| job.clone()));
        jobs.retain(|job| first.is_some_and(|first| job.spec.submit >= first));
        jobs.sort_by_key(|job| job.spec.submit);
        let day = LastDay::of(&jobs, state.now());
        // A job that has not run shows nothing of running times.
        jobs.retain(|job| job.ran > 0.0);
        let mut runs = by_kind(jobs.iter());
        runs.retain(|_, run| run.iter().filter(|(_, ended)| *ended).count() >= ENOUGH);
        let runs = runs.into();
        Experience {
            jobs,
            runs,
            day,
            live,
        }
    }

    /// Returns the ratios of one future. Running times change from week to week, so a period is drawn
    /// for running jobs.
    pub fn ratios(&self, rng: &mut impl Rng) -> Ratios {
        let n = self.jobs.len();
        let length = PERIOD.max(n / PART).min(n);
        let begin = rng.random_range(0..=n - length);
        let some = by_kind(self.jobs[begin..begin + length].iter()).into_iter();
        let by_kind = some.filter_map(|(kind, all)| Some((kind, RunningTimes::of(all)?)));
        Ratios {
            by_kind: by_kind.collect(),
            runs: Arc::clone(&self.runs),
            ..Ratios::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Extras, GpuCount, JobSpec, Time};
    use chacha20::ChaCha8Rng;
    use rand::SeedableRng;

    #[test]
    fn no_job_runs_beyond_its_time_limit() {
        let attributes = [("time_limit_s".into(), 60.into())].into();
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0));
        let limited = spec.clone().with_extras(Extras {
            attributes,
            ..Extras::default()
        });
        for (spec, total) in [(spec, 600.0), (limited, 60.0)] {
            let known = Known {
                spec: spec.into(),
                ran: 10.0,
                ended: false,
            };
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            assert_eq!(Ratios::default().total(&known, &mut rng), total);
        }
    }
}
