use blox::core::Pipeline;
use blox::policies::scheduling::gavel::{Gavel, shares::Tickets};
use blox::schedulers::gavel_with;
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 2] = [
    param("trading", "true", "users trade GPU types"),
    param("round_s", "60", "seconds of a round"),
];

/// Fair shares of users by tickets, and trading of GPU types (Gandiva_fair, EuroSys 2020).
///
/// **Rule.** Each user gets GPUs of each type in proportion to its tickets, at most what its jobs
/// request. Other users get what it leaves. Then users trade: the user with the greatest speed-up on
/// a faster type buys GPUs of it from the user with the least. The price is the second greatest
/// speed-up, so no user loses. The jobs of a user divide its GPUs equally. In each round, the jobs
/// that are furthest behind their share run. A gang that does not fit is passed, and comes first
/// later. See [`Tickets`] for the shares, and [`Gavel`] for the rounds.
///
/// **Jobs** state the tickets of their user as `weight`, 1 if absent, and their speed on each type
/// ([`Extras::speeds`](blox::core::Extras::speeds)).
///
/// **Parameters** (command line): `trading`, `round_s`.
///
/// **Differences from the paper.** One scheduler decides for the whole cluster: there is no stride
/// scheduler on each server, and no balancer that moves jobs between servers. Speeds are stated, not
/// profiled. A user sells no more than its jobs can use.
///
/// **Source.** The paper's abstract and reports by others; trading follows another group's
/// implementation. The paper's text was not read.
///
/// **Verified.** By tests: numbers of that implementation's test, and fair shares by hand.
///
/// **Claims.** The claim of the paper holds here: `blox policies gandiva-fair`.
pub fn gandiva_fair() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let policy = Gavel::new(Tickets::new(p.bool("trading")?)).in_rounds_of(p.seconds("round_s")?);
    Ok(gavel_with(policy).renamed("gandiva-fair"))
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers
        .add(
            "gandiva-fair",
            "shares of users by tickets, with trading of GPU types",
            &PARAMETERS,
            |p, _| composed(p),
        )
        .with_job_data(TYPE_SPEEDS);
}
