use super::super::instance::{Allocation, Combination, Instance, PerType, SharePolicy};
use super::super::program::{ShareProgram, Ties};
use super::isolated::isolated_throughput;
use super::{Isolated, Knows, Memory};
use blox_core::{JobId, Part, RestoreError};
use blox_solve::{Program, SolveError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Finish-time fairness (Themis' measure as Gavel solves it, section 4.2): the
/// largest rho is as small as can be, where rho is the time from submission to the
/// end divided by what it would be with the job's [isolated](Isolated) share.
///
/// The isolated time is what it would have taken so far, added up with the number of
/// jobs that there were, and what is left with as many jobs as there are now.
#[derive(Clone, Debug, Default)]
pub struct FinishTimeShares {
    knows: Knows,
    weighted: bool,
    memory: Memory,
    past: BTreeMap<JobId, Past>,
}

/// What speeds are counted in: how near a solver comes to the optimum depends on it.
#[derive(Clone, Copy)]
enum Units {
    /// Iterations a second, as in the program of Gavel's authors: this answer counts ...
    Own,
    /// ... unless its rho, computed from its shares, is greater than the solver says, and than
    /// that of this one, in which all is near 1. Where speeds of jobs lie far apart rounding leaves
    /// the first short of the optimum, by one part in 80,000 on a recorded instance.
    Isolated,
}

/// By what part rho may be greater before it counts as left short.
const ROUNDING: f64 = 2e-7;

/// A job's isolated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Past {
    /// Seconds up to the last answer.
    time: f64,
    /// Iterations that were left then.
    left: f64,
    /// Iterations a second in isolation from then on.
    rate: f64,
}

impl FinishTimeShares {
    /// By what it knows of speeds.
    pub fn new(knows: Knows) -> Self {
        FinishTimeShares {
            knows,
            ..FinishTimeShares::default()
        }
    }

    /// A job's speed counts over its weight: one of weight 2 is as late as one of weight 1 that is
    /// half as fast. (The program of Gavel's authors counts weights with pairs alone.)
    #[must_use]
    pub fn weighted(mut self) -> Self {
        self.weighted = true;
        self
    }

    /// Another choice among optima.
    #[must_use]
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// By what a job's speed is divided.
    fn weight(&self, instance: &Instance, job: usize) -> f64 {
        match self.weighted {
            true => instance.jobs[job].weight,
            false => 1.0,
        }
    }

    fn rates(&self, instance: &Instance, job: usize) -> PerType {
        let rate = |k| self.knows.rate_as_reference(instance, job, k);
        (0..instance.types.len()).map(rate).collect()
    }

    /// Brings the isolated times up to now.
    fn catch_up(&mut self, instance: &Instance) {
        let mut now = BTreeMap::new();
        for (i, job) in instance.jobs.iter().enumerate() {
            let before = self.past.get(&job.id);
            let time = before.map_or(0.0, |p| match p.rate {
                0.0 => p.time,
                rate => p.time + (p.left - job.left) / rate,
            });
            let past = Past {
                time,
                left: job.left,
                rate: isolated_throughput(instance, &self.rates(instance, i), i),
            };
            now.insert(job.id, past);
        }
        self.past = now;
    }

    /// The isolated duration of a job that has a past.
    fn isolated(&self, job: JobId) -> Option<f64> {
        let past = self.past.get(&job)?;
        Some(past.time + past.left / past.rate)
    }
}

impl FinishTimeShares {
    /// The greatest rho as the solver has it, and its shares.
    fn solve(
        &self,
        instance: &Instance,
        ties: &Ties,
        units: Units,
    ) -> Result<(f64, Allocation), SolveError> {
        let mut lp = ShareProgram::new(Program::minimise(), instance, |i, k| {
            self.knows.rate_as_reference(instance, i, k)
        });
        let rho = lp.program.real(1.0, f64::NEG_INFINITY, f64::INFINITY);
        for (i, job) in instance.jobs.iter().enumerate() {
            let Some(isolated) = self.isolated(job.id).filter(|t| *t > 0.0 && t.is_finite()) else {
                continue;
            };
            let unit = match units {
                Units::Own => 1.0,
                Units::Isolated => self.past[&job.id].rate,
            };
            let slowness = lp.program.real(0.0, f64::NEG_INFINITY, f64::INFINITY);
            lp.own(slowness, i);
            let speed = lp.throughput(i, 1.0 / (unit * self.weight(instance, i)));
            lp.program.product_at_least(&speed, &[(slowness, 1.0)], 1.0);
            let left = job.left / unit / isolated;
            lp.program
                .at_most(&[(rho, -1.0), (slowness, left)], -job.age / isolated);
        }
        let solution = lp.solve(ties)?;
        Ok((solution[rho], lp.read(&solution)))
    }
}

impl Part for FinishTimeShares {
    fn save(&self) -> Option<Value> {
        let past: Vec<_> = self.past.iter().collect();
        serde_json::to_value((past, &self.memory)).ok()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        let (past, memory): (Vec<(JobId, Past)>, Memory) = serde_json::from_value(memory)?;
        (self.past, self.memory) = (past.into_iter().collect(), memory);
        Ok(())
    }
}

impl SharePolicy for FinishTimeShares {
    fn allocate(&mut self, instance: &Instance) -> Result<Allocation, SolveError> {
        self.catch_up(instance);
        if instance.jobs.is_empty() {
            return Ok(Allocation::default());
        }
        let ties = self.memory.ties(instance);
        let mut best: Option<(f64, Allocation)> = None;
        for units in [Units::Own, Units::Isolated] {
            let Ok((least, answer)) = self.solve(instance, &ties, units) else {
                continue;
            };
            let rho = self.objective(instance, &answer).unwrap_or(f64::INFINITY);
            let better = |(b, _): &(f64, Allocation)| rho < b * (1.0 - ROUNDING);
            if best.as_ref().is_none_or(better) {
                best = Some((rho, answer));
            }
            if rho <= least * (1.0 + ROUNDING) {
                break;
            }
        }
        match best {
            Some((_, answer)) => Ok(self.memory.keep(answer)),
            None => Isolated.allocate(instance),
        }
    }

    fn is_blind(&self) -> bool {
        self.knows == Knows::Nothing
    }

    fn wants_pairs(&self) -> bool {
        self.knows == Knows::Pairs
    }

    fn least_gain(&self) -> f64 {
        1.0
    }

    fn objective(&self, instance: &Instance, allocation: &Allocation) -> Option<f64> {
        let rho = |i: usize| {
            let job = &instance.jobs[i];
            let rate = match self.knows {
                Knows::Nothing => {
                    let x = allocation.get(Combination::single(job.id));
                    let time: f64 = x.map_or(0.0, |x| x.iter().sum());
                    time * self.knows.rate_as_reference(instance, i, 0)
                }
                _ => allocation.throughput(instance, i),
            };
            let left = job.left * self.weight(instance, i);
            Some((job.age + left / rate) / self.isolated(job.id)?)
        };
        let all = (0..instance.jobs.len()).filter_map(rho);
        all.reduce(f64::max)
    }
}
