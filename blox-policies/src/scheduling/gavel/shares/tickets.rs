use super::super::instance::{Allocation, Combination, Entrant, Instance, PerType, SharePolicy};
use blox_core::{NameId, SortedMap, Stateless, sort};
use blox_solve::SolveError;

/// Each user gets GPUs of every type in proportion to its tickets; users then trade types
/// (Gandiva_fair, EuroSys 2020).
///
/// The tickets of a user are the largest weight of its jobs. A user gets at most as many GPUs as its
/// jobs request, and none of a type on which no job of it runs. The other users get what it leaves.
/// Its jobs divide its GPUs equally, in the same way.
///
/// **Trading.** Types are taken in pairs, a slow and a fast one. The user with the greatest speed-up
/// buys fast GPUs from the user with the least, until one of them has no more to give. The
/// price in slow GPUs is the second greatest speed-up. So no user loses. A user sells only as much as
/// its jobs can use of the slow GPUs.
#[derive(Clone, Copy, Debug)]
pub struct Tickets {
    trading: bool,
}

impl Tickets {
    /// Creates the policy, with trading or without.
    pub fn new(trading: bool) -> Self {
        Tickets { trading }
    }
}

/// A user, or a job of one.
struct Holder {
    tickets: f64,
    /// Most GPUs that it can use.
    most: f64,
    /// Speed by type, relative to the fastest type of each job; 0 where it does not run.
    speeds: PerType,
    has: PerType,
}

impl Holder {
    fn of(job: &Entrant) -> Self {
        let fastest = job.rates.iter().copied().fold(0.0, f64::max);
        let relative = |rate: &f64| if fastest > 0.0 { rate / fastest } else { 0.0 };
        let gpus = f64::from(job.gpus);
        Holder {
            tickets: job.weight,
            most: gpus,
            speeds: job.rates.iter().map(|rate| relative(rate) * gpus).collect(),
            has: PerType::from_elem(0.0, job.rates.len()),
        }
    }

    /// Counts another job of a user.
    fn add(&mut self, job: &Entrant) {
        let its = Holder::of(job);
        self.tickets = self.tickets.max(its.tickets);
        self.most += its.most;
        let speeds = self.speeds.iter_mut().zip(&its.speeds);
        speeds.for_each(|(all, one)| *all += one);
    }

    fn room(&self) -> f64 {
        (self.most - self.has.iter().sum::<f64>()).max(0.0)
    }

    /// Returns how much faster its jobs are on one type than on another, if they run on both.
    fn speed_up(&self, slow: usize, fast: usize) -> Option<f64> {
        let [slow, fast] = [slow, fast].map(|kind| self.speeds[kind]);
        (slow > 0.0 && fast > 0.0).then(|| fast / slow)
    }
}

/// Amount below which GPUs do not count.
const NEGLIGIBLE: f64 = 1e-9;

/// Divides GPUs of each type in proportion to tickets, up to the GPUs that each holder can use.
fn divide(left: &mut PerType, holders: &mut [Holder]) {
    // Each turn satisfies a holder, or gives everything away.
    for _ in 0..=holders.len() {
        let mut adds: Vec<PerType> = vec![PerType::from_elem(0.0, left.len()); holders.len()];
        let open = |holder: &Holder, kind: usize| {
            holder.speeds[kind] > 0.0 && holder.room() > NEGLIGIBLE * holder.most
        };
        for (kind, gpus) in left.iter().enumerate() {
            let able = || holders.iter().filter(|h| open(h, kind));
            let tickets: f64 = able().map(|holder| holder.tickets).sum();
            for (holder, add) in holders.iter().zip(&mut adds) {
                if open(holder, kind) {
                    add[kind] = gpus * holder.tickets / tickets;
                }
            }
        }
        let sums = adds.iter().map(|add| add.iter().sum::<f64>());
        let fills = holders.iter().zip(sums).filter(|(_, sum)| *sum > 0.0);
        let part = fills.map(|(holder, sum)| holder.room() / sum);
        let part = part.fold(1.0, f64::min);
        for (holder, add) in holders.iter_mut().zip(&adds) {
            for (kind, add) in add.iter().enumerate() {
                holder.has[kind] += part * add;
                left[kind] -= part * add;
            }
        }
        if part >= 1.0 {
            return;
        }
    }
}

