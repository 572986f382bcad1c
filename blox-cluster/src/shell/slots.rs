//! Small values that are renewed without the disk's room: a file with two slots, both written in full
//! when it is created. A new value replaces the older slot in place, so the other slot stays readable.

use super::files;
use serde::{Serialize, de::DeserializeOwned};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Size of a slot in bytes: checksum, length, number, and the value as JSON.
const SLOT: usize = 1024;
const HEAD: usize = 16;

/// An open file of two slots.
#[derive(Debug)]
pub(super) struct Slots {
    file: File,
    /// Number of the last value.
    seq: u64,
}

impl Slots {
    /// Creates a file with a value, and replaces an existing one.
    ///
    /// # Errors
    /// The operating system failed, for example because the disk is full.
    pub fn create<T: Serialize>(path: &Path, value: &T) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let file = options
            .create_new(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path)?;
        file.write_all_at(&[0; 2 * SLOT], 0)?;
        let mut slots = Slots { file, seq: 0 };
        slots.write(value)?;
        Ok(slots)
    }

    /// Opens a file, to read and to write.
    ///
    /// # Errors
    /// The file does not exist or cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(flags.bits() as i32);
        let mut slots = Slots {
            file: options.open(path)?,
            seq: 0,
        };
        slots.seq = slots.newest().map_or(0, |(seq, _)| seq);
        Ok(slots)
    }

    /// Returns the last value; `None` if neither slot is valid.
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        let (_, json) = self.newest()?;
        serde_json::from_slice(&json).ok()
    }

    fn newest(&self) -> Option<(u64, Vec<u8>)> {
        let slots = [0, 1].map(|i| {
            let mut slot = [0; SLOT];
            let read = self.file.read_exact_at(&mut slot, (i * SLOT) as u64);
            read.ok().and_then(|()| parse(&slot))
        });
        slots.into_iter().flatten().max_by_key(|(seq, _)| *seq)
    }

    /// Replaces the older slot in place.
    ///
    /// # Errors
    /// The value is too long, or the operating system failed.
    pub fn write<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let json = serde_json::to_vec(value)?;
        if json.len() > SLOT - HEAD {
            let text = format!("a value of {} bytes does not fit into a slot", json.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let seq = self.seq + 1;
        let mut slot = [0; SLOT];
        slot[4..8].copy_from_slice(&(json.len() as u32).to_le_bytes());
        slot[8..16].copy_from_slice(&seq.to_le_bytes());
        slot[HEAD..HEAD + json.len()].copy_from_slice(&json);
        let sum = crc32c::crc32c(&slot[4..]);
        slot[..4].copy_from_slice(&sum.to_le_bytes());
        self.file.write_all_at(&slot, seq % 2 * SLOT as u64)?;
        self.seq = seq;
        Ok(())
    }

    /// Writes the last value to disk.
    ///
    /// # Errors
    /// The operating system failed.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn parse(slot: &[u8; SLOT]) -> Option<(u64, Vec<u8>)> {
    let sum = u32::from_le_bytes(slot[..4].try_into().ok()?);
    let len = u32::from_le_bytes(slot[4..8].try_into().ok()?) as usize;
    let seq = u64::from_le_bytes(slot[8..16].try_into().ok()?);
    let json = slot.get(HEAD..HEAD.checked_add(len)?)?;
    (seq > 0 && sum == crc32c::crc32c(&slot[4..])).then(|| (seq, json.to_vec()))
}

/// Returns the last session of the node manager in a state directory.
pub(super) fn session(dir: &Path) -> io::Result<Option<u64>> {
    match kept(&dir.join("session"))? {
        // Versions before 0.2 replaced a file.
        None => files::read(&dir.join("session.json")),
        session => Ok(session),
    }
}

/// Returns a value that [`keep`] wrote.
pub(super) fn kept<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let slots = match Slots::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        slots => slots?,
    };
    let text = || format!("{}: no slot is valid", path.display());
    let value = slots.read();
    value
        .map(Some)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text()))
}

/// Writes a value to disk, in place once the file exists.
pub(super) fn keep<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    match Slots::open(path) {
        Ok(mut slots) => {
            slots.write(value)?;
            slots.sync()
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let tmp = path.with_extension("tmp");
            Slots::create(&tmp, value)?.sync()?;
            std::fs::rename(&tmp, path)?;
            match path.parent() {
                Some(dir) => File::open(dir)?.sync_all(),
                None => Ok(()),
            }
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_slot_leaves_the_value_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let mut slots = Slots::create(&path, &1_u64).unwrap();
        let reader = Slots::open(&path).unwrap();
        for value in 2..20_u64 {
            slots.write(&value).unwrap();
            assert_eq!(reader.read(), Some(value));
        }
        let last = slots.seq % 2 * SLOT as u64;
        slots.file.write_all_at(b"torn", last + 20).unwrap();
        assert_eq!(reader.read(), Some(18_u64));
        // A new session continues after it.
        let mut again = Slots::open(&path).unwrap();
        again.write(&7_u64).unwrap();
        assert_eq!(reader.read(), Some(7_u64));
        slots.file.write_all_at(&[0; 2 * SLOT], 0).unwrap();
        assert_eq!(reader.read::<u64>(), None);
        assert!(again.write(&"x".repeat(SLOT)).is_err());
    }

    #[test]
    fn value_is_renewed_while_the_file_cannot_grow() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let mut slots = Slots::create(&path, &1_u64).unwrap();
        let bytes = std::fs::metadata(&path).unwrap().len();
        for value in 0..100_u64 {
            slots.write(&value).unwrap();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    }
}
