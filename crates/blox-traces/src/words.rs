//! Plain wording of serde's error messages.

use blox_core::suggest::for_serde;

/// Returns the message of an error without its line, which counts within a part of the file.
pub(crate) fn without_place(e: &serde_json::Error) -> String {
    let mut text = e.to_string();
    text.truncate(text.rfind(" at line ").unwrap_or(text.len()));
    text
}

/// Rephrases a message of serde as the value found and the value expected, if it has both.
pub(crate) fn explained(message: &str) -> String {
    match found_and_expected(message) {
        Some((found, expected)) => format!("found `{found}`, expected {expected}"),
        None => message.replace('\n', ", ") + &for_serde(message),
    }
}

/// Splits serde's "invalid type: string \"4\", expected u32" into the found and the expected value,
/// in terms of the file. Returns `None` for other messages.
pub(crate) fn found_and_expected(message: &str) -> Option<(String, String)> {
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let found = match found {
        "map" => "an object",
        "sequence" => "an array",
        _ => match (found.find('`'), found.rfind('`')) {
            (Some(a), Some(b)) if a < b => &found[a + 1..b],
            _ => found.strip_prefix("string ").unwrap_or(found),
        },
    };
    let whole = |low: &str, high: &str| format!("a whole number from {low} to {high}");
    let expected = match expected {
        "u8" => whole("0", "255"),
        "u32" => whole("0", "4294967295"),
        "u64" | "usize" => whole("0", "18446744073709551615"),
        "a nonzero u32" => whole("1", "4294967295"),
        "a nonzero u64" | "a nonzero usize" => whole("1", "18446744073709551615"),
        "i32" => whole("-2147483648", "2147483647"),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "an object".to_owned(),
        _ if expected.starts_with("struct ") => "an object".to_owned(),
        _ => expected.to_owned(),
    };
    Some((found.to_owned(), expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_errors_are_put_in_plain_words() {
        let plain = |text: &str| found_and_expected(text).map(|(f, e)| format!("{f}: {e}"));
        for (text, expected) in [
            (
                "invalid type: floating point `1.5`, expected u32",
                "1.5: a whole number from 0 to 4294967295",
            ),
            (
                "invalid type: string \"a, expected b\", expected f64",
                "\"a, expected b\": a number",
            ),
            (
                "invalid value: integer `-1`, expected a string",
                "-1: a string",
            ),
            (
                "invalid type: map, expected a sequence",
                "an object: an array",
            ),
            (
                "invalid type: null, expected struct Work",
                "null: an object",
            ),
        ] {
            assert_eq!(plain(text).as_deref(), Some(expected));
        }
        assert_eq!(plain("missing field `gpus`"), None);
    }
}
