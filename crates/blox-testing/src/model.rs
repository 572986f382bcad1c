//! Checks that an execution model keeps the rules of its trait.

use super::cases::Cases;
use super::jumble::{Jumble, OnAnyLevel};
use super::random::SplitMix;
use super::script::{Contents, Fault, Script};
use blox_core::event::Event;
use blox_core::ids::{GpuId, JobId, Name};
use blox_core::job::spec::JobSpec;
use blox_core::job::training::Adapts;
use blox_core::units::{Seconds, Time};
use blox_core::{ClusterSpec, Composition, Curve, Network, NodeSpec, Pipeline};
use blox_perf::applications::{Application, built_in};
use blox_sim::completion::Exact;
use blox_sim::execution::{AnyExecution, ExecutionModel};
use blox_sim::overheads::FixedOverheads;
use blox_sim::stepping::{RunningRate, Step, Stepper};
use blox_sim::workload::Jobs;
use blox_sim::{Ended, SimError, Simulation, Until};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A rule of [`ExecutionModel`] that a model broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ModelProperty {
    /// A job keeps its rate until an event changes the rate, and a launch or a stop changes only
    /// rates of jobs within [`reach`](ExecutionModel::reach).
    Updates,
    /// The rate of a launch is a finite number above 0 on every GPU type and level that the job
    /// accepts. A later rate is a finite number, at least 0.
    Rates,
    /// A rate follows from the view and the model's memory. The same simulation gives the same
    /// results each time: step by step, and in one pass.
    Determinism,
    /// The model does not panic.
    Panic,
    /// The cases run a job.
    Reach,
}

impl fmt::Display for ModelProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModelProperty::Updates => "leaves a job at a rate that is not true any more",
            ModelProperty::Rates => "gives an invalid rate",
            ModelProperty::Determinism => "is not deterministic",
            ModelProperty::Panic => "panicked",
            ModelProperty::Reach => "was not tested",
        })
    }
}

/// An execution model that breaks a rule, with the smallest failing case found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "execution model `{model}` {property}: case {case}, at {at} s: expected {expected}, found {found}; rerun with `.only({case}).jobs({jobs})`"
)]
pub struct ModelFailure {
    /// The rule.
    pub property: ModelProperty,
    /// The name of the model.
    pub model: String,
    /// The seed of the case.
    pub case: u64,
    /// Number of jobs of the case.
    pub jobs: usize,
    /// Virtual time of the violation.
    pub at: Time,
    /// Expected by the rule.
    pub expected: String,
    /// Found instead.
    pub found: String,
}

/// Counts the situations that the cases of a [`ModelSuite`] reached.
///
/// A model is tested only in the situations that its cases reach, so read the zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelReport {
    /// Cases.
    pub cases: u64,
    /// Jobs submitted.
    pub jobs: u64,
    /// Launches.
    pub launches: u64,
    /// Rates that were computed again.
    pub computed: u64,
    /// Rates of running jobs that changed.
    pub changed: u64,
    /// Rates of running jobs that changed although the jobs shared no GPU since their launch.
    pub changed_elsewhere: u64,
    /// Rates at the end of a stretch.
    pub stretches: u64,
    /// Launches on GPUs of other jobs.
    pub shared: u64,
    /// Launches over several nodes.
    pub spanning: u64,
    /// Launches over links of the network.
    pub linked: u64,
    /// Launches on another number of GPUs than requested.
    pub resized: u64,
    /// Launches of jobs with speeds by GPU type.
    pub by_type: u64,
    /// Launches of jobs with stages.
    pub staged: u64,
    /// Launches that took time.
    pub delayed: u64,
}

