//! Leases for jobs with deadlines.

use super::listed::list_fitting;
use crate::type_sets::{GpusByType, Seat, TypeSets};
use blox_core::{
    AdmissionDecisions, AdmissionPolicy, Answer, Class, Deadline, JobId, JobQueue, JobRef, Policy,
    SchedulingPolicy, Seconds, Shape, SortedMap, Time, Validity, View, sort,
};
use blox_solve::{Program, Solver, Var};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Choice among new jobs with deadlines that arrive together.
#[derive(Clone, Default)]
pub enum LeaseChoice {
    /// Considers deadlines one by one, in order of value, then of the job's GPUs. Each job gets the
    /// latest leases that are left.
    #[default]
    Greedy,
    /// Maximises the total value of the deadlines that are met, and then saves GPUs. If `Greedy`
    /// refuses a deadline, a program of whole numbers for this solver looks for a choice of greater
    /// value. Its jobs get leases as late as possible.
    Optimal(Arc<dyn Solver + Send + Sync>),
}

/// Leases for jobs with deadlines; best-effort jobs use the rest (Chronus, SoCC 2021).
///
/// Time is divided into leases; decisions should fall on their multiples. A job is accepted if
/// enough leases before one of its deadlines are free for all its work. They are then reserved, and
/// the job is promised that deadline. Otherwise it runs as best-effort. A reservation rounds the
/// GPUs of a job up to a power of two, or to all GPUs that it accepts. So few nodes suffice for each
/// job of a lease. Leases of a job that accepts only some GPU types are on these. If two jobs accept
/// sets of types that overlap, and none contains the other, a lease counts in both sets.
///
/// A job with a reservation keeps its GPUs for the whole lease. In each decision, all other GPUs go
/// to best-effort jobs by least remaining time, as long as they fit. Accepted jobs that run ahead
/// of their leases come last. Remaining times are the true values. After a crash or an overhead, an
/// accepted job may have too few leases left. It then gets more if there are any, and otherwise
/// keeps its leases. Plans are limited to a million leases ahead: a job that needs more runs as
/// best-effort.
#[derive(Clone)]
pub struct Chronus {
    lease: f64,
    choice: LeaseChoice,
}

/// Leases reserved for each job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Leases {
    /// Reserved leases of accepted jobs, by number, ascending.
    plans: SortedMap<JobId, Vec<u64>>,
    /// Number of the last lease that began.
    begun: Option<u64>,
    /// Jobs with a reservation in that lease, ascending.
    holders: Vec<JobId>,
}

/// Maximum number of leases that a plan reaches ahead.
const FURTHEST: u64 = 1_000_000;

/// Leases that a job needs for one of its deadlines.
#[derive(Clone, Copy, Debug)]
struct Wish {
    job: JobId,
    /// Number of GPUs to reserve.
    gpus: u32,
    /// Its place among the sets of GPU types.
    seat: Seat,
    /// Number of leases that it needs before lease `until`.
    needed: u64,
    until: u64,
    deadline: Deadline,
}

/// Leases for some wishes, at most one of each job.
type Plans = Vec<(Wish, Vec<u64>)>;

/// Returns the number of GPUs to reserve for a job, out of `total`.
fn reserved(job: &JobRef<'_>, total: u32) -> u32 {
    let gpus = job.gpus().get();
    let rounded = gpus.checked_next_power_of_two().unwrap_or(gpus);
    // All GPUs lie on as few nodes as there are.
    rounded.min(total).max(gpus)
}

/// GPUs that are left in each lease from `first` on, for each set of GPU types that jobs accept.
#[derive(Clone)]
struct Left {
    sets: Arc<TypeSets>,
    first: u64,
    leases: Vec<Vec<i64>>,
}

