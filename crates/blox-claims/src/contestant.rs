//! Schedulers of claims.

use crate::ClaimsError;
use blox_core::Pipeline;
use blox_experiment::{Replacements, replace, scheduler};
use blox_registry::Registry;
use serde::Deserialize;
use std::fmt;

/// A scheduler, with the policies that replace its own.
///
/// In a file, it is the name of a scheduler with parameters, or a table.
///
/// ```
/// # use blox_claims::Contestant;
/// let text = "x = { scheduler = \"fifo\", placement = \"pal\" }";
/// let pal: std::collections::BTreeMap<String, Contestant> = toml::from_str(text)?;
/// assert_eq!(pal["x"].to_string(), "fifo, pal");
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "Written")]
pub struct Contestant {
    /// Scheduler or scheduling policy with parameters. A scheduling policy is placed consolidated.
    pub scheduler: String,
    /// Placement that replaces the scheduler's own.
    pub placement: Option<String>,
    /// Admission that replaces the scheduler's own.
    pub admission: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Name(String),
    Composed {
        scheduler: String,
        placement: Option<String>,
        admission: Option<String>,
    },
}

impl From<Written> for Contestant {
    fn from(written: Written) -> Self {
        match written {
            Written::Name(scheduler) => Contestant::of(scheduler),
            Written::Composed {
                scheduler,
                placement,
                admission,
            } => Contestant {
                scheduler,
                placement,
                admission,
            },
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheduler)?;
        for part in self.admission.iter().chain(&self.placement) {
            write!(f, ", {part}")?;
        }
        Ok(())
    }
}

impl Contestant {
    /// Returns a scheduler with its own policies.
    pub fn of(scheduler: impl Into<String>) -> Self {
        Contestant {
            scheduler: scheduler.into(),
            placement: None,
            admission: None,
        }
    }

    /// Builds the scheduler.
    pub(crate) fn pipeline(&self, registry: &Registry, seed: u64) -> Result<Pipeline, ClaimsError> {
        let parsed = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
        let (admission, placement) = (parsed(&self.admission)?, parsed(&self.placement)?);
        let by = Replacements {
            admission: admission.as_ref(),
            placement: placement.as_ref(),
            ..Replacements::default()
        };
        let (_, pipeline) = scheduler(registry, &self.scheduler, seed)?;
        Ok(replace(pipeline, registry, by, seed).map_err(|(_, error)| *error)?)
    }
}
