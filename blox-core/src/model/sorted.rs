//! Small maps and sets in the order of their keys.

use crate::sort;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Index;

/// A map as a vector that is sorted by key, for the memories of policies and other small tables.
///
/// Its functions are those of [`BTreeMap`](std::collections::BTreeMap), but the compiler generates
/// about a seventh of the code for each type of entry. Lookups take logarithmic time; adding the highest
/// key takes constant time, and collecting sorts once. Other insertions and removals move all later
/// entries, so use a `BTreeMap` for more than some ten thousand entries.
///
/// ```
/// use blox_core::{JobId, SortedMap};
///
/// let mut launches = SortedMap::new();
/// *launches.entry(JobId(7)).or_insert(0) += 1;
/// launches.insert(JobId(3), 2);
/// assert_eq!(launches.keys().copied().collect::<Vec<_>>(), [JobId(3), JobId(7)]);
/// assert_eq!(launches.get(&JobId(7)), Some(&1));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortedMap<K, V>(Vec<(K, V)>);

/// References to the entries of a [`SortedMap`] in ascending order.
pub type Entries<'a, K, V> =
    std::iter::Map<std::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> (&'a K, &'a V)>;

/// Like [`Entries`], with values that can be changed.
pub type EntriesMut<'a, K, V> =
    std::iter::Map<std::slice::IterMut<'a, (K, V)>, fn(&'a mut (K, V)) -> (&'a K, &'a mut V)>;

impl<K, V> SortedMap<K, V> {
    /// Creates an empty map.
    pub const fn new() -> Self {
        SortedMap(Vec::new())
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all entries and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the entries in ascending order.
    #[inline]
    pub fn iter(&self) -> Entries<'_, K, V> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns the entries in ascending order, with values that can be changed.
    #[inline]
    pub fn iter_mut(&mut self) -> EntriesMut<'_, K, V> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Returns the keys in ascending order.
    #[inline]
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    /// Returns the values in the order of their keys.
    #[inline]
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    /// Returns the values in the order of their keys, for modification.
    #[inline]
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Consumes the map and returns its values in the order of their keys.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> {
        self.0.into_iter().map(|(_, value)| value)
    }

    /// Returns the entry with the lowest key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// Removes and returns the entry with the highest key.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        self.0.pop()
    }

    /// Keeps only the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    #[inline]
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|(k, _)| k.borrow().cmp(key))
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Returns the value of a key for modification.
    #[inline]
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Returns the last entry whose key is not above `key`.
    pub fn at_or_before<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let end = self.0.partition_point(|(k, _)| k.borrow() <= key);
        let (key, value) = self.0.get(end.checked_sub(1)?)?;
        Some((key, value))
    }

    /// Returns true if there is a value for the key.
    #[inline]
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Sets the value of a key. Returns the former value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place_of(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Removes a key. Returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        Some(self.0.remove(at).1)
    }

    /// Returns the entry of a key, which may be vacant.
    #[inline]
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        let at = self.place_of(&key);
        Entry { map: self, key, at }
    }

    /// Like `find`; new keys are mostly the highest.
    #[inline]
    fn place_of(&self, key: &K) -> Result<usize, usize> {
        match self.0.last() {
            Some((last, _)) if last >= key => self.find(key),
            _ => Err(self.0.len()),
        }
    }
}

/// The entry of a key in a [`SortedMap`], from [`SortedMap::entry`].
pub struct Entry<'a, K, V> {
    map: &'a mut SortedMap<K, V>,
    key: K,
    at: Result<usize, usize>,
}

impl<'a, K, V> Entry<'a, K, V> {
    /// Returns the value. If there is none, inserts the result of `value`.
    pub fn or_insert_with(self, value: impl FnOnce() -> V) -> &'a mut V {
        let at = match self.at {
            Ok(at) => at,
            Err(at) => {
                self.map.0.insert(at, (self.key, value()));
                at
            }
        };
        &mut self.map.0[at].1
    }

    /// Returns the value. If there is none, inserts `value`.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// Returns the value. If there is none, inserts the default value.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        SortedMap::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V> Index<&Q> for SortedMap<K, V> {
    type Output = V;

    /// Returns the value of a key.
    ///
    /// # Panics
    /// If there is none.
    fn index(&self, key: &Q) -> &V {
        match self.get(key) {
            Some(value) => value,
            None => panic!("the map has no such key"),
        }
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut all: Vec<(K, V)> = entries.into_iter().collect();
        sort::by(&mut all, |a, b| a.0.cmp(&b.0));
        // Of equal keys, the last value stays.
        all.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        SortedMap(all)
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for SortedMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a SortedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Entries<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut SortedMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = EntriesMut<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<K: Serialize, V: Serialize> Serialize for SortedMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, K: Ord + Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for SortedMap<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Ord + Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for OfMap<K, V> {
            type Value = SortedMap<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut map = SortedMap::new();
                while let Some((key, value)) = entries.next_entry()? {
                    map.insert(key, value);
                }
                Ok(map)
            }
        }

        deserializer.deserialize_map(OfMap(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn random_changes_equal_a_tree() {
        let (mut map, mut tree) = (SortedMap::new(), BTreeMap::new());
        let mut random = 1u32;
        for step in 0..5_000u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (random >> 16) % 64;
            match random >> 30 {
                0 => assert_eq!(map.remove(&key), tree.remove(&key)),
                1 => *map.entry(key).or_insert(0) += *tree.entry(key).or_insert(step),
                2 => {
                    map.retain(|k, _| k % 7 != key % 7);
                    tree.retain(|k, _| k % 7 != key % 7);
                }
                _ => assert_eq!(map.insert(key, step), tree.insert(key, step)),
            }
            if random >> 30 == 1 {
                tree.insert(key, map[&key]);
            }
            assert!(map.iter().eq(tree.iter()));
            assert_eq!(map.get(&key), tree.get(&key));
            assert_eq!(map.at_or_before(&key), tree.range(..=key).next_back());
        }
    }

    #[test]
    fn collect_of_entries_in_any_order_equals_a_tree() {
        let mut random = 1u32;
        for count in 0..200 {
            let entries: Vec<(u32, u32)> = (0..count)
                .map(|at| {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    ((random >> 16) % 64, at)
                })
                .collect();
            let map: SortedMap<u32, u32> = entries.iter().copied().collect();
            let tree: BTreeMap<u32, u32> = entries.into_iter().collect();
            assert!(map.iter().eq(tree.iter()), "{count}");
        }
    }

    #[test]
    fn saved_maps_equal_a_tree() {
        let map = SortedMap::from([(20, "b"), (3, "a"), (20, "c")]);
        let saved = serde_json::to_string(&map).unwrap();
        assert_eq!(saved, r#"{"3":"a","20":"c"}"#);
        let restored: SortedMap<u32, &str> = serde_json::from_str(&saved).unwrap();
        assert_eq!(restored, map);
        assert_eq!(
            serde_json::to_string(&SortedMap::<u32, u32>::new()).unwrap(),
            "{}"
        );
    }
}
