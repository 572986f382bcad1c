//! The released simulator of Lucid (S-Lab-System-Group/Lucid, commit 653c85b), its baselines, and
//! Chronus.
//!
//! The original simulates each virtual cluster second by second. The programs here make the same
//! decisions, but visit only the seconds in which they can decide something. They contain their own
//! simulator: each function takes the jobs of one virtual cluster, in order of submission. It
//! returns a record of each job that ended, in order of ends.
//!
//! The released programs differ from the papers:
//!
//! - SRTF, Tiresias and Lucid find an end in the second after a job's last. Their jobs run one
//!   second longer than they last.
//! - Profiling is free. A profiled job starts in its virtual cluster from its submission on, while
//!   it is still profiled, with all of its work. So Lucid runs in two stages: the [`profiler`]
//!   alone, then each virtual cluster with the jobs that did not end on the profiler.
//! - If a packed job ends, the lookup of its partner compares a number with a job, and these always
//!   differ. It finds the first job on the GPUs. If the partner of the later job ends first, the
//!   later job keeps the speed of the pair until its end ([`Lookup::First`]).

mod chronus;
mod forecast;
mod job;
mod nodes;
mod packed;
mod preemptive;
mod profiler;

pub use crate::chronus::{ChronusRecord, Objective, Planner};
pub use forecast::Forecast;
pub(crate) use job::set_attribute;
pub use job::{ESTIMATE, GPU_MEMORY, Record, SHARING_SCORE};
pub use nodes::Placer;
pub use packed::{Lookup, PackedSettings};
pub use profiler::Scaling;

use blox_core::JobSpec;
use chronus::Chronus;
use job::Job;
use nodes::Nodes;
use packed::Packed;
use preemptive::{Order, Preemptive};
use profiler::LeastGpusFirst;

/// Runs `srtf`: the shortest remaining time first, with preemption in every second.
pub fn srtf(nodes: u32, placer: Placer, jobs: &[JobSpec]) -> Vec<Record> {
    preemptive(nodes, placer, Order::Remaining, jobs)
}

/// Runs `tiresias`: two queues, divided at 18000 GPU-seconds, with a decision every minute.
pub fn tiresias(nodes: u32, placer: Placer, jobs: &[JobSpec]) -> Vec<Record> {
    preemptive(nodes, placer, Order::Attained, jobs)
}

/// Runs the profiler, the first stage of `lucid`: the smallest job first.
///
/// `jobs` are the jobs to profile, each as long as the profiler keeps it. With a forecast of the
/// GPUs that jobs will request, the profiler adds one node to its `nodes` while its queue is long.
/// The second result lists these changes.
pub fn profiler(
    nodes: u32,
    placer: Placer,
    forecast: Option<Forecast>,
    jobs: &[JobSpec],
) -> (Vec<Record>, Vec<Scaling>) {
    let program = run(
        LeastGpusFirst::new(Nodes::new(nodes, placer), forecast),
        jobs,
    );
    (program.records, program.log)
}

/// Runs `lucid` in a virtual cluster: the stage after the [`profiler`].
pub fn lucid(settings: PackedSettings, jobs: &[JobSpec]) -> Vec<Record> {
    run(Packed::new(settings), jobs).records
}

/// Runs Chronus (SoCC 2021, S-Lab-System-Group/ChronusArtifact) on `gpus` GPUs.
///
/// Its ticks are minutes, and so is the unit of `lease`. The numbers of GPUs decide everything, so
/// the size of a node has no effect. A job that requests more than `gpus` GPUs never ends, and
/// neither does the run.
pub fn chronus(gpus: u32, lease: u32, planner: Planner, jobs: &[JobSpec]) -> Vec<ChronusRecord> {
    run(Chronus::new(gpus, lease, planner), jobs).leases.records
}

fn preemptive(nodes: u32, placer: Placer, rule: Order, jobs: &[JobSpec]) -> Vec<Record> {
    run(Preemptive::new(Nodes::new(nodes, placer), rule), jobs).records
}

/// A loop of the original, run only in the ticks in which it can decide anything.
trait Program {
    /// The length of a tick, in seconds.
    const TICK: f64 = 1.0;

    /// Returns the next tick in which the program acts without new jobs.
    fn due(&self) -> Option<i64>;

    /// Runs the tick `now` with the jobs that arrived since the last one.
    fn step(&mut self, now: i64, arrivals: &[Job]);

    /// Returns the number of jobs that have ended.
    fn ended(&self) -> usize;
}

