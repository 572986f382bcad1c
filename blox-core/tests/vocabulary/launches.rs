//! Launches that fail, wait or are cancelled; pairs; invalid and late plans.

use super::harness::*;
use blox_core::input::Input;
use blox_core::*;
use blox_testing::{FirstFit, StepByStep};

fn fifo() -> Pipeline {
    composed("fifo", by_submission(), FirstFit)
}

pub fn bench(cluster: &str, plans: impl IntoIterator<Item = Vec<Action>>, jobs: u32) -> Scenario {
    let mut b = case(cluster, OnEvent::default(), Scripted::new(plans));
    b.submit_all(0.0, vec![job(1, 1e6); jobs as usize]);
    b
}

/// Two jobs on one GPU: the first decision places job 0, and the second one job 1 instead.
fn replacing() -> Scenario {
    let plans = [vec![place(0, &[0])], vec![stop(0), place(1, &[0])]];
    bench("1x1", plans, 2)
}

/// Returns a plan made now.
fn now(b: &Scenario, actions: Vec<Action>) -> Plan {
    Plan {
        version: b.core.state().version(),
        actions,
        ..Plan::default()
    }
}

#[test]
fn a_launch_that_failed_is_planned_again() {
    let mut b = case("1x2", rounds(300.0), fifo());
    b.submit(0.0, job(2, 1e6));
    assert_eq!(b.decide(0.0), "place 0 on 0 1");
    assert_eq!(b.take_commands(), "start 0.1");
    assert_eq!(b.phase(0), "starting");
    b.launch_failed(12.0, 0, 1, "no image");
    assert_eq!(b.phase(0), "waiting");
    assert_eq!(b.job(0).reason(), &Reason::LaunchFailed("no image".into()));
    assert_eq!(b.ledgers(0), "allocated to none, bound to none");
    assert_eq!((b.job(0).failed_launches(), b.job(0).attempt()), (1, 1));
    assert_eq!(b.core.due(), Some(t(300.0)));
    assert_eq!(b.decide(300.0), "place 0 on 0 1");
    assert_eq!(b.take_commands(), "start 0.2");
    // A report about the first launch arrives late.
    let (job, attempt) = (JobId(0), 1);
    let late = Event::Started {
        job,
        attempt,
        rate: 1.0,
    };
    assert_eq!(
        b.try_event(301.0, late).unwrap_err().to_string(),
        "a start of launch 1 names job 0, which is starting in launch 2"
    );
    assert_eq!(
        (b.phase(0), b.core.counters().refused_events),
        ("starting", 1)
    );
    b.started(310.0, 0, 2);
    assert_eq!(b.phase(0), "running");
}

#[test]
fn launch_on_preempted_gpus_waits_for_the_checkpoint() {
    let mut b = replacing();
    b.round(0.0);
    b.decide(100.0);
    assert_eq!(b.take_commands(), "stop 0.1");
    assert_eq!(b.phases(), "0 stopping, 1 starting");
    assert_eq!(b.ledgers(0), "allocated to 1, bound to 0");
    assert_eq!(b.job(1).reason(), &Reason::WaitingForGpus);
    // The job does not attain service while it leaves.
    assert_eq!(b.job(0).attained_time(), Seconds::new(100.0));
    b.stopped(130.0, 0, 1);
    assert_eq!(b.take_commands(), "start 1.1");
    assert_eq!(b.phases(), "0 waiting, 1 starting");
    assert_eq!(b.ledgers(0), "allocated to 1, bound to 1");
    b.started(135.0, 1, 1);
    assert_eq!(b.phases(), "0 waiting, 1 running");
    assert_eq!((b.job(0).preemptions(), b.job(0).work_done()), (1, 100.0));
}

