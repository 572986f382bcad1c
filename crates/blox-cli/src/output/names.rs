//! Names of result files.

/// The last file of a result folder, which marks complete results.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Figures of groups, in the folder of a run and of a sweep.
pub(crate) const GROUPS: &str = "groups.csv";

/// The trace for Chrome and Perfetto, in the folder of a run.
pub(crate) const CHROME: &str = "trace.json";

/// Files in the folder of a run.
pub(crate) const RUN_FILES: [&str; 12] = [
    MANIFEST,
    "jobs.csv",
    "timeline.csv",
    "rounds.csv",
    "assignments.csv",
    GROUPS,
    CHROME,
    "jobs.parquet",
    "timeline.parquet",
    "rounds.parquet",
    "assignments.parquet",
    "summary.json",
];

/// The index of a sweep.
pub(crate) const INDEX: &str = "sweep.json";

/// The table of a sweep, a row for each run.
pub(crate) const TABLE: &str = "sweep.csv";
