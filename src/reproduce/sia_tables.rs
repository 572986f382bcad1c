use super::{Claim, DataFile, Figure, Findings, Picture, ReproduceError, Row, Run, file};
use crate::schedulers::{GavelParams, GavelPolicy, gavel_with, pollux, sia};
use blox_core::{Adapts, ClusterSpec, Pipeline};
use blox_plot::{Axis, BarChart};
use blox_sim::compat::sia::read_jobs;
use blox_sim::execution::Training;
use blox_sim::execution::training::{Applications, read_dir};
use blox_sim::overheads::CheckpointRestart;
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation};
use std::path::Path;

/// Sia's simulations on three types of GPU, all its workloads.
pub(super) struct SiaTable3;

/// Sia's simulations on one type of GPU.
pub(super) struct SiaTable4;

const FROM: &str =
    "https://github.com/siasosp23/artifacts, folder `sia-simulator` (no licence statement)";
const TRACES: DataFile = DataFile {
    path: "traces",
    from: FROM,
};
const PHILLY: DataFile = DataFile {
    path: "workloads/philly",
    from: FROM,
};
const PAPER_3: &str = "Sia (SOSP 2023), table 3, of the submission";
const PAPER_4: &str = "Sia (SOSP 2023), table 4, of the submission";

/// A folder of workloads, how many, the paper's name for it, and its figures: average JCT, 99th percentile, makespan in hours,
/// GPU-hours a job; under each scheduler.
struct Family {
    folder: &'static str,
    count: usize,
    name: &'static str,
    published: [[f64; 4]; 3],
}

const FAMILIES: [Family; 3] = [
    Family {
        folder: "workloads/philly",
        count: 8,
        name: "Philly",
        published: [
            [0.6, 9.5, 14.2, 4.0],
            [1.0, 14.9, 24.5, 5.6],
            [1.9, 30.0, 33.8, 9.0],
        ],
    },
    Family {
        folder: "workloads/saturn",
        count: 10,
        name: "Helios",
        published: [
            [0.7, 10.9, 14.9, 4.8],
            [1.0, 15.0, 25.5, 5.9],
            [2.5, 38.7, 43.0, 12.1],
        ],
    },
    Family {
        folder: "workloads/newtrace",
        count: 10,
        name: "newTrace",
        published: [
            [0.7, 4.6, 52.2, 3.0],
            [1.5, 10.3, 62.3, 3.4],
            [11.3, 98.1, 110.0, 6.4],
        ],
    },
];

const HOMOGENEOUS: [[f64; 4]; 3] = [
    [1.9, 18.1, 21.4, 8.4],
    [2.0, 19.3, 21.7, 8.6],
    [4.3, 37.1, 44.3, 15.3],
];
const FIGURES: [&str; 4] = ["avg JCT h", "p99 JCT h", "makespan h", "GPU-h a job"];
type Build = fn() -> Pipeline;
const SCHEDULERS: [(&str, Build); 3] = [("Sia", sia), ("Pollux", pollux), ("Gavel+TJ", gavel)];

/// Gavel as the paper compares with it: the sum of throughputs, of jobs as their owners would ask for.
fn gavel() -> Pipeline {
    gavel_with(GavelParams {
        policy: GavelPolicy::MaxSumThroughput,
        ..GavelParams::default()
    })
}

fn runs_of(
    family: &Family,
    folder: &Path,
    cluster: &ClusterSpec,
    applications: &Applications,
    into: &mut Vec<Run>,
) -> Result<(), ReproduceError> {
    for (name, build) in SCHEDULERS {
        for number in 1..=family.count {
            let path = folder.join(format!("workload-{number}.csv"));
            let mut jobs = collect(&mut read_jobs(path)?)?;
            let adapts = match name {
                "Gavel+TJ" => Adapts::Nothing,
                _ => Adapts::All,
            };
            for job in &mut jobs {
                applications.describe(job, adapts);
            }
            into.push(Run {
                label: format!("{name}, {} {number}", family.name),
                simulation: Simulation::new(cluster.clone())
                    .execution(Training::of(applications.clone()))
                    .overheads(CheckpointRestart::default()),
                scheduler: build(),
                workload: Box::new(Jobs::new(jobs)),
            });
        }
    }
    Ok(())
}

