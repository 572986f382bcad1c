//! Policies that ignore a constraint of jobs or nodes.

use super::{check, composed, first_of, free_for, list, placed_each, placement_fn};
use blox_core::ids::GpuId;
use blox_core::policy::scheduling_fn;
use blox_core::{
    Assignment, Draft, GpuList, JobQueue, NodeStatus, Pipeline, Reason, Request, Shape, Validity,
};
use blox_testing::Property;

#[test]
fn ignored_constraint_is_found() {
    check(&[
        (
            &[Property::Plan],
            &[
                ("GPU types of jobs", ignores_gpu_types),
                ("CPUs of nodes", ignores_cpus),
                ("memory of nodes", ignores_memory),
                ("CPUs of single nodes", ignores_cpus_per_node),
                ("cordoned nodes", ignores_cordons),
                ("broken GPUs", ignores_broken_gpus),
                ("GPU types of types in sum", counts_hidden_gpus),
                ("GPU types of victims", swaps_types),
            ],
        ),
        (
            &[Property::VirtualClusters],
            &[("virtual clusters", ignores_virtual_clusters)],
        ),
    ]);
}

/// Places each candidate on the first GPUs of a list, with the CPUs and memory of its shape.
fn on_first(free: fn(&Draft<'_>, &Request) -> GpuList) -> Pipeline {
    placed_each(move |draft, request| {
        let assignment = first_of(free(draft, request), request)?;
        Some(request.shapes[0].on(assignment.gpus))
    })
}

/// Does not narrow the draft to the types that a job accepts.
fn ignores_gpu_types() -> Pipeline {
    placed_each(|draft, request| {
        let nodes = draft.nodes_with_free();
        let gpus = nodes.flat_map(|n| draft.free_gpus_on(n.id())).collect();
        first_of(gpus, request)
    })
}

/// Places jobs in order on the first free GPUs that they accept. Adds a resource without a check
/// whether the nodes have it.
fn without_check(add: fn(&mut Assignment, &Shape)) -> Pipeline {
    placed_each(move |draft, request| {
        let mut assignment = first_of(free_for(request.job, draft), request)?;
        add(&mut assignment, &request.shapes[0]);
        Some(assignment)
    })
}

/// Takes the CPUs of a job without a check whether its nodes have them.
fn ignores_cpus() -> Pipeline {
    without_check(|assignment, shape| assignment.cpus = shape.cpus)
}

/// Takes the memory of a job without a check whether its nodes have it.
fn ignores_memory() -> Pipeline {
    without_check(|assignment, shape| assignment.memory_gib = shape.memory_gib)
}

/// Compares the CPUs of a job with the free CPUs of all nodes together.
fn ignores_cpus_per_node() -> Pipeline {
    placed_each(|draft, request| {
        let nodes = draft.view().nodes();
        let cpus: f64 = nodes.map(|n| draft.free_cpus_on(n.id())).sum();
        let needed = request.shapes[0].cpus;
        let mut assignment = first_of(free_for(request.job, draft), request)?;
        assignment.cpus = needed;
        (cpus >= needed).then_some(assignment)
    })
}

/// Returns the GPUs of nodes that no job has, of types that the job accepts.
fn untaken(draft: &Draft<'_>, request: &Request, counts: fn(&blox_core::Node) -> bool) -> GpuList {
    let view = draft.view();
    let Some(job) = view.job(request.job) else {
        return GpuList::new();
    };
    let taken: Vec<GpuId> = draft.placed().flat_map(|(_, a)| a.gpus.to_vec()).collect();
    let nodes = view.nodes().filter(|n| counts(n));
    let accepted = nodes.filter(|n| job.accepts(view.cluster(), n.gpu_type()));
    let gpus = accepted.flat_map(|n| n.gpus());
    gpus.filter(|g| !taken.contains(g)).collect()
}

/// Counts each GPU of an available node that no job has as free, also on cordoned nodes.
fn ignores_cordons() -> Pipeline {
    on_first(|draft, request| {
        untaken(draft, request, |n| {
            let works = n.usable_count() == n.gpu_count() || !n.is_usable();
            n.status() == NodeStatus::Up && works
        })
    })
}

/// Counts all GPUs of a usable node as usable.
fn ignores_broken_gpus() -> Pipeline {
    on_first(|draft, request| untaken(draft, request, |n| n.is_usable()))
}

/// Compares the request with a count that includes GPUs of types that the job does not accept.
/// Then takes what it finds.
fn counts_hidden_gpus() -> Pipeline {
    placed_each(|draft, request| {
        let needed = request.shapes[0].gpus.get();
        (draft.free_gpus() >= needed).then(|| {
            let mut gpus = free_for(request.job, draft);
            gpus.truncate(needed as usize);
            Assignment::of(gpus)
        })
    })
}

/// Places the jobs of a virtual cluster on the nodes of others.
fn ignores_virtual_clusters() -> Pipeline {
    placed_each(|draft, request| first_of(free_for(request.job, draft), request))
}

/// Gives the GPUs of the last running job to a short job that waits, whatever their type.
fn swaps_types() -> Pipeline {
    let policy = scheduling_fn(|view, out: &mut JobQueue| {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|job| job.truth().duration());
        list(jobs, out);
        out.allow_preemption();
        Validity::UntilEvent
    });
    let placement = placement_fn(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            let needed = request.shapes[0].gpus;
            let mut gpus = free_for(request.job, draft);
            if gpus.len() < needed.get() as usize
                && let Some((victim, _)) = draft.next_victim(requests)
                && let Some(its) = draft.current(victim).cloned()
                && its.count() == needed
                && its.gpus.iter().all(|&g| {
                    let node = draft.view().cluster().node_of(g);
                    node.and_then(|n| draft.view().node(n))
                        .is_some_and(|n| n.is_usable())
                })
                && draft.view().usable_gpus() == draft.view().installed_gpus()
            {
                draft.release(victim, Reason::PreemptedFor(request.job))?;
                gpus = its.gpus;
            }
            if gpus.len() < needed.get() as usize {
                draft.candidate_blocked(requests);
                break;
            }
            gpus.truncate(needed.get() as usize);
            draft.assign(request.job, Assignment::of(gpus))?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    });
    composed("planted", policy, placement)
}