impl ModelReport {
    /// Returns each counter with its name.
    pub fn counters(&self) -> [(&'static str, u64); 12] {
        [
            ("launches", self.launches),
            ("rates computed again", self.computed),
            ("changed rates", self.changed),
            ("rates changed by other GPUs", self.changed_elsewhere),
            ("stretches", self.stretches),
            ("shared GPUs", self.shared),
            ("several nodes", self.spanning),
            ("links of the network", self.linked),
            ("other GPU counts", self.resized),
            ("speeds by GPU type", self.by_type),
            ("stages", self.staged),
            ("delayed launches", self.delayed),
        ]
    }

    /// Returns the names of the counters at 0.
    pub fn unreached(&self) -> Vec<&'static str> {
        let counters = self.counters().into_iter();
        let zero = counters.filter(|(_, count)| *count == 0);
        zero.map(|(name, _)| name).collect()
    }

    fn launched(&mut self, stepper: &Stepper<'_>, id: JobId, delayed: bool) {
        let view = stepper.view();
        let Some(job) = view.job(id) else { return };
        let Some(on) = job.bound() else { return };
        let extras = job.spec().extras();
        self.launches += 1;
        self.delayed += u64::from(delayed);
        self.shared += u64::from(on.share.overlaps());
        self.spanning += u64::from(view.cluster().nodes_spanned(on) > 1);
        self.linked += u64::from(!view.cluster().links_of(&on.gpus).is_empty());
        self.resized += u64::from(on.count() != job.gpus());
        self.by_type += u64::from(extras.speeds.is_some());
        self.staged += u64::from(extras.attributes.contains_key("stages"));
    }
}

impl fmt::Display for ModelReport {
    /// Writes the counters above 0, then the names of the others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reached = self.counters().into_iter().filter(|(_, count)| *count > 0);
        let reached: Vec<String> = reached.map(|(name, n)| format!("{name} {n}")).collect();
        write!(f, "{} cases, {} jobs; ", self.cases, self.jobs)?;
        write!(f, "reached: {}", crate::joined(&reached))?;
        write!(f, "; never reached: {}", crate::joined(&self.unreached()))
    }
}

/// Creates a conformance suite for the execution model that `builder` creates from a seed; see
/// [`ModelSuite`].
///
/// ```
/// use blox_core::{Assignment, JobRef, Stateless, View};
/// use blox_sim::execution::{ExecutionModel, running_beside};
/// use blox_testing::{ModelProperty, conformance_of_model};
///
/// /// Each other job in the cluster takes a tenth of a job's speed.
/// struct Crowded;
///
/// impl Stateless for Crowded {}
///
/// impl ExecutionModel for Crowded {
///     fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
///         job.own_rate() / (1.0 + 0.1 * f64::from(view.placed_count()))
///     }
///     // A rate depends on jobs out of `reach`: they get no new rate.
/// }
///
/// let failure = conformance_of_model(|_seed| Crowded).check().unwrap_err();
/// assert_eq!(failure.property, ModelProperty::Updates);
///
/// /// Each other job on the first GPU of a job takes a tenth of its speed.
/// struct Beside;
///
/// impl Stateless for Beside {}
///
/// impl ExecutionModel for Beside {
///     fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, on: &Assignment) -> f64 {
///         let others = running_beside(view, job.id(), on.gpus[0]).count();
///         job.own_rate() / (1.0 + 0.1 * others as f64)
///     }
/// }
///
/// let report = conformance_of_model(|_seed| Beside).cases(8).check()?;
/// assert!(report.changed > 0, "{report}");
/// # Ok::<(), blox_testing::ModelFailure>(())
/// ```
pub fn conformance_of_model<'a, M: ExecutionModel>(
    builder: impl Fn(u64) -> M + 'a,
) -> ModelSuite<'a> {
    let tested = TestedModel {
        build: Box::new(move |seed| Box::new(builder(seed))),
    };
    Cases::new(tested, 64)
}

