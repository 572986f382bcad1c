//! A backend that injects faults: the first launch of each job fails.
//!
//! `cargo run --release --example faults`

use blox::backend::*;
use blox::prelude::*;
use std::collections::VecDeque;

/// A cluster with the events that are still to come, in order.
struct Faulty(VecDeque<(Time, Event)>);

impl Backend for Faulty {
    type Error = String;

    async fn next(&mut self, due: Option<Time>, _: View<'_>) -> Result<Option<Input>, String> {
        let next = self.0.front().map(|(at, _)| *at);
        if let Some(at) = due.filter(|due| next.is_none_or(|next| *due < next)) {
            return Ok(Some(Input::Due { at }));
        }
        let event = self.0.pop_front();
        Ok(event.map(|(at, event)| Input::Event { at, event }))
    }

    async fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), String> {
        for command in commands {
            let &Command::Start { job, attempt } = command else {
                return Err(format!("unexpected {command:?}"));
            };
            let (at, rate, outcome) = (view.now(), 1.0, Outcome::Completed);
            let (why, end) = ("injected".into(), at + Seconds::new(600.0));
            if attempt == 1 {
                self.0
                    .push_back((at, Event::LaunchFailed { job, attempt, why }));
            } else {
                self.0
                    .push_back((at, Event::Started { job, attempt, rate }));
                self.0.push_back((end, Event::Ended { job, outcome }));
            }
        }
        Ok(())
    }

    fn refused(&mut self, _: Time, _: &Event, error: EventError) -> Result<(), String> {
        Err(error.to_string())
    }

    fn lost_turn(&mut self, _: Time, error: DecisionError) -> Result<(), String> {
        Err(error.to_string())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(600.0)).into();
    let (at, job) = (Time::ZERO, JobId(0));
    let mut faulty = Faulty([(at, Event::Submitted { job, spec })].into());
    let state = State::new(&ClusterSpec::uniform(1, 1))?;
    let mut runtime = Runtime::new(state, Box::new(Rounds::default()));
    run_ready(drive(
        &mut runtime,
        &mut blox::schedulers::fifo(),
        &mut faulty,
    ))?;
    println!("the job completed at {} s", runtime.state().now().secs());
    // The job is launched again in the round after the fault.
    assert_eq!(runtime.state().now(), Time::new(900.0));
    Ok(())
}
