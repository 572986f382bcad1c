//! Stable sorting with little code for each type of element.
//!
//! The results equal the standard sorts. The compiler generates these for each type and
//! each comparison, about 2,000 lines of intermediate code. The functions here share one sort. They
//! suit lists that policies sort once per decision. An inner loop uses the methods of slices, which
//! do not allocate for short lists.

use std::cmp::Ordering;

/// Sorts by a comparison. Equal elements keep their order, as with [`slice::sort_by`].
///
/// ```
/// use blox_core::sort;
///
/// let mut left = [("a", 2.5_f64), ("b", 0.5), ("c", 2.5)];
/// sort::by(&mut left, |a, b| b.1.total_cmp(&a.1));
/// assert_eq!(left, [("a", 2.5), ("c", 2.5), ("b", 0.5)]);
/// ```
///
/// # Panics
/// May panic if the comparison is not a total order, as [`slice::sort_by`] may.
pub fn by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    for (a, b) in swaps(items.len(), &mut |a, b| compare(&items[a], &items[b])) {
        items.swap(a, b);
    }
}

/// Sorts by a key, ascending. Equal elements keep their order, as with [`slice::sort_by_key`].
///
/// ```
/// use blox_core::{JobId, sort};
///
/// let mut jobs = [(JobId(1), 8), (JobId(2), 4), (JobId(3), 8)];
/// sort::by_key(&mut jobs, |(_, gpus)| *gpus);
/// assert_eq!(jobs.map(|(job, _)| job.0), [2, 1, 3]);
/// ```
///
/// # Panics
/// May panic if the order of the keys is not total, as [`slice::sort_by_key`] may.
pub fn by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts numbers, ascending, by [`f64::total_cmp`]. Does not allocate.
///
/// ```
/// let mut seconds = [3.0, -0.0, 0.0, 1.5];
/// blox_core::sort::numbers(&mut seconds);
/// assert_eq!(seconds, [-0.0, 0.0, 1.5, 3.0]);
/// ```
#[inline(never)]
pub fn numbers(items: &mut [f64]) {
    items.sort_unstable_by(f64::total_cmp);
}

/// Returns the swaps that sort `count` elements, given the comparison of their positions.
#[inline(never)]
fn swaps(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<(usize, usize)> {
    let mut swaps = Vec::new();
    if (1..count).all(|i| compare(i - 1, i).is_le()) {
        return swaps;
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| compare(*a, *b));
    // Each cycle of the permutation, from its lowest position.
    for start in 0..count {
        let mut at = start;
        while order[at] != start {
            let from = std::mem::replace(&mut order[at], at);
            swaps.push((at, from));
            at = from;
        }
        order[at] = at;
    }
    swaps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `check` with lists of 0 to 99 elements: a key of few values, and the position.
    fn for_lists(mut check: impl FnMut(Vec<(u32, usize)>)) {
        let mut random = 1u32;
        for step in 0..2_000 {
            let keys = 1 + step % 13;
            let list = (0..step as usize % 100).map(|at| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((random >> 16) % keys, at)
            });
            check(list.collect());
        }
    }

    #[test]
    fn by_key_with_ties_equals_the_standard_sort() {
        for_lists(|mut list| {
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            by_key(&mut list, |(key, _)| *key);
            assert_eq!(list, expected);
        });
    }

    #[test]
    fn by_descending_strings_equals_the_standard_sort() {
        for_lists(|list| {
            let named = list.into_iter().map(|(key, at)| (key.to_string(), at));
            let mut list: Vec<(String, usize)> = named.collect();
            let mut expected = list.clone();
            expected.sort_by(|a, b| b.0.cmp(&a.0));
            by(&mut list, |a, b| b.0.cmp(&a.0));
            assert_eq!(list, expected);
        });
    }

    #[test]
    fn by_sorted_list_compares_each_neighbour_once() {
        let mut list: Vec<u32> = (0..100).collect();
        let mut compared = 0;
        by(&mut list, |a, b| {
            compared += 1;
            a.cmp(b)
        });
        assert_eq!(compared, 99);
    }
}
