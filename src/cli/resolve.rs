//! From what was asked for to what can be run; everything wrong is found here,
//! before anything runs.

use super::Failure;
use super::args::Options;
use super::config::Given;
use super::generated;
use super::output::OutputFormat;
use super::reading::read_options;
use crate::compat::blox::OptimusSpeed;
use blox_core::registry::{Named, Registry, RegistryError};
use blox_core::{ClusterSpec, Composition, OnEvent, Pipeline, Rounds, Seconds, Time};
use blox_policies::placement::{Consolidated, Walk};
use blox_sim::compat::blox_workload::BloxWorkload;
use blox_sim::completion::Exact;
use blox_sim::execution::Training;
use blox_sim::execution::training::{self, Applications, WithApplications};
use blox_sim::faults::Faults;
use blox_sim::overheads::{CheckpointRestart, FixedOverheads};
use blox_sim::workload::generate::{Generator, GeneratorSpec, WithLoss};
use blox_sim::workload::scaling::{ScalingTable, WithThroughputs};
use blox_sim::workload::{Limited, ReadOptions, Trace, Workload, fingerprint};
use blox_sim::{Measure, Simulation, cluster_file};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Jobs an hour and measured jobs of Blox's published comparison.
const BLOX_LOAD: f64 = 8.0;
const BLOX_WINDOW: (u32, u32) = (3000, 4000);

/// A file that the results depend on.
pub(super) struct Input {
    pub path: PathBuf,
    pub sha256: String,
}

/// One scheduler of an experiment.
pub(super) struct Contestant {
    /// Its name with parameters.
    pub label: String,
    /// Its name in paths.
    pub folder: String,
    pub named: Named,
}

/// Everything that is to be run, checked.
pub(super) struct Experiment<'r> {
    pub registry: &'r Registry,
    pub options: Options,
    pub compares: bool,
    /// Which contestant the others are compared with.
    pub baseline: usize,
    pub threads: Option<usize>,
    pub format: OutputFormat,
    pub contestants: Vec<Contestant>,
    pub cluster: ClusterSpec,
    pub cluster_text: String,
    pub measure: Measure,
    /// Jobs that will have been submitted, as far as it is known.
    pub expected_jobs: Option<u64>,
    /// After how many jobs an endless workload ends, so that a scheduler which
    /// starves measured jobs comes to an end as well.
    pub arrivals_end: Option<u64>,
    pub inputs: Vec<Input>,
    pub seed: u64,
    source: Source,
    /// The file of [`Source::Trace`], looked through.
    trace: Option<Trace>,
    /// Throughput tables, if any.
    scaling: Option<Arc<ScalingTable>>,
    applications: Option<Applications>,
    world: World,
    cadence: Option<Tempo>,
    optimus: Option<OptimusSpeed>,
    overrides: Overrides,
}

#[derive(Clone, Copy)]
enum Tempo {
    Rounds(Rounds),
    OnEvent(OnEvent),
}

/// How the world behaves, for all schedulers alike.
struct World {
    overheads: FixedOverheads,
    faults: Faults,
    /// Otherwise at the ends of rounds, where there are rounds.
    exact_ends: bool,
}

#[derive(Default)]
struct Overrides {
    admission: Option<Named>,
    placement: Option<Named>,
    cluster: Option<Named>,
}

enum Source {
    Trace(PathBuf, ReadOptions),
    Blox(f64),
    Generated(&'static str, Box<GeneratorSpec>),
}

/// What was found out about files, so that the experiments of a sweep need not
/// find it out again.
#[derive(Default)]
pub(super) struct Known {
    hashes: BTreeMap<PathBuf, String>,
    /// By path, format and map.
    traces: BTreeMap<(PathBuf, Option<String>, Option<String>), Trace>,
}

impl<'r> Experiment<'r> {
    pub fn of(given: Given, registry: &'r Registry) -> Result<Self, Failure> {
        Self::knowing(given, registry, &mut Known::default())
    }