#[test]
fn late_end_takes_back_time_that_was_not_run() {
    let mut b = bench(
        "1x2",
        [
            vec![place(0, &[0, 1])],
            vec![stop(0)],
            vec![place(0, &[0, 1])],
        ],
        0,
    );
    b.submit(0.0, job(2, 1e6));
    let ran = |attempt, secs| Event::Ran {
        job: JobId(0),
        attempt,
        secs,
    };
    let accounts = |b: &Scenario| {
        let job = b.job(0);
        let times = (job.attained_time(), job.attained_gpu_time());
        (times.0.secs(), times.1.secs(), job.work_done())
    };
    b.round(0.0);
    b.event(600.0, ran(1, 50.0));
    assert_eq!(accounts(&b), (50.0, 100.0, 50.0));
    // The same applies if the job was already stopped at the time of the report.
    b.decide(700.0);
    assert_eq!(accounts(&b), (150.0, 300.0, 150.0));
    b.event(710.0, ran(1, 60.0));
    assert_eq!(accounts(&b), (60.0, 120.0, 60.0));
    b.stopped(710.0, 0, 1);
    assert_eq!(accounts(&b), (60.0, 120.0, 60.0));
    // The next launch counts separately, and never for longer than it was observed.
    b.decide(800.0);
    b.started(800.0, 0, 2);
    b.event(820.0, ran(2, 30.0));
    assert_eq!(accounts(&b), (80.0, 160.0, 80.0));
    assert_eq!(
        b.try_event(820.0, ran(1, 1.0)).unwrap_err().to_string(),
        "a length of launch 1 names job 0, which is running in launch 2"
    );
    assert!(b.try_event(820.0, ran(2, -1.0)).is_err());
    // Progress that the job itself reported stays.
    let progress = Event::Progress {
        job: JobId(0),
        attempt: 2,
        work: 500.0,
        rate: 2.0,
    };
    b.event(830.0, progress);
    b.event(900.0, ran(2, 35.0));
    assert_eq!(accounts(&b), (95.0, 190.0, 510.0));
    let end = b.core.due();
    b.event(900.0, ran(2, 35.0));
    assert_eq!(b.core.due(), end);
}

#[test]
fn correction_of_a_changing_job_ends_standing_answer() {
    fn due(trigger: impl DecisionTrigger + 'static) -> Option<Time> {
        let (wide, narrow) = (vec![place(0, &[0, 1])], vec![place(0, &[0])]);
        let plans = [wide, Vec::new(), narrow];
        let mut b = case("1x2", trigger, Scripted::new(plans));
        b.submit(0.0, job(2, 1e6));
        b.round(0.0);
        b.decide(100.0);
        b.decide(200.0);
        assert_eq!(b.take_commands(), "change 0.2");
        b.decide(300.0);
        assert_eq!(b.core.due(), None);
        assert_eq!((b.phase(0), b.job(0).work_done()), ("starting", 200.0));
        let (job, attempt, secs) = (JobId(0), 1, 150.0);
        b.event(310.0, Event::Ran { job, attempt, secs });
        b.started(310.0, 0, 2);
        // The change continues from the state of the launch before it.
        assert_eq!(b.job(0).attained_gpu_time(), Seconds::new(300.0));
        assert_eq!(b.job(0).work_done(), 150.0);
        b.core.due()
    }
    assert_eq!(due(rounds(100.0)), Some(t(400.0)));
    // With decisions after events only, none is due.
    assert_eq!(due(OnEvent::default()), None);
}

#[test]
fn a_job_that_is_moved_stops_and_starts_elsewhere() {
    let mut b = bench(
        "1x2",
        [vec![place(0, &[0])], vec![stop(0), place(0, &[1])]],
        1,
    );
    b.round(0.0);
    b.decide(100.0);
    assert_eq!(b.take_commands(), "stop 0.1");
    assert_eq!(b.phase(0), "stopping");
    assert_eq!(b.ledgers(0), "allocated to none, bound to 0");
    assert_eq!(b.ledgers(1), "allocated to 0, bound to none");
    b.stopped(130.0, 0, 1);
    assert_eq!(b.take_commands(), "start 0.2");
    assert_eq!(b.ledgers(1), "allocated to 0, bound to 0");
    b.started(140.0, 0, 2);
    assert_eq!(b.phases(), "0 running");
}

#[test]
fn victim_that_ends_by_itself_makes_room() {
    let mut b = replacing();
    b.round(0.0);
    b.decide(100.0);
    b.take_commands();
    b.ended(110.0, 0);
    assert_eq!(b.take_commands(), "start 1.1");
    assert_eq!(b.phases(), "1 starting");
    // The backend's answer to the stop, which crossed with the end, is rejected.
    let (job, attempt) = (JobId(0), 1);
    let late = Event::Stopped {
        job,
        attempt,
        work: None,
    };
    assert!(matches!(
        b.try_event(111.0, late),
        Err(EventError::UnknownJob { .. })
    ));
}

