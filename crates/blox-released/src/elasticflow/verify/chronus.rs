//! Cases of Chronus on its greedy path, as no commercial solver was available.

use super::whole;
use crate::compared::{Case, Compared, VerifyError};
use crate::elasticflow::{self, Algorithm};
use crate::lucid::files::read_chronus_trace;
use blox_core::SortedMap;
use blox_traces::scaling::ScalingTable;
use std::sync::atomic::AtomicBool;

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["total_executed_time", "gt_miss_ddl", "queue_priority"])
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let options = case.options()?;
    let number = |name, otherwise| whole(case, &options, name, otherwise);
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
    let mut jobs = read_chronus_trace(case.input(trace)?, 1.0)?;
    for job in &mut jobs {
        Algorithm::Chronus.profile(job, &ScalingTable::default(), "");
    }
    let outcome = Algorithm::Chronus.run(shape, times, &jobs, &AtomicBool::new(false));
    let rows = outcome.unwrap_or_default().rows;
    let name_of = |r: &elasticflow::ChronusRecord| jobs[r.job as usize].name.as_deref();
    let by_name: SortedMap<&str, _> = rows.iter().filter_map(|r| Some((name_of(r)?, r))).collect();
    out.notes.push("compared job by job, exactly: waiting and executed time, progress, end, preemptions, resumptions, expected time, final priority; the deadline ratio; where a job runs changes none of them".to_owned());
    let find = |id: &str| by_name.get(id);
    out.rows(case, "job_id", find, |out, what, expected, row| {
        let columns = row.columns().map(|(column, found)| (column, Some(found)));
        out.numbers(what, case, expected, columns);
    })?;
    out.count("job_id", case, rows.len());
    let met = rows
        .iter()
        .filter(|r| r.end - jobs[r.job as usize].submit.secs() <= r.expect);
    let ratio = met.count() as f64 / jobs.len().max(1) as f64;
    let recorded = case.text("final").ok().and_then(|t| t.split(',').nth(1));
    if let Some(expected) = recorded {
        out.number("summary", "ddl_satis_ratio", expected, Some(ratio));
    }
    Ok(())
}