    /// As [`Experiment::of`], for one of many.
    pub fn knowing(
        given: Given,
        registry: &'r Registry,
        known: &mut Known,
    ) -> Result<Self, Failure> {
        let o = &given.options;
        let contestants = contestants(&given.schedulers)?;
        let baseline = baseline(&given, &contestants)?;
        let format = OutputFormat::of(&given)?;
        let cluster_text = o.cluster.clone().unwrap_or_else(|| "32x4".to_owned());
        let cluster = cluster_file::read_cluster(&cluster_text).map_err(|e| match e {
            cluster_file::ClusterFileError::Shorthand(_)
            | cluster_file::ClusterFileError::Spec(_) => {
                Failure::new(format!("{}: {e}", given.name("cluster")))
            }
            e => Failure::new(e),
        })?;
        let seed = o.seed.unwrap_or(1);
        let wants_optimus = contestants.iter().any(|c| c.named.name == "blox-optimus");
        let source = source(&given, &cluster, seed, wants_optimus)?;
        let measure = measure(&given, &source)?;
        let arrivals_end = arrivals_end(&source, measure, o.jobs)?;
        let load = match &source {
            Source::Blox(load) => Some(*load),
            _ => o.load,
        };
        let optimus = match wants_optimus {
            true => Some(optimus(&given, load)?),
            false => None,
        };
        let cadence = cadence(&given)?;
        let named = |key: &str, text: &Option<String>| -> Result<Option<Named>, Failure> {
            text.as_deref()
                .map(|t| t.parse::<Named>())
                .transpose()
                .map_err(|e| Failure::new(format!("{}: {e}", given.name(key))))
        };
        let overrides = Overrides {
            admission: named("admission", &o.admission)?,
            placement: named("placement", &o.placement)?,
            cluster: named("cluster-manager", &o.cluster_manager)?,
        };
        let inputs = other_inputs(&given, &source, &cluster_text, known)?;
        let scaling = o.throughputs.as_ref().map(ScalingTable::read_dir);
        let scaling = scaling.transpose().map_err(Failure::new)?.map(Arc::new);
        let applications = o.data.as_ref().map(training::read_dir);
        let applications = applications.transpose().map_err(Failure::new)?;
        let world = world(&given, cadence, seed)?;
        let mut experiment = Experiment {
            registry,
            compares: given.compares,
            baseline,
            threads: given.threads,
            format,
            contestants,
            cluster,
            cluster_text,
            measure,
            expected_jobs: None,
            arrivals_end,
            inputs,
            seed,
            source,
            trace: None,
            scaling,
            applications,
            world,
            cadence,
            optimus,
            overrides,
            options: given.options,
        };
        experiment.fill_in();
        for i in 0..experiment.contestants.len() {
            let period = experiment.pipeline(i)?.cadence().period();
            if experiment.options.completion.as_deref() == Some("round") && period.is_none() {
                return Err(Failure::new(format!(
                    "--completion is `round`, but `{}` has no rounds; give --round S",
                    experiment.contestants[i].label
                )));
            }
        }
        let of_file = experiment.check_workload(known)?;
        let by_measure = match measure {
            Measure::Ids(_, last) => Some(u64::from(last) + 1),
            _ => None,
        };
        experiment.expected_jobs = [of_file, experiment.options.jobs, by_measure]
            .into_iter()
            .flatten()
            .min();
        Ok(experiment)
    }

    /// The defaults that were chosen, for the manifest.
    fn fill_in(&mut self) {
        let o = &mut self.options;
        o.scheduler = None;
        o.schedulers = Some(self.contestants.iter().map(|c| c.label.clone()).collect());
        o.seed = Some(self.seed);
        o.cluster = Some(self.cluster_text.clone());
        match &self.source {
            Source::Trace(..) => {}
            Source::Blox(load) => {
                o.workload = Some("blox".to_owned());
                o.load = Some(*load);
            }
            Source::Generated(kind, _) => {
                o.workload = Some((*kind).to_owned());
                generated::fill_in(kind, o);
            }
        }
        if let (None, Measure::Ids(a, b)) = (&o.measure, self.measure) {
            o.measure = Some(format!("{a}..{b}"));
        }
    }

