use blox_core::Name;
use blox_core::perf::goodput::{StepTime, ThroughputParams};
use blox_sim::execution::training::{Applications, Fitter, LeastSquares, Measured, StepTimes};
use blox_sim::workload::WorkloadError;
use blox_traces::source::Source;
use blox_traces::table::Table;
use std::collections::BTreeMap;
use std::path::Path;

/// Fits that were recorded, by what was observed; our own where there is none.
#[derive(Clone, Debug, Default)]
pub struct RecordedFits {
    by_profile: BTreeMap<Vec<u64>, ThroughputParams>,
}

impl RecordedFits {
    /// Notes a fit.
    pub fn insert(&mut self, observed: &[StepTime], params: ThroughputParams) {
        self.by_profile.insert(key(observed), params);
    }

    /// Returns whether these are the parameters of a recorded one.
    pub fn has(&self, params: &ThroughputParams) -> bool {
        self.by_profile.values().any(|p| p == params)
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.by_profile.len()
    }

    /// Returns whether there is none.
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

/// Times as bits: they come from the same tables by the same operations, and only the
/// last bits may differ by how an interpolation is written.
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

/// Adds single measured points to tables: a file with the columns `gpu_type`, `application`,
/// `placement` (a digit a node), `local_bsz`, `step_time`, `sync_time`, and `source`, of which only the rows
/// that are not from a `table` are taken. How many there were.
///
/// # Errors
/// The file cannot be read, lacks a column, or a field makes no sense.
pub fn add_points(applications: &mut Applications, path: &Path) -> Result<u64, WorkloadError> {
    let mut table = Table::open(&Source::at(path)?)?;
    let columns = table.require([
        "gpu_type",
        "application",
        "placement",
        "local_bsz",
        "step_time",
        "sync_time",
        "source",
    ])?;
    let [
        gpu_type,
        application,
        placement,
        per_gpu,
        step,
        sync,
        source,
    ] = columns;
    let time = "a number of seconds";
    // Of an application on a type: GPUs on each node, and what was measured.
    type Points = Vec<(Vec<u32>, Measured)>;
    let mut points: BTreeMap<(Name, Name), Points> = BTreeMap::new();
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
