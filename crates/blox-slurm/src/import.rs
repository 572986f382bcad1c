//! Queues of Slurm as workloads and clusters.

use crate::document::each;
use crate::error::SlurmError;
use crate::job::{JobInfo, JobState};
use crate::node::{Health, NodeInfo};
use crate::read::number;
use crate::spec::{is_marked, spec_of};
use crate::tasks::tasks;
use blox_core::{ClusterSpec, JobSpec, Name, Seconds, Time, Work};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A queue that cannot be a workload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The output of Slurm is not readable.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// No node has GPUs.
    #[error(
        "found {nodes} nodes without GPUs, expected `sinfo --json` of a cluster with `Gres=gpu:N`"
    )]
    NoGpus {
        /// Number of nodes.
        nodes: usize,
    },
    /// All nodes with GPUs are down or drained.
    #[error("found {nodes} nodes with GPUs that are down or drained, expected one that works")]
    NoneWorks {
        /// Number of nodes with GPUs.
        nodes: usize,
    },
    /// No node is in the partition.
    #[error("no node is in the partition `{partition}`, expected {known}")]
    Partition {
        /// The partition.
        partition: String,
        /// The partitions of the nodes.
        known: String,
    },
}

/// The part of a queue that becomes a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// Only nodes and jobs of this partition; `None` for all.
    pub partition: Option<String>,
    /// Also jobs that a user or an administrator holds. Held jobs of a scheduler of the toolkit
    /// always count.
    pub held: bool,
    /// Duration of a job without a time limit.
    pub without_limit: Seconds,
    /// Running jobs keep their whole duration, for [`Imported::begin`]. Otherwise they get the rest.
    pub whole: bool,
}

impl Default for Selection {
    fn default() -> Self {
        Selection {
            partition: None,
            held: false,
            without_limit: Seconds::new(3600.0),
            whole: false,
        }
    }
}

/// Nodes of a running job, and the time that it has run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// Time that it has run.
    pub ran: Seconds,
    /// Its nodes, each with a number of GPUs.
    pub on: Vec<(Name, u32)>,
}

/// Jobs and nodes of a Slurm, as files of the toolkit hold them.
///
/// ```
/// use blox_slurm::Imported;
/// use serde_json::json;
///
/// let jobs = json!({"jobs": [{"job_id": 7, "job_state": "PENDING", "state_reason": "Resources",
///     "submit_time": 1000, "time_limit": 60, "tres_per_node": "gres:gpu:2", "node_count": 2,
///     "user_name": "ada", "partition": "main", "priority": 5}]});
/// let nodes = json!({"nodes": [{"name": "a", "state": "idle", "gres": "gpu:v100:4"}]});
/// let imported = Imported::of(&jobs, &nodes, 1060.0)?;
/// assert_eq!(imported.jobs[0].gpus.get(), 4);
/// assert_eq!(imported.jobs[0].duration().secs(), 3600.0);
/// assert_eq!(imported.cluster.total_gpus(), 4);
/// # Ok::<(), blox_slurm::ImportError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// The jobs, which arrive at time 0, the time of the queue. Running jobs come first, then waiting
    /// jobs in order of submission. A job with a later begin arrives at that time.
    pub jobs: Vec<JobSpec>,
    /// Number of jobs at the start of the list that run.
    pub running: usize,
    /// Running time and GPUs by node of each running job.
    pub places: Vec<Place>,
    /// Time of the queue, in seconds of Unix time; 0 for a log.
    pub now: f64,
    /// The nodes that work.
    pub cluster: ClusterSpec,
    /// Jobs and nodes that are left out or changed, a sentence for each reason with its number.
    pub notices: Vec<String>,
}

impl Imported {
    /// Reads the output of `squeue --json` and `sinfo --json`, taken at `now` in seconds of Unix
    /// time. Jobs that run have their remaining time limit as their work.
    ///
    /// # Errors
    /// An output is not Slurm's, or no node has GPUs that work.
    pub fn of(jobs: &Value, nodes: &Value, now: f64) -> Result<Self, ImportError> {
        let (jobs, nodes) = (JobInfo::list(jobs)?, NodeInfo::list(nodes)?);
        Imported::of_lists(&jobs, &nodes, now, &Selection::default())
    }

