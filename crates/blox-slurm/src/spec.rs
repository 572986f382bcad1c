//! Jobs as a scheduler reads them from Slurm's numbers and from the comment of their user.

use crate::job::JobInfo;
use blox_core::{Class, Deadline, Extras, GpuCount, JobSpec, Name, Seconds, SortedMap, Time, Work};
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

/// Longest comment that Slurm takes, in bytes.
const LONGEST: usize = 1024;

/// Content of a comment: the properties of a job for which Slurm has no field.
///
/// | word of the comment | meaning |
/// |---|---|
/// | `duration` | estimated seconds on the requested GPUs; the time limit if it is left out, else 3,600 |
/// | `iterations` | work in that time; if it is left out, one iteration a second, or as `rates` state |
/// | `priority` | priority; larger numbers are more urgent |
/// | `deadline` | seconds from the submission |
/// | `class` | `guaranteed`, `best-effort` or `spot:SECONDS` |
/// | `levels` | GPU counts at which an elastic job may run |
/// | `rates` | iterations a second at each of them |
/// | `model`, `batch_size`, `group`, `weight` | as in workload files |
///
/// Other words `NAME=VALUE` are attributes.
///
/// ```
/// use blox_slurm::Description;
///
/// let comment = "blox duration=3600 class=best-effort team=vision";
/// let job = Description::of_comment(comment)?;
/// assert_eq!(job.duration, Some(3600.0));
/// assert_eq!(job.comment()?, comment);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// Estimated seconds on the requested GPUs, above 0.
    pub duration: Option<f64>,
    /// Iterations in that time, above 0.
    pub iterations: Option<f64>,
    /// Priority; larger numbers are more urgent.
    pub priority: i32,
    /// Seconds from the submission to the deadline, above 0.
    pub deadline: Option<f64>,
    /// Guaranteed or spot.
    pub class: Class,
    /// GPU counts at which an elastic job may run, ascending; empty for a rigid job.
    pub levels: Vec<GpuCount>,
    /// Iterations a second at each of `levels`, above 0.
    pub rates: Vec<f64>,
    /// Name of the model that the job trains.
    pub model: Option<Name>,
    /// Number of samples in one step over all GPUs.
    pub batch_size: Option<u32>,
    /// Name of a group of jobs.
    pub group: Option<Name>,
    /// Weight of the job's share of the cluster, above 0.
    pub weight: Option<f64>,
    /// Other attributes, by name.
    pub attributes: SortedMap<Name, Value>,
}

/// Words of a comment that are no attributes.
const WORDS: [&str; 11] = [
    "duration",
    "iterations",
    "priority",
    "deadline",
    "class",
    "levels",
    "rates",
    "model",
    "batch_size",
    "group",
    "weight",
];

impl Description {
    /// Reads a comment. Its first word is left out.
    ///
    /// # Errors
    /// A sentence with the word, the value found and the value expected.
    pub fn of_comment(comment: &str) -> Result<Self, String> {
        let mut read = Description::default();
        for word in comment.split_whitespace().skip(1) {
            let Some((name, value)) = word.split_once('=') else {
                return Err(wrong(word, "NAME=VALUE"));
            };
            let number = |expected| {
                let number = value.parse::<f64>().ok();
                let number = number.filter(|v| is_number(*v));
                number.map(Some).ok_or_else(|| wrong(word, expected))
            };
            match name {
                "duration" => read.duration = number("seconds above 0")?,
                "iterations" => read.iterations = number("a number above 0")?,
                "priority" => {
                    let whole = value.parse();
                    read.priority = whole.map_err(|_| wrong(word, "a whole number"))?;
                }
                "deadline" => read.deadline = number("seconds above 0")?,
                "class" => {
                    let class: Result<Class, &str> = value.parse();
                    read.class = class.map_err(|expected| wrong(word, expected))?;
                }
                "levels" => {
                    let levels: Option<Vec<GpuCount>> = list(value);
                    read.levels = levels.ok_or_else(|| wrong(word, "GPU counts, as 1,2,4"))?;
                }
                "rates" => {
                    let rates: Option<Vec<f64>> = list(value);
                    read.rates = rates.ok_or_else(|| wrong(word, "numbers, as 1,1.9,3.5"))?;
                }
                "model" => read.model = Some(Name::from(value)),
                "group" => read.group = Some(Name::from(value)),
                "weight" => read.weight = number("a number above 0")?,
                "batch_size" => {
                    let size = value.parse().ok();
                    let size: u32 = size.ok_or_else(|| wrong(word, "a whole number"))?;
                    read.batch_size = Some(size);
                }
                "gpu_share" | "gpu_memory_share" => {
                    return Err(format!(
                        "the comment has `{word}`, but Slurm gives jobs whole GPUs only"
                    ));
                }
                SLURM_JOB => return Err(wrong(word, "another name")),
                _ => {
                    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
                    read.attributes.insert(Name::from(name), value);
                }
            }
        }
        if read.levels.is_empty() != read.rates.is_empty() {
            return Err("the comment has one of `levels` and `rates`, expected both".to_owned());
        }
        Ok(read)
    }