/// Runs an execution model in simulations of random small clusters and jobs, and checks every
/// [`ModelProperty`].
///
/// The clusters have one or several nodes and GPU types. Jobs have speeds by type, speeds beside
/// other jobs, stages, utilisations, levels, CPUs and memory, and some train a built-in application.
/// In a third of the cases, the nodes are in racks and rows with scarce links, and jobs have traffic.
/// A scheduler of the suite stops and places jobs at random in each round, on any of their levels.
/// Jobs run on one or several nodes and share GPUs. In half of the cases, launches and stops take
/// time.
///
/// After every event, the suite computes the rate of every running job again. A rate that differs
/// after the last event of a moment is a violation. Each case is then run in one pass, and must have
/// the same results.
pub type ModelSuite<'a> = Cases<TestedModel<'a>>;

/// The execution model that a [`ModelSuite`] tests.
pub struct TestedModel<'a> {
    build: Box<dyn Fn(u64) -> Box<dyn AnyExecution> + 'a>,
}

/// A broken rule, with the time at which it broke.
struct Broken {
    property: ModelProperty,
    at: Time,
    expected: String,
    found: String,
}

impl ModelSuite<'_> {
    /// Runs all cases.
    ///
    /// # Errors
    /// The first rule that the model broke, in the case with the fewest jobs that still breaks it;
    /// or [`ModelProperty::Reach`] if no case ran a job.
    pub fn check(&self) -> Result<ModelReport, ModelFailure> {
        let mut report = ModelReport::default();
        for case in self.seeds() {
            report = self
                .run_case(case, self.contents.most_jobs, report)
                .map_err(|failure| self.shrink(failure))?;
            report.cases += 1;
        }
        if report.computed == 0 {
            let broken = Broken {
                property: ModelProperty::Reach,
                at: Time::ZERO,
                expected: "a case in which a job runs at a rate of the model".to_owned(),
                found: report.to_string(),
            };
            return Err(self.failure(self.first, usize::MAX, broken));
        }
        Ok(report)
    }

    fn failure(&self, case: u64, jobs: usize, broken: Broken) -> ModelFailure {
        ModelFailure {
            property: broken.property,
            model: (self.tested.build)(case).any_name(),
            case,
            jobs,
            at: broken.at,
            expected: broken.expected,
            found: broken.found,
        }
    }

    /// Returns the same failure with fewer jobs if one is found.
    fn shrink(&self, failure: ModelFailure) -> ModelFailure {
        let mut smaller = (1..failure.jobs)
            .filter_map(|jobs| {
                self.run_case(failure.case, jobs, ModelReport::default())
                    .err()
            })
            .filter(|smaller| smaller.property == failure.property);
        let first = smaller.next();
        first.unwrap_or(failure)
    }

    /// Runs a case and adds its counters to the report.
    fn run_case(
        &self,
        case: u64,
        most_jobs: usize,
        report: ModelReport,
    ) -> Result<ModelReport, ModelFailure> {
        let world = World::of(case, &self.contents_of(most_jobs));
        let jobs = world.jobs.len();
        let run = catch_unwind(AssertUnwindSafe(|| {
            world.run((self.tested.build)(case), report)
        }));
        let result = run.unwrap_or_else(|panic| {
            Err(Broken {
                property: ModelProperty::Panic,
                at: Time::ZERO,
                expected: "no panic".to_owned(),
                found: blox_core::core::panic_message(&*panic),
            })
        });
        result.map_err(|broken| self.failure(case, jobs, broken))
    }
}

/// The length of a round in seconds.
const ROUND_S: f64 = 60.0;

/// A case ends at the latest after this number of rounds without a submission.
const ROUNDS: f64 = 60.0;

/// The part of a case that does not depend on the model.
struct World {
    seed: u64,
    simulation: Simulation,
    delayed: bool,
    jobs: Vec<JobSpec>,
}

