//! Benchmarks of whole simulations and of single decisions.
//!
//! Run them with `cargo bench`; the tests measure no times.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use blox::core::runtime::Runtime;
use blox::core::{
    ClusterSpec, Event, Extras, JobId, JobSpec, Outcome, Pipeline, Rounds, Seconds, Share, State,
    Time,
};
use blox::core::{Command, GpuCount};
use blox::sim::workload::Jobs;
use blox::sim::{Measure, Simulation};
use blox::traces::generate::blox::BloxWorkload;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;

/// Simulates Blox's workload: with few changes in each round, and with frequent preemptions.
fn simulations(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10);
    let run = |scheduler: Pipeline, load: f64, last: u32| {
        let mut jobs = BloxWorkload::new(load).expect("a sound load");
        Simulation::new(ClusterSpec::uniform(32, 4))
            .measure(Measure::Ids(0, last))
            .run(scheduler, &mut jobs)
            .expect("a sound policy")
    };
    group.bench_function("fifo, 7 jobs/h, 1000 jobs", |b| {
        b.iter(|| run(blox::schedulers::fifo(), 7.0, 999));
    });
    group.bench_function("las, 9 jobs/h, 1000 jobs", |b| {
        b.iter(|| run(blox::schedulers::las(), 9.0, 999));
    });
    group.finish();
}

/// Creates a cluster in which other jobs hold all GPUs and `waiting` jobs wait.
fn crowded(policy: &mut Pipeline, nodes: usize, waiting: u32) -> Runtime {
    let state = State::new(&ClusterSpec::uniform(nodes, 8)).expect("a sound cluster");
    let mut core = Runtime::new(state, policy.trigger());
    let spec = Arc::new(JobSpec::new(
        Time::ZERO,
        GpuCount(1),
        Seconds::from_hours(10.0),
    ));
    for job in 0..nodes as u32 * 8 + waiting {
        let spec = Arc::clone(&spec);
        let event = Event::Submitted {
            job: JobId(job),
            spec,
        };
        core.event(Time::ZERO, &event, policy)
            .expect("the next job");
    }
    // The second decision sorts all jobs once; later rounds are typical.
    for (round, job) in [(0.0, None), (300.0, Some(1)), (600.0, Some(2))] {
        let round = Time::new(round);
        if let Some(job) = job {
            let event = Event::Ended {
                job: JobId(job),
                outcome: Outcome::Completed,
            };
            core.event(round, &event, policy).expect("it lives");
        }
        core.decide(round, policy).expect("a decision");
        confirm(&mut core, round, policy);
    }
    core
}

/// Confirms the core's commands at once, as a simulator without overheads does.
fn confirm(core: &mut Runtime, at: Time, policy: &mut Pipeline) {
    let mut commands = Vec::new();
    loop {
        core.take_commands(&mut commands);
        if commands.is_empty() {
            return;
        }
        for command in commands.drain(..) {
            let event = match command {
                Command::Start { job, attempt } | Command::Change { job, attempt, .. } => {
                    Event::Started {
                        job,
                        attempt,
                        rate: 1.0,
                    }
                }
                Command::Stop { job, attempt, .. } => Event::Stopped {
                    job,
                    attempt,
                    work: None,
                },
                _ => continue,
            };
            core.event(at, &event, policy)
                .expect("the answer to a command");
        }
    }
}

