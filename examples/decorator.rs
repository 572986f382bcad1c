//! A decorator: jobs of one user come first, under any scheduling policy.
//!
//! `cargo run --release --example decorator`

use blox::prelude::*;

/// Puts jobs of `user` before all others and leaves the rest to another policy.
struct UserFirst<P> {
    user: &'static str,
    inner: P,
}

// The memory and the hooks are those of the other policy.
forward_policy!(UserFirst<P: SchedulingPolicy>, inner);

impl<P: SchedulingPolicy> SchedulingPolicy for UserFirst<P> {
    fn schedule(&self, memory: &mut P::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let theirs = |job: &JobRef<'_>| job.spec().user.as_deref() == Some(self.user);
        for job in view.waiting().filter(theirs) {
            out.promote(job.id());
        }
        self.inner.schedule(memory, view, out)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        self.inner.could_request(view, job)
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.inner.keeps_nodes(nodes)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (user, inner) = ("ada", Fifo::default());
    let scheduler = Composition::new("ada-first")
        .scheduling(UserFirst { user, inner })
        .placement(InOrder::new(Consolidated::default()))
        .build()?;
    let job = |user| JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0)).owned_by(user);
    let report = Simulation::new(ClusterSpec::uniform(1, 1))
        .run(scheduler, &mut Jobs::new(vec![job("bob"), job("ada")]))?;
    let starts = report.jobs.iter().filter_map(|job| job.first_start);
    let starts: Vec<f64> = starts.map(|at| at.secs()).collect();
    println!("first starts: {starts:?}");
    assert_eq!(starts, [600.0, 0.0]);
    Ok(())
}
