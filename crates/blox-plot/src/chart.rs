//! Series over two axes.

use crate::axis::Axis;
use crate::frame::{Frame, heading, heading_height, legend, legend_size, room_of};
use crate::panels;
use crate::series::Series;
use crate::svg::Page;

/// Series over two axes, with a legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
    panels: bool,
}

const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 330.0;

impl Chart {
    /// Without series yet.
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

    /// Shares of values up to x, for [`Series::distribution`].
    pub fn distribution(title: impl Into<String>, x: Axis) -> Self {
        let shares = Axis::fraction("share of jobs at most x").from(0.0).to(1.0);
        Chart::new(title, x, shares)
    }

    /// Returns what the reader has to know, below the title.
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

    /// A small panel a series with all others in grey behind it: for many
    /// series that go up and down and would hide each other.
    #[must_use]
    pub fn in_panels(mut self, yes: bool) -> Self {
        self.panels = yes;
        self
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let x = self.x.fit(self.series.iter().flat_map(Series::xs), 6);
        let y = self.y.fit(self.series.iter().flat_map(Series::ys), 6);
        if self.panels {
            return panels::svg(self, x, y);
        }
        let names = || self.series.iter().map(|s| s.name.as_str());
        let (legend_width, legend_height) = legend_size(names());
        let left = 16.0 + room_of(&y);
        let width = left + WIDTH + 24.0 + legend_width + 16.0;
        let top = heading_height(&self.subtitle, width) + 4.0;
        let height = HEIGHT.max(legend_height);
        let mut page = Page::new(width, top + height + 52.0, &self.title);
        heading(&mut page, &self.title, &self.subtitle, width);
        let frame = Frame {
            left,
            top,
            width: WIDTH,
            height,
            x,
            y,
        };
        frame.draw(&mut page, 11.0, true, true);
        frame.draw_labels(&mut page);
        for (i, series) in self.series.iter().enumerate() {
            series.draw(&mut page, &frame, i);
        }
        legend(&mut page, frame.right() + 24.0, top, names());
        page.finish()
    }

    pub(crate) fn is_log_x(&self) -> bool {
        self.x.is_log()
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

    /// A well-formed page, as far as counting can tell.
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
        let d = svg
            .split(" d=\"M")
            .find(|d| d.contains("L") && d.contains("linejoin"));
        let points: Vec<f64> = d
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .split(['L', ' '])
            .map(|n| n.parse().unwrap())
            .collect();
        assert_eq!(points[4] - points[0], 540.0);
        assert_eq!(points[1] - points[5], 330.0);
        assert_eq!(points[3], (points[1] + points[5]) / 2.0);
    }
}
