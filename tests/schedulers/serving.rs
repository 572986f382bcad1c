//! Services beside training jobs, notices and guaranteed time.
#![cfg(feature = "testing")]

use crate::cases::{self, job, with};
use blox::core::policy::scheduling_fn;
use blox::core::{Class, Curve, Deadline, Share};
use blox::prelude::*;
use blox::registry::ComponentSpec;
use blox::results::Summary;
use blox::sim::completion::Exact;
use blox::sim::overheads::FixedOverheads;
use chacha20::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

fn serving(notice_s: f64) -> Pipeline {
    let named: ComponentSpec = format!("serving{{notice_s={notice_s}}}").parse().unwrap();
    in_rounds(blox::registry().schedulers.build(&named, 1).unwrap())
}

fn in_rounds(scheduler: Pipeline) -> Pipeline {
    scheduler.with_trigger(Rounds::every(Seconds::new(100.0)).unwrap())
}

/// A service of copies of `gpus` GPUs that needs a number of copies from each second on.
fn service(gpus: u32, lives: f64, period: f64, steps: &[(f64, f64)]) -> JobSpec {
    let steps = steps
        .iter()
        .map(|(at, copies)| (Seconds::new(*at), *copies));
    let need = Curve::new(Seconds::new(period), steps);
    assert!(need.is_some());
    with(job(0.0, gpus, lives), |extras| extras.need = need)
}

fn spot(lasts: f64, guaranteed: f64) -> JobSpec {
    let guaranteed = Seconds::new(guaranteed);
    with(job(0.0, 1, lasts), |extras| {
        extras.class = Class::Spot { guaranteed };
    })
}

/// Returns the lacking GPU-seconds of a service, and the evictions and broken guarantees. It needs a
/// GPU for an hour and then three, beside three spot jobs on four GPUs.
fn reclaimed(notice_s: f64, guaranteed: f64) -> (f64, Option<(u64, u64)>) {
    let jobs = [
        service(1, 7200.0, 7200.0, &[(0.0, 1.0), (3600.0, 3.0)]),
        spot(6000.0, guaranteed),
        spot(6000.0, guaranteed),
        spot(6000.0, guaranteed),
    ];
    let exact = Simulation::new(ClusterSpec::uniform(1, 4)).completion(Exact);
    let report = cases::run(&exact, serving(notice_s), &jobs);
    assert_eq!(report.jobs[0].finish, Some(Time::new(7200.0)));
    assert_eq!(report.jobs[0].jct(), None);
    let services = Summary::of(&report).services.unwrap();
    assert_eq!(services.needed_gpu_h, 4.0);
    assert_eq!(Summary::of(&report).completed, 4);
    let evictions = Summary::of(&report).evictions.map(|e| (e.spot, e.broken));
    (services.lacking_gpu_h * 3600.0, evictions)
}

#[test]
fn services_lack_gpus_until_notices_are_over() {
    // Two copies are missing for the time of the notices.
    assert_eq!(reclaimed(600.0, 0.0), (1200.0, None));
    // The stop comes with the first round after the notice.
    assert_eq!(reclaimed(550.0, 0.0), (1200.0, None));
    assert_eq!(reclaimed(0.0, 0.0), (0.0, None));
    // A guaranteed time of 4500 s ends later than the notice.
    assert_eq!(reclaimed(600.0, 4500.0), (1800.0, Some((2, 0))));
}

#[test]
fn a_waiting_service_lives_and_lacks_all_gpus() {
    let jobs = [
        job(0.0, 4, 9000.0),
        service(2, 6000.0, 1000.0, &[(0.0, 1.0), (500.0, 0.0)]),
    ];
    let exact = Simulation::new(ClusterSpec::uniform(1, 4)).completion(Exact);
    let fifo = blox::schedulers::fifo();
    let report = cases::run(&exact, fifo, &jobs);
    let service = report.jobs[1].service.as_deref().unwrap();
    assert_eq!(report.jobs[1].finish, Some(Time::new(6000.0)));
    assert_eq!(report.jobs[1].first_start, None);
    assert_eq!(service.needed_gpu, Seconds::new(6000.0));
    assert_eq!(service.lacking_gpu, Seconds::new(6000.0));
    assert_eq!(service.full_part(), 0.5);
    // The service is outside job completion time.
    assert_eq!(Summary::of(&report).avg_jct_s, 9000.0);
    assert_eq!(
        (
            Summary::of(&report).completed,
            Summary::of(&report).measured
        ),
        (2, 2)
    );
}

