//! Job specifications: the part of a job that never changes.

use super::loss::LossReports;
use super::nodes::NodeLimit;
use super::sensitivity::Sensitivity;
use super::speeds::TypeSpeeds;
use super::training::TrainingSpec;
use crate::curve::Curve;
use crate::ids::Name;
use crate::model::share::Share;
use crate::units::{AMOUNT, GpuCount, Seconds, Time, is_amount};
use serde::{Deserialize, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Amount of work of a job.
///
/// Work is counted in iterations. `rate` is the number of iterations a second on exactly the
/// requested allocation. A job of a trace with only a duration has one iteration a second. These
/// are the true values that the simulator executes. A policy gets its beliefs from an
/// [`Estimator`](crate::estimate::Estimator), and reads the truth in
/// [`JobRef::truth`](crate::JobRef::truth).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Iterations to do, at least 0.
    pub iterations: f64,
    /// Iterations a second on the requested allocation, above 0.
    pub rate: f64,
}

impl Work {
    /// Returns work that takes `duration` on the requested allocation, at one iteration a second.
    pub fn lasting(duration: Seconds) -> Self {
        Work {
            iterations: duration.secs(),
            rate: 1.0,
        }
    }

    /// Returns the duration of all work on the requested allocation.
    #[inline]
    pub fn duration(&self) -> Seconds {
        Seconds::new(self.iterations / self.rate)
    }
}

/// Class of a job.
///
/// In files, a spot job is `spot:SECONDS` with its guaranteed time, and `best-effort` without any.
///
/// ```
/// use blox_core::{Class, Seconds};
/// let spot: Class = "spot:3600".parse()?;
/// assert_eq!(spot, Class::Spot { guaranteed: Seconds::from_hours(1.0) });
/// assert_eq!("spot".parse(), Ok(Class::BEST_EFFORT));
/// assert_eq!(Class::BEST_EFFORT.to_string(), "best-effort");
/// # Ok::<(), &'static str>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "Cow<'static, str>", try_from = "Cow<'_, str>")]
pub enum Class {
    /// An ordinary job.
    #[default]
    Guaranteed,
    /// Runs on leftover GPUs; its deadlines do not count.
    Spot {
        /// Running time of each launch in which a scheduler should not stop the job, at least 0
        /// ([`JobRef::protected_until`](crate::JobRef::protected_until)).
        guaranteed: Seconds,
    },
}

impl Class {
    /// A spot job without guaranteed time.
    pub const BEST_EFFORT: Class = Class::Spot {
        guaranteed: Seconds::ZERO,
    };

    /// Returns whether the job is a spot job.
    pub fn is_spot(self) -> bool {
        self != Class::Guaranteed
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Guaranteed => f.write_str("guaranteed"),
            Class::Spot { guaranteed } if *guaranteed == Seconds::ZERO => {
                f.write_str("best-effort")
            }
            Class::Spot { guaranteed } => write!(f, "spot:{guaranteed}"),
        }
    }
}

impl std::str::FromStr for Class {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = |text: &str| Seconds::try_new(text.parse().ok()?);
        match text {
            "guaranteed" => Ok(Class::Guaranteed),
            "best-effort" | "spot" => Ok(Class::BEST_EFFORT),
            _ => text
                .strip_prefix("spot:")
                .and_then(seconds)
                .filter(|guaranteed| *guaranteed >= Seconds::ZERO)
                .map(|guaranteed| Class::Spot { guaranteed })
                .ok_or("guaranteed, best-effort, spot or spot:SECONDS"),
        }
    }
}

impl From<Class> for Cow<'static, str> {
    fn from(class: Class) -> Self {
        match class {
            Class::Guaranteed => "guaranteed".into(),
            Class::Spot { .. } => class.to_string().into(),
        }
    }
}

impl TryFrom<Cow<'_, str>> for Class {
    type Error = String;

    fn try_from(text: Cow<'_, str>) -> Result<Self, String> {
        let parsed = text.parse();
        parsed.map_err(|expected: &str| format!("class is `{text}`, expected {expected}"))
    }
}

/// A deadline of a job, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deadline {
    /// Time of the deadline.
    pub at: Time,
    /// Value of meeting the deadline; comparable between the jobs of one workload.
    pub value: f64,
}

