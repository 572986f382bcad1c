//! Checks that a scheduler keeps the rules that every backend relies on.

use super::cases::Cases;
use super::cluster::ScriptedCluster;
use super::coverage::Coverage;
use super::difference::{self, Steps};
use super::problem::{Place, Problem, Property, lock, near};
use super::renaming::{Renaming, Ties, acts};
use super::script::{Contents, Fault, Script};
use super::verify::verify;
use crate::random::SplitMix;
use blox_core::Request;
use blox_core::decision::{
    Action, AdmissionDecision, AdmissionDecisions, NodeAction, NodeActionKinds, NodeActions, Plan,
    Validity,
};
use blox_core::drive::drive;
use blox_core::event::{Event, Outcome};
use blox_core::ids::{JobId, Name};
use blox_core::input::Input;
use blox_core::job::JobRef;
use blox_core::job::Phase;
use blox_core::journal::Journal;
use blox_core::pipeline::{DecisionError, Pipeline, Scheduler};
use blox_core::policy::MemoryError;
use blox_core::reason::Reason;
use blox_core::replay::replay_inputs;
use blox_core::runtime::{Observers, Runtime};
use blox_core::state::State;
use blox_core::trigger::{DecisionTrigger, Rounds};
use blox_core::units::{Seconds, Time};
use blox_core::view::View;
use serde_json::Value;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A scheduler that breaks a rule, with the smallest failing case found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "policy `{policy}` {property}: case {case}, step {step}, at {at} s: expected {expected}, found {found}; rerun with `.only({case}).jobs({jobs})` or with this test:\n\n{}",
    self.test()
)]
pub struct Failure {
    /// The rule.
    pub property: Property,
    /// The scheduler's name.
    pub policy: Name,
    /// The seed of the case.
    pub case: u64,
    /// Number of jobs of the case.
    pub jobs: usize,
    /// Number of inputs before the violation was detected.
    pub step: u64,
    /// Virtual time of the violation.
    pub at: Time,
    /// Expected by the rule.
    pub expected: String,
    /// Found instead.
    pub found: String,
    /// The cluster, the jobs and the outside events of the case, for [`Suite::case`]. Empty if the
    /// scheduler could not be built.
    pub script: Box<str>,
}

impl Failure {
    /// Returns the source of a test that runs the same case. It contains the cluster and the jobs,
    /// so it stays the same if the cases of the suite change. Only the scheduler must be filled in.
    pub fn test(&self) -> String {
        let part = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = self.policy.chars().map(part).collect();
        let (name, case, script) = (name.to_lowercase(), self.case, &self.script);
        let numbers = match self.property {
            Property::JobNumbers => {
                "    let suite = suite.ignores_job_numbers(Ties::BySubmission);\n"
            }
            _ => "",
        };
        format!(
            "#[test]\n\
             fn policy_{name}_case_{case}_conforms() {{\n\
             \x20   let case = r#\"{script}\"#;\n\
             \x20   let suite = conformance(|seed| todo!(\"build the scheduler from {{seed}}\"));\n\
             {numbers}\
             \x20   suite.case(case).unwrap().check().unwrap();\n\
             }}\n"
        )
    }
}

/// A text that is no case of a suite; see [`Suite::case`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the case: {0}")]
pub struct CaseError(String);

/// Counters of a suite run that found no violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Cases.
    pub cases: u64,
    /// Runs: each case has several.
    pub runs: u64,
    /// Jobs submitted. This counter and all below count the first run of each case.
    pub jobs: u64,
    /// Jobs that did all their work.
    pub completed: u64,
    /// Events that the core accepted.
    pub events: u64,
    /// Decisions.
    pub decisions: u64,
    /// Placements in plans.
    pub placements: u64,
    /// Stops in plans.
    pub preemptions: u64,
    /// Launches that failed.
    pub failed_launches: u64,
    /// Launches lost by crashes, lost nodes and broken GPUs.
    pub crashes: u64,
    /// Nodes lost.
    pub nodes_lost: u64,
    /// Launches with a late report of their end.
    pub late_ends: u64,
    /// Clones and restored instances that were compared with their originals.
    pub shadows: u64,
    /// Jobs that were compared with themselves under another number.
    pub renamed: u64,
    /// Jobs that exchanged their numbers with others that were submitted at the same moment.
    pub exchanged: u64,
    /// Counts of what the scheduler did in these cases.
    pub coverage: Coverage,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cases, {} runs; {} of {} jobs completed, {} placements, {} preemptions, {} failed launches, {} crashes; {}",
            self.cases,
            self.runs,
            self.completed,
            self.jobs,
            self.placements,
            self.preemptions,
            self.failed_launches,
            self.crashes,
            self.coverage
        )
    }
}

/// A scheduler with its decision moments, as a suite tests it. Made from a [`Pipeline`], or from a
/// scheduler together with a trigger.
pub struct Subject {
    policy: Box<dyn Scheduler>,
    trigger: Box<dyn DecisionTrigger>,
    /// The pipeline, which knows the jobs that its placement could never place.
    pipeline: Option<Pipeline>,
}

impl From<Pipeline> for Subject {
    fn from(pipeline: Pipeline) -> Self {
        Subject {
            trigger: pipeline.trigger(),
            pipeline: Some(pipeline.clone()),
            policy: Box::new(pipeline),
        }
    }
}

impl<D: Scheduler + 'static, C: DecisionTrigger + 'static> From<(D, C)> for Subject {
    fn from((policy, trigger): (D, C)) -> Self {
        Subject {
            policy: Box::new(policy),
            trigger: Box::new(trigger),
            pipeline: None,
        }
    }
}

impl Subject {
    /// Lets a pipeline check what its policies state.
    fn checking(mut self) -> Self {
        if let Some(pipeline) = &self.pipeline {
            self.policy = Box::new(pipeline.clone().checking());
        }
        self
    }

    /// Creates a subject from any scheduler and the trigger of its decisions.
    pub fn new(policy: Box<dyn Scheduler>, trigger: Box<dyn DecisionTrigger>) -> Self {
        Subject {
            policy,
            trigger,
            pipeline: None,
        }
    }
}