    /// Reads the text of `squeue --json` and `sinfo --json`. Without `now`, the queue is of the time
    /// that it states, else of the latest time in it.
    ///
    /// # Errors
    /// See [`Imported::of`].
    pub fn read(
        squeue: &[u8],
        sinfo: &[u8],
        now: Option<f64>,
        which: &Selection,
    ) -> Result<Self, ImportError> {
        let (mut jobs, mut nodes, mut latest) = (Vec::new(), Vec::new(), 0);
        let stated = each("squeue", squeue, "jobs", |job| {
            let info = JobInfo::read(&job)?;
            let start = if info.has_gpus() { info.start } else { 0 };
            let seen = number(&job, "last_sched_evaluation").unwrap_or(0);
            latest = latest.max(info.submit).max(start).max(seen);
            jobs.push(info);
            Ok(())
        })?;
        each("sinfo", sinfo, "nodes", |node| {
            nodes.push(NodeInfo::read(&node)?);
            Ok(())
        })?;
        let stated = stated.filter(|at| *at > 0).unwrap_or(latest);
        let now = now.unwrap_or(stated as f64);
        Imported::of_lists(&jobs, &nodes, now, which)
    }

    /// Takes the selected jobs and nodes.
    ///
    /// # Errors
    /// No node has GPUs that work.
    pub fn of_lists(
        jobs: &[JobInfo],
        nodes: &[NodeInfo],
        now: f64,
        which: &Selection,
    ) -> Result<Self, ImportError> {
        let mut imported = Imported {
            now,
            ..Imported::default()
        };
        imported.take_nodes(nodes, which)?;
        imported.take_jobs(jobs, now, which);
        Ok(imported)
    }

    fn take_nodes(&mut self, nodes: &[NodeInfo], which: &Selection) -> Result<(), ImportError> {
        let known: BTreeSet<&Name> = nodes.iter().flat_map(|node| &node.partitions).collect();
        if let Some(partition) = &which.partition
            && !known.iter().any(|name| ***name == **partition)
        {
            let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
            return Err(ImportError::Partition {
                partition: partition.clone(),
                known: match known.is_empty() {
                    true => "nodes in partitions".to_owned(),
                    false => known.join(", "),
                },
            });
        }
        let mut out = Counts::default();
        let mut several = 0;
        for node in nodes {
            let has = |p: &String| node.partitions.iter().any(|name| **name == **p);
            if !which.partition.as_ref().is_none_or(has) {
                out.add("in another partition");
            } else if node.gpus == 0 {
                out.add("without GPUs");
            } else if node.health != Health::Up {
                out.add("down or not in contact with Slurm");
            } else if node.drained.is_some() {
                out.add("drained");
            } else {
                let mut spec = node.spec();
                match (&which.partition, &node.partitions[..]) {
                    (None, [one]) => spec.partition = Some(one.clone()),
                    (None, [_, _, ..]) => several += 1,
                    _ => {}
                }
                self.cluster.nodes.push(spec);
            }
        }
        if self.cluster.nodes.is_empty() {
            let with = nodes.iter().filter(|node| node.gpus > 0).count();
            return Err(match with {
                0 => ImportError::NoGpus { nodes: nodes.len() },
                nodes => ImportError::NoneWorks { nodes },
            });
        }
        let kept = self.cluster.nodes.iter().map(|node| &node.partition);
        if kept.collect::<BTreeSet<_>>().len() == 1 {
            // One partition is the whole cluster.
            for node in &mut self.cluster.nodes {
                node.partition = None;
            }
        }
        out.left_out("node", &mut self.notices);
        if several > 0 {
            let text = "nodes in several partitions serve jobs of all";
            self.notices.push(format!("{text}: {several}"));
        }
        Ok(())
    }

