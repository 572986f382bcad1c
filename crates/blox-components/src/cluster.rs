//! Registry entries of cluster managers.

use crate::parameters::*;
use blox_core::{Curve, NodeId, Seconds, Time};
use blox_policies::cluster::{Loans, Maintenance, Quarantine, StaticCluster, Window};
use std::sync::Arc;

const WINDOW: ParamDoc = param(
    "window_h",
    "1",
    "failures within this many hours are counted",
);
const FIRST: ParamDoc = param(
    "first_s",
    "60",
    "first quarantine in seconds, doubled each time",
);
const MOST: ParamDoc = param("most_s", "1800", "longest quarantine in seconds");
const NODES: ParamDoc = param("nodes", "none", "numbers of the nodes from 0, joined by /");
const FROM: ParamDoc = param("from_h", "0", "start of the maintenance in hours");
const UNTIL: ParamDoc = param("until_h", "24", "end of the maintenance in hours");

const NEEDS: ParamDoc = param(
    "needs",
    "0:0",
    "nodes that the owner needs from an hour of the day on: HOUR:NODES, with / between them",
);
const DAY: ParamDoc = param("day_h", "24", "hours after which the needs repeat");
const GRACE: ParamDoc = param(
    "grace_s",
    "300",
    "seconds after which jobs on a node that the owner needs are preempted",
);

pub(crate) fn add(r: &mut Registry) {
    r.cluster.add("static", "changes no nodes", &[], |_, _| {
        Ok(Arc::new(StaticCluster))
    });
    r.cluster.add(
        "quarantine",
        "no new jobs for a time on nodes that fail repeatedly",
        &[WINDOW, FIRST, MOST],
        |p, _| {
            Ok(Arc::new(Quarantine::new(
                p.hours(WINDOW.name)?,
                Seconds::new(at_least(p, FIRST.name, 0.0)?),
                Seconds::new(at_least(p, MOST.name, 0.0)?),
            )))
        },
    );
    r.cluster.add(
        "maintenance",
        "no new jobs on some nodes for a time; running jobs continue",
        &[NODES, FROM, UNTIL],
        |p, _| Ok(Arc::new(Maintenance::new(windows(p)?))),
    );
    r.cluster.add(
        "loans",
        "nodes of another owner run jobs while that owner does not need them (Lyra, EuroSys 2023)",
        &[NODES, NEEDS, DAY, GRACE],
        |p, _| Ok(Arc::new(loans(p)?)),
    );
}

fn windows(p: &Params) -> Result<Vec<Window>, RegistryError> {
    let text = p.text(NODES.name);
    only_with(
        p,
        &[FROM.name, UNTIL.name],
        text != NODES.default,
        "nodes=NUMBERS",
    )?;
    let (from_h, until_h) = (p.f64(FROM.name)?, p.f64(UNTIL.name)?);
    let moment = |hours: f64| Time::try_new(hours * 3600.0).filter(|t| *t >= Time::ZERO);
    let from = moment(from_h).ok_or_else(|| p.wrong(FROM.name, "a number of hours, at least 0"))?;
    let until = moment(until_h).filter(|until| *until > from);
    let until = until.ok_or_else(|| match p.has(UNTIL.name) {
        true => p.wrong(UNTIL.name, "a number of hours above from_h"),
        false => p.wrong(
            FROM.name,
            format!("a number of hours below until_h, {until_h}"),
        ),
    })?;
    let window = |node| Window { node, from, until };
    Ok(nodes(p)?.into_iter().map(window).collect())
}

/// Returns the nodes of `nodes=NUMBERS`.
fn nodes(p: &Params) -> Result<Vec<NodeId>, RegistryError> {
    let text = p.text(NODES.name);
    if text == NODES.default {
        return Ok(Vec::new());
    }
    let node = |number: &str| Some(NodeId(number.trim().parse().ok()?));
    let nodes: Option<Vec<NodeId>> = text.split('/').map(node).collect();
    nodes.ok_or_else(|| p.wrong(NODES.name, "numbers with / between them, or none"))
}

fn loans(p: &Params) -> Result<Loans, RegistryError> {
    let nodes = nodes(p)?;
    let others = [NEEDS.name, DAY.name, GRACE.name];
    only_with(p, &others, !nodes.is_empty(), "nodes=NUMBERS")?;
    let day = p.hours(DAY.name)?;
    let grace = Seconds::new(at_least(p, GRACE.name, 0.0)?);
    let need = |pair: &str| {
        let (hour, nodes) = pair.split_once(':')?;
        let hour: f64 = hour.trim().parse().ok().filter(|h: &f64| h.is_finite())?;
        let nodes: u32 = nodes.trim().parse().ok()?;
        Some((Seconds::from_hours(hour), f64::from(nodes)))
    };
    let text = p.text(NEEDS.name);
    let needs: Option<Vec<_>> = text.split('/').map(need).collect();
    let needs = needs.and_then(|needs| Curve::new(day, needs));
    let expected = "HOUR:NODES pairs, ascending from hour 0 and below day_h";
    let needs = needs.ok_or_else(|| p.wrong(NEEDS.name, expected))?;
    Ok(Loans::new(nodes, needs, grace))
}
