use super::{drawn, world};
use crate::clock::now;
use crate::figure::{Claim, Figure, Findings, Plan, ReproduceError, Row, Whole};
use blox_core::{
    Adapts, AnyMemory, AnyPlacement, AnyScheduling, ClusterSpec, Composition, Event, JobQueue,
    JobSpec, Policy, SchedulingPolicy, Seconds, Time, Validity, View, With,
};
use blox_policies::placement::{KeepNodes, OnNodes};
use blox_policies::scheduling::{Pollux, Sia};
use blox_sim::Watch;
use blox_sim::execution::training::{Applications, built_in};
use blox_sim::workload::Jobs;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Time of a round's decision by cluster size.
pub(crate) const SCALE: Figure = Figure::new(
    "sia-scale",
    "Sia (SOSP 2023), figure 9: how long a round's decision takes on 64 to 2,048 GPUs",
    &[],
    |_, _| Ok(Plan::whole(scale)),
);

const PAPER: &str = "Sia (SOSP 2023), section 5.6 and figure 9, of the submission";
const RELEASED: &str =
    "siasosp23/artifacts aaf7a0d, its simulator, the first jobs of Philly workload 1, 64 GPUs";

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

    fn measure(&self, memory: &mut AnyMemory, view: View<'_>, out: &mut JobQueue) -> Validity {
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
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Validity {
        let Some((decides, every)) = &self.beside else {
            return self.measure(&mut memory.inner.inner, view, out);
        };
        memory.own += 1;
        if memory.own.is_multiple_of(*every) {
            self.measure(&mut memory.inner.inner, view, &mut JobQueue::default());
        }
        decides.schedule(&mut memory.inner.own, view, out);
        Validity::NextRound
    }
}

/// Sizes of the cluster: GPUs in units of the paper's cluster of 64, and the published times of Sia
/// and Pollux in milliseconds.
///
/// Between them, `None` if Pollux decides itself. Otherwise Sia decides, and Pollux is timed once in
/// this many rounds.
const SIZES: [(u32, Option<u32>, [Option<f64>; 2]); 4] = [
    (1, None, [Some(96.0), Some(2200.0)]),
    (4, None, [None, None]),
    (16, Some(8), [None, None]),
    (32, Some(24), [Some(1000.0), Some(100_000.0)]),
];

/// Decision times on 64 GPUs under Sia and Pollux in milliseconds: the paper's 95th percentiles
/// here, the released program's medians in [`ARTIFACT`].
const HIGH: [f64; 2] = [426.0, 4800.0];
const ARTIFACT: [f64; 2] = [13.5, 1461.2];
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
    world(&cluster, applications)
        .watched_by(watch)
        .run(scheduler, &mut Jobs::new(jobs))
        .map_err(|error| ReproduceError::Simulation {
            label: format!("{} GPUs", 64 * size),
            error: Box::new(error),
        })?;
    Ok(times.lock().map_or([f64::NAN; 2], |times| typical(&times)))
}

/// Returns the median and the 95th percentile, or NaN if there are no times.
fn typical(times: &[f64]) -> [f64; 2] {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    [0.5, 0.95].map(|share| {
        let place = (share * sorted.len() as f64) as usize;
        sorted.get(place).copied().unwrap_or(f64::NAN)
    })
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

fn scale(all: &Arc<Watch>) -> Whole {
    let applications = built_in();
    let pool = plain_pool(&applications);
    let mut findings = Findings::noting([
        "of this machine, in CPU time where the system tells it: times differ from run to run",
        "built-in applications, 20 jobs an hour for every 64 GPUs, for two hours",
        "on 1,024 GPUs and more Pollux is asked in some of the rounds that Sia decides",
    ]);
    let mut tenth = true;
    for (units, pollux_in, published) in SIZES {
        let gpus = 64 * units;
        for (which, name) in ["Sia", "Pollux"].into_iter().enumerate() {
            if all.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let sia: Arc<dyn AnyScheduling> = Arc::new(Sia::default());
            let pollux: Arc<dyn AnyScheduling> = Arc::new(Pollux::default());
            let (policy, beside, placement): (_, _, Arc<dyn AnyPlacement>) = match (name, pollux_in)
            {
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
            let [median, high] = decisions(units, timed, placement, &pool, &applications)?;
            let what = |part: &str| format!("ms a round, {name}, {gpus} GPUs, {part}");
            let mut row = Row::new(what("median"), median, 2);
            if let Some(published) = published[which] {
                row = row.published(published, PAPER);
                tenth &= median <= 0.1 * published;
            }
            let mut last = Row::new(what("95 %"), high, 2);
            if units == 1 {
                row = row.artifact(ARTIFACT[which], RELEASED);
                tenth &= median <= 0.1 * ARTIFACT[which];
                last = last.published(HIGH[which], PAPER);
            }
            findings.rows.extend([row, last]);
        }
    }
    if all.stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let text =
        "a round's decision takes at most a tenth of what the paper and the released program take";
    findings.claims.push(Claim::new(text, tenth));
    Ok(Some(findings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_decision_there_is_no_time_that_a_claim_could_hold_for() {
        assert_eq!(typical(&[3.0, 1.0, 2.0]), [2.0, 3.0]);
        assert!(typical(&[]).iter().all(|ms| ms.is_nan()));
    }
}
