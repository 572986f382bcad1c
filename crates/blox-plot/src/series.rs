//! A series of data under one name, and its line in a frame.

use crate::frame::Frame;
use crate::style;
use crate::svg::{GRID, Num, Page};

/// Points under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Lower and upper ends, one pair for each point. Empty without intervals.
    pub(crate) intervals: Vec<(f64, f64)>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Line,
    Steps,
    Distribution,
}

impl Series {
    /// Returns a line through points `(x, y)`, in this order.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Series {
            name: name.into(),
            points: points.into_iter().collect(),
            intervals: Vec::new(),
            kind: Kind::Line,
        }
    }

    /// Returns a step function: each value `(x, y)` holds until the next one.
    pub fn steps(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Series {
            kind: Kind::Steps,
            ..Series::line(name, points)
        }
    }

    /// Returns a cumulative distribution: for each x, the share of values that are at most x.
    pub fn distribution(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let n = values.len() as f64;
        let mut points: Vec<(f64, f64)> = Vec::with_capacity(values.len());
        for (i, v) in values.into_iter().enumerate() {
            let share = (i + 1) as f64 / n;
            match points.last_mut() {
                Some(last) if last.0 == v => last.1 = share,
                _ => points.push((v, share)),
            }
        }
        Series {
            kind: Kind::Distribution,
            ..Series::line(name, points)
        }
    }

    /// Adds an interval `(low, high)` to each point, for example a confidence interval. The
    /// intervals are in the order of the points.
    #[must_use]
    pub fn between(mut self, intervals: impl IntoIterator<Item = (f64, f64)>) -> Self {
        self.intervals = intervals.into_iter().collect();
        self
    }

    /// Returns each x. Steps that end at zero have no x after the fall to zero.
    pub(crate) fn xs(&self) -> impl Iterator<Item = f64> {
        let count = match self.kind {
            Kind::Steps => {
                let ys = || self.points.iter().map(|p| p.1.abs());
                let highest = ys().filter(|y| y.is_finite()).fold(0.0, f64::max);
                // Half a pixel of the frame is not visible.
                let busy = self
                    .points
                    .iter()
                    .rposition(|p| p.1.abs() > highest / 400.0);
                busy.map_or(self.points.len(), |i| i + 2)
            }
            _ => self.points.len(),
        };
        self.points.iter().take(count).map(|p| p.0)
    }

    pub(crate) fn is_line(&self) -> bool {
        self.kind == Kind::Line
    }

    pub(crate) fn ys(&self) -> impl Iterator<Item = f64> {
        let ends = self.intervals.iter().flat_map(|(a, b)| [*a, *b]);
        self.points.iter().map(|p| p.1).chain(ends)
    }

    /// Returns the vertices of the line in pixels.
    fn vertices(&self, frame: &Frame) -> Vec<(f64, f64)> {
        let mut list: Vec<(f64, f64)> = Vec::new();
        let finite = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
        for p in self.points.iter().filter(finite) {
            let here = frame.place(p.0, p.1);
            match (self.kind, list.last()) {
                (Kind::Line, _) | (Kind::Steps, None) => {}
                (Kind::Distribution, None) => list.push(frame.place(p.0, 0.0)),
                (_, Some(last)) => list.push((here.0, last.1)),
            }
            list.push(here);
        }
        thinned(list)
    }

    /// Draws the series as number `i`.
    pub(crate) fn draw(&self, page: &mut Page, frame: &Frame, i: usize) {
        let vertices = self.vertices(frame);
        let (colour, dash, width) = (style::colour(i), style::dash(i), style::width(i));
        let look =
            format!("stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}");
        polyline(page, &vertices, &look);
        self.draw_intervals(page, frame, i);
        for (x, y) in self.marks(&vertices, i) {
            style::marker(page, i, x, y);
        }
    }

    /// Draws the line without dashes and markers, as number `i`: for a panel.
    pub(crate) fn draw_plain(&self, page: &mut Page, frame: &Frame, i: usize) {
        let colour = style::colour(i);
        let look = format!("stroke=\"{colour}\" stroke-width=\"1.3\" stroke-linejoin=\"round\"");
        polyline(page, &self.vertices(frame), &look);
    }

    /// Draws the line thin and grey, behind others.
    pub(crate) fn draw_behind(&self, page: &mut Page, frame: &Frame) {
        let (colour, opacity) = GRID;
        let look = format!(
            "class=\"grid\" stroke=\"{colour}\" stroke-opacity=\"{opacity}\" stroke-width=\"0.7\""
        );
        polyline(page, &self.vertices(frame), &look);
    }

    fn draw_intervals(&self, page: &mut Page, frame: &Frame, i: usize) {
        // Whiskers of several series at one x stand side by side, the first in the middle.
        let shift = [0.0, 4.0, -4.0, 8.0, -8.0][i % 5];
        for (p, (low, high)) in self.points.iter().zip(&self.intervals) {
            if ![p.0, *low, *high].iter().all(|v| v.is_finite()) {
                continue;
            }
            let (x, bottom) = frame.place(p.0, *low);
            let (_, top) = frame.place(p.0, *high);
            let (a, m, b) = (Num(x + shift - 2.0), Num(x + shift), Num(x + shift + 2.0));
            let (bottom, top) = (Num(bottom), Num(top));
            page.put(format_args!(
                "<path d=\"M{a} {bottom}L{b} {bottom}M{m} {bottom}L{m} {top}M{a} {top}L{b} {top}\" \
                 fill=\"none\" stroke=\"{}\"/>\n",
                style::colour(i)
            ));
        }
    }

    /// Returns the places of the markers. A line of at most 40 points has a marker at each
    /// point. The markers of other series are far apart, and between the markers of their neighbours.
    fn marks(&self, vertices: &[(f64, f64)], i: usize) -> Vec<(f64, f64)> {
        const APART: f64 = 84.0;
        if self.kind == Kind::Line && vertices.len() <= 40 {
            return vertices.to_vec();
        }
        let mut next = (i as f64 * 25.0) % APART + 10.0;
        let mut gone = 0.0;
        let mut list = Vec::new();
        for pair in vertices.windows(2) {
            let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
            let length = match self.kind {
                // A series that goes up and down is long, but not wide.
                Kind::Steps => x2 - x1,
                _ => (x2 - x1).hypot(y2 - y1),
            };
            while next <= gone + length && length > 0.0 {
                let part = (next - gone) / length;
                list.push((x1 + part * (x2 - x1), y1 + part * (y2 - y1)));
                next += APART;
            }
            gone += length;
        }
        list
    }
}