#[test]
fn launch_that_fails_while_stopping_has_left() {
    let mut b = replacing();
    b.decide(0.0);
    b.decide(5.0);
    assert_eq!(b.take_commands(), "start 0.1; stop 0.1");
    b.launch_failed(6.0, 0, 1, "odd");
    assert_eq!(b.take_commands(), "start 1.1");
    assert_eq!(b.phases(), "0 waiting, 1 starting");
}

#[test]
fn a_later_plan_cancels_a_launch_that_still_waits() {
    let plans = [
        vec![place(0, &[0])],
        vec![stop(0), place(1, &[0])],
        vec![stop(1), place(2, &[0])],
    ];
    let mut b = bench("1x1", plans, 3);
    b.round(0.0);
    b.decide(100.0);
    b.decide(110.0);
    // No process of job 1 ever ran: no stop, no preemption.
    assert_eq!(b.take_commands(), "stop 0.1");
    assert_eq!(b.phases(), "0 stopping, 1 waiting, 2 starting");
    assert_eq!((b.job(1).preemptions(), b.job(1).attempt()), (0, 0));
    b.stopped(130.0, 0, 1);
    assert_eq!(b.take_commands(), "start 2.1");
}

#[test]
fn waiting_launch_is_confirmed_or_its_victim_restored() {
    let plans = [
        vec![place(0, &[0])],
        vec![stop(0), place(1, &[0])],
        // A job stopped and placed on the same GPUs: nothing to do, but the job must not be lost.
        vec![stop(1), place(1, &[0])],
        // The victim gets its GPUs back before it has left.
        vec![stop(1), place(0, &[0])],
    ];
    let mut b = bench("1x1", plans, 2);
    b.round(0.0);
    b.decide(100.0);
    b.decide(110.0);
    assert_eq!(b.phases(), "0 stopping, 1 starting");
    b.decide(120.0);
    assert_eq!(b.phases(), "0 stopping, 1 waiting");
    assert_eq!(b.take_commands(), "stop 0.1");
    b.stopped(130.0, 0, 1);
    assert_eq!(b.take_commands(), "start 0.2");
    // The job is stopped only once.
    assert_eq!(b.job(0).preemptions(), 1);
}

#[test]
fn victim_placed_beside_its_successor_starts_with_it() {
    let plans = [
        vec![place(0, &[0])],
        vec![stop(0), place(1, &[0])],
        vec![beside(0, &[0])],
    ];
    let mut b = bench("1x1", plans, 2);
    b.round(0.0);
    b.decide(100.0);
    b.take_commands();
    b.decide(110.0);
    // Until it leaves, the victim has the GPU whole.
    assert_eq!(b.take_commands(), "");
    b.stopped(130.0, 0, 1);
    assert_eq!(b.take_commands(), "start 1.1; start 0.2");
    assert_eq!(b.ledgers(0), "allocated to 0+1, bound to 0+1");
}

#[test]
fn change_in_place_holds_its_old_gpus_until_done() {
    let plans = [
        vec![place(0, &[0, 1])],
        vec![place(0, &[0]), place(1, &[1])],
    ];
    let mut b = bench("1x2", plans, 2);
    b.round(0.0);
    b.decide(100.0);
    assert_eq!(b.take_commands(), "change 0.2");
    assert_eq!(b.phases(), "0 starting, 1 starting");
    assert_eq!(b.ledgers(1), "allocated to 1, bound to 0");
    b.started(107.0, 0, 2);
    assert_eq!(b.take_commands(), "start 1.1");
    assert_eq!(b.ledgers(1), "allocated to 1, bound to 1");
    // Its service until then counts.
    assert_eq!(b.job(0).attained_gpu_time(), Seconds::new(200.0));
}

#[test]
fn a_change_that_waits_is_charged_what_it_holds() {
    let plans = [
        vec![place(0, &[0]), place(1, &[1])],
        vec![stop(1), place(0, &[0, 1])],
        vec![place(0, &[0])],
    ];
    let mut b = bench("1x2", plans, 2);
    b.round(0.0);
    b.decide(100.0);
    // The job continues until the other has left.
    assert_eq!(b.phases(), "0 running, 1 stopping");
    assert_eq!(b.take_commands(), "stop 1.1");
    b.stopped(150.0, 1, 1);
    assert_eq!(b.job(0).attained_gpu_time(), Seconds::new(150.0));
    b.settle(150.0);
    assert_eq!(b.phases(), "0 running, 1 waiting");
}

