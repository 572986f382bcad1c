//! Finish-time fairness.

use crate::results::{Contention, JobResult};
use crate::simulation::Simulation;
use crate::stepping::{Step, Stepper};
use crate::workload::{Jobs, Workload};
use crate::{SimError, Watch};
use blox_core::SortedMap;
use blox_core::{
    Adapts, ClusterSpec, GpuCount, JobSpec, Name, Network, NodeSpec, Pipeline, Seconds, Time,
    TrainingSpec,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Computes the finish-time fairness of jobs under a scheduler (Themis, NSDI 2020; over GPU types:
/// Sia, SOSP 2023, section 5.5, equation 3).
///
/// A job's *fair cluster* of a type has that type's GPUs divided by the job's mean contention: the
/// number of jobs in the system while the job was, itself included. On its fair cluster, under the
/// same scheduler, without other jobs and faults, the job needs its *fair time* from submission.
/// Its completion time divided by its fair time, averaged over the types by their numbers of GPUs,
/// is `rho`. Above 1, the job would have been better off with its own cluster.
///
/// Between whole numbers of GPUs, fair times are interpolated. If the share is below the job's
/// smallest number of GPUs, the job runs on that number, and takes longer in proportion. A share
/// above its largest number does not help. Types on which the job does not run, or with too few
/// GPUs, do not count.
///
/// ```
/// use blox_testing::FirstFit;
/// use blox_core::{order::SortKey, policy::by_key, ClusterSpec, Composition, GpuCount, JobSpec, OnEvent, Seconds, Time};
/// use blox_sim::{fairness::FairTimes, workload::Jobs, Simulation};
///
/// let fifo = Composition::new("fifo")
///     .trigger(OnEvent::default())
///     .scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
///     .placement(FirstFit)
///     .build()?;
/// let jobs = vec![JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(100.0)); 2];
/// let simulation = Simulation::new(ClusterSpec::uniform(1, 1));
/// let mut report = simulation.run(fifo.clone(), &mut Jobs::new(jobs.clone()))?;
/// FairTimes::of(&simulation, &fifo).judge(&mut Jobs::new(jobs), &mut report.jobs)?;
/// // Half of a GPU until the first ends; the second then has it alone.
/// let rho: Vec<_> = report.jobs.iter().filter_map(|j| j.rho).collect();
/// assert_eq!(rho, [100.0 / 200.0, 200.0 / 150.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FairTimes {
    simulation: Simulation,
    scheduler: Pipeline,
    types: Vec<Type>,
    /// Time of the first decision, and of the submission of jobs that are simulated alone.
    begin: Time,
    watch: Arc<Watch>,
    /// Known times: by specification of the job without its submission, then by index of the type
    /// and number of GPUs.
    known: SortedMap<String, SortedMap<(usize, u32), Option<f64>>>,
}

/// The GPUs of a type.
struct Type {
    name: Option<Name>,
    /// Its largest node.
    node: NodeSpec,
    all: u32,
}

/// Limits after which a job that runs alone counts as never ending: at least these seconds, and
/// this multiple of its specified duration.
const LONGEST: f64 = 100.0 * 86_400.0;
const TIMES: f64 = 100.0;

impl FairTimes {
    /// Creates a computation for a simulation's world and for a scheduler in its initial state.
    pub fn of(simulation: &Simulation, scheduler: &Pipeline) -> Self {
        let mut types: Vec<Type> = Vec::new();
        for node in &simulation.cluster().nodes {
            match types.iter_mut().find(|t| t.name == node.gpu_type) {
                Some(t) => {
                    t.all += node.gpus;
                    if node.gpus > t.node.gpus {
                        t.node = node.clone();
                    }
                }
                None => types.push(Type {
                    name: node.gpu_type.clone(),
                    node: node.clone(),
                    all: node.gpus,
                }),
            }
        }
        FairTimes {
            simulation: simulation.clone(),
            scheduler: scheduler.clone(),
            types,
            begin: scheduler.trigger().first_from(Time::ZERO, None),
            watch: Arc::default(),
            known: SortedMap::new(),
        }
    }

    /// Sets a watch that can stop the computation: [`FairTimes::judge`] then leaves jobs out.
    #[must_use]
    pub fn watched_by(mut self, watch: Arc<Watch>) -> Self {
        self.watch = watch;
        self
    }

    /// Sets [`JobResult::rho`] of each measured job that did all its work. `jobs` are the jobs of
    /// the simulation, from the first.
    ///
    /// # Errors
    /// The workload cannot be read, or a policy fails for a job that runs alone.
    pub fn judge(
        &mut self,
        jobs: &mut dyn Workload,
        results: &mut [JobResult],
    ) -> Result<(), SimError> {
        let contention = Contention::of(results);
        for result in results {
            let Some(job) = jobs.next_job()? else { break };
            if self.watch.stop.load(Ordering::Relaxed) {
                break;
            }
            let ended = result.jct().zip(result.finish);
            if let Some((took, finish)) = ended.filter(|_| result.measured) {
                let met = contention.between(result.submit.secs(), finish.secs());
                let fair = self.fair_time(&job, met)?;
                result.rho = fair.map(|fair| took.secs() / fair.secs());
            }
        }
        Ok(())
    }

    /// Returns the fair time of a job with a mean contention, itself included. It combines all
    /// types, such that a completion time divided by it is `rho`. Returns `None` if the job runs on
    /// no type.
    ///
    /// # Errors
    /// A policy failed.
    pub fn fair_time(
        &mut self,
        job: &JobSpec,
        contention: f64,
    ) -> Result<Option<Seconds>, SimError> {
        let first = self.scheduler.trigger().first_from(job.submit, None);
        let waits = (first - job.submit).secs().max(0.0);
        let alone = self.alone(job);
        // Results that depend only on the job are stored under its whole specification.
        let key = serde_json::to_string(&alone).unwrap_or_default();
        let (mut inverse, mut weights) = (0.0, 0.0);
        for t in 0..self.types.len() {
            if let Some(seconds) = self.on_type(&alone, &key, t, contention.max(1.0))? {
                let weight = f64::from(self.types[t].all);
                inverse += weight / (seconds + waits);
                weights += weight;
            }
        }
        let some = weights > 0.0 && inverse > 0.0;
        Ok(some.then(|| Seconds::new(weights / inverse)))
    }

    /// Returns the job as submitted to an empty cluster.
    fn alone(&self, job: &JobSpec) -> JobSpec {
        let mut job = job.clone();
        job.submit = self.begin;
        job.name = None;
        if let Some(extras) = &mut job.extras {
            // Deadlines are moments of the shared simulation.
            extras.deadlines.clear();
        }
        job
    }

    fn on_type(
        &mut self,
        job: &JobSpec,
        key: &str,
        t: usize,
        contention: f64,
    ) -> Result<Option<f64>, SimError> {
        let Type { name, all, .. } = &self.types[t];
        let Some((least, most)) = range(job, name.as_ref(), *all) else {
            return Ok(None);
        };
        let share = f64::from(*all) / contention;
        let within = share.clamp(f64::from(least), f64::from(most));
        let (low, part) = (within.floor() as u32, within.fract());
        let Some(mut takes) = self.takes(job, key, t, low)? else {
            return Ok(None);
        };
        if part > 0.0
            && let Some(more) = self.takes(job, key, t, low + 1)?
        {
            takes += part * (more - takes);
        }
        Ok(Some(takes * (f64::from(least) / share).max(1.0)))
    }

    /// Returns the completion time of the job alone on `gpus` GPUs of a type.
    fn takes(
        &mut self,
        job: &JobSpec,
        key: &str,
        t: usize,
        gpus: u32,
    ) -> Result<Option<f64>, SimError> {
        let known = self.known.get(key).and_then(|k| k.get(&(t, gpus)));
        if let Some(known) = known {
            return Ok(*known);
        }
        let network = &self.simulation.cluster().network;
        let cluster = fair_cluster(&self.types[t], gpus, network);
        let simulation = self.simulation.alone_on(cluster);
        let mut jobs = Jobs::new(vec![job.clone()]);
        let mut stepper = Stepper::new(&simulation, self.scheduler.clone(), &mut jobs)?;
        let longest = LONGEST.max(TIMES * job.duration().secs());
        let takes = loop {
            match stepper.step()? {
                Step::End => break stepper.report().jobs.first().and_then(JobResult::jct),
                Step::Decision(at) if (at - self.begin).secs() > longest => break None,
                _ => {}
            }
        };
        let takes = takes.map(Seconds::secs).filter(|s| *s > 0.0);
        let of_job = self.known.entry(key.to_owned()).or_default();
        of_job.insert((t, gpus), takes);
        Ok(takes)
    }
}

/// Returns a cluster of `gpus` GPUs of a type: whole nodes, and a smaller one with the rest.
fn fair_cluster(of: &Type, gpus: u32, network: &Network) -> ClusterSpec {
    let size = of.node.gpus.max(1);
    let node = |gpus: u32| {
        let part = f64::from(gpus) / f64::from(size);
        let mut node = of.node.clone();
        node.name = None;
        node.partition = None;
        node.gpus = gpus;
        node.cpus *= part;
        node.memory_gib *= part;
        node.links.retain(|l| l.a < gpus && l.b < gpus);
        node
    };
    let mut nodes = vec![node(size); (gpus / size) as usize];
    nodes.extend((!gpus.is_multiple_of(size)).then(|| node(gpus % size)));
    ClusterSpec {
        nodes,
        network: network.clone(),
        ..ClusterSpec::default()
    }
}

/// Returns the smallest and the largest number of GPUs of a type that a job runs on; `None` if it
/// does not run there.
fn range(job: &JobSpec, gpu_type: Option<&Name>, all: u32) -> Option<(u32, u32)> {
    let extras = job.extras();
    if !gpu_type.is_none_or(|name| extras.runs_on(name)) {
        return None;
    }
    let asked = job.gpus.get();
    let training: Option<&TrainingSpec> = extras.training.as_deref();
    let (least, most) = match (training, extras.levels.as_slice()) {
        (Some(training), _) => {
            let on = match gpu_type {
                Some(name) => training.on(name)?,
                None => training.types.values().next()?,
            };
            let levels = extras.levels.first().zip(extras.levels.last());
            let levels = levels.map(|(first, last)| (first.get(), last.get()));
            match training.adapts {
                Adapts::Nothing => (asked, asked),
                Adapts::Gpus => levels.unwrap_or((on.stages.min(asked), asked)),
                Adapts::All => levels.unwrap_or((on.stages, u32::MAX)),
            }
        }
        (None, [first, .., last]) => (first.get(), last.get()),
        (None, [GpuCount(one)]) => (*one, *one),
        (None, []) => (asked, asked),
    };
    (least <= all).then_some((least, most.min(all)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_core::{Composition, Extras, OnEvent, Rounds, order::SortKey, policy::by_key};
    use blox_perf::applications::built_in;
    use blox_testing::FirstFit;

    fn fifo(rounds: Option<f64>) -> Pipeline {
        let base = Composition::new("fifo");
        let base = match rounds.map(Seconds::new).and_then(Rounds::every) {
            Some(rounds) => base.trigger(rounds),
            None => base.trigger(OnEvent::default()),
        };
        base.scheduling(by_key(|job| SortKey::by(job.submit().secs())).valid_until_event())
            .placement(FirstFit)
            .build()
            .unwrap()
    }

    fn fair(cluster: &str, rounds: Option<f64>) -> FairTimes {
        FairTimes::of(&Simulation::new(cluster.parse().unwrap()), &fifo(rounds))
    }

    fn secs(fair: &mut FairTimes, job: &JobSpec, contention: f64) -> Option<f64> {
        let takes = fair.fair_time(job, contention).unwrap();
        takes.map(|t| (t.secs() * 1e9).round() / 1e9)
    }

    #[test]
    fn a_rigid_job_takes_longer_by_what_its_share_lacks() {
        let mut fair = fair("2x4", None);
        let job = JobSpec::new(Time::new(7.0), GpuCount(4), Seconds::new(100.0));
        assert_eq!(secs(&mut fair, &job, 1.0), Some(100.0));
        assert_eq!(secs(&mut fair, &job, 2.0), Some(100.0));
        assert_eq!(secs(&mut fair, &job, 5.0), Some(250.0));
        // More GPUs than the cluster has.
        let large = JobSpec::new(Time::ZERO, GpuCount(9), Seconds::new(100.0));
        assert_eq!(secs(&mut fair, &large, 1.0), None);
    }

    #[test]
    fn fair_time_of_a_job_that_takes_none_is_unknown() {
        let job = JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(0.0));
        assert_eq!(secs(&mut fair("1x4", None), &job, 1.0), None);
    }

    #[test]
    fn job_inside_a_round_waits_for_the_next_one_alone() {
        let mut fair = fair("1x4", Some(60.0));
        let job = |at| JobSpec::new(Time::new(at), GpuCount(4), Seconds::new(100.0));
        // The end is seen at the end of the second round.
        assert_eq!(secs(&mut fair, &job(60.0), 1.0), Some(120.0));
        assert_eq!(secs(&mut fair, &job(70.0), 1.0), Some(170.0));
        assert_eq!(fair.known.len(), 1);
    }

    #[test]
    fn types_are_averaged_by_their_gpus() {
        let mut fair = fair("1x4:slow,1x12:fast,1x2:old", None);
        let mut speeds = blox_core::TypeSpeeds::default();
        speeds.set("slow", 1.0);
        speeds.set("fast", 4.0);
        let extras = Extras {
            speeds: Some(Arc::new(speeds)),
            gpu_types: vec!["slow".into(), "fast".into()],
            ..Extras::default()
        };
        let job = JobSpec::new(Time::ZERO, GpuCount(2), Seconds::new(100.0)).with_extras(extras);
        // 4 slow GPUs, 12 fast ones: rho of 100 s is (4 * 1 + 12 * 4) / 16 = 3.25.
        assert_eq!(secs(&mut fair, &job, 1.0), Some(30.769_230_769));
        // A share of 1 and of 3 GPUs: alone on the slow ones, the job takes 200 s.
        assert_eq!(secs(&mut fair, &job, 4.0), Some(32.0));
    }

    #[test]
    fn jobs_differ_by_every_field() {
        let mut fair = fair("1x4", None);
        let job = |secs| {
            let extras = Extras {
                model: Some("resnet".into()),
                ..Extras::default()
            };
            JobSpec::new(Time::ZERO, GpuCount(1), Seconds::new(secs)).with_extras(extras)
        };
        assert_eq!(secs(&mut fair, &job(100.0), 1.0), Some(100.0));
        assert_eq!(secs(&mut fair, &job(200.0), 1.0), Some(200.0));
    }

    #[test]
    fn a_job_that_adapts_may_have_any_part_of_the_cluster() {
        let extras = Extras {
            model: Some("cifar10".into()),
            batch_size: Some(512),
            ..Extras::default()
        };
        let mut job = JobSpec::new(Time::ZERO, GpuCount(4), Seconds::new(1.0)).with_extras(extras);
        let of = |job: &JobSpec| range(job, Some(&"aws".into()), 24);
        assert!(built_in().describe(&mut job, Adapts::All));
        assert_eq!(of(&job), Some((1, 24)));
        assert!(built_in().describe(&mut job, Adapts::Gpus));
        assert_eq!(of(&job), Some((1, 4)));
        assert!(built_in().describe(&mut job, Adapts::Nothing));
        assert_eq!(of(&job), Some((4, 4)));
        assert_eq!(range(&job, Some(&"abacus".into()), 24), None);
    }

    #[test]
    fn a_fair_cluster_has_whole_nodes_and_a_rest() {
        let fair = fair("6x4:aws", None);
        let sizes = |gpus| -> Vec<u32> {
            let cluster = fair_cluster(&fair.types[0], gpus, &Network::default());
            cluster.nodes.iter().map(|n| n.gpus).collect()
        };
        assert_eq!(sizes(3), [3]);
        assert_eq!(sizes(8), [4, 4]);
        assert_eq!(sizes(9), [4, 4, 1]);
    }
}
