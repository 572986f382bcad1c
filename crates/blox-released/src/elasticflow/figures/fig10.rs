use super::*;
use crate::elasticflow::files::Recipe;
use crate::figure::{Claim, Findings, Picture, Row};
use blox_plot::{Axis, Chart, Series};
use std::sync::{Mutex, PoisonError};

/// Figure 10: cluster efficiency over time.
#[derive(Default)]
pub(crate) struct Fig10 {
    /// Allocations of each run.
    bound: Mutex<Vec<Arc<Mutex<Vec<Bound>>>>>,
    /// Jobs with their throughput by GPU count.
    jobs: Mutex<Vec<JobSpec>>,
}

const PAPER: &str = "pkusys/ElasticFlow, the logs of figure 10 that it ships";
const GPUS: f64 = 128.0;

/// Program, deadlines met in the shipped logs and in the released program, and cluster efficiency
/// of the latter until the last arrival.
const PROGRAMS: [(Program, Option<f64>, f64, Option<f64>); 6] = [
    (
        Program::Of(Algorithm::Edf),
        Some(0.92),
        0.92,
        Some(0.068_397),
    ),
    (
        Program::Of(Algorithm::Gandiva),
        Some(0.79),
        0.79,
        Some(0.128_180),
    ),
    (
        Program::Of(Algorithm::Tiresias),
        Some(1.0),
        1.0,
        Some(0.129_169),
    ),
    (
        Program::Of(Algorithm::Themis),
        Some(0.99),
        0.99,
        Some(0.129_445),
    ),
    (Program::Chronus(240, 240), None, 1.0, Some(0.037_224)),
    (
        Program::Of(Algorithm::ElasticFlow),
        Some(1.0),
        1.0,
        Some(0.184_342),
    ),
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

impl Figure for Fig10 {
    fn name(&self) -> &'static str {
        "elasticflow-fig10"
    }

    fn title(&self) -> &'static str {
        "ElasticFlow (ASPLOS 2023), figure 10: cluster efficiency over time, 100 jobs on 128 GPUs"
    }

    fn data(&self) -> &'static [DataFile] {
        &[A100]
    }

    fn runs(&self, data: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
        let table = a100(self, data)?;
        let recipe = Recipe {
            seed: 1,
            deadlines: (1.5, 1.5),
            ..Recipe::default()
        };
        let jobs = in_order(recipe.generate(&table)?);
        let world = World::new(1, 16, 8, 240.0);
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.clear();
        let runs = PROGRAMS.iter().map(|(program, ..)| {
            let sink = Arc::new(Mutex::new(Vec::new()));
            bound.push(Arc::clone(&sink));
            let keep = move |bound| *sink.lock().unwrap_or_else(PoisonError::into_inner) = bound;
            world.run_keeping(*program, &jobs, &table, "100 jobs", keep)
        });
        let runs = runs.collect();
        // Every measured level, to get the throughput on the requested GPUs.
        let mut jobs = jobs.to_vec();
        for job in &mut jobs {
            Algorithm::Edf.profile(job, &table, world.gpu_type);
        }
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = jobs;
        Ok(runs)
    }

    fn findings(&self, reports: &[Report]) -> Findings {
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let last = jobs.last().map_or(0.0, |j| j.submit.secs());
        let mut findings = Findings {
            notes: vec![
                "100 jobs of the released generator (seed 1, deadlines at 1.5 durations), slots of 240 s".to_owned(),
                "cluster efficiency: the speed-ups of all jobs over one GPU each, summed, over the number of GPUs; means are over time until the last arrival".to_owned(),
                "the picture's rule is that of the released script: a step of the curve only 40 minutes after the one before".to_owned(),
            ],
            ..Findings::default()
        };
        let mut chart = Chart::new(
            "ElasticFlow, figure 10",
            Axis::seconds("time"),
            Axis::new("cluster efficiency").from(0.0),
        );
        let (mut same, mut means) = (reports.len() == PROGRAMS.len(), Vec::new());
        let mut rows = Vec::new();
        for (((program, shipped, counted, theirs), report), bound) in
            PROGRAMS.iter().zip(reports).zip(&*bound)
        {
            let source = match program {
                Program::Chronus(..) => GREEDY,
                Program::Of(_) => RELEASED,
            };
            let bound = bound.lock().unwrap_or_else(PoisonError::into_inner);
            let steps = efficiency(&bound, &jobs);
            let what = format!("deadlines met, {}", program.name());
            let mut row = Row::new(what, ratio(report), 2).artifact(*counted, source);
            if let Some(shipped) = shipped {
                row = row.published(*shipped, PAPER);
            }
            findings.rows.push(row);
            same &= equal(ratio(report), *counted);
            let ours = mean(&steps, last);
            let mut row = Row::new(
                format!("mean cluster efficiency, {}", program.name()),
                ours,
                4,
            );
            if let Some(theirs) = theirs {
                row = row.artifact(*theirs, source);
                same &= equal(ours, *theirs);
            }
            rows.push(row);
            means.push((*program, ours));
            chart = chart.with(Series::steps(program.name(), thinned(&steps)));
        }
        findings.rows.append(&mut rows);
        let elastic = means
            .iter()
            .find(|(p, _)| *p == Program::Of(Algorithm::ElasticFlow));
        let elastic = elastic.map_or(0.0, |(_, v)| *v);
        let best = means
            .iter()
            .all(|(p, v)| *p == Program::Of(Algorithm::ElasticFlow) || *v < elastic);
        findings.claims = vec![
            Claim::new(
                "ElasticFlow has a higher cluster efficiency than all others",
                best && !means.is_empty(),
            ),
            Claim::new("every number is that of the released program", same),
        ];
        findings.pictures.push(Picture {
            name: self.name().to_owned(),
            svg: chart.svg(),
        });
        findings
    }
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
