//! Plans that are carried out in no time: with what would be reported of them, in one pass.

use super::{Applied, State};
use crate::assignment::Assignment;
use crate::cluster::Owners;
use crate::decision::{Action, Plan};
use crate::drive::AtOnce;
use crate::ids::{GpuId, JobId};
use crate::job::{JobRef, Phase};
use crate::reason::Reason;
use crate::view::View;

/// The jobs of a plan that is carried out at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    /// Slots of the jobs that stop, in the plan's order.
    stops: Vec<u32>,
    launches: Vec<Launch>,
    /// By GPU: the number of the last time that it was left, counted over all plans
    /// and GPUs.
    left: Vec<u64>,
    /// The last such number, and the last one of the plans before this one.
    number: u64,
    before: u64,
}

#[derive(Clone, Copy, Debug)]
struct Launch {
    /// How many GPUs are left until it has all of its own; 0 if it waits for none.
    after: u32,
    /// It runs until then, and has to leave first.
    again: bool,
    /// Its step in the plan.
    step: u32,
    slot: u32,
}

// Marks of the jobs of a plan that is being tried.

/// It leaves its GPUs.
const LEAVES: u32 = u32::MAX;
/// It waited, and is launched.
const ENTERS: u32 = u32::MAX - 1;
/// It leaves its GPUs, and is launched again.
const RETURNS: u32 = u32::MAX - 2;

/// Neither CPUs nor memory nor another job are part of it.
fn is_plain(a: &Assignment) -> bool {
    a.partner.is_none() && a.cpus == 0.0 && a.memory_gib == 0.0
}

impl State {
    /// Applies a plan of promotions, plain stops and launches together with all that would be
    /// reported of it if neither took any time. The state is then the one to which
    /// [`State::apply_plan`] and these reports lead: first every stop in the plan's
    /// order, then every launch as soon as its GPUs are left.
    ///
    /// `None`, and nothing has changed, where the plan is wrong or does more than that.
    /// `backend` is told of each job that runs from now on, and says how fast.
    pub(crate) fn carry_out(&mut self, plan: &Plan, backend: &mut dyn AtOnce) -> Option<Applied> {
        if plan.version != self.version {
            return None;
        }
        let mut exchange = std::mem::take(&mut self.exchange);
        exchange.before = exchange.number;
        exchange.left.resize(self.cluster.gpu_numbers(), 0);
        exchange.stops.clear();
        exchange.launches.clear();
        let mut steps = plan.actions.iter().enumerate();
        let fits = steps.all(|(step, action)| match action {
            Action::Stop { job, .. } => {
                exchange.launches.is_empty() && self.vacate(*job, &mut exchange)
            }
            Action::Place { job, assignment } => self.occupy(*job, assignment, step, &mut exchange),
            Action::Promote { job } => self.record(*job).is_some_and(|r| r.phase != Phase::Ended),
            Action::Finish { .. } => false,
        });
        if fits {
            self.version += 1;
            self.let_leave(plan, &exchange);
            self.let_run(plan, &mut exchange, backend);
        } else {
            self.take_back(plan, &exchange);
        }
        let applied = Applied {
            stale: 0,
            stops: exchange.stops.len() as u32,
            placements: exchange.launches.len() as u32,
        };
        self.exchange = exchange;
        fits.then_some(applied)
    }

    /// Takes the GPUs of a job that runs on what it is promised, and alone.
    fn vacate(&mut self, job: JobId, exchange: &mut Exchange) -> bool {
        let Some(s) = self.slot(job) else {
            return false;
        };
        let rec = &mut self.records[s];
        let (Some(promised), Some(held)) = (&rec.promised, &rec.held) else {
            return false;
        };
        let fits = rec.phase == Phase::Running
            && rec.mark == 0
            && !rec.pending
            && rec.leaving.is_empty()
            && is_plain(promised)
            // Each of as many is among those that it holds: they are the same.
            && promised.gpus.len() == held.gpus.len()
            && self.cluster.vacate(job, &promised.gpus, |gpu| {
                exchange.number += 1;
                exchange.left[gpu.index()] = exchange.number;
            });
        if fits {
            rec.mark = LEAVES;
            exchange.stops.push(s as u32);
        }
        fits
    }

