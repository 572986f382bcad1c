//! Random cases: a cluster, jobs, a composition and a simulated world. A case follows from its seed
//! and its largest number of jobs alone.

use blox::core::{
    AfterDrain, Class, ClusterManager, ClusterSpec, ComposeError, Composition, Curve, Deadline,
    Extras, GpuCount, JobSpec, LossCurve, LossReports, Name, NodeAction, NodeActionKind,
    NodeActionKinds, NodeActions, NodeSpec, Offer, OfferId, Phase, Pipeline, Seconds, Sensitivity,
    Share, SortedMap, Stateless, Time, TypeSpeeds, Validity, View,
};
use blox::registry::{ComponentRegistry, ComponentSpec, Registry};
use blox::sim::Simulation;
use blox::sim::completion::Exact;
use blox::sim::faults::Faults;
use blox::sim::registry::World;
use chacha20::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Parameters of components beside their defaults. Components without an entry have only these.
const PARAMETERS: &[(&str, &[&str])] = &[
    ("allox", &["alpha=0.5"]),
    ("chronus", &["choice=optimal", "lease_s=600"]),
    ("elasticflow", &["expand=false", "slot_s=120"]),
    ("fifo", &["backfill=skip", "backfill=easy"]),
    (
        "gandiva",
        &["packing=false", "growing=false", "slice_s=120"],
    ),
    (
        "gavel",
        &[
            "policy=water-filling",
            "policy=finish-time-fairness",
            "policy=max-sum-throughput",
            "policy=fifo",
            "policy=gandiva-packing,speeds=pairs",
            "speeds=pairs",
            "speeds=pairs,beside=0.6",
            "speeds=nothing",
        ],
    ),
    ("gfs", &["keep=0", "keep=0.5,round_s=300"]),
    ("helios-ces", &["buffer=0,keep=1", "buffer=1,keep=3"]),
    ("las", &["backfill=skip", "gpu_time=true", "guard_h=1"]),
    ("load-admission", &["threshold=0.8"]),
    (
        "lucid",
        &[
            "profiler_nodes=1,limit_s=400",
            "profiler_nodes=0",
            "scores=-1",
        ],
    ),
    ("muri", &["attained=true,round_s=60"]),
    ("pollux", &["population=8,generations=4"]),
    ("qssf", &["backfill=skip", "estimator=noisy,sigma=1"]),
    ("serving", &["notice_s=60"]),
    ("shockwave", &["rounds=5"]),
    ("sjf", &["backfill=easy", "estimator=noisy"]),
    ("srtf", &["backfill=skip", "guard_h=2"]),
    (
        "synergy",
        &[
            "allocation=proportional",
            "allocation=greedy,order=srtf",
            "order=las",
            "order=tetris",
            "order=drf,placement=first-free",
        ],
    ),
    ("synthesizer", &["horizon_h=1,every_rounds=3"]),
    ("themis", &["fairness=0.5", "lease_s=300"]),
    ("tiresias", &["thresholds=3250/7200", "promote=2"]),
    ("2das", &["promote=2"]),
    (
        "order",
        &[
            "by=where(attained < 1h, 0, 1), submit,preemptive=true",
            "by=-age / max(true_duration, 1s)",
            "by=-priority, where(gpus <= 2gpus, 0, 1), first_start",
        ],
    ),
    ("quota-tree", &["queues=vc-a:4/vc-b:8:12", "order=las"]),
    (
        "consolidated",
        &[
            "split=whole-nodes",
            "split=never",
            "backfill=skip",
            "split=whole-nodes,backfill=easy",
        ],
    ),
    ("balanced", &["backfill=skip"]),
    ("bandwidth", &["backfill=easy"]),
    ("by-class", &["classes=a/b,backfill=skip"]),
    ("fgd", &["backfill=skip"]),
    ("first-free", &["backfill=skip"]),
    ("pal", &["sticky=false"]),
    ("pm-first", &["sticky=false"]),
    ("profiled", &["pack_limit=0.1"]),
    ("random", &["backfill=skip"]),
    ("load", &["threshold=0.7", "threshold=2"]),
    ("quota", &["gpus=4", "gpus=8,by=virtual-cluster"]),
    (
        "maintenance",
        &["nodes=0,until_h=1", "nodes=0/1,from_h=1,until_h=3"],
    ),
    ("quarantine", &["window_h=5"]),
    ("loans", &["nodes=0,needs=0:0/2:1,day_h=4"]),
    ("contention", &["slowdown=0.2"]),
    ("variability", &["locality=1.2"]),
    ("groups", &["switch_s=30"]),
];

