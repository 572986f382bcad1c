//! A few numbers side by side.

use crate::axis::{Axis, short};
use crate::frame::{Frame, heading, heading_height};
use crate::style;
use crate::svg::{Anchor, Escaped, Num, Page, fitted, width_of};

/// Horizontal bars: a group a name, a bar a category of the group.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    title: String,
    subtitle: String,
    axis: Axis,
    groups: Vec<(String, Vec<Value>)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Value {
    category: String,
    value: f64,
    interval: Option<(f64, f64)>,
}

const WIDTH: f64 = 460.0;
const BAR: f64 = 15.0;

impl BarChart {
    /// Without bars yet; the axis is that of the values, from zero.
    pub fn new(title: impl Into<String>, axis: Axis) -> Self {
        BarChart {
            title: title.into(),
            subtitle: String::new(),
            axis: if axis.is_log() { axis } else { axis.from(0.0) },
            groups: Vec::new(),
        }
    }

    /// Returns what the reader has to know, below the title.
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// Adds a group, such as a scheduler: `(category, value)` a bar. Bars of one
    /// category have one colour in all groups.
    #[must_use]
    pub fn with<C: Into<String>>(
        mut self,
        group: impl Into<String>,
        bars: impl IntoIterator<Item = (C, f64)>,
    ) -> Self {
        let bars = bars.into_iter().map(|(category, value)| Value {
            category: category.into(),
            value,
            interval: None,
        });
        self.groups.push((group.into(), bars.collect()));
        self
    }

    /// Gives the last group's bars intervals `(low, high)`, in their order.
    #[must_use]
    pub fn between(mut self, intervals: impl IntoIterator<Item = (f64, f64)>) -> Self {
        if let Some((_, bars)) = self.groups.last_mut() {
            for (bar, interval) in bars.iter_mut().zip(intervals) {
                bar.interval = Some(interval);
            }
        }
        self
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let bars = || self.groups.iter().flat_map(|(_, bars)| bars);
        let ends = |b: &Value| {
            [
                Some(b.value),
                b.interval.map(|i| i.0),
                b.interval.map(|i| i.1),
            ]
        };
        let x = self.axis.fit(bars().flat_map(ends).flatten(), 5);
        let mut categories: Vec<&str> = Vec::new();
        for b in bars() {
            if !categories.contains(&b.category.as_str()) {
                categories.push(&b.category);
            }
        }
        let names = self.groups.iter().map(|(n, _)| width_of(n, 11.0));
        let left = 16.0 + names.fold(0.0, f64::max).min(230.0) + 8.0;
        let legend: f64 = match categories.len() {
            0 | 1 => 0.0,
            _ => {
                categories
                    .iter()
                    .map(|c| width_of(c, 11.0))
                    .fold(0.0, f64::max)
                    + 24.0
            }
        };
        let width = left + WIDTH + 84.0 + legend;
        let top = heading_height(&self.subtitle, width) + 4.0;
        let heights: f64 = self.groups.iter().map(|(_, b)| group_height(b.len())).sum();
        let mut page = Page::new(width, top + heights + 52.0, &self.title);
        heading(&mut page, &self.title, &self.subtitle, width);
        let label = x.label.clone();
        let frame = Frame {
            left,
            top,
            width: WIDTH,
            height: heights.max(1.0),
            x,
            y: Axis::new("").from(0.0).to(1.0).fit(std::iter::empty(), 0),
        };
        for (value, name) in &frame.x.ticks {
            let (x, _) = frame.place(*value, 0.0);
            page.grid_line(x, top, x, frame.bottom());
            page.text(x, frame.bottom() + 16.0, Anchor::Middle, 11.0, name);
        }
        let mut y = top;
        for (name, bars) in &self.groups {
            let height = group_height(bars.len());
            let text = fitted(name, 11.0, 230.0);
            page.text(left - 8.0, y + height / 2.0 + 4.0, Anchor::End, 11.0, &text);
            for (k, bar) in bars.iter().enumerate() {
                let colour = categories.iter().position(|c| *c == bar.category);
                let at = y + 4.0 + k as f64 * BAR;
                draw_bar(&mut page, &frame, bar, at, colour.unwrap_or(0));
            }
            y += height;
        }
        page.axis_line(left, top, left, frame.bottom());
        page.text(
            left + WIDTH / 2.0,
            frame.bottom() + 38.0,
            Anchor::Middle,
            12.0,
            &label,
        );
        if categories.len() > 1 {
            for (i, category) in categories.iter().enumerate() {
                let (x, y) = (left + WIDTH + 76.0, top + 18.0 * i as f64);
                page.put(format_args!(
                    "<rect x=\"{}\" y=\"{}\" width=\"11\" height=\"11\" fill=\"{}\"/>\n",
                    Num(x),
                    Num(y),
                    style::colour(i)
                ));
                page.text(x + 16.0, y + 10.0, Anchor::Start, 11.0, category);
            }
        }
        page.finish()
    }
}

fn group_height(bars: usize) -> f64 {
    bars.max(1) as f64 * BAR + 8.0
}

fn draw_bar(page: &mut Page, frame: &Frame, bar: &Value, y: f64, colour: usize) {
    if !bar.value.is_finite() {
        page.soft_text(frame.left + 5.0, y + 10.5, Anchor::Start, 10.0, "none");
        return;
    }
    let base = if frame.x.log { frame.x.low } else { 0.0 };
    let (a, b) = (frame.place(base, 0.0).0, frame.place(bar.value, 0.0).0);
    page.put(format_args!(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{} {}</title></rect>\n",
        Num(a.min(b)),
        Num(y),
        Num((b - a).abs().max(0.5)),
        Num(BAR - 3.0),
        style::colour(colour),
        Escaped(&bar.category),
        short(bar.value)
    ));
    let mut end = b;
    if let Some((low, high)) = bar.interval.filter(|(l, h)| l.is_finite() && h.is_finite()) {
        let (low, high) = (frame.place(low, 0.0).0, frame.place(high, 0.0).0);
        let m = y + (BAR - 3.0) / 2.0;
        page.axis_line(low, m, high, m);
        page.axis_line(low, m - 3.0, low, m + 3.0);
        page.axis_line(high, m - 3.0, high, m + 3.0);
        end = end.max(high);
    }
    let text = frame.x.value_name(bar.value);
    page.text(end + 5.0, y + 10.0, Anchor::Start, 10.0, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let svg = BarChart::new("Average JCT", Axis::new("JCT (h)").to(10.0))
            .with("fifo", [("load 4", 5.0), ("load 8", 10.0)])
            .between([(4.0, 6.0), (9.0, 10.0)])
            .with("las", [("load 4", f64::NAN)])
            .svg();
        assert!(svg.contains("width=\"230\""), "{svg}");
        assert!(svg.contains("width=\"460\""));
        assert!(svg.contains(">none</text>") && svg.contains(">las</text>"));
        assert!(!svg.contains("NaN"));
        assert!(
            BarChart::new("nothing", Axis::new("x"))
                .svg()
                .ends_with("</svg>\n")
        );
    }
}