    /// The jobs, from the first.
    pub fn workload(&self) -> Result<Box<dyn Workload>, Failure> {
        let jobs: Box<dyn Workload> = match &self.source {
            Source::Trace(path, options) => {
                let trace = match &self.trace {
                    Some(trace) => trace.jobs(),
                    None => Trace::open(path, options).and_then(|trace| trace.jobs()),
                };
                Box::new(trace.map_err(Failure::new)?)
            }
            Source::Blox(load) => Box::new(
                BloxWorkload::new(*load)
                    .map_err(Failure::new)?
                    .with_seed(self.seed),
            ),
            Source::Generated(_, spec) => {
                Box::new(Generator::new((**spec).clone()).map_err(Failure::new)?)
            }
        };
        let jobs: Box<dyn Workload> = match &self.scaling {
            Some(table) => Box::new(WithThroughputs::new(jobs, Arc::clone(table))),
            None => jobs,
        };
        let jobs: Box<dyn Workload> = match &self.applications {
            Some(all) => Box::new(WithApplications::new(jobs, all.clone())),
            None => jobs,
        };
        let jobs: Box<dyn Workload> = match self.options.jobs {
            Some(n) => Box::new(Limited::new(jobs, n)),
            None => jobs,
        };
        Ok(match self.options.losses {
            true => Box::new(WithLoss::new(jobs, self.seed)),
            false => jobs,
        })
    }

    /// Looks at the workload once, so that a bad line is found before anything
    /// runs; how many jobs a file has.
    fn check_workload(&mut self, known: &mut Known) -> Result<Option<u64>, Failure> {
        let Source::Trace(path, options) = &self.source else {
            return self.workload().map(|_| None);
        };
        let (format, map) = (&self.options.format, &self.options.map);
        let key = (path.clone(), format.clone(), map.clone());
        let trace = match known.traces.get(&key) {
            Some(trace) => trace.clone(),
            None => Trace::open(path, options).map_err(Failure::new)?,
        };
        if self.options.output_dir.is_some() {
            let sha256 = match known.hashes.get(path) {
                Some(hash) => hash.clone(),
                None => trace.fingerprint().map_err(Failure::new)?,
            };
            known.hashes.insert(path.clone(), sha256.clone());
            let path = path.clone();
            self.inputs.push(Input { path, sha256 });
        }
        known.traces.insert(key, trace.clone());
        let count = trace.len();
        self.trace = Some(trace);
        Ok(Some(count))
    }

    /// The `i`th scheduler, anew.
    pub fn pipeline(&self, i: usize) -> Result<Pipeline, Failure> {
        let Contestant { named, label, .. } = &self.contestants[i];
        let of = |e: RegistryError| match e {
            RegistryError::BadValue { .. } => Failure::new(format!("`{label}`: {e}")),
            e => Failure::new(e),
        };
        let r = self.registry;
        let mut pipeline = if !has(&r.schedulers, &named.name) && has(&r.scheduling, &named.name) {
            // A scheduling policy alone: with the placement that most schedulers have.
            let scheduling = r.scheduling.build(named, self.seed).map_err(of)?;
            let base = Composition::new("")
                .scheduling(blox_policies::scheduling::Fifo::default())
                .placement(Walk::new(Consolidated::default()))
                .build();
            Pipeline::from_parts(
                label.as_str(),
                Box::new(blox_policies::cluster::StaticCluster),
                Box::new(blox_policies::admission::AcceptAll),
                scheduling,
                Box::new(Walk::new(Consolidated::default())),
                base.cadence(),
            )
        } else {
            r.schedulers.build(named, self.seed).map_err(of)?
        };
        let of = |key: &str, e: RegistryError| match e {
            RegistryError::BadValue { .. } => Failure::new(format!("--{key}: {e}")),
            e => Failure::new(e),
        };
        if let Some(n) = &self.overrides.admission {
            let part = r
                .admission
                .build(n, self.seed)
                .map_err(|e| of("admission", e))?;
            pipeline = pipeline.with_admission(part);
        }
        if let Some(n) = &self.overrides.placement {
            let part = r
                .placement
                .build(n, self.seed)
                .map_err(|e| of("placement", e))?;
            pipeline = pipeline.with_placement(part);
        }
        if let Some(n) = &self.overrides.cluster {
            let part = r
                .cluster
                .build(n, self.seed)
                .map_err(|e| of("cluster-manager", e))?;
            pipeline = pipeline.with_cluster(part);
        }
        pipeline = match self.cadence {
            Some(Tempo::Rounds(rounds)) => pipeline.with_cadence(rounds),
            Some(Tempo::OnEvent(on_event)) => pipeline.with_cadence(on_event),
            None => pipeline,
        };
        Ok(pipeline.renamed(label.as_str()))
    }

