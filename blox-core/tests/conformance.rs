//! The conformance suite accepts correct schedulers and finds errors.

use crate::functions::{
    Hooked, admission_fn, any_number, by_submission, composed, free_for, list, list_all,
    placement_fn,
};
use blox_core::order::SortKey;
use blox_core::policy::{ByKey, by_key, scheduling_fn};
use blox_core::{
    AfterDrain, Answer, Assignment, Composition, Draft, DraftError, GpuList, JobQueue, JobRef,
    OnEvent, Pipeline, PlacementPolicy, Policy, Reason, Request, Rounds, Seconds, Stateless,
    Validity,
};
use blox_testing::{Failure, Fault, FirstFit, Property, Report, Suite, Ties, conformance};
use serde::{Deserialize, Serialize};

/// Takes free GPUs, then the GPUs of the last jobs in order. If there are still too few, changes
/// nothing.
#[derive(Clone, Copy, Debug)]
pub struct Preempting;

impl Stateless for Preempting {}

impl PlacementPolicy for Preempting {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        while let Some(request) = draft.next_candidate(requests) {
            let needed = request.shapes[0].gpus.get() as usize;
            let before = draft.savepoint();
            let mut free = free_for(request.job, draft);
            while free.len() < needed {
                let Some((victim, _)) = draft.next_victim(requests) else {
                    break;
                };
                draft.release(victim, Reason::PreemptedFor(request.job))?;
                free = free_for(request.job, draft);
            }
            free.truncate(needed);
            if free.len() < needed {
                draft.rollback(before);
                draft.candidate_blocked(requests);
                break;
            }
            draft.assign(request.job, Assignment::of(free))?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    }
}

fn submit(job: &JobRef<'_>) -> SortKey {
    SortKey::by(job.submit().secs())
}

fn length(job: &JobRef<'_>) -> SortKey {
    SortKey::by(job.truth().duration().secs())
}

fn attained(job: &JobRef<'_>) -> SortKey {
    SortKey::by(job.attained_gpu_time().secs())
}

fn passes(suite: Suite<'_>) -> Report {
    let report = match suite.check() {
        Ok(report) => report,
        Err(failure) => panic!("{failure}"),
    };
    assert_eq!(report.cases, 128);
    assert!(report.decisions > 500, "{report:?}");
    assert!(report.completed > 300, "{report:?}");
    assert!(report.crashes > 20, "{report:?}");
    assert!(report.failed_launches > 20, "{report:?}");
    assert!(report.nodes_lost > 5, "{report:?}");
    assert!(report.late_ends > 20, "{report:?}");
    assert!(report.shadows > 100, "{report:?}");
    report
}

fn caught(suite: Suite<'_>, property: Property) -> Failure {
    let failure = suite.check().expect_err("the suite found nothing");
    assert_eq!(failure.property, property, "{failure}");
    assert!(failure.to_string().contains("rerun with"), "{failure}");
    failure
}

#[test]
fn fifo_conforms() {
    passes(conformance(|_| composed("fifo", by_submission(), FirstFit)));
}

#[test]
fn shortest_first_conforms() {
    passes(conformance(|_| {
        composed("sjf", by_key(length).valid_until_event(), FirstFit)
    }));
}

#[test]
fn preemptive_shortest_first_conforms() {
    let report = passes(conformance(|_| {
        composed(
            "sjf-preemptive",
            by_key(length).preemptive().valid_until_event(),
            Preempting,
        )
    }));
    assert!(report.preemptions > 15, "{report:?}");
}

/// Job numbers may decide, although a case is also run with other numbers.
#[test]
fn noise_by_job_number_conforms() {
    let noise = |job: &JobRef<'_>| {
        let mixed = job.id().0.wrapping_mul(0x9e37_79b9) >> 16;
        SortKey::by(f64::from(mixed))
    };
    passes(conformance(|_| {
        composed("noise", by_key(noise).valid_until_event(), FirstFit)
    }));
}

