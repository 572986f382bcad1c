//! The folder of a sweep.
//!
//! ```text
//! sweep.json              what was asked for, and which runs are finished
//! sweep.csv               a row a finished run
//! groups.csv              with `--by`: a row a finished run and group
//! runs/NAME/jobs.csv      what `simulate` writes
//! runs/NAME/timeline.csv
//! runs/NAME/summary.json
//! runs/NAME/rounds.csv    if asked for, as is assignments.csv
//! runs/NAME/manifest.json last of all: without it the run is not whole
//! plots/                  if asked for
//! report.html             if asked for
//! blox.lock               held locked by the process that writes here; means nothing
//!                         without one
//! ```
//!
//! `sweep.csv` has these columns, in this order. Fields of settings that are not given are empty.
//!
//! | column | content |
//! |---|---|
//! | `run` | name of the run and of its folder |
//! | `scheduler` | the scheduler with its parameters, as in `las{guard_h=500}` |
//! | `policy` | the scheduler's name without parameters |
//! | `param_NAME` | one column for each parameter that a scheduler of the sweep sets |
//! | options | one column for each option of a run, by its long name with `_` for `-`: `seed`, `load`, `cluster`, `workload`, `durations`, `measure`, ...; but `--jobs` is `max_jobs`. Defaults that depend on the workload are filled in |
//! | `nodes`, `gpus` | the size of the cluster |
//! | `ended` | `finished`, `standstill` if no job gets further, `starved` if the measured jobs do not, or `horizon` at the limit of `--until` |
//! | `end_s` | end of the simulation, in simulated seconds |
//! | `deadlines_met`, ... | figures with parts, such as deadlines and fairness, if a run has them |
//! | `COLLECTOR_FIGURE` | one column for each figure of each collector of `--collect`, after all others |
//! | figures | the columns of [`figure_columns`] without the scheduler: `jobs`, `measured`, `completed`, `complete`, ..., `avg_jct_s`, ... |
//!
//! Rows are in order of run: seeds outermost, then `--vary`, then loads, then
//! schedulers. Numbers read back to the same bits. Rows of one setting and scheduler that
//! differ in `seed` alone are repetitions: a median over them has an interval of
//! [`Estimate`](blox_results::statistics::Estimate).

use super::super::files::write_whole;
use super::super::lock::Lock;
use super::super::output::{self, GROUPS, INDEX, MANIFEST, RUN_FILES, TABLE, pretty};
use crate::failure::Failure;
use crate::plan::Plan;
use crate::shard::Shard;
use blox_experiment::{Finished, VariedResults};
use blox_results::losses::Lost;
use blox_results::{Groups, Run, collected_columns, figure_columns, grid, part_columns};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Returns what is kept of a run, with its settings.
pub(super) fn finished(
    plan: &Plan<'_>,
    i: usize,
    figures: Map<String, Value>,
    lost: Lost,
) -> Finished {
    let mut run = Finished::of(figures, lost);
    run.row = row(plan, i, run.row);
    let groups = run.groups.into_iter();
    run.groups = groups.map(|group| row(plan, i, group)).collect();
    run
}

/// Result of a run so far, or an error message.
pub(super) type Row = Result<Finished, String>;

/// The folder of a sweep.
pub(super) struct Store {
    pub dir: PathBuf,
    settings: Value,
    command_line: Vec<String>,
    shard: Option<Shard>,
    _lock: Lock,
}

impl Store {
    /// Creates the folder, or opens one in which the same sweep was started.
    pub fn open(
        dir: &Path,
        plan: &Plan<'_>,
        args: &[OsString],
        shard: Option<Shard>,
    ) -> Result<Self, Failure> {
        let force = plan.options.force;
        output::spare(plan.files(), dir, plan.run_folders(), force)?;
        let lock = Lock::take(dir)?;
        let index = dir.join(INDEX);
        if force || !index.exists() {
            output::clear(dir, force)?;
        }
        let store = Store {
            dir: dir.to_owned(),
            settings: settings(plan),
            command_line: output::command_line(args),
            shard,
            _lock: lock,
        };
        let begun = match std::fs::read_to_string(&index) {
            Ok(text) => Some(text),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => {
                return Err(Failure::new(format!(
                    "{}: cannot be read: {e}",
                    index.display()
                )));
            }
        };
        if let Some(text) = begun {
            store.same_sweep(&text)?;
        }
        Ok(store)
    }

