//! Checks of plans against the version that they were made from.

use super::{Applied, State};
use crate::assignment::Assignment;
use crate::cluster::{Cluster, Node, NodeStatus, Owners, is_too_much};
use crate::decision::{Action, Plan, PlanError};
use crate::ids::{GpuId, JobId, Name, NameId};
use crate::job::{Phase, Wants, accepts};

/// Overlay with the allocations after each step of a plan. The state itself stays unchanged.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    pub released: Vec<Released>,
    /// Placed jobs in the plan's order.
    pub placed: Vec<Placed>,
    /// Indices of steps to leave out, ascending.
    pub left_out: Vec<u32>,
    pub stale: u32,
    /// True if a job of the plan shares GPUs, before the plan or after it.
    pub shared: bool,
    /// Entries of each job in `released` and `placed`, by slot.
    jobs: Overlay<Entry>,
    /// Jobs of each GPU.
    gpus: Overlay<Owners>,
    /// Allocated resources of each node.
    nodes: Overlay<Allocated>,
}

/// A job whose allocation a plan releases.
#[derive(Clone, Debug)]
pub(super) struct Released {
    pub slot: u32,
    pub stopped: bool,
    /// The former allocation. Empty until the plan is committed; until then, it is in the job's
    /// record.
    pub old: Assignment,
}

/// A job that a plan places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub slot: u32,
    /// Index of its step in the plan.
    pub step: u32,
}

/// Indices in [`Trial::released`] and [`Trial::placed`], plus one; 0 for none.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    released: u32,
    placed: u32,
}

/// Allocated resources of a node: GPUs as a bit mask, CPU cores, and memory in GiB.
#[derive(Clone, Copy, Debug, Default)]
struct Allocated {
    gpus: u64,
    cpus: f64,
    memory_gib: f64,
}

