//! A run in the trace format of Chrome, which Perfetto and `chrome://tracing` open.
//!
//! The process `GPUs` has a thread for each GPU, and a slice for each job on it. The process
//! `waiting jobs` has a thread for each job, and a slice for each reason of its wait. A GPU with
//! several jobs at a time has several threads, since slices of a thread may not overlap. Times are
//! simulated: a second of the simulation is a second of the trace.

use blox_core::{ClusterSpec, Time};
use blox_sim::results::{AssignmentRow, WaitSpan, job_id};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// The process of GPUs.
const GPUS: u32 = 1;
/// The process of waiting jobs.
const WAITS: u32 = 2;

/// Writes events while a simulation runs.
pub(super) struct Chrome<W> {
    out: W,
    /// Name of each GPU.
    names: Vec<String>,
    /// For each GPU, the last end on each of its threads.
    lanes: BTreeMap<u32, Vec<(u64, Time)>>,
    /// Number of threads of GPUs.
    threads: u64,
    waiting: BTreeSet<u32>,
    started: bool,
    error: Option<io::Error>,
}

impl<W: Write> Chrome<W> {
    pub fn new(out: W, cluster: &ClusterSpec) -> Self {
        let mut names = Vec::new();
        for (i, node) in cluster.nodes.iter().enumerate() {
            let kind = node.gpu_type.as_deref();
            let kind = kind.map_or(String::new(), |kind| format!(" ({kind})"));
            let node_name = match &node.name {
                Some(name) => name.to_string(),
                None => format!("node {i}"),
            };
            names.extend((0..node.gpus).map(|gpu| format!("{node_name} GPU {gpu}{kind}")));
        }
        let mut chrome = Chrome {
            out,
            names,
            lanes: BTreeMap::new(),
            threads: 0,
            waiting: BTreeSet::new(),
            started: false,
            error: None,
        };
        for (pid, name) in [(GPUS, "GPUs"), (WAITS, "waiting jobs")] {
            chrome.metadata("process_name", pid, 0, json!({ "name": name }));
            chrome.metadata("process_sort_index", pid, 0, json!({ "sort_index": pid }));
        }
        chrome
    }

    /// Writes a job on its GPUs.
    pub fn ran(&mut self, row: &AssignmentRow) {
        let id = job_id(row.name.as_ref(), row.job);
        for gpu in &row.gpus {
            let tid = self.lane(gpu.0, row.start, row.end);
            let args = json!({
                "job": row.job.0, "launch": row.launch, "gpus": row.gpus.len(), "left": row.why,
                "placed_s": row.placed.secs(),
            });
            self.slice((GPUS, tid), (&id, "job"), (row.start, row.end), args);
        }
    }

    /// Writes a wait of a job.
    pub fn waited(&mut self, span: &WaitSpan) {
        let id = job_id(span.name.as_ref(), span.job);
        let tid = u64::from(span.job.0) + 1;
        if self.waiting.insert(span.job.0) {
            self.thread(WAITS, tid, u64::from(span.job.0), &format!("job {id}"));
        }
        let args = json!({ "job": span.job.0, "job_id": id });
        let reason = span.reason.as_str();
        self.slice((WAITS, tid), (reason, "wait"), (span.from, span.to), args);
    }

    /// Returns a thread of a GPU on which nothing else runs from `start` on. Slices come in order
    /// of their ends.
    fn lane(&mut self, gpu: u32, start: Time, end: Time) -> u64 {
        let lanes = self.lanes.entry(gpu).or_default();
        if let Some((tid, busy)) = lanes.iter_mut().find(|(_, busy)| *busy <= start) {
            *busy = end;
            return *tid;
        }
        self.threads += 1;
        let tid = self.threads;
        let lane = lanes.len();
        lanes.push((tid, end));
        let name = self.names.get(gpu as usize).cloned();
        let mut name = name.unwrap_or_else(|| format!("GPU {gpu}"));
        if lane > 0 {
            name = format!("{name}, beside");
        }
        self.thread(GPUS, tid, u64::from(gpu) * 16 + lane as u64, &name);
        tid
    }

    fn thread(&mut self, pid: u32, tid: u64, rank: u64, name: &str) {
        self.metadata("thread_name", pid, tid, json!({ "name": name }));
        self.metadata("thread_sort_index", pid, tid, json!({ "sort_index": rank }));
    }

    fn metadata(&mut self, name: &str, pid: u32, tid: u64, args: Value) {
        self.event(&json!({ "ph": "M", "name": name, "pid": pid, "tid": tid, "args": args }));
    }

    fn slice(
        &mut self,
        (pid, tid): (u32, u64),
        (name, kind): (&str, &str),
        (from, to): (Time, Time),
        args: Value,
    ) {
        let micros = |s: f64| (s * 1e6).round() as i64;
        let (ts, dur) = (micros(from.secs()), micros((to - from).secs()));
        self.event(&json!({
            "ph": "X", "name": name, "cat": kind, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": args,
        }));
    }

    fn event(&mut self, event: &Value) {
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
    use blox_core::GpuId;
    use blox_sim::Simulation;
    use blox_sim::workload::Jobs;
    use std::sync::{Arc, Mutex};

    /// Runs jobs under FIFO on one node of two GPUs and returns the events of the trace.
    fn events() -> Vec<Value> {
        use blox_core::{GpuCount, JobSpec, Seconds};
        let job = |name: &str, gpus| {
            JobSpec::new(Time::ZERO, GpuCount(gpus), Seconds::new(600.0)).named(name)
        };
        let mut jobs = Jobs::new(vec![job("a", 2), job("b", 1)]);
        let mut cluster = ClusterSpec::uniform(1, 2);
        cluster.nodes[0].gpu_type = Some("v100".into());
        let rows = Arc::new(Mutex::new(Vec::<AssignmentRow>::new()));
        let waits = Arc::new(Mutex::new(Vec::<WaitSpan>::new()));
        let registry = blox_schedulers::registry();
        let spec = "fifo".parse().unwrap();
        let fifo = registry.schedulers.build(&spec, 1).unwrap();
        let simulation = Simulation::new(cluster.clone())
            .assignments_to(Some(rows.clone()))
            .waits_to(Some(waits.clone()));
        simulation.run(fifo, &mut jobs).unwrap();
        let mut text = Vec::new();
        let mut chrome = Chrome::new(&mut text, &cluster);
        rows.lock().unwrap().iter().for_each(|row| chrome.ran(row));
        waits
            .lock()
            .unwrap()
            .iter()
            .for_each(|span| chrome.waited(span));
        chrome.finish().unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn jobs_and_waits_are_slices_of_two_processes() {
        let events = events();
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
        let ran = [("a", 0), ("a", 0), ("b", second)];
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
        assert_eq!(
            names,
            ["node 0 GPU 0 (v100)", "node 0 GPU 1 (v100)", "job b"]
        );
    }

    #[test]
    fn jobs_on_a_shared_gpu_do_not_overlap() {
        let mut text = Vec::new();
        let mut chrome = Chrome::new(&mut text, &ClusterSpec::uniform(1, 1));
        let lanes = [(0.0, 50.0), (20.0, 60.0), (50.0, 90.0), (55.0, 95.0)]
            .map(|(start, end)| chrome.lane(GpuId(0).0, Time::new(start), Time::new(end)));
        // The third slice starts when the first one ends, the fourth needs a thread of its own.
        assert_eq!(lanes, [1, 2, 1, 3]);
    }
}