/// Creates a conformance suite for the scheduler that `builder` creates from a seed; see [`Suite`].
///
/// ```
/// use blox_core::{Composition, order::SortKey, policy::by_key};
/// use blox_testing::{FirstFit, conformance};
///
/// let report = conformance(|_seed| {
///     Composition::new("fifo")
///         .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
///         .placement(FirstFit)
///         .build()
///         .expect("each role is taken once")
/// })
/// .cases(8)
/// .check()?;
/// assert_eq!(report.cases, 8);
/// # Ok::<(), blox_testing::Failure>(())
/// ```
pub fn conformance<'a, S: Into<Subject>>(builder: impl Fn(u64) -> S + Sync + 'a) -> Suite<'a> {
    let tested = TestedScheduler {
        build: Box::new(move |seed| builder(seed).into()),
        script: None,
        keeps: false,
        ties: None,
        patience: Duration::from_secs(10),
    };
    Cases::new(tested, 128)
}

/// Runs a scheduler through random small workloads on random small clusters with every kind of
/// [`Fault`], and checks every [`Property`] after every step. Time is virtual: a case follows
/// from its seed. Only the check for hanging policies uses a real clock; see [`Suite::patience`].
///
/// Each case has several runs. The second run must produce the same journal as the first. In it, a
/// [`Pipeline`] also [checks](Pipeline::checking) what its policies state about keys and jobs. A run
/// with clones and restored instances beside the scheduler must decide the same, and the instances
/// must change nothing. A run that visits every decision moment must give every job the same
/// outcome as a run that skips some. One case in sixteen is run with other job numbers, alone and
/// after another case. Finally, the case is replayed from its journal.
///
/// *Liveness.* All faults heal, users release the jobs that they held, and launches and jobs fail
/// at most four times in a row. A round is never longer than the scheduler's own (or 60 s). Every
/// job that fits must then end. Its deadline counts from the last moment with an outside event: 30
/// times the total length of all jobs, and 60 rounds a job. A job fits unless it requests more GPUs
/// than the cluster has, or the pipeline's placement states that it [could never
/// place](blox_core::PlacementPolicy::can_ever_place) the job. A pipeline rejects such jobs. A
/// scheduler that is not a pipeline must itself ensure that they do not block other jobs.
pub type Suite<'a> = Cases<TestedScheduler<'a>>;

/// The scheduler that a [`Suite`] tests.
pub struct TestedScheduler<'a> {
    build: Box<dyn Fn(u64) -> Subject + Sync + 'a>,
    /// The only case; replaces the seeds.
    script: Option<Arc<Script>>,
    keeps: bool,
    /// Set if the scheduler ignores job numbers.
    ties: Option<Ties>,
    patience: Duration,
}

impl Suite<'_> {
    /// Runs only this case, which a [`Failure`] printed. A test with the case stays the same if
    /// the cases of the suite change.
    ///
    /// # Errors
    /// The text is no case.
    pub fn case(mut self, script: &str) -> Result<Self, CaseError> {
        let script = Script::from_text(script).map_err(CaseError)?;
        (self.first, self.count) = (script.seed, 1);
        self.tested.script = Some(Arc::new(script));
        Ok(self)
    }

    /// Declares that the scheduler places the jobs of a virtual cluster only on nodes of the
    /// partition with that name, or of no partition. The suite then checks
    /// [`Property::VirtualClusters`].
    #[must_use]
    pub fn keeps_virtual_clusters(mut self) -> Self {
        self.tested.keeps = true;
        self
    }

    /// Declares that the scheduler ignores the numbers of jobs: under other numbers, each job fares the
    /// same. The suite then runs each case again with other numbers, and checks
    /// [`Property::JobNumbers`].
    ///
    /// A policy that orders jobs by number, or derives noise from numbers, depends on the order of
    /// submission or on chance. Equal jobs need some order, so `ties` states what decides about them.
    ///
    /// ```
    /// use blox_core::{Composition, order::SortKey, policy::by_key};
    /// use blox_testing::{FirstFit, Property, Ties, conformance};
    ///
    /// let build = |_seed| {
    ///     let noise = by_key(|job| SortKey::by(f64::from(job.id().0.wrapping_mul(0x9e37_79b9))));
    ///     Composition::new("noise").scheduling(noise).placement(FirstFit).build().unwrap()
    /// };
    /// let failure = conformance(build).ignores_job_numbers(Ties::BySubmission).check().unwrap_err();
    /// assert_eq!(failure.property, Property::JobNumbers);
    /// ```
    #[must_use]
    pub fn ignores_job_numbers(mut self, ties: Ties) -> Self {
        self.tested.ties = Some(ties);
        self
    }

    /// Leaves out one kind of fault.
    #[must_use]
    pub fn without(mut self, fault: Fault) -> Self {
        self.contents.faults = self.contents.faults.without(fault);
        self
    }

    /// Sets the longest real time that a policy may take for one call; 10 s by default. A policy
    /// that takes longer [hangs](Property::Hang). Such a call cannot be ended: its thread continues
    /// until the call returns or the process ends.
    #[must_use]
    pub fn patience(mut self, longest: Duration) -> Self {
        self.tested.patience = longest;
        self
    }

    /// Runs all cases, each in its own thread.
    ///
    /// # Errors
    /// The first rule that the scheduler broke, in the case with the fewest jobs that still breaks
    /// it.
    pub fn check(&self) -> Result<Report, Failure> {
        let mut report = Report::default();
        for case in self.seeds() {
            report = self
                .run_case(case, self.contents.most_jobs, report)
                .map_err(|failure| self.shrink(failure))?;
            report.cases += 1;
        }
        Ok(report)
    }

    /// Returns the same failure with fewer jobs if one is found.
    fn shrink(&self, failure: Failure) -> Failure {
        if failure.property == Property::Hang {
            // Each hanging case leaves a thread behind.
            return failure;
        }
        for jobs in 1..failure.jobs {
            let smaller = self.run_case(failure.case, jobs, Report::default());
            if let Err(smaller) = smaller
                && smaller.property == failure.property
            {
                return smaller;
            }
        }
        failure
    }

    /// Runs a case and adds its counters to the report.
    fn run_case(&self, seed: u64, jobs: usize, report: Report) -> Result<Report, Failure> {
        let place = Place::default();
        let (sender, messages) = mpsc::channel();
        let case = Case {
            seed,
            contents: self.contents_of(jobs),
            script: self.tested.script.clone(),
            keeps: self.tested.keeps,
            ties: self.tested.ties,
            fresh: Fresh(sender.clone()),
            place: place.clone(),
        };
        // A call can only be abandoned if it runs in another thread.
        std::thread::spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| case.run_all(report)));
            let result = result.unwrap_or_else(|panic| Err(panicked(&*panic)));
            // If the case took too long, its channel has no receiver any more.
            let _ = sender.send(Message::Over(Box::new(result)));
        });
        let problem = match self.attend(&messages, &place) {
            Ok(report) => return Ok(report),
            Err(problem) => problem,
        };
        let at = place.lock();
        Err(Failure {
            property: problem.property,
            policy: at.policy.clone().unwrap_or_else(|| Name::from("?")),
            case: seed,
            jobs: at.jobs,
            step: at.step,
            at: at.at,
            expected: problem.expected,
            found: problem.found,
            script: at
                .script
                .as_ref()
                .map(|s| s.to_text())
                .unwrap_or_default()
                .into(),
        })
    }

    /// Builds schedulers for a case until the case ends or a call exceeds the time limit.
    fn attend(&self, messages: &mpsc::Receiver<Message>, place: &Place) -> Result<Report, Problem> {
        const LOOKS: u32 = 10;
        let (mut looks, mut last) = (0, None);
        loop {
            match messages.recv_timeout(self.tested.patience / LOOKS) {
                Ok(Message::Build(seed, answer)) => {
                    let built = catch_unwind(AssertUnwindSafe(|| (self.tested.build)(seed)));
                    let _ = answer.send(built.map_err(|p| blox_core::core::panic_message(&*p)));
                }
                Ok(Message::Over(result)) => return *result,
                Err(RecvTimeoutError::Disconnected) => {
                    let found = "the case ended without a word".to_owned();
                    return Err(Problem::new(Property::Panic, "a result".to_owned(), found));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let at = place.lock();
                    let same = at.call.is_some() && at.call == last;
                    looks = if same { looks + 1 } else { 0 };
                    last = at.call;
                    if let Some((_, call)) = at.call
                        && looks >= LOOKS
                    {
                        let limit = self.tested.patience.as_secs_f64();
                        return Err(Problem::new(
                            Property::Hang,
                            format!("an answer to `{call}` within {limit} s"),
                            "none: an endless loop, or too long a search".to_owned(),
                        ));
                    }
                }
            }
        }
    }
}

