//! Alibaba's GPU trace of 2023 (`cluster-trace-gpu-v2023`, USENIX ATC 2023):
//! the pods of a cluster, `openb_pod_list_*.csv`.
//!
//! | column | meaning |
//! |---|---|
//! | `name` | the job's name |
//! | `cpu_milli`, `memory_mib` | CPUs in thousandths, memory in MiB |
//! | `num_gpu` | requested GPUs |
//! | `gpu_milli` | thousandths of the GPU, if one is requested |
//! | `gpu_spec` | the only GPU types, joined by a bar; empty for any |
//! | `creation_time` | seconds; submission |
//! | `scheduled_time` | seconds; its start, empty if there was none |
//! | `deletion_time` | seconds; its end |
//!
//! A job is a pod that runs from `scheduled_time` to `deletion_time`. The earliest job is submitted
//! at 0. A fraction of a GPU is rounded up to a whole GPU, with a notice: jobs do not share GPUs
//! unless a policy pairs them. `qos` and `pod_phase` are left out.
//!
//! Dropped, with a notice: pods without GPUs, pods that were never scheduled,
//! pods without `deletion_time`.

use super::file::{Rows, SharedNames, makes_sense};
use super::source::Source;
use super::table::{Column, Table};
use blox_core::{Extras, GpuCount, JobSpec, Name, Seconds, Time};
use blox_sim::workload::{Dropped, NoticeKind, Notices, WorkloadError};

struct OpenbRows {
    table: Table,
    columns: [Column; 6],
    spec: Option<Column>,
    cpus: Option<Column>,
    memory: Option<Column>,
    names: SharedNames,
}

const KNOWN: [&str; 11] = [
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];

pub(crate) fn open_rows(
    source: &Source,
    notices: &mut Notices,
) -> Result<Box<dyn Rows>, WorkloadError> {
    let table = Table::open(source)?;
    let columns = table.require([
        "name",
        "num_gpu",
        "gpu_milli",
        "creation_time",
        "scheduled_time",
        "deletion_time",
    ])?;
    table.note_unknown(&KNOWN, notices);
    Ok(Box::new(OpenbRows {
        columns,
        spec: table.find("gpu_spec"),
        cpus: table.find("cpu_milli"),
        memory: table.find("memory_mib"),
        table,
        names: SharedNames::default(),
    }))
}

impl Rows for OpenbRows {
    fn next_row(&mut self, notices: &mut Notices) -> Result<Option<JobSpec>, WorkloadError> {
        let [name, gpus, gpu_milli, created, scheduled, deleted] = self.columns;
        let table = &mut self.table;
        loop {
            if !table.advance()? {
                return Ok(None);
            }
            let mut note = |kind| notices.add(kind, table.line());
            let gpus = table.count_or_none(gpus)?;
            if gpus == 0 {
                note(NoticeKind::Dropped(Dropped::NoGpus));
                continue;
            }
            let seconds = "a number of seconds";
            let submit = table.number(created, |_| true, seconds)?;
            if table.is_null(scheduled) {
                note(NoticeKind::Dropped(Dropped::NeverStarted));
                continue;
            }
            let start = table.number(scheduled, |_| true, seconds)?;
            if table.is_null(deleted) {
                note(NoticeKind::Dropped(Dropped::StillRunning));
                continue;
            }
            let end = table.number(deleted, |_| true, seconds)?;
            if end < start {
                return Err(table.wrong(deleted, "a moment not before scheduled_time"));
            }
            let milli = table.number(gpu_milli, |x| x >= 0.0, "a number of at least 0")?;
            if gpus == 1 && milli > 0.0 && milli < 1000.0 {
                note(NoticeKind::PartOfGpu);
            }
            let amount = |column: Option<Column>, unit: f64| match table.optional(column) {
                Some((column, _)) => table
                    .number(column, |x| x >= 0.0, "a number of at least 0")
                    .map(|x| x / unit),
                None => Ok(0.0),
            };
            let mut extras = Extras {
                cpus: amount(self.cpus, 1000.0)?,
                memory_gib: amount(self.memory, 1024.0)?,
                ..Extras::default()
            };
            if let Some(spec) = self.spec
                && !table.is_null(spec)
            {
                let types = table.text(spec).split('|');
                extras.gpu_types = types.filter_map(|t| self.names.of_cell(t)).collect();
            }
            let mut job =
                JobSpec::new(Time::new(submit), GpuCount(gpus), Seconds::new(end - start))
                    .with_extras(extras);
            job.name = Some(Name::from(table.text(name))).filter(|n| !n.is_empty());
            return makes_sense(table.path(), table.line(), job, notices).map(Some);
        }
    }

    fn line(&self) -> u64 {
        self.table.line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::open::read_bytes;
    use blox_sim::workload::{Workload, collect};

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
                "asks for parts of GPUs: rounded up to whole ones (once, on line 4)",
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
            "pods.csv: line 2: deletion_time is `8`, expected a moment not before scheduled_time"
        );
    }
}
