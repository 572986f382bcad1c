//! Cases of Blox's released simulator.

use crate::blox::{self, OptimusSpeed};
use crate::compared::{Case, Compared, VerifyError};
use blox_core::{ClusterSpec, Pipeline, Rounds, Seconds, SortedMap};
use blox_policies::admission::LoadThreshold;
use blox_results::Summary;
use blox_sim::results::JobResult;
use blox_sim::workload::whole_ids;
use blox_sim::{Measure, Report, Simulation};
use blox_traces::{Format, open_file};
use std::collections::BTreeMap;

pub(crate) fn recognises(case: &Case) -> bool {
    let settings = ["load_jobs_per_hour", "tracked_ids"];
    case.has(&["first_launch_s", "first_metric_s", "responsiveness_s"])
        || settings.iter().all(|s| case.summary.get(s).is_some())
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let settings = Settings::of(case)?;
    let path = case.input("jobs.csv")?;
    let jobs = || open_file(&path, Some(Format::BloxJobs));
    let ids = whole_ids(&mut jobs()?)?;
    let (first, last) = settings.tracked;
    let measure = match &ids {
        Some(ids) => Measure::of_ids(ids, first..=last),
        None => Measure::Ids(
            first.try_into().unwrap_or(u32::MAX),
            last.try_into().unwrap_or(u32::MAX),
        ),
    };
    let mut jobs = jobs()?;
    let mut sim = Simulation::new(settings.cluster.clone())
        .measure(measure)
        .keep_rounds(true);
    if let Some(speed) = settings.speed {
        sim = sim.execution(speed);
    }
    let report = out.run(case, sim, settings.scheduler, &mut jobs, None)?;
    compare_jobs(case, &report, ids.as_deref(), settings.round, out)?;
    compare_rounds(case, &report, out)?;
    let responsiveness = Summary::of(&report).avg_responsiveness_s + settings.round;
    let figures = [
        ("rounds", Summary::of(&report).rounds as f64),
        ("avg_jct_s", Summary::of(&report).avg_jct_s),
        ("avg_responsiveness_s", responsiveness),
        ("makespan_s", report.end.secs()),
    ];
    out.figures(case, &figures)
}

type Compose = fn() -> Pipeline;

struct Settings {
    scheduler: Pipeline,
    speed: Option<OptimusSpeed>,
    cluster: ClusterSpec,
    round: f64,
    tracked: (u64, u64),
}

impl Settings {
    fn of(case: &Case) -> Result<Self, VerifyError> {
        let bad = |what: String| case.bad("summary.json", what);
        let schedulers: [(&str, Compose); 5] = [
            ("Fifo", blox::fifo),
            ("Las", blox::las),
            ("Srtf", blox::srtf),
            ("Tiresias", blox::tiresias),
            ("Optimus", blox::optimus),
        ];
        let name = case.text("scheduler")?;
        let scheduler = case.choice("scheduler", name, &schedulers)?();
        let load = case.number("load_jobs_per_hour")?;
        let optimus = name.eq_ignore_ascii_case("Optimus");
        let speed = load.and_then(OptimusSpeed::at_load).filter(|_| optimus);
        if optimus && speed.is_none() {
            let load = load.map_or("missing".to_owned(), |l| l.to_string());
            let expected = "a whole number from 1 to 9 with Optimus";
            return Err(case.wrong("load_jobs_per_hour", load, expected));
        }
        let round = case.number("round_duration_s")?.unwrap_or(300.0);
        let rounds = Rounds::every(Seconds::new(round));
        let rounds = rounds.ok_or_else(|| case.wrong("round_duration_s", round, "above 0"))?;
        let mut scheduler = scheduler.with_trigger(rounds);
        let admission = case.text("admission").unwrap_or("AcceptAll");
        if let Some(threshold) = threshold(admission) {
            let policy = LoadThreshold::new(threshold);
            let policy = policy.ok_or_else(|| {
                let expected = "expected a number above 0";
                bad(format!(
                    "parameter `threshold` is `{threshold}`, {expected}"
                ))
            })?;
            scheduler = scheduler.with_admission(policy).expect(crate::ONCE);
        } else if !admission.to_ascii_lowercase().starts_with("accept") {
            return Err(case.wrong("admission", admission, "AcceptAll or LoadBased 1.2x"));
        }
        let text = case.text("cluster")?;
        let mut numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|n| n.parse::<u32>().ok());
        let cluster = match (numbers.next(), numbers.next()) {
            (Some(nodes), Some(gpus)) if nodes > 0 && gpus > 0 => {
                ClusterSpec::uniform(nodes as usize, gpus)
            }
            _ => return Err(case.wrong("cluster", text, "for instance `32 machines x 4 GPUs`")),
        };
        let tracked = match case.summary.get("tracked_ids").filter(|v| !v.is_null()) {
            None => tracked_rows(case)?,
            Some(ids) => {
                let id = |i: usize| ids.get(i)?.as_u64();
                let both = id(0).zip(id(1));
                both.ok_or_else(|| case.wrong("tracked_ids", ids, "a list of two numbers"))?
            }
        };
        Ok(Settings {
            scheduler,
            speed,
            cluster,
            round,
            tracked,
        })
    }
}

