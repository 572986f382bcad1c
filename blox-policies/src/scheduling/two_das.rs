//! Discretised two-dimensional attained service: 2D-LAS and 2D-Gittins.

use super::gittins::ServiceHistory;
use blox_core::estimate::Estimator;
use blox_core::policy::KeyFn;
use blox_core::{
    Answer, Event, JobId, JobQueue, JobRef, MissingData, Policy, SchedulingPolicy, Seconds,
    SortedMap, Submission, Time, Validity, View, order::SortKey,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Tiresias' scheduling (NSDI 2019, section 3.2): priority queues by attained service.
///
/// A job preempts another only if one of them crossed a threshold. A job enters the first queue.
/// When its attained service reaches the threshold of its queue, it moves to the next queue; the
/// last queue has no threshold. All jobs of a queue come before the jobs of later queues.
///
/// Within a queue, 2D-LAS orders jobs by their first start. A running job is therefore not stopped
/// for a new job, and jobs that never ran come by submission.
///
/// 2D-Gittins orders the jobs of a queue by the Gittins index of [`ServiceHistory`], then by
/// submission. The index looks ahead by the threshold of the queue. The last queue has none and is
/// ordered as in 2D-LAS. Durations need not be known. If estimates exist, [`TwoDas::gittins_by`] computes the
/// index from the estimate of each job.
///
/// With a promote knob `k`, a waiting job returns to the first queue after it waited `k` times as
/// long as it ran. Both times are counted from its submission or last promotion. Its attained
/// service is then counted from 0. Without the knob, long jobs can starve.
#[derive(Clone)]
pub struct TwoDas {
    queues: Queues,
    promote: Option<f64>,
}

/// Inputs of a job's sort key, apart from the job.
#[derive(Clone)]
struct Queues {
    /// Thresholds of all queues but the last, ascending.
    thresholds: Vec<f64>,
    /// For 2D-Gittins; without it, jobs of a queue are by first start.
    gittins: Option<Gittins>,
}

/// Order of jobs within a queue by their Gittins index.
#[derive(Clone)]
struct Gittins {
    /// Services of past jobs; with an estimator, true durations divided by estimated durations.
    history: Arc<ServiceHistory>,
    /// Estimator whose estimates the history multiplies.
    estimator: Option<Arc<dyn Estimator + Sync>>,
}

/// Accounts of promoted jobs at their last promotion.
type Accounts = SortedMap<JobId, Account>;

/// The promoted jobs, and the sort key that depends on them.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Promoted {
    accounts: Accounts,
    #[serde(skip)]
    key: Option<KeyFn>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Account {
    at: Time,
    ran: f64,
    service: f64,
}

impl TwoDas {
    /// Creates 2D-LAS with one queue more than `thresholds`, which are in GPU-seconds. Returns
    /// `None` unless they ascend from above 0.
    pub fn las(thresholds: &[Seconds]) -> Option<Self> {
        let thresholds: Vec<f64> = thresholds.iter().map(|t| t.secs()).collect();
        let above = |(i, t): (usize, &f64)| *t > if i == 0 { 0.0 } else { thresholds[i - 1] };
        let ascending = thresholds.iter().enumerate().all(above);
        ascending.then(|| {
            TwoDas::of(Queues {
                thresholds,
                gittins: None,
            })
        })
    }

    /// Creates 2D-Gittins with a history of past jobs. Returns `None` unless the thresholds ascend
    /// from above 0.
    pub fn gittins(thresholds: &[Seconds], history: ServiceHistory) -> Option<Self> {
        let TwoDas { mut queues, .. } = TwoDas::las(thresholds)?;
        queues.gittins = Some(Gittins {
            history: Arc::new(history),
            estimator: None,
        });
        Some(TwoDas::of(queues))
    }

    /// Creates 2D-Gittins with an estimator, whose estimates are not updated.
    ///
    /// A job's service is distributed as its estimate times `errors`. These are true durations of
    /// past jobs divided by their estimates; [`Seconds`] hold the quotients. A history of only `1`
    /// trusts every estimate. A job comes last in its queue if it has no estimate, or if it
    /// outlived every duration that the distribution allows.
    ///
    /// ```
    /// use blox_core::{Seconds, estimate::UserEstimate};
    /// use blox_policies::scheduling::{ServiceHistory, TwoDas};
    /// // Half of all jobs take as long as was believed, half twice as long.
    /// let errors = ServiceHistory::of([1.0, 2.0].map(Seconds::new)).unwrap();
    /// let policy = TwoDas::gittins_by(&[Seconds::new(3250.0)], UserEstimate, errors);
    /// assert!(policy.is_some());
    /// ```
    ///
    /// Returns `None` unless the thresholds ascend from above 0.
    pub fn gittins_by(
        thresholds: &[Seconds],
        estimator: impl Estimator,
        errors: ServiceHistory,
    ) -> Option<Self> {
        let TwoDas { mut queues, .. } = TwoDas::las(thresholds)?;
        queues.gittins = Some(Gittins {
            history: Arc::new(errors),
            estimator: Some(Arc::new(estimator)),
        });
        Some(TwoDas::of(queues))
    }

    /// Sets the promote knob. Without one, jobs are never promoted. Returns `None` unless the knob is
    /// finite and above 0.
    pub fn promoting(mut self, knob: Option<f64>) -> Option<Self> {
        self.promote = knob;
        let valid = knob.is_none_or(|k| k.is_finite() && k > 0.0);
        valid.then_some(self)
    }

    fn of(queues: Queues) -> Self {
        TwoDas {
            queues,
            promote: None,
        }
    }

    fn account(memory: &Promoted, job: &JobRef<'_>) -> Account {
        memory.accounts.get(&job.id()).copied().unwrap_or(Account {
            at: job.submit(),
            ..Account::default()
        })
    }

    /// Promotes jobs that waited long enough, and returns when the next promotion is due.
    fn promote(&self, memory: &mut Promoted, view: View<'_>) -> Validity {
        let Some(knob) = self.promote else {
            return Validity::UntilEvent;
        };
        let now = view.now();
        let (mut next, mut any) = (Validity::UntilEvent, false);
        for job in view.waiting() {
            let since = Self::account(memory, &job);
            let ran = job.attained_time().secs() - since.ran;
            let service = job.attained_gpu_time().secs();
            if ran <= 0.0 || self.queues.level(service - since.service) == 0 {
                continue;
            }
            // At this time, the waiting time reaches `knob` times the running time.
            let due = since.at + Seconds::new(ran + knob * ran);
            if due <= now {
                let account = Account {
                    at: now,
                    ran: job.attained_time().secs(),
                    service,
                };
                memory.accounts.insert(job.id(), account);
                any = true;
            } else {
                next = next.and(Validity::Until(due));
            }
        }
        if any {
            memory.key = None;
        }
        next
    }

    /// Returns when the first running job crosses its threshold.
    fn next_crossing(&self, memory: &Promoted, view: View<'_>) -> Validity {
        let crossing = |job: JobRef<'_>| {
            let service = job.attained_gpu_time().secs() - Self::account(memory, &job).service;
            let limit = self.queues.thresholds.get(self.queues.level(service))?;
            let a_second = f64::from(job.assignment()?.count().get());
            Some(view.now() + Seconds::new((limit - service) / a_second))
        };
        let next = view.placed().filter_map(crossing).min();
        next.map_or(Validity::UntilEvent, Validity::Until)
    }
}

