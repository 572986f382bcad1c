//! Simulations as a whole.

use crate::{composed, fifo, node, run};
use blox_core::{
    Adapts, AdmissionDecisions, AdmissionPolicy, Answer, Assignment, Class, ClusterManager,
    Deadline, DecisionError, Draft, Event, Extras, GpuCount, GpuId, JobId, JobQueue, JobSpec,
    LossCurve, LossReports, MetricCollector, NodeAction, NodeActions, NodeId, NodeSpec, OnEvent,
    Outcome, Pipeline, PlacementPolicy, Plan, Policy, Reason, Request, Scheduler, Seconds, Shape,
    Share, Stateless, Time, TrainingSpec, Validity, View,
    order::SortKey,
    policy::{by_key, scheduling_fn},
};
use blox_results::Summary;
use blox_sim::completion::Exact;
use blox_sim::execution::{FixedRate, Shared};
use blox_sim::faults::Faults;
use blox_sim::overheads::{CheckpointRestart, FixedOverheads};
use blox_sim::results::AssignmentRow;
use blox_sim::workload::Jobs;
use blox_sim::{Ended, Measure, Report, Simulation, Watch};
use blox_testing::FirstFit;
use std::sync::{Arc, Mutex};

/// Panics at the first end of a job.
#[derive(Clone)]
struct Falls;

impl Policy for Falls {
    type Memory = bool;

    fn initial(&self, _: u64) -> bool {
        false
    }

    fn on_event(&self, _: &mut bool, _: View<'_>, event: &Event) {
        assert!(!matches!(event, Event::Ended { .. }), "notified of an end");
    }
}

impl AdmissionPolicy for Falls {
    fn admit(
        &self,
        _: &mut bool,
        _: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        asking.iter().for_each(|job| out.accept(*job));
        Validity::UntilEvent
    }
}

#[test]
fn policy_panic_on_an_event_ends_the_run() {
    let falls = fifo().with_admission(Falls).unwrap();
    let jobs = || Jobs::new(vec![job(0.0, 400.0), job(0.0, 100.0)]);
    let run = node(2).run(falls.clone(), &mut jobs());
    let error = run.unwrap_err().to_string();
    assert!(
        error.contains("policy `by-key` panicked: notified of an end"),
        "{error}"
    );
    // If jobs end one after another, the first end ends the run.
    let run = node(1).run(falls, &mut jobs());
    assert!(run.is_err());
}

#[test]
fn rigid_jobs_on_other_gpu_counts_are_counted() {
    let pairs = scheduling_fn(|view: View<'_>, out: &mut JobQueue| {
        for job in view.active() {
            out.push(Request::with_shape(job.id(), Shape::gpus(GpuCount(2))));
        }
        Validity::UntilEvent
    });
    let jobs = [
        job(0.0, 600.0),
        JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(600.0)),
        job(0.0, 600.0).with_extras(Extras {
            levels: [1, 2].map(GpuCount).to_vec(),
            ..Extras::default()
        }),
    ];
    let report = run(&node(6), composed("pairs", pairs, FirstFit), &jobs);
    assert_eq!(report.resized, 1);
}

#[test]
fn a_rejected_job_stretches_no_makespan() {
    let wide = |submit| JobSpec::new(Time::new(submit), GpuCount(2), Seconds::new(1.0));
    let jobs = [wide(0.0), job(100.0, 400.0), wide(1e6)];
    let watch = Arc::new(Watch::default());
    let simulation = node(1).watched_by(Arc::clone(&watch));
    let report = run(&simulation, fifo(), &jobs);
    assert_eq!(Summary::of(&report).rejected, 2);
    assert_eq!(watch.ended.load(std::sync::atomic::Ordering::Relaxed), 3);
    // Accepted at 300 s; the end was seen at 900 s.
    assert_eq!(Summary::of(&report).makespan_s, 800.0);
    assert_eq!(Summary::of(&report).utilisation, 0.75);
}

