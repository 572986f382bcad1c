//! Round mechanism of the released programs.

use blox_core::{JobId, sort};
use blox_policies::scheduling::gavel::{Allocation, Combination, PerType};
use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

/// Chooses the jobs and pairs of each round as the released programs do.
///
/// Quirks, compared with
/// [`RoundMechanism`](blox_policies::scheduling::gavel::RoundMechanism):
/// - Each row starts with a credit of half a round, as if it had run. So a row that never ran may
///   come after a row that did. A new pair has no credit until the next allocation.
/// - Types are filled one after another, not in the order of priority over all types.
/// - Rows without a fraction take the idle GPUs of a type before the next type is filled.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReleasedRounds {
    /// Seconds that a row counts as received at first: half a round.
    credit: f64,
    /// Seconds that all rows together received on each type.
    given: PerType,
    rows: Vec<Row>,
}

/// A job or pair in the rounds.
#[derive(Clone, Debug, PartialEq)]
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

/// A job or pair that was chosen for a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chosen {
    /// Job or pair.
    pub who: Combination,
    /// GPU type, as an index in the order of names.
    pub kind: usize,
    /// Number of GPUs.
    pub gpus: u32,
    /// True if the last allocation contained it.
    pub known: bool,
}

/// Sort entry of a row on a type.
struct Place {
    priority: f64,
    owed: f64,
    share: f64,
    row: usize,
}

impl ReleasedRounds {
    /// Creates the mechanism for a number of GPU types and rounds of `round` seconds.
    pub fn new(types: usize, round: f64) -> Self {
        ReleasedRounds {
            credit: round / 2.0,
            given: SmallVec::from_elem(0.0, types),
            rows: Vec::new(),
        }
    }

    /// Adds a job or pair. `runs` is true for each type on which it can run.
    pub fn add(&mut self, who: Combination, gpus: u32, runs: SmallVec<[bool; 4]>) {
        let n = self.given.len();
        let credit = if who.partner.is_none() {
            self.credit
        } else {
            0.0
        };
        self.rows.push(Row {
            who,
            gpus,
            runs,
            received: SmallVec::from_elem(credit, n),
            owed: SmallVec::from_elem(0.0, n),
            share: None,
        });
    }

    /// Updates the types on which a job or pair can run.
    pub fn set_runs(&mut self, who: Combination, runs: SmallVec<[bool; 4]>) {
        if let Some(row) = self.rows.iter_mut().find(|r| r.who == who) {
            row.runs = runs;
        }
    }

    /// Removes a job and all its pairs.
    pub fn remove(&mut self, job: JobId) {
        self.rows.retain(|r| !r.who.has(job));
    }

    /// Closes the last allocation, which was valid for `elapsed` seconds. The difference between
    /// due and received time of each row is carried over.
    pub fn settle(&mut self, elapsed: f64) {
        for kind in 0..self.given.len() {
            self.given[kind] = 0.0;
            for row in &mut self.rows {
                let received = row.received[kind] - self.credit;
                let due = row.share.as_ref().map_or(0.0, |s| s[kind] * elapsed);
                row.owed[kind] += due - received;
                row.received[kind] = self.credit;
                self.given[kind] += self.credit;
            }
        }
    }

    /// Sets the new fractions of all rows.
    pub fn install(&mut self, allocation: &Allocation) {
        for row in &mut self.rows {
            row.share = allocation.get(row.who).cloned();
        }
    }

    /// Records that a job or pair ran for `seconds` on a type.
    pub fn ran(&mut self, who: Combination, kind: usize, seconds: f64) {
        if let Some(row) = self.rows.iter_mut().find(|r| r.who == who) {
            row.received[kind] += seconds;
            self.given[kind] += seconds;
        }
    }

