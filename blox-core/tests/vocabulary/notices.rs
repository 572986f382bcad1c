//! Notices, needs and classes.

use super::harness::{case, composed, job, rounds};
use blox_core::policy::scheduling_fn;
use blox_core::{
    AdmissionDecision, Class, Curve, Extras, GpuCount, JobId, JobQueue, JobSpec, OnEvent, Reason,
    Request, Seconds, Time, Validity,
};
use blox_testing::{FirstFit, Scenario};

/// Requests all jobs, and gives each placed job a notice until `by` in decisions from 300 s on.
fn noticing(by: f64) -> blox_core::Pipeline {
    let scheduling = scheduling_fn(move |view, out: &mut JobQueue| {
        for job in view.active() {
            out.push(Request::gang(&job));
            if view.now() >= Time::new(300.0) && job.is_placed() {
                out.notify(job.id(), Time::new(by));
            }
        }
        Validity::UntilEvent
    });
    composed("test", scheduling, FirstFit)
}

fn leaves_at(bench: &Scenario, job: u32) -> Option<f64> {
    bench.job(job).leaves_at().map(Time::secs)
}

#[test]
fn job_leaves_at_the_first_decision_after_its_notice() {
    let mut bench = case("1x1", rounds(300.0), noticing(700.0));
    bench.submit_all(0.0, [job(1, 9000.0)]);
    assert_eq!(bench.round(0.0), "place 0 on 0");
    assert_eq!(leaves_at(&bench, 0), None);
    bench.decide(300.0);
    assert_eq!(leaves_at(&bench, 0), Some(700.0));
    // The backend warns the job.
    assert_eq!(bench.take_commands(), "notify 0.1 by 700");
    // No later notice counts, and the answer is valid until the notice is over.
    assert_eq!(bench.round(600.0), "");
    assert_eq!(bench.core.due(), Some(Time::new(900.0)));
    // The policy still requests the job; it has to leave all the same.
    assert_eq!(bench.round(900.0), "stop 0");
    assert_eq!(bench.phase(0), "waiting");
    assert_eq!(leaves_at(&bench, 0), None);
    assert_eq!(bench.round(1200.0), "place 0 on 0");
    assert_eq!(leaves_at(&bench, 0), None);
}

#[test]
fn decision_at_the_end_of_a_notice_stops_the_job() {
    // The policy gives one notice, and never repeats it.
    let scheduling = scheduling_fn(|view, out: &mut JobQueue| {
        view.active().for_each(|job| out.push(Request::gang(&job)));
        if view.now() == Time::new(300.0) {
            out.notify(JobId(0), Time::new(600.0));
        }
        Validity::UntilEvent
    });
    let mut bench = case(
        "1x1",
        OnEvent::default(),
        composed("test", scheduling, FirstFit),
    );
    bench.submit_all(0.0, [job(1, 9000.0), job(1, 9000.0)]);
    assert_eq!(bench.round(0.0), "place 0 on 0");
    bench.round(300.0);
    assert_eq!(bench.core.due(), Some(Time::new(600.0)));
    assert_eq!(bench.round(600.0), "stop 0; place 1 on 0");
}

#[test]
fn second_notice_does_not_move_the_first() {
    let scheduling = scheduling_fn(|view, out: &mut JobQueue| {
        for job in view.active() {
            out.push(Request::gang(&job));
            out.notify(job.id(), view.now() + Seconds::new(700.0));
        }
        Validity::NextRound
    });
    let mut bench = case("1x1", rounds(300.0), composed("test", scheduling, FirstFit));
    bench.submit_all(0.0, [job(1, 9000.0)]);
    bench.round(0.0);
    bench.decide(300.0);
    assert_eq!(bench.take_commands(), "notify 0.1 by 1000");
    for at in [600.0, 900.0] {
        assert_eq!(bench.decide(at), "");
        // The backend warns a job once.
        assert_eq!(bench.take_commands(), "");
        assert_eq!(leaves_at(&bench, 0), Some(1000.0));
    }
    assert_eq!(bench.decide(1200.0), "stop 0");
    assert_eq!(bench.take_commands(), "stop 0.1");
}

#[test]
fn gpus_of_a_leaving_job_are_placed_at_once() {
    let mut bench = case("1x1", rounds(300.0), noticing(600.0));
    bench.submit_all(0.0, [job(1, 9000.0), job(1, 9000.0)]);
    assert_eq!(bench.round(0.0), "place 0 on 0");
    bench.decide(300.0);
    assert_eq!(bench.round(600.0), "stop 0; place 1 on 0");
}

