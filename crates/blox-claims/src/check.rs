//! Runs of claims, and verdicts about them.

use crate::ClaimsError;
use crate::contestant::Contestant;
use crate::metric::{Figures, Metric};
use crate::observe::Observer;
use crate::paper::{Claim, Paper, Verdict};
use crate::world::World;
use blox_experiment::each;
use blox_registry::Registry;
use blox_results::statistics::Estimate;
use blox_sim::workload::Jobs;
use blox_sim::{Ended, Watch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The runs of some claims. Claims share runs of the same world, scheduler and seed.
#[allow(
    missing_debug_implementations,
    reason = "it has a registry of closures"
)]
pub struct Plan<'r> {
    registry: &'r Registry,
    runs: Vec<Run>,
    claims: Vec<Planned>,
}

/// A run of a scheduler in a world.
struct Run {
    world: &'static World,
    contestant: Contestant,
    seed: u64,
    /// Label in messages.
    label: String,
}

/// A claim, with its runs by world and seed.
struct Planned {
    paper: &'static Paper,
    claim: &'static Claim,
    /// For each world and seed, the run of the scheduler and the runs of the baselines.
    runs: Vec<Vec<(usize, Vec<usize>)>>,
    /// Reason for which this build does not have one of the schedulers.
    missing: Option<String>,
}

/// Result of a run, which a file can keep for another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult(Result<Done, String>);

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Done {
    figures: Figures,
    /// True if the scheduler read true durations of jobs.
    knew_truth: bool,
    seconds: f64,
}

/// A claim with its result.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The paper.
    pub paper: &'static Paper,
    /// The claim.
    pub claim: &'static Claim,
    /// Result for each world.
    pub here: Vec<Interval>,
    /// Mean metric of the scheduler, and of the best baseline if there is one, in the last world.
    pub means: (f64, Option<f64>),
    /// The schedulers of the claim that read true durations of jobs, in order.
    pub knowing: Vec<String>,
    /// Verdict; `None` if a run was interrupted or a scheduler is not in the registry.
    pub verdict: Option<Verdict>,
    /// Explanation of the verdict: a failed run, unfinished jobs, or a missing scheduler.
    pub note: Option<String>,
    /// Seconds of all runs of the claim together.
    pub seconds: f64,
}

/// A median with its interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Median over the seeds.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Checked {
    /// Returns whether the verdict differs from the expected one.
    pub fn differs(&self) -> bool {
        self.verdict
            .is_some_and(|verdict| verdict != self.claim.expect)
    }

    /// Returns the name of the claim, `SCHEDULER/CLAIM`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.paper.name, self.claim.name)
    }
}

impl<'r> Plan<'r> {
    /// Plans the runs of some claims.
    pub fn new(registry: &'r Registry, claims: Vec<(&'static Paper, &'static Claim)>) -> Self {
        let mut runs = Vec::new();
        let mut known = BTreeMap::new();
        let mut planned = Vec::new();
        for (paper, claim) in claims {
            let ours = claim.ours(paper);
            let all = || std::iter::once(&ours).chain(&claim.against);
            let missing = all().find_map(|c| c.pipeline(registry, 1).err());
            let missing = missing.map(|e| e.to_string());
            let mut run = |world: &str, contestant: &Contestant, seed: u64| {
                let key = (
                    paper.name.clone(),
                    world.to_owned(),
                    contestant.clone(),
                    seed,
                );
                *known.entry(key).or_insert_with(|| {
                    runs.push(Run {
                        world: &paper.worlds[world],
                        contestant: contestant.clone(),
                        seed,
                        label: format!("{}, {world}, {contestant}, seed {seed}", paper.name),
                    });
                    runs.len() - 1
                })
            };
            let mut of_world = |world: &&str| -> Vec<(usize, Vec<usize>)> {
                let seeds = 1..=paper.worlds[*world].seeds;
                let of_seed = |seed| {
                    let ours = run(world, &ours, seed);
                    let others = claim.against.iter().map(|c| run(world, c, seed));
                    (ours, others.collect())
                };
                seeds.map(of_seed).collect()
            };
            let worlds = claim.worlds(paper);
            planned.push(Planned {
                paper,
                claim,
                runs: match missing {
                    None => worlds.iter().map(&mut of_world).collect(),
                    Some(_) => Vec::new(),
                },
                missing,
            });
        }
        Plan {
            registry,
            runs,
            claims: planned,
        }
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns the claims, each with its number of runs. A run of several claims counts for each.
    pub fn claims(&self) -> impl Iterator<Item = (&'static Paper, &'static Claim, usize)> {
        let runs = |planned: &Planned| {
            let seeds = planned.runs.iter().flatten();
            seeds.map(|(_, others)| 1 + others.len()).sum()
        };
        self.claims
            .iter()
            .map(move |planned| (planned.paper, planned.claim, runs(planned)))
    }

    /// Returns the labels of the runs, which are unique: paper, world, scheduler and seed.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().map(|run| run.label.as_str())
    }

