//! Options of sbatch: `#SBATCH` lines of a script and their forms on the command line. Each is
//! honoured, or refused by its name and line.

use super::args::SbatchArgs;
use super::batch::{STDIN, beginning, is_in_search_path};
use super::habits::replacement;
use crate::failure::Failure;
use crate::text::plain;
use blox_cluster::wire::pb;
use blox_results::quoted;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

/// Most jobs in an array, as the scheduler accepts it.
const LONGEST_ARRAY: usize = 4_096;

/// Value of an option.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    Nothing,
    Value,
    /// A value only after `=`.
    Maybe,
}

/// The options that have an effect: long name, short name, value.
const KNOWN: [(&str, char, Takes); 40] = [
    ("account", 'A', Takes::Value),
    ("array", 'a', Takes::Value),
    ("chdir", 'D', Takes::Value),
    ("comment", ' ', Takes::Value),
    ("cpus-per-gpu", ' ', Takes::Value),
    ("cpus-per-task", 'c', Takes::Value),
    ("dependency", 'd', Takes::Value),
    ("error", 'e', Takes::Value),
    ("export", ' ', Takes::Value),
    ("gpus", 'G', Takes::Value),
    ("gpus-per-node", ' ', Takes::Value),
    ("gpus-per-task", ' ', Takes::Value),
    ("gpu-type", ' ', Takes::Value),
    ("gres", ' ', Takes::Value),
    ("hold", 'H', Takes::Nothing),
    ("input", 'i', Takes::Value),
    ("job-name", 'J', Takes::Value),
    ("kill-on-invalid-dep", ' ', Takes::Value),
    ("mem", ' ', Takes::Value),
    ("mem-per-cpu", ' ', Takes::Value),
    ("mem-per-gpu", ' ', Takes::Value),
    ("nice", ' ', Takes::Maybe),
    ("no-requeue", ' ', Takes::Nothing),
    ("nodes", 'N', Takes::Value),
    ("ntasks", 'n', Takes::Value),
    ("ntasks-per-gpu", ' ', Takes::Value),
    ("ntasks-per-node", ' ', Takes::Value),
    ("open-mode", ' ', Takes::Value),
    ("output", 'o', Takes::Value),
    ("parsable", ' ', Takes::Nothing),
    ("partition", 'p', Takes::Value),
    ("priority", ' ', Takes::Value),
    ("quiet", 'Q', Takes::Nothing),
    ("requeue", ' ', Takes::Nothing),
    ("signal", ' ', Takes::Value),
    ("tasks-per-node", ' ', Takes::Value),
    ("time", 't', Takes::Value),
    ("uid", ' ', Takes::Value),
    ("verbose", 'v', Takes::Nothing),
    ("wckey", ' ', Takes::Value),
];

/// An option as it was given.
#[derive(Clone, Debug, PartialEq)]
struct Given {
    /// Place in the script, such as `job.sh line 3: `; empty on the command line.
    place: String,
    value: String,
}

impl Given {
    fn wrong(&self, option: &str, expected: &str) -> Failure {
        let Given { place, value } = self;
        let value = plain(value);
        Failure::new(format!(
            "{place}--{option} is `{value}`, expected {expected}"
        ))
    }
}

/// The given options by long name. A later one replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct Options(BTreeMap<&'static str, Given>);

/// Splits a line into words as a shell does, without expansions. A word that begins with `#` ends
/// the line.
fn words(line: &str) -> Result<Vec<String>, &'static str> {
    let mut all = Vec::new();
    let mut chars = line.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(first) = chars.peek().copied().filter(|c| *c != '#') else {
            return Ok(all);
        };
        let _ = first;
        let (mut word, mut quote) = (String::new(), None);
        loop {
            match (chars.next(), quote) {
                (None, Some(_)) => return Err("a quote has no end"),
                (None, None) => break,
                (Some(c), Some(q)) if c == q => quote = None,
                (Some('\\'), q) if q != Some('\'') => word.extend(chars.next()),
                (Some(c @ ('\'' | '"')), None) => quote = Some(c),
                (Some(c), None) if c.is_whitespace() => break,
                (Some(c), _) => word.push(c),
            }
        }
        all.push(word);
    }
}

