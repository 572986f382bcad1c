//! Access to settings by their keys.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Access to a setting by its key.
pub(crate) trait Field: Default {
    /// Returns the keys of a field with this name.
    fn keys(name: &'static str) -> Vec<String> {
        vec![name.replace('_', "-")]
    }

    /// Reads the value of a key.
    fn read<'de, D: Deserializer<'de>>(&mut self, key: &str, value: D) -> Result<(), D::Error>;

    /// Adds the value, if it is given, by its key.
    fn write(&self, name: &str, all: &mut Map<String, Value>) -> Result<(), serde_json::Error>;

    /// Removes the value of a key.
    fn clear(&mut self, _key: &str) {
        *self = Self::default();
    }
}

impl<T: Serialize + DeserializeOwned> Field for Option<T> {
    fn read<'de, D: Deserializer<'de>>(&mut self, _: &str, value: D) -> Result<(), D::Error> {
        *self = Some(T::deserialize(value)?);
        Ok(())
    }

    fn write(&self, name: &str, all: &mut Map<String, Value>) -> Result<(), serde_json::Error> {
        if let Some(value) = self {
            all.insert(name.replace('_', "-"), serde_json::to_value(value)?);
        }
        Ok(())
    }
}

impl Field for bool {
    fn read<'de, D: Deserializer<'de>>(&mut self, _: &str, value: D) -> Result<(), D::Error> {
        *self = bool::deserialize(value)?;
        Ok(())
    }

    fn write(&self, name: &str, all: &mut Map<String, Value>) -> Result<(), serde_json::Error> {
        if *self {
            all.insert(name.replace('_', "-"), true.into());
        }
        Ok(())
    }
}

impl Field for BTreeMap<String, Vec<Value>> {
    fn read<'de, D: Deserializer<'de>>(&mut self, _: &str, value: D) -> Result<(), D::Error> {
        *self = Self::deserialize(value)?;
        Ok(())
    }

    fn write(&self, name: &str, all: &mut Map<String, Value>) -> Result<(), serde_json::Error> {
        if !self.is_empty() {
            all.insert(name.to_owned(), serde_json::to_value(self)?);
        }
        Ok(())
    }
}

/// Returns whether a key is one of a field with this name.
pub(crate) fn is_key_of<F: Field>(name: &'static str, key: &str) -> bool {
    F::keys(name).iter().any(|own| own == key)
}
