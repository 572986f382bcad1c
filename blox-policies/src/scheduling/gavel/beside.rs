//! Speeds of jobs alone and beside each other.

use super::colocation::Colocation;
use super::instance::{Pair, PerType, TypePool};
use blox_core::{Extras, JobId, JobRef, Name, SortedMap};
use smallvec::SmallVec;
use std::sync::Arc;

/// Iterations per second of each of two jobs, by type.
pub(super) type PairRates = SmallVec<[[f64; 2]; 4]>;

/// True for each type on which a job could be placed.
pub(super) type Able = SmallVec<[bool; 4]>;

/// Iterations per second of a job alone, by type; 0 where it may not run.
pub(super) fn rates(types: &[TypePool], job: &JobRef<'_>) -> PerType {
    types.iter().map(|pool| rate(pool, job)).collect()
}

/// Iterations per second of a job alone on one type.
pub(super) fn rate(pool: &TypePool, job: &JobRef<'_>) -> f64 {
    rate_on(&pool.name, job)
}

/// Iterations per second of a job alone on a type; 0 if it may not run there.
pub(in crate::scheduling) fn rate_on(gpu_type: &Name, job: &JobRef<'_>) -> f64 {
    let Some(extras) = &job.spec().extras else {
        return job.own_rate();
    };
    match &extras.speeds {
        _ if !extras.runs_on(gpu_type) => 0.0,
        Some(speeds) => speeds.alone(gpu_type).unwrap_or(0.0),
        None => job.own_rate(),
    }
}

/// Computes which jobs may share GPUs, and how fast both then are.
pub(super) struct Beside<'a> {
    pub types: &'a [TypePool],
    /// Learned measurements.
    pub known: &'a mut Colocation,
    /// Assumed fraction of speed that a job keeps in an unmeasured pair. `None` if only the speeds
    /// that jobs bring are used.
    pub believed: Option<f64>,
    /// Smallest useful sum of the two normalised speeds. Pairs that do not exceed it are dropped.
    pub least_gain: f64,
    /// The types on which each job could be placed.
    pub able: &'a SortedMap<JobId, Able>,
}

impl Beside<'_> {
    /// Iterations per second of two jobs on the same GPUs, by type, the job with the smaller number
    /// first.
    ///
    /// The rates are 0 on types on which sharing is useless. Returns `None` if it is useless on all
    /// types.
    pub fn rates(&mut self, a: &JobRef<'_>, b: &JobRef<'_>) -> Option<PairRates> {
        // Jobs with parts of GPUs are not packed.
        let whole =
            |job: &JobRef<'_>| job.needs_only_gpus() || job.spec().extras().share.is_whole();
        if a.gpus() != b.gpus() || !whole(a) || !whole(b) {
            return None;
        }
        let (first, second) = if a.id() < b.id() { (a, b) } else { (b, a) };
        let able =
            |job: &JobRef<'_>, kind: usize| self.able.get(&job.id()).is_none_or(|able| able[kind]);
        let types = self.types.iter().enumerate();
        let rates: PairRates = types
            .map(
                |(kind, pool)| match able(first, kind) && able(second, kind) {
                    true => self.on(pool, first, second),
                    false => [0.0; 2],
                },
            )
            .collect();
        let any = rates.iter().any(|both| both[0] > 0.0);
        any.then_some(rates)
    }

    fn on(&mut self, pool: &TypePool, first: &JobRef<'_>, second: &JobRef<'_>) -> [f64; 2] {
        let alone = [first, second].map(|job| rate(pool, job));
        if !alone.iter().all(|rate| *rate > 0.0) {
            return [0.0; 2];
        }
        let models = [first, second].map(|job| job.spec().extras().model.as_ref());
        let speeds = first.spec().extras().speeds.as_ref().zip(models[1]);
        let brought = speeds.and_then(|(speeds, other)| speeds.beside(&pool.name, other));
        let estimated = || {
            let believed = self.believed?;
            let (a, b) = models[0].zip(models[1])?;
            let mut kept = |own, other| {
                let learned = self.known.kept(&pool.name, own, other);
                learned.unwrap_or(believed)
            };
            Some([alone[0] * kept(a, b), alone[1] * kept(b, a)])
        };
        let both = brought.or_else(estimated).unwrap_or([0.0; 2]);
        let gain = both[0] / alone[0] + both[1] / alone[1];
        let useful = both.iter().all(|rate| *rate > 0.0) && gain > self.least_gain;
        if useful { both } else { [0.0; 2] }
    }

    /// Returns all useful pairs of jobs, in job order.
    pub fn pairs(&mut self, jobs: &[JobRef<'_>]) -> Vec<Pair> {
        let kinds = kinds(jobs, self.able);
        let mut known: SortedMap<[usize; 2], Option<PairRates>> = SortedMap::new();
        let mut pairs = Vec::new();
        for (i, a) in jobs.iter().enumerate() {
            for (k, b) in jobs.iter().enumerate().skip(i + 1) {
                let of = known.entry([kinds[i], kinds[k]]);
                if let Some(rates) = of.or_insert_with(|| self.rates(a, b)) {
                    pairs.push(Pair {
                        jobs: [i, k],
                        rates: rates.clone(),
                    });
                }
            }
        }
        pairs
    }
}

