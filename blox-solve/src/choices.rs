//! One alternative of each group, within a few capacities.

use crate::SolveError;

/// An alternative of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternative {
    /// What it costs; below 0 where it is better than nothing.
    pub cost: f64,
    /// The resource that it uses, by its place among the capacities.
    pub resource: usize,
    /// How much of it.
    pub amount: u32,
}

/// At most one alternative of each group, so that the sum of costs is least and no
/// resource is used beyond its capacity: a multiple-choice knapsack.
///
/// Solved by dynamic programming over what is left of each resource, bounded by
/// Lagrangian multipliers (prices) of the capacities and by a first choice that follows from
/// them. Exact, unless more states are open than [allowed](Choices::with_width), which depends
/// on the program alone.
///
/// ```
/// use blox_solve::{Alternative, Choices};
/// let of = |cost, amount| Alternative { cost, resource: 0, amount };
/// let mut p = Choices::within(&[4]);
/// p.group(vec![of(-1.0, 1), of(-1.6, 2), of(-2.5, 4)]);
/// p.group(vec![of(-0.8, 1), of(-1.7, 2)]);
/// let best = p.solve()?;
/// assert_eq!(best.of, [Some(1), Some(1)]);
/// assert!(best.proven);
/// # Ok::<(), blox_solve::SolveError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Choices {
    capacities: Vec<u32>,
    groups: Vec<Group>,
    width: usize,
}

#[derive(Clone, Debug)]
struct Group {
    alternatives: Vec<Alternative>,
    required: Option<usize>,
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The alternative of each group, by its place in it; `None` for none.
    pub of: Vec<Option<usize>>,
    /// The sum of costs.
    pub cost: f64,
    /// Whether nothing better exists; `false` where states had to be left out.
    pub proven: bool,
}

/// Resources that a program may have: what is left of each takes 16 bits of a word.
const RESOURCES: usize = 8;
/// Open states of a first search.
const NARROW: usize = 8;
/// Rounds of the search for prices, one by one; halvings of an interval in it; rounds along subgradients.
const SWEEPS: u32 = 8;
const HALVINGS: u32 = 20;
const ROUNDS: u32 = 40;
/// A gain of the bound in a sweep, as a share of it, that is worth another.
const ENOUGH: f64 = 1e-5;
/// Differences of costs below this are rounding.
const ROUNDING: f64 = 1e-10;

impl Choices {
    /// A program without groups.
    pub fn within(capacities: &[u32]) -> Self {
        Choices {
            capacities: capacities.to_vec(),
            groups: Vec::new(),
            width: 1 << 22,
        }
    }