/// Attributes of a job that most jobs do not have. They are separate so that the usual job stays
/// small.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Extras {
    /// Name of the model that the job trains, as in the profile tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Name>,
    /// Number of samples in one step over all GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u32>,
    /// GPU counts at which an elastic job may run, ascending; empty for a rigid job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<GpuCount>,
    /// Iterations a second at each of `levels`, as profiled before submission; empty if not
    /// measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<f64>,
    /// GPU types on which the job runs; empty for any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_types: Vec<Name>,
    /// Number of nodes on which the job must run, with an equal part of its GPUs on each; `None` for
    /// any nodes. The number divides the GPUs. The job is rigid: it has neither
    /// [`levels`](Extras::levels) nor [`training`](Extras::training).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NonZeroU32>,
    /// Deadlines, earliest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deadlines: Vec<Deadline>,
    /// Guaranteed or spot.
    pub class: Class,
    /// The part of each GPU that the job needs.
    #[serde(skip_serializing_if = "Share::is_whole")]
    pub share: Share,
    /// CPU cores for all GPUs together; 0 if not specified.
    pub cpus: f64,
    /// Memory in GiB for all GPUs together; 0 if not specified.
    pub memory_gib: f64,
    /// Loss curve of the job and interval of its reports; `None` for a job that does not report its
    /// loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossReports>,
    /// Fraction of a step spent on exchanging gradients if all GPUs have the fastest links of the
    /// cluster, within nodes or between them. From 0 to below 1; 0 if not specified.
    ///
    /// It is relative: the exchange takes longer in proportion if the links are slower, whatever other
    /// jobs do. [`traffic`](Extras::traffic) is an amount instead. Neither follows from the other: this
    /// fraction knows no bandwidth, and an amount no links within nodes.
    #[serde(skip_serializing_if = "is_zero")]
    pub communication: f64,
    /// Network demand of one iteration in Gbit/s, as a function of the time within the iteration;
    /// the period is the length of an iteration. `None` if not measured.
    ///
    /// A job is slow only where jobs together demand more than a link of the network has. If
    /// [`communication`](Extras::communication) is stated, too, it is the part of the iteration with
    /// demand, and then concerns the links within nodes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Curve>,
    /// Number of copies of its GPUs that a service needs, as a function of the time; `None` for a job
    /// that is no service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub need: Option<Curve>,
    /// Speed as a function of CPUs and memory, if measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Arc<Sensitivity>>,
    /// Speed on each GPU type, alone and beside other jobs, if measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speeds: Option<Arc<TypeSpeeds>>,
    /// Weight of the job's share of the cluster relative to other jobs. 0 if not specified, which
    /// counts as 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: f64,
    /// Training specification of a job that may run on other GPUs and with another batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training: Option<Arc<TrainingSpec>>,
    /// Name of a group of jobs, such as one hyper-parameter search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Name>,
    /// The user's estimate of the running time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_estimate: Option<Seconds>,
    /// Command with arguments that a real cluster runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Other attributes from a trace or a user, by name, for policies that read them.
    #[serde(skip_serializing_if = "crate::sorted::SortedMap::is_empty")]
    pub attributes: crate::sorted::SortedMap<Name, serde_json::Value>,
}

fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

/// A job as a user submits it: a [`JobSpec`] without its [`Work`]. Policies read no more of a
/// specification ([`JobRef::spec`](crate::JobRef::spec)).
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// Time of submission.
    pub submit: Time,
    /// Number of requested GPUs; all of them start together (a gang). At least 1.
    pub gpus: GpuCount,
    /// Priority; larger numbers are more urgent. 0 by default.
    pub priority: i32,
    /// Identifier of the job in its trace: `job_id` in files. Its number is another value.
    pub name: Option<Name>,
    /// Owner of the job.
    pub user: Option<Name>,
    /// Virtual cluster (queue, tenant) that the job is submitted to.
    pub virtual_cluster: Option<Name>,
    /// Attributes that most jobs do not have.
    pub extras: Option<Box<Extras>>,
}

impl Submission {
    /// Creates a submission of a job of `gpus` GPUs.
    pub fn new(submit: Time, gpus: GpuCount) -> Self {
        Submission {
            submit,
            gpus,
            priority: 0,
            name: None,
            user: None,
            virtual_cluster: None,
            extras: None,
        }
    }

