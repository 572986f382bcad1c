//! Records results of jobs and rounds while a simulation runs.

use super::bills::Bills;
use super::services::{self, has_guarantee};
use super::training::Account;
use super::{JobResult, job_id};
use crate::{Measure, Watch, WorkloadInfo};
use blox_core::SortedMap;
use blox_core::estimate::ESTIMATE;
use blox_core::reason::ReasonLabel;
use blox_core::{
    Action, AdmissionDecision, Assignment, Class, Event, Gpus, JobId, JobRef, JobSpec,
    MetricCollector, NodeAction, Phase, Plan, Reason, Seconds, Submission, Time, View,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One visited decision as a row. Counts all jobs, measured or not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoundRow {
    /// Time of the decision, in seconds since the start of the simulation.
    pub at: Time,
    /// Number of jobs that the plan stopped, including jobs that it moves.
    pub preemptions: u32,
    /// Number of jobs that the plan placed: launches, moves and changes in place.
    pub placements: u32,
    /// Number of jobs with GPUs after the plan: starting, running or stopping.
    pub placed: u32,
    /// Number of admitted jobs without GPUs after the plan.
    pub waiting: u32,
    /// Number of jobs that admission or a user holds back after the plan.
    pub deferred: u32,
    /// Number of free GPUs after the plan: usable and not allocated.
    pub free_gpus: u32,
    /// Number of GPUs requested by waiting and placed jobs: the sum of [`JobResult::gpus`]. Deferred
    /// jobs are excluded.
    pub demand: Gpus,
}

/// An event in the history of an explained job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Moment {
    /// Time of the event, in seconds since the start of the simulation.
    pub at: Time,
    /// Description of the event.
    pub what: String,
}

/// Records results; one for each simulation.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// Results by job number.
    jobs: Vec<Option<JobResult>>,
    pub(crate) rounds: Vec<RoundRow>,
    pub(crate) story: Vec<Moment>,
    measure: Measure,
    keep_rounds: bool,
    explain: Option<JobId>,
    watch: Arc<Watch>,
    last_reason: String,
    /// True if a job with extras was submitted.
    with_extras: bool,
    /// For jobs with a deadline: the time of their last placement, and the overhead so far.
    overheads: SortedMap<JobId, (Time, Seconds)>,
    /// Accounts of live services.
    services: SortedMap<JobId, services::Account>,
    /// True if there was a spot job with guaranteed time.
    with_guarantees: bool,
    /// Broken guarantees of live jobs.
    broken: SortedMap<JobId, u32>,
    /// Costs of live jobs, if nodes have prices.
    pub(crate) bills: Option<Bills>,
    /// Accounts of training jobs.
    given: SortedMap<JobId, Account>,
    /// See [`Report::resized`](crate::Report::resized).
    pub(crate) resized: u64,
    /// See [`Report::workload_info`](crate::Report::workload_info).
    pub(crate) workload_info: WorkloadInfo,
    pub(crate) last_end: Time,
    /// First submission and last end of accepted jobs.
    pub(crate) first_submit: Option<Time>,
    pub(crate) last_let_in: Time,
    /// Numbers of GPUs of nodes that are up, after events of nodes.
    up: Vec<(Time, u32)>,
}

impl Recorder {
    /// Creates a recorder. All jobs get rows, and the jobs selected by `measure` are marked as
    /// measured. Rounds and the history of one job are only recorded on request.
    pub fn new(
        measure: Measure,
        keep_rounds: bool,
        explain: Option<JobId>,
        watch: Arc<Watch>,
    ) -> Self {
        Recorder {
            measure,
            keep_rounds,
            explain,
            watch,
            ..Recorder::default()
        }
    }

