//! The thread that writes ended jobs to the history and counts waiting times. The scheduler does not wait for it.
//!
//! A write that fails is repeated later: all ended jobs are then compared with the file.

use super::archive::Archive;
use super::waits::Waits;
use crate::history::{Entry, HISTORY_FILE, History, HistoryError};
use crate::protocol::Millis;
use crate::protocol::launches::Past;
use crate::protocol::scheduler::Controller;
use blox_core::{JobId, Time};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Delay between the end of a job and its row, in which further jobs join the transaction.
const DELAY: Duration = Duration::from_millis(500);
/// Delay after a failure.
const AGAIN: Duration = Duration::from_secs(30);
/// Jobs in one transaction.
const BATCH: usize = 256;
/// Jobs that may wait for a write. Beyond, they are found by a comparison.
const MOST: usize = 100_000;

/// A job for the history and the histograms.
pub(super) enum Ended {
    /// A launch of it has started.
    Started(JobId, Time),
    /// It has ended.
    Now(JobId),
    /// It leaves the scheduler's memory.
    Archived(Vec<Past>),
}

/// Function that reads the state of the scheduler.
type Look = Box<dyn FnOnce(&Controller, Millis) + Send>;

/// Requests to the scheduler. One that has stopped drops them.
pub(super) struct Asks {
    /// Reads its state.
    pub look: Box<dyn Fn(Look) + Send>,
    /// Shows a message to the operator.
    pub notice: Box<dyn Fn(String) + Send>,
}

/// Starts the thread.
pub(super) fn start(dir: &Path, archive: Archive, waits: Arc<Waits>, to: Asks) -> Sender<Ended> {
    let (ended, from) = channel();
    let recorder = Recorder {
        path: dir.join(HISTORY_FILE),
        archive,
        to,
        history: None,
        waiting: BTreeSet::new(),
        archived: Vec::new(),
        started: Vec::new(),
        waits,
        compare: true,
        failed: None,
    };
    std::thread::spawn(move || recorder.run(&from));
    ended
}

struct Recorder {
    path: PathBuf,
    archive: Archive,
    to: Asks,
    history: Option<History>,
    waiting: BTreeSet<JobId>,
    archived: Vec<Past>,
    started: Vec<(JobId, Time)>,
    waits: Arc<Waits>,
    /// True if the file may lack jobs.
    compare: bool,
    /// Time of the last failure.
    failed: Option<Instant>,
}

/// Why jobs were not written.
enum Trouble {
    /// The scheduler has stopped.
    Gone,
    History(HistoryError),
    Archive(std::io::Error),
}

impl From<HistoryError> for Trouble {
    fn from(e: HistoryError) -> Self {
        Trouble::History(e)
    }
}

fn entry(s: &Controller, past: Past) -> Entry {
    let durable = s.launches().durable();
    let node = |node| {
        let spec = s.view().node(node).map(|n| n.spec());
        let name = spec.and_then(|s| s.name.clone());
        let name = name.or_else(|| durable.key_of(node).cloned());
        let gpu_type = spec.and_then(|s| s.gpu_type.clone());
        let text = |name: Option<blox_core::Name>| name.map_or_else(String::new, |n| n.to_string());
        (text(name), text(gpu_type))
    };
    let nodes = past.accounts.iter().map(|(part, _)| node(part.node));
    Entry {
        nodes: nodes.collect(),
        origin_s: durable.unix(Time::ZERO),
        past,
    }
}