    /// With another bound on the work of the search, in states times groups.
    #[must_use]
    pub fn with_width(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    /// Adds a group and says its place.
    pub fn group(&mut self, alternatives: Vec<Alternative>) -> usize {
        self.groups.push(Group {
            alternatives,
            required: None,
        });
        self.groups.len() - 1
    }

    /// The group takes this alternative, whatever it costs.
    pub fn require(&mut self, group: usize, alternative: usize) {
        self.groups[group].required = Some(alternative);
    }

    /// The best choice. Of equally good ones, always the same.
    ///
    /// # Errors
    /// What is required exceeds a capacity, or there are too many resources or too
    /// much of one.
    pub fn solve(&self) -> Result<Chosen, SolveError> {
        let mut left = self.capacities.clone();
        let unsuited = |why: &str| SolveError::Unsuited {
            solver: "choices",
            why: why.to_owned(),
        };
        if left.len() > RESOURCES {
            return Err(unsuited("it has more than 8 resources"));
        }
        if left.iter().any(|c| *c > u32::from(u16::MAX)) {
            return Err(unsuited("a capacity is above 65535"));
        }
        let mut of = vec![None; self.groups.len()];
        let mut open = Vec::new();
        for (i, group) in self.groups.iter().enumerate() {
            let known = |a: &&Alternative| a.resource < left.len();
            if let Some(required) = group.required {
                let taken = group.alternatives.get(required).filter(known);
                let taken = taken.ok_or_else(|| unsuited("a required alternative is not there"))?;
                let rest = &mut left[taken.resource];
                *rest = rest
                    .checked_sub(taken.amount)
                    .ok_or(SolveError::Infeasible)?;
                of[i] = Some(required);
            } else {
                open.push(OpenGroup::of(i, &group.alternatives, left.len()));
            }
        }
        open.retain(|g| !g.items.is_empty());
        let mut search = Search::over(open, left);
        let proven = search.run(&mut of, self.width);
        let chosen = of.iter().zip(&self.groups);
        let cost = chosen.filter_map(|(c, g)| Some(g.alternatives[(*c)?].cost));
        Ok(Chosen {
            cost: cost.sum(),
            of,
            proven,
        })
    }
}

/// A group with the alternatives that can be in a best choice.
struct OpenGroup {
    group: usize,
    /// With their places in the group.
    items: Vec<(usize, Alternative)>,
    /// The least cost with multipliers; nothing at all costs 0.
    least: f64,
}

impl OpenGroup {
    fn of(group: usize, all: &[Alternative], resources: usize) -> Self {
        let better = |a: &Alternative, i: usize, b: &Alternative, j: usize| {
            let alike = a.resource == b.resource && a.amount <= b.amount && a.cost <= b.cost;
            alike && (i < j || a.amount < b.amount || a.cost < b.cost)
        };
        let items = all.iter().enumerate().filter(|(j, b)| {
            let useful = b.cost < 0.0 && b.resource < resources;
            useful && !all.iter().enumerate().any(|(i, a)| better(a, i, b, *j))
        });
        OpenGroup {
            group,
            items: items.map(|(i, a)| (i, *a)).collect(),
            least: 0.0,
        }
    }

    fn priced(&self, price: &[f64]) -> (f64, Option<Alternative>) {
        let mut best = (0.0, None);
        for (_, a) in &self.items {
            let cost = a.cost + price[a.resource] * f64::from(a.amount);
            if cost < best.0 {
                best = (cost, Some(*a));
            }
        }
        best
    }
}

/// A state of the dynamic program.
#[derive(Clone, Copy)]
struct Open {
    /// What is left of each resource.
    left: u128,
    /// Cost above the bound so far.
    excess: f64,
    parent: u32,
    /// The item, or `NOTHING`.
    item: u32,
}

const NOTHING: u32 = u32::MAX;

/// The item of each open group.
type Picked = Vec<Option<usize>>;

struct Search {
    groups: Vec<OpenGroup>,
    left: Vec<u32>,
    price: Vec<f64>,
    /// What no choice is below.
    bound: f64,
}

impl Search {
    fn over(groups: Vec<OpenGroup>, left: Vec<u32>) -> Self {
        let mut search = Search {
            price: vec![0.0; left.len()],
            groups,
            left,
            bound: f64::NEG_INFINITY,
        };
        search.find_prices();
        search
    }

    /// The bound at some prices, and by how much each capacity is exceeded there.
    fn bound_at(&self, price: &[f64]) -> (f64, [f64; RESOURCES]) {
        let mut over = [0.0; RESOURCES];
        for (over, c) in over.iter_mut().zip(&self.left) {
            *over = -f64::from(*c);
        }
        let mut bound = 0.0;
        for group in &self.groups {
            let (cost, item) = group.priced(price);
            bound += cost;
            if let Some(a) = item {
                over[a.resource] += f64::from(a.amount);
            }
        }
        for (p, c) in price.iter().zip(&self.left) {
            bound -= p * f64::from(*c);
        }
        (bound, over)
    }

