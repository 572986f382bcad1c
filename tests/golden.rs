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

#[test]
fn every_case_of_lucid_is_equal_but_for_those_of_a_solver() {
    let Some(golden) = std::env::var_os("BLOX_GOLDEN") else {
        println!("skipped: BLOX_GOLDEN is not set");
        return;
    };
    let mut equal = 0;
    for case in find_cases(&Path::new(&golden).join("lucid")).unwrap() {
        let shown = case.display();
        if case.ends_with("cbc") {
            let error = compare(&case, None).unwrap_err().to_string();
            assert!(error.contains("mixed-integer solver"), "{error}");
            continue;
        }
        let compared = compare(&case, None).unwrap();
        assert!(compared.values > 0, "{shown}");
        assert_eq!(compared.differences, [], "{shown}");
        equal += 1;
    }
    assert!(equal >= 20, "{equal}");
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
