//! The machine's monotonic clock, which also counts suspended time.

use crate::protocol::Millis;
use rustix::time::{ClockId, clock_gettime};
use std::io;

/// Returns the current time.
pub fn now() -> Millis {
    let t = clock_gettime(ClockId::Boottime);
    let secs = u64::try_from(t.tv_sec).unwrap_or(0);
    Millis(secs * 1000 + u64::try_from(t.tv_nsec).unwrap_or(0) / 1_000_000)
}

/// Returns the current time in microseconds, for measurements.
pub(super) fn now_us() -> u64 {
    let t = clock_gettime(ClockId::Boottime);
    let secs = u64::try_from(t.tv_sec).unwrap_or(0);
    secs * 1_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0) / 1_000
}

/// Returns the id of this boot of the kernel.
///
/// # Errors
/// The kernel does not provide it.
pub fn boot_id() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}
