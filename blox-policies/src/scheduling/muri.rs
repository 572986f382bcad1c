//! Groups of jobs that use different resources in turn.

use crate::unit::Unit;
use blox_core::estimate::{Estimator, Oracle};
use blox_core::{
    Answer, JobQueue, JobRef, Name, Request, SchedulingPolicy, Share, SortedMap, Stateless,
    Validity, View, sort,
};
use blox_perf::{Stages, gpu_utilisation, interleaving_efficiency, stages};
use blox_solve::heaviest_matching;

/// Groups of jobs whose stages alternate on the same GPUs (Muri, SIGCOMM 2022, sections 4 and 5).
///
/// The jobs first in order that fill the cluster as often as jobs may share a GPU are candidates. If
/// they fit, they run alone. Otherwise jobs with equal numbers and types of GPUs form groups: in
/// each of several rounds, a matching of greatest total [efficiency](interleaving_efficiency)
/// proposes pairs of groups. The groups that leave the least capacity unused are joined first, until
/// all candidates fit. Groups that still do not fit wait, the last in order first.
///
/// Groups have at most four jobs, or [as many as set](Muri::in_groups_of). The times of the stages are
/// the job's [`stages`]. A job without them uses its GPUs for the part [`gpu_utilisation`] of its
/// iteration, and CPUs for the rest. Ties are broken by the job's number.
#[derive(Clone, Copy, Debug)]
pub struct Muri {
    attained: bool,
    most: usize,
}

impl Default for Muri {
    fn default() -> Self {
        Muri {
            attained: false,
            most: Muri::MOST,
        }
    }
}

/// Groups of jobs with equal amounts, parts and types of GPUs. A job is its position in the order.
type Groups = SortedMap<(u32, Share, Vec<Name>), Vec<Vec<usize>>>;

impl Muri {
    /// The largest group: a job for each kind of resource (section 4.2).
    pub const MOST: usize = 4;

    /// Orders jobs by their attained GPU time instead of their remaining GPU time (Muri-L).
    #[must_use]
    pub fn by_attained_service(mut self) -> Self {
        self.attained = true;
        self
    }

    /// Sets the maximum number of jobs on a GPU, from 1 to [`Muri::MOST`].
    #[must_use]
    pub fn in_groups_of(mut self, jobs: usize) -> Self {
        self.most = jobs.clamp(1, Muri::MOST);
        self
    }

    fn key(self, job: &JobRef<'_>) -> f64 {
        if self.attained {
            return job.attained_gpu_time().secs();
        }
        let left = Oracle.remaining(job);
        left.map_or(f64::MAX, |left| left.secs() * job.amount().number())
    }
}

/// Joins groups in pairs, the least unused capacity first, until `needed` GPUs are at most `free`.
fn join(stages: &[Stages], groups: &mut Groups, most: usize, needed: &mut u32, free: u32) {
    let mut pairs = Vec::new();
    for (kind, groups) in groups.iter() {
        let of = |group: &[usize]| -> Vec<Stages> { group.iter().map(|i| stages[*i]).collect() };
        // Groups of jobs with equal stages are alike, and most have no partner at all.
        let mut alike: Vec<Vec<Stages>> = Vec::new();
        let classes: Vec<usize> = groups
            .iter()
            .map(|group| {
                let its = of(group);
                alike.iter().position(|a| *a == its).unwrap_or_else(|| {
                    alike.push(its);
                    alike.len() - 1
                })
            })
            .collect();
        let together = |a: &Vec<Stages>, b: &Vec<Stages>| match a.len() + b.len() <= most {
            true => interleaving_efficiency(a, b),
            false => 0.0,
        };
        let gains: Vec<Vec<f64>> = alike
            .iter()
            .map(|a| alike.iter().map(|b| together(a, b)).collect())
            .collect();
        let efficiency = |a: usize, b: usize| gains[classes[a]][classes[b]];
        let gainful: Vec<usize> = (0..groups.len())
            .filter(|a| gains[classes[*a]].iter().any(|gain| *gain > 0.0))
            .collect();
        let found = heaviest_matching(gainful.len(), |a, b| {
            (efficiency(gainful[a], gainful[b]) * 1e9) as i64
        });
        let pair = |(a, b): (usize, Option<usize>)| (gainful[a], b.map(|b| gainful[b]));
        for (a, b) in found.into_iter().enumerate().map(pair) {
            if let Some(b) = b.filter(|b| a < *b) {
                let unused = (1.0 - efficiency(a, b)) * f64::from(kind.0);
                pairs.push((unused, kind.clone(), a, b));
            }
        }
    }
    sort::by(&mut pairs, |a, b| a.0.total_cmp(&b.0));
    for (_, kind, a, b) in pairs {
        if let Some(groups) = groups.get_mut(&kind).filter(|_| *needed > free) {
            let other = std::mem::take(&mut groups[b]);
            groups[a].extend(other);
            *needed -= kind.0;
        }
    }
    let groups = groups.values_mut();
    groups.for_each(|groups| groups.retain(|group| !group.is_empty()));
}

