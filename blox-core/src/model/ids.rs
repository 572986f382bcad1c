//! Names of things: dense numbers for what the core counts, shared strings
//! for what people name.

use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

dense_id! {
    /// A job: the rank of its submission, from 0, never used twice.
    JobId
}
dense_id! {
    /// A node: the rank of its registration, from 0. A node that comes back keeps its number.
    NodeId
}
dense_id! {
    /// A GPU of the cluster: numbered through all nodes in order of registration.
    GpuId
}
dense_id! {
    /// A type of GPU: its rank in the order in which the cluster declares types.
    GpuTypeId
}
dense_id! {
    /// A request to the provider of nodes: numbered from 0 in the order of the actions, never used
    /// twice.
    ActionId
}
dense_id! {
    /// A link of the network: numbered in order of the nodes and of their locations.
    LinkId
}
dense_id! {
    /// An offer of nodes: its rank in the list of the cluster.
    OfferId
}
dense_id! {
    /// A name that the state has interned (user, group, virtual cluster, model, partition).
    NameId
}

impl OfferId {
    /// The offer of a growth that a version without offers recorded.
    pub(crate) const fn unlisted() -> Self {
        OfferId(u32::MAX)
    }
}

/// A shared, immutable string. Cloning it copies a pointer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(Arc<str>);

impl Name {
    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Name(Arc::from(text))
    }
}
impl From<String> for Name {
    fn from(text: String) -> Self {
        Name(Arc::from(text))
    }
}
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}
impl std::ops::Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A table of names: each gets a dense number in the order of first use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Name>", into = "Vec<Name>")]
pub struct Names {
    by_id: Vec<Name>,
    by_text: std::collections::BTreeMap<Name, NameId>,
}

impl Names {
    /// The number of `name`, given now if it had none.
    pub fn intern(&mut self, name: &Name) -> NameId {
        if let Some(id) = self.by_text.get(name.as_str()) {
            return *id;
        }
        let id = NameId(self.by_id.len() as u32);
        self.by_id.push(name.clone());
        self.by_text.insert(name.clone(), id);
        id
    }

    /// The number of a name, if it was ever used.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.by_text.get(text).copied()
    }

    /// The name with this number; `None` if the number was never given.
    pub fn get(&self, id: NameId) -> Option<&Name> {
        self.by_id.get(id.index())
    }

    /// All names in the order of first use.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (NameId, &Name)> {
        self.by_id
            .iter()
            .enumerate()
            .map(|(i, n)| (NameId(i as u32), n))
    }

    /// Returns how many names there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

impl From<Vec<Name>> for Names {
    fn from(by_id: Vec<Name>) -> Self {
        let by_text = by_id
            .iter()
            .enumerate()
            .map(|(i, n)| (n.clone(), NameId(i as u32)))
            .collect();
        Names { by_id, by_text }
    }
}
impl From<Names> for Vec<Name> {
    fn from(names: Names) -> Self {
        names.by_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_in_order_of_first_use() {
        let mut names = Names::default();
        assert_eq!(names.intern(&"b".into()), NameId(0));
        assert_eq!(names.intern(&"a".into()), NameId(1));
        assert_eq!(names.intern(&"b".into()), NameId(0));
        assert_eq!(names.find("a"), Some(NameId(1)));
        let json = serde_json::to_string(&names).unwrap();
        assert_eq!(json, r#"["b","a"]"#);
        assert_eq!(serde_json::from_str::<Names>(&json).unwrap(), names);
    }
}
