//! Applications that jobs train: training curves, limits and step times (Pollux, OSDI 2021; Sia,
//! SOSP 2023).
//!
//! An [`Application`] holds what its authors measured. [`Applications::describe`] makes a job train
//! the application that the job names as its model:
//!
//! ```
//! use blox_core::{Adapts, Extras, GpuCount, JobSpec, Seconds, Time};
//! use blox_perf::applications::built_in;
//! let mut job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(1.0)).with_extras(Extras {
//!     model: Some("cifar10".into()),
//!     ..Extras::default()
//! });
//! assert!(built_in().describe(&mut job, Adapts::All));
//! assert_eq!(job.extras().training.as_ref().map(|t| t.initial_batch), Some(128));
//! ```

mod application;
mod constants;
mod curves;
mod fitted;
mod table;
mod triangulated;

pub use application::{Application, OnType, StepTimes};
pub use constants::{Constants, constants};
pub use curves::{Curves, Epoch};
pub use fitted::built_in;
pub use table::{Measured, StepTable};
pub use triangulated::Between;

use blox_core::SortedMap;
use blox_core::{Adapts, Extras, JobSpec, Name, TypeSpeeds, Work};
use std::sync::Arc;

/// Applications by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applications(SortedMap<Name, Arc<Application>>);

impl Applications {
    /// Adds an application.
    pub fn insert(&mut self, name: impl Into<Name>, application: Application) {
        self.0.insert(name.into(), Arc::new(application));
    }

    /// Returns an application.
    pub fn get(&self, name: &str) -> Option<&Arc<Application>> {
        self.0.get(name)
    }

    /// Returns all applications in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Application)> {
        self.0.iter().map(|(name, a)| (name, &**a))
    }

    /// Returns the applications with a change applied to each.
    #[must_use]
    pub fn map(self, mut change: impl FnMut(&Name, &mut Application)) -> Self {
        let changed = self.0.into_iter().map(|(name, a)| {
            let mut a = Arc::unwrap_or_clone(a);
            change(&name, &mut a);
            (name, Arc::new(a))
        });
        Applications(changed.collect())
    }

    /// Makes a job train the application named as its model. The job's work becomes the
    /// application's work, and its rate the rate on the requested GPUs. If the job is rigid, its
    /// speed on each GPU type is set as well. Returns false and changes nothing if there is no
    /// application with this name.
    pub fn describe(&self, job: &mut JobSpec, adapts: Adapts) -> bool {
        let named = job.extras().model.as_ref().and_then(|m| self.0.get(m));
        let Some(app) = named else { return false };
        let asked = job.extras().batch_size.unwrap_or(app.initial_batch);
        // No cluster has more: a job that requests more never runs.
        let gpus = job.gpus.get().min(1 << 20);
        let on_each = |name: &Name| {
            let rate = |size: u32| {
                let mut placement = vec![size; (gpus / size) as usize];
                placement.extend((!gpus.is_multiple_of(size)).then_some(gpus % size));
                app.rate_with_batch(name, &placement, asked)
            };
            // On nodes of four GPUs, else of eight.
            rate(4).or_else(|| rate(8))
        };
        let rate = app.types.keys().find_map(on_each);
        job.work = Work {
            iterations: app.curves.total(),
            rate: rate.unwrap_or(1.0),
        };
        let extras = job
            .extras
            .get_or_insert_with(|| Box::new(Extras::default()));
        extras.training = Some(Arc::new(app.spec(adapts)));
        if adapts == Adapts::Nothing {
            let mut speeds = TypeSpeeds::default();
            for name in app.types.keys() {
                if let Some(rate) = on_each(name) {
                    speeds.set(name.clone(), rate);
                }
            }
            extras.speeds = Some(Arc::new(speeds));
        }
        true
    }
}
