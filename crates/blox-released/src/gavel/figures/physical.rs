use crate::figure::{Claim, DataFile, Figure, Findings, Picture, ReproduceError, Row, Run, file};
use blox_core::ClusterSpec;
use blox_plot::{Axis, BarChart};
use blox_policies::scheduling::gavel::shares::Knows;
use blox_schedulers::schedulers::{GavelParams, GavelPolicy, gavel_with};
use blox_sim::completion::Exact;
use blox_sim::workload::Jobs;
use blox_sim::{Report, Simulation};
use blox_traces::formats::gavel::{Oracle, read_jobs};
use std::path::Path;

/// Simulation of Gavel's jobs for its physical cluster.
pub(crate) struct GavelPhysical {
    name: &'static str,
    title: &'static str,
    data: &'static [DataFile],
    what: &'static str,
    value: fn(&Report) -> f64,
    /// Policy, throughput knowledge, name, and result of the released program.
    policies: &'static [(GavelPolicy, Knows, &'static str, f64)],
    /// Indices of the better and the worse policy, and the paper's claim.
    claim: (usize, usize, &'static str),
}

const RELEASED: &str =
    "stanford-futuredata/gavel c4fa400, its simulator, seed 0, 24 K80, 16 P100 and 8 V100";

const SPEEDS: DataFile = DataFile {
    path: "physical_cluster_throughputs.json",
    from: "the folder `scheduler` of https://github.com/stanford-futuredata/gavel (MIT)",
};

/// Average completion time of 96 jobs that arrive within 13 hours.
pub(crate) const LAS: GavelPhysical = GavelPhysical {
    name: "gavel-las",
    title: "Gavel (OSDI 2020), Table 3: average completion time on the physical cluster, in simulation",
    data: &[
        DataFile {
            path: "max_min_fairness.trace",
            from: "the folder `scheduler/traces/physical_cluster` of https://github.com/stanford-futuredata/gavel (MIT)",
        },
        SPEEDS,
    ],
    what: "average completion time s",
    value: |report| report.summary.avg_jct_s,
    policies: &[
        (
            GavelPolicy::MaxMinFairness,
            Knows::Types,
            "max-min, types known",
            13766.02,
        ),
        (
            GavelPolicy::MaxMinFairness,
            Knows::Nothing,
            "max-min, all GPUs alike",
            18705.37,
        ),
        (
            GavelPolicy::WaterFilling,
            Knows::Types,
            "water filling, types known",
            13314.12,
        ),
        (
            GavelPolicy::FinishTimeFairness,
            Knows::Types,
            "finish-time fairness, types known",
            14170.46,
        ),
        (
            GavelPolicy::FinishTimeFairness,
            Knows::Nothing,
            "finish-time fairness, all GPUs alike",
            18517.75,
        ),
        (
            GavelPolicy::MaxSumThroughput,
            Knows::Types,
            "most throughput",
            15665.49,
        ),
        (GavelPolicy::Isolated, Knows::Types, "isolated", 18936.53),
        (
            GavelPolicy::GandivaPacking,
            Knows::Pairs,
            "Gandiva's packing",
            17128.81,
        ),
        (
            GavelPolicy::Fifo,
            Knows::Types,
            "first in, first out on the fastest",
            18643.39,
        ),
    ],
    claim: (0, 1, "max-min fairness gains from knowing the types"),
};

/// Makespan of 100 jobs that are all submitted at the start.
pub(crate) const MAKESPAN: GavelPhysical = GavelPhysical {
    name: "gavel-makespan",
    title: "Gavel (OSDI 2020), Table 3: makespan on the physical cluster, in simulation",
    data: &[
        DataFile {
            path: "minimize_makespan.trace",
            from: "the folder `scheduler/traces/physical_cluster` of https://github.com/stanford-futuredata/gavel (MIT)",
        },
        SPEEDS,
    ],
    what: "makespan s",
    value: |report| report.end.secs(),
    policies: &[
        (
            GavelPolicy::MinTotalDuration,
            Knows::Types,
            "least duration, types known",
            62657.12,
        ),
        (
            GavelPolicy::MinTotalDuration,
            Knows::Nothing,
            "least duration, all GPUs alike",
            74560.97,
        ),
        (
            GavelPolicy::MaxMinFairness,
            Knows::Types,
            "max-min, types known",
            67093.39,
        ),
        (
            GavelPolicy::GandivaPacking,
            Knows::Pairs,
            "Gandiva's packing",
            75341.74,
        ),
        (GavelPolicy::Isolated, Knows::Types, "isolated", 80134.65),
        (
            GavelPolicy::Fifo,
            Knows::Types,
            "first in, first out on the fastest",
            87502.20,
        ),
    ],
    claim: (
        0,
        3,
        "least duration with known types ends before Gandiva's packing",
    ),
};

impl Figure for GavelPhysical {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn data(&self) -> &'static [DataFile] {
        self.data
    }

    fn runs(&self, data: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
        let oracle = Oracle::read(file(self, data, SPEEDS.path)?)?;
        let jobs = read_jobs(file(self, data, self.data[0].path)?, &oracle)?;
        let cluster: ClusterSpec = "24x1:k80,16x1:p100,8x1:v100".parse()?;
        let run = |&(policy, knows, label, _): &(GavelPolicy, Knows, &str, f64)| Run::Simulation {
            label: label.to_owned(),
            simulation: Simulation::new(cluster.clone()).completion(Exact),
            scheduler: gavel_with(GavelParams {
                policy,
                knows,
                ..GavelParams::default()
            }),
            workload: Box::new(Jobs::new(jobs.clone())),
        };
        Ok(self.policies.iter().map(run).collect())
    }

    fn findings(&self, reports: &[Report]) -> Findings {
        let mut findings = Findings {
            notes: vec![
                "rounds of 360 s that do not end early, shares asked for at every change, no idle GPUs for new jobs: \
                 the released program's rounds end with their slowest job, and it asks at most every 1920 s"
                    .to_owned(),
            ],
            ..Findings::default()
        };
        let mut bars = BarChart::new(self.title, Axis::seconds(self.what));
        let mut values = Vec::new();
        for ((_, _, label, theirs), report) in self.policies.iter().zip(reports) {
            let ours = (self.value)(report);
            values.push(ours);
            let row = Row::new(format!("{}, {label}", self.what), ours, 1);
            findings.rows.push(row.artifact(*theirs, RELEASED));
            bars = bars.with(*label, vec![("ours", ours), ("released program", *theirs)]);
        }
        let (better, worse, text) = self.claim;
        let holds = values.get(better).zip(values.get(worse));
        findings.claims = vec![Claim::new(text, holds.is_some_and(|(b, w)| b < w))];
        findings.pictures.push(Picture {
            name: self.name.to_owned(),
            svg: bars.svg(),
        });
        findings
    }
}
