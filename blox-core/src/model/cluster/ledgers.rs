//! The two ledgers of a cluster: the claims on each GPU, allocated and bound.
//!
//! Nearly all GPUs have one job that has them whole, or none, so a GPU takes 4 bytes in each ledger.
//! GPUs with other claims refer to a table.

use crate::ids::{GpuId, JobId};
use crate::model::share::{Share, Used};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use std::borrow::Cow;

/// The ledgers of all GPUs, in order of the GPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledgers {
    gpus: Vec<Pair>,
    table: Table,
}

/// A GPU in both ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    allocated: Slot,
    bound: Slot,
}

/// The claims on a GPU in one ledger: none, one job that has it whole, or an entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot(u32);

/// The claims on GPUs that jobs share or have in part, by entry.
#[derive(Clone, Debug, Default)]
struct Table {
    entries: Vec<Claims>,
    unused: Vec<u32>,
    /// Claims that a launch may have to wait for, by entry. Counted for entries of bound claims only.
    waits: Vec<Waits>,
}

/// The bound claims on a GPU, for launches that may wait for some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    /// Number of claims that leave: they are not allocated, or with another share.
    leaving: u32,
    /// Sum of the claims. Claims that leave count in full, even if they overlap.
    used: Used,
}

const NO_JOB: u32 = u32::MAX;
/// Marks the number of an entry. Numbers of jobs are below it.
const ENTRY: u32 = 1 << 31;

impl Ledgers {
    /// Adds a GPU without jobs.
    pub fn push(&mut self) {
        self.gpus.push(Pair::both(Slot::EMPTY));
    }

