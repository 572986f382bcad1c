//! The quasi-Newton matrix: `B = theta I - W M W'` with `W = [Y, theta S]`.

use super::{Bounds, dot};

/// Number of steps kept.
const M: usize = 10;

type Square = [[f64; M]; M];
type Pair = [f64; 2 * M];
type Wide = [[f64; 2 * M]; 2 * M];

#[derive(Default)]
pub(super) struct Memory<const N: usize> {
    /// Steps and the changes of the gradient along them, oldest first.
    s: Vec<[f64; N]>,
    y: Vec<[f64; N]>,
    theta: f64,
    /// `S'Y` and `S'S`.
    sy: Square,
    ss: Square,
    /// The Cholesky factor (upper) of `theta S'S + L D^-1 L'`.
    wt: Square,
    /// Products of steps and changes over free variables and over other variables. The matrix of
    /// the subspace is formed from them. As in the published program, they are updated when
    /// variables become free or bound: recomputed products would differ in their last bits.
    products: Wide,
    /// The factor of the matrix of the subspace.
    k: Wide,
    /// The free variables of the last iteration, ascending, and the others, descending; `None`
    /// before the first iteration.
    split: Option<(Vec<usize>, Vec<usize>)>,
    /// True if a step was added since the matrix was formed; true if that step displaced another.
    taken_in: bool,
    shifted: bool,
}

