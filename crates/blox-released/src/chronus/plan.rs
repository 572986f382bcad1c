//! Planning of future leases for jobs with deadlines.

use blox_core::sort;
use blox_microlp::BranchAndBound;
use blox_solve::{Program, SolveError, Solver, Var};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, VecDeque};

/// Planning method of the released program. If an integer program has no solution, the plan is
/// greedy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planner {
    /// Plans jobs by descending value, each in the latest free leases. The program falls back to
    /// this method if its solver is not installed.
    #[default]
    Greedy,
    /// Solves a mixed-integer program that maximises the total value of the met deadlines. The
    /// objective decides among equal plans.
    ///
    /// The search stops at the optimum or after 2,000 nodes. The original stops after 5 s, or 1 s
    /// without progress.
    Solved(Objective),
}

/// Preference of a plan for the lease that begins, `mip_objective` of the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// [`Objective::Minimise`] while there are jobs that were not accepted, otherwise
    /// [`Objective::Maximise`].
    #[default]
    Adaptive,
    /// Use as many GPUs as possible.
    Maximise,
    /// Use as few GPUs as possible, to leave them to other jobs.
    Minimise,
}

impl Objective {
    /// Returns true if many GPUs should be used. `refused` is true if there are jobs that were not
    /// accepted.
    pub fn uses_many(self, refused: bool) -> bool {
        match self {
            Objective::Adaptive => !refused,
            Objective::Maximise => true,
            Objective::Minimise => false,
        }
    }
}

/// A deadline for which a job can be planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub job: u32,
    /// Index of the deadline in the job.
    pub option: usize,
    /// Number of leases until the deadline.
    pub most: i64,
    pub need: i64,
    pub gpus: i64,
    pub value: f64,
}

impl Row {
    /// Compares by descending value, then by size.
    pub fn by_value(&self, other: &Row) -> Ordering {
        let value = other.value.total_cmp(&self.value);
        value.then_with(|| self.by_size(other))
    }

    pub fn by_size(&self, other: &Row) -> Ordering {
        let key = |r: &Row| (-r.gpus, r.most - r.need, -r.most);
        key(self).cmp(&key(other))
    }

    /// Takes leases from the latest to the earliest. If there are too few, releases them and
    /// returns `None`.
    pub fn take(&self, free: &mut Vec<i64>, total: i64) -> Option<VecDeque<bool>> {
        let most = self.most.max(0) as usize;
        if free.len() < most {
            free.resize(most, total);
        }
        let mut plan: VecDeque<bool> = std::iter::repeat_n(false, most).collect();
        let mut need = self.need;
        for k in (0..most).rev() {
            if need <= 0 {
                break;
            }
            if free[k] >= self.gpus {
                free[k] -= self.gpus;
                plan[k] = true;
                need -= 1;
            }
        }
        if need <= 0 {
            return Some(plan);
        }
        for (k, _) in plan.iter().enumerate().filter(|(_, on)| **on) {
            free[k] += self.gpus;
        }
        None
    }
}

/// Returns the number of GPUs as plans count it.
pub(super) fn bin(gpus: u32) -> i64 {
    match gpus {
        3 => 4,
        5..=7 => 8,
        g => i64::from(g),
    }
}

/// Maximum number of search nodes.
const NODES: u64 = 2_000;

/// Plans with the indices of their rows.
type Plans = Vec<(usize, VecDeque<bool>)>;

/// Solves the original's program and returns a plan for each job, in order of jobs and their
/// deadlines.
///
/// `free` has the free GPUs of each lease. `plans` has the current plan of each row. Returns `None`
/// if there is no solution or none was found.
pub(super) fn solve(
    rows: &[Row],
    free: &[i64],
    many: bool,
    plans: &[Option<&VecDeque<bool>>],
) -> Option<Plans> {
    match search(rows, free, many) {
        Ok((found, true)) => Some(found),
        Ok((found, false)) => {
            let measure = |plans: &Plans| measure(rows, free, many, plans);
            let other = without_search(rows, free, many, plans);
            let better = other.filter(|other| measure(other) > measure(&found));
            Some(better.unwrap_or(found))
        }
        Err(SolveError::Limit { .. }) => without_search(rows, free, many, plans),
        Err(_) => None,
    }
}

/// Returns the objective value of plans.
fn measure(rows: &[Row], free: &[i64], many: bool, plans: &Plans) -> f64 {
    let value: f64 = plans.iter().map(|(i, _)| rows[*i].value).sum();
    let first = plans.iter().filter(|(_, p)| p.front() == Some(&true));
    let used: i64 = first.map(|(i, _)| rows[*i].gpus).sum();
    let most = free.iter().copied().max().unwrap_or(0).max(1);
    let part = used as f64 / most as f64;
    if many { value + part } else { value - part }
}

