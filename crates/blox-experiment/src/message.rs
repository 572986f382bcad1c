//! Messages about settings, which name them as they were written.

use crate::error::ExperimentError;
use crate::settings::Experiment;
use blox_core::suggest::one_of;
use blox_registry::RegistryError;
use std::fmt::Display;

impl Experiment {
    /// Returns a key as it was written.
    pub(crate) fn name(&self, key: &str) -> String {
        self.origin.name(key)
    }

    /// Returns the error for an invalid value.
    pub(crate) fn wrong(&self, key: &str, found: impl Display, expected: &str) -> ExperimentError {
        let name = self.name(key);
        ExperimentError::Setting(format!("{name} is `{found}`, expected {expected}"))
    }

    /// Returns an error for a value that is not among the known names.
    pub(crate) fn unknown<'a>(
        &self,
        key: &str,
        found: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> ExperimentError {
        self.wrong(key, found, &one_of(found, known))
    }

    /// Returns an error about the value of a key.
    pub(crate) fn because(&self, key: &str, source: RegistryError) -> ExperimentError {
        ExperimentError::Component {
            before: format!("{}: ", self.name(key)),
            source: Box::new(source),
            after: "",
        }
    }

    /// Returns the first given setting among these, as it was written.
    pub(crate) fn first_of(&self, keys: &[&str]) -> Option<String> {
        let given = self.values();
        let first = keys.iter().find(|key| given.contains_key(**key))?;
        Some(self.name(first))
    }

    /// Returns the error for two settings that exclude each other.
    pub(crate) fn both(&self, one: &str, other: &str) -> ExperimentError {
        ExperimentError::Setting(format!(
            "{} and {} are both given, expected one of them",
            self.name(one),
            self.name(other)
        ))
    }

    /// Returns the error for a varied key that is no setting.
    pub fn no_setting(&self, key: &str) -> ExperimentError {
        ExperimentError::Setting(format!(
            "{} names `{key}`, which is no setting of a simulation",
            self.name("vary")
        ))
    }
}

/// Returns a sentence about a wrong value. A message such as `expected a number` continues it.
pub fn wrong_value(option: &str, found: &str, why: &str) -> String {
    match why.starts_with("expected ") {
        true => format!("{option} is `{found}`, {why}"),
        false => format!("{option}: {why}"),
    }
}
