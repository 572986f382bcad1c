use super::fig12;
use crate::bursty::{NOTE, bursty};
use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row};
use blox_sim::{Measure, Report};
use std::path::Path;

const PAPER: &str =
    "Blox (EuroSys 2024), figure 13, as read by others: 27.3 % less, the threshold is not said";

/// Figure 13 of Blox: LAS with load-based admission and bursts.
pub(crate) const FIG13: Figure = Figure::new(
    "blox-fig13",
    "Blox (EuroSys 2024), figure 13: LAS behind admission by load, bursty arrivals",
    &[],
    plan,
);

fn plan(_: &Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let runs = fig12::runs(Measure::Ids(3000, 4000), || Ok(Box::new(bursty()?)))?;
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut rows = Vec::new();
    let jct: Vec<f64> = reports.iter().map(|r| r.summary.avg_jct_s).collect();
    for (name, ours) in fig12::names().zip(&jct) {
        rows.push(Row::new(format!("avg JCT s, {name}"), *ours, 0));
    }
    for (name, report) in fig12::names().zip(reports) {
        let ours = report.summary.avg_responsiveness_s + fig12::ROUND_S;
        rows.push(Row::new(format!("avg responsiveness s, {name}"), ours, 0));
    }
    let (all, rest) = jct
        .split_first()
        .map_or((f64::NAN, &[][..]), |(a, r)| (*a, r));
    let best = rest.iter().copied().fold(f64::INFINITY, f64::min);
    rows.push(
        Row::new("best avg JCT relative to accept all", best / all, 3).published(0.727, PAPER),
    );
    let mut findings = Findings::noting([NOTE]);
    findings.rows = rows;
    let better = !rest.is_empty() && rest.iter().all(|v| *v < all);
    let text = "admission by load before LAS lowers the average JCT with bursts";
    findings.claims.push(Claim::new(text, better));
    findings.picture(FIG13.name, fig12::distributions("Blox, figure 13", reports));
    findings
}
