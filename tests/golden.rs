//! The cases of original programs, where `BLOX_GOLDEN` names their folder.

use blox::verify::{compare, compare_visiting_every_round, find_cases};
use std::path::Path;

#[test]
fn every_case_of_blox_is_equal() {
    every_case_is_equal("blox");
}

#[test]
fn every_case_of_tiresias_is_equal() {
    every_case_is_equal("tiresias");
}

#[test]
fn every_case_of_elasticflow_is_equal() {
    every_case_is_equal("elasticflow");
}

#[test]
fn every_case_of_synergy_is_equal() {
    every_case_is_equal("synergy");
}

/// Those of 30 jobs at most: the others are for `blox verify`, built to be fast.
#[test]
fn every_small_case_of_sia_is_equal() {
    let Some(golden) = std::env::var_os("BLOX_GOLDEN") else {
        println!("skipped: BLOX_GOLDEN is not set");
        return;
    };
    let mut checked = 0;
    for case in find_cases(&Path::new(&golden).join("sia")).unwrap() {
        let expected = std::fs::read_to_string(case.join("expected.csv")).unwrap();
        if expected.lines().count() > 31 {
            continue;
        }
        let compared = compare(&case, None).unwrap();
        assert!(compared.values > 0, "{}", case.display());
        assert_eq!(compared.differences, [], "{}", case.display());
        checked += 1;
    }
    assert!(checked > 0);
}

fn every_case_is_equal(system: &str) {
    let Some(golden) = std::env::var_os("BLOX_GOLDEN") else {
        println!("skipped: BLOX_GOLDEN is not set");
        return;
    };
    for case in find_cases(&Path::new(&golden).join(system)).unwrap() {
        let compared = compare(&case, None).unwrap();
        assert!(compared.values > 0, "{}", case.display());
        assert_eq!(compared.differences, [], "{}", case.display());
        let visited = compare_visiting_every_round(&case, None).unwrap();
        assert_eq!(visited.differences, [], "{}", case.display());
    }
}