    /// Runs all simulations, `threads` at a time, and returns the claims in order. By default, each
    /// core has a thread. `watches` has one entry for each run, which can stop it. `ended` counts the
    /// finished runs.
    ///
    /// A failed run does not end the others: its claims do not hold.
    pub fn check(
        &self,
        watches: &[Arc<Watch>],
        ended: &AtomicU64,
        threads: Option<NonZeroUsize>,
    ) -> Vec<Checked> {
        let watch = |i| watches.get(i).cloned().unwrap_or_default();
        let watches: Vec<Arc<Watch>> = (0..self.runs.len()).map(watch).collect();
        let all: Vec<usize> = (0..self.runs.len()).collect();
        let Ok(results) = self.run(&all, &watches, threads, |_, _| {
            ended.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(())
        });
        self.judge(&results)
    }

    /// Runs some of the simulations as [`Plan::check`] does. `watches` has one entry for each of them.
    /// Passes each result to `keep`, and returns the results in order of `todo`; `None` for a run that
    /// its watch stopped.
    ///
    /// # Errors
    /// The first error of `keep`.
    #[allow(clippy::disallowed_methods, reason = "times runs, decides nothing")]
    pub fn run<E: Send>(
        &self,
        todo: &[usize],
        watches: &[Arc<Watch>],
        threads: Option<NonZeroUsize>,
        keep: impl Fn(usize, Option<&RunResult>) -> Result<(), E> + Sync,
    ) -> Result<Vec<Option<RunResult>>, E> {
        let one = |i: usize, watch: &Arc<Watch>| {
            let Some((number, run)) = todo.get(i).and_then(|i| Some((*i, self.runs.get(*i)?)))
            else {
                return Ok(None);
            };
            let start = Instant::now();
            let ran = run.figures(self.registry, watch);
            let seconds = start.elapsed().as_secs_f64();
            let failed = |e: Failed| format!("{}: {e}", run.label);
            let done = |(figures, knew_truth)| Done {
                figures,
                knew_truth,
                seconds,
            };
            let ran = ran.map(|ran| ran.map(done)).map_err(failed);
            let result = ran.transpose().map(RunResult);
            keep(number, result.as_ref())?;
            Ok(result)
        };
        // The runs start in order, so an interruption leaves whole claims.
        let results = each(watches, threads, one)?;
        Ok(results.into_iter().map(Option::flatten).collect())
    }

    /// Returns the claims in order, from the results of all runs; `None` for a stopped run.
    pub fn judge(&self, results: &[Option<RunResult>]) -> Vec<Checked> {
        let claims = self.claims.iter();
        claims.map(|planned| planned.checked(results)).collect()
    }
}

/// Error of a run.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Setup(#[from] ClaimsError),
    #[error(transparent)]
    Run(#[from] blox_sim::SimError),
}

impl Run {
    /// Runs the simulation. Returns `None` if the watch stopped it.
    /// The second value is true if the scheduler read true durations of jobs.
    fn figures(
        &self,
        registry: &Registry,
        watch: &Arc<Watch>,
    ) -> Result<Option<(Figures, bool)>, Failed> {
        let drawn = self.world.draw(self.seed, registry)?;
        let pipeline = self.contestant.pipeline(registry, self.seed)?;
        let cluster = drawn.cluster.clone();
        let simulation = self
            .world
            .simulation(cluster, &self.contestant, registry, self.seed)?;
        let report = simulation
            .collector(Observer::default())
            .watched_by(Arc::clone(watch))
            .run(pipeline, &mut Jobs::new(drawn.jobs.clone()))?;
        let finished = report.ended != Ended::Interrupted;
        let figures = || Figures::of(&report, &drawn.cluster, &drawn.jobs);
        Ok(finished.then(|| (figures(), report.knew_truth)))
    }
}

