//! Turns options into checked experiments. All errors in the options are reported here, before
//! anything runs.

mod contestant;
mod inputs;
mod jobs;
mod world;

pub(super) use contestant::Contestant;
pub(super) use inputs::{Input, Known};

use super::args::{CLUSTER, Options, SEED};
use super::config::Given;
use super::job_data::{ESTIMATES, JobsWith};
use super::reading;
use crate::failure::Failure;
use blox_core::suggest::one_of;
use blox_core::{ClusterSpec, Event, Pipeline, Time};
use blox_registry::{ComponentSpec, Registry, WorldParts};
use blox_results::number_of;
use blox_sim::execution::Training;
use blox_sim::execution::training::Applications;
use blox_sim::registry::World as _;
use blox_sim::virtual_clusters;
use blox_sim::workload::{Limited, Workload, WorkloadError, whole_ids};
use blox_sim::{Measure, Simulation, Until};
use blox_traces::applications::with_applications;
use blox_traces::formats::gavel::{Oracle, with_oracle};
use blox_traces::generate::{Beside, with_losses};
use blox_traces::prices::read_prices;
use blox_traces::sample::in_virtual_cluster;
use blox_traces::scaling::{ScalingTable, with_throughputs};
use blox_traces::{Format, ReadOptions, Trace};
use inputs::{OF_JOBS, OF_TRACE};
use jobs::Source;
use serde_json::Value;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::World;

/// Data of jobs that no option replaces.
pub(super) const AS_STATED: &str = "as the jobs state them";

/// An experiment that has been checked and is ready to run.
pub(crate) struct Experiment<'r> {
    pub registry: &'r Registry,
    pub options: Options,
    pub compares: bool,
    /// Index of the contestant with which the others are compared.
    pub baseline: usize,
    pub contestants: Vec<Contestant>,
    pub cluster: ClusterSpec,
    pub cluster_text: String,
    pub measure: Measure,
    /// Expected number of submitted jobs, if known.
    pub expected_jobs: Option<u64>,
    /// Number of jobs of the trace outside the simulated virtual cluster.
    pub left_out: u64,
    /// Files that are read, including the trace.
    pub files: Vec<PathBuf>,
    /// The same files with their hashes, if a manifest is written.
    pub inputs: Vec<Input>,
    pub seed: u64,
    source: Source,
    /// The services beside the jobs.
    services: Option<jobs::Named>,
    /// The opened file of [`Source::Trace`].
    trace: Option<Trace>,
    /// Throughputs, if given.
    throughputs: Option<Throughputs>,
    prices: Vec<(Time, Event)>,
    /// Published applications, if given.
    applications: Option<Applications>,
    world: World,
    /// Execution and overhead models of each contestant.
    parts: Vec<WorldParts>,
    /// A line for each part of schedulers that an option replaces, and one for each scheduler with
    /// a simulated world of its own.
    pub settings: Vec<String>,
    /// Length of a round of each contestant in seconds, if it has rounds.
    periods: Vec<Option<f64>>,
    /// Collectors whose figures are shown.
    pub collectors: Vec<ComponentSpec>,
}

/// Source of job speeds.
enum Throughputs {
    /// Speeds by number of GPUs.
    Tables(Arc<ScalingTable>),
    /// Speeds by GPU type.
    Oracle(Arc<Oracle>),
}

impl Throughputs {
    fn read(path: &Path) -> Result<Self, Failure> {
        Ok(match inputs::is_oracle(path) {
            true => Throughputs::Oracle(Arc::new(Oracle::read(path)?)),
            false => {
                let tables = ScalingTable::read_dir(path)?;
                Throughputs::Tables(Arc::new(tables))
            }
        })
    }
}

impl<'r> Experiment<'r> {
    pub fn of(given: Given, registry: &'r Registry) -> Result<Self, Failure> {
        Self::with_cache(given, registry, &mut Known::default())
    }