/// Messages from the thread of a case.
enum Message {
    /// The case needs the scheduler of a seed.
    Build(u64, mpsc::Sender<Result<Subject, String>>),
    /// The case has ended.
    Over(Box<Result<Report, Problem>>),
}

/// Requests schedulers from the thread that called `check`: the builder may borrow from that
/// thread.
#[derive(Clone)]
struct Fresh(mpsc::Sender<Message>);

impl Fresh {
    fn build(&self, seed: u64) -> Subject {
        let (sender, answer) = mpsc::channel();
        let _ = self.0.send(Message::Build(seed, sender));
        match answer.recv() {
            Ok(Ok(subject)) => subject,
            // The panic has already been printed. It continues here.
            Ok(Err(panic)) => resume_unwind(Box::new(panic)),
            // The suite has abandoned this case.
            Err(_) => resume_unwind(Box::new("given up")),
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Problem {
    let found = blox_core::core::panic_message(panic);
    Problem::new(Property::Panic, "no panic".to_owned(), found)
}

/// A case, run in its own thread.
struct Case {
    seed: u64,
    contents: Contents,
    script: Option<Arc<Script>>,
    keeps: bool,
    ties: Option<Ties>,
    fresh: Fresh,
    place: Place,
}

impl Case {
    fn build(&self) -> Subject {
        self.fresh.build(self.seed)
    }

    fn run_all(&self, mut report: Report) -> Result<Report, Problem> {
        let subject = self.build();
        self.place.lock().policy = Some(Name::from(subject.policy.name()));
        let own = subject.trigger.period();
        let trigger = subject.trigger.clone();
        let round = own.unwrap_or(Seconds::new(60.0));
        let script = Arc::new(match &self.script {
            Some(script) => script.first(self.contents.most_jobs),
            None => Script::of(self.seed, round, &self.contents),
        });
        {
            let mut place = self.place.lock();
            place.jobs = script.jobs.len();
            place.script = Some(Arc::clone(&script));
        }

        let plain = self.run(&script, subject, Mode::Plain)?;
        own.map_or(Ok(()), |own| has_period(&*trigger, own, &plain.journal))?;
        plain.count(&mut report);

        let again = self.run(&script, self.build().checking(), Mode::Again)?;
        same_journal(Property::Determinism, &plain.journal, &again.journal)?;

        // Clones first: a clone that shares data disturbs every other comparison. A large case takes
        // the time of all others, so it leaves them out.
        let shadows = match script.is_large() {
            true => &[][..],
            false => &[Property::Clone, Property::Restore],
        };
        for &property in shadows {
            let mode = Mode::Shadows(property);
            let beside = self.run(&script, self.build(), mode)?;
            report.shadows += beside.shadows;
            same_journal(property, &plain.journal, &beside.journal)?;
        }

        let rounds = |subject: Subject| match own {
            Some(_) => subject,
            // The validity must hold for any decision moments.
            None => Subject {
                trigger: Rounds::every(round).map_or(subject.trigger, |r| Box::new(r)),
                ..subject
            },
        };
        let visited = self.run(&script, rounds(self.build()), Mode::Visit)?;
        let again;
        let skipped = match own {
            Some(_) => &plain,
            None => {
                again = self.run(&script, rounds(self.build()), Mode::Again)?;
                &again
            }
        };
        same_books(skipped, &visited, &self.place)?;
        report.runs += 3 + shadows.len() as u64 + u64::from(own.is_none());

        // A scheduler must decide the same if stops and launches take no time and are not reported.
        if script.is_instant() {
            let instant = self.run(&script, self.build(), Mode::Instant)?;
            same_books_at_once(&plain, &instant)?;
            report.runs += 1;
        }

        if let Some(ties) = self.ties {
            let renaming = Renaming::of(&script, ties);
            self.run_renamed(&script, &plain, &renaming)?;
            report.runs += 1;
            report.renamed += script.jobs.len() as u64;
            report.exchanged += renaming.exchanged();
        }

        if self.seed.is_multiple_of(RENUMBERED) {
            report.runs += self.run_after_another(&script, round)?;
        }

        let subject = self.build();
        let state = state_of(&script)?;
        let nobody = &mut Observers::default();
        let (policy, trigger) = (subject.policy, subject.trigger);
        let differs = |found: String| {
            let expected = "the decisions of the journal".to_owned();
            Problem::new(Property::Replay, expected, found)
        };
        let journal = elsewhere(plain.journal).map_err(|e| differs(e.to_string()))?;
        replay_inputs(journal, state, trigger, policy, nobody)
            .map(|_| report)
            .map_err(|e| differs(e.to_string()))
    }

    /// Checks that the jobs of a case fare the same under other numbers.
    fn run_renamed(
        &self,
        script: &Script,
        plain: &Run,
        renaming: &Renaming,
    ) -> Result<(), Problem> {
        let renamed = Arc::new(renaming.apply(script));
        let run = self.run(&renamed, self.build(), Mode::Again)?;
        let wrong = |expected: String, found: String| {
            Err(Problem::new(Property::JobNumbers, expected, found))
        };
        let (before, after) = (acts(&plain.journal, |job| job), renaming.acts(&run.journal));
        let same = before.iter().zip(&after).take_while(|(a, b)| a == b);
        let same = same.count();
        let show = |acts: Option<&_>| acts.map_or("nothing".to_owned(), ToString::to_string);
        if before.len() != same || after.len() != same {
            let numbers = (0..script.jobs.len() as u32).map(|old| {
                let old = JobId(old);
                format!("{old} as {}", renaming.number(old))
            });
            let numbers: Vec<String> = numbers.collect();
            return wrong(
                format!("under any numbers of the jobs, {}", show(before.get(same))),
                format!(
                    "{}, if the jobs have other numbers ({})",
                    show(after.get(same)),
                    numbers.join(", ")
                ),
            );
        }
        for (old, ending) in plain.books.iter().enumerate() {
            let new = renaming.number(JobId(old as u32));
            let other = &run.books[new.index()];
            if ending != other {
                return wrong(
                    format!(
                        "job {old} to fare the same under any number: {}",
                        self::show(ending)
                    ),
                    format!("{}, as job {new}", self::show(other)),
                );
            }
        }
        Ok(())
    }

    /// Checks that a policy keeps no data of job numbers in a static. Runs the case under numbers
    /// that no run has used, alone and after another case with the same numbers. Returns the number
    /// of runs.
    ///
    /// A policy may depend on the numbers themselves, for example for noise. Therefore a difference
    /// counts only if it is the same under eight other ranges of numbers.
    fn run_after_another(&self, script: &Script, round: Seconds) -> Result<u64, Problem> {
        const REPETITIONS: u64 = 8;
        let contents = Contents {
            most_jobs: script.jobs.len(),
            ..self.contents.clone()
        };
        let other = Script::of(self.seed + 1, round, &contents);
        let mut first: Option<[Vec<Option<Ending>>; 2]> = None;
        for repetition in 0..=REPETITIONS {
            let mut ends = [const { Vec::new() }; 2];
            for (after_other, ends) in [false, true].into_iter().zip(&mut ends) {
                let number = fresh_numbers(script.jobs.len().max(other.jobs.len()));
                if after_other {
                    // A problem of the other case belongs to that case.
                    let other = Arc::new(other.numbered_from(number));
                    let _ = self.run(&other, self.build(), Mode::Again);
                }
                let case = Arc::new(script.numbered_from(number));
                let mut run = self.run(&case, self.build(), Mode::Again)?;
                *ends = run.books.split_off(number);
            }
            let [alone, after] = &ends;
            if alone == after || first.as_ref().is_some_and(|f| *f != ends) {
                return Ok(3 * (repetition + 1));
            }
            first.get_or_insert(ends);
        }
        let ends = first.unwrap_or_default();
        let Some((job, alone, after)) = first_difference(&ends[0], &ends[1]) else {
            return Ok(0);
        };
        let (alone, after) = (show(alone), show(after));
        Err(Problem::new(
            Property::Determinism,
            format!("job {job} to fare the same in every run of the case: {alone}"),
            format!(
                "{after}, once case {} ran in this process with the same job numbers: \
                 the policy keeps data of jobs outside its memory",
                other.seed
            ),
        ))
    }

    fn run(&self, script: &Arc<Script>, subject: Subject, mode: Mode) -> Result<Run, Problem> {
        let journal = Recorded::default();
        let mut core = Runtime::new(state_of(script)?, subject.trigger)
            .with_journal(Box::new(journal.clone()))
            .visiting_every_round(mode == Mode::Visit);
        let impossible: Vec<bool> = match &subject.pipeline {
            Some(p) => self
                .place
                .during("can_ever_place", Time::ZERO, || impossible(script, p))?,
            None => vec![false; script.jobs.len()],
        };
        let mut watched = Watched {
            inner: subject.policy,
            fresh: self.fresh.clone(),
            seed: script.seed,
            dice: SplitMix::keyed(&[script.seed, 2]),
            shadows: Vec::new(),
            made: 0,
            beside: match mode {
                Mode::Shadows(property) => Some(property),
                _ => None,
            },
            problem: None,
            panicked: None,
            books: vec![None; script.jobs.len()],
            validity: Validity::UntilEvent,
            validities: Vec::new(),
            coverage: Coverage::default(),
            keeps: self.keeps,
            place: self.place.clone(),
        };
        let mut cluster = ScriptedCluster::new(
            script,
            matches!(mode, Mode::Plain | Mode::Visit | Mode::Instant),
            &self.place,
        );
        cluster.instant = mode == Mode::Instant;
        let driven = drive(&mut core, &mut watched, &mut cluster);
        self.place.lock().at = cluster.now();
        // A problem of a shadow explains its consequences.
        if let Some((at, step, problem)) = watched.problem.take() {
            let mut place = self.place.lock();
            (place.at, place.step) = (at, step);
            return Err(problem);
        }
        let counters = core.counters();
        if core.observers().failed() > 0 {
            // The core continues although the policy has not processed the event. Later violations
            // may be consequences of that.
            let (at, found) = watched.panicked.take().unwrap_or_default();
            self.place.lock().at = at;
            let expected = "every event to be observed".to_owned();
            return Err(Problem::new(Property::Panic, expected, found));
        }
        driven?;
        if counters.stale_steps > 0 {
            return Err(Problem::new(
                Property::Answers,
                "answers about jobs and nodes that can take them".to_owned(),
                format!("{} that nothing could be done about", counters.stale_steps),
            ));
        }
        self.account(script, &cluster, &watched.books, &impossible, &core)?;
        if mode == Mode::Plain {
            let idle = (core.state().clone(), watched.inner.clone());
            let grown = || grows_for_ever(idle.0, idle.1, script.round);
            self.place.during(MANAGE, core.view().now(), grown)?;
        }
        let journal = std::mem::take(&mut *lock(&journal.0));
        Ok(Run {
            journal,
            books: std::mem::take(&mut watched.books),
            validities: std::mem::take(&mut watched.validities),
            shadows: watched.made,
            coverage: watched.coverage,
            cluster,
            counters,
        })
    }

    /// Checks the outcome of every job at the end.
    fn account(
        &self,
        script: &Script,
        cluster: &ScriptedCluster,
        books: &[Option<Ending>],
        impossible: &[bool],
        core: &Runtime,
    ) -> Result<(), Problem> {
        let view = core.view();
        let wrong = |property, expected, found| Err(Problem::new(property, expected, found));
        let (mut accounted, installed) = (0.0, script.cluster.total_gpus());
        let jobs = script.jobs.iter().zip(books).enumerate();
        for (i, (spec, ending)) in jobs.skip(script.first) {
            let id = JobId(i as u32);
            let fits = u64::from(spec.gpus.get()) <= installed && !impossible[i];
            let Some(ending) = ending else {
                let Some(job) = view.job(id) else {
                    return wrong(
                        Property::Accounting,
                        format!("job {i} to be there, or to have ended"),
                        "neither".to_owned(),
                    );
                };
                if fits {
                    let decided = core.last_decision() >= Some(job.eligible_since());
                    let why = match job.phase() {
                        // Plans contain the reasons of all waiting jobs except those that they
                        // stop.
                        Phase::Waiting if decided => core.reason_for(id),
                        _ => job.reason(),
                    };
                    return wrong(
                        Property::Liveness,
                        format!(
                            "job {i} ({} GPUs) to end by {} s",
                            spec.gpus, script.horizon
                        ),
                        format!(
                            "it is {} (launches: {}, preemptions: {}): {why}",
                            job.phase(),
                            job.attempt(),
                            job.preemptions(),
                        ),
                    );
                }
                accounted += job.work_done();
                continue;
            };
            accounted += ending.work;
            if Some(ending.outcome) != cluster.outcome(i) && ending.outcome != Outcome::Rejected {
                return wrong(
                    Property::Accounting,
                    format!(
                        "job {i} as the cluster saw it end: {}",
                        cluster.outcome(i).map_or("not at all", |o| o.as_str())
                    ),
                    ending.outcome.as_str().to_owned(),
                );
            }
            let all = spec.work.iterations;
            if ending.outcome == Outcome::Completed && !near(ending.work, all) {
                return wrong(
                    Property::Work,
                    format!("job {i} to have completed with {all} iterations"),
                    ending.work.to_string(),
                );
            }
            if !cluster.jobs[i].can_have_attained(ending.attained) {
                return wrong(
                    Property::Work,
                    format!("job {i} to have run for {} s", cluster.jobs[i].attained),
                    ending.attained.to_string(),
                );
            }
        }
        let kept = cluster.tally.executed - cluster.tally.lost;
        // Running jobs have progressed beyond the accounts of the cluster.
        if !near(accounted, kept) {
            return wrong(
                Property::Work,
                format!("{kept} iterations, as executed and not lost"),
                format!("{accounted} accounted for"),
            );
        }
        Ok(())
    }
}

/// One in how many cases is run again with other job numbers.
const RENUMBERED: u64 = 16;

/// Returns the first of some consecutive job numbers that no case of this process has used. Starts
/// again after some thousands, because a state with many numbers takes time.
fn fresh_numbers(jobs: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const FIRST: usize = 64;
    FIRST + NEXT.fetch_add(jobs, Ordering::Relaxed) % 4096
}

fn state_of(script: &Script) -> Result<State, Problem> {
    let wrong = |what: &str, error: &dyn fmt::Display| {
        Problem::new(Property::Accounting, what.to_owned(), error.to_string())
    };
    let mut state =
        State::new(&script.cluster).map_err(|e| wrong("a cluster that makes sense", &e))?;
    for (i, spec) in script.jobs.iter().enumerate().take(script.first) {
        let (job, outcome) = (JobId(i as u32), Outcome::Rejected);
        let spec = Arc::clone(spec);
        for event in [
            Event::Submitted { job, spec },
            Event::Ended { job, outcome },
        ] {
            let applied = state.apply(Time::ZERO, &event);
            applied.map_err(|e| wrong("a job that ended before the case", &e))?;
        }
        state.retire(job);
    }
    Ok(state)
}

/// Flags the jobs that the placement states it could never place.
fn impossible(script: &Script, pipeline: &Pipeline) -> Result<Vec<bool>, Problem> {
    let mut state = state_of(script)?;
    let mut list = vec![false; script.first];
    for (i, spec) in script.jobs.iter().enumerate().skip(script.first) {
        let job = JobId(i as u32);
        let event = Event::Submitted {
            job,
            spec: Arc::clone(spec),
        };
        state.apply(spec.submit, &event).map_err(|e| {
            let expected = "a job that makes sense".to_owned();
            Problem::new(Property::Accounting, expected, e.to_string())
        })?;
        let view = View::of(&state);
        list.push(
            view.job(job)
                .is_some_and(|j| pipeline.can_ever_place(view, &j).is_err()),
        );
    }
    Ok(list)
}

/// The way in which a case is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    Again,
    Shadows(Property),
    Visit,
    Instant,
}

struct Run {
    journal: Vec<Input>,
    books: Vec<Option<Ending>>,
    validities: Vec<(Time, Validity)>,
    shadows: u64,
    coverage: Coverage,
    cluster: ScriptedCluster,
    counters: blox_core::core::Counters,
}

impl Run {
    fn count(&self, report: &mut Report) {
        let tally = &self.cluster.tally;
        report.jobs += self.books.len() as u64;
        report.completed += tally.completed;
        report.events += self.counters.events;
        report.decisions += self.counters.decisions;
        report.placements += self.counters.placements;
        report.preemptions += self.counters.preemptions;
        report.failed_launches += tally.failed_launches;
        report.crashes += tally.crashes;
        report.nodes_lost += tally.nodes_lost;
        report.late_ends += tally.late_ends;
        report.coverage.add(&self.coverage);
    }
}

/// The end of a job according to the state.
#[derive(Clone, Debug, PartialEq)]
struct Ending {
    at: Time,
    outcome: Outcome,
    work: f64,
    attained: f64,
    first_start: Option<Time>,
    preemptions: u32,
    launches: u32,
}

/// A journal in memory.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<Input>>>);

impl Journal for Recorded {
    fn record(&mut self, input: &Input) {
        lock(&self.0).push(input.clone());
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Moves the jobs of a journal to other addresses in memory, in reverse order. In the replay, a
/// policy that orders jobs by addresses then decides otherwise.
fn elsewhere(mut journal: Vec<Input>) -> serde_json::Result<Vec<Input>> {
    for input in journal.iter_mut().rev() {
        if let Input::Event {
            event: Event::Submitted { spec, .. },
            ..
        } = input
        {
            // Through text, so that names are other ones too.
            let text = serde_json::to_value(&**spec)?.to_string();
            *spec = serde_json::from_str(&text)?;
        }
    }
    Ok(journal)
}

/// Checks that the rounds of a trigger have the length that it states.
fn has_period(
    trigger: &dyn DecisionTrigger,
    period: Seconds,
    journal: &[Input],
) -> Result<(), Problem> {
    for input in journal {
        let Input::Due { at } = input else { continue };
        let next = trigger.following(*at);
        let length = next.map(|next| next - *at);
        if !length.is_some_and(|length| near(length.secs(), period.secs())) {
            return Err(Problem::new(
                Property::Statement,
                format!("rounds of {period} s, as the trigger states"),
                match length {
                    Some(length) => format!("a round of {length} s from {at} s on"),
                    None => format!("no round after {at} s"),
                },
            ));
        }
    }
    Ok(())
}

fn same_journal(property: Property, expected: &[Input], found: &[Input]) -> Result<(), Problem> {
    match difference::of_journals(expected, found) {
        Some((expected, found)) => Err(Problem::new(property, expected, found)),
        None => Ok(()),
    }
}

/// Returns the first job with different ends, with both.
fn first_difference<'a>(
    a: &'a [Option<Ending>],
    b: &'a [Option<Ending>],
) -> Option<(usize, &'a Option<Ending>, &'a Option<Ending>)> {
    let pairs = a.iter().zip(b).enumerate();
    let mut different = pairs.filter(|(_, (a, b))| a != b);
    different.next().map(|(job, (a, b))| (job, a, b))
}

fn show(ending: &Option<Ending>) -> String {
    match ending {
        Some(e) => format!(
            "{} at {} s (launches: {}, preemptions: {}, {})",
            e.outcome.as_str(),
            e.at,
            e.launches,
            e.preemptions,
            match e.first_start {
                Some(at) => format!("first start: {at} s"),
                None => "never started".to_owned(),
            }
        ),
        None => "no end".to_owned(),
    }
}

/// Checks that every job has the same end if no decision moment is skipped.
fn same_books(skipped: &Run, visited: &Run, place: &Place) -> Result<(), Problem> {
    let Some((job, a, b)) = first_difference(&skipped.books, &visited.books) else {
        return Ok(());
    };
    let (a, b) = (show(a), show(b));
    let parting = difference::of_visits(&skipped.journal, &skipped.validities, &visited.journal);
    let (expected, found) = match parting {
        Some(parting) => {
            place.lock().at = parting.at;
            let found = parting.found;
            let found = format!("{found}; for job {job} it is {b} then, and {a} otherwise");
            (parting.expected, found)
        }
        None => (
            format!("job {job} to fare the same when no decision moment is skipped: {b}"),
            format!("{a} when they are"),
        ),
    };
    Err(Problem::new(Property::Validity, expected, found))
}

/// Checks that every job has the same end whether launches and stops are reported one by one or
/// not.
fn same_books_at_once(reported: &Run, instant: &Run) -> Result<(), Problem> {
    match first_difference(&reported.books, &instant.books) {
        None => Ok(()),
        Some((job, a, b)) => Err(Problem::new(
            Property::Determinism,
            format!("job {job} to fare the same whether launches are reported or not: {a:?}"),
            format!("{b:?} where they take effect in one step"),
        )),
    }
}

/// An instance that decides beside the scheduler, with the property that it checks.
#[derive(Clone)]
struct Shadow {
    property: Property,
    policy: Box<dyn Scheduler>,
}

// Names of a policy's calls in failures.
const MANAGE: &str = "manage";
const ADMIT: &str = "admit";
const PLAN: &str = "plan (schedule, then place)";

/// The scheduler under test. Each of its calls is repeated on its shadows.
struct Watched {
    inner: Box<dyn Scheduler>,
    fresh: Fresh,
    seed: u64,
    dice: SplitMix,
    shadows: Vec<Shadow>,
    made: u64,
    /// The property that the shadows check; `None` without shadows.
    beside: Option<Property>,
    problem: Option<(Time, u64, Problem)>,
    /// The first panic of the scheduler while it processed an event.
    panicked: Option<(Time, String)>,
    books: Vec<Option<Ending>>,
    /// The validity of the parts of the current decision that are made.
    validity: Validity,
    /// The validity of each past decision.
    validities: Vec<(Time, Validity)>,
    coverage: Coverage,
    /// True if jobs must stay in their virtual clusters.
    keeps: bool,
    place: Place,
}

impl Clone for Watched {
    fn clone(&self) -> Self {
        Watched {
            inner: self.inner.clone(),
            fresh: self.fresh.clone(),
            seed: self.seed,
            dice: self.dice.clone(),
            shadows: self.shadows.clone(),
            made: self.made,
            beside: self.beside,
            problem: self.problem.clone(),
            panicked: self.panicked.clone(),
            books: self.books.clone(),
            validity: self.validity,
            validities: self.validities.clone(),
            coverage: self.coverage,
            keeps: self.keeps,
            place: self.place.clone(),
        }
    }
}

impl Watched {
    fn fail(&mut self, view: View<'_>, problem: Problem) {
        if self.problem.is_none() {
            self.problem = Some((view.now(), self.place.lock().step, problem));
        }
    }

    /// Adds a new clone or restored instance at random, in place of an old one.
    fn maybe_shadow(&mut self, view: View<'_>) {
        let Some(property) = self.beside else {
            return;
        };
        if !self.dice.chance(0.15) {
            return;
        }
        let policy = if property == Property::Restore {
            match self.restored(view.now()) {
                Ok(policy) => policy,
                Err(e) => {
                    let expected = "a fresh instance to take the saved memory".to_owned();
                    return self.fail(view, Problem::new(property, expected, e.to_string()));
                }
            }
        } else {
            let clone = || self.inner.clone();
            self.place.during("clone", view.now(), clone)
        };
        self.made += 1;
        // Keeps young and old shadows: some mistakes take time to show.
        if self.shadows.len() == 2 {
            let i = self.dice.below(2);
            self.shadows.remove(i);
        }
        self.shadows.push(Shadow { property, policy });
    }

    fn restored(&self, now: Time) -> Result<Box<dyn Scheduler>, MemoryError> {
        let mut policy = self.fresh.build(self.seed).policy;
        let saved = self.place.during("save", now, || self.inner.save())?;
        if let Some(memory) = saved {
            // Passes through text, as in a daemon.
            let text = memory.to_string();
            let memory =
                serde_json::from_str(&text).map_err(|e| MemoryError::Restore(e.to_string()))?;
            let restore = || policy.restore(memory);
            self.place.during("restore", now, restore)?;
        }
        Ok(policy)
    }

    fn compare<T: PartialEq + Steps + fmt::Debug>(
        &mut self,
        view: View<'_>,
        (call, what): (&'static str, &str),
        expected: &T,
        ask: impl Fn(&mut dyn Scheduler) -> T,
    ) {
        let mut shadows = std::mem::take(&mut self.shadows);
        for shadow in &mut shadows {
            let asked = || ask(&mut *shadow.policy);
            let found = self.place.during(call, view.now(), asked);
            if found != *expected {
                let (expected, found) = difference::of_answers(what, expected, &found);
                let problem = Problem::new(shadow.property, expected, found);
                self.fail(view, problem);
            }
        }
        self.shadows = shadows;
    }
}

/// Returns a problem for the first answer of a decision that cannot take effect. The answers are
/// applied one after another.
fn futile(view: View<'_>, answers: impl Iterator<Item = Event>) -> Option<Problem> {
    let mut answers = answers.peekable();
    answers.peek()?;
    let mut state = view.to_state();
    for answer in answers {
        let Err(error) = state.apply(view.now(), &answer) else {
            if let Event::AdmissionDecided { job, .. } = answer {
                state.retire(job);
            }
            continue;
        };
        let found = match answer {
            Event::AdmissionDecided { job, admission } => {
                let admission = difference::admission(&admission);
                let is = what_is(View::of(&state), job);
                format!("`{admission}` for job {job}, which {is}")
            }
            Event::NodeManaged { action } => format!("`{action:?}`: {error}"),
            _ => error.to_string(),
        };
        let expected = "answers about jobs and nodes that can take them".to_owned();
        return Some(Problem::new(Property::Answers, expected, found));
    }
    None
}

/// Checks that the view of an unfinished decision agrees with the resulting state.
fn agrees(view: View<'_>) -> Result<(), Problem> {
    verify(view)?;
    let state = view.to_state();
    let show = |view: View<'_>| {
        let ids = |jobs: &mut dyn Iterator<Item = JobRef<'_>>| -> Vec<(JobId, Phase, Time)> {
            jobs.map(|j| (j.id(), j.phase(), j.eligible_since()))
                .collect()
        };
        format!(
            "version {}, waiting {:?}, deferred {:?}, placed {:?}, touched {:?}, demand {}, nodes {:?}",
            view.version(),
            ids(&mut view.waiting()),
            ids(&mut view.deferred()),
            ids(&mut view.placed()),
            ids(&mut view.touched()),
            view.demand(),
            view.nodes()
                .map(|n| (n.status(), n.free_count(), n.partition()))
                .collect::<Vec<_>>(),
        )
    };
    let (expected, found) = (show(View::of(&state)), show(view));
    match expected == found {
        true => Ok(()),
        false => Err(Problem::new(Property::Accounting, expected, found)),
    }
}

/// Returns the first job named by requests that does not exist. A placement skips it silently.
fn unknown(view: View<'_>, requests: &[Request]) -> Option<JobId> {
    let mut named = requests.iter().flat_map(Request::jobs);
    named.find(|job| view.job(*job).is_none())
}

/// Checks that a cluster manager stops requesting nodes once no job is left. `state` is the state at
/// the end of a case.
fn grows_for_ever(
    mut state: State,
    mut policy: Box<dyn Scheduler>,
    round: f64,
) -> Result<(), Problem> {
    const ROUNDS: u32 = 64;
    let before = state.cluster().nodes().len();
    let impossible = |e: blox_core::state::EventError| {
        let expected = "actions on nodes that can take them".to_owned();
        Problem::new(Property::Answers, expected, e.to_string())
    };
    for _ in 0..ROUNDS {
        let mut actions = NodeActions::default();
        policy.manage(View::of(&state), &mut actions);
        let requests = |action: &NodeAction| matches!(action, NodeAction::Grow { .. });
        if !actions.iter().any(requests) {
            return Ok(());
        }
        let mut events: Vec<Event> = Vec::new();
        for action in actions.iter().filter(|action| requests(action)).cloned() {
            let event = Event::NodeManaged { action };
            state.apply(state.now(), &event).map_err(impossible)?;
        }
        for growth in state.cluster().growing() {
            let offer = state.cluster().offer(growth.offer);
            let names = growth.names.iter().zip(offer.into_iter().cycle());
            let named = names.map(|(name, offer)| {
                let mut spec = Box::new(offer.spec.clone());
                spec.name = Some(name.clone());
                Event::NodeJoined { spec }
            });
            events.extend(named);
        }
        let at = state.now() + Seconds::new(round);
        for event in events {
            state.apply(at, &event).map_err(impossible)?;
            policy.on_event(View::of(&state), &event);
        }
    }
    let nodes = state.cluster().nodes().len() - before;
    Err(Problem::new(
        Property::Growth,
        "no more nodes once no job is left".to_owned(),
        format!("requests for nodes in each of {ROUNDS} rounds: {nodes} more nodes"),
    ))
}

/// Returns a problem for the first rejection without a reason.
fn unreasoned(answers: &AdmissionDecisions) -> Option<Problem> {
    let silent = |why: &Reason| {
        let none = matches!(why, Reason::NotYetDecided | Reason::NotChosen);
        none || why.to_string().trim().is_empty()
    };
    answers.iter().find_map(|(job, answer)| match answer {
        AdmissionDecision::Reject(why) if silent(why) => Some(Problem::new(
            Property::Answers,
            format!("a reason for the rejection of job {job}"),
            format!("`{why}`"),
        )),
        _ => None,
    })
}

/// Returns a problem for the first job that a plan ends at its goal although it never ran and has
/// work to do.
fn unworked(view: View<'_>, plan: &Plan) -> Option<Problem> {
    plan.actions.iter().find_map(|action| {
        let Action::Finish { job, .. } = action else {
            return None;
        };
        let ended = view.job(*job)?;
        let idle = ended.attempt() == 0 && ended.truth().work().iterations > 0.0;
        idle.then(|| {
            let expected = "jobs that were launched before they are ended at their goal".to_owned();
            let found = format!("the end of job {job}, which was never launched");
            Problem::new(Property::Work, expected, found)
        })
    })
}

/// Returns a problem for the first job of a plan that gets a GPU of a node that does not serve the
/// job's virtual cluster.
fn strays(view: View<'_>, plan: &Plan) -> Option<Problem> {
    let cluster = view.cluster();
    plan.actions.iter().find_map(|action| {
        let Action::Place { job, assignment } = action else {
            return None;
        };
        let own = view.job(*job)?.virtual_cluster()?;
        let mut others = assignment.gpus.iter().filter_map(|&gpu| {
            let node = cluster.node_with(gpu)?;
            let other = node.partition().filter(|p| *p != own)?;
            Some((gpu, other))
        });
        let (gpu, other) = others.next()?;
        let name = |id| view.names().get(id).map_or("?", Name::as_str);
        Some(Problem::new(
            Property::VirtualClusters,
            format!("job {job} on GPUs of virtual cluster `{}`", name(own)),
            format!("GPU {gpu}, whose node serves `{}`", name(other)),
        ))
    })
}

/// Describes the state of a job. The text follows the word "which".
fn what_is(view: View<'_>, job: JobId) -> String {
    match view.job(job) {
        Some(job) if job.held_by_user() => "a user holds back".to_owned(),
        Some(job) => format!("is {}", job.phase()),
        None if job < view.next_job_id() => "has ended".to_owned(),
        None => "does not exist".to_owned(),
    }
}

impl Scheduler for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn on_event(&mut self, view: View<'_>, event: &Event) {
        self.maybe_shadow(view);
        if let Some(job) = event.job().and_then(|j| view.job(j))
            && job.phase() == Phase::Ended
        {
            let outcome = match event {
                Event::Ended { outcome, .. } => *outcome,
                _ => Outcome::Rejected,
            };
            self.books[job.id().index()] = Some(Ending {
                at: view.now(),
                outcome,
                work: job.work_done(),
                attained: job.attained_time().secs(),
                first_start: job.first_start(),
                preemptions: job.preemptions(),
                launches: job.attempt(),
            });
        }
        let (inner, shadows) = (&mut self.inner, &mut self.shadows);
        let notify = || {
            for shadow in shadows {
                shadow.policy.on_event(view, event);
            }
            inner.on_event(view, event);
        };
        let notify = || self.place.during("on_event", view.now(), notify);
        let result = catch_unwind(AssertUnwindSafe(notify));
        if let Err(panic) = result {
            // The core catches and counts the panic, but drops its message.
            let failure = || (view.now(), blox_core::core::panic_message(&*panic));
            self.panicked.get_or_insert_with(failure);
            resume_unwind(panic);
        }
    }

    fn on_launches(&mut self, view: View<'_>, plan: &Plan) {
        let (inner, shadows) = (&mut self.inner, &mut self.shadows);
        let notify = || {
            for shadow in shadows {
                shadow.policy.on_launches(view, plan);
            }
            inner.on_launches(view, plan);
        };
        let notify = || self.place.during("on_launches", view.now(), notify);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(notify)) {
            let failure = || (view.now(), blox_core::core::panic_message(&*panic));
            self.panicked.get_or_insert_with(failure);
            resume_unwind(panic);
        }
    }

