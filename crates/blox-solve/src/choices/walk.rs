//! Dynamic program over the remaining amounts of resources.

use super::{Picked, ROUNDING, Search};

/// A state of the dynamic program.
#[derive(Clone, Copy)]
struct Open {
    /// Remaining amounts of all resources, packed into one number.
    left: u128,
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
    pub(super) fn walk(&self, width: usize, most: f64) -> (Option<(Picked, f64)>, bool) {
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
