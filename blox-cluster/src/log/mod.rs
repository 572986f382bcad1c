//! The scheduler's log: append-only segments with checksums, and snapshots. One scheduler at a time
//! can open it.
//!
//! [`Log::append`] buffers records. [`Log::sync`] writes all buffered records to disk in one frame
//! (group commit); they are durable once it returns. When a log is opened, a frame that was torn by
//! a crash is truncated. A damaged snapshot is replaced by the one before it and the log since then.
//! Any other damage is an error with its position, and nothing is changed.

mod check;
mod files;
mod frame;
mod repair;

pub use check::{Check, Content, Damage, FileCheck, check, dump};
pub use files::{FileHandle, Files, SystemFiles};
use frame::{HEAD, Kind};
pub use repair::{Lost, Repair, repair};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Version of the file format.
const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"BLOXLOG\n";
/// Size of a segment's header in bytes.
const PREFIX: usize = 12;
/// Segment size in bytes from which a new segment is started.
const SEGMENT: u64 = 64 << 20;
/// Limit on the body of a frame in bytes. A longer length indicates damage.
const LONGEST: usize = 1 << 30;

/// Name of a file that makes writes to the log's directory fail as if the disk were full.
#[cfg(test)]
pub(crate) const FULL: &str = "full";

/// Error of a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system reported an error, such as EIO. The state of the disk is unknown after a
    /// failed synchronization: a second one could report success for lost data, so the caller must
    /// stop.
    #[error("{path}: {error}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// The disk is full or read-only, or no file descriptor is left. The appended records are kept,
    /// and a later [`Log::sync`] may succeed.
    #[error(
        "{path}: {error}: free space for the log, since the scheduler starts only jobs that the log holds"
    )]
    NoRoom {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// Another scheduler uses the log.
    #[error("{path}: another scheduler uses this directory")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The log is damaged, and not by a crash during a write.
    #[error(
        "{path}: byte {position}: {what}; nothing was changed: `blox log check` lists the damage, `blox log repair` keeps what is readable"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Byte position in the file, from 0.
        position: u64,
        /// Description of the damage.
        what: String,
    },
    /// A file was removed.
    #[error(
        "{path} is missing: it begins with frame {frame}, which no other file holds; nothing was changed: put the file back, or `blox log repair` keeps what precedes it"
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// The number of the first frame that is missing.
        frame: u64,
    },
    /// No snapshot is intact, and the first segments are removed: no state is left to which later
    /// frames could be applied.
    #[error(
        "{path} is missing and no snapshot is intact: the state before frame {frame} is lost; nothing was changed, and nothing can be repaired: put missing files back, or restore a copy of the directory{why}"
    )]
    NoState {
        /// The first segment of the log.
        path: PathBuf,
        /// The number of the first frame that exists or must have existed.
        frame: u64,
        /// The damage of the newest snapshot in parentheses; empty if none exists.
        why: String,
    },
    /// A newer program wrote the file.
    #[error("{path}: written in format {found}, this program knows {known}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest known format.
        known: u32,
    },
}

/// Content of a log when it is opened.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The newest snapshot.
    pub snapshot: Option<Vec<u8>>,
    /// The records after the snapshot, oldest first.
    pub records: Vec<Vec<u8>>,
    /// Number of truncated bytes of a torn frame.
    pub torn: u64,
    /// Damage that costs nothing, as sentences for the operator.
    pub warnings: Vec<String>,
}

/// A log that is open for writing.
#[derive(Debug)]
pub struct Log {
    files: Arc<dyn Files>,
    dir: PathBuf,
    _lock: Option<File>,
    file: Box<dyn FileHandle>,
    path: PathBuf,
    written: u64,
    /// End of the last frame on disk.
    whole: u64,
    /// The bytes after `whole` must be truncated first.
    torn: bool,
    since_snapshot: u64,
    /// Number of the last frame.
    seq: u64,
    body: Vec<u8>,
    buffer: Vec<u8>,
}