/// The four figures, over runs: means of each, except that times are over all jobs.
fn figures_of(reports: &[Report]) -> [f64; 4] {
    let mut jcts: Vec<f64> = reports
        .iter()
        .flat_map(|r| &r.jobs)
        .filter_map(|j| Some((j.finish? - j.submit).secs()))
        .collect();
    jcts.sort_by(f64::total_cmp);
    let jobs = jcts.len().max(1) as f64;
    let last = jcts.get((0.99 * jobs) as usize).copied();
    let makespans: f64 = reports.iter().map(|r| r.summary.makespan_s).sum();
    let all = reports.iter().flat_map(|r| &r.jobs);
    let gpu: f64 = all.map(|j| j.attained_gpu.secs()).sum();
    [
        jcts.iter().sum::<f64>() / jobs,
        last.unwrap_or(0.0),
        makespans / reports.len().max(1) as f64,
        gpu / jobs,
    ]
    .map(|seconds| seconds / 3600.0)
}

fn compared(
    families: &[(&str, usize, [[f64; 4]; 3])],
    source: &'static str,
    picture: &str,
    reports: &[Report],
) -> Findings {
    let mut findings = Findings {
        notes: vec![
            "GPU-hours are those of training, without restarts; the paper's are those that are given"
                .to_owned(),
            "Gavel+TJ runs the requests of the workloads' files; on one type of GPU the paper tunes them anew, which was not published"
                .to_owned(),
        ],
        ..Findings::default()
    };
    let mut bars = BarChart::new("Average JCT", Axis::new("hours"));
    let mut rest = reports;
    let mut lower = !reports.is_empty();
    for (name, count, published) in families {
        let mut averages = Vec::new();
        for ((scheduler, _), published) in SCHEDULERS.iter().zip(published) {
            let (own, others) = rest.split_at((*count).min(rest.len()));
            rest = others;
            let ours = figures_of(own);
            for ((what, ours), published) in FIGURES.iter().zip(ours).zip(published) {
                let row = Row::new(format!("{what}, {name}, {scheduler}"), ours, 2);
                findings.rows.push(row.published(*published, source));
            }
            averages.push((*scheduler, ours[0]));
        }
        if let [(_, sia), (_, pollux), (_, gavel)] = averages[..] {
            lower &= sia < pollux && sia < gavel;
        }
        bars = bars.with(*name, averages);
    }
    let text = "the average JCT under Sia is below those under Pollux and Gavel";
    findings.claims.push(Claim::new(text, lower));
    findings.pictures.push(Picture {
        name: picture.to_owned(),
        svg: bars.svg(),
    });
    findings
}

impl Figure for SiaTable3 {
    fn name(&self) -> &'static str {
        "sia-table3"
    }

    fn title(&self) -> &'static str {
        "Sia (SOSP 2023), table 3: Sia, Pollux and Gavel on 64 GPUs of three types, 28 workloads"
    }

    fn data(&self) -> &'static [DataFile] {
        &[
            TRACES,
            PHILLY,
            DataFile {
                path: "workloads/saturn",
                from: FROM,
            },
            DataFile {
                path: "workloads/newtrace",
                from: FROM,
            },
        ]
    }

    fn runs(&self, data: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
        let applications = read_dir(file(self, data, TRACES.path)?)?;
        let cluster: ClusterSpec = "6x4:aws,2x8:dgx-ext,3x8:rtx".parse()?;
        let mut runs = Vec::new();
        for family in &FAMILIES {
            let folder = file(self, data, family.folder)?;
            runs_of(family, &folder, &cluster, &applications, &mut runs)?;
        }
        Ok(runs)
    }

    fn findings(&self, reports: &[Report]) -> Findings {
        let families = FAMILIES.map(|f| (f.name, f.count, f.published));
        compared(&families, PAPER_3, "sia-table3", reports)
    }
}

impl Figure for SiaTable4 {
    fn name(&self) -> &'static str {
        "sia-table4"
    }

    fn title(&self) -> &'static str {
        "Sia (SOSP 2023), table 4: Sia, Pollux and Gavel on 64 GPUs of one type, the Philly workloads"
    }

    fn data(&self) -> &'static [DataFile] {
        &[TRACES, PHILLY]
    }

    fn runs(&self, data: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
        let applications = read_dir(file(self, data, TRACES.path)?)?;
        let cluster: ClusterSpec = "16x4:aws".parse()?;
        let mut runs = Vec::new();
        let folder = file(self, data, PHILLY.path)?;
        runs_of(&FAMILIES[0], &folder, &cluster, &applications, &mut runs)?;
        Ok(runs)
    }

    fn findings(&self, reports: &[Report]) -> Findings {
        let families = [("Philly", FAMILIES[0].count, HOMOGENEOUS)];
        compared(&families, PAPER_4, "sia-table4", reports)
    }
}
