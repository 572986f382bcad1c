//! Optimus: workers where they shorten training most.

use super::listed::{Placeable, Up, levels, on_each};
use crate::unit::Unit;
use blox_core::{
    Answer, Event, GpuCount, JobId, JobQueue, JobRef, LOSS, Phase, Policy, Reason, Request,
    SchedulingPolicy, Seconds, Shape, Shapes, SortedMap, Validity, View, sort,
};
use blox_perf::{WorkerModel, fit_loss, flat_from, without_outliers};
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Gives GPUs to the jobs whose training they shorten most (Peng et al., EuroSys 2018).
///
/// *Remaining work.* After four loss reports, [`LossCurve`](blox_core::LossCurve) is fitted to them, with
/// [outliers replaced](blox_perf::without_outliers). The job is then expected to end when its loss
/// falls by less than a fraction of its largest value per epoch. Before that, and at most, it runs
/// for its submitted iterations.
///
/// *Speed.* [`WorkerModel`] is fitted to the speeds at which the job has run so far. On 1, 2, 4, ...
/// GPUs, a job that has not run there counts as fast in proportion to its GPUs. (The paper runs a
/// job for a short while before it starts.)
///
/// *Number of GPUs.* Every job first gets its smallest number of GPUs, the job with the shortest
/// remaining time first. Then the job whose remaining time shrinks most per GPU repeatedly gets its
/// next number. A job with `levels` gets only those numbers. Any other job gets its requested
/// number; the paper has no such jobs.
///
/// Jobs are listed smallest first. Combine it with [`Resizing`](crate::placement::Resizing), which
/// changes the GPUs of running jobs.
#[derive(Clone)]
pub struct Optimus {
    tolerance: f64,
}

/// Observations of each job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Iterations per second at each number of GPUs on which a job ran.
    speeds: SortedMap<JobId, SortedMap<u32, f64>>,
    /// Number of reports, and the end in epochs estimated from them; derived from the view.
    #[serde(skip)]
    ends: SortedMap<JobId, (usize, Option<f64>)>,
    /// Levels on which each job could be placed on these nodes.
    #[serde(skip)]
    levels: Placeable<SmallVec<[u32; 4]>>,
}

impl Seen {
    /// Records the speed of a job on its current GPUs.
    fn note(&mut self, job: &JobRef<'_>) {
        if let Some(bound) = job.bound() {
            let speeds = self.speeds.entry(job.id()).or_default();
            speeds.insert(bound.count().get(), job.rate());
        }
    }

    /// Returns the model of a job that has one number of GPUs.
    fn rigid_model(&self, job: &JobRef<'_>) -> WorkerModel {
        let measured = self.speeds.get(&job.id());
        let measured = measured.and_then(|ran| ran.get(&job.gpus().get()).copied());
        let rate = measured.filter(|rate| *rate > 0.0);
        let rate = rate.unwrap_or(job.own_rate());
        WorkerModel {
            c: [0.0, 1.0 / rate, 0.0],
        }
    }

    /// Returns the model of a job with levels, fitted to its speeds so far.
    fn model(&self, job: &JobRef<'_>) -> WorkerModel {
        let ran = self.speeds.get(&job.id());
        let mut steps: Vec<(u32, f64)> = ran
            .into_iter()
            .flatten()
            .filter(|(_, rate)| **rate > 0.0)
            .map(|(w, rate)| (*w, 1.0 / rate))
            .collect();
        let most = job.spec().extras().levels.last().map_or(0, |l| l.get());
        let mut w = 1;
        while w <= most {
            if ran.is_none_or(|ran| !ran.contains_key(&w)) {
                let rate = job.own_rate() * f64::from(w) / f64::from(job.gpus().get());
                steps.push((w, 1.0 / rate));
            }
            w *= 2;
        }
        // Without any speed, more GPUs bring no gain.
        WorkerModel::fit(&steps).unwrap_or(WorkerModel { c: [0.0, 1.0, 0.0] })
    }
}

/// Number of reports from which a loss curve is fitted.
const FEWEST_REPORTS: usize = 4;

impl Optimus {
    /// Creates the policy. A job ends when its loss falls by less than the fraction `tolerance`,
    /// above 0, of the largest loss.
    ///
    /// The speed of a job is in proportion to its GPUs until it is measured.
    pub fn new(tolerance: f64) -> Self {
        Optimus { tolerance }
    }

