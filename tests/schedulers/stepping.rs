//! Answers from outside, in the place of a scheduler.
#![cfg(feature = "released")]

use crate::cases::{job, scheduler};
use crate::skipping::{case, simulation};
use blox::core::input::Input;
use blox::core::journal::Journal;
use blox::core::{
    Action, Assignment, ClusterSpec, Decision, Extras, GpuCount, GpuId, JobId, Pipeline, Reason,
    Share, Time,
};
use blox::sim::stepping::{Step, Stepper};
use blox::sim::workload::Jobs;
use blox::sim::{Report, Simulation};
use std::sync::{Arc, Mutex};

#[path = "../../examples/answers.rs"]
#[allow(dead_code, reason = "its `main` is for the example")]
mod answers;

#[test]
fn the_example_repeats_its_run_from_the_journal() {
    let (lines, again) = (answers::Lines::default(), answers::Lines::default());
    let mut jobs = answers::workload();
    let stepper = answers::stepper(&mut jobs, &lines).unwrap();
    let ends = answers::run(stepper, answers::shortest_first).unwrap();
    assert_eq!(ends, [900.0, 2400.0, 300.0, 900.0]);
    let journal = lines.0.lock().unwrap().clone();
    let read = blox::core::replay::inputs(&journal[..]);
    let decided = read.filter_map(|line| match line.unwrap().1 {
        Input::Decided { decision, .. } => Some(*decision),
        _ => None,
    });
    let mut decided: Vec<Decision> = decided.collect();
    decided.reverse();
    let mut jobs = answers::workload();
    let stepper = answers::stepper(&mut jobs, &again).unwrap();
    let recorded = |_: blox::core::View<'_>| decided.pop().unwrap();
    assert_eq!(answers::run(stepper, recorded).unwrap(), ends);
    assert_eq!(*again.0.lock().unwrap(), journal);
}

/// The inputs of a run.
#[derive(Clone, Default)]
struct Inputs(Arc<Mutex<Vec<Input>>>);

