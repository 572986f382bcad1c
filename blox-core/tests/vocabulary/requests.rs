//! Every placement fulfills requests in the same way.

use super::harness::*;
use blox_core::order::SortKey;
use blox_core::policy::{KeyFn, by_key};
use blox_core::*;
use blox_testing::FirstFit;
use std::sync::Arc;

/// Places the jobs of [`JobQueue::all`] on the lowest free GPUs of any type.
fn blind() -> impl PlacementPolicy {
    placement_fn(|requests, draft| {
        for request in requests.all(draft.view()).iter() {
            if draft.current(request.job).is_some() || !draft.may_place(request.job) {
                continue;
            }
            let count = request.shapes[0].gpus.get() as usize;
            let nodes = draft.nodes_with_free();
            let free: GpuList = nodes
                .flat_map(|node| draft.free_gpus_on(node.id()))
                .take(count)
                .collect();
            if free.len() == count {
                draft.assign(request.job, Assignment::of(free))?;
            }
        }
        Ok(Validity::UntilEvent)
    })
}

fn of_type(gpus: u32, name: &str) -> JobSpec {
    job(gpus, 1000.0).with_extras(Extras {
        gpu_types: vec![name.into()],
        ..Extras::default()
    })
}

fn composed(scheduling: impl SchedulingPolicy, placement: impl PlacementPolicy) -> Pipeline {
    let composition = Composition::new("test").scheduling(scheduling);
    composition.placement(placement).build().unwrap()
}

fn longest_first() -> impl SchedulingPolicy {
    by_key(|job| SortKey::by(-job.truth().duration().secs()))
}

fn decided(bench: &mut Scenario) -> (Result<(), DecisionError>, String) {
    let decided = bench.core.decide(t(0.0), &mut *bench.policy);
    let plan = bench.steps();
    (decided, plan)
}

#[test]
fn decision_with_a_key_that_is_no_number_is_refused() {
    let odd = by_key(|job| match job.id() {
        JobId(1) => SortKey::by(f64::NAN),
        _ => SortKey::by(0.0),
    });
    let mut bench = case("1x2", rounds(300.0), composed(odd, blind()));
    bench.submit(0.0, job(1, 1000.0));
    // A key outside of the decision does not count.
    let _ = SortKey::by(f64::NAN);
    assert_eq!(decided(&mut bench).0, Ok(()));
    bench.submit(0.0, job(1, 1000.0));
    let Err(error) = decided(&mut bench).0 else {
        panic!("the plan was applied");
    };
    let expected = "policy `test`: the sort key of job 1 is not a number";
    assert_eq!(error.to_string(), expected);
}

/// Requests its jobs in order of a key that is NaN for the second one.
struct OddList;

impl Stateless for OddList {}

impl SchedulingPolicy for OddList {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        out.push_in_order(view.active().map(|job| {
            let key = match job.id() {
                JobId(1) => SortKey::by(0.0).then(f64::NAN),
                id => SortKey::by(-f64::from(id.0)),
            };
            (key, Request::gang(&job))
        }));
        Ok(Validity::UntilEvent)
    }
}

