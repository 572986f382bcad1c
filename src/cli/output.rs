//! Result folders, JSON and journals.

use super::Failure;
use super::args::Options;
use super::config::Given;
use super::files::write_whole;
use super::leftovers::{self, RUN_FILES};
use super::lock::{LOCK, Lock};
use super::resolve::{Experiment, Input};
use super::run::Run;
use super::{plot, report};
use blox_core::journal::{Entry, Journal, JsonLines};
use blox_core::{ClusterSpec, JobId, NodeSpec};
use blox_sim::results::{
    COLUMNS, Summary, WaitRow, statistics::Paired, write_jobs, write_rounds, write_timeline,
};
use blox_sim::{Ended, Report};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const MANIFEST: &str = "manifest.json";

/// What goes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFormat {
    Table,
    Markdown,
    Csv,
    Json,
}

impl OutputFormat {
    pub fn of(given: &Given) -> Result<Self, Failure> {
        let o = &given.options;
        match o.output_format.as_deref() {
            None if o.json => Ok(OutputFormat::Json),
            None | Some("table") => Ok(OutputFormat::Table),
            Some("markdown") => Ok(OutputFormat::Markdown),
            Some("csv") => Ok(OutputFormat::Csv),
            Some("json") => Ok(OutputFormat::Json),
            Some(other) => Err(given.wrong("output-format", other, "table, markdown, csv or json")),
        }
    }

    /// Whether it is for programs, so that notes go to standard error.
    pub fn is_data(self) -> bool {
        matches!(self, OutputFormat::Csv | OutputFormat::Json)
    }
}

/// The output folder; without one, nothing may be asked for that would lie in it.
pub(super) fn folder(o: &Options) -> Result<Option<&Path>, Failure> {
    let asked = [
        ("plots", o.plots),
        ("report", o.report),
        ("assignments", o.assignments),
        ("rounds", o.rounds),
        ("force", o.force && o.journal.is_none()),
    ];
    match (&o.output_dir, asked.iter().find(|(_, asked)| *asked)) {
        (Some(dir), _) => Ok(Some(dir)),
        (None, None) => Ok(None),
        (None, Some((what, _))) => Err(nowhere(what)),
    }
}

/// Something was asked for that would lie in an output folder, and there is none.
pub(super) fn nowhere(what: &str) -> Failure {
    Failure::new(format!(
        "--{what} has nowhere to write, expected --output-dir DIR with it"
    ))
}

/// Draws the pictures of a result folder and makes its page, as far as they are asked for.
pub(super) fn draw(dir: &Path, plots: bool, report: bool) -> Result<(), Failure> {
    let dirs = [dir.to_owned()];
    if plots {
        plot::draw(&dirs, &dir.join("plots"), &[], false)?;
    }
    if report {
        report::write(&dirs, &dir.join("report.html"))?;
    }
    Ok(())
}

/// What to say of pictures that were asked for, after an interruption.
pub(super) fn drawn_later(asked: bool) -> &'static str {
    match asked {
        true => "; `blox plot` and `blox report` draw what there is",
        false => "",
    }
}

/// Refuses results that would take the place of what they come from: in the folders of runs, or
/// by clearing away what an earlier run left.
pub(super) fn spare<'a>(
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
        // In a folder that is not there yet nothing is replaced.
        let Ok(folder) = folder.canonicalize() else {
            continue;
        };
        let mut names = RUN_FILES.iter();
        replaced = replaced.or_else(|| names.find_map(|n| files.get(&folder.join(n))));
    }
    match replaced {
        None => Ok(()),
        Some(file) => Err(Failure::new(format!(
            "{}: is read, and the results would replace it, expected another --output-dir",
            file.display()
        ))),
    }
}

/// Files by where they really are.
fn resolved<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> BTreeMap<PathBuf, &'a PathBuf> {
    let files = files.into_iter();
    files
        .filter_map(|file| Some((file.canonicalize().ok()?, file)))
        .collect()
}

/// Makes sure that results can be written, before anything is simulated, and by nobody else until
/// the end. Where they may be written over others, what is left of those goes.
pub(super) fn prepare(dir: &Path, force: bool) -> Result<Lock, Failure> {
    let lock = Lock::take(dir)?;
    clear(dir, force)?;
    Ok(lock)
}