/// Components that only a load of the command line completes.
const OF_THE_COMMAND_LINE: [&str; 1] = ["blox-optimus"];

const TYPES: [&str; 3] = ["v100", "a100", "t4"];

/// Random numbers.
pub struct Draw(ChaCha8Rng);

impl Draw {
    pub fn keyed(seed: u64, purpose: u64) -> Self {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&purpose.to_le_bytes());
        Draw(ChaCha8Rng::from_seed(key))
    }

    pub fn chance(&mut self, p: f64) -> bool {
        self.0.random::<f64>() < p
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.random::<f64>()
    }

    /// Returns a number from `low` to `high`, by their logarithms.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.0.random::<f64>())
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n.max(1) as u64) as usize
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// The names of a case's components.
#[derive(Clone, Debug)]
pub struct Parts {
    pub scheduler: String,
    /// True if the name belongs to a scheduling policy.
    pub order: bool,
    pub placement: Option<String>,
    pub admission: Option<String>,
    pub manager: Option<String>,
    pub execution: Option<String>,
    pub overheads: Option<String>,
    pub exact: bool,
}

/// A case.
#[derive(Clone)]
pub struct Case {
    pub seed: u64,
    pub cluster: ClusterSpec,
    pub jobs: Vec<JobSpec>,
    pub parts: Parts,
    pub faults: Faults,
}

/// Adds nodes of the first offer while jobs wait, and returns idle ones of it.
#[derive(Clone)]
pub struct Growing;

/// The name of the manager in a case.
const GROWING: &str = "growing";

impl Stateless for Growing {}

impl ClusterManager for Growing {
    fn manage(&self, (): &mut (), view: View<'_>, out: &mut NodeActions) -> Validity {
        // Jobs that this decision admits do not wait yet, and there may be no later decision.
        let waits = view.waiting_count() + view.count(Phase::Submitted) > 0;
        let (cluster, offer) = (view.cluster(), OfferId(0));
        if waits && cluster.left_of(offer) > 0 {
            out.push(NodeAction::Grow { offer, count: 1 });
        } else if !waits {
            let added = view.nodes().filter(|n| n.offer().is_some());
            let idle = added.filter(|n| n.is_usable() && n.free_count() == n.gpu_count());
            let idle = idle.filter(|n| n.wanted().is_none());
            for node in idle {
                out.push(NodeAction::Drain {
                    node: node.id(),
                    by: view.now(),
                    then: AfterDrain::Leave,
                    why: "idle".into(),
                });
            }
        }
        Validity::NextRound
    }

    fn actions(&self) -> NodeActionKinds {
        NodeActionKinds::of(&[NodeActionKind::Grow, NodeActionKind::Leave])
    }
}

impl Case {
    /// Draws the case of a seed with at most this many jobs.
    pub fn of(seed: u64, registry: &Registry, most_jobs: usize) -> Case {
        let r = &mut Draw::keyed(seed, 0);
        let parts = parts(r, registry);
        // A run of some length always has large cases.
        let large = r.chance(0.02) || seed.is_multiple_of(50);
        let cluster = cluster(r, large);
        let mut jobs = jobs(r, &cluster, large);
        jobs.truncate(most_jobs.max(1));
        let longest = jobs.iter().map(|j| j.duration().secs()).fold(0.0, f64::max);
        // The more nodes there are, the rarer each fails: large jobs then find all that they need.
        let rarity = if large { 10.0 } else { 1.0 };
        let faults = faults(r, seed, longest * rarity);
        Case {
            seed,
            cluster,
            jobs,
            parts,
            faults,
        }
    }

    /// Builds the scheduler.
    ///
    /// # Errors
    /// One component takes a role of another.
    pub fn pipeline(&self, registry: &Registry) -> Result<Pipeline, ComposeError> {
        let parts = &self.parts;
        let mut composed = if parts.order {
            let order = built(&registry.scheduling, &parts.scheduler, self.seed);
            let composition = Composition::new(parts.scheduler.as_str()).scheduling(order);
            let place = parts.placement.as_deref().unwrap_or("consolidated");
            let place = built(&registry.placement, place, self.seed);
            composition.placement(place).build()?
        } else {
            let whole = built(&registry.schedulers, &parts.scheduler, self.seed);
            match &parts.placement {
                Some(place) => {
                    whole.with_placement(built(&registry.placement, place, self.seed))?
                }
                None => whole,
            }
        };
        if let Some(name) = &parts.admission {
            composed = composed.with_admission(built(&registry.admission, name, self.seed))?;
        }
        self.managed(composed, registry)
    }

