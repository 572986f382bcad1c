//! Published figures, each reproduced by one command.
//!
//! A figure states its simulations or released programs, and computes findings from their reports.
//! Findings are numbers beside the published ones with their sources, claims of the publication and
//! whether they hold here, and pictures. A new figure is a file with a [`Figure`], and a line in
//! [`figures`](crate::figures::figures).
//!
//! ```
//! let fig6 = blox_released::figures::figure("blox-fig6");
//! assert_eq!(fig6.map(|f| f.data.len()).ok(), Some(0)); // it needs no data
//! ```

use blox_core::Pipeline;
use blox_sim::workload::{Workload, WorkloadError};
use blox_sim::{Ended, Report, SimError, Simulation, Watch};
use rayon::iter::{ParallelBridge, ParallelIterator};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A figure or table of a publication.
///
/// ```
/// use blox_core::ClusterSpec;
/// use blox_released::figure::{Figure, Findings, Plan, ReproduceError, Row, Run};
/// use blox_sim::{Measure, Report, Simulation};
/// use blox_traces::generate::blox::BloxWorkload;
/// use std::path::Path;
///
/// const LAS_AT_SEVEN: Figure = Figure::new(
///     "las-at-seven",
///     "average JCT of las at 7 jobs an hour",
///     &[],
///     plan,
/// );
///
/// fn plan(_: &Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
///     let run = Run::Simulation {
///         label: "las".to_owned(),
///         simulation: Simulation::new(ClusterSpec::uniform(32, 4)).measure(Measure::Ids(0, 100)),
///         scheduler: blox_schedulers::schedulers::las(),
///         workload: Box::new(BloxWorkload::new(7.0)?),
///     };
///     Ok(Plan::of(vec![run], findings))
/// }
///
/// fn findings(reports: &[Report]) -> Findings {
///     let mut findings = Findings::default();
///     let ours = reports[0].summary.avg_jct_s;
///     findings.rows.push(Row::new("average JCT (s)", ours, 0));
///     findings
/// }
///
/// assert_eq!(LAS_AT_SEVEN.plan(None)?.runs(), 1);
/// # Ok::<(), ReproduceError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Name on the command line.
    pub name: &'static str,
    /// Subject and publication.
    pub title: &'static str,
    /// Data files that the figure needs and that are not part of the toolkit.
    pub data: &'static [DataFile],
    /// Data files that the figure reads if a folder is given.
    optional: &'static [DataFile],
    plan: Planner,
}

/// Plans a figure. The path is the folder with all of its data.
pub type Planner = fn(&Figure, Option<&Path>) -> Result<Plan, ReproduceError>;

impl Figure {
    /// Describes a figure.
    pub const fn new(
        name: &'static str,
        title: &'static str,
        data: &'static [DataFile],
        plan: Planner,
    ) -> Self {
        Figure {
            name,
            title,
            data,
            optional: &[],
            plan,
        }
    }

    /// Adds data files that the figure reads if a folder is given, and does not need.
    #[must_use]
    pub const fn reading(mut self, optional: &'static [DataFile]) -> Self {
        self.optional = optional;
        self
    }

    /// Plans the figure. `data` is the folder with all of [`Figure::data`].
    ///
    /// # Errors
    /// Fails if data is missing or cannot be read.
    pub fn plan(&self, data: Option<&Path>) -> Result<Plan, ReproduceError> {
        for needed in self.data {
            needed.found(self.name, data)?;
        }
        (self.plan)(self, data)
    }

    /// Returns the files that the figure reads: the files of [`Figure::data`], and all files in its
    /// folders.
    ///
    /// # Errors
    /// Fails if a file is missing or a folder cannot be read.
    pub fn inputs(&self, data: Option<&Path>) -> Result<Vec<PathBuf>, ReproduceError> {
        let optional = data.map_or(&[][..], |_| self.optional);
        let mut all = Vec::new();
        for file in self.data.iter().chain(optional) {
            files_in(file.found(self.name, data)?, &mut all)?;
        }
        Ok(all)
    }
}

