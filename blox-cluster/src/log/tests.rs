//! Tests that written records are read again, whatever the last write left behind.

use super::*;
use std::fs;
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
fn damage_is_reported_with_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[PREFIX + HEAD] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let message = Log::open(dir.path()).unwrap_err().to_string();
    assert!(
        message.ends_with("byte 12: frame 1 does not check; nothing was changed"),
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
    fs::write(dir.path().join("segment-0000000000000005"), b"BLO").unwrap();
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
    assert!(message.contains("begins with frame 1,"), "{message}");
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
    assert!(message.contains("frame 1,"), "{message}");
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
