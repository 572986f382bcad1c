use super::{FROM, PHILLY, THREE_TYPES, TRACES, workload};
use crate::reproduce::{
    Claim, DataFile, Figure, Findings, Picture, ReproduceError, Row, Run, file,
};
use crate::schedulers::{
    GavelParams, GavelPolicy, gavel_with, optimus, pollux, shockwave, sia, tiresias,
};
use blox_core::{Adapts, ClusterSpec, JobSpec, Pipeline};
use blox_plot::{Axis, BarChart};
use blox_sim::execution::Training;
use blox_sim::execution::training::{Applications, FairTimes, read_dir};
use blox_sim::overheads::CheckpointRestart;
use blox_sim::results::Contention;
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Sia's simulations on three types of GPU, all its workloads.
#[derive(Default)]
pub(in crate::reproduce) struct SiaTable3(Inputs);

/// Sia's simulations on one type of GPU.
#[derive(Default)]
pub(in crate::reproduce) struct SiaTable4(Inputs);

/// What the runs were given, for figures that do not follow from reports alone.
#[derive(Default)]
struct Inputs(Mutex<(Applications, Vec<Vec<JobSpec>>)>);

const PAPER_3: &str = "Sia (SOSP 2023), table 3, of the submission";
const PAPER_4: &str = "Sia (SOSP 2023), table 4, of the submission";
const PAPER_8: &str = "Sia (SOSP 2023), section 5.5 and figure 8, of the submission";
const HOMOGENEOUS: &str = "16x4:aws";

/// What is found for a scheduler over some workloads, and the paper's figures in the same order; `NONE` where there
/// is none.
const FIGURES: [(&str, usize); 9] = [
    ("avg JCT h", 2),
    ("p99 JCT h", 1),
    ("makespan h", 1),
    ("GPU-h a job", 2),
    ("restarts a job", 2),
    ("mean contention", 1),
    ("max contention", 0),
    ("worst finish-time fairness", 2),
    ("% of jobs treated unfairly", 1),
];
/// The place of the first figure that is from another part of the paper.
const FAIRNESS: usize = 7;
type Published = [f64; 9];
const NONE: f64 = f64::NAN;

type Build = fn() -> Pipeline;

/// A scheduler, and what may be changed about its jobs.
struct Contestant {
    name: &'static str,
    build: Build,
    adapts: Adapts,
}

const fn adaptive(name: &'static str, build: Build) -> Contestant {
    let adapts = Adapts::All;
    Contestant {
        name,
        build,
        adapts,
    }
}

/// Of jobs as their owners would ask for.
const fn tuned(name: &'static str, build: Build) -> Contestant {
    let adapts = Adapts::Nothing;
    Contestant {
        name,
        build,
        adapts,
    }
}

const ON_THREE_TYPES: [Contestant; 4] = [
    adaptive("Sia", sia),
    adaptive("Pollux", pollux),
    tuned("Gavel+TJ", gavel),
    tuned("Themis+TJ", themis),
];
const ON_ONE_TYPE: [Contestant; 7] = [
    adaptive("Sia", sia),
    adaptive("Pollux", pollux),
    tuned("Gavel+TJ", gavel),
    tuned("Themis+TJ", themis),
    tuned("Shockwave+TJ", shockwave),
    tuned("Optimus+TJ", optimus),
    tuned("Tiresias+TJ", tiresias),
];

/// Gavel as the paper compares with it: the sum of throughputs.
fn gavel() -> Pipeline {
    gavel_by(GavelPolicy::MaxSumThroughput)
}

/// Finish-time fairness, as Gavel's policy after Themis.
fn themis() -> Pipeline {
    gavel_by(GavelPolicy::FinishTimeFairness)
}

fn gavel_by(policy: GavelPolicy) -> Pipeline {
    gavel_with(GavelParams {
        policy,
        ..GavelParams::default()
    })
}

/// A folder of workloads, how many, the paper's name for it, and its figures under each scheduler.
struct Family {
    folder: &'static str,
    count: usize,
    name: &'static str,
    published: &'static [Published],
}

