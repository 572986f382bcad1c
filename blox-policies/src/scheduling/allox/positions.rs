//! Matching of jobs with positions in the queues of GPUs.

use smallvec::SmallVec;

/// Seconds of a job on each GPU type; infinite on a type where it does not run.
pub(super) type Seconds = SmallVec<[f64; 4]>;

/// A job without GPUs.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// Units of all its GPUs.
    pub units: f64,
    /// Positions that it takes: the units of one of its GPUs.
    pub positions: usize,
    pub seconds: Seconds,
}

impl Waiting {
    /// Units times seconds on a type.
    pub fn area(&self, kind: usize) -> f64 {
        self.units * self.seconds[kind]
    }

    /// Seconds that the job adds to the sum of completion times, without the delay of its GPU.
    fn cost(&self, place: Place) -> f64 {
        let seconds = self.seconds[place.kind];
        match seconds.is_finite() {
            true => seconds + place.behind as f64 * self.area(place.kind),
            false => f64::INFINITY,
        }
    }

    /// Least units times seconds on any type.
    fn least_area(&self) -> f64 {
        let all = (0..self.seconds.len()).map(|kind| self.area(kind));
        all.fold(f64::INFINITY, f64::min)
    }
}

/// Positions of a type with the same number of jobs behind them.
#[derive(Clone, Copy, Debug)]
struct Place {
    kind: usize,
    behind: usize,
}

/// Jobs at a place.
#[derive(Debug)]
struct Group {
    place: Place,
    /// Number of taken positions. They are on the GPUs that are free first.
    taken: usize,
    /// Jobs that may still move to another group.
    jobs: Vec<usize>,
    /// Cheapest move of one of its jobs to each group, with the job. The job takes as many positions as
    /// the [last job](Matching::moving) that was added.
    moves: Vec<(f64, usize)>,
}

/// Largest number of jobs that are matched at least cost. The longest of more jobs get the last
/// positions one by one, each the cheapest that is left.
const MATCHED: usize = 192;

/// Relative difference below which two costs count as equal.
const ROUNDING: f64 = 1e-12;

/// Returns the GPU type of each job in the matching of least cost, or `None` for a job that runs on
/// no type.
///
/// A position has a number k of jobs behind it, on a GPU that is free after a delay. A job of one
/// GPU there costs its delay and k + 1 times its seconds: its own time, and the wait of the jobs
/// behind it. They wait for the GPU time of a job of several GPUs. If jobs have parts of GPUs, each
/// unit of a GPU has its positions: a GPU is some jobs with parts, side by side, or one job.
///
/// Each step of successive shortest paths adds a job, in descending order of least GPU time.
/// Positions of a type with the same number of jobs behind them differ by their delays only, so they
/// are one vertex with an ascending cost.
pub(super) fn cheapest_types(jobs: &[Waiting], delays: &[Vec<f64>]) -> Vec<Option<usize>> {
    let mut order: Vec<(f64, usize)> = jobs.iter().map(Waiting::least_area).zip(0..).collect();
    order.retain(|(area, _)| area.is_finite());
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let alone = order.len().saturating_sub(MATCHED);
    let mut matching = Matching {
        jobs,
        delays,
        groups: Vec::new(),
        types: vec![None; jobs.len()],
        moving: order.first().map_or(1, |(_, job)| jobs[*job].positions),
    };
    for kind in 0..delays.len() {
        matching.open(kind, 0);
    }
    for (at, (_, job)) in order.into_iter().enumerate() {
        matching.add(job, at < alone);
    }
    let Matching {
        groups, mut types, ..
    } = matching;
    for group in groups {
        group
            .jobs
            .iter()
            .for_each(|job| types[*job] = Some(group.place.kind));
    }
    types
}

struct Matching<'a> {
    jobs: &'a [Waiting],
    /// Seconds until each GPU of a type is free, ascending.
    delays: &'a [Vec<f64>],
    groups: Vec<Group>,
    /// Types of the jobs that do not move.
    types: Vec<Option<usize>>,
    /// Positions of each job that moves: jobs change places only with jobs of their size.
    moving: usize,
}

