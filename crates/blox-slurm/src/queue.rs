//! An imported queue as the state of a scheduler.

use crate::import::Imported;
use blox_core::runtime::Runtime;
use blox_core::trigger::DecisionTrigger;
use blox_core::{
    Action, AdmissionDecision, Assignment, ClusterSpecError, Decision, Event, GpuCount, GpuId,
    Input, Instant, JobId, JobSpec, Plan, Scheduler, State, Time, View,
};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Imported {
    /// Returns the state of the queue at `at`. Running jobs have GPUs of their nodes; the scheduler is
    /// notified of all jobs. Import with [`Selection::whole`](crate::Selection::whole).
    ///
    /// Returns sentences about running jobs that are left out because a node has no room, and about
    /// jobs that begin later.
    ///
    /// # Errors
    /// The nodes are not valid.
    ///
    /// ```
    /// use blox_core::{Composition, Phase, Rounds, Time, order::SortKey, policy::by_key};
    /// use blox_slurm::{Imported, Selection};
    /// # use blox_testing::FirstFit;
    ///
    /// let squeue = br#"{"jobs": [{"job_id": 7, "job_state": "RUNNING", "submit_time": 1000,
    ///     "start_time": 1000, "time_limit": 60, "tres_per_node": "gres:gpu:2", "node_count": 1,
    ///     "user_name": "ada", "partition": "main", "priority": 5, "nodes": "a",
    ///     "gres_detail": ["gpu:2(IDX:0-1)"]}]}"#;
    /// let sinfo = br#"{"nodes": [{"name": "a", "state": "mixed", "gres": "gpu:4"}]}"#;
    /// let whole = Selection { whole: true, ..Selection::default() };
    /// let imported = Imported::read(squeue, sinfo, Some(1600.0), &whole)?;
    /// # let mut fifo = Composition::new("fifo").scheduling(by_key(|_| SortKey::by(0.0)))
    /// #     .placement(FirstFit).build()?;
    /// let (state, left_out) = imported.begin(Time::ZERO, Box::new(Rounds::default()), &mut fifo)?;
    /// let job = state.job(blox_core::JobId(0)).ok_or("it runs")?;
    /// assert_eq!((job.phase(), job.work_done()), (Phase::Running, 600.0));
    /// assert!(left_out.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin(
        &self,
        at: Time,
        trigger: Box<dyn DecisionTrigger>,
        scheduler: &mut dyn Scheduler,
    ) -> Result<(State, Vec<String>), ClusterSpecError> {
        let mut state = State::new(&self.cluster)?;
        state.advance(at);
        let mut free = free_gpus(&state);
        let mut runtime = Runtime::new(state, trigger);
        let mut actions = Vec::new();
        let (mut no_room, mut later) = (0, 0);
        for (i, spec) in self.jobs.iter().enumerate() {
            let place = self.places.get(i);
            let gpus = place.map(|place| taken(&mut free, &place.on));
            if gpus == Some(None) {
                no_room += 1;
                continue;
            }
            if spec.submit > Time::ZERO {
                later += 1;
                continue;
            }
            let (job, spec) = (runtime.state().next_job_id(), submitted(spec, at, &gpus));
            let submitted = Event::Submitted { job, spec };
            // The next number is free, and time stands still.
            let _ = runtime.event(at, &submitted, scheduler);
            if let Some(gpus) = gpus.flatten() {
                let admission = AdmissionDecision::Accept {
                    class: None,
                    deadline: None,
                };
                let accepted = Event::AdmissionDecided { job, admission };
                let _ = runtime.event(at, &accepted, scheduler);
                let assignment = Assignment::of(gpus);
                actions.push((Action::Place { job, assignment }, i));
            }
        }
        let ran: Vec<(JobId, usize)> = actions.iter().map(|(a, i)| (a.job(), *i)).collect();
        let actions = actions.into_iter().map(|(action, _)| action).collect();
        place(&mut runtime, at, actions, scheduler);
        let mut state = runtime.into_state();
        for (job, i) in ran {
            let started = state.job(job).map(|job| (job.attempt(), job.own_rate()));
            let Some((attempt, rate)) = started else {
                continue;
            };
            let started = Event::Started { job, attempt, rate };
            // The plan has just launched it.
            let _ = state.apply(at, &started);
            state.assume(job, self.places[i].ran.secs() * rate, rate);
        }
        state.take_commands(&mut Vec::new());
        let mut left_out = Vec::new();
        for (number, why) in [
            (
                no_room,
                "they run on GPUs that the imported nodes do not have",
            ),
            (later, "they begin later"),
        ] {
            if number > 0 {
                let plural = if number == 1 { "" } else { "s" };
                left_out.push(format!("left out {number} job{plural}: {why}"));
            }
        }
        Ok((state, left_out))
    }
}

