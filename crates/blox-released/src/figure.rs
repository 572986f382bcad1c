//! Published figures, each reproduced by one command.
//!
//! A figure states its simulations or released programs, and computes findings from their reports.
//! Findings are numbers beside the published ones with their sources, claims of the publication and
//! whether they hold here, and pictures. A new figure is a file that implements [`Figure`], and a
//! line in [`figures`].
//!
//! ```
//! let fig6 = blox_released::figure::figures().into_iter().find(|f| f.name() == "blox-fig6");
//! assert_eq!(fig6.map(|f| f.data().len()), Some(0)); // it needs no data
//! ```

use blox_core::Pipeline;
use blox_core::suggest::did_you_mean;
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
/// use blox_released::figure::{Figure, Findings, ReproduceError, Row, Run};
/// use blox_sim::{Measure, Report, Simulation};
/// use blox_traces::generate::blox::BloxWorkload;
/// use std::path::Path;
///
/// struct LasAtSeven;
///
/// impl Figure for LasAtSeven {
///     fn name(&self) -> &'static str {
///         "las-at-seven"
///     }
///
///     fn title(&self) -> &'static str {
///         "average JCT of las at 7 jobs an hour"
///     }
///
///     fn runs(&self, _data: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
///         Ok(vec![Run::Simulation {
///             label: "las".to_owned(),
///             simulation: Simulation::new(ClusterSpec::uniform(32, 4)).measure(Measure::Ids(0, 100)),
///             scheduler: blox_schedulers::schedulers::las(),
///             workload: Box::new(BloxWorkload::new(7.0).expect("the load is positive")),
///         }])
///     }
///
///     fn findings(&self, reports: &[Report]) -> Findings {
///         let mut findings = Findings::default();
///         findings.rows.push(Row {
///             what: "average JCT (s)".to_owned(),
///             published: None,
///             artifact: None,
///             ours: reports[0].summary.avg_jct_s,
///             decimals: 0,
///         });
///         findings
///     }
/// }
///
/// assert_eq!(LasAtSeven.runs(None)?.len(), 1);
/// # Ok::<(), ReproduceError>(())
/// ```
pub trait Figure: Send + Sync {
    /// Returns the figure's name on the command line.
    fn name(&self) -> &'static str;

    /// Returns the figure's subject and publication.
    fn title(&self) -> &'static str;

    /// Returns the data files that the figure needs and that are not part of the toolkit.
    fn data(&self) -> &'static [DataFile] {
        &[]
    }

    /// Returns the runs of the figure. `data` is the folder with all of [`Figure::data`].
    ///
    /// # Errors
    /// Fails if the data cannot be read.
    fn runs(&self, data: Option<&Path>) -> Result<Vec<Run>, ReproduceError>;

    /// Returns the findings from the reports, in the order of [`Figure::runs`].
    fn findings(&self, reports: &[Report]) -> Findings;

    /// Reproduces the complete figure, if its simulations depend on each other or it has none.
    ///
    /// Returns `None` if [`Figure::runs`] lists the simulations. There are no findings if `watch`
    /// stopped the figure.
    fn whole(&self, data: Option<&Path>, watch: &Arc<Watch>) -> Option<Whole> {
        let _ = (data, watch);
        None
    }

    /// Returns the files that the figure reads: the files of [`Figure::data`], and all files in its
    /// folders.
    ///
    /// # Errors
    /// Fails if a file is missing or a folder cannot be read.
    fn inputs(&self, data: Option<&Path>) -> Result<Vec<PathBuf>, ReproduceError> {
        let mut all = Vec::new();
        for needed in self.data() {
            files_in(needed.found(self.name(), data)?, &mut all)?;
        }
        Ok(all)
    }
}

/// Result of [`Figure::whole`].
pub type Whole = Result<Option<Findings>, ReproduceError>;

/// A data file that a figure needs and that is not part of the toolkit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFile {
    /// Path in the data folder.
    pub path: &'static str,
    /// Source and licence of the file.
    pub from: &'static str,
}

