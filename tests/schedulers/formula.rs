//! Formulas decide as the policies that they write down.
#![cfg(feature = "released")]

use crate::cases::composed;
use crate::skipping::{Case, case, simulation};
use blox::core::estimate::UserEstimate;
use blox::core::input::Input;
use blox::core::journal::Journal;
use blox::core::order::SortKey;
use blox::core::policy::by_key;
use blox::core::{Action, Pipeline, Seconds, Time};
use blox::policies::placement::{Blocked, Consolidated, InOrder};
use blox::policies::scheduling::{
    ByFormula, Fifo, FinishTimeFairness, Las, Qssf, Service, Sjf, Srsf, Srtf, TwoDas,
};
use blox::sim::Report;
use blox::sim::workload::Jobs;
use std::sync::{Arc, Mutex};

type Compose = fn(Blocked) -> Pipeline;

/// Composes an order with placement in order.
macro_rules! pipeline {
    ($order:expr) => {
        |blocked| {
            let placement = InOrder::new(Consolidated::default()).when_blocked(blocked);
            composed("order", $order, placement)
        }
    };
}

/// Formulas, whether they preempt, and the policies that they write down.
const PAIRS: &[(&str, bool, Compose)] = &[
    ("-priority, submit", false, pipeline!(Fifo::default())),
    ("true_duration", false, pipeline!(Sjf::default())),
    ("true_duration * gpus", false, pipeline!(Qssf::default())),
    ("true_left", true, pipeline!(Srtf::default())),
    ("true_left * gpus", true, pipeline!(Srsf::default())),
    ("attained", true, pipeline!(Las::default())),
    ("gpu_time", true, pipeline!(Las::by(Service::GpuTime))),
    (
        "-((age + true_left) / true_duration)",
        true,
        pipeline!(FinishTimeFairness::default()),
    ),
    ("estimate", false, pipeline!(Sjf::with(UserEstimate))),
    (
        "where(estimate < 1e15s, -((age + estimate_left) / estimate), 1e300)",
        true,
        pipeline!(FinishTimeFairness::with(UserEstimate)),
    ),
    (
        "where(attained < 20min, 0, 1), submit",
        true,
        pipeline!(
            by_key(|job| {
                let is_late = job.attained_time() >= Seconds::new(1200.0);
                SortKey::by(f64::from(u8::from(is_late))).then(job.submit().secs())
            })
            .preemptive()
        ),
    ),
    (
        "where(gpu_time < 10min * 1gpus, 0, where(gpu_time < 3h * 1gpus, 1, 2)), first_start, submit",
        true,
        pipeline!(TwoDas::las(&[600.0, 10_800.0].map(Seconds::new)).unwrap()),
    ),
];

/// A journal that keeps the actions of a run.
#[derive(Clone, Default)]
struct Acts(Arc<Mutex<Recorded>>);

/// The actions of each decision.
type Recorded = Vec<(Time, Vec<Action>)>;

impl Journal for Acts {
    fn record(&mut self, input: &Input) {
        if let Input::Decided { at, decision, .. } = input {
            let acts = (*at, decision.plan.actions.clone());
            self.0.lock().unwrap().push(acts);
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn run(case: &Case, scheduler: Pipeline, visit: bool) -> (Report, Vec<(Time, Vec<Action>)>) {
    let acts = Acts::default();
    let journal = Some(Box::new(acts.clone()) as Box<dyn Journal>);
    let simulation = simulation(case).visiting_every_round(visit);
    let run = simulation.run_journaled(scheduler, &mut Jobs::new(case.jobs.clone()), journal);
    let acts = std::mem::take(&mut *acts.0.lock().unwrap());
    (run.unwrap(), acts)
}

/// Asserts that two runs act alike at each decision.
fn same(a: &[(Time, Vec<Action>)], b: &[(Time, Vec<Action>)], what: &str) {
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a, b, "{what}");
    }
    assert_eq!(a.len(), b.len(), "{what}");
}

fn order(text: &str, preemptive: bool, blocked: Blocked) -> Pipeline {
    let order = ByFormula::new(text.parse().unwrap());
    let order = if preemptive {
        order.preemptive()
    } else {
        order
    };
    let placement = InOrder::new(Consolidated::default()).when_blocked(blocked);
    composed("order", order, placement)
}

#[test]
fn formulas_decide_as_policies_written_by_hand() {
    let (mut decisions, mut preemptions) = (0, [0; PAIRS.len()]);
    for seed in 0..200 {
        let mut case = case(seed);
        for (job, priority) in case.jobs.iter_mut().zip((0..).map(|i| i * 7 % 3)) {
            job.priority = priority;
            // Some jobs have no estimate, and the estimates of others are wrong.
            let factor = [None, Some(0.5), Some(2.0)][(priority + 1) as usize % 3];
            let estimate = factor.map(|factor| Seconds::new(job.duration().secs() * factor));
            job.extras.get_or_insert_default().user_estimate = estimate;
        }
        let blocked = [Blocked::Stop, Blocked::Skip][seed as usize / 2 % 2];
        let visit = seed % 2 == 0;
        for ((text, preemptive, by_hand), preemptions) in PAIRS.iter().zip(&mut preemptions) {
            let (ours, acts) = run(&case, order(text, *preemptive, blocked), visit);
            let (theirs, expected) = run(&case, by_hand(blocked), visit);
            let what = format!("{text}, seed {seed}");
            assert_eq!(ours.jobs, theirs.jobs, "{what}");
            if visit {
                same(&acts, &expected, &what);
                decisions += acts.len();
            }
            *preemptions += ours.counters.preemptions;
        }
    }
    assert!(decisions > 50_000, "{decisions} decisions");
    let enough = |(count, (_, preempts, _)): (&u64, &(&str, bool, Compose))| match preempts {
        true => *count > 200,
        false => *count == 0,
    };
    assert!(preemptions.iter().zip(PAIRS).all(enough), "{preemptions:?}");
}

/// A formula with a third key makes its order at each decision.
#[test]
fn kept_formulas_equal_formulas_that_are_listed() {
    let mut skipped = [0; 2];
    for seed in 0..100 {
        let case = case(seed);
        for (text, preemptive) in [
            ("submit, gpus", false),
            ("-age / true_duration, submit", true),
            ("where(age < 1h, 0, 1), submit", true),
            ("attained, submit", true),
            ("waiting, submit", false),
            ("where(attained < 20min, 0, 1), submit", true),
        ] {
            let listed = format!("{text}, 0");
            let [(a, kept), (b, every), (c, listed)] =
                [(text, false), (text, true), (listed.as_str(), false)]
                    .map(|(text, visit)| run(&case, order(text, preemptive, Blocked::Skip), visit));
            assert_eq!(a.jobs, b.jobs, "{text}, seed {seed}");
            assert_eq!(a.jobs, c.jobs, "{text}, seed {seed}");
            let what = format!("{text}, seed {seed}");
            let [few, all, also] = [&kept, &every, &listed].map(|acts| {
                let acts = acts.iter().filter(|(_, acts)| !acts.is_empty());
                acts.cloned().collect::<Vec<_>>()
            });
            same(&few, &all, &what);
            same(&few, &also, &what);
            skipped[0] += kept.len();
            skipped[1] += every.len();
        }
    }
    assert!(skipped[0] < skipped[1], "{skipped:?} decisions");
}
