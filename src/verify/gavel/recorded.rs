//! Allocations that an original program recorded.

use crate::verify::VerifyError;
use blox_core::{JobId, Part, RestoreError};
use blox_policies::scheduling::gavel::{Allocation, Combination, Instance, PerType, SharePolicy};
use blox_solve::SolveError;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

/// Fractions by type, by row.
pub(super) type Matrix = BTreeMap<String, BTreeMap<String, f64>>;

#[derive(serde::Deserialize)]
struct Line {
    #[serde(rename = "t")]
    _time: f64,
    alloc: Matrix,
}

/// Reads `allocations.jsonl`: a line a call of the policy.
pub(super) fn read(path: &Path) -> Result<Vec<Matrix>, VerifyError> {
    let read = |error| VerifyError::Read {
        path: path.to_owned(),
        error,
    };
    let file = std::io::BufReader::new(std::fs::File::open(path).map_err(read)?);
    let mut all = Vec::new();
    for (i, line) in file.lines().enumerate() {
        let line: Line =
            serde_json::from_str(&line.map_err(read)?).map_err(|e| VerifyError::Bad {
                path: path.to_owned(),
                what: format!("line {}: {e}", i + 1),
            })?;
        all.push(line.alloc);
    }
    Ok(all)
}

/// Says what was recorded, and asks a policy beside it.
#[derive(Clone)]
pub(super) struct Recorded {
    matrices: Arc<Vec<Matrix>>,
    policy: Box<dyn SharePolicy>,
    /// The measure of the recorded and of our allocation, for each call.
    measured: Vec<Option<(f64, f64)>>,
}

impl Recorded {
    pub fn new(matrices: Vec<Matrix>, policy: Box<dyn SharePolicy>) -> Self {
        Recorded {
            matrices: Arc::new(matrices),
            policy,
            measured: Vec::new(),
        }
    }
}

/// `0`, or `(0, 3)`.
fn row(name: &str) -> Option<Combination> {
    let number = |text: &str| text.trim().parse().ok().map(JobId);
    match name.strip_prefix('(').and_then(|n| n.strip_suffix(')')) {
        Some(pair) => {
            let (a, b) = pair.split_once(',')?;
            Some(Combination::pair(number(a)?, number(b)?))
        }
        None => number(name).map(Combination::single),
    }
}

impl Part for Recorded {
    fn save(&self) -> Option<Value> {
        serde_json::to_value((&self.measured, self.policy.save())).ok()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        let policy: Option<Value>;
        (self.measured, policy) = serde_json::from_value(memory)?;
        policy.map_or(Ok(()), |p| self.policy.restore(p))
    }
}

impl SharePolicy for Recorded {
    fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError> {
        let ours = self.policy.allocate(instance);
        let Some(matrix) = self.matrices.get(self.measured.len()) else {
            return Err(SolveError::Failed {
                solver: "the record",
                why: "it has no more allocations".to_owned(),
            });
        };
        let fractions = |by_type: &BTreeMap<String, f64>| -> PerType {
            let of = |name: &str| by_type.get(name).copied().unwrap_or(0.0);
            instance.types.iter().map(|t| of(&t.name)).collect()
        };
        let rows = matrix.iter();
        let rows = rows.filter_map(|(name, x)| Some((row(name)?, fractions(x))));
        let recorded = Allocation::of(rows.collect());
        let measures = ours.ok().and_then(|ours| {
            let theirs = self.policy.objective(instance, &recorded)?;
            Some((theirs, self.policy.objective(instance, &ours)?))
        });
        self.measured.push(measures);
        Ok(recorded)
    }

    fn wants_pairs(&self) -> bool {
        self.policy.wants_pairs()
    }

    fn conserves_work(&self) -> bool {
        self.policy.conserves_work()
    }
}
