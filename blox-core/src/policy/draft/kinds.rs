//! Kinds of jobs. Jobs of one kind request the same, so a placement treats them alike.

use crate::ids::{JobId, Name};
use crate::job::JobRef;
use crate::job::spec::Extras;
use crate::sorted::SortedMap;
use crate::units::GpuCount;

/// Most kinds of jobs with [`Extras`]. A later job that is unlike all of them has no kind.
const MOST: u32 = 1024;

/// A kind of jobs, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u32);

impl Kind {
    /// Kind of a job that is like no other.
    pub const NONE: Kind = Kind(u32::MAX - 1);

    /// Returns the kind as a set of bits. Kinds with large numbers share the last bit.
    #[inline]
    pub fn bit(self) -> u64 {
        1 << self.0.min(63)
    }
}

/// Fields that usually differ between kinds: GPUs, model, and the bits of CPUs and memory.
type Key = (GpuCount, Option<Name>, u64, u64);

/// The kinds of the jobs seen so far.
#[derive(Clone, Default)]
pub(super) struct Kinds {
    /// Number of the kind plus one, by job; 0 if not yet known.
    of: Vec<u32>,
    /// Kinds of jobs without extras.
    bare: SortedMap<GpuCount, Kind>,
    others: SortedMap<Key, Vec<(Extras, Kind)>>,
    count: u32,
}

impl Kinds {
    /// Returns the kind of a job.
    #[inline]
    pub fn of(&mut self, job: &JobRef<'_>) -> Kind {
        self.known(job.id()).unwrap_or_else(|| self.learn(job))
    }

    /// Returns the kind of a job that was seen before.
    #[inline]
    pub fn known(&self, job: JobId) -> Option<Kind> {
        let kind = self.of.get(job.index())?;
        kind.checked_sub(1).map(Kind)
    }

    #[cold]
    fn learn(&mut self, job: &JobRef<'_>) -> Kind {
        let next = Kind(self.count);
        let kind = match job.spec().extras.as_deref() {
            None => *self.bare.entry(job.gpus()).or_insert(next),
            Some(extras) => {
                let (cpus, memory) = (extras.cpus.to_bits(), extras.memory_gib.to_bits());
                let key = (job.gpus(), extras.model.clone(), cpus, memory);
                let same = self.others.entry(key).or_default();
                match same.iter().find(|(other, _)| alike(extras, other)) {
                    Some((_, kind)) => *kind,
                    None if self.count >= MOST => Kind::NONE,
                    None => {
                        same.push((extras.clone(), next));
                        next
                    }
                }
            }
        };
        self.count += u32::from(kind == next);
        let i = job.id().index();
        if i >= self.of.len() {
            self.of.resize((i + 1).next_power_of_two(), 0);
        }
        self.of[i] = kind.0 + 1;
        kind
    }
}

/// Returns whether two jobs with the same number of GPUs request the same. Times, owners, losses
/// and estimates do not count.
fn alike(a: &Extras, b: &Extras) -> bool {
    let Extras {
        model,
        batch_size,
        levels,
        rates,
        gpu_types,
        nodes,
        deadlines: _,
        class,
        share,
        cpus,
        memory_gib,
        loss: _,
        communication,
        traffic,
        need,
        sensitivity,
        speeds,
        weight: _,
        training,
        group: _,
        user_estimate: _,
        command: _,
        attributes,
    } = a;
    (model, batch_size, class, gpu_types) == (&b.model, &b.batch_size, &b.class, &b.gpu_types)
        && (*share, *nodes) == (b.share, b.nodes)
        && (cpus, memory_gib, communication) == (&b.cpus, &b.memory_gib, &b.communication)
        && (traffic, need) == (&b.traffic, &b.need)
        && (levels, rates, attributes) == (&b.levels, &b.rates, &b.attributes)
        && (sensitivity, speeds, training) == (&b.sensitivity, &b.speeds, &b.training)
}

/// Kinds of which no further job can be placed.
#[derive(Clone, Default)]
pub(super) struct BlockedKinds {
    /// Bits of the kinds that share no bit.
    bits: u64,
    others: Vec<Kind>,
}

