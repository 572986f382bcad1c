//! A run in the trace format of Chrome, which Perfetto and `chrome://tracing` open.
//!
//! The process `GPUs` has threads for each node, and a slice for each job on it. Slices of a thread
//! may not overlap, so a node has as many threads as it had jobs at a time. The process `waiting jobs`
//! has a thread for each job, and a slice for each reason of its wait. Times are simulated: a second
//! of the simulation is a second of the trace. At most [`MOST_SLICES`] slices are written.

use blox_core::{ClusterSpec, Time};
use blox_sim::results::{AssignmentRow, WaitSpan, job_id};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};

/// The most slices of a trace, about 70 MB. Perfetto becomes slow with more.
pub const MOST_SLICES: u64 = 500_000;

/// The process of GPUs.
const GPUS: u32 = 1;
/// The process of waiting jobs.
const WAITS: u32 = 2;

/// Writes events while a simulation runs.
pub struct Chrome<W> {
    out: W,
    /// Name of each node.
    names: Vec<String>,
    /// The node of each GPU. A GPU of a node that joined later has no entry.
    nodes: Vec<u32>,
    /// For each node, the last end on each of its threads.
    lanes: BTreeMap<u32, Vec<(u64, Time)>>,
    /// Number of threads of nodes.
    threads: u64,
    waiting: BTreeSet<u32>,
    slices: u64,
    most: u64,
    left_out: u64,
    started: bool,
    error: Option<io::Error>,
}

impl<W: Write> Chrome<W> {
    /// Begins a trace of a run on a cluster.
    pub fn new(out: W, cluster: &ClusterSpec) -> Self {
        let (mut names, mut nodes) = (Vec::new(), Vec::new());
        for (i, node) in cluster.nodes.iter().enumerate() {
            let kind = node.gpu_type.as_deref();
            let kind = kind.map_or(String::new(), |kind| format!(" ({kind})"));
            let node_name = match &node.name {
                Some(name) => name.to_string(),
                None => format!("node {i}"),
            };
            names.push(node_name + &kind);
            nodes.extend((0..node.gpus).map(|_| i as u32));
        }
        let mut chrome = Chrome {
            out,
            names,
            nodes,
            lanes: BTreeMap::new(),
            threads: 0,
            waiting: BTreeSet::new(),
            slices: 0,
            most: MOST_SLICES,
            left_out: 0,
            started: false,
            error: None,
        };
        for (pid, name) in [(GPUS, "GPUs"), (WAITS, "waiting jobs")] {
            chrome.metadata("process_name", pid, 0, json!({ "name": name }));
            chrome.metadata("process_sort_index", pid, 0, json!({ "sort_index": pid }));
        }
        chrome
    }

    /// Writes a job on its GPUs, a slice for each node.
    pub fn ran(&mut self, row: &AssignmentRow) {
        let id = job_id(row.name.as_ref(), row.job);
        let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
        for gpu in &row.gpus {
            // Each GPU of a later node stands for itself.
            let alone = self.names.len() as u32 + gpu.0;
            let node = self.nodes.get(gpu.0 as usize).copied().unwrap_or(alone);
            *nodes.entry(node).or_default() += 1;
        }
        for (node, gpus) in nodes {
            if self.is_full() {
                continue;
            }
            let tid = self.lane(node, row.start, row.end);
            let args = format_args!(
                "\"job\":{},\"launch\":{},\"gpus\":{gpus},\"left\":{}",
                row.job.0,
                row.launch,
                Value::from(row.why)
            );
            self.slice((GPUS, tid), &id, (row.start, row.end), args);
        }
    }

    /// Writes a wait of a job.
    pub fn waited(&mut self, span: &WaitSpan) {
        if self.is_full() {
            return;
        }
        let tid = u64::from(span.job.0) + 1;
        if self.waiting.insert(span.job.0) {
            let id = job_id(span.name.as_ref(), span.job);
            self.thread(WAITS, tid, u64::from(span.job.0), &format!("job {id}"));
        }
        let args = format_args!("\"job\":{}", span.job.0);
        self.slice(
            (WAITS, tid),
            span.reason.as_str(),
            (span.from, span.to),
            args,
        );
    }

    /// Returns the number of slices beyond [`MOST_SLICES`].
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Counts a slice. Returns true if it is to be left out.
    fn is_full(&mut self) -> bool {
        let full = self.slices >= self.most;
        *(if full {
            &mut self.left_out
        } else {
            &mut self.slices
        }) += 1;
        full
    }

    /// Returns a thread of a node on which nothing else runs from `start` on. Slices come in order
    /// of their ends.
    fn lane(&mut self, node: u32, start: Time, end: Time) -> u64 {
        let lanes = self.lanes.entry(node).or_default();
        if let Some((tid, busy)) = lanes.iter_mut().find(|(_, busy)| *busy <= start) {
            *busy = end;
            return *tid;
        }
        self.threads += 1;
        let tid = self.threads;
        let lane = lanes.len();
        lanes.push((tid, end));
        let known = self.names.len();
        let mut name = match self.names.get(node as usize) {
            Some(name) => name.clone(),
            None => format!("GPU {}", node as usize - known),
        };
        if lane > 0 {
            name = format!("{name}, {}", lane + 1);
        }
        self.thread(GPUS, tid, u64::from(node) * 1024 + lane as u64, &name);
        tid
    }