    /// Returns the jobs and pairs that run next on `free` GPUs of each type.
    ///
    /// Types are filled in `order`. Within a type, rows are sorted by priority, then by owed time,
    /// then by fraction, then by insertion. If `conserves_work`, rows without a fraction take the
    /// remaining GPUs of the type. If `overtakes`, a row that does not fit is skipped. Otherwise it
    /// ends the selection on all types.
    pub fn select(
        &self,
        order: &[usize],
        free: &[u32],
        conserves_work: bool,
        overtakes: bool,
    ) -> Vec<Chosen> {
        let mut chosen = Vec::new();
        let mut busy = FixedBitSet::new();
        let mut places = Vec::with_capacity(self.rows.len());
        for &kind in order {
            let mut left = free[kind];
            if left == 0 {
                continue;
            }
            let idle = |busy: &FixedBitSet, row: &Row| {
                let mut jobs = row.who.jobs();
                jobs.all(|job| !busy.contains(job.index()))
            };
            places.clear();
            for (i, row) in self.rows.iter().enumerate() {
                if !row.runs[kind] || (overtakes && row.gpus > left) || !idle(&busy, row) {
                    continue;
                }
                let (priority, share) = (self.priority(row, kind), row.share_of(kind));
                if conserves_work || (priority > 0.0 && share > 0.0) {
                    places.push(Place {
                        priority,
                        owed: row.owed[kind],
                        share,
                        row: i,
                    });
                }
            }
            sort::by(&mut places, |a, b| {
                // Solvers return zeros of either sign, which are equal.
                let by = |a: f64, b: f64| (b + 0.0).total_cmp(&(a + 0.0));
                by(a.priority, b.priority)
                    .then_with(|| by(a.owed, b.owed))
                    .then_with(|| by(a.share, b.share))
            });
            for place in &places {
                if left == 0 {
                    break;
                }
                let row = &self.rows[place.row];
                if !idle(&busy, row) {
                    continue;
                }
                if row.gpus <= left {
                    left -= row.gpus;
                    row.who.jobs().for_each(|j| busy.grow_and_insert(j.index()));
                    chosen.push(Chosen {
                        who: row.who,
                        kind,
                        gpus: row.gpus,
                        known: row.share.is_some(),
                    });
                } else if !overtakes {
                    return chosen;
                }
            }
        }
        chosen
    }

    fn priority(&self, row: &Row, kind: usize) -> f64 {
        let share = row.share_of(kind);
        if share == 0.0 || !row.runs[kind] {
            return 0.0;
        }
        let fraction = match self.given[kind] {
            given if given <= 0.0 => 0.0,
            given => row.received[kind] / given,
        };
        if fraction > 0.0 {
            share / fraction
        } else {
            share * 1e9
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mechanism for jobs of these sizes with the fractions of each type.
    fn rounds(types: usize, jobs: &[(u32, &[f64])]) -> ReleasedRounds {
        let mut m = ReleasedRounds::new(types, 360.0);
        let mut rows = Vec::new();
        for (id, (gpus, x)) in (0..).zip(jobs) {
            let who = Combination::single(JobId(id));
            m.add(who, *gpus, SmallVec::from_elem(true, types));
            rows.push((who, PerType::from_slice(x)));
        }
        m.settle(0.0);
        m.install(&Allocation::of(rows));
        m
    }

    fn on(chosen: Vec<Chosen>) -> Vec<(u32, usize)> {
        chosen.iter().map(|c| (c.who.job.0, c.kind)).collect()
    }

    #[test]
    fn row_that_never_ran_waits_for_its_credit_to_shrink() {
        let mut m = rounds(1, &[(1, &[0.9]), (1, &[0.1])]);
        m.ran(Combination::single(JobId(0)), 0, 360.0);
        // 0.9 / 540 is more than 0.1 / 180.
        assert_eq!(on(m.select(&[0], &[1], true, true)), [(0, 0)]);
    }

    #[test]
    fn gang_that_does_not_fit_in_turn_blocks_all_types() {
        let x: &[f64] = &[0.5, 0.5];
        let m = rounds(2, &[(1, x), (4, x), (1, x)]);
        let select = |free: [u32; 2], overtakes| on(m.select(&[0, 1], &free, true, overtakes));
        assert_eq!(select([3, 3], true), [(0, 0), (2, 0)]);
        assert_eq!(select([3, 3], false), [(0, 0)]);
        assert_eq!(select([5, 1], false), [(0, 0), (1, 0), (2, 1)]);
    }

    #[test]
    fn idle_gpu_of_the_first_type_takes_any_row() {
        let m = rounds(2, &[(1, &[0.0, 1.0]), (1, &[0.0, 0.0])]);
        assert_eq!(on(m.select(&[0, 1], &[1, 1], true, true)), [(0, 0), (1, 1)]);
    }
}
