//! Text of other programs.

/// Makes text of other programs safe for a terminal: characters that move the cursor, change colors
/// or reverse the text are shown as escapes.
pub(crate) fn plain(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() || turns(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}
