//! The figures of ElasticFlow (ASPLOS 2023), by the program that was released with it.

mod fig10;
mod fig11;
mod fig8a;
mod fig8b;
mod fig9;

pub(crate) use fig8a::Fig8a;
pub(crate) use fig8b::Fig8b;
pub(crate) use fig9::Fig9;
pub(crate) use fig10::Fig10;
pub(crate) use fig11::Fig11;

use crate::elasticflow::{self as released, Algorithm, ByScheduler, Shape, Times};
use crate::figure::{DataFile, Figure, ReproduceError, Run, file};
use blox_core::{ClusterSpec, JobSpec, Outcome, Part, Pipeline, ServiceClass, Time};
use blox_sim::results::Deadlines;
use blox_sim::workload::scaling::ScalingTable;
use blox_sim::workload::{Notices, Workload, WorkloadError};
use blox_sim::{Report, Simulation};
use std::path::Path;
use std::sync::Arc;

const REPOSITORY: &str =
    "the folder `ElasticFlow` of https://github.com/pkusys/ElasticFlow (Apache-2.0)";
const A100: DataFile = DataFile {
    path: "throughputs_A100",
    from: "the folder `ElasticFlow/scheduler` of https://github.com/pkusys/ElasticFlow (Apache-2.0)",
};
const RELEASED: &str = "pkusys/ElasticFlow 04a0109, scheduler.py under Python 3.11";
const GREEDY: &str = "pkusys/ElasticFlow 04a0109, its Chronus without a commercial solver";
/// The seed of what the released generator draws from Python's unseeded generator.
const UNSEEDED: u64 = 12345;

/// A program of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Of(Algorithm),
    /// With the period of its checks and that of arrivals, in seconds.
    Chronus(u32, u32),
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Of(Algorithm::ElasticFlow) => "ElasticFlow",
            Program::Of(Algorithm::WithoutAdmission) => "EDF + elastic scaling",
            Program::Of(Algorithm::Edf) => "EDF",
            Program::Of(Algorithm::EdfAdmission) => "EDF + admission control",
            Program::Of(Algorithm::Tiresias) => "Tiresias",
            Program::Of(Algorithm::Gandiva) => "Gandiva",
            Program::Of(Algorithm::Themis) => "Themis",
            Program::Chronus(..) => "Chronus",
        }
    }
}

/// A cluster, and the slot of the programs that run on it.
#[derive(Clone, Copy, Debug)]
struct World {
    shape: Shape,
    slot: f64,
    gpu_type: &'static str,
}

impl World {
    fn new(switches: u32, nodes_per_switch: u32, gpus_per_node: u32, slot: f64) -> Self {
        World {
            shape: Shape {
                switches,
                nodes_per_switch,
                gpus_per_node,
            },
            slot,
            gpu_type: "A100",
        }
    }

    fn cluster(self) -> ClusterSpec {
        ClusterSpec::uniform(self.shape.nodes() as usize, self.shape.gpus_per_node)
    }

    /// A program on jobs in order of submission.
    fn run(
        self,
        program: Program,
        jobs: &Arc<[JobSpec]>,
        table: &Arc<ScalingTable>,
        of: &str,
    ) -> Run {
        let submits: Vec<f64> = jobs.iter().map(|j| j.submit.secs()).collect();
        let scheduler = match program {
            Program::Of(algorithm) => algorithm.scheduler(self.shape, self.slot, &submits),
            Program::Chronus(check, pass) => {
                let times = Times {
                    check: check.into(),
                    lease: 240.0,
                    pass: pass.into(),
                };
                released::chronus(self.shape, times, &submits)
            }
        };
        Run {
            label: format!("{}, {of}", program.name()),
            simulation: Simulation::new(self.cluster()).completion(ByScheduler),
            scheduler,
            workload: Box::new(ForProgram {
                jobs: Arc::clone(jobs),
                table: Arc::clone(table),
                program,
                gpu_type: self.gpu_type,
                next: 0,
                notices: Notices::default(),
            }),
        }
    }
}

/// Jobs in order of submission, for all programs of a figure.
fn in_order(mut jobs: Vec<JobSpec>) -> Arc<[JobSpec]> {
    jobs.sort_by_key(|job| job.submit);
    jobs.into()
}

/// Jobs as a program sees them, made as they come in.
struct ForProgram {
    jobs: Arc<[JobSpec]>,
    table: Arc<ScalingTable>,
    program: Program,
    gpu_type: &'static str,
    next: usize,
    notices: Notices,
}

impl Workload for ForProgram {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        let Some(job) = self.jobs.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        let mut job = job.clone();
        match self.program {
            Program::Of(algorithm) => {
                if !algorithm.profile(&mut job, &self.table, self.gpu_type) {
                    let extras = job.extras();
                    return Err(WorkloadError::Unprofiled {
                        job: self.next - 1,
                        model: extras.model.as_deref().unwrap_or_default().to_owned(),
                        batch_size: extras.batch_size.unwrap_or_default(),
                        gpus: job.gpus.get(),
                    });
                }
            }
            // The released conversion makes every job one with a deadline.
            Program::Chronus(..) => {
                if let Some(extras) = &mut job.extras {
                    extras.class = ServiceClass::Guaranteed;
                }
            }
        }
        Ok(Some(job))
    }

    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn describe(&self) -> String {
        "jobs of ElasticFlow".to_owned()
    }
}

/// Counts as the released programs do: by the ends that they had planned, and by
/// whether they call them late.
fn recount(scheduler: &Pipeline, report: &mut Report) {
    let saved = scheduler.save().unwrap_or_default();
    let program = &saved["scheduling"];
    let mut ends: Vec<(u32, f64, bool)> = Vec::new();
    if let Some(rows) = released::chronus_rows(program) {
        let submit = |job: u32| report.jobs.get(job as usize).map(|j| j.submit.secs());
        ends.extend(rows.iter().filter_map(|row| {
            let took = row.end - submit(row.job)?;
            Some((row.job, row.end, took > row.expect))
        }));
    } else if let Some(planned) = released::planned_ends(program) {
        ends.extend(planned.iter().map(|end| (end.job, end.at, end.late)));
    } else {
        return;
    }
    let mut count = Deadlines::default();
    let mut due = 0;
    for job in report.jobs.iter().filter(|j| j.deadline.is_some()) {
        due += 1;
        count.declined += u64::from(job.outcome == Some(Outcome::Rejected));
    }
    for (job, at, late) in ends {
        if let Some(job) = report.jobs.get_mut(job as usize) {
            job.finish = Some(Time::new(at));
            count.met += u64::from(!late && job.deadline.is_some());
        }
    }
    count.missed = due - count.declined - count.met;
    report.summary.deadlines = Some(count);
}

fn met(report: &Report) -> u64 {
    report.summary.deadlines.unwrap_or_default().met
}

/// Deadlines met, of all.
fn ratio(report: &Report) -> f64 {
    let d = report.summary.deadlines.unwrap_or_default();
    let all = d.met + d.missed + d.declined;
    d.met as f64 / all.max(1) as f64
}

/// The throughputs of the A100.
fn a100(figure: &dyn Figure, data: Option<&Path>) -> Result<Arc<ScalingTable>, ReproduceError> {
    let table = ScalingTable::read_dir(file(figure, data, A100.path)?)?;
    Ok(Arc::new(table))
}

/// Whether two counts or ratios are the same up to what a table prints.
fn equal(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() < 5e-5
}
