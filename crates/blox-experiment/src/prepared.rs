//! An experiment that has been checked, and is ready to run.

use crate::contestant::{self, Contestant};
use crate::error::ExperimentError;
use crate::inputs::{self, Input, Known, OF_JOBS, OF_TRACE};
use crate::jobs::{self, Source};
use crate::settings::Experiment;
use crate::world::{self, CLUSTER, SEED, World};
use blox_core::suggest::one_of;
use blox_core::{ClusterSpec, Event, Pipeline, Time};
use blox_perf::applications::Applications;
use blox_registry::{ComponentSpec, NodeData, Registry, RequiredData, WorldParts};
use blox_sim::execution::Training;
use blox_sim::registry::World as _;
use blox_sim::virtual_clusters;
use blox_sim::{Measure, Simulation, Until};
use blox_traces::applications::with_applications;
use blox_traces::cluster_file::{ClusterFileError, read_cluster};
use blox_traces::formats::gavel::{Oracle, with_oracle};
use blox_traces::generate::{Beside, with_losses};
use blox_traces::prices::read_prices;
use blox_traces::sample::in_virtual_cluster;
use blox_traces::scaling::{ScalingTable, with_throughputs};
use blox_traces::{Format, ReadOptions, Trace};
use blox_workloads::{Limited, Workload, WorkloadError, whole_ids};
use serde_json::Value;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Data of jobs that no setting replaces.
pub(crate) const AS_STATED: &str = "as the jobs state them";

const NO_SCHEDULER: &str =
    "no scheduler, expected names such as fifo srtf las; `blox policies` lists them";

/// An experiment with one value for each setting, which has been checked and is ready to run.
#[allow(
    missing_debug_implementations,
    reason = "it has a registry of closures"
)]
pub struct Prepared<'r> {
    /// The settings, with the defaults in use.
    pub given: Experiment,
    /// The components that they name.
    pub registry: &'r Registry,
    /// Index of the contestant with which the others are compared.
    pub baseline: usize,
    /// The schedulers.
    pub contestants: Vec<Contestant>,
    /// The cluster.
    pub cluster: ClusterSpec,
    /// The measured jobs. Ids of a trace are replaced by numbers.
    pub measure: Measure,
    /// Expected number of submitted jobs, if known.
    pub expected_jobs: Option<u64>,
    /// Number of jobs of the trace outside the simulated virtual cluster.
    pub left_out: u64,
    /// Files that are read, including the trace.
    pub files: Vec<PathBuf>,
    /// The same files with their hashes, if [requested](crate::Records::hashes).
    pub inputs: Vec<Input>,
    /// The seed.
    pub seed: u64,
    /// A line for each part of schedulers that a setting replaces, and one for each scheduler with
    /// a simulated world of its own.
    pub notices: Vec<String>,
    /// Collectors whose figures are in the report.
    pub collectors: Vec<ComponentSpec>,
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
}

/// Source of job speeds.
enum Throughputs {
    /// Speeds by number of GPUs.
    Tables(Arc<ScalingTable>),
    /// Speeds by GPU type.
    Oracle(Arc<Oracle>),
}

impl Throughputs {
    fn read(path: &Path) -> Result<Self, ExperimentError> {
        Ok(match inputs::is_oracle(path) {
            true => Throughputs::Oracle(Arc::new(Oracle::read(path)?)),
            false => {
                let tables = ScalingTable::read_dir(path)?;
                Throughputs::Tables(Arc::new(tables))
            }
        })
    }
}

impl<'r> Prepared<'r> {
    /// Checks an experiment with one value for each setting.
    ///
    /// # Errors
    /// A setting is wrong, or contradicts another.
    pub fn of(of: Experiment, registry: &'r Registry) -> Result<Self, ExperimentError> {
        Self::with_cache(of, registry, &mut Known::default())
    }

    /// Returns the `i`th scheduler.
    ///
    /// # Errors
    /// A policy cannot be built.
    pub fn pipeline(&self, i: usize) -> Result<Pipeline, ExperimentError> {
        let Contestant { kept, label, .. } = &self.contestants[i];
        if let Some(kept) = kept {
            return Ok(kept.clone());
        }
        let (_, built) = Contestant::of(label, self.registry, &self.given, self.seed)?;
        Ok(built)
    }

