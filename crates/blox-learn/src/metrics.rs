//! Error metrics of models.

/// Returns the mean absolute error, or NaN without rows.
pub fn mae(predicted: &[f64], truth: &[f64]) -> f64 {
    mean(predicted.iter().zip(truth).map(|(p, t)| (p - t).abs()))
}

/// Returns the root of the mean squared error.
pub fn rmse(predicted: &[f64], truth: &[f64]) -> f64 {
    mean(predicted.iter().zip(truth).map(|(p, t)| (p - t) * (p - t))).sqrt()
}

/// Returns the explained fraction of the variance. The best value is 1, the mean of the truth has
/// 0, and worse predictions are below 0.
pub fn r2(predicted: &[f64], truth: &[f64]) -> f64 {
    let middle = mean(truth.iter().copied());
    let total: f64 = truth.iter().map(|t| (t - middle) * (t - middle)).sum();
    let left: f64 = predicted
        .iter()
        .zip(truth)
        .map(|(p, t)| (p - t) * (p - t))
        .sum();
    1.0 - left / total
}

/// Returns the symmetric mean absolute percentage error in percent, from 0 to 200.
pub fn smape(predicted: &[f64], truth: &[f64]) -> f64 {
    let part = |(p, t): (&f64, &f64)| match p.abs() + t.abs() {
        0.0 => 0.0,
        sum => 2.0 * (p - t).abs() / sum,
    };
    100.0 * mean(predicted.iter().zip(truth).map(part))
}

/// Returns the fraction of rows with the right class.
pub fn accuracy(predicted: &[f64], truth: &[f64]) -> f64 {
    mean(
        predicted
            .iter()
            .zip(truth)
            .map(|(p, t)| f64::from(u8::from(p == t))),
    )
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut n) = (0.0, 0.0);
    for v in values {
        sum += v;
        n += 1.0;
    }
    sum / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_its_formula() {
        let (p, t) = ([1.0, 2.0, 3.0], [1.0, 4.0, 2.0]);
        assert_eq!(mae(&p, &t), 1.0);
        assert_eq!(rmse(&p, &t), (5.0f64 / 3.0).sqrt());
        assert_eq!(r2(&[2.0, 2.0], &[1.0, 3.0]), 0.0);
        assert_eq!(smape(&[1.0, 0.0], &[3.0, 0.0]), 50.0);
        assert_eq!(accuracy(&p, &t), 1.0 / 3.0);
    }
}
