use blox::core::{Extras, perf::TypeSpeeds};
use blox::sim::workload::generate::blox::BloxWorkload;
use blox::sim::workload::{Jobs, Limited, collect};
use std::sync::Arc;

/// Jobs of one GPU: half of them are ten times as fast on a V100 as on a K80, the others twice.
pub fn jobs() -> Result<Jobs, Box<dyn std::error::Error>> {
    let speeds = [10.0, 2.0].map(|gain| {
        let mut speeds = TypeSpeeds::default();
        speeds.set("k80", 1.0 / gain);
        speeds.set("v100", 1.0);
        Arc::new(speeds)
    });
    let mut all = collect(&mut Limited::new(BloxWorkload::new(2.0)?, 300))?;
    for (i, job) in all.iter_mut().enumerate() {
        let extras = Extras {
            speeds: Some(Arc::clone(&speeds[i % 2])),
            ..Extras::default()
        };
        *job = job.clone().with_extras(extras);
    }
    Ok(Jobs::new(all))
}
