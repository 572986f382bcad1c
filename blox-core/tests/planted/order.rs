//! Policies whose order depends on more than their inputs.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these policies are wrong on purpose"
)]

use super::{AT_RANDOM, check, list, placed, planted, scheduled};
use blox_core::ids::{GpuId, JobId};
use blox_core::policy::scheduling_fn;
use blox_core::{Assignment, GpuList, JobRef, Pipeline, Validity};
use blox_testing::Property;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

#[test]
fn wrong_order_is_found() {
    check(&[
        planted("users of a hash map", users_of_a_hash_map, AT_RANDOM),
        planted("GPUs of a hash set", gpus_of_a_hash_set, AT_RANDOM),
        planted("tie broken by a static counter", static_counter, AT_RANDOM),
        planted("memory addresses", memory_addresses, &[Property::Replay]),
        planted(
            "estimates kept in a static",
            static_estimates,
            &[Property::Determinism],
        ),
        planted("real time", real_time, AT_RANDOM),
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
    placed(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            let needed = request.shapes[0].gpus.get() as usize;
            if let Some(job) = draft.view().job(request.job) {
                draft.narrow_to(&job);
            }
            let nodes = draft.nodes_with_free();
            let free: HashSet<GpuId> = nodes.flat_map(|n| draft.free_gpus_on(n.id())).collect();
            draft.widen();
            if free.len() < needed {
                draft.candidate_blocked(requests);
                break;
            }
            let gpus: GpuList = free.into_iter().take(needed).collect();
            draft.assign(request.job, Assignment::of(gpus))?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
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
            let estimate = || j.spec().duration().secs();
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
        let mut jobs: Vec<_> = view.active().collect();
        if elapsed.as_micros() % 2 == 1 {
            jobs.reverse();
        }
        list(jobs, out);
        Validity::NextRound
    }))
}
