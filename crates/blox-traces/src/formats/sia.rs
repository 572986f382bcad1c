//! Workloads of Sia's and Pollux' simulators, `sia`.
//!
//! | column | meaning |
//! |---|---|
//! | `name` | the job |
//! | `time` | submission, in seconds |
//! | `application` | the application to train |
//! | `num_replicas` | GPUs that a user would request |
//! | `batch_size` | batch size that a user would request |
//! | `category` | `adaptive` (the default), `scale-gpus` or `rigid` |
//!
//! The application determines the work and speed of a job: the built-in application of that name
//! ([`built_in`]), unless other tables are given.

use crate::cell::values;
use crate::rows::{NoJob, Opened, jobs, sensible};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::suggest::one_of;
use blox_core::{Adapts, Extras, GpuCount, JobSpec, Seconds, Time};
use blox_perf::applications::{Applications, built_in};
use blox_workloads::Notices;
use serde::Deserialize;
use std::num::NonZeroU32;

/// A row of the file.
#[derive(Deserialize)]
struct Row {
    name: Column,
    time: Column<Time>,
    application: Column,
    num_replicas: Column<GpuCount>,
    batch_size: Column<NonZeroU32>,
    category: Option<Column<Adapts>>,
}

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind(&[], notices)?;
    let (mut models, applications) = (SharedNames::default(), built_in());
    let job = move |t: &Table, _: &mut _| job(t, &row, &mut models, &applications);
    jobs(table, sensible, job)
}

values! {
    Adapts: "adaptive, scale-gpus or rigid", |t| match t {
        "adaptive" => Some(Adapts::All),
        "scale-gpus" => Some(Adapts::Gpus),
        "rigid" => Some(Adapts::Nothing),
        _ => None,
    };
}

fn job(
    t: &Table,
    row: &Row,
    models: &mut SharedNames,
    applications: &Applications,
) -> Result<JobSpec, NoJob> {
    let (submit, gpus) = (t.get(row.time)?, t.get(row.num_replicas)?);
    let batch = t.get(row.batch_size)?.get();
    let adapts = t.value(row.category)?;
    let application = t.text(row.application);
    let mut job = JobSpec::new(submit, gpus, Seconds::new(1.0)).with_extras(Extras {
        model: Some(models.get(application)),
        batch_size: Some(batch),
        ..Extras::default()
    });
    job.name = t.own_name(row.name);
    if !applications.describe(&mut job, adapts.unwrap_or(Adapts::All)) {
        let names = applications.iter().map(|(n, _)| n.as_str());
        return Err(t.wrong(row.application, &one_of(application, names)).into());
    }
    Ok(job)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
name,time,application,num_replicas,batch_size,category
a,107.5,cifar10,6,2048,
b,110,bert,2,48,rigid
c,130.25,imagenet,1,200,scale-gpus
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::read_bytes;
    use crate::{FileWorkload, Format};
    use blox_workloads::WorkloadError;
    use blox_workloads::collect;

    fn read(text: &str) -> Result<FileWorkload, WorkloadError> {
        read_bytes("w.csv", text.as_bytes(), Format::Sia)
    }

    #[test]
    fn rows_are_training_jobs() {
        let text = "name,time,application,num_replicas,batch_size,category\n\
                    a,107.5,cifar10,6,2048,\n\
                    b,110,bert,2,48,rigid\n";
        let jobs = collect(&mut read(text).unwrap()).unwrap();
        assert_eq!(jobs[0].submit, Time::new(107.5));
        assert_eq!(jobs[0].gpus, GpuCount(6));
        let training = jobs[0].extras().training.as_ref().unwrap();
        assert_eq!((training.initial_batch, training.max_batch), (128, 4096));
        assert_eq!(training.adapts, Adapts::All);
        assert_eq!(training.restart, Seconds::new(50.0));
        let other = jobs[1].extras().training.as_ref().unwrap();
        assert_eq!(other.adapts, Adapts::Nothing);
        assert_eq!(jobs[1].work.iterations, 14774.0);
    }

    #[test]
    fn what_is_not_known_is_named() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(
            error("name,time,application,num_replicas,batch_size\na,0,vgg,1,8\n"),
            "w.csv:2: application is `vgg`, expected one of bert, cifar10, deepspeech2, gpt_pmp, imagenet, ncf, yolov3"
        );
        assert_eq!(
            error("name,time,application,num_replicas,batch_size,category\na,0,bert,1,12,odd\n"),
            "w.csv:2: category is `odd`, expected adaptive, scale-gpus or rigid"
        );
    }
}
