//! The folder of a scheduler on Slurm: its journal, from which a restart repeats the decisions.

use blox_core::core::Core;
use blox_core::journal::{Journal, JsonLines};
use blox_core::replay::{ReplayError, follow, scheduler, watch};
use blox_core::runtime::{Observers, Runtime};
use blox_core::trigger::DecisionTrigger;
use blox_core::{DecisionError, Input, Name, Scheduler, State};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufReader, LineWriter};
use std::path::{Path, PathBuf};

/// Start and end of the names of journals; a number stands between them.
const JOURNAL: (&str, &str) = ("journal-", ".jsonl");
/// Number of journals before the last that a look reads for ended jobs.
const EARLIER: usize = 8;

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// Another scheduler runs in the folder.
    #[error("{path}: another scheduler runs here, expected another folder", path = path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// A journal cannot be read, or a line contradicts those before it.
    #[error("{path}: {error}", path = path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// The cause.
        error: ReplayError,
    },
}

/// A folder in use.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    /// Held until the end of the process.
    _lock: File,
}

/// A scheduler as the last journal left it.
#[allow(missing_debug_implementations, reason = "it has a scheduler")]
pub struct Restored {
    /// The runtime, with a new journal in the folder.
    pub runtime: Runtime,
    /// The scheduler with its memory.
    pub scheduler: Box<dyn Scheduler>,
    /// Sentences for the operator.
    pub notices: Vec<String>,
}

