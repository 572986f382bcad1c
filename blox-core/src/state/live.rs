//! Slots and sets of jobs by number. Memory and scan time depend on the number of live jobs, not of
//! all jobs ever submitted.

use super::NO_SLOT;
use crate::bits;
use crate::ids::JobId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

/// Number of latest job numbers that stay in the dense list, live or not.
const RECENT: u32 = 8192;

/// Slots of the records of live jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// The first number of `recent`, a multiple of 64.
    base: u32,
    recent: Vec<u32>,
    /// Live jobs with lower numbers.
    old: BTreeMap<u32, u32>,
    live: u32,
}

impl Slots {
    /// Returns the number of the next job.
    #[inline]
    pub fn next(&self) -> JobId {
        JobId(self.base + self.recent.len() as u32)
    }

    /// Returns the slot of a job, or [`NO_SLOT`] if there is none.
    #[inline(always)]
    pub fn get(&self, id: JobId) -> u32 {
        match self.recent.get(id.0.wrapping_sub(self.base) as usize) {
            Some(slot) => *slot,
            None => self.get_old(id),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_old(&self, id: JobId) -> u32 {
        self.old.get(&id.0).copied().unwrap_or(NO_SLOT)
    }

    /// Sets the slot of the next job.
    pub fn push(&mut self, slot: u32) {
        self.recent.push(slot);
        self.live += 1;
    }

    /// Removes a job.
    pub fn remove(&mut self, id: JobId) {
        self.live -= 1;
        match self.recent.get_mut(id.0.wrapping_sub(self.base) as usize) {
            Some(slot) => *slot = NO_SLOT,
            None => {
                self.old.remove(&id.0);
            }
        }
    }

    /// Shortens the dense list if most of its jobs are removed. Returns its new first number, for
    /// [`JobSet::shift`].
    pub fn shift(&mut self) -> Option<u32> {
        let len = self.recent.len() as u32;
        if len < 2 * RECENT || len / 8 < self.live {
            return None;
        }
        let base = (self.base + len - RECENT) & !63;
        let gone = self.recent.drain(..(base - self.base) as usize);
        let live = gone.enumerate().filter(|(_, slot)| *slot != NO_SLOT);
        let first = self.base;
        self.old
            .extend(live.map(|(i, slot)| (first + i as u32, slot)));
        self.base = base;
        Some(base)
    }
}

#[derive(Serialize, Deserialize)]
struct SavedSlots {
    base: u32,
    next: u32,
    live: Vec<(u32, u32)>,
}

impl Serialize for Slots {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let recent = self.recent.iter().enumerate();
        let recent = recent.map(|(i, slot)| (self.base + i as u32, *slot));
        let old = self.old.iter().map(|(id, slot)| (*id, *slot));
        let live = old.chain(recent).filter(|(_, slot)| *slot != NO_SLOT);
        SavedSlots {
            base: self.base,
            next: self.next().0,
            live: live.collect(),
        }
        .serialize(s)
    }
}

impl<'de> Deserialize<'de> for Slots {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let SavedSlots { base, next, live } = SavedSlots::deserialize(d)?;
        let wrong = serde::de::Error::custom;
        let Some(recent) = next.checked_sub(base).filter(|_| base % 64 == 0) else {
            return Err(wrong(
                "recent jobs begin at no multiple of 64 below the next",
            ));
        };
        let mut slots = Slots {
            base,
            // Grows with the entries below, so that an invalid `next` allocates no memory.
            recent: Vec::new(),
            old: BTreeMap::new(),
            live: live.len() as u32,
        };
        let mut last = None;
        for (id, slot) in live {
            if last.is_some_and(|last| last >= id) || id >= next || slot == NO_SLOT {
                return Err(wrong("live jobs are out of order, or beyond the next"));
            }
            last = Some(id);
            match id.checked_sub(base) {
                None => {
                    slots.old.insert(id, slot);
                }
                Some(i) => {
                    slots.recent.resize(i as usize, NO_SLOT);
                    slots.recent.push(slot);
                }
            }
        }
        if recent as usize
            > slots.recent.len() + (16 * RECENT as usize).max(8 * slots.live as usize)
        {
            return Err(wrong("more recent jobs than there can be"));
        }
        slots.recent.resize(recent as usize, NO_SLOT);
        Ok(slots)
    }
}

/// A set of live jobs, in order of submission.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobSet {
    /// The first number of `recent`, a multiple of 64.
    base: u32,
    recent: Vec<u64>,
    /// Members with lower numbers.
    old: BTreeSet<u32>,
}

impl JobSet {
    /// Adds a job.
    #[inline]
    pub fn insert(&mut self, id: JobId) {
        match id.0.checked_sub(self.base) {
            Some(i) => {
                let word = i as usize / 64;
                if word >= self.recent.len() {
                    self.grow(word);
                }
                self.recent[word] |= 1 << (i % 64);
            }
            None => self.insert_old(id),
        }
    }