    /// Returns the extras of the job, or the defaults if it has none.
    pub fn extras(&self) -> &Extras {
        static NONE: std::sync::OnceLock<Extras> = std::sync::OnceLock::new();
        match &self.extras {
            Some(extras) => extras,
            None => NONE.get_or_init(Extras::default),
        }
    }

    /// Returns the nodes on which the job must run; `None` if it may run on any nodes.
    pub fn node_limit(&self) -> Option<NodeLimit> {
        let nodes = self.extras.as_ref()?.nodes?.get();
        Some(NodeLimit {
            nodes,
            gpus: self.gpus.get() / nodes,
        })
    }

    /// Returns the number of GPUs that a service needs at a time: its GPUs for each whole copy.
    /// Returns `None` for a job that is no service.
    ///
    /// ```
    /// use blox_core::{Curve, Extras, GpuCount, JobSpec, Seconds, Time};
    /// let need = Curve::new(Seconds::from_hours(24.0), [(Seconds::ZERO, 3.5)]);
    /// let service = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::from_hours(48.0));
    /// let service = service.with_extras(Extras { need, ..Extras::default() });
    /// assert_eq!(service.need_at(Time::ZERO), Some(GpuCount(6)));
    /// ```
    pub fn need_at(&self, at: Time) -> Option<GpuCount> {
        let copies = self.extras.as_ref()?.need.as_ref()?.at(at).floor();
        // The conversion saturates.
        Some(GpuCount((copies * f64::from(self.gpus.get())) as u32))
    }

    /// Returns an attribute by name, as the trace or the user gave it; `None` if there is none.
    ///
    /// ```
    /// use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
    /// let mut extras = Extras::default();
    /// extras.attributes.insert("app_class".into(), "bert".into());
    /// let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(60.0)).with_extras(extras);
    /// assert_eq!(job.attribute("app_class").and_then(|v| v.as_str()), Some("bert"));
    /// assert_eq!(job.attribute("level"), None);
    /// ```
    pub fn attribute(&self, name: &str) -> Option<&serde_json::Value> {
        self.extras.as_ref()?.attributes.get(name)
    }

    /// Returns the profiled iterations a second on `gpus` GPUs; `own` on the requested GPUs without
    /// a profile. Returns `None` if unknown.
    #[inline]
    pub(crate) fn rate_at(&self, gpus: GpuCount, own: f64) -> Option<f64> {
        let profiled = self.extras.as_ref().and_then(|e| {
            let at = e.levels.iter().position(|l| *l == gpus)?;
            e.rates.get(at).copied()
        });
        profiled.or((gpus == self.gpus).then_some(own))
    }
}

/// Specification of a job: a [`Submission`] and the true work. Immutable once submitted.
///
/// Traces, backends and collectors have whole specifications. A policy reads the submission in
/// [`JobRef::spec`](crate::JobRef::spec), and the work only in [`JobRef::truth`](crate::JobRef::truth).
///
/// ```
/// use blox_core::{GpuCount, JobSpec, Seconds, Time};
/// let spec = JobSpec::new(Time::new(60.0), GpuCount(4), Seconds::from_hours(2.0))
///     .named("resnet-7")
///     .owned_by("ada")
///     .in_virtual_cluster("vision");
/// assert_eq!(spec.duration().hours(), 2.0);
/// assert_eq!(spec.user.as_deref(), Some("ada")); // a field of the submission
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Flat<'static>")]
pub struct JobSpec {
    /// The job as its user submits it.
    pub submission: Submission,
    /// Amount of work.
    pub work: Work,
}

impl Deref for JobSpec {
    type Target = Submission;

    #[inline]
    fn deref(&self) -> &Submission {
        &self.submission
    }
}

impl DerefMut for JobSpec {
    #[inline]
    fn deref_mut(&mut self) -> &mut Submission {
        &mut self.submission
    }
}

/// A specification in files: all fields are on one level.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flat<'a> {
    submit: Time,
    gpus: GpuCount,
    work: Work,
    #[serde(default)]
    priority: i32,
    #[serde(default, rename = "job_id", skip_serializing_if = "is_none")]
    name: Cow<'a, Option<Name>>,
    #[serde(default, skip_serializing_if = "is_none")]
    user: Cow<'a, Option<Name>>,
    #[serde(default, skip_serializing_if = "is_none")]
    virtual_cluster: Cow<'a, Option<Name>>,
    #[serde(default, skip_serializing_if = "is_none")]
    extras: Cow<'a, Option<Box<Extras>>>,
}

