//! Policies whose memory is not cloned, saved or restored completely.

use super::{Hooked, check, list, list_all, scheduled};
use blox_core::ids::{JobId, Name, NodeId};
use blox_core::policy::scheduling_fn;
use blox_core::{Event, JobQueue, JobRef, Pipeline, Validity, View};
use blox_testing::Property;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn hidden_memory_is_found() {
    check(&[
        (
            &[Property::Clone],
            &[
                ("users in a mutex", users_in_a_mutex),
                ("calls in an atomic", calls_in_an_atomic),
                ("clone that resets", clone_that_resets),
            ],
        ),
        (
            &[Property::Restore],
            &[
                ("skipped field", skipped_field),
                ("skipped losses", skipped_losses),
                ("skipped node faults", skipped_node_faults),
                ("lossy save", lossy_save),
                ("estimates in a mutex", estimates_in_a_mutex),
                ("skipped cordons", skipped_cordons),
                ("skipped groups", skipped_groups),
            ],
        ),
    ]);
}

/// Puts the user that was served last to the end. Keeps this user in the policy.
fn users_in_a_mutex() -> Pipeline {
    let served = Mutex::new(None);
    scheduled(scheduling_fn(move |view, out| {
        let mut served = served.lock().unwrap();
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|j| j.user() == *served);
        if let Some(first) = view.waiting().next() {
            *served = first.user();
        }
        list(jobs, out);
        Validity::NextRound
    }))
}

/// Rotates the queue by the number of calls.
fn calls_in_an_atomic() -> Pipeline {
    let calls = AtomicU64::new(0);
    scheduled(scheduling_fn(move |view, out| {
        let mut jobs: Vec<_> = view.active().collect();
        let n = jobs.len().max(1);
        jobs.rotate_left(calls.fetch_add(1, Ordering::Relaxed) as usize % n);
        list(jobs, out);
        Validity::NextRound
    }))
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Skips {
    shown: u64,
    #[serde(skip)]
    crashed: BTreeSet<JobId>,
    #[serde(skip)]
    loss: BTreeMap<JobId, f64>,
    #[serde(skip)]
    faults: BTreeMap<NodeId, u32>,
    #[serde(skip)]
    groups: BTreeSet<Name>,
}

/// Jobs that crashed come last. Does not save them.
fn skipped_field() -> Pipeline {
    scheduled(
        Hooked::<Skips>::new(|memory, view, out| {
            let mut jobs: Vec<_> = view.active().collect();
            jobs.sort_by_key(|j| memory.crashed.contains(&j.id()));
            list(jobs, out);
            Validity::UntilEvent
        })
        .on_event(|memory, _, event| {
            memory.shown += 1;
            if let Event::Crashed { job, .. } = event {
                memory.crashed.insert(*job);
            }
        }),
    )
}

/// Orders jobs by the mean of their reported losses. Does not save the mean.
fn skipped_losses() -> Pipeline {
    scheduled(
        Hooked::<Skips>::new(|memory, view, out| {
            let loss = |j: &JobRef<'_>| memory.loss.get(&j.id()).copied().unwrap_or(0.0);
            let mut jobs: Vec<_> = view.active().collect();
            jobs.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
            list(jobs, out);
            Validity::UntilEvent
        })
        .on_event(|memory, _, event| {
            if let Event::Metric { job, value, .. } = event {
                let mean = memory.loss.entry(*job).or_insert(*value);
                *mean = 0.5 * *mean + 0.5 * value;
            }
        }),
    )
}

/// Reverses the queue while a node has been lost more often than others. Does not save the counts.
fn skipped_node_faults() -> Pipeline {
    scheduled(
        Hooked::<Skips>::new(|memory, view, out| {
            list_all(view, memory.faults.values().any(|n| *n > 1), out);
            Validity::UntilEvent
        })
        .on_event(|memory, _, event| {
            if let Event::NodeLost { node } = event {
                *memory.faults.entry(*node).or_default() += 1;
            }
        }),
    )
}

/// A sum that is saved in whole hours.
#[derive(Clone, Copy, Default)]
struct Hours(f64);

impl Serialize for Hours {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        ((self.0 / 3600.0) as u64).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Hours {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Hours(u64::deserialize(d)? as f64 * 3600.0))
    }
}