#[test]
fn change_undone_before_it_was_applied_is_no_change() {
    let plans = [
        vec![place(0, &[0]), place(1, &[1])],
        vec![stop(1), place(0, &[0, 1])],
        vec![place(0, &[0])],
    ];
    let mut b = bench("1x2", plans, 2);
    b.round(0.0);
    b.decide(100.0);
    b.decide(120.0);
    b.stopped(150.0, 1, 1);
    assert_eq!(b.take_commands(), "stop 1.1");
    assert_eq!(b.phases(), "0 running, 1 waiting");
    assert_eq!(b.job(0).attempt(), 1);
}

#[test]
fn jobs_that_swap_gpus_do_not_wait_for_each_other() {
    let plans = [
        vec![place(0, &[0]), place(1, &[1]), place(2, &[2])],
        vec![place(0, &[1]), place(1, &[2]), place(2, &[0])],
    ];
    let mut b = bench("1x3", plans, 3);
    b.round(0.0);
    b.decide(100.0);
    // One job has to leave first; the others then change in place.
    assert_eq!(b.take_commands(), "stop 0.1");
    b.stopped(110.0, 0, 1);
    assert_eq!(b.take_commands(), "change 2.2");
    b.started(111.0, 2, 2);
    assert_eq!(b.take_commands(), "change 1.2");
    b.started(112.0, 1, 2);
    assert_eq!(b.take_commands(), "start 0.2");
    b.started(113.0, 0, 2);
    assert_eq!(b.phases(), "0 running, 1 running, 2 running");
}

#[test]
fn two_jobs_on_one_gpu() {
    // The first job that fits, and the next job beside it.
    let guests = scheduling_fn(|view: View<'_>, out: &mut JobQueue| {
        let mut jobs = view.active();
        if let Some(host) = jobs.next() {
            let guest = jobs.next().map(|guest| guest.id());
            out.push(
                guest
                    .into_iter()
                    .fold(Request::gang(&host), Request::beside),
            );
        }
        Validity::NextRound
    });
    let policy = composed("guests", guests, FirstFit);
    let mut b = case("1x1", rounds(300.0), policy);
    b.submit_all(0.0, vec![job(1, 1e6); 3]);
    assert_eq!(b.round(0.0), "place 0 on 0; place 1 on 0 overlapping");
    assert_eq!(b.ledgers(0), "allocated to 0+1, bound to 0+1");
    assert_eq!(b.phases(), "0 running, 1 running, 2 waiting");
    b.ended(100.0, 0);
    // The other job continues alone, without a restart.
    assert_eq!(b.phases(), "1 running, 2 waiting");
    assert_eq!(b.take_commands(), "");
    assert_eq!(b.job(1).assignment().unwrap().gpus[..], [GpuId(0)]);
    assert_eq!(b.round(300.0), "place 2 on 0 overlapping");
    assert_eq!(b.job(1).attempt(), 1);
}

#[test]
fn a_pair_moves_as_a_pair() {
    let plans = [
        vec![place(0, &[0]), beside(1, &[0])],
        vec![stop(0), stop(1), place(0, &[1]), beside(1, &[1])],
    ];
    let mut b = bench("1x2", plans, 2);
    b.round(0.0);
    b.round(10.0);
    assert_eq!(b.phases(), "0 running, 1 running");
    assert_eq!(beside_of(&b, 0), [1]);
    assert_eq!(beside_of(&b, 1), [0]);
}

#[test]
fn pairs_that_swap_gpus_are_not_deadlocked() {
    let plans = [
        vec![
            place(0, &[0]),
            beside(1, &[0]),
            place(2, &[1]),
            beside(3, &[1]),
        ],
        vec![
            place(0, &[1]),
            beside(1, &[1]),
            place(2, &[0]),
            beside(3, &[0]),
        ],
    ];
    let mut b = bench("1x2", plans, 4);
    b.round(0.0);
    b.decide(10.0);
    // One pair leaves, then the other pair fits.
    assert_eq!(b.take_commands(), "stop 0.1; stop 1.1");
    assert_eq!(b.phases(), "0 stopping, 1 stopping, 2 running, 3 running");
    b.stopped(20.0, 0, 1);
    assert_eq!(b.take_commands(), "");
    b.stopped(30.0, 1, 1);
    b.settle(30.0);
    assert_eq!(b.phases(), "0 running, 1 running, 2 running, 3 running");
    assert_eq!(b.job(0).assignment().unwrap().gpus[..], [GpuId(1)]);
    assert_eq!(b.job(3).assignment().unwrap().gpus[..], [GpuId(0)]);
}