    /// Returns the comment, which [`Description::of_comment`] reads as an equal description.
    ///
    /// # Errors
    /// A sentence with the part that no comment can state, the value found and the value expected.
    pub fn comment(&self) -> Result<String, String> {
        let mut comment = MARK.to_owned();
        let mut add = |name: &str, value: String| comment.extend([" ", name, "=", &value]);
        let number = |name: &str, value: Option<f64>| match value {
            Some(value) if !is_number(value) => {
                Err(format!("{name} is `{value}`, expected a number above 0"))
            }
            value => Ok(value.map(|value| value.to_string())),
        };
        let plain = |name: &str, value: &Option<Name>| match value {
            Some(value) if !is_word(value) => Err(format!(
                "{name} is `{value}`, expected a word without blanks"
            )),
            value => Ok(value.as_ref().map(|value| value.to_string())),
        };
        for (name, value) in [
            ("duration", number("duration", self.duration)?),
            ("iterations", number("iterations", self.iterations)?),
            (
                "priority",
                (self.priority != 0).then(|| self.priority.to_string()),
            ),
            ("deadline", number("deadline", self.deadline)?),
            (
                "class",
                self.class.is_spot().then(|| self.class.to_string()),
            ),
            ("model", plain("model", &self.model)?),
            ("batch_size", self.batch_size.map(|size| size.to_string())),
            ("group", plain("group", &self.group)?),
            ("weight", number("weight", self.weight)?),
        ] {
            value.into_iter().for_each(|value| add(name, value));
        }
        if self.levels.len() != self.rates.len() {
            let (levels, rates) = (self.levels.len(), self.rates.len());
            return Err(format!(
                "there are {levels} levels and {rates} rates, expected a rate for each level"
            ));
        }
        if !self.levels.is_empty() {
            let levels: Vec<String> = self.levels.iter().map(|n| n.get().to_string()).collect();
            let rates = self.rates.iter().map(|rate| number("a rate", Some(*rate)));
            let rates: Vec<String> = rates
                .filter_map(Result::transpose)
                .collect::<Result<_, _>>()?;
            add("levels", levels.join(","));
            add("rates", rates.join(","));
        }
        for (name, value) in &self.attributes {
            let others = ["gpu_share", "gpu_memory_share", SLURM_JOB];
            if WORDS.contains(&&**name) || others.contains(&&**name) {
                return Err(format!(
                    "an attribute is named `{name}`, expected a name without another meaning"
                ));
            }
            if !is_word(name) || name.contains('=') {
                return Err(format!(
                    "an attribute is named `{name}`, expected a word without blanks and `=`"
                ));
            }
            add(name, stated(value));
        }
        match comment.len() > LONGEST {
            true => Err(format!(
                "the comment has {} bytes, but Slurm takes at most {LONGEST}",
                comment.len()
            )),
            false => Ok(comment),
        }
    }