impl Recorder {
    #[allow(clippy::disallowed_methods, reason = "the delay after a failure")]
    fn run(mut self, from: &Receiver<Ended>) {
        loop {
            let mut next = from.recv_timeout(DELAY);
            let is_over = matches!(next, Err(RecvTimeoutError::Disconnected));
            while let Ok(ended) = next {
                match ended {
                    Ended::Now(job) => {
                        self.waiting.insert(job);
                    }
                    Ended::Started(job, at) => self.started.push((job, at)),
                    Ended::Archived(jobs) => self.archived.extend(jobs),
                }
                next = from.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            if !self.started.is_empty() && self.count_waits().is_err() {
                return;
            }
            if self.waiting.len() + self.archived.len() > MOST {
                self.waiting.clear();
                self.archived.clear();
                self.compare = true;
            }
            let is_idle = self.waiting.is_empty() && self.archived.is_empty() && !self.compare;
            let rests = self.failed.is_some_and(|at| at.elapsed() < AGAIN);
            if is_idle || rests && !is_over {
                match is_over {
                    true => return,
                    false => continue,
                }
            }
            let was_well = self.failed.is_none();
            let why = match self.write() {
                Ok(()) => {
                    self.failed = None;
                    continue;
                }
                Err(Trouble::Gone) => return,
                Err(Trouble::History(e)) => e.to_string(),
                Err(Trouble::Archive(e)) => format!("the archive: {e}"),
            };
            // The file may have been removed or damaged.
            self.history = None;
            self.compare = true;
            self.failed = Some(Instant::now());
            if was_well {
                let text = format!("the history of ended jobs is behind: {why}");
                (self.to.notice)(text);
            }
            if is_over {
                return;
            }
        }
    }

    /// Reads the state of the scheduler.
    fn look<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Controller) -> T + Send + 'static,
    ) -> Result<T, Trouble> {
        let (tx, rx) = channel();
        let look = move |s: &Controller, _: Millis| drop(tx.send(f(s)));
        (self.to.look)(Box::new(look));
        rx.recv().map_err(|_| Trouble::Gone)
    }

    /// Counts the waiting times of jobs of which the first launch has started.
    fn count_waits(&mut self) -> Result<(), Trouble> {
        let started = std::mem::take(&mut self.started);
        let waits = self.look(move |s| {
            let wait = |(job, at): (JobId, Time)| {
                let brief = s.launches().durable().jobs.get(&job)?;
                let view = s.view();
                let bound = view.job(job).and_then(|job| {
                    let gpu = *job.bound()?.gpus.first()?;
                    view.node(view.cluster().node_of(gpu)?)
                });
                let gpu_type = bound.and_then(|n| n.spec().gpu_type.clone());
                let gpu_type = gpu_type.map_or_else(String::new, |t| t.to_string());
                let is_first = brief.started == Some(at);
                is_first.then(|| (brief.user.clone(), gpu_type, (at - brief.submit).secs()))
            };
            started.into_iter().filter_map(wait).collect::<Vec<_>>()
        })?;
        for (user, gpu_type, wait_s) in waits {
            self.waits.add(&user, &gpu_type, wait_s);
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Trouble> {
        let mut history = match self.history.take() {
            Some(history) => history,
            None => {
                let cluster = self.look(|s| s.launches().durable().cluster.clone())?;
                let cluster = cluster.map(|id| id.0.to_string()).unwrap_or_default();
                History::open(&self.path, &cluster)?
            }
        };
        while !self.archived.is_empty() {
            let count = self.archived.len().min(BATCH);
            let jobs = self.archived[..count].to_vec();
            let jobs = self.look(|s| {
                jobs.into_iter()
                    .map(|past| entry(s, past))
                    .collect::<Vec<_>>()
            });
            history.write(&jobs?)?;
            self.archived.drain(..count);
        }
        while !self.waiting.is_empty() {
            let ids: Vec<JobId> = self.waiting.iter().take(BATCH).copied().collect();
            let wanted = ids.clone();
            let jobs = self.look(move |s| {
                let durable = s.launches().durable();
                let jobs = wanted.into_iter().filter_map(|id| durable.past(id));
                jobs.map(|past| entry(s, past)).collect::<Vec<_>>()
            });
            history.write(&jobs?)?;
            self.waiting.retain(|id| !ids.contains(id));
        }
        if self.compare {
            self.compare_with(&mut history)?;
            self.compare = false;
        }
        self.history = Some(history);
        Ok(())
    }

    /// Writes all ended jobs if the file lacks any.
    fn compare_with(&self, history: &mut History) -> Result<(), Trouble> {
        let expected = self.look(|s| {
            let durable = s.launches().durable();
            let ended = durable.jobs.values().filter(|brief| brief.ended.is_some());
            durable.archived.jobs.values().sum::<u64>() + ended.count() as u64
        });
        if history.jobs()? >= expected? {
            return Ok(());
        }
        let mut batch = Vec::new();
        let write = |history: &mut History, batch: &mut Vec<Past>| {
            let jobs = std::mem::take(batch);
            let jobs = self.look(|s| {
                jobs.into_iter()
                    .map(|past| entry(s, past))
                    .collect::<Vec<_>>()
            });
            history.write(&jobs?).map_err(Trouble::from)
        };
        for past in self.archive.all().map_err(Trouble::Archive)? {
            batch.push(past.map_err(Trouble::Archive)?);
            if batch.len() == BATCH {
                write(history, &mut batch)?;
            }
        }
        write(history, &mut batch)?;
        let mut after = Bound::Unbounded;
        loop {
            let jobs = self.look(move |s| {
                let durable = s.launches().durable();
                let jobs = durable.jobs.range((after, Bound::Unbounded));
                let ended = jobs.filter(|(_, brief)| brief.ended.is_some());
                let past = ended.filter_map(|(job, _)| durable.past(*job));
                past.take(BATCH)
                    .map(|past| entry(s, past))
                    .collect::<Vec<_>>()
            })?;
            let Some(last) = jobs.last() else {
                return Ok(());
            };
            after = Bound::Excluded(last.past.job);
            history.write(&jobs)?;
        }
    }
}