    fn same_sweep(&self, text: &str) -> Result<(), Failure> {
        let index = self.dir.join(INDEX);
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let Some(begun) = value.get("settings") else {
            return Err(Failure::new(format!(
                "{}: is no index of a sweep, expected one, another --output-dir, or --force to begin anew",
                index.display()
            )));
        };
        if extends(&self.settings, begun) {
            return Ok(());
        }
        match difference("", begun, &self.settings) {
            None => Ok(()),
            Some((key, was, is)) => Err(Failure::new(format!(
                "{}: a sweep with other settings was begun here ({key} was {was}, now it is {is}), \
                 expected the same settings, another --output-dir, or --force to begin anew",
                self.dir.display()
            ))),
        }
    }

    /// Returns a run that is already finished.
    pub fn finished(&self, plan: &Plan<'_>, run: usize) -> Option<Finished> {
        Store::finished_in(&plan.folder(run)?, plan, run)
    }

    /// Returns a run that is finished in a folder. Its manifest must have these settings, and its
    /// files the recorded sizes.
    pub fn finished_in(dir: &Path, plan: &Plan<'_>, run: usize) -> Option<Finished> {
        let read = |name: &str| -> Option<Value> {
            serde_json::from_str(&std::fs::read_to_string(dir.join(name)).ok()?).ok()
        };
        let manifest = read(MANIFEST)?;
        if manifest.get("settings")? != &of_run(plan, run) {
            return None;
        }
        for (name, bytes) in manifest.get("files")?.as_object()? {
            let size = std::fs::metadata(dir.join(name)).ok()?.len();
            if bytes.as_u64() != Some(size) {
                return None;
            }
        }
        let lost = manifest.get("lost").cloned().unwrap_or_default();
        let lost = serde_json::from_value(lost).unwrap_or_default();
        match read("summary.json")? {
            Value::Object(figures) => Some(finished(plan, run, figures, lost)),
            _ => None,
        }
    }

    /// Writes a run, with its manifest last.
    pub fn write(&self, plan: &Plan<'_>, i: usize, run: &Run) -> Result<(), Failure> {
        let experiment = plan.experiment(&plan.runs[i]);
        let results = plan.results(experiment, [run], &[]);
        let dir = plan.folder(i).unwrap_or_default();
        output::write_run(&dir, run, &plan.options)?;
        let size = |name: &&str| Some(std::fs::metadata(dir.join(name)).ok()?.len());
        // Without the manifest of an earlier run.
        let files = RUN_FILES.iter().filter(|name| **name != MANIFEST);
        let files = files.filter_map(|name| Some(((*name).to_owned(), json!(size(name)?))));
        let files: Map<String, Value> = files.collect();
        let mut manifest = json!({
            "blox_version": env!("CARGO_PKG_VERSION"),
            "commit": output::COMMIT,
            "status": "complete",
            "seeds": [experiment.seed],
            "settings": of_run(plan, i),
            "workload": run.workload,
            "nodes": experiment.cluster.nodes.len(),
            "gpus": experiment.cluster.total_gpus(),
            "cluster": output::cluster(&experiment.cluster),
            "files": files,
            "assumptions": results.assumptions().fields(),
            "notices": results.notices(),
            "lost": run.lost,
        });
        if !experiment.cluster.offers.is_empty() {
            manifest["offers"] = output::offers(&experiment.cluster).into();
        }
        write_whole(&dir.join(MANIFEST), |out| pretty(out, &manifest))
    }

