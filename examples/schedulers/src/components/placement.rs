//! Registry entries of placement policies.

use crate::registry::params::{ALLOCATION, BACKFILL, NO_EASY, SPLIT, allocation, split, walk};
use crate::registry::queues::{PACK_LIMIT, skew};
use blox_core::estimate::Oracle;
use blox_core::registry::Registry;
use blox_policies::placement::{
    Balanced, Bandwidth, Buddy, Consolidated, FirstFree, Profiled, Random, Synergy,
};
use std::sync::Arc;

pub(super) fn add(r: &mut Registry) {
    let s = &mut r.placement;
    s.add(
        "first-free",
        "the first free GPUs, on any nodes",
        &[NO_EASY],
        |p, _| walk(FirstFree, p, Oracle, false),
    );
    s.add(
        "consolidated",
        "exact fit, best fit, else as few nodes as possible",
        &[SPLIT, BACKFILL],
        |p, _| walk(Consolidated::new(split(p)?), p, Oracle, true),
    );
    s.add(
        "bandwidth",
        "GPUs of one node with the fastest links (Bebop of Blox), else as few nodes as possible",
        &[BACKFILL],
        |p, _| walk(Bandwidth::default(), p, Oracle, true),
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
        |p, _| walk(Profiled::by(skew(p)?), p, Oracle, false),
    );
    s.add(
        "balanced",
        "each GPU on the node with the most free GPUs",
        &[NO_EASY],
        |p, _| walk(Balanced, p, Oracle, false),
    );
    s.add("random", "random free GPUs", &[NO_EASY], |p, seed| {
        walk(Random::new(seed), p, Oracle, false)
    });
}
