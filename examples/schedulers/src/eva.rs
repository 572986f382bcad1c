use blox::core::{Composition, Pipeline, Seconds};
use blox::policies::placement::OnNodes;
use blox::policies::scheduling::{Eva, EvaSettings};
use blox::schedulers::parameters::*;

const PARAMETERS: [ParamDoc; 4] = [
    numeric(
        "beside",
        EvaSettings::DEFAULT.beside,
        "throughput of a job for each other job on its node, from 0 (never packs) to 1",
    ),
    numeric(
        "move_s",
        EvaSettings::DEFAULT.moves.secs(),
        "seconds of work that a move of a job is expected to cost",
    ),
    numeric(
        "boot_s",
        EvaSettings::DEFAULT.boot.secs(),
        "seconds that a new node is expected to cost before it runs jobs",
    ),
    param("round_s", "300", "seconds of a round"),
];

/// The cheapest nodes for the jobs, by reservation prices (Eva, EuroSys 2025).
///
/// **Rule.** The *reservation price* of a job is the price of the cheapest node that holds it alone.
/// The worth of jobs on a node is the sum of their reservation prices, each times the throughput of
/// the job beside the others. From the dearest offer to the cheapest, the job that adds most worth
/// joins a node, until none adds any. The node is requested if its worth is at least its price. A
/// full reconfiguration packs all jobs anew. A partial one keeps the nodes that are worth their
/// price, adds jobs to them, and packs only the others. The full one is chosen if it saves more until
/// the next one is expected, after the cost of its moves and new nodes. See
/// [`Eva`](blox::policies::scheduling::Eva) for the component.
///
/// **Parameters** (command line): `beside`, `move_s`, `boot_s`, `round_s`.
///
/// **Clusters** need offers with prices. Nodes that are there without an offer are always kept.
///
/// **Not done.** A job lies on one node; the paper has jobs of several tasks. The throughput beside
/// other jobs is a parameter instead of a measurement.
///
/// **Source.** The rule follows the released program. Only the abstract of the paper was read.
///
/// **Verified.** Tests; numbers of the released program's rule.
///
/// **Claims.** 0 of 1 claims of the paper hold here, 1 is weaker: `blox policies eva`.
pub fn eva() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let settings = EvaSettings {
        beside: share(p, "beside")?,
        moves: Seconds::new(at_least(p, "move_s", 0.0)?),
        boot: Seconds::new(at_least(p, "boot_s", 0.0)?),
    };
    let composition = Composition::new("eva")
        .in_rounds(p.seconds("round_s")?)
        .joint(Eva::new(settings), |roles| roles.cluster().scheduling())
        .placement(OnNodes);
    Ok(composition.build()?)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "eva",
        "cheapest nodes of the offers for the jobs, by reservation prices",
        &PARAMETERS,
        |p, _| composed(p),
    );
}
