use blox::prelude::*;

/// Runs the jobs with the least attained service first, and preempts others for them.
pub fn scheduler() -> Composition {
    let least_service = by_key(|job| SortKey::by(job.attained_time().secs())).preemptive();
    Composition::new("least-service")
        .scheduling(least_service)
        .placement(InOrder::new(Consolidated::default()))
}