    /// Gives a scheduler the cluster manager of the case, if there is one.
    ///
    /// # Errors
    /// The cluster manager of the scheduler takes other roles, too.
    pub fn managed(
        &self,
        scheduler: Pipeline,
        registry: &Registry,
    ) -> Result<Pipeline, ComposeError> {
        match self.parts.manager.as_deref() {
            None => Ok(scheduler),
            Some(GROWING) => scheduler.with_cluster(Growing),
            Some(name) => scheduler.with_cluster(built(&registry.cluster, name, self.seed)),
        }
    }

    /// Returns the simulated world.
    pub fn simulation(&self, registry: &Registry) -> Simulation {
        let mut simulation = Simulation::new(self.cluster.clone())
            .seed(self.seed)
            .faults(self.faults);
        if let Some(name) = &self.parts.execution {
            let model = built(&registry.execution_models(), name, self.seed);
            simulation = simulation.execution(model);
        }
        if let Some(name) = &self.parts.overheads {
            let costs = built(&registry.overhead_models(), name, self.seed);
            simulation = simulation.overheads(costs);
        }
        if self.parts.exact {
            simulation = simulation.completion(Exact);
        }
        simulation
    }

    /// Counts what the case contains.
    pub fn count(&self, reached: &mut BTreeMap<&'static str, u64>) {
        let mut note = |what, is: bool| *reached.entry(what).or_insert(0) += u64::from(is);
        let jobs = &self.jobs;
        let extras =
            |of: fn(&Extras) -> bool| jobs.iter().any(|job| job.extras.as_deref().is_some_and(of));
        let types: BTreeSet<_> = self.cluster.nodes.iter().map(|n| &n.gpu_type).collect();
        note("cases with overheads", self.parts.overheads.is_some());
        note("cases with faults", !self.faults.is_none());
        note("cases with several GPU types", types.len() > 1);
        note(
            "cases with more than 128 GPUs",
            self.cluster.total_gpus() > 128,
        );
        note("cases with 300 jobs", jobs.len() >= 300);
        note(
            "cases with another placement",
            self.parts.placement.is_some(),
        );
        note("cases with admission", self.parts.admission.is_some());
        note("cases with a cluster manager", self.parts.manager.is_some());
        let grows = self.parts.manager.as_deref() == Some(GROWING);
        note("cases with a growing cluster", grows);
        note("cases with levels", extras(|e| !e.levels.is_empty()));
        note("cases with losses", extras(|e| e.loss.is_some()));
        note("cases with deadlines", extras(|e| !e.deadlines.is_empty()));
        note("cases with speeds by type", extras(|e| e.speeds.is_some()));
        let stages = extras(|e| e.attributes.contains_key("stages"));
        note("cases with stages", stages);
        let memory = extras(|e| e.memory_gib > 0.0);
        note("cases with CPUs and memory", memory);
        note("cases with services", extras(|e| e.need.is_some()));
        let guaranteed = extras(|e| e.class.is_spot() && e.class != Class::BEST_EFFORT);
        note("cases with guaranteed time", guaranteed);
        note("cases with parts of GPUs", extras(|e| !e.share.is_whole()));
        note("cases with numbers of nodes", extras(|e| e.nodes.is_some()));
    }
}

/// Builds a component from its name and parameters.
fn built<T>(components: &ComponentRegistry<T>, named: &str, seed: u64) -> T {
    let spec: ComponentSpec = named.parse().expect("a name with parameters");
    let built = components.build(&spec, seed);
    built.unwrap_or_else(|e| panic!("{named}: {e}"))
}

impl fmt::Display for Case {
    /// Writes all that the case consists of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "parts: {:?}", self.parts)?;
        writeln!(f, "faults: {:?}", self.faults)?;
        for node in &self.cluster.nodes {
            writeln!(f, "node: {}", json!(node))?;
        }
        for job in self.jobs.iter().take(12) {
            writeln!(f, "job: {}", json!(job))?;
        }
        match self.jobs.len().checked_sub(12) {
            Some(more @ 1..) => writeln!(f, "and {more} more jobs"),
            _ => Ok(()),
        }
    }
}

