//! Bounds on texts from other processes.

use std::borrow::Cow;

/// Returns a text of at most `most` characters. A longer one lacks characters in the middle, marked
/// by `…`, since a sentence ends with what was expected.
pub(crate) fn excerpt(text: &str, most: usize) -> Cow<'_, str> {
    let position = |n: usize| text.char_indices().nth(n).map(|(at, _)| at);
    if position(most).is_none() {
        return Cow::Borrowed(text);
    }
    let end = most / 3;
    let begin = most - end - 1;
    let first = position(begin).unwrap_or(text.len());
    let last = text.char_indices().nth_back(end.saturating_sub(1));
    let last = last.map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}…{}", &text[..first], &text[last..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_its_begin_and_its_end() {
        assert_eq!(excerpt("", 9), "");
        assert_eq!(excerpt("123456789", 9), "123456789");
        assert_eq!(excerpt("1234567890", 9), "12345…890");
        assert_eq!(excerpt(&"ä".repeat(99), 9), "äääää…äää");
        let huge = "x".repeat(1 << 20);
        assert_eq!(excerpt(&huge, 200).chars().count(), 200);
    }
}
