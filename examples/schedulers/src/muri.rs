use blox::core::{Composition, Pipeline};
use blox::policies::placement::{Consolidated, Leases};
use blox::policies::scheduling::Muri;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 3] = [
    param("round_s", "360", "seconds of a round"),
    param(
        "attained",
        "false",
        "order by attained instead of remaining GPU time (Muri-L)",
    ),
    param("jobs_per_gpu", "4", "most jobs on a GPU, 1 to 4"),
];

/// Groups of jobs that use storage, CPUs, GPUs and network in turn (Muri, SIGCOMM 2022).
///
/// **Rule.** Each round, the jobs with the least remaining GPU time are candidates, as many as can
/// share the GPUs. If they do not fit, jobs with equal numbers of GPUs form groups. Matchings of
/// greatest interleaving efficiency choose the groups, first pairs and then pairs of pairs. Jobs
/// keep their GPUs while their group stays the same. Groups have at most four jobs.
///
/// **Inputs.** The attribute `stages` of a job lists the seconds that an iteration takes on
/// storage, CPUs, GPUs and network. In a simulation, jobs with this list alternate: all jobs of a
/// group do one iteration in the same time. Jobs without it share a GPU only if their
/// `gpu_utilisation` permits.
///
/// **Parameters** (command line): `round_s`; `attained` orders jobs by attained GPU time, for
/// unknown durations (Muri-L); `jobs_per_gpu` limits groups.
///
/// **Verified.** Tests; figures beside the paper. By tests of the matching and of the groups. On
/// the eight traces of the artifact, the average JCT of Muri-S is 18 % below to 8 % above the
/// published one (see the page on fidelity). Groups have no slowdown beyond their longest stages.
/// The jobs of the built-in workload have no stages, so they form no groups and run by least
/// remaining GPU time.
///
/// **Claims.** All 8 claims of the paper hold here: `blox policies muri`.
pub fn muri() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let round = p.seconds("round_s")?;
    let most = p.whole("jobs_per_gpu", 1..=4)? as usize;
    let groups = Muri::default().in_groups_of(most);
    let policy = match p.bool("attained")? {
        true => groups.by_attained_service(),
        false => groups,
    };
    let composition = Composition::new("muri")
        .in_rounds(round)
        .scheduling(policy)
        .placement(Leases::new(Consolidated::default()));
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "muri",
            "groups of jobs that use different resources in turn",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(STAGES);
}
