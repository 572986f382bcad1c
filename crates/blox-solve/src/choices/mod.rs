//! Choice of one alternative per group, within a few capacities.

mod alike;
mod prices;
mod repair;
mod walk;

use crate::SolveError;
use alike::{Alike, Member};
use walk::Packed;

/// One alternative of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alternative {
    /// Cost of the alternative. It is below 0 if the alternative is better than none.
    pub cost: f64,
    /// Index of the resource that the alternative uses.
    pub resource: usize,
    /// Used amount of the resource.
    pub amount: u32,
}

/// Multiple-choice knapsack: chooses at most one alternative of each group, with the least total
/// cost within all capacities.
///
/// The solver is a dynamic program over the remaining amount of each resource. Its bounds are
/// Lagrangian multipliers (prices) of the capacities, and a first choice derived from them. Groups
/// with the same single alternative are counted, not searched one by one. The result is exact,
/// unless more states are open than [allowed](Choices::with_width). That limit depends only on the
/// program. A program with one resource is always exact.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Choices {
    capacities: Vec<u32>,
    groups: Vec<Group>,
    width: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Group {
    alternatives: Vec<Alternative>,
    required: Option<usize>,
    suggested: Option<usize>,
}

/// Result of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Index of the chosen alternative of each group, or `None`.
    pub of: Vec<Option<usize>>,
    /// Total cost.
    pub cost: f64,
    /// True if the choice is optimal. False if states had to be dropped.
    pub proven: bool,
}

/// Maximum number of open states in the first search.
const NARROW: usize = 8;
/// Cost differences below this are rounding errors.
const ROUNDING: f64 = 1e-10;

impl Choices {
    /// Creates a program without groups.
    pub fn within(capacities: &[u32]) -> Self {
        Choices {
            capacities: capacities.to_vec(),
            groups: Vec::new(),
            width: 1 << 22,
        }
    }

    /// Sets the limit on the work of the search, in states times groups.
    #[must_use]
    pub fn with_width(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    /// Returns an alternative of a group.
    pub fn alternative(&self, group: usize, alternative: usize) -> Option<Alternative> {
        let group = self.groups.get(group)?;
        group.alternatives.get(alternative).copied()
    }

    /// Changes the alternatives of a group.
    pub fn change(&mut self, group: usize, alternatives: Vec<Alternative>) {
        self.groups[group].alternatives = alternatives;
    }

    /// Adds a group and returns its index.
    pub fn group(&mut self, alternatives: Vec<Alternative>) -> usize {
        self.groups.push(Group {
            alternatives,
            required: None,
            suggested: None,
        });
        self.groups.len() - 1
    }

    /// Requires the group to take this alternative, regardless of its cost.
    pub fn require(&mut self, group: usize, alternative: usize) {
        self.groups[group].required = Some(alternative);
    }

    /// Suggests an alternative of the group, for example the alternative of an earlier choice. If
    /// the suggestions of all groups are a best choice, they are the result.
    pub fn suggest(&mut self, group: usize, alternative: usize) {
        self.groups[group].suggested = Some(alternative);
    }

    /// Returns the best choice. Ties are always broken in the same way: equal groups in their order.
    ///
    /// # Errors
    /// Fails if required alternatives exceed a capacity or are not there.
    pub fn solve(&self) -> Result<Chosen, SolveError> {
        let mut left = self.capacities.clone();
        let unsuited = |why: &str| SolveError::Unsuited {
            solver: "choices",
            why: why.to_owned(),
        };
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
                open.push(OpenGroup::of(i, group, left.len()));
            }
        }
        open.retain(|g| !g.items.is_empty());
        let (open, alike) = alike::bundled(open, &left);
        let mut search = Search::over(open, left);
        let proven = search.run(&mut of, self.width, alike);
        let chosen = of.iter().zip(&self.groups);
        let cost = chosen.filter_map(|(c, g)| Some(g.alternatives[(*c)?].cost));
        Ok(Chosen {
            cost: cost.sum(),
            of,
            proven,
        })
    }
}

/// A group with those alternatives that can be in a best choice.
struct OpenGroup {
    /// Meaning of the choice of an item.
    member: Member,
    /// Alternatives with their indices in the group.
    items: Vec<(usize, Alternative)>,
    /// Index of the suggested item.
    suggested: Option<usize>,
    /// Least cost with multipliers. Taking no alternative costs 0.
    least: f64,
}

