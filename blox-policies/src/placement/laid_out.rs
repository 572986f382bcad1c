//! Placement of jobs that must run on a number of nodes.

use super::selector::{NodeSelector, part_on_each};
use super::types::find;
use blox_core::{
    Assignment, Draft, GpuCount, GpuList, JobRef, Node, NodeId, NodeLimit, Reason, Shape,
};

/// Finds GPUs by a rule as [`find`] does, on the nodes on which the job must run.
///
/// A job with a [limit](JobRef::node_limit) gets what the rule finds if it keeps the limit.
/// Otherwise, the rule is tried for an equal part on each node alone. The nodes with the fewest free
/// GPUs that are enough come first. Nodes that the rule refuses are left out.
#[inline]
pub(crate) fn find_laid_out<R: NodeSelector + ?Sized>(
    rule: &R,
    draft: &mut Draft<'_>,
    job: &JobRef<'_>,
    shape: &Shape,
) -> Option<Assignment> {
    match job.node_limit() {
        None => find(rule, draft, job, shape),
        Some(limit) => on_nodes_of(limit, draft, shape, &|draft, shape| {
            find(rule, draft, job, shape)
        }),
    }
}

#[cold]
fn on_nodes_of(
    limit: NodeLimit,
    draft: &mut Draft<'_>,
    shape: &Shape,
    find: &dyn Fn(&Draft<'_>, &Shape) -> Option<Assignment>,
) -> Option<Assignment> {
    let view = draft.view();
    if let Some(found) = find(draft, shape)
        && view.cluster().meets(limit, &found.gpus)
    {
        return Some(found);
    }
    let part = part_on_each(limit, shape);
    let nodes: Vec<NodeId> = match shape.share.is_whole() {
        true => draft.tightest_nodes(limit.gpus).map(Node::id).collect(),
        false => view.nodes().map(Node::id).collect(),
    };
    if nodes.len() < limit.nodes as usize {
        return None;
    }
    let mut parts: Vec<Assignment> = Vec::new();
    for node in nodes {
        draft.narrow_to_node(Some(node));
        let found = find(draft, &part);
        let share = parts.first().map(|part| part.share);
        parts.extend(found.filter(|found| share.is_none_or(|share| share == found.share)));
        if parts.len() == limit.nodes as usize {
            break;
        }
    }
    draft.narrow_to_node(None);
    let gpus: GpuList = parts.iter().flat_map(|part| part.gpus.clone()).collect();
    let share = parts.first()?.share;
    let whole = Assignment {
        share,
        ..shape.on(gpus)
    };
    let meets = view.cluster().meets(limit, &whole.gpus);
    meets.then_some(whole)
}

/// Returns the reason why a job does not find enough free GPUs on the nodes on which it must run;
/// `None` if it may run on any nodes.
pub(crate) fn too_few_nodes(job: &JobRef<'_>) -> Option<Reason> {
    let NodeLimit { nodes, gpus } = job.node_limit()?;
    let gpus = GpuCount(gpus);
    Some(Reason::TooFewNodes { nodes, gpus })
}

#[cfg(test)]
mod tests {
    use crate::placement::{
        Allocation, Balanced, Buddy, Consolidated, EasyBackfill, Even, Fgd, FirstFree, InOrder,
        KeepNodes, LocalSearch, NonSticky, Random, Resizing, Split, Synergy,
    };
    use blox_core::order::SortKey;
    use blox_core::policy::by_key;
    use blox_core::{
        AdmissionDecision, ClusterSpec, Composition, Extras, GpuCount, JobSpec, Pipeline,
        PlacementPolicy, Seconds, Share, Time,
    };
    use blox_testing::Scenario;
    use std::num::NonZeroU32;

    /// Order of submission, in which earlier jobs preempt later ones.
    fn composed(placement: impl PlacementPolicy + 'static) -> Pipeline {
        let first = by_key(|job| SortKey::by(f64::from(-job.spec().priority)));
        let composition = Composition::new("limits").scheduling(first.preemptive());
        composition.placement(placement).build().unwrap()
    }

    /// A job of these GPUs on a number of nodes; 0 for any.
    fn job(gpus: u32, nodes: u32) -> JobSpec {
        let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::from_hours(9.0));
        let nodes = NonZeroU32::new(nodes);
        job.with_extras(Extras {
            nodes,
            ..Extras::default()
        })
    }

    fn with(job: JobSpec, set: impl FnOnce(&mut Extras)) -> JobSpec {
        let mut extras = job.extras().clone();
        set(&mut extras);
        job.with_extras(extras)
    }

    fn run(cluster: &str, placement: impl PlacementPolicy + 'static) -> Scenario {
        Scenario::new(&cluster.parse().unwrap(), composed(placement))
    }

    /// Returns the numbers of a job's GPUs on each node with some, in order of the nodes.
    fn parts(run: &Scenario, id: u32, size: u32) -> Vec<(u32, usize)> {
        let mut nodes: Vec<u32> = run.gpus(id).unwrap_or_default();
        nodes.iter_mut().for_each(|gpu| *gpu /= size);
        nodes.sort_unstable();
        let parts = nodes.chunk_by(|a, b| a == b);
        parts.map(|part| (part[0], part.len())).collect()
    }

    /// Returns the reason why the last decision rejected a job.
    fn rejected(run: &Scenario, id: u32) -> String {
        let judged = run.core.decision().admissions.iter();
        let mut rejected = judged.filter_map(|(job, judged)| match judged {
            AdmissionDecision::Reject(why) if job.0 == id => Some(why.to_string()),
            _ => None,
        });
        rejected.next().unwrap_or_default()
    }

    #[test]
    fn rules_place_jobs_on_their_number_of_nodes() {
        let consolidated = Consolidated::default();
        let never = Consolidated::new(Split::Never);
        let whole = Consolidated::new(Split::WholeNodes);
        let greedy = Synergy::new(FirstFree).with(Allocation::Greedy);
        for (name, mut run) in [
            ("consolidated", run("2x8", InOrder::new(consolidated))),
            ("never", run("2x8", InOrder::new(never))),
            ("whole nodes", run("2x8", InOrder::new(whole))),
            ("first free", run("2x8", InOrder::new(FirstFree))),
            ("even", run("2x8", InOrder::new(Even))),
            ("balanced", run("2x8", InOrder::new(Balanced))),
            ("random", run("2x8", InOrder::new(Random::new(7)))),
            ("non-sticky", run("2x8", NonSticky::new(consolidated))),
            ("easy", run("2x8", EasyBackfill::new(consolidated))),
            ("resizing", run("2x8", Resizing::new(consolidated))),
            ("local search", run("2x8", LocalSearch)),
            ("synergy", run("2x8", Synergy::new(consolidated))),
            ("greedy", run("2x8", greedy)),
        ] {
            run.submit_all(0.0, [job(4, 1), job(4, 2), job(4, 1)]);
            run.round(0.0);
            let numbers = |id| {
                let parts = parts(&run, id, 8).into_iter();
                parts.map(|(_, count)| count).collect::<Vec<_>>()
            };
            assert_eq!(
                [numbers(0), numbers(1), numbers(2)],
                [vec![4], vec![2, 2], vec![4]],
                "{name}"
            );
        }
    }

    #[test]
    fn job_waits_until_its_nodes_have_room() {
        let mut run = run("2x4", InOrder::new(Consolidated::default()));
        run.submit_all(0.0, [job(3, 1), job(3, 1), job(2, 1)]);
        run.round(0.0);
        assert_eq!(run.why(2), "needs 2 free GPUs on one node");
        run.ended(300.0, 1);
        run.round(300.0);
        assert_eq!(parts(&run, 2, 4), [(1, 2)]);
        // One GPU is free on the first node, and two on the second.
        run.submit(600.0, job(4, 2));
        run.round(600.0);
        assert_eq!(run.why(3), "needs 4 GPUs, 3 are free");
        run.submit(900.0, job(2, 2));
        run.cancelled(900.0, 3);
        run.round(900.0);
        assert_eq!(parts(&run, 4, 4), [(0, 1), (1, 1)]);
    }

    #[test]
    fn later_jobs_leave_until_the_nodes_have_room() {
        let mut run = run("2x4", InOrder::new(Consolidated::default()));
        run.submit_all(0.0, [job(3, 1), job(3, 1), job(1, 0)]);
        run.round(0.0);
        let mut urgent = job(4, 2);
        urgent.priority = 1;
        run.submit(300.0, urgent);
        run.round(300.0);
        assert_eq!(parts(&run, 3, 4), [(0, 2), (1, 2)]);
    }

    #[test]
    fn types_and_parts_of_gpus_count_on_each_node() {
        let mut run = run("2x4:v100,2x4:a100", InOrder::new(Consolidated::default()));
        let a100 = |job| with(job, |e| e.gpu_types = vec!["a100".into()]);
        run.submit_all(0.0, [a100(job(4, 2)), a100(job(12, 3)), a100(job(5, 1))]);
        run.round(0.0);
        assert_eq!(parts(&run, 0, 4), [(2, 2), (3, 2)]);
        let why = "asks for 3 nodes with 4 GPUs of type a100 each, the cluster has 2";
        assert_eq!(rejected(&run, 1), why);
        let why = "asks for 1 node with 5 GPUs of type a100, the cluster has none";
        assert_eq!(rejected(&run, 2), why);

        let mut run = self::run("2x2", InOrder::new(Consolidated::default()));
        let half = |job| with(job, |e| e.share = Share::parts(1, 2).unwrap());
        run.submit_all(0.0, [half(job(2, 2)), half(job(2, 2)), half(job(2, 2))]);
        run.round(0.0);
        let gpus = [0, 1, 2].map(|id| run.gpus(id).unwrap());
        assert_eq!(gpus, [[0, 2], [0, 2], [1, 3]].map(Vec::from));
    }

    #[test]
    fn fgd_finds_parts_of_gpus_on_each_node() {
        let mut run = run("3x2", InOrder::new(Fgd::new(vec![(0.5, 1.0)])));
        let half = |job| with(job, |e| e.share = Share::parts(1, 2).unwrap());
        run.submit_all(0.0, [half(job(4, 2)), half(job(2, 2)), half(job(3, 3))]);
        run.round(0.0);
        assert_eq!(parts(&run, 0, 2), [(0, 2), (1, 2)]);
        assert_eq!(parts(&run, 1, 2), [(0, 1), (1, 1)]);
        assert_eq!(parts(&run, 2, 2), [(0, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn cpus_and_memory_count_on_each_node() {
        let mut cluster: ClusterSpec = "2x4".parse().unwrap();
        cluster.nodes.iter_mut().for_each(|node| node.cpus = 9.0);
        let placement = InOrder::new(Consolidated::default());
        let mut run = Scenario::new(&cluster, composed(placement));
        let cpus = |job, cpus| with(job, |e| e.cpus = cpus);
        run.submit_all(
            0.0,
            [
                cpus(job(2, 2), 10.0),
                cpus(job(2, 1), 10.0),
                cpus(job(2, 1), 5.0),
            ],
        );
        run.round(0.0);
        assert_eq!(parts(&run, 0, 4), [(0, 1), (1, 1)]);
        assert_eq!(run.assignment(0).map(|a| a.cpus), Some(10.0));
        assert_eq!(
            rejected(&run, 1),
            "asks for 10 CPUs, the largest node has 9"
        );
        assert_eq!(run.why(2), "needs 2 free GPUs on one node");
    }

    #[test]
    fn placement_that_ignores_nodes_refuses_the_job() {
        for (name, mut run) in [
            ("buddy", run("2x4", Buddy)),
            ("keep nodes", run("2x4", KeepNodes)),
        ] {
            // Without the refusal, the first job waits for ever, perhaps before the others.
            run.submit_all(0.0, [job(4, 2), job(4, 0), job(1, 1)]);
            run.round(0.0);
            let why = "needs 2 GPUs on each of 2 nodes, and the scheduler does not keep this number of nodes";
            assert_eq!(rejected(&run, 0), why, "{name}");
            assert_eq!(run.phases(), "1 running, 2 running", "{name}");
        }
    }
}
