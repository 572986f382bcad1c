//! Settings of the original, and the corresponding run of the emulation.

use super::tally::Counts;
use crate::compared::{Case, VerifyError};
use crate::log::Log;
use crate::tiresias::quirks::{
    ClassQueues, DlasQueues, Joined, LowestRank, NodeSets, Samples, ShortestBy, dict_order,
};
use crate::tiresias::steps::Steps;
use crate::tiresias::{self, Scheme};
use blox_core::{
    Answer, ClusterSpec, JobId, JobQueue, JobRef, Pipeline, Policy, Reason, SchedulingPolicy,
    Shapes, SortedMap, Time, View, forward_policy,
};
use blox_traces::formats::tiresias::{read_cluster, read_rows, read_samples};
use std::path::PathBuf;

/// Kind of rows that a schedule writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Preemptive. Stops and starts are counted.
    Preemptive,
    /// Not preemptive. Starts are not counted.
    Lasting,
    /// Time slices, which are not counted.
    Slices,
    /// No jobs, only the demand over time.
    Demands,
}

pub(super) struct Settings {
    pub kind: Kind,
    pub trace: PathBuf,
    /// True if the original ended with an error.
    pub crashed: bool,
    /// Reason why the program cannot write a row with this schedule and scheme.
    pub crash: Option<&'static str>,
    schedule: String,
    scheme: String,
    cluster: PathBuf,
}

/// A run to simulate.
pub(super) struct Run {
    pub pipeline: Pipeline,
    pub cluster: ClusterSpec,
    pub completion: Option<Steps>,
    pub memory: Log<Jobs>,
}

impl Settings {
    pub fn of(case: &Case) -> Result<Self, VerifyError> {
        let options = case.options()?;
        // A setting of `summary.json` comes before the same option of the command.
        let need = |setting: &str, option: &str| -> Result<String, VerifyError> {
            let set = case.text_if_there(setting)?;
            let value = set
                .map(str::to_owned)
                .or_else(|| options.get(option).cloned());
            value.ok_or_else(|| {
                let what =
                    format!("`{option}` is missing, expected it or a command with --{option}=");
                case.bad("summary.json", what)
            })
        };
        let schedule = need("schedule", "schedule")?;
        let scheme = need("scheme", "scheme")?;
        let file = |name: String| case.input(name.rsplit('/').next().unwrap_or(&name));
        let kind = match schedule.as_str() {
            "sjf" | "shortest" | "shortest-gpu" | "shortest-expected" | "gittins" => {
                Kind::Preemptive
            }
            name if name.starts_with("dlas") && dlas(name).is_some() => Kind::Preemptive,
            "multi-dlas-gpu" => Kind::Preemptive,
            "gandiva" => Kind::Slices,
            "gpu-demands" => Kind::Demands,
            _ => Kind::Lasting,
        };
        let crashed = case.number("rc")?.is_some_and(|rc| rc != 0.0);
        let releases = !(schedule.starts_with("dlas") || schedule == "multi-dlas-gpu");
        let crash = match scheme.as_str() {
            _ if schedule == "gittins" => Some("its samples are never stored"),
            "random" | "crandom" if releases => Some("it fails to give GPUs back at the first end"),
            _ => None,
        };
        Ok(Settings {
            kind,
            trace: file(need("trace", "trace_file")?)?,
            cluster: file(need("cluster_spec", "cluster_spec")?)?,
            crashed,
            crash,
            schedule,
            scheme,
        })
    }

    /// Returns the scheduler, its cluster and its other settings.
    pub fn run(&self, case: &Case) -> Result<Run, VerifyError> {
        // In the order of the file, which may differ from the order of submission.
        let jobs = read_rows(&self.trace)?;
        let sizes: Vec<u32> = jobs.iter().map(|job| job.gpus.get()).collect();
        let arrivals: Vec<Time> = jobs.iter().map(|job| job.submit).collect();
        let mut cluster = read_cluster(&self.cluster)?;
        let scheme = match self.scheme.as_str() {
            "count" | "random" | "crandom" | "gandiva" => Scheme::Count,
            "greedy" => {
                // Schedules that count GPUs themselves ignore the scheme.
                if !self.counts_gpus() {
                    cluster = tiresias::unlimited(sizes.iter().copied());
                }
                Scheme::Count
            }
            "balance" => Scheme::Balance,
            _ => Scheme::Yarn,
        };
        let samples = || -> Result<Samples, VerifyError> {
            let path = case.input("yarn-gput1000.csv")?;
            let samples = Samples::of(read_samples(&path)?.into_iter().map(i64::from));
            let what = "found no sample, expected one above 0";
            samples.ok_or_else(|| VerifyError::bad(&path, what))
        };
        let memory = Log::<Jobs>::default();
        let mut completion = None;
        let pipeline = match self.schedule.as_str() {
            "fjf" => tiresias::fjf(scheme),
            "lpjf" => tiresias::lpjf(scheme),
            "sjf" => tiresias::shortest(ShortestBy::Gpus, scheme),
            "shortest" => tiresias::shortest(ShortestBy::Remaining, scheme),
            "shortest-gpu" => tiresias::shortest(ShortestBy::RemainingGpu, scheme),
            "shortest-expected" => tiresias::shortest(ShortestBy::Expected(samples()?), scheme),
            "gittins" => tiresias::counted("gittins", LowestRank::new(samples()?)),
            "multi-dlas-gpu" => {
                let last = arrivals.iter().copied().max().unwrap_or(Time::ZERO);
                let policy = ClassQueues::new(&dict_order(sizes.iter().copied()), last);
                let policy = Kept::of(policy, &memory, |p, m| {
                    for job in p.blinks() {
                        m.entry(*job).or_default().blinks += 1;
                    }
                });
                tiresias::counted("multi-dlas-gpu", policy)
            }
            "gandiva" => {
                let steps = Steps::between(arrivals);
                completion = Some(steps.clone());
                let policy = Kept::of(NodeSets, &memory, |p, m| {
                    for (job, joined) in p.joined() {
                        m.entry(job).or_default().joined = Some(joined);
                    }
                });
                tiresias::gandiva(policy, steps)
            }
            "gpu-demands" => {
                cluster = tiresias::unlimited(sizes.iter().copied());
                tiresias::fifo(Scheme::Count)
            }
            name => match dlas(name) {
                Some((mut policy, ranked)) => {
                    if ranked {
                        policy = policy.ranked_by(samples()?);
                    }
                    let policy = Kept::of(policy, &memory, |p, m| {
                        for (job, promotions) in p.promotions() {
                            m.entry(job).or_default().promotions = promotions;
                        }
                    });
                    tiresias::counted(name, policy)
                }
                // The program runs `fifo` for an unknown name.
                None => tiresias::fifo(scheme),
            },
        };
        Ok(Run {
            pipeline,
            cluster,
            completion,
            memory,
        })
    }