    /// The world of the `i`th scheduler.
    pub fn simulation(&self, i: usize) -> Simulation {
        let mut simulation = Simulation::new(self.cluster.clone())
            .overheads(CheckpointRestart {
                others: self.world.overheads,
            })
            .faults(self.world.faults)
            .measure(self.measure)
            .keep_rounds(self.options.rounds)
            .keep_timeline(self.options.output_dir.is_some())
            .keep_waits(self.options.why)
            .visiting_every_round(self.options.visit_every_round);
        if self.world.exact_ends {
            simulation = simulation.completion(Exact);
        }
        if let Some(applications) = &self.applications {
            simulation = simulation.execution(Training::of(applications.clone()));
        }
        match self.optimus {
            Some(speed) if self.contestants[i].named.name == "blox-optimus" => {
                simulation.execution(speed)
            }
            _ => simulation,
        }
    }

    /// The number of the job to explain.
    pub fn explained(&self) -> Result<Option<u32>, Failure> {
        let Some(text) = &self.options.explain else {
            return Ok(None);
        };
        if let Ok(number) = text.parse() {
            return Ok(Some(number));
        }
        if matches!(self.source, Source::Trace(..)) {
            let mut jobs = self.workload()?;
            let mut number = 0;
            while let Some(job) = jobs.next_job().map_err(Failure::new)? {
                if job.name.as_deref() == Some(text.as_str()) {
                    return Ok(Some(number));
                }
                number += 1;
            }
        }
        Err(Failure::new(format!(
            "--explain is `{text}`, expected the number of a job, from 0, or its name in the trace"
        )))
    }
}

fn has<T>(shelf: &blox_core::registry::Shelf<T>, name: &str) -> bool {
    shelf.iter().any(|(n, _)| n == name)
}

fn contestants(names: &[String]) -> Result<Vec<Contestant>, Failure> {
    let mut list: Vec<Contestant> = Vec::new();
    for text in names {
        let named: Named = text.parse().map_err(Failure::new)?;
        let label = named.to_string();
        if list.iter().any(|c| c.label == label) {
            return Err(Failure::new(format!("scheduler `{label}` is named twice")));
        }
        let plain: String = label
            .trim_end_matches('}')
            .chars()
            .map(|c| match c {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '=' => c,
                _ => '_',
            })
            .collect();
        let mut folder = plain.clone();
        let mut n = 2;
        while list.iter().any(|c| c.folder == folder) {
            folder = format!("{plain}-{n}");
            n += 1;
        }
        list.push(Contestant {
            label,
            folder,
            named,
        });
    }
    Ok(list)
}

fn baseline(given: &Given, contestants: &[Contestant]) -> Result<usize, Failure> {
    let Some(text) = &given.options.baseline else {
        return Ok(0);
    };
    let label = text.parse::<Named>().map(|n| n.to_string());
    let found = contestants
        .iter()
        .position(|c| Ok(&c.label) == label.as_ref());
    found.ok_or_else(|| {
        let known: Vec<&str> = contestants.iter().map(|c| c.label.as_str()).collect();
        let expected = format!("one of the schedulers: {}", known.join(", "));
        given.wrong("baseline", text, &expected)
    })
}

fn source(
    given: &Given,
    cluster: &ClusterSpec,
    seed: u64,
    wants_optimus: bool,
) -> Result<Source, Failure> {
    let o = &given.options;
    if o.trace.is_some() && o.workload.is_some() {
        return Err(Failure::new(format!(
            "{} and {} are both given, expected one of them",
            given.name("trace"),
            given.name("workload")
        )));
    }
    let kind = match (&o.trace, o.workload.as_deref()) {
        (Some(_), _) => "trace",
        (None, None) => "blox",
        (None, Some("blox")) => "blox",
        (None, Some(other)) => match generated::KINDS.iter().find(|k| **k == other) {
            Some(kind) => kind,
            None => {
                let expected = format!("blox, {}", generated::KINDS.join(", "));
                return Err(given.wrong("workload", other, &expected));
            }
        },
    };
    // An option that would be silently ignored is a misunderstanding.
    let made = generated::KINDS.contains(&kind);
    let making = "--workload poisson, bursty or diurnal";
    let bursts = (kind == "bursty", "--workload bursty");
    let only_with = [
        ("format", o.format.is_some(), kind == "trace", "--trace"),
        ("map", o.map.is_some(), kind == "trace", "--trace"),
        (
            "load",
            o.load.is_some(),
            kind != "trace" || wants_optimus,
            "--workload",
        ),
        (
            "load-of-capacity",
            o.load_of_capacity.is_some(),
            made,
            making,
        ),
        ("durations", o.durations.is_some(), made, making),
        ("gpu-mix", o.gpu_mix.is_some(), made, making),
        ("models", o.models.is_some(), made, making),
        ("users", o.users.is_some(), made, making),
        ("quiet-h", o.quiet_h.is_some(), bursts.0, bursts.1),
        ("burst-h", o.burst_h.is_some(), bursts.0, bursts.1),
        ("burst-factor", o.burst_factor.is_some(), bursts.0, bursts.1),
        (
            "burst-durations",
            o.burst_durations.is_some(),
            bursts.0,
            bursts.1,
        ),
        (
            "diurnal",
            o.diurnal.is_some(),
            kind == "diurnal",
            "--workload diurnal",
        ),
    ];
    for (key, is_given, fits, expected) in only_with {
        if is_given && !fits {
            let what = if kind == "trace" {
                "a trace".to_owned()
            } else {
                format!("--workload {kind}")
            };
            return Err(Failure::new(format!(
                "{} has no meaning with {what}, only with {expected}",
                given.name(key)
            )));
        }
    }
    if let Some(load) = o.load
        && !(load.is_finite() && load > 0.0)
    {
        return Err(given.wrong("load", load, "a number of jobs an hour above 0"));
    }
    match (kind, &o.trace) {
        ("trace", Some(path)) => {
            let (format, map) = (o.format.as_deref(), o.map.as_deref());
            let options = read_options(format, map, |key| given.name(key))?;
            Ok(Source::Trace(path.clone(), options))
        }
        (kind, _) if made => generated::spec(kind, given, cluster, seed)
            .map(|spec| Source::Generated(kind, Box::new(spec))),
        _ => Ok(Source::Blox(o.load.unwrap_or(BLOX_LOAD))),
    }
}

fn measure(given: &Given, source: &Source) -> Result<Measure, Failure> {
    let o = &given.options;
    let Some(text) = &o.measure else {
        return match source {
            Source::Blox(_) if o.jobs.is_none() => Ok(Measure::Ids(BLOX_WINDOW.0, BLOX_WINDOW.1)),
            Source::Generated(kind, _) if o.jobs.is_none() => Err(Failure::new(format!(
                "--workload {kind} never ends: give --jobs N or --measure A..B",
            ))),
            _ => Ok(Measure::All),
        };
    };
    parse_measure(text).ok_or_else(|| {
        let expected = "A..B with A <= B: numbers of jobs such as 3000..4000, or times such as 10h..2d (s, m, h, d)";
        given.wrong("measure", text, expected)
    })
}

/// An endless workload ends after ten times the jobs up to the last measured one.
fn arrivals_end(
    source: &Source,
    measure: Measure,
    jobs: Option<u64>,
) -> Result<Option<u64>, Failure> {
    let per_hour = match source {
        Source::Trace(..) => return Ok(None),
        Source::Blox(load) => *load,
        Source::Generated(_, spec) => Generator::new((**spec).clone())
            .map_err(Failure::new)?
            .jobs_per_hour(),
    };
    let needed = match measure {
        _ if jobs.is_some() => return Ok(None),
        Measure::All => return Ok(None),
        Measure::Ids(_, last) => f64::from(last) + 1.0,
        Measure::Submitted(_, last) => last.hours() * per_hour,
    };
    Ok(Some((10.0 * needed).max(10_000.0).ceil() as u64))
}

pub(super) fn parse_measure(text: &str) -> Option<Measure> {
    let (a, b) = text.split_once("..")?;
    let (a, b) = (a.trim(), b.trim());
    if let (Ok(a), Ok(b)) = (a.parse(), b.parse()) {
        return (a <= b).then_some(Measure::Ids(a, b));
    }
    let time = |t: &str| {
        let unit = match t.chars().last()? {
            's' => 1.0,
            'm' => 60.0,
            'h' => 3600.0,
            'd' => 86_400.0,
            _ => return None,
        };
        let value: f64 = t[..t.len() - 1].parse().ok()?;
        (value >= 0.0)
            .then(|| Time::try_new(value * unit))
            .flatten()
    };
    let (a, b) = (time(a)?, time(b)?);
    (a <= b).then_some(Measure::Submitted(a, b))
}

fn optimus(given: &Given, load: Option<f64>) -> Result<OptimusSpeed, Failure> {
    let expected = "a whole number from 1 to 9: the scheduler `blox-optimus` takes its speed from a table of loads";
    let Some(load) = load else {
        return Err(Failure::new(format!(
            "--load is missing, expected {expected}"
        )));
    };
    OptimusSpeed::at_load(load).ok_or_else(|| given.wrong("load", load, expected))
}

fn cadence(given: &Given) -> Result<Option<Tempo>, Failure> {
    let o = &given.options;
    match (o.round, o.on_event) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Failure::new(format!(
            "{} and {} are both given, expected one of them",
            given.name("round"),
            given.name("on-event")
        ))),
        (Some(s), None) => Seconds::try_new(s)
            .and_then(Rounds::every)
            .map(|r| Some(Tempo::Rounds(r)))
            .ok_or_else(|| given.wrong("round", s, "a number of seconds above 0")),
        (None, Some(s)) => not_negative(given, "on-event", Some(s))
            .map(|gap| Some(Tempo::OnEvent(OnEvent::with_gap(gap)))),
    }
}

