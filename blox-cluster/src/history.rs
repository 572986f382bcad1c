//! History of ended jobs and launches in an SQLite file, and accounts of them by user, day and other
//! properties.
//!
//! The file is derived from the scheduler's log and archive: a write that failed is repeated, and a
//! file that is missing or damaged is written again. Each job and each launch on a node is one row.

use crate::protocol::Exit;
use crate::protocol::launches::Past;
use blox_core::Outcome;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the file in the scheduler's state directory.
pub const HISTORY_FILE: &str = "history.sqlite";

/// Tables of the file. The version is in `user_version`.
const SCHEMA: &str = "
BEGIN;
CREATE TABLE IF NOT EXISTS cluster (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
  job INTEGER PRIMARY KEY, array_id INTEGER, array_index INTEGER, name TEXT, user TEXT, queue TEXT,
  gpus INTEGER, share REAL, gpu_type TEXT, submitted_s REAL, started_s REAL, ended_s REAL,
  outcome TEXT, reason TEXT
);
CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (ended_s);
CREATE TABLE IF NOT EXISTS launches (
  job INTEGER, launch INTEGER, node TEXT, gpu_type TEXT, exit TEXT, code INTEGER, ran_s REAL,
  gpus INTEGER, PRIMARY KEY (job, launch, node)
) WITHOUT ROWID;
PRAGMA user_version = 1;
COMMIT;
";

/// Why a history cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// There is no such file.
    #[error("{0}: there is no history: it is written by a scheduler with this state directory")]
    Missing(PathBuf),
    /// The file was written by a later version.
    #[error("{path}: the history has version {found}, expected 1: use the program that wrote it")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// The history of an earlier cluster cannot be renamed.
    #[error("{path}: cannot be renamed: {error}")]
    Rename {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The database failed.
    #[error("{path}: {error}")]
    Database {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: rusqlite::Error,
    },
}

/// An ended job, with the names that the history shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The job.
    pub past: Past,
    /// Unix time of the cluster's time 0.
    pub origin_s: f64,
    /// Name and GPU type of the node of each accounting record.
    pub nodes: Vec<(String, String)>,
}

/// A history that is written.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    connection: Connection,
}

impl History {
    /// Opens the history of a cluster, and creates it if there is none. The history of an earlier
    /// cluster is renamed to `history-ID.sqlite`.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn open(path: &Path, cluster: &str) -> Result<Self, HistoryError> {
        let failed = |error| HistoryError::Database {
            path: path.to_owned(),
            error,
        };
        let mut connection = prepared(path)?;
        let known = "SELECT id FROM cluster WHERE id <> ?1";
        let known: Option<String> = connection
            .query_row(known, [cluster], |row| row.get(0))
            .optional()
            .map_err(failed)?;
        if let Some(known) = known {
            // Closing the last connection moves all rows into the one file.
            drop(connection);
            let old = path.with_file_name(format!("history-{known}.sqlite"));
            std::fs::rename(path, &old).map_err(|error| HistoryError::Rename {
                path: path.to_owned(),
                error,
            })?;
            connection = prepared(path)?;
        }
        let add = "INSERT OR IGNORE INTO cluster VALUES (?1)";
        connection.execute(add, [cluster]).map_err(failed)?;
        let path = path.to_owned();
        Ok(History { path, connection })
    }

    /// Writes jobs with their launches in one transaction. A job that is written again replaces its
    /// rows.
    ///
    /// # Errors
    /// The file cannot be written. No job of the call is then written.
    pub fn write(&mut self, jobs: &[Entry]) -> Result<(), HistoryError> {
        write(&mut self.connection, jobs).map_err(|error| HistoryError::Database {
            path: self.path.clone(),
            error,
        })
    }

    /// Returns the number of jobs.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn jobs(&self) -> Result<u64, HistoryError> {
        let count = "SELECT count(*) FROM jobs";
        let count = self.connection.query_row(count, [], |row| row.get(0));
        let count: i64 = count.map_err(|error| HistoryError::Database {
            path: self.path.clone(),
            error,
        })?;
        Ok(count as u64)
    }
}

