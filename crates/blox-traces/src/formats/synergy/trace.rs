//! Jobs to replay: `job_id,model,arrival_s,total_iterations,gpus`, without a header.

use super::profiles::{Model, Profiles};
use crate::cell::fields;
use crate::rows::{NoJob, Opened, all, jobs, sensible};
use crate::source::Source;
use crate::table::{Column, Layout, Table};
use blox_core::SortedMap;
use blox_core::suggest::one_of;
use blox_core::{Extras, GpuCount, JobId, JobSpec, Name, Seconds, Time, Work};
use blox_workloads::{Notices, WorkloadError};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A job. The file has these columns and no header.
#[derive(Deserialize)]
struct Row {
    job_id: Column,
    model: Column,
    arrival_s: Column<Time>,
    total_iterations: Column<u32>,
    gpus: Column<GpuCount>,
}

/// The jobs of a trace, as the original simulator replays them.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// The jobs in order of arrival.
    pub jobs: Vec<JobSpec>,
    /// Arrival time of each job, in file order. The file order breaks ties between equal arrival
    /// times.
    pub arrivals: Vec<(JobId, Time)>,
    /// Notices about the file.
    pub notices: Notices,
}

/// Reads jobs, plain or gzip: lines of `job_id,model,arrival_s,total_iterations,gpus`.
///
/// A job requests its best-case demand of CPUs and memory (GB are read as GiB), with which it does
/// `speedup` iterations every `iter_time` seconds. It carries its sensitivity. The values of its
/// profile become the attributes `iteration_s`, `speedup`, `cpus_per_gpu`, `memory_gb_per_gpu`,
/// `storage_mb_s_per_gpu` and `placement_penalty`.
///
/// # Errors
/// If the file cannot be read, a line is not a valid job, or a model has no profile.
pub fn read_trace(path: impl AsRef<Path>, profiles: &Profiles) -> Result<Replay, WorkloadError> {
    read(&Source::at(path.as_ref())?, profiles)
}

/// Returns the path of the profiles for a trace.
pub(crate) fn profiles_of(source: &Source) -> Option<PathBuf> {
    source.nearest(&["profiles.json"])
}

/// Opens a trace with the `profiles.json` in its folder, or the nearest folder above it.
pub(crate) fn open_rows(source: &Source, _: &mut Notices) -> Opened {
    let Some(found) = profiles_of(source) else {
        let what = "a synergy trace, expected a `profiles.json` in its folder or one above";
        return Err(WorkloadError::line(source.path(), 1, what));
    };
    rows(source, Profiles::read(found)?)
}

fn read(source: &Source, profiles: &Profiles) -> Result<Replay, WorkloadError> {
    let mut notices = Notices::default();
    let rows = all(&mut *rows(source, profiles.clone())?, &mut notices)?;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row| rows[*row].submit);
    let mut arrivals = vec![(JobId(0), Time::ZERO); rows.len()];
    for (job, &row) in (0..).zip(&order) {
        arrivals[row] = (JobId(job), rows[row].submit);
    }
    Ok(Replay {
        jobs: order.iter().map(|row| rows[*row].clone()).collect(),
        arrivals,
        notices,
    })
}

fn rows(source: &Source, profiles: Profiles) -> Opened {
    let layout = Layout {
        columns: fields::<Row>(),
        ..Layout::CSV
    };
    let table = Table::open_as(source, layout)?;
    let row: Row = table.bind_as(|name| name)?;
    jobs(table, sensible, move |t, _| job(t, &row, &profiles))
}

