//! Jobs that change their batch while they run.

use super::job::Job;
use blox_core::SortedMap;
use blox_policies::scheduling::gavel::PerType;

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
    pub rates: SortedMap<u32, Vec<f64>>,
}

/// Models with the smallest and the largest batch with which they were measured.
const MEASURED: [(&str, u32, u32); 5] = [
    ("ResNet-18", 16, 256),
    ("ResNet-50", 16, 128),
    ("Transformer", 16, 128),
    ("LM", 5, 80),
    ("Recommendation", 512, 8192),
];

/// A requested change of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Larger,
    Smaller,
}

/// A job with its present batch.
#[derive(Clone, Debug)]
pub(super) struct Adapting {
    pub(super) job: BatchJob,
    pub(super) batch: u32,
    pub(super) wish: Option<Wish>,
}

impl Adapting {
    pub(super) fn steps_per_epoch(&self, batch: u32) -> f64 {
        f64::from(self.job.samples.div_ceil(batch.max(1))).max(1.0)
    }

    /// Returns the seconds that the job takes alone by its profile.
    pub(super) fn duration(&self) -> f64 {
        self.job.epochs.iter().map(|(_, seconds)| seconds).sum()
    }

    fn epoch(&self, steps: f64) -> u32 {
        (steps / self.steps_per_epoch(self.batch)).ceil() as u32
    }

    fn measured(&self) -> Option<&'static (&'static str, u32, u32)> {
        MEASURED
            .iter()
            .find(|(family, ..)| *family == self.job.family)
    }

    /// Returns the largest batch with which the model was measured.
    fn largest(&self) -> Option<u32> {
        self.measured().map(|(_, _, largest)| *largest)
    }

    fn smallest(&self) -> Option<u32> {
        self.measured().map(|(_, smallest, _)| *smallest)
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
    pub(super) fn wishes(&self, steps: f64) -> Option<Wish> {
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
    pub(super) fn change(&mut self, job: &mut Job) {
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