impl Options {
    /// Reads the `#SBATCH` lines of a script, which end at its first command.
    pub fn of_script(name: &str, text: &str) -> Result<Self, Failure> {
        let mut all = Options::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            let is_comment = line.trim_start().is_empty() || line.starts_with('#');
            if !is_comment {
                break;
            }
            let Some(options) = line.strip_prefix("#SBATCH") else {
                continue;
            };
            if !options.starts_with(char::is_whitespace) {
                continue;
            }
            let place = format!("{} line {}: ", plain(name), number + 1);
            let words = words(options).map_err(|why| Failure::new(format!("{place}{why}")))?;
            all.add(&place, words)?;
        }
        Ok(all)
    }

    fn add(&mut self, place: &str, words: Vec<String>) -> Result<(), Failure> {
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let wrong = |text: String| Failure::new(format!("{place}{text}"));
            let shown = plain(&word);
            let (known, attached) = if let Some(long) = word.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (long, None),
                };
                (KNOWN.iter().find(|(long, ..)| *long == name), value)
            } else if let Some(rest) = word.strip_prefix('-') {
                let short = rest.chars().next().unwrap_or(' ');
                let value = &rest[short.len_utf8().min(rest.len())..];
                let value = value.strip_prefix('=').unwrap_or(value);
                let known = KNOWN.iter().find(|(_, s, _)| *s == short && short != ' ');
                (known, (!value.is_empty()).then(|| value.to_owned()))
            } else {
                return Err(wrong(format!("`{shown}` is no option")));
            };
            let Some((long, _, takes)) = known else {
                let name = shown.split('=').next().unwrap_or_default();
                let advice = replacement("submit", name).unwrap_or("remove it");
                return Err(wrong(format!(
                    "{name} has no meaning with node managers: {advice}"
                )));
            };
            let value = match (takes, attached) {
                (Takes::Nothing, Some(_)) => {
                    return Err(wrong(format!("--{long} takes no value")));
                }
                (Takes::Value, None) => words
                    .next()
                    .ok_or_else(|| wrong(format!("--{long} has no value")))?,
                (_, value) => value.unwrap_or_default(),
            };
            let place = place.to_owned();
            self.0.insert(long, Given { place, value });
        }
        Ok(())
    }

    /// Adds the options of the command line. They replace options of a script.
    pub fn replace_by(&mut self, args: SbatchArgs) {
        for (name, value) in args.given() {
            // One of the forms of a number of GPUs replaces all others.
            if GPUS.contains(&name) {
                GPUS.iter().for_each(|other| drop(self.0.remove(other)));
            }
            let place = String::new();
            self.0.insert(name, Given { place, value });
        }
    }

    /// Sets the number of GPUs, which another option of the command line gives.
    pub fn set_gpus(&mut self, gpus: u32) {
        let (place, value) = (String::new(), gpus.to_string());
        self.0.insert("gpus", Given { place, value });
    }

    /// Drops options that another option of the command line replaces.
    pub fn drop(&mut self, names: &[&str]) {
        self.0.retain(|name, _| !names.contains(name));
    }

    fn number(&self, option: &str) -> Result<Option<u32>, Failure> {
        let Some(given) = self.0.get(option) else {
            return Ok(None);
        };
        let number = given.value.parse().ok().filter(|n| *n > 0);
        let number = number.ok_or_else(|| given.wrong(option, "a whole number, at least 1"))?;
        Ok(Some(number))
    }

    fn text(&self, option: &str) -> Option<String> {
        self.0.get(option).map(|given| given.value.clone())
    }

    /// Returns the job that the options describe.
    pub fn job(&self) -> Result<Described, Failure> {
        let refuse = |option: &str, why: &str| match self.0.get(option) {
            Some(given) => Err(Failure::new(format!("{}--{option} {why}", given.place))),
            None => Ok(()),
        };
        refuse("uid", "has no meaning with node managers: remove it")?;
        refuse("wckey", "has no meaning with node managers: remove it")?;
        let nodes = self.nodes()?;
        let (gpus, gpu_type) = self.gpus(nodes)?;
        let all_gpus = gpus.unwrap_or(1);
        let tasks = self.tasks(nodes, all_gpus)?;
        if let (Some(given), Some(nodes)) = (self.0.get("nodes"), nodes)
            && !all_gpus.is_multiple_of(nodes)
        {
            let expected = format!("a number that divides the {all_gpus} GPUs");
            return Err(given.wrong("nodes", &expected));
        }
        let cpus = match (self.number("cpus-per-task")?, self.number("cpus-per-gpu")?) {
            (Some(each), _) => f64::from(each) * f64::from(tasks.unwrap_or(1)),
            (None, Some(each)) => f64::from(each) * f64::from(all_gpus),
            (None, None) => 0.0,
        };
        let of = |option: &str, times: f64| -> Result<Option<f64>, Failure> {
            let given = self.0.get(option);
            let gib = given.map(|given| {
                let expected = "a size such as 16G; without a letter in MiB";
                gib(&given.value).ok_or_else(|| given.wrong(option, expected))
            });
            Ok(gib.transpose()?.map(|gib| gib * times))
        };
        if cpus == 0.0 {
            refuse("mem-per-cpu", "needs --cpus-per-task, too")?;
        }
        let memory = [
            of("mem", f64::from(nodes.unwrap_or(1)))?,
            of("mem-per-gpu", f64::from(all_gpus))?,
            of("mem-per-cpu", cpus)?,
        ];
        let array = self.0.get("array").map(|given| {
            let expected = "indices such as 0-9, 0-9%3 or 1,5,7-20:2, 4,096 at most";
            array(&given.value).ok_or_else(|| given.wrong("array", expected))
        });
        let append = match self.text("open-mode").as_deref() {
            None | Some("truncate") => false,
            Some("append") => true,
            Some(_) => return Err(self.0["open-mode"].wrong("open-mode", "append or truncate")),
        };
        if self.text("kill-on-invalid-dep").is_some_and(|v| v != "yes") {
            let given = &self.0["kill-on-invalid-dep"];
            return Err(given.wrong("kill-on-invalid-dep", "yes: such a job is always cancelled"));
        }
        let whole = |option: &str| -> Result<Option<i32>, Failure> {
            let given = self.0.get(option);
            let number = given.map(|given| match (option, given.value.as_str()) {
                ("nice", "") => Ok(100),
                (_, text) => text
                    .parse()
                    .map_err(|_| given.wrong(option, "a whole number")),
            });
            number.transpose()
        };
        let priority = match (whole("priority")?, whole("nice")?) {
            (None, None) => None,
            (priority, nice) => Some(priority.unwrap_or(0).saturating_sub(nice.unwrap_or(0))),
        };
        Ok(Described {
            gpus,
            gpu_type: self.text("gpu-type").or(gpu_type),
            nodes: nodes.filter(|_| all_gpus > 1),
            cpus,
            memory_gib: memory.into_iter().flatten().next().unwrap_or(0.0),
            tasks,
            name: self.text("job-name"),
            queue: self.text("partition"),
            account: self.text("account"),
            comment: self.text("comment"),
            time: self
                .0
                .get("time")
                .map(|g| (g.place.clone(), g.value.clone())),
            priority,
            array: array.transpose()?,
            dependency: self.text("dependency"),
            hold: self.0.contains_key("hold"),
            chdir: self.text("chdir"),
            output: self.pattern("output")?,
            error: self.pattern("error")?,
            input: self.pattern("input")?,
            append,
            export: self.text("export"),
            grace: self.signal()?,
            max_retries: self.0.contains_key("no-requeue").then_some(0),
        })
    }

    fn nodes(&self) -> Result<Option<u32>, Failure> {
        let Some(given) = self.0.get("nodes") else {
            return Ok(None);
        };
        let (least, most) = given
            .value
            .split_once('-')
            .unwrap_or((&given.value, &given.value));
        let number = |text: &str| text.parse().ok().filter(|n| *n > 0);
        match (number(least), number(most)) {
            (Some(least), Some(most)) if least == most => Ok(Some(least)),
            _ => Err(given.wrong("nodes", "one number of nodes, at least 1")),
        }
    }

    /// Returns the number of GPUs and their type.
    fn gpus(&self, nodes: Option<u32>) -> Result<(Option<u32>, Option<String>), Failure> {
        let expected = "a number of GPUs such as 8 or a100:8";
        for (option, prefix, times) in [
            ("gres", true, nodes.unwrap_or(1)),
            ("gpus-per-node", false, nodes.unwrap_or(1)),
            ("gpus", false, 1),
            ("gpus-per-task", false, self.number("ntasks")?.unwrap_or(1)),
        ] {
            let Some(given) = self.0.get(option) else {
                continue;
            };
            let text = match prefix {
                false => given.value.as_str(),
                true => match given.value.strip_prefix("gpu") {
                    Some("") => "1",
                    Some(rest) if rest.starts_with(':') => &rest[1..],
                    _ => return Err(given.wrong(option, "gpu, gpu:N or gpu:TYPE:N")),
                },
            };
            let (gpu_type, count) = match text.rsplit_once(':') {
                Some((gpu_type, count)) => (Some(gpu_type), count),
                // `gpu:a100` is one GPU of a type.
                None if !text.bytes().all(|b| b.is_ascii_digit()) => (Some(text), "1"),
                None => (None, text),
            };
            let count: Option<u32> = count.parse().ok().filter(|n| *n > 0);
            let gpus = count.and_then(|count| count.checked_mul(times));
            let gpus = gpus.ok_or_else(|| given.wrong(option, expected))?;
            if gpu_type.is_some_and(|t| t.is_empty() || t.contains([',', ':'])) {
                return Err(given.wrong(option, expected));
            }
            return Ok((Some(gpus), gpu_type.map(str::to_owned)));
        }
        if let Some(given) = self.0.get("nodes")
            && nodes > Some(1)
        {
            return Err(given.wrong("nodes", "--gpus-per-node or --gres beside it"));
        }
        Ok((None, None))
    }

    /// Returns the number of tasks: one, or one for each GPU.
    fn tasks(&self, nodes: Option<u32>, gpus: u32) -> Result<Option<u32>, Failure> {
        let times = nodes.unwrap_or(1);
        for (option, times) in [
            ("ntasks", 1),
            ("ntasks-per-node", times),
            ("tasks-per-node", times),
            ("ntasks-per-gpu", gpus),
        ] {
            let Some(each) = self.number(option)? else {
                continue;
            };
            let tasks = each.saturating_mul(times);
            if tasks != 1 && tasks != gpus {
                let given = &self.0[option];
                let expected = format!("one task, or one for each of the {gpus} GPUs");
                return Err(given.wrong(option, &expected));
            }
            return Ok(Some(tasks));
        }
        Ok(None)
    }

    /// Returns the time between SIGTERM and the end.
    fn signal(&self) -> Result<Option<f64>, Failure> {
        let Some(given) = self.0.get("signal") else {
            return Ok(None);
        };
        let wrong = || given.wrong("signal", "TERM@SECONDS: jobs get SIGTERM before their end");
        let text = given.value.strip_prefix("B:").unwrap_or(&given.value);
        let (signal, seconds) = text.split_once('@').unwrap_or((text, "60"));
        let is_term = ["TERM", "SIGTERM", "15"].contains(&signal);
        let seconds = seconds.parse::<f64>().ok().filter(|s| *s > 0.0);
        match seconds.filter(|_| is_term) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(wrong()),
        }
    }

    /// Returns a file name with patterns as a word of a shell.
    fn pattern(&self, option: &str) -> Result<Option<String>, Failure> {
        let Some(given) = self.0.get(option) else {
            return Ok(None);
        };
        let word = pattern(&given.value);
        let expected = "a file name with the patterns %A %a %j %J %N %n %t %u %x %%, and widths up to 255 such as %4j";
        word.map(Some).ok_or_else(|| given.wrong(option, expected))
    }
}

