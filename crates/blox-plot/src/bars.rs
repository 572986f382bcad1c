//! Horizontal bars that compare a few numbers.

use crate::axis::{Axis, Room};
use crate::frame::{Frame, Heading, Label, Legend};
use crate::style::{self, SMALL, WIDTH};
use crate::svg::{Anchor, Escaped, Page, fitted_name, width_of};

/// Horizontal bars: a named group, and in it a bar for each category.
///
/// Each bar has its value behind it. Categories differ by colour and by hatching. The bars of a group
/// may also stand in one line, [stacked](BarChart::stacked).
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    title: String,
    subtitle: String,
    axis: Axis,
    groups: Vec<(String, Vec<Value>)>,
    stacked: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Value {
    category: String,
    value: f64,
    interval: Option<(f64, f64)>,
}

/// Height of a bar with the gap below it.
const BAR: f64 = 15.0;
/// Names of groups up to this width stand left of the bars, longer names above the bars.
const NAME: f64 = 110.0;
/// Height of a name above the bars.
const NAME_LINE: f64 = 15.0;

impl BarChart {
    /// Returns a chart without bars. A linear axis starts at zero.
    pub fn new(title: impl Into<String>, axis: Axis) -> Self {
        BarChart {
            title: title.into(),
            subtitle: String::new(),
            axis: if axis.is_log() { axis } else { axis.from(0.0) },
            groups: Vec::new(),
            stacked: false,
        }
    }

    /// Draws the bars of each group end to end in one line, with their sum behind the last one. Values
    /// that are not positive are left out, and intervals are not drawn.
    #[must_use]
    pub fn stacked(mut self) -> Self {
        self.stacked = true;
        self
    }

    /// Sets the text below the title.
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// Adds a group, for example a scheduler, with its bars `(category, value)`. Bars of one
    /// category look the same in all groups.
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

    /// Adds intervals `(low, high)` to the bars of the last group, in the order of the bars.
    #[must_use]
    pub fn between(mut self, intervals: impl IntoIterator<Item = (f64, f64)>) -> Self {
        if let Some((_, bars)) = self.groups.last_mut() {
            for (bar, interval) in bars.iter_mut().zip(intervals) {
                bar.interval = Some(interval);
            }
        }
        self
    }

    /// Returns the picture.
    pub fn svg(&self) -> String {
        let stacks: Vec<f64> = match self.stacked {
            true => self.groups.iter().map(|(_, bars)| sum(bars)).collect(),
            false => Vec::new(),
        };
        let bars = || self.groups.iter().flat_map(|(_, bars)| bars);
        let ends = |b: &Value| {
            let interval = b.interval.into_iter().flat_map(|(low, high)| [low, high]);
            interval.chain([b.value])
        };
        let mut categories: Vec<&str> = Vec::new();
        for b in bars() {
            if !categories.contains(&b.category.as_str()) {
                categories.push(&b.category);
            }
        }
        let widest = self.groups.iter().map(|(n, _)| width_of(n, SMALL));
        let widest = widest.fold(0.0, f64::max);
        let above = widest > NAME;
        let left = if above { 10.0 } else { widest + 16.0 };
        // Room for the values behind the bars: names of values need no bounds of the axis.
        let shown: Vec<f64> = match self.stacked {
            true => stacks.clone(),
            false => bars().map(|b| b.value).collect(),
        };
        let ends: Vec<f64> = match self.stacked {
            true => stacks.clone(),
            false => bars().flat_map(ends).collect(),
        };
        let fit = |width: f64| {
            let room = Room::across(width, SMALL);
            self.axis.fit(ends.iter().copied(), &room)
        };
        let unfitted = fit(1.0);
        let values = shown
            .iter()
            .map(|v| width_of(&unfitted.value_name(*v), SMALL));
        let width = WIDTH - left - values.fold(14.0, f64::max) - 10.0;
        let x = fit(width);
        let name = if above { NAME_LINE } else { 0.0 };
        let lines = |bars: &[Value]| if self.stacked { 1 } else { bars.len().max(1) };
        let height = |bars: &[Value]| name + lines(bars) as f64 * BAR + 6.0;
        let heights: f64 = self.groups.iter().map(|(_, b)| height(b)).sum();
        let label = Label::of(&x.label, width);
        let heading = Heading::of(&self.title, &self.subtitle, WIDTH);
        let shown: &[&str] = if categories.len() > 1 {
            &categories
        } else {
            &[]
        };
        let legend = Legend::of(shown.iter().copied(), SAMPLE, WIDTH - 16.0);
        let frame = Frame {
            left,
            top: heading.height(),
            width,
            height: heights.max(1.0),
            x,
            y: Axis::new("").fit(std::iter::empty(), &Room::upwards(1.0, SMALL)),
        };
        let below = frame.bottom() + label.below();
        let mut page = Page::new(WIDTH, below + legend.height() + 4.0, &self.title);
        heading.draw(&mut page);
        frame.draw_x(&mut page, true);
        let mut y = frame.top;
        for (name, bars) in &self.groups {
            let height = height(bars);
            let mut first = y + 3.0;
            if above {
                let text = fitted_name(name, SMALL, WIDTH - left - 8.0);
                page.text(left + 3.0, y + 12.0, Anchor::Start, SMALL, &text);
                first += NAME_LINE;
            } else {
                let middle = y + height / 2.0 + SMALL * 0.35;
                page.text(left - 6.0, middle, Anchor::End, SMALL, name);
            }
            let category = |bar: &Value| {
                categories
                    .iter()
                    .position(|c| *c == bar.category)
                    .unwrap_or(0)
            };
            if self.stacked {
                draw_stack(&mut page, &frame, bars, first, category);
            } else {
                for (k, bar) in bars.iter().enumerate() {
                    let at = first + k as f64 * BAR;
                    draw_bar(&mut page, &frame, bar, at, category(bar));
                }
            }
            y += height;
        }
        page.axis_line(left, frame.top, left, frame.bottom());
        label.draw_below(&mut page, left + width / 2.0, frame.bottom());
        legend.draw(&mut page, 8.0, below, |page, i, x, y| {
            style::tile(page, i, x, y - 5.5, SAMPLE, 11.0, "");
        });
        page.finish()
    }
}