#[test]
fn list_with_a_key_that_is_no_number_is_refused() {
    let mut bench = case("1x2", rounds(300.0), composed(OddList, blind()));
    bench.submit(0.0, job(1, 1000.0));
    assert_eq!(decided(&mut bench).0, Ok(()));
    for _ in 0..2 {
        bench.submit(0.0, job(1, 1000.0));
    }
    let Err(error) = decided(&mut bench).0 else {
        panic!("the plan was applied");
    };
    let expected = "policy `test`: the sort key of job 1 is not a number";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn plan_with_forbidden_gpu_type_is_refused() {
    let mut bench = case(
        "1x2:a100,1x2:v100",
        rounds(300.0),
        composed(longest_first(), blind()),
    );
    bench.submit(0.0, of_type(1, "v100"));
    let (Err(error), _) = decided(&mut bench) else {
        panic!("the plan was applied");
    };
    assert_eq!(
        error.to_string(),
        "policy `test`: the plan gives job 0 GPU 0 of type `a100`, expected v100"
    );
    assert!(!bench.core.view().job(JobId(0)).unwrap().is_placed());
}

#[test]
fn draft_narrowed_to_a_job_hides_other_types() {
    let mut bench = case(
        "1x2:a100,1x2:v100",
        rounds(300.0),
        composed(longest_first(), FirstFit),
    );
    bench.submit_all(0.0, [of_type(1, "v100"), job(1, 500.0)]);
    let (applied, plan) = decided(&mut bench);
    assert_eq!(
        (applied, plan.as_str()),
        (Ok(()), "place 0 on 2; place 1 on 0")
    );
}

#[test]
fn list_of_a_kept_order_names_all_jobs_in_order() {
    let mut bench = case("1x3", rounds(300.0), composed(longest_first(), blind()));
    bench.submit_all(0.0, [100.0, 300.0, 200.0].map(|secs| job(1, secs)));
    let (applied, plan) = decided(&mut bench);
    let expected = "place 1 on 0; place 2 on 1; place 0 on 2";
    assert_eq!((applied, plan.as_str()), (Ok(()), expected));
}

#[test]
fn promoted_job_of_a_list_comes_first() {
    let promoting = || {
        scheduling_fn(|view, out: &mut JobQueue| {
            list(view.active(), out);
            out.promote(JobId(2));
            Validity::NextRound
        })
    };
    let mut bench = case("1x1", rounds(300.0), composed(promoting(), FirstFit));
    bench.submit_all(0.0, vec![job(1, 100.0); 3]);
    let (applied, plan) = decided(&mut bench);
    assert_eq!(applied, Ok(()));
    assert!(plan.contains("place 2 on 0"), "{plan}");
    assert!(bench.core.view().job(JobId(2)).unwrap().promoted());
}

#[test]
fn promotion_counts_before_and_after_order_is_filled() {
    struct Promoting(KeyFn, bool);
    impl Stateless for Promoting {}
    impl SchedulingPolicy for Promoting {
        fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
            let Promoting(key, after) = self;
            if *after {
                out.keep(view, key);
            }
            for job in view.waiting().filter(|job| job.gpus() == GpuCount(2)) {
                out.promote(job.id());
            }
            if !*after {
                out.keep(view, key);
            }
            Ok(Validity::NextRound)
        }
    }
    for after in [false, true] {
        let key: KeyFn = Arc::new(|job| SortKey::by(job.spec().submit.secs()));
        let policy = composed(Promoting(key, after), FirstFit);
        let mut bench = case("1x2", rounds(300.0), policy);
        bench.submit(0.0, job(1, 1e6));
        bench.submit(1.0, job(1, 1e6));
        assert_eq!(bench.round(300.0), "place 0 on 0; place 1 on 1");
        bench.submit(310.0, job(1, 1e6));
        assert_eq!(bench.round(600.0), "");
        bench.submit(610.0, job(2, 1e6));
        bench.ended(620.0, 0);
        bench.ended(620.0, 1);
        let expected = "promote 3; place 3 on 0 1";
        assert_eq!(bench.round(900.0), expected, "after: {after}");
    }
}

#[test]
fn guest_is_put_beside_its_job_by_any_placement() {
    let paired = scheduling_fn(|view, out: &mut JobQueue| {
        if let Some(job) = view.active().next() {
            out.push(Request::gang(&job).beside(JobId(1)));
        }
        Validity::NextRound
    });
    for (gpus, expected) in [
        (2, "place 0 on 0 1; place 1 on 0 1 overlapping"),
        (1, "place 0 on 0 1; place 1 on 0 overlapping"),
        // The job requests more GPUs.
        (3, "reject 1; place 0 on 0 1"),
    ] {
        let mut bench = case("1x2", rounds(300.0), composed(paired.clone(), blind()));
        bench.submit_all(0.0, [job(2, 100.0), job(gpus, 100.0)]);
        let (applied, plan) = decided(&mut bench);
        assert_eq!((applied, plan.as_str()), (Ok(()), expected));
    }
}

