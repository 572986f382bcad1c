//! Waiting jobs whose keys change at constant rates, in order.

use crate::ids::JobId;
use crate::job::JobRef;
use crate::order::{Entry, RateFn};
use crate::units::Time;

/// Allowed relative error of keys: a few hundred times the error of a sum and a quotient.
const ERROR: f64 = 1e-13;

/// A tournament of waiting jobs. The winner of a match is the job with the smaller key, and stays
/// the winner until a time that the rates of both keys determine. So a decision plays again only
/// the matches whose time is over, and the matches of changed jobs.
///
/// Keys are extrapolated. If extrapolated keys are too near to each other, the present keys are
/// compared. The order therefore equals a sorted list at each time, and does not depend on earlier
/// decisions.
#[derive(Clone, Default)]
pub(super) struct Aging {
    /// Jobs by place. The number of places is a power of two.
    jobs: Vec<Option<Player>>,
    vacant: Vec<u32>,
    /// Matches as a heap: the match `i` is between the winners of `2 i` and `2 i + 1`. The places
    /// follow the matches, and the first one is unused.
    matches: Vec<Match>,
}

/// A waiting job.
#[derive(Clone, Copy)]
pub(super) struct Player {
    pub job: JobId,
    /// Stamp of its entry.
    pub stamp: u32,
    /// False if its key, or the change of the key, is NaN.
    pub has_numbers: bool,
    line: Line,
}

impl Player {
    /// Creates a waiting job with its present entry.
    pub fn of(job: &JobRef<'_>, entry: Entry, rate: &RateFn, now: Time) -> Self {
        let rate = rate(job);
        Player {
            job: job.id(),
            stamp: entry.stamp(),
            has_numbers: entry.is_a_number() && !rate.is_nan(),
            line: Line::through(&entry, rate, now),
        }
    }

    /// Returns the first number of the key by its rate, and the present one, if they differ by more
    /// than rounding errors. A present key of another class differs, too.
    pub fn deviation(&self, entry: &Entry, now: Time) -> Option<(f64, f64)> {
        let (class, found) = entry.class_and_first();
        let (expected, error) = self.line.at(now.secs());
        let differs = (found - expected).abs() > error || class != self.line.class;
        differs.then_some((expected, found))
    }
}

/// The first number of a key as a function of time.
#[derive(Clone, Copy)]
struct Line {
    start: f64,
    rate: f64,
    /// Class of the key.
    class: u32,
}

impl Line {
    fn through(entry: &Entry, rate: f64, now: Time) -> Self {
        let (class, first) = entry.class_and_first();
        let start = first - rate * now.secs();
        Line { start, rate, class }
    }

    /// Returns the value at a time, and its largest error.
    #[inline]
    fn at(&self, now: f64) -> (f64, f64) {
        let gained = self.rate * now;
        let error = ERROR * (self.start.abs() + gained.abs());
        (self.start + gained, error)
    }
}

#[derive(Clone, Copy)]
struct Match {
    winner: Winner,
    /// Last time at which each result below and including this one is certain.
    until: f64,
}

/// The winner of a match, or the job of a place.
#[derive(Clone, Copy)]
struct Winner {
    line: Line,
    /// Place of the job; [`NOBODY`] if no job takes part.
    place: u32,
}

const NOBODY: Winner = Winner {
    line: Line {
        start: 0.0,
        rate: 0.0,
        class: 0,
    },
    place: u32::MAX,
};

/// Returns the present entry of a job, and `None` if the job has left. All calls are for one time.
pub(super) trait Keys: Fn(&Player) -> Option<Entry> {}

impl<F: Fn(&Player) -> Option<Entry>> Keys for F {}

impl Aging {
    /// Returns all jobs.
    pub fn iter(&self) -> impl Iterator<Item = &Player> {
        self.jobs.iter().flatten()
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.jobs.len() - self.vacant.len()
    }

