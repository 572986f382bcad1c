//! Jobs of a generated workload.

use crate::law::Law;
use blox_core::{
    Adapts, Class, Curve, Deadline, Extras, GpuCount, JobSpec, Name, Seconds, Sensitivity, Time,
    TypeSpeeds,
};
use blox_perf::applications::Applications;
use blox_traces::generate::Draws;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A kind of jobs in a generated workload. Its properties are independent, except as stated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct JobKind {
    /// Share of the jobs, relative to the other kinds.
    pub share: f64,
    /// Numbers of GPUs, each with its share of the jobs of the kind.
    pub gpus: Vec<(f64, u32)>,
    /// Seconds on the requested GPUs, at one iteration a second.
    pub duration: Law,
    /// True if `duration` is the time on one GPU. More GPUs shorten it by the speed-up.
    pub serial: bool,
    /// Name of the user.
    pub user: Option<Name>,
    /// Name of the virtual cluster.
    pub virtual_cluster: Option<Name>,
    /// Name of the model.
    pub model: Option<Name>,
    /// Batch size of a job that trains a built-in application.
    pub batch_size: Option<u32>,
    /// The job trains the built-in application `model`, and adapts so. The application determines
    /// its work.
    pub adapts: Option<Adapts>,
    /// Numbers of GPUs of an elastic job; empty for a rigid job.
    pub levels: Vec<u32>,
    /// Speed-up over one GPU.
    pub speedup: Speedup,
    /// Iterations a second by GPU type.
    pub speeds: BTreeMap<Name, Law>,
    /// Speeds beside a job of another model on the same GPUs, by model. The first is a fraction of the
    /// job's own speed, the second the iterations a second of the other job. They hold on each type
    /// of `speeds`.
    pub beside: BTreeMap<Name, (f64, f64)>,
    /// CPU cores that the job requests for each GPU.
    pub cpus: f64,
    /// GiB of memory that the job requests for each GPU.
    pub memory_gib: f64,
    /// CPU cores for each GPU from which on the job has its full speed; the speed with fewer is in
    /// proportion. 0 if CPUs do not matter.
    pub cpu_bound: f64,
    /// Fraction of a step spent on exchanging gradients over the fastest links.
    pub communication: f64,
    /// Network demand within an iteration, in Gbit/s.
    pub traffic: Option<Curve>,
    /// Deadline, as a multiple of the duration after submission.
    pub deadline: Option<Law>,
    /// The job is of the class best effort.
    pub best_effort: bool,
    /// Guaranteed seconds of each launch of a spot job.
    pub spot: Option<f64>,
    /// Estimate of the duration as a multiple of it, in the attribute `estimate_s`.
    pub estimate: Option<Law>,
    /// Regimes of a job that changes its batch size: the fraction of the job's epochs and the
    /// seconds of an epoch, relative to the first regime. The attribute `regimes` has them.
    pub regimes: Vec<(f64, f64)>,
    /// Fixed attributes.
    pub attributes: BTreeMap<Name, Value>,
    /// Random attributes.
    pub drawn: BTreeMap<Name, Law>,
}

impl Default for JobKind {
    fn default() -> Self {
        JobKind {
            share: 1.0,
            gpus: vec![(1.0, 1)],
            duration: Law::default(),
            serial: false,
            user: None,
            virtual_cluster: None,
            model: None,
            batch_size: None,
            adapts: None,
            levels: Vec::new(),
            speedup: Speedup::default(),
            speeds: BTreeMap::new(),
            beside: BTreeMap::new(),
            cpus: 0.0,
            memory_gib: 0.0,
            cpu_bound: 0.0,
            communication: 0.0,
            traffic: None,
            deadline: None,
            best_effort: false,
            spot: None,
            estimate: None,
            regimes: Vec::new(),
            attributes: BTreeMap::new(),
            drawn: BTreeMap::new(),
        }
    }
}

/// Speed-up of a job on several GPUs over one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speedup {
    /// In proportion to the GPUs.
    #[default]
    Linear,
    /// A power of the GPUs.
    Power(f64),
    /// `w / (1 + a w + b w^2)`, relative to one GPU. It falls beyond `1 / sqrt(b)`.
    Turning(f64, f64),
}