impl Stateless for Muri {}

impl SchedulingPolicy for Muri {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        let most = self.most;
        let mut keyed: Vec<(f64, JobRef<'_>)> =
            view.active().map(|job| (self.key(&job), job)).collect();
        sort::by(&mut keyed, |a, b| a.0.total_cmp(&b.0));
        let jobs: Vec<JobRef<'_>> = keyed.into_iter().map(|(_, job)| job).collect();
        let unit = Unit::of(jobs.iter().copied());
        let (mut groups, mut free) = (Groups::new(), unit.all(view.usable_gpus()));
        let (mut room, mut needed) = (free, 0);
        for (i, job) in jobs.iter().enumerate() {
            let gpus = unit.gang(job);
            let extras = job.spec().extras();
            let kind = (gpus, extras.share, extras.gpu_types.clone());
            let groups = groups.entry(kind).or_default();
            // The first of every `most` jobs needs GPUs that the others can share. A job with a
            // part of a GPU shares it with none.
            let opens = groups.len() % most == 0 || !extras.share.is_whole();
            if !opens || gpus <= room {
                room -= if opens { gpus } else { 0 };
                needed += gpus;
                groups.push(vec![i]);
            }
        }
        let of = |job: &JobRef<'_>| {
            // A job with a part of a GPU has it alone.
            if !job.spec().extras().share.is_whole() {
                return [0.0; 4];
            }
            let busy = gpu_utilisation(job.spec());
            let own = || [0.0, 1.0 - busy, busy, 0.0].map(|part| part / job.own_rate());
            stages(job.spec()).unwrap_or_else(own)
        };
        let stages: Vec<Stages> = jobs.iter().map(of).collect();
        for _ in 0..most.next_power_of_two().ilog2() {
            if needed > free {
                join(&stages, &mut groups, most, &mut needed, free);
            }
        }
        let mut groups: Vec<Vec<usize>> = groups.into_values().flatten().collect();
        groups.iter_mut().for_each(|group| group.sort_unstable());
        sort::by(&mut groups, Ord::cmp);
        for group in groups {
            let gpus = unit.gang(&jobs[group[0]]);
            if gpus <= free {
                free -= gpus;
                let first = Request::gang(&jobs[group[0]]);
                let others = group[1..].iter();
                out.push(others.fold(first, |request, i| request.beside(jobs[*i].id())));
            }
        }
        out.stop_unlisted();
        Ok(Validity::NextRound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{
        AdmissionDecision, ClusterSpec, Event, Extras, GpuCount, JobId, JobSpec, Seconds, Share,
        State, Time,
    };
    use std::sync::Arc;

    const READS: Stages = [0.8, 0.1, 0.1, 0.0];
    const COMPUTES: Stages = [0.1, 0.1, 0.8, 0.0];

    /// Returns the jobs of each request. A job has GPUs, a duration, and stages unless all are 0.
    fn groups(muri: Muri, cluster: &str, jobs: &[(u32, f64, Stages)]) -> Vec<Vec<u32>> {
        groups_of_parts(muri, cluster, jobs, Share::WHOLE)
    }

    /// Like [`groups`], of jobs that each have a part of their GPUs.
    fn groups_of_parts(
        muri: Muri,
        cluster: &str,
        jobs: &[(u32, f64, Stages)],
        share: Share,
    ) -> Vec<Vec<u32>> {
        let cluster: ClusterSpec = cluster.parse().unwrap();
        let mut state = State::new(&cluster).unwrap();
        for (i, (gpus, duration, stages)) in jobs.iter().enumerate() {
            let mut extras = Extras {
                share,
                ..Extras::default()
            };
            if *stages != [0.0; 4] {
                let list = serde_json::Value::from(stages.to_vec());
                extras.attributes.insert("stages".into(), list);
            }
            let spec = JobSpec::new(Time::ZERO, GpuCount(*gpus), Seconds::new(*duration));
            let spec = Arc::new(spec.with_extras(extras));
            let job = JobId(i as u32);
            let admission = AdmissionDecision::Accept {
                class: None,
                deadline: None,
            };
            for event in [
                Event::Submitted { job, spec },
                Event::AdmissionDecided { job, admission },
            ] {
                state.apply(Time::ZERO, &event).unwrap();
            }
        }
        let (view, mut out) = (View::of(&state), JobQueue::default());
        let validity = muri.schedule(&mut (), view, &mut out).unwrap();
        assert_eq!(validity, Validity::NextRound);
        let requests = out.all(view);
        let jobs = |r: &Request| r.jobs().map(|job| job.0).collect();
        requests.iter().map(jobs).collect()
    }

    #[test]
    fn jobs_that_fit_run_alone() {
        let jobs = [(1, 9.0, READS), (2, 5.0, COMPUTES), (1, 7.0, READS)];
        assert_eq!(
            groups(Muri::default().in_groups_of(4), "1x4", &jobs),
            [[2], [0], [1]],
            "least remaining GPU time first"
        );
    }

    #[test]
    fn four_jobs_with_different_resources_share_a_gpu() {
        let job = |at: usize| {
            let stages = std::array::from_fn(|i| if i == at { 0.7 } else { 0.1 });
            (1, 10.0 + at as f64, stages)
        };
        let jobs: Vec<_> = (0..4).map(job).collect();
        for most in [4, 3, 1] {
            let all: Vec<u32> = (0..most).collect();
            let muri = Muri::default().in_groups_of(most as usize);
            assert_eq!(groups(muri, "1x1", &jobs), [all]);
        }
    }

    #[test]
    fn pairs_have_a_job_of_each_kind() {
        let (reads, computes) = ((1, 8.0, READS), (1, 8.0, COMPUTES));
        let jobs = [reads, reads, computes, computes];
        let mut found = groups(Muri::default(), "1x2", &jobs);
        found.iter_mut().for_each(|group| group.sort_unstable());
        found.sort_unstable();
        assert!(
            found == [[0, 2], [1, 3]] || found == [[0, 3], [1, 2]],
            "{found:?}"
        );
        // One of three jobs has a GPU alone.
        let jobs = [(1, 8.0, READS), (1, 9.0, READS), (1, 9.5, COMPUTES)];
        assert_eq!(groups(Muri::default(), "1x2", &jobs).len(), 2);
    }

    #[test]
    fn jobs_with_parts_of_gpus_are_in_no_group() {
        let jobs = [(1, 8.0, READS), (1, 9.0, COMPUTES), (1, 10.0, READS)];
        let grouped = groups(Muri::default(), "1x1", &jobs);
        assert_eq!(grouped, [[0, 1, 2]]);
        // A GPU holds two of the halves, whatever their stages.
        let half = Share::parts(1, 2).unwrap();
        let alone = groups_of_parts(Muri::default(), "1x1", &jobs, half);
        assert_eq!(alone, [[0], [1]]);
    }

    #[test]
    fn jobs_of_other_sizes_or_without_stages_do_not_share() {
        let jobs = [(1, 8.0, READS), (2, 1.0, COMPUTES), (1, 3.0, [0.0; 4])];
        assert_eq!(groups(Muri::default().in_groups_of(4), "1x2", &jobs), [[1]]);
        let jobs = [(1, 8.0, [0.0; 4]), (1, 5.0, [0.0; 4])];
        assert_eq!(groups(Muri::default().in_groups_of(4), "1x1", &jobs), [[1]]);
        // No job has run yet.
        let attained = Muri::default().in_groups_of(4).by_attained_service();
        assert_eq!(groups(attained, "1x1", &jobs), [[0]]);
    }
}
