//! Plans whose stops and launches take no time: applies a plan and their reports in one pass.

use super::check::Trial;
use super::{Applied, State};
use crate::decision::{Action, Command, Plan};
use crate::ids::JobId;
use crate::input::Instant;
use crate::job::{Bound, Phase};
use crate::reason::Reason;

impl State {
    /// Applies a checked plan of promotions, plain stops and plain launches, and the reports of its
    /// stops as if they took no time. With [`Instant::Own`], jobs without extras on GPUs of their
    /// number run, too; commands launch the others.
    ///
    /// The result equals [`State::commit_steps`] followed by the reports: first each stop in the
    /// plan's order, then each launch. Stopped and launched jobs count as changed at the last report,
    /// because no decision sees the state in between.
    ///
    /// This function exists for speed: with [`State::commit_steps`] alone, a run of LAS at load 8
    /// takes 2.2 times the instructions. `at_once_is_as_step_by_step` compares the two.
    pub(super) fn commit_at_once(
        &mut self,
        plan: &Plan,
        trial: &mut Trial,
        instant: Instant,
    ) -> Applied {
        self.cluster.settle(&mut trial.passing);
        if !(trial.released.is_empty() && trial.placed.is_empty()) {
            self.count_busy_time();
        }
        let own = match instant {
            Instant::Own => trial.own,
            _ => 0,
        };
        let planned = self.version + 1;
        let (stops, placements) = (trial.released.len() as u32, trial.placed.len() as u32);
        let done = stops + own;
        // Each report counts as one event.
        self.version = planned + u64::from(done);
        self.let_leave(plan, planned, trial);
        self.let_run(plan, trial, own);
        Applied {
            stale: 0,
            stops,
            placements,
            done,
        }
    }

    /// Applies stops and promotions in the plan's order.
    fn let_leave(&mut self, plan: &Plan, planned: u64, trial: &Trial) {
        let (now, version) = (self.now, self.version);
        let mut promotions = trial.promoted.iter().peekable();
        let eligible = self.next_moment.max(now);
        let (mut left, mut waiting) = (0, 0);
        for stop in &trial.released {
            while let Some(earlier) = promotions.next_if(|p| p.step < stop.step) {
                self.promote(earlier.job, planned);
            }
            let rec = &mut self.records[stop.slot as usize];
            let Some(Action::Stop { why, .. }) = plan.actions.get(stop.step as usize) else {
                continue;
            };
            rec.settle(now);
            rec.reason = why.clone();
            rec.preemptions += 1;
            left += rec.allocated.as_ref().map_or(0, |a| a.gpus.len() as u32);
            rec.allocated = None;
            rec.on = None;
            rec.bound = Bound::Nothing;
            rec.touch(version, &mut self.touched);
            if trial.returns(stop.slot) {
                continue;
            }
            rec.eligible_since = eligible;
            rec.phase = Phase::Waiting;
            waiting += 1;
            self.placed.remove(rec.id);
            self.waiting.insert(rec.id);
        }
        promotions.for_each(|p| self.promote(p.job, planned));
        self.busy -= left;
        self.counts[Phase::Running as usize] -= waiting;
        self.counts[Phase::Waiting as usize] += waiting;
    }

    fn promote(&mut self, job: JobId, version: u64) {
        let Some(s) = self.slot(job) else { return };
        // A report of the job's own stop is later than the plan.
        let changed = self.records[s].changed.max(version);
        self.records[s].promoted = true;
        self.touch_slot(s);
        self.records[s].changed = changed;
    }

