//! How long computing takes.

/// Milliseconds that this thread has run, where the system says; else those of the clock.
#[allow(
    clippy::disallowed_methods,
    reason = "it measures, and decides nothing"
)]
pub(super) fn now() -> f64 {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ran = text
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse::<f64>().ok());
    match ran {
        Some(ns) => ns / 1e6,
        None => 1000.0 * START.elapsed().as_secs_f64(),
    }
}