#[test]
fn scheduling_reason_precedes_the_placement_reason() {
    let quota = Reason::Other("over quota".into());
    let why = quota.clone();
    let capped = scheduling_fn(move |view, out: &mut JobQueue| {
        for (index, job) in view.active().enumerate() {
            match index {
                0 | 1 => out.push(Request::gang(&job)),
                _ => out.explain(job.id(), why.clone()),
            }
        }
        Validity::NextRound
    });
    let mut bench = case("1x1", rounds(300.0), composed(capped, FirstFit));
    bench.submit_all(0.0, vec![job(1, 100.0); 3]);
    let (applied, plan) = decided(&mut bench);
    assert_eq!((applied, plan.as_str()), (Ok(()), "place 0 on 0"));
    let reason = |job| {
        bench
            .core
            .decision()
            .plan
            .reason_for(JobId(job), GpuCount(1))
    };
    assert_eq!(reason(2), &quota);
    assert_ne!(reason(1), &quota);
}

#[test]
fn draft_narrowed_to_a_job_is_wide_next_decision() {
    // Narrows the draft and does not widen it again.
    let narrowing = placement_fn(|requests, draft| {
        assert_eq!(draft.nodes_with_free().count(), 2);
        let request = &requests.all(draft.view())[0];
        let job = draft.view().job(request.job).unwrap();
        draft.narrow_to(&job, &request.shapes[0]);
        assert_eq!([0, 1].map(|n| draft.free_on(NodeId(n))), [0, 2]);
        let hidden = [(NodeId(0), 1)];
        assert!(!draft.assign_on(request.job, &hidden, &request.shapes[0])?);
        Ok(Validity::UntilEvent)
    });
    let policy = composed(longest_first(), narrowing);
    let mut bench = case("1x2:a100,1x2:v100", rounds(300.0), policy);
    bench.submit(0.0, of_type(1, "v100"));
    for _ in 0..2 {
        assert_eq!(decided(&mut bench).0, Ok(()));
    }
}

#[test]
fn running_job_moves_by_its_first_request_only() {
    // Places waiting jobs, and moves running jobs to the lowest free GPUs.
    let moving = placement_fn(|requests, draft| {
        while let Some(candidate) = draft.next_in_line(requests) {
            let request = match candidate {
                Candidate::Gang(job) => Request::gang(&job),
                Candidate::Request(request) => request,
                Candidate::Moving(request) => {
                    draft.release(request.job, Reason::NotChosen)?;
                    request
                }
            };
            let count = request.shapes[0].gpus.get() as usize;
            let gpus: GpuList = draft.free_gpus_on(NodeId(0)).take(count).collect();
            draft.assign(request.job, Assignment::of(gpus))?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::NextRound)
    });
    let scheduling = scheduling_fn(|view, out: &mut JobQueue| {
        let shape = |gpus| Shape::gpus(GpuCount(gpus));
        // The last job grows once it runs.
        let last = if view.placed().count() == 0 { 1 } else { 2 };
        for (job, gpus) in [(0, 1), (1, 1), (1, 2), (2, last)] {
            out.push(Request::with_shape(JobId(job), shape(gpus)));
        }
        Validity::NextRound
    });
    let mut bench = case("1x4", rounds(300.0), composed(scheduling, moving));
    bench.submit_all(0.0, vec![job(1, 1000.0); 3]);
    assert_eq!(bench.round(0.0), "place 0 on 0; place 1 on 1; place 2 on 2");
    assert_eq!(bench.round(300.0), "stop 2; place 2 on 2 3");
}
