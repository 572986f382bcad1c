//! Linear programs of many small blocks that share a few resources.

use crate::SolveError;

/// A block of [`Blocks`]: what one user does with each resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// How many users are like this one, above 0; all get the same.
    pub copies: f64,
    /// How much of a resource the user takes for each unit of time on it, above 0.
    pub uses: f64,
    /// Its rate on each resource; it can only use those where it is above 0.
    pub rates: Vec<f64>,
    /// What a unit of time on each resource gains, besides the common level; 0 if empty.
    pub gains: Vec<f64>,
    /// Its rate over all resources is at least this much ...
    pub least: f64,
    /// ... and this many times the common level, not negative.
    pub rises: f64,
}

/// How much of its time each of many users spends on each of a few resources, so that the
/// common level and the sum of gains are as great as can be: no user more than all of its time, no
/// resource more than there is of it.
///
/// Solved by a primal-dual interior-point method (Mehrotra's predictor and corrector) that
/// eliminates one block after the other: an iteration costs as much as there are blocks. Where
/// the optimum is not unique the solution lies in the middle of all optimal ones. Users that are
/// alike count as often as there are of them, so that one block stands for them exactly.
///
/// ```
/// use blox_solve::{Block, Blocks};
/// let user = |copies, rates: [f64; 2]| Block {
///     copies,
///     uses: 1.0,
///     rates: rates.to_vec(),
///     rises: 1.0,
///     ..Block::default()
/// };
/// // Three users of two resources; the first is twice as fast on the second one.
/// let program = Blocks { capacities: vec![1.0, 1.0], blocks: vec![user(1.0, [1.0, 2.0]), user(2.0, [1.0, 1.0])] };
/// let best = program.solve()?;
/// assert!((best.level - 0.8).abs() < 1e-8);
/// # Ok::<(), blox_solve::SolveError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocks {
    /// How much there is of each resource, above 0 where somebody can use it.
    pub capacities: Vec<f64>,
    /// The users.
    pub blocks: Vec<Block>,
}

/// A solution of [`Blocks`].
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// The part of its time that a user of each block spends on each resource.
    pub time: Vec<Vec<f64>>,
    /// The common level; 0 where nobody rises.
    pub level: f64,
}

const NAME: &str = "blocks";
/// Iterations after which it gives up.
const LIMIT: usize = 100;
/// Relative error at which it is done, and that with which it is content if it gets no further.
const DONE: f64 = 1e-10;
const CONTENT: f64 = 1e-8;
/// Relative error at which it gives up.
const MOST_ERROR: f64 = 1e12;
/// Unknowns of a step: as many resources and two.
const MOST: usize = 34;

/// A variable or slack with its dual.
#[derive(Clone, Copy, Default)]
struct Pair {
    x: f64,
    z: f64,
    dx: f64,
    dz: f64,
    /// What `z dx + x dz` should be.
    target: f64,
}

impl Pair {
    fn of(x: f64, mu: f64) -> Self {
        Pair {
            x,
            z: mu / x,
            ..Pair::default()
        }
    }

    fn aim(&mut self, mu: f64, corrects: bool) {
        let second = if corrects { self.dx * self.dz } else { 0.0 };
        self.target = mu - self.x * self.z - second;
    }

    /// Takes the step of the variable, and the dual's that goes with it.
    fn step(&mut self, dx: f64) {
        self.dx = dx;
        self.dz = (self.target - self.z * dx) / self.x;
    }

    /// Takes the step of both; that of the variable is computed from the dual's where it is
    /// the smaller of the two.
    fn step_both(&mut self, dx: f64, dz: f64) {
        self.dz = dz;
        self.dx = match self.x > self.z && dx.is_finite() {
            true => dx,
            false => (self.target - self.x * dz) / self.z,
        };
    }

    /// How far it can go: variable, dual.
    fn room(&self) -> (f64, f64) {
        let of = |x: f64, d: f64| if d < 0.0 { -x / d } else { f64::INFINITY };
        (of(self.x, self.dx), of(self.z, self.dz))
    }

    fn go(&mut self, primal: f64, dual: f64) {
        self.x += primal * self.dx;
        self.z += dual * self.dz;
    }
}

