//! Rubick: GPUs and execution plans where they raise the throughput most.

use super::listed::{Placeable, Up};
use crate::unit::Unit;
use blox_core::{
    Answer, Class, Config, Event, GpuCount, JobId, JobQueue, JobRef, Phase, Policy, Reason,
    Request, SchedulingPolicy, Shape, Shapes, Validity, View, sort,
};
use blox_perf::Plans;
use serde::{Deserialize, Serialize};

/// Gives GPUs to the jobs whose throughput they raise most, each with its fastest execution plan
/// (MLSys 2025).
///
/// *Curve.* For each number of GPUs, the fastest of the [plans](Plans) of a job counts. A GPU that
/// raises the throughput by at most 1 % is not taken. The *slope* is the change of the throughput for
/// each GPU, as a multiple of the throughput on the requested GPUs with the own plan of the job.
///
/// *Guarantees.* A job of the class [`Guaranteed`](Class::Guaranteed) runs with at least the throughput
/// of its request, if need be on fewer GPUs. Other jobs run with any throughput.
///
/// *Start.* Guaranteed jobs come first, then those with the smallest slope. A job takes free GPUs. If
/// they are too few, jobs with the smallest slopes give up GPUs. A job takes GPUs of others while its
/// guarantee is not met. Beyond that, its slope must be at least theirs, and neither was launched
/// five times. No job falls below its guarantee. GPUs left over go to the largest slopes.
///
/// A job without plans gets the GPUs that it requests, or none. Combine it with
/// [`Resizing`](crate::placement::Resizing), which changes the GPUs of running jobs.
#[derive(Clone, Debug, Default)]
pub struct Rubick {
    own_plans: bool,
}

/// Curves of the jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Curves {
    #[serde(skip)]
    jobs: Placeable<Curve>,
}

/// Launches after which a job neither gives up GPUs for others nor takes them, beyond guarantees.
const LAUNCHES: u32 = 5;
/// The most GPUs that a job gets beyond its request.
const MOST: u32 = 64;
/// Factor by which a larger step of a curve is faster.
const GAIN: f64 = 1.01;

/// A number of GPUs, the throughput on it, and the plan.
#[derive(Clone, Debug)]
struct Step {
    gpus: u32,
    speed: f64,
    plan: Config,
}

/// Steps with ascending numbers of GPUs and throughputs.
type Curve = Vec<Step>;

impl Rubick {
    /// Creates a variant in which each job keeps `tp`, `pp` and `zero` of its own plan, and only its
    /// number of replicas changes.
    pub fn with_own_plans() -> Self {
        Rubick { own_plans: true }
    }

    fn curve(&self, view: View<'_>, job: &JobRef<'_>) -> Curve {
        let Some(plans) = Plans::of(view.cluster(), job.spec()) else {
            return vec![Step {
                gpus: job.gpus().get(),
                speed: 1.0,
                plan: Config::NONE,
            }];
        };
        let given = match self.own_plans {
            true => plans.own(),
            false => &Config::NONE,
        };
        let most = view.installed_gpus().get().min(MOST).max(job.gpus().get());
        let mut curve = Curve::new();
        for gpus in 1..=most {
            if let Some((speed, plan)) = plans.best(GpuCount(gpus), given)
                && curve.last().is_none_or(|last| speed > last.speed * GAIN)
            {
                curve.push(Step { gpus, speed, plan });
            }
        }
        curve
    }
}

/// Returns the shape of a job on a step of its curve.
fn shape(job: &JobRef<'_>, step: &Step) -> Shape {
    Shape::sized(job, GpuCount(step.gpus)).with(step.plan.clone())
}

/// Returns the first step that meets the guarantee of a job; `None` without a guarantee.
fn guaranteed(job: &JobRef<'_>, curve: &Curve) -> Option<usize> {
    let meets = |step: &Step| step.speed * GAIN >= 1.0;
    let last = curve.len().saturating_sub(1);
    (job.class() == Class::Guaranteed).then(|| curve.iter().position(meets).unwrap_or(last))
}

