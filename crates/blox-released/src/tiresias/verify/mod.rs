//! Cases of Tiresias' released simulator.

mod settings;
mod tally;

use crate::compared::{Case, Compared, VerifyError};
use crate::log::Log;
use crate::tiresias::InstantEndsAreLost;
use blox_core::SortedMap;
use blox_sim::Simulation;
use blox_sim::results::JobResult;
use blox_traces::{Format, open_file};
use settings::{Kind, Run, Settings};
use std::collections::BTreeSet;
use tally::Tally;

pub(crate) fn recognises(case: &Case) -> bool {
    case.has(&["num_gpu", "submit_time", "executed_time", "JCT", "promote"])
        || case.has(&["time", "1-GPU", "32-GPU"])
}

pub(crate) fn compare(case: &Case, out: &mut Compared) -> Result<(), VerifyError> {
    let settings = Settings::of(case)?;
    let Run {
        pipeline,
        cluster,
        completion,
        memory,
    } = settings.run(case)?;
    let mut jobs = open_file(&settings.trace, Some(Format::Tiresias))?;
    let mut sim = Simulation::new(cluster);
    if let Some(rule) = completion {
        sim = sim.completion(rule);
    }
    if matches!(settings.kind, Kind::Lasting | Kind::Demands) {
        sim = sim.execution(InstantEndsAreLost);
    }
    let tally = Log::<Tally>::default();
    let journal = Some(Box::new(tally.clone()) as _);
    let report = out.run(case, sim, pipeline, &mut jobs, journal)?;
    let (tally, memory) = (tally.take(), memory.take());
    if settings.kind == Kind::Demands {
        return compare_demands(case, &report.jobs, out);
    }
    let rows = Rows {
        case,
        settings: &settings,
        tally: &tally,
        memory: &memory,
    };
    rows.compare(&report.jobs, out)?;
    if settings.kind != Kind::Slices {
        compare_events(case, &settings, &tally, out)?;
    }
    Ok(())
}

/// Inputs for the comparison with the program's rows.
struct Rows<'a> {
    case: &'a Case,
    settings: &'a Settings,
    tally: &'a Tally,
    memory: &'a settings::Jobs,
}

impl Rows<'_> {
    fn compare(&self, jobs: &[JobResult], out: &mut Compared) -> Result<(), VerifyError> {
        let e = &self.case.expected;
        let id = e.column("job_id")?;
        let finished: SortedMap<&str, &JobResult> = jobs
            .iter()
            .filter(|j| j.finish.is_some())
            .filter_map(|j| Some((j.name.as_deref()?, j)))
            .collect();
        let mut seen = BTreeSet::new();
        for row in &e.rows {
            let what = format!("job {}", row[id]);
            let Some(job) = finished.get(row[id].as_str()) else {
                out.differ(&what, "end_time", &row[id], "no such job, or unfinished");
                continue;
            };
            seen.insert(row[id].as_str());
            out.numbers(&what, self.case, row, self.columns(job));
        }
        out.jobs = seen.len() as u64;
        let (all, ended, rows) = (jobs.len(), finished.len(), e.rows.len());
        if self.settings.crashed {
            // The fact that it writes nothing before it crashes is a result, too.
            if let Some(why) = self.settings.crash {
                out.values += 1;
                if rows > 0 {
                    out.differ("all jobs", "rows", &rows.to_string(), &format!("0: {why}"));
                }
            }
            out.notes.push(format!(
                "the original crashed after {rows} of {all} jobs, ours ends {ended}"
            ));
            return Ok(());
        }
        self.figures(&finished, out)?;
        out.values += 1;
        if seen.len() != ended {
            let extra = finished.keys().filter(|id| !seen.contains(*id));
            let extra: Vec<&str> = extra.copied().take(5).collect();
            let found = format!("{ended}, with {}", extra.join(", "));
            out.differ("all jobs", "rows", &rows.to_string(), &found);
        } else if ended < all {
            out.notes.push(format!(
                "the original leaves {} of {all} jobs unfinished, so does ours",
                all - ended
            ));
        }
        Ok(())
    }

    /// Compares figures over all rows.
    fn figures(
        &self,
        finished: &SortedMap<&str, &JobResult>,
        out: &mut Compared,
    ) -> Result<(), VerifyError> {
        let values = |name: &str| -> Vec<f64> {
            let of = |job: &&JobResult| {
                let columns = self.columns(job);
                let value = columns.into_iter().find(|(column, _)| *column == name);
                value.and_then(|(_, value)| value)
            };
            finished.values().filter_map(of).collect()
        };
        let ended = finished.len() as f64;
        let most = |name: &str| values(name).into_iter().fold(0.0, f64::max);
        let mut figures = vec![("jobs_completed", ended)];
        if !finished.is_empty() {
            figures.extend([
                ("avg_jct", values("JCT").iter().sum::<f64>() / ended),
                ("max_jct", most("JCT")),
                ("last_end", most("end_time")),
            ]);
        }
        if self.settings.kind == Kind::Preemptive {
            figures.push(("preemptions", values("preempt").iter().sum()));
        }
        out.figures(self.case, &figures)
    }

    fn columns(&self, job: &JobResult) -> Vec<(&'static str, Option<f64>)> {
        let counts = self.tally.of(job.job);
        let kept = self.memory.get(&job.job).copied().unwrap_or_default();
        let joined = kept.joined.map(|j| j.at);
        let (submit, end) = (job.submit.secs(), job.finish.map(|t| t.secs()));
        let start = joined.or(job.first_start).map(|t| t.secs());
        let pending = match kept.joined {
            // The program reports no wait for a job that finds a set at once, even if its slice
            // comes later.
            Some(joined) if !joined.waited => Some(0.0),
            Some(joined) => Some(joined.at.secs() - submit),
            None => Some(counts.pending),
        };
        let mut columns = vec![
            ("time", end),
            ("num_gpu", Some(f64::from(job.gpus))),
            ("submit_time", Some(submit)),
            ("start_time", start),
            ("end_time", end),
            ("executed_time", end.zip(start).map(|(e, s)| e - s)),
            ("JCT", end.map(|e| e - submit)),
            ("duration", Some(job.duration.secs())),
            ("pending_time", pending),
            ("promote", Some(f64::from(kept.promotions))),
        ];
        // The other schedules do not count stops and starts.
        if self.settings.kind == Kind::Preemptive {
            let blinks = f64::from(kept.blinks);
            columns.push(("preempt", Some(f64::from(counts.stops) + blinks)));
            columns.push(("resume", Some(f64::from(counts.starts) + blinks)));
        }
        columns
    }
}