/// One block's variables.
struct Cell<'a> {
    block: &'a Block,
    /// The resources that it can use.
    on: Vec<usize>,
    /// Time on each of them.
    time: Vec<Pair>,
    /// Time left.
    idle: Pair,
    /// Rate above what is asked for; none if nothing is.
    above: Option<Pair>,
    /// The factors of the matrix of a step, and the order of its rows.
    factor: Vec<f64>,
    order: Vec<usize>,
    /// The step without the others' part: times, the dual of the time, that of the rate.
    own: Vec<f64>,
    /// What a unit of each shared unknown adds to it: prices of the resources that it can use,
    /// then the level.
    columns: Vec<f64>,
    /// Residuals.
    stationary: Vec<f64>,
    idle_off: f64,
    above_off: f64,
}

struct State<'a> {
    cells: Vec<Cell<'a>>,
    /// What is left of each resource, with its price.
    rest: Vec<Pair>,
    rest_off: Vec<f64>,
    level: Option<Pair>,
    level_off: f64,
    capacities: &'a [f64],
}

impl Blocks {
    /// The solution in the middle of all optimal ones.
    ///
    /// # Errors
    /// It found none: mostly because what is asked for cannot be had.
    pub fn solve(&self) -> Result<Spent, SolveError> {
        let mut state = State::start(self)?;
        let mut last = f64::INFINITY;
        for _ in 0..LIMIT {
            state.residuals();
            let error = state.error();
            // Where rounding ends progress, it is near enough.
            if error <= DONE || (last <= CONTENT && error > 0.5 * last) {
                return Ok(state.answer());
            }
            if !error.is_finite() || error > MOST_ERROR {
                break;
            }
            last = error;
            if state.advance().is_none() {
                break;
            }
        }
        state.residuals();
        if state.error() <= CONTENT {
            return Ok(state.answer());
        }
        Err(SolveError::Failed {
            solver: NAME,
            why: "it does not converge".to_owned(),
        })
    }
}

impl<'a> State<'a> {
    /// An iteration; `None` if it gets no further.
    fn advance(&mut self) -> Option<()> {
        let mu = self.mu();
        // Predictor: straight to the optimum.
        self.aim(0.0, false);
        self.factor().ok()?;
        self.direction().ok()?;
        let (primal, dual) = self.room();
        let ahead = self.mu_after(primal.min(1.0), dual.min(1.0));
        let center = (ahead / mu).powi(3).clamp(1e-6, 1.0);
        // Corrector: towards the middle.
        self.aim(center * mu, true);
        self.direction().ok()?;
        let (primal, dual) = self.room();
        let step = |room: f64| (0.99 * room).min(1.0);
        let (primal, dual) = (step(primal), step(dual));
        if primal.max(dual) < 1e-9 {
            return None;
        }
        self.go(primal, dual);
        Some(())
    }