#[test]
fn run_ends_with_the_last_job_measured_by_id() {
    let durations = [300.0, 9e3, 600.0, 300.0, 9e3];
    let jobs = durations.map(|d| job(0.0, d));
    let simulation = node(2).measure(Measure::of_ids(&[4, 9, 5, 8, 7], 3..=5));
    let report = run(&simulation, fifo(), &jobs);
    let measured: Vec<bool> = report.jobs.iter().map(|j| j.measured).collect();
    assert_eq!(measured, [true, false, true, false, false]);
    assert_eq!(report.ended, Ended::Finished);
    assert_eq!(Summary::of(&report).avg_jct_s, (300.0 + 900.0) / 2.0);
    assert_eq!(finishes(&report)[3..], [None, None]);
}

#[test]
fn reasons_at_the_end_are_running_or_not_chosen() {
    let jobs = [job(0.0, 300.0), job(0.0, 9e3), job(0.0, 9e3), job(1.0, 9e3)];
    let simulation = node(2).measure(Measure::Ids(0, 0));
    let report = run(&simulation, fifo(), &jobs);
    let reasons = report.jobs.iter().map(|j| j.reason.as_deref());
    assert_eq!(
        reasons.collect::<Vec<_>>(),
        [
            None,
            Some("running"),
            Some("running"),
            Some("given no GPUs")
        ]
    );
}

#[test]
fn whole_scheduler_runs_as_its_inner_composition() {
    /// Makes an empty plan in every second decision.
    #[derive(Clone)]
    struct Lazy(Pipeline, u32);

    impl Scheduler for Lazy {
        fn name(&self) -> &'static str {
            "lazy"
        }
        fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Validity {
            self.0.manage(view, out)
        }
        fn admit(
            &mut self,
            view: View<'_>,
            asking: &[JobId],
            out: &mut AdmissionDecisions,
        ) -> Validity {
            self.0.admit(view, asking, out)
        }
        fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
            self.1 += 1;
            match self.1 % 2 {
                1 => Ok(Validity::NextRound),
                _ => self.0.plan(view, out),
            }
        }
    }

    let mut lazy = Lazy(fifo(), 0);
    let rounds = fifo().trigger();
    let mut jobs = Jobs::new(vec![job(0.0, 400.0), job(0.0, 300.0)]);
    let report = node(1)
        .run_whole(&mut lazy, rounds, &mut jobs, None)
        .unwrap();
    let starts = report.jobs.iter().map(|j| j.first_start.unwrap().secs());
    assert_eq!(starts.collect::<Vec<_>>(), [300.0, 900.0]);
    assert_eq!(Summary::of(&report).scheduler, "lazy");
    assert_eq!(lazy.1, 5);
}

#[test]
fn job_ended_twice_by_one_decision_ends_once() {
    let twice = scheduling_fn(|view: View<'_>, out: &mut JobQueue| {
        for job in view.placed().chain(view.waiting()) {
            out.push(Request::gang(&job));
        }
        for job in view.placed() {
            out.finish(job.id(), Reason::GoalReached);
            out.finish(job.id(), Reason::GoalReached);
        }
        Validity::NextRound
    });
    let twice = composed("twice", twice, FirstFit);
    let report = run(&node(1), twice, &[job(0.0, 9e3), job(0.0, 9e3)]);
    assert_eq!(finishes(&report), [Some(300.0), Some(900.0)]);
}

fn job(submit: f64, duration: f64) -> JobSpec {
    JobSpec::new(Time::new(submit), GpuCount(1), Seconds::new(duration))
}

fn finishes(report: &Report) -> Vec<Option<f64>> {
    let jobs = report.jobs.iter();
    jobs.map(|j| j.finish.map(|t| t.secs())).collect()
}

/// A job that is submitted at once, with a deadline.
fn due(gpus: u32, duration: f64, at: f64) -> JobSpec {
    let (at, value) = (Time::new(at), 1.0);
    let extras = Extras {
        deadlines: vec![Deadline { at, value }],
        ..Extras::default()
    };
    let job = JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(duration));
    job.with_extras(extras)
}

/// Accepts all jobs as best-effort jobs.
#[derive(Clone)]
struct Demotes;