/// Orders jobs by their names, which stay with the jobs.
fn name(job: &JobRef<'_>) -> SortKey {
    let name = job.spec().name.as_deref().unwrap_or_default();
    let mixed = name.bytes().fold(7u32, |x, byte| {
        (x ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    SortKey::by(f64::from(mixed))
}

#[test]
fn orders_without_job_numbers_are_accepted() {
    type Order = fn() -> ByKey;
    let orders: [(Order, Ties); 4] = [
        (|| by_key(submit).valid_until_event(), Ties::BySubmission),
        (|| by_key(attained).preemptive(), Ties::BySubmission),
        (|| by_key(name).valid_until_event(), Ties::Never),
        (
            || by_key(name).preemptive().valid_until_event(),
            Ties::Never,
        ),
    ];
    for (order, ties) in orders {
        let suite = conformance(|_| composed("numbers", order(), Preempting));
        let suite = suite.without(Fault::Details).ignores_job_numbers(ties);
        let report = suite.check().unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.renamed > 1000, "{report:?}");
        let exchanges = ties == Ties::Never;
        assert_eq!(report.exchanged > 100, exchanges, "{report:?}");
    }
}

#[test]
fn orders_by_job_numbers_are_found() {
    type Key = fn(&JobRef<'_>) -> SortKey;
    let noise: Key = |job| SortKey::by(f64::from(job.id().0.wrapping_mul(0x9e37_79b9) >> 16));
    let odd: Key = |job| SortKey::by(f64::from(job.id().0 % 2));
    let early: Key = |job| SortKey::by(f64::from(u8::from(job.id().0 < 4)));
    for (key, ties) in [
        (noise, Ties::BySubmission),
        (odd, Ties::BySubmission),
        (early, Ties::BySubmission),
        (submit, Ties::Never),
    ] {
        let suite = conformance(|_| composed("numbers", by_key(key).valid_until_event(), FirstFit));
        let failure = caught(suite.ignores_job_numbers(ties), Property::JobNumbers);
        let text = failure.to_string();
        assert!(text.contains("decides by the numbers of jobs"), "{text}");
        assert!(
            text.contains("if the jobs have other numbers (0 as "),
            "{text}"
        );
        assert!(failure.jobs < 8, "{text}");
        assert!(
            failure.test().contains("suite.ignores_job_numbers("),
            "{text}"
        );
    }
}

#[test]
fn least_attained_service_conforms() {
    passes(conformance(|_| {
        composed("las", by_key(attained).preemptive(), FirstFit)
    }));
    let report = passes(conformance(|_| {
        composed("las-preempting", by_key(attained).preemptive(), Preempting)
    }));
    assert!(report.preemptions > 100, "{report:?}");
}

#[test]
fn decisions_on_events_conform() {
    for gap in [0.0, 7.0] {
        passes(conformance(|_| {
            Composition::new("on-event")
                .trigger(OnEvent::with_gap(Seconds::new(gap)))
                .scheduling(by_key(length).preemptive().valid_until_event())
                .placement(Preempting)
                .build()
                .unwrap()
        }));
    }
}

#[test]
fn awkward_rounds_conform() {
    passes(conformance(|_| {
        Composition::new("tenths")
            .in_rounds(Seconds::new(0.1))
            .scheduling(by_key(attained).preemptive())
            .placement(Preempting)
            .build()
            .unwrap()
    }));
}

fn listed() -> Pipeline {
    let policy = scheduling_fn(|view, out: &mut JobQueue| {
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|j| (std::cmp::Reverse(j.spec().priority), j.id()));
        for job in jobs {
            out.push(Request::gang(&job));
        }
        out.allow_preemption();
        Validity::UntilEvent
    });
    composed("listed", policy, Preempting)
}

#[test]
fn a_list_of_requests_conforms() {
    let report = passes(conformance(|_| listed()));
    assert!(report.preemptions > 15, "{report:?}");
}

// Errors are found. Each of these schedulers has exactly one error.

use blox_core::ids::{GpuId, JobId};
use blox_core::{
    Action, AdmissionDecisions, AdmissionPolicy, ClusterManager, DecisionError, Event, NodeAction,
    NodeActionKind, NodeActionKinds, NodeActions, NodeStatus, Outcome, Plan, Scheduler,
    SchedulingPolicy, View,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn rounds() -> Rounds {
    Rounds::every(Seconds::new(300.0)).unwrap()
}

#[test]
fn chance_from_outside_is_caught() {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let suite = conformance(|_| {
        let policy = scheduling_fn(|view, out: &mut JobQueue| {
            let n = COUNTER.fetch_add(1, Ordering::Relaxed);
            list_all(view, n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0, out);
            Validity::NextRound
        });
        composed("chance", policy, FirstFit)
    });
    caught(suite, Property::Determinism);
}

/// Assigns the first free GPUs to waiting jobs, after `spoil` has changed the plan.
#[derive(Clone)]
struct ByHand(fn(View<'_>, &mut Plan));

impl Scheduler for ByHand {
    fn name(&self) -> &str {
        "by-hand"
    }

    fn manage(&mut self, _: View<'_>, _: &mut NodeActions) -> Validity {
        Validity::UntilEvent
    }

    fn admit(
        &mut self,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        // Only pipelines reject jobs that can never run.
        for job in asking.iter().filter_map(|&id| view.job(id)) {
            let (asked, possible) = (job.gpus(), view.installed_gpus());
            let limit = job.node_limit();
            if asked > possible {
                out.reject(job.id(), Reason::never_fits(asked, possible));
            } else if limit.is_some_and(|limit| limit.nodes * limit.gpus > 1) {
                out.reject(job.id(), Reason::other("the scheduler takes any nodes"));
            } else {
                out.accept(job.id());
            }
        }
        Validity::UntilEvent
    }

    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
        let mut free: Vec<GpuId> = Vec::new();
        for node in view.nodes().filter(|n| n.free_count() == n.gpu_count()) {
            free.extend(node.gpus());
        }
        for job in view.waiting() {
            let needed = job.gpus().get() as usize;
            let accepts = |gpu: &GpuId| {
                let node = view.cluster().node_of(*gpu).and_then(|n| view.node(n));
                node.is_some_and(|n| job.accepts(view.cluster(), n.gpu_type()))
            };
            let gpus: GpuList = free.iter().copied().filter(accepts).take(needed).collect();
            if gpus.len() < needed {
                break;
            }
            free.retain(|gpu| !gpus.contains(gpu));
            let assignment = Assignment::of(gpus);
            out.actions.push(Action::Place {
                job: job.id(),
                assignment,
            });
        }
        (self.0)(view, out);
        Ok(Validity::NextRound)
    }
}

#[test]
fn a_plan_by_hand_conforms() {
    passes(conformance(|_| (ByHand(|_, _| ()), rounds())));
}

#[test]
fn a_gpu_given_twice_is_caught() {
    let suite = conformance(|_| {
        let spoil = |_: View<'_>, plan: &mut Plan| {
            if let [
                Action::Place { assignment: a, .. },
                Action::Place { assignment: b, .. },
                ..,
            ] = &mut plan.actions[..]
            {
                b.gpus[0] = a.gpus[0];
            }
        };
        (ByHand(spoil), rounds())
    });
    let failure = caught(suite, Property::Plan);
    assert!(failure.found.contains("to job"), "{failure}");
}

#[test]
fn an_unknown_job_is_caught() {
    let suite = conformance(|_| {
        let spoil = |view: View<'_>, plan: &mut Plan| {
            plan.actions.push(Action::Stop {
                job: view.next_job_id(),
                why: Reason::NotChosen,
            });
        };
        (ByHand(spoil), rounds())
    });
    let failure = caught(suite, Property::Plan);
    assert_eq!(failure.jobs, 1, "{failure}");
    assert!(
        failure.found.contains("job 1, which does not exist"),
        "{failure}"
    );
}

#[test]
fn a_request_for_an_unknown_job_is_caught() {
    let asking_for = |job: fn(View<'_>) -> JobId, beside: bool| {
        conformance(move |_| {
            let policy = scheduling_fn(move |view, out: &mut JobQueue| {
                for asks in view.active() {
                    let request = Request::gang(&asks);
                    out.push(match beside {
                        true => request.beside(job(view)),
                        false => request,
                    });
                }
                if !beside {
                    out.push(Request::with_shape(job(view), blox_core::Shape::default()));
                }
                Validity::NextRound
            });
            composed("dreaming", policy, FirstFit)
        })
    };
    for beside in [false, true] {
        let failure = caught(asking_for(|_| JobId(4242), beside), Property::Plan);
        let found = "one that names job 4242, which does not exist";
        assert_eq!(failure.found, found, "{failure}");
    }
    let failure = caught(asking_for(|_| JobId(0), false), Property::Plan);
    assert!(
        failure.found.ends_with("job 0, which has ended"),
        "{failure}"
    );
}

/// First in, first out, with an admission policy.
fn answers<'a>(admit: fn(View<'_>, &[JobId], &mut AdmissionDecisions)) -> Suite<'a> {
    conformance(move |_| {
        let fifo = composed("fifo", by_submission(), FirstFit);
        fifo.with_admission(admission_fn(admit)).unwrap()
    })
}

