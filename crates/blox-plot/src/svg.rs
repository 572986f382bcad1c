//! Writes SVG: a page of elements, short numbers, escaped text.

use std::fmt::{self, Display, Write};

/// Colour of text and axes. The contrast is at least 4.5 on white, and 3 on a dark page.
pub(crate) const INK: &str = "#62666c";
/// Colour of text and axes if the reader prefers dark pages.
pub(crate) const INK_ON_DARK: &str = "#8a9099";
/// Colour of notes. The contrast is at least 4.3 on white and on a dark page.
pub(crate) const SOFT: &str = "#75797f";
/// Colour and opacity of the grid.
pub(crate) const GRID: (&str, &str) = ("#808080", "0.35");

pub(crate) const FONT: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

/// A page under construction.
pub(crate) struct Page {
    out: String,
}

/// The position of text relative to its point.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Page {
    /// Starts a transparent page with a title for screen readers.
    ///
    /// Text and axes become lighter if the reader prefers dark pages. A page that knows its own
    /// ground sets the colours of the classes `ink`, `soft`, `grid` and `ink-line` by selectors
    /// such as `svg .ink`, which precede this style.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        let mut page = Page { out: String::new() };
        let (w, h) = (Num(width), Num(height));
        page.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" \
             font-family=\"{FONT}\" font-size=\"12\" role=\"img\" aria-label=\"{}\">\n\
             <title>{}</title>\n<style>@media (prefers-color-scheme:dark){{.ink{{fill:{INK_ON_DARK}}}\
             .ink-line{{stroke:{INK_ON_DARK}}}}}</style>\n",
            Escaped(title),
            Escaped(title)
        ));
        page
    }

    /// Appends markup without escaping.
    pub fn put(&mut self, what: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(what);
    }

    /// Draws text in the main colour; `size` is in pixels.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, size: f64, text: &str) {
        self.label(x, y, anchor, size, "ink", INK, text);
    }

    /// Draws text in the colour of notes.
    pub fn soft_text(&mut self, x: f64, y: f64, anchor: Anchor, size: f64, text: &str) {
        self.label(x, y, anchor, size, "soft", SOFT, text);
    }

    #[allow(clippy::too_many_arguments, reason = "attributes of one element")]
    fn label(
        &mut self,
        x: f64,
        y: f64,
        anchor: Anchor,
        size: f64,
        class: &str,
        fill: &str,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let size = Num(size);
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" font-size=\"{size}\" fill=\"{fill}\"{anchor}>{}</text>\n",
            Num(x),
            Num(y),
            Escaped(text)
        ));
    }

    /// Draws text that runs upwards, centred on its point.
    pub fn upward_text(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let (x, y, size) = (Num(x), Num(y), Num(size));
        self.put(format_args!(
            "<text class=\"ink\" x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{INK}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 {x} {y})\">{}</text>\n",
            Escaped(text)
        ));
    }

    /// Draws a line of the grid.
    pub fn grid_line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        let (x1, y1, x2, y2) = (Num(x1), Num(y1), Num(x2), Num(y2));
        let (colour, opacity) = GRID;
        self.put(format_args!(
            "<path class=\"grid\" d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"{colour}\" stroke-opacity=\"{opacity}\" fill=\"none\"/>\n"
        ));
    }

    /// Draws a line of an axis.
    pub fn axis_line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        let (x1, y1, x2, y2) = (Num(x1), Num(y1), Num(x2), Num(y2));
        self.put(format_args!(
            "<path class=\"ink-line\" d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"{INK}\" fill=\"none\"/>\n"
        ));
    }

    /// Returns the picture.
    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

/// Displays a number with at most two decimal places.
pub(crate) struct Num(pub f64);

impl Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (self.0 * 100.0).round() as i64;
        let (sign, n) = (
            if hundredths < 0 { "-" } else { "" },
            hundredths.unsigned_abs(),
        );
        match (n / 100, n % 100) {
            (whole, 0) => write!(f, "{sign}{whole}"),
            (whole, part) if part.is_multiple_of(10) => write!(f, "{sign}{whole}.{}", part / 10),
            (whole, part) => write!(f, "{sign}{whole}.{part:02}"),
        }
    }
}

/// Displays text with the markup of XML and HTML escaped.
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                // XML knows no other control characters.
                c if c.is_control() => f.write_char(' ')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Estimates the width of a text in pixels, rather too wide than too narrow.
pub(crate) fn width_of(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '\'' | '!' => 0.32,
            'f' | 'r' | 't' | ' ' | '(' | ')' | '[' | ']' | '-' | '/' | 'I' => 0.41,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
            'A'..='Z' => 0.7,
            _ => 0.63,
        })
        .sum();
    em * size
}

/// Cuts a text to the width `room`, with an ellipsis.
pub(crate) fn fitted(text: &str, size: f64, room: f64) -> String {
    if width_of(text, size) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if width_of(&short, size) + size > room {
            short.pop();
            break;
        }
    }
    short.push('…');
    short
}

/// Cuts a name to the width `room`, with an ellipsis in its middle: names of variants differ at
/// their ends.
pub(crate) fn fitted_name(name: &str, size: f64, room: f64) -> String {
    if width_of(name, size) <= room {
        return name.to_owned();
    }
    let letters: Vec<char> = name.chars().collect();
    let mut short = String::from("…");
    for kept in 1..letters.len() {
        let (first, last) = (kept.div_ceil(2), kept / 2);
        let head = letters.iter().take(first);
        let tail = letters.iter().skip(letters.len() - last);
        let longer: String = head.chain(&['…']).chain(tail).collect();
        if width_of(&longer, size) + size * 0.4 > room {
            break;
        }
        short = longer;
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let text = |v: f64| Num(v).to_string();
        assert_eq!(text(3.0), "3");
        assert_eq!(text(3.456), "3.46");
        assert_eq!(text(3.5), "3.5");
        assert_eq!(text(-0.05), "-0.05");
        assert_eq!(text(-0.001), "0");
    }

    #[test]
    fn text_is_escaped_and_cut() {
        assert_eq!(
            Escaped("a<b & \"c\"\n").to_string(),
            "a&lt;b &amp; &quot;c&quot; "
        );
        assert_eq!(fitted("las", 12.0, 100.0), "las");
        let name = fitted_name("las{guard_h=500,gpu_time=true}", 12.0, 100.0);
        assert!(
            name.starts_with("las{gu") && name.ends_with("true}"),
            "{name}"
        );
        assert!(
            width_of(&name, 12.0) <= 100.0 && name.contains('…'),
            "{name}"
        );
        assert_eq!(fitted_name("las", 12.0, 100.0), "las");
        assert_eq!(fitted_name("tiresias", 12.0, 1.0), "…");
        let cut = fitted("las{guard_h=500,gpu_time=true}", 12.0, 100.0);
        assert!(cut.ends_with('…') && width_of(&cut, 12.0) <= 102.0, "{cut}");
    }
}