/// Opens a file with the tables.
fn prepared(path: &Path) -> Result<Connection, HistoryError> {
    let failed = |error| HistoryError::Database {
        path: path.to_owned(),
        error,
    };
    // The database and its journal take the rights of an existing file. After an error, the next
    // line fails for the same reason.
    let _ = crate::private::options()
        .create(true)
        .append(true)
        .open(path);
    let connection = Connection::open(path).map_err(failed)?;
    let found = version(&connection).map_err(failed)?;
    if found > 1 {
        let path = path.to_owned();
        return Err(HistoryError::Version { path, found });
    }
    // A crash may lose the last rows, which are then written again.
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;";
    let prepare = || connection.execute_batch(pragmas);
    prepare()
        .and_then(|()| connection.execute_batch(SCHEMA))
        .map_err(failed)?;
    Ok(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn write(connection: &mut Connection, jobs: &[Entry]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut job = transaction.prepare(
            "INSERT OR REPLACE INTO jobs VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)",
        )?;
        let mut old = transaction.prepare("DELETE FROM launches WHERE job = ?1")?;
        let mut launch = transaction
            .prepare("INSERT OR REPLACE INTO launches VALUES (?1,?2,?3,?4,?5,?6,?7,?8)")?;
        for entry in jobs {
            let (past, brief) = (&entry.past, &entry.past.brief);
            let unix = |at: Option<blox_core::Time>| at.map(|at| entry.origin_s + at.secs());
            let gpu_type = entry.nodes.last().map_or("", |(_, gpu_type)| gpu_type);
            let failed = past.accounts.iter().rev();
            let mut failed = failed.filter(|(_, end)| matches!(end.exit, Exit::Failed { .. }));
            let reason = match failed.next() {
                Some((_, end)) if past.became() == "failed" => &end.why,
                _ => &brief.why,
            };
            job.execute(params![
                past.job.0,
                brief.array.map(|place| place.id.0),
                brief.array.map(|place| place.index),
                brief.name,
                brief.user,
                brief.queue,
                brief.gpus,
                brief.share.fraction(),
                gpu_type,
                unix(Some(brief.submit)),
                unix(brief.started),
                unix(brief.ended),
                past.became(),
                reason,
            ])?;
            old.execute([past.job.0])?;
            for ((part, end), (node, gpu_type)) in past.accounts.iter().zip(&entry.nodes) {
                let code = match end.exit {
                    Exit::Failed { code } => Some(code),
                    _ => None,
                };
                launch.execute(params![
                    past.job.0,
                    part.id.attempt,
                    node,
                    gpu_type,
                    end.exit.as_str(),
                    code,
                    end.ran.as_secs(),
                    end.gpus,
                ])?;
            }
        }
    }
    transaction.commit()
}

/// Property by which accounts are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// One account for each user.
    #[default]
    User,
    /// One for each job.
    Job,
    /// One for each day in UTC on which jobs ended.
    Day,
    /// One for each queue.
    Queue,
    /// One for each GPU type.
    GpuType,
}

/// Selection and grouping of accounts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The grouping.
    pub by: By,
    /// Only jobs that ended at this Unix time or later.
    pub since_s: Option<f64>,
    /// Only jobs that ended before this Unix time.
    pub until_s: Option<f64>,
    /// Only jobs of this user; empty for all.
    pub user: String,
}

/// Account of a group of ended jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// User, job, day or another value of the grouping.
    pub group: String,
    /// Number of jobs.
    pub jobs: u64,
    /// Number of jobs by outcome: completed or terminated, failed, cancelled, rejected. With
    /// `timed_out`, they sum to `jobs`.
    pub outcomes: [u64; 4],
    /// Number of jobs that exceeded their time limit.
    pub timed_out: u64,
    /// GPU hours of all launches.
    pub gpu_h: f64,
    /// GPU hours of launches that were lost, cut or failed.
    pub lost_gpu_h: f64,
    /// Mean time from the submission to the first start in seconds; `None` if no job started.
    pub wait_mean_s: Option<f64>,
    /// Median of the same times.
    pub wait_median_s: Option<f64>,
}

/// One row of the query.
struct Job {
    job: u32,
    array: Option<(u32, u32)>,
    user: String,
    queue: String,
    gpu_type: String,
    ended_s: f64,
    wait_s: Option<f64>,
    outcome: String,
    gpu_s: f64,
    lost_gpu_s: f64,
}

