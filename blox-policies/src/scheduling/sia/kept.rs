//! Results that are kept between decisions. Decisions do not depend on them.

use super::{Config, Kinds, Known};
use crate::scheduling::listed::Placeable;
use blox_core::{JobRef, TrainingReport};
use blox_perf::goodput::KnownBatches;
use blox_solve::Choices;

/// Cached results.
#[derive(Clone, Default)]
pub(super) struct Kept {
    pub kinds: Kinds,
    pub rows: Placeable<Row>,
    pub batches: KnownBatches,
    /// The last program.
    pub now: Option<Solved>,
    /// The last program with the lowest costs.
    pub late: Option<Solved>,
}

/// Values of a job's configurations, valid until its next report or start.
#[derive(Clone, Default)]
pub(super) struct Row {
    report: Option<TrainingReport>,
    /// Type and GPUs of the current configuration.
    pub previous: Option<(u32, u32)>,
    restarts: Option<u32>,
    pub configs: Vec<Config>,
    pub values: Vec<Option<f64>>,
    /// Present costs.
    pub costs: Vec<Option<f64>>,
    /// Costs at the highest age, if costs fall until then.
    pub late: Vec<Option<f64>>,
    /// True if the costs have reached the costs at the highest age.
    pub lasting: bool,
}

impl Row {
    pub fn new(
        job: &JobRef<'_>,
        known: &Known,
        configs: Vec<Config>,
        values: Vec<Option<f64>>,
    ) -> Self {
        Row {
            report: job.report().cloned(),
            previous: known.last,
            restarts: known.restarts,
            configs,
            values,
            ..Row::default()
        }
    }

    /// Returns whether the row belongs to the present state of a job.
    pub fn suits(&self, job: &JobRef<'_>, known: &Known) -> bool {
        !self.values.is_empty()
            && self.previous == known.last
            && self.restarts == known.restarts
            && self.report.as_ref() == job.report()
    }

    /// Returns the index of the current configuration.
    pub fn current(&self) -> Option<usize> {
        let is = |c: &Config| Some((c.gpu_type.0, c.gpus)) == self.previous;
        self.previous.and_then(|_| self.configs.iter().position(is))
    }
}

/// A program and its result.
#[derive(Clone)]
pub(super) struct Solved {
    pub program: Choices,
    /// The configuration of each group.
    pub picks: Vec<Option<usize>>,
    pub proven: bool,
}

impl Solved {
    /// Returns the result of a program. The last one is not solved again.
    pub fn of(program: Choices, last: &mut Option<Solved>) -> &Solved {
        let same = last.as_ref().is_some_and(|last| last.program == program);
        if !same {
            *last = None;
        }
        let solve = || {
            // Nothing is required, so there is always a choice.
            let best = program.solve().ok();
            let (picks, proven) = best.map_or((Vec::new(), false), |b| (b.of, b.proven));
            Solved {
                program,
                picks,
                proven,
            }
        };
        last.get_or_insert_with(solve)
    }
}
