//! Claims of the schedulers' papers: verdicts are as expected, and the documentation shows the
//! results.
//!
//! `BLOX_BLESS=1 cargo test --all-features --test claims` records the results of the fast set and
//! rewrites the page; with `-- --ignored`, the results of all claims.
#![cfg(all(feature = "released", feature = "microlp"))]

use blox::claims::{Paper, Plan, Records, papers, records, selected};
use std::collections::BTreeSet;
use std::fs;

const FILE: &str = "crates/blox-claims/claims/recorded.toml";
const PAGE: &str = "docs/src/reference/claims.md";
/// Beginning of the line of a scheduler's documentation that counts its claims.
const CLAIMS: &str = "/// **Claims.** ";
const INTRODUCTION: &str = "\
# Claims

<!-- Generated: BLOX_BLESS=1 cargo test --all-features --test claims -->

The tables show what the paper of each scheduler claims, and what simulations here show.
`blox claims` repeats the simulations. All workloads are generated from seeds.
They are smaller than the paper's, so factors may be smaller, too.

- *against*: the number is a factor. A factor above 1 means that the scheduler is better than the baseline. Several baselines count as one, which is the best of them for each seed.
- *here*: the median over seeds, with its interval (nominal level 95 %, measured coverage 93 to 94 % for five seeds).
- *world*: cluster, jobs, load and seeds of the simulations. A load is the demand as a fraction of all GPUs.
- *holds*: the factor reaches the tolerance of the claim, and the whole interval is above 1.
- *weaker*: the median factor is above 1, but smaller or less certain; or it is 1, and the interval ends above 1.
- *does not hold*: the direction is wrong, or a run failed. A list below the table gives the reasons.
- *true durations*: the schedulers that read true durations of jobs, which no real cluster knows.
- *estimated rho*: completion time divided by the time alone times the mean number of jobs in the system. `compare --fairness` simulates the job alone on its share instead.

";

/// Checks claims, and compares results and page with the recorded ones, or rewrites them.
fn check(fast: bool) {
    let registry = blox::released::register_baselines(blox::registry());
    let plan = Plan::new(&registry, selected(&[], fast).unwrap());
    let checked = plan.check(&[], &Default::default(), None);
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
    wrong += &stale(&records().updated(&checked));
    assert!(
        wrong.is_empty(),
        "correct the scheduler, or the expected verdict and its reason:\n{wrong}"
    );
}

/// Returns how results and page differ from the recorded ones, or rewrites them.
fn stale(found: &Records) -> String {
    let page = format!("{INTRODUCTION}{}\n", found.page().trim_end());
    let mut stale = String::new();
    let files = [(FILE.into(), found.file()), (PAGE.into(), page)];
    for (path, expected) in files.into_iter().chain(documents(found)) {
        let text = fs::read_to_string(&path).unwrap_or_default();
        if std::env::var_os("BLOX_BLESS").is_some() {
            if text != expected {
                fs::write(&path, expected).unwrap();
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
        if text != expected {
            stale += &format!(
                "{path} is not current: run `BLOX_BLESS=1 cargo test --all-features --test claims`\n"
            );
            let differ = text.iter().zip(&expected).filter(|(a, b)| a != b);
            differ.for_each(|(a, b)| stale += &format!("  {a}\n  {b}\n"));
        }
    }
    stale
}

/// Returns the file of each scheduler with claims, with their counts in its documentation.
fn documents(found: &Records) -> Vec<(String, String)> {
    let registry = blox::registry();
    let shipped = |paper: &&Paper| registry.schedulers.get(&paper.name).is_some();
    let document = |paper: &Paper| {
        let name = &paper.name;
        let path = format!("examples/schedulers/src/{}.rs", name.replace('-', "_"));
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let (before, rest) = text.split_once(CLAIMS).unwrap_or_else(|| panic!("{path}"));
        let (_, after) = rest.split_once('\n').unwrap();
        let counts = found.counts(paper);
        let line = format!("{CLAIMS}{counts}: `blox policies {name}`.\n");
        (path, format!("{before}{line}{after}"))
    };
    papers().iter().filter(shipped).map(document).collect()
}

#[test]
fn schedulers_link_to_their_claims() {
    let page = fs::read_to_string("docs/src/reference/schedulers.md").unwrap();
    let claims = fs::read_to_string(PAGE).unwrap();
    for (name, _) in blox::registry().schedulers.iter() {
        let mut rows = page.lines();
        let row = rows.find(|line| line.starts_with(&format!("| `{name}` |")));
        let has = papers().iter().any(|paper| paper.name == name);
        let link = format!("](claims.md#{name})");
        assert_eq!(row.is_some_and(|row| row.contains(&link)), has, "{name}");
        assert_eq!(claims.contains(&format!("\n## {name}\n")), has, "{name}");
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
const WITHOUT: [&str; 9] = [
    "fifo",
    "sjf",
    "srtf",
    "las",
    "edf",
    "edf-admission",
    "ef",
    "tiresias-dlas-gpu",
    "serving",
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