impl<const N: usize> Memory<N> {
    pub(super) fn new() -> Self {
        Memory {
            theta: 1.0,
            ..Memory::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.s.is_empty()
    }

    /// Removes all steps.
    pub(super) fn clear(&mut self) {
        self.s.clear();
        self.y.clear();
        self.theta = 1.0;
        self.taken_in = false;
    }

    /// Notes that the last step was not added.
    pub(super) fn pass_over(&mut self) {
        self.taken_in = false;
    }

    /// Adds a step: the change of the gradient along it, their product and the square of the step.
    /// Returns false if the matrix is not positive definite any more.
    pub(super) fn update(
        &mut self,
        step: [f64; N],
        change: [f64; N],
        product: f64,
        square: f64,
    ) -> bool {
        self.taken_in = true;
        self.shifted = self.s.len() == M;
        if self.shifted {
            self.s.remove(0);
            self.y.remove(0);
            for i in 0..M - 1 {
                for j in 0..M - 1 {
                    self.ss[i][j] = self.ss[i + 1][j + 1];
                    self.sy[i][j] = self.sy[i + 1][j + 1];
                }
            }
        }
        self.theta = dot(&change, &change) / product;
        let last = self.s.len();
        for j in 0..last {
            self.sy[last][j] = dot(&step, &self.y[j]);
            self.ss[j][last] = dot(&self.s[j], &step);
        }
        self.ss[last][last] = square;
        self.sy[last][last] = product;
        self.s.push(step);
        self.y.push(change);
        let n = self.s.len();
        for i in 0..n {
            for j in i..n {
                let mut sum = 0.0;
                for k in 0..i {
                    sum += self.sy[i][k] * self.sy[j][k] / self.sy[k][k];
                }
                self.wt[i][j] = sum + self.theta * self.ss[i][j];
            }
        }
        cholesky(n, &mut self.wt)
    }

    /// Returns the approximate minimum of the quadratic model: the Cauchy point, then the minimum
    /// over the free variables there. Returns `None` if the matrix has become singular.
    pub(super) fn target(
        &mut self,
        x: &[f64; N],
        gradient: &[f64; N],
        bounds: &Bounds<N>,
    ) -> Option<[f64; N]> {
        let cauchy = self.cauchy(x, gradient, bounds)?;
        let changes = self.divide(&cauchy.free);
        if cauchy.free.is_empty() || self.is_empty() {
            return Some(cauchy.x);
        }
        if self.taken_in || changes != (Vec::new(), Vec::new()) {
            self.follow(&changes.0, &changes.1);
            self.k = self.factor()?;
        }
        self.subspace(x, gradient, bounds, &cauchy)
    }

    /// Multiplies the middle matrix by a vector. Returns `None` if the matrix is singular.
    fn middle(&self, v: &Pair) -> Option<Pair> {
        let n = self.s.len();
        let mut p = [0.0; 2 * M];
        for i in 0..n {
            let mut sum = 0.0;
            for k in 0..i {
                sum += self.sy[i][k] * v[k] / self.sy[k][k];
            }
            p[n + i] = v[n + i] + sum;
        }
        solve_lower(n, &self.wt, &mut p[n..2 * n])?;
        for i in 0..n {
            p[i] = v[i] / self.sy[i][i].sqrt();
        }
        solve_upper(n, &self.wt, &mut p[n..2 * n])?;
        for i in 0..n {
            p[i] = -p[i] / self.sy[i][i].sqrt();
        }
        for i in 0..n {
            let mut sum = 0.0;
            for k in i + 1..n {
                sum += self.sy[k][i] * p[n + k] / self.sy[i][i];
            }
            p[i] += sum;
        }
        Some(p)
    }

    /// Returns a row of `W`.
    fn row(&self, i: usize) -> Pair {
        let n = self.s.len();
        let mut row = [0.0; 2 * M];
        for j in 0..n {
            row[j] = self.y[j][i];
            row[n + j] = self.theta * self.s[j][i];
        }
        row
    }

    /// Returns the first minimum of the model along the projected gradient.
    fn cauchy(&self, x: &[f64; N], gradient: &[f64; N], bounds: &Bounds<N>) -> Option<Cauchy<N>> {
        let n = self.s.len();
        let mut free = [true; N];
        let mut d = [0.0; N];
        let mut breaks: Vec<(f64, usize)> = Vec::with_capacity(N);
        let (mut f1, mut moves, mut bounded) = (0.0, false, true);
        let mut p = [0.0; 2 * M];
        for i in 0..N {
            let down = -gradient[i];
            let (below, above) = (x[i] - bounds.low[i], bounds.high[i] - x[i]);
            let at_bound = bounds.low[i] == bounds.high[i]
                || below <= 0.0 && down <= 0.0
                || above <= 0.0 && below > 0.0 && down >= 0.0;
            if at_bound {
                free[i] = false;
            }
            if at_bound || down == 0.0 {
                continue;
            }
            moves = true;
            d[i] = down;
            f1 -= down * down;
            for j in 0..n {
                p[j] += self.y[j][i] * down;
                p[n + j] += self.s[j][i] * down;
            }
            let room = if down < 0.0 { below } else { above };
            if room.is_finite() {
                breaks.push((room / down.abs(), i));
            } else {
                bounded = false;
            }
        }
        for p in &mut p[n..2 * n] {
            *p *= self.theta;
        }
        let mut at = Cauchy {
            x: *x,
            c: [0.0; 2 * M],
            free: Vec::with_capacity(N),
        };
        if moves {
            breaks.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.walk(x, bounds, &mut at, (d, p, f1, bounded), &breaks, &mut free)?;
        }
        at.free.extend((0..N).filter(|i| free[*i]));
        Some(at)
    }

    fn walk(
        &self,
        x: &[f64; N],
        bounds: &Bounds<N>,
        at: &mut Cauchy<N>,
        (mut d, mut p, mut f1, bounded): ([f64; N], Pair, f64, bool),
        breaks: &[(f64, usize)],
        free: &mut [bool; N],
    ) -> Option<()> {
        let n = self.s.len();
        let mut f2 = -self.theta * f1;
        let first_f2 = f2;
        if n > 0 {
            f2 -= product(2 * n, &self.middle(&p)?, &p);
        }
        let mut least = -f1 / f2;
        let (mut gone, mut last) = (0.0, 0.0);
        let mut left = breaks.len();
        for &(t, i) in breaks {
            let dt = t - last;
            if least < dt {
                break;
            }
            last = t;
            gone += dt;
            left -= 1;
            let di = std::mem::replace(&mut d[i], 0.0);
            at.x[i] = if di > 0.0 {
                bounds.high[i]
            } else {
                bounds.low[i]
            };
            free[i] = false;
            let zi = at.x[i] - x[i];
            if left == 0 && breaks.len() == N {
                // Every variable has reached its bound.
                for (c, p) in at.c.iter_mut().zip(p) {
                    *c += dt * p;
                }
                return Some(());
            }
            let square = di * di;
            // From left to right: cancellation here decides the end of a step.
            f1 = f1 + dt * f2 + square - self.theta * di * zi;
            f2 -= self.theta * square;
            if n > 0 {
                for (c, p) in at.c.iter_mut().zip(p) {
                    *c += dt * p;
                }
                let row = self.row(i);
                let v = self.middle(&row)?;
                let wmc = product(2 * n, &at.c, &v);
                let wmp = product(2 * n, &p, &v);
                let wmw = product(2 * n, &row, &v);
                for (p, w) in p.iter_mut().zip(row) {
                    *p -= di * w;
                }
                f1 += di * wmc;
                f2 = f2 + 2.0 * di * wmp - square * wmw;
            }
            f2 = f2.max(f64::EPSILON * first_f2);
            least = if left == 0 && bounded { 0.0 } else { -f1 / f2 };
        }
        let least = least.max(0.0);
        gone += least;
        for i in 0..N {
            at.x[i] += gone * d[i];
        }
        for (c, p) in at.c.iter_mut().zip(p) {
            *c += least * p;
        }
        Some(())
    }

    /// Returns the minimum of the model over the free variables, projected into the bounds.
    fn subspace(
        &self,
        x: &[f64; N],
        gradient: &[f64; N],
        bounds: &Bounds<N>,
        cauchy: &Cauchy<N>,
    ) -> Option<[f64; N]> {
        let n = self.s.len();
        let k = &self.k;
        let mc = self.middle(&cauchy.c)?;
        let mut r = [0.0; N];
        for &i in &cauchy.free {
            r[i] = -self.theta * (cauchy.x[i] - x[i]) - gradient[i];
        }
        for j in 0..n {
            let (a, b) = (mc[j], self.theta * mc[n + j]);
            for &i in &cauchy.free {
                r[i] = r[i] + self.y[j][i] * a + self.s[j][i] * b;
            }
        }
        let mut wv = [0.0; 2 * M];
        for j in 0..n {
            let (mut a, mut b) = (0.0, 0.0);
            for &i in &cauchy.free {
                a += self.y[j][i] * r[i];
                b += self.s[j][i] * r[i];
            }
            wv[j] = a;
            wv[n + j] = self.theta * b;
        }
        solve_lower(2 * n, k, &mut wv[..2 * n])?;
        for w in &mut wv[..n] {
            *w = -*w;
        }
        solve_upper(2 * n, k, &mut wv[..2 * n])?;
        let mut d = r;
        for j in 0..n {
            for &i in &cauchy.free {
                d[i] = d[i] + self.y[j][i] * wv[j] / self.theta + self.s[j][i] * wv[n + j];
            }
        }
        let by = 1.0 / self.theta;
        for &i in &cauchy.free {
            d[i] *= by;
        }
        Some(within(x, gradient, bounds, cauchy, &d))
    }

    /// Records the free variables. Returns the variables that became free and those that ceased to
    /// be free.
    fn divide(&mut self, free: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let is_free = |i: &usize| free.contains(i);
        let changes = match &self.split {
            None => (Vec::new(), Vec::new()),
            Some((were_free, others)) => (
                others.iter().copied().filter(is_free).collect(),
                were_free
                    .iter()
                    .rev()
                    .copied()
                    .filter(|i| !is_free(i))
                    .collect(),
            ),
        };
        let others = (0..N).rev().filter(|i| !is_free(i)).collect();
        self.split = Some((free.to_vec(), others));
        changes
    }

    /// Updates the products for the last step and for variables that enter or leave.
    fn follow(&mut self, enter: &[usize], leave: &[usize]) {
        let Some((free, others)) = &self.split else {
            return;
        };
        let n = self.s.len();
        let over = |a: &[f64; N], b: &[f64; N], of: &[usize]| {
            let mut sum = 0.0;
            for &i in of {
                sum += a[i] * b[i];
            }
            sum
        };
        let (s, y, w) = (&self.s, &self.y, &mut self.products);
        let mut old = n;
        if self.taken_in {
            if self.shifted {
                for i in 0..M - 1 {
                    for j in 0..M - 1 {
                        w[i][j] = w[i + 1][j + 1];
                        w[M + i][M + j] = w[M + i + 1][M + j + 1];
                        w[M + i][j] = w[M + i + 1][j + 1];
                    }
                }
            }
            let last = n - 1;
            for j in 0..n {
                w[last][j] = over(&y[last], &y[j], free);
                w[M + last][M + j] = over(&s[last], &s[j], others);
                w[M + last][j] = over(&s[last], &y[j], others);
            }
            for i in 0..n {
                w[M + i][last] = over(&s[i], &y[last], free);
            }
            old = last;
        }
        for i in 0..old {
            for j in 0..=i {
                let (a, b) = (over(&y[i], &y[j], enter), over(&s[i], &s[j], enter));
                let (c, d) = (over(&y[i], &y[j], leave), over(&s[i], &s[j], leave));
                w[i][j] = w[i][j] + a - c;
                w[M + i][M + j] = w[M + i][M + j] - b + d;
            }
        }
        for i in 0..old {
            for j in 0..old {
                let (a, c) = (over(&s[i], &y[j], enter), over(&s[i], &y[j], leave));
                w[M + i][j] = if i <= j {
                    w[M + i][j] + a - c
                } else {
                    w[M + i][j] - a + c
                };
            }
        }
    }

    /// Returns the factor of the matrix of the subspace.
    fn factor(&self) -> Option<Wide> {
        let n = self.s.len();
        let w = &self.products;
        let mut k = [[0.0; 2 * M]; 2 * M];
        for i in 0..n {
            for j in 0..=i {
                k[j][i] = w[i][j] / self.theta;
                k[n + j][n + i] = w[M + i][M + j] * self.theta;
            }
            for j in 0..i {
                k[j][n + i] = -w[M + i][j];
            }
            for j in i..n {
                k[j][n + i] = w[M + i][j];
            }
            k[i][i] += self.sy[i][i];
        }
        if !cholesky_at(0, n, &mut k) {
            return None;
        }
        for column in n..2 * n {
            for i in 0..n {
                let mut sum = 0.0;
                for j in 0..i {
                    sum += k[j][i] * k[j][column];
                }
                k[i][column] = (k[i][column] - sum) / k[i][i];
            }
        }
        for i in n..2 * n {
            for j in i..2 * n {
                let mut sum = 0.0;
                for row in 0..n {
                    sum += k[row][i] * k[row][j];
                }
                k[i][j] += sum;
            }
        }
        cholesky_at(n, n, &mut k).then_some(k)
    }
}

/// A Cauchy point.
struct Cauchy<const N: usize> {
    x: [f64; N],
    /// `W'(x_cauchy - x)`.
    c: Pair,
    /// Variables not at a bound.
    free: Vec<usize>,
}

/// Returns a step from the Cauchy point, projected into the bounds. The step is shortened if the
/// projection would not descend.
fn within<const N: usize>(
    x: &[f64; N],
    gradient: &[f64; N],
    bounds: &Bounds<N>,
    cauchy: &Cauchy<N>,
    d: &[f64; N],
) -> [f64; N] {
    let mut z = cauchy.x;
    let mut met = false;
    for &i in &cauchy.free {
        z[i] = (z[i] + d[i]).max(bounds.low[i]).min(bounds.high[i]);
        met |= z[i] == bounds.low[i] || z[i] == bounds.high[i];
    }
    let mut slope = 0.0;
    for i in 0..N {
        slope += (z[i] - x[i]) * gradient[i];
    }
    if !met || slope <= 0.0 {
        return z;
    }
    let mut z = cauchy.x;
    let (mut share, mut first) = (1.0, None);
    for &i in &cauchy.free {
        let room = if d[i] < 0.0 {
            bounds.low[i] - z[i]
        } else {
            bounds.high[i] - z[i]
        };
        if d[i] == 0.0 || !room.is_finite() {
            continue;
        }
        let most = if room * d[i] <= 0.0 { 0.0 } else { room / d[i] };
        if most < share {
            (share, first) = (most, Some(i));
        }
    }
    for &i in &cauchy.free {
        if first == Some(i) {
            z[i] = if d[i] > 0.0 {
                bounds.high[i]
            } else {
                bounds.low[i]
            };
        } else {
            z[i] += share * d[i];
        }
    }
    z
}

fn product(n: usize, a: &Pair, b: &Pair) -> f64 {
    let mut sum = 0.0;
    for i in 0..n {
        sum += a[i] * b[i];
    }
    sum
}

fn cholesky(n: usize, a: &mut Square) -> bool {
    cholesky_at(0, n, a)
}

/// Replaces the upper half of a block of `n` rows, starting at row `from`, by its Cholesky factor.
/// Returns false if the block is not positive definite.
fn cholesky_at<const K: usize>(from: usize, n: usize, a: &mut [[f64; K]; K]) -> bool {
    for j in from..from + n {
        let mut square = 0.0;
        for k in from..j {
            let mut sum = 0.0;
            for i in from..k {
                sum += a[i][k] * a[i][j];
            }
            let t = (a[k][j] - sum) / a[k][k];
            a[k][j] = t;
            square += t * t;
        }
        let rest = a[j][j] - square;
        if rest.is_nan() || rest <= 0.0 {
            return false;
        }
        a[j][j] = rest.sqrt();
    }
    true
}

/// Solves with the transpose of an upper factor.
fn solve_lower<const K: usize>(n: usize, u: &[[f64; K]; K], b: &mut [f64]) -> Option<()> {
    for i in 0..n {
        if u[i][i] == 0.0 {
            return None;
        }
        let mut sum = 0.0;
        for j in 0..i {
            sum += u[j][i] * b[j];
        }
        b[i] = (b[i] - sum) / u[i][i];
    }
    Some(())
}

/// Solves with an upper factor.
fn solve_upper<const K: usize>(n: usize, u: &[[f64; K]; K], b: &mut [f64]) -> Option<()> {
    for i in (0..n).rev() {
        if u[i][i] == 0.0 {
            return None;
        }
        b[i] /= u[i][i];
        let by = -b[i];
        for j in 0..i {
            b[j] += by * u[j][i];
        }
    }
    Some(())
}