impl BlockedKinds {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bits == 0 && self.others.is_empty()
    }

    pub fn insert(&mut self, kind: Kind) {
        match kind.0 {
            0..63 => self.bits |= kind.bit(),
            _ if kind == Kind::NONE || self.others.contains(&kind) => {}
            _ => self.others.push(kind),
        }
    }

    pub fn contains(&self, kind: Kind) -> bool {
        self.bits & kind.bit() != 0 || self.others.contains(&kind)
    }

    /// Returns whether all kinds of a set of bits are blocked.
    pub fn cover(&self, bits: u64) -> bool {
        bits & !self.bits == 0
    }

    #[inline]
    pub fn clear(&mut self) {
        self.bits = 0;
        self.others.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::spec::ClusterSpec;
    use crate::curve::Curve;
    use crate::event::Event;
    use crate::job::spec::JobSpec;
    use crate::state::State;
    use crate::units::{Seconds, Time};
    use std::sync::Arc;

    /// Returns the kinds of jobs of these GPUs and extras, which differ in duration and owner.
    fn kinds_of(jobs: &[(u32, Option<Extras>)]) -> Vec<u32> {
        let mut state = State::new(&ClusterSpec::uniform(1, 8)).unwrap();
        let mut kinds = Kinds::default();
        let mut found = Vec::new();
        for (i, (gpus, extras)) in jobs.iter().enumerate() {
            let duration = Seconds::new(60.0 * (i + 1) as f64);
            let mut spec = JobSpec::new(Time::ZERO, GpuCount(*gpus), duration);
            spec.user = Some(format!("user {i}").into());
            spec.extras = extras.clone().map(Box::new);
            let (job, spec) = (JobId(i as u32), Arc::new(spec));
            let submitted = Event::Submitted { job, spec };
            state.apply(Time::ZERO, &submitted).unwrap();
            let kind = kinds.of(&state.job(job).unwrap());
            assert_eq!(kinds.known(job), Some(kind));
            found.push(kind.0);
        }
        found
    }

    #[test]
    fn jobs_that_request_the_same_have_one_kind() {
        let with = |change: fn(&mut Extras)| {
            let mut extras = Extras::default();
            change(&mut extras);
            Some(extras)
        };
        let kinds = kinds_of(&[
            (1, None),
            (2, None),
            (1, None),
            (1, with(|e| e.cpus = 4.0)),
            (1, with(|e| e.cpus = 4.0)),
            (1, with(|e| e.memory_gib = 4.0)),
            (1, with(|e| e.gpu_types = vec!["v100".into()])),
            (1, with(|e| e.gpu_types = vec!["k80".into()])),
            (1, with(|e| e.model = Some("vgg16".into()))),
            (1, with(|e| e.communication = 0.5)),
            (1, with(|e| e.nodes = std::num::NonZeroU32::new(1))),
            (
                1,
                with(|e| e.need = Curve::new(Seconds::new(9.0), [(Seconds::ZERO, 2.0)])),
            ),
            (
                1,
                with(|e| e.traffic = Curve::new(Seconds::new(9.0), [(Seconds::ZERO, 2.0)])),
            ),
            (
                1,
                with(|e| drop(e.attributes.insert("app_class".into(), "a".into()))),
            ),
            (1, with(|e| e.user_estimate = Some(Seconds::new(9.0)))),
            (1, with(|e| e.group = Some("sweep".into()))),
            (2, None),
        ]);
        assert_eq!(
            kinds,
            [0, 1, 0, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12, 1]
        );
    }

    #[test]
    fn jobs_of_too_many_kinds_are_never_blocked_together() {
        let jobs = (0..MOST + 2).map(|i| {
            let cpus = f64::from(i + 1);
            let extras = Extras {
                cpus,
                ..Extras::default()
            };
            (1, Some(extras))
        });
        let kinds = kinds_of(&jobs.collect::<Vec<_>>());
        assert_eq!(kinds[..2], [0, 1]);
        assert_eq!(kinds[MOST as usize..], [Kind::NONE.0, Kind::NONE.0]);
        let mut blocked = BlockedKinds::default();
        for kind in kinds {
            blocked.insert(Kind(kind));
        }
        assert!(blocked.contains(Kind(70)) && blocked.contains(Kind(7)));
        assert!(!blocked.contains(Kind::NONE));
        // Kinds that share a bit are looked up one by one.
        assert!(blocked.cover(Kind(7).bit()) && !blocked.cover(Kind(70).bit()));
    }
}