#[derive(Clone, Debug)]
struct Candidate<'c> {
    job: JobId,
    curve: &'c [Step],
    /// Units of each of its GPUs.
    each: u32,
    /// Index of its step; `None` for no GPUs.
    level: Option<usize>,
    /// The level of its guarantee.
    floor: Option<usize>,
    /// True if it was launched less than [`LAUNCHES`] times.
    is_fresh: bool,
}

impl Candidate<'_> {
    /// Returns the units and the throughput of a level.
    fn at(&self, level: Option<usize>) -> (u32, f64) {
        let step = level.and_then(|level| self.curve.get(level));
        step.map_or((0, 0.0), |step| (step.gpus * self.each, step.speed))
    }

    fn units(&self) -> u32 {
        self.at(self.level).0
    }

    /// Returns the largest slope with up to `free` more units, and its level.
    fn gain(&self, free: u32) -> Option<(f64, usize)> {
        let (units, speed) = self.at(self.level);
        let next = self.level.map_or(0, |level| level + 1);
        let more = (next..self.curve.len()).map(|level| (level, self.at(Some(level))));
        let more = more.take_while(|(_, (more, _))| more - units <= free);
        let slopes = more.map(|(i, (more, faster))| {
            let slope = (faster - speed) / f64::from(more - units);
            (slope, i)
        });
        // The first of equals.
        slopes.reduce(|a, b| if b.0 > a.0 { b } else { a })
    }

    /// Returns the slope of the last step; `None` at the guarantee or without GPUs.
    fn loss(&self) -> Option<f64> {
        let level = self
            .level
            .filter(|level| self.floor.is_none_or(|floor| *level > floor))?;
        let ((units, speed), (fewer, slower)) =
            (self.at(self.level), self.at(level.checked_sub(1)));
        Some((speed - slower) / f64::from(units - fewer))
    }

    /// Moves to the last step within some units.
    fn fit(&mut self, units: u32) {
        let gpus = units / self.each;
        let within = self.curve.partition_point(|step| step.gpus <= gpus);
        self.level = within.checked_sub(1);
    }

    /// Returns whether it has GPUs, and its guarantee is met.
    fn is_served(&self) -> bool {
        self.level
            .is_some_and(|level| self.floor.is_none_or(|floor| level >= floor))
    }
}

