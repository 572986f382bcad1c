//! Changes of a config in place.

use crate::{composed, node, run};
use blox_core::policy::scheduling_fn;
use blox_core::{
    Answer, Config, Draft, GpuCount, GpuId, JobQueue, JobSpec, PlacementPolicy, Request, Seconds,
    Shape, Stateless, Time, Validity, View,
};
use blox_sim::overheads::FixedOverheads;

/// Runs a job on GPU 0 with the config that it asks for.
struct Turns;

impl Stateless for Turns {}

impl PlacementPolicy for Turns {
    fn place(&self, (): &mut (), requests: &mut JobQueue, draft: &mut Draft<'_>) -> Answer {
        for request in requests.all(draft.view()).iter() {
            let to = request.shapes[0].on([GpuId(0)].into_iter().collect());
            match draft.current(request.job).is_some() {
                true => draft.reassign(request.job, to)?,
                false => draft.assign(request.job, to)?,
            }
        }
        Ok(Validity::NextRound)
    }
}

/// Returns the completion time of a job of 1,150 s whose knob changes in each round of 300 s.
fn completed(knob: &'static str) -> f64 {
    let all = scheduling_fn(move |view: View<'_>, out: &mut JobQueue| {
        let config = Config::of([(knob, view.now().secs() / 300.0)]);
        for job in view.active() {
            let shape = Shape::gpus(GpuCount(1)).with(config.clone());
            out.push(Request::with_shape(job.id(), shape));
        }
        Validity::NextRound
    });
    let simulation = node(1).overheads(FixedOverheads::TYPICAL);
    let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1150.0));
    let report = run(&simulation, composed("turns", all, Turns), &[job]);
    report.jobs[0].jct().unwrap().secs()
}

#[test]
fn only_a_changed_shift_costs_no_restart() {
    // After a launch of 30 s, the work ends at 1,180 s.
    assert_eq!(completed("shift"), 1200.0);
    // Each round has 270 s of work: 70 s are left at 1,200 s.
    assert_eq!(completed("tp"), 1500.0);
}
