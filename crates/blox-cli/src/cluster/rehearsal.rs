//! `blox scheduler NAME --dry-run`: the next decision of a scheduler, without any change.

use super::args::SchedulerArgs;
use super::cells::short;
use super::{daemons, log};
use crate::args::OutputFormat;
use crate::failure::{Code, Failure};
use crate::help::Late;
use crate::output::tables::sink;
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use blox_cluster::log::load;
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::rehearsal::{Change, Held, Kind, Rehearsal, rehearse};
use blox_cluster::shell::provider::Programs;
use blox_cluster::shell::scheduler::check_actions;
use blox_core::Seconds;
use blox_registry::Registry;
use blox_results::grid::Grid;
use blox_results::{TableSink, WriteError, number_of};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub(super) fn scheduler(
    registry: &Registry,
    late: Late<SchedulerArgs>,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let SchedulerArgs {
        mut simulate,
        daemon: a,
        command: _,
    } = *late.args;
    let output = &mut simulate.options.output;
    let format = output.format();
    (output.output_format, output.json) = (None, false);
    let (pipeline, _) = daemons::pipeline(registry, simulate, &late.matches)?;
    let settings = Settings {
        offers: daemons::offers(a.offers.as_deref())?,
        ..daemons::settings(&a.service, a.wait_for_nodes)
    };
    let nodes = Programs::new(a.resume_program, a.suspend_program, PathBuf::new());
    check_actions(&pipeline, &nodes).map_err(daemons::start_failure)?;
    let dir = a.state_dir.unwrap_or_default();
    log::exists(&dir)?;
    let recovered = load(&dir).map_err(|e| log::failed(&e))?;
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let at = Seconds::new(wall.as_secs_f64());
    let earlier = daemons::earlier(registry);
    let rehearsal = rehearse(recovered, pipeline, &settings, at, &earlier);
    let rehearsal = rehearsal.map_err(|e| Failure::of(Code::Daemon, plain(&e.to_string())))?;
    match format {
        OutputFormat::Table => {
            let table = table(&rehearsal.changes).text(terminal.form);
            if !rehearsal.changes.is_empty() {
                terminal.print(&table)?;
            }
            writeln!(terminal.out, "{}", summary(&rehearsal))?;
            for note in &rehearsal.notes {
                writeln!(terminal.out, "{}", plain(note))?;
            }
        }
        OutputFormat::Csv => {
            let mut bytes = Vec::new();
            let filled = fill(
                &rehearsal.changes,
                &mut *sink(Path::new("rehearsal.csv"), &mut bytes),
            );
            filled.map_err(|e| Failure::of(Code::Output, e))?;
            terminal.print(&String::from_utf8_lossy(&bytes))?;
            for note in &rehearsal.notes {
                writeln!(terminal.err, "{}", plain(note))?;
            }
        }
        OutputFormat::Json => {
            let json = serde_json::to_string(&rehearsal).map_err(Failure::new)?;
            writeln!(terminal.out, "{json}")?;
        }
    }
    Ok(OK)
}

/// Describes GPUs with their nodes, such as `4: node-0 node-1`.
fn gpus(held: &Held) -> String {
    match held.gpus {
        0 => "-".to_owned(),
        gpus => {
            let nodes: Vec<String> = held.nodes.iter().map(|n| short(n)).collect();
            format!("{gpus}: {}", nodes.join(" "))
        }
    }
}

fn table(changes: &[Change]) -> Grid {
    let named = |text: &str| match text {
        "" => "-".to_owned(),
        text => short(text),
    };
    Grid::of(
        changes,
        7,
        &[
            ("job", &|c| c.job.to_string()),
            ("name", &|c| named(&c.name)),
            ("user", &|c| named(&c.user)),
            ("change", &|c| c.kind.as_str().to_owned()),
            ("GPUs now", &|c| gpus(&c.now)),
            ("GPUs then", &|c| gpus(&c.then)),
            ("why", &|c| plain(&c.why)),
        ],
    )
}

/// Counts the jobs of each kind of change, and those that nothing changes for.
fn summary(rehearsal: &Rehearsal) -> String {
    let mut parts: Vec<String> = Vec::new();
    for kind in Kind::ALL {
        let of_kind = rehearsal.changes.iter().filter(|c| c.kind == kind);
        match of_kind.count() {
            0 => {}
            n => parts.push(format!(
                "{} would {}",
                number_of(n as u64, "job"),
                verb(kind)
            )),
        }
    }
    let (keep, wait) = (rehearsal.keep as u64, rehearsal.wait as u64);
    parts.push(format!(
        "{} would keep GPUs, {} would wait as now",
        number_of(keep, "job"),
        number_of(wait, "job")
    ));
    parts.join(", ")
}

fn verb(kind: Kind) -> &'static str {
    match kind {
        Kind::Reject => "be rejected",
        Kind::Complete => "end as completed",
        kind => kind.as_str(),
    }
}

fn fill(changes: &[Change], table: &mut dyn TableSink) -> Result<(), WriteError> {
    table.begin(&[
        "job",
        "name",
        "user",
        "change",
        "gpus_now",
        "nodes_now",
        "gpus_then",
        "nodes_then",
        "why",
    ]);
    for c in changes {
        table.whole(c.job.0.into());
        for text in [&*c.name, &*c.user, c.kind.as_str()] {
            table.text(Some(text));
        }
        for held in [&c.now, &c.then] {
            table.whole(held.gpus.into());
            let nodes: Vec<&str> = held.nodes.iter().map(|n| &**n).collect();
            table.text(Some(&nodes.join(" ")));
        }
        table.text(Some(&c.why));
        table.end_row()?;
    }
    table.finish()
}
