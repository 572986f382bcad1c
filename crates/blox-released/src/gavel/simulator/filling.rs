//! Water filling as in Gavel's program.

use blox_core::Stateless;
use blox_policies::scheduling::gavel::program::ShareProgram;
use blox_policies::scheduling::gavel::shares::{Knowledge, WaterFilling, kinds, scales};
use blox_policies::scheduling::gavel::{Allocation, Instance, SharePolicy, Usage};
use blox_solve::{Program, SolveError};

/// [`WaterFilling`] with the rows of the released program's linear program.
///
/// Each step maximises the rise of levels. Each job has a row that prevents a fall of its level.
/// For each saturated job, the program has a row that limits the rise to the largest rise of any
/// job. These rows do not change the levels, but they move the centre of all solutions.
#[derive(Clone, Debug, Default)]
pub struct ReleasedFilling {
    knowledge: Knowledge,
    exact: WaterFilling,
}

/// A job can rise further if it exceeds its level by more than this fraction.
const RISES: f64 = 1e-4;

impl ReleasedFilling {
    /// Creates the policy with its throughput knowledge.
    pub fn new(knowledge: Knowledge) -> Self {
        ReleasedFilling {
            knowledge,
            exact: WaterFilling::new(knowledge),
        }
    }
}

impl Stateless for ReleasedFilling {}

impl SharePolicy for ReleasedFilling {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        let kinds = kinds(instance, self.knowledge, true);
        let scale = scales(&kinds.instance, self.knowledge);
        let jobs = &kinds.instance.jobs;
        // Weight of a rise in a job's throughput, relative to its proportional throughput.
        let counts: Vec<f64> = jobs.iter().map(|j| f64::from(j.gpus) / j.weight).collect();
        let most = jobs.iter().enumerate().map(|(i, job)| {
            let rates = 0..kinds.instance.types.len();
            let best = rates.map(|k| self.knowledge.rate(&kinds.instance, i, k));
            best.fold(0.0, f64::max) * scale[i] * job.weight
        });
        let most = most.fold(0.0, f64::max);
        let mut level = vec![0.0; jobs.len()];
        let mut ended = vec![false; jobs.len()];
        let mut answer = Allocation::default();
        while ended.contains(&false) {
            let mut lp = ShareProgram::of_kinds(Program::maximise(), &kinds, |i, k| {
                self.knowledge.rate(&kinds.instance, i, k)
            });
            let rise = lp.program.real(1.0, f64::NEG_INFINITY, f64::INFINITY);
            for i in 0..jobs.len() {
                let part = lp.throughput(i, scale[i] / counts[i]);
                lp.program.at_least(&part, level[i]);
                lp.own_row(i);
                if ended[i] {
                    lp.program.at_most(&[(rise, 1.0)], most);
                } else {
                    let mut row = lp.throughput(i, scale[i]);
                    row.push((rise, -1.0));
                    lp.program.at_least(&row, level[i] * counts[i]);
                }
                lp.own_row(i);
            }
            let solution = match lp.solve() {
                Ok(solution) => solution,
                // The program keeps its last solution.
                Err(_) if !answer.rows().is_empty() => break,
                Err(e) => return Err(e),
            };
            answer = lp.read(&solution);
            let mut any = false;
            for i in (0..jobs.len()).filter(|i| !ended[*i]).collect::<Vec<_>>() {
                level[i] += solution[rise] / counts[i];
                let has = lp.throughput(i, scale[i] / counts[i]);
                let has: f64 = has.iter().map(|(v, f)| solution[*v] * f).sum();
                ended[i] = has <= level[i] * (1.0 + RISES);
                any |= ended[i];
            }
            if !any {
                break;
            }
        }
        Ok(kinds.spread(instance, answer))
    }

    fn usage(&self) -> Usage {
        Usage {
            least_gain: 0.0,
            ..self.exact.usage()
        }
    }

    fn objective(&self, (): &(), instance: &Instance, allocation: &Allocation) -> Option<f64> {
        self.exact.objective(&(), instance, allocation)
    }
}
