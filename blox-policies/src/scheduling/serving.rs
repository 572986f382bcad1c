//! Services by their need, beside training jobs that leave after a notice.

use blox_core::{
    Answer, GpuCount, GpuId, JobId, JobQueue, JobRef, Phase, Request, SchedulingPolicy, Seconds,
    Shape, Stateless, Time, Validity, View,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Gives services the copies that they need, and training jobs the other GPUs.
///
/// If services need more GPUs than are left, training jobs get a notice: spot jobs first, then the
/// jobs submitted last. A job leaves after the notice, and a spot job not before the end of its
/// guaranteed time. Until then the services lack GPUs, the last submitted ones first. Training jobs
/// start in order of submission while no service lacks GPUs; a job that does not fit is passed.
///
/// The copies of a service lie on different GPUs. Jobs with parts of GPUs share them.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    notice: Seconds,
}

impl Serving {
    /// Creates the policy with the time from a notice until the stop.
    pub fn new(notice: Seconds) -> Self {
        Serving { notice }
    }
}

impl Stateless for Serving {}

/// A service: its GPUs of a copy, the GPUs that it needs, and its part of each.
#[derive(Clone, Copy)]
struct Need {
    gang: u32,
    gpus: u32,
    share: f64,
}

impl Need {
    fn of(job: &JobRef<'_>) -> Self {
        let share = job.share();
        Need {
            gang: job.gpus().get(),
            gpus: (job.need().unwrap_or_default() / share).get(),
            share: share.fraction(),
        }
    }
}

/// Gives services GPUs with these rooms, those with the least first. Returns the GPUs of each. The
/// rooms then have what is left.
fn pack(needs: &[Need], rooms: &mut [f64]) -> Vec<u32> {
    rooms.sort_by(f64::total_cmp);
    let given = needs.iter().map(|need| {
        let gpus = need.gpus.min(most(rooms, need.share));
        let gpus = gpus - gpus % need.gang.max(1);
        take(rooms, gpus, need.share);
        gpus
    });
    given.collect()
}

fn fits(room: f64, share: f64) -> bool {
    room + 1e-9 >= share
}

/// Returns the number of GPUs that have room for a part.
fn most(rooms: &[f64], share: f64) -> u32 {
    rooms.iter().filter(|room| fits(**room, share)).count() as u32
}

/// Takes a part of the first GPUs that have room for it.
fn take(rooms: &mut [f64], gpus: u32, share: f64) {
    let chosen = rooms.iter_mut().filter(|room| fits(**room, share));
    chosen.take(gpus as usize).for_each(|room| *room -= share);
}

/// Returns the rooms of the free GPUs, of GPUs that jobs have in part, and of the GPUs of leaving
/// jobs, after all that leave by a time.
fn rooms(view: View<'_>, leaves: &BTreeMap<JobId, Time>, by: Time) -> Vec<f64> {
    let its = |job: JobId| view.job(job).and_then(|job| job.assignment());
    let stays = |job: &JobId| leaves.get(job).is_none_or(|at| *at > by);
    let parts = view.placed().map(|job| job.id());
    let parts = parts.filter(|job| its(*job).is_some_and(|its| !its.share.is_whole()));
    let theirs = leaves.keys().copied().chain(parts).filter_map(its);
    let gpus: BTreeSet<GpuId> = theirs.flat_map(|its| its.gpus.iter().copied()).collect();
    let used = |gpu: &GpuId| {
        let staying = view.cluster().allocated_to(*gpu).filter(stays);
        staying
            .filter_map(its)
            .map(|its| its.share.fraction())
            .sum::<f64>()
    };
    let mut rooms: Vec<f64> = gpus.iter().map(|gpu| 1.0 - used(gpu)).collect();
    rooms.resize(rooms.len() + view.free_gpus().get() as usize, 1.0);
    rooms
}