    fn take_jobs(&mut self, jobs: &[JobInfo], now: f64, which: &Selection) {
        let (mut out, mut changed) = (Counts::default(), Counts::default());
        let mut wrong: Option<String> = None;
        let (mut running, mut waiting) = (Vec::new(), Vec::new());
        let nodes = self.cluster.nodes.iter();
        let nodes: BTreeSet<Name> = nodes.filter_map(|node| node.name.clone()).collect();
        for job in jobs {
            let mut job = job.clone();
            if job.gpus == 0 && job.has_gpus() {
                job.gpus = job.on.iter().map(|(_, gpus)| gpus).sum();
            }
            let gone = job.has_gpus() && !job.on.iter().all(|(node, _)| nodes.contains(node));
            if gone {
                out.add("running on a node that is left out");
                continue;
            }
            if let Some(why) = left_out(&job, which) {
                out.add(why);
                continue;
            }
            let names = match names(&job) {
                Some(names) => names,
                None => {
                    out.add("arrays with more than 100,000 tasks, or with a list cut short");
                    continue;
                }
            };
            match imported(&job, now, which, &mut changed) {
                Ok(spec) => {
                    changed.add_all("tasks of arrays that count as jobs", names.len());
                    if job.is_array() && job.tasks.contains('%') {
                        changed.add("arrays whose limit of tasks at a time is not kept");
                    }
                    if job.has_gpus() {
                        let ran = Seconds::new(ran(&job, now));
                        let on = job.on.clone();
                        running.push((job.submit, spec, Place { ran, on }));
                    } else if names.is_empty() {
                        waiting.push((job.submit, spec));
                    } else {
                        waiting.extend(names.into_iter().map(|name| {
                            let spec = spec.clone().named(name);
                            (job.submit, spec)
                        }));
                    }
                }
                Err(why) => {
                    out.add("not readable");
                    wrong.get_or_insert(format!("Slurm job {}: {why}", job.id));
                }
            }
        }
        out.left_out("job", &mut self.notices);
        self.notices.extend(wrong);
        self.notices.extend(changed.texts());
        // Slurm numbers jobs in order of submission, and a sort keeps their order.
        running.sort_by_key(|(submit, ..)| *submit);
        waiting.sort_by_key(|(submit, spec)| (spec.submit, *submit));
        self.running = running.len();
        for (_, spec, place) in running {
            self.jobs.push(spec);
            self.places.push(place);
        }
        self.jobs.extend(waiting.into_iter().map(|(_, spec)| spec));
    }
}

/// Returns why a job is left out.
fn left_out(job: &JobInfo, which: &Selection) -> Option<&'static str> {
    let marked = is_marked(&job.comment);
    let partition = |p: &String| job.partition.split(',').any(|own| own == p);
    if !which.partition.as_ref().is_none_or(partition) {
        return Some("in another partition");
    }
    match job.state {
        JobState::Over(..) | JobState::Completing => Some("ended or ending"),
        _ if job.gpus == 0 => Some("without GPUs"),
        JobState::Held if !which.held && !marked => Some("held"),
        _ => None,
    }
}

/// Returns the names of the tasks of an array, empty for another job. `None` if the tasks are
/// unknown.
fn names(job: &JobInfo) -> Option<Vec<String>> {
    if !job.is_array() {
        return Some(Vec::new());
    }
    let all = tasks(&job.tasks)?;
    Some(
        all.iter()
            .map(|task| format!("{}_{task}", job.id))
            .collect(),
    )
}

/// Returns the time that a job with GPUs has run.
fn ran(job: &JobInfo, now: f64) -> f64 {
    match job.start {
        0 => 0.0,
        start => (now - start as f64).max(0.0),
    }
}