impl Stateless for Demotes {}

impl AdmissionPolicy for Demotes {
    fn admit(
        &self,
        (): &mut (),
        _: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let class = Some(Class::BEST_EFFORT);
        asking
            .iter()
            .for_each(|job| out.accept_as(*job, class, None));
        Validity::UntilEvent
    }
}

#[test]
fn deadline_of_a_best_effort_job_is_not_declined() {
    let jobs = [due(1, 300.0, 300.0), due(1, 600.0, 400.0)];
    let report = run(&node(3), fifo().with_admission(Demotes).unwrap(), &jobs);
    let count = Summary::of(&report).deadlines.unwrap();
    assert_eq!((count.met, count.missed, count.declined), (1, 1, 0));
}

#[test]
fn deadlines_are_counted_by_fate() {
    // The last job is too wide for the cluster.
    let jobs = [
        due(1, 300.0, 300.0),
        due(1, 300.0, 400.0),
        due(1, 600.0, 400.0),
        due(4, 300.0, 400.0),
    ];
    let report = run(&node(3), fifo(), &jobs);
    let count = Summary::of(&report).deadlines.unwrap();
    assert_eq!((count.met, count.missed, count.declined), (2, 1, 1));
}

/// Times and values of the loss reports.
#[derive(Clone, Default)]
struct Losses(Vec<(f64, f64)>);

impl MetricCollector for Losses {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        if let Event::Metric { value, .. } = event {
            self.0.push((view.now().secs(), *value));
        }
    }
}

/// Runs a job of 500 s with epochs of this length in seconds.
fn run_with_loss(epoch: f64) -> Report {
    let (b0, b1, b2) = (1.0, 1.0, 0.5);
    let curve = LossCurve { b0, b1, b2 };
    let extras = Extras {
        loss: Some(LossReports { curve, epoch }),
        ..Extras::default()
    };
    let jobs = [job(0.0, 500.0).with_extras(extras)];
    run(&node(1).collector(Losses::default()), fifo(), &jobs)
}

#[test]
fn loss_is_reported_at_the_end_of_each_epoch() {
    let report = run_with_loss(200.0);
    let losses = &report.collected.get::<Losses>().unwrap().0;
    assert_eq!(*losses, [(200.0, 1.0), (400.0, 1.0 / 3.0 + 0.5)]);
}

fn joined() -> Event {
    let spec = Box::new(NodeSpec::with_gpus(1));
    Event::NodeJoined { spec }
}

#[test]
fn joined_node_is_used_and_left_node_loses_its_jobs() {
    let jobs = [job(0.0, 3000.0), job(0.0, 3000.0)];
    let simulation = node(1)
        .happening(Time::new(500.0), joined())
        .happening(Time::new(1000.0), Event::NodeLeft { node: NodeId(0) });
    let report = run(&simulation, fifo(), &jobs);
    // The second job starts on the new node at 600 s. The first has lost everything at 1000 s
    // and starts there after it.
    assert_eq!(finishes(&report), [Some(6600.0), Some(3600.0)]);
    assert_eq!(report.jobs[0].crashes, 1);
}

#[test]
fn a_cancelled_job_frees_its_gpu() {
    let jobs = [job(0.0, 3000.0), job(0.0, 300.0)];
    let cancel = Event::Ended {
        job: JobId(0),
        outcome: Outcome::Cancelled,
    };
    let simulation = node(1).happening(Time::new(450.0), cancel);
    let report = run(&simulation, fifo(), &jobs);
    assert_eq!(finishes(&report), [Some(450.0), Some(900.0)]);
    assert_eq!(report.jobs[0].outcome, Some(Outcome::Cancelled));
    assert_eq!(Summary::of(&report).failed, 1);
}

