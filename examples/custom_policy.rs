//! A scheduling policy of your own, under its own name in every subcommand:
//! `cargo run --release --example custom_policy -- compare fifo two-queues`

use blox::prelude::*;
use std::process::ExitCode;

/// Jobs that ran for less than `short` come first, in order of submission; then all others.
/// Durations need not be known.
struct TwoQueues {
    short: Seconds,
}

// A policy that remembers something implements `Policy` instead.
impl Stateless for TwoQueues {}

impl SchedulingPolicy for TwoQueues {
    fn schedule(&self, (): &mut (), view: View<'_>, out: &mut JobQueue) -> Answer {
        // In order of submission; the stable sort keeps this order among equals.
        let mut jobs: Vec<_> = view.active().collect();
        jobs.sort_by_key(|job| job.attained_time() >= self.short);
        for job in &jobs {
            out.push(Request::gang(job)); // all the GPUs that it asked for, or none
        }
        // A running job is stopped for one before it in this order; the last one is stopped first.
        out.allow_preemption();
        // Service grows while jobs run, so the policy must run again next round. A policy whose
        // answer stays valid without events returns `Validity::UntilEvent`, and rounds are skipped.
        Ok(Validity::NextRound)
    }
}

/// Returns the built-in registry with the policy above.
pub fn registry() -> Registry {
    let mut registry = blox::registry();
    let short_h = param(
        "short_h",
        "8",
        "hours of running for which a job comes first",
    );
    let about = "jobs with little attained time first, preemptive";
    let build = |params: &Params, _seed| {
        let short = params.hours("short_h")?;
        let composition = Composition::new("two-queues")
            .scheduling(TwoQueues { short })
            .placement(InOrder::new(Consolidated::default()))
            .build()?;
        Ok(composition)
    };
    registry
        .schedulers
        .add("two-queues", about, &[short_h], build);
    registry
}

fn main() -> ExitCode {
    blox::cli::run(registry())
}