/// Number of attempts to read a log in which a scheduler writes. Each new snapshot removes files.
const LOADS: u32 = 5;

/// Reads the log in `dir`, in which a scheduler may write meanwhile. It changes nothing.
///
/// # Errors
/// The directory cannot be read, or is damaged.
pub fn load(dir: &Path) -> Result<Recovered, LogError> {
    let mut tries = 1;
    loop {
        let gone = match read(&SystemFiles, dir) {
            Ok(reading) => {
                let mut recovered = reading.recovered;
                for (path, position, what) in reading.damaged {
                    let path = path.display();
                    recovered.warnings.push(format!(
                        "{path}: byte {position}: {what}: the snapshot before it and the log since then are used"
                    ));
                }
                return Ok(recovered);
            }
            Err(gone @ (LogError::Missing { .. } | LogError::NoState { .. })) => gone,
            Err(LogError::Io { path, error }) if error.kind() == std::io::ErrorKind::NotFound => {
                LogError::Io { path, error }
            }
            Err(error) => return Err(error),
        };
        if tries == LOADS {
            return Err(gone);
        }
        tries += 1;
    }
}

/// Size of the file with which [`probe`] looks for room.
const PROBE: usize = 64 << 10;

/// Checks that a start has room in the directory of a log, if that exists. It leaves no file.
///
/// # Errors
/// The disk is [full](LogError::NoRoom), or the directory cannot be used.
pub fn probe(dir: &Path) -> Result<(), LogError> {
    if !dir.is_dir() {
        return Ok(());
    }
    let path = dir.join("room.tmp");
    let written = SystemFiles.create(&path).and_then(|mut file| {
        file.append(&vec![0; PROBE])?;
        file.sync()
    });
    // A file that could not be created is not there.
    let _ = SystemFiles.remove(&path);
    written.map_err(at(&path))
}

impl Log {
    /// Opens the log in `dir`, and creates the directory if it does not exist.
    ///
    /// # Errors
    /// The directory is in use, cannot be read, or is damaged.
    pub fn open(dir: &Path) -> Result<(Log, Recovered), LogError> {
        crate::private::folder(dir).map_err(at(dir))?;
        let lock = lock(dir)?;
        let (log, recovered) = Log::open_in(Arc::new(SystemFiles), dir)?;
        Ok((
            Log {
                _lock: Some(lock),
                ..log
            },
            recovered,
        ))
    }

    /// Opens the log in the directory `dir` of other files. The caller makes sure that no other
    /// process uses the directory.
    ///
    /// # Errors
    /// The directory cannot be read, or is damaged.
    pub fn open_in(files: Arc<dyn Files>, dir: &Path) -> Result<(Log, Recovered), LogError> {
        files.create_dir(dir).map_err(at(dir))?;
        let Reading {
            mut recovered,
            damaged,
            seq,
            last,
        } = read(&*files, dir)?;
        for (path, position, what) in damaged {
            let aside = with_suffix(&path, ".damaged");
            files.rename(&path, &aside).map_err(at(&path))?;
            files.sync_dir(dir).map_err(at(dir))?;
            recovered.warnings.push(format!(
                "{}: byte {position}: {what}: the snapshot before it and the log since then are used; it is kept as {}",
                path.display(),
                aside.display()
            ));
        }
        if let Some((path, whole, _)) = last.as_ref().filter(|_| recovered.torn > 0) {
            let mut file = files.open(path).map_err(at(path))?;
            file.set_len(*whole).map_err(at(path))?;
            file.sync().map_err(at(path))?;
        }
        let (file, path, written) = match last {
            Some((path, whole, _)) => {
                let file = files.open(&path).map_err(at(&path))?;
                (file, path, whole)
            }
            None => begin_segment(&*files, dir, seq + 1)?,
        };
        let log = Log {
            files,
            dir: dir.to_owned(),
            _lock: None,
            file,
            path,
            written,
            whole: written,
            torn: false,
            since_snapshot: recovered.records.iter().map(|r| r.len() as u64).sum(),
            seq,
            body: Vec::new(),
            buffer: Vec::new(),
        };
        Ok((log, recovered))
    }