#[test]
fn preemption_breaks_the_guarantee_of_a_spot_job() {
    // The urgent job stops the spot job 1000 s after its start.
    let urgent = |at: f64| {
        let mut urgent = job(at, 4, 500.0);
        urgent.priority = 1;
        urgent
    };
    for (guaranteed, broken) in [(1000.0, 0), (1001.0, 1)] {
        let spot = with(job(0.0, 4, 3000.0), |extras| {
            let guaranteed = Seconds::new(guaranteed);
            extras.class = Class::Spot { guaranteed };
        });
        let order = scheduling_fn(|view, out: &mut JobQueue| {
            out.allow_preemption();
            let urgency = |job: &JobRef<'_>| SortKey::by(-f64::from(job.spec().priority));
            out.push_in_order(
                view.active()
                    .map(|job| (urgency(&job), Request::gang(&job))),
            );
            Validity::UntilEvent
        });
        let policy = cases::composed("urgent", order, InOrder::new(Consolidated::default()));
        let exact = Simulation::new(ClusterSpec::uniform(1, 4)).completion(Exact);
        let report = cases::run(&exact, in_rounds(policy), &[spot, urgent(1000.0)]);
        let evictions = Summary::of(&report).evictions.unwrap();
        assert_eq!((evictions.spot, evictions.broken), (1, broken));
        assert_eq!(evictions.guaranteed, 0);
        assert_eq!(u64::from(report.jobs[0].broken), broken);
    }
}

#[test]
fn copies_on_kept_gpus_serve_during_a_change() {
    // The first copy and then the second and third one take 30 s to start; two copies end at once.
    let steps = [(0.0, 1.0), (3600.0, 3.0), (7200.0, 1.0)];
    let jobs = [service(1, 10_800.0, 10_800.0, &steps)];
    let simulation = Simulation::new(ClusterSpec::uniform(1, 4))
        .overheads(FixedOverheads::TYPICAL)
        .completion(Exact);
    let report = cases::run(&simulation, serving(600.0), &jobs);
    let service = report.jobs[0].service.as_deref().unwrap();
    assert_eq!(service.lacking_gpu, Seconds::new(30.0 + 2.0 * 30.0));
    assert_eq!(service.full, Seconds::new(10_800.0 - 60.0));
    assert_eq!(report.jobs[0].preemptions, 0);
    // The first copy is busy while the others start, and while they end.
    let busy = 3570.0 + 30.0 + 3.0 * 3570.0 + 3600.0;
    assert_eq!(report.jobs[0].attained_gpu, Seconds::new(busy));
    assert_eq!(Summary::of(&report).utilisation, busy / (4.0 * 10_800.0));
}

#[test]
fn a_rejected_service_is_never_in_full() {
    let jobs = [service(8, 7200.0, 7200.0, &[(0.0, 1.0)])];
    let exact = Simulation::new(ClusterSpec::uniform(1, 4)).completion(Exact);
    let report = cases::run(&exact, serving(600.0), &jobs);
    assert_eq!(Summary::of(&report).rejected, 1);
    assert!(
        report.jobs[0]
            .service
            .as_deref()
            .unwrap()
            .full_part()
            .is_nan()
    );
    let services = Summary::of(&report).services.unwrap();
    assert!(services.full.is_nan() && services.needed_gpu_h == 0.0);
}

