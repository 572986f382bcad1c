//! `blox trace info`: statistics of a workload as a table with plots.

use super::InfoArgs;
use super::plot::{bar, sparkline};
use crate::failure::Failure;
use crate::output::pretty_text;
use crate::reading::cluster_of;
use crate::terminal::{OK, Terminal};
use blox_core::ClusterSpec;
use blox_results::grid::{About, Form, decimal};
use blox_results::{number_of, whole};
use blox_traces::Trace;
use blox_traces::stats::{DURATION_BOUNDS_S, Part, Statistics};
use chrono::{DateTime, Timelike, Utc};
use serde::Serialize;
use std::fmt::Write;

pub(super) fn run(args: &InfoArgs, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let cluster = args.cluster.as_deref().map(cluster_of).transpose()?;
    let trace = args.file.open()?;
    let mut jobs = trace.jobs()?;
    let stats = Statistics::of(&mut jobs, trace.wall_clock_origin())?;
    let text = match args.json {
        true => pretty_text(&Json {
            format: trace.format(),
            stats: &stats,
            notices: trace.notices().iter().map(ToString::to_string).collect(),
        })?,
        false => render(args, &trace, &stats, cluster.as_ref()),
    };
    terminal.out.write_all(text.as_bytes())?;
    Ok(OK)
}

#[derive(Serialize)]
struct Json<'a> {
    format: String,
    #[serde(flatten)]
    stats: &'a Statistics,
    notices: Vec<String>,
}

fn render(
    args: &InfoArgs,
    trace: &Trace,
    s: &Statistics,
    cluster: Option<&(&str, ClusterSpec)>,
) -> String {
    let mut about = About::default();
    about.add("trace", args.file.file.display().to_string());
    let detected = match trace.format_is_detected() {
        true => ", detected from the file",
        false => "",
    };
    about.add("format", format!("{}{detected}", trace.format()));
    about.add("jobs", jobs(s));
    if s.jobs > 0 {
        about.add("submitted", submitted(s));
    }
    let names = [
        (s.users, "user"),
        (s.virtual_clusters, "virtual cluster"),
        (s.models, "model"),
    ];
    let (types, deadlines) = (s.jobs_with_gpu_types, s.jobs_with_deadline);
    let (limited, parts) = (number_of(types, "job"), number_of(s.jobs_with_share, "job"));
    let limits = [
        (types, format!("{limited} only on some GPU types")),
        (deadlines, format!("{} with a deadline", whole(deadlines))),
        (s.elastic_jobs, format!("{} elastic", whole(s.elastic_jobs))),
    ];
    let kinds = [
        (
            s.jobs_with_share,
            format!("{parts} with a part of each GPU"),
        ),
        (s.services, number_of(s.services, "service")),
        (s.spot_jobs, number_of(s.spot_jobs, "spot job")),
    ];
    let names = names.map(|(n, what)| (n, number_of(n, what)));
    for (what, counts) in [("names", names), ("limits", limits), ("kinds", kinds)] {
        let some = counts.into_iter().filter(|(n, _)| *n > 0);
        let some: Vec<String> = some.map(|(_, text)| text).collect();
        if !some.is_empty() {
            about.add(what, some.join(", "));
        }
    }
    if s.jobs > 0 {
        let work = format!(
            "{} GPU-hours, {} a job; {} on the busiest day",
            decimal(s.gpu_hours, 1),
            decimal(s.gpu_hours / s.jobs as f64, 2),
            decimal(s.busiest_day_gpu_hours, 1)
        );
        about.add("work", work);
        load(&mut about, s, cluster);
    }
    let mut page = about.text(Form::Lines);
    if s.jobs > 0 {
        by_gpus(&mut page, s);
        by_duration(&mut page, s);
        arrivals(&mut page, s);
    }
    if !trace.notices().is_empty() {
        let mut notices = About::default();
        for notice in trace.notices().iter() {
            notices.add("notice", notice.to_string());
        }
        page = page + "\n" + &notices.text(Form::Lines);
    }
    page
}

fn jobs(s: &Statistics) -> String {
    let mut line = whole(s.jobs);
    let span = s.last_submit_s - s.first_submit_s;
    if span > 0.0 {
        let a_day = s.jobs as f64 / (span / 86_400.0);
        let _ = write!(line, " over {}, {} a day", length(span), decimal(a_day, 1));
    }
    line
}

fn submitted(s: &Statistics) -> String {
    let moment = |at: f64| match s.origin_epoch_s {
        Some(origin) => date(origin + at),
        None => format!("{} s", decimal(at, 0)),
    };
    format!(
        "{} to {}",
        moment(s.first_submit_s),
        moment(s.last_submit_s)
    )
}

fn load(about: &mut About, s: &Statistics, cluster: Option<&(&str, ClusterSpec)>) {
    let Some(load) = s.load_gpus else {
        about.add("load", "all jobs come at once");
        return;
    };
    let line = format!(
        "{} GPU-hours per hour, which saturate {}; the largest job requests {}",
        decimal(load, 1),
        number_of(load.ceil() as u64, "GPU"),
        whole(s.widest_job_gpus.into())
    );
    about.add("load", line);
    if let Some((text, cluster)) = cluster {
        let gpus = cluster.total_gpus();
        let fraction = if gpus == 0 { 0.0 } else { load / gpus as f64 };
        let line = format!(
            "{text}: {}, {} % busy on average if all jobs run",
            number_of(gpus, "GPU"),
            decimal(100.0 * fraction, 1)
        );
        about.add("cluster", line);
    }
}

const BAR: usize = 30;

