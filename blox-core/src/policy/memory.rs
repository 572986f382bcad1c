//! Memories of policies: values that the runtime owns, copies, saves and restores.

use super::Policy;
use dyn_clone::DynClone;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::any::Any;

/// Memory of a policy between decisions; `()` for none.
///
/// Every type that serde can serialize and deserialize is a memory. Mark a cache that is derived
/// from the view with `#[serde(skip)]`: it is empty after a restart, and the policy fills it again.
///
/// ```
/// use blox_core::{Memory, MemoryError};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Default, Serialize, Deserialize)]
/// struct Turns {
///     taken: u64,
///     #[serde(skip)]
///     order: Vec<u64>, // follows from the view
/// }
///
/// let turns = Turns { taken: 3, order: vec![2, 1] };
/// let mut restored = Turns::default();
/// restored.restore(turns.save()?)?;
/// assert_eq!((restored.taken, restored.order.len()), (3, 0));
/// # Ok::<(), MemoryError>(())
/// ```
pub trait Memory: Clone + Send + Sync + 'static {
    /// Returns the memory as a JSON value.
    ///
    /// # Errors
    /// JSON cannot represent the memory, for instance a map whose keys are neither texts nor
    /// numbers.
    fn save(&self) -> Result<Value, MemoryError>;

    /// Replaces the memory by the result of [`save`](Memory::save).
    ///
    /// # Errors
    /// The value was saved by another policy. The memory may be partly changed.
    fn restore(&mut self, saved: Value) -> Result<(), MemoryError>;
}

impl<T> Memory for T
where
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    fn save(&self) -> Result<Value, MemoryError> {
        serde_json::to_value(self).map_err(|e| MemoryError::Save(e.to_string()))
    }

    fn restore(&mut self, saved: Value) -> Result<(), MemoryError> {
        *self = serde_json::from_value(saved).map_err(|e| MemoryError::Restore(e.to_string()))?;
        Ok(())
    }
}

/// A memory that cannot be saved or restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// JSON cannot represent the memory.
    #[error("cannot save the memory of a policy: {0}")]
    Save(String),
    /// The value is not a memory of this policy.
    #[error("cannot restore the memory of a policy: {0}")]
    Restore(String),
    /// An error in the memory of one policy of a composition.
    #[error("{part}: {error}")]
    Part {
        /// The roles of the policy.
        part: String,
        /// The cause.
        error: Box<MemoryError>,
    },
}

impl MemoryError {
    /// Adds the policy that the memory belongs to.
    pub(crate) fn of(self, part: &str) -> Self {
        MemoryError::Part {
            part: part.to_owned(),
            error: Box::new(self),
        }
    }
}

/// Memory of a decorator: its own memory and the memory of the wrapped policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct With<Own, Inner> {
    /// Memory of the decorator.
    pub own: Own,
    /// Memory of the wrapped policy.
    pub inner: Inner,
}

impl<Own: Memory, Inner: Memory> Memory for With<Own, Inner> {
    fn save(&self) -> Result<Value, MemoryError> {
        Ok(json!({ "own": self.own.save()?, "inner": self.inner.save()? }))
    }

    fn restore(&mut self, mut saved: Value) -> Result<(), MemoryError> {
        let mut part = |name| {
            let part = saved.get_mut(name).map(Value::take);
            part.ok_or_else(|| MemoryError::Restore(format!("found no field `{name}`")))
        };
        let (own, inner) = (part("own")?, part("inner")?);
        self.own.restore(own)?;
        self.inner.restore(inner)
    }
}

/// Memory of a policy of unknown type, such as one from a registry.
///
/// It is restored into the [initial](super::Policy::initial) memory of its policy, so that a value
/// of another policy is detected immediately.
#[derive(Clone)]
pub struct AnyMemory(Box<dyn Live>);

impl AnyMemory {
    /// Wraps a memory.
    pub fn of(memory: impl Memory) -> Self {
        AnyMemory(Box::new(memory))
    }

    /// Returns the memory as type `M`; `None` if it has another type.
    pub fn get<M: Memory>(&self) -> Option<&M> {
        let memory: &dyn Any = &*self.0;
        memory.downcast_ref()
    }

    /// Returns the memory as type `M` for modification; `None` if it has another type.
    #[inline]
    pub fn get_mut<M: Memory>(&mut self) -> Option<&mut M> {
        let memory: &mut dyn Any = &mut *self.0;
        memory.downcast_mut()
    }

    /// Returns the memory as the memory type of a policy.
    ///
    /// # Panics
    /// If the memory belongs to another policy. The caller must pair each policy with its own
    /// memory.
    #[inline]
    pub fn own<P: Policy>(&mut self) -> &mut P::Memory {
        match self.get_mut() {
            Some(memory) => memory,
            None => panic!("a policy got the memory of another"),
        }
    }

    /// Returns whether the memory is empty.
    pub fn is_empty(&self) -> bool {
        self.get::<()>().is_some() || self.get::<AnyMemory>().is_some_and(AnyMemory::is_empty)
    }
}

impl std::fmt::Debug for AnyMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AnyMemory({:?})", self.0.saved())
    }
}

impl Memory for AnyMemory {
    fn save(&self) -> Result<Value, MemoryError> {
        self.0.saved()
    }

    fn restore(&mut self, saved: Value) -> Result<(), MemoryError> {
        self.0.restored(saved)
    }
}

/// A memory behind a pointer.
trait Live: Any + DynClone + Send + Sync {
    fn saved(&self) -> Result<Value, MemoryError>;
    fn restored(&mut self, saved: Value) -> Result<(), MemoryError>;
}

dyn_clone::clone_trait_object!(Live);

impl<M: Memory> Live for M {
    fn saved(&self) -> Result<Value, MemoryError> {
        self.save()
    }

    fn restored(&mut self, saved: Value) -> Result<(), MemoryError> {
        self.restore(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_memory_refuses_what_another_policy_saved() {
        let mut memory = AnyMemory::of(With {
            own: 3_u32,
            inner: AnyMemory::of(String::from("inside")),
        });
        let saved = memory.save().unwrap();
        assert_eq!(saved, json!({ "own": 3, "inner": "inside" }));
        assert!(memory.restore(json!(7)).is_err());
        assert!(memory.restore(json!({ "own": 3, "inner": 7 })).is_err());
        memory.restore(saved.clone()).unwrap();
        assert_eq!(memory.clone().save().unwrap(), saved);
    }

    #[test]
    fn any_memory_is_empty_only_of_nothing() {
        assert!(AnyMemory::of(AnyMemory::of(())).is_empty());
        assert!(!AnyMemory::of(0_u32).is_empty());
    }
}