/// Divides `total` units anew. Candidates are in order of job. Returns the order of their requests.
fn divide(candidates: &mut [Candidate<'_>], total: u32) -> Vec<usize> {
    let held: u32 = candidates.iter().map(Candidate::units).sum();
    let mut free = total.saturating_sub(held);
    let slope = |c: &Candidate<'_>| c.gain(u32::MAX).map_or(0.0, |(slope, _)| slope);
    let slopes: Vec<f64> = candidates.iter().map(slope).collect();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    sort::by(&mut order, |&a, &b| {
        let late = |i: usize| candidates[i].floor.is_none();
        late(a).cmp(&late(b)).then(slopes[a].total_cmp(&slopes[b]))
    });
    for &i in &order {
        if !candidates[i].is_served() {
            serve(candidates, i, &mut free);
        }
    }
    loop {
        let placed = candidates
            .iter()
            .enumerate()
            .filter(|(_, c)| c.level.is_some());
        let gains = placed.filter_map(|(i, c)| c.gain(free).map(|gain| (gain, i)));
        let best = gains.reduce(|a, b| if b.0.0 > a.0.0 { b } else { a });
        let Some(((_, level), i)) = best else { break };
        free += candidates[i].units();
        candidates[i].level = Some(level);
        free -= candidates[i].units();
    }
    order
}

/// Gives a candidate free GPUs, and GPUs of others if these are too few. Without success, nothing
/// changes.
fn serve(candidates: &mut [Candidate<'_>], i: usize, free: &mut u32) {
    let mut before = vec![(i, candidates[i].level)];
    let had = *free;
    loop {
        let own = candidates[i].units();
        candidates[i].fit(own + *free);
        *free = own + *free - candidates[i].units();
        if candidates[i].is_served() {
            return;
        }
        let new = &candidates[i];
        let gain = new.gain(u32::MAX).map_or(0.0, |(slope, _)| slope);
        let gives = |(k, c): (usize, &Candidate<'_>)| {
            let loss = c.loss().filter(|_| k != i)?;
            let swaps = loss <= gain && c.is_fresh && new.is_fresh;
            (new.floor.is_some() || swaps).then_some((loss, k))
        };
        let victims = candidates.iter().enumerate().filter_map(gives);
        let Some((_, k)) = victims.reduce(|a, b| if b.0 < a.0 { b } else { a }) else {
            // The last change of a candidate is undone first.
            for (k, level) in before.into_iter().rev() {
                candidates[k].level = level;
            }
            *free = had;
            return;
        };
        let victim = &mut candidates[k];
        before.push((k, victim.level));
        *free += victim.units();
        victim.level = victim.level.and_then(|level| level.checked_sub(1));
        *free -= victim.units();
    }
}

impl Policy for Rubick {
    type Memory = Curves;

    fn initial(&self, _: u64) -> Curves {
        Curves::default()
    }

    fn on_event(&self, memory: &mut Curves, view: View<'_>, event: &Event) {
        let job = event.job().and_then(|id| view.job(id));
        if let Some(job) = job.filter(|job| job.phase() == Phase::Ended) {
            memory.jobs.remove(job.id());
        }
    }
}

impl SchedulingPolicy for Rubick {
    fn schedule(&self, memory: &mut Curves, view: View<'_>, out: &mut JobQueue) -> Answer {
        memory.jobs.renew(view);
        for job in view.active() {
            memory.jobs.of(job.id(), |up: &Up| {
                let all = self.curve(view, &job);
                let could = |step: &&Step| up.could_place(out, view, &job, &shape(&job, step));
                let possible: Curve = all.iter().filter(could).cloned().collect();
                // A job that could be placed on none waits for nodes.
                if possible.is_empty() { all } else { possible }
            });
        }
        let unit = Unit::of(view.active());
        let candidate = |job: JobRef<'_>| {
            let curve = memory.jobs.by_job().get(&job.id())?;
            let mut candidate = Candidate {
                job: job.id(),
                curve,
                each: unit.each(&job),
                level: None,
                floor: guaranteed(&job, curve),
                is_fresh: job.attempt() < LAUNCHES,
            };
            if let Some(has) = job.assignment() {
                candidate.fit(has.count().get() * candidate.each);
            }
            Some(candidate)
        };
        let mut candidates: Vec<_> = view.active().filter_map(candidate).collect();
        if candidates.is_empty() {
            return Ok(Validity::UntilEvent);
        }
        let order = divide(&mut candidates, unit.all(view.usable_gpus()));
        for candidate in order.into_iter().map(|i| &candidates[i]) {
            let (Some(level), Some(job)) = (candidate.level, view.job(candidate.job)) else {
                continue;
            };
            // Smaller steps follow, in case this step does not fit.
            let steps = &candidate.curve[candidate.floor.unwrap_or(0).min(level)..=level];
            let mut request = Request::gang(&job);
            request.shapes = steps.iter().rev().map(|step| shape(&job, step)).collect();
            out.push(request);
        }
        out.stop_unlisted();
        Ok(Validity::NextRound)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        let curve = self.curve(view, job);
        let least = guaranteed(job, &curve).unwrap_or(0);
        let shapes: Shapes = curve
            .iter()
            .skip(least)
            .map(|step| shape(job, step))
            .collect();
        match shapes.is_empty() {
            true => Err(Reason::other("has no plan that fits its GPUs")),
            false => Ok(shapes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u32, f64)]) -> Curve {
        let step = |&(gpus, speed)| Step {
            gpus,
            speed,
            plan: Config::NONE,
        };
        points.iter().map(step).collect()
    }

    fn candidate(job: u32, curve: &[Step], gpus: u32, floor: Option<usize>) -> Candidate<'_> {
        let mut candidate = Candidate {
            job: JobId(job),
            curve,
            each: 1,
            level: None,
            floor,
            is_fresh: true,
        };
        candidate.fit(gpus);
        candidate
    }

    fn divided(mut candidates: Vec<Candidate<'_>>, total: u32) -> Vec<u32> {
        divide(&mut candidates, total);
        candidates.iter().map(Candidate::units).collect()
    }

    #[test]
    fn throughput_decides_between_two_models() {
        // Speeds of RoBERTa and T5 (3B) in the program of the paper, relative to 4 GPUs.
        let roberta = curve(&[(1, 0.55), (4, 1.0)]);
        let t5 = curve(&[(1, 0.20), (2, 0.25), (3, 0.89), (4, 1.0)]);
        let both = vec![candidate(0, &roberta, 0, None), candidate(1, &t5, 0, None)];
        assert_eq!(divided(both, 4), [1, 3]);
    }

    #[test]
    fn free_gpu_goes_to_the_larger_slope() {
        let flat = curve(&[(1, 1.0), (2, 1.2)]);
        let steep = curve(&[(1, 1.0), (2, 1.5)]);
        let both = vec![candidate(0, &flat, 1, None), candidate(1, &steep, 1, None)];
        assert_eq!(divided(both, 3), [1, 2]);
    }

    #[test]
    fn best_effort_job_shrinks_for_a_guarantee() {
        let linear = curve(&[(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0)]);
        let new = || candidate(1, &linear, 0, Some(3));
        assert_eq!(
            divided(vec![candidate(0, &linear, 4, None), new()], 6),
            [2, 4]
        );
        assert_eq!(
            divided(vec![candidate(0, &linear, 4, Some(3)), new()], 6),
            [4, 0]
        );
        // It is stopped if need be.
        assert_eq!(
            divided(vec![candidate(0, &linear, 4, None), new()], 4),
            [0, 4]
        );
    }

    #[test]
    fn jobs_swap_gpus_only_for_a_slope_and_few_launches() {
        let steep = curve(&[(1, 1.0), (2, 1.1)]);
        let flat = curve(&[(2, 0.1)]);
        let pair = |new: &Curve, fresh| {
            let old = Candidate {
                is_fresh: fresh,
                ..candidate(0, &steep, 2, None)
            };
            let new = candidate(1, new, 0, None);
            let mut both = [old, new];
            divide(&mut both, 2);
            both.map(|c| c.units())
        };
        assert_eq!(pair(&steep, true), [1, 1]);
        assert_eq!(pair(&steep, false), [2, 0]);
        assert_eq!(pair(&flat, true), [2, 0]);
    }

    #[test]
    fn guaranteed_job_takes_free_gpus_first() {
        let steep = curve(&[(1, 0.5), (2, 1.0), (3, 1.05), (4, 1.1)]);
        let flat = curve(&[(1, 0.01), (2, 0.02), (3, 0.03), (4, 0.04)]);
        let best_effort = candidate(0, &flat, 0, None);
        let both = vec![best_effort, candidate(1, &steep, 0, Some(1))];
        assert_eq!(divided(both, 4), [0, 4]);
    }

    #[test]
    fn smallest_slope_gives_up_its_gpu() {
        let (steep, flat) = (curve(&[(1, 1.0), (2, 1.5)]), curve(&[(1, 1.0), (2, 1.1)]));
        let new = curve(&[(1, 0.6)]);
        let held = |job, curve| candidate(job, curve, 2, None);
        let all = |a, b| vec![held(0, a), held(1, b), candidate(2, &new, 0, None)];
        assert_eq!(divided(all(&steep, &flat), 4), [2, 1, 1]);
        assert_eq!(divided(all(&flat, &steep), 4), [1, 2, 1]);
    }

    #[test]
    fn job_without_success_changes_nothing() {
        let (small, large) = (curve(&[(2, 1.0)]), curve(&[(6, 1.0)]));
        let linear = curve(&[(1, 0.2), (2, 0.4), (3, 0.6), (4, 0.8), (5, 1.0)]);
        let all = vec![
            candidate(0, &small, 2, None),
            candidate(1, &large, 0, Some(0)),
            candidate(2, &linear, 0, None),
        ];
        assert_eq!(divided(all, 5), [2, 0, 3]);
    }
}