    /// Returns the numbers of waiting, running and ended jobs as the program logs them.
    ///
    /// `multi-dlas-gpu` does not log ends, so an ended job keeps its last state. `dlas-gpu-pack`
    /// may log an end as an error.
    pub fn as_logged(&self, jobs: Counts) -> [Option<u32>; 3] {
        let Counts {
            waiting,
            running,
            ended,
            ended_waiting,
        } = jobs;
        match self.schedule.as_str() {
            "multi-dlas-gpu" => {
                let ran = ended - ended_waiting;
                [Some(waiting + ended_waiting), Some(running + ran), Some(0)]
            }
            "dlas-gpu-pack" => [Some(waiting), Some(running), None],
            _ => [Some(waiting), Some(running), Some(ended)],
        }
    }

    fn counts_gpus(&self) -> bool {
        dlas(&self.schedule).is_some() || self.schedule == "gittins"
    }
}

/// Returns a schedule of the `dlas` family, and true if it ranks jobs by samples.
fn dlas(name: &str) -> Option<(DlasQueues, bool)> {
    let queues = |by_gpus| DlasQueues::new(DlasQueues::LIMITS, by_gpus);
    match name {
        "dlas" => Some((queues(false), false)),
        // Jobs never share a GPU, as every model fills the memory of one.
        "dlas-gpu" | "dlas-gpu-pack" => Some((queues(true), false)),
        "dlas-gpu-gittins" => Some((queues(true), true)),
        "dlas-gpu-05" => Some((queues(true).promoting(0.5), false)),
        _ => {
            // With a knob, the program does not recognize the name and ranks nothing.
            let gittins = name.strip_prefix("dlas-gpu-gittins-");
            let (knob, known): (_, &[u32]) = match gittins {
                Some(knob) => (knob, &[1, 2, 4, 8]),
                None => (
                    name.strip_prefix("dlas-gpu-")?,
                    &[1, 2, 4, 8, 10, 100, 1000],
                ),
            };
            let knob = known.iter().find(|k| k.to_string() == knob)?;
            Some((queues(true).promoting(f64::from(*knob)), false))
        }
    }
}

/// State that a policy keeps about a job in addition to its events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Remembered {
    pub promotions: u32,
    pub blinks: u32,
    pub joined: Option<Joined>,
}

pub(super) type Jobs = SortedMap<JobId, Remembered>;

/// A policy that copies parts of its memory after each decision.
struct Kept<P: Policy> {
    policy: P,
    memory: Log<Jobs>,
    read: fn(&P::Memory, &mut Jobs),
}

impl<P: Policy> Kept<P> {
    fn of(policy: P, memory: &Log<Jobs>, read: fn(&P::Memory, &mut Jobs)) -> Self {
        Kept {
            policy,
            memory: memory.clone(),
            read,
        }
    }
}

forward_policy!(Kept<P: Policy>, policy);

impl<P: SchedulingPolicy> SchedulingPolicy for Kept<P> {
    fn schedule(&self, memory: &mut P::Memory, view: View<'_>, out: &mut JobQueue) -> Answer {
        let validity = self.policy.schedule(memory, view, out)?;
        self.memory.with(|jobs| (self.read)(memory, jobs));
        Ok(validity)
    }

    fn could_request(&self, view: View<'_>, job: &JobRef<'_>) -> Result<Shapes, Reason> {
        self.policy.could_request(view, job)
    }

    fn keeps_nodes(&self, nodes: u32) -> bool {
        self.policy.keeps_nodes(nodes)
    }
}
