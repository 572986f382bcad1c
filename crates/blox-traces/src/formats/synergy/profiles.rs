//! Measured profiles of models.

use crate::rows::wrong_field;
use blox_core::{Sensitivity, SortedMap};
use blox_workloads::WorkloadError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The profile of one model on one GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Model {
    /// CPU cores of the best-case demand.
    pub cpus: f64,
    /// Memory of the best-case demand, in GB.
    #[serde(rename = "mem")]
    pub memory_gb: f64,
    /// Storage bandwidth of the best-case demand, in MB/s.
    #[serde(rename = "speed")]
    pub storage_mb_s: f64,
    /// Speedup with the best-case demand over a fair share of a server.
    pub speedup: f64,
    /// Seconds per iteration with a fair share of a server.
    #[serde(rename = "iter_time")]
    pub iteration_s: f64,
    /// Factor on the speed if the job spans more than one server.
    #[serde(default = "one")]
    pub placement_penalty: f64,
    /// Speed for each number of cores and amount of memory, if measured at all points of the file.
    #[serde(skip)]
    pub sensitivity: Option<Arc<Sensitivity>>,
    /// The speeds of `sensitivity`, until the points of the file are known.
    tput: Option<Vec<Vec<f64>>>,
}

fn one() -> f64 {
    1.0
}

impl Model {
    /// Returns the first invalid field with its value and the expected value.
    fn wrong(&self) -> Option<(&'static str, f64, &'static str)> {
        let at_least_0 = self.storage_mb_s >= 0.0 && self.storage_mb_s.is_finite();
        if !at_least_0 {
            return Some(("speed", self.storage_mb_s, "a number of at least 0"));
        }
        let positive = [
            ("cpus", self.cpus),
            ("mem", self.memory_gb),
            ("speedup", self.speedup),
            ("iter_time", self.iteration_s),
            ("placement_penalty", self.placement_penalty),
        ];
        let wrong = |(_, found): &(_, f64)| !(*found > 0.0 && found.is_finite());
        let (field, found) = positive.into_iter().find(wrong)?;
        Some((field, found, "a number above 0"))
    }
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

#[derive(Deserialize)]
struct File {
    cpu_points: Vec<f64>,
    mem_points: Vec<f64>,
    models: SortedMap<String, Model>,
}

impl Profiles {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, or holds an invalid number.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, WorkloadError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|e| WorkloadError::file(path, e))?;
        Profiles::parse(&text, path)
    }

    /// Parses the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// If the text is not JSON of this form, or holds an invalid number.
    pub fn parse(text: &str, path: &Path) -> Result<Self, WorkloadError> {
        let file: File = serde_json::from_str(text)
            .map_err(|e| WorkloadError::line(path, e.line().max(1) as u64, e.to_string()))?;
        let mut models = SortedMap::new();
        for (key, mut model) in file.models {
            let Some(name) = key.strip_suffix("_1") else {
                continue;
            };
            let begin = text.find(&format!("\"{key}\"")).unwrap_or(0);
            let line = text[..begin].matches('\n').count() as u64 + 1;
            if let Some((field, found, expected)) = model.wrong() {
                let field = format!("{key}.{field}");
                return Err(wrong_field(path, line, field, found.to_string(), expected));
            }
            if let Some(speed) = model.tput.take() {
                let points = (file.cpu_points.clone(), file.mem_points.clone());
                let table = Sensitivity::new(points.0, points.1, speed);
                let wrong = |e| WorkloadError::line(path, line, format!("{key}.tput: {e}"));
                model.sensitivity = Some(Arc::new(table.map_err(wrong)?));
            }
            models.insert(name.to_owned(), model);
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
    pub fn as_replayed(mut self) -> Result<Self, WorkloadError> {
        self.models.retain(|name, _| REPLAYED.contains(&&**name));
        let Some(model) = self.models.get("alexnet") else {
            let what = "the model `alexnet_1` is missing, expected its profile";
            return Err(WorkloadError::line(&self.path, 1, what));
        };
        self.otherwise = Some(model.clone());
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
    fn original_takes_an_unknown_model_for_alexnet() {
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
            "p.json:2: alexnet_1.iter_time is `0`, expected a number above 0"
        );
        assert_eq!(
            message("[0.1, 0.3], ", ""),
            "p.json:2: alexnet_1.tput: `speed` has another size, expected 3 rows of 2 numbers"
        );
        assert!(message("\"cpu_points\"", "\"x\"").contains("missing field `cpu_points`"));
    }
}