    fn candidate(
        &self,
        memory: &mut Seen,
        unit: Unit,
        job: &JobRef<'_>,
        could: impl Fn(&Up, u32) -> bool,
    ) -> Candidate {
        let (levels, model): (SmallVec<[u32; 4]>, _) = match levels(job).next().is_none() {
            true => (smallvec![job.gpus().get()], memory.rigid_model(job)),
            false => {
                let levels = memory.levels.of(job.id(), |up| {
                    let all = || levels(job);
                    let possible: SmallVec<_> = all().filter(|gpus| could(up, *gpus)).collect();
                    // A job that could be placed on none waits for nodes.
                    match possible.is_empty() {
                        true => all().collect(),
                        false => possible,
                    }
                });
                (levels.clone(), memory.model(job))
            }
        };
        Candidate {
            job: job.id(),
            each: unit.each(job),
            left: self.left(memory, job),
            model,
            levels,
            level: None,
        }
    }

    /// Remaining iterations.
    fn left(&self, memory: &mut Seen, job: &JobRef<'_>) -> f64 {
        let declared = job.truth().work_left();
        let losses = job.metric(LOSS);
        let Some(reports) = job
            .spec()
            .extras()
            .loss
            .filter(|_| losses.len() >= FEWEST_REPORTS)
        else {
            return declared;
        };
        let known = memory.ends.get(&job.id()).filter(|e| e.0 == losses.len());
        let end = match known {
            Some((_, end)) => *end,
            None => {
                let end = end_of(losses.iter().map(|l| l.1), self.tolerance);
                memory.ends.insert(job.id(), (losses.len(), end));
                end
            }
        };
        let done = job.work_done() / reports.epoch;
        match end {
            // A job that still runs has work left.
            Some(end) => ((end - done).max(1.0) * reports.epoch).min(declared),
            None => declared,
        }
    }
}

/// Returns the epoch after which the known loss curve is flat.
fn end_of(losses: impl Iterator<Item = f64>, tolerance: f64) -> Option<f64> {
    let losses = without_outliers(&losses.collect::<Vec<_>>());
    let points: Vec<(f64, f64)> = losses
        .into_iter()
        .enumerate()
        .map(|(i, loss)| ((i + 1) as f64, loss))
        .collect();
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    fit_loss(&points).map(|curve| flat_from(&curve, tolerance * most))
}

struct Candidate {
    job: JobId,
    /// Units of each of its GPUs.
    each: u32,
    left: f64,
    model: WorkerModel,
    levels: SmallVec<[u32; 4]>,
    /// Index of its level; `None` for no GPUs.
    level: Option<usize>,
}

impl Candidate {
    fn gpus(&self) -> u32 {
        self.level.map_or(0, |l| self.levels[l])
    }

    /// Returns the units of its first level.
    fn first(&self) -> Option<u32> {
        Some(self.levels.first()? * self.each)
    }

    /// Returns the additional units of the next level, and the time saved per unit.
    fn gain(&self) -> Option<(u32, f64)> {
        let next = *self.levels.get(self.level? + 1)?;
        let more = (next - self.gpus()) * self.each;
        let saved = self.left * (self.model.seconds(self.gpus()) - self.model.seconds(next));
        (more > 0 && saved > 0.0).then(|| (more, saved / f64::from(more)))
    }
}

/// Divides `free` units; the candidates are in job order.
fn divide(candidates: &mut [Candidate], mut free: u32) {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let time = |c: &Candidate| c.left * c.model.seconds(c.levels.first().copied().unwrap_or(1));
    sort::by(&mut order, |&a, &b| {
        time(&candidates[a]).total_cmp(&time(&candidates[b]))
    });
    // The largest gain of seconds first; ties go to the older job.
    let mut gains: BinaryHeap<(Seconds, Reverse<usize>)> = BinaryHeap::new();
    for i in order {
        let Some(first) = candidates[i].first() else {
            continue;
        };
        if first <= free {
            free -= first;
            candidates[i].level = Some(0);
            if let Some((_, a_gpu)) = candidates[i].gain() {
                gains.push((Seconds::new(a_gpu), Reverse(i)));
            }
        }
    }
    while let Some((_, Reverse(at))) = gains.pop() {
        let candidate = &mut candidates[at];
        let Some((more, _)) = candidate.gain().filter(|(more, _)| *more <= free) else {
            continue;
        };
        free -= more;
        candidate.level = candidate.level.map(|l| l + 1);
        if let Some((_, a_gpu)) = candidate.gain() {
            gains.push((Seconds::new(a_gpu), Reverse(at)));
        }
    }
}

impl Policy for Optimus {
    type Memory = Seen;

    fn initial(&self, _: u64) -> Seen {
        Seen::default()
    }

