//! Cases of Chronus on its greedy path, as no commercial solver was available.

use crate::compared::{Case, Compared, VerifyError};
use crate::elasticflow::{self, files};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["total_executed_time", "gt_miss_ddl", "queue_priority"])
}

pub(crate) fn compare(case: &Case, _: bool, out: &mut Compared) -> Result<(), VerifyError> {
    let options = case.options()?;
    let number = |name: &str, otherwise: Option<f64>| {
        let found = options.get(name).map(|v| v.parse::<f64>().ok());
        match (found, otherwise) {
            (Some(Some(v)), _) if v > 0.0 && v.fract() == 0.0 => Ok(v),
            (None, Some(v)) => Ok(v),
            _ => {
                let found = options.get(name).map_or("missing", String::as_str);
                let what = format!("{name} is {found}, expected a whole number above 0");
                Err(case.bad("options.txt", what))
            }
        }
    };
    let shape = elasticflow::Shape {
        switches: number("num_switch", Some(1.0))? as u32,
        nodes_per_switch: number("num_node_p_switch", None)? as u32,
        gpus_per_node: number("num_gpu_p_node", None)? as u32,
    };
    let times = elasticflow::Times {
        check: number("check_time_interval", None)?,
        lease: number("lease_term_interval", None)?,
        pass: number("BEST_SLOT", Some(240.0))?,
    };
    let trace = options
        .get("trace")
        .map_or("chronus_trace.csv", String::as_str);
    let trace = trace.rsplit('/').next().unwrap_or_default();
    let jobs = files::read_chronus_trace(case.input(trace)?).map_err(|e| case.failed(e))?;
    let mut numbered: Vec<_> = jobs.into_iter().enumerate().collect();
    numbered.sort_by_key(|(_, job)| job.submit);
    let (rows_of, jobs): (Vec<usize>, Vec<_>) = numbered.into_iter().unzip();
    let outcome = elasticflow::chronus(shape, times, &jobs, &AtomicBool::new(false));
    let rows = outcome.unwrap_or_default().rows;
    let by_row: BTreeMap<usize, &elasticflow::ChronusRecord> =
        rows.iter().map(|r| (rows_of[r.job as usize], r)).collect();
    out.notes.push("compared job by job, exactly: waiting and executed time, progress, end, preemptions, resumptions, expected time, final priority; the deadline ratio; where a job runs changes none of them".to_owned());
    let e = &case.expected;
    let id = e.column("job_id")?;
    for (r, expected) in e.rows.iter().enumerate() {
        let what = format!("job {}", expected[id]);
        let Some(row) = by_row.get(&(e.number(r, id)? as usize)) else {
            out.differ(&what, "job_id", &expected[id], "no such job has ended");
            continue;
        };
        out.jobs += 1;
        let columns = [
            ("pending_time", row.pending),
            ("total_executed_time", row.executed),
            ("progress", row.executed),
            ("end_time", row.end),
            ("preempt", f64::from(row.preempted)),
            ("resume", f64::from(row.resumed)),
            ("expect_time", row.expect),
            ("queue_priority", f64::from(row.priority)),
        ];
        let columns = columns.map(|(column, found)| (column, Some(found)));
        out.numbers(&what, case, expected, columns);
    }
    out.count("job_id", case, rows.len());
    let met = rows
        .iter()
        .filter(|r| r.end - jobs[r.job as usize].submit.secs() <= r.expect);
    let ratio = met.count() as f64 / jobs.len().max(1) as f64;
    let said = case.text("final").ok().and_then(|t| t.split(',').nth(1));
    if let Some(expected) = said {
        out.number("summary", "ddl_satis_ratio", expected, Some(ratio));
    }
    Ok(())
}
