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
/// units is computed once, and only as far as it is needed.
///
/// ```
/// use blox_solve::Concave;
/// // Values of 0 to 3 units for two users. The second user's units are twice as large.
/// let values = [[0.0, 3.0, 5.0, 6.0], [0.0, 5.0, 6.0, 6.0]];
/// let value = |user: usize, units: u32| values[user][units as usize];
/// let mut program = Concave::new(5, &[1, 2], 3, &[0, 0], value)?;
/// let best = program.solve(&[])?;
/// assert_eq!(program.units(&best), [3, 1]);
/// assert_eq!((best.gain, best.bound), (11.0, 11.0));
/// let both = program.solve(&[(1, 2)])?; // at least 2 units for user 1
/// assert_eq!(program.units(&both), [1, 2]);
/// # Ok::<(), blox_solve::SolveError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Concave<V> {
    /// Amount that is left after the least units.
    capacity: u64,
    sizes: Vec<u32>,
    /// Maximum number of units of a user.
    most: u32,
    least: Vec<u32>,
    value: V,
    /// Gain of the least units.
    sure: f64,
    smallest: u32,
    /// Users without units in the order, the greatest gain per amount last.
    rest: Vec<(f64, usize)>,
    /// Units in descending order of gain per amount.
    order: Vec<Unit>,
    /// Length of the part of the order that no unit of the rest belongs to.
    known: usize,
    /// Amounts and gains of the first units of the order.
    sums: Vec<(u64, f64)>,
    /// Number of each user in the next two lists, if its gains are known.
    numbers: Vec<Option<usize>>,
    /// Gains of 0 to `most` units together, by number.
    totals: Vec<f64>,
    /// Places of units in the order by number, or `usize::MAX` for the least units and for users of
    /// the rest.
    places: Vec<usize>,
}

/// A unit of a user.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Gain per amount.
    density: f64,
    gain: f64,
    user: usize,
    unit: u32,
}

/// A solution of a [`Concave`] program.
#[derive(Clone, Debug, PartialEq)]
pub struct Units {
    /// Sum of gains.
    pub gain: f64,
    /// Upper bound on the gain of any assignment.
    pub bound: f64,
    /// Raised minimum numbers.
    more: Vec<(usize, u32)>,
    /// Length of the part of the order of which all units are assigned.
    cut: usize,
    /// Users with a further unit.
    further: Vec<usize>,
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
            smallest: sizes.iter().copied().min().unwrap_or(1),
            most,
            least: least.to_vec(),
            value,
            sure: 0.0,
            rest: Vec::with_capacity(sizes.len()),
            order: Vec::new(),
            known: 0,
            sums: vec![(0, 0.0)],
            numbers: vec![None; sizes.len()],
            totals: Vec::new(),
            places: Vec::new(),
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
                this.rest.push((gain / f64::from(this.sizes[user]), user));
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

    /// Returns the number of a user in the lists of totals and places.
    fn number(&mut self, user: usize) -> usize {
        if let Some(number) = self.numbers[user] {
            return number;
        }
        let most = self.most as usize;
        let number = self.totals.len() / (most + 1);
        let mut totals = std::mem::take(&mut self.totals);
        let mut total = 0.0;
        totals.push(total);
        totals.extend(self.gains(user).map(|gain| {
            total += gain;
            total
        }));
        self.totals = totals;
        self.places.resize(self.places.len() + most, usize::MAX);
        self.numbers[user] = Some(number);
        number
    }

    /// Returns the places of a user's units.
    fn places(&self, user: usize) -> &[usize] {
        let most = self.most as usize;
        let own = self.numbers[user].map(|number| number * most);
        own.map_or(&[], |start| &self.places[start..start + most])
    }

    /// Returns the gains of 0 to `most` units of a user together, if they are known.
    fn totals(&self, user: usize) -> &[f64] {
        let most = self.most as usize + 1;
        let own = self.numbers[user].map(|number| number * most);
        own.map_or(&[], |start| &self.totals[start..start + most])
    }

