//! Gavel's round mechanism: turns fractions of time into the jobs of the next round.

use super::instance::{Allocation, Combination, PerType};
use blox_core::{JobId, sort};
use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Chooses the jobs and pairs of each round (Gavel, OSDI 2020, section 5).
///
/// Over many rounds, each gets its fraction of time on each type.
///
/// A row's priority on a type is its fraction divided by the part of that type's time that it
/// received since the last allocation. It is infinite if the row did not run there. The row and
/// type with the greatest priority over all types come first. Ties go to the row that
/// fell furthest behind over all allocations, then to the larger fraction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundMechanism {
    /// Seconds that all rows together received on each type.
    given: PerType,
    rows: Vec<Row>,
}

/// A job or pair in the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    who: Combination,
    gpus: u32,
    /// True for each type on which it can run.
    runs: SmallVec<[bool; 4]>,
    /// Seconds received since the last allocation, by type.
    received: PerType,
    /// Seconds by which the row fell short of its share, by type, over all allocations.
    owed: PerType,
    /// Its fractions; `None` for a row that was added after the last allocation.
    share: Option<PerType>,
}

impl Row {
    fn share_of(&self, kind: usize) -> f64 {
        self.share.as_ref().map_or(0.0, |s| s[kind])
    }
}

/// Fraction below which a share counts as none. Solvers leave tiny fractions on types on which a
/// row should not run.
const NEGLIGIBLE: f64 = 1e-6;

/// Sort entry of a row on a type.
struct Place {
    priority: f64,
    owed: f64,
    share: f64,
    row: usize,
    kind: usize,
}

/// The rows chosen so far for a round.
struct Round {
    busy: FixedBitSet,
    /// Free GPUs of each type.
    left: SmallVec<[u32; 4]>,
    chosen: Vec<(Combination, usize)>,
}

impl Round {
    /// Returns whether none of a row's jobs is busy, and its GPUs are free on a type.
    fn fits(&self, row: &Row, kind: usize) -> bool {
        let mut jobs = row.who.jobs();
        row.gpus <= self.left[kind] && jobs.all(|job| !self.busy.contains(job.index()))
    }

    /// Chooses a row on a type if it fits.
    fn take(&mut self, row: &Row, kind: usize) {
        if self.fits(row, kind) {
            self.left[kind] -= row.gpus;
            for job in row.who.jobs() {
                self.busy.grow_and_insert(job.index());
            }
            self.chosen.push((row.who, kind));
        }
    }
}

impl RoundMechanism {
    /// Creates the mechanism for a number of GPU types.
    pub fn new(types: usize) -> Self {
        RoundMechanism {
            given: SmallVec::from_elem(0.0, types),
            rows: Vec::new(),
        }
    }

    /// Adds a job or pair. `runs` is true for each type on which it can run.
    pub fn add(&mut self, who: Combination, gpus: u32, runs: SmallVec<[bool; 4]>) {
        let none: PerType = SmallVec::from_elem(0.0, self.given.len());
        self.rows.push(Row {
            who,
            gpus,
            runs,
            received: none.clone(),
            owed: none,
            share: None,
        });
    }

    /// Removes a job and all its pairs.
    pub fn remove(&mut self, job: JobId) {
        self.rows.retain(|r| !r.who.has(job));
    }

    /// Starts a new allocation, `elapsed` seconds after the last one. The difference between due
    /// and received time of each row is carried over.
    pub fn reset(&mut self, elapsed: f64, allocation: &Allocation) {
        self.given.fill(0.0);
        for row in &mut self.rows {
            for kind in 0..self.given.len() {
                row.owed[kind] += row.share_of(kind) * elapsed - row.received[kind];
                row.received[kind] = 0.0;
            }
            row.share = allocation.get(row.who).cloned();
        }
    }

    /// Records the seconds that jobs and pairs ran on a type.
    pub fn ran(&mut self, mut all: Vec<(Combination, usize, f64)>) {
        sort::by_key(&mut all, |(who, ..)| *who);
        for row in &mut self.rows {
            let first = all.partition_point(|(who, ..)| *who < row.who);
            let own = all[first..].iter().take_while(|(who, ..)| *who == row.who);
            for (_, kind, seconds) in own {
                row.received[*kind] += seconds;
                self.given[*kind] += seconds;
            }
        }
    }