#[test]
fn a_verdict_about_an_unknown_job_is_caught() {
    let suite = answers(|view, asking, out| {
        asking.iter().for_each(|&job| out.accept(job));
        out.accept(view.next_job_id());
    });
    let failure = caught(suite, Property::Answers);
    let found = "`accept` for job 1, which does not exist";
    assert_eq!(failure.found, found, "{failure}");

    /// Cordons a node that does not exist.
    #[derive(Clone)]
    struct Lost;
    impl Stateless for Lost {}
    impl ClusterManager for Lost {
        fn manage(&self, (): &mut (), _: View<'_>, out: &mut NodeActions) -> Validity {
            let (node, why) = (blox_core::NodeId(77), "lost".into());
            out.push(NodeAction::Cordon { node, why });
            Validity::UntilEvent
        }
    }
    let suite = conformance(|_| {
        composed("lost", by_submission(), FirstFit)
            .with_cluster(Lost)
            .unwrap()
    });
    let failure = caught(suite, Property::Answers);
    assert!(failure.found.contains("node 77"), "{failure}");
}

#[test]
fn a_verdict_given_twice_is_caught() {
    let suite = answers(|_, asking, out| {
        asking.iter().for_each(|&job| out.accept(job));
        if let Some(&job) = asking.first() {
            out.defer(job, Reason::QuotaReached);
        }
    });
    let failure = caught(suite, Property::Answers);
    let found = "`defer (quota reached)` for job 0, which is waiting";
    assert_eq!(failure.found, found, "{failure}");
}

#[test]
fn an_untrue_outlook_is_caught() {
    let suite = conformance(|_| {
        composed(
            "las-stable",
            by_key(attained).preemptive().valid_until_event(),
            Preempting,
        )
    });
    let failure = caught(suite, Property::Validity);
    let moment = format!("nothing to do at {} s, as of ", failure.at);
    assert!(failure.expected.starts_with(&moment), "{failure}");
    assert!(failure.expected.ends_with(" s (validity: stable)"));
    assert!(failure.found.starts_with("`stop job "), "{failure}");
    assert!(failure.found.contains("first start: "), "{failure}");
    assert!(!failure.to_string().contains("Some("), "{failure}");
}

#[test]
fn round_counting_policy_is_caught_where_runs_differ() {
    let suite = conformance(|_| {
        let counting = Hooked::new(|calls: &mut u64, view, out| {
            *calls += 1;
            list_all(view, calls.is_multiple_of(2), out);
            Validity::UntilEvent
        });
        composed("counting", counting, FirstFit)
    });
    let failure = caught(suite, Property::Validity);
    assert!(
        failure.expected.ends_with("(validity: stable)"),
        "{failure}"
    );
    assert!(failure.found.contains("when no moment is skipped; for job"));
}

/// A count in a field that is saved, or in one that is not.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Count {
    saved: u64,
    #[serde(skip)]
    hidden: u64,
}

impl Count {
    fn add(&mut self, saves: bool, n: u64) {
        match saves {
            true => self.saved += n,
            false => self.hidden += n,
        }
    }
}

/// First in, first out; in reverse order while the count is odd.
fn by_count() -> Hooked<Count> {
    Hooked::new(|count: &mut Count, view, out| {
        list_all(view, (count.saved + count.hidden) % 2 == 1, out);
        Validity::UntilEvent
    })
}

