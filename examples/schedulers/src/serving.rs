use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::{Consolidated, Resizing};
use blox::policies::scheduling::Serving;
use blox::schedulers::parameters::*;

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
/// services lack GPUs, the last submitted ones first. See
/// [`Serving`](blox::policies::scheduling::Serving) for the component.
///
/// **Jobs** with a `need` are services. Services with parts of GPUs lie on the same GPUs.
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

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let notice = Seconds::new(at_least(p, NOTICE.name, 0.0)?);
    let composition = Composition::new("serving")
        .scheduling(Serving::new(notice))
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
