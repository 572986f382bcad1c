//! Checks of a case: it ends or states why not, and every account of it agrees.

use super::draw::Case;
use blox::core::journal::JsonLines;
use blox::core::replay::replay;
use blox::core::runtime::Observers;
use blox::core::{
    Extras, JobId, JobSpec, MetricCollector, Outcome, Pipeline, Plan, Reason, State, Time, View,
};
use blox::registry::Registry;
use blox::results::Summary;
use blox::sim::results::AssignmentRow;
use blox::sim::stepping::{Step, Stepper};
use blox::sim::workload::Jobs;
use blox::sim::{Ended, Report, Simulation, Until, Watch};
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// The rule that a case breaks, and the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    pub rule: &'static str,
    pub found: String,
}

fn broken<T>(rule: &'static str, found: impl Into<String>) -> Result<T, Broken> {
    let found = found.into();
    Err(Broken { rule, found })
}

/// Counts of what cases reached.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    pub completed: u64,
    pub rejected: u64,
    pub preemptions: u64,
    pub shared: u64,
    pub resized: u64,
    /// Assignments of services, and of parts of GPUs.
    pub served: u64,
    pub parts: u64,
    /// Stops of spot jobs within their guaranteed time.
    pub broken: u64,
    /// Jobs that did not end, by how the run ended and their reason.
    pub left: BTreeMap<String, u64>,
}

impl Reached {
    pub fn add(&mut self, other: &Reached) {
        self.completed += other.completed;
        self.rejected += other.rejected;
        self.preemptions += other.preemptions;
        self.shared += other.shared;
        self.resized += other.resized;
        self.served += other.served;
        self.parts += other.parts;
        self.broken += other.broken;
        for (why, count) in &other.left {
            *self.left.entry(why.clone()).or_default() += count;
        }
    }
}

/// The simulations of a case, so that they can be stopped.
#[derive(Clone, Default)]
pub struct Watched(Arc<Mutex<Vec<Arc<Watch>>>>);

impl Watched {
    fn watch(&self, simulation: &Simulation) -> Simulation {
        let watch = Arc::new(Watch::default());
        self.0.lock().expect("no panic").push(watch.clone());
        simulation.clone().watched_by(watch)
    }

    /// Returns the number of decisions of all simulations.
    pub fn decisions(&self) -> u64 {
        let all = self.0.lock().expect("no panic");
        let each = all
            .iter()
            .map(|watch| watch.decisions.load(Ordering::Relaxed));
        each.sum()
    }

    /// Stops all simulations.
    pub fn stop(&self) {
        for watch in self.0.lock().expect("no panic").iter() {
            watch.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs a case in every way, and compares the results. `None` if its components do not compose.
pub fn checked(
    case: &Case,
    registry: &Registry,
    watched: &Watched,
) -> Result<Option<Reached>, Broken> {
    let Ok(scheduler) = case.pipeline(registry) else {
        return Ok(None);
    };
    let guarded = AssertUnwindSafe(|| all_ways(case, registry, scheduler, watched));
    match catch_unwind(guarded) {
        Ok(result) => result.map(Some),
        Err(panic) => broken("no panic", blox::core::core::panic_message(&*panic)),
    }
}

fn all_ways(
    case: &Case,
    registry: &Registry,
    scheduler: Pipeline,
    watched: &Watched,
) -> Result<Reached, Broken> {
    let simulation = case.simulation(registry);
    let again = || case.pipeline(registry).expect("it composed before");

    // Every record, every collector, and a journal.
    let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
    let journal = Written::default();
    let observed = simulation
        .clone()
        .keep_timeline(true)
        .keep_waits(true)
        .assignments_to(Some(rows.clone()))
        .collector(Ledgers::default());
    let first = run(&watched.watch(&observed), scheduler, case, Some(&journal))?;
    let rows = std::mem::take(&mut *rows.lock().expect("no panic"));
    let ledgers = first.collected.get::<Ledgers>();
    if let Some(wrong) = ledgers.and_then(|l| l.wrong.clone()) {
        return broken("consistent ledgers", wrong);
    }
    explained(case, registry, &first, watched)?;
    accounted(case, &first, &rows)?;

    // Without records, on another thread.
    let plain = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(&watched.watch(&simulation), again(), case, None));
        other
            .join()
            .unwrap_or_else(|panic| broken("no panic", blox::core::core::panic_message(&*panic)))
    })?;
    equal(
        "the same results without records, on another thread",
        &first,
        &plain,
    )?;
    let every = simulation.clone().visiting_every_round(true);
    let visited = run(&watched.watch(&every), again(), case, None)?;
    equal(
        "the same results when every round is visited",
        &first,
        &visited,
    )?;
    let stepped = stepwise(&watched.watch(&simulation), again(), case)?;
    equal("the same results step by step", &first, &stepped)?;
    replayed(case, again(), &journal)?;