fn by_gpus(text: &mut String, s: &Statistics) {
    // Ranges that end at powers of two, labelled with the counts that occur.
    let mut ranges: Vec<(u32, u32, Part)> = Vec::new();
    for (&gpus, part) in &s.by_gpus {
        let top = gpus.checked_next_power_of_two().unwrap_or(u32::MAX);
        match ranges.last_mut() {
            Some((_, last, sum)) if last.checked_next_power_of_two().unwrap_or(u32::MAX) == top => {
                *last = gpus;
                sum.jobs += part.jobs;
                sum.gpu_hours += part.gpu_hours;
            }
            _ => ranges.push((gpus, gpus, *part)),
        }
    }
    let rows = ranges.into_iter().map(|(from, to, part)| {
        let label = match from == to {
            true => whole(from.into()),
            false => format!("{}-{}", whole(from.into()), whole(to.into())),
        };
        (label, part)
    });
    parts(text, "GPUs", rows.collect(), s);
}

/// Labels of the ranges between [`DURATION_BOUNDS_S`].
const DURATIONS: [&str; DURATION_BOUNDS_S.len() + 1] = [
    "< 1 min",
    "1-10 min",
    "10-60 min",
    "1-3 h",
    "3-12 h",
    "12-24 h",
    "1-3 d",
    "3-7 d",
    ">= 7 d",
];

fn by_duration(text: &mut String, s: &Statistics) {
    let rows = DURATIONS.iter().zip(&s.by_duration);
    let rows = rows
        .map(|(label, part)| ((*label).to_owned(), *part))
        .collect();
    parts(text, "duration", rows, s);
    if let Some(d) = s.duration_s {
        let names = ["mean", "p25", "median", "p75", "p90", "p99", "max"];
        let values = [d.mean, d.p25, d.median, d.p75, d.p90, d.p99, d.max];
        let both = names.iter().zip(values);
        let line: Vec<String> = both
            .map(|(name, v)| format!("{name} {}", length(v)))
            .collect();
        let _ = writeln!(text, "{}", line.join(", "));
    }
}

/// Writes one row for each part, with its shares of jobs and GPU-hours and a bar for the jobs.
fn parts(text: &mut String, title: &str, rows: Vec<(String, Part)>, s: &Statistics) {
    let share = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
    let most = rows.iter().map(|(_, p)| p.jobs).max().unwrap_or(1);
    let _ = writeln!(
        text,
        "\n{title:>10} {:>10} {:>7} {:>9}",
        "jobs", "", "GPU-hours"
    );
    for (label, part) in rows {
        let line = format!(
            "{label:>10} {:>10} {:>5} % {:>7} %  {}",
            whole(part.jobs),
            decimal(100.0 * share(part.jobs as f64, s.jobs as f64), 1),
            decimal(100.0 * share(part.gpu_hours, s.gpu_hours), 1),
            bar(share(part.jobs as f64, most as f64), BAR)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn arrivals(text: &mut String, s: &Statistics) {
    text.push('\n');
    if let (Some(gap), Some(variation)) = (s.gap_mean_s, s.gap_variation) {
        let _ = writeln!(
            text,
            "arrivals: {} apart on average, coefficient of variation {} (Poisson: 1)",
            length(gap),
            decimal(variation, 2)
        );
    }
    let most = |values: &[u64]| whole(values.iter().copied().max().unwrap_or(0));
    let (days, hours) = match s.wall_clock {
        true => ("Mon to Sun", "0 h to 23 h"),
        false => ("days mod 7", "hours mod 24"),
    };
    let slices = &s.over_time;
    let over = format!("{} each", length(slices.width_s));
    for (what, values) in [
        (over.as_str(), &slices.jobs[..]),
        (hours, &s.by_hour[..]),
        (days, &s.by_day[..]),
    ] {
        let _ = writeln!(
            text,
            "{what:>14} |{}| at most {}",
            sparkline(values),
            most(values)
        );
    }
}

/// Formats a duration in a suitable unit.
fn length(seconds: f64) -> String {
    let trim = |value: f64, unit: &str| {
        let text = decimal(value, 1);
        format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match seconds {
        s if s < 60.0 => trim(s, "s"),
        s if s < 3600.0 => trim(s / 60.0, "min"),
        s if s < 86_400.0 => trim(s / 3600.0, "h"),
        s => trim(s / 86_400.0, "d"),
    }
}

/// Formats seconds since 1970 as a date, to the minute. A time beyond the calendar becomes its last
/// date.
pub(crate) fn date(epoch_s: f64) -> String {
    let date = DateTime::from_timestamp(epoch_s.floor() as i64, 0);
    let date = date.unwrap_or(DateTime::<Utc>::MAX_UTC);
    format!(
        "{} {:02}:{:02}",
        date.date_naive(),
        date.hour(),
        date.minute()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_dates() {
        for (seconds, text) in [
            (0.0, "1970-01-01 00:00"),
            (951_825_600.0, "2000-02-29 12:00"),
            (1_507_532_515.0, "2017-10-09 07:01"),
            (-1.0, "1969-12-31 23:59"),
        ] {
            assert_eq!(date(seconds), text);
        }
        // Far beyond any calendar: must not panic.
        let _ = (date(f64::MAX), date(f64::INFINITY));
    }

    #[test]
    fn lengths_have_units_that_suit() {
        assert_eq!(length(59.94), "59.9 s");
        assert_eq!(length(600.0), "10 min");
        assert_eq!(length(5400.0), "1.5 h");
        assert_eq!(length(604_800.0), "7 d");
    }
}
