//! Random runs that recompute all counters of the state after every step.

use super::check::Trial;
use super::*;
use crate::assignment::Assignment;
use crate::cluster::NodeStatus;
use crate::cluster::spec::NodeSpec;
use crate::config::Config;
use crate::decision::{Action, AdmissionDecision, NodeAction};
use crate::event::Outcome;
use crate::ids::{GpuId, NodeId};
use crate::job::spec::Extras;
use crate::model::share::{Gpus, Share, Used};
use crate::reason::Reason;
use crate::sorted::SortedMap;
use std::cell::Cell;

/// Random numbers that are the same in every test run.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 20) % n.max(1) as u64) as usize
    }
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).cloned()
    }
}

/// Compares lists, counters and GPU ledgers with values recomputed from the records.
pub(super) fn check(state: &State) {
    let gpus: u32 = state.cluster.nodes().iter().map(|n| n.gpu_count()).sum();
    let mut allocated = vec![Vec::new(); gpus as usize];
    let mut bound = vec![Vec::new(); gpus as usize];
    let mut cpus = vec![0.0; state.cluster.nodes().len()];
    let mut counts = [0u32; 7];
    let mut demand = Gpus::default();
    let mut of_vc = vec![Gpus::default(); state.names.len()];
    let live = |r: &&Record| state.slot(r.id).is_some() && r.phase != Phase::Ended;
    for r in state.records.iter().filter(live) {
        let id = r.id;
        counts[r.phase as usize] += 1;
        let active = matches!(
            r.phase,
            Phase::Waiting | Phase::Starting | Phase::Running | Phase::Stopping
        );
        if active {
            demand += r.amount();
            if let Some(vc) = r.virtual_cluster {
                of_vc[vc.index()] += r.amount();
            }
        }
        assert_eq!(
            state.waiting.iter().any(|j| j == id),
            r.phase == Phase::Waiting
        );
        assert_eq!(
            state.deferred.iter().any(|j| j == id),
            r.phase == Phase::Deferred
        );
        assert_eq!(
            state.placed.iter().any(|j| j == id),
            active && r.phase != Phase::Waiting
        );
        match r.phase {
            Phase::Submitted | Phase::Deferred | Phase::Waiting | Phase::Ended => {
                assert!(
                    r.allocated.is_none() && r.bound().is_none() && !r.pending,
                    "{r:?}"
                );
            }
            Phase::Starting => {
                assert!(r.allocated.is_some(), "{r:?}");
                assert!(r.pending || r.bound().is_some(), "{r:?}");
            }
            Phase::Running => assert!(r.allocated.is_some() && r.bound().is_some(), "{r:?}"),
            Phase::Stopping => {
                assert!(r.bound().is_some(), "{r:?}");
                assert_eq!(r.pending, r.allocated.is_some(), "{r:?}");
            }
        }
        if r.phase != Phase::Starting && r.phase != Phase::Stopping {
            assert!(r.leaving.is_empty(), "{r:?}");
        }
        let gpus = r.allocated.iter().flat_map(|a| &a.gpus).copied();
        let gpus: Vec<GpuId> = gpus.collect();
        let together = state.cluster.first_run(&gpus);
        let together = together.filter(|(_, count)| *count == gpus.len());
        assert!(
            r.on.is_none() || r.on == together.map(|(on, _)| on),
            "{r:?}"
        );
        if let Some(a) = &r.allocated {
            for g in &a.gpus {
                let claim = state.cluster.allocated_claims(*g).of(id);
                assert_eq!(claim, Some(a.share), "{r:?}");
                allocated[g.index()].push(id);
                let node = state.cluster.node_of(*g).unwrap();
                cpus[node.index()] += a.cpus / a.gpus.len() as f64;
            }
        }
        for g in r.bound().into_iter().flat_map(|a| &a.gpus) {
            let claim = state.cluster.bound_claims(*g).of(id);
            assert_eq!(claim, r.bound().map(|a| a.share), "{r:?}");
        }
        let leaving = r.leaving.iter();
        for g in leaving.chain(r.bound().into_iter().flat_map(|a| &a.gpus)) {
            assert!(!bound[g.index()].contains(&id), "{r:?}");
            bound[g.index()].push(id);
        }
    }
    let sorted = |ids: &mut dyn Iterator<Item = JobId>| {
        let mut ids: Vec<JobId> = ids.collect();
        ids.sort_unstable();
        ids
    };
    let runs_on = |id: &JobId, g: GpuId| {
        let rec = state.record(*id).unwrap();
        rec.phase == Phase::Running && rec.bound().unwrap().gpus.contains(&g)
    };
    let is_busy = |g: &usize| bound[*g].iter().any(|id| runs_on(id, GpuId(*g as u32)));
    let busy = (0..gpus as usize).filter(is_busy).count();
    assert_eq!(state.busy_gpus() as usize, busy);
    let part = |id: &JobId| {
        Gpus::of(
            GpuCount(1),
            state.record(*id).unwrap().bound().unwrap().share,
        )
    };
    let used = (0..gpus).map(GpuId).map(|g| {
        let running = bound[g.index()].iter().filter(|id| runs_on(id, g));
        running.map(part).sum::<Gpus>().min(GpuCount(1).into())
    });
    assert_eq!(state.used_gpus(), used.sum());
    for g in (0..gpus).map(GpuId) {
        allocated[g.index()].sort_unstable();
        bound[g.index()].sort_unstable();
        assert_eq!(
            sorted(&mut state.cluster.allocated_to(g)),
            allocated[g.index()],
            "allocated {g}"
        );
        assert_eq!(
            sorted(&mut state.cluster.bound_to(g)),
            bound[g.index()],
            "bound {g}"
        );
    }
    let (mut usable, mut free) = (0, 0);
    for n in state.cluster.nodes() {
        for (b, g) in n.gpus().enumerate() {
            let works = n.is_usable() && n.failed >> b & 1 == 0;
            let taken = !allocated[g.index()].is_empty();
            assert_eq!(n.allocated >> b & 1 == 1, taken, "node {} bit {b}", n.id());
            let claims = state.cluster.allocated_claims(g);
            let parts = claims.iter().any(|(_, share)| !share.is_whole());
            let mixed = claims != state.cluster.bound_claims(g) || claims.count() > 1 || parts;
            assert_eq!(n.mixed >> b & 1 == 1, mixed, "node {} bit {b}", n.id());
            assert_eq!(
                n.free >> b & 1 == 1,
                works && !taken,
                "node {} bit {b}",
                n.id()
            );
            usable += u32::from(works);
            free += u32::from(works && !taken);
        }
        assert!((n.cpus_allocated - cpus[n.id().index()]).abs() < 1e-6);
        assert!(n.cpus_allocated <= n.spec().cpus + 1e-6);
    }
    assert_eq!(
        (state.cluster.usable_gpus(), state.cluster.free_gpus()),
        (usable, free)
    );
    for r in state.records.iter().filter(live) {
        if let Some(a) = &r.allocated {
            let exceeds = |g: &GpuId| {
                let shares = allocated[g.index()].iter();
                let share = |o: &JobId| state.record(*o).unwrap().allocated.as_ref().unwrap().share;
                let part = |s: Share| if s.overlaps() { 0.0 } else { s.fraction() };
                let memory = |s: Share| s.memory_fraction().unwrap_or(0.0);
                let sum = |of: fn(Share) -> f64| shares.clone().map(|o| of(share(o))).sum::<f64>();
                sum(part) > 1.0 + 1e-9 || sum(memory) > 1.0 + 1e-9
            };
            assert!(!a.gpus.iter().any(exceeds), "{r:?}");
        }
        if r.pending {
            let a = r.allocated.as_ref().unwrap();
            let blockers_on = |g: &GpuId| {
                let others = bound[g.index()].iter().filter(|h| **h != r.id);
                let claims = state.cluster.bound_claims(*g);
                let share_of = |h: JobId| claims.of(h).unwrap();
                let stays = |h: JobId| {
                    let its = state.record(h).unwrap().allocated.as_ref();
                    let its = its.filter(|a| a.gpus.contains(g));
                    its.is_some_and(|its| its.share == share_of(h))
                };
                let (mut sum, mut memory, mut leaving) = (a.share.fraction(), 0.0, 0);
                memory += a.share.memory_fraction().unwrap_or(0.0);
                for h in others {
                    memory += share_of(*h).memory_fraction().unwrap_or(0.0);
                    if !stays(*h) {
                        leaving += 1;
                        sum += share_of(*h).fraction();
                    } else if !share_of(*h).overlaps() {
                        sum += share_of(*h).fraction();
                    }
                }
                match sum <= 1.0 + 1e-9 && memory <= 1.0 + 1e-9 {
                    true => 0,
                    false => leaving,
                }
            };
            let blockers: usize = a.gpus.iter().map(blockers_on).sum();
            assert_eq!(r.blockers as usize, blockers, "{r:?}");
            assert!(
                blockers > 0 || r.phase == Phase::Stopping,
                "not launched: {r:?}"
            );
        }
    }
    counts[Phase::Ended as usize] = state.counts[Phase::Ended as usize];
    assert_eq!(state.counts, counts);
    assert_eq!(state.demand, demand);
    for (i, d) in of_vc.iter().enumerate() {
        assert_eq!(state.demand_of(NameId(i as u32)), *d);
    }
}

