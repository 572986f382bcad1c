//! Comparison of Sia and Pollux with published results. The data are in the folder that
//! `BLOX_GOLDEN` names. Without it, these tests print a message and pass.
#![cfg(all(feature = "released", feature = "testing"))]

use crate::cases::{Placed, scheduler};
use blox::core::decision::Command;
use blox::core::{
    Adapts, ClusterSpec, Event, Extras, GpuCount, GpuList, GradientNoise, JobId, JobSpec, NodeSpec,
    Pipeline, Rounds, Seconds, SpeedReport, ThroughputParams, Time, TrainingReport, TrainingSpec,
    TypeLimits,
};
use blox::perf::applications::{Applications, built_in};
use blox::perf::goodput::{BatchLimits, GoodputModel, StepTime, batch_on, fit};
use blox::policies::scheduling::PolluxSettings;
use blox::released::sia::world as files;
use blox::released::sia::{self as released, pollux};
use blox::results::Summary;
use blox::schedulers::{pollux, pollux_with, sia};
use blox::sim::Simulation;
use blox::sim::execution::Training;
use blox::sim::overheads::CheckpointRestart;
use blox::sim::workload::{Jobs, collect};
use blox::testing::Scenario;
use blox::traces::applications::read_dir;
use blox::traces::{Format, open_file};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// A job whose goodput model permits no configuration within its limits continues as it started.
#[test]
fn job_without_permitted_configuration_still_runs() {
    let training = |stages, adapts| TrainingSpec {
        initial_batch: 128,
        max_batch: 4096,
        adapts,
        restart: Seconds::new(1.0),
        types: [(
            "".into(),
            TypeLimits {
                per_gpu: (8, 32),
                one_gpu_rate: 100.0,
                stages,
            },
        )]
        .into(),
    };
    let step = StepTime {
        nodes: 1,
        gpus: 1,
        per_gpu: 32,
        compute: 0.1,
        step: 0.1,
    };
    let speed = |most| SpeedReport {
        params: fit(&[step]).unwrap(),
        most_gpus: GpuCount(most),
    };
    for (policy, stages, adapts, asked) in [
        // A pipeline does not accumulate gradients. Its first batch needs four pipelines, and the
        // policy may try two.
        (sia(), 2, Adapts::All, None),
        (sia(), 1, Adapts::Gpus, Some(64)),
        (pollux(), 1, Adapts::Gpus, Some(64)),
    ] {
        let rounds = Rounds::every(Seconds::new(60.0)).unwrap();
        let mut case = Scenario::deciding(&ClusterSpec::uniform(1, 4), rounds, policy);
        let training = training(stages, adapts);
        let config = batch_on(&training, "", 1, GpuCount(stages), asked, None);
        let extras = Extras {
            training: Some(Arc::new(training)),
            batch_size: asked,
            ..Extras::default()
        };
        let job = JobId(0);
        let spec = JobSpec::new(Time::ZERO, GpuCount(4), Seconds::new(9e5)).with_extras(extras);
        case.submit(0.0, spec);
        let noise = GradientNoise { sqr: 1.0, var: 1.0 };
        let report = TrainingReport {
            noise,
            speed: [("".into(), speed(stages))].into(),
        };
        for round in 0..10 {
            let at = 60.0 * f64::from(round);
            case.decide(at);
            for command in std::mem::take(&mut case.commands) {
                match command {
                    Command::Start { job, attempt } => case.started(at, job.0, attempt),
                    other => panic!("{stages} {adapts:?}: {other:?}"),
                }
            }
            let j = case.job(0);
            let bound = j.bound().map(|a| a.gpus.len() as u32);
            if round > 2 {
                assert_eq!(bound, Some(stages), "round {round}: {}", j.reason());
            }
            if bound.is_none() {
                continue;
            }
            let its = j.spec().extras().training.as_ref().unwrap();
            let again = batch_on(its, "", 1, GpuCount(stages), asked, Some(&report));
            assert_eq!(again, config);
            let report = Arc::new(report.clone());
            case.event(at + 60.0, Event::Reported { job, report });
        }
    }
}

fn golden() -> Option<PathBuf> {
    let Some(dir) = std::env::var_os("BLOX_GOLDEN") else {
        // Past the capture of the test harness, which hides what `println!` writes.
        let _ = writeln!(std::io::stderr(), "skipped: BLOX_GOLDEN is not set");
        return None;
    };
    Some(PathBuf::from(dir).join("sia"))
}

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(serde_json::Value::as_f64).collect()
}

