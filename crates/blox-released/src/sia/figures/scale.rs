use super::{drawn, world};
use crate::clock::now;
use crate::figure::{Figure, Numbers, Plan, ReproduceError, Whole};
use blox_core::{
    Adapts, Answer, AnyMemory, AnyPlacement, AnyScheduling, ClusterSpec, Composition, Event,
    JobQueue, JobRef, JobSpec, Policy, Reason, SchedulingPolicy, Seconds, Shapes, Time, Validity,
    View, With, sort,
};
use blox_perf::applications::{Applications, built_in};
use blox_policies::placement::{KeepNodes, OnNodes};
use blox_policies::scheduling::{Pollux, Sia};
use blox_results::statistics::percentile;
use blox_sim::Watch;
use blox_sim::execution::Training;
use blox_sim::workload::Jobs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Measures the time of a round's decision by cluster size.
pub(crate) fn plan(figure: &'static Figure, _: Option<&Path>) -> Result<Plan, ReproduceError> {
    Ok(Plan::whole(move |watch| scale(figure, watch)))
}

/// Policy that measures the time of each decision of another policy.
struct Timed {
    policy: Arc<dyn AnyScheduling>,
    /// Policy that decides instead, and the interval of the measured calls in rounds. Requests of
    /// the measured policy are then dropped.
    beside: Option<(Arc<dyn AnyScheduling>, u32)>,
    /// Decision times in milliseconds.
    times: Arc<Mutex<Vec<f64>>>,
    /// Cancelled after the last submission, as an emptying cluster is not measured.
    watch: Arc<Watch>,
    /// Reports that all runs must stop.
    all: Arc<Watch>,
}

impl Policy for Timed {
    /// Number of rounds so far, and the memories of the deciding and the measured policy.
    type Memory = With<u32, With<AnyMemory, AnyMemory>>;

    fn initial(&self, seed: u64) -> Self::Memory {
        With {
            own: 0,
            inner: With {
                own: self.decides().initial(seed),
                inner: self.policy.initial(seed),
            },
        }
    }

    fn on_event(&self, memory: &mut Self::Memory, view: View<'_>, event: &Event) {
        self.decides().on_event(&mut memory.inner.own, view, event);
        self.policy.on_event(&mut memory.inner.inner, view, event);
    }
}

impl Timed {
    fn decides(&self) -> &Arc<dyn AnyScheduling> {
        self.beside
            .as_ref()
            .map_or(&self.policy, |(policy, _)| policy)
    }

    fn measure(&self, memory: &mut AnyMemory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let start = now();
        let validity = self.policy.schedule(memory, view, out);
        let stopped = self.all.stop.load(Ordering::Relaxed);
        if stopped || view.now() >= Time::new(BUSY_HOURS * 3600.0) {
            self.watch.stop.store(true, Ordering::Relaxed);
        }
        if let Ok(mut times) = self.times.lock() {
            times.push(now() - start);
        }
        validity
    }
}

impl SchedulingPolicy for Timed {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let Some((decides, every)) = &self.beside else {
            return self.measure(&mut memory.inner.inner, view, out);
        };
        memory.own += 1;
        if memory.own.is_multiple_of(*every) {
            self.measure(&mut memory.inner.inner, view, &mut JobQueue::default())?;
        }
        decides.schedule(&mut memory.inner.own, view, out)?;
        Ok(Validity::NextRound)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        self.decides().could_request(view, job)
    }
}

/// Sizes of the cluster in units of the paper's cluster of 64 GPUs, and `None` if Pollux decides
/// itself. Otherwise Sia decides, and Pollux is timed once in this many rounds.
const SIZES: [(u32, Option<u32>); 4] = [(1, None), (4, None), (16, Some(8)), (32, Some(24))];

/// Hours of arrivals, at 20 jobs an hour for 64 GPUs.
const BUSY_HOURS: f64 = 2.0;

