//! Pictures of result folders.

use super::error::FolderError;
use super::figures::{PARTIAL, of_measured};
use super::folder::Folder;
use super::run::{JobRow, NO_VALUE, RunResults};
use super::sweep;
use super::text::{number_of, whole};
use blox_plot::{Axis, Bar, BarChart, Chart, Gantt, Series, TimeUnit};
use blox_sim::results::TimelineRow;

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

/// A picture of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The name of the picture.
    pub name: &'static str,
    title: &'static str,
    /// Need of the picture beside jobs that ended: the end of a sentence, or empty.
    pub needs: &'static str,
    draw: fn(&Kind, &Compared<'_>) -> Option<Picture>,
}

/// Schedulers that a picture compares.
struct Compared<'a> {
    all: &'a [Contestant<'a>],
    /// The jobs, the workload and the cluster in one line.
    about: String,
    unit: TimeUnit,
}

const fn kind(
    name: &'static str,
    title: &'static str,
    needs: &'static str,
    draw: fn(&Kind, &Compared<'_>) -> Option<Picture>,
) -> Kind {
    Kind {
        name,
        title,
        needs,
        draw,
    }
}

/// The picture of job completion times, which several seeds also have.
pub const JCT: Kind = kind("jct-cdf", "Job completion time (JCT)", "", jct);

/// The pictures that compare schedulers.
pub const SUMMARIES: [Kind; 13] = [
    JCT,
    kind("queueing-cdf", "Queueing time", "", queueing),
    kind(
        "fairness-cdf",
        "Finish-time fairness",
        " and --fairness",
        fairness,
    ),
    kind("utilisation", "GPU utilisation", "", utilisation),
    kind("queue-length", "Queue length", "", queue_length),
    kind(
        "avg-jct",
        "Average job completion time",
        " and more than one scheduler",
        averages,
    ),
    kind(
        "deadlines",
        "Deadlines met and missed",
        " and have deadlines",
        deadlines,
    ),
    kind("lateness-cdf", "Lateness", " and have deadlines", lateness),
    kind("cost", "Cost of the nodes", " and nodes with prices", cost),
    kind(
        "services",
        "GPU time that services needed",
        " and a need of services",
        services,
    ),
    kind(
        "evictions",
        "Evictions",
        " and guaranteed time of spot jobs",
        evictions,
    ),
    kind("waits", "Reasons of waiting", " and --why", waits),
    kind(
        "groups-avg-jct",
        "Average job completion time",
        " and --by COLUMN",
        group_averages,
    ),
];
/// The start of the name of a picture of groups, before the folder of its scheduler.
pub const GROUP_DISTRIBUTION: &str = "groups-jct-cdf-";
/// The most groups in a picture.
const GROUPS: usize = 12;
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
    distributions(&JCT, about, jct_axis(unit), times)
}

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
    let compared = Compared { all, about, unit };
    let drawn = SUMMARIES
        .iter()
        .filter_map(|kind| (kind.draw)(kind, &compared));
    let of_each = all.iter().filter_map(|c| group_distribution(c, unit));
    drawn.chain(of_each).collect()
}

fn jct(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    of.distribution(kind, "", jct_axis(of.unit), |run| {
        run.measured().filter_map(|j| j.jct_s).collect()
    })
}

fn queueing(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    let text = ". Queueing time: JCT without the time with GPUs";
    let axis = Axis::seconds("queueing time").in_unit(of.unit).log();
    of.distribution(kind, text, axis, |run| {
        run.measured().filter_map(JobRow::queueing_s).collect()
    })
}

fn fairness(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    let text = ". rho = JCT / (JCT alone on a fair share); rho > 1: treated unfairly";
    let axis = Axis::new("finish-time fairness rho").log();
    of.distribution(kind, text, axis, |run| {
        run.jobs.iter().filter_map(|j| j.rho).collect()
    })
}

fn utilisation(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    let axis = Axis::fraction("usable GPUs with a running job").from(0.0);
    of.over_time(kind, axis, |r| {
        (r.used_gpus, r.usable_gpus.max(r.used_gpus))
    })
}

fn queue_length(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    let axis = Axis::new("jobs without GPUs").from(0.0);
    of.over_time(kind, axis, |r| (r.queued_jobs, 1.0))
}

fn jct_axis(unit: TimeUnit) -> Axis {
    Axis::seconds("JCT: submission until the end")
        .in_unit(unit)
        .log()
}

/// Draws the numbers of jobs that met, missed and were declined with their deadline.
fn deadlines(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    let fates = ["met", "missed", "declined"];
    of.bars(kind, Axis::new("jobs with a deadline"), fates, |run| {
        let counts = fates.map(|fate| run.figure(&format!("deadlines_{fate}")));
        let some = counts.iter().any(Option::is_some);
        some.then(|| counts.map(|count| count.unwrap_or(0.0)))
    })
}

fn cost(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    of.bars(kind, Axis::new("cost"), ["cost"], |run| {
        Some([run.figure("rent_cost")?])
    })
}

/// Draws the GPU-hours that services needed and had, and those that they lacked.
fn services(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    of.bars(kind, Axis::new("GPU-hours"), ["had", "lacked"], |run| {
        let lacked = run.figure("services_lacking_gpu_h")?;
        Some([run.figure("services_needed_gpu_h")? - lacked, lacked])
    })
}

/// Draws the stops by decisions of guaranteed jobs, and of spot jobs after and within their guaranteed
/// time.
fn evictions(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    let parts = [
        "guaranteed jobs",
        "spot jobs, guarantee kept",
        "spot jobs, guarantee broken",
    ];
    of.bars(kind, Axis::new("stops by decisions"), parts, |run| {
        let broken = run.figure("evictions_broken")?;
        let spot = run.figure("evictions_spot")?;
        Some([run.figure("evictions_guaranteed")?, spot - broken, broken])
    })
}