fn not_negative(given: &Given, key: &str, value: Option<f64>) -> Result<Seconds, Failure> {
    let value = value.unwrap_or(0.0);
    Seconds::try_new(value)
        .filter(|s| *s >= Seconds::ZERO)
        .ok_or_else(|| given.wrong(key, value, "a number of seconds, at least 0"))
}

fn above_zero(
    given: &Given,
    key: &str,
    value: Option<f64>,
    unit_s: f64,
) -> Result<Option<Seconds>, Failure> {
    let unit = if unit_s == 1.0 { "seconds" } else { "hours" };
    let Some(value) = value else { return Ok(None) };
    Seconds::try_new(value * unit_s)
        .filter(|s| *s > Seconds::ZERO)
        .map(Some)
        .ok_or_else(|| given.wrong(key, value, &format!("a number of {unit} above 0")))
}

fn world(given: &Given, cadence: Option<Tempo>, seed: u64) -> Result<World, Failure> {
    let o = &given.options;
    let seconds = |key, value| not_negative(given, key, value);
    let overheads = FixedOverheads {
        launch: seconds("launch-s", o.launch_s)?,
        checkpoint: seconds("checkpoint-s", o.checkpoint_s)?,
        restart: seconds("restart-s", o.restart_s)?,
        migration: seconds("migration-s", o.migration_s)?,
    };
    let hour = 3600.0;
    let launch_failure = o.launch_failure.unwrap_or(0.0);
    if !(0.0..1.0).contains(&launch_failure) {
        let expected = "a probability, at least 0 and below 1";
        return Err(given.wrong("launch-failure", launch_failure, expected));
    }
    let faults = Faults {
        seed,
        node_mtbf: above_zero(given, "node-mtbf-h", o.node_mtbf_h, hour)?,
        node_mttr: above_zero(given, "node-mttr-h", o.node_mttr_h, hour)?
            .unwrap_or(Seconds::from_hours(1.0)),
        job_mtbf: above_zero(given, "job-mtbf-h", o.job_mtbf_h, hour)?,
        checkpoint_every: above_zero(given, "checkpoint-every-s", o.checkpoint_every_s, 1.0)?,
        launch_failure,
    };
    let exact_ends = match (o.completion.as_deref(), cadence) {
        (None, _) => false,
        (Some("exact"), _) => true,
        (Some("round"), Some(Tempo::OnEvent(_))) => {
            return Err(Failure::new(format!(
                "{} is `round`, which has no meaning with {}",
                given.name("completion"),
                given.name("on-event")
            )));
        }
        (Some("round"), _) => false,
        (Some(other), _) => return Err(given.wrong("completion", other, "round or exact")),
    };
    Ok(World {
        overheads,
        faults,
        exact_ends,
    })
}