/// The work of a figure.
#[allow(missing_debug_implementations, reason = "it has closures")]
pub enum Plan {
    /// Separate runs, and the findings from their reports in the same order.
    Runs(Vec<Run>, Finish),
    /// Everything at once, if the simulations depend on each other or there are none.
    Whole(AtOnce),
}

/// Computes the findings of [`Plan::Runs`].
pub type Finish = Box<dyn FnOnce(&[Report]) -> Findings + Send>;

/// Reproduces the figure of [`Plan::Whole`].
pub type AtOnce = Box<dyn FnOnce(&Arc<Watch>) -> Whole + Send>;

/// Result of [`Plan::Whole`]. There are no findings if the watch stopped the figure.
pub type Whole = Result<Option<Findings>, ReproduceError>;

impl Plan {
    /// Creates a plan of separate runs.
    pub fn of(
        runs: Vec<Run>,
        findings: impl FnOnce(&[Report]) -> Findings + Send + 'static,
    ) -> Self {
        Plan::Runs(runs, Box::new(findings))
    }

    /// Creates a plan without separate runs.
    pub fn whole(reproduce: impl FnOnce(&Arc<Watch>) -> Whole + Send + 'static) -> Self {
        Plan::Whole(Box::new(reproduce))
    }

    /// Returns the number of separate runs.
    pub fn runs(&self) -> usize {
        match self {
            Plan::Runs(runs, _) => runs.len(),
            Plan::Whole(_) => 0,
        }
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
        let (runs, findings) = match self {
            Plan::Runs(runs, findings) => (runs, findings),
            Plan::Whole(whole) => {
                return Ok(Reproduced {
                    labels: Vec::new(),
                    reports: Vec::new(),
                    findings: whole(&watches.first().cloned().unwrap_or_default())?,
                });
            }
        };
        let labels = runs.iter().map(|run| run.label().to_owned()).collect();
        let mut reports = run_all(runs, watches, ended)?;
        let mut found = None;
        if reports.iter().all(Option::is_some) {
            let all: Vec<Report> = reports.into_iter().flatten().collect();
            found = Some(findings(&all));
            reports = all.into_iter().map(Some).collect();
        }
        Ok(Reproduced {
            labels,
            reports,
            findings: found,
        })
    }
}

/// A data file that a figure needs and that is not part of the toolkit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFile {
    /// Path in the data folder.
    pub path: &'static str,
    /// Source and licence of the file.
    pub from: &'static str,
    folders: &'static [&'static str],
}

impl DataFile {
    /// Describes a file.
    pub const fn new(path: &'static str, from: &'static str) -> Self {
        DataFile {
            path,
            from,
            folders: &[],
        }
    }

    /// Adds folders in which the file may be, below the data folder or below its parent.
    #[must_use]
    pub const fn in_folders(mut self, folders: &'static [&'static str]) -> Self {
        self.folders = folders;
        self
    }

    /// Returns the path of the file, which may be compressed by gzip.
    fn found(&self, figure: &'static str, data: Option<&Path>) -> Result<PathBuf, ReproduceError> {
        let names = [self.path.to_owned(), format!("{}.gz", self.path)];
        let parent = data.and_then(Path::parent);
        let bases = data
            .into_iter()
            .chain(parent.filter(|_| !self.folders.is_empty()));
        let folders = || [""].iter().chain(self.folders);
        let places = bases.flat_map(|base| folders().map(move |below| base.join(below)));
        let mut places = places.flat_map(|folder| names.each_ref().map(|name| folder.join(name)));
        let found = places.find(|path| path.exists());
        found.ok_or_else(|| ReproduceError::Missing {
            figure,
            path: self.path,
            folder: data.map(Path::to_owned),
            from: self.from,
        })
    }
}

/// Runs a released program. Returns `None` if the watch stopped it.
pub type Program = Box<dyn FnOnce(&Watch) -> Result<Option<Report>, ReproduceError> + Send>;

