use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row, Run};
use blox_core::{ClusterSpec, Scheduler};
use blox_plot::{Axis, BarChart};
use blox_schedulers::schedulers::{fifo, loss_termination};
use blox_sim::workload::Limited;
use blox_sim::{Measure, Report, Simulation};
use blox_traces::generate::blox::BloxWorkload;
use blox_traces::generate::with_losses;
use std::path::Path;

const LOADS: [f64; 3] = [4.0, 6.0, 8.0];
const PAPER: &str =
    "Blox (EuroSys 2024), figure 16, as read by others: 44 % less, the load is not said";

/// Figure 16 of Blox: jobs end when their loss has converged.
pub(crate) const FIG16: Figure = Figure::new(
    "blox-fig16",
    "Blox (EuroSys 2024), figure 16: jobs end when their loss has converged",
    &[],
    plan,
);

fn plan(_: &Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    let mut runs = Vec::new();
    for load in LOADS {
        for scheduler in [fifo(), loss_termination()] {
            let jobs = Limited::new(BloxWorkload::new(load)?, 10_000);
            runs.push(Run::Simulation {
                label: format!("{} at {load} jobs an hour", scheduler.name()),
                simulation: Simulation::new(ClusterSpec::uniform(32, 4))
                    .measure(Measure::Ids(3000, 4000)),
                scheduler,
                workload: Box::new(with_losses(jobs, 1)),
            });
        }
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let mut findings = Findings::noting([
        "128 GPUs (32x4), rounds of 300 s, jobs 3000 to 4000 of Blox's workload, one GPU each; both schedulers are FIFO otherwise",
        "losses are made up: 100 epochs a job; three quarters of the jobs have converged after 40 of them, the others after 40 to 100. The paper's losses are not released",
        "at 8 jobs/h the cluster is overloaded, and fewer epochs also empty the queue",
    ]);
    let mut bars = BarChart::new("Blox, figure 16", Axis::seconds("average JCT"));
    let mut lower = !reports.is_empty();
    for (load, pair) in LOADS.iter().zip(reports.chunks(2)) {
        let [all, ended] = pair else { continue };
        let (all, ended) = (all.summary.avg_jct_s, ended.summary.avg_jct_s);
        lower &= ended < all;
        for (name, value) in [("to the last epoch", all), ("until converged", ended)] {
            let what = format!("avg JCT s, {load} jobs/h, {name}");
            findings.rows.push(Row::new(what, value, 0));
        }
        let what = format!("until converged relative to all epochs, {load} jobs/h");
        let row = Row::new(what, ended / all, 3);
        findings.rows.push(row.published(0.56, PAPER));
        bars = bars.with(
            format!("{load} jobs/h"),
            [("to the last epoch", all), ("until converged", ended)],
        );
    }
    findings.claims.push(Claim::new(
        "ending jobs whose loss has converged lowers the average JCT",
        lower,
    ));
    findings.picture("blox-fig16", bars.svg());
    findings
}
