//! Broken rules, and the position in a case at which they broke.

use super::script::Script;
use blox_core::ids::Name;
use blox_core::units::Time;
use std::fmt;
use std::sync::{Arc, Mutex};

/// A rule that a scheduler, or the core, broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Property {
    /// The same inputs give the same decisions, byte for byte in the journal.
    Determinism,
    /// Plans fit the state that they were made from: no GPU is allocated twice, and neither plans
    /// nor requests name unknown jobs.
    Plan,
    /// Each sort key, and each change of a key, is a number.
    Key,
    /// Statements of policies are true. Keys stay constant or change as stated. Jobs that are skipped
    /// like a blocked job find no GPUs. Rounds have the
    /// [length](blox_core::DecisionTrigger::period) that the trigger states. Keys and jobs are
    /// checked only for a [`Pipeline`](blox_core::Pipeline).
    Statement,
    /// AdmissionDecisions and node actions are possible for their jobs and nodes, and a rejection
    /// has a reason.
    Answers,
    /// A policy does not panic.
    Panic,
    /// A policy returns from each call within the suite's [time limit](super::Suite::patience).
    Hang,
    /// Allocated and bound GPUs, counts and lists agree with the jobs. No GPU has more jobs than
    /// agreed to share it.
    Ledgers,
    /// Events and commands match each other.
    Commands,
    /// Progress and attained service only grow, except for reported losses of a crash and
    /// corrections of a launch's running time. Executed work equals accounted work. A scheduler ends
    /// no job at its goal that has work to do and was never launched.
    Work,
    /// Time does not run backwards.
    Time,
    /// Every job that fits ends.
    Liveness,
    /// A cluster manager requests no more nodes than the jobs of the case could use, and none for ever
    /// once no job is left.
    Growth,
    /// The end of every job is accounted for.
    Accounting,
    /// A [`Validity`](blox_core::Validity) is correct: visiting every decision moment gives the
    /// same decisions.
    Validity,
    /// A clone decides like its original and does not affect the original.
    Clone,
    /// A fresh instance that restores the saved memory decides like the instance that saved it.
    Restore,
    /// A journal replays with the same decisions.
    Replay,
    /// Jobs of a virtual cluster run only on nodes that serve it. Checked only with
    /// [`Suite::keeps_virtual_clusters`](super::Suite::keeps_virtual_clusters).
    VirtualClusters,
    /// Under other job numbers, every job fares the same. Checked only with
    /// [`Suite::ignores_job_numbers`](super::Suite::ignores_job_numbers).
    JobNumbers,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Property::Determinism => "is not deterministic",
            Property::Plan => "made a plan that contradicts the state",
            Property::Key => "gave a job no number as its key",
            Property::Statement => "states something false",
            Property::Answers => "answered about jobs or nodes that cannot take it",
            Property::Panic => "panicked",
            Property::Hang => "does not answer",
            Property::Ledgers => "led to ledgers that disagree",
            Property::Commands => "led to commands and events that disagree",
            Property::Work => "led to work lost or made from nothing",
            Property::Time => "led to time running backwards",
            Property::Liveness => "starves a job that fits",
            Property::Growth => "requests nodes without bound",
            Property::Accounting => "led to a job that is not accounted for",
            Property::Validity => "gave an untrue validity",
            Property::Clone => "does not survive cloning",
            Property::Restore => "does not survive saving and restoring",
            Property::Replay => "does not replay from its journal",
            Property::VirtualClusters => "placed a job outside of its virtual cluster",
            Property::JobNumbers => "decides by the numbers of jobs",
        })
    }
}

/// A broken rule, before its place in the case is known.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(super) property: Property,
    pub(super) expected: String,
    pub(super) found: String,
}

impl Problem {
    pub fn new(property: Property, expected: String, found: String) -> Self {
        Problem {
            property,
            expected,
            found,
        }
    }
}

/// The current position in a case. It is shared so that it stays readable after a panic.
#[derive(Clone, Default)]
pub(crate) struct Place(Arc<Mutex<At>>);

#[derive(Default)]
pub(crate) struct At {
    pub(super) policy: Option<Name>,
    pub(super) jobs: usize,
    pub(super) script: Option<Arc<Script>>,
    pub(super) step: u64,
    pub(super) at: Time,
    /// The call that the policy has not returned from yet, with its number.
    pub(super) call: Option<(u64, &'static str)>,
    pub(super) calls: u64,
}

impl Place {
    /// Sets the number of inputs processed.
    pub fn at_step(&self, step: u64) {
        self.lock().step = step;
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, At> {
        lock(&self.0)
    }

    /// Calls the policy and records the call while it lasts.
    pub(super) fn during<T>(&self, call: &'static str, now: Time, make: impl FnOnce() -> T) -> T {
        /// Marks the call as returned, even after a panic.
        struct Answered<'a>(&'a Place);
        impl Drop for Answered<'_> {
            fn drop(&mut self) {
                self.0.lock().call = None;
            }
        }
        {
            let mut at = self.lock();
            at.at = now;
            at.calls += 1;
            at.call = Some((at.calls, call));
        }
        let _answered = Answered(self);
        make()
    }
}

/// Locks a mutex, even after a panic of another owner.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Returns whether two numbers are equal up to rounding.
pub(crate) fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}
