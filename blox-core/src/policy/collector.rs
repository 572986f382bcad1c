//! Collectors of metrics, and what parts of the world share.

use crate::decision::Plan;
use crate::event::Event;
use crate::view::View;
use dyn_clone::DynClone;
use serde_json::Value;

/// Makes boxes of a part's trait cloneable.
#[doc(hidden)]
#[macro_export]
macro_rules! dyn_part {
    ($name:ident) => {
        ::dyn_clone::clone_trait_object!($name);
    };
}

/// What collectors and parts of the world can do: hear events, be cloned, saved and restored.
pub trait Part: Send + DynClone {
    /// Something happened; the view already shows it.
    fn observe(&mut self, view: View<'_>, event: &Event) {
        let _ = (view, event);
    }

    /// Whether [`Part::observe`] cares for launches and stops ([`Event::Started`] and
    /// [`Event::Stopped`]). Where nobody does, nothing is journaled and neither takes any
    /// time, a plan is carried out in one go, and nobody is told of them.
    ///
    /// `true` is always right, and makes a simulation slower: every stop and launch is a command and a
    /// report of its own. Return `false` if there is no `observe`, or if it passes over both.
    fn observes_launches(&self) -> bool {
        true
    }

    /// What it remembers beyond the view; `None` if nothing.
    fn save(&self) -> Option<Value> {
        None
    }

    /// Takes back what [`Part::save`] gave; whoever has that has this, too.
    ///
    /// # Errors
    /// The memory is not one of this part's. Where nothing else is said, none is.
    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        Err(RestoreError::nowhere(&memory))
    }
}

/// A memory that a part cannot take back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot restore: {why}")]
pub struct RestoreError {
    why: String,
}

impl RestoreError {
    /// With what is wrong.
    pub fn new(why: impl Into<String>) -> Self {
        RestoreError { why: why.into() }
    }

    /// Of a part that has no `restore`, for which there is a memory nevertheless.
    fn nowhere(memory: &Value) -> Self {
        let mut saved = memory.to_string();
        if let Some((end, _)) = saved.char_indices().nth(80) {
            saved.replace_range(end.., "...");
        }
        RestoreError::new(format!(
            "{saved} was saved, but this part has no `restore`: either it needs one beside its `save`, or another part saved this"
        ))
    }
}

impl From<serde_json::Error> for RestoreError {
    fn from(e: serde_json::Error) -> Self {
        RestoreError::new(e.to_string())
    }
}

/// Sees every event and decision (Blox's metrics collection). A collector can
/// be taken back out of the core as [`std::any::Any`].
pub trait MetricCollector: Part + Sync + std::any::Any {
    /// A decision was made; `plan` is what came of it. Where nobody
    /// [observes launches](Part::observes_launches), the view may show it as carried out.
    fn round(&mut self, view: View<'_>, plan: &Plan);
}
dyn_part!(MetricCollector);