#[test]
fn goodput_and_batch_equal_the_original() {
    let Some(dir) = golden() else { return };
    let text = std::fs::read_to_string(dir.join("goodput_vectors.jsonl")).unwrap();
    let mut checked = 0;
    for line in text.lines() {
        let v: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| v[name].as_f64().unwrap();
        let params: [f64; 7] = numbers(&v["params"]).try_into().unwrap();
        let model = GoodputModel {
            speed: ThroughputParams::from_array(params),
            noise: GradientNoise {
                sqr: number("grad_sqr"),
                var: number("grad_var"),
            },
            initial_batch: number("init") as u32,
        };
        let limits = BatchLimits {
            max_batch: number("max_batch") as u32,
            per_gpu: (number("lo") as u32, number("hi") as u32),
            accumulate: true,
        };
        let (nodes, gpus) = (numbers(&v["nodes"]), numbers(&v["replicas"]));
        let expected = &v["f64"];
        let goodputs = numbers(&expected["goodput"]);
        let (per_gpu, passes) = (numbers(&expected["atomic"]), numbers(&expected["accum"]));
        for i in 0..nodes.len() {
            let best = model.best_batch(nodes[i] as u32, gpus[i] as u32, &limits);
            assert!((best.goodput / goodputs[i] - 1.0).abs() < 1e-6, "{line}");
            assert_eq!(f64::from(best.config.per_gpu), per_gpu[i], "{line}");
            assert_eq!(f64::from(best.config.accumulation), passes[i], "{line}");
            checked += 1;
        }
    }
    assert_eq!(checked, 1400);
}

fn osdi_applications(dir: &std::path::Path) -> Applications {
    let mut applications = read_dir(dir.join("traces-sia")).unwrap();
    let points = dir.join("osdi-shipped/throughput_calls.csv");
    assert!(released::add_points(&mut applications, &points).unwrap() > 0);
    applications
}

/// Compares the published end of each job of a workload with the simulated end.
fn equal_jobs(policy: &str) {
    let Some(dir) = golden() else { return };
    let applications = osdi_applications(&dir);
    let restarting = files::pollux_applications(applications.clone());
    let shipped = dir.join("osdi-shipped");
    let summary = shipped.join(format!("{policy}-1.0.summary.json"));
    let summary: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(summary).unwrap()).unwrap();
    let cluster = ClusterSpec {
        nodes: vec![NodeSpec::with_gpus(4).of_type("aws"); 16],
        ..ClusterSpec::default()
    };
    for number in 1..=8 {
        let name = format!("workload-{number}");
        let path = shipped.join("workloads").join(format!("{name}.csv"));
        let mut jobs = collect(&mut open_file(path, Some(Format::Sia)).unwrap()).unwrap();
        for job in &mut jobs {
            assert!(restarting.describe(job, Adapts::Nothing));
        }
        let round = Seconds::new(pollux::ROUND_S);
        let scheduler = match policy {
            "tiresias" => pollux::tiresias(round),
            _ => pollux::optimus(round, restarting.clone()),
        };
        let report = Simulation::new(cluster.clone())
            .execution(files::pollux_training(applications.clone()))
            .overheads(CheckpointRestart::default())
            .run(scheduler, &mut Jobs::new(jobs))
            .unwrap();
        let all = summary["jcts"].as_object().unwrap();
        let key = all.keys().find(|k| k.contains(&name)).unwrap();
        let theirs = all[key].as_object().unwrap();
        assert_eq!(theirs.len(), report.jobs.len());
        let mut different = Vec::new();
        for job in &report.jobs {
            let name = job.name.as_ref().unwrap().as_str();
            let jct = job.finish.unwrap() - job.submit;
            // An instantaneous step ends slightly later here.
            let equal = |theirs: f64| (theirs - jct.secs()).abs() < 1e-4;
            if !theirs[name].as_f64().is_some_and(equal) {
                different.push((name.to_owned(), theirs[name].as_f64(), jct.secs()));
            }
        }
        assert!(different.is_empty(), "{policy} {number}: {different:?}");
    }
}

#[test]
fn tiresias_of_the_pollux_artifact_is_equal_per_job() {
    equal_jobs("tiresias");
}

