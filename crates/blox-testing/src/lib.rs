//! Tests for schedulers: [`conformance`](conformance()) checks that a scheduler keeps the rules
//! that every backend relies on, and a [`Scenario`] is a small case by hand.
//! [`conformance_of_model`] checks an execution model of the simulator.
//!
//! | Task | Start with |
//! |---|---|
//! | Test a scheduler | [`conformance`](conformance()), [`Suite`] |
//! | Test an execution model | [`conformance_of_model`], [`ModelSuite`] |
//! | Test one rule of a policy | [`Scenario`] |
//! | Choose the cases, and what their jobs and nodes have | [`Cases`] |
//! | Read a failure | [`Failure`], [`Property`], [`CaseError`], [`ModelFailure`], [`ModelProperty`] |
//! | Count what a test covered | [`Report`], [`Coverage`], [`ModelReport`] |
//! | State that a scheduler ignores job numbers | [`Suite::ignores_job_numbers`], [`Ties`] |
//! | Check a state | [`consistency`] |
//! | Place jobs in an example without `blox-policies` | [`FirstFit`] |

#![warn(missing_docs)]

mod cases;
mod cluster;
mod conformance;
mod coverage;
mod difference;
mod jumble;
mod model;
mod problem;
mod random;
mod renaming;
mod scenario;
mod script;
mod verify;

pub use cases::Cases;
pub use conformance::{CaseError, Failure, Report, Subject, Suite, TestedScheduler, conformance};
pub use coverage::Coverage;
pub use model::{
    ModelFailure, ModelProperty, ModelReport, ModelSuite, TestedModel, conformance_of_model,
};
pub use problem::Property;
pub use renaming::Ties;
pub use scenario::{Scenario, StepByStep};
pub use script::Fault;

use blox_core::View;
use blox_core::assignment::{Assignment, GpuList};
use blox_core::decision::Validity;
use blox_core::draft::Draft;
use blox_core::policy::{PlacementPolicy, Stateless};
use blox_core::reason::Reason;
use blox_core::units::GpuCount;
use blox_core::{Answer, JobQueue};
use std::fmt::Display;

/// Checks that a state agrees with itself: counts and lists of jobs, allocated and bound GPUs, and
/// the CPUs of nodes are computed again from the jobs.
///
/// ```
/// use blox_core::{ClusterSpec, State, View};
/// let state = State::new(&ClusterSpec::uniform(1, 4))?;
/// assert_eq!(blox_testing::consistency(View::of(&state)), Ok(()));
/// # Ok::<(), blox_core::ClusterSpecError>(())
/// ```
///
/// # Errors
/// A sentence with the first number that differs.
pub fn consistency(view: View<'_>) -> Result<(), String> {
    verify::verify(view).map_err(|p| format!("expected {}, found {}", p.expected, p.found))
}

/// Joins all items with blanks, for messages.
fn listed(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.is_empty() {
        true => "none".to_owned(),
        false => items.join(" "),
    }
}

/// Joins names with commas, for reports.
fn joined(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.is_empty() {
        true => "nothing".to_owned(),
        false => names.join(", "),
    }
}

/// The simplest placement: jobs in order take the first free GPUs, until the first job that does
/// not fit. Never preempts. CPUs, memory and parts of GPUs do not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstFit;

impl Stateless for FirstFit {}

impl PlacementPolicy for FirstFit {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        while let Some(request) = draft.next_candidate(requests) {
            let shape = &request.shapes[0];
            let needed = shape.gpus;
            if let Some(job) = draft.view().job(request.job) {
                draft.narrow_to(&job, shape);
            }
            let free: GpuList = draft
                .nodes_with_free()
                .flat_map(|n| draft.free_gpus_on(n.id()))
                .take(needed.get() as usize)
                .collect();
            draft.widen();
            if free.len() < needed.get() as usize {
                let (needed, free) = (needed.into(), GpuCount(draft.free_gpus()).into());
                draft.explain(request.job, Reason::TooFewGpus { needed, free });
                draft.explain_rest(Reason::BehindHead(request.job));
                draft.candidate_blocked(requests);
                break;
            }
            let config = shape.config.clone();
            let found = Assignment {
                config,
                ..Assignment::of(free)
            };
            draft.assign(request.job, found)?;
            draft.candidate_placed(requests);
        }
        Ok(Validity::UntilEvent)
    }
}
