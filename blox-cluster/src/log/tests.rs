//! Tests that written records are read again, whatever the last write left behind.

use super::*;
use std::fs::{self, OpenOptions};
use std::io::Write;

fn text(records: &[Vec<u8>]) -> Vec<String> {
    let s = |r: &Vec<u8>| String::from_utf8_lossy(r).into_owned();
    records.iter().map(s).collect()
}

fn add(log: &mut Log, record: &[u8]) {
    log.append(record);
    log.sync().unwrap();
}

/// Writes three frames of one, two and one records.
fn written(dir: &Path) -> PathBuf {
    let (mut log, _) = Log::open(dir).unwrap();
    for group in [&["a"][..], &["bb", "ccc"], &["dddd"]] {
        for record in group {
            log.append(record.as_bytes());
        }
        log.sync().unwrap();
    }
    log.path.clone()
}

#[test]
fn reopened_log_has_only_synchronised_records() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path());
    let (mut log, found) = Log::open(dir.path()).unwrap();
    assert_eq!(text(&found.records), ["a", "bb", "ccc", "dddd"]);
    assert_eq!((found.torn, found.snapshot), (0, None));
    log.append(b"e");
    drop(log);
    let (_, found) = Log::open(dir.path()).unwrap();
    assert_eq!(found.records.len(), 4);
}

#[test]
fn log_cut_in_its_last_frame_keeps_earlier_frames() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let whole = fs::read(&path).unwrap();
    // The last frame has a body of 4 + 4 bytes; its mark follows.
    let begins = whole.len() - HEAD - (HEAD + 8);
    for cut in begins..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let (_, found) = Log::open(dir.path()).unwrap();
        let kept = if cut < whole.len() - HEAD { 3 } else { 4 };
        assert_eq!(found.records.len(), kept, "cut at {cut}");
        // The log remains writable.
        let (mut log, _) = Log::open(dir.path()).unwrap();
        add(&mut log, b"again");
        drop(log);
        let (_, found) = Log::open(dir.path()).unwrap();
        assert_eq!(text(&found.records).last().unwrap(), "again");
    }
}

#[test]
fn flipped_bit_is_refused_or_loses_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let whole = fs::read(&path).unwrap();
    let mut refused = 0;
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).unwrap();
        match Log::open(dir.path()) {
            Ok((_, found)) => {
                assert_eq!(
                    text(&found.records),
                    ["a", "bb", "ccc", "dddd"],
                    "bit {bit}"
                );
                // Only the last mark carries no information of its own.
                assert!(bit / 8 >= whole.len() - HEAD, "bit {bit}");
            }
            Err(LogError::Damaged { .. } | LogError::Newer { .. }) => {
                refused += 1;
                assert_eq!(fs::read(&path).unwrap(), bytes, "bit {bit}: it was changed");
            }
            Err(e) => panic!("bit {bit}: {e}"),
        }
    }
    assert_eq!(refused, (whole.len() - HEAD) * 8);
}

#[test]
fn device_in_the_place_of_a_segment_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    let message = Log::open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("it is no regular file"), "{message}");
}

/// An interrupted creation leaves no segment without its header, so an emptied one was damaged.
#[test]
fn emptied_segment_is_refused_and_repaired() {
    let one = tempfile::tempdir().unwrap();
    written(one.path());
    let many = tempfile::tempdir().unwrap();
    with_snapshots(many.path());
    for dir in [one.path(), many.path()] {
        let (segments, _) = list(&SystemFiles, dir).unwrap();
        for (_, path) in &segments {
            let name = path.file_name().unwrap();
            for length in [0, PREFIX - 1] {
                let empty = |dir: &Path| {
                    let file = OpenOptions::new().write(true).open(dir.join(name));
                    file.unwrap().set_len(length as u64).unwrap();
                };
                let (before, repair, left) = repaired(dir, empty);
                let damaged: Vec<_> = before.files.iter().filter(|f| f.damage.is_some()).collect();
                assert_eq!(damaged.len(), 1, "{path:?} {length}");
                assert!(damaged[0].path.ends_with(name), "{damaged:?}");
                let copy = copied(dir);
                empty(copy.path());
                // The log before a newer snapshot is not needed for a start.
                let is_needed = path == &segments.last().unwrap().1;
                assert_eq!(Log::open(copy.path()).is_err(), is_needed, "{path:?}");
                repair.unwrap();
                assert_eq!(left.is_empty(), dir == one.path(), "{path:?}");
            }
        }
    }
}