/// Options that give a number of GPUs.
pub(super) const GPUS: [&str; 4] = ["gres", "gpus", "gpus-per-node", "gpus-per-task"];

/// Jobs of an array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    pub indices: Vec<u32>,
    /// Jobs that may run at once; 0 for any number.
    pub at_once: u32,
}

/// A job, as options of sbatch describe it.
#[derive(Debug)]
pub(super) struct Described {
    pub gpus: Option<u32>,
    pub gpu_type: Option<String>,
    /// Number of nodes with an equal part of the GPUs; `None` for any, and for a job of one GPU.
    pub nodes: Option<u32>,
    pub cpus: f64,
    pub memory_gib: f64,
    pub tasks: Option<u32>,
    pub name: Option<String>,
    pub queue: Option<String>,
    pub account: Option<String>,
    pub comment: Option<String>,
    /// Place and value of the time limit.
    pub time: Option<(String, String)>,
    pub priority: Option<i32>,
    pub array: Option<Array>,
    pub dependency: Option<String>,
    pub hold: bool,
    pub chdir: Option<String>,
    pub output: Option<String>,
    pub error: Option<String>,
    pub input: Option<String>,
    pub append: bool,
    pub export: Option<String>,
    pub grace: Option<f64>,
    pub max_retries: Option<u32>,
}

