//! Alibaba's trace of spot GPUs (`cluster-trace-v2026-spot-gpu`, ASPLOS 2026): the jobs,
//! `job_info_df.csv`.
//!
//! | column | meaning |
//! |---|---|
//! | `job_name` | the job's name |
//! | `organization` | the user |
//! | `gpu_model` | the only GPU type |
//! | `gpu_request`, `cpu_request` | GPUs and CPU cores of a worker |
//! | `worker_num` | number of workers |
//! | `submit_time` | seconds since the first submission |
//! | `duration` | seconds that it ran |
//! | `job_type` | `HP` (high priority) or `Spot` |
//!
//! A job is a gang of its workers. Workers that request less than one GPU each have that part of a
//! GPU. A spot job has no guaranteed time, because the trace states none.
//!
//! Dropped, with a notice: jobs without GPUs.

use crate::rows::{NoJob, Opened, jobs, makes_sense};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::{Class, Extras, GpuCount, JobSpec, Seconds, Share, Time};
use blox_workloads::{Dropped, Notices};
use serde::Deserialize;

/// A job.
#[derive(Deserialize)]
struct Row {
    job_name: Column,
    gpu_request: Column<f64>,
    worker_num: Column<u32>,
    submit_time: Column<Time>,
    duration: Column<Seconds>,
    job_type: Column,
    organization: Option<Column>,
    gpu_model: Option<Column>,
    cpu_request: Option<Column<f64>>,
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind(&[], notices)?;
    let mut names = SharedNames::default();
    jobs(table, makes_sense, move |t, _| job(t, &row, &mut names))
}

fn job(t: &Table, row: &Row, names: &mut SharedNames) -> Result<JobSpec, NoJob> {
    let workers = t.gpus(row.worker_num)?;
    let each = t.or_null(row.gpu_request)?.filter(|each| *each > 0.0);
    let each = each.ok_or(Dropped::NoGpus)?;
    let whole = each.fract() == 0.0 && each * f64::from(workers.get()) <= f64::from(u32::MAX);
    let (gpus, share) = match Share::of(each) {
        Some(share) => (workers, share),
        None if whole => (GpuCount(each as u32 * workers.get()), Share::WHOLE),
        None => {
            let expected = "a whole number of GPUs, or a part of one GPU";
            return Err(t.wrong(row.gpu_request, expected).into());
        }
    };
    let class = match t.text(row.job_type) {
        "HP" => Class::Guaranteed,
        "Spot" => Class::BEST_EFFORT,
        _ => return Err(t.wrong(row.job_type, "HP or Spot").into()),
    };
    let cpus = t.value(row.cpu_request)?.unwrap_or(0.0) * f64::from(workers.get());
    let gpu_types = names.at(t, row.gpu_model).into_iter().collect();
    let duration = t.get(row.duration)?;
    let mut job = JobSpec::new(t.get(row.submit_time)?, gpus, duration).with_extras(Extras {
        gpu_types,
        class,
        share,
        cpus,
        ..Extras::default()
    });
    job.name = t.own_name(row.job_name);
    job.user = names.at(t, row.organization);
    Ok(job)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type
239255,13,A10,20,1,1,0,2764799,HP
437260,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot
5,57,A10,4,0.5,2,9589670,60,Spot
";

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::open::read_bytes;
    use blox_core::{Class, Share};
    use blox_workloads::{Workload, collect};

    const HEADER: &str = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n";

    #[test]
    fn workers_of_a_job_are_one_gang() {
        let text = format!(
            "{HEADER}239255,13,A10,20,1,1,0,2764799,HP\n\
             437260,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot\n\
             5,57,A10,4,0.5,2,9589670,60,Spot\n\
             6,57,A10,8,4,3,9589671,90,HP\n\
             7,57,A10,8,0,3,9589672,90,HP\n"
        );
        let mut workload = read_bytes("jobs.csv", text.as_bytes(), Format::Spot).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(notices, ["dropped: asks for no GPU (once, on line 6)"]);
        let jobs = collect(&mut workload).unwrap();
        let found: Vec<_> = jobs
            .iter()
            .map(|j| (j.submit.secs(), j.gpus.get(), j.extras().cpus))
            .collect();
        let expected = [
            (0.0, 1, 20.0),
            (9_589_663.0, 16, 240.0),
            (9_589_670.0, 2, 8.0),
            (9_589_671.0, 12, 24.0),
        ];
        assert_eq!(found, expected);
        let classes: Vec<_> = jobs.iter().map(|j| j.extras().class).collect();
        let [hp, spot] = [Class::Guaranteed, Class::BEST_EFFORT];
        assert_eq!(classes, [hp, spot, spot, hp]);
        assert_eq!(Some(jobs[2].extras().share), Share::parts(1, 2));
        assert_eq!(jobs[1].user.as_deref(), Some("57"));
        assert_eq!(&*jobs[1].extras().gpu_types[0], "A100-SXM4-80GB");
        assert_eq!(jobs[1].duration().secs(), 41_060.0);
    }

    #[test]
    fn unknown_class_and_uneven_gpus_are_errors() {
        let error = |row: &str| {
            let text = format!("{HEADER}{row}\n");
            read_bytes("jobs.csv", text.as_bytes(), Format::Spot)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("1,2,A10,8,1,1,0,60,LP"),
            "jobs.csv:2: job_type is `LP`, expected HP or Spot"
        );
        assert_eq!(
            error("1,2,A10,8,1.5,1,0,60,HP"),
            "jobs.csv:2: gpu_request is `1.5`, expected a whole number of GPUs, or a part of one GPU"
        );
    }
}