    /// Launches the placed jobs. `own` is the number of jobs that run at their own rates now, or 0.
    fn let_run(&mut self, plan: &Plan, trial: &Trial, own: u32) {
        let (now, version) = (self.now, self.version);
        let (mut taken, mut entered) = (0, 0);
        for launch in &trial.placed {
            let rec = &mut self.records[launch.slot as usize];
            let Some(assignment) = launch.assignment(plan) else {
                continue;
            };
            rec.since = now;
            rec.attempt += 1;
            if !assignment.config.is_none() {
                rec.config = assignment.config.clone();
            }
            // A job that returns keeps the reason of its stop.
            if launch.left && rec.phase == Phase::Waiting {
                rec.reason = Reason::WaitingForGpus;
            }
            assignment.clone_plain_into(&mut rec.allocated);
            self.cluster.pass_on(rec.id, &assignment.gpus, launch.on);
            rec.on = launch.on;
            rec.bound = Bound::AsAllocated;
            rec.touch(version, &mut self.touched);
            if rec.phase == Phase::Waiting {
                entered += 1;
                self.waiting.remove(rec.id);
                self.placed.insert(rec.id);
            }
            if own > 0 && launch.own {
                rec.phase = Phase::Running;
                rec.rate = rec.own_rate;
                rec.first_start.get_or_insert(now);
                rec.last_start = Some(now);
                rec.began();
                taken += assignment.gpus.len() as u32;
            } else {
                rec.phase = Phase::Starting;
                let (job, attempt) = (rec.id, rec.attempt);
                self.commands.push(Command::Start { job, attempt });
            }
        }
        let placed = trial.placed.len() as u32;
        self.busy += taken;
        self.counts[Phase::Waiting as usize] -= entered;
        self.counts[Phase::Starting as usize] += placed - own;
        // Jobs that return were counted as running.
        self.counts[Phase::Running as usize] += own;
        self.counts[Phase::Running as usize] -= placed - entered;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Random, check};
    use super::*;
    use crate::assignment::Assignment;
    use crate::cluster::spec::ClusterSpec;
    use crate::decision::AdmissionDecision;
    use crate::event::{Event, Outcome};
    use crate::ids::{GpuId, NodeId};
    use crate::job::spec::JobSpec;
    use crate::units::{GpuCount, Seconds, Time};
    use std::collections::VecDeque;
    use std::sync::Arc;

    /// Returns the rate of a job that starts: its own rate on the GPUs that it requested.
    fn rate(state: &State, job: JobId) -> f64 {
        let its = state.job(job).unwrap();
        match its.bound().unwrap().count() == its.gpus() {
            true => its.own_rate(),
            false => 1.0 + f64::from(job.0) / 8.0,
        }
    }

    /// Reports the results of all commands, like a simulator without overheads.
    fn report_all(state: &mut State) {
        let (mut reports, mut commands) = (VecDeque::new(), Vec::new());
        loop {
            state.take_commands(&mut commands);
            reports.extend(commands.drain(..).map(|command| match command {
                Command::Stop { job, attempt, .. } => Event::Stopped {
                    job,
                    attempt,
                    work: None,
                },
                Command::Start { job, attempt } | Command::Change { job, attempt, .. } => {
                    let rate = rate(state, job);
                    Event::Started { job, attempt, rate }
                }
                other => panic!("{other:?}"),
            }));
            let Some(report) = reports.pop_front() else {
                return;
            };
            state.apply(state.now(), &report).unwrap();
        }
    }

    fn jobs(state: &State, phase: Phase) -> Vec<JobId> {
        let all = (0..state.next_job_id().0).map(JobId);
        all.filter(|j| state.job(*j).is_some_and(|j| j.phase() == phase))
            .collect()
    }

    /// Creates a random plan of stops, launches and promotions. Some steps are invalid.
    fn plan(state: &State, random: &mut Random) -> Plan {
        let mut free: Vec<GpuId> = state
            .cluster
            .nodes()
            .iter()
            .filter(|n| n.is_usable())
            .flat_map(|n| n.gpus())
            .filter(|g| state.cluster.allocated_to(*g).next().is_none())
            .collect();
        let mut actions = Vec::new();
        let mut places = jobs(state, Phase::Waiting);
        for job in jobs(state, Phase::Running) {
            if random.chance(40) {
                if random.chance(20) {
                    places.insert(random.below(places.len() + 1), job);
                }
                let why = Reason::PreemptedFor(JobId(random.below(9) as u32));
                actions.push(Action::Stop { job, why });
                free.extend(&state.record(job).unwrap().allocated.as_ref().unwrap().gpus);
            }
        }
        for job in places {
            let count = 1 + random.below(3);
            if free.len() < count || random.chance(20) {
                continue;
            }
            let mut gpus = Vec::new();
            for _ in 0..count {
                gpus.push(free.swap_remove(random.below(free.len())));
            }
            if random.chance(3) {
                gpus[0] = GpuId(random.below(13) as u32);
            }
            let mut assignment = Assignment::of(gpus);
            if random.chance(3) {
                assignment.cpus = 0.5;
            }
            if random.chance(10) {
                assignment.config = crate::Config::of([("tp", job.0.into())]);
            }
            actions.push(Action::Place { job, assignment });
        }
        for job in 0..state.next_job_id().0 + 1 {
            if random.chance(2) && (random.chance(3) || state.job(JobId(job)).is_some()) {
                let at = random.below(actions.len() + 1);
                actions.insert(at, Action::Promote { job: JobId(job) });
            }
        }
        if random.chance(4)
            && let Some(again) = actions.first().cloned()
        {
            actions.push(again);
        }
        Plan {
            version: state.version,
            actions,
            ..Plan::default()
        }
    }

