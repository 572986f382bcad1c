//! Conformance tests of emulations of released programs, of execution models, and of the example
//! for new schedulers. The package `blox-schedulers` tests its schedulers.
#![cfg(feature = "testing")]

use blox::core::Pipeline;
use blox::registry::{ComponentSpec, Registry};
use blox::sim::registry::World;
use blox::testing::{Ties, conformance, conformance_of_model};
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

#[test]
fn every_emulation_of_a_program_conforms() {
    let registry = blox::registry();
    let own = blox_schedulers::registry();
    let is_emulation = |name: &&str| own.schedulers.get(name).is_none();
    let mut failures = Vec::new();
    for name in registry.schedulers.names().filter(is_emulation) {
        let suite = conformance(|seed| build(&registry, name, seed)).cases(48);
        match suite.ignores_job_numbers(Ties::BySubmission).check() {
            Ok(report) => assert!(report.placements > 0 && report.renamed > 0, "{name}"),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
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
fn the_example_that_newcomers_copy_conforms() {
    let registry = custom_policy::registry();
    conformance(|seed| build(&registry, "two-queues{short_h=0.1}", seed))
        .check()
        .unwrap_or_else(|failure| panic!("{failure}"));
}
