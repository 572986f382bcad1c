//! Which jobs a scheduler can never run, decided before a job is submitted.

use crate::decision::NodeActionKind;
use crate::job::JobRef;
use crate::job::nodes::NodeLimit;
use crate::job::spec::{JobSpec, Submission};
use crate::policy::{AnyClusterManager, AnyPlacement, AnyPolicy, AnyScheduling};
use crate::reason::Reason;
use crate::room::Room;
use crate::shape::Shape;
use crate::state::State;
use crate::units::GpuCount;
use crate::view::View;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The rule by which a scheduler rejects jobs that it can never run
/// ([`Pipeline::feasibility`](crate::Pipeline::feasibility)).
///
/// It asks [`Policy::check_job`](crate::Policy::check_job) of all policies, and then
/// [`Pipeline::can_ever_place`](crate::Pipeline::can_ever_place), as the scheduler does when it
/// decides about a submitted job.
#[derive(Clone)]
pub struct Feasibility {
    pub(super) policies: Vec<Arc<dyn AnyPolicy>>,
    pub(super) manager: Arc<dyn AnyClusterManager>,
    pub(super) scheduling: Arc<dyn AnyScheduling>,
    pub(super) placement: Arc<dyn AnyPlacement>,
    pub(super) awaits_growth: bool,
}

impl Feasibility {
    /// Returns whether the scheduler could run a job on the cluster of a state, with all its nodes
    /// empty and up.
    ///
    /// A cluster without nodes and offers, and one that may grow in any way, can hold every job. So does a
    /// cluster whose policies panic: the decision about the job reports the panic.
    ///
    /// # Errors
    /// The reason if it could not.
    pub fn check(&self, state: &State, spec: &Arc<JobSpec>) -> Result<(), Reason> {
        self.check_spec(spec)?;
        let view = View::of(state);
        let ask = || state.with_candidate(spec, |job| self.has_room(view, &job));
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or(Ok(()))
    }

    /// Returns whether the scheduler could run a job of a cluster with all its nodes empty and up, as
    /// [`Feasibility::check`] does for a new job.
    ///
    /// # Errors
    /// The reason if it could not.
    pub fn check_live(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        self.check_spec(job.spec())?;
        catch_unwind(AssertUnwindSafe(|| self.has_room(view, job))).unwrap_or(Ok(()))
    }

    fn has_room(&self, view: View<'_>, job: &JobRef<'_>) -> Result<(), Reason> {
        let none = view.installed_gpus().get() == 0 && view.cluster().offers().next().is_none();
        let room = room(&*self.manager, self.awaits_growth || none, view);
        let (scheduling, placement) = (&*self.scheduling, &*self.placement);
        room.map_or(Ok(()), |room| has_room(scheduling, placement, &room, job))
    }
}

impl Feasibility {
    /// Returns whether the scheduler could run a job on some cluster. The job has the data that the
    /// policies need, and they keep its [number of nodes](JobRef::node_limit).
    ///
    /// # Errors
    /// The reason if it could not.
    pub fn check_spec(&self, job: &Submission) -> Result<(), Reason> {
        for policy in &self.policies {
            let check = || (**policy).any_check_job(job);
            let checked = catch_unwind(AssertUnwindSafe(check)).unwrap_or(Ok(()));
            checked.map_err(|e| Reason::other(format!("the job {e}")))?;
        }
        let keeps = || keeps_nodes(&*self.scheduling, &*self.placement, job);
        catch_unwind(AssertUnwindSafe(keeps)).unwrap_or(Ok(()))
    }
}

/// Returns the room of a cluster, with its offers if the manager requests nodes. Returns `None` if
/// any nodes could join.
pub(super) fn room<'a>(
    manager: &dyn AnyClusterManager,
    awaits_growth: bool,
    view: View<'a>,
) -> Option<Room<'a>> {
    let grows = || manager.any_actions().contains(NodeActionKind::Grow);
    let offered = view.cluster().offers().next().is_some() && grows();
    (!awaits_growth).then(|| match offered {
        true => Room::of(view).with_offers(),
        false => Room::of(view),
    })
}

/// Checks whether a scheduler keeps the number of nodes on which a job must run. Every scheduler keeps
/// it for one GPU.
#[inline]
pub(super) fn keeps_nodes(
    scheduling: &dyn AnyScheduling,
    placement: &dyn AnyPlacement,
    job: &Submission,
) -> Result<(), Reason> {
    match job.node_limit() {
        Some(NodeLimit { nodes, gpus }) if nodes * gpus > 1 => {
            let keeps = scheduling.any_keeps_nodes(nodes) && placement.any_keeps_nodes(nodes);
            let gpus = GpuCount(gpus);
            match keeps {
                true => Ok(()),
                false => Err(Reason::NodesNotKept { nodes, gpus }),
            }
        }
        _ => Ok(()),
    }
}

/// Checks whether a room could hold one of the shapes in which a job could be requested.
pub(super) fn has_room(
    scheduling: &dyn AnyScheduling,
    placement: &dyn AnyPlacement,
    room: &Room<'_>,
    job: &JobRef<'_>,
) -> Result<(), Reason> {
    let shapes = scheduling.any_could_request(room.view(), job)?;
    let holds = |shape: &Shape| placement.any_can_ever_place(room, job, shape);
    let unused = |level: &GpuCount| shapes.iter().all(|shape| shape.gpus != *level);
    let fits = |level: &GpuCount| holds(&Shape::sized(job, *level)).is_ok();
    match room.of_shapes(job, &shapes, holds) {
        Err(Reason::NeverFits(mut shortfall)) => {
            let mut levels = job.spec().extras().levels.iter().rev().copied();
            Arc::make_mut(&mut shortfall).unused_level = levels.find(|l| unused(l) && fits(l));
            Err(Reason::NeverFits(shortfall))
        }
        checked => checked,
    }
}
