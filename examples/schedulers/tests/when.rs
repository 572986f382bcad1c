//! Intervals of starts and ends: how often they contain what happens.

use blox_core::forecast::{Expected, Forecaster, PastJob};
use blox_core::journal::JsonLines;
use blox_core::replay::follow;
use blox_core::runtime::Observers;
use blox_core::{
    Action, ClusterSpec, Event, Extras, GpuCount, JobId, JobSpec, MetricCollector, Pipeline, Plan,
    Seconds, State, Time, View,
};
use blox_sim::forecast::{LookAhead, Recent};
use blox_sim::workload::Jobs;
use blox_sim::{Measure, Simulation};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::any::Any;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Forecasts of a run that were compared with the run.
#[derive(Debug, Default)]
struct Compared {
    /// For starts and ends: number, those within the interval, and the errors of the median in
    /// seconds.
    start: (usize, usize, Vec<f64>),
    end: (usize, usize, Vec<f64>),
}

impl Compared {
    fn add(&mut self, expected: &Expected, start: Time, end: Time) {
        for (all, interval, at) in [
            (&mut self.start, &expected.start, start),
            (&mut self.end, &expected.end, end),
        ] {
            all.0 += 1;
            all.1 += usize::from(interval.contains(at));
            let far = f64::INFINITY;
            all.2.push(
                interval
                    .median
                    .map_or(far, |m| (m.secs() - at.secs()).abs()),
            );
        }
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (what, all) in [("start", &self.start), ("end", &self.end)] {
            let (within, error) = (100.0 * share(all), median(&all.2));
            write!(
                f,
                "{what} {within:.1} % within, median error {error:.0} s, "
            )?;
        }
        write!(f, "{} forecasts", self.start.0)
    }
}

fn median(errors: &[f64]) -> f64 {
    let mut errors = errors.to_vec();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().unwrap_or(0.0)
}

fn share((all, within, _): &(usize, usize, Vec<f64>)) -> f64 {
    *within as f64 / *all as f64
}

/// Times of all starts and ends.
#[derive(Clone, Debug, Default)]
struct Times {
    starts: BTreeMap<JobId, Vec<Time>>,
    ends: BTreeMap<JobId, Time>,
}

