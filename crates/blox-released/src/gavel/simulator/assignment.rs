//! Minimum-cost assignment.

/// Returns the cheapest assignment of rows to distinct columns, as the column of each row.
///
/// The matrix must have at least as many columns as rows, and all costs must be finite.
///
/// It uses shortest augmenting paths (Jonker and Volgenant; Crouse 2016), one row at a time. If
/// columns are equally cheap, the path takes an unassigned one, otherwise the first in scan order,
/// from the last column to the first. The result therefore depends only on the matrix.
pub(super) fn cheapest(
    rows: usize,
    columns: usize,
    cost: impl Fn(usize, usize) -> f64,
) -> Vec<usize> {
    let mut u = vec![0.0; rows];
    let mut v = vec![0.0; columns];
    let mut row_of: Vec<Option<usize>> = vec![None; columns];
    let mut column_of: Vec<Option<usize>> = vec![None; rows];
    let mut path = vec![usize::MAX; columns];
    let mut length = vec![f64::INFINITY; columns];
    let mut seen_row = vec![false; rows];
    let mut seen_column = vec![false; columns];
    let mut remaining: Vec<usize> = Vec::with_capacity(columns);
    for start in 0..rows {
        remaining.clear();
        remaining.extend((0..columns).rev());
        seen_row.fill(false);
        seen_column.fill(false);
        length.fill(f64::INFINITY);
        let mut least = 0.0;
        let mut i = start;
        let sink = loop {
            seen_row[i] = true;
            let mut lowest = f64::INFINITY;
            let mut at = None;
            for (place, &j) in remaining.iter().enumerate() {
                let r = least + cost(i, j) - u[i] - v[j];
                if r < length[j] {
                    path[j] = i;
                    length[j] = r;
                }
                if length[j] < lowest || (length[j] == lowest && row_of[j].is_none()) {
                    lowest = length[j];
                    at = Some(place);
                }
            }
            least = lowest;
            let Some(place) = at else { return Vec::new() };
            let j = remaining.swap_remove(place);
            seen_column[j] = true;
            match row_of[j] {
                None => break j,
                Some(row) => i = row,
            }
        };
        u[start] += least;
        for i in (0..rows).filter(|i| seen_row[*i] && *i != start) {
            if let Some(j) = column_of[i] {
                u[i] += least - length[j];
            }
        }
        for j in (0..columns).filter(|j| seen_column[*j]) {
            v[j] -= least - length[j];
        }
        let mut j = sink;
        loop {
            let i = path[j];
            row_of[j] = Some(i);
            let before = column_of[i].replace(j);
            match before {
                Some(before) if i != start => j = before,
                _ => break,
            }
        }
    }
    column_of.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::cheapest;

    #[test]
    fn the_cheapest_of_all_is_found() {
        let cost = [[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]];
        assert_eq!(cheapest(3, 3, |i, j| cost[i][j]), [1, 0, 2]);
        let wide = [[7.0, 3.0, 9.0, 1.0], [1.0, 8.0, 2.0, 1.0]];
        assert_eq!(cheapest(2, 4, |i, j| wide[i][j]), [3, 0]);
    }

    #[test]
    fn it_is_as_cheap_as_any_permutation() {
        let mut x = 12345u64;
        let mut draw = || {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1);
            f64::from((x >> 33) as u32 % 10)
        };
        for _ in 0..200 {
            let cost: Vec<Vec<f64>> = (0..4).map(|_| (0..5).map(|_| draw()).collect()).collect();
            let found = cheapest(4, 5, |i, j| cost[i][j]);
            let price = |p: &[usize]| p.iter().enumerate().map(|(i, j)| cost[i][*j]).sum::<f64>();
            let mut best = f64::INFINITY;
            let mut stack = vec![Vec::new()];
            while let Some(p) = stack.pop() {
                if p.len() == 4 {
                    best = best.min(price(&p));
                    continue;
                }
                for j in (0..5).filter(|j| !p.contains(j)) {
                    let mut next = p.clone();
                    next.push(j);
                    stack.push(next);
                }
            }
            assert_eq!(price(&found), best, "{cost:?}");
        }
    }
}