impl OpenGroup {
    fn of(index: usize, group: &Group, resources: usize) -> Self {
        let all = &group.alternatives;
        let better = |a: &Alternative, i: usize, b: &Alternative, j: usize| {
            let alike = a.resource == b.resource && a.amount <= b.amount && a.cost <= b.cost;
            alike && (i < j || a.amount < b.amount || a.cost < b.cost)
        };
        let items = all.iter().enumerate().filter(|(j, b)| {
            let useful = b.cost < 0.0 && b.resource < resources;
            useful && !all.iter().enumerate().any(|(i, a)| better(a, i, b, *j))
        });
        let items: Vec<_> = items.map(|(i, a)| (i, *a)).collect();
        let suggested = |(i, _): &(usize, Alternative)| Some(*i) == group.suggested;
        OpenGroup {
            member: Member::Group(index),
            suggested: items.iter().position(suggested),
            items,
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

/// Index of the chosen item of each open group.
type Picked = Vec<Option<usize>>;

struct Search {
    groups: Vec<OpenGroup>,
    left: Vec<u32>,
    price: Vec<f64>,
    /// Lower bound on the cost of every choice.
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

    /// Finds a choice, and sets the alternatives of all groups. Returns true if it is the best.
    fn run(&mut self, of: &mut [Option<usize>], work: usize, mut alike: Vec<Alike>) -> bool {
        let suggested: Picked = self.groups.iter().map(|g| g.suggested).collect();
        let mut picked = Picked::new();
        let mut cost = f64::INFINITY;
        for mut start in [suggested, self.priced_choice()] {
            self.make_fit(&mut start);
            self.improve(&mut start);
            let less = self.cost_of(&start);
            if less < cost - ROUNDING {
                (picked, cost) = (start, less);
            }
            if cost - self.bound <= ROUNDING {
                break;
            }
        }
        let mut width = (work / self.groups.len().max(1)).max(NARROW);
        if let [capacity] = self.left[..] {
            // Each state has another remaining amount.
            width = width.max(capacity as usize + 1);
        }
        let mut proven = cost - self.bound <= ROUNDING;
        for width in [NARROW, width] {
            if proven {
                break;
            }
            let (found, whole) = match Packed::holds(&self.left) {
                true => self.walk::<Packed>(width, cost),
                false => self.walk::<Box<[u32]>>(width, cost),
            };
            proven = whole;
            if let Some((better, less)) = found.filter(|(_, less)| *less < cost - ROUNDING) {
                (picked, cost) = (better, less);
            }
        }
        for (group, item) in self.groups.iter().zip(picked) {
            let Some(item) = item else { continue };
            match group.member {
                Member::Group(index) => of[index] = Some(group.items[item].0),
                Member::Alike(at, count) => alike[at].take(count, of),
            }
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

    /// Returns the least cost over all choices.
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

    /// Returns a pseudo-random program within the capacities.
    fn program(seed: u64, capacities: &[u32]) -> Choices {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        let mut draw = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % n
        };
        let mut p = Choices::within(capacities);
        for _ in 0..6 {
            let alternatives = (0..5).map(|_| Alternative {
                cost: draw(200) as f64 / 100.0 - 1.5,
                resource: draw(capacities.len() as u64) as usize,
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
        // The last two do not fit into a packed state.
        let all: [&[u32]; 3] = [&[6, 4, 8], &[2, 1, 2, 3, 1, 2, 1, 2, 4, 1], &[70_000, 4, 2]];
        for seed in 0..300 {
            let p = program(seed, all[seed as usize % 3]);
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
            let p = program(seed, &[6, 4, 8]).with_width(1);
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
    fn equal_groups_are_counted() {
        // The first are the best for each unit, and fill the capacity.
        let of = |cost, amount| Alternative {
            cost,
            resource: 0,
            amount,
        };
        let mut p = Choices::within(&[128]);
        for _ in 0..1000 {
            p.group(vec![of(-1.0, 4)]);
        }
        for _ in 0..1000 {
            p.group(vec![of(-1.9, 8)]);
        }
        for _ in 0..1000 {
            p.group(vec![of(-2.24, 9)]);
        }
        let best = p.solve().unwrap();
        let counts = [0, 1, 2].map(|k| best.of[k * 1000..][..1000].iter().flatten().count());
        assert_eq!(counts, [32, 0, 0]);
        assert!(best.of[..32].iter().all(Option::is_some), "in order");
        assert!(best.proven);
        let p = |n: usize| {
            let mut p = Choices::within(&[23]);
            for i in 0..n {
                p.group(vec![of([-1.0, -1.45, -2.02][i % 3], [2, 3, 4][i % 3])]);
            }
            p
        };
        for n in 3..10 {
            let best = p(n).solve().unwrap();
            assert!((best.cost - by_trying(&p(n))).abs() < 1e-9, "{n}: {best:?}");
        }
    }

    #[test]
    fn suggestion_is_kept_among_equals() {
        // More groups than fit, which are equal but for a small gain of the suggestions.
        for resources in 1..4 {
            let capacities = vec![100; resources];
            let mut p = Choices::within(&capacities).with_width(1 << 14);
            let all = |least: f64| {
                let of = |resource| Alternative {
                    cost: least,
                    resource,
                    amount: 1,
                };
                (0..resources).map(of).collect::<Vec<_>>()
            };
            let held = |i: usize| (500..500 + 100 * resources).contains(&i);
            for i in 0..1000 {
                let mut alternatives = all(-0.1);
                if held(i) {
                    alternatives[i % resources].cost -= 1e-7;
                }
                let group = p.group(alternatives);
                if held(i) {
                    p.suggest(group, i % resources);
                }
            }
            let best = p.solve().unwrap();
            let kept = best.of.iter().enumerate();
            let kept = kept.filter(|(i, of)| held(*i) && **of == Some(i % resources));
            assert_eq!(kept.count(), 100 * resources, "{resources}");
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