    /// Creates one of several experiments, with a shared cache of file data.
    pub fn with_cache(
        mut given: Given,
        registry: &'r Registry,
        known: &mut Known,
    ) -> Result<Self, Failure> {
        let contestants = contestant::contestants(&given.schedulers)?;
        let baseline = contestant::baseline(&given, &contestants)?;
        jobs::complete(&mut given.options, registry);
        let o = &given.options;
        let cluster_text = o.cluster.clone().unwrap_or_else(|| CLUSTER.to_owned());
        let cluster = reading::cluster(&cluster_text, &given.name("cluster"))?;
        let cluster = match &o.virtual_cluster {
            Some(name) => virtual_clusters::nodes_of(&cluster, name).map_err(|known| {
                let expected = match known.is_empty() {
                    true => "a cluster whose nodes have partitions".to_owned(),
                    false => one_of(name, known.iter().map(|name| &**name)),
                };
                given.wrong("virtual-cluster", name, &expected)
            })?,
            None => cluster,
        };
        let seed = o.seed.unwrap_or(SEED);
        let parts = contestants.iter();
        let parts = parts.map(|c| world::models(o, registry, &c.named));
        let parts: Vec<WorldParts> = parts.collect();
        let mut settings = contestant::replaced(o);
        for (contestant, parts) in contestants.iter().zip(&parts) {
            settings.extend(world::replaced(parts, o, registry, contestant));
        }
        for contestant in &contestants {
            let entry = registry.schedulers.get(&contestant.named.name);
            let notices = entry.map(|entry| entry.notices_with(&contestant.named.params));
            let notices = notices.into_iter().flatten();
            settings.extend(notices.map(|notice| format!("{}: {notice}", contestant.label)));
        }
        if let Some(placement) = &o.placement
            && let Some(entry) = registry.placement.get(&placement.name)
        {
            for data in &entry.node_data {
                if !cluster.nodes.iter().any(data.has) {
                    let (name, without) = (data.name, data.without);
                    settings.push(format!(
                        "--placement {}: no node has {name}: {without}",
                        placement.name
                    ));
                }
            }
        }
        let reads_load = parts.iter().any(|p| world::reads(p, registry, "load"));
        let source = jobs::source(&given, registry, seed, reads_load)?;
        let services = jobs::services(&given, registry, seed)?;
        let measure = jobs::measure(&given, &source, &cluster)?;
        let checked = |p: WorldParts| world::checked(p, &given, registry, seed);
        let parts = parts.into_iter().map(checked);
        let parts: Vec<WorldParts> = parts.collect::<Result<_, _>>()?;
        settings.extend(world::differing(&contestants, &parts));
        let collectors = world::collectors(&given, registry, seed)?;
        let overrides = [&o.admission, &o.placement, &o.cluster_manager];
        let overrides = overrides.into_iter().flatten().map(|given| &**given);
        let world = world::world(&given, registry, seed)?;
        let named = contestants.iter().map(|c| &c.named).chain(overrides);
        let named = named.chain(parts.iter().flat_map(world::each));
        let named = named.chain(&world.completion).chain(&collectors);
        let named = named.chain(source.component());
        let named = named.chain(services.iter().map(|(spec, _)| spec));
        let files = inputs::other_files(&given, &cluster_text, named)?;
        let inputs = match o.output_dir {
            Some(_) => inputs::hashed(&files, known)?,
            None => Vec::new(),
        };
        let throughputs = o.throughputs.as_deref().map(Throughputs::read);
        let throughputs = throughputs.transpose()?;
        let applications = o.data.as_ref().map(blox_traces::applications::read_dir);
        let applications = applications.transpose()?;
        let prices = o.prices.as_ref().map(|path| read_prices(path, &cluster));
        let prices = prices.transpose()?.unwrap_or_default();
        // The manifest states the defaults in use.
        let o = &mut given.options;
        o.scheduler = None;
        o.schedulers = Some(contestants.iter().map(|c| c.label.clone()).collect());
        o.seed = Some(seed);
        o.cluster = Some(cluster_text.clone());
        if let (None, Measure::Ids(a, b)) = (&o.measure, &measure) {
            o.measure = format!("{a}..{b}").parse().ok();
        }
        let mut experiment = Experiment {
            registry,
            compares: given.compares,
            baseline,
            contestants,
            cluster,
            cluster_text,
            measure,
            expected_jobs: None,
            left_out: 0,
            files,
            inputs,
            seed,
            source,
            services,
            trace: None,
            throughputs,
            prices,
            applications,
            world,
            parts,
            settings,
            periods: Vec::new(),
            collectors,
            options: given.options,
        };
        let completion = experiment.options.completion.as_ref();
        let at_rounds = completion.is_some_and(|rule| rule.text() == "round");
        for i in 0..experiment.contestants.len() {
            let period = experiment.pipeline(i)?.trigger().period();
            experiment.periods.push(period.map(|p| p.secs()));
            if at_rounds && period.is_none() {
                return Err(Failure::new(format!(
                    "--completion is `round`, but `{}` has no rounds; give --round S",
                    experiment.contestants[i].label
                )));
            }
        }
        let of_file = experiment.check_workload(known)?;
        experiment.measure_by_ids(known)?;
        let by_measure = experiment.measure.last().map(|last| u64::from(last) + 1);
        experiment.expected_jobs = [
            of_file,
            experiment.options.jobs.map(NonZeroU64::get),
            by_measure,
        ]
        .into_iter()
        .flatten()
        .min();
        Ok(experiment)
    }

