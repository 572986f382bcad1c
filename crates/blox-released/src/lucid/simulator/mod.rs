//! Lucid's released simulator (S-Lab-System-Group/Lucid, commit 653c85b) and the
//! baselines that it ships.
//!
//! The original walks each virtual cluster second by second. Its programs are kept
//! here as they decide, visited only in the seconds in which they can decide
//! anything, and [`Original`] makes a policy of each: jobs are placed GPU by GPU and
//! ended as the program says. In a simulation of it jobs end only through the scheduler
//! (`blox_sim`'s completion rule `ByScheduler`), and decisions fall whenever something
//! happens. Each virtual cluster is a simulation of its own, as it is there.
//!
//! What the programs do otherwise than the papers say:
//!
//! - Jobs of SRTF, Tiresias and Lucid run a second longer than they last: they are found
//!   ended in the second after.
//! - A job that was on the profiler starts from its submission in its virtual cluster,
//!   while it is still profiled, with all of its work: profiling is free. Said as two
//!   stages: a simulation of the [`profiler`] alone, and one of each virtual
//!   cluster with the jobs that the profiler did not end.
//! - The partner of a packed job that ends is looked for by comparing a number with a
//!   job, which always differ: the first job on the GPUs is found. A newcomer whose
//!   partner ends before it keeps the speed of the pair for ever ([`Lookup::First`]).
//! - QSSF orders by GPUs in a second in which nobody waits but those that just came.

mod blocking;
mod chronus;
mod forecast;
mod job;
mod nodes;
mod packed;
mod preemptive;
mod profiler;

pub use blocking::Blocking;
pub use chronus::{ChronusRecord, Leases, Objective, Planner};
pub use forecast::Forecast;
pub use job::{ESTIMATE, GPU_MEMORY, Record, SHARING_SCORE};
pub use nodes::Placer;
pub use packed::{Lookup, Packed};
pub use preemptive::Preemptive;
pub use profiler::{LeastGpusFirst, Scaling};

use blox_core::perf::PairTable;
use blox_core::{
    AdmissionPolicy, Assignment, Draft, DraftError, GpuId, GpuList, JobId, JobRef, NodeId, Outlook,
    Part, PlacementPolicy, Reason, Requests, RestoreError, SchedulingPolicy, Time, Verdicts, View,
};
use job::Job;
use nodes::Nodes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a program's step changed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    ended: Vec<u32>,
    stopped: Vec<u32>,
    started: Vec<Start>,
}

/// A job that starts: its GPUs as (node, GPU of the node), and the job whose they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Start {
    job: u32,
    gpus: Vec<(u32, u32)>,
    beside: Option<u32>,
}

impl Step {
    fn start(&mut self, job: u32, nodes: &Nodes, parts: &[nodes::Part], beside: Option<u32>) {
        let gpus = parts.iter().flat_map(|p| {
            let real = nodes.list[p.0].real;
            Nodes::gpus_of(*p).map(move |g| (real, g))
        });
        self.started.push(Start {
            job,
            gpus: gpus.collect(),
            beside,
        });
    }

    fn clear(&mut self) {
        self.ended.clear();
        self.stopped.clear();
        self.started.clear();
    }
}

mod sealed {
    use super::{Job, Step};
    use serde::{Deserialize, Serialize};

    /// One of the original's loops, run in the seconds that matter.
    pub trait Program: Clone + Send + Serialize + for<'a> Deserialize<'a> + 'static {
        /// What it writes down about a job that ended.
        type Record;

        /// What it wrote down, in order of ends.
        fn records(&self) -> &[Self::Record];

        /// The next second in which it does something even if no job comes in.
        fn due(&self) -> Option<i64>;

        /// The second `now`, with the jobs that come in in it.
        fn step(&mut self, now: i64, arrivals: &[Job], out: &mut Step);
    }
}
use sealed::Program;

/// A program of the original as an admission, scheduling and placement policy.
#[derive(Clone)]
pub struct Original<P> {
    program: P,
    arrivals: Vec<Job>,
    step: Step,
    last: Option<i64>,
    /// Seconds of one of its ticks.
    tick: f64,
}

/// `fifo` on `nodes` nodes of 8 GPUs.
pub fn fifo(nodes: u32, placer: Placer) -> Original<Blocking> {
    Original::of(Blocking::new(
        Nodes::new(nodes, 0, placer),
        blocking::Order::Submit,
    ))
}

/// `sjf`: the shortest job first, as it will really last.
pub fn sjf(nodes: u32, placer: Placer) -> Original<Blocking> {
    Original::of(Blocking::new(
        Nodes::new(nodes, 0, placer),
        blocking::Order::Duration,
    ))
}

/// `qssf`: quasi-shortest service first, by the estimate that each job brings
/// ([`ESTIMATE`]).
pub fn qssf(nodes: u32, placer: Placer) -> Original<Blocking> {
    Original::of(Blocking::new(
        Nodes::new(nodes, 0, placer),
        blocking::Order::Service,
    ))
}

/// `srtf`: shortest remaining time first, with preemption in every second.
pub fn srtf(nodes: u32, placer: Placer) -> Original<Preemptive> {
    Original::of(Preemptive::new(
        Nodes::new(nodes, 0, placer),
        preemptive::Rule::Remaining,
    ))
}

/// `tiresias`: two queues, divided at 18000 GPU-seconds, every minute.
pub fn tiresias(nodes: u32, placer: Placer) -> Original<Preemptive> {
    Original::of(Preemptive::new(
        Nodes::new(nodes, 0, placer),
        preemptive::Rule::Attained,
    ))
}

