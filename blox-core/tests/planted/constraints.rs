//! Policies that ignore a constraint of jobs or nodes.

use super::{check, list, placed, planted};
use blox_core::ids::GpuId;
use blox_core::policy::scheduling_fn;
use blox_core::{
    Assignment, Composition, Draft, DraftError, GpuList, JobQueue, NodeStatus, Pipeline, Reason,
    Request, Shape, Validity,
};
use blox_testing::Property;

#[test]
fn ignored_constraint_is_found() {
    check(&[
        planted("GPU types of jobs", ignores_gpu_types, &[Property::Plan]),
        planted("CPUs of nodes", ignores_cpus, &[Property::Plan]),
        planted("memory of nodes", ignores_memory, &[Property::Plan]),
        planted(
            "CPUs of single nodes",
            ignores_cpus_per_node,
            &[Property::Plan],
        ),
        planted("cordoned nodes", ignores_cordons, &[Property::Plan]),
        planted("broken GPUs", ignores_broken_gpus, &[Property::Plan]),
        planted(
            "GPU types of types in sum",
            counts_hidden_gpus,
            &[Property::Plan],
        ),
        planted(
            "virtual clusters",
            ignores_virtual_clusters,
            &[Property::VirtualClusters],
        ),
        planted("GPU types of victims", swaps_types, &[Property::Plan]),
    ]);
}

/// Places each candidate on the first GPUs of a list, with the CPUs and memory of its shape.
fn walk(
    requests: &mut JobQueue,
    draft: &mut Draft<'_>,
    free: fn(&Draft<'_>, &Request) -> GpuList,
) -> Result<Validity, DraftError> {
    while let Some(request) = draft.next_candidate(requests) {
        let shape = request.shapes[0].clone();
        let mut gpus = free(draft, &request);
        if gpus.len() < shape.gpus.get() as usize {
            draft.candidate_blocked(requests);
            break;
        }
        gpus.truncate(shape.gpus.get() as usize);
        draft.assign(request.job, shape.on(gpus))?;
        draft.candidate_placed(requests);
    }
    Ok(Validity::UntilEvent)
}

fn all_free(draft: &Draft<'_>, _: &Request) -> GpuList {
    let nodes = draft.nodes_with_free();
    nodes.flat_map(|n| draft.free_gpus_on(n.id())).collect()
}

/// Does not narrow the draft to the types that a job accepts.
fn ignores_gpu_types() -> Pipeline {
    placed(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            let mut gpus = all_free(draft, &request);
            if gpus.len() < request.shapes[0].gpus.get() as usize {
                draft.candidate_blocked(requests);
                break;
            }
            gpus.truncate(request.shapes[0].gpus.get() as usize);
            draft.assign(request.job, Assignment::of(gpus))?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    })
}

fn narrowed(draft: &mut Draft<'_>, request: &Request) {
    if let Some(job) = draft.view().job(request.job) {
        draft.narrow_to(&job);
    }
}

/// Places jobs in order on the first free GPUs that they accept. Adds a resource without a check
/// whether the nodes have it.
fn without_check(add: fn(&mut Assignment, &Shape)) -> Pipeline {
    placed(move |requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            narrowed(draft, &request);
            let mut gpus = all_free(draft, &request);
            draft.widen();
            let shape = &request.shapes[0];
            if gpus.len() < shape.gpus.get() as usize {
                draft.candidate_blocked(requests);
                break;
            }
            gpus.truncate(shape.gpus.get() as usize);
            let mut assignment = Assignment::of(gpus);
            add(&mut assignment, shape);
            draft.assign(request.job, assignment)?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
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
    placed(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            narrowed(draft, &request);
            let mut gpus = all_free(draft, &request);
            let nodes = draft.view().nodes();
            let cpus: f64 = nodes.map(|n| draft.free_cpus_on(n.id())).sum();
            draft.widen();
            let shape = &request.shapes[0];
            if gpus.len() < shape.gpus.get() as usize || cpus < shape.cpus {
                draft.candidate_blocked(requests);
                break;
            }
            gpus.truncate(shape.gpus.get() as usize);
            let mut assignment = Assignment::of(gpus);
            assignment.cpus = shape.cpus;
            draft.assign(request.job, assignment)?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    })
}

/// Counts each GPU of an available node that no job has as free, also on cordoned nodes.
fn ignores_cordons() -> Pipeline {
    placed(|requests, draft| {
        walk(requests, draft, |draft, request| {
            let view = draft.view();
            let Some(job) = view.job(request.job) else {
                return GpuList::new();
            };
            let taken: Vec<GpuId> = draft.placed().flat_map(|(_, a)| a.gpus.to_vec()).collect();
            let up = view.nodes().filter(|n| n.status() == NodeStatus::Up);
            let up = up.filter(|n| job.accepts(view.cluster(), n.gpu_type()));
            let works = |n: &&blox_core::Node| n.usable_count() == n.gpu_count() || !n.is_usable();
            let gpus = up.filter(works).flat_map(|n| n.gpus());
            gpus.filter(|g| !taken.contains(g)).collect()
        })
    })
}

/// Counts all GPUs of a usable node as usable.
fn ignores_broken_gpus() -> Pipeline {
    placed(|requests, draft| {
        walk(requests, draft, |draft, request| {
            let view = draft.view();
            let Some(job) = view.job(request.job) else {
                return GpuList::new();
            };
            let taken: Vec<GpuId> = draft.placed().flat_map(|(_, a)| a.gpus.to_vec()).collect();
            let up = view.nodes().filter(|n| n.is_usable());
            let up = up.filter(|n| job.accepts(view.cluster(), n.gpu_type()));
            let gpus = up.flat_map(|n| n.gpus());
            gpus.filter(|g| !taken.contains(g)).collect()
        })
    })
}

/// Compares the request with a count that includes GPUs of types that the job does not accept.
/// Then takes what it finds.
fn counts_hidden_gpus() -> Pipeline {
    placed(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            let needed = request.shapes[0].gpus.get();
            if draft.free_gpus() < needed {
                draft.candidate_blocked(requests);
                break;
            }
            narrowed(draft, &request);
            let mut gpus = all_free(draft, &request);
            draft.widen();
            gpus.truncate(needed as usize);
            draft.assign(request.job, Assignment::of(gpus))?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    })
}

/// Places the jobs of a virtual cluster on the nodes of others.
fn ignores_virtual_clusters() -> Pipeline {
    placed(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            narrowed(draft, &request);
            let mut gpus = all_free(draft, &request);
            draft.widen();
            if gpus.len() < request.shapes[0].gpus.get() as usize {
                draft.candidate_blocked(requests);
                break;
            }
            gpus.truncate(request.shapes[0].gpus.get() as usize);
            draft.assign(request.job, Assignment::of(gpus))?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    })
}

/// Gives the GPUs of the last running job to a short job that waits, whatever their type.
fn swaps_types() -> Pipeline {
    let policy = scheduling_fn(|view, out: &mut JobQueue| {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|job| job.spec().duration());
        list(jobs, out);
        out.allow_preemption();
        Validity::UntilEvent
    });
    let placement = super::Placing(|requests: &mut JobQueue, draft: &mut Draft<'_>| {
        while let Some(request) = draft.next_candidate(requests) {
            let needed = request.shapes[0].gpus;
            narrowed(draft, &request);
            let mut gpus = all_free(draft, &request);
            draft.widen();
            if gpus.len() < needed.get() as usize
                && let Some(victim) = draft.next_victim(requests)
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
    let composition = Composition::new("planted").scheduling(policy);
    composition.placement(placement).build().unwrap()
}
