//! Orders of jobs, kept from decision to decision.

use crate::ids::JobId;
use crate::job::JobRef;
use std::cmp::Ordering;
use std::sync::Arc;

/// The key of a job in an order.
pub type KeyFn = Arc<dyn Fn(&JobRef<'_>) -> SortKey + Send + Sync>;

/// The change of a waiting job's key each second.
pub type RateFn = Arc<dyn Fn(&JobRef<'_>) -> f64 + Send + Sync>;

/// Sort key of a job: smaller keys come first. Equal keys are ordered by job number, so that every
/// order is total.
///
/// Only a queue compares keys: [`JobQueue::keep`](crate::JobQueue::keep) and
/// [`JobQueue::push_in_order`](crate::JobQueue::push_in_order). So no key that is NaN decides an
/// order without notice.
///
/// ```
/// use blox_core::order::SortKey;
/// // Interactive jobs come first. The others are ordered by length, then by submission.
/// let key = |interactive: bool, seconds: f64, submit: f64| {
///     SortKey::by(seconds).then(submit).in_class(-i32::from(interactive))
/// };
/// assert_eq!(key(false, 0.0, 5.0), key(false, -0.0, 5.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    class: i32,
    first: u64,
    second: u64,
}

impl SortKey {
    /// A key that is NaN. It comes after all others, so the last job of an order shows whether the
    /// order has one. A check of each key would cost instructions in each decision.
    const NO_NUMBER: SortKey = SortKey {
        class: i32::MAX,
        first: u64::MAX,
        second: u64::MAX,
    };

    /// Creates a key from one number, ascending. A pipeline refuses a decision in which a key is NaN.
    #[inline]
    pub fn by(value: f64) -> Self {
        if value.is_nan() {
            return SortKey::NO_NUMBER;
        }
        SortKey {
            class: 0,
            first: ordered(value),
            second: 0,
        }
    }

    /// Breaks ties by another number, ascending.
    #[inline]
    #[must_use]
    pub fn then(mut self, value: f64) -> Self {
        if value.is_nan() {
            return SortKey::NO_NUMBER;
        }
        self.second = ordered(value);
        self
    }

    /// Sets the class: all keys of a smaller class come first. The default class is 0.
    #[inline]
    #[must_use]
    pub fn in_class(mut self, class: i32) -> Self {
        if self.is_a_number() {
            self.class = class;
        }
        self
    }

    #[inline]
    pub(crate) fn is_a_number(&self) -> bool {
        self.first != SortKey::NO_NUMBER.first
    }

    /// Returns whether the key is smaller than another by more than rounding errors.
    pub(crate) fn is_clearly_before(&self, other: &SortKey) -> bool {
        /// Largest relative error of a number.
        const ERROR: f64 = 1e-9;
        let less = |a: u64, b: u64| {
            let (a, b) = (number(a), number(b));
            b - a > ERROR * (1.0 + a.abs().min(b.abs()))
        };
        match self.class.cmp(&other.class) {
            Ordering::Equal if self.first == other.first => less(self.second, other.second),
            Ordering::Equal => less(self.first, other.first),
            order => order.is_lt(),
        }
    }

    #[inline]
    pub(crate) fn first_of_all(self) -> Self {
        self.in_class(i32::MIN)
    }
}

/// Returns the bits of a float, not NaN, such that unsigned comparison is the total order of floats.
#[inline]
fn ordered(value: f64) -> u64 {
    // -0.0 and 0.0 give the same key.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 {
        bits | (1 << 63)
    } else {
        !bits
    }
}

/// Returns the number that has these bits in the total order.
fn number(bits: u64) -> f64 {
    match bits >> 63 {
        1 => f64::from_bits(bits & !(1 << 63)),
        _ => f64::from_bits(!bits),
    }
}

/// A job with its key, packed. Queues compare often, and two large numbers compare faster than five
/// small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Class, first number, and the upper half of the second.
    high: u128,
    /// The lower half of the second, the job, and the stamp.
    low: u128,
}

impl Entry {
    /// No entry comes before it.
    pub const FIRST: Entry = Entry { high: 0, low: 0 };

    #[inline]
    pub fn new(key: SortKey, job: JobId) -> Self {
        let class = (key.class as u32) ^ (1 << 31);
        let high = u128::from(class) << 96
            | u128::from(key.first) << 32
            | u128::from((key.second >> 32) as u32);
        let low = u128::from(key.second as u32) << 64 | u128::from(job.0) << 32;
        Entry { high, low }
    }

