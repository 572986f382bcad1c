//! Runs of the figures of Sia (SOSP 2023) and Pollux (OSDI 2021).

pub(crate) mod scale;
pub(crate) mod sensitivity;
pub(crate) mod tables;

use crate::figure::{Figure, Numbers, Plan, ReproduceError, Run, jct_s};
use crate::sia::blind;
use crate::sia::pollux as released;
use crate::sia::world::{pollux_applications, pollux_training};
use blox_core::{Adapts, ClusterSpec, Extras, GpuCount, JobSpec, Pipeline, Seconds, Time};
use blox_perf::applications::{Applications, built_in};
use blox_results::Summary;
use blox_schedulers::schedulers::{fifo, las, pollux, sia};
use blox_sim::execution::Training;
use blox_sim::execution::training::Profiles;
use blox_sim::overheads::CheckpointRestart;
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation};
use blox_traces::applications::read_dir;
use blox_traces::{Format, open_file};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::path::{Path, PathBuf};

/// 64 GPUs of three types.
const THREE_TYPES: &str = "6x4:aws,2x8:dgx-ext,3x8:rtx";

/// Returns a simulation of training on a cluster.
fn world(cluster: &ClusterSpec, training: Training) -> Simulation {
    Simulation::new(cluster.clone())
        .execution(training)
        .overheads(CheckpointRestart::default())
}

/// Reads one published workload of a folder, with the settings of jobs that a scheduler may adapt.
/// Numbers start at 1.
fn workload(
    folder: &Path,
    number: usize,
    applications: &Applications,
    adapts: Adapts,
) -> Result<Vec<JobSpec>, ReproduceError> {
    let path = folder.join(format!("workload-{number}.csv"));
    let mut jobs = collect(&mut open_file(path, Some(Format::Sia))?)?;
    for job in &mut jobs {
        applications.describe(job, adapts);
    }
    Ok(jobs)
}

/// Draws jobs from a pool, with exponential times between submissions.
fn drawn(pool: &[JobSpec], per_hour: f64, hours: f64, seed: u64) -> Vec<JobSpec> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut jobs = Vec::new();
    let mut at = 0.0;
    while !pool.is_empty() {
        at += -libm::log(1.0 - rng.random::<f64>()) * 3600.0 / per_hour;
        if at >= hours * 3600.0 {
            break;
        }
        let mut job = pool[rng.random_range(0..pool.len())].clone();
        job.submit = Time::new(at);
        job.name = None;
        jobs.push(job);
    }
    jobs
}

/// Applications, and the workloads of a figure.
struct Source {
    applications: Applications,
    /// Folder of the published workloads.
    folder: Option<PathBuf>,
    /// Jobs from which workloads are drawn otherwise.
    pool: Vec<JobSpec>,
}

/// Kinds of jobs, with GPUs, batch and number of jobs in 100, by the mix of Pollux' section 5. Jobs
/// that train `ncf` are left out, as in the artifact of Sia.
const MIX: [(&str, u32, u32, usize); 9] = [
    ("cifar10", 1, 128, 26),
    ("cifar10", 2, 256, 16),
    ("cifar10", 4, 512, 16),
    ("cifar10", 8, 1024, 14),
    ("deepspeech2", 4, 160, 10),
    ("bert", 2, 24, 6),
    ("bert", 4, 48, 4),
    ("yolov3", 4, 64, 6),
    ("imagenet", 16, 3200, 2),
];

/// Jobs an hour and hours of a drawn workload: 160 jobs, as in the published ones.
const RATE: f64 = 20.0;
const HOURS: f64 = 8.0;

impl Source {
    /// Reads the published workloads if there is a folder. Otherwise jobs are drawn from built-in
    /// applications.
    fn open(figure: &'static Figure, data: Option<&Path>) -> Result<Self, ReproduceError> {
        if data.is_none() {
            return Ok(Self::built_in());
        }
        let folder = figure.optional.iter().find(|f| f.path != "traces");
        let folder = folder.map(|f| figure.file(data, &f.path)).transpose()?;
        Ok(Source {
            applications: read_dir(figure.file(data, "traces")?)?,
            folder,
            pool: Vec::new(),
        })
    }

    fn built_in() -> Self {
        let mut pool = Vec::new();
        for (model, gpus, batch, count) in MIX {
            let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(1.0));
            let job = job.with_extras(Extras {
                model: Some(model.into()),
                batch_size: Some(batch),
                ..Extras::default()
            });
            pool.extend(std::iter::repeat_n(job, count));
        }
        Source {
            applications: built_in(),
            folder: None,
            pool,
        }
    }

    /// Returns a workload. Numbers start at 1. `adapts` has the settings that the scheduler may
    /// adapt, by job.
    fn jobs(
        &self,
        number: usize,
        rate: f64,
        adapts: impl Fn(usize) -> Adapts,
    ) -> Result<Vec<JobSpec>, ReproduceError> {
        let mut jobs = match &self.folder {
            Some(folder) => workload(folder, number, &self.applications, Adapts::All)?,
            None => drawn(&self.pool, rate, HOURS, number as u64),
        };
        for (i, job) in jobs.iter_mut().enumerate() {
            self.applications.describe(job, adapts(i));
        }
        Ok(jobs)
    }

    fn note(&self) -> String {
        match &self.folder {
            Some(folder) => format!("workloads of {}", folder.display()),
            None => "drawn workloads of built-in applications; --data DIR takes the published \
                     ones, and the measured step times"
                .to_owned(),
        }
    }
}

/// Number of workloads of a figure.
const WORKLOADS: usize = 5;

