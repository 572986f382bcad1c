use blox::policies::placement::Resizing;
use blox::prelude::*;

// ANCHOR: policy
/// Gives each job the largest of its levels within an equal share of the cluster.
struct EqualShare;

impl Stateless for EqualShare {}

impl SchedulingPolicy for EqualShare {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        let jobs = view.active().count().max(1) as u32;
        let share = view.usable_gpus().get() / jobs;
        for job in view.active() {
            let mut request = Request::gang(&job); // a rigid job keeps this shape
            let levels = &job.spec().extras().levels;
            if let Some(least) = levels.first() {
                let most = share.max(least.get());
                let fitting = levels.iter().filter(|level| level.get() <= most);
                // Shapes are tried in order, so the largest one comes first.
                request.shapes = fitting.rev().map(|level| Shape::gpus(*level)).collect();
            }
            out.push(request);
        }
        Ok(Validity::NextRound)
    }

    // A job larger than the cluster may run on its smallest level.
    fn could_request(&self, _: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        let least = job.spec().extras().levels.first();
        let shape = least.map_or_else(|| Shape::gang(job), |level| Shape::gpus(*level));
        Ok(Shapes::from_elem(shape, 1))
    }
}
// ANCHOR_END: policy

// ANCHOR: compose
pub fn scheduler() -> Composition {
    Composition::new("equal-share")
        .scheduling(EqualShare)
        .placement(Resizing::new(Consolidated::default()))
}
// ANCHOR_END: compose
