//! Experiments in configuration files.

use crate::error::ExperimentError;
use crate::inputs::file_of;
use crate::origin::Origin;
use crate::settings::Experiment;
use blox_core::ClusterSpec;
use blox_registry::ComponentSpec;
use blox_traces::cluster_file::{is_path, line_at, message_of};
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error, ValueDeserializer};

/// Settings that are paths, which are relative to the folder of a configuration file.
const PATHS: [&str; 4] = ["trace", "throughputs", "data", "prices"];

/// Settings that are components, whose parameters may name files.
const COMPONENTS: [&str; 8] = [
    "workload",
    "services",
    "admission",
    "placement",
    "cluster-manager",
    "completion",
    "execution",
    "overheads",
];

impl Experiment {
    /// Reads a configuration file in TOML, with the keys of [`Experiment`].
    ///
    /// # Errors
    /// The file cannot be read, or has an unknown key or an invalid value.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        Self::read_beside(path, &Self::keys(), |_, _| Ok(false))
    }

    /// Reads a configuration file that also has other keys. `other` takes the value of one, and returns
    /// whether it knows the key. `known` are all keys, for messages.
    ///
    /// # Errors
    /// The file cannot be read, or has an unknown key or an invalid value.
    pub fn read_beside(
        path: &Path,
        known: &[String],
        mut other: impl FnMut(&str, &Spanned<DeValue<'_>>) -> Result<bool, Error>,
    ) -> Result<Self, ExperimentError> {
        let text = read_text(path)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let wrong = |(line, found), what: &str| ExperimentError::Key {
            path: path.to_owned(),
            line,
            found,
            what: message_of(what),
        };
        let wrong_value = |e: &Error, at: usize| {
            let at = e.span().map_or(at, |span| span.start);
            wrong(line_at(text, at), e.message())
        };
        let table = DeTable::parse(text).map_err(|e| wrong_value(&e, 0))?;
        let base = path.parent().unwrap_or(Path::new(""));
        let own = Self::keys();
        let mut experiment = Experiment {
            origin: Origin::file(path),
            ..Experiment::default()
        };
        for (key, mut value) in table.into_inner() {
            let (name, at) = (key.get_ref().as_ref(), value.span().start);
            if !own.iter().any(|own| own == name) {
                if !other(name, &value).map_err(|e| wrong_value(&e, at))? {
                    let known: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
                    let what = format!(
                        "unknown field `{name}`, expected one of {}",
                        known.join(", ")
                    );
                    return Err(wrong(line_at(text, key.span().start), &what));
                }
                continue;
            }
            rebase(name, &mut value, base);
            let set = experiment.set(name, ValueDeserializer::from(value));
            set.map_err(|e| wrong_value(&e, at))?;
        }
        if experiment.scheduler.is_some() && experiment.schedulers.is_some() {
            return Err(ExperimentError::Setting(format!(
                "{}: scheduler and schedulers are both given, expected one of them",
                path.display()
            )));
        }
        Ok(experiment)
    }
}

/// Largest configuration file in bytes.
const LARGEST: u64 = 16 << 20;