impl Journal for Inputs {
    fn record(&mut self, input: &Input) {
        self.0.lock().unwrap().push(input.clone());
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn run(
    simulation: &Simulation,
    scheduler: Pipeline,
    mut jobs: Jobs,
    pauses: bool,
    mut answer: impl FnMut() -> Option<Decision>,
) -> (Report, Vec<Input>) {
    let inputs = Inputs::default();
    let journal = Some(Box::new(inputs.clone()) as Box<dyn Journal>);
    let stepper = Stepper::journaled(simulation, scheduler, &mut jobs, journal).unwrap();
    let mut stepper = if pauses { stepper.pausing() } else { stepper };
    let mut questions = 0;
    loop {
        match stepper.step().unwrap() {
            Step::Question(at) => {
                assert_eq!(stepper.asked(), Some(at));
                questions += 1;
                if let Some(answer) = answer() {
                    assert_eq!(stepper.answer(&answer).unwrap(), Step::Decision(at));
                }
            }
            Step::End => break,
            Step::Event(..) | Step::Decision(_) => assert_eq!(stepper.asked(), None),
        }
    }
    assert_eq!(questions > 0, pauses);
    let inputs = std::mem::take(&mut *inputs.0.lock().unwrap());
    (stepper.report(), inputs)
}

/// The answers are the scheduler's own, one of two questions is left to the scheduler, or all are.
#[test]
fn answers_like_the_scheduler_change_nothing() {
    let mut answered = 0;
    for seed in 0..60 {
        let case = case(seed);
        let name = ["las{guard_h=2}", "srtf", "tiresias{promote=2}"][seed as usize % 3];
        let jobs = || Jobs::new(case.jobs.clone());
        let simulation = simulation(&case);
        let (plain, inputs) = run(&simulation, scheduler(name), jobs(), false, || None);
        let decisions = inputs.iter().filter_map(|input| match input {
            Input::Decided { decision, .. } => Some((**decision).clone()),
            _ => None,
        });
        let decisions: Vec<Decision> = decisions.collect();
        for every in [1, 2, usize::MAX] {
            let mut at = 0;
            let answer = || {
                at += 1;
                let own = every != usize::MAX && at % every == 0;
                answered += usize::from(own);
                own.then(|| decisions[at - 1].clone())
            };
            // A scheduler with memory must make all plans or none.
            if every == 2 && !name.starts_with("srtf") {
                continue;
            }
            let (report, ours) = run(&simulation, scheduler(name), jobs(), true, answer);
            assert_eq!(report.jobs, plain.jobs, "{name}, seed {seed}");
            assert_eq!(ours.len(), inputs.len(), "{name}, seed {seed}");
            for (ours, theirs) in ours.iter().zip(&inputs) {
                assert_eq!(ours, theirs, "{name}, seed {seed}");
            }
        }
    }
    assert!(answered > 1000, "{answered} answers");
}

#[test]
fn refused_answers_leave_the_question_open() {
    let mut jobs = Jobs::new(vec![job(0.0, 1, 400.0), job(0.0, 2, 400.0)]);
    let simulation = Simulation::new(ClusterSpec::uniform(1, 2));
    let stepper = Stepper::new(&simulation, scheduler("fifo"), &mut jobs).unwrap();
    let mut stepper = stepper.pausing();
    let early = stepper
        .answer(&Decision::default())
        .unwrap_err()
        .to_string();
    assert_eq!(early, "no question is open; a step leads to the next one");
    while stepper.step().unwrap() != Step::Question(Time::ZERO) {}
    let before = format!("{:?}", stepper.view().to_state());
    let place = |job: u32, gpus: &[u32]| Action::Place {
        job: JobId(job),
        assignment: Assignment::of(gpus.iter().map(|gpu| GpuId(*gpu))),
    };
    let plan = |actions: &[Action]| {
        let mut answer = Decision::default();
        answer.plan.actions = actions.to_vec();
        answer
    };
    let stop = |job: u32| Action::Stop {
        job: JobId(job),
        why: Reason::NotChosen,
    };
    let finish = |job: u32| Action::Finish {
        job: JobId(job),
        why: Reason::NotChosen,
    };
    let mut deferred = plan(&[place(0, &[0])]);
    let why = Reason::other("not yet");
    deferred.admissions.defer(JobId(0), why);
    let mut unknown = Decision::default();
    unknown.admissions.accept(JobId(9));
    for (answer, why) in [
        (
            plan(&[place(0, &[0]), place(1, &[0, 1])]),
            "the plan gives GPU 0 to job 1, but job 0 has it",
        ),
        (
            plan(&[place(0, &[7])]),
            "the plan gives job 0 GPU 7, which does not exist or may not be used",
        ),
        (
            plan(&[place(9, &[0])]),
            "the plan names job 9, which does not exist",
        ),
        (
            plan(&[place(0, &[0, 1])]),
            "the plan places job 0 on 2 GPUs, expected 1",
        ),
        (
            plan(&[place(0, &[0]), place(0, &[1])]),
            "the plan wants to place job 0 twice, expected once",
        ),
        (
            plan(&[place(0, &[0]), finish(0)]),
            "the plan wants to finish and to place job 0, expected one of them",
        ),
        (
            plan(&[finish(0), finish(0)]),
            "the plan wants to finish job 0 twice, expected once",
        ),
        (
            plan(&[stop(0)]),
            "the plan wants to stop job 0, which is waiting",
        ),
        (deferred, "the plan wants to place job 0, which is deferred"),
        (
            unknown,
            "1 node actions or admission decisions of the answer have no effect",
        ),
    ] {
        assert_eq!(stepper.answer(&answer).unwrap_err().to_string(), why);
        assert_eq!(stepper.asked(), Some(Time::ZERO));
        assert_eq!(format!("{:?}", stepper.view().to_state()), before);
    }
    // Outside, the larger job comes first.
    let step = stepper.answer(&plan(&[place(1, &[1, 0])])).unwrap();
    assert_eq!(step, Step::Decision(Time::ZERO));
    while stepper.step().unwrap() != Step::End {}
    let jobs = stepper.report().jobs;
    let ends: Vec<Option<Time>> = jobs.iter().map(|job| job.finish).collect();
    assert_eq!(ends, [1200.0, 600.0].map(|at| Some(Time::new(at))));
}

/// Answers about a running job, a job that ended, an elastic job and a job with parts of GPUs.
#[test]
fn refusals_name_job_found_and_expected() {
    let mut elastic = job(0.0, 2, 4000.0);
    elastic.extras = Some(Box::new(Extras {
        levels: vec![GpuCount(1), GpuCount(4)],
        ..Extras::default()
    }));
    let mut part = job(0.0, 1, 4000.0);
    part.extras = Some(Box::new(Extras {
        share: Share::parts(1, 2).unwrap(),
        ..Extras::default()
    }));
    let mut jobs = Jobs::new(vec![job(0.0, 1, 100.0), elastic, part]);
    let simulation = Simulation::new(ClusterSpec::uniform(1, 8));
    let stepper = Stepper::new(&simulation, scheduler("fifo"), &mut jobs).unwrap();
    let mut stepper = stepper.pausing();
    let place = |job: u32, gpus: &[u32]| Action::Place {
        job: JobId(job),
        assignment: Assignment::of(gpus.iter().map(|gpu| GpuId(*gpu))),
    };
    let answer = |stepper: &mut Stepper<'_>, actions: &[Action]| {
        let mut answer = Decision::default();
        answer.plan.actions = actions.to_vec();
        stepper.answer(&answer).map_err(|e| e.to_string())
    };
    while !matches!(stepper.step().unwrap(), Step::Question(_)) {}
    let wrong = |text: &str| Err(text.to_owned());
    assert_eq!(
        answer(&mut stepper, &[place(1, &[0, 1, 2])]),
        wrong("the plan places job 1 on 3 GPUs, expected 1 or 2 or 4")
    );
    assert_eq!(
        answer(&mut stepper, &[place(2, &[0])]),
        wrong("the plan gives job 2 all of each GPU, expected 1/2 (`share`)")
    );
    let mut half = Assignment::of([GpuId(7)]);
    half.share = Share::parts(1, 2).unwrap();
    let half = Action::Place {
        job: JobId(2),
        assignment: half,
    };
    let first = [place(0, &[0]), place(1, &[1, 2, 3, 4]), half];
    assert!(answer(&mut stepper, &first).is_ok());
    // Job 0 ends before the next question.
    while !matches!(stepper.step().unwrap(), Step::Question(_)) {}
    let before = format!("{:?}", stepper.view().to_state());
    let stop = |job: u32| Action::Stop {
        job: JobId(job),
        why: Reason::NotChosen,
    };
    for (actions, why) in [
        (
            vec![stop(1), stop(1)],
            "the plan wants to stop job 1 twice, expected once",
        ),
        (vec![stop(0)], "the plan names job 0, which has ended"),
        (
            vec![place(0, &[0])],
            "the plan names job 0, which has ended",
        ),
        (vec![stop(3)], "the plan names job 3, which does not exist"),
    ] {
        assert_eq!(answer(&mut stepper, &actions), wrong(why));
        assert_eq!(format!("{:?}", stepper.view().to_state()), before);
    }
}
