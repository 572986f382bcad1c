//! Finds and describes the first difference between two runs or two answers.

use super::listed;
use blox_core::assignment::Assignment;
use blox_core::decision::{
    Action, AdmissionDecision, AdmissionDecisions, Decision, NodeActions, Plan, Validity,
};
use blox_core::event::Event;
use blox_core::input::Input;
use blox_core::pipeline::DecisionError;
use blox_core::units::Time;
use std::fmt;

/// An answer as a list of steps. Two answers that differ have a step that differs.
pub(crate) trait Steps {
    fn steps(&self) -> Vec<String>;
}

impl Steps for (Validity, NodeActions) {
    fn steps(&self) -> Vec<String> {
        let actions = self.1.iter().map(|a| format!("{a:?}"));
        actions.chain([validity(self.0)]).collect()
    }
}

impl Steps for (Validity, AdmissionDecisions) {
    fn steps(&self) -> Vec<String> {
        let admissions = self.1.iter();
        let admissions = admissions.map(|(job, v)| format!("{} for job {job}", admission(v)));
        admissions.chain([validity(self.0)]).collect()
    }
}

impl Steps for (Result<Validity, DecisionError>, Plan) {
    fn steps(&self) -> Vec<String> {
        let (outcome, plan) = self;
        let mut steps: Vec<String> = plan.actions.iter().map(action).collect();
        for (job, why) in &plan.waits {
            steps.push(format!("job {job} waits: {why}"));
        }
        for (gpus, why) in &plan.waits_by_gpus {
            steps.push(format!("other jobs with {gpus} GPUs wait: {why}"));
        }
        steps.push(format!("all others wait: {}", plan.otherwise));
        steps.push(match outcome {
            Ok(answer) => validity(*answer),
            Err(error) => error.to_string(),
        });
        steps
    }
}

impl Steps for Decision {
    fn steps(&self) -> Vec<String> {
        let plan = || (Ok(self.validity), self.plan.clone()).steps();
        let actions = self.actions.iter().map(|a| format!("{a:?}"));
        let admissions = self.admissions.iter();
        let admissions = admissions.map(|(job, v)| format!("{} for job {job}", admission(v)));
        actions.chain(admissions).chain(plan()).collect()
    }
}

/// Describes an admission decision.
pub(crate) fn admission(admission: &AdmissionDecision) -> String {
    match admission {
        AdmissionDecision::Accept {
            class: None,
            deadline: None,
        } => "accept".to_owned(),
        AdmissionDecision::Accept { class, deadline } => {
            let class = class.map(|c| format!("class {c:?}"));
            let deadline = deadline.map(|d| format!("deadline {d} s"));
            let terms: Vec<String> = class.into_iter().chain(deadline).collect();
            format!("accept ({})", terms.join(", "))
        }
        AdmissionDecision::Defer(why) => format!("defer ({why})"),
        AdmissionDecision::Reject(why) => format!("reject ({why})"),
    }
}

/// Describes an action of a plan.
pub(crate) fn action(action: &Action) -> String {
    match action {
        Action::Stop { job, why } => format!("stop job {job} ({why})"),
        Action::Place { job, assignment } => {
            let place = format!("place job {job} on GPUs {}", listed(&assignment.gpus));
            match *assignment == Assignment::of(assignment.gpus.clone()) {
                true => place,
                false => format!("{place}: {assignment:?}"),
            }
        }
        Action::Finish { job, why } => format!("finish job {job} ({why})"),
        Action::Promote { job } => format!("promote job {job}"),
        other => format!("{other:?}"),
    }
}

fn validity(validity: Validity) -> String {
    match validity {
        Validity::NextRound => "validity: next round".to_owned(),
        Validity::Until(t) => format!("validity: until {t} s"),
        Validity::UntilEvent => "validity: stable".to_owned(),
    }
}

/// The first difference between a run that skips decision moments and one that visits all of them.
pub(crate) struct Parting {
    pub at: Time,
    pub expected: String,
    pub found: String,
}

/// Returns the first moment at which the two runs act differently. Takes both journals, and the
/// validities of the run that skips moments.
pub(crate) fn of_visits(
    skipping: &[Input],
    validities: &[(Time, Validity)],
    visiting: &[Input],
) -> Option<Parting> {
    let skipping = acts(skipping);
    let mut decided = skipping.iter().peekable();
    for (at, visited) in acts(visiting) {
        let skipped = decided.next_if(|(t, _)| *t <= at);
        let because = || match validities.iter().rev().find(|(t, _)| *t < at) {
            Some((since, latest)) => format!("as of {since} s ({})", validity(*latest)),
            None => "before all validities".to_owned(),
        };
        let found = |act: &str| format!("`{act}` when no moment is skipped");
        match skipped {
            None if visited.is_empty() => {}
            None => {
                return Some(Parting {
                    at,
                    expected: format!("nothing to do at {at} s, {}", because()),
                    found: found(&visited[0]),
                });
            }
            Some((t, acts)) if *t == at && *acts == visited => {}
            Some((t, acts)) if *t == at => {
                let same = acts.iter().zip(&visited).take_while(|(a, b)| a == b);
                let same = same.count();
                let act = |acts: &[String]| acts.get(same).map_or("nothing", |a| a).to_owned();
                let (expected, instead) = apart(&act(acts), &act(&visited));
                return Some(Parting {
                    at,
                    expected: format!("`{expected}` at {at} s, {}", because()),
                    found: found(&instead),
                });
            }
            Some(_) => return None,
        }
    }
    None
}

