//! Every scheduler and placement runs each job that it accepts, and rejects the others by name.

use crate::cases::{composed, job, run, scheduler, with};
use blox::core::runtime::Runtime;
use blox::core::{Adapts, Deadline, GpuCount, Outcome, Scheduler, TrainingSpec};
use blox::core::{
    ClusterSpec, Event, Extras, JobId, JobSpec, NodeSpec, Phase, Pipeline, Reason, Seconds, State,
    Time, TypeLimits, TypeSpeeds,
};
use blox::perf::applications::built_in;
use blox::policies::scheduling::{Fifo, Pollux, Sia};
use blox::registry::ComponentSpec;
use blox::sim::Simulation;
use blox::sim::execution::Training;
use blox::sim::workload::Jobs;
use blox::testing::Scenario;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::num::NonZeroU32;
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
    ClusterSpec {
        nodes,
        ..ClusterSpec::default()
    }
}

/// A job that may name types, CPUs, memory and a number of nodes, or train.
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
        if rng.random_bool(0.3) {
            let numbers: Vec<u32> = (1..=gpus).filter(|n| gpus.is_multiple_of(*n)).collect();
            extras.nodes = NonZeroU32::new(numbers[rng.random_range(0..numbers.len())]);
        } else if rng.random_bool(0.2) {
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

/// Adds speeds on the types, some of them 0.
fn with_speeds(spec: JobSpec, rng: &mut ChaCha8Rng) -> JobSpec {
    with(spec, |extras| {
        let mut speeds = TypeSpeeds::default();
        for name in TYPES {
            speeds.set(name, f64::from(rng.random_range(0..3)));
        }
        extras.speeds = Some(Arc::new(speeds));
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

/// Returns whether a job may start although it is rejected. It may find its number of nodes by chance,
/// run on profiling nodes alone, and not to its end, or train on GPUs of two types.
fn is_strict(reason: &Reason) -> bool {
    let text = reason.to_string();
    [
        "does not keep this number",
        "without the profiling",
        "of one type",
    ]
    .iter()
    .any(|rule| text.contains(rule))
}

/// Checks on random clusters that the rule and the trial agree. Describes the first difference.
fn differ(name: &str, build: impl Fn() -> Pipeline, cases: u64) -> Option<String> {
    let mut counts = [0u64; 2];
    for seed in 0..cases {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let cluster = cluster(&mut rng);
        let mut spec = random_job(&mut rng, cluster.total_gpus() as u32);
        if seed % 4 == 3 {
            spec = with_speeds(spec, &mut rng);
        }
        // Without admission's check, the placement must try the job.
        let (tried, why) = decided(&cluster, &spec, build().awaiting_growth(true));
        let runs = !matches!(tried, Phase::Waiting | Phase::Ended);
        let state = State::new(&cluster).unwrap();
        let rule = build().feasibility().check(&state, &Arc::new(spec.clone()));
        let differs = match &rule {
            Ok(()) => (!runs).then(|| format!("never runs: {why}")),
            Err(reason) if runs && is_strict(reason) => None,
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
fn refusal_names_a_level_that_would_fit() {
    let state = State::new(&"1x4".parse().unwrap()).unwrap();
    let elastic = |rates: &[f64]| {
        with(job(0.0, 8, 3000.0), |extras| {
            extras.levels = [2, 4, 8].map(GpuCount).into();
            extras.rates = rates.into();
        })
    };
    let refused = |name: &str, spec: JobSpec| {
        let checked = scheduler(name).feasibility().check(&state, &Arc::new(spec));
        checked.err().map(|why| why.to_string())
    };
    let [gang, level] = [
        "asks for 8 GPUs, at most 4 are possible",
        "; the scheduler does not request its level of 4",
    ];
    for name in ["elasticflow", "edf", "fifo"] {
        let why = refused(name, elastic(&[]));
        assert_eq!(why, Some(format!("{gang}{level}")), "{name}");
    }
    assert_eq!(refused("fifo", job(0.0, 8, 3000.0)), Some(gang.to_owned()));
    assert_eq!(refused("elasticflow", elastic(&[1.0, 2.0, 3.0])), None);
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
        found.extend(differ(name, build, 400));
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

#[test]
fn jobs_on_nodes_end_under_every_scheduler() {
    let registry = blox::registry();
    // Half of the jobs state a number of nodes; the first jobs would block all later ones.
    let jobs: Vec<JobSpec> = (0..48)
        .map(|i| {
            let gpus = [4, 2, 8, 1, 4, 2, 1, 3][i % 8];
            let nodes = [2, 1, 2, 0, 0, 0, 1, 0][i % 8];
            let job = job(90.0 * i as f64, gpus, 900.0 + 400.0 * (i % 5) as f64);
            with(job, |extras| extras.nodes = NonZeroU32::new(nodes))
        })
        .collect();
    let mut refusing = Vec::new();
    let mut found = Vec::new();
    for (name, _) in (registry.schedulers.iter()).filter(|(name, _)| is_plain(name)) {
        let brief = match name {
            "pollux" => "pollux{population=8,generations=4}",
            other => other,
        };
        let report = run(
            &Simulation::new(ClusterSpec::uniform(4, 4)),
            scheduler(brief),
            &jobs,
        );
        let mut refused = false;
        for (job, spec) in report.jobs.iter().zip(&jobs) {
            let limited = spec.extras().nodes.is_some() && spec.gpus.get() > 1;
            match job.outcome {
                Some(Outcome::Completed) => {}
                Some(Outcome::Rejected) if limited => refused = true,
                other => found.push(format!(
                    "{name}: job {} {other:?} {:?}",
                    job.job, job.reason
                )),
            }
        }
        refusing.extend(refused.then_some(name));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let own = ["antman", "edf", "edf-admission", "ef", "elasticflow"];
    let own = [&own[..], &["eva", "hived", "pollux", "sia"]].concat();
    assert_eq!(refusing, own);
}

/// Builds a node of a type, without a name if it is empty, with CPUs and memory.
fn node(gpu_type: &str, gpus: u32, cpus: f64, memory_gib: f64) -> NodeSpec {
    let mut node = NodeSpec::with_gpus(gpus);
    (node.cpus, node.memory_gib) = (cpus, memory_gib);
    match gpu_type {
        "" => node,
        name => node.of_type(name),
    }
}

/// A job of a number of GPUs, with CPUs and memory.
fn needy(gpus: u32, cpus: f64, memory_gib: f64) -> JobSpec {
    with(job(0.0, gpus, 600.0), |extras| {
        (extras.cpus, extras.memory_gib) = (cpus, memory_gib);
    })
}

#[test]
fn job_gets_gpus_that_have_its_cpus_and_memory() {
    let faster = with(needy(1, 20.0, 0.0), |extras| {
        let mut speeds = TypeSpeeds::default();
        speeds.set("v100", 2.0);
        speeds.set("t4", 1.0);
        extras.speeds = Some(speeds.into());
    });
    let by_cpus = [node("v100", 4, 8.0, 0.0), node("t4", 4, 48.0, 0.0)];
    let by_memory = [node("v100", 4, 0.0, 50.0), node("t4", 4, 0.0, 400.0)];
    let (large, small) = (node("v100", 4, 48.0, 0.0), node("t4", 4, 8.0, 0.0));
    let over_nodes = [large.clone(), large, small.clone(), small];
    let short = [node("t4", 8, 0.0, 400.0), node("a100", 3, 0.0, 8.0)];
    let untyped = [node("", 6, 0.0, 0.0), node("", 2, 4.0, 0.0)];
    let few_cpus = vec![node("", 4, 8.0, 32.0); 3];
    let cases: [(&str, JobSpec, &[NodeSpec]); 7] = [
        ("CPUs", needy(1, 20.0, 0.0), &by_cpus),
        ("memory", needy(1, 0.0, 100.0), &by_memory),
        ("faster type", faster, &by_cpus),
        ("short of memory", needy(3, 0.0, 60.0), &short),
        ("over nodes", needy(8, 80.0, 0.0), &over_nodes),
        ("one type", needy(5, 30.0, 0.0), &untyped),
        ("spread", needy(2, 10.0, 0.0), &few_cpus),
    ];
    let mut found = Vec::new();
    for (what, spec, nodes) in cases {
        let nodes = nodes.to_vec();
        let cluster = ClusterSpec {
            nodes,
            ..ClusterSpec::default()
        };
        for name in ["sia", "gavel", "finish-time-fairness", "pollux"] {
            let (phase, why) = decided(&cluster, &spec, scheduler(name));
            if matches!(phase, Phase::Waiting | Phase::Ended) {
                found.push(format!("{what}, {name}: {phase:?}, {why}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn shares_return_to_a_type_with_new_nodes() {
    // The job fits on no node of its faster type until a larger one joins.
    let nodes = vec![node("v100", 4, 8.0, 0.0), node("t4", 4, 48.0, 0.0)];
    let mut case = Scenario::new(
        &ClusterSpec {
            nodes,
            ..ClusterSpec::default()
        },
        scheduler("gavel"),
    );
    let spec = with(needy(1, 20.0, 0.0), |extras| {
        let mut speeds = TypeSpeeds::default();
        speeds.set("v100", 2.0);
        speeds.set("t4", 1.0);
        extras.speeds = Some(speeds.into());
    });
    case.submit(0.0, spec);
    case.round(0.0);
    assert_eq!(case.gpus(0), Some(vec![4]));
    let spec = Box::new(node("v100", 4, 48.0, 0.0));
    case.event(1.0, Event::NodeJoined { spec });
    case.round(360.0);
    assert_eq!(case.gpus(0), Some(vec![8]));
}

#[test]
fn training_job_runs_at_its_levels() {
    let limits = TypeLimits {
        per_gpu: (16, 512),
        one_gpu_rate: 80.0,
        stages: 1,
    };
    let spec = with(job(0.0, 5, 600.0), |extras| {
        extras.levels = [2, 4, 5].map(GpuCount).into();
        extras.rates = vec![0.4, 0.9, 1.0];
        extras.training = Some(Arc::new(TrainingSpec {
            initial_batch: 128,
            max_batch: 4096,
            adapts: Adapts::All,
            restart: Seconds::new(30.0),
            types: [("v100".into(), limits)].into(),
        }));
    });
    let mut simulation = Simulation::new("1x8:v100".parse().unwrap());
    simulation = simulation.execution(Training::of(built_in()));
    for name in ["sia", "pollux"] {
        let report = run(&simulation, scheduler(name), std::slice::from_ref(&spec));
        assert_eq!(report.jobs[0].outcome, Some(Outcome::Completed), "{name}");
        // On two GPUs, at two fifths of its rate.
        assert_eq!(report.jobs[0].attained.secs(), 1500.0, "{name}");
    }
}

#[test]
fn sia_runs_pipelines_that_are_no_configuration() {
    let mut simulation = Simulation::new("2x4:v100".parse().unwrap());
    simulation = simulation.execution(Training::of(built_in()));
    for (stages, runs) in [(2, true), (3, true), (5, true), (9, false)] {
        let limits = TypeLimits {
            per_gpu: (16, 512),
            one_gpu_rate: 80.0,
            stages,
        };
        let spec = with(job(0.0, stages, 600.0), |extras| {
            extras.training = Some(Arc::new(TrainingSpec {
                initial_batch: 128,
                max_batch: 4096,
                adapts: Adapts::All,
                restart: Seconds::new(30.0),
                types: [("v100".into(), limits)].into(),
            }));
        });
        let report = run(&simulation, scheduler("sia"), std::slice::from_ref(&spec));
        let completed = report.jobs[0].outcome == Some(Outcome::Completed);
        let why = &report.jobs[0].outcome;
        assert_eq!(completed, runs, "{stages} stages: {why:?}");
        let rejected = matches!(why, Some(Outcome::Rejected));
        assert_eq!(rejected, !runs, "{stages} stages: {why:?}");
    }
}

#[test]
fn every_placement_rejects_a_gang_beyond_each_type() {
    let registry = blox::registry();
    let cluster: ClusterSpec = "1x8:v100,1x8:a100".parse().unwrap();
    let state = State::new(&cluster).unwrap();
    let spec = Arc::new(job(0.0, 16, 600.0));
    let mut found = Vec::new();
    for (name, _) in registry.placement.iter().filter(|(name, _)| is_plain(name)) {
        let named: ComponentSpec = name.parse().unwrap();
        let placement = || registry.placement.build(&named, 0).unwrap();
        let sia = composed("sia", Sia::default(), placement());
        let pollux = composed("pollux", Pollux::default(), placement());
        for pipeline in [sia, pollux] {
            let why = pipeline.feasibility().check(&state, &spec);
            let why = why.map_or_else(|why| why.to_string(), |()| "accepted".to_owned());
            if !why.starts_with("asks for 16 GPUs") {
                found.push(format!("{} with {name}: {why}", pipeline.name()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn reason_names_the_types_that_a_job_may_use() {
    let reason = |set: &dyn Fn(&mut Extras)| {
        let spec = Arc::new(with(job(0.0, 1, 60.0), set));
        let state = State::new(&"1x1:t4".parse().unwrap()).unwrap();
        let why = scheduler("fifo").feasibility().check(&state, &spec);
        why.unwrap_err().to_string()
    };
    let speeds = |rates: &[(&str, f64)]| {
        let mut speeds = TypeSpeeds::default();
        rates
            .iter()
            .for_each(|(name, rate)| speeds.set(*name, *rate));
        Some(Arc::new(speeds))
    };
    let named = reason(&|extras| extras.gpu_types = vec!["zz".into(), "yy".into()]);
    assert_eq!(
        named,
        "asks for 1 GPU of type zz or yy, the cluster has none"
    );
    let fast = reason(&|extras| extras.speeds = speeds(&[("slow", 0.1), ("t4", 0.0)]));
    assert_eq!(fast, "asks for 1 GPU of type slow, the cluster has none");
    let none = reason(&|extras| extras.speeds = speeds(&[("t4", 0.0)]));
    assert_eq!(
        none,
        "has a speed above 0 on no type of GPU that it may use"
    );
}
