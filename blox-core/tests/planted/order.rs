//! Policies whose order depends on more than their inputs.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these policies are wrong on purpose"
)]

use super::{AT_RANDOM, check, first_of, free_for, list, list_all, placed_each, scheduled};
use blox_core::ids::{GpuId, JobId};
use blox_core::policy::scheduling_fn;
use blox_core::{JobRef, Pipeline, Validity};
use blox_testing::Property;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

#[test]
fn wrong_order_is_found() {
    check(&[
        (
            AT_RANDOM,
            &[
                ("users of a hash map", users_of_a_hash_map),
                ("GPUs of a hash set", gpus_of_a_hash_set),
                ("tie broken by a static counter", static_counter),
                ("real time", real_time),
            ],
        ),
        (
            &[Property::Replay],
            &[("memory addresses", memory_addresses)],
        ),
        (
            &[Property::Determinism],
            &[("estimates kept in a static", static_estimates)],
        ),
    ]);
}

/// Takes the jobs user by user, in the random order of a hash map.
fn users_of_a_hash_map() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let mut users: HashMap<_, Vec<JobRef<'_>>> = HashMap::new();
        for job in view.active() {
            users.entry(job.user()).or_default().push(job);
        }
        list(users.into_values().flatten(), out);
        Validity::NextRound
    }))
}

/// Collects the free GPUs in a hash set.
fn gpus_of_a_hash_set() -> Pipeline {
    placed_each(|draft, request| {
        let free: HashSet<GpuId> = free_for(request.job, draft).into_iter().collect();
        first_of(free.into_iter().collect(), request)
    })
}

/// Gives each job a number when it is seen first, from a counter of the whole process.
fn static_counter() -> Pipeline {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    scheduled(scheduling_fn(|view, out| {
        let mut jobs: Vec<_> = view.active().collect();
        let turn = NEXT.fetch_add(1, Ordering::Relaxed);
        jobs.sort_by_key(|j| (j.spec().priority, (u64::from(j.id().0) + turn) % 3));
        list(jobs, out);
        Validity::NextRound
    }))
}

/// Breaks ties by the address of the specification.
fn memory_addresses() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|j| (j.spec().priority, std::ptr::from_ref(j.spec()).addr()));
        list(jobs, out);
        Validity::NextRound
    }))
}

/// Keeps the first estimate of each job in a static: the estimates of an earlier run stay.
fn static_estimates() -> Pipeline {
    static ESTIMATES: OnceLock<Mutex<HashMap<JobId, f64>>> = OnceLock::new();
    scheduled(scheduling_fn(|view, out| {
        let mut known = ESTIMATES.get_or_init(Mutex::default).lock().unwrap();
        let mut jobs: Vec<_> = view.active().collect();
        let mut estimate = |j: &JobRef<'_>| {
            let estimate = || j.truth().duration().secs();
            *known.entry(j.id()).or_insert_with(estimate)
        };
        jobs.sort_by(|a, b| estimate(a).total_cmp(&estimate(b)));
        list(jobs, out);
        Validity::UntilEvent
    }))
}

/// Reverses the order in every other microsecond of real time.
fn real_time() -> Pipeline {
    static START: OnceLock<Instant> = OnceLock::new();
    scheduled(scheduling_fn(|view, out| {
        let elapsed = START.get_or_init(Instant::now).elapsed();
        list_all(view, elapsed.as_micros() % 2 == 1, out);
        Validity::NextRound
    }))
}
