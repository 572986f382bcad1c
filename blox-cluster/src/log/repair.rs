//! Repair of a damaged log: keeps the longest intact beginning, and all originals.

use super::check::{Content, FileCheck, check_in, frames};
use super::{
    Files, Log, LogError, MAGIC, PREFIX, Recovered, SystemFiles, VERSION, at, begin_segment, list,
    lock, read_segment,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Frames that a repaired log lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Number of the first lost frame.
    pub first: u64,
    /// Number of the last frame that is known to have existed; `None` if the file that began with
    /// the first lost frame is missing, and nothing after it exists.
    pub last: Option<u64>,
    /// The steps of lost frames that can be read, in order.
    pub steps: Vec<Vec<u8>>,
}

/// Result of a repair.
#[derive(Debug, Default)]
pub struct Repair {
    /// Directory with the originals of all changed files; `None` if nothing was changed.
    pub originals: Option<PathBuf>,
    /// The changes, as sentences.
    pub changes: Vec<String>,
    /// Lost records, if any.
    pub lost: Option<Lost>,
}

/// Repairs the log in `dir`. Damaged snapshots that the log replaces are moved away, and a damaged
/// header of a segment is written again. The log is cut before any other damage or a missing
/// segment. The originals are copied into a new directory `repair-N` first.
///
/// # Errors
/// The directory is in use, or a file cannot be read or written. No intact snapshot and no first
/// segment exists: then nothing is changed ([`LogError::NoState`]).
pub fn repair(dir: &Path) -> Result<Repair, LogError> {
    let _lock = lock(dir)?;
    let files = SystemFiles;
    let check = check_in(&files, dir)?;
    if check.is_intact() {
        return Ok(Repair::default());
    }
    let damaged = |file: &&FileCheck| file.damage.is_some();
    let (segments, snapshots) = list(&files, dir)?;
    let is_damaged = |path: &Path| check.files.iter().filter(damaged).any(|f| f.path == path);
    let base = snapshots.iter().rev().find(|(_, path)| !is_damaged(path));
    let base = base.map_or(0, |(number, _)| *number);
    // Nothing that follows makes sense without the state before it.
    let missing = match check.refused {
        Some(error @ LogError::NoState { .. }) => return Err(error),
        Some(LogError::Missing { path, .. }) => Some(path),
        _ => None,
    };
    let mut aside = Aside::new(&files, dir);
    let mut lost = Lost::default();
    for file in check.files.iter().filter(damaged) {
        if let (Content::Snapshot { frame }, Some(damage)) = (file.content, &file.damage) {
            aside.remove(&file.path, &damage.what)?;
            lost.last = lost.last.max(Some(frame));
        }
    }
    // A segment begins after each snapshot. Earlier segments serve only an older snapshot.
    let obsolete = segments
        .iter()
        .take_while(|(from, _)| *from <= base)
        .count();
    if segments[..obsolete]
        .iter()
        .any(|(_, path)| is_damaged(path))
    {
        let older = snapshots.iter().filter(|(number, _)| *number < base);
        let older = older.filter(|(_, path)| !is_damaged(path));
        for (_, path) in older.chain(&segments[..obsolete]) {
            aside.remove(
                path,
                "the log after it is damaged, and a later snapshot has its content",
            )?;
        }
    }
    let needed = &segments[obsolete..];
    let mut seq = base;
    // Set at the first damage: all that follows is lost.
    let mut cut = false;
    for (i, (from, path)) in needed.iter().enumerate() {
        let mut bytes = files.read(path).map_err(at(path))?;
        cut |= *from > seq + 1;
        if cut {
            lost.add(&bytes, 0, *from - 1);
            aside.remove(path, "frames before it are lost")?;
            continue;
        }
        if bytes.len() > PREFIX && !begins_well(&bytes) && frames(&bytes, PREFIX).next().is_some() {
            bytes[..PREFIX].copy_from_slice(&header());
            aside.replace(path, &bytes, "its header is written again")?;
        }
        let mut recovered = Recovered::default();
        let is_last = i + 1 == needed.len();
        let whole = read_segment(path, &bytes, is_last, *from, base, &mut seq, &mut recovered);
        let position = match whole {
            Ok(_) => continue,
            Err(LogError::Damaged { position, .. }) => position,
            Err(error) => return Err(error),
        };
        cut = true;
        lost.add(&bytes, position as usize, seq);
        if position < PREFIX as u64 {
            aside.remove(path, "it has no readable frame")?;
        } else {
            let what = format!("it is cut at byte {position}, before frame {}", seq + 1);
            aside.replace(path, &bytes[..position as usize], &what)?;
        }
    }
    let (left, _) = list(&files, dir)?;
    if left.iter().all(|(from, _)| *from != base + 1) {
        begin_segment(&files, dir, base + 1)?;
    }
    lost.first = seq + 1;
    lost.last = lost.last.filter(|last| *last > seq);
    if let Some(path) = &missing {
        let what = "is missing: the log ends before its first frame";
        aside.changes.push(format!("{} {what}", path.display()));
    }
    let has_lost = lost.last.is_some() || missing.is_some();
    if has_lost {
        aside.keep_steps(&lost)?;
    }
    let Aside { to, changes, .. } = aside;
    // The result must start.
    drop(Log::open_in(Arc::new(SystemFiles), dir)?);
    Ok(Repair {
        originals: to,
        changes,
        lost: has_lost.then_some(lost),
    })
}

