//! Policies that read attributes, labels, groups or partners wrongly.

use super::{check, first_of, free_for, list, placed_each, scheduled};
use blox_core::ids::{JobId, Name};
use blox_core::order::SortKey;
use blox_core::policy::{by_key, scheduling_fn};
use blox_core::{
    Assignment, GpuCount, JobQueue, JobRef, Phase, Pipeline, Request, Shape, Validity,
};
use blox_testing::Property;
use std::collections::BTreeMap;

#[test]
fn wrong_reading_is_found() {
    check(&[
        (
            &[Property::Panic],
            &[
                ("missing attribute", missing_attribute),
                ("attribute that is no text", attribute_no_text),
                ("negative attribute", negative_attribute),
                ("unknown GPU type", unknown_gpu_type),
                ("label that is no number", label_no_number),
                ("label of one node only", label_of_one_node),
                ("levels without rates", levels_without_rates),
                ("missed deadline", missed_deadline),
                ("job without user", without_user),
                ("priority as index", priority_as_index),
                ("job without work", without_work),
                ("zero weight", zero_weight),
                ("speed of each type", speed_of_each_type),
            ],
        ),
        (
            &[Property::Plan],
            &[
                ("attribute of a missing job", attribute_of_missing_job),
                ("beside another type", beside_another_type),
                ("beside another width", beside_another_width),
            ],
        ),
        (
            &[Property::Liveness],
            &[
                ("group without a leader", group_without_leader),
                ("largest level", largest_level),
                ("jobs by name", jobs_by_name),
            ],
        ),
    ]);
}

/// Expects an attribute that not all jobs have.
fn missing_attribute() -> Pipeline {
    scheduled(by_key(|job| {
        let level = job
            .spec()
            .attribute("level")
            .expect("all jobs have a level");
        SortKey::by(level.as_f64().unwrap_or(0.0))
    }))
}

/// Expects that an attribute is a text.
fn attribute_no_text() -> Pipeline {
    scheduled(by_key(|job| {
        let class = job.spec().attribute("class").map(|v| v.as_str().unwrap());
        SortKey::by(f64::from(u8::from(class == Some("interactive"))))
    }))
}

/// Expects that a number is not negative.
fn negative_attribute() -> Pipeline {
    scheduled(by_key(|job| {
        let level = job.spec().attribute("level").filter(|v| v.is_i64());
        SortKey::by(level.map_or(0.0, |v| v.as_u64().unwrap() as f64))
    }))
}

/// Places a job beside the job that its attribute names, whether it exists or not.
fn attribute_of_missing_job() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        for job in view.active() {
            let beside = job.spec().attribute("beside").and_then(|v| v.as_u64());
            let request = Request::gang(&job);
            out.push(match beside {
                Some(other) => request.beside(JobId(other as u32)),
                None => request,
            });
        }
        Validity::NextRound
    }))
}

/// Expects that the cluster has each type that a job lists.
fn unknown_gpu_type() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        for job in view.active() {
            let types = &job.spec().extras().gpu_types;
            let known = view.cluster().gpu_types();
            let ids: Vec<_> = types.iter().map(|t| known.find(t).unwrap()).collect();
            if ids.len() <= known.len() {
                out.push(Request::gang(&job));
            }
        }
        Validity::NextRound
    }))
}

/// Expects a number in a label of nodes.
fn label_no_number() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let labels = view.nodes().filter_map(|n| n.spec().labels.get("rack"));
        let racks = labels.map(|rack| rack.parse::<u32>().unwrap()).max();
        assert!(racks.unwrap_or(0) < 1000);
        list(view.active(), out);
        Validity::NextRound
    }))
}

/// If one node has a label, expects the label on all nodes.
fn label_of_one_node() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let racked = |n: &blox_core::Node| n.spec().labels.contains_key("rack");
        if view.nodes().any(racked) {
            let racks = view.nodes().map(|n| &n.spec().labels["rack"]);
            assert!(racks.count() > 0);
        }
        list(view.active(), out);
        Validity::NextRound
    }))
}

/// A job with a group starts only if another job of the group runs or comes first. Waits forever
/// for a first job that has ended.
fn group_without_leader() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let group = |j: &JobRef<'_>| j.spec().extras().group.clone();
        let running: Vec<_> = view.running().filter_map(|j| group(&j)).collect();
        for job in view.active() {
            let leads = |name: &Name| name.ends_with("-0") || name.ends_with("-1");
            let leads = job.spec().name.as_ref().is_some_and(leads);
            if group(&job).is_none_or(|g| leads || job.is_placed() || running.contains(&g)) {
                out.push(Request::gang(&job));
            }
        }
        Validity::NextRound
    }))
}