impl World {
    fn of(seed: u64, contents: &Contents) -> World {
        let contents = Contents {
            // Jobs that train need applications, which a script does not have; see below.
            faults: contents
                .faults
                .without(Fault::Reports)
                .without(Fault::Oversized)
                .without(Fault::NodeCounts)
                .without(Fault::Large),
            ..contents.clone()
        };
        let script = Script::of(seed, Seconds::new(ROUND_S), &contents);
        let mut cluster = script.cluster;
        let mut jobs: Vec<JobSpec> = script.jobs.into_iter().map(Arc::unwrap_or_clone).collect();
        if seed % 4 == 3 {
            for node in &mut cluster.nodes {
                node.gpu_type = Some(match node.gpu_type.as_deref() {
                    Some("a100") => "dgx-ext".into(),
                    Some("t4") => "rtx".into(),
                    _ => "aws".into(),
                });
            }
            train(seed, &mut jobs);
        }
        if seed % 3 == 1 {
            connect(seed, &mut cluster, &mut jobs);
        }
        let last = jobs.last().map_or(Time::ZERO, |job| job.submit);
        let mut simulation = Simulation::new(cluster)
            .seed(seed)
            .until(Until::Time(last + Seconds::new(ROUNDS * ROUND_S)));
        if seed & 4 == 0 {
            simulation = simulation.completion(Exact);
        }
        let delayed = seed & 1 == 1;
        if delayed {
            simulation = simulation.overheads(FixedOverheads {
                launch: Seconds::new(15.0),
                checkpoint: Seconds::new(10.0),
                restart: Seconds::new(20.0),
                migration: Seconds::new(70.0),
                ..FixedOverheads::default()
            });
        }
        World {
            seed,
            simulation,
            delayed,
            jobs,
        }
    }

    /// Returns a scheduler that leads the jobs into many situations.
    fn scheduler(&self) -> Result<Pipeline, String> {
        Composition::new("jumble")
            .scheduling(OnAnyLevel)
            .placement(Jumble { seed: self.seed })
            .in_rounds(Seconds::new(ROUND_S))
            .build()
            .map_err(|e| e.to_string())
    }

    fn run(
        &self,
        model: Box<dyn AnyExecution>,
        mut report: ModelReport,
    ) -> Result<ModelReport, Broken> {
        let simulation = self.simulation.clone().execution(model);
        let built = |error: String| Broken {
            property: ModelProperty::Reach,
            at: Time::ZERO,
            expected: "a case that can be run".to_owned(),
            found: error,
        };
        report.jobs += self.jobs.len() as u64;
        let mut jobs = Jobs::new(self.jobs.clone());
        let scheduler = self.scheduler().map_err(built)?;
        let mut stepper = Stepper::new(&simulation, scheduler, &mut jobs).map_err(ended)?;
        let mut watch = Watch::default();
        loop {
            let before = stepper.view().now();
            let step = stepper.step().map_err(ended)?;
            let is_later = stepper.view().now() > before || stepper.ended() == Some(Ended::Horizon);
            if let Some(stale) = watch.stale.take().filter(|_| is_later) {
                return Err(stale);
            }
            if step == Step::End {
                break;
            }
            watch.look(&stepper, &step, self.delayed, &mut report)?;
        }
        let step_by_step = stepper.report().jobs;
        let scheduler = self.scheduler().map_err(built)?;
        let mut jobs = Jobs::new(self.jobs.clone());
        let in_one_pass = simulation.run(scheduler, &mut jobs).map_err(ended)?.jobs;
        let mut pairs = step_by_step.into_iter().zip(in_one_pass);
        match pairs.find(|(a, b)| a != b) {
            None => Ok(report),
            Some((a, b)) => Err(Broken {
                property: ModelProperty::Determinism,
                at: a.finish.or(b.finish).unwrap_or_default(),
                expected: format!(
                    "job {} to end at the same time in two runs: at {:?}",
                    a.job, a.finish
                ),
                found: format!(
                    "{:?}: a rate depends on more than the view and the memory",
                    b.finish
                ),
            }),
        }
    }
}

/// Observations of a run.
#[derive(Default)]
struct Watch {
    /// A rate that is not true any more, unless another event of this moment updates it.
    stale: Option<Broken>,
    /// Running jobs that have shared no GPU since their launch.
    alone: BTreeSet<JobId>,
}