#[test]
fn jobs_that_wait_for_a_third_job_keep_running() {
    let plans = [
        vec![place(0, &[0, 1]), place(1, &[2, 3]), beside(2, &[2, 3])],
        vec![stop(2), place(0, &[1, 2]), beside(1, &[1, 2])],
    ];
    let mut b = case("1x4", OnEvent::default(), Scripted::new(plans));
    b.submit_all(0.0, vec![job(2, 1e6); 3]);
    b.round(0.0);
    b.decide(10.0);
    // Jobs 0 and 1 each hold a GPU of the other, which they will share.
    assert_eq!(b.take_commands(), "stop 2.1");
    assert_eq!(b.phases(), "0 running, 1 running, 2 stopping");
    b.stopped(20.0, 2, 1);
    b.settle(20.0);
    assert_eq!(b.phases(), "0 running, 1 running, 2 waiting");
    assert_eq!(beside_of(&b, 0), [1]);
}

#[test]
fn a_wrong_plan_is_refused_as_a_whole_by_name() {
    let mut half = on(&[0]);
    half.share = Share::parts(1, 2).unwrap();
    let mut held = on(&[1]);
    held.share = Share::parts(1, 2)
        .and_then(|half| half.memory(2, 3))
        .unwrap();
    let mut packed = held.clone();
    packed.share = packed.share.overlapping();
    let mut most = on(&[1]);
    most.share = Share::parts(10_501, 21_000).unwrap();
    let mut other_half = on(&[1]);
    other_half.share = half.share;
    let mut nan = on(&[1]);
    nan.cpus = f64::NAN;
    let odd = |assignment| Action::Place {
        job: JobId(1),
        assignment,
    };
    let cases = [
        (
            vec![place(1, &[1]), place(2, &[1])],
            "the plan gives GPU 1 to job 2, but job 1 has it",
        ),
        (
            vec![place(1, &[1]), place(2, &[0])],
            "the plan gives GPU 0 to job 2, but job 0 has it",
        ),
        (
            vec![place(1, &[1, 1])],
            "the plan gives GPU 1 to job 1, but job 1 has it",
        ),
        (
            vec![place(1, &[1]), place(1, &[2])],
            "the plan wants to place job 1 twice, expected once",
        ),
        (
            vec![stop(0), place(77, &[0])],
            "the plan names job 77, which does not exist",
        ),
        (
            vec![stop(0), stop(0)],
            "the plan wants to stop job 0 twice, expected once",
        ),
        (
            vec![stop(1)],
            "the plan wants to stop job 1, which is waiting",
        ),
        (vec![place(1, &[])], "the plan places job 1 on no GPU"),
        (
            vec![stop(0), place(1, &[u32::MAX])],
            "the plan gives job 1 GPU 4294967295, which does not exist or may not be used",
        ),
        (
            vec![stop(0), place(1, &[3])],
            "the plan gives job 1 GPU 3, which does not exist or may not be used",
        ),
        (
            vec![odd(half)],
            "the plan gives job 1 a part of GPU 0 (1/2), but other jobs, such as job 0 (all), leave too little",
        ),
        (
            vec![
                odd(packed),
                Action::Place {
                    job: JobId(2),
                    assignment: held,
                },
            ],
            "the plan gives job 2 a part of GPU 1 (1/2 with 0.667 of the memory), but other jobs, such as job 1 (1/2 with 0.667 of the memory, overlapping), leave too little",
        ),
        (
            vec![
                odd(most),
                Action::Place {
                    job: JobId(2),
                    assignment: other_half,
                },
            ],
            "the plan gives job 2 a part of GPU 1 (1/2), but other jobs, such as job 1 (0.500), leave too little",
        ),
        (
            vec![odd(nan)],
            "the plan gives job 1 NaN CPUs, expected a finite number that is not negative",
        ),
    ];
    for (steps, message) in cases {
        let mut b = bench("1x4", [vec![place(0, &[0])], steps], 3);
        b.round(0.0);
        b.event(1.0, Event::GpuFailed { gpu: GpuId(3) });
        let error = b.try_decide(10.0).unwrap_err();
        assert_eq!(error.to_string(), format!("policy `scripted`: {message}"));
        assert_eq!(b.phases(), "0 running, 1 waiting, 2 waiting", "{message}");
        assert_eq!(b.ledgers(0), "allocated to 0, bound to 0");
        assert_eq!(b.take_commands(), "");
        assert_eq!(b.core.counters().refused_plans, 1);
        // The policy must decide again.
        assert_eq!(b.core.due(), Some(t(11.0)));
    }
}

