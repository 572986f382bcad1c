//! Random compositions in random worlds: schedulers, placements, admission, cluster managers,
//! execution models, overheads, faults, sharing, GPU types, levels and losses together.
//!
//! Each run has other cases, and prints the seed of the first one. `BLOX_RANDOM_SEED` sets it, which
//! repeats a run or a case. `BLOX_RANDOM_CASES` sets the number of cases.

mod checks;
mod draw;

use checks::{Broken, Reached, Watched, checked};
use draw::Case;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Cases of a run, if not set.
const CASES: u64 = 500;

/// Real time without a decision after which a case counts as endless. The replay of a long journal
/// counts none.
const PATIENCE: Duration = Duration::from_secs(200);

/// Number of decisions after which a case counts as endless.
const DECISIONS: u64 = 20_000_000;

/// Jobs with which the reduction of a failing case begins.
const FIRST_JOBS: usize = 1;

#[test]
fn random_compositions_end_or_state_why_not() {
    let (seed, cases) = (seed(), number("BLOX_RANDOM_CASES").unwrap_or(CASES));
    // Past the capture of the test harness.
    let mut out = std::io::stderr();
    let _ = writeln!(out, "random compositions: BLOX_RANDOM_SEED={seed}");
    let mut total = Reached::default();
    let (mut composed, mut reached, mut failures) = (0, BTreeMap::new(), Vec::new());
    for seed in seed..seed + cases {
        match in_time(seed, usize::MAX) {
            Ok(None) => {}
            Ok(Some((case, found))) => {
                composed += 1;
                case.count(&mut reached);
                total.add(&found);
            }
            Err(broken) => failures.push(reduced(seed, broken)),
        }
        if failures.len() == 10 {
            break;
        }
    }
    let _ = writeln!(
        out,
        "{composed} of {cases} cases compose: {total:#?}\n{reached:?}"
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    if cases >= CASES {
        let all = [total.completed, total.rejected, total.preemptions];
        let rare = [total.shared, total.resized, composed];
        let new = [total.served, total.parts, total.broken];
        assert!(
            all.iter().chain(&rare).chain(&new).all(|n| *n > 0),
            "{total:?}"
        );
        let missing: Vec<_> = reached.iter().filter(|(_, n)| **n == 0).collect();
        assert!(missing.is_empty(), "no {missing:?}");
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the seed of the first case.
#[allow(
    clippy::disallowed_methods,
    reason = "a run may take other cases each time"
)]
fn seed() -> u64 {
    let fresh = || {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
        now.map_or(1, |t| t.as_secs() * 100_000)
    };
    number("BLOX_RANDOM_SEED").unwrap_or_else(fresh)
}

/// Checks the case of a seed in bounded time.
fn in_time(seed: u64, most_jobs: usize) -> Result<Option<(Case, Reached)>, Broken> {
    let (sender, answer) = mpsc::channel();
    // An endless policy can only be abandoned if it runs in another thread.
    let watched = Watched::default();
    let theirs = watched.clone();
    std::thread::spawn(move || {
        let registry = blox::registry();
        let case = Case::of(seed, &registry, most_jobs);
        let result = checked(&case, &registry, &theirs);
        let _ = sender.send(result.map(|found| found.map(|found| (case, found))));
    });
    let mut decisions = 0;
    loop {
        match answer.recv_timeout(PATIENCE) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Broken {
                    rule: "no panic",
                    found: "a panic while the case was drawn".to_owned(),
                });
            }
            Err(RecvTimeoutError::Timeout) => {
                let before = std::mem::replace(&mut decisions, watched.decisions());
                if before == decisions || decisions > DECISIONS {
                    watched.stop();
                    return Err(Broken {
                        rule: "an end in bounded time",
                        found: format!("none after {decisions} decisions"),
                    });
                }
            }
        }
    }
}

/// Describes a failure by the smallest number of the case's jobs that still breaks the rule.
fn reduced(seed: u64, broken: Broken) -> String {
    let registry = blox::registry();
    let jobs = Case::of(seed, &registry, usize::MAX).jobs.len();
    let (mut least, mut found) = (jobs, broken);
    if found.rule != "an end in bounded time" {
        for fewer in FIRST_JOBS..jobs.min(60) {
            match in_time(seed, fewer) {
                Err(smaller) if smaller.rule == found.rule => {
                    (least, found) = (fewer, smaller);
                    break;
                }
                _ => {}
            }
        }
    }
    let case = Case::of(seed, &registry, least);
    format!(
        "BLOX_RANDOM_SEED={seed} BLOX_RANDOM_CASES=1, with {least} jobs: expected {}, found {}\n{case}",
        found.rule, found.found
    )
}
