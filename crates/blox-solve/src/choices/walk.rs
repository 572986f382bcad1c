//! Dynamic program over the remaining amounts of resources.

use super::{Picked, ROUNDING, Search};

/// Remaining amounts of all resources.
pub(super) trait Left: Ord + Clone {
    fn of(left: &[u32]) -> Self;

    fn get(&self, resource: usize) -> u32;

    /// Returns the amounts without `amount` of a resource, which must be there.
    fn less(&self, resource: usize, amount: u32) -> Self;
}

/// Amounts packed into one number, 16 bits for each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Packed(u128);

impl Packed {
    /// Returns whether the amounts can be packed.
    pub fn holds(left: &[u32]) -> bool {
        left.len() <= 8 && left.iter().all(|c| *c <= u32::from(u16::MAX))
    }
}

impl Left for Packed {
    fn of(left: &[u32]) -> Self {
        let parts = left.iter().enumerate();
        Packed(parts.fold(0, |all, (r, c)| all | u128::from(*c) << (16 * r)))
    }

    #[inline]
    fn get(&self, resource: usize) -> u32 {
        u32::from((self.0 >> (16 * resource)) as u16)
    }

    #[inline]
    fn less(&self, resource: usize, amount: u32) -> Self {
        Packed(self.0 - (u128::from(amount) << (16 * resource)))
    }
}

impl Left for Box<[u32]> {
    fn of(left: &[u32]) -> Self {
        left.into()
    }

    fn get(&self, resource: usize) -> u32 {
        self[resource]
    }

    fn less(&self, resource: usize, amount: u32) -> Self {
        let mut left = self.clone();
        left[resource] -= amount;
        left
    }
}

/// A state of the dynamic program.
#[derive(Clone)]
struct Open<L> {
    left: L,
    /// Cost above the bound so far.
    excess: f64,
    parent: u32,
    /// The item, or `NOTHING`.
    item: u32,
}

const NOTHING: u32 = u32::MAX;

impl Search {
    /// Returns the best choice of cost at most `most`, with its cost, and true if no state was
    /// dropped.
    pub(super) fn walk<L: Left>(&self, width: usize, most: f64) -> (Option<(Picked, f64)>, bool) {
        let mut layers: Vec<Vec<(u32, u32)>> = Vec::with_capacity(self.groups.len());
        let mut now = vec![Open {
            left: L::of(&self.left),
            excess: 0.0,
            parent: 0,
            item: NOTHING,
        }];
        let mut next: Vec<Open<L>> = Vec::new();
        let room = most - self.bound + ROUNDING;
        let mut whole = true;
        for group in &self.groups {
            next.clear();
            for (i, state) in now.iter().enumerate() {
                let mut push = |excess: f64, left: L, item: u32| {
                    next.push(Open {
                        left,
                        excess,
                        parent: i as u32,
                        item,
                    });
                };
                let excess = state.excess - group.least;
                if excess <= room {
                    push(excess, state.left.clone(), NOTHING);
                }
                for (k, (_, a)) in group.items.iter().enumerate() {
                    if state.left.get(a.resource) < a.amount {
                        continue;
                    }
                    let price = self.price[a.resource] * f64::from(a.amount);
                    let excess = state.excess + (a.cost + price - group.least);
                    if excess <= room {
                        push(excess, state.left.less(a.resource, a.amount), k as u32);
                    }
                }
            }
            next.sort_unstable_by(|a, b| {
                let by = a.left.cmp(&b.left).then(a.excess.total_cmp(&b.excess));
                by.then(a.parent.cmp(&b.parent)).then(a.item.cmp(&b.item))
            });
            next.dedup_by(|a, b| a.left == b.left);
            if next.len() > width {
                whole = false;
                let by = |a: &Open<L>, b: &Open<L>| {
                    a.excess.total_cmp(&b.excess).then(a.left.cmp(&b.left))
                };
                next.select_nth_unstable_by(width, by);
                next.truncate(width);
                next.sort_unstable_by(|a, b| a.left.cmp(&b.left));
            }
            layers.push(next.iter().map(|s| (s.parent, s.item)).collect());
            std::mem::swap(&mut now, &mut next);
        }
        let total = |s: &Open<L>| {
            let unused = (0..self.left.len()).map(|r| self.price[r] * f64::from(s.left.get(r)));
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
