use super::super::instance::{
    Allocation, Combination, Entrant, Instance, PerType, SharePolicy, Usage,
};
use super::super::program::ShareProgram;
use super::isolated::{isolated, isolated_throughput};
use super::{Isolated, Knowledge};
use blox_core::{JobId, Policy, SortedMap};
use blox_solve::{Program, SolveError};
use serde::{Deserialize, Serialize};

/// Finish-time fairness (Themis' measure as solved by Gavel, section 4.2).
///
/// It minimizes the largest rho. The rho of a job is its time from submission to end, divided by
/// that time with its [isolated](Isolated) share. The isolated time is the sum of two parts. The
/// past part uses the number of jobs at each point, the remaining part the current number of jobs.
///
/// The solution starts from isolated shares and solves a linear program for each step of Newton's
/// method. With one GPU type and no pairs, no program is needed. The largest rho then determines the
/// share of each job, and the search is for the rho at which the shares use all GPUs. Only a job that
/// has all of its time can have a larger rho.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinishTimeShares {
    knowledge: Knowledge,
    weighted: bool,
}

/// Past of each job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FairPast {
    past: SortedMap<JobId, Past>,
}

/// Relative improvement of the largest rho below which the iteration ends.
const ROUNDING: f64 = 2e-7;

/// Largest number of steps; more than were ever needed.
const STEPS: usize = 20;

/// Largest number of steps of the search on one type, and its relative precision.
const BISECTIONS: usize = 200;
const EXACT: f64 = 1e-12;

/// A job's isolated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Past {
    /// Isolated seconds up to the last allocation.
    time: f64,
    /// Remaining iterations at that time.
    left: f64,
    /// Iterations per second in isolation since then.
    rate: f64,
}

impl FinishTimeShares {
    /// Creates the policy with a knowledge of speeds.
    pub fn new(knowledge: Knowledge) -> Self {
        FinishTimeShares {
            knowledge,
            ..FinishTimeShares::default()
        }
    }

    /// Divides a job's speed by its weight: a job of weight 2 is as late as one of weight 1 that is
    /// half as fast. The program of Gavel's authors uses weights only with pairs.
    #[must_use]
    pub fn weighted(mut self) -> Self {
        self.weighted = true;
        self
    }

    /// Divisor of a job's speed.
    fn weight(&self, instance: &Instance, job: usize) -> f64 {
        match self.weighted {
            true => instance.jobs[job].weight,
            false => 1.0,
        }
    }

    fn rates(&self, instance: &Instance, job: usize) -> PerType {
        let rate = |k| self.knowledge.rate_as_reference(instance, job, k);
        (0..instance.types.len()).map(rate).collect()
    }

    /// Updates the isolated times to now.
    fn catch_up(&self, memory: &mut FairPast, instance: &Instance) {
        let mut now = SortedMap::new();
        for (i, job) in instance.jobs.iter().enumerate() {
            let before = memory.past.get(&job.id);
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
        memory.past = now;
    }

    /// Computes the fractions by linear programs, on any number of types. If several fractions have
    /// the least rho, the result is near the centre of all.
    ///
    /// # Errors
    /// The solver found no solution.
    pub fn by_programs(
        &self,
        memory: &mut FairPast,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        self.catch_up(memory, instance);
        if instance.jobs.is_empty() {
            return Ok(Allocation::default());
        }
        // A solution may allocate slightly more than exists.
        let past = memory.clone();
        let rho = |answer: &Allocation| {
            let rho = self.objective(&past, instance, &answer.within(instance));
            rho.filter(|r| r.is_finite())
        };
        let mut best = Isolated.allocate(&mut (), instance)?;
        let mut reached = rho(&best);
        for _ in 0..STEPS {
            let Some(so_far) = reached else { break };
            let Ok(answer) = self.below(memory, instance, so_far) else {
                break;
            };
            let Some(now) = rho(&answer).filter(|r| *r <= so_far * (1.0 + ROUNDING)) else {
                break;
            };
            best = answer;
            if now >= so_far * (1.0 - ROUNDING) {
                break;
            }
            reached = Some(now);
        }
        Ok(best)
    }

    /// Returns the shares of the least rho on one type.
    fn on_one_type(&self, memory: &FairPast, instance: &Instance) -> Allocation {
        let mut capacity = instance.gpus();
        let mut shares = vec![0.0; instance.jobs.len()];
        let mut needs: Vec<(usize, Need)> = Vec::with_capacity(instance.jobs.len());
        for (i, job) in instance.jobs.iter().enumerate() {
            let rate = self.knowledge.rate_as_reference(instance, i, 0);
            let alone = self.isolated(memory, job.id).filter(|t| *t > 0.0);
            if let Some(alone) = alone.filter(|t| t.is_finite()) {
                needs.push((
                    i,
                    Need {
                        gpus: f64::from(job.gpus),
                        seconds: job.left * self.weight(instance, i) / rate,
                        isolated: alone,
                        age: job.age,
                    },
                ));
            } else if rate > 0.0 {
                // Its rho does not depend on its share.
                shares[i] = isolated(instance, i)[0];
                capacity -= f64::from(job.gpus) * shares[i];
            }
        }
        let rho = least_rho(&needs, capacity);
        for (i, need) in needs {
            shares[i] = need.share(rho);
        }
        let row = |(job, share): (&Entrant, f64)| {
            (Combination::single(job.id), PerType::from_elem(share, 1))
        };
        Allocation::of(instance.jobs.iter().zip(shares).map(row).collect())
    }

    /// Isolated duration of a job that has a past.
    fn isolated(&self, memory: &FairPast, job: JobId) -> Option<f64> {
        let past = memory.past.get(&job)?;
        Some(past.time + past.left / past.rate)
    }
}

impl FinishTimeShares {
    /// Returns shares with a rho below this one, by one Newton step.
    ///
    /// The step maximizes the relative reduction of rho, with the speed that a rho requires of a
    /// job replaced by its tangent. The program of Gavel's authors instead multiplies speed and
    /// slowness, which is a cone. If the speeds of jobs differ widely, rounding leaves that program
    /// short of the optimum, by one part in 80,000 on a recorded instance.
    fn below(
        &self,
        memory: &FairPast,
        instance: &Instance,
        rho: f64,
    ) -> Result<Allocation, SolveError> {
        let mut lp = ShareProgram::new(Program::maximise(), instance, |i, k| {
            self.knowledge.rate_as_reference(instance, i, k)
        });
        let part = lp.program.real(1.0, f64::NEG_INFINITY, f64::INFINITY);
        for (i, job) in instance.jobs.iter().enumerate() {
            let Some(isolated) = self
                .isolated(memory, job.id)
                .filter(|t| *t > 0.0 && t.is_finite())
            else {
                continue;
            };
            let time = rho * isolated - job.age;
            let needed = job.left * self.weight(instance, i) / time;
            let mut row = lp.throughput(i, 1.0 / needed);
            row.push((part, -rho * isolated / time));
            lp.program.at_least(&row, 1.0);
            lp.own_row(i);
        }
        let solution = lp.solve()?;
        Ok(lp.read(&solution))
    }
}

/// A job on one type, as a function of the largest rho.
struct Need {
    gpus: f64,
    /// Seconds of its work if it has all of its time.
    seconds: f64,
    isolated: f64,
    age: f64,
}

impl Need {
    /// Returns the least fraction of its time with which the job has at most this rho.
    fn share(&self, rho: f64) -> f64 {
        let time = rho * self.isolated - self.age;
        match time > self.seconds {
            true => self.seconds / time,
            false => 1.0,
        }
    }