/// Width of a sample in the legend.
const SAMPLE: f64 = 20.0;

/// Returns the values that a stack shows.
fn parts(bars: &[Value]) -> impl Iterator<Item = &Value> {
    bars.iter().filter(|b| b.value > 0.0 && b.value.is_finite())
}

fn sum(bars: &[Value]) -> f64 {
    parts(bars).map(|b| b.value).sum()
}

fn draw_stack(
    page: &mut Page,
    frame: &Frame,
    bars: &[Value],
    y: f64,
    category: impl Fn(&Value) -> usize,
) {
    let mut until = 0.0;
    for bar in parts(bars) {
        let a = frame.place(until, 0.0).0;
        until += bar.value;
        let width = (frame.place(until, 0.0).0 - a).max(0.5);
        let hint = hint(frame, bar);
        style::tile(page, category(bar), a, y, width, BAR - 3.0, &hint);
    }
    let (x, base_line) = (frame.place(until, 0.0).0, base_line(y));
    let text = frame.x.value_name(until);
    page.text(x + 5.0, base_line, Anchor::Start, SMALL, &text);
}

/// Returns the base line of a text beside a bar.
fn base_line(y: f64) -> f64 {
    y + (BAR - 3.0) / 2.0 + SMALL * 0.35
}

fn hint(frame: &Frame, bar: &Value) -> String {
    let value = frame.x.value_name(bar.value);
    format!("<title>{} {value}</title>", Escaped(&bar.category))
}

