//! Sia under other powers, rounds and jobs (figures 10 and 11).

use super::{RATE, Source, THREE_TYPES, WORKLOADS, by_workload, world};
use crate::figure::{Figure, Plan, ReproduceError, Run, jct_s};
use blox_core::{Adapts, ClusterSpec, Composition, Pipeline, Seconds, sort};
use blox_policies::placement::KeepNodes;
use blox_policies::scheduling::{Sia, sia::Goodputs};
use blox_results::Summary;
use blox_results::statistics::percentile;
use blox_sim::Report;
use blox_sim::execution::Training;
use blox_sim::workload::Jobs;
use std::path::Path;

/// Sia with a power of fairness, in rounds of a length in seconds.
fn sia(power: f64, round_s: f64) -> Pipeline {
    Composition::new("sia")
        .in_rounds(Seconds::new(round_s))
        .scheduling(Sia::new(Goodputs {
            power,
            ..Goodputs::DEFAULT
        }))
        .placement(KeepNodes)
        .build()
        .expect(crate::ONCE)
}

/// Powers and round lengths. The second of each is the default of the paper.
const POWERS: [f64; 4] = [-1.0, -0.5, 0.5, 1.0];
const ROUNDS: [f64; 4] = [30.0, 60.0, 120.0, 300.0];

/// Plans Sia by its power and by the length of its rounds.
pub(crate) fn fig10(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let source = Source::open(figure, data)?;
    let cluster: ClusterSpec = THREE_TYPES.parse()?;
    let powers = POWERS.map(|power| (power, ROUNDS[1]));
    let settings = powers.into_iter().chain(ROUNDS.map(|s| (POWERS[1], s)));
    let mut runs = Vec::new();
    for number in 1..=WORKLOADS {
        let jobs = source.jobs(number, RATE, |_| Adapts::All)?;
        for (power, round_s) in settings.clone() {
            runs.push(Run::of(
                format!("power {power}, rounds of {round_s} s, {number}"),
                world(&cluster, Training::of(source.applications.clone())),
                sia(power, round_s),
                Jobs::new(jobs.clone()),
            ));
        }
    }
    let note = source.note();
    Ok(by_workload(figure, runs, vec![note], |reports| {
        // Relative to the default of the same half.
        let relative = |of: fn(&Report) -> f64| {
            let halves = reports.chunks(POWERS.len());
            let one = |half: &[Report]| half.iter().map(|r| of(r) / of(&half[1])).collect();
            halves.map(one).collect::<Vec<Vec<f64>>>().concat()
        };
        vec![
            relative(jct_s),
            relative(p99_s),
            relative(|r| Summary::of(r).makespan_s),
        ]
    }))
}

fn p99_s(report: &Report) -> f64 {
    let mut jcts: Vec<f64> = report
        .jobs
        .iter()
        .filter_map(|j| Some(j.jct()?.secs()))
        .collect();
    sort::numbers(&mut jcts);
    percentile(&jcts, 0.99).unwrap_or(f64::NAN)
}

/// Returns true if a job is among this many in a hundred. More in a hundred contain fewer.
fn among(job: usize, percent: usize) -> bool {
    job * 37 % 100 < percent
}

/// Percentages of jobs that adapt less.
const PERCENTAGES: [usize; 3] = [25, 50, 100];

/// Plans Sia with jobs whose batch is fixed, and with rigid jobs.
pub(crate) fn fig11(figure: &'static Figure, data: Option<&Path>) -> Result<Plan, ReproduceError> {
    let source = Source::open(figure, data)?;
    let cluster: ClusterSpec = THREE_TYPES.parse()?;
    let mut runs = Vec::new();
    for number in 1..=WORKLOADS {
        let cases = [Adapts::Gpus, Adapts::Nothing].into_iter();
        let cases = cases.flat_map(|fixed| PERCENTAGES.map(|percent| (fixed, percent)));
        for (fixed, percent) in std::iter::once((Adapts::All, 0)).chain(cases) {
            let adapts = |job| match among(job, percent) {
                true => fixed,
                false => Adapts::All,
            };
            runs.push(Run::of(
                format!("{percent} % of {fixed:?}, {number}"),
                world(&cluster, Training::of(source.applications.clone())),
                sia(POWERS[1], ROUNDS[1]),
                Jobs::new(source.jobs(number, RATE, adapts)?),
            ));
        }
    }
    let note = source.note();
    Ok(by_workload(figure, runs, vec![note], |reports| {
        // Relative to jobs that all adapt.
        let relative = |of: fn(&Report) -> f64| {
            let some = reports.iter().skip(1);
            some.map(|r| of(r) / of(&reports[0])).collect::<Vec<f64>>()
        };
        vec![relative(jct_s), relative(|r| Summary::of(r).makespan_s)]
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::JobSpec;

    #[test]
    fn jobs_of_a_smaller_part_are_in_a_larger_one() {
        for (percent, more) in [(0, 25), (25, 50), (50, 100)] {
            let count = |percent| (0..200).filter(|job| among(*job, percent)).count();
            assert_eq!(count(percent), 2 * percent);
            assert!((0..200).all(|job| !among(job, percent) || among(job, more)));
        }
    }

    #[test]
    fn fixed_jobs_of_a_drawn_workload_take_longer() {
        let source = Source::built_in();
        let cluster: ClusterSpec = "1x4:aws,1x8:rtx".parse().unwrap();
        let average = |adapts| {
            let mut jobs: Vec<JobSpec> = source.jobs(1, RATE, |_| adapts).unwrap();
            jobs.truncate(12);
            let simulation = world(&cluster, Training::of(source.applications.clone()));
            let report = simulation
                .run(sia(-0.5, 60.0), &mut Jobs::new(jobs))
                .unwrap();
            assert_eq!(Summary::of(&report).completed, 12);
            jct_s(&report)
        };
        assert!(average(Adapts::Gpus) > average(Adapts::All));
    }
}
