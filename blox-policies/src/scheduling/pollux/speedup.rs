//! Speedup of a job over its fair share.

use crate::scheduling::listed::{adapts, levels};
use blox_core::{Adapts, JobRef, Name, NameId, NodeId, SortedMap, TrainingSpec, TypeLimits, View};
use blox_perf::goodput::{BatchLimits, GoodputModel};

/// A usable node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worker {
    pub node: NodeId,
    pub gpu_type: u32,
    pub gpus: u32,
    /// CPUs and memory in GiB; infinite if unknown.
    pub room: [f64; 2],
}

/// Speedups of a job, each computed once.
#[derive(Clone)]
pub(super) struct Speedups {
    how: How,
    /// Maximum number of GPUs.
    pub most: u32,
    /// Minimum number of GPUs, if it gets any.
    pub least: u32,
    /// Numbers of GPUs on which it runs, ascending; empty for any.
    pub levels: Vec<u32>,
    /// True for each GPU type on which it runs.
    pub types: Vec<bool>,
    /// Speedups by type, nodes and GPUs.
    known: SortedMap<(u32, u32, u32), f64>,
}

#[derive(Clone)]
enum How {
    /// In proportion to GPUs; this number of GPUs counts as 1.
    Linear(f64),
    /// Goodput by a model of each type, relative to the goodput on a fair share.
    Modelled {
        models: Vec<Option<(GoodputModel, BatchLimits)>>,
        /// Batch size, if it is fixed.
        batch: Option<u32>,
        fair: f64,
    },
}

/// Returns the goodput of the best or the fixed batch size, or 0 if none is within the limits.
fn goodput(
    (model, limits): &(GoodputModel, BatchLimits),
    batch: Option<u32>,
    nodes: u32,
    gpus: u32,
) -> f64 {
    let best = match batch {
        Some(batch) => model.at_batch(nodes, gpus, batch, limits),
        None => model.best_batch(nodes, gpus, limits),
    };
    if best.goodput.is_finite() {
        best.goodput
    } else {
        0.0
    }
}

impl Speedups {
    /// Returns the speedups of a job at `fair` nodes and GPUs as its fair share.
    pub fn of(
        view: View<'_>,
        job: &JobRef<'_>,
        workers: &[Worker],
        fair: (u32, u32),
        waits: bool,
    ) -> Self {
        let extras = job.spec().extras();
        let training = extras.training.as_deref();
        let names = view.cluster().gpu_types();
        let name = |t: u32| names.get(NameId(t));
        let runs =
            |name: &Name| extras.runs_on(name) && training.is_none_or(|t| t.on(name).is_some());
        let types: Vec<bool> = (0..names.len() as u32)
            .map(|t| name(t).is_some_and(runs))
            .collect();
        let asked = job.gpus().get();
        let plain = |how, most, least, levels| Speedups {
            how,
            most,
            least,
            levels,
            types: types.clone(),
            known: SortedMap::new(),
        };
        let whole = |t: &TrainingSpec| t.types.values().all(|l| l.stages == 1);
        let adapts = |t: &&TrainingSpec| adapts(job) != Adapts::Nothing && whole(t);
        let Some(training) = training.filter(adapts) else {
            return plain(How::Linear(f64::from(asked)), asked, asked, Vec::new());
        };
        let levels: Vec<u32> = levels(job).collect();
        let least = levels.first().copied().unwrap_or(1);
        let report = job.report().filter(|r| !r.speed.is_empty());
        let begins = || {
            let allocated = job.assignment().map_or(1, |a| a.count().get());
            let most = if waits { least } else { allocated.max(least) };
            plain(How::Linear(f64::from(least)), most, least, levels.clone())
        };
        let Some(report) = report else {
            return begins();
        };
        let any = report.speed.iter().next();
        let of = |t: u32| {
            let name = name(t)?;
            let own: Option<&TypeLimits> = training.on(name);
            let speed = report.speed.get(name).or(any.map(|(_, s)| s))?;
            let model = GoodputModel {
                speed: speed.params,
                noise: report.noise,
                initial_batch: training.initial_batch,
            };
            let limits = BatchLimits {
                max_batch: training.max_batch,
                per_gpu: own?.per_gpu,
                accumulate: true,
            };
            Some((model, limits))
        };
        let models: Vec<_> = (0..names.len() as u32).map(of).collect();
        let first = workers.iter().find_map(|w| models[w.gpu_type as usize]);
        let initial = || extras.batch_size.unwrap_or(training.initial_batch);
        let batch = (training.adapts == Adapts::Gpus).then(initial);
        let base = first.map_or(0.0, |first| goodput(&first, batch, fair.0, fair.1));
        let seen = report.speed.values().map(|s| s.most_gpus.get()).max();
        let doubled = (2 * seen.unwrap_or(1)).max(1);
        let smallest = training.types.values().map(|t| t.per_gpu.0).min();
        let by_batch = training.max_batch / smallest.unwrap_or(1).max(1);
        let mut most = doubled.min(by_batch).max(1);
        if training.adapts == Adapts::Gpus {
            most = most.min(asked);
        }
        let most = most.max(least);
        let runs_on = |gpus: &u32| levels.is_empty() || levels.contains(gpus);
        let counts = || (least..=most).filter(runs_on);
        let usable = |model| counts().any(|gpus| goodput(model, batch, 1, gpus) > 0.0);
        if base <= 0.0 && !models.iter().flatten().any(usable) {
            // No configuration within the limits is usable: the job continues as one without
            // reports.
            return begins();
        }
        let fair = if base > 0.0 { base } else { 1.0 };
        let how = How::Modelled {
            models,
            batch,
            fair,
        };
        plain(how, most, least, levels)
    }

    /// Returns the largest number of GPUs, at most `gpus`, that the job may get; `gpus` if they are
    /// fewer than its least.
    pub fn at_most(&self, gpus: u32) -> u32 {
        let most = gpus.min(self.most);
        let within = self.levels.iter().rev().find(|level| **level <= most);
        within.copied().unwrap_or(most)
    }

    pub fn at(&mut self, gpu_type: u32, nodes: u32, gpus: u32) -> f64 {
        if gpus == 0 || gpus < self.least {
            return 0.0;
        }
        match &self.how {
            How::Linear(one) => f64::from(gpus) / one,
            How::Modelled {
                models,
                batch,
                fair,
            } => {
                let Some(model) = models.get(gpu_type as usize).and_then(Option::as_ref) else {
                    return 0.0;
                };
                *self
                    .known
                    .entry((gpu_type, nodes, gpus))
                    .or_insert_with(|| goodput(model, *batch, nodes, gpus) / fair)
            }
        }
    }

    /// Returns speedups of a job in proportion to its GPUs, from 0 to `most`.
    #[cfg(test)]
    pub fn linear(fair: f64, most: u32) -> Self {
        Speedups {
            how: How::Linear(fair),
            most,
            least: 1,
            levels: Vec::new(),
            types: vec![true],
            known: SortedMap::new(),
        }
    }
}