#[test]
fn all_of_the_time_that_is_not_run_has_a_reason() {
    let specs = vec![job(0.0, 700.0), job(10.0, 400.0), job(310.0, 100.0)];
    let run = |visit| {
        node(1)
            .overheads(FixedOverheads {
                launch: Seconds::new(20.0),
                ..FixedOverheads::default()
            })
            .keep_waits(true)
            .visiting_every_round(visit)
            .run(fifo(), &mut Jobs::new(specs.clone()))
            .unwrap()
    };
    let report = run(false);
    let waits = report.waits.iter();
    let waits: Vec<_> = waits
        .map(|w| (w.reason.as_str(), w.jobs, w.total.secs()))
        .collect();
    let queued = report.jobs.iter().map(|j| j.queueing().unwrap().secs());
    let queued: f64 = queued.sum();
    assert_eq!(waits.iter().map(|w| w.2).sum::<f64>(), queued);
    // The first runs from 20 to 720 s, seen at 900 s; the second from 920 to 1320 s, seen at
    // 1500 s. The others are undecided until the first round after their submission: 290 s
    // each.
    assert!(waits.contains(&("not yet decided", 2, 580.0)), "{waits:?}");
    assert!(waits.contains(&("launching", 3, 60.0)), "{waits:?}");
    assert_eq!(run(true).waits, report.waits);
}

/// A training job with a restart time of 40 s.
fn training(duration: f64) -> JobSpec {
    let mut trains = job(0.0, duration);
    trains.extras = Some(Box::new(Extras {
        training: Some(Arc::new(TrainingSpec {
            initial_batch: 8,
            max_batch: 8,
            adapts: Adapts::Nothing,
            restart: Seconds::new(40.0),
            types: Default::default(),
        })),
        ..Extras::default()
    }));
    trains
}

#[test]
fn training_jobs_pay_restarts_and_others_start_free() {
    let jobs = [training(600.0), job(0.0, 600.0)];
    let simulation = node(2)
        .overheads(CheckpointRestart::default())
        .completion(Exact);
    let report = run(&simulation, fifo(), &jobs);
    assert_eq!(finishes(&report), [Some(640.0), Some(600.0)]);
}

#[test]
fn jobs_that_nothing_will_start_end_the_simulation() {
    let jobs = [job(0.0, 300.0)];
    let simulation = node(1).happening(Time::ZERO, Event::NodeLeft { node: NodeId(0) });
    let report = run(&simulation, fifo().awaiting_growth(true), &jobs);
    assert_eq!(report.ended, Ended::Standstill);
    assert_eq!(finishes(&report), [None]);
    assert_eq!(Summary::of(&report).unfinished, 1);
}

#[test]
fn job_that_never_keeps_work_ends_the_simulation() {
    let under = |faults: Faults| {
        let jobs = [job(0.0, 60.0), job(0.0, 1e6)];
        run(&node(2).faults(faults), fifo(), &jobs)
    };
    let crashing = Faults {
        job_mtbf: Some(Seconds::from_hours(1.0)),
        ..Faults::default()
    };
    let report = under(crashing);
    assert_eq!(report.ended, Ended::NoProgress);
    assert_eq!(report.jobs[1].crashes, 1_000_000);
    assert_eq!(
        (
            Summary::of(&report).completed,
            Summary::of(&report).unfinished
        ),
        (1, 1)
    );
    let saving = Faults {
        checkpoint_every: Some(Seconds::new(600.0)),
        ..crashing
    };
    assert_eq!(under(saving).ended, Ended::Finished);
    let unlaunched = Faults {
        launch_failure: 1.0,
        ..Faults::default()
    };
    assert_eq!(under(unlaunched).ended, Ended::NoProgress);
}

#[test]
fn nodes_that_left_or_are_off_do_not_fail_forever() {
    let (node_0, on) = (NodeId(0), false);
    let action = NodeAction::Power { node: node_0, on };
    for gone in [
        Event::NodeLeft { node: node_0 },
        Event::NodeManaged { action },
    ] {
        let simulation = node(1)
            .faults(Faults {
                node_mtbf: Some(Seconds::from_hours(100.0)),
                ..Faults::default()
            })
            .happening(Time::ZERO, gone);
        let report = run(
            &simulation,
            fifo().awaiting_growth(true),
            &[job(0.0, 300.0)],
        );
        assert_eq!(report.ended, Ended::Standstill);
    }
}

