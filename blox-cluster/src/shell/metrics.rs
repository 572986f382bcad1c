//! Metrics for Prometheus, as text over HTTP.

use super::listen::{Connection, ConnectionLimits, connections};
use super::refusals::Refusals;
use super::scheduler::Handle;
use super::waits::{LIMITS, Waits, label};
use crate::daemon::Counters;
use crate::protocol::Millis;
use crate::protocol::scheduler::Controller;
use blox_core::NodeStatus;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_stream::StreamExt;

/// Serves `GET /metrics` and `GET /healthz` forever.
pub(super) async fn serve(listener: TcpListener, handle: Handle, refusals: Refusals) {
    let limits = ConnectionLimits::metrics();
    let mut connections = connections(listener, limits, None);
    while let Some(connection) = connections.next().await {
        let Ok(connection) = connection else {
            continue;
        };
        let (handle, refusals) = (handle.clone(), refusals.clone());
        tokio::spawn(async move {
            let answer = answer(connection, handle, refusals);
            let _ = tokio::time::timeout(limits.first_request, answer).await;
        });
    }
}

async fn answer(mut tcp: Connection, handle: Handle, refusals: Refusals) -> std::io::Result<()> {
    let mut asked = Vec::new();
    let mut buffer = [0; 1024];
    while !asked.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = tcp.read(&mut buffer).await?;
        if n == 0 || asked.len() > 8192 {
            return Ok(());
        }
        asked.extend_from_slice(&buffer[..n]);
    }
    let counters = handle.counters.clone();
    let body = if asked.starts_with(b"GET /metrics ") {
        let waits = handle.waits.clone();
        let look = move |s: &Controller, now: Millis| text(s, now, &counters, &refusals, &waits);
        let all = handle.look(look).await;
        // No other value is certain before it is on disk.
        let without = handle.counters.why_no_room().map(|_| without_room());
        all.or(without)
    } else if asked.starts_with(b"GET /healthz ") {
        handle.look(|_, _| "ok\n".to_owned()).await
    } else {
        None
    };
    let (head, body) = match body {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", String::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {head}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    tcp.write_all(head.as_bytes()).await?;
    tcp.write_all(body.as_bytes()).await?;
    tcp.shutdown().await
}

/// Name, type and description of each family of metrics, in order.
const FAMILIES: &str = "\
log_has_room gauge 1 if the log can be written; at 0, requests are rejected and no job starts.
jobs gauge Jobs that have not ended.
jobs_ended_total counter Jobs that have ended.
nodes gauge Registered nodes.
gpus gauge GPU slots: held by a job, free, failed, or of a node that is drained, lost or off.
heartbeat_age_seconds gauge Seconds since the last message of a node.
launches_total counter Ended launches, counted once for each of their nodes.
gpu_seconds_total counter GPU-seconds of ended launches.
launches_open gauge Launches that have not ended.
node_requests_total counter Requests to the provider of nodes that have ended.
node_requests_open gauge Requests to the provider of nodes that have not ended.
ignored_messages_total counter Messages without effect.
requests_refused_total counter Connections and requests refused for lack of a valid token, \
certificate or right.
epoch gauge Starts of the scheduler on this log.
plans_refused_total counter Plans rejected because they contradict their state.
stale_steps_total counter Actions of decisions that a later event made impossible, \
node actions included.
stale_node_actions_total counter Node actions without effect, because the node was unknown \
or its status did not allow them.
rounds_skipped_total counter Decision moments skipped because the last decision was late.
log_syncs_total counter Synchronizations of the log.
log_sync_seconds_total counter Seconds spent on synchronizations of the log.
log_bytes gauge Bytes of the log since its last snapshot.
steps_total counter Inputs that the scheduler processed.
decisions_total counter Decisions requested from the policy.
wait_seconds histogram Time from submission to the first start, since the start of the scheduler.
decisions_lost_total counter Requested decisions without an answer: errors, panics and timeouts.
";

