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
/// received since the last allocation. The row with the largest priority runs first. Each row
/// starts with a credit of half a round. Rows that never ran are therefore in order of their
/// fractions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundMechanism {
    /// Seconds that a row counts as received at first: half a round.
    credit: f64,
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

/// A job or pair that was chosen for a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// Job or pair.
    pub who: Combination,
    /// GPU type, as an index in the order of names.
    pub kind: usize,
    /// Number of GPUs.
    pub gpus: u32,
    /// True if the last allocation contained it.
    pub known: bool,
}

/// Fraction below which a share counts as none.
const NEGLIGIBLE: f64 = 1e-6;

/// Sort entry of a row on a type.
struct Place {
    priority: f64,
    owed: f64,
    share: f64,
    row: usize,
}

impl RoundMechanism {
    /// Creates the mechanism for a number of GPU types and rounds of `round` seconds.
    pub fn new(types: usize, round: f64) -> Self {
        RoundMechanism {
            credit: round / 2.0,
            given: SmallVec::from_elem(0.0, types),
            rows: Vec::new(),
        }
    }

    /// Adds a job or pair. `runs` is true for each type on which it can run.
    pub fn add(&mut self, who: Combination, gpus: u32, runs: SmallVec<[bool; 4]>) {
        let n = self.given.len();
        // The released program gives pairs no credit until the next allocation.
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

    /// Updates the GPUs of the jobs that are known, and of their pairs.
    pub(super) fn set_gpus(&mut self, gpus: impl Fn(JobId) -> Option<u32>) {
        for row in &mut self.rows {
            row.gpus = gpus(row.who.job).unwrap_or(row.gpus);
        }
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

    /// Starts a new allocation, `elapsed` seconds after the last one. The difference between due
    /// and received time of each row is carried over.
    pub fn reset(&mut self, elapsed: f64, allocation: &Allocation) {
        self.settle(elapsed);
        self.install(allocation);
    }

    /// Closes the last allocation, which was valid for `elapsed` seconds.
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

    /// Records the run times of several jobs and pairs at once.
    pub fn all_ran(&mut self, mut all: Vec<(Combination, usize, f64)>) {
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

    /// Returns the jobs and pairs that run next on `free` GPUs of each type.
    ///
    /// Types are filled in `order`. Within a type, rows are sorted by priority, then by owed time,
    /// then by fraction, then by insertion. Rows that do not fit are skipped. If `conserves_work`,
    /// rows without a fraction take the remaining GPUs.
    pub fn select(&self, order: &[usize], free: &[u32], conserves_work: bool) -> Vec<Chosen> {
        self.fill(&[], order, free, &[conserves_work], true)
    }

    /// Like [`RoundMechanism::select`], but without overtaking: the first row that does not fit
    /// ends the selection on all types.
    pub fn select_in_turn(
        &self,
        order: &[usize],
        free: &[u32],
        conserves_work: bool,
    ) -> Vec<Chosen> {
        self.fill(&[], order, free, &[conserves_work], false)
    }

    /// Like [`RoundMechanism::select`], with jobs and pairs that stay on their type while GPUs
    /// last.
    ///
    /// Rows without a fraction come last, after all types were filled with rows that have one. So a
    /// job with a share on a cheap type does not take an idle GPU of an expensive type.
    pub fn select_beside(
        &self,
        kept: &[(Combination, usize)],
        order: &[usize],
        free: &[u32],
        conserves_work: bool,
    ) -> Vec<Chosen> {
        let passes = [false, true];
        let passes = &passes[..1 + usize::from(conserves_work)];
        self.fill(kept, order, free, passes, true)
    }

    /// Fills all types once per pass. A pass includes rows without a fraction or not. If
    /// `overtakes` is false, the first row that does not fit ends the selection.
    fn fill(
        &self,
        kept: &[(Combination, usize)],
        order: &[usize],
        free: &[u32],
        passes: &[bool],
        overtakes: bool,
    ) -> Vec<Chosen> {
        let mut chosen = Vec::new();
        let mut busy = FixedBitSet::new();
        let mut rest = free.to_vec();
        for (who, kind) in kept {
            let Some(row) = self.rows.iter().find(|r| r.who == *who) else {
                continue;
            };
            if row.gpus <= rest[*kind] {
                rest[*kind] -= row.gpus;
                who.jobs().for_each(|j| busy.grow_and_insert(j.index()));
                chosen.push(Chosen {
                    who: *who,
                    kind: *kind,
                    gpus: row.gpus,
                    known: row.share.is_some(),
                });
            }
        }
        let mut places = Vec::with_capacity(self.rows.len());
        // Solvers leave tiny fractions on types on which a row should not run.
        let least = if passes.len() > 1 { NEGLIGIBLE } else { 0.0 };
        let turns = passes.iter().flat_map(|p| order.iter().map(|k| (*p, *k)));
        for (conserves_work, kind) in turns {
            let mut left = rest[kind];
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
                if conserves_work || (priority > 0.0 && share > least) {
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
            rest[kind] = left;
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

    fn shares(rows: &[(u32, &[f64])]) -> Allocation {
        let row = |(id, x): &(u32, &[f64])| {
            let who = Combination::single(JobId(*id));
            (who, PerType::from_slice(x))
        };
        Allocation::of(rows.iter().map(row).collect())
    }

    fn run(m: &mut RoundMechanism, free: &[u32], rounds: usize) -> Vec<Vec<u32>> {
        let order: Vec<usize> = (0..free.len()).collect();
        let mut all = Vec::new();
        for _ in 0..rounds {
            let chosen = m.select(&order, free, true);
            m.all_ran(chosen.iter().map(|c| (c.who, c.kind, 360.0)).collect());
            all.push(chosen.iter().map(|c| c.who.job.0).collect());
        }
        all
    }

    #[test]
    fn fractions_are_realised_over_rounds() {
        let mut m = RoundMechanism::new(1, 360.0);
        for id in 0..3 {
            m.add(
                Combination::single(JobId(id)),
                1,
                SmallVec::from_elem(true, 1),
            );
        }
        m.reset(0.0, &shares(&[(0, &[0.5]), (1, &[0.25]), (2, &[0.25])]));
        let ran: Vec<u32> = run(&mut m, &[1], 40).concat();
        let count = |id| ran.iter().filter(|r| **r == id).count();
        assert_eq!([0, 1, 2].map(count), [20, 10, 10]);
        assert_eq!(ran[..4], [0, 1, 2, 0]);
    }

    #[test]
    fn select_before_any_row_ran_is_by_fraction() {
        let mut m = RoundMechanism::new(1, 360.0);
        for id in 0..3 {
            let who = Combination::single(JobId(id));
            m.add(who, 1, SmallVec::from_elem(true, 1));
        }
        m.install(&shares(&[(0, &[0.25]), (1, &[0.0]), (2, &[0.75])]));
        let chosen = m.select(&[0], &[2], false);
        let jobs: Vec<u32> = chosen.iter().map(|c| c.who.job.0).collect();
        assert_eq!(jobs, [2, 0]);
    }

    #[test]
    fn gang_waits_for_all_gpus_and_others_fill_the_gap() {
        let mut m = RoundMechanism::new(1, 360.0);
        for (id, gpus) in [(0, 1), (1, 4), (2, 1)] {
            m.add(
                Combination::single(JobId(id)),
                gpus,
                SmallVec::from_elem(true, 1),
            );
        }
        m.reset(0.0, &shares(&[(0, &[1.0]), (1, &[0.5]), (2, &[0.1])]));
        assert_eq!(run(&mut m, &[4], 3), [vec![0, 2], vec![1], vec![0, 2]]);
    }

    #[test]
    fn in_turn_no_job_overtakes_a_gang_that_does_not_fit() {
        let mut m = RoundMechanism::new(2, 360.0);
        for (id, gpus) in [(0, 1), (1, 4), (2, 1)] {
            let runs = SmallVec::from_elem(true, 2);
            m.add(Combination::single(JobId(id)), gpus, runs);
        }
        let x: &[f64] = &[0.5, 0.5];
        m.reset(0.0, &shares(&[(0, x), (1, x), (2, x)]));
        let ids =
            |chosen: Vec<Chosen>| -> Vec<u32> { chosen.iter().map(|c| c.who.job.0).collect() };
        let free = [3, 3];
        assert_eq!(ids(m.select(&[0, 1], &free, true)), [0, 2]);
        // The gang also blocks the job on the other type.
        assert_eq!(ids(m.select_in_turn(&[0, 1], &free, true)), [0]);
        assert_eq!(ids(m.select_in_turn(&[0, 1], &[5, 1], true)), [0, 1, 2]);
    }

    #[test]
    fn job_runs_in_one_combination_on_one_type_at_a_time() {
        let mut m = RoundMechanism::new(2, 360.0);
        let pair = Combination::pair(JobId(1), JobId(0));
        for who in [
            Combination::single(JobId(0)),
            Combination::single(JobId(1)),
            pair,
        ] {
            m.add(who, 1, SmallVec::from_elem(true, 2));
        }
        let x = PerType::from_slice(&[0.9, 0.9]);
        m.reset(0.0, &Allocation::of(vec![(pair, x)]));
        let chosen = m.select(&[1, 0], &[1, 1], true);
        assert_eq!(chosen.len(), 1);
        assert_eq!((chosen[0].who, chosen[0].kind), (pair, 1));
    }

    #[test]
    fn beside_others_a_job_runs_where_its_fraction_is() {
        let mut m = RoundMechanism::new(2, 360.0);
        for id in 0..2 {
            let who = Combination::single(JobId(id));
            m.add(who, 1, SmallVec::from_elem(true, 2));
        }
        m.reset(0.0, &shares(&[(0, &[0.0, 1.0]), (1, &[0.0, 0.0])]));
        let on = |chosen: Vec<Chosen>| -> Vec<(u32, usize)> {
            chosen.iter().map(|c| (c.who.job.0, c.kind)).collect()
        };
        // The released program fills types in turn, so the idle first type takes the job.
        assert_eq!(on(m.select(&[0, 1], &[1, 1], true)), [(0, 0), (1, 1)]);
        let beside = |conserves| on(m.select_beside(&[], &[0, 1], &[1, 1], conserves));
        assert_eq!(beside(true), [(0, 1), (1, 0)]);
        assert_eq!(beside(false), [(0, 1)]);
    }

    #[test]
    fn what_was_not_received_is_owed() {
        let mut m = RoundMechanism::new(1, 360.0);
        for id in 0..2 {
            m.add(
                Combination::single(JobId(id)),
                1,
                SmallVec::from_elem(true, 1),
            );
        }
        let equal = shares(&[(0, &[0.5]), (1, &[0.5])]);
        m.reset(0.0, &equal);
        m.ran(Combination::single(JobId(0)), 0, 360.0);
        m.reset(360.0, &equal);
        assert_eq!(m.rows[0].owed[0], -180.0);
        assert_eq!(m.rows[1].owed[0], 180.0);
        assert_eq!(run(&mut m, &[1], 1), [vec![1]]);
    }
}