    /// Describes the cluster.
    pub fn cluster_line(&self) -> String {
        format!(
            "{}: {}, {}",
            self.cluster_text,
            number_of(self.cluster.nodes.len() as u64, "node"),
            number_of(self.cluster.total_gpus(), "GPU")
        ) + &match self.cluster.offers.len() {
            0 => String::new(),
            offers => format!(", {}", number_of(offers as u64, "offer")),
        }
    }

    /// Returns whether a scheduler decides in rounds.
    pub fn has_rounds(&self) -> bool {
        self.periods.iter().any(Option::is_some)
    }

    /// Returns the length of a round of a scheduler in seconds; `None` without rounds.
    pub fn period_of(&self, label: &str) -> Option<f64> {
        let at = self.contestants.iter().position(|c| c.label == label)?;
        *self.periods.get(at)?
    }

    /// Describes the overheads, with the models of single schedulers. `trained` is true if jobs have
    /// training data.
    pub fn overheads_line(&self, trained: bool) -> String {
        let own = |parts: &WorldParts| {
            let model = parts.overheads.as_ref()?;
            Some(world::overheads_of(
                model,
                self.registry,
                self.seed,
                trained,
            ))
        };
        self.by_scheduler(own, self.world.overheads_line(trained))
    }

    /// Describes the execution models; `None` if all are the default.
    pub fn speeds_line(&self) -> Option<String> {
        let own = |parts: &WorldParts| {
            let model = parts.execution.as_ref()?;
            let is_default = model.name == "as-specified";
            (!is_default).then(|| format!("by the model `{model}`"))
        };
        let any = self.parts.iter().any(|parts| own(parts).is_some());
        any.then(|| self.by_scheduler(own, AS_STATED.to_owned()))
    }

    /// Describes the random faults, if there are any.
    pub fn faults_line(&self) -> Option<String> {
        world::faults_line(&self.world.faults)
    }

    /// Returns the line of the models that `own` describes: one text if all schedulers have it,
    /// otherwise `others` with the text of each scheduler.
    fn by_scheduler(&self, own: impl Fn(&WorldParts) -> Option<String>, others: String) -> String {
        let own: Vec<Option<String>> = self.parts.iter().map(own).collect();
        if let Some(Some(first)) = own.first()
            && own.iter().all(|text| text.as_ref() == Some(first))
        {
            return first.clone();
        }
        let named = self.contestants.iter().zip(own);
        let named = named.filter_map(|(c, text)| Some(format!("; for {}: {}", c.label, text?)));
        named.fold(others, |line, text| line + &text)
    }