/// Parses a size of memory in GiB. Without a letter it is in MiB, as for sbatch.
fn gib(text: &str) -> Option<f64> {
    let letter = text.chars().last()?.to_ascii_uppercase();
    let (number, unit) = match letter {
        'K' => (&text[..text.len() - 1], 1.0 / (1024.0 * 1024.0)),
        'M' => (&text[..text.len() - 1], 1.0 / 1024.0),
        'G' => (&text[..text.len() - 1], 1.0),
        'T' => (&text[..text.len() - 1], 1024.0),
        _ => (text, 1.0 / 1024.0),
    };
    let number: u64 = number.parse().ok().filter(|n| *n > 0)?;
    Some(number as f64 * unit)
}

/// Parses the indices of an array, such as `1,5,7-20:2%3`.
fn array(text: &str) -> Option<Array> {
    let (list, at_once) = match text.split_once('%') {
        Some((list, most)) => (list, most.parse().ok().filter(|n| *n > 0)?),
        None => (text, 0),
    };
    let mut indices = Vec::new();
    for part in list.split(',') {
        let (range, step) = match part.split_once(':') {
            Some((range, step)) if range.contains('-') => (range, step.parse().ok()?),
            Some(_) => return None,
            None => (part, 1),
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || step == 0 {
            return None;
        }
        indices.extend((first..=last).step_by(step).take(LONGEST_ARRAY + 1));
        if indices.len() > LONGEST_ARRAY {
            return None;
        }
    }
    indices.sort_unstable();
    indices.dedup();
    Some(Array { indices, at_once })
}

/// Longest name of a file in bytes.
const LONGEST_NAME: u32 = 255;

/// Patterns in names of files, and their values in a shell.
const PATTERNS: [(char, &str); 9] = [
    ('A', "${BLOX_ARRAY_JOB_ID:-$BLOX_JOB_ID}"),
    ('a', "${BLOX_ARRAY_TASK_ID:-4294967294}"),
    ('j', "$BLOX_JOB_ID"),
    ('J', "$BLOX_JOB_ID"),
    ('N', "$(hostname)"),
    ('n', "$BLOX_NODE_RANK"),
    ('t', "$RANK"),
    ('u', "$SLURM_JOB_USER"),
    ('x', "$SLURM_JOB_NAME"),
];

/// Returns a word of a shell for a file name with patterns.
fn pattern(text: &str) -> Option<String> {
    let mut word = String::from("\"");
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' | '"' | '$' | '`' => word.extend(['\\', c]),
            '%' => {
                let mut width = String::new();
                while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                    width.push(digit);
                }
                if !width.is_empty() && !width.parse().is_ok_and(|n: u32| n <= LONGEST_NAME) {
                    return None;
                }
                let value = match chars.next()? {
                    '%' => "%",
                    letter => PATTERNS.iter().find(|(l, _)| *l == letter)?.1,
                };
                match width.is_empty() || !value.contains("_ID") && !value.contains("RANK") {
                    true => word.push_str(value),
                    // Writing to a `String` cannot fail.
                    false => drop(write!(word, "$(printf %0{width}d \"{value}\")")),
                }
            }
            c => word.push(c),
        }
    }
    word.push('"');
    Some(word)
}

