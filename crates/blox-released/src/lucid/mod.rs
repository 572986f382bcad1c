//! The released simulator of Lucid (S-Lab-System-Group/Lucid, commit 653c85b), its baselines, and
//! Chronus.
//!
//! [`simulator`] has the programs that simulate themselves and lists their differences from the
//! papers. [`compositions`] has the baselines that only order jobs.
//!
//! [`run`] simulates all virtual clusters separately. For Lucid it simulates the profiler first.

pub mod compositions;
pub(crate) mod figures;
pub mod files;
pub mod simulator;
pub(crate) mod verify;

pub use crate::lucid::compositions::{fifo, qssf, sjf};
pub use crate::lucid::simulator::{
    ChronusRecord, Forecast, Lookup, Objective, PackedSettings, Placer, Planner, Record, Scaling,
    chronus, lucid, profiler, srtf, tiresias,
};

use crate::lucid::files::Window;
use blox_core::{JobSpec, Name, Seconds, Time, Work, sort};
use blox_perf::PairTable;
use blox_sim::SimError;
use compositions::{records, set_priorities};
use rayon::prelude::*;
use std::sync::Arc;

/// Policies of the original.
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
    /// All policies by the original's names.
    pub const NAMES: [(&'static str, Policy); 6] = [
        ("fifo", Policy::Fifo),
        ("sjf", Policy::Sjf),
        ("srtf", Policy::Srtf),
        ("qssf", Policy::Qssf),
        ("tiresias", Policy::Tiresias),
        ("lucid", Policy::Lucid),
    ];
}

/// Settings that the original's option `-e` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Part of the log to simulate.
    pub window: Window,
    /// Virtual clusters that lend nodes to the profiler, one node per occurrence.
    pub lenders: &'static [&'static str],
    /// Maximum time of a job on the profiler, in seconds.
    pub limit_s: i64,
    /// Maximum GPU count of profiled jobs.
    pub profiled_gpus: u32,
    /// True if the profiler can grow, packing can pause, and negative estimates count as 1000 s.
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

/// The virtual cluster that lends the profiler's additional node.
const ECHO: &str = "vcYVn";

/// All inputs of a run of the original.
///
/// Jobs carry their estimates, sharing scores and memory as attributes (`crate::lucid::simulator`'s
/// `ESTIMATE`, `SHARING_SCORE`, `GPU_MEMORY`).
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Virtual clusters with their number of nodes.
    pub clusters: Vec<(Name, u32)>,
    /// Jobs in order of submission.
    pub jobs: Vec<JobSpec>,
    /// Speeds of pairs of jobs.
    pub pairs: Arc<PairTable>,
    /// Forecast of the GPUs that jobs will request.
    pub gpus: Option<Forecast>,
    /// Forecast of the number of jobs that will be submitted.
    pub coming: Option<Forecast>,
}

/// Quirks of the original that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Method that finds the partner of a job that ends.
    pub lookup: Lookup,
    /// True if a profiled job may start in its virtual cluster from its submission on, while it is
    /// still profiled. Otherwise it starts there after profiling.
    pub free_profiling: bool,
    /// True if an end of a Lucid job is found one second after the job's last second.
    pub found_late: bool,
}

impl Default for Quirks {
    /// Returns the quirks as released.
    fn default() -> Self {
        Quirks {
            lookup: Lookup::First,
            free_profiling: true,
            found_late: true,
        }
    }
}

/// Result of a job.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Record in its virtual cluster, or on the profiler if it ended there.
    pub record: Record,
    /// Wait for the profiler in seconds, if the job was profiled.
    pub profiled: Option<i64>,
    /// True if the job ended on the profiler.
    pub skipped: bool,
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Outcomes by job index, in order of submission. `None` for a job that never ended.
    pub outcomes: Vec<Option<Outcome>>,
    /// Nodes that the profiler added and returned.
    pub scalings: Vec<Scaling>,
}

