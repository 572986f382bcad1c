//! Pictures of a sweep: figures over the settings.

use super::super::error::FolderError;
use super::super::pictures::Picture;
use super::{Group, Sweep};
use crate::figures::{PARTIAL, of_measured};
use crate::run::value_or_none;
use crate::statistics::{Estimate, LEAST_SEEDS};
use crate::text::{in_groups, in_paths, whole};
use blox_plot::{Axis, BarChart, Chart, Series, TimeUnit};

/// A drawn figure: column, name in paths, title and axis.
type Figure = (&'static str, &'static str, &'static str, fn() -> Axis);

const FIGURES: [Figure; 6] = [
    ("avg_jct_s", "jct", "average job completion time", || {
        Axis::seconds("average JCT")
    }),
    (
        "p99_jct_s",
        "p99-jct",
        "99th percentile of job completion time",
        || Axis::seconds("p99 JCT"),
    ),
    (
        "avg_responsiveness_s",
        "responsiveness",
        "average responsiveness",
        || Axis::seconds("submission until the first start"),
    ),
    ("utilisation", "utilisation", "GPU utilisation", || {
        Axis::fraction("GPUs with a running job")
    }),
    (
        "fairness_mean",
        "fairness",
        "finish-time fairness rho",
        || Axis::new("mean rho"),
    ),
    ("deadlines_met", "deadlines-met", "deadlines met", || {
        Axis::new("jobs that met their deadline")
    }),
];

/// The most settings for which distributions are drawn.
const MOST_SETTINGS: usize = 12;

/// Draws figures over the load, and the completion times at each setting.
///
/// If the sweep does not vary the load, the horizontal axis is the first setting that is a
/// number. If no setting is a number, the averages are bars.
///
/// # Errors
/// A file of a run cannot be read.
pub(crate) fn pictures(sweep: &Sweep, unit: TimeUnit) -> Result<Vec<Picture>, FolderError> {
    let groups = sweep.groups();
    if groups.len() < 2 {
        return Ok(Vec::new());
    }
    let mut list = match over(sweep) {
        Some(x) => lines(sweep, &groups, x, unit),
        None => vec![bars(sweep, &groups, unit)],
    };
    list.extend(distributions(sweep, &groups, unit)?);
    Ok(list)
}

/// Returns the setting on the horizontal axis.
fn over(sweep: &Sweep) -> Option<usize> {
    let rank = |k: &usize| match sweep.varied[*k].as_str() {
        "load" => 0,
        "load_of_capacity" => 1,
        _ => 2,
    };
    let number = |k: &usize| sweep.runs.iter().all(|r| value(&r.settings[*k]).is_some());
    (0..sweep.varied.len()).filter(number).min_by_key(rank)
}

fn value(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite())
}

/// Draws a picture for each figure, with a line for each scheduler and its other settings.
fn lines(sweep: &Sweep, groups: &[Group<'_>], x: usize, unit: TimeUnit) -> Vec<Picture> {
    let (what, axis) = match sweep.varied[x].as_str() {
        "load" => ("Load", Axis::new("load (jobs per hour)")),
        "load_of_capacity" => ("Load", Axis::fraction("demand, of the cluster's GPUs")),
        other => (other, Axis::new(other)),
    };
    let name_of = |group: &Group<'_>| {
        let mut name = group.scheduler.to_owned();
        for (k, value) in group.settings.iter().enumerate().filter(|(k, _)| *k != x) {
            name.push_str(&format!(" {}={}", sweep.varied[k], value_or_none(value)));
        }
        // One line has points of several groups, each with a number of jobs of its own.
        let series = groups.iter().filter(|g| {
            let others = |g: &Group<'_>| {
                let settings = g.settings.iter().enumerate();
                settings
                    .filter(|(k, _)| *k != x)
                    .map(|(_, v)| v.clone())
                    .collect::<Vec<_>>()
            };
            g.scheduler == group.scheduler && others(g) == others(group)
        });
        if series.into_iter().any(|g| g.partial().is_some()) {
            name.push_str(" (* not all jobs completed)");
        }
        name
    };
    let draw = |(column, name, figure, scale): Figure| {
        let all = in_groups(groups.iter().filter_map(|group| {
            let point = (value(&group.settings[x])?, group.estimate(column)?);
            Some((name_of(group), point))
        }));
        if all.is_empty() {
            return None;
        }
        let title = format!("{what} against {figure}");
        let chart = Chart::new(
            title.as_str(),
            axis.clone(),
            scale().in_unit(unit).from(0.0),
        )
        .subtitle(medians_of(groups))
        .with_all(all.into_iter().map(|(name, points)| series(name, points)));
        let what = if what == "Load" { "load" } else { what };
        let name = format!("{what}-{name}");
        Some(Picture::new(name, title, chart.svg()))
    };
    FIGURES.into_iter().filter_map(draw).collect()
}

