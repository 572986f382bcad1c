//! Forecasts as the original's programs read them.

/// A series of forecasts, each for the time up to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// When each counts, in seconds of the clock, ascending, and what it says.
    pub rows: Vec<(i64, f64)>,
}

impl Forecast {
    /// The mean of the five that come after a moment, of all if fewer than six are
    /// left; `None` if none are.
    pub fn coming(&self, now: i64) -> Option<f64> {
        let rows = &self.rows[self.rows.partition_point(|(t, _)| *t <= now)..];
        let rows = if rows.len() >= 6 { &rows[..5] } else { rows };
        if rows.is_empty() {
            return None;
        }
        Some(rows.iter().map(|(_, v)| v).sum::<f64>() / rows.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_begin_after_the_moment() {
        let rows = (0..8).map(|k| (600 * k, k as f64)).collect();
        let f = Forecast { rows };
        assert_eq!(f.coming(0), Some(3.0));
        assert_eq!(f.coming(599), Some(3.0));
        assert_eq!(f.coming(600), Some(4.0));
        // Five are left: all of them count, as with fewer.
        assert_eq!(f.coming(1300), Some(5.0));
        assert_eq!(f.coming(4100), Some(7.0));
        assert_eq!(f.coming(4200), None);
    }
}