#[test]
fn a_page_without_frames_is_turned_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let (mut log, _) = Log::open(dir.path()).unwrap();
    log.turn_page().unwrap();
    let second = log.path.clone();
    assert_ne!(second, path);
    fs::write(dir.path().join(FULL), "").unwrap();
    log.turn_page().unwrap();
    fs::remove_file(dir.path().join(FULL)).unwrap();
    assert_eq!(log.path, second);
    add(&mut log, b"later");
    drop(log);
    let (_, found) = Log::open(dir.path()).unwrap();
    assert_eq!(text(&found.records), ["a", "bb", "ccc", "dddd", "later"]);
}

#[test]
fn damage_is_reported_with_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[PREFIX + HEAD] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let message = Log::open(dir.path()).unwrap_err().to_string();
    assert!(
        message.contains("byte 12: frame 1 does not check; nothing was changed: `blox log check`"),
        "{message}"
    );
}

#[test]
fn a_snapshot_replaces_what_came_before_it() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path());
    for round in 0..4 {
        let (mut log, _) = Log::open(dir.path()).unwrap();
        log.snapshot(format!("all {round}").as_bytes()).unwrap();
        add(&mut log, format!("after {round}").as_bytes());
        drop(log);
        let (_, found) = Log::open(dir.path()).unwrap();
        assert_eq!(found.snapshot.unwrap(), format!("all {round}").as_bytes());
        assert_eq!(text(&found.records), [format!("after {round}")]);
    }
    let (segments, snapshots) = list(&SystemFiles, dir.path()).unwrap();
    assert_eq!((segments.len(), snapshots.len()), (2, 2));
}

#[test]
fn a_crash_around_a_snapshot_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path());
    // Before the rename: a temporary file is ignored.
    fs::write(dir.path().join("snapshot.tmp"), b"half").unwrap();
    let (_, found) = Log::open(dir.path()).unwrap();
    assert_eq!((found.records.len(), found.snapshot), (4, None));
    // After the rename, before older segments are removed: the records are in the snapshot.
    let first = fs::read(segment(dir.path(), 1)).unwrap();
    let (mut log, _) = Log::open(dir.path()).unwrap();
    log.snapshot(b"all").unwrap();
    drop(log);
    fs::write(segment(dir.path(), 1), first).unwrap();
    let (mut log, found) = Log::open(dir.path()).unwrap();
    assert_eq!(
        (found.records.len(), found.snapshot.unwrap()),
        (0, b"all".to_vec())
    );
    add(&mut log, b"e");
    drop(log);
    let (_, found) = Log::open(dir.path()).unwrap();
    assert_eq!(text(&found.records), ["e"]);
    // A segment whose creation was interrupted.
    fs::write(dir.path().join("segment.tmp"), b"BLO").unwrap();
    let (_, found) = Log::open(dir.path()).unwrap();
    assert_eq!(text(&found.records), ["e"]);
}

#[test]
fn one_at_a_time_and_nothing_from_the_future() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(dir.path()).unwrap();
    assert!(matches!(
        Log::open(dir.path()).unwrap_err(),
        LogError::InUse { .. }
    ));
    let path = log.path.clone();
    drop(log);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 2;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(
        Log::open(dir.path()).unwrap_err(),
        LogError::Newer {
            found: 2,
            known: 1,
            ..
        }
    ));
}

