//! The data of the script of the page: jobs and GPUs over time, as columns.

use crate::error::FolderError;
use crate::pictures::Contestant;
use crate::run::{JobRow, RunResults};
use crate::text::whole;
use blox_plot::{Bar, TimeUnit, colours_apart};
use serde::Serialize;
use std::collections::BTreeMap;

/// The most rows of jobs in a page, all schedulers together.
const JOBS: usize = 100_000;
/// The number of jobs with the longest JCT that every sample of a scheduler holds.
const LONGEST: usize = 100;
/// The most bars in a page, all schedulers together.
const BARS: usize = 150_000;
/// Pixels of a wide chart. Stays of a job that are less than a pixel apart are one bar.
const PIXELS: f64 = 1400.0;
/// The most cells of the shades behind bars, of all schedulers together and of one.
const SHADES: usize = 80_000;
const SHADES_OF_ONE: usize = 30_000;
const SHADE_ROWS: u32 = 64;

#[derive(Serialize)]
struct Data<'a> {
    colours: &'a [&'a str],
    unit: Unit,
    words: Vec<&'a str>,
    runs: Vec<Run<'a>>,
}

/// The unit of every time in the page.
#[derive(Serialize)]
struct Unit {
    seconds: f64,
    name: &'static str,
    symbol: &'static str,
}

#[derive(Serialize)]
struct Run<'a> {
    name: &'a str,
    jobs: Jobs<'a>,
    spans: Option<Spans>,
}

#[derive(Default, Serialize)]
struct Jobs<'a> {
    job: Vec<u32>,
    /// Identifiers of users; absent if all equal the numbers.
    id: Option<Vec<&'a str>>,
    submit: Vec<Number>,
    start: Vec<Option<Number>>,
    finish: Vec<Option<Number>>,
    /// Absent for a job without a JCT.
    queueing: Vec<Option<Number>>,
    gpus: Vec<u32>,
    duration: Vec<Number>,
    preemptions: Vec<u32>,
    launches: Vec<u32>,
    outcome: Vec<usize>,
    reason: Vec<usize>,
    measured: Vec<u8>,
}

#[derive(Serialize)]
struct Spans {
    job: Vec<u32>,
    first: Vec<u32>,
    count: Vec<u32>,
    /// Differences from the start before it: bars are in order of their starts.
    start: Vec<Number>,
    length: Vec<Number>,
    /// The colour of each bar, as a letter from `a`.
    colour: String,
    end: Number,
    rows: u32,
    /// Equal nodes: their number, the GPUs of each, and the type as a word.
    nodes: Vec<(usize, u32, usize)>,
    /// A digit for each cell, from 0 (idle) to 9 (busy). Absent if all bars are present.
    shades: Option<Vec<String>>,
    per_row: u32,
    rule: String,
}

/// Seconds with one decimal place, the precision of the page.
#[derive(Clone, Copy)]
struct Number(f64);

impl Number {
    /// Returns seconds as precise as a page in this unit shows them.
    fn of(seconds: f64, unit: TimeUnit) -> Self {
        Number(match unit {
            TimeUnit::Seconds | TimeUnit::Minutes => seconds,
            TimeUnit::Hours | TimeUnit::Days => seconds.round(),
        })
    }
}

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let tenths = (self.0 * 10.0).round();
        if tenths % 10.0 == 0.0 && tenths.abs() < 1e15 {
            s.serialize_i64((tenths / 10.0) as i64)
        } else {
            s.serialize_f64(tenths / 10.0)
        }
    }
}

