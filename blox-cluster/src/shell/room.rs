//! Disk quotas of logs on a node: for each running launch, and for all ended launches.

use super::files::{self, REMOVED};
use crate::private;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::SystemTime;

/// Disk quotas of logs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRoom {
    /// Quota of one launch on this node. The stdout and stderr logs of its ranks have equal shares.
    pub launch: u64,
    /// Quota of all ended launches; the oldest logs are removed.
    pub ended: u64,
}

impl Default for LogRoom {
    fn default() -> Self {
        LogRoom {
            launch: 1 << 30,
            ended: 10 << 30,
        }
    }
}

/// Logs of a running launch. Ranks append to the files directly and never block. Data beyond the
/// quota is truncated periodically.
pub(super) struct Shares {
    files: Vec<File>,
    each: u64,
    line: String,
}

impl Shares {
    /// Opens the logs at these paths, and creates them if possible. `None` sets no quota.
    pub fn of(paths: &[PathBuf], room: Option<u64>) -> Self {
        let paths = if room.is_some() { paths } else { &[] };
        let each = share(room.unwrap_or(u64::MAX), paths.len());
        // Not in append mode, which would ignore the position of writes.
        let open = |path: &PathBuf| {
            let mut options = private::options();
            options.create(true).truncate(false).write(true).open(path)
        };
        Shares {
            files: paths.iter().filter_map(|path| open(path).ok()).collect(),
            each,
            line: last_line(each),
        }
    }

    /// Truncates logs above their share, and marks the truncation with a last line.
    pub fn cut(&self) {
        let most = self.each.saturating_add(self.line.len() as u64);
        for file in &self.files {
            let is = file.metadata().map_or(0, |m| m.len());
            if is > self.each && is != most {
                // In this order: data appended in between is truncated as well. After an error the
                // next call tries again.
                let _ = file.write_all_at(self.line.as_bytes(), self.each);
                let _ = file.set_len(most);
            }
        }
    }
}

/// Returns the share of each log.
pub(super) fn share(room: u64, logs: usize) -> u64 {
    room / logs.max(1) as u64
}

/// Returns the last line of a truncated log.
fn last_line(each: u64) -> String {
    format!("\nblox: this log has reached {each} bytes, and what else is written is dropped\n")
}

/// Returns the end of a log for readers. Data after its share is not shown unless it is the last
/// line, because it will be truncated.
pub(super) fn end_of(file: &File, each: u64) -> u64 {
    let line = last_line(each);
    let mut there = vec![0; line.len()];
    match file.read_exact_at(&mut there, each) {
        Ok(()) if there == line.as_bytes() => each.saturating_add(line.len() as u64),
        _ => each,
    }
}

/// Logs of ended launches, one folder each.
pub(super) struct Ended {
    dir: PathBuf,
    room: u64,
    /// Folders and their sizes in bytes, oldest first.
    folders: VecDeque<(PathBuf, u64)>,
    /// A thread that removes files, since a job may leave millions of them.
    removes: mpsc::Sender<Remove>,
    /// Number of the next folder that is removed.
    next: u64,
}

/// Folders to remove.
enum Remove {
    /// The folder of a launch.
    All(PathBuf),
    /// The folders of a job in the folder of its launch.
    Inner(PathBuf),
}

/// Removes files until the sender is gone. Failing to remove a log must not end anything: the next
/// session tries again.
fn remove(from: &mpsc::Receiver<Remove>) {
    while let Ok(next) = from.recv() {
        let _ = match next {
            Remove::All(folder) => files::remove(&folder),
            Remove::Inner(folder) => files::remove_folders(&folder),
        };
    }
}

impl Ended {
    /// Opens the logs in a directory, which need not exist.
    pub fn open(dir: PathBuf, room: u64) -> io::Result<Self> {
        let (mut found, mut interrupted) = (Vec::new(), Vec::new());
        if dir.exists() {
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let path = entry.path();
                if entry.file_name().to_string_lossy().starts_with(REMOVED) {
                    interrupted.push(path);
                    continue;
                }
                let end = fs::metadata(path.join("final.json")).and_then(|m| m.modified());
                found.push((end.unwrap_or(SystemTime::UNIX_EPOCH), path));
            }
        }
        found.sort();
        let sized = found.into_iter().map(|(_, path)| {
            let bytes = bytes_in(&path);
            (path, bytes)
        });
        let (removes, from) = mpsc::channel();
        let thread = std::thread::Builder::new().name("removes".to_owned());
        thread.spawn(move || remove(&from))?;
        let mut ended = Ended {
            dir,
            room,
            folders: sized.collect(),
            removes,
            next: 0,
        };
        interrupted.iter().for_each(|folder| ended.retire(folder));
        for (folder, _) in &ended.folders {
            ended.remove(Remove::Inner(folder.clone()));
        }
        ended.make_room();
        Ok(ended)
    }

    /// Moves the folder of an ended launch into the directory, if the folder exists.
    pub fn take(&mut self, folder: &Path) -> io::Result<()> {
        let Some(name) = folder.file_name().filter(|_| folder.exists()) else {
            // A launch that never ran has no folder.
            return Ok(());
        };
        private::folder(&self.dir)?;
        let kept = self.dir.join(name);
        if kept.exists() {
            // A launch of another scheduler with the same number.
            self.retire(&kept);
            self.folders.retain(|(path, _)| *path != kept);
        }
        fs::rename(folder, &kept)?;
        let bytes = bytes_in(&kept);
        self.remove(Remove::Inner(kept.clone()));
        self.folders.push_back((kept, bytes));
        self.make_room();
        Ok(())
    }

    /// Removes the oldest logs of a disk without room, if logs of ended launches have a tenth of it.
    /// Otherwise, other files have used the room.
    pub fn give_room(&mut self) {
        let bytes: u64 = self
            .folders
            .iter()
            .map(|(folder, _)| bytes_in(folder))
            .sum();
        let Ok(disk) = rustix::fs::statvfs(&self.dir) else {
            return;
        };
        if bytes >= disk.f_blocks.saturating_mul(disk.f_frsize) / 10
            && let Some((oldest, _)) = self.folders.pop_front()
        {
            self.retire(&oldest);
        }
    }

    /// Removes the folder of a launch, whose name is free at once.
    fn retire(&mut self, folder: &Path) {
        if let Ok(path) = files::set_aside(folder, &self.dir, &mut self.next) {
            self.remove(Remove::All(path));
        }
    }

    fn remove(&self, what: Remove) {
        // The thread ends after its sender.
        let _ = self.removes.send(what);
    }

    fn make_room(&mut self) {
        let mut bytes: u64 = self.folders.iter().map(|(_, bytes)| bytes).sum();
        while bytes > self.room
            && let Some((oldest, its)) = self.folders.pop_front()
        {
            self.retire(&oldest);
            bytes -= its;
        }
    }
}

