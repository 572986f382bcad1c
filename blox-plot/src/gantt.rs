//! Which job held which GPUs when.

use crate::axis::{Axis, duration};
use crate::frame::{Frame, heading, heading_height};
use crate::style;
use crate::svg::{Anchor, Num, Page, width_of};

/// A job on GPUs for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The job: gives the colour.
    pub job: u32,
    /// Its GPUs as ranges, both ends included, numbered through all nodes.
    pub gpus: Vec<(u32, u32)>,
    /// From when, in seconds.
    pub start_s: f64,
    /// Until when, in seconds.
    pub end_s: f64,
}

/// GPUs over time: a row a GPU, a bar a job. Where that would be too fine to
/// see, shades say how busy GPUs were, and the picture says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Gantt {
    title: String,
    subtitle: String,
    nodes: Vec<u32>,
    bars: Vec<Bar>,
}

const WIDTH: f64 = 760.0;
/// The most bars, and the most rows, that are drawn one by one.
const BARS: usize = 8000;
const ROWS: u32 = 256;
const CELLS: usize = 380;

impl Gantt {
    /// Without bars yet; `nodes` has the number of GPUs of each node.
    pub fn new(title: impl Into<String>, nodes: impl IntoIterator<Item = u32>) -> Self {
        Gantt {
            title: title.into(),
            subtitle: String::new(),
            nodes: nodes.into_iter().collect(),
            bars: Vec::new(),
        }
    }

    /// What the reader has to know, below the title.
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// Adds bars.
    #[must_use]
    pub fn with_all(mut self, bars: impl IntoIterator<Item = Bar>) -> Self {
        let sound = |b: &Bar| b.start_s.is_finite() && b.end_s.is_finite() && b.end_s >= b.start_s;
        self.bars.extend(bars.into_iter().filter(sound));
        self
    }

    /// All rows: those of the nodes, and of GPUs that bars name beyond them.
    fn rows(&self) -> u32 {
        let named = self
            .bars
            .iter()
            .flat_map(|b| &b.gpus)
            .map(|(_, last)| last + 1);
        let all = named.max().unwrap_or(0);
        all.max(self.nodes.iter().sum()).max(1)
    }

    /// The picture.
    pub fn svg(&self) -> String {
        let rows = self.rows();
        let rects: usize = self.bars.iter().map(|b| b.gpus.len()).sum();
        let shaded = rects > BARS || rows > ROWS;
        let end = self.bars.iter().map(|b| b.end_s).fold(0.0, f64::max);
        let end = if end > 0.0 { end } else { 1.0 };
        let x = Axis::seconds("time")
            .from(0.0)
            .to(end)
            .fit(std::iter::empty(), 8);
        let left = 16.0 + width_of("node 0000", 10.0) + 8.0;
        let width = left + WIDTH + 24.0;
        // GPUs that share a row of shades.
        let per_row = if shaded { rows.div_ceil(128) } else { 1 };
        let mut subtitle = self.subtitle.clone();
        if shaded {
            let cell = (x.high - x.low) / CELLS as f64;
            let gpus = if per_row == 1 {
                "1 GPU".to_owned()
            } else {
                format!("{per_row} GPUs")
            };
            subtitle = format!(
                "{subtitle} Too fine for a bar a job: the darker, the busier {gpus} were in {}.",
                duration(cell)
            );
        }
        let top = heading_height(&subtitle, width) + 4.0;
        let height = (f64::from(rows) * 14.0).clamp(60.0, 512.0);
        let mut page = Page::new(width, top + height + 52.0, &self.title);
        heading(&mut page, &self.title, &subtitle, width);
        let frame = Frame {
            left,
            top,
            width: WIDTH,
            height,
            x,
            y: Axis::new("")
                .from(0.0)
                .to(f64::from(rows))
                .fit(std::iter::empty(), 1),
        };
        for (value, name) in &frame.x.ticks {
            let (x, _) = frame.place(*value, 0.0);
            page.grid_line(x, top, x, frame.bottom());
            page.text(x, frame.bottom() + 17.0, Anchor::Middle, 11.0, name);
        }
        if shaded {
            self.draw_shades(&mut page, &frame, rows, per_row);
        } else {
            self.draw_bars(&mut page, &frame, rows);
        }
        self.draw_nodes(&mut page, &frame, rows);
        page.axis_line(left, frame.bottom(), frame.right(), frame.bottom());
        page.axis_line(left, top, left, frame.bottom());
        let middle = left + WIDTH / 2.0;
        page.text(
            middle,
            frame.bottom() + 38.0,
            Anchor::Middle,
            12.0,
            &frame.x.label,
        );
        page.finish()
    }

