//! Assignments of least cost.

use std::ops::{Add, Sub};

/// Returns the cheapest assignment of rows to distinct columns: the column of each row, or `None`
/// if it has none. `cost` returns the cost of a row on a column; a cost that is not finite forbids
/// the pair.
///
/// The assignment has the most rows that are possible. The sum of its costs is then least, up to
/// rounding. The matrix need not be square: of more rows than columns, some have none.
///
/// **Ties.** The result depends only on the matrix. Rows are added in order, each over a shortest
/// path of moves. If two columns are equally near, the path takes a free one. If several are free,
/// the first row takes the one with the smallest number. Later rows take the one that their search
/// visits last. To prefer a column, make it cheaper: for
/// example by 10⁻⁶ for the column that a job has now.
///
/// It uses shortest augmenting paths (Jonker and Volgenant 1987; Crouse 2016), in time
/// O(rows · columns · min(rows, columns)). [`heaviest_matching`](crate::heaviest_matching) matches
/// within one set, such as pairs of jobs.
///
/// ```
/// use blox_solve::assign;
///
/// // Seconds that each of three jobs needs for a move to each of two nodes.
/// let seconds = [[0.0, 30.0], [0.0, 10.0], [f64::INFINITY, 30.0]];
/// let node = assign(3, 2, |job, node| seconds[job][node]);
/// assert_eq!(node, [Some(0), Some(1), None]);
/// ```
pub fn assign(
    rows: usize,
    columns: usize,
    cost: impl Fn(usize, usize) -> f64,
) -> Vec<Option<usize>> {
    let mut u = vec![Length::ZERO; rows];
    let mut v = vec![Length::ZERO; columns];
    let mut row_of: Vec<Option<usize>> = vec![None; columns];
    let mut column_of: Vec<Option<usize>> = vec![None; rows];
    let mut path = vec![usize::MAX; columns];
    let mut length = vec![Length::FAR; columns];
    let mut seen_column = vec![false; columns];
    let mut remaining: Vec<usize> = Vec::with_capacity(columns);
    for start in 0..rows {
        remaining.clear();
        remaining.extend((0..columns).rev());
        seen_column.fill(false);
        length.fill(Length::FAR);
        let mut least = Length::ZERO;
        let mut i = start;
        // The cheapest row to leave without a column.
        let mut left_out = (Length::FAR, start);
        let end = loop {
            let without = least + Length::LEFT_OUT - u[i];
            if without < left_out.0 {
                left_out = (without, i);
            }
            let mut lowest = Length::FAR;
            let mut at = None;
            for (place, &j) in remaining.iter().enumerate() {
                let cost = cost(i, j);
                if cost.is_finite() {
                    let r = least + Length { rows: 0, cost } - u[i] - v[j];
                    if r < length[j] {
                        path[j] = i;
                        length[j] = r;
                    }
                }
                if length[j] < lowest || (length[j] == lowest && row_of[j].is_none()) {
                    lowest = length[j];
                    at = Some(place);
                }
            }
            let Some(place) = at.filter(|_| lowest <= left_out.0) else {
                least = left_out.0;
                break column_of[left_out.1].take();
            };
            least = lowest;
            let j = remaining.swap_remove(place);
            seen_column[j] = true;
            match row_of[j] {
                None => break Some(j),
                Some(row) => i = row,
            }
        };
        u[start] = u[start] + least;
        for j in (0..columns).filter(|j| seen_column[*j]) {
            let by = least - length[j];
            if let Some(i) = row_of[j] {
                u[i] = u[i] + by;
            }
            v[j] = v[j] - by;
        }
        // Without an end, the new row is left out.
        let mut next = end;
        while let Some(j) = next {
            let i = path[j];
            row_of[j] = Some(i);
            next = column_of[i].replace(j).filter(|_| i != start);
        }
    }
    column_of
}

/// A length of a path: rows that it leaves without a column, then its cost.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Length {
    rows: i64,
    cost: f64,
}

