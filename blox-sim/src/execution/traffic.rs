//! Jobs that share the links of the network.

use super::{ExecutionModel, FixedRate, Reach, on_link};
use blox_core::{Assignment, Curve, Event, JobId, JobRef, LinkId, Phase, Policy, View, With};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Steps of demand on a link that are computed: enough, and the most to see each iteration once.
const STEPS: [f64; 2] = [2048.0, 1e6];

/// Slows jobs whose [traffic](blox_core::Extras::traffic) exceeds the bandwidth of a link that they
/// [use](blox_core::Cluster::links_of).
///
/// Traffic is a fluid. While the jobs of a link together demand more than its bandwidth, the link
/// reduces each demand by the same factor, and the jobs that communicate progress slower by this
/// factor. A job runs at the speed of its slowest link, averaged over the least common multiple of
/// the iterations of the link's jobs; if this has more than 2,048 steps of demand, over so many steps
/// or over the longest iteration. Iterations
/// start at multiples of their length since time 0, and keep this phase: so a link has the excess
/// demand of CASSINI (NSDI 2024, section 3), and jobs whose phases interleave do not slow each other.
///
/// ```
/// use blox_core::{ClusterSpec, Composition, Curve, Extras, GpuCount, JobSpec, Seconds, Time};
/// use blox_core::{order::SortKey, policy::by_key};
/// use blox_sim::execution::{FixedRate, Traffic};
/// use blox_sim::{Simulation, completion::Exact, workload::Jobs};
/// use blox_testing::FirstFit;
///
/// // The jobs communicate in half of each iteration of 0.1 s, and take one GPU of each node.
/// let job = |[first, second]: [f64; 2]| {
///     let steps = [(0.0, first), (0.05, second)].map(|(at, gbps)| (Seconds::new(at), gbps));
///     let traffic = Curve::new(Seconds::new(0.1), steps);
///     JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0))
///         .with_extras(Extras { traffic, ..Extras::default() })
/// };
/// let cluster: ClusterSpec = "1x1,1x2,1x1,network=50".parse()?;
/// let ends = |phases: [[f64; 2]; 2]| -> Result<Vec<f64>, Box<dyn std::error::Error>> {
///     let fifo = Composition::new("fifo")
///         .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
///         .placement(FirstFit)
///         .build()?;
///     let report = Simulation::new(cluster.clone())
///         .execution(Traffic::over(FixedRate))
///         .completion(Exact)
///         .run(fifo, &mut Jobs::new(phases.map(job).into()))?;
///     Ok(report.jobs.iter().filter_map(|j| j.finish).map(|t| t.secs()).collect())
/// };
/// // At the same time, both demand 50 of 50 Gbit/s: communication takes twice as long.
/// assert_eq!(ends([[50.0, 0.0], [50.0, 0.0]])?, [900.0, 900.0]);
/// assert_eq!(ends([[50.0, 0.0], [0.0, 50.0]])?, [600.0, 600.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Traffic<M = FixedRate> {
    inner: M,
}

impl<M> Traffic<M> {
    /// Wraps another model.
    pub fn over(inner: M) -> Self {
        Traffic { inner }
    }
}

/// Stretches of the jobs of each link, as last computed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkLoads(BTreeMap<LinkId, LinkLoad>);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct LinkLoad {
    /// The running jobs with traffic at a version of the state.
    running: (Option<u64>, Vec<JobId>),
    /// Jobs, in order, with the factor by which an iteration takes longer.
    stretches: Vec<(JobId, f64)>,
}

impl LinkLoads {
    /// Returns the factor by which a job's iteration takes longer if it runs on the link.
    fn stretch(&mut self, view: View<'_>, link: LinkId, job: JobId) -> f64 {
        let Some(gbps) = view.cluster().link(link).map(|link| link.gbps) else {
            return 1.0;
        };
        let load = self.0.entry(link).or_default();
        if load.running.0 != Some(view.version()) {
            let mut jobs = on_link(view, link);
            jobs.retain(|id| {
                let job = view.job(*id).filter(|job| job.phase() == Phase::Running);
                job.is_some_and(|job| job.spec().extras().traffic.is_some())
            });
            load.running = (Some(view.version()), jobs);
        }
        // A job that starts is not yet among those that run.
        let runs = load.running.1.binary_search(&job);
        let known = load.stretches.iter().map(|(id, _)| *id);
        let same = match runs {
            Ok(_) => known.eq(load.running.1.iter().copied()),
            Err(at) => {
                let (before, after) = load.running.1.split_at(at);
                known.eq(before
                    .iter()
                    .copied()
                    .chain([job])
                    .chain(after.iter().copied()))
            }
        };
        if !same {
            let mut jobs = load.running.1.clone();
            if let Err(at) = runs {
                jobs.insert(at, job);
            }
            let jobs: Vec<JobRef<'_>> = jobs.iter().filter_map(|id| view.job(*id)).collect();
            let curves = jobs.iter().filter_map(|job| {
                let traffic = job.spec().extras().traffic.as_ref();
                Some((job.id(), traffic?))
            });
            load.stretches = stretches(gbps, &curves.collect::<Vec<_>>());
        }
        let at = load.stretches.binary_search_by_key(&job, |(id, _)| *id);
        at.map_or(1.0, |at| load.stretches[at].1)
    }
}

