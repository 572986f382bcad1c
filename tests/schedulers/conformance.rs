//! Conformance tests of all registered schedulers, and of the template for new ones.
#![cfg(feature = "testing")]

use blox::core::Pipeline;
use blox::core::registry::{ComponentSpec, Registry};
use blox::testing::conformance;

#[path = "../../examples/custom_policy.rs"]
#[allow(dead_code, reason = "its `main` is for the example")]
mod custom_policy;

fn build(registry: &Registry, name: &str, seed: u64) -> Pipeline {
    let named: ComponentSpec = name.parse().expect("a name");
    registry
        .schedulers
        .build(&named, seed)
        .expect("it is registered")
}

#[test]
fn every_registered_scheduler_conforms() {
    let registry = blox::registry();
    let mut checked = 0;
    for (name, _) in registry.schedulers.iter() {
        // The search duration does not affect the rules.
        let brief = match name {
            "pollux" => "pollux{population=8,generations=4}",
            other => other,
        };
        let mut suite = conformance(|seed| build(&registry, brief, seed)).cases(48);
        // The placement of the released program can block a job forever. Tiresias skips jobs that
        // do not fit. So does Lucid, which also reserves nodes. Sia and Pollux give no job GPUs of
        // two types, and no fair share to a rigid job.
        let starves = ["lucid", "pollux", "sia"].contains(&name);
        if name.starts_with("blox-") || name.starts_with("tiresias") || starves {
            suite = suite.may_starve();
        }
        let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.placements > 0, "{name}");
        checked += 1;
    }
    assert!(checked >= 18, "{checked}");
}

#[test]
fn muri_conforms_with_jobs_that_have_stages() {
    let registry = blox::registry();
    for name in ["muri", "muri{attained=true,round_s=60}"] {
        let suite = conformance(|seed| build(&registry, name, seed)).cases(48);
        let suite = suite.with_attribute("stages");
        let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.placements > 0, "{name}");
    }
}

#[test]
fn lucid_and_sleeping_nodes_conform_under_load() {
    let registry = blox::registry();
    let tight = [
        "lucid{profiler_nodes=1,limit_s=400}",
        "lucid{estimator=noisy,sigma=2}",
        "helios-ces{buffer=0,keep=1}",
        "helios-ces{buffer=1,keep=3}",
        "qssf{estimator=noisy,sigma=1}",
    ];
    for name in tight {
        let mut suite = conformance(|seed| build(&registry, name, seed)).cases(48);
        if name.starts_with("lucid") {
            suite = suite.may_starve();
        }
        let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.placements > 0, "{name}");
    }
}

#[test]
fn the_example_that_newcomers_copy_conforms() {
    let registry = custom_policy::registry();
    conformance(|seed| build(&registry, "two-queues{short_h=0.1}", seed))
        .check()
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn synergy_conforms_with_every_order_and_allocation() {
    let registry = blox::registry();
    for order in ["fifo", "srtf", "las", "ftf", "drf", "tetris", "srsf"] {
        for allocation in ["proportional", "greedy", "tune"] {
            let name = format!("synergy{{order={order},allocation={allocation}}}");
            let suite = conformance(|seed| build(&registry, &name, seed)).cases(8);
            let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
            assert!(report.placements > 0, "{name}");
        }
    }
}