impl Matching<'_> {
    /// Adds an empty group.
    fn open(&mut self, kind: usize, behind: usize) {
        let place = Place { kind, behind };
        for group in &mut self.groups {
            let to = cheapest_move(self.jobs, &group.jobs, (group.place, place), self.moving);
            group.moves.push(to);
        }
        self.groups.push(Group {
            place,
            taken: 0,
            jobs: Vec::new(),
            moves: vec![(f64::INFINITY, 0); self.groups.len() + 1],
        });
    }

    /// Returns the delay of the last of the next positions of a group, or `None` if it has none left.
    fn delay(&self, group: usize, positions: usize) -> Option<f64> {
        let Group { place, taken, .. } = &self.groups[group];
        let before = |g: &&Group| g.place.kind == place.kind && g.place.behind + 1 == place.behind;
        let most = self.groups.iter().find(before).map(|g| g.taken);
        let delays = &self.delays[place.kind];
        let most = most.unwrap_or(delays.len()).min(delays.len());
        let last = (taken + positions - 1).min(most.wrapping_sub(1));
        (*taken < most).then(|| delays[last])
    }

    /// Adds a job. Others move if that is cheaper, unless it is added `alone`.
    fn add(&mut self, job: usize, alone: bool) {
        let count = self.groups.len();
        let positions = self.jobs[job].positions;
        if positions != self.moving && !alone {
            self.moving = positions;
            (0..count).for_each(|group| self.find_moves(group));
        }
        let mut cost: Vec<f64> = self
            .groups
            .iter()
            .map(|g| self.jobs[job].cost(g.place))
            .collect();
        let mut from: Vec<Option<usize>> = vec![None; count];
        if !alone {
            self.relax(&mut cost, &mut from);
        }
        let mut best: Option<(f64, usize)> = None;
        for (group, cost) in cost.iter().enumerate() {
            let Some(delay) = self.delay(group, positions) else {
                continue;
            };
            let sum = cost + delay;
            if sum.is_finite() && best.is_none_or(|(least, _)| sum < least) {
                best = Some((sum, group));
            }
        }
        let Some((_, last)) = best else { return };
        let opens = self.groups[last].taken == 0;
        self.groups[last].taken += positions;
        let Place { kind, behind } = self.groups[last].place;
        if alone {
            self.types[job] = Some(kind);
        }
        let mut changed = Vec::new();
        let mut to = last;
        // A chain visits each group at most once.
        for _ in 0..count {
            let Some(source) = from[to] else { break };
            let (_, moved) = self.groups[source].moves[to];
            self.groups[source].jobs.retain(|j| *j != moved);
            self.groups[to].jobs.push(moved);
            changed.push(to);
            to = source;
        }
        if !alone {
            self.groups[to].jobs.push(job);
            changed.push(to);
        }
        for group in changed {
            self.find_moves(group);
        }
        if opens {
            self.open(kind, behind + 1);
        }
    }

    /// Finds the cheapest moves from a group.
    fn find_moves(&mut self, group: usize) {
        for to in 0..self.groups.len() {
            let Group { place, jobs, .. } = &self.groups[group];
            let there = self.groups[to].place;
            let found = cheapest_move(self.jobs, jobs, (*place, there), self.moving);
            self.groups[group].moves[to] = found;
        }
    }

    /// Lowers the cost of each group by chains of moves.
    fn relax(&self, cost: &mut [f64], from: &mut [Option<usize>]) {
        let mut queue: Vec<usize> = (0..cost.len()).collect();
        // Without rounding, no chain has more moves than there are groups.
        for _ in 0..=cost.len() {
            let mut lowered = Vec::new();
            for source in queue {
                if !cost[source].is_finite() {
                    continue;
                }
                for (to, (by, _)) in self.groups[source].moves.iter().enumerate() {
                    let new = cost[source] + by;
                    if new < cost[to] - ROUNDING * cost[to].abs().min(f64::MAX) {
                        cost[to] = new;
                        from[to] = Some(source);
                        lowered.push(to);
                    }
                }
            }
            if lowered.is_empty() {
                return;
            }
            lowered.sort_unstable();
            lowered.dedup();
            queue = lowered;
        }
    }
}