    /// Returns the allocated claims on a GPU; none if it does not exist.
    #[inline]
    pub fn allocated(&self, gpu: GpuId) -> Cow<'_, Claims> {
        let its = self.gpus.get(gpu.index());
        its.map_or(Cow::Owned(Claims::NONE), |its| {
            self.table.claims(its.allocated)
        })
    }

    /// Returns the bound claims on a GPU; none if it does not exist.
    #[inline]
    pub fn bound(&self, gpu: GpuId) -> Cow<'_, Claims> {
        let its = self.gpus.get(gpu.index());
        its.map_or(Cow::Owned(Claims::NONE), |its| self.table.claims(its.bound))
    }

    /// Returns the share of a GPU that is bound to a job.
    #[inline]
    pub fn bound_share(&self, gpu: GpuId, job: JobId) -> Option<Share> {
        let its = self.gpus.get(gpu.index())?;
        self.table.share(its.bound, job)
    }

    /// Returns whether some GPU has several jobs in a ledger, or a job in part.
    #[inline]
    pub fn has_parts(&self) -> bool {
        self.table.entries.len() > self.table.unused.len()
    }

    /// Returns whether some jobs leave a GPU, or change their share of it.
    pub fn is_left(&self, gpu: GpuId) -> bool {
        let its = self.gpus.get(gpu.index());
        its.is_some_and(|its| self.table.waits(*its).leaving > 0)
    }

    /// Returns the number of other jobs that a launch waits for on a GPU: jobs that leave it or
    /// change their share of it. It is 0 if the GPU has room for all of them meanwhile. The shares of
    /// these jobs and of the launch count in full, even if they overlap.
    pub fn blockers(&self, gpu: GpuId, job: JobId, share: Share) -> u32 {
        let Some(its) = self.gpus.get(gpu.index()) else {
            return 0;
        };
        let mut waits = self.table.waits(*its);
        if let Some(own) = self.table.standing(*its, job) {
            waits.remove(own);
        }
        match waits.used.has_full_room(share) {
            true => 0,
            false => waits.leaving,
        }
    }

    /// Returns the job that a GPU is bound to whole, if any; `None` if it is bound to several jobs, or
    /// in part.
    #[inline]
    pub fn bound_whole(&self, gpu: GpuId) -> Option<Option<JobId>> {
        match self.gpus.get(gpu.index())?.bound {
            Slot::EMPTY => Some(None),
            slot if slot.entry().is_some() => None,
            Slot(job) => Some(Some(JobId(job))),
        }
    }

    /// Returns whether a GPU is bound to several jobs that use the same part of it.
    #[inline]
    pub fn is_shared(&self, gpu: GpuId) -> bool {
        let its = self.gpus.get(gpu.index());
        let entry = its.and_then(|its| its.bound.entry());
        entry.is_some_and(|at| self.table.entries[at].is_shared())
    }

    /// Returns whether a GPU is allocated to several jobs, or to a job in part.
    #[inline]
    pub fn has_several(&self, gpu: GpuId) -> bool {
        let its = self.gpus.get(gpu.index());
        its.is_some_and(|its| its.allocated.entry().is_some())
    }

    /// Returns whether several jobs have a GPU, a job has a part of it, or a job has it in one
    /// ledger only.
    #[inline]
    pub fn is_mixed(&self, gpu: GpuId) -> bool {
        let its = self.gpus[gpu.index()];
        its.allocated != its.bound || its.allocated.entry().is_some()
    }

    #[inline]
    pub fn allocate(&mut self, gpu: GpuId, job: JobId, share: Share) {
        let its = &mut self.gpus[gpu.index()];
        let before = self.table.noted(*its, job);
        self.table.add(&mut its.allocated, job, share);
        self.table.note(*its, job, before);
    }

    /// Releases a GPU, and returns whether it is allocated to no other job.
    #[inline]
    pub fn deallocate(&mut self, gpu: GpuId, job: JobId) -> bool {
        let its = &mut self.gpus[gpu.index()];
        let before = self.table.noted(*its, job);
        self.table.remove(&mut its.allocated, job);
        self.table.note(*its, job, before);
        its.allocated == Slot::EMPTY
    }

    /// Binds a GPU to a job, or changes the share of a job that it is bound to.
    #[inline]
    pub fn bind(&mut self, gpu: GpuId, job: JobId, share: Share) {
        self.unbind(gpu, job);
        let its = &mut self.gpus[gpu.index()];
        let before = self.table.noted(*its, job);
        self.table.add(&mut its.bound, job, share);
        self.table.note(*its, job, before);
    }

    #[inline]
    pub fn unbind(&mut self, gpu: GpuId, job: JobId) {
        let its = &mut self.gpus[gpu.index()];
        let before = self.table.noted(*its, job);
        self.table.remove(&mut its.bound, job);
        self.table.note(*its, job, before);
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

impl Table {
    #[inline]
    fn claims(&self, slot: Slot) -> Cow<'_, Claims> {
        match slot.entry() {
            Some(at) => Cow::Borrowed(&self.entries[at]),
            None if slot == Slot::EMPTY => Cow::Owned(Claims::NONE),
            None => Cow::Owned(Claims::whole(JobId(slot.0))),
        }
    }

    /// Returns the share of a job.
    #[inline]
    fn share(&self, slot: Slot, job: JobId) -> Option<Share> {
        match slot.entry() {
            Some(at) => self.entries[at].of(job),
            None => (slot.0 == job.0).then_some(Share::WHOLE),
        }
    }

    /// Returns the bound share of a job, and whether the job keeps it.
    fn standing(&self, its: Pair, job: JobId) -> Option<(Share, bool)> {
        let bound = self.share(its.bound, job)?;
        Some((bound, self.share(its.allocated, job) == Some(bound)))
    }

    /// Returns what launches on a GPU may have to wait for.
    fn waits(&self, its: Pair) -> Waits {
        match its.bound.entry() {
            Some(at) => self.waits[at],
            None => self.count(its),
        }
    }

    #[cold]
    fn count(&self, its: Pair) -> Waits {
        let mut waits = Waits::default();
        for (job, _) in self.claims(its.bound).iter() {
            self.standing(its, job)
                .into_iter()
                .for_each(|s| waits.add(s));
        }
        waits
    }

    /// Returns the entry of the bound claims, and how a job stands there, before a change.
    #[inline]
    fn noted(&self, its: Pair, job: JobId) -> Option<(usize, Option<(Share, bool)>)> {
        let at = its.bound.entry()?;
        Some((at, self.standing(its, job)))
    }

    /// Counts a change of a job's claims, if there is an entry for the bound claims.
    #[inline]
    fn note(&mut self, its: Pair, job: JobId, before: Option<(usize, Option<(Share, bool)>)>) {
        if let Some(at) = its.bound.entry() {
            self.note_at(at, its, job, before);
        }
    }

    #[cold]
    fn note_at(
        &mut self,
        at: usize,
        its: Pair,
        job: JobId,
        before: Option<(usize, Option<(Share, bool)>)>,
    ) {
        let waits = match before {
            Some((same, before)) if same == at => {
                let mut waits = self.waits[at];
                before.into_iter().for_each(|s| waits.remove(s));
                self.standing(its, job)
                    .into_iter()
                    .for_each(|s| waits.add(s));
                waits
            }
            // A new entry has few claims.
            _ => self.count(its),
        };
        if at >= self.waits.len() {
            self.waits.resize(self.entries.len(), Waits::default());
        }
        self.waits[at] = waits;
    }

    #[inline]
    fn add(&mut self, slot: &mut Slot, job: JobId, share: Share) {
        match *slot {
            Slot::EMPTY if share.is_whole() => *slot = Slot(job.0),
            _ => self.add_to_entry(slot, job, share),
        }
    }

    #[cold]
    fn add_to_entry(&mut self, slot: &mut Slot, job: JobId, share: Share) {
        if let Some(at) = slot.entry() {
            return self.entries[at].add(job, share);
        }
        let mut claims = self.claims(*slot).into_owned();
        claims.add(job, share);
        self.set(slot, claims);
    }

    #[inline]
    fn remove(&mut self, slot: &mut Slot, job: JobId) {
        if slot.0 == job.0 {
            *slot = Slot::EMPTY;
        } else if slot.entry().is_some() {
            self.remove_from_entry(slot, job);
        }
    }

    #[cold]
    fn remove_from_entry(&mut self, slot: &mut Slot, job: JobId) {
        let Some(at) = slot.entry() else { return };
        self.entries[at].remove(job);
        if self.entries[at].simple().is_some() {
            let claims = std::mem::take(&mut self.entries[at]);
            self.set(slot, claims);
        }
    }

    /// Sets the claims on a GPU. One whole claim, or none, needs no entry.
    fn set(&mut self, slot: &mut Slot, claims: Claims) {
        let simple = claims.simple();
        match (simple, slot.entry()) {
            (None, Some(at)) => self.entries[at] = claims,
            (None, None) => {
                let at = self.unused.pop().unwrap_or_else(|| {
                    self.entries.push(Claims::NONE);
                    self.entries.len() as u32 - 1
                });
                self.entries[at as usize] = claims;
                *slot = Slot(at | ENTRY);
            }
            (Some(simple), at) => {
                if let Some(at) = at {
                    self.entries[at] = Claims::NONE;
                    self.unused.push(at as u32);
                }
                *slot = simple;
            }
        }
    }
}