    #[inline]
    pub fn job(&self) -> JobId {
        JobId((self.low >> 32) as u32)
    }

    /// Returns the class of the key and its first number.
    pub fn class_and_first(&self) -> (u32, f64) {
        ((self.high >> 96) as u32, number((self.high >> 32) as u64))
    }

    /// Returns whether the key is a number, not NaN.
    #[inline]
    pub fn is_a_number(&self) -> bool {
        (self.high >> 32) as u64 != SortKey::NO_NUMBER.first
    }

    /// Returns a number that distinguishes the entries of a job; 0 unless it was set.
    #[inline]
    pub fn stamp(&self) -> u32 {
        self.low as u32
    }

    #[inline]
    pub fn with_stamp(mut self, stamp: u32) -> Self {
        self.low = (self.low >> 32) << 32 | u128::from(stamp);
        self
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
    #[inline]
    fn lt(&self, other: &Self) -> bool {
        // Most comparisons end at the first word, and wide ones take three times the instructions.
        let (ours, theirs) = ((self.high >> 64) as u64, (other.high >> 64) as u64);
        if ours == theirs {
            self.cmp(other).is_lt()
        } else {
            ours < theirs
        }
    }
}

impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (self.high, self.low).cmp(&(other.high, other.low))
    }
}

/// Maximum number of entries of a piece.
const CHUNK: usize = 64;

/// Maximum number of new entries that are kept separately.
const CROWD: usize = 64;

/// A priority queue that can also be traversed in order. Entries are sorted, in pieces that are
/// short enough for insertions. New entries are kept separately until one of them is the first, or
/// there are too many: new entries are often neighbours and are then inserted together.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptQueue {
    /// Pieces and their entries, descending: the first job is the last of all. No piece is empty.
    chunks: Vec<Piece>,
    len: usize,
    /// New entries that are not inserted yet, descending.
    new: Vec<Entry>,
    /// An empty piece, kept for its memory.
    spare: Vec<Entry>,
}

/// Neighbouring entries of a queue, descending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    entries: Vec<Entry>,
    /// Bits that describe the entries, at least those that are set for one of them; 0 if unknown.
    bits: u64,
}

impl Piece {
    fn of(entries: Vec<Entry>) -> Self {
        Piece { entries, bits: 0 }
    }

    /// Takes entries that are in ascending order.
    pub fn from_ascending(entries: &mut Vec<Entry>) -> Self {
        Piece::of(entries.drain(..).rev().collect())
    }
}