    fn text(state: &State) -> String {
        serde_json::to_string(state).unwrap()
    }

    #[test]
    fn at_once_is_as_step_by_step() {
        let (mut at_once, mut mixed, mut step_by_step, mut refused) = (0, 0, 0, 0);
        for seed in 1..=200u64 {
            let mut random = Random(seed * 0x9e37_79b9);
            let mut cluster = ClusterSpec::uniform(3, 4);
            cluster.nodes.iter_mut().for_each(|n| n.cpus = 8.0);
            let mut state = State::new(&cluster).unwrap();
            for round in 0..30 {
                let at = Time::new(f64::from(round) * 7.3);
                for _ in 0..random.below(3) {
                    let spec = JobSpec::new(at, GpuCount(1), Seconds::new(50.0));
                    let job = state.next_job_id();
                    let spec = Arc::new(spec);
                    state.apply(at, &Event::Submitted { job, spec }).unwrap();
                    let admission = AdmissionDecision::Accept {
                        class: None,
                        deadline: None,
                    };
                    state
                        .apply(at, &Event::AdmissionDecided { job, admission })
                        .unwrap();
                }
                for job in jobs(&state, Phase::Running) {
                    if random.chance(5) {
                        let outcome = Outcome::Completed;
                        state.apply(at, &Event::Ended { job, outcome }).unwrap();
                        state.retire(job);
                    }
                }
                if random.chance(10) {
                    let node = NodeId(random.below(3) as u32);
                    let broken = GpuId(random.below(12) as u32);
                    let event = match random.below(3) {
                        0 => Event::NodeLost { node },
                        1 => Event::NodeReturned { node },
                        _ => Event::GpuFailed { gpu: broken },
                    };
                    // A node that is up cannot return.
                    let _ = state.apply(at, &event);
                }
                state.close_decision(state.version, true);
                let plan = plan(&state, &mut random);
                let mut long = state.clone();
                let instant = match random.chance(3) {
                    true => Instant::Stops,
                    false => Instant::Own,
                };
                let done = state.commit(&plan, plan.version, instant);
                let finished = done.as_ref().map_or(0, |applied| applied.done);
                mixed += u32::from(finished > 0 && state.has_commands());
                report_all(&mut state);
                let expected = long.commit(&plan, plan.version, Instant::Nothing);
                report_all(&mut long);
                let expected = expected.map(|applied| Applied {
                    done: finished,
                    ..applied
                });
                assert_eq!(done, expected);
                assert_eq!(state.touched, long.touched);
                // It is irrelevant at which report between two decisions a job changed.
                for state in [&mut state, &mut long] {
                    let (planned, last) = (plan.version + 1, state.version);
                    let late = state.records.iter_mut().filter(|r| r.changed > planned);
                    late.for_each(|r| r.changed = last);
                }
                // The order in which nodes were touched is irrelevant, too.
                state.close_decision(state.version, true);
                long.close_decision(long.version, true);
                let same = text(&state) == text(&long);
                assert!(same, "seed {seed}, round {round}: {state:?}\n{long:?}");
                check(&state);
                let some = done.is_ok_and(|a| a.stops + a.placements > 0);
                at_once += u32::from(finished > 0);
                step_by_step += u32::from(finished == 0 && some);
                refused += u32::from(finished == 0 && !some);
            }
        }
        assert!(
            at_once > 1000 && mixed > 500 && step_by_step > 50 && refused > 150,
            "{at_once} {mixed} {step_by_step} {refused}"
        );
    }
}