/// A backend that reports in random order.
struct Run {
    state: State,
    random: Random,
    time: f64,
    commands: Vec<Command>,
    refused: u32,
    stale: u32,
    circles: u32,
    /// Jobs that took GPUs in the fast way.
    free: u32,
    /// Numbers of placements beside one, two, and at least three other jobs.
    grouped: [u32; 4],
    parts: Option<Parts>,
}

/// Counters of a run with parts of GPUs.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    /// Placements with a part that another job is beside.
    beside: u32,
    /// Placements with overlapping parts on GPUs of other jobs.
    overlapping: u32,
    /// Parts that grow, or shrink, in place.
    grown: u32,
    shrunk: u32,
    /// Configs that change in place.
    configured: u32,
    /// Launches that start beside a job that still leaves the GPU.
    early: u32,
    /// Launches that wait.
    waits: u32,
    refused: u32,
    plans: u32,
    /// Checks of both ledgers.
    checked: u32,
}

impl Run {
    fn new(seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut node = NodeSpec::with_gpus(4);
        node.cpus = 64.0;
        let cluster = ClusterSpec {
            nodes: vec![node; 3],
            ..ClusterSpec::default()
        };
        Run {
            state: State::new(&cluster).unwrap(),
            random,
            time: 0.0,
            commands: Vec::new(),
            refused: 0,
            stale: 0,
            circles: 0,
            free: 0,
            grouped: [0; 4],
            parts: None,
        }
    }

