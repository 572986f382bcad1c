//! The data of the script of the page: jobs and GPUs over time, as columns.

use crate::error::FolderError;
use crate::pictures::Contestant;
use crate::run::{JobRow, RunResults};
use crate::whole;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most rows of jobs in a page, all schedulers together.
const JOBS: usize = 100_000;
/// The number of jobs with the longest JCT that every sample of a scheduler holds.
const LONGEST: usize = 100;
/// The most bars in a page, all schedulers together.
const BARS: usize = 150_000;
/// Cells of the shades behind bars.
const CELLS: usize = 600;
const SHADE_ROWS: u32 = 128;

#[derive(Serialize)]
struct Data<'a> {
    colours: &'a [&'a str],
    words: Vec<&'a str>,
    runs: Vec<Run<'a>>,
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
    jct: Vec<Option<Number>>,
    queueing: Vec<Option<Number>>,
    gpus: Vec<u32>,
    duration: Vec<Number>,
    preemptions: Vec<u32>,
    launches: Vec<u32>,
    outcome: Vec<usize>,
    reason: Vec<Option<usize>>,
    measured: Vec<u8>,
}

#[derive(Serialize)]
struct Spans {
    job: Vec<u32>,
    first: Vec<u32>,
    count: Vec<u32>,
    start: Vec<Number>,
    length: Vec<Number>,
    end: Number,
    rows: u32,
    nodes: Vec<u32>,
    /// A digit for each cell, from 0 (idle) to 9 (busy). Absent if all bars are present.
    shades: Option<Vec<String>>,
    per_row: u32,
    rule: String,
}

/// Seconds with one decimal place, the precision of the page.
#[derive(Clone, Copy)]
struct Number(f64);

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