/// Width of a sample in a legend.
pub(crate) const SAMPLE: f64 = 28.0;

/// Draws the sample of series `i` in a legend.
pub(crate) fn sample(page: &mut Page, i: usize, left: f64, y: f64) {
    let (a, b) = (Num(left), Num(left + SAMPLE));
    page.put(format_args!(
        "<path d=\"M{a} {y}L{b} {y}\" stroke=\"{}\" stroke-width=\"{}\" fill=\"none\"{}/>\n",
        style::colour(i),
        style::width(i),
        style::dash(i),
        y = Num(y)
    ));
    style::marker(page, i, left + SAMPLE / 2.0, y);
}

/// Draws a line; `look` has its attributes.
fn polyline(page: &mut Page, vertices: &[(f64, f64)], look: &str) {
    if vertices.is_empty() {
        return;
    }
    page.put(format_args!("<path d=\""));
    let mut last: Option<(f64, f64)> = None;
    for (x, y) in vertices {
        match last {
            None => page.put(format_args!("M{} {}", Num(*x), Num(*y))),
            // Short forms of horizontal and vertical parts: most lines are steps.
            Some(last) if last.1 == *y => page.put(format_args!("H{}", Num(*x))),
            Some(last) if last.0 == *x => page.put(format_args!("V{}", Num(*y))),
            Some(_) => page.put(format_args!("L{} {}", Num(*x), Num(*y))),
        }
        last = Some((*x, *y));
    }
    page.put(format_args!("\" fill=\"none\" {look}/>\n"));
}

/// Keeps the first, lowest, highest and last vertex of each half pixel of x. The picture does
/// not change.
fn thinned(vertices: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let column = |v: &(f64, f64)| (v.0 * 2.0).floor();
    let mut out: Vec<(f64, f64)> = Vec::new();
    let mut rest = &vertices[..];
    while let Some(first) = rest.first() {
        let n = rest
            .iter()
            .take_while(|v| column(v) == column(first))
            .count();
        let (group, after) = rest.split_at(n);
        rest = after;
        if n <= 4 {
            out.extend(group);
            continue;
        }
        let by_y = |a: &usize, b: &usize| group[*a].1.total_cmp(&group[*b].1);
        let mut keep = [
            0,
            (0..n).min_by(by_y).unwrap_or(0),
            (0..n).max_by(by_y).unwrap_or(0),
            n - 1,
        ];
        keep.sort_unstable();
        let mut last = usize::MAX;
        for k in keep {
            if k != last {
                out.push(group[k]);
            }
            last = k;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_counts_equals_once() {
        let s = Series::distribution("s", [3.0, 1.0, 3.0, f64::NAN, 2.0]);
        assert_eq!(s.points, [(1.0, 0.25), (2.0, 0.5), (3.0, 1.0)]);
        assert!(Series::distribution("s", []).points.is_empty());
    }

    #[test]
    fn thinning_keeps_peaks_and_ends() {
        let mut v: Vec<(f64, f64)> = (0..1000).map(|i| (f64::from(i) * 1e-4, 5.0)).collect();
        v[400].1 = 90.0;
        v[700].1 = -3.0;
        let thin = thinned(v.clone());
        assert_eq!(thin, [v[0], v[400], v[700], v[999]]);
        let few = vec![(0.0, 1.0), (0.1, 2.0), (9.0, 1.0)];
        assert_eq!(thinned(few.clone()), few);
    }
}