/// Trades GPUs of two types until no user gains by it.
fn trade(users: &mut [Holder], slow: usize, fast: usize) {
    let mut order: Vec<(f64, usize)> = (0..)
        .zip(&*users)
        .filter_map(|(i, user)| Some((user.speed_up(slow, fast)?, i)))
        .collect();
    sort::by(&mut order, |a, b| a.0.total_cmp(&b.0));
    let both = |users: &[Holder], i: usize| {
        let has = &users[i].has;
        has[slow] > NEGLIGIBLE && has[fast] > NEGLIGIBLE
    };
    // Each turn uses up what one user has to give.
    for _ in 0..2 * order.len() {
        let Some(buyer) = order.iter().rposition(|(_, i)| both(users, *i)) else {
            return;
        };
        let Some((price, _)) = order[..buyer].last().copied() else {
            return;
        };
        // What the seller gets beyond what it gives needs jobs.
        let most = |user: &Holder| match price > 1.0 {
            true => user.has[fast].min(user.room() / (price - 1.0)),
            false => user.has[fast],
        };
        let sells = |(_, i): &&(f64, usize)| both(users, *i) && most(&users[*i]) > NEGLIGIBLE;
        let Some(&(least, from)) = order[..buyer].iter().find(sells) else {
            return;
        };
        let (greatest, to) = order[buyer];
        if greatest <= least * (1.0 + NEGLIGIBLE) {
            return;
        }
        let gpus = most(&users[from]).min(users[to].has[slow] / price);
        for (user, sign) in [(from, -1.0), (to, 1.0)] {
            let has = &mut users[user].has;
            has[fast] = (has[fast] + sign * gpus).max(0.0);
            has[slow] = (has[slow] - sign * gpus * price).max(0.0);
        }
    }
}

/// Returns the types, the slowest first.
fn by_speed(users: &[Holder], types: usize) -> Vec<usize> {
    let mut order: Vec<(f64, usize)> = (0..types)
        .map(|kind| (users.iter().map(|user| user.speeds[kind]).sum(), kind))
        .collect();
    sort::by(&mut order, |a, b| a.0.total_cmp(&b.0));
    order.into_iter().map(|(_, kind)| kind).collect()
}

impl Stateless for Tickets {}