/// The form of a GPU in a file: the claims of both ledgers.
#[derive(Serialize, Deserialize)]
struct Written {
    allocated: Claims,
    bound: Claims,
}

impl Serialize for Ledgers {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut all = s.serialize_seq(Some(self.gpus.len()))?;
        for its in &self.gpus {
            all.serialize_element(&Written {
                allocated: self.table.claims(its.allocated).into_owned(),
                bound: self.table.claims(its.bound).into_owned(),
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
            ledgers.table.set(&mut its.allocated, allocated);
            ledgers.table.set(&mut its.bound, bound);
            ledgers.table.note(its, JobId(NO_JOB), None);
            ledgers.gpus.push(its);
        }
        Ok(ledgers)
    }
}

/// The jobs on one GPU with their shares, in order of job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    jobs: SmallVec<[(JobId, Share); 2]>,
    used: Used,
    /// Number of shares that overlap.
    overlapping: u32,
}

/// A claim in a file. A whole GPU is written as the job alone, as before there were shares.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenClaim {
    Whole(u32),
    Part { job: JobId, share: Share },
}

/// Writes at least two places, even if they are empty: the form of versions with pairs only.
impl Serialize for Claims {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let claims = self.jobs.iter().map(|(job, share)| match share.is_whole() {
            true => WrittenClaim::Whole(job.0),
            false => WrittenClaim::Part {
                job: *job,
                share: *share,
            },
        });
        let empty = std::iter::repeat_with(|| WrittenClaim::Whole(NO_JOB));
        let places = self.count().max(2);
        s.collect_seq(claims.chain(empty).take(places))
    }
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut claims = Claims::NONE;
        for claim in SmallVec::<[WrittenClaim; 2]>::deserialize(d)? {
            let (job, share) = match claim {
                WrittenClaim::Whole(NO_JOB) => continue,
                WrittenClaim::Whole(job) => (JobId(job), Share::WHOLE),
                WrittenClaim::Part { job, share } => (job, share),
            };
            if claims.contains(job) || job.0 >= ENTRY {
                return Err(serde::de::Error::custom(
                    "a job has a GPU twice, or its number is 2^31 or more",
                ));
            }
            claims.add(job, share);
        }
        // Before shares could overlap, jobs that had more than the whole together were partners.
        if !claims.used().is_possible() {
            let mut partners = Claims::NONE;
            let jobs = claims.iter();
            jobs.for_each(|(job, share)| partners.add(job, share.overlapping()));
            return Ok(partners);
        }
        Ok(claims)
    }
}

