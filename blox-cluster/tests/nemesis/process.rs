//! Model of the scheduler's process: its disk and its outputs.
//!
//! A crash strikes at any write, synchronization or output. Any prefix of the bytes
//! that were not synchronized survives. So does any prefix of the changes of file names.

use blox_cluster::daemon::{Outputs, ToPolicy};
use blox_cluster::log::{FileHandle, Files};
use blox_cluster::protocol::launches::Past;
use blox_cluster::protocol::scheduler::RequestError;
use blox_cluster::protocol::{NodeRequest, Orders};
use blox_core::{Input, JobId};
use chacha20::ChaCha8Rng;
use rand::RngExt;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// Output that has left the process.
#[derive(Debug)]
pub enum Out {
    Reply(usize, Result<JobId, RequestError>),
    Send(Orders),
    Provide(NodeRequest),
    Policy(ToPolicy),
    Observe(Arc<Input>),
    Notice(String),
}

#[derive(Clone, Debug, Default)]
struct Content {
    data: Vec<u8>,
    /// Length of the part of `data` that is on disk.
    synced: usize,
    /// Bytes on disk after `data`, if a truncation is not on disk.
    cut: Vec<u8>,
    /// Length of the part whose frames are in [`State::entries`].
    parsed: usize,
}

#[derive(Debug, Default)]
pub struct State {
    files: BTreeMap<u64, Content>,
    names: BTreeMap<PathBuf, u64>,
    /// Changes of names that are not on disk, and the names on disk.
    changes: Vec<(PathBuf, Option<u64>)>,
    names_on_disk: BTreeMap<PathBuf, u64>,
    next: u64,
    /// Number of operations until the crash.
    pub fuse: Option<u32>,
    /// The process has crashed: nothing is written, and nothing leaves.
    pub dead: bool,
    /// The disk is full.
    pub full: bool,
    /// The next synchronization fails.
    pub fails: bool,
    /// A synchronization has failed.
    pub failed: bool,
    /// Synchronizations have no effect, for a planted bug.
    pub lies: bool,
    /// Entries of the log on disk, from its first start on.
    pub entries: Vec<Vec<u8>>,
    /// Number of the last frame among them.
    frame: u64,
    /// Outputs, and the number of entries on disk when each left.
    pub out: Vec<(usize, Out)>,
}

const CRASHED: &str = "crashed";

