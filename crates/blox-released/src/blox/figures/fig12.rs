use crate::blox;
use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row, Run};
use blox_core::ClusterSpec;
use blox_plot::{Axis, Chart, Series};
use blox_policies::admission::LoadThreshold;
use blox_sim::workload::{Limited, Workload};
use blox_sim::{Measure, Report, Simulation};
use blox_traces::generate::blox::BloxWorkload;
use std::path::Path;

/// Threshold, and average JCT and responsiveness under the released rules.
const CASES: [(Option<f64>, f64, f64); 6] = [
    (None, 188_995.0, 450.7),
    (Some(1.5), 148_047.0, 31_147.0),
    (Some(1.4), 155_625.0, 48_056.0),
    (Some(1.2), 155_495.0, 69_685.0),
    (Some(1.1), 141_318.0, 74_283.0),
    (Some(1.0), 131_468.0, 75_200.0),
];

const RULES: &str = "the rules of msr-fiddle/blox c8851b2, run independently (its own driver of this figure does not start)";
const CURVE: &str = "msr-fiddle/blox c8851b2, its rules, and the average behind the JCT curve that its authors committed";
const PAPER: &str = "Blox (EuroSys 2024), figure 12, as read by others: 15 % less";

/// Number of jobs. Starved measured jobs end only after the last arrival.
const JOBS: u64 = 30_000;
/// Round length in seconds. The released program measures responsiveness to the first report, one
/// round after the start.
pub(crate) const ROUND_S: f64 = 300.0;
/// Note about the definition of responsiveness.
pub(crate) const COUNTED: &str = "responsiveness is counted as the released program counts it: until the first report, a round after the start";

fn name(threshold: Option<f64>) -> String {
    threshold.map_or("accept all".to_owned(), |t| format!("accept {t:.1}x"))
}

/// Returns the names of the cases, in the order of their runs.
pub(crate) fn names() -> impl Iterator<Item = String> {
    CASES.iter().map(|(threshold, ..)| name(*threshold))
}

/// Returns runs of LAS with each admission policy on one workload.
pub(crate) fn runs(
    measure: Measure,
    workload: impl Fn() -> Result<Box<dyn Workload>, ReproduceError>,
) -> Result<Vec<Run>, ReproduceError> {
    CASES
        .iter()
        .map(|(threshold, ..)| {
            let las = blox::las();
            Ok(Run::Simulation {
                label: name(*threshold),
                simulation: Simulation::new(ClusterSpec::uniform(32, 4)).measure(measure.clone()),
                scheduler: match threshold {
                    None => las,
                    Some(t) => las
                        .with_admission(LoadThreshold::new(*t)?)
                        .expect(crate::ONCE),
                },
                workload: workload()?,
            })
        })
        .collect()
}

/// Returns a chart of the JCT distribution for each admission policy.
pub(crate) fn distributions(title: &str, reports: &[Report]) -> String {
    let series = CASES.iter().zip(reports).map(|((threshold, ..), report)| {
        let measured = report.jobs.iter().filter(|j| j.measured);
        Series::distribution(
            name(*threshold),
            measured.filter_map(|j| j.jct()).map(|s| s.secs()),
        )
    });
    Chart::distribution(title, Axis::seconds("JCT").log())
        .with_all(series)
        .svg()
}

/// Figure 12 of Blox: LAS with load-based admission.
pub(crate) const FIG12: Figure = Figure::new(
    "blox-fig12",
    "Blox (EuroSys 2024), figure 12: LAS behind admission by load, steady arrivals",
    &[],
    plan,
);

fn plan(_: &Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let runs = runs(Measure::Ids(3000, 4000), || {
        Ok(Box::new(Limited::new(BloxWorkload::new(8.0)?, JOBS)))
    });
    Ok(Plan::of(runs?, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut rows = Vec::new();
    let jct: Vec<f64> = reports.iter().map(|r| r.summary.avg_jct_s).collect();
    let source = |threshold: Option<f64>| threshold.map_or(CURVE, |_| RULES);
    for ((threshold, theirs, _), ours) in CASES.iter().zip(&jct) {
        let what = format!("avg JCT s, {}", name(*threshold));
        rows.push(Row::new(what, *ours, 0).artifact(*theirs, source(*threshold)));
    }
    for ((threshold, _, theirs), report) in CASES.iter().zip(reports) {
        let what = format!("avg responsiveness s, {}", name(*threshold));
        let ours = report.summary.avg_responsiveness_s + ROUND_S;
        rows.push(Row::new(what, ours, 0).artifact(*theirs, source(*threshold)));
    }
    let relative = |ours: &[f64]| ours.get(3).zip(ours.first()).map(|(a, all)| a / all);
    let theirs: Vec<f64> = CASES.iter().map(|c| c.1).collect();
    if let (Some(ours), Some(theirs)) = (relative(&jct), relative(&theirs)) {
        rows.push(
            Row::new("avg JCT at 1.2x relative to accept all", ours, 3)
                .published(0.85, PAPER)
                .artifact(theirs, RULES),
        );
    }
    let better = jct.len() == CASES.len() && jct[1..].iter().all(|v| *v < jct[0]);
    let mut findings = Findings::noting([
        "128 GPUs (32x4), rounds of 300 s, 8 jobs/h, jobs 3000 to 4000 of 30,000, one GPU each",
        "from 1.2x on single measured jobs starve until arrivals end: the averages there depend on how many jobs come (at 1.2x 142,080 s with 13,752 jobs, 160,220 s with 40,010)",
        COUNTED,
    ]);
    findings.rows = rows;
    let text = "admission by load before LAS lowers the average JCT under overload";
    findings.claims.push(Claim::new(text, better));
    findings.picture(FIG12.name, distributions("Blox, figure 12", reports));
    findings
}
