//! Measured throughput of each job type on each GPU type.

use crate::edited::Edited;
use crate::source::{Source, reading_error};
use blox_core::SortedMap;
use blox_core::{JobSpec, Name, TypeSpeeds};
use blox_workloads::{Workload, WorkloadError};
use serde::Deserialize;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Gavel's throughput oracle: steps per second by GPU type and job type.
///
/// It is a JSON file such as `simulation_throughputs.json`. A key such as `('ResNet-18 (batch size
/// 32)', 1)` is a Python tuple of job type and GPU count. In each entry, `null` holds the rate of
/// the job alone; other keys hold the rates of both jobs on shared GPUs.
///
/// GPU types that end in `_unconsolidated` (jobs spread over servers) are ignored.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    kinds: SortedMap<(Name, u32), Arc<TypeSpeeds>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Rate {
    Alone(f64),
    Together([f64; 2]),
}

type Rates = SortedMap<String, SortedMap<String, SortedMap<String, Rate>>>;

impl Oracle {
    /// Reads a file, plain or gzip.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold such JSON.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, WorkloadError> {
        Self::of(&Source::at(path.as_ref())?)
    }

    fn of(source: &Source) -> Result<Self, WorkloadError> {
        let bad = |line: usize, what: String| {
            WorkloadError::line(source.path(), line.max(1) as u64, what)
        };
        let mut text = Vec::new();
        let read = source.text()?.read_to_end(&mut text);
        read.map_err(|e| reading_error(source.path(), e))?;
        let rates: Rates = serde_json::from_slice(&text).map_err(|e| {
            bad(
                e.line(),
                format!("{e}; expected GPU types, kinds of jobs and steps a second"),
            )
        })?;
        let mut kinds: SortedMap<(Name, u32), TypeSpeeds> = SortedMap::new();
        for (gpu_type, by_kind) in rates {
            if gpu_type.ends_with("_unconsolidated") {
                continue;
            }
            let gpu_type = Name::from(gpu_type);
            for (key, others) in by_kind {
                let wrong = |key: &str| {
                    bad(
                        1,
                        format!("`{key}` is no kind of job, expected ('TYPE', GPUS)"),
                    )
                };
                let (model, gpus) = kind(&key).ok_or_else(|| wrong(&key))?;
                let speeds = kinds.entry((model, gpus)).or_default();
                for (other, rate) in others {
                    match rate {
                        Rate::Alone(rate) => speeds.set(gpu_type.clone(), rate),
                        Rate::Together([own, theirs]) => {
                            let (model, gpus_of_other) =
                                kind(&other).ok_or_else(|| wrong(&other))?;
                            if gpus_of_other == gpus {
                                speeds.set_beside(gpu_type.clone(), model, own, theirs);
                            }
                        }
                    }
                }
            }
        }
        if let Some((kind, _)) = kinds.iter().find(|(_, s)| !s.is_sound()) {
            let what = format!("{kind:?} has a rate that is negative or no number");
            return Err(bad(1, what));
        }
        Ok(Oracle {
            kinds: kinds.into_iter().map(|(k, s)| (k, Arc::new(s))).collect(),
        })
    }

    /// Returns the speeds of a job type on a number of GPUs.
    pub fn speeds(&self, model: &str, gpus: u32) -> Option<&Arc<TypeSpeeds>> {
        self.kinds.get(&(Name::from(model), gpus))
    }

    /// Sets the speeds of a job, and its rate to the rate on the fastest GPU type. Returns `false`
    /// if the oracle lacks the job type, or if no GPU type can run it.
    pub fn profile(&self, job: &mut JobSpec) -> bool {
        let gpus = job.gpus.get();
        let Some(extras) = &mut job.submission.extras else {
            return false;
        };
        let known = extras
            .model
            .clone()
            .and_then(|m| self.kinds.get(&(m, gpus)));
        let Some(speeds) = known.filter(|s| s.fastest() > 0.0) else {
            return false;
        };
        job.work.rate = speeds.fastest();
        extras.speeds = Some(Arc::clone(speeds));
        true
    }
}

/// Parses `('ResNet-18 (batch size 32)', 1)`.
fn kind(text: &str) -> Option<(Name, u32)> {
    let inner = text.strip_prefix("('")?.strip_suffix(')')?;
    let (model, gpus) = inner.rsplit_once("', ")?;
    Some((Name::from(model), gpus.trim().parse().ok()?))
}

/// Gives jobs their speeds from an oracle, by model and number of GPUs.
///
/// A model is named such as `ResNet-18 (batch size 32)`. The duration of a job then applies to the
/// fastest GPU type. Jobs with speeds of their own are unchanged. Jobs that the oracle lacks are
/// unchanged and counted in a notice.
///
/// ```
/// use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
/// use blox_traces::formats::gavel::{Oracle, with_oracle};
/// use blox_workloads::{Jobs, Workload};
/// # let dir = std::env::temp_dir().join(format!("blox-speeds-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let file = dir.join("throughputs.json");
/// std::fs::write(&file, r#"{"k80": {"('A3C', 1)": {"null": 0.5}}, "v100": {"('A3C', 1)": {"null": 2.0}}}"#)?;
/// let extras = Extras { model: Some("A3C".into()), ..Extras::default() };
/// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0)).with_extras(extras);
/// let mut jobs = with_oracle(Jobs::new(vec![job]), Oracle::read(&file)?.into());
/// let job = jobs.next_job()?.expect("a job");
/// assert_eq!((job.work.iterations, job.work.rate), (120.0, 2.0));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn with_oracle<W: Workload>(jobs: W, oracle: Arc<Oracle>) -> Edited<W> {
    Edited::profiled(jobs, "speeds by type of GPU", move |job| {
        if job.extras().speeds.is_some() {
            return true;
        }
        let duration = job.duration().secs();
        let known = oracle.profile(job);
        if known {
            job.work.iterations = duration * job.work.rate;
        }
        known
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oracle_is_read_and_jobs_get_their_speeds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("throughputs.json");
        let json = r#"{"v100": {"('LM (batch size 5)', 1)": {"null": 4.0,
            "('A3C', 1)": [3.0, 0.5]}, "('A3C', 1)": {"null": 1.0}},
            "k80": {"('LM (batch size 5)', 1)": {"null": 0.0}}, "k80_unconsolidated": {}}"#;
        std::fs::write(&path, json).unwrap();
        let oracle = Oracle::read(&path).unwrap();
        let lm = oracle.speeds("LM (batch size 5)", 1).unwrap();
        assert_eq!(lm.alone("k80"), Some(0.0));
        assert_eq!(lm.beside("v100", "A3C"), Some([3.0, 0.5]));
        assert!(oracle.speeds("A3C", 2).is_none());
        std::fs::write(&path, r#"{"v100": {"LM": {"null": 4.0}}}"#).unwrap();
        let error = Oracle::read(&path).unwrap_err().to_string();
        assert!(error.contains("`LM` is no kind of job"), "{error}");
    }
}
