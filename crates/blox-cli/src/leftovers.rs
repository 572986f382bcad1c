//! Files that an earlier run left in an output folder. Files are recognized by their names, and
//! folders of runs by their summaries. Other files are never touched.

use super::files::{folder_name, part_of};
use super::output::{GROUPS, INDEX, MANIFEST, RUN_FILES, TABLE};
use crate::failure::Failure;
use blox_results::{GANTT, GROUP_DISTRIBUTION, SUMMARIES};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files in the output folder itself. The manifest comes first, because it marks complete results.
const FILES: [&str; 5] = [MANIFEST, INDEX, TABLE, GROUPS, "report.html"];

/// Returns the files in an output folder that this program wrote.
pub(super) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = FILES.iter().map(|name| dir.join(name)).collect();
    for folder in run_folders(dir) {
        list.extend(RUN_FILES.iter().map(|name| folder.join(name)));
    }
    let parts: Vec<PathBuf> = list.iter().map(|path| part_of(path)).collect();
    list.extend(parts);
    list.retain(|path| path.is_file());
    let settings = settings(dir);
    let drawn = |path: &PathBuf| is_picture(path, &settings);
    list.extend(entries(&dir.join("plots")).into_iter().filter(drawn));
    list
}

/// Removes these files, and the folders that are empty afterwards.
pub(super) fn clear(dir: &Path) -> Result<(), Failure> {
    let folders = run_folders(dir);
    for path in files(dir) {
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                let shown = path.display();
                return Err(Failure::new(format!("{shown}: cannot be removed: {e}")));
            }
            _ => {}
        }
    }
    for folder in folders
        .into_iter()
        .chain([dir.join("runs"), dir.join("plots")])
    {
        // A folder with other files stays.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the folders of schedulers, and of the runs of a sweep.
fn run_folders(dir: &Path) -> Vec<PathBuf> {
    let mut list = entries(dir);
    // A number distinguishes folders with the same name.
    list.retain(|folder| {
        is_run(folder, |rest| {
            rest.is_empty()
                || rest
                    .strip_prefix('-')
                    .is_some_and(|n| n.parse::<u32>().is_ok())
        })
    });
    let mut swept = entries(&dir.join("runs"));
    swept.retain(|folder| is_run(folder, |_| true));
    list.extend(swept);
    list
}

/// Returns whether a folder is named after the scheduler in its summary, with an allowed suffix.
fn is_run(folder: &Path, may_follow: impl Fn(&str) -> bool) -> bool {
    let summary = fs::read(folder.join("summary.json"));
    let summary: Option<Value> = summary.ok().and_then(|s| serde_json::from_slice(&s).ok());
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    summary.is_some_and(|s| {
        let scheduler = s["scheduler"].as_str().map(folder_name);
        let rest = scheduler.and_then(|plain| name.strip_prefix(plain.as_str()));
        s["end_s"].is_number() && rest.is_some_and(may_follow)
    })
}

/// Returns the columns of a sweep's table, which include the names of varied options.
fn settings(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join(TABLE)).unwrap_or_default();
    let head = text.lines().next().unwrap_or_default();
    head.split(',').map(str::to_owned).collect()
}

fn is_picture(path: &Path, settings: &[String]) -> bool {
    let formats = ["svg", "png", "pdf"];
    let drawn = path
        .extension()
        .is_some_and(|e| formats.iter().any(|f| e == *f));
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let of_sweep = |(varied, figure): (&str, &str)| {
        let figures = [
            "jct",
            "p99-jct",
            "responsiveness",
            "utilisation",
            "fairness",
        ];
        figures.contains(&figure) && (varied == "load" || settings.iter().any(|s| s == varied))
    };
    drawn
        && (SUMMARIES.iter().any(|kind| kind.name == name)
            || [GANTT, GROUP_DISTRIBUTION, "jct-cdf_"]
                .iter()
                .any(|start| name.starts_with(start))
            || name.split_once('-').is_some_and(of_sweep))
}
