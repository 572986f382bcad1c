//! Every scheduler with every placement, admission policy and cluster manager. Each composition
//! runs to its end, or its error names the role that is already taken. Every component also passes
//! one test on both backends.

use crate::rehearsal;
use blox::core::{
    ClusterSpec, ComposeError, Composition, Deadline, Extras, GpuCount, JobSpec, Outcome, Pipeline,
    Seconds, Time,
};
use blox::registry::{ComponentRegistry, ComponentSpec};
use blox::sim::Simulation;
use blox::sim::workload::Jobs;
use std::collections::BTreeSet;

/// Creates jobs that differ in all properties that placements and schedulers read.
fn jobs() -> Vec<JobSpec> {
    let job = |n: u32| {
        let at = Time::new(f64::from(n * 450));
        let gpus = GpuCount([1, 2, 4, 8, 1, 3][n as usize % 6]);
        let mut spec = JobSpec::new(at, gpus, Seconds::new(f64::from(900 + n % 5 * 1500)));
        spec.user = Some(["ada", "bob", "eve"][n as usize % 3].into());
        let mut extras = Extras {
            cpus: f64::from(gpus.get() * 2),
            ..Extras::default()
        };
        if n % 4 == 1 && gpus.get() <= 4 {
            extras.gpu_types = vec!["v100".into()];
        }
        if n % 5 == 2 {
            let at = at + Seconds::from_hours(24.0);
            extras.deadlines = vec![Deadline { at, value: 1.0 }];
        }
        spec.with_extras(extras)
    };
    (0..24).map(job).collect()
}

fn cluster() -> ClusterSpec {
    "2x4:v100,2x4:a100".parse().expect("a cluster")
}

/// Returns the reason why a composition does not run to its end; `None` if it does.
fn failure(scheduler: Pipeline) -> Option<String> {
    simulated(scheduler).err()
}

/// Runs [`jobs`] in the simulator, and returns their outcomes.
fn simulated(scheduler: Pipeline) -> Result<Vec<Outcome>, String> {
    let simulation = Simulation::new(cluster());
    let report = simulation.run(scheduler, &mut Jobs::new(jobs()));
    let report = report.map_err(|e| e.to_string())?;
    let left = report.jobs.iter().filter(|job| job.outcome.is_none());
    let left: Vec<String> = left.map(|job| job.job.to_string()).collect();
    match left.is_empty() {
        true => Ok(report.jobs.iter().filter_map(|job| job.outcome).collect()),
        false => Err(format!("jobs {} never end", left.join(", "))),
    }
}

/// Runs [`jobs`] under the daemon's state machine, and returns their outcomes.
fn rehearsed(scheduler: Pipeline) -> Result<Vec<Outcome>, String> {
    rehearsal::rehearse(scheduler, &cluster(), &jobs(), 1e6)
}

/// Number of compositions that ran, and roles that one component takes together with others.
#[derive(Default)]
struct Seen {
    ran: usize,
    conflicts: BTreeSet<String>,
    failures: Vec<String>,
}

impl Seen {
    fn count(&mut self, name: &str, composed: Result<Pipeline, ComposeError>) {
        match composed {
            Ok(scheduler) => {
                self.ran += 1;
                if let Some(why) = failure(scheduler) {
                    self.failures.push(format!("{name}: {why}"));
                }
            }
            Err(ComposeError::Shared { role, roles, .. }) => {
                let scheduler = name.split('/').next().unwrap_or(name);
                self.conflicts
                    .insert(format!("{scheduler}: {role} of {roles}"));
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }

    fn holds(&self, least: usize, conflicts: &[&str]) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
        println!("{} compositions ran to their end", self.ran);
        assert!(self.ran >= least, "{} of {least}", self.ran);
        let found: Vec<&str> = self.conflicts.iter().map(String::as_str).collect();
        assert_eq!(found, conflicts);
    }
}

fn named(name: &str) -> ComponentSpec {
    name.parse().expect("a registered name")
}

/// Returns the names in a part of the registry.
fn names<T>(components: &ComponentRegistry<T>) -> Vec<String> {
    components.iter().map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_scheduler_has_a_short_file_of_its_own() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/schedulers/src");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy();
        if stem == "lib" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        assert!(lines < 120, "{stem}: {lines} lines");
        let text: String = text.split_whitespace().collect();
        let entries = text.matches("r.schedulers.add(").count();
        assert_eq!(entries, 1, "{stem}: entries");
        files.push(stem.replace('_', "-"));
    }
    files.sort();
    assert_eq!(files, names(&blox_schedulers::registry().schedulers));
}