    /// Returns the rows of all recorded jobs, in order of job.
    #[allow(
        clippy::filter_map_identity,
        reason = "this is done in place, `flatten` copies all rows"
    )]
    pub(crate) fn take_jobs(&mut self) -> Vec<JobResult> {
        let rows = std::mem::take(&mut self.jobs);
        rows.into_iter().filter_map(|row| row).collect()
    }

    /// Records a job that has ended, or that is still live at the end of the simulation.
    pub(crate) fn note(&mut self, job: &JobRef<'_>, outcome: Option<blox_core::Outcome>, at: Time) {
        let measured = self.measure.includes(job.id(), job.submit());
        let rejected = outcome == Some(blox_core::Outcome::Rejected);
        let (reason, reason_kind) = match (outcome, job.phase()) {
            (None, phase @ (Phase::Starting | Phase::Running | Phase::Stopping)) => (
                Some(phase.as_str().into()),
                Some(ReasonLabel::Kind(phase.as_str())),
            ),
            (None | Some(blox_core::Outcome::Rejected), _) => (
                Some(job.reason().to_string().into()),
                Some(ReasonLabel::Kind(job.reason().kind())),
            ),
            _ => (None, None),
        };
        let service = self.services.remove(&job.id());
        let service = service.map(|account| Box::new(account.close(job.spec(), at)));
        self.resized += u64::from(measured && service.is_none() && is_resized(job));
        if let Some(extras) = &job.spec().extras {
            self.workload_info.training += u64::from(extras.training.is_some());
        }
        if measured && let Some(extras) = &job.spec().extras {
            let workload_info = &mut self.workload_info;
            workload_info.user_estimates += u64::from(extras.user_estimate.is_some());
            workload_info.brought += u64::from(extras.attributes.contains_key(ESTIMATE));
            let has_speeds = extras.speeds.is_some() || extras.training.is_some();
            workload_info.speeds += u64::from(has_speeds);
        }
        let i = job.id().index();
        if i >= self.jobs.len() {
            self.jobs.resize_with(i + 1, || None);
        }
        self.jobs[i] = Some(JobResult {
            job: job.id(),
            name: job.spec().name.clone(),
            spec: kept_spec(job),
            submit: job.submit(),
            gpus: job.gpus().get(),
            duration: job.truth().duration(),
            outcome,
            first_start: job.first_start(),
            finish: outcome.is_some().then_some(at),
            attained: job.attained_time(),
            attained_gpu: job.attained_gpu_time(),
            preemptions: job.preemptions(),
            launches: job.attempt(),
            crashes: job.crashes(),
            reason,
            reason_kind,
            measured,
            deadline: deadline_of(job),
            overhead: self
                .overheads
                .remove(&job.id())
                .map_or(Seconds::ZERO, |o| o.1),
            least: deadline_of(job).map_or(Seconds::ZERO, |_| least(job)),
            worked_until: deadline_of(job)
                .filter(|_| outcome == Some(blox_core::Outcome::Completed))
                .and_then(|_| job.worked_until()),
            given: match self.given.remove(&job.id()) {
                Some(account) => Some(Box::new(account.close(at))),
                None => trains(job).then(Box::default),
            },
            service,
            broken: self.broken.remove(&job.id()).unwrap_or(0),
            cost: self
                .bills
                .as_mut()
                .map_or(0.0, |bills| bills.close(job.id())),
            rho: None,
        });
        if !rejected {
            let first = self.first_submit.get_or_insert(job.submit());
            *first = job.submit().min(*first);
        }
        if outcome.is_some() {
            self.watch.ended.fetch_add(1, Ordering::Relaxed);
            self.last_end = self.last_end.max(at);
            if !rejected {
                self.last_let_in = self.last_let_in.max(at);
            }
        }
    }

    /// Returns the GPU-seconds of nodes that were up from `from` to `to`, for a cluster that starts
    /// with `gpus` GPUs; `None` if there was no event of a node.
    pub(crate) fn capacity(&self, gpus: u32, from: Time, to: Time) -> Option<f64> {
        if self.up.is_empty() {
            return None;
        }
        let (mut sum, mut since, mut now) = (0.0, from, gpus);
        for (at, after) in self.up.iter().copied().chain([(to, 0)]) {
            let at = at.clamp(from, to);
            sum += f64::from(now) * (at - since).secs();
            (since, now) = (at, after);
        }
        Some(sum)
    }

    /// Marks a recorded job as considered by a decision and still waiting. The reason in the last
    /// plan depends on the visited moments; this one does not.
    pub(crate) fn passed_over(&mut self, id: JobId) {
        let row = self.jobs.get_mut(id.index()).and_then(Option::as_mut);
        if let Some(row) = row
            && row.reason_kind == Some(ReasonLabel::Kind(Reason::NotYetDecided.kind()))
        {
            row.reason = Some(Reason::NotChosen.kind().into());
            row.reason_kind = Some(ReasonLabel::Kind(Reason::NotChosen.kind()));
        }
    }

    fn places(&mut self, job: &JobRef<'_>, assignment: &Assignment, now: Time) {
        if trains(job) {
            let account = self.given.entry(job.id()).or_default();
            account.gives(now, assignment);
        }
        if deadline_of(job).is_some() {
            let entry = self.overheads.entry(job.id());
            entry.or_insert((now, Seconds::ZERO)).0 = now;
        }
    }

    /// Notes the GPUs on which services run.
    #[cold]
    fn observe_services(&mut self, view: View<'_>) {
        for (id, account) in self.services.iter_mut() {
            let Some(job) = view.job(*id) else { continue };
            account.observe(&job, view.now());
        }
    }

    /// Counts the guarantees that a plan breaks. The view does not show the plan yet.
    #[cold]
    fn count_broken(&mut self, view: View<'_>, plan: &Plan) {
        for action in &plan.actions {
            let Action::Stop { job, .. } = action else {
                continue;
            };
            let until = view.job(*job).and_then(|job| job.protected_until());
            if until.is_some_and(|until| view.now() < until) {
                *self.broken.entry(*job).or_insert(0) += 1;
            }
        }
    }

    fn add_moment(&mut self, at: Time, what: String) {
        self.story.push(Moment { at, what });
    }
}