/// Returns the data as JSON for HTML, in at most `bytes` bytes, and the rule by which jobs were left
/// out.
///
/// If the results are larger, jobs and bars have equal room. Numbers of jobs and bars shrink until the
/// text fits.
pub(super) fn of(
    all: &[Contestant<'_>],
    unit: TimeUnit,
    bytes: usize,
) -> Result<(String, String), FolderError> {
    let mut bars = Vec::new();
    for c in all {
        bars.push(
            c.run
                .has_assignments()
                .then(|| read_bars(c.run))
                .transpose()?,
        );
    }
    let json = |jobs: usize, bars_in_all: usize| {
        let mut words = Words::default();
        // The empty word is the reason of jobs without one.
        words.number("");
        let counts: Vec<usize> = bars.iter().flatten().map(|b| rects(&b.bars)).collect();
        let most = fair_part(&counts, bars_in_all);
        let shades = (SHADES / counts.len().max(1)).min(SHADES_OF_ONE);
        let runs = all.iter().zip(&bars).map(|(c, bars)| Run {
            name: &c.name,
            jobs: columns(&sample(&c.run.jobs, jobs), unit, &mut words),
            spans: bars.as_ref().map(|bars| {
                let kinds = c.folder.kinds();
                let nodes = kinds.map(|(nodes, gpus, of)| (nodes, gpus, words.number(of)));
                spans(bars, nodes.collect(), most, shades, unit)
            }),
        });
        let runs = runs.collect();
        let data = Data {
            colours: &blox_plot::COLOURS,
            unit: Unit {
                seconds: unit.secs(),
                name: unit.name(),
                symbol: unit.symbol(),
            },
            words: words.list,
            runs,
        };
        // Numbers and text always serialize.
        let json = serde_json::to_string(&data).unwrap_or_else(|_| "{\"runs\":[]}".to_owned());
        // No text can end the script element around it.
        json.replace('<', "\\u003c")
    };
    let most_jobs = all.iter().map(|c| c.run.jobs.len()).max().unwrap_or(0);
    let mut jobs = (JOBS / all.len().max(1)).min(most_jobs);
    let mut most_bars = bars
        .iter()
        .flatten()
        .map(|b| rects(&b.bars))
        .sum::<usize>()
        .min(BARS);
    let mut text = json(jobs, most_bars);
    while text.len() > bytes && jobs + most_bars > 0 {
        let (of_jobs, of_bars) = (json(jobs, 0).len(), json(0, most_bars).len());
        // What the smaller part leaves is for the larger one.
        let half = bytes / 2;
        let shrunk = |count: usize, size: usize, other: usize| {
            let room = half.max(bytes.saturating_sub(other)) as f64 * 0.97;
            (count as f64 * (room / size as f64).min(0.97)) as usize
        };
        let before = (jobs, most_bars);
        if of_jobs > half {
            jobs = shrunk(before.0, of_jobs, of_bars);
        }
        if of_bars > half || (jobs, most_bars) == before {
            most_bars = shrunk(before.1, of_bars, of_jobs);
        }
        text = json(jobs, most_bars);
    }
    let rule = match jobs < most_jobs {
        false => "All jobs.".to_owned(),
        true => format!(
            "Of more than {} jobs of a scheduler, an even sample by number and the {} with the longest JCT: \
             the page stays small. jobs.csv has all jobs; figures and pictures are of all jobs.",
            whole(jobs as u64),
            whole(LONGEST.min(jobs / 2) as u64),
        ),
    };
    Ok((text, rule))
}

/// Words that many rows share.
#[derive(Default)]
struct Words<'a> {
    list: Vec<&'a str>,
    known: BTreeMap<&'a str, usize>,
}

impl<'a> Words<'a> {
    fn number(&mut self, word: &'a str) -> usize {
        let list = &mut self.list;
        *self.known.entry(word).or_insert_with(|| {
            list.push(word);
            list.len() - 1
        })
    }
}

/// Returns all jobs, or an even sample by number with the jobs of the longest JCT.
fn sample(jobs: &[JobRow], most: usize) -> Vec<&JobRow> {
    if jobs.len() <= most {
        return jobs.iter().collect();
    }
    let longest = LONGEST.min(most / 2);
    let every = jobs.len().div_ceil((most - longest).max(1));
    let mut ranks: Vec<usize> = (0..jobs.len()).collect();
    ranks.sort_by(|a, b| {
        let jct = |i: &usize| jobs[*i].jct_s.unwrap_or(0.0);
        jct(b).total_cmp(&jct(a)).then(a.cmp(b))
    });
    let mut chosen = ranks[..longest].to_vec();
    chosen.extend((0..jobs.len()).step_by(every));
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(|i| &jobs[i]).collect()
}

