//! Differences between Shockwave's simulator and Gavel's.

use super::dialect::{Dialect, Quantum};
use super::job::Job;
use super::market::Planner;
use blox_core::Stateless;
use blox_policies::scheduling::gavel::{
    Allocation, Chosen, Combination, Instance, PerType, SharePolicy,
};
use blox_policies::scheduling::shockwave::Market;
use blox_solve::SolveError;
use std::collections::BTreeMap;

/// Method by which a job changes its batch while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Never.
    #[default]
    Static,
    /// Accordion: the largest batch, except in critical epochs.
    Accordion,
    /// Gradient noise: the batch doubles along a pattern.
    Gns,
}

/// The program's knowledge of a job's batches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchJob {
    /// Method by which the job changes its batch.
    pub mode: Mode,
    /// Model, such as `ResNet-18`.
    pub family: String,
    /// Initial batch.
    pub batch: u32,
    /// Number of samples in the data set.
    pub samples: u32,
    /// Profile: the batch of each epoch, and the seconds of the epoch alone.
    pub epochs: Vec<(u32, f64)>,
    /// Batch from an epoch on, by ascending epochs.
    pub pattern: Vec<(u32, u32)>,
    /// Steps per second on each type, in order of the types' names, by batch.
    pub rates: BTreeMap<u32, Vec<f64>>,
}

/// A requested change of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Larger,
    Smaller,
}

#[derive(Clone, Debug)]
pub(super) struct Adapting {
    pub(super) job: BatchJob,
    pub(super) batch: u32,
    wish: Option<Wish>,
}

/// Shockwave's program.
///
/// A job that did not run in the previous round loses 20 s. Jobs change their batch. A job ends
/// after one and a half times its duration.
#[derive(Clone, Debug)]
pub struct AsShockwave {
    round: f64,
    jobs: Vec<Adapting>,
    planner: Option<Planner>,
}

/// Seconds that a job loses if it did not run in the previous round.
const OVERHEAD: f64 = 20.0;

impl AsShockwave {
    /// Creates a dialect for rounds of `round` seconds and these jobs, by number.
    pub fn new(round: f64, jobs: Vec<BatchJob>) -> Self {
        let adapting = |job: BatchJob| Adapting {
            batch: job.batch,
            job,
            wish: None,
        };
        AsShockwave {
            round,
            jobs: jobs.into_iter().map(adapting).collect(),
            planner: None,
        }
    }

    /// Plans rounds with Shockwave's own policy, instead of share policies.
    #[must_use]
    pub fn planned_by(mut self, market: Market) -> Self {
        self.planner = Some(Planner::new(market));
        self
    }
}

impl Adapting {
    pub(super) fn steps_per_epoch(&self, batch: u32) -> f64 {
        f64::from(self.job.samples.div_ceil(batch.max(1))).max(1.0)
    }

    /// Returns the seconds that the job takes alone by its profile.
    fn duration(&self) -> f64 {
        self.job.epochs.iter().map(|(_, seconds)| seconds).sum()
    }

    fn epoch(&self, steps: f64) -> u32 {
        (steps / self.steps_per_epoch(self.batch)).ceil() as u32
    }

    /// Returns the largest batch with which the model was measured.
    fn largest(&self) -> Option<u32> {
        Some(match self.job.family.as_str() {
            "ResNet-18" => 256,
            "ResNet-50" | "Transformer" => 128,
            "LM" => 80,
            "Recommendation" => 8192,
            _ => return None,
        })
    }

    fn smallest(&self) -> Option<u32> {
        Some(match self.job.family.as_str() {
            "ResNet-18" | "ResNet-50" | "Transformer" => 16,
            "LM" => 5,
            "Recommendation" => 512,
            _ => return None,
        })
    }

    /// Returns the pattern's batch in an epoch. The last of the `asked` epochs has the initial
    /// batch again.
    fn pattern_at(&self, epoch: u32, asked: u32) -> u32 {
        if epoch + 1 >= asked {
            return self.job.batch;
        }
        let tabulated = self.job.pattern.iter().filter(|(from, _)| *from < 999);
        let at = tabulated.take_while(|(from, _)| *from <= epoch).last();
        at.map_or(self.job.batch, |(_, batch)| *batch)
    }

    /// Returns the batch change that the job requests after a round.
    fn wishes(&self, steps: f64) -> Option<Wish> {
        let epoch = self.epoch(steps);
        let at_most = Some(self.batch) == self.largest();
        match self.job.mode {
            Mode::Static => None,
            Mode::Gns => {
                let asked = 760.max(epoch + 2);
                let more = |e| self.pattern_at(e, asked) > self.batch;
                ((more(epoch + 1) || more(epoch)) && !at_most).then_some(Wish::Larger)
            }
            Mode::Accordion => {
                let critical = match (self.job.family.as_str(), self.job.batch) {
                    ("LM", _) | ("Recommendation", 4096 | 8192) => epoch < 10,
                    ("Recommendation", 2048) => epoch < 40,
                    ("Recommendation", _) => epoch < 30,
                    ("ResNet-50", _) => epoch % 30 < 10,
                    ("ResNet-18", first) => {
                        let head = if first == 256 { 20 } else { 10 };
                        epoch < head || (150..160).contains(&epoch) || (250..260).contains(&epoch)
                    }
                    _ => return None,
                };
                let first = self.batch == self.job.batch;
                if first && !critical && !at_most {
                    Some(Wish::Larger)
                } else if !first && critical && Some(self.batch) != self.smallest() {
                    Some(Wish::Smaller)
                } else {
                    None
                }
            }
        }
    }