/// Returns the error for a log without this segment.
fn without(dir: &Path, first: u64) -> String {
    let path = segment(dir, first);
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let left = || list(&SystemFiles, dir).unwrap();
    let before = left();
    let message = Log::open(dir).unwrap_err().to_string();
    assert_eq!(left(), before, "it was changed");
    fs::write(&path, bytes).unwrap();
    Log::open(dir).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(message.contains(&format!("{name} is missing")), "{message}");
    message
}

#[test]
fn missing_segment_is_reported_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    written(dir);
    let (mut log, _) = Log::open(dir).unwrap();
    for record in [b"e", b"f"] {
        (log.file, log.path, log.written) = begin_segment(&SystemFiles, dir, log.seq + 1).unwrap();
        add(&mut log, record);
    }
    drop(log);
    // At the start, and in the middle.
    let message = without(dir, 1);
    assert!(message.contains("the state before frame 4"), "{message}");
    without(dir, 4);
    // After a snapshot, which is the last one or not.
    let (mut log, _) = Log::open(dir).unwrap();
    log.snapshot(b"all").unwrap();
    add(&mut log, b"g");
    drop(log);
    without(dir, 6);
    let (mut log, _) = Log::open(dir).unwrap();
    log.turn_page().unwrap();
    add(&mut log, b"h");
    drop(log);
    without(dir, 6);
    // The snapshots and their contents are missing.
    let (mut log, _) = Log::open(dir).unwrap();
    log.snapshot(b"all").unwrap();
    add(&mut log, b"i");
    log.snapshot(b"all").unwrap();
    drop(log);
    for (_, path) in list(&SystemFiles, dir).unwrap().1 {
        fs::remove_file(path).unwrap();
    }
    let message = Log::open(dir).unwrap_err().to_string();
    assert!(
        message.contains("the state before frame 8 is lost"),
        "{message}"
    );
    // The repair names the same end, and no other command.
    assert_eq!(repair(dir).unwrap_err().to_string(), message);
    assert!(!message.contains("blox log"), "{message}");
}

/// A segment follows each snapshot, so a missing one counts as lost frames.
#[test]
fn missing_newest_segment_is_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    let all = with_snapshots(dir.path());
    let newest = list(&SystemFiles, dir.path()).unwrap().1.pop().unwrap().1;
    let name = newest.file_name().unwrap();
    let of_older: Vec<String> = [&["all 1".to_owned()], &all[..2]].concat();
    for (is_damaged, expected) in [(false, vec!["all 2".to_owned()]), (true, of_older)] {
        let copy = copied(dir.path());
        let dir = copy.path();
        fs::remove_file(segment(dir, 8)).unwrap();
        if is_damaged {
            fs::write(dir.join(name), b"rubbish").unwrap();
        }
        let refused = check(dir).unwrap().refused;
        let is_named = matches!(&refused, Some(LogError::Missing { path, frame: 8 }) if *path == segment(dir, 8));
        assert!(is_named, "{refused:?}");
        let Repair {
            originals,
            changes,
            lost,
        } = repair(dir).unwrap();
        let lost = lost.unwrap();
        assert_eq!((lost.first, lost.last), (8, None));
        assert!(
            changes.last().unwrap().contains(" is missing"),
            "{changes:?}"
        );
        assert!(originals.unwrap().join("lost.jsonl").exists());
        assert!(check(dir).unwrap().is_intact());
        assert!(repair(dir).unwrap().originals.is_none());
        assert_eq!(content(dir).unwrap(), expected);
    }
}

#[test]
fn snapshot_during_appends_keeps_later_records() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path());
    let (mut log, _) = Log::open(dir.path()).unwrap();
    let page = log.turn_page().unwrap();
    add(&mut log, b"later");
    // Until the snapshot is written, the previous state is still there.
    drop(log);
    let (log, found) = Log::open(dir.path()).unwrap();
    assert_eq!(found.records.len(), 5);
    page.write(b"all four").unwrap();
    drop(log);
    let (_, found) = Log::open(dir.path()).unwrap();
    assert_eq!(text(&found.records), ["later"]);
    assert_eq!(found.snapshot.unwrap(), b"all four");
}

