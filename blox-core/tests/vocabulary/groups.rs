//! Groups of up to four jobs on a GPU, and jobs on some GPUs of a larger job.

use super::harness::*;
use super::launches::bench;
use blox_core::*;

#[test]
fn group_of_four_shares_a_gpu() {
    let plans = [
        vec![
            place(0, &[0]),
            beside(1, &[0]),
            beside(2, &[0]),
            beside(3, &[0]),
        ],
        vec![stop(1), place(1, &[1])],
    ];
    let mut b = bench("1x2", plans, 4);
    b.round(0.0);
    assert_eq!(b.phases(), "0 running, 1 running, 2 running, 3 running");
    assert_eq!(b.core.state().busy_gpus(), 1);
    assert_eq!(beside_of(&b, 0), [1, 2, 3]);
    assert_eq!(beside_of(&b, 2), [0, 1, 3]);
    b.round(10.0);
    assert_eq!(beside_of(&b, 0), [2, 3]);
    assert!(beside_of(&b, 1).is_empty());
    assert_eq!(b.core.state().busy_gpus(), 2);
    b.ended(20.0, 2);
    b.ended(20.0, 0);
    assert!(beside_of(&b, 3).is_empty());
    assert_eq!(b.core.state().cluster().free_gpus(), 0);
    b.ended(30.0, 3);
    assert_eq!(b.core.state().cluster().free_gpus(), 1);
}

#[test]
fn small_jobs_run_on_some_gpus_of_a_larger_job() {
    let plans = [
        vec![
            place(0, &[0, 1, 2, 3]),
            beside(1, &[1]),
            beside(2, &[1, 2]),
            beside(3, &[3]),
        ],
        vec![stop(0)],
        vec![beside(0, &[3, 2])],
    ];
    let mut b = bench("1x4", plans, 4);
    b.round(0.0);
    assert_eq!(b.phases(), "0 running, 1 running, 2 running, 3 running");
    assert_eq!(beside_of(&b, 0), [1, 2, 3]);
    assert_eq!(beside_of(&b, 1), [0, 2]);
    assert_eq!(beside_of(&b, 3), [0]);
    assert_eq!(b.core.state().busy_gpus(), 4);
    b.round(10.0);
    // No other job was on GPU 0.
    assert_eq!(b.core.state().busy_gpus(), 3);
    assert_eq!(b.core.state().cluster().free_gpus(), 1);
    assert!(beside_of(&b, 3).is_empty());
    b.round(20.0);
    assert_eq!(beside_of(&b, 0), [2, 3]);
    assert_eq!(b.phases(), "0 running, 1 running, 2 running, 3 running");
}

#[test]
fn whole_gpu_is_refused_beside_a_whole_one() {
    let group = vec![place(0, &[0, 1]), beside(1, &[1]), place(2, &[1])];
    let mut b = bench("1x2", [group], 3);
    assert_eq!(
        b.try_decide(0.0).unwrap_err().to_string(),
        "policy `scripted`: the plan gives GPU 1 to job 2, but job 0 has it"
    );
}

#[test]
fn lone_overlapping_job_leaves_compute_to_others() {
    let plans = [
        vec![place(0, &[0]), beside(1, &[0])],
        vec![stop(0)],
        vec![place(2, &[0])],
    ];
    let mut b = bench("1x1", plans, 3);
    b.round(0.0);
    b.round(10.0);
    assert_eq!(b.phases(), "0 waiting, 1 running, 2 waiting");
    b.round(20.0);
    assert_eq!(b.phases(), "0 waiting, 1 running, 2 running");
}

/// A placement that puts waiting jobs beside job 0, and records which GPUs of it have room.
fn beside_the_first() -> impl PlacementPolicy {
    placement_fn(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            let shape = &request.shapes[0];
            if let Some(gpus) = draft.take_from(NodeId(0), shape.gpus.get()) {
                draft.assign(request.job, shape.on(gpus))?;
            } else {
                let job = draft.view().job(request.job).unwrap();
                match draft.beside(JobId(0), &job, shape) {
                    Some(beside) => draft.assign(request.job, beside)?,
                    None => draft.explain(request.job, Reason::NotChosen),
                }
            }
        }
        Ok(Validity::UntilEvent)
    })
}

#[test]
fn job_beside_another_takes_gpus_with_fewest_jobs() {
    let policy = composed(
        "beside",
        policy::by_key(|job| order::SortKey::by(job.submit().secs())),
        beside_the_first(),
    );
    let mut b = case("1x3", OnEvent::default(), policy);
    for (job, gpus) in [3, 1, 2, 1, 3, 1].into_iter().enumerate() {
        b.submit(job as f64, super::harness::job(gpus, 1e6));
    }
    // Each job takes the GPUs with the fewest jobs.
    assert_eq!(
        b.decide(10.0),
        "place 0 on 0 1 2; place 1 on 0 overlapping; place 2 on 1 2 overlapping; \
         place 3 on 0 overlapping; place 4 on 0 1 2 overlapping; place 5 on 1 overlapping"
    );
    b.settle(10.0);
    assert_eq!(beside_of(&b, 0), [1, 2, 3, 4, 5]);
    assert_eq!(beside_of(&b, 5), [0, 2, 4]);
}
