//! A placement rule: each job gets the single node with the most free GPUs.
//!
//! `cargo run --release --example placement`

use blox::prelude::*;

/// Places each job on the node with the most free GPUs, if they suffice.
struct EmptiestNode;

impl NodeSelector for EmptiestNode {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        draft.emptiest_nodes().find_map(|node| {
            let gpus = draft.take_from(node.id(), shape.gpus.get())?;
            Some(shape.on(gpus)).filter(|found| draft.fits(job, found))
        })
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        room.on_one_node(job, shape)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spread = Composition::new("emptiest-node")
        .scheduling(Fifo::default())
        .placement(InOrder::new(EmptiestNode))
        .build()?;
    let job = |gpus| JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(600.0));
    let report = Simulation::new(ClusterSpec::uniform(2, 4))
        .run(spread, &mut Jobs::new(vec![job(1), job(1), job(4)]))?;
    // The second job gets the second node, so the gang of four waits.
    let starts = report.jobs.iter().filter_map(|job| job.first_start);
    let starts: Vec<f64> = starts.map(|at| at.secs()).collect();
    println!("first starts: {starts:?}");
    assert_eq!(starts, [0.0, 0.0, 600.0]);
    Ok(())
}