    /// Applies the requested batch change. The number of epochs does not change.
    fn change(&mut self, job: &mut Job) {
        let Some(wish) = self.wish.take() else { return };
        let largest = self.largest().filter(|_| self.job.family != "Transformer");
        if largest == Some(self.job.batch) {
            return;
        }
        let (old, new) = match (self.job.mode, wish) {
            (Mode::Gns, _) => (self.batch, self.batch * 2),
            (Mode::Accordion, Wish::Larger) => (self.batch, largest.unwrap_or(self.batch)),
            (Mode::Accordion, Wish::Smaller) => (self.batch, self.job.batch),
            (Mode::Static, _) => return,
        };
        let Some(rates) = self.job.rates.get(&new) else {
            return;
        };
        job.rates = PerType::from_slice(rates);
        self.batch = new;
        let scale = 1.0 / (f64::from(new) / f64::from(old));
        let (before, after) = (self.steps_per_epoch(old), self.steps_per_epoch(new));
        let epochs = (job.total / before).ceil();
        let total = (job.total * scale).ceil();
        job.total = match (total / after).ceil() == epochs {
            true => total,
            false => after * epochs,
        };
        job.done = (job.done / before).ceil() * after;
    }
}

impl Dialect for AsShockwave {
    fn ends_when_empty(&self) -> bool {
        true
    }

    fn charge(&self, quantum: Quantum) -> Quantum {
        let mut charged = quantum;
        let whole = self.round - 5.0 < quantum.seconds && quantum.seconds != 0.0;
        if !quantum.first_round && !quantum.ran_before && whole {
            let part = (quantum.seconds - OVERHEAD) / quantum.seconds;
            charged.seconds -= OVERHEAD;
            charged.steps *= part;
        }
        charged.steps = charged.steps.trunc();
        charged
    }

    fn fails(&self, steps: f64, seconds: f64) -> bool {
        steps <= 0.0 && seconds <= 0.0
    }

    fn counts_dropped(&self) -> bool {
        true
    }

    fn is_overdue(&self, job: &Job) -> bool {
        let known = self.jobs.get(job.id.index());
        // Durations are cut to whole seconds, and so is the limit.
        known.is_some_and(|a| job.ran > (1.5 * a.duration().trunc()).trunc())
    }

    fn admit(&mut self, job: &Job, clock: f64) {
        if let Some(planner) = &mut self.planner {
            let known = self.jobs.get(job.id.index());
            let profile = known.map_or(&[][..], |a| &a.job.epochs);
            planner.admit(job, profile, clock);
        }
    }

    fn measured(&mut self, job: &Job, rounds: u64, steps: f64, seconds: f64) {
        if let Some(planner) = &mut self.planner {
            let batch = self.jobs.get(job.id.index()).map_or(0, |a| a.batch);
            let rate = if seconds > 0.0 { steps / seconds } else { 0.0 };
            planner.measured(job, rounds, batch, rate);
        }
    }

    fn counted(&mut self, job: &mut Job) {
        if let Some(adapting) = self.jobs.get_mut(job.id.index()) {
            adapting.change(job);
        }
    }

    fn round_ended(&mut self, jobs: &[Job], clock: f64) {
        for job in jobs {
            if let Some(adapting) = self.jobs.get_mut(job.id.index()) {
                adapting.wish = adapting.wishes(job.done).or(adapting.wish);
            }
        }
        if let Some(planner) = &mut self.planner {
            planner.round_ended(clock);
        }
    }

    fn choose(&mut self, jobs: &[Job], free: &[u32]) -> Option<Result<Vec<Chosen>, String>> {
        let planner = self.planner.as_mut()?;
        Some(planner.choose(&self.jobs, jobs, free))
    }
}

/// `gandiva_fair`: every job gets the same fraction of the cluster's time, regardless of its size.
#[derive(Clone, Copy, Debug, Default)]
pub struct EqualTime;

impl Stateless for EqualTime {}

impl SharePolicy for EqualTime {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        let m = instance.jobs.len() as f64;
        let mut x: PerType = instance
            .types
            .iter()
            .map(|t| f64::from(t.gpus) / m)
            .collect();
        let sum = x.iter().sum::<f64>().max(1.0);
        x.iter_mut().for_each(|x| *x /= sum);
        let rows = instance.jobs.iter();
        Ok(Allocation::of(
            rows.map(|j| (Combination::single(j.id), x.clone()))
                .collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{GpuCount, JobId, JobSpec, Seconds, Time};

    #[test]
    fn a_limit_is_of_whole_seconds() {
        let job = BatchJob {
            epochs: vec![(1, 50.5), (1, 50.4)],
            ..BatchJob::default()
        };
        let dialect = AsShockwave::new(100.0, vec![job]);
        let after = |ran| {
            let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0));
            let mut job = Job::of(JobId(0), &spec, &[]);
            job.ran = ran;
            job
        };
        // The limit is one and a half times 100 s instead of 100.9 s.
        assert!(dialect.is_overdue(&after(150.5)));
        assert!(!dialect.is_overdue(&after(150.0)));
    }
}