#[test]
fn gpu_time_counts_parts_and_overlaps() {
    let place = |job, gpus: &[u32], share| Action::Place {
        job: JobId(job),
        assignment: Assignment { share, ..on(gpus) },
    };
    let part = |n, of| Share::parts(n, of).unwrap();
    let plans = [
        vec![
            place(0, &[0, 1], part(1, 4)),
            place(1, &[0], part(3, 4)),
            place(2, &[1], Share::WHOLE.overlapping()),
        ],
        // A smaller part of the same GPUs.
        vec![place(0, &[0, 1], part(1, 8))],
        vec![stop(0), stop(1), stop(2)],
    ];
    let mut b = bench("1x2", plans, 3);
    let times = |b: &Scenario| [0, 1, 2].map(|job| b.job(job).attained_gpu_time().secs());
    b.round(0.0);
    b.round(400.0);
    assert_eq!(times(&b), [200.0, 300.0, 400.0]);
    b.round(800.0);
    assert_eq!(times(&b), [300.0, 600.0, 800.0]);
    assert_eq!(b.job(0).attained_time(), Seconds::new(800.0));
}

#[test]
fn a_stop_counts_wherever_it_stands_in_the_plan() {
    let mut b = bench(
        "1x2",
        [vec![place(0, &[0])], vec![place(0, &[1]), stop(0)]],
        1,
    );
    b.round(0.0);
    b.decide(10.0);
    assert_eq!(
        (b.take_commands().as_str(), b.phase(0)),
        ("stop 0.1", "stopping")
    );
}

fn ask(b: &mut Scenario, at: f64) {
    let due = Input::Due { at: t(at) };
    b.core.take(&due, &mut *b.policy).unwrap();
    b.core.take_commands(&mut b.commands);
    b.commands.pop();
}

fn answer(b: &mut Scenario, at: f64, plan: Plan) -> Result<(), Refused> {
    let decision = Decision {
        version: plan.version,
        validity: Validity::UntilEvent,
        plan,
        ..Decision::default()
    };
    let decided = b.core.apply(t(at), decision, &mut *b.policy);
    b.core.take_commands(&mut b.commands);
    decided
}

#[test]
fn answer_without_later_news_is_not_due() {
    let mut b = bench("1x2", [vec![]], 1);
    b.round(0.0);
    // The last event is included in the state that the plan was made from.
    b.event(5.0, Event::GpuFailed { gpu: GpuId(1) });
    let plan = now(&b, Vec::new());
    ask(&mut b, 10.0);
    answer(&mut b, 10.0, plan.clone()).unwrap();
    assert_eq!(b.core.due(), None);
    // Events after the request make a decision due at once.
    ask(&mut b, 11.0);
    b.event(11.0, Event::GpuRepaired { gpu: GpuId(1) });
    answer(&mut b, 12.0, plan).unwrap();
    assert_eq!(b.core.due(), Some(t(12.0)));
}

#[test]
fn late_plan_is_applied_without_impossible_actions() {
    let mut b = bench("2x2", [vec![place(0, &[0]), place(1, &[1])]], 4);
    b.round(0.0);
    let plan = now(
        &b,
        vec![
            stop(0),
            place(2, &[0]),
            place(3, &[2]),
            place(1, &[3]),
            Action::Promote { job: JobId(3) },
        ],
    );
    ask(&mut b, 0.0);
    assert_eq!(b.core.due(), None);
    // Job 0 ends and the second node is lost: two of five steps remain.
    b.ended(5.0, 0);
    b.event(6.0, Event::NodeLost { node: NodeId(1) });
    let newcomer = b.submit(7.0, job(1, 1e6));
    assert_eq!(b.core.due(), None, "one question at a time");
    answer(&mut b, 10.0, plan.clone()).unwrap();
    assert_eq!(b.take_commands(), "start 2.1");
    assert_eq!(b.phases(), "1 running, 2 starting, 3 waiting, 4 submitted");
    let counters = b.core.counters();
    assert_eq!(counters.stale_steps, 3);
    assert_eq!((counters.preemptions, counters.placements), (0, 3));
    assert!(b.job(3).promoted());
    // The change that was too late leaves the job where it is.
    assert_eq!(b.job(1).assignment(), Some(&on(&[1])));
    // Events that arrived while the plan was made are due now.
    assert_eq!(b.core.due(), Some(t(10.0)));
    b.decide(10.0);
    assert_eq!(b.job(newcomer.0).phase(), Phase::Waiting);
    // Lateness does not excuse an error that existed from the start.
    let wrong = now(&b, vec![place(99, &[0])]);
    b.ended(12.0, 2);
    ask(&mut b, 12.0);
    assert!(answer(&mut b, 13.0, wrong).is_err());
    let future = Plan {
        version: 1_000_000,
        ..Plan::default()
    };
    ask(&mut b, 14.0);
    assert!(answer(&mut b, 14.0, future).is_err());
}