fn job_of(row: &Row<'_>) -> rusqlite::Result<Job> {
    let array: Option<u32> = row.get(1)?;
    let index: Option<u32> = row.get(2)?;
    Ok(Job {
        job: row.get(0)?,
        array: array.zip(index),
        user: row.get(3)?,
        queue: row.get(4)?,
        gpu_type: row.get(5)?,
        ended_s: row.get(6)?,
        wait_s: row.get(7)?,
        outcome: row.get(8)?,
        gpu_s: row.get(9)?,
        lost_gpu_s: row.get(10)?,
    })
}

const QUERY: &str = "
SELECT j.job, array_id, array_index, user, queue, j.gpu_type, ended_s, started_s - submitted_s,
  outcome, coalesce(sum(ran_s * l.gpus), 0.0),
  coalesce(sum(CASE WHEN exit IN ('lost', 'cut', 'failed', 'bad-file') THEN ran_s * l.gpus END), 0.0)
FROM jobs j LEFT JOIN launches l ON l.job = j.job
WHERE ended_s >= ?1 AND ended_s < ?2 AND (?3 = '' OR user = ?3)
GROUP BY j.job ORDER BY j.job
";

/// Returns the accounts in a history file, in order of their groups.
///
/// # Errors
/// The file cannot be read.
pub fn accounts(path: &Path, query: &Query) -> Result<Vec<Account>, HistoryError> {
    let failed = |error| HistoryError::Database {
        path: path.to_owned(),
        error,
    };
    if !path.exists() {
        return Err(HistoryError::Missing(path.to_owned()));
    }
    // Reading never changes the file of a running scheduler.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    let found = version(&connection).map_err(failed)?;
    if found > 1 {
        let path = path.to_owned();
        return Err(HistoryError::Version { path, found });
    }
    let (since, until) = (
        query.since_s.unwrap_or(f64::MIN),
        query.until_s.unwrap_or(f64::MAX),
    );
    let read = || {
        let mut statement = connection.prepare(QUERY)?;
        let rows = statement.query_map(params![since, until, query.user], job_of)?;
        rows.collect::<rusqlite::Result<Vec<Job>>>()
    };
    let jobs = read().map_err(failed)?;
    Ok(grouped(jobs, query.by))
}

/// Outcome of a job that exceeded its time limit.
const TIMED_OUT: &str = Outcome::TimedOut.as_str();

fn grouped(jobs: Vec<Job>, by: By) -> Vec<Account> {
    // The first key orders jobs by their number.
    let mut groups: BTreeMap<(u32, String), (Account, Vec<f64>)> = BTreeMap::new();
    for job in jobs {
        let key = match by {
            By::User => (0, job.user),
            By::Queue => (0, job.queue),
            By::GpuType => (0, job.gpu_type),
            By::Day => (0, day(job.ended_s)),
            By::Job => match job.array {
                Some((array, index)) => (job.job, format!("{array}_{index}")),
                None => (job.job, job.job.to_string()),
            },
        };
        let (account, waits) = groups.entry(key).or_default();
        account.jobs += 1;
        let [completed, failed, cancelled, rejected] = &mut account.outcomes;
        *match job.outcome.as_str() {
            "completed" | "terminated" => completed,
            TIMED_OUT => &mut account.timed_out,
            "failed" => failed,
            "cancelled" => cancelled,
            _ => rejected,
        } += 1;
        account.gpu_h += job.gpu_s / 3600.0;
        account.lost_gpu_h += job.lost_gpu_s / 3600.0;
        waits.extend(job.wait_s);
    }
    let accounts = groups
        .into_iter()
        .map(|((_, group), (account, mut waits))| {
            waits.sort_by(f64::total_cmp);
            let n = waits.len();
            let mean = (n > 0).then(|| waits.iter().sum::<f64>() / n as f64);
            let median = (n > 0).then(|| (waits[(n - 1) / 2] + waits[n / 2]) / 2.0);
            Account {
                group,
                wait_mean_s: mean,
                wait_median_s: median,
                ..account
            }
        });
    accounts.collect()
}