#[test]
fn a_service_has_no_deadline() {
    let steps = [(0.0, 1.0)];
    let due = |at: f64| {
        with(service(1, 7200.0, 7200.0, &steps), |extras| {
            extras.deadlines = vec![Deadline {
                at: Time::new(at),
                value: 1.0,
            }];
        })
    };
    let exact = Simulation::new(ClusterSpec::uniform(1, 4)).completion(Exact);
    let report = cases::run(&exact, serving(600.0), &[due(3600.0), due(9000.0)]);
    let fates = [0, 1].map(|i: usize| report.jobs[i].deadline_fate());
    assert_eq!(
        (fates, Summary::of(&report).deadlines),
        ([None, None], None)
    );
}

#[test]
fn services_with_parts_share_gpus_beside_training() {
    let part = |copies: f64, of: u32| {
        with(service(1, 7200.0, 7200.0, &[(0.0, copies)]), |extras| {
            extras.share = Share::parts(1, of).unwrap();
        })
    };
    // Two copies of a quarter and two of a half are on two GPUs. Jobs of two and one GPUs want the
    // other two.
    let jobs = [
        part(2.0, 4),
        part(2.0, 2),
        job(0.0, 2, 600.0),
        job(0.0, 1, 600.0),
    ];
    let exact = Simulation::new(ClusterSpec::uniform(1, 4)).completion(Exact);
    let report = cases::run(&exact, serving(600.0), &jobs);
    let starts = cases::starts(&report);
    assert_eq!(starts, [Some(0.0), Some(0.0), Some(0.0), Some(600.0)]);
    let services = Summary::of(&report).services.unwrap();
    assert_eq!((services.needed_gpu_h, services.lacking_gpu_h), (3.0, 0.0));
    // The copies of a service are on different GPUs, so the training job leaves.
    let mut later = part(4.0, 4);
    later.submit = Time::new(50.0);
    let jobs = [job(0.0, 2, 6000.0), later];
    let report = cases::run(&exact, serving(600.0), &jobs);
    let service = report.jobs[1].service.as_deref().unwrap();
    // Two copies lack until the first round after the notice, and all before the round at 100 s.
    assert_eq!(
        service.lacking_gpu,
        Seconds::new(0.25 * (4.0 * 50.0 + 2.0 * 600.0))
    );
    assert_eq!(report.jobs[0].preemptions, 1);
}

#[test]
fn visited_rounds_change_nothing_for_services() {
    for seed in 0..60 {
        let r = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut jobs = Vec::new();
        for _ in 0..r.random_range(2..5) {
            let period = r.random_range(500.0..20_000.0);
            let mut steps = vec![(0.0, f64::from(r.random_range(0..4)))];
            let mut at = 0.0;
            for _ in 0..r.random_range(0..4) {
                at += r.random_range(1.0..period / 5.0);
                steps.push((at, f64::from(r.random_range(0..5))));
            }
            let gpus = r.random_range(1..3);
            let mut service = service(gpus, r.random_range(100.0..30_000.0), period, &steps);
            service.submit = Time::new(r.random_range(0.0..9000.0));
            jobs.push(service);
        }
        for _ in 0..20 {
            let mut spec = match r.random_range(0..2) {
                0 => spot(r.random_range(100.0..9000.0), r.random_range(0.0..4000.0)),
                _ => job(0.0, r.random_range(1..5), r.random_range(100.0..9000.0)),
            };
            spec.submit = Time::new(r.random_range(0.0..20_000.0));
            jobs.push(spec);
        }
        jobs.sort_by_key(|job| job.submit);
        let notice = r.random_range(0.0..900.0);
        let run = |every: bool| {
            let simulation = Simulation::new(ClusterSpec::uniform(2, 4));
            let simulation = simulation.visiting_every_round(every);
            cases::run(&simulation, serving(notice), &jobs)
        };
        let (skipped, visited) = (run(false), run(true));
        assert_eq!(skipped.jobs, visited.jobs, "seed {seed}");
        let mut summary = Summary::of(&visited);
        assert!(Summary::of(&skipped).decisions <= summary.decisions);
        summary.decisions = Summary::of(&skipped).decisions;
        assert_eq!(Summary::of(&skipped), summary, "seed {seed}");
        let lack = summary.services.unwrap();
        assert!(lack.lacking_gpu_h <= lack.needed_gpu_h);
    }
}
