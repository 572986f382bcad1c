use crate::bursty::{NOTE, bursty};
use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row, Run};
use blox_core::{ClusterSpec, Pipeline, Scheduler};
use blox_plot::{Axis, BarChart};
use blox_schedulers::schedulers::{SynthesizerParams, synthesizer_candidates, synthesizer_with};
use blox_sim::{Measure, Report, Simulation};
use std::path::Path;

/// Name of the group of the synthesizer with its own candidates.
const ALL: &str = "all";

/// Returns synthesizers with different sets of candidates.
fn groups() -> [(&'static str, SynthesizerParams); 2] {
    let all = SynthesizerParams::default();
    let blind = SynthesizerParams { srtf: false, ..all };
    [(ALL, all), ("without Srtf", blind)]
}

fn schedulers(params: &SynthesizerParams) -> Vec<Pipeline> {
    let mut list = synthesizer_candidates(params);
    list.push(synthesizer_with(*params));
    list
}

/// Figures 14 and 15 of Blox: the automatic synthesizer, compared with its static candidates.
pub(crate) const FIG14: Figure = Figure::new(
    "blox-fig14",
    "Blox (EuroSys 2024), figures 14 and 15: the automatic synthesizer beside static compositions",
    &[],
    plan,
);

fn plan(_: &Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let mut runs = Vec::new();
    for (group, params) in groups() {
        for scheduler in schedulers(&params) {
            runs.push(Run::Simulation {
                label: format!("{} ({group})", scheduler.name()),
                simulation: Simulation::new(ClusterSpec::uniform(32, 4))
                    .measure(Measure::Ids(3000, 4000)),
                scheduler,
                workload: Box::new(bursty()?),
            });
        }
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut findings = Findings::noting([NOTE, "the synthesizer looks ahead with true durations"]);
    let mut bars = BarChart::new("Blox, figure 14", Axis::seconds("average JCT"));
    let mut rest = reports;
    for (group, params) in groups() {
        let count = schedulers(&params).len().min(rest.len());
        let (mine, others) = rest.split_at(count);
        rest = others;
        let Some((synthesizer, statics)) = mine.split_last() else {
            continue;
        };
        let jct = |r: &Report| r.summary.avg_jct_s;
        for report in mine {
            let what = format!(
                "avg JCT s, {}, candidates: {group}",
                report.summary.scheduler
            );
            findings.rows.push(Row::new(what, jct(report), 0));
            bars = bars.with(report.summary.scheduler.as_str(), [(group, jct(report))]);
        }
        let best = statics.iter().map(jct).fold(f64::INFINITY, f64::min);
        findings.rows.push(
            Row::new(
                format!("synthesizer relative to the best static, candidates: {group}"),
                jct(synthesizer) / best,
                3,
            )
            .published(1.0, "Blox (EuroSys 2024), figures 14 and 15, as read by others: equal to the best static composition"),
        );
        // With its own candidates, the published result must hold.
        let (how, bound) = match group == ALL {
            true => ("as good as", 1.0),
            false => ("within 2 % of", 1.02),
        };
        let text = format!("the synthesizer is {how} the best static composition");
        let near = jct(synthesizer) <= bound * best;
        findings
            .claims
            .push(Claim::new(format!("{text} (candidates: {group})"), near));
    }
    findings.picture("blox-fig14", bars.svg());
    findings
}
