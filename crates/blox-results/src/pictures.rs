//! Pictures of result folders.

use super::error::FolderError;
use super::folder::Folder;
use super::run::{JobRow, NO_VALUE, RunResults};
use super::{PARTIAL, number_of, of_measured, sweep, whole};
use blox_plot::{Axis, Bar, BarChart, Chart, Gantt, Series, TimeUnit};

/// A picture as SVG.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The name of the file, without extension.
    pub name: String,
    /// The title.
    pub title: String,
    /// The SVG.
    pub svg: String,
}

impl Picture {
    pub(super) fn new(name: impl Into<String>, title: impl Into<String>, svg: String) -> Self {
        Picture {
            name: name.into(),
            title: title.into(),
            svg,
        }
    }
}

/// The name of the picture of average job completion times. Results of one scheduler lack it.
pub const AVERAGES: &str = "avg-jct";
/// The names of the pictures of a comparison, except Gantt charts.
pub const SUMMARIES: [&str; 12] = [
    "jct-cdf",
    "queueing-cdf",
    FAIRNESS,
    "utilisation",
    "queue-length",
    AVERAGES,
    DEADLINE_COUNTS,
    LATENESS,
    COST,
    SERVICES,
    EVICTIONS,
    WAITS,
];
/// The name of the picture of averages by group.
pub const GROUP_AVERAGES: &str = "groups-avg-jct";
/// The start of the name of a picture of groups, before the folder of its scheduler.
pub const GROUP_DISTRIBUTION: &str = "groups-jct-cdf-";
/// The most groups in a picture.
const GROUPS: usize = 12;
/// The name of the picture of finish-time fairness.
pub const FAIRNESS: &str = "fairness-cdf";
/// The name of the picture of jobs that met and missed their deadline.
pub const DEADLINE_COUNTS: &str = "deadlines";
/// The name of the picture of the time between deadline and end.
pub const LATENESS: &str = "lateness-cdf";
/// The name of the picture of the cost of nodes.
const COST: &str = "cost";
/// The name of the picture of the GPU time that services needed.
const SERVICES: &str = "services";
/// The name of the picture of stops of jobs of both classes.
const EVICTIONS: &str = "evictions";
/// The name of the picture of the reasons of waiting.
pub const WAITS: &str = "waits";
/// The start of the name of a Gantt chart, before the folder of its scheduler.
pub const GANTT: &str = "gantt-";

/// The most series over time in one frame. More series get a panel each.
const IN_ONE_FRAME: usize = 4;
/// The most points of a line over time.
const POINTS: usize = 240;

/// A scheduler of a folder.
pub(super) struct Contestant<'a> {
    /// A unique name, with the number of completed jobs if some measured jobs did not complete.
    pub name: String,
    pub folder: &'a Folder,
    pub run: &'a RunResults,
}

/// Returns all schedulers of all folders. If two have the same name, the name of the folder is
/// added.
pub(super) fn contestants(folders: &[Folder]) -> Vec<Contestant<'_>> {
    let all = || {
        folders
            .iter()
            .flat_map(|f| f.runs.iter().map(move |r| (f, r)))
    };
    all()
        .map(|(folder, run)| {
            let alone = all().filter(|(_, r)| r.name == run.name).count() == 1;
            let place = folder.path.file_name().unwrap_or(folder.path.as_os_str());
            let name = match alone {
                true => run.name.clone(),
                false => format!("{} ({})", run.name, place.to_string_lossy()),
            };
            let name = match run.partial() {
                Some(jobs) => format!("{name}{PARTIAL} ({} jobs)", of_measured(jobs)),
                None => name,
            };
            Contestant { name, folder, run }
        })
        .collect()
}

/// Draws every picture that the folders have data for, with Gantt charts.
///
/// # Errors
/// A file cannot be read.
pub fn pictures(folders: &[Folder]) -> Result<Vec<Picture>, FolderError> {
    let all = contestants(folders);
    let unit = time_unit(folders);
    let mut list = summaries(&all, unit);
    for c in &all {
        if c.run.has_assignments() {
            list.push(gantt(c, unit)?);
        }
    }
    for sweep in folders.iter().filter_map(|f| f.sweep.as_ref()) {
        list.extend(sweep::pictures(sweep, unit)?);
    }
    Ok(list)
}