#[test]
fn late_change_stops_if_its_gpus_are_reallocated() {
    let mut b = bench("2x1", [vec![place(0, &[0])]], 2);
    b.round(0.0);
    let plan = now(&b, vec![place(0, &[1]), place(1, &[0])]);
    ask(&mut b, 5.0);
    b.event(6.0, Event::NodeLost { node: NodeId(1) });
    answer(&mut b, 10.0, plan).unwrap();
    assert_eq!(b.phases(), "0 stopping, 1 starting");
    b.settle(20.0);
    assert_eq!(b.phases(), "0 waiting, 1 running");
}

#[test]
fn events_during_a_decision_reach_the_next_one() {
    let mut b = case("2x1", OnEvent::default(), fifo());
    b.submit_all(0.0, vec![job(1, 1e6); 2]);
    b.round(0.0);
    b.submit_all(1.0, vec![job(1, 1e6); 2]);
    assert_eq!(b.round(1.0), "");
    // The policy beside the loop finds nothing to do. Meanwhile a GPU becomes free, one waiting job
    // leaves and another one returns: the number is the same as before.
    let mut beside = b.policy.clone();
    let snapshot = b.core.state().clone();
    let mut plan = Plan {
        version: snapshot.version(),
        ..Plan::default()
    };
    beside.plan(View::of(&snapshot), &mut plan).unwrap();
    ask(&mut b, 2.0);
    b.crashed(2.0, 0, 1, 0.0);
    b.cancelled(2.0, 2);
    answer(&mut b, 3.0, plan).unwrap();
    b.policy = beside;
    assert_eq!(b.round(3.0), "place 0 on 0");
}

#[test]
fn panic_or_timeout_fails_only_the_decision() {
    struct Panics;
    impl Policy for Panics {
        /// Number of calls.
        type Memory = u32;

        fn initial(&self, _: u64) -> u32 {
            0
        }

        fn on_event(&self, _: &mut u32, _: View<'_>, event: &Event) {
            assert!(!matches!(event, Event::Metric { .. }), "no numbers, please");
        }
    }
    impl AdmissionPolicy for Panics {
        fn admit(
            &self,
            memory: &mut Self::Memory,
            _: View<'_>,
            asking: &[JobId],
            out: &mut AdmissionDecisions,
        ) -> Validity {
            *memory += 1;
            assert!(*memory != 2, "second time");
            asking.iter().for_each(|j| out.accept(*j));
            Validity::UntilEvent
        }
    }
    let mut b = case("1x2", rounds(300.0), fifo().with_admission(Panics).unwrap());
    b.submit(0.0, job(1, 1e6));
    assert_eq!(b.round(0.0), "place 0 on 0");
    b.submit_all(10.0, [job(1, 1e6), job(64, 1e6)]);
    let error = b.try_decide(300.0).unwrap_err();
    assert_eq!(error.to_string(), "policy `fifo` panicked: second time");
    assert_eq!(b.phases(), "0 running, 1 submitted, 2 submitted");
    assert_eq!(b.core.due(), Some(t(600.0)));
    let timeout = DecisionError::TimedOut {
        policy: "fifo".into(),
        limit: Seconds::new(5.0),
    };
    ask(&mut b, 600.0);
    let lost = Input::Lost {
        at: t(600.0),
        question: b.core.open().unwrap().number,
        why: timeout,
    };
    b.core.take(&lost, &mut *b.policy).unwrap();
    assert_eq!(b.core.counters().failed_decisions, 2);
    // When both jobs are decided again, the one that could never run is rejected.
    assert_eq!(b.round(900.0), "reject 2; place 1 on 1");
    assert_eq!(b.phases(), "0 running, 1 running");
    b.metric(910.0, 0, "loss", 0.5);
    assert_eq!(b.core.observers().failed(), 1);
}

