//! Speed of a job as a function of CPUs and memory.

use crate::units::is_amount;
use serde::{Deserialize, Serialize};

/// Speed of a job by the CPU cores and the memory of each of its GPUs: a table of measured points
/// (Synergy, OSDI 2022, section 3.1).
///
/// Speeds may have any unit, such as multiples of the speed at a fair share: only their ratios
/// count. Between points, the speed is interpolated linearly in each direction. Beyond the
/// outermost points, the speed of the nearest point applies.
///
/// In JSON: `{"cpus": [1, 3], "memory_gib": [20, 60], "speed": [[0.3, 0.5], [0.8, 1]]}`, with one
/// row for each number of cores and one column for each amount of memory.
///
/// ```
/// use blox_core::Sensitivity;
/// let table = Sensitivity::new(vec![1.0, 3.0], vec![20.0, 60.0], vec![vec![0.3, 0.5], vec![0.8, 1.0]])?;
/// assert_eq!(table.speed(2.0, 60.0), 0.75);
/// assert_eq!(table.speed(24.0, 500.0), 1.0);
/// # Ok::<(), blox_core::SensitivityError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Points", into = "Points")]
pub struct Sensitivity {
    points: Points,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Points {
    cpus: Vec<f64>,
    memory_gib: Vec<f64>,
    speed: Vec<Vec<f64>>,
}

impl Sensitivity {
    /// Creates a table from measured points. `cpus` and `memory_gib` are amounts for each GPU,
    /// ascending. `speed` has one row for each number of cores and one column for each amount of
    /// memory. The last speed of the last row is above 0.
    ///
    /// # Errors
    /// If the points are not ascending, the table does not match their number, or a speed is not a
    /// number of at least 0.
    pub fn new(
        cpus: Vec<f64>,
        memory_gib: Vec<f64>,
        speed: Vec<Vec<f64>>,
    ) -> Result<Self, SensitivityError> {
        Sensitivity::try_from(Points {
            cpus,
            memory_gib,
            speed,
        })
    }

    /// Returns the speed with `cpus` cores and `memory_gib` GiB of memory for each GPU.
    pub fn speed(&self, cpus: f64, memory_gib: f64) -> f64 {
        let p = &self.points;
        let (row, below) = between(&p.cpus, cpus);
        let (column, left) = between(&p.memory_gib, memory_gib);
        let mix = |a: f64, b: f64, t: f64| if t == 0.0 { a } else { a + (b - a) * t };
        let along = |row: usize| {
            let row = &p.speed[row];
            mix(row[column], row[(column + 1).min(row.len() - 1)], left)
        };
        mix(along(row), along((row + 1).min(p.cpus.len() - 1)), below)
    }
}

/// Returns the last point that is not above `x`, and the relative position of `x` between that
/// point and the next.
fn between(points: &[f64], x: f64) -> (usize, f64) {
    let above = points.partition_point(|p| *p <= x);
    let Some(at) = above.checked_sub(1) else {
        return (0, 0.0);
    };
    match points.get(above) {
        Some(next) => (at, (x - points[at]) / (next - points[at])),
        None => (at, 0.0),
    }
}

impl TryFrom<Points> for Sensitivity {
    type Error = SensitivityError;

    fn try_from(points: Points) -> Result<Self, SensitivityError> {
        for (what, list) in [("cpus", &points.cpus), ("memory_gib", &points.memory_gib)] {
            let ascending = list.windows(2).all(|w| w[0] < w[1]);
            let amounts = list.iter().all(|x| is_amount(*x));
            if list.is_empty() || !ascending || !amounts {
                return Err(SensitivityError::Points(what));
            }
        }
        let (rows, columns) = (points.cpus.len(), points.memory_gib.len());
        if points.speed.len() != rows || points.speed.iter().any(|row| row.len() != columns) {
            return Err(SensitivityError::Size { rows, columns });
        }
        let mut all = points.speed.iter().flatten();
        if let Some(wrong) = all.find(|x| !is_amount(**x)) {
            return Err(SensitivityError::Speed(*wrong));
        }
        match points.speed.last().and_then(|row| row.last()) {
            Some(best) if *best > 0.0 => Ok(Sensitivity { points }),
            _ => Err(SensitivityError::Standstill),
        }
    }
}

impl From<Sensitivity> for Points {
    fn from(table: Sensitivity) -> Points {
        table.points
    }
}

/// An invalid table.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SensitivityError {
    /// The points are not ascending amounts.
    #[error("`{0}` holds no ascending amounts of at least 0, expected at least one")]
    Points(&'static str),
    /// The size of the table differs from the number of points.
    #[error("`speed` has another size, expected {rows} rows of {columns} numbers")]
    Size {
        /// Expected number of rows: one for each number of cores.
        rows: usize,
        /// Expected number of columns: one for each amount of memory.
        columns: usize,
    },
    /// An invalid speed.
    #[error("`speed` holds {0}, expected a number of at least 0")]
    Speed(f64),
    /// The speed with the most cores and memory is 0.
    #[error("`speed` is 0 with the most cores and memory, expected above 0")]
    Standstill,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Sensitivity {
        let speed = vec![vec![0.1, 0.3], vec![0.1, 1.0], vec![0.1, 2.0]];
        Sensitivity::new(vec![1.0, 3.0, 9.0], vec![20.0, 60.0], speed).unwrap()
    }

    #[test]
    fn points_are_exact_and_others_are_interpolated() {
        let t = table();
        assert_eq!(t.speed(3.0, 60.0), 1.0);
        assert_eq!(t.speed(6.0, 60.0), 1.5);
        assert_eq!(t.speed(3.0, 40.0), 0.55);
        assert_eq!(t.speed(0.5, 10.0), 0.1);
        assert_eq!(t.speed(24.0, 500.0), 2.0);
        assert_eq!(t.speed(f64::INFINITY, f64::INFINITY), 2.0);
    }

    #[test]
    fn json_is_checked_as_it_comes_in() {
        let json = serde_json::to_string(&table()).unwrap();
        assert_eq!(serde_json::from_str::<Sensitivity>(&json).unwrap(), table());
        for (text, expected) in [
            (
                r#"{"cpus":[3,1],"memory_gib":[1],"speed":[[1],[1]]}"#,
                "`cpus` holds no ascending amounts",
            ),
            (
                r#"{"cpus":[1,3],"memory_gib":[1],"speed":[[1]]}"#,
                "expected 2 rows of 1 numbers",
            ),
            (
                r#"{"cpus":[1],"memory_gib":[1],"speed":[[-1]]}"#,
                "`speed` holds -1",
            ),
            (
                r#"{"cpus":[1],"memory_gib":[1],"speed":[[0]]}"#,
                "expected above 0",
            ),
        ] {
            let error = serde_json::from_str::<Sensitivity>(text).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