fn draw_bar(page: &mut Page, frame: &Frame, bar: &Value, y: f64, category: usize) {
    let base_line = base_line(y);
    if !bar.value.is_finite() {
        page.soft_text(frame.left + 5.0, base_line, Anchor::Start, SMALL, "none");
        return;
    }
    let base = if frame.x.log { frame.x.low } else { 0.0 };
    let (a, b) = (frame.place(base, 0.0).0, frame.place(bar.value, 0.0).0);
    let hint = hint(frame, bar);
    let width = (b - a).abs().max(0.5);
    style::tile(page, category, a.min(b), y, width, BAR - 3.0, &hint);
    // The value of a bar below zero stands on the other side of zero.
    let mut end = a.max(b);
    if let Some((low, high)) = bar.interval.filter(|(l, h)| l.is_finite() && h.is_finite()) {
        let (low, high) = (frame.place(low, 0.0).0, frame.place(high, 0.0).0);
        let m = y + (BAR - 3.0) / 2.0;
        page.axis_line(low, m, high, m);
        page.axis_line(low, m - 3.0, low, m + 3.0);
        page.axis_line(high, m - 3.0, high, m + 3.0);
        end = end.max(high);
    }
    let text = frame.x.value_name(bar.value);
    page.text(end + 5.0, base_line, Anchor::Start, SMALL, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the widths of the bars.
    fn widths(svg: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|l| l.contains("</title></rect>"));
        bars.map(|l| {
            let width = l.split(" width=\"").nth(1).unwrap();
            width.split('"').next().unwrap().parse().unwrap()
        })
        .collect()
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let svg = BarChart::new("Average JCT", Axis::new("JCT (h)"))
            .with("fifo", [("load 4", 5.0), ("load 8", 10.0)])
            .between([(4.0, 6.0), (9.0, 10.0)])
            .with("las", [("load 4", f64::NAN)])
            .svg();
        let bars = widths(&svg);
        // A unit goes into the outline of each bar.
        assert!(
            (bars[1] + 1.0 - 2.0 * (bars[0] + 1.0)).abs() < 0.02,
            "{bars:?}"
        );
        assert!(svg.contains(">none</text>") && svg.contains(">las</text>"));
        assert!(!svg.contains("NaN"));
        assert!(
            BarChart::new("nothing", Axis::new("x"))
                .svg()
                .ends_with("</svg>\n")
        );
    }

    #[test]
    fn stacked_bars_stand_end_to_end() {
        let svg = BarChart::new("Deadlines", Axis::new("jobs"))
            .with("fifo", [("met", 10.0), ("missed", 30.0), ("declined", 0.0)])
            .with(
                "las",
                [("met", 15.0), ("missed", f64::NAN), ("declined", 5.0)],
            )
            .stacked()
            .svg();
        let at = |name: &str| -> Vec<f64> {
            let bars = svg.lines().filter(|l| l.contains("</title></rect>"));
            let number = |l: &str| l.split(name).nth(1)?.split('"').next()?.parse().ok();
            bars.map(|l| number(l).unwrap()).collect()
        };
        let (x, y, width) = (at(" x=\""), at(" y=\""), at(" width=\""));
        // Two parts in each line; the outline takes half a unit at each side.
        assert_eq!(x.len(), 4, "{svg}");
        assert!(y[0] == y[1] && y[2] == y[3] && y[0] < y[2]);
        assert_eq!(x[0], x[2]);
        assert!(
            (x[1] - (x[0] + width[0] + 1.0)).abs() < 0.02,
            "{x:?} {width:?}"
        );
        assert!(
            (width[1] + 1.0 - 3.0 * (width[0] + 1.0)).abs() < 0.05,
            "{width:?}"
        );
        for text in [">40</text>", ">20</text>", "<title>missed 30</title>"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn the_value_of_a_negative_bar_stands_beside_it() {
        let chart = BarChart::new("effect", Axis::new("effect")).with("a", [("x", -1.5)]);
        let svg = chart.with("b", [("x", 3.0)]).svg();
        let number = |what: &str, name: &str| -> f64 {
            let line = svg.lines().find(|l| l.contains(what)).unwrap();
            let from = line.find(name).unwrap() + name.len();
            line[from..].split('"').next().unwrap().parse().unwrap()
        };
        let bar = number("<title>x -1.5", " x=\"") + number("<title>x -1.5", " width=\"");
        assert!(number(">-1.5</text>", " x=\"") > bar, "{svg}");
    }

    #[test]
    fn the_longest_bar_ends_at_the_frame() {
        for (name, value) in [("fifo", 10.3), ("a scheduler with many parameters", 7e6)] {
            let chart = BarChart::new("JCT", Axis::seconds("JCT"));
            let svg = chart
                .with(name, [("average", value), ("median", 1.0)])
                .svg();
            let axis = svg.lines().filter(|l| l.contains("\"ink-line\""));
            let ends = axis.filter_map(|l| l.split(['L', ' ']).nth(4)?.parse::<f64>().ok());
            let left = svg.lines().find(|l| l.contains("</title></rect>")).unwrap();
            let left = left
                .split(" x=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap();
            let right = left.parse::<f64>().unwrap() + widths(&svg)[0] + 0.5;
            assert!(ends.fold(0.0, f64::max) <= right + 0.02, "{svg}");
            // The value behind the bar is on the page.
            assert!(right + 5.0 + width_of(&crate::axis::duration(value), SMALL) < WIDTH);
        }
    }
}
