//! A backend that injects faults: the first launch of each job fails.
//!
//! `cargo run --release --example faults`

use blox::backend::*;
use blox::prelude::*;

/// A cluster with the events that are still to come, the next one last.
struct Faulty(Vec<(Time, Event)>);

impl Backend for Faulty {
    type Error = String;

    fn next(&mut self, due: Option<Time>, _: View<'_>) -> Result<Option<Input>, String> {
        if let Some(at) = due.filter(|due| self.0.iter().all(|(at, _)| due < at)) {
            return Ok(Some(Input::Due { at }));
        }
        Ok(self.0.pop().map(|(at, event)| Input::Event { at, event }))
    }

    fn carry_out(&mut self, view: View<'_>, commands: &[Command]) -> Result<(), String> {
        for command in commands {
            let &Command::Start { job, attempt } = command else {
                continue;
            };
            let (at, rate, outcome) = (view.now(), 1.0, Outcome::Completed);
            let (end, why) = (at + Seconds::new(600.0), "injected fault".into());
            let failed = (at, Event::LaunchFailed { job, attempt, why });
            let started = (at, Event::Started { job, attempt, rate });
            let ended = (end, Event::Ended { job, outcome });
            self.0.extend(match attempt {
                1 => vec![failed],
                _ => vec![ended, started],
            });
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
    let (job, at) = (JobId(0), Time::ZERO);
    let spec = JobSpec::new(at, GpuCount(1), Seconds::new(600.0)).into();
    let mut faulty = Faulty(vec![(at, Event::Submitted { job, spec })]);
    let state = State::new(&ClusterSpec::uniform(1, 1))?;
    let mut runtime = Runtime::new(state, Box::new(Rounds::default()));
    drive(&mut runtime, &mut schedulers::fifo(), &mut faulty)?;
    let end = runtime.state().now();
    println!("after a fault, the job ends at {end}");
    assert_eq!(end, Time::new(900.0)); // a round later
    Ok(())
}
