//! Texts of an input, and counts, for messages.

/// Formats a number of things, as `1 job` or `2 jobs`.
pub fn number_of(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// Shortens the text of an input for a message: its start, without control characters.
pub fn shown(text: &str) -> String {
    start(text, 80)
}

/// Formats a message that may quote an input, on one line.
pub fn one_line(text: &str) -> String {
    start(text, 400)
}

fn start(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            out.push_str("...");
            break;
        }
        if c.is_control() || c == char::REPLACEMENT_CHARACTER {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadError;
    use std::path::Path;

    #[test]
    fn shown_text_is_short_and_harmless() {
        assert_eq!(shown("naïve"), "naïve");
        assert_eq!(shown("\u{1b}[31m\n"), "\\u{1b}[31m\\n");
        assert_eq!(shown(&"x".repeat(81)), "x".repeat(80) + "...");
        let quoting =
            WorkloadError::line(Path::new("a.csv"), 1, "the column `9\n8` is no GPU count");
        let expected = "a.csv:1: the column `9\\n8` is no GPU count";
        assert_eq!(quoting.to_string(), expected);
    }
}