/// Compares `gpu-demands`: requested GPUs by size over time, if every job started at once.
fn compare_demands(case: &Case, jobs: &[JobResult], out: &mut Compared) -> Result<(), VerifyError> {
    let mut changes: SortedMap<i64, SortedMap<u32, i64>> = SortedMap::new();
    for job in jobs {
        let (from, gpus) = (job.first_start.unwrap_or(job.submit), i64::from(job.gpus));
        let mut change = |at: f64, by| {
            *changes
                .entry(at as i64)
                .or_default()
                .entry(job.gpus)
                .or_default() += by;
        };
        change(from.secs(), gpus);
        if let Some(end) = job.finish {
            change(end.secs(), -gpus);
        }
    }
    let e = &case.expected;
    let time = e.column("time")?;
    let sizes = [1_u32, 2, 4, 8, 12, 16, 24, 32];
    let columns: Vec<(u32, String)> = sizes.map(|g| (g, format!("{g}-GPU"))).into();
    let mut active: SortedMap<u32, i64> = SortedMap::new();
    let mut ours = Vec::new();
    for (at, by_size) in changes {
        for (gpus, change) in by_size {
            *active.entry(gpus).or_default() += change;
        }
        ours.push((at, active.clone()));
    }
    out.jobs = jobs.len() as u64;
    out.values += 1;
    if ours.len() != e.rows.len() {
        let (expected, found) = (e.rows.len().to_string(), ours.len().to_string());
        out.differ("the curve", "rows", &expected, &found);
    }
    for (row, (at, active)) in e.rows.iter().zip(&ours) {
        let what = format!("at {at} s");
        out.number(&what, "time", &row[time], Some(*at as f64));
        for (gpus, name) in &columns {
            let c = e.column(name)?;
            let found = active.get(gpus).copied().unwrap_or(0);
            out.number(&what, name, &row[c], Some(found as f64));
        }
    }
    Ok(())
}

/// Compares the numbers of waiting, running and ended jobs after each pass, if the case has them.
fn compare_events(
    case: &Case,
    settings: &Settings,
    tally: &Tally,
    out: &mut Compared,
) -> Result<(), VerifyError> {
    let Some(table) = case.table("cluster_events.csv")? else {
        return Ok(());
    };
    let time = table.column("time")?;
    let names = ["pending_job", "running_job", "completed_job"];
    let columns = table.columns(names)?;
    for (r, row) in table.rows.iter().enumerate() {
        let at = table.number(r, time)?;
        let next = table.rows.get(r + 1).map(|next| &next[time]);
        if next == Some(&row[time]) {
            // If several passes have the same time, the last one counts.
            continue;
        }
        let counts = settings.as_logged(tally.counts_at(at));
        for ((name, c), found) in names.iter().zip(columns).zip(counts) {
            let Some(found) = found else { continue };
            out.number(&format!("at {at} s"), name, &row[c], Some(f64::from(found)));
        }
    }
    Ok(())
}