/// Returns the file name of a word that [`pattern`] returns, with the values of a job. A pattern
/// without a value stays.
fn file_name(word: &str, value_of: impl Fn(char) -> Option<String>) -> String {
    let (mut name, mut rest) = (String::new(), word);
    while let Some(c) = rest.chars().next() {
        let printed = rest
            .strip_prefix("$(printf %0")
            .and_then(|r| r.split_once("d \""));
        let (width, value) = printed.unwrap_or(("", rest));
        let mut known = PATTERNS.iter();
        let found = known.find_map(|(letter, text)| Some((letter, value.strip_prefix(text)?)));
        let Some((letter, after)) = found else {
            let mut literal = rest.strip_prefix('\\').unwrap_or(rest).chars();
            name.push(literal.next().unwrap_or(c));
            rest = literal.as_str();
            continue;
        };
        let wide = width.parse().unwrap_or(0);
        match value_of(*letter) {
            // Writing to a `String` cannot fail.
            Some(value) => drop(write!(name, "{value:0>wide$}")),
            None => drop(write!(name, "%{width}{letter}")),
        }
        rest = match printed {
            Some(_) => after.strip_prefix("\")").unwrap_or(after),
            None => after,
        };
    }
    name
}

/// A batch script.
#[derive(Debug)]
pub(super) struct Script {
    /// Name as given.
    pub name: String,
    /// Its text; `None` if it is not text or too long to be sent.
    text: Option<String>,
    /// Program and option after `#!`.
    interpreter: Vec<String>,
    path: String,
}

/// Longest text of a script that is sent with a job. Longer scripts are read when the job starts.
const LONGEST_SCRIPT: usize = 32_768;

/// Shells that run a text after `-c`.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

/// Returns program and option after `#!` in the first line of a script.
fn interpreter_of(text: &str) -> Option<Vec<String>> {
    let line = text.lines().next()?.strip_prefix("#!")?;
    Some(line.split_whitespace().map(str::to_owned).collect())
}

impl Script {
    /// Returns the script that runs one line with a shell.
    pub fn wrapping(line: &str) -> Self {
        let name = "wrap".to_owned();
        Script {
            text: Some(line.to_owned()),
            interpreter: vec!["/bin/sh".to_owned()],
            path: name.clone(),
            name,
        }
    }

    /// Reads the script from standard input. No node can read it later, so a shell must run its text.
    pub fn read(from: impl std::io::Read) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::new(format!("the script in standard input {why}"));
        let mut bytes = Vec::new();
        let read = from.take(LONGEST_SCRIPT as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|e| wrong(&format!("cannot be read: {e}")))?;
        if bytes.len() > LONGEST_SCRIPT {
            return Err(wrong(&format!(
                "has more than {LONGEST_SCRIPT} bytes, the most that a job carries: write it to a file"
            )));
        }
        let text = String::from_utf8(bytes).map_err(|_| wrong("is no text, expected UTF-8"))?;
        let interpreter = interpreter_of(&text);
        let interpreter = interpreter.ok_or_else(|| {
            wrong("begins with no interpreter, expected a first line such as #!/bin/bash")
        })?;
        let script = Script {
            name: "sbatch".to_owned(),
            text: Some(text),
            interpreter,
            path: STDIN.to_owned(),
        };
        match SHELLS.contains(&script.program()) {
            true => Ok(script),
            false => Err(wrong(&format!(
                "is for `{}`, which reads files only, expected a shell such as #!/bin/bash: write the script to a file",
                plain(&script.interpreter.join(" "))
            ))),
        }
    }

    /// Returns the script that a command runs, if any. A script has `#!` and `#SBATCH` lines, or is in
    /// no search path. With `asked`, any file is a script.
    pub fn of(command: &str, asked: bool) -> Result<Option<Self>, Failure> {
        let path = Path::new(command);
        if !asked && !path.is_file() {
            return Ok(None);
        }
        let bytes = match beginning(path) {
            Ok(bytes) => bytes,
            Err(e) if asked => return Err(Failure::new(format!("--script {command}: {e}"))),
            Err(_) => return Ok(None),
        };
        let text = String::from_utf8(bytes).ok();
        let Some(interpreter) = text.as_deref().and_then(interpreter_of) else {
            return match asked {
                true => Err(Failure::new(format!(
                    "--script {command}: expected a first line such as #!/bin/bash"
                ))),
                false => Ok(None),
            };
        };
        let lines = text.as_deref().unwrap_or_default().lines();
        let has_options = { lines }.any(|line| line.starts_with("#SBATCH "));
        let is_bare = !command.contains('/') && !is_in_search_path(command);
        if !(asked || has_options || is_bare) {
            return Ok(None);
        }
        let path = std::path::absolute(path).map_err(|e| Failure::new(e.to_string()))?;
        Ok(Some(Script {
            name: command.to_owned(),
            text: text.filter(|text| text.len() <= LONGEST_SCRIPT),
            interpreter,
            path: path.to_string_lossy().into_owned(),
        }))
    }

    /// Returns the options of its lines.
    pub fn options(&self) -> Result<Options, Failure> {
        match &self.text {
            Some(text) if self.path == STDIN => Options::of_script("standard input", text),
            Some(text) => Options::of_script(&self.name, text),
            None => {
                let bytes = std::fs::read(&self.path);
                let bytes = bytes.map_err(|e| Failure::new(format!("{}: {e}", self.name)))?;
                Options::of_script(&self.name, &String::from_utf8_lossy(&bytes))
            }
        }
    }

    /// Returns the name of the interpreter's program.
    fn program(&self) -> &str {
        let words = &self.interpreter;
        let program = match words.first().map(|word| word.ends_with("/env")) {
            Some(true) => words.get(1),
            _ => words.first(),
        };
        program.and_then(|p| p.rsplit('/').next()).unwrap_or("")
    }

    /// Returns the command that runs the present text of the script, even if the file changes before
    /// the job starts. Only shells can run a text; other interpreters read the file.
    fn command(&self, args: &[String]) -> Vec<String> {
        let mut words = self.interpreter.clone();
        match &self.text {
            Some(text) if SHELLS.contains(&self.program()) => {
                words.extend(["-c".to_owned(), text.clone(), self.name.clone()]);
            }
            _ => words.push(self.path.clone()),
        }
        words.extend(args.iter().cloned());
        words
    }
}

