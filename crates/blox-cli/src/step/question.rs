//! Questions of `blox step`: all that a policy may read, as a line of JSON.

use blox_core::cluster::{Node, NodeStatus};
use blox_core::{GpuId, JobRef, Submission, Time, View};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Formats a question as a line of JSON: the jobs to decide about, the nodes and the free GPUs.
pub(super) fn question(view: View<'_>, at: Option<Time>) -> String {
    let all = view.submitted().chain(view.active());
    let usable = view.nodes().filter(|node| node.is_usable());
    let free: Vec<GpuId> = usable.flat_map(|node| free_of(view, node)).collect();
    let question = json!({
        "at": at,
        "jobs": all.map(|j| job(&j)).collect::<Vec<_>>(),
        "deferred": view.deferred().map(|j| job(&j)).collect::<Vec<_>>(),
        "free": free,
        "parts": parts(view),
        "nodes": view.nodes().map(|n| node(view, n)).collect::<Vec<_>>(),
    });
    format!("{question}\n")
}

/// Fields of an object.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or_default();
        self.0.insert(name.to_owned(), value);
    }

    /// Adds a value that most objects do not have.
    fn put_some(&mut self, name: &str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }
}

fn job(job: &JobRef<'_>) -> Value {
    let spec: &Submission = job.spec();
    let mut f = Fields::default();
    f.put("job", job.id());
    f.put("phase", job.phase().as_str());
    f.put("gpus", job.gpus());
    f.put("submit", job.submit());
    f.put("attained", job.attained_time());
    f.put("has", job.assignment().map(|on| &on.gpus));
    f.put("attained_gpu_s", job.attained_gpu_time());
    f.put("priority", spec.priority);
    f.put_some("job_id", spec.name.as_ref());
    f.put_some("user", spec.user.as_ref());
    f.put_some("virtual_cluster", spec.virtual_cluster.as_ref());
    // As the user stated them. Admission may have decided otherwise.
    f.put_some("extras", spec.extras.as_ref());
    f.put("class", job.class());
    f.put_some("deadline", job.deadline());
    f.put_some("assignment", job.assignment());
    f.put("own_rate", job.own_rate());
    f.put("rate", job.rate());
    f.put("work_done", job.work_done());
    f.put("launches", job.attempt());
    f.put("preemptions", job.preemptions());
    f.put("crashes", job.crashes());
    f.put("failed_launches", job.failed_launches());
    f.put("promoted", job.promoted());
    f.put("eligible_since", job.eligible_since());
    f.put_some("accepted_at", job.accepted_at());
    f.put_some("first_start", job.first_start());
    f.put_some("last_start", job.last_start());
    f.put_some("protected_until", job.protected_until());
    f.put_some("leaves_at", job.leaves_at());
    f.put_some("need", job.need());
    f.put_some("training_report", job.report());
    let metrics: Map<String, Value> = job
        .metrics()
        .map(|(name, series)| (name.to_string(), json!(series)))
        .collect();
    f.put_some("metrics", Some(metrics).filter(|all| !all.is_empty()));
    Value::Object(f.0)
}

fn node(view: View<'_>, node: &Node) -> Value {
    let works = |gpu: &GpuId| node.works(*gpu);
    let broken: Vec<GpuId> = node.gpus().filter(|gpu| !works(gpu)).collect();
    let partition = node.partition().and_then(|p| view.names().get(p));
    let mut f = Fields::default();
    f.put("node", node.id());
    f.put("status", status(node.status()));
    f.put("usable", node.is_usable());
    f.put("gpus", node.gpus().collect::<Vec<_>>());
    f.put("free", free_of(view, node).collect::<Vec<_>>());
    f.put_some("broken", Some(broken).filter(|list| !list.is_empty()));
    f.put_some("cordoned", node.cordoned());
    f.put_some("drain", node.drain());
    // A cluster manager may have moved the node.
    f.put_some("partition", partition);
    f.put("free_cpus", node.free_cpus());
    f.put("free_memory_gib", node.free_memory_gib());
    f.put("spec", node.spec());
    Value::Object(f.0)
}

fn status(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Up => "up",
        NodeStatus::Lost => "lost",
        NodeStatus::Off => "off",
        NodeStatus::Left => "left",
    }
}

/// Returns the working GPUs of a node that no job has, not even a part.
fn free_of<'a>(view: View<'a>, node: &'a Node) -> impl Iterator<Item = GpuId> + 'a {
    let cluster = view.cluster();
    let works = node.gpus().filter(|gpu| node.works(*gpu));
    works.filter(move |gpu| cluster.allocated_to(*gpu).next().is_none())
}

/// Returns the GPUs that several jobs have, or of which a part is free.
fn parts(view: View<'_>) -> Vec<Value> {
    let cluster = view.cluster();
    let gpus = view.nodes().flat_map(Node::gpus);
    let part = |gpu: GpuId| {
        let used = cluster.used(gpu);
        let shared = used.jobs() > 1 || (used.jobs() > 0 && used.free_fraction() > 0.0);
        let jobs: Vec<_> = cluster.allocated_to(gpu).collect();
        shared.then(|| json!({"gpu": gpu, "jobs": jobs, "free": used.free_fraction()}))
    };
    gpus.filter_map(part).collect()
}
