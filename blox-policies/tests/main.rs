//! Tests of policies in which several parts act together, or that another solver checks.

mod formulas;
mod gavel;
mod papers;
mod parts;
mod possible;
mod regressions;
mod resizing;

use blox_core::{Composition, Extras, JobSpec, Pipeline, PlacementPolicy, SchedulingPolicy};

fn composed(
    scheduling: impl SchedulingPolicy + 'static,
    placement: impl PlacementPolicy + 'static,
) -> Pipeline {
    let composition = Composition::new("composed").scheduling(scheduling);
    composition.placement(placement).build().unwrap()
}

/// Sets further fields of a job.
fn with(job: JobSpec, set: impl FnOnce(&mut Extras)) -> JobSpec {
    let mut extras = job.extras().clone();
    set(&mut extras);
    job.with_extras(extras)
}