    /// Appends further units to the known part of the order. Returns false if there are none.
    fn extend(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let users = self.order.len() / self.most.max(1) as usize;
        let keep = self.rest.len().saturating_sub(users.max(FIRST_USERS));
        for (_, user) in self.rest.split_off(keep) {
            self.number(user);
            let size = f64::from(self.sizes[user]);
            let units = self.gains(user).zip(0..).skip(self.least[user] as usize);
            let units = units.map(|(gain, unit)| Unit {
                density: gain / size,
                gain,
                user,
                unit,
            });
            let units: Vec<Unit> = units.collect();
            self.order.extend(units);
        }
        self.order[self.known..].sort_unstable_by(|a, b| {
            let by_gain = b.density.total_cmp(&a.density);
            by_gain.then((a.unit, a.user).cmp(&(b.unit, b.user)))
        });
        let next = self.rest.last().map_or(f64::NEG_INFINITY, |rest| rest.0);
        let mut sum = self.sums[self.known];
        for at in self.known..self.order.len() {
            let unit = self.order[at];
            let number = self.number(unit.user);
            self.places[number * self.most as usize + unit.unit as usize] = at;
            let is_known = unit.density > next || self.rest.is_empty();
            if is_known && at == self.known {
                self.known += 1;
                sum.0 += u64::from(self.sizes[unit.user]);
                sum.1 += unit.gain;
                self.sums.push(sum);
            }
        }
        true
    }

    /// Returns the best units. Each user of `more`, in ascending order, gets at least that number,
    /// which is not below its minimum so far.
    ///
    /// # Errors
    /// Fails if the least units do not fit, or exceed the maximum.
    pub fn solve(&mut self, more: &[(usize, u32)]) -> Result<Units, SolveError> {
        let mut left = self.capacity;
        let mut gain = self.sure;
        for (user, units) in more {
            let had = self.least[*user];
            if *units > self.most {
                return Err(SolveError::Infeasible);
            }
            let used = u64::from(units.saturating_sub(had)) * u64::from(self.sizes[*user]);
            left = left.checked_sub(used).ok_or(SolveError::Infeasible)?;
            self.number(*user);
            let totals = self.totals(*user);
            gain += totals[*units as usize] - totals[had as usize];
        }
        let (cut, bound) = loop {
            let (cut, (used, gained)) = self.cut(more, left);
            let free = left - used;
            let all = cut == self.known || self.order[cut].gain <= 0.0;
            if cut < self.known || free == 0 || !self.extend() {
                // If units were divisible, a part of the next one would fit.
                let part = match self.order.get(cut).filter(|_| !all) {
                    Some(next) => next.density * free as f64,
                    None => 0.0,
                };
                gain += gained;
                left = free;
                break (cut, gain + part);
            }
        };
        let mut further: Vec<usize> = Vec::new();
        let mut at = cut;
        while left >= u64::from(self.smallest) {
            if at == self.known && !self.extend() {
                break;
            }
            let Some(unit) = self.order[..self.known].get(at) else {
                continue;
            };
            at += 1;
            if unit.gain <= 0.0 {
                break;
            }
            // If a unit does not fit, the later units of its user do not fit either.
            let size = u64::from(self.sizes[unit.user]);
            if size <= left && !is_forced(more, unit) {
                left -= size;
                gain += unit.gain;
                further.push(unit.user);
            }
        }
        Ok(Units {
            gain,
            bound: bound.max(gain),
            more: more.to_vec(),
            cut,
            further,
        })
    }

