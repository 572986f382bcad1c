//! Elastic expansion: distributes the GPUs that deadlines leave, level by level.

use super::free::Free;
use super::plan::{Begun, Grid, Plan, Task, fill, minimum};
use blox_core::{JobId, Seconds, SortedMap};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rank of an offer, the least first: additional GPU-seconds of the job in total, for each
/// additional GPU now. Jobs without GPUs come before equal ones.
type Rank = (Seconds, bool);

/// The next level of a job, and its rank.
struct Offer {
    gpus: u32,
    rank: Rank,
    /// Its plan with that level, if it is planned.
    plan: Option<Plan>,
}

/// Period in which no plan changes.
pub(super) struct Window {
    pub now: f64,
    pub until: Option<f64>,
    pub grid: Grid,
}

/// Gives free GPUs to jobs until the window ends. Planned jobs get new plans; the GPUs of the other
/// jobs are returned.
pub(super) fn expand(
    window: &Window,
    tasks: &[(JobId, Task)],
    plans: &mut SortedMap<JobId, Plan>,
    free: &mut Free,
    grow: bool,
) -> SortedMap<JobId, u32> {
    let mut spare: SortedMap<JobId, u32> = SortedMap::new();
    // Older jobs come first among equals.
    let mut queue: BinaryHeap<Reverse<(Rank, usize)>> = BinaryHeap::new();
    let mut scratch = Free::default();
    for (job, (id, task)) in tasks.iter().enumerate() {
        let has = plans.get(id).map_or(0, |p| p.at(window.now));
        if !grow && (has > 0 || task.due.is_some()) {
            continue;
        }
        if let Some(offer) = offer(window, task, plans.get(id), has, free, &mut scratch) {
            queue.push(Reverse((offer.rank, job)));
        }
    }
    while let Some(Reverse((queued, job))) = queue.pop() {
        if free.is_full() {
            break;
        }
        let (id, task) = &tasks[job];
        let planned = plans.get(id);
        let has = planned.map_or_else(|| spare.get(id).copied().unwrap_or(0), |p| p.at(window.now));
        // The offer may have become worse since it was queued.
        let Some(offer) = offer(window, task, planned, has, free, &mut scratch) else {
            continue;
        };
        let now = Reverse((offer.rank, job));
        if queue.peek().is_some_and(|next| now < *next) {
            queue.push(now);
            continue;
        }
        match offer.plan {
            Some(plan) => {
                if let Some(old) = plans.get(id) {
                    free.commit(task.seat, old, window.now, true);
                }
                free.commit(task.seat, &plan, window.now, false);
                plans.insert(*id, plan);
            }
            None => {
                let held = |gpus| Plan {
                    steps: vec![(window.now, gpus)],
                    end: window.until.unwrap_or(f64::MAX),
                };
                free.commit(task.seat, &held(has), window.now, true);
                free.commit(task.seat, &held(offer.gpus), window.now, false);
                spare.insert(*id, offer.gpus);
            }
        }
        if grow {
            // The job is reconsidered in its turn; its next offer is at most as good.
            queue.push(Reverse((queued.max(offer.rank), job)));
        }
    }
    spare
}

/// Returns the offer of the next level, or `None` if there is no level or no room.
fn offer(
    window: &Window,
    task: &Task,
    planned: Option<&Plan>,
    has: u32,
    free: &Free,
    scratch: &mut Free,
) -> Option<Offer> {
    let (gpus, rate) = task.next(has)?;
    let need = gpus - has;
    if i64::from(gpus) > free.now(task.seat, has) || rate <= 0.0 {
        return None;
    }
    let (now, until) = (window.now, window.until.unwrap_or(f64::MAX));
    // GPU times that differ by less than a millisecond are equal but for rounding.
    let rank = |more: f64| {
        let waste = (more / f64::from(need) * 1e3).round() / 1e3;
        (Seconds::new(waste), has > 0)
    };
    let Some(plan) = planned else {
        // Without a plan, the GPU time is what the job needs at this pace. Without GPUs, it would
        // later run on its smallest level.
        let pace = |g: u32| task.left * f64::from(g) / task.level(g.into(), g).1;
        let more = match has {
            0 => 0.0,
            has => pace(gpus) - pace(has),
        };
        return Some(Offer {
            gpus,
            rank: rank(more),
            plan: None,
        });
    };
    scratch.copy_from(free);
    scratch.commit(task.seat, plan, now, true);
    let first = Plan {
        steps: vec![(now, gpus)],
        end: until,
    };
    let work = (until - now) * rate;
    let new = if work >= task.left {
        let grid = window.grid;
        // Even a tiny amount of work takes a slot.
        let end = grid.ceil(now + task.left / rate).max(grid.after(now));
        Plan {
            end: end.min(until),
            ..first
        }
    } else {
        let left = task.left - work;
        let begun = Begun {
            plan: first,
            upto: window.until?,
            left,
        };
        let line = scratch.of(task.seat);
        match task.due {
            Some(due) if plan.end <= due => minimum(task, window.grid, &line, begun)?,
            // A job that is late in any case runs as fast as it can.
            _ => fill(task, window.grid, &line, task.top(), begun)?,
        }
    };
    Some(Offer {
        gpus,
        rank: rank(new.gpu_time(now) - plan.gpu_time(now)),
        plan: Some(new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_sets::{Seat, TypeSets};
    use std::sync::Arc;

    fn task(left: f64, levels: &[(u32, f64)]) -> Task {
        Task {
            left,
            due: None,
            levels: levels.into(),
            seat: Seat {
                set: 0,
                weight: 1.0,
            },
        }
    }

    #[test]
    fn expand_offer_that_got_worse_waits_its_turn() {
        let window = Window {
            now: 0.0,
            until: None,
            grid: Grid { slot: 60.0 },
        };
        // Waste per additional GPU, in GPU-seconds: the first job wastes 11 with two GPUs and 44
        // with four, the second job 18 and 30.
        let tasks = [
            (JobId(0), task(100.0, &[(1, 1.0), (2, 1.8), (4, 2.0)])),
            (JobId(1), task(100.0, &[(1, 1.0), (2, 1.7), (4, 2.25)])),
        ];
        let shares = |gpus: u32| {
            let mut line = Free::whole(Arc::new(TypeSets::whole(gpus)), 0.0);
            let spare = expand(&window, &tasks, &mut SortedMap::new(), &mut line, true);
            let left = line.line()[0].1;
            (spare.into_values().collect::<Vec<u32>>(), left)
        };
        assert_eq!(shares(3), (vec![2, 1], 0));
        assert_eq!(shares(4), (vec![2, 2], 0));
        // Two more GPUs are worth less to the first job than its first two were.
        assert_eq!(shares(6), (vec![2, 4], 0));
        assert_eq!(shares(8), (vec![4, 4], 0));
    }
}
