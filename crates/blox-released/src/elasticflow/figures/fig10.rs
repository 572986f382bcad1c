use super::*;
use crate::figure::Numbers;
use blox_plot::{Chart, Series};
use std::sync::{Mutex, PoisonError};

const GPUS: f64 = 128.0;

/// Times, each with the cluster efficiency until the next one.
type Steps = Vec<(f64, f64)>;

/// Returns the cluster efficiency over time: the sum of speed-ups over one GPU, divided by the
/// number of GPUs.
fn efficiency(allocations: &[Allocation], jobs: &[JobSpec]) -> Steps {
    let mut changes: Vec<(f64, f64)> = Vec::new();
    for row in allocations {
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
    sort::by(&mut changes, |a, b| {
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
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

/// Plans cluster efficiency over time.
pub(crate) fn plan(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
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
    let last = jobs.last().map_or(0.0, |job| job.submit.secs());
    let steps = Arc::new(Mutex::new(vec![Steps::new(); figure.columns(0).len()]));
    let runs = programs(figure).enumerate().map(|(i, program)| {
        let (all, profiled) = (Arc::clone(&steps), Arc::clone(&profiled));
        let keep = move |allocations: Vec<Allocation>| {
            let steps = efficiency(&allocations, &profiled);
            all.lock().unwrap_or_else(PoisonError::into_inner)[i] = steps;
        };
        world.run_keeping(program, &jobs, &table, "100 jobs", keep)
    });
    Ok(Plan::of(runs.collect(), move |reports| {
        let steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
        let means = steps.iter().map(|steps| mean(steps, last));
        let mut findings = figure.findings(Numbers::of([
            reports.iter().map(ratio).collect(),
            means.collect(),
        ]));
        let efficiency = Axis::new("cluster efficiency").from(0.0);
        let chart = Chart::new("ElasticFlow, figure 10", Axis::seconds("time"), efficiency);
        let lines = programs(figure).zip(&*steps);
        let lines = lines.map(|((name, ..), steps)| Series::steps(*name, thinned(steps)));
        findings.picture(&figure.name, chart.with_all(lines).svg());
        findings
    }))
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
