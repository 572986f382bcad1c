//! Speed by GPU type and by the other jobs on the same GPUs.

use super::shared::left;
use super::{bound_beside, running_beside};
use blox_core::{Assignment, JobId, JobRef, Name, NameId, Phase, TypeSpeeds, View, sort};

/// Returns the rate of a job with [speeds by GPU type](blox_core::Extras::speeds), see
/// [`Profiled`](super::Profiled).
pub(super) fn rate(
    view: View<'_>,
    job: &JobRef<'_>,
    assignment: &Assignment,
    speeds: &TypeSpeeds,
) -> f64 {
    let cluster = view.cluster();
    let on = |gpu_type: &Name, others: &[JobRef<'_>]| -> f64 {
        let alone = || speeds.alone(gpu_type).unwrap_or(0.0);
        let beside = |other: &JobRef<'_>| {
            // The entry of the job that was submitted first gives the speeds of both.
            let of = |a: &JobRef<'_>, b: &JobRef<'_>| {
                let model = b.spec().extras().model.as_ref()?;
                a.spec().extras().speeds.as_ref()?.beside(gpu_type, model)
            };
            let first = job.id() < other.id();
            let both = if first {
                of(job, other)
            } else {
                of(other, job)
            };
            match both {
                Some(both) => both[usize::from(!first)],
                None => left(alone(), job, std::slice::from_ref(other)),
            }
        };
        match others {
            [] => alone(),
            [other] => beside(other),
            [first, rest @ ..] => {
                let kept = |other| beside(other) / alone().max(f64::MIN_POSITIVE);
                rest.iter()
                    .fold(beside(first), |rate, other| rate * kept(other))
            }
        }
    };
    let stays = |other: &JobRef<'_>| matches!(other.phase(), Phase::Starting | Phase::Running);
    let mut last = None;
    let mut slowest = f64::INFINITY;
    for gpu in &assignment.gpus {
        let node = cluster.node_with(*gpu);
        let kind = node.map(|n| n.gpu_type());
        let mut others: Vec<JobRef<'_>> = match job.phase() == Phase::Starting {
            // A launch without a speed is refused, even if the other job is launched, too.
            true => bound_beside(view, job.id(), *gpu).filter(stays).collect(),
            false => running_beside(view, job.id(), *gpu).collect(),
        };
        sort::by_key(&mut others, JobRef::id);
        let here = Some((kind, others.iter().map(JobRef::id).collect::<Vec<JobId>>()));
        if kind.is_some() && here == last {
            continue;
        }
        last = here;
        let name = kind.and_then(|k| cluster.gpu_types().get(NameId(k.0)));
        slowest = slowest.min(name.map_or(0.0, |name| on(name, &others)));
    }
    if slowest.is_finite() { slowest } else { 0.0 }
}
