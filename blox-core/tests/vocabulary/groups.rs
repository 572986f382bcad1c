//! Groups of up to four jobs on a GPU, and jobs on some GPUs of a larger job.

use super::harness::*;
use super::launches::bench;
use blox_core::*;

/// A placement beside several jobs.
fn among(job: u32, gpus: &[u32], partners: &[u32]) -> Action {
    let mut assignment = on(gpus);
    assignment
        .partners
        .extend(partners.iter().copied().map(JobId));
    Action::Place {
        job: JobId(job),
        assignment,
    }
}

fn partners(b: &Scenario, job: u32) -> Vec<u32> {
    let job = b.job(job);
    let partners = &job.assignment().unwrap().partners;
    partners.iter().map(|partner| partner.0).collect()
}

#[test]
fn group_of_four_shares_a_gpu_and_tracks_its_members() {
    let plans = [
        vec![
            place(0, &[0]),
            beside(1, &[0], 0),
            among(2, &[0], &[0, 1]),
            among(3, &[0], &[0, 1, 2]),
        ],
        vec![stop(1), place(1, &[1])],
    ];
    let mut b = bench("1x2x4", plans, 4);
    b.round(0.0);
    assert_eq!(b.phases(), "0 running, 1 running, 2 running, 3 running");
    assert_eq!(b.core.state().busy_gpus(), 1);
    assert_eq!(partners(&b, 0), [1, 2, 3]);
    assert_eq!(partners(&b, 2), [0, 1, 3]);
    b.round(10.0);
    assert_eq!(partners(&b, 0), [2, 3]);
    assert!(partners(&b, 1).is_empty());
    assert_eq!(b.core.state().busy_gpus(), 2);
    b.ended(20.0, 2);
    b.ended(20.0, 0);
    assert!(partners(&b, 3).is_empty());
    assert_eq!(b.core.state().cluster().free_gpus(), 0);
    b.ended(30.0, 3);
    assert_eq!(b.core.state().cluster().free_gpus(), 1);
}

#[test]
fn gpu_with_as_many_jobs_as_allowed_takes_no_other() {
    for (cluster, full) in [("1x2x1", 1), ("1x2", 2), ("1x2x3", 3), ("1x2x4", 4)] {
        let all: Vec<u32> = (0..=full).collect();
        let group = |count: usize| {
            let jobs = all[..count].iter();
            jobs.map(|job| among(*job, &[0], &all[..*job as usize]))
                .collect::<Vec<_>>()
        };
        let mut b = bench(cluster, [group(full as usize)], full);
        b.round(0.0);
        assert_eq!(
            b.core.state().job(JobId(full - 1)).unwrap().phase(),
            Phase::Running
        );
        let mut b = bench(cluster, [group(full as usize + 1)], full + 1);
        assert_eq!(
            b.try_decide(0.0).unwrap_err().to_string(),
            format!(
                "policy `scripted`: the plan gives GPU 0 to job {full}, expected at most {full} on a GPU of this node"
            )
        );
    }
}

#[test]
fn small_jobs_run_on_some_gpus_of_a_larger_job() {
    let plans = [
        vec![
            place(0, &[0, 1, 2, 3]),
            beside(1, &[1], 0),
            among(2, &[1, 2], &[0, 1]),
            beside(3, &[3], 0),
        ],
        vec![stop(0)],
        vec![among(0, &[3, 2], &[2, 3])],
    ];
    let mut b = bench("1x4x4", plans, 4);
    b.round(0.0);
    assert_eq!(b.phases(), "0 running, 1 running, 2 running, 3 running");
    assert_eq!(partners(&b, 0), [1, 2, 3]);
    assert_eq!(partners(&b, 1), [0, 2]);
    assert_eq!(partners(&b, 3), [0]);
    assert_eq!(b.core.state().busy_gpus(), 4);
    b.round(10.0);
    // No other job was on GPU 0.
    assert_eq!(b.core.state().busy_gpus(), 3);
    assert_eq!(b.core.state().cluster().free_gpus(), 1);
    assert!(partners(&b, 3).is_empty());
    b.round(20.0);
    assert_eq!(partners(&b, 0), [2, 3]);
    assert_eq!(b.phases(), "0 running, 1 running, 2 running, 3 running");
}

#[test]
fn job_that_names_one_of_two_owners_is_refused() {
    let group = vec![place(0, &[0, 1]), beside(1, &[1], 0), beside(2, &[1], 0)];
    let mut b = bench("1x2x4", [group], 3);
    assert_eq!(
        b.try_decide(0.0).unwrap_err().to_string(),
        "policy `scripted`: the plan gives GPU 1 to job 2, but job 1 has it"
    );
}

/// A placement that puts waiting jobs beside job 0, and records which GPUs of it have room.
fn beside_the_first() -> impl PlacementPolicy {
    placement_fn(|requests, draft| {
        while let Some(request) = draft.next_candidate(requests) {
            let shape = &request.shapes[0];
            if let Some(gpus) = draft.take_from(NodeId(0), shape.gpus.get()) {
                draft.assign(request.job, shape.on(gpus))?;
            } else if !draft.put_beside(JobId(0), request.job) {
                draft.explain(request.job, Reason::NotChosen);
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
    let mut b = case("1x3x3", OnEvent::default(), policy);
    for (job, gpus) in [3, 1, 2, 1, 3, 1].into_iter().enumerate() {
        b.submit(job as f64, super::harness::job(gpus, 1e6));
    }
    // Job 4 finds one GPU with room, and job 5 takes it.
    assert_eq!(
        b.decide(10.0),
        "place 0 on 0 1 2; place 1 on 0 beside 0 and 3; place 2 on 1 2 beside 0 and 5; \
         place 3 on 0 beside 0 and 1; place 5 on 1 beside 0 and 2"
    );
    b.settle(10.0);
    assert_eq!(partners(&b, 0), [1, 2, 3, 5]);
    b.ended(20.0, 2);
    // Job 4 still finds two GPUs only.
    assert_eq!(b.decide(20.0), "");
    b.ended(30.0, 1);
    assert_eq!(b.decide(30.0), "place 4 on 0 1 2 beside 0 and 3 and 5");
}
