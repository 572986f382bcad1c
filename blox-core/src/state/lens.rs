//! Overlay with the changes of a decision that is not applied yet.

use crate::cluster::Cluster;
use crate::decision::{AdmissionDecision, NodeAction};
use crate::event::Event;
use crate::ids::{JobId, NameId, Names};
use crate::job::{Phase, Record};
use crate::model::share::Gpus;
use crate::state::State;
use crate::state::books::demand_of;

/// Overlay on the state with the node actions and admission decisions of an unfinished decision. It
/// also contains the virtual cluster that a view is restricted to. The state itself does not change
/// until the decision is applied.
#[derive(Clone, Debug, Default)]
pub struct Lens {
    /// The virtual cluster in view; `None` for all.
    pub(super) scope: Option<NameId>,
    /// Jobs with an admission decision, in order of submission.
    jobs: Vec<(JobId, Record)>,
    /// The job that admission has just rejected. The view shows it until the policies are notified.
    leaving: Option<JobId>,
    /// Jobs in `jobs` that wait now, in order of submission.
    pub(super) accepted: Vec<JobId>,
    /// Jobs in `jobs` that are deferred now and were not before, in order of submission.
    pub(super) deferred: Vec<JobId>,
    /// Number of jobs in each phase after the changes. Like the demand, it is valid only if `own`
    /// is not empty.
    counts: [u32; 7],
    demand: Gpus,
    demand_of_vc: Vec<Gpus>,
    /// Jobs that the changes touched and that were not touched before.
    pub(super) touched: Vec<JobId>,
    /// Nodes and names, if a node action changed them.
    cluster: Option<Box<(Cluster, Names)>>,
    /// Valid node actions and admission decisions, in order.
    pub(super) own: Vec<Event>,
    /// Buffer of [`Core::decide`](crate::core::Core::decide).
    pub(crate) asking: Vec<JobId>,
}

impl Lens {
    /// Removes all changes and the scope.
    pub(crate) fn clear(&mut self) {
        self.scope = None;
        self.jobs.clear();
        self.leaving = None;
        self.accepted.clear();
        self.deferred.clear();
        self.touched.clear();
        self.cluster = None;
        self.own.clear();
    }

    /// Returns whether the lens has no changes and no scope.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.own.is_empty() && self.scope.is_none()
    }

    /// Returns the version that the state will have with the changes.
    pub(crate) fn version(&self, state: &State) -> u64 {
        state.version() + self.own.len() as u64
    }

    /// Returns the last change.
    pub(crate) fn last_change(&self) -> Option<&Event> {
        self.own.last()
    }

    /// Adds a node action. Returns whether the action is valid.
    pub(crate) fn manage(&mut self, state: &State, action: &NodeAction) -> bool {
        let version = self.version(state) + 1;
        let cluster = self.cluster.get_or_insert_with(|| {
            let names = state.names().clone();
            Box::new((state.cluster().clone(), names))
        });
        let (cluster, names) = &mut **cluster;
        if !cluster.manage(names, version, action) {
            return false;
        }
        self.begin(state);
        self.own.push(Event::NodeManaged {
            action: action.clone(),
        });
        true
    }

    /// Adds an admission decision. Returns whether the decision is valid.
    pub(crate) fn add_admission(
        &mut self,
        state: &State,
        job: JobId,
        admission: &AdmissionDecision,
    ) -> bool {
        let at = self.jobs.binary_search_by_key(&job, |(id, _)| *id);
        let known = match at {
            Ok(i) => Some(&self.jobs[i].1),
            Err(_) => state.record(job),
        };
        let Some(known) = known.filter(|r| r.phase != Phase::Ended) else {
            return false;
        };
        let place = match at {
            Ok(place) => place,
            Err(place) => {
                self.jobs.insert(place, (job, known.clone()));
                place
            }
        };
        let before = self.jobs[place].1.phase;
        let (now, moment) = (state.now(), state.next_moment.max(state.now()));
        let Some(after) = self.jobs[place].1.apply_admission(admission, now, moment) else {
            if at.is_err() {
                self.jobs.remove(place);
            }
            return false;
        };
        self.begin(state);
        let rec = &mut self.jobs[place].1;
        rec.phase = after;
        // Only records of the state are compared by version.
        rec.touch(rec.changed, &mut self.touched);
        self.counts[before as usize] -= 1;
        self.counts[after as usize] += 1;
        if after == Phase::Waiting {
            self.demand += rec.amount();
            if let Some(vc) = rec.virtual_cluster {
                *demand_of(&mut self.demand_of_vc, vc) += rec.amount();
            }
            insert(&mut self.accepted, job);
        }
        if after == Phase::Deferred && before != after {
            insert(&mut self.deferred, job);
        }
        if after == Phase::Ended {
            self.leaving = Some(job);
        }
        self.own.push(Event::AdmissionDecided {
            job,
            admission: admission.clone(),
        });
        true
    }

    /// Hides the job that admission has just rejected.
    pub(crate) fn retire(&mut self) {
        self.leaving = None;
    }

    /// Copies the counts of the state before the first change.
    fn begin(&mut self, state: &State) {
        if self.own.is_empty() {
            self.counts = state.counts;
            self.demand = state.demand;
            self.demand_of_vc.clone_from(&state.demand_of_vc);
        }
    }

    /// Returns a copy of the lens that is restricted to a virtual cluster.
    pub(crate) fn narrowed(&self, scope: NameId) -> Lens {
        Lens {
            scope: Some(scope),
            ..self.clone()
        }
    }

    /// Returns the record of a job with the changes, given its record in the state. Returns `None`
    /// if admission has rejected the job.
    #[inline]
    pub(crate) fn record<'a>(&'a self, was: &'a Record) -> Option<&'a Record> {
        let found = self.jobs.binary_search_by_key(&was.id, |(id, _)| *id);
        let Ok(i) = found else { return Some(was) };
        let rec = &self.jobs[i].1;
        let there = rec.phase != Phase::Ended || self.leaving == Some(was.id);
        there.then_some(rec)
    }

    /// Returns the number of jobs in a phase, or `None` if there are no changes.
    #[inline]
    pub(crate) fn count(&self, phase: Phase) -> Option<u32> {
        (!self.own.is_empty()).then(|| self.counts[phase as usize])
    }

    /// Returns the amount of GPUs requested in one virtual cluster or in all, or `None` if there
    /// are no changes.
    pub(crate) fn demand(&self, of: Option<NameId>) -> Option<Gpus> {
        (!self.own.is_empty()).then(|| match of {
            None => self.demand,
            Some(vc) => self
                .demand_of_vc
                .get(vc.index())
                .copied()
                .unwrap_or_default(),
        })
    }

    /// Returns nodes and names, or `None` if no node action changed them.
    #[inline]
    pub(crate) fn cluster(&self) -> Option<&(Cluster, Names)> {
        self.cluster.as_deref()
    }
}

/// Inserts a job into a list in order of submission, unless it is listed.
fn insert(list: &mut Vec<JobId>, job: JobId) {
    if let Err(i) = list.binary_search(&job) {
        list.insert(i, job);
    }
}
