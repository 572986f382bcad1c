//! Shorthands for small simulations.

use blox::core::input::Input;
use blox::core::journal::Journal;
use blox::core::{
    Action, Composition, Extras, GpuCount, GpuList, JobId, JobSpec, Pipeline, PlacementPolicy,
    SchedulingPolicy, Seconds, Time,
};
use blox::sim::results::AssignmentRow;
use blox::sim::workload::Jobs;
use blox::sim::{Report, Simulation};
use std::sync::{Arc, Mutex};

/// Returns a job of these GPUs that lasts some seconds.
pub fn job(at: f64, gpus: u32, seconds: f64) -> JobSpec {
    JobSpec::new(Time::new(at), GpuCount(gpus), Seconds::new(seconds))
}

/// Sets further fields of a job.
pub fn with(job: JobSpec, set: impl FnOnce(&mut Extras)) -> JobSpec {
    let mut extras = job.extras().clone();
    set(&mut extras);
    job.with_extras(extras)
}

/// Builds a registered scheduler, for instance `las{guard_h=2}`.
pub fn scheduler(name: &str) -> Pipeline {
    let named = name.parse().expect("a name");
    let built = blox::registry().schedulers.build(&named, 0);
    built.expect("a registered scheduler")
}

/// Composes a scheduler of an order and a placement.
pub fn composed(
    name: &str,
    scheduling: impl SchedulingPolicy,
    placement: impl PlacementPolicy,
) -> Pipeline {
    let composition = Composition::new(name).scheduling(scheduling);
    composition.placement(placement).build().unwrap()
}

/// Runs jobs to the end of the simulation.
pub fn run(simulation: &Simulation, scheduler: Pipeline, jobs: &[JobSpec]) -> Report {
    let run = simulation.run(scheduler, &mut Jobs::new(jobs.to_vec()));
    run.unwrap_or_else(|e| panic!("{e}"))
}

/// Runs jobs, and returns all assignments as well.
pub fn assigned(
    simulation: &Simulation,
    scheduler: Pipeline,
    jobs: &[JobSpec],
) -> (Report, Vec<AssignmentRow>) {
    let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
    let simulation = simulation.clone().assignments_to(Some(rows.clone()));
    let report = run(&simulation, scheduler, jobs);
    let rows = rows.lock().unwrap().clone();
    (report, rows)
}

/// A journal of all placements: the job and its GPUs in the order of the plan.
#[allow(dead_code, reason = "only tests of released programs use it")]
#[derive(Clone, Default)]
pub struct Placed(pub Arc<Mutex<Vec<(JobId, GpuList)>>>);

impl Journal for Placed {
    fn record(&mut self, input: &Input) {
        let Input::Decided { decision, .. } = input else {
            return;
        };
        for action in &decision.plan.actions {
            if let Action::Place { job, assignment } = action {
                let placed = (*job, assignment.gpus.clone());
                self.0.lock().unwrap().push(placed);
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the first start of each job in seconds.
pub fn starts(report: &Report) -> Vec<Option<f64>> {
    let jobs = report.jobs.iter();
    jobs.map(|j| j.first_start.map(|t| t.secs())).collect()
}

/// Returns the end of each job in seconds.
pub fn finishes(report: &Report) -> Vec<Option<f64>> {
    let jobs = report.jobs.iter();
    jobs.map(|j| j.finish.map(|t| t.secs())).collect()
}

/// Returns the ends of all jobs that ended, in seconds.
pub fn ends(report: &Report) -> Vec<f64> {
    finishes(report).into_iter().flatten().collect()
}
