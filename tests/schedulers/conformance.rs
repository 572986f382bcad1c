//! Conformance tests of all registered schedulers, and of the template for new ones.
#![cfg(feature = "testing")]

use blox::core::Pipeline;
use blox::registry::{ComponentSpec, Registry};
use blox::sim::registry::World;
use blox::testing::{Coverage, conformance, conformance_of_model};
use std::io::Write;

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

#[test]
fn every_registered_scheduler_conforms() {
    let registry = blox::registry();
    let (mut unreached, mut failures) = (Vec::new(), Vec::new());
    let (mut parts, mut services, mut spot, mut knobs) = (0, 0, 0, 0);
    for (name, _) in registry.schedulers.iter() {
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
        let report = match suite.check() {
            Ok(report) => report,
            Err(failure) => {
                failures.push(failure.to_string());
                continue;
            }
        };
        assert!(report.placements > 0, "{name}");
        parts += report.coverage.parts;
        services += report.coverage.services;
        spot += report.coverage.spot;
        knobs += report.coverage.knobs;
        // Past the capture of the test harness.
        let _ = writeln!(std::io::stderr(), "{name}: {report}");
        let promised = PROMISES.iter().filter(|(of, _)| *of == name);
        for (what, count) in promised.flat_map(|(_, promises)| *promises) {
            if count(&report.coverage) == 0 {
                unreached.push(format!("{name}: {what}"));
            }
        }
    }
    for (name, _) in PROMISES {
        assert!(registry.schedulers.get(name).is_some(), "{name}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(unreached.is_empty(), "never reached: {unreached:?}");
    assert!(parts > 100, "{parts} placements with parts of GPUs");
    assert!(services > 100, "{services} placements of services");
    assert!(
        spot > 100,
        "{spot} placements of spot jobs with guaranteed time"
    );
    assert!(knobs > 100, "{knobs} placements of jobs with a config");
}

/// Counters that stay at 0 for most execution models, and the models that reach them.
const REACHED_BY: &[(&str, &[&str])] = &[
    ("stretches", &["as-specified"]),
    (
        "changed rates",
        &["as-specified", "contention", "traffic", "variability"],
    ),
    ("rates changed by other GPUs", &["contention", "traffic"]),
];

#[test]
fn every_registered_execution_model_conforms() {
    let registry = blox::registry();
    let mut failures = Vec::new();
    for (name, _) in registry.execution_models().iter() {
        let spec = match name {
            "blox-optimus" => "blox-optimus{load=3}",
            other => other,
        };
        let spec: ComponentSpec = spec.parse().expect("a name");
        let build = |seed| registry.execution_models().build(&spec, seed).unwrap();
        let report = match conformance_of_model(build).check() {
            Ok(report) => report,
            Err(failure) => {
                failures.push(failure.to_string());
                continue;
            }
        };
        // Past the capture of the test harness.
        let _ = writeln!(std::io::stderr(), "{name}: {report}");
        let mut missing = report.unreached();
        missing.retain(|what| match REACHED_BY.iter().find(|(of, _)| of == what) {
            Some((_, models)) => models.contains(&name),
            None => true,
        });
        assert!(missing.is_empty(), "{name} never reached: {missing:?}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn rubick_conforms_with_jobs_that_have_plans() {
    let registry = blox::registry();
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
        let suite = conformance(|seed| build(&registry, name, seed)).cases(48);
        let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.placements > 0, "{name}");
    }
}

#[test]
fn gavel_with_pairs_conforms_and_shares() {
    let registry = blox::registry();
    let suite = conformance(|seed| build(&registry, "gavel{speeds=pairs}", seed)).cases(48);
    let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.coverage.shared > 0, "{report}");
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
