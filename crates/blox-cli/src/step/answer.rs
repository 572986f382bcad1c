//! Answers of `blox step` to a question, as a line of JSON.

use blox_core::suggest::one_of;
use blox_core::{Action, Reason};
use serde_json::{Map, Value};

/// The kinds of steps, with the keys of each.
const STEPS: [(&str, &[&str]); 5] = [
    ("place", &["job", "assignment"]),
    ("stop", &["job", "why"]),
    ("finish", &["job", "why"]),
    ("promote", &["job"]),
    ("notify", &["job", "by"]),
];

/// The keys of an assignment.
const ASSIGNMENT: [&str; 5] = ["gpus", "share", "cpus", "memory_gib", "config"];

/// Reads the steps of an answer. A stop without a reason has the reason that the job was not chosen.
pub(super) fn steps_of(text: &str) -> Result<Vec<Action>, String> {
    let read = serde_json::from_str(text);
    let list: Vec<Value> = read.map_err(|e| format!("the answer is no list of steps: {e}"))?;
    let steps = list.into_iter().zip(1..);
    steps
        .map(|(value, number)| step_of(value, number))
        .collect()
}

/// Reads one step.
fn step_of(mut value: Value, number: u32) -> Result<Action, String> {
    let kinds = STEPS.map(|(kind, _)| kind);
    let one = value.as_object().is_some_and(|step| step.len() == 1);
    let step = value.as_object_mut().filter(|_| one);
    let Some((kind, fields)) = step.and_then(|step| step.iter_mut().next()) else {
        let example = r#"one step such as {"stop":{"job":0}}"#;
        return Err(format!("step {number} is `{value}`, expected {example}"));
    };
    let Some((kind, keys)) = STEPS.iter().find(|(known, _)| known == kind) else {
        let expected = one_of(kind, kinds);
        return Err(format!("step {number} is `{kind}`, expected {expected}"));
    };
    let job = fields
        .get("job")
        .map_or_else(String::new, |job| format!(" of job {job}"));
    let place = format!("step {number}, the {kind}{job}");
    let Some(fields) = fields.as_object_mut() else {
        return Err(format!(
            "{place}: found `{fields}`, expected an object with the key `job`"
        ));
    };
    known_keys(fields, keys, &place)?;
    if let Some(assignment) = fields.get("assignment").and_then(Value::as_object) {
        known_keys(assignment, &ASSIGNMENT, &place)?;
    }
    if keys.contains(&"why") {
        let reason = || serde_json::to_value(Reason::NotChosen).unwrap_or_default();
        fields.entry("why").or_insert_with(reason);
    }
    serde_json::from_value(value).map_err(|e| format!("{place}: {e}"))
}

/// Refuses an unknown key.
fn known_keys(fields: &Map<String, Value>, known: &[&str], place: &str) -> Result<(), String> {
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(format!(
            "{place}: found the key `{key}`, expected {}",
            one_of(key, known.iter().copied())
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::JobId;

    #[test]
    fn answers_without_reasons_have_the_default() {
        let steps = steps_of(r#"[{"stop":{"job":3}},{"promote":{"job":4}}]"#);
        let stop = Action::Stop {
            job: JobId(3),
            why: Reason::NotChosen,
        };
        assert_eq!(steps, Ok(vec![stop, Action::Promote { job: JobId(4) }]));
    }

    #[test]
    fn wrong_answers_name_step_job_and_expectation() {
        for (text, why) in [
            (
                r#"[{"stop":{"job":1}},{"plce":{"job":0}}]"#,
                "step 2 is `plce`, expected one of place, stop, finish, promote, notify; did you mean \
                 `place`?",
            ),
            (
                r#"[{"place":{"job":7,"gpus":[0]}}]"#,
                "step 1, the place of job 7: found the key `gpus`, expected one of job, assignment",
            ),
            (
                r#"[{"place":{"job":7,"assignment":{"gpu":[0]}}}]"#,
                "step 1, the place of job 7: found the key `gpu`, expected one of gpus, share, cpus, \
                 memory_gib, config; did you mean `gpus`?",
            ),
            (
                r#"[{"stop":{"job":1},"finish":{"job":1}}]"#,
                r#"step 1 is `{"finish":{"job":1},"stop":{"job":1}}`, expected one step such as {"stop":{"job":0}}"#,
            ),
            (
                "[7]",
                r#"step 1 is `7`, expected one step such as {"stop":{"job":0}}"#,
            ),
            (
                r#"[{"stop":7}]"#,
                "step 1, the stop: found `7`, expected an object with the key `job`",
            ),
        ] {
            assert_eq!(steps_of(text), Err(why.to_owned()));
        }
        let negative = steps_of(r#"[{"stop":{"job":-1}}]"#).unwrap_err();
        assert!(
            negative.starts_with("step 1, the stop of job -1: invalid value"),
            "{negative}"
        );
        assert!(
            steps_of("place 0")
                .unwrap_err()
                .contains("no list of steps")
        );
    }
}
