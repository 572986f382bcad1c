//! An execution model: each other job on a node takes a tenth of a job's speed.
//!
//! `cargo run --release --example execution_model`

use blox::prelude::*;

/// Slows a job by a tenth for each other job that runs on its nodes.
struct Neighbours;

impl Stateless for Neighbours {}

impl ExecutionModel for Neighbours {
    fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, on: &Assignment) -> f64 {
        let runs = |id: &JobId| view.job(*id).is_some_and(|j| j.phase() == Phase::Running);
        let near = on_nodes_of(view, &on.gpus);
        let others = near.iter().filter(|id| **id != job.id() && runs(id));
        job.own_rate() * (1.0 - 0.1 * others.count() as f64).max(0.1)
    }

    fn reach(&self) -> Reach {
        Reach::Nodes
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(900.0));
    let report = Simulation::new(ClusterSpec::uniform(1, 2))
        .execution(Neighbours)
        .run(schedulers::fifo(), &mut Jobs::new(vec![job; 2]))?;
    let ends = report.jobs.iter().filter_map(|job| job.finish);
    let ends: Vec<f64> = ends.map(|at| at.secs()).collect();
    println!("ends: {ends:?}");
    // Beside the other, each job takes 1,000 s instead of 900; its end is seen in the next round.
    assert_eq!(ends, [1200.0, 1200.0]);
    Ok(())
}