impl State {
    /// Checks a plan that was made from version `seen`. Records in `trial` which jobs the plan
    /// releases and places, and which steps later events made impossible. All rules for plans are
    /// here. The state stays unchanged.
    pub(super) fn check(&self, plan: &Plan, seen: u64, trial: &mut Trial) -> Result<(), PlanError> {
        for (i, action) in plan.actions.iter().enumerate() {
            let job = action.job();
            let Some(s) = self
                .slot(job)
                .filter(|&s| self.records[s].phase != Phase::Ended)
            else {
                if self.ended_after(job, seen) {
                    trial.leave_out(i);
                    continue;
                }
                return Err(PlanError::UnknownJob { job });
            };
            let rec = &self.records[s];
            let released = trial.entry(s).released;
            let fits = match action {
                // The same plan may place the job first and stop it in a later step.
                Action::Stop { .. } => match released {
                    0 => rec.allocated.is_some(),
                    r => !trial.released[r as usize - 1].stopped,
                },
                Action::Place { .. } => !matches!(rec.phase, Phase::Submitted | Phase::Deferred),
                Action::Finish { .. } | Action::Promote { .. } => true,
            };
            if !fits {
                if rec.changed > seen {
                    trial.leave_out(i);
                    continue;
                }
                return Err(PlanError::WrongPhase {
                    job,
                    what: Name::from(match action {
                        Action::Stop { .. } => "stop",
                        _ => "place",
                    }),
                    phase: Name::from(rec.phase.as_str()),
                });
            }
            let stopped = matches!(action, Action::Stop { .. });
            if stopped && released != 0 {
                trial.released[released as usize - 1].stopped = true;
            } else if (stopped || matches!(action, Action::Place { .. }))
                && released == 0
                && let Some(old) = &rec.allocated
            {
                trial.deallocate(&self.cluster, job, old);
                trial.release(s, stopped, old);
            }
        }
        for (i, action) in plan.actions.iter().enumerate() {
            let Action::Place { job, assignment } = action else {
                continue;
            };
            if trial.is_left_out(i) {
                continue;
            }
            let Some(s) = self.slot(*job) else { continue };
            match self.check_place(s, *job, assignment, plan, trial) {
                Ok(()) => {
                    trial.allocate(&self.cluster, *job, assignment);
                    trial.place(s, i, assignment);
                }
                Err(_) if self.changed_since(assignment, *job, seen, trial) => trial.leave_out(i),
                Err(why) => return Err(why),
            }
        }
        if !trial.shared {
            return Ok(());
        }
        for placed in &trial.placed {
            let rec = &self.records[placed.slot as usize];
            let Some(a) = placed.assignment(plan) else {
                continue;
            };
            let is_on = |partner: JobId, gpu: &GpuId| {
                let owners = trial.owners(&self.cluster, *gpu);
                partner != rec.id && owners.contains(partner)
            };
            for partner in a.partners.iter() {
                if a.gpus.iter().any(|gpu| is_on(partner, gpu)) {
                    continue;
                }
                // If the partner changed meanwhile, or its own step was left out, the job runs
                // without it.
                let late = |&i: &u32| plan.actions[i as usize].job() == partner;
                let gone = self.ended_after(partner, seen)
                    || self.record(partner).is_some_and(|p| p.changed > seen)
                    || trial.left_out.iter().any(late);
                if !gone {
                    return Err(PlanError::NotBeside {
                        job: rec.id,
                        partner,
                    });
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn forbidden(&self, s: usize, gpu: GpuId, node: &Node) -> PlanError {
        let found = self.cluster.gpu_types().get(NameId(node.gpu_type().0));
        let listed = &self.records[s].spec.extras().gpu_types;
        let listed: Vec<&str> = listed.iter().map(Name::as_str).collect();
        PlanError::ForbiddenType {
            job: self.records[s].id,
            gpu,
            found: found.cloned().unwrap_or_else(|| Name::from("")),
            expected: listed.join(" or ").into(),
        }
    }

    fn check_place(
        &self,
        s: usize,
        job: JobId,
        a: &Assignment,
        plan: &Plan,
        trial: &Trial,
    ) -> Result<(), PlanError> {
        if a.gpus.is_empty() {
            return Err(PlanError::NoGpu { job });
        }
        let Entry { released, placed } = trial.entry(s);
        if placed != 0 {
            return Err(PlanError::GpuTwice {
                job,
                gpu: a.gpus[0],
                owner: job,
            });
        }
        let before = self.records[s].allocated.as_ref().filter(|_| released != 0);
        for (i, &gpu) in a.gpus.iter().enumerate() {
            let Some(node) = self.cluster.node_of(gpu).and_then(|n| self.cluster.node(n)) else {
                return Err(PlanError::UnusableGpu { job, gpu });
            };
            let bit = 1u64 << (gpu.0 - node.first_gpu);
            // A job may keep its GPUs on a node that accepts no new jobs.
            let stays = before.is_some_and(|b| b.gpus.contains(&gpu));
            if node.status != NodeStatus::Up
                || (!stays && (node.cordon.is_some() || node.failed & bit != 0))
            {
                return Err(PlanError::UnusableGpu { job, gpu });
            }
            if !stays
                && self.records[s].extras == Wants::More
                && !accepts(&self.records[s].spec, &self.cluster, node.gpu_type())
            {
                return Err(self.forbidden(s, gpu, node));
            }
            if a.gpus[..i].contains(&gpu) {
                return Err(PlanError::GpuTwice {
                    job,
                    gpu,
                    owner: job,
                });
            }
            let owners = trial.owners(&self.cluster, gpu);
            for owner in owners.iter() {
                let theirs = self.planned(owner, plan, trial);
                let agreed =
                    a.partners.contains(owner) || theirs.is_some_and(|t| t.partners.contains(job));
                if !agreed {
                    return Err(PlanError::GpuTwice { job, gpu, owner });
                }
            }
            let jobs = node.jobs_per_gpu();
            if owners.count() >= jobs as usize {
                return Err(PlanError::TooManyJobs { job, gpu, jobs });
            }
        }
        self.check_resources(job, a, |node| trial.allocated_of(node))
    }

    /// Returns the allocation of a job after the steps recorded in `trial`.
    fn planned<'a>(&'a self, job: JobId, plan: &'a Plan, trial: &Trial) -> Option<&'a Assignment> {
        let s = self.slot(job)?;
        let Entry { released, placed } = trial.entry(s);
        match placed {
            0 => self.records[s].allocated.as_ref().filter(|_| released == 0),
            p => trial.placed[p as usize - 1].assignment(plan),
        }
    }

    /// Checks that the nodes have enough CPUs and memory for an assignment, in addition to the
    /// allocations that `allocated_of` returns.
    #[inline]
    fn check_resources(
        &self,
        job: JobId,
        a: &Assignment,
        allocated_of: impl Fn(&Node) -> Allocated,
    ) -> Result<(), PlanError> {
        if a.cpus == 0.0 && a.memory_gib == 0.0 {
            return Ok(());
        }
        for (what, amount) in [("CPUs", a.cpus), ("memory", a.memory_gib)] {
            if !(amount.is_finite() && amount >= 0.0) {
                return Err(PlanError::BadAmount {
                    job,
                    what: Name::from(what),
                    amount: amount.to_string(),
                });
            }
        }
        for (node, share) in self.cluster.shares(&a.gpus) {
            let (spec, allocated) = (node.spec(), allocated_of(node));
            let parts = [
                ("CPUs", a.cpus, allocated.cpus, spec.cpus),
                (
                    "memory",
                    a.memory_gib,
                    allocated.memory_gib,
                    spec.memory_gib,
                ),
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
        self.check_resources(job, a, Allocated::of).is_ok()
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
                let node = self.cluster.node_of(g).and_then(|n| self.cluster.node(n));
                node.is_some_and(|node| {
                    node.changed > version || trial.owners(&self.cluster, g).iter().any(job_changed)
                })
            })
    }
}

impl Trial {
    pub fn clear(&mut self) {
        self.released.clear();
        self.placed.clear();
        self.left_out.clear();
        self.stale = 0;
        self.shared = false;
        self.jobs.clear();
        self.gpus.clear();
        self.nodes.clear();
    }

    pub fn applied(&self, plan: &Plan) -> Applied {
        let steps = plan.actions.iter().enumerate();
        let stops =
            steps.filter(|(i, a)| matches!(a, Action::Stop { .. }) && !self.is_left_out(*i));
        Applied {
            stale: self.stale,
            stops: stops.count() as u32,
            placements: self.placed.len() as u32,
            instant: false,
        }
    }

    /// Returns the allocation of a job before the plan, if the committed plan took it back.
    pub fn before(&self, s: usize) -> Option<&Assignment> {
        match self.entry(s).released {
            0 => None,
            r => self.released.get(r as usize - 1).map(|r| &r.old),
        }
    }

    /// Returns the slots of placed jobs in the plan's order.
    pub fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        self.placed.iter().map(|placed| placed.slot as usize)
    }

    fn entry(&self, s: usize) -> Entry {
        self.jobs.get(s).copied().unwrap_or_default()
    }

    fn release(&mut self, s: usize, stopped: bool, old: &Assignment) {
        self.shared |= !old.partners.is_empty();
        self.released.push(Released {
            slot: s as u32,
            stopped,
            old: Assignment::default(),
        });
        self.jobs.of(s, Entry::default).released = self.released.len() as u32;
    }

    fn place(&mut self, s: usize, step: usize, new: &Assignment) {
        self.shared |= !new.partners.is_empty();
        let (slot, step) = (s as u32, step as u32);
        self.placed.push(Placed { slot, step });
        self.jobs.of(s, Entry::default).placed = self.placed.len() as u32;
    }

    fn owners(&self, cluster: &Cluster, gpu: GpuId) -> Owners {
        let planned = self.gpus.get(gpu.index());
        planned.map_or_else(|| cluster.allocated_owners(gpu), |owners| *owners)
    }

    fn allocated_of(&self, node: &Node) -> Allocated {
        let planned = self.nodes.get(node.id().index());
        planned.map_or_else(|| Allocated::of(node), |allocated| *allocated)
    }

    /// Like [`Cluster::allocate`], in this overlay.
    fn allocate(&mut self, cluster: &Cluster, job: JobId, a: &Assignment) {
        for &gpu in &a.gpus {
            let mut owners = self.owners(cluster, gpu);
            owners.add(job);
            *self.gpus.of(gpu.index(), Owners::default) = owners;
            self.change(cluster, gpu, |node, bit| node.gpus |= bit);
        }
        self.count(cluster, a, 1.0);
    }

    /// Like [`Cluster::deallocate`], in this overlay.
    fn deallocate(&mut self, cluster: &Cluster, job: JobId, a: &Assignment) {
        self.count(cluster, a, -1.0);
        for &gpu in &a.gpus {
            let mut owners = self.owners(cluster, gpu);
            owners.remove(job);
            *self.gpus.of(gpu.index(), Owners::default) = owners;
            if owners.is_empty() {
                self.change(cluster, gpu, |node, bit| {
                    node.gpus &= !bit;
                    if node.gpus == 0 {
                        *node = Allocated::default();
                    }
                });
            }
        }
    }

    fn count(&mut self, cluster: &Cluster, a: &Assignment, sign: f64) {
        if a.cpus == 0.0 && a.memory_gib == 0.0 {
            return;
        }
        let share = sign / a.gpus.len() as f64;
        for &gpu in &a.gpus {
            self.change(cluster, gpu, |node, _| {
                node.cpus += a.cpus * share;
                node.memory_gib += a.memory_gib * share;
            });
        }
    }

    /// Changes the allocated resources of the node of a GPU; `change` also gets the bit of the GPU.
    fn change(&mut self, cluster: &Cluster, gpu: GpuId, change: impl FnOnce(&mut Allocated, u64)) {
        let node = cluster.node_of(gpu).and_then(|id| cluster.node(id));
        if let Some(node) = node {
            let allocated = self.nodes.of(node.id().index(), || Allocated::of(node));
            change(allocated, 1 << (gpu.0 - node.first_gpu));
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

impl Allocated {
    fn of(node: &Node) -> Self {
        Allocated {
            gpus: node.allocated,
            cpus: node.cpus_allocated,
            memory_gib: node.memory_allocated,
        }
    }
}

impl Placed {
    /// Returns the assignment that the plan gives the job.
    pub fn assignment(self, plan: &Plan) -> Option<&Assignment> {
        match plan.actions.get(self.step as usize) {
            Some(Action::Place { assignment, .. }) => Some(assignment),
            _ => None,
        }
    }
}

/// Values by index that override values of the state. Clearing takes constant time.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlay<T> {
    /// Values, each with the round in which it was written.
    values: Vec<(u32, T)>,
    round: u32,
}

impl<T: Copy + Default> Overlay<T> {
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

    /// Adds a default value at an index. Returns false if there was a value.
    #[inline(always)]
    pub fn insert(&mut self, i: usize) -> bool {
        if let Some((round, _)) = self.values.get_mut(i) {
            let new = *round != self.round;
            *round = self.round;
            return new;
        }
        self.of(i, T::default);
        true
    }

    /// Returns the value at an index. If there is none, inserts the result of `first`.
    pub fn of(&mut self, i: usize, first: impl FnOnce() -> T) -> &mut T {
        if i >= self.values.len() {
            self.values
                .resize((i + 1).next_power_of_two(), (0, T::default()));
        }
        let (round, value) = &mut self.values[i];
        if *round != self.round {
            (*round, *value) = (self.round, first());
        }
        value
    }
}