fn job(t: &Table, row: &Row, profiles: &Profiles) -> Result<JobSpec, NoJob> {
    let arrival = t.get(row.arrival_s)?;
    let iterations = f64::from(t.get(row.total_iterations)?);
    let gpus = t.get(row.gpus)?;
    if !matches!(gpus.get(), 1 | 2 | 4 | 8 | 16) {
        return Err(t.wrong(row.gpus, "1, 2, 4, 8 or 16").into());
    }
    let name = t.text(row.job_id).trim();
    if name.parse::<u64>().is_err() {
        return Err(t.wrong(row.job_id, "a whole number of at least 0").into());
    }
    let found = t.text(row.model).trim();
    let Some(profile) = profiles.get(found) else {
        return Err(t.wrong(row.model, &one_of(found, profiles.names())).into());
    };
    let mut job = JobSpec::new(arrival, gpus, Seconds::ZERO).named(name);
    job.work = Work {
        iterations,
        rate: profile.speedup / profile.iteration_s,
    };
    Ok(job.with_extras(Extras {
        model: Some(Name::from(found)),
        cpus: profile.cpus * f64::from(gpus.get()),
        memory_gib: profile.memory_gb * f64::from(gpus.get()),
        sensitivity: profile.sensitivity.clone(),
        attributes: attributes(profile),
        ..Extras::default()
    }))
}

fn attributes(m: &Model) -> SortedMap<Name, serde_json::Value> {
    [
        ("iteration_s", m.iteration_s),
        ("speedup", m.speedup),
        ("cpus_per_gpu", m.cpus),
        ("memory_gb_per_gpu", m.memory_gb),
        ("storage_mb_s_per_gpu", m.storage_mb_s),
        ("placement_penalty", m.placement_penalty),
    ]
    .into_iter()
    .map(|(name, value)| (Name::from(name), value.into()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::profiles::tests::profiles;
    use super::*;

    fn read_text(text: &str) -> Result<Vec<JobSpec>, String> {
        let source = Source::of("t", text.as_bytes()).unwrap();
        let replay = read(&source, &profiles()).map_err(|e| e.to_string())?;
        Ok(replay.jobs)
    }

    #[test]
    fn a_job_carries_its_profile() {
        let jobs = read_text("0,alexnet,.5,1000,2\n1,vae,300.25,40,1\n").unwrap();
        let (job, extras) = (&jobs[0], jobs[0].extras());
        assert_eq!((job.submit.secs(), job.gpus), (0.5, GpuCount(2)));
        assert_eq!((job.work.iterations, job.work.rate), (1000.0, 4.0));
        assert_eq!((extras.cpus, extras.memory_gib), (18.0, 120.0));
        assert_eq!(extras.attributes["storage_mb_s_per_gpu"], 60.0);
        assert_eq!(extras.attributes["iteration_s"], 0.5);
        assert!(extras.sensitivity.is_some() && jobs[1].extras().sensitivity.is_none());
    }

    #[test]
    fn jobs_are_sorted_and_arrivals_keep_the_file_order() {
        let text = "0,vae,600,40,1\n1,vae,0,40,2\n2,vae,600,40,4\n";
        let replay = read(&Source::of("t", text.as_bytes()).unwrap(), &profiles()).unwrap();
        let gpus: Vec<u32> = replay.jobs.iter().map(|j| j.gpus.get()).collect();
        assert_eq!(gpus, [2, 1, 4]);
        let arrivals: Vec<_> = replay
            .arrivals
            .iter()
            .map(|(j, t)| (j.0, t.secs()))
            .collect();
        assert_eq!(arrivals, [(1, 600.0), (0, 0.0), (2, 600.0)]);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, expected) in [
            (
                "0,alexnet,0,10\n",
                "t:1: the row has 4 fields, expected 5: job_id, model, arrival_s, total_iterations, gpus",
            ),
            (
                "0,alexnet,0,10,1\n1,alexnet,0,10,3\n",
                "t:2: gpus is `3`, expected 1, 2, 4, 8 or 16",
            ),
            (
                "0,bert,0,10,1\n",
                "t:1: model is `bert`, expected one of alexnet, vae",
            ),
            (
                "0,vae,-1,10,1\n",
                "t:1: arrival_s is `-1`, expected a number of seconds, at least 0",
            ),
            (
                "0,vae,1,1.5,1\n",
                "t:1: total_iterations is `1.5`, expected a whole number of at least 0",
            ),
        ] {
            assert_eq!(read_text(text).unwrap_err(), expected);
        }
    }
}
