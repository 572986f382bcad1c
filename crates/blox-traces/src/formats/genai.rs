//! Requests of Alibaba's image generation service (`cluster-trace-v2026-GenAI`, SoCC 2025):
//! `lora_request_trace.csv`.
//!
//! | column | meaning |
//! |---|---|
//! | `gmt_create` | date of the request |
//! | `exec_time_seconds` | seconds of its execution |
//! | `predict_status` | `SUCCEED` or `FAILED`; other requests have not ended |
//! | `groupId` | the user |
//! | `checkpoint_model_version_id` | the base model |
//! | `predict_type`, `num_lora`, `num_inference_steps`, `num_images_per_prompt` | attributes of these names |
//!
//! A job is a request on one GPU. The earliest job is submitted at 0. Lengths of prompts are left out.
//!
//! Dropped, with a notice: requests that have not ended.

use crate::cell::Date;
use crate::rows::{NoJob, Opened, jobs, makes_sense};
use crate::source::Source;
use crate::table::{Column, SharedNames, Table};
use blox_core::{Extras, GpuCount, JobSpec, Seconds, Time};
use blox_workloads::{Dropped, Notices};
use serde::Deserialize;

/// A request.
#[derive(Deserialize)]
struct Row {
    gmt_create: Column<Date>,
    exec_time_seconds: Column<Seconds>,
    predict_status: Column,
    #[serde(rename = "groupId")]
    group: Option<Column>,
    checkpoint_model_version_id: Option<Column>,
    predict_type: Option<Column>,
    num_lora: Option<Column>,
    num_inference_steps: Option<Column>,
    num_images_per_prompt: Option<Column>,
}

const LEFT_OUT: [&str; 2] = ["prompt_length", "negative_prompt_length"];

pub(crate) fn open_rows(source: &Source, notices: &mut Notices) -> Opened {
    let table = Table::open(source)?;
    let row: Row = table.bind(&LEFT_OUT, notices)?;
    let mut names = SharedNames::default();
    jobs(table, makes_sense, move |t, _| job(t, &row, &mut names))
}

fn job(t: &Table, row: &Row, names: &mut SharedNames) -> Result<JobSpec, NoJob> {
    if !["SUCCEED", "FAILED"].contains(&t.text(row.predict_status)) {
        return Err(Dropped::StillRunning.into());
    }
    let submit = Time::new(t.get(row.gmt_create)?.0);
    let mut extras = Extras {
        model: names.at(t, row.checkpoint_model_version_id),
        ..Extras::default()
    };
    let filled = |column: &Column| !t.is_null(*column);
    if let Some(kind) = row.predict_type.filter(filled) {
        extras
            .attributes
            .insert(t.name(kind).into(), t.text(kind).into());
    }
    let numbers = [
        row.num_lora,
        row.num_inference_steps,
        row.num_images_per_prompt,
    ];
    for column in numbers.into_iter().flatten().filter(filled) {
        let value = t.number(column, |_| true, "a number")?.into();
        extras.attributes.insert(t.name(column).into(), value);
    }
    let duration = t.get(row.exec_time_seconds)?;
    let mut job = JobSpec::new(submit, GpuCount(1), duration).with_extras(extras);
    job.user = names.at(t, row.group);
    Ok(job)
}

/// A small input, with which tests try the reader.
pub(super) const EXAMPLE: &str = "\
gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,negative_prompt_length,num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora
2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G0000,63.0,26.0,1.0,30.0,M0000,0
2024-11-15 18:16:14,IMG_2_IMG,FAILED,43.0,G0001,93.0,,8.0,40.0,M0001,2
2024-11-15 18:17:06,TXT_2_IMG,PENDING,36.0,G0001,93.0,,8.0,40.0,M0001,0
";

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::open::read_bytes;
    use blox_workloads::{Workload, collect};

    #[test]
    fn requests_that_ended_are_jobs_of_one_gpu() {
        let text = "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,negative_prompt_length,num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora\n\
                    2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G0000,63.0,26.0,1.0,30.0,M0000,0\n\
                    2024-11-15 18:16:14,TXT_2_IMG,FAILED,43.0,G0001,93.0,,8.0,40.0,M0001,2\n\
                    2024-11-15 18:17:06,IMG_2_IMG,PROCESSING,21.0,G0001,93.0,,8.0,40.0,M0001,0\n";
        let mut workload = read_bytes("r.csv", text.as_bytes(), Format::Genai).unwrap();
        let notices: Vec<_> = workload.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            ["dropped: had not ended when the log was taken (once, on line 4)"]
        );
        let jobs = collect(&mut workload).unwrap();
        let found: Vec<_> = jobs
            .iter()
            .map(|j| (j.submit.secs(), j.gpus.get(), j.duration().secs()))
            .collect();
        assert_eq!(found, [(0.0, 1, 32.0), (4704.0, 1, 43.0)]);
        assert_eq!(jobs[0].user.as_deref(), Some("G0000"));
        assert_eq!(jobs[1].extras().model.as_deref(), Some("M0001"));
        assert_eq!(jobs[1].extras().attributes["num_lora"], 2.0);
        assert_eq!(jobs[1].extras().attributes["predict_type"], "TXT_2_IMG");
    }
}