/// As [`prepare`], for who holds the lock.
pub(super) fn clear(dir: &Path, force: bool) -> Result<(), Failure> {
    let cannot = |e: io::Error| {
        Failure::new(format!(
            "{}: the output folder cannot be written: {e}",
            dir.display()
        ))
    };
    let mut full = false;
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        full |= entry.map_err(cannot)?.file_name() != LOCK;
    }
    if full && !force {
        return Err(Failure::new(format!(
            "{}: the output folder is not empty, expected a new one, or --force",
            dir.display()
        )));
    }
    leftovers::clear(dir)
}

/// `summary.json`, and an element of what `--json` prints.
#[derive(Serialize)]
struct Figures<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    ended: &'static str,
    end_s: f64,
    /// Why jobs were rejected, counted by kind of reason; measured jobs only, as all counts.
    rejected_reasons: BTreeMap<&'static str, u64>,
    unfinished_reasons: BTreeMap<&'static str, u64>,
    /// Why measured jobs waited, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<&'a [WaitRow]>,
}

impl<'a> Figures<'a> {
    fn of(report: &'a Report, experiment: &Experiment<'_>) -> Self {
        Figures {
            waits: experiment.options.why.then_some(&report.waits),
            summary: &report.summary,
            ended: ended(report.ended),
            end_s: report.end.secs(),
            rejected_reasons: reasons(report, true),
            unfinished_reasons: reasons(report, false),
        }
    }
}

pub(super) fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::Finished => "finished",
        Ended::Standstill => "standstill",
        Ended::Interrupted => "interrupted",
    }
}

/// Kinds of reasons of measured jobs that were rejected, or had not ended.
pub(super) fn reasons(report: &Report, rejected: bool) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for job in report.jobs.iter().filter(|j| j.measured) {
        if job.outcome.is_some() == rejected
            && let Some(kind) = job.reason_kind
        {
            *counts.entry(kind).or_insert(0) += 1;
        }
    }
    counts
}

/// Writes one scheduler's results into its own folder.
pub(super) fn write_run(
    dir: &Path,
    folder: &str,
    run: &Run,
    experiment: &Experiment<'_>,
) -> Result<(), Failure> {
    let dir = dir.join(folder);
    std::fs::create_dir_all(&dir)
        .map_err(|e| Failure::new(format!("{}: cannot be made: {e}", dir.display())))?;
    let o = &experiment.options;
    // What an earlier run left must not pass for this one's.
    for (file, asked) in [
        ("rounds.csv", o.rounds),
        ("assignments.csv", o.assignments || o.plots),
    ] {
        if !asked {
            // Mostly it is not there.
            let _ = std::fs::remove_file(dir.join(file));
        }
    }
    write_whole(&dir.join("jobs.csv"), |out| {
        write_jobs(out, &run.report.jobs)
    })?;
    write_whole(&dir.join("timeline.csv"), |out| {
        write_timeline(out, &run.report.timeline)
    })?;
    if experiment.options.rounds {
        write_whole(&dir.join("rounds.csv"), |out| {
            write_rounds(out, &run.report.rounds)
        })?;
    }
    write_whole(&dir.join("summary.json"), |out| {
        pretty(out, &Figures::of(&run.report, experiment))
    })
}

