//! Prices of capacities, and the resulting bound.

use super::{OpenGroup, Search};

/// Maximum number of sweeps over all prices. [`HALVINGS`] is the maximum number of interval halvings
/// per price: all digits of a number. [`ROUNDS`] is the number of subgradient steps.
const SWEEPS: u32 = 8;
const HALVINGS: u32 = 60;
const ROUNDS: u32 = 40;
/// Relative gain of the bound above which another sweep follows.
const ENOUGH: f64 = 1e-5;

impl Search {
    /// Returns the bound at some prices. Sets the excess over each capacity.
    fn bound_at(&self, price: &[f64], over: &mut [f64]) -> f64 {
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
        bound
    }

    /// Maximises the Lagrangian bound.
    ///
    /// First each price in turn is set to the lowest value at which its capacity suffices.
    /// Subgradient steps follow.
    pub(super) fn find_prices(&mut self) {
        let mut price = self.price.clone();
        let items = || self.groups.iter().flat_map(|g| &g.items);
        let dearest = items().map(|(_, a)| -a.cost / f64::from(a.amount.max(1)));
        let dearest = dearest.fold(0.0, f64::max);
        let mut over = vec![0.0; price.len()];
        let mut best = (self.bound_at(&price, &mut over), price.clone());
        for _ in 0..SWEEPS {
            let before = best.0;
            for r in 0..price.len() {
                let (mut low, mut high) = (0.0, dearest);
                price[r] = 0.0;
                self.bound_at(&price, &mut over);
                if over[r] > 0.0 {
                    for _ in 0..HALVINGS {
                        let middle = 0.5 * (low + high);
                        if middle <= low || middle >= high {
                            break;
                        }
                        price[r] = middle;
                        self.bound_at(&price, &mut over);
                        if over[r] > 0.0 {
                            low = middle;
                        } else {
                            high = middle;
                        }
                        if over[r] == 0.0 {
                            break;
                        }
                    }
                    price[r] = high;
                }
                let bound = self.bound_at(&price, &mut over);
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
            let bound = self.bound_at(&price, &mut over);
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
        // Groups with a clear choice come first, as they open no states.
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
}
