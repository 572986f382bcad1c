//! Components that external authors requested: GPU scores, job classes, fragmentation, quota trees.
#![cfg(feature = "testing")]

use crate::cases::{assigned, composed, ends, job, with};
use blox::core::policy::scheduling_fn;
use blox::core::{
    AnyPlacement, AnyScheduling, ClusterSpec, JobSpec, NodeSpec, OnEvent, Pipeline, Reason,
    Request, Seconds, State, Validity,
};
use blox::perf::gpu_scores;
use blox::policies::placement::{Consolidated, InOrder};
use blox::policies::scheduling::Fifo;
use blox::registry::ComponentSpec;
use blox::results::Summary;
use blox::sim::execution::{FixedRate, Variability};
use blox::sim::{Report, Simulation};
use blox::testing::conformance;
use std::sync::Arc;

fn placement(text: &str) -> Arc<dyn AnyPlacement> {
    let named: ComponentSpec = text.parse().unwrap();
    blox::registry().placement.build(&named, 1).unwrap()
}

fn scheduling(text: &str) -> Arc<dyn AnyScheduling> {
    let named: ComponentSpec = text.parse().unwrap();
    blox::registry().scheduling.build(&named, 1).unwrap()
}

fn fifo_on(text: &str) -> Pipeline {
    composed("fifo", Fifo::default(), placement(text))
}

pub fn quota(text: &str) -> Pipeline {
    let placement = InOrder::new(Consolidated::default());
    composed("quota-tree", scheduling(text), placement)
}

/// A cluster of nodes with these scores for class A.
fn scored(nodes: &[&str]) -> ClusterSpec {
    let node = |scores: &&str| {
        let mut node = NodeSpec::with_gpus(scores.split(' ').count() as u32);
        node.labels.insert("pm_score.A".into(), (**scores).into());
        node
    };
    ClusterSpec {
        nodes: nodes.iter().map(node).collect(),
        ..ClusterSpec::default()
    }
}

fn of_class(class: &str, job: JobSpec) -> JobSpec {
    with(job, |e| {
        e.attributes.insert("app_class".into(), class.into());
    })
}

fn of_queue(queue: &str, mut job: JobSpec) -> JobSpec {
    job.virtual_cluster = Some(queue.into());
    job
}

/// The report, and the first GPUs of each job.
fn run(cluster: ClusterSpec, scheduler: Pipeline, jobs: Vec<JobSpec>) -> (Report, Vec<Vec<u32>>) {
    let varied = Simulation::new(cluster).execution(Variability::over(FixedRate, 1.7));
    let scheduler = scheduler.with_trigger(OnEvent::with_gap(Seconds::ZERO));
    let (report, mut rows) = assigned(&varied.keep_waits(true), scheduler, &jobs);
    rows.sort_by_key(|row| (row.job, row.launch));
    let mut gpus = vec![Vec::new(); jobs.len()];
    for row in rows.iter().rev() {
        let ranges = row.ranges().into_iter();
        gpus[row.job.0 as usize] = ranges.flat_map(|(a, b)| a..=b).collect();
    }
    (report, gpus)
}

#[test]
fn pal_takes_the_node_and_pm_first_the_scores() {
    let cluster = scored(&["0.8 1.25", "1 2"]);
    let jobs = || vec![of_class("A", job(0.0, 2, 1000.0))];
    let (report, gpus) = run(cluster.clone(), fifo_on("pm-first"), jobs());
    // The nodes have scores 0.8 and 1.0. The slower one counts, times the penalty of 1.7.
    assert_eq!((ends(&report), &gpus[0]), (vec![1700.0], &vec![0, 2]));
    let (report, gpus) = run(cluster.clone(), fifo_on("pal"), jobs());
    assert_eq!((ends(&report), &gpus[0]), (vec![1250.0], &vec![0, 1]));
    // A job of another class has no scores, so any node is suitable.
    let other = vec![of_class("B", job(0.0, 2, 1000.0))];
    assert_eq!(ends(&run(cluster, fifo_on("pal"), other).0), [1000.0]);
}

#[test]
fn a_job_that_is_not_sticky_moves_to_better_gpus() {
    let cluster = scored(&["0.5", "2"]);
    let jobs = || vec![of_class("A", job(0.0, 1, 1000.0)); 2];
    let sticky = run(cluster.clone(), fifo_on("pm-first"), jobs()).0;
    assert_eq!(ends(&sticky), [500.0, 2000.0]);
    // At 500 s the second has done 250 of 1000; the rest takes 375 s on the fast GPU.
    let moving = run(cluster, fifo_on("pm-first{sticky=false}"), jobs()).0;
    assert_eq!(ends(&moving), [500.0, 875.0]);
}

#[test]
fn fgd_keeps_room_for_large_jobs() {
    // Two jobs leave one GPU free on node 0 and two on node 1; a third needs one GPU.
    let cluster: ClusterSpec = "3x4".parse().unwrap();
    let jobs = [(0.0, 3), (0.0, 2), (10.0, 1)].map(|(at, gpus)| job(at, gpus, 9000.0));
    let fgd = "fgd{mix=2:50/4:50}";
    let (_, gpus) = run(cluster.clone(), fifo_on(fgd), jobs.to_vec());
    // No job of the mix could use one free GPU; half of them could use two.
    assert_eq!(gpus[0].len(), 3);
    assert_eq!(gpus[2], [3]);
    let (_, gpus) = run(cluster, fifo_on("fgd{mix=1:100}"), vec![job(0.0, 8, 60.0)]);
    assert_eq!(gpus[0].len(), 8);
}

