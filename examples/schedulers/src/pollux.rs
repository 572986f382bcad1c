use crate::ONCE;
use blox_core::{Composition, Pipeline, Seconds};
use blox_policies::scheduling::{Autoscale, Pollux, PolluxSettings};

/// Pollux' settings.
#[derive(Clone, Debug, PartialEq)]
pub struct PolluxParams {
    /// Those of the search.
    pub search: PolluxSettings,
    /// Length of a round, above 0.
    pub round: Seconds,
    /// How the cluster grows and shrinks, if it does.
    pub autoscale: Option<Autoscale>,
}

impl Default for PolluxParams {
    /// The search's own, rounds of 60 s, a fixed cluster.
    fn default() -> Self {
        PolluxParams {
            search: PolluxSettings::default(),
            round: Seconds::new(60.0),
            autoscale: None,
        }
    }
}

/// A genetic search for the allocation of the best fitness (Pollux, OSDI 2021).
///
/// **Rule.** A job's speedup is its goodput on an allocation over that on its fair share, less where it
/// would have to restart. The fitness of an allocation is the harmonic mean of speedups. No job
/// is spread over nodes of another that is spread as well. Jobs tune their batches themselves. See
/// [`Pollux`](blox_policies::scheduling::Pollux).
///
/// **Parameters** (command line): `power` (default -1), `population` (100), `generations` (100),
/// `patience` (20 generations without a better one), `round_s` (60), and the seed.
///
/// **Jobs** that train say so ([`TrainingSpec`](blox_core::TrainingSpec)): those of a workload in
/// the format `sia` do. Others run on as many GPUs as they ask for.
pub fn pollux() -> Pipeline {
    pollux_with(PolluxParams::default())
}

/// [`pollux`] with other settings.
pub fn pollux_with(params: PolluxParams) -> Pipeline {
    let grows = params.autoscale.is_some();
    let base = Composition::new("pollux").in_rounds(params.round);
    let mut policy = Pollux::new(params.search);
    if let Some(autoscale) = params.autoscale {
        policy = policy.autoscaling(autoscale);
    }
    policy
        .compose(base)
        .build()
        .expect(ONCE)
        .awaiting_growth(grows)
}
