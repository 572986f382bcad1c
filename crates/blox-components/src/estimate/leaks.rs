//! Features that give the target away.
//!
//! A copy of the target, the end of a job or its GPU time are in many logs. A model that is trained
//! on such a column predicts nearly without error, but no job has the column at submission.

/// Number of rows that are compared; others are left out at equal steps.
const ROWS: usize = 4000;
/// Rank correlation from which two columns have the same order.
const SAME: f64 = 0.999;
/// Minimum number of different targets. Fewer are in the same order by chance.
const TARGETS: usize = 12;

/// Minimum number of different targets from which a constant factor is no chance.
const SCALED_TARGETS: usize = 4;

/// Returns the reason why a feature gives the target away, if it does.
///
/// The feature does if it is the target times a constant factor.
/// The feature does if it has the order of the target or the reverse order. It also does if its
/// difference from another column or its ratio to another column has the order of the target. NaN is
/// a missing value.
pub(super) fn of_target(
    feature: (&str, &[f64]),
    target: (&str, &[f64]),
    others: &[(&str, &[f64])],
) -> Option<String> {
    let (name, feature) = feature;
    let (y_name, y) = target;
    if let Some(factor) = factor(feature, y) {
        return Some(format!("`{name}` is the target {y_name} times {factor}"));
    }
    let step = y.len().div_ceil(ROWS).max(1);
    let same = |combine: &dyn Fn(usize) -> f64| {
        let rows = (0..y.len()).step_by(step);
        let pairs: Vec<(f64, f64)> = rows.map(|i| (combine(i), y[i])).collect();
        order(&pairs)
    };
    if same(&|i| feature[i]).abs() >= SAME {
        return Some(format!("`{name}` has the order of the target {y_name}"));
    }
    for (other, c) in others {
        // The reverse order would accuse the start of a job whose end is another column.
        let ways: [(&str, &dyn Fn(usize) -> f64); 2] = [
            ("minus", &|i| feature[i] - c[i]),
            ("divided by", &|i| feature[i] / c[i]),
        ];
        for (word, combine) in ways {
            if same(combine) >= SAME {
                return Some(format!(
                    "`{name}` {word} `{other}` has the order of the target {y_name}"
                ));
            }
        }
    }
    None
}

/// Returns the constant factor between a feature and the target, if it is one in all rows.
fn factor(feature: &[f64], y: &[f64]) -> Option<f64> {
    let known = || {
        feature
            .iter()
            .zip(y)
            .filter(|(a, b)| a.is_finite() && **b != 0.0)
    };
    let (a, b) = known().next()?;
    let factor = a / b;
    let is_same = |(a, b): (&f64, &f64)| (a - factor * b).abs() <= 1e-9 * a.abs();
    let mut targets: Vec<f64> = known().map(|(_, b)| *b).collect();
    targets.sort_by(f64::total_cmp);
    targets.dedup();
    let most = 2 * known().count() >= y.len();
    let all = targets.len() >= SCALED_TARGETS && most && known().all(is_same);
    // Six digits: a factor such as 1/3600 has no short form.
    let shown = || format!("{factor:.5e}").parse().unwrap_or(factor);
    all.then(shown)
}

/// Returns the rank correlation of pairs. It is 0 if most pairs lack a number, or if the second
/// numbers have few values.
fn order(pairs: &[(f64, f64)]) -> f64 {
    let finite = pairs.iter().filter(|(a, b)| a.is_finite() && b.is_finite());
    let (a, b): (Vec<f64>, Vec<f64>) = finite.copied().unzip();
    // Most rows have a value.
    if 2 * a.len() < pairs.len() {
        return 0.0;
    }
    let (a, b) = (ranks(&a), ranks(&b));
    let distinct = |ranks: &[f64]| {
        let mut sorted = ranks.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        sorted.len()
    };
    match distinct(&b) >= TARGETS {
        true => correlation(&a, &b),
        false => 0.0,
    }
}

/// Returns the rank of each number. Equal numbers share their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|a, b| values[*a].total_cmp(&values[*b]).is_eq()) {
        let rank = first as f64 + (equal.len() as f64 - 1.0) / 2.0;
        equal.iter().for_each(|i| ranks[*i] = rank);
        first += equal.len();
    }
    ranks
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        ab += (x - ma) * (y - mb);
        aa += (x - ma) * (x - ma);
        bb += (y - mb) * (y - mb);
    }
    // NaN, and so no correlation, if a column has a single value.
    ab / (aa * bb).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_ends_and_gpu_times_are_found() {
        let n = 200;
        let of = |f: &dyn Fn(usize) -> f64| (0..n).map(f).collect::<Vec<f64>>();
        let duration = of(&|i| 60.0 + (i * 7919 % 1009) as f64);
        let start = of(&|i| 300.0 * i as f64);
        let gpus = of(&|i| f64::from(1 << (i % 4)));
        let end = of(&|i| start[i] + duration[i]);
        let gpu_time = of(&|i| gpus[i] * duration[i]);
        let hours = of(&|i| (duration[i] / 36.0).round() / 100.0);
        let speed = of(&|i| 1e4 / duration[i]);
        let others: [(&str, &[f64]); 4] = [
            ("start", &start),
            ("gpus", &gpus),
            ("end", &end),
            ("gpu_time", &gpu_time),
        ];
        let found = |name, column: &[f64]| of_target((name, column), ("d", &duration), &others);
        let sentence = |text: &str| Some(format!("{text} has the order of the target d"));
        let copy = Some("`copy` is the target d times 1".to_owned());
        assert_eq!(found("copy", &duration), copy);
        assert_eq!(found("speed", &speed), sentence("`speed`"));
        assert_eq!(found("end", &end), sentence("`end` minus `start`"));
        assert_eq!(
            found("gpu_time", &gpu_time),
            sentence("`gpu_time` divided by `gpus`")
        );
        // In hours with two digits, many durations are equal.
        assert!(found("hours", &hours).is_some());
        // Known at submission, however well it predicts.
        let estimate = of(&|i| duration[i] + (i * 31 % 200) as f64);
        assert_eq!(found("estimate", &estimate), None);
        assert_eq!(found("start", &start), None);
        assert_eq!(found("gpus", &gpus), None);
    }

    #[test]
    fn a_constant_factor_needs_few_targets() {
        let y: Vec<f64> = (0..20).map(|i| f64::from(1 + i % 5)).collect();
        let scaled = |by: f64| y.iter().map(|y| by * y).collect::<Vec<f64>>();
        let found = |x: &[f64]| of_target(("x", x), ("y", &y), &[]);
        let sentence = |by: &str| Some(format!("`x` is the target y times {by}"));
        assert_eq!(found(&scaled(3.0)), sentence("3"));
        assert_eq!(found(&scaled(1.0 / 3600.0)), sentence("0.000277778"));
        assert_eq!(found(&scaled(-0.5)), sentence("-0.5"));
        // The same order, but no constant factor.
        let squares: Vec<f64> = y.iter().map(|y| y * y).collect();
        assert_eq!(found(&squares), None);
        // A missing value is compared with nothing.
        let mut gaps = scaled(3.0);
        gaps[7] = f64::NAN;
        assert_eq!(found(&gaps), sentence("3"));
    }

    #[test]
    fn few_targets_are_not_compared() {
        let x: Vec<f64> = (0..90).map(|i| f64::from(i % 3)).collect();
        let y: Vec<f64> = x.iter().map(|x| 100.0 * x).collect();
        assert_eq!(of_target(("x", &x), ("y", &y), &[]), None);
    }
}