/// Returns the number in `LoadBased 1.2x` or `Accept-1.2x`, or `None` if all jobs are accepted.
fn threshold(admission: &str) -> Option<f64> {
    admission
        .split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .find_map(|n| n.parse().ok())
}

fn tracked_rows(case: &Case) -> Result<(u64, u64), VerifyError> {
    let ids: Vec<u64> = case
        .numbers("job_id")?
        .iter()
        .map(|id| *id as u64)
        .collect();
    let range = ids.iter().min().zip(ids.iter().max());
    let range = range.map(|(first, last)| (*first, *last));
    range.ok_or_else(|| case.bad("summary.json", "`tracked_ids` is missing"))
}

/// Compares jobs. They are identified by `ids`, or by their numbers if there are none.
fn compare_jobs(
    case: &Case,
    report: &Report,
    ids: Option<&[u64]>,
    round: f64,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let id_of = |j: &JobResult| ids.and_then(|ids| ids.get(j.job.index()).copied());
    let measured = report.jobs.iter().filter(|j| j.measured);
    let mut ours: BTreeMap<String, &JobResult> = measured
        .map(|j| (id_of(j).unwrap_or(j.job.0.into()).to_string(), j))
        .collect();
    let e = &case.expected;
    // Without these columns, the essential results of a case would not be compared.
    e.columns(["job_id", "submit_s", "first_launch_s", "finish_s"])?;
    let status = e.column("status").ok();
    let find = |id: &str| ours.remove(id);
    out.rows(case, "job_id", find, |out, what, row, j| {
        let launch = j.first_start.map(|t| t.secs());
        let columns = [
            ("submit_s", Some(j.submit.secs())),
            ("first_launch_s", launch),
            // The original records a launch at the next collection of metrics.
            ("first_metric_s", launch.map(|t| t + round)),
            ("finish_s", j.finish.map(|t| t.secs())),
            ("jct_s", j.jct().map(|t| t.secs())),
            (
                "responsiveness_s",
                launch.map(|t| t + round - j.submit.secs()),
            ),
            ("gpus", Some(f64::from(j.gpus))),
            ("duration_s", Some(j.duration.secs())),
        ];
        out.numbers(what, case, row, columns);
        if let Some(c) = status {
            let ended = j.finish.is_some();
            let found = if ended { "finished" } else { "unfinished" };
            let equal = (row[c] == "finished") == ended;
            out.text(what, "status", if equal { found } else { &row[c] }, found);
        }
    })?;
    for job in ours.keys() {
        out.differ(&format!("job {job}"), "job_id", "no row", "a job");
    }
    Ok(())
}

/// Compares preemptions by round. The original writes its files before the placement of the last
/// round.
fn compare_rounds(case: &Case, report: &Report, out: &mut Compared) -> Result<(), VerifyError> {
    let end = report.end.secs() as i64;
    let found: SortedMap<i64, f64> = report
        .rounds
        .iter()
        .filter(|r| r.preemptions > 0)
        .map(|r| (r.at.secs() as i64, f64::from(r.preemptions)))
        .filter(|(t, _)| *t < end)
        .collect();
    out.figures(case, &[("total_preemptions", found.values().sum())])?;
    let Some(table) = case.table("preemptions_per_round.csv")? else {
        let note = "preemptions were not compared by round: there is no preemptions_per_round.csv";
        out.notes.push(note.to_owned());
        return Ok(());
    };
    let [time, count] = table.columns(["time_s", "num_preemptions"])?;
    let mut expected = SortedMap::new();
    for r in 0..table.rows.len() {
        let n = table.number(r, count)?;
        if n != 0.0 {
            let at = table.number(r, time)? as i64;
            if expected.insert(at, n).is_some() {
                let expected = "another than on a line above";
                return Err(table.wrong(r, time, expected).into());
            }
        }
    }
    let rounds: std::collections::BTreeSet<i64> =
        expected.keys().chain(found.keys()).copied().collect();
    for t in rounds {
        let (e, f) = (expected.get(&t), found.get(&t));
        out.values += 1;
        if e != f {
            let text = |v: Option<&f64>| v.copied().unwrap_or(0.0).to_string();
            out.differ(
                &format!("round at {t} s"),
                "num_preemptions",
                &text(e),
                &text(f),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::threshold;

    #[test]
    fn admission_is_read_from_its_name() {
        assert_eq!(threshold("AcceptAll"), None);
        assert_eq!(threshold("LoadBased 1.2x"), Some(1.2));
        assert_eq!(threshold("Accept-1.5x"), Some(1.5));
    }
}
