use super::LEAVING_OUT;
use blox_policies::scheduling::sia::{Tie, Ties};

/// Tie-breaking rule that picks one of the equally good assignments, independent of the solver.
///
/// Costs are rounded to hundredths. The job's current configuration is preferred, then the
/// fractional part of multiples of the golden ratio decides. The rule changes the total cost by
/// less than 0.2 hundredths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Canonical;

impl Ties for Canonical {
    fn settle(&self, cost: f64, tie: &Tie) -> f64 {
        let hundredths = (100.0 * (cost + LEAVING_OUT)).round() - 110.0;
        if tie.previous {
            return hundredths;
        }
        let number = (tie.place * tie.columns + tie.column + 1) as f64;
        let part = (number * 0.618_033_988_749_894_9).fract();
        hundredths + 0.2 / tie.jobs as f64 * (0.5 + 0.5 * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::JobId;

    #[test]
    fn what_a_job_has_comes_first_among_equals() {
        let tie = |previous| Tie {
            job: JobId(7),
            place: 0,
            jobs: 2,
            column: 0,
            columns: 19,
            previous,
        };
        assert_eq!(Canonical.settle(0.09, &tie(true)), 9.0);
        let other = Canonical.settle(0.09, &tie(false));
        assert!((other - 9.080_901_699).abs() < 1e-8, "{other}");
    }
}
