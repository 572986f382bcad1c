//! The two ledgers of a cluster: the jobs that each GPU is allocated to, and bound to.
//!
//! Nearly all GPUs have one job or none, so a GPU takes 4 bytes in each ledger. GPUs of several jobs
//! refer to a table.

use super::spec::MAX_JOBS_PER_GPU;
use crate::ids::{GpuId, JobId};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

/// The ledgers of all GPUs, in order of the GPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledgers {
    gpus: Vec<Pair>,
    shared: Shared,
}

/// A GPU in both ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    allocated: Slot,
    bound: Slot,
}

/// The jobs of a GPU in one ledger: none, one job, or an entry in the table of [`Shared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot(u32);

/// The jobs of shared GPUs, by entry.
#[derive(Clone, Debug, Default)]
struct Shared {
    entries: Vec<Owners>,
    unused: Vec<u32>,
}

const NO_JOB: u32 = u32::MAX;
/// Marks the number of an entry. Numbers of jobs are below it.
const ENTRY: u32 = 1 << 31;
const PLACES: usize = MAX_JOBS_PER_GPU as usize;

impl Ledgers {
    /// Adds a GPU without jobs.
    pub fn push(&mut self) {
        self.gpus.push(Pair::both(Slot::EMPTY));
    }

    /// Returns the jobs that a GPU is allocated to; none if it does not exist.
    #[inline]
    pub fn allocated(&self, gpu: GpuId) -> Owners {
        let its = self.gpus.get(gpu.index());
        its.map_or(Owners::NONE, |its| self.shared.owners(its.allocated))
    }

    /// Returns the jobs that a GPU is bound to; none if it does not exist.
    #[inline]
    pub fn bound(&self, gpu: GpuId) -> Owners {
        let its = self.gpus.get(gpu.index());
        its.map_or(Owners::NONE, |its| self.shared.owners(its.bound))
    }

    /// Returns whether a GPU is bound to several jobs.
    #[inline]
    pub fn is_shared(&self, gpu: GpuId) -> bool {
        let its = self.gpus.get(gpu.index());
        its.is_some_and(|its| its.bound.entry().is_some())
    }

    /// Returns whether several jobs have a GPU, or a job has it in one ledger only.
    #[inline]
    pub fn is_mixed(&self, gpu: GpuId) -> bool {
        let its = self.gpus[gpu.index()];
        its.allocated != its.bound || its.allocated.entry().is_some()
    }

    #[inline]
    pub fn allocate(&mut self, gpu: GpuId, job: JobId) {
        self.shared.add(&mut self.gpus[gpu.index()].allocated, job);
    }

    /// Releases a GPU, and returns whether it is allocated to no other job.
    #[inline]
    pub fn deallocate(&mut self, gpu: GpuId, job: JobId) -> bool {
        let slot = &mut self.gpus[gpu.index()].allocated;
        self.shared.remove(slot, job);
        *slot == Slot::EMPTY
    }

    #[inline]
    pub fn bind(&mut self, gpu: GpuId, job: JobId) {
        self.shared.add(&mut self.gpus[gpu.index()].bound, job);
    }

    #[inline]
    pub fn unbind(&mut self, gpu: GpuId, job: JobId) {
        self.shared.remove(&mut self.gpus[gpu.index()].bound, job);
    }

    /// Gives GPUs to a job in both ledgers. None of them is mixed. `contiguous` states that they
    /// follow each other.
    #[inline]
    pub fn pass_on(&mut self, gpus: &[GpuId], job: JobId, contiguous: bool) {
        let its = Pair::both(Slot(job.0));
        match gpus {
            // Most jobs have one GPU.
            [gpu] => self.gpus[gpu.index()] = its,
            [first, ..] if contiguous => self.gpus[first.index()..][..gpus.len()].fill(its),
            _ => gpus.iter().for_each(|gpu| self.gpus[gpu.index()] = its),
        }
    }

    /// Takes a GPU that is not mixed from its job in both ledgers.
    #[inline]
    pub fn clear(&mut self, gpu: GpuId) {
        self.gpus[gpu.index()] = Pair::both(Slot::EMPTY);
    }
}

impl Pair {
    #[inline]
    fn both(slot: Slot) -> Self {
        Pair {
            allocated: slot,
            bound: slot,
        }
    }
}