    /// Returns the length of the longest part of the order that fits, with its amount and gain.
    /// Forced units are left out.
    fn cut(&self, more: &[(usize, u32)], left: u64) -> (usize, (u64, f64)) {
        let used = |cut: usize| {
            let (mut size, mut gain) = self.sums[cut];
            for (user, units) in more {
                let had = self.least[*user];
                let forced = self.places(*user).get(had as usize..*units as usize);
                let within = forced.map_or(0, |all| all.partition_point(|at| *at < cut));
                let totals = self.totals(*user);
                size -= within as u64 * u64::from(self.sizes[*user]);
                gain -= totals[had as usize + within] - totals[had as usize];
            }
            (size, gain)
        };
        // Units without a gain come last.
        let positive = self.order[..self.known].partition_point(|unit| unit.gain > 0.0);
        let (mut low, mut high) = (0, positive);
        while low < high {
            let middle = high - (high - low) / 2;
            match used(middle).0 <= left {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        (low, used(low))
    }

    /// Returns the number of units of a user.
    pub fn units_of(&self, solution: &Units, user: usize) -> u32 {
        let least = self.least[user].max(forced(&solution.more, user));
        let places = self.places(user).get(least as usize..).unwrap_or(&[]);
        let within = places.partition_point(|at| *at < solution.cut) as u32;
        let further = solution.further.iter().filter(|u| **u == user).count() as u32;
        least + within + further
    }

    /// Returns the number of units of each user.
    pub fn units(&self, solution: &Units) -> Vec<u32> {
        let mut of = self.least.clone();
        for (user, units) in &solution.more {
            of[*user] = of[*user].max(*units);
        }
        let within = self.order[..solution.cut].iter();
        let within = within.filter(|unit| !is_forced(&solution.more, unit));
        within.for_each(|unit| of[unit.user] += 1);
        solution.further.iter().for_each(|user| of[*user] += 1);
        of
    }
}

/// Returns the raised minimum of a user, or 0.
fn forced(more: &[(usize, u32)], user: usize) -> u32 {
    let found = more.binary_search_by_key(&user, |(user, _)| *user);
    found.map_or(0, |at| more[at].1)
}

/// Returns whether a unit is among the raised minimum of its user.
fn is_forced(more: &[(usize, u32)], unit: &Unit) -> bool {
    unit.unit < forced(more, unit.user)
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
        assert_eq!(all.units(&best), [0, 2]);
        assert_eq!(best.gain, 1.5);
        assert_eq!(all.solve(&[(0, 1), (1, 2)]), Err(SolveError::Infeasible));
        assert_eq!(all.solve(&[(0, 3)]), Err(SolveError::Infeasible));
        let mut second = program(4, &users, &[0, 2]).unwrap();
        let best = second.solve(&[]).unwrap();
        assert_eq!((second.units(&best), best.gain), (vec![0, 2], 1.5));
        let infeasible = [[1, 2], [3, 0]].map(|least| program(4, &users, &least).err());
        assert_eq!(infeasible, [const { Some(SolveError::Infeasible) }; 2]);
    }

    #[test]
    fn equal_gains_are_spread_and_zero_gains_are_left() {
        let alike = || user(1, &[1.0, 1.0, 0.0]);
        let users = [alike(), alike()];
        let mut two = program(3, &users, &[]).unwrap();
        let best = two.solve(&[]).unwrap();
        assert_eq!(two.units(&best), [2, 1]);
        let users = [user(1, &[1.0, 0.0, -1.0])];
        let mut one = program(9, &users, &[]).unwrap();
        let best = one.solve(&[]).unwrap();
        assert_eq!(one.units(&best), [1]);
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
                more.sort_unstable();
                let expected = one_by_one(capacity, &users, &least);
                let found = all.solve(&more).ok();
                let units = found.as_ref().map(|found| all.units(found));
                assert_eq!(units, expected, "case {case}");
                if let (Some(found), Some(units)) = (found, units) {
                    let each = (0..users.len()).map(|user| all.units_of(&found, user));
                    assert!(each.eq(units.iter().copied()));
                    let gain = users.iter().zip(&units);
                    let gain = gain.map(|(u, n)| u.1.iter().take(*n as usize).sum::<f64>());
                    assert!((found.gain - gain.sum::<f64>()).abs() < 1e-9);
                }
            }
        }
    }
}
