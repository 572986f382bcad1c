//! Jobs that share a link of the network.

use blox_core::{Assignment, Curve, JobRef};

/// Steps of demand on a link that are computed: enough, and the most to see each iteration once.
const STEPS: [f64; 2] = [2048.0, 1e6];

/// Effect of the traffic of several jobs on one link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkShare {
    /// Mean demand above the bandwidth, as a fraction of the bandwidth. CASSINI's compatibility score
    /// (NSDI 2024) is 1 minus this excess.
    pub excess: f64,
    /// Factor by which an iteration of each job takes longer, at least 1.
    pub stretches: Vec<f64>,
}

/// Returns the [demand](blox_core::Extras::traffic) of a job on links, and the seconds by which it is
/// shifted: the knob `shift` of its [config](blox_core::Config). Returns `None` without traffic.
pub fn link_demand<'a>(job: &JobRef<'a>, on: &Assignment) -> Option<(&'a Curve, f64)> {
    let traffic = job.spec().extras().traffic.as_ref()?;
    Some((traffic, on.config.get("shift").unwrap_or(0.0)))
}

/// Returns the effect of jobs with these [demands](blox_core::Extras::traffic) on a link of `gbps`
/// Gbit/s. Each demand comes with the seconds by which it is shifted: with 0.05, the job
/// communicates 0.05 s later.
///
/// Traffic is a fluid. While the jobs together demand more than the bandwidth, each demand is reduced
/// by the same factor, and the jobs that communicate progress slower by this factor. The result is
/// the mean over the least common multiple of the iterations. At most 2,048 steps of demand count, or
/// the longest iteration. Without shifts, iterations start
/// together. They keep their phases.
///
/// ```
/// use blox_core::{Curve, Seconds};
/// use blox_perf::share_link;
/// let half = |first: f64, second: f64| {
///     let steps = [(0.0, first), (0.05, second)].map(|(at, gbps)| (Seconds::new(at), gbps));
///     Curve::new(Seconds::new(0.1), steps).expect("in order")
/// };
/// let (early, late) = (half(50.0, 0.0), half(0.0, 50.0));
/// let same = share_link(50.0, &[(&early, 0.0), (&early, 0.0)]);
/// assert_eq!((same.excess, same.stretches), (0.5, vec![1.5, 1.5]));
/// let apart = share_link(50.0, &[(&early, 0.0), (&late, 0.0)]);
/// assert_eq!((apart.excess, apart.stretches), (0.0, vec![1.0, 1.0]));
/// assert_eq!(share_link(50.0, &[(&early, 0.0), (&early, 0.05)]).excess, 0.0);
/// ```
pub fn share_link(gbps: f64, demands: &[(&Curve, f64)]) -> LinkShare {
    // Whole microseconds and kbit/s: sums do not depend on the order of the jobs.
    let whole = |amount: f64| (amount * 1e6).round() as u64;
    let capacity = whole(gbps).max(1);
    let most = |curve: &Curve| curve.steps().iter().map(|s| whole(s.1)).max().unwrap_or(0);
    let peak = demands
        .iter()
        .map(|(c, _)| most(c))
        .fold(0, u64::saturating_add);
    if peak <= capacity {
        return LinkShare {
            excess: 0.0,
            stretches: vec![1.0; demands.len()],
        };
    }
    let period = |curve: &Curve| whole(curve.period().secs()).max(1);
    let multiple = demands.iter().try_fold(1u64, |all, (curve, _)| {
        let own = period(curve);
        (all / common(all, own)).checked_mul(own)
    });
    let steps_per_us = demands
        .iter()
        .map(|(c, _)| c.steps().len() as f64 / period(c) as f64);
    let [enough, most] = STEPS.map(|steps| steps / steps_per_us.clone().sum::<f64>());
    let iteration = demands.iter().map(|(c, _)| period(c)).max().unwrap_or(1);
    let longest = enough.max(iteration as f64).min(most).max(1.0) as u64;
    let window = multiple.filter(|m| *m <= longest).unwrap_or(longest);
    // Jobs with the same demand have the same stretch: each kind, and the number of its jobs.
    let mut kinds: Vec<((&Curve, u64), u64)> = Vec::new();
    let mut kind_of = Vec::with_capacity(demands.len());
    for (curve, shift) in demands {
        let its = (*curve, whole(shift.rem_euclid(curve.period().secs())));
        let same = kinds.iter().position(|(kind, _)| *kind == its);
        let at = same.unwrap_or(kinds.len());
        match kinds.get_mut(at) {
            Some((_, count)) => *count += 1,
            None => kinds.push((its, 1)),
        }
        kind_of.push(at);
    }
    let mut steps = Vec::new();
    for (i, ((curve, shift), count)) in kinds.iter().enumerate() {
        let length = period(curve);
        let moved = |at: f64| (whole(at) + shift) % length;
        let all = curve.steps().iter();
        let mut all: Vec<_> = all
            .map(|(at, gbps)| (moved(at.secs()), whole(*gbps).saturating_mul(*count)))
            .collect();
        all.sort_by_key(|step| step.0);
        // At time 0, the last step of the iteration before counts.
        steps.extend(all.last().map(|step| (0, i, step.1)));
        for start in (0..window).step_by(length as usize) {
            let all = all.iter().map(|(at, gbps)| (start + at, i, *gbps));
            steps.extend(all.filter(|step| step.0 < window));
        }
    }
    steps.sort_by_key(|step| step.0);
    // Excess demand over time: until now, and until the start of a kind's current demand.
    let (mut excess, mut total, mut last) = (0u128, 0u64, 0u64);
    let mut state = vec![(0u64, 0u128, 0u128); kinds.len()];
    for (at, i, demand) in steps {
        excess += u128::from(at - last) * u128::from(total.saturating_sub(capacity));
        last = at;
        let (now, since, lost) = &mut state[i];
        if *now > 0 {
            *lost += excess - *since;
        }
        total = total - *now + demand;
        (*now, *since) = (demand, excess);
    }
    excess += u128::from(window - last) * u128::from(total.saturating_sub(capacity));
    let all = (u128::from(window) * u128::from(capacity)) as f64;
    let stretch = |(now, since, lost): (u64, u128, u128)| {
        let lost = if now > 0 { lost + excess - since } else { lost };
        1.0 + lost as f64 / all
    };
    let of_kinds: Vec<f64> = state.into_iter().map(stretch).collect();
    LinkShare {
        excess: excess as f64 / all,
        stretches: kind_of.into_iter().map(|kind| of_kinds[kind]).collect(),
    }
}