impl Watch {
    fn look(
        &mut self,
        stepper: &Stepper<'_>,
        step: &Step,
        delayed: bool,
        report: &mut ModelReport,
    ) -> Result<(), Broken> {
        let view = stepper.view();
        let at = view.now();
        let rates = stepper.rates();
        match step {
            Step::Event(_, Event::Started { job, .. }) => {
                report.launched(stepper, *job, delayed);
                self.alone.insert(*job);
            }
            Step::Event(_, Event::Progress { job, .. }) => {
                let follows = |r: &RunningRate| r.job == *job && r.again.is_some();
                let changed = rates.iter().any(follows);
                report.stretches += u64::from(!changed);
                report.changed += u64::from(changed);
                report.changed_elsewhere += u64::from(changed && self.alone.contains(job));
            }
            _ => {}
        }
        let cluster = view.cluster();
        let shares = |id: &JobId| {
            let bound = view.job(*id).and_then(|job| job.bound().cloned());
            let has_others = |gpu: &GpuId| cluster.bound_to(*gpu).count() > 1;
            bound.is_none_or(|bound| bound.gpus.iter().any(has_others))
        };
        self.alone.retain(|id| !shares(id));
        for (first, second) in rates.iter().zip(stepper.rates()) {
            let Some(again) = first.again else { continue };
            report.computed += 1;
            let broken = |property, expected: String, found: String| Broken {
                property,
                at,
                expected,
                found,
            };
            let job = first.job;
            if second.again.is_none_or(|s| s.to_bits() != again.to_bits()) {
                let expected = format!("job {job} to run at {again} with the same memory");
                let found = format!("{:?}", second.again);
                return Err(broken(ModelProperty::Determinism, expected, found));
            }
            if !again.is_finite() || again < 0.0 {
                let expected = format!("a finite rate of job {job}, at least 0");
                return Err(broken(ModelProperty::Rates, expected, again.to_string()));
            }
            if (again - first.rate).abs() > 1e-9 * again.max(first.rate) {
                let expected = format!("job {job} to run at {again} from now on");
                let found = format!(
                    "{}: the job is out of `reach`, or the rate changes with time without a `stretch`",
                    first.rate
                );
                self.stale = Some(broken(ModelProperty::Updates, expected, found));
            }
        }
        Ok(())
    }
}

/// Returns the broken rule for an error of the simulation.
fn ended(error: SimError) -> Broken {
    let (property, at) = match &error {
        SimError::Speed { at, .. } => (ModelProperty::Rates, *at),
        SimError::Policy { at, .. } | SimError::Event { at, .. } => (ModelProperty::Reach, *at),
        _ => (ModelProperty::Reach, Time::ZERO),
    };
    Broken {
        property,
        at,
        expected: "a finite rate above 0 at each launch, and at least 0 later".to_owned(),
        found: error.to_string(),
    }
}

/// Splits the nodes into small ones in racks and rows with links, and gives traffic to most jobs.
fn connect(seed: u64, cluster: &mut ClusterSpec, jobs: &mut [JobSpec]) {
    let r = &mut SplitMix::keyed(&[seed, 18]);
    let size = r.pick(&[1, 2]);
    let parts = cluster.nodes.iter().flat_map(|node| {
        let part = NodeSpec {
            name: None,
            gpus: size.min(node.gpus),
            links: Vec::new(),
            ..node.clone()
        };
        std::iter::repeat_n(part, node.gpus.div_ceil(size) as usize)
    });
    cluster.nodes = parts.collect();
    for node in &mut cluster.nodes {
        let row = r.pick(&["row-1", "row-2"]);
        let rack = r.pick(&["rack-1", "rack-2"]);
        node.location = vec![row.into(), rack.into()];
    }
    cluster.network = Network {
        node: r.pick(&[None, Some(40.0), Some(100.0)]),
        locations: vec![r.pick(&[40.0, 100.0]), r.pick(&[25.0, 100.0])],
    };
    for job in jobs {
        if r.chance(0.2) {
            continue;
        }
        let (gbps, length) = (r.pick(&[5.0, 20.0, 50.0]), r.pick(&[0.1, 0.2, 0.3]));
        let phases = [[gbps, 0.0], [0.0, gbps], [gbps, gbps]];
        let [first, second] = r.pick(&phases);
        let steps = [(Seconds::ZERO, first), (Seconds::new(length / 2.0), second)];
        let traffic = Curve::new(Seconds::new(length), steps);
        let extras = job.extras.get_or_insert_default();
        (extras.traffic, extras.communication) = (traffic, 0.0);
    }
}