/// Draws the time from the deadline to the end of each job that completed.
fn lateness(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    let axis = Axis::seconds("end - deadline").in_unit(of.unit);
    let text = ". Completed jobs with a deadline; above 0: missed";
    of.distribution(kind, text, axis, |run| {
        run.measured().filter_map(JobRow::lateness_s).collect()
    })
}

/// Draws the mean time for which a measured job waited, by reason.
fn waits(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    // Reasons of more waiting first, in the same order for each scheduler.
    let mut totals: Vec<(&str, f64)> = Vec::new();
    for wait in of.all.iter().flat_map(|c| c.run.waits()) {
        match totals.iter_mut().find(|(reason, _)| *reason == wait.reason) {
            Some((_, total)) => *total += wait.total_s,
            None => totals.push((wait.reason, wait.total_s)),
        }
    }
    if totals.is_empty() {
        return None;
    }
    totals.sort_by(|a, b| b.1.total_cmp(&a.1));
    let text = format!("{}. Means over all measured jobs", of.about);
    let axis = Axis::seconds("time without GPUs, by reason").in_unit(of.unit);
    let mut chart = BarChart::new(kind.title, axis).subtitle(text);
    for c in of.all {
        let of = |reason: &str| c.run.waits().find(|wait| wait.reason == reason);
        let mean = |reason: &str| of(reason).map_or(0.0, |wait| wait.mean_s);
        let parts = totals.iter().map(|(reason, _)| (*reason, mean(reason)));
        chart = chart.with(c.name.as_str(), parts);
    }
    Some(kind.drawn(chart.stacked().svg()))
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
fn group_averages(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    let (by, values, count) = shown_groups(of.all)?;
    let title = format!("{} by {by}", kind.title);
    let subtitle = format!("{}{}", of.about, left_out(values.len(), count));
    let axis = Axis::seconds("JCT").in_unit(of.unit);
    let mut chart = BarChart::new(title.as_str(), axis).subtitle(subtitle);
    for value in values {
        let bars = of.all.iter().map(|c| {
            let figures = c.run.groups().find(|(own, _)| *own == value);
            let average = figures.and_then(|(_, group)| group["avg_jct_s"].as_f64());
            (c.name.as_str(), average.unwrap_or(f64::NAN))
        });
        chart = chart.with(value.unwrap_or(NO_VALUE), bars);
    }
    Some(Picture::new(kind.name, title, chart.svg()))
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

fn averages(kind: &Kind, of: &Compared<'_>) -> Option<Picture> {
    let figure = |c: &Contestant<'_>, key: &str| c.run.summary[key].as_f64().unwrap_or(f64::NAN);
    let axis = Axis::seconds("JCT").in_unit(of.unit);
    let mut chart = BarChart::new(kind.title, axis).subtitle(of.about.as_str());
    for c in of.all {
        let bars = [
            ("average", figure(c, "avg_jct_s")),
            ("median", figure(c, "median_jct_s")),
        ];
        chart = chart.with(c.name.as_str(), bars);
    }
    (of.all.len() > 1).then(|| kind.drawn(chart.svg()))
}

impl Kind {
    fn drawn(&self, svg: String) -> Picture {
        Picture::new(self.name, self.title, svg)
    }
}

impl Compared<'_> {
    /// Draws distributions of values of each run. `more` continues the subtitle. Returns `None` without
    /// values.
    fn distribution(
        &self,
        kind: &Kind,
        more: &str,
        axis: Axis,
        values: impl Fn(&RunResults) -> Vec<f64>,
    ) -> Option<Picture> {
        let values = self.all.iter().map(|c| (c.name.clone(), values(c.run)));
        distributions(
            kind,
            &format!("{}{more}", self.about),
            axis,
            values.collect(),
        )
    }

    /// Draws figures of each run as bars with named parts. Returns `None` if no run has them.
    fn bars<const N: usize>(
        &self,
        kind: &Kind,
        axis: Axis,
        parts: [&str; N],
        figures: impl Fn(&RunResults) -> Option<[f64; N]>,
    ) -> Option<Picture> {
        let mut chart = BarChart::new(kind.title, axis).subtitle(self.about.as_str());
        let mut some = false;
        for c in self.all {
            let values = figures(c.run);
            some |= values.is_some();
            let values = values.unwrap_or([0.0; N]);
            chart = chart.with(c.name.as_str(), parts.into_iter().zip(values));
        }
        some.then(|| kind.drawn(chart.stacked().svg()))
    }

    /// Draws the ratio of two means over time. Returns `None` if no run has a timeline.
    fn over_time(
        &self,
        kind: &Kind,
        axis: Axis,
        ratio: impl Fn(&TimelineRow) -> (f64, f64),
    ) -> Option<Picture> {
        let mut longest = 0.0f64;
        let mut series = Vec::new();
        for c in self.all {
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
        let mut subtitle = format!("All jobs, means over {}", self.unit.text(longest));
        if panels {
            subtitle.push_str("; other schedulers in grey");
        }
        let time = Axis::seconds("time").in_unit(self.unit).from(0.0);
        let chart = Chart::new(kind.title, time, axis).subtitle(subtitle);
        let chart = chart.with_all(series).in_panels(panels);
        Some(kind.drawn(chart.svg()))
    }
}

/// Draws the distribution of the values of each name. Returns `None` without values.
fn distributions(
    kind: &Kind,
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
    let chart = Chart::distribution(kind.title, axis).subtitle(about);
    Some(kind.drawn(chart.with_all(series).svg()))
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
