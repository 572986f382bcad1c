//! `blox step`: runs a simulation decision by decision.

mod answer;
mod question;
mod show;

use super::config::Given;
use super::run::nothing_ran;
use crate::failure::Failure;
use crate::output;
use crate::plan::Plan;
use crate::terminal::{DIFFERS, OK, Terminal};
use crate::text::plain;
use blox_core::journal::Journal;
use blox_core::suggest::nearest;
use blox_core::{
    Action, AdmissionDecision, Decision, Event, JobId, Outcome, Phase, Reason, Time, View,
};
use blox_experiment::value::parse_time;
use blox_registry::Registry;
use blox_results::losses::{self, cut_short};
use blox_results::statistics::mean;
use blox_results::{number_of, whole};
use blox_sim::Measure;
use blox_sim::stepping::{AnswerError, Step, Stepper};
use blox_sim::workload::Workload;
use std::collections::{BTreeMap, BTreeSet};

const HELP: &str = r#"  next [N]      the next decision, or the next N (an empty line: next)
  until T       the first decision from T on: 3600, 90m, 10h, 2d
  until job J   the next decision in which something happens to job J
  finish J      until job J has ended
  end           until the simulation ends
  queue [N]     jobs that wait, and why
  running [N]   jobs with GPUs
  nodes         nodes, and who holds their GPUs
  job J         one job
  why J         why a job is where it is
  plan          the last decision again
  ask           pauses before the next decision, and shows it as a line of JSON
  answer STEPS  decides in place of the scheduler, by a line of JSON such as
                [{"place":{"job":0,"assignment":{"gpus":[0,1]}}}]
  quit
"#;

pub(super) fn run(
    registry: &Registry,
    given: Given,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let plan = Plan::of(given, registry)?;
    let experiment = plan.only();
    let contestant = &experiment.contestants[0].label;
    let mut workload = experiment.workload()?;
    let about = workload.describe();
    let quiet = plan.options.quiet;
    // A trace is already checked. Other notices follow at the end.
    let first = losses::shown(workload.notices(), quiet);
    terminal.notices(first.iter().chain(&experiment.notices));
    let journals = output::open_journals(output::journals(&plan)?)?;
    let journal = journals.first().cloned();
    let stepper = Stepper::journaled(
        &experiment.counting(0, experiment.simulation(0)?),
        experiment.pipeline(0)?,
        &mut workload,
        journal.map(|journal| Box::new(journal) as Box<dyn Journal>),
    )?
    .pausing();
    let mut session = Session {
        stepper,
        round: Round::default(),
        came: Vec::new(),
        measure: experiment.measure.clone(),
        which: experiment.measured(),
        undecided: BTreeSet::new(),
        ended: BTreeMap::new(),
        over: false,
    };
    writeln!(
        terminal.out,
        "{} on {}; {}; `help` lists the commands",
        plain(contestant),
        plain(&experiment.cluster_line()),
        plain(&about)
    )?;
    let mut line = String::new();
    let (mut commands, mut refused) = (0_u64, 0_u64);
    loop {
        if terminal.prompts {
            write!(terminal.out, "blox> ")?;
            terminal.out.flush()?;
        }
        line.clear();
        let read = terminal.input.read_line(&mut line);
        if read.map_err(|e| Failure::new(format!("commands cannot be read: {e}")))? == 0 {
            break;
        }
        commands += 1;
        let answered = match parse(&line) {
            Ok(StepCommand::Quit) => break,
            Ok(command) => session.answer(&command)?,
            Err(why) => Err(format!("{}; `help` lists the commands\n", plain(&why))),
        };
        // An error must not end the session.
        refused += u64::from(answered.is_err());
        let (Ok(text) | Err(text)) = answered;
        terminal.out.write_all(text.as_bytes())?;
    }
    let (report, over) = (session.stepper.report(), session.over);
    let run = experiment.run_of(report, workload.notices(), about);
    for (collector, figures) in &run.collected {
        for (name, value) in figures {
            writeln!(terminal.out, "{collector}: {name} {value}")?;
        }
    }
    let mut later = losses::shown(workload.notices(), quiet);
    later.retain(|notice| !first.contains(notice));
    terminal.notices(later.iter().chain(&experiment.lacking(&run, quiet)));
    for journal in &journals {
        journal.close()?;
    }
    // Errors of a script must not go unnoticed.
    if refused > 0 && !terminal.prompts {
        let all = number_of(commands, "command");
        writeln!(terminal.err, "refused: {} of {all}", whole(refused))?;
    }
    if over {
        experiment.check_measured(&run)?;
        nothing_ran(&[&run], experiment.given.until.as_deref())?;
    }
    Ok(match refused > 0 && !terminal.prompts {
        true => DIFFERS,
        false => OK,
    })
}