#[rustfmt::skip]
const FAMILIES: [Family; 3] = [
    Family {
        folder: PHILLY.path,
        count: 8,
        name: "Philly",
        published: &[
            [0.6, 9.5, 14.2, 4.0, NONE, 6.9, 31.0, NONE, NONE],
            [1.0, 14.9, 24.5, 5.6, NONE, 7.2, 42.0, NONE, NONE],
            [1.9, 30.0, 33.8, 9.0, NONE, 9.9, 56.0, NONE, NONE],
        ],
    },
    Family {
        folder: "workloads/saturn",
        count: 10,
        name: "Helios",
        published: &[
            [0.7, 10.9, 14.9, 4.8, NONE, 7.4, 32.0, 1.2, 0.3],
            [1.0, 15.0, 25.5, 5.9, NONE, 6.9, 47.0, 4.6, 28.0],
            [2.5, 38.7, 43.0, 12.1, NONE, 9.2, 48.0, 27.8, 15.0],
        ],
    },
    Family {
        folder: "workloads/newtrace",
        count: 10,
        name: "newTrace",
        published: &[
            [0.7, 4.6, 52.2, 3.0, NONE, 13.0, 69.0, NONE, NONE],
            [1.5, 10.3, 62.3, 3.4, NONE, 22.0, 85.0, NONE, NONE],
            [11.3, 98.1, 110.0, 6.4, NONE, 96.0, 243.0, NONE, NONE],
        ],
    },
];

#[rustfmt::skip]
const PHILLY_ON_ONE_TYPE: Family = Family {
    folder: PHILLY.path,
    count: 8,
    name: "Philly",
    published: &[
        [1.9, 18.1, 21.4, 8.4, 2.6, NONE, NONE, NONE, NONE],
        [2.0, 19.3, 21.7, 8.6, 5.1, NONE, NONE, NONE, NONE],
        [4.3, 37.1, 44.3, 15.3, NONE, NONE, NONE, NONE, NONE],
        [5.4, 44.7, 49.7, 17.2, NONE, NONE, NONE, NONE, NONE],
        [3.6, 32.8, 35.0, 12.5, NONE, NONE, NONE, NONE, NONE],
    ],
};