fn columns<'a>(jobs: &[&'a JobRow], unit: TimeUnit, words: &mut Words<'a>) -> Jobs<'a> {
    let named = jobs.iter().any(|j| *j.job_id != *j.job.to_string());
    let number = |s: f64| Number::of(s, unit);
    let all = |f: fn(&JobRow) -> f64| jobs.iter().map(|j| number(f(j))).collect();
    let some = |f: fn(&JobRow) -> Option<f64>| jobs.iter().map(|j| f(j).map(number)).collect();
    let count = |f: fn(&JobRow) -> u32| jobs.iter().map(|j| f(j)).collect();
    Jobs {
        job: count(|j| j.job),
        id: named.then(|| jobs.iter().map(|j| &*j.job_id).collect()),
        submit: all(|j| j.submit_s),
        start: some(|j| j.first_start_s),
        finish: some(|j| j.finish_s),
        queueing: some(JobRow::queueing_s),
        gpus: count(|j| j.gpus),
        duration: all(|j| j.duration_s),
        preemptions: count(|j| j.preemptions),
        launches: count(|j| j.launches),
        outcome: jobs.iter().map(|j| words.number(&j.outcome)).collect(),
        reason: jobs
            .iter()
            .map(|j| words.number(j.reason.as_deref().unwrap_or("")))
            .collect(),
        measured: jobs.iter().map(|j| u8::from(j.measured)).collect(),
    }
}

/// The bars of a run.
struct Bars {
    /// In order of their starts.
    bars: Vec<Bar>,
    /// The number of bars before stays with a gap below a pixel were merged.
    recorded: usize,
    /// The number of the colour of each bar.
    colours: Vec<usize>,
    end: f64,
    rows: u32,
}

/// Returns the number of rectangles of bars.
fn rects(bars: &[Bar]) -> usize {
    bars.iter().map(|bar| bar.gpus.len()).sum()
}

/// Returns the time of a bar on all its GPUs.
fn gpu_seconds(bar: &Bar) -> f64 {
    let gpus = bar.gpus.iter().map(|(first, last)| last - first + 1);
    f64::from(gpus.sum::<u32>()) * (bar.end_s - bar.start_s)
}

/// Returns the largest part for each count so that all counts together have at most `total`.
/// Counts below the part leave the rest to the others.
fn fair_part(counts: &[usize], total: usize) -> usize {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    let mut left = total;
    for (i, count) in sorted.iter().enumerate() {
        let part = left / (sorted.len() - i);
        if *count > part {
            return part;
        }
        left -= count;
    }
    total
}

fn read_bars(run: &RunResults) -> Result<Bars, FolderError> {
    let mut bars: Vec<Bar> = Vec::new();
    run.each_assignment(|a| {
        bars.push(Bar {
            job: a.job,
            job_id: "".into(),
            gpus: a.gpus,
            start_s: a.start_s,
            end_s: a.end_s.max(a.start_s),
        });
    })?;
    let recorded = rects(&bars);
    let end = bars.iter().map(|bar| bar.end_s).fold(0.0, f64::max);
    let last = bars
        .iter()
        .flat_map(|bar| &bar.gpus)
        .map(|(_, last)| last + 1);
    let rows = last.max().unwrap_or(0);
    let bars = merged(bars, end / PIXELS);
    Ok(Bars {
        colours: colours_apart(&bars, end / PIXELS),
        bars,
        recorded,
        end,
        rows,
    })
}

/// Merges stays of a job on the same GPUs that are at most `gap_s` apart. Returns bars in order of their
/// starts.
fn merged(mut bars: Vec<Bar>, gap_s: f64) -> Vec<Bar> {
    bars.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then(a.gpus.cmp(&b.gpus)));
    let mut last_of: BTreeMap<u32, usize> = BTreeMap::new();
    let mut out: Vec<Bar> = Vec::new();
    for bar in bars {
        let last = last_of.get(&bar.job).and_then(|at| out.get_mut(*at));
        match last {
            Some(last) if last.gpus == bar.gpus && bar.start_s - last.end_s <= gap_s => {
                last.end_s = last.end_s.max(bar.end_s);
            }
            _ => {
                last_of.insert(bar.job, out.len());
                out.push(bar);
            }
        }
    }
    out
}

