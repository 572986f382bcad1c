//! A simulation as others see it while it runs, and how it ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is shared with whoever watches a simulation.
#[derive(Debug, Default)]
pub struct Watch {
    /// Set to stop the simulation at the next event; what ended so far is reported.
    pub stop: AtomicBool,
    /// Jobs submitted so far.
    pub submitted: AtomicU64,
    /// Jobs ended so far, rejected ones among them.
    pub ended: AtomicU64,
    /// Simulated time so far, in whole seconds.
    pub simulated_s: AtomicU64,
    /// Measured jobs that came in and have not ended.
    pub(crate) open: AtomicU64,
    /// Whether jobs start in vain for ever.
    pub(crate) in_vain: AtomicBool,
}

impl Watch {
    /// Forgets what an earlier run left.
    pub(crate) fn begin(&self) {
        self.open.store(0, Ordering::Relaxed);
        self.in_vain.store(false, Ordering::Relaxed);
    }

    /// Returns how the simulation ends here and now, before every measured job has ended.
    #[inline]
    pub(crate) fn broken_off(&self) -> Option<Ended> {
        if self.stop.load(Ordering::Relaxed) {
            Some(Ended::Interrupted)
        } else if self.in_vain.load(Ordering::Relaxed) {
            Some(Ended::InVain)
        } else {
            None
        }
    }
}

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every measured job has ended.
    Finished,
    /// Jobs wait that nothing will ever start.
    Standstill,
    /// Jobs crashed, or failed to be launched, a million times in a row, none of them with more work
    /// saved than before, and none ended: they never would.
    InVain,
    /// It was told to stop.
    Interrupted,
}
