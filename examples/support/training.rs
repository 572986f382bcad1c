//! Jobs that train.

use blox::core::{Adapts, Extras, GpuCount, JobSpec, Seconds, Time};
use blox::sim::execution::training::built_in;
use blox::sim::workload::Jobs;

/// Thirty jobs of three applications, one every two minutes.
pub fn jobs() -> Jobs {
    let applications = built_in();
    let kinds = [
        ("cifar10", 4, 512),
        ("bert", 2, 24),
        ("deepspeech2", 4, 160),
    ];
    let job = |i: u32| {
        let (model, gpus, batch) = kinds[i as usize % kinds.len()];
        let submit = Time::new(120.0 * f64::from(i));
        let mut job = JobSpec::new(submit, GpuCount(gpus), Seconds::new(1.0))
            .named(format!("{model}-{i}"))
            .with_extras(Extras {
                model: Some(model.into()),
                batch_size: Some(batch),
                ..Extras::default()
            });
        applications.describe(&mut job, Adapts::All);
        job
    };
    Jobs::new((0..30).map(job).collect())
}
