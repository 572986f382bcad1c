use blox::core::{
    Assignment, Composition, GpuCount, JobQueue, JobRef, Phase, Pipeline, Request,
    SchedulingPolicy, Seconds, Shape, Stateless, Validity, View,
};
use blox::policies::placement::{Consolidated, Resizing};
use blox::schedulers::parameters::*;
use std::cmp::Reverse;

const NOTICE: ParamDoc = param(
    "notice_s",
    "600",
    "seconds from the notice to a training job until its stop",
);
const PARAMETERS: [ParamDoc; 1] = [NOTICE];

/// Services scaled by their need, beside training jobs that leave after a notice.
///
/// **Rule.** Services have as many copies as they need now. Training jobs fill the other GPUs in
/// order of submission; a job that does not fit is passed. If services need more GPUs than are left,
/// training jobs get a notice: spot jobs first, then the jobs submitted last. A job leaves
/// `notice_s` later, and a spot job not before the end of its guaranteed time. Until then the
/// services lack GPUs, the last submitted ones first.
///
/// **Jobs** with a `need` are services. A service that changes its number of copies restarts all of
/// them, where changes take time.
///
/// **Parameters** (command line): `notice_s`.
///
/// **Not here.** Nothing is reserved before a need rises, and no demand is predicted.
///
/// **Verified.** Only by its own tests: the rule is of no paper. It is the simplest that uses needs,
/// notices and guaranteed time.
pub fn serving() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

struct Serving {
    notice: Seconds,
}

impl Stateless for Serving {}

impl SchedulingPolicy for Serving {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Validity {
        let now = view.now();
        let held = |job: &JobRef<'_>| job.assignment().map_or(GpuCount::ZERO, Assignment::count);
        let (services, training): (Vec<_>, Vec<_>) =
            view.active().partition(|job| job.need().is_some());
        let (mut placed, waiting): (Vec<_>, Vec<_>) =
            training.into_iter().partition(JobRef::is_placed);
        // A job whose notice is over leaves its GPUs in this decision.
        let over: GpuCount = placed
            .extract_if(.., |job| job.leaves_at().is_some_and(|by| by <= now))
            .map(|job| held(&job))
            .sum();
        let mut pool = view.free_gpus() + over + services.iter().map(held).sum();
        let leaving = placed.iter().filter(|job| job.leaves_at().is_some());
        let need: GpuCount = services.iter().filter_map(JobRef::need).sum();
        let mut lack = need - pool - leaving.map(held).sum();
        // Spot jobs leave first, then the jobs submitted last.
        placed.sort_by_key(|job| (!job.class().is_spot(), Reverse(job.id())));
        let (mut stay, mut validity) = (Vec::new(), Validity::UntilEvent);
        for job in &placed {
            let mut stays = true;
            if lack > GpuCount::ZERO && job.leaves_at().is_none() {
                if job.phase() == Phase::Running {
                    let protected = job.protected_until().unwrap_or(now);
                    let by = protected.max(now + self.notice);
                    out.notify(job.id(), by);
                    lack -= held(job);
                    stays = by > now;
                } else {
                    // The guaranteed time begins with the start.
                    validity = Validity::NextRound;
                }
            }
            match stays {
                true => stay.push(Request::gang(job)),
                false => pool += held(job),
            }
        }
        for job in &services {
            let copies = job.need().unwrap_or_default().min(pool).get() / job.gpus().get();
            let gpus = GpuCount(copies * job.gpus().get());
            if copies > 0 {
                pool -= gpus;
                out.push(Request::with_shape(job.id(), Shape::sized(job, gpus)));
            }
        }
        stay.into_iter().for_each(|request| out.push(request));
        for job in waiting.iter().filter(|_| lack == GpuCount::ZERO) {
            if job.gpus() <= pool {
                pool -= job.gpus();
                out.push(Request::gang(job));
            }
        }
        out.stop_unlisted();
        validity
    }
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let notice = Seconds::new(at_least(p, NOTICE.name, 0.0)?);
    let composition = Composition::new("serving")
        .scheduling(Serving { notice })
        .placement(Resizing::new(Consolidated::default()));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "serving",
        "services scaled by their need, beside training jobs that leave after a notice",
        &PARAMETERS,
        |p, _| composed(p),
    );
}
