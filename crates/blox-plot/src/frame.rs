//! A rectangle with two axes, and the heading and legend around it.

use crate::axis::{Room, Scale};
use crate::style::{LARGE, MEDIUM, SMALL};
use crate::svg::{Anchor, Escaped, INK, Num, Page, fitted, fitted_name, width_of};

/// The rectangle that holds the data.
pub(crate) struct Frame {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
    pub x: Scale,
    pub y: Scale,
}

impl Frame {
    /// Returns a point of the data in pixels.
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

    /// Draws grid, axes and ticks, and the names of the ticks of the chosen axes.
    pub fn draw(&self, page: &mut Page, x_names: bool, y_names: bool) {
        for (value, name) in &self.y.ticks {
            let (_, y) = self.place(self.x.low, *value);
            page.grid_line(self.left, y, self.right(), y);
            if y_names {
                let y = y + SMALL * 0.35;
                page.text(self.left - 6.0, y, Anchor::End, SMALL, name);
            }
        }
        self.draw_x(page, x_names);
        page.axis_line(self.left, self.top, self.left, self.bottom());
    }

    /// Draws the horizontal axis with its grid and ticks.
    pub fn draw_x(&self, page: &mut Page, names: bool) {
        let room = Room::across(self.width, SMALL);
        for (value, name) in &self.x.ticks {
            let at = self.x.at(*value);
            let x = self.left + at * self.width;
            page.grid_line(x, self.top, x, self.bottom());
            if names {
                page.axis_line(x, self.bottom(), x, self.bottom() + 4.0);
                let (x, y) = (self.left + room.middle(at, name), self.bottom() + TICKS);
                page.text(x, y, Anchor::Middle, SMALL, name);
            }
        }
        page.axis_line(self.left, self.bottom(), self.right(), self.bottom());
    }
}

/// Distance from a frame to the base line of the names of its horizontal ticks.
const TICKS: f64 = SMALL + 6.0;
/// Height of a line of a label.
const LABEL: f64 = MEDIUM + 3.0;

/// The label of an axis, in one or more lines.
pub(crate) struct Label(Vec<String>);

impl Label {
    /// Wraps the label of an axis of this length.
    pub fn of(text: &str, length: f64) -> Self {
        Label(wrapped(text, MEDIUM, length))
    }

    /// Space below a frame for the ticks and the label of its horizontal axis.
    pub fn below(&self) -> f64 {
        TICKS + 4.0 + LABEL * self.0.len() as f64 + 4.0
    }

    /// Space left of a frame for the label of its vertical axis, without ticks.
    pub fn beside(&self) -> f64 {
        4.0 + LABEL * self.0.len() as f64
    }

    /// Draws the label below ticks; `middle` is the middle of the axis.
    pub fn draw_below(&self, page: &mut Page, middle: f64, bottom: f64) {
        for (i, line) in self.0.iter().enumerate() {
            let y = bottom + TICKS + 3.0 + LABEL * (i + 1) as f64;
            page.text(middle, y, Anchor::Middle, MEDIUM, line);
        }
    }

    /// Draws the label at the left side of the page; `middle` is the middle of the axis.
    pub fn draw_beside(&self, page: &mut Page, middle: f64) {
        for (i, line) in self.0.iter().enumerate() {
            page.upward_text(1.0 + LABEL * (i + 1) as f64, middle, MEDIUM, line);
        }
    }
}

/// Returns the space that the names of vertical ticks take.
pub(crate) fn width_of_ticks(y: &Scale) -> f64 {
    let names = y.ticks.iter().map(|(_, n)| width_of(n, SMALL));
    names.fold(0.0, f64::max) + 11.0
}

/// Title and subtitle, wrapped to the width of the page.
pub(crate) struct Heading {
    title: Vec<String>,
    subtitle: Vec<String>,
}

const SIDE: f64 = 8.0;
const TITLE_LINE: f64 = 18.0;
const SUBTITLE_LINE: f64 = 14.0;

