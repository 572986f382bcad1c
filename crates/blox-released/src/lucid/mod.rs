//! Lucid's released simulator (S-Lab-System-Group/Lucid, commit 653c85b), its
//! baselines, and Chronus' released scheduler: see
//! [`crate::lucid::simulator`] for what they do otherwise than the papers say.
//!
//! Each virtual cluster is a simulation of its own, with the completion rule
//! [`ByScheduler`]; [`run`] simulates all of them, and the profiler before Lucid.

pub(crate) mod figures;
pub mod files;
pub mod simulator;
pub(crate) mod verify;

pub use crate::lucid::simulator::{
    ChronusRecord, Forecast, Lookup, Objective, PackedSettings, Placer, Planner, Record, Scaling,
};
pub use blox_sim::completion::ByScheduler;

use crate::lucid::files::Window;
use crate::lucid::simulator::{
    self as programs, Blocking, Leases, LeastGpusFirst, Original, Packed, Preemptive,
};
use blox_core::perf::PairTable;
use blox_core::{ClusterSpec, Composition, JobSpec, Name, OnEvent, Pipeline};
use blox_core::{SchedulingPolicy, Seconds};
use blox_policies::placement::{FirstFree, Walk};
use blox_sim::workload::Jobs;
use blox_sim::{SimError, Simulation};
use rayon::prelude::*;
use std::sync::Arc;

/// GPUs of a node.
const WIDTH: u32 = 8;

/// `fifo` in a virtual cluster of so many nodes.
pub fn fifo(nodes: u32, placer: Placer) -> Pipeline {
    compose("lucid-fifo", programs::fifo(nodes, placer))
}

/// `sjf`: the shortest first, never stopped.
pub fn sjf(nodes: u32, placer: Placer) -> Pipeline {
    compose("lucid-sjf", programs::sjf(nodes, placer))
}

/// `qssf`: the least estimated GPU time first, never stopped.
pub fn qssf(nodes: u32, placer: Placer) -> Pipeline {
    compose("lucid-qssf", programs::qssf(nodes, placer))
}

/// `srtf`: the shortest remaining time first, with preemption.
pub fn srtf(nodes: u32, placer: Placer) -> Pipeline {
    compose("lucid-srtf", programs::srtf(nodes, placer))
}

/// `tiresias` as it is configured there.
pub fn tiresias(nodes: u32, placer: Placer) -> Pipeline {
    compose("lucid-tiresias", programs::tiresias(nodes, placer))
}

/// Lucid's profiler on so many nodes: the first stage.
pub fn profiler(nodes: u32, placer: Placer, forecast: Option<Forecast>) -> Pipeline {
    compose(
        "lucid-profiler",
        programs::profiler(nodes, placer, forecast),
    )
}

/// Lucid in a virtual cluster: the second stage.
pub fn lucid(settings: PackedSettings) -> Pipeline {
    compose("lucid-released", programs::lucid(settings))
}

/// Chronus on so many GPUs with leases of so many minutes.
pub fn chronus(gpus: u32, lease_min: u32, planner: Planner) -> Pipeline {
    let program = programs::chronus(gpus, lease_min, planner);
    compose("chronus-released", program)
}

/// What became of the jobs that ended under a pipeline of this module, in that order;
/// nothing of Chronus, which has [`chronus_records`].
pub fn records(pipeline: &Pipeline) -> &[Record] {
    let blocking = || pipeline.scheduling_as().map(Original::<Blocking>::records);
    let preemptive = || {
        pipeline
            .scheduling_as()
            .map(Original::<Preemptive>::records)
    };
    let profiler = || {
        pipeline
            .scheduling_as()
            .map(Original::<LeastGpusFirst>::records)
    };
    let packed = || pipeline.scheduling_as().map(Original::<Packed>::records);
    let any = blocking().or_else(preemptive).or_else(profiler);
    any.or_else(packed).unwrap_or_default()
}

/// What became of the jobs that ended under [`chronus`], in that order.
pub fn chronus_records(pipeline: &Pipeline) -> &[ChronusRecord] {
    let policy = pipeline.scheduling_as();
    policy.map_or(&[], Original::<Leases>::records)
}

/// Nodes that a [`profiler`] added and gave back.
pub fn scalings(pipeline: &Pipeline) -> &[Scaling] {
    let policy = pipeline.scheduling_as();
    policy.map_or(&[], Original::<LeastGpusFirst>::scalings)
}