#[expect(clippy::ptr_arg, reason = "serde passes the field")]
fn is_none<T: Clone>(value: &Cow<'_, Option<T>>) -> bool {
    value.is_none()
}

impl Serialize for JobSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let flat = Flat {
            submit: self.submit,
            gpus: self.gpus,
            work: self.work,
            priority: self.priority,
            name: Cow::Borrowed(&self.name),
            user: Cow::Borrowed(&self.user),
            virtual_cluster: Cow::Borrowed(&self.virtual_cluster),
            extras: Cow::Borrowed(&self.extras),
        };
        flat.serialize(serializer)
    }
}

impl From<Flat<'static>> for JobSpec {
    fn from(flat: Flat<'static>) -> Self {
        let submission = Submission {
            submit: flat.submit,
            gpus: flat.gpus,
            priority: flat.priority,
            name: flat.name.into_owned(),
            user: flat.user.into_owned(),
            virtual_cluster: flat.virtual_cluster.into_owned(),
            extras: flat.extras.into_owned(),
        };
        JobSpec {
            submission,
            work: flat.work,
        }
    }
}

impl JobSpec {
    /// Creates a job of `gpus` GPUs that runs for `duration` on them.
    pub fn new(submit: Time, gpus: GpuCount, duration: Seconds) -> Self {
        JobSpec {
            submission: Submission::new(submit, gpus),
            work: Work::lasting(duration),
        }
    }

    /// Sets the identifier of the job in its trace.
    #[must_use]
    pub fn named(mut self, name: impl Into<Name>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the owner.
    #[must_use]
    pub fn owned_by(mut self, user: impl Into<Name>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the virtual cluster.
    #[must_use]
    pub fn in_virtual_cluster(mut self, vc: impl Into<Name>) -> Self {
        self.virtual_cluster = Some(vc.into());
        self
    }

    /// Sets the attributes that most jobs do not have.
    #[must_use]
    pub fn with_extras(mut self, extras: Extras) -> Self {
        self.extras = Some(Box::new(extras));
        self
    }

    /// Returns the running time on the requested allocation.
    #[inline]
    pub fn duration(&self) -> Seconds {
        self.work.duration()
    }

    /// Returns the iterations a second on `gpus` GPUs: the profiled rate, else the job's own rate
    /// on its requested GPUs. Returns `None` if unknown.
    #[inline]
    pub fn rate_at(&self, gpus: GpuCount) -> Option<f64> {
        self.submission.rate_at(gpus, self.work.rate)
    }

    /// Checks that all fields are within their ranges.
    ///
    /// # Errors
    /// Returns the first invalid field, its value and the expected range.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.gpus == GpuCount::ZERO {
            return wrong("gpus", 0, "at least 1");
        }
        if !is_amount(self.work.iterations) {
            return wrong("work.iterations", self.work.iterations, AMOUNT);
        }
        if !(is_amount(self.work.rate) && self.work.rate > 0.0) {
            return wrong("work.rate", self.work.rate, "a finite number above 0");
        }
        let Some(extras) = &self.extras else {
            return Ok(());
        };
        let uneven = |nodes: &NonZeroU32| !self.gpus.get().is_multiple_of(nodes.get());
        if let Some(nodes) = extras.nodes.filter(uneven) {
            let found = format!("{nodes} for {} GPUs", self.gpus);
            return wrong("extras.nodes", found, "a number that divides the GPUs");
        }
        extras.check()
    }
}