/// Runs a simulation and returns the median and 95th percentile of the timed policy's decisions in
/// milliseconds.
fn decisions(
    size: u32,
    timed: Timed,
    placement: Arc<dyn AnyPlacement>,
    pool: &[JobSpec],
    applications: &Applications,
) -> Result<[f64; 2], ReproduceError> {
    let cluster: ClusterSpec = format!(
        "{}x4:aws,{}x8:dgx-ext,{}x8:rtx",
        6 * size,
        2 * size,
        3 * size
    )
    .parse()?;
    let (times, watch) = (Arc::clone(&timed.times), Arc::clone(&timed.watch));
    let scheduler = Composition::new("timed")
        .in_rounds(Seconds::new(60.0))
        .scheduling(timed)
        .placement(placement)
        .build()
        .expect(crate::ONCE);
    let jobs = drawn(pool, 20.0 * f64::from(size), BUSY_HOURS, 1);
    world(&cluster, Training::of(applications.clone()))
        .watched_by(watch)
        .run(scheduler, &mut Jobs::new(jobs))
        .map_err(|error| ReproduceError::failed(&format!("{} GPUs", 64 * size), error))?;
    Ok(times.lock().map_or([f64::NAN; 2], |times| typical(&times)))
}

/// Returns the median and the 95th percentile, or NaN if there are no times.
fn typical(times: &[f64]) -> [f64; 2] {
    let mut sorted = times.to_vec();
    sort::numbers(&mut sorted);
    [0.5, 0.95].map(|share| percentile(&sorted, share).unwrap_or(f64::NAN))
}

/// Returns jobs of built-in applications in the sizes that users would request.
fn plain_pool(applications: &Applications) -> Vec<JobSpec> {
    let kinds = [
        ("cifar10", 4, 512),
        ("cifar10", 1, 128),
        ("cifar10", 8, 1024),
        ("cifar10", 2, 256),
        ("deepspeech2", 4, 160),
        ("bert", 2, 24),
        ("yolov3", 4, 64),
        ("imagenet", 16, 3200),
    ];
    let mut all = Vec::new();
    for (model, gpus, batch) in kinds {
        let gpus = blox_core::GpuCount(gpus);
        let extras = blox_core::Extras {
            model: Some(model.into()),
            batch_size: Some(batch),
            ..blox_core::Extras::default()
        };
        let mut job = JobSpec::new(Time::ZERO, gpus, Seconds::new(1.0)).with_extras(extras);
        if applications.describe(&mut job, Adapts::All) {
            all.push(job);
        }
    }
    all
}

fn scale(figure: &'static Figure, all: &Arc<Watch>) -> Whole {
    let applications = built_in();
    let pool = plain_pool(&applications);
    let mut measures = vec![Vec::new(); 2];
    for (units, pollux_in) in SIZES {
        for name in figure.columns(0) {
            if all.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let sia: Arc<dyn AnyScheduling> = Arc::new(Sia::default());
            let pollux: Arc<dyn AnyScheduling> = Arc::new(Pollux::default());
            let (policy, beside, placement): (_, _, Arc<dyn AnyPlacement>) =
                match (name.as_str(), pollux_in) {
                    ("Sia", _) => (sia, None, Arc::new(KeepNodes)),
                    (_, Some(every)) => (pollux, Some((sia, every)), Arc::new(KeepNodes)),
                    (_, None) => (pollux, None, Arc::new(OnNodes)),
                };
            let timed = Timed {
                policy,
                beside,
                times: Arc::default(),
                watch: Arc::default(),
                all: Arc::clone(all),
            };
            let typical = decisions(units, timed, placement, &pool, &applications)?;
            measures
                .iter_mut()
                .zip(typical)
                .for_each(|(all, ms)| all.push(ms));
        }
    }
    if all.stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    Ok(Some(figure.findings(Numbers::of(measures))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typical_time_without_decisions_is_nan() {
        assert_eq!(typical(&[3.0, 1.0, 2.0]), [2.0, 3.0]);
        assert!(typical(&[]).iter().all(|ms| ms.is_nan()));
    }
}
