//! Claims of the schedulers' papers: verdicts are as expected, and the documentation shows the
//! results.
//!
//! `BLOX_BLESS=1 cargo test --all-features --test claims` records the results of the fast set and
//! rewrites the page; with `-- --ignored`, the results of all claims.
#![cfg(all(feature = "released", feature = "microlp"))]

use blox::claims::{Plan, Records, papers, records, selected};
use std::collections::BTreeSet;
use std::fs;

const FILE: &str = "crates/blox-claims/claims/recorded.toml";
const PAGE: &str = "docs/src/reference/claims.md";
const INTRODUCTION: &str = "\
# Claims

<!-- Generated: BLOX_BLESS=1 cargo test --all-features --test claims -->

The tables show what the paper of each scheduler claims, and what simulations here show.
`blox claims` repeats the simulations. All workloads are generated from seeds.
They are smaller than the paper's, so factors may be smaller, too.

- *against*: the number is a factor. A factor above 1 means that the scheduler is better than the baseline. Several baselines count as one, which is the best of them for each seed.
- *here*: the mean over seeds, with its interval of 95 %. The mean of factors is geometric.
- *holds*: the factor reaches the tolerance of the claim, and the whole interval is above 1.
- *weaker*: the mean factor is above 1, but smaller or less certain.
- *does not hold*: the direction is wrong, or a run failed. A list below the table gives the reasons.
- *rho*: completion time divided by the time alone times the mean number of jobs in the system.

";

/// Checks claims, and compares results and page with the recorded ones, or rewrites them.
fn check(fast: bool) {
    let registry = blox::released::register_baselines(blox::registry());
    let plan = Plan::new(&registry, selected(&[], fast).unwrap());
    let checked = plan.check(&[], &Default::default());
    let mut wrong = String::new();
    for claim in &checked {
        let missing = claim.verdict.is_none();
        if claim.differs() || missing {
            let verdict = claim.verdict.map_or("no verdict", |v| v.as_str());
            wrong += &format!("{}: {verdict}", claim.name());
            wrong += &format!(", expected {}, {}", claim.claim.expect, claim.here_text());
            wrong += &format!(" {}\n", claim.note.as_deref().unwrap_or_default());
        }
    }
    agree(&records().updated(&checked));
    assert_eq!(
        wrong, "",
        "correct the scheduler, or the expected verdict and its reason"
    );
}

fn agree(found: &Records) {
    let page = format!("{INTRODUCTION}{}\n", found.page().trim_end());
    for (path, expected) in [(FILE, found.file()), (PAGE, page)] {
        let text = fs::read_to_string(path).unwrap_or_default();
        if std::env::var_os("BLOX_BLESS").is_some() {
            if text != expected {
                fs::write(path, expected).unwrap();
            }
            continue;
        }
        // How long runs take depends on the machine.
        let plain = |text: &str| {
            let lines = text
                .lines()
                .map(|line| line.split(", seconds").next().unwrap().to_owned());
            lines.collect::<Vec<String>>()
        };
        let (text, expected) = (plain(&text), plain(&expected));
        let differs = text.iter().zip(&expected).find(|(a, b)| a != b);
        assert!(
            text == expected,
            "{path} is not current: run `BLOX_BLESS=1 cargo test --all-features --test claims`; first: {differs:?}"
        );
    }
}

#[test]
fn fast_claims_are_as_expected_and_recorded() {
    check(true);
}

#[test]
#[ignore = "takes minutes"]
fn all_claims_are_as_expected_and_recorded() {
    check(false);
}

#[test]
fn every_claim_is_recorded() {
    for paper in papers() {
        for claim in &paper.claims {
            let recorded = records().of(paper, claim).map(|record| record.verdict);
            assert_eq!(
                recorded,
                Some(claim.expect),
                "{}/{}",
                paper.name,
                claim.name
            );
        }
    }
}

/// Schedulers whose papers have no claims of their own: orders, ablations, and released programs.
const WITHOUT: [&str; 8] = [
    "fifo",
    "sjf",
    "srtf",
    "las",
    "edf",
    "edf-admission",
    "ef",
    "tiresias-dlas-gpu",
];

#[test]
fn every_scheduler_with_a_paper_has_claims() {
    let known: BTreeSet<&str> = papers().iter().map(|paper| paper.name.as_str()).collect();
    for (name, _) in blox::registry().schedulers.iter() {
        let exempt =
            WITHOUT.contains(&name) || name.starts_with("blox-") || name.starts_with("lucid-");
        assert_ne!(known.contains(name), exempt, "{name}");
    }
}
