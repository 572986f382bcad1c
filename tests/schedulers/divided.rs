//! Parts of GPUs beside each other, in gangs, under quotas and of services.

use crate::cases::{assigned, job, run, scheduler, with};
use crate::outside::quota;
use blox::core::{ClusterSpec, Curve, GpuCount, GpuId, Gpus, JobId, JobSpec, Seconds, Share, Time};
use blox::policies::admission::{Quota, QuotaBy};
use blox::results::Summary;
use blox::sim::completion::Exact;
use blox::sim::overheads::FixedOverheads;
use blox::sim::results::AssignmentRow;
use blox::sim::{Report, Simulation, Until};
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

fn part(at: f64, gpus: u32, lasts: f64, share: (u32, u32)) -> JobSpec {
    let share = Share::parts(share.0, share.1).unwrap();
    with(job(at, gpus, lasts), |extras| extras.share = share)
}

#[test]
fn many_parts_of_one_gpu_run_together() {
    // Costs that grow with the cube of the number of parts would take hours here.
    let jobs: Vec<JobSpec> = (0..1600)
        .map(|i| part(0.0, 1, f64::from(3600 + i), (1, 2000)))
        .collect();
    let simulation = Simulation::new(ClusterSpec::uniform(1, 1)).overheads(FixedOverheads::FREE);
    let report = run(&simulation, scheduler("fifo"), &jobs);
    let starts = report.jobs.iter().map(|job| job.first_start.unwrap());
    assert!(starts.eq([Time::ZERO; 1600]));
}

#[test]
fn a_gang_of_parts_takes_parted_and_free_gpus() {
    for name in ["fifo", "sjf"] {
        let jobs = [
            part(0.0, 1, 1e6, (1, 4)),
            part(1.0, 2, 3600.0, (1, 2)),
            part(2.0, 1, 3600.0, (9, 10)),
        ];
        let simulation = Simulation::new(ClusterSpec::uniform(1, 2))
            .overheads(FixedOverheads::FREE)
            .completion(Exact);
        let report = run(&simulation, scheduler(name), &jobs);
        let start = |i: usize| report.jobs[i].first_start.unwrap().secs();
        assert!(start(1) < 600.0, "{name}: {}", start(1));
        assert!(start(2) >= 3600.0, "{name}: {}", start(2));
    }
}

#[test]
fn waiting_parts_state_the_amount_that_is_free() {
    let jobs = [
        part(0.0, 1, 1e6, (1, 4)),
        part(0.0, 1, 1e6, (9, 10)),
        part(0.0, 2, 3600.0, (1, 2)),
    ];
    let simulation = Simulation::new(ClusterSpec::uniform(1, 2))
        .explain(Some(JobId(2)))
        .until(Until::Time(Time::new(7200.0)));
    let report = run(&simulation, scheduler("fifo"), &jobs);
    let story = format!("{:?}", report.story);
    assert!(story.contains("needs 1 GPU, 0.85 are free"), "{story}");
}

#[test]
fn queues_with_quotas_count_parts_as_parts() {
    let half = |vc: &str| part(0.0, 1, 3600.0, (1, 2)).in_virtual_cluster(vc);
    let jobs = ["a", "a", "a", "b"].map(half);
    let starts = |queues: &str| {
        let policy = quota(&format!("quota-tree{{queues={queues}}}"));
        let simulation = Simulation::new(ClusterSpec::uniform(1, 2))
            .overheads(FixedOverheads::FREE)
            .completion(Exact);
        let report = run(&simulation, policy, &jobs);
        let starts = report
            .jobs
            .iter()
            .map(|job| job.first_start.unwrap().secs());
        starts.map(|start| start < 3600.0).collect::<Vec<_>>()
    };
    // Three halves fit a limit of one and a half GPUs, but not one of one GPU.
    assert_eq!(starts("a:1:1.5/b:0.5"), [true; 4]);
    assert_eq!(starts("a:1:1/b:0.5:0.5"), [true, true, false, true]);
}

/// Counts of cases that random runs reached.
#[derive(Debug, Default)]
struct Reached {
    gangs: u32,
    beside: u32,
    at_quota: u32,
    kept: u32,
}

/// Draws training jobs of two users and services, with parts of GPUs.
fn drawn(random: &mut ChaCha8Rng) -> Vec<JobSpec> {
    let mut at = 0.0;
    let mut one = |i: u32| {
        at += f64::from(random.random_range(0..400_u32));
        let gpus = random.random_range(1..=3);
        let lasts = f64::from(random.random_range(100..3000_u32));
        let of = random.random_range(1..=8_u32);
        let share = (random.random_range(1..=of), of);
        let mut job = part(at, gpus, lasts, share);
        if i.is_multiple_of(4) {
            job = part(at, 1, lasts + 3000.0, share);
            let copies = |x: &mut ChaCha8Rng| f64::from(x.random_range(0..=4_u32));
            let steps = [0.0, 700.0, 1400.0].map(|s| (Seconds::new(s), copies(random)));
            let need = Curve::new(Seconds::new(2100.0), steps);
            return with(job, |extras| extras.need = need);
        }
        job.user = Some(["a", "b"][random.random_range(0..2)].into());
        job
    };
    (0..24).map(&mut one).collect()
}