impl Speedup {
    /// Returns the speed-up on `gpus` GPUs.
    pub fn on(self, gpus: u32) -> f64 {
        let w = f64::from(gpus);
        match self {
            Speedup::Linear => w,
            Speedup::Power(p) => libm::pow(w, p),
            Speedup::Turning(a, b) => {
                let speed = |w: f64| w / (1.0 + a * w + b * w * w);
                speed(w) / speed(1.0)
            }
        }
    }
}

/// Epochs of a job with regimes.
const EPOCHS: f64 = 60.0;

/// First purpose number of the draws of jobs. Each property has a number of its own, so another
/// load does not change durations.
const FIRST: u64 = 64;

/// Random numbers of the properties of jobs.
pub(crate) struct Properties {
    duration: Draws,
    deadline: Draws,
    estimate: Draws,
    speeds: BTreeMap<Name, Draws>,
    drawn: BTreeMap<Name, Draws>,
    applications: Arc<Applications>,
}

impl Properties {
    /// Creates the random numbers of a seed for jobs of these kinds.
    pub fn new(seed: u64, kinds: &[JobKind], applications: Arc<Applications>) -> Self {
        let of = |purpose| Draws::new(seed, FIRST + purpose);
        let named = |first: u64, names: &mut dyn Iterator<Item = &Name>| {
            let mut all: Vec<Name> = names.cloned().collect();
            all.sort();
            all.dedup();
            (first..)
                .zip(all)
                .map(|(purpose, name)| (name, of(purpose)))
                .collect()
        };
        Properties {
            duration: of(1),
            deadline: of(2),
            estimate: of(3),
            speeds: named(100, &mut kinds.iter().flat_map(|kind| kind.speeds.keys())),
            drawn: named(200, &mut kinds.iter().flat_map(|kind| kind.drawn.keys())),
            applications,
        }
    }

    /// Returns the next job of a kind on `gpus` GPUs, submitted at time 0.
    pub fn job(&mut self, kind: &JobKind, gpus: u32) -> JobSpec {
        let mut seconds = kind.duration.draw(&mut self.duration);
        let own = kind.speedup.on(gpus);
        if kind.serial {
            seconds /= own;
        }
        let mut extras = Extras {
            model: kind.model.clone(),
            batch_size: kind.batch_size,
            levels: kind.levels.iter().copied().map(GpuCount).collect(),
            rates: kind
                .levels
                .iter()
                .map(|n| kind.speedup.on(*n) / own)
                .collect(),
            cpus: kind.cpus * f64::from(gpus),
            memory_gib: kind.memory_gib * f64::from(gpus),
            communication: kind.communication,
            traffic: kind.traffic.clone(),
            ..Extras::default()
        };
        if kind.best_effort {
            extras.class = Class::BEST_EFFORT;
        }
        if let Some(guaranteed) = kind.spot.map(Seconds::new) {
            extras.class = Class::Spot { guaranteed };
        }
        if kind.cpu_bound > 0.0 {
            let points = [1.0, kind.cpu_bound].map(|cpus| vec![cpus / kind.cpu_bound]);
            let table = Sensitivity::new(vec![1.0, kind.cpu_bound], vec![1.0], points.to_vec());
            extras.sensitivity = table.ok().map(Arc::new);
        }
        let mut speeds = TypeSpeeds::default();
        for (name, law) in &kind.speeds {
            let Some(draws) = self.speeds.get_mut(name) else {
                continue;
            };
            let rate = law.draw(draws);
            speeds.set(name.clone(), rate);
            for (model, (ours, theirs)) in &kind.beside {
                speeds.set_beside(name.clone(), model.clone(), rate * ours, *theirs);
            }
        }
        if !kind.speeds.is_empty() {
            extras.speeds = Some(Arc::new(speeds));
        }
        if !kind.regimes.is_empty() {
            let (stretches, whole) = regimes(&kind.regimes, seconds);
            extras.attributes.insert("regimes".into(), stretches);
            seconds = whole;
        }
        if let Some(estimate) = &kind.estimate {
            let estimate = seconds * estimate.draw(&mut self.estimate);
            extras
                .attributes
                .insert("estimate_s".into(), json!(estimate));
        }
        for (name, value) in &kind.attributes {
            extras.attributes.insert(name.clone(), value.clone());
        }
        for (name, law) in &kind.drawn {
            let Some(draws) = self.drawn.get_mut(name) else {
                continue;
            };
            extras
                .attributes
                .insert(name.clone(), json!(law.draw(draws)));
        }
        let mut job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(seconds));
        if let Some(law) = &kind.deadline {
            let at = Time::ZERO + job.duration() * law.draw(&mut self.deadline);
            extras.deadlines.push(Deadline { at, value: 1.0 });
        }
        job = job.with_extras(extras);
        if let Some(user) = &kind.user {
            job = job.owned_by(user.clone());
        }
        job.virtual_cluster.clone_from(&kind.virtual_cluster);
        if let Some(adapts) = kind.adapts {
            self.applications.describe(&mut job, adapts);
        }
        job
    }
}