/// Describes the admission of a job in a class.
fn admitted(job: &JobRef<'_>, class: Option<Class>) -> String {
    let lowered = class.is_some_and(Class::is_spot) && !job.spec().extras().class.is_spot();
    match deadline_of(job) {
        Some(at) if lowered => {
            format!("admitted as best effort: its deadline, {at} s, cannot be promised")
        }
        _ if lowered => "admitted as best effort".to_owned(),
        _ => "admitted".to_owned(),
    }
}

/// See [`JobResult::spec`].
fn kept_spec(job: &JobRef<'_>) -> Option<Arc<JobSpec>> {
    let spec = job.spec();
    let plain = spec.user.is_none()
        && spec.virtual_cluster.is_none()
        && spec.extras.is_none()
        && spec.priority == 0
        && job.own_rate() == 1.0;
    (!plain).then(|| job.truth().shared_spec())
}

/// Returns the effective deadline at submission. A service has no work to complete, so it has none.
fn deadline_of(job: &JobRef<'_>) -> Option<Time> {
    let extras = job.spec().extras.as_ref()?;
    let counts = extras.class == Class::Guaranteed && extras.need.is_none();
    extras.deadlines.first().filter(|_| counts).map(|d| d.at)
}

/// See [`JobResult::least`].
fn least(job: &JobRef<'_>) -> Seconds {
    let extras = job.spec().extras();
    if extras.training.is_some() || extras.speeds.is_some() || extras.sensitivity.is_some() {
        return Seconds::ZERO;
    }
    let rates = extras.rates.iter().copied();
    let best = rates.fold(job.own_rate(), f64::max);
    job.truth().duration() * (job.own_rate() / best)
}

fn trains(job: &JobRef<'_>) -> bool {
    let extras = job.spec().extras.as_ref();
    extras.is_some_and(|e| e.training.is_some())
}

