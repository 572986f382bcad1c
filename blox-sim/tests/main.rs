//! Tests of the simulator as a whole.

mod contention;
mod fingerprint;
mod forecast;
mod links;
mod memory;
mod reasons;
mod simulation;
mod virtual_clusters;

use blox_core::policy::by_key;
use blox_core::{Composition, JobRef, OnEvent, Pipeline, Seconds, order::SortKey};
use blox_testing::FirstFit;

/// Jobs in ascending order of `key`, at the first free GPUs.
fn by(key: fn(&JobRef<'_>) -> f64) -> Pipeline {
    Composition::new("by-key")
        .scheduling(by_key(move |job| SortKey::by(key(job))).valid_until_event())
        .placement(FirstFit)
        .build()
        .unwrap()
}

fn fifo() -> Pipeline {
    by(|job| job.submit().secs())
}

/// First in, first out, with a decision at each event.
fn fifo_at_events() -> Pipeline {
    fifo().with_trigger(OnEvent::with_gap(Seconds::ZERO))
}
