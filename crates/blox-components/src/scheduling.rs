//! Registry entries of scheduling policies.

use crate::parameters::*;
use blox_core::estimate::{Estimator, Oracle};
use blox_core::{AnyScheduling, GpuCount, Gpus};
use blox_policies::formula::Formula;
use blox_policies::scheduling::{
    ByFormula, Drf, Fifo, FinishTimeFairness, Las, Queue, QuotaTree, Sjf, Srsf, Srtf,
    StarvationGuard, Tetris,
};
use blox_registry::RequiredData;
use std::sync::Arc;

type ByDuration = fn(Arc<dyn Estimator>) -> Arc<dyn AnyScheduling>;

/// Policies that need durations.
const BY_DURATION: [(&str, &str, ByDuration); 5] = [
    ("sjf", "in order of duration", |belief| {
        Arc::new(Sjf::with(belief))
    }),
    ("srtf", "in order of remaining time, preemptive", |belief| {
        Arc::new(Srtf::with(belief))
    }),
    (
        "srsf",
        "in order of remaining GPU time, preemptive",
        |belief| Arc::new(Srsf::with(belief)),
    ),
    (
        "ftf",
        "in order of finish-time fairness, the largest rho first, preemptive",
        |belief| Arc::new(FinishTimeFairness::with(belief)),
    ),
    (
        "tetris",
        "in order of remaining time on all resources, preemptive",
        |belief| Arc::new(Tetris::with(belief)),
    ),
];

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

const BY: ParamDoc = param(
    "by",
    "submit",
    "formula of the sort keys, such as where(attained < 8h, 0, 1), submit",
);
const PREEMPTIVE: ParamDoc = param(
    "preemptive",
    "false",
    "true: jobs stop running jobs that come after them",
);
const BELIEVED: ParamDoc = param(
    "estimator",
    "user",
    "source of estimate and estimate_left: oracle, user, noisy, brought (attribute estimate_s), learned",
);

fn by_formula(p: &Params, seed: u64) -> Result<ByFormula, RegistryError> {
    let formula = p.text(BY.name).parse::<Formula>();
    let formula = formula.map_err(|e| p.wrong(BY.name, format!("a formula; {e}")))?;
    only_with(
        p,
        &[BELIEVED.name],
        formula.is_estimated(),
        "estimate or estimate_left in the formula",
    )?;
    let policy = ByFormula::with(formula, belief(p, seed)?);
    Ok(match p.bool(PREEMPTIVE.name)? {
        true => policy.preemptive(),
        false => policy,
    })
}

/// Returns the data of jobs that a formula reads.
fn data_of_formula(p: &Params) -> Vec<RequiredData> {
    let formula = p.text(BY.name).parse::<Formula>();
    let columns = formula.map_or_else(|_| Vec::new(), |formula| formula.columns());
    let data = |column: &String| of_column(column, p.text(BELIEVED.name));
    columns.iter().filter_map(data).collect()
}

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
    let gpus = |text: &str| Gpus::try_from(text.parse::<f64>().ok()?).ok();
    let (name, quota) = (words.next()?, gpus(words.next()?)?);
    let most = match words.next() {
        Some(most) => gpus(most)?,
        None => GpuCount(u32::MAX).into(),
    };
    let new = !name.is_empty() && place(name).is_none() && words.next().is_none();
    new.then(|| Queue {
        name: name.to_owned(),
        quota,
        most,
        parent,
    })
}

pub(crate) fn add(r: &mut Registry) {
    let s = &mut r.scheduling;
    for (name, about, policy) in BY_DURATION {
        s.add(
            name,
            about,
            &[ESTIMATOR, SIGMA, MODEL, ORIGIN],
            move |p, seed| Ok(policy(belief(p, seed)?)),
        );
    }
    s.add("fifo", "in order of submission", &[], |_, _| {
        Ok(Arc::new(Fifo::default()))
    });
    s.add(
        "las",
        "in order of attained service, preemptive, with a starvation guard",
        &[GPU_TIME, GUARD],
        |p, _| {
            Ok(Arc::new(StarvationGuard::new(
                Las::by(service(p)?),
                p.hours(GUARD.name)?,
            )))
        },
    );
    s.add(
        "order",
        "in order of a formula over the columns of jobs",
        &[BY, PREEMPTIVE, BELIEVED, SIGMA, MODEL, ORIGIN],
        |p, seed| Ok(Arc::new(by_formula(p, seed)?)),
    )
    .with_named_job_data(data_of_formula);
    s.add(
        "drf",
        "in order of the dominant share of the requested resources, preemptive",
        &[],
        |_, _| Ok(Arc::new(Drf)),
    );
    s.add(
        "2das",
        "queues by attained GPU-seconds, preemptive: 2D-LAS or 2D-Gittins",
        &[THRESHOLDS, PROMOTE, HISTORY],
        |p, _| Ok(Arc::new(two_das(p, None)?)),
    );
    s.add(
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
