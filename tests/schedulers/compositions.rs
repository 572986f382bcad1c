//! Simulations of Blox's own compositions and of Optimus.

use crate::cases::{composed, finishes, job, run, scheduler, with};
use blox::core::policy::scheduling_fn;
use blox::core::{
    ClusterSpec, Curve, GpuCount, JobQueue, JobSpec, LossCurve, LossReports, Outcome, Pipeline,
    Request, Seconds, Shape, Time, Validity,
};
use blox::policies::placement::{Consolidated, InOrder};
use blox::results::Summary;
use blox::sim::completion::Exact;
use blox::sim::execution::{FixedRate, Traffic};
use blox::sim::overheads::FixedOverheads;
use blox::sim::{Measure, Simulation};
use blox::traces::generate::{Arrivals, DurationLaw, Generator, GeneratorSpec, Load, with_losses};

/// Long jobs, and bursts of short ones.
fn bursty(load: f64, count: u64) -> Generator {
    let hours = |least, most| DurationLaw::Uniform {
        least: Seconds::from_hours(least),
        most: Seconds::from_hours(most),
    };
    let spec = GeneratorSpec {
        arrivals: Arrivals::Bursty {
            quiet: Seconds::from_hours(4.0),
            burst: Seconds::from_hours(2.0),
            factor: 5.0,
            durations: Some(hours(0.2, 1.0)),
        },
        gpus: vec![(1.0, 3.0), (4.0, 1.0)],
        seed: 3,
        count: Some(count),
        ..GeneratorSpec::new(Load::PerHour(load), hours(10.0, 24.0))
    };
    Generator::new(spec).expect("a sound workload")
}

#[test]
fn a_job_ends_when_its_loss_has_converged() {
    // 0.5, 0.25, 0.125 of the first loss; then steps below a tenth of it.
    let (b0, b1, b2) = (1.0, 1.0, 0.0);
    let curve = LossCurve { b0, b1, b2 };
    let job = |loss| with(job(0.0, 1, 10_000.0), |e| e.loss = loss);
    let reports = Some(LossReports {
        curve,
        epoch: 500.0,
    });
    // Losses 1/2, 1/3, 1/4, 1/5, 1/6: the steps are 1/6, 1/12, 1/20 and 1/30. Two in a
    // row below 0.12 x 1/2 are there after 5 epochs, at 2500 s; the round is at 2700 s.
    let policy = scheduler("loss-termination{tolerance=0.12,reports=2}");
    let two = Simulation::new(ClusterSpec::uniform(1, 2));
    let report = run(&two, policy, &[job(reports), job(None)]);
    assert_eq!(finishes(&report), [Some(2700.0), Some(10_200.0)]);
    assert_eq!(report.jobs[0].outcome, Some(Outcome::Terminated));
    assert_eq!(Summary::of(&report).completed, 2);
}

#[test]
fn placement_by_bandwidth_keeps_fast_pairs_together() {
    let job = |gpus| with(job(0.0, gpus, 1000.0), |e| e.communication = 0.5);
    let run = |name: &str, sizes: &[u32]| {
        let cluster: ClusterSpec = "1x4@p3.8xlarge".parse().expect("a cluster");
        let exact = Simulation::new(cluster).completion(Exact);
        let jobs: Vec<JobSpec> = sizes.iter().map(|g| job(*g)).collect();
        finishes(&run(&exact, scheduler(name), &jobs))
    };
    // One NVLink between 0 and 1, two between 2 and 3, and two of 0 and 3, 1 and 2.
    assert_eq!(run("fifo", &[2, 2]), [Some(1500.0), Some(1000.0)]);
    let fast = [Some(1000.0), Some(1000.0)];
    assert_eq!(run("bandwidth-placement", &[2, 2]), fast);
    // A single GPU leaves the two best links to others.
    assert_eq!(run("bandwidth-placement", &[1, 3]), fast);
}

#[test]
fn cassini_shifts_jobs_so_that_phases_interleave() {
    // Both jobs use the link of one node in the first half of each iteration.
    let cluster: ClusterSpec = "3x2,network=50".parse().unwrap();
    let steps = [(0.0, 50.0), (0.05, 0.0)].map(|(at, gbps)| (Seconds::new(at), gbps));
    let traffic = Curve::new(Seconds::new(0.1), steps);
    let job = |at| with(job(at, 3, 600.0), |e| e.traffic = traffic.clone());
    let run = |name: &str| {
        let world = Simulation::new(cluster.clone())
            .execution(Traffic::over(FixedRate))
            .overheads(FixedOverheads::TYPICAL)
            .completion(Exact);
        finishes(&run(&world, scheduler(name), &[job(0.0), job(60.0)]))
    };
    // Alone from 30 s to 90 s, the first does 60 s of its work at full speed.
    let unshifted = run("cassini{shifts=false}");
    assert_eq!(unshifted, [Some(900.0), Some(960.0)]);
    // The shift of the second costs neither of them any time.
    assert_eq!(run("cassini"), [Some(630.0), Some(690.0)]);
}