    /// Maximises the Lagrangian bound: price by price, each where its capacity just suffices, and
    /// then along subgradients.
    fn find_prices(&mut self) {
        let mut price = self.price.clone();
        let items = || self.groups.iter().flat_map(|g| &g.items);
        let dearest = items().map(|(_, a)| -a.cost / f64::from(a.amount.max(1)));
        let dearest = dearest.fold(0.0, f64::max);
        let mut best = (self.bound_at(&price).0, price.clone());
        for _ in 0..SWEEPS {
            let before = best.0;
            for r in 0..price.len() {
                let (mut low, mut high) = (0.0, dearest);
                price[r] = 0.0;
                if self.bound_at(&price).1[r] > 0.0 {
                    for _ in 0..HALVINGS {
                        price[r] = 0.5 * (low + high);
                        if self.bound_at(&price).1[r] > 0.0 {
                            low = price[r];
                        } else {
                            high = price[r];
                        }
                    }
                    price[r] = high;
                }
                let bound = self.bound_at(&price).0;
                if bound > best.0 {
                    best = (bound, price.clone());
                }
            }
            if best.0 - before <= ENOUGH * best.0.abs() {
                break;
            }
        }
        let mut price = best.1.clone();
        let mut step = 0.1 * dearest;
        for _ in 0..ROUNDS {
            let (bound, over) = self.bound_at(&price);
            if bound > best.0 {
                best = (bound, price.clone());
            } else {
                step *= 0.9;
            }
            let idle = |(p, o): (&f64, &f64)| *o <= 0.0 && (*p == 0.0 || *o == 0.0);
            if price.iter().zip(&over).all(idle) {
                break;
            }
            price.clone_from(&best.1);
            for ((p, over), c) in price.iter_mut().zip(&over).zip(&self.left) {
                *p = (*p + step * over / f64::from(*c).max(1.0)).max(0.0);
            }
        }
        (self.bound, self.price) = best;
        for g in &mut self.groups {
            g.least = g.priced(&self.price).0;
        }
        // Those with a plain choice first: they open no states.
        let price = &self.price;
        let choice = |g: &OpenGroup| {
            let priced = g
                .items
                .iter()
                .map(|(_, a)| a.cost + price[a.resource] * f64::from(a.amount));
            let mut all: Vec<f64> = priced.chain([0.0]).collect();
            all.sort_by(f64::total_cmp);
            all[0] - all[1]
        };
        let mut keyed: Vec<(f64, OpenGroup)> = std::mem::take(&mut self.groups)
            .into_iter()
            .map(|g| (choice(&g), g))
            .collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.groups = keyed.into_iter().map(|(_, g)| g).collect();
    }

    fn run(&mut self, of: &mut [Option<usize>], work: usize) -> bool {
        let mut picked = self.priced_choice();
        self.make_fit(&mut picked);
        self.improve(&mut picked);
        let mut cost = self.cost_of(&picked);
        let width = (work / self.groups.len().max(1)).max(NARROW);
        let mut proven = cost - self.bound <= ROUNDING;
        for width in [NARROW, width] {
            if proven {
                break;
            }
            let (found, whole) = self.walk(width, cost);
            proven = whole;
            if let Some((better, less)) = found.filter(|(_, less)| *less < cost) {
                (picked, cost) = (better, less);
            }
        }
        for (group, item) in self.groups.iter().zip(picked) {
            of[group.group] = item.map(|i| group.items[i].0);
        }
        proven
    }

    fn cost_of(&self, picked: &[Option<usize>]) -> f64 {
        let chosen = self.groups.iter().zip(picked);
        chosen
            .filter_map(|(g, p)| Some(g.items[(*p)?].1.cost))
            .sum()
    }

    /// What every group would take at the prices.
    fn priced_choice(&self) -> Vec<Option<usize>> {
        let best = |g: &OpenGroup| {
            let mut best = (0.0, None);
            for (i, (_, a)) in g.items.iter().enumerate() {
                let cost = a.cost + self.price[a.resource] * f64::from(a.amount);
                if cost < best.0 {
                    best = (cost, Some(i));
                }
            }
            best.1
        };
        self.groups.iter().map(best).collect()
    }

    fn free(&self, picked: &[Option<usize>]) -> Vec<i64> {
        let mut free: Vec<i64> = self.left.iter().map(|c| i64::from(*c)).collect();
        for (group, item) in self.groups.iter().zip(picked) {
            if let Some(i) = item {
                let a = &group.items[*i].1;
                free[a.resource] -= i64::from(a.amount);
            }
        }
        free
    }

    /// What an alternative uses of a resource.
    fn used(&self, group: usize, item: Option<usize>, resource: usize) -> i64 {
        let a = item.map(|i| &self.groups[group].items[i].1);
        a.filter(|a| a.resource == resource)
            .map_or(0, |a| i64::from(a.amount))
    }