/// Runs a program until all jobs have ended, or until no event is left.
///
/// Among jobs submitted within one tick, only the first ones arrive in the step at its end. The
/// others arrive in the next step.
fn run<P: Program>(mut program: P, jobs: &[JobSpec]) -> P {
    let mut coming = (0..).zip(jobs).peekable();
    let (mut arrivals, mut last) = (Vec::new(), -1);
    while program.ended() < jobs.len() {
        let due = match arrivals.is_empty() {
            true => program.due().map(|tick| tick.max(last + 1)),
            false => Some(last + 1),
        };
        let due = due.map(|tick| tick as f64 * P::TICK);
        let submit = coming.peek().map(|(_, job)| job.submit.secs());
        let Some(now) = due.into_iter().chain(submit).min_by(f64::total_cmp) else {
            break;
        };
        while let Some((id, job)) = coming.next_if(|(_, job)| job.submit.secs() <= now) {
            arrivals.push(Job::of(id, job));
        }
        let tick = (now / P::TICK).ceil() as i64;
        if tick > last {
            program.step(tick, &arrivals);
            arrivals.clear();
            last = tick;
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Deadline, Extras, GpuCount, Seconds, Time};
    use blox_perf::PairTable;
    use std::fmt::Debug;

    /// Runs every tick, as the original does.
    fn each_tick<P: Program>(mut program: P, jobs: &[JobSpec]) -> P {
        for tick in 0..1_000_000 {
            let here = |job: &JobSpec| (job.submit.secs() / P::TICK).ceil() as i64 == tick;
            let arrivals = (0..).zip(jobs).filter(|(_, job)| here(job));
            let arrivals: Vec<Job> = arrivals.map(|(id, job)| Job::of(id, job)).collect();
            program.step(tick, &arrivals);
            if program.ended() == jobs.len() {
                return program;
            }
        }
        panic!("{} of {} jobs ended", program.ended(), jobs.len());
    }

    fn jobs() -> Vec<JobSpec> {
        let job = |i: u32| {
            // The last jobs arrive after the others have ended.
            let at = 60.0 * f64::from(i / 3) + if i < 84 { 0.0 } else { 60_000.0 };
            let seconds = f64::from(i * 733 % 4001 + 1);
            let mut extras = Extras {
                model: Some("m".into()),
                batch_size: Some(64),
                deadlines: vec![Deadline {
                    at: Time::new(at + 2.0 * seconds + 3000.0),
                    value: 10.0,
                }],
                ..Extras::default()
            };
            for (name, value) in [
                (ESTIMATE, f64::from(i * 911 % 3001)),
                (SHARING_SCORE, f64::from(i % 3)),
                (GPU_MEMORY, 4000.0),
            ] {
                extras.attributes.insert(name.into(), value.into());
            }
            extras.attributes.insert("dataset".into(), "d".into());
            extras.attributes.insert("amp".into(), 0.into());
            let gpus = GpuCount([1, 2, 8, 4, 1, 16, 3][i as usize % 7]);
            JobSpec::new(Time::new(at), gpus, Seconds::new(seconds)).with_extras(extras)
        };
        (0..90).map(job).collect()
    }

    fn visits_what_matters<P: Program, R: Debug>(make: impl Fn() -> P, result: impl Fn(P) -> R) {
        let jobs = jobs();
        let (ours, all) = (run(make(), &jobs), each_tick(make(), &jobs));
        assert_eq!(ours.ended(), jobs.len());
        let shown = |program| format!("{:?}", result(program));
        assert_eq!(shown(ours), shown(all), "{}", std::any::type_name::<P>());
    }

    #[test]
    fn skipped_ticks_change_nothing() {
        let nodes = || Nodes::new(3, Placer::Consolidate);
        let forecast = |high| Forecast {
            rows: (0..100)
                .map(|k| (600 * k, [0.0, high][k as usize % 2]))
                .collect(),
        };
        for rule in [Order::Remaining, Order::Attained] {
            visits_what_matters(|| Preemptive::new(nodes(), rule), |p| p.records);
        }
        let profiler = || LeastGpusFirst::new(nodes(), Some(forecast(60.0)));
        visits_what_matters(profiler, |p| (p.records, p.log));
        let scaling = run(profiler(), &jobs()).log;
        assert!(scaling.len() > 1);
        let mut pairs = PairTable::default();
        pairs.add("m/d/64/0", "m/d/64/0", (0.7, 0.85)).unwrap();
        let settings = PackedSettings {
            nodes: 3,
            placer: Placer::Consolidate,
            pairs: pairs.into(),
            forecast: Some(forecast(5.0)),
            scaling,
            lookup: Lookup::First,
            found_late: true,
        };
        visits_what_matters(|| Packed::new(settings.clone()), |p| p.records);
        let planner = Planner::Greedy;
        visits_what_matters(|| Chronus::new(24, 20, planner), |p| p.leases.records);
    }
}