/// Labels and values of the metrics, by the name of their family.
#[derive(Default)]
struct Values(BTreeMap<&'static str, Vec<(String, f64)>>);

impl Values {
    fn one(&mut self, name: &'static str, value: f64) {
        self.0.insert(name, vec![(String::new(), value)]);
    }

    fn by<L: Display>(
        &mut self,
        name: &'static str,
        label: &str,
        values: impl IntoIterator<Item = (L, f64)>,
    ) {
        let values = values.into_iter();
        let labelled = values.map(|(of, value)| (format!("{{{label}=\"{of}\"}}"), value));
        self.0.insert(name, labelled.collect());
    }

    /// Adds the histograms of waiting times. Their samples have an ending before the labels.
    fn waits(&mut self, waits: &Waits) {
        let mut samples = Vec::new();
        for ((user, gpu_type), histogram) in waits.all() {
            let labels = format!(
                "user=\"{}\",gpu_type=\"{}\"",
                label(&user),
                label(&gpu_type)
            );
            let mut count = 0;
            let limits = LIMITS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
            for (limit, n) in limits.zip(histogram.buckets) {
                count += n;
                samples.push((format!("_bucket{{{labels},le=\"{limit}\"}}"), count as f64));
            }
            samples.push((format!("_sum{{{labels}}}"), histogram.sum_s));
            samples.push((format!("_count{{{labels}}}"), count as f64));
        }
        if !samples.is_empty() {
            self.0.insert("wait_seconds", samples);
        }
    }

    /// Returns the families that have values in the text format of Prometheus.
    fn text(&self) -> String {
        let mut out = String::new();
        for line in FAMILIES.lines() {
            let mut parts = line.splitn(3, ' ');
            let (Some(name), Some(kind), Some(help)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let Some(values) = self.0.get(name) else {
                continue;
            };
            // Writing to a `String` cannot fail.
            let _ = writeln!(out, "# HELP blox_{name} {help}\n# TYPE blox_{name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(out, "blox_{name}{labels} {value}");
            }
        }
        out
    }
}

/// Returns the metric of a log without room.
fn without_room() -> String {
    let mut all = Values::default();
    all.one("log_has_room", 0.0);
    all.text()
}

fn text(
    s: &Controller,
    now: Millis,
    counters: &Counters,
    refusals: &Refusals,
    waits: &Waits,
) -> String {
    let mut all = Values::default();
    let count = |n: u64| n as f64;
    let counts = |map: BTreeMap<String, u64>| map.into_iter().map(|(of, n)| (of, n as f64));
    let durable = s.launches().durable();
    all.one("log_has_room", 1.0);

    let mut jobs: BTreeMap<String, u64> = BTreeMap::new();
    for job in durable.jobs.keys().filter_map(|id| s.view().job(*id)) {
        *jobs.entry(job.phase().to_string()).or_default() += 1;
    }
    all.by("jobs", "phase", counts(jobs));
    let mut ended = durable.archived.jobs.clone();
    for outcome in durable.jobs.keys().filter_map(|job| durable.became(*job)) {
        *ended.entry(outcome.to_owned()).or_default() += 1;
    }
    all.by("jobs_ended_total", "outcome", counts(ended));

    let cluster = s.view().cluster();
    let (mut gpus, mut nodes) = (BTreeMap::new(), BTreeMap::new());
    for node in cluster.nodes() {
        let status = match node.status() {
            NodeStatus::Up if node.cordoned().is_some() => "drained",
            NodeStatus::Up => "up",
            NodeStatus::Lost => "lost",
            NodeStatus::Off => "off",
            _ => "left",
        };
        *nodes.entry(status.to_owned()).or_default() += 1;
        // GPUs of a removed node do not count.
        for gpu in node.gpus().filter(|_| status != "left") {
            let bound = cluster.bound_to(gpu).next().is_some();
            let state = match status {
                _ if bound => "held",
                _ if !node.works(gpu) => "failed",
                "up" => "free",
                status => status,
            };
            *gpus.entry(state.to_owned()).or_default() += 1;
        }
    }
    all.by("nodes", "status", counts(nodes));
    all.by("gpus", "state", counts(gpus));
    let silent = cluster.nodes().iter().filter_map(|n| {
        let last_report_at = s.launches().last_report_at(n.id())?;
        Some((n.id(), (now - last_report_at).as_secs()))
    });
    all.by("heartbeat_age_seconds", "node", silent);

    let (mut parts, mut gpu_s) = (durable.archived.parts.clone(), durable.archived.gpu_s);
    for end in durable.accounts.values() {
        *parts.entry(end.exit.as_str().to_owned()).or_default() += 1;
        gpu_s += end.gpu_seconds();
    }
    all.by("launches_total", "exit", counts(parts));
    all.one("gpu_seconds_total", gpu_s);
    all.one("launches_open", durable.attempts.len() as f64);

    let ended = durable.requests_ended;
    let ended = [("done", ended.done), ("failed", ended.failed)];
    let ended = ended.map(|(result, n)| (result, count(n)));
    all.by("node_requests_total", "result", ended);
    all.one("node_requests_open", durable.requests.len() as f64);
    let ignored = s.launches().ignored();
    let ignored = [
        ("accounted", ignored.accounted),
        ("late-answer", ignored.late_answers),
        ("old-session", ignored.old_session),
        ("refused-node", ignored.refused_nodes),
        ("repeated", ignored.repeated),
    ];
    let ignored = ignored.map(|(kind, n)| (kind, count(n)));
    all.by("ignored_messages_total", "kind", ignored);
    all.one("epoch", count(durable.epoch.0));

    let refused = refusals.counts().into_iter();
    let refused = refused.map(|(reason, n)| (reason, count(n)));
    all.by("requests_refused_total", "reason", refused);

    let of_core = s.core().counters();
    all.one("plans_refused_total", count(of_core.refused_plans));
    all.one("stale_steps_total", count(of_core.stale_steps));
    all.one("stale_node_actions_total", count(of_core.stale_actions));
    all.one("rounds_skipped_total", count(of_core.skipped_rounds));
    let read = |c: &AtomicU64| count(c.load(Ordering::Relaxed));
    all.waits(waits);
    all.one("log_syncs_total", read(&counters.syncs));
    all.one("log_sync_seconds_total", read(&counters.sync_us) / 1e6);
    all.one("log_bytes", read(&counters.log_bytes));
    all.one("steps_total", read(&counters.steps));
    all.one("decisions_total", read(&counters.asked));
    all.one("decisions_lost_total", read(&counters.unanswered));
    all.text()
}
