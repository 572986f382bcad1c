//! Schedulers of claims.

use crate::ClaimsError;
use blox_core::{Composition, Pipeline};
use blox_policies::placement::{Consolidated, InOrder};
use blox_registry::{ComponentSpec, Registry, WorldParts};
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

    fn named(&self) -> Result<ComponentSpec, ClaimsError> {
        Ok(self.scheduler.parse()?)
    }

    /// Returns the parts of the world that the scheduler brings.
    pub(crate) fn world(&self, registry: &Registry) -> WorldParts {
        let named = self.named().ok();
        let entry = named.and_then(|named| registry.schedulers.get(&named.name));
        entry.map(|entry| entry.world.clone()).unwrap_or_default()
    }

    /// Builds the scheduler.
    pub(crate) fn pipeline(&self, registry: &Registry, seed: u64) -> Result<Pipeline, ClaimsError> {
        let named = self.named()?;
        let alone = registry.schedulers.get(&named.name).is_none();
        let mut pipeline = if alone && registry.scheduling.get(&named.name).is_some() {
            Composition::new(self.scheduler.as_str())
                .scheduling(registry.scheduling.build(&named, seed)?)
                .placement(InOrder::new(Consolidated::default()))
                .seed(seed)
                .build()?
        } else {
            registry.schedulers.build(&named, seed)?
        };
        if let Some(text) = &self.admission {
            let policy = registry.admission.build(&text.parse()?, seed)?;
            pipeline = pipeline.with_admission(policy)?;
        }
        if let Some(text) = &self.placement {
            let policy = registry.placement.build(&text.parse()?, seed)?;
            pipeline = pipeline.with_placement(policy)?;
        }
        Ok(pipeline)
    }
}
