//! `blox log`: verifies, prints and repairs the log of a scheduler.

use super::args::{LogCommand, LogDir};
use crate::failure::{Code, Failure};
use crate::terminal::{OK, Terminal};
use blox_cluster::daemon;
use blox_cluster::log::{self, Content, FileCheck, LogError, Repair};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;

/// Exit status for a damaged log.
const DAMAGED: i32 = 1;

pub(super) fn run(command: LogCommand, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    match command {
        LogCommand::Check(a) => check(&a, terminal),
        LogCommand::Dump(a) => dump(&a, terminal),
        LogCommand::Repair(a) => repair(&a, terminal),
    }
}

pub(super) fn failed(error: &LogError) -> Failure {
    Failure::of(Code::Daemon, error)
}

/// Refuses a folder without a log, which would count as an empty log.
pub(super) fn exists(dir: &Path) -> Result<(), Failure> {
    let failed = |what: &dyn std::fmt::Display| {
        let dir = dir.display();
        Failure::new(format!(
            "{dir}: {what}, expected the --state-dir of a scheduler"
        ))
    };
    let entries = std::fs::read_dir(dir).map_err(|e| failed(&e))?;
    let of_log = |name: String| name.starts_with("segment-") || name.starts_with("snapshot-");
    let mut names = entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned());
    match names.any(of_log) {
        true => Ok(()),
        false => Err(failed(&"found no log")),
    }
}

fn check(a: &LogDir, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    exists(&a.dir)?;
    let check = log::check(&a.dir).map_err(|e| failed(&e))?;
    for file in &check.files {
        writeln!(terminal.out, "{}", line(file))?;
    }
    let dir = a.dir.display();
    if let Some(LogError::Missing { path, frame }) = &check.refused {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        writeln!(
            terminal.out,
            "{name}: MISSING: it begins with frame {frame}, which no other file holds"
        )?;
    }
    match (&check.refused, check.is_intact()) {
        (_, true) => {
            writeln!(terminal.out, "the log is intact")?;
            return Ok(OK);
        }
        (None, false) => writeln!(
            terminal.out,
            "a scheduler starts with all records; `blox log repair {dir}` moves the damaged files away"
        )?,
        (Some(LogError::NoState { frame, .. }), _) => writeln!(
            terminal.out,
            "a scheduler does not start, and nothing can be repaired: the state before frame {frame} is lost; put missing files back, or restore a copy of {dir}"
        )?,
        (Some(_), _) => writeln!(
            terminal.out,
            "a scheduler does not start; `blox log repair {dir}` keeps what precedes the damage"
        )?,
    }
    Ok(DAMAGED)
}

/// Describes a file in one line.
fn line(file: &FileCheck) -> String {
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let content = match file.content {
        Content::Snapshot { frame } => format!("state after frame {frame}"),
        Content::Segment { frames: 0, .. } => "no frames".to_owned(),
        Content::Segment {
            first,
            frames,
            steps,
        } => format!("frames {first} to {}, {steps} steps", first + frames - 1),
    };
    let state = match (&file.damage, file.torn) {
        (Some(damage), _) => format!("DAMAGED at byte {}: {}", damage.position, damage.what),
        (None, 0) => "intact".to_owned(),
        (None, torn) => format!("intact; the last {torn} bytes are an interrupted write"),
    };
    format!("{name}: {} bytes, {content}: {state}", file.bytes)
}

/// Error of a dump: of the log, or of the output.
enum DumpError {
    Log(LogError),
    Output(io::Error),
}

impl From<LogError> for DumpError {
    fn from(error: LogError) -> Self {
        DumpError::Log(error)
    }
}

fn dump(a: &LogDir, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    exists(&a.dir)?;
    let out = &mut *terminal.out;
    let show = |snapshot: bool, frame: u64, bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let content = match serde_json::from_slice::<IgnoredAny>(bytes) {
            Ok(_) => text.into_owned(),
            // A record that is no JSON is shown as text.
            Err(_) => Value::from(text).to_string(),
        };
        let key = if snapshot { "snapshot" } else { "records" };
        writeln!(out, "{{\"frame\":{frame},\"{key}\":{content}}}").map_err(DumpError::Output)
    };
    match log::dump(&a.dir, show) {
        Ok(()) => Ok(OK),
        Err(DumpError::Log(error)) => Err(failed(&error)),
        Err(DumpError::Output(error)) => Err(error.into()),
    }
}

fn repair(a: &LogDir, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    exists(&a.dir)?;
    let repair = daemon::repair(&a.dir).map_err(Failure::new)?;
    report(&repair, &mut *terminal.out)?;
    Ok(OK)
}