/// Returns a random entry of a registry, half of the time with parameters.
fn named<T>(r: &mut Draw, components: &ComponentRegistry<T>) -> String {
    let drawn = |name: &&str| !OF_THE_COMMAND_LINE.contains(name);
    let names: Vec<&str> = components.names().filter(drawn).collect();
    let name = r.pick(&names);
    let values = PARAMETERS.iter().find(|(of, _)| *of == name);
    let entry = components.get(name);
    let known = |values: &&str| {
        let named: ComponentSpec = format!("{name}{{{values}}}").parse().expect("parameters");
        let params = entry.map_or(&[][..], |e| &e.params);
        named
            .params
            .names()
            .all(|p| params.iter().any(|q| q.name == p))
    };
    let values = values.map_or(&[][..], |(_, values)| values);
    let values: Vec<&str> = values.iter().copied().filter(known).collect();
    // A search of full length takes the time of a hundred other cases.
    match !values.is_empty() && (name == "pollux" || r.chance(0.5)) {
        true => format!("{name}{{{}}}", r.pick(&values)),
        false => name.to_owned(),
    }
}

fn parts(r: &mut Draw, registry: &Registry) -> Parts {
    let order = r.chance(0.25);
    let scheduler = match order {
        true => named(r, &registry.scheduling),
        false => named(r, &registry.schedulers),
    };
    let placement = match order || r.chance(0.15) {
        true => Some(named(r, &registry.placement)),
        false => None,
    };
    let admission = r.chance(0.15).then(|| named(r, &registry.admission));
    let manager = match r.below(8) {
        0 => Some(GROWING.to_owned()),
        1 => Some(named(r, &registry.cluster)),
        _ => None,
    };
    let name = scheduler.split('{').next().unwrap_or_default();
    let world = match order {
        true => registry.scheduling.get(name).map(|e| e.world.clone()),
        false => registry.schedulers.get(name).map(|e| e.world.clone()),
    };
    let world = world.unwrap_or_default();
    let own = |part: Option<ComponentSpec>| {
        part.map(|p| p.name)
            .filter(|name| !OF_THE_COMMAND_LINE.contains(&name.as_str()))
    };
    let execution = match r.chance(0.6) {
        true => own(world.execution),
        false => Some(named(r, &registry.execution_models())),
    };
    let overheads = match r.below(4) {
        0 => own(world.overheads),
        1 => Some(named(r, &registry.overhead_models())),
        2 => Some(format!(
            "fixed{{launch_s={},checkpoint_s={},restart_s={},migration_s={},boot_s={}}}",
            r.pick(&[0, 10, 90]),
            r.pick(&[0, 5, 400]),
            r.pick(&[0, 20]),
            r.pick(&[0, 30, 500]),
            r.pick(&[0, 120]),
        )),
        _ => None,
    };
    Parts {
        scheduler,
        order,
        placement,
        admission,
        manager,
        execution,
        overheads,
        exact: r.chance(0.5),
    }
}

fn cluster(r: &mut Draw, large: bool) -> ClusterSpec {
    let count = if large {
        20 + r.below(30)
    } else {
        1 + r.below(6)
    };
    let types = r.pick(&[0, 0, 1, 2, 3]);
    let sizes: &[u32] = r.pick(&[&[4][..], &[8], &[1, 2, 4], &[2, 8], &[1]]);
    let partitions = r.chance(0.2);
    let amounts = r.chance(0.6);
    let nodes: Vec<NodeSpec> = (0..count)
        .map(|i| {
            let mut node = NodeSpec::with_gpus(r.pick(sizes));
            if types > 0 {
                node = node.of_type(r.pick(&TYPES[..types]));
            }
            if partitions {
                node = node.in_partition(if i % 2 == 0 { "vc-a" } else { "vc-b" });
            }
            if amounts {
                node.cpus = r.pick(&[4.0, 8.0]) * f64::from(node.gpus);
                node.memory_gib = r.pick(&[32.0, 64.0]) * f64::from(node.gpus);
            }
            node
        })
        .collect();
    let offers = vec![Offer::new("grown", nodes[0].clone(), 2)];
    ClusterSpec {
        nodes,
        offers,
        ..ClusterSpec::default()
    }
}

/// The properties that the jobs of a case share.
struct Kind {
    levels: bool,
    typed: bool,
    speeds: bool,
    stages: bool,
    scores: bool,
    resources: bool,
    deadlines: bool,
    losses: bool,
    partitions: bool,
    services: bool,
    guarantees: bool,
    parts: bool,
    nodes: bool,
}