/// Draws job completion times over seeds: the jobs of all seeds of a scheduler are one distribution.
/// `times` are seconds by scheduler. Returns `None` without times.
///
/// ```
/// use blox_results::jct_over_seeds;
/// let times = [("fifo".to_owned(), vec![60.0, 90.0]), ("las".to_owned(), vec![30.0, 90.0])];
/// let picture = jct_over_seeds("2 seeds", times).unwrap();
/// assert_eq!(picture.name, "jct-cdf");
/// assert!(picture.svg.contains("2 seeds"));
/// ```
pub fn jct_over_seeds(
    about: &str,
    times: impl IntoIterator<Item = (String, Vec<f64>)>,
) -> Option<Picture> {
    let times: Vec<(String, Vec<f64>)> = times.into_iter().collect();
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let some = times.iter().filter(|(_, times)| !times.is_empty());
    let unit = fitting(some.map(|(_, times)| mean(times)).collect());
    distributions(SUMMARIES[0], JCT, about, jct_axis(unit), times)
}

const JCT: &str = "Job completion time (JCT)";

/// Returns the unit of every time in the pictures and tables of these folders.
pub(super) fn time_unit(folders: &[Folder]) -> TimeUnit {
    let runs = folders.iter().flat_map(|f| &f.runs);
    let averages = runs.map(|run| run.figure("avg_jct_s").or(Some(run.end_s())));
    let sweeps = folders.iter().filter_map(|f| f.sweep.as_ref());
    let of_sweeps = sweeps
        .flat_map(|sweep| &sweep.runs)
        .map(|run| run.figure("avg_jct_s"));
    fitting(averages.chain(of_sweeps).flatten().collect())
}

/// Returns the largest unit that is not longer than the median of average job completion times in
/// seconds; days from three days on.
fn fitting(mut averages: Vec<f64>) -> TimeUnit {
    averages.sort_unstable_by(f64::total_cmp);
    let middle = averages.get(averages.len() / 2).copied().unwrap_or(0.0);
    let units = [TimeUnit::Hours, TimeUnit::Minutes];
    match middle {
        _ if middle >= 3.0 * TimeUnit::Days.secs() => TimeUnit::Days,
        _ => units
            .into_iter()
            .find(|unit| middle >= unit.secs())
            .unwrap_or(TimeUnit::Seconds),
    }
}

