//! Which job held which GPUs when.

use crate::axis::{Axis, duration};
use crate::frame::{Frame, heading, heading_height};
use crate::style;
use crate::svg::{Anchor, Num, Page, width_of};
use std::collections::BTreeMap;

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
/// see, a cell stands for many bars, and the picture says how.
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

    /// Returns what the reader has to know, below the title.
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
        let merged = rects > BARS || rows > ROWS;
        let end = self.bars.iter().map(|b| b.end_s).fold(0.0, f64::max);
        let end = if end > 0.0 { end } else { 1.0 };
        let x = Axis::seconds("time")
            .from(0.0)
            .to(end)
            .fit(std::iter::empty(), 8);
        let left = 16.0 + width_of("node 0000", 10.0) + 8.0;
        let width = left + WIDTH + 24.0;
        // GPUs that share a row of cells.
        let per_row = if merged { rows.div_ceil(128) } else { 1 };
        let mut subtitle = self.subtitle.clone();
        if merged {
            let cell = duration((x.high - x.low) / CELLS as f64);
            let gpus = match per_row {
                1 => "1 GPU".to_owned(),
                n => format!("{n} GPUs"),
            };
            subtitle = format!(
                "{subtitle} Too fine for a bar a job: each cell ({cell} of {gpus}) has the colour of the job \
                 that was there longest at a stretch, and is paler where GPUs idled."
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
        if merged {
            self.draw_cells(&mut page, &frame, rows, per_row);
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
                "<g fill=\"{}\"><title>job {}: {gpus} GPU{}, {} to {} s</title>\n",
                style::colour(bar.job as usize),
                bar.job,
                if gpus == 1 { "" } else { "s" },
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

    fn draw_cells(&self, page: &mut Page, frame: &Frame, rows: u32, per_row: u32) {
        let lines = rows.div_ceil(per_row) as usize;
        // How busy each cell was, and who was there longest.
        let mut cells = vec![(0.0, 0.0, 0); lines * CELLS];
        for bar in &self.bars {
            let cell = |t: f64| frame.x.at(t) * CELLS as f64;
            let (a, b) = (cell(bar.start_s), cell(bar.end_s));
            for c in a as usize..(b.ceil() as usize).min(CELLS) {
                let part = b.min(c as f64 + 1.0) - a.max(c as f64);
                for gpu in bar.gpus.iter().flat_map(|(first, last)| *first..=*last) {
                    let (busy, longest, job) = &mut cells[(gpu / per_row) as usize * CELLS + c];
                    *busy += part;
                    if part > *longest {
                        (*longest, *job) = (part, bar.job);
                    }
                }
            }
        }
        let (w, h) = (WIDTH / CELLS as f64, frame.height / lines as f64);
        // A path for each colour and shade is far shorter than a rectangle a cell.
        let mut paths: BTreeMap<(usize, u32), String> = BTreeMap::new();
        for line in 0..lines {
            // The last row may stand for fewer GPUs.
            let gpus = f64::from(per_row.min(rows - line as u32 * per_row));
            let look = |c: usize| {
                let (busy, _, job) = cells[line * CELLS + c];
                let shade = (busy / gpus * 4.0).ceil().min(4.0) as u32;
                (job as usize % style::COLOURS.len(), shade)
            };
            let mut c = 0;
            while c < CELLS {
                let key = look(c);
                let run = (c..CELLS).take_while(|k| look(*k) == key).count();
                if key.1 > 0 {
                    let x = Num(frame.left + c as f64 * w);
                    let y = Num(frame.top + line as f64 * h);
                    let (w, h) = (Num(run as f64 * w), Num(h));
                    let path = paths.entry(key).or_default();
                    path.push_str(&format!("M{x} {y}h{w}v{h}h-{w}z"));
                }
                c += run;
            }
        }
        for ((colour, shade), d) in paths {
            page.put(format_args!(
                "<path fill=\"{}\" fill-opacity=\"{}\" d=\"{d}\"/>\n",
                style::COLOURS[colour],
                Num(f64::from(shade) / 4.0)
            ));
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
        assert!(svg.contains("<title>job 1: 1 GPU, 50 to 100 s</title>"));
        assert!(svg.contains("node 1"));
    }

    #[test]
    fn what_is_too_fine_is_merged_and_says_so() {
        let many = (0..20_000).map(|i| bar(i, i % 4, i % 4, f64::from(i), f64::from(i) + 1.0));
        let svg = Gantt::new("las", [4]).with_all(many).svg();
        assert!(svg.contains("of 1 GPU)"), "{}", &svg[..600]);
        // Each GPU is busy a quarter of the time.
        assert!(svg.contains("fill-opacity=\"0.25\"") || svg.contains("fill-opacity=\"0.5\""));
        assert!(!svg.contains("fill-opacity=\"1\""));
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