/// Plans workloads of each arrival rate under Sia and Pollux.
pub(crate) fn fig7(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let mut source = Source::open(figure, data)?;
    // Jobs of the published workloads, from which workloads are drawn.
    if let Some(folder) = source.folder.take() {
        for number in 1..=8 {
            let jobs = workload(&folder, number, &source.applications, Adapts::All)?;
            source.pool.extend(jobs);
        }
    }
    let cluster: ClusterSpec = THREE_TYPES.parse()?;
    let mut runs = Vec::new();
    for number in 1..=WORKLOADS {
        for rate in figure.groups() {
            let jobs = source.jobs(number, rate.parse().unwrap_or(RATE), |_| Adapts::All)?;
            for name in figure.columns(0) {
                let (scheduler, training) = match name.as_str() {
                    "Sia" => (sia(), Training::of(source.applications.clone())),
                    _ => {
                        let round = Seconds::new(released::ROUND_S);
                        let training = Training::of(source.applications.clone());
                        (blind::pollux(round), training.profiles(Profiles::OfAll))
                    }
                };
                runs.push(Run::of(
                    format!("{name}, {rate} jobs an hour, {number}"),
                    world(&cluster, training),
                    scheduler,
                    Jobs::new(jobs.clone()),
                ));
            }
        }
    }
    let note = source.note();
    Ok(by_workload(figure, runs, vec![note], |reports| {
        vec![reports.iter().map(|r| jct_s(r) / 3600.0).collect()]
    }))
}

/// Plans runs, workload by workload, whose measures follow from the reports of each workload.
fn by_workload(
    figure: &'static Figure,
    runs: Vec<Run>,
    notes: Vec<String>,
    measures: impl Fn(&[Report]) -> Vec<Vec<f64>> + Send + 'static,
) -> Plan {
    let each = (runs.len() / WORKLOADS).max(1);
    Plan::of(runs, move |reports| {
        let all = reports.chunks(each).map(|of| Numbers::of(measures(of)));
        let mut findings = figure.findings_over(all.collect());
        findings.notes.extend(notes);
        findings
    })
}

/// The data of Pollux' released simulations.
struct Osdi21 {
    measured: Applications,
    applications: Applications,
    workloads: PathBuf,
    cluster: ClusterSpec,
}

impl Osdi21 {
    fn open(figure: &'static Figure, data: Option<&Path>) -> Result<Self, ReproduceError> {
        let measured = read_dir(figure.file(data, "traces")?)?;
        Ok(Osdi21 {
            applications: pollux_applications(measured.clone()),
            measured,
            workloads: figure.file(data, "workloads")?,
            cluster: "16x4:aws".parse()?,
        })
    }

    /// Plans the eight workloads under a scheduler. `name` precedes the number of each workload.
    fn runs(
        &self,
        name: &str,
        adapts: Adapts,
        scheduler: impl Fn() -> Pipeline,
    ) -> Result<Vec<Run>, ReproduceError> {
        let run = |number| -> Result<Run, ReproduceError> {
            Ok(Run::of(
                format!("{name}workload {number}"),
                world(&self.cluster, pollux_training(self.measured.clone())),
                scheduler(),
                Jobs::new(workload(
                    &self.workloads,
                    number,
                    &self.applications,
                    adapts,
                )?),
            ))
        };
        (1..=8).map(run).collect()
    }
}

/// Plans Pollux' released simulations: eight workloads under three schedulers.
pub(crate) fn pollux_osdi21(
    figure: &'static Figure,
    data: Option<&Path>,
) -> Result<Plan, ReproduceError> {
    let all = Osdi21::open(figure, data)?;
    let round = Seconds::new(released::ROUND_S);
    let there = || all.applications.clone();
    let mut runs = all.runs("Pollux, ", Adapts::All, pollux)?;
    runs.extend(all.runs("Optimus, ", Adapts::Nothing, || {
        released::optimus(round, there())
    })?);
    runs.extend(all.runs("Tiresias, ", Adapts::Nothing, || released::tiresias(round))?);
    Ok(figure.measuring(runs, &[jct_s]))
}

/// Plans Pollux' eight published workloads under the own Pollux.
pub(crate) fn blox_fig3(
    figure: &'static Figure,
    data: Option<&Path>,
) -> Result<Plan, ReproduceError> {
    let runs = Osdi21::open(figure, data)?.runs("", Adapts::All, pollux)?;
    Ok(figure.measuring(runs, &[jct_s]))
}

/// Plans Pollux beside first in, first out and least attained service, by arrival rate.
pub(crate) fn blox_fig8(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let source = Source::built_in();
    let cluster: ClusterSpec = "16x4:aws".parse()?;
    let schedulers: [(fn() -> Pipeline, Adapts); 3] = [
        (fifo, Adapts::Nothing),
        (las, Adapts::Nothing),
        (pollux, Adapts::All),
    ];
    let mut runs = Vec::new();
    for number in 1..=WORKLOADS {
        for rate in figure.groups() {
            let rate: f64 = rate.parse().unwrap_or(RATE);
            for (name, (build, adapts)) in figure.columns(0).iter().zip(schedulers) {
                // 160 jobs, however long they take to come.
                let mut jobs = drawn(&source.pool, rate, 400.0 / rate, number as u64);
                jobs.truncate(160);
                jobs.iter_mut()
                    .for_each(|job| _ = source.applications.describe(job, adapts));
                runs.push(Run::of(
                    format!("{name}, {rate} jobs an hour, {number}"),
                    world(&cluster, Training::of(source.applications.clone())),
                    build(),
                    Jobs::new(jobs),
                ));
            }
        }
    }
    Ok(by_workload(figure, runs, Vec::new(), |reports| {
        let of = |measure: fn(&Report) -> f64| reports.iter().map(measure).collect();
        vec![of(jct_s), of(|r| Summary::of(r).avg_responsiveness_s)]
    }))
}