#[test]
fn job_held_and_released_in_a_round_is_admitted_once() {
    let mut b = case("1x1", rounds(300.0), fifo());
    let id = b.submit(0.0, job(1, 1e6));
    b.event(1.0, Event::Hold { job: id });
    b.event(2.0, Event::Release { job: id });
    assert_eq!(b.round(300.0), "place 0 on 0");
    assert_eq!(b.core.counters().stale_steps, 0);
}

#[test]
fn invalid_gpu_for_a_job_just_admitted_is_refused() {
    for (gpu, applied) in [(1, true), (2, false)] {
        let mut b = bench("1x2", [], 2);
        ask(&mut b, 0.0);
        let mut decision = Decision {
            version: b.core.state().version(),
            ..Decision::default()
        };
        decision.admissions.accept(JobId(0));
        decision.plan.actions.push(place(0, &[gpu]));
        // Another event occurs before the answer arrives.
        b.event(1.0, Event::Hold { job: JobId(1) });
        let result = b.core.apply(t(2.0), decision, &mut *b.policy);
        assert_eq!(result.is_ok(), applied);
        assert_eq!(b.core.counters().stale_steps, 0);
        // The job was eligible at the time of the request.
        assert_eq!(b.job(0).eligible_since(), t(0.0));
        assert_eq!(b.phase(0), if applied { "starting" } else { "waiting" });
    }
}

#[test]
fn panic_while_scheduling_drops_the_admissions() {
    let falls = scheduling_fn(|view: View<'_>, _: &mut JobQueue| {
        // The view shows the decision that admission has just made.
        assert_eq!(view.waiting_count(), 0, "a job waits");
        Validity::NextRound
    });
    let mut b = case("1x2", rounds(300.0), composed("falls", falls, FirstFit));
    b.submit(0.0, job(1, 1e6));
    let error = b.try_decide(0.0).unwrap_err().to_string();
    assert!(error.contains("a job waits"), "{error}");
    assert_eq!((b.phase(0), b.core.state().version()), ("submitted", 1));
}

#[test]
fn input_for_no_open_question_is_refused() {
    let mut b = bench("1x2", [], 1);
    let lost = |question| Input::Lost {
        at: t(9.0),
        question,
        why: DecisionError::TimedOut {
            policy: "scripted".into(),
            limit: Seconds::new(1.0),
        },
    };
    let none = b.core.take(&lost(1), &mut *b.policy).unwrap_err();
    assert_eq!(none, Refused::NotAsked { found: 1 });
    ask(&mut b, 0.0);
    let due = Input::Due { at: t(5.0) };
    let twice = b.core.take(&due, &mut *b.policy).unwrap_err();
    assert_eq!(twice, Refused::Open { open: 1 });
    let other = b.core.take(&lost(2), &mut *b.policy).unwrap_err();
    assert_eq!(other, Refused::NotAsked { found: 2 });
    assert_eq!(b.core.state().now(), t(0.0));
    assert_eq!(b.core.open().unwrap().number, 1);
}

#[test]
fn saved_core_keeps_counters_question_and_reasons() {
    let mut b = case("1x1", rounds(300.0), fifo());
    b.submit_all(0.0, vec![job(1, 1e6); 2]);
    b.round(0.0);
    b.submit(10.0, job(1, 1e6));
    ask(&mut b, 300.0);
    let text = serde_json::to_string(&b.core.core().save()).unwrap();
    let saved = serde_json::from_str(&text).unwrap();
    let again = blox_core::core::Core::restore(saved, Box::new(rounds(300.0)));
    assert_eq!(again.counters(), b.core.counters());
    assert_eq!((again.open(), again.due()), (b.core.open(), None));
    assert_eq!(again.last_decision(), Some(t(300.0)));
    let why = |core: &blox_core::core::Core| core.reason_for(JobId(1)).clone();
    assert_eq!(why(&again), why(b.core.core()));
    assert_ne!(why(&again), Reason::NotYetDecided);
}

#[test]
fn meter_of_nodes_counts_until_a_gpu_fails() {
    let mut b = case("2x1", rounds(300.0), fifo());
    b.event(10.0, Event::NodeLost { node: NodeId(1) });
    b.event(50.0, Event::GpuFailed { gpu: GpuId(0) });
    let saved = serde_json::to_value(b.core.core().save()).unwrap();
    let meter = &saved["state"]["cluster"]["meter"];
    assert_eq!(meter["since"], 50.0, "{meter}");
}
