//! Runs simulations in parallel on the available cores.

use super::Failure;
use blox_sim::Watch;
use rayon::iter::{ParallelBridge, ParallelIterator};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Calls `work` for each watch in this order, with at most `threads` calls at a time. Returns
/// `None` for a call that would have started after its watch was stopped. The first error stops all
/// others.
///
/// The calls share nothing, so the results are the same for any number of threads.
pub(super) fn each<T: Send>(
    watches: &[Arc<Watch>],
    threads: Option<NonZero<usize>>,
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
    let threads = threads.map_or_else(cores, NonZero::get).min(watches.len());
    let mut results: Vec<(usize, Result<Option<T>, Failure>)> = match threads {
        // No thread pool is needed.
        0 | 1 => watches.iter().enumerate().map(one).collect(),
        _ => {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|e| Failure::new(format!("no threads can be started: {e}")))?;
            // A bridge distributes them one by one, in order.
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
        let squares = each(&watches, NonZero::new(3), |i, _| Ok(i * i)).unwrap();
        assert_eq!(squares[7], Some(49));
        assert_eq!(squares.len(), 50);
        let error = each(&watches, NonZero::new(1), |i, _| match i {
            3 => Err(Failure::new("three")),
            i => Ok(i),
        });
        assert!(matches!(error, Err(Failure::Message { text, .. }) if text == "three"));
        // The error stopped all other watches.
        assert!(
            each(&watches, None, |i, _| Ok(i))
                .unwrap()
                .iter()
                .all(Option::is_none)
        );
    }
}