impl Folder {
    /// Opens a folder, and creates it if it is missing.
    ///
    /// # Errors
    /// It cannot be written, or another scheduler runs there.
    pub fn open(dir: &Path) -> Result<Self, FolderError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| FolderError::Io { path, error }
        };
        fs::create_dir_all(dir).map_err(io(dir))?;
        let path = dir.join("lock");
        let lock = File::create(&path).map_err(io(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder {
                dir: dir.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(FolderError::Locked {
                path: dir.to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(FolderError::Io { path, error }),
        }
    }

    /// Restores a scheduler from the last journal, and begins the next. Without a journal, the
    /// state is empty.
    ///
    /// A journal of another scheduler is applied without its decisions being repeated: the new
    /// scheduler begins without memory, which a notice states.
    ///
    /// # Errors
    /// A journal cannot be read or written, or a line contradicts those before it. An incomplete
    /// last line, as a crash leaves it, is left out.
    pub fn restore(
        &self,
        scheduler: Box<dyn Scheduler>,
        trigger: Box<dyn DecisionTrigger>,
    ) -> Result<Restored, FolderError> {
        let mut notices = Vec::new();
        let last = numbers(&self.dir)?.pop();
        let (core, scheduler) = match last_begun(&self.dir)? {
            Some(begun) => {
                if let Some(last) = last.filter(|last| *last != begun) {
                    let path = self.journal(last);
                    let text =
                        "has no begin, as a full disk leaves it; the journal before it counts";
                    notices.push(format!("{}: {text}", path.display()));
                }
                let (path, mut none) = (self.journal(begun), Observers::default());
                replayed(&path, scheduler, trigger, &mut none, &mut notices)?
            }
            None => (Core::new(State::default(), trigger), scheduler),
        };
        let next = last.map_or(1, |last| last + 1);
        let path = self.journal(next);
        let io = |error| FolderError::Io {
            path: path.clone(),
            error,
        };
        let file = File::create_new(&path).map_err(io)?;
        let open = core.open();
        let journal: Box<dyn Journal> = Box::new(JsonLines::new(LineWriter::new(file)));
        let mut runtime = Runtime::of(core).with_journal(journal);
        let mut scheduler = scheduler;
        let started = runtime.start(&*scheduler);
        started.map_err(|error| io(io::Error::other(error.to_string())))?;
        runtime.flush_journal().map_err(io)?;
        if let Some(open) = open {
            // The answer was not recorded, so the question gets none.
            let lost = Input::Lost {
                at: runtime.state().now().max(open.at),
                question: open.number,
                why: DecisionError::Restarted,
            };
            let _ = runtime.take(&lost, &mut *scheduler);
        }
        Ok(Restored {
            runtime,
            scheduler,
            notices,
        })
    }

    /// Returns core and scheduler as the journals of a folder show them, while a scheduler may write
    /// there. `observers` get the inputs of the last few journals.
    ///
    /// # Errors
    /// There is no journal, one cannot be read, or a line contradicts those before it.
    pub fn look(
        dir: &Path,
        scheduler: Box<dyn Scheduler>,
        trigger: Box<dyn DecisionTrigger>,
        observers: &mut Observers,
    ) -> Result<(Core, Box<dyn Scheduler>), FolderError> {
        let none = || FolderError::Io {
            path: dir.to_owned(),
            error: io::Error::new(io::ErrorKind::NotFound, "has no journal"),
        };
        let last = last_begun(dir)?.ok_or_else(none)?;
        let mut earlier = numbers(dir)?;
        earlier.retain(|number| *number < last);
        let first = earlier.len().saturating_sub(EARLIER);
        for number in &earlier[first..] {
            let path = journal(dir, *number);
            let file = File::open(&path).map_err(|error| FolderError::Io {
                path: path.clone(),
                error,
            })?;
            // A crash may have cut its last line.
            let (file, state) = (BufReader::new(file), State::default());
            let _ = watch(file, state, trigger.clone(), observers);
        }
        let path = journal(dir, last);
        replayed(&path, scheduler, trigger, observers, &mut Vec::new())
    }

    /// Returns the name of the scheduler that wrote the last journal, with its parameters.
    ///
    /// # Errors
    /// The folder or the journal cannot be read.
    pub fn scheduler_of(dir: &Path) -> Result<Option<Name>, FolderError> {
        let Some(last) = last_begun(dir)? else {
            return Ok(None);
        };
        let path = journal(dir, last);
        let file = File::open(&path).map_err(|error| FolderError::Io {
            path: path.clone(),
            error,
        })?;
        let name = scheduler(BufReader::new(file));
        name.map_err(|error| FolderError::Journal { path, error })
    }

    fn journal(&self, number: u64) -> PathBuf {
        journal(&self.dir, number)
    }
}

fn journal(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{}{number:06}{}", JOURNAL.0, JOURNAL.1))
}

/// Returns the numbers of the journals of a folder, in order.
fn numbers(dir: &Path) -> Result<Vec<u64>, FolderError> {
    let io = |error| FolderError::Io {
        path: dir.to_owned(),
        error,
    };
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let name = name.to_string_lossy().into_owned();
        let number = name.strip_prefix(JOURNAL.0);
        let number = number.and_then(|rest| rest.strip_suffix(JOURNAL.1));
        all.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    all.sort_unstable();
    Ok(all)
}

/// Returns the number of the last journal with a whole first line. A full disk leaves one without.
fn last_begun(dir: &Path) -> Result<Option<u64>, FolderError> {
    let begun = |number: &u64| {
        let path = journal(dir, *number);
        let file = File::open(&path).map_err(|error| FolderError::Io { path, error })?;
        Ok(matches!(scheduler(BufReader::new(file)), Ok(Some(_))))
    };
    let mut numbers = numbers(dir)?;
    while let Some(last) = numbers.pop() {
        if begun(&last)? {
            return Ok(Some(last));
        }
    }
    Ok(None)
}

/// Returns whether a scheduler runs in a folder.
///
/// # Errors
/// The folder has no lock that can be opened.
pub fn is_in_use(dir: &Path) -> io::Result<bool> {
    let lock = File::open(dir.join("lock"))?;
    Ok(matches!(
        lock.try_lock_shared(),
        Err(TryLockError::WouldBlock)
    ))
}

/// Follows a journal to its end.
fn replayed(
    path: &Path,
    scheduler: Box<dyn Scheduler>,
    trigger: Box<dyn DecisionTrigger>,
    observers: &mut Observers,
    notices: &mut Vec<String>,
) -> Result<(Core, Box<dyn Scheduler>), FolderError> {
    let file = File::open(path).map_err(|error| FolderError::Io {
        path: path.to_owned(),
        error,
    })?;
    let name = scheduler.name().to_owned();
    let new = scheduler.clone();
    let (file, state) = (BufReader::new(file), State::default());
    let followed = follow(file, state, trigger.clone(), scheduler, observers, |_| {});
    let followed = followed.map_err(|error| FolderError::Journal {
        path: path.to_owned(),
        error,
    })?;
    if let Some(line) = followed.incomplete {
        notices.push(format!("{}:{line}: incomplete, left out", path.display()));
    }
    let mut scheduler = followed.follower.copy_of_scheduler();
    let mut core = Core::restore(followed.follower.core().save(), trigger);
    if let Some(other) = followed.other {
        notices.push(format!(
            "the jobs come from `{other}`; `{name}` begins without its memory"
        ));
        core.change_scheduler();
        scheduler = new;
        scheduler.take_over(core.view(), None, &BTreeMap::new());
    }
    Ok((core, scheduler))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::order::SortKey;
    use blox_core::policy::by_key;
    use blox_core::{Composition, Event, GpuCount, JobId, JobSpec, OnEvent, Seconds, Time};
    use blox_testing::FirstFit;

    fn restored(dir: &Path) -> Restored {
        let fifo = Composition::new("fifo")
            .scheduling(by_key(|job| SortKey::by(job.submit().secs())))
            .placement(FirstFit)
            .build()
            .unwrap();
        let folder = Folder::open(dir).unwrap();
        let trigger = Box::new(OnEvent::default());
        folder.restore(Box::new(fifo), trigger).unwrap()
    }

    #[test]
    fn journal_without_a_begin_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = restored(dir.path());
        let spec = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(1.0)).into();
        let submitted = Event::Submitted {
            job: JobId(0),
            spec,
        };
        let runtime = &mut first.runtime;
        runtime
            .event(Time::ZERO, &submitted, &mut *first.scheduler)
            .unwrap();
        drop(first);
        for (number, cut) in [(2, ""), (3, "{\"start\":{\"sche")] {
            fs::write(journal(dir.path(), number), cut).unwrap();
        }
        assert!(Folder::scheduler_of(dir.path()).unwrap().is_some());
        let again = restored(dir.path());
        assert_eq!(again.runtime.state().next_job_id(), JobId(1));
        assert!(
            again.notices[0].contains("journal-000003.jsonl"),
            "{:?}",
            again.notices
        );
        // The next journal continues.
        drop(again);
        let third = restored(dir.path());
        assert_eq!(third.runtime.state().next_job_id(), JobId(1));
        assert!(third.notices.is_empty(), "{:?}", third.notices);
    }
}