    /// Buffers a record. It is durable after the next [`Log::sync`].
    pub fn append(&mut self, record: &[u8]) {
        frame::push(record, &mut self.body);
    }

    /// Writes all buffered records to disk, as one frame.
    ///
    /// # Errors
    /// If the disk is [full](LogError::NoRoom), the call may be repeated. After any other error the
    /// log must not be used any more.
    pub fn sync(&mut self) -> Result<(), LogError> {
        if self.body.is_empty() {
            return Ok(());
        }
        if self.torn {
            self.mend().map_err(at(&self.path))?;
        }
        if self.written >= SEGMENT {
            self.next_segment()?;
        }
        self.buffer.clear();
        frame::write(Kind::Data, self.seq + 1, &self.body, &mut self.buffer);
        if let Err(error) = self.put() {
            self.torn = true;
            // Half a frame is truncated; if this fails now, it is repeated before the next frame.
            let _ = self.mend();
            return Err(at(&self.path)(error));
        }
        self.seq += 1;
        self.written += self.buffer.len() as u64;
        self.whole = self.written;
        self.since_snapshot += self.buffer.len() as u64;
        self.body.clear();
        // The mark is not synchronized. If writing it fails, the next frame reports a persistent
        // error.
        self.buffer.clear();
        frame::write(Kind::Mark, self.seq, &[], &mut self.buffer);
        match self.write() {
            Ok(()) => self.written += self.buffer.len() as u64,
            Err(_) => self.torn = true,
        }
        Ok(())
    }

    /// Writes the buffer to disk.
    fn put(&mut self) -> std::io::Result<()> {
        self.write()?;
        self.file.sync()
    }