    fn start(program: &'a Blocks) -> Result<Self, SolveError> {
        let n = program.capacities.len();
        let unsuited = |why: &str| SolveError::Unsuited {
            solver: NAME,
            why: why.to_owned(),
        };
        if n + 2 > MOST {
            return Err(unsuited("there are too many resources"));
        }
        let mut wanted = vec![0.0; n];
        for block in &program.blocks {
            if block.rates.len() != n || !(block.gains.is_empty() || block.gains.len() == n) {
                return Err(unsuited(
                    "a block has not as many rates as there are resources",
                ));
            }
            if !(block.copies > 0.0 && block.uses > 0.0) {
                return Err(unsuited("a block has no users, or they use nothing"));
            }
            let on = (0..n).filter(|k| block.rates[*k] > 0.0 && program.capacities[*k] > 0.0);
            on.for_each(|k| wanted[k] += block.copies * block.uses);
        }
        let mut cells = Vec::with_capacity(program.blocks.len());
        let mut used = vec![0.0; n];
        let mut level = f64::INFINITY;
        let mut users = 0.0;
        let mut gain = 0.0;
        for block in &program.blocks {
            let on: Vec<usize> = (0..n)
                .filter(|k| block.rates[*k] > 0.0 && program.capacities[*k] > 0.0)
                .collect();
            let most = 1.0 / (on.len() as f64 + 1.0);
            let part = |k: &usize| (0.5 * program.capacities[*k] / wanted[*k]).min(most);
            let time: Vec<f64> = on.iter().map(part).collect();
            let mut rate = 0.0;
            for (k, x) in on.iter().zip(&time) {
                used[*k] += block.copies * block.uses * x;
                rate += block.rates[*k] * x;
                gain += block.copies * block.gains.get(*k).copied().unwrap_or(0.0) * x;
            }
            if block.rises > 0.0 {
                level = level.min((rate - block.least).max(0.1 * rate) / block.rises);
                users += block.copies * block.rises;
            }
            if block.rises > 0.0 && on.is_empty() {
                return Err(SolveError::Infeasible);
            }
            cells.push((block, on, time, rate));
        }
        let rises = level.is_finite();
        let level = 0.5 * level;
        let copies: f64 = program.blocks.iter().map(|b| b.copies).sum();
        let mu = match rises {
            true => level / users,
            false => (gain.abs() / copies.max(1.0)).max(1e-9),
        };
        let cells = cells.into_iter().map(|(block, on, time, rate)| {
            let asks = block.rises > 0.0 || block.least > 0.0;
            let above = rate - block.least - block.rises * if rises { level } else { 0.0 };
            let size = on.len() + 1 + usize::from(asks && !on.is_empty());
            let width = on.len();
            Cell {
                idle: Pair::of((1.0 - time.iter().sum::<f64>()).max(0.1), mu),
                above: (asks && width > 0)
                    .then(|| Pair::of(above.max(0.1 * rate).max(f64::MIN_POSITIVE), mu)),
                time: time.into_iter().map(|x| Pair::of(x, mu)).collect(),
                factor: vec![0.0; size * size],
                order: vec![0; size],
                own: vec![0.0; size],
                columns: vec![0.0; (width + 1) * size],
                stationary: vec![0.0; width],
                idle_off: 0.0,
                above_off: 0.0,
                block,
                on,
            }
        });
        let rest = used.iter().zip(&program.capacities);
        let rest = rest.map(|(used, all)| Pair::of((all - used).max(0.1 * all).max(1e-3), mu));
        Ok(State {
            cells: cells.collect(),
            rest: rest.collect(),
            rest_off: vec![0.0; n],
            level: rises.then(|| Pair::of(level, mu)),
            level_off: 0.0,
            capacities: &program.capacities,
        })
    }

    fn residuals(&mut self) {
        let level = self.level.map_or(0.0, |l| l.x);
        self.level_off = self.level.map_or(0.0, |l| 1.0 + l.z);
        for (off, (rest, all)) in self
            .rest_off
            .iter_mut()
            .zip(self.rest.iter().zip(self.capacities))
        {
            *off = all - rest.x;
        }
        for cell in &mut self.cells {
            let block = cell.block;
            let y = cell.above.map_or(0.0, |a| a.z);
            self.level_off -= block.copies * block.rises * y;
            let (mut spent, mut rate) = (0.0, 0.0);
            for (at, k) in cell.on.iter().enumerate() {
                let pair = cell.time[at];
                spent += pair.x;
                rate += block.rates[*k] * pair.x;
                self.rest_off[*k] -= block.copies * block.uses * pair.x;
                let gain = block.gains.get(*k).copied().unwrap_or(0.0);
                let price = block.uses * self.rest[*k].z;
                cell.stationary[at] = gain + pair.z - cell.idle.z + block.rates[*k] * y - price;
            }
            cell.idle_off = 1.0 - cell.idle.x - spent;
            cell.above_off = cell
                .above
                .map_or(0.0, |a| block.least + a.x + block.rises * level - rate);
        }
    }