impl Slot {
    const EMPTY: Slot = Slot(NO_JOB);

    #[inline]
    fn entry(self) -> Option<usize> {
        let is = self.0 & ENTRY != 0 && self != Slot::EMPTY;
        is.then_some((self.0 & !ENTRY) as usize)
    }
}

impl Shared {
    #[inline]
    fn owners(&self, slot: Slot) -> Owners {
        match slot.entry() {
            Some(at) => self.entries[at],
            None => Owners::only(JobId(slot.0)),
        }
    }

    #[inline]
    fn add(&mut self, slot: &mut Slot, job: JobId) {
        match *slot {
            Slot::EMPTY => *slot = Slot(job.0),
            _ => self.add_to_others(slot, job),
        }
    }

    #[cold]
    fn add_to_others(&mut self, slot: &mut Slot, job: JobId) {
        let mut owners = self.owners(*slot);
        owners.add(job);
        self.set(slot, owners);
    }

    #[inline]
    fn remove(&mut self, slot: &mut Slot, job: JobId) {
        if slot.0 == job.0 {
            *slot = Slot::EMPTY;
        } else if slot.entry().is_some() {
            self.remove_from_others(slot, job);
        }
    }

    #[cold]
    fn remove_from_others(&mut self, slot: &mut Slot, job: JobId) {
        let mut owners = self.owners(*slot);
        owners.remove(job);
        self.set(slot, owners);
    }

    /// Sets the jobs of a GPU. Several jobs take an entry; otherwise its entry becomes unused.
    fn set(&mut self, slot: &mut Slot, owners: Owners) {
        match (owners.0[1] != NO_JOB, slot.entry()) {
            (true, Some(at)) => self.entries[at] = owners,
            (true, None) => {
                let at = self.unused.pop().unwrap_or_else(|| {
                    self.entries.push(Owners::NONE);
                    self.entries.len() as u32 - 1
                });
                self.entries[at as usize] = owners;
                *slot = Slot(at | ENTRY);
            }
            (false, at) => {
                self.unused.extend(at.map(|at| at as u32));
                *slot = Slot(owners.0[0]);
            }
        }
    }
}

/// The form of a GPU in a file: the jobs of both ledgers.
#[derive(Serialize, Deserialize)]
struct Written {
    allocated: Owners,
    bound: Owners,
}

impl Serialize for Ledgers {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut all = s.serialize_seq(Some(self.gpus.len()))?;
        for its in &self.gpus {
            all.serialize_element(&Written {
                allocated: self.shared.owners(its.allocated),
                bound: self.shared.owners(its.bound),
            })?;
        }
        all.end()
    }
}

impl<'de> Deserialize<'de> for Ledgers {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut ledgers = Ledgers::default();
        for Written { allocated, bound } in Vec::<Written>::deserialize(d)? {
            let mut its = Pair::both(Slot::EMPTY);
            ledgers.shared.set(&mut its.allocated, allocated);
            ledgers.shared.set(&mut its.bound, bound);
            ledgers.gpus.push(its);
        }
        Ok(ledgers)
    }
}

/// The jobs on one GPU, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owners([u32; PLACES]);

/// Writes the places of a pair even if they are empty: the form of versions with pairs only.
impl Serialize for Owners {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0[..self.count().max(2)].serialize(s)
    }
}

impl<'de> Deserialize<'de> for Owners {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let jobs = SmallVec::<[u32; PLACES]>::deserialize(d)?;
        let mut owners = Owners::NONE;
        for job in jobs.into_iter().filter(|job| *job != NO_JOB).map(JobId) {
            if owners.count() == PLACES || owners.contains(job) || job.0 >= ENTRY {
                return Err(serde::de::Error::custom(
                    "too many jobs on a GPU, one twice, or a number of 2^31 or more",
                ));
            }
            owners.add(job);
        }
        Ok(owners)
    }
}

impl Default for Owners {
    fn default() -> Self {
        Owners::NONE
    }
}

impl Owners {
    pub const NONE: Owners = Owners([NO_JOB; PLACES]);

