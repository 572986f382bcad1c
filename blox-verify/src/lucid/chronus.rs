//! Cases of Chronus' own artifact: the path without a solver row by row.

use super::super::{Case, Compared, VerifyError, number_of};
use super::{failed, option, unreadable, words};
use blox_core::{ClusterSpec, ServiceClass};
use blox_schedulers::compat::lucid as compat;
use blox_sim::Simulation;
use blox_sim::compat::lucid as files;
use blox_sim::workload::Jobs;
use std::collections::BTreeMap;

pub(super) fn recognises(case: &Case) -> bool {
    let columns = [
        "gt_miss_ddl",
        "queue_priority",
        "expect_value_list",
        "best_effort",
    ];
    columns.iter().all(|c| case.expected.has(c)) && case.summary.get("time_unit").is_some()
}

pub(super) fn compare(
    case: &Case,
    system: &'static str,
    every_round: bool,
) -> Result<Compared, VerifyError> {
    let words = words(case);
    let whole = |name: &str, said: Option<&str>, summary: &str| {
        let said = said.and_then(|v| v.parse::<u32>().ok());
        let said = said.or_else(|| case.number(summary).map(|x| x as u32));
        said.filter(|x| *x > 0).ok_or_else(|| {
            let what = format!("{name} is missing, expected a whole number above 0");
            case.bad("summary.json", what)
        })
    };
    let lease = option(&words, ["--lease_term_interval", "--lease-term-interval"]);
    let lease = whole(
        "lease_term_interval",
        lease.or(Some("20")),
        "lease_term_interval",
    )?;
    let gpus = whole("gpus", None, "gpus")?;
    let mut out = Compared::of(case, system);
    let solved = words.iter().any(|w| w.starts_with("(MIPSOLVER"))
        || case.number("mip_calls").is_some_and(|calls| calls > 0.0);
    if solved {
        let what = "the case was planned by a mixed-integer solver, whose choice among equal optima \
             is not determined; only the greedy path can be compared row by row";
        return Err(case.bad("summary.json", what));
    }
    let path = case.input("trace.csv")?;
    let jobs = files::read_chronus_trace(&path).map_err(|e| unreadable(case, e))?;
    if let Some(job) = jobs.iter().find(|j| j.gpus.get() > gpus) {
        let name = job.name.as_deref().unwrap_or_default();
        let what = format!(
            "job {name} asks for {} of {gpus} GPUs: it never ends",
            job.gpus
        );
        return Err(VerifyError::Bad { path, what });
    }
    let mut scheduler = compat::chronus(gpus, lease);
    Simulation::new(ClusterSpec::uniform(gpus.div_ceil(8) as usize, 8))
        .completion(compat::ByScheduler)
        .visiting_every_round(every_round)
        .run_by(&mut scheduler, &mut Jobs::new(jobs.clone()), None)
        .map_err(|e| failed(case, e))?;
    let records = compat::chronus_records(&scheduler);
    let by_job: BTreeMap<u32, &compat::ChronusRecord> =
        records.iter().map(|r| (r.job, r)).collect();
    let by_name: BTreeMap<&str, usize> = jobs
        .iter()
        .enumerate()
        .map(|(i, j)| (j.name.as_deref().unwrap_or_default(), i))
        .collect();
    let e = &case.expected;
    let id = e.column("job_id")?;
    for row in &e.rows {
        let what = format!("job {}", row[id]);
        let Some(&at) = by_name.get(&*row[id]) else {
            out.differ(&what, "job_id", &row[id], "no such job");
            continue;
        };
        out.jobs += 1;
        let (job, record) = (&jobs[at], by_job.get(&(at as u32)));
        let submit = job.submit.secs() / 60.0;
        let deadlines = &job.extras().deadlines;
        let lazy = job.extras().class == ServiceClass::BestEffort;
        let within = |d: &blox_core::Deadline| d.at.secs() / 60.0 - submit;
        let missed = |r: &compat::ChronusRecord| {
            let met = deadlines.iter().find(|d| r.end - submit <= within(d));
            match met {
                _ if lazy => 0.0,
                Some(d) => 1.0 - d.value / 10.0,
                None => 1.0,
            }
        };
        let late = |r: &compat::ChronusRecord| {
            let first = deadlines
                .first()
                .is_some_and(|d| r.end - submit > within(d));
            f64::from(u8::from(first && !lazy))
        };
        type Column<'a> = (&'a str, &'a dyn Fn(&compat::ChronusRecord) -> f64);
        let columns: [Column<'_>; 11] = [
            ("end_time", &|r| r.end),
            ("jct", &|r| r.end - submit),
            ("pending_time", &|r| r.pending),
            ("total_executed_time", &|r| r.executed),
            ("progress", &|r| r.progress),
            ("preempt", &|r| f64::from(r.preempted)),
            ("resume", &|r| f64::from(r.resumed)),
            ("expect_time", &|r| r.expect),
            ("queue_priority", &|r| f64::from(r.priority)),
            ("miss_ddl", &missed),
            ("gt_miss_ddl", &late),
        ];
        for (column, value) in columns {
            if let Ok(c) = e.column(column) {
                out.number(&what, column, &row[c], record.map(|r| value(r)));
            }
        }
    }
    if e.rows.len() != jobs.len() {
        let expected = number_of(e.rows.len(), "row");
        let found = number_of(jobs.len(), "job");
        out.differ("all jobs", "job_id", &expected, &found);
    }
    Ok(out)
}