    fn cost(&self, group: usize, item: Option<usize>) -> f64 {
        item.map_or(0.0, |i| self.groups[group].items[i].1.cost)
    }

    fn options(&self, group: usize) -> impl Iterator<Item = Option<usize>> + use<> {
        (0..self.groups[group].items.len()).map(Some).chain([None])
    }

    /// Whether a group may change to an alternative with so much free.
    fn fits(&self, free: &[i64], group: usize, now: Option<usize>, to: Option<usize>) -> bool {
        let Some(i) = to else { return true };
        let new = &self.groups[group].items[i].1;
        i64::from(new.amount) <= free[new.resource] + self.used(group, now, new.resource)
    }

    /// Gives up the least for what is used beyond a capacity.
    fn make_fit(&self, picked: &mut [Option<usize>]) {
        loop {
            let free = self.free(picked);
            let Some(r) = free.iter().position(|f| *f < 0) else {
                return;
            };
            let mut best: Option<(f64, usize, Option<usize>)> = None;
            for (g, now) in picked.iter().enumerate() {
                for to in self.options(g) {
                    let freed = self.used(g, *now, r) - self.used(g, to, r);
                    let elsewhere = to.is_none_or(|i| self.groups[g].items[i].1.resource == r);
                    if freed <= 0 || !(elsewhere || self.fits(&free, g, *now, to)) {
                        continue;
                    }
                    let lost = self.cost(g, to) - self.cost(g, *now);
                    let each = lost / freed.min(-free[r]) as f64;
                    if best.is_none_or(|(b, ..)| each < b) {
                        best = Some((each, g, to));
                    }
                }
            }
            match best {
                Some((_, g, to)) => picked[g] = to,
                None => return,
            }
        }
    }

    /// Changes one group after the other as long as that helps.
    fn improve(&self, picked: &mut [Option<usize>]) {
        let mut free = self.free(picked);
        let mut changed = true;
        while changed {
            changed = false;
            for (g, pick) in picked.iter_mut().enumerate() {
                let now = *pick;
                let mut best = (self.cost(g, now) - ROUNDING, now);
                for to in self.options(g) {
                    let cost = self.cost(g, to);
                    if cost < best.0 && self.fits(&free, g, now, to) {
                        best = (cost, to);
                    }
                }
                if best.1 != now {
                    *pick = best.1;
                    changed = true;
                    for (r, free) in free.iter_mut().enumerate() {
                        *free += self.used(g, now, r) - self.used(g, best.1, r);
                    }
                }
            }
        }
    }

