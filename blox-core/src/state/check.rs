//! Whether a plan is right for the version that it was made from.

use super::{Applied, State};
use crate::assignment::Assignment;
use crate::cluster::{MAX_JOBS_PER_GPU, Node, NodeStatus, is_too_much};
use crate::decision::{Action, Plan, PlanError};
use crate::ids::{GpuId, JobId, Name, NameId};
use crate::job::{Held, Phase, Record, accepts};

/// What checking a plan changed, to be undone if it is wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    pub released: Vec<Released>,
    /// Slots of placed jobs in the plan's order.
    pub placed: Vec<u32>,
    /// Indices of steps to leave out, ascending.
    pub left_out: Vec<u32>,
    pub stale: u32,
    /// True if any of its jobs was or is to be beside another.
    pub paired: bool,
}

/// A promise that a plan takes back. The job's record holds its index, plus one, as `mark`.
#[derive(Clone, Debug)]
pub(super) struct Released {
    pub slot: u32,
    pub stopped: bool,
    pub old: Assignment,
}

impl State {
    pub(super) fn try_plan(
        &mut self,
        plan: &Plan,
        seen: u64,
        trial: &mut Trial,
    ) -> Result<(), PlanError> {
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
            let fits = match action {
                // The same plan may place the job first and stop it in a later step.
                Action::Stop { .. } => {
                    rec.promised.is_some() || trial.released_of(rec).is_some_and(|r| !r.stopped)
                }
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
            if stopped && rec.mark != 0 {
                trial.released[rec.mark as usize - 1].stopped = true;
            } else if (stopped || matches!(action, Action::Place { .. }))
                && let Some(old) = self.records[s].promised_mut().take()
            {
                self.cluster.unpromise(job, &old);
                trial.paired |= old.partner.is_some();
                trial.released.push(Released {
                    slot: s as u32,
                    stopped,
                    old,
                });
                self.records[s].mark = trial.released.len() as u32;
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
            match self.try_place(s, *job, assignment, trial) {
                Ok(()) => {
                    self.cluster.promise(*job, assignment);
                    self.records[s].promised = Some(assignment.clone());
                    trial.paired |= assignment.partner.is_some();
                    trial.placed.push(s as u32);
                }
                Err(_) if self.changed_since(assignment, *job, seen) => trial.leave_out(i),
                Err(why) => return Err(why),
            }
        }
        if !trial.paired {
            return Ok(());
        }
        for &s in &trial.placed {
            let rec = &self.records[s as usize];
            let Some(a) = &rec.promised else { continue };
            let Some(partner) = a.partner else { continue };
            let owners = self.cluster.promised_owners(a.gpus[0]);
            if partner != rec.id && owners.contains(partner) {
                continue;
            }
            // A partner that went meanwhile, or whose own step came too late,
            // leaves the job alone on its GPUs.
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

    fn try_place(
        &self,
        s: usize,
        job: JobId,
        a: &Assignment,
        trial: &Trial,
    ) -> Result<(), PlanError> {
        if a.gpus.is_empty() {
            return Err(PlanError::NoGpu { job });
        }
        if self.records[s].promised.is_some() {
            // Placed twice in one plan.
            return Err(PlanError::GpuTwice {
                job,
                gpu: a.gpus[0],
                owner: job,
            });
        }
        let before = trial.before(&self.records[s]);
        for (i, &gpu) in a.gpus.iter().enumerate() {
            let Some(node) = self.cluster.node_of(gpu).and_then(|n| self.cluster.node(n)) else {
                return Err(PlanError::UnusableGpu { job, gpu });
            };
            let bit = 1u64 << (gpu.0 - node.first_gpu);
            // A job may stay where it is on a node that takes nothing new.
            let stays = before.is_some_and(|b| b.gpus.contains(&gpu));
            if node.status != NodeStatus::Up
                || (!stays && (node.cordon.is_some() || node.failed & bit != 0))
            {
                return Err(PlanError::UnusableGpu { job, gpu });
            }
            if !stays
                && self.records[s].extras
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
            let mut others = 0;
            for owner in self.cluster.promised_owners(gpu).iter() {
                others += 1;
                let theirs = self.record(owner).and_then(|o| o.promised.as_ref());
                let agreed = theirs.is_some_and(|t| {
                    (a.partner == Some(owner) || t.partner == Some(job)) && t.same_gpus(a)
                });
                if !agreed || others == MAX_JOBS_PER_GPU {
                    return Err(PlanError::GpuTwice { job, gpu, owner });
                }
            }
        }
        self.check_resources(job, a)
    }

    #[inline]
    pub(super) fn check_resources(&self, job: JobId, a: &Assignment) -> Result<(), PlanError> {
        if a.cpus == 0.0 && a.memory_gib == 0.0 {
            return Ok(());
        }
        self.check_amounts(job, a)
    }

    fn check_amounts(&self, job: JobId, a: &Assignment) -> Result<(), PlanError> {
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
            let spec = node.spec();
            let parts = [
                ("CPUs", a.cpus, node.cpus_promised, spec.cpus),
                (
                    "memory",
                    a.memory_gib,
                    node.memory_promised,
                    spec.memory_gib,
                ),
            ];
            for (what, amount, promised, capacity) in parts {
                if is_too_much(amount * share, capacity - promised, capacity) {
                    return Err(PlanError::Overcommitted {
                        job,
                        node: node.id(),
                        what: Name::from(what),
                        total: promised + amount * share,
                        capacity,
                    });
                }
            }
        }
        Ok(())
    }

    pub(super) fn undo(&mut self, trial: &mut Trial) {
        for &s in trial.placed.iter().rev() {
            let rec = &mut self.records[s as usize];
            if let Some(a) = rec.promised.take() {
                self.cluster.unpromise(rec.id, &a);
            }
        }
        for released in trial.released.drain(..).rev() {
            let rec = &mut self.records[released.slot as usize];
            rec.mark = 0;
            self.cluster.promise(rec.id, &released.old);
            if matches!(&rec.held, Held::Other(held) if **held == released.old) {
                rec.held = Held::AsPromised;
            }
            rec.promised = Some(released.old);
        }
    }

    fn ended_after(&self, job: JobId, version: u64) -> bool {
        let recently = self
            .record(job)
            .is_some_and(|r| r.phase == Phase::Ended && r.changed > version);
        recently || self.gone.iter().any(|(j, v)| *j == job && *v > version)
    }

    /// Returns whether the job, or anything that it would be placed on, changed after `version`.
    fn changed_since(&self, a: &Assignment, job: JobId, version: u64) -> bool {
        let job_changed = |j: JobId| self.record(j).is_some_and(|r| r.changed > version);
        job_changed(job)
            || a.gpus.iter().any(|&g| {
                self.cluster
                    .node_of(g)
                    .and_then(|n| self.cluster.node(n))
                    .is_some_and(|n| n.changed > version)
                    || self.cluster.promised_to(g).any(job_changed)
            })
    }
}

impl Trial {
    pub fn clear(&mut self) {
        self.released.clear();
        self.placed.clear();
        self.left_out.clear();
        self.stale = 0;
        self.paired = false;
    }
    pub fn applied(&self, plan: &Plan) -> Applied {
        let steps = plan.actions.iter().enumerate();
        let stops =
            steps.filter(|(i, a)| matches!(a, Action::Stop { .. }) && !self.is_left_out(*i));
        Applied {
            stale: self.stale,
            stops: stops.count() as u32,
            placements: self.placed.len() as u32,
        }
    }
    /// Returns what the job was promised before the plan, if the plan takes it back.
    pub fn before(&self, rec: &Record) -> Option<&Assignment> {
        self.released_of(rec).map(|r| &r.old)
    }
    pub fn released_of(&self, rec: &Record) -> Option<&Released> {
        match rec.mark {
            0 => None,
            m => self.released.get(m as usize - 1),
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