    /// A run whose jobs have parts of GPUs.
    fn with_parts(seed: u64) -> Self {
        Run {
            parts: Some(Parts::default()),
            ..Run::new(seed)
        }
    }

    fn share(&mut self) -> Share {
        let part = |n, of| Share::parts(n, of).unwrap();
        let some = [(1, 4), (1, 3), (1, 2), (2, 3), (1, 8), (1, 1)];
        let (n, of) = self.random.pick(&some).unwrap();
        let share = match self.random.chance(30) {
            true => part(n, of).memory(n, of).unwrap(),
            false => part(n, of),
        };
        match self.random.chance(20) {
            true => share.overlapping(),
            false => share,
        }
    }

    /// Creates a valid plan of parts: stops, moves, changes in place, and launches.
    fn plan_of_parts(&mut self) -> Plan {
        let mut plan = Plan {
            version: self.state.version,
            ..Plan::default()
        };
        let mut used = [Used::default(); 12];
        let mut open = Vec::new();
        let mut before = SortedMap::new();
        for job in self.jobs(&[Phase::Starting, Phase::Running, Phase::Stopping]) {
            let Some(a) = self.state.record(job).unwrap().allocated.clone() else {
                open.push(job);
                continue;
            };
            let stays = self.random.chance(50);
            let stops = !stays && self.random.chance(50);
            if stops {
                let why = Reason::NotChosen;
                plan.actions.push(Action::Stop { job, why });
            }
            if stays {
                a.gpus.iter().for_each(|g| used[g.index()].add(a.share));
            } else if !stops || self.random.chance(70) {
                open.push(job);
            }
            before.insert(job, (a, stops));
        }
        // Changes in place keep their GPUs, unless they find others.
        let fixed = |job: &JobId| before.get(job).is_some_and(|(_, stops)| !stops);
        let (changes, mut rest): (Vec<JobId>, Vec<JobId>) = open.into_iter().partition(fixed);
        for job in &changes {
            let a = &before.get(job).unwrap().0;
            a.gpus.iter().for_each(|g| used[g.index()].add(a.share));
        }
        rest.extend(self.jobs(&[Phase::Waiting]));
        let mut parts = self.parts.unwrap();
        for job in changes.into_iter().chain(rest) {
            let had = before.get(&job).map(|(a, _)| a.clone());
            let in_place = before.get(&job).is_some_and(|(_, stops)| !stops);
            if in_place {
                let a = had.as_ref().unwrap();
                let rest = |u: &mut Used| u.remove(a.share);
                a.gpus.iter().for_each(|g| rest(&mut used[g.index()]));
            }
            let share = self.share();
            let fits = |g: &u32| {
                let node = &self.state.cluster.nodes()[*g as usize / 4];
                let works = node.is_usable() && node.works(GpuId(*g));
                works && used[*g as usize].has_room(share)
            };
            let mut gpus: Vec<u32> = (0..12).filter(fits).collect();
            let count = 1 + self.random.below(3);
            let mut chosen: Vec<GpuId> = Vec::new();
            while chosen.len() < count && !gpus.is_empty() {
                chosen.push(GpuId(gpus.swap_remove(self.random.below(gpus.len()))));
            }
            let kept = had.as_ref().filter(|_| in_place).map(|a| &a.gpus[..]);
            if let Some(kept) = kept
                && self.random.chance(60)
                && kept.iter().all(|g| fits(&g.0))
            {
                chosen = kept.to_vec();
            }
            let mut assignment = Assignment::of(chosen);
            assignment.share = share;
            if self.random.chance(30) {
                assignment.config = Config::of([("tp", 1.0 + self.random.below(2) as f64)]);
            }
            if assignment.gpus.is_empty() {
                if in_place {
                    // It keeps what it has.
                    let a = had.unwrap();
                    a.gpus.iter().for_each(|g| used[g.index()].add(a.share));
                }
                continue;
            }
            if let Some(had) = had.filter(|had| in_place && had.gpus == assignment.gpus) {
                parts.grown += u32::from(had.share.fraction() < share.fraction());
                parts.shrunk += u32::from(had.share.fraction() > share.fraction());
                parts.configured += u32::from(had.config != assignment.config);
            }
            for g in &assignment.gpus {
                let others = used[g.index()].jobs() > 0;
                parts.beside += u32::from(others && !share.overlaps());
                parts.overlapping += u32::from(others && share.overlaps());
                used[g.index()].add(share);
            }
            plan.actions.push(Action::Place { job, assignment });
        }
        self.parts = Some(parts);
        plan
    }

