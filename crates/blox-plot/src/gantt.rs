//! GPUs over time: the jobs on each GPU.

use crate::axis::{Axis, Room, duration};
use crate::chart::RIGHT;
use crate::frame::{Frame, Heading, Label};
use crate::style::{self, SMALL, WIDTH};
use crate::svg::{Anchor, Escaped, Num, Page, width_of};
use std::collections::BTreeMap;

/// A job on GPUs for an interval of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The number of the job. It determines the colour.
    pub job: u32,
    /// The identifier of the job, which a hint shows.
    pub job_id: Box<str>,
    /// The GPUs as ranges with both ends included, numbered through all nodes.
    pub gpus: Vec<(u32, u32)>,
    /// Start in seconds.
    pub start_s: f64,
    /// End in seconds.
    pub end_s: f64,
}

/// GPUs over time: a row for each GPU, a bar for each job.
///
/// With more than 8,000 bars or 256 GPUs, the chart has cells, each for several bars. The
/// subtitle then states the size of a cell. The time axis ends at the last end of a bar. Idle
/// nodes at the end are left out if they are a quarter of the GPUs or more.
#[derive(Clone, Debug, PartialEq)]
pub struct Gantt {
    title: String,
    subtitle: String,
    nodes: Vec<u32>,
    bars: Vec<Bar>,
}

/// The most bars, and the most rows, that are drawn one by one.
const BARS: usize = 8000;
const ROWS: u32 = 256;
const CELLS: usize = 330;

impl Gantt {
    /// Returns a chart without bars; `nodes` has the number of GPUs of each node.
    pub fn new(title: impl Into<String>, nodes: impl IntoIterator<Item = u32>) -> Self {
        Gantt {
            title: title.into(),
            subtitle: String::new(),
            nodes: nodes.into_iter().collect(),
            bars: Vec::new(),
        }
    }

    /// Sets the text below the title.
    #[must_use]
    pub fn subtitle(mut self, text: impl Into<String>) -> Self {
        self.subtitle = text.into();
        self
    }

    /// Adds bars, except bars without a finite start and an end after it.
    #[must_use]
    pub fn with_all(mut self, bars: impl IntoIterator<Item = Bar>) -> Self {
        let sound = |b: &Bar| b.start_s.is_finite() && b.end_s.is_finite() && b.end_s >= b.start_s;
        self.bars.extend(bars.into_iter().filter(sound));
        self
    }

    /// Returns the number of rows, and a note about nodes without a row.
    ///
    /// A bar may name a GPU beyond the nodes. If no job ran on the last nodes, and these are a
    /// quarter of the GPUs or more, the chart ends before them.
    fn rows(&self) -> (u32, String) {
        let named = self.bars.iter().flat_map(|b| &b.gpus);
        let used = named.map(|(_, last)| last + 1).max().unwrap_or(0);
        let all = used.max(self.nodes.iter().sum()).max(1);
        let mut until = 0;
        for (node, gpus) in self.nodes.iter().enumerate() {
            until += gpus;
            let idle = all.saturating_sub(until);
            if used > 0 && until >= used && idle > 0 && idle >= all / 4 {
                let note = match self.nodes.len() - 1 - node {
                    1 => format!(" Not drawn: node {}, without a job.", node + 1),
                    _ => format!(
                        " Not drawn: nodes {} to {}, without a job.",
                        node + 1,
                        self.nodes.len() - 1
                    ),
                };
                return (until, note);
            }
        }
        (all, String::new())
    }

