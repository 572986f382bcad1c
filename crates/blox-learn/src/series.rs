//! Features of time series: calendar values and past values.

use crate::frame::{Column, Frame, LearnError};
use chrono::{DateTime, Datelike, Timelike, Utc};

/// Number of 10-minute slots per hour.
const HOUR: usize = 6;

/// Returns the features for a forecast of series with one value every 10 minutes (Lucid, ASPLOS
/// 2023, section 3.4.2, as in its artifact).
///
/// The calendar features are `month`, `day`, `hour`, `minute`, `dayofweek` (Monday is 0),
/// `dayofyear` and `week` (ISO). Each series has three kinds of features:
///
/// - its value 1 hour, 3 hours and 1 day ago (`shift_1h_NAME`, ...)
/// - these values, smoothed with their neighbours (`soft_1h_NAME`, ...)
/// - mean, median and standard deviation over the hour that ended an hour ago (`roll_mean_1h_NAME`,
///   ...)
///
/// Values before the first slot are 0. `times` are seconds since 1970, one per slot.
///
/// ```
/// let times: Vec<f64> = (0..20).map(|i| 1_598_918_400.0 + 600.0 * f64::from(i)).collect();
/// let jobs: Vec<f64> = (0..20).map(f64::from).collect();
/// let frame = blox_learn::series::features(&times, &[("njob", &jobs)])?;
/// assert_eq!(frame.column("shift_1h_njob")?.cell(10), blox_learn::Cell::Number(4.0));
/// assert_eq!(frame.column("dayofweek")?.cell(0), blox_learn::Cell::Number(1.0));
/// # Ok::<(), blox_learn::LearnError>(())
/// ```
///
/// # Errors
/// Fails if the length of a series differs from the length of `times`.
pub fn features(times: &[f64], series: &[(&str, &[f64])]) -> Result<Frame, LearnError> {
    let dates: Vec<DateTime<Utc>> = times.iter().map(|t| date(*t)).collect();
    type Part = (&'static str, fn(&DateTime<Utc>) -> u32);
    let calendar: [Part; 7] = [
        ("month", Datelike::month),
        ("day", Datelike::day),
        ("hour", Timelike::hour),
        ("minute", Timelike::minute),
        ("dayofweek", |d| d.weekday().num_days_from_monday()),
        ("dayofyear", Datelike::ordinal),
        ("week", |d| d.iso_week().week()),
    ];
    let mut columns: Vec<(String, Column)> = calendar
        .iter()
        .map(|(name, f)| {
            let parts = dates.iter().map(|date| f64::from(f(date)));
            ((*name).to_owned(), Column::Numbers(parts.collect()))
        })
        .collect();
    for (name, values) in series {
        let before = |i: usize, lag: usize| i.checked_sub(lag).map(|at| values[at]);
        let mut add = |kind: &str, f: &dyn Fn(usize) -> Option<f64>| {
            let column = (0..values.len()).map(|i| f(i).unwrap_or(0.0)).collect();
            columns.push((format!("{kind}_{name}"), Column::Numbers(column)));
        };
        let lags = [("1h", HOUR), ("3h", 3 * HOUR), ("1d", 24 * HOUR)];
        for (ago, lag) in lags {
            add(&format!("shift_{ago}"), &|i| before(i, lag));
        }
        for (ago, lag) in lags {
            add(&format!("soft_{ago}"), &|i| {
                let (far, near) = (before(i, lag + 1)?, before(i, lag - 1)?);
                Some(0.5 * before(i, lag)? + 0.25 * (far + near))
            });
        }
        let hour = |i: usize| {
            let end = i.checked_sub(HOUR)?;
            Some(&values[(end + 1).checked_sub(HOUR)?..=end])
        };
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        add("roll_mean_1h", &|i| hour(i).map(mean));
        add("roll_median_1h", &|i| {
            let mut sorted = hour(i)?.to_vec();
            sorted.sort_by(f64::total_cmp);
            Some((sorted[HOUR / 2 - 1] + sorted[HOUR / 2]) / 2.0)
        });
        add("roll_std_1h", &|i| {
            let v = hour(i)?;
            let m = mean(v);
            let sum: f64 = v.iter().map(|x| (x - m) * (x - m)).sum();
            Some((sum / (v.len() - 1) as f64).sqrt())
        });
    }
    Frame::new(columns)
}

/// Returns the date of a time. Times beyond the calendar give its last date.
fn date(seconds: f64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds.floor() as i64, 0).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;

    #[test]
    fn dates_equal_the_calendar() {
        // 2020-09-01 13:20:00 is a Tuesday, and 2021-01-03 is in the last ISO week of 2020.
        let f = features(&[1_598_966_400.0, 1_609_632_000.0, 1e300, -1e300], &[]).unwrap();
        let of = |name: &str| match f.column(name) {
            Ok(Column::Numbers(parts)) => parts.clone(),
            _ => Vec::new(),
        };
        let first = ["month", "day", "hour", "minute", "dayofweek", "dayofyear"].map(|p| of(p)[0]);
        assert_eq!(first, [9.0, 1.0, 13.0, 20.0, 1.0, 245.0]);
        assert_eq!(of("week")[..2], [36.0, 53.0]);
    }

    #[test]
    fn features_include_earlier_values() {
        let times: Vec<f64> = (0..30).map(|i| 600.0 * f64::from(i)).collect();
        let x: Vec<f64> = (0..30).map(|i| f64::from(i * i)).collect();
        let f = features(&times, &[("x", &x)]).unwrap();
        let at = |name: &str, i| match f.column(name).unwrap().cell(i) {
            Cell::Number(x) => x,
            Cell::Category(_) => f64::NAN,
        };
        assert_eq!(at("shift_1h_x", 5), 0.0);
        assert_eq!(at("shift_3h_x", 20), 4.0);
        assert_eq!(at("soft_1h_x", 10), 0.5 * 16.0 + 0.25 * (9.0 + 25.0));
        assert_eq!(
            at("roll_mean_1h_x", 12),
            (1.0 + 4.0 + 9.0 + 16.0 + 25.0 + 36.0) / 6.0
        );
        assert_eq!(at("roll_median_1h_x", 12), 12.5);
        // Sample variance: divided by one less than the number of values.
        let variance: f64 = (2275.0 - 91.0 * 91.0 / 6.0) / 5.0;
        assert!((at("roll_std_1h_x", 12) - variance.sqrt()).abs() < 1e-9);
        assert_eq!(at("soft_1d_x", 29), 0.0);
    }
}