    /// Checks that no GPU is above the whole in either ledger, and counts early launches.
    fn check_parts(&mut self) {
        let Some(parts) = &mut self.parts else { return };
        parts.checked += 1;
        for g in (0..12).map(GpuId) {
            let (allocated, bound) = (
                self.state.cluster.allocated_claims(g),
                self.state.cluster.bound_claims(g),
            );
            for claims in [&allocated, &bound] {
                let sum = |of: fn(Share) -> f64| claims.iter().map(|(_, s)| of(s)).sum::<f64>();
                let compute = sum(|s| if s.overlaps() { 0.0 } else { s.fraction() });
                let memory = sum(|s| s.memory_fraction().unwrap_or(0.0));
                assert!(
                    compute <= 1.0 + 1e-9 && memory <= 1.0 + 1e-9,
                    "{g}: {claims:?}"
                );
            }
            let leaves = bound.iter().any(|(job, _)| !allocated.contains(job));
            let runs = |job: JobId| {
                let rec = self.state.record(job).unwrap();
                rec.phase == Phase::Starting && !rec.pending
            };
            let starts = bound
                .iter()
                .any(|(job, _)| allocated.contains(job) && runs(job));
            parts.early += u32::from(leaves && starts);
        }
    }

    fn apply(&mut self, event: Event) {
        self.time += self.random.below(3) as f64;
        if self.state.apply(Time::new(self.time), &event).is_err() {
            self.refused += 1;
        }
        if let Some(job) = event.job()
            && self
                .state
                .job(job)
                .is_some_and(|j| j.phase() == Phase::Ended)
            && self.random.chance(50)
        {
            self.state.retire(job);
        }
        self.after();
    }

    fn after(&mut self) {
        let old = self.commands.len();
        self.state.take_commands(&mut self.commands);
        for c in &self.commands[old..] {
            // A launch shares its GPUs only with jobs that stay.
            if let Command::Start { job, .. } | Command::Change { job, .. } = c
                && let Some(rec) = self.state.record(*job)
                && rec.phase == Phase::Starting
                && !rec.pending
            {
                for g in &rec.bound().unwrap().gpus {
                    for h in self.state.cluster.bound_to(*g) {
                        let stays = self.state.cluster.allocated_to(*g).any(|p| p == h);
                        assert!(stays || self.parts.is_some());
                    }
                }
            }
        }
        check(&self.state);
        self.check_parts();
    }

    fn jobs(&self, phases: &[Phase]) -> Vec<JobId> {
        (0..self.state.next_job_id().0)
            .map(JobId)
            .filter(|j| {
                self.state
                    .job(*j)
                    .is_some_and(|j| phases.contains(&j.phase()))
            })
            .collect()
    }