    /// Drops the schedulers until they run: memory does not hold all schedulers of a large plan.
    pub(crate) fn without_schedulers(mut self) -> Self {
        self.contestants.iter_mut().for_each(|c| c.kept = None);
        self
    }

    /// Creates one of several experiments, with a shared cache of file data.
    pub(crate) fn with_cache(
        mut of: Experiment,
        registry: &'r Registry,
        known: &mut Known,
    ) -> Result<Self, ExperimentError> {
        let names = of.schedulers.clone();
        let names = names.unwrap_or_else(|| Vec::from_iter(of.scheduler.clone()));
        if names.is_empty() {
            return Err(ExperimentError::Setting(NO_SCHEDULER.to_owned()));
        }
        let seed = of.seed.unwrap_or(SEED);
        let contestants = contestant::contestants(&names, registry, &of, seed)?;
        let baseline = contestant::baseline(&of, &contestants)?;
        jobs::complete(&mut of, registry);
        let cluster_text = of.cluster.clone().unwrap_or_else(|| CLUSTER.to_owned());
        let cluster = cluster(&of, &cluster_text)?;
        let parts = contestants.iter();
        let parts = parts.map(|c| world::models(&of, registry, &c.named));
        let parts: Vec<WorldParts> = parts.collect();
        let mut notices = contestant::replaced(&of);
        for (contestant, parts) in contestants.iter().zip(&parts) {
            notices.extend(world::replaced(parts, &of, registry, contestant));
        }
        for contestant in &contestants {
            let ComponentSpec { name, params } = &contestant.named;
            let scheduler = registry
                .schedulers
                .get(name)
                .map(|e| e.notices_with(params));
            let policy = || {
                registry
                    .scheduling
                    .get(name)
                    .map(|e| e.notices_with(params))
            };
            let own = scheduler.or_else(policy).into_iter().flatten();
            notices.extend(own.map(|notice| format!("{}: {notice}", contestant.label)));
        }
        notices.extend(without_node_data(&of, registry, &cluster));
        let reads_load = parts.iter().any(|p| world::reads_load(p, registry));
        let source = jobs::source(&of, registry, seed, reads_load)?;
        let services = jobs::services(&of, registry, seed)?;
        let measure = jobs::measure(&of, &source, &cluster)?;
        let load = world::demands(&of).and_then(|_| source.jobs_per_hour(&cluster));
        let checked = |p: WorldParts| world::checked(p, &of, registry, seed, load);
        let parts = parts.into_iter().map(checked);
        let parts: Vec<WorldParts> = parts.collect::<Result<_, _>>()?;
        notices.extend(world::differing(&of, &contestants, &parts));
        let collectors = world::collectors(&of, registry, seed)?;
        let overrides = [&of.admission, &of.placement, &of.cluster_manager];
        let overrides = overrides.into_iter().flatten().map(|given| &**given);
        let world = world::world(&of, registry, seed)?;
        let named = contestants.iter().map(|c| &c.named).chain(overrides);
        let named = named.chain(parts.iter().flat_map(world::each));
        let named = named.chain(&world.completion).chain(&collectors);
        let named = named.chain(source.component());
        let named = named.chain(services.iter().map(|(spec, _)| spec));
        let files = inputs::other_files(&of, &cluster_text, named)?;
        let inputs = match of.records.hashes {
            true => inputs::hashed(&files, known)?,
            false => Vec::new(),
        };
        let throughputs = of.throughputs.as_deref().map(Throughputs::read);
        let throughputs = throughputs.transpose()?;
        let applications = of.data.as_ref().map(blox_traces::applications::read_dir);
        let applications = applications.transpose()?;
        let prices = of.prices.as_ref().map(|path| read_prices(path, &cluster));
        let prices = prices.transpose()?.unwrap_or_default();
        // The defaults in use are stated.
        of.scheduler = None;
        of.schedulers = Some(contestants.iter().map(|c| c.label.clone()).collect());
        of.seed = Some(seed);
        of.cluster = Some(cluster_text);
        if let (None, Measure::Ids(a, b)) = (&of.measure, &measure) {
            of.measure = format!("{a}..{b}").parse().ok();
        }
        let mut prepared = Prepared {
            registry,
            baseline,
            contestants,
            cluster,
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
            notices,
            collectors,
            given: of,
        };
        prepared.check_rounds()?;
        let of_file = prepared.check_workload(known)?;
        prepared.measure_by_ids(known)?;
        let by_measure = prepared.measure.last().map(|last| u64::from(last) + 1);
        let first = prepared.given.jobs.map(NonZeroU64::get);
        let limits = [of_file, first, by_measure];
        prepared.expected_jobs = limits.into_iter().flatten().min();
        Ok(prepared)
    }