fn header() -> [u8; PREFIX] {
    let mut header = [0; PREFIX];
    header[..8].copy_from_slice(&MAGIC);
    header[8..].copy_from_slice(&VERSION.to_le_bytes());
    header
}

fn begins_well(bytes: &[u8]) -> bool {
    bytes.starts_with(&header())
}

impl Lost {
    /// Adds the readable frames of a segment from a position on, whose numbers are above `seq`.
    fn add(&mut self, bytes: &[u8], from: usize, seq: u64) {
        self.last = self.last.max(Some(seq + 1));
        for (number, steps) in frames(bytes, from).filter(|(number, _)| *number > seq) {
            self.last = self.last.max(Some(number));
            self.steps.extend(steps);
        }
    }
}

/// Directory that receives the originals of changed files.
struct Aside<'a> {
    files: &'a dyn Files,
    dir: &'a Path,
    to: Option<PathBuf>,
    changes: Vec<String>,
}

impl<'a> Aside<'a> {
    fn new(files: &'a dyn Files, dir: &'a Path) -> Self {
        Aside {
            files,
            dir,
            to: None,
            changes: Vec::new(),
        }
    }

    /// Returns the directory, which is created at the first change.
    fn dir(&mut self) -> Result<PathBuf, LogError> {
        if let Some(to) = &self.to {
            return Ok(to.clone());
        }
        let numbered = (1_u32..).map(|n| self.dir.join(format!("repair-{n}")));
        let mut free = numbered.filter(|path| !path.exists());
        let to = free.next().unwrap_or_else(|| self.dir.join("repair"));
        self.files.create_dir(&to).map_err(at(&to))?;
        self.to = Some(to.clone());
        Ok(to)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), LogError> {
        let mut file = self.files.create(path).map_err(at(path))?;
        file.append(bytes).map_err(at(path))?;
        file.sync().map_err(at(path))
    }

    fn kept(&mut self, path: &Path) -> Result<PathBuf, LogError> {
        let to = self.dir()?;
        Ok(path.file_name().map_or(to.clone(), |name| to.join(name)))
    }

    fn remove(&mut self, path: &Path, what: &str) -> Result<(), LogError> {
        let kept = self.kept(path)?;
        self.files.rename(path, &kept).map_err(at(path))?;
        self.sync()?;
        let text = format!("{} is moved away: {what}", path.display());
        self.changes.push(text);
        Ok(())
    }

    fn replace(&mut self, path: &Path, bytes: &[u8], what: &str) -> Result<(), LogError> {
        let kept = self.kept(path)?;
        if !kept.exists() {
            let original = self.files.read(path).map_err(at(path))?;
            self.write(&kept, &original)?;
        }
        self.sync()?;
        let tmp = path.with_extension("tmp");
        self.write(&tmp, bytes)?;
        self.files.rename(&tmp, path).map_err(at(path))?;
        self.sync()?;
        self.changes.push(format!("{}: {what}", path.display()));
        Ok(())
    }

    /// Writes the readable lost steps as JSON lines.
    fn keep_steps(&mut self, lost: &Lost) -> Result<(), LogError> {
        let path = self.dir()?.join("lost.jsonl");
        let mut text = Vec::new();
        for step in &lost.steps {
            text.extend_from_slice(step);
            text.push(b'\n');
        }
        self.write(&path, &text)?;
        self.sync()
    }

    fn sync(&self) -> Result<(), LogError> {
        let to = self.to.as_deref().unwrap_or(self.dir);
        self.files.sync_dir(to).map_err(at(to))?;
        self.files.sync_dir(self.dir).map_err(at(self.dir))
    }
}
