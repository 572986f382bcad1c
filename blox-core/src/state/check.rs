//! The checker of plans: every rule for plans is here. A plan is checked against the version that it
//! was made from.

use super::{Applied, State};
use crate::assignment::Assignment;
use crate::cluster::{Claims, Cluster, Node, NodeStatus, OnNode, Passing, is_too_much};
use crate::decision::{Action, Plan, PlanError};
use crate::ids::{GpuId, JobId, Name, NameId};
use crate::job::{Phase, Record, Wants, accepts, accepts_all};
use crate::model::share::Share;
use crate::units::is_amount;
use std::borrow::Cow;

/// Effects of a checked plan, in front of the state, which the check leaves unchanged.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    /// Jobs whose allocations the plan releases, in the plan's order.
    pub released: Vec<Released>,
    /// Former allocations of the released jobs. The commit fills it; until then, they are in the
    /// jobs' records.
    pub olds: Vec<Assignment>,
    /// Steps that place jobs, in the plan's order. The jobs take their GPUs after all releases.
    places: Vec<Place>,
    /// Placed jobs in the plan's order.
    pub placed: Vec<Placed>,
    pub promoted: Vec<Promoted>,
    /// Indices of steps to leave out, ascending.
    pub left_out: Vec<u32>,
    pub stale: u32,
    /// True if a job of the plan shares GPUs or has parts of them, before the plan or after it.
    pub shared: bool,
    /// True if all steps are promotions, plain stops and plain launches, and the stops come first. A
    /// stop is plain if the job runs alone on exactly its allocated GPUs. A launch is plain if the
    /// job waits, or a step before stopped it, and takes GPUs that are bound to no other job.
    plain: bool,
    /// True if the plan places a job that has GPUs.
    returns: bool,
    /// Number of entries of `placed` with [`Placed::own`].
    pub own: u32,
    /// GPUs that the plan releases and takes.
    pub passing: Passing,
    /// Entries of each job in `released` and `placed`, by slot.
    jobs: Overlay<Entry>,
    /// Claims on each GPU, where `passing` is not enough.
    claims: Overlay<Claims>,
    /// Number of entries of `placed` that are in `claims`.
    claimed: usize,
    /// Allocated CPU cores and memory in GiB of each node.
    resources: Overlay<[f64; 2]>,
    /// True if [`Trial::empty_nodes`] was called for this plan.
    emptied: bool,
}

/// A job whose allocation a plan releases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Released {
    pub slot: u32,
    /// Index of its step in the plan.
    pub step: u32,
    pub stopped: bool,
}

/// A step that places a job.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u32,
    /// Index of the step in the plan.
    step: u32,
}

/// A job that a plan places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub slot: u32,
    /// Index of its step in the plan.
    pub step: u32,
    /// True if the plan released one of its GPUs. Set only for plain launches.
    pub left: bool,
    /// True if it has no extras and gets the requested number of GPUs. Set only for plain launches.
    pub own: bool,
    /// Node and bit mask of its GPUs, if they are known to be contiguous on one node.
    pub on: Option<OnNode>,
}

/// A promotion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promoted {
    /// Index of the step in the plan.
    pub step: u32,
    pub job: JobId,
}

/// Indices in [`Trial::released`] and [`Trial::placed`], plus one; 0 for none.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    released: u32,
    placed: u32,
}

impl State {
    /// Checks a plan that was made from version `seen`. Records the changes in `trial`, which must be
    /// clear, and the steps that later events made impossible. First all jobs of the plan release
    /// their GPUs, then the placed jobs take GPUs in the plan's order. The state stays unchanged.
    pub(super) fn check(&self, plan: &Plan, seen: u64, trial: &mut Trial) -> Result<(), PlanError> {
        self.check_by(plan, seen, trial, State::take_free)
    }

