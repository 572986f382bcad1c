//! Published figures, each reproduced by one command.
//!
//! `figures.toml` describes the numbers, claims and pictures of each figure, and its simulations if
//! their components are in the registry. Other simulations and released programs are planned by a
//! function with the name of the figure in [`figures`](crate::figures::figures).
//!
//! ```
//! let fig6 = blox_released::figures::figure("blox-fig6");
//! assert_eq!(fig6.map(|f| f.data.len()).ok(), Some(0)); // it needs no data
//! ```

mod simulations;
mod table;

pub(crate) use table::Numbers;

use blox_core::{Pipeline, sort};
use blox_experiment::each;
use blox_results::Summary;
use blox_results::statistics::Estimate;
use blox_sim::workload::{Jobs, Workload, WorkloadError};
use blox_sim::{Ended, Report, SimError, Simulation, Watch};
use serde::Deserialize;
use simulations::Simulations;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use table::{Drawing, Order, Rows, Statement};

/// A figure or table of a publication.
///
/// Its runs are cells: for each group, one for each column of the group. In texts, `{g}` is the
/// group and `{c}` the column. A list that is too short is continued by its last entry.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Figure {
    /// Name on the command line.
    pub name: String,
    /// Subject and publication.
    pub title: String,
    /// Data files that the figure needs and that are not part of the toolkit.
    pub data: Vec<DataFile>,
    /// Data files that the figure reads if a folder is given; without one, it has a workload.
    pub optional: Vec<DataFile>,
    notes: Vec<String>,
    groups: Vec<String>,
    /// Columns of each group.
    columns: Vec<Vec<String>>,
    /// Sources of published numbers, and of numbers of the released program, by column.
    paper: Vec<String>,
    /// Source of the published numbers in the paper.
    read: Read,
    program: Vec<String>,
    rows: Vec<Rows>,
    order: Order,
    claims: Vec<Statement>,
    pictures: Vec<Drawing>,
    simulations: Simulations,
    #[serde(skip)]
    pub(crate) plan: Option<Planner>,
}