    fn submit(&mut self) {
        let job = self.state.next_job_id();
        let gpus = GpuCount(1 + self.random.below(4) as u32);
        let mut spec = JobSpec::new(Time::ZERO, gpus, Seconds::new(1e6));
        if self.random.chance(50) {
            spec = spec.in_virtual_cluster(if self.random.chance(50) { "a" } else { "b" });
        }
        if self.random.chance(50) {
            spec = spec.with_extras(Extras {
                cpus: 4.0,
                ..Extras::default()
            });
        }
        self.apply(Event::Submitted {
            job,
            spec: Arc::new(spec),
        });
        let admission = match self.random.below(10) {
            0 => AdmissionDecision::Defer(Reason::AdmissionLoad),
            1 => AdmissionDecision::Reject(Reason::AdmissionLoad),
            _ => AdmissionDecision::Accept {
                class: None,
                deadline: None,
            },
        };
        self.apply(Event::AdmissionDecided { job, admission });
    }

    /// Reports the result of one random command, sometimes an unusual result.
    fn answer(&mut self) {
        if self.commands.is_empty() {
            return;
        }
        let i = self.random.below(self.commands.len());
        let odd = self.random.below(20);
        let crash = |job, attempt| Event::Crashed {
            job,
            attempt,
            work: 1.0,
            why: Reason::Crashed,
        };
        let event = match self.commands.remove(i) {
            Command::Start { job, attempt } if odd == 0 => Event::LaunchFailed {
                job,
                attempt,
                why: "odd".into(),
            },
            Command::Start { job, attempt } | Command::Change { job, attempt, .. } => {
                if odd == 1 {
                    crash(job, attempt)
                } else {
                    Event::Started {
                        job,
                        attempt,
                        rate: 1.0,
                    }
                }
            }
            Command::Stop { job, attempt, .. } => match odd {
                0 => Event::LaunchFailed {
                    job,
                    attempt,
                    why: "odd".into(),
                },
                1 => crash(job, attempt),
                2 => Event::Ended {
                    job,
                    outcome: Outcome::Completed,
                },
                _ => Event::Stopped {
                    job,
                    attempt,
                    work: None,
                },
            },
            _ => return,
        };
        self.apply(event);
    }

    fn happen(&mut self) {
        let placed = [Phase::Starting, Phase::Running, Phase::Stopping];
        let any = self.jobs(&[
            Phase::Deferred,
            Phase::Waiting,
            Phase::Starting,
            Phase::Running,
            Phase::Stopping,
        ]);
        match self.random.below(12) {
            0..=1 => {
                if any.len() < 14 {
                    self.submit();
                }
            }
            2..=6 => self.answer(),
            7 => {
                if let Some(job) = self.random.pick(&any)
                    && self.random.chance(40)
                {
                    self.apply(Event::Ended {
                        job,
                        outcome: Outcome::Completed,
                    });
                }
            }
            8 => {
                let jobs = self.jobs(&placed);
                if let Some(job) = self.random.pick(&jobs)
                    && self.random.chance(40)
                {
                    let attempt = self.state.job(job).unwrap().attempt();
                    self.apply(Event::Crashed {
                        job,
                        attempt,
                        work: 0.0,
                        why: Reason::Crashed,
                    });
                }
            }
            9 => {
                let node = NodeId(self.random.below(3) as u32);
                let up = self.state.cluster.node(node).unwrap().status() == NodeStatus::Up;
                if !up {
                    self.apply(Event::NodeReturned { node });
                } else if self.random.chance(30) {
                    self.apply(Event::NodeLost { node });
                    for job in self.jobs(&placed) {
                        let rec = self.state.record(job).unwrap();
                        let bound = rec
                            .bound()
                            .into_iter()
                            .flat_map(|a| &a.gpus)
                            .chain(&rec.leaving);
                        let there = bound
                            .copied()
                            .any(|g| self.state.cluster.node_of(g) == Some(node));
                        let attempt = rec.attempt;
                        if there {
                            self.apply(Event::Crashed {
                                job,
                                attempt,
                                work: 0.0,
                                why: Reason::NodeLost,
                            });
                        }
                    }
                }
            }
            10 => {
                let gpu = GpuId(self.random.below(13) as u32);
                if self.random.chance(60) {
                    self.apply(Event::GpuRepaired { gpu });
                } else {
                    self.apply(Event::GpuFailed { gpu });
                }
            }
            _ => {
                let node = NodeId(self.random.below(4) as u32);
                let action = if self.random.chance(70) {
                    NodeAction::Uncordon { node }
                } else {
                    NodeAction::Cordon {
                        node,
                        why: "odd".into(),
                    }
                };
                self.apply(Event::NodeManaged { action });
                if let Some(job) = self.random.pick(&any) {
                    let hold = self.random.chance(20);
                    self.apply(if hold {
                        Event::Hold { job }
                    } else {
                        Event::Release { job }
                    });
                }
            }
        }
    }

