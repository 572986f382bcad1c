//! Comparison of single steps of a run: look-ups, fits, integer programs.

use super::input::{Input, Policy, fits};
use crate::compared::{Case, Compared, VerifyError, json_lines};
use crate::sia::quirks::{Canonical, LEAVING_OUT, coefficients};
use crate::sia::world as files;
use blox_perf::applications::StepTimes;
use blox_perf::goodput::{fit_from, objective_of};
use blox_policies::scheduling::sia::{Tie, Ties};
use blox_solve::lbfgsb::Settings;
use blox_solve::{Alternative, Choices};
use serde::Deserialize;

pub(super) fn compare(case: &Case, input: &Input, out: &mut Compared) -> Result<(), VerifyError> {
    compare_look_ups(case, input, out)?;
    if input.policy == Policy::Sia {
        compare_fits(case, out)?;
        compare_programs(case, input, out)?;
    }
    Ok(())
}

fn compare_look_ups(case: &Case, input: &Input, out: &mut Compared) -> Result<(), VerifyError> {
    let Some(table) = case.table("throughput_calls.csv")? else {
        return Ok(());
    };
    let [gpu_type, application, placement, per_gpu] =
        table.columns(["gpu_type", "application", "placement", "local_bsz"])?;
    let [step, sync, source] = table.columns(["step_time", "sync_time", "source"])?;
    let (mut tables, mut between) = (0u64, Vec::new());
    for (r, row) in table.rows.iter().enumerate() {
        let digits: Vec<u32> = row[placement]
            .chars()
            .filter_map(|c| c.to_digit(10))
            .collect();
        let on = input.applications.get(&row[application]);
        let on = on.and_then(|a| a.types.get(row[gpu_type].as_str()));
        if row[source] != "table" {
            let found = on.and_then(|on| match &on.steps {
                StepTimes::Measured(t) => t.interpolated(&digits, row[per_gpu].parse().ok()?),
                StepTimes::Fitted(_) => None,
            });
            let expected = table.number(r, step)?;
            let apart = found.map_or(1.0, |f| (f.times.0 / expected - 1.0).abs());
            between.push(apart);
            // If there are several triangulations, the recorded value is used.
            if let Some(found) = found.filter(|f| f.unique && apart > 1e-9) {
                let what = format!(
                    "look-up of {} between placements, {} of {}, {} a GPU",
                    row[application], row[placement], row[gpu_type], row[per_gpu]
                );
                let found = found.times.0.to_string();
                out.differ(&what, "step_time", &row[step], &found);
            }
            continue;
        }
        tables += 1;
        let found = on.and_then(|on| on.steps.step(&digits, row[per_gpu].parse().ok()?));
        let expected = (table.number(r, step)?, table.number(r, sync)?);
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1e-6);
        let equal = match found {
            Some(f) => near(expected.0, f.0) && near(expected.1, f.1),
            None => expected.0 < 0.0,
        };
        if !equal {
            let what = format!(
                "look-up of {} on {} of {}, {} a GPU",
                row[application], row[placement], row[gpu_type], row[per_gpu]
            );
            let found = found.map_or("nothing".to_owned(), |(a, b)| format!("{a} and {b}"));
            out.differ(
                &what,
                "step_time",
                &format!("{} and {}", expected.0, expected.1),
                &found,
            );
        }
    }
    out.values += tables;
    let same = between.iter().filter(|apart| **apart <= 1e-9).count();
    let worst = between.iter().copied().fold(0.0, f64::max);
    out.values += between.len() as u64;
    out.notes.push(format!(
        "{tables} look-ups of step times; of {} between placements {same} are the recorded ones, the others up to {:.1} % apart, where a triangulation is not unique",
        between.len(),
        100.0 * worst
    ));
    Ok(())
}

/// Maximum excess of an objective here over the recorded one, as a fraction.
const ABOVE: f64 = 0.05;

fn compare_fits(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let all = fits(case)?;
    if all.is_empty() {
        return Ok(());
    }
    let (mut same, mut lower, mut higher) = (0, 0, 0);
    for (observed, params) in &all {
        let Some(found) = fit_from(observed, &Settings::default()) else {
            continue;
        };
        let pairs = found.params.to_array().into_iter().zip(params.to_array());
        let apart = pairs.map(|(a, b)| ((a - b) / b).abs()).fold(0.0, f64::max);
        let recorded = objective_of(observed, params);
        let ours = objective_of(observed, &found.params);
        if apart < 1e-6 {
            same += 1;
        } else if ours <= recorded {
            lower += 1;
        } else if ours > recorded * (1.0 + ABOVE) {
            higher += 1;
        }
    }
    out.values += all.len() as u64;
    out.notes.push(format!(
        "{} fits: {same} with the recorded parameters (to 1e-6), {lower} with a lower objective, {higher} more than 5 % above it",
        all.len()
    ));
    Ok(())
}