/// Returns the greatest common divisor of two numbers above 0.
fn common(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the factors by which the iterations of jobs on one link take longer. Computes in whole
/// microseconds and kbit/s, so that the order of the jobs does not matter.
fn stretches(gbps: f64, curves: &[(JobId, &Curve)]) -> Vec<(JobId, f64)> {
    let whole = |amount: f64| (amount * 1e6).round() as u64;
    let capacity = whole(gbps).max(1);
    let most = |curve: &Curve| curve.steps().iter().map(|s| whole(s.1)).max().unwrap_or(0);
    let peak = curves
        .iter()
        .map(|(_, c)| most(c))
        .fold(0, u64::saturating_add);
    if peak <= capacity {
        return curves.iter().map(|(job, _)| (*job, 1.0)).collect();
    }
    let period = |curve: &Curve| whole(curve.period().secs()).max(1);
    let multiple = curves.iter().try_fold(1u64, |all, (_, curve)| {
        let own = period(curve);
        (all / common(all, own)).checked_mul(own)
    });
    let steps_per_us = curves
        .iter()
        .map(|(_, c)| c.steps().len() as f64 / period(c) as f64);
    let [enough, most] = STEPS.map(|steps| steps / steps_per_us.clone().sum::<f64>());
    let iteration = curves.iter().map(|(_, c)| period(c)).max().unwrap_or(1);
    let longest = enough.max(iteration as f64).min(most).max(1.0) as u64;
    let window = multiple.filter(|m| *m <= longest).unwrap_or(longest);
    let mut steps = Vec::new();
    for (i, (_, curve)) in curves.iter().enumerate() {
        for start in (0..window).step_by(period(curve) as usize) {
            let all = curve.steps().iter();
            let all = all.map(|(at, gbps)| (start + whole(at.secs()), i, whole(*gbps)));
            steps.extend(all.filter(|step| step.0 < window));
        }
    }
    steps.sort_by_key(|step| step.0);
    // Sum of excess demand over time: now, and at the start of the job's current demand.
    let (mut excess, mut total, mut last) = (0u128, 0u64, 0u64);
    let mut jobs = vec![(0u64, 0u128, 0u128); curves.len()];
    for (at, i, demand) in steps {
        excess += u128::from(at - last) * u128::from(total.saturating_sub(capacity));
        last = at;
        let (now, since, lost) = &mut jobs[i];
        if *now > 0 {
            *lost += excess - *since;
        }
        total = total - *now + demand;
        (*now, *since) = (demand, excess);
    }
    excess += u128::from(window - last) * u128::from(total.saturating_sub(capacity));
    let all = u128::from(window) * u128::from(capacity);
    let stretch = |(now, since, lost): (u64, u128, u128)| {
        let lost = if now > 0 { lost + excess - since } else { lost };
        1.0 + lost as f64 / all as f64
    };
    let jobs = jobs.into_iter().map(stretch);
    curves.iter().map(|(job, _)| *job).zip(jobs).collect()
}

impl<M: ExecutionModel> Policy for Traffic<M> {
    type Memory = With<LinkLoads, M::Memory>;

    fn initial(&self, seed: u64) -> Self::Memory {
        With {
            own: LinkLoads::default(),
            inner: self.inner.initial(seed),
        }
    }

    fn on_event(&self, memory: &mut Self::Memory, view: View<'_>, event: &Event) {
        self.inner.on_event(&mut memory.inner, view, event);
    }

    fn listens(&self) -> bool {
        self.inner.listens()
    }
}

impl<M: ExecutionModel> ExecutionModel for Traffic<M> {
    fn rate(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        job: &JobRef<'_>,
        assignment: &Assignment,
    ) -> f64 {
        let rate = self.inner.rate(&mut memory.inner, view, job, assignment);
        if job.spec().extras().traffic.is_none() {
            return rate;
        }
        let links = view.cluster().links_of(&assignment.gpus);
        let stretch = |link| memory.own.stretch(view, link, job.id());
        rate / links.into_iter().map(stretch).fold(1.0, f64::max)
    }

    fn reach(&self) -> Reach {
        self.inner.reach().max(Reach::Links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::Seconds;

    /// Returns the factors of jobs with these periods and steps, in milliseconds and Gbit/s.
    fn of(gbps: f64, jobs: &[(f64, &[(f64, f64)])]) -> Vec<f64> {
        let curve = |(period, steps): &(f64, &[(f64, f64)])| {
            let ms = |t: f64| Seconds::new(t / 1000.0);
            let steps = steps.iter().map(|(at, gbps)| (ms(*at), *gbps));
            Curve::new(ms(*period), steps).unwrap()
        };
        let curves: Vec<Curve> = jobs.iter().map(curve).collect();
        let ids = (0..).map(JobId);
        let curves: Vec<_> = ids.zip(&curves).collect();
        let found = stretches(gbps, &curves);
        assert!(
            found
                .iter()
                .map(|f| f.0)
                .eq((0..found.len() as u32).map(JobId))
        );
        found.into_iter().map(|(_, stretch)| stretch).collect()
    }

    #[test]
    fn phases_that_meet_take_longer_by_their_excess() {
        let early: &[_] = &[(0.0, 50.0), (50.0, 0.0)];
        let late: &[_] = &[(0.0, 0.0), (50.0, 50.0)];
        assert_eq!(of(50.0, &[(100.0, early), (100.0, early)]), [1.5, 1.5]);
        assert_eq!(of(50.0, &[(100.0, early), (100.0, late)]), [1.0, 1.0]);
        // Three phases of a half cannot all be apart.
        let all = [(100.0, early), (100.0, late), (100.0, early)];
        assert_eq!(of(50.0, &all), [1.5, 1.0, 1.5]);
        // Phases of 60 ms, 50 ms apart, meet for 20 ms.
        let first: &[_] = &[(0.0, 50.0), (60.0, 0.0)];
        let second: &[_] = &[(0.0, 50.0), (10.0, 0.0), (50.0, 50.0)];
        assert_eq!(of(50.0, &[(100.0, first), (100.0, second)]), [1.2, 1.2]);
    }

    #[test]
    fn iterations_of_two_lengths_repeat_together() {
        // In 120 ms, the phases meet in 0 to 20 and in 80 to 90.
        let jobs: [(f64, &[_]); 2] = [
            (40.0, &[(0.0, 50.0), (20.0, 0.0)]),
            (60.0, &[(0.0, 50.0), (30.0, 0.0)]),
        ];
        assert_eq!(of(50.0, &jobs), [1.25, 1.25]);
    }

    #[test]
    fn a_link_reduces_all_demands_by_one_factor() {
        let always = |gbps: f64| [(0.0, gbps)];
        let (a, b, c) = (always(60.0), always(40.0), always(0.0));
        assert_eq!(
            of(50.0, &[(9.0, &a), (7.0, &b), (7.0, &c)]),
            [2.0, 2.0, 1.0]
        );
        assert_eq!(of(100.0, &[(9.0, &a), (7.0, &b)]), [1.0, 1.0]);
        assert_eq!(of(15.0, &[(9.0, &a)]), [4.0]);
    }

    #[test]
    fn lengths_without_a_short_multiple_end() {
        let half = |ms: f64| [(0.0, 50.0), (ms / 2.0, 0.0)];
        let lengths = [97.003, 101.001, 103.007, 0.002];
        let steps = lengths.map(half);
        let jobs: Vec<(f64, &[_])> = lengths
            .iter()
            .zip(&steps)
            .map(|(l, s)| (*l, &s[..]))
            .collect();
        let three = of(50.0, &jobs[..3]);
        // Apart from their phases, each meets one other half of its time and both a quarter.
        assert!(three.iter().all(|s| (s - 1.5).abs() < 0.02), "{three:?}");
        // Beside very short iterations, only one long iteration is computed, in which phases meet.
        let four = of(50.0, &jobs);
        let expected = [2.25, 2.25, 2.25, 1.75];
        let near = four.iter().zip(expected).all(|(s, e)| (s - e).abs() < 0.05);
        assert!(near, "{four:?}");
    }
}
