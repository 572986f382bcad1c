//! An admission policy: at most `limit` jobs in the system; the others wait for admission.
//!
//! `cargo run --release --example admission`

use blox::prelude::*;

/// Admits jobs while at most `limit` jobs are in the system.
struct AtMost {
    limit: usize,
}

impl Stateless for AtMost {}

impl AdmissionPolicy for AtMost {
    fn admit(
        &self,
        (): &mut (),
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let free = self.limit.saturating_sub(view.active().count());
        // Deferred jobs are older than new ones.
        let deferred = view.admissible().map(|job| job.id());
        let mut jobs = deferred.chain(asking.iter().copied());
        jobs.by_ref().take(free).for_each(|job| out.accept(job));
        jobs.for_each(|job| out.defer(job, Reason::other("too many jobs")));
        Validity::UntilEvent
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let one_at_a_time = Composition::new("one-at-a-time")
        .admission(AtMost { limit: 1 })
        .scheduling(Fifo::default())
        .placement(InOrder::new(Consolidated::default()))
        .build()?;
    let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0));
    let report = Simulation::new(ClusterSpec::uniform(1, 4))
        .run(one_at_a_time, &mut Jobs::new(vec![job; 3]))?;
    let starts = report.jobs.iter().filter_map(|job| job.first_start);
    let starts: Vec<f64> = starts.map(|at| at.secs()).collect();
    println!("first starts: {starts:?}");
    assert_eq!(starts, [0.0, 600.0, 1200.0]);
    Ok(())
}