fn series(name: String, mut points: Vec<(f64, Estimate)>) -> Series {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let medians = points.iter().map(|(x, e)| (*x, e.median));
    Series::line(name, medians).between(points.iter().map(|(_, e)| ends(e)))
}

/// Returns the ends of the interval, which are NaN without one.
fn ends(e: &Estimate) -> (f64, f64) {
    e.interval
        .map_or((f64::NAN, f64::NAN), |[low, high]| (low, high))
}

/// Returns the meaning of points and whiskers.
fn medians_of(groups: &[Group<'_>]) -> String {
    let sizes = groups.iter().map(|g| g.runs.len());
    match (sizes.clone().min(), sizes.max()) {
        (Some(1), Some(1)) => "One run each".to_owned(),
        (Some(least), Some(most)) => {
            let seeds = match least == most {
                true => format!("{most}"),
                false => format!("{least} to {most}"),
            };
            match groups.iter().any(|g| g.runs.len() >= LEAST_SEEDS) {
                true => {
                    format!("Medians over {seeds} seeds; whiskers: intervals of nominal level 95 %")
                }
                false => format!("Medians over {seeds} seeds"),
            }
        }
        _ => String::new(),
    }
}

fn bars(sweep: &Sweep, groups: &[Group<'_>], unit: TimeUnit) -> Picture {
    let title = "Average job completion time";
    let axis = Axis::seconds("JCT").in_unit(unit);
    let mut chart = BarChart::new(title, axis).subtitle(medians_of(groups));
    for group in groups {
        let label = sweep.label(group.settings);
        let name = marked(format!("{} {label}", group.scheduler).trim_end(), group);
        if let Some(e) = group.estimate("avg_jct_s") {
            chart = chart
                .with(name, [("average", e.median)])
                .between([ends(&e)]);
        }
    }
    Picture::new("avg-jct", title, chart.svg())
}

/// Draws the completion times at each setting, with a line for each scheduler.
fn distributions(
    sweep: &Sweep,
    groups: &[Group<'_>],
    unit: TimeUnit,
) -> Result<Vec<Picture>, FolderError> {
    let mut settings: Vec<&[String]> = Vec::new();
    for group in groups {
        if !settings.contains(&group.settings) {
            settings.push(group.settings);
        }
    }
    if settings.len() > MOST_SETTINGS {
        return Ok(Vec::new());
    }
    let mut list = Vec::new();
    for setting in settings {
        let mut all = Vec::new();
        let mut jobs = 0;
        for group in groups.iter().filter(|g| g.settings == setting) {
            let mut times = Vec::new();
            for run in &group.runs {
                if let Some(results) = sweep.results(run)? {
                    times.extend(results.measured().filter_map(|j| j.jct_s));
                }
            }
            jobs += times.len();
            all.push(Series::distribution(marked(group.scheduler, group), times));
        }
        if jobs == 0 {
            continue;
        }
        let label = sweep.label(setting);
        let title = match label.is_empty() {
            true => "Job completion time (JCT)".to_owned(),
            false => format!("Job completion time (JCT), {label}"),
        };
        let axis = Axis::seconds("JCT: submission until the end")
            .in_unit(unit)
            .log();
        let subtitle = format!(
            "{} measured jobs of all seeds and schedulers together",
            whole(jobs as u64)
        );
        let chart = Chart::distribution(title.as_str(), axis)
            .subtitle(subtitle)
            .with_all(all);
        let name = name_of(&sweep.varied, setting);
        list.push(Picture::new(name, title, chart.svg()));
    }
    Ok(list)
}

/// Returns the name of a group, with the number of completed jobs if some measured jobs did not
/// complete.
fn marked(name: &str, group: &Group<'_>) -> String {
    match group.partial() {
        Some(jobs) => format!("{name}{PARTIAL} ({} jobs)", of_measured(jobs)),
        None => name.to_owned(),
    }
}

/// Returns a name such as `jct-cdf_load=4`.
fn name_of(varied: &[String], setting: &[String]) -> String {
    let mut name = "jct-cdf".to_owned();
    for (what, value) in varied.iter().zip(setting) {
        name.push_str(&format!("_{what}={value}"));
    }
    in_paths(&name).chars().take(150).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn drawn(dir: &Path) -> Result<Vec<Picture>, FolderError> {
        pictures(&Sweep::open(dir)?, TimeUnit::Hours)
    }

    #[test]
    fn a_sweep_becomes_pictures() {
        let dir = tempfile::tempdir().unwrap();
        let d = dir.path();
        assert!(!Sweep::lies_in(d));
        let write = |text: &str| std::fs::write(d.join("sweep.csv"), text).unwrap();
        write(
            "run,scheduler,policy,seed,load,nodes,gpus,avg_jct_s,utilisation\n\
             a,fifo,fifo,1,8,4,16,100,0.5\nb,fifo,fifo,1,4,4,16,50,0.25\n\
             c,fifo,fifo,2,8,4,16,120,0.5\nd,las,las,1,4,4,16,,\n",
        );
        assert!(Sweep::lies_in(d));
        let list = drawn(d).unwrap();
        let names: Vec<&str> = list.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["load-jct", "load-utilisation"]);
        assert!(list[0].svg.contains(">fifo</text>") && !list[0].svg.contains(">las</text>"));
        // Deadlines have a picture of their own.
        write("scheduler,load,nodes,avg_jct_s,deadlines_met\nfifo,4,4,7200,9\nfifo,8,4,9000,6\n");
        let list = drawn(d).unwrap();
        assert_eq!(list[1].name, "load-deadlines-met");
        assert!(list[0].svg.contains("average JCT (hours)"));
        // Something else varied beside the load tells series apart.
        write(
            "scheduler,cluster,load,nodes,avg_jct_s\n\
             fifo,2x4,4,2,10\nfifo,4x4,4,4,5\nfifo,2x4,8,2,20\nfifo,4x4,8,4,9\n",
        );
        let svg = &drawn(d).unwrap()[0].svg;
        assert!(
            svg.contains(">fifo cluster=2x4</text>") && svg.contains(">fifo cluster=4x4</text>")
        );
        // Without loads, the first number that was varied.
        write("scheduler,load,round,nodes,avg_jct_s\nfifo,8,60,2,10\nfifo,8,300,2,12\n");
        assert_eq!(drawn(d).unwrap()[0].name, "round-jct");
        // Without a number, bars.
        write("scheduler,cluster,nodes,avg_jct_s\nfifo,2x4,2,10\nfifo,4x4,4,12\n");
        let list = drawn(d).unwrap();
        assert_eq!((list.len(), list[0].name.as_str()), (1, "avg-jct"));
        assert!(list[0].svg.contains(">fifo cluster 2x4</text>"));
        // Nothing varied: nothing to draw.
        write("scheduler,load,seed,nodes,avg_jct_s\nfifo,8,1,2,10\nfifo,8,2,2,12\n");
        assert!(drawn(d).unwrap().is_empty());
        write("scheduler,load,nodes,avg_jct_s\n");
        assert!(drawn(d).unwrap().is_empty());
        write("scheduler,load,nodes,avg_jct_s\nfifo,8,2,x\n");
        let error = drawn(d).unwrap_err().to_string();
        assert!(
            error.ends_with("sweep.csv:2: avg_jct_s is `x`, expected a number"),
            "{error}"
        );
    }
}
