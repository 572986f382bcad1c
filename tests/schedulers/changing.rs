//! One scheduler takes over the cluster of another.

use crate::cases::{job, scheduler};
use blox::core::core::Core;
use blox::core::forecast::{Forecaster, Horizon};
use blox::core::{
    ClusterSpec, Event, JobId, JobRef, JobSpec, MetricCollector, Pipeline, Scheduler, State, Time,
    View,
};
use blox::sim::Simulation;
use blox::sim::forecast::LookAhead;
use blox::sim::workload::Jobs;
use std::collections::BTreeMap;

/// Keeps the state at the first event from a time on.
#[derive(Clone)]
struct Snapshot(Time, Option<State>);

impl MetricCollector for Snapshot {
    fn on_event(&mut self, view: View<'_>, _: &Event) {
        if self.1.is_none() && view.now() >= self.0 {
            self.1 = Some(view.to_state());
        }
    }
}

fn jobs() -> Vec<JobSpec> {
    let sizes = [1, 2, 4, 1, 8, 2, 1, 4, 2, 1, 1, 2];
    let times = sizes.iter().enumerate();
    let users = ["a", "b", "c"];
    times
        .map(|(i, gpus)| {
            let lasts = 900.0 + 700.0 * ((i * 5) % 7) as f64;
            job(150.0 * i as f64, *gpus, lasts).owned_by(users[i % 3])
        })
        .collect()
}

/// Returns the state in the middle of a run, if all jobs complete in it.
fn in_the_middle(name: &str) -> Option<State> {
    let simulation = Simulation::new(ClusterSpec::uniform(2, 4));
    let simulation = simulation.collector(Snapshot(Time::new(1_900.0), None));
    let run = simulation.run(scheduler(name), &mut Jobs::new(jobs()));
    let report = run.ok()?;
    let all_end = report.jobs.iter().all(|j| j.finish.is_some());
    let seen = report.collected.get::<Snapshot>()?;
    seen.1.clone().filter(|_| all_end)
}

/// Returns the jobs that never end if a scheduler takes over a cluster. Jobs that it could never place
/// are left out.
fn left_over(state: &State, mut next: Pipeline) -> Vec<JobId> {
    let mut core = Core::new(state.clone(), next.trigger());
    core.change_scheduler();
    next.take_over(core.view(), None, &BTreeMap::new());
    let fits = |job: &JobRef<'_>| next.can_ever_place(core.view(), job).is_ok();
    let view = core.view();
    let all = view.submitted().chain(view.placed()).filter(fits);
    let mut left: Vec<JobId> = all.map(|job| job.id()).collect();
    let look_ahead = LookAhead::of(next.trigger());
    let forecast = look_ahead.forecast(core.state(), &next, Horizon::UntilDrained);
    left.retain(|job| forecast.ends.iter().all(|(ended, _)| ended != job));
    left
}

#[test]
fn any_scheduler_takes_over_from_any_other() {
    let registry = blox::registry();
    let names: Vec<String> = registry.schedulers.names().map(str::to_owned).collect();
    let states: Vec<(&String, State)> = names
        .iter()
        .filter_map(|name| Some((name, in_the_middle(name)?)))
        .collect();
    let mut left: Vec<String> = Vec::new();
    let (mut pairs, mut running) = (0, 0);
    for (before, state) in &states {
        running += View::of(state).placed_count();
        for (after, _) in &states {
            pairs += 1;
            let jobs = left_over(state, scheduler(after));
            if !jobs.is_empty() {
                left.push(format!("{after} after {before}: {jobs:?}"));
            }
        }
    }
    assert!(
        pairs > 600 && running > 100,
        "{pairs} pairs, {running} jobs"
    );
    assert_eq!(left, [""; 0], "of {pairs} pairs");
}