/// Counts ended jobs.
fn moody<'a>(saves: bool) -> Suite<'a> {
    conformance(move |_| {
        let moody = by_count().on_event(move |count, _, event| {
            count.add(saves, u64::from(matches!(event, Event::Ended { .. })));
        });
        composed("moody", moody, FirstFit)
    })
}

#[test]
fn memory_that_is_saved_conforms() {
    passes(moody(true));
}

#[test]
fn memory_that_is_not_saved_is_caught() {
    let failure = caught(moody(false), Property::Restore);
    assert!(
        failure
            .expected
            .starts_with("step 1 of the plan to be `place job")
    );
    assert!(failure.found.starts_with("`place job"), "{failure}");
    let quoted = |text: &str| text.split('`').nth(1).map(str::to_owned);
    assert_ne!(quoted(&failure.expected), quoted(&failure.found));
}

#[test]
fn memory_of_what_jobs_report_is_tested() {
    let kinds: [fn(&Event) -> bool; 2] = [
        |e| matches!(e, Event::Metric { .. }),
        |e| matches!(e, Event::Reported { .. }),
    ];
    for counts in kinds {
        let suite = || {
            conformance(move |_| {
                let forgetful = by_count().on_event(move |count, _, event| {
                    count.add(false, u64::from(counts(event)));
                });
                composed("forgetful", forgetful, FirstFit)
            })
        };
        caught(suite(), Property::Restore);
        passes(suite().without(Fault::Reports));
    }
}

#[test]
fn memory_of_launches_is_tested() {
    let suite = |saves| {
        conformance(move |_| {
            let counting = by_count().on_launches(move |count, _, plan| {
                assert!(!plan.is_empty(), "an empty plan was reported");
                count.add(saves, 1);
            });
            composed("plan-counting", counting, FirstFit)
        })
    };
    passes(suite(true));
    caught(suite(false), Property::Restore);
}

#[test]
fn a_memory_that_json_cannot_hold_is_named() {
    // Remembers pairs of jobs that ran at the same time.
    type Pairs = BTreeMap<(JobId, JobId), u32>;
    let suite = conformance(|_| {
        let pairing = Hooked::new(|pairs: &mut Pairs, view, out| {
            let jobs: Vec<JobId> = view.active().map(|j| j.id()).collect();
            for pair in jobs.windows(2) {
                *pairs.entry((pair[0], pair[1])).or_default() += 1;
            }
            list(view.active(), out);
            Validity::NextRound
        });
        composed("pairing", pairing, FirstFit)
    });
    let failure = caught(suite, Property::Restore);
    let expected = "scheduling: cannot save the memory of a policy: key must be a string";
    assert_eq!(failure.found, expected, "{failure}");
}

#[test]
fn a_memory_that_cannot_be_restored_is_named() {
    // Remembers a bound that JSON represents as `null`.
    let suite = conformance(|_| {
        let unbounded = Hooked::new(|bound: &mut f64, view, out| {
            let all = view.active();
            list(all.filter(|j| j.truth().duration().secs() <= *bound), out);
            Validity::UntilEvent
        });
        composed("unbounded", unbounded.from(|_| f64::INFINITY), FirstFit)
    });
    let failure = caught(suite, Property::Restore);
    let expected = "scheduling: cannot restore the memory of a policy: invalid type: null";
    assert!(failure.found.starts_with(expected), "{failure}");
}

#[test]
fn a_clone_that_shares_is_caught() {
    let suite = conformance(|_| {
        // Each instance starts at 0; only clones share a counter.
        let calls = Arc::new(Mutex::new(0u64));
        let policy = scheduling_fn(move |view, out: &mut JobQueue| {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            list_all(view, calls.is_multiple_of(3), out);
            Validity::NextRound
        });
        composed("sharing", policy, FirstFit)
    });
    // It saves nothing either, but the suite compares clones first.
    caught(suite, Property::Clone);

    /// A memory that clones share, and that is saved. Cloning is its only error.
    #[derive(Clone, Default, Serialize, Deserialize)]
    struct Calls(Arc<Mutex<u64>>);

    let suite = conformance(|_| {
        let sharing = Hooked::new(|calls: &mut Calls, view, out| {
            let mut calls = calls.0.lock().unwrap();
            *calls += 1;
            list_all(view, calls.is_multiple_of(3), out);
            Validity::NextRound
        });
        composed("sharing", sharing, FirstFit)
    });
    caught(suite, Property::Clone);
}

#[test]
fn a_policy_that_changes_itself_is_caught() {
    // Counts its calls in the policy itself: clones of the scheduler share the count.
    let suite = conformance(|_| {
        let calls = AtomicU32::new(0);
        let counter = scheduling_fn(move |view, out| {
            list_all(view, calls.fetch_add(1, Ordering::Relaxed) % 3 == 2, out);
            Validity::NextRound
        });
        composed("counter", counter, FirstFit)
    });
    caught(suite, Property::Clone);

    // Keeps the ended jobs in the policy itself. A clone adds the same jobs again without effect;
    // a restored instance lacks them.
    let suite = conformance(|_| {
        let ended = Arc::new(Mutex::new(BTreeSet::<JobId>::new()));
        let seen = Arc::clone(&ended);
        let policy = Hooked::new(move |_: &mut u8, view, out| {
            list_all(view, seen.lock().unwrap().len() % 2 == 1, out);
            Validity::UntilEvent
        });
        let policy = policy.on_event(move |_, _, event| {
            if let Event::Ended { job, .. } = event {
                ended.lock().unwrap().insert(*job);
            }
        });
        composed("ended", policy, FirstFit)
    });
    caught(suite, Property::Restore);
}