fn compose(name: &str, program: impl SchedulingPolicy + 'static) -> Pipeline {
    Composition::new(name)
        .cadence(OnEvent::default())
        .scheduling(program)
        // The program brings its own.
        .placement(Walk::new(FirstFree))
        .build()
}

/// The original's policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// First in, first out.
    Fifo,
    /// Shortest job first.
    Sjf,
    /// Shortest remaining time first.
    Srtf,
    /// Quasi-shortest service first.
    Qssf,
    /// Two queues by attained service.
    Tiresias,
    /// Lucid.
    Lucid,
}

impl Policy {
    /// All, by the original's names.
    pub const NAMES: [(&'static str, Policy); 6] = [
        ("fifo", Policy::Fifo),
        ("sjf", Policy::Sjf),
        ("srtf", Policy::Srtf),
        ("qssf", Policy::Qssf),
        ("tiresias", Policy::Tiresias),
        ("lucid", Policy::Lucid),
    ];
}

/// What the original's option `-e` chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Which part of the log.
    pub window: Window,
    /// The virtual clusters that give a node each to the profiler, as often as they stand here.
    pub lenders: &'static [&'static str],
    /// The longest time on the profiler.
    pub limit_s: i64,
    /// The largest job that is profiled, in GPUs.
    pub profiled_gpus: u32,
    /// Whether the profiler grows, packing pauses, and negative estimates count as 1000 s.
    pub adapts: bool,
}

impl Experiment {
    /// `Venus_Sept`.
    pub const VENUS: Experiment = Experiment {
        window: Window::VENUS,
        lenders: &["vc8Gr", "vcefl"],
        limit_s: 200,
        profiled_gpus: 8,
        adapts: true,
    };
    /// `Philly`.
    pub const PHILLY: Experiment = Experiment {
        window: Window::PHILLY,
        lenders: &["philly", "philly"],
        limit_s: 80,
        profiled_gpus: 4,
        adapts: false,
    };
}

/// The virtual cluster that gives and takes what the profiler takes and gives.
const ECHO: &str = "vcYVn";

/// Everything that a run of the original reads. Jobs carry their estimates, sharing scores and
/// memory as attributes (`crate::lucid::simulator`'s `ESTIMATE`, `SHARING_SCORE`, `GPU_MEMORY`).
#[derive(Clone, Debug)]
pub struct Input {
    /// Virtual clusters with their nodes.
    pub clusters: Vec<(Name, u32)>,
    /// Jobs in order of submission.
    pub jobs: Vec<JobSpec>,
    /// Speeds of pairs.
    pub pairs: Arc<PairTable>,
    /// Forecast of the GPUs that jobs will ask for.
    pub gpus: Option<Forecast>,
    /// Forecast of the jobs that will come.
    pub coming: Option<Forecast>,
}

/// What can be switched off of the original's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// How the partner of a job that ends is found.
    pub lookup: Lookup,
    /// Whether a job that was profiled starts in its virtual cluster while it still is
    /// (from its submission on), and not when the profiler lets it go.
    pub free_profiling: bool,
    /// Whether jobs of Lucid are found ended in the second after their last.
    pub found_late: bool,
}

impl Default for Quirks {
    /// As released.
    fn default() -> Self {
        Quirks {
            lookup: Lookup::First,
            free_profiling: true,
            found_late: true,
        }
    }
}

/// What became of a job.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// In its virtual cluster, or on the profiler if it ended there.
    pub record: Record,
    /// Its wait for the profiler, if it was there.
    pub profiled: Option<i64>,
    /// Whether it ended on the profiler.
    pub skipped: bool,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// By number of job, in order of submission; `None` for a job that never ended.
    pub outcomes: Vec<Option<Outcome>>,
    /// Nodes that the profiler took and gave back.
    pub scalings: Vec<Scaling>,
}