    /// Returns the GPUs for this rho, and how fast they decrease with rho.
    fn gpus(&self, rho: f64) -> (f64, f64) {
        let time = rho * self.isolated - self.age;
        match time > self.seconds {
            true => {
                let gpus = self.gpus * self.seconds / time;
                (gpus, gpus * self.isolated / time)
            }
            false => (self.gpus, 0.0),
        }
    }
}

/// Returns the least rho for which the shares fit on some GPUs, or 0 if all jobs fit.
///
/// It bisects with steps of Newton's method.
fn least_rho(needs: &[(usize, Need)], capacity: f64) -> f64 {
    let used = |rho: f64| {
        let all = needs.iter().map(|(_, need)| need.gpus(rho));
        all.fold((0.0, 0.0), |sum, (gpus, slope)| {
            (sum.0 + gpus, sum.1 + slope)
        })
    };
    if used(0.0).0 <= capacity {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while used(high).0 > capacity && high < 1e300 {
        (low, high) = (high, 2.0 * high);
    }
    let mut rho = high;
    for _ in 0..BISECTIONS {
        let (gpus, slope) = used(rho);
        let over = gpus - capacity;
        match over > 0.0 {
            true => low = rho,
            false => high = rho,
        }
        if over.abs() <= EXACT * capacity && over <= 0.0 || high - low <= EXACT * high {
            break;
        }
        let newton = rho + over / slope;
        rho = match low < newton && newton < high {
            true => newton,
            false => low + (high - low) / 2.0,
        };
    }
    high
}

impl Policy for FinishTimeShares {
    type Memory = FairPast;

    fn initial(&self, _: u64) -> FairPast {
        FairPast::default()
    }
}

impl SharePolicy for FinishTimeShares {
    fn allocate(
        &self,
        memory: &mut Self::Memory,
        instance: &Instance,
    ) -> Result<Allocation, SolveError> {
        if instance.types.len() != 1 || !instance.pairs.is_empty() {
            return self.by_programs(memory, instance);
        }
        self.catch_up(memory, instance);
        Ok(self.on_one_type(memory, instance))
    }

    fn usage(&self) -> Usage {
        Usage {
            work_left: true,
            ..self.knowledge.usage()
        }
    }

    fn objective(
        &self,
        memory: &FairPast,
        instance: &Instance,
        allocation: &Allocation,
    ) -> Option<f64> {
        let rho = |i: usize| {
            let job = &instance.jobs[i];
            let rate = self.knowledge.speed(instance, allocation, i);
            let left = job.left * self.weight(instance, i);
            Some((job.age + left / rate) / self.isolated(memory, job.id)?)
        };
        let all = (0..instance.jobs.len()).filter_map(rho);
        all.reduce(f64::max)
    }
}