impl Queues {
    /// Returns the queue of a job, from 0. Tolerates rounding errors in a sum of times.
    fn level(&self, service: f64) -> usize {
        self.thresholds
            .partition_point(|t| service >= t - 1e-9 * t.max(1.0))
    }

    fn key(self, promoted: Accounts) -> KeyFn {
        Arc::new(move |job| {
            let before = promoted.get(&job.id()).map_or(0.0, |a| a.service);
            let service = job.attained_gpu_time().secs() - before;
            let level = self.level(service);
            let key = match (&self.gittins, self.thresholds.get(level)) {
                (Some(gittins), Some(quantum)) => -gittins.index(job, service.max(0.0), *quantum),
                // The last queue is by first start in both.
                _ => job.first_start().map_or(f64::INFINITY, Time::secs),
            };
            let key = SortKey::by(key);
            key.then(job.submit().secs()).in_class(level as i32)
        })
    }
}

impl Policy for TwoDas {
    type Memory = Promoted;

    fn initial(&self, _: u64) -> Promoted {
        Promoted::default()
    }

    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        let estimator = self
            .queues
            .gittins
            .as_ref()
            .and_then(|g| g.estimator.as_ref());
        estimator.map_or(Ok(()), |estimator| estimator.check_job(job))
    }

    fn on_event(&self, memory: &mut Promoted, _: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            memory.accounts.remove(job);
        }
    }
}

