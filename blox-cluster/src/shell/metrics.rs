//! Metrics for Prometheus, as text over HTTP.

use super::scheduler::Handle;
use crate::daemon::Counters;
use crate::protocol::Millis;
use crate::protocol::scheduler::Controller;
use blox_core::NodeStatus;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Serves `GET /metrics` and `GET /healthz` forever.
pub(super) async fn serve(listener: TcpListener, handle: Handle) {
    loop {
        let Ok((tcp, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let handle = handle.clone();
        tokio::spawn(async move {
            let limit = Duration::from_secs(5);
            let _ = tokio::time::timeout(limit, answer(tcp, handle)).await;
        });
    }
}

async fn answer(mut tcp: TcpStream, handle: Handle) -> std::io::Result<()> {
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
        let all = handle.look(move |s, now| text(s, now, &counters)).await;
        // No other value is certain before it is on disk.
        let without = handle.counters.why_no_room().map(|_| {
            let mut out = String::new();
            room(&mut out, false);
            out
        });
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

/// Appends one metric with one line for each label.
fn put(out: &mut String, name: &str, kind: &str, help: &str, values: &[(String, f64)]) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "# HELP blox_{name} {help}\n# TYPE blox_{name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(out, "blox_{name}{labels} {value}");
    }
}

fn room(out: &mut String, is: bool) {
    let help = "1 if the log can be written; at 0, requests are rejected and no job starts.";
    let value = vec![(String::new(), f64::from(u8::from(is)))];
    put(out, "log_has_room", "gauge", help, &value);
}

fn text(s: &Controller, now: Millis, counters: &Counters) -> String {
    let mut out = String::new();
    let one = |x: f64| vec![(String::new(), x)];
    let by = |label: &str, map: BTreeMap<String, u64>| -> Vec<(String, f64)> {
        let line = |(k, n): (String, u64)| (format!("{{{label}=\"{k}\"}}"), n as f64);
        map.into_iter().map(line).collect()
    };
    let durable = s.launches().durable();
    room(&mut out, true);

    let mut jobs: BTreeMap<String, u64> = BTreeMap::new();
    for job in durable.jobs.keys().filter_map(|id| s.view().job(*id)) {
        *jobs.entry(job.phase().to_string()).or_default() += 1;
    }
    put(
        &mut out,
        "jobs",
        "gauge",
        "Jobs that have not ended.",
        &by("phase", jobs),
    );
    let mut ended = durable.archived.jobs.clone();
    for outcome in durable.jobs.keys().filter_map(|job| durable.became(*job)) {
        *ended.entry(outcome.to_owned()).or_default() += 1;
    }
    put(
        &mut out,
        "jobs_ended_total",
        "counter",
        "Jobs that have ended.",
        &by("outcome", ended),
    );

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
                "up" => "free",
                status => status,
            };
            *gpus.entry(state.to_owned()).or_default() += 1;
        }
    }
    put(
        &mut out,
        "nodes",
        "gauge",
        "Registered nodes.",
        &by("status", nodes),
    );
    let help = "GPU slots: held by a job, free, or of a node that is drained, lost or off.";
    put(&mut out, "gpus", "gauge", help, &by("state", gpus));
    let silent: Vec<(String, f64)> = cluster
        .nodes()
        .iter()
        .filter_map(|n| {
            let heard = s.launches().heard(n.id())?;
            Some((format!("{{node=\"{}\"}}", n.id()), (now - heard).as_secs()))
        })
        .collect();
    let help = "Seconds since the last message of a node.";
    put(&mut out, "heartbeat_age_seconds", "gauge", help, &silent);

    let (mut parts, mut gpu_s) = (durable.archived.parts.clone(), durable.archived.gpu_s);
    for end in durable.accounts.values() {
        *parts.entry(end.exit.as_str().to_owned()).or_default() += 1;
        gpu_s += end.gpu_seconds();
    }
    let help = "Ended launches, counted once for each of their nodes.";
    put(
        &mut out,
        "launches_total",
        "counter",
        help,
        &by("exit", parts),
    );
    let help = "GPU-seconds of ended launches.";
    put(&mut out, "gpu_seconds_total", "counter", help, &one(gpu_s));
    let open = durable.attempts.len() as f64;
    put(
        &mut out,
        "launches_open",
        "gauge",
        "Launches that have not ended.",
        &one(open),
    );

    let ended = durable.requests_ended;
    let ended = BTreeMap::from([
        ("done".to_owned(), ended.done),
        ("failed".to_owned(), ended.failed),
    ]);
    let help = "Requests to the provider of nodes that have ended.";
    let values = by("result", ended);
    put(&mut out, "node_requests_total", "counter", help, &values);
    let help = "Requests to the provider of nodes that have not ended.";
    let open = one(durable.requests.len() as f64);
    put(&mut out, "node_requests_open", "gauge", help, &open);

    let ignored = s.launches().ignored();
    let ignored = BTreeMap::from([
        ("old-session".to_owned(), ignored.old_session),
        ("repeated".to_owned(), ignored.repeated),
        ("accounted".to_owned(), ignored.accounted),
        ("refused-node".to_owned(), ignored.refused_nodes),
        ("late-answer".to_owned(), ignored.late_answers),
    ]);
    let help = "Messages without effect.";
    put(
        &mut out,
        "ignored_messages_total",
        "counter",
        help,
        &by("kind", ignored),
    );
    let epoch = durable.epoch.0 as f64;
    put(
        &mut out,
        "epoch",
        "gauge",
        "Starts of the scheduler on this log.",
        &one(epoch),
    );

    let of_core = s.core().counters();
    for (name, help, count) in [
        (
            "plans_refused_total",
            "Plans rejected because they contradict their state.",
            of_core.refused_plans,
        ),
        (
            "stale_steps_total",
            "Actions of decisions that a later event made impossible, node actions included.",
            of_core.stale_steps,
        ),
        (
            "stale_node_actions_total",
            "Node actions without effect, because the node was unknown or its status did not allow them.",
            of_core.stale_actions,
        ),
        (
            "rounds_skipped_total",
            "Decision moments skipped because the last decision was late.",
            of_core.skipped_rounds,
        ),
    ] {
        put(&mut out, name, "counter", help, &one(count as f64));
    }

    let read = |c: &AtomicU64| c.load(Ordering::Relaxed) as f64;
    for (name, kind, help, value) in [
        (
            "log_syncs_total",
            "counter",
            "Synchronizations of the log.",
            read(&counters.syncs),
        ),
        (
            "log_sync_seconds_total",
            "counter",
            "Seconds spent on synchronizations of the log.",
            read(&counters.sync_us) / 1e6,
        ),
        (
            "log_bytes",
            "gauge",
            "Bytes of the log since its last snapshot.",
            read(&counters.log_bytes),
        ),
        (
            "steps_total",
            "counter",
            "Inputs that the scheduler processed.",
            read(&counters.steps),
        ),
        (
            "decisions_total",
            "counter",
            "Decisions requested from the policy.",
            read(&counters.asked),
        ),
        (
            "decisions_lost_total",
            "counter",
            "Requested decisions without an answer: errors, panics and timeouts.",
            read(&counters.unanswered),
        ),
    ] {
        put(&mut out, name, kind, help, &one(value));
    }
    out
}