    fn draw_bars(&self, page: &mut Page, frame: &Frame, rows: u32) {
        let row = frame.height / f64::from(rows);
        let gap = if row > 4.0 { 0.6 } else { 0.0 };
        for bar in &self.bars {
            let (a, _) = frame.place(bar.start_s, 0.0);
            let (b, _) = frame.place(bar.end_s, 0.0);
            let gpus: u32 = bar.gpus.iter().map(|(first, last)| last - first + 1).sum();
            page.put(format_args!(
                "<g fill=\"{}\"><title>job {}: {gpus} GPUs, {} to {} s</title>\n",
                style::colour(bar.job as usize),
                bar.job,
                Num(bar.start_s),
                Num(bar.end_s)
            ));
            for (first, last) in &bar.gpus {
                page.put(format_args!(
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                    Num(a),
                    Num(frame.top + f64::from(*first) * row + gap / 2.0),
                    Num((b - a - gap).max(0.4)),
                    Num(f64::from(last - first + 1) * row - gap)
                ));
            }
            page.put(format_args!("</g>\n"));
        }
    }

    fn draw_shades(&self, page: &mut Page, frame: &Frame, rows: u32, per_row: u32) {
        let lines = rows.div_ceil(per_row) as usize;
        let mut busy = vec![0.0; lines * CELLS];
        for bar in &self.bars {
            let cell = |t: f64| frame.x.at(t) * CELLS as f64;
            let (a, b) = (cell(bar.start_s), cell(bar.end_s));
            for c in a as usize..(b.ceil() as usize).min(CELLS) {
                let part = b.min(c as f64 + 1.0) - a.max(c as f64);
                for gpu in bar.gpus.iter().flat_map(|(first, last)| *first..=*last) {
                    busy[(gpu / per_row) as usize * CELLS + c] += part;
                }
            }
        }
        let (w, h) = (WIDTH / CELLS as f64, frame.height / lines as f64);
        for line in 0..lines {
            // The last row may stand for fewer GPUs.
            let gpus = f64::from(per_row.min(rows - line as u32 * per_row));
            let shade = |c: usize| (busy[line * CELLS + c] / gpus * 10.0).round().min(10.0) as u32;
            let mut c = 0;
            while c < CELLS {
                let s = shade(c);
                let run = (c..CELLS).take_while(|k| shade(*k) == s).count();
                if s > 0 {
                    page.put(format_args!(
                        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" fill-opacity=\"{}\"/>\n",
                        Num(frame.left + c as f64 * w),
                        Num(frame.top + line as f64 * h),
                        Num(run as f64 * w),
                        Num(h),
                        style::COLOURS[0],
                        Num(f64::from(s) / 10.0)
                    ));
                }
                c += run;
            }
        }
    }

    /// A line between nodes, and names as far as there is room.
    fn draw_nodes(&self, page: &mut Page, frame: &Frame, rows: u32) {
        let row = frame.height / f64::from(rows);
        let (mut first, mut free) = (0, frame.top);
        for (node, gpus) in self.nodes.iter().enumerate() {
            let top = frame.top + f64::from(first) * row;
            let height = f64::from(*gpus) * row;
            if node > 0 && height > 4.0 {
                page.grid_line(frame.left, top, frame.right(), top);
            }
            let middle = top + height / 2.0;
            if middle - 6.0 >= free {
                let name = format!("node {node}");
                page.text(frame.left - 7.0, middle + 3.5, Anchor::End, 10.0, &name);
                free = middle + 6.0;
            } else if node == 0 {
                page.text(frame.left - 7.0, top + 9.0, Anchor::End, 10.0, "node 0");
                free = top + 14.0;
            }
            first += gpus;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(job: u32, first: u32, last: u32, start_s: f64, end_s: f64) -> Bar {
        Bar {
            job,
            gpus: vec![(first, last)],
            start_s,
            end_s,
        }
    }

    #[test]
    fn a_bar_covers_its_gpus_and_its_time() {
        let svg = Gantt::new("las", [2, 2])
            .with_all([bar(0, 0, 1, 0.0, 100.0), bar(1, 2, 2, 50.0, 100.0)])
            .svg();
        // Four rows of 15 pixels; all of the width, and half of it.
        assert!(svg.contains("width=\"759.4\" height=\"29.4\""), "{svg}");
        assert!(svg.contains("width=\"379.4\" height=\"14.4\""), "{svg}");
        assert!(svg.contains("<title>job 1: 1 GPUs, 50 to 100 s</title>"));
        assert!(svg.contains("node 1"));
    }

    #[test]
    fn what_is_too_fine_is_shaded_and_says_so() {
        let many = (0..20_000).map(|i| bar(i, i % 4, i % 4, f64::from(i), f64::from(i) + 1.0));
        let svg = Gantt::new("las", [4]).with_all(many).svg();
        assert!(svg.contains("the busier 1 GPU were"));
        // Each GPU is busy a quarter of the time.
        assert!(svg.contains("fill-opacity=\"0.3\"") || svg.contains("fill-opacity=\"0.2\""));
        assert!(svg.len() < 200_000, "{}", svg.len());
        let wide = Gantt::new("big", [8; 1024]).with_all([bar(0, 0, 4095, 0.0, 10.0)]);
        assert!(wide.svg().contains("64 GPUs"));
    }

    #[test]
    fn unsound_bars_are_left_out() {
        let g = Gantt::new("x", []).with_all([bar(0, 0, 0, 5.0, 1.0), bar(0, 0, 0, f64::NAN, 1.0)]);
        assert!(g.bars.is_empty() && g.svg().ends_with("</svg>\n"));
    }
}