/// Reads the text of a configuration file of at most 16 MiB. A named pipe is refused, since it may
/// never get a writer, and a device, since it may have no end. The pipe of a shell's `<(COMMAND)` is
/// read.
///
/// # Errors
/// The file cannot be read, is larger, or is a folder, a device or a named pipe.
pub fn read_text(path: &Path) -> Result<String, ExperimentError> {
    let wrong = |why: String| ExperimentError::File {
        path: path.to_owned(),
        why,
    };
    if path.is_dir() {
        return Err(wrong("is a directory, expected a TOML file".to_owned()));
    }
    let failed = |e: std::io::Error| {
        wrong(match e.kind() {
            std::io::ErrorKind::NotFound => "no such file, expected an existing file".to_owned(),
            _ => format!("the configuration cannot be read: {e}"),
        })
    };
    // A pipe without a name has no path.
    let is_file = std::fs::metadata(path).map_err(failed)?.is_file();
    if !is_file && std::fs::canonicalize(path).is_ok() {
        let text = "is a device or a named pipe, expected a TOML file";
        return Err(wrong(text.to_owned()));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    let read = file.take(LARGEST + 1).read_to_string(&mut text);
    match read.map_err(failed)? as u64 > LARGEST {
        true => Err(wrong(format!("has more than {LARGEST} bytes"))),
        false => Ok(text),
    }
}

/// Resolves the paths in the value of a setting relative to a folder.
fn rebase(key: &str, value: &mut Spanned<DeValue<'_>>, base: &Path) {
    match (key, value.get_mut()) {
        ("vary", DeValue::Table(vary)) => {
            for (key, values) in vary.iter_mut() {
                if let DeValue::Array(values) = values.get_mut() {
                    let key = key.get_ref().as_ref();
                    values.iter_mut().for_each(|value| rebase(key, value, base));
                }
            }
        }
        (key, DeValue::String(text)) => {
            if let Some(moved) = rebased(key, text, base) {
                *text = Cow::Owned(moved);
            }
        }
        _ => {}
    }
}

/// Returns the value of a setting with its path relative to a folder; `None` if it has no path.
fn rebased(key: &str, text: &str, base: &Path) -> Option<String> {
    // An existing file needs no extension unless its name is also a shorthand.
    let is_file = |text: &str| text.parse::<ClusterSpec>().is_err() && base.join(text).is_file();
    if COMPONENTS.contains(&key) {
        return rebased_component(text, base);
    }
    let (before, file) = match key {
        "durations" | "burst-durations" => return rebased_law(text, base),
        "cluster" if is_path(text) || is_file(text) => ("", text),
        key if PATHS.contains(&key) => ("", text),
        _ => return None,
    };
    Some(format!("{before}{}", base.join(file).display()))
}

/// Returns `file:PATH` or `trace:PATH` with its path relative to a folder; `None` for another text.
fn rebased_law(text: &str, base: &Path) -> Option<String> {
    let file = file_of(text)?;
    let before = &text[..text.len() - file.len()];
    Some(format!("{before}{}", base.join(file).display()))
}

/// Returns a component with the paths in its parameters relative to a folder; `None` if there are none.
fn rebased_component(text: &str, base: &Path) -> Option<String> {
    let mut named: ComponentSpec = text.parse().ok()?;
    let names: Vec<String> = named.params.names().map(str::to_owned).collect();
    let mut has_paths = false;
    for name in names {
        let Some(moved) = rebased_law(named.params.text(&name), base) else {
            continue;
        };
        // Without quotes, a path with `,NAME=` would begin a parameter.
        let moved = match moved.contains(',') {
            true => format!("\"{moved}\""),
            false => moved,
        };
        named.params.set(name, moved);
        has_paths = true;
    }
    has_paths.then(|| named.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_file_are_relative_to_its_folder() {
        for (key, text, expected) in [
            ("durations", "file:d.txt", Some("file:conf/d.txt")),
            ("durations", "trace:/a/b.csv", Some("trace:/a/b.csv")),
            ("durations", "fixed:3", None),
            ("cluster", "2x4", None),
            ("cluster", "a.toml", Some("conf/a.toml")),
            ("round", "a", None),
            ("workload", "poisson{load=2}", None),
            (
                "workload",
                "poisson{durations=file:d.txt,load=2}",
                Some("poisson{durations=file:conf/d.txt,load=2}"),
            ),
            ("services", "services{need='file:a,b=c.csv'}", None),
            (
                "services",
                "services{need=\"file:a,b=c.csv\"}",
                Some("services{need=\"file:conf/a,b=c.csv\"}"),
            ),
        ] {
            let found = rebased(key, text, Path::new("conf"));
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn special_and_large_files_are_refused_without_a_wait() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("a pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let wrong = |path: &Path| Experiment::read(path).unwrap_err().to_string();
        for path in [&pipe, Path::new("/dev/zero")] {
            let expected = "is a device or a named pipe, expected a TOML file";
            assert_eq!(wrong(path), format!("{}: {expected}", path.display()));
        }
        let large = dir.path().join("large.toml");
        let file = std::fs::File::create(&large).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        let expected = "has more than 16777216 bytes";
        assert_eq!(wrong(&large), format!("{}: {expected}", large.display()));
        let (from, mut to) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut to, b"load = 3").unwrap();
        drop(to);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&from));
        assert_eq!(read_text(Path::new(&path)).unwrap(), "load = 3");
    }

    #[test]
    fn wrong_keys_are_named_with_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Experiment::read(&path).map_err(|e| e.to_string())
        };
        let shown = path.display();
        let right = read("load = 3\ntrace = \"a.csv\"\n[vary]\nload = [1, 2]\n").unwrap();
        assert_eq!(right.trace, Some(dir.path().join("a.csv")));
        assert_eq!(right.values()["load"], 3.0);
        let error = read("jobs = 5\nlod = 3\n").unwrap_err();
        let start =
            format!("{shown}:2: `lod = 3`: unknown field `lod`, expected one of `scheduler`");
        assert!(
            error.starts_with(&start) && error.ends_with("did you mean `load`?"),
            "{error}"
        );
        let error = read("jobs = 5\nround = 0\n").unwrap_err();
        let expected =
            format!("{shown}:2: `round = 0`: expected a number of seconds from 0.001 to 1e9");
        assert_eq!(error, expected);
    }
}