impl Length {
    const ZERO: Length = Length { rows: 0, cost: 0.0 };
    /// The length to the end of a row without a column.
    const LEFT_OUT: Length = Length { rows: 1, cost: 0.0 };
    /// The length to a column that no path reaches.
    const FAR: Length = Length {
        rows: i64::MAX,
        cost: f64::INFINITY,
    };
}

impl Add for Length {
    type Output = Length;
    fn add(self, other: Length) -> Length {
        Length {
            rows: self.rows + other.rows,
            cost: self.cost + other.cost,
        }
    }
}

impl Sub for Length {
    type Output = Length;
    fn sub(self, other: Length) -> Length {
        Length {
            rows: self.rows - other.rows,
            cost: self.cost - other.cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of assigned rows and the sum of costs.
    fn price(cost: &[Vec<f64>], columns: &[Option<usize>]) -> (usize, f64) {
        let pairs = || {
            columns
                .iter()
                .zip(cost)
                .filter_map(|(j, row)| Some(row[(*j)?]))
        };
        (pairs().count(), pairs().sum())
    }

    /// The best of all assignments of the rows from the first on to columns that are not taken.
    fn best(cost: &[Vec<f64>], taken: &mut [bool]) -> (usize, f64) {
        let Some((first, rest)) = cost.split_first() else {
            return (0, 0.0);
        };
        let mut found = best(rest, taken);
        for (j, own) in first.iter().enumerate() {
            if taken[j] || !own.is_finite() {
                continue;
            }
            taken[j] = true;
            let (rows, sum) = best(rest, taken);
            taken[j] = false;
            let (rows, sum) = (rows + 1, sum + own);
            if rows > found.0 || (rows == found.0 && sum < found.1) {
                found = (rows, sum);
            }
        }
        found
    }

    #[test]
    fn assign_equals_the_best_of_all_assignments() {
        let mut state = 12345_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) % n
        };
        for case in 0..4000 {
            let (rows, columns) = (below(6) as usize, below(6) as usize);
            let (barred, most) = ([0, 2, 6][case % 3], [2, 10, 1_000_000][case / 3 % 3]);
            let mut draw = || match below(10) < barred {
                true => [f64::INFINITY, f64::NAN, f64::NEG_INFINITY][below(3) as usize],
                false => below(most) as f64 - (most / 3) as f64,
            };
            let cost: Vec<Vec<f64>> = (0..rows)
                .map(|_| (0..columns).map(|_| draw()).collect())
                .collect();
            let found = assign(rows, columns, |i, j| cost[i][j]);
            let mut taken: Vec<usize> = found.iter().flatten().copied().collect();
            taken.sort_unstable();
            assert!(taken.windows(2).all(|pair| pair[0] != pair[1]), "{cost:?}");
            let expected = best(&cost, &mut vec![false; columns]);
            assert_eq!(price(&cost, &found), expected, "{cost:?}: {found:?}");
        }
    }

    #[test]
    fn assign_breaks_ties_by_the_matrix_alone() {
        assert_eq!(assign(3, 3, |_, _| 0.0), [Some(0), Some(1), Some(2)]);
        assert_eq!(assign(2, 4, |_, _| 7.0), [Some(0), Some(1)]);
        assert_eq!(assign(3, 2, |_, _| 0.0), [Some(0), Some(1), None]);
        let wide = [[7.0, 3.0, 9.0, 1.0], [1.0, 8.0, 2.0, 1.0]];
        assert_eq!(assign(2, 4, |i, j| wide[i][j]), [Some(3), Some(0)]);
    }

    #[test]
    fn assign_takes_no_forbidden_pair() {
        assert_eq!(assign(0, 3, |_, _| 1.0), []);
        assert_eq!(assign(2, 0, |_, _| 1.0), [None, None]);
        assert_eq!(assign(2, 2, |_, _| f64::NAN), [None, None]);
        // Two rows want the only column: the cheaper one gets it.
        let cost = [5.0, 4.0];
        assert_eq!(assign(2, 1, |i, _| cost[i]), [None, Some(0)]);
    }
}
