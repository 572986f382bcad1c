//! Virtual clusters of `hived` in random workloads.

use super::cases::{self, job, with};
use blox::core::{Class, ClusterSpec, JobSpec, Pipeline, Time};
use blox::results::Summary;
use blox::sim::Simulation;
use blox::sim::completion::Exact;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Cells of four nodes of eight GPUs. Eight GPUs are not reserved.
const CELLS: &str = "cells=a:1x16+1x2+1x1/b:1x4+1x1";

/// Two racks of two nodes.
fn racks() -> ClusterSpec {
    let mut cluster = ClusterSpec::uniform(4, 8);
    for (node, rack) in cluster.nodes.iter_mut().zip(["x", "x", "y", "y"]) {
        node.location = vec![rack.into()];
    }
    cluster
}

fn hived(backfill: &str) -> Pipeline {
    cases::scheduler(&format!("hived{{{CELLS},backfill={backfill}}}"))
}

fn ends(jobs: &[JobSpec], backfill: &str) -> Vec<Option<Time>> {
    let simulation = Simulation::new(racks()).completion(Exact);
    let report = cases::run(&simulation, hived(backfill), jobs);
    assert_eq!(Summary::of(&report).completed, jobs.len() as u64);
    report.jobs.iter().map(|job| job.finish).collect()
}

#[test]
fn each_tenant_runs_as_if_it_were_alone() {
    let mut preempted = 0;
    for seed in 0..40 {
        let backfill = ["none", "skip"][seed as usize % 2];
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut at = 0.0;
        let draw = |_| {
            at += rng.random_range(0.0..600.0);
            let (owner, most) = [("a", 16), ("b", 4), ("c", 8)][rng.random_range(0..3)];
            let gpus = [1_u32, 1, 2, 4, 8, 16][rng.random_range(0..6)].min(most);
            let mut job = job(at, gpus, rng.random_range(300.0..9_000.0));
            job.virtual_cluster = Some(owner.into());
            if rng.random_range(0..3) == 0 {
                job = with(job, |extras| extras.class = Class::BEST_EFFORT);
            }
            job
        };
        let jobs: Vec<JobSpec> = (0..120).map(draw).collect();
        let simulation = Simulation::new(racks()).completion(Exact);
        let report = cases::run(&simulation, hived(backfill), &jobs);
        preempted += Summary::of(&report).preemptions;
        let together = ends(&jobs, backfill);
        for owner in ["a", "b", "c"] {
            let its = |job: &JobSpec| {
                let guaranteed = job.extras().class == Class::Guaranteed;
                guaranteed && job.virtual_cluster.as_deref() == Some(owner)
            };
            let alone: Vec<JobSpec> = jobs.iter().filter(|job| its(job)).cloned().collect();
            let beside = jobs.iter().zip(&together).filter(|(job, _)| its(job));
            let beside: Vec<Option<Time>> = beside.map(|(_, end)| *end).collect();
            assert_eq!(
                beside,
                ends(&alone, backfill),
                "seed {seed}, tenant {owner}"
            );
        }
    }
    assert!(preempted > 100, "{preempted}");
}