/// Returns the greatest common divisor of two numbers above 0.
fn common(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::Seconds;

    /// Returns the effect of jobs with these periods and steps, in milliseconds and Gbit/s.
    fn of(gbps: f64, jobs: &[(f64, &[(f64, f64)])]) -> LinkShare {
        let curve = |(period, steps): &(f64, &[(f64, f64)])| {
            let ms = |t: f64| Seconds::new(t / 1000.0);
            let steps = steps.iter().map(|(at, gbps)| (ms(*at), *gbps));
            Curve::new(ms(*period), steps).unwrap()
        };
        let curves: Vec<Curve> = jobs.iter().map(curve).collect();
        let unshifted = curves.iter().map(|curve| (curve, 0.0));
        share_link(gbps, &unshifted.collect::<Vec<_>>())
    }

    fn share(excess: f64, stretches: &[f64]) -> LinkShare {
        let stretches = stretches.to_vec();
        LinkShare { excess, stretches }
    }

    #[test]
    fn phases_that_meet_take_longer_by_their_excess() {
        let early: &[_] = &[(0.0, 50.0), (50.0, 0.0)];
        let late: &[_] = &[(0.0, 0.0), (50.0, 50.0)];
        let both = of(50.0, &[(100.0, early), (100.0, early)]);
        assert_eq!(both, share(0.5, &[1.5, 1.5]));
        let both = of(50.0, &[(100.0, early), (100.0, late)]);
        assert_eq!(both, share(0.0, &[1.0, 1.0]));
        // Three phases of a half cannot all be apart.
        let all = [(100.0, early), (100.0, late), (100.0, early)];
        assert_eq!(of(50.0, &all), share(0.5, &[1.5, 1.0, 1.5]));
        // Phases of 60 ms, 50 ms apart, meet for 20 ms.
        let first: &[_] = &[(0.0, 50.0), (60.0, 0.0)];
        let second: &[_] = &[(0.0, 50.0), (10.0, 0.0), (50.0, 50.0)];
        let both = of(50.0, &[(100.0, first), (100.0, second)]);
        assert_eq!(both, share(0.2, &[1.2, 1.2]));
    }

    #[test]
    fn a_shift_moves_the_phases_of_a_job() {
        let steps = [(0.0, 50.0), (0.05, 0.0)].map(|(at, gbps)| (Seconds::new(at), gbps));
        let job = Curve::new(Seconds::new(0.1), steps).unwrap();
        let by = |shift: f64| share_link(50.0, &[(&job, 0.0), (&job, shift)]).excess;
        assert_eq!(
            [0.0, 0.01, 0.05, 0.08, 0.1].map(by),
            [0.5, 0.4, 0.0, 0.3, 0.5]
        );
        // Before time 0, and by several iterations.
        assert_eq!([-0.05, -0.01, 1.05].map(by), [0.0, 0.4, 0.0]);
        // Only the difference of the shifts counts.
        let both = share_link(50.0, &[(&job, 0.03), (&job, 0.04)]);
        assert_eq!(both, share(0.4, &[1.4, 1.4]));
    }

    #[test]
    fn iterations_of_two_lengths_repeat_together() {
        // In 120 ms, the phases meet in 0 to 20 and in 80 to 90.
        let jobs: [(f64, &[_]); 2] = [
            (40.0, &[(0.0, 50.0), (20.0, 0.0)]),
            (60.0, &[(0.0, 50.0), (30.0, 0.0)]),
        ];
        assert_eq!(of(50.0, &jobs), share(0.25, &[1.25, 1.25]));
    }

    #[test]
    fn a_link_reduces_all_demands_by_one_factor() {
        let always = |gbps: f64| [(0.0, gbps)];
        let (a, b, c) = (always(60.0), always(40.0), always(0.0));
        let three = of(50.0, &[(9.0, &a), (7.0, &b), (7.0, &c)]);
        assert_eq!(three, share(1.0, &[2.0, 2.0, 1.0]));
        let enough = of(100.0, &[(9.0, &a), (7.0, &b)]);
        assert_eq!(enough, share(0.0, &[1.0, 1.0]));
        assert_eq!(of(15.0, &[(9.0, &a)]), share(3.0, &[4.0]));
    }

    #[test]
    fn lengths_without_a_short_multiple_end() {
        let half = |ms: f64| [(0.0, 50.0), (ms / 2.0, 0.0)];
        let lengths = [97.003, 101.001, 103.007, 0.002];
        let steps = lengths.map(half);
        let all = lengths.iter().zip(&steps).map(|(l, s)| (*l, &s[..]));
        let jobs: Vec<(f64, &[_])> = all.collect();
        let three = of(50.0, &jobs[..3]).stretches;
        // Apart from their phases, each meets one other half of its time and both a quarter.
        assert!(three.iter().all(|s| (s - 1.5).abs() < 0.02), "{three:?}");
        // Beside very short iterations, only one long iteration is computed, in which phases meet.
        let four = of(50.0, &jobs).stretches;
        let expected = [2.25, 2.25, 2.25, 1.75];
        let near = four.iter().zip(expected).all(|(s, e)| (s - e).abs() < 0.05);
        assert!(near, "{four:?}");
    }
}
