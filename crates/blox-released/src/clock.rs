//! Measurement of computing time.

/// Returns the CPU time of this thread in milliseconds, or wall-clock time if the system does not
/// report CPU time.
#[cfg(unix)]
pub(super) fn now() -> f64 {
    use rustix::time::{ClockId, clock_gettime};
    let ran = clock_gettime(ClockId::ThreadCPUTime);
    ran.tv_sec as f64 * 1e3 + ran.tv_nsec as f64 / 1e6
}

#[cfg(not(unix))]
#[allow(
    clippy::disallowed_methods,
    reason = "it measures, and decides nothing"
)]
pub(super) fn now() -> f64 {
    use std::{sync::LazyLock, time::Instant};
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_takes_more_than_no_time() {
        let start = now();
        let sum: f64 = (0..10_000).map(f64::from).map(f64::sqrt).sum();
        let took = now() - start;
        assert!(sum > 0.0 && took > 0.0 && took < 1000.0, "{took} ms");
    }
}