    /// Gives a job that waits, or that has just left its own, GPUs that nobody has.
    fn occupy(
        &mut self,
        job: JobId,
        assignment: &Assignment,
        step: usize,
        exchange: &mut Exchange,
    ) -> bool {
        let Some(s) = self.slot(job) else {
            return false;
        };
        let rec = &mut self.records[s];
        let waits = rec.phase == Phase::Waiting && rec.mark == 0 && rec.promised.is_none();
        let mut last = 0;
        let fits = (waits || rec.mark == LEAVES)
            && is_plain(assignment)
            && self.cluster.occupy(job, &assignment.gpus, |gpu| {
                last = exchange.left[gpu.index()].max(last);
            });
        if fits {
            rec.mark = if waits { ENTERS } else { RETURNS };
            // If it has left others just now, their number is the last.
            let number = |g: &GpuId| exchange.left[g.index()];
            let own = rec.promised.as_ref();
            let own = own.map(|a| a.gpus.iter().map(number).max().unwrap_or(0));
            last = last.max(own.unwrap_or(0));
            exchange.launches.push(Launch {
                after: last.saturating_sub(exchange.before) as u32,
                again: own == Some(last),
                step: step as u32,
                slot: s as u32,
            });
        }
        fits
    }

    fn take_back(&mut self, plan: &Plan, exchange: &Exchange) {
        for launch in exchange.launches.iter().rev() {
            self.records[launch.slot as usize].mark = 0;
            if let Some(Action::Place { assignment, .. }) = plan.actions.get(launch.step as usize) {
                self.cluster.give(&assignment.gpus, Owners::NONE);
            }
        }
        for &s in exchange.stops.iter().rev() {
            let rec = &mut self.records[s as usize];
            rec.mark = 0;
            if let Some(promised) = &rec.promised {
                self.cluster.give(&promised.gpus, Owners::only(rec.id));
            }
        }
    }

    fn let_leave(&mut self, plan: &Plan, exchange: &Exchange) {
        let now = self.now;
        let planned = self.version;
        let mut stops = exchange.stops.iter();
        for action in &plan.actions {
            let why = match action {
                Action::Stop { why, .. } => why,
                Action::Promote { job } => {
                    self.promote(*job, planned);
                    continue;
                }
                _ => continue,
            };
            let Some(&s) = stops.next() else { break };
            let s = s as usize;
            let rec = &mut self.records[s];
            rec.settle(now);
            rec.reason = why.clone();
            rec.preemptions += 1;
            let returns = rec.mark == RETURNS;
            rec.mark = 0;
            self.busy -= rec.promised.as_ref().map_or(0, |a| a.gpus.len() as u32);
            rec.promised = None;
            rec.held = None;
            // Each report is an event of its own.
            self.version += 1;
            if returns {
                self.touch_slot(s);
                continue;
            }
            rec.eligible_since = self.next_moment.max(now);
            self.move_on(s, Phase::Running, Phase::Waiting);
        }
    }

    fn promote(&mut self, job: JobId, version: u64) {
        let Some(s) = self.slot(job) else { return };
        // Reports of its own stop are later than the plan.
        let changed = self.records[s].changed.max(version);
        self.records[s].promoted = true;
        self.touch_slot(s);
        self.records[s].changed = changed;
    }

