//! Readers for files of Lucid's released simulator, of Helios and of Chronus.

use super::simulator::Forecast;
use blox_core::{Class, Deadline, Extras, GpuCount, JobSpec, Name, Seconds, SortedMap, Time, sort};
use blox_perf::PairTable;
use blox_sim::workload::{Notices, WorkloadError};
use blox_traces::formats::helios;
use blox_traces::source::Source;
use blox_traces::table::{Column, Table};
use std::collections::BTreeMap;
use std::path::Path;

/// Part of a log to simulate.
///
/// The clock starts at the first row that counts, which may be submitted before the simulated part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows submitted before this time, in seconds since 1970, are skipped.
    pub from: i64,
    /// Start of the simulation in seconds of the clock.
    pub begin: i64,
    /// Last second of submissions.
    pub end: i64,
}

impl Window {
    /// `Venus_Sept`: 26 days of September 2020.
    pub const VENUS: Window = Window {
        from: 1_585_699_200, // 2020-04-01
        begin: 13_219_200,
        end: 13_219_200 + 25 * 86_400 + 86_340,
    };
    /// `Philly`: a week of October 2017.
    pub const PHILLY: Window = Window {
        from: 1_506_816_000, // 2017-10-01
        begin: 0,
        end: 604_740,
    };
}

/// Reads `cluster_full_log.csv` as the original does.
///
/// Returns the jobs with GPUs in the known virtual clusters, in order of submission, with times in
/// seconds of the log's clock.
///
/// # Errors
/// Fails if the file cannot be read or has an invalid row.
pub fn read_log(
    path: impl AsRef<Path>,
    clusters: &[(Name, u32)],
    window: Window,
) -> Result<Vec<JobSpec>, WorkloadError> {
    let mut notices = Notices::default();
    let mut rows = helios::open_rows(&Source::at(path.as_ref())?, &mut notices)?;
    let mut jobs = Vec::new();
    while let Some(job) = rows.next_row(&mut notices)? {
        let known = |vc: &Name| clusters.iter().any(|(name, _)| name == vc);
        if job.submit.secs() >= window.from as f64
            && job.virtual_cluster.as_ref().is_some_and(known)
        {
            jobs.push(job);
        }
    }
    sort::by_key(&mut jobs, |j| j.submit);
    let origin = jobs.first().map_or(0.0, |j| j.submit.secs());
    for job in &mut jobs {
        job.submit = Time::new(job.submit.secs() - origin);
    }
    jobs.retain(|j| (window.begin as f64..=window.end as f64).contains(&j.submit.secs()));
    Ok(jobs)
}

/// Reads estimated durations in seconds by job name from the columns `job_id` and `priority`.
///
/// # Errors
/// Fails if the file cannot be read, lacks a column, or has a row without a number.
pub fn read_estimates(path: impl AsRef<Path>) -> Result<BTreeMap<String, f64>, WorkloadError> {
    let mut table = Table::open(&Source::at(path.as_ref())?)?;
    let [job, estimate] = table.require(["job_id", "priority"])?;
    let mut all = BTreeMap::new();
    while table.advance()? {
        let seconds = table.number(estimate, |_| true, "a number of seconds")?;
        all.insert(table.text(job).to_owned(), seconds);
    }
    Ok(all)
}

/// Reads the sharing scores of profiles from `single_data.csv`, keyed by [`PairTable::key`].
///
/// # Errors
/// Fails if the file cannot be read, lacks a column, or has a row without a number.
pub fn read_scores(path: impl AsRef<Path>) -> Result<SortedMap<String, f64>, WorkloadError> {
    let mut table = Table::open(&Source::at(path.as_ref())?)?;
    let [model, dataset, batch, amp, label] =
        table.require(["model", "dataset", "batchsize", "amp", "label"])?;
    let mut all = SortedMap::new();
    while table.advance()? {
        let key = key_of(&table, [model, dataset, batch, amp])?;
        all.insert(key, table.number(label, |_| true, "a score")?);
    }
    Ok(all)
}