impl Left {
    /// All GPUs, until before lease `until`.
    fn whole(sets: &Arc<TypeSets>, first: u64, until: u64) -> Self {
        let each: Vec<i64> = sets.sizes().iter().map(|gpus| i64::from(*gpus)).collect();
        Left {
            sets: Arc::clone(sets),
            first,
            leases: vec![each; until.saturating_sub(first) as usize],
        }
    }

    /// Returns the number of the first lease after all.
    fn until(&self) -> u64 {
        self.first + self.leases.len() as u64
    }

    /// Returns whether the GPUs of a wish are left in a lease.
    fn has(&self, wish: &Wish, lease: u64) -> bool {
        let left = self.leases.get((lease - self.first) as usize);
        left.is_some_and(|left| {
            self.sets.room(wish.seat, |line| left[line]) >= i64::from(wish.gpus)
        })
    }

    /// Takes the GPUs of a job in each of some leases.
    fn take(&mut self, seat: Seat, gpus: u32, leases: &[u64]) {
        for k in leases {
            let left = &mut self.leases[(k - self.first) as usize];
            self.sets.take(seat, gpus, left);
        }
    }

    /// Takes all GPUs of a lease.
    fn close(&mut self, lease: u64) {
        self.leases[(lease - self.first) as usize].fill(0);
    }
}

impl Chronus {
    /// Creates the policy with leases of this length, above 0 (else 1 s).
    pub fn new(lease: Seconds) -> Self {
        let lease = lease.secs();
        Chronus {
            lease: if lease > 0.0 { lease } else { 1.0 },
            choice: LeaseChoice::default(),
        }
    }

    /// Sets the choice among jobs that arrive together.
    #[must_use]
    pub fn choosing(mut self, choice: LeaseChoice) -> Self {
        self.choice = choice;
        self
    }

    /// Returns the number of the lease that begins now or next.
    fn first_lease(&self, view: View<'_>) -> u64 {
        let now = view.now().secs();
        let k = (now / self.lease).round();
        if k * self.lease == now {
            k as u64
        } else {
            (now / self.lease).ceil() as u64
        }
    }

    /// Returns whether a lease is under way, and the next is `first`.
    fn is_between(&self, view: View<'_>, first: u64) -> bool {
        first as f64 * self.lease != view.now().secs()
    }

    fn wish(
        &self,
        memory: &Leases,
        view: View<'_>,
        job: &JobRef<'_>,
        deadline: Deadline,
        first: u64,
        sets: &TypeSets,
    ) -> Wish {
        let seat = sets.seat(view, job, &Shape::gang(job));
        let mut leases = job.truth().work_left() / job.own_rate() / self.lease;
        if job.is_placed() && memory.holds(job.id()) {
            // It does this work in the lease that is under way.
            leases -= first as f64 - view.now().secs() / self.lease;
        }
        if memory.plans.contains_key(&job.id()) {
            // Rounding of its progress must not cost a lease.
            leases -= 1e-9;
        }
        let needed = leases.ceil().max(0.0) as u64;
        // Bounds the plan of a job with a distant deadline.
        let ahead = needed.saturating_mul(4).saturating_add(10_000);
        let until = (deadline.at.secs() / self.lease).floor().max(0.0) as u64;
        Wish {
            job: job.id(),
            gpus: reserved(job, sets.size(seat)),
            seat,
            needed,
            until: until.min(first.saturating_add(ahead.min(FURTHEST))),
            deadline,
        }
    }

    /// Returns the GPUs that plans leave in each lease from `first` until before `until`.
    fn left_over(
        &self,
        memory: &Leases,
        view: View<'_>,
        first: u64,
        until: u64,
        sets: &Arc<TypeSets>,
    ) -> Left {
        let mut left = Left::whole(sets, first, until);
        for (job, leases) in &memory.plans {
            let Some(job) = view.job(*job) else { continue };
            let seat = sets.seat(view, &job, &Shape::gang(&job));
            let gpus = reserved(&job, sets.size(seat));
            for k in leases.iter().filter(|k| **k >= first && **k < until) {
                left.take(seat, gpus, &[*k]);
            }
        }
        left
    }