    fn write(&mut self) -> std::io::Result<()> {
        #[cfg(test)]
        if self.dir.join(FULL).exists() {
            self.file.append(&self.buffer[..self.buffer.len() / 2])?;
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.file.append(&self.buffer)
    }

    /// Truncates an incomplete frame. Bytes that the operating system dropped with the error are
    /// written again afterwards.
    fn mend(&mut self) -> std::io::Result<()> {
        self.file.set_len(self.whole)?;
        self.written = self.whole;
        self.torn = false;
        Ok(())
    }

    fn next_segment(&mut self) -> Result<(), LogError> {
        if self.path == segment(&self.dir, self.seq + 1) {
            // The segment has no frame yet.
            return Ok(());
        }
        // Only the last segment may end with a torn mark.
        self.file.sync().map_err(at(&self.path))?;
        (self.file, self.path, self.written) =
            begin_segment(&*self.files, &self.dir, self.seq + 1)?;
        (self.whole, self.torn) = (self.written, false);
        Ok(())
    }

    /// Returns the number of bytes since the last snapshot was begun.
    pub fn bytes(&self) -> u64 {
        self.since_snapshot
    }

    /// Writes a snapshot of the persistent state as of the last [`Log::sync`]. Removes older
    /// segments, and all but the last two snapshots.
    ///
    /// # Errors
    /// The write failed; the previous state is intact.
    pub fn snapshot(&mut self, all: &[u8]) -> Result<(), LogError> {
        self.turn_page()?.write(all)
    }

    /// Starts a new segment. A snapshot of the state at this time can be written later by another
    /// thread while the log is in use.
    ///
    /// # Errors
    /// If the disk is [full](LogError::NoRoom), the log is unchanged. After any other error the log
    /// must not be used any more.
    pub fn turn_page(&mut self) -> Result<Page, LogError> {
        if self.torn {
            self.mend().map_err(at(&self.path))?;
        }
        self.next_segment()?;
        self.since_snapshot = 0;
        Ok(Page {
            files: Arc::clone(&self.files),
            dir: self.dir.clone(),
            seq: self.seq,
        })
    }
}

/// Position of a snapshot: the state at the end of a segment.
#[derive(Debug)]
pub struct Page {
    files: Arc<dyn Files>,
    dir: PathBuf,
    seq: u64,
}

impl Page {
    /// Writes a snapshot of the persistent state at this position. Removes older segments, and all
    /// but the last two snapshots.
    ///
    /// # Errors
    /// The write failed; the previous state is intact.
    pub fn write(self, all: &[u8]) -> Result<(), LogError> {
        let path = self.dir.join(format!("snapshot-{:016x}", self.seq));
        let tmp = self.dir.join("snapshot.tmp");
        let mut bytes = Vec::with_capacity(all.len() + HEAD);
        frame::write(Kind::Snapshot, self.seq, all, &mut bytes);
        let written = self.files.create(&tmp).and_then(|mut file| {
            file.append(&bytes)?;
            file.sync()
        });
        if let Err(error) = written {
            // A partial snapshot must not use the space that is left.
            let _ = self.files.remove(&tmp);
            return Err(at(&tmp)(error));
        }
        self.files.rename(&tmp, &path).map_err(at(&path))?;
        self.files.sync_dir(&self.dir).map_err(at(&self.dir))?;
        let (segments, snapshots) = list(&*self.files, &self.dir)?;
        let kept = snapshots.len().saturating_sub(2);
        let oldest = snapshots.get(kept).map_or(0, |(seq, _)| *seq);
        for (_, old) in &snapshots[..kept] {
            self.files.remove(old).map_err(at(old))?;
        }
        // A segment is needed unless the next one starts at or before the oldest kept position.
        for pair in segments.windows(2) {
            if pair[1].0 <= oldest + 1 {
                self.files.remove(&pair[0].1).map_err(at(&pair[0].1))?;
            }
        }
        Ok(())
    }
}

/// Content of a log's directory. Reading changes nothing.
struct Reading {
    recovered: Recovered,
    /// Damaged snapshots that are not needed: path, position and description.
    damaged: Vec<(PathBuf, u64, String)>,
    /// Number of the last frame.
    seq: u64,
    /// The last segment: path, length of its intact part, and its length in bytes.
    last: Option<(PathBuf, u64, u64)>,
}

/// Reads the newest intact snapshot and the records after it.
fn read(files: &dyn Files, dir: &Path) -> Result<Reading, LogError> {
    let mut recovered = Recovered::default();
    let (segments, snapshots) = list(files, dir)?;
    let mut seq = 0;
    let mut damaged = Vec::new();
    for (number, path) in snapshots.iter().rev() {
        let bytes = files.read(path).map_err(at(path))?;
        match read_snapshot(path, bytes, *number) {
            Ok(snapshot) => {
                recovered.snapshot = Some(snapshot);
                seq = *number;
                break;
            }
            Err(LogError::Damaged {
                path,
                position,
                what,
            }) => damaged.push((path, position, what)),
            Err(error) => return Err(error),
        }
    }
    let begins_with = segments.first().map(|(from, _)| *from);
    let has_files = begins_with.is_some() || !damaged.is_empty();
    if recovered.snapshot.is_none() && begins_with != Some(1) && has_files {
        let newest = snapshots.last().map_or(0, |(number, _)| *number);
        let why = damaged.first().map(|(path, position, what)| {
            format!(" ({}: byte {position}: {what})", path.display())
        });
        return Err(LogError::NoState {
            path: segment(dir, 1),
            frame: begins_with.unwrap_or(newest + 1),
            why: why.unwrap_or_default(),
        });
    }
    let base = seq;
    // The log since an older snapshot must replace a damaged one.
    let irreplaceable = |missing: LogError| match damaged.first().cloned() {
        Some((path, position, what)) => LogError::Damaged {
            path,
            position,
            what,
        },
        None => missing,
    };
    // Segments that the snapshot covers completely are not needed.
    let first = segments.iter().rposition(|(from, _)| *from <= base + 1);
    let needed = &segments[first.unwrap_or(0)..];
    let missing = |frame: u64| LogError::Missing {
        path: segment(dir, frame),
        frame,
    };
    // The next segment is started before a snapshot is written.
    if !snapshots.is_empty() && needed.first().is_none_or(|(from, _)| *from != base + 1) {
        return Err(irreplaceable(missing(base + 1)));
    }
    let mut last = None;
    for (i, (from, path)) in needed.iter().enumerate() {
        if *from > seq + 1 {
            return Err(missing(seq + 1));
        }
        let is_last = i + 1 == needed.len();
        let bytes = files.read(path).map_err(at(path))?;
        let whole = read_segment(path, &bytes, is_last, *from, base, &mut seq, &mut recovered)?;
        let len = bytes.len() as u64;
        recovered.torn = len - whole;
        last = Some((path.clone(), whole, len));
    }
    let newest = snapshots.last().map_or(0, |(number, _)| *number);
    if seq < newest {
        return Err(irreplaceable(missing(seq + 1)));
    }
    if !snapshots.is_empty() && segments.iter().all(|(from, _)| *from != newest + 1) {
        // A segment follows also a damaged snapshot.
        return Err(missing(newest + 1));
    }
    Ok(Reading {
        recovered,
        damaged,
        seq,
        last,
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> LogError + '_ {
    |error| {
        let path = path.to_owned();
        match is_no_room(&error) {
            true => LogError::NoRoom { path, error },
            false => LogError::Io { path, error },
        }
    }
}

/// Error numbers of Linux: too many open files, of the system and of the process.
const TOO_MANY_FILES: [i32; 2] = [23, 24];

/// Returns true if a later attempt may succeed, and nothing that was written is lost.
fn is_no_room(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let kind = error.kind();
    let without_number = [StorageFull, QuotaExceeded, FileTooLarge, ReadOnlyFilesystem];
    let number = error.raw_os_error();
    without_number.contains(&kind) || number.is_some_and(|n| TOO_MANY_FILES.contains(&n))
}

fn damaged(path: &Path, position: usize, what: impl Into<String>) -> LogError {
    LogError::Damaged {
        path: path.to_owned(),
        position: position as u64,
        what: what.into(),
    }
}

/// Number of attempts to lock the directory. A released lock may be held for a moment by a child
/// process that its previous holder has just forked and that has not yet executed its program.
const LOCK_TRIES: u32 = 50;
const LOCK_WAIT: Duration = Duration::from_millis(10);

fn lock(dir: &Path) -> Result<File, LogError> {
    let path = dir.join("lock");
    let file = crate::private::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(at(&path))?;
    for tried in 0..LOCK_TRIES {
        if tried > 0 {
            std::thread::sleep(LOCK_WAIT);
        }
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(LogError::Io { path, error }),
        }
    }
    Err(LogError::InUse {
        path: dir.to_owned(),
    })
}

type Numbered = Vec<(u64, PathBuf)>;

/// Lists segments by their first frame and snapshots by their last frame, each in order.
fn list(files: &dyn Files, dir: &Path) -> Result<(Numbered, Numbered), LogError> {
    let (mut segments, mut snapshots) = (Vec::new(), Vec::new());
    for path in files.list(dir).map_err(at(dir))? {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        let number = |prefix: &str| {
            let hex = name.strip_prefix(prefix)?;
            u64::from_str_radix(hex, 16).ok()
        };
        if let Some(n) = number("segment-") {
            segments.push((n, path));
        } else if let Some(n) = number("snapshot-") {
            snapshots.push((n, path));
        }
    }
    segments.sort();
    snapshots.sort();
    Ok((segments, snapshots))
}

fn segment(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("segment-{first:016x}"))
}

type Segment = (Box<dyn FileHandle>, PathBuf, u64);

fn begin_segment(files: &dyn Files, dir: &Path, first: u64) -> Result<Segment, LogError> {
    let (path, new) = (segment(dir, first), dir.join("segment.tmp"));
    let mut prefix = MAGIC.to_vec();
    prefix.extend(VERSION.to_le_bytes());
    let begun = files.create(&new).and_then(|mut file| {
        #[cfg(test)]
        if dir.join(FULL).exists() {
            file.append(&prefix[..5])?;
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        file.append(&prefix)?;
        file.sync()?;
        files.rename(&new, &path)?;
        files.sync_dir(dir)?;
        Ok(file)
    });
    match begun {
        Ok(file) => Ok((file, path, PREFIX as u64)),
        Err(error) => {
            // The previous segment may remain in use. A crash must not restore this file, because the
            // previous segment would then count as damaged.
            let removed = [&new, &path].map(|file| match files.remove(file) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            });
            let removed: std::io::Result<()> = removed.into_iter().collect();
            match removed.and_then(|()| files.sync_dir(dir)) {
                Err(e) => Err(at(&path)(e)),
                Ok(()) => Err(at(&path)(error)),
            }
        }
    }
}

/// Verifies a snapshot, and returns its content in the same memory.
fn read_snapshot(path: &Path, mut bytes: Vec<u8>, number: u64) -> Result<Vec<u8>, LogError> {
    let head = frame::head(&bytes)
        .filter(|h| h.kind == Kind::Snapshot && h.seq == number)
        .ok_or_else(|| damaged(path, 0, "the head of the snapshot does not check"))?;
    let end = match frame::body(&head, &bytes) {
        Some(body) => HEAD + body.len(),
        None => return Err(damaged(path, HEAD, "the snapshot does not check")),
    };
    bytes.truncate(end);
    bytes.drain(..HEAD);
    Ok(bytes)
}

/// Reads a segment, and returns the length of its intact part in bytes.
fn read_segment(
    path: &Path,
    bytes: &[u8],
    last: bool,
    from: u64,
    base: u64,
    seq: &mut u64,
    into: &mut Recovered,
) -> Result<u64, LogError> {
    if bytes.len() < PREFIX {
        // The header was on disk before the file had its name.
        return Err(damaged(path, 0, "the segment is cut off"));
    }
    if bytes[..8] != MAGIC {
        return Err(damaged(path, 0, "this is no segment of a log"));
    }
    let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    if version > VERSION {
        return Err(LogError::Newer {
            path: path.to_owned(),
            found: version,
            known: VERSION,
        });
    }
    if version == 0 {
        return Err(damaged(path, 8, "there is no format 0"));
    }
    let mut position = PREFIX;
    let mut expected = from;
    while position < bytes.len() {
        let rest = &bytes[position..];
        let good = frame::head(rest).filter(|h| (h.len as usize) < LONGEST);
        let body = good.as_ref().and_then(|h| frame::body(h, rest));
        let (Some(head), Some(body)) = (good, body) else {
            // Synchronized data is always followed by an intact frame or mark.
            let later = (1..rest.len()).any(|i| {
                frame::head(&rest[i..])
                    .is_some_and(|h| h.seq >= expected && h.kind != Kind::Snapshot)
            });
            if later || !last {
                return Err(damaged(
                    path,
                    position,
                    format!("frame {expected} does not check"),
                ));
            }
            return Ok(position as u64);
        };
        match head.kind {
            Kind::Mark if head.seq + 1 == expected => {}
            Kind::Data if head.seq == expected => {
                expected += 1;
                if head.seq > base {
                    let records = frame::records(body)
                        .ok_or_else(|| damaged(path, position, "the records do not add up"))?;
                    into.records.extend(records);
                    *seq = head.seq;
                }
            }
            _ => {
                let what = format!("frame {} where {expected} was expected", head.seq);
                return Err(damaged(path, position, what));
            }
        }
        position += HEAD + body.len();
    }
    Ok(position as u64)
}

#[cfg(test)]
mod tests;
