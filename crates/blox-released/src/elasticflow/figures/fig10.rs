use super::*;
use crate::elasticflow::files::Recipe;
use crate::figure::{Claim, Plan};
use blox_plot::{Axis, Chart, Series};
use std::sync::{Mutex, PoisonError};

/// Figure 10: cluster efficiency over time.
pub(crate) const FIG10: Figure = Figure::new(
    "elasticflow-fig10",
    "ElasticFlow (ASPLOS 2023), figure 10: cluster efficiency over time, 100 jobs on 128 GPUs",
    &[A100],
    plan,
);

const PAPER: &str = "pkusys/ElasticFlow, the logs of figure 10 that it ships";
const GPUS: f64 = 128.0;

/// Program, deadlines met in the shipped logs and in the released program, and cluster efficiency
/// of the latter until the last arrival.
const PROGRAMS: [(Program, Option<f64>, f64, f64); 6] = [
    (EDF, Some(0.92), 0.92, 0.068_397),
    (GANDIVA, Some(0.79), 0.79, 0.128_180),
    (TIRESIAS, Some(1.0), 1.0, 0.129_169),
    (THEMIS, Some(0.99), 0.99, 0.129_445),
    (CHRONUS, None, 1.0, 0.037_224),
    (ELASTIC, Some(1.0), 1.0, 0.184_342),
];

/// Times, each with the cluster efficiency until the next one.
type Steps = Vec<(f64, f64)>;

/// Returns the cluster efficiency over time: the sum of speed-ups over one GPU, divided by the
/// number of GPUs.
fn efficiency(bound: &[Bound], jobs: &[JobSpec]) -> Steps {
    let mut changes: Vec<(f64, f64)> = Vec::new();
    for row in bound {
        let Some(job) = jobs.get(row.job as usize) else {
            continue;
        };
        let extras = job.extras();
        let rate = |gpus: u32| {
            let level = extras.levels.iter().position(|l| l.get() == gpus);
            level.and_then(|at| extras.rates.get(at)).copied()
        };
        if let (Some(one), Some(many)) = (rate(1), rate(row.gpus)) {
            let speedup = many / one / GPUS;
            changes.push((row.from, speedup));
            changes.push((row.to, -speedup));
        }
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut steps = Steps::new();
    let mut now = 0.0;
    for (at, change) in changes {
        now += change;
        match steps.last_mut() {
            Some(last) if last.0 == at => last.1 = now,
            _ => steps.push((at, now)),
        }
    }
    steps
}

/// Returns the mean efficiency until `end`.
fn mean(steps: &Steps, end: f64) -> f64 {
    let next = steps.iter().skip(1).map(|(at, _)| *at).chain([end]);
    let areas = steps
        .iter()
        .zip(next)
        .map(|((at, value), next)| value * (next.min(end) - at).max(0.0));
    areas.sum::<f64>() / end.max(f64::MIN_POSITIVE)
}

/// Keeps at most one point per 40 minutes, as the original plot does.
fn thinned(steps: &Steps) -> Vec<(f64, f64)> {
    let mut last = f64::NEG_INFINITY;
    let kept = steps.iter().filter(|(at, _)| {
        let apart = at - last >= 2400.0;
        if apart {
            last = *at;
        }
        apart
    });
    kept.copied().collect()
}

fn plan(figure: &Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let table = a100(figure, data)?;
    let recipe = Recipe {
        seed: 1,
        deadlines: (1.5, 1.5),
        ..Recipe::default()
    };
    let jobs = in_order(recipe.generate(&table)?);
    let world = World::new(1, 16, 8, 240.0);
    // Every measured level, to get the throughput on the requested GPUs.
    let mut profiled = jobs.to_vec();
    for job in &mut profiled {
        Algorithm::Edf.profile(job, &table, world.gpu_type);
    }
    let profiled: Arc<[JobSpec]> = profiled.into();
    let steps: Arc<Mutex<[Steps; PROGRAMS.len()]>> = Arc::default();
    let runs = PROGRAMS.iter().enumerate().map(|(i, (program, ..))| {
        let (all, profiled) = (Arc::clone(&steps), Arc::clone(&profiled));
        let keep = move |bound: Vec<Bound>| {
            let steps = efficiency(&bound, &profiled);
            all.lock().unwrap_or_else(PoisonError::into_inner)[i] = steps;
        };
        world.run_keeping(*program, &jobs, &table, "100 jobs", keep)
    });
    let runs = runs.collect();
    Ok(Plan::of(runs, move |reports| {
        findings(
            reports,
            &*steps.lock().unwrap_or_else(PoisonError::into_inner),
        )
    }))
}

/// Returns the findings from the reports and from the cluster efficiency in each run.
fn findings(reports: &[Report], steps: &[Steps]) -> Findings {
    let last = reports.first().and_then(|report| report.jobs.last());
    let last = last.map_or(0.0, |job| job.submit.secs());
    let mut findings = Findings::noting([
        "100 jobs of the released generator (seed 1, deadlines at 1.5 durations), slots of 240 s",
        "cluster efficiency: the speed-ups of all jobs over one GPU each, summed, over the number of GPUs; means are over time until the last arrival",
        "the picture's rule is that of the released script: a step of the curve only 40 minutes after the one before",
    ]);
    let mut chart = Chart::new(
        "ElasticFlow, figure 10",
        Axis::seconds("time"),
        Axis::new("cluster efficiency").from(0.0),
    );
    let (mut same, mut means) = (reports.len() == PROGRAMS.len(), Vec::new());
    let mut rows = Vec::new();
    for (((program, shipped, counted, theirs), report), steps) in
        PROGRAMS.iter().zip(reports).zip(steps)
    {
        let source = program.source();
        let what = format!("deadlines met, {}", program.name);
        let row = Row::new(what, ratio(report), 2).artifact(*counted, source);
        findings.rows.push(row.published(*shipped, PAPER));
        let ours = mean(steps, last);
        let what = format!("mean cluster efficiency, {}", program.name);
        rows.push(Row::new(what, ours, 4).artifact(*theirs, source));
        same &= equal(ratio(report), *counted) && equal(ours, *theirs);
        means.push((program.name, ours));
        chart = chart.with(Series::steps(program.name, thinned(steps)));
    }
    findings.rows.append(&mut rows);
    findings.claims = vec![
        Claim::new(
            "ElasticFlow has a higher cluster efficiency than all others",
            is_best(&means, ELASTIC.name) && !means.is_empty(),
        ),
        Claim::new("every number is that of the released program", same),
    ];
    findings.picture(FIG10.name, chart.svg());
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_counts_what_lies_before_the_end() {
        let steps = vec![(0.0, 0.5), (10.0, 1.0), (30.0, 0.0)];
        assert_eq!(mean(&steps, 20.0), (5.0 + 10.0) / 20.0);
        assert_eq!(mean(&steps, 100.0), 25.0 / 100.0);
        assert_eq!(
            thinned(&vec![(0.0, 1.0), (100.0, 2.0), (2400.0, 3.0)]),
            [(0.0, 1.0), (2400.0, 3.0)]
        );
    }
}