impl KeptQueue {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether all keys are numbers. A key that is NaN would be the last one.
    #[inline]
    pub fn has_numbers(&self) -> bool {
        let last = self.chunks.first().and_then(|c| c.entries.first());
        let new = self.new.first();
        last.is_none_or(Entry::is_a_number) && new.is_none_or(Entry::is_a_number)
    }

    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.len += 1;
        // The new entries of one decision are nearly in order.
        let mut at = self.new.len();
        self.new.push(entry);
        while at > 0 && self.new[at - 1] < entry {
            self.new[at] = self.new[at - 1];
            at -= 1;
        }
        self.new[at] = entry;
        if self.new.len() == CROWD {
            self.settle();
        }
    }

    /// Inserts all new entries.
    fn settle(&mut self) {
        let mut new = std::mem::take(&mut self.new);
        while let Some(first) = new.last() {
            let ends_after = |c: &Piece| c.entries.first().is_some_and(|e| *first < *e);
            let c = self.chunks.partition_point(ends_after).saturating_sub(1);
            if self.chunks.is_empty() {
                self.chunks.push(Piece::of(Vec::with_capacity(CHUNK)));
            }
            let piece = &mut self.chunks[c];
            piece.bits = 0;
            let chunk = &mut piece.entries;
            // Entries that come after the whole queue go into its last piece.
            let start = match chunk.first() {
                Some(last) if c > 0 => new.partition_point(|e| *last < *e),
                _ => 0,
            };
            put_into(chunk, &new[start..]);
            new.truncate(start);
            self.split(c);
        }
        self.new = new;
    }

    /// Splits a full piece into several.
    #[inline]
    fn split(&mut self, c: usize) {
        let full = self.chunks[c].entries.len();
        if full < CHUNK {
            return;
        }
        // Pieces with room, so that the next entries do not split any.
        let first = CHUNK / 2;
        for start in (first..full).step_by(first).rev() {
            let mut piece = std::mem::take(&mut self.spare);
            piece.reserve(CHUNK);
            piece.extend(self.chunks[c].entries.drain(start..));
            self.chunks.insert(c + 1, Piece::of(piece));
        }
    }

    /// Replaces the contents.
    pub fn fill(&mut self, mut entries: Vec<Entry>) {
        entries.sort_unstable_by(|a, b| b.cmp(a));
        self.new.clear();
        self.refill(&entries);
    }

    /// Returns the first entry.
    #[inline]
    pub fn peek(&mut self) -> Option<&Entry> {
        if let Some(new) = self.new.last() {
            let first = self.chunks.last().and_then(|c| c.entries.last());
            if first.is_none_or(|first| *new < *first) {
                self.settle();
            }
        }
        self.chunks.last().and_then(|c| c.entries.last())
    }

    /// Returns the entry `places` behind the first, if it is known and in the same piece.
    #[inline]
    pub fn ahead(&self, places: usize) -> Option<&Entry> {
        let chunk = &self.chunks.last()?.entries;
        chunk.get(chunk.len().wrapping_sub(1 + places))
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        self.peek()?;
        let chunk = &mut self.chunks.last_mut()?.entries;
        let entry = chunk.pop();
        if chunk.is_empty() {
            self.spare = self.chunks.pop().unwrap_or_default().entries;
        }
        self.len -= 1;
        entry
    }

    /// Removes and returns the first piece if all its entries come before `until`, and if `passes`
    /// returns true for the union of their bits. `bits_of` returns the bits of an entry.
    pub fn pop_piece(
        &mut self,
        until: Option<Entry>,
        bits_of: impl FnMut(&Entry) -> u64,
        passes: impl Fn(u64) -> bool,
    ) -> Option<Piece> {
        self.settle();
        let piece = self.chunks.last_mut()?;
        if piece.bits == 0 {
            let bits = piece.entries.iter().map(bits_of);
            piece.bits = bits.fold(0, |all, bits| all | bits);
        }
        let last = piece.entries.first()?;
        if until.is_some_and(|until| until < *last) || !passes(piece.bits) {
            return None;
        }
        self.len -= piece.entries.len();
        self.chunks.pop()
    }

    /// Returns a piece to the queue. Its entries come before all others that are not new.
    pub fn push_piece(&mut self, piece: Piece) {
        self.len += piece.entries.len();
        match self.chunks.last_mut() {
            // Otherwise pieces would become smaller and smaller.
            Some(next) if next.entries.len() + piece.entries.len() <= CHUNK / 2 => {
                let known = next.bits != 0 && piece.bits != 0;
                next.bits = if known { next.bits | piece.bits } else { 0 };
                next.entries.extend_from_slice(&piece.entries);
            }
            _ => self.chunks.push(piece),
        }
    }

    /// Returns all entries in any order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        let settled = self.chunks.iter().flat_map(|c| &c.entries);
        settled.chain(&self.new)
    }

    /// Returns all entries in order.
    pub fn in_order(&mut self) -> impl Iterator<Item = &Entry> {
        self.settle();
        let pieces = self.chunks.iter().rev();
        pieces.flat_map(|c| c.entries.iter().rev())
    }

    /// Keeps the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&Entry) -> bool) {
        self.settle();
        let all: Vec<Entry> = self
            .chunks
            .drain(..)
            .flat_map(|c| c.entries)
            .filter(|e| keep(e))
            .collect();
        self.refill(&all);
    }

    /// Replaces the contents by entries in descending order.
    fn refill(&mut self, all: &[Entry]) {
        let piece = |part: &[Entry]| {
            let mut chunk = Vec::with_capacity(CHUNK);
            chunk.extend_from_slice(part);
            Piece::of(chunk)
        };
        // Pieces with room, so that the next entries do not split any.
        self.chunks = all.chunks(CHUNK / 2).map(piece).collect();
        self.len = all.len();
    }
}

