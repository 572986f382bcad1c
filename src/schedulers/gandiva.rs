use blox_core::{Composition, OnEvent, Pipeline, Rounds, Seconds};
use blox_policies::{
    placement::{Blocked, Consolidated, Walk},
    scheduling::TimeSlicing,
};

/// Time slicing (Gandiva, OSDI 2018, section 3.1).
///
/// **Rule.** While all jobs fit they run; when there are more, they take turns:
/// in every round the jobs that had the fewest turns run, as many as fit.
/// Placement is consolidated. Gandiva's packing of two jobs on a GPU, its migration
/// and its growing and shrinking of jobs are not modelled here.
///
/// **Parameters** (command line): `slice_s`, the length of a slice and of a round
/// (default 60).
///
/// **Verified.** ElasticFlow's released baseline, which keeps a set of nodes a
/// job size and moves nodes between them by demand, is
/// [`crate::compat::elasticflow::gandiva`]; it equals the original per job on all
/// golden runs.
pub fn gandiva() -> Pipeline {
    gandiva_with(Seconds::new(60.0))
}

/// [`gandiva`] with another slice, above 0.
pub fn gandiva_with(slice: Seconds) -> Pipeline {
    let base = Composition::new("gandiva");
    let base = match Rounds::every(slice) {
        Some(rounds) => base.cadence(rounds),
        None => base.cadence(OnEvent::default()),
    };
    base.scheduling(TimeSlicing::default())
        .placement(Walk::new(Consolidated::default()).when_blocked(Blocked::Skip))
        .build()
}
