//! Files of Tiresias' released simulator.
//!
//! - [`read_rows`]: jobs, with the header
//!   `job_id,num_gpu,submit_time,iterations,model_name,duration,interval`. Times are in seconds; a
//!   duration is truncated to whole seconds. The simulator ignores `iterations` and `interval`;
//!   these and further columns are left out.
//! - [`read_cluster`]: a cluster, with a header and one row of
//!   `num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node`. Memory is in GB.
//!   Nodes are in order of their switches; the switch is the location of a node.
//! - [`read_samples`]: attained services of past jobs in whole GPU-seconds, in the column
//!   `duration`.
//!
//! Cells of jobs and clusters are separated by commas. If the header has no comma, they are
//! separated by single spaces, as in the simulator's `.txt` files.

use crate::rows::{NoJob, Opened, all, jobs, sensible};
use crate::source::{Source, first_line};
use crate::table::{Column, Layout, SharedNames, Table};
use blox_core::{
    ClusterSpec, Extras, GpuCount, JobSpec, MAX_GPUS_PER_NODE, Name, NodeSpec, Seconds, Time,
};
use blox_workloads::{Notices, WorkloadError};
use serde::Deserialize;
use std::path::Path;

/// Returns the separator of the names in a header.
pub(crate) fn delimiter(header: &str) -> u8 {
    if header.contains(',') { b',' } else { b' ' }
}

/// Opens a file of Tiresias' simulator, or of ElasticFlow's simulator, which is derived from it.
pub fn open_table(source: &Source) -> Result<Table, WorkloadError> {
    let layout = Layout {
        delimiter: delimiter(&first_line(source)?),
        ..Layout::CSV
    };
    Table::open_as(source, layout)
}

/// Reads the jobs of a file in the order of its rows.
///
/// # Errors
/// The file cannot be read, or a row is invalid.
pub fn read_rows(path: impl AsRef<Path>) -> Result<Vec<JobSpec>, WorkloadError> {
    let mut notices = Notices::default();
    let mut rows = open_rows(&Source::at(path.as_ref())?, &mut notices)?;
    all(&mut *rows, &mut notices)
}

/// A job.
#[derive(Deserialize)]
struct Row {
    job_id: Column,
    num_gpu: Column<GpuCount>,
    submit_time: Column<Time>,
    duration: Column<Seconds>,
    model_name: Option<Column>,
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = open_table(source)?;
    let row: Row = table.bind(&["iterations", "interval"], notices)?;
    let mut models = SharedNames::default();
    jobs(table, sensible, move |t, _| job(t, &row, &mut models))
}

fn job(t: &Table, row: &Row, models: &mut SharedNames) -> Result<JobSpec, NoJob> {
    let submit = t.get(row.submit_time)?;
    let duration = Seconds::new(t.get(row.duration)?.secs().trunc());
    let mut job = JobSpec::new(submit, t.get(row.num_gpu)?, duration);
    job.name = t.own_name(row.job_id);
    if let Some((_, model)) = t.optional(row.model_name) {
        job = job.with_extras(Extras {
            model: Some(models.get(model)),
            ..Extras::default()
        });
    }
    Ok(job)
}

/// Columns of a cluster.
const COLUMNS: [&str; 5] = [
    "num_switch",
    "num_node_p_switch",
    "num_gpu_p_node",
    "num_cpu_p_node",
    "mem_p_node",
];

/// Largest number of nodes, so that a typing error does not exhaust the memory.
const MOST_NODES: u32 = 1_000_000;

/// Reads a cluster in Tiresias' layout, see the [module](self).
///
/// # Errors
/// If the file cannot be read, lacks a column, or does not have exactly one row with a valid
/// cluster.
pub fn read_cluster(path: impl AsRef<Path>) -> Result<ClusterSpec, WorkloadError> {
    cluster_of(&Source::at(path.as_ref())?)
}

fn cluster_of(source: &Source) -> Result<ClusterSpec, WorkloadError> {
    let mut table = open_table(source)?;
    let [switches, nodes, gpus, cpus, memory] = table.require(COLUMNS)?;
    let one_row = |table: &Table, found: &str| {
        let what = format!("found {found}, expected one row below the header");
        WorkloadError::line(table.path(), table.line(), what)
    };
    if !table.advance()? {
        return Err(one_row(&table, "none"));
    }
    let (switch_count, node_count) = (table.count(switches)?, table.count(nodes)?);
    if node_count > MOST_NODES / switch_count.min(MOST_NODES) {
        return Err(table.wrong(nodes, "at most a million nodes in all"));
    }
    let gpu_count = table.count(gpus)?;
    if gpu_count > MAX_GPUS_PER_NODE {
        let expected = format!("a whole number from 1 to {MAX_GPUS_PER_NODE}");
        return Err(table.wrong(gpus, &expected));
    }
    let amount = "a number of at least 0";
    let node = NodeSpec {
        cpus: table.number(cpus, |x| x >= 0.0, amount)?,
        memory_gib: table.number(memory, |x| x >= 0.0, amount)?,
        ..NodeSpec::with_gpus(gpu_count)
    };
    if table.advance()? {
        return Err(one_row(&table, "another row"));
    }
    let on_switch = |switch: u32| {
        let location = vec![Name::from(format!("switch-{switch}"))];
        let node = NodeSpec {
            location,
            ..node.clone()
        };
        std::iter::repeat_n(node, node_count as usize)
    };
    Ok(ClusterSpec {
        nodes: (0..switch_count).flat_map(on_switch).collect(),
        ..ClusterSpec::default()
    })
}

