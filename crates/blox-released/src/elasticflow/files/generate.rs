//! Jobs of ElasticFlow's trace generator.

use super::Row;
use blox_core::{GpuCount, JobSpec};
use blox_cpython::Random;
use blox_sim::workload::WorkloadError;
use blox_traces::generate::pow10;
use blox_traces::scaling::ScalingTable;

/// The parameters of `generate_trace.py` (pkusys/ElasticFlow, commit 04a0109).
///
/// All values except deadlines and service classes come from seeded generators. Deadlines and
/// service classes come from Python's global generator, which the original does not seed. Two of
/// its traces therefore differ in them, and the published traces cannot be regenerated. Here that
/// generator has a seed, too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Number of jobs.
    pub jobs: usize,
    /// Mean time between submissions, in seconds, above 0.
    pub mean_gap_s: f64,
    /// Seed of models, submissions, durations and GPU counts.
    pub seed: u64,
    /// Range of deadlines, in durations after submission.
    pub deadlines: (f64, f64),
    /// Fraction of best-effort jobs, from 0 to 1.
    pub best_effort: f64,
    /// Seed of deadlines and service classes.
    pub unseeded: u64,
}

/// The generator's own values: deadlines of 0.5 to 1.5 durations, no best-effort jobs.
impl Default for Recipe {
    fn default() -> Self {
        Recipe {
            jobs: 100,
            mean_gap_s: 1500.0,
            seed: 0,
            deadlines: (0.5, 1.5),
            best_effort: 0.0,
            unseeded: 0,
        }
    }
}

/// Models and batch sizes, in the generator's order.
const TEMPLATES: [(&str, u32); 14] = [
    ("resnet50", 64),
    ("resnet50", 128),
    ("resnet50", 256),
    ("vgg16", 64),
    ("vgg16", 128),
    ("vgg16", 256),
    ("inception3", 64),
    ("inception3", 128),
    ("gpt2", 128),
    ("gpt2", 256),
    ("bert", 128),
    ("bert", 64),
    ("deepspeech2", 64),
    ("deepspeech2", 32),
];

impl Recipe {
    /// Generates the jobs in order of submission, with throughputs from `table`. Names are numbers
    /// from 0.
    ///
    /// The original uses the table of the A100.
    ///
    /// # Errors
    /// Fails if the table lacks a drawn model, or lacks its throughput on the drawn number of GPUs.
    pub fn generate(&self, table: &ScalingTable) -> Result<Vec<JobSpec>, WorkloadError> {
        let [mut models, mut gaps, mut durations, mut scales] =
            [0, 1, 2, 3].map(|stream| Random::new(self.seed.wrapping_add(stream)));
        let mut unseeded = Random::new(self.unseeded);
        let mut arrival = 0.0;
        let mut jobs = Vec::with_capacity(self.jobs);
        for number in 0..self.jobs {
            let gpus = gpus_at(scales.random());
            let (model, batch_size) = TEMPLATES[models.randbelow(14) as usize];
            let long = durations.random() >= 0.8;
            let (low, high) = if long { (2.5, 4.0) } else { (1.0, 2.5) };
            let duration = 60.0 * pow10(durations.uniform(low, high));
            let cells = table.row(model, batch_size).unwrap_or_default();
            let cell = cells.iter().find(|c| c.gpus == GpuCount(gpus));
            let Some(rate) = cell.and_then(|c| c.rate).filter(|r| *r > 0.0) else {
                return Err(WorkloadError::Unprofiled {
                    job: number,
                    model: model.to_owned(),
                    batch_size,
                    gpus,
                });
            };
            if number > 0 {
                arrival += -libm::log(1.0 - gaps.random()) * self.mean_gap_s;
            }
            let (least, most) = self.deadlines;
            let due = arrival + (unseeded.uniform(least, most) * duration).trunc();
            let best_effort = unseeded.random() < self.best_effort;
            // The original prints whole numbers.
            let row = Row {
                submit: arrival.trunc(),
                gpus,
                duration: duration.trunc(),
                iterations: (duration * rate).trunc(),
                due: due.trunc(),
                best_effort,
                model: model.into(),
                batch_size,
            };
            jobs.push(row.job().named(number.to_string()));
        }
        Ok(jobs)
    }
}

/// Returns a job's GPU count, with the distribution of Microsoft's ITP clusters.
fn gpus_at(u: f64) -> u32 {
    match u {
        u if u < 0.83 => 1,
        u if u <= 0.86 => 2,
        u if u <= 0.89 => 4,
        u if u <= 0.99 => 8,
        _ => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_follow_the_drawn_number() {
        let drawn = [0.0, 0.8299, 0.83, 0.86, 0.8601, 0.89, 0.99, 0.9901];
        assert_eq!(drawn.map(gpus_at), [1, 1, 2, 2, 4, 4, 8, 16]);
    }

    #[test]
    fn missing_table_entry_is_an_error() {
        let error = Recipe::default().generate(&ScalingTable::default());
        assert_eq!(
            error.unwrap_err().to_string(),
            "job 0 is deepspeech2 with batch size 32 on 1 GPU, found no throughput of it, expected one above 0"
        );
    }
}