/// Returns a job with its remaining work. Counts what the workload does not keep.
fn imported(
    job: &JobInfo,
    now: f64,
    which: &Selection,
    changed: &mut Counts,
) -> Result<JobSpec, String> {
    let mut job = job.clone();
    if !is_marked(&job.comment) {
        job.comment.clear();
    }
    let states = |word: &str| job.comment.split_whitespace().any(|w| w.starts_with(word));
    let mut spec = spec_of(&job)?;
    spec.name = Some(match job.task {
        Some((array, task)) => Name::from(format!("{array}_{task}")),
        None => Name::from(job.id.to_string()),
    });
    let limit = job.limit_min.filter(|minutes| *minutes > 0);
    let mut duration = spec.duration().secs();
    if limit.is_none() && !states("duration=") {
        changed.add("jobs without a time limit, which get a default duration");
        duration = which.without_limit.secs();
    }
    let mut limit = limit.map(|minutes| minutes as f64 * 60.0);
    if which.whole && states("duration=") {
        // The comment is the user's estimate; Slurm ends the job at its limit.
        limit = Some(limit.map_or(duration, |limit| duration.min(limit)));
    }
    if job.has_gpus() && !which.whole {
        let ran = ran(&job, now);
        duration = (duration - ran).max(1.0);
        limit = limit.map(|limit| (limit - ran).max(1.0));
    }
    let rate = spec.work.rate;
    spec.work = Work {
        iterations: Work::lasting(Seconds::new(duration)).iterations * rate,
        rate,
    };
    // Slurm sets a later begin when it requeues a job, which then waits for its scheduler.
    let waits_for_scheduler = job.state == JobState::Held && is_marked(&job.comment);
    let begin = match job.has_gpus() || waits_for_scheduler {
        true => 0.0,
        false => (job.begin as f64 - now).max(0.0),
    };
    spec.submit = Time::new(begin);
    if let Some(extras) = &mut spec.extras {
        extras.user_estimate = limit.map(Seconds::new);
        for deadline in &mut extras.deadlines {
            deadline.at = Time::new((deadline.at.secs() - now).max(0.0));
        }
    }
    if job.partition.contains(',') {
        changed.add("jobs of several partitions, which run on nodes of all");
        spec.virtual_cluster = None;
    }
    if which.partition.is_some() {
        spec.virtual_cluster = None;
    }
    if !job.has_gpus() && !job.dependency.is_empty() {
        changed.add("jobs that wait for others, which the workload does not keep");
    }
    if begin > 0.0 && !which.whole {
        changed.add("jobs with a later begin, which arrive then");
    }
    if job.part_of.is_some() {
        changed.add("parts of heterogeneous jobs that count as jobs");
    }
    Ok(spec)
}

