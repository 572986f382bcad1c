use blox::core::{Composition, Pipeline};
use blox::policies::placement::{Blocked, Cells, Reservation};
use blox::policies::scheduling::Fifo;
use blox::schedulers::parameters::*;

const CELLS: ParamDoc = param(
    "cells",
    "none",
    "cells of virtual clusters as VC:NUMBERxGPUS@TYPE with + and /, such as prod:2x8@v100+1x4/test:4x1",
);
const PARAMETERS: [ParamDoc; 2] = [CELLS, NO_EASY];

/// Virtual clusters that reserve cells of the cluster (HiveD, OSDI 2020).
///
/// **Rule.** A virtual cluster reserves cells: GPUs, halves of nodes, nodes or locations. Its
/// guaranteed jobs run in order of submission in these cells, as in a cluster of its own. Cells get
/// their places by buddy allocation, so no other virtual cluster can split up what is reserved. Jobs
/// of the class spot run on any free GPUs, and leave when a guaranteed job needs them. Jobs of other
/// virtual clusters, or of none, share what is not reserved. See [`Cells`] for the component.
///
/// **Jobs** name their virtual cluster. Jobs of the class spot have low priority. The
/// [locations](blox::core::NodeSpec::location) of nodes are the larger cells.
///
/// **Parameters** (command line): `cells`, in which a type is optional; `backfill`, within a virtual
/// cluster.
///
/// **Differences from the paper.** There are two priorities. At low priority, virtual
/// clusters with few GPUs come first, without weights, and no job is stopped for another. CPUs and
/// memory are not reserved. If nodes fail, a virtual cluster may lack cells.
///
/// **Verified.** By tests of the paper's rules and its invariant. In random workloads, the guaranteed
/// jobs of each virtual cluster end as if it were alone.
///
/// **Claims.** 0 of 1 claims of the paper hold here, 1 does not hold: `blox policies hived`.
pub fn hived() -> Pipeline {
    composed(&Params::of(&PARAMETERS)).expect("the defaults are valid")
}

fn composed(p: &Params) -> Result<Pipeline, RegistryError> {
    let words = [("none", Blocked::Stop), ("skip", Blocked::Skip)];
    let blocked = chosen(p, NO_EASY.name, &words)?;
    let composition = Composition::new("hived")
        .scheduling(Fifo::default())
        .placement(Cells::new(reservations(p)?).when_blocked(blocked));
    Ok(composition.build()?)
}

/// Reads the parameter `cells`.
fn reservations(p: &Params) -> Result<Vec<Reservation>, RegistryError> {
    if p.text(CELLS.name) == CELLS.default {
        return Ok(Vec::new());
    }
    let one = |owner: &str, text: &str| {
        let (size, gpu_type) = match text.split_once('@') {
            Some((size, gpu_type)) => (size, Some(gpu_type.trim())),
            None => (text, None),
        };
        let (cells, gpus) = size.split_once('x')?;
        let [cells, gpus] = [cells, gpus].map(|n| n.trim().parse().ok().filter(|n| *n > 0));
        Some(Reservation {
            owner: owner.into(),
            cells: cells?,
            gpus: gpus?,
            gpu_type: gpu_type.map(Into::into),
        })
    };
    let mut all = Vec::new();
    for part in p.text(CELLS.name).split('/') {
        let its = part.split_once(':').and_then(|(owner, cells)| {
            let its = cells.split('+').map(|text| one(owner.trim(), text));
            its.collect::<Option<Vec<Reservation>>>()
        });
        let expected = "VC:NUMBERxGPUS@TYPE+.../VC:..., such as prod:2x8@v100+1x4/test:4x1";
        all.extend(its.ok_or_else(|| p.wrong(CELLS.name, expected))?);
    }
    Ok(all)
}

/// Adds the scheduler to the registry.
pub(crate) fn add(r: &mut Registry) {
    r.schedulers.add(
        "hived",
        "virtual clusters that reserve cells of the cluster, by buddy allocation",
        &PARAMETERS,
        |p, _| composed(p),
    );
}
