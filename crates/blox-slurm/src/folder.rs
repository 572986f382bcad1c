//! The folder of a scheduler on Slurm: its journal, from which a restart repeats the decisions.

use blox_core::core::Core;
use blox_core::journal::{Journal, JsonLines, Start};
use blox_core::runtime::{Follower, Runtime};
use blox_core::trigger::DecisionTrigger;
use blox_core::{Decision, DecisionError, Input, Refused, Scheduler, State, Time};
use serde::Deserialize;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, LineWriter};
use std::path::{Path, PathBuf};

/// Start and end of the names of journals; a number stands between them.
const JOURNAL: (&str, &str) = ("journal-", ".jsonl");

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
    /// A line of a journal does not follow from those before it.
    #[error("{path}:{line}: {why}", path = path.display())]
    Line {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The contradiction, or the parse error.
        why: String,
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

/// The first line of a journal.
#[derive(Deserialize)]
struct First {
    start: Box<Start>,
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
        let numbers = self.numbers()?;
        let (core, scheduler) = match numbers.last() {
            Some(last) => replayed(&self.journal(*last), scheduler, trigger, &mut notices)?,
            None => (Core::new(State::default(), trigger), scheduler),
        };
        let next = numbers.last().map_or(1, |last| last + 1);
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

    /// Returns the path of the last journal, which other programs may read.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn last_journal(dir: &Path) -> Result<Option<PathBuf>, FolderError> {
        let numbers = numbers(dir)?;
        Ok(numbers.last().map(|last| journal(dir, *last)))
    }

    fn numbers(&self) -> Result<Vec<u64>, FolderError> {
        numbers(&self.dir)
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

/// Repeats a journal.
fn replayed(
    path: &Path,
    mut scheduler: Box<dyn Scheduler>,
    trigger: Box<dyn DecisionTrigger>,
    notices: &mut Vec<String>,
) -> Result<(Core, Box<dyn Scheduler>), FolderError> {
    let io = |error| FolderError::Io {
        path: path.to_owned(),
        error,
    };
    let wrong = |line, why: String| FolderError::Line {
        path: path.to_owned(),
        line,
        why,
    };
    let lines = BufReader::new(File::open(path).map_err(io)?).lines();
    let lines: Vec<String> = lines.collect::<Result<_, _>>().map_err(io)?;
    let Some(first) = lines.first() else {
        return Ok((Core::new(State::default(), trigger), scheduler));
    };
    let First { start } = match serde_json::from_str(first) {
        Ok(first) => first,
        Err(_) if lines.len() == 1 => {
            return Ok((Core::new(State::default(), trigger), scheduler));
        }
        Err(error) => return Err(wrong(1, error.to_string())),
    };
    let same = *start.scheduler == *scheduler.name();
    if !same {
        notices.push(format!(
            "the jobs come from `{}`; `{}` begins without its memory",
            start.scheduler,
            scheduler.name()
        ));
    } else if let Some(memory) = start.policy {
        let restored = scheduler.restore(memory);
        restored.map_err(|error| wrong(1, error.to_string()))?;
    }
    let core = Core::restore(start.core, trigger.clone());
    let mut follower = Follower::new(core, scheduler.clone());
    let mut decision = Box::<Decision>::default();
    for (i, text) in lines.iter().enumerate().skip(1) {
        let input: Input = match serde_json::from_str(text) {
            Ok(input) => input,
            Err(_) if i + 1 == lines.len() => {
                notices.push(format!(
                    "{}:{}: incomplete, left out",
                    path.display(),
                    i + 1
                ));
                break;
            }
            Err(error) => return Err(wrong(i + 1, error.to_string())),
        };
        match follower.follow(&input) {
            Ok(()) | Err(Refused::Plan(_)) => {}
            Err(error) => return Err(wrong(i + 1, error.to_string())),
        }
        if same && matches!(input, Input::Due { .. }) {
            // Only the memory matters: the journal has the answer.
            decision = follower.decide(decision).unwrap_or_default();
        }
    }
    let core = Core::restore(follower.core().save(), trigger);
    let scheduler = match same {
        true => dyn_clone::clone_box(follower.scheduler()),
        false => scheduler,
    };
    Ok((core, scheduler))
}

/// Returns the state and the scheduler at the end of a journal, for look-ahead. The
/// journal may still grow.
///
/// # Errors
/// The journal cannot be read, or a line contradicts those before it.
pub fn at_end_of(
    journal: &Path,
    scheduler: Box<dyn Scheduler>,
    trigger: Box<dyn DecisionTrigger>,
) -> Result<(State, Box<dyn Scheduler>, Time), FolderError> {
    let (core, scheduler) = replayed(journal, scheduler, trigger, &mut Vec::new())?;
    let now = core.state().now();
    Ok((core.into_state(), scheduler, now))
}
