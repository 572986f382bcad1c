//! `blox verify`: compares results with original programs.

use super::args::VerifyArgs;
use crate::failure::Failure;
use crate::terminal::{DIFFERS, OK, Terminal};
use blox_core::suggest::did_you_mean;
use blox_released::{recorded, verify};
use blox_results::number_of;
use std::collections::{BTreeMap, BTreeSet};

/// Number of differences shown for each case without `--all`.
const SHOWN: usize = 20;

pub(super) fn run(args: &VerifyArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    // Cases of the program lie in a temporary folder while the command runs.
    let mut own = None;
    let dir = match &args.dir {
        Some(dir) => dir.as_path(),
        None => {
            let folder = tempfile::tempdir().and_then(|folder| {
                recorded::write(folder.path())?;
                Ok(folder)
            });
            let wrong = |e| Failure::new(format!("the recorded cases cannot be written: {e}"));
            own.insert(folder.map_err(wrong)?).path()
        }
    };
    if !dir.is_dir() {
        let what = if dir.exists() {
            "is a file"
        } else {
            "no such folder"
        };
        return Err(Failure::new(format!(
            "{}: {what}, expected a folder with expected.csv or folders of such",
            dir.display()
        )));
    }
    if let Some(name) = &args.system
        && !verify::names().iter().any(|n| n.eq_ignore_ascii_case(name))
    {
        let known = verify::names().join(", ");
        return Err(Failure::new(format!(
            "unknown system `{name}`{}known: {known}",
            did_you_mean(name, verify::names(), "; ")
        )));
    }
    let cases = verify::find_cases(dir)?;
    let mut equal = 0;
    // Columns of each system with which no case is compared.
    let mut open: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut closed: BTreeSet<(&str, String)> = BTreeSet::new();
    for case in &cases {
        let shown = match &args.dir {
            Some(_) => case,
            None => case.strip_prefix(dir).unwrap_or(case),
        };
        let path = shown.display();
        let compared = verify::compare(case, args.system.as_deref());
        let size = |c: &verify::Compared| {
            let (jobs, values) = (number_of(c.jobs, "job"), number_of(c.values, "value"));
            let fingerprint = match (&c.fingerprint, args.fingerprint) {
                (Some(hash), true) => format!(", fingerprint {hash}"),
                (None, true) => ", run directly".to_owned(),
                (_, false) => String::new(),
            };
            format!("{jobs}, {values}{fingerprint}")
        };
        if let Ok(c) = &compared {
            let of_system = open.entry(c.system).or_default();
            for column in &c.not_compared {
                if !of_system.contains(column) {
                    of_system.push(column.clone());
                }
            }
            closed.extend(c.compared_by().map(|column| (c.system, column.to_owned())));
        }
        match &compared {
            Ok(c) if c.differences.is_empty() => {
                equal += 1;
                writeln!(terminal.out, "equal  {path}  {}", size(c))?;
            }
            Ok(c) => {
                let n = c.differences.len();
                let differ = if n == 1 { "differs" } else { "differ" };
                writeln!(terminal.out, "DIFFERS  {path}  {}, {n} {differ}", size(c))?;
                let shown = if args.all { n } else { n.min(SHOWN) };
                for d in &c.differences[..shown] {
                    writeln!(
                        terminal.out,
                        "  {}: {} expected {}, found {}",
                        d.what, d.column, d.expected, d.found
                    )?;
                }
                if shown < n {
                    writeln!(terminal.out, "  and {} more; --all shows them", n - shown)?;
                }
            }
            Err(e) => writeln!(terminal.out, "ERROR  {e}")?,
        }
        for note in compared.iter().flat_map(|c| &c.notes) {
            writeln!(terminal.out, "  note: {note}")?;
        }
    }
    for (system, mut columns) in open {
        columns.retain(|column| !closed.contains(&(system, column.clone())));
        if !columns.is_empty() {
            let columns = columns.join(", ");
            writeln!(terminal.out, "not compared in {system}: {columns}")?;
        }
    }
    writeln!(terminal.out, "{equal} of {} cases equal", cases.len())?;
    Ok(if equal == cases.len() { OK } else { DIFFERS })
}