impl SchedulingPolicy for Serving {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        let (now, mut validity) = (view.now(), Validity::UntilEvent);
        let (services, training): (Vec<_>, Vec<_>) =
            view.active().partition(|job| job.need().is_some());
        let (mut placed, waiting): (Vec<_>, Vec<_>) =
            training.into_iter().partition(JobRef::is_placed);
        let needs: Vec<Need> = services.iter().map(Need::of).collect();
        let notices = placed
            .iter()
            .filter_map(|job| Some((job.id(), job.leaves_at()?)));
        let mut leaves: BTreeMap<JobId, Time> = notices.collect();
        leaves.extend(services.iter().map(|job| (job.id(), now)));
        let lack = |leaves: &BTreeMap<JobId, Time>| {
            let given = pack(&needs, &mut rooms(view, leaves, Time::new(f64::MAX)));
            let copies = |need: &Need| need.gpus - need.gpus % need.gang.max(1);
            needs.iter().map(copies).gt(given)
        };
        // Spot jobs leave first, then the jobs submitted last.
        placed.sort_by_key(|job| (!job.class().is_spot(), Reverse(job.id())));
        let mut lacks = lack(&leaves);
        for job in placed.iter().filter(|job| job.leaves_at().is_none()) {
            if !lacks {
                break;
            }
            if job.phase() == Phase::Running {
                let by = (now + self.notice).max(job.protected_until().unwrap_or(now));
                out.notify(job.id(), by);
                leaves.insert(job.id(), by);
                lacks = lack(&leaves);
            } else {
                // The guaranteed time begins with the start.
                validity = Validity::NextRound;
            }
        }
        let mut left = rooms(view, &leaves, now);
        let given = pack(&needs, &mut left);
        for (job, gpus) in services.iter().zip(given).filter(|(_, gpus)| *gpus > 0) {
            let shape = Shape::sized(job, GpuCount(gpus));
            out.push(Request::with_shape(job.id(), shape));
        }
        // A job whose notice is over leaves its GPUs in this decision.
        let stays = |job: &&JobRef<'_>| leaves.get(&job.id()).is_none_or(|by| *by > now);
        placed
            .iter()
            .filter(stays)
            .for_each(|job| out.push(Request::gang(job)));
        for job in waiting.iter().filter(|_| !lacks) {
            let (gpus, share) = (job.gpus().get(), job.spec().extras().share.fraction());
            if gpus <= most(&left, share) {
                take(&mut left, gpus, share);
                out.push(Request::gang(job));
            }
        }
        out.stop_unlisted();
        Ok(validity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs<const N: usize>(all: [(u32, u32, f64); N]) -> [Need; N] {
        all.map(|(gang, gpus, share)| Need { gang, gpus, share })
    }

    /// Returns the GPUs of each service, and the number of whole GPUs left.
    fn packed(needs: &[Need], mut rooms: Vec<f64>) -> (Vec<u32>, u32) {
        let given = pack(needs, &mut rooms);
        (given, most(&rooms, 1.0))
    }

    #[test]
    fn parts_of_services_lie_on_the_same_gpus() {
        let four = || vec![1.0; 4];
        // Four copies of a quarter on four GPUs leave three quarters of each.
        assert_eq!(packed(&needs([(1, 4, 0.25)]), four()), (vec![4], 0));
        let two = needs([(1, 4, 0.25), (1, 3, 0.75)]);
        assert_eq!(packed(&two, four()), (vec![4, 3], 0));
        let two = needs([(1, 2, 0.25), (1, 1, 0.75)]);
        assert_eq!(packed(&two, four()), (vec![2, 1], 2));
        // Copies of a service are on different GPUs.
        assert_eq!(packed(&needs([(1, 8, 0.25)]), four()), (vec![4], 0));
    }

    #[test]
    fn a_part_beside_a_training_job_is_used_first() {
        let rooms = vec![1.0, 0.5, 1.0];
        assert_eq!(packed(&needs([(1, 1, 0.5)]), rooms.clone()), (vec![1], 2));
        assert_eq!(packed(&needs([(1, 1, 0.75)]), rooms.clone()), (vec![1], 1));
        assert_eq!(packed(&needs([(2, 4, 1.0)]), rooms.clone()), (vec![2], 0));
        assert_eq!(packed(&needs([(3, 3, 1.0)]), rooms), (vec![0], 2));
    }
}