/// Returns the actions of each decision of a journal, without entries that repeat the current
/// state.
fn acts(journal: &[Input]) -> Vec<(Time, Vec<String>)> {
    let (mut list, mut acts, mut managed) = (Vec::new(), Vec::new(), Vec::new());
    for input in journal {
        match input {
            Input::Event {
                event: Event::NodeManaged { action },
                ..
            } if !managed.contains(action) => {
                acts.push(format!("{action:?}"));
                managed.push(action.clone());
            }
            Input::Decided { at, decision, .. } => {
                for done in decision.actions.iter() {
                    if !managed.contains(done) {
                        acts.push(format!("{done:?}"));
                        managed.push(done.clone());
                    }
                }
                let answers = decision.admissions.iter();
                let answers = answers.filter(|(_, v)| !matches!(v, AdmissionDecision::Defer(_)));
                acts.extend(answers.map(|(job, v)| format!("{} for job {job}", admission(v))));
                acts.extend(decision.plan.actions.iter().map(action));
                list.push((*at, std::mem::take(&mut acts)));
            }
            _ => {}
        }
    }
    list
}

/// Describes the first difference of two answers: the expected step and the found step.
pub(crate) fn of_answers<T: Steps + fmt::Debug>(what: &str, a: &T, b: &T) -> (String, String) {
    let steps = (a.steps(), b.steps());
    let same = steps.0.iter().zip(&steps.1).take_while(|(a, b)| a == b);
    let same = same.count();
    let at = |steps: &[String]| steps.get(same).map_or("nothing", |s| s).to_owned();
    let (which, a, b) = if steps.0 == steps.1 {
        // The steps do not show every field of an answer.
        (String::new(), format!("{a:?}"), format!("{b:?}"))
    } else {
        let which = format!("step {} of ", same + 1);
        (which, at(&steps.0), at(&steps.1))
    };
    let (a, b) = apart(&a, &b);
    (format!("{which}{what} to be `{a}`"), format!("`{b}`"))
}

/// Describes the first input in which two journals differ.
pub(crate) fn of_journals(a: &[Input], b: &[Input]) -> Option<(String, String)> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let pair = (a.get(same), b.get(same));
    if let (
        Some(Input::Decided {
            at, decision: a, ..
        }),
        Some(Input::Decided {
            at: t, decision: b, ..
        }),
    ) = pair
        && at == t
    {
        let what = match a.actions == b.actions && a.admissions == b.admissions {
            true => "the plan",
            false => "the decision",
        };
        return Some(of_answers(&format!("{what} of {at} s"), &**a, &**b));
    }
    let text = |input: Option<&Input>| input.map_or("nothing".to_owned(), |i| format!("{i:?}"));
    let (a, b) = match pair {
        (None, None) => return None,
        (a, b) => apart(&text(a), &text(b)),
    };
    let expected = format!("input {} of the journal to be `{a}`", same + 1);
    Some((expected, format!("`{b}`")))
}

/// Cuts two long texts to a part that starts shortly before their first difference.
fn apart(a: &str, b: &str) -> (String, String) {
    const MOST: usize = 240;
    const BEFORE: usize = 40;
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let from = match same + BEFORE > MOST {
        true => same - BEFORE,
        false => 0,
    };
    let part = |text: &str| {
        let mut part: String = text.chars().skip(from).take(MOST).collect();
        if from > 0 {
            part.insert_str(0, "...");
        }
        if text.chars().nth(from + MOST).is_some() {
            part.push_str("...");
        }
        part
    };
    (part(a), part(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::ids::{GpuId, JobId};

    #[test]
    fn long_plans_are_compared_by_the_step_that_differs() {
        let plan = |last: u32| {
            let place = |job: u32| Action::Place {
                job: JobId(job),
                assignment: Assignment::of([GpuId(job)]),
            };
            let plan = Plan {
                actions: (0..50).chain([last]).map(place).collect(),
                ..Plan::default()
            };
            (Ok(Validity::UntilEvent), plan)
        };
        let (expected, found) = of_answers("the plan", &plan(50), &plan(60));
        let step = "step 51 of the plan to be `place job 50 on GPUs 50`";
        assert_eq!(expected, step);
        assert_eq!(found, "`place job 60 on GPUs 60`");

        let journal = |last, at| {
            let decision = Decision {
                plan: plan(last).1,
                ..Decision::default()
            };
            let decided = Input::Decided {
                at: Time::new(at),
                question: 1,
                decision: Box::new(decision),
                instant: Default::default(),
            };
            [Input::Due { at: Time::ZERO }, decided]
        };
        let first = journal(50, 300.0);
        assert_eq!(of_journals(&first, &first), None);
        let (expected, found) = of_journals(&first, &journal(60, 300.0)).unwrap();
        let step = "step 51 of the plan of 300 s to be `place job 50 on GPUs 50`";
        assert_eq!(expected, step);
        assert_eq!(found, "`place job 60 on GPUs 60`");
        let (expected, found) = of_journals(&first, &first[..1]).unwrap();
        assert!(expected.starts_with("input 2 of the journal to be `Decided {"));
        assert_eq!(found, "`nothing`");
        let (_, found) = of_journals(&first, &journal(60, 600.0)).unwrap();
        assert!(found.starts_with("`Decided {"), "{found}");

        // A plan that ends earlier than the other.
        let mut shorter = plan(50);
        shorter.1.actions.pop();
        let (_, found) = of_answers("the plan", &plan(50), &shorter);
        assert_eq!(found, "`all others wait: not yet decided`");
    }

    #[test]
    fn long_texts_are_shown_where_they_part() {
        let text = |end| format!("{}{end}", "a".repeat(1000));
        let (a, b) = apart(&text('b'), &text('c'));
        assert_eq!(a, format!("...{}b", "a".repeat(40)));
        assert_eq!(b, format!("...{}c", "a".repeat(40)));
        assert_eq!(apart("b", "c"), ("b".to_owned(), "c".to_owned()));
    }
}