    /// Refuses ends at rounds of a scheduler that has none.
    fn check_rounds(&self) -> Result<(), ExperimentError> {
        let completion = self.given.completion.as_ref();
        let at_rounds = completion.is_some_and(|rule| rule.text() == "round");
        let mut without = self.contestants.iter().filter(|c| c.period.is_none());
        match without.next() {
            Some(contestant) if at_rounds => {
                let option = |key| self.given.origin.option(key);
                Err(ExperimentError::Setting(format!(
                    "{} is `round`, but `{}` has no rounds; give {} S",
                    option("completion"),
                    contestant.label,
                    option("round")
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a scheduler decides in rounds.
    pub(crate) fn has_rounds(&self) -> bool {
        self.contestants.iter().any(|c| c.period.is_some())
    }

    /// Returns the length of a round of a scheduler in seconds; `None` without rounds.
    pub(crate) fn period_of(&self, label: &str) -> Option<f64> {
        let mut contestants = self.contestants.iter();
        contestants.find(|c| c.label == label)?.period
    }

    /// Describes the overheads, with the models of single schedulers. `trained` is true if jobs have
    /// training data.
    pub(crate) fn overheads_line(&self, trained: bool) -> String {
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
    pub(crate) fn speeds_line(&self) -> Option<String> {
        let own = |parts: &WorldParts| {
            let model = parts.execution.as_ref()?;
            let is_default = model.name == "as-specified";
            (!is_default).then(|| format!("by the model `{model}`"))
        };
        let any = self.parts.iter().any(|parts| own(parts).is_some());
        any.then(|| self.by_scheduler(own, AS_STATED.to_owned()))
    }

    /// Describes the random faults, if there are any.
    pub(crate) fn faults_line(&self) -> Option<String> {
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
    pub(crate) fn gpu_types(&self) -> usize {
        let nodes = self.cluster.nodes.iter().filter(|n| n.gpus > 0);
        nodes.map(|n| &n.gpu_type).collect::<BTreeSet<_>>().len()
    }

    /// Returns the jobs from the first on.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn workload(&self) -> Result<Box<dyn Workload>, ExperimentError> {
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
        if let Some(name) = &self.given.virtual_cluster {
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
        if let Some(n) = self.given.jobs {
            jobs = Box::new(Limited::new(jobs, n.get()));
        }
        if self.given.losses {
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
        let mut all = self.given.values();
        all.retain(|key, _| options.contains(&key.as_str()));
        Value::from(all).to_string()
    }

    /// Reads the workload once, so that an invalid line is reported before anything runs. Returns
    /// the number of jobs in a file.
    fn check_workload(&mut self, known: &mut Known) -> Result<Option<u64>, ExperimentError> {
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
        if self.given.records.hashes {
            if !known.hashes.contains_key(path) {
                let hash = trace.fingerprint()?;
                known.hashes.insert(path.clone(), hash);
            }
            self.inputs.extend(inputs::hashed(&read, known)?);
        }
        self.files.extend(read);
        known.traces.insert(key, trace.clone());
        let mut count = trace.len();
        if let Some(name) = &self.given.virtual_cluster {
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

    /// Creates the simulation of the `i`th scheduler.
    ///
    /// # Errors
    /// A part of the world cannot be built.
    pub fn simulation(&self, i: usize) -> Result<Simulation, ExperimentError> {
        let (of, records) = (&self.given, &self.given.records);
        let simulation = Simulation::new(self.cluster.clone());
        let simulation = self.world.charge(simulation, self.registry, self.seed)?;
        let mut simulation = simulation
            .seed(self.seed)
            .faults(self.world.faults)
            .measure(self.measure.clone())
            .until(self.until())
            .keep_rounds(records.rounds)
            .keep_timeline(records.timeline)
            .keep_waits(records.waits)
            .visiting_every_round(of.visit_every_round)
            .forbidding_truth(of.forbid_true_durations);
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
        let simulation = world::with_models(simulation, &self.parts[i], self.registry, self.seed);
        Ok(simulation?)
    }

    /// Returns the data of jobs that the `i`th scheduler is about.
    pub(crate) fn job_data(&self, i: usize) -> Vec<RequiredData> {
        let ComponentSpec { name, params } = &self.contestants[i].named;
        let (schedulers, policies) = (&self.registry.schedulers, &self.registry.scheduling);
        let scheduler = schedulers.get(name).map(|e| e.job_data_with(params));
        let policy = || policies.get(name).map(|e| e.job_data_with(params));
        scheduler.or_else(policy).unwrap_or_default()
    }

    /// Returns the limit of a simulation. A registered workload states whether it is endless.
    fn until(&self) -> Until {
        match &self.given.until {
            Some(limit) => limit.0,
            None if self.source.jobs_per_hour(&self.cluster).is_none() => Until::Finished,
            None => Until::default(),
        }
    }

    /// If all jobs of a trace have whole numbers as ids, applies `--measure A..B` to these ids.
    fn measure_by_ids(&mut self, known: &mut Known) -> Result<(), ExperimentError> {
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
                let option = self.given.origin.option("measure");
                return Err(ExperimentError::Setting(format!(
                    "{option} is `{a}..{b}`, but no job has such an id: they lie from {least} to {most}"
                )));
            }
            self.measure = Measure::of_ids(of_all, wanted);
        }
        known.ids.insert(key, ids);
        Ok(())
    }

    /// Returns the number of a job: by its `job_id` in a trace, otherwise by its number.
    ///
    /// # Errors
    /// The workload cannot be read.
    pub fn number_of(&self, text: &str) -> Result<Option<u32>, ExperimentError> {
        if matches!(self.source, Source::Trace(..)) {
            let mut jobs = self.workload()?;
            let mut number = 0;
            while let Some(job) = jobs.next_job()? {
                if job.name.as_deref() == Some(text) {
                    return Ok(Some(number));
                }
                number += 1;
            }
        }
        Ok(text.parse().ok())
    }
}

/// Reads the cluster, or one partition of it.
fn cluster(of: &Experiment, text: &str) -> Result<ClusterSpec, ExperimentError> {
    let cluster = read_cluster(text).map_err(|source| ExperimentError::Cluster {
        before: match source {
            ClusterFileError::Shorthand(_) | ClusterFileError::Spec(_) => {
                format!("{}: ", of.name("cluster"))
            }
            _ => String::new(),
        },
        source: Box::new(source),
    })?;
    let Some(name) = &of.virtual_cluster else {
        return Ok(cluster);
    };
    virtual_clusters::nodes_of(&cluster, name).map_err(|known| {
        let expected = match known.is_empty() {
            true => "a cluster whose nodes have partitions".to_owned(),
            false => one_of(name, known.iter().map(|name| &**name)),
        };
        of.wrong("virtual-cluster", name, &expected)
    })
}

/// Returns a line for each kind of data that the placement is about and no node has.
fn without_node_data(of: &Experiment, registry: &Registry, cluster: &ClusterSpec) -> Vec<String> {
    let Some(placement) = &of.placement else {
        return Vec::new();
    };
    let entry = registry.placement.get(&placement.name);
    let about = entry.into_iter().flat_map(|entry| &entry.node_data);
    let missing = about.filter(|data| !cluster.nodes.iter().any(data.has));
    let line = |data: &NodeData| {
        let (name, without) = (data.name, data.without);
        let option = of.origin.option("placement");
        format!("{option} {}: no node has {name}: {without}", placement.name)
    };
    missing.map(line).collect()
}
