//! Answers of `blox step` to a question, as a line of JSON.

use blox_core::suggest::one_of;
use blox_core::{Action, Reason};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

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

/// Reads the steps of an answer. A stop without a reason has the reason that the job was not chosen,
/// and an end without a reason has the reason that it came from outside.
pub(super) fn steps_of(text: &str) -> Result<Vec<Action>, String> {
    let read = serde_json::from_str(text);
    let list: Vec<Value> = read.map_err(|e| format!("the answer is no list of steps: {e}"))?;
    serde_json::from_str::<Unique>(text).map_err(|e| format!("the answer is ambiguous: {e}"))?;
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
        let reason = match *kind {
            "finish" => Reason::other("ended from outside"),
            _ => Reason::NotChosen,
        };
        let reason = || serde_json::to_value(reason).unwrap_or_default();
        fields.entry("why").or_insert_with(reason);
    }
    serde_json::from_value(value).map_err(|e| format!("{place}: {e}"))
}

/// Any JSON without an object that has a key twice. [`Value`] keeps the last of two such values.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Unique)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Unique, A::Error> {
        while list.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Unique, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, Unique)) = object.next_entry::<String, Unique>()? {
            if !keys.insert(key.clone()) {
                let text = format!("an object has the key `{key}` twice, expected once");
                return Err(A::Error::custom(text));
            }
        }
        Ok(Unique)
    }
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
        let steps = steps_of(r#"[{"finish":{"job":3}}]"#);
        let finish = Action::Finish {
            job: JobId(3),
            why: Reason::other("ended from outside"),
        };
        assert_eq!(steps, Ok(vec![finish]));
    }

    #[test]
    fn a_key_twice_is_refused_by_name() {
        for (text, key) in [
            (r#"[{"stop":{"job":4},"stop":{"job":3}}]"#, "stop"),
            (r#"[{"promote":{"job":0,"job":1}}]"#, "job"),
            (
                r#"[{"place":{"job":0,"assignment":{"gpus":[0],"gpus":[1]}}}]"#,
                "gpus",
            ),
        ] {
            let why = format!(
                "the answer is ambiguous: an object has the key `{key}` twice, expected once"
            );
            let found = steps_of(text).unwrap_err();
            assert!(found.starts_with(&why), "{found}");
        }
        let same = steps_of(r#"[{"promote":{"job":0}},{"promote":{"job":1}}]"#);
        assert_eq!(same.unwrap().len(), 2);
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