/// Orders users by the time that their ended jobs ran. Saves it in whole hours.
fn lossy_save() -> Pipeline {
    type Used = BTreeMap<Name, Hours>;
    fn user(job: &JobRef<'_>) -> Name {
        job.spec().user.clone().unwrap_or_else(|| Name::from(""))
    }
    fn ended(used: &mut Used, view: View<'_>, event: &Event) {
        if let Event::Ended { job, .. } = event
            && let Some(job) = view.job(*job)
        {
            used.entry(user(&job)).or_default().0 += job.attained_gpu_time().secs();
        }
    }
    fn schedule(used: &mut Used, view: View<'_>, out: &mut JobQueue) -> Validity {
        let time = |j: &JobRef<'_>| used.get(&user(j)).map_or(0.0, |h| h.0);
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by(|a, b| time(a).total_cmp(&time(b)));
        list(jobs, out);
        Validity::UntilEvent
    }
    scheduled(Hooked::<Used>::new(schedule).on_event(ended))
}

/// A counter that starts anew in each clone.
#[derive(Default, Serialize, Deserialize)]
struct Fresh(u64);

impl Clone for Fresh {
    fn clone(&self) -> Self {
        Fresh(0)
    }
}

/// Reverses the queue after every other crash or failed launch. Loses the count in a clone.
fn clone_that_resets() -> Pipeline {
    scheduled(
        Hooked::<Fresh>::new(|count, view, out| {
            list_all(view, count.0 % 2 == 1, out);
            Validity::UntilEvent
        })
        .on_event(|count, _, event| {
            let failed = matches!(event, Event::Crashed { .. } | Event::LaunchFailed { .. });
            count.0 += u64::from(failed);
        }),
    )
}

/// Estimates the rest of each job when it is seen first, and keeps the estimate in the policy.
fn estimates_in_a_mutex() -> Pipeline {
    let known = Mutex::new(BTreeMap::<JobId, f64>::new());
    scheduled(scheduling_fn(move |view, out| {
        let mut known = known.lock().unwrap();
        let mut jobs: Vec<_> = view.active().collect();
        for job in &jobs {
            let rest = || job.truth().work_left() / job.own_rate();
            known.entry(job.id()).or_insert_with(rest);
        }
        jobs.sort_by(|a, b| known[&a.id()].total_cmp(&known[&b.id()]));
        list(jobs, out);
        Validity::NextRound
    }))
}

/// Reverses the queue after a cordon that an operator made. Does not save its count.
fn skipped_cordons() -> Pipeline {
    scheduled(
        Hooked::<Skips>::new(|memory, view, out| {
            list_all(view, !memory.faults.is_empty(), out);
            Validity::UntilEvent
        })
        .on_event(|memory, _, event| {
            if let Event::NodeManaged { action } = event
                && let Some(node) = action.node()
            {
                *memory.faults.entry(node).or_default() += 1;
            }
        }),
    )
}

/// Jobs of a group with an ended job come first. Does not save the groups.
fn skipped_groups() -> Pipeline {
    scheduled(
        Hooked::<Skips>::new(|memory, view, out| {
            let known = |j: &JobRef<'_>| {
                let group = j.spec().extras().group.as_ref();
                group.is_some_and(|g| memory.groups.contains(g))
            };
            let mut jobs: Vec<_> = view.active().collect();
            jobs.sort_by_key(|j| !known(j));
            list(jobs, out);
            Validity::UntilEvent
        })
        .on_event(|memory, view, event| {
            if let Event::Ended { job, .. } = event
                && let Some(group) = view.job(*job).and_then(|j| j.spec().extras().group.clone())
            {
                memory.groups.insert(group);
            }
        }),
    )
}