/// A parsed command.
#[derive(Clone, Debug, PartialEq)]
enum StepCommand {
    Help,
    Next(u64),
    Until(Time),
    UntilJob(JobId),
    Finish(JobId),
    End,
    Queue(usize),
    Running(usize),
    Nodes,
    Job(JobId),
    Why(JobId),
    Plan,
    Ask,
    Answer(Vec<Action>),
    Quit,
}

/// Default number of jobs in a list.
const SHOWN: usize = 20;

/// The commands, for suggestions.
const COMMANDS: [&str; 14] = [
    "help", "next", "until", "end", "finish", "queue", "running", "nodes", "job", "why", "plan",
    "ask", "answer", "quit",
];

fn parse(line: &str) -> Result<StepCommand, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let job = |text: &str| {
        let wrong = |_| format!("`{text}` is no number of a job");
        text.parse().map(JobId).map_err(wrong)
    };
    let count = |text: Option<&&str>, default: u64| match text {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| format!("`{text}` is no whole number")),
    };
    Ok(match words.as_slice() {
        [] => StepCommand::Next(1),
        ["help" | "h" | "?"] => StepCommand::Help,
        ["next" | "n", rest @ ..] if rest.len() < 2 => StepCommand::Next(count(rest.first(), 1)?),
        ["until", "end"] | ["end"] => StepCommand::End,
        ["until", "job", j] => StepCommand::UntilJob(job(j)?),
        ["until", "finish", j] | ["finish", j] => StepCommand::Finish(job(j)?),
        ["until", t] => StepCommand::Until(parse_time(t).ok_or_else(|| {
            format!("`{t}` is no moment, expected seconds or such as 90m, 10h, 2d")
        })?),
        ["queue" | "q", rest @ ..] if rest.len() < 2 => {
            StepCommand::Queue(count(rest.first(), SHOWN as u64)? as usize)
        }
        ["running" | "r", rest @ ..] if rest.len() < 2 => {
            StepCommand::Running(count(rest.first(), SHOWN as u64)? as usize)
        }
        ["nodes"] => StepCommand::Nodes,
        ["job", j] => StepCommand::Job(job(j)?),
        ["why", j] => StepCommand::Why(job(j)?),
        ["plan"] => StepCommand::Plan,
        ["ask"] => StepCommand::Ask,
        ["answer", ..] => {
            let steps = line.trim_start().trim_start_matches("answer");
            StepCommand::Answer(answer::steps_of(steps)?)
        }
        ["quit" | "exit"] => StepCommand::Quit,
        [first, ..] => {
            let meant = nearest(first, COMMANDS)
                .map(|command| format!(" (did you mean `{command}`?)"))
                .unwrap_or_default();
            return Err(format!("`{}` is no command{meant}", line.trim()));
        }
    })
}

/// Events between two decisions.
#[derive(Default)]
struct Round {
    number: u64,
    at: Time,
    /// Time of the previous decision.
    before: Option<Time>,
    events: Vec<(Time, Event)>,
    /// Events since the decision.
    coming: Vec<(Time, Event)>,
    /// Jobs that the decision rejected, with the reasons.
    rejected: BTreeMap<JobId, Reason>,
    /// Counts right after the decision.
    now: show::Counts,
}