impl DataFile {
    /// Returns the path of the file, which may be compressed by gzip.
    fn found(&self, figure: &'static str, data: Option<&Path>) -> Result<PathBuf, ReproduceError> {
        let names = [self.path.to_owned(), format!("{}.gz", self.path)];
        let mut places = names.iter().filter_map(|name| Some(data?.join(name)));
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

    /// Adds the number in the paper.
    #[must_use]
    pub fn published(mut self, value: f64, source: &'static str) -> Self {
        self.published = Some(Cited { value, source });
        self
    }

    /// Adds the number that the released program gives.
    #[must_use]
    pub fn artifact(mut self, value: f64, source: &'static str) -> Self {
        self.artifact = Some(Cited { value, source });
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
    /// Synergy's profiles cannot be read.
    #[error(transparent)]
    Profiles(#[from] blox_traces::formats::synergy::ProfilesError),
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

/// Returns all figures, in order of their names.
pub fn figures() -> Vec<Box<dyn Figure>> {
    vec![
        Box::new(crate::blox::figures::fig12::BloxFig12),
        Box::new(crate::blox::figures::fig13::BloxFig13),
        Box::new(crate::blox::figures::fig14::BloxFig14),
        Box::new(crate::blox::figures::fig16::BloxFig16),
        Box::new(crate::blox::figures::fig6::BloxFig6),
        Box::new(crate::blox::figures::table4::BloxTable4),
        Box::new(crate::elasticflow::figures::Fig10::default()),
        Box::new(crate::elasticflow::figures::Fig11),
        Box::new(crate::elasticflow::figures::Fig8a),
        Box::new(crate::elasticflow::figures::Fig8b),
        Box::new(crate::elasticflow::figures::Fig9),
        Box::new(crate::lucid::figures::EstimateErrors),
        Box::new(crate::gavel::figures::fig8::GavelFig8),
        Box::new(crate::gavel::figures::physical::LAS),
        Box::new(crate::gavel::figures::physical::MAKESPAN),
        Box::new(crate::gavel::figures::scale::GavelScale),
        Box::new(crate::lucid::figures::HeliosCes),
        Box::new(crate::lucid::figures::Lucid::Fig8),
        Box::new(crate::lucid::figures::Lucid::Fig9),
        Box::new(crate::lucid::figures::Lucid::Quirks),
        Box::new(crate::lucid::figures::Lucid::Table4),
        Box::new(crate::lucid::figures::Lucid::Table5),
        Box::new(crate::sia::figures::pollux_osdi21::PolluxOsdi21),
        Box::new(crate::sia::figures::SiaFig7),
        Box::new(crate::sia::figures::SiaScale),
        Box::new(crate::sia::figures::SiaTable3::default()),
        Box::new(crate::sia::figures::SiaTable4::default()),
        Box::new(crate::synergy::figures::Synergy100Job),
        Box::new(crate::tiresias::figures::Tiresias60Job),
    ]
}

/// Returns the figure with this name.
///
/// # Errors
/// Fails for an unknown name. The error lists the known names.
pub fn figure(name: &str) -> Result<Box<dyn Figure>, ReproduceError> {
    let all = figures();
    let known: Vec<&str> = all.iter().map(|f| f.name()).collect();
    all.into_iter()
        .find(|f| f.name() == name)
        .ok_or_else(|| ReproduceError::Unknown {
            name: name.to_owned(),
            suggestion: did_you_mean(name, known.iter().copied(), "; "),
            known: known.join(", "),
        })
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

/// Returns the simulations of a figure, for [`reproduce`].
///
/// # Errors
/// Fails if data is missing or cannot be read.
pub fn simulations(figure: &dyn Figure, data: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
    for needed in figure.data() {
        file(figure, data, needed.path)?;
    }
    figure.runs(data)
}

/// Reproduces a figure on all cores.
///
/// `ended` counts the finished simulations. `watches` has one entry for each simulation, which can
/// stop it. The first entry can stop a figure without separate simulations. A simulation without an
/// entry cannot be stopped.
///
/// # Errors
/// Returns the error of the first simulation that failed.
pub fn reproduce(
    figure: &dyn Figure,
    data: Option<&Path>,
    runs: Vec<Run>,
    watches: &[Arc<Watch>],
    ended: &AtomicU64,
) -> Result<Reproduced, ReproduceError> {
    let first = watches.first().cloned().unwrap_or_default();
    if let Some(findings) = figure.whole(data, &first) {
        return Ok(Reproduced {
            labels: Vec::new(),
            reports: Vec::new(),
            findings: findings?,
        });
    }
    let labels = runs.iter().map(|run| run.label().to_owned()).collect();
    let mut reports = run_all(runs, watches, ended)?;
    let findings = match reports.iter().all(Option::is_some) {
        true => {
            let whole: Vec<Report> = reports.into_iter().flatten().collect();
            let findings = figure.findings(&whole);
            reports = whole.into_iter().map(Some).collect();
            Some(findings)
        }
        false => None,
    };
    Ok(Reproduced {
        labels,
        reports,
        findings,
    })
}

/// Returns the path of a file that a figure needs.
pub(crate) fn file(
    figure: &dyn Figure,
    data: Option<&Path>,
    name: &str,
) -> Result<PathBuf, ReproduceError> {
    let needed = figure.data().iter().find(|needed| needed.path == name);
    needed
        .unwrap_or(&DataFile {
            path: "a file",
            from: "its publication",
        })
        .found(figure.name(), data)
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

    #[test]
    fn an_unknown_figure_lists_the_known_ones() {
        let all = figures();
        let names: Vec<&str> = all.iter().map(|f| f.name()).collect();
        assert!(names.contains(&"blox-fig12"));
        let error = figure("fig99").err().map(|e| e.to_string());
        let known = names.join(", ");
        let expected = format!("unknown figure `fig99`; known: {known}");
        assert_eq!(error, Some(expected));
        let slip = figure("blox-fig-12").err().map(|e| e.to_string());
        let start = "unknown figure `blox-fig-12`, did you mean `blox-fig12`? known: ";
        assert!(slip.is_some_and(|e| e.starts_with(start)));
    }

    /// A figure that needs a missing file.
    struct Hungry;

    impl Figure for Hungry {
        fn name(&self) -> &'static str {
            "hungry"
        }
        fn title(&self) -> &'static str {
            "Nothing"
        }
        fn data(&self) -> &'static [DataFile] {
            &[DataFile {
                path: "trace.csv",
                from: "https://example.org (CC-BY-4.0)",
            }]
        }
        fn runs(&self, _: Option<&Path>) -> Result<Vec<Run>, ReproduceError> {
            Ok(Vec::new())
        }
        fn findings(&self, reports: &[Report]) -> Findings {
            Findings {
                notes: vec![format!("{} reports", reports.len())],
                ..Findings::default()
            }
        }
    }

    #[test]
    fn missing_data_is_named_with_where_to_get_it() {
        let text = |data| {
            let runs = simulations(&Hungry, data).map_err(|e| e.to_string())?;
            reproduce(&Hungry, None, runs, &[], &AtomicU64::new(0)).map_err(|e| e.to_string())
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
        let inputs = |figure: &dyn Figure| figure.inputs(Some(dir.path())).unwrap();
        std::fs::write(at("trace.csv.gz"), "").unwrap();
        assert_eq!(inputs(&Hungry), [at("trace.csv.gz")]);
        std::fs::create_dir_all(at("trace.csv/b")).unwrap();
        std::fs::write(at("trace.csv/b/2.csv"), "").unwrap();
        std::fs::write(at("trace.csv/a.csv"), "").unwrap();
        assert_eq!(
            inputs(&Hungry),
            [at("trace.csv/a.csv"), at("trace.csv/b/2.csv")]
        );
        // Files that are read if a folder is given, and are not required.
        std::fs::write(at("philly_node_sequence.csv"), "").unwrap();
        assert_eq!(
            inputs(&crate::lucid::figures::HeliosCes),
            [at("philly_node_sequence.csv")]
        );
        assert_eq!(
            crate::lucid::figures::HeliosCes.inputs(None).unwrap(),
            [""; 0].map(PathBuf::from)
        );
        assert!(
            crate::lucid::figures::Lucid::Fig8
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

    #[test]
    fn a_stop_ends_figures_that_are_made_at_once() {
        let watch: Arc<Watch> = Arc::default();
        watch.stop.store(true, Ordering::Relaxed);
        let mut stopped = Vec::new();
        for figure in figures() {
            if let Some(findings) = figure.whole(None, &watch) {
                assert_eq!(findings.unwrap(), None, "{}", figure.name());
                stopped.push(figure.name());
            }
        }
        assert_eq!(stopped.len(), 8, "{stopped:?}");
    }

    #[test]
    fn figures_are_in_order_of_their_names() {
        let all = figures();
        assert!(all.is_sorted_by_key(|f| f.name()));
    }
}
