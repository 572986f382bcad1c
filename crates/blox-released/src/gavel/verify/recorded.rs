//! Allocations that an original program recorded.

use super::policy::Determined;
use crate::gavel::BisectedDuration;
use crate::verify::VerifyError;
use blox_core::{Event, JobId, Part, RestoreError, View};
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
///
/// Solvers leave their optimum where they are content: a recorded allocation may give out a
/// little more GPUs or time than there are, and its measure is then better than any can be. So ours
/// has to be as good, [within] what there is, as the recorded one is, to one part in a million, and
/// better than that one by no more than one in a hundred; it may itself give out one part in
/// ten thousand more. Of a bisection, any duration is right that is no shorter
/// than can be and no longer than the last that was tried.
///
/// [within]: Allocation::within
#[derive(Clone)]
pub(super) struct Recorded {
    matrices: Arc<Vec<Matrix>>,
    policy: Box<dyn SharePolicy>,
    determined: Determined,
    /// For each call.
    measured: Vec<Option<Measured>>,
}

/// The measures of a recorded allocation and of our own.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Measured {
    pub theirs: f64,
    pub ours: f64,
    /// Whether ours holds what it promises; see [`Recorded`].
    pub sound: bool,
    /// The largest part by which theirs gives out more than there is.
    pub excess: f64,
    /// The largest difference of a fraction.
    pub apart: f64,
}

/// By what part the measure of an allocation may be worse than that of the recorded one.
const MEASURE: f64 = 1e-6;

/// By what part it may be better: more means that another measure was asked for.
const BETTER: f64 = 0.01;

/// What an allocation may give out beyond what there is.
const EXCESS: f64 = 1e-6;

impl Recorded {
    pub fn new(
        matrices: Vec<Matrix>,
        policy: Box<dyn SharePolicy>,
        determined: Determined,
    ) -> Self {
        Recorded {
            matrices: Arc::new(matrices),
            policy,
            determined,
            measured: Vec::new(),
        }
    }
}

impl Recorded {
    fn measure(
        &self,
        instance: &Instance,
        recorded: &Allocation,
        ours: &Allocation,
    ) -> Option<Measured> {
        let theirs = self.policy.objective(instance, recorded)?;
        let measure = self.policy.objective(instance, &ours.within(instance))?;
        let reached = self
            .policy
            .objective(instance, &recorded.within(instance))?;
        let sound = match self.determined {
            Determined::Bisected(knows) => {
                let (shortest, last) = BisectedDuration::new(knows).durations(instance).ok()?;
                reached >= shortest * (1.0 - MEASURE) && theirs <= last * (1.0 + MEASURE)
            }
            Determined::Least => {
                measure <= reached * (1.0 + MEASURE) && measure >= theirs * (1.0 - BETTER)
            }
            _ => measure >= reached * (1.0 - MEASURE) && measure <= theirs * (1.0 + BETTER),
        };
        let sound = sound && ours.excess(instance) <= EXCESS;
        Some(Measured {
            theirs,
            ours: measure,
            sound,
            excess: recorded.excess(instance),
            apart: apart(recorded, ours),
        })
    }
}

/// The largest difference of a fraction between two allocations of the same rows.
fn apart(recorded: &Allocation, ours: &Allocation) -> f64 {
    let mut most: f64 = 0.0;
    for (who, x) in ours.rows() {
        if let Some(theirs) = recorded.get(*who) {
            let off = x.iter().zip(theirs).map(|(a, b)| (a - b).abs());
            most = off.fold(most, f64::max);
        }
    }
    most
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
    fn observe(&mut self, view: View<'_>, event: &Event) {
        self.policy.observe(view, event);
    }

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
        let measures = ours
            .ok()
            .and_then(|ours| self.measure(instance, &recorded, &ours));
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
