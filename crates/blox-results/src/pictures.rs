//! Pictures of result folders.

use super::error::FolderError;
use super::folder::Folder;
use super::run::{JobRow, NO_VALUE, RunResults};
use super::{PARTIAL, number_of, of_measured, sweep, whole};
use blox_plot::{Axis, Bar, BarChart, Chart, Gantt, Series};

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
pub const SUMMARIES: [&str; 6] = [
    "jct-cdf",
    "queueing-cdf",
    FAIRNESS,
    "utilisation",
    "queue-length",
    AVERAGES,
];
/// The name of the picture of averages by group.
pub const GROUP_AVERAGES: &str = "groups-avg-jct";
/// The start of the name of a picture of groups, before the folder of its scheduler.
pub const GROUP_DISTRIBUTION: &str = "groups-jct-cdf-";
/// The most groups in a picture.
const GROUPS: usize = 12;
/// The name of the picture of finish-time fairness.
pub const FAIRNESS: &str = "fairness-cdf";
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
    let mut list = summaries(&all);
    for c in &all {
        if c.run.has_assignments() {
            list.push(gantt(c)?);
        }
    }
    for sweep in folders.iter().filter_map(|f| f.sweep.as_ref()) {
        list.extend(sweep::pictures(sweep)?);
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
    distributions(
        SUMMARIES[0],
        JCT,
        about,
        jct_axis(),
        times.into_iter().collect(),
    )
}

const JCT: &str = "Job completion time (JCT)";

fn jct_axis() -> Axis {
    Axis::seconds("JCT: submission until the end").log()
}

/// Draws every picture except Gantt charts.
pub(super) fn summaries(all: &[Contestant<'_>]) -> Vec<Picture> {
    let about = about(all);
    let times = |time: fn(&JobRow) -> Option<f64>| {
        move |c: &Contestant<'_>| c.run.measured().filter_map(time).collect()
    };
    let jct = [SUMMARIES[0], JCT];
    let jct = distribution(jct, &about, jct_axis(), all, times(|j| j.jct_s));
    let text = format!("{about}. Queueing time: JCT without the time with GPUs");
    let axis = Axis::seconds("queueing time").log();
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
    let utilisation = over_time(["utilisation", "GPU utilisation"], axis, all, |r| {
        (r.busy_gpus, r.usable_gpus.max(r.busy_gpus))
    });
    let axis = Axis::new("jobs without GPUs").from(0.0);
    let names = ["queue-length", "Queue length"];
    let queue = over_time(names, axis, all, |r| (r.queued_jobs, 1.0));
    let averages = (all.len() > 1).then(|| averages(&about, all));
    let list = [jct, queueing, fairness, utilisation, queue, averages];
    let mut list: Vec<Picture> = list.into_iter().flatten().collect();
    list.extend(group_averages(all));
    list.extend(all.iter().filter_map(group_distribution));
    list
}

/// Returns the most frequent values of the column by which jobs are grouped, in their order, and the
/// column. The values are of the first scheduler with groups.
fn shown_groups<'a>(all: &[Contestant<'a>]) -> Option<(&'a str, Vec<&'a str>, usize)> {
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
fn group_averages(all: &[Contestant<'_>]) -> Option<Picture> {
    let (by, values, count) = shown_groups(all)?;
    let title = format!("Average job completion time by {by}");
    let subtitle = format!("{}{}", about(all), left_out(values.len(), count));
    let mut chart = BarChart::new(title.as_str(), Axis::seconds("JCT")).subtitle(subtitle);
    for value in values {
        let bars = all.iter().map(|c| {
            let figures = c.run.groups().find(|(own, _)| *own == value);
            let average = figures.and_then(|(_, group)| group["avg_jct_s"].as_f64());
            (c.name.as_str(), average.unwrap_or(f64::NAN))
        });
        chart = chart.with(value, bars);
    }
    Some(Picture::new(GROUP_AVERAGES, title, chart.svg()))
}

/// Draws the distribution of job completion times of each group under a scheduler.
fn group_distribution(c: &Contestant<'_>) -> Option<Picture> {
    let (by, values, count) = shown_groups(std::slice::from_ref(c))?;
    let title = format!("{}: job completion time by {by}", c.name);
    let about = about(std::slice::from_ref(c));
    let subtitle = format!("{about}{}", left_out(values.len(), count));
    let series = values.into_iter().map(|value| {
        let own = |j: &&JobRow| j.group.as_deref().unwrap_or(NO_VALUE) == value;
        let times = c.run.measured().filter(own).filter_map(|j| j.jct_s);
        Series::distribution(value, times.collect::<Vec<f64>>())
    });
    let axis = Axis::seconds("JCT: submission until the end").log();
    let chart = Chart::distribution(title.as_str(), axis).subtitle(subtitle);
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

fn averages(about: &str, all: &[Contestant<'_>]) -> Picture {
    let title = "Average job completion time";
    let figure = |c: &Contestant<'_>, key: &str| c.run.summary[key].as_f64().unwrap_or(f64::NAN);
    let mut chart = BarChart::new(title, Axis::seconds("JCT")).subtitle(about);
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
    let mut subtitle = format!("All jobs, means over {}", span(longest));
    if panels {
        subtitle.push_str("; other schedulers in grey");
    }
    let time = Axis::seconds("time").from(0.0);
    let chart = Chart::new(title, time, axis).subtitle(subtitle);
    let chart = chart.with_all(series).in_panels(panels);
    Some(Picture::new(name, title, chart.svg()))
}

fn span(s: f64) -> String {
    match s {
        _ if s >= 7200.0 => format!("{:.1} hours", s / 3600.0),
        _ if s >= 120.0 => format!("{:.1} minutes", s / 60.0),
        _ => format!("{s} s"),
    }
}

fn gantt(c: &Contestant<'_>) -> Result<Picture, FolderError> {
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
    fn durations_are_printed_in_a_fitting_unit() {
        assert_eq!(span(3.0), "3 s");
        assert_eq!(span(300.0), "5.0 minutes");
        assert_eq!(span(27_000.0), "7.5 hours");
        assert_eq!(
            (whole(999), whole(1_234_567)),
            ("999".into(), "1,234,567".into())
        );
    }
}
