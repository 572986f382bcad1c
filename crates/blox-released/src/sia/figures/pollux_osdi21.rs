use crate::figure::{Claim, DataFile, Figure, Findings, Plan, ReproduceError, Row, Run, file};
use crate::sia::pollux as released;
use crate::sia::world::{pollux_applications, pollux_training};
use blox_core::{Adapts, ClusterSpec, Pipeline, Seconds};
use blox_plot::{Axis, BarChart};
use blox_schedulers::schedulers;
use blox_sim::execution::training::Applications;
use blox_sim::overheads::CheckpointRestart;
use blox_sim::workload::{Jobs, collect};
use blox_sim::{Report, Simulation};
use blox_traces::applications::read_dir;
use blox_traces::{Format, open_file};
use std::path::Path;

const FROM: &str = "https://github.com/petuum/adaptdl, branch osdi21-artifact, folder `simulator`; the tables of type aws of https://github.com/siasosp23/artifacts are the same";
const TRACES: &str = "traces";
const WORKLOADS: &str = "workloads";
const RELEASED: &str = "petuum/adaptdl, branch osdi21-artifact, simulator/results-jobload";

/// Average JCT in seconds of workloads 1 to 8 in the released results.
const NAMES: [(&str, [f64; 8]); 3] = [
    (
        "Pollux",
        [
            2088.77, 3322.94, 2188.49, 2720.98, 2673.70, 2446.13, 3616.14, 2951.91,
        ],
    ),
    (
        "Optimus",
        [
            4087.06, 6913.88, 3944.01, 5967.75, 5656.25, 5301.88, 7290.86, 6293.79,
        ],
    ),
    (
        "Tiresias",
        [
            2473.65, 5144.96, 3876.26, 3280.26, 3501.01, 3469.69, 5479.91, 5079.71,
        ],
    ),
];

fn scheduler(name: &str, applications: &Applications) -> Pipeline {
    let round = Seconds::new(released::ROUND_S);
    match name {
        "Pollux" => schedulers::pollux(),
        "Optimus" => released::optimus(round, pollux_applications(applications.clone())),
        _ => released::tiresias(round),
    }
}

/// Pollux' released simulations: eight workloads under three schedulers.
pub(crate) const POLLUX: Figure = Figure::new(
    "pollux-osdi21",
    "Pollux (OSDI 2021): its released simulations on 64 GPUs, eight workloads of 160 jobs",
    &[DataFile::new(TRACES, FROM), DataFile::new(WORKLOADS, FROM)],
    plan,
);

fn plan(figure: &Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let applications = read_dir(file(figure, data, TRACES)?)?;
    let there = pollux_applications(applications.clone());
    let folder = file(figure, data, WORKLOADS)?;
    let cluster: ClusterSpec = "16x4:aws".parse()?;
    let mut runs = Vec::new();
    for (name, _) in NAMES {
        let adapts = match name {
            "Pollux" => Adapts::All,
            _ => Adapts::Nothing,
        };
        for number in 1..=8 {
            let path = folder.join(format!("workload-{number}.csv"));
            let mut jobs = collect(&mut open_file(path, Some(Format::Sia))?)?;
            for job in &mut jobs {
                there.describe(job, adapts);
            }
            runs.push(Run::Simulation {
                label: format!("{name}, workload {number}"),
                simulation: Simulation::new(cluster.clone())
                    .execution(pollux_training(applications.clone()))
                    .overheads(CheckpointRestart::default()),
                scheduler: scheduler(name, &applications),
                workload: Box::new(Jobs::new(jobs)),
            });
        }
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut findings = Findings::noting([
        "Optimus and Tiresias are the artifact's, equal per job where step times of placements that were not measured are taken from it; here they are interpolated another way",
        "Pollux draws at random, there and here",
    ]);
    let mut bars = BarChart::new("Pollux' eight workloads", Axis::seconds("average JCT"));
    let mut means = Vec::new();
    for ((name, theirs), reports) in NAMES.iter().zip(reports.chunks(8)) {
        let mut sums = (0.0, 0.0);
        for (i, (theirs, report)) in theirs.iter().zip(reports).enumerate() {
            let ours = report.summary.avg_jct_s;
            let row = Row::new(format!("avg JCT s, {name}, workload {}", i + 1), ours, 1);
            findings.rows.push(row.artifact(*theirs, RELEASED));
            sums = (sums.0 + ours, sums.1 + theirs);
        }
        let (ours, theirs) = (sums.0 / 8.0, sums.1 / 8.0);
        let row = Row::new(format!("avg JCT s, {name}, mean"), ours, 1);
        findings.rows.push(row.artifact(theirs, RELEASED));
        means.push((*name, ours));
        let near = (ours / theirs - 1.0).abs() < 0.05;
        let text = format!("the mean of {name} lies within 5 % of the released one");
        findings.claims.push(Claim::new(text, near));
    }
    bars = bars.with("mean", means);
    findings.picture("pollux-osdi21", bars.svg());
    findings
}
