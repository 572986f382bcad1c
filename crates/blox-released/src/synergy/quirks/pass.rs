//! One round of the original, planned from an empty cluster.

use super::Mode;
use super::demand::{Amounts, Demand, ServerSize, amounts};
use blox_core::{Assignment, Draft, GpuId, GpuList, JobId, sort};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Debug)]
struct Server {
    size: Amounts,
    used: Amounts,
    /// Free GPUs, ascending.
    free: Vec<GpuId>,
}

impl Server {
    /// Returns the remaining resources, without those held during a search.
    fn left(&self, hold: &Amounts) -> Amounts {
        std::array::from_fn(|i| self.size[i] - self.used[i] - hold[i])
    }

    fn fits(&self, hold: &Amounts, wanted: &Amounts) -> bool {
        let left = self.left(hold);
        (0..5).all(|i| left[i] >= wanted[i])
    }
}

/// Resources granted to a job.
#[derive(Clone, Debug)]
struct Grant {
    job: JobId,
    demand: Demand,
    gpus: Vec<GpuId>,
    /// Part on each server, in the order in which the servers were chosen.
    parts: Vec<(usize, Amounts)>,
    /// Total of all resources.
    vector: Amounts,
    /// True if the job's speedup was reset to 1.
    at_fair_share: bool,
    /// True if the job was shrunk or examined as a peer. It has no speedup in this round.
    visited: bool,
}

impl Grant {
    /// Returns the sum of the parts.
    fn sum(&self) -> Amounts {
        let mut sum = [0.0; 5];
        for (_, part) in &self.parts {
            add(&mut sum, part, 1.0);
        }
        sum[0] = self.gpus.len() as f64;
        sum[4] = 0.0;
        sum
    }

    /// Returns the assignment, which encodes the speed of the job in this round.
    ///
    /// A job runs at its speedup only with exactly its best-case demand. If a grant equals the
    /// demand but must be slow, one amount is reduced by the smallest possible step. It is the CPUs
    /// if the speedup was reset (only storage was above the fair share), or the memory if the job
    /// was only examined as a peer.
    fn assignment(&self) -> Assignment {
        let (mut cpus, mut memory_gib) = (self.vector[1], self.vector[2]);
        let unchanged = cpus == self.demand.cpus() && memory_gib == self.demand.memory_gb();
        if unchanged && self.at_fair_share && cpus > 0.0 {
            cpus = cpus.next_down();
        } else if unchanged && self.visited && memory_gib > 0.0 {
            memory_gib = memory_gib.next_down();
        }
        Assignment {
            gpus: GpuList::from_slice(&self.gpus),
            cpus,
            memory_gib,
            ..Assignment::default()
        }
    }
}

fn add(to: &mut Amounts, what: &Amounts, sign: f64) {
    for (sum, amount) in to.iter_mut().zip(what) {
        *sum += sign * amount;
    }
}

fn times(vector: &Amounts, factor: f64) -> Amounts {
    vector.map(|amount| amount * factor)
}

fn shortage(wanted: &Amounts, left: &Amounts) -> Amounts {
    std::array::from_fn(|i| (wanted[i] - left[i]).max(0.0))
}

/// GPUs, and the part on each server.
type Found = (Vec<GpuId>, Vec<(usize, Amounts)>);

/// State of the servers while a round is planned.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    mode: Mode,
    consolidate: bool,
    fair: Amounts,
    servers: Vec<Server>,
    grants: Vec<Grant>,
    /// Grants on each server, in the order of their last examination.
    on: Vec<Vec<usize>>,
}

impl Pass {
    /// Starts a pass from the free resources of a draft.
    pub fn begin(draft: &Draft<'_>, size: &ServerSize, mode: Mode, consolidate: bool) -> Self {
        let view = draft.view();
        let servers: Vec<Server> = view
            .nodes()
            .map(|node| {
                let size = amounts(node.spec());
                let free: Vec<GpuId> = draft.free_gpus_on(node.id()).collect();
                let mut used = [0.0; 5];
                if free.len() < node.gpu_count() as usize {
                    used[0] = size[0] - free.len() as f64;
                    used[1] = (size[1] - draft.free_cpus_on(node.id())).max(0.0);
                    used[2] = (size[2] - draft.free_memory_gib_on(node.id())).max(0.0);
                }
                Server { size, used, free }
            })
            .collect();
        Pass {
            mode,
            consolidate,
            fair: size.fair(),
            on: vec![Vec::new(); servers.len()],
            servers,
            grants: Vec::new(),
        }
    }

