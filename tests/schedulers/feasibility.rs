//! Every scheduler and placement runs each job that it accepts, and rejects the others by name.

use crate::cases::{composed, job, run, scheduler, with};
use blox::core::registry::ComponentSpec;
use blox::core::runtime::Runtime;
use blox::core::{Adapts, Deadline, GpuCount, Outcome, Scheduler, TrainingSpec};
use blox::core::{
    ClusterSpec, Event, JobId, JobSpec, NodeSpec, Phase, Pipeline, Reason, Seconds, State, Time,
    TypeLimits,
};
use blox::policies::scheduling::Fifo;
use blox::sim::Simulation;
use blox::sim::workload::Jobs;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

const TYPES: [&str; 2] = ["t4", "v100"];

/// A cluster of one to three kinds of nodes, with or without types, CPUs and memory.
fn cluster(rng: &mut ChaCha8Rng) -> ClusterSpec {
    let typed = rng.random_bool(0.7);
    let mut nodes = Vec::new();
    for _ in 0..rng.random_range(1..4) {
        let gpus = [1, 2, 4, 8][rng.random_range(0..4)];
        let mut node = NodeSpec::with_gpus(gpus);
        node.cpus = [0.0, 4.0, 16.0][rng.random_range(0..3)];
        node.memory_gib = [0.0, 32.0, 256.0][rng.random_range(0..3)];
        if typed {
            node = node.of_type(TYPES[rng.random_range(0..2)]);
        }
        nodes.extend(vec![node; rng.random_range(1..4)]);
    }
    ClusterSpec { nodes }
}

/// A job that may name types, CPUs and memory, or train.
fn random_job(rng: &mut ChaCha8Rng, most: u32) -> JobSpec {
    let gpus = rng.random_range(1..=most + 2);
    with(job(0.0, gpus, 3000.0), |extras| {
        if rng.random_bool(0.4) {
            extras.gpu_types = vec![TYPES[rng.random_range(0..2)].into()];
        }
        if rng.random_bool(0.4) {
            extras.cpus = f64::from(gpus) * [1.0, 2.0, 8.0][rng.random_range(0..3)];
        }
        if rng.random_bool(0.4) {
            extras.memory_gib = f64::from(gpus) * [8.0, 33.0, 300.0][rng.random_range(0..3)];
        }
        if rng.random_bool(0.2) {
            let limits = TypeLimits {
                per_gpu: (1, 64),
                one_gpu_rate: 10.0,
                stages: 1,
            };
            let types = TYPES.iter().take(rng.random_range(1..3));
            extras.training = Some(Arc::new(TrainingSpec {
                initial_batch: 64,
                max_batch: 64,
                adapts: Adapts::Nothing,
                restart: Seconds::ZERO,
                types: types.map(|name| ((*name).into(), limits)).collect(),
            }));
        }
    })
}

/// Submits a job to an empty cluster, and decides until it has GPUs or ends, at most ten times.
/// Returns its phase and reason.
fn decided(cluster: &ClusterSpec, spec: &JobSpec, mut policy: Pipeline) -> (Phase, Reason) {
    let state = State::new(cluster).unwrap();
    let mut core = Runtime::new(state, policy.trigger());
    let id = JobId(0);
    let spec = Arc::new(spec.clone());
    let submitted = Event::Submitted { job: id, spec };
    core.event(Time::ZERO, &submitted, &mut policy).unwrap();
    let mut at = Time::ZERO;
    for _ in 0..10 {
        core.decide(at, &mut policy)
            .unwrap_or_else(|e| panic!("{}: {e}", policy.name()));
        match core.view().job(id) {
            Some(job) if job.is_placed() => return (job.phase(), Reason::NotChosen),
            Some(job) if job.phase() == Phase::Ended => {
                return (Phase::Ended, job.reason().clone());
            }
            Some(_) => {}
            None => return (Phase::Ended, core.reason_for(id).clone()),
        }
        at += Seconds::new(300.0);
    }
    (Phase::Waiting, core.reason_for(id).clone())
}