/// Builds plans without a search: current plans first, then the latest free leases for the other
/// jobs.
///
/// Then, widest job first, one lease of each job is moved into or out of the first lease if there
/// is room.
fn without_search(
    rows: &[Row],
    free: &[i64],
    many: bool,
    plans: &[Option<&VecDeque<bool>>],
) -> Option<Plans> {
    let mut left = free.to_vec();
    let mut found = Plans::new();
    for (i, plan) in plans.iter().enumerate() {
        let Some(plan) = plan else { continue };
        for (k, _) in plan.iter().enumerate().filter(|(_, on)| **on) {
            *left.get_mut(k)? -= rows[i].gpus;
        }
        found.push((i, (*plan).clone()));
    }
    if left.iter().any(|l| *l < 0) {
        return None;
    }
    let mut planned: BTreeSet<u32> = found.iter().map(|(i, _)| rows[*i].job).collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    sort::by(&mut order, |a, b| rows[*a].by_value(&rows[*b]));
    for i in order {
        let row = &rows[i];
        if !planned.contains(&row.job)
            && let Some(plan) = row.take(&mut left, 0)
        {
            planned.insert(row.job);
            found.push((i, plan));
        }
    }
    if rows.iter().any(|r| !planned.contains(&r.job)) {
        return None;
    }
    sort::by_key(&mut found, |(i, _)| (Reverse(rows[*i].gpus), *i));
    for (i, plan) in &mut found {
        let gpus = rows[*i].gpus;
        let runs = plan.front() == Some(&true);
        let mut others = (1..plan.len()).rev();
        let (from, to) = match (runs, many) {
            (false, true) => (others.find(|k| plan[*k]), Some(0)),
            (true, false) => (Some(0), others.find(|k| !plan[*k] && left[*k] >= gpus)),
            _ => continue,
        };
        let (Some(from), Some(to)) = (from, to) else {
            continue;
        };
        if left[to] >= gpus {
            plan.swap(from, to);
            left[from] += gpus;
            left[to] -= gpus;
        }
    }
    sort::by_key(&mut found, |(i, _)| *i);
    Some(found)
}

/// Returns the best plans that the search finds, and true if they are optimal.
fn search(rows: &[Row], free: &[i64], many: bool) -> Result<(Plans, bool), SolveError> {
    let span = rows.iter().map(|r| r.most).max().unwrap_or(0).max(0) as usize;
    let most_free = free.iter().copied().max().unwrap_or(0).max(1) as f64;
    let closed = closed(rows, span).ok_or(SolveError::Infeasible)?;
    let mut program = Program::maximise();
    let mut in_lease: Vec<Vec<(Var, f64)>> = vec![Vec::new(); span];
    let mut vars = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let chosen = program.binary(row.value);
        let mut leases = vec![None; row.most.max(0) as usize];
        for (k, lease) in leases.iter_mut().enumerate() {
            if closed.contains(&(i, k)) {
                continue;
            }
            let weight = match (k, many) {
                (0, true) => row.gpus as f64 / most_free,
                (0, false) => -row.gpus as f64 / most_free,
                _ => 0.0,
            };
            let var = program.binary(weight);
            in_lease[k].push((var, row.gpus as f64));
            *lease = Some(var);
        }
        let mut all: Vec<(Var, f64)> = leases.iter().flatten().map(|v| (*v, 1.0)).collect();
        all.push((chosen, -(row.need as f64)));
        program.equal(&all, 0.0);
        vars.push((chosen, leases));
    }
    for (row, free) in in_lease.iter().zip(free) {
        program.at_most(row, *free as f64);
    }
    // The first deadline of a job starts its rows.
    let mut of_job: Vec<(Var, f64)> = Vec::new();
    for (row, (chosen, _)) in rows.iter().zip(&vars) {
        if row.option == 0 && !of_job.is_empty() {
            program.equal(&of_job, 1.0);
            of_job.clear();
        }
        of_job.push((*chosen, 1.0));
    }
    program.equal(&of_job, 1.0);
    let solver = BranchAndBound { limit: Some(NODES) };
    let solution = solver.solve(&program)?;
    let on = |var: &Option<Var>| var.is_some_and(|v| solution[v] == 1.0);
    let chosen = vars.iter().enumerate();
    let chosen = chosen.filter(|(_, (chosen, _))| solution[*chosen] == 1.0);
    let plans = chosen.map(|(i, (_, leases))| (i, leases.iter().map(on).collect()));
    Ok((plans.collect(), solution.proven))
}

