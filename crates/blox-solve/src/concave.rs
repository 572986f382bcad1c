//! Whole units of one resource, for users with diminishing gains.

use crate::SolveError;

/// A user of [`Concave`].
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// Amount of the resource per unit, at least 1.
    pub size: u32,
    /// Gain of each further unit, in descending order. A larger gain counts as equal to the one
    /// before. The number of gains is the maximum number of units.
    pub gains: Vec<f64>,
}

/// Knapsack with concave gains: assigns units of one resource to users, with the largest sum of
/// gains.
///
/// Units are assigned in descending order of gain per amount, as long as they fit. If all users
/// have the same unit size, the result is optimal. Otherwise it is below the optimum by at most the
/// gain of one unit, and [`Units::bound`] limits the difference. Among units with equal gain per
/// amount, users with fewer units come first, then users with a lower index.
///
/// ```
/// use blox_solve::{Concave, User};
/// let user = |size, gains: &[f64]| User { size, gains: gains.to_vec() };
/// let program = Concave::new(5, vec![user(1, &[3.0, 2.0, 1.0]), user(2, &[5.0, 1.0])]);
/// let best = program.solve(&[0, 0])?;
/// assert_eq!(best.of, [3, 1]);
/// assert_eq!((best.gain, best.bound), (11.0, 11.0));
/// # Ok::<(), blox_solve::SolveError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Concave {
    capacity: u64,
    users: Vec<User>,
    /// Units in descending order of gain per amount, as pairs of user and unit index.
    order: Vec<(usize, u32)>,
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

impl Concave {
    /// Creates a program with this amount of the resource.
    pub fn new(capacity: u64, mut users: Vec<User>) -> Self {
        let mut order = Vec::new();
        for (i, user) in users.iter_mut().enumerate() {
            user.size = user.size.max(1);
            let mut last = f64::INFINITY;
            for (unit, gain) in user.gains.iter_mut().enumerate() {
                *gain = gain.min(last);
                last = *gain;
                order.push((i, unit as u32));
            }
        }
        let density = |(i, unit): &(usize, u32)| {
            let user = &users[*i];
            user.gains[*unit as usize] / f64::from(user.size)
        };
        order.sort_by(|a, b| {
            let by_gain = density(b).total_cmp(&density(a));
            by_gain.then((a.1, a.0).cmp(&(b.1, b.0)))
        });
        Concave {
            capacity,
            users,
            order,
        }
    }

    /// Returns the best units with at least `least` units per user (0 for users without an entry).
    ///
    /// # Errors
    /// Fails if the least units do not fit.
    pub fn solve(&self, least: &[u32]) -> Result<Units, SolveError> {
        let mut of = vec![0; self.users.len()];
        let mut left = self.capacity;
        let mut gain = 0.0;
        for ((user, has), least) in self.users.iter().zip(&mut of).zip(least) {
            let gains = user.gains.get(..*least as usize);
            gain += gains.ok_or(SolveError::Infeasible)?.iter().sum::<f64>();
            let used = u64::from(*least) * u64::from(user.size);
            left = left.checked_sub(used).ok_or(SolveError::Infeasible)?;
            *has = *least;
        }
        for &(i, unit) in &self.order {
            let (user, had) = (&self.users[i], least.get(i).copied().unwrap_or(0));
            let more = user.gains[unit as usize];
            if more <= 0.0 || left == 0 {
                break;
            }
            // The user already has this unit, or an earlier unit did not fit.
            if unit < had || of[i] != unit {
                continue;
            }
            let size = u64::from(user.size);
            if size <= left {
                left -= size;
                gain += more;
                of[i] += 1;
            }
        }
        let bound = gain.max(self.relaxed(least));
        Ok(Units { of, gain, bound })
    }

    /// Returns the largest gain if units were divisible.
    fn relaxed(&self, least: &[u32]) -> f64 {
        let mut left = self.capacity as f64;
        let mut gain = 0.0;
        for (user, least) in self.users.iter().zip(least) {
            gain += user.gains.iter().take(*least as usize).sum::<f64>();
            left -= f64::from(*least) * f64::from(user.size);
        }
        for &(i, unit) in &self.order {
            let (user, had) = (&self.users[i], least.get(i).copied().unwrap_or(0));
            let more = user.gains[unit as usize];
            if more <= 0.0 || left <= 0.0 {
                break;
            }
            if unit >= had {
                let part = (left / f64::from(user.size)).min(1.0);
                gain += more * part;
                left -= f64::from(user.size) * part;
            }
        }
        gain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(size: u32, gains: &[f64]) -> User {
        User {
            size,
            gains: gains.to_vec(),
        }
    }

    #[test]
    fn the_least_units_come_first_and_must_fit() {
        let program = Concave::new(4, vec![user(1, &[9.0, 8.0]), user(2, &[1.0, 0.5])]);
        let best = program.solve(&[0, 2]).unwrap();
        assert_eq!(best.of, [0, 2]);
        assert_eq!(best.gain, 1.5);
        assert_eq!(program.solve(&[1, 2]), Err(SolveError::Infeasible));
        assert_eq!(program.solve(&[3, 0]), Err(SolveError::Infeasible));
    }

    #[test]
    fn equal_gains_are_spread_and_zero_gains_are_left() {
        let alike = user(1, &[1.0, 1.0, 0.0]);
        let program = Concave::new(3, vec![alike.clone(), alike]);
        assert_eq!(program.solve(&[]).unwrap().of, [2, 1]);
        let program = Concave::new(9, vec![user(1, &[1.0, 0.0, -1.0])]);
        assert_eq!(program.solve(&[]).unwrap().of, [1]);
    }

    /// Returns the largest gain over all assignments.
    fn exhaustive(capacity: i64, users: &[User]) -> f64 {
        let Some((first, rest)) = users.split_first() else {
            return 0.0;
        };
        let mut best = f64::NEG_INFINITY;
        let mut gain = 0.0;
        for units in 0..=first.gains.len() {
            let left = capacity - units as i64 * i64::from(first.size);
            if left < 0 {
                break;
            }
            best = best.max(gain + exhaustive(left, rest));
            gain += first.gains.get(units).copied().unwrap_or(0.0);
        }
        best
    }

    #[test]
    fn no_answer_gains_more_than_the_bound() {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let users: Vec<User> = (0..4)
                .map(|_| {
                    let mut gains: Vec<f64> = (0..4).map(|_| draw(50) as f64).collect();
                    gains.sort_by(|a, b| b.total_cmp(a));
                    user(1 << draw(3), &gains)
                })
                .collect();
            let capacity = 1 + draw(16);
            let best = exhaustive(capacity as i64, &users);
            let found = Concave::new(capacity, users.clone()).solve(&[]).unwrap();
            let largest = users.iter().map(|u| u.gains[0]).fold(0.0, f64::max);
            assert!(found.gain <= best + 1e-9 && best <= found.bound + 1e-9);
            assert!(found.gain >= best - largest, "{found:?} {best}");
            if users.iter().all(|u| u.size == 1) {
                assert_eq!(found.gain, best);
            }
        }
    }
}