#[test]
fn a_panic_is_caught() {
    let suite = conformance(|_| {
        let policy = scheduling_fn(|view, out: &mut JobQueue| {
            for job in view.active() {
                assert!(job.crashes() == 0, "no crash was expected");
                out.push(Request::gang(&job));
            }
            Validity::NextRound
        });
        composed("panicking", policy, FirstFit)
    });
    let failure = caught(suite, Property::Panic);
    assert!(failure.found.contains("no crash was expected"), "{failure}");

    // Panics while it processes an event: the core continues without the event's effect on it.
    let suite = conformance(|_| {
        let startled = Hooked::new(|_: &mut u8, view, out| {
            list(view.active(), out);
            Validity::NextRound
        });
        let startled = startled.on_event(|_, _, event| {
            let completed = Outcome::Completed;
            assert!(!matches!(event, Event::Ended { outcome, .. } if *outcome == completed));
        });
        composed("startled", startled, FirstFit)
    });
    let failure = caught(suite, Property::Panic);
    assert!(failure.found.contains("Event::Ended"), "{failure}");

    // Panics after a plan with a stop was applied: the core continues.
    let suite = conformance(|_| {
        let stopped = Hooked::new(|_: &mut u8, view, out| {
            by_key(attained)
                .preemptive()
                .schedule(&mut (), view, out)
                .unwrap()
        });
        let stopped = stopped.on_launches(|_, _, plan| {
            assert_eq!(plan.stops(), 0, "no stop was expected");
        });
        composed("stopped", stopped, Preempting)
    });
    let failure = caught(suite, Property::Panic);
    assert!(failure.found.contains("no stop was expected"), "{failure}");
}

#[test]
fn policy_assuming_service_only_grows_is_caught() {
    // Counts the seconds that each job has run since the last decision.
    type Times = BTreeMap<JobId, f64>;
    let suite = || {
        conformance(|_| {
            let metering = Hooked::new(|memory: &mut Times, view, out| {
                for job in view.active() {
                    let now = job.attained_time().secs();
                    let before = memory.insert(job.id(), now).unwrap_or(0.0);
                    assert!(now >= before - 1e-6, "service only grows");
                    out.push(Request::gang(&job));
                }
                Validity::NextRound
            });
            composed("metering", metering, FirstFit)
        })
    };
    let failure = caught(suite(), Property::Panic);
    assert!(failure.found.contains("service only grows"), "{failure}");
    let report = suite().without(Fault::LateEnds).check().unwrap();
    assert_eq!(report.late_ends, 0, "{report:?}");
}

#[test]
fn policy_that_never_answers_is_named_and_abandoned() {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;
    static ENOUGH: AtomicBool = AtomicBool::new(false);
    let borrowed = String::from("endless");
    let suite = || {
        conformance(|_| {
            let policy = scheduling_fn(|view, out: &mut JobQueue| {
                while view.waiting_count() > 2 && !ENOUGH.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                list(view.active(), out);
                Validity::UntilEvent
            });
            composed(&borrowed, policy, FirstFit)
        })
    };
    let failure = suite().patience(Duration::from_secs(1)).check();
    let failure = failure.expect_err("it never answers");
    assert_eq!(failure.property, Property::Hang, "{failure}");
    let expected = "an answer to `plan (schedule, then place)` within 1 s";
    assert_eq!(failure.expected, expected);
    assert!(failure.step > 2, "{failure}");
    assert!(
        failure
            .to_string()
            .starts_with("policy `endless` does not answer: case ")
    );
    ENOUGH.store(true, Ordering::Relaxed);
    passes(suite());
}

fn single_gpu_only<'a>() -> Suite<'a> {
    conformance(|_| {
        let policy = scheduling_fn(|view, out: &mut JobQueue| {
            for job in view.active().filter(|j| j.gpus().get() == 1) {
                out.push(Request::gang(&job));
            }
            Validity::NextRound
        });
        composed("single-gpu-only", policy, FirstFit)
    })
}

#[test]
fn starvation_is_caught() {
    let failure = caught(single_gpu_only(), Property::Liveness);
    assert!(failure.found.contains("it is waiting"), "{failure}");
    assert!(failure.found.ends_with(": given no GPUs"), "{failure}");
}

/// FIFO under a cluster manager.
fn managed<'a, M: ClusterManager + Clone + 'static>(manager: M) -> Suite<'a> {
    conformance(move |_| {
        Composition::new("managed")
            .cluster(manager.clone())
            .scheduling(by_submission())
            .placement(FirstFit)
            .build()
            .unwrap()
    })
}

/// Requests a node in each round, or only while jobs ask for more GPUs than it has requested.
#[derive(Clone)]
struct Grows {
    always: bool,
}

impl Stateless for Grows {}

impl ClusterManager for Grows {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        let cluster = view.cluster();
        let asked: u32 = view.waiting().map(|job| job.gpus().get()).sum();
        let own = cluster.nodes().iter().filter(|node| node.offer().is_some());
        let own = (own.count() + cluster.coming()) as u32;
        if self.always || own < asked {
            let offers = cluster.offers().map(|(offer, _)| offer);
            let grow = |offer| NodeAction::Grow { offer, count: 1 };
            out.extend(offers.map(grow));
        }
        Validity::NextRound
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::of(&[NodeActionKind::Grow])
    }
}

