//! Linear interpolation between scattered points.

/// A point of a table: nodes, GPUs and samples of a pass, with the seconds of a step and of its
/// exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub at: [f64; 3],
    pub times: (f64, f64),
}

/// Smaller numbers are rounding errors: coordinates are whole numbers.
const ROUNDING: f64 = 1e-9;
/// Cost of an artificial column, far above every squared distance.
const ARTIFICIAL: f64 = 1e12;
/// Corners with reduced costs below this may be on the sphere.
const TIED: f64 = 1e-6;
/// Number of steps after which the first improving column is taken, so that the search does not
/// cycle.
const GREEDY: u32 = 200;
const STEPS: u32 = 5_000;

/// Interpolated times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// Seconds of a step, and of its gradient exchange.
    pub times: (f64, f64),
    /// True if all Delaunay triangulations give the same times.
    pub unique: bool,
}

/// Interpolates the times at a place. The weights are the barycentric coordinates in the simplex of
/// a Delaunay triangulation that contains the place. Returns `None` outside the convex hull of the
/// points.
///
/// Only the simplex at the place is computed. It has the smallest weighted mean of squared distances
/// from the place to its corners. The triangulation is the lower hull of the points lifted onto a
/// paraboloid. This is a linear program with four rows. If more than four corners are on one sphere, as on a grid, there are several
/// triangulations; the choice is deterministic.
pub(super) fn interpolated(points: &[Point], place: [f64; 3]) -> Option<Between> {
    let n = points.len();
    let column = |j: usize| -> [f64; 4] {
        if j < n {
            let p = points[j].at;
            [p[0] - place[0], p[1] - place[1], p[2] - place[2], 1.0]
        } else {
            std::array::from_fn(|i| f64::from(u8::from(i == j - n)))
        }
    };
    let cost = |j: usize| match j < n {
        true => column(j)[..3].iter().map(|d| d * d).sum(),
        false => ARTIFICIAL,
    };
    let mut basis: [usize; 4] = std::array::from_fn(|i| n + i);
    let mut inverse: [[f64; 4]; 4] = std::array::from_fn(column_of_identity);
    let mut shares = [0.0, 0.0, 0.0, 1.0];
    let mut unique = true;
    for step in 0..STEPS {
        let prices: [f64; 4] =
            std::array::from_fn(|k| (0..4).map(|i| cost(basis[i]) * inverse[i][k]).sum());
        let mut best: Option<(usize, f64)> = None;
        // Prices of artificial columns are large, and so are their rounding errors.
        let enough = -ROUNDING * prices.iter().fold(100.0, |m, p| f64::max(m, p.abs()));
        unique = true;
        for j in 0..n {
            let reduced = cost(j) - dot(&prices, &column(j));
            unique &= reduced > TIED || basis.contains(&j);
            if reduced < best.map_or(enough, |(_, r)| r) {
                best = Some((j, reduced));
                if step > GREEDY {
                    break;
                }
            }
        }
        let Some((entering, _)) = best else { break };
        let direction: [f64; 4] = std::array::from_fn(|i| dot(&inverse[i], &column(entering)));
        let rows = (0..4).filter(|i| direction[*i] > ROUNDING);
        let ratio = |i: usize| shares[i] / direction[i];
        let leaving = rows.min_by(|a, b| {
            let order = ratio(*a).total_cmp(&ratio(*b));
            order.then(basis[*b].cmp(&basis[*a]))
        })?;
        let length = ratio(leaving);
        for i in 0..4 {
            shares[i] -= length * direction[i];
        }
        shares[leaving] = length;
        let pivot = direction[leaving];
        inverse[leaving] = inverse[leaving].map(|v| v / pivot);
        let pivotal = inverse[leaving];
        for i in (0..4).filter(|i| *i != leaving) {
            for (v, p) in inverse[i].iter_mut().zip(pivotal) {
                *v -= direction[i] * p;
            }
        }
        basis[leaving] = entering;
    }
    let mut times = (0.0, 0.0);
    for (j, share) in basis.into_iter().zip(shares) {
        match points.get(j) {
            Some(point) => {
                times.0 += share * point.times.0;
                times.1 += share * point.times.1;
            }
            None if share > ROUNDING => return None,
            None => {}
        }
    }
    Some(Between { times, unique })
}

fn column_of_identity(i: usize) -> [f64; 4] {
    std::array::from_fn(|k| f64::from(u8::from(i == k)))
}

fn dot(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that are linear in the place.
    fn plane(at: [f64; 3]) -> Point {
        let step = 1.0 + 2.0 * at[0] - 0.5 * at[1] + 0.25 * at[2];
        Point {
            at,
            times: (step, step / 2.0),
        }
    }

    #[test]
    fn what_is_linear_stays_so_on_a_grid_and_off_it() {
        let mut points = Vec::new();
        for nodes in [1.0, 2.0, 4.0, 8.0] {
            for gpus in [4.0, 8.0, 16.0] {
                for per_gpu in [32.0, 64.0, 91.0, 128.0] {
                    points.push(plane([nodes, gpus, per_gpu]));
                }
            }
        }
        for place in [
            [3.0, 12.0, 70.0],
            [5.0, 5.0, 127.0],
            [8.0, 16.0, 128.0],
            [1.5, 4.0, 33.0],
        ] {
            let found = interpolated(&points, place).unwrap().times;
            let expected = plane(place).times;
            assert!((found.0 - expected.0).abs() < 1e-9, "{place:?} {found:?}");
            assert!((found.1 - expected.1).abs() < 1e-9, "{place:?} {found:?}");
        }
        assert_eq!(interpolated(&points, [9.0, 12.0, 70.0]), None);
        assert_eq!(interpolated(&points, [3.0, 12.0, 16.0]), None);
    }

    #[test]
    fn the_nearest_corners_count() {
        let point = |at, step| Point {
            at,
            times: (step, 0.0),
        };
        // Five corners: the place is in the simplex of the first four, and the fifth is outside its
        // sphere.
        let points = [
            point([0.0, 0.0, 0.0], 1.0),
            point([4.0, 0.0, 0.0], 2.0),
            point([0.0, 4.0, 0.0], 3.0),
            point([0.0, 0.0, 4.0], 4.0),
            point([9.0, 9.0, 9.0], 100.0),
        ];
        let found = interpolated(&points, [1.0, 1.0, 1.0]).unwrap();
        assert!((found.times.0 - 2.5).abs() < 1e-12, "{found:?}");
        assert!(found.unique);
        // With another corner of the same cube, another four could be chosen.
        let cube = points.into_iter().chain([point([4.0, 4.0, 0.0], 9.0)]);
        let cube: Vec<Point> = cube.collect();
        assert!(!interpolated(&cube, [1.5, 1.5, 0.0]).unwrap().unique);
    }
}
