//! The command line and the configuration file as one.

use super::Failure;
use super::args::{CompareArgs, Options, SimulateArgs};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What was asked for, and where each part of it stands.
pub(super) struct Given {
    pub options: Options,
    /// The schedulers by name, at least one.
    pub schedulers: Vec<String>,
    /// Whether it is a comparison.
    pub compares: bool,
    on_command_line: BTreeSet<String>,
    file: Option<PathBuf>,
}

impl Given {
    /// A key as the user wrote it, for messages.
    pub fn name(&self, key: &str) -> String {
        match &self.file {
            Some(file) if !self.on_command_line.contains(key) => {
                format!("{}: {key}", file.display())
            }
            _ => format!("--{key}"),
        }
    }

    /// The configuration file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

pub(super) fn simulate(args: SimulateArgs) -> Result<Given, Failure> {
    let mut given = merge(args.options)?;
    let of_file = match (&given.options.scheduler, &given.options.schedulers) {
        (Some(one), _) => Some(one.clone()),
        (None, Some(list)) if list.len() == 1 => Some(list[0].clone()),
        _ => None,
    };
    let Some(scheduler) = args.scheduler.or(of_file) else {
        return Err(Failure::new(
            "no scheduler, expected --scheduler NAME; `blox policies` lists the names",
        ));
    };
    given.schedulers = vec![scheduler];
    Ok(given)
}

pub(super) fn compare(args: CompareArgs) -> Result<Given, Failure> {
    let mut given = merge(args.options)?;
    given.compares = true;
    given.schedulers = if args.schedulers.is_empty() {
        given.options.schedulers.clone().unwrap_or_default()
    } else {
        args.schedulers
    };
    if given.schedulers.is_empty() {
        return Err(Failure::new(
            "no scheduler, expected names such as fifo srtf las; `blox policies` lists them",
        ));
    }
    Ok(given)
}

macro_rules! first_given {
    ($cli:ident, $file:ident; options: $($o:ident)*; flags: $($f:ident)*) => {
        Options {
            $($o: $cli.$o.or($file.$o),)*
            $($f: $cli.$f || $file.$f,)*
        }
    };
}

fn merge(cli: Options) -> Result<Given, Failure> {
    let path = cli.config.clone();
    let file = match &path {
        Some(path) => read(path)?,
        None => Options::default(),
    };
    let on_command_line = match serde_json::to_value(&cli) {
        Ok(serde_json::Value::Object(keys)) => keys.into_iter().map(|(key, _)| key).collect(),
        _ => BTreeSet::new(),
    };
    // Two ways to say one thing: the command line's way counts.
    let mut file = file;
    if cli.trace.is_some() || cli.workload.is_some() {
        file.trace = None;
        file.workload = None;
    }
    if cli.trace.is_some() {
        file.format = None;
    }
    if cli.load.is_some() || cli.load_of_capacity.is_some() {
        file.load = None;
        file.load_of_capacity = None;
    }
    if cli.round.is_some() || cli.on_event.is_some() {
        file.round = None;
        file.on_event = None;
    }
    let options = first_given!(cli, file;
        options: scheduler schedulers trace format workload load load_of_capacity durations
            gpu_mix jobs seed cluster admission placement cluster_manager round on_event
            completion launch_s checkpoint_s restart_s migration_s node_mtbf_h node_mttr_h
            job_mtbf_h checkpoint_every_s launch_failure measure output_dir explain journal config;
        flags: visit_every_round force rounds assignments plots json quiet);
    Ok(Given {
        options,
        schedulers: Vec::new(),
        compares: false,
        on_command_line,
        file: path,
    })
}

fn read(path: &Path) -> Result<Options, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Failure::new(format!("{shown}: no such file")),
        _ => Failure::new(format!("{shown}: the configuration cannot be read: {e}")),
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut options: Options = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        let line = text.bytes().take(at).filter(|b| *b == b'\n').count();
        let found: String = text
            .lines()
            .nth(line)
            .unwrap_or("")
            .trim()
            .chars()
            .take(60)
            .collect();
        let what = e.message().replace('\n', ", ");
        Failure::new(format!("{shown}: line {} is `{found}`: {what}", line + 1))
    })?;
    // Paths are meant from where the file lies.
    let base = path.parent().unwrap_or(Path::new(""));
    let paths = [
        &mut options.trace,
        &mut options.output_dir,
        &mut options.journal,
    ];
    for path in paths.into_iter().flatten() {
        *path = base.join(&*path);
    }
    if let Some(cluster) = &mut options.cluster
        && (cluster.ends_with(".toml") || cluster.contains('/'))
    {
        *cluster = base.join(&*cluster).to_string_lossy().into_owned();
    }
    Ok(options)
}