    /// The largest relative error: of a row, of a price, of the gap.
    fn error(&self) -> f64 {
        let level = self.level.map_or(0.0, |l| l.x);
        let (mut rows, mut prices, mut price) = (0.0_f64, 0.0_f64, 1e-300_f64);
        let mut value = level;
        for cell in &self.cells {
            let block = cell.block;
            let asked = level * block.rises + block.least;
            rows = rows.max(cell.idle_off.abs());
            rows = rows.max(cell.above_off.abs() / asked.max(1e-300));
            let y = cell.above.map_or(0.0, |a| a.z);
            for (at, k) in cell.on.iter().enumerate() {
                let gain = block.gains.get(*k).copied().unwrap_or(0.0);
                value += block.copies * gain * cell.time[at].x;
                prices = prices.max(cell.stationary[at].abs());
                price = price.max(gain.abs()).max(block.rates[*k] * y);
            }
        }
        for (off, all) in self.rest_off.iter().zip(self.capacities) {
            rows = rows.max(off.abs() / all.max(1.0));
        }
        if self.level.is_some() {
            rows = rows.max(self.level_off.abs());
        }
        let gap = self.mu() * self.weight() / value.abs().max(1e-300);
        if !(gap + prices).is_finite() {
            return f64::INFINITY;
        }
        rows.max(prices / price).max(gap)
    }

    /// All pairs with how often they count.
    fn pairs(&self) -> impl Iterator<Item = (f64, &Pair)> {
        let cells = self.cells.iter().flat_map(|c| {
            let own = c.time.iter().chain([&c.idle]).chain(c.above.iter());
            own.map(move |p| (c.block.copies, p))
        });
        cells
            .chain(self.rest.iter().map(|p| (1.0, p)))
            .chain(self.level.iter().map(|p| (1.0, p)))
    }

    fn pairs_mut(&mut self) -> impl Iterator<Item = &mut Pair> {
        let cells = self.cells.iter_mut().flat_map(|c| {
            c.time
                .iter_mut()
                .chain([&mut c.idle])
                .chain(c.above.iter_mut())
        });
        cells
            .chain(self.rest.iter_mut())
            .chain(self.level.iter_mut())
    }

    fn weight(&self) -> f64 {
        self.pairs().map(|(copies, _)| copies).sum()
    }

    fn mu(&self) -> f64 {
        self.mu_after(0.0, 0.0)
    }

    fn mu_after(&self, primal: f64, dual: f64) -> f64 {
        let product = |p: &Pair| (p.x + primal * p.dx) * (p.z + dual * p.dz);
        let sum: f64 = self.pairs().map(|(copies, p)| copies * product(p)).sum();
        sum / self.weight()
    }

    fn aim(&mut self, mu: f64, corrects: bool) {
        self.pairs_mut().for_each(|p| p.aim(mu, corrects));
    }