    fn on_event(&self, memory: &mut Seen, view: View<'_>, event: &Event) {
        let Some(job) = event.job().and_then(|id| view.job(id)) else {
            return;
        };
        if job.phase() == Phase::Ended {
            memory.speeds.remove(&job.id());
            memory.ends.remove(&job.id());
            memory.levels.remove(job.id());
            return;
        }
        if let Event::Progress { .. } = event {
            memory.note(&job);
        }
    }
}

impl SchedulingPolicy for Optimus {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        for job in view.running() {
            memory.note(&job);
        }
        memory.levels.renew(view);
        let unit = Unit::of(view.active());
        let candidate = |job: JobRef<'_>| {
            let could = |up: &Up, gpus| {
                up.could_place(out, view, &job, &Shape::sized(&job, GpuCount(gpus)))
            };
            self.candidate(memory, unit, &job, could)
        };
        let mut candidates: Vec<Candidate> = view.active().map(candidate).collect();
        if candidates.is_empty() {
            return Ok(Validity::UntilEvent);
        }
        divide(&mut candidates, unit.all(view.usable_gpus()));
        candidates.retain(|c| c.level.is_some());
        sort::by_key(&mut candidates, Candidate::gpus);
        for c in &candidates {
            let Some(job) = view.job(c.job) else { continue };
            // Smaller levels follow, in case this level does not fit.
            let shapes = c.levels[..=c.level.unwrap_or(0)].iter().rev();
            let mut request = Request::gang(&job);
            request.shapes = on_each(&job, shapes.copied());
            out.push(request);
        }
        out.stop_unlisted();
        // The remaining times shrink at different speeds.
        Ok(Validity::NextRound)
    }

    fn could_request(&self, _: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        Ok(match levels(job).next().is_none() {
            true => Shapes::from_elem(Shape::gang(job), 1),
            false => on_each(job, levels(job)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::LossCurve;

    fn candidate(job: u32, left: f64, c: [f64; 3], levels: &[u32]) -> Candidate {
        Candidate {
            job: JobId(job),
            each: 1,
            left,
            model: WorkerModel { c },
            levels: levels.into(),
            level: None,
        }
    }

    fn divided(mut candidates: Vec<Candidate>, free: u32) -> Vec<u32> {
        divide(&mut candidates, free);
        candidates.iter().map(Candidate::gpus).collect()
    }

    #[test]
    fn gpus_go_where_they_shorten_most() {
        let all = [1, 2, 3, 4, 5, 6];
        // The time is left / w: 1 -> 2 saves a half, 2 -> 3 a sixth, 3 -> 4 a twelfth.
        let two = || {
            vec![
                candidate(0, 100.0, [1.0, 0.0, 0.0], &all),
                candidate(1, 900.0, [1.0, 0.0, 0.0], &all),
            ]
        };
        assert_eq!(divided(two(), 1), [1, 0]);
        assert_eq!(divided(two(), 2), [1, 1]);
        assert_eq!(divided(two(), 5), [1, 4]);
        assert_eq!(divided(two(), 6), [2, 4], "50 a GPU beats 900 / 20");
    }

    #[test]
    fn what_does_not_shorten_is_not_given() {
        let flat = candidate(0, 100.0, [0.0, 1.0, 0.0], &[1, 2, 4]);
        let worse = candidate(1, 100.0, [1.0, 0.0, 1.0], &[1, 2]);
        // 9 / w + w is least on 3 GPUs.
        let saturated = candidate(2, 100.0, [9.0, 0.0, 1.0], &[1, 2, 3, 4, 5]);
        assert_eq!(divided(vec![flat, worse, saturated], 16), [1, 1, 3]);
    }

    #[test]
    fn levels_are_kept() {
        let levels = candidate(0, 100.0, [1.0, 0.0, 0.0], &[2, 8]);
        assert_eq!(divided(vec![levels], 7), [2]);
        let levels = candidate(0, 100.0, [1.0, 0.0, 0.0], &[2, 8]);
        assert_eq!(divided(vec![levels], 8), [8]);
        let levels = candidate(0, 100.0, [1.0, 0.0, 0.0], &[2, 8]);
        assert_eq!(divided(vec![levels], 1), [0]);
    }

    #[test]
    fn the_end_follows_from_the_loss() {
        let curve = LossCurve {
            b0: 0.3,
            b1: 0.8,
            b2: 0.4,
        };
        let losses = |n: u32| (1..=n).map(move |k| curve.at(f64::from(k)));
        let most = curve.at(1.0);
        let found = end_of(losses(10), 0.001).unwrap();
        assert!(
            (found - flat_from(&curve, 0.001 * most)).abs() < 0.5,
            "{found}"
        );
        assert_eq!(end_of([1.0, 1.0, 1.0, 1.0].into_iter(), 0.001), None);
    }
}
