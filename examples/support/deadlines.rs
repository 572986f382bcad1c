use blox::core::{Deadline, Extras, GpuCount};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::workload::{Jobs, Limited, collect};

/// Elastic jobs with deadlines, every other one of them tight.
pub fn jobs() -> Result<Jobs, Box<dyn std::error::Error>> {
    let mut jobs = collect(&mut Limited::new(BloxWorkload::new(2.5)?, 200))?;
    for (i, job) in jobs.iter_mut().enumerate() {
        let within = job.duration() * [1.2, 4.0][i % 2];
        job.extras = Some(Box::new(Extras {
            levels: [1, 2, 4].map(GpuCount).to_vec(),
            rates: vec![1.0, 1.8, 3.0],
            deadlines: vec![Deadline {
                at: job.submit + within,
                value: 1.0,
            }],
            ..Extras::default()
        }));
    }
    Ok(Jobs::new(jobs))
}