#[test]
fn tiresias_plus_skew_measured_consolidates() {
    let job = |at: f64, gpus, communication| {
        with(job(at, gpus, 1000.0), |e| e.communication = communication)
    };
    // Three GPUs are taken on each of two nodes with four GPUs. One GPU is free on each node.
    let run = |communication| {
        let jobs = [
            job(0.0, 3, 0.0),
            job(0.0, 3, 0.5),
            job(1.0, 2, communication),
        ];
        let nodes = Simulation::new(ClusterSpec::uniform(2, 4));
        finishes(&run(&nodes, scheduler("tiresias-plus"), &jobs))
    };
    let others = [Some(1200.0), Some(1200.0)];
    let apart = run(0.0);
    assert_eq!(apart[..2], others);
    assert_eq!(apart[2], Some(1500.0), "at once, over both nodes");
    assert_eq!(run(0.2)[2], Some(2400.0), "when a node has room");
}

#[test]
fn synthesizer_matches_the_best_static_on_bursts() {
    use blox::schedulers::{synthesizer, synthesizer_candidates};
    let average = |scheduler: Pipeline| {
        let report = Simulation::new(ClusterSpec::uniform(16, 4))
            .run(scheduler, &mut bursty(2.0, 600))
            .expect("a sound policy");
        assert_eq!(Summary::of(&report).completed, 600);
        Summary::of(&report).avg_jct_s
    };
    let statics: Vec<f64> = synthesizer_candidates(true)
        .into_iter()
        .map(average)
        .collect();
    let (best, worst) = statics
        .iter()
        .fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
    let ours = average(synthesizer());
    assert!(ours <= best, "{ours}, statics {statics:?}");
    assert!(worst > 1.05 * best, "the choice must matter: {statics:?}");
}