/// Plans a figure. The path is the folder with all of its data.
pub(crate) type Planner = fn(&'static Figure, Option<&Path>) -> Result<Plan, ReproduceError>;

impl Figure {
    /// Plans the figure. `data` is the folder with all of [`Figure::data`].
    ///
    /// # Errors
    /// Fails if data is missing or cannot be read.
    pub fn plan(&'static self, data: Option<&Path>) -> Result<Plan, ReproduceError> {
        for needed in &self.data {
            needed.found(&self.name, data)?;
        }
        match self.plan {
            Some(plan) => plan(self, data),
            None => self.simulated(|_, _| Box::new(Jobs::new(Vec::new()))),
        }
    }

    /// Plans runs, from whose reports the measures of the figure follow.
    pub(crate) fn measuring(
        &'static self,
        runs: Vec<Run>,
        measures: &'static [fn(&Report) -> f64],
    ) -> Plan {
        Plan::of(runs, move |reports| self.measured(reports, measures))
    }

    /// Returns the findings from the measures of reports.
    pub(crate) fn measured(
        &'static self,
        reports: &[Report],
        measures: &[fn(&Report) -> f64],
    ) -> Findings {
        let of = |measure: &fn(&Report) -> f64| reports.iter().map(measure).collect();
        self.findings(Numbers::of(measures.iter().map(of).collect::<Vec<_>>()))
    }

    /// Returns the path of a file that the figure reads.
    pub(crate) fn file(
        &'static self,
        data: Option<&Path>,
        name: &str,
    ) -> Result<PathBuf, ReproduceError> {
        let mut all = self.data.iter().chain(&self.optional);
        let needed = all.find(|needed| needed.path == name);
        let needed = needed.expect("figures.toml has each file of a figure");
        needed.found(&self.name, data)
    }

    /// Returns the files that the figure reads: the files of [`Figure::data`], and all files in its
    /// folders.
    ///
    /// # Errors
    /// Fails if a file is missing or a folder cannot be read.
    pub fn inputs(&'static self, data: Option<&Path>) -> Result<Vec<PathBuf>, ReproduceError> {
        let optional = data.map_or(&[][..], |_| &self.optional);
        let mut all = Vec::new();
        for file in self.data.iter().chain(optional) {
            files_in(file.found(&self.name, data)?, &mut all)?;
        }
        Ok(all)
    }
}

/// The work of a figure: separate runs, or everything at once if the simulations depend on each
/// other or there are none.
#[allow(missing_debug_implementations, reason = "it has closures")]
pub struct Plan {
    runs: Vec<Run>,
    finish: Finish,
}

/// Computes the findings from the reports of all runs.
type Finish = Box<dyn FnOnce(&Arc<Watch>, &[Report]) -> Whole + Send>;

/// Result of a figure. There are no findings if the watch stopped it.
pub(crate) type Whole = Result<Option<Findings>, ReproduceError>;

impl Plan {
    /// Creates a plan of separate runs, with the findings from their reports in the same order.
    pub(crate) fn of(
        runs: Vec<Run>,
        findings: impl FnOnce(&[Report]) -> Findings + Send + 'static,
    ) -> Self {
        let finish = Box::new(|_: &_, reports: &_| Ok(Some(findings(reports))));
        Plan { runs, finish }
    }

    /// Creates a plan without separate runs.
    pub(crate) fn whole(reproduce: impl FnOnce(&Arc<Watch>) -> Whole + Send + 'static) -> Self {
        Plan {
            runs: Vec::new(),
            finish: Box::new(|watch, _| reproduce(watch)),
        }
    }

    /// Returns the number of separate runs.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns the labels of the separate runs.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().map(|run| run.label.as_str())
    }

    /// Reproduces the figure on all cores.
    ///
    /// `ended` counts the finished runs. `watches` has one entry for each run, which can stop it.
    /// The first entry can stop a figure without separate runs. A run without an entry cannot be
    /// stopped.
    ///
    /// # Errors
    /// Returns the error of the first run that failed.
    pub fn reproduce(
        self,
        watches: &[Arc<Watch>],
        ended: &AtomicU64,
    ) -> Result<Reproduced, ReproduceError> {
        let all: Vec<usize> = (0..self.runs.len()).collect();
        let watch = |i| watches.get(i).cloned().unwrap_or_default();
        let of_runs: Vec<Arc<Watch>> = all.iter().map(|i| watch(*i)).collect();
        let reports = self.run(&all, &of_runs, |_, _| {
            ended.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ReproduceError>(())
        })?;
        self.finish(&watch(0), reports)
    }

    /// Runs some of the separate runs, each at most once. `watches` has one entry for each of them.
    /// Passes each report to `keep`, and returns the reports in order of `todo`; `None` for a run that
    /// its watch stopped.
    ///
    /// # Errors
    /// The first error of a run or of `keep`.
    pub fn run<E: From<ReproduceError> + Send>(
        &self,
        todo: &[usize],
        watches: &[Arc<Watch>],
        keep: impl Fn(usize, Option<&Report>) -> Result<(), E> + Sync,
    ) -> Result<Vec<Option<Report>>, E> {
        let runs = &self.runs;
        let reports = each(watches, None, |i, watch| {
            let number = todo.get(i).copied().unwrap_or(runs.len());
            let start = runs.get(number).and_then(Run::take);
            let report = start.map_or(Ok(None), |start| start(watch))?;
            keep(number, report.as_ref())?;
            Ok::<_, E>(report)
        });
        Ok(reports?.into_iter().map(Option::flatten).collect())
    }

    /// Returns the result from the reports of all separate runs in order; `None` for a stopped run. A
    /// figure without separate runs runs here, and `watch` can stop it.
    ///
    /// # Errors
    /// The figure failed.
    pub fn finish(
        self,
        watch: &Arc<Watch>,
        mut reports: Vec<Option<Report>>,
    ) -> Result<Reproduced, ReproduceError> {
        let mut findings = None;
        if reports.iter().all(Option::is_some) {
            let all: Vec<Report> = reports.into_iter().flatten().collect();
            findings = (self.finish)(watch, &all)?;
            reports = all.into_iter().map(Some).collect();
        }
        Ok(Reproduced {
            labels: self.runs.into_iter().map(|run| run.label).collect(),
            reports,
            findings,
        })
    }
}

/// A data file that a figure needs and that is not part of the toolkit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataFile {
    /// Path in the data folder.
    pub path: String,
    /// Name of its source in `figures.toml`.
    pub(crate) source: String,
    /// Its source.
    #[serde(skip)]
    pub origin: Source,
}