    /// Returns the number of GPU types of the cluster.
    pub fn gpu_types(&self) -> usize {
        let nodes = self.cluster.nodes.iter().filter(|n| n.gpus > 0);
        nodes.map(|n| &n.gpu_type).collect::<BTreeSet<_>>().len()
    }

    /// Returns the jobs from the first on.
    pub fn workload(&self) -> Result<Box<dyn Workload>, Failure> {
        let mut jobs: Box<dyn Workload> = match &self.source {
            Source::Trace(path, options) => {
                let trace = match &self.trace {
                    Some(trace) => trace.jobs(),
                    None => self.open(path, options).and_then(|trace| trace.jobs()),
                };
                Box::new(trace?)
            }
            Source::Registered(_, source) => source.open(&self.cluster)?,
        };
        if let Some(name) = &self.options.virtual_cluster {
            jobs = Box::new(in_virtual_cluster(jobs, name.as_str()));
        }
        jobs = match &self.throughputs {
            Some(Throughputs::Tables(table)) => Box::new(with_throughputs(jobs, Arc::clone(table))),
            Some(Throughputs::Oracle(oracle)) => Box::new(with_oracle(jobs, Arc::clone(oracle))),
            None => jobs,
        };
        if let Some(all) = &self.applications {
            jobs = Box::new(with_applications(jobs, all.clone()));
        }
        if let Some(n) = self.options.jobs {
            jobs = Box::new(Limited::new(jobs, n.get()));
        }
        if self.options.losses {
            jobs = Box::new(with_losses(jobs, self.seed));
        }
        if let Some((_, services)) = &self.services {
            jobs = Box::new(Beside::new(jobs, services.open(&self.cluster)?));
        }
        Ok(jobs)
    }

    /// Opens a trace. A Gavel trace uses the given oracle, if any.
    fn open(&self, path: &Path, options: &ReadOptions) -> Result<Trace, WorkloadError> {
        match (&self.throughputs, options.format) {
            (Some(Throughputs::Oracle(oracle)), Some(Format::Gavel)) => {
                Trace::with_oracle(path, Arc::clone(oracle))
            }
            _ => Trace::open(path, options),
        }
    }

    /// Returns a cache key: the values of these options.
    fn key(&self, options: &[&str]) -> String {
        let mut all = self.options.given();
        all.retain(|key, _| options.contains(&key.as_str()));
        Value::from(all).to_string()
    }

    /// Reads the workload once, so that an invalid line is reported before anything runs. Returns
    /// the number of jobs in a file.
    fn check_workload(&mut self, known: &mut Known) -> Result<Option<u64>, Failure> {
        let Source::Trace(path, options) = &self.source else {
            return self.workload().map(|_| None);
        };
        let key = self.key(&OF_TRACE);
        let trace = match known.traces.get(&key) {
            Some(trace) => trace.clone(),
            None => self.open(path, options)?,
        };
        let read: Vec<PathBuf> = [path.clone()]
            .into_iter()
            .chain(trace.file_beside())
            .collect();
        if self.options.output_dir.is_some() {
            if !known.hashes.contains_key(path) {
                let hash = trace.fingerprint()?;
                known.hashes.insert(path.clone(), hash);
            }
            self.inputs.extend(inputs::hashed(&read, known)?);
        }
        self.files.extend(read);
        known.traces.insert(key, trace.clone());
        let mut count = trace.len();
        if let Some(name) = &self.options.virtual_cluster {
            let all = trace.jobs()?;
            let mut ours = in_virtual_cluster(all, name.as_str());
            let mut kept = 0;
            while ours.next_job()?.is_some() {
                kept += 1;
            }
            self.left_out = count - kept;
            count = kept;
        }
        self.trace = Some(trace);
        Ok(Some(count))
    }