impl Claims {
    pub const NONE: Claims = Claims {
        jobs: SmallVec::new_const(),
        used: Used::NONE,
        overlapping: 0,
    };

    /// One job that has the GPU whole.
    #[inline]
    pub fn whole(job: JobId) -> Self {
        let mut claims = Claims::NONE;
        claims.add(job, Share::WHOLE);
        claims
    }

    /// Returns the jobs.
    #[inline]
    pub fn jobs(self) -> impl Iterator<Item = JobId> {
        self.jobs.into_iter().map(|(job, _)| job)
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (JobId, Share)> + '_ {
        self.jobs.iter().copied()
    }

    /// Returns the share of a job.
    pub fn of(&self, job: JobId) -> Option<Share> {
        let at = self.place(job).ok()?;
        Some(self.jobs[at].1)
    }

    #[inline]
    pub fn contains(&self, job: JobId) -> bool {
        self.place(job).is_ok()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the number of jobs.
    #[inline]
    pub fn count(&self) -> usize {
        self.jobs.len()
    }

    /// Returns what the jobs have together.
    #[inline]
    pub fn used(&self) -> Used {
        self.used
    }

    /// Returns what the other jobs have together, if there are any.
    pub fn used_by_others(&self, job: JobId) -> Option<Used> {
        let mut used = self.used;
        if let Some(own) = self.of(job) {
            used.remove(own);
        }
        (used.jobs() > 0).then_some(used)
    }

    /// Returns whether several jobs use the same part.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.count() > 1 && (self.overlapping > 0 || !self.used.is_possible())
    }

    /// Returns the other jobs whose parts overlap a job's share.
    pub fn overlapping(&self, job: JobId, share: Share) -> impl Iterator<Item = JobId> + '_ {
        // Most often, all jobs have parts of their own.
        let divided = self.overlapping == 0 && !share.overlaps() && self.used.is_possible();
        let all = if divided { &[][..] } else { &self.jobs[..] };
        let others = all.iter().filter(move |(other, _)| *other != job);
        let some = others.filter(move |(_, theirs)| !share.is_beside(*theirs));
        some.map(|(other, _)| *other)
    }

    pub fn add(&mut self, job: JobId, share: Share) {
        let (Ok(at) | Err(at)) = self.place(job);
        self.jobs.insert(at, (job, share));
        self.used.add(share);
        self.overlapping += u32::from(share.overlaps());
    }

    pub fn remove(&mut self, job: JobId) {
        if let Ok(at) = self.place(job) {
            let (_, share) = self.jobs.remove(at);
            self.used.remove(share);
            self.overlapping -= u32::from(share.overlaps());
        }
    }

    #[inline]
    fn place(&self, job: JobId) -> Result<usize, usize> {
        self.jobs.binary_search_by_key(&job, |(other, _)| *other)
    }

    /// Returns the slot of claims that need no entry.
    fn simple(&self) -> Option<Slot> {
        match &self.jobs[..] {
            [] => Some(Slot::EMPTY),
            [(job, share)] if share.is_whole() => Some(Slot(job.0)),
            _ => None,
        }
    }
}

impl Waits {
    fn add(&mut self, (share, stays): (Share, bool)) {
        match stays {
            true => self.used.add(share),
            false => {
                self.leaving += 1;
                self.used.add_in_full(share);
            }
        }
    }

