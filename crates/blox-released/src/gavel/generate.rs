//! Jobs of Gavel's generator.

use blox_core::{Extras, GpuCount, JobSpec, Name, Seconds, Time, Work};
use blox_cpython::Random;
use blox_sim::workload::{Notices, Workload, WorkloadError};
use blox_traces::formats::gavel::Oracle;
use blox_traces::generate::pow10;
use std::sync::Arc;

/// Endless workload of Gavel's simulator without a trace.
///
/// Arrivals are Poisson, durations are half a minute to a week on a V100, and kinds are random.
pub struct GavelWorkload {
    oracle: Arc<Oracle>,
    jobs: Random,
    arrivals: Random,
    /// Mean seconds between two arrivals.
    mean: f64,
    multi_gpu: bool,
    next: f64,
    notices: Notices,
}

/// Kinds in the order of the program's table, with their batches, and whether they run on several
/// GPUs.
const KINDS: [(&str, &[u32], bool); 7] = [
    ("ResNet-18", &[16, 32, 64, 128, 256], true),
    ("ResNet-50", &[16, 32, 64, 128], true),
    ("Transformer", &[16, 32, 64, 128, 256], true),
    ("LM", &[5, 10, 20, 40, 80], true),
    ("Recommendation", &[512, 1024, 2048, 4096, 8192], false),
    ("A3C", &[], false),
    ("CycleGAN", &[], false),
];

impl GavelWorkload {
    /// Creates the workload with a mean time between arrivals and a seed. If `multi_gpu` is set,
    /// jobs may request several GPUs.
    pub fn new(oracle: Arc<Oracle>, mean: Seconds, seed: u64, multi_gpu: bool) -> Self {
        GavelWorkload {
            oracle,
            jobs: Random::new(seed.wrapping_add(2)),
            arrivals: Random::new(seed.wrapping_add(3)),
            mean: mean.secs(),
            multi_gpu,
            next: 0.0,
            notices: Notices::default(),
        }
    }

    fn draw(&mut self) -> Result<JobSpec, WorkloadError> {
        let r = self.jobs.random();
        let drawn = match r {
            r if (0.7..0.8).contains(&r) => 2,
            r if (0.8..0.95).contains(&r) => 4,
            r if r >= 0.95 => 8,
            _ => 1,
        };
        let gpus = if self.multi_gpu { drawn } else { 1 };
        let long = self.jobs.random() >= 0.8;
        let exponent = match long {
            true => self.jobs.uniform(3.0, 4.0),
            false => self.jobs.uniform(1.5, 3.0),
        };
        let seconds = 60.0 * pow10(exponent);
        let table: Vec<(Name, bool)> = KINDS
            .iter()
            .flat_map(|(model, batches, many)| {
                let named = |b: &u32| (Name::from(format!("{model} (batch size {b})")), *many);
                let plain = batches.is_empty().then(|| (Name::from(*model), *many));
                batches.iter().map(named).chain(plain).collect::<Vec<_>>()
            })
            .collect();
        let model = loop {
            let (model, many) = &table[self.jobs.choice(table.len())];
            if gpus == 1 || *many {
                break model.clone();
            }
        };
        let unknown = WorkloadError::NoSpeed {
            model: model.to_string(),
            gpus,
        };
        let speeds = self.oracle.speeds(&model, gpus);
        let Some(rate) = speeds.and_then(|s| s.alone("v100")) else {
            return Err(unknown);
        };
        let mut job = JobSpec {
            work: Work {
                iterations: seconds * rate,
                rate: 1.0,
            },
            ..JobSpec::new(Time::new(self.next), GpuCount(gpus), Seconds::ZERO)
        }
        .with_extras(Extras {
            model: Some(model),
            ..Extras::default()
        });
        match self.oracle.profile(&mut job) {
            true => Ok(job),
            false => Err(unknown),
        }
    }
}

impl Workload for GavelWorkload {
    fn next_job(&mut self) -> Result<Option<JobSpec>, WorkloadError> {
        let job = self.draw()?;
        let u = self.arrivals.random();
        // Divides by the rate as the original does, for the same last bit.
        self.next += -libm::log(1.0 - u) / (1.0 / self.mean);
        Ok(Some(job))
    }

    fn notices(&self) -> &Notices {
        &self.notices
    }

    fn describe(&self) -> String {
        format!("Gavel's jobs, one every {} s on average", self.mean)
    }
}