/// Returns the day of a Unix time in UTC, such as `2026-11-29`.
fn day(unix_s: f64) -> String {
    // Days from civil (Hinnant), inverted. The conversion saturates.
    let days = (unix_s / 86_400.0).floor() as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::launches::{Brief, End};
    use crate::protocol::{AttemptId, Millis, PartId};
    use blox_core::{JobId, NodeId, Time};

    fn entry(job: u32, user: &str, wait: Option<f64>, exits: &[Exit]) -> Entry {
        let end = |(attempt, exit): (usize, &Exit)| {
            let part = PartId {
                id: AttemptId {
                    job: JobId(job),
                    attempt: attempt as u32 + 1,
                },
                node: NodeId(0),
            };
            let end = End {
                exit: *exit,
                ran: Millis(3_600_000),
                gpus: 2,
                estimated: false,
                unobserved: false,
                why: "rank 0 exited with 3".to_owned(),
                exited_zero: false,
            };
            (part, end)
        };
        let submit = Time::new(f64::from(job));
        let completed = exits.last() == Some(&Exit::Completed);
        let past = Past {
            job: JobId(job),
            brief: Brief {
                user: user.to_owned(),
                gpus: 2,
                submit,
                started: wait.map(|wait| submit + blox_core::Seconds::new(wait)),
                ended: Some(Time::new(86_400.0 * f64::from(job))),
                ..Brief::default()
            },
            outcome: Some(if completed {
                Outcome::Completed
            } else {
                Outcome::Failed
            }),
            accounts: exits.iter().enumerate().map(end).collect(),
        };
        Entry {
            nodes: vec![("n0".to_owned(), "a100".to_owned()); exits.len()],
            origin_s: 0.0,
            past,
        }
    }

    #[test]
    fn rewritten_jobs_count_once_in_the_accounts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(HISTORY_FILE);
        assert!(matches!(
            accounts(&path, &Query::default()),
            Err(HistoryError::Missing(_))
        ));
        let jobs = [
            entry(1, "ada", Some(10.0), &[Exit::Lost, Exit::Completed]),
            entry(2, "ada", Some(20.0), &[Exit::Failed { code: 3 }]),
            entry(3, "bob", None, &[]),
        ];
        for _ in 0..2 {
            let mut history = History::open(&path, "c").unwrap();
            history.write(&jobs).unwrap();
            assert_eq!(history.jobs().unwrap(), 3);
        }
        let by_user = accounts(&path, &Query::default()).unwrap();
        let ada = Account {
            group: "ada".to_owned(),
            jobs: 2,
            outcomes: [1, 1, 0, 0],
            gpu_h: 6.0,
            lost_gpu_h: 4.0,
            wait_mean_s: Some(15.0),
            wait_median_s: Some(15.0),
            timed_out: 0,
        };
        assert_eq!(by_user[0], ada);
        assert_eq!((by_user.len(), by_user[1].wait_mean_s), (2, None));
        let only = |by, since: f64| {
            let query = Query {
                by,
                since_s: Some(since),
                ..Query::default()
            };
            let groups = accounts(&path, &query).unwrap().into_iter();
            groups.map(|a| a.group).collect::<Vec<_>>()
        };
        assert_eq!(
            only(By::Day, 0.0),
            ["1970-01-02", "1970-01-03", "1970-01-04"]
        );
        assert_eq!(only(By::Job, 100_000.0), ["2", "3"]);
        assert_eq!(only(By::GpuType, 0.0), ["", "a100"]);
        let mut late = entry(4, "eve", None, &[Exit::Cut]);
        late.past.outcome = Some(Outcome::TimedOut);
        History::open(&path, "c").unwrap().write(&[late]).unwrap();
        let eve = accounts(&path, &Query::default()).unwrap().pop().unwrap();
        assert_eq!((eve.outcomes, eve.timed_out), ([0; 4], 1));
        // Another cluster begins anew, and the old file stays.
        let history = History::open(&path, "other").unwrap();
        assert_eq!(history.jobs().unwrap(), 0);
        let old = accounts(&dir.path().join("history-c.sqlite"), &Query::default());
        assert_eq!(old.unwrap().len(), 3);
    }

    #[test]
    fn times_become_days_of_the_calendar() {
        for (secs, text) in [
            (-1.0, "1969-12-31"),
            (951_782_399.9, "2000-02-28"),
            (951_868_799.0, "2000-02-29"),
            (4_107_542_400.0, "2100-03-01"),
        ] {
            assert_eq!(day(secs), text);
        }
    }
}