/// Returns the least cost of a move of one of some jobs from a place to another, with the job. It
/// takes a number of positions.
fn cheapest_move(
    all: &[Waiting],
    jobs: &[usize],
    (from, to): (Place, Place),
    positions: usize,
) -> (f64, usize) {
    let mut best = (f64::INFINITY, 0);
    for job in jobs.iter().filter(|job| all[**job].positions == positions) {
        let by = all[*job].cost(to) - all[*job].cost(from);
        if by < best.0 {
            best = (by, *job);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(seconds: &[f64]) -> Waiting {
        Waiting {
            units: 1.0,
            positions: 1,
            seconds: Seconds::from_slice(seconds),
        }
    }

    /// Least sum of completion times if these jobs of one GPU run on these types. On GPUs of one
    /// type, the shortest job goes to the GPU that is free first.
    fn sum(jobs: &[Waiting], delays: &[Vec<f64>], types: &[usize]) -> f64 {
        let on = |(kind, delays): (usize, &Vec<f64>)| -> f64 {
            let own = jobs.iter().zip(types).filter(|(_, t)| **t == kind);
            let mut own: Vec<f64> = own.map(|(job, _)| job.seconds[kind]).collect();
            own.sort_by(f64::total_cmp);
            let mut free = delays.clone();
            let end = |seconds: f64| {
                free.sort_by(f64::total_cmp);
                free[0] += seconds;
                free[0]
            };
            own.into_iter().map(end).sum()
        };
        delays.iter().enumerate().map(on).sum()
    }

    #[test]
    fn cheapest_types_cost_no_more_than_any_other() {
        let mut state = 3_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for case in 0..300 {
            let mut busy = |gpus: u64| -> Vec<f64> {
                let mut delays: Vec<f64> = (0..gpus).map(|_| (draw(4) * draw(30)) as f64).collect();
                delays.sort_by(f64::total_cmp);
                delays
            };
            let delays = [busy(2), busy(1 + case % 3)];
            let jobs: Vec<Waiting> = (0..7)
                .map(|_| {
                    let fast = 1.0 + draw(40) as f64;
                    let slow =
                        [fast * (1.0 + draw(9) as f64), f64::INFINITY][usize::from(draw(8) == 0)];
                    one(&[fast, slow])
                })
                .collect();
            let found: Option<Vec<usize>> = cheapest_types(&jobs, &delays).into_iter().collect();
            let found = sum(&jobs, &delays, &found.unwrap());
            let all = (0..1_usize << jobs.len()).map(|bits| {
                let types: Vec<usize> = (0..jobs.len()).map(|i| bits >> i & 1).collect();
                sum(&jobs, &delays, &types)
            });
            let best = all.fold(f64::INFINITY, f64::min);
            assert!(
                (found - best).abs() < 1e-6,
                "case {case}: {found}, best {best}"
            );
        }
    }

    #[test]
    fn cheapest_types_equal_the_whole_matrix() {
        let mut state = 5_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for case in 0..20 {
            let mut busy = |gpus: u64| -> Vec<f64> {
                let mut delays: Vec<f64> =
                    (0..gpus).map(|_| (draw(3) * draw(900)) as f64).collect();
                delays.sort_by(f64::total_cmp);
                delays
            };
            let delays = [busy(3), busy(2), busy(1)];
            let jobs: Vec<Waiting> = (0..25)
                .map(|_| one(&[0; 3].map(|_| 1.0 + draw(500) as f64)))
                .collect();
            // A column for each GPU and number of jobs behind.
            let gpus: Vec<(usize, f64)> = (0..3)
                .flat_map(|kind| delays[kind].iter().map(move |delay| (kind, *delay)))
                .collect();
            let cost = |job: usize, column: usize| {
                let (kind, delay) = gpus[column % gpus.len()];
                delay + (column / gpus.len() + 1) as f64 * jobs[job].seconds[kind]
            };
            let columns = blox_solve::assign(jobs.len(), gpus.len() * jobs.len(), cost);
            let best = columns.iter().enumerate().map(|(i, j)| cost(i, j.unwrap()));
            let best: f64 = best.sum();
            let found: Option<Vec<usize>> = cheapest_types(&jobs, &delays).into_iter().collect();
            let found = sum(&jobs, &delays, &found.unwrap());
            assert!(
                (found - best).abs() < 1e-6,
                "case {case}: {found}, best {best}"
            );
        }
    }

    #[test]
    fn cheapest_types_count_the_time_until_a_gpu_is_free() {
        let job = [one(&[100.0, 1000.0])];
        assert_eq!(cheapest_types(&job, &[vec![800.0], vec![0.0]]), [Some(0)]);
        assert_eq!(cheapest_types(&job, &[vec![950.0], vec![0.0]]), [Some(1)]);
    }

    #[test]
    fn types_beyond_the_matched_jobs_are_known() {
        let all: Vec<Waiting> = (0..2 * MATCHED)
            .map(|i| one(&[1.0 + i as f64, 3.0]))
            .collect();
        let types = cheapest_types(&all, &[vec![0.0; 2], vec![0.0; 3]]);
        assert!(types.iter().all(Option::is_some));
    }
}