#[test]
fn every_scheduler_runs_over_every_placement() {
    let registry = blox::registry();
    let mut seen = Seen::default();
    for placement in names(&registry.placement) {
        let place = || registry.placement.build(&named(&placement), 0).unwrap();
        for scheduler in names(&registry.schedulers) {
            let built = registry.schedulers.build(&named(&scheduler), 0).unwrap();
            let name = format!("{scheduler}/{placement}");
            seen.count(&name, built.with_placement(place()));
        }
        for scheduling in names(&registry.scheduling) {
            let part = registry.scheduling.build(&named(&scheduling), 0).unwrap();
            let name = format!("{scheduling}/{placement}");
            let composition = Composition::new(name.as_str()).scheduling(part);
            seen.count(&name, composition.placement(place()).build());
        }
    }
    let conflicts = [
        "gfs: placement of scheduling+placement",
        "synthesizer: placement of cluster+admission+scheduling+placement",
    ];
    seen.holds(300, &conflicts);
}

#[test]
fn every_scheduler_runs_with_every_other_component() {
    let registry = blox::registry();
    let mut seen = Seen::default();
    for scheduler in names(&registry.schedulers) {
        for admission in names(&registry.admission) {
            for cluster in names(&registry.cluster) {
                let name = format!("{scheduler}/{admission}/{cluster}");
                let built = registry.schedulers.build(&named(&scheduler), 0).unwrap();
                let part = registry.admission.build(&named(&admission), 0).unwrap();
                let manager = registry.cluster.build(&named(&cluster), 0).unwrap();
                let composed = built.with_admission(part);
                seen.count(&name, composed.and_then(|p| p.with_cluster(manager)));
            }
        }
    }
    let conflicts = [
        "chronus: admission of admission+scheduling",
        "edf-admission: admission of admission+scheduling",
        "edf: admission of admission+scheduling",
        "ef: admission of admission+scheduling",
        "elasticflow: admission of admission+scheduling",
        "eva: cluster of cluster+scheduling",
        "synthesizer: admission of cluster+admission+scheduling+placement",
    ];
    seen.holds(200, &conflicts);
}

/// A backend that runs a scheduler over [`jobs`] and returns their outcomes.
type Backend = fn(Pipeline) -> Result<Vec<Outcome>, String>;

fn every_part(backend: Backend, parts: Vec<(String, Pipeline)>) {
    let mut failures = Vec::new();
    let count = parts.len();
    for (name, scheduler) in parts {
        match backend(scheduler) {
            Ok(outcomes) if outcomes.len() == jobs().len() => {}
            Ok(outcomes) => failures.push(format!("{name}: {} outcomes", outcomes.len())),
            Err(why) => failures.push(format!("{name}: {why}")),
        }
    }
    println!("{count} components");
    assert!(count > 0 && failures.is_empty(), "{}", failures.join("\n"));
}

/// Tests with one body for both backends.
macro_rules! on_both_backends {
    ($($name:ident => $parts:expr;)+) => {
        mod simulator {
            use super::*;
            $(#[test] fn $name() { every_part(simulated, $parts); })+
        }
        mod daemon {
            use super::*;
            $(#[test] fn $name() { every_part(rehearsed, $parts); })+
        }
    };
}

on_both_backends! {
    every_scheduler_runs_to_its_end => schedulers();
    every_scheduling_policy_runs_to_its_end => scheduling_policies();
    every_placement_runs_to_its_end => placements();
    every_admission_policy_runs_to_its_end => admission_policies();
    every_cluster_manager_runs_to_its_end => cluster_managers();
}

fn schedulers() -> Vec<(String, Pipeline)> {
    let components = blox::registry().schedulers;
    let build = |name: String| {
        let built = components.build(&named(&name), 0).unwrap();
        (name, built)
    };
    names(&components).into_iter().map(build).collect()
}

fn scheduling_policies() -> Vec<(String, Pipeline)> {
    let registry = blox::registry();
    let build = |name: String| {
        let part = registry.scheduling.build(&named(&name), 0).unwrap();
        let placement = registry.placement.build(&named("consolidated"), 0).unwrap();
        let composition = Composition::new(name.as_str()).scheduling(part);
        (name, composition.placement(placement).build().unwrap())
    };
    names(&registry.scheduling).into_iter().map(build).collect()
}

/// Returns `fifo` with each component that `with` adds to it.
fn fifo_with<T>(
    components: &ComponentRegistry<T>,
    with: impl Fn(Pipeline, T) -> Result<Pipeline, ComposeError>,
) -> Vec<(String, Pipeline)> {
    let fifo = || {
        blox::registry()
            .schedulers
            .build(&named("fifo"), 0)
            .unwrap()
    };
    let parts = names(components).into_iter().map(|name| {
        let part = components.build(&named(&name), 0).unwrap();
        (name, with(fifo(), part).unwrap())
    });
    parts.collect()
}

fn placements() -> Vec<(String, Pipeline)> {
    fifo_with(&blox::registry().placement, |fifo, part| {
        fifo.with_placement(part)
    })
}

fn admission_policies() -> Vec<(String, Pipeline)> {
    fifo_with(&blox::registry().admission, |fifo, part| {
        fifo.with_admission(part)
    })
}

fn cluster_managers() -> Vec<(String, Pipeline)> {
    fifo_with(&blox::registry().cluster, |fifo, part| {
        fifo.with_cluster(part)
    })
}
