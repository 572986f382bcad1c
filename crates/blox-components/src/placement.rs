//! Registry entries of placement policies.

use crate::parameters::*;
use blox_core::{AnyPlacement, estimate::Oracle};
use blox_perf::SCORES;
use blox_policies::placement::{
    Balanced, Bandwidth, Buddy, ByClass, Compatible, Consolidated, Fgd, FirstFree, InOrder,
    NonSticky, Pal, Profiled, Random, Split, Synergy,
};
use blox_registry::NodeData;
use blox_sim::execution;
use std::sync::Arc;

const STICKY: ParamDoc = param(
    "sticky",
    "true",
    "running jobs keep their GPUs; false places all jobs again in each round",
);

const LOCALITY: ParamDoc = numeric(
    "locality",
    execution::LOCALITY,
    "factor by which a step takes longer across nodes",
);
const MIX: ParamDoc = param(
    "mix",
    "1:70/2:10/4:10/8:10",
    "GPU counts of the target workload with weights, joined by /",
);
const ATTRIBUTE: ParamDoc = param(
    "attribute",
    "app_class",
    "attribute with the class of a job",
);
const CLASSES: ParamDoc = param(
    "classes",
    "none",
    "classes that are consolidated, joined by /",
);

fn scored(rule: Pal, p: &Params) -> Result<Arc<dyn AnyPlacement>, RegistryError> {
    Ok(match p.bool(STICKY.name)? {
        true => Arc::new(InOrder::new(rule)),
        false => Arc::new(NonSticky::new(rule)),
    })
}

/// Parses a mix such as `0.5:40/1:40/8:20`: GPUs, or the part of one, with weights.
fn mix(p: &Params) -> Result<Fgd, RegistryError> {
    let pair = |text: &str| {
        let (gpus, weight) = text.split_once(':')?;
        let [gpus, weight]: [f64; 2] = [gpus.trim().parse().ok()?, weight.trim().parse().ok()?];
        let amount = gpus > 0.0 && (gpus <= 1.0 || gpus.fract() == 0.0);
        let sound = amount && weight > 0.0 && weight.is_finite();
        sound.then_some((gpus, weight))
    };
    let defaults = Params::of(&[MIX]);
    let text = match p.text(MIX.name) {
        "none" => defaults.text(MIX.name),
        text => text,
    };
    let pairs: Option<Vec<(f64, f64)>> = text.split('/').map(pair).collect();
    let expected = "GPU counts, or parts of a GPU, with weights above 0, such as 0.5:40/1:40/8:20";
    pairs
        .map(Fgd::new)
        .ok_or_else(|| p.wrong(MIX.name, expected))
}

/// Scores of single GPUs.
const GPU_SCORES: NodeData = NodeData {
    name: "scores of GPUs (`pm_score.CLASS`)",
    has: |node| node.labels.keys().any(|name| name.starts_with(SCORES)),
    without: "each GPU of a type is as fast",
};

pub(crate) fn add(r: &mut Registry) {
    let s = &mut r.placement;
    s.add(
        "first-free",
        "the first free GPUs, on any nodes",
        &[NO_EASY],
        |p, _| skipping(FirstFree, p),
    );
    s.add(
        "consolidated",
        "exact fit, best fit, else as few nodes as possible",
        &[SPLIT, BACKFILL],
        |p, _| backfilled(Consolidated::new(split(p)?), p, Oracle),
    );
    s.add(
        "bandwidth",
        "GPUs of one node with the fastest links (Bebop of Blox), else as few nodes as possible",
        &[BACKFILL],
        |p, _| backfilled(Bandwidth::default(), p, Oracle),
    );
    s.add(
        "compatible",
        "consolidated, but jobs on several nodes go where their network demands interleave (CASSINI)",
        &[BACKFILL],
        |p, _| backfilled(Compatible::default(), p, Oracle),
    );
    s.add(
        "synergy",
        "GPUs, CPUs and memory together, each round from an empty cluster; consolidated",
        &[ALLOCATION, SPLIT],
        |p, _| {
            let rule = Synergy::new(Consolidated::new(split(p)?));
            Ok(Arc::new(rule.with(allocation(p)?)))
        },
    );
    s.add(
        "buddy",
        "powers of two on a node or whole nodes, with migration",
        &[],
        |_, _| Ok(Arc::new(Buddy)),
    );
    s.add(
        "profiled",
        "jobs of skewed models consolidated on whole nodes, other jobs on left-over GPUs",
        &[PACK_LIMIT, NO_EASY],
        |p, _| skipping(Profiled::by(skew(p)?), p),
    );
    s.add(
        "balanced",
        "each GPU on the node with the most free GPUs",
        &[NO_EASY],
        |p, _| skipping(Balanced, p),
    );
    s.add("random", "random free GPUs", &[NO_EASY], |p, seed| {
        skipping(Random::new(seed), p)
    });
    s.add(
        "pal",
        "PAL: scores of GPUs for the job's class, weighed against spanning nodes",
        &[LOCALITY, STICKY],
        |p, _| {
            let locality = at_least(p, LOCALITY.name, 1.0)?;
            scored(Pal::with_locality(locality), p)
        },
    )
    .with_node_data(GPU_SCORES);
    s.add(
        "pm-first",
        "PM-First: the GPUs with the best scores for the job's class",
        &[STICKY],
        |p, _| scored(Pal::pm_first(), p),
    )
    .with_node_data(GPU_SCORES);
    s.add(
        "fgd",
        "fragmentation gradient descent, also with parts of GPUs: where least is stranded",
        &[MIX, NO_EASY],
        |p, _| skipping(mix(p)?, p),
    );
    s.add(
        "by-class",
        "jobs of some classes on one node or whole nodes, other jobs on the first free GPUs",
        &[ATTRIBUTE, CLASSES, NO_EASY],
        |p, _| {
            let classes = p.text(CLASSES.name).split('/').map(str::to_owned);
            let together = Consolidated::new(Split::WholeNodes);
            let attribute = p.text(ATTRIBUTE.name);
            let rule = ByClass::new(attribute, classes.collect(), together, FirstFree);
            skipping(rule, p)
        },
    );
}
