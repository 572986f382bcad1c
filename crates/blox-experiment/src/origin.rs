//! Origins of settings, for messages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Origin of the settings of an experiment. Messages name a setting as it was written: an
/// option of a command line, a key of a file, or a field.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The options on the command line, if there is one.
    options: Option<BTreeSet<String>>,
    file: Option<PathBuf>,
    /// A line for each key of the file that an option replaces by an alternative.
    pub(crate) replaced: Vec<String>,
    /// The keys of [`LISTED`] whose values come from lists.
    listed: Vec<&'static str>,
}

/// Settings that have a list of their own, such as `seeds` for `seed`.
pub(crate) const LISTED: [&str; 2] = ["seed", "load"];

impl Origin {
    /// The settings of a file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Origin {
            file: Some(path.into()),
            ..Origin::default()
        }
    }

    /// These options of a command line, and the settings of a file, if there is one.
    pub fn command_line(options: BTreeSet<String>, file: Option<PathBuf>) -> Self {
        Origin {
            options: Some(options),
            file,
            ..Origin::default()
        }
    }

    /// Notes the keys of [`LISTED`] whose values come from lists, which messages then name.
    pub(crate) fn note_lists(&mut self, given: impl Fn(&str) -> bool) {
        let listed = LISTED.into_iter();
        self.listed = listed.filter(|key| given(&format!("{key}s"))).collect();
    }

    /// Notes that options replace keys of the file by alternatives, such as `--load` and
    /// `load-of-capacity`. An experiment has a notice for each.
    #[must_use]
    pub fn replacing(mut self, replaced: impl IntoIterator<Item = (String, String)>) -> Self {
        let file = self.file.as_deref().unwrap_or(Path::new("")).display();
        let line = |(option, key)| format!("{option} replaces `{key}` of {file}");
        self.replaced = replaced.into_iter().map(line).collect();
        self
    }

    fn is_option(&self, key: &str) -> bool {
        self.options
            .as_ref()
            .is_some_and(|options| options.contains(key))
    }

    /// Returns the options on the command line.
    pub fn options(&self) -> impl Iterator<Item = &str> {
        self.options.iter().flatten().map(String::as_str)
    }

    /// Returns the configuration file.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns a key as it was written.
    pub fn name(&self, key: &str) -> String {
        let list = format!("{key}s");
        match &self.file {
            // The key takes its value from a list.
            _ if LISTED.contains(&key) && !self.is_option(key) && self.is_option(&list) => {
                self.option(&list)
            }
            Some(file) if !self.is_option(key) && self.listed.contains(&key) => {
                format!("{}: {list}", file.display())
            }
            Some(file) if !self.is_option(key) => format!("{}: {key}", file.display()),
            _ => self.option(key),
        }
    }

    /// Returns a key as it would be written where another was.
    pub(crate) fn beside(&self, other: &str, key: &str) -> String {
        match self.file {
            Some(_) if !self.is_option(other) => format!("`{key}`"),
            _ => self.option(key),
        }
    }

    /// Returns a key as it would be written on the command line, if there is one.
    pub fn option(&self, key: &str) -> String {
        match self.options {
            Some(_) => format!("--{key}"),
            None => key.to_owned(),
        }
    }
}