    fn save(&self) -> Result<Option<Value>, MemoryError> {
        self.inner.save()
    }

    fn restore(&mut self, saved: Value) -> Result<(), MemoryError> {
        self.inner.restore(saved)
    }

    fn actions(&self) -> NodeActionKinds {
        self.inner.actions()
    }

    fn manage(&mut self, view: View<'_>, out: &mut NodeActions) -> Validity {
        self.maybe_shadow(view);
        let ask = || self.inner.manage(view, out);
        let validity = self.place.during(MANAGE, view.now(), ask);
        self.validity = validity;
        let managed = |action: &NodeAction| Event::NodeManaged {
            action: action.clone(),
        };
        if let Some(problem) = futile(view, out.iter().map(managed)) {
            self.fail(view, problem);
        }
        self.coverage.manages(out);
        let expected = (validity, out.clone());
        self.compare(view, (MANAGE, "the node actions"), &expected, |p| {
            let mut out = NodeActions::default();
            (p.manage(view, &mut out), out)
        });
        validity
    }

    fn admit(
        &mut self,
        view: View<'_>,
        asking: &[JobId],
        out: &mut AdmissionDecisions,
    ) -> Validity {
        // `out` may already contain admission decisions of the core.
        let before = out.clone();
        let ask = || self.inner.admit(view, asking, out);
        let validity = self.place.during(ADMIT, view.now(), ask);
        self.validity = self.validity.and(validity);
        let judged = |(job, admission): &(JobId, AdmissionDecision)| Event::AdmissionDecided {
            job: *job,
            admission: admission.clone(),
        };
        if let Some(problem) = futile(view, out.iter().map(judged)) {
            self.fail(view, problem);
        }
        if let Some(problem) = unreasoned(out) {
            self.fail(view, problem);
        }
        self.coverage.admits(out, before.iter().count());
        let expected = (validity, out.clone());
        self.compare(view, (ADMIT, "the admissions"), &expected, |p| {
            let mut out = before.clone();
            (p.admit(view, asking, &mut out), out)
        });
        validity
    }

