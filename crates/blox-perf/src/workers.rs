//! Speed of a job by number of workers: the model of Optimus (EuroSys 2018, section 3.2).

use serde::{Deserialize, Serialize};

/// Model of the seconds of a step of synchronous training on `w` workers: c0 / w + c1 + c2 w.
///
/// The terms are the shared work, the constant cost, and the cost of each worker. With as many
/// parameter servers as workers, or none, this is the paper's model of synchronous training.
///
/// ```
/// use blox_perf::WorkerModel;
/// let seen = [(1, 5.0), (2, 3.0), (4, 2.0), (8, 1.5)]; // 4 / w + 1
/// let model = WorkerModel::fit(&seen).unwrap();
/// assert!((model.seconds(16) - 1.25).abs() < 1e-9);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerModel {
    /// c0, c1 and c2, none below 0.
    pub c: [f64; 3],
}

impl WorkerModel {
    /// Returns the seconds of a step on a number of workers, at least 1.
    pub fn seconds(&self, workers: u32) -> f64 {
        let w = f64::from(workers.max(1));
        self.c[0] / w + self.c[1] + self.c[2] * w
    }

    /// Returns the model nearest to measured steps `(workers, seconds)`, by least squares of
    /// relative errors, with no term below 0. Returns `None` without a measurement.
    pub fn fit(measured: &[(u32, f64)]) -> Option<WorkerModel> {
        let sound = |(w, s): &&(u32, f64)| *w > 0 && s.is_finite() && *s > 0.0;
        let rows: Vec<[f64; 3]> = measured
            .iter()
            .filter(sound)
            .map(|&(w, s)| {
                let w = f64::from(w);
                // Scaled so that every right side is 1.
                [1.0 / w / s, 1.0 / s, w / s]
            })
            .collect();
        if rows.is_empty() {
            return None;
        }
        let mut best: Option<(f64, [f64; 3])> = None;
        // There are few enough terms to try every set of nonzero terms. The simplest set comes
        // first, so that one measurement means perfect sharing.
        for terms in [&[0][..], &[0, 1], &[1], &[0, 2], &[0, 1, 2], &[1, 2], &[2]] {
            let Some(c) = solve(&rows, terms).filter(|c| c.iter().all(|x| *x >= 0.0)) else {
                continue;
            };
            let error = rows
                .iter()
                .map(|r| {
                    let off = r[0] * c[0] + r[1] * c[1] + r[2] * c[2] - 1.0;
                    off * off
                })
                .sum::<f64>();
            if best.is_none_or(|(least, _)| error < least - 1e-12) {
                best = Some((error, c));
            }
        }
        best.map(|(_, c)| WorkerModel { c })
    }
}

/// Solves least squares with some of the terms, the others 0. Returns `None` if the terms are not
/// linearly independent.
fn solve(rows: &[[f64; 3]], terms: &[usize]) -> Option<[f64; 3]> {
    let n = terms.len();
    let mut a = [[0.0; 4]; 3];
    for r in rows {
        for i in 0..n {
            for j in 0..n {
                a[i][j] += r[terms[i]] * r[terms[j]];
            }
            a[i][3] += r[terms[i]];
        }
    }
    for i in 0..n {
        let pivot = (i..n).max_by(|x, y| a[*x][i].abs().total_cmp(&a[*y][i].abs()))?;
        a.swap(i, pivot);
        let scale: f64 = a[i][..n].iter().map(|x| x.abs()).sum();
        if a[i][i].abs() <= 1e-12 * scale.max(f64::MIN_POSITIVE) {
            return None;
        }
        for k in i + 1..n {
            let by = a[k][i] / a[i][i];
            let above = a[i];
            for (x, y) in a[k].iter_mut().zip(above) {
                *x -= by * y;
            }
        }
    }
    let mut c = [0.0; 3];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| a[i][j] * c[terms[j]]).sum();
        c[terms[i]] = (a[i][3] - known) / a[i][i];
    }
    c.iter().all(|x| x.is_finite()).then_some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(model: WorkerModel, c: [f64; 3]) {
        for (found, expected) in model.c.iter().zip(c) {
            assert!((found - expected).abs() < 1e-6, "{model:?}");
        }
    }

    #[test]
    fn a_model_is_found_again() {
        let of = |c: [f64; 3]| {
            let truth = WorkerModel { c };
            let seen: Vec<_> = [1, 2, 3, 4, 8, 16].map(|w| (w, truth.seconds(w))).into();
            WorkerModel::fit(&seen).unwrap()
        };
        close(of([4.0, 1.0, 0.05]), [4.0, 1.0, 0.05]);
        close(of([4.0, 0.0, 0.0]), [4.0, 0.0, 0.0]);
        close(of([4.0, 0.0, 0.2]), [4.0, 0.0, 0.2]);
    }

    #[test]
    fn one_measurement_means_perfect_sharing() {
        close(WorkerModel::fit(&[(4, 0.5)]).unwrap(), [2.0, 0.0, 0.0]);
    }

    #[test]
    fn nothing_measured_is_no_model() {
        assert_eq!(WorkerModel::fit(&[]), None);
        assert_eq!(WorkerModel::fit(&[(0, 1.0), (1, 0.0), (2, f64::NAN)]), None);
    }
}