#[test]
fn record_without_room_is_written_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let full = dir.path().join(FULL);
    let (mut log, _) = Log::open(dir.path()).unwrap();
    let put = |log: &mut Log, record: &str| {
        log.append(record.as_bytes());
        log.sync()
    };
    put(&mut log, "a").unwrap();
    for (i, turn) in [false, true].into_iter().enumerate() {
        fs::write(&full, "").unwrap();
        let size = fs::metadata(&log.path).unwrap().len();
        for _ in 0..3 {
            let result = match turn {
                true => log.turn_page().map(drop),
                false => put(&mut log, "b"),
            };
            assert!(matches!(result, Err(LogError::NoRoom { .. })), "{result:?}");
            // No partial frame or segment remains.
            assert!(fs::metadata(&log.path).unwrap().len() <= size);
            let (segments, _) = list(&SystemFiles, dir.path()).unwrap();
            assert_eq!(segments.len(), 1);
        }
        fs::remove_file(&full).unwrap();
        put(&mut log, "c").unwrap();
        assert_eq!(log.seq, 2 + i as u64);
    }
    drop(log);
    let (_, found) = Log::open(dir.path()).unwrap();
    assert_eq!(text(&found.records), ["a", "b", "b", "b", "c", "c"]);
    assert_eq!(found.torn, 0);
}

#[test]
fn mark_without_room_is_replaced_by_the_next_frame() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path()).unwrap();
    add(&mut log, b"a");
    let frames = fs::read(&log.path).unwrap();
    // State in which only the mark could not be written completely.
    log.file.set_len(log.whole + 3).unwrap();
    log.torn = true;
    add(&mut log, b"b");
    drop(log);
    let (log, found) = Log::open(dir.path()).unwrap();
    assert_eq!(text(&found.records), ["a", "b"]);
    assert!(fs::metadata(&log.path).unwrap().len() > frames.len() as u64);
}

#[test]
fn log_ended_without_room_keeps_acknowledged_records() {
    let dir = tempfile::tempdir().unwrap();
    let full = dir.path().join(FULL);
    let path = written(dir.path());
    let (mut log, _) = Log::open(dir.path()).unwrap();
    fs::write(&full, "").unwrap();
    log.append(b"lost");
    log.sync().unwrap_err();
    // State in which the partial frame could not be truncated.
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&log.buffer[..log.buffer.len() / 2]).unwrap();
    drop(log);
    fs::remove_file(&full).unwrap();
    let (_, found) = Log::open(dir.path()).unwrap();
    assert_eq!(text(&found.records), ["a", "bb", "ccc", "dddd"]);
    assert!(found.torn > 0);
}

/// A log with two snapshots, the segments since the older one, and a record after the newer one.
/// Returns its records from the older snapshot on.
fn with_snapshots(dir: &Path) -> Vec<String> {
    written(dir);
    let mut all = Vec::new();
    for round in 0..3 {
        let (mut log, _) = Log::open(dir).unwrap();
        log.snapshot(format!("all {round}").as_bytes()).unwrap();
        for record in ["x", "yy"] {
            let record = format!("{record} {round}");
            add(&mut log, record.as_bytes());
            if round > 0 {
                all.push(record);
            }
        }
    }
    all
}

fn copied(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    to
}

/// Returns snapshot and records, as one text each.
fn content(dir: &Path) -> Result<Vec<String>, LogError> {
    let (_, found) = Log::open(dir)?;
    let snapshot = found.snapshot.iter().cloned();
    Ok(text(&snapshot.chain(found.records).collect::<Vec<_>>()))
}

