//! The recorded cases of this crate are equal, and a changed value shows.

use blox_released::verify::{Compared, compare, find_cases, names};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded")
}

#[test]
fn recorded_cases_of_every_system_are_equal() {
    let mut all: BTreeMap<&str, Vec<Compared>> = BTreeMap::new();
    for case in find_cases(&recorded()).unwrap() {
        let found = compare(&case, None).unwrap();
        let at = case.display();
        assert_eq!(found.differences, [], "{at}");
        assert!(found.values >= 20, "{at}: {} values", found.values);
        all.entry(found.system).or_default().push(found);
    }
    for system in names() {
        // Some cases compare averages alone.
        let jobs = all.get(system).into_iter().flatten().map(|c| c.jobs);
        let jobs = jobs.max().unwrap_or(0);
        assert!(jobs >= 10, "{system}: at most {jobs} jobs a case");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

/// Adds an hour to the end of the first job in `expected.csv`. Returns the column.
fn delay_first_end(case: &Path) -> String {
    let path = case.join("expected.csv");
    let text = fs::read_to_string(&path).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let (row, rest) = rest.split_once('\n').unwrap();
    let is_end = |name: &&str| ["finish_s", "finish", "end_time"].contains(name);
    let name = header.split(',').find(is_end).unwrap();
    let column = header.split(',').position(|n| n == name).unwrap();
    let mut cells: Vec<String> = row.split(',').map(str::to_owned).collect();
    let end: f64 = cells[column].parse().unwrap();
    cells[column] = (end + 3600.0).to_string();
    fs::write(&path, format!("{header}\n{}\n{rest}", cells.join(","))).unwrap();
    name.to_owned()
}

#[test]
fn changed_end_makes_a_recorded_case_differ() {
    let folder = tempfile::tempdir().unwrap();
    for system in names() {
        let copied = folder.path().join(system);
        copy(&recorded().join(system), &copied);
        let case = find_cases(&copied).unwrap().remove(0);
        assert_eq!(compare(&case, None).unwrap().differences, [], "{system}");
        let column = delay_first_end(&case);
        let found = compare(&case, None).unwrap().differences;
        let shows = found.iter().any(|d| d.column == column);
        assert!(shows, "{system}: {column} is not among {found:?}");
    }
}