/// Returns a job as it was submitted. A running job has the GPUs that Slurm gave it.
fn submitted(spec: &JobSpec, at: Time, gpus: &Option<Option<Vec<GpuId>>>) -> Arc<JobSpec> {
    let mut spec = spec.clone();
    spec.submission.submit = at;
    if let Some(Some(gpus)) = gpus {
        spec.submission.gpus = GpuCount(gpus.len() as u32);
    }
    if let Some(extras) = &mut spec.submission.extras {
        for deadline in &mut extras.deadlines {
            deadline.at = at + deadline.at.since(Time::ZERO);
        }
    }
    spec.into()
}

/// Returns the free GPUs of each node by its name.
fn free_gpus(state: &State) -> BTreeMap<String, Vec<GpuId>> {
    let nodes = View::of(state).nodes();
    let free = nodes.map(|node| {
        let name = node.spec().name.as_ref().map(ToString::to_string);
        let mut gpus: Vec<GpuId> = node.gpus().collect();
        gpus.reverse();
        (name.unwrap_or_default(), gpus)
    });
    free.collect()
}

/// Takes GPUs of nodes, or none if one has too few.
fn taken(
    free: &mut BTreeMap<String, Vec<GpuId>>,
    on: &[(blox_core::Name, u32)],
) -> Option<Vec<GpuId>> {
    let enough = |(node, gpus): &(blox_core::Name, u32)| {
        (free.get(node.as_str())).is_some_and(|free| free.len() >= *gpus as usize)
    };
    if on.is_empty() || !on.iter().all(enough) {
        return None;
    }
    let mut all = Vec::new();
    for (node, gpus) in on {
        let free = free.get_mut(node.as_str())?;
        all.extend(free.drain(free.len() - *gpus as usize..).rev());
    }
    (!all.is_empty()).then_some(all)
}

/// Applies placements as a decision.
fn place(runtime: &mut Runtime, at: Time, actions: Vec<Action>, scheduler: &mut dyn Scheduler) {
    if actions.is_empty() {
        return;
    }
    let _ = runtime.take(&Input::Due { at }, scheduler);
    let Some(question) = runtime.core().open().map(|open| open.number) else {
        return;
    };
    let version = runtime.state().version();
    let plan = Plan {
        version,
        actions,
        ..Plan::default()
    };
    let decision = Decision {
        version,
        plan,
        ..Decision::default()
    };
    let decided = Input::Decided {
        at,
        question,
        decision: Box::new(decision),
        instant: Instant::Nothing,
    };
    // The GPUs are free, and the jobs wait.
    let _ = runtime.take(&decided, scheduler);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::Place;
    use blox_core::order::SortKey;
    use blox_core::policy::by_key;
    use blox_core::{ClusterSpec, Composition, NodeSpec, Phase, Rounds, Seconds};
    use blox_testing::FirstFit;

    fn node(name: &str) -> NodeSpec {
        NodeSpec {
            name: Some(name.into()),
            ..NodeSpec::with_gpus(4)
        }
    }

    #[test]
    fn running_jobs_have_gpus_of_their_nodes() {
        let job = |gpus, secs| JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(secs));
        let place = |ran, on: &[(&str, u32)]| Place {
            ran: Seconds::new(ran),
            on: on
                .iter()
                .map(|(node, gpus)| ((*node).into(), *gpus))
                .collect(),
        };
        let queue = Imported {
            jobs: vec![
                job(4, 1000.0),
                job(2, 500.0),
                // On a node that is drained, and so is not imported.
                job(4, 500.0),
                job(8, 700.0),
                JobSpec {
                    submission: blox_core::Submission::new(Time::new(60.0), GpuCount(1)),
                    work: job(1, 10.0).work,
                },
            ],
            running: 3,
            places: vec![
                place(400.0, &[("a", 1), ("b", 3)]),
                place(600.0, &[("a", 2)]),
                place(0.0, &[("c", 4)]),
            ],
            cluster: ClusterSpec {
                nodes: vec![node("a"), node("b")],
                ..ClusterSpec::default()
            },
            ..Imported::default()
        };
        let mut fifo = Composition::new("fifo")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
            .placement(FirstFit)
            .build()
            .unwrap();
        let at = Time::new(90_000.0);
        let trigger = Box::new(Rounds::default());
        let (state, left_out) = queue.begin(at, trigger, &mut fifo).unwrap();
        assert_eq!(state.now(), at);
        let jobs: Vec<_> = (0..3).filter_map(|id| state.job(JobId(id))).collect();
        let phases: Vec<Phase> = jobs.iter().map(|job| job.phase()).collect();
        assert_eq!(phases, [Phase::Running, Phase::Running, Phase::Submitted]);
        let gpus = |i: usize| jobs[i].bound().map_or(&[][..], |bound| &bound.gpus);
        assert_eq!(gpus(0), [GpuId(0), GpuId(4), GpuId(5), GpuId(6)]);
        assert_eq!(gpus(1), [GpuId(1), GpuId(2)]);
        assert_eq!(jobs[0].truth().remaining().secs(), 600.0);
        // Longer than its limit.
        assert_eq!(jobs[1].truth().remaining().secs(), 0.0);
        assert_eq!(left_out.len(), 2, "{left_out:?}");
    }
}