    /// Returns the picture.
    pub fn svg(&self) -> String {
        let (rows, note) = self.rows();
        let rects: usize = self.bars.iter().map(|b| b.gpus.len()).sum();
        let merged = rects > BARS || rows > ROWS;
        let end = self.bars.iter().map(|b| b.end_s).fold(0.0, f64::max);
        let end = if end > 0.0 { end } else { 1.0 };
        let last = format!("node {}", self.nodes.len().saturating_sub(1));
        let left = width_of(&last, SMALL) + 12.0;
        let width = WIDTH - left - RIGHT;
        let x = Axis::seconds("time")
            .from(0.0)
            .to(end)
            .fit(std::iter::empty(), &Room::across(width, SMALL));
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
                "{subtitle} Each cell ({cell} of {gpus}) has the colour of the job with the \
                 longest stay in it; cells with idle GPUs are paler."
            );
        }
        subtitle.push_str(&note);
        let heading = Heading::of(&self.title, &subtitle, WIDTH);
        let label = Label::of(&x.label, width);
        let frame = Frame {
            left,
            top: heading.height(),
            width,
            height: (f64::from(rows) * 14.0).clamp(60.0, 360.0),
            x,
            y: Axis::new("")
                .from(0.0)
                .to(f64::from(rows))
                .fit(std::iter::empty(), &Room::upwards(1.0, SMALL)),
        };
        let height = frame.bottom() + label.below() + 4.0;
        let mut page = Page::new(WIDTH, height, &self.title);
        heading.draw(&mut page);
        frame.draw_x(&mut page, true);
        if merged {
            self.draw_cells(&mut page, &frame, rows, per_row);
        } else {
            self.draw_bars(&mut page, &frame, rows);
        }
        self.draw_nodes(&mut page, &frame, rows);
        page.axis_line(left, frame.top, left, frame.bottom());
        label.draw_below(&mut page, left + width / 2.0, frame.bottom());
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
                Escaped(&bar.job_id),
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
        // For each cell: busy time, longest stay, and the job with the longest stay.
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
        let (w, h) = (frame.width / CELLS as f64, frame.height / lines as f64);
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

    /// Draws a line between nodes, and the names of nodes that have room.
    fn draw_nodes(&self, page: &mut Page, frame: &Frame, rows: u32) {
        let row = frame.height / f64::from(rows);
        let (mut first, mut free) = (0, frame.top);
        for (node, gpus) in self.nodes.iter().enumerate() {
            let top = frame.top + f64::from(first) * row;
            let height = f64::from(*gpus) * row;
            if first >= rows {
                break;
            }
            if node > 0 && height > 4.0 {
                page.grid_line(frame.left, top, frame.right(), top);
            }
            let middle = top + height / 2.0;
            let half = SMALL * 0.6;
            if middle - half >= free || node == 0 {
                let name = format!("node {node}");
                let y = middle.max(frame.top + half) + SMALL * 0.35;
                page.text(frame.left - 6.0, y, Anchor::End, SMALL, &name);
                free = middle.max(frame.top + half) + half;
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
            job_id: format!("<{job}>").into(),
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
        // Four rows of 15 pixels; the whole width, and half of it.
        let width = WIDTH - RIGHT - 12.0 - width_of("node 1", SMALL);
        let (whole, half) = (Num(width - 0.6), Num(width / 2.0 - 0.6));
        assert!(
            svg.contains(&format!("width=\"{whole}\" height=\"29.4\"")),
            "{svg}"
        );
        assert!(
            svg.contains(&format!("width=\"{half}\" height=\"14.4\"")),
            "{svg}"
        );
        assert!(svg.contains("<title>job &lt;1&gt;: 1 GPU, 50 to 100 s</title>"));
        assert!(svg.contains("node 1"));
    }

    #[test]
    fn bars_too_fine_to_draw_are_merged_with_a_note() {
        let many = (0..20_000).map(|i| bar(i, i % 4, i % 4, f64::from(i), f64::from(i) + 1.0));
        let svg = Gantt::new("las", [4]).with_all(many).svg();
        assert!(svg.contains("of 1 GPU)"), "{}", &svg[..600]);
        // Each GPU is busy a quarter of the time.
        assert!(svg.contains("fill-opacity=\"0.25\"") || svg.contains("fill-opacity=\"0.5\""));
        assert!(!svg.contains("fill-opacity=\"1\""));
        assert!(svg.len() < 200_000, "{}", svg.len());
        let wide = Gantt::new("big", [8; 1024]).with_all([bar(0, 0, 4095, 0.0, 10.0)]);
        assert!(wide.svg().contains("32 GPUs"), "{}", &wide.svg()[..900]);
    }

    #[test]
    fn nodes_without_a_job_at_the_end_are_not_drawn() {
        let svg = Gantt::new("las", [2, 2, 2, 2]).with_all([bar(0, 0, 2, 0.0, 9.0)]);
        let svg = svg.svg();
        assert!(
            svg.contains("Not drawn: nodes 2 to 3, without a job."),
            "{svg}"
        );
        assert!(svg.contains(">node 1<") && !svg.contains(">node 2<"));
        // Without any job, and with few idle nodes, every node is drawn.
        assert!(!Gantt::new("las", [2, 2]).svg().contains("Not drawn"));
        let most = Gantt::new("las", [2; 8]).with_all([bar(0, 0, 13, 0.0, 9.0)]);
        assert!(most.svg().contains(">node 7<"));
    }

    #[test]
    fn unsound_bars_are_left_out() {
        let g = Gantt::new("x", []).with_all([bar(0, 0, 0, 5.0, 1.0), bar(0, 0, 0, f64::NAN, 1.0)]);
        assert!(g.bars.is_empty() && g.svg().ends_with("</svg>\n"));
    }
}
