//! Registry entries of cluster managers.

use crate::registry::params::{at_least, default, hours, only_with, param};
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_core::{NodeId, Seconds, Time};
use blox_policies::cluster::{Maintenance, Quarantine, StaticCluster, Window};
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

pub(super) fn add(r: &mut Registry) {
    r.cluster.add("static", "changes no nodes", &[], |_, _| {
        Ok(Arc::new(StaticCluster))
    });
    r.cluster.add(
        "quarantine",
        "no new jobs for a time on nodes that fail repeatedly",
        &[WINDOW, FIRST, MOST],
        |p, _| {
            Ok(Arc::new(Quarantine::new(
                hours(p, &WINDOW)?,
                Seconds::new(at_least(p, FIRST.name, default(&FIRST), 0.0)?),
                Seconds::new(at_least(p, MOST.name, default(&MOST), 0.0)?),
            )))
        },
    );
    r.cluster.add(
        "maintenance",
        "no new jobs on some nodes for a time; running jobs continue",
        &[NODES, FROM, UNTIL],
        |p, _| Ok(Arc::new(Maintenance::new(windows(p)?))),
    );
}

fn windows(p: &Params) -> Result<Vec<Window>, RegistryError> {
    let text = p.text(NODES.name, NODES.default);
    only_with(
        p,
        &[FROM.name, UNTIL.name],
        text != NODES.default,
        "nodes=NUMBERS",
    )?;
    let hours = |doc: &ParamDoc| p.f64(doc.name, default(doc));
    let (from_h, until_h) = (hours(&FROM)?, hours(&UNTIL)?);
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
    if text == NODES.default {
        return Ok(Vec::new());
    }
    let node = |number: &str| Some(NodeId(number.trim().parse().ok()?));
    let nodes: Option<Vec<NodeId>> = text.split('/').map(node).collect();
    let nodes = nodes.ok_or_else(|| p.wrong(NODES.name, "numbers with / between them, or none"))?;
    let window = |node| Window { node, from, until };
    Ok(nodes.into_iter().map(window).collect())
}
