//! Shifts in time of jobs that share links of the network.

use super::moving::movable;
use blox_core::{
    Answer, Assignment, Curve, Draft, JobId, JobQueue, JobRef, PlacementPolicy, Reason, Room,
    Seconds, Shape, forward_policy,
};
use blox_perf::{link_demand, share_link};
use std::collections::{BTreeSet, VecDeque};

/// Shifts of a job that are tried: steps of 5 degrees of a circle, as in CASSINI.
const STEPS: u32 = 72;

/// Runs an inner placement, then shifts jobs in time so that their traffic interleaves (CASSINI, NSDI
/// 2024).
///
/// The shift is the knob `shift` of the [config](blox_core::Config), in seconds. For each link that
/// several jobs with [traffic](blox_core::Extras::traffic) need more than in full, jobs get the
/// rotation with the least [excess demand](share_link), one after another. A graph of jobs and
/// such links is then searched in breadth, from the first job, which keeps its shift. A job `k` beside
/// a job `j` on a link `l` gets `t_k = t_j - t_jl + t_kl`, modulo its iteration. Here, `t_jl` is the
/// rotation of `j` on `l`.
///
/// Links with the same jobs count as one, with the least bandwidth. If the graph has a loop, only the
/// links by which the search reached a job interleave. Only the parts of the graph with a job on new
/// GPUs change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shifting<P> {
    inner: P,
}

impl<P: PlacementPolicy> Shifting<P> {
    /// Creates the placement with an inner placement.
    pub fn new(inner: P) -> Self {
        Shifting { inner }
    }
}

forward_policy!(Shifting<P: PlacementPolicy>, inner);

impl<P: PlacementPolicy> PlacementPolicy for Shifting<P> {
    fn place(
        &self,
        memory: &mut Self::Memory,
        requests: &mut JobQueue,
        draft: &mut Draft<'_>,
    ) -> Answer {
        let validity = self.inner.place(memory, requests, draft)?;
        let moved = |(job, on): &(JobRef<'_>, &Assignment)| {
            let demand = link_demand(job, on);
            // A request with other knobs takes the shift away.
            let same =
                |before: &Assignment| before.gpus == on.gpus && link_demand(job, before) == demand;
            demand.is_some() && on.gpus.len() > 1 && !job.assignment().is_some_and(same)
        };
        let moved: Vec<JobRef<'_>> = draft.placed().filter(moved).map(|(job, _)| job).collect();
        let mut done = BTreeSet::new();
        for job in moved {
            let Some(on) = draft
                .current(job.id())
                .filter(|_| !done.contains(&job.id()))
            else {
                continue;
            };
            for (job, before, shift) in Affinity::around(draft, &job, on).shifts() {
                done.insert(job);
                if let Some(mut now) = movable(draft, job).filter(|_| shift != before) {
                    let shift = if shift > 0.0 { shift } else { f64::NAN };
                    now.config = now.config.with("shift", shift);
                    draft.reassign(job, now)?;
                }
            }
        }
        Ok(validity)
    }

    fn can_ever_place(
        &self,
        room: &Room<'_>,
        job: &JobRef<'_>,
        shape: &Shape,
    ) -> Result<(), Reason> {
        self.inner.can_ever_place(room, job, shape)
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.inner.keeps_nodes(nodes)
    }
}

/// Returns the shift of each of the demands on a link that have the least excess demand, one after
/// another. The first has none. Also returns the excess of all.
pub(super) fn rotations(gbps: f64, demands: &[&Curve]) -> (Vec<Seconds>, f64) {
    let mut chosen: Vec<(&Curve, f64)> = Vec::new();
    let mut excess = 0.0;
    for curve in demands {
        let step = curve.period().secs() / f64::from(STEPS);
        let steps = if chosen.is_empty() { 1 } else { STEPS };
        let (mut shift, mut least) = (0.0, f64::INFINITY);
        for i in 0..steps {
            let tried = f64::from(i) * step;
            chosen.push((curve, tried));
            let found = share_link(gbps, &chosen).excess;
            chosen.pop();
            if found < least {
                (shift, least) = (tried, found);
            }
            if found == 0.0 {
                break;
            }
        }
        excess = least;
        chosen.push((curve, shift));
    }
    let shifts = chosen.iter().map(|(_, shift)| Seconds::new(*shift));
    (shifts.collect(), excess)
}

