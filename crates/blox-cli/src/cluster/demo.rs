//! `blox demo`: a cluster on this machine for about half a minute.

use super::commands::counted_exits;
use super::daemons::stop_signal;
use super::local::{self, Nodes};
use crate::failure::Failure;
use crate::terminal::{OK, Terminal};
use blox_cluster::protocol::scheduler::Settings;
use blox_cluster::wire::pb;
use blox_core::{Rounds, Seconds};
use blox_registry::{ComponentSpec, Registry};
use blox_results::number_of;
use std::collections::BTreeMap;
use std::time::Duration;

const NODES: usize = 4;

/// Name, GPUs, tenths of seconds, and submission time in ms.
const JOBS: [(&str, u32, u32, u64); 8] = [
    ("long-a", 2, 180, 0),
    ("long-b", 2, 160, 0),
    ("wide", 4, 50, 1_000),
    ("short-1", 1, 16, 3_000),
    ("short-2", 1, 16, 3_500),
    ("gang", 3, 60, 5_000),
    ("short-3", 1, 20, 6_000),
    ("late", 2, 40, 8_000),
];

pub(super) fn run(registry: &Registry, terminal: &mut Terminal<'_>) -> Result<i32, Failure> {
    let las = registry.schedulers.build(&ComponentSpec::plain("las"), 1)?;
    let second = Rounds::every(Seconds::new(1.0));
    let las = las.with_trigger(second.unwrap_or_default());
    let settings = Settings {
        wait_for_nodes: NODES,
        ..Settings::default()
    };
    local::run(las, settings, 2, async |nodes| {
        writeln!(
            terminal.out,
            "scheduler las and {NODES} nodes of 2 GPU slots at {}",
            nodes.at
        )?;
        tokio::select! {
            result = play(nodes, terminal) => result,
            // The started processes are ended in this case too.
            () = stop_signal() => Err(Failure::new("interrupted")),
        }
    })?;
    writeln!(terminal.out, "all processes and files are gone")?;
    Ok(OK)
}

async fn play(nodes: &Nodes, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let jobs = JOBS.into_iter().map(|(name, gpus, tenths, at)| {
        let job = local::job(&nodes.dir, name, gpus, tenths);
        (Duration::from_millis(at), job)
    });
    let mut seen: BTreeMap<u32, String> = BTreeMap::new();
    let mut lost = false;
    let show = |jobs: &[pb::JobLine], now: f64| {
        for j in jobs {
            let on = match j.nodes.is_empty() {
                true => String::new(),
                false => format!(" on {}", j.nodes.join(", ")),
            };
            let text = format!("{}{on}", j.phase);
            if seen.get(&j.job) != Some(&text) {
                writeln!(
                    terminal.out,
                    "{now:5.1} s  job {} {:8} {text}",
                    j.job, j.name
                )?;
                seen.insert(j.job, text);
            }
        }
        if !lost && now > 10.0 {
            let busy = jobs.iter().find(|j| j.phase == "running");
            if let Some(node) = busy.and_then(|j| j.nodes.first()) {
                nodes.stop(node);
                lost = true;
                writeln!(
                    terminal.out,
                    "{now:5.1} s  {node} is lost: its manager has ended"
                )?;
            }
        }
        Ok(())
    };
    let (jobs, took_s) = nodes.play(jobs, show).await?;
    report(&jobs, took_s, terminal)
}

fn report(jobs: &[pb::JobLine], took_s: f64, terminal: &mut Terminal<'_>) -> Result<(), Failure> {
    let accounts = || jobs.iter().flat_map(|j| &j.accounts);
    let gpu_s: f64 = accounts()
        .map(|a| a.ran_ms as f64 / 1000.0 * f64::from(a.gpus))
        .sum();
    let completed = jobs.iter().filter(|j| j.phase == "completed").count();
    writeln!(terminal.out)?;
    writeln!(
        terminal.out,
        "jobs       {completed} of {} completed in {took_s:.1} s",
        jobs.len()
    )?;
    writeln!(
        terminal.out,
        "launches   {}: {}",
        number_of(accounts().count() as u64, "part"),
        counted_exits(accounts().map(|a| a.exit.as_str()))
    )?;
    writeln!(terminal.out, "GPU time   {gpu_s:.1} GPU-s accounted")?;
    Ok(())
}