impl Inputs {
    /// A run for each scheduler and workload.
    fn runs(
        &self,
        figure: &dyn Figure,
        data: Option<&Path>,
        cluster: &str,
        contestants: &[Contestant],
        families: &[Family],
    ) -> Result<Vec<Run>, ReproduceError> {
        let cluster: ClusterSpec = cluster.parse()?;
        let applications = read_dir(file(figure, data, TRACES.path)?)?;
        let mut runs = Vec::new();
        let mut all = Vec::new();
        for family in families {
            for contestant in contestants {
                for number in 1..=family.count {
                    let mut jobs = workload(figure, data, family.folder, number)?;
                    for job in &mut jobs {
                        applications.describe(job, contestant.adapts);
                    }
                    all.push(jobs.clone());
                    runs.push(Run {
                        label: format!("{}, {} {number}", contestant.name, family.name),
                        simulation: Simulation::new(cluster.clone())
                            .execution(Training::of(applications.clone()))
                            .overheads(CheckpointRestart::default()),
                        scheduler: (contestant.build)(),
                        workload: Box::new(Jobs::new(jobs)),
                    });
                }
            }
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (applications, all);
        Ok(runs)
    }

    fn findings(
        &self,
        cluster: &str,
        contestants: &[Contestant],
        families: &[Family],
        source: &'static str,
        reports: &[Report],
    ) -> Findings {
        let inputs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let training = Training::of(inputs.0.clone());
        let cluster: ClusterSpec = cluster.parse().unwrap_or_default();
        let mut fair = FairTimes::on(&cluster, &training);
        let types: BTreeSet<_> = cluster.nodes.iter().map(|n| &n.gpu_type).collect();
        let kinds = types.len();
        let mut findings = Findings {
            notes: vec![
                "times and figures a job are over all jobs of all workloads, makespan and mean contention means over workloads".to_owned(),
                "+TJ: jobs keep the GPUs and the batch that the files ask for; on one type of GPU the paper tunes them anew, which was not published".to_owned(),
                "finish-time fairness is a job's completion time over that alone on its share of the cluster; above 1 it was treated unfairly. The paper's is of jobs that the same scheduler decides about alone".to_owned(),
            ],
            ..Findings::default()
        };
        let mut bars = BarChart::new("Average JCT", Axis::new("hours"));
        let mut runs = reports.iter().zip(&inputs.1);
        for family in families {
            let mut averages = Vec::new();
            for (i, contestant) in contestants.iter().enumerate() {
                let own: Vec<_> = runs.by_ref().take(family.count).collect();
                let ours = figures_of(&own, &mut fair);
                let published = family.published.get(i);
                for (k, ((what, decimals), ours)) in FIGURES.iter().zip(ours).enumerate() {
                    let text = format!("{what}, {}, {}", family.name, contestant.name);
                    let mut row = Row::new(text, ours, *decimals);
                    if let Some(value) = published.map(|p| p[k]).filter(|p| !p.is_nan()) {
                        let from = if k < FAIRNESS { source } else { PAPER_8 };
                        row = row.published(value, from);
                    }
                    findings.rows.push(row);
                }
                averages.push((contestant.name, ours[0]));
            }
            let text = format!(
                "{}: the average JCT under Sia is below those of jobs that are tuned beforehand, under each scheduler",
                family.name
            );
            let below = averages.iter().skip(2).all(|(_, jct)| averages[0].1 < *jct);
            findings.claims.push(Claim::new(text, below));
            findings.claims.push(match kinds {
                1 => Claim::new(
                    "on one type of GPU the average JCTs under Sia and Pollux lie within 10 % of each other",
                    (averages[0].1 / averages[1].1 - 1.0).abs() <= 0.1,
                ),
                _ => Claim::new(
                    format!(
                        "{}: the average JCT under Sia is below that under Pollux",
                        family.name
                    ),
                    averages[0].1 < averages[1].1,
                ),
            });
            bars = bars.with(family.name, averages);
        }
        findings.pictures.push(Picture {
            name: match kinds {
                1 => "sia-table4".to_owned(),
                _ => "sia-table3".to_owned(),
            },
            svg: bars.svg(),
        });
        findings
    }
}

/// The figures, in the order of their names, over the workloads of a family.
fn figures_of(runs: &[(&Report, &Vec<JobSpec>)], fair: &mut FairTimes<'_>) -> Published {
    let all = || runs.iter().flat_map(|(r, _)| &r.jobs);
    let mut jcts: Vec<f64> = all().filter_map(|j| Some(j.jct()?.hours())).collect();
    jcts.sort_by(f64::total_cmp);
    let jobs = jcts.len().max(1) as f64;
    let workloads = runs.len().max(1) as f64;
    let given = || all().filter_map(|j| j.given);
    let contention: Vec<Contention> = runs.iter().map(|(r, _)| Contention::of(&r.jobs)).collect();
    let ratios = runs.iter().flat_map(|(r, jobs)| fair.ratios(jobs, &r.jobs));
    let ratios: Vec<f64> = ratios.flatten().collect();
    let unfair = ratios.iter().filter(|rho| **rho > 1.0).count();
    let makespans = runs.iter().map(|(r, _)| r.summary.makespan_s / 3600.0);
    [
        jcts.iter().sum::<f64>() / jobs,
        jcts.get((0.99 * jobs) as usize).copied().unwrap_or(0.0),
        makespans.sum::<f64>() / workloads,
        given().map(|g| g.gpu.hours()).sum::<f64>() / jobs,
        given().map(|g| f64::from(g.restarts)).sum::<f64>() / jobs,
        contention.iter().map(Contention::mean).sum::<f64>() / workloads,
        contention.iter().map(Contention::most).max().unwrap_or(0) as f64,
        ratios.iter().copied().fold(0.0, f64::max),
        100.0 * unfair as f64 / ratios.len().max(1) as f64,
    ]
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
        self.0
            .runs(self, data, THREE_TYPES, &ON_THREE_TYPES, &FAMILIES)
    }

    fn findings(&self, reports: &[Report]) -> Findings {
        self.0
            .findings(THREE_TYPES, &ON_THREE_TYPES, &FAMILIES, PAPER_3, reports)
    }
}

impl Figure for SiaTable4 {
    fn name(&self) -> &'static str {
        "sia-table4"
    }

    fn title(&self) -> &'static str {
        "Sia (SOSP 2023), table 4: Sia, Pollux and schedulers of tuned jobs on 64 GPUs of one type, the Philly workloads"
    }

    fn data(&self) -> &'static [DataFile] {
        &[TRACES, PHILLY]
    }

    fn runs(&self, data: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
        let families = [PHILLY_ON_ONE_TYPE];
        self.0
            .runs(self, data, HOMOGENEOUS, &ON_ONE_TYPE, &families)
    }

    fn findings(&self, reports: &[Report]) -> Findings {
        let families = [PHILLY_ON_ONE_TYPE];
        self.0
            .findings(HOMOGENEOUS, &ON_ONE_TYPE, &families, PAPER_4, reports)
    }
}