/// Returns the leases that are closed by an error of the original.
///
/// Quirk: the program counts the leases of a passed deadline back from the row's first variable,
/// into the rows before it. Returns `None` if these variables do not exist, in which case the
/// program fails.
fn closed(rows: &[Row], span: usize) -> Option<Vec<(usize, usize)>> {
    let mut closed = Vec::new();
    let all = rows.len() * span;
    for (i, row) in rows.iter().enumerate() {
        for back in 1..=row.most.min(0).unsigned_abs() as usize {
            // An index before the first variable wraps around to the last.
            let at = (all + i * span).checked_sub(back)? % all.max(1);
            closed.push((at / span.max(1), at % span.max(1)));
        }
    }
    Some(closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(job: u32, option: usize, most: i64, need: i64, gpus: i64, value: f64) -> Row {
        Row {
            job,
            option,
            most,
            need,
            gpus,
            value,
        }
    }

    fn text(plans: &Plans) -> Vec<(usize, String)> {
        let digit = |on: &bool| if *on { '1' } else { '0' };
        let plan = |p: &VecDeque<bool>| p.iter().map(digit).collect();
        plans.iter().map(|(i, p)| (*i, plan(p))).collect()
    }

    fn solved(rows: &[Row], free: &[i64], many: bool) -> Vec<(usize, String)> {
        text(&solve(rows, free, many, &vec![None; rows.len()]).unwrap())
    }

    #[test]
    fn starting_lease_is_used_or_left_by_the_objective() {
        let rows = [row(0, 0, 2, 1, 4, 10.0), row(1, 0, 2, 1, 2, 10.0)];
        let [used, left] = [true, false].map(|many| solved(&rows, &[6, 6], many));
        assert_eq!(used, [(0, "10".to_owned()), (1, "10".to_owned())]);
        assert_eq!(left, [(0, "01".to_owned()), (1, "01".to_owned())]);
        // With room for one job, the wider one runs first, and the other one after it.
        let narrow = solved(&rows, &[4, 4], true);
        assert_eq!(narrow, [(0, "10".to_owned()), (1, "01".to_owned())]);
    }

    #[test]
    fn the_deadlines_of_most_value_together_are_met() {
        // Only one of the two jobs can meet its first deadline.
        let rows = [
            row(0, 0, 1, 1, 4, 10.0),
            row(0, 1, 2, 1, 4, 9.0),
            row(1, 0, 1, 1, 4, 10.0),
            row(1, 1, 2, 1, 4, 5.0),
        ];
        let plans = solved(&rows, &[4, 4], true);
        assert_eq!(plans, [(1, "01".to_owned()), (2, "1".to_owned())]);
        assert_eq!(solve(&rows, &[4, 0], true, &[None; 4]), None);
    }

    #[test]
    fn passed_deadline_takes_leases_of_the_row_before() {
        let rows = [
            row(0, 0, 3, 1, 1, 10.0),
            row(1, 0, -2, 1, 1, 10.0),
            row(1, 1, 1, 1, 1, 5.0),
        ];
        assert_eq!(closed(&rows, 3), Some(vec![(0, 2), (0, 1)]));
        // The job could wait, but its leases 1 and 2 are closed.
        let plans = solved(&rows, &[2, 2, 2], false);
        assert_eq!(plans, [(0, "100".to_owned()), (2, "1".to_owned())]);
        // The row before the first one is the last one.
        assert_eq!(
            closed(&[row(0, 0, -1, 1, 1, 1.0), row(1, 0, 2, 1, 1, 1.0)], 2),
            Some(vec![(1, 1)])
        );
        assert_eq!(closed(&[row(0, 0, -3, 1, 1, 1.0)], 2), None);
    }

    #[test]
    fn without_a_search_plans_are_kept_and_leases_moved() {
        let rows = [
            row(0, 0, 3, 2, 4, 10.0),
            row(1, 0, 3, 1, 2, 10.0),
            row(2, 0, 2, 1, 2, 10.0),
        ];
        let has: VecDeque<bool> = [false, true, true].into();
        let plans = [Some(&has), None, None];
        let found = |many| without_search(&rows, &[6, 6, 6], many, &plans);
        let moved = |many| text(&found(many).unwrap());
        assert_eq!(
            moved(true),
            [(0, "110".into()), (1, "100".into()), (2, "01".into())]
        );
        assert_eq!(
            moved(false),
            [(0, "011".into()), (1, "001".into()), (2, "01".into())]
        );
        let best = solve(&rows, &[6, 6, 6], true, &plans).unwrap();
        let measure = |plans| measure(&rows, &[6, 6, 6], true, plans);
        assert_eq!(measure(&best), 31.0);
        assert_eq!(measure(&found(true).unwrap()), 31.0);
    }
}
