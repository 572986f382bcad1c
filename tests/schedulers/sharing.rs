//! Three and four jobs on one GPU: their ends follow from the number of jobs on it at each moment.

use crate::cases::{self, composed};
use blox::core::policy::scheduling_fn;
use blox::core::{
    Assignment, ClusterSpec, Composition, Extras, JobId, JobQueue, JobRef, JobSpec, Pipeline,
    Request, Seconds, Share, Stateless, Time, Validity, View,
};
use blox::policies::placement::{Consolidated, InOrder, Leases};
use blox::policies::scheduling::Fifo;
use blox::sim::completion::Exact;
use blox::sim::execution::{Contention, ExecutionModel, FixedRate, running_beside};
use blox::sim::overheads::FixedOverheads;
use blox::sim::workload::Jobs;
use blox::sim::{Report, Simulation};

/// Divides the rate of a job by the number of jobs on its fullest GPU.
struct Divided;

impl Stateless for Divided {}

impl ExecutionModel for Divided {
    fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, on: &Assignment) -> f64 {
        let jobs = |gpu| 1 + running_beside(view, job.id(), gpu).count();
        let most = on.gpus.iter().map(|gpu| jobs(*gpu)).max().unwrap_or(1);
        job.own_rate() / most as f64
    }
}

/// Places the first job, and each other job on GPUs of the first. Job 1 has no GPUs while `away`.
fn on_the_first(away: std::ops::Range<f64>) -> Pipeline {
    let beside = move |view: View<'_>, out: &mut JobQueue| {
        out.stop_unlisted();
        let hidden = |id: JobId| id == JobId(1) && away.contains(&view.now().secs());
        let mut jobs: Vec<JobRef<'_>> = view.active().filter(|job| !hidden(job.id())).collect();
        if jobs.first().is_some_and(|first| first.id() == JobId(0)) {
            let guests = jobs.drain(1..).map(|job| job.id());
            let guests: Vec<JobId> = guests.collect();
            out.push(
                guests
                    .into_iter()
                    .fold(Request::gang(&jobs[0]), Request::beside),
            );
        } else {
            let placed = jobs.iter().filter(|job| job.is_placed());
            placed.for_each(|job| out.push(Request::gang(job)));
        }
        Validity::NextRound
    };
    let placement = InOrder::new(Consolidated::default());
    composed("on-the-first", scheduling_fn(beside), placement)
}

/// One simulation: its jobs as submission, GPUs and seconds alone.
struct Case<'a> {
    cluster: &'a str,
    /// Number of jobs that fit the memory of a GPU.
    fit: u32,
    jobs: &'a [(f64, u32, f64)],
    away: std::ops::Range<f64>,
    overheads: FixedOverheads,
}

impl Case<'_> {
    fn run(&self, model: impl ExecutionModel, each_launch: bool, each_round: bool) -> Report {
        let jobs = self.jobs.iter();
        let extras = Extras {
            share: Share::WHOLE.memory(1, self.fit).unwrap(),
            ..Extras::default()
        };
        let jobs = jobs.map(|&(at, gpus, s)| cases::job(at, gpus, s).with_extras(extras.clone()));
        let jobs: Vec<JobSpec> = jobs.collect();
        let simulation = Simulation::new(self.cluster.parse::<ClusterSpec>().unwrap())
            .completion(Exact)
            .execution(model)
            .overheads(self.overheads)
            .keep_rounds(each_launch)
            .visiting_every_round(each_round);
        cases::run(&simulation, on_the_first(self.away.clone()), &jobs)
    }

    /// Returns the ends of the jobs, which are the same whether plans are applied at once or step by
    /// step.
    fn ends<M: ExecutionModel>(&self, model: impl Fn() -> M) -> Vec<f64> {
        let at_once = self.run(model(), false, false);
        for (each_launch, each_round) in [(true, false), (false, true), (true, true)] {
            let stepwise = self.run(model(), each_launch, each_round);
            assert_eq!(at_once.jobs, stepwise.jobs);
            assert_eq!(at_once.counters.preemptions, stepwise.counters.preemptions);
        }
        cases::ends(&at_once)
    }

    /// Returns the ends on a cluster of one GPU, where `Contention` with a slowdown of 1 is the same
    /// model.
    fn ends_on_one_gpu(&self) -> Vec<f64> {
        let ends = self.ends(|| Divided);
        assert_eq!(ends, self.ends(|| Contention::over(FixedRate, 1.0)));
        ends
    }
}