    /// Writes the index and the table of the results so far.
    pub fn write_index(
        &self,
        plan: &Plan<'_>,
        rows: &[Option<Row>],
        status: &str,
    ) -> Result<(), Failure> {
        let runs: Vec<Value> = plan
            .names
            .iter()
            .zip(rows)
            .map(|(name, row)| match row {
                Some(Ok(_)) => json!({ "run": name, "status": "finished" }),
                Some(Err(why)) => json!({ "run": name, "status": "failed", "error": why }),
                None => json!({ "run": name, "status": "missing" }),
            })
            .collect();
        let mut seeds: Vec<u64> = plan.cells.iter().map(|cell| cell.experiment.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let results = super::results(plan, rows);
        let mut index = json!({
            "commit": output::COMMIT,
            "status": status,
            "seeds": seeds,
            "command_line": self.command_line,
            "settings": self.settings,
            "assumptions": results.assumptions().fields(),
            "runs": runs,
        });
        if let Some(shard) = self.shard {
            index["shard"] = shard.fields();
        }
        let text = table_of(plan, &results);
        write_whole(&self.dir.join(TABLE), |out| {
            io::Write::write_all(out, text.as_bytes())
        })?;
        if plan.by().is_some() {
            let text = groups_of(plan, &results);
            write_whole(&self.dir.join(GROUPS), |out| {
                io::Write::write_all(out, text.as_bytes())
            })?;
        }
        write_whole(&self.dir.join(INDEX), |out| pretty(out, &index))
    }
}

/// Returns the content of `sweep.csv`.
pub(super) fn table_of(plan: &Plan<'_>, results: &VariedResults<'_, '_>) -> String {
    let mut head = setting_columns(plan);
    head.extend(["nodes", "gpus", "ended", "end_s"].map(str::to_owned));
    head.extend(figure_columns().skip(1).map(str::to_owned));
    let mut rows: Vec<Map<String, Value>> = results.rows().cloned().collect();
    head.extend(part_columns(&rows));
    head.extend(collected_columns(&mut rows));
    grid::csv(&head, &rows)
}

/// Returns the content of `groups.csv`: a row for each run and group. The columns of settings, the
/// column of `--by`, then figures.
pub(super) fn groups_of(plan: &Plan<'_>, results: &VariedResults<'_, '_>) -> String {
    let mut head = setting_columns(plan);
    head.extend(Groups::columns(plan.by().unwrap_or_default()));
    let rows: Vec<Map<String, Value>> = results.group_rows().cloned().collect();
    head.extend(part_columns(&rows));
    grid::csv(&head, &rows)
}

/// Returns the columns of settings of both tables.
fn setting_columns(plan: &Plan<'_>) -> Vec<String> {
    let (mut params, mut options) = (BTreeSet::new(), BTreeSet::new());
    for (i, run) in plan.runs.iter().enumerate() {
        let set = plan.contestant(run).named.params.names();
        params.extend(set.map(|name| format!("param_{name}")));
        options.extend(of_options(plan, i).into_iter().map(|(key, _)| key));
    }
    let mut head: Vec<String> = ["run", "scheduler", "policy"].map(str::to_owned).to_vec();
    head.extend(params);
    head.extend(options);
    head
}

/// Returns the row of a run from its figures.
fn row(plan: &Plan<'_>, i: usize, figures: Map<String, Value>) -> Map<String, Value> {
    let run = &plan.runs[i];
    let experiment = plan.experiment(run);
    let spec = &plan.contestant(run).named;
    let mut row = of_options(plan, i);
    for name in spec.params.names() {
        row.insert(format!("param_{name}"), json!(spec.params.text(name)));
    }
    row.insert("run".to_owned(), json!(plan.names[i]));
    row.insert("policy".to_owned(), json!(spec.name));
    row.insert("nodes".to_owned(), json!(experiment.cluster.nodes.len()));
    // The column of groups may be `gpus`, and then replaces this value.
    row.insert("gpus".to_owned(), json!(experiment.cluster.total_gpus()));
    // Lists, such as counts of reasons, are only in summary.json.
    row.extend(
        figures
            .into_iter()
            .filter(|(k, v)| k == "collected" || !v.is_object() && !v.is_array()),
    );
    row
}

/// Returns the options of a run by column.
fn of_options(plan: &Plan<'_>, i: usize) -> Map<String, Value> {
    let experiment = plan.experiment(&plan.runs[i]);
    output::configuration(plan.values(&experiment.given))
        .into_iter()
        .filter(|(key, v)| {
            let of_results = [
                "rounds",
                "assignments",
                "why",
                "by",
                "file-format",
                "visit-every-round",
                "forbid-true-durations",
            ]
            .contains(&key.as_str());
            !of_results && !v.is_array() && !v.is_object()
        })
        .map(|(key, v)| match key.as_str() {
            "jobs" => ("max_jobs".to_owned(), v),
            key => (key.replace('-', "_"), v),
        })
        .collect()
}

/// Returns the settings that identify a sweep.
pub(super) fn settings(plan: &Plan<'_>) -> Value {
    let mut base = output::configuration(plan.values(&plan.given));
    base.remove("schedulers");
    let axes: Map<String, Value> = plan
        .axes
        .iter()
        .map(|a| (a.key.clone(), json!(a.values)))
        .collect();
    let mut inputs = Vec::new();
    for cell in &plan.cells {
        for input in output::inputs(&cell.experiment.inputs) {
            // The content of the configuration file is in the settings themselves.
            let is_file = plan
                .given
                .origin
                .path()
                .is_some_and(|f| input["path"].as_str() == Some(&*f.to_string_lossy()));
            if !is_file && !inputs.contains(&input) {
                inputs.push(input);
            }
        }
    }
    json!({
        "blox_version": env!("CARGO_PKG_VERSION"),
        "schedulers": plan.schedulers().collect::<Vec<_>>(),
        "varied": axes,
        "configuration": base,
        "inputs": inputs,
    })
}

/// Returns the settings that identify a run.
pub(crate) fn of_run(plan: &Plan<'_>, i: usize) -> Value {
    let run = &plan.runs[i];
    let mut options = output::configuration(plan.values(&plan.experiment(run).given));
    options.remove("schedulers");
    json!({
        "blox_version": env!("CARGO_PKG_VERSION"),
        "scheduler": plan.label(run),
        "configuration": options,
    })
}

/// Returns whether a sweep has all runs of an earlier one: more schedulers or values, and otherwise
/// the same settings.
pub(super) fn extends(now: &Value, before: &Value) -> bool {
    let has = |list: &Value, part: &Value| {
        let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut part = part.as_array().into_iter().flatten();
        part.all(|value| list.contains(value))
    };
    let same = |key: &str| now[key] == before[key];
    let empty = Map::new();
    let varied = |of: &'_ Value| of["varied"].as_object().cloned().unwrap_or(empty.clone());
    let (axes, earlier) = (varied(now), varied(before));
    same("blox_version")
        && same("configuration")
        && has(&now["schedulers"], &before["schedulers"])
        && has(&now["inputs"], &before["inputs"])
        && axes.keys().eq(earlier.keys())
        && axes.iter().all(|(key, values)| has(values, &earlier[key]))
}

/// Returns the first difference between two values.
pub(super) fn difference(at: &str, was: &Value, is: &Value) -> Option<(String, String, String)> {
    if let (Value::Object(a), Value::Object(b)) = (was, is) {
        let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        return keys.into_iter().find_map(|key| {
            let missing = &Value::Null;
            let (a, b) = (a.get(key).unwrap_or(missing), b.get(key).unwrap_or(missing));
            let at = if at.is_empty() {
                key.clone()
            } else {
                format!("{at}.{key}")
            };
            difference(&at, a, b)
        });
    }
    let shown = |v: &Value| match v {
        Value::Null => "not given".to_owned(),
        v => v.to_string(),
    };
    (was != is).then(|| (at.to_owned(), shown(was), shown(is)))
}