impl Extras {
    /// Returns whether the job runs on GPUs of a type. The type is one of `gpu_types` if there are
    /// any. With measured speeds, the speed alone on the type is above 0. A training job has limits
    /// for the type, unless the type has no name.
    ///
    /// ```
    /// use blox_core::{Extras, TypeSpeeds};
    /// let mut speeds = TypeSpeeds::default();
    /// speeds.set("v100", 2.0);
    /// speeds.set("k80", 0.0);
    /// let extras = Extras { speeds: Some(speeds.into()), ..Extras::default() };
    /// assert!(extras.runs_on("v100"));
    /// assert!(!extras.runs_on("k80"));
    /// assert!(!extras.runs_on("p100")); // not measured
    /// ```
    pub fn runs_on(&self, gpu_type: &str) -> bool {
        let listed = self.gpu_types.is_empty() || self.gpu_types.iter().any(|t| **t == *gpu_type);
        let alone = |speeds: &Arc<TypeSpeeds>| speeds.alone(gpu_type).is_some_and(|s| s > 0.0);
        let trains = |t: &Arc<TrainingSpec>| gpu_type.is_empty() || t.on(gpu_type).is_some();
        listed
            && self.speeds.as_ref().is_none_or(alone)
            && self.training.as_ref().is_none_or(trains)
    }

    /// Returns whether the job runs on GPUs of every type.
    pub(crate) fn runs_anywhere(&self) -> bool {
        self.gpu_types.is_empty() && self.speeds.is_none() && self.training.is_none()
    }

    fn check(&self) -> Result<(), SpecError> {
        if !self.levels.is_sorted() || self.levels.first() == Some(&GpuCount::ZERO) {
            let expected = "ascending counts of at least 1";
            return wrong("extras.levels", format!("{:?}", self.levels), expected);
        }
        let elastic = [
            ("levels", !self.levels.is_empty()),
            ("training", self.training.is_some()),
        ];
        if let Some(nodes) = self.nodes
            && let Some((other, _)) = elastic.iter().find(|(_, given)| *given)
        {
            let found = format!("{nodes} beside extras.{other}");
            let expected = "one of the two: a job on a fixed number of nodes keeps its GPUs";
            return wrong("extras.nodes", found, expected);
        }
        let measured = self.rates.iter().all(|rate| is_amount(*rate));
        let each = self.rates.is_empty() || self.rates.len() == self.levels.len();
        if !(measured && each) {
            let expected = "a finite number that is not negative for each of the levels";
            return wrong("extras.rates", format!("{:?}", self.rates), expected);
        }
        if let Some(d) = self.deadlines.iter().find(|d| !d.value.is_finite()) {
            let expected = "values that are finite numbers";
            return wrong("extras.deadlines", d.value, expected);
        }
        if !self.deadlines.is_sorted_by_key(|d| d.at) {
            let at: Vec<f64> = self.deadlines.iter().map(|d| d.at.secs()).collect();
            return wrong("extras.deadlines", format!("{at:?}"), "the earliest first");
        }
        if let Some(loss) = &self.loss
            && !(loss.curve.is_sound() && is_amount(loss.epoch) && loss.epoch > 0.0)
        {
            let expected = "b0 and b2 of at least 0, b1 and an epoch above 0";
            return wrong("extras.loss", format!("{loss:?}"), expected);
        }
        if !(0.0..1.0).contains(&self.communication) {
            let expected = "a share of at least 0 and below 1";
            return wrong("extras.communication", self.communication, expected);
        }
        if let Some(traffic) = self.traffic.as_ref().filter(|_| self.communication > 0.0) {
            let part = part_with_demand(traffic);
            if (part - self.communication).abs() > 0.01 {
                let stated = self.communication;
                let found = format!("{stated} beside extras.traffic for {part:.3} of an iteration");
                return wrong("extras.communication", found, "the same part");
            }
        }
        if let Some(speeds) = self.speeds.as_ref().filter(|s| !s.is_sound()) {
            let expected = "rates that are finite numbers and not negative";
            return wrong("extras.speeds", format!("{speeds:?}"), expected);
        }
        if let Some(found) = self.training.as_ref().and_then(|t| t.fault()) {
            let expected = "batches, passes and stages of at least 1, in order, and rates above 0";
            return wrong("extras.training", found, expected);
        }
        for (field, amount) in [
            ("extras.cpus", self.cpus),
            ("extras.memory_gib", self.memory_gib),
            ("extras.weight", self.weight),
        ] {
            if !is_amount(amount) {
                return wrong(field, amount, AMOUNT);
            }
        }
        Ok(())
    }
}

/// Returns the part of a period in which a curve is above 0.
fn part_with_demand(curve: &Curve) -> f64 {
    let ends = curve.steps()[1..].iter().map(|step| step.0);
    let ends = ends.chain([curve.period()]);
    let lengths = curve.steps().iter().zip(ends);
    let above = lengths.filter(|((_, value), _)| *value > 0.0);
    let sum: f64 = above.map(|((from, _), to)| (to - *from).secs()).sum();
    sum / curve.period().secs()
}

