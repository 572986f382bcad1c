//! Fault-injection tests of the scheduler daemon and the protocol's state machines, with seeded
//! schedules in virtual time. Messages are lost, duplicated, delayed and reordered. The scheduler
//! crashes at any write, synchronization or output, and its last writes may be torn. Scheduler and node
//! managers also stop as planned, with long leases. The scheduler's disk fails,
//! or is full for a while. The provider of nodes fails, is late or never answers. Node managers, shims and whole nodes crash or pause at any step, and
//! clocks run at different speeds. The invariants are checked after every step. Once fault injection ends, all
//! jobs must end and all nodes must return.
//!
//! Run one schedule by its seed: `NEMESIS_SEED=17 cargo test -p blox-cluster --test nemesis one`.

mod checks;
mod churn;
mod node;
mod process;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use world::{Bug, Reached, World};

/// Runs the schedules with these seeds on all cores. Returns the first violation, if any, else what
/// they reached.
fn schedules(seeds: std::ops::Range<u64>, bug: Option<Bug>) -> Result<Reached, String> {
    let next = AtomicU64::new(seeds.start);
    let found = std::sync::Mutex::new(None);
    let reached = std::sync::Mutex::new(Reached::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let done = found.lock().unwrap().is_some();
                    if seed >= seeds.end || done {
                        return;
                    }
                    match World::new(seed, bug).run() {
                        Ok(of_seed) => *reached.lock().unwrap() += of_seed,
                        Err(violation) => {
                            let text = format!("seed {seed}: {violation}");
                            found.lock().unwrap().get_or_insert(text);
                        }
                    }
                }
            });
        }
    });
    match found.into_inner().unwrap() {
        Some(violation) => Err(violation),
        None => Ok(reached.into_inner().unwrap()),
    }
}

/// Checks that schedules find no violation, and reach all situations.
fn break_nothing(seeds: std::ops::Range<u64>) {
    let reached = schedules(seeds, None).unwrap();
    println!("{reached:?}");
    let missing: Vec<&str> = reached.missing().collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

/// `NEMESIS_SCHEDULES` changes their number.
#[test]
fn hundreds_of_schedules_break_nothing() {
    let number = std::env::var("NEMESIS_SCHEDULES").map_or(300, |n| n.parse().unwrap());
    break_nothing(0..number);
}

#[test]
#[ignore = "long: run by name"]
fn twenty_thousand_schedules_break_nothing() {
    break_nothing(1_000..21_000);
}

#[test]
#[ignore = "long: run by name"]
fn a_hundred_thousand_schedules_break_nothing() {
    break_nothing(1_000..101_000);
}

#[test]
#[ignore = "one schedule by its seed, to look into it"]
fn one() {
    let seed = std::env::var("NEMESIS_SEED").map_or(0, |s| s.parse().unwrap());
    if let Err(violation) = World::new(seed, None).printing().run() {
        panic!("seed {seed}: {violation}");
    }
}

/// Checks that a planted bug is found. The first reported violation may be any of its consequences.
fn finds(bug: Bug) {
    let found = schedules(0..2_000, Some(bug));
    assert!(found.is_err(), "{bug:?} was not found in 2,000 schedules");
}

#[test]
fn a_node_that_follows_late_orders_is_found() {
    finds(Bug::LateOrders);
}

#[test]
fn a_disk_that_acknowledges_too_early_is_found() {
    finds(Bug::NoSync);
}

#[test]
fn a_scheduler_that_does_not_wait_for_leases_is_found() {
    finds(Bug::ShortFence);
}

#[test]
fn a_shim_that_does_not_keep_its_lease_is_found() {
    finds(Bug::NoLease);
}

#[test]
fn a_scheduler_that_forgets_ends_is_found() {
    finds(Bug::ForgetEnds);
}

#[test]
fn a_node_that_frees_gpus_too_early_is_found() {
    finds(Bug::EarlyDone);
}

#[test]
fn scheduler_that_forgets_node_requests_is_found() {
    finds(Bug::ForgetRequests);
}

#[test]
fn scheduler_that_forgets_absences_is_found() {
    finds(Bug::ForgetAbsences);
}

#[test]
fn shim_that_keeps_its_long_lease_is_found() {
    finds(Bug::FalseLeases);
}

#[test]
fn a_node_manager_that_forgets_what_ran_is_found() {
    finds(Bug::NoAdoption);
}
