//! Alibaba's GPU trace of 2023 (`cluster-trace-gpu-v2023`, USENIX ATC 2023):
//! the pods of a cluster, `openb_pod_list_*.csv`.
//!
//! | column | meaning |
//! |---|---|
//! | `name` | the job's name |
//! | `cpu_milli`, `memory_mib` | CPUs in thousandths, memory in MiB |
//! | `num_gpu` | requested GPUs |
//! | `gpu_milli` | thousandths of each GPU, at most 1000 |
//! | `gpu_spec` | the only GPU types, joined by a bar; empty for any |
//! | `creation_time` | seconds; submission |
//! | `scheduled_time` | seconds; its start, empty if there was none |
//! | `deletion_time` | seconds; its end |
//!
//! A job is a pod that runs from `scheduled_time` to `deletion_time`. The earliest job is submitted
//! at 0. A job with thousandths of a GPU has that part of each. `qos` and `pod_phase` are left out.
//!
//! Dropped, with a notice: pods without GPUs, pods that were never scheduled,
//! pods without `deletion_time`.

use crate::cell::Moment;
use crate::rows::{NoJob, Opened, jobs, makes_sense};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::{Extras, JobSpec, Seconds, Share, Time};
use blox_workloads::{Dropped, Notices};
use serde::Deserialize;

/// A pod.
#[derive(Deserialize)]
struct Row {
    name: Column,
    num_gpu: Column<u32>,
    gpu_milli: Column<f64>,
    creation_time: Column<Moment>,
    scheduled_time: Column<Moment>,
    deletion_time: Column<Moment>,
    gpu_spec: Option<Column>,
    cpu_milli: Option<Column<f64>>,
    memory_mib: Option<Column<f64>>,
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind(&["qos", "pod_phase"], notices)?;
    let mut names = SharedNames::default();
    jobs(table, makes_sense, move |t, _| job(t, &row, &mut names))
}

fn job(t: &Table, row: &Row, names: &mut SharedNames) -> Result<JobSpec, NoJob> {
    let gpus = t.gpus(row.num_gpu)?;
    let submit = Time::new(t.get(row.creation_time)?.0);
    let start = t
        .or_null(row.scheduled_time)?
        .ok_or(Dropped::NeverStarted)?;
    let end = t.or_null(row.deletion_time)?.ok_or(Dropped::StillRunning)?;
    if end.0 < start.0 {
        let expected = "a moment not before scheduled_time";
        return Err(t.wrong(row.deletion_time, expected).into());
    }
    let milli = t.get(row.gpu_milli)?;
    let share = match milli {
        0.0 => Some(Share::WHOLE),
        milli => Share::of(milli / 1000.0),
    };
    let expected = "thousandths of a GPU: 0, or from 1/21 to 1000";
    let mut extras = Extras {
        share: share.ok_or_else(|| t.wrong(row.gpu_milli, expected))?,
        cpus: t.value(row.cpu_milli)?.unwrap_or(0.0) / 1000.0,
        memory_gib: t.value(row.memory_mib)?.unwrap_or(0.0) / 1024.0,
        ..Extras::default()
    };
    if let Some(spec) = row.gpu_spec.filter(|spec| !t.is_null(*spec)) {
        let types = t.text(spec).split('|');
        extras.gpu_types = types.filter_map(|t| names.of_cell(t)).collect();
    }
    let duration = Seconds::new(end.0 - start.0);
    let mut job = JobSpec::new(submit, gpus, duration).with_extras(extras);
    job.name = t.own_name(row.name);
    Ok(job)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p1,88000,2048,8,1000,,Burstable,Succeeded,500,1600,600
p2,4000,512,1,220,V100M16|V100M32,LS,Running,560,700,560
p3,4000,512,1,1000,,LS,Pending,560,700,
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::open::read_bytes;
    use blox_core::GpuCount;
    use blox_workloads::{Workload, collect};

    #[test]
    fn pods_with_gpus_that_ran_are_jobs() {
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
                    p0,8000,1024,0,0,,BE,Running,900,1000,900\n\
                    p1,88000,2048,8,1000,,Burstable,Succeeded,500,1600,600\n\
                    p2,4000,512,1,220,V100M16|V100M32,LS,Running,560,700,560\n\
                    p3,4000,512,1,1000,,LS,Pending,560,700,\n";
        let mut workload = read_bytes("pods.csv", text.as_bytes(), Format::Openb).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            [
                "dropped: asks for no GPU (once, on line 2)",
                "dropped: never started (once, on line 5)",
            ]
        );
        let jobs = collect(&mut workload).unwrap();
        assert_eq!(jobs.len(), 2);
        assert_eq!(jobs[0].submit, Time::ZERO);
        assert_eq!(jobs[0].duration(), Seconds::new(1000.0));
        assert_eq!(
            (jobs[0].extras().cpus, jobs[0].extras().memory_gib),
            (88.0, 2.0)
        );
        assert_eq!(jobs[1].submit, Time::new(60.0));
        assert_eq!(jobs[1].gpus, GpuCount(1));
        assert!(jobs[0].extras().share.is_whole());
        assert_eq!(Some(jobs[1].extras().share), Share::parts(220, 1000));
        let types: Vec<_> = jobs[1].extras().gpu_types.iter().map(|t| &**t).collect();
        assert_eq!(types, ["V100M16", "V100M32"]);
    }

    #[test]
    fn an_end_before_the_start_is_no_job() {
        let text =
            "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np,1,1000,5,8,9\n";
        let error = read_bytes("pods.csv", text.as_bytes(), Format::Openb).unwrap_err();
        assert_eq!(
            error.to_string(),
            "pods.csv:2: deletion_time is `8`, expected a moment not before scheduled_time"
        );
    }

    #[test]
    fn more_than_a_gpu_in_thousandths_is_an_error() {
        let read = |gpus: u32, milli: &str| {
            let text = format!(
                "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np,{gpus},{milli},5,9,5\n"
            );
            let mut workload = read_bytes("pods.csv", text.as_bytes(), Format::Openb)?;
            Ok::<_, blox_workloads::WorkloadError>(collect(&mut workload)?.remove(0))
        };
        for milli in ["1500", "0.01"] {
            assert_eq!(
                read(1, milli).unwrap_err().to_string(),
                format!(
                    "pods.csv:2: gpu_milli is `{milli}`, expected thousandths of a GPU: 0, or from 1/21 to 1000"
                )
            );
        }
        let job = read(2, "500").unwrap();
        assert_eq!(
            (job.gpus, Some(job.extras().share)),
            (GpuCount(2), Share::parts(1, 2))
        );
    }
}