    /// How far primal and dual can go.
    fn room(&self) -> (f64, f64) {
        let rooms = self.pairs().map(|(_, p)| p.room());
        let least = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.min(b.1));
        rooms.fold((f64::INFINITY, f64::INFINITY), least)
    }

    fn go(&mut self, primal: f64, dual: f64) {
        self.pairs_mut().for_each(|p| p.go(primal, dual));
    }

    /// Factors each block's matrix.
    fn factor(&mut self) -> Result<(), SolveError> {
        for cell in &mut self.cells {
            let (width, size) = (cell.on.len(), cell.own.len());
            cell.factor.fill(0.0);
            for (at, k) in cell.on.iter().enumerate() {
                cell.factor[at * size + at] = cell.time[at].z / cell.time[at].x;
                cell.factor[at * size + width] = 1.0;
                cell.factor[width * size + at] = 1.0;
                if size > width + 1 {
                    let rate = cell.block.rates[*k];
                    cell.factor[at * size + width + 1] = -rate;
                    cell.factor[(width + 1) * size + at] = -rate;
                }
            }
            cell.factor[width * size + width] = -cell.idle.x / cell.idle.z;
            if let Some(above) = &cell.above {
                cell.factor[(width + 1) * size + width + 1] = -above.x / above.z;
            }
            if !factor(&mut cell.factor, &mut cell.order, size) {
                return Err(no_step());
            }
            cell.columns.fill(0.0);
            for at in 0..=width {
                let column = &mut cell.columns[at * size..(at + 1) * size];
                if at < width {
                    column[at] = -cell.block.uses;
                } else if size > width + 1 {
                    column[width + 1] = -cell.block.rises;
                }
                solve(&cell.factor, &cell.order, column);
            }
        }
        Ok(())
    }

    /// The step towards what the pairs aim at.
    fn direction(&mut self) -> Result<(), SolveError> {
        let n = self.capacities.len();
        let m = n + 1;
        // Unknowns: the prices' steps, then that of the level.
        let mut matrix = vec![0.0; m * m];
        let mut right = vec![0.0; m];
        for k in 0..n {
            let rest = &self.rest[k];
            matrix[k * m + k] = -rest.x / rest.z;
            right[k] = self.rest_off[k] - rest.target / rest.z;
        }
        match &self.level {
            Some(level) => {
                matrix[n * m + n] = level.z / level.x;
                right[n] = self.level_off + level.target / level.x;
            }
            None => matrix[n * m + n] = 1.0,
        }
        for cell in &mut self.cells {
            let (block, width, size) = (cell.block, cell.on.len(), cell.own.len());
            for (at, pair) in cell.time.iter().enumerate() {
                cell.own[at] = cell.stationary[at] + pair.target / pair.x;
            }
            cell.own[width] = cell.idle_off - cell.idle.target / cell.idle.z;
            if let Some(above) = &cell.above {
                cell.own[width + 1] = -cell.above_off - above.target / above.z;
            }
            solve(&cell.factor, &cell.order, &mut cell.own);
            // Rows of the resources, then that of the level.
            for row in 0..=width {
                let (to, weight, entry) = match row < width {
                    true => (cell.on[row], block.copies * block.uses, row),
                    false if size > width + 1 && self.level.is_some() => {
                        (n, block.copies * block.rises, width + 1)
                    }
                    false => continue,
                };
                right[to] -= weight * cell.own[entry];
                for column in 0..=width {
                    let from = cell.on.get(column).copied().unwrap_or(n);
                    let value = cell.columns[column * size + entry];
                    if from < n || self.level.is_some() {
                        matrix[to * m + from] += weight * value;
                    }
                }
            }
        }
        let mut order = vec![0; m];
        if !factor(&mut matrix, &mut order, m) {
            return Err(no_step());
        }
        solve(&matrix, &order, &mut right);
        if self.level.is_none() {
            right[n] = 0.0;
        }
        for cell in &mut self.cells {
            let (block, width, size) = (cell.block, cell.on.len(), cell.own.len());
            for column in 0..=width {
                let shared = right[cell.on.get(column).copied().unwrap_or(n)];
                let of = &cell.columns[column * size..(column + 1) * size];
                cell.own
                    .iter_mut()
                    .zip(of)
                    .for_each(|(x, c)| *x += c * shared);
            }
            let (mut spent, mut rate) = (0.0, 0.0);
            for (at, k) in cell.on.iter().enumerate() {
                let dx = cell.own[at];
                spent += dx;
                rate += block.rates[*k] * dx;
                cell.time[at].step(dx);
            }
            let off = cell.idle_off - spent;
            cell.idle.step_both(off, cell.own[width]);
            if let Some(above) = &mut cell.above {
                let off = rate - block.rises * right[n] - cell.above_off;
                above.step_both(off, cell.own[width + 1]);
            }
        }
        for (rest, dual) in self.rest.iter_mut().zip(&right) {
            rest.step_both(f64::INFINITY, *dual);
        }
        if let Some(level) = &mut self.level {
            level.step(right[n]);
        }
        Ok(())
    }

    fn answer(&self) -> Spent {
        let of = |cell: &Cell<'_>| {
            let mut time = vec![0.0; self.capacities.len()];
            for (at, k) in cell.on.iter().enumerate() {
                time[*k] = cell.time[at].x;
            }
            time
        };
        Spent {
            time: self.cells.iter().map(of).collect(),
            level: self.level.map_or(0.0, |l| l.x),
        }
    }
}

fn no_step() -> SolveError {
    SolveError::Failed {
        solver: NAME,
        why: "a step cannot be computed".to_owned(),
    }
}