/// Returns the key of the profile in the columns of model, data set, batch and precision.
fn key_of(table: &Table, columns: [Column; 4]) -> Result<String, WorkloadError> {
    let [model, dataset, batch, amp] = columns;
    let mixed = table.number(amp, |_| true, "0 or 1")? != 0.0;
    let batch = table.count(batch)?;
    Ok(PairTable::key(
        table.text(model),
        table.text(dataset),
        batch,
        mixed,
    ))
}

/// Models that the original did not measure in pairs. Their partners are not slowed down.
const UNMEASURED: [&str; 4] = ["NeuMF", "ResNet50", "BERT", "Transformer"];

/// Reads the speeds of pairs from `colocate_info.csv`.
///
/// # Errors
/// Fails if the file cannot be read, lacks a column, or has a row without speeds.
pub fn read_pairs(path: impl AsRef<Path>) -> Result<PairTable, WorkloadError> {
    let mut table = Table::open(&Source::at(path.as_ref())?)?;
    let first = table.require(["model1", "dataset1", "batchsize1", "amp1", "speed1"])?;
    let second = table.require(["model2", "dataset2", "batchsize2", "amp2", "speed2"])?;
    let mut pairs = UNMEASURED
        .iter()
        .fold(PairTable::default(), |t, model| t.unaffected_by(model));
    while table.advance()? {
        let side = |[model, dataset, batch, amp, speed]: [_; 5]| {
            let key = key_of(&table, [model, dataset, batch, amp])?;
            Ok::<_, WorkloadError>((key, table.number(speed, |x| x > 0.0, "a number above 0")?))
        };
        let ((a, x), (b, y)) = (side(first)?, side(second)?);
        pairs
            .add(&a, &b, (x, y))
            .map_err(|e| WorkloadError::line(table.path(), table.line(), e.to_string()))?;
    }
    Ok(pairs)
}

/// Reads a column of forecasts with its times, in seconds of a clock that starts with `begin` at
/// the first row.
///
/// # Errors
/// Fails if the file cannot be read, lacks a column, or has a row without a date or number.
pub fn read_forecast(
    path: impl AsRef<Path>,
    column: &str,
    begin: i64,
) -> Result<Forecast, WorkloadError> {
    let mut table = Table::open(&Source::at(path.as_ref())?)?;
    let [time, value] = table.require(["time", column])?;
    let (mut rows, mut first) = (Vec::new(), None);
    while table.advance()? {
        let at = table.date(time)?;
        let offset = at - *first.get_or_insert(at);
        rows.push((
            begin + offset as i64,
            table.number(value, |_| true, "a number")?,
        ));
    }
    Ok(Forecast { rows })
}

/// Reads Helios' sequence of nodes as its energy service does.
///
/// The file has the columns `time`, `active` and `total`, with one row per minute. Returns the
/// maximum of each 10 minutes for `looks` periods after `from`, in seconds since 1970.
///
/// # Errors
/// Fails if the file cannot be read, lacks a column, or has a row without dates or numbers.
pub fn read_node_sequence(
    path: impl AsRef<Path>,
    from: f64,
    looks: usize,
) -> Result<Vec<(i64, i64)>, WorkloadError> {
    let mut table = Table::open(&Source::at(path.as_ref())?)?;
    let [time, active, total] = table.require(["time", "active", "total"])?;
    let mut all = vec![(0, 0); looks];
    while table.advance()? {
        let at = ((table.date(time)? - from) / 600.0).floor();
        if at < 0.0 || at >= looks as f64 {
            continue;
        }
        let count = |column| table.number(column, |x| x >= 0.0, "a number of at least 0");
        let slot = &mut all[at as usize];
        slot.0 = slot.0.max(count(active)?.floor() as i64);
        slot.1 = slot.1.max(count(total)?.floor() as i64);
    }
    Ok(all)
}

