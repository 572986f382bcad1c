//! What a sweep varied against completion time, from its rows.

use super::folder::FolderError;
use super::pictures::Picture;
use super::table::Table;
use blox_plot::{Axis, Chart, Series};
use blox_sim::results::statistics::Estimate;
use std::path::Path;

/// The rows of a sweep.
pub(super) const TABLE: &str = "sweep.csv";

/// What one run was told and what came of it.
struct Row {
    scheduler: String,
    /// In order of the columns.
    settings: Vec<String>,
    avg_jct_s: f64,
}

/// The picture of `sweep.csv`, if the folder has one: average completion time
/// over the load, or over the first number that was varied where loads were not.
pub(super) fn pictures(dir: &Path) -> Result<Vec<Picture>, FolderError> {
    let path = dir.join(TABLE);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let (names, rows) = read(&path)?;
    let varied = |k: &usize| rows.iter().any(|r| r.settings[*k] != rows[0].settings[*k]);
    let mut varied: Vec<usize> = (0..names.len()).filter(varied).collect();
    let rank = |k: &usize| match names[*k].as_str() {
        "load" => 0,
        "load_of_capacity" => 1,
        _ => 2,
    };
    varied.sort_by_key(rank);
    let number = |k: &&usize| rows.iter().all(|r| value(&r.settings[**k]).is_some());
    let Some(&x) = varied.iter().find(number) else {
        return Ok(Vec::new());
    };
    varied.retain(|k| *k != x);
    varied.sort_unstable();
    let mut all: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for row in &rows {
        let mut name = row.scheduler.clone();
        for k in &varied {
            name.push_str(&format!(" {}={}", names[*k], row.settings[*k]));
        }
        let point = (value(&row.settings[x]).unwrap_or(f64::NAN), row.avg_jct_s);
        match all.iter_mut().find(|(n, _)| *n == name) {
            Some((_, points)) => points.push(point),
            None => all.push((name, vec![point])),
        }
    }
    let (what, axis) = match names[x].as_str() {
        "load" => ("Load", Axis::new("load (jobs per hour)")),
        "load_of_capacity" => ("Load", Axis::fraction("demand, of the cluster's GPUs")),
        other => (other, Axis::new(other)),
    };
    let title = format!("{what} against average job completion time");
    let subtitle = "Means over seeds; whiskers: 95 % confidence interval of the mean (Student's t), where there are several seeds";
    let series = all.into_iter().map(|(name, points)| series(name, points));
    let chart = Chart::new(title.as_str(), axis, Axis::seconds("average JCT").from(0.0))
        .subtitle(subtitle)
        .with_all(series);
    Ok(vec![Picture {
        name: format!("{}-jct", if what == "Load" { "load" } else { what }),
        title,
        svg: chart.svg(),
    }])
}

/// Names of the settings, and the runs that have an average.
fn read(path: &Path) -> Result<(Vec<String>, Vec<Row>), FolderError> {
    let mut table = Table::open(path)?;
    let scheduler = table.column("scheduler")?;
    let jct = table.column("avg_jct_s")?;
    // Settings stand before the size of the cluster, figures behind it. Seeds
    // repeat a setting, and parameters are in the scheduler's name.
    let no_setting = |name: &str| {
        matches!(name, "run" | "scheduler" | "policy" | "seed") || name.starts_with("param_")
    };
    let (names, columns): (Vec<String>, Vec<_>) = table
        .columns()
        .take_while(|(name, _)| !matches!(*name, "nodes" | "gpus" | "ended" | "avg_jct_s"))
        .filter(|(name, _)| !no_setting(name))
        .map(|(name, column)| (name.to_owned(), column))
        .unzip();
    let mut rows = Vec::new();
    while table.advance()? {
        if let Some(avg_jct_s) = table.maybe(jct)? {
            rows.push(Row {
                scheduler: table.text(scheduler).to_owned(),
                settings: columns.iter().map(|c| table.text(*c).to_owned()).collect(),
                avg_jct_s,
            });
        }
    }
    Ok((names, rows))
}

fn value(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite())
}

fn series(name: String, mut rows: Vec<(f64, f64)>) -> Series {
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let groups: Vec<(f64, (f64, f64))> = rows
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(|rows| {
            let values: Vec<f64> = rows.iter().map(|r| r.1).collect();
            let estimate = Estimate::of(&values, 0.95)?;
            // One run has no interval, and draws none.
            let half = estimate.half_width.unwrap_or(f64::NAN);
            Some((rows[0].0, (estimate.mean, half)))
        })
        .collect();
    let points = groups.iter().map(|(x, (mean, _))| (*x, *mean));
    let ends = groups
        .iter()
        .map(|(_, (mean, half))| (mean - half, mean + half));
    Series::line(name, points).between(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_becomes_a_picture() {
        let dir = tempfile::tempdir().unwrap();
        let d = dir.path();
        assert!(pictures(d).unwrap().is_empty());
        let write = |text: &str| std::fs::write(d.join(TABLE), text).unwrap();
        write(
            "run,scheduler,policy,seed,load,nodes,gpus,avg_jct_s\n\
             a,fifo,fifo,1,8,4,16,100\nb,fifo,fifo,1,4,4,16,50\n\
             c,fifo,fifo,2,8,4,16,120\nd,las,las,1,4,4,16,\n",
        );
        let list = pictures(d).unwrap();
        assert_eq!(list[0].name, "load-jct");
        assert!(list[0].svg.contains(">fifo</text>") && !list[0].svg.contains(">las</text>"));
        // Something else varied beside the load tells series apart.
        write(
            "scheduler,cluster,load,nodes,avg_jct_s\n\
             fifo,2x4,4,2,10\nfifo,4x4,4,4,5\nfifo,2x4,8,2,20\nfifo,4x4,8,4,9\n",
        );
        let svg = &pictures(d).unwrap()[0].svg;
        assert!(
            svg.contains(">fifo cluster=2x4</text>") && svg.contains(">fifo cluster=4x4</text>")
        );
        // Without loads, the first number that was varied.
        write("scheduler,load,round,nodes,avg_jct_s\nfifo,8,60,2,10\nfifo,8,300,2,12\n");
        assert_eq!(pictures(d).unwrap()[0].name, "round-jct");
        // Nothing varied: nothing to draw.
        write("scheduler,load,seed,nodes,avg_jct_s\nfifo,8,1,2,10\nfifo,8,2,2,12\n");
        assert!(pictures(d).unwrap().is_empty());
        write("scheduler,load,nodes,avg_jct_s\nfifo,8,2,x\n");
        let error = pictures(d).unwrap_err().to_string();
        assert!(
            error.ends_with("line 2: avg_jct_s is `x`, expected a number"),
            "{error}"
        );
    }
}
