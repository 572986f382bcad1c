//! Tests of policies in which several parts act together, or that another solver checks.

mod gavel;
mod papers;
mod regressions;
mod shockwave;

use blox_core::{Composition, Pipeline, PlacementPolicy, SchedulingPolicy};

fn composed(
    scheduling: impl SchedulingPolicy + 'static,
    placement: impl PlacementPolicy + 'static,
) -> Pipeline {
    let composition = Composition::new("composed").scheduling(scheduling);
    composition.placement(placement).build().unwrap()
}