    #[inline]
    pub fn only(job: JobId) -> Self {
        let mut owners = Owners::NONE;
        owners.0[0] = job.0;
        owners
    }
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = JobId> {
        let some = self.0.into_iter().take_while(|&j| j != NO_JOB);
        some.map(JobId)
    }
    #[inline]
    pub fn contains(self, job: JobId) -> bool {
        self.0.contains(&job.0)
    }
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0[0] == NO_JOB
    }
    /// Returns the number of jobs.
    #[inline]
    pub fn count(self) -> usize {
        self.iter().count()
    }
    #[inline]
    pub fn add(&mut self, job: JobId) {
        if let Some(place) = self.0.iter_mut().find(|p| **p == NO_JOB) {
            *place = job.0;
        }
    }
    #[inline]
    pub fn remove(&mut self, job: JobId) {
        // Most GPUs have one job.
        if self.0[1] == NO_JOB {
            if self.0[0] == job.0 {
                self.0[0] = NO_JOB;
            }
            return;
        }
        if let Some(place) = self.0.iter().position(|p| *p == job.0) {
            self.0[place..].rotate_left(1);
            self.0[PLACES - 1] = NO_JOB;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: GpuId = GpuId(1);

    fn jobs(owners: Owners) -> Vec<u32> {
        owners.iter().map(|job| job.0).collect()
    }

    #[test]
    fn gpu_takes_eight_bytes_in_both_ledgers() {
        assert_eq!(size_of::<Pair>(), 8);
    }

    #[test]
    fn shared_gpu_lists_jobs_in_order_of_arrival() {
        let mut ledgers = Ledgers::default();
        (0..3).for_each(|_| ledgers.push());
        for job in [7, 3, 5] {
            ledgers.allocate(GPU, JobId(job));
            ledgers.bind(GPU, JobId(job));
        }
        assert_eq!(jobs(ledgers.allocated(GPU)), [7, 3, 5]);
        assert!(ledgers.is_shared(GPU) && ledgers.is_mixed(GPU));
        assert!(!ledgers.deallocate(GPU, JobId(3)));
        assert_eq!(jobs(ledgers.allocated(GPU)), [7, 5]);
        assert_eq!(jobs(ledgers.bound(GPU)), [7, 3, 5]);
        assert!(!ledgers.deallocate(GPU, JobId(7)));
        assert!(ledgers.deallocate(GPU, JobId(5)));
        for job in [5, 3] {
            ledgers.unbind(GPU, JobId(job));
        }
        assert_eq!(jobs(ledgers.bound(GPU)), [7]);
        assert!(!ledgers.is_shared(GPU) && ledgers.is_mixed(GPU));
        ledgers.allocate(GPU, JobId(7));
        assert!(!ledgers.is_mixed(GPU));
    }

    #[test]
    fn entries_of_the_table_are_used_again() {
        let mut ledgers = Ledgers::default();
        (0..3).for_each(|_| ledgers.push());
        for round in 0..100 {
            let gpu = GpuId(round % 3);
            for job in [1, 2] {
                ledgers.allocate(gpu, JobId(job));
                ledgers.bind(gpu, JobId(job));
            }
            for job in [1, 2] {
                ledgers.unbind(gpu, JobId(job));
                ledgers.deallocate(gpu, JobId(job));
            }
        }
        assert_eq!(ledgers.shared.entries.len(), 2);
        assert_eq!(ledgers.shared.unused.len(), 2);
    }

    #[test]
    fn written_ledgers_have_the_form_of_before() {
        let mut ledgers = Ledgers::default();
        (0..3).for_each(|_| ledgers.push());
        for job in [7, 3, 5] {
            ledgers.allocate(GPU, JobId(job));
        }
        ledgers.bind(GPU, JobId(7));
        let text = serde_json::to_string(&ledgers).unwrap();
        let none = NO_JOB;
        let empty = format!("{{\"allocated\":[{none},{none}],\"bound\":[{none},{none}]}}");
        let parted = format!("{{\"allocated\":[7,3,5],\"bound\":[7,{none}]}}");
        assert_eq!(text, format!("[{empty},{parted},{empty}]"));
        let read: Ledgers = serde_json::from_str(&text).unwrap();
        assert_eq!(jobs(read.allocated(GPU)), [7, 3, 5]);
        assert_eq!(jobs(read.bound(GPU)), [7]);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let large = text.replace("7,3", "2147483648,3");
        assert!(serde_json::from_str::<Ledgers>(&large).is_err());
    }
}