/// Returns whether a job has neither levels nor training data nor execution plans.
pub(crate) fn is_rigid(job: &Submission) -> bool {
    job.extras.as_ref().is_none_or(|e| {
        let adapts = !e.levels.is_empty() || e.training.is_some();
        let planned = |name: &&str| job.attribute(name).is_some();
        !adapts && !["params_b", "plans"].iter().any(planned)
    })
}

/// Returns whether a rigid job ran on another number of GPUs than requested, or with other parts of
/// them, judging by its GPU-seconds. A job with execution plans is not rigid.
fn is_resized(job: &JobRef<'_>) -> bool {
    let extras = job.spec().extras.as_ref();
    let part = extras.map_or(1.0, |e| e.share.fraction());
    let asked = job.attained_time().secs() * f64::from(job.gpus().get()) * part;
    is_rigid(job.spec()) && (job.attained_gpu_time().secs() - asked).abs() > 1e-9 * asked
}

impl MetricCollector for Recorder {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        if let Some(bills) = &mut self.bills {
            bills.on_event(view, event);
        }
        match event {
            Event::Submitted { job, spec } => {
                if let Some(extras) = &spec.extras {
                    self.with_extras = true;
                    self.with_guarantees |= has_guarantee(extras.class);
                    if extras.need.is_some() {
                        self.services
                            .insert(*job, services::Account::open(view.now()));
                    }
                }
            }
            Event::Started { job, .. } => {
                if let Some((placed, lost)) = self.overheads.get_mut(job) {
                    *lost += view.now() - *placed;
                    *placed = view.now();
                }
            }
            Event::NodeJoined { .. }
            | Event::NodeLeft { .. }
            | Event::NodeLost { .. }
            | Event::NodeReturned { .. }
            | Event::NodeActionFailed { .. }
            | Event::Reclaimed { .. }
            | Event::NodeManaged {
                action: NodeAction::Power { .. },
            } => {
                self.up.push((view.now(), view.cluster().up_gpus()));
            }
            Event::Crashed { job, .. } | Event::LaunchFailed { job, .. } => {
                if let Some(account) = self.given.get_mut(job) {
                    account.takes(view.now());
                }
            }
            Event::Ended { job, outcome } => {
                if let Some(j) = view.job(*job) {
                    self.note(&j, Some(*outcome), view.now());
                }
            }
            Event::AdmissionDecided {
                job,
                admission: AdmissionDecision::Reject(_),
            } => {
                if let Some(j) = view.job(*job) {
                    self.note(&j, Some(blox_core::Outcome::Rejected), view.now());
                }
            }
            Event::AdmissionDecided {
                admission:
                    AdmissionDecision::Accept {
                        class: Some(class), ..
                    },
                ..
            } => self.with_guarantees |= has_guarantee(*class),
            _ => {}
        }
        if !self.services.is_empty() {
            self.observe_services(view);
        }
        if self.explain.is_some() && event.job() == self.explain {
            self.explain_event(view, event);
        }
    }

    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        if plan.is_empty() {
            self.round(view, plan);
        } else if self.with_guarantees {
            self.count_broken(view, plan);
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        self.round(view, plan);
        if let Some(bills) = &mut self.bills {
            bills.on_launches(view, plan);
        }
        if !self.services.is_empty() {
            self.observe_services(view);
        }
    }
}

