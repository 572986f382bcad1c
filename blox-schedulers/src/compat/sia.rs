//! The simulator that Sia's authors released (SOSP 2023 artifact).
//!
//! Quirks are parts. Of the policy: [`ReleasedScores`] (a new job is worth the same on every type,
//! values of the batch that its owner would ask for, rounded coefficients, delays of its own) and
//! [`Canonical`] (one of the equally good assignments: theirs is whatever the solver finds). Of the
//! world: [`FreeMoves`] and epochs that end at [whole
//! seconds](blox_sim::execution::training::EpochEnds). Of the loop: [`AfterOne`].
//!
//! **Verified**: from recorded decisions every end, restart and GPU-second of each job is equal,
//! under Sia with four solvers, Pollux and Gavel; so is each recorded program's objective, and each
//! batch. In a closed loop with recorded fits of speeds and canonical assignments, every job is
//! equal, of published workloads and of random ones on other clusters, in other rounds, with
//! batches of their own or fixed ones; with more jobs than fits were recorded for, average
//! completion times are within 1 %: where a fit stops depends on the last bits of logarithms. The
//! original's own results depend on the machine: its batches come of logarithms in single precision, here those
//! of glibc; NumPy takes others where a processor has AVX-512.
//!
//! **Left out.** Rigid jobs are valued by the profiles of one GPU, not by the true tables, and
//! placed as any others. A file that is not in order of submission is put in order.

use blox_core::{Cadence, Composition, Part, Pipeline, Rounds, Seconds, Time};
use blox_policies::compat::sia::{Canonical, ReleasedScores};
use blox_policies::placement::KeepNodes;
use blox_policies::scheduling::Sia;
use blox_sim::Simulation;
use blox_sim::compat::sia::FreeMoves;
use blox_sim::execution::Training;

/// Rounds of which the first ends before the first decision: no decision at 0.
#[derive(Clone, Copy, Debug)]
pub struct AfterOne {
    rounds: Rounds,
    period: Seconds,
}

impl AfterOne {
    /// Rounds of `period`; `None` unless it is above 0.
    pub fn every(period: Seconds) -> Option<Self> {
        let rounds = Rounds::every(period)?;
        Some(AfterOne { rounds, period })
    }
}

impl Part for AfterOne {}

impl Cadence for AfterOne {
    fn first_from(&self, t: Time, last: Option<Time>) -> Time {
        let first = Time::ZERO + self.period;
        self.rounds.first_from(t.max(first), last)
    }

    fn following(&self, t: Time) -> Option<Time> {
        self.rounds.following(t)
    }

    fn period(&self) -> Option<Seconds> {
        self.rounds.period()
    }
}

/// Sia as released, in rounds of 60 s.
pub fn sia() -> Pipeline {
    sia_every(Seconds::new(60.0))
}

/// As [`sia`], in rounds of another length, above 0.
pub fn sia_every(round: Seconds) -> Pipeline {
    let base = Composition::new("sia");
    let base = match AfterOne::every(round) {
        Some(rounds) => base.cadence(rounds),
        None => base,
    };
    let policy = Sia::new(ReleasedScores::default())
        .settling(Canonical)
        .searching(1 << 24)
        .on_nodes("aws", 16)
        .on_nodes("azure", 5)
        .on_nodes("dgx", 2)
        .on_nodes("dgx-ext", 2)
        .on_nodes("quad", 1)
        .on_nodes("rtx", 3);
    base.scheduling(policy).placement(KeepNodes).build()
}

/// The world of the released simulator.
pub fn simulation(base: Simulation, training: Training) -> Simulation {
    base.execution(training).overheads(FreeMoves::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{
        Adapts, ClusterSpec, Extras, GpuCount, JobSpec, Outlook, Request, Requests,
        SchedulingPolicy, Shape, View,
    };
    use blox_sim::compat::sia::training;
    use blox_sim::execution::training::built_in;
    use blox_sim::workload::Jobs;

    /// Everybody gets what is asked for; the first job is stopped for a round at 120 s.
    #[derive(Clone)]
    struct AsAsked;

    impl Part for AsAsked {}

    impl SchedulingPolicy for AsAsked {
        fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
            out.stop_unlisted();
            for job in view.active() {
                if job.id().0 > 0 || view.now() != Time::new(120.0) {
                    out.push(Request::with_shape(job.id(), Shape::gpus(job.gpus())));
                }
            }
            Outlook::NextRound
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
        // Two on the first node, each starts for 120 s, and one on the second.
        let jobs = vec![
            job(0.0, "bert", 1),
            job(0.0, "bert", 1),
            job(0.0, "bert", 1),
            job(100.0, "deepspeech2", 2),
        ];
        let cluster: ClusterSpec = "2x2:aws".parse().unwrap();
        let rounds = AfterOne::every(Seconds::new(60.0)).unwrap();
        let scheduler = Composition::new("as asked").cadence(rounds);
        let scheduler = scheduler.scheduling(AsAsked).placement(KeepNodes).build();
        let report = simulation(Simulation::new(cluster), training(applications.clone()))
            .run(scheduler, &mut Jobs::new(jobs))
            .unwrap();
        let started = |job: usize| report.jobs[job].first_start.map(Time::secs);
        assert_eq!(started(3), Some(145.0), "25 s after it was given its GPUs");
        assert_eq!(started(1), Some(180.0), "as if it had not been moved");
        assert_eq!(started(2), Some(180.0));
    }
}
