use super::*;
use crate::elasticflow::files::Recipe;
use crate::figure::{Claim, Plan};
use blox_plot::{Axis, Chart, Series};

const PAPER_MET: &str =
    "ElasticFlow (ASPLOS 2023), figure 11(a), as the script that plots it has the numbers";
const PAPER_JCT: &str =
    "ElasticFlow (ASPLOS 2023), figure 11(b), as the script that plots it has the numbers";

/// Fractions of best-effort jobs.
const SHARES: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Index of EDF among the other programs.
const EDF_AT: usize = 1;
/// Index of the fraction at which the released program was run.
const HALF: usize = 4;

/// Program, published ratios of deadlines met, published speed-ups of best-effort jobs, and
/// deadlines met in the released program at one half.
type Line = (Program, [f64; 9], [f64; 9], Option<u64>);

const PROGRAMS: [Line; 6] = [
    (
        GANDIVA,
        [0.25, 0.24, 0.2, 0.18, 0.19, 0.17, 0.18, 0.18, 0.16],
        [1.0; 9],
        Some(20),
    ),
    (
        EDF,
        [0.09, 0.1, 0.15, 0.15, 0.23, 0.28, 0.44, 0.79, 0.95],
        [0.05, 0.05, 0.05, 0.05, 0.07, 0.07, 0.08, 0.08, 0.1],
        Some(70),
    ),
    (
        TIRESIAS,
        [0.46, 0.46, 0.44, 0.42, 0.43, 0.41, 0.44, 0.5, 0.53],
        [1.44, 1.39, 1.33, 1.31, 1.26, 1.27, 1.28, 1.3, 1.45],
        Some(43),
    ),
    (
        THEMIS,
        [0.41, 0.4, 0.37, 0.34, 0.36, 0.34, 0.35, 0.42, 0.37],
        [1.37, 1.36, 1.34, 1.32, 1.26, 1.27, 1.29, 1.29, 1.46],
        None,
    ),
    (
        CHRONUS,
        [0.42, 0.42, 0.4, 0.37, 0.4, 0.39, 0.42, 0.5, 0.53],
        [1.5, 1.45, 1.4, 1.38, 1.29, 1.29, 1.28, 1.29, 1.44],
        None,
    ),
    (
        ELASTIC,
        [0.74, 0.67, 0.67, 0.69, 0.68, 0.76, 0.82, 0.92, 0.95],
        [1.6, 1.37, 1.18, 1.11, 1.27, 1.24, 1.19, 1.16, 1.31],
        Some(90),
    ),
];

/// Generates the jobs with a fraction of best-effort jobs.
fn jobs(share: f64, table: &ScalingTable) -> Result<Vec<JobSpec>, ReproduceError> {
    let recipe = Recipe {
        jobs: 200,
        mean_gap_s: 900.0,
        best_effort: share,
        unseeded: UNSEEDED,
        ..Recipe::default()
    };
    Ok(recipe.generate(table)?)
}

/// Returns the number and the fraction of deadlines met, and the mean JCT of best-effort jobs.
///
/// The deadlines are of jobs that are not best-effort.
fn measured(program: Program, report: &Report, best_effort: &[bool]) -> (u64, f64, f64) {
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
    if program != CHRONUS {
        met = super::met(report);
    }
    (
        met,
        met as f64 / f64::from(due.max(1)),
        jct / f64::from(ended.max(1)),
    )
}

/// Figure 11: jobs with deadlines and best-effort jobs together.
pub(crate) const FIG11: Figure = Figure::new(
    "elasticflow-fig11",
    "ElasticFlow (ASPLOS 2023), figure 11: 200 jobs, some of them best-effort, on 64 GPUs",
    &[A100],
    plan,
);

fn plan(figure: &Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let table = a100(figure, data)?;
    let world = World::new(1, 8, 8, 240.0);
    let mut runs = Vec::new();
    for share in SHARES {
        let jobs = in_order(jobs(share, &table)?);
        let of = format!("{:.0} % best effort", share * 100.0);
        let programs = PROGRAMS.iter();
        runs.extend(programs.map(|(p, ..)| world.run(*p, &jobs, &table, &of)));
    }
    Ok(Plan::of(runs, findings))
}