    /// Creates a valid plan: stops, moves, changes in place, pairs, launches and swaps.
    fn plan(&mut self) -> Plan {
        let mut plan = Plan {
            version: self.state.version,
            ..Plan::default()
        };
        // Allocation of each job after the plan.
        let mut after: Vec<(JobId, Assignment)> = Vec::new();
        let mut free: Vec<GpuId> = Vec::new();
        for n in self.state.cluster.nodes() {
            for (b, g) in n.gpus().enumerate() {
                if n.free >> b & 1 == 1 {
                    free.push(g);
                }
            }
        }
        let usable = |state: &State, g: GpuId| {
            let n = state
                .cluster
                .node(state.cluster.node_of(g).unwrap())
                .unwrap();
            n.is_usable() && n.failed >> (g.0 - n.first_gpu) & 1 == 0
        };
        let mut moved = Vec::new();
        for job in self.jobs(&[Phase::Starting, Phase::Running, Phase::Stopping]) {
            if moved.contains(&job) {
                continue;
            }
            let r = self.state.record(job).unwrap();
            let Some(a) = r.allocated.clone() else {
                moved.push(job);
                continue;
            };
            let several = |g: &GpuId| self.state.cluster.allocated_to(*g).count() > 1;
            let grouped = a.gpus.iter().any(several);
            if grouped || self.random.chance(60) {
                // Jobs of a group are stopped or not changed.
                if grouped && self.random.chance(20) {
                    plan.actions.push(Action::Stop {
                        job,
                        why: Reason::NotChosen,
                    });
                    moved.push(job);
                } else {
                    after.push((job, a));
                }
                continue;
            }
            if self.random.chance(60) {
                plan.actions.push(Action::Stop {
                    job,
                    why: Reason::NotChosen,
                });
                if self.random.chance(70) {
                    moved.push(job);
                }
                free.extend(a.gpus.iter().filter(|g| usable(&self.state, **g)));
            } else if a.gpus.iter().any(|g| !usable(&self.state, *g)) {
                after.push((job, a));
            } else {
                // A job that changes in place must be placed again in any case.
                free.extend(&a.gpus);
                moved.insert(0, job);
            }
        }
        let waiting = self.jobs(&[Phase::Waiting]);
        moved.extend(waiting);
        for job in moved {
            let r = self.state.record(job).unwrap();
            let stopped = plan.actions.iter().any(|a| a.job() == job);
            let in_place = r.allocated.is_some() && !stopped;
            let whole = r
                .allocated
                .as_ref()
                .map_or(r.gpus as usize, |a| a.gpus.len());
            let n = if in_place && self.random.chance(40) {
                1
            } else {
                whole
            };
            let on = |g: &GpuId| after.iter().filter(|(_, a)| a.gpus.contains(g)).count();
            let host = self.random.pick(&after).filter(|_| self.random.chance(40));
            let open = host.iter().flat_map(|(_, a)| a.gpus.iter().copied());
            let most = 1 + self.random.below(4);
            let open: Vec<GpuId> = open
                .filter(|g| usable(&self.state, *g) && on(g) < most)
                .collect();
            let part = self.random.below(open.len() + 1);
            let mut assignment = if part > 0 {
                let mut a = Assignment::of(open[..part].iter().copied());
                let joined = |(_, theirs): &&(JobId, Assignment)| {
                    theirs.gpus.iter().any(|g| a.gpus.contains(g))
                };
                self.grouped[after.iter().filter(joined).count().min(3)] += 1;
                a.share = a.share.overlapping();
                a
            } else if free.len() >= n && (in_place || self.random.chance(70)) {
                let gpus: Vec<GpuId> = (0..n)
                    .map(|_| free.swap_remove(self.random.below(free.len())))
                    .collect();
                Assignment::of(gpus)
            } else {
                assert!(!in_place);
                continue;
            };
            assignment.cpus = if self.random.chance(30) { 1.0 } else { 0.0 };
            after.push((job, assignment.clone()));
            plan.actions.push(Action::Place { job, assignment });
        }
        if self.random.chance(10)
            && let Some(job) = self.random.pick(&self.jobs(&[Phase::Waiting]))
        {
            plan.actions.push(Action::Promote { job });
        }
        plan
    }