impl Round {
    /// Returns whether the round contains an event or action of a job.
    fn touches(&self, job: JobId, plan: &blox_core::Plan) -> bool {
        self.events.iter().any(|(_, e)| e.job() == Some(job))
            || plan.actions.iter().any(|a| a.job() == job)
    }
}

/// End of a job.
struct Gone {
    at: Time,
    submit: Time,
    outcome: Outcome,
    /// Why it was rejected.
    why: Option<Reason>,
}

/// Submission of a job.
struct Came {
    at: Time,
    measured: bool,
    service: bool,
}

struct Session<'w> {
    stepper: Stepper<'w>,
    round: Round,
    /// Submission of each job, by job number.
    came: Vec<Came>,
    measure: Measure,
    /// Describes the measured jobs, unless all are.
    which: Option<String>,
    /// Jobs that admission may still reject without an event.
    undecided: BTreeSet<JobId>,
    ended: BTreeMap<JobId, Gone>,
    over: bool,
}

impl Session<'_> {
    /// Executes a command. Returns its text, or why it was refused; both end with a line break.
    fn answer(&mut self, command: &StepCommand) -> Result<Result<String, String>, Failure> {
        let jobs = self.stepper.view().next_job_id().0;
        Ok(Ok(match command.clone() {
            StepCommand::Help => HELP.to_owned(),
            StepCommand::Next(n) => self.decisions(n)?,
            StepCommand::Until(t) => self.until(|session| session.round.at >= t)?,
            StepCommand::UntilJob(j) => {
                let touches = |session: &Self| session.round.touches(j, session.stepper.plan());
                let text = self.until(touches)?;
                return Ok(self.if_it_came(j, text));
            }
            StepCommand::Finish(j) => {
                let text = self.finish(j)?;
                return Ok(self.if_it_came(j, text));
            }
            StepCommand::End => self.until(|_| false)?,
            StepCommand::Queue(n) => show::queue(self.view(), self.stepper.plan(), n),
            StepCommand::Running(n) => show::running(self.view(), self.stepper.plan(), n),
            StepCommand::Nodes => show::nodes(self.view()),
            StepCommand::Job(j) | StepCommand::Why(j) if j.0 >= jobs => {
                format!("job {j} has not come in yet\n")
            }
            StepCommand::Job(j) => self.job(j),
            StepCommand::Why(j) => match self.ended.get(&j) {
                Some(_) => self.job(j),
                None => show::why(self.view(), self.stepper.plan(), j),
            },
            StepCommand::Plan => self.shown(),
            StepCommand::Ask => match self.ask()? {
                true => question::question(self.view(), self.stepper.asked()),
                false => self.end()?,
            },
            StepCommand::Answer(steps) => return self.take(steps),
            StepCommand::Quit => String::new(),
        }))
    }

    /// Advances until a job has ended.
    fn finish(&mut self, job: JobId) -> Result<String, Failure> {
        if self.ended.contains_key(&job) {
            return Ok(self.job(job));
        }
        let text = self.until(|session| session.ended.contains_key(&job))?;
        // The job may end with the simulation, after it, or not at all.
        let came = job < self.stepper.view().next_job_id();
        let of_job = (self.over && came).then(|| self.job(job));
        Ok(text + &of_job.unwrap_or_default())
    }

    /// Refuses a command about a job that did not come in before the end. Its text is shown first.
    fn if_it_came(&self, job: JobId, text: String) -> Result<String, String> {
        match self.over && job >= self.stepper.view().next_job_id() {
            true => Err(format!("{text}refused: job {job} has not come in\n")),
            false => Ok(text),
        }
    }

    fn view(&self) -> View<'_> {
        self.stepper.view()
    }

    fn job(&self, job: JobId) -> String {
        match self.ended.get(&job) {
            Some(gone) => {
                let why = gone.why.as_ref();
                let why = why.map_or_else(String::new, |why| format!(": {}", show::reason(why)));
                format!(
                    "job {job} ended at {}: {}, {} after it was submitted{why}\n",
                    show::s(gone.at.secs()),
                    gone.outcome.as_str(),
                    show::s((gone.at - gone.submit).secs())
                )
            }
            None => show::job(self.view(), self.stepper.plan(), job),
        }
    }

    /// Advances to the next question; returns false at the end.
    fn ask(&mut self) -> Result<bool, Failure> {
        if self.over || self.stepper.asked().is_some() {
            return Ok(!self.over);
        }
        loop {
            match self.stepper.step()? {
                Step::Event(at, event) => {
                    self.remember(at, &event);
                    self.round.coming.push((at, event));
                }
                Step::Question(_) => return Ok(true),
                // The stepper pauses before each decision.
                Step::Decision(_) => {}
                Step::End => {
                    self.over = true;
                    return Ok(false);
                }
            }
        }
    }

    /// Advances to the next decision of the scheduler; returns false at the end.
    fn decide(&mut self) -> Result<bool, Failure> {
        let asks = self.ask()?;
        if asks {
            let step = self.stepper.step()?;
            self.decided(&step);
        }
        Ok(asks)
    }

    fn decided(&mut self, step: &Step) {
        if let Step::Decision(at) = *step {
            let first = self.round.number == 0;
            self.round.before = (!first).then_some(self.round.at);
            self.round.number += 1;
            self.round.at = at;
            self.round.events = std::mem::take(&mut self.round.coming);
            self.find_rejected(at);
            self.round.now = show::Counts::of(self.stepper.view(), self.stepper.plan());
        }
    }

    /// Decides by steps from outside.
    fn take(&mut self, actions: Vec<Action>) -> Result<Result<String, String>, Failure> {
        let mut answer = Decision::default();
        answer.plan.actions = actions;
        answer.plan.otherwise = Reason::NotChosen;
        Ok(match self.stepper.answer(&answer) {
            Ok(step) => {
                self.decided(&step);
                Ok(self.shown())
            }
            Err(AnswerError::Simulation(error)) => return Err(error.into()),
            Err(refused) => Err(format!("refused: {}\n", plain(&refused.to_string()))),
        })
    }

    fn remember(&mut self, at: Time, event: &Event) {
        match event {
            Event::Submitted { job, spec } => {
                self.came.push(Came {
                    at: spec.submit,
                    measured: self.measure.includes(*job, spec.submit),
                    service: spec.extras().need.is_some(),
                });
                self.undecided.insert(*job);
            }
            Event::Ended { job, outcome } => {
                // A job that ended is no longer in the view.
                let submit = self.came.get(job.index()).map(|came| came.at);
                let gone = Gone {
                    at,
                    submit: submit.unwrap_or(at),
                    outcome: *outcome,
                    why: self.round.rejected.get(job).cloned(),
                };
                self.ended.insert(*job, gone);
            }
            _ => {}
        }
    }

    /// Finds jobs that the decision rejected: they disappear without an event.
    fn find_rejected(&mut self, at: Time) {
        let decided = self.stepper.decision().admissions.iter();
        let rejected = decided.filter_map(|(job, decision)| match decision {
            AdmissionDecision::Reject(why) => Some((*job, why.clone())),
            _ => None,
        });
        self.round.rejected = rejected.collect();
        for job in std::mem::take(&mut self.undecided) {
            match self.stepper.view().job(job).map(|j| j.phase()) {
                Some(Phase::Submitted | Phase::Deferred) => {
                    self.undecided.insert(job);
                }
                None if !self.ended.contains_key(&job) => {
                    let outcome = Outcome::Rejected;
                    let event = Event::Ended { job, outcome };
                    self.remember(at, &event);
                    self.round.events.push((at, event));
                }
                _ => {}
            }
        }
    }

    fn decisions(&mut self, n: u64) -> Result<String, Failure> {
        let mut text = String::new();
        for _ in 0..n {
            if !self.decide()? {
                text.push_str(&self.end()?);
                break;
            }
            text.push_str(&self.shown());
        }
        Ok(text)
    }

    fn until(&mut self, there: impl Fn(&Self) -> bool) -> Result<String, Failure> {
        let first = self.round.number;
        while self.decide()? {
            if there(self) {
                let passed = self.round.number - first - 1;
                let skipped = match passed {
                    0 => String::new(),
                    n => format!("({n} decisions passed)\n"),
                };
                return Ok(skipped + &self.shown());
            }
        }
        self.end()
    }

    fn shown(&self) -> String {
        if self.round.number == 0 {
            return "no decision yet; `next` makes one\n".to_owned();
        }
        show::round(self.view(), self.stepper.plan(), &self.round)
    }

    /// Describes the end, with the figures of the measured jobs.
    fn end(&mut self) -> Result<String, Failure> {
        let unsubmitted = self.stepper.unsubmitted()?;
        let came = |job: &JobId| self.came.get(job.index());
        let measured = |job: &JobId| came(job).is_some_and(|came| came.measured);
        let gone = || self.ended.iter().filter(|(job, _)| measured(job));
        let ended = |outcome| gone().filter(move |(_, g)| g.outcome == outcome).count() as u64;
        let ran = self.ended.values();
        let ran = ran.filter(|g| g.outcome != Outcome::Rejected);
        let last = ran.map(|g| g.at).max();
        let done =
            gone().filter(|(_, g)| matches!(g.outcome, Outcome::Completed | Outcome::Terminated));
        // A service has no completion time.
        let timed = done.filter(|(job, _)| came(job).is_some_and(|came| !came.service));
        let jct: Vec<f64> = timed.map(|(_, g)| (g.at - g.submit).secs()).collect();
        let last = last.map_or_else(String::new, |at| {
            format!("the last job at {}; ", show::s(at.secs()))
        });
        let average = mean(&jct).map_or_else(String::new, |average| {
            format!(", average JCT {}", show::s(average))
        });
        let early = ended(Outcome::Terminated);
        let completed = ended(Outcome::Completed) + early;
        let completed = match &self.which {
            None => number_of(completed, "job"),
            Some(which) => {
                let jobs = number_of(completed, "measured job");
                format!("{jobs} ({})", plain(which))
            }
        };
        let early = match early {
            0 => String::new(),
            n => format!(" ({} before all work was done)", whole(n)),
        };
        let others = [Outcome::Rejected, Outcome::Failed, Outcome::Cancelled];
        let others = others.map(|outcome| (ended(outcome), outcome.as_str()));
        let submitted = self.came.iter().filter(|came| came.measured).count();
        let left = (submitted - gone().count()) as u64 + unsubmitted;
        let others = others.into_iter().chain([(left, "unfinished")]);
        let others: String = others
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!(", {} {what}", whole(n)))
            .collect();
        let how = self.stepper.ended().zip(self.stepper.ended_at());
        let cut = how.and_then(|(how, at)| cut_short(how, at));
        let cut = cut.map_or_else(String::new, |text| format!("{text}\n"));
        Ok(format!(
            "the simulation has ended: {last}{completed} completed{early}{average}{others}\n{cut}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_understood() {
        let t = |s: f64| Time::new(s);
        for (line, command) in [
            ("", StepCommand::Next(1)),
            ("next 5\n", StepCommand::Next(5)),
            ("until 3600", StepCommand::Until(t(3600.0))),
            ("until 1.5h", StepCommand::Until(t(5400.0))),
            ("until job 17", StepCommand::UntilJob(JobId(17))),
            ("finish 17", StepCommand::Finish(JobId(17))),
            ("until end", StepCommand::End),
            ("queue", StepCommand::Queue(20)),
            ("why 17", StepCommand::Why(JobId(17))),
            ("quit", StepCommand::Quit),
        ] {
            assert_eq!(parse(line), Ok(command), "{line}");
        }
        for (line, why) in [
            ("jump", "`jump` is no command"),
            ("nxt 3", "`nxt 3` is no command (did you mean `next`?)"),
            ("next x", "`x` is no whole number"),
            ("why me", "`me` is no number of a job"),
            (
                "until -5",
                "`-5` is no moment, expected seconds or such as 90m, 10h, 2d",
            ),
            (
                "until é",
                "`é` is no moment, expected seconds or such as 90m, 10h, 2d",
            ),
        ] {
            assert_eq!(parse(line), Err(why.to_owned()));
        }
    }
}