/// Runs a policy on all virtual clusters in parallel.
///
/// # Errors
/// Fails if the simulation of a composition fails.
pub fn run(
    policy: Policy,
    placer: Placer,
    experiment: Experiment,
    quirks: Quirks,
    input: &Input,
) -> Result<Run, SimError> {
    let mut run = Run {
        outcomes: vec![None; input.jobs.len()],
        scalings: Vec::new(),
    };
    let mut clusters = input.clusters.clone();
    let mut submits: Vec<_> = input.jobs.iter().map(|job| job.submit).collect();
    if policy == Policy::Lucid {
        for lender in experiment.lenders {
            for (name, nodes) in &mut clusters {
                if &**name == *lender {
                    *nodes = nodes.saturating_sub(1);
                }
            }
        }
        profile(placer, experiment, input, &mut run);
        if !quirks.free_profiling {
            for (submit, outcome) in submits.iter_mut().zip(&run.outcomes) {
                if let Some(Outcome { record, .. }) = outcome {
                    *submit = Time::new(record.end as f64);
                }
            }
        }
    }
    let stage = |(name, nodes): &(Name, u32)| -> Result<Vec<(usize, Record)>, SimError> {
        let mut ours: Vec<usize> = (0..input.jobs.len())
            .filter(|i| input.jobs[*i].virtual_cluster.as_ref() == Some(name))
            .filter(|i| !run.outcomes[*i].as_ref().is_some_and(|o| o.skipped))
            .collect();
        sort::by_key(&mut ours, |i| submits[*i]);
        let submitted = |&i: &usize| {
            let mut job = input.jobs[i].clone();
            job.submit = submits[i];
            job
        };
        let jobs: Vec<JobSpec> = ours.iter().map(submitted).collect();
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let records = match policy {
            Policy::Fifo => records(fifo(placer), *nodes, placer, &jobs)?,
            Policy::Sjf => records(sjf(placer), *nodes, placer, &jobs)?,
            Policy::Qssf => {
                let mut records = records(qssf(placer), *nodes, placer, &jobs)?;
                set_priorities(&mut records, &jobs);
                records
            }
            Policy::Srtf => srtf(*nodes, placer, &jobs),
            Policy::Tiresias => tiresias(*nodes, placer, &jobs),
            Policy::Lucid => {
                let settings = PackedSettings {
                    nodes: *nodes,
                    placer,
                    pairs: Arc::clone(&input.pairs),
                    forecast: input.coming.clone().filter(|_| experiment.adapts),
                    scaling: match experiment.adapts && &**name == ECHO {
                        true => run.scalings.clone(),
                        false => Vec::new(),
                    },
                    lookup: quirks.lookup,
                    found_late: quirks.found_late,
                };
                lucid(settings, &jobs)
            }
        };
        let records = records.into_iter();
        Ok(records.map(|r| (ours[r.job as usize], r)).collect())
    };
    let stages: Result<Vec<_>, _> = clusters.par_iter().map(stage).collect();
    for (at, mut record) in stages?.into_iter().flatten() {
        let profiled = run.outcomes[at].take().and_then(|o| o.profiled);
        record.queue += profiled.unwrap_or(0);
        run.outcomes[at] = Some(Outcome {
            record,
            profiled,
            skipped: false,
        });
    }
    Ok(run)
}

/// Runs the first stage: the profiler runs each job up to its time limit.
fn profile(placer: Placer, experiment: Experiment, input: &Input, run: &mut Run) {
    let ours: Vec<usize> = (0..input.jobs.len())
        .filter(|i| input.jobs[*i].gpus.get() <= experiment.profiled_gpus)
        .collect();
    let limit = Seconds::new(experiment.limit_s as f64);
    let shortened = |i: &usize| {
        let job = &input.jobs[*i];
        JobSpec {
            work: Work::lasting(job.duration().min(limit)),
            ..job.clone()
        }
    };
    let jobs: Vec<JobSpec> = ours.iter().map(shortened).collect();
    let nodes = experiment.lenders.len() as u32;
    let forecast = input.gpus.clone().filter(|_| experiment.adapts);
    let (records, scalings) = profiler(nodes, placer, forecast, &jobs);
    run.scalings = scalings;
    for record in records {
        let at = ours[record.job as usize];
        let skipped = input.jobs[at].duration() <= limit;
        run.outcomes[at] = Some(Outcome {
            profiled: Some(record.queue),
            record,
            skipped,
        });
    }
}