    /// Returns the sets of GPU types that active jobs, and jobs that ask for admission, accept.
    fn sets(view: View<'_>, asking: &[JobId]) -> Arc<TypeSets> {
        let asking = asking.iter().filter_map(|id| view.job(*id));
        let jobs = view.active().chain(asking);
        let jobs: Vec<(JobRef<'_>, Shape)> = jobs.map(|j| (j, Shape::gang(&j))).collect();
        let known = jobs.iter().map(|(job, shape)| (*job, shape));
        Arc::new(TypeSets::safe(view, GpusByType::usable(view), known))
    }

    /// Returns the latest suitable leases, if there are enough.
    fn latest(wish: &Wish, left: &Left) -> Option<Vec<u64>> {
        let open = (left.first..wish.until).rev();
        let open = open.filter(|k| left.has(wish, *k));
        let mut leases: Vec<u64> = open.take(wish.needed as usize).collect();
        leases.reverse();
        (leases.len() as u64 == wish.needed).then_some(leases)
    }

    /// Returns leases for all wishes, as late as possible, within the GPUs that are left. From the
    /// last lease backward, the jobs with the fewest leases to spare come first.
    fn packed(wishes: &[Wish], left: &Left) -> Option<Plans> {
        let (first, mut left) = (left.first, left.clone());
        let mut rest: Vec<u64> = wishes.iter().map(|w| w.needed).collect();
        let mut plans: Plans = wishes.iter().map(|w| (*w, Vec::new())).collect();
        let mut open: Vec<usize> = Vec::new();
        let end = left.until();
        let mut next = end;
        loop {
            let until = |i: &usize| wishes[*i].until.min(end);
            let waiting = (0..wishes.len()).filter(|i| rest[*i] > 0);
            let Some(last) = waiting.map(|i| until(&i)).max().map(|u| u.min(next)) else {
                break;
            };
            if last <= first {
                return None;
            }
            let lease = last - 1;
            open.clear();
            open.extend((0..wishes.len()).filter(|i| rest[*i] > 0 && until(i) > lease));
            open.sort_by_key(|i| {
                let spare = lease as i64 + 1 - first as i64 - rest[*i] as i64;
                (spare, std::cmp::Reverse(wishes[*i].gpus), wishes[*i].job)
            });
            for &i in &open {
                if left.has(&wishes[i], lease) {
                    left.take(wishes[i].seat, wishes[i].gpus, &[lease]);
                    rest[i] -= 1;
                    plans[i].1.push(lease);
                }
            }
            next = lease;
        }
        for (_, leases) in &mut plans {
            leases.reverse();
        }
        Some(plans)
    }

    /// Returns the new plans of greatest total value: the plans of the program if it serves more
    /// than `Greedy`.
    fn choose_best(wishes: &mut [Wish], left: Left, solver: &dyn Solver) -> Plans {
        let value = |plans: &Plans| plans.iter().map(|(w, _)| w.deadline.value).sum::<f64>();
        let greedy = Self::choose_greedily(wishes, left.clone());
        let mut most: SortedMap<JobId, f64> = SortedMap::new();
        for wish in wishes.iter() {
            let most = most.entry(wish.job).or_default();
            *most = most.max(wish.deadline.value);
        }
        // Less is a rounding error, or saved GPUs.
        let least = value(&greedy) * (1.0 + 1e-6);
        if most.values().sum::<f64>() <= least {
            return greedy;
        }
        match Self::choose(wishes, &left, solver) {
            Some(plans) if value(&plans) > least => {
                // The program does not choose the latest leases.
                let chosen: Vec<Wish> = plans.iter().map(|(wish, _)| *wish).collect();
                Self::packed(&chosen, &left).unwrap_or(plans)
            }
            _ => greedy,
        }
    }

    /// Returns the wishes of the accepted jobs for the rest of their work.
    fn accepted(&self, memory: &Leases, view: View<'_>, first: u64, sets: &TypeSets) -> Vec<Wish> {
        let jobs = view.active().filter(|j| memory.plans.contains_key(&j.id()));
        let wishes = jobs.filter_map(|j| {
            let deadline = Deadline {
                at: j.deadline()?,
                value: 1.0,
            };
            Some(self.wish(memory, view, &j, deadline, first, sets))
        });
        wishes.collect()
    }

    fn choose_greedily(wishes: &mut [Wish], mut left: Left) -> Plans {
        let first = left.first;
        sort::by(wishes, |a, b| {
            let slack = |w: &Wish| w.until.saturating_sub(first.saturating_add(w.needed));
            let value = b.deadline.value.total_cmp(&a.deadline.value);
            let width = value.then(b.gpus.cmp(&a.gpus));
            width.then((slack(a), a.job).cmp(&(slack(b), b.job)))
        });
        let mut plans = Plans::new();
        for wish in wishes {
            if plans.iter().any(|(other, _)| other.job == wish.job) {
                continue;
            }
            if let Some(leases) = Self::latest(wish, &left) {
                left.take(wish.seat, wish.gpus, &leases);
                plans.push((*wish, leases));
            }
        }
        plans
    }

    /// Returns the wishes of greatest total value that fit, with their leases.
    fn choose(wishes: &[Wish], left: &Left, solver: &dyn Solver) -> Option<Plans> {
        let (first, ahead) = (left.first, left.leases.len());
        let mut program = Program::maximise();
        let mut in_lease: Vec<Vec<(Var, f64)>> = vec![Vec::new(); ahead * left.sets.sizes().len()];
        let mut of_job: SortedMap<JobId, Vec<(Var, f64)>> = SortedMap::new();
        let mut rows = Vec::new();
        let needs = |w: &Wish| w.needed as f64 * f64::from(w.gpus);
        let total = wishes.iter().map(needs).sum::<f64>().max(1.0);
        for wish in wishes {
            let span = wish.until.saturating_sub(first).min(ahead as u64);
            if wish.needed > span {
                continue;
            }
            // Among choices of equal value, the one that needs the least is the best.
            let saved = 1.0 - 1e-7 * needs(wish) / total;
            let chosen = program.binary(wish.deadline.value * saved);
            let leases: Vec<Var> = (0..span).map(|_| program.binary(0.0)).collect();
            let mut row: Vec<(Var, f64)> = leases.iter().map(|v| (*v, 1.0)).collect();
            row.push((chosen, -(wish.needed as f64)));
            program.equal(&row, 0.0);
            for (k, var) in leases.iter().enumerate() {
                for (line, gpus) in left.sets.taken(wish.seat, wish.gpus) {
                    in_lease[line * ahead + k].push((*var, f64::from(gpus)));
                }
            }
            of_job.entry(wish.job).or_default().push((chosen, 1.0));
            rows.push((*wish, chosen, leases));
        }
        for (i, row) in in_lease.iter().enumerate() {
            if !row.is_empty() {
                program.at_most(row, left.leases[i % ahead][i / ahead].max(0) as f64);
            }
        }
        for (_, row) in &of_job {
            program.at_most(row, 1.0);
        }
        let solution = solver.solve(&program).ok()?;
        let chosen = rows.into_iter().filter(|(_, s, _)| solution[*s] == 1.0);
        let plans = chosen.map(|(wish, _, leases)| {
            let on = (first..)
                .zip(leases)
                .filter(|(_, var)| solution[*var] == 1.0);
            (wish, on.map(|(k, _)| k).collect())
        });
        Some(plans.collect())
    }

    /// Begins a lease if one has begun since the last decision. Then removes past leases and leases
    /// that are no longer needed, and reserves missing ones.
    fn tidy(&self, memory: &mut Leases, view: View<'_>, first: u64, sets: &Arc<TypeSets>) {
        let between = self.is_between(view, first);
        let begun = first.saturating_sub(u64::from(between));
        if memory.begun != Some(begun) {
            memory.begun = Some(begun);
            memory.holders.clear();
            if between {
                // No decision fell on its beginning.
                let held = memory.plans.iter().filter(|(_, l)| l.contains(&begun));
                memory.holders = held.map(|(job, _)| *job).collect();
            }
        }
        let mut short = Vec::new();
        let accepted = self.accepted(memory, view, first, sets).into_iter();
        let wishes: SortedMap<JobId, Wish> = accepted.map(|wish| (wish.job, wish)).collect();
        memory.plans.retain(|job, leases| {
            let Some(wish) = wishes.get(job) else {
                return false;
            };
            leases.retain(|k| *k >= first);
            let spare = (leases.len() as u64).saturating_sub(wish.needed);
            leases.drain(..spare as usize);
            if (leases.len() as u64) < wish.needed {
                short.push(*wish);
            }
            true
        });
        for mut wish in short {
            let mut left = self.left_over(memory, view, first, wish.until.max(first), sets);
            let has = memory.plans.get(&wish.job).cloned().unwrap_or_default();
            for k in has.iter().filter(|k| **k < wish.until) {
                // A job cannot reserve a lease twice.
                left.close(*k);
            }
            wish.needed -= has.len() as u64;
            if let Some(more) = Self::latest(&wish, &left) {
                let mut leases = [has, more].concat();
                leases.sort_unstable();
                memory.plans.insert(wish.job, leases);
            }
        }
        if !between {
            memory.hold(first);
        }
    }
}

impl Leases {
    /// Gives the lease that begins to the jobs that reserved it.
    fn hold(&mut self, lease: u64) {
        let held = self.plans.iter().filter(|(_, l)| l.first() == Some(&lease));
        self.holders = held.map(|(job, _)| *job).collect();
    }