    /// Returns the jobs and pairs that run next on `free` GPUs of each type, with their types.
    ///
    /// Rows in `kept` stay on their type while GPUs last. The others follow by priority over all
    /// types; a row that does not fit is skipped. If `conserves_work`, rows without a fraction then
    /// take the idle GPUs. Ties and idle GPUs go to the types that come first in `order`.
    pub fn select(
        &self,
        kept: &[(Combination, usize)],
        order: &[usize],
        free: &[u32],
        conserves_work: bool,
    ) -> Vec<(Combination, usize)> {
        let mut round = Round {
            busy: FixedBitSet::new(),
            left: free.into(),
            chosen: Vec::new(),
        };
        for (who, kind) in kept {
            if let Some(row) = self.rows.iter().find(|r| r.who == *who) {
                round.take(row, *kind);
            }
        }
        let mut places = Vec::with_capacity(self.rows.len());
        for &kind in order {
            self.list(&round, kind, true, &mut places);
        }
        self.fill(&mut round, &mut places);
        for &kind in order.iter().filter(|_| conserves_work) {
            places.clear();
            self.list(&round, kind, false, &mut places);
            self.fill(&mut round, &mut places);
        }
        round.chosen
    }

    /// Lists the rows that fit on a type and have a share of it, or have none.
    fn list(&self, round: &Round, kind: usize, shared: bool, into: &mut Vec<Place>) {
        if round.left[kind] == 0 {
            return;
        }
        for (i, row) in self.rows.iter().enumerate() {
            let share = row.share_of(kind);
            if row.runs[kind] && (share > NEGLIGIBLE) == shared && round.fits(row, kind) {
                into.push(Place {
                    priority: self.priority(row, kind),
                    owed: row.owed[kind],
                    share,
                    row: i,
                    kind,
                });
            }
        }
    }

    /// Chooses rows in order of their priority, as long as they fit.
    fn fill(&self, round: &mut Round, places: &mut [Place]) {
        sort::by(places, |a, b| {
            // Solvers return zeros of either sign, which are equal.
            let by = |a: f64, b: f64| (b + 0.0).total_cmp(&(a + 0.0));
            by(a.priority, b.priority)
                .then_with(|| by(a.owed, b.owed))
                .then_with(|| by(a.share, b.share))
        });
        for place in places {
            round.take(&self.rows[place.row], place.kind);
        }
    }

    fn priority(&self, row: &Row, kind: usize) -> f64 {
        let share = row.share_of(kind);
        if share <= NEGLIGIBLE {
            0.0
        } else if row.received[kind] > 0.0 {
            share * self.given[kind] / row.received[kind]
        } else {
            f64::INFINITY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mechanism for jobs of these sizes with the fractions of each type.
    fn rounds(types: usize, jobs: &[(u32, &[f64])]) -> RoundMechanism {
        let mut m = RoundMechanism::new(types);
        let mut rows = Vec::new();
        for (id, (gpus, x)) in (0..).zip(jobs) {
            let who = Combination::single(JobId(id));
            m.add(who, *gpus, SmallVec::from_elem(true, types));
            rows.push((who, PerType::from_slice(x)));
        }
        m.reset(0.0, &Allocation::of(rows));
        m
    }

    fn on(chosen: &[(Combination, usize)]) -> Vec<(u32, usize)> {
        chosen
            .iter()
            .map(|(who, kind)| (who.job.0, *kind))
            .collect()
    }

    #[test]
    fn job_runs_in_one_combination_on_one_type_at_a_time() {
        let mut m = rounds(2, &[(1, &[0.0, 0.0]), (1, &[0.0, 0.0])]);
        let pair = Combination::pair(JobId(1), JobId(0));
        m.add(pair, 1, SmallVec::from_elem(true, 2));
        let x = PerType::from_slice(&[0.9, 0.9]);
        m.reset(0.0, &Allocation::of(vec![(pair, x)]));
        assert_eq!(m.select(&[], &[1, 0], &[1, 1], true), [(pair, 1)]);
    }

    #[test]
    fn job_runs_where_its_fraction_is() {
        let m = rounds(2, &[(1, &[0.0, 1.0]), (1, &[0.0, 0.0])]);
        let chosen = |conserves| on(&m.select(&[], &[0, 1], &[1, 1], conserves));
        assert_eq!(chosen(true), [(0, 1), (1, 0)]);
        assert_eq!(chosen(false), [(0, 1)]);
    }

    #[test]
    fn kept_job_stays_before_all_others() {
        let m = rounds(1, &[(1, &[0.9]), (1, &[0.1])]);
        let kept = [(Combination::single(JobId(1)), 0)];
        assert_eq!(on(&m.select(&kept, &[0], &[1], true)), [(1, 0)]);
    }

    #[test]
    fn what_was_not_received_is_owed() {
        let mut m = rounds(1, &[(1, &[0.5]), (1, &[0.5])]);
        let both = [0, 1].map(|id| Combination::single(JobId(id)));
        m.ran(vec![(both[0], 0, 360.0)]);
        let equal = both.map(|who| (who, PerType::from_slice(&[0.5])));
        m.reset(360.0, &Allocation::of(equal.to_vec()));
        assert_eq!((m.rows[0].owed[0], m.rows[1].owed[0]), (-180.0, 180.0));
        assert_eq!(on(&m.select(&[], &[0], &[1], true)), [(1, 0)]);
    }
}