fn findings(reports: &[Report]) -> Findings {
    let complete = reports.len() == SHARES.len() * PROGRAMS.len();
    let mut findings = Findings::noting([
        "jobs of the released generator, 900 s apart on average, slots of 240 s; deadlines and best-effort jobs are drawn from a generator that it leaves unseeded, so those of the paper cannot be had again",
        "EDF meets as many deadlines once few jobs have one, also in what is published: best-effort jobs then wait for all others",
        "speed-up: the mean JCT of best-effort jobs under Gandiva over that under the program",
        "the released Chronus takes best-effort jobs for ones with a deadline; counted are the others, by the deadlines of the trace",
    ]);
    let mut same = complete;
    let mut points = Vec::new();
    let mut speedups = Vec::new();
    for (s, reports) in reports
        .chunks(PROGRAMS.len())
        .enumerate()
        .take(SHARES.len())
    {
        let share = SHARES[s];
        // Jobs without a deadline in the first run (Gandiva).
        let jobs = reports.first().map_or(&[][..], |r| &r.jobs);
        let best_effort: Vec<bool> = jobs.iter().map(|j| j.deadline.is_none()).collect();
        let mut gandiva = None;
        let mut at = Vec::new();
        for ((program, met, jct, counted), report) in PROGRAMS.iter().zip(reports) {
            let (count, ours, took) = measured(*program, report, &best_effort);
            let speedup = *gandiva.get_or_insert(took) / took;
            let name = format!("{}, {:.0} % best effort", program.name, share * 100.0);
            let counted = counted.filter(|_| s == HALF);
            let due = best_effort.iter().filter(|b| !**b).count().max(1) as f64;
            let row = Row::new(format!("deadlines met, {name}"), ours, 4)
                .published(met[s], PAPER_MET)
                .artifact(counted.map(|n| n as f64 / due), RELEASED);
            findings.rows.push(row);
            same &= counted.is_none_or(|counted| count == counted);
            let row = Row::new(format!("speed-up of best-effort jobs, {name}"), speedup, 2);
            speedups.push(row.published(jct[s], PAPER_JCT));
            at.push((ours, speedup));
        }
        points.push(at);
    }
    findings.rows.append(&mut speedups);
    findings.claims = claims(complete, same, &points);
    draw(&mut findings, &points);
    findings
}

/// Fraction of deadlines met and speed-up of best-effort jobs, for each program.
type Points = Vec<(f64, f64)>;

/// Checks the claims of the figure for each fraction.
fn claims(complete: bool, same: bool, points: &[Points]) -> Vec<Claim> {
    let (mut best, mut baselines, mut early, mut faster) = (complete, complete, complete, complete);
    for (s, at) in points.iter().enumerate() {
        let Some((elastic, others)) = at.split_last() else {
            continue;
        };
        best &= others.iter().all(|o| o.0 < elastic.0);
        let rest = others.iter().enumerate().filter(|(i, _)| *i != EDF_AT);
        baselines &= rest.map(|(_, o)| o.0).all(|met| met < elastic.0);
        let edf = others.get(EDF_AT).map_or(1.0, |o| o.0);
        early &= s > HALF || edf < elastic.0;
        faster &= elastic.1 > 1.0;
    }
    vec![
        Claim::new(
            "ElasticFlow meets the most deadlines, whatever the share of best-effort jobs",
            best,
        ),
        Claim::new(
            "more than Gandiva, Tiresias, Themis and Chronus, whatever the share",
            baselines,
        ),
        Claim::new(
            "more than EDF while at least half of the jobs have deadlines",
            early,
        ),
        Claim::new("and its best-effort jobs are faster than Gandiva's", faster),
        Claim::new(
            "every count is that of the released program on the same jobs, where it was run",
            same,
        ),
    ]
}

/// Adds the pictures of both measures.
fn draw(findings: &mut Findings, points: &[Points]) {
    let mut draw = |letter: &str, y: Axis, of: fn(&(f64, f64)) -> f64| {
        let x = Axis::fraction("best-effort jobs").from(0.0).to(1.0);
        let mut chart = Chart::new(format!("ElasticFlow, figure 11({letter})"), x, y);
        for (p, (program, ..)) in PROGRAMS.iter().enumerate() {
            let at = SHARES.iter().zip(points);
            let line = at.filter_map(|(share, at)| Some((*share, of(at.get(p)?))));
            chart = chart.with(Series::line(program.name, line));
        }
        findings.picture(format!("{}{letter}", FIG11.name), chart.svg());
    };
    draw("a", Axis::fraction("deadlines met").from(0.0), |at| at.0);
    draw("b", Axis::new("speed-up over Gandiva").from(0.0), |at| at.1);
}