#[test]
fn growth_without_bound_is_caught() {
    let report = passes(managed(Grows { always: false }));
    assert!(report.coverage.node_actions > 500, "{report}");
    let failure = caught(managed(Grows { always: true }), Property::Growth);
    assert!(failure.found.contains("of 64 rounds"), "{failure}");
}

#[test]
fn rejection_without_a_reason_is_caught() {
    let rejects = |why: &'static str| {
        conformance(move |_| {
            let admission = admission_fn(move |_, asking, out| {
                for job in asking {
                    out.reject(*job, Reason::Other(why.into()));
                }
            });
            Composition::new("closed")
                .admission(admission)
                .scheduling(by_submission())
                .placement(FirstFit)
                .build()
                .unwrap()
        })
    };
    let report = rejects("the cluster is closed").check().unwrap();
    assert!(report.coverage.rejections > 500, "{report}");
    let failure = caught(rejects(" "), Property::Answers);
    assert!(failure.expected.starts_with("a reason"), "{failure}");
}

#[test]
fn end_of_a_job_that_never_ran_is_caught() {
    let ends = |least: f64| {
        conformance(move |_| {
            let policy = scheduling_fn(move |view, out: &mut JobQueue| {
                for job in view.active() {
                    match job.attained_time().secs() >= least {
                        true => out.finish(job.id(), Reason::Other("enough".into())),
                        false => out.push(Request::gang(&job)),
                    }
                }
                Validity::NextRound
            });
            composed("early", policy, FirstFit)
        })
    };
    let report = ends(30.0).check().unwrap();
    assert!(report.coverage.goals > 100, "{report}");
    let failure = caught(ends(0.0), Property::Work);
    assert!(
        failure.found.ends_with("which was never launched"),
        "{failure}"
    );
}

#[test]
fn given_values_of_an_attribute_reach_the_policy() {
    let by_replicas = || {
        by_key(|job| {
            let replicas = job.spec().attribute("replicas");
            let replicas = replicas.map_or(1.0, |v| v.as_f64().expect("a number"));
            assert!([1.0, 2.0, 8.0].contains(&replicas), "{replicas}");
            SortKey::by(replicas)
        })
    };
    let suite = conformance(|_| composed("replicas", by_replicas(), FirstFit));
    passes(suite.with_attribute_values("replicas", [2, 8]));
}

#[test]
fn report_names_what_no_case_reached() {
    let report = passes(conformance(|_| composed("fifo", by_submission(), FirstFit)));
    assert!(report.coverage.spanning > 0, "{report}");
    let text = report.to_string();
    let (_, never) = text.split_once("never reached: ").expect("zeros");
    assert!(
        never.contains("shared GPUs, growth, shrinking, moves"),
        "{text}"
    );
}

#[test]
fn failure_repeats_with_its_reported_case_and_jobs() {
    let first = single_gpu_only().check().unwrap_err();
    let again = single_gpu_only()
        .only(first.case)
        .jobs(first.jobs)
        .check()
        .unwrap_err();
    assert_eq!(again, first);
}

#[test]
fn failure_printed_as_test_fails_again() {
    let first = single_gpu_only().check().unwrap_err();
    let text = first.to_string();
    let (_, test) = text.split_once("or with this test:\n\n").unwrap();
    assert_eq!(test, first.test());
    let name = format!("fn policy_single_gpu_only_case_{}_conforms()", first.case);
    assert!(test.contains(&name), "{test}");
    let (_, case) = test.split_once("r#\"").unwrap();
    let (case, _) = case.split_once("\"#;").unwrap();
    assert_eq!(case, &*first.script);
    assert_eq!(case.matches("\"work\":").count(), first.jobs, "{case}");
    let again = single_gpu_only().case(case).unwrap().check().unwrap_err();
    assert_eq!(again, first);
}

