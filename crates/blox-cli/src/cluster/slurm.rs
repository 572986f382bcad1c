//! `blox scheduler --on slurm`: decides for the jobs of a Slurm.

use super::args::{DaemonArgs, SchedulerArgs};
use crate::config;
use crate::failure::{Code, Failure};
use crate::help::Late;
use crate::terminal::{OK, Terminal};
use crate::text::plain;
use blox_core::drive::drive;
use blox_core::{
    Class, ClusterSpec, Extras, GpuCount, JobSpec, MetricCollector, Name, Pipeline, Plan,
    Scheduler, Seconds, Time, View,
};
use blox_experiment::Prepared;
use blox_registry::Registry;
use blox_sim::Simulation;
use blox_sim::workload::Jobs;
use blox_slurm::{Folder, Pace, Programs, Scope, SlurmBackend, shares_gpus};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) fn scheduler(
    registry: &Registry,
    late: Late<SchedulerArgs>,
    terminal: &mut Terminal<'_>,
) -> Result<i32, Failure> {
    let SchedulerArgs {
        simulate,
        daemon: a,
        command: _,
    } = *late.args;
    let others = [
        ("token-file", a.token_file.is_some()),
        ("identity", a.identity.is_some()),
        ("insecure", a.insecure),
        ("metrics", a.service.metrics.is_some()),
        ("offers", a.offers.is_some()),
        ("resume-program", a.resume_program.is_some()),
        ("suspend-program", a.suspend_program.is_some()),
        ("dry-run", a.dry_run),
    ];
    if let Some((name, _)) = others.iter().find(|(_, given)| *given) {
        return Err(Failure::new(format!(
            "--{name} has no meaning with --on slurm, only with node managers"
        )));
    }
    if simulate.options.output.journal.is_some() {
        return Err(Failure::new(
            "--journal: the folder of --state-dir has the journals of a scheduler on Slurm",
        ));
    }
    let given = config::scheduler(simulate, &late.matches)?.experiment;
    let experiment = Prepared::of(given, registry)?;
    let pipeline = experiment.pipeline(0)?;
    possible(&pipeline)?;
    let daemon =
        |error: &dyn std::fmt::Display| Failure::of(Code::Daemon, plain(&error.to_string()));
    let folder = Folder::open(&a.state_dir.clone().unwrap_or_default()).map_err(|e| daemon(&e))?;
    let trigger = pipeline.trigger();
    let restored = folder.restore(Box::new(pipeline), trigger);
    let mut restored = restored.map_err(|e| daemon(&e))?;
    for notice in &restored.notices {
        let _ = writeln!(terminal.err, "{}", plain(notice));
    }
    let scope = scope(&a)?;
    let whose = scope.user.as_deref().unwrap_or("all users");
    let where_ = scope
        .partition
        .as_deref()
        .map_or_else(String::new, |p| format!(" in partition {p}"));
    let _ = writeln!(
        terminal.err,
        "jobs of {whose}{where_} with a comment that begins with `blox`"
    );
    let mut backend = SlurmBackend::new(
        Programs::default(),
        scope,
        pace(&a),
        restored.runtime.view(),
        stop_signal(),
        // The output may be closed.
        Box::new(|text| drop(writeln!(std::io::stderr(), "{}", plain(text)))),
    );
    drive(
        &mut restored.runtime,
        &mut *restored.scheduler,
        &mut backend,
    )
    .map_err(|e| daemon(&e))?;
    Ok(OK)
}

/// Refuses schedulers that need what Slurm cannot do.
fn possible(pipeline: &Pipeline) -> Result<(), Failure> {
    let name = pipeline.name();
    let refused = |what: &str| {
        Err(Failure::new(format!(
            "`{name}` {what}, which an ordinary user of Slurm cannot do"
        )))
    };
    if let Some(action) = pipeline
        .actions()
        .beyond(blox_core::NodeActionKinds::NONE)
        .next()
    {
        return refused(&action.to_string());
    }
    match shares(pipeline) {
        true => refused("places several jobs on a GPU"),
        false => Ok(()),
    }
}

/// Data of jobs for which schedulers place jobs on a GPU together.
const SHARING: [&[(&str, f64)]; 3] = [
    &[],
    &[("gpu_utilisation", 0.3)],
    &[("gpu_util", 30.0), ("gmem_util", 10.0), ("gmem", 2000.0)],
];

/// Returns whether a scheduler places jobs on a GPU together, in rehearsals on a full cluster.
fn shares(pipeline: &Pipeline) -> bool {
    SHARING.iter().any(|data| {
        let job = |i: u32| {
            let gpus = GpuCount([1, 2, 4, 1][i as usize % 4]);
            let values = data
                .iter()
                .map(|(name, value)| (Name::from(*name), (*value).into()));
            let extras = Extras {
                attributes: values.collect(),
                class: match i % 2 {
                    0 => Class::Guaranteed,
                    _ => Class::BEST_EFFORT,
                },
                ..Extras::default()
            };
            let submit = Time::new(f64::from(i) * 60.0);
            JobSpec::new(submit, gpus, Seconds::new(2000.0)).with_extras(extras)
        };
        let shares = Shares::default();
        let simulation = Simulation::new(ClusterSpec::uniform(1, 4)).collector(shares.clone());
        // A scheduler that needs other data fails here, and ends when it first shares a GPU.
        let _ = simulation.run(pipeline.clone(), &mut Jobs::new((0..16).map(job).collect()));
        shares.0.load(Ordering::Relaxed)
    })
}

/// Notes whether a plan places several jobs on a GPU.
#[derive(Clone, Default)]
struct Shares(Arc<AtomicBool>);

impl MetricCollector for Shares {
    fn on_decision(&mut self, _: View<'_>, plan: &Plan) {
        self.0.fetch_or(shares_gpus(plan), Ordering::Relaxed);
    }
}

fn scope(a: &DaemonArgs) -> Result<Scope, Failure> {
    let user = match a.all_users {
        true => None,
        false => {
            let name = std::process::Command::new("id").arg("-un").output();
            let name = name
                .map_err(|e| Failure::new(format!("id -un: {e}")))?
                .stdout;
            Some(String::from_utf8_lossy(&name).trim().to_owned())
        }
    };
    Ok(Scope {
        partition: a.partition.clone(),
        user,
        ..Scope::default()
    })
}

fn pace(a: &DaemonArgs) -> Pace {
    let divided =
        |time: Duration| time / u32::try_from(a.service.faster.max(1)).unwrap_or(u32::MAX);
    let Pace { idle, busy } = Pace::default();
    Pace {
        idle: divided(idle),
        busy: divided(busy),
    }
}

/// Returns a flag that SIGTERM or Ctrl-C sets. The second signal ends the process.
fn stop_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // If the process has another handler, that one is kept.
    let _ = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(crate::terminal::INTERRUPTED);
        }
    });
    stop
}