/// A line of `ilp.jsonl`.
#[derive(Deserialize)]
struct Round {
    round: u64,
    r: Vec<f64>,
    prev: Vec<Option<usize>>,
    forced: Vec<usize>,
    #[serde(rename = "G")]
    goodputs: Vec<Vec<f32>>,
    #[serde(rename = "A")]
    coefficients: Vec<Vec<f32>>,
    chosen: Vec<Option<usize>>,
    objective: f64,
}

fn compare_programs(case: &Case, input: &Input, out: &mut Compared) -> Result<(), VerifyError> {
    let files = ["ilp.jsonl", "ilp.jsonl.gz"].map(|name| case.dir().join(name));
    let Some(path) = files.iter().find(|path| path.is_file()) else {
        return Ok(());
    };
    let (columns, capacities) = columns(input);
    let (mut rounds, mut same, mut off) = (0u64, 0u64, 0u64);
    for round in json_lines::<Round>(path)? {
        let round = round?;
        rounds += 1;
        let what = format!("program of round {}", round.round);
        off += compare_coefficients(&what, &round, out);
        let mut program = Choices::within(&capacities).with_width(1 << 24);
        let jobs = round.coefficients.len();
        for (j, row) in round.coefficients.iter().enumerate() {
            let alternatives = row.iter().zip(&columns).enumerate();
            let alternative = |(c, (a, column)): (usize, (&f32, &(usize, u32)))| {
                let tie = Tie {
                    job: blox_core::JobId(j as u32),
                    place: j,
                    jobs,
                    column: c,
                    columns: columns.len(),
                    previous: round.prev[j] == Some(c),
                };
                Alternative {
                    cost: Canonical.settle(f64::from(*a) - LEAVING_OUT, &tie),
                    resource: column.0,
                    amount: column.1,
                }
            };
            program.group(alternatives.map(alternative).collect());
        }
        for &job in &round.forced {
            if let Some(previous) = round.prev.get(job).copied().flatten() {
                program.require(job, previous);
            }
        }
        let best = program
            .solve()
            .map_err(|e| VerifyError::bad(path, format!("line {rounds}: {e}")))?;
        let picks = best.of.iter().zip(&round.coefficients);
        let cost = |(pick, row): (&Option<usize>, &Vec<f32>)| match pick {
            Some(c) => f64::from(row[*c]),
            None => LEAVING_OUT,
        };
        let objective: f64 = picks.map(cost).sum();
        out.values += 1;
        if (objective - round.objective).abs() > 2e-6 * round.objective.abs().max(1.0) {
            let (e, f) = (round.objective.to_string(), objective.to_string());
            out.differ(&what, "objective", &e, &f);
        }
        same += u64::from(best.of == round.chosen);
    }
    let note = if input.canonical {
        format!("{rounds} programs: the recorded assignment in {same}")
    } else {
        format!("{rounds} programs: the recorded assignment, one of equally good ones, in {same}")
    };
    out.notes.push(note);
    if off > 0 {
        out.notes.push(format!(
            "{off} coefficients lie a hundredth off: goodputs are recorded with few digits"
        ));
    }
    Ok(())
}

/// Compares coefficients with the goodputs and restart factors. Returns how many differ by one
/// rounding step.
fn compare_coefficients(what: &str, round: &Round, out: &mut Compared) -> u64 {
    let mut off = 0;
    for (j, recorded) in round.coefficients.iter().enumerate() {
        let found = coefficients(&round.goodputs[j], round.r[j], round.prev[j]);
        for (c, (e, f)) in recorded.iter().zip(&found).enumerate() {
            out.values += 1;
            let apart = (e - f).abs();
            if apart > 0.011 + 1e-5 * e.abs() {
                let column = format!("A[{j}][{c}]");
                out.differ(what, &column, &e.to_string(), &f.to_string());
            } else if apart > 1e-4 {
                off += 1;
            }
        }
    }
    off
}

/// Returns the type and GPU count of each column, and the GPUs of each type.
fn columns(input: &Input) -> (Vec<(usize, u32)>, Vec<u32>) {
    let (mut columns, mut capacities) = (Vec::new(), Vec::new());
    let mut kinds: Vec<(String, u32, u32)> = Vec::new();
    for node in &input.cluster.nodes {
        let name = node.gpu_type.as_ref().map_or("", |n| n.as_str());
        match kinds.iter_mut().find(|(n, ..)| n == name) {
            Some((_, nodes, _)) => *nodes += 1,
            None => kinds.push((name.to_owned(), 1, node.gpus)),
        }
    }
    for (t, (name, nodes, size)) in kinds.iter().enumerate() {
        let most = files::most_nodes(name).unwrap_or(u32::MAX);
        let within = std::iter::successors(Some(1u32), |g| Some(g * 2)).take_while(|g| g < size);
        let whole = (1..=*nodes.min(&most)).map(|n| n * size);
        columns.extend(within.chain(whole).filter(|g| *g <= 64).map(|g| (t, g)));
        capacities.push(nodes * size);
    }
    (columns, capacities)
}