    /// Replaces all jobs. `keys` is for the time `now`.
    pub fn fill(&mut self, jobs: Vec<Player>, now: Time, keys: &impl Keys) {
        let places = jobs.len().next_power_of_two();
        self.jobs = jobs.into_iter().map(Some).collect();
        self.vacant = (self.jobs.len()..places).rev().map(|p| p as u32).collect();
        self.jobs.resize(places, None);
        let unplayed = Match {
            winner: NOBODY,
            until: f64::INFINITY,
        };
        self.matches = vec![unplayed; places];
        for i in (1..places).rev() {
            self.play(i, now, keys);
        }
    }

    /// Adds jobs.
    pub fn insert(&mut self, players: Vec<Player>, now: Time, keys: &impl Keys) {
        if players.len() > self.vacant.len() {
            let all = self.iter().copied().chain(players);
            return self.fill(all.collect(), now, keys);
        }
        let mut changed = Vec::with_capacity(players.len());
        for player in players {
            if let Some(place) = self.vacant.pop() {
                self.jobs[place as usize] = Some(player);
                changed.push(self.matches.len() + place as usize);
            }
        }
        // Each match once, though several of its jobs are new.
        changed.sort_unstable();
        while changed.first().is_some_and(|i| *i > 1) {
            changed.iter_mut().for_each(|i| *i /= 2);
            changed.dedup();
            for &i in &changed {
                self.play(i, now, keys);
            }
        }
    }

    /// Removes the first job and returns its entry.
    pub fn pop(&mut self, now: Time, keys: &impl Keys) -> Option<Entry> {
        while self.len() > 0 {
            self.refresh(1, now, keys);
            let place = self.winner(1).place;
            let player = self.jobs.get_mut(place as usize)?.take();
            self.vacant.push(place);
            let mut i = (self.matches.len() + place as usize) / 2;
            while i > 0 {
                self.play(i, now, keys);
                i /= 2;
            }
            if let Some(player) = player
                && let Some(entry) = keys(&player)
            {
                return Some(entry.with_stamp(player.stamp));
            }
        }
        None
    }

    /// Plays the matches whose time is over.
    fn refresh(&mut self, i: usize, now: Time, keys: &impl Keys) {
        let over = self.matches.get(i).is_some_and(|m| m.until < now.secs());
        if over {
            self.refresh(2 * i, now, keys);
            self.refresh(2 * i + 1, now, keys);
            self.play(i, now, keys);
        }
    }

    /// Returns the winner of a match, or the job of the place that takes part without one.
    #[inline]
    fn winner(&self, i: usize) -> Winner {
        if let Some(played) = self.matches.get(i) {
            return played.winner;
        }
        let place = i - self.matches.len();
        self.jobs[place].map_or(NOBODY, |player| Winner {
            line: player.line,
            place: place as u32,
        })
    }

    #[inline]
    fn play(&mut self, i: usize, now: Time, keys: &impl Keys) {
        let until = |i: usize| self.matches.get(i).map_or(f64::INFINITY, |m| m.until);
        let below = until(2 * i).min(until(2 * i + 1));
        let (a, b) = (self.winner(2 * i), self.winner(2 * i + 1));
        let (winner, certain) = match (a.place, b.place) {
            (_, place) if place == NOBODY.place => (a, f64::INFINITY),
            (place, _) if place == NOBODY.place => (b, f64::INFINITY),
            _ => self.between(a, b, now, keys),
        };
        self.matches[i] = Match {
            winner,
            until: below.min(certain),
        };
    }

