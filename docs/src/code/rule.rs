use blox::prelude::*;

/// Runs the jobs with the least attained service first.
struct LeastService;

impl Stateless for LeastService {}

impl SchedulingPolicy for LeastService {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|job| job.attained_time());
        jobs.iter().for_each(|job| out.push(Request::gang(job)));
        out.allow_preemption();
        Ok(Validity::NextRound)
    }
}

pub fn scheduler() -> Composition {
    Composition::new("least-service")
        .scheduling(LeastService)
        .placement(InOrder::new(Consolidated::default()))
}
