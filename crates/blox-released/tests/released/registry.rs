//! Schedulers by name: behaviour that must hold for any jobs.

use blox_core::{ClusterSpec, Extras, GpuCount, JobSpec, Outcome, Pipeline, Seconds, Time};
use blox_registry::ComponentSpec;
use blox_results::Summary;
use blox_sim::results::AssignmentRow;
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use std::sync::{Arc, Mutex};

fn scheduler(name: &str) -> Pipeline {
    let named: ComponentSpec = name.parse().expect("a name");
    let registry = blox_released::register(blox_schedulers::registry());
    registry.schedulers.build(&named, 1).expect("a scheduler")
}

/// Creates jobs from submission, GPUs, duration, and GPU types separated by `;`.
fn jobs(rows: &[(f64, u32, f64, &str)]) -> Vec<JobSpec> {
    let job = |(submit, gpus, duration, types): &(f64, u32, f64, &str)| {
        let types = types.split(';').filter(|t| !t.is_empty());
        let extras = Extras {
            gpu_types: types.map(Into::into).collect(),
            ..Extras::default()
        };
        let (submit, duration) = (Time::new(*submit), Seconds::new(*duration));
        JobSpec::new(submit, GpuCount(*gpus), duration).with_extras(extras)
    };
    rows.iter().map(job).collect()
}

fn run(name: &str, cluster: &str, jobs: Vec<JobSpec>) -> (Report, Vec<AssignmentRow>) {
    let cluster: ClusterSpec = cluster.parse().expect("a cluster");
    let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
    let report = Simulation::new(cluster)
        .assignments_to(Some(rows.clone()))
        .run(scheduler(name), &mut Jobs::new(jobs))
        .expect("a right plan every time");
    let rows = rows.lock().expect("nobody else has it").clone();
    (report, rows)
}

fn finishes(report: &Report) -> Vec<Option<f64>> {
    let all = report.jobs.iter();
    all.map(|j| j.finish.map(|t| t.secs())).collect()
}

#[test]
fn lucid_keeps_jobs_on_the_types_that_they_name() {
    // The first node has v100s. The last nodes are reserved for profiling.
    for (name, cluster) in [
        ("lucid{profiler_nodes=0}", "1x4:v100,2x4:a100"),
        ("lucid", "1x4:v100,2x4:a100"),
        ("lucid", "4x4:v100,8x4:a100"),
        ("lucid", "8x4:a100,4x4:v100"),
    ] {
        let rows = [(0.0, 4, 600.0, "v100"); 3];
        let mut list = jobs(&rows);
        list.extend(jobs(&[(0.0, 2, 900.0, "a100"), (5.0, 8, 900.0, "a100")]));
        // All jobs may share GPUs.
        for job in &mut list {
            let extras = job.extras.get_or_insert_default();
            extras.attributes.insert("sharing_score".into(), 0.into());
            extras.attributes.insert("gmem".into(), 100.into());
        }
        let spec: ClusterSpec = cluster.parse().expect("a cluster");
        let per_node = spec.nodes.iter().flat_map(|n| {
            let name = n.gpu_type.clone().expect("all are named");
            (0..n.gpus).map(move |_| name.clone())
        });
        let types: Vec<_> = per_node.collect();
        let (report, rows) = run(name, cluster, list.clone());
        assert_eq!(Summary::of(&report).completed, 5, "{name} on {cluster}");
        for row in rows {
            let named = &list[row.job.index()].extras().gpu_types;
            for gpu in &row.gpus {
                let at = &types[gpu.0 as usize];
                assert!(named.contains(at), "{name} on {cluster}: {row:?}");
            }
        }
    }
}

#[test]
fn jobs_that_can_never_run_are_turned_away() {
    for name in ["tiresias-dlas-gpu", "sia", "pollux{generations=4}", "lucid"] {
        let wide = jobs(&[
            (0.0, 8, 5000.0, ""),
            (10.0, 99, 5000.0, ""),
            (20.0, 4, 5000.0, ""),
        ]);
        let typed = jobs(&[
            (0.0, 8, 5000.0, "v100"),
            (10.0, 1, 5000.0, "k80"),
            (20.0, 4, 5000.0, "v100"),
        ]);
        for (cluster, list) in [("2x8", wide), ("2x8:v100", typed)] {
            let (report, _) = run(name, cluster, list);
            let outcomes: Vec<_> = report.jobs.iter().map(|j| j.outcome).collect();
            let done = Some(Outcome::Completed);
            let expected = [done, Some(Outcome::Rejected), done];
            assert_eq!(outcomes, expected, "{name} on {cluster}");
        }
    }
    // These schedulers do not give a job GPUs of two types.
    for name in ["sia", "pollux{generations=4}"] {
        let list = jobs(&[(0.0, 12, 5000.0, ""), (0.0, 8, 5000.0, "")]);
        let (report, _) = run(name, "1x8:v100,1x8:k80", list);
        assert_eq!(report.jobs[0].outcome, Some(Outcome::Rejected), "{name}");
        assert_eq!(report.jobs[1].outcome, Some(Outcome::Completed), "{name}");
    }
}