/// Measures one round, in which many jobs are replaced or only one.
fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("decide");
    group.sample_size(20);
    let round = Time::new(900.0);
    for (nodes, waiting) in [(16, 1_000), (16, 30_000), (1024, 1_000)] {
        let name = |what: &str| format!("{what}, {} GPUs, {waiting} waiting", nodes * 8);
        // Every running job is preempted by a job that never ran.
        group.bench_function(name("las, all change"), |b| {
            b.iter_batched(
                || {
                    let mut policy = blox::schedulers::las();
                    let core = crowded(&mut policy, nodes, waiting);
                    (core, policy)
                },
                |(mut core, mut policy)| {
                    core.decide(round, &mut policy).expect("a decision");
                    confirm(&mut core, round, &mut policy);
                    (core, policy)
                },
                BatchSize::LargeInput,
            );
        });
        // One job ends and the next one starts.
        group.bench_function(name("fifo, one ends"), |b| {
            b.iter_batched(
                || {
                    let mut policy = blox::schedulers::fifo();
                    let core = crowded(&mut policy, nodes, waiting);
                    (core, policy)
                },
                |(mut core, mut policy)| {
                    let event = Event::Ended {
                        job: JobId(0),
                        outcome: Outcome::Completed,
                    };
                    core.event(round, &event, &mut policy).expect("it lives");
                    core.decide(round, &mut policy).expect("a decision");
                    confirm(&mut core, round, &mut policy);
                    black_box(core.decision().plan.actions.len());
                    (core, policy)
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// Measures a forecast of four hours for each candidate of the synthesizer, with 128 GPUs and 640
/// jobs.
fn look_ahead(c: &mut Criterion) {
    use blox::core::forecast::Horizon;
    use blox::schedulers::synthesizer_candidates;
    use blox::sim::forecast::{LookAhead, forecaster};
    let mut policy = blox::schedulers::las();
    let mut core = Runtime::new(
        State::new(&ClusterSpec::uniform(32, 4)).expect("a sound cluster"),
        policy.trigger(),
    );
    let mut jobs = BloxWorkload::new(8.0).expect("a sound load");
    for job in 0..640 {
        let spec = blox::sim::workload::Workload::next_job(&mut jobs);
        let mut spec = spec.expect("a sound load").expect("it never ends");
        spec.submit = Time::ZERO;
        let event = Event::Submitted {
            job: JobId(job),
            spec: Arc::new(spec),
        };
        core.event(Time::ZERO, &event, &mut policy)
            .expect("the next job");
    }
    core.decide(Time::ZERO, &mut policy).expect("a decision");
    let ahead = forecaster(LookAhead::new(Rounds::default()));
    let horizon = Horizon::For(Seconds::from_hours(4.0));
    let mut group = c.benchmark_group("look ahead, 128 GPUs, 640 jobs, 4 h");
    for candidate in synthesizer_candidates(true) {
        let name = blox::core::Scheduler::name(&candidate).to_owned();
        group.bench_function(name, |b| {
            b.iter(|| black_box(ahead.forecast(core.state(), &candidate, horizon)));
        });
    }
    group.finish();
}

/// Measures a forecast with intervals of 1,000 queued jobs after 2,000 that have ended, on 128 GPUs.
fn expected(c: &mut Criterion) {
    use blox::core::forecast::{Forecaster, PastJob};
    use blox::sim::forecast::LookAhead;
    let mut jobs = BloxWorkload::new(8.0).expect("a sound load");
    let mut next = |submit| {
        let spec = blox::sim::workload::Workload::next_job(&mut jobs);
        let mut spec = spec.expect("a sound load").expect("it never ends");
        spec.submit = submit;
        Arc::new(spec)
    };
    let now = Time::new(86_400.0);
    let past: Vec<PastJob> = (0..2_000)
        .map(|n| {
            let spec = next(Time::new(f64::from(n) * 43.2));
            let ran = spec.duration() * (0.5 + f64::from(n % 10) * 0.1);
            let end = now;
            PastJob { spec, ran, end }
        })
        .collect();
    let mut group = c.benchmark_group("when, 1,000 queued jobs");
    group.sample_size(10);
    for mut policy in [blox::schedulers::fifo(), blox::schedulers::las()] {
        let mut state = State::new(&ClusterSpec::uniform(32, 4)).expect("a sound cluster");
        state.advance(now);
        let mut core = Runtime::new(state, policy.trigger());
        for job in (0..1_060).map(JobId) {
            let spec = next(now);
            let event = Event::Submitted { job, spec };
            core.event(now, &event, &mut policy).expect("the next job");
        }
        core.decide(now, &mut policy).expect("a decision");
        let ahead = LookAhead::of(policy.trigger());
        let never = Default::default();
        let name = blox::core::Scheduler::name(&policy).to_owned();
        group.bench_function(name, |b| {
            b.iter(|| black_box(ahead.expect(core.state(), &policy, &past, &never)));
        });
    }
    group.finish();
}

/// Measures a run at twice the capacity with the number of its jobs, and so the growth with the
/// queue.
fn overload(c: &mut Criterion) {
    let mut group = c.benchmark_group("overload");
    group.sample_size(10);
    let registry = blox::registry();
    for name in ["las", "srsf", "tetris", "ftf", "2das", "tiresias-plus"] {
        for jobs in [2_000, 4_000, 8_000] {
            let specs: Vec<JobSpec> = (0..jobs)
                .map(|n: u32| {
                    // On average 1.5 GPUs for 8,000 s: 320 GPUs are requested, twice as many as there are.
                    let gpus = GpuCount([1, 1, 2, 2][n as usize % 4]);
                    let long = Seconds::new(f64::from(n * 7919 % 16_000 + 1));
                    JobSpec::new(Time::new(f64::from(n) * 37.5), gpus, long)
                })
                .collect();
            group.bench_function(format!("{name}, {jobs} jobs"), |b| {
                b.iter(|| {
                    let named = name.parse().expect("a name");
                    let scheduler = registry.schedulers.build(&named, 0).expect("registered");
                    Simulation::new(ClusterSpec::uniform(20, 8))
                        .run(scheduler, &mut Jobs::new(specs.clone()))
                        .expect("a sound policy")
                });
            });
        }
    }
    group.finish();
}

/// Measures jobs with small parts of one GPU with their number.
fn parts(c: &mut Criterion) {
    let mut group = c.benchmark_group("parts of one GPU");
    group.sample_size(10);
    for jobs in [100, 400, 1_600] {
        let specs: Vec<JobSpec> = (0..jobs)
            .map(|n: u32| {
                let long = Seconds::new(f64::from(3600 + n));
                let job = JobSpec::new(Time::ZERO, GpuCount(1), long);
                job.with_extras(Extras {
                    share: Share::parts(1, 2000).expect("a share"),
                    ..Extras::default()
                })
            })
            .collect();
        group.bench_function(format!("fifo, {jobs} jobs"), |b| {
            b.iter(|| {
                Simulation::new(ClusterSpec::uniform(1, 1))
                    .run(blox::schedulers::fifo(), &mut Jobs::new(specs.clone()))
                    .expect("a sound policy")
            });
        });
    }
    group.finish();
}

criterion_group!(
    benches,
    simulations,
    decisions,
    look_ahead,
    expected,
    overload,
    parts
);
criterion_main!(benches);
