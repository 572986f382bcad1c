//! Capacity loaning: nodes that their owner lends for a part of the day.
#![cfg(feature = "testing")]

use crate::cases::{self, composed, ends, job};
use blox::core::{AfterDrain, AnyClusterManager};
use blox::policies::scheduling::Las;
use blox::prelude::*;
use blox::registry::ComponentSpec;
use blox::sim::completion::Exact;
use blox::testing::conformance;
use std::sync::Arc;

fn manager(text: &str) -> Result<Arc<dyn AnyClusterManager>, String> {
    let named: ComponentSpec = text.parse().map_err(|e| format!("{e}"))?;
    let built = blox::registry().cluster.build(&named, 1);
    built.map_err(|error| error.to_string())
}

fn fifo(text: &str) -> Pipeline {
    managed("loans", manager(text).unwrap())
}

/// First in, first out with a decision at each event.
fn managed(name: &str, manager: impl ClusterManager) -> Pipeline {
    let placement = InOrder::new(Consolidated::default());
    let fifo =
        composed(name, Fifo::default(), placement).with_trigger(blox::core::OnEvent::default());
    fifo.with_cluster(manager).unwrap()
}

/// Returns the ends in hours, and the number of preemptions, of jobs of these GPUs and hours.
fn run(text: &str, cluster: &str, jobs: &[(u32, f64)]) -> (Vec<f64>, u32) {
    let jobs = jobs.iter().map(|(gpus, h)| job(0.0, *gpus, h * 3600.0));
    let exact = Simulation::new(cluster.parse().unwrap()).completion(Exact);
    let report = cases::run(&exact, fifo(text), &jobs.collect::<Vec<_>>());
    let ends = ends(&report).iter().map(|at| at / 3600.0).collect();
    (ends, report.jobs.iter().map(|job| job.preemptions).sum())
}

#[test]
fn lent_nodes_run_jobs_until_the_grace_period_ends() {
    // The owner needs node 1 from hour 2 on, for the rest of the day. The job there has ten minutes
    // more, waits, and starts again at midnight from where it was.
    let loans = "loans{nodes=1,needs=0:0/2:1,grace_s=600}";
    let (ends, preemptions) = run(loans, "2x1", &[(1, 30.0), (1, 3.0)]);
    let rest = 3.0 - 2.0 - 1.0 / 6.0;
    assert!((ends[1] - (24.0 + rest)).abs() < 1e-9, "{ends:?}");
    assert_eq!((ends[0], preemptions), (30.0, 1));
}

#[test]
fn job_ended_in_the_grace_period_is_not_preempted() {
    let loans = "loans{nodes=1,needs=0:0/2:1,grace_s=600}";
    let (ends, preemptions) = run(loans, "2x1", &[(1, 30.0), (1, 2.1)]);
    assert!((ends[1] - 2.1).abs() < 1e-9, "{ends:?}");
    assert_eq!(preemptions, 0);
}

#[test]
fn nodes_of_the_fewest_jobs_are_reclaimed_first() {
    // Job 0 runs on nodes 0 and 1, jobs 1 and 2 on node 2, job 3 on node 3. Half of job 0 is on
    // each of its nodes, so these two nodes cost one job, node 3 one, and node 2 two.
    let jobs = [(4, 9.0), (1, 9.0), (1, 9.0), (2, 9.0)];
    let two = "loans{nodes=0/1/2/3,needs=0:0/2:2,day_h=99}";
    let (ends, preemptions) = run(two, "4x2", &jobs);
    assert_eq!(preemptions, 1, "{ends:?}");
    assert!(
        ends[1..].iter().all(|end| (end - 9.0).abs() < 1e-9),
        "{ends:?}"
    );
    let three = "loans{nodes=0/1/2/3,needs=0:0/2:3/12:0,day_h=99}";
    assert_eq!(run(three, "4x2", &jobs).1, 2);
}

#[test]
fn loans_conform_to_the_rules_of_backends() {
    let loans = "loans{nodes=0/1,needs=0:1/0.5:0/1:2,day_h=2,grace_s=60}";
    conformance(|seed| {
        let las = composed(
            "loans",
            Las::default(),
            InOrder::new(Consolidated::default()),
        );
        las.with_cluster(manager(loans).unwrap())
            .unwrap()
            .with_seed(seed)
    })
    .cases(60)
    .check()
    .unwrap();
}

#[test]
fn wrong_parameters_are_one_sentence() {
    let pairs = "expected HOUR:NODES pairs, ascending from hour 0";
    for (text, sentence) in [
        (
            "loans{nodes=a}",
            "expected numbers with / between them, or none",
        ),
        ("loans{nodes=1,needs=3:1}", pairs),
        ("loans{nodes=1,needs=0:1/30:0}", pairs),
        ("loans{needs=0:1}", "nodes=NUMBERS with it"),
    ] {
        let error = manager(text).err().unwrap_or_default();
        assert!(error.contains(sentence), "{text}: {error}");
    }
}

/// Drains node 0 after 50 s. Its jobs have 50 s more.
struct Retire;

impl Policy for Retire {
    type Memory = bool;

    fn initial(&self, _: u64) -> bool {
        false
    }
}

impl ClusterManager for Retire {
    fn manage(&self, done: &mut bool, view: View<'_>, out: &mut NodeActions) -> Validity {
        if view.now() < Time::new(50.0) {
            return Validity::Until(Time::new(50.0));
        }
        if !std::mem::replace(done, true) {
            out.push(NodeAction::Drain {
                node: NodeId(0),
                by: Time::new(100.0),
                then: AfterDrain::Off,
                why: "upgrade".into(),
            });
        }
        Validity::UntilEvent
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::of(&[NodeActionKind::PowerOff])
    }
}

/// Times at which nodes were powered off.
#[derive(Clone, Default)]
struct Offs(Vec<f64>);

impl MetricCollector for Offs {
    fn on_event(&mut self, view: View<'_>, event: &Event) {
        let Event::NodeManaged { action } = event else {
            return;
        };
        if matches!(action, NodeAction::Power { on: false, .. }) {
            self.0.push(view.now().secs());
        }
    }
}

#[test]
fn drained_node_is_off_at_once_on_event_decisions() {
    let exact = Simulation::new("2x1".parse().unwrap()).completion(Exact);
    let observed = exact.collector(Offs::default());
    let jobs = vec![job(0.0, 1, 1000.0); 2];
    let report = cases::run(&observed, managed("retire", Retire), &jobs);
    let offs = report.collected.get::<Offs>().map(|offs| offs.0.clone());
    assert_eq!(offs, Some(vec![100.0]));
    assert_eq!(report.jobs[0].preemptions + report.jobs[1].preemptions, 1);
    assert_eq!(report.end, Time::new(1900.0));
}