/// Runs a policy on all virtual clusters, side by side on the cores.
///
/// # Errors
/// A simulation fails.
pub fn run(
    policy: Policy,
    placer: Placer,
    experiment: Experiment,
    quirks: Quirks,
    input: &Input,
    every_round: bool,
) -> Result<Run, SimError> {
    let mut run = Run {
        outcomes: vec![None; input.jobs.len()],
        scalings: Vec::new(),
    };
    let mut clusters = input.clusters.clone();
    let mut delays = vec![0.0; input.jobs.len()];
    if policy == Policy::Lucid {
        for lender in experiment.lenders {
            for (name, nodes) in &mut clusters {
                if &**name == *lender {
                    *nodes = nodes.saturating_sub(1);
                }
            }
        }
        profile(placer, experiment, input, every_round, &mut run)?;
        if !quirks.free_profiling {
            for (delay, (job, outcome)) in
                delays.iter_mut().zip(input.jobs.iter().zip(&run.outcomes))
            {
                if let Some(Outcome { record, .. }) = outcome {
                    *delay = record.end as f64 - job.submit.secs();
                }
            }
        }
    }
    let scalings = &run.scalings;
    let stage = |(name, nodes): &(Name, u32)| -> Result<Vec<(usize, Record)>, SimError> {
        let mut ours: Vec<usize> = (0..input.jobs.len())
            .filter(|i| input.jobs[*i].virtual_cluster.as_ref() == Some(name))
            .filter(|i| !run.outcomes[*i].as_ref().is_some_and(|o| o.skipped))
            .collect();
        let submit = |i: usize| input.jobs[i].submit + Seconds::new(delays[i]);
        ours.sort_by_key(|i| submit(*i));
        let later = |&i: &usize| {
            let mut job = input.jobs[i].clone();
            job.submit = submit(i);
            job
        };
        let jobs: Vec<JobSpec> = ours.iter().map(later).collect();
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let echoed = experiment.adapts && &**name == ECHO;
        let scaling = if echoed { scalings.clone() } else { Vec::new() };
        let spare = match policy {
            Policy::Lucid => scaling.len() as u32,
            _ => 0,
        };
        let pipeline = match policy {
            Policy::Fifo => fifo(*nodes, placer),
            Policy::Sjf => sjf(*nodes, placer),
            Policy::Srtf => srtf(*nodes, placer),
            Policy::Qssf => qssf(*nodes, placer),
            Policy::Tiresias => tiresias(*nodes, placer),
            Policy::Lucid => lucid(PackedSettings {
                nodes: *nodes,
                placer,
                pairs: Arc::clone(&input.pairs),
                forecast: input.coming.clone().filter(|_| experiment.adapts),
                scaling,
                lookup: quirks.lookup,
                found_late: quirks.found_late,
            }),
        };
        let pipeline = simulate(pipeline, nodes + spare, jobs, every_round)?;
        let records = records(&pipeline).iter().cloned();
        Ok(records.map(|r| (ours[r.job as usize], r)).collect())
    };
    let stages: Vec<_> = clusters.par_iter().map(stage).collect();
    for stage in stages {
        for (at, mut record) in stage? {
            let profiled = run.outcomes[at].take().and_then(|o| o.profiled);
            record.queue += profiled.unwrap_or(0);
            run.outcomes[at] = Some(Outcome {
                record,
                profiled,
                skipped: false,
            });
        }
    }
    Ok(run)
}

/// The first stage: jobs as long as the profiler keeps them.
fn profile(
    placer: Placer,
    experiment: Experiment,
    input: &Input,
    every_round: bool,
    run: &mut Run,
) -> Result<(), SimError> {
    let ours: Vec<usize> = (0..input.jobs.len())
        .filter(|i| input.jobs[*i].gpus.get() <= experiment.profiled_gpus)
        .collect();
    let limit = Seconds::new(experiment.limit_s as f64);
    let jobs = ours.iter().map(|i| {
        let mut job = input.jobs[*i].clone();
        job.work = blox_core::Work::lasting(job.duration().min(limit));
        job
    });
    let nodes = experiment.lenders.len() as u32;
    let forecast = input.gpus.clone().filter(|_| experiment.adapts);
    let pipeline = profiler(nodes, placer, forecast);
    let pipeline = simulate(pipeline, nodes + 1, jobs.collect(), every_round)?;
    run.scalings = scalings(&pipeline).to_vec();
    for mut record in records(&pipeline).iter().cloned() {
        let at = ours[record.job as usize];
        let skipped = input.jobs[at].duration() <= limit;
        record.priority = -1.0;
        run.outcomes[at] = Some(Outcome {
            profiled: Some(record.queue),
            record,
            skipped,
        });
    }
    Ok(())
}

/// Runs a pipeline of this module on so many nodes, and gives it back.
fn simulate(
    mut pipeline: Pipeline,
    nodes: u32,
    jobs: Vec<JobSpec>,
    every_round: bool,
) -> Result<Pipeline, SimError> {
    Simulation::new(ClusterSpec::uniform(nodes as usize, WIDTH))
        .completion(ByScheduler)
        .visiting_every_round(every_round)
        .run_by(&mut pipeline, &mut Jobs::new(jobs), None)?;
    Ok(pipeline)
}