impl Planned {
    fn checked(&self, results: &[Option<RunResult>]) -> Checked {
        let mut checked = Checked {
            paper: self.paper,
            claim: self.claim,
            here: Vec::new(),
            means: (f64::NAN, None),
            knowing: Vec::new(),
            verdict: None,
            note: self.missing.clone(),
            seconds: 0.0,
        };
        if checked.note.is_some() {
            return checked;
        }
        let mut worlds: Vec<Vec<f64>> = Vec::new();
        let mut unfinished = 0;
        for seeds in &self.runs {
            let mut values = Vec::new();
            let mut sums = (0.0, None);
            let count = seeds.len() as f64;
            for (ours, others) in seeds {
                let mut figures = Vec::new();
                let own = self.claim.ours(self.paper);
                let named = std::iter::once(&own).chain(&self.claim.against);
                for (run, contestant) in std::iter::once(ours).chain(others).zip(named) {
                    match results.get(*run) {
                        Some(Some(RunResult(Ok(done)))) => {
                            checked.seconds += done.seconds;
                            figures.push(&done.figures);
                            let name = contestant.to_string();
                            if done.knew_truth && !checked.knowing.contains(&name) {
                                checked.knowing.push(name);
                            }
                        }
                        Some(Some(RunResult(Err(text)))) => {
                            checked.verdict = Some(Verdict::DoesNotHold);
                            checked.note = Some(text.clone());
                            return checked;
                        }
                        _ => return checked,
                    }
                }
                let [ours, others @ ..] = &figures[..] else {
                    continue;
                };
                unfinished += ours.unfinished;
                let own = ours.get(self.claim.metric);
                let other = best(self.claim.metric, others);
                sums.0 += own / count;
                if let Some(other) = other {
                    *sums.1.get_or_insert(0.0) += other / count;
                }
                values.push(factor(self.claim.metric, own, other));
            }
            checked.means = sums;
            worlds.push(values);
        }
        checked.here = worlds.iter().map(|values| interval(values)).collect();
        checked.verdict = Some(verdict(self.claim, &worlds, &checked.here));
        if unfinished > 0 {
            checked.verdict = Some(Verdict::DoesNotHold);
            checked.note = Some(format!("{unfinished} measured jobs did not end"));
        }
        checked
    }
}

/// Returns the metric of the best run; `None` without runs.
fn best(metric: Metric, runs: &[&Figures]) -> Option<f64> {
    let values = runs.iter().map(|figures| figures.get(metric));
    match metric.rises() {
        true => values.reduce(f64::max),
        false => values.reduce(f64::min),
    }
}

/// Returns the factor by which a value is better than another one; without another, the value.
fn factor(metric: Metric, own: f64, other: Option<f64>) -> f64 {
    match other {
        None => own,
        // Both may be 0: for instance, neither met a deadline.
        Some(other) if other == own => 1.0,
        Some(other) if metric.rises() => own / other,
        Some(other) => other / own,
    }
}

/// Returns the median with its interval; NaN if a value is. Without enough seeds, any value is in
/// the interval.
fn interval(values: &[f64]) -> Interval {
    let sound = values.iter().all(|v| !v.is_nan());
    let estimate = Estimate::of(values).filter(|_| sound);
    let median = estimate.map_or(f64::NAN, |e| e.median);
    let [low, high] = estimate
        .and_then(|e| e.interval)
        .unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
    Interval { median, low, high }
}

