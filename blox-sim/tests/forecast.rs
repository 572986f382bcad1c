//! Simulated futures inside a policy.

use crate::{by, fifo};
use blox_core::{
    ClusterSpec, Curve, Event, Extras, GpuCount, JobId, JobSpec, Rounds, Seconds, State, Time,
    forecast::{Forecast, Horizon},
    runtime::Runtime,
};
use blox_sim::execution::{FixedRate, Traffic};
use blox_sim::forecast::{LookAhead, forecaster};
use std::sync::Arc;

#[test]
fn forecast_of_each_policy_changes_nothing() {
    let rounds = Rounds::every(Seconds::new(300.0)).unwrap();
    let mut fifo = fifo();
    let sjf = by(|job| job.truth().duration().secs());
    let state = State::new(&ClusterSpec::uniform(1, 1)).unwrap();
    let mut core = Runtime::new(state, Box::new(rounds));
    for (i, (submit, duration)) in [(0.0, 1200.0), (10.0, 900.0), (20.0, 300.0)]
        .into_iter()
        .enumerate()
    {
        let at = Time::new(submit);
        let spec = JobSpec::new(at, GpuCount(1), Seconds::new(duration));
        let event = Event::Submitted {
            job: JobId(i as u32),
            spec: Arc::new(spec),
        };
        core.event(at, &event, &mut fifo).unwrap();
        if i == 0 {
            core.decide(Time::ZERO, &mut fifo).unwrap();
            let started = Event::Started {
                job: JobId(0),
                attempt: 1,
                rate: 1.0,
            };
            core.event(Time::ZERO, &started, &mut fifo).unwrap();
        }
    }
    let before = serde_json::to_string(core.state()).unwrap();
    let ahead = forecaster(LookAhead::new(rounds));
    let ends =
        |f: &Forecast| -> Vec<(u32, f64)> { f.ends.iter().map(|(j, t)| (j.0, t.secs())).collect() };
    let a = ahead.forecast(core.state(), &fifo, Horizon::UntilDrained);
    assert_eq!(ends(&a), [(0, 1200.0), (1, 2100.0), (2, 2400.0)]);
    assert_eq!(a.average_jct, Seconds::new(1890.0));
    let b = ahead.forecast(core.state(), &sjf, Horizon::UntilDrained);
    assert_eq!(ends(&b), [(0, 1200.0), (2, 1500.0), (1, 2400.0)]);
    let c = ahead.forecast(core.state(), &sjf, Horizon::For(Seconds::new(1600.0)));
    assert_eq!((c.ends.len(), c.unfinished), (2, 1));
    assert_eq!(serde_json::to_string(core.state()).unwrap(), before);
}

#[test]
fn forecast_of_jobs_on_a_link_counts_both() {
    let mut fifo = fifo();
    let rounds = Rounds::every(Seconds::new(300.0)).unwrap();
    let cluster: ClusterSpec = "1x1,1x2,1x1,network=50".parse().unwrap();
    let mut core = Runtime::new(State::new(&cluster).unwrap(), Box::new(rounds));
    let spec = |duration| {
        let traffic = Curve::new(Seconds::new(0.1), [(Seconds::ZERO, 50.0)]);
        let job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(duration));
        Arc::new(job.with_extras(Extras {
            traffic,
            ..Extras::default()
        }))
    };
    for (job, duration) in [(JobId(0), 600.0), (JobId(1), 1200.0)] {
        let spec = spec(duration);
        let submitted = Event::Submitted { job, spec };
        core.event(Time::ZERO, &submitted, &mut fifo).unwrap();
    }
    core.decide(Time::ZERO, &mut fifo).unwrap();
    for job in [JobId(0), JobId(1)] {
        let (attempt, rate) = (1, 0.5);
        let started = Event::Started { job, attempt, rate };
        core.event(Time::ZERO, &started, &mut fifo).unwrap();
    }
    let ahead = LookAhead::new(rounds).execution(Traffic::over(FixedRate));
    let ahead = forecaster(ahead).forecast(core.state(), &fifo, Horizon::UntilDrained);
    // Both need the link of the second node in full. After the first, the other half takes 600 s.
    let ends = ahead.ends.iter().map(|(job, at)| (job.0, at.secs()));
    assert_eq!(ends.collect::<Vec<_>>(), [(0, 1200.0), (1, 1800.0)]);
}