/// Places each waiting job beside a running one of the same width, whatever its GPU type.
fn beside_another_type() -> Pipeline {
    placed_each(|draft, request| {
        let free = first_of(free_for(request.job, draft), request);
        free.or_else(|| {
            let needed = request.shapes[0].gpus;
            let alone = |a: &Assignment| {
                let single = |gpu: &blox_core::GpuId| draft.jobs_on(*gpu).count() == 1;
                a.gpus.iter().all(single) && a.count() == needed
            };
            let usable = draft.view().usable_gpus() == draft.view().installed_gpus();
            let mut hosts = draft.placed().filter(|(_, a)| usable && alone(a));
            let mut assignment = Assignment::of(hosts.next()?.1.gpus.clone());
            assignment.share = assignment.share.overlapping();
            Some(assignment)
        })
    })
}

/// Places each waiting job beside the first running one, whatever its number of GPUs.
fn beside_another_width() -> Pipeline {
    placed_each(|draft, request| {
        let free = first_of(free_for(request.job, draft), request);
        free.or_else(|| {
            let needed = request.shapes[0].gpus.get() as usize;
            let mut gpus = draft.placed().next()?.1.gpus.clone();
            gpus.truncate(needed);
            let mut assignment = Assignment::of(gpus);
            assignment.share = assignment.share.overlapping();
            Some(assignment)
        })
    })
}

/// Expects a measured rate for each level.
fn levels_without_rates() -> Pipeline {
    scheduled(by_key(|job| {
        let extras = job.spec().extras();
        let rates = (0..extras.levels.len()).map(|i| extras.rates[i]);
        SortKey::by(rates.fold(0.0, f64::max))
    }))
}

/// Requests the largest level of an elastic job only, even if no cluster of this size exists.
fn largest_level() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        for job in view.active() {
            let level = job.spec().extras().levels.last().copied();
            let gpus: GpuCount = level.unwrap_or_else(|| job.gpus());
            out.push(Request::with_shape(job.id(), Shape::gpus(gpus)));
        }
        Validity::NextRound
    }))
}

/// Expects that a deadline is in the future.
fn missed_deadline() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|j| {
            let slack = j.deadline().map(|d| d.secs() - view.now().secs());
            assert!(slack.is_none_or(|s| s >= 0.0), "a deadline is missed");
            slack.map_or(u64::MAX, |s| s as u64)
        });
        list(jobs, out);
        Validity::NextRound
    }))
}

/// Expects that each job has a user.
fn without_user() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|j| j.spec().user.clone().expect("each job has a user"));
        list(jobs, out);
        Validity::NextRound
    }))
}

/// Keeps the jobs by name: drops jobs without a name, and all but one of the same name.
fn jobs_by_name() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let named = |j: JobRef<'_>| Some((j.spec().name.clone()?, j.id()));
        let jobs: BTreeMap<Name, JobId> = view.active().filter_map(named).collect();
        list(jobs.values().filter_map(|&id| view.job(id)), out);
        Validity::NextRound
    }))
}

/// Uses the priority as the index of a queue.
fn priority_as_index() -> Pipeline {
    scheduled(scheduling_fn(|view, out: &mut JobQueue| {
        let mut queues = vec![Vec::new(); 3];
        for job in view.active() {
            queues[job.spec().priority as usize].push(job.id());
        }
        let jobs = queues.iter().rev().flatten();
        list(jobs.filter_map(|&id| view.job(id)), out);
        Validity::NextRound
    }))
}

/// Orders jobs by the share of their work that is done, which is no number without work.
fn without_work() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let share = |j: &JobRef<'_>| j.work_done() / j.truth().work().iterations;
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by(|a, b| share(a).partial_cmp(&share(b)).expect("a number"));
        list(jobs, out);
        Validity::NextRound
    }))
}

/// Divides service by a weight that is 0 if it is not specified.
fn zero_weight() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        let share = |j: &JobRef<'_>| j.attained_time().secs() / j.spec().extras().weight;
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by(|a, b| share(a).partial_cmp(&share(b)).expect("a number"));
        list(jobs, out);
        Validity::NextRound
    }))
}

/// Expects that a job was measured on each type of the cluster.
fn speed_of_each_type() -> Pipeline {
    scheduled(scheduling_fn(|view, out| {
        for job in view.active().filter(|j| j.phase() != Phase::Ended) {
            if let Some(training) = &job.spec().extras().training {
                for node in view.nodes() {
                    let name = node
                        .spec()
                        .gpu_type
                        .clone()
                        .unwrap_or_else(|| Name::from(""));
                    assert!(training.types[&name].one_gpu_rate > 0.0);
                }
            }
            out.push(Request::gang(&job));
        }
        Validity::NextRound
    }))
}