impl Recorder {
    /// Records a decision. The view shows its plan as applied.
    fn round(&mut self, view: View<'_>, plan: &Plan) {
        if self.keep_rounds {
            let count = |wanted: fn(&Action) -> bool| {
                plan.actions.iter().filter(|a| wanted(a)).count() as u32
            };
            self.rounds.push(RoundRow {
                at: view.now(),
                preemptions: count(|a| matches!(a, Action::Stop { .. })),
                placements: count(|a| matches!(a, Action::Place { .. })),
                placed: view.placed_count(),
                waiting: view.waiting_count(),
                deferred: view.deferred_count(),
                free_gpus: view.cluster().free_gpus(),
                demand: view.demand(),
            });
        }
        let actions = if self.with_extras {
            &plan.actions[..]
        } else {
            &[]
        };
        for action in actions {
            match action {
                Action::Place { job, assignment } => {
                    let job = view.job(*job).filter(|j| j.has_extras());
                    if let Some(job) = job {
                        self.places(&job, assignment, view.now());
                    }
                }
                Action::Stop { job, .. } => {
                    if let Some(account) = self.given.get_mut(job) {
                        account.takes(view.now());
                    }
                }
                _ => {}
            }
        }
        if let Some(id) = self.explain {
            self.explain_round(view, plan, id);
        }
    }
}

impl Recorder {
    fn explain_event(&mut self, view: View<'_>, event: &Event) {
        let Some(id) = self.explain else { return };
        let gpus = |view: View<'_>| {
            view.job(id)
                .and_then(|j| j.bound().map(|a| a.gpus.clone()))
                .map(|g| {
                    let list: Vec<String> = g.iter().map(|g| g.to_string()).collect();
                    list.join(" ")
                })
                .unwrap_or_default()
        };
        let what = match event {
            Event::Submitted { spec, .. } => format!(
                "submitted: {} {} for {} s",
                spec.gpus,
                if spec.gpus.get() == 1 { "GPU" } else { "GPUs" },
                (spec.duration().secs() * 10.0).round() / 10.0
            ),
            Event::AdmissionDecided { admission, .. } => match admission {
                AdmissionDecision::Accept { class, .. } => match view.job(id) {
                    Some(job) => admitted(&job, *class),
                    None => "admitted".to_owned(),
                },
                AdmissionDecision::Defer(why) => format!("deferred by admission: {why}"),
                AdmissionDecision::Reject(why) => format!("turned away by admission: {why}"),
            },
            Event::Started { attempt, .. } => {
                format!("runs on GPUs {} (launch {attempt})", gpus(view))
            }
            Event::Stopped { .. } => "has left its GPUs".to_owned(),
            Event::Crashed { why, work, .. } => {
                format!("crashed ({why}); {work} iterations are kept")
            }
            Event::LaunchFailed { why, .. } => format!("launch failed: {why}"),
            Event::Ended { outcome, .. } => format!("ended: {}", outcome.as_str()),
            other => format!("{other:?}"),
        };
        self.last_reason.clear();
        self.add_moment(view.now(), what);
    }

    /// Returns the `job_id` of a job.
    fn called(&self, view: View<'_>, id: JobId) -> String {
        let ended = self.jobs.get(id.index()).and_then(Option::as_ref);
        let live = view.job(id).and_then(|job| job.spec().name.clone());
        let name = live.or_else(|| ended.and_then(|job| job.name.clone()));
        job_id(name.as_ref(), id).into_owned()
    }

    fn explain_round(&mut self, view: View<'_>, plan: &Plan, id: JobId) {
        for action in plan.actions.iter().filter(|a| a.job() == id) {
            match action {
                Action::Stop { why, .. } => {
                    let why = why.text_with(|other| self.called(view, other));
                    self.add_moment(view.now(), format!("ordered to stop: {why}"));
                }
                Action::Notify { by, .. } => {
                    self.add_moment(view.now(), format!("gets a notice: must leave by {by} s"));
                }
                Action::Promote { .. } => {
                    self.add_moment(view.now(), "promoted before all others".to_owned());
                }
                _ => {}
            }
        }
        let waits = view.job(id).filter(|j| j.phase() == Phase::Waiting);
        if let Some(job) = waits {
            let why = plan.reason_for(id, job.gpus());
            let why = why.text_with(|other| self.called(view, other));
            if why != self.last_reason {
                let rest = why.strip_prefix("waits ").unwrap_or(&why);
                self.add_moment(view.now(), format!("waits: {rest}"));
                self.last_reason = why;
            }
        }
    }
}
