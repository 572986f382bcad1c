//! Whole units of one resource, for users with diminishing gains.

use crate::SolveError;

/// Knapsack with concave gains: assigns units of one resource to users, with the largest sum of
/// gains.
///
/// Units are assigned in descending order of gain per amount, as long as they fit. If all users
/// have the same unit size, the result is optimal. Otherwise it is below the optimum by at most the
/// gain of one unit, and [`Units::bound`] limits the difference. Among units with equal gain per
/// amount, users with fewer units come first, then users with a lower index.
///
/// A program can be solved for many [minimum numbers](Concave::solve) of units. The order of the
/// units is computed once, and only as much of it as is needed.
///
/// ```
/// use blox_solve::Concave;
/// // Values of 0 to 3 units for two users. The second user's units are twice as large.
/// let values = [[0.0, 3.0, 5.0, 6.0], [0.0, 5.0, 6.0, 6.0]];
/// let value = |user: usize, units: u32| values[user][units as usize];
/// let mut program = Concave::new(5, &[1, 2], 3, &[0, 0], value)?;
/// let best = program.solve(&[])?;
/// assert_eq!(best.of, [3, 1]);
/// assert_eq!((best.gain, best.bound), (11.0, 11.0));
/// assert_eq!(program.solve(&[(1, 2)])?.of, [1, 2]); // at least 2 units for user 1
/// # Ok::<(), blox_solve::SolveError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Concave<V> {
    /// Amount that is left after the least units.
    capacity: u64,
    sizes: Vec<u32>,
    smallest: u64,
    /// Maximum number of units of a user.
    most: u32,
    least: Vec<u32>,
    value: V,
    /// Gain of the least units.
    sure: f64,
    /// Users without units in the order, the greatest gain per amount last.
    rest: Vec<(f64, u32)>,
    /// Units in descending order of gain per amount.
    order: Vec<Unit>,
    /// Length of the part of the order that no unit of the rest belongs to.
    known: usize,
    /// Start of the totals of each user, if they are known.
    starts: Vec<Option<usize>>,
    /// Gains of 0 to `most` units of a user together.
    totals: Vec<f64>,
}

/// A unit of a user.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Gain per amount.
    density: f64,
    gain: f64,
    user: u32,
    unit: u32,
    size: u32,
}

/// Units of all users.
#[derive(Clone, Debug, PartialEq)]
pub struct Units {
    /// Units of each user.
    pub of: Vec<u32>,
    /// Sum of gains.
    pub gain: f64,
    /// Upper bound on the gain of any assignment.
    pub bound: f64,
}

/// Number of users whose units are added to the order at first.
const FIRST_USERS: usize = 32;

impl<V: Fn(usize, u32) -> f64> Concave<V> {
    /// Creates a program with an amount of the resource.
    ///
    /// A user has a unit size, at least 1, and a minimum number of units. It gets at most `most`
    /// units. `value` returns the value of a number of units for a user. A further unit must not
    /// gain more than the one before; otherwise it counts as equal.
    ///
    /// # Errors
    /// Fails if the least units do not fit, or exceed the maximum.
    pub fn new(
        capacity: u64,
        sizes: &[u32],
        most: u32,
        least: &[u32],
        value: V,
    ) -> Result<Self, SolveError> {
        let sizes: Vec<u32> = sizes.iter().map(|size| (*size).max(1)).collect();
        let mut this = Concave {
            capacity,
            smallest: u64::from(sizes.iter().copied().min().unwrap_or(1)),
            most,
            least: least.to_vec(),
            value,
            sure: 0.0,
            rest: Vec::with_capacity(sizes.len()),
            order: Vec::new(),
            known: 0,
            starts: vec![None; sizes.len()],
            totals: Vec::new(),
            sizes,
        };
        this.least.resize(this.sizes.len(), 0);
        for user in 0..this.sizes.len() {
            let least = this.least[user];
            if least > most {
                return Err(SolveError::Infeasible);
            }
            let used = u64::from(least) * u64::from(this.sizes[user]);
            let left = this.capacity.checked_sub(used);
            this.capacity = left.ok_or(SolveError::Infeasible)?;
            let mut gains = this.gains(user);
            let sure: f64 = gains.by_ref().take(least as usize).sum();
            let next = gains.next();
            drop(gains);
            this.sure += sure;
            if let Some(gain) = next {
                let density = gain / f64::from(this.sizes[user]);
                this.rest.push((density, user as u32));
            }
        }
        this.rest
            .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        Ok(this)
    }