fn spans(
    all: &Bars,
    nodes: Vec<(usize, u32, usize)>,
    most: usize,
    cells: usize,
    unit: TimeUnit,
) -> Spans {
    let gpus = nodes
        .iter()
        .map(|(count, gpus, _)| *count as u32 * gpus)
        .sum();
    let rows = all.rows.max(gpus).max(1);
    let total = rects(&all.bars);
    let per_row = rows.div_ceil(SHADE_ROWS);
    let mut kept: Vec<usize> = (0..all.bars.len()).collect();
    let mut shades = None;
    let mut rule = match total < all.recorded {
        true => format!(
            "Of {} stays on GPUs, those of a job less than a pixel apart are one bar.",
            whole(all.recorded as u64)
        ),
        false => "Every stay on GPUs is here.".to_owned(),
    };
    if total > most {
        let across = (cells / rows.div_ceil(per_row) as usize).max(1);
        shades = Some(shaded(&all.bars, (rows, per_row), all.end, across));
        // The bars with most GPU time; ties in the order of the file.
        let time = |at: &usize| gpu_seconds(&all.bars[*at]);
        kept.sort_by(|a, b| time(b).total_cmp(&time(a)));
        let mut left = most;
        let fits = |at: &usize| {
            let count = all.bars[*at].gpus.len();
            let fits = count <= left;
            left -= if fits { count } else { left };
            fits
        };
        let fitting = kept.iter().copied().take_while(fits).count();
        kept.truncate(fitting);
        kept.sort_unstable();
        rule = format!(
            "Of {} stays on GPUs, the {} with the most GPU time are bars, to keep the page small; the grey \
             behind them shows all: the denser, the busier the GPUs.",
            whole(all.recorded as u64),
            whole(kept.len() as u64)
        );
    }
    let mut spans = Spans {
        job: Vec::new(),
        first: Vec::new(),
        count: Vec::new(),
        start: Vec::new(),
        length: Vec::new(),
        colour: String::new(),
        end: Number(all.end),
        rows,
        nodes,
        shades,
        per_row,
        rule,
    };
    let mut before = 0.0;
    for at in kept {
        let bar = &all.bars[at];
        let [start, end] = [bar.start_s, bar.end_s].map(|s| Number::of(s, unit).0);
        for (first, last) in &bar.gpus {
            spans.job.push(bar.job);
            spans.first.push(*first);
            spans.count.push(last - first + 1);
            spans.start.push(Number(start - before));
            spans.length.push(Number(end - start));
            spans.colour.push(char::from(b'a' + all.colours[at] as u8));
            before = start;
        }
    }
    spans
}