#[test]
fn optimus_of_the_pollux_artifact_is_equal_per_job() {
    equal_jobs("optimus");
}

fn training_jobs(adapts: Adapts) -> Vec<JobSpec> {
    let applications = built_in();
    let kinds = [
        ("cifar10", 4, 512),
        ("bert", 2, 24),
        ("deepspeech2", 4, 160),
    ];
    let job = |i: u32| {
        let (model, gpus, batch) = kinds[i as usize % kinds.len()];
        let submit = Time::new(90.0 * f64::from(i));
        let mut job = JobSpec::new(submit, GpuCount(gpus), Seconds::new(1.0)).with_extras(Extras {
            model: Some(model.into()),
            batch_size: Some(batch),
            ..Extras::default()
        });
        assert!(applications.describe(&mut job, adapts));
        job
    };
    (0..12).map(job).collect()
}

fn brief_pollux() -> Pipeline {
    let search = PolluxSettings {
        population: 20,
        generations: 20,
        patience: 5,
        ..PolluxSettings::DEFAULT
    };
    pollux_with(search, Seconds::new(60.0), None)
}

#[test]
fn both_run_without_any_file_and_the_same_twice() {
    let cluster: ClusterSpec = "3x4:aws,1x8:dgx-ext".parse().unwrap();
    for build in [sia as fn() -> Pipeline, brief_pollux] {
        for adapts in [Adapts::All, Adapts::Gpus, Adapts::Nothing] {
            let run = |every_round| {
                Simulation::new(cluster.clone())
                    .overheads(CheckpointRestart::default())
                    .visiting_every_round(every_round)
                    .run(build(), &mut Jobs::new(training_jobs(adapts)))
                    .unwrap()
            };
            let report = run(false);
            assert_eq!(Summary::of(&report).completed, 12, "{adapts:?}");
            assert_eq!(report.jobs, run(true).jobs, "{adapts:?}");
        }
    }
}

#[test]
fn an_adaptive_job_gets_what_there_is() {
    for (adapts, ends) in [(Adapts::All, 1), (Adapts::Gpus, 1), (Adapts::Nothing, 0)] {
        let job = training_jobs(adapts).swap_remove(0);
        assert_eq!(job.gpus, GpuCount(4));
        let base = || Simulation::new("1x2:aws".parse().unwrap());
        let released = released::simulation(base(), files::training(built_in()));
        for (simulation, policy) in [
            (released, released::sia(Seconds::new(60.0), built_in())),
            (base(), sia()),
            (base(), brief_pollux()),
        ] {
            let name = blox::core::Scheduler::name(&policy).to_owned();
            let report = simulation.run(policy, &mut Jobs::new(vec![job.clone()]));
            assert_eq!(
                Summary::of(&report.unwrap()).completed,
                ends,
                "{name} {adapts:?}"
            );
        }
    }
}

#[test]
fn tuned_jobs_run_on_one_type_under_type_blind_policy() {
    // Each type has six GPUs. Jobs with four GPUs leave free GPUs of several types.
    let cluster: ClusterSpec = "1x4:aws,1x2:aws,1x4:rtx,1x2:rtx,1x4:dgx-ext,1x2:dgx-ext"
        .parse()
        .unwrap();
    let mut jobs = training_jobs(Adapts::Nothing);
    // No type has eight GPUs.
    let mut large = jobs[0].clone();
    large.gpus = GpuCount(8);
    jobs.push(large);
    for name in "fifo las tiresias optimus shockwave finish-time-fairness".split(' ') {
        let placed = Placed::default();
        let report = Simulation::new(cluster.clone())
            .overheads(CheckpointRestart::default())
            .run_journaled(
                scheduler(name),
                &mut Jobs::new(jobs.clone()),
                Some(Box::new(placed.clone())),
            )
            .unwrap();
        // The types have six GPUs each.
        let of_one_type = |gpus: &GpuList| gpus.iter().all(|g| g.0 / 6 == gpus[0].0 / 6);
        let mixed = placed
            .0
            .lock()
            .unwrap()
            .iter()
            .any(|(_, gpus)| !of_one_type(gpus));
        assert!(!mixed, "{name}");
        let s = Summary::of(&report);
        assert_eq!((s.completed, s.rejected), (12, 1), "{name}");
    }
}

