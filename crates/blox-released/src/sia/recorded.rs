use blox_core::{Name, SortedMap, ThroughputParams};
use blox_perf::applications::{Applications, Measured, StepTimes};
use blox_perf::goodput::StepTime;
use blox_sim::execution::training::{Fitter, LeastSquares};
use blox_sim::workload::WorkloadError;
use blox_traces::source::Source;
use blox_traces::table::Table;
use std::path::Path;

/// Recorded fits, keyed by the observed step times. An observation without a recorded fit is fitted
/// here.
#[derive(Clone, Debug, Default)]
pub struct RecordedFits {
    by_profile: SortedMap<Vec<u64>, ThroughputParams>,
}

impl RecordedFits {
    /// Adds a recorded fit.
    pub fn insert(&mut self, observed: &[StepTime], params: ThroughputParams) {
        self.by_profile.insert(key(observed), params);
    }

    /// Returns true if a recorded fit has these parameters.
    pub fn has(&self, params: &ThroughputParams) -> bool {
        self.by_profile.values().any(|p| p == params)
    }

    /// Returns true if there are no recorded fits.
    pub fn is_empty(&self) -> bool {
        self.by_profile.is_empty()
    }
}

impl Fitter for RecordedFits {
    fn fit(&self, observed: &[StepTime]) -> Option<ThroughputParams> {
        let recorded = self.by_profile.get(&key(observed)).copied();
        recorded.or_else(|| LeastSquares.fit(observed))
    }
}

/// Returns the observed times as bits. They come from the same tables by the same operations, so
/// only the last bits may differ with the form of an interpolation.
fn key(observed: &[StepTime]) -> Vec<u64> {
    let rounded = |x: f64| (x.to_bits() + 512) >> 10;
    let parts = observed.iter().flat_map(|o| {
        let counts = [o.nodes, o.gpus, o.per_gpu].map(u64::from);
        counts
            .into_iter()
            .chain([rounded(o.compute), rounded(o.step)])
    });
    parts.collect()
}

/// Adds single measured points to the tables and returns their number.
///
/// The file has the columns `gpu_type`, `application`, `placement` (one digit per node),
/// `local_bsz`, `step_time`, `sync_time` and `source`. Rows with source `table` are skipped.
///
/// # Errors
/// Fails if the file cannot be read, lacks a column, or has an invalid field.
pub fn add_points(applications: &mut Applications, path: &Path) -> Result<u64, WorkloadError> {
    let mut table = Table::open(&Source::at(path)?)?;
    let [gpu_type, application, placement, per_gpu] =
        table.require(["gpu_type", "application", "placement", "local_bsz"])?;
    let [step, sync, source] = table.require(["step_time", "sync_time", "source"])?;
    let time = "a number of seconds";
    // Points of one application on one type: GPUs per node, and the measurement.
    type Points = Vec<(Vec<u32>, Measured)>;
    let mut points: SortedMap<(Name, Name), Points> = SortedMap::new();
    let mut count = 0;
    while table.advance()? {
        if table.text(source) == "table" {
            continue;
        }
        let digits: Option<Vec<u32>> = table
            .text(placement)
            .chars()
            .map(|c| c.to_digit(10))
            .collect();
        let Some(digits) = digits.filter(|d| !d.is_empty()) else {
            return Err(table.wrong(placement, "a digit for each node"));
        };
        let row = Measured {
            per_gpu: table.count(per_gpu)?,
            step: table.number(step, f64::is_finite, time)?,
            sync: table.number(sync, f64::is_finite, time)?,
        };
        let of = (
            Name::from(table.text(application)),
            Name::from(table.text(gpu_type)),
        );
        points.entry(of).or_default().push((digits, row));
        count += 1;
    }
    let all = std::mem::take(applications);
    *applications = all.map(|name, app| {
        for (gpu_type, on) in &mut app.types {
            let found = points.get(&(name.clone(), gpu_type.clone()));
            if let StepTimes::Measured(table) = &mut on.steps {
                for (placement, row) in found.into_iter().flatten() {
                    table.add_point(placement, *row);
                }
            }
        }
    });
    Ok(count)
}