#[test]
fn damaged_snapshot_is_replaced_by_the_one_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let all = with_snapshots(dir);
    let newest = list(&SystemFiles, dir).unwrap().1.pop().unwrap().1;
    let mut bytes = fs::read(&newest).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&newest, &bytes).unwrap();
    assert!(!check(dir).unwrap().is_intact());
    let (mut log, found) = Log::open(dir).unwrap();
    assert_eq!(found.snapshot.unwrap(), b"all 1");
    assert_eq!(text(&found.records), all);
    let [warning] = &found.warnings[..] else {
        panic!("{:?}", found.warnings);
    };
    let begin = format!("{}: byte 24: the snapshot does not check", newest.display());
    assert!(warning.starts_with(&begin), "{warning}");
    // The next snapshot keeps the intact one, not the damaged one.
    log.snapshot(b"all 3").unwrap();
    let names: Vec<u64> = list(&SystemFiles, dir)
        .unwrap()
        .1
        .iter()
        .map(|s| s.0)
        .collect();
    assert_eq!(names, [5, 9]);
    drop(log);
    assert!(check(dir).unwrap().is_intact());
    assert_eq!(content(dir).unwrap(), ["all 3"]);
    // Without the segments in between, nothing replaces the snapshot.
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    with_snapshots(dir);
    let newest = list(&SystemFiles, dir).unwrap().1.pop().unwrap().1;
    fs::write(&newest, &bytes).unwrap();
    fs::remove_file(segment(dir, 6)).unwrap();
    let error = Log::open(dir).unwrap_err().to_string();
    assert!(
        error.starts_with(&begin[begin.rfind('/').unwrap()..]) || error.contains("byte 24"),
        "{error}"
    );
    assert!(newest.exists());
}

/// Damages a copy of a log with `damage`, checks it, repairs it, and returns what is left of it.
fn repaired(
    original: &Path,
    damage: impl Fn(&Path),
) -> (Check, Result<Repair, LogError>, Vec<String>) {
    let dir = copied(original);
    damage(dir.path());
    let before = check(dir.path()).unwrap();
    let repair = repair(dir.path());
    let left = match &repair {
        Ok(_) => content(dir.path()).unwrap(),
        Err(_) => Vec::new(),
    };
    (before, repair, left)
}

#[test]
fn flipped_bits_are_found_and_losses_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let all = with_snapshots(dir);
    let newest: Vec<String> = [&["all 2".to_owned()], &all[2..]].concat();
    let names: Vec<_> = check(dir)
        .unwrap()
        .files
        .into_iter()
        .map(|f| f.path)
        .collect();
    let (mut intact, mut cut, mut fallen_back) = (0, 0, 0);
    for path in &names {
        let bytes = fs::read(path).unwrap();
        for bit in (0..bytes.len() * 8).step_by(11) {
            let flip = |dir: &Path| {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                fs::write(dir.join(path.file_name().unwrap()), bytes).unwrap();
            };
            let (before, repair, left) = repaired(dir, flip);
            let at = format!("{} bit {bit}", path.display());
            let is_torn = before.files.iter().any(|f| f.torn > 0);
            assert!(!before.is_intact() || is_torn, "{at}");
            let repair = repair.unwrap_or_else(|e| panic!("{at}: {e}"));
            match repair.lost {
                None if left.first() == newest.first() => {
                    assert_eq!(left, newest, "{at}");
                    intact += 1;
                }
                None => {
                    assert_eq!(left[1..], all, "{at}");
                    fallen_back += 1;
                }
                Some(lost) => {
                    let kept = left.len() - 1;
                    let expected = &newest[1 + kept..];
                    assert_eq!(left, newest[..1 + kept], "{at}");
                    assert_eq!(
                        lost.last.unwrap() - lost.first + 1,
                        expected.len() as u64,
                        "{at}"
                    );
                    // A damaged frame cannot be read, the ones after it can.
                    let readable = text(&lost.steps);
                    assert!(expected.ends_with(&readable) && readable.len() + 1 >= expected.len());
                    cut += 1;
                }
            }
        }
    }
    assert!(
        intact > 50 && cut > 30 && fallen_back > 10,
        "{intact} {cut} {fallen_back}"
    );
}