/// The hashes of the files that the results depend on, but for the trace.
fn other_inputs(
    given: &Given,
    source: &Source,
    cluster_text: &str,
    known: &mut Known,
) -> Result<Vec<Input>, Failure> {
    if given.options.output_dir.is_none() {
        return Ok(Vec::new());
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    paths.extend(given.file().map(Path::to_owned));
    if let Source::Generated(..) = source {
        paths.extend(generated::files(given));
    }
    if let Some(dir) = &given.options.throughputs {
        paths.extend(ScalingTable::files(dir).map_err(Failure::new)?);
    }
    if let Some(dir) = &given.options.data {
        paths.extend(training::files(dir).map_err(Failure::new)?);
    }
    if cluster_text.parse::<ClusterSpec>().is_err() {
        paths.push(PathBuf::from(cluster_text));
    }
    paths
        .into_iter()
        .map(|path| {
            let sha256 = match known.hashes.get(&path) {
                Some(hash) => hash.clone(),
                None => fingerprint(&path).map_err(Failure::new)?,
            };
            known.hashes.insert(path.clone(), sha256.clone());
            Ok(Input { path, sha256 })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_numbers_or_times() {
        let t = Time::new;
        assert_eq!(parse_measure("3000..4000"), Some(Measure::Ids(3000, 4000)));
        assert_eq!(
            parse_measure("10h..2d"),
            Some(Measure::Submitted(t(36_000.0), t(172_800.0)))
        );
        assert_eq!(
            parse_measure("0.5m..90s"),
            Some(Measure::Submitted(t(30.0), t(90.0)))
        );
        for text in [
            "", "5", "5..3", "1h..2", "2..1h", "-1..4", "1x..2x", "..", "2d..1d", "é..é",
        ] {
            assert_eq!(parse_measure(text), None, "{text}");
        }
    }
}
