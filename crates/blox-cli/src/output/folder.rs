//! Result folders, in which each file is complete or missing.

use super::super::files::{check_writable, write_whole};
use super::super::leftovers;
use super::super::lock::{LOCK, Lock};
use super::super::plot::Drawing;
use super::names::{CHROME, GROUPS, RUN_FILES};
use super::printed::pretty;
use super::tables::write_table;
use crate::args::Output;
use crate::failure::{Code, Failure};
use crate::plan::Plan;
use crate::plot;
use blox_results::grid::csv;
use blox_results::{
    Groups, InputColumns, Run, flattened, part_columns, write_jobs, write_rounds, write_timeline,
};
use blox_traces::formats::csv::{input_cell, input_columns};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Returns the output folder. Without one, options that write into it are an error.
pub(crate) fn folder(o: &Output) -> Result<Option<&Path>, Failure> {
    let asked = [
        ("plots", o.plots),
        ("report", o.report),
        ("assignments", o.assignments),
        ("rounds", o.rounds),
        ("file-format", o.file_format.is_some()),
        ("force", o.force && o.journal.is_none()),
    ];
    match (&o.output_dir, asked.iter().find(|(_, asked)| *asked)) {
        (Some(dir), _) => Ok(Some(dir)),
        (None, None) => Ok(None),
        (None, Some((what, _))) => Err(nowhere(what)),
    }
}

/// Returns the error for an option that needs an output folder.
pub(crate) fn nowhere(what: &str) -> Failure {
    Failure::of(
        Code::Output,
        format!("--{what} has nowhere to write, expected --output-dir DIR with it"),
    )
}

/// Draws the pictures and the report of a result folder, if requested.
pub(crate) fn draw(dir: &Path, plots: bool, report: bool) -> Result<(), Failure> {
    let dirs = [dir.to_owned()];
    if plots {
        plot::draw(&dirs, &dir.join("plots"), &[], &[plot::Format::Svg])?;
    }
    if report {
        plot::write_page(&dirs, &dir.join("report.html"))?;
    }
    Ok(())
}

/// Creates a temporary folder for results that are only drawn.
pub(crate) fn scratch() -> Result<TempDir, Failure> {
    tempfile::tempdir().map_err(|e| {
        let text = format!("no temporary folder can be made: {e}");
        Failure::at(&std::env::temp_dir(), text)
    })
}

/// Returns the pictures of `--plot`. A picture that would replace an input, or that cannot be
/// written, is an error.
pub(crate) fn drawings(plan: &Plan<'_>) -> Result<Vec<Drawing>, Failure> {
    let files = resolved(plan.files());
    let mut list: Vec<Drawing> = Vec::new();
    for text in plan.options.plot.iter().flatten() {
        let folders = plan.folders.iter().map(String::as_str);
        let drawing = Drawing::of(text, folders)?;
        let path = drawing.path();
        if path.canonicalize().is_ok_and(|p| files.contains_key(&p)) {
            let text = "is read, and the picture would replace it, expected another --plot";
            return Err(Failure::at(path, text));
        }
        check_writable(path)?;
        if list.iter().any(|other| place(other.path()) == place(path)) {
            let text = "is given to --plot twice, expected a file for each picture";
            return Err(Failure::at(path, text));
        }
        list.push(drawing);
    }
    Ok(list)
}

/// Returns a path to a file that may not exist, with its folder in canonical form.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Returns a hint about requested pictures after an interruption.
pub(crate) fn drawn_later(asked: bool) -> &'static str {
    match asked {
        true => "; `blox plot` and `blox report` draw what there is",
        false => "",
    }
}

