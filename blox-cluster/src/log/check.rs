//! Verification and output of a log, without changes.

use super::frame::{self, HEAD, Kind};
use super::{
    Files, LogError, Numbered, PREFIX, Recovered, SystemFiles, at, list, read, read_segment,
    read_snapshot,
};
use std::path::{Path, PathBuf};

/// Content of a file of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A snapshot of the state after this frame.
    Snapshot {
        /// The number of the frame.
        frame: u64,
    },
    /// A segment.
    Segment {
        /// Number of its first frame.
        first: u64,
        /// Number of its intact frames before any damage.
        frames: u64,
        /// Number of steps in these frames.
        steps: u64,
    },
}

/// Damage of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Byte position in the file, from 0.
    pub position: u64,
    /// Description of the damage.
    pub what: String,
}

/// Result of the verification of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCheck {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its content.
    pub content: Content,
    /// Its first damage, if any.
    pub damage: Option<Damage>,
    /// Bytes of an incomplete frame at the end of the log, which a start removes. The write of this
    /// frame was never acknowledged.
    pub torn: u64,
}

/// Result of the verification of a log.
#[derive(Debug)]
pub struct Check {
    /// All snapshots, then all segments, each in order.
    pub files: Vec<FileCheck>,
    /// Why a scheduler cannot start with the log, if it cannot.
    pub refused: Option<LogError>,
}

impl Check {
    /// Returns true if no file is damaged and a scheduler can start with the log.
    pub fn is_intact(&self) -> bool {
        self.refused.is_none() && self.files.iter().all(|file| file.damage.is_none())
    }
}

/// Verifies every snapshot and segment of the log in `dir`, and changes nothing. A running scheduler
/// may write the log meanwhile.
///
/// # Errors
/// The directory or a file cannot be read.
pub fn check(dir: &Path) -> Result<Check, LogError> {
    check_in(&SystemFiles, dir)
}

pub(super) fn check_in(files: &dyn Files, dir: &Path) -> Result<Check, LogError> {
    let (segments, snapshots) = list(files, dir)?;
    let mut all = Vec::new();
    for (number, path) in &snapshots {
        let bytes = files.read(path).map_err(at(path))?;
        let len = bytes.len() as u64;
        let damage = damage_of(read_snapshot(path, bytes, *number))?;
        all.push(FileCheck {
            path: path.clone(),
            bytes: len,
            content: Content::Snapshot { frame: *number },
            damage: damage.1,
            torn: 0,
        });
    }
    for (i, (first, path)) in segments.iter().enumerate() {
        let bytes = files.read(path).map_err(at(path))?;
        let mut seq = first - 1;
        let mut recovered = Recovered::default();
        let is_last = i + 1 == segments.len();
        let read = read_segment(path, &bytes, is_last, *first, 0, &mut seq, &mut recovered);
        let (whole, damage) = damage_of(read)?;
        let len = bytes.len() as u64;
        all.push(FileCheck {
            path: path.clone(),
            bytes: len,
            content: Content::Segment {
                first: *first,
                frames: (seq + 1).saturating_sub(*first),
                steps: recovered.records.len() as u64,
            },
            damage,
            torn: whole.map_or(0, |whole| len - whole),
        });
    }
    for i in 1..all.len() {
        let Content::Segment { first: next, .. } = all[i].content else {
            continue;
        };
        let before = &mut all[i - 1];
        let Content::Segment { first, frames, .. } = before.content else {
            continue;
        };
        if before.damage.is_none() && first + frames < next {
            let what = format!("frame {} is missing", first + frames);
            let position = before.bytes;
            before.damage = Some(Damage { position, what });
        }
    }
    let refused = match read(files, dir) {
        Ok(_) => None,
        Err(error @ LogError::Io { .. }) => return Err(error),
        Err(error) => Some(error),
    };
    Ok(Check {
        files: all,
        refused,
    })
}

/// Separates damage from other errors. A newer format counts as damage, because one flipped bit of
/// the number looks the same.
fn damage_of<T>(result: Result<T, LogError>) -> Result<(Option<T>, Option<Damage>), LogError> {
    match result {
        Ok(value) => Ok((Some(value), None)),
        Err(LogError::Damaged { position, what, .. }) => {
            Ok((None, Some(Damage { position, what })))
        }
        Err(LogError::Newer { found, known, .. }) => {
            let what = format!("written in format {found}, this program knows {known}");
            Ok((None, Some(Damage { position: 8, what })))
        }
        Err(error) => Err(error),
    }
}

/// Passes the oldest intact snapshot and the records after it to `show`, with the number of their
/// frame. The first argument is true for a snapshot. It reads one segment at a time.
///
/// # Errors
/// A file cannot be read, or is damaged: what precedes the damage was shown. Otherwise the error of
/// `show`.
pub fn dump<E: From<LogError>>(
    dir: &Path,
    mut show: impl FnMut(bool, u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let files = SystemFiles;
    let (segments, snapshots): (Numbered, Numbered) = list(&files, dir)?;
    let mut base = 0;
    for (number, path) in &snapshots {
        let bytes = files.read(path).map_err(at(path))?;
        if let Ok(snapshot) = read_snapshot(path, bytes, *number) {
            show(true, *number, &snapshot)?;
            base = *number;
            break;
        }
    }
    let first = segments.iter().rposition(|(from, _)| *from <= base + 1);
    let needed = &segments[first.unwrap_or(0)..];
    let mut seq = base;
    for (i, (from, path)) in needed.iter().enumerate() {
        if *from > seq + 1 {
            let frame = seq + 1;
            let path = super::segment(dir, frame);
            return Err(LogError::Missing { path, frame }.into());
        }
        let bytes = files.read(path).map_err(at(path))?;
        let is_last = i + 1 == needed.len();
        let mut recovered = Recovered::default();
        let before = seq;
        let read = read_segment(path, &bytes, is_last, *from, base, &mut seq, &mut recovered);
        // The records are shown by frame, up to the damage.
        for (number, records) in frames(&bytes, PREFIX) {
            if number > before && number <= seq {
                for record in records {
                    show(false, number, &record)?;
                }
            }
        }
        read?;
    }
    Ok(())
}

/// Returns the readable frames of a segment from a position on, with their records. It skips bytes
/// that are no frame.
pub(super) fn frames(bytes: &[u8], from: usize) -> impl Iterator<Item = (u64, Vec<Vec<u8>>)> {
    let mut position = from;
    std::iter::from_fn(move || {
        while position < bytes.len() {
            let rest = &bytes[position..];
            let head = frame::head(rest);
            let body = head.as_ref().and_then(|head| frame::body(head, rest));
            let (Some(head), Some(body)) = (head, body) else {
                position += 1;
                continue;
            };
            position += HEAD + body.len();
            if let Some(records) = frame::records(body).filter(|_| head.kind == Kind::Data) {
                return Some((head.seq, records));
            }
        }
        None
    })
}
