//! Jobs as a scheduler reads them from Slurm's numbers and from the comment of their user.

use crate::job::JobInfo;
use blox_core::{Class, Deadline, Extras, GpuCount, JobSpec, Name, Seconds, Time, Work};
use serde_json::Value;

/// First word of the comment of a job that a scheduler of the toolkit may start.
pub const MARK: &str = "blox";

/// Name of the attribute with Slurm's number of a job.
pub const SLURM_JOB: &str = "slurm_job";

/// Duration in seconds of a job without a duration and without a time limit.
const DURATION: f64 = 3600.0;

/// Returns whether a job's comment gives it to a scheduler of the toolkit.
///
/// ```
/// assert!(blox_slurm::is_marked("blox duration=600"));
/// assert!(!blox_slurm::is_marked("bloxham"));
/// ```
pub fn is_marked(comment: &str) -> bool {
    comment.split_whitespace().next() == Some(MARK)
}

/// Returns the specification of a job. Its comment states what Slurm has no field for, as in
/// `blox duration=3600 levels=1,2,4 rates=1,1.9,3.5`; other words `NAME=VALUE` are attributes.
///
/// | word | meaning |
/// |---|---|
/// | `duration` | estimated seconds on the requested GPUs; the time limit if it is left out, else 3,600 |
/// | `iterations` | work in that time; one iteration a second if it is left out |
/// | `priority` | priority; larger numbers are more urgent |
/// | `deadline` | seconds from the submission |
/// | `class` | `guaranteed`, `best-effort` or `spot:SECONDS` |
/// | `levels` | GPU counts at which an elastic job may run |
/// | `rates` | iterations a second at each of them |
/// | `model`, `batch_size`, `group`, `weight` | as in workload files |
///
/// # Errors
/// A sentence with the word, the value found and the value expected.
pub fn spec_of(job: &JobInfo) -> Result<JobSpec, String> {
    if job.gpus == 0 {
        return Err(
            "it requests no GPU, expected --gres=gpu:N, --gpus or --gpus-per-node".to_owned(),
        );
    }
    let limit = job.limit_min.map(|minutes| minutes as f64 * 60.0);
    let mut duration = limit.filter(|s| *s > 0.0).unwrap_or(DURATION);
    let (mut iterations, mut priority) = (None, 0);
    let mut extras = Extras::default();
    let submit = Time::new(job.submit as f64);
    for word in job.comment.split_whitespace().skip(1) {
        let Some((name, value)) = word.split_once('=') else {
            return Err(wrong(word, "NAME=VALUE"));
        };
        let number = |expected| {
            let number = value.parse::<f64>().ok();
            let number = number.filter(|v| v.is_finite() && *v > 0.0);
            number.ok_or_else(|| wrong(word, expected))
        };
        match name {
            "duration" => duration = number("seconds above 0")?,
            "iterations" => iterations = Some(number("a number above 0")?),
            "priority" => {
                let whole = value.parse();
                priority = whole.map_err(|_| wrong(word, "a whole number"))?;
            }
            "deadline" => {
                let at = submit + Seconds::new(number("seconds above 0")?);
                extras.deadlines = vec![Deadline { at, value: 1.0 }];
            }
            "class" => {
                let class: Result<Class, &str> = value.parse();
                extras.class = class.map_err(|expected| wrong(word, expected))?;
            }
            "levels" => {
                let levels: Option<Vec<GpuCount>> = list(value);
                extras.levels = levels.ok_or_else(|| wrong(word, "GPU counts, as 1,2,4"))?;
            }
            "rates" => {
                let rates: Option<Vec<f64>> = list(value);
                extras.rates = rates.ok_or_else(|| wrong(word, "numbers, as 1,1.9,3.5"))?;
            }
            "model" => extras.model = Some(Name::from(value)),
            "group" => extras.group = Some(Name::from(value)),
            "weight" => extras.weight = number("a number above 0")?,
            "batch_size" => {
                let size = value.parse().ok();
                let size: u32 = size.ok_or_else(|| wrong(word, "a whole number"))?;
                extras.batch_size = Some(size);
            }
            "gpu_share" | "gpu_memory_share" => {
                return Err(format!(
                    "the comment has `{word}`, but Slurm gives jobs whole GPUs only"
                ));
            }
            SLURM_JOB => return Err(wrong(word, "another name")),
            _ => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
                extras.attributes.insert(Name::from(name), value);
            }
        }
    }
    extras
        .attributes
        .insert(Name::from(SLURM_JOB), job.id.into());
    if extras.levels.is_empty() != extras.rates.is_empty() {
        return Err("the comment has one of `levels` and `rates`, expected both".to_owned());
    }
    extras.gpu_types.extend(job.gpu_type.clone());
    let mut spec = JobSpec::new(submit, GpuCount(job.gpus), Seconds::new(duration))
        .named(job.name.as_str())
        .owned_by(job.user.as_str())
        .in_virtual_cluster(job.partition.as_str())
        .with_extras(extras);
    spec.priority = priority;
    if let Some(iterations) = iterations {
        spec.work = Work {
            iterations,
            rate: iterations / duration,
        };
    }
    spec.check()
        .map_err(|error| format!("the comment does not fit: {error}"))?;
    Ok(spec)
}

/// Returns Slurm's number of a job.
pub(crate) fn number_of(job: &blox_core::JobRef<'_>) -> Option<u32> {
    let number = job.spec().attribute(SLURM_JOB)?.as_u64()?;
    u32::try_from(number).ok()
}

fn wrong(word: &str, expected: &str) -> String {
    format!("the comment has `{word}`, expected {expected}")
}

/// Reads a list such as `1,2,4`.
fn list<T: Listed>(text: &str) -> Option<Vec<T>> {
    text.split(',').map(T::read).collect()
}

/// A part of a list.
trait Listed: Sized {
    fn read(text: &str) -> Option<Self>;
}

impl Listed for GpuCount {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok().map(GpuCount)
    }
}

impl Listed for f64 {
    fn read(text: &str) -> Option<Self> {
        text.parse()
            .ok()
            .filter(|v: &f64| v.is_finite() && *v > 0.0)
    }
}