    fn decide(&mut self) {
        let plan = match self.parts {
            Some(_) => self.plan_of_parts(),
            None => self.plan(),
        };
        self.free += same_without_speed(&self.state, &plan);
        if self.random.chance(50) {
            for _ in 0..self.random.below(5) {
                self.happen();
            }
        }
        let now = self.time;
        self.state.advance(Time::new(now));
        let applied = self
            .state
            .apply_plan(&plan)
            .unwrap_or_else(|e| panic!("what was right is refused: {e}\n{plan:?}"));
        self.stale += applied.stale;
        let old = self.commands.len();
        self.after();
        let waiting = |rec: &Record| rec.pending && rec.phase == Phase::Starting;
        let waits = self.state.records.iter().filter(|rec| waiting(rec)).count() as u32;
        if let Some(parts) = &mut self.parts {
            parts.waits += waits;
            parts.plans += 1;
        }
        self.circles += self.commands[old..]
            .iter()
            .filter(|c| {
                matches!(
                    c,
                    Command::Stop {
                        why: Reason::WaitingForGpus,
                        ..
                    }
                )
            })
            .count() as u32;
        self.state.close_decision(self.state.version, true);
    }

    /// Applies a plan of random steps. The counters stay correct even if the plan is refused.
    fn nonsense(&mut self) {
        let jobs = self.state.next_job_id().0 as usize + 2;
        let mut plan = Plan {
            version: self.state.version + u64::from(self.random.chance(3)),
            ..Plan::default()
        };
        for _ in 0..1 + self.random.below(4) {
            let job = JobId(self.random.below(jobs) as u32);
            let odd = [u32::MAX, 12, 13];
            let action = match self.random.below(4) {
                0 => Action::Stop {
                    job,
                    why: Reason::NotChosen,
                },
                _ => {
                    let mut a = Assignment::of((0..self.random.below(4)).map(|_| {
                        if self.random.chance(5) {
                            GpuId(self.random.pick(&odd).unwrap())
                        } else {
                            GpuId(self.random.below(12) as u32)
                        }
                    }));
                    if self.parts.is_some() {
                        a.share = self.share();
                    }
                    if self.parts.is_none() && self.random.chance(40) {
                        a.share = a.share.overlapping();
                    }
                    a.cpus = [0.0, 1.0, 30.0, -1.0, f64::NAN, f64::INFINITY][self.random.below(6)];
                    Action::Place { job, assignment: a }
                }
            };
            plan.actions.push(action);
        }
        if plan.version == self.state.version {
            same_without_speed(&self.state, &plan);
        }
        let before = ledgers(&self.state);
        if self.state.apply_plan(&plan).is_err() {
            assert_eq!(ledgers(&self.state), before);
            self.refused += 1;
            if let Some(parts) = &mut self.parts {
                parts.refused += 1;
            }
        }
        self.after();
    }

    fn take_steps(&mut self) {
        for step in 0..120 {
            for _ in 0..self.random.below(6) {
                self.happen();
            }
            self.decide();
            if self.random.chance(20) {
                self.nonsense();
            }
            if step % 10 == 9 {
                self.drain();
            }
        }
    }

    /// Reports the results of all commands. After that, all placed jobs must run.
    fn drain(&mut self) {
        for _ in 0..500 {
            if self.commands.is_empty() {
                break;
            }
            self.answer();
        }
        assert!(self.commands.is_empty());
        let stuck = self.jobs(&[Phase::Starting, Phase::Stopping]);
        assert!(
            stuck.is_empty(),
            "nothing to wait for, yet not running: {stuck:?}"
        );
    }
}

/// A way to take the GPUs of a job.
type Take<'t> = &'t dyn Fn(&State, &Record, (u32, u32), &Assignment, &mut Trial) -> bool;

/// Checks that the fast way to take GPUs changes no result of a check. Returns how many jobs took it.
fn same_without_speed(state: &State, plan: &Plan) -> u32 {
    let fast = Cell::new(0);
    let check = |by: Take<'_>| {
        let mut trial = Trial::default();
        trial.clear(&state.cluster);
        let result = state.check_by(plan, plan.version, &mut trial, by);
        let placed: Vec<_> = trial.placed.iter().map(|p| (p.slot, p.step)).collect();
        let released: Vec<_> = trial.released.iter().map(|r| (r.slot, r.step)).collect();
        (result, placed, released, trial.left_out, trial.stale)
    };
    let count = |state: &State, rec: &Record, at: (u32, u32), a: &Assignment, trial: &mut Trial| {
        let takes = state.take_free(rec, at, a, trial);
        fast.set(fast.get() + u32::from(takes));
        takes
    };
    assert_eq!(check(&count), check(&|_, _, _, _, _| false), "{plan:?}");
    fast.get()
}

