//! Simulations side by side on the cores that there are.

use super::Failure;
use blox_sim::Watch;
use rayon::iter::{ParallelBridge, ParallelIterator};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Does `work` for each watch, begun in this order, at most `threads` of them at a
/// time; `None` for what began after its watch was told to stop. The first
/// error stops all others.
///
/// Nothing is shared between them, so the results are the same for any number of threads.
pub(super) fn each<T: Send>(
    watches: &[Arc<Watch>],
    threads: Option<usize>,
    work: impl Fn(usize, &Arc<Watch>) -> Result<T, Failure> + Sync,
) -> Result<Vec<Option<T>>, Failure> {
    let one = |(i, watch): (usize, &Arc<Watch>)| {
        if watch.stop.load(Ordering::Relaxed) {
            return (i, Ok(None));
        }
        let result = work(i, watch);
        if result.is_err() {
            for w in watches {
                w.stop.store(true, Ordering::Relaxed);
            }
        }
        (i, result.map(Some))
    };
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.unwrap_or_else(cores).min(watches.len());
    let mut results: Vec<(usize, Result<Option<T>, Failure>)> = match threads {
        // Nobody else is needed.
        0 | 1 => watches.iter().enumerate().map(one).collect(),
        _ => {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|e| Failure::new(format!("no threads can be started: {e}")))?;
            // A bridge hands them out one by one, in order.
            pool.install(|| watches.iter().enumerate().par_bridge().map(one).collect())
        }
    };
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_first_error_counts() {
        let watches: Vec<Arc<Watch>> = (0..50).map(|_| Arc::default()).collect();
        let squares = each(&watches, Some(3), |i, _| Ok(i * i)).unwrap();
        assert_eq!(squares[7], Some(49));
        assert_eq!(squares.len(), 50);
        let error = each(&watches, Some(1), |i, _| match i {
            3 => Err(Failure::new("three")),
            i => Ok(i),
        });
        assert!(matches!(error, Err(Failure::Message { text, .. }) if text == "three"));
        // The others were told to stop, and do so.
        assert!(
            each(&watches, None, |i, _| Ok(i))
                .unwrap()
                .iter()
                .all(Option::is_none)
        );
    }
}
