//! Memories of execution models. The simulator owns them and starts each run with a new one. Each
//! event reaches the model, also through the models and boxes around it.

use crate::fifo_at_events;
use blox_core::{Assignment, ClusterSpec, Event, GpuCount, JobRef, JobSpec};
use blox_core::{Memory, Policy, Seconds, Time, View};
use blox_sim::execution::{AnyExecution, Contention, ExecutionModel, Shared};
use blox_sim::{Simulation, workload::Jobs};

/// Divides the rate of each new job by the number of ended jobs plus one.
struct Worn;

impl Policy for Worn {
    type Memory = u32;

    fn initial(&self, seed: u64) -> u32 {
        seed as u32
    }

    fn on_event(&self, ends: &mut u32, view: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            assert!(view.active().all(|other| other.id() != *job));
            *ends += 1;
        }
    }
}

impl ExecutionModel for Worn {
    fn rate(&self, ends: &mut u32, _: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
        job.own_rate() / f64::from(*ends + 1)
    }
}

/// Returns the ends of three jobs of 100 s that run one after the other.
fn ends(simulation: &Simulation) -> Vec<f64> {
    let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(100.0));
    let report = simulation
        .run(fifo_at_events(), &mut Jobs::new(vec![job; 3]))
        .unwrap();
    let ends = report.jobs.iter().filter_map(|j| j.finish);
    ends.map(|t| t.secs()).collect()
}

fn on(model: impl ExecutionModel) -> Simulation {
    Simulation::new(ClusterSpec::uniform(1, 1)).execution(model)
}

#[test]
fn model_receives_events_through_every_wrapper() {
    let expected = [100.0, 300.0, 600.0];
    assert_eq!(ends(&on(Worn)), expected);
    assert_eq!(
        ends(&on(Shared::over(Contention::over(Worn, 0.5)))),
        expected
    );
    let boxed: Box<dyn AnyExecution> = Box::new(Worn);
    assert_eq!(ends(&on(Shared::over(boxed))), expected);
}

#[test]
fn a_second_run_starts_with_a_new_memory() {
    let simulation = on(Worn);
    assert_eq!(ends(&simulation), ends(&simulation));
    assert_eq!(ends(&simulation.seed(1)), [200.0, 500.0, 900.0]);
}

#[test]
fn a_wrapped_memory_is_saved_and_restored() {
    let model = Shared::over(Contention::over(Worn, 0.5));
    let mut restored = model.initial(0);
    restored.restore(model.initial(3).save().unwrap()).unwrap();
    assert_eq!(restored, 3);
    assert!(restored.restore(serde_json::json!("x")).is_err());
}