/// A connected part of the affinity graph: jobs in order, and the contended links between them.
pub(super) struct Affinity<'a> {
    /// Each with its demand, and its shift in seconds.
    jobs: Vec<(JobId, &'a Curve, f64)>,
    links: Vec<Contended>,
}

/// A link on which several jobs together may demand more than its bandwidth.
struct Contended {
    gbps: f64,
    /// Positions of its jobs, in order.
    jobs: Vec<usize>,
}

impl<'a> Affinity<'a> {
    /// Returns the part of the graph around a job that the draft has or is to have on `on`.
    pub fn around(draft: &Draft<'a>, job: &JobRef<'a>, on: &Assignment) -> Self {
        let cluster = draft.view().cluster();
        let own = cluster.links_of(&on.gpus);
        let demand = |job: &JobRef<'a>, on: &Assignment| {
            let (curve, shift) = link_demand(job, on)?;
            Some((job.id(), curve, shift))
        };
        let mut found: Vec<(JobId, &Curve, f64)> = demand(job, on).into_iter().collect();
        let (mut seen, mut sets) = (BTreeSet::new(), Vec::new());
        let mut next = 0;
        while let Some(&(id, ..)) = found.get(next) {
            next += 1;
            let links = match id == job.id() {
                true => own.clone(),
                false => draft
                    .current(id)
                    .map_or_else(Default::default, |on| cluster.links_of(&on.gpus)),
            };
            for link in links.into_iter().filter(|link| seen.insert(*link)) {
                let others = draft
                    .on_link(link)
                    .filter(|(other, _)| other.id() != job.id());
                let mut jobs: Vec<_> = others
                    .filter_map(|(other, on)| demand(&other, on))
                    .collect();
                jobs.extend(demand(job, on).filter(|_| own.contains(&link)));
                let gbps = cluster.link(link).map_or(f64::INFINITY, |link| link.gbps);
                let most = |curve: &Curve| curve.steps().iter().map(|s| s.1).fold(0.0, f64::max);
                let peak: f64 = jobs.iter().map(|(_, curve, _)| most(curve)).sum();
                if jobs.len() < 2 || peak <= gbps {
                    continue;
                }
                for its in &jobs {
                    if found.iter().all(|(id, ..)| *id != its.0) {
                        found.push(*its);
                    }
                }
                sets.push((gbps, jobs));
            }
        }
        found.sort_by_key(|(id, ..)| *id);
        let mut links: Vec<Contended> = Vec::new();
        for (gbps, jobs) in sets {
            let at = |its: &(JobId, &Curve, f64)| found.iter().position(|other| other.0 == its.0);
            let mut jobs: Vec<usize> = jobs.iter().filter_map(at).collect();
            jobs.sort_unstable();
            match links.iter_mut().find(|link| link.jobs == jobs) {
                Some(same) => same.gbps = same.gbps.min(gbps),
                None => links.push(Contended { gbps, jobs }),
            }
        }
        Affinity { jobs: found, links }
    }

    /// Returns whether the graph has a loop.
    pub fn has_loop(&self) -> bool {
        let edges: usize = self.links.iter().map(|link| link.jobs.len()).sum();
        edges >= self.jobs.len() + self.links.len()
    }

    /// Returns the shift of each job before and now, in seconds. They are whole microseconds.
    pub fn shifts(&self) -> Vec<(JobId, f64, f64)> {
        let rotated = self.links.iter().map(|link| {
            let curves: Vec<&Curve> = link.jobs.iter().map(|j| self.jobs[*j].1).collect();
            rotations(link.gbps, &curves).0
        });
        let rotated: Vec<Vec<Seconds>> = rotated.collect();
        // In microseconds.
        let whole = |time: Seconds| (time.secs() * 1e6).round() as i64;
        let mut shifts: Vec<Option<i64>> = vec![None; self.jobs.len()];
        let mut queue = VecDeque::from([0]);
        if let Some(root) = shifts.first_mut() {
            *root = self.jobs.first().map(|first| whole(Seconds::new(first.2)));
        }
        while let Some(job) = queue.pop_front() {
            let Some(shift) = shifts.get(job).copied().flatten() else {
                continue;
            };
            for (link, rotated) in self.links.iter().zip(&rotated) {
                let Ok(at) = link.jobs.binary_search(&job) else {
                    continue;
                };
                for (other, its) in link.jobs.iter().zip(rotated) {
                    if shifts[*other].is_none() {
                        let shift = shift - whole(rotated[at]) + whole(*its);
                        let iteration = whole(self.jobs[*other].1.period()).max(1);
                        shifts[*other] = Some(shift.rem_euclid(iteration));
                        queue.push_back(*other);
                    }
                }
            }
        }
        let all = self.jobs.iter().zip(shifts);
        all.map(|((id, _, before), shift)| (*id, *before, shift.unwrap_or(0) as f64 / 1e6))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::Fifo;
    use blox_core::Validity;
    use blox_core::{ClusterSpec, Composition, Extras, GpuCount, GpuId, JobSpec, Stateless, Time};
    use blox_testing::Scenario;

    /// Returns a demand of 50 Gbit/s in the first part of an iteration, both in milliseconds.
    fn first(part: f64, iteration: f64) -> Curve {
        demand(50.0, part, iteration)
    }

    fn demand(gbps: f64, part: f64, iteration: f64) -> Curve {
        let steps = [(Seconds::ZERO, gbps), (Seconds::new(part / 1e3), 0.0)];
        Curve::new(Seconds::new(iteration / 1e3), steps).unwrap()
    }

    /// Returns the rotations in milliseconds, and the excess demand.
    fn rotated(demands: &[Curve]) -> (Vec<f64>, f64) {
        let (shifts, excess) = rotations(50.0, &demands.iter().collect::<Vec<_>>());
        let ms = |shift: Seconds| (shift.secs() * 1e6).round() / 1e3;
        (shifts.into_iter().map(ms).collect(), excess)
    }

    #[test]
    fn rotations_have_the_least_excess_of_a_link() {
        let half = || first(50.0, 100.0);
        assert_eq!(rotated(&[half(), half()]), (vec![0.0, 50.0], 0.0));
        // The first of the steps of 1/72 that leaves 20 ms in common.
        let more = [first(60.0, 100.0), first(60.0, 100.0)];
        assert_eq!(rotated(&more), (vec![0.0, 40.278], 0.2));
        let three = [half(), half(), half()];
        assert_eq!(rotated(&three), (vec![0.0, 50.0, 0.0], 0.5));
        let small = [demand(20.0, 50.0, 100.0), demand(30.0, 50.0, 100.0)];
        assert_eq!(rotated(&small), (vec![0.0, 0.0], 0.0));
        // In 120 ms, three iterations of 40 ms and two of 60 ms: the second is shifted by less than
        // its own.
        let (shifts, excess) = rotated(&[first(10.0, 40.0), first(10.0, 60.0)]);
        assert_eq!((shifts, excess), (vec![0.0, 10.0], 0.0));
    }

    fn graph<'a>(demands: &'a [Curve], links: &[&[usize]]) -> Affinity<'a> {
        let link = |jobs: &&[usize]| Contended {
            gbps: 50.0,
            jobs: jobs.to_vec(),
        };
        Affinity {
            jobs: (0..)
                .zip(demands)
                .map(|(id, d)| (JobId(id), d, 0.0))
                .collect(),
            links: links.iter().map(link).collect(),
        }
    }

    /// Returns the shifts in milliseconds.
    fn affinity(demands: &[Curve], links: &[&[usize]]) -> Vec<f64> {
        let shifts = graph(demands, links).shifts();
        shifts.iter().map(|(_, _, now)| now * 1e3).collect()
    }

    #[test]
    fn each_job_has_one_shift_on_all_its_links() {
        // On its links, the second job is rotated by 10 and by 0 ms, and the third by 40 ms.
        let demands = [first(10.0, 72.0), first(40.0, 72.0), first(32.0, 72.0)];
        let shifts = affinity(&demands, &[&[0, 1], &[1, 2]]);
        assert_eq!(shifts, [0.0, 10.0, 50.0]);
        // Modulo the iteration of the third job.
        let demands = [first(10.0, 72.0), first(30.0, 72.0), first(6.0, 36.0)];
        let shifts = affinity(&demands, &[&[0, 1], &[1, 2]]);
        assert_eq!(shifts, [0.0, 10.0, 4.0]);
        // The first job keeps its shift.
        let mut part = graph(&demands, &[&[0, 1], &[1, 2]]);
        part.jobs[0].2 = 0.02;
        let shifts: Vec<f64> = part.shifts().iter().map(|(_, _, now)| now * 1e3).collect();
        assert_eq!(shifts, [20.0, 30.0, 24.0]);
        // Without a link in common, no job is shifted.
        assert_eq!(affinity(&demands[..1], &[]), [0.0]);
    }

    #[test]
    fn a_graph_with_a_loop_is_found() {
        let halves = [(); 3].map(|()| first(50.0, 100.0));
        let looped = |links: &[&[usize]]| graph(&halves, links).has_loop();
        assert!(looped(&[&[0, 1], &[1, 2], &[0, 2]]));
        assert!(!looped(&[&[0, 1], &[1, 2]]));
        assert!(!looped(&[&[0, 1, 2]]));
        assert!(looped(&[&[0, 1, 2], &[1, 2]]));
    }

    /// Gives each job two GPUs.
    struct Fixed([[u32; 2]; 4]);

    impl Stateless for Fixed {}

    impl PlacementPolicy for Fixed {
        fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
            for request in requests.all(draft.view()).into_owned() {
                let gpus = self.0[request.job.index()].map(GpuId);
                if draft.current(request.job).is_none() {
                    draft.assign(request.job, Assignment::of(gpus))?;
                }
            }
            Ok(Validity::UntilEvent)
        }
    }

    #[test]
    fn jobs_that_meet_on_links_are_shifted() {
        let cluster: ClusterSpec = "5x2,network=50".parse().unwrap();
        // Jobs 0 and 1 have both links in common, which is no loop. Job 2 meets job 1 on no link, and
        // job 3 meets job 2.
        let on = [[0, 2], [1, 3], [4, 6], [7, 8]];
        let scheduler = Composition::new("fixed")
            .scheduling(Fifo::default())
            .placement(Shifting::new(Fixed(on)))
            .build();
        let mut case = Scenario::new(&cluster, scheduler.unwrap());
        let submit = |case: &mut Scenario, at: f64| {
            let job = JobSpec::new(Time::new(at), GpuCount(2), Seconds::new(600.0));
            case.submit(
                at,
                job.with_extras(Extras {
                    traffic: Some(first(50.0, 100.0)),
                    ..Extras::default()
                }),
            );
        };
        let configs = |case: &Scenario, jobs: u32| -> Vec<String> {
            let config = |id| case.assignment(id).unwrap().config.to_string();
            (0..jobs).map(config).collect()
        };
        submit(&mut case, 0.0);
        case.round(0.0);
        assert_eq!(configs(&case, 1), [""]);
        (0..3).for_each(|_| submit(&mut case, 10.0));
        case.round(60.0);
        assert_eq!(configs(&case, 4), ["", "shift=0.05", "", "shift=0.05"]);
    }
}
