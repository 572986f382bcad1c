//! Reasons why jobs waited, and for how long.

use crate::Measure;
use blox_core::SortedMap;
use blox_core::{
    Event, JobId, JobRef, MetricCollector, Name, Phase, Plan, Reason, Seconds, Time, View,
    reason::ReasonLabel, sort,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A kind of reason, with the jobs that waited for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaitRow {
    /// Kind of [`Reason`], or text of a policy's own reason. The time of launches and stops is
    /// `launching` and `leaving its GPUs`.
    pub reason: ReasonLabel,
    /// Number of measured jobs that waited for this reason, each counted once.
    pub jobs: u64,
    /// Sum over these jobs of the seconds that each waited for it, up to its end or the end of the
    /// simulation.
    pub total: Seconds,
}

/// A time in which a job waited for one reason.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WaitSpan {
    /// Number of the job.
    pub job: JobId,
    /// Identifier of the job in its trace, if it has one.
    pub name: Option<Name>,
    /// The reason, as in [`WaitRow::reason`].
    pub reason: ReasonLabel,
    /// Start of the wait, in seconds since the start of the simulation.
    pub from: Time,
    /// End of the wait: another reason, a launch, the end of the job or of the simulation.
    pub to: Time,
}

/// Receives the waits of measured jobs when they end.
///
/// ```
/// use blox_core::{Seconds, Time};
/// use blox_sim::results::{WaitSink, WaitSpan};
///
/// /// Finds the longest wait.
/// #[derive(Default)]
/// struct Longest(Seconds);
///
/// impl WaitSink for Longest {
///     fn take(&mut self, span: WaitSpan) {
///         self.0 = self.0.max(span.to - span.from);
///     }
/// }
/// # use blox_core::{ClusterSpec, Composition, GpuCount, JobSpec, order::SortKey, policy::by_key};
/// # use blox_sim::{Simulation, workload::Jobs};
/// # use std::sync::{Arc, Mutex};
/// #
/// # let fifo = Composition::new("fifo").scheduling(by_key(|_| SortKey::by(0.0)));
/// # let fifo = fifo.placement(blox_testing::FirstFit).build()?;
/// # let job = || JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0));
/// # let mut jobs = Jobs::new(vec![job(), job()]);
///
/// let longest = Arc::new(Mutex::new(Longest::default()));
/// Simulation::new(ClusterSpec::uniform(1, 2)).waits_to(Some(longest.clone())).run(fifo, &mut jobs)?;
/// assert_eq!(longest.lock().unwrap().0, Seconds::new(600.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait WaitSink: Send {
    /// Receives a wait.
    fn take(&mut self, span: WaitSpan);
}

impl WaitSink for Vec<WaitSpan> {
    fn take(&mut self, span: WaitSpan) {
        self.push(span);
    }
}

/// A sink that can be read after the simulation.
pub type SharedWaitSink = Arc<Mutex<dyn WaitSink>>;

/// Collects the waiting times of every measured job by reason. They cover all of the time between
/// its submission and its end in which it did not run.
///
/// A reason holds from the decision that gives it until the next visited decision: a skipped
/// decision would have given the same reason.
#[derive(Clone, Default)]
pub(crate) struct Waits {
    measure: Measure,
    sink: Option<SharedWaitSink>,
    /// Waits by job number; `None` for a job that is not measured or has ended.
    jobs: Vec<Option<Wait>>,
    ended: Vec<(JobId, Vec<Spell>)>,
}

/// A reason and its duration.
type Spell = (ReasonLabel, Seconds);

#[derive(Clone, Debug)]
struct Wait {
    name: Option<Name>,
    /// The last wait for the sink.
    open: Option<WaitSpan>,
    /// Reason for waiting; `None` while the job runs.
    why: Option<ReasonLabel>,
    since: Time,
    spells: Vec<Spell>,
}

/// Number of a policy's own texts that are counted separately; all others count as `other`.
const MOST_TEXTS: usize = 24;

fn take(sink: &SharedWaitSink, span: WaitSpan) {
    let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
    sink.take(span);
}

impl Wait {
    /// Notes the current wait if another reason follows it, and reports the wait before it. A wait
    /// that continues for the same reason is one wait: a decision first gives all jobs its common
    /// reason.
    fn report(&mut self, job: JobId, next: &Option<ReasonLabel>, now: Time, sink: &SharedWaitSink) {
        if let Some(reason) = &self.why
            && self.why != *next
            && now > self.since
        {
            let same = |open: &&mut WaitSpan| open.reason == *reason && open.to == self.since;
            if let Some(open) = self.open.as_mut().filter(same) {
                open.to = now;
                return;
            }
            let span = WaitSpan {
                job,
                name: self.name.clone(),
                reason: reason.clone(),
                from: self.since,
                to: now,
            };
            if let Some(before) = self.open.replace(span) {
                take(sink, before);
            }
        }
    }

    fn turn(&mut self, why: Option<ReasonLabel>, now: Time) {
        if self.why == why {
            return;
        }
        let lasted = now - self.since;
        if let Some(old) = self.why.take()
            && lasted > Seconds::ZERO
        {
            let known = self.spells.iter().any(|(label, _)| *label == old);
            let texts = self.spells.iter().filter(|(label, _)| is_text(label));
            let label = match is_text(&old) && !known && texts.count() >= MOST_TEXTS {
                true => OTHER,
                false => old,
            };
            add(&mut self.spells, label, lasted);
        }
        self.why = why;
        self.since = now;
    }
}

const OTHER: ReasonLabel = ReasonLabel::Kind("other");

fn is_text(label: &ReasonLabel) -> bool {
    matches!(label, ReasonLabel::Text(_))
}

