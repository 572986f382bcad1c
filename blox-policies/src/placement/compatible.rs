//! Placement of jobs whose traffic interleaves.

use super::consolidated::Consolidated;
use super::selector::{NodeSelector, suits, taken_in_order};
use super::shifting::{Affinity, rotations};
use blox_core::{Assignment, Draft, JobRef, Node, Reason, Room, Shape};
use blox_perf::{link_demand, share_link};

/// Candidates besides the consolidated one, as in CASSINI.
const CANDIDATES: usize = 10;

/// Placement by compatible traffic (CASSINI, NSDI 2024).
///
/// A job without [traffic](blox_core::Extras::traffic) is placed as [`Consolidated`] does. For other
/// jobs, this is the first candidate. The others take free GPUs in order of the nodes, from each of
/// 10 nodes that are spread over all with free GPUs. The score of a link is 1 minus the [mean excess
/// demand](share_link) of all its jobs in the draft. The candidate with the highest mean score of its
/// links wins; ties go to the first.
///
/// A knob `shift` of a config counts, but the placement sets none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compatible {
    first: Consolidated,
    shifted: bool,
}

impl Compatible {
    /// Returns the rule for jobs that are [shifted](super::Shifting): the score of a link is the one
    /// with the best shifts of its jobs. A candidate whose graph of jobs and links has a loop counts
    /// only if no other fits.
    pub fn for_shifted_jobs() -> Self {
        Compatible {
            shifted: true,
            ..Compatible::default()
        }
    }

    /// Returns the mean score of the links of a job; `None` without links or traffic.
    fn score(&self, draft: &Draft<'_>, job: &JobRef<'_>, on: &Assignment) -> Option<f64> {
        let own = link_demand(job, on)?;
        let cluster = draft.view().cluster();
        let links = cluster.links_of(&on.gpus);
        if self.shifted && !links.is_empty() && Affinity::around(draft, job, on).has_loop() {
            return Some(-1.0);
        }
        let of_link = |link| {
            let others = draft
                .on_link(link)
                .filter(|(other, _)| other.id() != job.id());
            let theirs = others.filter_map(|(other, on)| link_demand(&other, on));
            let demands: Vec<_> = theirs.chain([own]).collect();
            let gbps = cluster.link(link)?.gbps;
            Some(
                1.0 - match self.shifted {
                    true => rotations(gbps, &demands.iter().map(|d| d.0).collect::<Vec<_>>()).1,
                    false => share_link(gbps, &demands).excess,
                },
            )
        };
        let scores = links.iter().filter_map(|link| of_link(*link));
        (!links.is_empty()).then(|| scores.sum::<f64>() / links.len() as f64)
    }
}

impl NodeSelector for Compatible {
    fn find(&self, draft: &Draft<'_>, job: &JobRef<'_>, shape: &Shape) -> Option<Assignment> {
        let mut found = self.first.find(draft, job, shape)?;
        let Some(mut best) = self.score(draft, job, &found).filter(|score| *score < 1.0) else {
            return Some(found);
        };
        let view = draft.view();
        let nodes = draft
            .nodes_with_free()
            .filter(|n| suits(n, job, shape, view));
        let nodes: Vec<&Node> = nodes.collect();
        let count = nodes.len().min(CANDIDATES);
        let starts = (0..count).map(|i| i * nodes.len() / count);
        let from = |start: usize| {
            let nodes = nodes[start..].iter().chain(&nodes[..start]).copied();
            taken_in_order(draft, nodes, job, shape, shape.gpus.get()).map(|gpus| shape.on(gpus))
        };
        for candidate in starts.filter_map(from) {
            match self.score(draft, job, &candidate) {
                Some(score) if score <= best => {}
                score => (best, found) = (score.unwrap_or(1.0), candidate),
            }
        }
        Some(found)
    }

    fn could_find(&self, room: &Room<'_>, job: &JobRef<'_>, shape: &Shape) -> Result<(), Reason> {
        self.first.could_find(room, job, shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::InOrder;
    use crate::scheduling::Fifo;
    use blox_core::{ClusterSpec, Composition, Curve, Extras, GpuCount, JobSpec, Seconds, Time};
    use blox_testing::Scenario;

    /// Returns the GPUs of jobs of two GPUs with a phase in one half of an iteration of 0.1 s, on
    /// nodes of one GPU in racks. All links have 50 Gbit/s.
    fn placed(rule: Compatible, demands: &[[f64; 2]]) -> Vec<Vec<u32>> {
        let mut cluster: ClusterSpec = "8x1,network=50:50".parse().unwrap();
        for (i, node) in cluster.nodes.iter_mut().enumerate() {
            let rack = [0, 1, 0, 2, 2, 3, 3, 1][i];
            node.location = vec![format!("rack-{rack}").into()];
        }
        let scheduler = Composition::new("compatible")
            .scheduling(Fifo::default())
            .placement(InOrder::new(rule))
            .build()
            .unwrap();
        let mut case = Scenario::new(&cluster, scheduler);
        let job = |[first, second]: &[f64; 2]| {
            let steps = [(0.0, *first), (0.05, *second)];
            let steps = steps.map(|(at, gbps)| (Seconds::new(at), gbps));
            let traffic = Curve::new(Seconds::new(0.1), steps);
            let job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(60.0));
            job.with_extras(Extras {
                traffic,
                ..Extras::default()
            })
        };
        demands.iter().for_each(|d| {
            case.submit(0.0, job(d));
        });
        case.round(0.0);
        let jobs = 0..demands.len() as u32;
        jobs.map(|id| case.gpus(id).unwrap()).collect()
    }

    #[test]
    fn jobs_whose_phases_meet_are_kept_apart() {
        let rule = Compatible::default();
        let (early, late) = ([50.0, 0.0], [0.0, 50.0]);
        // Node 2 is in the rack of node 0.
        assert_eq!(placed(rule, &[early, late]), [[0, 1], [2, 3]]);
        assert_eq!(placed(rule, &[early, early]), [[0, 1], [3, 4]]);
        // Without a candidate that is better, the first is taken.
        let three = placed(rule, &[early, early, early]);
        assert_eq!(three, [[0, 1], [3, 4], [5, 6]]);
    }
    #[test]
    fn jobs_that_can_be_shifted_apart_stay_close() {
        let rule = Compatible::for_shifted_jobs();
        let (early, always) = ([50.0, 0.0], [50.0, 50.0]);
        assert_eq!(placed(rule, &[early, early]), [[0, 1], [2, 3]]);
        assert_eq!(placed(rule, &[early, always]), [[0, 1], [3, 4]]);
    }
}
