//! One alternative of each group, within a few capacities.

mod prices;
mod repair;
mod walk;

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
    /// True if nothing better exists; `false` where states had to be left out.
    pub proven: bool,
}

/// Resources that a program may have: what is left of each takes 16 bits of a word.
const RESOURCES: usize = 8;
/// Open states of a first search.
const NARROW: usize = 8;
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

    /// Returns it with another bound on the work of the search, in states times groups.
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
    fn narrow_search_keeps_within_capacities() {
        let mut solved = 0;
        for seed in 0..50 {
            let p = program(seed).with_width(1);
            let Ok(best) = p.solve() else { continue };
            solved += 1;
            assert_eq!(best.of.len(), p.groups.len());
            let mut used = vec![0; p.capacities.len()];
            let mut cost = 0.0;
            for (choice, group) in best.of.iter().zip(&p.groups) {
                if let Some(required) = group.required {
                    assert_eq!(*choice, Some(required), "{seed}");
                }
                if let Some(i) = choice {
                    let a = group.alternatives[*i];
                    used[a.resource] += a.amount;
                    cost += a.cost;
                }
            }
            for (used, capacity) in used.iter().zip(&p.capacities) {
                assert!(used <= capacity, "{seed}: {used} of {capacity}");
            }
            assert!((best.cost - cost).abs() < 1e-9, "{seed}: {best:?}, {cost}");
            assert!(best.cost >= by_trying(&p) - 1e-9, "{seed}: {best:?}");
        }
        assert!(solved > 40, "{solved}");
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