    /// Returns the winner of a match between two jobs, and the last time at which this is certain.
    #[inline]
    fn between(&self, a: Winner, b: Winner, now: Time, keys: &impl Keys) -> (Winner, f64) {
        if a.line.class != b.line.class {
            let first = if a.line.class < b.line.class { a } else { b };
            return (first, f64::INFINITY);
        }
        let ((value_a, error_a), (value_b, error_b)) =
            (a.line.at(now.secs()), b.line.at(now.secs()));
        let (first, second) = if value_a < value_b { (a, b) } else { (b, a) };
        let gap = (value_a - value_b).abs() - (error_a + error_b);
        // A key that is no number is compared too.
        if gap.is_nan() || gap <= 0.0 {
            // A job that has left hides others until it is removed, so it comes first.
            let [key_a, key_b] = [a, b].map(|side| {
                let player = self.jobs[side.place as usize].as_ref();
                player.and_then(keys).unwrap_or(Entry::FIRST)
            });
            let constant = a.line.rate == 0.0 && b.line.rate == 0.0;
            let until = if constant { f64::INFINITY } else { now.secs() };
            return (if key_a < key_b { a } else { b }, until);
        }
        let (rate_a, rate_b) = (first.line.rate, second.line.rate);
        let closes = (rate_a - rate_b) + ERROR * (rate_a.abs() + rate_b.abs());
        if closes > 0.0 {
            let until = now.secs() + gap / closes;
            (first, until - ERROR * until)
        } else {
            (first, f64::INFINITY)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::SortKey;

    /// Jobs with keys `start + rate * time`; a job that has left has no start.
    struct Lines(Vec<(f64, f64)>);

    impl Lines {
        fn key(&self, now: f64) -> impl Fn(&Player) -> Option<Entry> {
            move |player| {
                let (start, rate) = self.0[player.job.index()];
                let entry = Entry::new(SortKey::by(start + rate * now), player.job);
                (!start.is_nan()).then_some(entry)
            }
        }

        fn player(&self, job: usize) -> Player {
            let (start, rate) = self.0[job];
            let (job, stamp, class) = (JobId(job as u32), 7, 1 << 31);
            let line = Line { start, rate, class };
            let has_numbers = true;
            Player {
                job,
                stamp,
                has_numbers,
                line,
            }
        }
    }

    #[test]
    fn jobs_come_in_the_order_of_their_present_keys() {
        let mut x = 1u64;
        let mut random = move |below: u64| {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (x >> 33) % below
        };
        for case in 0..60 {
            let mut lines = Lines(Vec::new());
            let mut aging = Aging::default();
            let mut here: Vec<usize> = Vec::new();
            let (mut now, mut gone) = (0.0, 0);
            for _ in 0..200 {
                now += [0.0, 1.0, 7.5, 1000.0][random(4) as usize];
                let key = lines.key(now);
                for _ in 0..random(4) {
                    // What is taken is the first, in a list that is sorted now.
                    let mut sorted: Vec<_> = here.iter().map(|j| key(&lines.player(*j))).collect();
                    sorted.sort();
                    let expected = sorted.first().copied().flatten();
                    let found = aging.pop(Time::new(now), &key);
                    assert_eq!(found.map(|e| e.job()), expected.map(|e| e.job()), "{case}");
                    assert!(found.is_none_or(|e| e.stamp() == 7));
                    here.retain(|j| found.is_none_or(|e| e.job().index() != *j));
                }
                drop(key);
                if random(3) == 0 && !here.is_empty() {
                    let left = here.swap_remove(random(here.len() as u64) as usize);
                    lines.0[left].0 = f64::NAN;
                    gone += 1;
                }
                for _ in 0..random(5) {
                    // Few different values, so that many keys are equal.
                    let rate = -(random(4) as f64) / [1.0, 3.0][case % 2];
                    lines.0.push((random(20) as f64 - rate * now, rate));
                    here.push(lines.0.len() - 1);
                    let player = lines.player(lines.0.len() - 1);
                    aging.insert(vec![player], Time::new(now), &lines.key(now));
                }
                assert!((here.len()..=here.len() + gone).contains(&aging.len()));
            }
        }
    }

    #[test]
    fn few_matches_are_played_again() {
        let lines = Lines(
            (1..=4096)
                .map(|i| (0.0, -1.0 / f64::from(i % 613 + 1)))
                .collect(),
        );
        let keys = std::cell::Cell::new(0u32);
        let mut aging = Aging::default();
        let all = (0..4096).map(|job| lines.player(job)).collect();
        aging.fill(all, Time::new(1.0), &lines.key(1.0));
        for round in 2..1000 {
            let now = f64::from(round);
            let key = lines.key(now);
            let counted = |player: &Player| {
                keys.set(keys.get() + 1);
                key(player)
            };
            let first = aging.pop(Time::new(now), &counted).unwrap();
            let again = vec![lines.player(first.job().index())];
            aging.insert(again, Time::new(now), &counted);
        }
        // Sorting the jobs anew takes at least a key for each job of each round.
        assert!(keys.get() < 4096 * 998 / 20, "{}", keys.get());
    }
}