pub(super) fn pretty(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Says that the results are whole: what they came from, and how they ended.
/// It holds no moment and no place, so that equal runs give equal bytes.
pub(super) fn write_manifest(
    dir: &Path,
    experiment: &Experiment<'_>,
    runs: &[&Run],
    args: &[OsString],
    interrupted: bool,
) -> Result<(), Failure> {
    let folder = |name: &str| {
        let c = experiment.contestants.iter().find(|c| c.label == name);
        c.map(|c| c.folder.as_str())
    };
    let schedulers: Vec<Value> = runs
        .iter()
        .map(|run| {
            let s = &run.report.summary;
            json!({
                "name": s.scheduler,
                "folder": folder(&s.scheduler),
                "jobs": s.jobs,
                "ended": ended(run.report.ended),
            })
        })
        .collect();
    let manifest = json!({
        "blox_version": env!("CARGO_PKG_VERSION"),
        "status": if interrupted { "interrupted" } else { "complete" },
        "command_line": command_line(args),
        "configuration": configuration(&experiment.options),
        "seed": experiment.seed,
        "inputs": inputs(&experiment.inputs),
        "workload": runs.first().map(|r| &r.workload),
        "nodes": experiment.cluster.nodes.len(),
        "gpus": experiment.cluster.total_gpus(),
        "cluster": cluster(&experiment.cluster),
        "schedulers": schedulers,
        "notices": super::table::notices(experiment, runs),
    });
    write_whole(&dir.join(MANIFEST), |out| pretty(out, &manifest))
}

/// Nodes in order of registration, a row for neighbours that are alike.
pub(super) fn cluster(spec: &ClusterSpec) -> Vec<Value> {
    let alike = |a: &NodeSpec, b: &NodeSpec| a.gpus == b.gpus && a.gpu_type == b.gpu_type;
    let kinds = spec.nodes.chunk_by(alike);
    kinds
        .map(|nodes| {
            json!({ "nodes": nodes.len(), "gpus": nodes[0].gpus, "gpu_type": nodes[0].gpu_type })
        })
        .collect()
}

/// The options that results depend on.
pub(super) fn configuration(options: &Options) -> Options {
    Options {
        output_dir: None,
        journal: None,
        report: false,
        force: false,
        quiet: false,
        json: false,
        output_format: None,
        ..options.clone()
    }
}

pub(super) fn inputs(inputs: &[Input]) -> Vec<Value> {
    let one = |i: &Input| json!({ "path": i.path.display().to_string(), "sha256": i.sha256 });
    inputs.iter().map(one).collect()
}

const LEFT_OUT: [&str; 4] = ["--output-dir", "--journal", "--threads", "--output-format"];

/// Without where the results go and how they are made, which changes nothing about them.
pub(super) fn command_line(args: &[OsString]) -> Vec<String> {
    let mut kept = vec!["blox".to_owned()];
    let mut args = args
        .iter()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            a if LEFT_OUT.contains(&a) => drop(args.next()),
            "--force" | "--quiet" | "-q" | "--json" => {}
            a if a
                .split_once('=')
                .is_some_and(|(a, _)| LEFT_OUT.contains(&a)) => {}
            _ => kept.push(arg),
        }
    }
    kept
}

/// `summary.json` as a value.
pub(super) fn figures(run: &Run, experiment: &Experiment<'_>) -> Result<Value, Failure> {
    serde_json::to_value(Figures::of(&run.report, experiment)).map_err(Failure::new)
}

/// What `--output-format json` prints: an object for `simulate`, a list of them for `compare`.
pub(super) fn json(
    experiment: &Experiment<'_>,
    runs: &[&Run],
    explained: Option<JobId>,
) -> Result<String, Failure> {
    let mut list = compared(experiment, runs)?;
    if explained.is_some() {
        for (row, run) in list.iter_mut().zip(runs) {
            row.insert("story".to_owned(), json!(run.report.story));
        }
    }
    match (experiment.compares, list.pop()) {
        (false, Some(one)) => pretty_text(&one),
        (_, last) => {
            list.extend(last);
            pretty_text(&list)
        }
    }
}

/// What `--output-format csv` prints: a row a scheduler.
pub(super) fn csv(experiment: &Experiment<'_>, runs: &[&Run]) -> Result<String, Failure> {
    let mut rows = compared(experiment, runs)?;
    let mut head: Vec<String> = COLUMNS.iter().map(|c| c.name.to_owned()).collect();
    head.extend(["ended".to_owned(), "end_s".to_owned()]);
    if experiment.compares {
        head.push("relative_avg_jct".to_owned());
        let paired = serde_json::to_value(Paired::default()).map_err(Failure::new)?;
        head.extend(flatten(&mut rows, "paired", &paired));
    }
    let summaries = || runs.iter().map(|r| &r.report.summary);
    if let Some(training) = summaries().find_map(|s| s.training) {
        let training = serde_json::to_value(training).map_err(Failure::new)?;
        head.extend(flatten(&mut rows, "training", &training));
    }
    if let Some(fairness) = summaries().find_map(|s| s.fairness) {
        let fairness = serde_json::to_value(fairness).map_err(Failure::new)?;
        head.extend(flatten(&mut rows, "fairness", &fairness));
    }
    super::grid::csv(&head, &rows)
}

/// Makes columns of an object in each row that has one, all with the keys of an example; their names.
fn flatten(
    rows: &mut [serde_json::Map<String, Value>],
    name: &str,
    example: &Value,
) -> Vec<String> {
    let column = |key: &String| format!("{name}_{key}");
    for row in rows {
        if let Some(Value::Object(parts)) = row.remove(name) {
            row.extend(parts.into_iter().map(|(key, value)| (column(&key), value)));
        }
    }
    let keys = example.as_object().into_iter().flat_map(|e| e.keys());
    keys.map(column).collect()
}