    let of = |outcome| first.jobs.iter().filter(move |j| j.outcome == outcome);
    let count = |of: &dyn Fn(JobId) -> bool| rows.iter().filter(|row| of(row.job)).count() as u64;
    let mut left = BTreeMap::new();
    for job in of(None) {
        let why = format!(
            "{:?}: {}",
            first.ended,
            job.reason_kind.as_ref().map_or("", |kind| kind.as_str())
        );
        *left.entry(why).or_default() += 1;
    }
    Ok(Reached {
        completed: of(Some(Outcome::Completed)).count() as u64,
        rejected: of(Some(Outcome::Rejected)).count() as u64,
        left,
        preemptions: first.counters.preemptions,
        shared: shared(&rows),
        served: count(&|job| case.jobs[job.index()].extras().need.is_some()),
        parts: rows.iter().filter(|row| !row.share.is_whole()).count() as u64,
        broken: Summary::of(&first).evictions.map_or(0, |e| e.broken),
        resized: rows
            .iter()
            .filter(|row| row.gpus.len() as u32 != case.jobs[row.job.index()].gpus.get())
            .count() as u64,
    })
}

fn run(
    simulation: &Simulation,
    scheduler: Pipeline,
    case: &Case,
    journal: Option<&Written>,
) -> Result<Report, Broken> {
    let journal = journal.map(|out| Box::new(JsonLines::new(out.clone())) as Box<_>);
    let jobs = &mut Jobs::new(case.jobs.clone());
    let report = simulation.run_journaled(scheduler, jobs, journal);
    report.or_else(|e| broken("no error", e.to_string()))
}

fn stepwise(simulation: &Simulation, scheduler: Pipeline, case: &Case) -> Result<Report, Broken> {
    let failed = |e: blox::sim::SimError| Broken {
        rule: "no error",
        found: e.to_string(),
    };
    let jobs = &mut Jobs::new(case.jobs.clone());
    let mut stepper = Stepper::new(simulation, scheduler, jobs).map_err(failed)?;
    while stepper.step().map_err(failed)? != Step::End {}
    Ok(stepper.report())
}

fn replayed(case: &Case, scheduler: Pipeline, journal: &Written) -> Result<(), Broken> {
    let lines = std::mem::take(&mut *journal.0.lock().expect("no panic"));
    let state = State::new(&case.cluster).expect("a sound cluster");
    let (trigger, mut observers) = (scheduler.trigger(), Observers::default());
    let scheduler = Box::new(scheduler);
    match replay(&lines[..], state, trigger, scheduler, &mut observers) {
        Ok(_) => Ok(()),
        Err(e) => broken("a journal that replays", e.to_string()),
    }
}

/// A journal in memory.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Checks the state after each plan, and keeps the reasons of the last one.
#[derive(Clone, Default)]
struct Ledgers {
    wrong: Option<String>,
    waits: BTreeMap<JobId, Reason>,
    otherwise: Reason,
}

impl Ledgers {
    /// Returns the job behind which a job waits, according to the last plan.
    fn head(&self, job: JobId) -> Option<JobId> {
        match self.waits.get(&job).unwrap_or(&self.otherwise) {
            Reason::BehindHead(head) => Some(*head).filter(|head| *head != job),
            _ => None,
        }
    }
}

impl MetricCollector for Ledgers {
    fn on_decision(&mut self, _: View<'_>, plan: &Plan) {
        self.waits = plan.waits.iter().cloned().collect();
        self.otherwise = plan.otherwise.clone();
    }

    fn on_launches(&mut self, view: View<'_>, _: &Plan) {
        if self.wrong.is_none() {
            let found = blox::testing::consistency(view).and_then(|()| within_nodes(view));
            self.wrong = found.err();
        }
    }
}

/// Checks that no node gives more CPUs or memory than it has.
fn within_nodes(view: View<'_>) -> Result<(), String> {
    for node in view.nodes() {
        let (cpus, memory) = (node.free_cpus(), node.free_memory_gib());
        let spec = node.spec();
        let over = |has: f64, left: f64| has > 0.0 && left < -1e-6 * has;
        if over(spec.cpus, cpus) || over(spec.memory_gib, memory) {
            let id = node.id();
            return Err(format!("node {id} has {cpus} CPUs and {memory} GiB left"));
        }
    }
    Ok(())
}