fn jobs(r: &mut Draw, cluster: &ClusterSpec, large: bool) -> Vec<JobSpec> {
    let count = match large {
        true => 300 + r.below(60),
        false => {
            let most = r.pick(&[4, 16, 40]);
            1 + r.below(most)
        }
    };
    let span = r.pick(&[0.0, 1800.0, 20_000.0]);
    let longest = r.pick(&[600.0, 4_000.0, 20_000.0]);
    let total = cluster.total_gpus() as usize;
    let on_one = cluster.nodes.iter().map(|n| n.gpus).max().unwrap_or(1) as usize;
    let kind = Kind {
        levels: r.chance(0.35),
        typed: r.chance(0.35),
        speeds: r.chance(0.35) && cluster.nodes.iter().all(|n| n.gpu_type.is_some()),
        stages: r.chance(0.3),
        scores: r.chance(0.35),
        resources: r.chance(0.4),
        deadlines: r.chance(0.3),
        losses: r.chance(0.2),
        partitions: cluster.nodes.iter().any(|n| n.partition.is_some()),
        services: r.chance(0.2),
        guarantees: r.chance(0.25),
        parts: r.chance(0.2),
        nodes: r.chance(0.25),
    };
    let types: BTreeSet<Name> = cluster
        .nodes
        .iter()
        .filter_map(|n| n.gpu_type.clone())
        .collect();
    let types: Vec<Name> = types.into_iter().collect();
    let mut submits: Vec<f64> = (0..count).map(|_| r.between(0.0, span).floor()).collect();
    submits.sort_by(f64::total_cmp);
    let mut list = Vec::with_capacity(count);
    for (i, submit) in submits.into_iter().enumerate() {
        let gpus = match r.below(10) {
            0..=4 => 1,
            5..=7 => 1 + r.below(on_one),
            8 => 1 + r.below(total),
            // Some jobs are larger than the cluster.
            _ => r.pick(&[total, total, total + 1, total + 40, on_one, 1]),
        };
        let seconds = match r.chance(0.03) {
            true => r.pick(&[0.0, 1e-5]),
            false => r.log(20.0, longest),
        };
        let mut job = JobSpec::new(
            Time::new(submit),
            GpuCount(gpus as u32),
            Seconds::new(seconds),
        )
        .named(format!("job-{i}"))
        .owned_by(r.pick(&["ada", "bob", "cyd"]));
        job.priority = r.below(3) as i32;
        if kind.partitions {
            job = job.in_virtual_cluster(r.pick(&["vc-a", "vc-b"]));
        }
        let extras = extras(r, &kind, &job, &types, total);
        list.push(match extras == Extras::default() {
            true => job,
            false => job.with_extras(extras),
        });
    }
    list
}