/// Draws every picture except Gantt charts.
pub(super) fn summaries(all: &[Contestant<'_>], unit: TimeUnit) -> Vec<Picture> {
    let about = about(all);
    let times = |time: fn(&JobRow) -> Option<f64>| {
        move |c: &Contestant<'_>| c.run.measured().filter_map(time).collect()
    };
    let jct = [SUMMARIES[0], JCT];
    let jct = distribution(jct, &about, jct_axis(unit), all, times(|j| j.jct_s));
    let text = format!("{about}. Queueing time: JCT without the time with GPUs");
    let axis = Axis::seconds("queueing time").in_unit(unit).log();
    let names = ["queueing-cdf", "Queueing time"];
    let queueing = distribution(names, &text, axis, all, times(JobRow::queueing_s));
    let text =
        format!("{about}. rho = JCT / (JCT alone on a fair share); rho > 1: treated unfairly");
    let axis = Axis::new("finish-time fairness rho").log();
    let names = [FAIRNESS, "Finish-time fairness"];
    let fairness = distribution(names, &text, axis, all, |c| {
        c.run.jobs.iter().filter_map(|j| j.rho).collect()
    });
    let axis = Axis::fraction("usable GPUs with a running job").from(0.0);
    let utilisation = over_time(["utilisation", "GPU utilisation"], axis, unit, all, |r| {
        (r.used_gpus, r.usable_gpus.max(r.used_gpus))
    });
    let axis = Axis::new("jobs without GPUs").from(0.0);
    let names = ["queue-length", "Queue length"];
    let queue = over_time(names, axis, unit, all, |r| (r.queued_jobs, 1.0));
    let averages = (all.len() > 1).then(|| averages(&about, all, unit));
    let list = [
        jct,
        queueing,
        fairness,
        utilisation,
        queue,
        averages,
        deadlines(&about, all),
        lateness(&about, all, unit),
        cost(&about, all),
        services(&about, all),
        evictions(&about, all),
        waits(all, unit),
        group_averages(all, unit),
    ];
    let mut list: Vec<Picture> = list.into_iter().flatten().collect();
    list.extend(all.iter().filter_map(|c| group_distribution(c, unit)));
    list
}

fn jct_axis(unit: TimeUnit) -> Axis {
    Axis::seconds("JCT: submission until the end")
        .in_unit(unit)
        .log()
}

/// Draws figures of each scheduler as bars with named parts. Returns `None` if no scheduler has them.
fn bars<const N: usize>(
    [name, title]: [&str; 2],
    axis: Axis,
    about: &str,
    all: &[Contestant<'_>],
    parts: [&str; N],
    figures: impl Fn(&RunResults) -> Option<[f64; N]>,
) -> Option<Picture> {
    let mut chart = BarChart::new(title, axis).subtitle(about);
    let mut some = false;
    for c in all {
        let values = figures(c.run);
        some |= values.is_some();
        let values = values.unwrap_or([0.0; N]);
        chart = chart.with(c.name.as_str(), parts.into_iter().zip(values));
    }
    some.then(|| Picture::new(name, title, chart.stacked().svg()))
}

/// Draws the numbers of jobs that met, missed and were declined with their deadline.
fn deadlines(about: &str, all: &[Contestant<'_>]) -> Option<Picture> {
    let names = [DEADLINE_COUNTS, "Deadlines met and missed"];
    let (axis, fates) = (
        Axis::new("jobs with a deadline"),
        ["met", "missed", "declined"],
    );
    bars(names, axis, about, all, fates, |run| {
        let counts = fates.map(|fate| run.figure(&format!("deadlines_{fate}")));
        let some = counts.iter().any(Option::is_some);
        some.then(|| counts.map(|count| count.unwrap_or(0.0)))
    })
}

/// Draws the cost of the nodes.
fn cost(about: &str, all: &[Contestant<'_>]) -> Option<Picture> {
    let (names, axis) = ([COST, "Cost of the nodes"], Axis::new("cost"));
    bars(names, axis, about, all, ["cost"], |run| {
        Some([run.figure("rent_cost")?])
    })
}

/// Draws the GPU-hours that services needed and had, and those that they lacked.
fn services(about: &str, all: &[Contestant<'_>]) -> Option<Picture> {
    let names = [SERVICES, "GPU time that services needed"];
    let (axis, parts) = (Axis::new("GPU-hours"), ["had", "lacked"]);
    bars(names, axis, about, all, parts, |run| {
        let lacked = run.figure("services_lacking_gpu_h")?;
        Some([run.figure("services_needed_gpu_h")? - lacked, lacked])
    })
}

/// Draws the stops by decisions of guaranteed jobs, and of spot jobs after and within their guaranteed
/// time.
fn evictions(about: &str, all: &[Contestant<'_>]) -> Option<Picture> {
    let parts = [
        "guaranteed jobs",
        "spot jobs, guarantee kept",
        "spot jobs, guarantee broken",
    ];
    let (names, axis) = ([EVICTIONS, "Evictions"], Axis::new("stops by decisions"));
    bars(names, axis, about, all, parts, |run| {
        let broken = run.figure("evictions_broken")?;
        let spot = run.figure("evictions_spot")?;
        Some([run.figure("evictions_guaranteed")?, spot - broken, broken])
    })
}

/// Draws the time from the deadline to the end of each job that completed.
fn lateness(about: &str, all: &[Contestant<'_>], unit: TimeUnit) -> Option<Picture> {
    let axis = Axis::seconds("end - deadline").in_unit(unit);
    let text = format!("{about}. Completed jobs with a deadline; above 0: missed");
    distribution([LATENESS, "Lateness"], &text, axis, all, |c| {
        c.run.measured().filter_map(JobRow::lateness_s).collect()
    })
}

/// Draws the mean time for which a measured job waited, by reason.
fn waits(all: &[Contestant<'_>], unit: TimeUnit) -> Option<Picture> {
    // Reasons of more waiting first, in the same order for each scheduler.
    let mut totals: Vec<(&str, f64)> = Vec::new();
    for wait in all.iter().flat_map(|c| c.run.waits()) {
        match totals.iter_mut().find(|(reason, _)| *reason == wait.reason) {
            Some((_, total)) => *total += wait.total_s,
            None => totals.push((wait.reason, wait.total_s)),
        }
    }
    if totals.is_empty() {
        return None;
    }
    totals.sort_by(|a, b| b.1.total_cmp(&a.1));
    let title = "Reasons of waiting";
    let text = format!("{}. Means over all measured jobs", about(all));
    let axis = Axis::seconds("time without GPUs, by reason").in_unit(unit);
    let mut chart = BarChart::new(title, axis).subtitle(text);
    for c in all {
        let of = |reason: &str| c.run.waits().find(|wait| wait.reason == reason);
        let mean = |reason: &str| of(reason).map_or(0.0, |wait| wait.mean_s);
        let parts = totals.iter().map(|(reason, _)| (*reason, mean(reason)));
        chart = chart.with(c.name.as_str(), parts);
    }
    Some(Picture::new(WAITS, title, chart.stacked().svg()))
}

/// Returns the most frequent values of the column by which jobs are grouped, in their order, and the
/// column. The values are of the first scheduler with groups.
fn shown_groups<'a>(all: &[Contestant<'a>]) -> Option<(&'a str, Vec<Option<&'a str>>, usize)> {
    let run = all.iter().map(|c| c.run).find(|run| run.by().is_some())?;
    let groups = || run.groups();
    let count = |group: &serde_json::Value| group["measured"].as_u64().unwrap_or(0);
    let mut counts: Vec<u64> = groups().map(|(_, group)| count(group)).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let least = counts.get(GROUPS - 1).copied().unwrap_or(0);
    let frequent = groups().filter(|(_, group)| count(group) >= least);
    let values = frequent.map(|(value, _)| value).take(GROUPS).collect();
    Some((run.by()?, values, counts.len()))
}

/// Returns a note about groups that a picture leaves out.
fn left_out(shown: usize, of: usize) -> String {
    match shown < of {
        true => format!("; the {shown} most frequent of {of} groups"),
        false => String::new(),
    }
}

/// Draws the average of each group under each scheduler.
fn group_averages(all: &[Contestant<'_>], unit: TimeUnit) -> Option<Picture> {
    let (by, values, count) = shown_groups(all)?;
    let title = format!("Average job completion time by {by}");
    let subtitle = format!("{}{}", about(all), left_out(values.len(), count));
    let mut chart =
        BarChart::new(title.as_str(), Axis::seconds("JCT").in_unit(unit)).subtitle(subtitle);
    for value in values {
        let bars = all.iter().map(|c| {
            let figures = c.run.groups().find(|(own, _)| *own == value);
            let average = figures.and_then(|(_, group)| group["avg_jct_s"].as_f64());
            (c.name.as_str(), average.unwrap_or(f64::NAN))
        });
        chart = chart.with(value.unwrap_or(NO_VALUE), bars);
    }
    Some(Picture::new(GROUP_AVERAGES, title, chart.svg()))
}

/// Draws the distribution of job completion times of each group under a scheduler.
fn group_distribution(c: &Contestant<'_>, unit: TimeUnit) -> Option<Picture> {
    let (by, values, count) = shown_groups(std::slice::from_ref(c))?;
    let title = format!("{}: job completion time by {by}", c.name);
    let about = about(std::slice::from_ref(c));
    let subtitle = format!("{about}{}", left_out(values.len(), count));
    let series = values.into_iter().map(|value| {
        let own = |j: &&JobRow| j.group.as_deref() == value;
        let times = c.run.measured().filter(own).filter_map(|j| j.jct_s);
        Series::distribution(value.unwrap_or(NO_VALUE), times.collect::<Vec<f64>>())
    });
    let chart = Chart::distribution(title.as_str(), jct_axis(unit)).subtitle(subtitle);
    let name = format!("{GROUP_DISTRIBUTION}{}", c.run.folder);
    Some(Picture::new(name, title, chart.with_all(series).svg()))
}

/// Returns the jobs, the workload and the cluster in one line.
fn about(all: &[Contestant<'_>]) -> String {
    let Some(first) = all.first() else {
        return String::new();
    };
    let counts: Vec<usize> = all.iter().map(|c| c.run.measured().count()).collect();
    let (least, most) = (
        counts.iter().min().unwrap_or(&0),
        counts.iter().max().unwrap_or(&0),
    );
    let jobs = match least == most {
        true => number_of(*least as u64, "measured job"),
        false => format!(
            "{} to {} measured jobs",
            whole(*least as u64),
            whole(*most as u64)
        ),
    };
    // Only facts that all folders share.
    let same = |what: fn(&Folder) -> String| {
        let text = what(first.folder);
        all.iter().all(|c| what(c.folder) == text).then_some(text)
    };
    let workload = same(Folder::workload_shown).filter(|w| !w.is_empty());
    let gpus = same(|f| number_of(f.gpus(), "GPU"));
    let parts: Vec<String> = [Some(jobs), workload, gpus].into_iter().flatten().collect();
    parts.join("; ")
}

fn averages(about: &str, all: &[Contestant<'_>], unit: TimeUnit) -> Picture {
    let title = "Average job completion time";
    let figure = |c: &Contestant<'_>, key: &str| c.run.summary[key].as_f64().unwrap_or(f64::NAN);
    let mut chart = BarChart::new(title, Axis::seconds("JCT").in_unit(unit)).subtitle(about);
    for c in all {
        let bars = [
            ("average", figure(c, "avg_jct_s")),
            ("median", figure(c, "median_jct_s")),
        ];
        chart = chart.with(c.name.as_str(), bars);
    }
    Picture::new(AVERAGES, title, chart.svg())
}

/// Draws distributions. Returns `None` without values.
fn distribution(
    [name, title]: [&str; 2],
    about: &str,
    axis: Axis,
    all: &[Contestant<'_>],
    values: impl Fn(&Contestant<'_>) -> Vec<f64>,
) -> Option<Picture> {
    let values = all.iter().map(|c| (c.name.clone(), values(c))).collect();
    distributions(name, title, about, axis, values)
}

/// Draws the distribution of the values of each name. Returns `None` without values.
fn distributions(
    name: &str,
    title: &str,
    about: &str,
    axis: Axis,
    values: Vec<(String, Vec<f64>)>,
) -> Option<Picture> {
    if values.iter().all(|(_, v)| v.is_empty()) {
        return None;
    }
    let series = values
        .into_iter()
        .map(|(name, values)| Series::distribution(name, values));
    let chart = Chart::distribution(title, axis).subtitle(about);
    Some(Picture::new(name, title, chart.with_all(series).svg()))
}

/// Draws the ratio of two means over time. Returns `None` if no run has a timeline.
fn over_time(
    [name, title]: [&str; 2],
    axis: Axis,
    unit: TimeUnit,
    all: &[Contestant<'_>],
    ratio: impl Fn(&blox_sim::results::TimelineRow) -> (f64, f64),
) -> Option<Picture> {
    let mut longest = 0.0f64;
    let mut series = Vec::new();
    for c in all {
        let rows = &c.run.timeline;
        if rows.is_empty() {
            continue;
        }
        let together = rows.len().div_ceil(POINTS);
        let mut points: Vec<(f64, f64)> = rows
            .chunks(together)
            .map(|chunk| {
                let (mut above, mut below, mut length) = (0.0, 0.0, 0.0);
                for row in chunk {
                    let (a, b) = ratio(row);
                    above += a * row.length_s;
                    below += b * row.length_s;
                    length += row.length_s;
                }
                longest = longest.max(length);
                let value = if below > 0.0 { above / below } else { 0.0 };
                (chunk[0].time_s, value)
            })
            .collect();
        if let (Some(last), Some(row)) = (points.last().copied(), rows.last()) {
            points.push((row.time_s + row.length_s, last.1));
        }
        series.push(Series::steps(c.name.as_str(), points));
    }
    if series.is_empty() {
        return None;
    }
    let panels = series.len() > IN_ONE_FRAME;
    let mut subtitle = format!("All jobs, means over {}", unit.text(longest));
    if panels {
        subtitle.push_str("; other schedulers in grey");
    }
    let time = Axis::seconds("time").in_unit(unit).from(0.0);
    let chart = Chart::new(title, time, axis).subtitle(subtitle);
    let chart = chart.with_all(series).in_panels(panels);
    Some(Picture::new(name, title, chart.svg()))
}

fn gantt(c: &Contestant<'_>, unit: TimeUnit) -> Result<Picture, FolderError> {
    let mut bars = Vec::new();
    c.run.each_assignment(|a| {
        bars.push(Bar {
            job: a.job,
            job_id: a.job_id,
            gpus: a.gpus,
            start_s: a.start_s,
            end_s: a.end_s,
        });
    })?;
    let title = format!("{}: GPUs over time", c.name);
    let chart = Gantt::new(title.as_str(), c.folder.node_gpus())
        .types(c.folder.node_types())
        .in_unit(unit)
        .subtitle("One row per GPU; colours separate neighbouring jobs.")
        .with_all(bars);
    let name = format!("{GANTT}{}", c.run.folder);
    Ok(Picture::new(name, title, chart.svg()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_different_numbers_of_jobs_is_a_range() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let schedulers = r#"[{"name":"fifo","folder":"a"},{"name":"las","folder":"b"}]"#;
        let manifest = format!(r#"{{"gpus":4,"schedulers":{schedulers}}}"#);
        write("manifest.json", &manifest);
        let about_jobs = |counts: [usize; 2]| {
            for (folder, count) in ["a", "b"].iter().zip(counts) {
                std::fs::create_dir_all(dir.path().join(folder)).unwrap();
                write(&format!("{folder}/summary.json"), "{}");
                let columns = "job_id,job,submit_s,first_start_s,finish_s,jct_s,attained_s,gpus,\
                               duration_s,preemptions,launches,outcome,reason,measured\n";
                let rows = "a,0,0,0,9,9,9,1,9,0,1,completed,,1\n".repeat(count);
                write(&format!("{folder}/jobs.csv"), &(columns.to_owned() + &rows));
            }
            about(&contestants(&[Folder::open(dir.path()).unwrap()]))
        };
        assert_eq!(about_jobs([1, 1]), "1 measured job; 4 GPUs");
        assert_eq!(about_jobs([1, 3]), "1 to 3 measured jobs; 4 GPUs");
    }

    #[test]
    fn unit_of_time_fits_the_average() {
        let dir = tempfile::tempdir().unwrap();
        let unit = |average: f64| {
            let write =
                |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
            write(
                "sweep.csv",
                &format!("scheduler,load,avg_jct_s\nfifo,4,{average}\nfifo,8,1e9\nlas,4,1\n"),
            );
            time_unit(&[Folder::open(dir.path()).unwrap()]).name()
        };
        assert_eq!(
            [59.0, 60.0, 3600.0, 2e5, 3e5].map(unit),
            ["s", "minutes", "hours", "hours", "days"]
        );
        assert_eq!(time_unit(&[]).name(), "s");
    }
}
