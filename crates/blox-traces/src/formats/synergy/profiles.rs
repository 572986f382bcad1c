//! Measured profiles of models.

use blox_core::SortedMap;
use blox_core::{Sensitivity, SensitivityError};
use blox_sim::workload::text::shown;
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The profile of one model on one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// CPU cores of the best-case demand.
    pub cpus: f64,
    /// Memory of the best-case demand, in GB.
    pub memory_gb: f64,
    /// Storage bandwidth of the best-case demand, in MB/s.
    pub storage_mb_s: f64,
    /// Speedup with the best-case demand over a fair share of a server.
    pub speedup: f64,
    /// Seconds per iteration with a fair share of a server.
    pub iteration_s: f64,
    /// Factor on the speed if the job spans more than one server.
    pub placement_penalty: f64,
    /// Speed for each number of cores and amount of memory, if measured at all points of the file.
    pub sensitivity: Option<Arc<Sensitivity>>,
}

/// The profiles of a file.
///
/// The file is JSON with `cpu_points` (cores), `mem_points` (GB) and `models`. `models` maps a name
/// to `cpus`, `mem`, `speed`, `speedup`, `iter_time`, `placement_penalty` and `tput`, which has one
/// row of speeds for each number of cores. Jobs of any GPU count use the profile whose name ends
/// with `_1` (one GPU). Profiles of other GPU counts are ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles {
    path: PathBuf,
    models: SortedMap<String, Model>,
    /// Profile for unknown models.
    otherwise: Option<Model>,
}

/// The models that the original supports when it replays a trace.
const REPLAYED: [&str; 10] = [
    "alexnet",
    "res18",
    "res50",
    "mobilenet",
    "shufflenet",
    "gnmt",
    "transformer",
    "lstm",
    "m5",
    "deepspeech",
];

/// An error while reading profiles.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfilesError {
    /// The file cannot be read.
    #[error("{}: the profiles cannot be read: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not JSON of this form.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The path.
        path: PathBuf,
        /// The cause, with its position.
        source: serde_json::Error,
    },
    /// A field of a model has an invalid value.
    #[error("{}: model `{}`: {field} is {found}, expected {expected}", path.display(), shown(model))]
    Field {
        /// The path.
        path: PathBuf,
        /// The model.
        model: String,
        /// The field.
        field: &'static str,
        /// The value found.
        found: f64,
        /// Description of the expected value.
        expected: &'static str,
    },
    /// A table of speeds is invalid.
    #[error("{}: model `{}`: tput: {source}", path.display(), shown(model))]
    Table {
        /// The path.
        path: PathBuf,
        /// The model.
        model: String,
        /// The cause.
        source: SensitivityError,
    },
    /// The model that replaces unknown models is missing.
    #[error("{}: the model `{model}` is missing", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
        /// The model.
        model: String,
    },
}

#[derive(Deserialize)]
struct File {
    cpu_points: Vec<f64>,
    mem_points: Vec<f64>,
    models: SortedMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    cpus: f64,
    mem: f64,
    speed: f64,
    speedup: f64,
    iter_time: f64,
    #[serde(default = "one")]
    placement_penalty: f64,
    tput: Option<Vec<Vec<f64>>>,
}

fn one() -> f64 {
    1.0
}

impl Profiles {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, or holds an invalid number.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ProfilesError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| ProfilesError::Read {
            path: path.to_owned(),
            source,
        })?;
        Profiles::parse(&text, path)
    }

    /// Parses the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// If the text is not JSON of this form, or holds an invalid number.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ProfilesError> {
        let file: File = serde_json::from_str(text).map_err(|source| ProfilesError::Parse {
            path: path.to_owned(),
            source,
        })?;
        let mut models = SortedMap::new();
        for (name, entry) in &file.models {
            if let Some(name) = name.strip_suffix("_1") {
                models.insert(name.to_owned(), model(name, entry, &file, path)?);
            }
        }
        Ok(Profiles {
            path: path.to_owned(),
            models,
            otherwise: None,
        })
    }

    /// Looks models up as the original does: it supports ten models and replaces any other with
    /// `alexnet`, without a warning.
    ///
    /// # Errors
    /// If there is no profile of `alexnet`.
    pub fn as_replayed(mut self) -> Result<Self, ProfilesError> {
        self.models.retain(|name, _| REPLAYED.contains(&&**name));
        match self.models.get("alexnet") {
            Some(model) => self.otherwise = Some(model.clone()),
            None => {
                return Err(ProfilesError::Missing {
                    path: self.path,
                    model: "alexnet".to_owned(),
                });
            }
        }
        Ok(self)
    }

    /// The profile of a model.
    pub fn get(&self, model: &str) -> Option<&Model> {
        self.models.get(model).or(self.otherwise.as_ref())
    }

    /// The models, by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }
}