/// A source of data files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Address and licence.
    pub from: String,
    /// Folders in which the files may be, below the data folder or below its parent.
    #[serde(default)]
    folders: Vec<String>,
}

impl DataFile {
    /// Returns the path of the file, which may be compressed by gzip.
    fn found(
        &'static self,
        figure: &'static str,
        data: Option<&Path>,
    ) -> Result<PathBuf, ReproduceError> {
        let names = [self.path.clone(), format!("{}.gz", self.path)];
        let parent = data.and_then(Path::parent);
        let below = &self.origin.folders;
        let bases = data.into_iter().chain(parent.filter(|_| !below.is_empty()));
        let folders = || std::iter::once("").chain(below.iter().map(String::as_str));
        let places = bases.flat_map(|base| folders().map(move |below| base.join(below)));
        let mut places = places.flat_map(|folder| names.each_ref().map(|name| folder.join(name)));
        let found = places.find(|path| path.exists());
        found.ok_or_else(|| ReproduceError::Missing {
            figure,
            path: &self.path,
            folder: data.map(Path::to_owned),
            from: &self.origin.from,
        })
    }
}

/// A run of a figure: a simulation, or a released program that is its own simulator.
pub(crate) struct Run {
    /// Name in messages.
    label: String,
    /// `None` once it has started.
    run: Mutex<Option<Start>>,
}

/// Starts a run. Returns `None` if the watch stopped it.
type Start = Box<dyn FnOnce(&Arc<Watch>) -> Result<Option<Report>, ReproduceError> + Send>;

impl Run {
    /// Creates a run of a released program.
    pub(crate) fn new(
        label: String,
        run: impl FnOnce(&Arc<Watch>) -> Result<Option<Report>, ReproduceError> + Send + 'static,
    ) -> Self {
        let run = Mutex::new(Some(Box::new(run) as Start));
        Run { label, run }
    }

    fn take(&self) -> Option<Start> {
        self.run
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Creates a simulation.
    pub(crate) fn of(
        label: String,
        simulation: Simulation,
        scheduler: Pipeline,
        mut workload: impl Workload + 'static,
    ) -> Self {
        let name = label.clone();
        Run::new(label, move |watch| {
            let watched = simulation.watched_by(Arc::clone(watch));
            let report = watched.run(scheduler, &mut workload);
            let report = report.map_err(|error| ReproduceError::failed(&name, error))?;
            Ok((report.ended != Ended::Interrupted).then_some(report))
        })
    }
}

/// Findings from a figure's simulations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Numbers.
    pub rows: Vec<Row>,
    /// Claims of the publication about them.
    pub claims: Vec<Claim>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Pictures.
    pub pictures: Vec<Picture>,
}

impl Findings {
    /// Adds a picture under a file name without an extension.
    pub(crate) fn picture(&mut self, name: impl Into<String>, svg: String) {
        let name = name.into();
        self.pictures.push(Picture { name, svg });
    }
}

/// A number as published and as reproduced.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the number, with its unit.
    pub what: String,
    /// Number in the paper.
    pub published: Option<Cited>,
    /// Number that the released program gives.
    pub artifact: Option<Cited>,
    /// Number that this toolkit gives, with the first seed if there are several.
    pub ours: f64,
    /// Median over several seeds, if the workload is random.
    pub seeds: Option<Estimate>,
    /// Decimal digits.
    pub decimals: usize,
}

impl Row {
    /// Returns the number to compare with a published one: the median over seeds, if there are
    /// several.
    pub fn compared(&self) -> f64 {
        self.seeds.map_or(self.ours, |e| e.median)
    }
}

/// A number and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cited {
    /// The number.
    pub value: f64,
    /// Publication and section, or program and its settings.
    pub source: &'static str,
    /// Place of a published number in the paper.
    pub read: Option<Read>,
}

/// Place in a paper from which a number was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Read {
    /// In the text or in a table of the paper.
    #[default]
    Text,
    /// In a figure of the paper, from the positions of its points.
    Figure,
    /// In the authors' script that plots the figure.
    Script,
    /// In a review of the paper by others.
    Review,
}