    fn remove(&mut self, (share, stays): (Share, bool)) {
        match stays {
            true => self.used.remove(share),
            false => {
                self.leaving -= 1;
                self.used.remove_in_full(share);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: GpuId = GpuId(1);

    fn jobs(claims: Cow<'_, Claims>) -> Vec<u32> {
        claims.iter().map(|(job, _)| job).map(|job| job.0).collect()
    }

    #[test]
    fn gpu_takes_eight_bytes_in_both_ledgers() {
        assert_eq!(size_of::<Pair>(), 8);
    }

    #[test]
    fn shared_gpu_lists_its_jobs_in_order() {
        let mut ledgers = Ledgers::default();
        (0..3).for_each(|_| ledgers.push());
        for job in [7, 3, 5] {
            ledgers.allocate(GPU, JobId(job), Share::WHOLE);
            ledgers.bind(GPU, JobId(job), Share::WHOLE);
        }
        assert_eq!(jobs(ledgers.allocated(GPU)), [3, 5, 7]);
        assert!(ledgers.is_shared(GPU) && ledgers.is_mixed(GPU));
        assert!(!ledgers.deallocate(GPU, JobId(3)));
        assert_eq!(jobs(ledgers.allocated(GPU)), [5, 7]);
        assert_eq!(jobs(ledgers.bound(GPU)), [3, 5, 7]);
        assert!(!ledgers.deallocate(GPU, JobId(7)));
        assert!(ledgers.deallocate(GPU, JobId(5)));
        for job in [5, 3] {
            ledgers.unbind(GPU, JobId(job));
        }
        assert_eq!(jobs(ledgers.bound(GPU)), [7]);
        assert!(!ledgers.is_shared(GPU) && ledgers.is_mixed(GPU));
        ledgers.allocate(GPU, JobId(7), Share::WHOLE);
        assert!(!ledgers.is_mixed(GPU));
    }

    #[test]
    fn entries_of_the_table_are_used_again() {
        let mut ledgers = Ledgers::default();
        (0..3).for_each(|_| ledgers.push());
        for round in 0..100 {
            let gpu = GpuId(round % 3);
            for job in [1, 2] {
                ledgers.allocate(gpu, JobId(job), Share::WHOLE);
                ledgers.bind(gpu, JobId(job), Share::WHOLE);
            }
            for job in [1, 2] {
                ledgers.unbind(gpu, JobId(job));
                ledgers.deallocate(gpu, JobId(job));
            }
        }
        assert_eq!(ledgers.table.entries.len(), 2);
        assert_eq!(ledgers.table.unused.len(), 2);
    }

    #[test]
    fn written_ledgers_have_the_form_of_before() {
        let mut ledgers = Ledgers::default();
        (0..3).for_each(|_| ledgers.push());
        for job in [7, 3, 5] {
            ledgers.allocate(GPU, JobId(job), Share::WHOLE);
        }
        ledgers.bind(GPU, JobId(7), Share::WHOLE);
        let text = serde_json::to_string(&ledgers).unwrap();
        let none = NO_JOB;
        let empty = format!("{{\"allocated\":[{none},{none}],\"bound\":[{none},{none}]}}");
        let parted = format!("{{\"allocated\":[3,5,7],\"bound\":[7,{none}]}}");
        assert_eq!(text, format!("[{empty},{parted},{empty}]"));
        let read: Ledgers = serde_json::from_str(&text).unwrap();
        assert_eq!(jobs(read.allocated(GPU)), [3, 5, 7]);
        assert_eq!(jobs(read.bound(GPU)), [7]);
        // Jobs that had more than the whole together were partners.
        let shares: Vec<Share> = read.allocated(GPU).iter().map(|(_, share)| share).collect();
        assert_eq!(shares, [Share::WHOLE.overlapping(); 3]);
        let again = serde_json::to_string(&read).unwrap();
        let again: Ledgers = serde_json::from_str(&again).unwrap();
        assert_eq!(again.allocated(GPU), read.allocated(GPU));
        let large = text.replace("3,5,7", "3,5,2147483648");
        assert!(serde_json::from_str::<Ledgers>(&large).is_err());
    }

    #[test]
    fn part_of_a_gpu_is_mixed_and_read_as_written() {
        let mut ledgers = Ledgers::default();
        (0..2).for_each(|_| ledgers.push());
        let (quarter, half) = (Share::parts(1, 4).unwrap(), Share::parts(1, 2).unwrap());
        ledgers.allocate(GPU, JobId(4), quarter);
        ledgers.bind(GPU, JobId(4), quarter);
        assert!(ledgers.is_mixed(GPU) && !ledgers.is_shared(GPU));
        ledgers.allocate(GPU, JobId(9), half);
        ledgers.bind(GPU, JobId(4), half);
        assert_eq!(ledgers.bound(GPU).of(JobId(4)), Some(half));
        assert!(ledgers.allocated(GPU).used().has_room(quarter));
        assert!(!ledgers.allocated(GPU).used().has_room(half));
        let text = serde_json::to_string(&ledgers).unwrap();
        let read: Ledgers = serde_json::from_str(&text).unwrap();
        assert_eq!(read.allocated(GPU), ledgers.allocated(GPU));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(!ledgers.deallocate(GPU, JobId(4)) && ledgers.deallocate(GPU, JobId(9)));
        ledgers.unbind(GPU, JobId(4));
        assert!(!ledgers.is_mixed(GPU));
        assert!(ledgers.table.entries.iter().all(Claims::is_empty));
    }
}