/// Returns the command of a job: the command, or the script, with redirected output.
///
/// A script runs once, on the first GPU's process, unless it has a task for each GPU.
pub(super) fn command(
    script: Option<&Script>,
    command: Vec<String>,
    job: &Described,
    gpus: u32,
    variables: &[(&str, String)],
) -> Vec<String> {
    let runs = match script {
        Some(script) => script.command(&command[1..]),
        None => command,
    };
    let once = gpus > 1 && script.is_some() && job.tasks.is_none_or(|tasks| tasks == 1);
    let mut text = String::new();
    if once {
        text += ONCE;
    }
    if script.is_some() || job.output.is_some() || job.error.is_some() {
        for (name, value) in variables {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "export {name}={}", quoted(value));
        }
    }
    if script.is_some() {
        text += "export SLURM_JOB_ID=$BLOX_JOB_ID SLURM_JOBID=$BLOX_JOB_ID\n";
        text += "export SLURM_JOB_NODELIST=$BLOX_NODELIST SLURM_NNODES=$BLOX_NNODES\n";
        text +=
            "export SLURM_PROCID=$RANK SLURM_LOCALID=$LOCAL_RANK SLURM_NODEID=$BLOX_NODE_RANK\n";
    }
    let append = job.append || gpus > 1 && !once;
    let mut redirect = |from: u8, word: &Option<String>| {
        let Some(word) = word else {
            return;
        };
        let _ = match append {
            true => writeln!(text, "exec {from}>>{word}"),
            false => writeln!(
                text,
                "if [ \"$BLOX_ATTEMPT\" -gt 1 ]; then exec {from}>>{word}; else exec {from}>{word}; fi"
            ),
        };
    };
    redirect(1, &job.output);
    redirect(2, &job.error);
    if job.output.is_some() && job.error.is_none() {
        text += "exec 2>&1\n";
    }
    if let Some(word) = &job.input {
        let _ = writeln!(text, "exec <{word}");
    }
    if text.is_empty() {
        return runs;
    }
    text += RUNS_COMMAND;
    let name = script.map_or("job", |script| &script.name).to_owned();
    let mut all = vec!["/bin/sh".to_owned(), "-c".to_owned(), text, name];
    all.extend(runs);
    all
}

/// Line that ends all processes of a job but the first.
const ONCE: &str = "[ \"$RANK\" = 0 ] || exit 0\n";

/// End of the text before a command, which sets its variables and redirects its output.
const RUNS_COMMAND: &str = "exec \"$@\"";

/// Returns the command of a user without the text before it; see [`command`].
pub(super) fn own_command(words: &[String]) -> &[String] {
    match words {
        [shell, option, text, _, own @ ..]
            if shell == "/bin/sh"
                && option == "-c"
                && text.ends_with(RUNS_COMMAND)
                && !own.is_empty() =>
        {
            own
        }
        _ => words,
    }
}

/// Returns the file for the output of a submitted command, as a word of a shell; `None` without
/// --output.
fn output_word(words: &[String]) -> Option<&str> {
    let [_, _, text, ..] = words else { return None };
    let mut lines = text
        .lines()
        .filter(|_| own_command(words).len() < words.len());
    lines.find_map(|line| {
        let rest = line.strip_prefix("exec 1>>");
        let other = line.split_once("else exec 1>");
        let word = rest.or_else(|| other?.1.strip_suffix("; fi"))?;
        word.strip_prefix('"')?.strip_suffix('"')
    })
}

