//! Conformance tests of all schedulers: one for each file, by its name.

use blox_core::Pipeline;
use blox_registry::{ComponentSpec, Registry};
use blox_schedulers::registry;
use blox_testing::{Coverage, Ties, conformance};

fn build(registry: &Registry, name: &str, seed: u64) -> Pipeline {
    let named: ComponentSpec = name.parse().expect("a name");
    registry
        .schedulers
        .build(&named, seed)
        .expect("it is registered")
}

/// A promise on the page of a scheduler, and its counter.
type Promise = (&'static str, fn(&Coverage) -> u64);

const SHARES: Promise = ("shared GPUs", |c| c.shared);
const GROWS: Promise = ("growth", |c| c.grown);
const SHRINKS: Promise = ("shrinking", |c| c.shrunk);
const MOVES: Promise = ("moves", |c| c.moved);
const MANAGES: Promise = ("node actions", |c| c.node_actions);
const DEFERS: Promise = ("deferrals", |c| c.deferrals);
const REJECTS: Promise = ("rejections", |c| c.rejections);
const ENDS: Promise = ("goals", |c| c.goals);
const PROMOTES: Promise = ("promotions", |c| c.promotions);
const GRANTS: Promise = ("granted CPUs or memory", |c| c.granted);
const SERVES: Promise = ("services", |c| c.services);

/// The promises that cases must reach, for the suite proves nothing about others.
const PROMISES: &[(&str, &[Promise])] = &[
    ("edf", &[GROWS, SHRINKS]),
    ("edf-admission", &[GROWS, SHRINKS, REJECTS]),
    ("ef", &[GROWS, SHRINKS, MOVES]),
    ("elasticflow", &[GROWS, SHRINKS, MOVES, REJECTS]),
    ("finish-time-fairness", &[MOVES]),
    ("antman", &[SHARES]),
    ("gandiva", &[SHARES, MOVES, GROWS, SHRINKS]),
    ("gavel", &[MOVES]),
    ("helios-ces", &[MANAGES]),
    ("las", &[PROMOTES]),
    ("load-admission", &[DEFERS]),
    ("loss-termination", &[ENDS]),
    ("lucid", &[SHARES]),
    ("muri", &[SHARES]),
    ("optimus", &[GROWS, SHRINKS]),
    ("pollux", &[GROWS, SHRINKS, MOVES]),
    ("serving", &[SERVES, GROWS, SHRINKS]),
    ("sia", &[GROWS, SHRINKS, MOVES]),
    ("synergy", &[GRANTS, MOVES]),
    ("themis", &[SHRINKS]),
];

/// Checks a scheduler: it keeps the rules in random cases, which reach what it promises.
fn conforms(name: &str) {
    let registry = registry();
    // The search duration does not affect the rules.
    let brief = match name {
        "pollux" => "pollux{population=8,generations=4}",
        "las" => "las{guard_h=0.2}",
        // On small clusters, the default keeps all nodes on.
        "helios-ces" => "helios-ces{buffer=0,keep=1}",
        other => other,
    };
    // Jobs that grew and still run when others arrive are rare.
    let cases = if name == "gandiva" { 240 } else { 48 };
    let suite = conformance(|seed| build(&registry, brief, seed)).cases(cases);
    let suite = suite.ignores_job_numbers(Ties::BySubmission);
    let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
    println!("{name}: {report}");
    assert!(report.placements > 0 && report.renamed > 0, "{name}");
    let promised = PROMISES.iter().filter(|(of, _)| *of == name);
    for (what, count) in promised.flat_map(|(_, promises)| *promises) {
        assert!(count(&report.coverage) > 0, "never reached: {what}");
    }
}

// A test for each file, which calls `conforms`.
include!(concat!(env!("OUT_DIR"), "/tests.rs"));

#[test]
fn promises_are_of_registered_schedulers() {
    let registry = registry();
    for (name, _) in PROMISES {
        assert!(registry.schedulers.get(name).is_some(), "{name}");
    }
}

#[test]
fn cases_have_all_kinds_of_jobs() {
    let registry = registry();
    let (mut parts, mut services, mut spot, mut knobs) = (0, 0, 0, 0);
    for name in ["fifo", "las", "gfs", "rubick"] {
        let suite = conformance(|seed| build(&registry, name, seed)).cases(400);
        let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
        parts += report.coverage.parts;
        services += report.coverage.services;
        spot += report.coverage.spot;
        knobs += report.coverage.knobs;
    }
    assert!(parts > 100, "{parts} placements with parts of GPUs");
    assert!(services > 100, "{services} placements of services");
    assert!(
        spot > 100,
        "{spot} placements of spot jobs with guaranteed time"
    );
    assert!(knobs > 100, "{knobs} placements of jobs with a config");
}

#[test]
fn rubick_conforms_with_jobs_that_have_plans() {
    let registry = registry();
    for name in ["rubick", "rubick{plans=own}"] {
        let suite = conformance(|seed| build(&registry, name, seed)).cases(96);
        let suite = suite
            .with_attribute_values("params_b", [0.3, 1.3, 7.0])
            .with_attribute_values("plan", ["tp=2", "zero=2 offload=1", "x"])
            .with_attribute("sequence");
        let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
        let reached = report.coverage;
        assert!(reached.grown > 0 && reached.shrunk > 0, "{name}: {report}");
    }
}

#[test]
fn muri_conforms_with_jobs_that_have_stages() {
    let registry = registry();
    for name in ["muri", "muri{attained=true,round_s=60}"] {
        let suite = conformance(|seed| build(&registry, name, seed)).cases(48);
        let suite = suite.with_attribute("stages");
        let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.placements > 0, "{name}");
    }
}

#[test]
fn lucid_and_sleeping_nodes_conform_under_load() {
    let registry = registry();
    let tight = [
        "lucid{profiler_nodes=1,limit_s=400}",
        "lucid{estimator=noisy,sigma=2}",
        "helios-ces{buffer=0,keep=1}",
        "helios-ces{buffer=1,keep=3}",
        "qssf{estimator=noisy,sigma=1}",
    ];
    for name in tight {
        let suite = conformance(|seed| build(&registry, name, seed)).cases(48);
        let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.placements > 0, "{name}");
    }
}

#[test]
fn gavel_with_pairs_conforms_and_shares() {
    let registry = registry();
    let suite = conformance(|seed| build(&registry, "gavel{speeds=pairs}", seed)).cases(48);
    let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.coverage.shared > 0, "{report}");
}

#[test]
fn synergy_conforms_with_every_order_and_allocation() {
    let registry = registry();
    for order in ["fifo", "srtf", "las", "ftf", "drf", "tetris", "srsf"] {
        for allocation in ["proportional", "greedy", "tune"] {
            let name = format!("synergy{{order={order},allocation={allocation}}}");
            let suite = conformance(|seed| build(&registry, &name, seed)).cases(8);
            let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
            assert!(report.placements > 0, "{name}");
        }
    }
}
