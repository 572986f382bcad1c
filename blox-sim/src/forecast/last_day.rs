//! Arrivals of the last day.

use super::known::Known;
use blox_core::{Seconds, Time};

/// The longest period whose arrivals are repeated.
const DAY: Seconds = Seconds::new(86_400.0);
/// Number of blocks of that period.
pub(super) const BLOCKS: usize = 24;

/// The arrivals of the last day, from the first to the last of the period.
#[derive(Clone, Debug, Default)]
pub(super) struct LastDay {
    /// The jobs by block, each with the time since the start of the block.
    pub blocks: Vec<Vec<(f64, Known)>>,
    /// Length of a block in seconds.
    pub block_s: f64,
}

impl LastDay {
    /// Selects the jobs that were submitted within a day before `now`. If the first was submitted
    /// later, the period begins with it.
    pub fn of(jobs: &[Known], now: Time) -> Self {
        let since = |job: &Known| now.since(job.spec.submit).secs();
        let recent = || jobs.iter().filter(|job| since(job) <= DAY.secs());
        let period = recent().map(since).fold(0.0, f64::max);
        let block_s = period / BLOCKS as f64;
        if block_s <= 0.0 {
            return LastDay::default();
        }
        let mut blocks = vec![Vec::new(); BLOCKS];
        for job in recent() {
            let at = period - since(job);
            let block = ((at / block_s) as usize).min(BLOCKS - 1);
            blocks[block].push((at - block as f64 * block_s, job.clone()));
        }
        for block in &mut blocks {
            block.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        LastDay { blocks, block_s }
    }
}