    /// Like [`State::check`]. Each placed job takes its GPUs by `fast`, or if it returns false, by
    /// [`State::take_shared`], which has all rules. The result does not depend on `fast`.
    #[inline(always)]
    pub(super) fn check_by(
        &self,
        plan: &Plan,
        seen: u64,
        trial: &mut Trial,
        fast: impl Fn(&State, &Record, (u32, u32), &Assignment, &mut Trial) -> bool,
    ) -> Result<(), PlanError> {
        for (step, action) in plan.actions.iter().enumerate() {
            let job = action.job();
            let Some(s) = self.slot(job) else {
                self.leave_out_ended(job, step, seen, trial)?;
                continue;
            };
            let (rec, slot, at) = (&self.records[s], s as u32, step as u32);
            let fits = match action {
                Action::Stop { .. } => trial.stop(&self.cluster, rec, slot, at),
                Action::Place { .. } => trial.place(&self.cluster, rec, slot, at),
                Action::Promote { .. } => {
                    trial.promoted.push(Promoted { step: at, job });
                    rec.phase != Phase::Ended
                }
                Action::Finish { .. } | Action::Notify { .. } => {
                    trial.plain = false;
                    rec.phase != Phase::Ended
                }
            };
            if !fits {
                self.leave_out_misfit(rec, action, step, seen, trial)?;
            }
        }
        for i in 0..trial.places.len() {
            let Place { slot, step } = trial.places[i];
            let rec = &self.records[slot as usize];
            let Some(a) = assignment_of(plan, step) else {
                continue;
            };
            if fast(self, rec, (slot, step), a, trial) {
                continue;
            }
            match self.take_shared(rec, slot, step, a, plan, trial) {
                Ok(()) => {}
                Err(_) if self.changed_since(a, rec.id, seen, trial) => {
                    trial.leave_out(step as usize);
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Leaves out a step of a job that ended after version `seen`.
    #[cold]
    fn leave_out_ended(
        &self,
        job: JobId,
        step: usize,
        seen: u64,
        trial: &mut Trial,
    ) -> Result<(), PlanError> {
        if !self.ended_after(job, seen) {
            return Err(match job < self.next_job_id() {
                true => PlanError::EndedJob { job },
                false => PlanError::UnknownJob { job },
            });
        }
        trial.leave_out(step);
        Ok(())
    }

    /// Leaves out a step that does not apply in the job's phase, if the job changed after version
    /// `seen`.
    #[cold]
    fn leave_out_misfit(
        &self,
        rec: &Record,
        action: &Action,
        step: usize,
        seen: u64,
        trial: &mut Trial,
    ) -> Result<(), PlanError> {
        if rec.phase == Phase::Ended {
            return self.leave_out_ended(rec.id, step, seen, trial);
        }
        if rec.changed > seen {
            trial.leave_out(step);
            return Ok(());
        }
        let (job, stops) = (rec.id, matches!(action, Action::Stop { .. }));
        let what = Name::from(if stops { "stop" } else { "place" });
        // The stop of a job with GPUs does not fit only after another stop.
        if stops && rec.allocated.is_some() {
            return Err(PlanError::Twice { job, what });
        }
        let phase = Name::from(rec.phase.as_str());
        Err(PlanError::WrongPhase { job, what, phase })
    }

    /// Lets a job take usable GPUs without other jobs, by bit masks of nodes. Returns false if that is
    /// impossible. It exists for speed: nearly all jobs take such GPUs.
    #[inline(always)]
    pub(super) fn take_free(
        &self,
        rec: &Record,
        (slot, step): (u32, u32),
        a: &Assignment,
        trial: &mut Trial,
    ) -> bool {
        let entry = trial.jobs.of(slot as usize, Entry::default);
        let accepted = rec.extras != Wants::More
            || (accepts_all(&rec.spec, &self.cluster, &a.gpus) && self.on_its_nodes(rec, a));
        if entry.placed != 0 || !accepted || !a.is_plain() {
            return false;
        }
        let Some(taken) = self.cluster.take(&a.gpus, &mut trial.passing) else {
            return false;
        };
        trial.plain &= taken.mixed == 0;
        let own = rec.extras == Wants::Bare && rec.gpus as usize == a.gpus.len();
        trial.own += u32::from(own);
        trial.add_placed(Placed {
            slot,
            step,
            left: taken.left != 0,
            own,
            on: taken.on,
        });
        true
    }

    /// Lets a job take GPUs that it shares or keeps, and CPUs and memory.
    ///
    /// # Errors
    /// A rule for placements is violated.
    #[cold]
    fn take_shared(
        &self,
        rec: &Record,
        slot: u32,
        step: u32,
        a: &Assignment,
        plan: &Plan,
        trial: &mut Trial,
    ) -> Result<(), PlanError> {
        let (s, job) = (slot as usize, rec.id);
        trial.note_claims(&self.cluster, plan);
        if a.gpus.is_empty() {
            return Err(PlanError::NoGpu { job });
        }
        let Entry { released, placed } = trial.entry(s);
        let twice = |gpu, owner| Err(PlanError::GpuTwice { job, gpu, owner });
        if placed != 0 {
            let what = Name::from("place");
            return Err(PlanError::Twice { job, what });
        }
        if rec.extras == Wants::More
            && let Some(limit) = rec.spec.node_limit()
            && !self.on_its_nodes(rec, a)
        {
            let expected = Name::from(limit.to_string());
            return Err(PlanError::OtherNodes { job, expected });
        }
        let before = rec.allocated.as_ref().filter(|_| released != 0);
        for (i, &gpu) in a.gpus.iter().enumerate() {
            let Some(node) = self.cluster.node_with(gpu) else {
                return Err(PlanError::UnusableGpu { job, gpu });
            };
            // A job may keep its GPUs on a node that accepts no new jobs.
            let stays = before.is_some_and(|b| b.gpus.contains(&gpu));
            let open = stays || (node.cordon.is_none() && node.works(gpu));
            if node.status != NodeStatus::Up || !open {
                return Err(PlanError::UnusableGpu { job, gpu });
            }
            if !stays
                && rec.extras == Wants::More
                && !accepts(&rec.spec, &self.cluster, node.gpu_type())
            {
                return Err(self.forbidden(s, gpu, node));
            }
            if a.gpus[..i].contains(&gpu) {
                return twice(gpu, job);
            }
            let claims = trial.claims_on(&self.cluster, gpu);
            let (used, shared) = (claims.used(), !claims.is_empty());
            if used.has_room(a.share) {
                trial.shared |= shared;
                continue;
            }
            // A claim that overlaps reserves only memory.
            let reserves = |(_, share): &(JobId, Share)| !share.overlaps();
            let first = claims.iter().find(reserves).or(claims.iter().next());
            if let Some((owner, owned)) = first {
                return match a.share.is_whole() && owned.is_whole() {
                    true => twice(gpu, owner),
                    false => Err(PlanError::Exceeds {
                        job,
                        gpu,
                        share: a.share,
                        owner,
                        owned,
                    }),
                };
            }
        }
        if a.has_resources() {
            trial.empty_nodes(&self.cluster);
            self.check_resources(job, a, |node| trial.resources_of(node))?;
            trial.count(&self.cluster, a, 1.0);
        }
        trial.plain = false;
        trial.shared |= !a.share.is_whole();
        let places = a.gpus.iter().filter_map(|gpu| self.cluster.at(*gpu));
        places.for_each(|on| trial.passing.share(on));
        trial.add_placed(Placed {
            slot,
            step,
            left: false,
            own: false,
            on: None,
        });
        Ok(())
    }

    /// Returns whether an assignment is on as many nodes as its job states.
    fn on_its_nodes(&self, rec: &Record, a: &Assignment) -> bool {
        let limit = rec.spec.node_limit();
        limit.is_none_or(|limit| self.cluster.meets(limit, &a.gpus))
    }

    #[cold]
    fn forbidden(&self, s: usize, gpu: GpuId, node: &Node) -> PlanError {
        let found = self.cluster.gpu_types().get(NameId(node.gpu_type().0));
        let extras = self.records[s].spec.extras();
        let types = self.cluster.gpu_types().iter().map(|(_, name)| name);
        let accepted = types.filter(|name| extras.runs_on(name)).map(Name::as_str);
        let mut expected = accepted.collect::<Vec<_>>().join(" or ");
        if expected.is_empty() {
            expected = "a type on which the job runs".to_owned();
        }
        PlanError::ForbiddenType {
            job: self.records[s].id,
            gpu,
            found: found.cloned().unwrap_or_else(|| Name::from("")),
            expected: expected.into(),
        }
    }

    /// Checks that the nodes have enough CPUs and memory for an assignment, in addition to the
    /// allocations that `allocated_of` returns.
    #[inline]
    fn check_resources(
        &self,
        job: JobId,
        a: &Assignment,
        allocated_of: impl Fn(&Node) -> [f64; 2],
    ) -> Result<(), PlanError> {
        if !a.has_resources() {
            return Ok(());
        }
        for (what, amount) in [("CPUs", a.cpus), ("memory", a.memory_gib)] {
            if !is_amount(amount) {
                return Err(PlanError::BadAmount {
                    job,
                    what: Name::from(what),
                    amount: amount.to_string(),
                });
            }
        }
        for (node, share) in self.cluster.shares(&a.gpus) {
            let (spec, [cpus, memory]) = (node.spec(), allocated_of(node));
            let parts = [
                ("CPUs", a.cpus, cpus, spec.cpus),
                ("memory", a.memory_gib, memory, spec.memory_gib),
            ];
            for (what, amount, allocated, capacity) in parts {
                if is_too_much(amount * share, capacity - allocated, capacity) {
                    return Err(PlanError::Overcommitted {
                        job,
                        node: node.id(),
                        what: Name::from(what),
                        total: allocated + amount * share,
                        capacity,
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns true if the nodes have enough CPUs and memory for an assignment.
    pub(super) fn has_resources(&self, job: JobId, a: &Assignment) -> bool {
        self.check_resources(job, a, Node::resources).is_ok()
    }

    fn ended_after(&self, job: JobId, version: u64) -> bool {
        let recently = self
            .record(job)
            .is_some_and(|r| r.phase == Phase::Ended && r.changed > version);
        recently || self.gone.iter().any(|(j, v)| *j == job && *v > version)
    }

    /// Returns whether the job changed after `version`, or a node or job on the GPUs of its
    /// assignment.
    fn changed_since(&self, a: &Assignment, job: JobId, version: u64, trial: &Trial) -> bool {
        let job_changed = |j: JobId| self.record(j).is_some_and(|r| r.changed > version);
        job_changed(job)
            || a.gpus.iter().any(|&g| {
                self.cluster.node_with(g).is_some_and(|node| {
                    node.changed > version
                        || trial
                            .claims_on(&self.cluster, g)
                            .iter()
                            .any(|(other, _)| job_changed(other))
                })
            })
    }
}

impl Trial {
    /// Prepares the check of the next plan.
    pub fn clear(&mut self, cluster: &Cluster) {
        self.released.clear();
        self.olds.clear();
        self.places.clear();
        self.placed.clear();
        self.promoted.clear();
        self.left_out.clear();
        self.stale = 0;
        self.shared = false;
        self.plain = true;
        self.returns = false;
        self.own = 0;
        self.passing.clear(cluster.nodes().len());
        self.jobs.clear();
        self.claims.clear();
        self.claimed = 0;
        self.resources.clear();
        self.emptied = false;
    }

    /// Returns whether a plan that takes no time can be applied in one pass. See [`Trial::plain`].
    pub fn is_plain(&self, cluster: &Cluster) -> bool {
        self.plain && self.left_out.is_empty() && !cluster.counts_resources(&self.passing)
    }

    pub fn applied(&self, plan: &Plan) -> Applied {
        let steps = plan.actions.iter().enumerate();
        let stops =
            steps.filter(|(i, a)| matches!(a, Action::Stop { .. }) && !self.is_left_out(*i));
        Applied {
            stale: self.stale,
            stops: stops.count() as u32,
            placements: self.placed.len() as u32,
            done: 0,
        }
    }

    /// Returns the allocation of a job before the plan, if the committed plan took it back.
    pub fn before(&self, s: usize) -> Option<&Assignment> {
        match self.entry(s).released {
            0 => None,
            r => self.olds.get(r as usize - 1),
        }
    }

    /// Returns the slots of placed jobs in the plan's order.
    pub fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.placed.iter().map(|placed| placed.slot as usize)
    }

    /// Returns whether the plan places a job that it stops.
    #[inline(always)]
    pub fn returns(&self, slot: u32) -> bool {
        self.returns && self.entry(slot as usize).placed != 0
    }

    #[inline]
    fn entry(&self, s: usize) -> Entry {
        self.jobs.get(s).copied().unwrap_or_default()
    }

    /// Records a stop. Returns false if the job has no GPUs, or an earlier stop released them.
    #[inline(always)]
    fn stop(&mut self, cluster: &Cluster, rec: &Record, slot: u32, step: u32) -> bool {
        let Some(allocated) = &rec.allocated else {
            return false;
        };
        let entry = self.jobs.of(slot as usize, Entry::default);
        if entry.released != 0 {
            let released = &mut self.released[entry.released as usize - 1];
            return !std::mem::replace(&mut released.stopped, true);
        }
        entry.released = self.released.len() as u32 + 1;
        self.plain &= self.places.is_empty()
            && rec.phase == Phase::Running
            && !rec.pending
            && rec.leaving.is_empty()
            && rec.is_bound_as_allocated();
        self.release(cluster, rec, allocated, (slot, step), true);
        true
    }

    /// Records a placement. Returns false if the job is not accepted, or has ended.
    #[inline(always)]
    fn place(&mut self, cluster: &Cluster, rec: &Record, slot: u32, step: u32) -> bool {
        let waits = rec.phase == Phase::Waiting && rec.allocated.is_none();
        let fits = waits || self.replace(cluster, rec, slot, step);
        if fits {
            self.places.push(Place { slot, step });
        }
        fits
    }

    /// Records that a placed job releases the GPUs that it has. Returns false if the job is not
    /// accepted, or has ended.
    #[cold]
    fn replace(&mut self, cluster: &Cluster, rec: &Record, slot: u32, step: u32) -> bool {
        let entry = self.jobs.of(slot as usize, Entry::default);
        self.returns = true;
        // A job that runs again after its stop may be launched at once.
        self.plain &= rec.phase == Phase::Running && entry.released != 0;
        if matches!(rec.phase, Phase::Submitted | Phase::Deferred | Phase::Ended) {
            return false;
        }
        if let Some(allocated) = rec.allocated.as_ref().filter(|_| entry.released == 0) {
            entry.released = self.released.len() as u32 + 1;
            self.release(cluster, rec, allocated, (slot, step), false);
        }
        true
    }

    #[inline(always)]
    fn add_placed(&mut self, placed: Placed) {
        self.placed.push(placed);
        let entry = self.jobs.of(placed.slot as usize, Entry::default);
        entry.placed = self.placed.len() as u32;
    }

    /// Releases the allocation of a job.
    #[inline(always)]
    fn release(
        &mut self,
        cluster: &Cluster,
        rec: &Record,
        old: &Assignment,
        (slot, step): (u32, u32),
        stopped: bool,
    ) {
        self.released.push(Released {
            slot,
            step,
            stopped,
        });
        let unmixed = cluster.release(&old.gpus, rec.on, &mut self.passing);
        if !unmixed || !old.is_plain() {
            self.release_shared(cluster, rec.id, old);
        }
    }

    /// Releases GPUs that jobs share or have in one ledger only, and CPUs and memory.
    #[cold]
    fn release_shared(&mut self, cluster: &Cluster, job: JobId, old: &Assignment) {
        self.plain = false;
        self.shared |= !old.share.is_whole();
        self.count(cluster, old, -1.0);
        for &gpu in &old.gpus {
            let mixed = |on: &OnNode| !cluster.is_unmixed(*on);
            if let Some(on) = cluster.at(gpu).filter(mixed) {
                let claims = self.changed_claims(cluster, gpu);
                claims.remove(job);
                match claims.is_empty() {
                    true => self.passing.release(on),
                    false => self.shared = true,
                }
            }
        }
    }

    /// Returns the claims on a GPU. Claims of placed jobs must be [noted](Trial::note_claims).
    fn claims_on<'s>(&'s self, cluster: &'s Cluster, gpu: GpuId) -> Cow<'s, Claims> {
        match self.claims.get(gpu.index()) {
            Some(claims) => Cow::Borrowed(claims),
            None => self.claims_before(cluster, gpu),
        }
    }

    /// Returns the claims on a GPU that has none in `claims`.
    fn claims_before<'s>(&self, cluster: &'s Cluster, gpu: GpuId) -> Cow<'s, Claims> {
        match cluster.at(gpu) {
            Some(on) if self.passing.has_left(on) => Cow::Owned(Claims::NONE),
            _ => cluster.allocated_claims(gpu),
        }
    }

    /// Returns the claims on a GPU for a change.
    fn changed_claims(&mut self, cluster: &Cluster, gpu: GpuId) -> &mut Claims {
        let known = self.claims.get(gpu.index()).is_some();
        let before = (!known).then(|| self.claims_before(cluster, gpu).into_owned());
        self.claims.of(gpu.index(), || before.unwrap_or_default())
    }

    /// Adds the placed jobs to the claims on their GPUs.
    fn note_claims(&mut self, cluster: &Cluster, plan: &Plan) {
        for i in self.claimed..self.placed.len() {
            let step = self.placed[i].step as usize;
            let Some(Action::Place { job, assignment }) = plan.actions.get(step) else {
                continue;
            };
            for &gpu in &assignment.gpus {
                let claims = self.changed_claims(cluster, gpu);
                claims.add(*job, assignment.share);
            }
        }
        self.claimed = self.placed.len();
    }

    fn resources_of(&self, node: &Node) -> [f64; 2] {
        let planned = self.resources.get(node.id().index());
        planned.copied().unwrap_or_else(|| node.resources())
    }

    /// Removes rounding errors of sums from the nodes that all jobs leave, as the commit does.
    fn empty_nodes(&mut self, cluster: &Cluster) {
        if std::mem::replace(&mut self.emptied, true) {
            return;
        }
        for &id in self.passing.nodes() {
            let empty = |node: &&Node| self.passing.kept_on(node) == 0;
            if cluster.node(id).filter(empty).is_some() {
                *self.resources.of(id.index(), Default::default) = [0.0; 2];
            }
        }
    }

    fn count(&mut self, cluster: &Cluster, a: &Assignment, sign: f64) {
        if !a.has_resources() {
            return;
        }
        let [cpus, memory] = a.resources_per_gpu(sign);
        for node in a.gpus.iter().filter_map(|gpu| cluster.node_with(*gpu)) {
            let its = self.resources.of(node.id().index(), || node.resources());
            its[0] += cpus;
            its[1] += memory;
        }
    }

    pub fn leave_out(&mut self, i: usize) {
        let i = i as u32;
        if let Err(at) = self.left_out.binary_search(&i) {
            self.left_out.insert(at, i);
            self.stale += 1;
        }
    }
    pub fn is_left_out(&self, i: usize) -> bool {
        !self.left_out.is_empty() && self.left_out.binary_search(&(i as u32)).is_ok()
    }
}

impl Placed {
    /// Returns the assignment that the plan gives the job.
    #[inline]
    pub fn assignment(self, plan: &Plan) -> Option<&Assignment> {
        assignment_of(plan, self.step)
    }
}

#[inline]
fn assignment_of(plan: &Plan, step: u32) -> Option<&Assignment> {
    match plan.actions.get(step as usize) {
        Some(Action::Place { assignment, .. }) => Some(assignment),
        _ => None,
    }
}

/// Values by index that override values of the state. Clearing takes constant time.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlay<T> {
    /// Values, each with the round in which it was written.
    values: Vec<(u32, T)>,
    round: u32,
}

impl<T: Clone + Default> Overlay<T> {
    #[inline]
    pub fn clear(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.values.clear();
            self.round = 1;
        }
    }

    #[inline]
    pub fn get(&self, i: usize) -> Option<&T> {
        let (round, value) = self.values.get(i)?;
        (*round == self.round).then_some(value)
    }

    /// Returns the value at an index. If there is none, inserts the result of `first`.
    #[inline]
    pub fn of(&mut self, i: usize, first: impl FnOnce() -> T) -> &mut T {
        if i >= self.values.len() {
            self.grow(i);
        }
        let (round, value) = &mut self.values[i];
        if *round != self.round {
            (*round, *value) = (self.round, first());
        }
        value
    }

    #[cold]
    fn grow(&mut self, i: usize) {
        let len = (i + 1).next_power_of_two();
        self.values.resize(len, (0, T::default()));
    }
}