/// Reads attained services of past jobs in GPU-seconds, see the [module](self).
///
/// # Errors
/// If the file cannot be read, has no column `duration` or no row, or has a value that is not a
/// whole number of at least 1.
pub fn read_samples(path: impl AsRef<Path>) -> Result<Vec<u32>, WorkloadError> {
    samples_of(&Source::at(path.as_ref())?)
}

fn samples_of(source: &Source) -> Result<Vec<u32>, WorkloadError> {
    let mut table = Table::open(source)?;
    let [duration] = table.require(["duration"])?;
    let mut samples = Vec::new();
    while table.advance()? {
        samples.push(table.count(duration)?);
    }
    if samples.is_empty() {
        let what = "found no row, expected one a past job";
        return Err(WorkloadError::line(table.path(), table.line(), what));
    }
    Ok(samples)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
num_gpu,submit_time,iterations,model_name,duration,job_id,interval
1,30,500,vgg16,120.9,7,5
4,30.5,100,,60,8,5
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{FileWorkload, Format};
    use blox_workloads::{Workload, collect};

    fn read(text: &str) -> Result<FileWorkload, WorkloadError> {
        read_bytes("jobs.csv", text.as_bytes(), Format::Tiresias)
    }

    #[test]
    fn rows_are_jobs_with_their_model() {
        let mut workload = read(
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval,note\n\
             7,4,30,100,vgg16,12.9,5,?\n\
             3,1,30,100,,60,5,?\n",
        )
        .unwrap();
        let notices: Vec<_> = workload.notices().iter().map(ToString::to_string).collect();
        assert_eq!(
            notices,
            [
                "unknown column `note`: ignored; with the name `attributes.note`, it is kept (once, on line 1)"
            ]
        );
        let jobs = collect(&mut workload).unwrap();
        assert_eq!(jobs[0].name.as_deref(), Some("7"));
        assert_eq!(jobs[0].gpus, GpuCount(4));
        assert_eq!(jobs[0].duration().secs(), 12.0);
        let model = jobs[0].extras.as_ref().and_then(|e| e.model.as_deref());
        assert_eq!(model, Some("vgg16"));
        assert_eq!(jobs[1].extras, None);
    }

    #[test]
    fn cells_may_stand_between_spaces() {
        let text = "job_id num_gpu \"submit_time\" model_name duration user\r\n\
                    a 2 30 \"my model\" 12.9 x\r\n\r\nb 4 10 vgg16 60 y";
        let names = |jobs: &[JobSpec]| -> Vec<_> {
            jobs.iter()
                .map(|j| (j.name.as_deref().map(str::to_owned), j.gpus.get()))
                .collect()
        };
        let jobs = collect(&mut read(text).unwrap()).unwrap();
        let (a, b) = ((Some("a".to_owned()), 2), (Some("b".to_owned()), 4));
        assert_eq!(names(&jobs), [b.clone(), a.clone()]);
        let model = jobs[1].extras.as_ref().and_then(|e| e.model.as_deref());
        assert_eq!(model, Some("my model"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.txt");
        std::fs::write(&path, text).unwrap();
        assert_eq!(names(&read_rows(&path).unwrap()), [a, b]);
    }

    #[test]
    fn a_bad_row_names_line_and_field() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(
            error("job_id,num_gpu,submit_time,duration\n0,0,0,1\n"),
            "jobs.csv:2: num_gpu is `0`, expected a whole number of at least 1"
        );
        assert_eq!(
            error("job_id,num_gpu,duration\n0,1,1\n"),
            "jobs.csv:1: the column submit_time is missing, found the columns job_id, num_gpu, duration"
        );
    }

    fn read_row(rows: &str) -> Result<ClusterSpec, String> {
        let text = format!("{}\n{rows}", COLUMNS.join(","));
        Source::of("c.csv", text.as_bytes())
            .and_then(|source| cluster_of(&source))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_row_is_a_cluster() {
        let cluster = read_row("2,3,4,48,256").unwrap();
        assert_eq!((cluster.nodes.len(), cluster.total_gpus()), (6, 24));
        let node = &cluster.nodes[3];
        assert_eq!((node.cpus, node.memory_gib), (48.0, 256.0));
        assert_eq!(node.location, [Name::from("switch-1")]);
    }

    #[test]
    fn cells_of_a_cluster_may_stand_between_spaces() {
        let text = format!("{} note\r\n1 2 8 96 500 x", COLUMNS.join(" "));
        let cluster = cluster_of(&Source::of("c.txt", text.as_bytes()).unwrap()).unwrap();
        assert_eq!((cluster.nodes.len(), cluster.total_gpus()), (2, 16));
    }

    #[test]
    fn other_rows_are_refused() {
        assert_eq!(
            read_row("1,1,65,1,1").unwrap_err(),
            "c.csv:2: num_gpu_p_node is `65`, expected a whole number from 1 to 64"
        );
        assert_eq!(
            read_row("").unwrap_err(),
            "c.csv:1: found none, expected one row below the header"
        );
        assert_eq!(
            read_row("1,1,1,1,1\n1,1,1,1,1\n").unwrap_err(),
            "c.csv:3: found another row, expected one row below the header"
        );
        assert!(read_row("4000000000,4000000000,1,1,1").is_err());
    }

    #[test]
    fn samples_are_a_column() {
        let read = |text: &str| {
            Source::of("s.csv", text.as_bytes())
                .and_then(|source| samples_of(&source))
                .map_err(|e| e.to_string())
        };
        assert_eq!(read("duration\n500\n20\n"), Ok(vec![500, 20]));
        assert_eq!(
            read("duration\n"),
            Err("s.csv:1: found no row, expected one a past job".to_owned())
        );
    }
}
