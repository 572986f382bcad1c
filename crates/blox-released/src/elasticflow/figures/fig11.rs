use super::*;
use crate::figure::Numbers;
use blox_results::Summary;

/// Returns the fraction of deadlines met, and the mean JCT of best-effort jobs.
///
/// The deadlines are of jobs that are not best-effort.
fn measured(program: Program, report: &Report, best_effort: &[bool]) -> (f64, f64) {
    let (mut met, mut due, mut jct, mut ended) = (0, 0_u32, 0.0, 0_u32);
    for (job, lazy) in report.jobs.iter().zip(best_effort) {
        if *lazy {
            if let Some(took) = job.jct() {
                jct += took.secs();
                ended += 1;
            }
        } else {
            due += 1;
            // Chronus treats all jobs as jobs with a deadline, so its met deadlines are counted
            // here.
            let in_time = job.deadline.zip(job.finish).is_some_and(|(d, f)| f <= d);
            met += u64::from(in_time && job.outcome != Some(Outcome::Rejected));
        }
    }
    if program.1 != Algorithm::Chronus {
        met = Summary::of(report).deadlines.unwrap_or_default().met;
    }
    let per = |sum: f64, count: u32| sum / f64::from(count.max(1));
    (per(met as f64, due), per(jct, ended))
}

/// Plans jobs with deadlines and best-effort jobs together, by the fraction of the latter.
pub(crate) fn plan(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let table = a100(figure, data)?;
    let world = World::new(1, 8, 8, 240.0);
    let mut runs = Vec::new();
    for share in [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9] {
        let recipe = Recipe {
            jobs: 200,
            mean_gap_s: 900.0,
            best_effort: share,
            unseeded: UNSEEDED,
            ..Recipe::default()
        };
        let jobs = in_order(recipe.generate(&table)?);
        let of = format!("{:.0} % best effort", share * 100.0);
        runs.extend(programs(figure).map(|p| world.run(p, &jobs, &table, &of)));
    }
    Ok(Plan::of(runs, move |reports| {
        let (mut met, mut speedups) = (Vec::new(), Vec::new());
        for reports in reports.chunks(figure.columns(0).len()) {
            // Jobs without a deadline in the first run (Gandiva).
            let best_effort: Vec<bool> = reports[0]
                .jobs
                .iter()
                .map(|j| j.deadline.is_none())
                .collect();
            let mut gandiva = None;
            for (program, report) in programs(figure).zip(reports) {
                let (ours, took) = measured(program, report, &best_effort);
                met.push(ours);
                speedups.push(*gandiva.get_or_insert(took) / took);
            }
        }
        figure.findings(Numbers::of([met, speedups]))
    }))
}
