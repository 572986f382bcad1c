//! What ended and running jobs show, for all futures of a forecast.

use super::arrivals::LastDay;
use super::running_times::{ENOUGH, RunningTimes};
use blox_core::forecast::PastJob;
use blox_core::{JobId, JobRef, JobSpec, Name, Seconds, State, Time, View};
use rand::{Rng, RngExt as _};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Smallest number of jobs of a period from which the running times of a future are drawn.
const PERIOD: usize = 400;
/// The period is at least this part of all jobs.
const PART: usize = 4;

/// A job with what is known of its running time.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub spec: Arc<JobSpec>,
    /// Its running time if it has ended, else the time that it has run.
    pub ran: f64,
    pub ended: bool,
}

impl Known {
    /// Returns a job that has not ended, or whose end is seen at the end of this round.
    fn live(job: &JobRef<'_>, round: Seconds) -> Self {
        let (ran, work) = (ran(job), job.truth().duration());
        let ended = round > Seconds::ZERO && job.truth().work_left() == 0.0 && ran <= work + round;
        Known {
            spec: job.truth().shared_spec(),
            ran: if ended { ran.min(work) } else { ran }.secs(),
            ended,
        }
    }

    /// Returns the duration that its user states.
    fn stated(&self) -> f64 {
        let estimate = self.spec.extras().user_estimate;
        let stated = estimate.unwrap_or_else(|| self.spec.duration());
        stated.secs().max(1e-3)
    }

    /// Returns its running time in one future.
    pub fn total(&self, ratios: &mut Ratios, rng: &mut impl Rng) -> f64 {
        match self.ended {
            true => self.ran,
            false => {
                let stated = self.stated();
                stated * ratios.draw(self, self.ran / stated, rng)
            }
        }
    }

    /// Returns the kinds of job that it belongs to, the narrowest first.
    fn kinds(&self) -> [Kind; 5] {
        let user = self.spec.user.clone();
        let gpus = Some(self.spec.gpus.get().ilog2());
        // Durations of one kind differ by a factor of less than 2, or 8 if there are few. Users who
        // state the longest durations overestimate more often.
        let log = self.stated().log2().floor() as i32;
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
}

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
    /// All ratios by kind, in order of submission, each with true if the job has ended.
    runs: Arc<BTreeMap<Kind, Vec<(f64, bool)>>>,
    /// Position of the next ratio of each kind.
    next: BTreeMap<Kind, usize>,
}

impl Ratios {
    /// Draws the ratio of a job, which is above `than`.
    ///
    /// Jobs that have not run get the ratios of successive jobs of their kind, from one that is drawn.
    /// So jobs that are submitted together are as alike as such jobs were.
    fn draw(&mut self, job: &Known, than: f64, rng: &mut impl Rng) -> f64 {
        let kinds = job.kinds();
        let times = kinds.iter().find_map(|kind| self.by_kind.get(kind));
        let times = times.unwrap_or(&self.as_stated);
        if than > 0.0 {
            return times.draw(rng, than);
        }
        let enough = |kind: &&Kind| {
            let run = self.runs.get(*kind);
            run.is_some_and(|run| run.iter().filter(|(_, ended)| *ended).count() >= ENOUGH)
        };
        let Some(kind) = kinds.iter().find(enough) else {
            return times.draw(rng, than);
        };
        let run = &self.runs[kind];
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

fn by_kind<'a>(jobs: impl Iterator<Item = &'a Known>) -> BTreeMap<Kind, Vec<(f64, bool)>> {
    let mut by_kind: BTreeMap<Kind, Vec<(f64, bool)>> = BTreeMap::new();
    for job in jobs {
        let ratio = (job.ran / job.stated(), job.ended);
        for kind in job.kinds() {
            by_kind.entry(kind).or_default().push(ratio);
        }
    }
    by_kind
}

/// What the past shows.
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
        let runs = by_kind(jobs.iter()).into();
        Experience {
            jobs,
            runs,
            day,
            live,
        }
    }

    /// Returns the ratios of one future. Running times change from week to week, so those of running
    /// jobs are those of a period that is drawn.
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

/// Returns the running time of a job whose end was seen at the end of a round.
fn worked(ran: Seconds, work: Seconds, round: Seconds) -> Seconds {
    match ran <= work + round {
        true => ran.min(work),
        false => ran,
    }
}

/// Returns the time that a job has run, as if it had always had the requested GPUs. Work that is
/// all done says nothing of the time beyond it.
pub(super) fn ran(job: &JobRef<'_>) -> Seconds {
    match job.truth().work_left() {
        0.0 => job.attained_time(),
        _ => Seconds::new(job.work_done() / job.own_rate()),
    }
}

/// Returns the time from a submission to a moment.
pub(super) fn since(job: &Known, now: Time) -> f64 {
    now.since(job.spec.submit).secs()
}