fn launch(seconds: f64) -> FixedOverheads {
    FixedOverheads {
        launch: Seconds::new(seconds),
        ..FixedOverheads::default()
    }
}

#[test]
fn three_jobs_on_a_gpu_run_at_a_third_of_their_speed() {
    // From 0 s the first is alone: 900 s are left at 300 s. From there two run at a half: 750 and
    // 250 s are left at 600 s. From there all run at a third.
    //   1200 s: the third ends after 3 x 200 s; 550 and 50 s are left.
    //   1300 s: the second ends after 2 x 50 s; 500 s are left.
    //   1800 s: the first ends.
    // A job that is still being launched slows no other job, so each end moves by the launch.
    for late in [0.0, 30.0] {
        let ends = Case {
            cluster: "1x1",
            fit: 3,
            jobs: &[(0.0, 1, 1200.0), (300.0, 1, 400.0), (600.0, 1, 200.0)],
            away: 0.0..0.0,
            overheads: launch(late),
        }
        .ends_on_one_gpu();
        assert_eq!(ends, [1800.0, 1300.0, 1200.0].map(|end| end + late));
    }
}

#[test]
fn four_jobs_on_a_gpu_run_at_a_quarter_and_one_waits() {
    // As with three jobs until 600 s; 200 s are left of the third. At 900 s 650, 150 and 100 s are
    // left. From there four run at a fourth, and the fifth finds no place.
    //   1200 s: the fourth ends after 4 x 75 s, and the fifth starts; 575, 75 and 25 s are left.
    //   1300 s: the third ends after 4 x 25 s; 550 and 50 s are left, and 60 s of the fifth.
    //   1450 s: the second ends after 3 x 50 s; 500 s are left, and 10 s of the fifth.
    //   1470 s: the fifth ends after 2 x 10 s; 490 s are left.
    //   1960 s: the first ends. The GPU was never idle: 1200 + 400 + 200 + 75 + 85 = 1960.
    let ends = Case {
        cluster: "1x1",
        fit: 4,
        jobs: &[
            (0.0, 1, 1200.0),
            (300.0, 1, 400.0),
            (600.0, 1, 200.0),
            (900.0, 1, 75.0),
            (900.0, 1, 85.0),
        ],
        away: 0.0..0.0,
        overheads: launch(0.0),
    }
    .ends_on_one_gpu();
    assert_eq!(ends, [1960.0, 1450.0, 1300.0, 1200.0, 1470.0]);
}

#[test]
fn a_preempted_job_leaves_its_place_to_a_fourth() {
    // Three jobs run at a third until 600 s: 1000, 200 and 100 s are left. The second is preempted,
    // and the fourth takes its place, so the rates stay.
    //    750 s: the fourth ends after 3 x 50 s; 950 and 50 s are left.
    //    850 s: the third ends after 2 x 50 s; 900 s are left, and 850 s at 900 s.
    //   1300 s: the second returned at 900 s and ends after 2 x 200 s; 650 s are left.
    //   1950 s: the first ends. The GPU was never idle: 1200 + 400 + 300 + 50 = 1950.
    // If the second takes 30 s to stop, two jobs run at a half until 630 s. Then the fourth starts:
    // 985 and 85 s are left. It ends at 780 s with 935 and 35 s left, so the third ends at 850 s, too.
    for (checkpoint, fourth) in [(0.0, 750.0), (30.0, 780.0)] {
        let ends = Case {
            cluster: "1x1",
            fit: 3,
            jobs: &[
                (0.0, 1, 1200.0),
                (0.0, 1, 400.0),
                (0.0, 1, 300.0),
                (600.0, 1, 50.0),
            ],
            away: 600.0..900.0,
            overheads: FixedOverheads {
                checkpoint: Seconds::new(checkpoint),
                ..FixedOverheads::default()
            },
        }
        .ends_on_one_gpu();
        assert_eq!(ends, [1950.0, 1300.0, 850.0, fourth]);
    }
}