/// Returns the bytes of the files in a folder. The folders in it are removed soon.
fn bytes_in(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = files.filter_map(|file| file.metadata().ok());
    sizes.filter(|m| !m.is_dir()).map(|m| m.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;

    #[test]
    fn log_over_its_share_is_cut_with_one_notice() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["out", "err"].map(|name| dir.path().join(name));
        let shares = Shares::of(&paths, Some(20));
        // Opened as a rank opens it.
        let append = |path| OpenOptions::new().append(true).open(path).unwrap();
        let (mut out, mut err) = (append(&paths[0]), append(&paths[1]));
        let contents = || paths.each_ref().map(|p| fs::read_to_string(p).unwrap());
        out.write_all(b"0123456789").unwrap();
        err.write_all(b"oh").unwrap();
        shares.cut();
        assert_eq!(contents(), ["0123456789", "oh"]);
        for _ in 0..3 {
            out.write_all(&[b'x'; 500]).unwrap();
            shares.cut();
            let line = "0123456789\n\
                blox: this log has reached 10 bytes, and what else is written is dropped\n";
            assert_eq!(contents(), [line, "oh"]);
        }
        // Readers see nothing that is truncated later.
        let read = |path| File::open(path).unwrap();
        assert_eq!(end_of(&read(&paths[0]), 10), contents()[0].len() as u64);
        fs::write(&paths[1], [b'x'; 500]).unwrap();
        assert_eq!(end_of(&read(&paths[1]), 10), 10);
        shares.cut();
        assert_eq!(end_of(&read(&paths[1]), 10), contents()[1].len() as u64);
        fs::write(&paths[1], "oh").unwrap();
        let none = Shares::of(&paths, None);
        out.write_all(&[b'x'; 500]).unwrap();
        none.cut();
        assert!(contents()[0].ends_with('x'));
    }

    #[test]
    fn oldest_logs_go_without_room_also_after_restart() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("logs");
        let mut ended = Ended::open(kept.clone(), 25).unwrap();
        let end = |ended: &mut Ended, name: &str, second| {
            let folder = dir.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("rank-0.out"), "0123456789").unwrap();
            let done = File::create(folder.join("final.json")).unwrap();
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
            done.set_modified(at).unwrap();
            ended.take(&folder).unwrap();
        };
        let left = || {
            let all = fs::read_dir(&kept).unwrap();
            let name = |e: fs::DirEntry| e.file_name().into_string().unwrap();
            let mut names: Vec<String> = all.map(|e| name(e.unwrap())).collect();
            names.retain(|name| !name.starts_with(REMOVED));
            names.sort();
            names
        };
        ended.take(&dir.path().join("never-ran")).unwrap();
        end(&mut ended, "9.1", 1);
        end(&mut ended, "1.1", 2);
        assert_eq!(left(), ["1.1", "9.1"]);
        end(&mut ended, "5.1", 3);
        assert_eq!(left(), ["1.1", "5.1"]);
        // A launch of another scheduler.
        end(&mut ended, "1.1", 4);
        assert_eq!(left(), ["1.1", "5.1"]);
        drop(Ended::open(kept.clone(), 25).unwrap());
        assert_eq!(left(), ["1.1", "5.1"]);
        drop(Ended::open(kept.clone(), 15).unwrap());
        assert_eq!(left(), ["1.1"]);
        fs::create_dir(kept.join(".removed-before")).unwrap();
        drop(Ended::open(kept.clone(), 0).unwrap());
        assert!(left().is_empty());
        assert!(becomes(|| fs::read_dir(&kept).unwrap().next().is_none()));
    }

    fn becomes(is: impl Fn() -> bool) -> bool {
        (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            is()
        })
    }

    #[test]
    fn folders_of_a_job_go_when_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("logs");
        let mut ended = Ended::open(kept.clone(), 1_000).unwrap();
        let folder = dir.path().join("1.1");
        fs::create_dir_all(folder.join("job/a/b")).unwrap();
        fs::write(folder.join("job/a/large"), [0; 5_000]).unwrap();
        fs::write(folder.join("rank-0.out"), "0123456789").unwrap();
        ended.take(&folder).unwrap();
        let kept = kept.join("1.1");
        assert!(becomes(|| !kept.join("job").exists()));
        let log = fs::read_to_string(kept.join("rank-0.out"));
        assert_eq!(log.unwrap(), "0123456789");
    }
}