    #[cold]
    fn grow(&mut self, word: usize) {
        // Grows in powers of two, because each growth copies the list.
        self.recent
            .resize((word + 1).next_power_of_two().max(16), 0);
    }

    #[cold]
    fn insert_old(&mut self, id: JobId) {
        self.old.insert(id.0);
    }

    /// Removes a job.
    #[inline]
    pub fn remove(&mut self, id: JobId) {
        match id.0.checked_sub(self.base) {
            Some(i) => {
                if let Some(word) = self.recent.get_mut(i as usize / 64) {
                    *word &= !(1 << (i % 64));
                }
            }
            None => self.remove_old(id),
        }
    }

    #[cold]
    fn remove_old(&mut self, id: JobId) {
        self.old.remove(&id.0);
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.old.is_empty() && self.recent.iter().all(|word| *word == 0)
    }

    /// Iterates over the jobs in order of submission.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = JobId> + use<'_> {
        let (base, recent) = (self.base, bits::numbers(self.recent.iter().copied()));
        let old = self.old.iter().map(|id| JobId(*id));
        old.chain(recent.map(move |member| JobId(base + member)))
    }

    /// Moves the members below `base` out of the dense list; see [`Slots::shift`].
    pub fn shift(&mut self, base: u32) {
        let lower: Vec<JobId> = self.iter().take_while(|id| id.0 < base).collect();
        let words = (base - self.base) as usize / 64;
        self.recent.drain(..words.min(self.recent.len()));
        self.base = base;
        self.old.extend(lower.iter().map(|id| id.0));
    }
}

impl Serialize for JobSet {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let members: Vec<u32> = self.iter().map(|id| id.0).collect();
        (self.base, members).serialize(s)
    }
}

impl<'de> Deserialize<'de> for JobSet {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let (base, members) = <(u32, Vec<u32>)>::deserialize(d)?;
        let wrong = serde::de::Error::custom;
        if base % 64 != 0 {
            return Err(wrong("a set begins at no multiple of 64"));
        }
        let room = (64 * RECENT).max(64 * members.len() as u32);
        let mut set = JobSet {
            base,
            ..JobSet::default()
        };
        for member in members {
            if member.saturating_sub(base) > room {
                return Err(wrong("a member far beyond the set"));
            }
            set.insert(JobId(member));
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_sets_follow_live_jobs() {
        let (mut slots, mut set) = (Slots::default(), JobSet::default());
        // One job in a thousand is never removed.
        let stays = |id: u32| id % 1000 == 7;
        for id in 0..100_000 {
            assert_eq!(slots.next(), JobId(id));
            slots.push(id % 5000);
            set.insert(JobId(id));
            if let Some(base) = slots.shift() {
                set.shift(base);
            }
            if id >= 50 && !stays(id - 50) {
                slots.remove(JobId(id - 50));
                set.remove(JobId(id - 50));
            }
        }
        let expected = |id: &u32| stays(*id) || *id >= 99_950;
        let live: Vec<JobId> = (0..100_000).filter(expected).map(JobId).collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), live);
        for id in (0..100_010).map(JobId) {
            let slot = Some(slots.get(id)).filter(|slot| *slot != NO_SLOT);
            let there = live.binary_search(&id).is_ok();
            assert_eq!(slot, there.then_some(id.0 % 5000), "{id}");
        }
        assert!(slots.recent.len() <= 2 * RECENT as usize);
        assert!(set.recent.len() <= 2 * RECENT as usize / 64);
        let text = |v: &dyn erased::Text| v.text();
        let (a, b) = (text(&slots), text(&set));
        assert!(a.len() + b.len() < 4000, "{}", a.len() + b.len());
        let again: Slots = serde_json::from_str(&a).unwrap();
        assert_eq!((text(&again), again.next()), (a, slots.next()));
        let again: JobSet = serde_json::from_str(&b).unwrap();
        assert_eq!(text(&again), b);
    }

    mod erased {
        /// Serialization to JSON.
        pub trait Text {
            fn text(&self) -> String;
        }
        impl<T: serde::Serialize> Text for T {
            fn text(&self) -> String {
                serde_json::to_string(self).unwrap()
            }
        }
    }

    #[test]
    fn invalid_saved_slots_are_refused_without_allocating() {
        for text in [
            r#"{"base":0,"next":4000000000,"live":[]}"#,
            r#"{"base":64,"next":3,"live":[]}"#,
            r#"{"base":0,"next":3,"live":[[3,0]]}"#,
            r#"{"base":0,"next":3,"live":[[2,0],[1,1]]}"#,
            r#"{"base":3,"next":3,"live":[]}"#,
        ] {
            assert!(serde_json::from_str::<Slots>(text).is_err(), "{text}");
        }
        for text in ["[1,[]]", "[0,[4000000000]]"] {
            assert!(serde_json::from_str::<JobSet>(text).is_err(), "{text}");
        }
    }
}