#[test]
fn cut_files_are_repaired_or_the_reason_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    with_snapshots(dir);
    let names: Vec<_> = check(dir)
        .unwrap()
        .files
        .into_iter()
        .map(|f| f.path)
        .collect();
    for path in &names {
        let bytes = fs::read(path).unwrap();
        for length in (0..bytes.len()).step_by(3) {
            let shorten = |dir: &Path| {
                fs::write(dir.join(path.file_name().unwrap()), &bytes[..length]).unwrap();
            };
            let (before, repair, left) = repaired(dir, shorten);
            let at = format!("{} cut to {length}", path.display());
            repair.unwrap_or_else(|e| panic!("{at}: {e}"));
            assert!(!left.is_empty(), "{at}");
            // A cut of the last file, or between two frames, may look complete.
            let is_last = path == names.last().unwrap();
            assert!(
                !before.is_intact() || is_last || length + HEAD >= bytes.len(),
                "{at}"
            );
        }
    }
    // Without both snapshots, the first segments are missing.
    let (_, repair, _) = repaired(dir, |dir| {
        for (_, path) in list(&SystemFiles, dir).unwrap().1 {
            fs::write(path, b"rubbish").unwrap();
        }
    });
    let error = repair.unwrap_err().to_string();
    assert!(
        error.contains("byte 0: the head of the snapshot does not check"),
        "{error}"
    );
}

#[test]
fn dump_shows_the_state_and_each_record_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let all = with_snapshots(dir.path());
    let mut shown = Vec::new();
    let show = |snapshot, frame, bytes: &[u8]| {
        shown.push((snapshot, frame, String::from_utf8_lossy(bytes).into_owned()));
        Ok::<(), LogError>(())
    };
    dump(dir.path(), show).unwrap();
    assert_eq!(shown[0], (true, 5, "all 1".to_owned()));
    let records: Vec<_> = shown[1..].iter().map(|(_, _, text)| text.clone()).collect();
    assert_eq!(records, all);
    assert_eq!(shown.last().unwrap().1, 9);
}

/// Files of the system whose synchronization fails.
#[derive(Debug)]
struct Failing(std::io::ErrorKind);

#[derive(Debug)]
struct FailingFile(Box<dyn FileHandle>, std::io::ErrorKind);

impl Files for Failing {
    fn create_dir(&self, dir: &Path) -> std::io::Result<()> {
        SystemFiles.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> std::io::Result<Vec<PathBuf>> {
        SystemFiles.list(dir)
    }

    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        SystemFiles.read(path)
    }

    fn create(&self, path: &Path) -> std::io::Result<Box<dyn FileHandle>> {
        SystemFiles.create(path)
    }

    fn open(&self, path: &Path) -> std::io::Result<Box<dyn FileHandle>> {
        let file = SystemFiles.open(path)?;
        Ok(Box::new(FailingFile(file, self.0)))
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        SystemFiles.rename(from, to)
    }

    fn remove(&self, path: &Path) -> std::io::Result<()> {
        SystemFiles.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
        SystemFiles.sync_dir(dir)
    }
}

impl FileHandle for FailingFile {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.append(bytes)
    }

    fn set_len(&mut self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Err(self.1.into())
    }
}

#[test]
fn failed_sync_ends_the_log_unless_room_is_missing() {
    use std::io::ErrorKind;
    for (kind, is_fatal) in [
        (ErrorKind::Other, true),
        (ErrorKind::StorageFull, false),
        (ErrorKind::ReadOnlyFilesystem, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path());
        let (mut log, _) = Log::open_in(Arc::new(Failing(kind)), dir.path()).unwrap();
        log.append(b"e");
        let error = log.sync().unwrap_err();
        assert_eq!(matches!(error, LogError::Io { .. }), is_fatal, "{error}");
        drop(log);
        let (_, found) = Log::open(dir.path()).unwrap();
        assert_eq!(text(&found.records), ["a", "bb", "ccc", "dddd"]);
    }
    // Too many open files, input or output error.
    for (number, is_room) in [(24, true), (23, true), (5, false)] {
        let error = std::io::Error::from_raw_os_error(number);
        assert_eq!(is_no_room(&error), is_room);
    }
}