/// Checks that every job ended, or that the run and the job state why not.
fn explained(
    case: &Case,
    registry: &Registry,
    report: &Report,
    watched: &Watched,
) -> Result<(), Broken> {
    let ledgers = report.collected.get::<Ledgers>();
    let mut elsewhere = BTreeMap::new();
    let mut runs = |job: JobId| {
        let known = elsewhere.entry(job);
        *known.or_insert_with(|| runs_elsewhere(case, registry, (job, report.end), watched))
    };
    let rule = "a run that ends, or states why not";
    if report.jobs.len() != case.jobs.len() {
        let found = format!("{} rows of {} jobs", report.jobs.len(), case.jobs.len());
        return broken("a row for each job", found);
    }
    for job in &report.jobs {
        let reason = job.reason.as_deref().unwrap_or_default();
        if job.outcome == Some(Outcome::Rejected) && reason.is_empty() {
            return broken("a reason for each rejection", format!("job {}", job.job));
        }
        if job.outcome.is_some() {
            continue;
        }
        if report.ended == Ended::Finished {
            return broken(rule, format!("job {} is left in a finished run", job.job));
        }
        if reason.is_empty() {
            return broken(rule, format!("job {} waits without a reason", job.job));
        }
        // Crashes can cost all work of a job for ever; nothing else may. A job may wait behind one
        // that the nodes never hold for long enough.
        let head = ledgers.and_then(|ledgers| ledgers.head(job.job));
        if report.ended != Ended::NoProgress && head.is_none_or(&mut runs) && runs(job.job) {
            let found = format!(
                "job {} never ends ({reason}; {:?}), though another scheduler runs it",
                job.job, report.ended
            );
            return broken("no job waits for ever that another scheduler runs", found);
        }
    }
    Ok(())
}

/// Seconds without progress that end a simulation.
const STANDSTILL_S: f64 = 6e6;

/// Returns whether the job ends under FIFO on any free GPUs, alone in a world with the same faults
/// and the same cluster manager, and without costs. It has the time of the standstill: before and
/// after it, more nodes may be up at once than ever during it.
fn runs_elsewhere(
    case: &Case,
    registry: &Registry,
    (job, end): (JobId, Time),
    watched: &Watched,
) -> bool {
    let mut spec = case.jobs[job.index()].clone();
    let began = Time::new((end.secs() - STANDSTILL_S).max(0.0));
    spec.submit = spec.submit.max(began);
    let build = |name: &str| {
        let fifo = registry.schedulers.build(&"fifo".parse().ok()?, 0).ok()?;
        let place = registry.placement.build(&name.parse().ok()?, 0).ok()?;
        case.managed(fifo.with_placement(place).ok()?, registry)
            .ok()
    };
    ["first-free", "consolidated"].iter().any(|name| {
        let Some(fifo) = build(name) else {
            return false;
        };
        let alone = Simulation::new(case.cluster.clone())
            .faults(case.faults)
            .until(Until::Time(end));
        let report = watched
            .watch(&alone)
            .run(fifo, &mut Jobs::new(vec![spec.clone()]));
        report.is_ok_and(|r| r.jobs[0].outcome == Some(Outcome::Completed))
    })
}

/// Returns the most iterations a second that a job can do on the GPUs of a case.
fn fastest(case: &Case, job: &JobSpec) -> f64 {
    let none = Extras::default();
    let extras = job.extras.as_deref().unwrap_or(&none);
    let types = extras
        .speeds
        .iter()
        .flat_map(|s| s.types().map(|(_, rate)| rate));
    let levels = extras.rates.iter().copied();
    let best = types.chain(levels).fold(job.work.rate, f64::max);
    // With more CPUs and memory than it requests.
    let gain = extras.sensitivity.as_ref().map_or(1.0, |table| {
        let each = |amount: f64| match amount {
            0.0 => f64::INFINITY,
            amount => amount / f64::from(job.gpus.get()),
        };
        let asked = table.speed(each(extras.cpus), each(extras.memory_gib));
        table.speed(f64::INFINITY, f64::INFINITY) / asked
    });
    // A job without rates for its levels runs in proportion to its GPUs.
    let most = case.cluster.total_gpus() as f64 + 2.0 * f64::from(case.cluster.nodes[0].gpus);
    best * gain * (most / f64::from(job.gpus.get())).max(1.0)
}