/// Prints the changes of a repair, and what is lost.
fn report(repair: &Repair, out: &mut dyn Write) -> io::Result<()> {
    let Some(originals) = &repair.originals else {
        writeln!(out, "the log is intact: nothing was changed")?;
        return Ok(());
    };
    for change in &repair.changes {
        writeln!(out, "{change}")?;
    }
    writeln!(out, "the originals are in {}", originals.display())?;
    let Some(lost) = &repair.lost else {
        writeln!(out, "nothing is lost")?;
        return Ok(());
    };
    let (first, steps) = (lost.first, lost.steps.len());
    let frames = match lost.last {
        None => format!("all frames from {first} on, an unknown number"),
        Some(last) if last == first => format!("frame {first}"),
        Some(last) => format!("frames {first} to {last}"),
    };
    writeln!(
        out,
        "lost: {frames}; {steps} of their steps can be read, and are in {}",
        originals.join("lost.jsonl").display()
    )?;
    for step in &lost.steps {
        for text in summaries(step) {
            writeln!(out, "  {text}")?;
        }
    }
    Ok(())
}

/// Describes the records of a lost step that users notice.
fn summaries(step: &[u8]) -> Vec<String> {
    let records: Vec<Value> = serde_json::from_slice(step).unwrap_or_default();
    let of = |record: &Value| {
        let (kind, content) = record.as_object()?.iter().next()?;
        let id = |v: &Value| format!("{}.{}", v["job"], v["attempt"]);
        Some(match kind.as_str() {
            "key" => format!(
                "submission of job {} with key {}",
                content["job"], content["key"]
            ),
            "granted" => format!("grant of launch {}", id(&content["id"])),
            "closed" => format!("end of launch {}", id(&content["id"])),
            "node" => format!("registration of node {}", content["node"]),
            _ => return None,
        })
    };
    records.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_results::grid::Form;
    use serde_json::json;

    /// Returns the exit status and the output of a command.
    fn shown(
        command: fn(&LogDir, &mut Terminal<'_>) -> Result<i32, Failure>,
        dir: &Path,
    ) -> (i32, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut terminal = Terminal {
            input: &mut io::empty(),
            prompts: false,
            out: &mut out,
            form: Form::Lines,
            err: &mut err,
            interactive: false,
        };
        let dir = LogDir {
            dir: dir.to_owned(),
        };
        let code = command(&dir, &mut terminal).unwrap();
        (code, String::from_utf8(out).unwrap())
    }

    /// A log with one step in a snapshot, and one after it.
    fn written() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let (mut log, _) = log::Log::open(dir.path()).unwrap();
        for end in [true, false] {
            log.append(b"[]");
            log.sync().unwrap();
            if end {
                log.snapshot(b"{}").unwrap();
            }
        }
        dir
    }

    #[test]
    fn missing_segment_is_named_and_its_loss_is_shown() {
        let dir = written();
        std::fs::remove_file(dir.path().join("segment-0000000000000002")).unwrap();
        let (code, text) = shown(check, dir.path());
        assert!(
            text.contains("segment-0000000000000002: MISSING: it begins with frame 2,"),
            "{text}"
        );
        assert!(code == DAMAGED && text.contains("log repair"), "{text}");
        let repair = log::repair(dir.path()).unwrap();
        let mut out = Vec::new();
        report(&repair, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("lost: all frames from 2 on, an unknown number;"),
            "{text}"
        );
        assert_eq!(shown(check, dir.path()).0, OK);
    }

    #[test]
    fn check_without_a_state_offers_no_repair() {
        let dir = written();
        for path in std::fs::read_dir(dir.path()).unwrap() {
            let path = path.unwrap().path();
            if path.to_string_lossy().contains("snapshot-") {
                std::fs::remove_file(path).unwrap();
            }
        }
        std::fs::remove_file(dir.path().join("segment-0000000000000001")).ok();
        let (code, text) = shown(check, dir.path());
        assert!(
            text.contains("nothing can be repaired: the state before frame 2 is lost"),
            "{text}"
        );
        assert!(code == DAMAGED && !text.contains("log repair"), "{text}");
    }

    #[test]
    fn lost_submissions_are_named() {
        let step = json!([{"core": {}}, {"key": {"key": "k7", "job": 7}}]).to_string();
        assert_eq!(
            summaries(step.as_bytes()),
            ["submission of job 7 with key \"k7\""]
        );
        assert!(summaries(b"rubbish").is_empty());
    }
}
