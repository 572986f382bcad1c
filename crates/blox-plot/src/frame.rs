//! A rectangle with two axes, and what stands around it.

use crate::axis::Scale;
use crate::style;
use crate::svg::{Anchor, Escaped, Num, Page, fitted, width_of};

/// Where data are drawn.
pub(crate) struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
    pub x: Scale,
    pub y: Scale,
}

impl Frame {
    /// A point of the data in pixels.
    pub fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (
            self.left + self.x.at(x) * self.width,
            self.top + (1.0 - self.y.at(y)) * self.height,
        )
    }

    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Grid, axes and ticks; names of ticks only where asked for.
    pub fn draw(&self, page: &mut Page, size: f64, x_names: bool, y_names: bool) {
        for (value, name) in &self.y.ticks {
            let (_, y) = self.place(self.x.low, *value);
            page.grid_line(self.left, y, self.right(), y);
            if y_names {
                page.text(self.left - 7.0, y + size * 0.35, Anchor::End, size, name);
            }
        }
        for (value, name) in &self.x.ticks {
            let (x, _) = self.place(*value, self.y.low);
            page.grid_line(x, self.top, x, self.bottom());
            if x_names {
                page.axis_line(x, self.bottom(), x, self.bottom() + 4.0);
                page.text(x, self.bottom() + size + 6.0, Anchor::Middle, size, name);
            }
        }
        page.axis_line(self.left, self.bottom(), self.right(), self.bottom());
        page.axis_line(self.left, self.top, self.left, self.bottom());
    }

    /// The names of both axes.
    pub fn draw_labels(&self, page: &mut Page) {
        let x = self.left + self.width / 2.0;
        page.text(x, self.bottom() + 38.0, Anchor::Middle, 12.0, &self.x.label);
        let y = self.top + self.height / 2.0;
        page.upward_text(self.left - self.room() + 4.0, y, &self.y.label);
    }

    /// Room that the names of y's ticks and of its axis take.
    pub fn room(&self) -> f64 {
        room_of(&self.y)
    }
}

/// Room left of a frame for an axis.
pub(crate) fn room_of(y: &Scale) -> f64 {
    let names = y.ticks.iter().map(|(_, n)| width_of(n, 11.0));
    names.fold(0.0, f64::max) + 32.0
}

/// Title and subtitle at the top; returns where the rest may begin.
pub(crate) fn heading(page: &mut Page, title: &str, subtitle: &str, width: f64) -> f64 {
    page.put(format_args!(
        "<text class=\"ink\" x=\"16\" y=\"26\" font-size=\"15\" font-weight=\"bold\" fill=\"#1a1a1a\">{}</text>\n",
        Escaped(title)
    ));
    let mut y = 30.0;
    for line in wrapped(subtitle, 11.0, width - 32.0) {
        y += 15.0;
        page.soft_text(16.0, y, Anchor::Start, 11.0, &line);
    }
    y + 14.0
}

/// Returns how much [`heading`] takes.
pub(crate) fn heading_height(subtitle: &str, width: f64) -> f64 {
    44.0 + 15.0 * wrapped(subtitle, 11.0, width - 32.0).len() as f64
}

fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(line, size) + width_of(word, size) + size < room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

const LINE: f64 = 18.0;
const SAMPLE: f64 = 30.0;
const NAME: f64 = 190.0;

/// Width and height that a legend takes.
pub(crate) fn legend_size<'a>(names: impl Iterator<Item = &'a str>) -> (f64, f64) {
    let (mut width, mut count) = (0.0f64, 0.0);
    for name in names {
        width = width.max(width_of(name, 11.0).min(NAME));
        count += 1.0;
    }
    (SAMPLE + 8.0 + width, LINE * count)
}

/// Names of series with a sample of each, in their order.
pub(crate) fn legend<'a>(
    page: &mut Page,
    left: f64,
    top: f64,
    names: impl Iterator<Item = &'a str>,
) {
    for (i, name) in names.enumerate() {
        let y = top + LINE * (i as f64 + 0.5);
        page.put(format_args!(
            "<g><title>{}</title><path{} d=\"M{} {y}L{} {y}\" stroke=\"{}\" stroke-width=\"1.8\" fill=\"none\"{}/>\n",
            Escaped(name),
            style::class(i),
            Num(left),
            Num(left + SAMPLE),
            style::colour(i),
            style::dash(i),
            y = Num(y)
        ));
        style::marker(page, i, left + SAMPLE / 2.0, y);
        let name = fitted(name, 11.0, NAME);
        page.text(left + SAMPLE + 8.0, y + 4.0, Anchor::Start, 11.0, &name);
        page.put(format_args!("</g>\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtitle_is_wrapped_at_words() {
        let lines = wrapped("one two three four", 10.0, 60.0);
        assert!(lines.len() > 1);
        assert_eq!(lines.join(" "), "one two three four");
        assert!(wrapped("", 10.0, 60.0).is_empty());
    }
}