    pub fn free_gpus(&self) -> usize {
        self.servers.iter().map(|s| s.free.len()).sum()
    }

    /// Grants a job the resources of the mode. Returns false if they are not available.
    pub fn allocate(&mut self, job: JobId, demand: Demand) -> bool {
        match self.mode {
            Mode::Fair => {
                let vector = times(&self.fair, demand.best[0]);
                self.try_grant(job, demand, vector, false)
            }
            Mode::Greedy => self.try_grant(job, demand, demand.best, false),
            Mode::Tune => self.tune(job, demand),
        }
    }

    /// Returns the assignments of all granted jobs.
    pub fn assignments(&self) -> impl Iterator<Item = (JobId, Assignment)> + '_ {
        self.grants.iter().map(|g| (g.job, g.assignment()))
    }

    /// Grants the best-case demand, or a fair share for which peers are shrunk.
    ///
    /// Quirk: the program fails if shrinking is not enough, or if it granted more than exists. Here
    /// the job waits and no peer is shrunk.
    fn tune(&mut self, job: JobId, demand: Demand) -> bool {
        if self.try_grant(job, demand, demand.best, false) {
            return true;
        }
        let (vector, at_fair_share) = match self.to_fair(&demand.best) {
            Some(fair) => (fair, true),
            None => (demand.best, false),
        };
        if self.try_grant(job, demand, vector, at_fair_share) {
            return true;
        }
        let before = self.clone();
        let needed = demand.best[0] as usize;
        for (server, count) in self.with_free_gpus(needed) {
            let wanted = times(&vector, count as f64 / needed as f64);
            for peer in self.peers(server, &wanted) {
                if !self.shrink(peer) {
                    *self = before;
                    return false;
                }
            }
        }
        let granted = self.try_grant(job, demand, vector, at_fair_share);
        if !granted {
            *self = before;
        }
        granted
    }

    /// Returns a fair share if any amount exceeds it. Amounts below the fair share are raised to
    /// it.
    fn to_fair(&self, vector: &Amounts) -> Option<Amounts> {
        let fair = times(&self.fair, vector[0]);
        let above = (0..5).any(|i| vector[i] > fair[i]);
        above.then_some([vector[0], fair[1], fair[2], fair[3], vector[4]])
    }

    fn try_grant(
        &mut self,
        job: JobId,
        demand: Demand,
        vector: Amounts,
        at_fair_share: bool,
    ) -> bool {
        let found = if self.consolidate {
            self.find_consolidated(&vector)
        } else {
            self.find_first(&vector)
        };
        let Some((gpus, parts)) = found else {
            return false;
        };
        for (server, part) in &parts {
            let s = &mut self.servers[*server];
            add(&mut s.used, &without_network(part), 1.0);
            s.free.retain(|gpu| !gpus.contains(gpu));
            self.on[*server].push(self.grants.len());
        }
        self.grants.push(Grant {
            job,
            demand,
            gpus,
            parts,
            vector,
            at_fair_share,
            visited: false,
        });
        true
    }

    /// Finds the first free GPUs on servers with enough of all other resources per GPU.
    fn find_first(&self, vector: &Amounts) -> Option<Found> {
        let each = vector.map(|amount| amount / vector[0]);
        let needed = vector[0] as usize;
        let (mut gpus, mut parts) = (Vec::new(), Vec::new());
        for (s, server) in self.servers.iter().enumerate() {
            let mut hold = [0.0; 5];
            for &gpu in &server.free {
                if !server.fits(&hold, &each) {
                    break;
                }
                add(&mut hold, &each, 1.0);
                gpus.push(gpu);
                if gpus.len() == needed {
                    parts.push((s, hold));
                    return Some((gpus, parts));
                }
            }
            if hold[0] > 0.0 {
                parts.push((s, hold));
            }
        }
        None
    }

    /// Finds the server with the fewest free GPUs that satisfies all of the demand. Otherwise takes
    /// single GPUs from the server with the fewest free GPUs.
    fn find_consolidated(&self, vector: &Amounts) -> Option<Found> {
        let needed = vector[0] as usize;
        let none = [0.0; 5];
        if needed > 1 {
            let has_all = |s: &(usize, &Server)| !s.1.free.is_empty() && s.1.fits(&none, vector);
            let servers = self.servers.iter().enumerate();
            let best = servers.filter(has_all).min_by_key(|(_, s)| s.free.len());
            if let Some((s, server)) = best {
                return Some((server.free[..needed].to_vec(), vec![(s, *vector)]));
            }
        }
        let each = vector.map(|amount| amount / vector[0]);
        let mut hold = vec![none; self.servers.len()];
        let mut left: Vec<usize> = self.servers.iter().map(|s| s.free.len()).collect();
        let mut queue: BinaryHeap<Reverse<(usize, usize)>> = left
            .iter()
            .enumerate()
            .filter(|(_, free)| **free > 0)
            .map(|(s, free)| Reverse((*free, s)))
            .collect();
        let (mut gpus, mut parts) = (Vec::new(), Vec::new());
        while gpus.len() < needed {
            let Reverse((_, s)) = queue.pop()?;
            if !self.servers[s].fits(&hold[s], &each) {
                continue;
            }
            add(&mut hold[s], &each, 1.0);
            left[s] -= 1;
            gpus.push(self.servers[s].free[left[s]]);
            if !parts.iter().any(|(other, _)| *other == s) {
                parts.push((s, none));
            }
            if left[s] > 0 {
                queue.push(Reverse((left[s], s)));
            }
        }
        for (s, part) in &mut parts {
            *part = hold[*s];
        }
        Some((gpus, parts))
    }

    /// Returns servers with free GPUs for a job that lacks another resource, with the number of
    /// GPUs to take from each.
    fn with_free_gpus(&self, needed: usize) -> Vec<(usize, usize)> {
        let whole = |s: &Server| s.left(&[0.0; 5])[0] >= needed as f64;
        if needed > 1
            && let Some(s) = self.servers.iter().position(whole)
        {
            return vec![(s, needed)];
        }
        let mut free: Vec<(usize, usize)> = self
            .servers
            .iter()
            .enumerate()
            .filter(|(_, s)| !s.free.is_empty())
            .map(|(i, s)| (s.free.len(), i))
            .collect();
        free.sort_unstable();
        let mut rest = needed;
        let mut taken = Vec::new();
        for (count, s) in free {
            if rest == 0 {
                break;
            }
            taken.push((s, count.min(rest)));
            rest -= count.min(rest);
        }
        taken
    }

    /// Returns the grants on a server to shrink until `wanted` fits there.
    fn peers(&mut self, server: usize, wanted: &Amounts) -> Vec<usize> {
        let mut need = shortage(wanted, &self.servers[server].left(&[0.0; 5]));
        let mut peers = Vec::new();
        if need == [0.0; 5] {
            return peers;
        }
        let grants = &self.grants;
        let size = |g: &usize| {
            let (spanned, sum) = (grants[*g].parts.len(), grants[*g].sum());
            (spanned, -(sum[1] / sum[0]), -(sum[2] / sum[0]))
        };
        sort::by(&mut self.on[server], |a, b| {
            let (a, b) = (size(a), size(b));
            let amounts = a.1.total_cmp(&b.1).then(a.2.total_cmp(&b.2));
            a.0.cmp(&b.0).then(amounts)
        });
        for &g in &self.on[server] {
            peers.push(g);
            let sum = grants[g].sum();
            let part = grants[g].parts.iter().find(|(s, _)| *s == server);
            let here = part.map_or(0.0, |(_, part)| part[0].round());
            let excess = shortage(&times(&sum, here / sum[0]), &times(&self.fair, here));
            need = shortage(&need, &excess);
            if need == [0.0; 5] {
                break;
            }
        }
        peers
    }

    /// Reduces a peer to its fair share on the same GPUs. Returns false if that is more than a
    /// server has.
    fn shrink(&mut self, peer: usize) -> bool {
        let best = self.grants[peer].demand.best;
        let fair = self.to_fair(&best);
        let grant = &mut self.grants[peer];
        for (s, part) in &grant.parts {
            add(&mut self.servers[*s].used, &without_network(part), -1.0);
        }
        let gpus = grant.gpus.len() as f64;
        grant.vector = fair.unwrap_or(best);
        grant.at_fair_share |= fair.is_some();
        grant.visited = true;
        for (s, part) in &mut grant.parts {
            *part = times(&grant.vector, part[0] / gpus);
            let server = &mut self.servers[*s];
            let left = server.left(&[0.0; 5]);
            if part[1] > left[1] || part[2] > left[2] {
                return false;
            }
            add(&mut server.used, &without_network(part), 1.0);
        }
        true
    }
}

/// Network demands are checked but never counted as used.
fn without_network(part: &Amounts) -> Amounts {
    [part[0], part[1], part[2], part[3], 0.0]
}
