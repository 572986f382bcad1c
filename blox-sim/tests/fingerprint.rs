//! Fingerprints of runs, and their replays.

use crate::fifo;
use blox_core::journal::{Journal, JsonLines};
use blox_core::policy::scheduling_fn;
use blox_core::replay::{replay, watch};
use blox_core::runtime::Observers;
use blox_core::{
    Assignment, ClusterSpec, Composition, Event, GpuCount, JobQueue, JobRef, JobSpec,
    MetricCollector, Plan, Request, Seconds, State, Stateless, Time, Validity, View,
};
use blox_results::Summary;
use blox_sim::Simulation;
use blox_sim::execution::ExecutionModel;
use blox_sim::overheads::FixedOverheads;
use blox_sim::results::Fingerprint;
use blox_sim::workload::Jobs;
use blox_testing::FirstFit;
use std::sync::{Arc, Mutex};

fn fingerprint(gpus: [u32; 3]) -> String {
    let jobs = gpus.map(|n| JobSpec::new(Time::ZERO, GpuCount(n), Seconds::new(400.0)));
    Simulation::new(ClusterSpec::uniform(1, 2))
        .collector(Fingerprint::default())
        .run(fifo(), &mut Jobs::new(jobs.to_vec()))
        .unwrap()
        .collected
        .get::<Fingerprint>()
        .unwrap()
        .value()
}

#[test]
fn fingerprint_repeats_and_differs_between_runs() {
    assert_eq!(fingerprint([1, 2, 1]), fingerprint([1, 2, 1]));
    assert_ne!(fingerprint([1, 2, 1]), fingerprint([2, 1, 1]));
}

/// A list of all calls.
#[derive(Clone, Default)]
struct Calls(Vec<String>);

impl MetricCollector for Calls {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        self.0.push(format!("{} {event:?}", view.now()));
    }

    fn on_decision(&mut self, view: View<'_>, plan: &Plan) {
        self.0.push(format!("{} {:?}", view.waiting_count(), plan));
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        self.0.push(format!("{} {:?}", view.free_gpus(), plan));
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn collectors_get_equal_events_with_or_from_a_journal() {
    let srtf = || {
        let srtf = |view: View<'_>, out: &mut JobQueue| {
            let mut jobs: Vec<_> = view.active().collect();
            jobs.sort_by(|a, b| a.truth().work_left().total_cmp(&b.truth().work_left()));
            for job in jobs.iter().take(2) {
                out.push(Request::gang(job));
            }
            out.stop_unlisted();
            Validity::NextRound
        };
        Composition::new("srtf")
            .scheduling(scheduling_fn(srtf))
            .placement(FirstFit)
            .build()
            .unwrap()
    };
    let lengths = [9e3, 8e3, 2e3, 400.0, 5e3];
    let jobs = || {
        let at = |i: usize| Time::new(700.0 * i as f64);
        let spec = |(i, l): (usize, &f64)| JobSpec::new(at(i), GpuCount(1), Seconds::new(*l));
        Jobs::new(lengths.iter().enumerate().map(spec).collect())
    };
    let cluster = ClusterSpec::uniform(1, 2);
    for (own, launch) in [(true, 0.0), (false, 0.0), (true, 20.0)] {
        let mut simulation = Simulation::new(cluster.clone())
            .overheads(FixedOverheads {
                launch: Seconds::new(launch),
                ..FixedOverheads::default()
            })
            .collector(Calls::default());
        if !own {
            simulation = simulation.execution(Slower);
        }
        let calls = |report: &blox_sim::Report| report.collected.get::<Calls>().unwrap().0.clone();
        let plain = calls(&simulation.run(srtf(), &mut jobs()).unwrap());
        let text = Shared::default();
        let journal = Some(Box::new(JsonLines::new(text.clone())) as Box<dyn Journal>);
        let run = simulation
            .run_journaled(srtf(), &mut jobs(), journal)
            .unwrap();
        assert!(
            Summary::of(&run).preemptions > 0 && plain.len() > 15,
            "{}",
            plain.len()
        );
        assert_eq!(calls(&run), plain, "{own} {launch}");
        let text = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
        let before = as_before(&text);
        assert_eq!(text.contains("stops"), !own);
        for text in [text, before] {
            let mut observers = Observers::default();
            observers.add(Box::new(Calls::default()));
            let (state, trigger) = (State::default(), srtf().trigger());
            watch(text.as_bytes(), state, trigger, &mut observers).unwrap();
            let calls: &dyn std::any::Any = &*observers.collectors()[0];
            let calls = &calls.downcast_ref::<Calls>().unwrap().0;
            assert_eq!(calls, &plain, "{own} {launch}");
            let mut nobody = Observers::default();
            let (state, trigger) = (State::default(), srtf().trigger());
            let equal = replay(
                text.as_bytes(),
                state,
                trigger,
                Box::new(srtf()),
                &mut nobody,
            );
            assert_eq!(equal.unwrap(), run.counters.decisions);
        }
    }
}

/// Every job runs at half its speed.
struct Slower;

impl Stateless for Slower {}

impl ExecutionModel for Slower {
    fn rate(&self, (): &mut (), _: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
        job.own_rate() / 2.0
    }
}

/// Returns a journal as earlier versions wrote it: the rates of all launches that take no time are in
/// one line.
fn as_before(journal: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut rates: Option<Vec<String>> = None;
    for line in journal.lines() {
        let read: serde_json::Value = serde_json::from_str(line).unwrap();
        let started = &read["event"]["event"]["started"];
        if let (Some(rates), Some(job)) = (&mut rates, started["job"].as_u64()) {
            rates.push(format!("[{job},{}]", started["rate"]));
            continue;
        }
        let launched =
            |rates: Vec<String>| format!(r#"{{"launched":{{"rates":[{}]}}}}"#, rates.join(","));
        lines.extend(rates.take().filter(|rates| !rates.is_empty()).map(launched));
        if line.contains(r#""instant":"stops""#) {
            rates = Some(Vec::new());
        }
        lines.push(line.replace(r#""instant":"stops""#, r#""instant":true"#));
    }
    lines.join("\n")
}