/// Rejects an output folder if its results would replace an input file. With `force`, files of an
/// earlier run are replaced too.
pub(crate) fn spare<'a>(
    files: impl IntoIterator<Item = &'a PathBuf>,
    dir: &Path,
    folders: impl IntoIterator<Item = PathBuf>,
    force: bool,
) -> Result<(), Failure> {
    let files = resolved(files);
    let cleared = match force {
        true => leftovers::files(dir),
        false => Vec::new(),
    };
    let mut replaced = cleared
        .iter()
        .find_map(|p| files.get(&p.canonicalize().ok()?));
    for folder in folders {
        // A folder that does not exist replaces nothing.
        let Ok(folder) = folder.canonicalize() else {
            continue;
        };
        let mut names = RUN_FILES.iter();
        replaced = replaced.or_else(|| names.find_map(|n| files.get(&folder.join(n))));
    }
    match replaced {
        None => Ok(()),
        Some(file) => {
            let text = "is read, and the results would replace it, expected another --output-dir";
            Err(Failure::at(file, text))
        }
    }
}

/// Maps files by their canonical paths.
pub(super) fn resolved<'a>(
    files: impl IntoIterator<Item = &'a PathBuf>,
) -> BTreeMap<PathBuf, &'a PathBuf> {
    let files = files.into_iter();
    files
        .filter_map(|file| Some((file.canonicalize().ok()?, file)))
        .collect()
}

/// Checks before a simulation that the folder can be written, and locks it. With `force`, removes
/// the results of an earlier run.
pub(crate) fn prepare(dir: &Path, force: bool) -> Result<Lock, Failure> {
    let lock = Lock::take(dir)?;
    clear(dir, force)?;
    Ok(lock)
}

/// Does the same as [`prepare`], for a caller that holds the lock.
pub(crate) fn clear(dir: &Path, force: bool) -> Result<(), Failure> {
    let cannot =
        |e: io::Error| Failure::at(dir, format!("the output folder cannot be written: {e}"));
    let mut full = false;
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        full |= entry.map_err(cannot)?.file_name() != LOCK;
    }
    if full && !force {
        let text = "the output folder is not empty, expected a new one, or --force";
        return Err(Failure::at(dir, text));
    }
    leftovers::clear(dir)
}

/// Writes the results of one scheduler into its folder.
pub(crate) fn write_run(dir: &Path, run: &Run, o: &Output) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::at(dir, format!("cannot be made: {e}")))?;
    // A file of an earlier run must not be mistaken for a new one.
    let formats = o.formats();
    let parquet = formats.parquet;
    let assignments = o.assignments || o.plots;
    for (file, asked) in [
        ("rounds.csv", o.rounds),
        ("assignments.csv", assignments),
        ("jobs.parquet", parquet),
        ("timeline.parquet", parquet),
        ("rounds.parquet", parquet && o.rounds),
        ("assignments.parquet", parquet && assignments),
        (GROUPS, o.by.is_some()),
        (CHROME, formats.chrome),
    ] {
        if !asked {
            // Usually the file does not exist.
            let _ = std::fs::remove_file(dir.join(file));
        }
    }
    let jobs = &run.report.jobs;
    let inputs = InputColumns {
        columns: input_columns(jobs.iter().filter_map(|job| job.spec.as_deref())),
        cell: input_cell,
    };
    write_table(dir, "jobs", formats, |out| write_jobs(out, jobs, &inputs))?;
    write_table(dir, "timeline", formats, |out| {
        write_timeline(out, &run.report.timeline)
    })?;
    if o.rounds {
        write_table(dir, "rounds", formats, |out| {
            write_rounds(out, &run.report.rounds)
        })?;
    }
    if let Some(groups) = &run.groups {
        let rows: Vec<_> = groups.fields().into_iter().map(flattened).collect();
        let mut head = Groups::columns(&groups.column);
        head.extend(part_columns(&rows));
        let text = csv(&head, &rows);
        write_whole(&dir.join(GROUPS), |out| out.write_all(text.as_bytes()))?;
    }
    write_whole(&dir.join("summary.json"), |out| {
        pretty(out, &run.figures(o.why))
    })
}