/// Returns the use of GPUs, a digit from 0 to 9 for each cell.
fn shaded(bars: &[Bar], (rows, per_row): (u32, u32), end: f64, across: usize) -> Vec<String> {
    let lines = rows.div_ceil(per_row) as usize;
    let mut busy = vec![0.0; lines * across];
    let scale = if end > 0.0 { across as f64 / end } else { 0.0 };
    for bar in bars {
        let (a, b) = (bar.start_s * scale, bar.end_s * scale);
        for c in a as usize..(b.ceil() as usize).min(across) {
            let part = b.min(c as f64 + 1.0) - a.max(c as f64);
            for gpu in bar.gpus.iter().flat_map(|(first, last)| *first..=*last) {
                busy[(gpu / per_row) as usize * across + c] += part;
            }
        }
    }
    busy.chunks(across)
        .enumerate()
        .map(|(line, cells)| {
            let gpus = f64::from(per_row.min(rows - line as u32 * per_row));
            let digit = |sum: &f64| char::from(b'0' + (sum / gpus * 9.0).round().min(9.0) as u8);
            cells.iter().map(digit).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(job: u32, jct_s: f64) -> JobRow {
        JobRow {
            job_id: job.to_string().into(),
            job,
            submit_s: 0.0,
            first_start_s: None,
            finish_s: None,
            jct_s: Some(jct_s),
            attained_s: 0.0,
            gpus: 1,
            duration_s: 1.0,
            preemptions: 0,
            launches: 1,
            outcome: "completed".into(),
            reason: None,
            measured: true,
            group: None,
            rho: None,
            deadline_s: None,
        }
    }

    #[test]
    fn a_sample_is_even_and_holds_the_longest() {
        let jobs: Vec<JobRow> = (0..10_000)
            .map(|i| job(i, if i == 7777 { 1e6 } else { 1.0 }))
            .collect();
        assert_eq!(sample(&jobs, 10_000).len(), 10_000);
        let few = sample(&jobs, 1000);
        assert!(few.len() <= 1000 && few.len() > 900, "{}", few.len());
        assert!(few.iter().any(|j| j.job == 7777));
    }

    #[test]
    fn what_one_does_not_need_is_for_the_others() {
        assert_eq!(fair_part(&[10, 100, 100], 150), 70);
        assert_eq!(fair_part(&[10, 20], 150), 150);
        assert_eq!(fair_part(&[], 150), 150);
        assert_eq!(fair_part(&[100, 100], 150), 75);
    }

    fn bar(job: u32, gpu: u32, start_s: f64, end_s: f64) -> Bar {
        Bar {
            job,
            job_id: "".into(),
            gpus: vec![(gpu, gpu)],
            start_s,
            end_s,
        }
    }

    #[test]
    fn shades_count_every_bar() {
        let bars = [bar(0, 0, 0.0, 300.0), bar(0, 1, 300.0, 600.0)];
        let lines = shaded(&bars, (2, 1), 600.0, 600);
        assert_eq!(lines[0], "9".repeat(300) + &"0".repeat(300));
        assert_eq!(lines[1], "0".repeat(300) + &"9".repeat(300));
    }

    #[test]
    fn stays_less_than_a_pixel_apart_are_one_bar() {
        let stays = vec![
            bar(1, 0, 100.0, 199.0),
            bar(1, 0, 0.0, 99.5),
            bar(2, 0, 99.6, 99.9),
            bar(1, 1, 200.0, 300.0),
            bar(1, 1, 302.0, 400.0),
        ];
        let whole = merged(stays, 1.0);
        let spans: Vec<_> = whole.iter().map(|b| (b.job, b.start_s, b.end_s)).collect();
        let expected = [
            (1, 0.0, 199.0),
            (2, 99.6, 99.9),
            (1, 200.0, 300.0),
            (1, 302.0, 400.0),
        ];
        assert_eq!(spans, expected);
    }

    #[test]
    fn bars_of_a_page_are_those_with_most_gpu_time() {
        let all = Bars {
            bars: (0..50)
                .map(|i| bar(i, i % 4, f64::from(i) * 10.0, f64::from(i) * 11.0 + 1.0))
                .collect(),
            recorded: 60,
            colours: vec![3; 50],
            end: 600.0,
            rows: 4,
        };
        let few = spans(&all, vec![(2, 2, 0)], 10, 100, TimeUnit::Seconds);
        assert_eq!(few.job, (40..50).collect::<Vec<u32>>());
        assert_eq!((few.shades.unwrap()[0].len(), few.colour.len()), (25, 10));
        assert!(
            few.rule
                .starts_with("Of 60 stays on GPUs, the 10 with the most GPU time")
        );
        // Starts are differences.
        let starts: Vec<f64> = few.start.iter().map(|s| s.0).collect();
        assert_eq!(starts[..3], [400.0, 10.0, 10.0]);
        let every = spans(&all, vec![(2, 2, 0)], 50, 100, TimeUnit::Seconds);
        assert!(every.shades.is_none() && every.rule.contains("less than a pixel apart"));
    }

    #[test]
    fn seconds_are_short() {
        let text = |v| serde_json::to_string(&Number(v)).unwrap();
        assert_eq!((text(3.0), text(3.26)), ("3".into(), "3.3".into()));
    }
}