/// Returns the verdict about a claim from its values by world and seed.
fn verdict(claim: &Claim, worlds: &[Vec<f64>], here: &[Interval]) -> Verdict {
    let from = claim.holds_from;
    let judged = |holds: bool, weaker: bool| match (holds, weaker) {
        (true, _) => Verdict::Holds,
        (false, true) => Verdict::Weaker,
        _ => Verdict::DoesNotHold,
    };
    if let Some((least, most)) = claim.between {
        let within = |i: &Interval| (least..=most).contains(&i.median);
        return judged(here.iter().all(within), false);
    }
    if claim.every_seed {
        let all = worlds.iter().flatten().all(|factor| *factor >= from);
        return judged(all, false);
    }
    match here {
        [only] if from <= 1.0 => judged(only.median >= from, false),
        // Infinite factors have no interval.
        [only] => judged(
            only.median >= from && (only.low > 1.0 || only.median.is_infinite()),
            // A scheduler that is equal for most seeds and better for others is not worse.
            only.median > 1.0 || only.low >= 1.0 && only.high > 1.0,
        ),
        trend => {
            let rises = trend.windows(2).all(|pair| pair[1].median > pair[0].median);
            let (first, last) = (trend.first(), trend.last());
            let grows = last.zip(first).is_some_and(|(l, f)| l.median > f.median);
            let large = last.is_some_and(|last| last.median >= from);
            judged(rises && large, grows)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::papers;

    fn claim() -> Claim {
        let claim = papers()[0].claims[0].clone();
        Claim {
            holds_from: 1.5,
            every_seed: false,
            between: None,
            ..claim
        }
    }

    fn judge(claim: &Claim, worlds: &[&[f64]]) -> Verdict {
        let worlds: Vec<Vec<f64>> = worlds.iter().map(|w| w.to_vec()).collect();
        let here: Vec<Interval> = worlds.iter().map(|w| interval(w)).collect();
        verdict(claim, &worlds, &here)
    }

    #[test]
    fn factor_is_a_median_with_interval() {
        let found = interval(&[2.0, 8.0, 1.0, 3.0, f64::INFINITY]);
        assert_eq!((found.median, found.low), (3.0, 1.0));
        assert_eq!(found.high, f64::INFINITY);
        // Few seeds say nothing about the interval.
        let few = interval(&[1.0, 3.0]);
        assert_eq!((few.median, few.low), (2.0, f64::NEG_INFINITY));
        assert!(interval(&[f64::NAN, 2.0]).median.is_nan());
    }

    #[test]
    fn verdict_needs_size_and_certainty() {
        let claim = claim();
        assert_eq!(
            judge(&claim, &[&[1.6, 1.7, 1.65, 1.4, 1.9]]),
            Verdict::Holds
        );
        assert_eq!(
            judge(&claim, &[&[1.2, 1.25, 1.3, 1.2, 1.3]]),
            Verdict::Weaker
        );
        assert_eq!(
            judge(&claim, &[&[0.5, 9.0, 1.2, 2.0, 3.0]]),
            Verdict::Weaker
        );
        assert_eq!(judge(&claim, &[&[0.9, 0.95, 0.9]]), Verdict::DoesNotHold);
        assert_eq!(judge(&claim, &[&[f64::NAN, 2.0]]), Verdict::DoesNotHold);
        let (mostly_equal, equal) = ([1.0, 1.0, 1.0, 1.0, 1.3], [1.0; 5]);
        assert_eq!(judge(&claim, &[&mostly_equal]), Verdict::Weaker);
        assert_eq!(judge(&claim, &[&equal]), Verdict::DoesNotHold);
        let not_worse = Claim {
            holds_from: 0.95,
            ..claim.clone()
        };
        assert_eq!(judge(&not_worse, &[&[0.96, 0.97]]), Verdict::Holds);
        assert_eq!(judge(&not_worse, &[&[0.9, 0.91]]), Verdict::DoesNotHold);
        let every = Claim {
            holds_from: 1.0,
            every_seed: true,
            ..claim.clone()
        };
        assert_eq!(judge(&every, &[&[1.0, 1.2]]), Verdict::Holds);
        assert_eq!(judge(&every, &[&[0.99, 2.2]]), Verdict::DoesNotHold);
        let value = Claim {
            between: Some((0.0, 2.0)),
            ..claim
        };
        assert_eq!(judge(&value, &[&[1.0, 2.0]]), Verdict::Holds);
        assert_eq!(judge(&value, &[&[3.0, 2.0]]), Verdict::DoesNotHold);
    }

    #[test]
    fn trend_rises_from_world_to_world() {
        let claim = claim();
        assert_eq!(
            judge(&claim, &[&[1.0, 1.0], &[1.2, 1.3], &[1.6, 1.7]]),
            Verdict::Holds
        );
        assert_eq!(
            judge(&claim, &[&[1.0, 1.0], &[1.3, 1.3], &[1.2, 1.2]]),
            Verdict::Weaker
        );
        assert_eq!(
            judge(&claim, &[&[1.3, 1.3], &[1.2, 1.2]]),
            Verdict::DoesNotHold
        );
    }
}
