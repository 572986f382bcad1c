//! Series over two axes.

use crate::axis::{Axis, Room};
use crate::frame::{Frame, Heading, Label, Legend, width_of_ticks};
use crate::series::{self, Series};
use crate::style::{self, SMALL, WIDTH};
use crate::svg::Page;

/// Series over two axes, with a legend below them.
///
/// A horizontal axis without an upper bound ends at the largest x of the data. A timeline of
/// [`Series::steps`] that falls to zero ends there.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    pub(crate) panels: bool,
}

/// Height of the frame.
const HEIGHT: f64 = 200.0;
/// Distance from the frame to the right side of the page.
pub(crate) const RIGHT: f64 = 14.0;

impl Chart {
    /// Returns a chart without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Chart {
            title: title.into(),
            subtitle: String::new(),
            x,
            y,
            series: Vec::new(),
            panels: false,
        }
    }

    /// Returns a chart of cumulative shares, for [`Series::distribution`].
    pub fn distribution(title: impl Into<String>, x: Axis) -> Self {
        let shares = Axis::fraction("share of jobs").from(0.0).to(1.0);
        Chart::new(title, x, shares)
    }

    /// Sets the text below the title.
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds several series.
    #[must_use]
    pub fn with_all(mut self, series: impl IntoIterator<Item = Series>) -> Self {
        self.series.extend(series);
        self
    }

    /// Draws each series in a panel, with the other series in grey behind it. Choose panels for
    /// many series that would hide each other.
    #[must_use]
    pub fn in_panels(mut self, yes: bool) -> Self {
        self.panels = yes;
        self
    }

    /// Draws all series over the same axes.
    pub(crate) fn overlaid(&self) -> String {
        let y = self.y.fit(self.ys(), &Room::upwards(HEIGHT, SMALL));
        let y_label = Label::of(&y.label, HEIGHT);
        let left = y_label.beside() + width_of_ticks(&y);
        let width = WIDTH - left - RIGHT;
        let mut room = Room::across(width, SMALL);
        if self.series.iter().any(Series::is_line) {
            // Markers and intervals need room beside the axis.
            room = room.with_margin();
        }
        let x = self.x.fit(self.xs(), &room);
        let x_label = Label::of(&x.label, width);
        let heading = Heading::of(&self.title, &self.subtitle, WIDTH);
        let legend = Legend::of(self.names(), series::SAMPLE, WIDTH - 16.0);
        let frame = Frame {
            left,
            top: heading.height(),
            width,
            height: HEIGHT,
            x,
            y,
        };
        let below = frame.bottom() + x_label.below();
        let mut page = Page::new(WIDTH, below + legend.height() + 4.0, &self.title);
        heading.draw(&mut page);
        frame.draw(&mut page, true, true);
        x_label.draw_below(&mut page, frame.left + width / 2.0, frame.bottom());
        y_label.draw_beside(&mut page, frame.top + HEIGHT / 2.0);
        // A wide line would hide a narrow one in the same place.
        let mut order: Vec<usize> = (0..self.series.len()).collect();
        order.sort_by_key(|i| std::cmp::Reverse(style::width(*i)));
        for i in order {
            self.series[i].draw(&mut page, &frame, i);
        }
        legend.draw(&mut page, 8.0, below, series::sample);
        page.finish()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.series.iter().map(|s| s.name.as_str())
    }

    pub(crate) fn xs(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(Series::xs)
    }

    pub(crate) fn ys(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(Series::ys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(n: usize) -> Chart {
        Chart::distribution("JCT", Axis::seconds("JCT").log())
            .subtitle("measured jobs")
            .with_all((0..n).map(|i| {
                Series::distribution(
                    format!("s{i}"),
                    (1..100).map(move |k| f64::from(k) * (i + 1) as f64),
                )
            }))
    }

    /// Checks that a page is well-formed, by counting its tags.
    pub(crate) fn well_formed(svg: &str) {
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        for tag in ["text", "g", "title"] {
            let opened = svg.matches(&format!("<{tag}")).count()
                - svg.matches(&format!("<{tag}rid")).count();
            let closed = svg.matches(&format!("</{tag}>")).count();
            assert_eq!(opened, closed, "{tag}");
        }
    }

    /// Returns the points of the first line with round joins.
    fn line(svg: &str) -> Vec<(f64, f64)> {
        let mut lines = svg.split(" d=\"");
        let d = lines.find(|d| d.contains("linejoin")).unwrap();
        let d = d.split('"').next().unwrap();
        let mut points: Vec<(f64, f64)> = Vec::new();
        let starts: Vec<usize> = d
            .match_indices(['M', 'L', 'H', 'V'])
            .map(|(at, _)| at)
            .collect();
        for (k, at) in starts.iter().enumerate() {
            let text = &d[at + 1..*starts.get(k + 1).unwrap_or(&d.len())];
            let last = points.last().copied().unwrap_or_default();
            points.push(match (&d[*at..=*at], text.split_once(' ')) {
                ("H", _) => (text.parse().unwrap(), last.1),
                ("V", _) => (last.0, text.parse().unwrap()),
                (_, point) => {
                    let (x, y) = point.unwrap();
                    (x.parse().unwrap(), y.parse().unwrap())
                }
            });
        }
        points
    }

    #[test]
    fn lines_in_the_same_place_are_all_visible() {
        let same = |i: usize| Series::line(format!("s{i}"), [(0.0, 1.0), (9.0, 2.0)]);
        let svg = Chart::new("t", Axis::new("x"), Axis::new("y"))
            .with_all((0..9).map(same))
            .svg();
        // Lines without dashes are below the others, and wider; then lines with long dashes.
        let lines: Vec<&str> = svg.lines().filter(|l| l.contains("linejoin")).collect();
        let dashed: Vec<bool> = lines.iter().map(|l| l.contains("dasharray")).collect();
        assert!(dashed.is_sorted() && dashed.contains(&false), "{dashed:?}");
        let width = |l: &&str| -> f64 {
            let width = l.split("stroke-width=\"").nth(1).unwrap();
            width.split('"').next().unwrap().parse().unwrap()
        };
        let widths: Vec<f64> = lines.iter().map(width).collect();
        assert!(widths.is_sorted_by(|a, b| a >= b), "{widths:?}");
        assert_eq!((widths[0], widths[8]), (2.8, 1.4));
    }

    #[test]
    fn twenty_series_have_a_line_and_a_name_each() {
        let svg = chart(20).svg();
        well_formed(&svg);
        for i in 0..20 {
            assert!(svg.contains(&format!(">s{i}</text>")));
        }
        assert_eq!(svg.matches("stroke-linejoin").count(), 20);
        assert_eq!(svg, chart(20).svg());
    }

    #[test]
    fn nothing_is_a_picture_too() {
        well_formed(&chart(0).svg());
        let none = chart(0).with(Series::line("x", [(f64::NAN, 1.0)]));
        well_formed(&none.svg());
        well_formed(&none.in_panels(true).svg());
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let svg = Chart::new(
            "t",
            Axis::new("x").from(0.0).to(10.0),
            Axis::new("y").from(0.0).to(1.0),
        )
        .with(
            Series::line("a", [(0.0, 0.0), (5.0, 0.5), (10.0, 1.0)]).between([
                (0.0, 0.1),
                (0.4, 0.6),
                (0.9, 1.0),
            ]),
        )
        .svg();
        well_formed(&svg);
        let points = line(&svg);
        assert_eq!(points[2].0, WIDTH - RIGHT);
        assert_eq!(points[0].1 - points[2].1, HEIGHT);
        assert_eq!(points[1].1, (points[0].1 + points[2].1) / 2.0);
    }

    #[test]
    fn a_chart_ends_where_its_data_end() {
        // The largest value of a long tail lies at the right side of the frame.
        let long = Chart::distribution("JCT", Axis::seconds("JCT").log())
            .with(Series::distribution("a", [60.0, 300.0, 900_000.0]));
        assert_eq!(line(&long.svg()).last().unwrap().0, WIDTH - RIGHT);
        // A timeline ends where all is zero.
        let idle = Chart::new("Queue", Axis::seconds("time").from(0.0), Axis::new("jobs")).with(
            Series::steps("a", [(0.0, 3.0), (50.0, 1.0), (100.0, 0.001), (900.0, 0.0)]),
        );
        let points = line(&idle.svg());
        assert_eq!(points.last().unwrap().0, WIDTH - RIGHT);
        assert_eq!(points[1].0 - points[0].0, points[3].0 - points[2].0);
    }

    #[test]
    fn the_legend_stands_below_the_axes() {
        let svg = chart(5).svg();
        let number = |line: &str, name: &str| -> f64 {
            let from = line.find(name).unwrap() + name.len();
            line[from..].split('"').next().unwrap().parse().unwrap()
        };
        let text = |what: &str| svg.lines().find(|l| l.contains(what)).unwrap();
        let label = number(text("log scale"), " y=\"");
        for i in 0..5 {
            assert!(number(text(&format!(">s{i}</text>")), " y=\"") > label);
        }
    }
}