    /// Returns whether a job reserved the lease that is under way.
    fn holds(&self, job: JobId) -> bool {
        self.holders.binary_search(&job).is_ok()
    }
}

impl Policy for Chronus {
    type Memory = Leases;

    fn initial(&self, _: u64) -> Leases {
        Leases::default()
    }
}

impl AdmissionPolicy for Chronus {
    fn admit(
        &self,
        memory: &mut Self::Memory,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        if asking.is_empty() {
            return Validity::UntilEvent;
        }
        let first = self.first_lease(view);
        let sets = Self::sets(view, asking);
        self.tidy(memory, view, first, &sets);
        let mut wishes = Vec::new();
        let jobs = asking.iter().filter_map(|id| view.job(*id));
        for job in jobs.filter(|j| j.class() == Class::Guaranteed) {
            let deadlines = &job.spec().extras().deadlines;
            wishes.extend(
                deadlines
                    .iter()
                    .map(|d| self.wish(memory, view, &job, *d, first, &sets)),
            );
        }
        let until = wishes.iter().map(|w| w.until).max().unwrap_or(first);
        let left = self.left_over(memory, view, first, until, &sets);
        let chosen = match &self.choice {
            LeaseChoice::Greedy => Self::choose_greedily(&mut wishes, left),
            LeaseChoice::Optimal(solver) => Self::choose_best(&mut wishes, left, &**solver),
        };
        let mut promised = SortedMap::new();
        for (wish, leases) in chosen {
            promised.insert(wish.job, wish.deadline.at);
            memory.plans.insert(wish.job, leases);
        }
        for &id in asking {
            let deadline = view.job(id).and_then(|j| j.deadline());
            match promised.get(&id).copied() {
                None if deadline.is_some() => {
                    out.accept_as(id, Some(Class::BEST_EFFORT), None);
                }
                later => out.accept_as(id, None, later.filter(|at| Some(*at) != deadline)),
            }
        }
        Validity::UntilEvent
    }
}

impl SchedulingPolicy for Chronus {
    fn schedule(&self, memory: &mut Self::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let first = self.first_lease(view);
        let sets = Self::sets(view, &[]);
        self.tidy(memory, view, first, &sets);
        let mut order: Vec<(u8, f64, JobId)> = view
            .active()
            .map(|job| {
                let left = job.truth().work_left() / job.own_rate();
                let rank = match memory.plans.contains_key(&job.id()) {
                    _ if memory.holds(job.id()) => 0,
                    false => 1,
                    true => 2,
                };
                (rank, left, job.id())
            })
            .collect();
        order.sort_by(|a, b| {
            let rank = a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
            rank.then(a.2.cmp(&b.2))
        });
        let validity = list_fitting(view, out, order.into_iter().map(|(_, _, job)| job));
        if memory.plans.is_empty() {
            return Ok(validity);
        }
        // The next lease has other holders.
        let next = first + u64::from(!self.is_between(view, first));
        Ok(validity.and(Validity::Until(Time::new(next as f64 * self.lease))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(job: u32, gpus: u32, needed: u64, until: u64) -> Wish {
        let deadline = Deadline {
            at: Time::ZERO,
            value: 1.0,
        };
        Wish {
            job: JobId(job),
            gpus,
            seat: Seat {
                set: 0,
                weight: 1.0,
            },
            needed,
            until,
            deadline,
        }
    }

    fn left(first: u64, gpus: &[i64]) -> Left {
        let sets = Arc::new(TypeSets::whole(4));
        Left {
            sets,
            first,
            leases: gpus.iter().map(|gpus| vec![*gpus]).collect(),
        }
    }

    #[test]
    fn leases_are_set_aside_as_late_as_they_may() {
        assert_eq!(
            Chronus::latest(&wish(0, 2, 2, 5), &left(1, &[4, 4, 1, 4])),
            Some(vec![2, 4])
        );
        assert_eq!(
            Chronus::latest(&wish(0, 2, 4, 5), &left(1, &[4, 4, 1, 4])),
            None
        );
    }

    #[test]
    fn reservation_takes_gpus_of_its_leases_only() {
        let (mut left, wish) = (left(2, &[4, 4, 4]), wish(0, 3, 2, 5));
        left.take(wish.seat, wish.gpus, &[2, 4]);
        assert_eq!(left.leases.concat(), [1, 4, 1]);
    }

    #[test]
    fn chosen_leases_are_as_late_as_they_may() {
        let solver = blox_microlp::BranchAndBound { limit: Some(1000) };
        // Greed takes the wide job for the only lease before its deadline.
        let mut wishes = [
            wish(0, 4, 1, 1),
            wish(1, 2, 1, 1),
            wish(2, 2, 2, 5),
            wish(3, 2, 1, 1),
        ];
        let best = Chronus::choose_best(&mut wishes, left(0, &[4; 5]), &solver);
        let mut leases: Vec<(u32, Vec<u64>)> =
            best.into_iter().map(|(w, on)| (w.job.0, on)).collect();
        leases.sort();
        assert_eq!(leases, [(1, vec![0]), (2, vec![3, 4]), (3, vec![0])]);
    }

    #[test]
    fn packed_leases_exist_if_any_do() {
        // Each needs two of three leases, so no lease may be left to the last two alone.
        let all = [wish(0, 2, 2, 3), wish(1, 2, 2, 3), wish(2, 2, 2, 3)];
        let plans = Chronus::packed(&all, &left(0, &[4, 4, 4])).unwrap();
        assert!(plans.iter().all(|(_, on)| on.len() == 2), "{plans:?}");
        assert!(Chronus::packed(&all, &left(0, &[4, 4, 2])).is_none());
        // Deadlines far apart, and none before the first lease.
        let far = [wish(0, 4, 1, 9), wish(1, 4, 1, 2)];
        let plans = Chronus::packed(&far, &left(0, &[4; 9])).unwrap();
        assert_eq!([&plans[0].1, &plans[1].1], [&vec![8], &vec![1]]);
    }

    /// Returns whether the leases from `lease` on have room for the rest of all wishes, by trying.
    fn fits(wishes: &[Wish], rest: &[u64], lease: u64, left: &[i64]) -> bool {
        if rest.iter().all(|leases| *leases == 0) {
            return true;
        }
        let Some(free) = left.get(lease as usize) else {
            return false;
        };
        (0..1u32 << wishes.len()).any(|set| {
            let (mut after, mut used) = (rest.to_vec(), 0);
            for (i, wish) in wishes.iter().enumerate() {
                if (set >> i) & 1 == 1 {
                    if after[i] == 0 || wish.until <= lease {
                        return false;
                    }
                    after[i] -= 1;
                    used += i64::from(wish.gpus);
                }
            }
            used <= *free && fits(wishes, &after, lease + 1, left)
        })
    }

    #[test]
    fn each_choice_has_the_greatest_value() {
        let solver = blox_microlp::BranchAndBound { limit: Some(1000) };
        let value = |plans: &Plans| plans.iter().map(|(w, _)| w.deadline.value).sum::<f64>();
        let (mut seed, mut more) = (1u64, 0);
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        for _ in 0..100 {
            let mut drawn = |job| {
                let needed = 1 + below(3);
                let mut wish = wish(job, [1, 2, 4][below(3) as usize], needed, needed + below(3));
                wish.deadline.value = 1.0 + below(3) as f64;
                wish
            };
            let mut wishes: Vec<Wish> = (0..5).map(&mut drawn).collect();
            let gpus: Vec<i64> = (0..5).map(|_| 2 + below(3) as i64).collect();
            let of = |set: u32| {
                let chosen = (0..).zip(&wishes).filter(|(i, _)| (set >> i) & 1 == 1);
                chosen.map(|(_, wish)| *wish).collect::<Vec<Wish>>()
            };
            let room = |some: &Vec<Wish>| {
                let rest: Vec<u64> = some.iter().map(|wish| wish.needed).collect();
                fits(some, &rest, 0, &gpus)
            };
            let sets = (0..1 << wishes.len()).map(of).filter(room);
            let sum = |some: Vec<Wish>| some.iter().map(|w| w.deadline.value).sum::<f64>();
            let most = sets.map(sum).fold(0.0, f64::max);
            let greedy = Chronus::choose_greedily(&mut wishes, left(0, &gpus));
            let best = Chronus::choose_best(&mut wishes, left(0, &gpus), &solver);
            assert_eq!(value(&best), most, "{wishes:?} {gpus:?}");
            more += u32::from(value(&greedy) < most);
            let mut rest = left(0, &gpus);
            for (wish, leases) in &best {
                let on: std::collections::BTreeSet<&u64> = leases.iter().collect();
                assert_eq!(on.len() as u64, wish.needed);
                assert!(leases.iter().all(|k| *k < wish.until));
                rest.take(wish.seat, wish.gpus, leases);
            }
            assert!(
                rest.leases.concat().iter().all(|left| *left >= 0),
                "{best:?}"
            );
        }
        assert!(more > 10, "{more}");
    }

    #[test]
    fn program_takes_two_narrow_jobs_and_greed_a_wide_one() {
        let mut wishes = [wish(0, 4, 1, 1), wish(1, 2, 1, 1), wish(2, 2, 1, 1)];
        let solver = blox_microlp::BranchAndBound { limit: Some(1000) };
        let jobs = |plans: Plans| plans.iter().map(|(w, _)| w.job.0).collect::<Vec<_>>();
        let program = Chronus::choose(&wishes, &left(0, &[4]), &solver).unwrap();
        assert_eq!(jobs(program), [1, 2]);
        let greedy = Chronus::choose_greedily(&mut wishes, left(0, &[4]));
        assert_eq!(jobs(greedy), [0]);
    }
}
