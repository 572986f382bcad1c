//! First choice: the choice at the prices, made feasible and improved.

use super::{OpenGroup, ROUNDING, Search};

impl Search {
    /// Returns the best alternative of every group at the prices.
    pub(super) fn priced_choice(&self) -> Vec<Option<usize>> {
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

    /// Returns the amount that an alternative uses of a resource.
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

    /// Returns true if a group can change to an alternative with these free amounts.
    fn fits(&self, free: &[i64], group: usize, now: Option<usize>, to: Option<usize>) -> bool {
        let Some(i) = to else { return true };
        let new = &self.groups[group].items[i].1;
        i64::from(new.amount) <= free[new.resource] + self.used(group, now, new.resource)
    }

    /// Makes the choice feasible. Each change has the least cost per freed amount of an exceeded
    /// capacity.
    pub(super) fn make_fit(&self, picked: &mut [Option<usize>]) {
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

    /// Changes single groups as long as this improves the cost.
    pub(super) fn improve(&self, picked: &mut [Option<usize>]) {
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
}