/// Returns the path of the output of a job; `None` without --output. Patterns that differ between
/// its processes, and the name of a host, stay.
pub(super) fn output_of(j: &pb::JobLine) -> Option<String> {
    let word = output_word(&j.command)?;
    let text = j.command.get(2).map_or("", String::as_str);
    let is_one = j.gpus == 1 || text.starts_with(ONCE);
    // The scheduler takes the user from a certificate, but only after the submission.
    let has_user = text.lines().all(|line| line != "export SLURM_JOB_USER=''");
    let value_of = |letter| match letter {
        'A' => Some(j.array.unwrap_or(j.job).to_string()),
        'a' => Some(j.array.map_or(u32::MAX - 1, |_| j.index).to_string()),
        'j' | 'J' => Some(j.job.to_string()),
        'n' | 't' if is_one => Some("0".to_owned()),
        'u' if has_user => Some(j.user.clone()),
        'u' => Some(String::new()),
        'x' => Some(j.name.clone()),
        _ => None,
    };
    let path = Path::new(&j.working_directory).join(file_name(word, value_of));
    Some(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(lines: &str) -> Result<Described, String> {
        let text = format!("#!/bin/bash\n{lines}\necho\n#SBATCH --nonsense\n");
        let options = Options::of_script("job.sh", &text).map_err(Failure::into_text)?;
        options.job().map_err(Failure::into_text)
    }

    #[test]
    fn lines_describe_a_job() {
        let job = job("\
#SBATCH -J train -p gpu  # a comment
##SBATCH --gibberish
# plain comment
#SBATCH --nodes=2 --gres=gpu:a100:4
#SBATCH --ntasks-per-node 4 -c6
#SBATCH --mem=64G
#SBATCH --array=1,5,7-11:2%3 --dependency afterok:12
#SBATCH --signal=B:TERM@90 --nice --no-requeue
#SBATCH -o 'logs/%x-%A_%3a.out'");
        let job = job.unwrap();
        assert_eq!((job.gpus, job.gpu_type.as_deref()), (Some(8), Some("a100")));
        assert_eq!(
            (job.tasks, job.cpus, job.memory_gib),
            (Some(8), 48.0, 128.0)
        );
        assert_eq!(
            (job.name.as_deref(), job.queue.as_deref()),
            (Some("train"), Some("gpu"))
        );
        let array = job.array.unwrap();
        assert_eq!((array.indices, array.at_once), (vec![1, 5, 7, 9, 11], 3));
        assert_eq!(
            (job.grace, job.priority, job.max_retries),
            (Some(90.0), Some(-100), Some(0))
        );
        let output = "\"logs/$SLURM_JOB_NAME-${BLOX_ARRAY_JOB_ID:-$BLOX_JOB_ID}_$(printf %03d \"${BLOX_ARRAY_TASK_ID:-4294967294}\").out\"";
        assert_eq!(job.output.as_deref(), Some(output));
        let one_gpu = self::job("#SBATCH -N 1").unwrap();
        assert_eq!(job.nodes, Some(2));
        assert_eq!(one_gpu.nodes, None);
    }

    #[test]
    fn refused_lines_are_named() {
        assert!(job("#SBATCH -o %255j").is_ok());
        let expected = "a file name with the patterns %A %a %j %J %N %n %t %u %x %%, and widths up to 255 such as %4j";
        for wide in ["%256j", "%999999999j", "%99999999999999999999a", "%5q"] {
            let error = job(&format!("#SBATCH -o {wide}")).unwrap_err();
            let text = format!("job.sh line 2: --output is `{wide}`, expected {expected}");
            assert_eq!(error, text);
        }
        for (line, error) in [
            (
                "--mail-user=a@b.c",
                "--mail-user has no meaning with node managers: blox sends no mail: remove it",
            ),
            (
                "-w node1",
                "-w has no meaning with node managers: the policy chooses the nodes; `blox drain` takes a node out of use",
            ),
            (
                "--exclusive",
                "--exclusive has no meaning with node managers: a job has its own GPUs, and shares them with --gpu-share: remove it",
            ),
            ("job", "`job` is no option"),
            ("-J", "--job-name has no value"),
            ("--hold=now", "--hold takes no value"),
            (
                "--gres=fpga:1",
                "--gres is `fpga:1`, expected gpu, gpu:N or gpu:TYPE:N",
            ),
            (
                "--gpus=0",
                "--gpus is `0`, expected a number of GPUs such as 8 or a100:8",
            ),
            (
                "--nodes=2",
                "--nodes is `2`, expected --gpus-per-node or --gres beside it",
            ),
            (
                "--nodes=2 --gpus=3",
                "--nodes is `2`, expected a number that divides the 3 GPUs",
            ),
            (
                "--nodes=2-4",
                "--nodes is `2-4`, expected one number of nodes, at least 1",
            ),
            (
                "-n 3 --gpus=2",
                "--ntasks is `3`, expected one task, or one for each of the 2 GPUs",
            ),
            (
                "--mem=lots",
                "--mem is `lots`, expected a size such as 16G; without a letter in MiB",
            ),
            (
                "--mem-per-cpu=1G",
                "--mem-per-cpu needs --cpus-per-task, too",
            ),
            (
                "--array=9-0",
                "--array is `9-0`, expected indices such as 0-9, 0-9%3 or 1,5,7-20:2, 4,096 at most",
            ),
            (
                "--array=0-4294967295",
                "--array is `0-4294967295`, expected indices such as 0-9, 0-9%3 or 1,5,7-20:2, 4,096 at most",
            ),
            (
                "--signal=USR1@60",
                "--signal is `USR1@60`, expected TERM@SECONDS: jobs get SIGTERM before their end",
            ),
            (
                "-o %q",
                "--output is `%q`, expected a file name with the patterns %A %a %j %J %N %n %t %u %x %%, and widths up to 255 such as %4j",
            ),
            ("-J 'a", "a quote has no end"),
        ] {
            let found = job(&format!("#SBATCH {line}")).unwrap_err();
            assert_eq!(found, format!("job.sh line 2: {error}"));
        }
    }

    #[test]
    fn command_line_replaces_lines() {
        let mut options = Options::of_script("x", "#SBATCH --gres=gpu:4 -J a --mem=8G\n")
            .ok()
            .unwrap();
        options.replace_by(SbatchArgs {
            gpus_per_node: Some("2".to_owned()),
            mem: Some("1G".to_owned()),
            ..SbatchArgs::default()
        });
        let job = options.job().ok().unwrap();
        assert_eq!(
            (job.gpus, job.memory_gib, job.name.as_deref()),
            (Some(2), 1.0, Some("a"))
        );
    }

    #[test]
    fn own_command_and_output_are_found_again() {
        let line = |gpus, command: &[String]| pb::JobLine {
            job: 17,
            array: Some(12),
            index: 5,
            name: "train".to_owned(),
            user: "ada".to_owned(),
            gpus,
            command: command.to_vec(),
            working_directory: "/home/ada".to_owned(),
            ..pb::JobLine::default()
        };
        for (lines, gpus, output) in [
            ("-o logs/%x.out", 1, Some("/home/ada/logs/train.out")),
            ("-o /tmp/a.out --open-mode=append", 1, Some("/tmp/a.out")),
            ("-o %A_%4a-%j-%t", 1, Some("/home/ada/12_0005-17-0")),
            ("-o %u%%%3t-%N", 2, Some("/home/ada/ada%%3t-%N")),
            ("-o '$(x) \"%4t\"' -n 1", 2, Some("/home/ada/$(x) \"%4t\"")),
            ("-i in", 1, None),
        ] {
            let own = ["true".to_owned(), "x y".to_owned()];
            let described = job(&format!("#SBATCH {lines}")).unwrap();
            let words = command(None, own.to_vec(), &described, gpus, &[]);
            assert_eq!(own_command(&words), own);
            assert_eq!(output_of(&line(gpus, &words)).as_deref(), output);
            assert_eq!(own_command(&own), own);
            assert_eq!(output_of(&line(gpus, &own)), None);
        }
    }

    #[test]
    fn script_runs_once_with_its_output_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my job.sh");
        let text = "#!/bin/sh\n#SBATCH -o out-%j\necho \"$0 $1 $SLURM_JOB_ID\"\n";
        std::fs::write(&path, text).unwrap();
        let name = path.to_string_lossy().into_owned();
        let script = Script::of(&name, false).ok().flatten().unwrap();
        let job = script.options().ok().unwrap().job().ok().unwrap();
        let words = command(
            Some(&script),
            vec![name.clone(), "it's".to_owned()],
            &job,
            2,
            &[],
        );
        for rank in ["1", "0"] {
            let mut run = std::process::Command::new(&words[0]);
            let run = run.args(&words[1..]).current_dir(&dir).env("RANK", rank);
            let run = run.env("BLOX_JOB_ID", "7").env("BLOX_ATTEMPT", "1");
            assert!(run.output().unwrap().status.success());
            assert_eq!(dir.path().join("out-7").exists(), rank == "0");
        }
        let out = std::fs::read_to_string(dir.path().join("out-7")).unwrap();
        assert_eq!(out, format!("{name} it's 7\n"));
    }

    #[test]
    fn script_of_standard_input_runs_or_is_refused() {
        let read = |text: &str| Script::read(text.as_bytes());
        let text = "#!/usr/bin/env bash\n#SBATCH -J mine\nhostname\n";
        let script = read(text).ok().unwrap();
        let job = script.options().ok().unwrap().job().ok().unwrap();
        assert_eq!(job.name.as_deref(), Some("mine"));
        let runs = script.command(&["3".to_owned()]);
        assert_eq!(runs, ["/usr/bin/env", "bash", "-c", text, "sbatch", "3"]);
        let wrong = read("#!/bin/sh\n#SBATCH --nodes=0\n").ok().unwrap();
        let wrong = wrong.options().ok().unwrap().job().err().unwrap();
        let place = "standard input line 2: --nodes is `0`, ";
        assert!(wrong.into_text().starts_with(place));
        let long = "#!/bin/sh\n".repeat(LONGEST_SCRIPT);
        for (text, why) in [
            ("", "begins with no interpreter, "),
            ("hostname\n", "begins with no interpreter, "),
            (
                "#!/usr/bin/python3\n",
                "is for `/usr/bin/python3`, which reads files only, ",
            ),
            (&long, "has more than 32768 bytes, "),
        ] {
            let found = read(text).err().unwrap().into_text();
            let expected = format!("the script in standard input {why}");
            assert!(found.starts_with(&expected), "{found}");
        }
    }
}
