use crate::figure::{Claim, DataFile, Figure, Findings, Plan, ReproduceError, Row, Run, file};
use crate::gavel::GavelWorkload;
use blox_core::{ClusterSpec, Seconds};
use blox_plot::{Axis, BarChart};
use blox_policies::scheduling::gavel::shares::Knows;
use blox_schedulers::schedulers::{GavelParams, gavel_with};
use blox_sim::completion::Exact;
use blox_sim::{Measure, Report, Simulation};
use blox_traces::formats::gavel::Oracle;
use std::path::Path;
use std::sync::Arc;

const RELEASED: &str = "stanford-futuredata/gavel c4fa400, its simulator, seed 0, 36 GPUs of each type, lambda 1125, jobs 4000 to 4999";
const PAPER: &str = "Gavel (OSDI 2020), Figure 8, as read by others: up to 3.5 times at high load";

/// Throughput knowledge, its name, and the released program's average completion time.
const KNOWS: [(Knows, &str, f64); 2] = [
    (Knows::Types, "types known", 58824.379568465185),
    (Knows::Nothing, "all GPUs alike", 85775.1139294605),
];

/// One load of Gavel's Figure 8: endless arrivals of one-GPU jobs.
pub(crate) const FIG8: Figure = Figure::new(
    "gavel-fig8",
    "Gavel (OSDI 2020), Figure 8: max-min fairness with and without knowing the types, 3.2 jobs an hour",
    &[DataFile::new(
        "simulation_throughputs.json",
        "the folder `scheduler` of https://github.com/stanford-futuredata/gavel (MIT)",
    )],
    plan,
);

fn plan(figure: &Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let oracle = Arc::new(Oracle::read(file(figure, data, figure.data[0].path)?)?);
    let cluster: ClusterSpec = "36x1:k80,36x1:p100,36x1:v100".parse()?;
    let run = |(knows, label, _): (Knows, &str, f64)| Run::Simulation {
        label: label.to_owned(),
        simulation: Simulation::new(cluster.clone())
            .completion(Exact)
            .measure(Measure::Ids(4000, 4999)),
        scheduler: gavel_with(GavelParams {
            knows,
            ..GavelParams::default()
        }),
        workload: Box::new(GavelWorkload::new(
            Arc::clone(&oracle),
            Seconds::new(1125.0),
            0,
            false,
        )),
    };
    Ok(Plan::of(KNOWS.into_iter().map(run).collect(), findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut findings = Findings::default();
    let mut bars = BarChart::new("Max-min fairness", Axis::seconds("average completion time"));
    let mut values = Vec::new();
    for ((_, label, theirs), report) in KNOWS.iter().zip(reports) {
        let ours = report.summary.avg_jct_s;
        values.push(ours);
        let row = Row::new(format!("average completion time s, {label}"), ours, 1);
        findings.rows.push(row.artifact(*theirs, RELEASED));
        bars = bars.with(*label, vec![("ours", ours), ("released program", *theirs)]);
    }
    if let [known, alike] = values[..] {
        let row = Row::new("gain from knowing the types, times", alike / known, 2);
        findings.rows.push(row.published(3.5, PAPER));
        let text = "knowing the types shortens completion times by a quarter or more";
        findings.claims = vec![Claim::new(text, known < 0.75 * alike)];
    }
    findings.picture(FIG8.name, bars.svg());
    findings
}