/// The figures of each run, with how it compares to the baseline.
fn compared(
    experiment: &Experiment<'_>,
    runs: &[&Run],
) -> Result<Vec<serde_json::Map<String, Value>>, Failure> {
    let base = super::table::base(experiment, runs);
    let mut list = Vec::new();
    for run in runs {
        let Value::Object(mut fields) = figures(run, experiment)? else {
            continue;
        };
        if let (true, Some(base)) = (experiment.compares, base) {
            let (s, b) = (&run.report.summary, &base.report.summary);
            if b.avg_jct_s > 0.0 {
                let relative = s.avg_jct_s / b.avg_jct_s;
                fields.insert("relative_avg_jct".to_owned(), json!(relative));
            }
            if s.scheduler != b.scheduler {
                let paired = Paired::of(&base.report.jobs, &run.report.jobs);
                fields.insert("paired".to_owned(), json!(paired));
            }
        }
        list.push(fields);
    }
    Ok(list)
}

pub(super) fn pretty_text(value: &impl Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(Failure::new)?;
    text.push('\n');
    Ok(text)
}

/// A journal that can still be asked how it went after the simulation has let go of it.
#[derive(Clone)]
pub(super) struct SharedJournal {
    path: PathBuf,
    lines: Arc<Mutex<JsonLines<BufWriter<File>>>>,
}

impl SharedJournal {
    fn create(path: PathBuf) -> Result<Self, Failure> {
        let file = File::create(&path)
            .map_err(|e| Failure::new(format!("{}: cannot be written: {e}", path.display())))?;
        Ok(SharedJournal {
            path,
            lines: Arc::new(Mutex::new(JsonLines::new(BufWriter::new(file)))),
        })
    }

    /// Whether all of it was written.
    pub fn close(&self) -> Result<(), Failure> {
        self.clone()
            .flush()
            .map_err(|e| Failure::new(format!("{}: cannot be written: {e}", self.path.display())))
    }
}

impl Journal for SharedJournal {
    fn record(&mut self, entry: &Entry) {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .record(entry);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .flush()
    }
}

/// Where the journal of each scheduler goes, if anywhere: several of them get the
/// scheduler's name into theirs. What is there is not written over unless it may be.
pub(super) fn journals(experiment: &Experiment<'_>) -> Result<Vec<Option<PathBuf>>, Failure> {
    let alone = experiment.contestants.len() == 1;
    let o = &experiment.options;
    let path_of = |folder: &str| {
        let path = o.journal.as_ref()?;
        if alone {
            return Some(path.clone());
        }
        let ending = path.extension().map(|e| e.to_string_lossy().into_owned());
        let ending = ending.map_or(folder.to_owned(), |e| format!("{folder}.{e}"));
        Some(path.with_extension(ending))
    };
    let list: Vec<Option<PathBuf>> = experiment
        .contestants
        .iter()
        .map(|c| path_of(&c.folder))
        .collect();
    let files = resolved(&experiment.files);
    for path in list.iter().flatten() {
        let shown = path.display();
        if path.canonicalize().is_ok_and(|p| files.contains_key(&p)) {
            return Err(Failure::new(format!(
                "{shown}: is read, and the journal would replace it, expected another --journal"
            )));
        }
        if path.is_file() && !o.force {
            return Err(Failure::new(format!(
                "{shown}: is there already, expected a new file for the journal, or --force"
            )));
        }
    }
    Ok(list)
}

/// A journal a scheduler.
pub(super) fn open_journals(
    paths: Vec<Option<PathBuf>>,
) -> Result<Vec<Option<SharedJournal>>, Failure> {
    let open = |path: Option<PathBuf>| path.map(SharedJournal::create).transpose();
    paths.into_iter().map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_leaves_out_where_results_go() {
        let args = [
            "x/blox",
            "compare",
            "fifo",
            "--output-dir",
            "a b",
            "--force",
            "--journal=j",
            "--threads=2",
            "--output-format",
            "csv",
            "--seed",
            "2",
        ];
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        assert_eq!(
            command_line(&args),
            ["blox", "compare", "fifo", "--seed", "2"]
        );
    }
}
