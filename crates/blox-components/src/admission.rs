//! Registry entries of admission policies.

use crate::parameters::*;
use blox_policies::admission::{AcceptAll, Quota, QuotaBy};
use std::sync::Arc;

const GPUS: ParamDoc = param("gpus", "32", "most GPUs of each user or virtual cluster");
const BY: ParamDoc = param("by", "user", "owner of a quota: user, virtual-cluster");

pub(crate) fn add(r: &mut Registry) {
    r.admission
        .add("accept-all", "admits all jobs", &[], |_, _| {
            Ok(Arc::new(AcceptAll))
        });
    r.admission.add(
        "load",
        "admits jobs while the admitted jobs request at most threshold x GPUs (Accept-1.2x of Blox)",
        &[THRESHOLD],
        |p, _| Ok(Arc::new(at_load(p)?)),
    );
    r.admission.add(
        "quota",
        "admits jobs while their user or virtual cluster requests at most this many GPUs",
        &[GPUS, BY],
        |p, _| {
            let by = match p.choice(BY.name, &["user", "virtual-cluster"])? {
                "user" => QuotaBy::User,
                _ => QuotaBy::VirtualCluster,
            };
            Ok(Arc::new(Quota::new(by, gpus(p, GPUS.name)?)))
        },
    );
}