/// Numbers by reason.
#[derive(Default)]
pub(crate) struct Counts(BTreeMap<&'static str, usize>);

impl Counts {
    pub fn add(&mut self, why: &'static str) {
        self.add_all(why, 1);
    }

    fn add_all(&mut self, why: &'static str, number: usize) {
        if number > 0 {
            *self.0.entry(why).or_default() += number;
        }
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .map(|(why, number)| format!("{why}: {number}"))
    }

    pub fn left_out(&self, what: &str, notices: &mut Vec<String>) {
        for (why, number) in &self.0 {
            let plural = if *number == 1 { "" } else { "s" };
            notices.push(format!("left out {number} {what}{plural}: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nodes() -> Value {
        json!({"nodes": [
            {"name": "a", "state": "mixed", "gres": "gpu:v100:4", "partitions": ["main"]},
            {"name": "b", "state": "idle", "gres": "gpu:v100:4", "partitions": ["main", "long"]},
            {"name": "c", "state": "down*", "gres": "gpu:4", "partitions": ["main"]},
            {"name": "d", "state": ["IDLE", "DRAIN"], "gres": "gpu:4", "partitions": ["long"]},
            {"name": "e", "state": "idle", "gres": "", "partitions": ["main"]}
        ]})
    }

    /// A waiting job of two GPUs with a limit of an hour, and changes to it.
    fn job(id: u32, changes: Value) -> Value {
        let mut job = json!({
            "job_id": id, "job_state": "PENDING", "state_reason": "Resources", "priority": 5,
            "submit_time": 1000 + id, "time_limit": 60, "tres_per_node": "gres:gpu:2",
            "node_count": 1, "user_name": "ada", "partition": "main", "comment": "for later"
        });
        let (all, changes) = (job.as_object_mut().unwrap(), changes.as_object().unwrap());
        all.extend(changes.clone());
        job
    }

    fn import(jobs: &[Value], which: &Selection) -> Imported {
        let (jobs, nodes) = (json!({ "jobs": jobs }).to_string(), nodes().to_string());
        Imported::read(jobs.as_bytes(), nodes.as_bytes(), Some(2000.0), which).unwrap()
    }

    fn names(imported: &Imported) -> Vec<&str> {
        let names = imported.jobs.iter().map(|job| job.name.as_deref());
        names.map(Option::unwrap_or_default).collect()
    }

    #[test]
    fn jobs_on_nodes_that_are_left_out_are_left_out() {
        let runs = |node: &str| {
            json!({"job_state": "RUNNING", "start_time": 1500, "nodes": node,
                "gres_detail": ["gpu:2(IDX:0-1)"]})
        };
        let jobs = [job(1, runs("a")), job(2, runs("d"))];
        let imported = import(&jobs, &Selection::default());
        assert_eq!((imported.jobs.len(), imported.running), (1, 1));
        let notice = "left out 1 job: running on a node that is left out";
        assert!(imported.notices.iter().any(|text| text == notice));
    }

    #[test]
    fn requeued_job_of_a_scheduler_waits_now() {
        let held = json!({"state_reason": "JobHeldUser", "priority": 0, "comment": "blox duration=50",
            "start_time": 2120, "eligible_time": 2120});
        let whole = Selection {
            whole: true,
            ..Selection::default()
        };
        let imported = import(&[job(1, held)], &whole);
        assert_eq!(imported.jobs[0].submit, Time::ZERO);
        // The comment has the estimate, and the limit of an hour does not.
        let estimate = imported.jobs[0].extras().user_estimate;
        assert_eq!(estimate, Some(Seconds::new(50.0)));
    }

    #[test]
    fn running_jobs_come_first_with_their_rest() {
        let runs = json!({"job_state": "RUNNING", "start_time": 1400, "end_time": 5000});
        let over = json!({"job_state": ["RUNNING"], "start_time": 1400, "time_limit": 5});
        let all = [
            job(1, json!({})),
            job(2, runs),
            job(3, over),
            job(4, json!({"begin_time": 0, "eligible_time": 2600})),
            job(
                5,
                json!({"comment": "blox duration=100 deadline=1100", "priority": 0}),
            ),
        ];
        let imported = import(&all, &Selection::default());
        assert_eq!(names(&imported), ["2", "3", "1", "5", "4"]);
        assert_eq!(imported.running, 2);
        let (times, durations): (Vec<f64>, Vec<f64>) = (imported.jobs.iter())
            .map(|job| (job.submit.secs(), job.duration().secs()))
            .unzip();
        assert_eq!(times, [0.0, 0.0, 0.0, 0.0, 600.0]);
        assert_eq!(durations, [3000.0, 1.0, 3600.0, 100.0, 3600.0]);
        let estimate = |i: usize| imported.jobs[i].extras().user_estimate;
        assert_eq!(estimate(0), Some(Seconds::new(3000.0)));
        // Deadlines count from the submission, at 1005.
        let deadline = imported.jobs[3].extras().deadlines[0].at;
        assert_eq!(deadline.secs(), 105.0);
    }

    #[test]
    fn all_that_is_left_out_is_counted() {
        let all = [
            job(1, json!({"job_state": "COMPLETED"})),
            job(2, json!({"job_state": "COMPLETING"})),
            job(3, json!({"tres_per_node": ""})),
            job(4, json!({"priority": 0, "state_reason": "JobHeldUser"})),
            job(5, json!({"priority": 0, "comment": "blox duration=soon"})),
            job(6, json!({"array_task_string": "1,2,..."})),
            job(7, json!({"partition": "long"})),
        ];
        let main = Selection {
            partition: Some("main".to_owned()),
            ..Selection::default()
        };
        let imported = import(&all, &main);
        assert_eq!((imported.jobs.len(), imported.cluster.nodes.len()), (0, 2));
        assert_eq!(
            imported.notices,
            [
                "left out 1 node: down or not in contact with Slurm",
                "left out 1 node: in another partition",
                "left out 1 node: without GPUs",
                "left out 1 job: arrays with more than 100,000 tasks, or with a list cut short",
                "left out 2 jobs: ended or ending",
                "left out 1 job: held",
                "left out 1 job: in another partition",
                "left out 1 job: not readable",
                "left out 1 job: without GPUs",
                "Slurm job 5: the comment has `duration=soon`, expected seconds above 0",
            ]
        );
        let held = Selection { held: true, ..main };
        assert_eq!(names(&import(&all, &held)), ["4"]);
    }

    #[test]
    fn what_a_workload_does_not_keep_is_counted() {
        let all = [
            job(
                1,
                json!({"array_task_string": "2-8:3,9%2", "array_job_id": 1}),
            ),
            job(
                2,
                json!({"dependency": "afterok:1(unfulfilled)", "time_limit": null}),
            ),
            job(3, json!({"partition": "main,long", "het_job_id": 3})),
            job(
                4,
                json!({"job_state": "RUNNING", "array_job_id": 1, "array_task_id": 0,
                "start_time": 1990, "tres_per_node": "", "nodes": "a", "gres_detail": ["gpu:3"]}),
            ),
            job(
                5,
                json!({"tres_per_node": "", "tres_req_str": "cpu=1,gres/gpu=4,gres/gpu:v100=4"}),
            ),
        ];
        let which = Selection {
            without_limit: Seconds::new(900.0),
            ..Selection::default()
        };
        let imported = import(&all, &which);
        let expected = ["1_0", "1_2", "1_5", "1_8", "1_9", "2", "3", "5"];
        assert_eq!(names(&imported), expected);
        let gpus: Vec<u32> = imported.jobs.iter().map(|job| job.gpus.get()).collect();
        assert_eq!(gpus, [3, 2, 2, 2, 2, 2, 2, 4]);
        assert_eq!(imported.jobs[5].duration().secs(), 900.0);
        assert_eq!(imported.jobs[6].virtual_cluster, None);
        let partitions: Vec<_> = (imported.cluster.nodes.iter())
            .map(|node| node.partition.as_deref())
            .collect();
        assert_eq!(partitions, [Some("main"), None]);
        assert_eq!(
            imported.notices[3..],
            [
                "nodes in several partitions serve jobs of all: 1",
                "arrays whose limit of tasks at a time is not kept: 1",
                "jobs of several partitions, which run on nodes of all: 1",
                "jobs that wait for others, which the workload does not keep: 1",
                "jobs without a time limit, which get a default duration: 1",
                "parts of heterogeneous jobs that count as jobs: 1",
                "tasks of arrays that count as jobs: 4",
            ]
        );
    }

    #[test]
    fn time_of_a_queue_is_stated_or_its_latest() {
        let runs = json!({"job_state": "RUNNING", "start_time": 1400});
        let waits = json!({"last_sched_evaluation": 1600, "start_time": 9000});
        let mut jobs = json!({"jobs": [job(1, runs), job(2, waits)]});
        let rest = |jobs: &Value| {
            let (jobs, nodes) = (jobs.to_string(), nodes().to_string());
            let which = Selection::default();
            let read = Imported::read(jobs.as_bytes(), nodes.as_bytes(), None, &which);
            read.unwrap().jobs[0].duration().secs()
        };
        assert_eq!(rest(&jobs), 3400.0);
        jobs["last_update"] = json!({"set": true, "infinite": false, "number": 1500});
        assert_eq!(rest(&jobs), 3500.0);
    }

    #[test]
    fn a_cluster_without_working_gpus_is_refused() {
        let refused = |nodes: Value, partition: Option<&str>| {
            let which = Selection {
                partition: partition.map(str::to_owned),
                ..Selection::default()
            };
            let nodes = NodeInfo::list(&nodes).unwrap();
            let error = Imported::of_lists(&[], &nodes, 0.0, &which).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            refused(json!({"nodes": [{"name": "a", "state": "idle"}]}), None),
            "found 1 nodes without GPUs, expected `sinfo --json` of a cluster with `Gres=gpu:N`"
        );
        let down = json!({"nodes": [{"name": "a", "state": "down", "gres": "gpu:1"}]});
        assert_eq!(
            refused(down, None),
            "found 1 nodes with GPUs that are down or drained, expected one that works"
        );
        assert_eq!(
            refused(nodes(), Some("night")),
            "no node is in the partition `night`, expected long, main"
        );
    }
}