/// Returns the data as JSON for HTML, and the rule by which jobs were left out.
pub(super) fn of(all: &[Contestant<'_>]) -> Result<(String, String), FolderError> {
    let mut words = Words::default();
    let mut rules = Vec::new();
    let mut runs = Vec::new();
    let read = |run: &RunResults| run.has_assignments().then(|| read_rects(run));
    let rects = all.iter().map(|c| read(c.run).transpose());
    let rects: Vec<Option<Vec<Rect>>> = rects.collect::<Result<_, _>>()?;
    let counts: Vec<usize> = rects.iter().flatten().map(Vec::len).collect();
    let most = fair_part(&counts, BARS);
    for (c, rects) in all.iter().zip(rects) {
        let chosen = sample(&c.run.jobs, JOBS / all.len().max(1));
        rules.push((c.run.jobs.len(), chosen.len()));
        runs.push(Run {
            name: &c.name,
            jobs: columns(&chosen, &mut words),
            spans: rects.map(|r| spans(r, c.folder.node_gpus(), most)),
        });
    }
    let rule = match rules.iter().any(|(all, kept)| kept < all) {
        false => "All jobs.".to_owned(),
        true => format!(
            "Of more than {} jobs a scheduler, an even sample by number and the {LONGEST} with the longest JCT: \
             the page holds at most {} rows in all. Figures and pictures are of all jobs.",
            whole((JOBS / all.len().max(1)) as u64),
            whole(JOBS as u64)
        ),
    };
    let data = Data {
        colours: &blox_plot::COLOURS,
        words: words.list,
        runs,
    };
    // Numbers and text always serialize.
    let json = serde_json::to_string(&data).unwrap_or_else(|_| "{\"runs\":[]}".to_owned());
    // No text can end the script element around it.
    Ok((json.replace('<', "\\u003c"), rule))
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

fn columns<'a>(jobs: &[&'a JobRow], words: &mut Words<'a>) -> Jobs<'a> {
    let named = jobs.iter().any(|j| *j.job_id != *j.job.to_string());
    let all = |f: fn(&JobRow) -> f64| jobs.iter().map(|j| Number(f(j))).collect();
    let some = |f: fn(&JobRow) -> Option<f64>| jobs.iter().map(|j| f(j).map(Number)).collect();
    let count = |f: fn(&JobRow) -> u32| jobs.iter().map(|j| f(j)).collect();
    Jobs {
        job: count(|j| j.job),
        id: named.then(|| jobs.iter().map(|j| &*j.job_id).collect()),
        submit: all(|j| j.submit_s),
        start: some(|j| j.first_start_s),
        finish: some(|j| j.finish_s),
        jct: some(|j| j.jct_s),
        queueing: some(JobRow::queueing_s),
        gpus: count(|j| j.gpus),
        duration: all(|j| j.duration_s),
        preemptions: count(|j| j.preemptions),
        launches: count(|j| j.launches),
        outcome: jobs.iter().map(|j| words.number(&j.outcome)).collect(),
        reason: jobs
            .iter()
            .map(|j| j.reason.as_deref().map(|r| words.number(r)))
            .collect(),
        measured: jobs.iter().map(|j| u8::from(j.measured)).collect(),
    }
}

/// A job on neighbouring GPUs.
#[derive(Clone, Copy)]
struct Rect {
    job: u32,
    first: u32,
    count: u32,
    start: f64,
    end: f64,
}

impl Rect {
    fn gpu_seconds(&self) -> f64 {
        f64::from(self.count) * (self.end - self.start)
    }
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

fn read_rects(run: &RunResults) -> Result<Vec<Rect>, FolderError> {
    let mut rects: Vec<Rect> = Vec::new();
    run.each_assignment(|a| {
        rects.extend(a.gpus.iter().map(|(first, last)| Rect {
            job: a.job,
            first: *first,
            count: last - first + 1,
            start: a.start_s,
            end: a.end_s.max(a.start_s),
        }));
    })?;
    Ok(rects)
}

fn spans(mut rects: Vec<Rect>, nodes: Vec<u32>, most: usize) -> Spans {
    let named = rects.iter().map(|r| r.first + r.count).max().unwrap_or(0);
    let rows = named.max(nodes.iter().sum()).max(1);
    let end = rects.iter().map(|r| r.end).fold(0.0, f64::max);
    let total = rects.len();
    let per_row = rows.div_ceil(SHADE_ROWS);
    let mut shades = None;
    let mut rule = "Every bar is here.".to_owned();
    if total > most {
        shades = Some(shaded(&rects, rows, per_row, end));
        // The bars with most GPU time; ties in the order of the file.
        rects.sort_by(|a, b| b.gpu_seconds().total_cmp(&a.gpu_seconds()));
        rects.truncate(most);
        rule = format!(
            "Of {} bars, the {} with the most GPU time are here; the grey behind them shows all: \
             the denser, the busier the GPUs.",
            whole(total as u64),
            whole(most as u64)
        );
    }
    rects.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.first.cmp(&b.first)));
    Spans {
        job: rects.iter().map(|r| r.job).collect(),
        first: rects.iter().map(|r| r.first).collect(),
        count: rects.iter().map(|r| r.count).collect(),
        start: rects.iter().map(|r| Number(r.start)).collect(),
        length: rects.iter().map(|r| Number(r.end - r.start)).collect(),
        end: Number(end),
        rows,
        nodes,
        shades,
        per_row,
        rule,
    }
}

/// Returns the use of GPUs, a digit from 0 to 9 for each cell.
fn shaded(rects: &[Rect], rows: u32, per_row: u32, end: f64) -> Vec<String> {
    let lines = rows.div_ceil(per_row) as usize;
    let mut busy = vec![0.0; lines * CELLS];
    let scale = if end > 0.0 { CELLS as f64 / end } else { 0.0 };
    for r in rects {
        let (a, b) = (r.start * scale, r.end * scale);
        for c in a as usize..(b.ceil() as usize).min(CELLS) {
            let part = b.min(c as f64 + 1.0) - a.max(c as f64);
            for gpu in r.first..r.first + r.count {
                busy[(gpu / per_row) as usize * CELLS + c] += part;
            }
        }
    }
    busy.chunks(CELLS)
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

    #[test]
    fn shades_count_every_bar() {
        let rect = |first, start, end| Rect {
            job: 0,
            first,
            count: 1,
            start,
            end,
        };
        let lines = shaded(&[rect(0, 0.0, 300.0), rect(1, 300.0, 600.0)], 2, 1, 600.0);
        assert_eq!(lines[0], "9".repeat(300) + &"0".repeat(300));
        assert_eq!(lines[1], "0".repeat(300) + &"9".repeat(300));
    }

    #[test]
    fn seconds_are_short() {
        let text = |v| serde_json::to_string(&Number(v)).unwrap();
        assert_eq!((text(3.0), text(3.26)), ("3".into(), "3.3".into()));
    }
}