/// A run of a figure.
#[allow(clippy::large_enum_variant, reason = "a figure has few of them")]
pub enum Run {
    /// A simulation.
    Simulation {
        /// Name in messages.
        label: String,
        /// Simulated world.
        simulation: Simulation,
        /// The scheduler.
        scheduler: Pipeline,
        /// The jobs.
        workload: Box<dyn Workload>,
    },
    /// A released program that is its own simulator.
    Program {
        /// Name in messages.
        label: String,
        /// Runs the program and reports its outcome.
        run: Program,
    },
}

impl Run {
    /// Returns the name in messages.
    pub fn label(&self) -> &str {
        match self {
            Run::Simulation { label, .. } | Run::Program { label, .. } => label,
        }
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
    /// Creates findings with only these notes.
    pub fn noting(notes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Findings {
            notes: notes.into_iter().map(Into::into).collect(),
            ..Findings::default()
        }
    }

    /// Adds a picture under a file name without an extension.
    pub fn picture(&mut self, name: impl Into<String>, svg: String) {
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
    /// Number that this toolkit gives.
    pub ours: f64,
    /// Decimal digits.
    pub decimals: usize,
}

impl Row {
    /// Creates a row with only this toolkit's number.
    pub fn new(what: impl Into<String>, ours: f64, decimals: usize) -> Self {
        Row {
            what: what.into(),
            published: None,
            artifact: None,
            ours,
            decimals,
        }
    }

    /// Adds the number in the paper, if there is one.
    #[must_use]
    pub fn published(mut self, value: impl Into<Option<f64>>, source: &'static str) -> Self {
        self.published = value.into().map(|value| Cited { value, source });
        self
    }

    /// Adds the number that the released program gives, if it is known.
    #[must_use]
    pub fn artifact(mut self, value: impl Into<Option<f64>>, source: &'static str) -> Self {
        self.artifact = value.into().map(|value| Cited { value, source });
        self
    }
}

/// A number and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cited {
    /// The number.
    pub value: f64,
    /// Publication and section, or program and its settings.
    pub source: &'static str,
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
    Parameter(#[from] blox_core::registry::RegistryError),
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

/// Result of reproducing a figure.
pub struct Reproduced {
    /// Names of the simulations.
    pub labels: Vec<String>,
    /// Reports in the same order. `None` for simulations that were stopped or never began.
    pub reports: Vec<Option<Report>>,
    /// Findings, if no report is missing.
    pub findings: Option<Findings>,
}

/// Returns the path of a file that a figure needs.
pub(crate) fn file(
    figure: &Figure,
    data: Option<&Path>,
    name: &str,
) -> Result<PathBuf, ReproduceError> {
    let mut all = figure.data.iter().chain(figure.optional);
    let needed = all.find(|needed| needed.path == name);
    needed
        .unwrap_or(&DataFile::new("a file", "its publication"))
        .found(figure.name, data)
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
    inside.sort();
    inside.into_iter().try_for_each(|path| files_in(path, all))
}

/// Returns the reports in order of the runs. `None` for stopped runs.
fn run_all(
    runs: Vec<Run>,
    watches: &[Arc<Watch>],
    ended: &AtomicU64,
) -> Result<Vec<Option<Report>>, ReproduceError> {
    let failed = AtomicBool::new(false);
    let one = |(i, run): (usize, Run)| {
        let watch = watches.get(i).cloned().unwrap_or_default();
        if failed.load(Ordering::Relaxed) {
            return None;
        }
        if watch.stop.load(Ordering::Relaxed) {
            return Some((i, Ok(None)));
        }
        let report = run_one(run, &watch);
        failed.fetch_or(report.is_err(), Ordering::Relaxed);
        ended.fetch_add(1, Ordering::Relaxed);
        Some((i, report))
    };
    // The bridge starts runs in order, so an error comes before all runs that never began.
    let runs = runs.into_iter().enumerate().par_bridge();
    let mut reports: Vec<_> = runs.filter_map(one).collect();
    reports.sort_by_key(|(i, _)| *i);
    reports.into_iter().map(|(_, report)| report).collect()
}

fn run_one(run: Run, watch: &Arc<Watch>) -> Result<Option<Report>, ReproduceError> {
    let (label, simulation, scheduler, mut workload) = match run {
        Run::Program { run, .. } => return run(watch),
        Run::Simulation {
            label,
            simulation,
            scheduler,
            workload,
        } => (label, simulation, scheduler, workload),
    };
    let watched = simulation.watched_by(Arc::clone(watch));
    match watched.run(scheduler, &mut *workload) {
        Ok(report) if report.ended == Ended::Interrupted => Ok(None),
        Ok(report) => Ok(Some(report)),
        Err(error) => Err(ReproduceError::Simulation {
            label,
            error: Box::new(error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure that needs a missing file.
    const HUNGRY: Figure = Figure::new(
        "hungry",
        "Nothing",
        &[DataFile::new(
            "trace.csv",
            "https://example.org (CC-BY-4.0)",
        )],
        |_, _| {
            let findings =
                |reports: &[Report]| Findings::noting([format!("{} reports", reports.len())]);
            Ok(Plan::of(Vec::new(), findings))
        },
    );

    #[test]
    fn missing_data_is_named_with_where_to_get_it() {
        let text = |data| {
            let plan = HUNGRY.plan(data).map_err(|e| e.to_string())?;
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
        assert_eq!(reproduced.findings.unwrap().notes, ["0 reports"]);
    }

    #[test]
    fn the_files_of_a_figure_are_known_however_they_lie() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let inputs = |figure: &Figure| figure.inputs(Some(dir.path())).unwrap();
        std::fs::write(at("trace.csv.gz"), "").unwrap();
        assert_eq!(inputs(&HUNGRY), [at("trace.csv.gz")]);
        std::fs::create_dir_all(at("trace.csv/b")).unwrap();
        std::fs::write(at("trace.csv/b/2.csv"), "").unwrap();
        std::fs::write(at("trace.csv/a.csv"), "").unwrap();
        assert_eq!(
            inputs(&HUNGRY),
            [at("trace.csv/a.csv"), at("trace.csv/b/2.csv")]
        );
        // Files that are read if a folder is given, and are not required.
        std::fs::write(at("philly_node_sequence.csv"), "").unwrap();
        assert_eq!(
            inputs(&crate::lucid::figures::energy::HELIOS),
            [at("philly_node_sequence.csv")]
        );
        assert_eq!(
            crate::lucid::figures::energy::HELIOS.inputs(None).unwrap(),
            [""; 0].map(PathBuf::from)
        );
        assert!(
            crate::lucid::figures::FIG8
                .inputs(Some(dir.path()))
                .is_err()
        );
    }

    #[test]
    fn reports_come_in_order_however_long_each_takes() {
        use blox_core::{ClusterSpec, GpuCount, JobSpec, Seconds, Time};
        use blox_sim::workload::Jobs;
        let run = |hours: f64| Run::Simulation {
            label: hours.to_string(),
            simulation: Simulation::new(ClusterSpec::uniform(1, 1)),
            scheduler: blox_schedulers::schedulers::fifo(),
            workload: Box::new(Jobs::new(vec![JobSpec::new(
                Time::ZERO,
                GpuCount(1),
                Seconds::from_hours(hours),
            )])),
        };
        let watches: [Arc<Watch>; 2] = Default::default();
        let ended = AtomicU64::new(0);
        let reports = run_all([3.0, 1.0, 2.0].map(run).into(), &watches, &ended).unwrap();
        let ends: Vec<f64> = reports.iter().flatten().map(|r| r.end.hours()).collect();
        assert_eq!(ends, [3.0, 1.0, 2.0]);
        // A stopped run is missing and is not an error.
        watches[1].stop.store(true, Ordering::Relaxed);
        let reports = run_all([3.0, 1.0].map(run).into(), &watches, &ended).unwrap();
        assert_eq!(
            reports.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(ended.into_inner(), 4);
    }
}