impl Heading {
    pub fn of(title: &str, subtitle: &str, width: f64) -> Self {
        let room = width - 2.0 * SIDE;
        Heading {
            // Bold letters are wider.
            title: wrapped(title, LARGE * 1.1, room),
            subtitle: wrapped(subtitle, SMALL, room),
        }
    }

    /// Height of the heading with the gap below it.
    pub fn height(&self) -> f64 {
        let lines = (self.title.len() as f64, self.subtitle.len() as f64);
        14.0 + TITLE_LINE * lines.0 + SUBTITLE_LINE * lines.1
    }

    pub fn draw(&self, page: &mut Page) {
        let mut y = 2.0;
        for line in &self.title {
            y += TITLE_LINE;
            page.put(format_args!(
                "<text class=\"ink\" x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"bold\" fill=\"{INK}\">{}</text>\n",
                Num(SIDE),
                Num(y),
                Num(LARGE),
                Escaped(line)
            ));
        }
        for line in &self.subtitle {
            y += SUBTITLE_LINE;
            page.soft_text(SIDE, y, Anchor::Start, SMALL, line);
        }
    }
}

fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(line, size) + width_of(word, size) + size * 0.41 < room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(fitted(word, size, room)),
        }
    }
    lines
}

/// The names of series or categories with a sample of each, in rows below a frame.
pub(crate) struct Legend<'a> {
    names: Vec<&'a str>,
    /// Width of a sample.
    sample: f64,
    columns: usize,
    /// Width of a column.
    column: f64,
}

const LINE: f64 = 16.0;

impl<'a> Legend<'a> {
    /// Arranges the names in as many columns as fit.
    pub fn of(names: impl IntoIterator<Item = &'a str>, sample: f64, room: f64) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let widest = names.iter().map(|n| width_of(n, SMALL)).fold(0.0, f64::max);
        let wanted = (sample + 5.0 + widest + 14.0).min(room);
        let fit = ((room / wanted) as usize).clamp(1, names.len().max(1));
        // Rows of equal length.
        let columns = names
            .len()
            .div_ceil(names.len().div_ceil(fit).max(1))
            .max(1);
        Legend {
            names,
            sample,
            columns,
            column: wanted.max((room / columns as f64).min(wanted * 1.3)),
        }
    }

    pub fn height(&self) -> f64 {
        match self.names.len() {
            0 => 0.0,
            n => LINE * n.div_ceil(self.columns) as f64 + 4.0,
        }
    }

    /// Draws each name, and its sample by `draw(page, index, left, middle)`.
    pub fn draw(
        &self,
        page: &mut Page,
        left: f64,
        top: f64,
        draw: impl Fn(&mut Page, usize, f64, f64),
    ) {
        for (i, name) in self.names.iter().enumerate() {
            let x = left + self.column * (i % self.columns) as f64;
            let y = top + LINE * ((i / self.columns) as f64 + 0.5);
            page.put(format_args!("<g><title>{}</title>\n", Escaped(name)));
            draw(page, i, x, y);
            let room = self.column - self.sample - 5.0;
            let (x, y) = (x + self.sample + 5.0, y + SMALL * 0.35);
            page.text(x, y, Anchor::Start, SMALL, &fitted_name(name, SMALL, room));
            page.put(format_args!("</g>\n"));
        }
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

    #[test]
    fn legend_rows_stay_inside_the_page() {
        for count in 0..24usize {
            for length in [1, 9, 30, 90] {
                let name = "n".repeat(length);
                let legend = Legend::of((0..count).map(|_| &*name), 24.0, 380.0);
                assert!(
                    legend.column * legend.columns as f64 <= 380.01,
                    "{count} {length}"
                );
                let rows = count.div_ceil(legend.columns);
                assert_eq!(legend.height() > 0.0, count > 0);
                assert!(rows <= count.max(1));
            }
        }
        let legend = Legend::of(["fifo", "las", "srtf", "tiresias"], 24.0, 380.0);
        assert_eq!((legend.columns, legend.height()), (4, 20.0));
    }
}
