//! A metric collector: the longest queue that a decision found.
//!
//! `cargo run --release --example collector`

use blox::prelude::*;

/// The longest queue so far.
#[derive(Clone, Default)]
struct LongestQueue(u32);

impl MetricCollector for LongestQueue {
    fn on_decision(&mut self, view: View<'_>, _: &Plan) {
        self.0 = self.0.max(view.waiting_count());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0));
    let report = Simulation::new(ClusterSpec::uniform(1, 1))
        .collector(LongestQueue::default())
        .run(schedulers::fifo(), &mut Jobs::new(vec![job; 3]))?;
    let longest = report.collected.get::<LongestQueue>().map_or(0, |c| c.0);
    println!("longest queue: {longest} jobs");
    assert_eq!(longest, 3);
    Ok(())
}
