//! Guaranteed jobs beside opportunistic ones, in the world of `antman`.

use super::cases::{self, job, with};
use blox::core::{Class, ClusterSpec, JobSpec, Time};
use blox::results::Summary;
use blox::sim::completion::Exact;
use blox::sim::registry::World;
use blox::sim::{Report, Simulation};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

fn used(job: JobSpec, part: f64, class: Class) -> JobSpec {
    with(job, |extras| {
        let name = "gpu_utilisation".into();
        extras.attributes.insert(name, part.into());
        extras.class = class;
    })
}

fn run(nodes: usize, gpus: u32, jobs: &[JobSpec]) -> Report {
    let model = "opportunistic".parse().unwrap();
    let model = blox::registry()
        .execution_models()
        .build(&model, 0)
        .unwrap();
    let simulation = Simulation::new(ClusterSpec::uniform(nodes, gpus));
    let simulation = simulation.completion(Exact).execution(model);
    cases::run(&simulation, blox::schedulers::antman(), jobs)
}

fn ends(report: &Report) -> Vec<f64> {
    let end = |at: Option<Time>| at.map_or(f64::NAN, Time::secs);
    report.jobs.iter().map(|job| end(job.finish)).collect()
}

#[test]
fn opportunistic_jobs_use_what_is_left() {
    let spot = Class::BEST_EFFORT;
    // 40 % are left, and the opportunistic job uses 80 % alone.
    let jobs = [
        used(job(0.0, 1, 1000.0), 0.6, Class::Guaranteed),
        used(job(0.0, 1, 400.0), 0.8, spot),
    ];
    assert_eq!(ends(&run(1, 1, &jobs)), [1000.0, 800.0]);
    // Nothing is left from 300 to 900; an opportunistic job keeps a hundredth of its speed.
    let jobs = [
        used(job(0.0, 1, 1000.0), 1.0, spot),
        used(job(300.0, 1, 600.0), 1.0, Class::Guaranteed),
    ];
    assert_eq!(ends(&run(1, 1, &jobs)), [1594.0, 900.0]);
    // Opportunistic jobs divide what is left.
    let jobs = [
        used(job(0.0, 1, 1000.0), 0.5, Class::Guaranteed),
        used(job(0.0, 1, 200.0), 0.25, spot),
        used(job(0.0, 1, 200.0), 0.75, spot),
    ];
    assert_eq!(ends(&run(1, 1, &jobs)), [1000.0, 400.0, 400.0]);
}

#[test]
fn guaranteed_jobs_end_as_if_alone() {
    for seed in 0..30 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut at = 0.0;
        let draw = |_| {
            at += rng.random_range(0.0..900.0);
            let gpus = [1, 1, 2, 4, 8][rng.random_range(0..5)];
            let lasts = job(at, gpus, rng.random_range(300.0..20_000.0));
            let class = [Class::Guaranteed, Class::BEST_EFFORT][rng.random_range(0..2)];
            used(lasts, rng.random_range(0.1..1.0), class)
        };
        let jobs: Vec<JobSpec> = (0..80).map(draw).collect();
        let owns = |job: &JobSpec| job.extras().class == Class::Guaranteed;
        let alone: Vec<JobSpec> = jobs.iter().filter(|job| owns(job)).cloned().collect();
        let beside = run(3, 4, &jobs);
        assert_eq!(
            (
                Summary::of(&beside).completed,
                Summary::of(&beside).preemptions
            ),
            (80, 0)
        );
        let all = ends(&beside);
        let theirs = jobs.iter().zip(all).filter(|(job, _)| owns(job));
        let theirs: Vec<f64> = theirs.map(|(_, end)| end).collect();
        assert_eq!(theirs, ends(&run(3, 4, &alone)), "seed {seed}");
    }
}