    fn let_run(&mut self, plan: &Plan, exchange: &mut Exchange, backend: &mut dyn AtOnce) {
        for launch in &exchange.launches {
            self.touch_slot(launch.slot as usize);
        }
        let launches = &mut exchange.launches;
        launches.sort_unstable_by_key(|l| (l.after, l.again, l.step));
        let now = self.now;
        for launch in launches.iter() {
            let Some(Action::Place { assignment, .. }) = plan.actions.get(launch.step as usize)
            else {
                continue;
            };
            let s = launch.slot as usize;
            let rec = &mut self.records[s];
            rec.mark = 0;
            rec.since = now;
            rec.rate = 0.0;
            rec.attempt += 1;
            if assignment.config.is_some() {
                rec.config = assignment.config;
            }
            let returns = rec.phase == Phase::Running;
            if launch.after > 0 && !returns {
                rec.reason = Reason::WaitingForGpus;
            }
            assignment.clone_into(&mut rec.promised);
            assignment.clone_into(&mut rec.held);
            self.busy += assignment.gpus.len() as u32;
            rec.first_start.get_or_insert(now);
            rec.last_start = Some(now);
            rec.began();
            self.version += 1;
            if returns {
                self.touch_slot(s);
            } else {
                self.move_on(s, Phase::Waiting, Phase::Running);
            }
        }
        for launch in &exchange.launches {
            let s = launch.slot as usize;
            let rec = &self.records[s];
            self.records[s].rate = backend.rate(View::of(self), &JobRef { rec, now });
            let rec = &self.records[s];
            backend.launched(View::of(self), &JobRef { rec, now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Random, check};
    use super::*;
    use crate::cluster::spec::ClusterSpec;
    use crate::decision::{Command, Verdict};
    use crate::event::{Event, Outcome};
    use crate::ids::{GpuId, NodeId};
    use crate::job::spec::JobSpec;
    use crate::units::{GpuCount, Seconds, Time};
    use std::collections::VecDeque;
    use std::sync::Arc;

    fn rate(job: JobId) -> f64 {
        1.0 + f64::from(job.0) / 8.0
    }

    struct Launches;

    impl AtOnce for Launches {
        fn rate(&mut self, view: View<'_>, job: &JobRef<'_>) -> f64 {
            assert_eq!(view.job(job.id()).unwrap().phase(), Phase::Running);
            rate(job.id())
        }

        fn launched(&mut self, _: View<'_>, job: &JobRef<'_>) {
            assert_eq!(job.rate(), rate(job.id()));
        }

        fn carried_out(&mut self, _: View<'_>) {}
    }

    /// Applies a plan, and reports what its commands lead to, as a simulator without overheads does.
    fn step_by_step(state: &mut State, plan: &Plan) -> Option<Applied> {
        let applied = state.apply_plan(plan).ok()?;
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
                    let rate = rate(job);
                    Event::Started { job, attempt, rate }
                }
                other => panic!("{other:?}"),
            }));
            let Some(report) = reports.pop_front() else {
                return Some(applied);
            };
            state.apply(state.now(), &report).unwrap();
        }
    }

    fn jobs(state: &State, phase: Phase) -> Vec<JobId> {
        let all = (0..state.next_job_id().0).map(JobId);
        all.filter(|j| state.job(*j).is_some_and(|j| j.phase() == phase))
            .collect()
    }

    /// Stops and launches, some of them impossible.
    fn plan(state: &State, random: &mut Random) -> Plan {
        let mut free: Vec<GpuId> = state
            .cluster
            .nodes()
            .iter()
            .filter(|n| n.is_usable())
            .flat_map(|n| n.gpus())
            .filter(|g| state.cluster.promised_to(*g).next().is_none())
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
                free.extend(&state.record(job).unwrap().promised.as_ref().unwrap().gpus);
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
                assignment.config = Some(crate::assignment::BatchConfig {
                    per_gpu: job.0,
                    accumulation: 1,
                });
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
        let (mut carried_out, mut left_alone) = (0, 0);
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
                    let verdict = Verdict::Accept {
                        class: None,
                        deadline: None,
                    };
                    state.apply(at, &Event::Judged { job, verdict }).unwrap();
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
                state.close_decision(state.version);
                let plan = plan(&state, &mut random);
                let mut long = state.clone();
                let done = state.carry_out(&plan, &mut Launches);
                let expected = match done {
                    Some(_) => step_by_step(&mut long, &plan),
                    None => None,
                };
                assert_eq!(done, expected);
                // Trying leaves nodes behind that are looked at again.
                state.close_decision(state.version);
                long.close_decision(long.version);
                let same = text(&state) == text(&long);
                assert!(same, "seed {seed}, round {round}: {state:?}\n{long:?}");
                check(&state);
                carried_out += u32::from(done.is_some_and(|a| a.stops + a.placements > 0));
                left_alone += u32::from(done.is_none());
                if done.is_none() {
                    step_by_step(&mut state, &plan);
                    state.close_decision(state.version);
                }
            }
        }
        assert!(
            carried_out > 1000 && left_alone > 200,
            "{carried_out} {left_alone}"
        );
    }
}