#[test]
fn optimus_gives_all_gpus_to_the_job_that_gains_most() {
    let job = |hours| {
        let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::from_hours(hours));
        with(job, |e| e.levels = (1..=8).map(GpuCount).collect())
    };
    // Alone, a job of 8 h gets 8 GPUs. Of two equal jobs, the first gets half of them.
    let run = |hours: &[f64]| {
        let jobs: Vec<JobSpec> = hours.iter().map(|h| job(*h)).collect();
        let exact = Simulation::new(ClusterSpec::uniform(2, 4)).completion(Exact);
        finishes(&run(&exact, scheduler("optimus"), &jobs))
    };
    assert_eq!(run(&[8.0]), [Some(3600.0)]);
    assert_eq!(run(&[8.0, 8.0]), [Some(7200.0), Some(7200.0)]);
    // With more jobs than GPUs, the shortest jobs run first.
    let many = run(&[9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(many[1..], [Some(3600.0); 8]);
    assert_eq!(many[0], Some(3600.0 + 9.0 / 8.0 * 3600.0));
}

#[test]
fn rigid_jobs_on_other_numbers_of_gpus_are_counted() {
    let all_on_one = scheduling_fn(|view, out: &mut JobQueue| {
        let shape = Shape::gpus(GpuCount(1));
        view.active()
            .for_each(|j| out.push(Request::with_shape(j.id(), shape.clone())));
        Validity::UntilEvent
    });
    let placement = InOrder::new(Consolidated::default());
    let one = composed("one", all_on_one, placement);
    let rigid = job(0.0, 2, 7200.0);
    let elastic = with(rigid.clone(), |e| {
        e.levels = [1, 2, 4].map(GpuCount).to_vec()
    });
    let jobs = [rigid.clone(), elastic, rigid];
    let resized = |scheduler: Pipeline, last: u32| {
        let measured = Simulation::new(ClusterSpec::uniform(2, 4)).measure(Measure::Ids(0, last));
        run(&measured, scheduler, &jobs).resized
    };
    assert_eq!(resized(one.clone(), 2), 2);
    assert_eq!(resized(one, 1), 1);
    assert_eq!(resized(scheduler("optimus"), 2), 0);
    assert_eq!(resized(scheduler("fifo"), 2), 0);
}

#[test]
fn skipped_rounds_change_nothing() {
    for name in [
        "loss-termination",
        "load-admission",
        "bandwidth-placement",
        "synthesizer{horizon_h=1}",
        "optimus",
        "tiresias-plus",
    ] {
        let run = |visit| {
            let mut jobs = with_losses(bursty(2.0, 200), 1);
            let report = Simulation::new("16x4@p3.8xlarge,network=10".parse().expect("a cluster"))
                .visiting_every_round(visit)
                .run(scheduler(name), &mut jobs)
                .expect("a sound policy");
            (report.jobs, report.counters.preemptions)
        };
        assert_eq!(run(false), run(true), "{name}");
    }
}

#[test]
fn decisions_replay_from_the_journal() {
    use blox::core::State;
    use blox::core::journal::JsonLines;
    use blox::core::replay::replay;
    use blox::core::runtime::Observers;
    let dir = tempfile::tempdir().expect("a folder");
    let cluster = ClusterSpec::uniform(8, 4);
    for name in ["loss-termination", "synthesizer{horizon_h=1}", "optimus"] {
        let path = dir.path().join("journal.jsonl");
        let out = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
        let mut jobs = with_losses(bursty(2.0, 100), 1);
        Simulation::new(cluster.clone())
            .run_journaled(
                scheduler(name),
                &mut jobs,
                Some(Box::new(JsonLines::new(out))),
            )
            .expect("a sound policy");
        let read = std::io::BufReader::new(std::fs::File::open(&path).expect("the file"));
        let again = scheduler(name);
        let state = State::new(&cluster).expect("a sound cluster");
        let (trigger, mut nobody) = (again.trigger(), Observers::default());
        let replayed = replay(read, state, trigger, Box::new(again), &mut nobody);
        assert!(replayed.is_ok(), "{name}: {:?}", replayed.err());
    }
}

/// Checks the number of rows that equal the released program or its rules.
#[cfg(feature = "released")]
fn equals_the_artifact(name: &str, expected: usize) {
    let figure = blox::released::figures::figure(name).expect("a figure");
    let plan = figure.plan(None).expect("no data needed");
    let ended = std::sync::atomic::AtomicU64::new(0);
    let findings = plan
        .reproduce(&[], &ended)
        .expect("they can go on")
        .findings
        .expect("none was stopped");
    let mut compared = 0;
    for row in &findings.rows {
        let Some(theirs) = row.artifact else { continue };
        let unit = 10f64.powi(-(row.decimals as i32));
        let near = (row.ours - theirs.value).abs() <= 0.5000001 * unit;
        assert!(near, "{}: {} and {}", row.what, row.ours, theirs.value);
        compared += 1;
    }
    assert_eq!(compared, expected);
    for claim in &findings.claims {
        assert!(claim.holds, "{}", claim.text);
    }
}

#[cfg(feature = "released")]
#[test]
fn admission_by_load_equals_the_released_averages() {
    equals_the_artifact("blox-fig12", 13);
}

#[cfg(feature = "released")]
#[test]
fn sweep_of_loads_equals_the_released_averages() {
    equals_the_artifact("blox-fig6", 54);
}

/// Runs a scheduler on small jobs with preemption, each changed by `change`.
fn finishes_of_changed(name: &str, change: impl Fn(&mut JobSpec)) -> Vec<Option<f64>> {
    use blox::sim::workload::Workload;
    let mut jobs = bursty(30.0, 40);
    let mut specs = Vec::new();
    while let Some(mut job) = jobs.next_job().expect("generated jobs") {
        change(&mut job);
        specs.push(job);
    }
    let nodes = Simulation::new(ClusterSpec::uniform(2, 4));
    finishes(&run(&nodes, scheduler(name), &specs))
}

#[test]
fn data_that_no_policy_reads_changes_no_result() {
    let names: Vec<_> = {
        let registry = blox::registry();
        registry.schedulers.names().map(str::to_owned).collect()
    };
    let mut compared = 0;
    for name in names {
        let bare = finishes_of_changed(&name, |_| {});
        let with_data = finishes_of_changed(&name, |job| {
            *job = with(job.clone(), |e| {
                e.attributes = [("unread".into(), "data".into())].into();
            });
        });
        assert_eq!(bare, with_data, "{name}");
        compared += usize::from(bare.iter().all(Option::is_some));
    }
    assert!(compared > 20, "{compared} schedulers ran to their end");
}