impl SchedulingPolicy for TwoDas {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let promotion = self.promote(memory, view);
        let Promoted { accounts, key } = &mut *memory;
        out.keep(
            view,
            key.get_or_insert_with(|| self.queues.clone().key(accounts.clone())),
        );
        out.allow_preemption();
        if view.waiting_count() == 0 {
            return Ok(Validity::UntilEvent);
        }
        match self.queues.gittins {
            None => Ok(promotion.and(self.next_crossing(memory, view))),
            // An index changes with every second of service.
            Some(_) => Ok(Validity::NextRound),
        }
    }
}

impl Gittins {
    fn index(&self, job: &JobRef<'_>, service: f64, quantum: f64) -> f64 {
        let whole = self.estimator.as_ref().map_or(1.0, |estimator| {
            let gpus = job.amount().number();
            estimator.duration(job).map_or(0.0, |d| d.secs() * gpus)
        });
        index_of(whole, &self.history, service, quantum)
    }
}

/// Returns the Gittins index of a job with an estimate of `whole`, given errors of estimates.
fn index_of(whole: f64, errors: &ServiceHistory, service: f64, quantum: f64) -> f64 {
    if whole <= 0.0 {
        return 0.0;
    }
    let parts = |x: f64| Seconds::new((x / whole).min(f64::MAX));
    errors.index(parts(service), parts(quantum)) / whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_must_ascend() {
        let build = |t: &[f64]| {
            let t: Vec<_> = t.iter().map(|t| Seconds::new(*t)).collect();
            TwoDas::las(&t).is_some()
        };
        assert!(build(&[]) && build(&[3250.0, 7200.0]));
        assert!(!build(&[7200.0, 3250.0]) && !build(&[0.0]));
    }

    #[test]
    fn a_knob_is_above_0() {
        let las = || TwoDas::las(&[]).unwrap();
        assert!(las().promoting(Some(0.0)).is_none());
        assert!(las().promoting(Some(0.5)).is_some());
    }

    #[test]
    fn believed_service_has_index_of_its_distribution() {
        let of = |samples: &[f64]| ServiceHistory::of(samples.iter().map(|s| Seconds::new(*s)));
        let trusted = of(&[1.0]).unwrap();
        // If the estimate is trusted and the job ends within the quantum: the inverse of the
        // remaining service.
        assert_eq!(index_of(200.0, &trusted, 150.0, 100.0), 1.0 / 50.0);
        assert_eq!(index_of(200.0, &trusted, 50.0, 100.0), 0.0);
        assert_eq!(index_of(200.0, &trusted, 200.0, f64::MAX), 0.0);
        assert_eq!(index_of(0.0, &trusted, 0.0, f64::MAX), 0.0);
        // With errors, the index of the samples times the estimate.
        let (errors, scaled) = (
            of(&[0.5, 1.0, 2.0]).unwrap(),
            of(&[50.0, 100.0, 200.0]).unwrap(),
        );
        for (a, q) in [(0.0, 60.0), (60.0, 60.0), (120.0, f64::MAX)] {
            let (ours, direct) = (
                index_of(100.0, &errors, a, q),
                scaled.index(Seconds::new(a), Seconds::new(q)),
            );
            assert!((ours - direct).abs() < 1e-12, "{ours} {direct}");
        }
    }

    #[test]
    fn a_threshold_is_reached_but_for_the_last_bits() {
        let queues = TwoDas::las(&[Seconds::new(100.0), Seconds::new(300.0)])
            .unwrap()
            .queues;
        assert_eq!(queues.level(99.9), 0);
        assert_eq!(queues.level(100.0_f64.next_down()), 1);
        assert_eq!(queues.level(300.0), 2);
    }
}
