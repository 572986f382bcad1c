use crate::rows::{NoJob, Opened, SharedNames, all, jobs, sensible};
use crate::source::Source;
use crate::table::{Column, Table};
use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
use blox_sim::workload::{Notices, WorkloadError};
use serde::Deserialize;
use std::path::Path;

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
    let table = super::open_table(source)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{FileWorkload, Format};
    use blox_sim::workload::{Workload, collect};

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
            ["unknown column `note`: ignored (once, on line 1)"]
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
            "jobs.csv: line 2: num_gpu is `0`, expected a whole number of at least 1"
        );
        assert_eq!(
            error("job_id,num_gpu,duration\n0,1,1\n"),
            "jobs.csv: line 1: the column submit_time is missing, found the columns job_id, num_gpu, duration"
        );
    }
}