/// Numbers jobs so that jobs with equal numbers are equally fast beside any other job.
fn kinds(jobs: &[JobRef<'_>], able: &SortedMap<JobId, Able>) -> Vec<usize> {
    let mut firsts: Vec<&JobRef<'_>> = Vec::new();
    let alike = |first: &JobRef<'_>, second: &JobRef<'_>| {
        let (a, b) = (first.spec(), second.spec());
        let (x, y) = (a.extras(), b.extras());
        let speeds = match (&x.speeds, &y.speeds) {
            (Some(x), Some(y)) => Arc::ptr_eq(x, y) || x == y,
            (x, y) => x.is_none() && y.is_none(),
        };
        a.gpus == b.gpus
            && first.own_rate() == second.own_rate()
            && x.model == y.model
            && x.gpu_types == y.gpu_types
            && x.share == y.share
            && trained_types(x).eq(trained_types(y))
            && able.get(&first.id()) == able.get(&second.id())
            && speeds
    };
    let mut numbers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let found = firsts.iter().position(|first| alike(first, job));
        numbers.push(found.unwrap_or(firsts.len()));
        if found.is_none() {
            firsts.push(job);
        }
    }
    numbers
}

/// Returns the GPU types of a training job.
fn trained_types(extras: &Extras) -> impl Iterator<Item = &Name> {
    let training = extras.training.iter();
    training.flat_map(|training| training.types.keys())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Adapts, ClusterSpec, Event, GpuCount, JobSpec, Seconds, State, Time};
    use blox_core::{TrainingSpec, TypeLimits};

    #[test]
    fn training_job_has_no_rate_on_a_type_without_limits() {
        let limits = TypeLimits {
            per_gpu: (8, 64),
            one_gpu_rate: 300.0,
            stages: 1,
        };
        let training = TrainingSpec {
            initial_batch: 64,
            max_batch: 256,
            adapts: Adapts::All,
            restart: Seconds::new(1.0),
            types: [("a100".into(), limits)].into(),
        };
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(100.0)).with_extras(Extras {
            training: Some(Arc::new(training)),
            ..Extras::default()
        });
        let mut state = State::new(&ClusterSpec::uniform(1, 4)).unwrap();
        let (job, spec) = (JobId(0), Arc::new(spec));
        let submitted = Event::Submitted { job, spec };
        state.apply(Time::ZERO, &submitted).unwrap();
        let rate_on = |name: &str| {
            let pool = TypePool {
                name: name.into(),
                gpus: 4,
                price: 1.0,
            };
            rate(&pool, &state.job(job).unwrap())
        };
        assert_eq!(["a100", "v100", ""].map(rate_on), [1.0, 0.0, 1.0]);
    }
}