    fn plan(&mut self, view: View<'_>, out: &mut Plan) -> Result<Validity, DecisionError> {
        let before = out.clone();
        if let Err(problem) = agrees(view) {
            self.fail(view, problem);
        }
        if self.beside == Some(Property::Clone) && self.dice.chance(0.1) {
            // A forecast that is discarded must have no effect.
            let look = || {
                let mut ahead = self.inner.clone();
                let _ = ahead.plan(view, &mut before.clone());
            };
            self.place.during(PLAN, view.now(), look);
        }
        let ask = || self.inner.plan(view, out);
        let validity = self.place.during(PLAN, view.now(), ask);
        if let Ok(validity) = validity {
            self.validities
                .push((view.now(), self.validity.and(validity)));
        }
        if let Some(job) = unknown(view, self.inner.requested()) {
            let expected = "requests for jobs that are there".to_owned();
            let found = format!("one that names job {job}, which {}", what_is(view, job));
            self.fail(view, Problem::new(Property::Plan, expected, found));
        }
        if let Some(problem) = unworked(view, out) {
            self.fail(view, problem);
        }
        self.coverage.plans(view, self.inner.requested(), out);
        if self.keeps
            && let Some(problem) = strays(view, out)
        {
            self.fail(view, problem);
        }
        let expected = (validity.clone(), out.clone());
        self.compare(view, (PLAN, "the plan"), &expected, |p| {
            let mut out = before.clone();
            (p.plan(view, &mut out), out)
        });
        validity
    }
}
