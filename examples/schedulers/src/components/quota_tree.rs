//! Registry entry of quotas with borrowing and reclaim.

use crate::registry::params::param;
use blox_core::AnyScheduling;
use blox_core::estimate::Oracle;
use blox_core::registry::{ParamDoc, Params, Registry, RegistryError};
use blox_policies::scheduling::{Fifo, Las, Queue, QuotaTree, Sjf, Srtf};
use std::sync::Arc;

const QUEUES: ParamDoc = param(
    "queues",
    "none",
    "NAME:QUOTA[:MOST][@PARENT] for each virtual cluster, joined by /",
);
const ORDER: ParamDoc = param(
    "order",
    "fifo",
    "order within a level: fifo, sjf, srtf, las",
);

/// Parses queues `NAME:QUOTA[:MOST][@PARENT]`, joined by `/`.
fn queues(p: &Params) -> Result<Vec<Queue>, RegistryError> {
    let mut list: Vec<Queue> = Vec::new();
    let text = p.text(QUEUES.name);
    for part in text.split('/').filter(|_| text != QUEUES.default) {
        let queue = queue(part, &list).ok_or_else(|| {
            let expected = "NAME:QUOTA or NAME:QUOTA:MOST, with @PARENT behind it for a queue \
                            below one that comes before, joined by /";
            p.wrong(QUEUES.name, expected)
        })?;
        list.push(queue);
    }
    Ok(list)
}

fn queue(text: &str, before: &[Queue]) -> Option<Queue> {
    let place = |name: &str| before.iter().position(|q| q.name == name);
    let (own, parent) = match text.split_once('@') {
        Some((own, parent)) => (own, Some(place(parent.trim())?)),
        None => (text, None),
    };
    let mut words = own.split(':').map(str::trim);
    let (name, quota) = (words.next()?, words.next()?.parse().ok()?);
    let most = words.next().map(str::parse).transpose().ok()?;
    let new = !name.is_empty() && place(name).is_none() && words.next().is_none();
    new.then(|| Queue {
        name: name.to_owned(),
        quota,
        most: most.unwrap_or(u32::MAX),
        parent,
    })
}

pub(super) fn add(r: &mut Registry) {
    r.scheduling.add(
        "quota-tree",
        "a tree of queues with quotas; idle GPUs are lent, and reclaimed by preemption",
        &[QUEUES, ORDER],
        |p, _| {
            let inner: Arc<dyn AnyScheduling> =
                match p.choice(ORDER.name, &["fifo", "sjf", "srtf", "las"])? {
                    "sjf" => Arc::new(Sjf::with(Oracle)),
                    "srtf" => Arc::new(Srtf::with(Oracle)),
                    "las" => Arc::new(Las::default()),
                    _ => Arc::new(Fifo::default()),
                };
            Ok(Arc::new(QuotaTree::new(inner, queues(p)?)))
        },
    );
}