/// The profiler: jobs are run there until its limit, the smallest first. Give it the
/// jobs that it takes, as long as they last there. With a forecast of the GPUs that
/// jobs will ask for it adds a node to its `nodes` when its queue grows; the
/// simulated cluster then needs one node more.
pub fn profiler(
    nodes: u32,
    placer: Placer,
    forecast: Option<Forecast>,
) -> Original<LeastGpusFirst> {
    Original::of(LeastGpusFirst::new(Nodes::new(nodes, 1, placer), forecast))
}

/// What `lucid` needs beside jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PackedSettings {
    /// Nodes of the virtual cluster.
    pub nodes: u32,
    /// How free GPUs are chosen.
    pub placer: Placer,
    /// What the speeds of pairs are.
    pub pairs: std::sync::Arc<PairTable>,
    /// Jobs that will come in 10 minutes: none are packed while few will; `None` packs always.
    pub forecast: Option<Forecast>,
    /// What the profiler took from this virtual cluster and gave back.
    pub scaling: Vec<Scaling>,
    /// How the partner of a job that ends is found.
    pub lookup: Lookup,
    /// Whether jobs are found ended in the second after their last, as released.
    pub found_late: bool,
}

/// `lucid`, after the profiler. The simulated cluster needs as many nodes more as
/// there are entries in [`PackedSettings::scaling`].
pub fn lucid(settings: PackedSettings) -> Original<Packed> {
    let spare = settings.scaling.len() as u32;
    let nodes = Nodes::new(settings.nodes, spare, settings.placer);
    Original::of(Packed::new(nodes, settings))
}

/// Chronus (SoCC 2021, S-Lab-System-Group/ChronusArtifact) on `gpus` GPUs with leases
/// of so many minutes; its ticks are minutes. How many GPUs a node has changes nothing: only
/// counts do.
pub fn chronus(gpus: u32, lease_min: u32, planner: Planner) -> Original<Leases> {
    Original {
        tick: 60.0,
        ..Original::of(Leases::new(gpus, lease_min, planner))
    }
}

impl<P: Program> Original<P> {
    /// What became of the jobs that ended, in that order.
    pub fn records(&self) -> &[P::Record] {
        self.program.records()
    }

    fn of(program: P) -> Self {
        Original {
            program,
            arrivals: Vec::new(),
            step: Step::default(),
            last: None,
            tick: 1.0,
        }
    }

    fn catch_up(&mut self, view: View<'_>) {
        self.step.clear();
        let now = (view.now().secs() / self.tick).ceil() as i64;
        let due = self.program.due().is_some_and(|t| t <= now);
        if self.last != Some(now) && (due || !self.arrivals.is_empty()) {
            self.program.step(now, &self.arrivals, &mut self.step);
            self.arrivals.clear();
            self.last = Some(now);
        }
    }
}

impl Original<LeastGpusFirst> {
    /// Nodes that the profiler added and gave back.
    pub fn scalings(&self) -> &[Scaling] {
        self.program.scalings()
    }
}

impl<P: Program> Part for Original<P> {
    fn save(&self) -> Option<Value> {
        let memory = (&self.program, &self.arrivals, &self.step, self.last);
        serde_json::to_value(memory).ok()
    }

    fn restore(&mut self, memory: Value) -> Result<(), RestoreError> {
        (self.program, self.arrivals, self.step, self.last) = serde_json::from_value(memory)?;
        Ok(())
    }
}

impl<P: Program> AdmissionPolicy for Original<P> {
    fn admit(&mut self, view: View<'_>, asking: &[JobId], out: &mut Verdicts) -> Outlook {
        for &id in asking {
            if let Some(job) = view.job(id) {
                self.arrivals.push(Job::of(&job));
                out.accept(id);
            }
        }
        Outlook::Stable
    }
}

impl<P: Program> SchedulingPolicy for Original<P> {
    fn schedule(&mut self, view: View<'_>, out: &mut Requests) -> Outlook {
        self.catch_up(view);
        for &job in &self.step.ended {
            let at = view.now();
            out.finish(JobId(job), Reason::EndPlanned { at, exact: at });
        }
        let next = match (self.program.due(), self.last) {
            // Jobs that came in after this second's step.
            (_, Some(last)) if !self.arrivals.is_empty() => Some(last + 1),
            (due, _) => due,
        };
        match next {
            Some(at) => Outlook::Until(Time::new(at as f64 * self.tick)),
            None => Outlook::Stable,
        }
    }

    fn admission(&mut self) -> Option<&mut dyn AdmissionPolicy> {
        Some(self)
    }

    fn placement(&mut self) -> Option<&mut dyn PlacementPolicy> {
        Some(self)
    }
}

impl<P: Program> PlacementPolicy for Original<P> {
    fn place(&mut self, _: &mut Requests, draft: &mut Draft<'_>) -> Result<(), DraftError> {
        for &job in self.step.ended.iter().chain(&self.step.stopped) {
            if draft.current(JobId(job)).is_some() {
                draft.release(JobId(job), Reason::NotChosen)?;
            }
        }
        for start in &self.step.started {
            let cluster = draft.view().cluster();
            let gpus = start.gpus.iter();
            let gpus: Option<GpuList> = gpus
                .map(|(node, gpu)| cluster.node(NodeId(*node))?.gpu(*gpu))
                .collect::<Option<Vec<GpuId>>>()
                .map(GpuList::from_vec);
            let Some(gpus) = gpus else { continue };
            let assignment = Assignment {
                gpus,
                partner: start.beside.map(JobId),
                ..Assignment::default()
            };
            draft.assign(JobId(start.job), assignment)?;
        }
        Ok(())
    }

    fn can_ever_place(&self, _: View<'_>, _: &JobRef<'_>) -> Result<(), Reason> {
        Ok(())
    }
}
