//! GPUs over time: the jobs on each GPU.

use crate::axis::{Axis, Room, TimeUnit, grouped};
use crate::bar::Bar;
use crate::chart::RIGHT;
use crate::colouring::colours_apart;
use crate::frame::{Frame, Heading, Label};
use crate::style::{self, SMALL, WIDTH};
use crate::svg::{Anchor, Escaped, Num, Page, fitted_name, width_of};
use std::collections::BTreeMap;

/// GPUs over time: a row for each GPU, a bar for each job.
///
/// [Colours](colours_apart) separate jobs that touch; they do not identify jobs. Jobs that have a GPU at
/// the same time share the height of its row.
///
/// A chart has cells, each for several bars, if it has more than 4,000 bars or 256 GPUs. It also has
/// them if most of many bars are too narrow to see. The subtitle then states the size of a cell. The picture stays below 400 kB. The time axis ends at the
/// last end of a bar. Idle nodes at the end are left out if they are a quarter of the GPUs or more.
#[derive(Clone, Debug, PartialEq)]
pub struct Gantt {
    title: String,
    subtitle: String,
    nodes: Vec<u32>,
    types: Vec<String>,
    unit: Option<TimeUnit>,
    bars: Vec<Bar>,
}

/// The most bars, and the most rows, that are drawn one by one.
const BARS: usize = 4000;
const ROWS: u32 = 256;
/// The most bars with a hint each.
const HINTS: usize = 1000;
/// The width in units of the picture below which a bar is narrow.
const NARROW: f64 = 2.0;
/// The most cells across: about one for each unit of the picture.
const CELLS: usize = 330;
/// The most rows of cells.
const LINES: u32 = 128;
/// The most rectangles of cells. With more, cells are made larger.
const RECTS: usize = 10_000;
/// The most room for the names of nodes.
const NAMES: f64 = 120.0;

impl Gantt {
    /// Returns a chart without bars; `nodes` has the number of GPUs of each node.
    pub fn new(title: impl Into<String>, nodes: impl IntoIterator<Item = u32>) -> Self {
        Gantt {
            title: title.into(),
            subtitle: String::new(),
            nodes: nodes.into_iter().collect(),
            types: Vec::new(),
            unit: None,
            bars: Vec::new(),
        }
    }

    /// Names the type of the GPUs of each node, in the order of the nodes. An empty type is not shown.
    #[must_use]
    pub fn types(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.types = types.into_iter().map(Into::into).collect();
        self
    }

