//! A cluster manager: keeps the last node free until the queue is long.
//!
//! `cargo run --release --example cluster_manager`

use blox::prelude::*;

/// Uses the last node only while at least `queue` jobs wait.
struct Reserve {
    queue: u32,
}

impl Stateless for Reserve {}

impl ClusterManager for Reserve {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        let Some(last) = view.nodes().last() else {
            return Validity::UntilEvent;
        };
        let (node, needed) = (last.id(), view.waiting_count() >= self.queue);
        match last.cordoned() {
            None if !needed => out.push(NodeAction::Cordon {
                node,
                why: Name::from("reserve"),
            }),
            Some(_) if needed => out.push(NodeAction::Uncordon { node }),
            _ => {}
        }
        Validity::NextRound
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scheduler = Composition::new("reserve")
        .cluster(Reserve { queue: 2 })
        .scheduling(Fifo::default())
        .placement(InOrder::new(Consolidated::default()))
        .build()?;
    let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(900.0));
    let report =
        Simulation::new(ClusterSpec::uniform(2, 1)).run(scheduler, &mut Jobs::new(vec![job; 3]))?;
    // In the second round two jobs wait, and the second node opens.
    let starts = report.jobs.iter().filter_map(|job| job.first_start);
    let starts: Vec<f64> = starts.map(|at| at.secs()).collect();
    println!("first starts: {starts:?}");
    assert_eq!(starts, [0.0, 300.0, 900.0]);
    Ok(())
}