impl SharePolicy for Tickets {
    fn allocate(&self, (): &mut (), instance: &Instance) -> Result<Allocation, SolveError> {
        let mut jobs_of: SortedMap<Option<NameId>, Vec<&Entrant>> = SortedMap::new();
        for job in &instance.jobs {
            jobs_of.entry(job.user).or_default().push(job);
        }
        let of_user = |jobs: &Vec<&Entrant>| {
            let (first, rest) = jobs.split_first()?;
            let mut user = Holder::of(first);
            rest.iter().for_each(|job| user.add(job));
            Some(user)
        };
        let mut users: Vec<Holder> = jobs_of.values().filter_map(of_user).collect();
        let mut gpus: PerType = instance.types.iter().map(|t| f64::from(t.gpus)).collect();
        divide(&mut gpus, &mut users);
        if self.trading {
            let order = by_speed(&users, instance.types.len());
            for (rank, slow) in order.iter().enumerate() {
                for fast in order[rank + 1..].iter().rev() {
                    trade(&mut users, *slow, *fast);
                }
            }
        }
        let mut rows = Vec::with_capacity(instance.jobs.len());
        for (user, jobs) in users.iter_mut().zip(jobs_of.values()) {
            let equal = |job: &&Entrant| Holder {
                tickets: 1.0,
                ..Holder::of(job)
            };
            let mut parts: Vec<Holder> = jobs.iter().map(equal).collect();
            divide(&mut user.has, &mut parts);
            for (job, part) in jobs.iter().zip(parts) {
                let each = part.has.iter().map(|has| has / f64::from(job.gpus));
                rows.push((Combination::single(job.id), each.collect()));
            }
        }
        Ok(Allocation::of(rows).within(instance))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::instance::TypePool;
    use super::*;
    use blox_core::JobId;

    fn job(id: u32, user: u32, gpus: u32, weight: f64, rates: &[f64]) -> Entrant {
        Entrant {
            id: JobId(id),
            gpus,
            weight,
            user: Some(NameId(user)),
            age: 0.0,
            left: f64::NAN,
            due: None,
            rates: PerType::from_slice(rates),
        }
    }

    /// Returns the GPUs of each user by type.
    fn shares<const N: usize>(gpus: &[u32], trading: bool, jobs: Vec<Entrant>) -> [Vec<f64>; N] {
        let pool = |gpus: &u32| TypePool {
            name: "".into(),
            gpus: *gpus,
            price: 1.0,
        };
        let types = gpus.iter().map(pool).collect();
        let instance = Instance {
            types,
            jobs,
            pairs: Vec::new(),
        };
        let allocation = Tickets::new(trading).allocate(&mut (), &instance).unwrap();
        assert!(allocation.excess(&instance) < 1e-9);
        std::array::from_fn(|user| {
            let its = instance.jobs.iter();
            let its = its.filter(|job| job.user == Some(NameId(user as u32)));
            let mut sum = vec![0.0; gpus.len()];
            for job in its {
                let x = allocation.get(Combination::single(job.id)).unwrap();
                let all = sum.iter_mut().zip(x);
                all.for_each(|(sum, x)| *sum += x * f64::from(job.gpus));
            }
            sum.iter().map(|x| (x * 1e4).round() / 1e4).collect()
        })
    }

    /// Three users with more work than GPUs, and speed-ups of 4, 6 and 8.
    fn traders() -> Vec<Entrant> {
        let speeds = [(33.0, 4.0), (33.0, 6.0), (34.0, 8.0)];
        let user = |(i, (tickets, fast))| job(i, i, 1000, tickets, &[1.0, fast]);
        (0..).zip(speeds).map(user).collect()
    }

    #[test]
    fn users_trade_at_the_second_greatest_speed_up() {
        let traded = shares(&[100, 100], true, traders());
        assert_eq!(
            traded,
            [vec![100.0, 19.0833], vec![0.0, 41.25], vec![0.0, 39.6667]]
        );
        let before = shares(&[100, 100], false, traders());
        assert_eq!(before, [33.0, 33.0, 34.0].map(|part| vec![part, part]));
        // Nobody's throughput falls.
        let worth = |shares: &[Vec<f64>; 3]| -> [f64; 3] {
            let speeds = [4.0, 6.0, 8.0];
            std::array::from_fn(|i| shares[i][0] + speeds[i] * shares[i][1])
        };
        let [before, traded] = [before, traded].map(|shares| worth(&shares));
        assert_eq!(before, [165.0, 231.0, 306.0]);
        assert_eq!(traded.map(f64::round), [176.0, 248.0, 317.0]);
    }

    #[test]
    fn equal_speed_ups_are_not_traded() {
        let jobs = vec![
            job(0, 0, 10, 1.0, &[1.0, 3.0]),
            job(1, 1, 10, 1.0, &[2.0, 6.0]),
        ];
        let shares = shares(&[4, 4], true, jobs);
        assert_eq!(shares, [[2.0, 2.0], [2.0, 2.0]]);
    }

    #[test]
    fn users_sell_only_what_their_jobs_can_use() {
        let of = |gpus| {
            vec![
                job(0, 0, gpus, 1.0, &[1.0, 2.0]),
                job(1, 1, 8, 1.0, &[1.0, 3.0]),
            ]
        };
        // The jobs of the first user have all their GPUs.
        assert_eq!(shares(&[4, 4], true, of(2)), [[1.0, 1.0], [3.0, 3.0]]);
        // They can use one more: it gets two slow GPUs for a fast one.
        assert_eq!(shares(&[4, 4], true, of(5)), [[4.0, 1.0], [0.0, 3.0]]);
    }

    #[test]
    fn what_a_user_leaves_goes_to_the_others() {
        let endless = |user: u32| (0..5).map(move |i| job(10 * user + i, user, 2, 1.0, &[1.0]));
        let two: Vec<Entrant> = endless(0).chain(endless(1)).collect();
        assert_eq!(shares(&[8], true, two.clone()), [[4.0], [4.0]]);
        let three: Vec<Entrant> = two
            .into_iter()
            .chain([job(20, 2, 2, 1.0, &[1.0])])
            .collect();
        assert_eq!(shares(&[8], true, three), [[3.0], [3.0], [2.0]]);
    }

    #[test]
    fn users_get_gpus_by_tickets_and_where_their_jobs_run() {
        let jobs = vec![
            job(0, 0, 8, 2.0, &[1.0, 1.0]),
            job(1, 1, 8, 1.0, &[1.0, 0.0]),
        ];
        assert_eq!(shares(&[3, 3], true, jobs), [[2.0, 3.0], [1.0, 0.0]]);
    }
}
