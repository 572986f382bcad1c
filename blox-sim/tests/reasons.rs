//! Reasons of a policy's own are counted by their text.

use blox_core::{
    Answer, ClusterSpec, Composition, GpuCount, JobQueue, JobSpec, Pipeline, Reason, Request,
    SchedulingPolicy, Seconds, Stateless, Time, Validity, View,
};
use blox_sim::{Simulation, results::WaitRow, workload::Jobs};
use blox_testing::FirstFit;

/// Runs the first job alone; each other job waits for a reason that `text` gives.
struct OneAtATime(fn(u32) -> String);

impl Stateless for OneAtATime {}

impl SchedulingPolicy for OneAtATime {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        for (n, job) in view.active().enumerate() {
            match n {
                0 => out.push(Request::gang(&job)),
                _ => out.explain(job.id(), Reason::other((self.0)(job.id().0))),
            }
        }
        Ok(Validity::NextRound)
    }
}

fn waits(jobs: u32, text: fn(u32) -> String) -> Vec<WaitRow> {
    let scheduler: Pipeline = Composition::new("one-at-a-time")
        .scheduling(OneAtATime(text))
        .placement(FirstFit)
        .build()
        .unwrap();
    let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(300.0));
    let mut jobs = Jobs::new((0..jobs).map(|_| job.clone()).collect());
    let simulation = Simulation::new(ClusterSpec::uniform(1, 4)).keep_waits(true);
    simulation.run(scheduler, &mut jobs).unwrap().waits
}

#[test]
fn two_texts_of_a_policy_are_two_rows() {
    let rows = waits(3, |job| format!("over the quota of team-{job}"));
    let shown: Vec<_> = rows
        .iter()
        .map(|r| (r.reason.as_str(), r.jobs, r.total.secs()))
        .collect();
    assert_eq!(
        shown,
        [
            ("over the quota of team-2", 1, 600.0),
            ("over the quota of team-1", 1, 300.0)
        ]
    );
    let json = serde_json::to_value(&rows[0]).unwrap();
    assert_eq!(json["reason"], "over the quota of team-2");
}

#[test]
fn many_texts_leave_the_longest_and_one_row() {
    let rows = waits(40, |job| format!("text {job}"));
    assert_eq!(rows.len(), 25);
    let other = rows.iter().find(|r| r.reason.as_str() == "other").unwrap();
    // 39 jobs wait, the last 24 of them longest; job n waits n rounds.
    assert_eq!((other.jobs, other.total.secs()), (15, 300.0 * 120.0));
}