fn model(name: &str, e: &Entry, file: &File, path: &Path) -> Result<Model, ProfilesError> {
    for (field, found, expected) in [
        ("cpus", e.cpus, "a number above 0"),
        ("mem", e.mem, "a number above 0"),
        ("speed", e.speed, "a number of at least 0"),
        ("speedup", e.speedup, "a number above 0"),
        ("iter_time", e.iter_time, "a number above 0"),
        ("placement_penalty", e.placement_penalty, "a number above 0"),
    ] {
        let may_be_zero = field == "speed" && found == 0.0;
        if !(found.is_finite() && (found > 0.0 || may_be_zero)) {
            return Err(ProfilesError::Field {
                path: path.to_owned(),
                model: name.to_owned(),
                field,
                found,
                expected,
            });
        }
    }
    let table = |speed: &Vec<Vec<f64>>| {
        Sensitivity::new(
            file.cpu_points.clone(),
            file.mem_points.clone(),
            speed.clone(),
        )
        .map(Arc::new)
        .map_err(|source| ProfilesError::Table {
            path: path.to_owned(),
            model: name.to_owned(),
            source,
        })
    };
    Ok(Model {
        cpus: e.cpus,
        memory_gb: e.mem,
        storage_mb_s: e.speed,
        speedup: e.speedup,
        iteration_s: e.iter_time,
        placement_penalty: e.placement_penalty,
        sensitivity: e.tput.as_ref().map(table).transpose()?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const TEXT: &str = r#"{"cpu_points": [1, 3, 9], "mem_points": [20, 60], "models": {
        "alexnet_1": {"cpus": 9, "mem": 60, "speed": 60, "batch": 8, "speedup": 2, "iter_time": 0.5,
            "placement_penalty": 1, "tput": [[0.1, 0.3], [0.2, 1], [0.2, 2]]},
        "alexnet_2": {"cpus": 3, "mem": 60, "speed": 60, "speedup": 2, "iter_time": 0.5},
        "vae_1": {"cpus": 1, "mem": 20, "speed": 20, "speedup": 1, "iter_time": 0.25}}}"#;

    pub(in super::super) fn profiles() -> Profiles {
        Profiles::parse(TEXT, Path::new("p.json")).unwrap()
    }

    #[test]
    fn the_profile_of_one_gpu_counts() {
        let p = profiles();
        assert_eq!(p.names().collect::<Vec<_>>(), ["alexnet", "vae"]);
        let alexnet = p.get("alexnet").unwrap();
        assert_eq!((alexnet.cpus, alexnet.memory_gb), (9.0, 60.0));
        let table = alexnet.sensitivity.as_ref().unwrap();
        assert_eq!(table.speed(3.0, 60.0), 1.0);
        assert_eq!(p.get("vae").unwrap().placement_penalty, 1.0);
        assert_eq!(p.get("bert"), None);
    }

    #[test]
    fn the_original_takes_what_it_does_not_know_for_alexnet() {
        let p = profiles().as_replayed().unwrap();
        assert_eq!(p.get("vae"), p.get("alexnet"));
        assert_eq!(p.get("bert").unwrap().cpus, 9.0);
    }

    #[test]
    fn nonsense_is_named() {
        let message = |from: &str, to: &str| {
            let text = TEXT.replacen(from, to, 1);
            Profiles::parse(&text, Path::new("p.json"))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message(r#""iter_time": 0.5"#, r#""iter_time": 0"#),
            "p.json: model `alexnet`: iter_time is 0, expected a number above 0"
        );
        assert_eq!(
            message("[0.1, 0.3], ", ""),
            "p.json: model `alexnet`: tput: `speed` has another size, expected 3 rows of 2 numbers"
        );
        assert!(message("\"cpu_points\"", "\"x\"").contains("missing field `cpu_points`"));
    }
}