/// Returns the whole copies of a service on GPUs that two assignments have, in GPUs.
fn kept_gpus(before: &AssignmentRow, after: &AssignmentRow) -> usize {
    let kept = before.gpus.iter().filter(|gpu| after.gpus.contains(gpu));
    kept.count()
}

/// Checks the accounts of a run against its assignments, interval by interval.
fn check_accounts(report: &Report, rows: &[AssignmentRow], gpus: u32, reached: &mut Reached) {
    let mut all = 0.0;
    for (i, job) in report.jobs.iter().enumerate() {
        let its: Vec<&AssignmentRow> = rows.iter().filter(|r| r.job.index() == i).collect();
        let ran = |r: &&AssignmentRow| (r.stop - r.start).secs().max(0.0);
        let width = |r: &AssignmentRow| r.gpus.len() as f64 * r.share.fraction();
        let mut sum: f64 = its.iter().map(|r| ran(r) * width(r)).sum();
        // Copies that run on in a change that does not end with a start are in no assignment.
        let mut unseen = 0.0;
        for (at, before) in its.iter().enumerate() {
            if job.service.is_none() {
                continue;
            }
            if before.why != "changed" {
                unseen += (before.end - before.stop).secs() * width(before);
                continue;
            }
            let start = |r: &&AssignmentRow| r.start.min(r.stop);
            let after = its.get(at + 1).filter(|r| r.placed == before.stop);
            let ends = its.get(at + 1).map_or(job.finish.unwrap(), start);
            let passed = (ends - before.stop).secs();
            match after {
                Some(after) => {
                    let kept = kept_gpus(before, after);
                    reached.kept += u32::from(kept > 0 && passed > 0.0);
                    sum += passed * kept as f64 * after.share.fraction();
                }
                None => unseen += passed * width(before),
            }
        }
        let attained = job.attained_gpu.secs();
        assert!(
            (sum - 1e-3..sum + unseen + 1e-3).contains(&attained),
            "job {i}: {attained}, {sum}"
        );
        all += attained;
        reached.gangs += u32::from(job.gpus > 1 && its.iter().any(|r| !r.share.is_whole()));
    }
    let summary = Summary::of(report);
    let busy = summary.utilisation * f64::from(gpus) * summary.makespan_s;
    assert!((busy - all).abs() < 1e-6 * (1.0 + all), "{busy}, {all}");
}

#[test]
fn accounts_of_parts_equal_a_sum_of_intervals() {
    let mut reached = Reached::default();
    for seed in 0..40 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let jobs = drawn(&mut random);
        let (nodes, gpus) = (
            random.random_range(1..=2_u32),
            random.random_range(2..=4_u32),
        );
        let quota = Gpus::of(GpuCount(3), Share::parts(3, 4).unwrap());
        let scheduler = scheduler("serving{notice_s=100}");
        let scheduler = scheduler
            .with_admission(Quota::new(QuotaBy::User, quota))
            .unwrap();
        let simulation = Simulation::new(ClusterSpec::uniform(nodes as usize, gpus))
            .overheads(FixedOverheads::TYPICAL)
            .completion(Exact);
        let (report, rows) = assigned(&simulation, scheduler, &jobs);
        check_accounts(&report, &rows, nodes * gpus, &mut reached);
        for at in rows.iter().map(|row| row.placed) {
            let there = rows.iter().filter(|r| r.placed <= at && at < r.stop);
            let there: Vec<&AssignmentRow> = there.collect();
            for user in ["a", "b"] {
                let of = |r: &&&AssignmentRow| jobs[r.job.index()].user.as_deref() == Some(user);
                let amount = |r: &&AssignmentRow| Gpus::of(GpuCount(r.gpus.len() as u32), r.share);
                let sum: Gpus = there.iter().filter(of).map(amount).sum();
                assert!(sum <= quota, "user {user} has {sum} GPUs");
                reached.at_quota += u32::from(sum + GpuCount(1).into() > quota);
            }
            for gpu in (0..nodes * gpus).map(GpuId) {
                let on = there.iter().filter(|r| r.gpus.contains(&gpu));
                let parts: Vec<f64> = on.map(|r| r.share.fraction()).collect();
                assert!(
                    parts.iter().sum::<f64>() < 1.0 + 1e-9,
                    "GPU {gpu}: {parts:?}"
                );
                reached.beside += u32::from(parts.len() > 1);
            }
        }
    }
    let Reached {
        gangs,
        beside,
        at_quota,
        kept,
    } = reached;
    assert!(
        [gangs, beside, at_quota, kept].iter().all(|n| *n > 0),
        "{reached:?}"
    );
}