    /// Creates the pipeline of the `i`th scheduler.
    pub fn pipeline(&self, i: usize) -> Result<Pipeline, Failure> {
        self.contestants[i].pipeline(self.registry, &self.options, self.seed)
    }

    /// Creates the simulation of the `i`th scheduler.
    pub fn simulation(&self, i: usize) -> Result<Simulation, Failure> {
        let simulation = self.world.charge(Simulation::new(self.cluster.clone()));
        let mut simulation = simulation
            .seed(self.seed)
            .faults(self.world.faults)
            .measure(self.measure.clone())
            .until(self.until())
            .keep_rounds(self.options.rounds)
            .keep_timeline(self.options.output_dir.is_some())
            .keep_waits(self.options.why)
            .visiting_every_round(self.options.visit_every_round)
            .forbidding_truth(self.options.forbid_true_durations);
        if let Some(rule) = &self.world.completion {
            let rule = self.registry.completion_rules().build(rule, self.seed);
            simulation = simulation.completion(rule?);
        }
        if let Some(applications) = &self.applications {
            simulation = simulation.execution(Training::of(applications.clone()));
        }
        for (at, event) in &self.prices {
            simulation = simulation.happening(*at, event.clone());
        }
        for named in &self.collectors {
            let collector = self.registry.collectors.build(named, self.seed);
            simulation = simulation.collector(collector?);
        }
        let named = &self.contestants[i].named;
        let data = self.registry.schedulers.get(&named.name);
        let mut data = data.map_or_else(Vec::new, |entry| entry.job_data_with(&named.params));
        if named.params.text("estimator") == "brought" {
            data.push(ESTIMATES);
        }
        if !data.is_empty() {
            simulation = simulation.collector(JobsWith::new(self.measure.clone(), data));
        }
        world::put_into(simulation, &self.parts[i], self.registry, self.seed)
    }

    /// Returns the limit of a simulation. A registered workload states whether it is endless.
    fn until(&self) -> Until {
        match &self.options.until {
            Some(limit) => limit.0,
            None if self.source.jobs_per_hour(&self.cluster).is_none() => Until::Finished,
            None => Until::default(),
        }
    }

    /// If all jobs of a trace have whole numbers as ids, applies `--measure A..B` to these ids.
    fn measure_by_ids(&mut self, known: &mut Known) -> Result<(), Failure> {
        let (Source::Trace(..), Measure::Ids(a, b)) = (&self.source, &self.measure) else {
            return Ok(());
        };
        let wanted = u64::from(*a)..=u64::from(*b);
        let key = self.key(&[&OF_TRACE[..], &OF_JOBS].concat());
        let ids = match known.ids.get(&key) {
            Some(ids) => ids.clone(),
            None => whole_ids(&mut *self.workload()?)?,
        };
        let of_all = ids.as_deref().unwrap_or_default();
        let range = of_all.iter().min().zip(of_all.iter().max());
        if let Some((least, most)) = range {
            if !of_all.iter().any(|id| wanted.contains(id)) {
                return Err(Failure::new(format!(
                    "--measure is `{a}..{b}`, but no job has such an id: they lie from {least} to {most}"
                )));
            }
            self.measure = Measure::of_ids(of_all, wanted);
        }
        known.ids.insert(key, ids);
        Ok(())
    }

    /// Returns the number of the job to explain: by its `job_id`, otherwise by its number.
    pub fn explained(&self) -> Result<Option<u32>, Failure> {
        let Some(text) = &self.options.explain else {
            return Ok(None);
        };
        if matches!(self.source, Source::Trace(..)) {
            let mut jobs = self.workload()?;
            let mut number = 0;
            while let Some(job) = jobs.next_job()? {
                if job.name.as_deref() == Some(text.text()) {
                    return Ok(Some(number));
                }
                number += 1;
            }
        }
        if let Ok(number) = text.parse() {
            return Ok(Some(number));
        }
        Err(Failure::new(format!(
            "--explain is `{text}`, expected the job_id of a job in the trace, or its number from 0"
        )))
    }
}