    fn thread(&mut self, pid: u32, tid: u64, rank: u64, name: &str) {
        self.metadata("thread_name", pid, tid, json!({ "name": name }));
        self.metadata("thread_sort_index", pid, tid, json!({ "sort_index": rank }));
    }

    fn metadata(&mut self, name: &str, pid: u32, tid: u64, args: Value) {
        let event = json!({ "ph": "M", "name": name, "pid": pid, "tid": tid, "args": args });
        self.event(format_args!("{event}"));
    }

    fn slice(
        &mut self,
        (pid, tid): (u32, u64),
        name: &str,
        (from, to): (Time, Time),
        args: fmt::Arguments<'_>,
    ) {
        let micros = |s: f64| (s * 1e6).round() as i64;
        let (ts, dur) = (micros(from.secs()), micros((to - from).secs()));
        let name = Value::from(name);
        self.event(format_args!(
            "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"name\":{name},\
             \"args\":{{{args}}}}}"
        ));
    }

    fn event(&mut self, event: fmt::Arguments<'_>) {
        if self.error.is_some() {
            return;
        }
        let before = if self.started {
            ",\n"
        } else {
            "{\"traceEvents\":[\n"
        };
        self.started = true;
        self.error = write!(self.out, "{before}{event}").err();
    }

    /// Ends the trace and returns the first error, if any.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.out.write_all(b"\n],\"displayTimeUnit\":\"ms\"}\n")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blox_sim::Simulation;
    use blox_sim::workload::Jobs;
    use std::sync::{Arc, Mutex};

    /// Runs jobs under FIFO on one node of two GPUs. Returns the events of a trace of at most this
    /// number of slices, and the number of slices left out.
    fn traced(most: u64) -> (Vec<Value>, u64) {
        use blox_core::{Composition, GpuCount, JobSpec, Seconds, order::SortKey, policy::by_key};
        let job = |name: &str, gpus| {
            JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(600.0)).named(name)
        };
        let mut jobs = Jobs::new(vec![job("a", 2), job("b", 1)]);
        let mut cluster = ClusterSpec::uniform(1, 2);
        cluster.nodes[0].gpu_type = Some("v100".into());
        let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
        let waits = Arc::new(Mutex::new(Vec::<WaitSpan>::new()));
        let fifo = Composition::new("fifo").scheduling(by_key(|_| SortKey::by(0.0)));
        let fifo = fifo.placement(blox_testing::FirstFit).build().unwrap();
        let simulation = Simulation::new(cluster.clone())
            .assignments_to(Some(rows.clone()))
            .waits_to(Some(waits.clone()));
        simulation.run(fifo, &mut jobs).unwrap();
        let mut text = Vec::new();
        let mut chrome = Chrome::new(&mut text, &cluster);
        chrome.most = most;
        rows.lock().unwrap().iter().for_each(|row| chrome.ran(row));
        waits
            .lock()
            .unwrap()
            .iter()
            .for_each(|span| chrome.waited(span));
        chrome.finish().unwrap();
        let left_out = chrome.left_out();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        (trace["traceEvents"].as_array().unwrap().clone(), left_out)
    }

    #[test]
    fn jobs_and_waits_are_slices_of_two_processes() {
        let (events, _) = traced(MOST_SLICES);
        let slices = |pid: u32| -> Vec<(String, i64, i64)> {
            let of = events.iter().filter(|e| e["ph"] == "X" && e["pid"] == pid);
            let slice = |e: &Value| {
                let number = |key: &str| e[key].as_i64().unwrap();
                (
                    e["name"].as_str().unwrap().to_owned(),
                    number("ts"),
                    number("dur"),
                )
            };
            of.map(slice).collect()
        };
        let second = 600_000_000;
        let ran = [("a", 0), ("b", second)];
        let ran = ran.map(|(job, ts)| (job.to_owned(), ts, second));
        assert_eq!(slices(GPUS), ran);
        let waits = slices(WAITS);
        assert_eq!(waits.len(), 1, "{waits:?}");
        assert_eq!((waits[0].1, waits[0].2), (0, second));
        let names: Vec<&str> = events
            .iter()
            .filter(|e| e["name"] == "thread_name")
            .filter_map(|e| e["args"]["name"].as_str())
            .collect();
        assert_eq!(names, ["node 0 (v100)", "job b"]);
    }

    #[test]
    fn jobs_of_a_node_do_not_overlap() {
        let mut text = Vec::new();
        let mut chrome = Chrome::new(&mut text, &ClusterSpec::uniform(1, 1));
        let lanes = [(0.0, 50.0), (20.0, 60.0), (50.0, 90.0), (55.0, 95.0)]
            .map(|(start, end)| chrome.lane(0, Time::new(start), Time::new(end)));
        // The third slice starts when the first one ends, the fourth needs a thread of its own.
        assert_eq!(lanes, [1, 2, 1, 3]);
    }

    #[test]
    fn slices_beyond_the_limit_are_counted() {
        let (events, left_out) = traced(1);
        let slices = events.iter().filter(|e| e["ph"] == "X").count();
        assert_eq!((slices, left_out), (1, 2));
    }
}