    /// Returns the specification of a job with this description.
    ///
    /// # Errors
    /// A sentence: the job requests no GPU, or the description contradicts itself.
    pub fn spec(self, job: &JobInfo) -> Result<JobSpec, String> {
        if job.gpus == 0 {
            return Err(
                "it requests no GPU, expected --gres=gpu:N, --gpus or --gpus-per-node".to_owned(),
            );
        }
        let limit = job.limit_min.map(|minutes| minutes as f64 * 60.0);
        let limit = limit.filter(|s| *s > 0.0);
        let duration = self.duration.or(limit).unwrap_or(DURATION);
        let submit = Time::new(job.submit as f64);
        let deadline = self.deadline.map(|after| Deadline {
            at: submit + Seconds::new(after),
            value: 1.0,
        });
        let mut extras = Extras {
            deadlines: deadline.into_iter().collect(),
            class: self.class,
            levels: self.levels,
            rates: self.rates,
            model: self.model,
            batch_size: self.batch_size,
            group: self.group,
            weight: self.weight.unwrap_or_default(),
            gpu_types: job.gpu_type.iter().cloned().collect(),
            attributes: self.attributes,
            ..Extras::default()
        };
        extras
            .attributes
            .insert(Name::from(SLURM_JOB), job.id.into());
        let mut spec = JobSpec::new(submit, GpuCount(job.gpus), Seconds::new(duration))
            .named(job.name.as_str())
            .owned_by(job.user.as_str())
            .in_virtual_cluster(job.partition.as_str())
            .with_extras(extras);
        spec.priority = self.priority;
        let stated = self.iterations.map(|iterations| iterations / duration);
        if let Some(rate) = stated.or(profiled(&spec)) {
            spec.work = Work {
                iterations: self.iterations.unwrap_or(duration * rate),
                rate,
            };
        }
        spec.check()
            .map_err(|error| format!("the comment does not fit: {error}"))?;
        Ok(spec)
    }
}

/// Returns the specification of a job, from Slurm's fields and the [`Description`] in its comment.
///
/// # Errors
/// See [`Description::of_comment`] and [`Description::spec`].
pub fn spec_of(job: &JobInfo) -> Result<JobSpec, String> {
    Description::of_comment(&job.comment)?.spec(job)
}