#[test]
fn job_that_is_no_longer_listed_leaves_by_its_notice() {
    let scheduling = scheduling_fn(|view, out: &mut JobQueue| {
        for job in view.active() {
            match view.now() < Time::new(300.0) {
                true => out.push(Request::gang(&job)),
                false => out.notify(job.id(), Time::ZERO),
            }
        }
        out.stop_unlisted();
        Validity::UntilEvent
    });
    let policy = composed("test", scheduling, FirstFit);
    let mut bench = case("1x1", rounds(300.0), policy);
    bench.submit_all(0.0, [job(1, 9000.0)]);
    bench.round(0.0);
    assert_eq!(bench.round(300.0), "stop 0");
    assert_eq!(*bench.job(0).reason(), Reason::Noticed);
}

#[test]
fn notice_that_is_over_stops_the_job_at_once() {
    let mut bench = case("1x1", OnEvent::default(), noticing(0.0));
    bench.submit_all(0.0, [job(1, 9000.0)]);
    assert_eq!(bench.round(0.0), "place 0 on 0");
    assert_eq!(bench.round(400.0), "stop 0");
}

#[test]
fn a_decision_is_due_at_the_end_of_a_notice() {
    let mut bench = case("1x1", OnEvent::default(), noticing(500.0));
    bench.submit_all(0.0, [job(1, 9000.0)]);
    bench.round(0.0);
    bench.round(300.0);
    assert_eq!(bench.core.due(), Some(Time::new(500.0)));
}

#[test]
fn crash_makes_a_notice_void() {
    let mut bench = case("1x1", rounds(300.0), noticing(700.0));
    bench.submit_all(0.0, [job(1, 9000.0)]);
    bench.round(0.0);
    bench.round(300.0);
    bench.crashed(400.0, 0, 1, 0.0);
    assert_eq!(leaves_at(&bench, 0), None);
}

fn service(steps: &[(f64, f64)]) -> JobSpec {
    let steps = steps.iter().map(|(at, n)| (Seconds::new(*at), *n));
    let need = Curve::new(Seconds::new(1000.0), steps);
    job(2, 9000.0).with_extras(Extras {
        need,
        ..Extras::default()
    })
}

#[test]
fn each_step_of_a_need_is_a_decision() {
    let all = scheduling_fn(|view, out: &mut JobQueue| {
        view.active().for_each(|job| out.push(Request::gang(&job)));
        Validity::UntilEvent
    });
    let mut bench = case("1x4", OnEvent::default(), composed("test", all, FirstFit));
    bench.submit(0.0, service(&[(0.0, 1.0), (400.0, 2.5)]));
    assert_eq!(bench.round(0.0), "place 0 on 0 1");
    assert_eq!(bench.job(0).need(), Some(GpuCount(2).into()));
    assert_eq!(bench.core.due(), Some(Time::new(400.0)));
    bench.round(400.0);
    // Half a copy is no copy.
    assert_eq!(bench.job(0).need(), Some(GpuCount(4).into()));
    assert_eq!(bench.core.due(), Some(Time::new(1000.0)));
    bench.ended(500.0, 0);
    bench.submit(500.0, job(1, 9000.0));
    bench.round(500.0);
    assert_eq!(bench.job(1).need(), None);
    assert_eq!(bench.core.due(), None);
}

#[test]
fn spot_job_is_protected_from_its_start_on() {
    let mut bench = case("1x1", rounds(300.0), noticing(9000.0));
    let guaranteed = Seconds::new(1000.0);
    bench.submit(
        0.0,
        job(1, 9000.0).with_extras(Extras {
            class: Class::Spot { guaranteed },
            ..Extras::default()
        }),
    );
    bench.decide(0.0);
    assert_eq!(bench.job(0).protected_until(), None);
    bench.started(50.0, 0, 1);
    assert_eq!(bench.job(0).protected_until(), Some(Time::new(1050.0)));
    let accepted = |class| AdmissionDecision::Accept {
        class: Some(class),
        deadline: None,
    };
    // Journals of before name the class of best effort.
    let old = r#"{"accept":{"class":"best-effort"}}"#;
    assert_eq!(
        serde_json::from_str::<AdmissionDecision>(old).unwrap(),
        accepted(Class::BEST_EFFORT)
    );
    for class in [
        Class::Guaranteed,
        Class::BEST_EFFORT,
        Class::Spot { guaranteed },
    ] {
        let text = serde_json::to_string(&accepted(class)).unwrap();
        let read: AdmissionDecision = serde_json::from_str(&text).unwrap();
        assert_eq!(read, accepted(class), "{text}");
    }
}