#[test]
fn a_node_that_joins_can_fail() {
    let simulation = node(1)
        .faults(Faults {
            node_mtbf: Some(Seconds::new(1000.0)),
            checkpoint_every: Some(Seconds::new(100.0)),
            ..Faults::default()
        })
        .happening(Time::ZERO, joined())
        .happening(Time::ZERO, Event::NodeLeft { node: NodeId(0) });
    let report = run(&simulation, fifo(), &[job(0.0, 30_000.0)]);
    assert!(report.jobs[0].crashes > 0);
}

#[test]
fn impossible_injected_event_is_named_in_the_error() {
    let error = node(1)
        .happening(Time::new(5.0), Event::NodeReturned { node: NodeId(0) })
        .run(fifo(), &mut Jobs::new(vec![job(0.0, 300.0)]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("injected at this time"), "{error}");
}

/// A placement policy without memory, made of a function.
struct Placing<F>(F);

impl<F: Send + Sync + 'static> Stateless for Placing<F> {}

impl<F> PlacementPolicy for Placing<F>
where
    F: Fn(&mut Draft<'_>) -> Answer + Send + Sync + 'static,
{
    fn place(&self, (): &mut (), _: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        (self.0)(draft)
    }
}

/// Places jobs by a function, in order of their submission.
fn placing(place: impl Fn(&mut Draft<'_>) -> Answer + Send + Sync + 'static) -> Pipeline {
    let order = by_key(|job| SortKey::by(job.submit().secs()));
    composed("placing", order, Placing(place))
}

/// Two jobs, the second on the first one's GPU until a moment. Then the second waits, or moves
/// to the next GPU.
fn pair(until: f64, next: bool) -> Pipeline {
    let until = Time::new(until);
    placing(move |draft| {
        let [first, second] = [JobId(0), JobId(1)];
        let goes = |job, draft: &Draft<'_>| draft.may_place(job) && draft.current(job).is_none();
        let beside = Assignment {
            share: Share::WHOLE.overlapping(),
            ..Assignment::of([GpuId(0)])
        };
        if goes(first, draft) && draft.free_on(NodeId(0)) > 0 {
            draft.assign(first, Assignment::of([GpuId(0)]))?;
        }
        let together = draft.view().now() < until;
        if together && goes(second, draft) && draft.current(first).is_some() {
            draft.assign(second, beside)?;
        } else if !together && draft.current(second).is_some_and(|a| a.gpus[0] == GpuId(0)) {
            match next {
                true => draft.reassign(second, Assignment::of([GpuId(1)]))?,
                false => draft.release(second, Reason::NotChosen)?,
            }
        }
        Ok(match until < Time::new(f64::MAX) {
            true => Validity::Until(until),
            false => Validity::UntilEvent,
        })
    })
}

/// A simulation in which each of two jobs on one GPU runs at half its rate.
fn halved(gpus: u32) -> Simulation {
    node(gpus)
        .completion(Exact)
        .execution(Shared::over(FixedRate))
}

#[test]
fn job_is_alone_once_the_other_stops_or_moves() {
    for next in [false, true] {
        let simulation = halved(2).measure(Measure::Ids(0, 0));
        let report = run(
            &simulation,
            pair(600.0, next),
            &[job(0.0, 1000.0), job(0.0, 5000.0)],
        );
        // Half of 600 s, then 700 s.
        assert_eq!(finishes(&report)[0], Some(1300.0), "{next}");
    }
}

#[test]
fn job_with_a_waiting_change_runs_at_its_held_speed() {
    // Two jobs on one GPU and a third on the next. At 600 s the first is assigned the third's GPU.
    let takes_over = placing(|draft| {
        let [first, second, third] = [0, 1, 2].map(JobId);
        let there = |job| draft.current(job).map(|a| a.gpus[0]);
        if draft.view().now() == Time::ZERO {
            draft.assign(first, Assignment::of([GpuId(0)]))?;
            let beside = Assignment {
                share: Share::WHOLE.overlapping(),
                ..Assignment::of([GpuId(0)])
            };
            draft.assign(second, beside)?;
            draft.assign(third, Assignment::of([GpuId(1)]))?;
        } else if draft.view().now() >= Time::new(600.0) && there(first) == Some(GpuId(0)) {
            draft.release(third, Reason::NotChosen)?;
            draft.reassign(first, Assignment::of([GpuId(1)]))?;
        }
        Ok(Validity::NextRound)
    });
    let simulation = halved(3)
        .overheads(FixedOverheads {
            checkpoint: Seconds::new(100.0),
            ..FixedOverheads::default()
        })
        .measure(Measure::Ids(0, 1));
    let report = run(
        &simulation,
        takes_over,
        &[job(0.0, 1000.0), job(0.0, 325.0), job(0.0, 5000.0)],
    );
    // The second leaves the first's GPU at 650 s, the third leaves the allocated GPU at 700 s.
    // In between, the first is alone on its GPU. It has done 375 s of work at that time, and
    // continues alone.
    assert_eq!(finishes(&report)[..2], [Some(1325.0), Some(650.0)]);
}

#[test]
fn crash_keeps_saved_work_at_any_later_rate() {
    let finish = |every: Option<f64>| {
        let node = NodeId(0);
        let simulation = halved(1)
            .measure(Measure::Ids(0, 0))
            .faults(Faults {
                checkpoint_every: every.map(Seconds::new),
                ..Faults::default()
            })
            .happening(Time::new(2000.0), Event::NodeLost { node })
            .happening(Time::new(2050.0), Event::NodeReturned { node });
        let report = run(
            &simulation,
            pair(f64::MAX, false),
            &[job(0.0, 3000.0), job(1000.0, 1e5)],
        );
        assert_eq!(report.jobs[0].crashes, 1);
        finishes(&report)[0]
    };
    // Alone for 1200 s, then at half its rate; both jobs restart at 2100 s.
    assert_eq!(finish(None), Some(2100.0 + 3000.0 * 2.0));
    assert_eq!(finish(Some(1100.0)), Some(2100.0 + 1900.0 * 2.0));
    assert_eq!(finish(Some(700.0)), Some(2100.0 + 1700.0 * 2.0));
}

#[test]
fn crash_after_the_work_is_done_keeps_saved_work() {
    let node_0 = NodeId(0);
    let simulation = node(1)
        .faults(Faults {
            checkpoint_every: Some(Seconds::new(100.0)),
            ..Faults::default()
        })
        .happening(Time::new(550.0), Event::NodeLost { node: node_0 })
        .happening(Time::new(560.0), Event::NodeReturned { node: node_0 })
        .explain(Some(JobId(0)));
    let report = run(&simulation, fifo(), &[job(0.0, 310.0)]);
    // Done at 310 s and saved at 400 s, which would be seen at 600 s.
    let crash = report.story.iter().find(|m| m.what.starts_with("crashed"));
    assert_eq!(
        crash.unwrap().what,
        "crashed (node lost); 310 iterations are kept"
    );
}

#[test]
fn two_jobs_on_one_gpu_lose_their_node_together() {
    for seed in 0..8 {
        let simulation = halved(1).faults(Faults {
            seed,
            node_mtbf: Some(Seconds::from_hours(2.0)),
            node_mttr: Seconds::from_hours(0.2),
            checkpoint_every: Some(Seconds::new(60.0)),
            ..Faults::default()
        });
        let report = run(
            &simulation,
            pair(f64::MAX, false),
            &[job(0.0, 30_000.0), job(500.0, 30_000.0)],
        );
        assert!(report.jobs.iter().all(|j| j.crashes > 0), "{seed}");
    }
}

#[test]
fn failed_change_in_place_leaves_the_old_gpus() {
    let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
    let failed = Event::LaunchFailed {
        job: JobId(1),
        attempt: 2,
        why: "no".into(),
    };
    let simulation = node(2)
        .completion(Exact)
        .overheads(FixedOverheads {
            migration: Seconds::new(100.0),
            ..FixedOverheads::default()
        })
        .assignments_to(Some(rows.clone()))
        .happening(Time::new(650.0), failed)
        .measure(Measure::Ids(0, 0));
    let report = run(
        &simulation,
        pair(600.0, true),
        &[job(0.0, 2000.0), training(2000.0)],
    );
    let rows = rows.lock().unwrap();
    let row = rows.iter().find(|r| r.job == JobId(1)).unwrap();
    assert_eq!((row.end.secs(), row.why), (650.0, "launch failed"));
    // On its GPU until 600 s, allocated the other until 650 s, and then without one.
    let given = report.jobs[1].given.as_deref().unwrap();
    assert_eq!(given.gpu, Seconds::new(650.0));
}

#[test]
fn figures_sum_in_job_order_for_any_order_of_ends() {
    let durations = [0.3, 0.2, 0.1];
    let simulation = node(3).completion(Exact);
    let report = run(&simulation, fifo(), &durations.map(|d| job(0.0, d)));
    let sum: f64 = durations.iter().sum();
    // The jobs end in the opposite order, which has a different sum.
    assert_eq!(finishes(&report), durations.map(Some));
    assert_ne!(durations.iter().rev().sum::<f64>(), sum);
    assert_eq!(Summary::of(&report).avg_jct_s, sum / 3.0);
    assert_eq!(Summary::of(&report).utilisation, sum / (3.0 * 0.3));
}

/// Cordons all nodes until a job waits.
#[derive(Clone)]
struct Asleep;

impl Stateless for Asleep {}

impl ClusterManager for Asleep {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        for node in view.nodes() {
            let (id, why) = (node.id(), "asleep".into());
            match (view.waiting_count() > 0, node.cordoned().is_some()) {
                (true, true) => out.push(NodeAction::Uncordon { node: id }),
                (false, false) => out.push(NodeAction::Cordon { node: id, why }),
                _ => {}
            }
        }
        Validity::UntilEvent
    }
}

/// Defers all jobs until 600 s.
#[derive(Clone)]
struct Later;

impl Stateless for Later {}

impl AdmissionPolicy for Later {
    fn admit(
        &self,
        (): &mut (),
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        let from = Time::new(600.0);
        if view.now() < from {
            let why = || Reason::other("too early");
            asking.iter().for_each(|job| out.defer(*job, why()));
            return Validity::Until(from);
        }
        view.deferred().for_each(|job| out.accept(job.id()));
        Validity::UntilEvent
    }
}

#[test]
fn manager_sees_admitted_deferred_jobs_in_next_round() {
    let policy = fifo().with_admission(Later).unwrap();
    let policy = policy.with_cluster(Asleep).unwrap();
    let report = run(&node(1), policy, &[job(0.0, 300.0)]);
    // Admitted at 600 s, started a round later.
    assert_eq!(finishes(&report), [Some(1200.0)]);
}

/// Cordons all nodes until 500 s.
#[derive(Clone)]
struct Opens;

impl Stateless for Opens {}

impl ClusterManager for Opens {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        let from = Time::new(500.0);
        for node in view.nodes() {
            let (id, why) = (node.id(), "closed".into());
            match (view.now() < from, node.cordoned().is_some()) {
                (true, false) => out.push(NodeAction::Cordon { node: id, why }),
                (false, true) => out.push(NodeAction::Uncordon { node: id }),
                _ => {}
            }
        }
        match view.now() < from {
            true => Validity::Until(from),
            false => Validity::UntilEvent,
        }
    }
}

#[test]
fn timer_counts_beside_next_round_without_rounds() {
    let all = scheduling_fn(|view, out: &mut JobQueue| {
        view.active().for_each(|job| out.push(Request::gang(&job)));
        Validity::NextRound
    });
    let policy = composed("all", all, FirstFit).with_cluster(Opens).unwrap();
    let policy = policy.with_trigger(OnEvent::default());
    let report = run(&node(1), policy, &[job(0.0, 300.0)]);
    assert_eq!(finishes(&report), [Some(800.0)]);
}