/// Reads a trace of Chronus.
///
/// Its unit of time is a number of seconds: 60 in the artifact, 1 in ElasticFlow. The columns `expect_time_list` and `expect_value_list`
/// become deadlines. Rows without GPUs are left out.
///
/// # Errors
/// Fails if the file cannot be read, lacks a column, or has an invalid row.
pub fn read_chronus_trace(
    path: impl AsRef<Path>,
    unit_s: f64,
) -> Result<Vec<JobSpec>, WorkloadError> {
    let mut table = Table::open(&Source::at(path.as_ref())?)?;
    let [job_id, gpus, submit, duration] =
        table.require(["job_id", "num_gpu", "submit_time", "duration"])?;
    let [times, values, lazy] =
        table.require(["expect_time_list", "expect_value_list", "best_effort"])?;
    let mut jobs = Vec::new();
    while table.advance()? {
        let count = table.count_or_none(gpus)?;
        if count == 0 {
            continue;
        }
        let time = "a number of at least 0";
        let at = table.number(submit, |x| x >= 0.0, time)? * unit_s;
        let lasts = table.number(duration, |x| x >= 0.0, time)? * unit_s;
        let list = |column| {
            let parts = table
                .text(column)
                .split('-')
                .map(|p| p.trim().parse::<f64>());
            let parts: Result<Vec<f64>, _> = parts.collect();
            parts.map_err(|_| table.wrong(column, "numbers with `-` between them"))
        };
        let (times_list, values_list) = (list(times)?, list(values)?);
        if !times_list.is_sorted() {
            return Err(table.wrong(times, "ascending numbers with `-` between them"));
        }
        if times_list.len() != values_list.len() {
            return Err(table.wrong(values, "as many values as expect_time_list has times"));
        }
        let deadlines = times_list
            .iter()
            .zip(values_list)
            .map(|(within, value)| Deadline {
                at: Time::new(at + within * unit_s),
                value,
            });
        let lazy = table.number(lazy, |x| x == 0.0 || x == 1.0, "0 or 1")? == 1.0;
        let job = JobSpec::new(Time::new(at), GpuCount(count), Seconds::new(lasts))
            .named(table.text(job_id))
            .with_extras(Extras {
                deadlines: deadlines.collect(),
                class: if lazy {
                    Class::BEST_EFFORT
                } else {
                    Class::Guaranteed
                },
                ..Extras::default()
            });
        jobs.push(job);
    }
    sort::by_key(&mut jobs, |j| j.submit);
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut f = tempfile::NamedTempFile::new().unwrap();
        f.write_all(text.as_bytes()).unwrap();
        f
    }

    #[test]
    fn the_first_row_that_counts_begins_the_clock() {
        let clusters = [("va".into(), 3), ("vb".into(), 1)];
        let log = "job_id,user,vc,gpu_num,cpu_num,state,submit_time,duration,dataset,model,batchsize,amp,gmem\n\
            9,u,va,1,6,X,2020-03-31 00:00:00,10,D,M,32,0,2458.0\n\
            3,u,va,2,6,X,2020-09-01 00:00:09,60,D,M,32,1,2458.0\n\
            1,u,vb,1,6,X,2020-04-01 00:00:04,10,D,M,32,0,2458.0\n\
            2,u,vc,1,6,X,2020-09-01 00:00:08,10,D,M,32,0,2458.0\n";
        let jobs = read_log(file(log).path(), &clusters, Window::VENUS).unwrap();
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].submit.secs(), 13_219_205.0);
        assert_eq!(PairTable::key_of(&jobs[0]).as_deref(), Some("M/D/32/1"));
    }

    #[test]
    fn chronus_counts_minutes() {
        let trace = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type\n\
            4,u,2,7,1,m,40,5,105-200,10-8,0,soft\n5,u,0,8,1,m,40,5,105,10,0,strict\n";
        let jobs = read_chronus_trace(file(trace).path(), 60.0).unwrap();
        assert_eq!(jobs.len(), 1);
        assert_eq!(
            (jobs[0].submit.secs(), jobs[0].duration().secs()),
            (420.0, 2400.0)
        );
        let due: Vec<_> = jobs[0]
            .extras()
            .deadlines
            .iter()
            .map(|d| d.at.secs())
            .collect();
        assert_eq!(due, [6720.0, 12420.0]);
        let wrong = trace.replace("105-200", "105-x");
        let e = read_chronus_trace(file(&wrong).path(), 60.0)
            .unwrap_err()
            .to_string();
        assert!(
            e.contains("expect_time_list") && e.contains("numbers with `-`"),
            "{e}"
        );
    }
}