    /// The best choice that costs no more than `most` with its cost, and whether no state was left out.
    fn walk(&self, width: usize, most: f64) -> (Option<(Picked, f64)>, bool) {
        let pack = |left: &[u32]| {
            let parts = left.iter().enumerate();
            parts.fold(0u128, |all, (r, c)| all | u128::from(*c) << (16 * r))
        };
        let has = |left: u128, r: usize| (left >> (16 * r)) as u16;
        let mut layers: Vec<Vec<(u32, u32)>> = Vec::with_capacity(self.groups.len());
        let mut now = vec![Open {
            left: pack(&self.left),
            excess: 0.0,
            parent: 0,
            item: NOTHING,
        }];
        let mut next: Vec<Open> = Vec::new();
        let room = most - self.bound + ROUNDING;
        let mut whole = true;
        for group in &self.groups {
            next.clear();
            for (i, state) in now.iter().enumerate() {
                let mut push = |excess: f64, left: u128, item: u32| {
                    if excess <= room {
                        next.push(Open {
                            left,
                            excess,
                            parent: i as u32,
                            item,
                        });
                    }
                };
                push(state.excess - group.least, state.left, NOTHING);
                for (k, (_, a)) in group.items.iter().enumerate() {
                    if u32::from(has(state.left, a.resource)) >= a.amount {
                        let price = self.price[a.resource] * f64::from(a.amount);
                        push(
                            state.excess + (a.cost + price - group.least),
                            state.left - (u128::from(a.amount) << (16 * a.resource)),
                            k as u32,
                        );
                    }
                }
            }
            next.sort_unstable_by(|a, b| {
                let by = a.left.cmp(&b.left).then(a.excess.total_cmp(&b.excess));
                by.then(a.parent.cmp(&b.parent)).then(a.item.cmp(&b.item))
            });
            next.dedup_by_key(|s| s.left);
            if next.len() > width {
                whole = false;
                let by =
                    |a: &Open, b: &Open| a.excess.total_cmp(&b.excess).then(a.left.cmp(&b.left));
                next.select_nth_unstable_by(width, by);
                next.truncate(width);
                next.sort_unstable_by_key(|a| a.left);
            }
            layers.push(next.iter().map(|s| (s.parent, s.item)).collect());
            std::mem::swap(&mut now, &mut next);
        }
        let total = |s: &Open| {
            let unused = (0..self.left.len()).map(|r| self.price[r] * f64::from(has(s.left, r)));
            self.bound + s.excess + unused.sum::<f64>()
        };
        let ends = now.iter().enumerate();
        let Some((at, end)) = ends.min_by(|a, b| total(a.1).total_cmp(&total(b.1))) else {
            return (None, whole);
        };
        let cost = total(end);
        let mut picked = vec![None; self.groups.len()];
        let mut at = at as u32;
        for (layer, pick) in layers.iter().zip(&mut picked).rev() {
            let (parent, item) = layer[at as usize];
            *pick = (item != NOTHING).then_some(item as usize);
            at = parent;
        }
        (Some((picked, cost)), whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every choice of every group.
    fn by_trying(p: &Choices) -> f64 {
        fn go(p: &Choices, i: usize, left: &mut Vec<u32>) -> f64 {
            let Some(group) = p.groups.get(i) else {
                return 0.0;
            };
            let mut best = match group.required {
                None => go(p, i + 1, left),
                Some(_) => f64::INFINITY,
            };
            for (k, a) in group.alternatives.iter().enumerate() {
                if group.required.is_some_and(|r| r != k) || left[a.resource] < a.amount {
                    continue;
                }
                left[a.resource] -= a.amount;
                best = best.min(a.cost + go(p, i + 1, left));
                left[a.resource] += a.amount;
            }
            best
        }
        go(p, 0, &mut p.capacities.clone())
    }

    /// Programs from a small generator.
    fn program(seed: u64) -> Choices {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        let mut draw = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % n
        };
        let mut p = Choices::within(&[6, 4, 8]);
        for _ in 0..6 {
            let alternatives = (0..5).map(|_| Alternative {
                cost: draw(200) as f64 / 100.0 - 1.5,
                resource: draw(3) as usize,
                amount: 1 << draw(3),
            });
            p.group(alternatives.collect());
        }
        if draw(3) == 0 {
            p.require(2, draw(5) as usize);
        }
        p
    }

    #[test]
    fn no_choice_is_better() {
        for seed in 0..300 {
            let p = program(seed);
            let expected = by_trying(&p);
            match p.solve() {
                Ok(best) => {
                    assert!((best.cost - expected).abs() < 1e-9, "{seed}: {best:?}");
                    assert!(best.proven);
                }
                Err(e) => assert!(
                    e == SolveError::Infeasible && expected == f64::INFINITY,
                    "{seed}: {e}"
                ),
            }
        }
    }

    #[test]
    fn a_narrow_search_keeps_within_capacities() {
        for seed in 0..50 {
            let p = program(seed).with_width(1);
            let Ok(best) = p.solve() else { continue };
            let mut left = p.capacities.clone();
            for (choice, group) in best.of.iter().zip(&p.groups) {
                if let Some(i) = choice {
                    let a = group.alternatives[*i];
                    left[a.resource] -= a.amount;
                }
            }
        }
    }

    #[test]
    fn what_is_required_must_fit() {
        let mut p = Choices::within(&[1]);
        p.group(vec![Alternative {
            cost: 3.0,
            resource: 0,
            amount: 2,
        }]);
        assert_eq!(p.solve().unwrap().of, [None]);
        p.require(0, 0);
        assert_eq!(p.solve(), Err(SolveError::Infeasible));
    }
}
