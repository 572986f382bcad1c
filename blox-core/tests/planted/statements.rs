//! Policies that state something false about keys or jobs.

use super::{first_of, free_for, placed, scheduled};
use blox_core::order::SortKey;
use blox_core::policy::by_key;
use blox_core::{DecisionTrigger, JobRef, Pipeline, Reason, Rounds, Seconds, Time, Validity};
use blox_testing::{Property, conformance};

/// A policy with a name, and the start of the message about it.
type Planted = (&'static str, fn() -> Pipeline, &'static str);

const FALSE: [Planted; 5] = [
    (
        "key of old jobs",
        key_of_old_jobs,
        "the key of job # changed while the job waited, expected a constant key",
    ),
    (
        "twice the rate",
        twice_the_rate,
        "the key of waiting job # is -#, expected -# by the stated rate",
    ),
    (
        "attained time by GPU",
        attained_time_by_gpu,
        "the keys of running jobs # and # do not advance together, expected an order",
    ),
    (
        "alike but for their priority",
        alike_but_for_priority,
        "job # was skipped because a job with the same request found no GPUs, expected none",
    ),
    ("uneven rounds", uneven_rounds, "a round of # s from # s on"),
];

#[test]
fn false_statement_is_found_and_named() {
    for (name, build, message) in FALSE {
        let failure = conformance(|_| build()).check().unwrap_err();
        assert_eq!(failure.property, Property::Statement, "{name}: {failure}");
        let mut found = String::new();
        for part in failure
            .found
            .split(|c: char| c.is_ascii_digit() || c == '.')
        {
            match part {
                "" => {}
                _ if found.is_empty() => found.push_str(part),
                _ => found.extend(["#", part]),
            }
        }
        assert!(found.contains(message), "{name}: {}", failure.found);
    }
}

/// States that keys are constant, although jobs that have waited for long come first.
fn key_of_old_jobs() -> Pipeline {
    scheduled(by_key(|job| {
        let young = job.age() < Seconds::new(900.0);
        SortKey::by(f64::from(u8::from(young))).then(job.submit().secs())
    }))
}

/// States a rate that is twice the change of its key.
fn twice_the_rate() -> Pipeline {
    scheduled(by_key(|job| SortKey::by(-job.age().secs())).changing_by(|_| -2.0))
}

/// States that keys advance together, although they advance by the number of GPUs.
fn attained_time_by_gpu() -> Pipeline {
    let key = |job: &JobRef<'_>| SortKey::by(job.attained_gpu_time().secs());
    scheduled(by_key(key).preemptive().keys_advance_together())
}

/// Skips jobs with the same request as a blocked one, although only jobs without a priority are
/// blocked while GPUs are scarce.
fn alike_but_for_priority() -> Pipeline {
    placed(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            let job = draft.view().job(request.job);
            let scarce = 3 * draft.free_gpus() < draft.view().usable_gpus().get();
            let closed = scarce && job.is_none_or(|job| job.spec().priority == 0);
            let free = free_for(request.job, draft);
            match first_of(free, &request).filter(|_| !closed) {
                Some(assignment) => {
                    draft.assign(request.job, assignment)?;
                    draft.candidate_placed(requests);
                }
                None => draft.candidate_blocked_alike(requests, Reason::NoFreeGpus),
            }
        }
        Ok(Validity::UntilEvent)
    })
}

/// States that rounds last for 300 s, although there are more of them at the start.
fn uneven_rounds() -> Pipeline {
    #[derive(Clone)]
    struct Uneven;

    impl Uneven {
        fn rounds(at: Time) -> Rounds {
            let busy = at < Time::new(3000.0);
            Rounds::every(Seconds::new(if busy { 100.0 } else { 300.0 })).unwrap()
        }
    }

    impl DecisionTrigger for Uneven {
        fn first_from(&self, t: Time, last: Option<Time>) -> Time {
            Uneven::rounds(t).first_from(t, last)
        }

        fn following(&self, t: Time) -> Option<Time> {
            Uneven::rounds(t).following(t)
        }

        fn period(&self) -> Option<Seconds> {
            Some(Seconds::new(300.0))
        }
    }

    scheduled(crate::functions::by_submission()).with_trigger(Uneven)
}