fn wrong(
    field: &'static str,
    found: impl fmt::Display,
    expected: &'static str,
) -> Result<(), SpecError> {
    Err(SpecError {
        field,
        found: found.to_string(),
        expected,
    })
}

/// An invalid field of a job specification.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field} is {found}, expected {expected}")]
pub struct SpecError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub found: String,
    /// Expected range.
    pub expected: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_gpus_is_refused_by_name() {
        let spec = JobSpec::new(Time::ZERO, GpuCount(0), Seconds::new(1.0));
        assert_eq!(
            spec.check().unwrap_err().to_string(),
            "gpus is 0, expected at least 1"
        );
    }

    #[test]
    fn a_profile_has_a_rate_for_each_level() {
        let mut spec =
            JobSpec::new(Time::ZERO, GpuCount(8), Seconds::new(60.0)).with_extras(Extras {
                levels: vec![GpuCount(1), GpuCount(2)],
                rates: vec![2.0, 3.5],
                ..Extras::default()
            });
        assert_eq!(spec.check(), Ok(()));
        assert_eq!(spec.rate_at(GpuCount(2)), Some(3.5));
        assert_eq!(spec.rate_at(GpuCount(8)), Some(1.0));
        assert_eq!(spec.rate_at(GpuCount(4)), None);
        if let Some(extras) = &mut spec.extras {
            extras.rates.pop();
        }
        assert_eq!(
            spec.check().unwrap_err().to_string(),
            "extras.rates is [2.0], expected a finite number that is not negative for each of the levels"
        );
    }

    #[test]
    fn number_of_nodes_is_for_equal_parts_and_rigid_jobs() {
        let check = |gpus, extras: Extras| {
            let nodes = NonZeroU32::new(2);
            let spec = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(60.0));
            let checked = spec.with_extras(Extras { nodes, ..extras }).check();
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check(4, Extras::default()), Ok(()));
        assert_eq!(
            check(3, Extras::default()).unwrap_err(),
            "extras.nodes is 2 for 3 GPUs, expected a number that divides the GPUs"
        );
        let elastic = Extras {
            levels: vec![GpuCount(2), GpuCount(4)],
            ..Extras::default()
        };
        assert_eq!(
            check(4, elastic).unwrap_err(),
            "extras.nodes is 2 beside extras.levels, expected one of the two: a job on a fixed number of nodes keeps its GPUs"
        );
        let trains = r#"{"initial_batch":8,"max_batch":8,"restart":0,"types":{}}"#;
        let training = Extras {
            training: Some(Arc::new(serde_json::from_str(trains).unwrap())),
            ..Extras::default()
        };
        let error = check(4, training).unwrap_err();
        assert!(
            error.starts_with("extras.nodes is 2 beside extras.training"),
            "{error}"
        );
    }

    #[test]
    fn communication_beside_other_traffic_is_refused() {
        let steps = [(0.0, 0.0), (0.1, 50.0), (0.3, 0.0)];
        let steps = steps.map(|(at, gbps)| (Seconds::new(at), gbps));
        let traffic = Curve::new(Seconds::new(0.5), steps);
        let check = |communication| {
            let spec = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(60.0));
            let extras = Extras {
                communication,
                traffic: traffic.clone(),
                ..Extras::default()
            };
            spec.with_extras(extras).check()
        };
        assert_eq!((check(0.0), check(0.4)), (Ok(()), Ok(())));
        assert_eq!(
            check(0.2).unwrap_err().to_string(),
            "extras.communication is 0.2 beside extras.traffic for 0.400 of an iteration, expected the same part"
        );
    }

    #[test]
    fn json_omits_unset_fields_of_a_job() {
        let spec = JobSpec::new(Time::new(1.5), GpuCount(2), Seconds::new(60.0)).owned_by("ada");
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(
            json,
            r#"{"submit":1.5,"gpus":2,"work":{"iterations":60.0,"rate":1.0},"priority":0,"user":"ada"}"#
        );
        assert_eq!(serde_json::from_str::<JobSpec>(&json).unwrap(), spec);
    }
}