impl Read {
    /// Returns the name of the place, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Read::Text => "text",
            Read::Figure => "figure",
            Read::Script => "script",
            Read::Review => "review",
        }
    }

    /// Returns the place as a phrase, for the list of sources.
    pub fn phrase(self) -> &'static str {
        match self {
            Read::Text => "read from the text or a table",
            Read::Figure => "read from the figure",
            Read::Script => "read from the script that plots it",
            Read::Review => "as a review of the paper reports it",
        }
    }
}

/// A statement of the publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Text of the statement.
    pub text: String,
    /// True if it holds here.
    pub holds: bool,
}

impl Claim {
    /// Creates a claim.
    pub fn new(text: impl Into<String>, holds: bool) -> Self {
        Claim {
            text: text.into(),
            holds,
        }
    }
}

/// A picture of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// File name without an extension.
    pub name: String,
    /// Picture as SVG.
    pub svg: String,
}

/// Reason for which a figure could not be reproduced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// The figure is unknown.
    #[error("unknown figure `{name}`{suggestion}known: {known}")]
    Unknown {
        /// Requested name.
        name: String,
        /// Suggestion of [`blox_core::suggest::did_you_mean`].
        suggestion: String,
        /// All known names.
        known: String,
    },
    /// Data is missing.
    #[error("`{figure}` needs {path}, which is not in {}; get it from {from}", folder.as_deref().map_or("any --data folder".to_owned(), |f| f.display().to_string()))]
    Missing {
        /// The figure.
        figure: &'static str,
        /// The file.
        path: &'static str,
        /// Searched folder, or `None` if no folder was given.
        folder: Option<PathBuf>,
        /// Source of the file.
        from: &'static str,
    },
    /// The jobs cannot be read or generated.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A parameter is invalid.
    #[error(transparent)]
    Parameter(#[from] blox_registry::RegistryError),
    /// A cluster is invalid.
    #[error(transparent)]
    Cluster(#[from] blox_core::ClusterSpecError),
    /// A cluster file cannot be read.
    #[error(transparent)]
    ClusterFile(#[from] blox_traces::cluster_file::ClusterFileError),
    /// A file of samples is empty, or has a sample that is not above 0.
    #[error("{}: found no samples, expected numbers above 0", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A program of shares has no solution.
    #[error(transparent)]
    Solve(#[from] blox_solve::SolveError),
    /// A forecast could not be trained.
    #[error(transparent)]
    Forecast(#[from] blox_learn::LearnError),
    /// A simulation failed.
    #[error("{label}: {error}")]
    Simulation {
        /// Name of the simulation.
        label: String,
        /// Error of the simulation.
        error: Box<SimError>,
    },
}

impl ReproduceError {
    /// Returns the error that a simulation or a program failed.
    pub(crate) fn failed(label: &str, error: impl Into<SimError>) -> Self {
        ReproduceError::Simulation {
            label: label.to_owned(),
            error: Box::new(error.into()),
        }
    }
}

/// Result of reproducing a figure.
pub struct Reproduced {
    /// Names of the simulations.
    pub labels: Vec<String>,
    /// Reports in the same order. `None` for simulations that were stopped or never began.
    pub reports: Vec<Option<Report>>,
    /// Findings, if no report is missing.
    pub findings: Option<Findings>,
}

/// Returns the average JCT in seconds.
pub(crate) fn jct_s(report: &Report) -> f64 {
    Summary::of(report).avg_jct_s
}

/// Adds a file, or all files in a folder and its subfolders, in order.
pub(crate) fn files_in(path: PathBuf, all: &mut Vec<PathBuf>) -> Result<(), ReproduceError> {
    if !path.is_dir() {
        all.push(path);
        return Ok(());
    }
    let failed = |source| WorkloadError::Io {
        path: path.clone(),
        source,
    };
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        inside.push(entry.map_err(failed)?.path());
    }
    sort::by(&mut inside, Ord::cmp);
    inside.into_iter().try_for_each(|path| files_in(path, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figure;

    /// Returns a figure that needs a missing file.
    fn hungry() -> &'static Figure {
        Box::leak(Box::new(Figure {
            name: "hungry".to_owned(),
            data: vec![DataFile {
                path: "trace.csv".to_owned(),
                source: "example".to_owned(),
                origin: Source {
                    from: "https://example.org (CC-BY-4.0)".to_owned(),
                    folders: Vec::new(),
                },
            }],
            notes: vec!["no reports".to_owned()],
            ..Figure::default()
        }))
    }

    #[test]
    fn missing_data_is_named_with_where_to_get_it() {
        let text = |data| {
            let plan = hungry().plan(data).map_err(|e| e.to_string())?;
            plan.reproduce(&[], &AtomicU64::new(0))
                .map_err(|e| e.to_string())
        };
        assert_eq!(
            text(None).err().unwrap(),
            "`hungry` needs trace.csv, which is not in any --data folder; get it from https://example.org (CC-BY-4.0)"
        );
        let dir = tempfile::tempdir().unwrap();
        assert!(text(Some(dir.path())).is_err());
        std::fs::write(dir.path().join("trace.csv"), "").unwrap();
        let reproduced = text(Some(dir.path())).ok().unwrap();
        assert_eq!(reproduced.findings.unwrap().notes, ["no reports"]);
    }

    #[test]
    fn the_files_of_a_figure_are_known_however_they_lie() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let inputs = |figure: &'static Figure| figure.inputs(Some(dir.path())).unwrap();
        std::fs::write(at("trace.csv.gz"), "").unwrap();
        assert_eq!(inputs(hungry()), [at("trace.csv.gz")]);
        std::fs::create_dir_all(at("trace.csv/b")).unwrap();
        std::fs::write(at("trace.csv/b/2.csv"), "").unwrap();
        std::fs::write(at("trace.csv/a.csv"), "").unwrap();
        assert_eq!(
            inputs(hungry()),
            [at("trace.csv/a.csv"), at("trace.csv/b/2.csv")]
        );
        // Files that are read if a folder is given, and are not required.
        std::fs::write(at("philly_node_sequence.csv"), "").unwrap();
        assert_eq!(
            inputs(figure("helios-ces").unwrap()),
            [at("philly_node_sequence.csv")]
        );
        assert_eq!(
            figure("helios-ces").unwrap().inputs(None).unwrap(),
            [""; 0].map(PathBuf::from)
        );
        assert!(
            figure("lucid-fig8")
                .unwrap()
                .inputs(Some(dir.path()))
                .is_err()
        );
    }

    #[test]
    fn columns_are_compared_seed_by_seed() {
        let figure: Figure = toml::from_str(
            r#"
            columns = [["old", "new"]]
            rows = [{ what = "{c}", decimals = 0 }]
            claims = [
                { text = "less", tests = [{ less = [[1, 0]] }] },
                { text = "half", tests = [{ most = [[1, 0]], by = 0.5 }] },
            ]
            "#,
        )
        .unwrap();
        let figure: &'static Figure = Box::leak(Box::new(figure));
        // The new one is less with four of five seeds, although its median is 5, and not 3.
        let seeds = [
            [1.0, 0.5],
            [2.0, 1.5],
            [3.0, 5.0],
            [10.0, 9.0],
            [11.0, 10.0],
        ];
        let numbers = seeds.map(|seed| Numbers::of([seed.to_vec()]));
        let claims = figure.findings_over(numbers.into()).claims;
        let holds: Vec<bool> = claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, false]);
    }

    #[test]
    fn reports_come_in_order_however_long_each_takes() {
        use blox_core::{ClusterSpec, GpuCount, JobSpec, Seconds, Time};
        use blox_sim::workload::Jobs;
        let run = |hours: f64| {
            let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::from_hours(hours));
            Run::of(
                hours.to_string(),
                Simulation::new(ClusterSpec::uniform(1, 1)),
                blox_schedulers::schedulers::fifo(),
                Jobs::new(vec![job]),
            )
        };
        let watches: [Arc<Watch>; 3] = Default::default();
        let ended = AtomicU64::new(0);
        let reports = |runs: Vec<Run>, watches: &[Arc<Watch>]| {
            let plan = Plan::of(runs, |_| Findings::default());
            plan.reproduce(watches, &ended).unwrap().reports
        };
        let seen = reports([3.0, 1.0, 2.0].map(run).into(), &watches);
        let ends: Vec<f64> = seen.iter().flatten().map(|r| r.end.hours()).collect();
        assert_eq!(ends, [3.0, 1.0, 2.0]);
        // A stopped run is missing and is not an error.
        watches[1].stop.store(true, Ordering::Relaxed);
        let seen = reports([3.0, 1.0].map(run).into(), &watches);
        assert_eq!(
            seen.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(ended.load(Ordering::Relaxed), 4);
    }
}