/// Checks on random clusters that the rule and the trial agree. Describes the first difference.
fn differ(name: &str, build: impl Fn() -> Pipeline, cases: u64) -> Option<String> {
    let mut counts = [0u64; 2];
    for seed in 0..cases {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let cluster = cluster(&mut rng);
        let spec = random_job(&mut rng, cluster.total_gpus() as u32);
        // Without admission's check, the placement must try the job.
        let (tried, why) = decided(&cluster, &spec, build().awaiting_growth(true));
        let runs = !matches!(tried, Phase::Waiting | Phase::Ended);
        let state = State::new(&cluster).unwrap();
        let rule = build().feasibility().check(&state, &Arc::new(spec.clone()));
        let differs = match &rule {
            Ok(()) => (!runs).then(|| format!("never runs: {why}")),
            Err(reason) if runs => Some(format!("could run: {reason}")),
            Err(Reason::NotChosen) => Some("is rejected without a reason".to_owned()),
            Err(reason) => {
                let (phase, _) = decided(&cluster, &spec, build());
                (phase != Phase::Ended).then(|| format!("is not rejected: {reason}"))
            }
        };
        if let Some(what) = differs {
            return Some(format!(
                "{name}, seed {seed}: {what}\n{spec:?}\n{cluster:?}"
            ));
        }
        counts[usize::from(rule.is_err())] += 1;
    }
    let [runs, rejected] = counts;
    let few = runs.min(rejected) < cases / 10;
    few.then(|| format!("{name}: {runs} run, {rejected} rejected"))
}

#[test]
fn job_without_work_ends_under_every_scheduler() {
    let registry = blox::registry();
    let mut found = Vec::new();
    for (name, _) in registry.schedulers.iter() {
        for deadline in [None, Some(90_000.0)] {
            let jobs = [with(job(0.0, 1, 0.0), |extras| {
                let at = deadline.map(Time::new);
                extras.deadlines = at
                    .map(|at| Deadline { at, value: 1.0 })
                    .into_iter()
                    .collect();
            })];
            let report = run(
                &Simulation::new(ClusterSpec::uniform(1, 2)),
                scheduler(name),
                &jobs,
            );
            if report.jobs[0].outcome != Some(Outcome::Completed) {
                found.push(format!("{name}, {deadline:?}: {:?}", report.jobs[0]));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn invalid_job_is_blamed_on_the_workload() {
    let refused = |change: fn(&mut JobSpec)| {
        let mut spec = job(0.0, 1, 60.0);
        change(&mut spec);
        let simulation = Simulation::new(ClusterSpec::uniform(1, 2));
        let result = simulation.run(scheduler("fifo"), &mut Jobs::new(vec![spec]));
        result
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let expected = "job 0 of the workload: gpus is 0, expected at least 1";
    assert_eq!(refused(|spec| spec.gpus = GpuCount(0)), expected);
    let expected = "job 0 of the workload: work.rate is 0, expected a finite number above 0";
    assert_eq!(refused(|spec| spec.work.rate = 0.0), expected);
    let expected = "job 0 of the workload: work.iterations is -5, \
                    expected a finite number that is not negative";
    assert_eq!(refused(|spec| spec.work.iterations = -5.0), expected);
}

/// Returns whether a component is not the placement of Blox's released program. The released
/// program finds GPUs only if the free GPUs of the first nodes add up to exactly the requested
/// number.
fn is_plain(name: &str) -> bool {
    !name.starts_with("blox-")
}

#[test]
fn every_placement_runs_what_it_accepts() {
    let registry = blox::registry();
    let mut found = Vec::new();
    for (name, _) in registry.placement.iter().filter(|(name, _)| is_plain(name)) {
        let named: ComponentSpec = name.parse().unwrap();
        let placement = || registry.placement.build(&named, 0).unwrap();
        let build = || composed(name, Fifo::default(), placement());
        found.extend(differ(name, build, 400));
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    assert!(registry.placement.iter().count() > 10);
}

#[test]
fn every_scheduler_runs_what_it_accepts() {
    let registry = blox::registry();
    let mut found = Vec::new();
    for (name, _) in registry
        .schedulers
        .iter()
        .filter(|(name, _)| is_plain(name))
    {
        let brief = match name {
            "pollux" => "pollux{population=8,generations=4}",
            other => other,
        };
        let named: ComponentSpec = brief.parse().unwrap();
        let build = || registry.schedulers.build(&named, 0).unwrap();
        found.extend(differ(name, build, 60));
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}