fn add(spells: &mut Vec<Spell>, label: ReasonLabel, lasted: Seconds) {
    match spells.iter_mut().find(|(known, _)| *known == label) {
        Some((_, total)) => *total += lasted,
        None => spells.push((label, lasted)),
    }
}

impl Waits {
    pub(crate) fn new(measure: Measure, sink: Option<SharedWaitSink>) -> Self {
        Waits {
            measure,
            sink,
            ..Waits::default()
        }
    }

    /// Returns the rows, longest wait first, of a simulation that ended at `now`.
    pub(crate) fn rows(mut self, now: Time) -> Vec<WaitRow> {
        for id in 0..self.jobs.len() {
            self.end(JobId(id as u32), now);
        }
        // In order of job, so that sums do not depend on the order of ends.
        sort::by_key(&mut self.ended, |(id, _)| *id);
        self.fold_rare_texts();
        let mut rows: Vec<WaitRow> = Vec::new();
        for (label, lasted) in self.ended.iter().flat_map(|(_, spells)| spells) {
            match rows.iter_mut().find(|r| r.reason == *label) {
                Some(row) => {
                    row.jobs += 1;
                    row.total += *lasted;
                }
                None => rows.push(WaitRow {
                    reason: label.clone(),
                    jobs: 1,
                    total: *lasted,
                }),
            }
        }
        sort::by(&mut rows, |a, b| {
            let longer = b.total.secs().total_cmp(&a.total.secs());
            longer.then_with(|| a.reason.as_str().cmp(b.reason.as_str()))
        });
        rows
    }

    /// Counts texts that are not among the longest waits as `other`.
    fn fold_rare_texts(&mut self) {
        let mut totals: SortedMap<&str, f64> = SortedMap::new();
        let spells = self.ended.iter().flat_map(|(_, spells)| spells);
        for (label, lasted) in spells.filter(|(label, _)| is_text(label)) {
            *totals.entry(label.as_str()).or_default() += lasted.secs();
        }
        let mut order: Vec<(&str, f64)> = totals.into_iter().collect();
        sort::by(&mut order, |a, b| {
            b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0))
        });
        let rare = order.iter().skip(MOST_TEXTS);
        let rare: BTreeSet<String> = rare.map(|(text, _)| (*text).to_owned()).collect();
        if rare.is_empty() {
            return;
        }
        for (_, spells) in &mut self.ended {
            let mut kept = Vec::new();
            for (label, lasted) in std::mem::take(spells) {
                match is_text(&label) && rare.contains(label.as_str()) {
                    true => add(&mut kept, OTHER, lasted),
                    false => add(&mut kept, label, lasted),
                }
            }
            *spells = kept;
        }
    }

    fn turn(&mut self, id: JobId, why: Option<ReasonLabel>, now: Time) {
        if let Some(Some(wait)) = self.jobs.get_mut(id.0 as usize) {
            if let Some(sink) = &self.sink {
                wait.report(id, &why, now, sink);
            }
            wait.turn(why, now);
        }
    }

    fn end(&mut self, id: JobId, now: Time) {
        self.turn(id, None, now);
        let Some(Some(wait)) = self.jobs.get_mut(id.0 as usize).map(Option::take) else {
            return;
        };
        if let (Some(sink), Some(last)) = (&self.sink, wait.open) {
            take(sink, last);
        }
        self.ended.push((id, wait.spells));
    }
}

/// Returns the reason why a job waits, from its record alone.
fn why(job: &JobRef<'_>) -> Option<ReasonLabel> {
    match job.phase() {
        Phase::Running | Phase::Ended => None,
        Phase::Starting if job.bound().is_none() => Some(Reason::WaitingForGpus.label()),
        Phase::Starting => Some(ReasonLabel::Kind("launching")),
        Phase::Stopping => Some(ReasonLabel::Kind("leaving its GPUs")),
        Phase::Submitted | Phase::Deferred | Phase::Waiting => Some(job.reason().label()),
    }
}

impl MetricCollector for Waits {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        let now = view.now();
        if let Event::Submitted { job, spec } = event {
            let id = job.0 as usize;
            if self.jobs.len() <= id {
                self.jobs.resize(id + 1, None);
            }
            if self.measure.includes(*job, spec.submit) {
                self.jobs[id] = Some(Wait {
                    name: spec.name.clone(),
                    open: None,
                    why: None,
                    since: spec.submit,
                    spells: Vec::new(),
                });
            }
        }
        let Some(id) = event.job() else { return };
        match view.job(id) {
            Some(job) if job.phase() != Phase::Ended => self.turn(id, why(&job), now),
            _ => self.end(id, now),
        }
    }

    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        if plan.is_empty() {
            self.round(view, plan);
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        self.round(view, plan);
    }
}

impl Waits {
    /// Records a decision. The view shows its plan as applied.
    fn round(&mut self, view: View<'_>, plan: &Plan) {
        let now = view.now();
        let otherwise = plan.otherwise.label();
        let by_gpus = plan.waits_by_gpus.iter();
        let by_gpus: Vec<_> = by_gpus.map(|(gpus, why)| (*gpus, why.label())).collect();
        for job in view.waiting() {
            let alike = by_gpus.iter().find(|(gpus, _)| *gpus == job.gpus());
            let why = alike.map_or(&otherwise, |(_, why)| why);
            self.turn(job.id(), Some(why.clone()), now);
        }
        // Of several reasons of a job, the first counts.
        for (id, why) in plan.waits.iter().rev() {
            if view.job(*id).is_some_and(|j| j.phase() == Phase::Waiting) {
                self.turn(*id, Some(why.label()), now);
            }
        }
        for job in view.deferred().chain(view.placed()) {
            self.turn(job.id(), why(&job), now);
        }
    }
}
