//! Load against completion time, from the rows of a sweep.

use super::folder::FolderError;
use super::pictures::Picture;
use super::table::Table;
use blox_plot::{Axis, Chart, Series};
use std::path::Path;

/// Rows of one scheduler: load, average JCT.
type Rows = Vec<(f64, f64)>;

/// The picture of `sweep.csv`, if the folder has one.
pub(super) fn pictures(dir: &Path) -> Result<Vec<Picture>, FolderError> {
    let path = dir.join("sweep.csv");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let mut table = Table::open(&path)?;
    let scheduler = table.column("scheduler")?;
    let load = table.column("load")?;
    let jct = table.column("avg_jct_s")?;
    let mut all: Vec<(String, Rows)> = Vec::new();
    while table.advance()? {
        // What did not run at a load has no average.
        let (Some(load), Some(jct)) = (table.maybe(load)?, table.maybe(jct)?) else {
            continue;
        };
        let name = table.text(scheduler);
        match all.iter_mut().find(|(n, _)| n == name) {
            Some((_, rows)) => rows.push((load, jct)),
            None => all.push((name.to_owned(), vec![(load, jct)])),
        }
    }
    let title = "Load against average job completion time";
    let axis = Axis::seconds("average JCT").from(0.0);
    let mut chart = Chart::new(title, Axis::new("load (jobs per hour)"), axis).subtitle(
        "Means over seeds; whiskers: 95 % confidence interval of the mean (Student's t), where there are several seeds",
    );
    for (name, rows) in all {
        chart = chart.with(series(name, rows));
    }
    Ok(vec![Picture {
        name: "load-jct".to_owned(),
        title: title.to_owned(),
        svg: chart.svg(),
    }])
}

fn series(name: String, mut rows: Rows) -> Series {
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let groups: Vec<(f64, (f64, f64))> = rows
        .chunk_by(|a, b| a.0 == b.0)
        .map(|rows| {
            let values: Vec<f64> = rows.iter().map(|r| r.1).collect();
            (rows[0].0, mean_and_half_width(&values))
        })
        .collect();
    let points = groups.iter().map(|(x, (mean, _))| (*x, *mean));
    let ends = groups
        .iter()
        .map(|(_, (mean, half))| (mean - half, mean + half));
    Series::line(name, points).between(ends)
}

/// Mean, and half of its 95 % confidence interval: `NaN` for a single value.
fn mean_and_half_width(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let half = match values.len() {
        0 | 1 => f64::NAN,
        len => student_t(len - 1) * (squares / (n - 1.0) / n).sqrt(),
    };
    (mean, half)
}

/// The 97.5th percentile of Student's t.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        0 => f64::NAN,
        f => TABLE.get(f - 1).copied().unwrap_or(1.96),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_students_t() {
        let (mean, half) = mean_and_half_width(&[10.0, 12.0, 14.0]);
        assert_eq!(mean, 12.0);
        assert!((half - 4.303 * 2.0 / 3f64.sqrt()).abs() < 1e-9);
        assert!(mean_and_half_width(&[5.0]).1.is_nan());
        assert_eq!((student_t(30), student_t(31)), (2.042, 1.96));
    }

    #[test]
    fn a_sweep_becomes_a_picture() {
        let dir = tempfile::tempdir().unwrap();
        assert!(pictures(dir.path()).unwrap().is_empty());
        let text =
            "scheduler,load,seed,avg_jct_s\nfifo,8,1,100\nfifo,4,1,50\nfifo,8,2,120\nlas,4,1,\n";
        std::fs::write(dir.path().join("sweep.csv"), text).unwrap();
        let list = pictures(dir.path()).unwrap();
        assert_eq!(list[0].name, "load-jct");
        assert!(list[0].svg.contains(">fifo</text>") && !list[0].svg.contains(">las</text>"));
        std::fs::write(
            dir.path().join("sweep.csv"),
            "scheduler,load,avg_jct_s\nx,y,1\n",
        )
        .unwrap();
        let error = pictures(dir.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("line 2: load is `y`, expected a number"),
            "{error}"
        );
    }
}
