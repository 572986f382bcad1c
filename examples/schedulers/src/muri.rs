use crate::registry::params::{flag, param, seconds};
use crate::{DEFAULTS, ONCE};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::{
    placement::{Consolidated, Leases},
    scheduling::Muri,
};

const ROUND: ParamDoc = param("round_s", "360", "seconds of a round");
const ATTAINED: ParamDoc = param(
    "attained",
    "false",
    "order by attained instead of remaining GPU time (Muri-L)",
);
const PARAMETERS: [ParamDoc; 2] = [ROUND, ATTAINED];

/// Groups of jobs that use storage, CPUs, GPUs and network in turn (Muri, SIGCOMM 2022).
///
/// **Rule.** Each round, the jobs with the least remaining GPU time are candidates, as many as can
/// share the GPUs. If they do not fit, jobs with equal numbers of GPUs form groups. Matchings of
/// greatest interleaving efficiency choose the groups, first pairs and then pairs of pairs. Jobs
/// keep their GPUs while their group stays the same. By default, groups have two jobs; groups of four
/// need a cluster such as `32x4x4`.
///
/// **Inputs.** The attribute `stages` of a job lists the seconds that an iteration takes on
/// storage, CPUs, GPUs and network. In a simulation, jobs with this list alternate: all jobs of a
/// group do one iteration in the same time. Jobs without it share a GPU only if their
/// `gpu_utilisation` permits.
///
/// **Parameters** (command line): `round_s`; `attained` orders jobs by attained GPU time, for
/// unknown durations (Muri-L).
///
/// **Verified.** By tests of the matching and of the groups. On the eight traces of the artifact, the
/// average JCT of Muri-S is 18 % below to 8 % above the published one (see the page on fidelity).
/// Groups have no slowdown beyond their longest stages. The jobs of the built-in
/// workload have no stages, so they form no groups and run by least remaining GPU time.
pub fn muri() -> Pipeline {
    muri_with(MuriParams::default())
}

/// Configuration of [`muri`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MuriParams {
    /// Length of a round, above 0.
    pub round: Seconds,
    /// True if jobs are ordered by attained instead of remaining GPU time.
    pub attained: bool,
}

impl Default for MuriParams {
    fn default() -> Self {
        read(&Params::of(&PARAMETERS)).expect(DEFAULTS)
    }
}

/// Returns [`muri`] with other parameters.
pub fn muri_with(params: MuriParams) -> Pipeline {
    let policy = Muri::default();
    Composition::new("muri")
        .in_rounds(params.round)
        .scheduling(match params.attained {
            true => policy.by_attained_service(),
            false => policy,
        })
        .placement(Leases::new(Consolidated::default()))
        .build()
        .expect(ONCE)
}

fn read(p: &Params) -> Result<MuriParams, RegistryError> {
    Ok(MuriParams {
        round: seconds(p, &ROUND)?,
        attained: flag(p, &ATTAINED)?,
    })
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "muri",
        "groups of jobs that use different resources in turn",
        &PARAMETERS,
        |p, _| Ok(muri_with(read(p)?)),
    );
}