/// Moves a job to its time of submission, with its deadlines.
pub(crate) fn submitted(mut job: JobSpec, at: f64) -> JobSpec {
    job.submit = Time::new(at);
    if let Some(extras) = &mut job.extras {
        for deadline in &mut extras.deadlines {
            deadline.at += Seconds::new(at);
        }
    }
    job
}

/// Returns the attribute `regimes` and the whole seconds of a job. Without changes, the job would
/// take `seconds`.
fn regimes(parts: &[(f64, f64)], seconds: f64) -> (Value, f64) {
    let mut whole = 0.0;
    let stretches = (0..).zip(parts).map(|(regime, (share, pace))| {
        let epochs = (share * EPOCHS).round().max(1.0);
        let each = seconds / EPOCHS * pace;
        whole += epochs * each;
        json!([regime, epochs as u64, each])
    });
    (Value::Array(stretches.collect()), whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_perf::applications::built_in;

    fn first(text: &str) -> JobSpec {
        let kind: JobKind = toml::from_str(text).unwrap();
        let kinds = [kind];
        let gpus = kinds[0].gpus[0].1;
        Properties::new(1, &kinds, Arc::new(built_in())).job(&kinds[0], gpus)
    }

    #[test]
    fn elastic_job_has_its_own_rate_at_its_request() {
        let job = first(
            "gpus = [[1, 4]]\nduration = 1200\nserial = true\nlevels = [1, 2, 4, 8]\n\
             speedup = { power = 0.5 }",
        );
        assert_eq!(job.duration(), Seconds::new(600.0));
        assert_eq!(
            job.extras().rates,
            [
                0.5,
                libm::pow(2.0, 0.5) / 2.0,
                1.0,
                libm::pow(8.0, 0.5) / 2.0
            ]
        );
        job.check().unwrap();
    }

    #[test]
    fn turning_speedup_falls_after_its_best_number() {
        let speedup = Speedup::Turning(0.1, 0.1);
        assert_eq!(speedup.on(1), 1.0);
        assert!(speedup.on(3) > speedup.on(2) && speedup.on(3) > speedup.on(5));
    }

    #[test]
    fn regimes_shorten_the_job_in_proportion() {
        let job = first("duration = 6000\nregimes = [[0.5, 1.0], [0.5, 0.5]]");
        assert_eq!(job.duration(), Seconds::new(4500.0));
        assert_eq!(
            job.attribute("regimes"),
            Some(&json!([[0, 30, 100.0], [1, 30, 50.0]]))
        );
    }

    #[test]
    fn deadline_moves_with_the_submission() {
        let job = submitted(first("duration = 100\ndeadline = 2"), 50.0);
        assert_eq!(job.extras().deadlines[0].at, Time::new(250.0));
        job.check().unwrap();
    }

    #[test]
    fn training_job_does_the_work_of_its_application() {
        let job = first("gpus = [[1, 4]]\nmodel = \"cifar10\"\nbatch-size = 512\nadapts = \"all\"");
        assert_eq!(job.work.iterations, 39_062.9);
        assert!(job.extras().training.is_some());
        job.check().unwrap();
    }
}