/// Checks the ends, the service and the GPUs of all jobs.
fn accounted(case: &Case, report: &Report, rows: &[AssignmentRow]) -> Result<(), Broken> {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()));
    let mut ran = vec![0.0; case.jobs.len()];
    for row in rows {
        let width = row.gpus.len() as f64 * row.share.fraction();
        ran[row.job.index()] += (row.stop - row.start).secs() * width;
    }
    for (job, spec) in report.jobs.iter().zip(&case.jobs) {
        let ended = job.outcome.is_some();
        // Copies of a service run on while a change of its assignment takes time.
        let more = match spec.extras().need {
            Some(_) => job.attained_gpu.secs().min(ran[job.job.index()]),
            None => job.attained_gpu.secs(),
        };
        if ended && !near(ran[job.job.index()], more) {
            let found = format!(
                "job {} attained {} GPU-seconds, its assignments have {}",
                job.job,
                job.attained_gpu,
                ran[job.job.index()]
            );
            return broken("service as assigned", found);
        }
        let Some(finish) = job
            .finish
            .filter(|_| job.outcome == Some(Outcome::Completed))
        else {
            continue;
        };
        let took = (finish - job.submit).secs();
        let least = spec.work.iterations / fastest(case, spec);
        if took < least * (1.0 - 1e-9) - 1e-6 {
            let found = format!(
                "job {} took {took} s, at least {least} s are needed",
                job.job
            );
            return broken("no job is faster than possible", found);
        }
        if !(0.0..=took + 1e-6).contains(&job.attained.secs()) {
            let found = format!("job {} ran {} s in {took} s", job.job, job.attained);
            return broken("service within the completion time", found);
        }
    }
    if !(0.0..=1.0 + 1e-9).contains(&Summary::of(report).utilisation) {
        let found = Summary::of(report).utilisation.to_string();
        return broken("a utilisation of at most 1", found);
    }
    for row in &report.timeline {
        if row.busy_gpus > row.usable_gpus.max(installed(case)) + 1e-6 {
            let found = format!("{} busy GPUs at {} s", row.busy_gpus, row.time_s);
            return broken("a utilisation of at most 1", found);
        }
    }
    on_own_gpus(case, rows)
}

/// Returns the most GPUs that the cluster of a case can have.
fn installed(case: &Case) -> f64 {
    case.cluster.total_gpus() as f64 + 2.0 * f64::from(case.cluster.nodes[0].gpus)
}

/// Checks the type of each GPU, and that no GPU has more jobs at once than its node allows.
fn on_own_gpus(case: &Case, rows: &[AssignmentRow]) -> Result<(), Broken> {
    let nodes = &case.cluster.nodes;
    let node_of: Vec<usize> = (0..nodes.len())
        .flat_map(|n| std::iter::repeat_n(n, nodes[n].gpus as usize))
        .collect();
    let mut uses = vec![Vec::new(); node_of.len()];
    for row in rows {
        let spec = &case.jobs[row.job.index()];
        for gpu in &row.gpus {
            // Nodes that joined later are like the first.
            let node = &nodes[node_of.get(gpu.index()).copied().unwrap_or(0)];
            if let (Some(extras), Some(gpu_type)) = (&spec.extras, &node.gpu_type) {
                let accepted = extras.gpu_types.is_empty() || extras.gpu_types.contains(gpu_type);
                let alone = extras.speeds.as_ref().and_then(|s| s.alone(gpu_type));
                if !accepted || alone == Some(0.0) {
                    let found = format!("job {} on GPU {gpu} of type {gpu_type}", row.job);
                    return broken("GPUs of types that the job runs on", found);
                }
            }
            if let Some(uses) = uses.get_mut(gpu.index()) {
                uses.push((row.start, row.stop, row.job, row.share.fraction()));
            }
        }
    }
    for (gpu, uses) in uses.iter_mut().enumerate() {
        uses.sort_by_key(|used| used.0);
        for (i, (start, _, job, part)) in uses.iter().enumerate() {
            let before = || uses[..i].iter().filter(|used| used.1 > *start);
            let parts = part + before().map(|used| used.3).sum::<f64>();
            if before().count() >= MOST && parts > 1.0 + 1e-9 {
                let found = format!("GPU {gpu} at {start} s for job {job}, beside {MOST} others");
                return broken("no GPU is given twice", found);
            }
        }
    }
    Ok(())
}

/// The largest groups of schedulers that share GPUs: under `antman`, a guaranteed job joins five others
/// with a low load each.
const MOST: usize = 6;

/// Returns the number of assignments during which another job had one of the GPUs.
fn shared(rows: &[AssignmentRow]) -> u64 {
    let mut count = 0;
    for (i, row) in rows.iter().enumerate() {
        let beside = rows[..i].iter().rev().take(200).any(|other| {
            other.job != row.job
                && other.start < row.stop
                && row.start < other.stop
                && other.gpus.iter().any(|g| row.gpus.contains(g))
        });
        count += u64::from(beside);
    }
    count
}

fn equal(rule: &'static str, first: &Report, other: &Report) -> Result<(), Broken> {
    if first.ended != other.ended {
        return broken(rule, format!("{:?} and {:?}", first.ended, other.ended));
    }
    let pairs = first.jobs.iter().zip(&other.jobs);
    if let Some((a, b)) = pairs.clone().find(|(a, b)| a != b) {
        return broken(rule, format!("{a:?}\nand {b:?}"));
    }
    match first.jobs.len() == other.jobs.len() {
        true => Ok(()),
        false => broken(rule, "another number of jobs"),
    }
}
