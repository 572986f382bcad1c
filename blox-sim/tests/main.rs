//! Tests of the simulator as a whole.

mod classes;
mod configs;
mod contention;
mod coverage;
mod fingerprint;
mod forecast;
mod links;
mod memory;
mod reasons;
mod report;
mod simulation;
mod speeds;
mod until;
mod virtual_clusters;

use blox_core::policy::{by_key, scheduling_fn};
use blox_core::{
    ClusterSpec, Composition, JobId, JobQueue, JobRef, JobSpec, OnEvent, Pipeline, PlacementPolicy,
    Request, SchedulingPolicy, Seconds, Validity, View, order::SortKey,
};
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use blox_testing::FirstFit;

fn composed(
    name: &str,
    scheduling: impl SchedulingPolicy,
    placement: impl PlacementPolicy,
) -> Pipeline {
    let composition = Composition::new(name).scheduling(scheduling);
    composition.placement(placement).build().unwrap()
}

/// A simulation of one node.
fn node(gpus: u32) -> Simulation {
    Simulation::new(ClusterSpec::uniform(1, gpus))
}

/// Runs jobs to the end of the simulation.
fn run(simulation: &Simulation, scheduler: Pipeline, jobs: &[JobSpec]) -> Report {
    let mut jobs = Jobs::new(jobs.to_vec());
    simulation.run(scheduler, &mut jobs).unwrap()
}

/// Requests the active jobs that `listed` names for the time of a decision, and stops all others.
fn listing(listed: fn(JobId, f64) -> bool) -> Pipeline {
    let list = scheduling_fn(move |view: View<'_>, out: &mut JobQueue| {
        let now = view.now().secs();
        let jobs = view.active().filter(|job| listed(job.id(), now));
        jobs.for_each(|job| out.push(Request::gang(&job)));
        out.stop_unlisted();
        Validity::NextRound
    });
    composed("listing", list, FirstFit)
}

/// Jobs in ascending order of `key`, at the first free GPUs.
fn by(key: fn(&JobRef<'_>) -> f64) -> Pipeline {
    let order = by_key(move |job| SortKey::by(key(job))).valid_until_event();
    composed("by-key", order, FirstFit)
}

fn fifo() -> Pipeline {
    by(|job| job.submit().secs())
}

/// First in, first out, with a decision at each event.
fn fifo_at_events() -> Pipeline {
    fifo().with_trigger(OnEvent::with_gap(Seconds::ZERO))
}
