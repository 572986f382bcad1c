//! Access to the JSON of Slurm's commands, whose forms differ by version.

use serde_json::Value;

/// Returns a number; `None` if there is none, or if it is not set or infinite.
///
/// Since version 23.02, a number is an object with `set`, `infinite` and `number`.
pub(crate) fn number(value: &Value, key: &str) -> Option<u64> {
    let value = value.get(key)?;
    let plain = |v: &Value| {
        let float = || v.as_f64().filter(|v| *v >= 0.0).map(|v| v as u64);
        v.as_u64().or_else(float)
    };
    match value.get("number") {
        Some(number) => {
            let is = |key: &str| value.get(key).and_then(Value::as_bool);
            let given = is("set") != Some(false) && is("infinite") != Some(true);
            plain(number).filter(|_| given)
        }
        None => plain(value),
    }
}

/// Returns a text; empty if there is none.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the words of a list, or of a single text.
pub(crate) fn words<'v>(value: &'v Value, key: &str) -> Vec<&'v str> {
    match value.get(key) {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one],
        _ => Vec::new(),
    }
}

/// Returns the first error that a document reports. Some programs report errors in their output and
/// exit with 0.
pub(crate) fn reported(document: &Value) -> Option<String> {
    let errors = document.get("errors").and_then(Value::as_array);
    let first = errors?.first()?;
    Some(
        match first.get("error").or_else(|| first.get("description")) {
            Some(Value::String(text)) => text.clone(),
            _ => first.to_string(),
        },
    )
}

/// Returns the number and type of the GPUs in a text such as `gres:gpu:a100:4` or
/// `gpu:4(IDX:0-3),craynetwork:1`. Several kinds add up; the first type counts.
pub(crate) fn gpus(text: &str) -> Option<(u32, Option<&str>)> {
    let mut all: Option<(u32, Option<&str>)> = None;
    // Indices in parentheses contain commas.
    let mut depth = 0;
    let outside = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    for part in text.split(outside) {
        let part = part.split('(').next().unwrap_or_default().trim();
        let part = part.strip_prefix("gres:").unwrap_or(part);
        let part = part.strip_prefix("gres/").unwrap_or(part);
        let mut words = part.split([':', '=']);
        if words.next() != Some("gpu") {
            continue;
        }
        let words: Vec<&str> = words.collect();
        let (kind, count) = match words[..] {
            [] => (None, 1),
            [one] => match one.parse() {
                Ok(count) => (None, count),
                Err(_) => (Some(one), 1),
            },
            [kind, count, ..] => (Some(kind), count.parse().ok()?),
        };
        let (sum, first) = all.unwrap_or((0, None));
        all = Some((sum + count, first.or(kind)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_of_all_versions_are_read() {
        let new = |set, infinite| json!({"n": {"set": set, "infinite": infinite, "number": 5}});
        assert_eq!(number(&json!({"n": 5}), "n"), Some(5));
        assert_eq!(number(&new(true, false), "n"), Some(5));
        assert_eq!(number(&new(false, false), "n"), None);
        assert_eq!(number(&new(true, true), "n"), None);
        assert_eq!(number(&json!({}), "n"), None);
    }

    #[test]
    fn gpus_of_all_forms_are_read() {
        for (text, expected) in [
            ("gres:gpu:4", Some((4, None))),
            ("gpu", Some((1, None))),
            ("gpu:a100", Some((1, Some("a100")))),
            ("gpu:a100:2(S:0-1)", Some((2, Some("a100")))),
            ("gres/gpu=3", Some((3, None))),
            ("gpu:2(IDX:0,2),craynetwork:1", Some((2, None))),
            ("gpu:a:1,gpu:b:2", Some((3, Some("a")))),
            ("craynetwork:1", None),
            ("", None),
        ] {
            assert_eq!(gpus(text), expected, "{text}");
        }
    }
}