    /// Returns the gains of a user's units.
    fn gains(&self, user: usize) -> impl Iterator<Item = f64> + '_ {
        let mut before = (self.value)(user, 0);
        let mut last = f64::INFINITY;
        (0..self.most).map(move |unit| {
            let value = (self.value)(user, unit + 1);
            last = (value - before).min(last);
            before = value;
            last
        })
    }

    /// Returns the gain of a user's units from a first number to a last.
    fn gain(&mut self, user: usize, first: u32, last: u32) -> f64 {
        let start = match self.starts[user] {
            Some(start) => start,
            None => {
                let mut totals = std::mem::take(&mut self.totals);
                let start = totals.len();
                let mut total = 0.0;
                totals.push(total);
                totals.extend(self.gains(user).map(|gain| {
                    total += gain;
                    total
                }));
                self.totals = totals;
                self.starts[user] = Some(start);
                start
            }
        };
        self.totals[start + last as usize] - self.totals[start + first as usize]
    }

    /// Appends further units to the known part of the order. Returns false if there are none.
    fn extend(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let users = self.order.len() / self.most.max(1) as usize;
        let keep = self.rest.len().saturating_sub(users.max(FIRST_USERS));
        let mut order = std::mem::take(&mut self.order);
        for (_, user) in self.rest.split_off(keep) {
            let (size, least) = (self.sizes[user as usize], self.least[user as usize]);
            let units = self.gains(user as usize).zip(0..).skip(least as usize);
            order.extend(units.map(|(gain, unit)| Unit {
                density: gain / f64::from(size),
                gain,
                user,
                unit,
                size,
            }));
        }
        order[self.known..].sort_unstable_by(|a, b| {
            let by_gain = b.density.total_cmp(&a.density);
            by_gain.then((a.unit, a.user).cmp(&(b.unit, b.user)))
        });
        self.known = match self.rest.last() {
            None => order.len(),
            Some((next, _)) => order.partition_point(|unit| unit.density > *next),
        };
        self.order = order;
        true
    }

    /// Returns the best units. Each user of `more` gets at least that number, which is not below
    /// its minimum.
    ///
    /// # Errors
    /// Fails if the least units do not fit, or exceed the maximum.
    pub fn solve(&mut self, more: &[(usize, u32)]) -> Result<Units, SolveError> {
        let mut of = self.least.clone();
        let mut left = self.capacity;
        let mut gain = self.sure;
        for (user, units) in more {
            if *units > self.most {
                return Err(SolveError::Infeasible);
            }
            let had = std::mem::replace(&mut of[*user], *units);
            let used = u64::from(units.saturating_sub(had)) * u64::from(self.sizes[*user]);
            left = left.checked_sub(used).ok_or(SolveError::Infeasible)?;
            gain += self.gain(*user, had, *units);
        }
        let mut bound = None;
        let mut at = 0;
        while left > 0 && (left >= self.smallest || bound.is_none()) {
            if at == self.known {
                match self.extend() {
                    true => continue,
                    false => break,
                }
            }
            let unit = &self.order[at];
            at += 1;
            if unit.gain <= 0.0 {
                break;
            }
            // The user already has this unit, or an earlier unit did not fit.
            let has = &mut of[unit.user as usize];
            if *has != unit.unit {
                continue;
            }
            if u64::from(unit.size) <= left {
                left -= u64::from(unit.size);
                gain += unit.gain;
                *has += 1;
            } else if bound.is_none() {
                // If units were divisible, a part of this one would fit.
                bound = Some(gain + unit.density * left as f64);
            }
        }
        let bound = bound.map_or(gain, |bound| gain.max(bound));
        Ok(Units { of, gain, bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user: size of a unit, and gains.
    type User = (u32, Vec<f64>);

    fn program(
        capacity: u64,
        users: &[User],
        least: &[u32],
    ) -> Result<Concave<impl Fn(usize, u32) -> f64>, SolveError> {
        let sizes: Vec<u32> = users.iter().map(|user| user.0).collect();
        let most = users.iter().map(|user| user.1.len()).max().unwrap_or(0);
        let value = |user: usize, units: u32| users[user].1.iter().take(units as usize).sum();
        Concave::new(capacity, &sizes, most as u32, least, value)
    }

    fn user(size: u32, gains: &[f64]) -> User {
        (size, gains.to_vec())
    }

    #[test]
    fn the_least_units_come_first_and_must_fit() {
        let users = [user(1, &[9.0, 8.0]), user(2, &[1.0, 0.5])];
        let mut all = program(4, &users, &[0, 0]).unwrap();
        let best = all.solve(&[(1, 2)]).unwrap();
        assert_eq!((best.of, best.gain), (vec![0, 2], 1.5));
        assert_eq!(all.solve(&[(0, 1), (1, 2)]), Err(SolveError::Infeasible));
        assert_eq!(all.solve(&[(0, 3)]), Err(SolveError::Infeasible));
        let mut second = program(4, &users, &[0, 2]).unwrap();
        let best = second.solve(&[]).unwrap();
        assert_eq!((best.of, best.gain), (vec![0, 2], 1.5));
        let infeasible = [[1, 2], [3, 0]].map(|least| program(4, &users, &least).err());
        assert_eq!(infeasible, [const { Some(SolveError::Infeasible) }; 2]);
    }

    #[test]
    fn equal_gains_are_spread_and_zero_gains_are_left() {
        let alike = || user(1, &[1.0, 1.0, 0.0]);
        let users = [alike(), alike()];
        let mut two = program(3, &users, &[]).unwrap();
        assert_eq!(two.solve(&[]).unwrap().of, [2, 1]);
        let users = [user(1, &[1.0, 0.0, -1.0])];
        let mut one = program(9, &users, &[]).unwrap();
        assert_eq!(one.solve(&[]).unwrap().of, [1]);
    }

    /// Returns the largest gain over all assignments.
    fn exhaustive(capacity: i64, users: &[User]) -> f64 {
        let Some((first, rest)) = users.split_first() else {
            return 0.0;
        };
        let mut best = f64::NEG_INFINITY;
        let mut gain = 0.0;
        for units in 0..=first.1.len() {
            let left = capacity - units as i64 * i64::from(first.0);
            if left < 0 {
                break;
            }
            best = best.max(gain + exhaustive(left, rest));
            gain += first.1.get(units).copied().unwrap_or(0.0);
        }
        best
    }

    /// Assigns unit by unit over all units of all users.
    fn one_by_one(capacity: u64, users: &[User], least: &[u32]) -> Option<Vec<u32>> {
        let mut of = least.to_vec();
        let used = users.iter().zip(least).map(|(u, n)| u64::from(u.0 * n));
        let mut left = capacity.checked_sub(used.sum())?;
        let mut order: Vec<(usize, u32)> = Vec::new();
        for (i, user) in users.iter().enumerate() {
            order.extend((least[i]..user.1.len() as u32).map(|unit| (i, unit)));
        }
        let density = |(i, unit): (usize, u32)| users[i].1[unit as usize] / f64::from(users[i].0);
        order.sort_by(|a, b| {
            let by_gain = density(*b).total_cmp(&density(*a));
            by_gain.then((a.1, a.0).cmp(&(b.1, b.0)))
        });
        for (i, unit) in order {
            let size = u64::from(users[i].0);
            if users[i].1[unit as usize] > 0.0 && of[i] == unit && size <= left {
                left -= size;
                of[i] += 1;
            }
        }
        Some(of)
    }

    struct Draw(u64);

    impl Draw {
        fn below(&mut self, below: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % below
        }

        fn users(&mut self, count: u64, most: u64) -> Vec<User> {
            let mut one = || {
                let mut gains: Vec<f64> = (0..most).map(|_| self.below(50) as f64).collect();
                gains.sort_by(|a, b| b.total_cmp(a));
                (1 << self.below(3), gains)
            };
            (0..count).map(|_| one()).collect()
        }
    }

    #[test]
    fn no_answer_gains_more_than_the_bound() {
        let mut draw = Draw(1);
        for _ in 0..200 {
            let users = draw.users(4, 4);
            let capacity = 1 + draw.below(16);
            let best = exhaustive(capacity as i64, &users);
            let found = program(capacity, &users, &[]).unwrap().solve(&[]).unwrap();
            let largest = users.iter().map(|u| u.1[0]).fold(0.0, f64::max);
            assert!(found.gain <= best + 1e-9 && best <= found.bound + 1e-9);
            assert!(found.gain >= best - largest, "{found:?} {best}");
            if users.iter().all(|u| u.0 == 1) {
                assert_eq!(found.gain, best);
            }
        }
    }

    #[test]
    fn solve_of_many_users_equals_one_by_one() {
        let mut draw = Draw(5);
        for case in 0..200 {
            // More users than the order has at first.
            let (count, most) = (1 + draw.below(150), 1 + draw.below(5));
            let users = draw.users(count, most);
            let capacity = draw.below(3 * count * most);
            let mut all = program(capacity, &users, &[]).unwrap();
            for _ in 0..5 {
                let mut least = vec![0; users.len()];
                let mut more = Vec::new();
                for _ in 0..draw.below(4) {
                    let user = draw.below(count) as usize;
                    if least[user] == 0 {
                        least[user] = 1 + draw.below(most) as u32;
                        more.push((user, least[user]));
                    }
                }
                let expected = one_by_one(capacity, &users, &least);
                let found = all.solve(&more).ok();
                let units = found.as_ref().map(|found| found.of.clone());
                assert_eq!(units, expected, "case {case}");
                if let Some(found) = found {
                    let gain = users.iter().zip(&found.of);
                    let gain = gain.map(|(u, n)| u.1.iter().take(*n as usize).sum::<f64>());
                    assert!((found.gain - gain.sum::<f64>()).abs() < 1e-9);
                }
            }
        }
    }
}
