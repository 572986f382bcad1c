//! Usage of the cluster and length of the queue over time, in bounded memory.

use serde::{Deserialize, Serialize};

/// Maximum number of rows of a timeline.
const ROWS: usize = 2048;

/// Means over an interval: the integral of a number over the interval / its length. Covers all jobs,
/// measured or not. All rows of a timeline have the same length: 1 s, or the smallest power of two of
/// it with at most 2048 rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineRow {
    /// Start of the interval, in seconds since the start of the simulation.
    pub time_s: f64,
    /// Length of the interval in seconds; the last one ends with the simulation.
    pub length_s: f64,
    /// Mean number of GPUs with at least one running job. A shared GPU counts once. GPUs of starting
    /// and stopping jobs are excluded.
    pub busy_gpus: f64,
    /// Mean amount of GPUs that running jobs have: the sum of their parts, at most 1 a GPU.
    pub used_gpus: f64,
    /// Mean number of usable GPUs: not broken, on nodes that are up and not cordoned. The
    /// [utilisation](super::Usage::utilisation) refers to all GPUs instead.
    pub usable_gpus: f64,
    /// Mean number of jobs with GPUs: starting, running or stopping.
    pub placed_jobs: f64,
    /// Mean number of jobs in the system without GPUs: waiting, deferred or held, or before their admission
    /// decision. Rejected and ended jobs are excluded.
    pub queued_jobs: f64,
    /// Mean number of the queued jobs that admission deferred or a user holds.
    pub deferred_jobs: f64,
}

/// Values of a timeline at one moment, in the order of the fields of a row.
pub(crate) type Levels = [f64; 6];

/// Sums of values over time.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// Start of the first interval.
    origin: Option<f64>,
    length: f64,
    sums: Vec<Levels>,
    since: f64,
    /// End of the last interval.
    row_end: f64,
    now: Levels,
    /// Values from a moment on; later values of the same moment replace them.
    next: Option<(f64, Levels)>,
}

impl Timeline {
    pub fn new() -> Self {
        Timeline {
            origin: None,
            length: 1.0,
            sums: Vec::with_capacity(ROWS),
            since: 0.0,
            row_end: f64::NEG_INFINITY,
            now: Levels::default(),
            next: None,
        }
    }

    /// Sets the values from `at` on. Only values that lasted are summed. Hence neither the moments
    /// of calls nor values that lasted for no time affect the last bits.
    #[inline]
    pub fn set(&mut self, at: f64, levels: Levels) {
        match &mut self.next {
            Some((moment, next)) if *moment == at => *next = levels,
            _ => {
                self.settle();
                if levels != self.now {
                    self.next = Some((at, levels));
                }
            }
        }
    }

    fn settle(&mut self) {
        if let Some((at, levels)) = self.next.take()
            && levels != self.now
        {
            self.advance(at);
            self.now = levels;
        }
    }

    fn advance(&mut self, to: f64) {
        let Some(origin) = self.origin else {
            self.origin = Some(to.floor());
            self.since = to;
            return;
        };
        while to - origin > self.length * ROWS as f64 {
            self.halve();
        }
        while self.since < to {
            if self.since >= self.row_end {
                let i = ((self.since - origin) / self.length) as usize;
                self.row_end = origin + (i + 1) as f64 * self.length;
                self.sums.resize(i + 1, [0.0; 6]);
            }
            let end = self.row_end.min(to);
            let lasts = end - self.since;
            if let Some(sums) = self.sums.last_mut() {
                for (sum, level) in sums.iter_mut().zip(self.now) {
                    *sum += lasts * level;
                }
            }
            self.since = end;
        }
    }

    /// Halves the number of rows and doubles their length.
    fn halve(&mut self) {
        let rows = self.sums.len();
        for i in 0..rows.div_ceil(2) {
            let mut sum = self.sums[2 * i];
            if let Some(second) = self.sums.get(2 * i + 1) {
                for (a, b) in sum.iter_mut().zip(second) {
                    *a += b;
                }
            }
            self.sums[i] = sum;
        }
        self.sums.truncate(rows.div_ceil(2));
        self.length *= 2.0;
        self.row_end = f64::NEG_INFINITY;
    }

    /// Returns the rows up to the end of the simulation.
    pub fn rows(mut self, end: f64) -> Vec<TimelineRow> {
        self.settle();
        self.advance(end.max(self.since));
        let origin = self.origin.unwrap_or(0.0);
        let row = |(i, sums): (usize, &Levels)| {
            let time_s = origin + i as f64 * self.length;
            let length_s = self.length.min(end - time_s);
            let mean = |level: usize| sums[level] / length_s;
            TimelineRow {
                time_s,
                length_s,
                busy_gpus: mean(0),
                used_gpus: mean(1),
                usable_gpus: mean(2),
                placed_jobs: mean(3),
                queued_jobs: mean(4),
                deferred_jobs: mean(5),
            }
        };
        let rows = self.sums.iter().enumerate().map(row);
        rows.filter(|r| r.length_s > 0.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(busy_gpus: u32) -> Levels {
        let busy = f64::from(busy_gpus);
        [busy, busy, 4.0, 0.0, 0.0, 0.0]
    }

    #[test]
    fn rows_are_means_over_time() {
        let mut t = Timeline::new();
        t.set(10.0, busy(4));
        t.set(10.5, busy(2));
        t.set(12.0, busy(0));
        let rows = t.rows(13.5);
        let seen: Vec<_> = rows
            .iter()
            .map(|r| (r.time_s, r.length_s, r.busy_gpus))
            .collect();
        assert_eq!(
            seen,
            [
                (10.0, 1.0, 3.0),
                (11.0, 1.0, 2.0),
                (12.0, 1.0, 0.0),
                (13.0, 0.5, 0.0)
            ]
        );
        assert_eq!(rows[3].usable_gpus, 4.0);
    }

    #[test]
    fn what_lasted_no_time_leaves_no_trace() {
        let (mut once, mut twice) = (Timeline::new(), Timeline::new());
        for t in [&mut once, &mut twice] {
            t.set(0.1, busy(3));
        }
        for at in [0.3, 0.7] {
            twice.set(at, busy(1));
            twice.set(at, busy(3));
        }
        assert_eq!(once.rows(1.9), twice.rows(1.9));
    }

    #[test]
    fn long_ones_have_longer_rows_and_lose_nothing() {
        let mut t = Timeline::new();
        for i in 0..100_000u32 {
            t.set(f64::from(i), busy(1 + i % 2));
        }
        let rows = t.rows(100_000.0);
        assert!(
            rows.len() <= ROWS && rows.len() > ROWS / 2,
            "{}",
            rows.len()
        );
        assert_eq!(rows[0].length_s, 64.0);
        assert!(rows[..rows.len() - 1].iter().all(|r| r.busy_gpus == 1.5));
        let sum: f64 = rows.iter().map(|r| r.busy_gpus * r.length_s).sum();
        assert_eq!(sum, 150_000.0);
        assert!(Timeline::new().rows(0.0).is_empty());
    }
}
