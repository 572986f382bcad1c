//! The simulator that Sia's authors released (SOSP 2023 artifact).
//!
//! Each quirk is a component:
//!
//! - policy: [`ReleasedScores`] values a new job equally on every type, and uses the goodput of at
//!   most the batch that the job's user would request. It rounds coefficients, and has its own
//!   restart delays. Rigid jobs are valued by their true step times. A job gets at most 64 GPUs, and
//!   moves freely while it is younger than a restart. [`Canonical`] picks one of the equally good
//!   assignments; the program takes the one that its solver finds.
//! - placement: [`RoundAndRound`].
//! - simulated world: [`FreeMoves`], epochs that end at [whole
//!   seconds](blox_sim::execution::training::EpochEnds), and [no more
//!   nodes](crate::sia::world::most_nodes) than were measured.
//! - decision loop: [`RoundsFrom`].
//!
//! **Verified.** Replays of recorded decisions give the same ends, restarts and GPU-seconds of
//! every job under Sia with four solvers, Pollux and Gavel. The objectives of the recorded integer
//! programs and all batches are equal, too. In a closed loop with recorded speed fits and canonical
//! assignments, every job is equal. The closed loops cover the published workloads, and random
//! workloads on other clusters and with other rounds. Their jobs tune their batch, or have a fixed
//! batch or a fixed number of GPUs. If a workload has more jobs than recorded fits, average
//! completion times are within 1 %: a fit stops where the last bits of logarithms decide. The
//! original's own results depend on the machine. Its batches follow from single-precision
//! logarithms, and this emulation uses those of glibc. NumPy uses other logarithms on processors
//! with AVX-512.
//!
//! **Left out.** A file that is not sorted by submission time is sorted. If a step time lies
//! outside the measured range, the original fails, and the emulation takes the nearest measured
//! one.

pub mod blind;
pub(crate) mod figures;
mod moves;
pub mod pollux;
pub mod quirks;
mod recorded;
pub(crate) mod verify;
pub mod world;

pub use moves::FreeMoves;
pub use recorded::{RecordedFits, add_points};

use crate::rounds::RoundsFrom;
use crate::sia::quirks::{Canonical, ReleasedScores, RoundAndRound};
use crate::sia::world::MOST_NODES;
use blox_core::{Composition, GpuCount, Pipeline, Seconds, Time};
use blox_perf::applications::Applications;
use blox_policies::scheduling::Sia;
use blox_sim::Simulation;
use blox_sim::execution::Training;

/// Most GPUs of a job.
const MOST_GPUS: GpuCount = GpuCount(64);

/// Returns a composition with rounds of this length. The first decision follows the first round.
fn in_rounds(name: &str, round: Seconds) -> Composition {
    Composition::new(name).trigger(RoundsFrom::new(Time::ZERO + round, round))
}

/// Sia as released, in rounds of 60 s or of another length above 0. It knows the true step times of
/// rigid jobs.
pub fn sia(round: Seconds, applications: Applications) -> Pipeline {
    let scores = ReleasedScores::for_applications(applications);
    let mut policy = Sia::new(scores)
        .settling(Canonical)
        .searching(1 << 24)
        .up_to(MOST_GPUS);
    for (gpu_type, nodes) in MOST_NODES {
        policy = policy.on_nodes(gpu_type, nodes);
    }
    in_rounds("sia", round)
        .scheduling(policy)
        .placement(RoundAndRound)
        .build()
        .expect(crate::ONCE)
}