#[test]
fn tiresias_released_grants_gpus_of_the_named_types() {
    let list = jobs(&[
        (0.0, 3, 5000.0, "v100"),
        (10.0, 4, 5000.0, "a100"),
        (20.0, 5, 700.0, "v100;a100"),
        (30.0, 8, 700.0, ""),
        (40.0, 8, 600.0, "a100"),
        (45.0, 9, 600.0, "v100"),
    ]);
    let (report, _) = run("tiresias-dlas-gpu", "2x4:v100,1x8:a100", list);
    assert_eq!(report.jobs[5].outcome, Some(Outcome::Rejected));
    let late = finishes(&report)[..5]
        .iter()
        .any(|f| f.is_none_or(|f| f > 8000.0));
    assert!(!late, "{:?}", finishes(&report));
    // The first job of a queue does not block GPUs that it cannot use.
    let list = jobs(&[
        (0.0, 4, 1000.0, "v100"),
        (1.0, 4, 100.0, "v100"),
        (2.0, 4, 100.0, "a100"),
        (3.0, 4, 100.0, "a100"),
    ]);
    let (report, _) = run("tiresias-dlas-gpu", "1x4:v100,1x4:a100", list);
    let finishes = finishes(&report);
    assert_eq!([finishes[2], finishes[3]], [Some(102.0), Some(202.0)]);
}

#[test]
fn shockwave_plans_alike_whenever_a_trace_begins() {
    let shifted = |shift: f64| {
        let list = jobs(&[
            (shift, 4, 3000.0, ""),
            (shift, 4, 6000.0, ""),
            (shift, 8, 2400.0, ""),
            (shift + 120.0, 4, 1200.0, ""),
            (shift + 240.0, 8, 3600.0, ""),
            (shift + 360.0, 4, 600.0, ""),
        ]);
        let (report, _) = run("shockwave", "2x4", list);
        let relative = |f: Option<f64>| f.map(|f| f - shift);
        finishes(&report)
            .into_iter()
            .map(relative)
            .collect::<Vec<_>>()
    };
    let at_once = shifted(0.0);
    assert!(at_once.iter().all(Option::is_some));
    for shift in [3600.0, 360_000.0] {
        assert_eq!(shifted(shift), at_once, "{shift} s later");
    }
}

#[test]
fn blox_released_schedulers_reject_jobs_naming_types() {
    for name in ["fifo", "las", "srtf", "tiresias", "optimus"] {
        let list = jobs(&[(0.0, 4, 600.0, "k80"), (0.0, 4, 600.0, "v100;k80")]);
        let (report, _) = run(&format!("blox-{name}"), "1x4:v100,1x4:k80", list);
        assert_eq!(report.jobs[0].outcome, Some(Outcome::Rejected), "{name}");
        assert_eq!(report.jobs[1].outcome, Some(Outcome::Completed), "{name}");
        let why = "names types of GPU, which this placement does not know";
        assert_eq!(report.jobs[0].reason.as_deref(), Some(why), "{name}");
    }
}

#[test]
fn meaningless_parameters_are_refused() {
    let registry = blox_released::register(blox_schedulers::registry());
    let message = |text: &str| {
        let named: ComponentSpec = text.parse().expect("a name");
        let built = registry.schedulers.build(&named, 1);
        built.err().map(|e| e.to_string()).unwrap_or_default()
    };
    for (text, found, expected) in [
        ("pollux{power=0}", "0", "a number other than 0"),
        (
            "pollux{population=0}",
            "0",
            "a whole number from 2 to 10000",
        ),
        ("sia{power=0}", "0", "a number other than 0"),
        ("sia{lambda=-5}", "-5", "a number of at least 0"),
        (
            "optimus{reports=0}",
            "0",
            "a whole number from 1 to 1048576",
        ),
        ("lucid{scores=-2}", "-2", "a number of at least 0, or -1"),
        ("lucid{memory_mib=-1}", "-1", "a number above 0"),
        ("gavel{gap_s=-1}", "-1", "a number of at least 0"),
        ("allox{alpha=2}", "2", "a part above 0 and at most 1"),
        (
            "gavel{prices=v100:2}",
            "v100:2",
            "policy=max-throughput-per-cost with it",
        ),
        (
            "loss-termination{reports=0}",
            "0",
            "a whole number from 1 to 1048576",
        ),
        (
            "loss-termination{tolerance=2}",
            "2",
            "a part above 0 and at most 1",
        ),
        (
            "synthesizer{every_rounds=0}",
            "0",
            "a whole number from 1 to 1048576",
        ),
        ("shockwave{gap=2}", "2", "a share from 0 to 1"),
        ("chronus{nodes=5}", "5", "choice=optimal with it"),
        ("qssf{sigma=3}", "3", "estimator=noisy with it"),
        (
            "qssf{estimator=noisy,origin=foo}",
            "foo",
            "estimator=learned with it",
        ),
        (
            "qssf{model=nosuch.json}",
            "nosuch.json",
            "estimator=learned with it",
        ),
        (
            "tiresias{sigma=1}",
            "1",
            "estimator=noisy or learned with it",
        ),
        (
            "tiresias-dlas-gpu{promote=-1}",
            "-1",
            "a number above 0, or none",
        ),
        (
            "tiresias-dlas-gpu{thresholds=7200/3250}",
            "[7200.0, 3250.0]",
            "ascending numbers of GPU-seconds above 0",
        ),
        (
            "qssf{estimator=learned}",
            "none",
            "a file that `blox estimate train` saved",
        ),
    ] {
        let sentence = format!("is `{found}`, expected {expected}");
        assert!(
            message(text).ends_with(&sentence),
            "{text}: {}",
            message(text)
        );
    }
    for text in [
        "allox{alpha=0.2}",
        "gavel{policy=max-throughput-per-cost-in-time,prices=v100:2}",
        "lucid{scores=-1,profiler_nodes=0}",
        "tiresias{estimator=noisy,sigma=1}",
        "chronus{choice=optimal,nodes=5}",
        "shockwave{gap=0}",
    ] {
        assert_eq!(message(text), "", "{text}");
    }
}