impl MetricCollector for Times {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event {
            self.ends.insert(*job, view.now());
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        for action in &plan.actions {
            if let Action::Place { job, .. } = action {
                self.starts.entry(*job).or_default().push(view.now());
            }
        }
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Simulates jobs, forecasts at each of `moments` from the journal until then, and compares.
fn compared(
    name: &str,
    cluster: &ClusterSpec,
    jobs: Vec<JobSpec>,
    measure: Measure,
    moments: &[f64],
) -> Compared {
    let registry = blox_schedulers::registry();
    let pipeline: Pipeline = registry
        .schedulers
        .build(&name.parse().unwrap(), 0)
        .unwrap();
    let text = Shared::default();
    let report = Simulation::new(cluster.clone())
        .measure(measure)
        .collector(Times::default());
    let report = report
        .run_journaled(
            pipeline.clone(),
            &mut Jobs::new(jobs),
            Some(Box::new(JsonLines::new(text.clone()))),
        )
        .unwrap();
    let times = report.collected.get::<Times>().unwrap();
    let trigger = pipeline.trigger();
    let ahead = LookAhead::of(trigger.clone());
    let journal = text.0.lock().unwrap().clone();
    let mut observers = Observers::default();
    observers.add(Box::new(Recent::default()));
    let mut moments = moments.iter().copied().peekable();
    let mut result = Compared::default();
    let state = State::new(cluster).unwrap();
    let policy = Box::new(pipeline);
    let mut forecasts: Vec<(Time, Vec<Expected>)> = Vec::new();
    follow(
        &journal[..],
        state,
        trigger,
        policy,
        &mut observers,
        |follower| {
            let now = follower.core().state().now();
            // Between decisions: no question is open.
            if follower.core().open().is_none() && moments.next_if(|at| *at <= now.secs()).is_some()
            {
                while moments.next_if(|at| *at <= now.secs()).is_some() {}
                let recent: &dyn Any = &*follower.observers.collectors()[0];
                let past: Vec<PastJob> = recent.downcast_ref::<Recent>().unwrap().jobs();
                let state = follower.core().state();
                let never = Arc::default();
                let expected = ahead.expect(state, follower.scheduler(), &past, &never);
                forecasts.push((now, expected.unwrap()));
            }
        },
    )
    .unwrap();
    for (now, all) in &forecasts {
        for expected in all {
            let starts = times.starts.get(&expected.job);
            let start = starts.and_then(|all| all.iter().find(|at| *at >= now));
            let end = times.ends.get(&expected.job);
            if let (Some(start), Some(end)) = (start, end) {
                result.add(expected, *start, *end);
            }
        }
    }
    result
}

/// Jobs whose users are wrong by up to a factor of 3 in each direction.
fn estimated(seed: u64, count: usize, gap_s: f64) -> Vec<JobSpec> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut at = 0.0;
    let mut job = |_| {
        at -= gap_s * rng.random::<f64>().max(1e-9).ln();
        let gpus = [1, 1, 1, 2, 4, 8][rng.random_range(0..6)];
        let duration = 600.0 * (rng.random::<f64>() * 4.0).exp();
        let error = (3f64.ln() * (2.0 * rng.random::<f64>() - 1.0)).exp();
        JobSpec::new(Time::new(at), GpuCount(gpus), Seconds::new(duration)).with_extras(Extras {
            user_estimate: Some(Seconds::new(duration * error)),
            ..Extras::default()
        })
    };
    (0..count).map(&mut job).collect()
}

#[test]
fn intervals_contain_nine_of_ten_starts_and_ends() {
    let cluster = ClusterSpec::uniform(4, 8);
    for name in ["fifo", "las", "tiresias"] {
        let jobs = estimated(1, 2_000, 800.0);
        let moments: Vec<f64> = (20..44).map(|i| f64::from(i) * 21_600.0).collect();
        let found = compared(name, &cluster, jobs, Measure::All, &moments);
        println!("{name}: {found}");
        assert!(found.start.0 > 100, "{name}: {found}");
        for share in [share(&found.start), share(&found.end)] {
            assert!((0.84..=0.98).contains(&share), "{name}: {found}");
        }
    }
}

/// `BLOX_TRACE=FILE BLOX_CLUSTER=64x8 cargo test --test when -- --ignored --nocapture` prints the
/// coverage on the weeks `BLOX_WEEKS=1,2` of a trace with the columns `submit_s,gpus,duration_s`, in
/// order of submission, under `BLOX_SCHEDULER`. With `BLOX_STATED=none`, no user states a duration; with a
/// number such as 3, users are wrong by up to that factor in each direction.
#[test]
#[ignore = "needs a trace"]
fn coverage_on_a_trace() {
    let var = |name| std::env::var(name).unwrap_or_default();
    let Some(path) = std::env::var_os("BLOX_TRACE") else {
        println!("skipped: BLOX_TRACE names no trace");
        return;
    };
    let cluster: ClusterSpec = var("BLOX_CLUSTER").parse().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let mut jobs: Vec<JobSpec> = Vec::new();
    for line in text.lines().skip(1) {
        let numbers: Vec<f64> = line.split(',').map(|n| n.parse().unwrap()).collect();
        let (submit, gpus) = (Time::new(numbers[0]), GpuCount(numbers[1] as u32));
        jobs.push(JobSpec::new(submit, gpus, Seconds::new(numbers[2])));
    }
    let error = var("BLOX_STATED");
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for job in &mut jobs {
        let wrong = match error.as_str() {
            "none" => None,
            factor => Some(factor.parse::<f64>().unwrap_or(1.0)),
        };
        let duration = job.duration().secs();
        let stated = wrong.map_or(3600.0, |factor| {
            duration * (factor.ln() * (2.0 * rng.random::<f64>() - 1.0)).exp()
        });
        job.submission.extras = Some(Box::new(Extras {
            user_estimate: Some(Seconds::new(stated)),
            ..Extras::default()
        }));
    }
    let week = 7.0 * 86_400.0;
    let name = var("BLOX_SCHEDULER");
    for number in var("BLOX_WEEKS")
        .split(',')
        .map(|n| n.parse::<f64>().unwrap())
    {
        // Three days to fill the cluster, then a week of forecasts each three hours.
        let (begin, end) = (number * week, (number + 1.0) * week);
        let within = |job: &&JobSpec| {
            (begin - 3.0 * 86_400.0..end + 2.0 * week).contains(&job.submit.secs())
        };
        let some: Vec<JobSpec> = jobs.iter().filter(within).cloned().collect();
        let moments: Vec<f64> = (0..56).map(|i| begin + f64::from(i) * 10_800.0).collect();
        let measure = Measure::Submitted(Time::ZERO, Time::new(end));
        let found = compared(&name, &cluster, some, measure, &moments);
        println!("{name} week {number}, stated {error}: {found}");
    }
}
