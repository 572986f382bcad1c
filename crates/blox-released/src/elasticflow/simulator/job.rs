//! State of a job in the original.

use blox_core::JobSpec;

/// Deadline of jobs without one: the original's largest integer.
const NEVER: f64 = i64::MAX as f64;

/// A job in the original's loop. Times are in seconds, and numbers are floats as in Python.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub submit: f64,
    pub deadline: f64,
    pub best_effort: bool,
    /// Requested GPUs. `duration` is the run time on them.
    pub gpus: u32,
    pub duration: f64,
    /// Remaining iterations.
    pub left: f64,
    /// GPU counts with their iterations per second, ascending.
    pub levels: Vec<(u32, f64)>,
    /// Current number of GPUs.
    pub num_gpu: u32,
    /// GPUs over time, each from its time on.
    pub alloc: Vec<(f64, u32)>,
    pub end: f64,
    /// Planned end before a change that the event list does not contain yet.
    pub old_end: f64,
    pub real_end: Option<f64>,
    pub overhead: f64,
    /// True if the job's GPU positions were used since the cache was cleared.
    pub cached: bool,
    /// Node set of the job.
    pub set: Option<usize>,
}

impl Job {
    pub fn of(spec: &JobSpec) -> Self {
        let extras = spec.extras();
        let levels = extras.levels.iter().map(|l| l.get());
        let best_effort = extras.class.is_spot();
        Job {
            submit: spec.submit.secs(),
            deadline: match extras.deadlines.first() {
                Some(d) if !best_effort => d.at.secs(),
                _ => NEVER,
            },
            best_effort,
            gpus: spec.gpus.get(),
            // The spec has the rate, iterations / duration. Rounding restores the whole duration.
            duration: spec.duration().secs().round(),
            left: spec.work.iterations,
            levels: levels.zip(extras.rates.iter().copied()).collect(),
            ..Job::default()
        }
    }

    /// Returns the iterations per second on `gpus` GPUs, or 0 if there is no such level.
    #[inline]
    pub fn rate(&self, gpus: u32) -> f64 {
        let level = self.levels.iter().find(|(g, _)| *g == gpus);
        level.map_or(0.0, |(_, rate)| *rate)
    }

    /// Returns the largest level that `free` GPUs allow, or 0.
    #[inline]
    pub fn level(&self, free: i64) -> u32 {
        let fits = self.levels.iter().rev();
        fits.map(|(g, _)| *g)
            .find(|g| i64::from(*g) <= free)
            .unwrap_or(0)
    }

    /// Returns the next level above `gpus`, or `gpus` at the top.
    #[inline]
    pub fn next_level(&self, gpus: u32) -> u32 {
        match self.levels.iter().position(|(g, _)| *g == gpus) {
            _ if gpus == 0 => self.levels.first().map_or(0, |(g, _)| *g),
            Some(at) => self.levels.get(at + 1).map_or(gpus, |(g, _)| *g),
            None => gpus,
        }
    }

    pub fn top(&self) -> u32 {
        self.levels.last().map_or(0, |(g, _)| *g)
    }
}

/// Returns the overhead of a start, move or restart in seconds.
///
/// It is 2 s, or 7 s on clusters of at least 256 GPUs. New positions add to it, and a restart of
/// all trainers adds more.
pub(super) fn overhead(total: u32, gpus: u32, restart: bool, cached: bool) -> f64 {
    let large = total >= 256;
    let mut seconds = if large { 7.0 } else { 2.0 };
    if cached {
        return seconds;
    }
    if restart {
        seconds += if large { 47.0 } else { 27.0 };
    }
    seconds + (log2(gpus) + 1.0) * 2.0
}

/// Returns the logarithm as in the original: exact for powers of two. Buddy placement grants only
/// powers of two.
pub(super) fn log2(gpus: u32) -> f64 {
    if gpus.is_power_of_two() {
        f64::from(gpus.trailing_zeros())
    } else {
        libm::log(f64::from(gpus)) / libm::log(2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overheads_follow_size_cache_and_restarts() {
        assert_eq!(overhead(64, 8, false, true), 2.0);
        assert_eq!(overhead(64, 8, false, false), 10.0);
        assert_eq!(overhead(64, 1, true, false), 31.0);
        assert_eq!(overhead(64, 8, true, true), 2.0);
        assert_eq!(overhead(512, 4, true, false), 60.0);
        assert_eq!(overhead(512, 4, false, true), 7.0);
    }

    #[test]
    fn levels_are_the_profiled_counts_alone() {
        let job = Job {
            levels: vec![(1, 1.0), (2, 1.9), (4, 3.0)],
            ..Job::default()
        };
        assert_eq!([0, 1, 3, 9].map(|f| job.level(f)), [0, 1, 2, 4]);
        assert_eq!([0, 1, 2, 4].map(|g| job.next_level(g)), [1, 2, 4, 4]);
        assert_eq!((job.rate(2), job.rate(3)), (1.9, 0.0));
    }
}