type Ledger = Vec<(JobId, Phase, Option<Assignment>, Option<Assignment>)>;

fn ledgers(state: &State) -> (u64, Ledger) {
    let jobs = (0..state.next_job_id().0).filter_map(|j| state.record(JobId(j)));
    let jobs = jobs.map(|r| (r.id, r.phase, r.allocated.clone(), r.bound().cloned()));
    (state.version, jobs.collect())
}

#[test]
fn books_stay_right_in_random_runs() {
    let (mut free, mut refused, mut stale, mut circles) = (0, 0, 0, 0);
    let mut grouped = [0; 4];
    for seed in 1..=300 {
        let mut run = Run::new(seed);
        run.take_steps();
        refused += run.refused;
        stale += run.stale;
        circles += run.circles;
        free += run.free;
        (0..4).for_each(|i| grouped[i] += run.grouped[i]);
    }
    // The runs must cover refusals, stale steps, deadlocks, and groups of each size.
    assert!(
        refused > 1000 && stale > 1000 && circles > 10 && free > 1000,
        "{refused} {stale} {circles} {free}"
    );
    assert!(grouped[1..].iter().all(|n| *n > 500), "{grouped:?}");
}

#[test]
fn parts_of_gpus_fit_in_random_runs() {
    let (mut all, mut stale, mut circles) = (Vec::new(), 0, 0);
    for seed in 1..=840 {
        let mut run = Run::with_parts(seed);
        run.take_steps();
        for job in run.jobs(&[Phase::Starting, Phase::Running, Phase::Stopping]) {
            run.apply(Event::Ended {
                job,
                outcome: Outcome::Completed,
            });
        }
        for g in (0..12).map(GpuId) {
            let jobs = run.state.cluster.allocated_to(g);
            assert_eq!(jobs.chain(run.state.cluster.bound_to(g)).count(), 0);
        }
        stale += run.stale;
        circles += run.circles;
        all.push(run.parts.unwrap());
    }
    let sum = |of: fn(&Parts) -> u32| all.iter().map(of).sum::<u32>();
    let reached = [
        sum(|p| p.beside),
        sum(|p| p.overlapping),
        sum(|p| p.grown),
        sum(|p| p.shrunk),
        sum(|p| p.configured),
        sum(|p| p.early),
        sum(|p| p.waits),
        sum(|p| p.refused),
    ];
    assert!(reached.iter().all(|n| *n > 500), "{reached:?}");
    assert!(sum(|p| p.plans) > 100_000 && sum(|p| p.checked) > 100_000);
    assert!(stale > 500 && circles > 10, "{stale} {circles}");
}

#[test]
fn a_state_survives_json_in_the_middle_of_everything() {
    state_survives_json(Run::new(7));
    state_survives_json(Run::with_parts(7));
}

fn state_survives_json(mut run: Run) {
    for _ in 0..60 {
        run.happen();
        run.decide();
    }
    let text = serde_json::to_string(&run.state).unwrap();
    let back: State = serde_json::from_str(&text).unwrap();
    check(&back);
    assert_eq!(ledgers(&back), ledgers(&run.state));
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
}

#[test]
fn state_with_all_fields_of_a_job_is_read() {
    let mut state = State::default();
    let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(9.0)).into();
    let job = JobId(0);
    let submitted = Event::Submitted { job, spec };
    state.apply(Time::ZERO, &submitted).unwrap();
    let new = serde_json::to_value(&state).unwrap();
    // An earlier version wrote the fields that have their usual values, too.
    let usual = serde_json::json!({
        "promoted": false, "service": 0.0, "attempt": 0, "virtual_cluster": null, "work": 0.0,
        "rate": 0.0, "gpu_service": 0.0, "blockers": 0, "preemptions": 0, "crashes": 0,
        "pending": false, "held_by_user": false, "bound": "nothing", "allocated": null,
        "before": { "attempt": 0, "width": 0, "service": 0.0, "work": 0.0 },
        "last_start": null, "first_start": null, "class": "guaranteed", "user": null,
        "deadline": null, "accepted_at": null, "config": null, "failed_launches": 0,
        "metrics": null,
    });
    let mut old = new.clone();
    let record = old["records"][0].as_object_mut().unwrap();
    for (field, value) in usual.as_object().unwrap() {
        assert!(!record.contains_key(field), "{field}");
        record.insert(field.clone(), value.clone());
    }
    let read: State = serde_json::from_value(old).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), new);
}