/// Inserts descending entries into a descending piece. Neighbours are moved together.
fn put_into(chunk: &mut Vec<Entry>, mut entries: &[Entry]) {
    let mut end = chunk.len();
    while let Some(first) = entries.last() {
        let at = chunk[..end].partition_point(|e| *first < *e);
        let start = match at.checked_sub(1).map(|before| chunk[before]) {
            Some(before) => entries.partition_point(|e| before < *e),
            None => 0,
        };
        let (rest, block) = entries.split_at(start);
        let len = chunk.len();
        chunk.extend_from_slice(block);
        if at < len {
            chunk.copy_within(at..len, at + block.len());
            chunk[at..at + block.len()].copy_from_slice(block);
        }
        (end, entries) = (at, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(v: f64, j: u32) -> Entry {
        Entry::new(SortKey::by(v), JobId(j))
    }

    fn first(a: SortKey, b: SortKey) -> bool {
        Entry::new(a, JobId(0)) < Entry::new(b, JobId(0))
    }

    #[test]
    fn keys_order_floats_totally() {
        let values = [-1e300, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e300];
        for value in values {
            let entry = Entry::new(SortKey::by(value).then(7.0).in_class(-3), JobId(9));
            assert_eq!(entry.class_and_first(), ((1 << 31) - 3, value));
        }
        for w in values.windows(2) {
            assert!(first(SortKey::by(w[0]), SortKey::by(w[1])), "{w:?}");
        }
        assert_eq!(SortKey::by(-0.0), SortKey::by(0.0));
    }

    #[test]
    fn what_is_no_number_comes_last_whatever_its_sign() {
        for nan in [f64::NAN, -f64::NAN, f64::from_bits(u64::MAX)] {
            assert!(first(SortKey::by(f64::INFINITY), SortKey::by(nan)));
            assert_eq!(SortKey::by(nan), SortKey::by(f64::NAN));
        }
    }

    #[test]
    fn key_with_one_nan_is_the_last_in_each_class() {
        let nan = f64::NAN;
        let odd = [
            SortKey::by(nan).in_class(-1),
            SortKey::by(nan).then(1.0).first_of_all(),
            SortKey::by(1.0).in_class(7).then(nan),
        ];
        let last = SortKey::by(f64::INFINITY).then(f64::INFINITY);
        for key in odd {
            assert!(first(last.in_class(i32::MAX), key), "{key:?}");
            let entry = Entry::new(key, JobId(3));
            assert!(!key.is_a_number() && !entry.is_a_number(), "{key:?}");
        }
        assert!(Entry::new(last.in_class(i32::MAX), JobId(u32::MAX)).is_a_number());
    }

    #[test]
    fn queue_shows_a_key_that_is_nan() {
        let mut queue = KeptQueue::default();
        assert!(queue.has_numbers());
        queue.fill((0..200).map(|j| entry(f64::from(j), j)).collect());
        assert!(queue.has_numbers());
        queue.push(entry(f64::NAN, 200));
        assert!(!queue.has_numbers());
        // The new entry is inserted among the others.
        queue.in_order().for_each(drop);
        assert!(!queue.has_numbers());
    }

    #[test]
    fn entries_are_ordered_as_their_keys_jobs_and_stamps() {
        let numbers = [-1.0, -5e-324, 0.0, 2.0, 2.0f64.next_up()];
        let mut all = Vec::new();
        for class in [i32::MIN, -1, 0, 7] {
            for (first, second) in numbers.iter().flat_map(|a| numbers.map(|b| (*a, b))) {
                let key = SortKey::by(first).then(second).in_class(class);
                for (job, stamp) in [(3, 5), (3, 6), (u32::MAX, 1)] {
                    let entry = Entry::new(key, JobId(job)).with_stamp(stamp);
                    assert_eq!((entry.job(), entry.stamp()), (JobId(job), stamp));
                    all.push(entry);
                }
            }
        }
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!((a < b, a.cmp(b)), (i < j, i.cmp(&j)), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn queue_pops_in_order_for_any_order_of_pushes() {
        let mut q = KeptQueue::default();
        let mut x = 12345u64;
        let mut reference = std::collections::BTreeSet::new();
        for step in 0..20_000u32 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            if x >> 60 < 9 {
                let e = entry(((x >> 33) % 100) as f64, step);
                q.push(e);
                reference.insert(e);
            } else {
                assert_eq!(q.peek().copied(), reference.first().copied());
                assert_eq!(q.pop(), reference.pop_first());
            }
            assert_eq!(q.len(), reference.len());
        }
        assert!(q.in_order().copied().eq(reference.iter().copied()));
    }
}
