//! Configuration files of daemons: a section `[scheduler]` and a section `[node]` with any options of
//! these commands.

use crate::failure::{Code, Failure};
use clap::parser::ValueSource;
use clap::{Arg, Command};
use std::any::TypeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The commands with a section.
const SECTIONS: [&str; 2] = ["scheduler", "node"];

/// Returns the file after `--config`, if the command line starts a daemon.
fn file_of(args: &[OsString]) -> Option<(&str, &Path, Vec<OsString>)> {
    let section = SECTIONS
        .into_iter()
        .find(|s| args.get(1).is_some_and(|a| a == s))?;
    let at = args.iter().position(|a| {
        let text = a.to_string_lossy();
        text == "--config" || text.starts_with("--config=")
    })?;
    let (before, rest) = args.split_at(at);
    let (path, rest) = match rest[0].to_str().and_then(|a| a.strip_prefix("--config=")) {
        Some(path) => (Path::new(path), &rest[1..]),
        None => (Path::new(rest.get(1)?), &rest[2..]),
    };
    Some((section, path, [before, rest].concat()))
}

/// Returns the command line of a daemon with the options of its section, which options of the
/// command line replace. Returns `None` for other commands, and for a file without sections.
pub(super) fn expanded(
    args: &[OsString],
    command: impl Fn() -> Command,
) -> Result<Option<Vec<OsString>>, Failure> {
    let Some((section, path, mut line)) = file_of(args) else {
        return Ok(None);
    };
    let wrong = |text: String| Failure::of(Code::Usage, text);
    let shown = path.display();
    let text = match blox_experiment::read_text(path) {
        Ok(text) => text,
        // The scheduler's own reader reports it.
        Err(_) if section == "scheduler" => return Ok(None),
        Err(e) => return Err(wrong(e.to_string())),
    };
    let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let table = match DeTable::parse(&text) {
        Ok(table) => table.into_inner(),
        Err(_) if section == "scheduler" => return Ok(None),
        Err(e) => {
            let number = line_of(e.span().map_or(0, |span| span.start));
            return Err(wrong(format!("{shown} line {number}: {}", e.message())));
        }
    };
    let is_section = |key: &str, value: &DeValue<'_>| {
        SECTIONS.contains(&key) && matches!(value, DeValue::Table(_))
    };
    let mut sections = table.iter();
    if !sections.any(|(key, value)| is_section(key.get_ref(), value.get_ref())) {
        return match section {
            "scheduler" => Ok(None),
            _ => Err(wrong(format!("{shown}: expected a section [{section}]"))),
        };
    }
    let mut options = None;
    for (key, value) in &table {
        match value.get_ref() {
            DeValue::Table(table) if is_section(key.get_ref(), value.get_ref()) => {
                if key.get_ref() == section {
                    options = Some(table);
                }
            }
            _ => {
                let number = line_of(key.span().start);
                let key = key.get_ref();
                return Err(wrong(format!(
                    "{shown} line {number}: `{key}` is in no section, expected it below [scheduler] or [node]"
                )));
            }
        }
    }
    let Some(options) = options else {
        return Err(wrong(format!("{shown}: expected a section [{section}]")));
    };
    let mut all = command();
    all.build();
    let known: Vec<&Arg> = all
        .find_subcommand(section)
        .into_iter()
        .flat_map(Command::get_arguments)
        .collect();
    let given = command().ignore_errors(true).try_get_matches_from(&line);
    let given = given.ok();
    let matches = given.as_ref().and_then(|m| m.subcommand_matches(section));
    let is_given = |id: &str| {
        let source = matches.and_then(|m| {
            // A command that is not complete has not all of its arguments.
            m.try_contains_id(id).ok().and_then(|_| m.value_source(id))
        });
        source == Some(ValueSource::CommandLine)
    };
    let base = path.parent().unwrap_or(Path::new(""));
    let mut words = Vec::new();
    for (key, value) in options {
        let number = line_of(key.span().start);
        let long = key.get_ref().replace('_', "-");
        let is_it = |arg: &&&Arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(&long) || aliases.contains(&long.as_str())
        };
        let known = known.iter().find(is_it);
        let own = ["config", "help"].contains(&long.as_str());
        let Some(arg) = known.filter(|_| !own) else {
            return Err(wrong(format!(
                "{shown} line {number}: unknown key `{}` in [{section}], expected an option of `blox {section}`",
                key.get_ref()
            )));
        };
        let replaced = long == "scheduler" && is_given("positional");
        if replaced || is_given(arg.get_id().as_str()) {
            continue;
        }
        let is_path = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        let takes_value = arg.get_action().takes_values();
        let expected = || {
            let kind = match takes_value {
                true => "a text, a number or a list of them",
                false => "true or false",
            };
            wrong(format!(
                "{shown} line {number}: `{}` is of another type, expected {kind}",
                key.get_ref()
            ))
        };
        let text = |value: &Spanned<DeValue<'_>>| {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                DeValue::Float(number) => number.to_string(),
                DeValue::Datetime(date) => date.to_string(),
                _ => return Err(expected()),
            };
            Ok(match is_path {
                true => base.join(text).to_string_lossy().into_owned(),
                false => text,
            })
        };
        match (value.get_ref(), takes_value) {
            (DeValue::Boolean(true), false) => words.push(format!("--{long}")),
            (DeValue::Boolean(false), false) => {}
            (_, false) => return Err(expected()),
            (DeValue::Array(list), true) => {
                let texts = list.iter().map(text).collect::<Result<Vec<_>, _>>()?;
                match arg.get_value_delimiter() {
                    Some(between) => {
                        words.push(format!("--{long}={}", texts.join(&between.to_string())));
                    }
                    None => words.extend(texts.iter().map(|t| format!("--{long}={t}"))),
                }
            }
            (_, true) => words.push(format!("--{long}={}", text(value)?)),
        }
    }
    let after = 2.min(line.len());
    line.splice(after..after, words.into_iter().map(OsString::from));
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, args: &[&str]) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my blox.toml");
        std::fs::write(&path, file).unwrap();
        let config = ["--config".to_owned(), path.to_string_lossy().into_owned()];
        let args = args.iter().map(|a| (*a).to_owned());
        let args: Vec<OsString> = args.chain(config).map(OsString::from).collect();
        let shown = |text: String| text.replace(&*dir.path().to_string_lossy(), "DIR");
        let line = expanded(&args, crate::command::command);
        let line = line.map_err(|e| shown(e.into_text()))?;
        let words: Vec<String> = (line.unwrap_or_default().into_iter())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        Ok(shown(words.join(" ")))
    }

    const FILE: &str = "\
[scheduler]
scheduler = 'las'
state_dir = 'state'
listen = '0.0.0.0:7070'
insecure = true
keep_ended = 5