/// Returns the text of an attribute's value: a word unchanged, any other value as JSON without blanks.
fn stated(value: &Value) -> String {
    if let Value::String(word) = value
        && is_word(word)
        && serde_json::from_str::<Value>(word).is_err()
    {
        return word.clone();
    }
    let mut text = String::new();
    // Outside of strings, JSON from a value has no blanks.
    for c in value.to_string().chars() {
        match is_shown(c) {
            true => text.push(c),
            false => text.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    text
}

fn is_shown(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_shown)
}

fn is_number(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Returns the rate of an elastic job on the GPUs that it requests, if its profile has it.
fn profiled(job: &JobSpec) -> Option<f64> {
    let extras = job.extras();
    let mut profile = extras.levels.iter().zip(&extras.rates);
    let own = profile.find(|(level, _)| **level == job.gpus);
    own.map(|(_, rate)| *rate).filter(|rate| *rate > 0.0)
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
        text.parse().ok().filter(|v| is_number(*v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobState;
    use proptest::prelude::*;

    /// A held job with a comment, as Slurm shows it.
    fn job(comment: String) -> JobInfo {
        JobInfo {
            id: 17,
            state: JobState::Held,
            reason: "JobHeldUser".to_owned(),
            name: "train".to_owned(),
            user: "ada".to_owned(),
            partition: "main".to_owned(),
            comment,
            submit: 1_000,
            start: 0,
            end: 0,
            limit_min: None,
            restarts: 0,
            on: Vec::new(),
            gpus: 4,
            gpu_type: None,
            nodes: 1,
            cpus: 4,
            requeues: true,
            per_task: false,
            exclusive: false,
            begin: 0,
            dependency: String::new(),
            tasks: String::new(),
            task: None,
            part_of: None,
        }
    }

    fn above_zero() -> impl Strategy<Value = f64> {
        prop_oneof![1e-9..1e9_f64, (1..100_000_u32).prop_map(f64::from)]
    }

    fn name() -> impl Strategy<Value = Name> {
        "[a-zA-Z0-9_.:=,\"\\\\'äß-]{1,8}".prop_map(|text| Name::from(text.as_str()))
    }

    fn value() -> impl Strategy<Value = Value> {
        let blanks = "[ \\t\\n\u{a0}\u{2003}\u{1}\"\\\\a-c0-9{}\\[\\]=,.-]{0,8}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            above_zero().prop_map(Value::from),
            blanks.prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ a-c]{0,3}", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn class() -> impl Strategy<Value = Class> {
        let spot = prop_oneof![Just(0.0), above_zero()].prop_map(|guaranteed| Class::Spot {
            guaranteed: Seconds::new(guaranteed),
        });
        prop_oneof![Just(Class::Guaranteed), spot]
    }

    prop_compose! {
        fn description()(
            (duration, iterations, deadline, weight) in (
                prop::option::of(above_zero()),
                prop::option::of(above_zero()),
                prop::option::of(above_zero()),
                prop::option::of(above_zero()),
            ),
            (priority, class, batch_size) in (any::<i32>(), class(), prop::option::of(1..10_000_u32)),
            rates in prop::collection::vec(above_zero(), 0..4),
            (model, group) in (prop::option::of(name()), prop::option::of(name())),
            attributes in prop::collection::btree_map("a_[a-zäß\"]{0,6}", value(), 0..3),
        ) -> Description {
            let levels = (0..rates.len() as u32).map(|i| GpuCount(1 << i)).collect();
            let attributes = attributes.into_iter();
            let attributes = attributes.map(|(name, value)| (Name::from(name.as_str()), value));
            Description {
                duration, iterations, priority, deadline, class, levels, rates, model, batch_size,
                group, weight, attributes: attributes.collect(),
            }
        }
    }

    proptest! {
        #[test]
        fn description_comment_reads_back(stated in description()) {
            let Ok(comment) = stated.comment() else {
                // Only its length is against it.
                prop_assert!(stated.comment().is_err_and(|e| e.ends_with("at most 1024")));
                return Ok(());
            };
            prop_assert!(is_marked(&comment));
            prop_assert_eq!(Description::of_comment(&comment), Ok(stated.clone()));
            // The scheduler reads the job that was described.
            let read = spec_of(&job(comment.clone()));
            prop_assert_eq!(&read, &stated.clone().spec(&job(String::new())));
            let read = read.unwrap();
            let duration = stated.duration.unwrap_or(DURATION);
            // The job requests four GPUs, which is the third level.
            let rate = stated.rates.get(2).copied().unwrap_or(1.0);
            prop_assert_eq!(read.work.iterations, stated.iterations.unwrap_or(duration * rate));
            prop_assert_eq!(read.priority, stated.priority);
            prop_assert_eq!(&read.extras().model, &stated.model);
            prop_assert_eq!(read.extras().class, stated.class);
            for (name, value) in &stated.attributes {
                prop_assert_eq!(read.attribute(name), Some(value));
            }
        }
    }

    #[test]
    fn description_that_no_comment_states_is_refused() {
        let with = |name: &str, value: Value| Description {
            attributes: [(Name::from(name), value)].into(),
            ..Description::default()
        };
        for (wrong, part) in [
            (with("duration", 1.into()), "named `duration`"),
            (with("slurm_job", 1.into()), "named `slurm_job`"),
            (with("gpu_share", 0.5.into()), "named `gpu_share`"),
            (with("a b", 1.into()), "named `a b`"),
            (with("a=b", 1.into()), "named `a=b`"),
            (with("a", "x".repeat(1100).into()), "has 1107 bytes"),
            (
                Description {
                    model: Some(Name::from("two words")),
                    ..Description::default()
                },
                "model is `two words`",
            ),
            (
                Description {
                    duration: Some(0.0),
                    ..Description::default()
                },
                "duration is `0`",
            ),
            (
                Description {
                    levels: vec![GpuCount(1)],
                    ..Description::default()
                },
                "1 levels and 0 rates",
            ),
        ] {
            let error = wrong.comment().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn words_of_comments_are_no_attributes() {
        for word in WORDS {
            let read = Description::of_comment(&format!("blox {word}=1 levels=1 rates=1"));
            let attributes = read.map_or(0, |read| read.attributes.len());
            assert_eq!(attributes, 0, "{word}");
        }
    }

    #[test]
    fn elastic_jobs_last_their_duration() {
        for comment in [
            "blox duration=3600 levels=1,2,4 rates=1,1.9,3.5",
            "blox duration=3600 levels=1,2,4 rates=1,1.9,3.5 iterations=12600",
            "blox duration=3600 levels=1,2 rates=1,1.9",
        ] {
            let spec = spec_of(&job(comment.to_owned())).unwrap();
            assert_eq!(spec.duration().secs(), 3600.0, "{comment}");
            let own = spec.rate_at(spec.gpus).unwrap();
            assert!((spec.work.iterations / own - 3600.0).abs() < 1e-9);
        }
    }
}