fn extras(r: &mut Draw, kind: &Kind, job: &JobSpec, types: &[Name], total: usize) -> Extras {
    let gpus = job.gpus.get();
    let mut extras = Extras::default();
    if kind.levels && r.chance(0.7) {
        let mut levels = BTreeSet::from([gpus.div_ceil(2), gpus, 2 * gpus]);
        if r.chance(0.3) {
            levels.insert(2 * total as u32);
        }
        if r.chance(0.3) {
            levels.remove(&gpus.div_ceil(2));
        }
        if r.chance(0.6) {
            let rate = |l: &u32| (f64::from(*l) / f64::from(gpus)).powf(0.8);
            extras.rates = levels.iter().map(rate).collect();
            if levels.first().is_some_and(|least| *least < gpus) && r.chance(0.2) {
                extras.rates[0] = 0.0;
            }
        }
        extras.levels = levels.into_iter().map(GpuCount).collect();
    }
    if kind.typed && !types.is_empty() && r.chance(0.5) {
        extras.gpu_types = vec![r.pick(types)];
        if r.chance(0.3) {
            extras.gpu_types.push(r.pick(&TYPES).into());
            extras.gpu_types.sort();
            extras.gpu_types.dedup();
        }
    }
    if kind.speeds && r.chance(0.8) {
        let mut speeds = TypeSpeeds::default();
        for name in types {
            if r.chance(0.8) {
                // A rate of 0: the job does not run on this type.
                speeds.set(name.clone(), r.pick(&[0.0, 0.3, 1.0, 1.0, 4.0]));
                if r.chance(0.4) {
                    speeds.set_beside(name.clone(), "bert", r.between(0.3, 1.0), 0.7);
                }
            }
        }
        extras.speeds = Some(Arc::new(speeds));
        extras.model = Some(r.pick(&["bert", "resnet"]).into());
    }
    let mut attributes = SortedMap::new();
    if kind.stages && r.chance(0.8) {
        let mut stages = [0.1, 0.1, 0.1, 0.1];
        stages[r.below(4)] = 0.7;
        attributes.insert(Name::from("stages"), json!(stages));
    }
    if kind.scores && r.chance(0.8) {
        attributes.insert(Name::from("sharing_score"), json!(r.below(3)));
        let utilisation = r.pick(&[0.2, 0.5, 0.9]);
        attributes.insert(Name::from("gpu_utilisation"), json!(utilisation));
        attributes.insert(Name::from("gmem"), json!(r.pick(&[2000, 9000, 20_000])));
    }
    extras.attributes = attributes;
    if kind.resources && r.chance(0.7) {
        // At most eight CPUs and 64 GiB a GPU are there; a few jobs ask for more.
        extras.cpus = f64::from(gpus) * r.pick(&[0.0, 1.0, 4.0, 8.0, 8.0, 9.0]);
        extras.memory_gib = f64::from(gpus) * r.pick(&[0.0, 8.0, 32.0, 64.0, 70.0]);
        if r.chance(0.3) {
            let table = Sensitivity::new(
                vec![1.0, 4.0],
                vec![8.0, 32.0],
                vec![vec![0.4, 0.6], vec![0.8, 1.0]],
            );
            extras.sensitivity = Some(Arc::new(table.expect("a sound table")));
        }
    }
    if kind.deadlines && r.chance(0.6) {
        let slack = r.between(0.2, 4.0) * (job.duration().secs() + 60.0);
        let at = job.submit + Seconds::new(slack);
        extras.deadlines = vec![Deadline { at, value: 1.0 }];
    }
    if r.chance(0.1) {
        extras.class = Class::BEST_EFFORT;
    }
    if kind.guarantees && r.chance(0.5) {
        let guaranteed = Seconds::new(r.log(60.0, 6000.0).floor());
        extras.class = Class::Spot { guaranteed };
    }
    if kind.services && r.chance(0.3) {
        extras.need = Some(need(r));
    }
    if kind.parts && r.chance(0.6) {
        let (n, of) = r.pick(&[(1, 2), (1, 4), (1, 3), (2, 3), (1, 7)]);
        let part = Share::parts(n, of).expect("a part");
        let with_memory = part.memory(n, of).filter(|_| r.chance(0.3));
        extras.share = with_memory.unwrap_or(part);
    }
    if kind.losses && r.chance(0.7) {
        extras.loss = Some(LossReports {
            curve: LossCurve {
                b0: 0.5,
                b1: 1.0,
                b2: 0.2,
            },
            epoch: (job.work.iterations / r.between(5.0, 100.0)).max(1e-9),
        });
    }
    if kind.nodes && extras.levels.is_empty() && extras.need.is_none() && r.chance(0.7) {
        let numbers: Vec<u32> = (1..=gpus.min(8))
            .filter(|n| gpus.is_multiple_of(*n))
            .collect();
        extras.nodes = NonZeroU32::new(r.pick(&numbers));
    }
    extras
}

/// Returns the copies of a service over time; none at some times.
fn need(r: &mut Draw) -> Curve {
    let period = r.log(300.0, 40_000.0);
    let (mut steps, mut at) = (Vec::new(), 0.0);
    while at < period && steps.len() < 5 {
        steps.push((Seconds::new(at), r.below(5) as f64));
        at += r.between(0.05, 0.6) * period;
    }
    Curve::new(Seconds::new(period), steps).expect("ascending steps")
}

fn faults(r: &mut Draw, seed: u64, longest: f64) -> Faults {
    if r.chance(0.6) {
        return Faults::default();
    }
    let mean = |r: &mut Draw, times: f64| Seconds::new((longest + 600.0) * r.between(0.5, times));
    Faults {
        seed,
        node_mtbf: r.chance(0.5).then(|| mean(r, 6.0)),
        node_mttr: Seconds::new(r.log(60.0, 6000.0)),
        job_mtbf: r.chance(0.5).then(|| mean(r, 6.0)),
        checkpoint_every: r.chance(0.7).then(|| Seconds::new(r.log(60.0, 1800.0))),
        launch_failure: r.pick(&[0.0, 0.0, 0.05, 0.3]),
    }
}
