//! Decisions from outside: a rule beside the scheduler, in the place of a person, a notebook or a
//! learner, answers each question of a simulation. A journal keeps the answers.
//!
//! `cargo run --release --example answers`

use blox::backend::{Input, JsonLines, inputs};
use blox::core::{Action, Decision, GpuId};
use blox::prelude::*;
use blox::sim::SimError;
use blox::sim::stepping::{AnswerError, Step, Stepper};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// Places the shortest waiting jobs on free GPUs.
pub fn shortest_first(view: View<'_>) -> Decision {
    let gpus = view.nodes().flat_map(|node| node.gpus());
    let free = gpus.filter(|gpu| view.cluster().allocated_to(*gpu).next().is_none());
    let mut free: Vec<GpuId> = free.collect();
    let mut jobs: Vec<JobRef<'_>> = view.submitted().chain(view.waiting()).collect();
    jobs.sort_by_key(|job| (job.truth().duration(), job.id()));
    let mut answer = Decision::default();
    for job in jobs {
        let count = job.gpus().get() as usize;
        if count <= free.len() {
            let job = job.id();
            let assignment = Assignment::of(free.drain(..count));
            answer.plan.actions.push(Action::Place { job, assignment });
        }
    }
    answer
}

/// Answers each question, and returns the ends of all jobs in seconds.
pub fn run(
    stepper: Stepper<'_>,
    mut answer: impl FnMut(View<'_>) -> Decision,
) -> Result<Vec<f64>, AnswerError> {
    let mut stepper = stepper.pausing();
    loop {
        match stepper.step()? {
            Step::Question(_) => {
                let answer = answer(stepper.view());
                stepper.answer(&answer)?;
            }
            Step::End => break,
            Step::Event(..) | Step::Decision(_) => {}
        }
    }
    let jobs = stepper.report().jobs;
    let ends = jobs.iter().filter_map(|job| job.finish);
    Ok(ends.map(|at| at.secs()).collect())
}

/// Memory that a journal writes into.
#[derive(Clone, Default)]
pub struct Lines(pub Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no thread has panicked").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates a simulation of two GPUs before its first step, with a journal.
pub fn stepper<'w>(jobs: &'w mut Jobs, lines: &Lines) -> Result<Stepper<'w>, SimError> {
    let simulation = Simulation::new(ClusterSpec::uniform(1, 2));
    let journal = JsonLines::new(lines.clone());
    let fifo = blox::schedulers::fifo();
    Stepper::journaled(&simulation, fifo, jobs, Some(Box::new(journal)))
}

/// Returns four jobs of different lengths.
pub fn workload() -> Jobs {
    let job = |at, gpus, secs| JobSpec::new(Time::new(at), GpuCount(gpus), Seconds::new(secs));
    Jobs::new(vec![
        job(0.0, 1, 900.0),
        job(0.0, 2, 1500.0),
        job(0.0, 1, 300.0),
        job(10.0, 1, 600.0),
    ])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (lines, again) = (Lines::default(), Lines::default());
    let ends = run(stepper(&mut workload(), &lines)?, shortest_first)?;
    println!("ends of the jobs: {ends:?} s");
    assert_eq!(ends, [900.0, 2400.0, 300.0, 900.0]);

    // The journal has the answers, so the run can be repeated without the rule.
    let journal = lines.0.lock().expect("no thread has panicked").clone();
    let mut answers = inputs(&journal[..]).filter_map(|line| match line {
        Ok((_, Input::Decided { decision, .. })) => Some(*decision),
        _ => None,
    });
    let recorded = |_: View<'_>| answers.next().unwrap_or_default();
    let repeated = run(stepper(&mut workload(), &again)?, recorded)?;
    assert_eq!(repeated, ends);
    Ok(())
}