#[test]
fn every_case_survives_its_text() {
    // The detection differs from case to case, so that the whole case counts.
    let suite = || {
        conformance(|_| {
            let policy = scheduling_fn(|view, out: &mut JobQueue| {
                assert!(view.now().secs() < 3000.0, "it is late");
                list(view.active(), out);
                Validity::NextRound
            });
            composed("late", policy, FirstFit)
        })
        .with_attribute("level")
        .with_label("rack")
    };
    let mut failed = 0;
    for seed in 0..40 {
        if let Err(first) = suite().only(seed).check() {
            let again = suite().case(&first.script).unwrap().check();
            assert_eq!(again, Err(first));
            failed += 1;
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn case_that_cannot_be_read_is_refused() {
    let read = |text: &str| single_gpu_only().case(text).map(|_| ()).unwrap_err();
    let error = read("{}").to_string();
    assert!(
        error.starts_with("cannot read the case: missing field"),
        "{error}"
    );
    let case = single_gpu_only().check().unwrap_err().script;
    let unknown = case.replace("{\"submit\":0}", "{\"submit\":4242}");
    assert_ne!(unknown, *case);
    let expected = "cannot read the case: Submit(JobId(4242)) names what the case does not have";
    assert_eq!(read(&unknown).to_string(), expected);
}

#[test]
fn restarting_for_ever_is_caught() {
    // Restarts every job at every decision.
    let suite = conformance(|_| {
        let restless = placement_fn(|requests, draft| {
            let placed: Vec<_> = draft.view().placed().filter(|j| j.is_placed()).collect();
            for job in placed {
                let same = job.assignment().cloned().unwrap_or_default();
                draft.release(job.id(), Reason::NotChosen)?;
                // A job on a lost node cannot return there.
                let _ = draft.assign(job.id(), Assignment::of(same.gpus));
            }
            FirstFit.place(&mut (), requests, draft)
        });
        composed("restless", by_key(submit), restless)
    });
    caught(suite, Property::Liveness);
}

// Correct schedulers with unusual behaviour.

/// Random numbers derived from a moment.
struct Dice(u64);

impl Dice {
    fn next(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

fn any_free(job: JobId, draft: &mut Draft<'_>, count: usize, dice: &mut Dice) -> GpuList {
    let mut free = free_for(job, draft);
    let mut taken = GpuList::new();
    while taken.len() < count && !free.is_empty() {
        taken.push(free.swap_remove(dice.next(free.len())));
    }
    taken
}

/// Performs random operations of a draft for a while.
#[derive(Clone, Copy)]
struct Monkey {
    pairs: bool,
    reassigns: bool,
}

impl Policy for Monkey {
    /// Seed of its random numbers, which depend only on the seed and the moment.
    type Memory = u64;

    fn initial(&self, seed: u64) -> u64 {
        seed
    }
}

impl Monkey {
    fn act(self, job: JobId, draft: &mut Draft<'_>, dice: &mut Dice) -> Result<(), DraftError> {
        let Some(known) = draft.view().job(job) else {
            return Ok(());
        };
        let width = known.gpus().get() as usize;
        let other = JobId(dice.next(draft.view().next_job_id().index()) as u32);
        let has = draft.current(job).cloned();
        match (dice.next(8), has) {
            (0 | 1, Some(_)) => draft.release(job, Reason::NotChosen),
            (2, Some(_)) => {
                draft.release(job, Reason::NotChosen)?;
                // The node of its GPUs may take no new jobs.
                let _ = draft.spare(job);
                Ok(())
            }
            (3 | 4, Some(_)) if self.reassigns => {
                let count = 1 + dice.next(width + 1);
                let gpus = any_free(job, draft, count, dice);
                if gpus.is_empty() {
                    return Ok(());
                }
                let _ = draft.reassign(job, Assignment::of(gpus));
                Ok(())
            }
            (5, Some(mut a)) if self.reassigns && !a.share.overlaps() && a.gpus.len() > 1 => {
                a.gpus.pop();
                let _ = draft.reassign(job, a);
                Ok(())
            }
            (6, None) if self.pairs && draft.may_place(job) => {
                let cluster = draft.view().cluster();
                let accepts = |gpu: &GpuId| {
                    let node = cluster.node_with(*gpu);
                    node.is_some_and(|n| known.accepts(cluster, n.gpu_type()))
                };
                let has = draft.current(other).cloned();
                if let Some(mut a) = has.filter(|a| a.gpus.iter().all(accepts)) {
                    a.share = a.share.overlapping();
                    let _ = draft.assign(job, a);
                }
                Ok(())
            }
            (0..=3, None) if draft.may_place(job) => {
                let gpus = any_free(job, draft, width, dice);
                if gpus.len() == width {
                    draft.assign(job, Assignment::of(gpus))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl PlacementPolicy for Monkey {
    fn place(&self, seed: &mut u64, requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        let now = draft.view().now();
        if now.secs() > 12_000.0 {
            return FirstFit.place(&mut (), requests, draft);
        }
        let mut dice = Dice(*seed ^ now.secs().to_bits());
        let mut points = vec![draft.savepoint()];
        let jobs = requests.in_order(draft.view());
        for _ in 0..3 {
            for &job in &jobs {
                self.act(job, draft, &mut dice)?;
                match dice.next(12) {
                    0 => points.push(draft.savepoint()),
                    1 => {
                        points.truncate(1 + dice.next(points.len()));
                        draft.rollback(points[points.len() - 1]);
                    }
                    _ => {}
                }
            }
        }
        Ok(Validity::UntilEvent)
    }
}

fn monkey<'a>(pairs: bool, reassigns: bool) -> Suite<'a> {
    conformance(move |seed| {
        // The placement must run in every round.
        let every_round = any_number();
        composed("monkey", every_round, Monkey { pairs, reassigns }).with_seed(seed)
    })
}

#[test]
fn whatever_a_draft_allows_is_a_plan() {
    let report = passes(monkey(false, false));
    assert!(report.preemptions > 100, "{report:?}");
}

#[test]
fn changes_in_place_conform() {
    passes(monkey(false, true));
}

#[test]
fn pairs_conform() {
    passes(monkey(true, false));
}

#[test]
fn pairs_that_change_in_place_conform() {
    passes(monkey(true, true));
}

/// Backfill: later jobs pass those that do not fit. If it is preemptive, victims of a job that still
/// does not fit continue to run.
fn passing(preempting: bool) -> impl PlacementPolicy {
    placement_fn(move |requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            let needed = request.shapes[0].gpus.get() as usize;
            let mut victims = Vec::new();
            let mut gpus = free_for(request.job, draft);
            while preempting && gpus.len() < needed {
                let Some((victim, _)) = draft.next_victim(requests) else {
                    break;
                };
                draft.release(victim, Reason::PreemptedFor(request.job))?;
                victims.push(victim);
                gpus = free_for(request.job, draft);
            }
            gpus.truncate(needed);
            if gpus.len() < needed {
                // On a node that takes no new jobs, the release cannot be undone.
                victims.retain(|&v| draft.spare(v).is_err());
                draft.candidate_blocked(requests);
            } else {
                draft.assign(request.job, Assignment::of(gpus))?;
                draft.candidate_placed(requests);
            }
        }
        Ok(Validity::UntilEvent)
    })
}

#[test]
fn letting_jobs_pass_conforms() {
    for preempting in [false, true] {
        for key in [submit, length, attained] {
            passes(conformance(|_| {
                composed("passing", by_key(key).preemptive(), passing(preempting))
            }));
        }
    }
}

/// Cordons, powers off, defers, promotes and finishes at random for a while.
struct Meddler {
    order: ByKey,
}

impl Policy for Meddler {
    /// Seed of its random numbers, which depend only on the seed and the moment.
    type Memory = u64;

    fn initial(&self, seed: u64) -> u64 {
        seed
    }
}

impl Meddler {
    fn dice(seed: u64, view: View<'_>, what: u64) -> Option<Dice> {
        let now = view.now().secs();
        (now < 12_000.0).then(|| Dice(seed ^ now.to_bits() ^ what))
    }
}

impl ClusterManager for Meddler {
    fn manage(&self, seed: &mut u64, view: View<'_>, out: &mut NodeActions) -> Validity {
        let mut dice = Meddler::dice(*seed, view, 1);
        for n in view.nodes() {
            let node = n.id();
            let idle = n.gpus().all(|g| {
                let cluster = view.cluster();
                cluster.bound_to(g).next().is_none() && cluster.allocated_to(g).next().is_none()
            });
            let (on, why) = (n.status() == NodeStatus::Off, "meddling".into());
            match dice.as_mut().map(|d| d.next(6)) {
                Some(0) if idle && n.status() == NodeStatus::Up => {
                    out.push(NodeAction::Power { node, on: false });
                }
                Some(1) => out.push(NodeAction::Cordon { node, why }),
                Some(2) | None if on && !n.is_waking() => out.push(NodeAction::Power { node, on }),
                Some(4) if n.status() == NodeStatus::Up => {
                    let by = view.now() + Seconds::new(f64::from(node.0 % 3) * 400.0);
                    let then = [AfterDrain::Stay, AfterDrain::Off][node.0 as usize % 2];
                    out.push(NodeAction::Drain {
                        node,
                        by,
                        then,
                        why,
                    });
                }
                Some(3) | None if n.cordoned().is_some() => {
                    out.push(NodeAction::Uncordon { node });
                }
                _ => {}
            }
        }
        Validity::NextRound
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::of(&[NodeActionKind::PowerOn, NodeActionKind::PowerOff])
    }
}

impl AdmissionPolicy for Meddler {
    fn admit(
        &self,
        seed: &mut u64,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let mut dice = Meddler::dice(*seed, view, 2);
        let deferred = view
            .deferred()
            .filter(|j| *j.reason() != Reason::HeldByUser);
        for job in asking.iter().copied().chain(deferred.map(|j| j.id())) {
            match dice.as_mut().map(|d| d.next(8)) {
                Some(0..=3) => out.defer(job, Reason::AdmissionLoad),
                Some(4) => out.reject(job, Reason::QuotaReached),
                _ => out.accept(job),
            }
        }
        Validity::NextRound
    }
}

impl SchedulingPolicy for Meddler {
    fn schedule(&self, seed: &mut u64, view: View<'_>, out: &mut JobQueue) -> Answer {
        if let Some(mut dice) = Meddler::dice(*seed, view, 3) {
            for job in view.active() {
                match dice.next(60) {
                    0 if job.attempt() > 0 => {
                        out.finish(job.id(), Reason::GoalReached);
                    }
                    1..5 if !job.promoted() => out.promote(job.id()),
                    _ => {}
                }
            }
        }
        self.order.schedule(&mut (), view, out)?;
        Ok(Validity::NextRound)
    }
}

#[test]
fn meddling_conforms() {
    let report = conformance(|seed| {
        let meddler = Meddler {
            order: by_key(length).preemptive(),
        };
        Composition::new("meddler")
            .seed(seed)
            .joint(meddler, |roles| roles.cluster().admission().scheduling())
            .placement(passing(seed % 2 == 0))
            .build()
            .unwrap()
    })
    .check();
    match report {
        Ok(report) => assert!(report.completed > 300, "{report:?}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
#[ignore = "many cases; run it after changes to state, drafts or orders"]
fn thousands_of_cases_conform() {
    for (pairs, reassigns) in [(false, false), (true, false), (false, true), (true, true)] {
        if let Err(failure) = monkey(pairs, reassigns).cases(4000).check() {
            panic!("pairs: {pairs}, reassigns: {reassigns}: {failure}");
        }
    }
}

#[test]
fn key_that_is_no_number_is_caught() {
    let none = |job: &JobRef<'_>| match job.truth().duration().secs() {
        long if long > 100.0 => f64::NAN,
        short => short,
    };
    let by = |key: fn(&JobRef<'_>, f64) -> SortKey| {
        conformance(move |_| composed("odd", by_key(move |job| key(job, none(job))), FirstFit))
    };
    for odd in [
        by(|_, value| SortKey::by(value)),
        by(|job, value| submit(job).then(value)),
    ] {
        let failure = caught(odd, Property::Key);
        assert!(
            failure.found.contains("policy `odd`: the sort key of job"),
            "{failure}"
        );
    }
    passes(by(|job, _| submit(job)));
    let changing = conformance(move |_| {
        composed(
            "odd",
            by_key(length).changing_by(move |job| none(job)),
            FirstFit,
        )
    });
    caught(changing, Property::Key);
}