#[test]
fn a_class_is_kept_together_and_others_are_not() {
    let cluster: ClusterSpec = "2x4".parse().unwrap();
    let jobs = |class| vec![job(0.0, 3, 9000.0), of_class(class, job(0.0, 4, 60.0))];
    let by_class = || fifo_on("by-class{classes=comm/bert}");
    let second = |class| run(cluster.clone(), by_class(), jobs(class)).1[1].clone();
    assert_eq!(second("bert"), [4, 5, 6, 7]);
    assert_eq!(second("small"), [3, 4, 5, 6]);
}

#[test]
fn a_queue_borrows_and_gives_back() {
    let cluster: ClusterSpec = "1x8".parse().unwrap();
    let tree = || quota("quota-tree{queues=a:4/b:4}");
    let jobs = vec![
        of_queue("a", job(0.0, 4, 1000.0)),
        of_queue("a", job(0.0, 4, 1000.0)),
        of_queue("b", job(100.0, 4, 1000.0)),
    ];
    // The second job borrows from b for 100 s, and continues when the first has ended.
    let (report, _) = run(cluster, tree(), jobs);
    assert_eq!(ends(&report), [1000.0, 1900.0, 1100.0]);
    assert_eq!(Summary::of(&report).preemptions, 1);
}

#[test]
fn sisters_lend_before_strangers() {
    // x and y share the 6 GPUs of r; z has 2. x takes all GPUs, then y and z reclaim theirs.
    let tree = quota("quota-tree{queues=r:6/x:2@r/y:4@r/z:2}");
    let jobs = vec![
        of_queue("x", job(0.0, 2, 1000.0)),
        of_queue("x", job(0.0, 4, 1000.0)),
        of_queue("x", job(0.0, 2, 1000.0)),
        of_queue("z", job(100.0, 2, 1000.0)),
    ];
    let (report, _) = run("1x8".parse().unwrap(), tree, jobs);
    // The third job of x borrows from outside r, so z stops this job.
    let stopped: Vec<u32> = report.jobs.iter().map(|j| j.preemptions).collect();
    assert_eq!(stopped, [0, 0, 1, 0]);
}

#[test]
fn quota_limit_holds_with_its_reason() {
    let tree = quota("quota-tree{queues=a:4:4/b:2}");
    let jobs = vec![
        of_queue("a", job(0.0, 4, 1000.0)),
        of_queue("a", job(0.0, 1, 1000.0)),
    ];
    let (report, _) = run("1x8".parse().unwrap(), tree, jobs);
    assert_eq!(ends(&report), [1000.0, 2000.0]);
    let why: Vec<&str> = report.waits.iter().map(|w| w.reason.as_str()).collect();
    assert_eq!(why, ["queue a is at its limit of 4 GPUs"]);
}

#[test]
fn a_wrong_tree_is_one_sentence() {
    for text in ["a", "a:x", "a:1/a:2", "a:1@b", "a:1:2:3"] {
        let named: ComponentSpec = format!("quota-tree{{queues={text}}}").parse().unwrap();
        let built = blox::registry().scheduling.build(&named, 1);
        let error = built.err().map(|e| e.to_string()).unwrap_or_default();
        let found = format!("parameter `queues` is `{text}`");
        assert!(error.contains(&found), "{error}");
    }
}

#[test]
fn the_parts_conform() {
    let check = |name: &'static str, build: fn(&str) -> Pipeline| {
        let suite = conformance(move |seed| build(name).with_seed(seed));
        let checked = suite.cases(40).check();
        checked.unwrap_or_else(|e| panic!("{name}: {e}"));
    };
    for name in [
        "pal",
        "pm-first",
        "pal{sticky=false}",
        "fgd",
        "by-class{classes=A}",
    ] {
        check(name, fifo_on);
    }
    for name in ["quota-tree{queues=a:4:8/b:2}", "quota-tree{order=las}"] {
        check(name, quota);
    }
}

#[test]
fn scores_come_from_a_cluster_file() {
    let text = "[[node]]\ncount = 2\ngpus = 2\nlabels = { \"pm_score.A\" = \"1.5 0.75\" }\n";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    std::fs::write(&path, text).unwrap();
    let cluster = blox::traces::cluster_file::read_cluster(&path.display().to_string()).unwrap();
    let state = State::new(&cluster).unwrap();
    assert_eq!(
        gpu_scores(&state.cluster().nodes()[1], "A")[..],
        [1.5, 0.75]
    );
}

#[test]
fn the_first_of_several_reasons_is_counted() {
    // Requests all jobs, and gives a reason for each that waits.
    let explains = scheduling_fn(|view, out| {
        for job in view.active() {
            out.push(Request::gang(&job));
            out.explain(job.id(), Reason::other("own reason"));
        }
        Validity::UntilEvent
    });
    // Placement also gives a reason for the job that does not fit.
    let scheduler = composed("explains", explains, InOrder::new(Consolidated::default()));
    let one = Simulation::new(ClusterSpec::uniform(1, 1)).keep_waits(true);
    let scheduler = scheduler.with_trigger(OnEvent::default());
    let report = crate::cases::run(&one, scheduler, &vec![job(0.0, 1, 600.0); 2]);
    let waits = report.waits.iter().map(|w| (w.reason.as_str(), w.total));
    assert_eq!(
        waits.collect::<Vec<_>>(),
        [("own reason", Seconds::new(600.0))]
    );
}
