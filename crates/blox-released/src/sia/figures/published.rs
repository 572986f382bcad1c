//! Simulation results printed in Sia's paper, submitted version.

use super::{FROM, PHILLY};
use crate::figure::DataFile;

pub(crate) const TABLE_3: &str = "Sia (SOSP 2023), table 3, of the submission";
pub(crate) const TABLE_4: &str = "Sia (SOSP 2023), table 4, of the submission";
pub(crate) const FIGURE_8: &str = "Sia (SOSP 2023), section 5.5 and figure 8, of the submission";

pub(crate) const HELIOS: DataFile = DataFile::new("workloads/saturn", FROM);
pub(crate) const NEW_TRACE: DataFile = DataFile::new("workloads/newtrace", FROM);

/// Names of the figures of a scheduler over a family of workloads, and their decimal digits.
pub(crate) const FIGURES: [(&str, usize); 9] = [
    ("avg JCT h", 2),
    ("p99 JCT h", 1),
    ("makespan h", 1),
    ("GPU-h a job", 2),
    ("restarts a job", 2),
    ("mean contention", 1),
    ("max contention", 0),
    ("worst finish-time fairness", 2),
    ("% of jobs treated unfairly", 1),
];
/// Index of the first figure that comes from another part of the paper.
pub(crate) const FAIRNESS: usize = 7;

/// Published figures in the order of [`FIGURES`]. `NONE` marks a figure that the paper does not
/// print.
pub(crate) type Published = [f64; 9];
pub(crate) const NONE: f64 = f64::NAN;

/// A folder of workloads and their published results.
pub(crate) struct Family {
    pub folder: &'static str,
    /// Number of workloads.
    pub count: usize,
    /// Name of the folder in the paper.
    pub name: &'static str,
    /// Number of schedulers that run on it, counted from the first.
    pub schedulers: usize,
    /// Published figures of each scheduler. Schedulers without figures are left out.
    pub published: &'static [Published],
}

/// Results on three types: Sia, Pollux, Gavel, Shockwave.
#[rustfmt::skip]
pub(crate) const FAMILIES: [Family; 3] = [
    Family {
        folder: PHILLY.path,
        count: 8,
        name: "Philly",
        schedulers: 7,
        published: &[
            [0.6, 9.5, 14.2, 4.0, NONE, 6.9, 31.0, NONE, NONE],
            [1.0, 14.9, 24.5, 5.6, NONE, 7.2, 42.0, NONE, NONE],
            [1.9, 30.0, 33.8, 9.0, NONE, 9.9, 56.0, NONE, NONE],
        ],
    },
    Family {
        folder: HELIOS.path,
        count: 10,
        name: "Helios",
        schedulers: 7,
        published: &[
            [0.7, 10.9, 14.9, 4.8, NONE, 7.4, 32.0, 1.2, 0.3],
            [1.0, 15.0, 25.5, 5.9, NONE, 6.9, 47.0, 4.6, 28.0],
            [2.5, 38.7, 43.0, 12.1, NONE, 9.2, 48.0, 27.8, 15.0],
            [NONE, NONE, NONE, NONE, NONE, NONE, NONE, 3.3, 14.0],
        ],
    },
    Family {
        folder: NEW_TRACE.path,
        count: 10,
        name: "newTrace",
        schedulers: 3,
        published: &[
            [0.7, 4.6, 52.2, 3.0, NONE, 13.0, 69.0, NONE, NONE],
            [1.5, 10.3, 62.3, 3.4, NONE, 22.0, 85.0, NONE, NONE],
            [11.3, 98.1, 110.0, 6.4, NONE, 96.0, 243.0, NONE, NONE],
        ],
    },
];

/// Results on one type: Sia, Pollux, Gavel, Shockwave, Themis.
#[rustfmt::skip]
pub(crate) const ON_ONE_TYPE: [Family; 1] = [Family {
    folder: PHILLY.path,
    count: 8,
    name: "Philly",
    schedulers: 7,
    published: &[
        [1.9, 18.1, 21.4, 8.4, 2.6, NONE, NONE, NONE, NONE],
        [2.0, 19.3, 21.7, 8.6, 5.1, NONE, NONE, NONE, NONE],
        [4.3, 37.1, 44.3, 15.3, NONE, NONE, NONE, NONE, NONE],
        [3.6, 32.8, 35.0, 12.5, NONE, NONE, NONE, NONE, NONE],
        [5.4, 44.7, 49.7, 17.2, NONE, NONE, NONE, NONE, NONE],
    ],
}];