/// A job of pipelines: 2 stages on `dgx-ext`, 8 on `rtx`.
fn pipelined(adapts: Adapts) -> JobSpec {
    let mut job = JobSpec::new(Time::ZERO, GpuCount(8), Seconds::new(1.0)).with_extras(Extras {
        model: Some("gpt_pmp".into()),
        batch_size: Some(192),
        ..Extras::default()
    });
    assert!(built_in().describe(&mut job, adapts));
    job
}

#[test]
fn pipelines_run_on_whole_replicas() {
    for (cluster, widths) in [
        // One replica, then twice the number of replicas that it has run on, within the number of
        // nodes.
        ("2x8:dgx-ext", &[2, 4, 8, 16][..]),
        ("3x8:rtx", &[8, 16, 24][..]),
        // A type without a pipeline.
        ("4x4:aws", &[][..]),
        // Nodes without a type.
        ("4x4", &[][..]),
    ] {
        let seen = Placed::default();
        let report = Simulation::new(cluster.parse().unwrap())
            .overheads(CheckpointRestart::default())
            .execution(Training::of(built_in()))
            .run_journaled(
                sia(),
                &mut Jobs::new(vec![pipelined(Adapts::All)]),
                Some(Box::new(seen.clone())),
            )
            .unwrap();
        let completed = u64::from(!widths.is_empty());
        assert_eq!(Summary::of(&report).completed, completed, "{cluster}");
        assert_eq!(Summary::of(&report).rejected, 1 - completed, "{cluster}");
        let placed = seen.0.lock().unwrap();
        let seen: Vec<usize> = placed.iter().map(|(_, gpus)| gpus.len()).collect();
        assert_eq!(seen, widths, "{cluster}");
    }
}

#[test]
fn pipeline_step_time_follows_its_stages() {
    let applications = built_in();
    let app = applications.get("gpt_pmp").unwrap();
    let on = |name: &str| &app.types[name];
    // 48 micro-batches through 2 stages: 3 x (2 - 1 + 48) x 0.144 s; through 8 of 0.099 s.
    let near = |found: Option<(f64, f64)>, step: f64, sync: f64| {
        let (a, b) = found.unwrap();
        assert!(
            (a - step).abs() < 1e-6 && (b - sync).abs() < 1e-6,
            "{a} {b}"
        );
    };
    near(on("dgx-ext").step(&[2], 48), 21.168, 0.0);
    near(on("dgx-ext").step(&[8], 48), 21.168 + 0.02166, 0.02166);
    near(on("rtx").step(&[8, 8], 48), 16.335 + 0.435, 0.435);
    assert_eq!(on("rtx").step(&[8, 4], 48), None);
    assert_eq!(on("rtx").step(&[4], 48), None);
}

#[test]
fn training_figures_are_in_the_summary() {
    let cluster: ClusterSpec = "3x4:aws,1x8:dgx-ext".parse().unwrap();
    let run = |jobs| {
        Simulation::new(cluster.clone())
            .overheads(CheckpointRestart::default())
            .run(sia(), &mut Jobs::new(jobs))
            .unwrap()
    };
    let report = run(training_jobs(Adapts::Nothing));
    let figures = Summary::of(&report).training.unwrap();
    let given: f64 = report
        .jobs
        .iter()
        .map(|j| j.given.as_deref().unwrap().gpu.hours())
        .sum();
    let ran: f64 = report.jobs.iter().map(|j| j.attained_gpu.hours()).sum();
    assert_eq!(figures.jobs, 12);
    assert!((figures.gpu_hours - given / 12.0).abs() < 1e-9);
    // Restarts and the rest of the last round also count as allocated.
    assert!(given > ran);
    assert!(figures.most_contention <= 12 && figures.contention > 1.0);
    let plain = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0));
    assert_eq!(Summary::of(&run(vec![plain])).training, None);
}

#[test]
fn tuned_batches_and_gpus_shorten_training() {
    let cluster: ClusterSpec = "3x4:aws,1x8:dgx-ext".parse().unwrap();
    let jct = |adapts| {
        let report = Simulation::new(cluster.clone())
            .overheads(CheckpointRestart::default())
            .run(sia(), &mut Jobs::new(training_jobs(adapts)))
            .unwrap();
        Summary::of(&report).avg_jct_s
    };
    assert!(jct(Adapts::All) < jct(Adapts::Nothing));
}