impl State {
    /// Counts an operation. The crash strikes after its volatile effect.
    fn strikes(&mut self) -> io::Result<()> {
        match &mut self.fuse {
            _ if self.dead => {}
            Some(0) => self.dead = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.alive()
    }

    fn leaves(&mut self, out: Out) {
        if self.strikes().is_ok() {
            self.out.push((self.entries.len(), out));
        }
    }

    fn alive(&self) -> io::Result<()> {
        match self.dead {
            true => Err(io::Error::other(CRASHED)),
            false => Ok(()),
        }
    }

    fn rename(&mut self, path: &Path, file: Option<u64>) {
        match file {
            Some(file) => self.names.insert(path.to_owned(), file),
            None => self.names.remove(path),
        };
        self.changes.push((path.to_owned(), file));
    }

    fn file(&mut self, path: &Path) -> io::Result<u64> {
        let file = self.names.get(path);
        file.copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Reads the frames of log segments that have reached the disk.
    fn parse(&mut self) {
        for (path, file) in &self.names {
            let name = path.file_name().and_then(|n| n.to_str());
            if !name.is_some_and(|n| n.starts_with("segment-")) {
                continue;
            }
            let Some(content) = self.files.get_mut(file) else {
                continue;
            };
            // The header of a segment has 12 bytes, and the head of a frame has 24 bytes.
            content.parsed = content.parsed.max(12);
            let number = |at: usize| {
                let bytes = content.data.get(at..at + 4)?;
                Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
            };
            while let Some(len) = number(content.parsed + 4) {
                let (head, body) = (content.parsed, content.parsed + 24);
                if body + len > content.synced {
                    break;
                }
                let frame = number(head + 8).unwrap_or(0) as u64;
                if content.data[head..head + 4] == *b"BLXd" && frame == self.frame + 1 {
                    self.frame = frame;
                    let mut at = body;
                    while let Some(long) = number(at).filter(|_| at < body + len) {
                        let entry = content.data[at + 4..at + 4 + long].to_vec();
                        self.entries.push(entry);
                        at += 4 + long;
                    }
                }
                content.parsed = body + len;
            }
        }
    }

    /// Ends the process. `rng` chooses what survives of the bytes that are not on disk.
    pub fn crash(&mut self, rng: &mut ChaCha8Rng) {
        let kept = match rng.random_range(0..3) {
            0 => self.changes.len(),
            1 => 0,
            _ => rng.random_range(0..=self.changes.len()),
        };
        for (path, file) in self.changes.drain(..).take(kept) {
            match file {
                Some(file) => self.names_on_disk.insert(path, file),
                None => self.names_on_disk.remove(&path),
            };
        }
        self.names.clone_from(&self.names_on_disk);
        let names = &self.names;
        self.files
            .retain(|file, _| names.values().any(|f| f == file));
        for content in self.files.values_mut() {
            if !content.cut.is_empty() && rng.random_bool(0.5) {
                content.data.truncate(content.synced);
                content.data.append(&mut content.cut);
            }
            content.cut.clear();
            let more = content.data.len() - content.synced;
            let kept = match rng.random_range(0..3) {
                0 => more,
                1 => 0,
                _ => rng.random_range(0..=more),
            };
            content.synced += kept;
            content.data.truncate(content.synced);
        }
        (self.dead, self.fuse, self.fails) = (false, None, false);
        self.parse();
    }
}

/// The process, as files and outputs of its daemon.
#[derive(Clone, Debug, Default)]
pub struct Process(Arc<Mutex<State>>);

impl Process {
    /// Returns a copy of the disk, as a backup has it.
    pub fn copy(&self) -> Self {
        let state = self.state();
        let names = state.names_on_disk.clone();
        let mut files = state.files.clone();
        files.retain(|file, _| names.values().any(|f| f == file));
        for content in files.values_mut() {
            content.data.truncate(content.synced);
            content.data.append(&mut content.cut);
        }
        Process(Arc::new(Mutex::new(State {
            files,
            names: names.clone(),
            names_on_disk: names,
            next: state.next,
            ..State::default()
        })))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Files for Process {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        self.state().alive()
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state();
        state.alive()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        state.alive()?;
        let file = state.file(path)?;
        Ok(state.files[&file].data.clone())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn FileHandle>> {
        let mut state = self.state();
        state.alive()?;
        let file = state.next;
        state.next += 1;
        state.files.insert(file, Content::default());
        state.rename(path, Some(file));
        state.strikes()?;
        Ok(Box::new(Handle(self.clone(), file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FileHandle>> {
        let mut state = self.state();
        state.alive()?;
        let file = state.file(path)?;
        Ok(Box::new(Handle(self.clone(), file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        let file = state.file(from)?;
        state.rename(to, Some(file));
        state.rename(from, None);
        state.strikes()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        state.file(path)?;
        state.rename(path, None);
        state.strikes()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.strikes()?;
        state.changes.clear();
        state.names_on_disk = state.names.clone();
        Ok(())
    }
}

#[derive(Debug)]
struct Handle(Process, u64);

impl FileHandle for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.state();
        state.alive()?;
        let full = state.full;
        let part = if full { bytes.len() / 2 } else { bytes.len() };
        if let Some(content) = state.files.get_mut(&self.1) {
            content.data.extend(&bytes[..part]);
        }
        state.strikes()?;
        match full {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.0.state();
        state.alive()?;
        if let Some(content) = state.files.get_mut(&self.1) {
            let len = (len as usize).min(content.data.len());
            if len < content.synced {
                content.cut = content.data[len..content.synced].to_vec();
                content.synced = len;
            }
            content.data.truncate(len);
            content.parsed = content.parsed.min(len);
        }
        state.strikes()
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.0.state();
        state.strikes()?;
        if std::mem::take(&mut state.fails) {
            state.failed = true;
            return Err(io::Error::other("input/output error"));
        }
        if state.lies {
            return Ok(());
        }
        if let Some(content) = state.files.get_mut(&self.1) {
            content.synced = content.data.len();
            content.cut.clear();
        }
        state.parse();
        Ok(())
    }
}

impl Outputs for Process {
    /// The number of a client.
    type Sender = usize;

    fn reply(&mut self, to: usize, reply: Result<JobId, RequestError>) {
        self.state().leaves(Out::Reply(to, reply));
    }

    fn send(&mut self, orders: &Orders) {
        self.state().leaves(Out::Send(orders.clone()));
    }

    fn provide(&mut self, request: NodeRequest) {
        self.state().leaves(Out::Provide(request));
    }

    fn policy(&mut self, message: ToPolicy) {
        self.state().leaves(Out::Policy(message));
    }

    fn observe(&mut self, input: &Arc<Input>) {
        self.state().leaves(Out::Observe(Arc::clone(input)));
    }

    fn notice(&mut self, text: String) {
        self.state().leaves(Out::Notice(text));
    }

    /// The schedules have too few jobs for the archive.
    fn archive(&mut self, _: &[Past]) -> io::Result<()> {
        Err(io::Error::other("there is no archive"))
    }
}