/// The factors of a matrix, row by row, in its place, and the order of its rows; `false` if it has
/// none.
fn factor(a: &mut [f64], order: &mut [usize], n: usize) -> bool {
    order.iter_mut().enumerate().for_each(|(i, o)| *o = i);
    for c in 0..n {
        let mut pivot = c;
        for r in c + 1..n {
            if a[r * n + c].abs() > a[pivot * n + c].abs() {
                pivot = r;
            }
        }
        let head = a[pivot * n + c];
        if head == 0.0 || !head.is_finite() {
            return false;
        }
        if pivot != c {
            (0..n).for_each(|k| a.swap(c * n + k, pivot * n + k));
            order.swap(c, pivot);
        }
        let (above, below) = a.split_at_mut((c + 1) * n);
        let top = &above[c * n + c + 1..];
        for row in below.chunks_exact_mut(n) {
            let factor = row[c] / head;
            row[c] = factor;
            if factor != 0.0 {
                let rest = row[c + 1..].iter_mut().zip(top);
                rest.for_each(|(x, t)| *x -= factor * t);
            }
        }
    }
    true
}

/// Solves with the factors, in place. There are at most [`MOST`] unknowns.
fn solve(a: &[f64], order: &[usize], x: &mut [f64]) {
    match order.len() {
        0..=8 => solve_within::<8>(a, order, x),
        _ => solve_within::<MOST>(a, order, x),
    }
}

fn solve_within<const N: usize>(a: &[f64], order: &[usize], x: &mut [f64]) {
    let n = order.len();
    let mut y = [0.0; N];
    let y = &mut y[..n];
    for ((r, from), row) in order.iter().enumerate().zip(a.chunks_exact(n)) {
        let known = row[..r].iter().zip(&*y);
        y[r] = x[*from] - known.map(|(a, y)| a * y).sum::<f64>();
    }
    for (r, row) in a.chunks_exact(n).enumerate().rev() {
        let known = row[r + 1..].iter().zip(&y[r + 1..]);
        y[r] = (y[r] - known.map(|(a, y)| a * y).sum::<f64>()) / row[r];
    }
    x.copy_from_slice(y);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(copies: f64, uses: f64, rates: &[f64]) -> Block {
        Block {
            copies,
            uses,
            rates: rates.to_vec(),
            rises: 1.0,
            ..Block::default()
        }
    }

    #[test]
    fn alike_users_as_one_block_get_what_they_get_apart() {
        let rates = [[1.0, 3.0], [2.0, 2.5], [1.0, 1.0]];
        let together = Blocks {
            capacities: vec![6.0, 4.0],
            blocks: rates.iter().map(|r| user(5.0, 1.0, r)).collect(),
        };
        let mut apart = together.clone();
        apart.blocks = (0..15).map(|i| user(1.0, 1.0, &rates[i % 3])).collect();
        let [a, b] = [&together, &apart].map(|p| p.solve().unwrap());
        assert!((a.level - b.level).abs() < 1e-8);
        for (i, time) in b.time.iter().enumerate() {
            for (x, y) in time.iter().zip(&a.time[i % 3]) {
                assert!((x - y).abs() < 1e-5, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn users_have_their_least_and_no_more_than_there_is() {
        let mut program = Blocks {
            capacities: vec![2.0],
            blocks: vec![user(1.0, 2.0, &[1.0]), user(2.0, 1.0, &[1.0])],
        };
        program.blocks[0].rises = 0.0;
        program.blocks[0].least = 0.6;
        let found = program.solve().unwrap();
        // 1.2 of 2 are taken; 0.8 are for two.
        assert!((found.level - 0.4).abs() < 1e-8, "{found:?}");
        program.blocks[0].least = 1.1;
        assert!(program.solve().is_err());
    }

    #[test]
    fn gains_are_added_up_and_what_runs_nowhere_gets_nothing() {
        let gains = |gain: f64| Block {
            rises: 0.0,
            gains: vec![gain],
            ..user(1.0, 1.0, &[1.0])
        };
        let mut program = Blocks {
            capacities: vec![1.5],
            blocks: vec![gains(1.0), gains(3.0), gains(2.0)],
        };
        program.blocks[1].rates = vec![0.0];
        let found = program.solve().unwrap();
        for (time, expected) in found.time.iter().zip([0.5, 0.0, 1.0]) {
            assert!((time[0] - expected).abs() < 1e-7, "{found:?}");
        }
    }
}