#[test]
fn large_job_is_slowed_by_its_fullest_gpu() {
    // The first has four GPUs. At 300 s the second gets the first of them, and the third the next
    // two: all run at a half. At 600 s 750, 200 and 150 s are left. The fourth gets the last GPU,
    // where only the first runs, and the first GPU: that GPU has three jobs.
    //    900 s: the third, at a half, ends after 2 x 150 s; 650, 100 and 20 s are left.
    //    960 s: the fourth ends after 3 x 20 s; 630 and 80 s are left.
    //   1120 s: the second ends after 2 x 80 s; 550 s are left.
    //   1670 s: the first ends.
    let ends = Case {
        cluster: "1x4",
        fit: 4,
        jobs: &[
            (0.0, 4, 1200.0),
            (300.0, 1, 350.0),
            (300.0, 2, 300.0),
            (600.0, 2, 120.0),
        ],
        away: 0.0..0.0,
        overheads: launch(0.0),
    }
    .ends(|| Divided);
    assert_eq!(ends, [1670.0, 1120.0, 900.0, 960.0]);
}

#[test]
fn job_keeps_its_lease_beside_a_guest_without_room() {
    let pairs = scheduling_fn(|view, out| {
        let mut active = view.active();
        if let Some(first) = active.next() {
            let pair = active.fold(Request::gang(&first), |pair, job| pair.beside(job.id()));
            out.push(pair);
        }
        Validity::NextRound
    });
    let leases = Composition::new("pairs")
        .scheduling(pairs)
        .placement(Leases::new(Consolidated::default()))
        .build()
        .unwrap();
    // The memory of a GPU holds one of the jobs.
    let extras = Extras {
        share: Share::WHOLE.memory(2, 3).unwrap(),
        ..Extras::default()
    };
    let job = |seconds| cases::job(0.0, 1, seconds).with_extras(extras.clone());
    let report = Simulation::new("1x1".parse::<ClusterSpec>().unwrap())
        .completion(Exact)
        .run(leases, &mut Jobs::new(vec![job(1000.0), job(500.0)]))
        .unwrap();
    let ends: Vec<_> = report.jobs.iter().map(|job| job.finish).collect();
    assert_eq!(ends, [Some(Time::new(1000.0)), Some(Time::new(1700.0))]);
    assert_eq!(report.counters.preemptions, 0);
}

/// Returns the ends of jobs with a part of one GPU under FIFO, in all modes of the simulator.
fn ends_of_parts(cluster: &str, parts: &[(f64, f64, f64)], launch_s: f64) -> Vec<f64> {
    let job = |&(at, part, seconds): &(f64, f64, f64)| {
        let extras = Extras {
            share: Share::of(part).unwrap(),
            ..Extras::default()
        };
        cases::job(at, 1, seconds).with_extras(extras)
    };
    let jobs: Vec<JobSpec> = parts.iter().map(job).collect();
    let run = |each_launch, each_round| {
        let simulation = Simulation::new(cluster.parse::<ClusterSpec>().unwrap())
            .completion(Exact)
            .overheads(launch(launch_s))
            .keep_rounds(each_launch)
            .visiting_every_round(each_round);
        let placement = InOrder::new(Consolidated::default());
        cases::run(
            &simulation,
            composed("parts", Fifo::default(), placement),
            &jobs,
        )
    };
    let first = run(false, false);
    for (each_launch, each_round) in [(true, false), (false, true), (true, true)] {
        assert_eq!(first.jobs, run(each_launch, each_round).jobs);
    }
    for (result, &(_, part, seconds)) in first.jobs.iter().zip(parts) {
        assert_eq!(result.attained_gpu, Seconds::new(part * seconds));
    }
    cases::ends(&first)
}

#[test]
fn jobs_with_parts_of_a_gpu_run_side_by_side() {
    // A half and two quarters fill the GPU. The third quarter starts when the half is free.
    let jobs = [
        (0.0, 0.5, 900.0),
        (0.0, 0.25, 1500.0),
        (0.0, 0.25, 1800.0),
        (0.0, 0.25, 300.0),
    ];
    assert_eq!(
        ends_of_parts("1x1", &jobs, 0.0),
        [900.0, 1500.0, 1800.0, 1200.0]
    );
    assert_eq!(
        ends_of_parts("1x1", &jobs, 30.0),
        [930.0, 1530.0, 1830.0, 1530.0]
    );
    // With a second GPU, it need not wait; and a whole job waits for the GPU of the two quarters.
    let more = [jobs[0], jobs[1], jobs[2], jobs[3], (300.0, 1.0, 600.0)];
    assert_eq!(
        ends_of_parts("1x2", &more, 0.0),
        [900.0, 1500.0, 1800.0, 300.0, 900.0]
    );
}
