//! Allocations recorded from an original program.

use super::policy::{Determined, Policy};
use crate::compared::{Compared, VerifyError, json_lines};
use crate::gavel::{Asked, BisectedDuration, Shares};
use blox_core::{JobId, SortedMap, sort};
use blox_policies::scheduling::gavel::{Allocation, Combination, Instance, PerType};
use blox_solve::SolveError;
use std::path::Path;

/// Fractions by type, for each row.
type Matrix = SortedMap<String, SortedMap<String, f64>>;

#[derive(serde::Deserialize)]
struct Line {
    #[serde(rename = "t")]
    _time: f64,
    alloc: Matrix,
}

/// Replays recorded allocations, and compares each with the allocation of a policy.
///
/// Solvers stop within a tolerance. A recorded allocation may therefore use slightly more GPUs or
/// time than exist, and then has an objective above the true optimum. The comparison has three
/// conditions:
///
/// - With both allocations [within] the available resources, the objective here is at most one part
///   in a million worse than the recorded one.
/// - The objective here is at most one part in a hundred better than the original recorded one.
/// - The allocation here exceeds the available resources by at most one part in a million.
///
/// For a bisection, the recorded duration must lie between the shortest possible duration and the
/// last one that the bisection tried.
///
/// [within]: Allocation::within
#[derive(Clone)]
pub(super) struct Recorded {
    matrices: Vec<Matrix>,
    policy: Asked,
    determined: Determined,
    /// Measurement of each call.
    measured: Vec<Option<Measured>>,
}

/// Objectives of a recorded allocation and of the one computed here.
#[derive(Clone, Copy, Debug)]
struct Measured {
    theirs: f64,
    ours: f64,
    /// True if the allocation here satisfies the conditions of [`Recorded`].
    sound: bool,
    /// Largest fraction by which the recorded allocation exceeds the available resources.
    excess: f64,
    /// Largest difference of a fraction.
    apart: f64,
}

/// Allowed relative loss of the objective, compared with the recorded allocation.
const MEASURE: f64 = 1e-6;

/// Allowed relative gain of the objective. A larger gain means that the original used another
/// objective.
const BETTER: f64 = 0.01;

/// Allowed excess of an allocation over the available resources.
const EXCESS: f64 = 1e-6;

impl Recorded {
    /// Reads `allocations.jsonl`, which has one line per call of the policy.
    pub fn read(path: &Path, policy: Policy) -> Result<Self, VerifyError> {
        let matrices = json_lines(path)?.map(|line| line.map(|line: Line| line.alloc));
        Ok(Recorded {
            matrices: matrices.collect::<Result<_, _>>()?,
            policy: policy.shares,
            determined: policy.determined,
            measured: Vec::new(),
        })
    }

    /// Compares the objectives of all calls.
    pub fn compare(&self, out: &mut Compared) {
        let (calls, made) = (self.matrices.len(), self.measured.len());
        if made != calls {
            out.differ(
                "allocations",
                "calls",
                &calls.to_string(),
                &made.to_string(),
            );
        }
        let (mut worst, mut excess, mut apart): (f64, f64, Vec<f64>) = (0.0, 0.0, Vec::new());
        for (call, measured) in self.measured.iter().enumerate() {
            let Some(m) = measured else { continue };
            out.values += 1;
            worst = worst.max((m.ours - m.theirs).abs() / m.theirs.abs().max(f64::MIN_POSITIVE));
            excess = excess.max(m.excess);
            apart.push(m.apart);
            if !m.sound {
                let what = format!("allocation {}", call + 1);
                let (theirs, ours) = (m.theirs.to_string(), m.ours.to_string());
                out.differ(&what, "objective", &theirs, &ours);
            }
        }
        sort::numbers(&mut apart);
        if let (Some(most), Some(median)) = (apart.last(), apart.get(apart.len() / 2)) {
            out.notes.push(format!(
                "{} allocations: objectives differ by at most {worst:.1e}, fractions by at most {most:.1e} (median {median:.1e}); the recorded ones give out at most {excess:.1e} more than there is",
                apart.len()
            ));
        }
    }

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
            Determined::Bisected(knowledge) => {
                let (shortest, last) = BisectedDuration::new(knowledge).durations(instance).ok()?;
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

/// Returns the largest difference of a fraction between two allocations with the same rows.
fn apart(recorded: &Allocation, ours: &Allocation) -> f64 {
    let rows = ours.rows().iter();
    let both = rows.filter_map(|(who, x)| Some(x.iter().zip(recorded.get(*who)?)));
    both.flatten()
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max)
}

/// Parses a row name such as `0` or `(0, 3)`.
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

impl Shares for Recorded {
    fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError> {
        let ours = self.policy.allocate(instance);
        let Some(matrix) = self.matrices.get(self.measured.len()) else {
            return Err(SolveError::Failed {
                solver: "the record",
                why: "it has no more allocations".to_owned(),
            });
        };
        let fractions = |by_type: &SortedMap<String, f64>| -> PerType {
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

    fn asked(&self) -> &Asked {
        &self.policy
    }
}