/// Configures a simulation as the world of the released simulator.
pub fn simulation(base: Simulation, training: Training) -> Simulation {
    base.execution(training).overheads(FreeMoves::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sia::world::{lies, training};
    use blox_core::{
        Adapts, Answer, Assignment, ClusterSpec, Draft, Extras, GpuCount, GpuId, JobQueue, JobSpec,
        PlacementPolicy, Reason, Request, SchedulingPolicy, Shape, Stateless, Validity, View,
    };
    use blox_perf::applications::built_in;
    use blox_perf::goodput::KnownBatches;
    use blox_policies::placement::KeepNodes;
    use blox_policies::scheduling::sia::{Applicant, Config, Scores, Tie, Ties};
    use blox_sim::workload::Jobs;
    use std::sync::{Arc, Mutex};

    /// Gives every job the GPUs that it requests, but stops the first job for one round at 120 s.
    #[derive(Clone)]
    struct AsAsked;

    impl Stateless for AsAsked {}

    impl SchedulingPolicy for AsAsked {
        fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
            out.stop_unlisted();
            for job in view.active() {
                if job.id().0 > 0 || view.now() != Time::new(120.0) {
                    out.push(Request::with_shape(job.id(), Shape::gpus(job.gpus())));
                }
            }
            Ok(Validity::NextRound)
        }
    }

    #[test]
    fn a_job_that_is_starting_makes_room_at_once() {
        let applications = built_in();
        let job = |submit: f64, model: &str, gpus| {
            let submit = Time::new(submit);
            let job = JobSpec::new(submit, GpuCount(gpus), Seconds::new(1.0));
            let mut job = job.with_extras(Extras {
                model: Some(model.into()),
                ..Extras::default()
            });
            assert!(applications.describe(&mut job, Adapts::All));
            job
        };
        // Two jobs on the first node, one on the second. Each start takes 120 s.
        let jobs = vec![
            job(0.0, "bert", 1),
            job(0.0, "bert", 1),
            job(0.0, "bert", 1),
            job(100.0, "deepspeech2", 2),
        ];
        let cluster: ClusterSpec = "2x2:aws".parse().unwrap();
        let scheduler = in_rounds("as asked", Seconds::new(60.0))
            .scheduling(AsAsked)
            .placement(KeepNodes)
            .build()
            .expect(crate::ONCE);
        let report = simulation(Simulation::new(cluster), training(applications.clone()))
            .run(scheduler, &mut Jobs::new(jobs))
            .unwrap();
        let started = |job: usize| report.jobs[job].first_start.map(Time::secs);
        assert_eq!(started(3), Some(145.0), "25 s after it was given its GPUs");
        assert_eq!(started(1), Some(180.0), "as if it had not been moved");
        assert_eq!(started(2), Some(180.0));
    }

    /// Places its only job on listed GPUs, one list per minute.
    #[derive(Clone)]
    struct Turns(Vec<Vec<u32>>);

    impl Stateless for Turns {}

    impl PlacementPolicy for Turns {
        fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
            let minute = (draft.view().now().secs() / 60.0) as usize;
            let turn = self.0.get(minute - 1).or(self.0.last());
            let gpus = turn.into_iter().flatten().map(|gpu| GpuId(*gpu));
            let assignment = Assignment::of(gpus);
            for job in requests.in_order(draft.view()) {
                match draft.current(job) {
                    Some(has) if has.gpus == assignment.gpus => continue,
                    Some(_) => draft.release(job, Reason::other("moved"))?,
                    None => {}
                }
                draft.assign(job, assignment.clone())?;
            }
            Ok(Validity::UntilEvent)
        }
    }

    /// Values all configurations equally and records its inputs.
    #[derive(Clone, Default)]
    struct Noted {
        restarts: Arc<Mutex<Vec<u32>>>,
        columns: Arc<Mutex<Vec<(usize, usize)>>>,
    }

    impl Stateless for Noted {}

    impl Scores for Noted {
        fn values(
            &self,
            _: View<'_>,
            _: &Applicant<'_>,
            configs: &[Config],
            _: &mut KnownBatches,
        ) -> Vec<Option<f64>> {
            vec![Some(1.0); configs.len()]
        }

        fn costs(
            &self,
            applicant: &Applicant<'_>,
            _: &[Config],
            values: &[Option<f64>],
        ) -> Vec<Option<f64>> {
            self.restarts
                .lock()
                .unwrap()
                .push(applicant.restarts.unwrap_or(0));
            values.iter().map(|v| v.map(|v| -v)).collect()
        }

        fn lies(&self, gpu_type: &str, placement: Vec<u32>) -> Vec<u32> {
            lies(gpu_type, placement)
        }
    }

    impl Ties for Noted {
        fn settle(&self, cost: f64, tie: &Tie) -> f64 {
            let seen = (tie.column, tie.columns);
            self.columns.lock().unwrap().push(seen);
            cost
        }
    }

    /// Runs a rigid job of 12 GPUs that gets the listed (node, GPUs) pairs, one list per minute.
    ///
    /// Returns its end, its number of restarts at each decision, and the columns of its
    /// configurations.
    fn turned(cluster: &str, turns: &[&[(u32, u32)]]) -> (f64, Vec<u32>, Vec<(usize, usize)>) {
        let applications = built_in();
        let job = JobSpec::new(Time::ZERO, GpuCount(12), Seconds::new(1.0));
        let mut job = job.with_extras(Extras {
            model: Some("bert".into()),
            batch_size: Some(48),
            ..Extras::default()
        });
        assert!(applications.describe(&mut job, Adapts::Nothing));
        let gpus = |nodes: &&[(u32, u32)]| {
            let of = |(node, n): &(u32, u32)| 8 * node..8 * node + n;
            nodes.iter().flat_map(of).collect()
        };
        let placement = Turns(turns.iter().map(gpus).collect());
        let noted = Noted::default();
        let policy = Sia::new(noted.clone()).settling(noted.clone());
        let scheduler = in_rounds("turns", Seconds::new(60.0))
            .scheduling(policy)
            .placement(placement)
            .build()
            .expect(crate::ONCE);
        let simulation = Simulation::new(cluster.parse().unwrap());
        let report = super::simulation(simulation, training(applications))
            .run(scheduler, &mut Jobs::new(vec![job]))
            .unwrap();
        let restarts = noted.restarts.lock().unwrap().clone();
        let columns = noted.columns.lock().unwrap().clone();
        (report.jobs[0].finish.unwrap().secs(), restarts, columns)
    }

    #[test]
    fn job_restarts_when_its_nodes_change_order() {
        let stays: &[(u32, u32)] = &[(0, 8), (1, 4)];
        let (end, restarts, _) = turned("3x8:rtx", &[stays]);
        assert_eq!(restarts.iter().max(), Some(&0));
        // Eight and four GPUs on other nodes: a free move.
        let (moved, restarts, _) = turned("3x8:rtx", &[stays, stays, stays, &[(1, 8), (2, 4)]]);
        assert_eq!(moved, end);
        assert_eq!(restarts.iter().max(), Some(&0));
        // Four and eight GPUs on the same nodes: a restart.
        let (other, restarts, _) = turned("3x8:rtx", &[stays, stays, stays, &[(1, 4), (0, 8)]]);
        assert!(other > end, "{other} {end}");
        // During a start, costs are not computed.
        assert_eq!(restarts[..6], [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn more_nodes_than_were_measured_are_as_many_as_were() {
        let (end, ..) = turned("3x8:dgx-ext", &[&[(0, 6), (1, 6)]]);
        let three: &[(u32, u32)] = &[(0, 8), (1, 2), (2, 2)];
        let (spread, restarts, _) = turned("3x8:dgx-ext", &[three, &[(0, 2), (1, 8), (2, 2)]]);
        assert_eq!((spread, restarts.iter().max()), (end, Some(&0)));
    }

    #[test]
    fn a_rigid_job_has_a_column_of_each_type() {
        let nodes: &[(u32, u32)] = &[(1, 8), (2, 4)];
        let (_, _, columns) = turned("1x8:dgx-ext,2x8:rtx", &[nodes]);
        assert_eq!(columns[0], (1, 2));
    }
}
