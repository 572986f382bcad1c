//! Orders of jobs that are kept from decision to decision.

use crate::ids::JobId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Where a job stands in an order: smaller comes first; equal keys are told
/// apart by the job's number, so that every order is total.
///
/// ```
/// use blox_core::order::SortKey;
/// let fifo = |submit: f64| SortKey::by(submit);
/// assert!(fifo(-1.0) < fifo(0.0));
/// assert!(SortKey::by(9.0).in_class(-1) < SortKey::by(1.0));
/// assert!(SortKey::by(1.0).then(2.0) < SortKey::by(1.0).then(3.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortKey {
    class: i32,
    first: u64,
    second: u64,
}

impl SortKey {
    /// By one number, ascending.
    #[inline]
    pub fn by(value: f64) -> Self {
        SortKey {
            class: 0,
            first: ordered(value),
            second: 0,
        }
    }

    /// Ties broken by another number, ascending.
    #[inline]
    #[must_use]
    pub fn then(mut self, value: f64) -> Self {
        self.second = ordered(value);
        self
    }

    /// In a class: all of a smaller class come first. The class is 0 unless said otherwise.
    #[inline]
    #[must_use]
    pub fn in_class(mut self, class: i32) -> Self {
        self.class = class;
        self
    }

    #[inline]
    pub(crate) fn first_of_all(mut self) -> Self {
        self.class = i32::MIN;
        self
    }
}

/// The bits of a float such that unsigned comparison is the float's total order.
#[inline]
fn ordered(value: f64) -> u64 {
    // -0.0 and 0.0 are the same key.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 {
        bits | (1 << 63)
    } else {
        !bits
    }
}

/// A job with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub key: SortKey,
    pub job: JobId,
}

/// A priority queue that can also be walked in order. Most of it lies sorted,
/// so that taking the first ones is a pop from a vector; what comes in between
/// lies in a heap until the sorted part is used up or has to be walked.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptQueue {
    /// Descending: the first job is at the end.
    sorted: Vec<Entry>,
    late: BinaryHeap<Reverse<Entry>>,
}

impl KeptQueue {
    pub fn clear(&mut self) {
        self.sorted.clear();
        self.late.clear();
    }

    pub fn len(&self) -> usize {
        self.sorted.len() + self.late.len()
    }

    #[inline]
    pub fn push(&mut self, entry: Entry) {
        match self.sorted.last() {
            Some(first) if entry < *first => self.sorted.push(entry),
            None if self.late.is_empty() => self.sorted.push(entry),
            _ => self.late.push(Reverse(entry)),
        }
    }

    /// Many at once.
    pub fn fill(&mut self, entries: impl Iterator<Item = Entry>) {
        self.sorted.extend(entries);
        self.sorted.extend(self.late.drain().map(|Reverse(e)| e));
        self.sorted.sort_unstable_by(|a, b| b.cmp(a));
    }

    #[inline]
    pub fn peek(&self) -> Option<&Entry> {
        match (self.sorted.last(), self.late.peek()) {
            (Some(s), Some(Reverse(l))) => Some(if s < l { s } else { l }),
            (Some(s), None) => Some(s),
            (None, late) => late.map(|Reverse(e)| e),
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        if self.sorted.is_empty() && self.late.len() > 16 {
            self.merge();
        }
        match (self.sorted.last(), self.late.peek()) {
            (Some(s), Some(Reverse(l))) if l < s => self.late.pop().map(|Reverse(e)| e),
            (Some(_), _) => self.sorted.pop(),
            (None, _) => self.late.pop().map(|Reverse(e)| e),
        }
    }

    /// All of it in order.
    pub fn in_order(&mut self) -> impl Iterator<Item = &Entry> {
        self.merge();
        self.sorted.iter().rev()
    }

    /// Keeps what passes.
    pub fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.merge();
        self.sorted.retain(keep);
    }

    fn merge(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let mut late: Vec<Entry> = std::mem::take(&mut self.late)
            .into_iter()
            .map(|Reverse(e)| e)
            .collect();
        late.sort_unstable_by(|a, b| b.cmp(a));
        if self.sorted.is_empty() {
            self.sorted = late;
        } else {
            // Two descending runs: the standard sort finds and merges them.
            self.sorted.append(&mut late);
            self.sorted.sort_by(|a, b| b.cmp(a));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(v: f64, j: u32) -> Entry {
        Entry {
            key: SortKey::by(v),
            job: JobId(j),
        }
    }

    #[test]
    fn keys_order_floats_totally() {
        let values = [-1e300, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e300];
        for w in values.windows(2) {
            assert!(SortKey::by(w[0]) < SortKey::by(w[1]), "{w:?}");
        }
        assert_eq!(SortKey::by(-0.0), SortKey::by(0.0));
    }

    #[test]
    fn the_queue_pops_in_order_whatever_the_order_of_pushes() {
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