[node]
at = 'head:7070'
state_dir = '/var/lib/blox'
gpus = 8
";

    #[test]
    fn sections_become_options_that_the_line_replaces() {
        let scheduler = line(FILE, &["blox", "scheduler", "fifo", "--keep-ended", "7"]);
        let expected = "blox scheduler --insecure --listen=0.0.0.0:7070 --state-dir=DIR/state fifo --keep-ended 7";
        assert_eq!(scheduler.as_deref(), Ok(expected));
        let node = line(FILE, &["blox", "node", "--gpus=4"]);
        let expected = "blox node --at=head:7070 --state-dir=/var/lib/blox --gpus=4";
        assert_eq!(node.as_deref(), Ok(expected));
        assert_eq!(
            line("scheduler = 'las'", &["blox", "scheduler"]).as_deref(),
            Ok("")
        );
        assert_eq!(line(FILE, &["blox", "simulate"]).as_deref(), Ok(""));
    }

    #[test]
    fn wrong_keys_are_named_with_file_and_line() {
        for (file, error) in [
            (
                "[node]\nat = 'h:1'\ngpu = 4\n",
                "DIR/my blox.toml line 3: unknown key `gpu` in [node], expected an option of `blox node`",
            ),
            (
                "[node]\ngpus = true\n",
                "DIR/my blox.toml line 2: `gpus` is of another type, expected a text, a number or a list of them",
            ),
            (
                "x = 1\n[node]\n",
                "DIR/my blox.toml line 1: `x` is in no section, expected it below [scheduler] or [node]",
            ),
            (
                "[scheduler]\n",
                "DIR/my blox.toml: expected a section [node]",
            ),
            (
                "[node]\nat = \n",
                "DIR/my blox.toml line 2: string values must be quoted, expected literal string",
            ),
        ] {
            assert_eq!(line(file, &["blox", "node"]).unwrap_err(), error);
        }
    }
}