/// Lets some of the jobs train a built-in application. No job has speeds of other types.
fn train(seed: u64, jobs: &mut [JobSpec]) {
    let all = built_in();
    let on_one_gpu = |app: &Application| {
        let mut types = app.types.values();
        types.all(|on| on.limits.stages == 1)
    };
    let models: Vec<&Name> = all
        .iter()
        .filter(|(_, app)| on_one_gpu(app))
        .map(|(name, _)| name)
        .collect();
    for (i, job) in jobs.iter_mut().enumerate() {
        let r = &mut SplitMix::keyed(&[seed, 17, i as u64]);
        let extras = job.extras.get_or_insert_default();
        extras.speeds = None;
        extras.gpu_types = Vec::new();
        if r.chance(0.6) && !models.is_empty() {
            extras.levels = Vec::new();
            extras.rates = Vec::new();
            extras.model = Some(r.pick(&models).clone());
            extras.batch_size = None;
            let adapts = r.pick(&[Adapts::All, Adapts::Gpus]);
            all.describe(job, adapts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::assignment::Assignment;
    use blox_core::job::{JobRef, Phase};
    use blox_core::policy::{Policy, Stateless};
    use blox_core::view::View;
    use blox_sim::execution::{Contention, FixedRate, Reach, Traffic, on_nodes_of, untrained};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The jobs of a node slow each other. The fields plant mistakes.
    #[derive(Clone, Copy)]
    struct Neighbours {
        reach: Reach,
        /// True if jobs that are still starting count.
        early: bool,
    }

    const RIGHT: Neighbours = Neighbours {
        reach: Reach::Nodes,
        early: false,
    };

    impl Stateless for Neighbours {}

    impl ExecutionModel for Neighbours {
        fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, on: &Assignment) -> f64 {
            let counts = |id: &JobId| {
                let phase = view.job(*id).map(|job| job.phase());
                phase == Some(Phase::Running) || self.early && phase == Some(Phase::Starting)
            };
            let near = on_nodes_of(view, &on.gpus);
            let others = near.iter().filter(|id| **id != job.id() && counts(id));
            job.own_rate() / (1.0 + 0.1 * others.count() as f64)
        }

        fn reach(&self) -> Reach {
            self.reach
        }
    }

    fn broken<M: ExecutionModel>(build: impl Fn(u64) -> M) -> ModelFailure {
        conformance_of_model(build).check().unwrap_err()
    }

    #[test]
    fn a_right_model_conforms() {
        let report = conformance_of_model(|_| RIGHT).check().unwrap();
        assert!(report.changed_elsewhere > 100, "{report}");
        let contention = |_| Contention::over(untrained(), 0.5);
        conformance_of_model(contention).check().unwrap();
    }

    #[test]
    fn a_model_of_too_narrow_a_reach_is_found() {
        let reach = Reach::Gpus;
        let failure = broken(|_| Neighbours { reach, ..RIGHT });
        assert_eq!(failure.property, ModelProperty::Updates);
        assert_eq!(failure.model, "Neighbours");
        assert!(failure.jobs < 5, "{failure}");
        assert!(failure.to_string().contains("out of `reach`"));
        let failure = broken(|_| Narrow(Traffic::over(untrained())));
        assert_eq!(failure.property, ModelProperty::Updates);
    }

    /// A model that denies its reach over links.
    struct Narrow<M>(M);

    blox_core::forward_policy!(Narrow<M: ExecutionModel>, 0);

    impl<M: ExecutionModel> ExecutionModel for Narrow<M> {
        fn rate(
            &self,
            memory: &mut Self::Memory,
            view: View<'_>,
            job: &JobRef<'_>,
            on: &Assignment,
        ) -> f64 {
            self.0.rate(memory, view, job, on)
        }

        fn reach(&self) -> Reach {
            Reach::Nodes
        }
    }

    #[test]
    fn links_derive_the_rates_of_all_jobs() {
        let traffic = |_| Traffic::over(Contention::over(untrained(), 0.5));
        let report = conformance_of_model(traffic).cases(120).check().unwrap();
        assert!(
            report.linked > 300 && report.changed_elsewhere > 300,
            "{report}"
        );
        // A wider reach than needed changes nothing.
        let reach = Reach::Links;
        conformance_of_model(|_| Neighbours { reach, ..RIGHT })
            .check()
            .unwrap();
    }

    #[test]
    fn a_rate_that_changes_between_starts_is_found() {
        let early = true;
        let failure = broken(|_| Neighbours { early, ..RIGHT });
        assert_eq!(failure.property, ModelProperty::Updates);
        // Only launches that take time show it.
        assert_eq!(failure.case % 2, 1);
    }

    /// A rate of the time, of a counter outside the memory, or of no job.
    struct Odd(fn(View<'_>, &JobRef<'_>) -> f64);

    impl Stateless for Odd {}

    impl ExecutionModel for Odd {
        fn rate(&self, (): &mut (), view: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
            (self.0)(view, job)
        }
    }

    #[test]
    fn a_rate_that_changes_with_time_is_found() {
        let failure = broken(|_| Odd(|view, _| 1.0 + view.now().secs()));
        assert_eq!(failure.property, ModelProperty::Updates);
    }

    #[test]
    fn a_rate_outside_of_the_memory_is_found() {
        static CALLS: AtomicU64 = AtomicU64::new(1);
        let failure = broken(|_| Odd(|_, _| CALLS.fetch_add(1, Ordering::Relaxed) as f64));
        assert_eq!(failure.property, ModelProperty::Determinism);
        // A value that a whole run keeps shows in the second run.
        let failure = conformance_of_model(|_| Kept::default()).check();
        assert_eq!(failure.unwrap_err().property, ModelProperty::Determinism);
    }

    /// Counts the runs outside of its memory.
    #[derive(Default)]
    struct Kept(AtomicU64);

    impl Policy for Kept {
        type Memory = u64;

        fn initial(&self, _: u64) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
    }

    impl ExecutionModel for Kept {
        fn rate(&self, runs: &mut u64, _: View<'_>, job: &JobRef<'_>, _: &Assignment) -> f64 {
            job.own_rate() / (1.0 + *runs as f64)
        }
    }

    #[test]
    fn invalid_rates_are_found() {
        for rate in [|| f64::NAN, || -1.0, || 0.0, || f64::INFINITY] {
            struct Of(fn() -> f64);
            impl Stateless for Of {}
            impl ExecutionModel for Of {
                fn rate(&self, (): &mut (), _: View<'_>, _: &JobRef<'_>, _: &Assignment) -> f64 {
                    (self.0)()
                }
            }
            assert_eq!(broken(|_| Of(rate)).property, ModelProperty::Rates);
        }
        let negative_beside = |view: View<'_>, job: &JobRef<'_>| match job.bound() {
            Some(on) if on.share.overlaps() && view.placed_count() > 1 => -1.0,
            _ => 1.0,
        };
        let failure = conformance_of_model(|_| Odd(negative_beside)).check();
        assert_eq!(failure.unwrap_err().property, ModelProperty::Rates);
    }

    #[test]
    fn panics_and_suites_without_a_launch_are_found() {
        let failure = broken(|_| Odd(|_, _| panic!("planted")));
        assert_eq!(failure.property, ModelProperty::Panic);
        assert_eq!(failure.found, "planted");
        let none = conformance_of_model(|_| FixedRate).cases(0).check();
        assert_eq!(none.unwrap_err().property, ModelProperty::Reach);
    }
}
