//! Jobs in the order of a formula.

use crate::formula::{Formula, Pace};
use blox_core::estimate::{Estimator, UserEstimate};
use blox_core::order::SortKey;
use blox_core::policy::{ByKey, by_key};
use blox_core::{
    Answer, JobQueue, JobRef, MissingData, Request, SchedulingPolicy, Stateless, Submission,
    Validity, View,
};
use std::sync::Arc;

/// Jobs in ascending order of a [`Formula`]'s keys.
///
/// ```
/// use blox_policies::scheduling::ByFormula;
///
/// // Jobs that ran for less than 8 hours come first, and preempt the others.
/// let two_queues = ByFormula::new("where(attained < 8h, 0, 1), submit".parse()?).preemptive();
/// # let _ = two_queues;
/// # Ok::<(), blox_policies::formula::FormulaError>(())
/// ```
///
/// The order is kept from decision to decision, as under [`by_key`], if the formula has at most two
/// keys. While a job waits, only the first of them may change, and evenly. Every other formula is
/// computed for each job at each decision. Rounds without events are skipped if the formula reads
/// nothing that changes with time, or only what favours running jobs.
#[derive(Clone)]
pub struct ByFormula {
    rule: Arc<Rule>,
    /// The kept order; `None` if the order is made at each decision.
    kept: Option<ByKey>,
    preemptive: bool,
    /// True if the order changes with events alone.
    lasts: bool,
}

/// A formula with the estimator of its columns.
struct Rule {
    formula: Formula,
    estimator: Box<dyn Estimator>,
}

impl Rule {
    fn key(&self, at: usize, job: &JobRef<'_>) -> f64 {
        self.formula.key(at, job, &*self.estimator)
    }
}

impl ByFormula {
    /// Creates the policy. The columns of estimates have the estimates of users.
    pub fn new(formula: Formula) -> Self {
        ByFormula::with(formula, UserEstimate)
    }

    /// Creates the policy with an estimator for the columns of estimates. The estimator receives no
    /// events, since estimates of waiting jobs must not change.
    pub fn with(formula: Formula, estimator: impl Estimator) -> Self {
        let estimator = Box::new(estimator);
        ByFormula::of(Arc::new(Rule { formula, estimator }), false)
    }

    /// Allows preemption: a running job may be stopped for one that is ordered before it.
    #[must_use]
    pub fn preemptive(self) -> Self {
        ByFormula::of(self.rule, true)
    }

    fn of(rule: Arc<Rule>, preemptive: bool) -> Self {
        let (first, both, even) = (Arc::clone(&rule), Arc::clone(&rule), Arc::clone(&rule));
        let order = match rule.formula.len() {
            1 => Some(by_key(move |job| SortKey::by(first.key(0, job)))),
            2 => Some(by_key(move |job| {
                SortKey::by(both.key(0, job)).then(both.key(1, job))
            })),
            _ => None,
        };
        let kept = order.and_then(|mut order| {
            if preemptive {
                order = order.preemptive();
            }
            if rule.formula.advances_together() {
                order = order.keys_advance_together();
            }
            match rule.formula.pace() {
                Pace::Still => Some(order),
                Pace::Even(rate) => {
                    Some(order.changing_by(move |job| rate.value(job, &*even.estimator)))
                }
                Pace::Uneven => None,
            }
        });
        let stays = rule.formula.pace() == Pace::Still;
        ByFormula {
            lasts: stays && (!preemptive || rule.formula.favours_running()),
            rule,
            kept,
            preemptive,
        }
    }

    /// Requests all jobs in an order that is made for this decision alone.
    fn list(&self, view: View<'_>, out: &mut JobQueue) {
        let keys = 0..self.rule.formula.len();
        let row = |job: JobRef<'_>| {
            let values: Vec<f64> = keys.clone().map(|at| self.rule.key(at, &job)).collect();
            (values, Request::gang(&job))
        };
        let mut rows: Vec<(Vec<f64>, Request)> = view.active().map(row).collect();
        blox_core::sort::by(&mut rows, |(a, _), (b, _)| {
            let pairs = a.iter().zip(b);
            // Equal zeros may differ in sign.
            let mut ordered = pairs.map(|(a, b)| (a + 0.0).total_cmp(&(b + 0.0)));
            ordered
                .find(|o| o.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let ranked = rows
            .into_iter()
            .zip(0u32..)
            .map(|((values, request), rank)| {
                let odd = values.iter().any(|value| value.is_nan());
                let rank = if odd { f64::NAN } else { f64::from(rank) };
                (SortKey::by(rank), request)
            });
        out.push_in_order(ranked);
        if self.preemptive {
            out.allow_preemption();
        }
    }
}

impl Stateless for ByFormula {
    fn check_job(&self, job: &Submission) -> Result<(), MissingData> {
        match self.rule.formula.is_estimated() {
            true => self.rule.estimator.check_job(job),
            false => Ok(()),
        }
    }
}

impl SchedulingPolicy for ByFormula {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        match &self.kept {
            Some(kept) => {
                kept.schedule(&mut (), view, out)?;
            }
            None => self.list(view, out),
        }
        Ok(match self.lasts || view.waiting_count() == 0 {
            true => Validity::UntilEvent,
            false => Validity::NextRound,
        })
    }
}