    /// Shows all times in this unit. The default is the unit that fits the last end of a bar.
    #[must_use]
    pub fn in_unit(mut self, unit: TimeUnit) -> Self {
        self.unit = Some(unit);
        self
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

    /// Returns the name of a node, with the type of its GPUs.
    fn name(&self, node: usize) -> String {
        match self.types.get(node).filter(|t| !t.is_empty()) {
            Some(gpu_type) => format!("node {node} ({gpu_type})"),
            None => format!("node {node}"),
        }
    }

    /// Returns the picture.
    pub fn svg(&self) -> String {
        let (rows, note) = self.rows();
        let rects: usize = self.bars.iter().map(|b| b.gpus.len()).sum();
        let end = self.bars.iter().map(|b| b.end_s).fold(0.0, f64::max);
        let end = if end > 0.0 { end } else { 1.0 };
        let narrow = |b: &&Bar| b.end_s - b.start_s < end / CELLS as f64 * NARROW;
        let fine = rects > HINTS && self.bars.iter().filter(narrow).count() > self.bars.len() / 2;
        let merged = rects > BARS || rows > ROWS || fine;
        let unit = self.unit.unwrap_or_else(|| TimeUnit::of(end));
        let names = (0..self.nodes.len().max(1)).map(|node| width_of(&self.name(node), SMALL));
        let left = names.fold(0.0, f64::max).min(NAMES) + 12.0;
        let width = WIDTH - left - RIGHT;
        let x = Axis::seconds("time")
            .in_unit(unit)
            .from(0.0)
            .to(end)
            .fit(std::iter::empty(), &Room::across(width, SMALL));
        let cells = merged.then(|| Cells::of(&self.bars, rows, x.high));
        let mut subtitle = self.subtitle.clone();
        if let Some(cells) = &cells {
            let cell = unit.text(x.high / cells.across as f64);
            let gpus = match cells.per_line {
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
        match &cells {
            Some(cells) => cells.draw(&mut page, &frame),
            None => self.draw_bars(&mut page, &frame, rows, unit),
        }
        self.draw_nodes(&mut page, &frame, rows);
        page.axis_line(left, frame.top, left, frame.bottom());
        label.draw_below(&mut page, left + width / 2.0, frame.bottom());
        page.finish()
    }

    fn draw_bars(&self, page: &mut Page, frame: &Frame, rows: u32, unit: TimeUnit) {
        let row = frame.height / f64::from(rows);
        let gap = if row > 4.0 { 0.6 } else { 0.0 };
        // Bars less than a unit of the picture apart seem to touch.
        let near = (frame.x.high - frame.x.low) / frame.width;
        let rect = |bar: &Bar, top: f64, height: f64| {
            let (a, b) = (
                frame.place(bar.start_s, 0.0).0,
                frame.place(bar.end_s, 0.0).0,
            );
            // Narrow bars have no room for a gap; their colours differ.
            let gap_x = if b - a > NARROW { gap } else { 0.0 };
            let width = Num((b - a - gap_x).max(0.4));
            format!(
                "M{} {}h{width}v{}h-{width}z",
                Num(a),
                Num(frame.top + top + gap / 2.0),
                Num((height - gap).max(0.4)),
            )
        };
        let paths = |bar: &Bar, lane: &Lane| {
            let mut path = String::new();
            for (first, last) in &bar.gpus {
                let top = |gpu: u32| f64::from(gpu) * row;
                if lane.of == 1 {
                    path.push_str(&rect(bar, top(*first), top(last - first + 1)));
                    continue;
                }
                let height = row / lane.of as f64;
                let shift = lane.at as f64 * height;
                (*first..=*last)
                    .for_each(|gpu| path.push_str(&rect(bar, top(gpu) + shift, height)));
            }
            path
        };
        let lanes = lanes(&self.bars);
        let colours = colours_apart(&self.bars, near);
        if self.bars.len() > HINTS {
            let mut of_colour = vec![String::new(); style::COLOURS.len()];
            for ((bar, lane), colour) in self.bars.iter().zip(&lanes).zip(colours) {
                of_colour[colour].push_str(&paths(bar, lane));
            }
            for (colour, d) in style::COLOURS.iter().zip(of_colour) {
                page.put(format_args!("<path fill=\"{colour}\" d=\"{d}\"/>\n"));
            }
            return;
        }
        let time = |s: f64| grouped(s / unit.secs(), 3);
        for ((bar, lane), colour) in self.bars.iter().zip(&lanes).zip(colours) {
            let gpus: u32 = bar.gpus.iter().map(|(first, last)| last - first + 1).sum();
            page.put(format_args!(
                "<path fill=\"{}\" d=\"{}\"><title>job {}: {gpus} GPU{}, {} to {} {}</title></path>\n",
                style::COLOURS[colour],
                paths(bar, lane),
                Escaped(&bar.job_id),
                if gpus == 1 { "" } else { "s" },
                time(bar.start_s),
                time(bar.end_s),
                unit.symbol(),
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
                let name = fitted_name(&self.name(node), SMALL, frame.left - 12.0);
                let y = middle.max(frame.top + half) + SMALL * 0.35;
                page.text(frame.left - 6.0, y, Anchor::End, SMALL, &name);
                free = middle.max(frame.top + half) + half;
            }
            first += gpus;
        }
    }
}

/// The part of the height of its rows that a bar has: one of several equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    at: usize,
    of: usize,
}

/// Returns a lane for each bar. Bars of two jobs on a GPU at the same time have different ones.
fn lanes(bars: &[Bar]) -> Vec<Lane> {
    let mut order: Vec<usize> = (0..bars.len()).collect();
    order.sort_by(|a, b| bars[*a].start_s.total_cmp(&bars[*b].start_s));
    let mut lanes = vec![Lane { at: 0, of: 1 }; bars.len()];
    // Bars that share GPUs directly or by others have the number of one of them.
    let mut group: Vec<usize> = (0..bars.len()).collect();
    let mut open: Vec<usize> = Vec::new();
    for at in order {
        let bar = &bars[at];
        open.retain(|other| bars[*other].end_s > bar.start_s);
        let meets = |a: &(u32, u32), b: &(u32, u32)| a.0 <= b.1 && b.0 <= a.1;
        let shares = |other: &&usize| {
            let other = &bars[**other];
            let meet = |range| other.gpus.iter().any(|theirs| meets(range, theirs));
            other.job != bar.job && bar.gpus.iter().any(meet)
        };
        let beside: Vec<usize> = open.iter().filter(shares).copied().collect();
        let taken = |lane: &usize| beside.iter().any(|other| lanes[*other].at == *lane);
        lanes[at].at = (0..).find(|lane| !taken(lane)).unwrap_or(0);
        for other in beside {
            let (old, new) = (group[other], group[at]);
            group
                .iter_mut()
                .filter(|g| **g == old)
                .for_each(|g| *g = new);
        }
        open.push(at);
    }
    let mut most = vec![1; bars.len()];
    for (lane, group) in lanes.iter().zip(&group) {
        most[*group] = most[*group].max(lane.at + 1);
    }
    for (lane, group) in lanes.iter_mut().zip(&group) {
        lane.of = most[*group];
    }
    lanes
}

/// Bars merged into cells.
struct Cells {
    /// Number of cells across.
    across: usize,
    lines: u32,
    /// GPUs for each line.
    per_line: u32,
    /// Cells of one job: their lines and columns, the quarter of their GPU time that is busy, and the
    /// colour.
    runs: Vec<(Bar, u32, usize)>,
}

impl Cells {
    /// Merges bars into the smallest cells that need few rectangles.
    fn of(bars: &[Bar], rows: u32, end: f64) -> Self {
        let mut across = CELLS;
        loop {
            let cells = Cells::with(bars, rows, end, across);
            if cells.runs.len() <= RECTS || across < 2 {
                return cells;
            }
            across = across * 3 / 4;
        }
    }

    fn with(bars: &[Bar], rows: u32, end: f64, across: usize) -> Self {
        let per_line = rows.div_ceil(LINES);
        let lines = rows.div_ceil(per_line);
        // For each cell: busy time, longest stay, and the job with the longest stay.
        let mut cells = vec![(0.0, 0.0, 0); lines as usize * across];
        for bar in bars {
            let cell = |t: f64| (t / end).clamp(0.0, 1.0) * across as f64;
            let (a, b) = (cell(bar.start_s), cell(bar.end_s));
            for c in a as usize..(b.ceil() as usize).min(across) {
                let part = b.min(c as f64 + 1.0) - a.max(c as f64);
                for gpu in bar.gpus.iter().flat_map(|(first, last)| *first..=*last) {
                    let (busy, longest, job) = &mut cells[(gpu / per_line) as usize * across + c];
                    *busy += part;
                    if part > *longest {
                        (*longest, *job) = (part, bar.job);
                    }
                }
            }
        }
        let mut runs: Vec<(Bar, u32)> = Vec::new();
        // The run that covers each cell of the line above.
        let mut above: Vec<Option<usize>> = vec![None; across];
        for line in 0..lines {
            // The last line may stand for fewer GPUs.
            let gpus = f64::from(per_line.min(rows - line * per_line));
            let look = |c: usize| {
                let (busy, _, job) = cells[line as usize * across + c];
                (job, (busy / gpus * 4.0).ceil().min(4.0) as u32)
            };
            let mut c = 0;
            while c < across {
                let (job, shade) = look(c);
                let until = (c..across)
                    .find(|k| look(*k) != (job, shade))
                    .unwrap_or(across);
                let (start_s, end_s) = (c as f64, until as f64);
                let same = |at: &usize| {
                    let (run, of) = &runs[*at];
                    (run.job, *of, run.start_s, run.end_s) == (job, shade, start_s, end_s)
                };
                let mut run = None;
                if shade > 0 {
                    // A job on several lines is one rectangle.
                    let at = above[c].filter(same).unwrap_or(runs.len());
                    match runs.get_mut(at) {
                        Some((run, _)) => run.gpus[0].1 = line,
                        None => runs.push((
                            Bar {
                                job,
                                job_id: "".into(),
                                gpus: vec![(line, line)],
                                start_s,
                                end_s,
                            },
                            shade,
                        )),
                    }
                    run = Some(at);
                }
                above[c..until].fill(run);
                c = until;
            }
        }
        let (bars, shades): (Vec<Bar>, Vec<u32>) = runs.into_iter().unzip();
        let colours = colours_apart(&bars, 0.5);
        Cells {
            across,
            lines,
            per_line,
            runs: bars
                .into_iter()
                .zip(shades)
                .zip(colours)
                .map(|((bar, shade), colour)| (bar, shade, colour))
                .collect(),
        }
    }

    fn draw(&self, page: &mut Page, frame: &Frame) {
        let (w, h) = (
            frame.width / self.across as f64,
            frame.height / f64::from(self.lines),
        );
        // A path for each colour and shade is far shorter than a rectangle a cell.
        let mut paths: BTreeMap<(usize, u32), String> = BTreeMap::new();
        for (run, shade, colour) in &self.runs {
            let (first, last) = run.gpus[0];
            let width = Num((run.end_s - run.start_s) * w);
            paths
                .entry((*colour, *shade))
                .or_default()
                .push_str(&format!(
                    "M{} {}h{width}v{}h-{width}z",
                    Num(frame.left + run.start_s * w),
                    Num(frame.top + f64::from(first) * h),
                    Num(f64::from(last - first + 1) * h)
                ));
        }
        for ((colour, shade), d) in paths {
            page.put(format_args!(
                "<path fill=\"{}\" fill-opacity=\"{}\" d=\"{d}\"/>\n",
                style::COLOURS[colour],
                Num(f64::from(shade) / 4.0)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colouring::tests::preempted;

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
        assert!(svg.contains(&format!("h{whole}v29.4h-{whole}z")), "{svg}");
        assert!(svg.contains(&format!("h{half}v14.4h-{half}z")), "{svg}");
        assert!(svg.contains("<title>job &lt;1&gt;: 1 GPU, 50.000 to 100.000 s</title>"));
        assert!(svg.contains("node 1"));
    }

    #[test]
    fn jobs_on_a_gpu_at_once_share_its_row() {
        // Jobs 0 and 1 share GPU 1, and job 2 follows job 1. Job 3 is alone.
        let bars = [
            bar(0, 0, 1, 0.0, 100.0),
            bar(1, 1, 1, 0.0, 50.0),
            bar(2, 1, 1, 50.0, 100.0),
            bar(3, 2, 2, 0.0, 100.0),
        ];
        let of = |at, of| Lane { at, of };
        assert_eq!(lanes(&bars), [of(0, 2), of(1, 2), of(1, 2), of(0, 1)]);
        let svg = Gantt::new("las", [4]).with_all(bars).svg();
        // A row of 15 pixels, and half of it.
        assert_eq!(svg.matches("v14.4h").count(), 1, "{svg}");
        assert_eq!(svg.matches("v6.9h").count(), 4, "{svg}");
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
    fn rows_name_the_types_of_their_gpus() {
        let gantt = Gantt::new("las", [2, 2, 2]).with_all([bar(0, 0, 5, 0.0, 7200.0)]);
        let svg = gantt
            .types(["v100", "", "k80"])
            .in_unit(TimeUnit::Minutes)
            .svg();
        for name in [
            ">node 0 (v100)<",
            ">node 1<",
            ">node 2 (k80)<",
            "time (minutes)",
        ] {
            assert!(svg.contains(name), "{name}");
        }
        assert!(svg.contains("0.000 to 120.000 min"));
        // A long type is cut, and leaves room for bars.
        let long = Gantt::new("las", [2]).types(["a".repeat(90)]).svg();
        assert!(long.contains("…") && long.contains("viewBox=\"0 0 400 "));
    }

    #[test]
    fn pictures_of_many_bars_are_small() {
        for stays in [60, 900, 4000] {
            let gantt = Gantt::new("las", [8; 16]).with_all(preempted(16, stays));
            let bytes = gantt.svg().len();
            assert!(bytes < 400_000, "{stays} stays a node: {bytes}");
        }
        let wide = Gantt::new("las", [8; 1000]).with_all(preempted(1000, 40));
        assert!(wide.svg().len() < 400_000, "{}", wide.svg().len());
    }

    #[test]
    fn cells_of_jobs_that_touch_differ_in_colour() {
        let cells = Cells::of(&preempted(16, 900), 128, 300_000.0);
        let mut at = BTreeMap::new();
        for (run, _, colour) in &cells.runs {
            for line in run.gpus[0].0..=run.gpus[0].1 {
                for c in run.start_s as usize..run.end_s as usize {
                    at.insert((line, c), (run.job, *colour));
                }
            }
        }
        let (mut pairs, mut equal) = (0, 0);
        for ((line, c), (job, colour)) in &at {
            for near in [(*line, c + 1), (line + 1, *c)] {
                if let Some(other) = at.get(&near).filter(|other| other.0 != *job) {
                    pairs += 1;
                    equal += usize::from(other.1 == *colour);
                }
            }
        }
        assert!(pairs > 10_000, "{pairs}");
        assert_eq!(equal, 0);
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
