//! Registry entries of single policies.

use super::params::{
    ALLOCATION, BACKFILL, ESTIMATOR, GPU_TIME, GUARD, MODEL, NO_EASY, ORIGIN, SIGMA, SPLIT,
    allocation, at_least, belief, only_with, param, service, split, walk,
};
use blox_core::estimate::Oracle;
use blox_core::registry::{Params, Registry, RegistryError};
use blox_core::{AnyScheduling, NodeId, Seconds, Time};
use blox_policies::admission::{AcceptAll, LoadThreshold, Quota, QuotaBy};
use blox_policies::cluster::{Maintenance, Quarantine, StaticCluster, Window};
use blox_policies::placement::{Bandwidth, Buddy, Consolidated, FirstFree, Synergy};
use blox_policies::scheduling::{
    Drf, Fifo, FinishTimeFairness, Las, Sjf, Srsf, Srtf, StarvationGuard, Tetris,
};
use std::sync::Arc;

pub(super) fn add(r: &mut Registry) {
    admission(r);
    cluster(r);
    scheduling(r);
    placement(r);
}

fn admission(r: &mut Registry) {
    r.admission
        .add("accept-all", "everything may enter", &[], |_, _| {
            Ok(Arc::new(AcceptAll))
        });
    r.admission.add(
        "load",
        "while admitted jobs ask for at most threshold x GPUs (Blox: Accept-1.2x)",
        &[param("threshold", "1.2", "multiple of the cluster's GPUs")],
        |p, _| Ok(Arc::new(LoadThreshold::new(p.f64("threshold", 1.2)?)?)),
    );
    r.admission.add(
        "quota",
        "while a user or virtual cluster asks for at most so many GPUs",
        &[
            param("gpus", "32", "GPUs for each"),
            param("by", "user", "whose: user, virtual-cluster"),
        ],
        |p, _| {
            let by = match p.choice("by", "user", &["user", "virtual-cluster"])? {
                "user" => QuotaBy::User,
                _ => QuotaBy::VirtualCluster,
            };
            let gpus = p.whole("gpus", 32, 0..=u64::from(u32::MAX))? as u32;
            Ok(Arc::new(Quota::new(by, gpus)))
        },
    );
}

fn cluster(r: &mut Registry) {
    r.cluster
        .add("static", "nodes are as they are", &[], |_, _| {
            Ok(Arc::new(StaticCluster))
        });
    r.cluster.add(
        "quarantine",
        "nodes that are lost again and again take nothing new for a time",
        &[
            param(
                "window_h",
                "1",
                "losses within this many hours count together",
            ),
            param(
                "first_s",
                "60",
                "first quarantine in seconds, doubled each time",
            ),
            param("most_s", "1800", "longest quarantine in seconds"),
        ],
        |p, _| {
            Ok(Arc::new(Quarantine::new(
                p.hours("window_h", 1.0)?,
                Seconds::new(at_least(p, "first_s", 60.0, 0.0)?),
                Seconds::new(at_least(p, "most_s", 1800.0, 0.0)?),
            )))
        },
    );
    r.cluster.add(
        "maintenance",
        "some nodes take nothing new for a time; what runs on them goes on",
        &[
            param(
                "nodes",
                "none",
                "their numbers, from 0, with / between them",
            ),
            param("from_h", "0", "hours after the start at which it begins"),
            param("until_h", "24", "hours after the start at which it ends"),
        ],
        |p, _| Ok(Arc::new(Maintenance::new(windows(p)?))),
    );
}

fn windows(p: &Params) -> Result<Vec<Window>, RegistryError> {
    let text = p.text("nodes", "none");
    only_with(p, &["from_h", "until_h"], text != "none", "nodes=NUMBERS")?;
    let (from_h, until_h) = (p.f64("from_h", 0.0)?, p.f64("until_h", 24.0)?);
    let moment = |hours: f64| Time::try_new(hours * 3600.0).filter(|t| *t >= Time::ZERO);
    let from = moment(from_h).ok_or_else(|| p.wrong("from_h", "a number of hours, at least 0"))?;
    let until = moment(until_h).filter(|until| *until > from);
    let until = until.ok_or_else(|| match p.names().any(|name| name == "until_h") {
        true => p.wrong("until_h", "a number of hours above from_h"),
        false => p.wrong(
            "from_h",
            format!("a number of hours below until_h, {until_h}"),
        ),
    })?;
    if text == "none" {
        return Ok(Vec::new());
    }
    let node = |number: &str| Some(NodeId(number.trim().parse().ok()?));
    let nodes: Option<Vec<NodeId>> = text.split('/').map(node).collect();
    let nodes = nodes.ok_or_else(|| p.wrong("nodes", "numbers with / between them, or none"))?;
    let window = |node| Window { node, from, until };
    Ok(nodes.into_iter().map(window).collect())
}

fn scheduling(r: &mut Registry) {
    let s = &mut r.scheduling;
    s.add("fifo", "in order of submission", &[], |_, _| {
        Ok(Arc::new(Fifo::default()))
    });
    s.add(
        "sjf",
        "in order of duration",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| Ok(Arc::new(Sjf::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>),
    );
    s.add(
        "srtf",
        "in order of remaining time, preemptive",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| Ok(Arc::new(Srtf::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>),
    );
    s.add(
        "las",
        "in order of attained service, preemptive, with a starvation guard",
        &[GPU_TIME, GUARD],
        |p, _| {
            Ok(Arc::new(StarvationGuard::new(
                Las::by(service(p)?),
                p.hours("guard_h", 1000.0)?,
            )))
        },
    );
    s.add(
        "srsf",
        "in order of remaining GPU time, preemptive",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| Ok(Arc::new(Srsf::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>),
    );
    s.add(
        "ftf",
        "in order of finish-time fairness, the most slowed down first, preemptive",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| {
            Ok(Arc::new(FinishTimeFairness::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>)
        },
    );
    s.add(
        "drf",
        "in order of the dominant share of what jobs ask for, preemptive",
        &[],
        |_, _| Ok(Arc::new(Drf)),
    );
    s.add(
        "tetris",
        "in order of remaining time on all resources, preemptive",
        &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
        |p, seed| Ok(Arc::new(Tetris::with(belief(p, seed)?)) as Arc<dyn AnyScheduling>),
    );
}

fn placement(r: &mut Registry) {
    let s = &mut r.placement;
    s.add(
        "first-free",
        "the first free GPUs, however they are spread",
        &[NO_EASY],
        |p, _| walk(FirstFree, p, Oracle, false),
    );
    s.add(
        "consolidated",
        "exact fit, best fit, else as few nodes as possible",
        &[SPLIT, BACKFILL],
        |p, _| walk(Consolidated::new(split(p)?), p, Oracle, true),
    );
    s.add(
        "bandwidth",
        "the GPUs of a node that are linked best (Blox: Bebop), else as few nodes as possible",
        &[BACKFILL],
        |p, _| walk(Bandwidth::default(), p, Oracle, true),
    );
    s.add(
        "synergy",
        "GPUs, CPUs and memory together, each round from an empty cluster; consolidated",
        &[ALLOCATION, SPLIT],
        |p, _| {
            let rule = Synergy::new(Consolidated::new(split(p)?));
            Ok(Arc::new(rule.with(allocation(p)?)))
        },
    );
    s.add(
        "buddy",
        "powers of two on a node or whole nodes, with migration",
        &[],
        |_, _| Ok(Arc::new(Buddy)),
    );
}
