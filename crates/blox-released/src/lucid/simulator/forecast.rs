//! Forecasts as the original's programs read them.

/// A series of forecasts, each valid until the next one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Start of each forecast in seconds of the clock, ascending, and its value.
    pub rows: Vec<(i64, f64)>,
}

impl Forecast {
    /// Returns the mean of the next five forecasts after a time, or of all remaining ones if fewer
    /// than six remain. Returns `None` if none remain.
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
        // Five forecasts remain, and all of them count.
        assert_eq!(f.coming(1300), Some(5.0));
        assert_eq!(f.coming(4100), Some(7.0));
        assert_eq!(f.coming(4200), None);
    }
}
