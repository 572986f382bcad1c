//! Random cases that a suite runs.

use super::script::{Contents, Faults};
use blox_core::ids::Name;
use serde_json::Value;

/// Random cases, and what a suite tests in them: a scheduler ([`Suite`](super::Suite)) or an
/// execution model ([`ModelSuite`](super::ModelSuite)). A case follows from its seed.
pub struct Cases<T> {
    pub(crate) tested: T,
    pub(crate) count: u64,
    pub(crate) first: u64,
    pub(crate) contents: Contents,
}

impl<T> Cases<T> {
    /// Creates this number of cases.
    pub(crate) fn new(tested: T, count: u64) -> Self {
        Cases {
            tested,
            count,
            first: 0,
            contents: Contents {
                faults: Faults::ALL,
                most_jobs: usize::MAX,
                attributes: Vec::new(),
                labels: Vec::new(),
            },
        }
    }

    /// Sets the number of cases; 128 by default for a scheduler, 64 for an execution model.
    #[must_use]
    pub fn cases(mut self, cases: u64) -> Self {
        self.count = cases;
        self
    }

    /// Runs only the case of this seed, as named by a [`Failure`](super::Failure) or a
    /// [`ModelFailure`](super::ModelFailure).
    #[must_use]
    pub fn only(mut self, seed: u64) -> Self {
        (self.first, self.count) = (seed, 1);
        self
    }

    /// Runs only the first jobs of each case, at least one.
    #[must_use]
    pub fn jobs(mut self, most: usize) -> Self {
        self.contents.most_jobs = most.max(1);
        self
    }

    /// Gives some jobs an attribute: a text, a positive or negative number, a truth value, null or a
    /// list. The other jobs do not have the attribute.
    ///
    /// Without this call, jobs have no attributes.
    #[must_use]
    pub fn with_attribute(self, name: impl Into<Name>) -> Self {
        self.with_attribute_values(name, [] as [Value; 0])
    }

    /// Gives some jobs an attribute with one of these values. The other jobs do not have the
    /// attribute. Without values, as [`with_attribute`](Self::with_attribute).
    ///
    /// ```
    /// use blox_core::{Composition, order::SortKey, policy::by_key};
    /// use blox_testing::{FirstFit, conformance};
    ///
    /// let report = conformance(|_seed| {
    ///     let replicas = by_key(|job| {
    ///         let replicas = job.spec().attribute("replicas").and_then(|v| v.as_f64());
    ///         SortKey::by(replicas.unwrap_or(1.0))
    ///     });
    ///     Composition::new("few-replicas").scheduling(replicas).placement(FirstFit).build().unwrap()
    /// })
    /// .with_attribute_values("replicas", [1, 2, 8])
    /// .cases(8)
    /// .check()?;
    /// assert!(report.placements > 0);
    /// # Ok::<(), blox_testing::Failure>(())
    /// ```
    #[must_use]
    pub fn with_attribute_values(
        mut self,
        name: impl Into<Name>,
        values: impl IntoIterator<Item = impl Into<Value>>,
    ) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        self.contents.attributes.push((name.into(), values));
        self
    }

    /// Gives some nodes a label: a number, another text or an empty text. The other nodes do not
    /// have the label.
    ///
    /// Without this call, nodes have no labels.
    #[must_use]
    pub fn with_label(mut self, name: impl Into<Name>) -> Self {
        self.contents.labels.push(name.into());
        self
    }

    /// Returns the seeds of all cases.
    pub(crate) fn seeds(&self) -> std::ops::Range<u64> {
        self.first..self.first.saturating_add(self.count)
    }

    /// Returns the jobs, attributes and labels of the cases, with at most this number of jobs.
    pub(crate) fn contents_of(&self, most_jobs: usize) -> Contents {
        Contents {
            most_jobs,
            ..self.contents.clone()
        }
    }
}
